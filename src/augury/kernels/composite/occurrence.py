"""What a COMPOSITE makes of versions: points in the order of all that happens, versions, occurrences put together.

In: numbers. Out: the nouns that every other module here shares. They know no operator and no context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from augury import limits

FOREVER: Final = 1 << 62

Point = tuple[int, int, int, int]
"""A version: (det_time, 1, place, 0). A timer at T: (T, 0, 0, 0), before all versions with det_time ≥ T; or, if T is
when it was set, right after the version that set it: (det_time, 1, place, 1)."""

BEFORE_ALL: Final[Point] = (-FOREVER, 0, 0, 0)


@dataclass(slots=True, eq=False)
class Now:
    """A step: a version or a timer, and the last tick that has purged before it."""

    point: Point
    tick: int

    @property
    def time(self) -> int:
        """The det_time of the version, or when the timer is due."""
        return self.point[0]


def now_at(point: Point, chronon_us: int, timed: bool = False) -> Now:
    """The step at a point; the purge of the tick at T comes after a timer at T, unless a version at T came before.

    `timed`: it comes after what another class's timer at T has completed, too, and that stands here as a version.
    """
    return Now(point, (point[0] if point[1] and not timed else point[0] - 1) // chronon_us * chronon_us)


def timer_point(due: int, end: Point) -> Point:
    """Where a timer stands that is due at a time and was set at `end`."""
    if due > end[0]:
        return (due, 0, 0, 0)
    return (end[0], end[1], end[2], end[1])


# Not frozen, though nobody changes them: a frozen one takes three times as long to make.


@dataclass(slots=True, eq=False)
class Version:
    """A version that fits some leaf. `until`: a tick after it purges. `values` are those that anything asks for.

    By occurrence `det_time` is the time of the clock, and when it was detected one of the values.
    """

    place: int
    seq: int
    occ_time: int
    det_time: int
    until: int
    name: str
    values: Mapping[str, Any]
    constituents: tuple[int, ...] | None


Part = tuple[Version, int]
"""A version at a leaf."""


@dataclass(slots=True, eq=False)
class Occ:
    """An occurrence: versions by place, where it starts and ends, the times of its end, and what is true of all.

    `least` and `most` are the first and last occ_time of its versions, `until` when the first of them leaves.
    """

    parts: tuple[Part, ...]
    start: Point
    end: Point
    occ_time: int
    det_time: int
    least: int
    most: int
    until: int

    @property
    def places(self) -> tuple[int, ...]:
        """Its versions, in order."""
        return tuple([version.place for version, _ in self.parts])


def single(version: Version, leaf: int) -> Occ:
    """A version at a leaf as an occurrence."""
    point = (version.det_time, 1, version.place, 0)
    occ = version.occ_time
    return Occ(((version, leaf),), point, point, occ, version.det_time, occ, occ, version.until)


def later(of: Occ, point: Point, occ_time: int) -> Occ:
    """The occurrence that a timer makes of one."""
    return Occ(of.parts, of.start, point, occ_time, point[0], of.least, of.most, of.until)


def merged(occs: Sequence[Occ]) -> Occ | None:
    """All versions of some occurrences; None if one stands at two leaves."""
    if len(occs) == 1:
        return occs[0]
    if len(occs) == 2 and len(occs[0].parts) == 1 == len(occs[1].parts):
        return _pair(*occs)
    by_place: dict[int, Part] = {}
    for one in occs:
        for part in one.parts:
            if by_place.setdefault(part[0].place, part)[1] != part[1]:
                return None
    last = max(occs, key=lambda one: (one.end, one.occ_time))
    return Occ(
        tuple([by_place[place] for place in sorted(by_place)]),
        min([one.start for one in occs]),
        last.end,
        last.occ_time,
        last.det_time,
        min([one.least for one in occs]),
        max([one.most for one in occs]),
        min([one.until for one in occs]),
    )


def _pair(one: Occ, other: Occ) -> Occ | None:
    """Two single versions, which is what most occurrences are made of."""
    part, last = one.parts[0], other.parts[0]
    if part[0].place == last[0].place:
        return None if part[1] != last[1] else one if (one.end, one.occ_time) >= (other.end, other.occ_time) else other
    parts = (part, last) if part[0].place < last[0].place else (last, part)
    end = one if (one.end, one.occ_time) > (other.end, other.occ_time) else other
    least, most = (one.least, other.most) if one.least <= other.least else (other.least, one.most)
    return Occ(
        parts,
        one.start if one.start < other.start else other.start,
        end.end,
        end.occ_time,
        end.det_time,
        least,
        most,
        one.until if one.until < other.until else other.until,
    )


def share(one: Occ, other: Occ) -> bool:
    """Whether they have a version in common."""
    if len(one.parts) == 1 and len(other.parts) == 1:
        return one.parts[0][0].place == other.parts[0][0].place
    return not set(one.places).isdisjoint(other.places)


def conflict(one: Occ, other: Occ) -> bool:
    """Whether a version stands at different leaves of the two."""
    leaves = {version.place: leaf for version, leaf in one.parts}
    return any(leaves.get(version.place, leaf) != leaf for version, leaf in other.parts)


def distinct(found: list[Occ]) -> list[Occ]:
    """The occurrences of an operator at one step, oldest versions first; of equal sets only the first counts."""
    if len(found) < 2:
        return found
    once: dict[tuple[tuple[int, ...], int], Occ] = {}
    for one in found:
        once.setdefault((one.places, one.occ_time), one)
    return sorted(once.values(), key=lambda one: one.places)


@dataclass(slots=True)
class Window:
    """What a timer or a closing will ask for: an opening, and how many periods have passed."""

    number: int
    opening: Occ
    periods: int = 0


Partial = tuple[tuple[int, Occ], ...]
"""Operands by slot that wait together; the first opened it."""


@dataclass(slots=True)
class NodeState:
    """What a node keeps: operands by slot or together, middles, absences, windows, and where it fired last.

    Nothing kept leaves before the tick `floor`.
    """

    kept: list[list[Occ]]
    partials: list[Partial] = field(default_factory=list)
    middles: list[Occ] = field(default_factory=list)
    absent: list[Occ] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    fired: Point = BEFORE_ALL
    floor: int = FOREVER
    dropped: int = 0

    def keep(self, into: list[Occ], one: Occ) -> None:
        """Add an operand to one of the lists."""
        if len(into) >= limits.COMPOSITE_KEPT_MAX:
            del into[0]
            self.dropped += 1
        into.append(one)
        self.floor = min(self.floor, one.until)

    def keep_partial(self, partial: Partial) -> None:
        """Add operands that wait together."""
        if len(self.partials) >= limits.COMPOSITE_KEPT_MAX:
            del self.partials[0]
            self.dropped += 1
        self.partials.append(partial)
        self.floor = min(self.floor, *(one.until for _, one in partial))

    def open_window(self, window: Window) -> None:
        """Add a window."""
        if len(self.windows) >= limits.COMPOSITE_KEPT_MAX:
            del self.windows[0]
            self.dropped += 1
        self.windows.append(window)
        self.floor = min(self.floor, window.opening.until)

    def purge(self, tick: int) -> None:
        """Let go what has expired."""
        if tick > self.floor:
            self.only(lambda one: one.until >= tick)
            self.floor = min((one.until for one in self.everything()), default=FOREVER)

    def drop_older(self, least: int) -> None:
        """Let go what has a version that occurred before a time."""
        self.only(lambda one: one.least >= least)

    def only(self, stays: Any) -> None:
        """Keep what a test lets pass."""
        self.kept = [list(filter(stays, slot)) for slot in self.kept]
        # Each of the others has opened one of its own.
        self.partials = [
            tuple([(slot, one) for slot, one in partial if stays(one)])
            for partial in self.partials
            if stays(partial[0][1])
        ]
        self.middles = list(filter(stays, self.middles))
        self.absent = list(filter(stays, self.absent))
        self.windows = [window for window in self.windows if stays(window.opening)]

    def everything(self) -> Iterable[Occ]:
        """All that is kept."""
        for slot in self.kept:
            yield from slot
        for partial in self.partials:
            yield from (one for _, one in partial)
        yield from self.middles
        yield from self.absent
        for window in self.windows:
            yield window.opening

    def copied(self) -> NodeState:
        """One that goes its own way from here on."""
        windows = [Window(w.number, w.opening, w.periods) for w in self.windows]
        kept = [list(slot) for slot in self.kept]
        lists = list(self.partials), list(self.middles), list(self.absent)
        return NodeState(kept, *lists, windows, self.fired, self.floor, self.dropped)


Timer = tuple[Point, int, int, int, Occ | None]
"""When, a number that breaks ties, the node, the window if it has one, and the occurrence if it belongs to one."""


@dataclass(slots=True)
class KeyState:
    """The graph of one key: a state per node, timers as a heap, and a number that no timer or window has had."""

    nodes: list[NodeState]
    timers: list[Timer] = field(default_factory=list)
    serial: int = 0

    def copied(self) -> KeyState:
        """One that goes its own way from here on."""
        return KeyState([node.copied() for node in self.nodes], list(self.timers), self.serial)

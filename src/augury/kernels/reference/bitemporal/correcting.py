"""ORDER BY OCCURRENCE: the corrected history of a class, and what holds in it (LANGUAGE.md section 6).

In: the versions that a class reads, in the order in which they came. Out: what held before and after each of them, and
before and after the clock has passed a timer. Everything is detected afresh, over the current versions in order of
(occ_time, seq), with occ_time as the time of the clock.

In the corrected history a version has the place (occ_time, 2, (place at which it came,)), and what takes place at it
has that place, too; what a timer completes at T has (T, 0, ()), before all that happens at T.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Choice, MatchPlan
from augury.algebra.program import ClassPlan
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.reference.bitemporal.detecting import Found, Item, Place, occurrences, order_of
from augury.kernels.reference.bitemporal.version import Change, EventId, Key, Version, key_values, ranks

Holding = Mapping[tuple[object, ...], Found]
"""The newest occurrence of every event, by what its identity is sorted by."""


@dataclass
class Corrected:
    """The corrected history of a class, and what holds in it.

    `current` has the version of each event that a later one takes out, `settled` those that none can take out any
    more; `newest` is the greatest occ_time seen, `clock` how far the clock went, `looked_at` how many versions of the
    program were looked at.
    """

    current: dict[EventId, Item] = field(default_factory=dict)
    settled: list[Item] = field(default_factory=list)
    newest: int | None = None
    clock: int | None = None
    looked_at: int = 0
    holding: Holding = field(default_factory=dict)

    @property
    def items(self) -> list[Item]:
        """All that is in the history, in no order."""
        return [*self.settled, *self.current.values()]

    @property
    def reached(self) -> int | None:
        """The timers up to then are due: the clock or the greatest occ_time of the history has passed them."""
        times = [_occ_time(item) for item in self.items]
        return max([*times, *([] if self.clock is None else [self.clock])], default=None)


@dataclass(frozen=True, slots=True)
class Turn:
    """What held before and after a version, or a time of the clock; `seq` is None for the latter."""

    place: Place
    seq: int | None
    det_time: int
    before: Holding
    after: Holding


def turns(
    plan: ClassPlan,
    classes: Mapping[str, EventClass],
    corrected: Corrected,
    items: Sequence[Item],
    tick: int,
    chronon_us: int,
) -> Iterator[Turn]:
    """What every version that came since the tick before does, and every timer that was due by the tick."""
    came = [item for item in items[corrected.looked_at :] if _is_read(plan, classes, item)]
    corrected.looked_at = len(items)
    came.sort(key=lambda item: (item.place, item.order))

    def turned(place: Place) -> Turn:
        before, corrected.clock = corrected.holding, place[0]
        corrected.holding = _holding(plan, classes, corrected, items, chronon_us)
        is_version = place[1] == 2 and place[3] == 0
        return Turn(place, place[2][0] if is_version else None, place[0], before, corrected.holding)

    def timers(until: int) -> list[int]:
        """The times after now at which something takes place, if no version comes."""
        reached = corrected.reached
        if reached is None or reached >= until or isinstance(plan.derivation, MatchPlan):
            return []
        later = replace(corrected, clock=until)
        found = _found(plan, classes, later, items, chronon_us)
        return sorted({one.det_time for one in found if one.det_time > reached})

    for place, together in groupby(came, key=lambda item: item.place):
        for time in timers(place[0]):
            # What a timer of a class below completed at that time comes with this one.
            if (time, 0) < place[:2]:
                yield turned((time, 0, (), 0))
        _take(plan, classes, corrected, list(together))
        yield turned(place)
    for time in timers(tick):
        yield turned((time, 0, (), 0))


def _is_read(plan: ClassPlan, classes: Mapping[str, EventClass], item: Item) -> bool:
    """OVER says what the history has; else a MATCH has all but complex classes, and what is named."""
    derivation, name = _derivation(plan), item.version.event_class
    if derivation.over is not None:
        return key_of(name) in map(key_of, derivation.over)
    is_named = key_of(name) in map(key_of, plan.reads)
    return is_named or (isinstance(derivation, MatchPlan) and classes[name].kind is not ClassKind.COMPLEX)


def _derivation(plan: ClassPlan) -> MatchPlan | CompositePlan:
    assert isinstance(plan.derivation, MatchPlan | CompositePlan)
    return plan.derivation


# ---- the corrected history -------------------------------------------------------------------------


def _take(plan: ClassPlan, classes: Mapping[str, EventClass], corrected: Corrected, items: Sequence[Item]) -> None:
    """Versions that came at one place, put in the place of those that they replace."""
    order = _derivation(plan).by_occurrence
    assert order is not None
    allowed = None if order.allowing_us is None or corrected.newest is None else corrected.newest - order.allowing_us
    for item in items:
        event, occ_time = item.version.event, item.version.occ_time
        if item.version.change is Change.ANNOUNCE and event in corrected.current:
            # The event that had this key was purged, or its withdrawal came too late: it stays as it was.
            corrected.settled.append(corrected.current.pop(event))
        old = corrected.current.get(event)
        times = [occ_time, None if old is None else old.version.occ_time]
        if allowed is not None and any(time is not None and time < allowed for time in times):
            continue
        if _is_expired(item.version, classes[item.version.event_class].lifespan_us):
            continue
        if occ_time is None:
            corrected.current.pop(event, None)
        else:
            corrected.current[event] = item
    seen = [_occ_time(item) for item in corrected.current.values()]
    corrected.newest = max([*seen, *([] if corrected.newest is None else [corrected.newest])], default=None)


def _is_expired(version: Version, lifespan_us: int | None) -> bool:
    """Whether its lifespan had ended when it was accepted."""
    if version.occ_time is None or lifespan_us is None:
        return False
    return version.occ_time + lifespan_us < version.det_time


def _occ_time(item: Item) -> int:
    assert item.version.occ_time is not None
    return item.version.occ_time


# ---- what holds ------------------------------------------------------------------------------------


def _holding(
    plan: ClassPlan, classes: Mapping[str, EventClass], corrected: Corrected, items: Sequence[Item], chronon_us: int
) -> Holding:
    """Of the occurrences of one event the last counts."""
    found = _found(plan, classes, corrected, items, chronon_us)
    return {ranks(identity(plan, one)): one for one in found}


def _found(
    plan: ClassPlan, classes: Mapping[str, EventClass], corrected: Corrected, items: Sequence[Item], chronon_us: int
) -> list[Found]:
    """All occurrences, as they take place in the corrected history.

    Those at one place come by constituents, as everywhere; here these are compared in the order of this history.
    """
    reached = corrected.reached
    if reached is None:
        return []
    plain = replace(plan, derivation=replace(_derivation(plan), by_occurrence=None))
    found = occurrences(plain, classes, [_by_occurrence(item) for item in corrected.items], reached, chronon_us)
    happened = {item.version.seq: item.version.occ_time for item in items if item.is_read}
    return sorted(
        found,
        key=lambda one: (
            one.place,
            sorted((happened[seq], seq) for seq in one.constituents),
            ranks(one.values),
            one.occ_time,
        ),
    )


def _by_occurrence(item: Item) -> Item:
    """A version at its place in the corrected history: the clock shows its occ_time when it comes."""
    occ_time = _occ_time(item)
    return replace(
        item,
        version=replace(item.version, det_time=occ_time),
        place=item.corrected_place or (occ_time, 2, (item.place,), 0),
        detected=item.version.det_time,
    )


def identity(plan: ClassPlan, found: Found) -> Key:
    """What an event is known by: the key; without one the constituents, and the values where there may be several."""
    if plan.event_class.key:
        return key_values(plan.event_class, found.values)
    match plan.derivation:
        case MatchPlan(choice=Choice.ALL, feeds=feeds) if not any(isinstance(f.value, Aggregate) for f in feeds):
            return (*found.constituents, *found.values)
        case _:
            return found.constituents


# ---- what is said ----------------------------------------------------------------------------------


def said(plan: ClassPlan, declared: int, turn: Turn, live: Mapping[EventId, Version]) -> list[Item]:
    """What a turn announces, changes and withdraws: by key, constituents, values.

    As with SELECTs, what is there no more because it was purged is not withdrawn, and what becomes of it is new.
    """
    name = plan.event_class.name
    rows: list[Item] = []
    for known_by in {*turn.before, *turn.after}:
        before, after = turn.before.get(known_by), turn.after.get(known_by)
        if before is not None and after is not None and _as_said(before) == _as_said(after):
            continue
        one = before if after is None else after
        assert one is not None
        key = identity(plan, one)
        is_there = (name, key) in live
        if after is None and not is_there:
            continue
        change = Change.WITHDRAW if after is None else Change.CHANGE if is_there else Change.ANNOUNCE
        version = Version(
            *(name, key, one.values, None if after is None else one.occ_time, turn.det_time, change),
            seq=turn.seq,
            constituents=one.constituents,
        )
        rows.append(Item(version, turn.place, (declared, *order_of(one, plan.event_class)), corrected_place=one.place))
    return sorted(rows, key=lambda item: item.order)


def _as_said(found: Found) -> object:
    """Two of these are equal also where values are NaN."""
    return found.occ_time, found.constituents, ranks(found.values)

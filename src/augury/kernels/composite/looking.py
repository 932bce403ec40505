"""RECENT's look at an expression: over what is kept, all that it holds as, with the rank of each.

In: the shapes of a node and the state of a key. Out: occurrences, each with the choices of OR and ANY that it came by.
Shapes with one filling have the same versions at their leaves; they are worked out together, operand by operand, and
of those that come to the same only the best is followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from augury.graphs import graph as g
from augury.kernels.composite.joins import absent_between, between, going
from augury.kernels.composite.network import middle_of
from augury.kernels.composite.nodes import in_bounds
from augury.kernels.composite.occurrence import (
    BEFORE_ALL,
    KeyState,
    NodeState,
    Now,
    Occ,
    Point,
    later,
    merged,
)
from augury.kernels.composite.scalars import Tests
from augury.kernels.composite.shapes import Filling, Shapes, latest, positive_below
from augury.kernels.composite.timed import due_point

Rank = tuple[tuple[object, ...], ...]
"""How a shape compares: for each OR, ANY, `&` and window, outermost first, when its choice ended, and how far left."""

Openings = tuple[tuple[int, Occ], ...]
"""The windows that an occurrence was made in and that are still open."""

At = tuple[int, ...]
"""How many leaves of each class to be shared out stand to the left."""


@dataclass(slots=True, eq=False)
class Held:
    """An occurrence of a node over what is kept."""

    occ: Occ
    at: At
    rank: Rank = ()
    openings: Openings = ()


@dataclass(slots=True)
class Looker:
    """What is asked of a graph at every look."""

    graph: g.Graph
    tests: Tests
    shapes: Shapes
    middles: Mapping[int, Mapping[int, int]] = field(init=False)
    needs: Sequence[Sequence[tuple[int, int]]] = field(init=False)

    def __post_init__(self) -> None:
        """Say once which leaves belong to which open repetition, and how many versions a filling takes of each."""
        nodes = enumerate(self.graph.nodes)
        self.middles = {n: middle_of(self.graph, node) for n, node in nodes if isinstance(node, g.JoinNode)}
        self.needs = [tuple(sum(map(Counter, one), Counter()).items()) for one in self.shapes.fillings]

    def is_possible(self, key: KeyState) -> bool:
        """Whether the leaves that every shape has can be filled."""
        return all(key.nodes[leaf].kept[0] for leaf in self.shapes.always)

    def look(self, key: KeyState, now: Now) -> Iterator[Held]:
        """All that the node holds as now."""
        kept: dict[int, dict[int, Occ]] = {}
        places: dict[int, list[int]] = {}
        for filling, needs in zip(self.shapes.fillings, self.needs, strict=True):
            if any(len(key.nodes[leaf].kept[0]) < count for leaf, count in needs):
                continue
            if not kept:
                kept = {n: {one.parts[0][0].place: one for one in key.nodes[n].kept[0]} for n in self.shapes.place}
                places = {leaf: list(by_place) for leaf, by_place in kept.items()}
            given = [latest(leaves, places) if leaves else [] for leaves in filling]
            filled = [versions for versions in given if versions is not None]
            if len(filled) == len(given):
                yield from _Look(self, key, now, kept, filling, filled).whole()


@dataclass(slots=True)
class _Look:
    """One filling: which versions stand at its leaves, and what was found of it so far."""

    looker: Looker
    key: KeyState
    now: Now
    kept: Mapping[int, Mapping[int, Occ]]
    filling: Filling
    given: Sequence[Sequence[int]]
    taken: frozenset[int] = frozenset()
    known: dict[tuple[int, At], list[Held]] = field(default_factory=dict)

    def whole(self) -> Iterator[Held]:
        """All that uses every version of the filling."""
        self.taken = frozenset(version for versions in self.given for version in versions)
        all_used = tuple(map(len, self.given))
        for one in self.held(self.looker.shapes.node, (0,) * len(self.given)):
            if one.at == all_used:
                yield one

    def held(self, number: int, at: At) -> list[Held]:
        """What a node holds as, if so many leaves stand to its left."""
        found = self.known.get((number, at))
        if found is None:
            found = self.known[number, at] = _best(self._held(number, at))
        return found

    def _held(self, number: int, at: At) -> Iterator[Held]:
        node = self.looker.graph.nodes[number]
        match node:
            case g.LeafNode():
                yield from self._leaf(number, at)
            case g.EitherNode(sides=sides):
                for i, side in enumerate(sides):
                    for one in self.held(side, at):
                        yield Held(one.occ, one.at, ((one.occ.end, -i), *one.rank), one.openings)
            case g.JoinNode():
                yield from self._join(number, node, at)
            case g.RepeatNode():
                yield from self._repeat(node, at)
            case g.AperiodicNode() | g.PeriodicNode():
                yield from self._windows(number, node, at)
            case g.GuardNode(operand=operand) | g.BoundedNode(operand=operand) | g.FilterNode(operand=operand):
                yield from (one for one in self.held(operand, at) if self._passes(number, node, one.occ))
            case g.PlusNode(operand=operand, delay_us=delay) | g.AbsentForNode(operand=operand, delay_us=delay):
                for one in self.held(operand, at):
                    made = self._timer(one.occ, delay)
                    if made is not None and not self._came(number, node, one.occ, made):
                        yield Held(made, one.at, one.rank, one.openings)
            case _:
                assert_never(node)

    def _leaf(self, number: int, at: At) -> Iterator[Held]:
        shapes = self.looker.shapes
        place = shapes.place.get(number)
        if place is None:
            yield from (Held(one, at) for one in self.key.nodes[number].kept[0][-1:])
            return
        count = at[place]
        if count < len(self.filling[place]) and self.filling[place][count] == shapes.like[number]:
            version = self.given[place][count]
            after = (*at[:place], count + 1, *at[place + 1 :])
            yield Held(self.kept[number][version], after)

    # ---- one operand --------------------------------------------------------------------------------

    def _passes(self, number: int, node: g.GuardNode | g.BoundedNode | g.FilterNode, one: Occ) -> bool:
        match node:
            case g.GuardNode(before=before, scope=scope):
                there = not_too_old(self.key.nodes[number].absent, one, scope.within_us)
                if any(b.end < one.start or not before for b in there):
                    return False
                return self.looker.tests.passes(scope, one)
            case g.BoundedNode():
                return in_bounds(node, one)
            case g.FilterNode(scope=scope):
                return self.looker.tests.passes(scope, one)
            case _:
                assert_never(node)

    def _timer(self, of: Occ, delay_us: int) -> Occ | None:
        point = due_point(of, delay_us)
        return None if point > self.now.point else later(of, point, of.occ_time + delay_us)

    def _came(self, number: int, node: g.PlusNode | g.AbsentForNode, opening: Occ, made: Occ) -> bool:
        if isinstance(node, g.PlusNode):
            return False
        return any(opening.end < b.start and b.end < made.end for b in self.key.nodes[number].absent)

    # ---- several operands -----------------------------------------------------------------------------

    def _join(self, number: int, node: g.JoinNode, at: At) -> Iterator[Held]:
        for chosen, parts in self._chosen(node.slots, node.needed, at):
            made = self._joined(number, node, [one.occ for one in parts])
            if made is not None:
                # `&` is ANY of all.
                ends = tuple(sorted((one.occ.end for one in parts), reverse=True))
                own: Rank = () if node.ordered else ((ends, tuple(-slot for slot in chosen)),)
                yield _together(made, parts, own)

    def _chosen(self, slots: Sequence[int], needed: int, at: At) -> Iterator[tuple[tuple[int, ...], list[Held]]]:
        """Every choice of so many operands, with each way in which they hold, leftmost first."""
        if needed == 0:
            yield (), []
            return
        for i in range(len(slots) - needed + 1):
            for one in self.held(slots[i], at):
                for chosen, rest in self._chosen(slots[i + 1 :], needed - 1, one.at):
                    yield (i, *(i + 1 + other for other in chosen)), [one, *rest]

    def _joined(self, number: int, node: g.JoinNode, found: list[Occ]) -> Occ | None:
        state, right = self.key.nodes[number], found[-1]
        if node.ordered:
            after = BEFORE_ALL
            if len(found) == 2:
                after = found[0].end
                if after >= right.start:
                    return None
            there = not_too_old(state.absent, right, node.scope.within_us)
            if any(True for _ in absent_between(there, after, right)):
                return None
            middle_of_leaf = self.looker.middles[number]
            for i, middle in enumerate(node.middles):
                own = [one for one in state.middles if middle_of_leaf[one.parts[0][1]] == i]
                gathered = self._gathered(own, after, right, found, node.scope)
                if len(gathered) < middle.count:
                    return None
                found = [*found, *gathered]
        made = merged(found)
        return made if made is not None and self.looker.tests.passes(node.scope, made) else None

    def _gathered(
        self, middles: Sequence[Occ], after: Point, right: Occ, beside: Sequence[Occ], scope: g.Scope
    ) -> list[Occ]:
        """All that lie between, stand at no leaf, and go with the others, oldest first."""
        apart = [one for one in between(middles, after, right) if self.taken.isdisjoint(one.places)]
        return going(apart, beside, scope, self.looker.tests, None)

    def _repeat(self, node: g.RepeatNode, at: At) -> Iterator[Held]:
        """Copy by copy; where several ways come to the same set of versions the best is followed."""
        ways: list[list[Held]] = [[one] for one in self.held(node.operand, at)]
        for _ in range(node.count - 1):
            longer: list[list[Held]] = []
            for way in ways:
                nexts = self.held(node.operand, way[-1].at)
                if len(ways) == 1 and len(nexts) == 1:
                    way.append(nexts[0])
                    longer = ways
                else:
                    longer += [[*way, one] for one in nexts]
            ways = longer if len(longer) < 2 else _best_ways(longer)
        for way in ways:
            made = merged([one.occ for one in way])
            if made is not None and self.looker.tests.passes(node.scope, made):
                yield _together(made, way, ())

    # ---- windows -------------------------------------------------------------------------------------

    def _windows(self, number: int, node: g.AperiodicNode | g.PeriodicNode, at: At) -> Iterator[Held]:
        """With an opening of its own, or with one that has served a firing already."""
        for one in self.held(node.opening, at):
            yield from self._window(number, node, one, True)
        if not node.gathered:
            for window in self.key.nodes[number].windows[-1:]:
                opened = Held(window.opening, at, (), tuple(self._still_open(node.opening)))
                yield from self._window(number, node, opened, False)

    def _still_open(self, opening: int) -> Iterator[tuple[int, Occ]]:
        """The windows that an opening was made in, which stay with it as long as they are open."""
        for number in positive_below(self.looker.graph, opening):
            for window in self.key.nodes[number].windows:
                if not any(window.opening.end < one.start for one in self.key.nodes[number].absent):
                    yield number, window.opening

    def _window(
        self, number: int, node: g.AperiodicNode | g.PeriodicNode, opened: Held, is_own: bool
    ) -> Iterator[Held]:
        state, opening = self.key.nodes[number], opened.occ
        closings = [one for one in state.absent if opening.end < one.start]
        own: Rank = () if node.gathered else ((is_own,),)
        stays: Openings = ((number, opening),) if not closings and not node.gathered else ()
        if isinstance(node, g.PeriodicNode) and not node.gathered:
            pulse = self._pulse(node, opening, closings)
            if pulse is not None:
                yield _together(pulse, [opened], own, stays)
            return
        for end in self.held(_end_of(node), opened.at):
            made = self._between(node, state, opening, end.occ, closings)
            if made is not None:
                yield _together(made, [opened, end], own, stays)

    def _between(
        self, node: g.AperiodicNode | g.PeriodicNode, state: NodeState, opening: Occ, end: Occ, closings: list[Occ]
    ) -> Occ | None:
        if opening.end >= end.start:
            return None
        if any(one.end < end.end or (one.end == end.end and not node.gathered) for one in closings):
            return None
        parts = [opening, end]
        if node.gathered and isinstance(node, g.AperiodicNode):
            middles = self._gathered(state.middles, opening.end, end, parts, node.scope)
            parts = [*parts, *middles] if middles else []
        elif isinstance(node, g.PeriodicNode) and due_point(opening, node.period_us) >= end.start:
            parts = []
        made = merged(parts) if parts else None
        return made if made is not None and self.looker.tests.passes(node.scope, made) else None

    def _pulse(self, node: g.PeriodicNode, opening: Occ, closings: list[Occ]) -> Occ | None:
        """The latest of its times that has come, was not spent by a firing, and is before every closing."""
        before = min((one.end for one in closings), default=None)
        count = pulses_by(node, opening, self.now.point, before)
        point = due_point(opening, count * node.period_us)
        if count == 0 or point <= self.key.nodes[self.looker.graph.root].fired:
            return None
        return later(opening, point, opening.occ_time + count * node.period_us)


def pulses_by(node: g.PeriodicNode, opening: Occ, by: Point, before: Point | None) -> int:
    """How many of its times a PERIODIC has had by a point, and before another."""
    until = by[0] if before is None else min(by[0], before[0])
    least, most = 0, max(0, (until - opening.occ_time) // node.period_us)
    # Points do not go back, and an opening that was detected late has very many at once.
    while least < most:
        count = (least + most + 1) // 2
        point = due_point(opening, count * node.period_us)
        if point <= by and (before is None or point < before):
            least = count
        else:
            most = count - 1
    return least


def not_too_old(found: list[Occ], beside: Occ, within: int | None) -> list[Occ]:
    """Those that are not too old beside an operand."""
    return found if within is None else [one for one in found if one.least >= beside.most - within]


def _end_of(node: g.AperiodicNode | g.PeriodicNode) -> int:
    return node.middle if isinstance(node, g.AperiodicNode) and not node.gathered else node.closing


def _together(made: Occ, parts: Sequence[Held], own: Rank, stays: Openings = ()) -> Held:
    rank = own + tuple(entry for part in parts for entry in part.rank)
    openings = tuple(window for part in parts for window in part.openings) + stays
    return Held(made, parts[-1].at, rank, openings)


def _best(found: Iterable[Held]) -> list[Held]:
    """Of those that come to the same, that of the best rank."""
    all_found = list(found)
    if len(all_found) < 2:
        return all_found
    best: dict[object, Held] = {}
    for one in all_found:
        key = one.at, _what(one)
        if key not in best or one.rank > best[key].rank:
            best[key] = one
    return list(best.values())


def _best_ways(ways: list[list[Held]]) -> list[list[Held]]:
    """The same for operands of which one occurrence will be made."""
    best: dict[object, tuple[Rank, list[Held]]] = {}
    for way in ways:
        key = way[-1].at, frozenset(_what(one) for one in way)
        rank = tuple(entry for one in way for entry in one.rank)
        if key not in best or rank > best[key][0]:
            best[key] = rank, way
    return [way for _, way in best.values()]


def _what(one: Held) -> object:
    """What any operator above could see of it."""
    occ = one.occ
    return tuple([(version.place, leaf) for version, leaf in occ.parts]), occ.start, occ.end, occ.occ_time

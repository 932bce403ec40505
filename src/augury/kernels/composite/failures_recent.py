"""Why a COMPOSITE in RECENT did not take place at a step; see `why_not`, which asks.

In: a place in the history of a key. Out: the operand to blame, and a sentence. Every way to satisfy the expression is
looked at over what is kept, as `recent` does, and the one that gets furthest is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, product
from typing import Final, assert_never

from augury.graphs import graph as g
from augury.kernels.composite.failures import bounded, guarded
from augury.kernels.composite.failures_timed import by_the_clock, came_after, next_period
from augury.kernels.composite.joins import between
from augury.kernels.composite.network import leaf_nodes
from augury.kernels.composite.nodes import in_bounds
from augury.kernels.composite.occurrence import (
    BEFORE_ALL,
    KeyState,
    NodeState,
    Occ,
    Point,
    later,
    merged,
    share,
    single,
)
from augury.kernels.composite.past import point_of, steps
from augury.kernels.composite.protocol import Evaluation
from augury.kernels.composite.shapes import class_of, latest
from augury.kernels.composite.telling import GONE, SHARED, Asked, Failure, furthest
from augury.kernels.composite.timed import due_point

_WAYS_TRIED: Final = 64
"""How many ways to satisfy an expression are looked at."""


@dataclass(slots=True)
class Recently(Asked):
    """A graph that is looked at as a whole, over the latest versions since its last firing."""

    evaluation: Evaluation
    state: KeyState = field(init=False)
    fired: Point = field(init=False, default=BEFORE_ALL)
    leaves_here: frozenset[int] = field(init=False, default=frozenset())
    """The nodes of the leaves at which the version in question stands."""

    def __post_init__(self) -> None:
        """Run the graph up to the step; what it keeps then is what it has looked at."""
        self.state = self.evaluation.empty()
        nodes = leaf_nodes(self.graph)
        for now, arriving in steps(self.state, self.past.standing(self.key), self.point, self.past.chronon_us):
            if self.evaluation.step(self.state, now, arriving) and now.point != self.point:
                self.fired = now.point
            if now.point == self.point:
                self.leaves_here = frozenset(nodes[leaf] for leaf, _ in arriving)

    def whole(self) -> Failure:
        """Why the whole did not take place."""
        ways = ways_of(self.graph, self.graph.root)
        failures = [self._of_way(way) for way in ways]
        if all(failure.is_other for failure in failures):
            ends = dict.fromkeys(leaf for way in ways for leaf in _ends(self.graph, way))
            return self.none_of(self.graph.root, [self.misfit(leaf) for leaf in ends])
        return furthest(failures)

    def _of_way(self, way: Way) -> Failure:
        ends = list(dict.fromkeys(_ends(self.graph, way)))
        if ends and self.leaves_here.isdisjoint(ends) and (self.place is not None or not _timers(self.graph, way)):
            return self.none_of(self.graph.root, [self.misfit(leaf) for leaf in ends])
        slots = tuple(way.leaves())
        kept = {leaf: self.state.nodes[leaf].kept[0] for leaf in slots}
        given = self._given(slots, kept)
        if isinstance(given, Failure):
            return given
        found = self._holds(way, iter(given), given)
        if isinstance(found, Failure):
            return found
        root = self.graph.root
        holds = f"{self.text(root)} holds with {', '.join(self.seq(place) for place in found.places)}"
        if self.place in found.places:
            return self.blame(root, f"{holds}, and is passed over")
        return self.blame(root, f"{holds}, but nothing that comes at {self.here} takes part in it")

    # ---- what is kept -----------------------------------------------------------------------------

    def _given(self, slots: Sequence[int], kept: dict[int, list[Occ]]) -> list[Occ] | Failure:
        """The versions that stand at the leaves: of each class the latest, the oldest leftmost."""
        for leaf in slots:
            if not kept[leaf]:
                return self._gone(leaf)
        places = {leaf: [one.parts[0][0].place for one in kept[leaf]] for leaf in kept}
        found: dict[int, Occ] = {}
        for name in dict.fromkeys(class_of(self.graph, leaf) for leaf in slots):
            own = [i for i, leaf in enumerate(slots) if class_of(self.graph, leaf) == name]
            chosen = latest([slots[i] for i in own], places)
            if chosen is None:
                return self._lacking([slots[i] for i in own], places)
            for i, place in zip(own, chosen, strict=True):
                found[i] = next(one for one in kept[slots[i]] if one.parts[0][0].place == place)
        return [found[i] for i in range(len(slots))]

    def _lacking(self, leaves: Sequence[int], places: dict[int, list[int]]) -> Failure:
        """The leaves of a class that have too few versions between them."""
        there = sorted({place for leaf in leaves for place in places[leaf]})
        few = f"only {len(there)} of {len(leaves)}" if len(there) < len(leaves) else f"no {len(leaves)}"
        texts = ", ".join(dict.fromkeys(map(self.text, leaves)))
        seqs = ", ".join(map(self.seq, there))
        return self.blame(leaves[-1], f"{few} events for {texts} are kept: {seqs}")

    def _gone(self, leaf: int) -> Failure:
        """Why a leaf has no version."""
        node = self.graph.nodes[leaf]
        assert isinstance(node, g.LeafNode)
        seen = [version for version, leaves in self.past.standing(self.key) if node.leaf in leaves]
        seen = [version for version in seen if point_of(version) <= self.point]
        if not seen:
            return self.never(leaf)
        latest = single(seen[-1], node.leaf)
        if latest.end <= self.fired:
            sentence = f"{self.named(leaf, latest)} was cleared by the firing at {self.at(self.fired)}"
            return self.blame(leaf, sentence, GONE)
        return self.expired(leaf, leaf, latest)

    # ---- looking ----------------------------------------------------------------------------------

    def _holds(self, way: Way, given: Iterator[Occ], taken: Sequence[Occ]) -> Occ | Failure:
        """What a way makes of its versions, or why it does not hold."""
        number = way.node
        node = self.graph.nodes[number]
        if isinstance(node, g.LeafNode):
            return next(given)
        parts = [self._holds(part, given, taken) for part in way.parts]
        failures = [part for part in parts if isinstance(part, Failure)]
        if failures:
            return furthest(failures)
        found = [part for part in parts if isinstance(part, Occ)]
        names = [self.named(part.node, one) for part, one in zip(way.parts, found, strict=True)]
        state = self.state.nodes[number]
        match node:
            case g.EitherNode():
                return found[0]
            case g.JoinNode():
                return self._joined(number, node, state, names, found, taken)
            case g.GuardNode():
                return self._guarded(number, node, state, names, found[0])
            case g.RepeatNode(scope=scope) | g.FilterNode(scope=scope):
                return self._scoped(number, scope, names, found)
            case g.BoundedNode():
                return found[0] if in_bounds(node, found[0]) else bounded(self, number, node, found[0])
            case g.PlusNode(operand=operand, delay_us=delay):
                return self._timer(number, operand, found[0], delay)
            case g.AbsentForNode(operand=operand, delay_us=delay):
                due = min(due_point(found[0], delay), self.point)
                came = next((b for b in state.absent if found[0].end < b.start and b.end <= due), None)
                if came is not None:
                    return came_after(self, number, node, found[0], came)
                return self._timer(number, operand, found[0], delay)
            case g.AperiodicNode() | g.PeriodicNode():
                return self._window(number, node, way, names, found)
            case _:
                assert_never(node)

    def _timer(self, number: int, operand: int, of: Occ, delay_us: int) -> Occ | Failure:
        point = due_point(of, delay_us)
        if point > self.point:
            return by_the_clock(self, number, operand, of, delay_us)
        return later(of, point, of.occ_time + delay_us)

    def _joined(
        self,
        number: int,
        node: g.JoinNode,
        state: NodeState,
        names: list[str],
        found: list[Occ],
        taken: Sequence[Occ],
    ) -> Occ | Failure:
        right, after, told = found[-1], BEFORE_ALL, ""
        if node.ordered and len(found) == 2:
            after, told = found[0].end, f" after {names[0]}"
            if found[0].end >= right.start:
                return self.blame(number, f"{names[0]} is not before {names[1]}")
        since = self.fired if len(found) == 1 else after
        for absent in node.absences:
            below = set(self.graph.below(absent))
            for b in _counting(state.absent, right, node.scope.within_us):
                own = _node_of(self.graph, b) in below
                if own and since < b.start and b.end < right.start:
                    came = f"{self.named(absent, b)} came{told}{' and' if told else ''} before {names[-1]}"
                    return self.blame_absent(number, absent, came)
        there = [one for one in between(state.middles, after, right) if not any(share(one, by) for by in taken)]
        inside = [set(self.graph.below(middle.node)) for middle in node.middles]
        gathered = [[one for one in there if _node_of(self.graph, one) in nodes] for nodes in inside]
        middles = self.gathered(number, node, gathered, names, found)
        return middles if isinstance(middles, Failure) else self._scoped(number, node.scope, names, [*found, *middles])

    def _guarded(self, number: int, node: g.GuardNode, state: NodeState, names: list[str], one: Occ) -> Occ | Failure:
        for b in _counting(state.absent, one, node.scope.within_us):
            if b.start > self.fired and (b.end < one.start or not node.before):
                absent = next(a for a in node.absences if _node_of(self.graph, b) in set(self.graph.below(a)))
                return guarded(self, number, node, one, (absent, b), self.fired)
        return self._scoped(number, node.scope, names, [one])

    def _window(
        self, number: int, node: g.AperiodicNode | g.PeriodicNode, way: Way, names: list[str], found: list[Occ]
    ) -> Occ | Failure:
        state = self.state.nodes[number]
        if way.carried:
            if not state.windows:
                return self.never(node.opening) if not found else self._never_opened(node.opening, names[-1])
            found = [state.windows[-1].opening, *found]
            names = [self.named(node.opening, found[0]), *names]
        opening = found[0]
        closings = [one for one in state.absent if opening.end < one.start]
        if isinstance(node, g.PeriodicNode) and not node.gathered:
            if closings:
                return self._closed(number, node, closings[0], names[0])
            return next_period(self, number, node, opening)
        end = found[1]
        if opening.end >= end.start:
            return self.blame(number, f"{names[0]} is not before {names[1]}")
        for one in closings:
            if one.end < end.end or (one.end == end.end and not node.gathered):
                return self._closed(number, node, one, names[0])
        if node.gathered and isinstance(node, g.AperiodicNode):
            inside = [one for one in state.middles if opening.end < one.start and one.end < end.start]
            if not inside:
                sentence = f"no {self.text(node.middle)} took place between {names[0]} and {names[1]}"
                return replace(self.blame(node.middle, sentence, SHARED), near=number)
        elif node.gathered and isinstance(node, g.PeriodicNode) and due_point(opening, node.period_us) >= end.start:
            return self.blame(number, f"between {names[0]} and {names[1]} no period passed", SHARED)
        return self._scoped(number, node.scope, names, found)

    def _never_opened(self, opening: int, name: str) -> Failure:
        return self.blame(opening, f"no {self.text(opening)} opened a window before {name}")

    def _closed(self, number: int, node: g.AperiodicNode | g.PeriodicNode, closing: Occ, opening: str) -> Failure:
        sentence = f"{self.named(node.closing, closing)} closed the window of {opening}"
        return replace(self.blame(node.closing, sentence, GONE), near=number)

    def _scoped(self, number: int, scope: g.Scope, names: list[str], found: list[Occ]) -> Occ | Failure:
        made = merged(found)
        if made is None:
            return self.blame(number, f"{' and '.join(names)} have an event in common", SHARED)
        return self.too_long(number, scope, names, found) or self.untrue(number, scope, names, found) or made


def _counting(found: Sequence[Occ], beside: Occ, within: int | None) -> list[Occ]:
    """Those that are not too old beside an operand, the latest first."""
    return [one for one in reversed(found) if within is None or one.least >= beside.most - within]


def _node_of(graph: g.Graph, one: Occ) -> int:
    """The node of the first leaf of an occurrence."""
    return leaf_nodes(graph)[one.parts[0][1]]


def _timers(graph: g.Graph, way: Way) -> bool:
    """Whether the clock may complete a way."""
    is_timed = isinstance(graph.nodes[way.node], g.PlusNode | g.AbsentForNode | g.PeriodicNode)
    return is_timed or any(_timers(graph, part) for part in way.parts)


def _ends(graph: g.Graph, way: Way) -> Iterator[int]:
    """The leaves at which a version may complete a way."""
    node = graph.nodes[way.node]
    match node:
        case g.LeafNode():
            yield way.node
        case g.PlusNode() | g.AbsentForNode():
            return
        case g.PeriodicNode(gathered=False):
            return
        case g.JoinNode(ordered=True) | g.AperiodicNode() | g.PeriodicNode():
            yield from _ends(graph, way.parts[-1])
        case _:
            for part in way.parts:
                yield from _ends(graph, part)


# ---- ways ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """One way to satisfy a node: those of the operands that take part; a window may have been opened before."""

    node: int
    parts: tuple[Way, ...] = ()
    carried: bool = False

    def leaves(self) -> Iterator[int]:
        """The leaf nodes, from left to right; copies count."""
        if not self.parts and not self.carried:
            yield self.node
        for part in self.parts:
            yield from part.leaves()


def ways_of(graph: g.Graph, number: int) -> tuple[Way, ...]:
    """The ways to satisfy a node, those of leftmost choices first; not all of them, if there are many."""
    return tuple(islice(_ways(graph, number), _WAYS_TRIED))


def _ways(graph: g.Graph, number: int) -> Iterator[Way]:
    node = graph.nodes[number]
    match node:
        case g.LeafNode():
            yield Way(number)
        case g.EitherNode(sides=sides):
            yield from (Way(number, (way,)) for side in sides for way in ways_of(graph, side))
        case g.JoinNode(slots=slots, needed=needed):
            for chosen in combinations(slots, needed):
                yield from (Way(number, parts) for parts in product(*(ways_of(graph, slot) for slot in chosen)))
        case g.RepeatNode(operand=operand, count=count):
            yield from (Way(number, (way,) * count) for way in ways_of(graph, operand))
        case g.AperiodicNode(opening=opening, middle=middle, closing=closing, gathered=gathered):
            ends = ways_of(graph, closing if gathered else middle)
            yield from (Way(number, parts) for parts in product(ways_of(graph, opening), ends))
            yield from () if gathered else (Way(number, (end,), True) for end in ends)
        case g.PeriodicNode(opening=opening, closing=closing, gathered=gathered):
            ends = ways_of(graph, closing) if gathered else ()
            openings = ways_of(graph, opening)
            yield from (Way(number, parts) for parts in (product(openings, ends) if gathered else product(openings)))
            yield from () if gathered else (Way(number, (), True),)
        case _:
            yield from (Way(number, (way,)) for way in ways_of(graph, node.operand))

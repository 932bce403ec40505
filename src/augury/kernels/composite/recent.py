"""RECENT: the whole expression is evaluated over the latest versions of each leaf, and a firing clears them.

In: a version at its leaves, or a timer. Out: at most one occurrence. Absences and all E's of `E*` are found node by
node, as UNRESTRICTED finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from augury.graphs import graph as g
from augury.kernels.composite.joins import absent_between
from augury.kernels.composite.network import Network, leaf_nodes, schedule
from augury.kernels.composite.nodes import in_bounds
from augury.kernels.composite.occurrence import (
    FOREVER,
    KeyState,
    NodeState,
    Now,
    Occ,
    Point,
    Version,
    Window,
    conflict,
    later,
    merged,
    share,
    single,
)
from augury.kernels.composite.protocol import CONTEXTS, Taking
from augury.kernels.composite.scalars import Tests
from augury.kernels.composite.shapes import Shape, class_of, filled, kept_counts, shapes_at, shapes_of
from augury.kernels.composite.timed import due_point
from augury.kernels.composite.unrestricted import Unrestricted

_WAKE = -1
"""The node of a timer that only says when to look again."""

_COMPRESS_AFTER = 8

Rank = list[tuple[object, ...]]
"""How a shape compares: for each OR, ANY and `&`, outermost first, when its choice ended, and how far left it is."""


@dataclass(slots=True)
class _Look:
    """One evaluation of one shape: what stands at its leaves, and what it comes upon."""

    key: KeyState
    now: Now
    given: Iterator[Occ]
    taken: Sequence[Occ]
    rank: Rank = field(default_factory=list)
    wakes: set[Point] = field(default_factory=set)
    openings: dict[int, Occ] = field(default_factory=dict)
    timer_now: bool = False
    blocked: bool = False
    """By an absence, which may expire before a timer is due: so the rest is looked at nevertheless."""


class Recent:
    """The evaluation of a graph in RECENT."""

    taking = Taking.LATEST

    def __init__(self, graph: g.Graph, tests: Tests) -> None:
        """Work out the shapes, and what each leaf keeps."""
        self.graph = graph
        self.tests = tests
        shapes = shapes_of(graph)
        self.keeps = kept_counts(graph, shapes)
        slots = [tuple(shape.leaves()) for shape in shapes]
        self.shapes = [(s, at, tuple(class_of(graph, n) for n in at)) for s, at in zip(shapes, slots, strict=True)]
        self.apart = _nodes_apart(graph)
        self.network = Network(graph, Unrestricted(), tests, graph.free | self.apart)
        self.leaf_nodes = leaf_nodes(graph)
        self.fed = [
            (owner, source, is_absent)
            for owner, node in enumerate(graph.nodes)
            if owner not in graph.free and owner not in self.apart
            for source, is_absent in _found_apart(node)
        ]
        self.windows = {
            number: [
                (s, at, tuple(class_of(graph, n) for n in at))
                for s in shapes_at(graph, node.opening)
                for at in [tuple(s.leaves())]
            ]
            for number, node in enumerate(graph.nodes)
            if isinstance(node, g.AperiodicNode | g.PeriodicNode)
            and not node.gathered
            and number not in graph.free
            and number not in self.apart
        }

        self.alike = [
            (owner, not isinstance(node, g.JoinNode), getattr(node, "scope", g.Scope()).within_us is not None)
            for owner in dict.fromkeys(owner for owner, _, is_absent in self.fed if is_absent)
            if _alike(graph, owner)
            for node in [graph.nodes[owner]]
        ]
        self.after = [
            (owner, [n for n in below if n in self.keeps], [n for n in {*below, owner} if n in self.windows])
            for owner in dict.fromkeys(owner for owner, _, _ in self.fed)
            if (first := _first_operand(graph.nodes[owner])) is not None
            for below in [list(graph.below(first))]
        ]

    def empty(self) -> KeyState:
        """Nothing is kept."""
        key = self.network.empty()
        for leaf in self.keeps:
            key.nodes[leaf] = NodeState([[]])
        return key

    def step(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> list[Occ]:
        """Keep what arrives, look at the expression, and clear everything if it fires."""
        for kept in key.nodes:
            kept.purge(now.tick)
        out = self.network.pass_over(key, now, arriving)
        comes = not arriving
        for owner, source, is_absent in self.fed:
            state = key.nodes[owner]
            for one in out[source]:
                state.keep(state.absent if is_absent else state.middles, one)
                comes = comes or not is_absent
        for leaf, version in arriving:
            node = self.leaf_nodes[leaf]
            if node in self.keeps:
                comes = True
                state = key.nodes[node]
                state.keep(state.kept[0], single(version, leaf))
                del state.kept[0][: -self.keeps[node]]
        if comes:
            self._reopen(key, now)
        fired = self._look(key, now, arriving[0][1] if arriving else None) if comes else None
        if fired is None:
            self._forget(key)
            self._compress(key)
            return []
        one, openings = fired
        self._clear(key, now)
        for number, opening in openings.items():
            key.nodes[number].open_window(Window(0, opening))
        self._wake(key, self._periods(key, now))
        return [one]

    # ---- looking ----------------------------------------------------------------------------------

    def _look(self, key: KeyState, now: Now, version: Version | None) -> tuple[Occ, dict[int, Occ]] | None:
        kept = {leaf: key.nodes[leaf].kept[0] for leaf in self.keeps}
        best: tuple[Rank, Occ, dict[int, Occ]] | None = None
        wakes: set[Point] = set()
        for shape, slots, names in self.shapes:
            given = filled(slots, names, kept)
            if given is None:
                continue
            look = _Look(key, now, iter(given), given)
            one = self._holds(shape, look)
            wakes |= look.wakes
            if one is None or look.blocked or not (look.timer_now if version is None else _has(one, version)):
                continue
            if best is None or look.rank > best[0]:
                best = look.rank, one, look.openings
        if best is not None:
            return best[1:]
        self._wake(key, wakes)
        return None

    def _wake(self, key: KeyState, wakes: set[Point]) -> None:
        known = {timer[0] for timer in key.timers if timer[2] == _WAKE}
        for point in sorted(wakes - known):
            schedule(key, point, _WAKE, 0, None)

    def _periods(self, key: KeyState, now: Now) -> set[Point]:
        """When the windows that are carried have their next time."""
        found = set()
        for number in self.windows:
            node = self.graph.nodes[number]
            for window in key.nodes[number].windows:
                if isinstance(node, g.PeriodicNode):
                    count = max(0, (now.time - window.opening.occ_time) // node.period_us)
                    found.add(due_point(window.opening, (count + 1) * node.period_us))
        return found

    def _reopen(self, key: KeyState, now: Now) -> None:
        """A newer opening takes the place of one that is carried."""
        kept = {leaf: key.nodes[leaf].kept[0] for leaf in self.keeps}
        for number, openings in self.windows.items():
            state = key.nodes[number]
            for shape, slots, names in openings if state.windows else ():
                given = filled(slots, names, kept)
                if given is None:
                    continue
                look = _Look(key, now, iter(given), given)
                if self._holds(shape, look) is not None and not look.blocked:
                    state.windows = []
                self._wake(key, look.wakes)

    def _holds(self, shape: Shape, look: _Look) -> Occ | None:
        """What a shape makes of its versions; every part is looked at, for a timer in it may be due later."""
        node = self.graph.nodes[shape.node]
        if isinstance(node, g.LeafNode):
            return next(look.given)
        place = len(look.rank)
        if isinstance(node, g.EitherNode) or (isinstance(node, g.JoinNode) and not node.ordered):
            look.rank.append(())
        parts = [self._holds(part, look) for part in shape.parts]
        found = [one for one in parts if one is not None]
        if len(found) < len(parts):
            return None
        state = look.key.nodes[shape.node]
        match node:
            case g.EitherNode():
                look.rank[place] = (found[0].end, -shape.chosen[0])
                return found[0]
            case g.JoinNode():
                if not node.ordered:
                    # `&` is ANY of all.
                    ends = tuple(sorted((one.end for one in found), reverse=True))
                    look.rank[place] = (ends, tuple(-slot for slot in shape.chosen))
                return self._joined(node, state, found, look)
            case g.GuardNode():
                return self._guarded(node, state, found[0], look)
            case g.RepeatNode(scope=scope):
                made = merged(found)
                return made if made is not None and self.tests.passes(scope, made) else None
            case g.BoundedNode():
                return found[0] if in_bounds(node, found[0]) else None
            case g.FilterNode(scope=scope):
                return found[0] if self.tests.passes(scope, found[0]) else None
            case g.PlusNode(delay_us=delay):
                return self._timer(found[0], delay, look)
            case g.AbsentForNode(delay_us=delay):
                one = self._timer(found[0], delay, look)
                came = one is not None and any(found[0].end < b.start and b.end < one.end for b in state.absent)
                look.blocked = look.blocked or came
                return one
            case g.AperiodicNode() | g.PeriodicNode():
                return self._window(node, shape, state, found, look)
            case _:
                assert_never(node)

    def _timer(self, of: Occ, delay_us: int, look: _Look) -> Occ | None:
        point = due_point(of, delay_us)
        if point > look.now.point:
            look.wakes.add(point)
            return None
        look.timer_now = look.timer_now or point == look.now.point
        return later(of, point, of.occ_time + delay_us)

    def _joined(self, node: g.JoinNode, state: NodeState, found: list[Occ], look: _Look) -> Occ | None:
        within = node.scope.within_us
        right = found[-1]
        left = found[0] if node.ordered and len(found) == 2 else None
        if left is not None:
            if left.end >= right.start:
                return None
            if absent_between(_recent(state.absent, right, within), left, right):
                look.blocked = True
        if node.middles:
            middles = self._middles(state, left, right, within, look)
            if len(middles) < node.middles[0].count:
                return None
            found = [*found, *middles]
        made = merged(found)
        return made if made is not None and self.tests.passes(node.scope, made) else None

    def _middles(self, state: NodeState, left: Occ | None, right: Occ, within: int | None, look: _Look) -> list[Occ]:
        """All that lie between, stand at no leaf, and make it no longer than WITHIN allows, oldest first."""
        found: list[Occ] = []
        ends = [right] if left is None else [left, right]
        for one in _recent(state.middles, right, within):
            if one.end >= right.start or (left is not None and one.start <= left.end):
                continue
            if any(share(one, by) for by in look.taken) or any(conflict(one, by) for by in found):
                continue
            parts = (one, *ends, *found)
            if within is None or max(by.most for by in parts) - min(by.least for by in parts) <= within:
                found.append(one)
        return found

    def _window(
        self, node: g.AperiodicNode | g.PeriodicNode, shape: Shape, state: NodeState, found: list[Occ], look: _Look
    ) -> Occ | None:
        if shape.carried:
            if not state.windows:
                return None
            opening = state.windows[-1].opening
        else:
            opening, *found = found
        closings = [one for one in state.absent if opening.end < one.start]
        if not closings and not node.gathered:
            look.openings[shape.node] = opening
        if isinstance(node, g.PeriodicNode) and not node.gathered:
            return self._period(node, opening, closings, look)
        end = found[0]
        if opening.end >= end.start:
            return None
        if any(one.end < end.end or (one.end == end.end and not node.gathered) for one in closings):
            look.blocked = True
        if not node.gathered:
            parts = [opening, end]
        elif isinstance(node, g.PeriodicNode):
            parts = [opening, end] if due_point(opening, node.period_us) < end.start else []
        else:
            middles = self._middles(state, opening, end, node.scope.within_us, look)
            parts = [opening, end, *middles] if middles else []
        made = merged(parts) if parts else None
        return made if made is not None and self.tests.passes(node.scope, made) else None

    def _period(self, node: g.PeriodicNode, opening: Occ, closings: list[Occ], look: _Look) -> Occ | None:
        """The latest of its times that has come, was not spent by a firing, and is before every closing."""
        closed = min((one.end for one in closings), default=None)
        until = look.now.time if closed is None else min(look.now.time, closed[0])
        count = max(0, (until - opening.occ_time) // node.period_us)
        while count and (
            due_point(opening, count * node.period_us) > look.now.point
            or (closed is not None and due_point(opening, count * node.period_us) >= closed)
        ):
            count -= 1
        # A closing that has expired closes no more.
        ends = max((one.until for one in closings), default=None)
        if ends is None:
            look.wakes.add(due_point(opening, (count + 1) * node.period_us))
        elif ends < FOREVER:
            latest = max(ends, look.now.time)
            look.wakes.add(due_point(opening, ((latest - opening.occ_time) // node.period_us + 1) * node.period_us))
        point = due_point(opening, count * node.period_us)
        if count == 0 or point <= look.key.nodes[self.graph.root].fired:
            return None
        look.timer_now = look.timer_now or point == look.now.point
        return later(opening, point, opening.occ_time + count * node.period_us)

    def _guarded(self, node: g.GuardNode, state: NodeState, one: Occ, look: _Look) -> Occ | None:
        since = look.key.nodes[self.graph.root].fired
        for b in _recent(state.absent, one, node.scope.within_us):
            if b.start > since and (b.end < one.start or not node.before):
                look.blocked = True
        return one if self.tests.passes(node.scope, one) else None

    # ---- forgetting -------------------------------------------------------------------------------

    def _clear(self, key: KeyState, now: Now) -> None:
        """After a firing nothing is kept, also of what absences are made of: they count since the firing."""
        dropped = sum(node.dropped for node in key.nodes)
        key.nodes = self.empty().nodes
        key.timers.clear()
        key.nodes[self.graph.root].fired = now.point
        key.nodes[self.graph.root].dropped = dropped

    def _forget(self, key: KeyState) -> None:
        """Let go of what came before everything that it could come after."""
        for owner, leaves, windows in self.after:
            state = key.nodes[owner]
            if state.middles or state.absent:
                firsts = [key.nodes[leaf].kept[0][0].start for leaf in leaves if key.nodes[leaf].kept[0]]
                firsts += [w.opening.start for number in windows for w in key.nodes[number].windows]
                first = min(firsts, default=None)
                state.middles = [] if first is None else [one for one in state.middles if one.start > first]
                state.absent = [] if first is None else [one for one in state.absent if one.start > first]

    def _compress(self, key: KeyState) -> None:
        """Of absences that no kept version tells apart only one matters: that which counts longest, or came first."""
        for owner, came_first, is_within in self.alike:
            state = key.nodes[owner]
            if len(state.absent) <= _COMPRESS_AFTER:
                continue
            points = [one.start for leaf in self.keeps for one in key.nodes[leaf].kept[0]]
            points += [window.opening.end for window in state.windows]
            kept: list[Occ] = []
            for one in state.absent:
                if came_first and kept and _superfluous(one, kept[-1], points, is_within):
                    continue
                while not came_first and kept and _superfluous(kept[-1], one, points, is_within):
                    kept.pop()
                kept.append(one)
            state.absent = kept


def _superfluous(one: Occ, beside: Occ, points: Sequence[Point], is_within: bool) -> bool:
    """Whether another absence counts as long, and nothing is kept between the two."""
    if one.until > beside.until or (is_within and one.least > beside.least):
        return False
    first, last = min(one.start, beside.start), max(one.end, beside.end)
    return not any(first <= point <= last for point in points)


def _alike(graph: g.Graph, owner: int) -> bool:
    """Whether the occurrences beside a node's absences start and end at kept versions only."""
    node = graph.nodes[owner]
    if isinstance(node, g.GuardNode):
        # The first came before whatever a later one came before.
        return True
    absent = {source for source, is_absent in _found_apart(node) if is_absent}
    beside = [operand for operand in g.operands_of(node) if operand not in absent]
    inside = [graph.nodes[below] for operand in beside for below in graph.below(operand)]
    timed = g.PlusNode | g.AbsentForNode | g.AperiodicNode | g.PeriodicNode
    return not any(isinstance(one, timed) or (isinstance(one, g.JoinNode) and one.middles) for one in inside)


def _recent(found: list[Occ], beside: Occ, within: int | None) -> list[Occ]:
    """Those that are not too old beside an operand."""
    return found if within is None else [one for one in found if one.least >= beside.most - within]


def _has(one: Occ, version: Version) -> bool:
    return any(part.place == version.place for part, _ in one.parts)


def _found_apart(node: g.GraphNode) -> list[tuple[int, bool]]:
    """The operands that a node does not read as leaves, and whether they are absences; what closes a window is one."""
    match node:
        case g.JoinNode(middles=middles, absences=absences):
            return [*((middle.node, False) for middle in middles), *((absent, True) for absent in absences)]
        case g.AperiodicNode(middle=middle, closing=closing, gathered=gathered):
            return [*([(middle, False)] if gathered else []), (closing, True)]
        case g.PeriodicNode(closing=closing):
            return [(closing, True)]
        case _:
            return [(absent, True) for absent in g.absences_of(node)]


def _first_operand(node: g.GraphNode) -> int | None:
    """The operand after which all that a node finds apart has to come, if there is one."""
    match node:
        case g.JoinNode(slots=slots, ordered=True) if len(slots) == 2:
            return slots[0]
        case g.AbsentForNode(operand=operand):
            return operand
        case g.AperiodicNode(opening=opening) | g.PeriodicNode(opening=opening):
            return opening
        case _:
            return None


def _nodes_apart(graph: g.Graph) -> frozenset[int]:
    """The nodes below those that are found apart, absences left out."""
    found: set[int] = set()
    for node in graph.nodes:
        for source, _ in _found_apart(node):
            found.update(graph.below(source))
    return frozenset(found - graph.free)


CONTEXTS["RECENT"] = Recent

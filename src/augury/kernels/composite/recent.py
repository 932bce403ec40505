"""RECENT: the whole expression is evaluated over the latest versions of each leaf, and a firing clears them.

In: a version at its leaves, or a timer. Out: at most one occurrence. Absences and all E's of `E*` are found node by
node, as UNRESTRICTED finds them; `looking` says what the expression holds as.
"""

from __future__ import annotations

from collections.abc import Sequence

from augury.graphs import graph as g
from augury.kernels.composite.looking import Held, Looker
from augury.kernels.composite.network import Network, due_timers, leaf_nodes, schedule
from augury.kernels.composite.occurrence import KeyState, NodeState, Now, Occ, Point, Version, Window, single
from augury.kernels.composite.protocol import CONTEXTS, Taking
from augury.kernels.composite.scalars import Tests
from augury.kernels.composite.shapes import class_of, is_window, leaves_at, most_leaves, positive_below, shapes_at
from augury.kernels.composite.unrestricted import Unrestricted
from augury.kernels.composite.waking import Waking

_WAKE = -1
"""The node of a timer that only says when to look again."""

_COMPRESS_AFTER = 8


class Recent:
    """The evaluation of a graph in RECENT.

    The state of a key has a node for each of the graph, with what a look asks for, and then those of the network that
    finds absences and all E's: a node may be part of both.
    """

    taking = Taking.LATEST

    def __init__(self, graph: g.Graph, tests: Tests) -> None:
        """Work out what each leaf keeps, what is found apart, and how the whole is looked at."""
        self.graph = graph
        self.tests = tests
        self.looker = Looker(graph, tests, shapes_at(graph, graph.root))
        self.waking = Waking(graph)
        self.leaf_nodes = leaf_nodes(graph)
        most = most_leaves(graph, graph.root)
        self.keeps = {leaf: most[class_of(graph, leaf)] for leaf in leaves_at(graph, graph.root)}
        own = dict.fromkeys(positive_below(graph, graph.root))
        self.fed = [(owner, source, absent) for owner in own for source, absent in _found_apart(graph.nodes[owner])]
        apart = frozenset(below for _, source, _ in self.fed for below in graph.below(source))
        self.network = Network(graph, Unrestricted(), tests, apart) if apart else None
        self.windows = {
            number: Looker(graph, tests, shapes_at(graph, node.opening))
            for number in own
            if is_window(node := graph.nodes[number]) and isinstance(node, g.AperiodicNode | g.PeriodicNode)
        }
        self.alike = [
            (owner, _came_first(node), getattr(node, "scope", g.Scope()).within_us is not None)
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
        nodes = [NodeState([[]] if number in self.keeps else []) for number in range(len(self.graph.nodes))]
        return KeyState(nodes if self.network is None else nodes + self.network.empty().nodes)

    def step(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> list[Occ]:
        """Keep what arrives, look at the expression, and clear everything if it fires."""
        for kept in key.nodes:
            kept.purge(now.tick)
        comes = self._find_apart(key, now, arriving)
        for leaf, version in arriving:
            node = self.leaf_nodes[leaf]
            if node in self.keeps:
                comes = True
                state = key.nodes[node]
                state.keep(state.kept[0], single(version, leaf))
                del state.kept[0][: -self.keeps[node]]
        self._reopen(key, now)
        fired = self._look(key, now, arriving[0][1] if arriving else None) if comes else None
        if fired is None:
            self._forget(key)
            self._compress(key)
            return []
        self._clear(key, now)
        # Of the copies of a repeated window the last one's opening stays.
        for number, opening in dict(fired.openings).items():
            key.nodes[number].open_window(Window(0, opening))
        self._wake(key, now)
        return [fired.occ]

    def _find_apart(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> bool:
        """Hand what is new of absences and of all E's to the nodes that ask for it; whether there is reason to look."""
        if self.network is None:
            due_timers(key, now.point)
            return not arriving
        apart = KeyState(key.nodes[len(self.graph.nodes) :], key.timers, key.serial)
        out = self.network.pass_over(apart, now, arriving)
        key.serial = apart.serial
        comes = not arriving
        for owner, source, is_absent in self.fed:
            state = key.nodes[owner]
            for one in out[source]:
                state.keep(state.absent if is_absent else state.middles, one)
                comes = comes or not is_absent
        return comes

    # ---- looking ----------------------------------------------------------------------------------

    def _look(self, key: KeyState, now: Now, version: Version | None) -> Held | None:
        """Of all that holds and in which this step takes part, that of the best rank."""
        if not self.looker.is_possible(key):
            if any(key.nodes[number].windows for number in self.windows):
                # A timer may open it anew.
                self._wake(key, now)
            return None
        best: Held | None = None
        for one in self.looker.look(key, now):
            takes_part = one.occ.end == now.point if version is None else _has(one.occ, version)
            if takes_part and (best is None or one.rank > best.rank):
                best = one
        if best is None:
            self._wake(key, now)
        return best

    def _wake(self, key: KeyState, now: Now) -> None:
        """Set a timer for the next look; each look sets the one after it."""
        point = self.waking.next_point(key, now)
        if point is not None and not any(timer[2] == _WAKE and timer[0] <= point for timer in key.timers):
            schedule(key, point, _WAKE, 0, None)

    def _reopen(self, key: KeyState, now: Now) -> None:
        """A newer opening takes the place of one that is carried; another window may have opened it."""
        newer = [
            number
            for number, opening in self.windows.items()
            if key.nodes[number].windows and opening.is_possible(key) and any(True for _ in opening.look(key, now))
        ]
        for number in newer:
            key.nodes[number].windows = []

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


def _came_first(node: g.GraphNode) -> bool:
    """Whether of two absences the first is in the way of more: all but those between two operands."""
    return not (isinstance(node, g.JoinNode) and len(node.slots) == 2)


def _alike(graph: g.Graph, owner: int) -> bool:
    """Whether the occurrences beside a node's absences start and end at kept versions only."""
    node = graph.nodes[owner]
    if _came_first(node) and not isinstance(node, g.AbsentForNode | g.AperiodicNode | g.PeriodicNode):
        # The first came before whatever a later one came before.
        return True
    absent = {source for source, is_absent in _found_apart(node) if is_absent}
    beside = [operand for operand in g.operands_of(node) if operand not in absent]
    inside = [graph.nodes[below] for operand in beside for below in graph.below(operand)]
    timed = g.PlusNode | g.AbsentForNode | g.AperiodicNode | g.PeriodicNode
    return not any(isinstance(one, timed) or (isinstance(one, g.JoinNode) and one.middles) for one in inside)


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


CONTEXTS["RECENT"] = Recent

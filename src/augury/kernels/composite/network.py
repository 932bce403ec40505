"""A graph evaluated node by node: each keeps and consumes its operands on its own, by the pairing of a context.

In: a version at its leaves, or timers that are due. Out: occurrences of the whole. One pass in post-order is a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, assert_never

from augury.event import key_of
from augury.graphs import graph as g
from augury.kernels.composite.joins import JoinOp, RepeatOp
from augury.kernels.composite.nodes import BoundedOp, EitherOp, FilterOp, GuardOp
from augury.kernels.composite.occurrence import KeyState, NodeState, Now, Occ, Point, Version, distinct, single
from augury.kernels.composite.protocol import CONTEXTS, Pairing
from augury.kernels.composite.scalars import Tests
from augury.kernels.composite.timed import AbsentForOp, AperiodicOp, PeriodicOp, PlusOp

Op = JoinOp | RepeatOp | EitherOp | BoundedOp | FilterOp | GuardOp
TimedOp = PlusOp | AbsentForOp | AperiodicOp | PeriodicOp

_TIMED = (g.PlusNode, g.AbsentForNode, g.AperiodicNode, g.PeriodicNode)


def register(name: str) -> Callable[[type[Any]], type[Any]]:
    """Enter a pairing among the contexts."""

    def entered(pairing: type[Any]) -> type[Any]:
        CONTEXTS[name] = lambda graph, tests: Network(graph, pairing(), tests)
        return pairing

    return entered


class Network:
    """The operators of a graph; those below a negation find everything."""

    def __init__(self, graph: g.Graph, pairing: Pairing, tests: Tests, only: frozenset[int] | None = None) -> None:
        """Make the operators of all nodes, or of some."""
        from augury.kernels.composite.unrestricted import Unrestricted

        free: Pairing = Unrestricted()
        self.graph = graph
        self.taking = pairing.taking
        self.ops: list[Op | TimedOp | None] = [
            operator_of(graph, number, free if number in graph.free else pairing, tests)
            if only is None or number in only
            else None
            for number in range(len(graph.nodes))
        ]
        self.operands = [g.operands_of(node) for node in graph.nodes]
        self.leaf_nodes = leaf_nodes(graph)
        # Only operators with timers are handed timers: of which kind each is, the last entry says.
        self.plan: list[tuple[int, Any, tuple[int, ...], bool]] = [
            (n, op, self.operands[n], isinstance(graph.nodes[n], _TIMED)) for n, op in enumerate(self.ops)
        ]

    def empty(self) -> KeyState:
        """Before the first version."""
        return KeyState([NodeState([]) if op is None else op.empty() for op in self.ops])

    def step(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> list[Occ]:
        """One pass."""
        return self.pass_over(key, now, arriving)[self.graph.root]

    def pass_over(self, key: KeyState, now: Now, arriving: Sequence[tuple[int, Version]]) -> list[list[Occ]]:
        """What takes place at each node."""
        out: list[list[Occ]] = [[]] * len(self.ops)
        for leaf, version in arriving:
            out[self.leaf_nodes[leaf]] = [single(version, leaf)]
        due = due_timers(key, now.point) if key.timers else None
        for number, op, operands, is_timed in self.plan:
            if op is None:
                continue
            inputs = [out[operand] for operand in operands]
            timers = due.get(number, ()) if due else ()
            if not timers and not any(inputs):
                continue
            state = key.nodes[number]
            if is_timed:

                def set_timer(point: Point, window: int, of: Occ | None, number: int = number) -> int:
                    return schedule(key, point, number, window, of)

                found = op.step(state, now, inputs, timers, set_timer)
            else:
                found = op.step(state, now, inputs)
            out[number] = distinct(found)
        return out


def due_timers(key: KeyState, point: Point) -> dict[int, list[tuple[Point, int, int, int, Occ | None]]]:
    """Take the timers that are due at a point out of the heap, by node."""
    due: dict[int, list[tuple[Point, int, int, int, Occ | None]]] = {}
    while key.timers and key.timers[0][0] <= point:
        timer = heappop(key.timers)
        due.setdefault(timer[2], []).append(timer)
    return due


def schedule(key: KeyState, point: Point, node: int, window: int, of: Occ | None) -> int:
    """Set a timer; a window of -1 is a new one, whose number is given back."""
    key.serial += 1
    window = key.serial if window == -1 else window
    heappush(key.timers, (point, key.serial, node, window, of))
    return window


def leaf_nodes(graph: g.Graph) -> dict[int, int]:
    """The node of each leaf."""
    return {node.leaf: number for number, node in enumerate(graph.nodes) if isinstance(node, g.LeafNode)}


def operator_of(graph: g.Graph, number: int, pairing: Pairing, tests: Tests) -> Op | TimedOp | None:
    """What runs a node; a leaf needs nothing."""
    node = graph.nodes[number]
    match node:
        case g.LeafNode():
            return None
        case g.EitherNode():
            return EitherOp()
        case g.JoinNode():
            is_instant = isinstance(last_of(graph, node), g.LeafNode)
            return JoinOp(node, pairing, tests, _overlaps(graph, node), is_instant, middle_of(graph, node))
        case g.GuardNode():
            return GuardOp(node, tests, all(isinstance(graph.nodes[one], g.LeafNode) for one in node.absences))
        case g.RepeatNode():
            return RepeatOp(node, tests)
        case g.BoundedNode():
            return BoundedOp(node)
        case g.FilterNode():
            return FilterOp(node, tests)
        case g.PlusNode():
            return PlusOp(node)
        case g.AbsentForNode():
            return AbsentForOp(node, tests)
        case g.AperiodicNode():
            return AperiodicOp(node, pairing, tests)
        case g.PeriodicNode():
            return PeriodicOp(node, pairing, tests)
        case _:
            assert_never(node)


def last_of(graph: g.Graph, node: g.JoinNode) -> g.GraphNode:
    """What stands in the last slot."""
    return graph.nodes[node.slots[-1]]


def middle_of(graph: g.Graph, node: g.JoinNode) -> dict[int, int]:
    """Of each leaf below a middle of a join, which of the middles it is."""
    inside = [(number, graph.nodes[n]) for number, m in enumerate(node.middles) for n in graph.below(m.node)]
    return {one.leaf: number for number, one in inside if isinstance(one, g.LeafNode)}


def _overlaps(graph: g.Graph, node: g.JoinNode) -> bool:
    """Whether a version may stand in several operands: they name a class in common."""
    seen: set[str] = set()
    for operand in (*node.slots, *(middle.node for middle in node.middles)):
        inside = [graph.nodes[below] for below in graph.below(operand)]
        names = {key_of(one.primitive.event_class) for one in inside if isinstance(one, g.LeafNode)}
        if seen & names:
            return True
        seen |= names
    return False

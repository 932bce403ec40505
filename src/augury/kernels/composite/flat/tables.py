"""Which graphs run flat, and their tables.

In: a graph, and how its context takes operands. Out: numbers that the walk reads. Flat are graphs of classes that stand
once each, put together by `>`, `&`, `|`, repetition and bounds in time: most of what is written. Then a version stands
at one leaf, what is new takes one way up the graph, and no two operands share a version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from augury.event import key_of
from augury.graphs import graph as g
from augury.kernels.composite.protocol import Taking
from augury.kernels.composite.scalars import variable_places

LEAF, EITHER, PAIR, AFTER, REPEAT, BOUNDED = range(6)
"""Kinds of nodes: AFTER is a pair in order."""

KIND, PARENT, SLOT, KEEPS, OTHER, WITHIN, LOW, HIGH, STATE, ABSENT, INSTANT = range(11)
"""Of a node: its kind; what reads it, and as which operand (ABSENT_SLOT: it had better not come); the queues in which
its first and second operand wait; how long it may last; bounds of time, or, as LOW, how often it is repeated;
which of the nodes that keep something it is; the queue of what had better not come; whether its last operand is one
version."""

ABSENT_SLOT = 2
NONE = -1
EVER = 1 << 62


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """A graph as numbers: a row a node, the node of each leaf, how many queues and keeping nodes there are."""

    nodes: npt.NDArray[np.int64]
    leaf_nodes: npt.NDArray[np.int64]
    queues: int
    states: int
    taking: Taking


def flat_of(graph: g.Graph, taking: Taking | None) -> Flat | None:
    """The tables of a graph, or None if it does not run flat."""
    if taking is None or not _classes_apart(graph) or not names_all(graph):
        return None
    writer = _Writer(graph, taking)
    if not all(writer.fits(number) for number in range(len(graph.nodes))):
        return None
    return writer.written()


def _classes_apart(graph: g.Graph) -> bool:
    names = [key_of(leaf.event_class) for leaf in graph.leaves]
    return len(set(names)) == len(names)


def names_all(graph: g.Graph) -> bool:
    """Whether every version names its graph: a value for every shared variable."""
    wanted = {key_of(v.name) for v in graph.keys}
    return all(wanted <= set(variable_places(leaf)) for leaf in graph.leaves)


class _Writer:
    """Numbers queues as nodes are written."""

    def __init__(self, graph: g.Graph, taking: Taking) -> None:
        self.graph = graph
        self.taking = taking
        self.rows = np.full((len(graph.nodes), INSTANT + 1), NONE, np.int64)
        self.queues = 0
        self.states = 0

    def fits(self, number: int) -> bool:
        """Whether the walk knows a node."""
        node = self.graph.nodes[number]
        latest = self.taking is Taking.LATEST
        match node:
            case g.LeafNode() | g.BoundedNode():
                return True
            case g.EitherNode():
                return not latest
            case g.RepeatNode(operand=operand, scope=scope):
                return not latest and scope == g.Scope() and isinstance(self.graph.nodes[operand], g.LeafNode)
            case g.JoinNode(slots=slots, needed=needed, absences=absences, middles=middles, scope=scope):
                plain = len(slots) == needed == 2 and not middles and not scope.wheres and not scope.equal
                leaves = all(isinstance(self.graph.nodes[absent], g.LeafNode) for absent in absences)
                return plain and leaves and len(absences) <= (1 if node.ordered and not latest else 0)
            case (
                g.GuardNode() | g.FilterNode() | g.PlusNode() | g.AbsentForNode() | g.AperiodicNode() | g.PeriodicNode()
            ):
                return False
            case _:
                assert_never(node)

    def written(self) -> Flat:
        """The tables."""
        for number in range(len(self.graph.nodes)):
            self._write(number)
        leaves = sorted((n.leaf, i) for i, n in enumerate(self.graph.nodes) if isinstance(n, g.LeafNode))
        return Flat(
            self.rows, np.array([number for _, number in leaves], np.int64), self.queues, self.states, self.taking
        )

    def _write(self, number: int) -> None:
        node, row = self.graph.nodes[number], self.rows[number]
        row[[WITHIN, LOW, HIGH]] = EVER, -EVER, EVER
        for slot, operand in enumerate(g.operands_of(node)):
            self.rows[operand, [PARENT, SLOT]] = number, slot
        match node:
            case g.LeafNode():
                row[KIND] = LEAF
            case g.EitherNode():
                row[KIND] = EITHER
            case g.BoundedNode(low_us=low, high_us=high):
                row[KIND] = BOUNDED
                row[[LOW, HIGH]] = -EVER if low is None else low, EVER if high is None else high
            case g.RepeatNode(count=count):
                row[[KIND, LOW, STATE, KEEPS]] = REPEAT, count, self._state(), self._queue()
            case g.JoinNode():
                self._write_join(node, row)
            case _:
                raise AssertionError(f"{node} does not run flat")

    def _write_join(self, node: g.JoinNode, row: npt.NDArray[np.int64]) -> None:
        row[[KIND, STATE, KEEPS]] = AFTER if node.ordered else PAIR, self._state(), self._queue()
        if node.scope.within_us is not None:
            row[WITHIN] = node.scope.within_us
        if not node.ordered:
            # Where each opens one of its own, both sides wait in one line.
            row[OTHER] = row[KEEPS] if self.taking is Taking.EACH else self._queue()
        for absent in node.absences:
            self.rows[absent, SLOT] = ABSENT_SLOT
            row[ABSENT] = self._queue()
        row[INSTANT] = int(isinstance(self.graph.nodes[node.slots[-1]], g.LeafNode))

    def _queue(self) -> int:
        self.queues += 1
        return self.queues - 1

    def _state(self) -> int:
        self.states += 1
        return self.states - 1

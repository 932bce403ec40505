"""Nodes with one operand that set no timer: sides, guards, bounds, filters.

In: new occurrences of the operands. Out: those that pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.graphs.graph import BoundedNode, FilterNode, GuardNode
from augury.kernels.composite.joins import Inputs
from augury.kernels.composite.occurrence import NodeState, Now, Occ
from augury.kernels.composite.scalars import Tests


@dataclass(slots=True)
class EitherOp:
    """Every occurrence of either side."""

    def empty(self) -> NodeState:
        """Nothing is kept."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """All of them."""
        return [one for side in inputs for one in side]


@dataclass(slots=True)
class BoundedOp:
    """Those whose occ_time lies within bounds."""

    node: BoundedNode

    def empty(self) -> NodeState:
        """Nothing is kept."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """Those that pass."""
        return [one for one in inputs[0] if in_bounds(self.node, one)]


def in_bounds(node: BoundedNode, one: Occ) -> bool:
    """Whether an occurrence took place in time."""
    low, high = node.low_us, node.high_us
    return (low is None or low <= one.occ_time) and (high is None or one.occ_time <= high)


@dataclass(slots=True)
class FilterOp:
    """Those of which a WHERE holds."""

    node: FilterNode
    tests: Tests

    def empty(self) -> NodeState:
        """Nothing is kept."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """Those that pass."""
        return [one for one in inputs[0] if self.tests.passes(self.node.scope, one)]


@dataclass(slots=True)
class GuardOp:
    """Those that nothing absent came before, or up to, since this node fired."""

    node: GuardNode
    tests: Tests
    is_instant: bool
    """Whether an operand is always a single version, which starts and ends now."""

    def empty(self) -> NodeState:
        """It has never fired."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """Those that pass; each that does is a firing."""
        state.purge(now.tick)
        operands, *absent = inputs
        self._came(state, [one for came in absent for one in came])
        found = []
        for one in operands:
            within = self.node.scope.within_us
            if within is not None:
                state.drop_older(one.most - within)
            if not self._blocked(state, one) and self.tests.passes(self.node.scope, one):
                found.append(one)
        if found:
            # Only now: what takes place at one step is one firing.
            state.fired = now.point
            state.absent = []
        return found

    def _came(self, state: NodeState, absent: list[Occ]) -> None:
        for one in absent:
            if one.start <= state.fired:
                continue
            if self.is_instant and not self.node.scope.equal:
                # What starts later and stays longer makes the older one superfluous.
                while state.absent and _superfluous(state.absent[-1], one, self.node.before):
                    state.absent.pop()
            state.keep(state.absent, one)

    def _blocked(self, state: NodeState, operand: Occ) -> bool:
        there = state.absent
        if self.node.before:
            there = [one for one in there if one.end < operand.start]
        if self.node.scope.equal:
            there = [one for one in there if self.tests.agree(self.node.scope, operand, one)]
        return bool(there)


def _superfluous(old: Occ, new: Occ, before: bool) -> bool:
    """Whether the newer of two absences blocks all that the older does; not at the step at which it comes."""
    return not before and old.start <= new.start and old.until <= new.until and old.least <= new.least

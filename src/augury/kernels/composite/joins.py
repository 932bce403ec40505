"""Nodes whose operands go together: joins and repetitions.

In: new occurrences of the operands. Out: those of the node, found by the pairing of a context. They know no timer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from augury.graphs.graph import JoinNode, RepeatNode, Scope
from augury.kernels.composite.occurrence import BEFORE_ALL, FOREVER, NodeState, Now, Occ, conflict, merged, share
from augury.kernels.composite.protocol import Choice, Pairing
from augury.kernels.composite.scalars import Tests

Inputs = Sequence[list[Occ]]


def absent_between(absent: Sequence[Occ], left: Occ, right: Occ) -> bool:
    """Whether something lies wholly after one and before another."""
    return any(left.end < one.start and one.end < right.start for one in reversed(absent))


@dataclass(slots=True)
class JoinOp:
    """A join with its pairing.

    `overlaps` says that a version can stand in several slots, `is_instant` that the last operand is always one version.
    """

    node: JoinNode
    pairing: Pairing
    tests: Tests
    overlaps: bool
    is_instant: bool
    needed: int = 0
    is_pair: bool = False
    is_scoped: bool = False
    used: list[tuple[int, Occ]] = field(default_factory=list)
    """What was used at this step, where a version can stand in several slots."""

    def __post_init__(self) -> None:
        """Say once what is asked at every step."""
        self.needed = self.node.needed
        self.is_pair = self.node.ordered and len(self.node.slots) == 2
        self.is_scoped = self.node.scope != Scope()

    def empty(self) -> NodeState:
        """Nothing is kept."""
        return NodeState([[] for _ in self.node.slots])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """Serve the new operands: rightmost slots first, so that older versions stand to the left."""
        state.purge(now.tick)
        slots, middles = len(self.node.slots), len(self.node.middles)
        found: list[Occ] = []
        self.used.clear()
        for slot in range(slots - 1, -1, -1):
            for one in inputs[slot]:
                if self.used and self._is_used(slot, one):
                    continue
                if self.node.scope.within_us is not None:
                    state.drop_older(one.most - self.node.scope.within_us)
                found += self.pairing.arrive(self, state, slot, one)
        for more in inputs[slots : slots + middles]:
            for one in more:
                if not self.used or not self._is_used(slots, one):
                    state.keep(state.middles, one)
        for more in inputs[slots + middles :]:
            for one in more:
                if self.is_instant and one.until == FOREVER and self.node.scope.within_us is None:
                    _block(state, one)
                else:
                    state.keep(state.absent, one)
        if self.is_pair and (state.middles or state.absent):
            self._forget(state)
        return found

    def _is_used(self, slot: int, one: Occ) -> bool:
        """Whether an operand of another slot that was used at this step shares a version."""
        return any(at != slot and share(by, one) for at, by in self.used)

    def _forget(self, state: NodeState) -> None:
        """Let go of what lies between no waiting operand and any later one."""
        lefts = [*state.kept[0], *(partial[0][1] for partial in state.partials)]
        first = min((one.end for one in lefts), default=None)
        if first is None:
            state.middles, state.absent = [], []
        else:
            state.middles = [one for one in state.middles if one.start > first]
            state.absent = [one for one in state.absent if one.start > first]

    def keeps(self, slot: int) -> bool:
        """Whether an operand of the slot can be completed by a later one."""
        return slot == 0 and self.is_pair if self.node.ordered else True

    def goes(self, state: NodeState, slot: int, one: Occ, other_slot: int, other: Occ) -> bool:
        """Whether two operands may stand in one occurrence."""
        if self.is_pair and slot != other_slot:
            left, right = (one, other) if slot == 0 else (other, one)
            if left.end >= right.start or (state.absent and absent_between(state.absent, left, right)):
                return False
            for middle in self.node.middles:
                if len(self._middles(state, [left, right], [left], right)) < middle.count:
                    return False
        within = self.node.scope.within_us
        if within is not None and max(one.most, other.most) - min(one.least, other.least) > within:
            return False
        # Occurrences of one slot may share a version too, where several of them are gathered.
        return not ((self.overlaps or slot == other_slot) and conflict(one, other))

    def complete(self, state: NodeState, chosen: Choice) -> Occ | None:
        """The occurrence of some operands, with the middles that belong to it."""
        occs = [one for _, one in chosen]
        lefts: list[Occ] = []
        if self.is_pair:
            lefts = [one for slot, one in chosen if slot == 0]
            right = next(one for slot, one in chosen if slot == 1)
        if self.node.middles:
            middles = self._middles(state, occs, lefts, occs[-1] if not self.is_pair else right)
            if len(middles) < self.node.middles[0].count:
                return None
            occs = [*occs, *middles]
        made = merged(occs)
        if made is None or (self.is_scoped and not self.tests.passes(self.node.scope, made)):
            return None
        return made

    def _middles(self, state: NodeState, occs: list[Occ], lefts: list[Occ], right: Occ) -> list[Occ]:
        since = min((left.end for left in lefts), default=BEFORE_ALL)
        within = self.node.scope.within_us
        least, most = min(one.least for one in occs), max(one.most for one in occs)
        found: list[Occ] = []
        for one in state.middles:
            if one.end >= right.start or one.start <= since:
                continue
            if within is not None and max(most, one.most) - min(least, one.least) > within:
                continue
            if any(conflict(one, other) for other in (*occs, *found)):
                continue
            least, most = min(least, one.least), max(most, one.most)
            found.append(one)
        return found

    def use(self, state: NodeState, chosen: Choice, made: Occ) -> None:
        """Let go of the operands that an occurrence has used, and of what shares a version with them elsewhere."""
        if not self.overlaps and not state.middles and not state.partials:
            for slot, one in chosen:
                _remove(state.kept[slot], one)
            return
        middle = len(self.node.slots)
        used = list(chosen)
        if state.middles:
            inside = set(made.places)
            taken = [(middle, one) for one in state.middles if inside.issuperset(one.places)]
            gone = {id(one) for _, one in taken}
            state.middles = [one for one in state.middles if id(one) not in gone]
            used += taken
        if self.overlaps:
            self.used += used

        def stays(slot: int, one: Occ) -> bool:
            return not any(by is one or (at != slot and self.overlaps and share(by, one)) for at, by in used)

        state.kept = [[one for one in waiting if stays(slot, one)] for slot, waiting in enumerate(state.kept)]
        if state.partials:
            state.partials = [p for p in state.partials if all(stays(slot, one) for slot, one in p)]
        if self.overlaps and state.middles:
            state.middles = [one for one in state.middles if stays(middle, one)]


def _block(state: NodeState, absent: Occ) -> None:
    """Let go of the left operands that no later right one can be paired with: the absence between will not go away."""
    state.kept[0] = [one for one in state.kept[0] if one.end >= absent.start]
    state.partials = [partial for partial in state.partials if partial[0][1].end >= absent.start]


def _remove(waiting: list[Occ], one: Occ) -> None:
    """Let go of one of them, if it is there; nearly always it is the oldest."""
    for place, other in enumerate(waiting):
        if other is one:
            del waiting[place]
            return


@dataclass(slots=True)
class RepeatOp:
    """Rounds of `count`, in every context."""

    node: RepeatNode
    tests: Tests

    def empty(self) -> NodeState:
        """Nothing is kept."""
        return NodeState([[]])

    def step(self, state: NodeState, now: Now, inputs: Inputs) -> list[Occ]:
        """Each new operand with the oldest that it goes with."""
        state.purge(now.tick)
        found = []
        within = self.node.scope.within_us
        for one in inputs[0]:
            if within is not None:
                state.drop_older(one.most - within)
            made = self._round(state, one)
            if made is None:
                state.keep(state.kept[0], one)
            else:
                found.append(made)
        return found

    def _round(self, state: NodeState, operand: Occ) -> Occ | None:
        for chosen in combinations(state.kept[0], self.node.count - 1):
            made = merged([*chosen, operand])
            if made is not None and self.tests.passes(self.node.scope, made):
                used = set(map(id, chosen))
                state.kept[0] = [one for one in state.kept[0] if id(one) not in used]
                return made
        return None

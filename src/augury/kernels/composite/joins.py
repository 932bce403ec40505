"""Nodes whose operands go together: joins and repetitions.

In: new occurrences of the operands. Out: those of the node, found by the pairing of a context. They know no timer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from augury.graphs.graph import JoinNode, RepeatNode, Scope
from augury.kernels.composite.occurrence import (
    BEFORE_ALL,
    FOREVER,
    NodeState,
    Now,
    Occ,
    Point,
    conflict,
    merged,
    share,
)
from augury.kernels.composite.protocol import Choice, Pairing
from augury.kernels.composite.scalars import Tests

Inputs = Sequence[list[Occ]]


def absent_between(absent: Sequence[Occ], after: Point, right: Occ) -> Iterator[Occ]:
    """What lies wholly after a point and before an occurrence, the latest first."""
    return (one for one in reversed(absent) if after < one.start and one.end < right.start)


def between(found: Sequence[Occ], after: Point, right: Occ) -> list[Occ]:
    """What lies wholly after a point and before an occurrence."""
    return [one for one in found if after < one.start and one.end < right.start]


def going(waiting: Sequence[Occ], beside: Sequence[Occ], scope: Scope, tests: Tests, count: int | None) -> list[Occ]:
    """Those that go with some occurrences and with each other, taken one after the other; `count` of them, or all."""
    found: list[Occ] = []
    within = scope.within_us
    least, most = min(one.least for one in beside), max(one.most for one in beside)
    for one in waiting:
        if len(found) == count:
            break
        if within is not None and max(most, one.most) - min(least, one.least) > within:
            continue
        if any(conflict(one, other) for other in (*beside, *found)):
            continue
        if scope.equal and not tests.agree(scope, one, *beside, *found):
            continue
        least, most = min(least, one.least), max(most, one.most)
        found.append(one)
    return found


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
    middle_of: dict[int, int]
    """Of each leaf below a middle, which of the middles it is."""
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
        for slot in range(slots, slots + middles):
            for one in inputs[slot]:
                if not self.used or not self._is_used(slot, one):
                    state.keep(state.middles, one)
        if slots == 1 and found:
            # What leads looks back to the last firing, and what takes place at one step is one.
            state.fired = now.point
            state.absent = []
        for more in inputs[slots + middles :]:
            self._came(state, more)
        if self.is_pair and (state.middles or state.absent):
            self._forget(state)
        return found

    def _came(self, state: NodeState, absent: list[Occ]) -> None:
        """Keep absences, or let go of what they block for ever."""
        for one in absent:
            scope = self.node.scope
            if (
                self.is_pair
                and self.is_instant
                and one.until == FOREVER
                and scope.within_us is None
                and not scope.equal
            ):
                _block(state, one)
            elif one.start > state.fired:
                state.keep(state.absent, one)

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
            if left.end >= right.start or (state.absent and self._blocked(state, left.end, (left, right))):
                return False
            if self.node.middles and self._middles(state, [left, right], left.end, right) is None:
                return False
        within = self.node.scope.within_us
        if within is not None and max(one.most, other.most) - min(one.least, other.least) > within:
            return False
        # Occurrences of one slot may share a version too, where several of them are gathered.
        return not ((self.overlaps or slot == other_slot) and conflict(one, other))

    def _blocked(self, state: NodeState, after: Point, sides: tuple[Occ, ...]) -> bool:
        """Whether something absent lies between a point and the last of the sides, and has their values."""
        scope = self.node.scope
        there = absent_between(state.absent, after, sides[-1])
        return any(not scope.equal or self.tests.agree(scope, one, *sides) for one in there)

    def complete(self, state: NodeState, chosen: Choice) -> Occ | None:
        """The occurrence of some operands, with the middles that belong to it."""
        occs = [one for _, one in chosen]
        if self.node.ordered and not self.is_pair and state.absent and self._blocked(state, state.fired, (occs[0],)):
            return None
        if self.node.middles:
            after, right = BEFORE_ALL, occs[-1]
            if self.is_pair:
                after = min(one.end for slot, one in chosen if slot == 0)
                right = next(one for slot, one in chosen if slot == 1)
            middles = self._middles(state, occs, after, right)
            if middles is None:
                return None
            occs = [*occs, *middles]
        made = merged(occs)
        if made is None or (self.is_scoped and not self.tests.passes(self.node.scope, made)):
            return None
        return made

    def _middles(self, state: NodeState, occs: Sequence[Occ], after: Point, right: Occ) -> list[Occ] | None:
        """All that lie between, those of the leftmost repetition first; None if there are too few of one."""
        found: list[Occ] = []
        for number, middle in enumerate(self.node.middles):
            own = state.middles
            if len(self.node.middles) > 1:
                own = [one for one in own if self.middle_of[one.parts[0][1]] == number]
            new = going(between(own, after, right), [*occs, *found], self.node.scope, self.tests, None)
            if len(new) < middle.count:
                return None
            found += new
        return found

    def use(self, state: NodeState, chosen: Choice, made: Occ) -> None:
        """Let go of the operands that an occurrence has used, and of what shares a version with them elsewhere."""
        if not self.overlaps and not state.middles and not state.partials:
            for slot, one in chosen:
                _remove(state.kept[slot], one)
            return
        used = list(chosen)
        if state.middles:
            inside = {(version.place, leaf) for version, leaf in made.parts}
            taken = [
                (self._slot_of(one), one)
                for one in state.middles
                if all((version.place, leaf) in inside for version, leaf in one.parts)
            ]
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
            state.middles = [one for one in state.middles if stays(self._slot_of(one), one)]

    def _slot_of(self, middle: Occ) -> int:
        return len(self.node.slots) + self.middle_of[middle.parts[0][1]]


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
        """Those that go with it and with each other, one after the other; a WHERE then looks at all of them."""
        waiting, others = state.kept[0], self.node.count - 1
        chosen = going(waiting, [operand], self.node.scope, self.tests, others) if len(waiting) >= others else []
        if len(chosen) < others:
            return None
        made = merged([*chosen, operand])
        if made is None or not self.tests.passes(self.node.scope, made):
            return None
        used = set(map(id, chosen))
        state.kept[0] = [one for one in waiting if id(one) not in used]
        return made

"""Why a node did not take place at a step, in the contexts that work node by node; see `why_not`, which asks.

In: a place in the history of a key. Out: the operand to blame, and a sentence. What took place at each node, and what
the node kept before the step, say what became of the operands. Nodes with timers and windows are in `failures_timed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from augury.clock import show_duration, show_time
from augury.graphs import graph as g
from augury.kernels.composite.failures_timed import absent_for, aperiodic, periodic, plus
from augury.kernels.composite.joins import JoinOp, between
from augury.kernels.composite.network import Network
from augury.kernels.composite.occurrence import BEFORE_ALL, KeyState, Occ, Point, conflict, merged
from augury.kernels.composite.past import Trace, steps
from augury.kernels.composite.telling import GONE, ORDER, SHARED, Asked, Failure, furthest
from augury.kernels.composite.timed import AperiodicOp, PeriodicOp

_TRIED: Final = 32
"""How many operands are looked at, the latest first."""


@dataclass(slots=True)
class NodeByNode(Asked):
    """A graph whose nodes pair their operands on their own."""

    network: Network
    trace: Trace = field(init=False)
    before: KeyState = field(init=False)
    """What was kept right before the step."""
    closed: dict[int, Point] = field(init=False, default_factory=dict)
    """When the window of an opening, by id, was open no more."""

    def __post_init__(self) -> None:
        """Run the graph up to the step."""
        self.trace = Trace(self.network.empty(), [[] for _ in self.graph.nodes])
        state = self.trace.state
        before: KeyState | None = None
        for now, arriving in steps(state, self.past.standing(self.key), self.point, self.past.chronon_us):
            if now.point == self.point:
                before = state.copied()
            opened = [window.opening for node in state.nodes for window in node.windows]
            for found, new in zip(self.trace.found, self.network.pass_over(state, now, arriving), strict=True):
                found += new
            still = {id(window.opening) for node in state.nodes for window in node.windows}
            self.closed.update({id(one): now.point for one in opened if id(one) not in still})
        self.before = state.copied() if before is None else before

    def whole(self) -> Failure:
        """Why the whole did not take place."""
        if self.at_step(self.graph.root):
            names = ", ".join(v.name for v in self.past.detector.plan.keys)
            return self.blame(self.graph.root, f"{self.text(self.graph.root)} takes place for no value of {names}")
        return self.failure(self.graph.root)

    def at_step(self, number: int) -> list[Occ]:
        """What took place at a node at the step."""
        return [one for one in self.trace.found[number] if self.is_here(one)]

    def earlier(self, number: int) -> list[Occ]:
        """What took place at a node, latest first."""
        return self.trace.found[number][::-1]

    def failure(self, number: int) -> Failure:
        """Why a node did not take place at the step, where it did not."""
        node = self.graph.nodes[number]
        match node:
            case g.LeafNode():
                return self.misfit(number)
            case g.EitherNode(sides=sides):
                return self.none_of(number, [self.failure(side) for side in sides])
            case g.JoinNode(ordered=True):
                return self._sequence(number, node)
            case g.JoinNode():
                return self._together(number, node)
            case g.GuardNode():
                return self._guarded(number, node)
            case g.RepeatNode():
                return self._repeated(number, node)
            case g.BoundedNode():
                return self._bounded(number, node)
            case g.FilterNode(operand=operand, scope=scope):
                return self._of_operand(number, operand, scope)
            case g.PlusNode():
                return plus(self, number, node)
            case g.AbsentForNode():
                return absent_for(self, number, node)
            case g.AperiodicNode():
                return aperiodic(self, number, node)
            case g.PeriodicNode():
                return periodic(self, number, node)
            case _:
                assert_never(node)

    def missing(self, number: int) -> Failure:
        """What is missing of something that never took place: the first operand that never did."""
        node = self.graph.nodes[number]
        absent = g.absences_of(node)
        is_choice = isinstance(node, g.EitherNode) or (isinstance(node, g.JoinNode) and node.needed < len(node.slots))
        operands = [one for one in g.operands_of(node) if one not in absent]
        if isinstance(node, g.JoinNode):
            operands = list(node.slots)
        if isinstance(node, g.PeriodicNode) and not node.gathered:
            operands = [node.opening]
        for operand in () if is_choice else operands:
            if not self.trace.found[operand]:
                found = self.missing(operand)
                lefts = [one for one in self.trace.found[operands[0]] if not self.is_here(one)]
                if isinstance(node, g.JoinNode) and node.ordered and lefts and found.near == operand:
                    left = self.named(operands[0], lefts[-1])
                    sentence = f"no {self.text(operand)} took place after {left} and before {self.here}"
                    return self.blame(operand, sentence)
                return found
        return self.never(number)

    # ---- joins ------------------------------------------------------------------------------------

    def _sequence(self, number: int, node: g.JoinNode) -> Failure:
        right = node.slots[-1]
        arrived = self.at_step(right)
        if not arrived:
            return self.failure(right)
        if len(node.slots) == 1:
            return furthest(self._alone(number, node, one) for one in arrived)
        left = node.slots[0]
        before = self.earlier(left)
        if not before:
            return self.missing(left)
        found = [
            failure
            for one in arrived
            for other in before[:_TRIED]
            if (failure := self.apart(number, node, (left, other), (right, one))) is not None
        ]
        return furthest(found) if found else self._unknown(number, node.slots)

    def _alone(self, number: int, node: g.JoinNode, one: Occ) -> Failure:
        """A repetition that leads, closed by what came."""
        right = node.slots[0]
        since = self.before.nodes[number].fired
        names = [self.named(right, one)]
        if (failure := self._absence(number, node, since, "", (right, one))) is not None:
            return failure
        middles = self._middles(number, node, BEFORE_ALL, names, [one])
        if isinstance(middles, Failure):
            return middles
        return self._scoped(number, node.scope, names, [*middles, one]) or self._unknown(number, node.slots)

    def _together(self, number: int, node: g.JoinNode) -> Failure:
        arrived = [(slot, one) for slot in node.slots for one in self.at_step(slot)]
        if not arrived:
            return self.none_of(number, [self.failure(slot) for slot in node.slots])
        return furthest(self._beside(number, node, slot, one) for slot, one in arrived)

    def _beside(self, number: int, node: g.JoinNode, slot: int, one: Occ) -> Failure:
        """What is missing beside an operand that came."""
        going, lacking = [(slot, one)], []
        for other in node.slots:
            if other == slot:
                continue
            if not self.trace.found[other]:
                lacking.append(self.missing(other))
                continue
            tried = [
                (each, self.apart(number, node, (other, each), (slot, one)) or self._taken((other, each), going))
                for each in self.earlier(other)[:_TRIED]
            ]
            fits = next((each for each, failure in tried if failure is None), None)
            if fits is None:
                lacking.append(furthest(failure for _, failure in tried if failure is not None))
            else:
                going.append((other, fits))
        if len(going) < node.needed:
            failure = lacking[0]
            if node.needed == len(node.slots):
                return failure
            return replace(failure, sentence=f"{failure.sentence} ({len(going)} of the {node.needed} that ANY needs)")
        going = sorted(going[: node.needed], key=lambda entry: node.slots.index(entry[0]))
        names = [self.named(at, each) for at, each in going]
        return self._scoped(number, node.scope, names, [each for _, each in going]) or self._unknown(
            number, [at for at, _ in going]
        )

    def apart(
        self, number: int, node: g.JoinNode, earlier: tuple[int, Occ], arrived: tuple[int, Occ]
    ) -> Failure | None:
        """Why an operand does not go with one that came; None if it does."""
        (left, one), (right, other) = earlier, arrived
        names = [self.named(left, one), self.named(right, other)]
        if node.ordered and one.end >= other.start:
            return replace(self.blame(left, f"{names[0]} is not before {names[1]}", ORDER), near=number)
        if (failure := self._taken(earlier, [arrived])) is not None:
            return failure
        if (failure := self.used(number, left, one)) is not None:
            return failure
        if node.ordered:
            failure = self._absence(number, node, one.end, f" after {names[0]}", (right, other), one)
            if failure is not None:
                return failure
        if one.until < self.tick:
            return self.expired(number, left, one)
        if (failure := self.too_long(number, node.scope, names, [one, other])) is not None:
            return failure
        if not self.is_here(one) and not self._is_kept(number, one):
            return self.let_go(number, left, one, node.scope)
        middles = self._middles(number, node, one.end, names, [one, other]) if node.ordered else []
        if isinstance(middles, Failure):
            return middles
        return self.untrue(number, node.scope, names, [one, *middles, other]) if node.needed == 2 else None

    def _taken(self, operand: tuple[int, Occ], others: Sequence[tuple[int, Occ]]) -> Failure | None:
        """Which other operand has an event of this one at another leaf, if one has."""
        for other in others:
            if conflict(operand[1], other[1]):
                sentence = f"{self.named(*operand)} and {self.named(*other)} have an event in common"
                return self.blame(operand[0], sentence, SHARED)
        return None

    def used(self, number: int, operand: int, one: Occ) -> Failure | None:
        """What an operand was used up by, if it was."""
        op = self.network.ops[number]
        if not getattr(getattr(op, "pairing", None), "uses_up", False) or self._is_kept(number, one):
            return None
        parts = _parts(one)
        # A version that was used in one slot is not kept in another.
        is_window = isinstance(op, AperiodicOp | PeriodicOp) and op.node.gathered
        shares = op.overlaps if isinstance(op, JoinOp) else is_window
        for made in self.earlier(number):
            if parts <= _parts(made) or (shares and _places(one) & _places(made)):
                sentence = f"{self.named(operand, one)} was used up by {self.named(number, made)}"
                return replace(self.blame(operand, sentence, GONE), near=number)
        return None

    def _is_kept(self, number: int, one: Occ) -> bool:
        return any(kept is one for kept in self.before.nodes[number].everything())

    def let_go(self, number: int, operand: int, one: Occ, scope: g.Scope) -> Failure:
        """What a node no longer keeps, though nothing has used it."""
        name = self.named(operand, one)
        sentence = f"{name} is no longer kept"
        if scope.within_us is not None:
            newer = [
                (at, each)
                for at in g.operands_of(self.graph.nodes[number])
                for each in self.trace.found[at]
                if each.end > one.end and each.most - scope.within_us > one.least
            ]
            if newer:
                first = self.named(*min(newer, key=lambda entry: entry[1].end))
                sentence = f"{name} was dropped when {first} came, for WITHIN {show_duration(scope.within_us)}"
        return replace(self.blame(operand, sentence, GONE), near=number)

    def _absence(
        self,
        number: int,
        node: g.JoinNode,
        after: Point,
        told: str,
        right: tuple[int, Occ],
        left: Occ | None = None,
    ) -> Failure | None:
        """Which absence between two operands was violated, and by what."""
        least = None if node.scope.within_us is None else right[1].most - node.scope.within_us
        for absent in node.absences:
            for b in self.earlier(absent):
                counts = b.until >= self.tick and (least is None or b.least >= least)
                sides = [one for one in (left, right[1]) if one is not None]
                agrees = not node.scope.equal or self.past.detector.tests.agree(node.scope, b, *sides)
                if after < b.start and b.end < right[1].start and counts and agrees:
                    name = self.named(*right)
                    came = f"{self.named(absent, b)} came{told}{' and' if told else ''} before {name}"
                    return self.blame_absent(number, absent, came)
        return None

    def _middles(
        self, number: int, node: g.JoinNode, after: Point, names: Sequence[str], occs: Sequence[Occ]
    ) -> list[Occ] | Failure:
        """What open repetitions gather before the last of some operands."""
        kept = [one for one in self.before.nodes[number].middles if one.until >= self.tick]
        there = between(kept, after, occs[-1])
        own = [{id(one) for one in self.trace.found[middle.node]} for middle in node.middles]
        return self.gathered(number, node, [[one for one in there if id(one) in ids] for ids in own], names, occs)

    def _scoped(self, number: int, scope: g.Scope, names: Sequence[str], occs: Sequence[Occ]) -> Failure | None:
        return self.too_long(number, scope, names, occs) or self.untrue(number, scope, names, occs)

    def _unknown(self, number: int, operands: Sequence[int]) -> Failure:
        texts = " and ".join(self.text(one) for one in operands)
        return self.blame(number, f"no {texts} that are kept go together at {self.here}")

    # ---- nodes with one operand -------------------------------------------------------------------

    def _of_operand(self, number: int, operand: int, scope: g.Scope) -> Failure:
        """Why a WHERE lets nothing pass."""
        arrived = self.at_step(operand)
        if not arrived:
            return self.failure(operand)
        found = [self._scoped(number, scope, [self.named(operand, one)], [one]) for one in arrived]
        return furthest([one for one in found if one is not None] or [self._unknown(number, [operand])])

    def _bounded(self, number: int, node: g.BoundedNode) -> Failure:
        arrived = self.at_step(node.operand)
        if not arrived:
            return self.failure(node.operand)
        return bounded(self, number, node, arrived[-1])

    def _guarded(self, number: int, node: g.GuardNode) -> Failure:
        arrived = self.at_step(node.operand)
        if not arrived:
            return self.failure(node.operand)
        fired = self.before.nodes[number].fired
        for one in arrived:
            least = None if node.scope.within_us is None else one.most - node.scope.within_us
            for absent, b in ((away, b) for away in node.absences for b in self.earlier(away)):
                counts = b.start > fired and b.until >= self.tick and (least is None or b.least >= least)
                if counts and (b.end < one.start or not node.before):
                    return guarded(self, number, node, one, (absent, b), fired)
        return self._of_operand(number, node.operand, node.scope)

    def _repeated(self, number: int, node: g.RepeatNode) -> Failure:
        arrived = self.at_step(node.operand)
        if not arrived:
            return self.failure(node.operand)
        kept = [one for one in self.before.nodes[number].kept[0] if one.until >= self.tick]
        last = arrived[-1]
        within = node.scope.within_us
        near = [one for one in kept if within is None or last.most - within <= one.least]
        few = [*near, *(one for one in arrived if not any(one is each for each in near))]
        if len(few) < node.count:
            return too_few(self, number, node, few)
        few = [*few[: node.count - 1], last]
        names = [self.named(node.operand, one) for one in few]
        return self._scoped(number, node.scope, names, few) or self._unknown(number, [node.operand])


# ---- said of RECENT as well ----------------------------------------------------------------------


def too_few(asked: Asked, number: int, node: g.RepeatNode, few: Sequence[Occ]) -> Failure:
    """A repetition that has not had its number."""
    made = merged(few)
    seqs = "" if made is None else f": {', '.join(asked.seq(place) for place in made.places)}"
    return asked.blame(number, f"only {len(few)} of {node.count} {asked.text(node.operand)} so far{seqs}")


def guarded(asked: Asked, number: int, node: g.GuardNode, one: Occ, blocking: tuple[int, Occ], fired: Point) -> Failure:
    """An operand beside which something negated came: which node, and what."""
    absent, b = blocking
    since = "" if fired == BEFORE_ALL else f", since the firing at {asked.at(fired)}"
    came, operand = asked.named(absent, b), asked.named(node.operand, one)
    beside = f" before {operand}" if node.before else f", and none may come up to {operand}"
    return asked.blame_absent(number, absent, f"{came} came{beside}{since}")


def bounded(asked: Asked, number: int, node: g.BoundedNode, one: Occ) -> Failure:
    """An operand outside of AT, BY or BETWEEN."""
    if node.low_us is not None and one.occ_time < node.low_us:
        side = f"before {show_time(node.low_us)}"
    else:
        assert node.high_us is not None
        side = f"after {show_time(node.high_us)}"
    return asked.blame(number, f"{asked.named(node.operand, one)} occurred at {show_time(one.occ_time)}, {side}")


def _parts(one: Occ) -> set[tuple[int, int]]:
    return {(version.place, leaf) for version, leaf in one.parts}


def _places(one: Occ) -> set[int]:
    return set(one.places)

"""Sequences: a left and a right side, and between them what must not be, or all that is; without a left side it leads.

In: what the nodes below found at a step. Out: what takes place here. `ChainJoin` says what goes together, in every
context; `ChainNode` is the operator at work node by node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from augury.kernels.reference.composite.forms import Terms
from augury.kernels.reference.composite.nodes import Node, not_too_old, still_kept
from augury.kernels.reference.composite.occurrence import Operand, Point, Step, distinct, joined
from augury.kernels.reference.composite.protocol import (
    Choice,
    Completed,
    Detector,
    Join,
    Kept,
    Pairing,
    is_used,
    passes,
)
from augury.kernels.reference.composite.setting import Setting


@dataclass(frozen=True, slots=True)
class Found:
    """What the expression of a middle has found: none of it may lie between, or (`least`) all of it counts."""

    least: int | None
    operands: Sequence[Operand]


@dataclass(frozen=True, slots=True)
class ChainJoin:
    """How the operands of a sequence go together; `used` are versions that other leaves use."""

    setting: Setting
    terms: Terms
    has_left: bool
    middles: Sequence[Found]
    periods_us: Sequence[int]
    last_firing: Point | None = None
    used: frozenset[int] = frozenset()

    @property
    def need(self) -> int:
        """Both sides, or the right one."""
        return 2 if self.has_left else 1

    def keeps(self, slot: int) -> bool:
        """A right operand that finds no left one before it is dropped."""
        return slot == 0

    def possible(self, choice: Choice) -> bool:
        """Whether operands may stand in one occurrence, and every left one has what it takes between."""
        if not Join(self.setting, self.need, self.terms, ordered=True).possible(choice):
            return False
        lefts, rights = _sides(choice)
        return all(self._has_middles(left, right) for left in lefts for right in rights)

    def complete(self, choice: Choice) -> Operand | None:
        """The occurrence of both sides and of all that is gathered between them."""
        made = Join(self.setting, self.need, Terms(), ordered=True).complete(choice)
        if made is None or not self.possible(choice):
            return None
        gathered: list[Operand] = []
        lefts, rights = _sides(choice)
        for left in lefts:
            for one in self._gathered(left, rights[0]) or ():
                gathered += [one] if self._may_join(one, [made, *gathered]) else []
        whole = joined([made, *gathered])
        return whole if passes(self.setting, self.terms, whole) else None

    def _has_middles(self, left: Operand | None, right: Operand) -> bool:
        sides = [right] if left is None else [left, right]
        for middle in self.middles:
            there = self._between(middle, left, right)
            if middle.least is None and any(self._counts(one, sides) for one in there):
                return False
        if not all(left is not None and self._passed(period, left, right) for period in self.periods_us):
            return False
        return self._gathered(left, right) is not None

    def _gathered(self, left: Operand | None, right: Operand) -> list[Operand] | None:
        """All of each open repetition, the leftmost first, for a version stands at one leaf; None if too few."""
        sides = [right] if left is None else [left, right]
        found: list[Operand] = []
        for middle in self.middles:
            if middle.least is not None:
                before = len(found)
                for one in self._between(middle, left, right):
                    found += [one] if self._may_join(one, [*sides, *found]) else []
                if len(found) - before < middle.least:
                    return None
        return found

    def _between(self, middle: Found, left: Operand | None, right: Operand) -> list[Operand]:
        """What was found between the sides; what leads looks back to the last firing, if it has to be absent."""
        since = left.end if left is not None else self.last_firing if middle.least is None else None
        return [one for one in middle.operands if (since is None or since < one.start) and one.before(right)]

    def _may_join(self, one: Operand, others: Sequence[Operand]) -> bool:
        join = Join(self.setting, 1, Terms(self.terms.within_us, (), self.terms.agree))
        return not one.places & self.used and join.possible(tuple((0, each) for each in (*others, one)))

    def _counts(self, absent: Operand, sides: Sequence[Operand]) -> bool:
        """Whether what must not be there is not older than WITHIN, and has the values of the sides."""
        within = self.terms.within_us
        oldest = None if within is None else max(self.setting.occ_times(sides[-1:])) - within
        is_young = oldest is None or min(self.setting.occ_times([absent])) >= oldest
        return is_young and self.setting.agree([*sides, absent], self.terms.agree)

    def _passed(self, period_us: int, left: Operand, right: Operand) -> bool:
        first = max(left.occ_time + period_us, left.det_time)
        return first <= self.setting.events[right.start[0]].det_time


def _sides(choice: Choice) -> tuple[list[Operand] | list[None], list[Operand]]:
    lefts = [operand for slot, operand in choice if slot == 0]
    return lefts or [None], [operand for slot, operand in choice if slot == 1]


@dataclass(eq=False)
class Between:
    """A middle at work."""

    node: Detector
    least: int | None
    found: list[Operand] = field(default_factory=list)


@dataclass(eq=False)
class ChainNode(Node):
    """A sequence, with what lies between its two sides."""

    pairing: Pairing
    left: Detector | None
    between: Sequence[Between]
    periods_us: Sequence[int]
    right: Detector
    terms: Terms
    closes: bool
    kept: Kept = ()
    last_firing: Point | None = None

    def below(self) -> Sequence[Detector]:
        """The sides and the middles."""
        left = [] if self.left is None else [self.left]
        return [*left, *(middle.node for middle in self.between), self.right]

    def step(self, step: Step) -> list[Operand]:
        """What right operands complete; then left ones open, but for what was used up."""
        lefts = [] if self.left is None else self.left.step(step)
        for middle in self.between:
            middle.found = self.fresh([*middle.found, *middle.node.step(step)], step)
        self.kept = still_kept(self, self.kept, step)
        found: list[Completed] = []
        used: list[tuple[int, Operand]] = []
        for slot, operands in ((1, self.right.step(step)), (0, lefts)):
            for operand in operands:
                if self.pairing.uses_up and is_used(slot, operand, used):
                    continue
                self.kept = not_too_old(self, self.kept, operand, self.terms)
                for middle in self.between:
                    middle.found = self.young(middle.found, operand, self.terms)
                closed = self._closed(operand) if self.closes and slot == 1 else self.kept
                made, left = self.pairing.arrive(self._join(), closed, slot, operand)
                self.kept = left if closed is self.kept else tuple(one for one in self.kept if one not in closed)
                found += made
                used += self._use_up(made)
        if found:
            self.last_firing = step.point
        return distinct(made for _, made in found)

    def _closed(self, closing: Operand) -> Kept:
        open_before = [one for ((_, one),) in self.kept if one.before(closing)]
        gone = self.pairing.closed([o for o in open_before if self.setting.agree([o, closing], self.terms.agree)])
        return tuple(((0, one),) for one in gone)

    def _join(self) -> ChainJoin:
        middles = [Found(middle.least, middle.found) for middle in self.between]
        has_left = self.left is not None
        return ChainJoin(self.setting, self.terms, has_left, middles, self.periods_us, self.last_firing)

    def _use_up(self, made: Sequence[Completed]) -> list[tuple[int, Operand]]:
        """Let go of what was used, what was gathered between among it, and of what shares a version in another slot."""
        used = [each for choice, _ in made for each in choice]
        gathering = [(slot, middle) for slot, middle in enumerate(self.between, 2) if middle.least is not None]
        for slot, middle in gathering:
            used += [(slot, one) for one in middle.found if any({*one.parts} <= {*whole.parts} for _, whole in made)]
        if not self.pairing.uses_up:
            return used
        self.kept = tuple(one for one in self.kept if not any(is_used(slot, each, used) for slot, each in one))
        for slot, middle in gathering:
            middle.found = [one for one in middle.found if not is_used(slot, one, used)]
        return used

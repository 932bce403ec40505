"""The operators that put occurrences together, node by node: each keeps and consumes its operands on its own.

In: what the nodes below found at a step. Out: what takes place here. Which operands go together is the pairing's to
say; a node only knows its operator, lifespans and WITHIN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from augury.algebra.scalar import Scalar
from augury.kernels.reference.composite.forms import Terms
from augury.kernels.reference.composite.occurrence import Operand, Point, Step, distinct
from augury.kernels.reference.composite.protocol import (
    Choice,
    Completed,
    Detector,
    Join,
    Kept,
    Pairing,
    is_used_up,
    passes,
)
from augury.kernels.reference.composite.setting import Setting


@dataclass(eq=False)
class Node:
    """An operator over the nodes below it."""

    setting: Setting

    def below(self) -> Sequence[Detector]:
        """The nodes of its operands."""
        return ()

    def next_due(self) -> int | None:
        """The time of the next timer set here or below."""
        times = [node.next_due() for node in self.below()]
        return min((time for time in times if time is not None), default=None)

    def fresh(self, operands: Iterable[Operand], step: Step) -> list[Operand]:
        """What has not expired."""
        return [operand for operand in operands if not self.setting.expired(operand, step.tick)]

    def young(self, operands: Iterable[Operand], arrived: Operand, terms: Terms) -> list[Operand]:
        """What is not older than WITHIN allows, seen from an operand that arrives."""
        if terms.within_us is None:
            return list(operands)
        oldest = max(self.setting.occ_times([arrived])) - terms.within_us
        return [operand for operand in operands if min(self.setting.occ_times([operand])) >= oldest]


@dataclass(eq=False)
class LeafNode(Node):
    """Each version that fits."""

    number: int
    terms: Terms

    def step(self, step: Step) -> list[Operand]:
        """The version of this step, if it fits."""
        found = None if step.place is None else self.setting.at_leaf(self.number, step.place)
        return [found] if found is not None and self.setting.agree([found], self.terms.agree) else []


@dataclass(eq=False)
class EitherNode(Node):
    """OR: what its sides find, a set of versions once."""

    sides: Sequence[Detector]

    def below(self) -> Sequence[Detector]:
        """The sides."""
        return self.sides

    def step(self, step: Step) -> list[Operand]:
        """The occurrences of all sides."""
        return distinct([operand for side in self.sides for operand in side.step(step)])


@dataclass(eq=False)
class BoundsNode(Node):
    """AT, BY and BETWEEN let pass what happens in time."""

    low_us: int | None
    high_us: int | None
    operand: Detector

    def below(self) -> Sequence[Detector]:
        """The operand."""
        return [self.operand]

    def step(self, step: Step) -> list[Operand]:
        """The occurrences of the operand that happen within the bounds, both included."""
        return [found for found in self.operand.step(step) if in_bounds(found, self.low_us, self.high_us)]


@dataclass(eq=False)
class TestedNode(Node):
    """WHERE lets pass what it is TRUE of."""

    operand: Detector
    tests: tuple[Scalar, ...]

    def below(self) -> Sequence[Detector]:
        """The operand."""
        return [self.operand]

    def step(self, step: Step) -> list[Operand]:
        """The occurrences of the operand that pass."""
        return [found for found in self.operand.step(step) if passes(self.setting, Terms(tests=self.tests), found)]


@dataclass(eq=False)
class TogetherNode(Node):
    """AND and ANY."""

    pairing: Pairing
    need: int
    operands: Sequence[Detector]
    terms: Terms
    kept: Kept = ()

    def below(self) -> Sequence[Detector]:
        """The operands."""
        return self.operands

    def step(self, step: Step) -> list[Operand]:
        """What the operands of this step complete; the rightmost slot is served first, so the oldest stand left."""
        arrived = [operand.step(step) for operand in self.operands]
        join = Join(self.setting, self.need, self.terms)
        self.kept = still_kept(self, self.kept, step)
        found: list[Completed] = []
        for slot in reversed(range(len(arrived))):
            for operand in arrived[slot]:
                if self.pairing.uses_up and is_used_up(slot, operand, found):
                    continue
                self.kept = not_too_old(self, self.kept, operand, self.terms)
                made, self.kept = self.pairing.arrive(join, self.kept, slot, operand)
                found += made
        return distinct(made for _, made in found)


@dataclass(eq=False)
class TimesNode(Node):
    """`E{n}`: at every n-th, with those n, in every context."""

    count: int
    operand: Detector
    terms: Terms
    kept: list[Operand] = field(default_factory=list)

    def below(self) -> Sequence[Detector]:
        """The operand."""
        return [self.operand]

    def step(self, step: Step) -> list[Operand]:
        """An occurrence for every round that is full."""
        self.kept = self.fresh(self.kept, step)
        found: list[Operand] = []
        for operand in self.operand.step(step):
            self.kept = self.young(self.kept, operand, self.terms)
            found += self._round(operand)
        return distinct(found)

    def _round(self, operand: Operand) -> list[Operand]:
        join = Join(self.setting, 1, self.terms)
        taken: Choice = ((0, operand),)
        for other in self.kept:
            if len(taken) < self.count and join.possible((*taken, (0, other))):
                taken = (*taken, (0, other))
        made = join.complete(taken) if len(taken) == self.count else None
        if made is None:
            self.kept.append(operand)
            return []
        self.kept = [other for other in self.kept if (0, other) not in taken]
        return [made]


@dataclass(eq=False)
class BesideNode(Node):
    """`X & !B`."""

    operand: Detector
    absent: Detector
    terms: Terms
    there: list[Operand] = field(default_factory=list)
    last_firing: Point | None = None

    def below(self) -> Sequence[Detector]:
        """What has to be there, and what has not."""
        return [self.operand, self.absent]

    def step(self, step: Step) -> list[Operand]:
        """The occurrences of the operand, if nothing absent came since the last firing."""
        self.there = self.fresh([*self.there, *self.absent.step(step)], step)
        found: list[Operand] = []
        for operand in self.operand.step(step):
            self.there = self.young(self.there, operand, self.terms)
            found += [] if self._beside(operand) else [operand]
        if found:
            self.last_firing = step.point
        return found

    def _beside(self, operand: Operand) -> bool:
        return any(
            self.setting.agree([operand, absent], self.terms.agree)
            for absent in self.there
            if self.last_firing is None or self.last_firing < absent.start
        )


def in_bounds(operand: Operand, low_us: int | None, high_us: int | None) -> bool:
    """Whether an occurrence happens in time."""
    return (low_us is None or low_us <= operand.occ_time) and (high_us is None or operand.occ_time <= high_us)


def still_kept(node: Node, kept: Kept, step: Step) -> Kept:
    """What has not expired."""
    return _without(kept, lambda operand: bool(node.fresh([operand], step)))


def not_too_old(node: Node, kept: Kept, arrived: Operand, terms: Terms) -> Kept:
    """What WITHIN does not drop."""
    return _without(kept, lambda operand: bool(node.young([operand], arrived, terms)))


def _without(kept: Kept, stays: Callable[[Operand], bool]) -> Kept:
    """What is left of several operands that belong together: all go with the first, which opened it."""
    return tuple(tuple(each for each in one if stays(each[1])) for one in kept if stays(one[0][1]))

"""What a context is: a rule that makes a detector; and, for contexts that work node by node, a rule that pairs.

A new context is one class in one file: `Context` if it looks at the whole expression, `Pairing` if it only decides
which of the operands kept at a node complete with the one that arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from augury.kernels.reference.composite.forms import Form, Terms
from augury.kernels.reference.composite.occurrence import Operand, Point, Step, joined
from augury.kernels.reference.composite.setting import Setting


class Detector(Protocol):
    """An expression at work: told of every version and timer in order, it says what takes place there."""

    def step(self, step: Step) -> list[Operand]:
        """The occurrences that take place at this step."""
        ...

    def next_due(self) -> int | None:
        """The time of the next timer, if one is set."""
        ...


class Context(Protocol):
    """A parameter context."""

    def detector(self, form: Form, setting: Setting) -> Detector:
        """The expression at work over one graph's history."""
        ...


Choice = tuple[tuple[int, Operand], ...]
"""Operands, each with the number of its slot."""

Kept = tuple[Choice, ...]
"""What a node keeps, in the order of arrival: single operands, or several that belong together, the oldest first."""

Completed = tuple[Choice, Operand]
"""Operands, and the occurrence that they make."""


@dataclass(frozen=True, slots=True)
class Join:
    """How operands of a node go together: `need` of them in different slots, or all in one order."""

    setting: Setting
    need: int
    terms: Terms
    ordered: bool = False

    def possible(self, choice: Choice) -> bool:
        """Whether operands may stand in one occurrence: no version twice, in order, within the time, values equal."""
        operands = [operand for _, operand in choice]
        if any(one.conflicts(operands[:i]) for i, one in enumerate(operands)):
            return False
        if self.ordered and not all(left.before(r) for s, left in choice for t, r in choice if s < t):
            return False
        within = self.terms.within_us
        times = self.setting.occ_times(operands)
        if within is not None and max(times) - min(times) > within:
            return False
        return self.setting.agree(operands, self.terms.agree)

    def complete(self, choice: Choice) -> Operand | None:
        """The occurrence that they make, if they may and all tests hold."""
        if len({slot for slot, _ in choice}) < self.need or not self.possible(choice):
            return None
        made = joined([operand for _, operand in choice])
        return made if passes(self.setting, self.terms, made) else None

    def keeps(self, slot: int) -> bool:
        """Whether an operand waits for others: the right one of a sequence does not."""
        return not self.ordered or slot == 0


class Completing(Protocol):
    """A join, or what a sequence adds to it."""

    @property
    def need(self) -> int:
        """How many slots an occurrence fills."""
        ...

    def possible(self, choice: Choice) -> bool:
        """Whether operands may stand in one occurrence."""
        ...

    def complete(self, choice: Choice) -> Operand | None:
        """The occurrence that they make."""
        ...

    def keeps(self, slot: int) -> bool:
        """Whether an operand waits for others."""
        ...


class Pairing(Protocol):
    """A context that works node by node."""

    uses_up: bool

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        """What an operand completes on its arrival in a slot, and what the node keeps then."""
        ...

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        """Which of the open windows a closing closes, oldest first."""
        ...


def passes(setting: Setting, terms: Terms, operand: Operand) -> bool:
    """Whether every WHERE is TRUE of an occurrence."""
    return all(setting.value(test, operand) is True for test in terms.tests)


def choices(join: Completing, kept: Kept, slot: int, operand: Operand) -> Iterator[Choice]:
    """Every choice of as many operands as an occurrence needs, with this one: oldest first, then leftmost slots."""
    others = [choice for choice in kept if choice[0][0] != slot]
    found = [
        tuple(sorted((*(each for one in some for each in one), (slot, operand)), key=lambda each: each[0]))
        for some in combinations(others, join.need - 1)
        if len({one[0][0] for one in some}) == join.need - 1
    ]
    yield from sorted(found, key=_age)


def _age(choice: Choice) -> tuple[list[Point], list[int]]:
    return sorted(operand.end for _, operand in choice), [slot for slot, _ in choice]


def left_over(kept: Iterable[Choice], completed: Sequence[Completed]) -> Kept:
    """What is kept after some operands have been used up."""
    return tuple(choice for choice in kept if not any(is_used_up(slot, operand, completed) for slot, operand in choice))


def is_used_up(slot: int, operand: Operand, completed: Sequence[Completed]) -> bool:
    """Whether an operand was used, or a version of it in another slot."""
    return is_used(slot, operand, [each for choice, _ in completed for each in choice])


def is_used(slot: int, operand: Operand, used: Sequence[tuple[int, Operand]]) -> bool:
    """The same where it is known what was used."""
    return any(operand == other if slot == at else operand.shares(other) for at, other in used)

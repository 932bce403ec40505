"""The expression as the contexts evaluate it: sequences with what lies between, absences beside, tests where they act.

A form numbers its leaves; WITHIN and WHERE stand at the operators that they reach, and every `!` and every open
repetition belongs to the operator that decides it. It knows neither the algebra nor a context.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.algebra.scalar import Scalar


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every occurrence that an operator makes.

    `within_us` is the shortest WITHIN around it; `tests` are the WHERE right around it; `agree` are the variables
    that one negation binds, which demand equal values.
    """

    within_us: int | None = None
    tests: tuple[Scalar, ...] = ()
    agree: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A class with its arguments and mask; `number` counts leaves from 0, left to right."""

    number: int
    terms: Terms


@dataclass(frozen=True, slots=True)
class Either:
    """OR: an occurrence of a side."""

    sides: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """AND and ANY: occurrences of `need` of the operands."""

    need: int
    operands: tuple[Form, ...]
    terms: Terms


@dataclass(frozen=True, slots=True)
class Beside:
    """`X & !B`: the operand, with no `absent` since the last firing."""

    operand: Form
    absent: Form
    terms: Terms


@dataclass(frozen=True, slots=True)
class Absent:
    """No occurrence between."""

    form: Form


@dataclass(frozen=True, slots=True)
class All:
    """All occurrences between, at least so many."""

    form: Form
    least: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """At least one period passed between."""

    period_us: int


Middle = Absent | All | Elapsed


@dataclass(frozen=True, slots=True)
class Chain:
    """`left > middles > right`, NOT(B)[A, C], APERIODIC* and PERIODIC*; without `left` the middles lead.

    `closes`: the right side closes a window, whether it completes anything or not.
    """

    left: Form | None
    middles: tuple[Middle, ...]
    right: Form
    terms: Terms
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Times:
    """`E{n}`."""

    count: int
    operand: Form
    terms: Terms


@dataclass(frozen=True, slots=True)
class Later:
    """`E + d`."""

    operand: Form
    delay_us: int


@dataclass(frozen=True, slots=True)
class Unless:
    """`delay_us` after the opening, if no `absent` came between."""

    opening: Form
    absent: Form
    delay_us: int
    agree: frozenset[str]


@dataclass(frozen=True, slots=True)
class Window:
    """APERIODIC: each `middle` after the opening and before the closing."""

    opening: Form
    middle: Form
    closing: Form
    terms: Terms


@dataclass(frozen=True, slots=True)
class Pulse:
    """PERIODIC: at every period after the opening and before the closing."""

    opening: Form
    period_us: int
    closing: Form
    agree: frozenset[str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """AT, BY and BETWEEN."""

    low_us: int | None
    high_us: int | None
    operand: Form


@dataclass(frozen=True, slots=True)
class Tested:
    """WHERE around an operator that puts nothing together."""

    operand: Form
    tests: tuple[Scalar, ...]


Form = Leaf | Either | Together | Beside | Chain | Times | Later | Unless | Window | Pulse | Bounds | Tested

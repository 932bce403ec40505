"""What a COMPOSITE detects: event-graph expressions with classes, variables and masks resolved (Raghavan 1999, Snoop).

Durations are microseconds, bounds microseconds since the epoch. A trailing absence is already `AbsentFor`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from augury.algebra.expression import ByOccurrence, Feed, Primitive, Variable
from augury.algebra.scalar import Scalar
from augury.diagnostics import NOWHERE, Span


class CompositeOperator(StrEnum):
    """The operators of COMPOSITE that take operands only; the value is the canonical spelling."""

    SEQUENCE = ">"
    OR = "|"
    AND = "&"
    NOT = "!"


class Context(StrEnum):
    """Which occurrences of the operands make an occurrence of the whole."""

    RECENT = "RECENT"
    CHRONICLE = "CHRONICLE"
    CONTINUOUS = "CONTINUOUS"
    CUMULATIVE = "CUMULATIVE"
    UNRESTRICTED = "UNRESTRICTED"


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with its operands; `!` stands only beside a positive operand."""

    operator: CompositeOperator
    operands: tuple[Composite, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`count` of the operands."""

    count: int
    operands: tuple[Composite, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bounded:
    """The occ_time of the last constituent lies in [low, high]; None is no bound."""

    low_us: int | None
    high_us: int | None
    operand: Composite
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class NotBetween:
    """`closing` after `opening` with no `absent` between."""

    absent: Composite
    opening: Composite
    closing: Composite
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class AbsentFor:
    """`within_us` after `opening`'s occ_time, if no `absent` came between."""

    opening: Composite
    absent: Composite
    within_us: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Repeat:
    """Every `count`-th, with those; `open` takes all of them, at least `count`, until what follows closes it."""

    operand: Composite
    count: int
    open: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Plus:
    """`delay_us` after the operand's occ_time."""

    operand: Composite
    delay_us: int
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Scoped:
    """The operand within a duration and where a condition over its constituents holds."""

    operand: Composite
    within_us: int | None
    where: Scalar | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Aperiodic:
    """Each `middle` after `opening` and before `closing`; `gathered`: once, at `closing`."""

    opening: Composite
    middle: Composite
    closing: Composite
    gathered: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Periodic:
    """At every `period_us` after `opening` and before `closing`; `gathered`: once, at `closing`."""

    opening: Composite
    period_us: int
    closing: Composite
    gathered: bool
    span: Span = _span()


Composite = Primitive | Node | AnyOf | Bounded | NotBetween | AbsentFor | Repeat | Plus | Scoped | Aperiodic | Periodic


def children(expression: Composite) -> tuple[Composite, ...]:
    """The expressions directly inside one, left to right."""
    match expression:
        case Primitive():
            return ()
        case Node(operands=operands) | AnyOf(operands=operands):
            return operands
        case Bounded(operand=operand) | Repeat(operand=operand) | Plus(operand=operand) | Scoped(operand=operand):
            return (operand,)
        case NotBetween(absent, opening, closing):
            return (absent, opening, closing)
        case AbsentFor(opening, absent):
            return (opening, absent)
        case Aperiodic(opening, middle, closing):
            return (opening, middle, closing)
        case Periodic(opening=opening, closing=closing):
            return (opening, closing)


def walk(expression: Composite) -> Iterator[Composite]:
    """The expression and all that is inside it, outermost first, left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


@dataclass(frozen=True, slots=True)
class CompositePlan:
    """A COMPOSITE class: the expression, its context, what keeps graphs apart, filters, what feeds its attributes."""

    expression: Composite
    context: Context
    keys: tuple[Variable, ...]
    over: tuple[str, ...] | None
    partition_by: tuple[str, ...]
    by_occurrence: ByOccurrence | None
    where: Scalar | None
    within_us: int | None
    feeds: tuple[Feed, ...]


def constituent_classes(expression: Composite) -> frozenset[str]:
    """The classes whose events can be constituents: those that are not only absent."""
    match expression:
        case Primitive(event_class=name):
            return frozenset({name})
        case Node(operator=CompositeOperator.NOT):
            return frozenset()
        case NotBetween(opening=opening, closing=closing):
            return constituent_classes(opening) | constituent_classes(closing)
        case AbsentFor(opening=opening) | Periodic(opening=opening, gathered=False):
            return constituent_classes(opening)
        case Aperiodic(opening=opening, middle=middle, gathered=False):
            return constituent_classes(opening) | constituent_classes(middle)
        case _:
            return frozenset().union(*(constituent_classes(child) for child in children(expression)))

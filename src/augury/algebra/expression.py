"""What a MATCH detects: event expressions with classes, variables and masks resolved (Gehani, Jagadish, Shmueli 1992).

Definitions are expanded and every variable is bound where it belongs: `Some` binds attribute variables, `Exists`
correlation variables. Nothing here knows the text but for spans.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from augury.algebra.scalar import Constant, Scalar
from augury.diagnostics import NOWHERE, Span
from augury.types import Type


class MatchOperator(StrEnum):
    """The operators of MATCH; the value is the canonical spelling."""

    NULL = "NULL"
    ANY = "any"
    FIRST = "first"
    START = "start"
    PIPE = "|"
    AFTER_FIRST = "/"
    BETWEEN_EACH = "/+"
    OR = "OR"
    AND = "AND"
    SERIES = "*"
    NOT = "!"
    RELATIVE = "relative"
    RELATIVE_PLUS = "relative+"
    PRIOR = "prior"
    SEQUENCE = "sequence"
    FIRST_AFTER = "firstAfter"
    BEFORE = "before"
    HAPPENED = "happened"
    PREFIX = "prefix"


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """An attribute variable: equal names in one scope demand equal values."""

    name: str
    type: Type
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`: the attribute may have any value."""


Binding = Variable | Constant | Anything


@dataclass(frozen=True, slots=True)
class Primitive:
    """An event of a class; `bindings` has one entry per attribute, or none at all; `mask` is over its attributes."""

    event_class: str
    bindings: tuple[Binding, ...] = ()
    mask: Scalar | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Place:
    """`x`: the event that the correlation variable stands for."""

    variable: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator with its operands."""

    operator: MatchOperator
    operands: tuple[Expression, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Nth:
    """`<n> E`, or `EVERY <n> E`."""

    count: int
    every: bool
    operand: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Equate:
    """`E = x`."""

    operand: Expression
    variable: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Exists:
    """`EXISTS x E`: for some event of the history at hand, not later than the place itself."""

    variable: str
    operand: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Some:
    """E for some value of each of the attribute variables."""

    variables: tuple[Variable, ...]
    operand: Expression
    span: Span = _span()


Expression = Primitive | Place | Apply | Nth | Equate | Exists | Some


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside one."""
    match expression:
        case Primitive() | Place():
            return ()
        case Apply(operands=operands):
            return operands
        case Nth(operand=operand) | Equate(operand=operand) | Exists(operand=operand) | Some(operand=operand):
            return (operand,)


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all that is inside it, outermost first, left to right."""
    stack = [expression]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def parts(expression: Expression) -> tuple[Primitive | Place, ...]:
    """The classes and correlation variables as they stand in it, from left to right."""
    return tuple(node for node in walk(expression) if isinstance(node, Primitive | Place))


def freed(expression: Expression, names: Collection[str]) -> Expression:
    """The expression in which these attribute variables may have any value, wherever they stand."""
    match expression:
        case Primitive(bindings=bindings):
            free = tuple(Anything() if isinstance(b, Variable) and b.name in names else b for b in bindings)
            return replace(expression, bindings=free)
        case Place():
            return expression
        case Apply(operands=operands):
            return replace(expression, operands=tuple(freed(operand, names) for operand in operands))
        case Nth() | Equate() | Exists() | Some():
            return replace(expression, operand=freed(expression.operand, names))


def renamed(expression: Expression, name: str, new: str) -> Expression:
    """The expression with another name for an attribute variable, wherever it stands."""
    match expression:
        case Primitive(bindings=bindings):
            other = (replace(b, name=new) if isinstance(b, Variable) and b.name == name else b for b in bindings)
            return replace(expression, bindings=tuple(other))
        case Place():
            return expression
        case Apply(operands=operands):
            return replace(expression, operands=tuple(renamed(operand, name, new) for operand in operands))
        case Nth() | Equate() | Exists() | Some():
            return replace(expression, operand=renamed(expression.operand, name, new))


# Operators that are, for a variable in one of these operands, the union over its values of what they are for each.
_JOINING = {
    **dict.fromkeys((MatchOperator.BEFORE, MatchOperator.HAPPENED), 0),
    **dict.fromkeys((MatchOperator.AFTER_FIRST, MatchOperator.BETWEEN_EACH), 0),
    **dict.fromkeys((MatchOperator.PIPE, MatchOperator.FIRST_AFTER), 1),
}
_JOINING_ALL = {
    *(MatchOperator.AND, MatchOperator.OR, MatchOperator.RELATIVE),
    *(MatchOperator.PRIOR, MatchOperator.SEQUENCE),
}


def joins_only(expression: Expression, part: int) -> bool:
    """Whether only operators that join stand above a part, so that a variable there alone may have any value."""
    match expression:
        case Primitive() | Place():
            return True
        case Equate(operand=operand) | Exists(operand=operand):
            return joins_only(operand, part)
        case Nth() | Some():
            return False
        case Apply(operator=operator, operands=operands):
            for index, operand in enumerate(operands):
                inside = len(parts(operand))
                if part < inside:
                    joins = operator in _JOINING_ALL or _JOINING.get(operator) == index
                    return joins and joins_only(operand, part)
                part -= inside
            raise AssertionError("a part lies in one of the operands")


class Choice(StrEnum):
    """Which occurrence tuple gives the attributes."""

    RECENT = "RECENT"
    EARLIEST = "EARLIEST"
    ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`MAX(q)` over all tuples; no operand is COUNT(*)."""

    function: str
    operand: Scalar | None
    type: Type
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ByOccurrence:
    """ORDER BY OCCURRENCE; `allowing_us` is None where nothing is too old."""

    allowing_us: int | None


@dataclass(frozen=True, slots=True)
class Feed:
    """What an attribute of a complex class is fed with; None is NULL."""

    attribute: str
    value: Scalar | Aggregate | None


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """A MATCH class: the expression, the history it runs over, the filters, and what feeds its attributes."""

    expression: Expression
    over: tuple[str, ...] | None
    partition_by: tuple[str, ...]
    by_occurrence: ByOccurrence | None
    where: Scalar | None
    within_us: int | None
    choice: Choice
    feeds: tuple[Feed, ...]

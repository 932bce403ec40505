"""The syntax of expressions: scalar, MATCH and COMPOSITE; frozen nodes with spans.

The half of `augury.language.syntax` below statements; use it through that module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from augury.algebra.composite import CompositeOperator
from augury.algebra.expression import MatchOperator
from augury.clock import Moment
from augury.diagnostics import NOWHERE, Span

__all__ = [
    "AnyOf",
    "Aperiodic",
    "Argument",
    "Between",
    "Binary",
    "Call",
    "Case",
    "Cast",
    "CompositeApply",
    "CompositeExpression",
    "CompositeOperator",
    "DurationLiteral",
    "Equate",
    "EventRef",
    "Exists",
    "Ident",
    "InList",
    "IsNull",
    "Like",
    "Literal",
    "Logical",
    "MatchApply",
    "MatchExpression",
    "MatchOperator",
    "Name",
    "NotBetween",
    "Now",
    "Nth",
    "Periodic",
    "Plus",
    "Repeat",
    "Scalar",
    "Scoped",
    "TimeBound",
    "TypeRef",
    "TypedLiteral",
    "Unary",
    "Wildcard",
    "no_span",
]


def no_span() -> Span:
    """The default of a span: nowhere, and no part of equality."""
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ident:
    """A name as the user spelt it, without backquotes."""

    text: str
    span: Span = no_span()

    @property
    def key(self) -> str:
        """What the name is matched by: names do not regard case."""
        return self.text.casefold()


# ---- scalar expressions: masks, conditions, WHERE, arguments -------------------------------------


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: None, a truth value, a number (an exact Decimal, or a float when written with `e`) or a string."""

    value: bool | int | Decimal | float | str | None
    span: Span = no_span()

    def __eq__(self, other: object) -> bool:
        """Equal in type as well as in value: `1`, `1.0` and TRUE are three literals."""
        return (
            isinstance(other, Literal) and type(self.value) is type(other.value) and str(self.value) == str(other.value)
        )

    def __hash__(self) -> int:
        """Agrees with equality."""
        return hash((type(self.value), str(self.value)))


@dataclass(frozen=True, slots=True)
class TypedLiteral:
    """`TIMESTAMP '2026-01-01'`, `DATE '2026-01-01'`: a type word before a string."""

    type_name: Ident
    text: str
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class DurationLiteral:
    """`5d`, `10h`, `15m`, `30s`."""

    count: int
    unit: str
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Now:
    """`NOW`: the time of the tick."""

    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Name:
    """`amount`, `NEW.amount`, `Order.amount`, or a timing primitive such as `ONTIME`."""

    qualifier: Ident | None
    name: Ident
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Unary:
    """`NOT x`, `-x`."""

    operator: str
    operand: Scalar
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Binary:
    """A comparison or arithmetic; associates to the left."""

    operator: str
    left: Scalar
    right: Scalar
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Logical:
    """`a AND b AND …` or `a OR b OR …`, flat, so that long lists are not deep."""

    operator: str
    operands: tuple[Scalar, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class IsNull:
    """`x IS NULL`, `x IS NOT NULL`."""

    operand: Scalar
    negated: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class InList:
    """`x IN (1, 2)`, `x NOT IN (1, 2)`."""

    operand: Scalar
    items: tuple[Scalar, ...]
    negated: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Between:
    """`x BETWEEN a AND b`, both bounds included."""

    operand: Scalar
    low: Scalar
    high: Scalar
    negated: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Like:
    """`x LIKE 'a%'`."""

    operand: Scalar
    pattern: Scalar
    negated: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Call:
    """`ABS(x)`, `PREV(rate, 2)`, `LATE(5h, 1d)`, `RETURNED(R1)`, `MAX(q)`; `star` for `COUNT(*)`."""

    function: Ident
    arguments: tuple[Scalar, ...]
    star: bool = False
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(x AS type)`."""

    operand: Scalar
    type: TypeRef
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN c THEN x … [ELSE y] END`."""

    branches: tuple[tuple[Scalar, Scalar], ...]
    default: Scalar | None
    span: Span = no_span()


Scalar = (
    Literal
    | TypedLiteral
    | DurationLiteral
    | Now
    | Name
    | Unary
    | Binary
    | Logical
    | IsNull
    | InList
    | Between
    | Like
    | Call
    | Cast
    | Case
)


@dataclass(frozen=True, slots=True)
class TypeRef:
    """A type as written: a word and its parameters."""

    name: Ident
    parameters: tuple[int, ...] = ()
    span: Span = no_span()


# ---- event expressions: what MATCH and COMPOSITE share ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`_`: any value."""

    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class EventRef:
    """A class, a definition or a correlation variable: `A`, `A(x, 3, _)`, `A(x)[mask]`.

    A bare name among the arguments is an EventRef too; what it is depends on what `name` is.
    """

    name: Ident
    arguments: tuple[Argument, ...] | None = None
    mask: Scalar | None = None
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class MatchApply:
    """An operator of MATCH with its operands; AND and OR are flat, the other infix ones binary."""

    operator: MatchOperator
    operands: tuple[MatchExpression, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Nth:
    """`<n> E`, or `EVERY <n> E`."""

    count: int
    every: bool
    operand: MatchExpression
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Equate:
    """`E = x`: E where it takes place at x."""

    operand: MatchExpression
    variable: Ident
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Exists:
    """`EXISTS x E`."""

    variable: Ident
    operand: MatchExpression
    span: Span = no_span()


MatchExpression = EventRef | MatchApply | Nth | Equate | Exists
Argument = Wildcard | Literal | TypedLiteral | MatchExpression


@dataclass(frozen=True, slots=True)
class CompositeApply:
    """`E > F`, `E & F` (binary), `E | F` (flat), `!E`."""

    operator: CompositeOperator
    operands: tuple[CompositeExpression, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """`ANY{m, E, F, …}`."""

    count: int
    operands: tuple[CompositeExpression, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class TimeBound:
    """`AT [t] E` (low = high), `BY [t] E` (no low), `BETWEEN [t] [t] E`; `keyword` says which."""

    keyword: str
    low: Moment | None
    high: Moment
    operand: CompositeExpression
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class NotBetween:
    """`NOT(B)[A, C]`."""

    absent: CompositeExpression
    opening: CompositeExpression
    closing: CompositeExpression
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Repeat:
    """`E{n}`; `E{n,}` when `open`; `E*` is `E{0,}`."""

    operand: CompositeExpression
    count: int
    open: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Plus:
    """`E + d`."""

    operand: CompositeExpression
    delay: DurationLiteral
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Scoped:
    """`(E WITHIN d WHERE c)`."""

    operand: CompositeExpression
    within: DurationLiteral | None
    where: Scalar | None
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Aperiodic:
    """`APERIODIC(A, B, C)`, or `APERIODIC*` when `gathered`."""

    opening: CompositeExpression
    middle: CompositeExpression
    closing: CompositeExpression
    gathered: bool
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Periodic:
    """`PERIODIC(A, [d], C)`, or `PERIODIC*` when `gathered`."""

    opening: CompositeExpression
    period: DurationLiteral
    closing: CompositeExpression
    gathered: bool
    span: Span = no_span()


CompositeExpression = (
    EventRef | CompositeApply | AnyOf | TimeBound | NotBetween | Repeat | Plus | Scoped | Aperiodic | Periodic
)

"""Scalar expressions, typed: the one form of masks, conditions, WHERE and arguments.

In: operands already named and typed by analysis. Out: frozen nodes, checked as they are built, that print
as one canonical line. It knows neither text nor columns; docs/expressions.md says what a node means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Final, assert_never

from augury.algebra.operators import (
    COMPARISONS,
    Operator,
    TypeProblem,
    castable,
    result_type,
    spelling,
)
from augury.clock import show_duration, show_time
from augury.diagnostics import NOWHERE, Span
from augury.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    PRECISION_MAX,
    STRING,
    TIMESTAMP,
    Type,
    common_type,
)
from augury.types import Date as DateType
from augury.types import Decimal as DecimalType
from augury.types import Duration as DurationType
from augury.types import Timestamp as TimestampType

Value = bool | int | float | Decimal | str | date | None
LiteralValue = bool | int | float | Decimal | str | None


class Reason(IntEnum):
    """Why an expression has no value for a row; such a row is not TRUE, is counted and reported."""

    OVERFLOW = 1
    DIVISION_BY_ZERO = 2
    INVALID_CAST = 3


class TimingPrimitive(StrEnum):
    """The words of conditions that look at NEW, OLD and the tick at once."""

    ANNOUNCEMENT = "ANNOUNCEMENT"
    CHANGE = "CHANGE"
    CANCELLATION = "CANCELLATION"
    RETROACTIVECHANGE = "RETROACTIVECHANGE"
    POSTPONE = "POSTPONE"
    REVOCATION = "REVOCATION"
    FUTURE = "FUTURE"
    ONTIME = "ONTIME"
    LATE = "LATE"
    FIRED = "FIRED"


# Where an expression was written is no part of what it means: spans take no part in equality, so that equal
# expressions find the same column and share their evaluation.


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; a TIMESTAMP is an int of microseconds since the epoch, a DURATION one of microseconds."""

    value: Value
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Field:
    """An attribute of the event at hand or a variable (no scope), of NEW, of OLD, or of a constituent."""

    scope: str
    name: str
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the tick."""

    type: Type = field(default=TIMESTAMP, init=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Previous:
    """`PREV(name, offset)`: the attribute of the offset-th event of the class before this one."""

    name: str
    offset: int
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Timing:
    """A timing primitive; LATE may be bounded, both bounds included."""

    primitive: TimingPrimitive
    minimum_us: int | None = None
    maximum_us: int | None = None
    type: Type = field(default=BOOLEAN, init=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator or function over operands; built by `apply`, which checks."""

    operator: Operator
    operands: tuple[Scalar, ...]
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(operand AS type)`; built by `cast`, which checks."""

    operand: Scalar
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN condition THEN value … ELSE default END`; built by `case`, which checks."""

    branches: tuple[tuple[Scalar, Scalar], ...]
    default: Scalar
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Leaf = Field | Previous | Timing
"""What an evaluator is handed columns for."""

Scalar = Constant | Field | Now | Previous | Timing | Apply | Cast | Case


# ---- building ------------------------------------------------------------------------------------


def literal(value: LiteralValue, span: Span = NOWHERE) -> Constant | TypeProblem:
    """A constant as written: whole numbers by size, `1.5` exact, `1e3` (a float) DOUBLE."""
    match value:
        case None:
            return Constant(None, NULL, span)
        case bool():
            return Constant(value, BOOLEAN, span)
        case str():
            return Constant(value, STRING, span)
        case float():
            return Constant(value, DOUBLE, span)
        case int() if -(2**31) <= value < 2**31:
            return Constant(value, INT, span)
        case int() if -(2**63) <= value < 2**63:
            return Constant(value, BIGINT, span)
        case int() | Decimal():
            return _decimal_literal(Decimal(value), span)
        case _:
            assert_never(value)


def _decimal_literal(value: Decimal, span: Span) -> Constant | TypeProblem:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a literal is finite"
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > PRECISION_MAX:
        return TypeProblem(f"a number has at most {PRECISION_MAX} digits; here {precision}", 0)
    return Constant(value, DecimalType(precision, scale), span)


def apply(operator: Operator, operands: tuple[Scalar, ...], span: Span = NOWHERE) -> Apply | TypeProblem:
    """An operator over operands, if their types fit."""
    types = [operand.type for operand in operands]
    match result_type(operator, types):
        case TypeProblem():
            problem = result_type(operator, types, [dump(operand) for operand in operands])
            assert isinstance(problem, TypeProblem)
            return problem
        case fitting:
            return Apply(operator, operands, fitting, span)


def cast(operand: Scalar, target: Type, span: Span = NOWHERE) -> Cast | TypeProblem:
    """A cast, if there is one between the two types."""
    if castable(operand.type, target):
        return Cast(operand, target, span)
    return TypeProblem(f"there is no CAST from {operand.type} to {target}", 0)


def case(
    branches: tuple[tuple[Scalar, Scalar], ...], default: Scalar | None = None, span: Span = NOWHERE
) -> Case | TypeProblem:
    """A CASE, if its conditions are truth values and its values alike; a problem counts operands in order."""
    otherwise = Constant(None, NULL, span) if default is None else default
    common = otherwise.type
    for index, (condition, value) in enumerate(branches):
        if condition.type not in (BOOLEAN, NULL):
            return TypeProblem(f"WHEN takes a truth value; here {condition.type}", 2 * index)
        promoted = common_type(common, value.type)
        if promoted is None:
            return TypeProblem(
                f"the values of a CASE are of like types; here {value.type} beside {common}", 2 * index + 1
            )
        common = promoted
    return Case(branches, otherwise, common, span)


# ---- looking inside ------------------------------------------------------------------------------


def children(expression: Scalar) -> tuple[Scalar, ...]:
    """The expressions right below this one, left to right."""
    match expression:
        case Constant() | Field() | Now() | Previous() | Timing():
            return ()
        case Apply(operands=operands):
            return operands
        case Cast(operand=operand):
            return (operand,)
        case Case(branches=branches, default=default):
            return (*(part for branch in branches for part in branch), default)
        case _:
            assert_never(expression)


def walk(expression: Scalar) -> Iterator[Scalar]:
    """This expression and all below it, each before its children."""
    yield expression
    for child in children(expression):
        yield from walk(child)


def fields(expression: Scalar) -> frozenset[Field]:
    """The attributes and variables it reads."""
    return frozenset(node for node in walk(expression) if isinstance(node, Field))


def leaves(expression: Scalar) -> frozenset[Leaf]:
    """Everything an evaluator needs a column for."""
    return frozenset(node for node in walk(expression) if isinstance(node, Field | Previous | Timing))


# ---- printing ------------------------------------------------------------------------------------

# How tightly a text binds, loosest first.
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _PRIMARY = range(8)
_LOGIC: Final = {Operator.OR: _OR, Operator.AND: _AND}
_INFIX: Final = {
    **dict.fromkeys((Operator.ADD, Operator.SUBTRACT), _SUM),
    **dict.fromkeys((Operator.MULTIPLY, Operator.DIVIDE, Operator.MODULO), _PRODUCT),
}
_WORDS: Final = frozenset(
    {
        *("AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "NULL", "TRUE", "FALSE"),
        *("CASE", "WHEN", "THEN", "ELSE", "END", "CAST", "AS", "NOW", "NEW", "OLD"),
        *TimingPrimitive,
    }
)


def dump(expression: Scalar) -> str:
    """The canonical text on one line, with no more parentheses than it takes."""
    return _text(expression, _OR)


def _text(expression: Scalar, required: int) -> str:
    text, level = _spelled(expression)
    return text if level >= required else f"({text})"


def _spelled(expression: Scalar) -> tuple[str, int]:
    match expression:
        case Constant():
            return _constant(expression)
        case Field(scope="", name=name):
            return _name(name), _PRIMARY
        case Field(scope=scope, name=name):
            return f"{scope if scope in ('NEW', 'OLD') else _name(scope)}.{_name(name)}", _PRIMARY
        case Now():
            return "NOW", _PRIMARY
        case Previous(name=name, offset=offset):
            return f"PREV({_name(name)}, {offset})", _PRIMARY
        case Timing(primitive=primitive, minimum_us=None, maximum_us=None):
            return primitive.value, _PRIMARY
        case Timing(primitive=primitive, minimum_us=minimum, maximum_us=maximum):
            bounds = ("_" if bound is None else show_duration(bound) for bound in (minimum, maximum))
            return f"{primitive.value}({', '.join(bounds)})", _PRIMARY
        case Apply():
            return _applied(expression)
        case Cast(operand=operand, type=target):
            return f"CAST({dump(operand)} AS {target})", _PRIMARY
        case Case(branches=branches, default=default):
            whens = "".join(f" WHEN {dump(when)} THEN {dump(then)}" for when, then in branches)
            otherwise = "" if default == Constant(None, NULL) else f" ELSE {dump(default)}"
            return f"CASE{whens}{otherwise} END", _PRIMARY
        case _:
            assert_never(expression)


def _applied(expression: Apply) -> tuple[str, int]:
    operator, operands = expression.operator, expression.operands
    if operator in _LOGIC:
        level = _LOGIC[operator]
        return f" {operator} ".join(_text(operand, level) for operand in operands), level
    if operator in _INFIX:
        level = _INFIX[operator]
        return f"{_text(operands[0], level)} {operator} {_text(operands[1], level + 1)}", level
    if operator is Operator.CONCAT and len(operands) > 1:
        rest = (_text(operand, _PRODUCT) for operand in operands[1:])
        return " || ".join([_text(operands[0], _SUM), *rest]), _SUM
    if operator is Operator.NEGATE:
        text = _text(operands[0], _UNARY)
        # Two hyphens would start a comment.
        return f"-({text})" if text.startswith("-") else f"-{text}", _UNARY
    if operator is Operator.NOT:
        test = _test(operands[0], "NOT ")
        return (test, _COMPARISON) if test else (f"NOT {_text(operands[0], _NOT)}", _NOT)
    if test := _test(expression, ""):
        return test, _COMPARISON
    if operator in COMPARISONS:
        return f"{_text(operands[0], _SUM)} {operator} {_text(operands[1], _SUM)}", _COMPARISON
    return f"{spelling(operator)}({', '.join(map(dump, operands))})", _PRIMARY


def _test(expression: Scalar, negation: str) -> str | None:
    match expression:
        case Apply(operator=Operator.IS_NULL, operands=(operand,)):
            return f"{_text(operand, _SUM)} IS {negation}NULL"
        case Apply(operator=Operator.IN, operands=(operand, *items)):
            return f"{_text(operand, _SUM)} {negation}IN ({', '.join(map(dump, items))})"
        case Apply(operator=Operator.LIKE, operands=(operand, pattern)):
            return f"{_text(operand, _SUM)} {negation}LIKE {_text(pattern, _SUM)}"
        case _:
            return None


def _name(name: str) -> str:
    plain = re.fullmatch(r"[^\W\d]\w*", name) and name.upper() not in _WORDS
    return name if plain else "`" + name.replace("`", "``") + "`"


def _constant(constant: Constant) -> tuple[str, int]:
    value, kind = constant.value, constant.type
    match value, kind:
        case int(), TimestampType():
            return f"TIMESTAMP '{show_time(value)}'", _PRIMARY
        case int(), DurationType():
            return show_duration(value), _UNARY if value < 0 else _PRIMARY
        case date(), DateType():
            return f"DATE '{value.isoformat()}'", _PRIMARY
        case _:
            assert not isinstance(value, date)
    text, written = _literal_text(value)
    # Printed so that it reads back as the same type: `5` is an INT, five of another type needs the CAST.
    if written != kind:
        return f"CAST({text} AS {kind})", _PRIMARY
    return text, _UNARY if text.startswith("-") else _PRIMARY


def _literal_text(value: LiteralValue) -> tuple[str, Type]:
    match value:
        case None:
            return "NULL", NULL
        case bool():
            return str(value).upper(), BOOLEAN
        case str():
            return "'" + value.replace("'", "''") + "'", STRING
        case float():
            text = repr(value)
            if value - value != 0:  # NaN and the infinities have no literal
                return f"'{text}'", STRING
            return text if "e" in text else text.removesuffix(".0") + "e0", DOUBLE
        case int() | Decimal():
            text = f"{value:f}" if isinstance(value, Decimal) else str(value)
            unsigned = text.removeprefix("-")
            written = literal(Decimal(unsigned) if "." in unsigned else int(unsigned))
            return text, NULL if isinstance(written, TypeProblem) else written.type
        case _:
            assert_never(value)

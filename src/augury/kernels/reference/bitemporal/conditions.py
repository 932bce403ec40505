"""The value of a condition or an argument at a moment, by docs/expressions.md.

In: a scalar expression over NEW, OLD, NOW and timing primitives. Out: its value; None is NULL or an error.
Logic, comparisons, `+` and `-` are worked out here, on plain values; anything else by the evaluator of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Final

import pyarrow as pa

from augury import types as t
from augury.algebra.operators import COMPARISONS, Operator
from augury.algebra.scalar import Apply, Constant, Field, Leaf, Now, Scalar, Timing, Value, leaves
from augury.clock import microseconds_of
from augury.event import EventClass, key_of
from augury.kernels.columns import arrow_type, evaluate
from augury.kernels.reference.bitemporal.timing import Moment, holds
from augury.kernels.reference.bitemporal.version import Version, rank

_BITS: Final = {t.INT: 31, t.BIGINT: 63, t.DURATION: 63}
_YEARS: Final = (microseconds_of(datetime(1, 1, 1)), microseconds_of(datetime(9999, 12, 31, 23, 59, 59, 999999)))


class _Error(Exception):
    """The expression is in error: it has no value for this event."""


def value_at(expression: Scalar, event_class: EventClass, at: Moment, action: str) -> Value:
    """The value, for the action of that name; None where it is NULL or in error."""
    try:
        return _value(expression, event_class, at, action)
    except _Error:
        return None


def is_true_at(condition: Scalar, event_class: EventClass, at: Moment, action: str) -> bool:
    """Whether a condition holds: it is TRUE, neither FALSE nor NULL nor in error."""
    return value_at(condition, event_class, at, action) is True


def _value(expression: Scalar, event_class: EventClass, at: Moment, action: str) -> Value:
    def of(operand: Scalar) -> Value:
        return _value(operand, event_class, at, action)

    match expression:
        case Constant(value=value):
            return value
        case Now():
            return at.tick
        case Timing():
            return holds(expression, at, action)
        case Field(scope=scope, name=name):
            return field_of(event_class, at.new if scope == "NEW" else at.old, name)
        case Apply(operator=Operator.AND, operands=operands):
            return _until(operands, of, decides=False)
        case Apply(operator=Operator.OR, operands=operands):
            return _until(operands, of, decides=True)
        case Apply(operator=Operator.NOT, operands=(operand,)):
            truth = of(operand)
            return None if truth is None else not truth
        case Apply(operator=Operator.IS_NULL, operands=(operand,)):
            return of(operand) is None
        case Apply(operator=operator, operands=(left, right)) if operator in COMPARISONS:
            return _compared(operator, of(left), of(right))
        case Apply(operator=Operator.ADD | Operator.SUBTRACT as operator, operands=(left, right)):
            return _sum(operator, of(left), of(right), expression.type)
        case _:
            return _elsewhere(expression, of, at.tick)


def field_of(event_class: EventClass, version: Version | None, name: str) -> Value:
    """An attribute or time of a version; NULL of one that is not there."""
    if version is None:
        return None
    match name:
        case "occ_time":
            return version.occ_time
        case "det_time":
            return version.det_time
        case _:
            names = [key_of(attribute.name) for attribute in event_class.attributes]
            return version.values[names.index(key_of(name))]


def _until(operands: Sequence[Scalar], of: Callable[[Scalar], Value], *, decides: bool) -> bool | None:
    """AND and OR: from left to right until an operand decides; an error on the way is one of the whole."""
    is_unknown = False
    for operand in operands:
        truth = of(operand)
        if truth is decides:
            return decides
        is_unknown |= truth is None
    return None if is_unknown else not decides


def _compared(operator: Operator, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    a, b = (_plain(value, beside=other) for value, other in ((left, right), (right, left)))
    lesser, equal = rank(a) < rank(b), rank(a) == rank(b)
    match operator:
        case Operator.EQ:
            return equal
        case Operator.NE:
            return not equal
        case Operator.LT:
            return lesser
        case Operator.LE:
            return lesser or equal
        case Operator.GT:
            return not lesser and not equal
        case _:
            return not lesser


def _plain(value: Value, beside: Value) -> Value:
    """A value ready to be compared: a day beside a moment is its midnight, an exact number beside a DOUBLE one too."""
    if isinstance(value, date) and isinstance(beside, int):
        return _midnight(value)
    if isinstance(beside, float) and isinstance(value, int | Decimal):
        return float(value)
    return value


def _sum(operator: Operator, left: Value, right: Value, kind: t.Type) -> Value:
    if left is None or right is None:
        return None
    sign = 1 if operator is Operator.ADD else -1
    a, b = (_midnight(value) if isinstance(value, date) else value for value in (left, right))
    assert isinstance(a, int | float | Decimal)
    assert isinstance(b, int | float | Decimal)
    match kind:
        case t.Double():
            return float(a) + sign * float(b)
        case t.Decimal(precision=precision, scale=scale):
            return _rounded(Decimal(a), sign * Decimal(b), precision, scale)
        case _:
            total = int(a) + sign * int(b)
            if kind == t.TIMESTAMP and not _YEARS[0] <= total <= _YEARS[1]:
                raise _Error
            if kind in _BITS and not -(2 ** _BITS[kind]) <= total < 2 ** _BITS[kind]:
                raise _Error
            return total


def _rounded(a: Decimal, b: Decimal, precision: int, scale: int) -> Decimal:
    with localcontext() as context:
        context.prec = 100
        total = (a + b).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
        if abs(total) >= Decimal(10) ** (precision - scale):
            raise _Error
        return total


def _midnight(day: date) -> int:
    return microseconds_of(datetime(day.year, day.month, day.day, tzinfo=UTC))


def _elsewhere(expression: Scalar, of: Callable[[Scalar], Value], now: int) -> Value:
    def column(leaf: Leaf) -> pa.Array:
        return pa.array([of(leaf)], arrow_type(leaf.type))

    found = evaluate(expression, {leaf: column(leaf) for leaf in leaves(expression)}, now, 1)
    if found.errors[0].is_valid:
        raise _Error
    values = found.values
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    value: Value = values[0].as_py()
    return value

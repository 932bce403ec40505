"""Evaluates scalar expressions over columns, by docs/expressions.md.

In: an expression and a column per leaf. Out: a column of values and one of errors.
All operands are computed for all rows; where an operator looks from left to right, the errors that it would
not have looked at are dropped afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra import scalar as s
from augury.algebra.operators import COMPARISONS, Operator
from augury.kernels.columns import arithmetic, strings
from augury.kernels.columns.arithmetic import compare
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import (
    Column,
    Errors,
    Evaluated,
    Mask,
    arrow_type,
    first_error,
    nulls,
    settled,
    truths,
    without,
)


def evaluate(
    expression: s.Scalar, columns: Mapping[s.Leaf, pa.Array], now: pa.Array | int | None, rows: int
) -> Evaluated:
    """The expression for every row.

    `columns` holds `rows` values for each of `leaves(expression)`, stored as `arrow_type` says; `now` is the
    tick in microseconds since the epoch, or a TIMESTAMP column where rows belong to different ticks.
    """
    column = _evaluate(expression, _Batch(columns, now, rows))
    errors = np.zeros(rows, np.int8) if column.errors is None else column.errors
    return Evaluated(column.values, pa.array(errors, mask=errors == 0))


def holds(evaluated: Evaluated) -> Mask:
    """Where a mask, condition or WHERE holds: where it is TRUE."""
    return truths(evaluated.values.cast(pa.bool_()))


@dataclass(frozen=True, slots=True)
class _Batch:
    columns: Mapping[s.Leaf, pa.Array]
    now: pa.Array | int | None
    rows: int

    def supplied(self, values: pa.Array, of: t.Type) -> Column:
        """A column from the caller; a wrong one is a mistake of ours, not of the user."""
        assert len(values) == self.rows, f"{len(values)} rows, not {self.rows}"
        assert values.type == arrow_type(of), f"{values.type} is no storage of {of}"
        return Column(values)

    def repeated(self, value: s.Value, of: t.Type) -> Column:
        """A constant in every row."""
        return Column(pa.repeat(pa.scalar(value, arrow_type(of)), self.rows))


def _evaluate(expression: s.Scalar, batch: _Batch) -> Column:
    match expression:
        case s.Constant(value=value, type=kind):
            return batch.repeated(value, kind)
        case s.Field() | s.Previous() | s.Timing():
            return batch.supplied(batch.columns[expression], expression.type)
        case s.Now():
            assert batch.now is not None, "an expression with NOW needs the tick"
            if isinstance(batch.now, int):
                return batch.repeated(batch.now, t.TIMESTAMP)
            return batch.supplied(batch.now, t.TIMESTAMP)
        case s.Cast(operand=operand, type=target):
            return _as(target, operand, batch)
        case s.Case(branches=branches, default=default, type=kind):
            chosen = _as(kind, default, batch)
            for when, then in reversed(branches):
                chosen = _choose(_as(t.BOOLEAN, when, batch), _as(kind, then, batch), chosen)
            return chosen
        case s.Apply(operator=operator, operands=operands, type=kind):
            return _apply(operator, operands, kind, batch)
        case _:
            assert_never(expression)


def _as(target: t.Type, expression: s.Scalar, batch: _Batch) -> Column:
    return convert(_evaluate(expression, batch), expression.type, target)


def _apply(operator: Operator, operands: tuple[s.Scalar, ...], result: t.Type, batch: _Batch) -> Column:
    match operator:
        case Operator.AND:
            return reduce(_and, [_as(t.BOOLEAN, operand, batch) for operand in operands])
        case Operator.OR:
            return reduce(_or, [_as(t.BOOLEAN, operand, batch) for operand in operands])
        case Operator.IN:
            return _in(operands, batch)
        case Operator.COALESCE:
            return reduce(_coalesce, [_as(result, operand, batch) for operand in operands])
        case Operator.IF:
            condition, then, otherwise = operands
            return _choose(_as(t.BOOLEAN, condition, batch), _as(result, then, batch), _as(result, otherwise, batch))
        case _:
            columns = [_evaluate(operand, batch) for operand in operands]
            return _strict(operator, columns, [operand.type for operand in operands], result)


# ---- from left to right --------------------------------------------------------------------------


def _codes(column: Column) -> Errors:
    return np.zeros(len(column.values), np.int8) if column.errors is None else column.errors


def _joined(values: pa.Array, left: Column, right: Column, looked_at: Callable[[], Mask]) -> Column:
    """The values with the errors of `left`, and of `right` where it was looked at."""
    if right.errors is None:
        return settled(values, left.errors)
    errors = np.where(looked_at(), right.errors, np.int8(0))
    return settled(values, first_error(left, Column(right.values, errors)))


def _and(left: Column, right: Column) -> Column:
    values = pc.and_kleene(left.values, right.values)
    return _joined(values, left, right, lambda: ~truths(pc.invert(left.values)))


def _or(left: Column, right: Column) -> Column:
    values = pc.or_kleene(left.values, right.values)
    return _joined(values, left, right, lambda: ~truths(left.values))


def _coalesce(left: Column, right: Column) -> Column:
    values = pc.coalesce(left.values, right.values)
    return _joined(values, left, right, lambda: truths(left.values.is_null()))


def _choose(condition: Column, then: Column, otherwise: Column) -> Column:
    taken = truths(condition.values)
    values = pc.if_else(pa.array(taken), then.values, otherwise.values)
    if condition.errors is None and then.errors is None and otherwise.errors is None:
        return Column(values)
    chosen = np.where(taken, _codes(then), _codes(otherwise))
    return settled(values, first_error(condition, Column(values, chosen)))


def _in(operands: tuple[s.Scalar, ...], batch: _Batch) -> Column:
    operand, *items = operands
    column = _evaluate(operand, batch)
    if (found := _in_constants(column, operand.type, items)) is not None:
        return found
    tests = [compare(Operator.EQ, column, operand.type, _evaluate(i, batch), i.type) for i in items]
    return reduce(_or, tests)


def _in_constants(column: Column, kind: t.Type, items: list[s.Scalar]) -> Column | None:
    """A list of constants of the operand's own type as one look-up, where equal values are stored equally."""
    known = [item.value for item in items if isinstance(item, s.Constant) and item.type == kind]
    if len(known) < len(items) or isinstance(kind, t.Double | t.Decimal | t.Null):
        return None
    values = pc.is_in(column.values, value_set=pa.array([v for v in known if v is not None], arrow_type(kind)))
    undecided = column.values.is_null()
    if None in known:
        undecided = pc.or_(undecided, pc.invert(values))
    return settled(without(values, truths(undecided)), column.errors)


# ---- all operands --------------------------------------------------------------------------------


def _strict(operator: Operator, columns: list[Column], types: list[t.Type], result: t.Type) -> Column:
    inputs = Column(columns[0].values, first_error(*columns))
    if isinstance(result, t.Null):
        return nulls(result, inputs)
    if operator in COMPARISONS:
        return compare(operator, columns[0], types[0], columns[1], types[1])
    if operator in arithmetic.BINARY:
        return arithmetic.binary(operator, columns, types, result)
    if operator in arithmetic.UNARY:
        return arithmetic.unary(operator, columns[0], types[0], result)
    if operator in _TEXT:
        wanted = [k if k != t.NULL else t.BIGINT if i else t.STRING for i, k in enumerate(types)]
        if operator is not Operator.SUBSTRING:
            wanted = [t.STRING] * len(types)
        texts = [convert(c, k, w).values for c, k, w in zip(columns, types, wanted, strict=True)]
        return settled(_TEXT[operator](*texts), inputs.errors)
    if operator in _TIME_PARTS:
        moments = convert(columns[0], types[0], t.TIMESTAMP).values
        # Without the zone, which is UTC anyway, Arrow asks for no time zone database.
        part = _TIME_PARTS[operator](moments.view(pa.int64()).view(pa.timestamp("us")))
        return Column(part.cast(pa.int32()), inputs.errors)
    match operator:
        case Operator.NOT:
            return Column(pc.invert(convert(columns[0], types[0], t.BOOLEAN).values), inputs.errors)
        case Operator.IS_NULL:
            return settled(columns[0].values.is_null(), inputs.errors)
        case Operator.NULLIF:
            same = compare(Operator.EQ, columns[0], types[0], columns[1], types[1])
            return settled(without(columns[0].values, truths(same.values)), same.errors)
        case Operator.GREATEST | Operator.LEAST:
            better = Operator.GT if operator is Operator.GREATEST else Operator.LT
            promoted = [convert(c, k, result) for c, k in zip(columns, types, strict=True)]
            # What an operand could not be is said before what it could not be promoted to.
            return settled(_extreme(better, promoted, result), first_error(inputs, *promoted))
        case _:
            raise AssertionError(f"{operator} has no evaluation")


def _extreme(better: Operator, columns: list[Column], kind: t.Type) -> pa.Array:
    best = columns[0].values
    for column in columns[1:]:
        wins = compare(better, column, kind, Column(best), kind).values.fill_null(False)
        best = pc.if_else(pc.or_(wins, best.is_null()), column.values, best)
    return best


_TEXT: Final[dict[Operator, Callable[..., pa.Array]]] = {
    Operator.LENGTH: pc.utf8_length,
    Operator.LOWER: pc.utf8_lower,
    Operator.UPPER: pc.utf8_upper,
    Operator.TRIM: lambda text: pc.utf8_trim(text, characters=" "),
    Operator.CONCAT: lambda *texts: pc.binary_join_element_wise(*texts, ""),
    Operator.SUBSTRING: strings.substring,
    Operator.LIKE: strings.like,
    Operator.STARTSWITH: strings.starts_with,
    Operator.ENDSWITH: strings.ends_with,
    Operator.CONTAINS: strings.contains,
}

_TIME_PARTS: Final[dict[Operator, Callable[[pa.Array], pa.Array]]] = {
    Operator.YEAR: pc.year,
    Operator.MONTH: pc.month,
    Operator.DAY: pc.day,
    Operator.HOUR: pc.hour,
    Operator.MINUTE: pc.minute,
    Operator.SECOND: pc.second,
}

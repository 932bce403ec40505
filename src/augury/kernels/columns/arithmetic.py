"""Comparisons and arithmetic over columns.

In: columns with their types. Out: a column of the result's type, with OVERFLOW and DIVISION_BY_ZERO per row.
Integers, times, durations and decimals are all exact integers here; the result's type says what fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.operators import Operator
from augury.algebra.scalar import Reason
from augury.kernels.columns import exact
from augury.kernels.columns.casts import as_exact, as_floats, convert, cut_off, store
from augury.kernels.columns.column import (
    Column,
    Floats,
    Mask,
    arrow,
    failing,
    first_error,
    floats,
    missing,
    nulls,
)
from augury.kernels.columns.exact import Exact

# ---- comparisons ---------------------------------------------------------------------------------


def compare(operator: Operator, left: Column, left_type: t.Type, right: Column, right_type: t.Type) -> Column:
    """One of the six comparisons, NULL where an operand is."""
    errors = first_error(left, right)
    common = t.common_type(left_type, right_type)
    match left_type, right_type, common:
        case (t.Null(), _, _) | (_, t.Null(), _):
            return nulls(t.BOOLEAN, Column(left.values, errors))
        case _, _, t.Double():
            a, b = as_floats(left.values, left_type), as_floats(right.values, right_type)
            absent = missing(left.values, right.values)
            return Column(arrow(_FLOAT_TESTS[operator](a, b), t.BOOLEAN, absent), errors)
        case _, _, t.Decimal():
            kind = _roomy(left_type, right_type)
            return Column(_TESTS[operator](left.values.cast(kind), right.values.cast(kind)), errors)
        case _, _, t.String():
            return Column(_TESTS[operator](left.values, right.values), errors)
        case _, _, None:
            raise AssertionError(f"{left_type} and {right_type} cannot be compared")
        case _:
            both = convert(left, left_type, common).values, convert(right, right_type, common).values
            return Column(_TESTS[operator](*both), errors)


_TESTS: Final[dict[Operator, Callable[[pa.Array, pa.Array], pa.Array]]] = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


def _less(a: Floats, b: Floats) -> Mask:
    # NaN comes after every other number.
    rows: Mask = (a < b) | (np.isnan(b) & ~np.isnan(a))
    return rows


def _same(a: Floats, b: Floats) -> Mask:
    rows: Mask = (a == b) | (np.isnan(a) & np.isnan(b))
    return rows


_FLOAT_TESTS: Final[dict[Operator, Callable[[Floats, Floats], Mask]]] = {
    Operator.EQ: _same,
    Operator.NE: lambda a, b: ~_same(a, b),
    Operator.LT: _less,
    Operator.LE: lambda a, b: ~_less(b, a),
    Operator.GT: lambda a, b: _less(b, a),
    Operator.GE: lambda a, b: ~_less(a, b),
}


def _roomy(left: t.Type, right: t.Type) -> pa.DataType:
    """A decimal type that holds both operands with all their digits: 128 bits if they do, else 256."""
    a, b = t.as_decimal(left), t.as_decimal(right)
    scale = max(a.scale, b.scale)
    digits = max(a.precision - a.scale, b.precision - b.scale) + scale
    return pa.decimal128(38, scale) if digits <= 38 else pa.decimal256(76, scale)


# ---- two operands --------------------------------------------------------------------------------

DIVISIONS: Final = frozenset({Operator.DIVIDE, Operator.MODULO})
BINARY: Final = frozenset({Operator.ADD, Operator.SUBTRACT, Operator.MULTIPLY}) | DIVISIONS


def binary(operator: Operator, columns: list[Column], types: list[t.Type], result: t.Type) -> Column:
    """`+`, `-`, `*`, `/` or `%` of two columns."""
    left, right = columns
    inputs = Column(left.values, first_error(left, right))
    if t.NULL in types:
        return nulls(result, inputs)
    absent = missing(left.values, right.values)
    if isinstance(result, t.Double):
        a, b = as_floats(left.values, types[0]), as_floats(right.values, types[1])
        with np.errstate(all="ignore"):
            values = arrow(_FLOAT_OPERATIONS[operator](a, b), result, absent)
        return failing(values, inputs, absent, *_by_zero(operator, b))
    m, m_scale = as_exact(left.values, types[0])
    n, n_scale = as_exact(right.values, types[1])
    if operator in DIVISIONS:
        inputs = failing(left.values, inputs, absent, *_by_zero(operator, n))
        n = np.where(n == 0, 1, n)
    if isinstance(result, t.Decimal):
        number = _decimal(operator, m, m_scale, n, n_scale, result.scale)
    else:
        number = _EXACT_OPERATIONS[operator](m, n)
    return store(number, result, absent, inputs)


def _by_zero(operator: Operator, divisor: npt.NDArray[Any]) -> list[tuple[Reason, Mask]]:
    zero: Mask = np.asarray(divisor == 0, np.bool_)
    return [(Reason.DIVISION_BY_ZERO, zero)] if operator in DIVISIONS else []


_FLOAT_OPERATIONS: Final[dict[Operator, Callable[[Floats, Floats], Floats]]] = {
    Operator.ADD: np.add,
    Operator.SUBTRACT: np.subtract,
    Operator.MULTIPLY: np.multiply,
    Operator.DIVIDE: np.divide,
    Operator.MODULO: np.fmod,
}
_EXACT_OPERATIONS: Final[dict[Operator, Callable[[Exact, Exact], Exact]]] = {
    Operator.ADD: exact.add,
    Operator.SUBTRACT: exact.subtract,
    Operator.MULTIPLY: exact.multiply,
    Operator.DIVIDE: exact.quotient,
    Operator.MODULO: exact.remainder,
}


def _decimal(operator: Operator, m: Exact, m_scale: int, n: Exact, n_scale: int, scale: int) -> Exact:
    match operator:
        case Operator.MULTIPLY:
            return exact.rescaled(exact.multiply(m, n), m_scale + n_scale, scale)
        case Operator.DIVIDE:
            return exact.quotient_half_up(exact.magnified(m, scale - m_scale + n_scale), n)
        case _:
            a, b = exact.magnified(m, scale - m_scale), exact.magnified(n, scale - n_scale)
            return _EXACT_OPERATIONS[operator](a, b)


# ---- one operand ---------------------------------------------------------------------------------

UNARY: Final = frozenset({Operator.NEGATE, Operator.ABS, Operator.CEIL, Operator.FLOOR})


def unary(operator: Operator, column: Column, kind: t.Type, result: t.Type) -> Column:
    """`-`, ABS, CEIL or FLOOR of a column."""
    absent = missing(column.values)
    if isinstance(kind, t.Double):
        number = _FLOAT_FUNCTIONS[operator](floats(column.values))
        if isinstance(result, t.Double):
            return Column(arrow(number, result, absent), column.errors)
        return cut_off(number, result, absent, column)
    unscaled, scale = as_exact(column.values, kind)
    match operator:
        case Operator.NEGATE:
            found = exact.negated(unscaled)
        case Operator.ABS:
            found = exact.absolute(unscaled)
        case Operator.FLOOR:
            found = exact.quotient_down(unscaled, 10**scale)
        case _:
            found = exact.negated(exact.quotient_down(exact.negated(unscaled), 10**scale))
    return store(found, result, absent, column)


_FLOAT_FUNCTIONS: Final[dict[Operator, Callable[[Floats], Floats]]] = {
    Operator.NEGATE: np.negative,
    Operator.ABS: np.abs,
    Operator.CEIL: np.ceil,
    Operator.FLOOR: np.floor,
}

"""Casts and promotions of columns from one type to another.

In: a column, its type and the type wanted. Out: a column of that type, with errors where it does not fit.
Whether a cast exists was settled when the expression was built.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.scalar import Reason
from augury.kernels.columns import exact, spelling
from augury.kernels.columns.column import (
    DAY_US,
    Column,
    Floats,
    Mask,
    arrow,
    arrow_type,
    failing,
    floats,
    missing,
    nulls,
    numbers,
    truths,
)
from augury.kernels.columns.exact import Exact
from augury.kernels.columns.spelling import INTEGER_BOUNDS

MICROSECOND_SCALE: Final = 6
"""A TIMESTAMP is seconds since the epoch with six digits after the point."""


def convert(column: Column, source: t.Type, target: t.Type) -> Column:
    """The column as another type, by the table of casts."""
    values = column.values
    match source, target:
        case _ if source == target:
            return column
        case t.Null(), _:
            return nulls(target, column)
        case _, t.String(length):
            text = spelling.spell(column, source)
            return Column(text if length is None else pc.utf8_slice_codeunits(text, 0, length), column.errors)
        case t.String(), _:
            parsed, bad = spelling.parse(values, target)
            return failing(parsed, column, None, (Reason.INVALID_CAST, bad))
        case t.Double(), _:
            return _from_doubles(column, target)
        case t.Timestamp(), t.Date():
            return Column(_days(values), column.errors)
        case _, t.Double():
            return Column(arrow(as_floats(values, source), t.DOUBLE, missing(values)), column.errors)
        case _:
            return _from_exact(column, source, target)


def as_exact(values: pa.Array, source: t.Type) -> tuple[Exact, int]:
    """The numbers of a column and their scale; times in microseconds, which are seconds of scale 6."""
    match source:
        case t.Decimal(scale=scale):
            return exact.from_decimals(values), scale
        case t.Timestamp() | t.Date():
            return numbers(values), MICROSECOND_SCALE
        case _:
            return numbers(values), 0


def as_floats(values: pa.Array, source: t.Type) -> Floats:
    """The nearest doubles; a time in seconds since the epoch, a duration in microseconds."""
    if isinstance(source, t.Double):
        return floats(values)
    unscaled, scale = as_exact(values, source)
    if isinstance(source, t.Timestamp | t.Date):
        return unscaled.astype(np.float64) / 1e6
    return exact.to_floats(unscaled, scale)


def store(unscaled: Exact, target: t.Type, absent: Mask | None, column: Column) -> Column:
    """Exact numbers, at the scale of the target already, as a column; what does not fit is an OVERFLOW."""
    if isinstance(target, t.Decimal):
        bound = 10**target.precision - 1
        too_large = exact.outside(unscaled, -bound, bound)
        kept: Exact = np.where(too_large, 0, unscaled)
        values = exact.to_decimals(kept, arrow_type(target), absent)
    else:
        low, high = INTEGER_BOUNDS[target]
        too_large = exact.outside(unscaled, low, high)
        values = arrow(exact.clipped(unscaled, low, high), target, absent)
    return failing(values, column, absent, (Reason.OVERFLOW, too_large))


def cut_off(given: Floats, target: t.Type, absent: Mask | None, column: Column) -> Column:
    """Doubles without what is after the point, as whole numbers; what does not fit is an OVERFLOW."""
    low, high = INTEGER_BOUNDS[target]
    whole = np.trunc(given)
    # high + 1 is a double where high is not; NaN fails every comparison.
    fits = (whole >= float(low)) & (whole < float(high + 1))
    values = arrow(np.where(fits, whole, 0.0).astype(np.int64), target, absent)
    return failing(values, column, absent, (Reason.OVERFLOW, ~fits))


def _from_exact(column: Column, source: t.Type, target: t.Type) -> Column:
    unscaled, scale = as_exact(column.values, source)
    absent = missing(column.values)
    match target:
        case t.Boolean():
            return Column(arrow(np.asarray(unscaled != 0, np.bool_), target, absent), column.errors)
        case t.Decimal(scale=wanted):
            return store(exact.rescaled(unscaled, scale, wanted), target, absent, column)
        case t.Timestamp() if scale <= MICROSECOND_SCALE:
            return store(exact.magnified(unscaled, MICROSECOND_SCALE - scale), target, absent, column)
        case t.Timestamp():
            cut = exact.power_of_ten(scale - MICROSECOND_SCALE)
            return store(exact.quotient(unscaled, cut), target, absent, column)
        case t.Int() | t.BigInt() if isinstance(source, t.Timestamp):
            return store(exact.quotient_down(unscaled, 10**scale), target, absent, column)
        case t.Int() | t.BigInt():
            return store(exact.quotient(unscaled, exact.power_of_ten(scale)), target, absent, column)
        case _:
            raise AssertionError(f"there is no cast from {source} to {target}")


def _from_doubles(column: Column, target: t.Type) -> Column:
    given = floats(column.values)
    absent = missing(column.values)
    match target:
        case t.Boolean():
            return Column(arrow(given != 0, target, absent), column.errors)
        case t.Decimal():
            return _doubles_to_decimals(column, target)
        case t.Timestamp():
            with np.errstate(over="ignore"):
                return cut_off(given * 1e6, target, absent, column)
        case _:
            return cut_off(given, target, absent, column)


def _doubles_to_decimals(column: Column, target: t.Decimal) -> Column:
    # By way of the shortest spelling, which only Python's repr gives: a loop for the sake of exactness.
    def rounded(number: float | None) -> Decimal | None:
        finite = number is not None and number - number == 0
        return spelling.round_half_up(Decimal(repr(number)), target) if finite else None

    found = pa.array(map(rounded, column.values.to_pylist()), arrow_type(target))
    return failing(found, column, missing(column.values), (Reason.OVERFLOW, truths(found.is_null())))


def _days(values: pa.Array) -> pa.Array:
    days: npt.NDArray[np.int64] = numbers(values) // DAY_US
    return arrow(days, t.DATE, missing(values))

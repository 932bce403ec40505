"""A column under evaluation: Arrow values beside NumPy error codes, and the ways between the two.

In: Arrow arrays. Out: NumPy arrays with zeros for NULL, and back again.
It knows types and storage, no operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.scalar import Reason

Mask = npt.NDArray[np.bool_]
Errors = npt.NDArray[np.int8]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A value per row; for a row in error its value is NULL, and `errors` holds the `Reason` as int8."""

    values: pa.Array
    errors: pa.Array


@dataclass(frozen=True, slots=True)
class Column:
    """Values, NULL wherever there is an error; errors as codes, 0 where fine, None if all are."""

    values: pa.Array
    errors: Errors | None = None


def arrow_type(of: t.Type) -> pa.DataType:
    """How values of a type are stored."""
    match of:
        case t.Boolean():
            return pa.bool_()
        case t.Int():
            return pa.int32()
        case t.BigInt():
            return pa.int64()
        case t.Double():
            return pa.float64()
        case t.Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case t.String():
            return pa.string()
        case t.Timestamp():
            return pa.timestamp("us", tz="UTC")
        case t.Date():
            return pa.date32()
        case t.Duration():
            return pa.duration("us")
        case t.Null():
            return pa.null()
        case _:
            assert_never(of)


def nulls(of: t.Type, like: Column) -> Column:
    """A column of NULLs as long as another, with its errors."""
    return Column(pa.nulls(len(like.values), arrow_type(of)), like.errors)


def missing(*arrays: pa.Array) -> Mask | None:
    """The rows that are NULL in one of the arrays; None if there are none."""
    masks = [_booleans(array.is_null()) for array in arrays if array.null_count]
    return np.logical_or.reduce(masks) if masks else None


def first_error(*columns: Column) -> Errors | None:
    """The errors of several columns, per row that of the leftmost."""
    merged: Errors | None = None
    for column in columns:
        if column.errors is not None:
            merged = column.errors if merged is None else np.where(merged != 0, merged, column.errors)
    return merged


def without(values: pa.Array, rows: Mask | None) -> pa.Array:
    """The values with NULL at the given rows."""
    if rows is None or not rows.any():
        return values
    return pc.if_else(pa.array(rows), pa.scalar(None, values.type), values)


def settled(values: pa.Array, errors: Errors | None) -> Column:
    """A column of values with NULL at the errors; no errors at all are None."""
    if errors is None or not errors.any():
        return Column(values)
    return Column(without(values, errors != 0), errors)


def failing(values: pa.Array, earlier: Column, absent: Mask | None, *reasons: tuple[Reason, Mask]) -> Column:
    """A column with the errors of an earlier one, and new ones where a mask has a row that is not absent."""
    errors = np.zeros(len(values), np.int8) if earlier.errors is None else earlier.errors
    for reason, rows in reasons:
        fresh = rows if absent is None else rows & ~absent
        errors = np.where((errors == 0) & fresh, np.int8(reason), errors)
    return settled(values, errors)


def arrow(values: npt.NDArray[Any], of: t.Type, absent: Mask | None) -> pa.Array:
    """An Arrow array of a type other than decimal or string from its numbers."""
    kind = arrow_type(of)
    match of:
        case t.Timestamp() | t.Duration():
            return pa.array(values.astype(np.int64, copy=False), mask=absent).view(kind)
        case t.Date():
            return pa.array(values.astype(np.int32), mask=absent).view(kind)
        case _:
            return pa.array(values.astype(kind.to_pandas_dtype(), copy=False), type=kind, mask=absent)


def numbers(values: pa.Array) -> Integers:
    """INT, BIGINT, BOOLEAN, DURATION as they are, TIMESTAMP and DATE in microseconds; 0 for NULL."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return _booleans(values).astype(np.int64)
    if pa.types.is_date32(kind):
        return _filled(values.view(pa.int32())).astype(np.int64) * DAY_US
    if pa.types.is_temporal(kind):
        return _filled(values.view(pa.int64()))
    return _filled(values).astype(np.int64, copy=False)


def floats(values: pa.Array) -> Floats:
    """The numbers of a DOUBLE column; 0 for NULL."""
    return _filled(values)


def truths(values: pa.Array) -> Mask:
    """Where a BOOLEAN column is TRUE."""
    return _booleans(values)


def _filled(values: pa.Array) -> npt.NDArray[Any]:
    plain = values.fill_null(0) if values.null_count else values
    filled: npt.NDArray[Any] = plain.to_numpy(zero_copy_only=False)
    return filled


def _booleans(values: pa.Array) -> Mask:
    plain = values.fill_null(False) if values.null_count else values
    filled: Mask = plain.to_numpy(zero_copy_only=False)
    return filled

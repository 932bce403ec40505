"""Which bucket an event belongs to: a number that equal values give, on every machine and for ever.

In: columns of values. Out: a bucket a row. A store is laid out by it, so what it gives must never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.kernels.batch import Integers
from augury.kernels.compiled import loop

_Hashes = npt.NDArray[np.uint64]
_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_PRIME: Final = np.uint64(0x100000001B3)
_BASIS: Final = np.uint64(0xCBF29CE484222325)


def buckets_of(columns: Sequence[pa.Array], count: int) -> Integers:
    """The bucket of each row, from 0; rows alike in all columns have the same."""
    combined = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        combined = _mixed(combined * _PRIME + _hashed(column))
    return (combined % np.uint64(count)).astype(np.int64)


def _hashed(column: pa.Array) -> _Hashes:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = _of_texts(column.cast(pa.large_string()))
    elif pa.types.is_decimal(kind):
        found = _of_texts(column.cast(pa.string()).cast(pa.large_string()))
    elif pa.types.is_floating(kind):
        found = _of_numbers(_one_way_to_write(column).view(np.int64))
    elif pa.types.is_boolean(kind):
        found = _of_numbers(column.cast(pa.int8()).fill_null(0).to_numpy(zero_copy_only=False))
    else:
        whole = column.view(pa.int64()) if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) else column
        whole = whole.view(pa.int32()) if pa.types.is_date32(kind) else whole
        found = _of_numbers(whole.fill_null(0).to_numpy(zero_copy_only=False))
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, found)


def _one_way_to_write(column: pa.Array) -> npt.NDArray[np.float64]:
    """Numbers such that equal ones have equal bits: there is one zero and one NaN."""
    values: npt.NDArray[np.float64] = pc.add(column.fill_null(0.0), 0.0).to_numpy(zero_copy_only=False)
    return np.where(np.isnan(values), np.nan, values)


def _of_numbers(values: npt.NDArray[Any]) -> _Hashes:
    return _mixed(values.astype(np.int64).view(np.uint64))


def _mixed(values: _Hashes) -> _Hashes:
    """Every bit of the result depends on every bit given (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _of_texts(texts: pa.LargeStringArray) -> _Hashes:
    _, offsets, content = texts.buffers()
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return _mixed(_of_letters(starts, letters))


@loop("uint64[::1](int64[::1], uint8[::1])", work=lambda starts, letters: len(starts) + len(letters))
def _of_letters(starts: Integers, letters: npt.NDArray[np.uint8]) -> _Hashes:  # pragma: no cover
    found = np.empty(len(starts) - 1, np.uint64)
    for row in range(len(found)):
        value = _BASIS
        for at in range(starts[row], starts[row + 1]):
            value = (value ^ np.uint64(letters[at])) * _PRIME
        found[row] = value
    return found

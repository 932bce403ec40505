"""Rows of one class in the order of the history → which are versions, and of what.

In: columns of rows that are fine by themselves. Out: a verdict a row: announced, changed, withdrawn, absorbed as a
duplicate, or refused. Keys and values become numbers first, so that the one loop over versions works on integers alone;
it is left out where no key comes twice, and compiled where there are many rows.

A row is a duplicate of an accepted version only: by `event_id`, or where it has none by equal key, times and values
among versions that have none either. An event is purged by the tick of a later version's chronon if it was read and had
expired before that tick. That a complex event may keep its constituents longer is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import EventClass, key_of
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask

ANNOUNCE: Final = 0
CHANGE: Final = 1
WITHDRAWN: Final = 2
ABSORBED: Final = 3
IMMUTABLE: Final = 4
NOT_THERE: Final = 5

Verdicts = npt.NDArray[np.uint8]

_COMPILED_ROWS_MIN: Final = 300_000
"""Below that many rows compiling the loop takes longer than running it."""

_FOR_EVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a class by det_time and then as they came."""

    values: Sequence[pa.Array | pa.ChunkedArray]
    occ_time: Integers
    det_time: Integers
    withdrawal: Mask
    event_id: pa.Array | pa.ChunkedArray | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict a row; `there` is the row of the version that an immutable class holds already, else -1."""

    verdicts: Verdicts
    there: Integers


def judge(event_class: EventClass, rows: Rows, chronon_us: int) -> Judged:
    """Decide row by row what each is, given those before it."""
    count = len(rows.det_time)
    key, keys = key_codes(event_class, rows.values) if event_class.key else (None, count)
    duplicate = _duplicate_codes(rows, key, keys)
    if keys == count and duplicate is None:
        # Each key comes once: nothing is there yet that could be changed, refused or withdrawn.
        return Judged(np.where(rows.withdrawal, NOT_THERE, ANNOUNCE).astype(np.uint8), np.full(count, -1))
    loop = _compiled() if count >= _COMPILED_ROWS_MIN else _loop
    expiry = np.full(count, _FOR_EVER) if event_class.lifespan_us is None else rows.occ_time + event_class.lifespan_us
    verdicts, there = np.zeros(count, np.uint8), np.full(count, -1)
    loop(
        np.arange(count) if key is None else key,
        np.full(count, -1) if duplicate is None else duplicate,
        rows.withdrawal,
        expiry,
        rows.det_time,
        rows.det_time // chronon_us * chronon_us,
        event_class.mutable,
        np.full(keys, -1),
        np.zeros(count, np.bool_),
        verdicts,
        there,
    )
    return Judged(verdicts, there)


def key_codes(event_class: EventClass, values: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Integers, int]:
    """A number a row that rows of one key share, counted from 0, and how many keys there are."""
    names = {key_of(name) for name in event_class.key}
    pairs = zip(event_class.attributes, values, strict=True)
    return _combined([_codes(column) for attribute, column in pairs if key_of(attribute.name) in names])


def _loop(
    key: Any,
    duplicate: Any,
    withdrawal: Any,
    expiry: Any,
    det_time: Any,
    tick: Any,
    mutable: bool,
    current: Any,
    seen: Any,
    verdicts: Any,
    there: Any,
) -> None:
    """Fill `verdicts` and `there`; `current` has the row of the version of each key, `seen` the accepted duplicates."""
    for i in range(len(key)):
        if duplicate[i] >= 0 and seen[duplicate[i]]:
            verdicts[i] = ABSORBED
            continue
        old = current[key[i]]
        if old >= 0 and expiry[old] < tick[i] and det_time[old] < tick[i]:
            old = -1
        if old < 0 and withdrawal[i]:
            verdicts[i] = NOT_THERE
            continue
        if old >= 0 and not mutable:
            verdicts[i] = IMMUTABLE
            there[i] = old
            continue
        verdicts[i] = ANNOUNCE if old < 0 else WITHDRAWN if withdrawal[i] else CHANGE
        current[key[i]] = -1 if withdrawal[i] else i
        if duplicate[i] >= 0:
            seen[duplicate[i]] = True


@cache
def _compiled() -> Callable[..., None]:
    from numba import njit

    loop: Callable[..., None] = njit(_loop)
    return loop


def _duplicate_codes(rows: Rows, key: Integers | None, keys: int) -> Integers | None:
    """A number that rows share which would be duplicates, -1 for a row that has no like; None if no row has."""
    count = len(rows.det_time)
    found = np.full(count, -1)
    used = 0
    plain = np.ones(count, np.bool_)
    if rows.event_id is not None:
        plain = _array(rows.event_id).is_null().to_numpy(zero_copy_only=False)
        used = _number_repeats(found, np.flatnonzero(~plain), [rows.event_id], used)
    if key is not None and keys < count:
        # Only rows with one key and det_time are looked at whole: few, unless most are duplicates.
        codes, _ = _combined([(key, keys), _codes(pa.array(rows.det_time))])
        many = np.bincount(codes)[codes] > 1
        times = [
            pa.array(rows.det_time),
            pa.array(np.where(rows.withdrawal, 0, rows.occ_time)),
            pa.array(rows.withdrawal),
        ]
        used = _number_repeats(found, np.flatnonzero(plain & many), [*times, *rows.values], used)
    return found if used else None


def _number_repeats(found: Integers, rows: Integers, columns: Sequence[pa.Array | pa.ChunkedArray], used: int) -> int:
    """Give rows that are equal in all columns a number of their own, from `used` on; says how many are used then."""
    if not len(rows):
        return used
    codes, count = _combined([_codes(column.take(pa.array(rows))) for column in columns])
    repeated = np.bincount(codes)[codes] > 1
    if not repeated.any():
        return used
    # Numbers stay below the number of rows: each belongs to at least one row of its own.
    found[rows[repeated]] = codes[repeated] + used
    return used + count


def _codes(column: pa.Array | pa.ChunkedArray) -> tuple[Integers, int]:
    """A number a row that equal values share, NULL and NaN among them, and how many numbers there are."""
    values = _array(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # a zero has no sign here
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary)


def _combined(columns: Sequence[tuple[Integers, int]]) -> tuple[Integers, int]:
    codes, count = columns[0]
    for other, others in columns[1:]:
        # Numbered afresh after each column, so that the product stays within 64 bits.
        codes, count = _codes(pa.array(codes * others + other))
    return codes, count


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    # Strings of all rows together may be more than an array of 32-bit offsets holds.
    wide = pa.large_string() if pa.types.is_string(column.type) else column.type
    combined = column.cast(wide).combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined

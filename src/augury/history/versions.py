"""Rows of one class in the order of the history → which are versions, and of what.

In: columns of rows that are fine by themselves. Out: a verdict a row: announced, changed, withdrawn, absorbed as a
duplicate, or refused. Keys and values become numbers first, so that the one loop over versions works on integers alone;
it is left out where no key comes twice, and compiled where there are many rows.

A row is a duplicate of an accepted version only: by `event_id`, or where it has none by equal key, times and values
among versions that have none either. An event is purged by the tick of a later version's chronon if it was read and had
expired before that tick. That a complex event may keep its constituents longer is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import EventClass, key_of
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask
from augury.kernels.compiled import loop

ANNOUNCE: Final = 0
CHANGE: Final = 1
WITHDRAWN: Final = 2
ABSORBED: Final = 3
IMMUTABLE: Final = 4
NOT_THERE: Final = 5
OFF: Final = 6
"""Its class takes no events at the time: nobody judges this one by itself."""

Verdicts = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.integer[Any]]
"""Numbers that equal values share."""

_COMPILED_ROWS_MIN: Final = 300_000
"""Below that many rows compiling the loop takes longer than running it."""

_FOR_EVER: Final = -1
"""The lifespan of what never expires."""

_NONE: Final = np.empty(0, np.int64)


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
    """A verdict a row; where that is IMMUTABLE, `there` is the row of the version that is there already."""

    verdicts: Verdicts
    there: Integers


def judge(event_class: EventClass, rows: Rows, chronon_us: int) -> Judged:
    """Decide row by row what each is, given those before it."""
    count = len(rows.det_time)
    key, keys = key_codes(event_class, rows.values) if event_class.key else (None, count)
    duplicate = _duplicate_codes(rows, key, keys)
    if keys == count and duplicate is None:
        # Each key comes once: nothing is there yet that could be changed, refused or withdrawn.
        return Judged(np.where(rows.withdrawal, np.uint8(NOT_THERE), np.uint8(ANNOUNCE)), _NONE)
    # Only an immutable class refuses for the sake of another version.
    verdicts, there = np.zeros(count, np.uint8), _NONE if event_class.mutable else np.full(count, -1)
    _judge_each(
        np.arange(count) if key is None else key,
        _NONE if duplicate is None else duplicate,
        rows.withdrawal,
        rows.occ_time,
        rows.det_time,
        _FOR_EVER if event_class.lifespan_us is None else event_class.lifespan_us,
        chronon_us,
        event_class.mutable,
        np.full(keys, -1),
        np.zeros(0 if duplicate is None else count, np.bool_),
        verdicts,
        there,
    )
    return Judged(verdicts, there)


def judge_beside(event_class: EventClass, rows: Rows, present: Integers, known: Mask | None) -> Judged:
    """Decide row by row what each is, given what is there: nothing expires between these rows.

    `present` has the slot of the live event with a row's key, or -1; `known` are the rows whose event_id is that of an
    accepted version. Where the verdict is IMMUTABLE, `there` is the row of the version that is there already, or the
    number of rows plus its slot.
    """
    count = len(rows.det_time)
    key, keys = key_codes(event_class, rows.values) if event_class.key else (np.arange(count), count)
    duplicate = _duplicate_codes(rows, key if event_class.key else None, keys)
    fresh = not event_class.key or (keys == count and bool((present < 0).all()))
    if duplicate is None and known is None and (event_class.mutable or fresh) and not rows.withdrawal.any():
        # Numbers of keys are given as they come, so a row with a greater one than all before is the first of its key.
        first = np.ones(count, np.bool_)
        first[1:] = key[1:] > np.maximum.accumulate(key)[:-1]
        return Judged(np.where(first & (present < 0), np.uint8(ANNOUNCE), np.uint8(CHANGE)), _NONE)
    current, seen = np.full(keys, -1), np.zeros(count + 1, np.bool_)
    current[key] = np.where(present < 0, -1, count + present)
    if known is not None:
        # One number for all that are known already, which counts as seen.
        duplicate = np.where(known, count, np.full(count, -1) if duplicate is None else duplicate)
        seen[count] = True
    verdicts, there = np.zeros(count, np.uint8), np.full(count, -1)
    times = (rows.withdrawal, rows.occ_time, rows.det_time)
    of_class = (_FOR_EVER, 1, event_class.mutable)
    _judge_each(key, _NONE if duplicate is None else duplicate, *times, *of_class, current, seen, verdicts, there)
    return Judged(verdicts, there)


def key_codes(event_class: EventClass, values: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Codes, int]:
    """A number a row that rows of one key share, counted from 0, and how many keys there are."""
    names = {key_of(name) for name in event_class.key}
    pairs = zip(event_class.attributes, values, strict=True)
    return _combined([_codes(column) for attribute, column in pairs if key_of(attribute.name) in names])


@loop(None, work=lambda key, *_: len(key), plain_work_max=_COMPILED_ROWS_MIN - 1)
def _judge_each(
    key: Any,
    duplicate: Any,
    withdrawal: Any,
    occ_time: Any,
    det_time: Any,
    lifespan_us: int,
    chronon_us: int,
    mutable: bool,
    current: Any,
    seen: Any,
    verdicts: Any,
    there: Any,
) -> None:
    """Fill `verdicts` and `there`; `current` has the row of the version of each key, `seen` the accepted duplicates."""
    for i in range(len(key)):
        like = duplicate[i] if len(duplicate) else -1
        if like >= 0 and seen[like]:
            verdicts[i] = ABSORBED
            continue
        old = current[key[i]]
        if old >= 0 and lifespan_us != _FOR_EVER:
            tick = det_time[i] // chronon_us * chronon_us
            if occ_time[old] + lifespan_us < tick and det_time[old] < tick:
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
        if like >= 0:
            seen[like] = True


def _duplicate_codes(rows: Rows, key: Codes | None, keys: int) -> Integers | None:
    """A number that rows share which would be duplicates, -1 for a row that has no like; None if no row has."""
    count = len(rows.det_time)
    alike = _of_one_time(rows.det_time, key) if key is not None and keys < count else _NONE
    if rows.event_id is None and not len(alike):
        return None
    found = np.full(count, -1)
    used = 0
    if rows.event_id is not None:
        ids: Mask = _array(rows.event_id).is_valid().to_numpy(zero_copy_only=False)
        used = _number_repeats(found, np.flatnonzero(ids), [rows.event_id.filter(pa.array(ids))], used)
        alike = alike[~ids[alike]]
    withdrawal = rows.withdrawal[alike]
    times = (rows.det_time[alike], np.where(withdrawal, 0, rows.occ_time[alike]), withdrawal)
    values = [column.take(pa.array(alike)) for column in rows.values]
    used = _number_repeats(found, alike, [*map(pa.array, times), *values], used)
    return found if used else None


def _of_one_time(det_time: Integers, key: Codes) -> Integers:
    """The rows that share det_time and key with another: few, unless most are duplicates, and so looked at whole."""
    follows = np.zeros(len(det_time), np.bool_)
    np.equal(det_time[1:], det_time[:-1], out=follows[1:])
    tied = follows.copy()
    tied[:-1] |= follows[1:]
    rows = np.flatnonzero(tied)
    if not len(rows):
        return rows
    # They are in order of det_time: those of one time stand together.
    number = np.cumsum(~follows[rows]) - 1
    codes, _ = _combined([(number, int(number[-1]) + 1), (key[rows], int(key.max()) + 1)])
    return rows[np.bincount(codes)[codes] > 1]


def _number_repeats(found: Integers, rows: Integers, columns: Sequence[pa.Array | pa.ChunkedArray], used: int) -> int:
    """Give rows that are equal in all columns a number of their own, from `used` on; says how many are used then."""
    if not len(rows):
        return used
    codes, count = _combined([_codes(column) for column in columns])
    repeated = np.bincount(codes)[codes] > 1
    if not repeated.any():
        return used
    # Numbers stay below the number of rows: each belongs to at least one row of its own.
    found[rows[repeated]] = codes[repeated] + used
    return used + count


def _codes(column: pa.Array | pa.ChunkedArray) -> tuple[Codes, int]:
    """A number a row that equal values share, NULL and NaN among them, and how many numbers there are."""
    values = _array(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # a zero has no sign here
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False), len(encoded.dictionary)


def _combined(columns: Sequence[tuple[Codes, int]]) -> tuple[Codes, int]:
    codes, count = columns[0]
    for other, others in columns[1:]:
        # Numbered afresh after each column, so that the product stays within 64 bits.
        codes, count = _codes(pa.array(codes.astype(np.int64) * others + other))
    return codes, count


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    # Strings of all rows together may be more than an array of 32-bit offsets holds.
    wide = pa.large_string() if pa.types.is_string(column.type) else column.type
    combined = column.cast(wide).combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined

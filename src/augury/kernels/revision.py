"""What was said and what detection says now → the rows that correct it; rows of any revision → what stands.

In and out: occurrences of one class. It knows no kernel and no state: whoever corrects restores a state from before the
change, steps over the corrected history from there, and compares.

**Identity.** An occurrence is known by where it completes, its constituents and its key. Where it completes is the
`seq` of the version; for a timer the time as well, since PERIODIC gives many with the same constituents. The key is in
it, so that no occurrence moves from one event to another: where it changes, that of the old key is withdrawn and one
of the new key is said for the first time. Other values and times are what is said of it, and may change.

**Several at once.** Without a key, or with a key that does not tell them apart, several occurrences may have one
identity: by COLLECT ALL, by values that one version gives in two places, on complex events with the same constituents;
even two that are alike in everything. They are corrected together: if any of them changes, all that still hold are
asserted again with the next revision, and those that do not are withdrawn with it. So the rows with the greatest
revision of an identity always say everything about it, and nobody has to guess which of several a row replaces.

A revision counts what was said of an identity: 0 is the first time, also when a correction finds what was not there,
n the n-th correction, be it a withdrawal or an assertion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import key_of
from augury.kernels.batch import ASSERT, WITHDRAW, Integers, Occurrences, joined
from augury.kernels.columns.column import Mask
from augury.kernels.order import in_order, places, without_seq


def corrections(said: Occurrences, found: Occurrences) -> Occurrences:
    """The rows that make of what was said what is found afresh; none where nothing has changed.

    `said` has all rows, earlier corrections included, about the stretch of the history in which `found` was detected.
    What no longer holds is withdrawn, with the values that it had; what is new or differs is asserted. The rows are in
    the order of the contract, withdrawals first at each place. Counts of errors are those of `found`.
    """
    rows = joined([said, found])
    afresh = np.arange(len(rows)) >= len(said)
    identity = _identities(rows)
    last = _last_revisions(identity, np.where(afresh, -1, rows.revision))
    stands = ~afresh & (rows.kind == ASSERT) & (rows.revision == last)
    alike = _numbered([pa.array(identity), pa.array(rows.occ_time), pa.array(rows.det_time), *rows.values.columns])
    surplus = _count(alike, stands) - _count(alike, afresh)
    changed = _count(identity, surplus != 0) > 0
    # One in the place of one is the same occurrence, corrected.
    replaced = (_count(identity, stands) == 1) & (_count(identity, afresh) == 1)
    withdrawn = stands & changed & ~replaced & (_ranks(alike, stands) < surplus)
    corrected = replace(
        rows,
        kind=np.where(afresh, np.uint8(ASSERT), np.uint8(WITHDRAW)),
        revision=last + 1,
        errors=found.errors,
        dropped=found.dropped,
    )
    return _ordered(corrected.at(np.flatnonzero(withdrawn | (afresh & changed))))


def current(rows: Occurrences) -> Occurrences:
    """The occurrences that stand after all that was said, in the order of the contract; each with its revision."""
    last = _last_revisions(_identities(rows), rows.revision)
    return _ordered(rows.at(np.flatnonzero((rows.kind == ASSERT) & (rows.revision == last))))


def applied(said: Occurrences, corrected: Occurrences) -> Occurrences:
    """The occurrences that stand after corrections of what was said."""
    return current(joined([said, corrected]))


# ---- identity ----------------------------------------------------------------------------------------------------


def _identities(rows: Occurrences) -> Integers:
    """A number a row that rows about the same occurrence share."""
    due = np.where(without_seq(rows.seq), rows.det_time, 0)
    key = {key_of(name) for name in rows.event_class.key}
    attributes = zip(rows.event_class.attributes, rows.values.columns, strict=True)
    keys = [_equal_alike(column) for attribute, column in attributes if key_of(attribute.name) in key]
    return _numbered([pa.array(rows.seq), pa.array(due), _as_bytes(rows.constituents), *keys])


def _equal_alike(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """0.0 and -0.0 are one key."""
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _as_bytes(lists: pa.Array) -> pa.Array:
    """Each list of numbers as bytes, for Arrow tells lists apart no faster than Python does."""
    lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
    numbers = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)]) * numbers.itemsize
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(numbers.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(lists), buffers)


def _numbered(columns: Sequence[pa.Array | pa.ChunkedArray]) -> Integers:
    """A number a row that rows with the same values share, NULL and NaN among them."""
    count = len(columns[0])
    numbers = np.zeros(count, np.int64)
    for column in columns:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        codes = whole.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        numbers = np.unique(numbers * (count + 1) + codes, return_inverse=True)[1].astype(np.int64, copy=False)
    return numbers


# ---- counting ----------------------------------------------------------------------------------------------------


def _last_revisions(identity: Integers, revision: Integers) -> Integers:
    """For each row the greatest revision of its identity."""
    greatest = np.full(len(identity), -1, np.int64)
    np.maximum.at(greatest, identity, revision)
    return greatest[identity]


def _count(numbers: Integers, of: Mask) -> Integers:
    """For each row how many of some rows have its number."""
    return np.bincount(numbers[of], minlength=len(numbers))[numbers]


def _ranks(numbers: Integers, of: Mask) -> Integers:
    """For each of some rows how many of them with its number come before it; 0 for others."""
    at = np.flatnonzero(of)
    order = at[np.argsort(numbers[at], kind="stable")]
    ranks = np.zeros(len(numbers), np.int64)
    ranks[order] = np.arange(len(order)) - np.searchsorted(numbers[order], numbers[order])
    return ranks


def _ordered(rows: Occurrences) -> Occurrences:
    # Who reads the rows one by one must not withdraw by key what has just been asserted.
    place = places(rows.seq, rows.det_time) * 2 + (rows.kind == ASSERT)
    if (np.diff(place) > 0).all():
        return rows
    lists = rows.constituents.to_pylist()
    return rows.at(np.array(in_order(rows.event_class, place, lists, rows.values.columns, rows.occ_time), np.int64))

"""Rows of a SELECT class: what they are made of, the one that counts of each key, what changed since the last.

In: Arrow columns. Out: rows and row numbers, all vectorised. It knows neither SQL nor DuckDB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import EventClass, key_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Made:
    """What rows are made of: those of row i stand from `starts[i]` to `starts[i + 1]`, ascending, each once.

    `view` counts in `Translated.views`; `row` is the view's own number of the row.
    """

    starts: Integers
    view: Integers
    row: Integers

    def taken(self, rows: Integers) -> Made:
        """Of some of the rows."""
        sizes = np.diff(self.starts)[rows]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        places = np.repeat(self.starts[rows] - starts[:-1], sizes) + np.arange(starts[-1])
        return Made(starts, self.view[places], self.row[places])

    def of(self, row: int) -> list[tuple[int, int]]:
        """View and row number of each constituent of a row."""
        span = slice(self.starts[row], self.starts[row + 1])
        return list(zip(self.view[span].tolist(), self.row[span].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a SELECT class: its attributes as declared, occ_time in µs; `made` is None where rows are not traced."""

    attributes: pa.Table
    occ_time: pa.Array
    made: Made | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self.occ_time)

    def taken(self, rows: Integers) -> Rows:
        """Some of the rows, in the order given."""
        table = self.attributes.take(rows) if self.attributes.num_columns else self.attributes
        return Rows(table, self.occ_time.take(pa.array(rows)), self.made and self.made.taken(rows))


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    chunks = column.combine_chunks()
    return pa.concat_arrays(chunks.chunks) if isinstance(chunks, pa.ChunkedArray) else chunks


def made_of(lists: pa.ListArray, views: int) -> Made:
    """What rows are made of, from lists of row number · views + view."""
    codes = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    owner = np.repeat(np.arange(len(lists)), sizes)
    view, row = codes % max(views, 1), codes // max(views, 1)
    return _gathered(owner, view, row, len(lists))


def _gathered(owner: Integers, view: Integers, row: Integers, owners: int) -> Made:
    """What each owner is made of, from pairs in any order, some more than once."""
    order = np.lexsort((row, view, owner))
    owner, view, row = owner[order], view[order], row[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (view[1:] != view[:-1]) | (row[1:] != row[:-1])
    counts = np.bincount(owner[new], minlength=owners)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int64)
    return Made(starts, view[new], row[new])


# ---- keys and changes -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Keyed:
    """One row a key; how many other rows had a key that was taken, and how many no occurrence time: no events."""

    rows: Rows
    surplus: int
    timeless: int


def keyed(rows: Rows, event_class: EventClass) -> Keyed:
    """Of several rows with one key the one with the least occTime, then the least attributes, as declared.

    Rows alike in all of these are one, made of all that each is made of. NULL comes last, NaN is greatest; the rows
    come out ordered by key. A row without an occurrence time is no event.
    """
    timed = np.flatnonzero(rows.occ_time.is_valid().to_numpy(zero_copy_only=False))
    timeless = len(rows) - len(timed)
    rows = rows.taken(timed) if timeless else rows
    if not len(rows):
        return Keyed(rows, 0, timeless)
    key = _key_columns(rows, event_class)
    rest = [rows.occ_time, *_columns(rows.attributes)]
    order = _order([*key, *rest])
    new = _starts([*key], order)
    kept = rows.taken(order[new])
    if rows.made is not None and not new.all():
        kept = replace(kept, made=_united(order, new, _starts([*key, *rest], order), rows.made))
    return Keyed(kept, len(rows) - len(kept), timeless)


def _key_columns(rows: Rows, event_class: EventClass) -> list[pa.Array]:
    """The key, or with `ID ()` all attributes and occTime."""
    if not event_class.key:
        return [*_columns(rows.attributes), rows.occ_time]
    places = {key_of(attribute.name): i for i, attribute in enumerate(event_class.attributes)}
    columns = _columns(rows.attributes)
    return [columns[places[key_of(name)]] for name in event_class.key]


def _columns(table: pa.Table) -> list[pa.Array]:
    return [whole(column) for column in table.columns]


def _order(columns: list[pa.Array]) -> Integers:
    """The rows in order, NULL last and NaN after all numbers; equal ones stay as they are."""
    table = pa.table(columns, names=[str(i) for i in range(len(columns))])
    keys = [(name, "ascending") for name in table.column_names]
    order: Integers = pc.sort_indices(table, keys).to_numpy().astype(np.int64)
    return order


def _codes(column: pa.Array) -> Integers:
    """A number for each value, the same for equal ones: NULL is a value here, NaN equals NaN, −0.0 equals 0.0."""
    plain = pc.add(column, 0.0) if pa.types.is_floating(column.type) else column
    codes: Integers = plain.dictionary_encode("encode").indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _starts(columns: list[pa.Array], order: Integers) -> npt.NDArray[np.bool_]:
    """Which rows, in order, differ from the one before."""
    new = np.zeros(len(order), np.bool_)
    new[:1] = True
    for column in columns:
        codes = _codes(column)[order]
        new[1:] |= codes[1:] != codes[:-1]
    return new


def _united(order: Integers, new: npt.NDArray[np.bool_], unlike: npt.NDArray[np.bool_], made: Made) -> Made:
    """What the first row of each key is made of, together with the rows after it that are quite equal to it."""
    counted = new[unlike][np.cumsum(unlike) - 1]
    members, owner = order[counted], (np.cumsum(new) - 1)[counted]
    taken = made.taken(members)
    return _gathered(np.repeat(owner, np.diff(taken.starts)), taken.view, taken.row, int(new.sum()))


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a SELECT class: rows of `after` that are announced or changed, rows of `before` withdrawn."""

    announced: Integers
    changed: Integers
    changed_from: Integers
    withdrawn: Integers


def changes(before: Rows, after: Rows, event_class: EventClass) -> Changes:
    """The difference of two keyed results: what has a new key, what differs, what is gone, as row numbers.

    Constituents are no part of a row: where they alone differ nothing changed.
    """
    size = len(before)
    joint = Rows(
        pa.concat_tables([before.attributes, after.attributes]), pa.concat_arrays([before.occ_time, after.occ_time])
    )
    key = _numbered(_key_columns(joint, event_class), len(joint))
    value = _numbered([*_columns(joint.attributes), joint.occ_time], len(joint))
    known = np.full(int(key.max(initial=-1)) + 1, -1, np.int64)
    known[key[:size]] = np.arange(size)
    earlier = known[key[size:]]
    differs = (earlier >= 0) & (value[:size][earlier] != value[size:] if size else False)
    kept = np.zeros(size, np.bool_)
    kept[earlier[earlier >= 0]] = True
    changed = np.flatnonzero(differs)
    return Changes(np.flatnonzero(earlier < 0), changed, earlier[changed], np.flatnonzero(~kept))


def _numbered(columns: list[pa.Array], size: int) -> Integers:
    """A number for each row, the same for rows with equal values."""
    number = np.zeros(size, np.int64)
    for column in columns:
        number = np.unique(number * (size + 1) + _codes(column), return_inverse=True)[1].astype(np.int64)
    return number

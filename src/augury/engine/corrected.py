"""The corrected history of a class with ORDER BY OCCURRENCE: current versions in order of (occ_time, seq).

In: versions that are put in and taken out. Out: stretches of the history as batches for kernels, in which the place of
a version stands for its `seq` and its occ_time for its det_time; when it was detected is there for those who ask. It
knows neither kernels nor what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.engine.tables import nothing
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT, Batch, Integers
from augury.kernels.bitemporal.cells import grown

FIRST_PLACE: Final = 1 << 40
"""The place of the first version of a corrected history: greater than every `seq`, so that the two are told apart."""

_ROOM_MIN: Final = 64
_OCC, _SEQ, _RANK, _CODE, _ROW, _DETECTED = range(6)

Where = tuple[int, int, int]
"""What versions are ordered by: occ_time, `seq`, and a rank by which complex events follow the version they are of."""


@dataclass(slots=True)
class Shelf:
    """Rows of one class as Arrow tables, which are joined as they grow, so that there are few of them.

    A complex class has its constituents in a last column. One without any column has no table, only a count.
    """

    event_class: EventClass
    is_complex: bool
    tables: list[pa.Table] = field(default_factory=list)
    count: int = 0

    def add(self, table: pa.Table, lists: pa.Array | None, rows: Integers) -> int:
        """Put some rows of a table at the end; gives the number of the first."""
        first = self.count
        self.count += len(rows)
        taken = self._with_lists(table, lists, rows)
        if taken.num_columns:
            self.tables.append(taken)
            while len(self.tables) > 1 and self.tables[-2].num_rows <= 2 * self.tables[-1].num_rows:
                self.tables[-2:] = [pa.concat_tables(self.tables[-2:]).combine_chunks()]
        return first

    def _with_lists(self, table: pa.Table, lists: pa.Array | None, rows: Integers) -> pa.Table:
        whole = len(rows) == table.num_rows and bool((rows == np.arange(len(rows))).all())
        at = pa.array(rows)
        taken = table if whole or not table.num_columns else table.take(at)
        if not self.is_complex:
            return taken
        assert lists is not None, "complex events are made of others"
        return pa.table([*taken.columns, lists.take(at)], names=[*taken.column_names, ""])

    def taken(self, rows: Integers) -> tuple[pa.Table, pa.Array | None]:
        """Rows by number: their attributes, and of a complex class their constituents."""
        if not self.tables:
            return nothing(self.event_class), pa.array([], pa.list_(pa.int64())) if self.is_complex else None
        found = pa.concat_tables(self.tables).take(pa.array(rows))
        if not self.is_complex:
            return found, None
        lists = found.column(found.num_columns - 1).combine_chunks()
        lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
        names = found.column_names[:-1]
        return (pa.table(found.columns[:-1], names=names) if names else nothing(self.event_class)), lists


@dataclass(slots=True)
class Corrected:
    """Versions in order. `base` came before those that are here and are gone, for nothing can change them any more.

    `at` has for each event that may still change where its version stands; one that was too old to be taken has the
    rank -1 and stands nowhere. `held` are the places and `seq` of versions before `base` that kernels still hold.
    With `asks_detected` it knows when each was detected.
    """

    classes: tuple[EventClass, ...]
    shelves: list[Shelf]
    at: dict[tuple[int, Any], Where] = field(default_factory=dict)
    base: int = 0
    count: int = 0
    ranks: int = 0
    held: tuple[Integers, Integers] = field(default_factory=lambda: (np.zeros(0, np.int64), np.zeros(0, np.int64)))
    asks_detected: bool = False
    _columns: Integers = field(init=False)

    def __post_init__(self) -> None:
        """Make room for some."""
        self._columns = self._empty(_ROOM_MIN)

    def _empty(self, room: int) -> Integers:
        return np.zeros((_DETECTED + self.asks_detected, room), np.int64)

    @property
    def end(self) -> int:
        """How many versions there are, those before `base` included."""
        return self.base + self.count

    @property
    def occ_time(self) -> Integers:
        """Of all versions since `base`."""
        return self._columns[_OCC, : self.count]

    @property
    def last_occ(self) -> int | None:
        """The occ_time of the last version, None without one since `base`."""
        return int(self._columns[_OCC, self.count - 1]) if self.count else None

    def last(self) -> Where | None:
        """Where the last version stands."""
        if not self.count:
            return None
        occ, seq, rank = self._columns[:3, self.count - 1].tolist()
        return occ, seq, rank

    def columns(self) -> Integers:
        """Occ_time, `seq`, rank, code, row and, for who asks, det_time of all versions since `base`, a row each."""
        return self._columns[:, : self.count]

    def restore(self, columns: Integers) -> None:
        """Take over columns that were saved."""
        self.count = columns.shape[1]
        self._columns = self._empty(max(_ROOM_MIN, 2 * self.count))
        self._columns[:, : self.count] = columns

    # ---- changing --------------------------------------------------------------------------------

    def next_rank(self, code: int) -> int:
        """What a new row is ordered by beside others of its time and `seq`: complex ones by class, as they come."""
        return ((code + 1) << 40) + self.ranks + 1 if self.shelves[code].is_complex else 0

    def rank(self, code: int) -> int:
        """The same, and the next one has another."""
        found = self.next_rank(code)
        self.ranks += found > 0
        return found

    def append(
        self, occ: Integers, seq: Integers, rank: Integers, code: Integers, row: Integers, detected: Integers
    ) -> int:
        """Put rows at the end; gives the place of the first, counted from 0."""
        first, more = self.count, len(occ)
        self._make_room(more)
        self._columns[:, first : first + more] = (occ, seq, rank, code, row, detected)[: len(self._columns)]
        self.count += more
        return self.base + first

    def insert(self, where: Where, code: int, row: int, detected: int) -> int:
        """Put a row where it belongs; gives its place."""
        self._make_room(1)
        place, columns = self._found(where), self._columns
        columns[:, place + 1 : self.count + 1] = columns[:, place : self.count]
        columns[:, place] = (*where, code, row, detected)[: len(columns)]
        self.count += 1
        return self.base + place

    def remove(self, where: Where) -> int:
        """Take a row out; gives the place that it had."""
        place, columns = self._found(where), self._columns
        assert tuple(columns[:3, place].tolist()) == where, "it is there"
        columns[:, place : self.count - 1] = columns[:, place + 1 : self.count]
        self.count -= 1
        return self.base + place

    def _found(self, where: Where) -> int:
        """The first row that does not come before."""
        begin, end = 0, self.count
        for column, value in zip(self._columns, where, strict=False):
            part = column[begin:end]
            begin, end = (begin + int(np.searchsorted(part, value, side)) for side in ("left", "right"))
        return begin

    def place_of(self, where: Where) -> int:
        """The place of a version that is here."""
        return self.base + self._found(where)

    def _make_room(self, more: int) -> None:
        if self.count + more > self._columns.shape[1]:
            self._columns = np.ascontiguousarray(grown(self._columns.T, 2 * (self.count + more)).T)

    # ---- reading ---------------------------------------------------------------------------------

    def batch(self, begin: int, end: int) -> Batch:
        """The versions from one place up to another, as kernels read them."""
        occ, _, _, code, row, *detected = self._columns[:, begin - self.base : end - self.base]
        own, tables, lists = np.zeros(len(occ), np.int64), [], []
        for number, shelf in enumerate(self.shelves):
            of = np.flatnonzero(code == number)
            own[of] = np.arange(len(of))
            table, made_of = shelf.taken(row[of])
            tables.append(table)
            lists.append(made_of)
        return placed(self.classes, code, own, (occ, *detected), begin, tables, lists)

    def seqs(self, places: Integers) -> Integers:
        """The `seq` of the received versions at places, as kernels have them."""
        at = places - FIRST_PLACE
        found = np.empty(len(at), np.int64)
        here = at >= self.base
        found[here] = self._columns[_SEQ][at[here] - self.base]
        known, seqs = self.held
        found[~here] = seqs[np.searchsorted(known, places[~here])]
        return found

    def all_seqs(self) -> Integers:
        """The `seq` of all received versions that something may be made of."""
        lists = []
        for number, shelf in enumerate(self.shelves):
            if shelf.is_complex:
                rows = self._columns[_ROW, : self.count][self._columns[_CODE, : self.count] == number]
                made_of = shelf.taken(rows)[1]
                assert made_of is not None
                lists.append(made_of.flatten().to_numpy(zero_copy_only=False))
        return np.concatenate([self._columns[_SEQ, : self.count], self.held[1], *lists])

    # ---- forgetting ------------------------------------------------------------------------------

    def forget(self, before: int, held: Integers) -> None:
        """Let go of the versions before a place, but for the `seq` of those that kernels hold."""
        places = np.unique(held[held >= FIRST_PLACE])
        places = places[places < FIRST_PLACE + before]
        self.held = places, self.seqs(places)
        rest = self._columns[:, before - self.base : self.count].copy()
        for number, shelf in enumerate(self.shelves):
            of = np.flatnonzero(rest[_CODE] == number)
            table, lists = shelf.taken(rest[_ROW][of])
            fresh = Shelf(shelf.event_class, shelf.is_complex)
            fresh.add(table, lists, np.arange(len(of)))
            self.shelves[number] = fresh
            rest[_ROW][of] = np.arange(len(of))
        self.base = before
        self.restore(rest)


def corrected(classes: Sequence[EventClass], received: int, *, asks_detected: bool) -> Corrected:
    """A history without versions; the first classes come in from outside, the others are complex."""
    shelves = [Shelf(one, number >= received) for number, one in enumerate(classes)]
    return Corrected(tuple(classes), shelves, asks_detected=asks_detected)


def placed(
    classes: tuple[EventClass, ...],
    code: Integers,
    row: Integers,
    times: tuple[Integers, ...],
    begin: int,
    tables: Sequence[pa.Table],
    lists: Sequence[pa.Array | None],
) -> Batch:
    """Versions as kernels read them: their places are their numbers, and the clock comes to them when they occur.

    `times` are their occ_time and, for who asks, when they were detected.
    """
    occ_time, *detected = times
    places = np.arange(FIRST_PLACE + begin, FIRST_PLACE + begin + len(code))
    kind = np.full(len(code), ASSERT, np.uint8)
    columns = (code.astype(np.int16), row, places, occ_time, occ_time, kind)
    return Batch(classes, *columns, tuple(tables), tuple(lists), *detected)


def codes_wanted(classes: Sequence[EventClass], names: Sequence[str] | None) -> np.ndarray:
    """Which classes are in a history, by code: those named, or all."""
    keys = None if names is None else set(map(key_of, names))
    return np.array([keys is None or key_of(one.name) in keys for one in classes], np.bool_)

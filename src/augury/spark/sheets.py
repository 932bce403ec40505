"""The events of a data frame as typed rows, some at a time: what each is by itself, and where it came.

In: Arrow batches of a partition, as Spark reads them. Out: sheets of typed rows and refusals, for the tasks of
`accepting` and `judging`. The rules are `history`'s; what a row means beside others is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.history.coming import came, received
from augury.history.numbered import Some
from augury.history.pieces import rows_where
from augury.history.raw import RawTable
from augury.history.refusing import refused
from augury.history.typed import EVENT, Part, Refusal
from augury.history.versions import ABSORBED, Rows, judge
from augury.kernels.batch import ASSERT, WITHDRAW, Integers
from augury.kernels.columns import arrow_type
from augury.spark.layout import own_columns
from augury.spark.tasks import Batches

_ROWS_READ: Final = 100_000
"""Rows that are typed together at least: Spark may send them in many small batches."""

CODE: Final = "__class"
"""The column with the numbers of classes."""

PARTITION: Final = "__partition"
"""The column with the partition of each row; without it the task says which: not so where data frames are united."""

ROW_BITS: Final = 34
_PARTITION_BITS: Final = 17
SOURCES_MAX: Final = 1 << 12
"""Where a row came is a number of 63 bits: its source, its partition there (together the part), and its place in it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A data frame: its number and name, the class of rows that do not name theirs, and names sent as numbers."""

    number: int
    name: str
    event_class: str | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet:
    """Typed rows that came together, in that order: where each came, its class, and what classes have of them."""

    part: int
    at: Integers
    code: npt.NDArray[np.int16]
    parts: Mapping[int, Part]
    refusals: Sequence[Refusal]
    _where: dict[int, Integers | slice] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.at)

    def where(self, code: int) -> Integers | slice:
        """The rows of a class."""
        if code not in self._where:
            found = rows_where(self.code == code)
            self._where[code] = slice(None) if found is None else found
        return self._where[code]

    def times(self, name: str) -> Integers:
        """The occ_time or det_time of each."""
        found = np.empty(len(self), np.int64)
        for code, part in self.parts.items():
            found[self.where(code)] = getattr(part, name)
        return found

    @property
    def kind(self) -> npt.NDArray[np.int8]:
        """Whether each states an event or withdraws it."""
        found = np.full(len(self), ASSERT, np.int8)
        for code, part in self.parts.items():
            if part.withdrawal is not None:
                found[self.where(code)] = np.where(part.withdrawal, WITHDRAW, ASSERT)
        return found

    def column(self, arrays: Mapping[int, pa.Array], of: pa.DataType, rows: Integers | None = None) -> pa.Array:
        """Values of classes as one column, NULL for other classes; of some of the rows."""
        pieces = [arrays[c].cast(of) if c in arrays else pa.nulls(len(p), of) for c, p in self.parts.items()]
        if len(pieces) == 1:
            return pieces[0] if rows is None else pieces[0].take(pa.array(rows))
        if not pieces or not arrays:
            return pa.nulls(len(self) if rows is None else len(rows), of)
        places = self._places()
        return pa.concat_arrays(pieces).take(pa.array(places if rows is None else places[rows]))

    def _places(self) -> Integers:
        """Where the values of each row stand when classes stand one after the other."""
        if -1 not in self._where:
            found, begin = np.empty(len(self), np.int64), 0
            for code, part in self.parts.items():
                found[self.where(code)] = np.arange(begin, begin + len(part))
                begin += len(part)
            self._where[-1] = found
        places = self._where[-1]
        assert not isinstance(places, slice)
        return places


def sheets(
    program: Program, source: Source, batches: Batches, until_us: int | None, judged: frozenset[int]
) -> Iterator[tuple[Sheet, int]]:
    """The rows of a partition some at a time, and how many came; of classes not `judged` beside others what is fine."""
    first = 0
    for table in joined(batches):
        part, table = _placed(source, table)
        table = _named(table, source.names)
        numbers = range(1, table.num_rows + 1)
        rows = came(program, [RawTable(source.name, table, numbers, source.event_class)], until_us=until_us)
        classes, start = received(program), first
        refusals = list(rows.refusals)
        for some in rows.some:
            begin = start - first
            some = _fine(program, classes, some, judged, begin, refusals)
            there = np.flatnonzero(some.codes >= 0)
            here = [r for r in refusals if begin <= r.position < begin + len(some.codes)]
            told = [Refusal(first + r.position, r.event, r.reason, r.raw) for r in here]
            yield Sheet(part, start + there, some.codes[there], some.parts, told), len(some.codes)
            start += len(some.codes)
        first += table.num_rows


def joined(batches: Batches) -> Iterator[pa.Table]:
    """The rows of a partition, as many together as pays."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count >= _ROWS_READ:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, count = [], 0
    if count:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _named(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows with the names of their classes again, which came as numbers where they are known."""
    if CODE not in table.column_names:
        return table
    codes = table.column(CODE).combine_chunks().cast(pa.int32())
    known, table = pa.array(names, pa.string()), table.drop_columns([CODE])
    at = next((i for i, name in enumerate(table.column_names) if key_of(name) == EVENT), None)
    if at is None:
        return table.append_column(EVENT, pa.DictionaryArray.from_arrays(codes, known))
    others = table.column(at).combine_chunks().cast(pa.string()).dictionary_encode()
    if len(others.dictionary):
        codes = pc.coalesce(codes, pc.add(others.indices.cast(pa.int32()), len(names)))
    events = pa.DictionaryArray.from_arrays(codes, pa.concat_arrays([known, others.dictionary]))
    return table.set_column(at, table.column_names[at], events)


def _fine(
    program: Program,
    classes: Sequence[EventClass],
    some: Some,
    judged: frozenset[int],
    begin: int,
    refusals: list[Refusal],
) -> Some:
    """The rows without those that are refused whatever came before them: withdrawals of what has no key."""
    codes, parts = some.codes, dict(some.parts)
    for code, part in some.parts.items():
        if code in judged or part.withdrawal is None:
            continue
        rows = Rows(part.values, part.occ_time, part.det_time, part.withdrawal, None)
        verdicts = judge(classes[code], rows, program.settings.chronon_us).verdicts
        at = np.flatnonzero(some.codes == code)
        refusals += refused(classes[code], rows, verdicts, begin + at, _nothing_there)
        kept = np.flatnonzero(verdicts < ABSORBED)
        if len(kept) < len(part):
            codes = codes.copy()
            codes[np.delete(at, kept)] = -1
        of_kept = pa.array(kept)
        values = tuple(column.take(of_kept) for column in part.values)
        ids = None if part.event_id is None else part.event_id.take(of_kept)
        parts[code] = Part(values, part.occ_time[kept], part.det_time[kept], None, ids)
    return Some(codes, parts)


def _nothing_there(row: int) -> int:
    raise AssertionError(f"row {row} has no key, and so nothing is there before it")


def _placed(source: Source, table: pa.Table) -> tuple[int, pa.Table]:
    """The part that rows are of; and the rows without it."""
    if PARTITION not in table.column_names:
        return part_of(source.number), table
    return part_of(source.number, table.column(PARTITION)[0].as_py()), table.drop_columns([PARTITION])


def part_of(source: int, partition: int | None = None) -> int:
    """A partition, by default that of the task that runs, after all those of sources before."""
    if partition is None:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
    assert partition < 1 << _PARTITION_BITS, "Spark has fewer partitions"
    return source << _PARTITION_BITS | partition


def value_columns(sheet: Sheet, classes: Sequence[EventClass]) -> dict[str, pa.Array]:
    """The attributes of all classes, each in a column of its own."""
    found = {}
    for (code, i), name in own_columns(classes).items():
        arrays = {code: sheet.parts[code].values[i]} if code in sheet.parts else {}
        found[name] = sheet.column(arrays, arrow_type(classes[code].attributes[i].type))
    return found

"""Files of events, read by tasks: portions → pieces of typed rows by slot, or packed raw events.

In: portions, which know how they are read and in which order they stand; the driver does not look into them. Out:
frames. What cannot be read comes back as a diagnostic, and is raised by the driver.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.datafiles import Unreadable
from augury.engine.sharded import Slots
from augury.history.coming import came
from augury.history.raw import Raw, RawTable
from augury.spark.arriving import SPARK_PIECES, SUMMARY, Batches, Source, Summary, piece, summary_of, typed_pieces
from augury.spark.tasks import packed_row, row_of_bytes

_ROWS_AT_ONCE: Final = 100_000
"""Rows of a table that are packed together: a value of Spark has at most 2 GiB."""

_TASKS_PER_CORE: Final = 4
_SPARK_PACKED: Final = "source int, part int, at bigint, packed binary"
_UNREAD: Final = -1


class Portion(Protocol):
    """A file, or a stretch of one that is the `part`-th, with lines counted from 1; whole files have the part -1."""

    @property
    def source(self) -> str:
        """What people call the file."""
        ...

    @property
    def number(self) -> int:
        """That of the file among all."""
        ...

    @property
    def part(self) -> int:
        """Which stretch it is; -1 where rows have the numbers that they have in the file."""
        ...

    def read(self) -> Iterator[Raw]:
        """The raw events; raises `Unreadable`."""
        ...

    def lines(self) -> int:
        """How many lines begin in a stretch; raises `Unreadable`."""
        ...


def pieces_of(spark: SparkSession, slots: Slots, portions: Sequence[Portion], until_us: int | None) -> DataFrame:
    """The rows of portions as pieces."""
    return _each(spark, portions).mapInArrow(_Ingest(slots, tuple(portions), until_us), SPARK_PIECES)


def packed_of(spark: SparkSession, portions: Sequence[Portion]) -> DataFrame:
    """Raw events of whole files, packed, and kept until they are let go; raises `Unreadable`."""
    packed = (
        _each(spark, portions).mapInArrow(_Pack(tuple(portions)), _SPARK_PACKED).persist(StorageLevel.MEMORY_AND_DISK)
    )
    unread = packed.where(f.col("source") == _UNREAD).toArrow()
    if unread.num_rows:
        packed.unpersist()
        first = pc.sort_indices(unread["part"])[0].as_py()
        raise Unreadable.again(pickle.loads(unread["packed"][first].as_py()))
    return packed


def _each(spark: SparkSession, portions: Sequence[Portion]) -> DataFrame:
    """A row for each portion, in as many partitions as pay."""
    tasks = min(len(portions), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    return spark.range(0, len(portions), 1, max(tasks, 1))


@dataclass(frozen=True, slots=True)
class _Ingest:
    """Portions, by their places → pieces, and a summary each."""

    slots: Slots
    portions: tuple[Portion, ...]
    until_us: int | None

    def __call__(self, batches: Batches) -> Batches:
        """Read the portions of one partition."""
        for batch in batches:
            for place in batch.column("id").to_pylist():
                yield from self._read(self.portions[place])

    def _read(self, portion: Portion) -> Batches:
        source: Source = (portion.number, portion.source, portion.part)
        try:
            raws = list(portion.read())
            # Lines that hold nothing count, too, for those of the next stretch.
            counted = None if portion.part < 0 else portion.lines()
        except Unreadable as error:
            yield piece(SUMMARY, SUMMARY, pickle.dumps(Summary(unread=[(source, error.diagnostic)])))
            return
        rows = came(self.slots.program, raws, until_us=self.until_us)
        given = [source] * len(raws)
        summary = summary_of(rows, given, raws)
        if counted is not None:
            summary.rows[source] = counted
        yield from typed_pieces(self.slots, rows, given, summary)


@dataclass(frozen=True, slots=True)
class _Pack:
    """Whole files, by their places → packed raw events, or why one cannot be read."""

    portions: tuple[Portion, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Read the files of one partition."""
        for batch in batches:
            for place in batch.column("id").to_pylist():
                portion = self.portions[place]
                try:
                    yield from packed_rows(portion.number, portion.read())
                except Unreadable as error:
                    yield row_of_bytes(_UNREAD, portion.number, 0, pickle.dumps(error.diagnostic))


def packed_rows(source: int, raws: Iterable[Raw]) -> Batches:
    """The raw events of a source, packed some at a time."""
    for at, some in enumerate(one for raw in raws for one in _pieces(raw)):
        yield packed_row(source, 0, at, some)


def _pieces(raw: Raw) -> Iterator[Raw]:
    if not isinstance(raw, RawTable) or raw.table.num_rows <= _ROWS_AT_ONCE:
        yield raw
        return
    for start in range(0, raw.table.num_rows, _ROWS_AT_ONCE):
        end = min(start + _ROWS_AT_ONCE, raw.table.num_rows)
        numbers = range(start + 1, end + 1) if raw.numbers is None else raw.numbers[start:end]
        yield replace(raw, table=raw.table.slice(start, end - start), numbers=numbers)

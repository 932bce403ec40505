"""A replay through the stream: raw events, cut into micro-batches, run through a real query into a lake.

In: a program and raw events as readers give them. Out: a ledger. Rows are cut by det_time, as they would have come; the
files that the query reads hold rows that are typed already, as `spark.arriving` packs them.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.program import Program
from augury.engine.ledger import Ledger
from augury.engine.ports import SelectsBy
from augury.engine.progress import Far, Tell, at_tick
from augury.engine.sharded import Slots
from augury.history.arrivals import Arrivals, arrived
from augury.history.coming import Came, came
from augury.history.raw import Raw
from augury.history.values import Moment
from augury.kernels.batch import Integers
from augury.lake import Lake
from augury.spark.arriving import (
    PIECES,
    SPARK_PIECES,
    SUMMARY,
    Source,
    Summary,
    known_by,
    noted,
    packed,
    piece,
    summary_of,
)
from augury.spark.committed import ledger_in
from augury.spark.inherited import Compile
from augury.spark.portions import Portion, pieces_of
from augury.spark.selects import selects_by
from augury.spark.stepping import slots_on_spark
from augury.spark.telling import tasks_of, telling
from augury.spark.ticking import TickDetected
from augury.spark.watch import Watch, watch

_ROWS_AT_ONCE: Final = 100_000
"""Rows of a micro-batch, where nobody says how to cut."""


def replay(
    spark: SparkSession,
    program: Program,
    events: Iterable[Raw],
    *,
    until_us: int | None = None,
    store: str | None = None,
    cuts: Sequence[int] | None = None,
    buckets: int | None = None,
    tell: Tell | None = None,
    selects: SelectsBy = "duckdb",
) -> Ledger:
    """Run a program over events as a stream; `cuts` are the numbers of rows before which a micro-batch begins.

    Without a `store` the lake is gone afterwards. `tell` hears how far it is: rows, ticks, lag.
    """
    folder = Path(tempfile.mkdtemp(prefix="augury-"))
    try:
        lake_path = store or str(folder / "lake")
        count = buckets or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        slots = slots_on_spark(program, count, selects_by(selects, spark, program))
        source = folder / "pieces"
        source.mkdir()
        taken = _taken(slots.program, events, until_us)
        _write(source, slots, taken, cuts)
        rows, newest_us = len(taken.every) + len(taken.every.refusals), taken.every.last_us()
        del taken
        with (
            watching(spark, program, source, lake_path, count, selects=selects) as query,
            telling(tell, lambda: _far(query, rows, newest_us)),
        ):
            query.finish(until_us)
        lake = Lake.open(lake_path)
        return ledger_in(program, lake, list(lake.manifests()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _far(query: Watch, rows_all: int, newest_us: int | None) -> Far:
    """How far a replay is; events of the clock were read, too, though nobody sent them."""
    keeper, counts = query.keeper, query.progress.counts
    rows = min(sum(counts.get(name, 0) for name in ("read", "absorbed", "rejected")), rows_all)
    first, chronon_us = keeper.noted.get("first_tick"), keeper.program.settings.chronon_us
    known = {"rows": rows, "rows_all": rows_all, **tasks_of(keeper.spark)}
    return at_tick("stream on Spark", keeper.last_tick, first, newest_us, chronon_us, **known)


def by_ticks(
    spark: SparkSession,
    program: Program,
    events: Iterable[Raw] = (),
    *,
    portions: Sequence[Portion] | None = None,
    until_us: int | None = None,
    buckets: int | None = None,
    selects: SelectsBy = "duckdb",
) -> TickDetected:
    """A program over files that tasks read, or over raw events that the driver has read, in one batch."""

    def pieces(slots: Slots) -> DataFrame:
        if portions is not None:
            return pieces_of(spark, slots, portions, until_us)
        (batches,) = (list(found) for found in _batches(slots, _taken(slots.program, events, until_us), ()))
        return spark.createDataFrame(pa.Table.from_batches(batches, PIECES))

    count = buckets or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return TickDetected(program, spark, pieces, until_us, count, selects_by(selects, spark, program))


def watching(
    spark: SparkSession,
    program: Program,
    source: Path,
    store: str,
    buckets: int,
    *,
    backfill_from: Moment | None = None,
    selects: SelectsBy = "duckdb",
    compile: Compile | None = None,
) -> Watch:
    """A watch over files of pieces, a micro-batch each."""
    stream = spark.readStream.schema(SPARK_PIECES).option("maxFilesPerTrigger", 1).parquet(str(source))
    how: dict[str, Any] = {"buckets": buckets, "backfill_from": backfill_from, "selects": selects, "compile": compile}
    return watch(program, stream, store=store, clock="data", **how)


def write_pieces(
    folder: Path, slots: Slots, events: Iterable[Raw], until_us: int | None, cuts: Sequence[int] | None
) -> int:
    """Write what came as files of pieces in the order of det_time; gives how many."""
    return _write(folder, slots, _taken(slots.program, events, until_us), cuts)


def _write(folder: Path, slots: Slots, taken: _Taken, cuts: Sequence[int] | None) -> int:
    count = 0
    for count, pieces in enumerate(_batches(slots, taken, cuts), 1):
        path = folder / f"{count:08d}.parquet"
        pq.write_table(pa.Table.from_batches(list(pieces), PIECES), path.with_suffix(".tmp"))
        # Spark takes files by the time they were changed, and several are written in one millisecond.
        os.utime(path.with_suffix(".tmp"), (count, count))
        path.with_suffix(".tmp").rename(path)
    return count


@dataclass(frozen=True, slots=True)
class _Taken:
    """What came: as it came, from where, in order, and what is to be told of it."""

    rows: Came
    given: list[Source]
    every: Arrivals
    told: Summary


def _taken(program: Program, events: Iterable[Raw], until_us: int | None) -> _Taken:
    raws = list(events)
    rows = came(program, raws, until_us=until_us)
    given: list[Source] = [(number, raw.source, -1) for number, raw in enumerate(raws)]
    return _Taken(rows, given, arrived(program, rows), summary_of(rows, given, raws))


def _batches(slots: Slots, taken: _Taken, cuts: Sequence[int] | None) -> Iterator[Iterator[pa.RecordBatch]]:
    """What came as pieces, cut into batches."""
    for some, told in _cut(taken.every, cuts, taken.told):
        yield _pieces(slots, some, *known_by_all(taken.rows, some), taken.given, told)


def known_by_all(rows: Came, some: Arrivals) -> tuple[dict[int, Integers], dict[int, Integers]]:
    """By class the source of each row, by place, and its number there."""
    found = {code: known_by(rows, one.position) for code, one in some.rows.items()}
    return {code: source for code, (source, _) in found.items()}, {code: number for code, (_, number) in found.items()}


def _cut(every: Arrivals, cuts: Sequence[int] | None, summary: Summary) -> Iterator[tuple[Arrivals, Summary]]:
    """Rows in the order of the history, cut; what is told of all of them goes with the first."""
    det = [rows.part.det_time for rows in every.rows.values()]
    position = [rows.position for rows in every.rows.values()]
    size = sum(map(len, det))
    rank_of = np.empty(size, np.int64)
    if size:
        rank_of[np.lexsort((np.concatenate(position), np.concatenate(det)))] = np.arange(size)
    bounds = sorted({0, size, *(range(0, size, _ROWS_AT_ONCE) if cuts is None else (c for c in cuts if 0 < c < size))})
    ranks = dict(zip(every.rows, np.split(rank_of, np.cumsum([len(d) for d in det])[:-1]), strict=True)) if size else {}
    told = summary
    for begin, end in zip(bounds, bounds[1:] or [0], strict=False):
        some = {}
        for code, rows in every.rows.items():
            at = np.flatnonzero((ranks[code] >= begin) & (ranks[code] < end))
            if len(at):
                some[code] = rows.at(at)
        yield Arrivals(some, (), every.place), told
        told = Summary(rows=dict(summary.rows))


def _pieces(
    slots: Slots,
    some: Arrivals,
    source: dict[int, Integers],
    number: dict[int, Integers],
    given: Sequence[Source],
    told: Summary,
) -> Iterator[pa.RecordBatch]:
    for code, rows in some.rows.items():
        slot_of_row = slots.slots_of(code, rows.part)
        noted(told, code, rows, [given[at] for at in source[code].tolist()], number[code], slot_of_row)
        for slot in np.unique(slot_of_row).tolist():
            at = np.flatnonzero(slot_of_row == slot)
            sources = [given[i] for i in source[code][at].tolist()]
            yield piece(slot, code, packed(rows.at(at), sources, number[code][at]))
    yield piece(SUMMARY, SUMMARY, pickle.dumps(told))

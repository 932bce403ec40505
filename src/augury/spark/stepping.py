"""One step of all slots on Spark: pieces of rows → what the engines of the slots did up to a time.

In: a frame of pieces, what their partitions told, and a `Step`. Out: a frame of results. Where there are several slots
they go over the rows twice, as `engine.sharded` says; in between the driver numbers what they accept, of which it sees
a position and a time a row. It knows neither lake nor stream.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.algebra.program import Program
from augury.datafiles import Unreadable
from augury.engine.failing import Failing, united
from augury.engine.sharded import (
    Identified,
    Numbers,
    Slots,
    more_known,
    numbers_of,
    seen_to_fail,
    shared_ids,
    slots_of,
)
from augury.kernels.batch import Integers
from augury.spark.arriving import (
    NUMBERS,
    PIECES,
    PRESENT,
    SPARK_PIECES,
    SUMMARY,
    Ingest,
    Source,
    Sources,
    Summary,
    piece,
    sources_of,
)
from augury.spark.selects import SparkSelects
from augury.spark.slots import (
    FAILED,
    LOOKED,
    REFUSED_CODE,
    RESULTS,
    SPARK_RESULTS,
    WAITED,
    Judge,
    Run,
    Step,
    failing_in,
    refused,
)
from augury.spark.sources_lines import reading


def plain(program: Program) -> Program:
    """What engines need of a program, and nothing that pulls the front end into a worker or cannot be pickled."""
    rules, triggers = program.rules, program.triggers
    return Program(program.settings, program.classes, program.strata, program.sources, rules, {}, triggers)


def slots_on_spark(program: Program, buckets: int, selects: SparkSelects | None = None) -> Slots:
    """The slots of a program, to be sent to workers; where Spark runs the SELECTs, they are not cut by key."""
    return slots_of(plain(program), buckets, whole_selects=selects is not None)


def name_of(slots: Slots) -> str:
    """What tells a program, cut in this way, from others."""
    return hashlib.sha256(pickle.dumps((slots.program, slots.buckets, slots.shards))).hexdigest()


@dataclass(frozen=True, slots=True)
class Told:
    """What all partitions told together."""

    rows: Mapping[Source, int]
    refused: tuple[tuple[Source, int, str, str, str], ...]
    first_us: int | None
    last_us: int | None
    ids: tuple[tuple[int, str, int, Source, int, int], ...]


NOTHING_TOLD = Told({}, (), None, None, ())


def ingested(frames: Sequence[tuple[DataFrame, Ingest]]) -> DataFrame:
    """The pieces of some frames."""
    return reduce(DataFrame.unionAll, [frame.mapInArrow(ingest, SPARK_PIECES) for frame, ingest in frames])


def told(pieces: DataFrame) -> Told:
    """What the partitions told; runs what makes the pieces, so that these should be kept.

    Raises `SourceError` and `Unreadable`.
    """
    with reading():
        return told_by(pieces.where(f.col("slot") == SUMMARY).select("packed").toArrow()["packed"].to_pylist())


def told_by(packed: Iterable[bytes]) -> Told:
    """What summaries, as bytes, say together; raises `Unreadable` with what is wrong with the first such file."""
    summaries: list[Summary] = [pickle.loads(content) for content in packed]
    unread = sorted((one for summary in summaries for one in summary.unread), key=lambda one: one[0])
    if unread:
        raise Unreadable.again(unread[0][1])
    rows: dict[Source, int] = {}
    for summary in summaries:
        for source, count in summary.rows.items():
            rows[source] = rows.get(source, 0) + count
    return Told(
        rows,
        tuple(sorted(one for summary in summaries for one in summary.refused)),
        min((s.first_us for s in summaries if s.first_us is not None), default=None),
        max((s.last_us for s in summaries if s.last_us is not None), default=None),
        tuple(one for summary in summaries for one in summary.ids),
    )


def step_of(slots: Slots, found: Told, until_us: int, first_tick: int | None) -> Step:
    """The one step of a batch: there is no state yet."""
    return Step(slots, name_of(slots), sources_of(found.rows), until_us, first_tick, is_replay=True)


def results(
    spark: SparkSession, pieces: DataFrame | None, found: Told, step: Step, selects: SparkSelects | None = None
) -> DataFrame:
    """What the engines of all slots do; a frame that is kept, and runs them when somebody looks at it.

    It is looked at here where a SELECT may fail of which nobody has heard. With `selects` the engines that have SELECTs
    run here and now, on the driver.
    """
    while True:
        numbers, step, is_sure = judged(spark, pieces, found, step, selects)
        done = everywhere(spark, pieces, numbers, Run(step), SPARK_RESULTS, selects)
        done = done.persist(StorageLevel.MEMORY_AND_DISK)
        further = None if is_sure else unforeseen(step, done.where(f.col("kind") == FAILED).toArrow())
        if further is None:
            return done
        done.unpersist()
        step = further


def collected(
    spark: SparkSession,
    pieces: DataFrame | None,
    found: Told,
    step: Step,
    commit: int,
    selects: SparkSelects | None = None,
) -> pa.Table:
    """What the engines of all slots have done, brought to the driver; what they wrote in vain nobody names."""
    while True:
        numbers, step, _ = judged(spark, pieces, found, step, selects)
        rows = everywhere(spark, pieces, numbers, Run(step, commit), SPARK_RESULTS, selects).toArrow()
        further = unforeseen(step, rows)
        if further is None:
            return rows
        step = further


def unforeseen(step: Step, rows: pa.Table) -> Step | None:
    """The step again where SELECTs have failed otherwise than its slots were told; else None."""
    known = seen_to_fail(step.slots.program, step.known, failing_in(rows))
    return None if known is None else replace(step, known=known)


def everywhere(
    spark: SparkSession,
    pieces: DataFrame | None,
    further: Sequence[pa.RecordBatch],
    task: Judge | Run,
    schema: str,
    selects: SparkSelects | None,
) -> DataFrame:
    """What a task makes of all slots: in workers, and on the driver of those that need a session for their SELECTs."""
    here = task.step.slots.selecting() if selects is not None else ()
    there = [slot for slot in range(len(task.step.slots)) if slot not in here]
    frames = []
    if there:
        other = None if pieces is None else pieces.where(~f.col("slot").isin(*here)) if here else pieces
        frames.append(by_slot(spark, other, there, further).mapInArrow(task, schema))
    if here:
        rows = for_slots(here, further)
        if pieces is not None:
            rows = pa.concat_tables([rows, pieces.where(f.col("slot").isin(*here)).toArrow().cast(PIECES)])
        batches = replace(task, selects=selects)(iter(rows.to_batches()))
        found = pa.Table.from_batches(list(batches), PIECES if isinstance(task, Judge) else RESULTS)
        frames.append(spark.createDataFrame(found))
    return reduce(DataFrame.unionAll, frames)


def judged(
    spark: SparkSession, pieces: DataFrame | None, found: Told, step: Step, selects: SparkSelects | None = None
) -> tuple[list[pa.RecordBatch], Step, bool]:
    """The numbers of all versions, by slot; the step with what slots have to know of each other.

    It also tells whether that is sure to be all: the engines that have SELECTs in common have all been asked.
    """
    sharing = {slot for slot in range(len(step.slots)) if step.slots.shares_selects(slot)}
    if len(step.slots) == 1 or step.are_numbered:
        return [], step, not sharing
    while True:
        rows = everywhere(spark, pieces, (), Judge(step), SPARK_PIECES, selects).toArrow()
        accepted, looked = accepted_in(rows), looked_in(rows)
        shared = shared_ids(identified_in(found, step.sources, rows))
        known = more_known(step.slots.program, step.known, united(looked.values()), shared, positions_of(accepted))
        if known is None:
            return numbered(accepted, step.after_seq), step, sharing <= looked.keys()
        step = replace(step, known=known)


def accepted_in(rows: pa.Table) -> dict[int, tuple[Integers, Integers]]:
    """What `Judge` told: by slot the positions and det_times of rows accepted; raises `CannotRun`, `CorruptFile`."""
    told_off = rows.filter(pc.equal(rows["code"], REFUSED_CODE))
    if told_off.num_rows:
        raise refused(told_off["packed"][0].as_py())
    return {slot: pickle.loads(content) for slot, content in _told_as(rows, NUMBERS)}


def looked_in(rows: pa.Table) -> dict[int, Failing]:
    """By slot which SELECTs fail, of those that were asked."""
    return {slot: pickle.loads(content) for slot, content in _told_as(rows, LOOKED)}


def _told_as(rows: pa.Table, code: int) -> Iterator[tuple[int, bytes]]:
    some = rows.filter(pc.equal(rows["code"], code))
    return zip(some["slot"].to_pylist(), some["packed"].to_pylist(), strict=True)


def positions_of(accepted: Mapping[int, tuple[Integers, Integers]]) -> Integers:
    """The positions of all rows that are accepted."""
    return np.concatenate([np.zeros(0, np.int64), *(positions for positions, _ in accepted.values())])


def numbered(accepted: Numbers, after_seq: int) -> list[pa.RecordBatch]:
    """Number versions over all slots; a row for each slot that has some."""
    found = numbers_of(accepted, after_seq)
    return [piece(slot, NUMBERS, pickle.dumps((at, seq))) for slot, (at, seq) in found.items() if len(at)]


def identified_in(found: Told, sources: Sources, judged: pa.Table | None = None) -> Iterator[Identified]:
    """The rows that have an event_id: those that came, and such as have waited."""
    for code, event_id, det_time, source, number, slot in found.ids:
        yield code, event_id, (det_time, sources.position(source, number)), slot
    for _, content in () if judged is None else _told_as(judged, WAITED):
        yield from pickle.loads(content)


def by_slot(
    spark: SparkSession, pieces: DataFrame | None, slots: Sequence[int], further: Iterable[pa.RecordBatch]
) -> DataFrame:
    """The pieces brought together by slot, with a row for every slot, so that also those run to which nothing came."""
    rows = spark.createDataFrame(for_slots(slots, further))
    if pieces is not None:
        rows = pieces.where(f.col("slot") >= 0).unionAll(rows)
    tasks = min(len(slots), _tasks(spark))
    return rows.repartitionById(tasks, f.expr(f"pmod(slot, {tasks})"))


def for_slots(slots: Sequence[int], further: Iterable[pa.RecordBatch]) -> pa.Table:
    """A row for every slot, and further ones of theirs, of the shape of pieces."""
    present = [piece(slot, PRESENT, b"") for slot in slots]
    found = pa.Table.from_batches([*present, *further], PIECES)
    return found.filter(pc.is_in(found["slot"], pa.array(slots, pa.int32())))


def _tasks(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

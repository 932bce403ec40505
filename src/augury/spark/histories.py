"""The history that a lake keeps as the events of a batch: its versions with the numbers that the stream gave them.

In: a checked program and a `LakeHistory`. Out: what `augury.detect` gives. The files are read by Spark, in place. What
rules posted is left out where the rules of the program post: they do so again, and the engine counts as the stream did.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.algebra.program import Program
from augury.engine.once import waits_for_ticks
from augury.engine.plan import engine_plan
from augury.engine.ports import SelectsBy, require_selects_by
from augury.engine.sharded import Slots
from augury.event import ClassKind, EventClass, key_of
from augury.history.arrivals import ClassRows
from augury.history.coming import received
from augury.history.typed import Part
from augury.history.views import system_names
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.lake import Kind, LakeHistory
from augury.spark.arriving import SPARK_PIECES, SUMMARY, Batches, Source, Summary, piece, pieces_by_slot
from augury.spark.detect import Detected
from augury.spark.detect import detect as detect_at_once
from augury.spark.selects import selects_by
from augury.spark.session import session
from augury.spark.shipped import require_shipped
from augury.spark.stored import NotStored, typed_column
from augury.spark.ticking import TickDetected

_SOURCE: Source = (0, "history", -1)


def detect_in_history(
    program: Program,
    history: LakeHistory,
    *,
    until_us: int | None = None,
    selects: SelectsBy = "duckdb",
    spark: SparkSession | None = None,
) -> Detected | TickDetected:
    """Run a program over a history, up to its last tick; without a session on the active one, or one of this machine.

    Raises `NotStored` where the history is none for this program, `CannotRun`, `NotOnSpark`, `NotShipped`.
    """
    require_selects_by(selects)
    if history.known_at_us is not None or history.as_of_us is not None:
        raise NotStored("a batch goes over all versions of a history: leave out known_at and as_of, say as_known_at=…")
    spark = spark or SparkSession.getActiveSession() or session()
    require_shipped(spark)
    last = None if history.manifest is None else history.manifest.last_tick
    until_us = last if until_us is None or last is None else min(until_us, last)
    posts = engine_plan(program).cuts is not None
    frames = _frames(spark, program, history, posts=posts)
    if frames and not waits_for_ticks(program, [one.name for one in received(program)]):
        return detect_at_once(program, frames, until_us=until_us, numbered=True)

    def pieces(slots: Slots) -> DataFrame:
        made = spark.createDataFrame([], SPARK_PIECES)
        for code, event_class in enumerate(received(slots.program)):
            if (frame := frames.get(event_class.name)) is not None:
                frame = frame if until_us is None else frame.where(f"det_time < timestamp_micros({until_us})")
                made = made.unionAll(frame.mapInArrow(Stored(slots, code), SPARK_PIECES))
        return made

    buckets = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    noted = {} if history.manifest is None else history.manifest.offsets or {}
    return TickDetected(
        program,
        spark,
        pieces,
        until_us,
        buckets,
        selects_by(selects, spark, program),
        are_numbered=not posts,
        first_tick=noted.get("first_tick"),
    )


@dataclass(frozen=True, slots=True)
class Stored:
    """Versions of a class → pieces and a summary."""

    slots: Slots
    code: int

    def __call__(self, batches: Batches) -> Batches:
        """Split what one partition holds."""
        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        table = pa.Table.from_batches(held)
        table = table.sort_by([("det_time", "ascending"), ("seq", "ascending")]).combine_chunks()
        rows = self._rows(received(self.slots.program)[self.code], table)
        seq, count = rows.position, len(rows)
        summary = Summary({_SOURCE: count}, [], int(rows.part.det_time[0]), int(rows.part.det_time[-1]))
        slot_of_row = self.slots.slots_of(self.code, rows.part)
        yield from pieces_by_slot(self.code, rows, [_SOURCE] * count, seq, slot_of_row)
        yield piece(SUMMARY, SUMMARY, pickle.dumps(summary))

    def _rows(self, event_class: EventClass, table: pa.Table) -> ClassRows:
        values = tuple(_one(table[one.name].cast(arrow_type(one.type))) for one in event_class.attributes)
        det_time = _microseconds(table["det_time"])
        withdrawn = table["occ_time"].is_null().to_numpy()
        occ_time = np.where(withdrawn, det_time, _microseconds(table["occ_time"]))
        claim = table[system_names(event_class).source_time]
        claimed = np.where(claim.is_null().to_numpy(), det_time, _microseconds(claim))
        ids = _one(table["event_id"])
        part = Part(
            values,
            occ_time,
            det_time,
            withdrawn if withdrawn.any() else None,
            None if ids.null_count == len(ids) else ids,
        )
        return ClassRows(part, table["seq"].to_numpy(), None if claim.null_count == len(claim) else claimed)


def _frames(spark: SparkSession, program: Program, history: LakeHistory, *, posts: bool) -> dict[str, DataFrame]:
    """By class the versions that are read: `seq`, times, event_id, and the attributes as declared."""
    left_out = _posted(program, history) if posts else []
    found: dict[str, DataFrame] = {}
    for event_class in received(program):
        is_clock = event_class.kind is ClassKind.CLOCK
        plan = history.program.class_plan(event_class.name)
        if plan is None and is_clock and not posts:
            raise NotStored(
                f"the history has no clock class `{event_class.name}`, and the numbers of what it would post are those "
                "of other versions: detect over the events themselves"
            )
        if plan is None or (posts and is_clock):
            continue
        was = plan.event_class
        if was.kind is ClassKind.COMPLEX:
            raise NotStored(f"`{was.name}` is derived in the history, and its versions have no numbers of their own")
        rows = history.frame(was.name, spark)
        claimed = f.col(system_names(was).source_time).alias(system_names(event_class).source_time)
        columns = ((one.name, typed_column(rows, event_class, one)) for one in event_class.attributes)
        named = [column.alias(name) for name, column in columns]
        rows = rows.select("seq", "occ_time", "det_time", "event_id", claimed, *named)
        found[event_class.name] = rows.where(~f.col("seq").isin(left_out)) if left_out else rows
    return found


def _posted(program: Program, history: LakeHistory) -> list[int]:
    """The numbers of versions that rules of the program posted; raises `NotStored` where versions are missing."""
    came = {key_of(one.name) for one in history.classes if one.kind is not ClassKind.COMPLEX}
    entries = (entry for entry in history.snapshot.files if entry.kind is Kind.HISTORY)
    there = sum(entry.rows for entry in entries if key_of(entry.event_class) in came)
    last_seq = 0 if history.manifest is None else history.manifest.last_seq
    if there < last_seq:
        raise NotStored(f"of {last_seq:,} versions {there:,} are kept, and where rules post all of them are counted")
    names = {key_of(trigger.name) for trigger in history.program.triggers}
    found: list[int] = []
    for trigger in program.triggers:
        if key_of(trigger.name) in names:
            calls = history.firings(trigger.name).columns[-1].to_pylist()
            deeds = (deed for text in calls for call in json.loads(text) for deed in call["deeds"])
            found += [deed["seq"] for deed in deeds if deed.get("seq") is not None]
    return found


def _microseconds(column: pa.ChunkedArray) -> Integers:
    numbers: Integers = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

"""A program over data frames of events, tick by tick: complex events, actions and what was refused, as data frames.

In: a checked program of any kind, and a data frame of events of all classes or one per class. Out: lazy data frames.
Rows are typed where they lie, brought together by what never meets (`engine.shards`), and the engine of each slot runs
its ticks in one task. The first of the frames that is looked at has all of it run, and what it gives is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury.algebra.program import Program
from augury.engine import ledger as of_ticks
from augury.engine.firing_rows import firings_schema, trigger_named
from augury.engine.ledger import Ledger, joined
from augury.engine.ports import SelectsBy
from augury.engine.sharded import Slots
from augury.engine.tick import tick_at_most, tick_reading
from augury.event import ClassKind, EventClass
from augury.history.views import history_schema, system_names
from augury.spark.arriving import SAYS_WHERE, Batches, Ingest, sources_of
from augury.spark.layout import plain_type, spark_schema, spark_type
from augury.spark.selects import SparkSelects, selects_by
from augury.spark.slots import (
    ACTIONS,
    ARCHIVE,
    FAILED,
    FIRINGS,
    REFUSED,
    REJECTED,
    TICKS,
    VERSIONS,
    ipc_table,
    require_run,
)
from augury.spark.sources_schema import declared, is_lines
from augury.spark.stepping import Told, ingested, results, slots_on_spark, step_of, told


@dataclass(frozen=True, slots=True)
class Unpack:
    """Tables as bytes → their rows; where an engine did not run, why."""

    names: tuple[str, ...]

    def __call__(self, batches: Batches) -> Batches:
        """Unpack what one partition holds."""
        for batch in batches:
            # Who asks for a data frame sees the text of this, and no diagnostic.
            require_run(pa.Table.from_batches([batch]))
            for content in batch.column("packed").to_pylist():
                yield from ipc_table(content).select(self.names).to_batches()


@dataclass(slots=True)
class TickDetected:
    """What a program does over events, as data frames; `close`, or leaving a `with`, lets go what is kept.

    `frames` gives the pieces of rows, for the slots that the program falls into; `selects` is there where SELECTs are
    run by Spark itself. Of a stored history `are_numbered` says that rows have their `seq`, and `first_tick` is the
    first that there was.
    """

    program: Program
    spark: SparkSession
    frames: Callable[[Slots], DataFrame]
    until_us: int | None
    buckets: int
    selects: SparkSelects | None = None
    are_numbered: bool = False
    first_tick: int | None = None
    _slots: Slots | None = None
    _pieces: DataFrame | None = None
    _told: Told | None = None
    _results: DataFrame | None = field(default=None, repr=False)

    # ---- frames ----------------------------------------------------------------------------------

    @property
    def events(self) -> DataFrame:
        """The versions of complex events: event, change, seq, occ_time, det_time, constituents, `values.Class.…`."""
        return self._of_kinds(ClassKind.COMPLEX)

    def of(self, name: str) -> DataFrame:
        """The versions of one class: event, change, seq, occ_time, det_time, constituents, and its attributes."""
        plan = self.program.class_plan(name)
        if plan is None:
            there = ", ".join(p.event_class.name for p in self.program.classes)
            raise KeyError(f"there is no class `{name}`; there are {there or 'none'}")
        event_class = plan.event_class
        return self._versions(event_class).select(
            *_heads(event_class), *(_quoted(a.name) for a in event_class.attributes)
        )

    @property
    def versions(self) -> DataFrame:
        """The accepted versions: event, change, seq, occ_time, det_time, constituents, and attributes as `values`."""
        return self._of_kinds(ClassKind.SUBSCRIBED, ClassKind.CLOCK)

    def _of_kinds(self, *kinds: ClassKind) -> DataFrame:
        classes = [p.event_class for p in self.program.classes if p.event_class.kind in kinds]
        filled = [c for c in classes if c.attributes]
        frames = []
        for event_class in classes:
            structs = [_struct(c) if c is event_class else f.lit(None).cast(_struct_type(c)) for c in filled]
            named = [struct.alias(c.name) for struct, c in zip(structs, filled, strict=True)]
            values = [f.struct(*named).alias("values")] if named else []
            frames.append(self._versions(event_class).select(*_heads(event_class), *values))
        return reduce(DataFrame.unionAll, frames) if frames else self.spark.createDataFrame([], _NO_EVENTS)

    @property
    def actions(self) -> DataFrame:
        """The actions: tick, event, key, action, arguments, statement, place, seq, idempotency_key, rank, line, …"""
        return self._log(ACTIONS, of_ticks.ACTIONS)

    def firings(self, trigger: str) -> DataFrame:
        """The firings of a trigger: number, tick, det_time, now, event, key, seq, constituents, its parameters, …"""
        found = trigger_named(self.program, trigger)
        rows = self._told_as(FIRINGS, found.name)
        schema = firings_schema(found)
        kinds = {one.name: spark_type(one.type) for one in found.parameters}
        fields = [s.StructField(one.name, kinds.get(one.name) or plain_type(one.type)) for one in schema]
        return rows.mapInArrow(Unpack(tuple(schema.names)), s.StructType(fields))

    @property
    def rejected(self) -> DataFrame:
        """What was refused: tick, place, event, reason, raw; of what is wrong by itself the tick is NULL."""
        schema = spark_schema(of_ticks.REJECTED)
        by_ticks = self._log(REJECTED, of_ticks.REJECTED)
        refused = self._refused()
        return by_ticks.unionAll(self.spark.createDataFrame(refused, schema)) if refused.num_rows else by_ticks

    def _refused(self) -> pa.Table:
        """What is wrong by itself."""
        self._done()
        assert self._told is not None
        sources = sources_of(self._told.rows)
        rows = [
            {"place": sources.place(sources.position(source, number)), "event": event, "reason": reason, "raw": raw}
            for source, number, event, reason, raw in self._told.refused
        ]
        return pa.Table.from_pylist(rows, schema=of_ticks.REJECTED)

    @property
    def ticks(self) -> DataFrame:
        """The log of ticks, a row for each tick and slot that did something."""
        return self._log(TICKS, of_ticks.TICKS)

    @property
    def archive(self) -> DataFrame:
        """What has left the live views, as rows (event_class, packed): `collect_ledger` reads it."""
        return self._told_as(ARCHIVE)

    def _versions(self, event_class: EventClass) -> DataFrame:
        rows = self._told_as(VERSIONS, event_class.name)
        schema = history_schema(event_class)
        return rows.mapInArrow(Unpack(tuple(schema.names)), class_schema(event_class))

    def _log(self, kind: str, schema: pa.Schema) -> DataFrame:
        return self._told_as(kind).mapInArrow(Unpack(tuple(schema.names)), spark_schema(schema))

    def _told_as(self, kind: str, name: str = "") -> DataFrame:
        """What engines told of one kind, and why one did not run: what the others did must not pass for all."""
        told_ = (f.col("kind") == kind) & (f.col("event_class") == name) if name else f.col("kind") == kind
        return self._done().where(told_ | (f.col("kind") == REFUSED))

    # ---- running ---------------------------------------------------------------------------------

    def _cut(self) -> Slots:
        if self._slots is None:
            self._slots = slots_on_spark(self.program, self.buckets, self.selects)
        return self._slots

    def _done(self) -> DataFrame:
        """What engines did, worked out when it is first asked for."""
        if self._results is None:
            slots, chronon_us = self._cut(), self.program.settings.chronon_us
            self._pieces = self.frames(slots).persist(StorageLevel.MEMORY_AND_DISK)
            self._told = told(self._pieces)
            first = self.first_tick
            if first is None and self._told.first_us is not None:
                first = tick_reading(self._told.first_us, chronon_us)
            last = 0 if self._told.last_us is None else tick_reading(self._told.last_us, chronon_us)
            until = last if self.until_us is None else tick_at_most(self.until_us, chronon_us)
            step = replace(step_of(slots, self._told, until, first), are_numbered=self.are_numbered)
            self._results = results(self.spark, self._pieces, self._told, step, self.selects)
        return self._results

    def collect_ledger(self) -> Ledger:
        """Everything, brought to the driver, in the order of the contract."""
        return joined(self.program, [*_ledgers(self._done().toArrow()), Ledger(rejected=self._refused())])

    def close(self) -> None:
        """Let go what is kept; what is asked for later is worked out anew."""
        for frame in (self._pieces, self._results):
            if frame is not None:
                frame.unpersist()
        self._pieces = self._results = self._told = None

    def __enter__(self) -> TickDetected:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def detect_by_ticks(
    program: Program,
    events: DataFrame | Mapping[str, DataFrame],
    *,
    until_us: int | None = None,
    partitions: int | None = None,
    selects: SelectsBy = "duckdb",
) -> TickDetected:
    """Run a program tick by tick over a data frame, or one per class; it runs when a frame is first looked at.

    Raises `CannotRun`.
    """
    frames = (
        [(frame, name, name) for name, frame in events.items()]
        if isinstance(events, Mapping)
        else [(events, "events", None)]
    )
    if not frames:
        raise ValueError("a mapping of events has at least one class")
    spark = frames[0][0].sparkSession
    buckets = partitions or int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def pieces(slots: Slots) -> DataFrame:
        return ingested(
            [
                (
                    frame if is_lines(frame) else declared(program, frame, *SAYS_WHERE),
                    Ingest(slots, number, name, event_class, is_lines(frame), until_us=until_us),
                )
                for number, (frame, name, event_class) in enumerate(frames)
            ]
        )

    return TickDetected(program, spark, pieces, until_us, buckets, selects_by(selects, spark, program))


def _ledgers(table: pa.Table) -> Iterator[Ledger]:
    require_run(table)
    table = table.filter(pc.not_equal(table["kind"], FAILED))
    for kind, name, content in zip(*(table[c].to_pylist() for c in ("kind", "event_class", "packed")), strict=True):
        found = ipc_table(content)
        match kind:
            case "versions" | "archive" | "firings":
                yield Ledger(**{kind: {name: found}})
            case _:
                yield Ledger(**{kind: found})


# ---- schemas -----------------------------------------------------------------------------------------------------

_NO_EVENTS = (
    "event string, change string, seq bigint, occ_time timestamp, det_time timestamp, constituents array<bigint>"
)


def _heads(event_class: EventClass) -> list[Column]:
    names = system_names(event_class)
    ours = (names.change, names.seq, names.occ_time, names.det_time, names.constituents)
    plain = ("change", "seq", "occ_time", "det_time", "constituents")
    heads = [f.col(_quoted(name)).alias(shown) for name, shown in zip(ours, plain, strict=True)]
    return [f.lit(event_class.name).alias("event"), *heads]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _struct(event_class: EventClass) -> Column:
    return f.struct(*(f.col(_quoted(a.name)) for a in event_class.attributes))


def _struct_type(event_class: EventClass) -> s.StructType:
    return s.StructType([s.StructField(a.name, spark_type(a.type)) for a in event_class.attributes])


def class_schema(event_class: EventClass) -> s.StructType:
    """The history of a class as Spark has it."""
    kinds = {a.name: spark_type(a.type) for a in event_class.attributes}
    fields = [
        s.StructField(one.name, kinds.get(one.name) or plain_type(one.type)) for one in history_schema(event_class)
    ]
    return s.StructType(fields)

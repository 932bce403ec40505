"""A program over data frames of events: complex events as data frames, found by the kernels inside Spark's tasks.

In: a checked program, and a data frame of events of all classes (a column `event` names the class) or one per class.
Out: lazy data frames. Versions are accepted and numbered in one task and kept; then each stage of `plan` is one
`mapInArrow` over the rows and columns that it names, brought together by key where it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from types import TracebackType

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury import types as t
from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT, NO_SEQ
from augury.spark.layout import (
    ABSORBED,
    DROPPED,
    END,
    ERRORS,
    HISTORY_COLUMNS,
    OCCURRENCE,
    OCCURRENCE_COLUMNS,
    REJECTED,
    REJECTED_COLUMNS,
    VERSION,
    accepted_schema,
    occurrence_schema,
    spark_type,
    value_name,
)
from augury.spark.plan import stages_of
from augury.spark.stage import Key, Stage, subscribed
from augury.spark.tasks import Accept, Detect, Pack

_PACKED = "source int, part int, at bigint, packed binary"


@dataclass(frozen=True, slots=True)
class Detected:
    """What a program finds, as lazy data frames; `accepted` and `found` are as the tasks give them.

    What is read more than once is kept from its first use on; `close`, or leaving a `with`, lets it go.
    """

    program: Program
    accepted: DataFrame
    found: Mapping[str, DataFrame]
    kept: tuple[DataFrame, ...] = ()

    @property
    def versions(self) -> DataFrame:
        """The accepted versions: event, seq, occ_time (NULL: withdrawn), det_time, and the attributes as `values`."""
        classes = subscribed(self.program)
        rows = self.accepted.where(f.col("what") == VERSION)
        event = f.element_at(f.array([f.lit(c.name) for c in classes]), f.col("code").cast("int") + 1)
        occ_time = f.when(f.col("kind") == ASSERT, f.timestamp_micros("occ_time"))
        filled = [(code, c) for code, c in enumerate(classes) if c.attributes]
        structs = [f.when(f.col("code") == code, _struct(c, code)).alias(c.name) for code, c in filled]
        values = [f.struct(*structs).alias("values")] if structs else []
        times = (occ_time.alias("occ_time"), f.timestamp_micros("det_time").alias("det_time"))
        return rows.select(event.alias("event"), "seq", *times, *values)

    @property
    def rejected(self) -> DataFrame:
        """What was refused: place, event, reason, raw."""
        return self.accepted.where(f.col("what") == REJECTED).select(*REJECTED_COLUMNS)

    @property
    def events(self) -> DataFrame:
        """The complex events of all classes: event, seq, occ_time, det_time, constituents, `values.Class.attribute`."""
        filled = [c for c in self._classes if c.attributes]
        frames = []
        for event_class in self._classes:
            structs = [_struct(c, 0) if c is event_class else f.lit(None).cast(_struct_type(c)) for c in filled]
            named = [struct.alias(c.name) for struct, c in zip(structs, filled, strict=True)]
            values = [f.struct(*named).alias("values")] if named else []
            frames.append(_occurrences(self.found[key_of(event_class.name)]).select(*_heads(event_class), *values))
        if not frames:
            return self.accepted.sparkSession.createDataFrame([], _NO_EVENTS)
        return reduce(DataFrame.unionAll, frames)

    def of(self, name: str) -> DataFrame:
        """The events of one complex class: event, seq, occ_time, det_time, constituents, and its attributes."""
        plan = self.program.class_plan(name)
        if plan is None or key_of(name) not in self.found:
            there = ", ".join(c.name for c in self._classes)
            raise KeyError(f"there is no complex class `{name}`; there are {there or 'none'}")
        event_class = plan.event_class
        values = [f.col(value_name(0, i)).alias(a.name) for i, a in enumerate(event_class.attributes)]
        return _occurrences(self.found[key_of(name)]).select(*_heads(event_class), *values)

    @property
    def errors(self) -> DataFrame:
        """Of each complex class how often a mask, WHERE or RETURN was NULL because of an error: event, errors.

        To ask for it runs the classes, again where nothing of them is kept.
        """
        return self._counted(ERRORS, "errors")

    @property
    def dropped(self) -> DataFrame:
        """Of each complex class how many events were let go because too many waited for others: event, dropped.

        To ask for it runs the classes, as for `errors`.
        """
        return self._counted(DROPPED, "dropped")

    def _counted(self, what: int, name: str) -> DataFrame:
        frames = []
        for event_class in self._classes:
            counts = self.found[key_of(event_class.name)].where(f.col("what") == what)
            total = f.coalesce(f.sum("seq"), f.lit(0)).alias(name)
            frames.append(counts.agg(total).select(f.lit(event_class.name).alias("event"), name))
        if not frames:
            return self.accepted.sparkSession.createDataFrame([], f"event string, {name} bigint")
        return reduce(DataFrame.unionAll, frames)

    @property
    def _classes(self) -> list[EventClass]:
        return [p.event_class for p in self.program.classes if key_of(p.event_class.name) in self.found]

    def close(self) -> None:
        """Let go what is kept; what is asked for later is made anew."""
        for frame in (self.accepted, *self.kept):
            frame.unpersist()

    def __enter__(self) -> Detected:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def detect(
    program: Program,
    events: DataFrame | Mapping[str, DataFrame],
    *,
    until_us: int | None = None,
    partitions: int | None = None,
) -> Detected:
    """Detect over a data frame, or one per class; ties of det_time go by the order of rows as Spark reads them.

    Versions with det_time ≥ `until_us` are not read. Keyed classes run in as many `partitions`, by default as many as
    Spark's settings say. Raises `NotOnSpark` for a program with a class that this engine does not run.
    """
    if isinstance(events, Mapping):
        frames = [frame.mapInArrow(Pack(i, name, name), _PACKED) for i, (name, frame) in enumerate(events.items())]
    else:
        frames = [events.mapInArrow(Pack(0, "events", None), _PACKED)]
    if not frames:
        raise ValueError("a mapping of events has at least one class")
    return detect_packed(program, reduce(DataFrame.unionAll, frames), until_us=until_us, partitions=partitions)


def detect_packed(
    program: Program, packed: DataFrame, *, until_us: int | None = None, partitions: int | None = None
) -> Detected:
    """Detect over raw events as `tasks.pack` makes them."""
    stages = stages_of(program)
    # What accepts events, and nothing that pulls the whole front end into a worker or cannot be pickled.
    plain = Program(program.settings, program.classes, program.strata, program.sources, groups={})
    further = [column for stage in stages for column in stage.further()]
    schema = accepted_schema(subscribed(program), further)
    accepted = packed.repartition(1).mapInArrow(Accept(plain, stages, until_us), schema)
    # Each class reads it, and it costs more than all of them.
    accepted = accepted.persist(StorageLevel.MEMORY_AND_DISK)
    read = {key_of(c.name) for stage in stages for c in stage.reads_complex}
    found: dict[str, DataFrame] = {}
    kept = []
    for stage in stages:
        rows = _brought_together(stage, _read_by(stage, accepted, found), partitions)
        if stage.timed:
            rows = rows.crossJoin(f.broadcast(_end(accepted)))
        made = rows.mapInArrow(Detect(stage, program.settings.chronon_us), occurrence_schema(stage.found))
        names = [key_of(c.name) for c in stage.found]
        if len(names) > 1 or read.intersection(names):
            made = made.persist(StorageLevel.MEMORY_AND_DISK)
            kept.append(made)
        found |= {name: _of_member(made, stage, member) for member, name in enumerate(names)}
    return Detected(program, accepted, found, tuple(kept))


# ---- one stage ---------------------------------------------------------------------------------------------------


def _read_by(stage: Stage, accepted: DataFrame, found: Mapping[str, DataFrame]) -> DataFrame:
    """The rows and columns that a stage names, and no others: they are what is shuffled and sent to Python."""
    own = [code for code in stage.sent if stage.classes[code] not in stage.reads_complex]
    here = (f.col("what") == VERSION) & (f.col("kind") == ASSERT) & f.col("code").isin(own)
    names = ["code", "kind", "seq", "occ_time", "det_time"]
    names += [value_name(code, i) for code, i in stage.columns if code in own]
    names += [stage.position_name] if stage.counted else []
    rows = accepted.where(here).select(*names, *stage.key_names)
    derived = [code for code in stage.sent if code not in own]
    for code in derived:
        occurrences = _occurrences(found[key_of(stage.classes[code].name)])
        rows = rows.unionByName(_as_rows(stage, code, occurrences), allowMissingColumns=True)
    # Of a version there is one to a seq, and it comes first by its class.
    return rows.fillna(0, ["rank"]) if derived else rows


def _end(accepted: DataFrame) -> DataFrame:
    """One row: how far the clock goes."""
    return accepted.where(f.col("what") == ABSORBED).select(f.col("det_time").alias(END))


def _of_member(made: DataFrame, stage: Stage, member: int) -> DataFrame:
    """What a stage found of one of its classes, whose attributes are then those of class 0."""
    attributes = range(len(stage.found[member].attributes))
    values = [f.col(value_name(member, i)).alias(value_name(0, i)) for i in attributes]
    own = made if len(stage.found) == 1 else made.where(f.col("member") == member)
    return own.select("what", *OCCURRENCE_COLUMNS, *values)


def _occurrences(found: DataFrame) -> DataFrame:
    """What a task found, without what it counted."""
    return found.where(f.col("what") == OCCURRENCE)


def _as_rows(stage: Stage, code: int, occurrences: DataFrame) -> DataFrame:
    """Complex events as rows of the history of a later class."""
    values = [f.col(value_name(0, i)).alias(value_name(c, i)) for c, i in stage.columns if c == code]
    keys = [_key(stage, code, key).alias(name) for name, key in zip(stage.key_names, stage.keys, strict=True)]
    return occurrences.select(f.lit(code).cast("smallint").alias("code"), *HISTORY_COLUMNS, *values, *keys)


def _key(stage: Stage, code: int, key: Key) -> Column:
    """The key of complex events; equal ones are stored as the accepting task stores those of versions."""
    name = dict(key.places)[code]
    if name in ("occ_time", "det_time"):
        return f.timestamp_micros(name)
    at = next(i for i, attribute in enumerate(stage.classes[code].attributes) if attribute.name == name)
    value = f.col(value_name(0, at)).cast(spark_type(key.type))
    return value + f.lit(0.0) if isinstance(key.type, t.Double) else value


def _brought_together(stage: Stage, rows: DataFrame, partitions: int | None) -> DataFrame:
    if not stage.keys:
        # Versions alone are in one partition already; complex events come from as many as found them.
        return rows.repartition(1) if stage.reads_complex else rows.coalesce(1)
    keys = [f.col(name) for name in stage.key_names]
    spread = rows.repartition(*keys) if partitions is None else rows.repartition(partitions, *keys)
    return spread.drop(*stage.key_names)


# ---- columns of the result ---------------------------------------------------------------------------------------

_NO_EVENTS = "event string, seq bigint, occ_time timestamp, det_time timestamp, constituents array<bigint>"


def _heads(event_class: EventClass) -> list[Column]:
    times = [f.timestamp_micros(name).alias(name) for name in ("occ_time", "det_time")]
    # What a timer completed has none of its own.
    seq = f.when(f.col("seq") > NO_SEQ, f.col("seq")).alias("seq")
    return [f.lit(event_class.name).alias("event"), seq, *times, f.col("constituents")]


def _struct(event_class: EventClass, code: int) -> Column:
    named = enumerate(event_class.attributes)
    return f.struct(*(f.col(value_name(code, i)).alias(attribute.name) for i, attribute in named))


def _struct_type(event_class: EventClass) -> s.StructType:
    return s.StructType([s.StructField(a.name, spark_type(a.type)) for a in event_class.attributes])

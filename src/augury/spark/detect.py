"""A program over data frames of events: complex events as data frames, found by the kernels inside Spark's tasks.

In: a checked program, and a data frame of events of all classes (a column `event` names the class) or one per class.
Out: lazy data frames. `numbering` has versions accepted and numbered, or `stored` takes them as they are; then each
group of stages is one `mapInArrow` over the rows and columns that it names, brought together by key where it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import TracebackType

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury.algebra.program import Program
from augury.engine.ledger import ACTIONS
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT, NO_SEQ
from augury.spark.announcing import announced, kept_by_constituents, versions_expiring
from augury.spark.feeding import brought_together, occurrences, rows_of_versions, with_complex_events
from augury.spark.layout import (
    ABSORBED,
    DROPPED,
    END,
    ERRORS,
    HISTORY_COLUMNS,
    REJECTED,
    REJECTED_COLUMNS,
    VERSION,
    Names,
    accepted_schema,
    occurrence_schema,
    own_columns,
    result_lanes,
    spark_schema,
    spark_type,
    value_name,
)
from augury.spark.numbering import Accepted, Numbered, end_frame, number
from augury.spark.plan import stages_of
from augury.spark.ranges import in_ranges, pays
from augury.spark.stage import Group, groups_of, histories_of, plain, subscribed
from augury.spark.stored import has_occ_time, stored
from augury.spark.tasks import Accept, Detect, Position


@dataclass(frozen=True, slots=True)
class Work:
    """Data frames as the tasks give them.

    `found` has one for each complex class, `made` one for each group of classes that share a task; `kept` are those
    that are read more than once.
    """

    accepted: Callable[[], Accepted]
    found: Mapping[str, DataFrame]
    kept: tuple[DataFrame, ...]
    made: tuple[tuple[Group, DataFrame], ...]


@dataclass(slots=True)
class Detected:
    """What a program finds, as lazy data frames.

    `planned` looks at the events as far as it has to, to give versions their numbers: when a frame is first asked for.
    What is read more than once is kept from its first use on; `close`, or leaving a `with`, lets it go.
    """

    program: Program
    session: SparkSession = field(repr=False)
    planned: Callable[[], Work] = field(repr=False)
    _work: Work | None = field(default=None, repr=False)
    _accepted: Accepted | None = field(default=None, repr=False)

    @property
    def work(self) -> Work:
        """The frames as the tasks give them."""
        if self._work is None:
            self._work = self.planned()
        return self._work

    @property
    def accepted(self) -> DataFrame:
        """What was accepted and what was refused, in one frame."""
        if self._accepted is None:
            self._accepted = self.work.accepted()
        return self._accepted.frame

    @property
    def found(self) -> Mapping[str, DataFrame]:
        """What was found of each complex class."""
        return self.work.found

    @property
    def versions(self) -> DataFrame:
        """The accepted versions: event, change, seq, occ_time (NULL: withdrawn), det_time, constituents, `values`."""
        classes = subscribed(self.program)
        rows = self.accepted.where(f.col("what") == VERSION)
        numbered = dict(enumerate(classes))
        rows = announced(rows, "code", numbered, own_columns(classes), None, self.program.settings.chronon_us)
        event = f.element_at(f.array([f.lit(c.name) for c in classes]), f.col("code").cast("int") + 1)
        occ_time = f.when(f.col("kind") == ASSERT, f.timestamp_micros("occ_time"))
        filled = [(code, c) for code, c in enumerate(classes) if c.attributes]
        structs = [f.when(f.col("code") == code, _struct(c, code)).alias(c.name) for code, c in filled]
        values = [f.struct(*structs).alias("values")] if structs else []
        times = (occ_time.alias("occ_time"), f.timestamp_micros("det_time").alias("det_time"))
        constituents = f.lit(None).cast("array<bigint>").alias("constituents")
        return rows.select(event.alias("event"), "change", "seq", *times, constituents, *values)

    @property
    def rejected(self) -> DataFrame:
        """What was refused: tick (NULL, for there are none), place, event, reason, raw."""
        tick = f.lit(None).cast("timestamp").alias("tick")
        return self.accepted.where(f.col("what") == REJECTED).select(tick, *REJECTED_COLUMNS)

    @property
    def events(self) -> DataFrame:
        """The versions of complex events: event, change, seq, occ_time, det_time, constituents, `values.Class.…`."""
        filled = [c for c in self._classes if c.attributes]
        frames = []
        for group, made in self.work.made:
            structs = {key_of(c.name): _member_struct(group, number) for number, c in enumerate(group.found)}
            named = [structs.get(key_of(c.name), f.lit(None).cast(_struct_type(c))).alias(c.name) for c in filled]
            values = [f.struct(*named).alias("values")] if named else []
            names = f.array([f.lit(c.name) for c in group.found])
            event = f.element_at(names, f.col("member").cast("int") + 1)
            for members in _by_identity(group):
                rows = occurrences(made).where(f.col("member").isin([*members]))
                told = self._announced(rows, members, result_lanes(group.found))
                frames.append(told.select(event.alias("event"), *_heads(), *values))
        if not frames:
            return self.session.createDataFrame([], _NO_EVENTS)
        return reduce(DataFrame.unionAll, frames)

    def of(self, name: str) -> DataFrame:
        """The versions of one complex class: event, change, seq, occ_time, det_time, constituents, its attributes."""
        plan = self.program.class_plan(name)
        if plan is None or key_of(name) not in self.found:
            there = ", ".join(c.name for c in self._classes)
            raise KeyError(f"there is no complex class `{name}`; there are {there or 'none'}")
        event_class = plan.event_class
        values = [f.col(value_name(0, i)).alias(a.name) for i, a in enumerate(event_class.attributes)]
        event = f.lit(event_class.name).alias("event")
        rows = occurrences(self.found[key_of(name)]).withColumn("member", f.lit(0))
        rows = self._announced(rows, {0: event_class}, own_columns([event_class]))
        return rows.select(event, *_heads(), *values)

    def _announced(self, rows: DataFrame, classes: Mapping[int, EventClass], names: Names) -> DataFrame:
        """Occurrences of some classes with `change`."""
        lasting = {number: kept_by_constituents(self.program, c) for number, c in classes.items()}
        return announced(rows, "member", lasting, names, self._expiring, self.program.settings.chronon_us)

    def _expiring(self) -> DataFrame:
        return versions_expiring(self.program, self.accepted)

    @property
    def actions(self) -> DataFrame:
        """No actions: a program that takes some goes tick by tick, as `choosing` says."""
        return self.session.createDataFrame([], spark_schema(ACTIONS))

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
            return self.session.createDataFrame([], f"event string, {name} bigint")
        return reduce(DataFrame.unionAll, frames)

    @property
    def _classes(self) -> list[EventClass]:
        return [p.event_class for p in self.program.classes if key_of(p.event_class.name) in self.found]

    def close(self) -> None:
        """Let go what is kept; what is asked for later is made anew."""
        for kept in (self._work, self._accepted):
            for frame in () if kept is None else kept.kept:
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
    numbered: bool = False,
) -> Detected:
    """Detect over a data frame, or one per class; ties of det_time go by the order of rows as Spark reads them.

    Versions with det_time ≥ `until_us` are not read. Keyed classes run in as many `partitions`, by default as many as
    Spark's settings say; so do classes in ranges of the history (`augury explain --stage spark` tells which), unless
    rows lie in ranges already; by default only if there is more than Spark reads in one partition. Nothing runs yet:
    to give versions their numbers takes a look at the events, when a frame is first asked for; with `numbered` they are
    a stored history, accepted before, with its `seq`, as `stored.stored` describes it; for classes in ranges a job goes
    over what they read, to know the state before each range.
    Raises `NotOnSpark` for a program with a class that this engine does not run, `NotStored` for a data frame that is
    no stored history.
    """
    if isinstance(events, Mapping) and not events:
        raise ValueError("a mapping of events has at least one class")
    groups = groups_of(stages_of(program))
    session = (events if isinstance(events, DataFrame) else next(iter(events.values()))).sparkSession
    if numbered:
        known = _stored(program, groups, events, until_us)
        return Detected(program, session, lambda: _work(program, groups, known, partitions))

    def planned() -> Work:
        found = number(program, groups, events, until_us=until_us, partitions=partitions)
        return _work(program, groups, found, partitions)

    return Detected(program, session, planned)


def detect_packed(
    program: Program, packed: DataFrame, *, until_us: int | None = None, partitions: int | None = None
) -> Detected:
    """Detect over raw events as `tasks.pack` makes them: what the driver has read goes through one task."""
    groups = groups_of(stages_of(program))

    def planned() -> Work:
        histories = histories_of(groups)
        accept = Accept(plain(program), histories, until_us)
        accepted = packed.repartition(1).mapInArrow(accept, accepted_schema(subscribed(program), histories))
        # Each group reads it, and it costs more than all of them.
        accepted = accepted.persist(StorageLevel.MEMORY_AND_DISK)
        end = accepted.where(f.col("what") == ABSORBED).select(f.col("det_time").alias(END))
        numbered = Numbered(
            lambda: Accepted(accepted), lambda group: rows_of_versions(group, accepted), end, (accepted,)
        )
        return _work(program, groups, numbered, partitions)

    return Detected(program, packed.sparkSession, planned)


def _stored(
    program: Program, groups: tuple[Group, ...], events: DataFrame | Mapping[str, DataFrame], until_us: int | None
) -> Numbered:
    histories, occ = histories_of(groups), has_occ_time(events)
    every = tuple(range(len(subscribed(program))))
    # Without withdrawals the number of a version is its place among those of all classes.
    same = {name: codes == every and not occ for name, codes in histories.items()}
    accepted = stored(program, events, same)
    if until_us is not None:
        accepted = accepted.where(f.col("det_time") < until_us)
    kept: tuple[DataFrame, ...] = ()
    if not all(same.values()):
        accepted = accepted.repartition(1).mapInArrow(Position(histories), accepted.schema)
        accepted = accepted.persist(StorageLevel.MEMORY_AND_DISK)
        kept = (accepted,)
    end = until_us if until_us is not None else end_frame(accepted, program.settings.chronon_us)
    return Numbered(lambda: Accepted(accepted), lambda group: rows_of_versions(group, accepted, occ=occ), end, kept)


def _work(program: Program, groups: tuple[Group, ...], numbered: Numbered, partitions: int | None) -> Work:
    """The groups one after the other, each over versions and what those before it found."""
    read = {key_of(c.name) for group in groups for stage in group.stages for c in stage.reads_complex}
    found: dict[str, DataFrame] = {}
    made_by, kept = [], [*numbered.kept]
    for group in groups:
        rows = numbered.rows(group)
        if group.ranged and pays(rows, partitions):
            ranged = in_ranges(group, rows, program.settings.chronon_us, partitions)
            made, kept = ranged.made, [*kept, *ranged.kept]
        else:
            rows = with_complex_events(group, rows, found)
            rows = brought_together(group, rows, partitions)
            if group.timed:
                rows = _with_end(rows, numbered.end)
            made = rows.mapInArrow(Detect(group, program.settings.chronon_us), occurrence_schema(group.found))
        names = [key_of(c.name) for c in group.found]
        if len(names) > 1 or read.intersection(names):
            made = made.persist(StorageLevel.MEMORY_AND_DISK)
            kept.append(made)
        found |= {name: _of_member(made, group, member) for member, name in enumerate(names)}
        made_by.append((group, made))
    return Work(numbered.accepted, found, tuple(kept), tuple(made_by))


def _with_end(rows: DataFrame, end: DataFrame | int) -> DataFrame:
    """The rows, each with how far the clock goes."""
    if isinstance(end, int):
        return rows.withColumn(END, f.lit(end).cast("bigint"))
    return rows.crossJoin(f.broadcast(end))


def _of_member(made: DataFrame, group: Group, member: int) -> DataFrame:
    """What a group found of one of its classes, whose attributes are then those of class 0."""
    lanes, attributes = result_lanes(group.found), range(len(group.found[member].attributes))
    values = [f.col(lanes[member, i]).alias(value_name(0, i)) for i in attributes]
    own = made if len(group.found) == 1 else made.where(f.col("member") == member)
    return own.select("what", *HISTORY_COLUMNS, *values)


# ---- columns of the result ---------------------------------------------------------------------------------------

_NO_EVENTS = (
    "event string, change string, seq bigint, occ_time timestamp, det_time timestamp, constituents array<bigint>"
)


def _by_identity(group: Group) -> list[dict[int, EventClass]]:
    """The classes of a group, by their numbers: those without a key and those with one, whose events are shuffled."""
    found = list(enumerate(group.found))
    parts = [{number: c for number, c in found if bool(c.key) is keyed} for keyed in (False, True)]
    return [part for part in parts if part]


def _heads() -> list[Column]:
    times = [f.timestamp_micros(name).alias(name) for name in ("occ_time", "det_time")]
    # What a timer completed has none of its own.
    seq = f.when(f.col("seq") > NO_SEQ, f.col("seq")).alias("seq")
    return [f.col("change"), seq, *times, f.col("constituents")]


def _member_struct(group: Group, member: int) -> Column:
    lanes, attributes = result_lanes(group.found), enumerate(group.found[member].attributes)
    struct = f.struct(*(f.col(lanes[member, i]).alias(attribute.name) for i, attribute in attributes))
    return struct if len(group.found) == 1 else f.when(f.col("member") == member, struct)


def _struct(event_class: EventClass, code: int) -> Column:
    named = enumerate(event_class.attributes)
    return f.struct(*(f.col(value_name(code, i)).alias(attribute.name) for i, attribute in named))


def _struct_type(event_class: EventClass) -> s.StructType:
    return s.StructType([s.StructField(a.name, spark_type(a.type)) for a in event_class.attributes])

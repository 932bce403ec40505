"""Versions of data frames of events, numbered once: which tasks run, and in what order.

In: a program, data frames of events. Out: numbered versions as data frames, and what each group reads of them. A first
job looks at all events, or only at det_times where columns alone tell versions (`sure`). Where they come in order, and
no two have to be judged beside each other, numbers follow from counts alone, as they do where it is known which rows
are no versions because of others (`excepting`); else rows are brought together by key, judged, and ranked by ranges of
det_time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final

import numpy as np
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury.algebra.program import Program
from augury.event import TIME_ATTRIBUTES, EventClass, key_of
from augury.history.typed import EVENT
from augury.kernels.batch import ASSERT, Integers
from augury.spark.accepting import Feed, Give, Glance, Look, Numbering
from augury.spark.excepting import excepted, places_frame
from augury.spark.feeding import rows_of_versions
from augury.spark.judging import Judge, Post, Rank, Spread, ranked_schema, typed_schema
from augury.spark.layout import END, VERSION, accepted_schema, rows_schema, value_name
from augury.spark.looks import (
    Placed,
    Summary,
    begins_of,
    clocks_due,
    in_order,
    judged_codes,
    places_of,
    ranges_of,
    with_ids,
    without,
)
from augury.spark.sheets import CODE, PARTITION, SOURCES_MAX, Source
from augury.spark.sources_lines import reading
from augury.spark.sources_schema import declared
from augury.spark.stage import Group, histories_of, plain, subscribed
from augury.spark.sure import PART_BITS, Sure, class_codes, fits, named, plain_zero, surely, tells_begins

_NAMES_MAX: Final = 32
"""With more classes, to compare each row with their names takes longer than to send its own."""

_STEADY: Final = frozenset({"Project", "Filter", "LocalRelation", "Range", "InMemoryRelation", "SubqueryAlias"})
"""Parts of a plan that give the same rows in the same partitions and order each time; as do files, and no database."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What was accepted and refused, as accepting tasks give it; and what is kept for it alone."""

    frame: DataFrame
    kept: tuple[DataFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbered:
    """What was accepted, if somebody asks; what a group reads of it, how far the clock goes, and what is kept."""

    accepted: Callable[[], Accepted]
    rows: Callable[[Group], DataFrame]
    end: DataFrame | int
    kept: tuple[DataFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class _Events:
    """The data frames of events, as they are read: each with its source; and those that are kept for it.

    Of a data frame that is `placed` each row can tell its partition.
    """

    program: Program
    frames: tuple[tuple[Source, DataFrame], ...]
    until_us: int | None
    kept: tuple[DataFrame, ...] = field(default=())
    placed: bool = False

    def through(self, task: Callable[[Source], Any], schema: Any, *, refusals: bool = True) -> DataFrame:
        """A task for each source, over its rows; one that tells no refusals needs no names of unknown classes."""
        frames = [(source, _coded(frame, source, refusals)) for source, frame in self.frames]
        if len(frames) > 1:
            # Spark unites partitions one way or another, and tasks are numbered by the whole.
            frames = [(source, frame.withColumn(PARTITION, f.spark_partition_id())) for source, frame in frames]
        return reduce(DataFrame.unionAll, [frame.mapInArrow(task(source), schema) for source, frame in frames])

    def looks(self, task: Callable[[Source], Any]) -> DataFrame:
        """The same for the first look, over what some row may be refused for, or put in order by."""
        sources = [(source, _unsure(self.program, frame)) for source, frame in self.frames]
        return _Events(self.program, tuple(sources), self.until_us).through(task, "summary binary", refusals=False)

    def sure(self) -> Sure | None:
        """One data frame whose columns alone tell which rows are versions."""
        if len(self.frames) > 1 or not self.placed:
            return None
        [(source, frame)] = self.frames
        return surely(self.program, source, frame, self.until_us)

    @property
    def classes(self) -> tuple[EventClass, ...]:
        return subscribed(self.program)

    @property
    def names(self) -> dict[int, str]:
        return {source.number: source.name for source, _ in self.frames}


def number(
    program: Program,
    groups: Sequence[Group],
    events: DataFrame | Mapping[str, DataFrame],
    *,
    until_us: int | None,
    partitions: int | None,
) -> Numbered:
    """Accept and number the versions of data frames; runs a job that looks at them.

    Raises `NotOnSpark`, and `SourceError` for a file that cannot be read.
    """
    came = _events(program, events, until_us)
    every = tuple(range(len(came.classes)))
    # Only among all versions is a place known without looking at classes.
    sure = came.sure() if all(codes == every for codes in histories_of(groups).values()) else None
    count = partitions or int(str(came.frames[0][1].sparkSession.conf.get("spark.sql.shuffle.partitions")))
    found = None if sure is None else _surely(came, groups, sure, count)
    return _looked(came, groups, count) if found is None else found


def _looked(came: _Events, groups: Sequence[Group], partitions: int) -> Numbered:
    """Numbers after a look at every row."""
    keyed = frozenset(code for code, c in enumerate(came.classes) if c.key)
    summaries = _summaries(came.looks(lambda source: Look(came.program, source, came.until_us, keyed)))
    clocks = clocks_due(came.program, summaries, came.until_us)
    judged = judged_codes(came.classes, summaries)
    order = None if judged or clocks else in_order(summaries)
    if order is not None:
        return _counted(came, groups, summaries, order)
    return _ranked(came, groups, summaries, judged, clocks, partitions)


def _surely(came: _Events, groups: Sequence[Group], sure: Sure, partitions: int) -> Numbered | None:
    """Numbers after a glance; None where that is not enough, because of rows that have to be judged in order."""
    summaries = _summaries(sure.glanced.mapInArrow(Glance(), "summary binary"))
    clocks = clocks_due(came.program, summaries, came.until_us)
    order = None if clocks or any(one.withdraws for one in summaries) else in_order(summaries)
    if order is None:
        return None if sure.keyed else _ranked(came, groups, summaries, frozenset(), clocks, partitions)
    places = excepted(sure, summaries, order, came.program.settings.chronon_us, partitions)
    if places is None:
        return None
    if not len(places):
        return _counted(came, groups, summaries, order, sure)
    left = [without(one, _in_part(places, one.part)) for one in summaries]
    return _excepted(came, groups, sure, left, places, partitions)


def _summaries(looks: DataFrame) -> list[Summary]:
    with reading():
        return sorted((pickle.loads(row.summary) for row in looks.collect()), key=lambda one: one.part)


def _in_part(places: Integers, part: int) -> Integers:
    """Which of some ascending places are in a part, by their numbers there."""
    begin, end = np.searchsorted(places, [part << PART_BITS, (part + 1) << PART_BITS])
    return places[begin:end] - (part << PART_BITS)


def _events(program: Program, events: DataFrame | Mapping[str, DataFrame], until_us: int | None) -> _Events:
    given = [("events", None, events)] if isinstance(events, DataFrame) else [(n, n, e) for n, e in events.items()]
    if len(given) > SOURCES_MAX:
        raise ValueError(f"at most {SOURCES_MAX} data frames go together: join some, with a column `event`")
    frames, kept, placed = [], [], True
    for i, (name, event_class, frame) in enumerate(given):
        read = declared(program, frame)
        if not is_steady(frame, alone=len(given) == 1):
            # It is read more than once, and rows that come in another order would have other numbers.
            read = read.persist(StorageLevel.MEMORY_AND_DISK)
            kept.append(read)
        else:
            placed &= is_steady(frame, alone=False)
        frames.append((Source(i, name, event_class, _names(program, read)), read))
    return _Events(plain(program), tuple(frames), until_us, tuple(kept), placed)


def _names(program: Program, frame: DataFrame) -> tuple[str, ...]:
    """The names of classes that are sent as numbers, for a text a row takes long; none where that is not plain."""
    fields = [field for field in frame.schema.fields if key_of(field.name) == EVENT]
    names = tuple(c.name for c in subscribed(program))
    if not all(map(str.isascii, names)):
        return ()
    plain_ = len(fields) == 1 and isinstance(fields[0].dataType, s.StringType) and CODE not in frame.columns
    return names if plain_ and len(names) <= _NAMES_MAX else ()


def _coded(frame: DataFrame, source: Source, refusals: bool) -> DataFrame:
    """The rows with the numbers of the classes that they name; other names are left as they are, or left out."""
    if not source.names:
        return frame
    name = next(name for name in frame.columns if key_of(name) == EVENT)
    codes = {known: code for code, known in enumerate(source.names)}
    # What is refused is shown as it came: then a name in another case is left as it is.
    number_ = class_codes(named(name), codes, in_any_case=not refusals)
    frame = frame.withColumn(CODE, number_)
    other = f.when(f.col(CODE).isNull(), named(name))
    # What names no class may be of the one that the source stands for: not so what names one that is unknown.
    left_out = not refusals and source.event_class is None
    return frame.drop(named(name)) if left_out else frame.withColumn(name, other)


def _unsure(program: Program, frame: DataFrame) -> DataFrame:
    """The columns without those for which no row is refused: they are fine by their types."""
    if program.sources:
        return frame
    kept = [field.name for field in frame.schema.fields if not _is_fine(program, field)]
    return frame.select(*map(named, kept)) if kept else frame


def _is_fine(program: Program, field_: s.StructField) -> bool:
    """Whether whatever a column holds fits the attributes of its name, none of which is of a key."""
    name, classes = key_of(field_.name), subscribed(program)
    pairs = [(c, attribute) for c in classes for attribute in c.attributes if key_of(attribute.name) == name]
    keys = {key_of(key) for c in classes for key in c.key}
    return bool(pairs) and name not in keys and all(fits(field_.dataType, a.type) for _, a in pairs)


def is_steady(frame: DataFrame, *, alone: bool = True) -> bool:
    """Whether a data frame gives the same rows in the same partitions and order each time, as far as its plan tells.

    If it is not `alone`, it has to tell the partition of each row as well, which rows that are part of a plan do not.
    """
    java = getattr(frame, "_jdf", None)
    if java is None:
        return False
    plan = java.queryExecution().optimizedPlan()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        name = node.getClass().getSimpleName()
        is_file = name == "LogicalRelation" and node.relation().getClass().getSimpleName() == "HadoopFsRelation"
        if not is_file and (name not in _STEADY or (name == "LocalRelation" and not alone)):
            return False
        children = node.children()
        waiting += [children.apply(i) for i in range(children.size())]
    # What was worked out while the plan was made may be worked out anew for the next.
    return bool(plan.deterministic() and java.queryExecution().analyzed().deterministic())


# ---- in order ----------------------------------------------------------------------------------------------------


def _excepted(
    came: _Events,
    groups: Sequence[Group],
    sure: Sure,
    summaries: Sequence[Summary],
    places: Integers,
    partitions: int,
) -> Numbered | None:
    """Numbers from counts of what is left of the rows; what is wrong with the others is found out if somebody asks."""
    order, histories = in_order(summaries), histories_of(groups)
    assert order is not None, "what is left is in order, too"
    begins = begins_of(order, histories)
    if not tells_begins(begins):
        return None
    versions = sure.numbered(begins, list(histories), places_frame(sure.frame, places))
    occ = any(_has_both_times(came.program, frame) for _, frame in came.frames)
    end = came.until_us if came.until_us is not None else end_frame(versions, came.program.settings.chronon_us)
    return Numbered(
        lambda: _at_length(_looked(came, groups, partitions)),
        lambda group: rows_of_versions(group, versions, occ=occ),
        end,
        came.kept,
    )


def _at_length(numbered: Numbered) -> Accepted:
    found = numbered.accepted()
    return Accepted(found.frame, (*found.kept, *numbered.kept))


def end_frame(versions: DataFrame, chronon_us: int) -> DataFrame:
    """How far the clock goes: the tick after the last version."""
    last_us = f.max("det_time")
    return versions.agg((last_us - f.pmod(last_us, f.lit(chronon_us)) + chronon_us).alias(END))


def _counted(
    came: _Events,
    groups: Sequence[Group],
    summaries: Sequence[Summary],
    order: Sequence[Placed],
    sure: Sure | None = None,
) -> Numbered:
    """Numbers from counts alone: each task knows where those of its runs begin."""
    histories = histories_of(groups)
    numbering = Numbering(begins_of(order, histories), places_of(summaries, came.names), histories)
    program, until_us = came.program, came.until_us
    accepted = came.through(
        lambda source: Give(program, source, until_us, numbering), accepted_schema(came.classes, histories)
    )
    last_us = max((run.last_us for _, _, run in order), default=None)
    end = _end_us(came, last_us)
    if len(groups) > 1:
        accepted = accepted.persist(StorageLevel.MEMORY_AND_DISK)
        came = replace(came, kept=(*came.kept, accepted))
    occ = any(_has_both_times(program, frame) for _, frame in came.frames)
    if sure is not None and tells_begins(numbering.begins):
        versions = sure.numbered(numbering.begins, list(histories))
        return Numbered(
            lambda: Accepted(accepted), lambda group: rows_of_versions(group, versions, occ=occ), end, came.kept
        )
    if len(groups) > 1:
        return Numbered(lambda: Accepted(accepted), lambda group: rows_of_versions(group, accepted), end, came.kept)

    def rows(group: Group) -> DataFrame:
        schema = rows_schema(group.classes, group.lanes, group.histories, occ=occ)
        return came.through(
            lambda source: Feed(program, source, until_us, numbering, group, occ), schema, refusals=False
        )

    return Numbered(lambda: Accepted(accepted), rows, end, came.kept)


def _has_both_times(program: Program, frame: DataFrame) -> bool:
    """Whether an event may have two times; else either stands for the other."""
    times = {TIME_ATTRIBUTES.get(key_of(name)) for name in frame.columns} - {None}
    return len(times) > 1 or bool(program.sources)


def _end_us(came: _Events, last_us: int | None) -> int:
    """How far the clock goes: the tick after the last version."""
    if came.until_us is not None:
        return came.until_us
    chronon_us = came.program.settings.chronon_us
    return 0 if last_us is None else (last_us // chronon_us + 1) * chronon_us


# ---- by ranges ---------------------------------------------------------------------------------------------------


def _ranked(
    came: _Events,
    groups: Sequence[Group],
    summaries: Sequence[Summary],
    judged: frozenset[int],
    clocks: tuple[tuple[int, Sequence[int]], ...],
    partitions: int,
) -> Numbered:
    """Numbers by rank in ranges of det_time, after what has to be judged has been."""
    classes, chronon_us = came.classes, came.program.settings.chronon_us
    histories = histories_of(groups)
    ranges = ranges_of(summaries, partitions)
    schema = typed_schema(classes)
    rows = came.through(lambda source: Spread(came.program, source, came.until_us, judged, ranges), schema)
    if judged:
        key = _together(classes, judged, with_ids(summaries))
        rows = rows.repartition(partitions, key).mapInArrow(Judge(classes, chronon_us, judged, ranges), schema)
    if clocks:
        one = rows.sparkSession.range(0, 1, 1, 1)
        rows = rows.unionAll(one.mapInArrow(Post(classes, clocks, ranges), schema))
    rank = Rank(classes, tuple(histories.items()), places_of(summaries, came.names))
    ranked = rows.repartitionById(len(ranges), "range").mapInArrow(rank, ranked_schema(classes, list(histories)))
    # All of the history, with all columns: memory is for those who read it.
    ranked = ranked.persist(StorageLevel.DISK_ONLY)
    versions = ranked.where(f.col("what") == VERSION)
    counts = (
        versions.groupBy("range", "code", "kind")
        .agg(f.count("*").alias("n"), f.max("det_time").alias("last"))
        .collect()
    )
    accepted = _offset(ranked, counts, len(ranges), classes, histories)
    end = _end_us(came, max((row["last"] for row in counts), default=None))
    return Numbered(
        lambda: Accepted(accepted), lambda group: rows_of_versions(group, accepted), end, (*came.kept, ranked)
    )


def _together(classes: Sequence[EventClass], judged: frozenset[int], ids: set[int]) -> Column:
    """What brings together the rows that are judged beside each other."""
    # An id may come with any key, so a class with both has one place; what is not judged goes anywhere.
    found = f.hash("came")
    for code in sorted(judged):
        key = {key_of(name) for name in classes[code].key}
        if key and code in ids:
            together = f.hash(f.lit(code))
        elif key:
            attributes = [(i, a) for i, a in enumerate(classes[code].attributes) if key_of(a.name) in key]
            together = f.hash(f.lit(code), *(plain_zero(f.col(value_name(code, i)), a.type) for i, a in attributes))
        else:
            together = f.when(f.col("event_id").isNull(), f.hash("came")).otherwise(f.hash("event_id"))
        found = f.when(f.col("code") == code, together).otherwise(found)
    return found


def _offset(
    ranked: DataFrame,
    counts: Sequence[Any],
    ranges: int,
    classes: Sequence[EventClass],
    histories: Mapping[str, tuple[int, ...]],
) -> DataFrame:
    """Ranks in ranges as numbers among all."""
    every = tuple(range(len(classes)))

    def before(codes: tuple[int, ...], *, withdrawn: bool) -> Column:
        sizes = np.zeros(ranges, np.int64)
        for row in counts:
            if row["code"] in codes and (withdrawn or row["kind"] == ASSERT):
                sizes[row["range"]] += row["n"]
        begins = [0, *np.cumsum(sizes)[:-1].tolist()]
        return f.element_at(f.array([f.lit(n).cast("bigint") for n in begins]), f.col("range") + 1)

    first = before(every, withdrawn=True)
    seq = f.when(f.col("what") == VERSION, f.col("seq") + first).otherwise(f.col("seq"))
    since = f.concat(f.col("reason"), (f.col("since") + first).cast("string"))
    reason = f.when(f.col("since").isNull(), f.col("reason")).otherwise(since)
    made = {"seq": seq, "reason": reason}
    made |= {name: f.col(name) + before(codes, withdrawn=False) for name, codes in histories.items()}
    names = accepted_schema(classes, histories).fieldNames()
    return ranked.select(*(made.get(name, f.col(name)).alias(name) for name in names))

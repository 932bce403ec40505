"""A lake for people: histories, what was known at a time, what changed, logs; as Arrow tables or through DuckDB.

In: a path, and how texts become programs. Out: tables with the columns of `history.views`. It only reads, and any
number may do so while one writes: an answer is that of one commit.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.algebra.rule import Trigger
from augury.diagnostics import closest
from augury.engine.firing_rows import known_firings, trigger_named
from augury.event import EventClass, key_of
from augury.history.values import Moment, as_microseconds
from augury.history.views import current, diff, history_schema, system_names, then
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask
from augury.lake.errors import CorruptFile, LakeFailed, NoSuchClass, NoSuchCommit, NoSuchTrigger
from augury.lake.firings import firings
from augury.lake.lake import Lake
from augury.lake.logs import actions, log, ticks
from augury.lake.manifest import Kind, Manifest
from augury.lake.order import Order, conformed, order_of, shown, whole
from augury.lake.retention import kept_places, purged_numbers
from augury.lake.snapshot import Snapshot

Time = Moment
"""A time as people write it; a number is microseconds since the epoch."""

_KEPT: Final = "__kept"
"""The column that says of a row of a file that it is current, while old rows are left out of a view."""


def history(
    path: str | os.PathLike[str],
    compile: Callable[[str], Program],
    *,
    commit: int | None = None,
    order: Order | None = None,
) -> LakeHistory:
    """The lake at a path as it is, or as it was after a commit; raises `NoLake`, `NoSuchCommit`, `CorruptFile`."""
    lake = Lake.open(path)
    snapshot = lake.snapshot(commit)
    name = "" if snapshot.manifest is None else snapshot.manifest.program
    program = compile(lake.program_text(name))
    return LakeHistory(lake, snapshot, program, order or order_of(program))


@dataclass(frozen=True, slots=True)
class LakeHistory:
    """What a lake holds after a commit, seen from now or from another time."""

    lake: Lake
    snapshot: Snapshot
    program: Program
    order: Order
    known_at_us: int | None = None
    as_of_us: int | None = None

    @property
    def classes(self) -> tuple[EventClass, ...]:
        """The classes of the program in force at that commit."""
        return tuple(plan.event_class for plan in self.program.classes)

    @property
    def commit(self) -> int:
        """The commit; 0 before the first."""
        return self.snapshot.commit

    @property
    def manifest(self) -> Manifest | None:
        """What the commit says: its tick, offsets, counts and the rest; None before the first."""
        return self.snapshot.manifest

    def known_at(self, time: Time) -> LakeHistory:
        """Only what was known at a time: the newest version of each event with det_time ≤ it, unless it withdraws."""
        return replace(self, known_at_us=as_microseconds(time))

    def as_of(self, time: Time) -> LakeHistory:
        """Only what had happened by a time, as far as is known (or was, after `known_at`)."""
        return replace(self, as_of_us=as_microseconds(time))

    def table(self, name: str) -> pa.Table:
        """The versions of a class, with the columns of `history_schema`; raises `NoSuchClass`, `CorruptFile`."""
        event_class = self._class(name)
        table = self._history(event_class).retained()
        return then(table, event_class, self.as_of_us, self.known_at_us)

    def now(self, name: str) -> pa.Table:
        """The as-of-now view: newest versions, neither withdrawn nor purged; after `known_at` those known then."""
        event_class = self._class(name)
        if self.known_at_us is not None or self.as_of_us is not None:
            return self.table(name)
        history = self._history(event_class)
        return history.table.filter(pa.array(history.is_current))

    def diff(self, first: Time, second: Time) -> LakeDiff:
        """What is known at the second time and was not at the first, class by class."""
        return LakeDiff(self, as_microseconds(first), as_microseconds(second))

    def archive(self, name: str) -> pa.Table:
        """With SET ARCHIVE ON: what was current of a class when it was purged, numbered as in its history."""
        event_class = self._class(name)
        history = self._history(event_class)
        rows = self._rows(event_class, Kind.ARCHIVE)
        ordered = rows.take(pa.array(self.order(event_class, rows))).select(history_schema(event_class).names)
        places = dict(zip(history.numbers.tolist(), history.table.column(0).to_pylist(), strict=True))
        names = system_names(event_class)
        for column in (names.number, names.event_number):
            if column is not None:
                at = ordered.schema.get_field_index(column)
                own = pa.array([places.get(number) for number in ordered[column].to_pylist()], pa.int64())
                ordered = ordered.set_column(at, ordered.schema.field(at), own)
        return ordered.combine_chunks()

    def files(self, name: str) -> list[str]:
        """The Parquet files with the history of a class, for `spark.read.parquet` or DuckDB's `read_parquet`."""
        entries = self.snapshot.of(Kind.HISTORY, self._class(name).name)
        return [self.lake.files.full(entry.path) for entry in entries]

    def actions(self) -> pa.Table:
        """The actions that fired, in the order of the contract."""
        with self._while_files_last():
            return actions(self.lake.files, self.snapshot, self.program)

    def firings(self, trigger: str) -> pa.Table:
        """The firings of a trigger by number, with its parameters as columns; after `known_at` those known then."""
        found = self._trigger(trigger)
        with self._while_files_last():
            table = firings(self.lake.files, self.snapshot, found)
        return table if self.known_at_us is None else known_firings(table, found, self.known_at_us)

    def rejected(self) -> pa.Table:
        """The rejected events with their reasons, by tick."""
        return self._log(Kind.REJECTED)

    def ticks(self) -> pa.Table:
        """The ticks, a row each."""
        with self._while_files_last():
            return ticks(self.lake.files, self.snapshot)

    def duckdb(self, *names: str) -> Any:
        """A DuckDB with a view for each class and trigger, and `…_now` for what is current; tables in memory.

        With `names` it has the classes of these names only.
        """
        import duckdb

        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        classes = [self._class(name) for name in names] or list(self.classes)
        taken = {key_of(event_class.name) for event_class in self.classes}
        for event_class in classes:
            connection.register(event_class.name, self.table(event_class.name))
            connection.register(_free(f"{event_class.name}_now", taken), self.now(event_class.name))
        for name, trigger in self._trigger_names():
            if not names:
                connection.register(name, self.firings(trigger))
        return connection

    def _trigger_names(self) -> list[tuple[str, str]]:
        """What the view of each trigger is called: like it, unless a class is."""
        classes = {key_of(event_class.name) for event_class in self.classes}
        taken = classes | {key_of(_free(f"{event_class.name}_now", classes)) for event_class in self.classes}
        return [(_free(trigger.name, taken), trigger.name) for trigger in self.program.triggers]

    def createViews(self, spark: Any = None, prefix: str = "") -> list[str]:  # as Spark's own are called
        """Make temporary views of Spark: each class, `…_now` for what is current, triggers, actions; gives their names.

        The views of classes read the files of the lake in place. `spark` is the session, by default the active one.
        """
        session = _session(spark, "createViews")
        taken = {key_of(event_class.name) for event_class in self.classes}
        made = []
        for event_class in self.classes:
            frames = {event_class.name: self.frame(event_class.name, session)}
            frames[_free(f"{event_class.name}_now", taken)] = _spark_frame(session, self.now(event_class.name))
            for name, frame in frames.items():
                frame.createOrReplaceTempView(f"`{prefix}{name}`")
                made.append(f"{prefix}{name}")
        for name, trigger in self._trigger_names():
            _spark_frame(session, self.firings(trigger)).createOrReplaceTempView(f"`{prefix}{name}`")
            made.append(f"{prefix}{name}")
            taken.add(key_of(name))
        name = _free("actions", taken)
        _spark_frame(session, self.actions()).createOrReplaceTempView(f"`{prefix}{name}`")
        return [*made, f"{prefix}{name}"]

    def frame(self, name: str, spark: Any = None) -> Any:
        """The versions of a class as a data frame of Spark, which reads the files in place; no numbers of versions.

        Of another time, or where nothing is, it is made here. `spark` is the session, by default the active one.
        """
        event_class, session = self._class(name), _session(spark, "frame")
        files = self.files(event_class.name)
        if self.known_at_us is not None or self.as_of_us is not None or not files:
            return _spark_frame(session, self.table(event_class.name))
        names = system_names(event_class)
        left_out = {names.number, names.event_number}
        shown_names = [name for name in history_schema(event_class).names if name not in left_out]
        rows = self._young(session, event_class, session.read.option("mergeSchema", "true").parquet(*files))
        return rows.select(*(f"`{name}`" for name in shown_names))

    def _young(self, session: Any, event_class: EventClass, rows: Any) -> Any:
        """Of the rows of files those that are part of the history, as `table` has them."""
        since_us = self._retained_since()
        if since_us is None:
            return rows
        names, history = system_names(event_class), self._history(event_class)
        is_young = f"`{names.det_time}` >= timestamp_micros({since_us})"
        # What is current stays however old it is, and Spark does not tell it from the rest.
        numbers = pa.array(history.numbers[history.is_current & ~history.is_young])
        if not len(numbers):
            return rows.where(is_young)
        kept = pa.table({names.number: numbers, _KEPT: pa.array([True] * len(numbers))})
        told = rows.join(session.createDataFrame(kept).hint("broadcast"), names.number, "left")
        return told.where(f"{is_young} OR `{_KEPT}`")

    def _class(self, name: str) -> EventClass:
        plan = self.program.class_plan(name)
        if plan is not None:
            return plan.event_class
        known = [event_class.name for event_class in self.classes]
        meant = closest(name, known)
        hint = f"did you mean `{meant}`?" if meant else f"it has {', '.join(known) or 'none'}"
        raise NoSuchClass(f"the lake `{self.lake.path}` has no event class `{name}`; {hint}")

    def _trigger(self, name: str) -> Trigger:
        try:
            return trigger_named(self.program, name)
        except KeyError as error:
            raise NoSuchTrigger(f"in the lake `{self.lake.path}` {error.args[0]}") from None

    def _history(self, event_class: EventClass) -> _Versions:
        rows = self._rows(event_class, Kind.HISTORY)
        ordered = rows.take(pa.array(self.order(event_class, rows)))
        with self._while_files_last():
            kept = kept_places(self.lake.files, self.snapshot, event_class.name)
            purged = purged_numbers(self.lake.files, self.snapshot, event_class)
        table = shown(ordered, event_class, kept)
        is_current = current(ordered, event_class, purged)
        return _Versions(table, whole(ordered.column(0)), is_current, self._is_retained(table))

    def _is_retained(self, table: pa.Table) -> Mask:
        """SET HISTORY RETAIN: older versions are no part of the history, whether or not files still have them."""
        since_us = self._retained_since()
        if since_us is None:
            return np.ones(table.num_rows, np.bool_)
        retained: Mask = whole(table["det_time"]) >= since_us
        return retained

    def _retained_since(self) -> int | None:
        """The det_time from which on versions are retained; None for all of them."""
        retain_us, manifest = self.program.settings.retain_us, self.snapshot.manifest
        if retain_us is None or manifest is None or manifest.last_tick is None:
            return None
        return manifest.last_tick - retain_us

    def _rows(self, event_class: EventClass, kind: Kind) -> pa.Table:
        """The rows of a class as files have them, with the columns of today and what else there is."""
        entries = self.snapshot.of(kind, event_class.name)
        with self._while_files_last():
            tables = [conformed(self.lake.files.read_table(entry.path), event_class) for entry in entries]
        empty = history_schema(event_class).empty_table()
        return pa.concat_tables([empty, *tables], promote_options="permissive")

    def _log(self, kind: Kind) -> pa.Table:
        with self._while_files_last():
            return log(self.lake.files, self.snapshot, kind)

    @contextlib.contextmanager
    def _while_files_last(self) -> Iterator[None]:
        """Files of an old commit may have been replaced and removed since: that is no damage."""
        try:
            yield
        except CorruptFile as damage:
            last = self.lake.snapshot()
            if last.commit == self.commit or damage.path in last.paths():
                raise
            raise NoSuchCommit(
                f"commit {self.commit} of the lake `{self.lake.path}` can no longer be read: `{damage.path}` was "
                f"replaced since and removed by vacuum. Take a later commit, up to {last.commit}; what was known at "
                "a time is told by `known_at` all the same"
            ) from None


@dataclass(frozen=True, slots=True)
class LakeDiff:
    """What changed between two times."""

    history: LakeHistory
    first_us: int
    second_us: int

    def table(self, name: str) -> pa.Table:
        """A row for each event that is there, gone or another; `history.views.diff` says with which columns."""
        event_class = self.history._class(name)
        whole_history = replace(self.history, known_at_us=None, as_of_us=None).table(name)
        return diff(whole_history, event_class, self.first_us, self.second_us)


@dataclass(frozen=True, slots=True)
class _Versions:
    """Every version that files have, in order and numbered by place; `numbers` are those of the files."""

    table: pa.Table
    numbers: Integers
    is_current: Mask
    is_young: Mask

    def retained(self) -> pa.Table:
        """Those that are part of the history."""
        stays = self.is_young | self.is_current
        return self.table if stays.all() else self.table.filter(pa.array(stays))


def _session(spark: Any, asked: str) -> Any:
    session = spark or importlib.import_module("pyspark.sql").SparkSession.getActiveSession()
    if session is None:
        raise LakeFailed(f"there is no active Spark session: give {asked} one")
    return session


def _free(name: str, taken: set[str]) -> str:
    return name if key_of(name) not in taken else _free(name + "_", taken)


def _spark_frame(session: Any, table: pa.Table) -> Any:
    """A frame of Spark; Spark Connect takes no columns from a table without rows, so one of NULLs stands in."""
    if table.num_rows:
        return session.createDataFrame(table)
    return session.createDataFrame(pa.Table.from_pylist([{}], schema=table.schema)).limit(0)

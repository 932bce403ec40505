"""The store on a database: one table a class, as users query them; SQLite in a file, or PostgreSQL.

`open_store` is for the one process that writes, `open_store(…, read_only=True)` and `stored_classes` for any number of
readers beside it. Each `append` and each `commit` is one transaction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, Literal, overload

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from augury.algebra.program import Program
from augury.clock import show_time
from augury.engine.firing_rows import firings_of
from augury.engine.history_rows import history_of
from augury.engine.log_rows import action_row, purged_rows, rejected_rows, tick_row
from augury.engine.ports import Adoption, Post, Snapshot
from augury.engine.ticked import ClassVersions, FiredTrigger, Ticked
from augury.event import EventClass, key_of
from augury.kernels.firing import Turned
from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.adopting import adopted
from augury.local.store.database import Database, database, failing
from augury.local.store.errors import AlreadyCommitted, NoStore, StoreClosed, StoreMismatch
from augury.local.store.migrations import migrate
from augury.local.store.reading import (
    FIRST_US,
    SNAPSHOT_FORMAT,
    SqlReader,
    checksum_of,
    first_after,
    last_tick,
    read_store,
)

LOG: Final = logging.getLogger("augury")

SNAPSHOTS_KEPT: Final = 3


Report = Callable[[str], None]
"""Takes a sentence that somebody should see."""
Stopwatch = Callable[[], float]
"""Seconds from any moment on."""


@overload
def open_store(
    url: str,
    program: Program,
    *,
    read_only: Literal[False] = False,
    report: Report | None = None,
    stopwatch: Stopwatch = time.perf_counter,
) -> SqlStore:
    """To write."""


@overload
def open_store(url: str, program: Program | None = None, *, read_only: Literal[True]) -> SqlReader:
    """To read."""


def open_store(
    url: str,
    program: Program | None = None,
    *,
    read_only: bool = False,
    report: Report | None = None,
    stopwatch: Stopwatch = time.perf_counter,
) -> SqlReader:
    """The store at a path or URL, made where there is none; who only reads needs no program, and one that exists.

    One that an older Augury wrote is migrated, which is reported. `stopwatch` measures how long writing takes. Raises
    `NoStore`, `StoreMismatch`, `StoreFailed`, and for a second writer `StoreInUse`.
    """
    held = database(url)
    try:
        if not read_only:
            assert program is not None, "who writes says what"
            return _writer(held, program, report or LOG.warning, stopwatch)
        reader = read_store(held)
        if program is not None:
            _refuse_other(reader, program)
        return reader
    except BaseException:
        held.close()
        raise


def _writer(held: Database, program: Program, report: Report, stopwatch: Stopwatch) -> SqlStore:
    with failing(held.place):
        engine = held.writer()
        with engine.begin() as connection:
            migrated = catalogue.ready(connection)
            tables = catalogue.fit(connection, program)
    if migrated is not None:
        report(migrated)
    return SqlStore(held, tables, engine, program, stopwatch)


def migrate_store(url: str) -> str | None:
    """Bring a store into the present format; a sentence that says so, None if it was. Raises as `open_store` does."""
    held = database(url)
    try:
        if not held.exists():
            raise NoStore(f"there is no store `{held.place}`")
        with failing(held.place), held.writer().begin() as connection:
            if not catalogue.has_catalogue(connection):
                raise NoStore(f"`{held.place}` holds no store of Augury")
            return migrate(connection)
    finally:
        held.close()


def stored_classes(url: str) -> tuple[EventClass, ...]:
    """The classes of a store, for those who have no program at hand; raises as `open_store` does."""
    with open_store(url, read_only=True) as reader:
        return reader.classes()


def _refuse_other(reader: SqlReader, program: Program) -> None:
    if wrong := catalogue.mismatches(reader.classes(), program):
        raise StoreMismatch(wrong)


class SqlStore(SqlReader):
    """The store of a program, to be written; an `engine.ports.Store`."""

    def __init__(
        self, database: Database, held: catalogue.Tables, writer: sa.Engine, program: Program, stopwatch: Stopwatch
    ) -> None:
        """Take a database that is made ready for the program."""
        super().__init__(database, held)
        self.writer = writer
        self._program, self._stopwatch = program, stopwatch
        self._writing = Lock()
        self._is_closed = False

    def __enter__(self) -> SqlStore:
        """The store itself."""
        return self

    def close(self) -> None:
        """Let others write, when who writes here has done so; whoever comes later gets `StoreClosed`."""
        with self._writing:
            self._is_closed = True
            super().close()

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """What is written inside is there as a whole or not at all; one who writes has the store for itself."""
        with self._writing:
            if self._is_closed:  # a connection would be made anew, past whoever writes by now
                raise StoreClosed(f"the store `{self.database.place}` is closed: open it again")
            with failing(self.database.place), self.writer.begin() as connection:
                yield connection

    def append(self, posts: Sequence[Post]) -> list[int]:
        """Keep posts until their tick; gives their places, ascending."""
        if not posts:
            return []
        rows = [(post.det_time, post.line) for post in posts]
        with self._transaction() as connection:
            return self.database.append(connection, s.inbox, rows)

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        """Keep what ticks did, all of it or nothing; raises `AlreadyCommitted` and `StoreFailed`."""
        with self._transaction() as connection:
            began = self._stopwatch()
            self._refuse_committed(connection, ticks)
            self._add_versions(connection, ticks)
            self._add_firings(connection, ticks)
            for table, rows in self._log_rows(ticks):
                if rows:
                    connection.execute(table.insert(), rows)
            if taken:
                place = s.inbox.c.place == sa.bindparam("taken")
                connection.execute(s.inbox.delete().where(place), [{"taken": one} for one in taken])
            if ticks:
                _replace_pending(connection, ticks[-1].posts)
                connection.execute(s.remembered.delete())
                share = round((self._stopwatch() - began) / len(ticks), 6)
                connection.execute(s.ticks.insert(), [{**tick_row(one), "publish_seconds": share} for one in ticks])
            if snapshot is not None:
                _keep(connection, snapshot)
                self._forget(connection)

    def remember(self, values: Mapping[str, str]) -> None:
        """Keep what functions of rules gave back, by call, until a tick is committed; the last value counts."""
        if not values:
            return
        with self._transaction() as connection:
            rows = [{"call": call, "value": value} for call, value in values.items()]
            connection.execute(_REMEMBER[connection.dialect.name], rows)

    def switch(self, turned: Turned) -> None:
        """Keep that a rule, group or trigger is enabled or disabled."""
        after = {"after_seq": turned.after_seq, "after_time": turned.after_us}
        row = {**after, "kind": str(turned.kind), "name": turned.name, "is_on": turned.on}
        with self._transaction() as connection:
            connection.execute(s.switches.insert(), row)

    def adopt(self, adoption: Adoption) -> None:
        """Let another program take the place of the one before, all of it or nothing."""
        with self._transaction() as connection:
            tables = adopted(connection, self.database, adoption, last_tick(connection))
            if adoption.snapshot is not None:
                _keep(connection, adoption.snapshot)
        self._go_on(adoption.program, tables)

    def runs(self, program: Program) -> bool:
        """Whether the store is a program's, and goes on as its: an `adopt` whose answer was lost was kept."""
        with self._transaction() as connection:
            if catalogue.stored_program(connection) != program.text:
                return False
            tables = catalogue.fit(connection, program)
        self._go_on(program, tables)
        return True

    def _go_on(self, program: Program, tables: catalogue.Tables) -> None:
        self._tables, self._firings = dict(tables.classes), dict(tables.triggers)
        self._program = program

    def _refuse_committed(self, connection: sa.Connection, ticks: Sequence[Ticked]) -> None:
        last = last_tick(connection)
        for ticked in ticks:
            if last is not None and ticked.tick <= last:
                raise AlreadyCommitted(
                    f"the tick {show_time(ticked.tick)} cannot be committed: {show_time(last)} already was"
                )
            last = ticked.tick

    def _add_versions(self, connection: sa.Connection, ticks: Sequence[Ticked]) -> None:
        history = _by_class((ticked.tick, one) for ticked in ticks for one in (*ticked.read, *ticked.derived))
        for name, parts in history.items():
            tables = self._tables[name]
            self.database.insert(connection, tables.history, history_of(tables.event_class, parts))
        if self._program.settings.archive:
            gone = _by_class((ticked.tick, one) for ticked in ticks for one in ticked.purged)
            for name, parts in gone.items():
                tables = self._tables[name]
                self.database.insert(connection, tables.archive, history_of(tables.event_class, parts))

    def _add_firings(self, connection: sa.Connection, ticks: Sequence[Ticked]) -> None:
        parts: dict[str, list[tuple[int, FiredTrigger]]] = {}
        for ticked in ticks:
            for fired in ticked.firings:
                parts.setdefault(key_of(fired.firing.trigger), []).append((ticked.tick, fired))
        for trigger in self._program.triggers:
            if (some := parts.pop(key_of(trigger.name), None)) is not None:
                table = self._firings[key_of(trigger.name)].table
                self.database.insert(connection, table, firings_of(self._program, trigger, some))
        assert not parts, "only triggers of the program fire"

    def _log_rows(self, ticks: Sequence[Ticked]) -> list[tuple[sa.Table, list[dict[str, Any]]]]:
        names = {name: tables.stored.name for name, tables in self._tables.items()}
        return [
            (s.outbox, [action_row(one) for ticked in ticks if _acts(ticked) for one in ticked.action_rows()]),
            (s.rejected, [row for ticked in ticks for row in rejected_rows(ticked)]),
            (s.purged, [row for ticked in ticks for row in purged_rows(ticked, names)]),
        ]

    def _declared(self) -> list[s.ClassTables]:
        """The classes of the program; others may have been in the store before."""
        return [self._tables[key_of(plan.event_class.name)] for plan in self._program.classes]

    def _forget(self, connection: sa.Connection) -> None:
        """Delete versions that are no longer retained, once no snapshot needs them to recover."""
        retain_us, last = self._program.settings.retain_us, last_tick(connection)
        kept = connection.execute(sa.select(s.snapshots.c.tick).order_by(s.snapshots.c.tick)).scalars().all()
        if retain_us is None or last is None or len(kept) < SNAPSHOTS_KEPT:
            return
        before = max(last - retain_us, FIRST_US)
        for tables in self._tables.values():
            number = tables.column("number")
            # All that could be old enough: a version is read at the first tick after its det_time.
            below = first_after(connection, tables, min(kept[0], before + self._program.settings.chronon_us))
            old = sa.and_(number < below, tables.column("det_time") < sa.literal(before, s.Moment))
            current = _is_current(tables, connection.dialect.name)
            deleted = tables.history.delete().where(old, ~current).returning(number)
            numbers = connection.execute(deleted).scalars().all()
            if numbers:
                gone = (s.purged.c["class"] == tables.stored.name, s.purged.c.number == sa.bindparam("gone"))
                connection.execute(s.purged.delete().where(*gone), [{"gone": one} for one in numbers])


def _is_current(tables: s.ClassTables, dialect: str) -> sa.ColumnElement[bool]:
    """Whether a version of the history is current; SQLite finds that by the index of keys, PostgreSQL would not."""
    if dialect != "sqlite":
        return sa.and_(s.is_there(tables), s.is_newest(tables))
    number, newer = tables.column("number"), tables.history.alias("augury_newer")
    same = [newer.c[column.name].is_not_distinct_from(column) for column in s.key_of_table(tables)]
    replaced = sa.exists().where(*same, newer.c[number.name] > number)
    return sa.and_(s.is_there(tables), ~replaced)


def _acts(ticked: Ticked) -> bool:
    return bool(ticked.actions or ticked.firings)


def _remembering(statement: Any) -> sa.Executable:
    found: sa.Executable = statement.on_conflict_do_update(
        index_elements=["call"], set_={"value": statement.excluded.value}
    )
    return found


_REMEMBER: Final = {
    "sqlite": _remembering(sqlite.insert(s.remembered)),
    "postgresql": _remembering(postgresql.insert(s.remembered)),
}


def _replace_pending(connection: sa.Connection, posts: Sequence[str]) -> None:
    connection.execute(s.pending.delete())
    if posts:
        rows = [{"place": place, "line": line} for place, line in enumerate(posts, 1)]
        connection.execute(s.pending.insert(), rows)


def _by_class(parts: Any) -> dict[str, list[tuple[int, ClassVersions]]]:
    found: dict[str, list[tuple[int, ClassVersions]]] = {}
    for tick, versions in parts:
        if len(versions):
            found.setdefault(key_of(versions.event_class.name), []).append((tick, versions))
    return found


def _keep(connection: sa.Connection, snapshot: Snapshot) -> None:
    connection.execute(s.snapshots.delete().where(s.snapshots.c.tick == snapshot.tick))
    connection.execute(
        s.snapshots.insert(),
        {
            "tick": snapshot.tick,
            "format": SNAPSHOT_FORMAT,
            "checksum": checksum_of(snapshot.tick, snapshot.content),
            "content": snapshot.content,
        },
    )
    kept = sa.select(s.snapshots.c.tick).order_by(s.snapshots.c.tick.desc())
    old = connection.execute(kept.offset(SNAPSHOTS_KEPT)).scalars().all()
    if old:
        connection.execute(s.snapshots.delete().where(s.snapshots.c.tick.in_(old)))

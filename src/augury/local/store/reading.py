"""A store on SQL as those see it who only read: histories, the log of ticks, and what is needed to recover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.engine.firing_rows import firing_rows
from augury.engine.history_rows import versions_in
from augury.engine.ports import Post, Snapshot, Torn
from augury.engine.replacing import Held
from augury.engine.ticked import ClassVersions
from augury.event import ClassKind, EventClass, key_of
from augury.history.views import history_schema
from augury.kernels.firing import Switched, Turned
from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.catalogue import Tables, numbers
from augury.local.store.database import Database, failing
from augury.local.store.described import described
from augury.local.store.errors import NoStore, NoSuchClass, NoSuchTrigger

SNAPSHOT_FORMAT: Final = 1

FIRST_US: Final = -62_135_596_800_000_000
"""The beginning of the year 1: no time lies before it."""

_IDS_AT_ONCE: Final = 500
_ROWS_AT_ONCE: Final = 50_000


class SqlReader:
    """What a store holds; any number of these may read while one writes."""

    def __init__(self, database: Database, held: Tables) -> None:
        """Take the tables that there are."""
        self.database = database
        self._tables = dict(held.classes)
        self._firings = dict(held.triggers)

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def __enter__(self) -> SqlReader:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def classes(self) -> tuple[EventClass, ...]:
        """The classes of the store."""
        return tuple(tables.event_class for tables in self._tables.values())

    def class_named(self, name: str) -> EventClass:
        """The class of that name; raises `NoSuchClass`."""
        if (tables := self._tables.get(key_of(name))) is not None:
            return tables.event_class
        known = tuple(event_class.name for event_class in self.classes())
        raise NoSuchClass(name, closest(name, known), known)

    def history(self, event_class: EventClass) -> pa.Table:
        """Every version of a class, in order, with the columns of `history.views`."""
        tables = self._tables_of(event_class)
        with failing(self.database.place), self.database.readers().begin() as connection:
            forgotten = _forgotten_before(connection)
            if forgotten is None:
                parts = list(self._in_parts(connection, tables, sa.true()))
            else:
                moment = sa.literal(forgotten, s.Moment)
                parts = list(self._in_parts(connection, tables, tables.column("det_time") >= moment))
                current = s.current_versions(tables).where(tables.column("det_time") < moment)
                parts.append(self.database.select(connection, current, history_schema(tables.event_class)))
        table = pa.concat_tables([history_schema(tables.event_class).empty_table(), *parts])
        return table if forgotten is None else table.sort_by(table.column_names[0])

    def everything(self, event_class: EventClass) -> pa.Table:
        """Every version of a class that is kept, in order, also what is no longer part of its history."""
        tables = self._tables_of(event_class)
        with failing(self.database.place), self.database.readers().begin() as connection:
            parts = list(self._in_parts(connection, tables, sa.true()))
        return pa.concat_tables([history_schema(tables.event_class).empty_table(), *parts])

    def known_ids(self, event_class: EventClass, event_ids: Sequence[str]) -> set[str]:
        """Those of the ids that a version of this class has."""
        column = self._tables_of(event_class).column("event_id")
        found: set[str] = set()
        with failing(self.database.place), self.database.readers().begin() as connection:
            if connection.execute(sa.select(column).where(column.isnot(None)).limit(1)).first() is None:
                return found
            among = column.in_(sa.bindparam("ids", expanding=True, type_=s.Words()))
            statement = sa.select(sa.type_coerce(column, s.Words)).where(among)
            for start in range(0, len(event_ids), _IDS_AT_ONCE):
                some = event_ids[start : start + _IDS_AT_ONCE]
                found.update(connection.execute(statement, {"ids": some}).scalars())
        return found

    def last_tick(self) -> int | None:
        """The last tick that was committed."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return last_tick(connection)

    def waiting(self) -> list[tuple[int, Post]]:
        """The posts that no committed tick has taken, with their places, in order."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            rows = connection.execute(sa.select(s.inbox).order_by(s.inbox.c.place))
            return [(place, Post(det_time, line)) for place, det_time, line in rows]

    def snapshots(self) -> Iterator[Snapshot | Torn]:
        """The snapshots that are kept, the newest first; one is read when it is asked for."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            kept = connection.execute(sa.select(s.snapshots.c.tick).order_by(s.snapshots.c.tick.desc())).scalars().all()
        for tick in kept:
            with failing(self.database.place), self.database.readers().begin() as connection:
                row = connection.execute(sa.select(s.snapshots).where(s.snapshots.c.tick == tick)).first()
            if row is not None:
                yield _snapshot(tick, row.format, row.checksum, bytes(row.content))

    def read_after(self, tick: int | None) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each tick after that one read, in order; ticks that read nothing are among them."""
        return self._read_by_tick(self._declared(), tick)

    def past(self, program: Program) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        """What each committed tick read, in order, of the classes that another program has."""
        known = ((plan.event_class, self._tables.get(key_of(plan.event_class.name))) for plan in program.classes)
        classes = [s.class_tables(one.stored, one.names, new) for new, one in known if one is not None]
        return self._read_by_tick(classes, None)

    def held(self) -> Held:
        """What there is of which class, also of those no longer in the program."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            versions = numbers(connection, self._tables.values())
            has_ticks = last_tick(connection) is not None
        return Held(tuple(one.stored for one in self._tables.values()), versions, has_ticks)

    def begun(self) -> dict[str, int]:
        """By trigger, by the name it is matched by, the tick after which it began; from the first on: left out."""
        c = s.triggers.c
        with failing(self.database.place), self.database.readers().begin() as connection:
            rows = connection.execute(sa.select(c.trigger, c.since_tick).where(c.since_tick.isnot(None)))
            return {key_of(name): tick for name, tick in rows}

    def program_text(self) -> str | None:
        """The text of the program whose ticks these are; None where an older Augury did not keep it."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return catalogue.stored_program(connection)

    def _read_by_tick(
        self, classes: Iterable[s.ClassTables], tick: int | None
    ) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
        with failing(self.database.place), self.database.readers().begin() as connection:
            wanted = sa.select(s.ticks.c.tick).order_by(s.ticks.c.tick)
            later = wanted if tick is None else wanted.where(s.ticks.c.tick > tick)
            ticks = connection.execute(later).scalars().all()
            read = [one for one in classes if one.event_class.kind is not ClassKind.COMPLEX]
            sources = [self._versions_after(connection, one, tick) for one in read]
            heads = [next(source, None) for source in sources]
            for at in ticks:
                found = []
                for place, head in enumerate(heads):
                    if head is not None and head[0] == at:
                        found.append(head[1])
                        heads[place] = next(sources[place], None)
                yield at, tuple(found)

    def firings(self, trigger: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The firings of a trigger with a greater number, in order; raises `NoSuchTrigger`."""
        held = self._firings.get(key_of(trigger))
        if held is None:
            known = tuple(one.trigger for one in self._firings.values())
            raise NoSuchTrigger(trigger, closest(trigger, known), known)
        number = held.column("number")
        statement = sa.select(*held.table.c).where(number > after).order_by(number).limit(limit)
        with failing(self.database.place), self.database.readers().begin() as connection:
            found = self.database.select(connection, statement, held.shape.schema())
        return firing_rows(found, held.shape)

    def firing_counts(self) -> dict[str, int]:
        """How often each trigger has fired in committed ticks, by name; those that never did are left out."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            found = (
                (one.trigger, connection.execute(sa.select(sa.func.max(one.column("number")))).scalar())
                for one in self._firings.values()
            )
            return {name: count for name, count in found if count is not None}

    def posts_pending(self) -> tuple[str, ...]:
        """What rules posted at the last committed tick itself, for the next one to read."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return tuple(connection.execute(sa.select(s.pending.c.line).order_by(s.pending.c.place)).scalars())

    def remembered(self) -> dict[str, str]:
        """What functions of rules gave back since the last commit of a tick, by call."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return dict(map(tuple, connection.execute(sa.select(s.remembered)).all()))

    def switched(self) -> list[Turned]:
        """Every switch there was, in order."""
        c = s.switches.c
        with failing(self.database.place), self.database.readers().begin() as connection:
            rows = connection.execute(sa.select(c.after_seq, c.after_time, c.kind, c.name, c.is_on).order_by(c.id))
            return [Turned(seq, time, Switched(kind), name, bool(on)) for seq, time, kind, name, on in rows]

    def log(self, name: str) -> pa.Table:
        """A table that is no history: `ticks`, `rejected`, `actions` (what is to be done) or `catalogue`."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return _log(connection, name)

    def _versions_after(
        self, connection: sa.Connection, tables: s.ClassTables, tick: int | None
    ) -> Iterator[tuple[int, ClassVersions]]:
        """The versions of a class after a tick, by tick."""
        after = 0 if tick is None else first_after(connection, tables, tick) - 1
        held: pa.Table | None = None
        for part in self._in_parts(connection, tables, sa.true(), after):
            rows = part if held is None else pa.concat_tables([held, part])
            *whole, (_, last) = versions_in(tables.event_class, rows)
            yield from whole
            held = rows.slice(rows.num_rows - len(last))  # its tick may go on in the next part
        if held is not None:
            yield from versions_in(tables.event_class, held)

    def _in_parts(
        self, connection: sa.Connection, tables: s.ClassTables, kept: sa.ColumnElement[bool], after: int = 0
    ) -> Iterator[pa.Table]:
        number = tables.column("number")
        schema = history_schema(tables.event_class)
        while True:
            statement = sa.select(*tables.history.c).where(number > after, kept).order_by(number).limit(_ROWS_AT_ONCE)
            part = self.database.select(connection, statement, schema)
            if part.num_rows:
                yield part
                after = part.column(0)[-1].as_py()
            if part.num_rows < _ROWS_AT_ONCE:
                return

    def _declared(self) -> Iterable[s.ClassTables]:
        """The classes that take part."""
        return self._tables.values()

    def _tables_of(self, event_class: EventClass) -> s.ClassTables:
        tables = self._tables.get(key_of(event_class.name))
        if tables is None:
            raise NoSuchClass(event_class.name, None, ())
        return tables


def read_store(database: Database) -> SqlReader:
    """A store to be read, with the classes that it holds; raises `NoStore` and `StoreMismatch`."""
    if not database.exists():
        raise NoStore(f"there is no store `{database.place}`")
    with failing(database.place), database.readers().begin() as connection:
        if not catalogue.has_catalogue(connection):
            raise NoStore(f"`{database.place}` holds no store of Augury")
        return SqlReader(database, catalogue.all_tables(connection))


def last_tick(connection: sa.Connection) -> int | None:
    """The last tick that was committed."""
    return connection.execute(sa.select(sa.func.max(s.ticks.c.tick, type_=s.Moment()))).scalar()


def first_after(connection: sa.Connection, tables: s.ClassTables, tick: int) -> int:
    """The least number such that it and all greater ones belong to later ticks: ticks grow with the numbers."""
    number, of_tick = tables.column("number"), tables.column("tick")
    last = connection.execute(sa.select(sa.func.max(number))).scalar() or 0
    low, high = 1, last + 1
    while low < high:
        middle = (low + high) // 2
        wanted = sa.select(of_tick).where(number >= middle).order_by(number).limit(1)
        found = connection.execute(wanted).scalar()
        if found is not None and found <= tick:
            low = middle + 1
        else:
            high = middle
    return low


def _forgotten_before(connection: sa.Connection) -> int | None:
    """Versions detected before are no longer part of a history, the current ones apart; None where all are."""
    retain = connection.execute(sa.select(s.settings.c.value).where(s.settings.c.name == "retain_us")).scalar()
    last = last_tick(connection) if retain is not None else None
    return None if retain is None or last is None else max(last - int(retain), FIRST_US)


def checksum_of(tick: int, content: bytes) -> str:
    """What tells a snapshot from one that was damaged."""
    return sha256(f"{SNAPSHOT_FORMAT} {tick}\n".encode() + content).hexdigest()


def _snapshot(tick: int, format_: int, checksum: str, content: bytes) -> Snapshot | Torn:
    if format_ != SNAPSHOT_FORMAT:
        return Torn(tick, f"it has format {format_}, and this version of Augury reads format {SNAPSHOT_FORMAT}")
    if checksum_of(tick, content) != checksum:
        return Torn(tick, "its content does not have the checksum that was noted with it")
    return Snapshot(tick, content)


_LOGS: Final = {"ticks": s.ticks, "rejected": s.rejected, "actions": s.outbox}


def _log(connection: sa.Connection, name: str) -> pa.Table:
    if name == "catalogue":
        return described(connection)
    table = _LOGS[name]
    columns = [column for column in table.c if column.name != "id"]
    rows = connection.execute(sa.select(*columns).order_by(*table.primary_key.columns)).all()
    found = {}
    for place, column in enumerate(columns):
        values = pa.array([row[place] for row in rows], _arrow_type(column.type))
        found[column.name] = values.cast(pa.timestamp("us", "UTC")) if isinstance(column.type, s.Moment) else values
    return pa.table(found)


def _arrow_type(of: Any) -> pa.DataType:
    if isinstance(of, sa.Double):
        return pa.float64()
    return pa.string() if isinstance(of, sa.Text | s.Words) else pa.int64()

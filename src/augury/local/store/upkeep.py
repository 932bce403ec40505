"""What people do to a store as a whole: look at it, make a copy of it, put a copy into place, migrate it.

In: paths or URLs. Out: files, or what there is to say. A copy is made while an engine writes and holds what was
committed when it began; nothing that is there is ever overwritten. PostgreSQL has programs of its own for copies.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from augury.clock import show_time
from augury.event import key_of
from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.database import Database, database, failing
from augury.local.store.errors import NoStore, StoreError
from augury.local.store.firing_tables import stored_triggers
from augury.local.store.migrations import format_of, require_readable


class NotHere(StoreError):
    """A copy that cannot be made by Augury itself, or not there; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Info:
    """What there is to say of a store: pairs of a name and a value, then its classes and triggers with their counts."""

    facts: tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, str, int, bool], ...] = ()
    triggers: tuple[tuple[str, int, bool], ...] = ()

    def lines(self) -> list[str]:
        """As people read it."""
        width = max(len(name) for name, _ in self.facts)
        found = [f"{name:<{width}}  {value}" for name, value in self.facts]
        gone = {True: "", False: ", no longer in the program"}
        found += [
            f"class {name} ({kind}): {_count(n, 'version')}{gone[there]}" for name, kind, n, there in self.classes
        ]
        return found + [f"trigger {name}: {_count(n, 'firing')}{gone[there]}" for name, n, there in self.triggers]


def store_info(url: str) -> Info:
    """What a store holds; of one in an older or newer format only which. Raises `NoStore` and `StoreFailed`."""
    held = _existing(url)
    try:
        with failing(held.place), held.readers().begin() as connection:
            written = format_of(connection)
            facts = [("store", held.place), ("format", str(written))]
            if written != s.STORE_FORMAT:
                how = "augury store migrate makes it" if written < s.STORE_FORMAT else "this Augury reads up to"
                return Info((*facts, ("", f"{how} format {s.STORE_FORMAT}")))
            return _info(connection, [*facts, ("bytes", f"{_bytes(connection):,}")])
    finally:
        held.close()


def _info(connection: sa.Connection, facts: list[tuple[str, str]]) -> Info:
    last = connection.execute(sa.select(s.ticks.c.tick).order_by(s.ticks.c.tick.desc()).limit(1)).scalar()
    waiting = sa.select(sa.func.count()).select_from(s.outbox).where(s.IS_WAITING)
    facts += [
        ("ticks", f"{_rows(connection, s.ticks):,}"),
        ("last tick", "none" if last is None else show_time(last)),
        ("posts waiting", f"{_rows(connection, s.inbox) + _rows(connection, s.pending):,}"),
        ("actions waiting", f"{connection.execute(waiting).scalar() or 0:,}"),
        ("rejected", f"{_rows(connection, s.rejected):,}"),
    ]
    known = catalogue.stored(connection)
    counts = catalogue.numbers(connection, catalogue.tables_of(known).values())
    names = [(one.event_class.name, one.event_class.kind.value, one.is_there) for one in known]
    classes = tuple((name, kind, counts[key_of(name)][0], there) for name, kind, there in names)
    triggers = tuple(
        (one.trigger, _rows(connection, one.table), one.is_there) for one in stored_triggers(connection).values()
    )
    return Info(tuple(facts), classes, triggers)


def back_up(url: str, path: str) -> None:
    """Copy a store into a file that is not there yet; raises `NotHere`, `NoStore`, `StoreMismatch`, `StoreFailed`."""
    held = _existing(url)
    try:
        target = _free(path, "name another file, or move that one away")
        if (schema := _schema(held)) is not None:
            command = f"pg_dump --format=custom --no-owner --schema={schema} --file={path} URL"
            raise NotHere(f"PostgreSQL makes copies itself: {command}")
        with failing(held.place), held.readers().begin() as connection:
            require_readable(connection)
        _copied(Path(held.place).expanduser(), target, held.place)
    finally:
        held.close()


def restore(path: str, url: str) -> None:
    """Put a copy into the place of a store that is not there; raises as `back_up` does, and writes nothing then."""
    target = database(url)
    try:
        if _is_postgres(target):
            raise NotHere(f"PostgreSQL puts copies back itself: pg_restore --no-owner --dbname=URL {path}")
        held = _existing(path)
        try:
            with failing(held.place), held.readers().begin() as connection:
                require_readable(connection)
            free = _free(target.place, "name another place, or move that one away first")
            _copied(Path(held.place).expanduser(), free, held.place)
        finally:
            held.close()
    finally:
        target.close()


def _copied(source: Path, target: Path, place: str) -> None:
    """Copy a file of SQLite page by page, whole and on the disk before it has its name."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with (
            failing(place),
            closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True)) as reading,
            closing(sqlite3.connect(part)) as writing,
        ):
            reading.backup(writing)
            damage = writing.execute("PRAGMA quick_check").fetchone()[0]
        if damage != "ok":
            raise NotHere(f"the store `{place}` is damaged: {damage}")
        descriptor = os.open(part, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(part, target)  # unlike a rename it replaces nothing
    except FileExistsError:
        raise NotHere(f"`{target}` is there by now: nothing was written") from None
    except OSError as error:
        raise NotHere(f"`{target}` cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _free(path: str, proposal: str) -> Path:
    target = Path(path).expanduser().absolute()
    if target.exists():
        raise NotHere(f"`{path}` is already there: {proposal}")
    if not target.parent.is_dir():
        raise NotHere(f"there is no folder `{Path(path).parent}`")
    return target


def _existing(url: str) -> Database:
    held = database(url)
    try:
        if not held.exists():
            raise NoStore(f"there is no store `{held.place}`")
        with failing(held.place), held.readers().begin() as connection:
            if not catalogue.has_catalogue(connection):
                raise NoStore(f"`{held.place}` holds no store of Augury")
    except BaseException:
        held.close()
        raise
    return held


def _is_postgres(held: Database) -> bool:
    return held.readers().dialect.name == "postgresql"


def _schema(held: Database) -> str | None:
    """The schema that holds a store on PostgreSQL."""
    if not _is_postgres(held):
        return None
    with failing(held.place), held.readers().begin() as connection:
        return str(connection.exec_driver_sql("SELECT current_schema()").scalar())


def _bytes(connection: sa.Connection) -> int:
    if connection.dialect.name == "postgresql":
        of = "pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)"
        asked = f"SELECT sum({of})::bigint FROM pg_tables WHERE schemaname = current_schema()"
    else:
        asked = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    return int(connection.exec_driver_sql(asked).scalar() or 0)


def _rows(connection: sa.Connection, table: sa.Table) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

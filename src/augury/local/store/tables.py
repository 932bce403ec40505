"""The tables of a store as SQLAlchemy knows them: ours, and those of a class.

In: event classes and the names of their tables and columns. Out: tables, views and indexes, to be created. Values of
class tables are converted in bulk by `sqlite` and `postgres`; here are only the types that comparisons in SQL need.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, assert_never

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.sql.elements import quoted_name
from sqlalchemy.types import TypeDecorator, TypeEngine

from augury import types as t
from augury.clock import microseconds_of, show_time
from augury.engine.log_rows import COUNTS, PHASES
from augury.event import EventClass
from augury.history.versions import ANNOUNCE, CHANGE
from augury.history.views import CHANGES, key_columns, system_names
from augury.local.store.names import ClassNames, attribute_columns, shortened, system_columns

STORE_FORMAT: Final = 2
"""Counts up whenever what is kept, or how, is no longer as an older Augury reads it."""

ours = sa.MetaData()


class Moment(TypeDecorator[int]):
    """Microseconds since the epoch here; `timestamptz` on PostgreSQL, ISO text of fixed width elsewhere."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        """What the database has for it."""
        on_postgres = dialect.name == "postgresql"
        return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True) if on_postgres else sa.Text())

    def process_bind_param(self, value: int | None, dialect: sa.Dialect) -> Any:
        """As the database takes it."""
        if value is None:
            return None
        text = fixed_width(value)
        return datetime.fromisoformat(text) if dialect.name == "postgresql" else text

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> int | None:
        """As it is here."""
        if value is None:
            return None
        return microseconds_of(datetime.fromisoformat(value) if isinstance(value, str) else value)


class Words(TypeDecorator[str]):
    """Text of any characters, also those that PostgreSQL refuses."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        """As the database takes it; half a character, as in the name of a file, is written `\\udcff`."""
        if value is None:
            return None
        whole = value.encode("utf-8", "backslashreplace").decode()
        return escaped(whole) if dialect.name == "postgresql" else whole

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        """As it was."""
        return unescaped(value) if value is not None and dialect.name == "postgresql" else value


_ESCAPE: Final = "\ufdd0"
"""No character, says Unicode, and so in hardly any text; it stands before what had to be replaced, itself included."""


def escaped(text: str) -> str:
    """The text without NUL, which PostgreSQL refuses."""
    return text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")


def unescaped(text: str) -> str:
    """The text as it was."""
    return text.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


def fixed_width(microseconds: int) -> str:
    """ISO-8601 with six digits and `Z`: texts compare as the moments do."""
    text = show_time(microseconds)
    return text if "." in text else f"{text[:-1]}.000000Z"


COUNT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A whole number; SQLite numbers rows by itself only where it is called INTEGER."""

SEQS: Final = sa.Text().with_variant(postgresql.ARRAY(sa.BigInteger), "postgresql")
"""Numbers of versions: JSON, where a database has no arrays."""


def required(name: str, kind: Any, **options: Any) -> sa.Column[Any]:
    """A column that is never NULL."""
    return sa.Column(name, kind, nullable=False, **options)


ticks = sa.Table(
    "augury_ticks",
    ours,
    sa.Column("tick", Moment, primary_key=True),
    required("last_seq", sa.BigInteger),
    *(required(name, sa.BigInteger) for name in COUNTS),
    *(required(f"{name}_seconds", sa.Double) for name in PHASES),
    sa.Column("publish_seconds", sa.Double),
    required("failed", Words),
    required("warnings", Words),
    required("errors", Words),
)
"""What publishing took is NULL of ticks that were committed before it was noted."""

outbox = sa.Table(
    "augury_outbox",
    ours,
    sa.Column("id", COUNT, primary_key=True),
    required("idempotency_key", Words, unique=True),
    required("action", Words),
    required("arguments", Words),
    required("event", Words),
    required("key", Words),
    required("tick", Moment),
    required("statement", sa.Integer),
    required("place", sa.Integer),
    sa.Column("seq", sa.BigInteger),
    required("state", Words),
    sa.Column("trigger", Words),
    sa.Column("rule", Words),
)

IS_WAITING: Final = outbox.c.state == sa.literal_column("'waiting'")
"""Written out, for SQLite and PostgreSQL use an index of some rows only where the text says that it suffices."""

OUTBOX_INDEXES: Final = (
    sa.Index(
        "augury_outbox_action", outbox.c.action, outbox.c.id, sqlite_where=IS_WAITING, postgresql_where=IS_WAITING
    ),
    sa.Index(
        "augury_outbox_event",
        *(outbox.c[name] for name in ("event", "key", "tick", "id")),
        sqlite_where=IS_WAITING,
        postgresql_where=IS_WAITING,
    ),
)
"""What waits, by action, and by the event it is about. Older stores lack these, and `augury_deliveries`."""

deliveries = sa.Table(
    "augury_deliveries",
    ours,
    sa.Column("id", COUNT, primary_key=True, autoincrement=False),
    required("action", Words),
    required("attempts", sa.Integer),
    required("reason", Words),
    sa.Column("tried_at", Moment),
    sa.Column("next_at", Moment),
)

_next = deliveries.c.next_at.isnot(None)
DELIVERIES_INDEX: Final = sa.Index(
    "augury_deliveries_next", deliveries.c.action, deliveries.c.next_at, sqlite_where=_next, postgresql_where=_next
)

rejected = sa.Table(
    "augury_rejected",
    ours,
    sa.Column("id", COUNT, primary_key=True),
    required("tick", Moment),
    required("place", Words),
    required("event", Words),
    required("reason", Words),
    required("raw", Words),
)

inbox = sa.Table(
    "augury_inbox",
    ours,
    sa.Column("place", COUNT, primary_key=True),
    required("det_time", Moment),
    required("line", Words),
    sqlite_autoincrement=True,  # a place is never given twice
)

snapshots = sa.Table(
    "augury_snapshots",
    ours,
    sa.Column("tick", Moment, primary_key=True),
    required("format", sa.Integer),
    required("checksum", sa.Text),
    required("content", sa.LargeBinary),
)

purged = sa.Table(
    "augury_purged",
    ours,
    sa.Column("class", Words, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    required("tick", Moment),
)

classes = sa.Table(
    "augury_classes",
    ours,
    sa.Column("class", Words, primary_key=True),
    required("position", sa.Integer),
    required("kind", Words),
    required("mutable", sa.Boolean),
    sa.Column("lifespan_us", sa.BigInteger),
    required("key", Words),
    required("table_name", Words),
    required("now_name", Words),
    required("archive_name", Words),
    required("meaning", Words),
    required("is_there", sa.Boolean, server_default=sa.true()),
)
"""A class that the program no longer has is not there; its tables stay."""

former = sa.Table(
    "augury_former",
    ours,
    sa.Column("table_name", Words, primary_key=True),
    required("class", Words),
    required("until_tick", Moment),
    required("meaning", Words),
)
"""What complex classes had found before they came to mean something else."""

attributes = sa.Table(
    "augury_attributes",
    ours,
    sa.Column("class", Words, primary_key=True),
    sa.Column("column_name", Words, primary_key=True),
    required("name", Words),
    required("role", Words),
    required("position", sa.Integer),
    required("type", Words),
)

actions = sa.Table(
    "augury_actions",
    ours,
    sa.Column("class", Words, primary_key=True),
    sa.Column("statement", sa.Integer, primary_key=True),
    sa.Column("place", sa.Integer, primary_key=True),
    required("condition", Words),
    required("action", Words),
)

triggers = sa.Table(
    "augury_triggers",
    ours,
    sa.Column("trigger", Words, primary_key=True),
    sa.Column("position", sa.Integer),
    sa.Column("since_tick", Moment),
    required("table_name", Words),
    required("meaning", Words),
)
"""The position is NULL where the program no longer has the trigger: its firings stay.

A trigger has seen nothing up to the tick `since_tick`; NULL is from the first on.
"""

parameters = sa.Table(
    "augury_parameters",
    ours,
    sa.Column("trigger", Words, primary_key=True),
    sa.Column("column_name", Words, primary_key=True),
    required("name", Words),
    required("role", Words),
    required("position", sa.Integer),
    required("type", Words),
)

rules = sa.Table(
    "augury_rules",
    ours,
    sa.Column("rule", Words, primary_key=True),
    required("position", sa.Integer),
    required("meaning", Words),
)

groups = sa.Table(
    "augury_groups",
    ours,
    sa.Column("rule_group", Words, primary_key=True),
    sa.Column("rule", Words, primary_key=True),
    required("position", sa.Integer),
)

pending = sa.Table(
    "augury_pending",
    ours,
    sa.Column("place", COUNT, primary_key=True, autoincrement=False),
    required("line", Words),
)

remembered = sa.Table(
    "augury_remembered", ours, sa.Column("call", Words, primary_key=True), sa.Column("value", Words, nullable=False)
)

switches = sa.Table(
    "augury_switches",
    ours,
    sa.Column("id", COUNT, primary_key=True),
    required("after_seq", sa.BigInteger),
    sa.Column("after_time", Moment),
    required("kind", Words),
    required("name", Words),
    required("is_on", sa.Boolean),
)

settings = sa.Table("augury_settings", ours, sa.Column("name", Words, primary_key=True), sa.Column("value", Words))


@dataclass(frozen=True, slots=True)
class ClassTables:
    """The tables of a class; their columns stand in the order of its history.

    `event_class` is the class as a program has it now, `stored` as the store calls it: names may be spelled otherwise.
    """

    event_class: EventClass
    stored: EventClass
    names: ClassNames
    history: sa.Table
    archive: sa.Table

    def column(self, name: str) -> sa.Column[Any]:
        """The column of the history that is no attribute, by our own name for it."""
        found: sa.Column[Any] = self.history.c[getattr(system_names(self.stored), name)]
        return found


def class_tables(stored: EventClass, names: ClassNames, event_class: EventClass | None = None) -> ClassTables:
    """The tables of a class, as they are or are to be."""
    tables = sa.MetaData()
    history, archive = (_table(stored, name, tables) for name in (names.table, names.archive))
    return ClassTables(event_class or stored, stored, names, history, archive)


def _table(event_class: EventClass, name: str, tables: sa.MetaData) -> sa.Table:
    system = system_names(event_class)
    columns = [
        required(quoted(system.number), COUNT, autoincrement=False),
        required(quoted(system.tick), Moment),
        required(quoted(system.change), sa.Text),
        sa.Column(quoted(system.seq), sa.BigInteger),
        sa.Column(quoted(system.occ_time), Moment),
        required(quoted(system.det_time), Moment),
        sa.Column(quoted(system.constituents), SEQS),
        sa.Column(quoted(system.event_id), sa.Text),
        sa.Column(quoted(system.source_time), Moment),
    ]
    if system.event_number is not None:
        columns.append(required(quoted(system.event_number), sa.BigInteger))
    assert [column.name for column in columns] == system_columns(event_class)
    pairs = zip(event_class.attributes, attribute_columns(event_class), strict=True)
    columns += [sa.Column(quoted(column), sql_type(attribute.type)) for attribute, column in pairs]
    # Names of its own, for on PostgreSQL a class might be called like a constraint.
    number = columns.pop(0)
    key = sa.PrimaryKeyConstraint(system.number, name=quoted(shortened(f"augury_{name}_number")))
    return sa.Table(quoted(name), tables, number, *columns, key)


def sql_type(of: t.Type) -> TypeEngine[Any]:
    """How values of a type are kept."""
    match of:
        case t.Boolean():
            return sa.Boolean()
        case t.Int():
            return sa.Integer()
        case t.BigInt() | t.Duration():
            return sa.BigInteger()
        case t.Double():
            return sa.Double()
        case t.Decimal(precision, scale):
            return sa.Numeric(precision, scale)
        case t.String() | t.Null():
            # Without a length: it is checked where events are accepted, and NUL takes more than one character.
            return sa.Text()
        case t.Timestamp():
            return Moment()
        case t.Date():
            return sa.Date().with_variant(sa.Text(), "sqlite")
        case _:
            assert_never(of)


def event_id_index(tables: ClassTables) -> sa.Index:
    """Finds versions by their event_id."""
    column = tables.column("event_id")
    there = column.isnot(None)
    name = shortened(f"augury_{tables.names.table}_event_id")
    return sa.Index(quoted(name), column, sqlite_where=there, postgresql_where=there)


def key_index(tables: ClassTables) -> sa.Index:
    """Finds the newest version of an event."""
    name = shortened(f"augury_{tables.names.table}_key")
    return sa.Index(quoted(name), *key_of_table(tables), tables.column("number"))


def key_of_table(tables: ClassTables) -> list[sa.Column[Any]]:
    """The columns that say which event a version is of."""
    by_name = dict(zip(history_names(tables.event_class), tables.history.c, strict=True))
    return [by_name[name] for name in key_columns(tables.event_class)]


def history_names(event_class: EventClass) -> list[str]:
    """The names of the history's columns as `history.views` has them, in the order of the table's."""
    return [*system_names(event_class).all(), *(attribute.name for attribute in event_class.attributes)]


def is_newest(tables: ClassTables) -> sa.ColumnElement[bool]:
    """No version of the same event is newer."""
    other = tables.history.alias("augury_other")
    number = tables.column("number")
    newest = sa.select(sa.func.max(other.c[number.name])).group_by(*(other.c[c.name] for c in key_of_table(tables)))
    return number.in_(newest)


def current_versions(tables: ClassTables) -> sa.Select[Any]:
    """The newest version of each event, if it does not withdraw and was not purged."""
    return sa.select(*tables.history.c).where(is_there(tables), is_newest(tables))


def is_there(tables: ClassTables) -> sa.ColumnElement[bool]:
    """The version does not withdraw, and its event was not purged."""
    of_class, number = purged.c["class"] == tables.stored.name, purged.c.number == tables.column("number")
    return sa.and_(
        tables.column("change").in_([CHANGES[ANNOUNCE], CHANGES[CHANGE]]), ~sa.exists().where(of_class, number)
    )


def quoted(name: str) -> quoted_name:
    """A name as it is, whatever a database thinks of it."""
    return quoted_name(name, quote=True)

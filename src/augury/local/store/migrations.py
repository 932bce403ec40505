"""A store that an older Augury wrote → one that this Augury writes: an ordered tuple of plain functions.

In: a connection that may write, inside one transaction. Out: the store in the present format, or untouched. A migration
is never changed once a release had it; it names tables and columns itself, as they were then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from augury.local.store import tables as s
from augury.local.store.errors import StoreMismatch

Migration = Callable[[sa.Connection], None]


def _tables(*tables: tuple[str, dict[str, Any], tuple[str, ...], tuple[str, ...]]) -> sa.MetaData:
    """Tables by name: columns with their types, the primary key, and which columns may be NULL."""
    found = sa.MetaData()
    for name, columns, keys, nullable in tables:
        made = (
            sa.Column(one, kind, primary_key=one in keys, nullable=one in nullable, autoincrement=one == "id")
            for one, kind in columns.items()
        )
        sa.Table(name, found, *made)
    return found


def _words(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, s.Words)


_FORMAT_2: Final = _tables(
    (
        "augury_triggers",
        {
            "trigger": s.Words,
            "position": sa.Integer,
            "since_tick": s.Moment,
            **_words("table_name", "meaning"),
        },
        ("trigger",),
        ("position", "since_tick"),
    ),
    (
        "augury_parameters",
        {**_words("trigger", "column_name", "name", "role"), "position": sa.Integer, "type": s.Words},
        ("trigger", "column_name"),
        (),
    ),
    ("augury_rules", {"rule": s.Words, "position": sa.Integer, "meaning": s.Words}, ("rule",), ()),
    ("augury_groups", {**_words("rule_group", "rule"), "position": sa.Integer}, ("rule_group", "rule"), ()),
    ("augury_pending", {"place": s.COUNT, "line": s.Words}, ("place",), ()),
    ("augury_remembered", _words("call", "value"), ("call",), ()),
    (
        "augury_switches",
        {
            "id": s.COUNT,
            "after_seq": sa.BigInteger,
            "after_time": s.Moment,
            **_words("kind", "name"),
            "is_on": sa.Boolean,
        },
        ("id",),
        ("after_time",),
    ),
    (
        "augury_former",
        {**_words("table_name", "class"), "until_tick": s.Moment, "meaning": s.Words},
        ("table_name",),
        (),
    ),
)


def _triggers(connection: sa.Connection) -> None:
    """Format 2: firings of triggers, what rules post and functions give back, switches, programs that change.

    Of a tick it has what publishing took.
    """
    for name in ("trigger", "rule"):
        connection.exec_driver_sql(f"ALTER TABLE augury_outbox ADD COLUMN {name} TEXT")
    connection.exec_driver_sql("ALTER TABLE augury_classes ADD COLUMN is_there BOOLEAN NOT NULL DEFAULT TRUE")
    double = sa.Double().compile(dialect=connection.dialect)
    connection.exec_driver_sql(f"ALTER TABLE augury_ticks ADD COLUMN publish_seconds {double}")
    _FORMAT_2.create_all(connection)


MIGRATIONS: Final[tuple[Migration, ...]] = (_triggers,)
"""The first makes format 2 of format 1, and so on."""

assert len(MIGRATIONS) + 1 == s.STORE_FORMAT, "each format but the first has the migration that leads to it"


def format_of(connection: sa.Connection) -> int:
    """The format in which a store is written; raises `StoreMismatch` for what is none."""
    written = connection.execute(sa.select(s.settings.c.value).where(s.settings.c.name == "store_format")).scalar()
    if written is None or not written.isdecimal() or int(written) < 1:
        raise StoreMismatch((f"the store has format {written}, and there was never such a one",))
    return int(written)


def require_readable(connection: sa.Connection) -> int:
    """The format of a store that this version of Augury reads or can migrate; raises `StoreMismatch`."""
    found = format_of(connection)
    if found > s.STORE_FORMAT:
        raise StoreMismatch(
            (
                f"the store has format {found}, and this version of Augury reads formats up to {s.STORE_FORMAT}: "
                "it was written by a newer one, which is needed to open it; nothing was changed",
            )
        )
    return found


def require_present(connection: sa.Connection) -> None:
    """Refuse a store that is not in the present format; raises `StoreMismatch`."""
    found = require_readable(connection)
    if found < s.STORE_FORMAT:
        raise StoreMismatch(
            (
                f"the store has format {found}, and this version of Augury reads format {s.STORE_FORMAT}: migrate it "
                "by `augury store migrate STORE`, or by running its program on it; what is in it stays, and an older "
                "Augury cannot open it afterwards",
            )
        )


def migrate(connection: sa.Connection) -> str | None:
    """Bring a store into the present format; a sentence that says so, None if it is. Raises `StoreMismatch`."""
    found = require_readable(connection)
    if found == s.STORE_FORMAT:
        return None
    for migration in MIGRATIONS[found - 1 :]:
        migration(connection)
    same = s.settings.c.name == "store_format"
    connection.execute(s.settings.update().where(same).values(value=str(s.STORE_FORMAT)))
    return f"the store was migrated from format {found} to format {s.STORE_FORMAT}"

"""A row into a table of any database that SQLAlchemy knows, once by its key; for the executor SQL.

In: a URL, a table, what is known of a row by name, and values without names. Out: the row, in a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import sqlalchemy as sa

KEY: Final = "idempotency_key"
"""The column by which a row that is there already is known."""


class InsertFailed(RuntimeError):
    """A row that was not inserted; the message holds no password."""


class CannotInsert(InsertFailed):
    """… and never will be, as long as the table, or the row, is what it is."""


class Inserter:
    """Inserts rows into one table, which is made with columns for what rows are known by if it is not there."""

    def __init__(self, url: str, table: str, names: Sequence[str]) -> None:
        """Note where; nothing is opened. Raises `CannotInsert` for a URL that is none."""
        scheme, mark, rest = url.partition("://")
        is_postgres = bool(mark) and scheme in ("postgres", "postgresql")
        try:
            self._engine = sa.create_engine(f"postgresql+psycopg://{rest}" if is_postgres else url)
        except (sa.exc.ArgumentError, ImportError) as error:
            raise CannotInsert(f"the database cannot be reached: {error}") from None
        self.place = self._engine.url.render_as_string(hide_password=True)
        self._name, self._names = table, tuple(names)
        self._table: sa.Table | None = None

    def insert(self, known: Mapping[str, Any], values: Sequence[Any]) -> None:
        """Insert a row, unless one with its key is there; raises `InsertFailed`."""
        try:
            with self._engine.begin() as connection:
                table = self._ready(connection)
                row = _row(table, known, values)
                same = sa.select(sa.literal(1)).where(table.c[KEY] == row[KEY])
                if connection.execute(same).first() is None:
                    connection.execute(table.insert(), row)
        except (sa.exc.OperationalError, sa.exc.InterfaceError, sa.exc.TimeoutError) as error:
            self._table = None
            raise InsertFailed(_reason(error)) from None
        except sa.exc.IntegrityError as error:
            if not self._is_there(known[KEY]):
                raise CannotInsert(_reason(error)) from None
        except sa.exc.SQLAlchemyError as error:
            self._table = None
            raise CannotInsert(_reason(error)) from None

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def _is_there(self, key: str) -> bool:
        assert self._table is not None, "a row was refused by it"
        with self._engine.connect() as connection:
            same = sa.select(sa.literal(1)).where(self._table.c[KEY] == key)
            return connection.execute(same).first() is not None

    def _ready(self, connection: sa.Connection) -> sa.Table:
        if self._table is not None:
            return self._table
        schema, dot, name = self._name.rpartition(".")
        tables = sa.MetaData(schema=schema if dot else None)
        if sa.inspect(connection).has_table(name, schema=schema if dot else None):
            table = sa.Table(name, tables, autoload_with=connection)
            if KEY not in table.c:
                raise CannotInsert(f"the table `{self._name}` has no column `{KEY}`: add one, and let it be unique")
        else:
            key = sa.Column(KEY, sa.String(64), primary_key=True)
            rest = (sa.Column(one, sa.Text) for one in self._names if one != KEY)
            table = sa.Table(name, tables, key, *rest)
            try:
                table.create(connection)
            except (sa.exc.ProgrammingError, sa.exc.IntegrityError) as error:
                # Another process may have made it at the same moment: the next try finds it.
                raise InsertFailed(f"the table `{self._name}` could not be made: {_reason(error)}") from None
        self._table = table
        return table


def _row(table: sa.Table, known: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """What is known goes to columns of that name, the values in order to the others; all are left out if there is none.

    Columns that the database fills by itself are not among the others.
    """
    row = {name: value for name, value in known.items() if name in table.c}
    others = [column for column in table.c if column.name not in known and not _fills_itself(column)]
    if others and len(others) != len(values):
        names = ", ".join(column.name for column in others)
        raise CannotInsert(f"the action has {len(values)} arguments, and the table takes {len(others)}: {names}")
    row |= {column.name: _fitting(column, value) for column, value in zip(others, values, strict=False)}
    return row


def _fills_itself(column: sa.Column[Any]) -> bool:
    is_number = column.primary_key and isinstance(column.type, sa.Integer)
    return is_number or column.server_default is not None or column.identity is not None


def _fitting(column: sa.Column[Any], value: Any) -> Any:
    """Times come as ISO texts."""
    try:
        if isinstance(value, str) and isinstance(column.type, sa.DateTime):
            return datetime.fromisoformat(value)
        if isinstance(value, str) and isinstance(column.type, sa.Date):
            return date.fromisoformat(value[:10])
    except ValueError:
        raise CannotInsert(f"`{value}` is no time for the column `{column.name}`") from None
    return value


def _reason(error: sa.exc.SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())

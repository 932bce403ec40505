"""A store in a schema of PostgreSQL: connections, the lock that keeps a second writer away, and values in bulk.

Rows go in and out by COPY as CSV, which Arrow writes and reads: it is several times as fast as a statement a row. Text
is kept as it is but for NUL, which PostgreSQL refuses: `tables.escaped` says what stands for it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from augury.engine.history_rows import one_chunk
from augury.local.store.database import reason
from augury.local.store.errors import NoDriver, NoStore, StoreInUse
from augury.local.store.sqlite import lists
from augury.local.store.tables import escaped, unescaped

_TO_ESCAPE: Final = "[\x00\ufdd0]"
_LOCK: Final = "SELECT pg_try_advisory_lock(hashtextextended('augury {what} in ' || current_schema(), 0))"


class Postgres:
    """A schema that holds a store: the first of the search path."""

    def __init__(self, url: str) -> None:
        """Note the URL; nothing is opened."""
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise NoDriver("PostgreSQL needs the package psycopg: pip install 'augury[postgres]'") from None
        try:
            found = sa.make_url(url)
        except (SQLAlchemyError, ValueError):
            raise NoStore(f"`{url}` is no URL of a database: write postgresql://HOST/DATABASE") from None
        self._url = found.set(drivername="postgresql+psycopg")
        self.place = found.render_as_string(hide_password=True)
        self._engines: list[sa.Engine] = []
        self._readers: sa.Engine | None = None

    def exists(self) -> bool:
        """Whether the database can be reached; whether it holds a store, its catalogue says."""
        engine = self.readers()
        try:
            with engine.connect():
                return True
        except SQLAlchemyError as error:
            cause = getattr(error, "orig", None) or error
            raise NoStore(f"the store `{self.place}` cannot be reached: {reason(cause)}") from cause

    def readers(self) -> sa.Engine:
        """Connections that only read."""
        if self._readers is None:
            setting = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
            self._readers = self._engine(5, setting)
        return self._readers

    def writer(self) -> sa.Engine:
        """The connection that writes; one that takes its place after a failure takes the lock, too."""
        return self._engine(1, "SET synchronous_commit = on", lock="store")

    def beside(self, alone: bool) -> sa.Engine:
        """A connection that notes what became of actions while another writes ticks."""
        return self._engine(1, "SET synchronous_commit = on", lock="deliveries" if alone else None)

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        """Add rows."""
        quote = connection.dialect.identifier_preparer.quote
        columns = ", ".join(quote(column.name) for column in table.c)
        text = io.BytesIO()
        plain = pa.table(
            [_written(one_chunk(column)) for column in rows.columns], [str(i) for i in range(len(table.c))]
        )
        pa.csv.write_csv(plain, text, pa.csv.WriteOptions(include_header=False))
        with _copy(connection, f"COPY {quote(table.name)} ({columns}) FROM STDIN (FORMAT csv)") as copy:
            copy.write(text.getbuffer())

    def append(self, connection: sa.Connection, inbox: sa.Table, posts: Sequence[tuple[int, str]]) -> list[int]:
        """Add posts; the database gives the places."""
        rows = [{"det_time": det_time, "line": line} for det_time, line in posts]
        places = inbox.insert().returning(inbox.c.place, sort_by_parameter_order=True)
        return list(connection.execute(places, rows).scalars())

    def select(self, connection: sa.Connection, statement: sa.Select[Any], schema: pa.Schema) -> pa.Table:
        """The rows of a SELECT."""
        compiled = statement.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
        with _copy(connection, f"COPY ({compiled}) TO STDOUT (FORMAT csv)") as copy:
            text = b"".join(bytes(part) for part in copy)
        return _table(text, schema)

    def close(self) -> None:
        """Close all connections, and let others write."""
        for engine in self._engines:
            engine.dispose()

    def _engine(self, size: int, *settings: str, lock: str | None = None) -> sa.Engine:
        engine = sa.create_engine(self._url, pool_size=size, max_overflow=0)
        self._engines.append(engine)

        def connected(connection: Any, _: Any) -> None:
            with connection.cursor() as cursor:
                for setting in ("SET TIME ZONE 'UTC'", "SET datestyle = ISO", "SET extra_float_digits = 1", *settings):
                    cursor.execute(setting)
                taken = lock is None or cursor.execute(_LOCK.format(what=lock)).fetchone()[0]
            connection.commit()
            if not taken:
                connection.close()
                done = "written" if lock == "store" else "delivered from"
                raise StoreInUse(f"the store `{self.place}` is already being {done} by another process; end that first")

        sa.event.listen(engine, "connect", connected)
        return engine


@contextmanager
def _copy(connection: sa.Connection, statement: str) -> Iterator[Any]:
    driver: Any = connection.connection.driver_connection
    # SQLAlchemy doubles each % for a driver that looks for parameters; here there are none.
    with driver.cursor() as cursor, cursor.copy(statement.replace("%%", "%")) as copy:
        yield copy


# ---- values as CSV ------------------------------------------------------------------------------------------


def _written(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        if not pc.any(pc.match_substring_regex(values, _TO_ESCAPE)).as_py():
            return values
        return pa.array([None if text is None else escaped(text) for text in values.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind):
        # Without its zone, which is the session's: Arrow takes twenty times as long to write one.
        return values.cast(pa.int64()).cast(pa.timestamp("us")).cast(pa.string())
    if pa.types.is_list(kind):
        joined = pc.binary_join(values.cast(pa.list_(pa.string())), ",")
        return pc.binary_join_element_wise("{", joined, "}", "")
    if pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_duration(kind):
        return values.cast(pa.int64())
    return values


def _table(text: bytes, schema: pa.Schema) -> pa.Table:
    if not text:
        return schema.empty_table()
    names = [str(i) for i in range(len(schema))]
    options = pa.csv.ConvertOptions(
        column_types={name: _read_as(field.type) for name, field in zip(names, schema, strict=True)},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["t"],
        false_values=["f"],
    )
    read = pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(column_names=names, block_size=max(1 << 20, min(len(text), 1 << 26))),
        pa.csv.ParseOptions(newlines_in_values=True),
        options,
    )
    columns = [_meant(column, field.type) for column, field in zip(read.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def _read_as(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind) or pa.types.is_null(kind):
        return pa.string()
    return pa.int64() if pa.types.is_duration(kind) else kind


def _meant(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_list(kind):
        return lists(one_chunk(column), kind)
    if pa.types.is_string(kind) and pc.any(pc.match_substring(column, "\ufdd0")).as_py():
        return pa.array([None if text is None else unescaped(text) for text in column.to_pylist()], kind)
    return column if column.type == kind else column.cast(kind)

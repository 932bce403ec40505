"""What SQLite and PostgreSQL do in ways of their own, and how their errors become sentences."""

from __future__ import annotations

import errno
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from augury.local.store.errors import NoStore, StoreFailed, StoreFull


class Database(Protocol):
    """A database that holds a store, or is to hold one."""

    place: str

    def exists(self) -> bool:
        """Whether there is a database at all."""
        ...

    def readers(self) -> sa.Engine:
        """Connections that only read."""
        ...

    def writer(self) -> sa.Engine:
        """The one connection that writes, kept from all others until `close`; raises `StoreInUse`."""
        ...

    def beside(self, alone: bool) -> sa.Engine:
        """A connection that notes what became of actions while another writes ticks.

        Who wants to be the only one who does so raises `StoreInUse` where another already is.
        """
        ...

    def insert(self, connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
        """Add rows, whose columns stand in the order of the table's."""
        ...

    def append(self, connection: sa.Connection, inbox: sa.Table, posts: Sequence[tuple[int, str]]) -> list[int]:
        """Add posts, each a det_time and a line; gives their places, which are given once."""
        ...

    def select(
        self, connection: sa.Connection, statement: sa.Select[tuple[object, ...]], schema: pa.Schema
    ) -> pa.Table:
        """The rows of a SELECT, with these columns."""
        ...

    def close(self) -> None:
        """Let go of all connections, and of what keeps other writers away."""
        ...


def database(url: str) -> Database:
    """The database of a URL, or of a path, which is SQLite."""
    scheme, colon, _ = url.partition("://")
    if not colon:
        from augury.local.store.sqlite import Sqlite

        return Sqlite(url)
    name = scheme.lower().partition("+")[0]
    if name == "sqlite":
        from augury.local.store.sqlite import Sqlite

        return Sqlite(_sqlite_path(url))
    if name in ("postgresql", "postgres"):
        from augury.local.store.postgres import Postgres

        return Postgres(url)
    raise NoStore(f"`{scheme}` is no database for a store: write a path, sqlite:///PATH or postgresql://HOST/DATABASE")


@contextmanager
def failing(place: str) -> Iterator[None]:
    """Turn errors of the database into `StoreFailed`."""
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        cause = getattr(error, "orig", None) or error
        raise _failed(place, cause) from cause
    except Exception as error:
        if not _of_driver(error):
            raise
        raise _failed(place, error) from error


def _failed(place: str, error: BaseException) -> StoreFailed:
    kind = StoreFull if _is_full(error) else StoreFailed
    return kind(f"the store `{place}` failed: {reason(error)}")


def _is_full(error: BaseException) -> bool:
    # PostgreSQL says so by 53100, SQLite by its own code, the system by ENOSPC or a quota.
    return (
        getattr(error, "sqlstate", None) == "53100"
        or getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT))
    )


def _of_driver(error: Exception) -> bool:
    """Bulk loading talks to the driver past SQLAlchemy, and so do its errors."""
    psycopg = sys.modules.get("psycopg")  # where it is not loaded, it has raised nothing
    return isinstance(error, OSError | sqlite3.Error) or (psycopg is not None and isinstance(error, psycopg.Error))


_REASONS: Final = {
    "database or disk is full": "the disk is full, or as large as the database may grow",
    "database is locked": "another program has locked the database",
    "disk I/O error": "the disk cannot be read or written",
    "attempt to write a readonly database": "it may only be read",
    "unable to open database file": "its file cannot be opened",
    "file is not a database": "its file is no SQLite database",
    "database disk image is malformed": "its file is damaged",
}


def reason(error: BaseException) -> str:
    """Why, in a few words."""
    lines = str(error).strip().splitlines()
    first = lines[0].strip().rstrip(".") if lines else type(error).__name__
    return next((words for sign, words in _REASONS.items() if sign in first), first)


def _sqlite_path(url: str) -> str:
    try:
        path = sa.make_url(url).database
    except SQLAlchemyError:
        path = None
    if not path or path == ":memory:":
        raise NoStore(f"`{url}` names no file: a store on SQLite is a file, sqlite:///PATH")
    return path

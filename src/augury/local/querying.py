"""A query of any database that SQLAlchemy knows → its rows, for detectors.

In: a URL and a query. Out: rows as mappings. Nothing is written: the transaction is rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa


class QueryFailed(RuntimeError):
    """A database that cannot be asked, or does not understand; the message holds no password."""


def query_rows(url: str, query: str, rows_max: int) -> list[Mapping[str, object]]:
    """All rows of a query, of which there are no more than so many; raises `QueryFailed`."""
    try:
        address = sa.make_url(_with_driver(url))
        engine = sa.create_engine(address, poolclass=sa.NullPool)
    except (sa.exc.ArgumentError, ImportError) as error:
        raise QueryFailed(f"`{_shown(url)}` is no database that can be asked: {error}") from None
    try:
        with engine.connect() as connection:
            # The query goes to the database as it is: a colon in it is no parameter.
            found = connection.exec_driver_sql(query)
            if not found.returns_rows:
                raise QueryFailed(f"a query gives rows, and this gives none: {query[:200]}")
            rows = found.mappings().fetchmany(rows_max + 1)
    except sa.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        raise QueryFailed(f"{_shown(url)}: {' '.join(str(cause).split())[:500]}") from None
    finally:
        engine.dispose()
    if len(rows) > rows_max:
        raise QueryFailed(f"the query gives more than {rows_max:,} rows")
    return [dict(row) for row in rows]


def _with_driver(url: str) -> str:
    """PostgreSQL by the driver that Augury comes with."""
    scheme, mark, rest = url.partition("://")
    return f"postgresql+psycopg://{rest}" if mark and scheme in ("postgres", "postgresql") else url


def _shown(url: str) -> str:
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except sa.exc.ArgumentError:
        return "the database"

"""A store page by page, for who serves it beside the engine that writes: versions, refused events, counts of ticks.

In: numbers after which to read, and how many rows. Out: tables and rows. Nothing here is as long as a history.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from augury.engine.log_rows import COUNTS
from augury.event import EventClass
from augury.history.views import history_schema
from augury.local.store import catalogue
from augury.local.store import tables as s
from augury.local.store.database import database, failing
from augury.local.store.errors import NoStore
from augury.local.store.reading import SqlReader


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """An event that was refused, by its number among all that were."""

    number: int
    tick: int
    place: str
    event: str
    reason: str
    raw: str


def open_pages(url: str) -> PagedReader:
    """The store at a path or URL, to be read page by page; raises `NoStore`, `StoreMismatch` and `StoreFailed`."""
    held = database(url)
    try:
        if not held.exists():
            raise NoStore(f"there is no store `{held.place}`")
        with failing(held.place), held.readers().begin() as connection:
            if not catalogue.has_catalogue(connection):
                raise NoStore(f"`{held.place}` holds no store of Augury")
            return PagedReader(held, catalogue.all_tables(connection))
    except BaseException:
        held.close()
        raise


class PagedReader(SqlReader):
    """A store that is read page by page."""

    def __enter__(self) -> PagedReader:
        """The store itself."""
        return self

    def program_text(self) -> str | None:
        """The text of the program whose ticks the store has; None where it was not kept."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            return catalogue.stored_program(connection)

    def versions(self, event_class: EventClass, after: int, limit: int) -> pa.Table:
        """The next versions of a class after a number, in order, with the columns of its history."""
        tables = self._tables_of(event_class)
        number = tables.column("number")
        statement = sa.select(*tables.history.c).where(number > after).order_by(number).limit(limit)
        with failing(self.database.place), self.database.readers().begin() as connection:
            return self.database.select(connection, statement, history_schema(tables.event_class))

    def last_numbers(self, classes: Iterable[EventClass]) -> list[int]:
        """The number of the last version of each class, 0 where there is none."""
        with failing(self.database.place), self.database.readers().begin() as connection:
            found = []
            for event_class in classes:
                last = sa.func.max(self._tables_of(event_class).column("number"))
                found.append(connection.execute(sa.select(last)).scalar() or 0)
            return found

    def rejected(self, after: int, limit: int) -> list[RejectedRow]:
        """The next events that were refused after a number, in order."""
        statement = sa.select(s.rejected).where(s.rejected.c.id > after).order_by(s.rejected.c.id).limit(limit)
        with failing(self.database.place), self.database.readers().begin() as connection:
            rows = connection.execute(statement).all()
        return [RejectedRow(row.id, row.tick, row.place, row.event, row.reason, row.raw) for row in rows]

    def tick_counts(self, after: int | None) -> tuple[int | None, dict[str, int]]:
        """What ticks after one did, added up, with their number and the last `seq`; and the last of them."""
        c = s.ticks.c
        last = sa.func.max(c.tick, type_=s.Moment())
        sums = [sa.func.coalesce(sa.func.sum(c[name]), 0) for name in COUNTS]
        statement = sa.select(last, sa.func.count(), sa.func.coalesce(sa.func.max(c.last_seq), 0), *sums)
        if after is not None:
            statement = statement.where(c.tick > sa.literal(after, s.Moment))
        with failing(self.database.place), self.database.readers().begin() as connection:
            row: Any = connection.execute(statement).one()
        names = ("ticks", "last_seq", *COUNTS)
        return row[0], {name: int(value) for name, value in zip(names, row[1:], strict=True)}

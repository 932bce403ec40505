"""A query of a database: all its rows, at every look.

In: a URL and a query. Out: items. The database is asked in a thread, and not through the environment.
"""

from __future__ import annotations

import asyncio

from augury import limits
from augury.detectors.sensor import Item, Seen, SourceFailed


class Query:
    """Asks one query."""

    def __init__(self, url: str, query: str) -> None:
        """Ask nothing yet."""
        self._url, self._query = url, query

    async def poll(self, position: bytes | None) -> Seen:
        """All rows there are."""
        from augury.local.querying import QueryFailed, query_rows

        try:
            rows = await asyncio.to_thread(query_rows, self._url, self._query, limits.DETECTOR_ROWS_MAX)
        except QueryFailed as error:
            raise SourceFailed(str(error)) from None
        return Seen(tuple(Item(row) for row in rows), None, whole=True)

"""Rows that come page by page, or live, as one stream; a cursor says where to go on.

In: paths and cursors. Out: rows, as the server has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from augury.client.live import Patience, follow
from augury.client.told import DECODER, Row
from augury.client.wire import Question, Wire

PAGE_ROWS: Final = 1_000
"""Rows of a page where only so many are asked for."""


class Feed(Iterator[Row]):
    """Rows in their order. `cursor` is where to go on: whoever asks `after` it misses nothing.

    Of pages, it moves on when a page is through; live, with every row.
    """

    def __init__(self, told: Iterator[tuple[Row | None, str | None]], cursor: str | None) -> None:
        """Rows with the cursor after them; None for a row where only the cursor moves on."""
        self._told, self.cursor = told, cursor

    def __iter__(self) -> Self:
        """Itself."""
        return self

    def __next__(self) -> Row:
        """The next row."""
        while True:
            row, cursor = next(self._told)
            self.cursor = cursor or self.cursor
            if row is not None:
                return row

    def close(self) -> None:
        """Stop."""
        close = getattr(self._told, "close", None)
        if close is not None:
            close()


@dataclass(frozen=True, slots=True)
class Pages:
    """A route that answers page by page."""

    wire: Wire
    path: str
    query: Mapping[str, Any]

    def rows(self) -> Iterator[Row]:
        """All rows, where pages are numbered."""
        after: int | None = 0
        while after is not None:
            page = self._page(after)
            yield from page["rows"]
            after = page["next"]

    def told(self, after: str | None, limit: int | None) -> Iterator[tuple[Row | None, str | None]]:
        """The rows there are now, or so many of them, where pages have cursors."""
        is_more, left = True, limit
        while is_more and left != 0:
            page = self._page(after, None if left is None else min(left, PAGE_ROWS))
            yield from ((row, None) for row in page["rows"])
            after, is_more = page["cursor"], page["more"]
            left = None if left is None else left - len(page["rows"])
            yield None, after

    def _page(self, after: int | str | None, limit: int | None = None) -> Row:
        question = Question("GET", self.path, {**self.query, "after": after, "limit": limit})
        found: Row = DECODER.decode(self.wire.ask(question).content.decode())
        return found


def live_feed(wire: Wire, path: str, names: Sequence[str], after: str | None, patience: Patience) -> Feed:
    """Rows as they come."""

    def told() -> Iterator[tuple[Row | None, str | None]]:
        for message in follow(wire, f"/v1/{path}/live", {"name": list(names)}, after, patience):
            yield (None if message.kind == "begin" else DECODER.decode(message.data)), message.cursor

    # A server first says where it begins: what happens from now on is told, however late the first row is asked for.
    begun = told()
    _, cursor = next(begun)
    return Feed(begun, cursor)

"""A listing as JSON over HTTP: where its items are, and where it goes on.

In: an address, the path of the items, the path of the next page. Out: all items of all pages. A page in the middle that
cannot be read leaves a listing that is not whole.
"""

from __future__ import annotations

from collections.abc import Mapping

from augury import limits
from augury.algebra.json_paths import Path
from augury.detectors.asking import Page, Reader, joined, shown
from augury.detectors.paths import found_at, parse_path, value_at
from augury.detectors.sensor import Item, Seen, SourceFailed
from augury.history.json_lines import DECODER
from augury.history.raw import Broken, json_literal


class JsonListing:
    """Reads one listing."""

    def __init__(self, reader: Reader, items: str | None, next_page: str | None, pages: int) -> None:
        """Read the paths; raises `BadPath`."""
        self._reader, self._pages = reader, pages
        self._items: Path | None = parse_path(items) if items else None
        self._next: Path | None = parse_path(next_page) if next_page else None

    async def poll(self, position: bytes | None) -> Seen:
        """All items there are."""
        page = await self._reader.first()
        items: list[Item | Broken] = []
        visited = {page.url}
        for number in range(1, self._pages + 1):
            try:
                document = _document(page)
                items += self._items_of(document, page)
                target = self._target(document)
                if target is None:
                    return Seen(tuple(items), None, whole=True)
                url = joined(page.url, target)
                if url in visited:
                    raise SourceFailed(f"{page} leads back to {shown(url)}")
                if number == self._pages:
                    break
                visited.add(url)
                page = await self._reader.read(url)
            except SourceFailed as error:
                if number == 1 and not items:
                    raise
                return Seen(tuple(items), None, problem=f"the listing breaks off: {error}")
        return Seen(tuple(items), None, problem=f"the listing has more than {self._pages} pages: say WITH (pages = …)")

    def _items_of(self, document: object, page: Page) -> list[Item | Broken]:
        if self._items is None:
            found: list[object] | None = document if isinstance(document, list) else [document]
        else:
            found = found_at(self._items, document)
        if found is None:
            raise SourceFailed(f"{page} has nothing at `{self._items}`")
        if len(found) > limits.DETECTOR_ROWS_MAX:
            raise SourceFailed(f"{page} has more than {limits.DETECTOR_ROWS_MAX:,} items")
        return [_item(one) for one in found]

    def _target(self, document: object) -> str | None:
        found = value_at(self._next, document) if self._next is not None else None
        return found if isinstance(found, str) and found else None


def _item(value: object) -> Item | Broken:
    if isinstance(value, Mapping):
        return Item(value)
    return Broken("an item of the listing is no object", json_literal(value))


def _document(page: Page) -> object:
    try:
        return DECODER.decode(page.body.decode(page.charset or "utf-8-sig"))
    except (ValueError, ArithmeticError, RecursionError, LookupError) as error:
        raise SourceFailed(f"{page} is not JSON: {error}") from None

"""A feed, RSS or Atom: its entries with title, link, id, updated, published and summary.

In: an address. Out: items, their values as text and their times in ISO-8601. No entity is resolved and nothing is
fetched but the feed.
"""

from __future__ import annotations

from collections.abc import Iterable
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lxml import etree  # type: ignore[import-untyped]

from augury.clock import microseconds_of, show_time
from augury.detectors.asking import Page, Reader
from augury.detectors.sensor import Item, Seen, SourceFailed

_NAMES: Final = {
    "title": ("title",),
    "id": ("id", "guid", "link"),
    "updated": ("updated", "modified", "date", "pubDate", "published"),
    "published": ("published", "issued", "pubDate", "date"),
    "summary": ("summary", "description", "content", "encoded"),
}
"""What the fields of an item are called in Atom, RSS 2.0 and RSS 1.0; the first that is there counts."""

_TIMES: Final = {"updated", "published"}


class Feed:
    """Reads one feed."""

    def __init__(self, reader: Reader) -> None:
        """Ask nothing yet."""
        self._reader = reader

    async def poll(self, position: bytes | None) -> Seen:
        """All entries of the feed as it is now."""
        page = await self._reader.first()
        root = _root(page)
        entries = [one for one in root.iter() if _local(one) in ("item", "entry")]
        return Seen(tuple(Item(_values(one), is_text=True) for one in entries), None, whole=True)


def _root(page: Page) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(page.body.strip(), parser)
    except (etree.LxmlError, ValueError) as error:
        raise SourceFailed(f"{page} is no feed: {error}") from None
    if root is None or _local(root) not in ("rss", "feed", "RDF"):
        name = "nothing" if root is None else f"<{_local(root)}>"
        raise SourceFailed(f"{page} is neither RSS nor Atom: it holds {name}")
    return root


def _local(element: Any) -> str:
    return etree.QName(element).localname if isinstance(element.tag, str) else ""


def _values(entry: Any) -> dict[str, object]:
    found = {name: _first(entry, names) for name, names in _NAMES.items()}
    found["link"] = _link(entry)
    found["id"] = found["id"] or found["link"]
    return {name: _time(text) if name in _TIMES else text for name, text in found.items() if text}


def _children(entry: Any, names: Iterable[str]) -> Iterable[Any]:
    for name in names:
        for child in entry:
            if _local(child) == name:
                yield child


def _first(entry: Any, names: Iterable[str]) -> str | None:
    texts = ("".join(child.itertext()).strip() for child in _children(entry, names))
    return next((text for text in texts if text), None)


def _link(entry: Any) -> str | None:
    """Of Atom the link to the entry itself, of RSS the text of the link."""
    links = list(_children(entry, ("link",)))
    for link in links:
        if link.get("href") and link.get("rel", "alternate") == "alternate":
            return str(link.get("href")).strip()
    return next((text for link in links if (text := (link.text or "").strip())), None)


def _time(text: str) -> str:
    """A time of mail, as RSS has it, in ISO-8601; what is none stays, and the engine says so."""
    try:
        return show_time(microseconds_of(parsedate_to_datetime(text)))
    except (ValueError, TypeError, IndexError):
        return text

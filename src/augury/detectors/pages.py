"""A listing as pages of HTML: items and their fields by CSS or XPath, links to the next page, a form that comes first.

In: an address and selectors. Out: all items of all pages, their values as text. A page without any item tells nothing:
it may as well be a page that looks different now, so that such a listing never counts as whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from cssselect import HTMLTranslator, SelectorError
from lxml import etree, html  # type: ignore[import-untyped]

from augury.algebra.selectors import Css, XPath, selector_parts
from augury.detectors.asking import Page, Reader, joined, shown
from augury.detectors.sensor import BadDetector, Item, Seen, SourceFailed


@dataclass(frozen=True, slots=True)
class Selector:
    """What finds something on a page: XPath, and of what it finds the text or an attribute."""

    path: Any
    attribute: str | None
    text: str


@dataclass(frozen=True, slots=True)
class Form:
    """A form that is filled in and sent before a listing is read."""

    selector: Selector
    values: Mapping[str, str]


class HtmlListing:
    """Reads one listing."""

    def __init__(
        self,
        reader: Reader,
        items: str,
        fields: Sequence[tuple[str, str]],
        next_page: str | None,
        pages: int,
        form: Form | None = None,
    ) -> None:
        """Read the selectors; raises `BadDetector`."""
        self._reader, self._pages, self._form = reader, pages, form
        self._items = selector(items, attribute=False)
        self._fields = [(name, selector(text)) for name, text in fields]
        self._next = selector(next_page) if next_page else None

    async def poll(self, position: bytes | None) -> Seen:
        """All items there are."""
        page, document = await self._first()
        items: list[Item] = []
        visited = {page.url}
        for number in range(1, self._pages + 1):
            found = _elements(self._items, document)
            items += [self._item(one) for one in found]
            try:
                url = self._next_url(page, document)
                if url is None:
                    return Seen(tuple(items), None, whole=bool(items) and bool(found))
                if url in visited:
                    raise SourceFailed(f"{page} leads back to {shown(url)}")
                if number == self._pages:
                    break
                visited.add(url)
                page = await self._reader.read(url)
                document = _document(page)
            except SourceFailed as error:
                return Seen(tuple(items), None, problem=f"the listing breaks off: {error}")
        return Seen(tuple(items), None, problem=f"the listing has more than {self._pages} pages: say WITH (pages = …)")

    async def _first(self) -> tuple[Page, Any]:
        """The page where the listing begins: what the form gives, if it is there."""
        page = await self._reader.first()
        document = _document(page)
        if self._form is None:
            return page, document
        found = _elements(self._form.selector, document)
        if not found:
            return page, document  # it was filled in at an earlier look, and a cookie says so
        page = await self._sent(page, found[0], self._form.values)
        document = _document(page)
        if _elements(self._items, document) or _elements(self._form.selector, document):
            return page, document
        # Who has logged in is often led elsewhere.
        page = await self._reader.first()
        return page, _document(page)

    async def _sent(self, page: Page, form: Any, values: Mapping[str, str]) -> Page:
        if form.tag != "form":
            raise SourceFailed(f"{page}: what WITH (form = …) selects is a <{form.tag}>, and no form")
        for name, value in values.items():
            if name not in form.fields:
                names = ", ".join(sorted(one for one in form.fields if one)) or "none"
                raise SourceFailed(f"{page}: its form has no field `{name}`; it has {names}")
            try:
                form.fields[name] = value
            except (ValueError, TypeError):
                # What it is to be may be a secret, and lxml repeats it.
                reason = f"field `{name}` of its form does not take what `form_{name}` says"
                raise SourceFailed(f"{page}: {reason}") from None
        pairs = [*form.form_values(), *_button(form)]
        url = joined(page.url, form.get("action") or page.url)
        if form.method == "GET":
            parts = urlsplit(url)
            return await self._reader.read(parts._replace(query=urlencode(pairs), fragment="").geturl())
        if "multipart" in form.get("enctype", "").lower():
            raise SourceFailed(f"{page}: its form wants files (multipart), which a detector does not send")
        return await self._reader.read(url, "POST", urlencode(pairs).encode(), "application/x-www-form-urlencoded")

    def _next_url(self, page: Page, document: Any) -> str | None:
        if self._next is None:
            return None
        found = _found(self._next, document)
        if not found:
            return None
        target = found[0] if isinstance(found[0], str) else found[0].get(self._next.attribute or "href")
        return joined(page.url, target) if target else None

    def _item(self, element: Any) -> Item:
        values = {name: _value(one, element) for name, one in self._fields}
        return Item({name: value for name, value in values.items() if value is not None}, is_text=True)


def selector(text: str, *, attribute: bool = True) -> Selector:
    """A selector as it is written: `td.name`, `a@href`, `xpath:./td[2]`; raises `BadDetector`."""
    try:
        match selector_parts(text, attribute=attribute):
            case XPath(path):
                return Selector(etree.XPath(path), None, text)
            case Css(css, name):
                return Selector(etree.XPath(HTMLTranslator().css_to_xpath(css)), name, text)
    except SelectorError as error:
        raise BadDetector(f"`{text}` is no selector of CSS: {error}; XPath begins with `xpath:`") from None
    except etree.XPathSyntaxError as error:
        raise BadDetector(f"`{text}` is no XPath: {error}") from None


def _found(one: Selector, element: Any) -> list[Any]:
    try:
        found = one.path(element)
    except etree.XPathError as error:
        raise SourceFailed(f"`{one.text}` cannot be looked for: {error}") from None
    return found if isinstance(found, list) else [_spelled(found)]


def _spelled(value: object) -> str:
    """What an XPath works out, as text: numbers without a point where they are whole."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if value - value != 0:
            return ""  # what is no number is nothing
        return str(int(value)) if value == int(value) else repr(value)
    return str(value)


def _elements(one: Selector, element: Any) -> list[Any]:
    return [found for found in _found(one, element) if hasattr(found, "tag") and isinstance(found.tag, str)]


def _value(one: Selector, element: Any) -> str | None:
    """The text of the first that is found, blanks put together; or its attribute."""
    found = _found(one, element)
    if not found:
        return None
    if isinstance(found[0], str):
        return " ".join(found[0].split())
    value = found[0].get(one.attribute) if one.attribute else found[0].text_content()
    return None if value is None else " ".join(value.split())


def _button(form: Any) -> list[tuple[str, str]]:
    """The first button that sends the form, as a browser names it."""
    for element in form.iter("button", "input"):
        kind = element.get("type", "submit" if element.tag == "button" else "text").lower()
        if kind == "submit":
            return [(element.get("name"), element.get("value", ""))] if element.get("name") else []
    return []


def _document(page: Page) -> Any:
    is_said = page.charset is not None or b"charset" in page.body[:2_048].lower()
    try:
        parser = html.HTMLParser(encoding=page.charset if is_said else "utf-8")
        document = html.document_fromstring(page.body or b"<html></html>", parser=parser)
    except (etree.LxmlError, LookupError, ValueError) as error:
        raise SourceFailed(f"{page} is no HTML: {error}") from None
    return document

"""Selectors of pages as DETECT writes them: `td.name`, `a@href`, `xpath:./td[2]`.

In: a text. Out: its parts. Whether CSS or XPath can be read is for those who have a reader of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_XPATH: Final = "xpath:"


@dataclass(frozen=True, slots=True)
class Css:
    """A selector of CSS, `:scope` for the item itself, and the attribute that is taken instead of the text."""

    css: str
    attribute: str | None = None


@dataclass(frozen=True, slots=True)
class XPath:
    """An XPath."""

    path: str


def selector_parts(text: str, *, attribute: bool = True) -> Css | XPath:
    """The parts of a selector; without `attribute` it selects elements, and `@` has no meaning of its own."""
    if text.startswith(_XPATH):
        return XPath(text.removeprefix(_XPATH))
    css, mark, name = text.rpartition("@") if attribute else ("", "", "")
    if not mark or "]" in name:
        css, name = text, ""
    return Css(css.strip() or ":scope", name.strip() or None)

"""HTML and SVG put together so that no text can become markup: what is not `Markup` is escaped.

In: names, attributes, texts. Out: `Markup`. It knows nothing of what is drawn.
"""

from __future__ import annotations

from html import escape

from augury.local.shown import printable


class Markup(str):
    """A text that is markup already; only `tag` and `joined` make it."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element: children that are plain texts are escaped, `class_` is class, `data_tick` is data-tick.

    An attribute that is None or False is left out; True stands for one without a value.
    """
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        word = key.rstrip("_").replace("_", "-")
        parts.append(f" {word}" if value is True else f' {word}="{_escaped(str(value))}"')
    if name in _VOID:
        return Markup("".join([*parts, ">"]))
    return Markup("".join([*parts, ">", *map(_inside, children), f"</{name}>"]))


_VOID = frozenset({"meta", "input", "br"})


def joined(*parts: str) -> Markup:
    """Several after each other."""
    return Markup("".join(map(_inside, parts)))


def _inside(child: str) -> str:
    return child if isinstance(child, Markup) else _escaped(child)


def _escaped(text: str) -> str:
    return escape("\n".join(map(printable, text.split("\n"))))


def number(value: float) -> str:
    """A length or place in a drawing."""
    return f"{value:.1f}".removesuffix(".0")

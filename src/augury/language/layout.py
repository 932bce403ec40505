"""Documents → text: words and places where a line may end, laid out (after Wadler's prettier printer).

In: a `Doc`, and comments by the number of the break they stand at. Out: text. It knows no language.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

COLUMNS = 100
"""What a line should fit into; comments are not counted."""


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a line may end; `flat` stands there if it does not. A `bare` one takes no comments."""

    flat: str = " "
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Parts that stand on one line or are broken at every break of their own; made by `group`.

    New lines start `indent` further in than those around the group or, without one, below its start.
    """

    parts: tuple[Doc, ...]
    indent: int | None
    width: float
    breaks: int


Doc: TypeAlias = "str | Break | Group | tuple[Doc, ...]"


@dataclass(frozen=True, slots=True)
class Flat:
    """A document on one line, and the breaks in it with their places."""

    text: str
    breaks: tuple[tuple[int, Break], ...]


@dataclass(frozen=True, slots=True)
class Remarks:
    """Comments at a break: one at the end of the line, the others on lines of their own below it."""

    at_end: str | None
    below: tuple[str, ...]


_NEVER_FITS = float("inf")
_DEEPEST_ALIGNMENT = 60


def group(*parts: Doc, indent: int | None = None) -> Group:
    """Measure parts and put them together."""
    width: float = 0
    breaks = 0
    waiting: list[Doc] = list(parts)
    while waiting:
        match waiting.pop():
            case str(text):
                width += _NEVER_FITS if "\n" in text else len(text)
            case Break(flat=flat):
                width += _NEVER_FITS if "\n" in flat else len(flat)
                breaks += 1
            case Group(width=inner, breaks=inside):
                width += inner
                breaks += inside
            case tuple(inner_parts):
                waiting.extend(inner_parts)
            case unknown:
                assert_never(unknown)
    return Group(parts, indent, width, breaks)


def listed(items: Iterable[Doc], indent: int | None = None) -> Group:
    """Items with commas; where they do not fit, one a line."""
    parts: list[Doc] = []
    for item in items:
        parts += [",", Break(), item] if parts else [item]
    return group(*parts, indent=indent)


def chained(first: Doc, rest: Iterable[tuple[str, Doc]]) -> Group:
    """Operands with infix operators; where they do not fit, an operator starts each new line."""
    parts: list[Doc] = [first]
    for operator, operand in rest:
        parts += [Break(), f"{operator} ", operand]
    return group(*parts)


def flatten(doc: Doc) -> Flat:
    """Everything on one line, except for the line breaks that the words hold themselves."""
    texts: list[str] = []
    breaks: list[tuple[int, Break]] = []
    offset = 0
    waiting = [doc]
    while waiting:
        match waiting.pop():
            case str(text):
                texts.append(text)
                offset += len(text)
            case Break() as place:
                breaks.append((offset, place))
                texts.append(place.flat)
                offset += len(place.flat)
            case Group(parts=parts) | tuple(parts):
                waiting.extend(reversed(parts))
            case unknown:
                assert_never(unknown)
    return Flat("".join(texts), tuple(breaks))


def lay_out(doc: Doc, remarks: Mapping[int, Remarks] | None = None) -> str:
    """The text of a document; remarks are given by the number of their break, which then ends its line."""
    remarks = remarks or {}
    noted = sorted(remarks)
    texts: list[str] = []
    column = number = 0
    stack: list[tuple[int, bool, Doc]] = [(0, True, doc)]
    while stack:
        indent, broken, item = stack.pop()
        match item:
            case str():
                texts.append(item)
                end = item.rfind("\n")
                column = len(item) - end - 1 if end >= 0 else column + len(item)
            case Break():
                texts.append(_line_end(remarks.get(number), indent) if broken else item.flat)
                column = indent if broken else column + len(item.flat)
                number += 1
            case Group():
                next_noted = bisect_left(noted, number)
                forced = next_noted < len(noted) and noted[next_noted] < number + item.breaks
                # Inside a group that fits, everything fits.
                opened = forced or (broken and not _fits(item, stack, COLUMNS - column))
                if item.indent is not None:
                    indent += item.indent
                else:
                    indent = column if column <= _DEEPEST_ALIGNMENT else indent + 2
                stack.extend((indent, opened, part) for part in reversed(item.parts))
            case tuple():
                stack.extend((indent, broken, part) for part in reversed(item))
            case _:
                assert_never(item)
    return "".join(texts)


def _line_end(remarks: Remarks | None, indent: int) -> str:
    line = "\n" + " " * indent
    if remarks is None:
        return line
    at_end = "" if remarks.at_end is None else f"  {remarks.at_end}"
    return at_end + "".join(line + comment for comment in remarks.below) + line


def _fits(item: Group, following: Sequence[tuple[int, bool, Doc]], room: int) -> bool:
    """Whether a group and what has to stay on its last line, such as `),`, fit into the room on this line."""
    width = item.width
    for _, _, after in reversed(following):
        waiting: list[Doc] = [after]
        while waiting and width <= room:
            match waiting.pop():
                case str(text):
                    width += len(text)
                case Break() | Group():
                    return True
                case tuple(parts):
                    waiting.extend(reversed(parts))
                case unknown:
                    assert_never(unknown)
        if width > room:
            return False
    return width <= room

"""What is said about a program, and where: spans, diagnostics and the one place they are drawn.

In: a source text and findings with byte-free character spans. Out: terminal text or JSON values.
It knows nothing of the language; codes are explained in `augury.catalogue`.
"""

from __future__ import annotations

import bisect
import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate, islice
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of characters of one source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of the other."""
        return Span(min(self.start, other.start), max(self.end, other.end))

    def holds(self, other: Span) -> bool:
        """Whether the other lies within this one."""
        return self.start <= other.start and other.end <= self.end


NOWHERE = Span(0, 0)


class Severity(StrEnum):
    """Errors stop a program from running; warnings do not; notes tell what was asked for."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the source with a few words about it."""

    span: Span
    label: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable code, one sentence, the place, other places that matter, and proposals."""

    code: str
    message: str
    mark: Mark
    others: tuple[Mark, ...] = ()
    helps: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR


class Source:
    """A named text with a line index, so that offsets become lines and columns cheaply."""

    __slots__ = ("_starts", "name", "text")

    def __init__(self, name: str, text: str) -> None:
        """Keep the text and note where its lines start."""
        self.name = name
        self.text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))][:-1]

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of an offset."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line break."""
        start = self._starts[number - 1]
        end = self._starts[number] - 1 if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r")


@dataclass(slots=True)
class Findings:
    """Where a pass puts what it finds; ordered by place when read."""

    _items: list[Diagnostic] = field(default_factory=list)
    _comparisons_left: int = 50_000
    """Comparisons of names before proposals stop: the first mistakes are mended first, and thousands take long."""

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        others: Sequence[Mark] = (),
        helps: Sequence[str] = (),
    ) -> None:
        """Note an error."""
        self._items.append(Diagnostic(code, message, Mark(span, label), tuple(others), tuple(helps)))

    def warning(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        others: Sequence[Mark] = (),
        helps: Sequence[str] = (),
    ) -> None:
        """Note a warning."""
        self._items.append(Diagnostic(code, message, Mark(span, label), tuple(others), tuple(helps), Severity.WARNING))

    def add(self, diagnostic: Diagnostic) -> None:
        """Note a diagnostic made elsewhere."""
        self._items.append(diagnostic)

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Note several diagnostics made elsewhere."""
        self._items.extend(diagnostics)

    def count(self) -> int:
        """How many findings there are so far."""
        return len(self._items)

    def has_errors(self) -> bool:
        """Whether anything noted so far is an error."""
        return any(d.severity is Severity.ERROR for d in self._items)

    def closest(self, word: str, candidates: Iterable[str]) -> str | None:
        """What was most likely meant by a misspelt word, as long as comparing does not take too long."""
        known = list(islice(candidates, self._comparisons_left + 1))
        if len(known) > self._comparisons_left:
            self._comparisons_left = 0
            return None
        self._comparisons_left -= len(known)
        return closest(word, known)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Everything noted, without repeats, in order of place, then code."""
        unique = dict.fromkeys(self._items)
        return tuple(sorted(unique, key=lambda d: (d.mark.span.start, d.mark.span.end, d.code, d.message)))


def closest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate a user most likely meant by a misspelt word, if one is near enough."""
    by_folded = {c.casefold(): c for c in candidates}
    found = difflib.get_close_matches(word.casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def to_json(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    """The diagnostic as a JSON value; lines and columns count from 1, offsets are characters from 0."""

    def place(mark: Mark) -> dict[str, Any]:
        line, column = source.position(mark.span.start)
        end_line, end_column = source.position(mark.span.end)
        return {
            "start": mark.span.start,
            "end": mark.span.end,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
            "label": mark.label,
        }

    return {
        "severity": diagnostic.severity.value,
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": source.name,
        **place(diagnostic.mark),
        "others": [place(mark) for mark in diagnostic.others],
        "helps": list(diagnostic.helps),
    }


_COLOURS = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "note": "\x1b[1;36m",
    "bar": "\x1b[34m",
    "bold": "\x1b[1m",
    "off": "\x1b[0m",
}
_LINE_SHOWN_MAX = 140
_WORDS_SHOWN_MAX = 1_000


def render(diagnostic: Diagnostic, source: Source, *, colour: bool = False) -> str:
    """Draw a diagnostic for the terminal: what, where, the line with a caret, and what to do."""

    def paint(style: str, text: str) -> str:
        return f"{_COLOURS[style]}{text}{_COLOURS['off']}" if colour else text

    severity = diagnostic.severity.value
    line, column = source.position(diagnostic.mark.span.start)
    marks = sorted(
        [(diagnostic.mark, "^"), *((other, "-") for other in diagnostic.others)],
        key=lambda m: m[0].span.start,
    )
    width = len(str(max(source.position(mark.span.start)[0] for mark, _ in marks)))
    bar = paint("bar", " " * (width + 1) + "|")
    placed = bool(source.text) and diagnostic.mark != Mark(NOWHERE)
    lines = [
        paint(severity, f"{severity}[{diagnostic.code}]") + paint("bold", f": {_words(diagnostic.message)}"),
        paint("bar", " " * width + "--> ") + _printable(source.name) + (f":{line}:{column}" if placed else ""),
    ]
    lines += [bar] if placed else []
    shown, window = 0, _Window("", 0, 0)
    for mark, sign in marks if placed else []:
        number, start = source.position(mark.span.start)
        if shown and number > shown + 1:
            lines.append(paint("bar", " " * width + "..."))
        start, end = start - 1, start - 1 + mark.span.end - mark.span.start
        if number != shown or not window.shows(start):
            window = _window(source.line(number), start)
            shown_text = window.text.rstrip()
            lines.append(paint("bar", f"{number:>{width}} |") + (f" {shown_text}" if shown_text else ""))
        shown = number
        left, right = window.place(start), window.place(end)
        under = " " * _columns(window.text[:left]) + sign * max(1, _columns(window.text[left:right]))
        style = severity if sign == "^" else "bar"
        lines.append(bar + " " + paint(style, f"{under} {_words(mark.label)}".rstrip()))
    lines += [paint("bar", " " * (width + 1) + "= ") + f"help: {_words(text)}" for text in diagnostic.helps]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Window:
    """What is shown of a line: from `start` on, the text holds the `length` characters of the line from `first` on."""

    text: str
    first: int
    start: int
    length: int = 0

    def shows(self, place: int) -> bool:
        return self.first <= place <= self.first + self.length

    def place(self, place: int) -> int:
        return self.start + min(max(place - self.first, 0), self.length)


def _window(line: str, mark: int) -> _Window:
    """A line fit to show, cut around the mark when long."""
    if len(line) <= _LINE_SHOWN_MAX:
        return _Window(_printable(line), 0, 0, len(line))
    first = min(max(0, mark - _LINE_SHOWN_MAX // 2), len(line) - _LINE_SHOWN_MAX)
    cut = line[first : first + _LINE_SHOWN_MAX]
    before, after = "…" if first else "", "…" if first + len(cut) < len(line) else ""
    return _Window(before + _printable(cut) + after, first, len(before), len(cut))


def _words(text: str) -> str:
    """What is said of a place, which may quote a name as long as the program."""
    return _printable(text if len(text) <= _WORDS_SHOWN_MAX else text[: _WORDS_SHOWN_MAX - 1] + "…")


def _printable(text: str) -> str:
    """The text with one harmless character for each that a terminal would act upon."""
    return "".join(ch if ch.isprintable() else " " if ch in "\t\n\r" else "\ufffd" for ch in text)


def _columns(text: str) -> int:
    return sum(0 if unicodedata.combining(ch) else 2 if unicodedata.east_asian_width(ch) in "WF" else 1 for ch in text)

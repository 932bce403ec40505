"""Events as they come, before any rule is applied: columns or rows, each with its place, and what was refused.

In: what a reader found. Out: values that `history.accept` takes and gives back. It knows no file and no class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, overload

import pyarrow as pa

from augury.clock import microseconds_of, show_duration, show_time

RAW_SHOWN_MAX: Final = 500
"""Characters of a rejected row that are kept: enough to find and mend it, whatever its size."""

_VALUE_SHOWN_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class RawTable:
    """Rows as columns; `numbers` has one a row, and where it is None they count from 1.

    In columns a NULL and a value left out are the same. `text` says that every cell is the text of its value, as in
    CSV. `event_class` is the class of rows that do not name theirs.
    """

    source: str
    table: pa.Table
    numbers: Sequence[int] | None = None
    event_class: str | None = None
    text: bool = False


@dataclass(frozen=True, slots=True)
class Broken:
    """A row that could not be read, as far as it is text, and why."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows as mappings, each with its number; `texts` has the lines they were read from, where there are any."""

    source: str
    rows: Sequence[Mapping[str, object] | Broken]
    numbers: Sequence[int]
    event_class: str | None = None
    texts: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Lines(Sequence[str]):
    """Lines as they were read, made into text when somebody asks: only those that are refused are shown."""

    lines: Sequence[bytes]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.lines)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Lines: ...
    def __getitem__(self, index: int | slice) -> str | Lines:
        """One as text, with a mark for what is no character; or some of them."""
        found = self.lines[index]
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else Lines(found)


Raw = RawTable | RawRows


@dataclass(frozen=True, slots=True)
class Rejected:
    """Events that were refused, in the order in which they came; a row each in all columns.

    `place` is the source and the number of the row there, `raw` the row as JSON, shortened.
    """

    place: tuple[str, ...] = ()
    event: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()

    def __len__(self) -> int:
        """How many there are."""
        return len(self.place)


def shortened(text: str, length: int = RAW_SHOWN_MAX) -> str:
    """The text, cut where it is long."""
    return text if len(text) <= length else text[: length - 1] + "…"


def shown(value: object) -> str:
    """A value in a sentence."""
    return shortened(json_literal(value), _VALUE_SHOWN_MAX)


def json_row(row: Mapping[str, object]) -> str:
    """A row as JSON, shortened."""
    return shortened("{" + ", ".join(f"{json_literal(str(k))}: {json_literal(v)}" for k, v in row.items()) + "}")


def whole_json(value: object) -> str:
    """A value as JSON like `json_literal`, and nothing of it is left out."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json_literal(str(k))}: {whole_json(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(whole_json(item) for item in value) + "]"
        case Decimal() if value.is_finite():
            return f"{value:f}" if abs(value.adjusted()) < _VALUE_SHOWN_MAX else f"{value}"
        case _:
            return json_literal(value)


def json_literal(value: object) -> str:
    """A value as JSON; decimals keep their digits, times are ISO, and what JSON lacks is a string."""
    match value:
        case bool() | int() | None:
            return json.dumps(value)
        case float():
            return json.dumps(value) if value - value == 0 else json.dumps(_not_finite(value))
        case str():
            return json.dumps(value.encode("utf-8", "replace").decode(), ensure_ascii=False)
        case Decimal():
            # Written out where that is short: an exponent may stand for a billion zeros.
            return f"{value:f}" if value.is_finite() and abs(value.adjusted()) < _VALUE_SHOWN_MAX else f'"{value}"'
        case datetime():
            return f'"{_moment(value)}"'
        case date():
            return f'"{value.isoformat()}"'
        case timedelta():
            return f'"{show_duration(value // timedelta(microseconds=1))}"'
        case Mapping():
            return json_row(value)
        case list() | tuple():
            return "[" + ", ".join(json_literal(item) for item in value[:RAW_SHOWN_MAX]) + "]"
        case _:
            return json.dumps(shortened(str(value)), ensure_ascii=False)


def _not_finite(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _moment(value: datetime) -> str:
    try:
        return show_time(microseconds_of(value))
    except (OverflowError, ValueError):
        return value.isoformat()

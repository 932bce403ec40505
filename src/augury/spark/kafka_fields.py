"""Keys, headers and times of Kafka's records → fields of the events in their values.

In: rows of `LINES` with the bytes of keys and headers beside them. Out: rows of `LINES`, in Arrow batches. A line
that is no JSON object passes as it is: the engine says what is wrong with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from augury import types as t
from augury.engine.lines import json_column
from augury.event import key_of
from augury.history.json_lines import read_line
from augury.history.raw import Broken, json_literal, whole_json
from augury.kernels.columns import arrow_type
from augury.spark.sources_csv import json_of_text
from augury.spark.sources_lines import Batches, Row, SourceError, lines_batch

_ENCODED: Final = json.JSONEncoder(ensure_ascii=False).encode
_TYPE: Final = re.compile(r"(\w+)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


@dataclass(frozen=True, slots=True)
class Field:
    """Where a field comes from (`key`, `header:<name>`), what it is called in the event, and its type."""

    origin: str
    name: str
    type: t.Type


def field_of(origin: str, wanted: str) -> Field:
    """The field that `name` or `name TYPE` asks for; raises `SourceError`."""
    name, _, type_text = wanted.strip().partition(" ")
    if not name:
        raise SourceError(f"columns: `{origin}` has no name to go by in the event")
    if not type_text.strip():
        return Field(origin, name, t.STRING)
    spelled = _TYPE.fullmatch(type_text.strip())
    try:
        found = spelled and t.parse_type(spelled[1], tuple(int(n) for n in spelled.groups()[1:] if n is not None))
    except t.BadTypeParameters as error:
        raise SourceError(f"columns: `{origin}`: {error}") from None
    if found is None:
        raise SourceError(f"columns: `{origin}`: there is no type `{type_text.strip()}`; say `name` or `name TYPE`")
    return Field(origin, name, found)


@dataclass(frozen=True, slots=True)
class FillIn:
    """Rows of `LINES` and columns of bytes, one a field, → `LINES` with these in the objects.

    `timed` says that there is a column `timestamp` (microseconds), to be the det_time.
    """

    fields: tuple[tuple[str, Field], ...]
    timed: bool

    def __call__(self, batches: Batches) -> Batches:
        """Fill in the rows of one partition."""
        for batch in batches:
            columns = [_members(batch.column(name), field) for name, field in self.fields]
            names = [key_of(field.name) for _, field in self.fields]
            if self.timed:
                names.append("det_time")
                columns.append(_times(batch.column("timestamp")))
            given = (batch.column(name).to_pylist() for name in ("line", "source", "position", "event", "refused"))
            rows = zip(zip(*given, strict=True), zip(*columns, strict=True), strict=True)
            yield lines_batch([_filled(row, names, members) for row, members in rows])


@dataclass(frozen=True, slots=True)
class _Unfit:
    """Why the key or header of a record is no value."""

    reason: str


Member = str | _Unfit | None
"""`"name": value` as it stands in an object; None where the key or header is absent."""


def _members(column: pa.Array, field: Field) -> list[Member]:
    texts: list[str | None] = []
    unfit: dict[int, _Unfit] = {}
    for row, value in enumerate(column.to_pylist()):
        try:
            texts.append(None if value is None else value.decode())
        except UnicodeDecodeError:
            texts.append(None)
            unfit[row] = _Unfit(f"its {_shown(field.origin)} is not UTF-8")
    literals = json_of_text(pa.array(texts, pa.string()), field.type).to_pylist()
    name = f"{json_literal(field.name)}: "
    found: list[Member] = [None if text is None else name + one for text, one in zip(texts, literals, strict=True)]
    for row, why in unfit.items():
        found[row] = why
    return found


def _times(microseconds: pa.Array) -> list[Member]:
    moments = json_column(microseconds.cast(pa.int64()).view(arrow_type(t.TIMESTAMP)), t.TIMESTAMP)
    return [f'"det_time": {text}' for text in moments.to_pylist()]


def _shown(origin: str) -> str:
    return "key" if origin == "key" else f"header `{origin.partition(':')[2]}`"


def _filled(row: tuple[Any, ...], names: list[str], members: tuple[Member, ...]) -> Row:
    line, source, position, event, refused = row
    if refused is None:
        refused = next((member.reason for member in members if isinstance(member, _Unfit)), None)
    if refused is None:
        line = with_members(line, {name: m for name, m in zip(names, members, strict=True) if isinstance(m, str)})
    return line, source, position, event, refused


def with_members(line: str, given: Mapping[str, str]) -> str:
    """An object with these members in place of those it has, by what names are matched by; other text as it is."""
    line = line.strip()
    found = read_line(line.encode())
    if not given or isinstance(found, Broken):
        return line
    kept = {name: value for name, value in found.items() if key_of(name) not in given}
    # Where nothing is replaced the text stays as it was written, to the digit.
    body = line[1:-1].strip() if len(kept) == len(found) else _json(kept)[1:-1]
    return "{" + ", ".join([body, *given.values()] if body else given.values()) + "}"


def _json(fields: Mapping[str, object]) -> str:
    try:
        return _ENCODED(fields)
    except TypeError:
        return whole_json(fields)  # which is slow, and writes decimals

"""A table → texts and bytes for people and programs: drawn for a terminal, JSON Lines, CSV, Parquet. It prints nothing.

Times are ISO-8601 with `Z` everywhere but in Parquet, which has a type for them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.engine.lines import json_column
from augury.history.raw import json_literal

ROWS_DRAWN_MAX: Final = 1000
"""Rows of a table that is drawn: nobody reads more, and each takes a while."""

_OFTEN_EMPTY: Final = ("constituents", "event_id", "source_time")
"""Columns that are not drawn where they hold nothing: a terminal is narrow."""

_ROWS_AT_ONCE: Final = 10_000
_UNLIMITED: Final = 100_000


def drawn(table: pa.Table, width: int | None) -> str:
    """The first rows as a table for the eye, as wide as a terminal, or as it takes where there is none."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawing = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    there = [name for name in _OFTEN_EMPTY if name in table.column_names]
    empty = [name for name in there if table[name].null_count == table.num_rows]
    first = table.drop_columns(empty).slice(0, ROWS_DRAWN_MAX)
    for name, kind in zip(first.column_names, first.schema.types, strict=True):
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        drawing.add_column(Text(printable(name)), justify="right" if is_number else "left", overflow="fold")
    for row in zip(*(_cells(column) for column in first.columns), strict=True):
        drawing.add_row(*map(Text, row))
    text = io.StringIO()
    Console(file=text, width=width or _UNLIMITED, color_system=None, legacy_windows=False).print(drawing)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def ndjson(table: pa.Table, event: str | None) -> Iterator[str]:
    """One JSON object a line, some lines at a time; `event` is the class of all rows, where they are events."""
    beginning = "{" if event is None else f'{{"event": {json_literal(event)}, '
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        part = table.slice(start, _ROWS_AT_ONCE)
        pieces: list[str | pa.Array] = [beginning]
        for place, (name, column) in enumerate(zip(part.column_names, part.columns, strict=True)):
            pieces += [f"{', ' if place else ''}{json_literal(name)}: ", _json(column)]
        lines = pc.binary_join_element_wise(*pieces, "}\n", "")
        yield "".join(lines.to_pylist())


def csv(table: pa.Table) -> bytes:
    """CSV with a header; texts are quoted, so that an empty one is told from NULL, which is nothing."""
    from pyarrow.csv import write_csv

    stream = io.BytesIO()
    plain = pa.table([_plain(column) for column in table.columns], table.column_names)
    write_csv(plain, stream)
    return stream.getvalue()


def parquet(table: pa.Table) -> bytes:
    """A Parquet file."""
    from pyarrow.parquet import write_table

    stream = io.BytesIO()
    write_table(table, stream)
    return stream.getvalue()


def printable(text: str) -> str:
    """The text with one harmless character for each that a terminal would act upon."""
    return "".join(ch if ch.isprintable() else "\ufffd" for ch in text)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """What CSV can hold: times and lists as texts."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_list(kind):
        text = pc.replace_substring_regex(_json(column), '^"|"$', "")
        return pc.if_else(column.is_null(), None, text)
    return column.cast(pa.string()) if pa.types.is_decimal(kind) else column


def _cells(column: pa.ChunkedArray) -> list[str]:
    """Values as they are drawn; NULL is nothing."""
    if pa.types.is_string(column.type):
        return ["" if value is None else printable(value) for value in column.to_pylist()]
    texts = ["" if text == "null" else text.strip('"') for text in _json(column).to_pylist()]
    if not pa.types.is_decimal(column.type) or not column.type.scale:
        return texts
    return [text.rstrip("0").rstrip(".") for text in texts]


def _json(column: pa.ChunkedArray) -> pa.Array:
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_list(column.type):
        inside = pc.binary_join(whole.cast(pa.list_(pa.string())), ", ")
        return pc.binary_join_element_wise("[", inside, "]", "").fill_null("null")
    return json_column(whole, _type(column.type))


def _type(kind: pa.DataType) -> t.Type:
    if pa.types.is_timestamp(kind):
        return t.TIMESTAMP
    if pa.types.is_decimal(kind):
        return t.Decimal(kind.precision, kind.scale)
    if pa.types.is_floating(kind):
        return t.DOUBLE
    if pa.types.is_date(kind):
        return t.DATE
    return t.STRING if pa.types.is_string(kind) else t.BIGINT

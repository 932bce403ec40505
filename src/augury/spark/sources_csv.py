"""CSV files → lines of JSON, each value as the class of its row declares it.

In: whole files as bytes, and a program. Out: rows of `LINES`. A cell is the text of its value, so only the class can
say whether `12` is a number; what does not fit stays text, and the engine refuses it with its reason. An empty cell
is NULL. A row that does not fit the header is refused.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.program import Program
from augury.engine.lines import json_column
from augury.event import key_of
from augury.history.raw import RAW_SHOWN_MAX
from augury.history.values import fit
from augury.spark.sources_lines import NOT_UTF8, Batches, Row, class_named, lines_batch, path_shown

_ROWS_AT_ONCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class Cells:
    """A row of a file: the number of its first line, its cells, and why it is no event."""

    number: int
    cells: list[str]
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class ReadCsv:
    """Whole files → `LINES`: value (bytes) and path in; `event` is the class of rows that do not name theirs."""

    program: Program
    event: str | None

    def __call__(self, batches: Batches) -> Batches:
        """Read the files of one partition."""
        for batch in batches:
            for value, path in zip(batch.column("value").to_pylist(), batch.column("path").to_pylist(), strict=True):
                source = path_shown(path)
                for rows in self._read(value, source, self.event or class_named(source)):
                    yield lines_batch(rows)

    def _read(self, data: bytes, source: str, event: str) -> Iterator[list[Row]]:
        lines = _Counted(data)
        first = next((line for line in lines if line.strip()), None)
        if first is None:
            return
        separator = max(",;\t|", key=lambda mark: (first.count(mark), mark == ","))
        reader = csv.reader(itertools.chain([first], lines), delimiter=separator)
        try:
            header = [name.strip() for name in next(reader)]
        except csv.Error as error:
            lines.broken = str(error)
            header = []
        if lines.broken:
            yield [(first.rstrip(), source, 1, event, f"the header of the file cannot be read: {lines.broken}")]
            return
        rows = _rows(reader, lines, len(header))
        while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            yield self._lines(header, some, source, event, separator)

    def _lines(self, header: list[str], rows: list[Cells], source: str, event: str, separator: str) -> list[Row]:
        found: dict[int, Row] = {}
        by_class: dict[str, list[int]] = {}
        named = next((i for i, name in enumerate(header) if key_of(name) == "event"), None)
        for index, row in enumerate(rows):
            if row.refused is not None:
                text = separator.join(row.cells)[: RAW_SHOWN_MAX * 4]
                found[index] = (text, source, row.number, event, row.refused)
            else:
                name = event if named is None else row.cells[named] or event
                by_class.setdefault(key_of(name), []).append(index)
        for name, indices in by_class.items():
            texts = as_json(self.program, name, header, [rows[index].cells for index in indices])
            for index, text in zip(indices, texts, strict=True):
                found[index] = (text, source, rows[index].number, event, None)
        return [found[index] for index in range(len(rows))]


def as_json(program: Program, event: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells of one class as JSON objects; of two columns of one name the first counts."""
    parts: list[pa.Array | str] = []
    for index, name in enumerate(header):
        if name in header[:index]:
            continue
        cells = pa.array([row[index] or None for row in rows], pa.string())
        parts += [
            f"{', ' if parts else ''}{json.dumps(name, ensure_ascii=False)}: ",
            _json(cells, program, event, name),
        ]
    texts: list[str] = pc.binary_join_element_wise("{", *parts, "}", "").to_pylist()
    return texts


def json_of_text(cells: pa.Array, of: t.Type) -> pa.Array:
    """Texts of values of a type as JSON values; what spells none stays the text it is."""
    as_text = json_column(cells, t.STRING)
    fitted = fit(cells, of, text=True)
    if isinstance(of, t.String) or fitted.misfits is None:
        return as_text if isinstance(of, t.String) else json_column(fitted.values, of)
    return pc.if_else(pa.array(fitted.misfits), as_text, json_column(fitted.values, of))


def _json(cells: pa.Array, program: Program, event: str, column: str) -> pa.Array:
    return json_of_text(cells, _type_of(program, event, column))


def _type_of(program: Program, event: str, column: str) -> t.Type:
    """The type of the attribute that a column feeds; a column that feeds none is text."""
    plan = program.class_plan(event)
    if plan is None:
        return t.STRING
    of_class = (s.columns for s in program.sources if key_of(s.event_class) == key_of(event))
    mapped = {key_of(foreign): own for columns in of_class for foreign, own in columns}
    attribute = plan.event_class.attribute(mapped.get(key_of(column), column))
    return t.STRING if attribute is None else attribute.type


class _Counted:
    """Lines as text, and the number of the last one taken: cells in quotes may hold line breaks."""

    def __init__(self, data: bytes) -> None:
        self._lines = io.BytesIO(data.removeprefix(b"\xef\xbb\xbf"))
        self.number = 0
        self.broken = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.broken = NOT_UTF8
            return line.decode("utf-8", "replace")


def _rows(reader: Iterator[list[str]], lines: _Counted, columns: int) -> Iterator[Cells]:
    """The rows that hold something; those that do not fit the header with the reason."""
    while True:
        number = lines.number + 1
        lines.broken = ""
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines.broken = str(error)
        if lines.broken:
            yield Cells(number, cells, lines.broken)
        elif cells and len(cells) != columns:
            yield Cells(number, cells, f"it has {len(cells)} cells, the header {columns}")
        elif any(cells):
            yield Cells(number, cells)

"""Files and things in memory → raw events, each with its place.

In: a path (a file of JSON Lines, CSV or Parquet, a folder of them, `-`), or tables, data frames, rows. Out: `Raw`
values in the order of the source. A row that cannot be read is one of them, with the reason, and its neighbours go
on; a file that cannot be read raises `Unreadable`. It knows no class.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

import pyarrow as pa

from augury import limits
from augury.datafiles import (
    BOM,
    BUFFER_BYTES,
    STREAM_ERRORS,
    WHOLE_COPY,
    Format,
    Unreadable,
    base_name,
    data_files,
    opened,
    why,
)
from augury.environment import Environment, Files, Machine
from augury.history.json_lines import DECODER, NO_OBJECT, read_line
from augury.history.raw import RAW_SHOWN_MAX, Broken, Lines, Raw, RawRows, RawTable

_ROWS_AT_ONCE: Final = 50_000
"""Rows of text that are held as Python values before they become columns."""


def read_events(path: str, environment: Environment | None = None) -> Iterator[Raw]:
    """The events of a file, of all files of a folder by name, or of standard input as JSON Lines."""
    world = environment or Machine()
    if path == "-":
        if world.stdin is None:
            raise Unreadable("E510", "standard input is closed", "name a file of events")
        yield from read_json_lines("stdin", world.stdin, None)
        return
    files, _ = data_files(Path(path), world.files)
    for file in files:
        yield from read_file(file, str(file), world.files)


def tables_of(events: object, name: str = "events") -> Iterator[Raw]:
    """The events of an Arrow table or batch, a data frame, rows as mappings, or a mapping from classes to these."""
    match events:
        case RawTable() | RawRows():
            yield events
        case pa.Table():
            yield RawTable(name, events)
        case pa.RecordBatch():
            yield RawTable(name, pa.Table.from_batches([events]))
        case pa.RecordBatchReader():
            yield RawTable(name, events.read_all())
        case Mapping():
            for event_class, rows in events.items():
                if not isinstance(event_class, str) or not _holds_rows(rows):
                    message = f"{event_class!r} of a mapping is a class, and its value rows of it"
                    raise TypeError(f"{message}, not {type(rows).__name__}; a single event goes into a list")
                for raw in tables_of(rows, event_class):
                    yield _with_class(raw, event_class)
        case _ if _is_frame(events):
            yield _of_frame(events, name)
        case str() | bytes() | Path():
            raise TypeError(f"events are tables, data frames or rows, not {events!r}; `read_events` reads files")
        case Iterable():
            rows = list(events)
            if rows and all(isinstance(row, RawTable | RawRows) for row in rows):
                yield from rows
            else:
                _check_rows(rows)
                yield RawRows(name, rows, range(1, len(rows) + 1))
        case _:
            kinds = "an Arrow table, a data frame, a list of mappings, or a mapping from classes to these"
            raise TypeError(f"events are {kinds}, not {type(events).__name__}")


# ---- memory ----------------------------------------------------------------------------------------------


def _is_frame(events: object) -> TypeGuard[Any]:
    kind = type(events)
    return kind.__module__.startswith("pandas.") and kind.__name__ == "DataFrame"


def _holds_rows(rows: object) -> bool:
    if isinstance(rows, Mapping | str | bytes):
        return False
    return isinstance(
        rows, pa.Table | pa.RecordBatch | pa.RecordBatchReader | RawTable | RawRows | Iterable
    ) or _is_frame(rows)


def _with_class(raw: Raw, event_class: str) -> Raw:
    match raw:
        case RawTable(source, table, numbers, _, text):
            return RawTable(source, table, numbers, event_class, text)
        case RawRows(source, rows, numbers, _, texts):
            return RawRows(source, rows, numbers, event_class, texts)


def _of_frame(frame: Any, name: str) -> Raw:
    frame = frame.rename(columns=str)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    try:
        return RawTable(name, pa.Table.from_pandas(frame, preserve_index=False))
    except (pa.ArrowException, OverflowError):  # a column of several kinds of values
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
        return RawRows(name, rows, range(1, len(rows) + 1))


def _check_rows(rows: list[Any]) -> None:
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise TypeError(f"row {number} of the events is no mapping but {type(row).__name__}")
        if not all(isinstance(field, str) for field in row):
            raise TypeError(f"row {number} of the events has a field whose name is no text")


# ---- files -----------------------------------------------------------------------------------------------


def read_file(path: Path, source: str, files: Files | None = None) -> Iterator[Raw]:
    """The events of a file that people call `source`; raises `Unreadable`."""
    try:
        raw, content, format_ = opened(path, files)
    except Unreadable as error:
        if is_only_empty(path, error):
            return
        raise
    with raw:
        match format_:
            case Format.JSON_LINES:
                yield from _json(path, source, content)
            case Format.CSV:
                yield from _csv(path, source, content)
            case Format.PARQUET:
                yield RawTable(source, parquet_table(path, content=content), None, base_name(path))


def is_only_empty(path: Path, error: Unreadable) -> bool:
    """Whether a file is one of text without a byte: it has no events, and that is no mistake."""
    return error.diagnostic.code == "E511" and path.suffix.lower() not in (".parquet", ".pq")


def _lines(source: str, stream: Any, *, has_bom: bool = True) -> Iterator[tuple[int, bytes, bool]]:
    """The lines with their numbers, and whether each is whole; of one that is too long the beginning."""
    for number in itertools.count(1):
        try:
            line = stream.readline(limits.INFER_LINE_BYTES_MAX)
            whole = len(line) < limits.INFER_LINE_BYTES_MAX or line.endswith(b"\n")
            piece = b"" if whole else line
            while piece and not piece.endswith(b"\n"):
                piece = stream.readline(BUFFER_BYTES)
        except STREAM_ERRORS as error:
            message = f"`{source}` breaks off after line {number - 1:,}: {why(error)}"
            raise Unreadable("E510", message, WHOLE_COPY) from None
        if not line:
            return
        if number == 1 and has_bom:
            line = line.removeprefix(BOM)
        yield number, line if whole else line[: RAW_SHOWN_MAX * 4], whole


# ---- JSON ------------------------------------------------------------------------------------------------


def _json(path: Path, source: str, content: io.BufferedReader) -> Iterator[Raw]:
    if content.peek(BUFFER_BYTES).removeprefix(BOM).lstrip().startswith(b"["):
        yield from _json_array(path, source, content)
    else:
        yield from read_json_lines(source, content, base_name(path))


def read_json_lines(source: str, stream: Any, event_class: str | None, *, has_bom: bool = True) -> Iterator[Raw]:
    """The events of lines, counted from 1; `stream` has a `readline`, and before the first line may stand a BOM."""
    rows: list[Mapping[str, object] | Broken] = []
    numbers: list[int] = []
    texts: list[bytes] = []
    for number, line, whole in _lines(source, stream, has_bom=has_bom):
        filled = line.strip()
        if not filled:
            continue
        rows.append(read_line(filled) if whole else _too_long(filled))
        numbers.append(number)
        texts.append(filled[: RAW_SHOWN_MAX * 4])
        if len(rows) == _ROWS_AT_ONCE:
            yield RawRows(source, rows, numbers, event_class, Lines(texts))
            rows, numbers, texts = [], [], []
    if rows:
        yield RawRows(source, rows, numbers, event_class, Lines(texts))


def _too_long(line: bytes) -> Broken:
    reason = f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes"
    return Broken(reason, line.decode("utf-8", "replace"))


def _json_array(path: Path, source: str, content: io.BufferedReader) -> Iterator[Raw]:
    """The items of one array in brackets; or, if it is not one, the lines as they are."""
    try:
        data = content.read(limits.INFER_ARRAY_BYTES_MAX + 1)
    except STREAM_ERRORS as error:
        raise Unreadable("E510", f"`{source}` breaks off: {why(error)}", WHOLE_COPY) from None
    if len(data) > limits.INFER_ARRAY_BYTES_MAX:
        advice = f"write one object a line: jq -c '.[]' {path.name}"
        raise Unreadable("E512", f"`{path.name}` is one large JSON array, and not JSON Lines", advice)
    try:
        items = DECODER.decode(data.removeprefix(BOM).decode())
    except (ValueError, ArithmeticError, RecursionError):
        yield from read_json_lines(source, io.BytesIO(data), base_name(path))
        return
    rows = [item if isinstance(item, dict) else Broken(NO_OBJECT, str(item)) for item in items]
    yield RawRows(source, rows, range(1, len(rows) + 1), base_name(path))


# ---- CSV -------------------------------------------------------------------------------------------------


class _Counted:
    """Lines as text, and the number of the last one taken: cells in quotes may hold line breaks."""

    def __init__(self, lines: Iterator[tuple[int, bytes, bool]]) -> None:
        self._lines = lines
        self.number = 0
        self.broken = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line, whole = next(self._lines)
        if not whole:
            self.broken = f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes"
        try:
            return line.decode()
        except UnicodeDecodeError:
            self.broken = "it is not UTF-8"
            return line.decode("utf-8", "replace")


def _csv(path: Path, source: str, content: io.BufferedReader) -> Iterator[Raw]:
    event_class = base_name(path)
    lines = _Counted(_lines(source, content))
    reader, header = _csv_header(path, lines)
    schema = pa.schema([pa.field(name, pa.string()) for name in header])

    def table(rows: list[list[str]], numbers: list[int]) -> RawTable:
        # An empty cell is NULL: CSV has no other way to say so.
        columns = [pa.array([cell or None for cell in column], pa.string()) for column in zip(*rows, strict=True)]
        return RawTable(source, pa.Table.from_arrays(columns, schema=schema), numbers, event_class, text=True)

    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, row in _csv_rows(reader, lines, len(header)):
        if rows and (isinstance(row, Broken) or len(rows) == _ROWS_AT_ONCE):
            yield table(rows, numbers)
            rows, numbers = [], []
        if isinstance(row, Broken):
            yield RawRows(source, [row], [number])
        else:
            rows.append(row)
            numbers.append(number)
    if rows:
        yield table(rows, numbers)


def _csv_header(path: Path, lines: _Counted) -> tuple[Iterator[list[str]], list[str]]:
    first = next((line for line in lines if line.strip()), "")
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    separator = "\t" if tabs else max(",;\t|", key=lambda mark: (first.count(mark), mark == ","))
    reader = csv.reader(itertools.chain([first], lines), delimiter=separator)
    try:
        header = next(reader, [])
    except csv.Error as error:
        lines.broken = why(error)
    if lines.broken:
        message = f"the header of `{path.name}` cannot be read: {lines.broken}"
        raise Unreadable("E510", message, "the first row names the columns, in UTF-8")
    return reader, [name.strip() for name in header]


def _csv_rows(reader: Iterator[list[str]], lines: _Counted, columns: int) -> Iterator[tuple[int, list[str] | Broken]]:
    while True:
        number = lines.number + 1
        lines.broken = ""
        cells: list[str] = []
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines.broken = why(error)
        text = ",".join(cells)[: RAW_SHOWN_MAX * 4]
        if lines.broken:
            yield number, Broken(lines.broken, text)
        elif len(cells) == columns:
            if any(cells):
                yield number, cells
        elif cells:
            yield number, Broken(f"it has {len(cells)} cells, the header {columns}", text)


# ---- Parquet ---------------------------------------------------------------------------------------------


def parquet_table(path: Path, groups: range | None = None, content: io.BufferedReader | None = None) -> pa.Table:
    """The rows of a file, or of some of its groups of rows; `content` is what it holds, where it is open."""
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path if content is None else content)
        table = file.read() if groups is None else file.read_row_groups(list(groups))
        table.validate(full=True)  # text that is not UTF-8 would be noticed much later, and far from its place
        return table
    except (pa.ArrowException, OSError, ValueError) as error:
        message = f"`{path.name}` is no Parquet that can be read: {why(error)}"
        raise Unreadable("E510", message, WHOLE_COPY) from None

"""A file → its rows: JSON Lines, CSV and Parquet, read piece by piece.

What cannot be read goes into the log, and its neighbours go on. It knows nothing of classes.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from augury import limits
from augury.datafiles import BOM, BUFFER_BYTES, STREAM_ERRORS, Format, Unreadable, opened, why
from augury.infer.kinds import LEFT_OUT, Kind, kind_of_arrow, kind_of_cell, kind_of_json
from augury.infer.log import Log
from augury.types import STRING

_BATCH_ROWS = 4096
_ONE_OBJECT_A_LINE = "JSON Lines has one object a line"


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row, where it stands, and a number that equal rows share."""

    place: str
    values: Mapping[str, Any]
    fingerprint: int


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file, how to see what kind a value is, and what the file itself declares."""

    rows: Iterator[Row]
    kind_of: Callable[[str, Any], Kind]
    declared: Mapping[str, Kind] = field(default_factory=dict)


@contextmanager
def open_table(path: Path, log: Log) -> Iterator[Table]:
    """Open one file in the format that its name or else its content tells."""
    raw, content, format_ = opened(path)
    with raw:
        match format_:
            case Format.JSON_LINES:
                yield Table(_json_rows(content, log), lambda _name, value: kind_of_json(value))
            case Format.CSV:
                yield Table(_csv_rows(content, path, log), lambda _name, value: kind_of_cell(value))
            case Format.PARQUET:
                yield _parquet_table(path, log)


# ---- lines -----------------------------------------------------------------------------------------------


def _lines(stream: io.BufferedIOBase, log: Log) -> Iterator[tuple[int, str]]:
    """The lines with their numbers; bytes that are not UTF-8 are kept as lone surrogates, for `_is_utf8`."""
    for number in itertools.count(1):
        try:
            line = stream.readline(limits.INFER_LINE_BYTES_MAX)
            whole = len(line) < limits.INFER_LINE_BYTES_MAX or line.endswith(b"\n")
            piece = b"" if whole else line
            while piece and not piece.endswith(b"\n"):
                piece = stream.readline(BUFFER_BYTES)
        except STREAM_ERRORS as error:
            log.broken = why(error)
            return
        if not line:
            return
        if not whole:
            if not log.may_try():
                return
            log.skip(
                f"line {number:,}",
                f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes",
                advice=_ONE_OBJECT_A_LINE,
            )
            continue
        if number == 1:
            line = line.removeprefix(BOM)
        yield number, line.decode("utf-8", "surrogateescape")


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _skip_bytes(log: Log, number: int) -> None:
    advice = f"write it as UTF-8, e.g. iconv -f LATIN1 -t UTF-8 {log.name}"
    log.skip(f"line {number:,}", "it is not UTF-8", advice=advice)


# ---- JSON ------------------------------------------------------------------------------------------------


def _json_rows(stream: io.BufferedReader, log: Log) -> Iterator[Row]:
    array = stream.peek(BUFFER_BYTES).removeprefix(BOM).lstrip().startswith(b"[")
    for place, value, fingerprint in _json_array(stream, log) if array else _json_lines(stream, log):
        if isinstance(value, dict):
            yield Row(place, value, fingerprint)
        else:
            what = "an array" if isinstance(value, list) else f"the value `{json.dumps(value)[:40]}`"
            detail = f"it is {what}, not an object"
            log.skip(place, "it is not an object", detail=detail, advice=_ONE_OBJECT_A_LINE)


def _json_lines(stream: io.BufferedIOBase, log: Log) -> Iterator[tuple[str, Any, int]]:
    for number, line in _lines(stream, log):
        line = line.strip()
        if not line:
            continue
        if not log.may_try():
            return
        if not _is_utf8(line):
            _skip_bytes(log, number)
            continue
        place = f"line {number:,}"
        try:
            yield place, json.loads(line), hash(line)
        except RecursionError:
            log.skip(place, "it is nested too deeply")
        except json.JSONDecodeError as error:
            detail = f"it is not JSON ({error.msg} at column {error.colno})"
            log.skip(place, "it is not JSON", detail=detail, advice=_ONE_OBJECT_A_LINE)
        except ValueError as error:
            log.skip(place, "it holds a number that is too long", detail=why(error))


def _json_array(stream: io.BufferedReader, log: Log) -> Iterator[tuple[str, Any, int]]:
    """The items of one array in brackets; or, if it is not one, the lines as they are."""
    advice = f"write one object a line: jq -c '.[]' {log.name}"
    try:
        content = stream.read(limits.INFER_ARRAY_BYTES_MAX + 1)
    except STREAM_ERRORS as error:
        log.broken = why(error)
        return
    if len(content) > limits.INFER_ARRAY_BYTES_MAX:
        raise Unreadable("E512", f"`{log.name}` is one large JSON array, and not JSON Lines", advice)
    try:
        items = json.loads(content.removeprefix(BOM))
    except (ValueError, RecursionError):
        yield from _json_lines(io.BytesIO(content), log)
        return
    log.remarks.append(f"`{log.name}` is one JSON array, but JSON Lines has one object a line: {advice}.")
    for number, item in enumerate(items, 1):
        if not log.may_try():
            return
        yield f"item {number:,}", item, _fingerprint(item, number)


def _fingerprint(item: Any, number: int) -> int:
    try:
        return hash(json.dumps(item))
    except RecursionError:
        return number


# ---- CSV -------------------------------------------------------------------------------------------------


def _csv_rows(stream: io.BufferedReader, path: Path, log: Log) -> Iterator[Row]:
    lines = _Counted(_lines(stream, log))
    reader, header = _csv_reader(lines, path, log)
    while True:
        place = f"line {lines.number + 1:,}"
        broken = ""
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells, broken = [], why(error)
        if not broken and not any(cells):
            continue
        if not log.may_try():
            return
        if broken:
            log.skip(place, broken, advice="close every quote, and double those inside a cell")
        elif len(cells) != len(header):
            detail = f"it has {len(cells)} cells, the header {len(header)}"
            advice = "quote cells that hold the separator"
            log.skip(place, "it has more or fewer cells than the header", detail=detail, advice=advice)
        elif not _is_utf8("".join(cells)):
            _skip_bytes(log, lines.number)
        else:
            yield Row(place, _first_of_each(header, cells), hash(tuple(cells)))


def _csv_reader(lines: _Counted, path: Path, log: Log) -> tuple[Iterator[list[str]], list[str]]:
    first = next((line for line in lines if line.strip()), "")
    tabs = path.name.lower().removesuffix(".gz").endswith(".tsv")
    separator = "\t" if tabs else max(",;\t|", key=lambda mark: (first.count(mark), mark == ","))
    if separator not in ",\t":
        log.remarks.append(f"The cells of `{log.name}` are separated by `{separator}`, not by commas.")
    reader = csv.reader(itertools.chain([first], lines), delimiter=separator)
    try:
        header = next(reader, [])
    except csv.Error as error:
        message = f"the header of `{log.name}` cannot be read: {why(error)}"
        raise Unreadable("E510", message, "the first row names the columns") from None
    if not _is_utf8("".join(header)):
        advice = f"write it as UTF-8, e.g. iconv -f LATIN1 -t UTF-8 {log.name}"
        raise Unreadable("E510", f"the header of `{log.name}` is not UTF-8", advice)
    if any(name and kind_of_cell(name) != STRING for name in header):
        log.remarks.append(f"The first row of `{log.name}` is taken for the header, though it looks like data.")
    if len(set(header)) < len(header):
        log.remarks.append(f"`{log.name}` has several columns of one name; the first of each is taken.")
    return reader, header


def _first_of_each(header: list[str], cells: list[str]) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for name, cell in zip(header, cells, strict=True):
        values.setdefault(name, cell or None)
    return values


class _Counted:
    """Lines, and the number of the last one taken: cells in quotes may hold line breaks."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        return line


# ---- Parquet ---------------------------------------------------------------------------------------------


def _parquet_table(path: Path, log: Log) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError, ValueError) as error:
        message = f"`{path.name}` is no Parquet that can be read: {why(error)}"
        raise Unreadable("E510", message, "get a whole copy of the file") from None
    declared: dict[str, Kind] = {}
    for column in schema:
        declared.setdefault(column.name, kind_of_arrow(column.type))
    if len(declared) < len(schema):
        log.remarks.append(f"`{log.name}` has several columns of one name; the first of each is taken.")
    return Table(_parquet_rows(file, declared, log), lambda name, _value: declared[name], declared)


def _parquet_rows(file: Any, declared: Mapping[str, Kind], log: Log) -> Iterator[Row]:
    import pyarrow as pa

    wanted = [name for name, kind in declared.items() if kind not in LEFT_OUT]
    number = 0
    try:
        # Without a column to read, all are: a batch without columns has lost its number of rows.
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=wanted or None):
            columns = [_plain(batch.column(batch.schema.get_all_field_indices(name)[0])) for name in wanted]
            for i in range(batch.num_rows):
                if not log.may_try():
                    return
                number += 1
                cells = tuple(column[i] for column in columns)
                yield Row(f"row {number:,}", dict(zip(wanted, cells, strict=True)), hash(cells))
    except (pa.ArrowException, OSError, ValueError) as error:
        log.broken = f"after row {number:,}: {why(error)}"


def _plain(column: Any) -> list[Any]:
    """The values as Python has them; times as numbers, for Python's own reach neither as far nor as fine."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_date64(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    return values

"""Bytes of data files → rows, each with where it begins; what is no row says why.

In: bytes that end at the end of a line, and the format. Out: mappings or `Broken`. It reads no file and knows no class.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from augury import limits
from augury.datafiles import BOM, Format, format_by_name
from augury.detectors.sensor import SourceFailed
from augury.history.json_lines import DECODER, NO_OBJECT, read_line
from augury.history.raw import RAW_SHOWN_MAX, Broken

Row = Mapping[str, object] | Broken
FORMATS: Final = {
    **dict.fromkeys(("jsonl", "ndjson", "json"), Format.JSON_LINES),
    **dict.fromkeys(("csv", "tsv"), Format.CSV),
    "parquet": Format.PARQUET,
}
"""What `format` may say."""

_SEPARATORS: Final = ",;\t|"


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a CSV file, and what separates its cells."""

    names: tuple[str, ...]
    separator: str


def format_of(name: str, wanted: str | None = None) -> Format:
    """The format that a setting says, or the name of a file; JSON Lines where neither says anything."""
    if wanted is not None:
        return FORMATS[wanted.lower()]
    # The ending of a name, as everywhere else; a log without one is JSON Lines.
    return format_by_name(Path(name)) or Format.JSON_LINES


def whole_rows(name: str, data: bytes, wanted: str | None = None) -> list[Row]:
    """All rows of a file; raises `SourceFailed` for one that cannot be read as a whole."""
    if data.startswith(b"\x1f\x8b"):
        data = _unpacked(name, data)
    match format_of(name, wanted):
        case Format.PARQUET:
            return _parquet(name, data)
        case Format.CSV:
            return _whole_csv(data, name)
        case Format.JSON_LINES:
            if data.removeprefix(BOM).lstrip().startswith(b"["):
                return _json_array(data)
            return [row for _, row in json_rows(data)]


def is_text(name: str, wanted: str | None = None) -> bool:
    """Whether the values of a file are spelled out."""
    return format_of(name, wanted) is Format.CSV


def lines_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, each with where it begins."""
    at = 0
    for line in data.split(b"\n"):
        if line.strip():
            yield at, line.strip()
        at += len(line) + 1


def json_rows(data: bytes) -> list[tuple[int, Row]]:
    """Lines of JSON, each with where it begins."""
    return [(at, read_line(line.removeprefix(BOM) if not at else line)) for at, line in lines_of(data)]


def csv_header(line: bytes, name: str) -> Header:
    """The columns that the first line of a file names."""
    text = line.removeprefix(BOM).decode("utf-8", "replace").strip()
    is_tabs = name.lower().removesuffix(".gz").endswith(".tsv")
    separator = "\t" if is_tabs else max(_SEPARATORS, key=lambda mark: (text.count(mark), mark == ","))
    return Header(tuple(cell.strip() for cell in next(csv.reader([text], delimiter=separator), [])), separator)


def csv_rows(data: bytes, header: Header) -> list[tuple[int, Row]]:
    """Records of CSV, each with where it begins; cells in quotes may hold line breaks."""
    return [(at, _record(text, header)) for at, text in records_of(data)]


def records_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The records of CSV that hold something: lines, put together as long as a quote is open."""
    at, begun, record = 0, 0, b""
    for line in data.split(b"\n"):
        record = record + b"\n" + line if record else line
        at += len(line) + 1
        if record.count(b'"') % 2 == 0:
            if record.strip():
                yield begun, record
            begun, record = at, b""
    if record.strip():
        yield begun, record


def ends_in_quotes(data: bytes) -> int:
    """How many bytes at the end belong to a record of CSV that is not over."""
    rest = 0
    for at, record in records_of(data):
        rest = len(data) - at if record.count(b'"') % 2 else 0
    return rest


def _record(record: bytes, header: Header) -> Row:
    shown = record[: RAW_SHOWN_MAX * 4].decode("utf-8", "replace").strip()
    try:
        cells = next(csv.reader(io.StringIO(record.decode().strip("\r\n"), newline=""), delimiter=header.separator), [])
    except UnicodeDecodeError:
        return Broken("it is not UTF-8", shown)
    except csv.Error as error:
        return Broken(f"it is not CSV: {error}", shown)
    if len(cells) != len(header.names):
        return Broken(f"it has {len(cells)} cells, the header {len(header.names)}", shown)
    # An empty cell is as if it were left out: CSV has no other way to say so.
    return {name: cell for name, cell in zip(header.names, cells, strict=True) if cell}


def _whole_csv(data: bytes, name: str) -> list[Row]:
    records: Sequence[tuple[int, bytes]] = list(records_of(data))
    if not records:
        return []
    header = csv_header(records[0][1], name)
    return [_record(record, header) for _, record in records[1:]]


def _json_array(data: bytes) -> list[Row]:
    try:
        items = DECODER.decode(data.removeprefix(BOM).decode())
    except (ValueError, ArithmeticError, RecursionError):
        return [row for _, row in json_rows(data)]
    return [item if isinstance(item, dict) else Broken(NO_OBJECT, str(item)[:RAW_SHOWN_MAX]) for item in items]


def _parquet(name: str, data: bytes) -> list[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(data))
        table.validate(full=True)
        rows = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SourceFailed(f"`{name}` is no Parquet that can be read: {error}") from None
    # In columns a NULL and a value left out are the same.
    return [{field: value for field, value in row.items() if value is not None} for row in rows]


def _unpacked(name: str, data: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            content = packed.read(limits.DETECTOR_FILE_BYTES_MAX + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceFailed(f"`{name}` cannot be unpacked: {error}") from None
    if len(content) > limits.DETECTOR_FILE_BYTES_MAX:
        raise SourceFailed(f"`{name}` holds more than {limits.DETECTOR_FILE_BYTES_MAX:,} bytes: cut it in parts")
    return content

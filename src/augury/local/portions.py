"""Files of events in portions that can be read apart, by whoever sees the files: a file, or a stretch of a large one.

In: a path. Out: portions in the order of the events, each of which gives its raw events as `local.sources` reads them.
Text that is neither packed nor one array is cut by bytes, and Parquet by its groups of rows; CSV is not cut, for a
cell may hold line breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyarrow import parquet

from augury.datafiles import BOM, BUFFER_BYTES, Format, Unreadable, base_name, data_files, opened
from augury.history.raw import Raw, RawTable
from augury.local.sources import is_only_empty, parquet_table, read_file, read_json_lines

PORTION_BYTES: Final = 32 << 20
"""About so much of a file is read at once: some hundred thousand events."""


@dataclass(frozen=True, slots=True)
class Portion:
    """A file, or a stretch of it: bytes of text, or groups of rows, before which there are `rows_before`.

    `number` is that of the file among all, `source` what people call it. `part` counts stretches of text, in which
    lines are counted from 1; it is -1 where rows have the numbers that they have in the file.
    """

    path: str
    source: str
    number: int
    format: Format
    part: int = -1
    begin: int = 0
    end: int | None = None
    rows_before: int = 0

    def read(self) -> Iterator[Raw]:
        """The raw events; raises `Unreadable`."""
        path = Path(self.path)
        if self.end is None:
            yield from read_file(path, self.source)
        elif self.format is Format.PARQUET:
            table = parquet_table(path, range(self.begin, self.end))
            numbers = range(self.rows_before + 1, self.rows_before + 1 + table.num_rows)
            yield RawTable(self.source, table, numbers, base_name(path))
        else:
            stream, _, _ = opened(path)
            with stream:
                lines = _Stretch(stream, self.begin, self.end)
                yield from read_json_lines(self.source, lines, base_name(path), has_bom=self.begin == 0)

    def lines(self) -> int:
        """How many lines begin in a stretch of text; raises `Unreadable`."""
        assert self.end is not None, "a whole file is no stretch"
        stream, _, _ = opened(Path(self.path))
        with stream:
            # A line begins behind each line break, and the first where the file does.
            stream.seek(max(self.begin - 1, 0))
            left, found = self.end - 1 - stream.tell(), int(self.begin == 0)
            while left > 0 and (some := stream.read(min(left, 1 << 20))):
                found += some.count(b"\n")
                left -= len(some)
        return found


class _Stretch:
    """The lines of a file that begin between two places."""

    def __init__(self, stream: Any, begin: int, end: int) -> None:
        stream.seek(max(begin - 1, 0))
        self._stream, self._at, self._end = stream, max(begin - 1, 0), end
        self._is_at_start = begin == 0
        while not self._is_at_start and self._next(BUFFER_BYTES):
            pass

    def readline(self, most: int) -> bytes:
        """The next line, or as many bytes of it."""
        return b"" if self._is_at_start and self._at >= self._end else self._next(most)

    def _next(self, most: int) -> bytes:
        line: bytes = self._stream.readline(most)
        self._at += len(line)
        self._is_at_start = line.endswith(b"\n")
        return line


def can_be_read_again(path: str) -> bool:
    """Whether a path is that of a folder or a plain file, or of nothing at all; a pipe is read once, and then empty."""
    found = Path(path)
    return found.is_file() or found.is_dir() or not found.exists()


def portions_of(path: str, portion_bytes: int | None = PORTION_BYTES) -> list[Portion]:
    """The portions of a file or of all files of a folder, by name; None leaves files whole. Raises `Unreadable`."""
    files, _ = data_files(Path(path))
    found = []
    for number, file in enumerate(files):
        try:
            raw, content, format_ = opened(file)
        except Unreadable as error:
            if is_only_empty(file, error):
                continue
            raise
        with raw:
            size = file.stat().st_size
            is_array = content.peek(BUFFER_BYTES).removeprefix(BOM).lstrip().startswith(b"[")
            is_packed = content is not raw
        whole = Portion(str(file.absolute()), str(file), number, format_)
        if portion_bytes is None or size <= portion_bytes or is_packed or format_ is Format.CSV:
            found.append(whole)
        elif format_ is Format.PARQUET:
            found += _groups(whole, size, portion_bytes)
        else:
            found += [whole] if is_array else _stretches(whole, size, portion_bytes)
    return found


def _stretches(whole: Portion, size: int, portion_bytes: int) -> Iterator[Portion]:
    for part, begin in enumerate(range(0, size, portion_bytes)):
        end = min(begin + portion_bytes, size)
        yield Portion(whole.path, whole.source, whole.number, whole.format, part, begin, end)


def _groups(whole: Portion, size: int, portion_bytes: int) -> Iterator[Portion]:
    """Some groups of rows at a time; a file whose end cannot be read is left to whoever reads it."""
    try:
        metadata = parquet.ParquetFile(whole.path).metadata
    except (OSError, ValueError):
        yield whole
        return
    begin = rows = taken = rows_before = 0
    for group in range(metadata.num_row_groups):
        taken += size * metadata.row_group(group).num_rows // max(metadata.num_rows, 1)
        rows += metadata.row_group(group).num_rows
        if taken >= portion_bytes or group == metadata.num_row_groups - 1:
            yield Portion(whole.path, whole.source, whole.number, whole.format, -1, begin, group + 1, rows_before)
            begin, rows_before, taken = group + 1, rows, 0

"""A file that grows: the lines that were added since the last look, also when it was rotated or cut off.

In: the path of a file of JSON Lines or CSV. Out: items with their offsets. The position says which file it was, how far
it was read, and how it began, so that another one in its place is noticed; the rest of one that was renamed is looked
for beside it.
"""

from __future__ import annotations

import hashlib
import json
import os.path
from dataclasses import asdict, dataclass, replace
from typing import Final

from augury import limits
from augury.datafiles import Format, why
from augury.detectors.rows import Header, Row, csv_header, csv_rows, ends_in_quotes, format_of, json_rows
from augury.detectors.sensor import BadDetector, Item, Seen, SourceFailed
from augury.environment import Files
from augury.history.raw import RAW_SHOWN_MAX, Broken

_PART_BYTES: Final = 1 << 20
"""How much of a file is read at a look; more is read at once at the next."""

_HEAD_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class _Position:
    """How far which file was read; `head` is a digest of its first bytes, `generation` counts files."""

    number: int
    offset: int = 0
    generation: int = 0
    head_bytes: int = 0
    head: str = ""
    columns: tuple[str, ...] = ()
    separator: str = ","
    is_skipping: bool = False


class FileTail:
    """Follows one file."""

    def __init__(self, files: Files, path: str, wanted_format: str | None = None) -> None:
        """Open nothing yet."""
        self._files, self._path = files, path
        self._format = format_of(path, wanted_format)
        if self._format is Format.PARQUET:
            raise BadDetector(f"`{path}`: a Parquet file does not grow; detect the folder it is put in: FROM DIRECTORY")

    async def poll(self, position: bytes | None) -> Seen:
        """The lines since the position."""
        try:
            number, size = self._files.mark(self._path)
            at = _Position(number) if position is None else _loaded(position)
            if position is not None and not self._is_same(at, number, size):
                old = self._renamed(at)
                if old is not None:
                    seen = self._look(old, at, self._files.mark(old)[1], is_over=True)
                    if seen.more or seen.items:
                        return replace(seen, more=True)
                at = _Position(number, generation=at.generation + 1)
            return self._look(self._path, at, size, is_over=False)
        except FileNotFoundError:
            raise SourceFailed(f"there is no file `{self._path}`") from None
        except OSError as error:
            raise SourceFailed(f"`{self._path}` cannot be read: {why(error)}") from None

    def _is_same(self, at: _Position, number: int, size: int) -> bool:
        if number != at.number or size < at.offset:
            return False
        return _digest(self._files.read(self._path, 0, at.head_bytes)) == at.head

    def _renamed(self, at: _Position) -> str | None:
        """Where the file is that was followed, if it was renamed in its folder and has a rest."""
        folder, name = os.path.split(self._path)
        for other in self._files.names(folder or "."):
            path = os.path.join(folder, other)
            if other != name and other.startswith(name):
                number, size = self._files.mark(path)
                if number == at.number and size > at.offset:
                    same = _digest(self._files.read(path, 0, at.head_bytes)) == at.head
                    return path if same else None
        return None

    def _look(self, path: str, at: _Position, size: int, *, is_over: bool) -> Seen:
        """The whole lines of the next part; of a file that is over also the last one that has no end."""
        data = self._files.read(path, at.offset, _PART_BYTES)
        data, items, at = self._skipped(data, at)
        end = data.rfind(b"\n") + 1
        while not end and at.offset + len(data) < size and len(data) < limits.INFER_LINE_BYTES_MAX:
            data += self._files.read(path, at.offset + len(data), _PART_BYTES)
            end = data.rfind(b"\n") + 1
        is_last = at.offset + len(data) >= size
        if is_over and is_last:
            end = len(data)
        elif not end and len(data) >= limits.INFER_LINE_BYTES_MAX:
            shown = data[: RAW_SHOWN_MAX * 4].decode("utf-8", "replace")
            items.append(Broken(f"it is longer than {limits.INFER_LINE_BYTES_MAX:,} bytes", shown))
            at, data, end = replace(at, offset=at.offset + len(data), is_skipping=True), b"", 0
        rows, at = self._rows(data[:end], at, is_over=is_over and is_last)
        items += [self._item(row, at, offset) for offset, row in rows]
        at = self._with_head(path, at)
        return Seen(tuple(items), _saved(at), more=bool(rows) and at.offset < size and not is_last)

    def _skipped(self, data: bytes, at: _Position) -> tuple[bytes, list[Item | Broken], _Position]:
        """Without the rest of a line that was too long."""
        if not at.is_skipping:
            return data, [], at
        end = data.find(b"\n") + 1
        left = end or len(data)
        return data[left:], [], replace(at, offset=at.offset + left, is_skipping=not end)

    def _rows(self, data: bytes, at: _Position, *, is_over: bool) -> tuple[list[tuple[int, Row]], _Position]:
        """The rows of whole lines, with their offsets in the file, and the position after them."""
        start = at.offset
        if self._format is not Format.CSV:
            return [(start + o, row) for o, row in json_rows(data)], replace(at, offset=start + len(data))
        if not at.columns and data.strip():
            line, _, data = data.lstrip(b"\r\n").partition(b"\n")
            header = csv_header(line, self._path)
            start = at.offset + len(line) + 1
            at = replace(at, columns=header.names, separator=header.separator)
        rest = 0 if is_over else ends_in_quotes(data)
        if rest >= _PART_BYTES:
            rest = 0  # a quote that nobody closes must not keep back what follows
        whole = data[: len(data) - rest]
        rows = [(start + o, row) for o, row in csv_rows(whole, Header(at.columns, at.separator))]
        return rows, replace(at, offset=start + len(whole))

    def _item(self, row: Row, at: _Position, offset: int) -> Item | Broken:
        if isinstance(row, Broken):
            return row
        place = f"{at.number}:{at.generation}:{offset}"
        return Item(row, place, is_text=self._format is Format.CSV, is_event=True)

    def _with_head(self, path: str, at: _Position) -> _Position:
        wanted = min(at.offset, _HEAD_BYTES)
        if wanted == at.head_bytes:
            return at
        return replace(at, head_bytes=wanted, head=_digest(self._files.read(path, 0, wanted)))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16] if data else ""


def _saved(position: _Position) -> bytes:
    return json.dumps(asdict(position)).encode()


def _loaded(content: bytes) -> _Position:
    found = json.loads(content)
    return _Position(**{**found, "columns": tuple(found["columns"])})

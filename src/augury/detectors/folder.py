"""A folder into which files are put: each new file is read once, as a whole.

In: the path of a folder. Out: items, of one file at a look. A file counts as whole once it was as large at two looks
one after the other; names that begin with `.` or `_` are those of files still being written. The position holds which
files were read, and how far the one at hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from augury import limits
from augury.datafiles import format_by_name, why
from augury.detectors.rows import Row, is_text, whole_rows
from augury.detectors.sensor import Item, Seen, SourceFailed
from augury.environment import Files
from augury.history.raw import Broken

_Mark = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Position:
    """By name the files that were read, those that were seen, each as it was then; and the one at hand with its row."""

    read: dict[str, _Mark] = field(default_factory=dict)
    seen: dict[str, _Mark] = field(default_factory=dict)
    at_hand: str | None = None
    row: int = 0


class Folder:
    """Reads what is put into one folder."""

    def __init__(self, files: Files, path: str, wanted_format: str | None = None) -> None:
        """Open nothing yet."""
        self._files, self._path, self._format = files, path.rstrip("/") or "/", wanted_format
        self._rows: tuple[str, _Mark, list[Row]] | None = None
        self._unreadable: dict[str, tuple[_Mark, str]] = {}

    async def poll(self, position: bytes | None) -> Seen:
        """The next rows of the next file that is new."""
        try:
            marks = {name: self._files.mark(f"{self._path}/{name}") for name in self._names()}
        except OSError as error:
            raise SourceFailed(f"the folder `{self._path}` cannot be read: {why(error)}") from None
        at = _Position() if position is None else _loaded(position)
        # What is gone is forgotten; what took the place of another file is a new one.
        read = {name: mark for name, mark in at.read.items() if name in marks and marks[name][0] == mark[0]}
        new = [name for name in marks if name not in read]
        whole = [name for name in new if at.seen.get(name) == marks[name] or name == at.at_hand]
        readable = [name for name in whole if self._unreadable.get(name, (None, ""))[0] != marks[name]]
        seen = {name: marks[name] for name in new}
        if not readable:
            told = [self._unreadable[name][1] for name in whole]
            return Seen((), _saved(_Position(read, seen)), problem=told[0] if told else None)
        return self._next(readable[0], marks, _Position(read, seen, at.at_hand, at.row), others=len(readable) > 1)

    def _names(self) -> list[str]:
        names = [name for name in self._files.names(self._path) if not name.startswith((".", "_"))]
        return names if self._format else [name for name in names if format_by_name(Path(name))]

    def _next(self, name: str, marks: dict[str, _Mark], at: _Position, *, others: bool) -> Seen:
        mark = marks[name]
        try:
            rows = self._rows_of(name, mark)
        except SourceFailed as error:
            # It stays as it is until it is replaced: the others must not wait for it.
            self._unreadable[name] = mark, str(error)
            return Seen((), _saved(_Position(at.read, at.seen)), more=others, problem=None if others else str(error))
        first = at.row if at.at_hand == name else 0
        last = min(first + limits.DETECTOR_ITEMS_AT_ONCE, len(rows))
        spelled = is_text(name, self._format)
        items = tuple(
            row if isinstance(row, Broken) else Item(row, f"{name}:{mark[0]}:{number}", spelled, True)
            for number, row in enumerate(rows[first:last], first + 1)
        )
        if last < len(rows):
            return Seen(items, _saved(_Position(at.read, at.seen, name, last)), more=True)
        self._rows = None
        del at.seen[name]
        return Seen(items, _saved(_Position({**at.read, name: mark}, at.seen)), more=others)

    def _rows_of(self, name: str, mark: _Mark) -> list[Row]:
        if self._rows is not None and self._rows[:2] == (name, mark):
            return self._rows[2]
        path = f"{self._path}/{name}"
        if mark[1] > limits.DETECTOR_FILE_BYTES_MAX:
            raise SourceFailed(f"`{path}` is larger than {limits.DETECTOR_FILE_BYTES_MAX:,} bytes: cut it in parts")
        try:
            content = self._files.read(path)
        except OSError as error:
            raise SourceFailed(f"`{path}` cannot be read: {why(error)}") from None
        rows = whole_rows(name, content, self._format)
        self._rows = name, mark, rows
        return rows


def _saved(at: _Position) -> bytes:
    return json.dumps([at.read, at.seen, at.at_hand, at.row]).encode()


def _loaded(content: bytes) -> _Position:
    read, seen, at_hand, row = json.loads(content)
    marks = [{name: (one[0], one[1]) for name, one in found.items()} for found in (read, seen)]
    return _Position(marks[0], marks[1], at_hand, row)

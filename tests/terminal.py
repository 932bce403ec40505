"""A real pseudo-terminal for tests, and what a person would see on it.

`Terminal` is a pair of ends; what is written to its slave is collected. `shown` plays it back: carriage returns,
cursor up, erased lines.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import struct
import termios
from threading import Thread
from types import TracebackType
from typing import TextIO

_TOKEN = re.compile(r"\x1b\[(?P<numbers>[?0-9;]*)(?P<verb>[A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Terminal:
    """A terminal of so many columns; `stream` writes to it, and `text` has all that was written once it is closed."""

    def __init__(self, columns: int = 2000) -> None:
        self._master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self.stream: TextIO = os.fdopen(os.dup(self.slave), "w", encoding="utf-8")
        self._parts: list[bytes] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 65536)
            except OSError as error:
                if error.errno == errno.EIO:  # Linux says so when the last who could write has gone
                    return
                raise
            if not part:
                return
            self._parts.append(part)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stream.close()
        os.close(self.slave)
        self._reader.join(60)
        os.close(self._master)

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode("utf-8")


def shown(text: str) -> list[str]:
    """The lines that are left on the screen."""
    rows: list[str] = [""]
    row = column = 0
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None, f"nobody knows what {text[at : at + 20]!r} does"
        at = found.end()
        match found["verb"], found[0]:
            case None, "\r":
                column = 0
            case None, "\n":
                row += 1
                rows += [""] * (row + 1 - len(rows))
            case None, words:
                line = rows[row].ljust(column)
                rows[row] = line[:column] + words + line[column + len(words) :]
                column += len(words)
            case "A", _:
                row -= int(found["numbers"] or 1)
            case "K", _:
                assert found["numbers"] == "2", found[0]
                rows[row] = ""
            case (("m" | "h" | "l"), _):
                pass
            case verb, _:
                raise AssertionError(f"nobody knows what {verb!r} does")
    while rows and not rows[-1].strip():
        rows.pop()
    return [line.rstrip() for line in rows]

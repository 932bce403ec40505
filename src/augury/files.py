"""Program files → text, or the diagnostic that says why not; the one place where the front end touches the disk."""

from __future__ import annotations

import sys
from pathlib import Path

from augury import limits
from augury.diagnostics import NOWHERE, Diagnostic, Mark, Source


class UnreadableFile(Exception):
    """A file that gives no text; `exit_code` is 2 where the command was wrong, 1 where the content is."""

    def __init__(self, path: str, code: str, message: str, help_text: str, exit_code: int) -> None:
        """Make the diagnostic."""
        super().__init__(message)
        self.source = Source(path, "")
        self.diagnostic = Diagnostic(code, message, Mark(NOWHERE), helps=(help_text,))
        self.exit_code = exit_code


def read_source(path: str) -> Source:
    """The text of a program file; `-` is standard input."""
    try:
        data = sys.stdin.buffer.read(limits.PROGRAM_CHARACTERS_MAX * 4 + 1) if path == "-" else _read(path)
    except FileNotFoundError:
        raise UnreadableFile(path, "E500", f"there is no file `{path}`", "check the path", 2) from None
    except IsADirectoryError:
        raise UnreadableFile(path, "E501", f"`{path}` is a directory", f"name its files: {path}/*.bicepl", 2) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableFile(path, "E503", f"`{path}` cannot be read: {reason}", "check its permissions", 2) from None
    if len(data) > limits.PROGRAM_CHARACTERS_MAX * 4:
        raise _too_long(path)
    try:
        return Source(path, data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(
            path,
            "E502",
            f"`{path}` is not UTF-8: byte 0x{data[error.start]:02x} in line {line} at offset {error.start}",
            "save it as UTF-8; is it a program at all?",
            1,
        ) from None


def _read(path: str) -> bytes:
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError
    if file.is_file() and file.stat().st_size > limits.PROGRAM_CHARACTERS_MAX * 4:
        raise _too_long(path)
    with file.open("rb") as stream:
        return stream.read(limits.PROGRAM_CHARACTERS_MAX * 4 + 1)


def _too_long(path: str) -> UnreadableFile:
    return UnreadableFile(
        path,
        "E402",
        f"`{path}` is longer than {limits.PROGRAM_CHARACTERS_MAX:,} characters",
        "split it into several programs; is this a data file?",
        1,
    )

"""Program files → text and back, or the diagnostic that says why not: where the front end touches the disk."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from augury import limits
from augury.diagnostics import NOWHERE, Diagnostic, Mark, Source

_BYTES_MAX = limits.PROGRAM_CHARACTERS_MAX * 4
"""What a text of the greatest length takes at most in UTF-8."""


class UnreadableFile(Exception):
    """A file that gives or takes no text; `exit_code` is 2 where the command was wrong, 1 where the content is."""

    def __init__(self, path: str, code: str, message: str, help_text: str, exit_code: int) -> None:
        """Make the diagnostic."""
        super().__init__(message)
        self.source = Source(path, "")
        self.diagnostic = Diagnostic(code, message, Mark(NOWHERE), helps=(help_text,))
        self.exit_code = exit_code


def read_source(path: str, what: str = "program", names: str = "*.bicepl") -> Source:
    """The text of a program file, or of another that holds `what`; `-` is standard input."""
    try:
        data = _read(path, what)
    except FileNotFoundError:
        raise UnreadableFile(path, "E500", f"there is no file `{path}`", "check the path", 2) from None
    except IsADirectoryError:
        raise UnreadableFile(path, "E501", f"`{path}` is a directory", f"name its files: {path}/{names}", 2) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnreadableFile(path, "E503", f"`{path}` cannot be read: {reason}", "check its permissions", 2) from None
    return source_of(data, path, what)


def source_of(data: bytes, path: str, what: str = "program") -> Source:
    """The text of a file that holds these bytes."""
    if len(data) > _BYTES_MAX:
        raise _too_long(path, what)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UnreadableFile(
            path,
            "E502",
            f"`{path}` is not UTF-8: byte 0x{error.object[error.start]:02x} in line {line} at offset {error.start}",
            f"save it as UTF-8; is it a {what} at all?",
            1,
        ) from None
    if len(text) > limits.PROGRAM_CHARACTERS_MAX:
        raise _too_long(path, what)
    return Source(path, text)


def write_text(path: str, text: str) -> None:
    """Put a text in the place of a file's, all at once: where that fails, the old one is still there."""
    import shutil
    import tempfile

    file = Path(path).resolve()
    new = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", newline="", delete=False) as stream:
            new = stream.name
            stream.write(text)
        shutil.copymode(file, new)
        os.replace(new, file)
    except OSError as error:
        if new is not None:
            with suppress(OSError):
                os.unlink(new)
        message = f"`{path}` cannot be written: {error.strerror}"
        raise UnreadableFile(path, "E503", message, "check its permissions, and the space on the disk", 2) from None


def _read(path: str, what: str) -> bytes:
    if path == "-":
        if sys.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return sys.stdin.buffer.read(_BYTES_MAX + 1)
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError
    if file.is_file() and file.stat().st_size > _BYTES_MAX:
        raise _too_long(path, what)
    with file.open("rb") as stream:
        return stream.read(_BYTES_MAX + 1)


def _too_long(path: str, what: str) -> UnreadableFile:
    return UnreadableFile(
        path,
        "E402",
        f"`{path}` is longer than {limits.PROGRAM_CHARACTERS_MAX:,} characters",
        f"split it into several {what}s; is this a data file?",
        1,
    )

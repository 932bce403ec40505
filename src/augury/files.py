"""Program files → text and back, or the diagnostic that says why not; the disk is that of an `Environment`."""

from __future__ import annotations

import errno

from augury import limits
from augury.diagnostics import NOWHERE, Diagnostic, Mark, Source
from augury.environment import Environment, Machine

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


def read_source(
    path: str, what: str = "program", names: str = "*.bicepl", environment: Environment | None = None
) -> Source:
    """The text of a program file, or of another that holds `what`; `-` is standard input."""
    try:
        data = _read(path, environment or Machine())
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


def write_text(path: str, text: str, environment: Environment | None = None, *, keeps_line_ends: bool = False) -> None:
    """Put a text in the place of a file's, all at once: where that fails, the old one is still there."""
    files = (environment or Machine()).files
    try:
        if keeps_line_ends and b"\r\n" in files.read(path):
            text = text.replace("\n", "\r\n")
        files.write(path, text.encode())
    except (OSError, ValueError) as error:
        message = f"`{path}` cannot be written: {getattr(error, 'strerror', None) or error}"
        raise UnreadableFile(path, "E503", message, "check its permissions, and the space on the disk", 2) from None


def _read(path: str, environment: Environment) -> bytes:
    if path == "-":
        if environment.stdin is None:
            raise OSError(errno.EBADF, "standard input is closed")
        return environment.stdin.read(_BYTES_MAX + 1)
    with environment.files.open(path) as stream:
        return stream.read(_BYTES_MAX + 1)


def _too_long(path: str, what: str) -> UnreadableFile:
    return UnreadableFile(
        path,
        "E402",
        f"`{path}` is longer than {limits.PROGRAM_CHARACTERS_MAX:,} characters",
        f"split it into several {what}s; is this a data file?",
        1,
    )

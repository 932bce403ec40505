"""A path → the data files it means, each open, and in what format it is.

A file that cannot be read raises `Unreadable` with the diagnostic. It knows nothing of what the rows hold.
"""

from __future__ import annotations

import gzip
import io
import zlib
from enum import StrEnum
from pathlib import Path

from augury.diagnostics import NOWHERE, Diagnostic, Mark
from augury.environment import Files, RealFiles

BUFFER_BYTES = 1 << 16
BOM = b"\xef\xbb\xbf"
STREAM_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a stream, packed or not, may raise."""

_ENDINGS_SHOWN = ".jsonl, .ndjson, .json, .csv, .tsv (each also with .gz) or .parquet"
_CHECK_NAME = "check its name and your rights"
WHOLE_COPY = "get a whole copy of the file"


class Format(StrEnum):
    """How a file holds its rows."""

    JSON_LINES = "JSON Lines"
    CSV = "CSV"
    PARQUET = "Parquet"


_ENDINGS = {
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".json": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
}


class Unreadable(Exception):
    """A file or folder that gives nothing; carries the diagnostic."""

    def __init__(self, code: str, message: str, *helps: str) -> None:
        """Make the diagnostic; it has no place in a program."""
        super().__init__(message)
        self.diagnostic = problem(code, message, *helps)

    @staticmethod
    def again(diagnostic: Diagnostic) -> Unreadable:
        """The same that somebody told of elsewhere."""
        return Unreadable(diagnostic.code, diagnostic.message, *diagnostic.helps)


def problem(code: str, message: str, *helps: str) -> Diagnostic:
    """A diagnostic about data, which has no place in a program."""
    return Diagnostic(code, message, Mark(NOWHERE), helps=helps)


def data_files(path: Path, files: Files | None = None) -> tuple[list[Path], list[str]]:
    """The data files that a path means, in order of name, and the names of neighbours that are none."""
    files = files or RealFiles()
    if not files.is_folder(str(path)):
        return [path], []
    try:
        inside = [path / name for name in files.names(str(path)) if not name.startswith((".", "_"))]
    except OSError as error:
        raise Unreadable("E510", f"`{path}` cannot be read: {why(error)}", _CHECK_NAME) from None
    found = [p for p in inside if format_by_name(p)]
    if not found:
        help_ = f"their names end in {_ENDINGS_SHOWN}"
        raise Unreadable("E511", f"the folder `{path}` holds no data files", help_)
    return found, [p.name for p in inside if p not in found]


def is_read(path: str, source: str, files: Files | None = None) -> bool:
    """Whether a file is what a source names, or a data file of the folder that it names."""
    files = files or RealFiles()
    place, root = files.resolved(path), files.resolved(source)
    if place == root or not files.is_folder(source):
        return place == root
    try:
        return place in {files.resolved(str(one)) for one in data_files(Path(source), files)[0]}
    except Unreadable:  # whoever reads it says so
        return False


def base_name(path: Path) -> str:
    """The name of a file without the endings that tell its format."""
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    ending = Path(name).suffix
    return name[: -len(ending)] if ending.lower() in _ENDINGS else name


def format_by_name(path: Path) -> Format | None:
    """The format that the ending of a name tells, if any."""
    return _ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix)


def opened(path: Path, files: Files | None = None) -> tuple[io.BufferedReader, io.BufferedReader, Format]:
    """The open file (to be closed), its content (the same, or what is packed in it), and its format."""
    try:
        raw = (files or RealFiles()).open(str(path))
    except FileNotFoundError:
        raise Unreadable("E510", f"there is no file `{path}`", "check the name") from None
    except (OSError, ValueError) as error:
        raise Unreadable("E510", f"`{path}` cannot be read: {why(error)}", _CHECK_NAME) from None
    try:
        content, head = raw, raw.peek(BUFFER_BYTES)
        if head.startswith(b"\x1f\x8b"):
            content = io.BufferedReader(gzip.GzipFile(fileobj=raw), BUFFER_BYTES)
            head = content.peek(BUFFER_BYTES)
        return raw, content, _format(path, head, packed=content is not raw)
    except STREAM_ERRORS as error:
        raw.close()
        raise Unreadable("E510", f"`{path}` cannot be read: {why(error)}", WHOLE_COPY) from None
    except Unreadable:
        raw.close()
        raise


def _format(path: Path, head: bytes, *, packed: bool) -> Format:
    """The format by name, if the content does not contradict it, or else by content."""
    name, named = path.name, format_by_name(path)
    if head.startswith(b"PAR1"):
        if packed:
            raise Unreadable("E512", f"`{name}` is Parquet inside gzip", "unpack it: Parquet packs by itself")
        if named in (Format.JSON_LINES, Format.CSV):
            raise Unreadable("E512", f"`{name}` is Parquet", "rename it so that it ends in .parquet")
        return Format.PARQUET
    if named is Format.PARQUET:
        if not head:
            raise Unreadable("E511", f"`{name}` is empty", "write at least a schema to it")
        raise Unreadable("E510", f"`{name}` is not Parquet", f"data files end in {_ENDINGS_SHOWN}")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise Unreadable("E512", f"`{name}` is UTF-16", f"write it as UTF-8: iconv -f UTF-16 -t UTF-8 {name}")
    if b"\0" in head:
        raise Unreadable("E512", f"`{name}` is binary", "data is JSON Lines, CSV or Parquet")
    text = head.removeprefix(BOM).lstrip()
    if not text:
        raise Unreadable("E511", f"`{name}` is empty", "it needs at least one row")
    if named is Format.CSV and text.startswith(b"{"):
        raise Unreadable("E512", f"`{name}` looks like JSON", "rename it so that it ends in .jsonl")
    return named or _format_by_content(name, text)


def _format_by_content(name: str, text: bytes) -> Format:
    if text.startswith((b"{", b"[")):
        return Format.JSON_LINES
    if any(mark in text.split(b"\n", 1)[0] for mark in (b",", b";", b"\t", b"|")):
        return Format.CSV
    help_ = f"rename it so that it ends in {_ENDINGS_SHOWN}"
    raise Unreadable("E512", f"the format of `{name}` is not recognised", help_)


def why(error: Exception) -> str:
    """The reason of an error on one line, without the path that the message names already."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split())[:200] or type(error).__name__

"""What a lake needs of a place for files, and how it says that the system refused something.

In: paths relative to a root, and bytes. Out: bytes, and what is there. Once a call returns, a file is there as a whole
and for good. It knows nothing of what files hold; `systems` has the places that there are.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from augury.lake.errors import LakeFailed

UNFINISHED: Final = ".tmp-"
"""How names of files begin that are being written; tools that read folders of Parquet pass them over."""


class Exclusive(Protocol):
    """Creates files where there are none, on file systems that cannot do so with a link."""

    def create(self, path: str, content: bytes) -> bool:
        """Write a file as a whole unless there is one at that full path; says whether it was written."""
        ...


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there: its path relative to the root, its size, and when it was written, in seconds."""

    path: str
    bytes: int
    written_seconds: float


class Storage(Protocol):
    """A root with files below it."""

    @property
    def root(self) -> str:
        """Its path or URI."""
        ...

    def full(self, path: str) -> str:
        """The path as other programs take it."""
        ...

    def read(self, path: str) -> bytes:
        """The content; raises `FileNotFoundError`."""
        ...

    def open(self, path: str) -> Any:
        """The file, to read some of it with pyarrow; raises `FileNotFoundError`."""
        ...

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write a file of a name that nobody else has."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless there is one; says whether it was written."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, unfinished ones left out; none where there is no folder."""
        ...

    def walk(self, folder: str = "") -> Iterator[Found]:
        """All files below a folder, unfinished ones too."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...

    def require_exclusive(self) -> None:
        """Raise `NeedsExclusive` where `create` cannot work."""
        ...


def is_unfinished(path: str) -> bool:
    """Whether a file is one that was being written, now or by somebody who died."""
    return path.rpartition("/")[2].startswith(UNFINISHED)


@contextlib.contextmanager
def failing(root: str, doing: str, path: str) -> Iterator[None]:
    """Say in a sentence what the system refuses; a file to be read that is not there is for the caller to judge."""
    try:
        yield
    except OSError as error:
        if doing != "write" and isinstance(error, FileNotFoundError | NotADirectoryError):
            raise FileNotFoundError(f"there is no `{path}` in `{root}`") from None
        told = os.strerror(error.errno) if error.errno else str(error)
        advice = _what_to_do(error.errno, "write" if doing == "remove" else doing)
        raise LakeFailed(f"the lake `{root}` failed to {doing} `{path}`: {told}; {advice}") from error


def _what_to_do(number: int | None, doing: str) -> str:
    kept = "nothing of it is kept: " if doing == "write" else ""
    match number:
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return f"{kept}make room and try again"
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return f"{kept}see to it that this user may {doing} there, or take another folder"
        case _:
            return f"{kept}it can be tried again"

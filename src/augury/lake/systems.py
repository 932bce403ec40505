"""Places for files: a folder on a disk, or a file system that pyarrow knows, by path or URI.

In: what `storage.Storage` asks for. Out: files that appear as a whole. On a disk they are brought there before they get
their names; elsewhere their names are nobody else's. How to create a file only if absent the kind of path says, or
whoever opens a lake.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs

from augury.lake import webhdfs
from augury.lake.errors import NeedsExclusive, NoLake
from augury.lake.s3 import Surroundings, s3_create, surroundings
from augury.lake.storage import UNFINISHED, Exclusive, Found, Storage, failing

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OF_HADOOP: Final = {"s3a": "s3", "s3n": "s3"}
_S3: Final = "s3"
_NO_LINKS: Final = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}


def storage_of(path: str | os.PathLike[str], exclusive: Exclusive | None = None) -> Storage:
    """The place of that path or URI; raises `NoLake` for a kind of URI that nobody here knows."""
    text = os.fspath(path)
    if not _SCHEME.match(text):
        return Disk(os.path.abspath(text), exclusive)
    scheme, _, rest = text.partition("://")
    if scheme == "file":
        return Disk(os.path.abspath(unquote(rest)), exclusive)
    if exclusive is None and (of_hdfs := webhdfs.web_hdfs(text)) is not None:
        return of_hdfs
    kind = _OF_HADOOP.get(scheme, scheme)
    try:
        system, base = _system(f"{kind}://{rest}", surroundings())
    except (ValueError, OSError, NotImplementedError) as error:
        other = "; set AUGURY_WEBHDFS=http://namenode:9870 to go over HTTP" if kind == webhdfs.OF_HADOOP else ""
        # Where pyarrow finds no Java it tells of every place that it has looked at.
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NoLake(f"`{text}` cannot be reached: {reason}{other}") from None
    if exclusive is None and kind == _S3:
        exclusive = s3_create(text, base)
    return Remote(text.rstrip("/"), system, base, exclusive)


@lru_cache(maxsize=64)
def _system(uri: str, _around: Surroundings) -> tuple[Any, str]:
    """The file system of a URI, which is kept: tasks open a lake for each file, and to connect takes time."""
    system, base = fs.FileSystem.from_uri(uri)
    return system, base.rstrip("/")


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder of this machine, or one that is mounted."""

    root: str
    exclusive: Exclusive | None = None

    def full(self, path: str) -> str:
        """The path as other programs take it."""
        return os.path.join(self.root, path) if path else self.root

    def read(self, path: str) -> bytes:
        """The content; raises `FileNotFoundError`."""
        with failing(self.root, "read", path), open(self.full(path), "rb") as file:
            return file.read()

    def open(self, path: str) -> Any:
        """The file, to read some of it with pyarrow; raises `FileNotFoundError`."""
        with failing(self.root, "read", path):
            return pa.OSFile(self.full(path))

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write under another name, bring it to the disk, and only then give it its own."""
        with failing(self.root, "write", path), self._unfinished(path, content) as name:
            os.rename(name, self.full(path))
            _sync_folder(os.path.dirname(self.full(path)))

    def create(self, path: str, content: bytes) -> bool:
        """The same, but by a link, which the system refuses where there is a file."""
        if self.exclusive is not None:
            return self.exclusive.create(self.full(path), content)
        with failing(self.root, "write", path), self._unfinished(path, content) as name:
            try:
                os.link(name, self.full(path))
            except FileExistsError:
                # Who finds it there relies on it, whether or not its writer came that far.
                _sync_folder(os.path.dirname(self.full(path)))
                return False
            except OSError as error:
                if error.errno in _NO_LINKS:
                    raise NeedsExclusive(_needs_exclusive(self.root, "its file system has no hard links")) from error
                raise
            _sync_folder(os.path.dirname(self.full(path)))
            return True

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(self.full(path))

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, unfinished ones left out."""
        with failing(self.root, "read", folder):
            try:
                with os.scandir(self.full(folder)) as found:
                    return [one.name for one in found if one.is_file() and not one.name.startswith(UNFINISHED)]
            except FileNotFoundError:
                return []

    def walk(self, folder: str = "") -> Iterator[Found]:
        """All files below a folder; what is removed meanwhile is left out."""
        for base, _, names in os.walk(self.full(folder)):
            for name in names:
                full = os.path.join(base, name)
                with contextlib.suppress(FileNotFoundError):
                    about = os.stat(full)
                    yield Found(Path(full).relative_to(self.root).as_posix(), about.st_size, about.st_mtime)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with failing(self.root, "remove", path), contextlib.suppress(FileNotFoundError):
            os.unlink(self.full(path))

    def require_exclusive(self) -> None:
        """A link does it; where there are none, `create` says so."""

    @contextlib.contextmanager
    def _unfinished(self, path: str, content: bytes | memoryview) -> Iterator[str]:
        """A file on the disk beside where it is to be; whatever happens it is gone afterwards."""
        folder = os.path.dirname(self.full(path))
        _make_folder(folder)
        name = os.path.join(folder, f"{UNFINISHED}{uuid.uuid4().hex}")
        try:
            with open(name, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


@dataclass(frozen=True, slots=True)
class Remote:
    """A file system of pyarrow's. Files have names that nobody else has, and appear when they are whole."""

    root: str
    system: Any
    base: str
    exclusive: Exclusive | None = None

    def full(self, path: str) -> str:
        """The path as other programs take it, which know nothing of what a URI may say after a `?`."""
        plain = self.root.partition("?")[0].rstrip("/")
        return f"{plain}/{path}" if path else plain

    def read(self, path: str) -> bytes:
        """The content; raises `FileNotFoundError`."""
        with failing(self.root, "read", path), self.system.open_input_stream(self._at(path)) as stream:
            content: bytes = stream.read()
            return content

    def open(self, path: str) -> Any:
        """The file, to read some of it with pyarrow; raises `FileNotFoundError`."""
        with failing(self.root, "read", path):
            return self.system.open_input_file(self._at(path))

    def write(self, path: str, content: bytes | memoryview) -> None:
        """Write a file of a name that nobody else has."""
        with failing(self.root, "write", path):
            # There a folder is just how keys begin; to make one costs calls, and leaves an object behind.
            if self.system.type_name != _S3:
                self.system.create_dir(os.path.dirname(self._at(path)), recursive=True)
            with self.system.open_output_stream(self._at(path)) as stream:
                stream.write(content)

    def create(self, path: str, content: bytes) -> bool:
        """Write a file unless there is one, as whoever opened the lake said how."""
        self.require_exclusive()
        assert self.exclusive is not None, "it was just required"
        with failing(self.root, "write", path):
            return self.exclusive.create(self.full(path), content)

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        with failing(self.root, "read", path):
            found: bool = self.system.get_file_info(self._at(path)).is_file
            return found

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, unfinished ones left out."""
        infos = self._infos(folder, recursive=False)
        return [info.base_name for info in infos if not info.base_name.startswith(UNFINISHED)]

    def walk(self, folder: str = "") -> Iterator[Found]:
        """All files below a folder."""
        for info in self._infos(folder, recursive=True):
            written = info.mtime.timestamp() if info.mtime is not None else 0.0
            yield Found(info.path[len(self.base) :].lstrip("/"), info.size or 0, written)

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        with failing(self.root, "remove", path), contextlib.suppress(FileNotFoundError):
            self.system.delete_file(self._at(path))

    def require_exclusive(self) -> None:
        """Raise `NeedsExclusive` where nobody said how."""
        if self.exclusive is None:
            if self.root.startswith(f"{webhdfs.OF_HADOOP}://"):
                reason, remedy = f"{webhdfs.ADDRESS} is not set", "Set it to the namenode's http://host:9870"
                raise NeedsExclusive(_needs_exclusive(self.root, reason, remedy))
            if self.system.type_name == _S3:
                remedy = "`pip install 'augury[s3]'` brings it"
                raise NeedsExclusive(_needs_exclusive(self.root, "`botocore` is not installed", remedy))
            raise NeedsExclusive(_needs_exclusive(self.root, "it is not on a disk of this machine"))

    def _at(self, path: str) -> str:
        return f"{self.base}/{path}" if path else self.base

    def _infos(self, folder: str, recursive: bool) -> list[Any]:
        with failing(self.root, "read", folder):
            wanted = fs.FileSelector(self._at(folder), allow_not_found=True, recursive=recursive)
            return [info for info in self.system.get_file_info(wanted) if info.is_file]


_OTHER_WAYS: Final = (
    "Take a folder of this machine or a mounted one, or open the lake with `exclusive=…`, an object whose "
    "`create(path, content)` does so"
)


def _needs_exclusive(root: str, reason: str, remedy: str = _OTHER_WAYS) -> str:
    must = "and a commit must create a file only where there is none"
    return f"`{root}` cannot be written as it is: {reason}, {must}. {remedy}"


def _make_folder(folder: str) -> None:
    """Make a folder and those above it, each on the disk before the next."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    _sync_folder(parent)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

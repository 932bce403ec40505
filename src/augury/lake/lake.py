"""A folder → a lake: what it was created with, its commits, and who may write the next one.

In: a path or URI. Out: manifests, snapshots, a writer. What a commit holds is others' business; here it becomes
visible as a whole or not at all, by creating one file where there is none.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

from augury.lake import damage
from augury.lake.errors import CorruptFile, Damaged, LakeExists, NewerFormat, NoLake, NoSuchCommit
from augury.lake.files import LakeFiles
from augury.lake.manifest import FULL_EVERY, Manifest, checked_json, read_checked_json
from augury.lake.snapshot import Snapshot, snapshot_of
from augury.lake.storage import Exclusive, Storage, is_unfinished
from augury.lake.systems import storage_of
from augury.lake.writer import Writer

_ABOUT: Final = "augury.json"


@dataclass(frozen=True, slots=True)
class About:
    """What a lake was created with."""

    id: str
    augury: str
    chronon_us: int
    buckets: int
    program: str


class Lake:
    """A lake that is there; any number of these may read while one writes."""

    def __init__(self, storage: Storage, about: About) -> None:
        """Take what `open` found."""
        self.storage, self.about = storage, about

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        program_text: str,
        chronon_us: int,
        buckets: int,
        exclusive: Exclusive | None = None,
    ) -> Lake:
        """Make a lake in a folder that is empty or not there; raises `LakeExists`."""
        storage = storage_of(path, exclusive)
        storage.require_exclusive()
        _require_empty(storage)
        about = About(str(uuid.uuid4()), metadata.version("augury"), chronon_us, buckets, program_text)
        said = {name: getattr(about, name) for name in About.__slots__}
        if not storage.create(_ABOUT, checked_json(said)):
            raise LakeExists(_exists(storage))
        lake = cls(storage, about)
        lake.keep_program(program_text)
        return lake

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, exclusive: Exclusive | None = None) -> Lake:
        """The lake in a folder; raises `NoLake`, `NewerFormat` and `CorruptFile`."""
        storage = storage_of(path, exclusive)
        return cls(storage, _about(storage))

    @property
    def path(self) -> str:
        """Where it is."""
        return self.storage.root

    @property
    def files(self) -> LakeFiles:
        """Its files, for tasks."""
        return LakeFiles(self.storage.root)

    def last_commit(self) -> int:
        """The number of the last commit; 0 where there is none."""
        return max(damage.commits(self.storage), default=0)

    def last(self) -> Manifest | None:
        """The last commit, None where there is none; raises `CorruptFile`."""
        last = self.last_commit()
        return damage.read_manifest(self.storage, last) if last else None

    def snapshot(self, commit: int | None = None) -> Snapshot:
        """The lake after a commit, or as it is; reads at most 64 manifests. Raises `NoSuchCommit`, `CorruptFile`."""
        last = self.last_commit()
        if commit is not None and not 0 <= commit <= last:
            raise NoSuchCommit(f"the lake `{self.path}` has no commit {commit}: its last is {last}")
        wanted = last if commit is None else commit
        first = max(wanted // FULL_EVERY * FULL_EVERY, 1)
        return snapshot_of(damage.read_manifest(self.storage, one) for one in range(first, wanted + 1))

    def manifests(self, after: int = 0) -> Iterator[Manifest]:
        """All commits after that one, in order; raises `CorruptFile` at one that is damaged or missing."""
        for commit in range(after + 1, self.last_commit() + 1):
            yield damage.read_manifest(self.storage, commit)

    def manifest(self, commit: int) -> Manifest:
        """A commit; raises `CorruptFile`."""
        return damage.read_manifest(self.storage, commit)

    def writer(self) -> Writer:
        """Begin to write; whoever wrote before is refused from now on."""
        return Writer.begin(self.storage, self.snapshot)

    def keep_program(self, text: str) -> str:
        """Keep the text of a program; gives what manifests call it."""
        name = program_name(text)
        if not self.storage.exists(_program_path(name)):
            self.storage.create(_program_path(name), text.encode())
        return name

    def program_text(self, name: str = "") -> str:
        """The text of a program that was kept, or the one that the lake was created with; raises `CorruptFile`."""
        if name in ("", program_name(self.about.program)):
            return self.about.program
        path = _program_path(name)
        try:
            content = self.storage.read(path)
        except FileNotFoundError:
            raise damage.corrupt_file(self.storage, path, "is gone") from None
        if hashlib.sha256(content).hexdigest() != name:
            raise damage.corrupt_file(self.storage, path, "is damaged: its content is not what it is called by")
        return content.decode()


def program_name(text: str) -> str:
    """What manifests call a program: the SHA-256 of its text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _program_path(name: str) -> str:
    return f"programs/{name}.bicepl"


def _about(storage: Storage) -> About:
    try:
        said: dict[str, Any] = read_checked_json(storage.read(_ABOUT))
        return About(**said)
    except FileNotFoundError:
        raise NoLake(f"there is no lake at `{storage.root}`: it has no `{_ABOUT}`") from None
    except NewerFormat as newer:
        raise NewerFormat(f"the lake `{storage.root}` {newer}: update Augury on this machine") from None
    except (Damaged, TypeError) as error:
        reason = str(error) if isinstance(error, Damaged) else "is damaged: it lacks something"
        what = f"`{storage.full(_ABOUT)}` {reason}"
        good = max(damage.commits(storage), default=0)
        raise CorruptFile(_ABOUT, what, good, "bring it back from a copy; all else is as it was") from None


def _require_empty(storage: Storage) -> None:
    if storage.exists(_ABOUT):
        raise LakeExists(_exists(storage))
    if storage.exists(""):
        raise LakeExists(f"`{storage.root}` is a file: a lake is a folder, so give another path")
    other = next((found.path for found in storage.walk() if not is_unfinished(found.path)), None)
    if other is not None:
        raise LakeExists(f"`{storage.root}` is not empty and no lake (it holds `{other}`): give another folder")


def _exists(storage: Storage) -> str:
    return f"there is a lake at `{storage.root}` already: open it, or give another folder"

"""Who writes the next commit. A writer holds an epoch; the newest epoch alone may commit, and a commit exists once.

In: manifests. Out: files in `epochs/` and `manifests/`, each created only where there is none. It does not look into
what a manifest brings, but sees to it that the files it names are there.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from augury.clock import show_time
from augury.lake.errors import AlreadyCommitted, Damaged, LakeError, LakeFailed, StaleWriter, UnfitCommit
from augury.lake.manifest import FULL_EVERY, Manifest, bytes_of, checked_json, manifest_name, read_checked_json
from augury.lake.snapshot import Live, Snapshot, after, in_order, named_by
from augury.lake.storage import Storage


class Writer:
    """Commits one manifest after the other, as long as nobody else has begun to write."""

    def __init__(self, storage: Storage, epoch: int, snapshot: Snapshot) -> None:
        """Take an epoch that is held, and the lake as it is."""
        self.epoch = epoch
        self._storage = storage
        self._last = snapshot.manifest
        self._live: Live = {entry.path: entry for entry in snapshot.files}

    @classmethod
    def begin(cls, storage: Storage, snapshot: Callable[[], Snapshot]) -> Writer:
        """Take the next epoch, and only then look what is there: the writer before may have gone on till now."""
        storage.require_exclusive()
        epoch = _newest_epoch(storage) + 1
        while not storage.create(_epoch_name(epoch), checked_json({"host": socket.gethostname(), "pid": os.getpid()})):
            epoch += 1
        return cls(storage, epoch, snapshot())

    @property
    def last(self) -> Manifest | None:
        """The last commit that this writer knows of."""
        return self._last

    @property
    def next_commit(self) -> int:
        """The number of the next commit."""
        return 1 if self._last is None else self._last.commit + 1

    def snapshot(self) -> Snapshot:
        """The lake after the last commit, without reading it again."""
        return Snapshot(self._last, in_order(self._live.values()))

    def manifest(self, **said: Any) -> Manifest:
        """The next manifest: what is not said stays as it was (states, offsets, …), but for files and counts."""
        if self._last is None:
            return Manifest(self.next_commit, self.epoch, **said)
        fresh: dict[str, Any] = {"added": (), "removed": (), "counts": {}, "seconds": {}, "live": None}
        return replace(self._last, **{**fresh, "commit": self.next_commit, "epoch": self.epoch, **said})

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the next commit. It is there for good once this returns.

        Raises `AlreadyCommitted`, `StaleWriter`, `UnfitCommit` and `LakeFailed`; the lake is then as it was, unless
        the answer alone was lost: who calls again with the same manifest is told that all is well.
        """
        if self._last is not None and manifest == self._last:
            return
        self._require_next(manifest)
        live = after(self._live, manifest)
        full = manifest.commit % FULL_EVERY == 0
        whole = replace(manifest, live=in_order(live.values()) if full else None)
        content = bytes_of(whole)
        self._require_newest()
        self._require_files(manifest)
        name = manifest_name(manifest.commit)
        if not self._created(name, content):
            raise AlreadyCommitted(
                f"commit {manifest.commit} of the lake `{self._storage.root}` is somebody else's; nothing was "
                "written over: take a new writer, which goes on from there"
            )
        self._last, self._live = manifest, live

    def _created(self, name: str, content: bytes) -> bool:
        """Whether the manifest is there and ours: no other writer has our epoch, so no other writes these bytes."""
        try:
            created = self._storage.create(name, content)
        except LakeFailed:
            if not self._is(name, content):
                raise
            # It may be there and not yet on the disk; to ask again brings it there, or fails again.
            created = self._storage.create(name, content)
        return created or self._is(name, content)

    def _is(self, name: str, content: bytes) -> bool:
        try:
            return self._storage.read(name) == content
        except FileNotFoundError:
            return False

    def _require_next(self, manifest: Manifest) -> None:
        if manifest.epoch != self.epoch:
            raise UnfitCommit(f"the manifest has epoch {manifest.epoch}, and its writer {self.epoch}")
        if manifest.commit < self.next_commit:
            raise AlreadyCommitted(
                f"commit {manifest.commit} of the lake `{self._storage.root}` is there already; "
                f"the next one is {self.next_commit}"
            )
        if manifest.commit > self.next_commit:
            raise UnfitCommit(f"commit {manifest.commit} leaves a gap: the next one is {self.next_commit}")
        before = None if self._last is None else self._last.last_tick
        if before is not None and (manifest.last_tick is None or manifest.last_tick < before):
            told = "no tick" if manifest.last_tick is None else show_time(manifest.last_tick)
            raise UnfitCommit(f"commit {manifest.commit} is at {told}, and the one before it at {show_time(before)}")

    def _require_newest(self) -> None:
        # Epochs have no gaps, so a newer one shows in the one after ours.
        if self._storage.exists(_epoch_name(self.epoch + 1)):
            raise StaleWriter(
                f"somebody else writes to the lake `{self._storage.root}` since this writer began "
                f"({self._successor()}): nothing was committed; let one of the two be"
            )

    def _successor(self) -> str:
        name = _epoch_name(self.epoch + 1)
        try:
            said = read_checked_json(self._storage.read(name))
        except (Damaged, LakeError, FileNotFoundError):
            return f"see `{name}`"
        return f"epoch {self.epoch + 1}: process {said.get('pid')} on {said.get('host')}"

    def _require_files(self, manifest: Manifest) -> None:
        new = {entry.path for entry in manifest.added} | (named_by(manifest) - named_by(self._last))
        for path in sorted(new):
            if not self._storage.exists(path):
                raise UnfitCommit(
                    f"commit {manifest.commit} names `{self._storage.full(path)}`, and there is no such file: every "
                    "machine that takes part must see the lake under this path"
                )


def _epoch_name(epoch: int) -> str:
    return f"epochs/{epoch:020d}.json"


def _newest_epoch(storage: Storage) -> int:
    names = (name.partition(".json")[0] for name in storage.names("epochs"))
    return max((int(name) for name in names if name.isdigit()), default=0)

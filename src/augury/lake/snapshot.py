"""Manifests one after the other → all files that are live after the last one. Pure: it touches no file.

Files of a class stand by their first tick and name; a file that compaction makes begins with the name of the first
that it replaces, so that it stands where that stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from augury.event import key_of
from augury.lake.errors import UnfitCommit
from augury.lake.manifest import FileEntry, Kind, Manifest

Live = dict[str, FileEntry]
"""Files by path."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A lake as it is after a commit: the manifest (None before the first) and all live files, in order."""

    manifest: Manifest | None
    files: tuple[FileEntry, ...]

    @property
    def commit(self) -> int:
        """The commit; 0 before the first."""
        return 0 if self.manifest is None else self.manifest.commit

    def of(self, kind: Kind, event_class: str = "") -> tuple[FileEntry, ...]:
        """The files of a kind and class, in order; names are matched without regard to case."""
        wanted = key_of(event_class)
        return tuple(entry for entry in self.files if entry.kind == kind and key_of(entry.event_class) == wanted)

    def groups(self) -> Iterator[tuple[Kind, str, tuple[FileEntry, ...]]]:
        """Kind, class as its files are called, and files."""
        for (kind, _), entries in groupby(self.files, key=lambda entry: (entry.kind, key_of(entry.event_class))):
            some = tuple(entries)
            yield kind, some[0].event_class, some

    def paths(self) -> set[str]:
        """Every file that the lake needs at this commit, states and waiting rows among them."""
        return {entry.path for entry in self.files} | named_by(self.manifest)


def named_by(manifest: Manifest | None) -> set[str]:
    """States and waiting rows that are current after a commit."""
    return set() if manifest is None else {*manifest.state.values(), *manifest.waiting}


def after(live: Mapping[str, FileEntry], manifest: Manifest) -> Live:
    """The live files once a manifest is committed; raises `UnfitCommit` if it removes or adds what it cannot."""
    found = dict(live)
    for path in manifest.removed:
        if found.pop(path, None) is None:
            raise UnfitCommit(f"commit {manifest.commit} removes `{path}`, which is not in the lake")
    for entry in manifest.added:
        if entry.path in found:
            raise UnfitCommit(f"commit {manifest.commit} adds `{entry.path}`, which is in the lake already")
        found[entry.path] = entry
    return found


def snapshot_of(manifests: Iterable[Manifest]) -> Snapshot:
    """The lake after the last of these; the first of them is a full one, or commit 1."""
    live: Live = {}
    last = None
    for manifest in manifests:
        live = after(live, manifest) if manifest.live is None else {entry.path: entry for entry in manifest.live}
        last = manifest
    return Snapshot(last, in_order(live.values()))


def in_order(entries: Iterable[FileEntry]) -> tuple[FileEntry, ...]:
    """By kind and class, then by first tick and name."""
    return tuple(sorted(entries, key=_place))


def _place(entry: FileEntry) -> tuple[str, str, bool, int, str]:
    return entry.kind, key_of(entry.event_class), entry.min_tick is not None, entry.min_tick or 0, entry.path

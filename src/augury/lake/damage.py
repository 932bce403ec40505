"""The manifests of a lake as they are found, and what to say where a file is damaged or gone.

In: a storage, and what is wrong with which file. Out: manifests, and a `CorruptFile` that names the file, the last good
commit with its tick, and how to go on. Nothing is mended and nothing is written here.
"""

from __future__ import annotations

from typing import Final

from augury.clock import show_time
from augury.lake.errors import CorruptFile, Damaged, LakeError, NewerFormat
from augury.lake.manifest import FULL_EVERY, Kind, Manifest, manifest_name, manifest_of
from augury.lake.snapshot import named_by
from augury.lake.storage import Storage

_IN_ADDED: Final = frozenset(kind.value for kind in Kind if kind not in (Kind.WAITING, Kind.IDS))


def commits(storage: Storage) -> list[int]:
    """The numbers of all commits whose manifests are there, ascending; other files are passed over."""
    names = (name.partition(".json") for name in storage.names("manifests"))
    return sorted(int(number) for number, dot, rest in names if dot and not rest and number.isdigit())


def read_manifest(storage: Storage, commit: int) -> Manifest:
    """The manifest of a commit; raises `CorruptFile` and `NewerFormat`."""
    try:
        manifest = manifest_of(storage.read(manifest_name(commit)))
    except FileNotFoundError:
        raise corrupt_manifest(storage, commit, "is missing") from None
    except Damaged as damage:
        raise corrupt_manifest(storage, commit, str(damage)) from None
    except NewerFormat as newer:
        raise NewerFormat(_newer(storage, commit, str(newer))) from None
    if manifest.commit != commit:
        raise corrupt_manifest(storage, commit, f"holds commit {manifest.commit}")
    return manifest


def corrupt_manifest(storage: Storage, commit: int, reason: str) -> CorruptFile:
    """What to say about a manifest that cannot be read."""
    good = commit - 1
    while good and _quietly(storage, good) is None:
        good -= 1
    path = manifest_name(commit)
    return CorruptFile(path, f"`{storage.full(path)}` {reason}", good, advice(storage, good))


def corrupt_file(storage: Storage, path: str, reason: str) -> CorruptFile:
    """What to say about any other file that cannot be read."""
    good = _last_without(storage, path)
    return CorruptFile(path, f"`{storage.full(path)}` {reason}", good, advice(storage, good))


def advice(storage: Storage, good: int) -> str:
    """How to go on from the last good commit."""
    there = commits(storage)
    later = [commit for commit in there if commit > good]
    last = max(there, default=0)
    if good == 0:
        back = "no commit before it is good"
        on = "the lake starts afresh"
    else:
        at = _tick(storage, good)
        back = f"the last good commit is {good}{at}"
        on = f"the lake goes on from commit {good}{at}"
    if not later:
        return f"{back}: bring it back from a copy; nothing was changed"
    first = f"`{manifest_name(later[0])}`"
    which = first if later[0] == last else f"{first} and all later manifests, up to {last},"
    return f"{back}: bring it back from a copy, or move {which} away and {on}"


def _tick(storage: Storage, commit: int) -> str:
    manifest = _quietly(storage, commit)
    return "" if manifest is None or manifest.last_tick is None else f" at {show_time(manifest.last_tick)}"


def _last_without(storage: Storage, path: str) -> int:
    """The last commit that does not need a file."""
    there = commits(storage)
    last = max(there, default=0)
    if path.partition("/")[0] in _IN_ADDED:
        return _added_by(storage, path, last) - 1
    for commit in reversed(there):
        manifest = _quietly(storage, commit)
        if manifest is not None and path not in named_by(manifest):
            return commit
    return 0


def _added_by(storage: Storage, path: str, last: int) -> int:
    """The commit that added a file; the one after the last where none did."""
    full = last // FULL_EVERY * FULL_EVERY
    while full:
        manifest = _quietly(storage, full)
        if manifest is not None and all(entry.path != path for entry in manifest.live or ()):
            break
        full -= FULL_EVERY
    for commit in range(max(full, 1), last + 1):
        manifest = _quietly(storage, commit)
        if manifest is not None and any(entry.path == path for entry in manifest.added):
            return commit
    return last + 1


def _quietly(storage: Storage, commit: int) -> Manifest | None:
    """A manifest, or None where it cannot be read: something is told already."""
    try:
        return manifest_of(storage.read(manifest_name(commit)))
    except (FileNotFoundError, Damaged, LakeError):
        return None


def _newer(storage: Storage, commit: int, reason: str) -> str:
    return f"`{storage.full(manifest_name(commit))}` {reason}: update Augury on this machine; nothing was changed"

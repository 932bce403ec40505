"""Files that nobody needs → gone: what crashes left behind, and what compaction and retention have replaced.

In: a lake, and how old a file has to be. Out: what was removed. A file that one of the last commits needs is never
touched, nor one that is younger, nor one that is not ours; a damaged manifest stops it before it removes anything.
`vacuum` is asked for; `sweep` is for whoever writes, and takes only what no manifest has ever named.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from augury.lake.errors import LakeError
from augury.lake.lake import Lake
from augury.lake.manifest import FULL_EVERY, Kind, manifest_name
from augury.lake.snapshot import named_by
from augury.lake.storage import Found, is_unfinished

OLDER_THAN_SECONDS: Final = 86_400.0
"""Longer than any batch takes: its files belong to no commit until it is done."""

MANIFESTS_AT_ONCE_MAX: Final = 8192
"""What one sweep reads at most, which takes a second or two; the next goes on from there."""

_FOLDERS: Final = frozenset({"state", *(kind.value for kind in Kind)})
_WRITTEN_FOR: Final = re.compile(r"(\d{12,20})-")
"""How names of files begin that were written for a commit; what compaction makes is named after what it replaces."""


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The paths that were removed, and how many bytes they had."""

    paths: tuple[str, ...]
    bytes: int


def vacuum(
    lake: Lake,
    older_than_seconds: float = OLDER_THAN_SECONDS,
    *,
    commits_kept: int = FULL_EVERY,
    now_seconds: float | None = None,
) -> Vacuumed:
    """Remove files that none of the last commits needs; those commits can still be read, and gone back to."""
    before = (time.time() if now_seconds is None else now_seconds) - older_than_seconds
    # What is there is looked at first: a file that a commit brings meanwhile is not among it, or young.
    found = [one for one in lake.storage.walk() if one.written_seconds < before]
    needed = needed_paths(lake, commits_kept)
    gone = [one for one in found if _is_ours(one, needed) and one.path not in needed]
    for one in gone:
        lake.storage.remove(one.path)
    return Vacuumed(tuple(sorted(one.path for one in gone)), sum(one.bytes for one in gone))


@dataclass(frozen=True, slots=True)
class Swept:
    """The paths that were removed, why others could not be, and the commit after which to go on; 0 for the first."""

    paths: tuple[str, ...]
    failed: Mapping[str, str]
    after: int


def sweep(
    lake: Lake,
    older_than_seconds: float = OLDER_THAN_SECONDS,
    *,
    after: int = 0,
    manifests_max: int = MANIFESTS_AT_ONCE_MAX,
    now_seconds: float | None = None,
) -> Swept:
    """Remove what was left behind: unfinished files, and those that the commit they were written for does not name.

    That commit has to be as old as the file: whoever has moved manifests away, and goes on, has that long to bring them
    back. A file that cannot be removed is told, and no reason to stop.
    """
    before = (time.time() if now_seconds is None else now_seconds) - older_than_seconds
    old = {one.path for one in lake.storage.walk() if one.written_seconds < before}
    gone = [path for path in old if is_unfinished(path)]
    written: dict[int, list[str]] = {}
    for path in old:
        commit = _written_for(path)
        if commit is not None and commit > after and manifest_name(commit) in old:
            written.setdefault(commit, []).append(path)
    commits = sorted(written)
    for commit in commits[:manifests_max]:
        manifest = lake.manifest(commit)
        named = {entry.path for entry in manifest.added} | named_by(manifest)
        gone += [path for path in written[commit] if path not in named]
    failed = {}
    for path in sorted(gone):
        try:
            lake.storage.remove(path)
        except LakeError as error:
            failed[path] = str(error)
    go_on = commits[manifests_max - 1] if len(commits) > manifests_max else 0
    return Swept(tuple(path for path in sorted(gone) if path not in failed), failed, go_on)


def _written_for(path: str) -> int | None:
    """The commit that a file was written for; None for what was not, or is not ours."""
    found = _WRITTEN_FOR.match(path.rpartition("/")[2])
    is_ours = path.partition("/")[0] in _FOLDERS and "~" not in path
    return int(found[1]) if found and is_ours else None


def needed_paths(lake: Lake, commits_kept: int) -> set[str]:
    """Every file that one of the last commits needs."""
    first = max(lake.last_commit() - max(commits_kept, 1) + 1, 0)
    needed = lake.snapshot(first).paths()
    for manifest in lake.manifests(after=first):
        needed |= {entry.path for entry in manifest.added} | named_by(manifest)
    return needed


def _is_ours(found: Found, needed: set[str]) -> bool:
    if is_unfinished(found.path):
        return True
    folder = found.path.partition("/")[0]
    # Whoever keeps ids without naming them in a manifest keeps them otherwise: they are left alone.
    named = folder != Kind.IDS or any(path.startswith(f"{Kind.IDS}/") for path in needed)
    return folder in _FOLDERS and named

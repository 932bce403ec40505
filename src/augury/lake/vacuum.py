"""Files that nobody needs → gone: what crashes left behind, and what compaction and retention have replaced.

In: a lake, and how old a file has to be. Out: what was removed. A file that one of the last commits needs is never
touched, nor one that is younger, nor one that is not ours; a damaged manifest stops it before it removes anything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from augury.lake.lake import Lake
from augury.lake.manifest import FULL_EVERY, Kind
from augury.lake.snapshot import named_by
from augury.lake.storage import Found, is_unfinished

OLDER_THAN_SECONDS: Final = 86_400.0
"""Longer than any batch takes: its files belong to no commit until it is done."""

_FOLDERS: Final = frozenset({"state", *(kind.value for kind in Kind)})


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

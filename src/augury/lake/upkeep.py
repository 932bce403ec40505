"""What upkeep does to a lake, as a value that goes into the next commit, and compaction: few files out of many.

In: a snapshot. Out: new files, and the paths of those that they replace. Rows stay what they are, in the order in which
they are; nothing is removed from the disk here. Cost follows what is new: a row is written again about once for each
time that its class has become eight times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from augury.lake.files import LakeFiles
from augury.lake.manifest import FileEntry, Kind
from augury.lake.snapshot import Snapshot

FAN_IN: Final = 8
"""Files of about one size that become one."""

FILE_BYTES_MAX: Final = 128 << 20
"""A file that is half as large is left alone: merging it saves little."""

WORK_BYTES_MAX: Final = 128 << 20
"""What one call reads at most; the rest is left for the next."""

FILES_AT_ONCE_MAX: Final = 1024


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Files for the `added` of a commit, and paths for its `removed`."""

    added: tuple[FileEntry, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to commit."""
        return bool(self.added or self.removed)

    def and_then(self, other: Upkeep) -> Upkeep:
        """Both; the other one was worked out from the same snapshot, over other files."""
        return Upkeep(self.added + other.added, self.removed + other.removed)


def compaction(
    files: LakeFiles,
    snapshot: Snapshot,
    *,
    fan_in: int = FAN_IN,
    file_bytes_max: int = FILE_BYTES_MAX,
    work_bytes_max: int = WORK_BYTES_MAX,
) -> Upkeep:
    """Merge neighbouring files of about one size, where there are many; those with the most files come first."""
    groups = [entries for kind, _, entries in snapshot.groups() if kind is not Kind.NUMBERS]
    done = Upkeep()
    left = work_bytes_max
    for entries in sorted(groups, key=len, reverse=True):
        for run in _runs(entries, fan_in, file_bytes_max):
            some = _within(run, min(left, file_bytes_max))
            merged = _merged(files, some) if len(some) > 1 else None
            if merged is not None:
                left -= sum(entry.bytes for entry in some)
                done = done.and_then(Upkeep((merged,), tuple(entry.path for entry in some)))
    return done


def _runs(entries: Sequence[FileEntry], fan_in: int, file_bytes_max: int) -> Iterator[Sequence[FileEntry]]:
    """Runs of neighbours to be merged, none of them twice; small ones before large ones."""
    taken: set[str] = set()
    for tier in sorted({_tier(entry, fan_in) for entry in entries}):
        run: list[FileEntry] = []
        for entry in (*entries, None):
            small = entry is not None and _tier(entry, fan_in) <= tier and entry.bytes < file_bytes_max // 2
            if entry is not None and small and entry.path not in taken:
                run.append(entry)
                continue
            if len(run) >= fan_in and _pays(run, fan_in):
                taken |= {one.path for one in run}
                yield run
            run = []


def _pays(run: Sequence[FileEntry], fan_in: int) -> bool:
    """Whether every file becomes part of one several times as long: else a long one is written again for a few rows."""
    return sum(entry.rows for entry in run) * 2 >= fan_in * max(entry.rows for entry in run)


def _tier(entry: FileEntry, fan_in: int) -> int:
    """How often files of one row would have been merged to give one of that length."""
    tier, rows = 0, entry.rows
    while rows >= fan_in:
        tier, rows = tier + 1, rows // fan_in
    return tier


def _within(run: Sequence[FileEntry], bytes_max: int) -> Sequence[FileEntry]:
    """As many files from the beginning as are not too much."""
    total = 0
    for count, entry in enumerate(run):
        total += entry.bytes
        if total > bytes_max or count == FILES_AT_ONCE_MAX:
            return run[:count]
    return run


def _merged(files: LakeFiles, entries: Sequence[FileEntry]) -> FileEntry | None:
    """One file with the rows of all; None where their columns differ, as after a change of the program."""
    tables = [files.read_table(entry.path) for entry in entries]
    schema = tables[0].schema
    if not all(table.schema.equals(schema) for table in tables):
        return None
    return files.write_merged(entries, pa.concat_tables(tables))

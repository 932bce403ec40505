"""SET HISTORY RETAIN: versions of ticks long past leave the files, those that are current apart.

In: a snapshot, a class, the tick before which versions go. Out: files to add and remove in the next commit. Places in
the history stay what they were: a file of kind `numbers` keeps those of versions that are left over. No clock is read.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from augury.event import EventClass
from augury.history.views import current, system_names
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask
from augury.lake.files import LakeFiles
from augury.lake.manifest import FileEntry, Kind
from augury.lake.order import Order, Places, by_tick, conformed, numbers_table, placed, places_of, whole
from augury.lake.snapshot import Snapshot
from augury.lake.upkeep import Upkeep

LEAVING_OF: Final = 4
"""One in so many versions leaves, or it is not yet worth reading them: so each is read that often before it does."""


def retention(
    files: LakeFiles, snapshot: Snapshot, event_class: EventClass, before_tick: int, *, order: Order = by_tick
) -> Upkeep:
    """Leave out the versions of earlier ticks (µs) that are not current.

    It reads the whole class, so it is for now and then; where no file has an earlier tick it reads nothing.
    """
    entries = snapshot.of(Kind.HISTORY, event_class.name)
    if all(entry.min_tick is None or entry.min_tick >= before_tick for entry in entries):
        return Upkeep()
    tables = [files.read_table(entry.path) for entry in entries]
    rows = pa.concat_tables([conformed(table, event_class) for table in tables], promote_options="permissive")
    names = system_names(event_class)
    numbers, ticks = whole(rows[names.number]), whole(rows[names.tick])
    in_order = order(event_class, rows)
    stays = (ticks >= before_tick) | _current(files, snapshot, event_class, rows, in_order)
    if stays.all():
        return Upkeep()
    done = Upkeep()
    start = 0
    for entry, table in zip(entries, tables, strict=True):
        done = done.and_then(_without(files, event_class, entry, table, stays[start : start + table.num_rows]))
        start += table.num_rows
    # Versions refer to the one that announced their event, which may be gone long before they are.
    events = np.empty(0, np.int64) if names.event_number is None else whole(rows[names.event_number])[stays]
    kept = kept_places(files, snapshot, event_class.name)
    places = placed(numbers[in_order], kept)
    left = _left_over(numbers[in_order], places, (ticks < before_tick)[in_order], stays[in_order], events, kept)
    return done.and_then(_numbers(files, snapshot, event_class, left)).and_then(
        _purged(files, snapshot, event_class, numbers[stays])
    )


def retention_pays(files: LakeFiles, snapshot: Snapshot, event_class: EventClass, before_tick: int) -> bool:
    """Whether enough versions would leave, as far as what manifests say of files tells, to read all of them for it."""
    entries = snapshot.of(Kind.HISTORY, event_class.name)
    if all(entry.min_tick is None or entry.min_tick >= before_tick for entry in entries):
        return False
    old = sum(entry.rows * _share_before(entry, before_tick) for entry in entries)
    # What was left over the last time is current, or is not much.
    leaving = old - len(kept_places(files, snapshot, event_class.name).numbers)
    return leaving * LEAVING_OF >= sum(entry.rows for entry in entries)


def _share_before(entry: FileEntry, before_tick: int) -> float:
    """How much of a file is of earlier ticks, if its rows are spread evenly."""
    if entry.min_tick is None or entry.max_tick is None:
        return 0.0
    share = (before_tick - entry.min_tick) / (entry.max_tick - entry.min_tick + 1)
    return min(max(share, 0.0), 1.0)


def kept_places(files: LakeFiles, snapshot: Snapshot, event_class: str) -> Places:
    """The places that retention has kept for versions of a class."""
    entries = snapshot.of(Kind.NUMBERS, event_class)
    return places_of(files.read_table(entries[-1].path) if entries else None)


def purged_numbers(files: LakeFiles, snapshot: Snapshot, event_class: EventClass) -> Integers:
    """The numbers, as files have them, of versions that were current when their event was purged."""
    name = system_names(event_class).number
    purged = [files.read_table(entry.path, ["number"])[0] for entry in snapshot.of(Kind.PURGED, event_class.name)]
    archived = [files.read_table(entry.path, [name])[0] for entry in snapshot.of(Kind.ARCHIVE, event_class.name)]
    return np.concatenate([np.empty(0, np.int64), *map(whole, (*purged, *archived))])


def _current(files: LakeFiles, snapshot: Snapshot, event_class: EventClass, rows: pa.Table, in_order: Integers) -> Mask:
    """Which rows are current versions; what is newest depends on the order of the history."""
    found = np.zeros(rows.num_rows, np.bool_)
    ordered = rows.take(pa.array(in_order))
    found[in_order] = current(ordered, event_class, purged_numbers(files, snapshot, event_class))
    return found


def _without(files: LakeFiles, event_class: EventClass, entry: FileEntry, table: pa.Table, stays: Mask) -> Upkeep:
    if stays.all():
        return Upkeep()
    if not stays.any():
        return Upkeep((), (entry.path,))
    rest = table.filter(pa.array(stays))
    written = files.write_table(Kind.HISTORY, event_class, rest, tag="retained", replaces=entry.path)
    return Upkeep((written,), (entry.path,))


def _left_over(numbers: Integers, places: Integers, old: Mask, stays: Mask, events: Integers, kept: Places) -> Places:
    """Places of versions of earlier ticks that stay, or that announced an event of which a version stays."""
    named = np.isin(numbers, kept.numbers)
    base = kept.base + int(np.count_nonzero(old & ~named))
    wanted = ((old | named) & stays) | (np.isin(numbers, events) & (old | named))
    earlier = np.isin(kept.numbers, events) & ~np.isin(kept.numbers, numbers)
    all_numbers = np.concatenate([numbers[wanted], kept.numbers[earlier]])
    all_places = np.concatenate([places[wanted], kept.places[earlier]])
    ascending = np.argsort(all_numbers)
    return Places(all_numbers[ascending], all_places[ascending], base)


def _numbers(files: LakeFiles, snapshot: Snapshot, event_class: EventClass, places: Places) -> Upkeep:
    replaced = tuple(entry.path for entry in snapshot.of(Kind.NUMBERS, event_class.name))
    written = files.write_table(Kind.NUMBERS, event_class.name, numbers_table(places), tag="numbers")
    return Upkeep((written,), replaced)


def _purged(files: LakeFiles, snapshot: Snapshot, event_class: EventClass, numbers: Integers) -> Upkeep:
    """Of versions that are gone nobody needs to know that they were purged."""
    entries = snapshot.of(Kind.PURGED, event_class.name)
    if not entries:
        return Upkeep()
    table = pa.concat_tables([files.read_table(entry.path) for entry in entries])
    stays = np.isin(whole(table["number"]), numbers)
    if stays.all():
        return Upkeep()
    gone = tuple(entry.path for entry in entries)
    rest = table.filter(pa.array(stays))
    if not rest.num_rows:
        return Upkeep((), gone)
    written = files.write_table(Kind.PURGED, event_class.name, rest, tag="purged", replaces=gone[0])
    return Upkeep((written,), gone)

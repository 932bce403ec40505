"""Which occurrences change an event that is there, where a whole history is detected at once instead of by ticks.

In: versions and occurrences of a complex class. Out: a mask, and the chronons at whose ends they are published.

An event with the key of an earlier one changes it, unless that one was purged: read before the tick of the new one, and
expired before it by its own lifespan and those of its constituents. Of constituents only subscribed versions are known.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from augury.history.versions import key_codes
from augury.kernels.batch import NO_SEQ, Batch, Integers, Occurrences
from augury.kernels.columns.column import Mask

_FOR_EVER: Final = np.iinfo(np.int64).max


def changes(versions: Batch, found: Occurrences, chronon_us: int) -> Mask:
    """Which events change one that is there, where the others announce one."""
    changed = np.zeros(len(found), np.bool_)
    if not found.event_class.key or not len(found):
        return changed
    key, _ = key_codes(found.event_class, found.values.columns)
    by_key = np.argsort(key, kind="stable")
    old, new = by_key[:-1], by_key[1:]
    tick = chronons_of(found, chronon_us)[new] * chronon_us
    purged = (_expiries(versions, found)[old] < tick) & (found.det_time[old] < tick)
    changed[new] = (key[old] == key[new]) & ~purged
    return changed


def chronons_of(found: Occurrences, chronon_us: int) -> Integers:
    """The chronon at whose end each is published; what is due at the very end of one is published there."""
    chronons: Integers = (found.det_time - (found.seq == NO_SEQ)) // chronon_us
    return chronons


def _expiries(versions: Batch, found: Occurrences) -> Integers:
    """When each event expires: not before its constituents."""
    own = found.event_class.lifespan_us
    if own is None:
        return np.full(len(found), _FOR_EVER)
    lifespans = np.array([c.lifespan_us or 0 for c in versions.classes])
    for_ever = np.array([c.lifespan_us is None for c in versions.classes])
    of_version = np.where(for_ever[versions.code], _FOR_EVER, versions.occ_time + lifespans[versions.code])
    lists = found.constituents
    lists = pa.concat_arrays(lists.chunks) if isinstance(lists, pa.ChunkedArray) else lists
    counts = np.diff(lists.offsets.to_numpy(zero_copy_only=False))
    flat = lists.flatten().to_numpy(zero_copy_only=False)
    # `seq` counts the versions from 1, so that it is a place in their columns.
    each = of_version[flat - 1]
    expiries: Integers = found.occ_time + own
    np.maximum.at(expiries, np.repeat(np.arange(len(found)), counts), each)
    return expiries

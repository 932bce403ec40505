"""The order of the contract: where complex events stand in a history, and which of those at one place come first.

In: columns of occurrences. Out: orders of their rows. It knows no kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass, key_of
from augury.kernels.batch import Integers


def without_seq(seq: Integers) -> npt.NDArray[np.bool_]:
    """Which events a timer completed, or an event that a timer completed."""
    return seq <= 0


def places(seq: Integers, det_time: Integers) -> Integers:
    """The number of each row's place in the history, 0 for the first: those with equal numbers stand together.

    A version, and what it completes, stands by det_time and `seq`; what a timer completes before all versions of its
    det_time, or right after the one that set the timer.
    """
    if not len(seq):
        return np.zeros(0, np.int64)
    if not (timed := without_seq(seq)).any():
        # `seq` alone is the order of versions, and one column is sorted faster than three.
        return np.unique(seq, return_inverse=True)[1].astype(np.int64, copy=False)
    keys = (timed, np.abs(seq), det_time)
    order = np.lexsort(keys)
    new = np.zeros(len(seq), np.bool_)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    found = np.empty(len(seq), np.int64)
    found[order] = np.cumsum(new)
    return found


def in_order(
    event_class: EventClass,
    place: Integers,
    constituents: Sequence[list[int]],
    values: Sequence[pa.Array],
    occ_time: Integers,
) -> list[int]:
    """The rows by place, key, constituents, values and occ_time; those alike in all of them stay as they are."""
    by_name = {key_of(a.name): c.to_pylist() for a, c in zip(event_class.attributes, values, strict=True)}
    keys = [by_name[key_of(name)] for name in event_class.key]
    at, occ = place.tolist(), occ_time.tolist()

    def of(i: int) -> tuple[Any, ...]:
        # What has no key is told apart by its constituents and values.
        rest = [least_first(column[i]) for column in by_name.values()]
        return at[i], [least_first(key[i]) for key in keys], constituents[i], rest, occ[i]

    return sorted(range(len(at)), key=of)


def least_first(value: Any) -> tuple[bool, bool, Any]:
    """What values are compared by: NaN is greater than every number, and NULL comes last."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None, is_nan, None if value is None or is_nan else value

"""Versions and the complex events that a class reads → the one history it runs over.

In: the batch of subscribed versions, and occurrences of complex classes in order of declaration. Out: a batch with the
complex events right after the version that completed them, in order of declaration, key and constituents, which
is the order that each `Occurrences` has; what a timer completed stands before the versions of its det_time, or after
the one that set it. An event of a SELECT class is itself what others are completed at, so it comes before them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from augury.kernels.batch import Batch, Occurrences
from augury.kernels.order import places, without_seq


def merge(versions: Batch, complex_events: Sequence[Occurrences], selected: Collection[int] = ()) -> Batch:
    """The history of a class that reads these complex classes, given as they stand now; `selected` are of SELECTs."""
    if not complex_events:
        return versions
    sizes = [len(found) for found in complex_events]
    seq = np.concatenate([versions.seq, *(found.seq for found in complex_events)])
    det_time = np.concatenate([versions.det_time, *(found.det_time for found in complex_events)])
    # Both ways are stable, so that what has one place stays in the order in which it is joined here.
    if selected:
        follows = [np.full(size, i not in selected) for i, size in enumerate(sizes)]
        order = np.lexsort((np.concatenate([np.zeros(len(versions), np.bool_), *follows]), places(seq, det_time)))
    else:
        order = np.argsort(places(seq, det_time) if without_seq(seq).any() else seq, kind="stable")

    def ordered(first: npt.NDArray[Any], others: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        joined: npt.NDArray[Any] = np.concatenate([first, *others])[order]
        return joined

    known = len(versions.classes)
    return Batch(
        (*versions.classes, *(found.event_class for found in complex_events)),
        ordered(versions.code, [np.full(size, known + i, np.int16) for i, size in enumerate(sizes)]),
        ordered(versions.row, [np.arange(size) for size in sizes]),
        seq[order],
        ordered(versions.occ_time, [found.occ_time for found in complex_events]),
        det_time[order],
        ordered(versions.kind, [found.kind for found in complex_events]),
        (*versions.tables, *(found.values for found in complex_events)),
        (*versions.constituents, *(found.constituents for found in complex_events)),
    )

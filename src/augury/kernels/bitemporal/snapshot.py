"""The as-of-now view of a class as a table: what a SELECT reads.

In: a live view. Out: an Arrow table of its events. Unlike a tick it costs what it gives.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from augury.kernels.batch import Integers
from augury.kernels.bitemporal.live import NO_VERSION, LiveView
from augury.kernels.columns.column import arrow
from augury.types import TIMESTAMP

_TIMES: Final = {"occ_time": "occ", "det_time": "det"}


def live_slots(view: LiveView) -> Integers:
    """The slots of all live events, in the order in which their current versions were read."""
    found = np.flatnonzero(view.number[: view.used] != NO_VERSION)
    return found[np.argsort(view.number[found])]


def as_of_now(view: LiveView, slots: Integers | None = None) -> pa.Table:
    """A row per live event, or per slot given: its attributes, then occ_time, det_time and seq."""
    at = live_slots(view) if slots is None else slots
    columns = {name: cells.at(at) for name, cells in view.cells.items()}
    columns |= {name: arrow(view.times[time][at], TIMESTAMP, None) for name, time in _TIMES.items()}
    return pa.table({**columns, "seq": pa.array(view.times["seq"][at])})

"""The reference of MATCH as a kernel: right, and slow.

In: a class and its history as columns. Out: its occurrences as columns. It turns every version into a Python value and
back, and is for tests and small histories.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from augury import types as t
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.kernels.batch import WITHDRAW, Batch, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.columns.spelling import INTEGER_BOUNDS, round_half_up
from augury.kernels.match.shared import Shared
from augury.kernels.reference import Event, detect


def reference_kernel(program: Program, plan: ClassPlan, history: Batch, shared: Shared) -> Occurrences:
    """All occurrences of a MATCH class."""
    event_class, match = plan.event_class, plan.derivation
    assert isinstance(match, MatchPlan)
    lifespans = {c.name: c.lifespan_us for c in history.classes if c.lifespan_us is not None}
    found = detect(match, events_of(history), lifespans, chronon_us=program.settings.chronon_us, key=event_class.key)
    # It knows no timers: what has no `seq` stands before the versions of its time, or after the one that set it.
    found = sorted(found, key=lambda o: (o.det_time, abs(o.seq), o.seq <= 0))
    columns = {
        a.name: pa.array([_stored(o.values.get(a.name), a.type) for o in found], arrow_type(a.type))
        for a in event_class.attributes
    }
    return Occurrences.first(
        event_class,
        np.array([o.seq for o in found], np.int64),
        np.array([o.occ_time for o in found], np.int64),
        np.array([o.det_time for o in found], np.int64),
        pa.table(columns),
        pa.array([list(o.constituents) for o in found], pa.list_(pa.int64())),
    )


def events_of(history: Batch) -> list[Event]:
    """The history as the references read it."""
    tables = [
        [_column(table.column(i), a.type) for i, a in enumerate(event_class.attributes)]
        for event_class, table in zip(history.classes, history.tables, strict=True)
    ]
    events = []
    for i in range(len(history)):
        code, row = int(history.code[i]), int(history.row[i])
        event_class, parts = history.classes[code], history.constituents[code]
        values = {a.name: column[row] for a, column in zip(event_class.attributes, tables[code], strict=True)}
        occ_time = None if history.kind[i] == WITHDRAW else int(history.occ_time[i])
        constituents = () if parts is None else tuple(parts[row].as_py())
        events.append(
            Event(int(history.seq[i]), event_class.name, values, occ_time, int(history.det_time[i]), constituents)
        )
    return events


def _column(values: pa.ChunkedArray, of: t.Type) -> list[Any]:
    plain: list[Any] = (values.cast(pa.int64()) if isinstance(of, t.Timestamp) else values).to_pylist()
    return plain


def _stored(value: Any, of: t.Type) -> Any:
    """A value as an attribute holds it; what does not fit is an error of that row, and NULL."""
    match of:
        case t.Decimal() if value is not None:
            return round_half_up(Decimal(value), of)
        case t.Int() | t.BigInt() if value is not None:
            low, high = INTEGER_BOUNDS[of]
            return value if low <= value <= high else None
        case t.String(length) if value is not None and length is not None:
            return value if len(value) <= length else None
        case _:
            return value

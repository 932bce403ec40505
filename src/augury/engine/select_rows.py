"""What a query of a SELECT class gave → its rows: columns as declared, times that can be written, constituents.

In: a table with a column for each attribute, in order, then the occurrence time in µs and, of a traced SELECT, lists of
what rows are made of. Out: `Rows`. It knows no SQL, and not who ran it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from augury.engine.ports import SelectFailed
from augury.engine.rows import Rows, made_of, whole
from augury.event import EventClass
from augury.kernels.columns import arrow_type

YEARS_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond of the years 1 to 9999, since the epoch."""


def rows_in(found: pa.Table, event_class: EventClass, views: int | None) -> Rows:
    """The rows; `views` says how many views a traced SELECT reads. Raises `SelectFailed` for a time that is too far."""
    declared = event_class.attributes
    columns = [_typed(whole(found.column(i)), arrow_type(attribute.type)) for i, attribute in enumerate(declared)]
    occ_time = whole(found.column(len(declared)))
    times = [occ_time, *(c.view(pa.int64()) for c in columns if pa.types.is_timestamp(c.type))]
    if any(_is_outside(time) for time in times):
        raise SelectFailed("a time lies outside the years 1 to 9999")
    attributes = pa.table(columns, names=[attribute.name for attribute in declared])
    made = None if views is None else made_of(whole(found.column(len(declared) + 1)), views)
    return Rows(attributes, occ_time, made)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    return column.view(kind) if pa.types.is_timestamp(kind) else column.cast(kind)


def _is_outside(times: pa.Array) -> bool:
    bounds = pc.min_max(times)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is not None and (low < YEARS_US[0] or high > YEARS_US[1])

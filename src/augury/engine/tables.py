"""Columns of one class as a table, and tables without a row.

In: a class. Out: Arrow tables as a Batch has them, named and typed as the attributes are declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from augury.event import EventClass
from augury.kernels.batch import Occurrences
from augury.kernels.columns import arrow_type


def table_of(event_class: EventClass, columns: Sequence[pa.Array]) -> pa.Table:
    """Columns under the names of the attributes."""
    schema = pa.schema([pa.field(a.name, arrow_type(a.type)) for a in event_class.attributes])
    return pa.Table.from_arrays(list(columns), schema=schema)


@cache
def nothing(event_class: EventClass) -> pa.Table:
    """No version of a class."""
    return table_of(event_class, [pa.array([], arrow_type(attribute.type)) for attribute in event_class.attributes])


def nothing_of(event_class: EventClass) -> Occurrences:
    """No event of a complex class."""
    none = np.zeros(0, np.int64)
    return Occurrences.first(event_class, none, none, none, nothing(event_class), pa.array([], pa.list_(pa.int64())))

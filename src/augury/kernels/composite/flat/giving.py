"""From the versions of each occurrence to complex events: their values, constituents and order, column by column.

In: which versions make each occurrence. Out: occurrences as a kernel gives them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from augury.algebra.expression import Aggregate, Feed
from augury.algebra.scalar import Field, Leaf, Scalar, leaves
from augury.event import EventClass, key_of
from augury.kernels.batch import Integers, Occurrences
from augury.kernels.columns import Evaluated, evaluate
from augury.kernels.composite.flat.tables import NONE
from augury.kernels.composite.flat.versions import Versions
from augury.kernels.composite.giving import fed
from augury.kernels.order import in_order, places


def given(
    versions: Versions,
    event_class: EventClass,
    feeds: Sequence[Feed],
    events: Integers,
    begins: Integers,
    parts: Integers,
) -> Occurrences:
    """The complex events: by place, key, constituents, values."""
    leaf = versions.column("leaf")[parts]

    def evaluated(scalar: Scalar) -> Evaluated:
        columns: dict[Leaf, pa.Array] = {}
        for field in leaves(scalar):
            assert isinstance(field, Field)
            columns[field] = versions.values(field, _latest(versions, field, leaf, begins, parts))
        return evaluate(scalar, columns, None, len(events))

    columns, errors = [], 0
    for attribute in event_class.attributes:
        value = next((f.value for f in feeds if key_of(f.attribute) == key_of(attribute.name)), None)
        assert not isinstance(value, Aggregate), "a COMPOSITE has no COLLECT"
        found = fed(value, attribute.type, len(events), evaluated)
        errors += len(found.errors) - int(found.errors.null_count)
        columns.append(found.values)
    batch, at = versions.rows.batch, versions.index[events]
    names = [a.name for a in event_class.attributes]
    occurrences = Occurrences.first(
        event_class,
        batch.seq[at],
        batch.occ_time[at],
        batch.det_time[at],
        pa.table(columns, names=names) if names else pa.table({}),
        versions.constituents(begins, parts),
        errors + versions.errors,
    )
    # Complex events that a version completed stand at one place with it.
    derived = any(one is not None for one in batch.constituents)
    place = places(occurrences.seq, occurrences.det_time) if derived else events
    if not _is_unsorted(versions, event_class, place):
        return occurrences
    order = in_order(event_class, place, occurrences.constituents.to_pylist(), columns, occurrences.occ_time)
    return occurrences.at(np.array(order, np.int64))


def _latest(versions: Versions, field: Field, leaf: Integers, begins: Integers, parts: Integers) -> Integers:
    """Of each occurrence the latest version that has a field, or NONE."""
    if len(begins) == 1:
        return np.zeros(0, np.int64)
    detector = versions.detector
    if field.scope:
        has = [key_of(one.event_class) == key_of(field.scope) for one in detector.leaves]
    else:
        has = [number in detector.tests.bound_at(field.name) for number in range(len(detector.leaves))]
    places = np.where(np.array(has, np.bool_)[leaf], np.arange(len(parts)), NONE)
    last = np.maximum.reduceat(places, begins[:-1])
    return np.where(last == NONE, NONE, parts[last])


def _is_unsorted(versions: Versions, event_class: EventClass, events: Integers) -> bool:
    """Whether several take place at one version, and not in order: the walk gives them by their versions."""
    if len(events) < 2 or (np.diff(events) > 0).all():
        return False
    return bool(event_class.key) or any(one is not None for one in versions.rows.batch.constituents)

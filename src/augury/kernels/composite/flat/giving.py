"""From the versions of each occurrence to complex events: their values, constituents and order, column by column.

In: which versions make each occurrence. Out: occurrences as a kernel gives them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from augury.algebra.expression import Aggregate
from augury.algebra.scalar import Field, Leaf, Scalar, leaves
from augury.event import EventClass, key_of
from augury.kernels.batch import Integers, Occurrences
from augury.kernels.columns import Evaluated, evaluate
from augury.kernels.composite.flat.tables import NONE
from augury.kernels.composite.flat.versions import Versions
from augury.kernels.composite.giving import fed, in_order


def given(
    versions: Versions, event_class: EventClass, events: Integers, begins: Integers, parts: Integers
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
        feeds = versions.detector.plan.feeds
        value = next((f.value for f in feeds if key_of(f.attribute) == key_of(attribute.name)), None)
        assert not isinstance(value, Aggregate), "a COMPOSITE has no COLLECT"
        found = fed(value, attribute.type, len(events), evaluated)
        errors += len(found.errors) - int(found.errors.null_count)
        columns.append(found.values)
    batch, at = versions.rows.batch, versions.index[events]
    names = [a.name for a in event_class.attributes]
    occurrences = Occurrences(
        event_class,
        batch.seq[at],
        batch.occ_time[at],
        batch.det_time[at],
        pa.table(columns, names=names) if names else pa.table({}),
        versions.constituents(begins, parts),
        errors + versions.errors,
    )
    return _sorted(occurrences, events) if _is_unsorted(versions, event_class, events) else occurrences


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


def _sorted(found: Occurrences, events: Integers) -> Occurrences:
    lists = found.constituents.to_pylist()
    rest = [column.to_pylist() for column in found.values.columns]
    by_name = dict(zip((key_of(name) for name in found.values.column_names), rest, strict=True))
    keys = [by_name[key_of(name)] for name in found.event_class.key]
    places = events.tolist()

    def place(i: int) -> object:
        return places[i], [in_order(k[i]) for k in keys], lists[i], [in_order(r[i]) for r in rest]

    order = np.array(sorted(range(len(places)), key=place), np.int64)  # type: ignore[arg-type]
    at = pa.array(order)
    return Occurrences(
        found.event_class,
        found.seq[order],
        found.occ_time[order],
        found.det_time[order],
        found.values.take(at) if found.values.num_columns else found.values,
        found.constituents.take(at),
        found.errors,
    )

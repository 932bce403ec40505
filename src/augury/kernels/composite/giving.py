"""From occurrences of a graph to complex events: what feeds the attributes, constituents, the order of the contract.

In: occurrences with the place at which they were found. Out: columns. It knows no node and no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from augury import types as t
from augury.algebra.expression import Aggregate
from augury.algebra.scalar import Scalar
from augury.event import EventClass, key_of
from augury.kernels.batch import NO_SEQ, Occurrences
from augury.kernels.columns import Evaluated, arrow_type
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.occurrence import Occ, Point, Version
from augury.kernels.match.leaves import stored


@dataclass(frozen=True, slots=True)
class Found:
    """An occurrence of the whole, and the version at which it takes place, if it is no timer."""

    point: Point
    version: Version | None
    occ: Occ


def given(detector: Detector, event_class: EventClass, found: Sequence[Found]) -> Occurrences:
    """The complex events: by place, key, constituents, values."""
    occs = [one.occ for one in found]
    columns, errors = [], 0
    for attribute in event_class.attributes:
        feed = next((f for f in detector.plan.feeds if key_of(f.attribute) == key_of(attribute.name)), None)
        value = feed.value if feed else None
        assert not isinstance(value, Aggregate), "a COMPOSITE has no COLLECT"
        has = fed(value, attribute.type, len(occs), lambda scalar: detector.tests.evaluated(scalar, occs))
        errors += len(has.errors) - int(has.errors.null_count)
        columns.append(has.values)
    lists = [constituents(one) for one in occs]
    order = _order(event_class, found, lists, columns)
    at = pa.array(order, pa.int64())
    names = [a.name for a in event_class.attributes]
    versions = [found[i].version for i in order]
    seq = [NO_SEQ if version is None else version.seq for version in versions]
    return Occurrences(
        event_class,
        np.array(seq, np.int64),
        np.array([occs[i].occ_time for i in order], np.int64),
        np.array([occs[i].det_time for i in order], np.int64),
        pa.table([column.take(at) for column in columns], names=names) if names else pa.table({}),
        pa.array([lists[i] for i in order], pa.list_(pa.int64())),
        errors,
    )


def constituents(one: Occ) -> list[int]:
    """The subscribed versions of an occurrence: those of a complex event stand for it."""
    seqs: set[int] = set()
    for version, _ in one.parts:
        seqs.update((version.seq,) if version.constituents is None else version.constituents)
    return sorted(seqs)


def fed(value: Scalar | None, kind: t.Type, count: int, evaluated: Callable[[Scalar], Evaluated]) -> Evaluated:
    """What feeds an attribute of so many complex events, in its type."""
    if value is None:
        return Evaluated(pa.nulls(count, arrow_type(kind)), pa.nulls(count, pa.int8()))
    found = evaluated(value)
    values = stored(found.values, value.type)
    if value.type == kind:
        return Evaluated(values, found.errors)
    earlier = found.errors.fill_null(0).to_numpy(zero_copy_only=False)
    converted = convert(Column(values, earlier if earlier.any() else None), value.type, kind)
    errors = np.zeros(len(values), np.int8) if converted.errors is None else converted.errors
    return Evaluated(stored(converted.values, kind), pa.array(errors, mask=errors == 0))


def _order(
    event_class: EventClass, found: Sequence[Found], lists: Sequence[list[int]], columns: Sequence[pa.Array]
) -> list[int]:
    places = [one.point for one in found]
    if all(a < b for a, b in pairwise(places)):
        return list(range(len(found)))
    values = {key_of(a.name): c.to_pylist() for a, c in zip(event_class.attributes, columns, strict=True)}
    keys = [values[key_of(name)] for name in event_class.key]

    def place(i: int) -> tuple[Any, ...]:
        rest = [in_order(column[i]) for column in values.values()]
        return places[i], [in_order(k[i]) for k in keys], lists[i], rest

    return sorted(range(len(found)), key=place)


def in_order(value: Any) -> tuple[bool, bool, Any]:
    """Least first; NaN is greater than every number, and NULL comes last."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None, is_nan, None if value is None or is_nan else value

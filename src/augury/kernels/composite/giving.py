"""From occurrences of a graph to complex events: what feeds the attributes, constituents, the order of the contract.

In: occurrences with the place at which they were found. Out: columns. It knows no node and no state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from augury import types as t
from augury.algebra.expression import Aggregate, Feed
from augury.algebra.scalar import Scalar
from augury.event import EventClass, key_of
from augury.kernels.batch import NO_SEQ, Occurrences
from augury.kernels.columns import Evaluated, arrow_type
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.occurrence import Occ, Point, Version
from augury.kernels.match.leaves import stored
from augury.kernels.order import in_order, places


@dataclass(frozen=True, slots=True)
class Found:
    """An occurrence of the whole, and the version at which it takes place, if it is no timer."""

    point: Point
    version: Version | None
    occ: Occ


def given(detector: Detector, feeds: Sequence[Feed], event_class: EventClass, found: Sequence[Found]) -> Occurrences:
    """The complex events, with what feeds the attributes of their class: by place, key, constituents, values."""
    occs = [one.occ for one in found]
    columns, errors = [], 0
    for attribute in event_class.attributes:
        value = next((f.value for f in feeds if key_of(f.attribute) == key_of(attribute.name)), None)
        assert not isinstance(value, Aggregate), "a COMPOSITE has no COLLECT"
        has = fed(value, attribute.type, len(occs), lambda scalar: detector.tests.evaluated(scalar, occs))
        errors += len(has.errors) - int(has.errors.null_count)
        columns.append(has.values)
    lists = [constituents(one) for one in occs]
    seq = np.array([_seq(one) for one in found], np.int64)
    det_time = np.array([one.det_time for one in occs], np.int64)
    occ_time = np.array([one.occ_time for one in occs], np.int64)
    place = places(seq, det_time)
    alone = bool((np.diff(place) > 0).all())
    order = list(range(len(found))) if alone else in_order(event_class, place, lists, columns, occ_time)
    at = pa.array(order, pa.int64())
    names = [a.name for a in event_class.attributes]
    return Occurrences.first(
        event_class,
        seq[order],
        occ_time[order],
        det_time[order],
        pa.table([column.take(at) for column in columns], names=names) if names else pa.table({}),
        pa.array([lists[i] for i in order], pa.list_(pa.int64())),
        errors,
    )


def _seq(one: Found) -> int:
    """The `seq` of the version; of a timer that was due when it was set minus that of the version that set it."""
    if one.version is not None:
        return one.version.seq
    # Its point is then right after the last of its versions.
    return -abs(one.occ.parts[-1][0].seq) if one.point[1] else NO_SEQ


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

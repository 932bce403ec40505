"""From the rows of a batch to versions at leaves, in order.

In: a batch. Out: for each version that fits a leaf the leaves, by the values that they name. Which leaves fit is worked
out over columns; it knows neither nodes nor contexts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.expression import Variable
from augury.event import key_of
from augury.kernels.batch import Batch, Integers
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.known import Known
from augury.kernels.composite.occurrence import FOREVER, Version
from augury.kernels.composite.scalars import attribute_key, variable_key, variable_places
from augury.kernels.composite.state import GraphState, Key
from augury.kernels.match.leaves import (
    Rows,
    coded_values,
    remember_tails,
    stored,
    truth_of,
    value_column,
)
from augury.kernels.match.shared import Shared
from augury.kernels.match.streams import FRESH, partitioned_rows

_NO_VALUES: Mapping[str, Any] = {}

Arrival = tuple[Version, list[tuple[Key, tuple[int, ...]]]]
"""A version, and the leaves that it fits, by the values that they name."""


def arrivals(detector: Detector, state: Known, batch: Batch, shared: Shared) -> tuple[list[Arrival], int]:
    """The versions of a batch that matter, and how often a mask was in error."""
    rows = rows_of(detector, state, batch, shared)
    bits = np.zeros(len(rows.index), np.int64)
    errors = 0
    bound: dict[int, dict[int, Key]] = {}
    for number, leaf in enumerate(detector.leaves):
        truth = truth_of(leaf, rows, state.tails)
        errors += truth.errors
        of = truth.rows
        numbers, agree = numbers_at(detector, state, rows, number, of)
        of, numbers = of[agree], numbers[agree]
        bits[of] |= 1 << number
        if detector.plan.keys:
            bound[number] = dict(zip(of.tolist(), map(tuple, numbers.tolist()), strict=True))
    remember_tails(state.tails, detector.leaves, rows)
    at = np.flatnonzero(bits)
    if detector.inert and isinstance(state, GraphState) and state.is_keyed:
        at = _that_matter(detector.inert, state, rows, at, bits, bound)
    versions = _versions(detector, rows, at, state.places)
    state.places += len(rows.index)
    return list(_arrivals(rows, at, bits[at], versions, bound)), errors


def _that_matter(
    inert: set[tuple[int, ...]],
    state: GraphState,
    rows: Rows,
    at: Integers,
    bits: Integers,
    bound: dict[int, dict[int, Key]],
) -> Integers:
    """The rows without those that would find their graph empty, and leave it so."""
    sets = {each: tuple(i for i in range(64) if each >> i & 1) for each in np.unique(bits[at]).tolist()}
    partitions, found = rows.partitions(at).tolist(), bits[at].tolist()
    keys = [
        {(partition, *bound[leaf][row]) for leaf in sets[each]}
        for row, each, partition in zip(at.tolist(), found, partitions, strict=True)
    ]
    alone = [sets[each] in inert and len(of) == 1 for each, of in zip(found, keys, strict=True)]
    opened = {key for of, is_alone in zip(keys, alone, strict=True) if not is_alone for key in of}
    known = state.graphs
    matters = [
        not is_alone or any(key in opened or key in known for key in of)
        for of, is_alone in zip(keys, alone, strict=True)
    ]
    return at[np.array(matters, np.bool_)] if len(at) else at


def _arrivals(
    rows: Rows, at: Integers, bits: Integers, versions: list[Version], bound: dict[int, dict[int, Key]]
) -> Iterator[Arrival]:
    sets = {each: tuple(i for i in range(64) if each >> i & 1) for each in np.unique(bits).tolist()}
    partitions = rows.partitions(at).tolist()
    for row, each, partition, version in zip(at.tolist(), bits.tolist(), partitions, versions, strict=True):
        if not bound:
            yield version, [((partition,), sets[each])]
            continue
        groups: dict[Key, list[int]] = {}
        for leaf in sets[each]:
            groups.setdefault((partition, *bound[leaf][row]), []).append(leaf)
        yield version, [(key, tuple(leaves)) for key, leaves in groups.items()]


def numbers_at(
    detector: Detector, state: Known, rows: Rows, number: int, of: Integers
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """The numbers of the shared variables' values at rows of a leaf, and where the places of a variable agree."""
    keys = detector.plan.keys
    leaf = detector.leaves[number]
    numbers = np.full((len(of), len(keys)), FRESH, np.int64)
    agree = np.ones(len(of), np.bool_)
    which = {key_of(v.name): i for i, v in enumerate(keys)}
    for name, places in variable_places(leaf).items():
        variable: Variable = keys[which[name]] if name in which else places[0][1]
        if len(places) == 1:
            if name in which:
                coded = coded_values(rows, leaf, places[0][0], variable, of)
                numbers[:, which[name]] = state.values[which[name]].of_coded(coded)
            continue
        columns = [value_column(rows, leaf, place, variable, of) for place, _ in places]
        for again in columns[1:]:
            agree &= _same(columns[0], again)
        if name in which:
            known = state.values[which[name]]
            numbers[:, which[name]] = known.number(stored(columns[0], variable.type))
    return numbers, agree


def _same(one: pa.Array, other: pa.Array) -> npt.NDArray[np.bool_]:
    """Where two columns have equal values; NULL equals NULL."""
    pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
    return np.array([a == b or (a != a and b != b) for a, b in pairs], np.bool_)


def rows_of(detector: Detector, state: Known, batch: Batch, shared: Shared) -> Rows:
    """The history that a batch adds."""
    return partitioned_rows(batch, detector.plan.over, detector.plan.partition_by, state.partitions, shared)


def _versions(detector: Detector, rows: Rows, at: Integers, first: int) -> list[Version]:
    batch, index = rows.batch, rows.index[at]
    codes = batch.code[index]
    lifespans = [c.lifespan_us for c in batch.classes]
    names = [str(key_of(c.name)) for c in batch.classes]
    values: list[Mapping[str, Any]] = [_NO_VALUES] * len(at)
    lists: list[tuple[int, ...] | None] = [None] * len(at)
    for code in np.unique(codes).tolist():
        of = np.flatnonzero(codes == code)
        columns = _asked(detector, rows, code, at[of])
        if columns:
            for place, row in zip(of.tolist(), zip(*columns.values(), strict=True), strict=True):
                values[place] = dict(zip(columns, row, strict=True))
        constituents = batch.constituents[code]
        if constituents is not None:
            taken = constituents.take(pa.array(batch.row[index[of]])).to_pylist()
            for place, found in zip(of.tolist(), taken, strict=True):
                lists[place] = tuple(found)
    found = []
    columns_of = (at + first, batch.seq[index], batch.occ_time[index], batch.det_time[index], codes)
    numbers = zip(*(column.tolist() for column in columns_of), strict=True)
    for (place, seq, occ_time, det_time, code), has, own in zip(numbers, values, lists, strict=True):
        lifespan = lifespans[code]
        until = FOREVER if lifespan is None else max(occ_time + lifespan, det_time)
        found.append(Version(place, seq, occ_time, det_time, until, names[code], has, own))
    return found


def _asked(detector: Detector, rows: Rows, code: int, of: Integers) -> dict[str, list[Any]]:
    """The values of some rows of a class that anything asks for."""
    name = key_of(rows.batch.classes[code].name)
    found = {}
    for one in detector.asked:
        # Whoever looks into the past gives a plan without the order, but says when versions were detected.
        is_other_clock = one.name == "det_time" and rows.batch.detected is not None
        if one.scope and key_of(one.scope) == name and (is_other_clock or not detector.is_time(one)):
            found[attribute_key(one.name)] = python_values(stored(rows.column(code, one.name, of), one.type))
    for leaf in detector.leaves:
        if key_of(leaf.event_class) != name:
            continue
        for variable, places in variable_places(leaf).items():
            for place, written in places if variable in detector.variables else ():
                key = variable_key(place, written.name)
                if key not in found:
                    column = value_column(rows, leaf, place, written, of)
                    found[key] = python_values(stored(column, written.type))
    return found


def python_values(values: pa.Array) -> list[Any]:
    """Values as `algebra.scalar` has them: times are numbers."""
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    found: list[Any] = values.to_pylist()
    return found

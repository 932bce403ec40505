"""The versions that a flat step deals with: those held from earlier batches, then those of the batch that fit a leaf.

In: a batch and a state. Out: columns for the walk, and values by the number of a version, looked up only for versions
that take part in something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from augury.algebra.expression import Variable
from augury.algebra.scalar import Field
from augury.event import key_of
from augury.kernels.batch import Batch, Integers
from augury.kernels.columns import arrow_type
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.flat.state import FlatState, Held
from augury.kernels.composite.flat.tables import EVER, NONE
from augury.kernels.composite.reading import numbers_at, rows_of
from augury.kernels.composite.scalars import variable_places
from augury.kernels.match.leaves import Rows, code_of, remember_tails, stored, truth_of, value_column
from augury.kernels.match.shared import Shared

_LISTS: Final = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class Versions:
    """`at` are the rows that fit a leaf, `leaf` which one, `key` their graphs; numbers count from the held ones on."""

    detector: Detector
    held: Held
    rows: Rows
    at: Integers
    leaf: Integers
    key: Integers
    place: Integers
    errors: int

    @property
    def index(self) -> Integers:
        """Where they stand in the batch."""
        return self.rows.index[self.at]

    def column(self, name: str) -> Integers:
        """`leaf`, `seq` or a time, of all."""
        new = self.leaf if name == "leaf" else getattr(self.rows.batch, name)[self.index]
        return np.concatenate([getattr(self.held, name), new]) if len(self.held) else new

    def until(self) -> Integers:
        """When each of the batch leaves."""
        batch, index = self.rows.batch, self.index
        lifespans = np.array([-1 if c.lifespan_us is None else c.lifespan_us for c in batch.classes], np.int64)
        lifespan = lifespans[batch.code[index]]
        ends = np.maximum(batch.occ_time[index] + lifespan, batch.det_time[index])
        return np.where(lifespan < 0, EVER, ends)

    def values(self, field: Field, which: Integers) -> pa.Array:
        """What a field is of some versions, by number; NULL of a version that has none, or of none (NONE)."""
        kind = arrow_type(field.type)
        if self.detector.is_time(field):
            times = np.append(self.column(field.name), 0)
            return pa.array(times[which], mask=which < 0).view(kind)
        parts = [self.held.values[fields_of(self.detector).index(field)]] if len(self.held) else [pa.array([], kind)]
        is_new = np.flatnonzero(which >= len(self.held))
        source = which.copy()
        source[is_new] = NONE
        new = which[is_new] - len(self.held)
        leaf = self.leaf[new]
        base = len(parts[0])
        for one in np.unique(leaf).tolist():
            column = self._column(field, one)
            if column is not None:
                of = np.flatnonzero(leaf == one)
                source[is_new[of]] = base + self.rows.places(self.at[new[of]])
                parts.append(stored(column, field.type))
                base += len(column)
        return pa.concat_arrays(parts).take(pa.array(source, mask=source < 0))

    def _column(self, field: Field, number: int) -> pa.Array | None:
        """A field of all rows of the class of a leaf."""
        leaf = self.detector.leaves[number]
        code = code_of(self.rows.batch.classes, leaf.event_class)
        everyone = self.rows.of_class(code)
        if field.scope:
            is_mine = key_of(field.scope) == key_of(leaf.event_class)
            return self.rows.column(code, field.name, everyone) if is_mine else None
        places = variable_places(leaf).get(key_of(field.name))
        if places is None:
            return None
        return value_column(self.rows, leaf, places[-1][0], Variable(field.name, field.type), everyone)

    def constituents(self, begins: Integers, parts: Integers) -> pa.Array:
        """The subscribed versions of occurrences, ascending: those of a complex event stand for it."""
        seq = self.column("seq")
        if not self._has_complex():
            return pa.ListArray.from_arrays(pa.array(begins, pa.int32()), pa.array(seq[parts]))
        numbers, where = np.unique(parts, return_inverse=True)
        lists = self._lists(numbers)
        found = []
        for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            found.append(sorted({of for part in where[begin:end].tolist() for of in lists[part]}))
        return pa.array(found, _LISTS)

    def _has_complex(self) -> bool:
        """Whether a leaf is of a complex class, whose events stand for others."""
        batch = self.rows.batch
        names = {key_of(leaf.event_class) for leaf in self.detector.leaves}
        pairs = zip(batch.classes, batch.constituents, strict=True)
        return any(lists is not None and key_of(c.name) in names for c, lists in pairs)

    def _lists(self, which: Integers) -> list[list[int]]:
        """The subscribed versions of each of some versions."""
        batch, index = self.rows.batch, self.index
        found: list[list[int]] = []
        for number in which.tolist():
            if number < len(self.held):
                assert self.held.constituents is not None
                found.append(self.held.constituents[number].as_py())
                continue
            row = index[number - len(self.held)]
            lists = batch.constituents[batch.code[row]]
            found.append([int(batch.seq[row])] if lists is None else lists[int(batch.row[row])].as_py())
        return found

    def taken(self, which: Integers) -> Held:
        """Versions by number, to be held."""
        leaf, seq, occ_time, det_time = (self.column(name)[which] for name in ("leaf", "seq", "occ_time", "det_time"))
        values = [self.values(field, which) for field in fields_of(self.detector)]
        lists = pa.array(self._lists(which), _LISTS) if self._has_complex() else None
        return Held(leaf, seq, occ_time, det_time, values, lists)


def fields_of(detector: Detector) -> list[Field]:
    """What anything asks of versions, but the times that they have anyway."""
    asked = (field for field in detector.asked if not detector.is_time(field))
    return sorted(asked, key=lambda field: (key_of(field.scope), key_of(field.name)))


def versions_of(detector: Detector, state: FlatState, batch: Batch, shared: Shared) -> Versions:
    """The versions of a batch that fit a leaf, each in the graph of its key."""
    rows = rows_of(detector, state, batch, shared)
    leaf = np.full(len(rows.index), NONE, np.int64)
    bound = np.zeros((len(rows.index), len(detector.plan.keys)), np.int64)
    errors = 0
    for number, primitive in enumerate(detector.leaves):
        truth = truth_of(primitive, rows, state.tails)
        errors += truth.errors
        numbers, agree = numbers_at(detector, state, rows, number, truth.rows)
        of = truth.rows if agree.all() else truth.rows[agree]
        leaf[of] = number
        bound[of] = numbers if agree.all() else numbers[agree]
    remember_tails(state.tails, detector.leaves, rows)
    at = np.flatnonzero(leaf != NONE)
    key = _keys(state, rows, at, bound[at])
    place = at + state.places
    state.places += len(rows.index)
    return Versions(detector, state.held, rows, at, leaf[at], key, place, errors)


def _keys(state: FlatState, rows: Rows, at: Integers, bound: Integers) -> Integers:
    """A number for each graph, without gaps."""
    columns = [rows.partitions(at)] if state.partitions else []
    columns += [bound[:, i] for i in range(bound.shape[1])]
    if not columns:
        return np.zeros(len(at), np.int64)
    key = columns[0]
    for pairs, more in zip(state.pairs, columns[1:], strict=True):
        key = pairs.number(pa.array(key << 32 | more))
    return np.ascontiguousarray(key)

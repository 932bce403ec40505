"""Which leaves of an expression are true of which rows, up to its keyed variables.

In: a batch and the rows of it that are in the history. Out: for each leaf the rows that are of its class, have its
constants and satisfy its mask. It knows neither streams nor runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import types as t
from augury.algebra.expression import Primitive, Variable
from augury.algebra.operators import Operator
from augury.algebra.scalar import Apply, Constant, Field, Leaf, Previous, Scalar, apply, leaves
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT, Batch, Integers
from augury.kernels.columns import Evaluated, arrow_type, evaluate, holds
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.match.shared import Shared


@dataclass(frozen=True, slots=True)
class Rows:
    """The history that a batch adds: indices into its columns, in order, and the partition of each, if it has any."""

    batch: Batch
    index: Integers
    partition: Integers
    over: tuple[str, ...] | None = None
    shared: Shared = field(default_factory=Shared)

    def partitions(self, of: Integers) -> Integers:
        """The partition of some of them: all 0 where the history is one."""
        return self.partition[of] if len(self.partition) else np.zeros(len(of), np.int64)

    def of_class(self, code: int) -> Integers:
        """Which of them are of a class."""
        return self.shared.get(("class", self.over, code), lambda: self._of_class(code))

    def _of_class(self, code: int) -> Integers:
        whole = len(self.index) == len(self.batch)
        return np.flatnonzero((self.batch.code if whole else self.batch.code[self.index]) == code)

    def column(self, code: int, name: str, of: Integers) -> pa.Array:
        """An attribute, or a time, of some of them, all of one class."""
        if len(of) == len(everyone := self.of_class(code)):
            return self.shared.get(("column", self.over, code, name), lambda: self._column(code, name, everyone))
        return self._column(code, name, of)

    def places(self, of: Integers) -> Integers:
        """Of some of them the place among all of their class."""

        def numbered() -> Integers:
            found = np.empty(len(self.index), np.int64)
            for code in range(len(self.batch.classes)):
                everyone = self.of_class(code)
                found[everyone] = np.arange(len(everyone))
            return found

        return self.shared.get(("places", self.over), numbered)[of]

    def _column(self, code: int, name: str, of: Integers) -> pa.Array:
        rows = self.index[of]
        if name in ("occ_time", "det_time"):
            values = self.batch.occ_time if name == "occ_time" else self.batch.asked_det_time
            return pa.array(values[rows]).view(arrow_type(t.TIMESTAMP))
        return taken(self.batch.tables[code], name, self.batch.row[rows])


def taken(table: pa.Table, name: str, rows: Integers) -> pa.Array:
    """A column of a table at some rows, as one array; the name is matched as names are."""
    place = next(i for i, column in enumerate(table.column_names) if key_of(column) == key_of(name))
    values = table.column(place).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks else pa.array([], values.type)
    if len(rows) == len(values) and (len(rows) == 0 or (rows[0] == 0 and (np.diff(rows) == 1).all())):
        return values
    return values.take(pa.array(rows))


def history_rows(batch: Batch, over: tuple[str, ...] | None) -> Integers:
    """The versions that a history has: withdrawals are left out, and what OVER does not name."""
    inside = batch.kind == ASSERT
    if over is not None:
        named = {key_of(name) for name in over}
        codes = np.array([key_of(c.name) in named for c in batch.classes], np.bool_)
        inside &= codes[batch.code]
    return np.flatnonzero(inside)


def partition_types(
    classes: Sequence[EventClass], over: Sequence[str] | None, partition_by: Sequence[str]
) -> list[t.Type]:
    """The types of what PARTITION BY names: those of the first class of the history that is in a partition."""
    named = None if over is None else {key_of(name) for name in over}
    inside = [c for c in classes if named is None or key_of(c.name) in named]
    found = [[c.attribute(name) for name in partition_by] for c in inside]
    first = next((attributes for attributes in found if None not in attributes), [])
    return [attribute.type for attribute in first if attribute is not None]


def code_of(classes: Sequence[EventClass], name: str) -> int:
    """The number of a class in a batch."""
    return next(i for i, c in enumerate(classes) if key_of(c.name) == key_of(name))


def keyed_places(leaf: Primitive, keyed: Iterable[Variable]) -> dict[str, list[int]]:
    """For each keyed variable of a leaf the attributes that have to have its value."""
    names = {v.name for v in keyed}
    found: dict[str, list[int]] = {}
    for place, binding in enumerate(leaf.bindings):
        if isinstance(binding, Variable) and binding.name in names:
            found.setdefault(binding.name, []).append(place)
    return found


@dataclass(slots=True)
class Tail:
    """The last events of a class, as many as PREV looks back, with their partitions: what came before a batch.

    `det_time` is what expressions read as detTime.
    """

    table: pa.Table
    occ_time: Integers
    det_time: Integers
    partition: Integers


@dataclass(frozen=True, slots=True)
class Truth:
    """The rows of which a leaf is true, whatever its variables stand for; and of how many its mask is in error."""

    rows: Integers
    errors: int


def truth_of(leaf: Primitive, rows: Rows, tails: Mapping[int, Tail]) -> Truth:
    """Where a leaf is true; worked out once for all expressions that have it, unless it looks back."""
    if looks_back([leaf.mask]):
        return _truth(leaf, rows, tails)
    demanded = tuple(binding if isinstance(binding, Constant) else None for binding in leaf.bindings)
    return rows.shared.get(
        ("true", rows.over, key_of(leaf.event_class), demanded, leaf.mask), lambda: _truth(leaf, rows, tails)
    )


def true_rows(leaf: Primitive, rows: Rows, tails: Mapping[int, Tail]) -> Integers:
    """The rows of which a leaf is true."""
    return truth_of(leaf, rows, tails).rows


def _truth(leaf: Primitive, rows: Rows, tails: Mapping[int, Tail]) -> Truth:
    code = code_of(rows.batch.classes, leaf.event_class)
    of = rows.of_class(code)
    demands = [*_constants(leaf, rows.batch.classes[code]), *([leaf.mask] if leaf.mask is not None else [])]
    errors = 0
    for demand in demands:
        if len(of) == 0:
            break
        found = _evaluated(demand, rows, code, of, tails)
        errors += len(found.errors) - found.errors.null_count
        of = of[holds(found)]
    return Truth(of, errors)


def _constants(leaf: Primitive, event_class: EventClass) -> Iterator[Scalar]:
    for attribute, binding in zip(event_class.attributes, leaf.bindings, strict=False):
        if isinstance(binding, Constant):
            field = Field("", attribute.name, attribute.type)
            operands = (field,) if binding.value is None else (field, binding)
            test = apply(Operator.IS_NULL if binding.value is None else Operator.EQ, operands)
            assert isinstance(test, Apply), "analysis has compared the types"
            yield test


def _evaluated(demand: Scalar, rows: Rows, code: int, of: Integers, tails: Mapping[int, Tail]) -> Evaluated:
    columns: dict[Leaf, pa.Array] = {}
    for leaf in leaves(demand):
        if isinstance(leaf, Previous):
            values = _previous(leaf, rows, code, of, tails.get(code))
        else:
            assert isinstance(leaf, Field), "a mask has no timing primitive"
            values = rows.column(code, leaf.name, of)
        columns[leaf] = stored(values, leaf.type)
    return evaluate(demand, columns, None, len(of))


def stored(values: pa.Array, kind: t.Type) -> pa.Array:
    """Values as a leaf of an expression has them."""
    wanted = arrow_type(kind)
    return values if values.type == wanted else values.cast(wanted)


def _previous(leaf: Previous, rows: Rows, code: int, of: Integers, tail: Tail | None) -> pa.Array:
    """The attribute of the n-th event of the class before each, in the same partition."""
    everyone = rows.of_class(code)
    values = rows.column(code, leaf.name, everyone)
    partition = rows.partitions(everyone)
    before = 0
    if tail is not None:
        times = {"occ_time": tail.occ_time, "det_time": tail.det_time}
        earlier = (
            pa.array(times[leaf.name]).view(arrow_type(t.TIMESTAMP))
            if leaf.name in times
            else taken(tail.table, leaf.name, np.arange(tail.table.num_rows))
        )
        values = pa.concat_arrays([earlier, values])
        partition = np.concatenate([tail.partition, partition])
        before = len(tail.partition)
    order = np.argsort(partition, kind="stable")
    source = np.full(len(order), -1, np.int64)
    same = partition[order[leaf.offset :]] == partition[order[: -leaf.offset]]
    source[order[leaf.offset :][same]] = order[: -leaf.offset][same]
    wanted = source[before + np.searchsorted(everyone, of)]
    return values.take(pa.array(wanted, mask=wanted < 0))


@dataclass(frozen=True, slots=True)
class Coded:
    """The values of a variable at rows: distinct values, and which of them each row has."""

    distinct: pa.Array
    index: npt.NDArray[np.int32]


def coded_values(rows: Rows, leaf: Primitive, place: int, variable: Variable, of: Integers) -> Coded:
    """What a variable stands for at rows of a leaf, in the variable's own type; equal values are stored equally."""
    code = code_of(rows.batch.classes, leaf.event_class)
    everyone = rows.of_class(code)
    whole = rows.shared.get(
        ("values", rows.over, code, place, variable.type), lambda: _coded(rows, leaf, place, variable, everyone)
    )
    if len(of) == len(everyone):
        return whole
    return Coded(whole.distinct, whole.index[rows.places(of)])


def value_column(rows: Rows, leaf: Primitive, place: int, variable: Variable, of: Integers) -> pa.Array:
    """The attribute at a place of a leaf in the type of a variable that stands there; equal values stored equally."""
    code = code_of(rows.batch.classes, leaf.event_class)
    attribute = rows.batch.classes[code].attributes[place]
    values = rows.column(code, attribute.name, of)
    if attribute.type != variable.type:
        values = convert(Column(values), attribute.type, variable.type).values
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _coded(rows: Rows, leaf: Primitive, place: int, variable: Variable, of: Integers) -> Coded:
    found = value_column(rows, leaf, place, variable, of).dictionary_encode(null_encoding="encode")
    return Coded(found.dictionary, found.indices.to_numpy(zero_copy_only=False))


def looks_back(masks: Iterable[Scalar | None]) -> int:
    """How many events of a class PREV looks back at most."""
    return max((x.offset for m in masks if m is not None for x in leaves(m) if isinstance(x, Previous)), default=0)


def remember_tails(tails: dict[int, Tail], of: Iterable[Primitive], rows: Rows) -> None:
    """Keep, of the classes of some leaves, the last events that PREV may ask for."""
    masks_of: dict[int, list[Scalar | None]] = {}
    for leaf in of:
        masks_of.setdefault(code_of(rows.batch.classes, leaf.event_class), []).append(leaf.mask)
    for code, masks in masks_of.items():
        back = looks_back(masks)
        if back:
            tails[code] = _tail(tails.get(code), rows, code, back)


def _tail(before: Tail | None, rows: Rows, code: int, back: int) -> Tail:
    of = rows.of_class(code)
    index = rows.index[of]
    table = rows.batch.tables[code].take(pa.array(rows.batch.row[index]))
    occ_time, det_time = rows.batch.occ_time[index], rows.batch.asked_det_time[index]
    partition = rows.partitions(of)
    if before is not None:
        table = pa.concat_tables([before.table, table.cast(before.table.schema)])
        occ_time = np.concatenate([before.occ_time, occ_time])
        det_time = np.concatenate([before.det_time, det_time])
        partition = np.concatenate([before.partition, partition])
    order = np.argsort(partition, kind="stable")
    ends = np.searchsorted(partition[order], partition[order], side="right")
    kept = np.sort(order[ends - np.arange(len(order)) <= back])
    return Tail(table.take(pa.array(kept)), occ_time[kept], det_time[kept], partition[kept])

"""Streams: one history per partition and per value of the keyed variables, as rows of one table.

In: which leaves are true of which rows. Out: rows (stream, position, leaves, row), by stream. An expression stands for
one expression per value, and an event of another value is to it an event that no leaf is true of; so a stream needs
only the rows that touch it, and the positions say how many lie between. Where rows touch every stream, because the
expression listens or they name no value, only those that name a stream are written down, if that will do: `by_spans`.

A value that no event has had is one stream for all such values. Where leaves bind different variables, the streams
are all that agree with each other: the binding of one event joined with that of another, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from augury import limits
from augury.algebra.expression import Variable
from augury.automata.alphabet import is_found
from augury.event import EventClass
from augury.kernels.batch import Batch, Integers
from augury.kernels.match.detector import Detector
from augury.kernels.match.leaves import Coded, Rows, code_of, coded_values, history_rows, keyed_places
from augury.kernels.match.shared import Shared

OF_ANY_CLASS = -1
FRESH = -1
"""A value that no event has had."""


class TooManyStreams(Exception):
    """The variables of an expression combine in more ways than the limit allows."""


@dataclass(slots=True)
class Numbers:
    """Distinct values in order of appearance, NULL among them; each has a number for ever.

    `_places` has the number of each where somebody asked for a few: Arrow would go over all of them every time.
    """

    values: pa.Array
    _places: dict[Any, int] = field(default_factory=dict, repr=False, compare=False)

    def number(self, values: pa.Array) -> Integers:
        """The number of each value; new values are added."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        coded = values.dictionary_encode(null_encoding="encode")
        return self.of_coded(Coded(coded.dictionary, coded.indices.to_numpy(zero_copy_only=False)))

    def of_coded(self, coded: Coded) -> Integers:
        """The same for values that have been told apart already; only those that a row has are added."""
        if len(coded.index) <= _FEW and (pa.types.is_integer(self.values.type) or pa.types.is_string(self.values.type)):
            return self._of_few(coded)
        met = np.zeros(len(coded.distinct), np.bool_)
        met[coded.index] = True
        known = pc.index_in(coded.distinct, value_set=self.values).fill_null(-1)
        numbers = _integers(known)
        new = np.flatnonzero((numbers < 0) & met)
        if len(new):
            numbers[new] = len(self.values) + np.arange(len(new))
            self.values = pa.concat_arrays([self.values, coded.distinct.take(pa.array(new))])
        return numbers[coded.index]

    def _of_few(self, coded: Coded) -> Integers:
        places = self._places
        if len(places) < len(self.values):
            some = self.values.slice(len(places)).to_pylist()
            places.update(zip(some, range(len(places), len(self.values)), strict=True))
        index, distinct = coded.index.tolist(), coded.distinct.to_pylist()
        new = [distinct[at] for at in sorted(set(index)) if distinct[at] not in places]
        if new:
            places.update(zip(new, range(len(places), len(places) + len(new)), strict=True))
            self.values = pa.concat_arrays([self.values, pa.array(new, self.values.type)])
        return np.array([places[distinct[at]] for at in index], np.int64)


_FEW = 16


def _integers(values: pa.Array) -> Integers:
    found: Integers = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def no_numbers(kind: pa.DataType) -> Numbers:
    """Before the first value."""
    return Numbers(pa.array([], kind))


def partitioned_rows(
    batch: Batch, over: tuple[str, ...] | None, partition_by: Sequence[str], known: Sequence[Numbers], shared: Shared
) -> Rows:
    """The history, with the number of each version's partition; what lacks an attribute is in none.

    `known` numbers the values of each attribute, and then their combinations.
    """
    index = shared.get(("rows", over), lambda: history_rows(batch, over))
    if not partition_by:
        return Rows(batch, index, np.zeros(0, np.int64), over, shared)
    has = np.array([all(c.attribute(n) is not None for n in partition_by) for c in batch.classes], np.bool_)
    index = index[has[batch.code[index]]]
    # Which rows there are depends on the attributes that partition.
    shared = shared.get(("by", over, tuple(partition_by)), Shared)
    unnumbered = Rows(batch, index, np.zeros(0, np.int64), over, shared)
    numbers = np.zeros((len(index), len(partition_by)), np.int64)
    for code in np.flatnonzero(has).tolist():
        of = unnumbered.of_class(code)
        if not len(of):
            continue  # of a class that is not in the history a column may have any type
        for i, name in enumerate(partition_by):
            attribute = batch.classes[code].attribute(name)
            assert attribute is not None
            column = unnumbered.column(code, attribute.name, of)
            kind = known[i].values.type
            numbers[of, i] = known[i].number(column.cast(kind) if column.type != kind else column)
    partition = numbers[:, 0]
    for i in range(1, len(partition_by)):
        partition = known[len(partition_by) + i - 1].number(pa.array(partition << 32 | numbers[:, i]))
    return Rows(batch, index, partition, over, shared)


@dataclass(frozen=True, slots=True)
class Group:
    """The leaves of one class whose keyed variables stand at the same attributes: they are true for the same value."""

    code: int
    places: tuple[tuple[str, tuple[int, ...]], ...]
    leaves: tuple[int, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The keyed variables that it binds."""
        return tuple(name for name, _ in self.places)


def groups_of(detector: Detector, classes: Sequence[EventClass]) -> list[Group]:
    """The groups of an expression."""
    found: dict[tuple[int, tuple[tuple[str, tuple[int, ...]], ...]], list[int]] = {}
    for number, leaf in enumerate(detector.alphabet.leaves):
        places = keyed_places(leaf, detector.keyed)
        code = OF_ANY_CLASS if is_found(leaf) else code_of(classes, leaf.event_class)
        key = (code, tuple(sorted((name, tuple(at)) for name, at in places.items())))
        found.setdefault(key, []).append(number)
    return [Group(code, places, tuple(numbers)) for (code, places), numbers in found.items()]


def is_simple(detector: Detector, groups: Sequence[Group]) -> bool:
    """Whether every row that matters touches one stream, which it names itself."""
    whole = {v.name for v in detector.keyed}
    if not whole:
        return True
    one_each = len({group.code for group in groups}) == len(groups)
    return one_each and all(set(g.variables) == whole for g in groups) and not detector.listens


def by_spans(detector: Detector, groups: Sequence[Group]) -> bool:
    """Whether events move streams that they do not name, and one tuple an event is wanted: see `walk_spans`."""
    tables = detector.tables
    if tables is None or not len(tables.delta) or detector.keeps_all or not detector.keyed:
        return False
    return detector.listens or any(not group.places for group in groups)


@dataclass(slots=True)
class Streams:
    """Which streams there are: `partition` and the number of each variable's value; `pairs` number combinations."""

    values: list[Numbers]
    partition: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    bound: Integers = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    pairs: list[Numbers] = field(default_factory=list)

    def __len__(self) -> int:
        """How many."""
        return len(self.partition)


@dataclass(frozen=True, slots=True)
class Touched:
    """Rows of streams, each stream's in order of position.

    `origin` has for each new stream the older one that it was part of until now, or -1 if it is as at the beginning.
    `unnamed`, where it is wanted, has the leaves that are true of each row to streams which the row does not name; the
    other columns have then only rows that name a stream.
    """

    stream: Integers
    row: Integers
    leaves: Integers
    origin: Integers
    unnamed: Integers | None = None


def touched(
    detector: Detector, rows: Rows, groups: Sequence[Group], true: Sequence[Integers], streams: Streams, spans: bool
) -> Touched:
    """Every row that touches a stream, or, for `spans`, that names it; and the streams that are new."""
    simple = is_simple(detector, groups)
    bits = [_bits(group, true, len(rows.index)) for group in groups]
    if simple:
        return _simple(detector, rows, groups, bits, streams)
    return _general(detector, rows, groups, bits, streams, spans)


def _bits(group: Group, true: Sequence[Integers], count: int) -> tuple[Integers, Integers]:
    """The rows at which a leaf of the group is true, and which are."""
    if len(group.leaves) == 1:
        only = true[group.leaves[0]]
        return only, np.full(len(only), 1 << group.leaves[0], np.int64)
    all_bits = np.zeros(count, np.int64)
    for leaf in group.leaves:
        all_bits[true[leaf]] |= 1 << leaf
    at = np.flatnonzero(all_bits)
    return at, all_bits[at]


def _value_numbers(
    detector: Detector, rows: Rows, group: Group, at: Integers, streams: Streams
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """The numbers of the group's values, a column per keyed variable, and the rows at which its places agree."""
    leaf = detector.alphabet.leaves[group.leaves[0]]
    numbers = np.full((len(at), len(detector.keyed)), FRESH, np.int64)
    agree = np.ones(len(at), np.bool_)
    for name, places in group.places:
        which = next(i for i, v in enumerate(detector.keyed) if v.name == name)
        variable: Variable = detector.keyed[which]
        each = [streams.values[which].of_coded(coded_values(rows, leaf, p, variable, at)) for p in places]
        numbers[:, which] = each[0]
        for again in each[1:]:
            agree &= again == each[0]
    return numbers, agree


# ---- one stream a row ----------------------------------------------------------------------------


def _simple(
    detector: Detector,
    rows: Rows,
    groups: Sequence[Group],
    bits: Sequence[tuple[Integers, Integers]],
    streams: Streams,
) -> Touched:
    width = len(detector.keyed)
    if width == 0 and (detector.listens or len(groups) > 1):
        leaves = np.zeros(len(rows.index), np.int64)
        for at, which in bits:
            leaves[at] |= which
        row = np.arange(len(rows.index)) if detector.listens else np.flatnonzero(leaves)
        parts: list[tuple[Integers, Integers, Integers]] = [(row, leaves[row], np.zeros((len(row), 0), np.int64))]
    else:
        parts = []
        for group, (at, which) in zip(groups, bits, strict=True):
            if not len(at):
                continue
            numbers, agree = _value_numbers(detector, rows, group, at, streams)
            if not agree.all():
                at, which, numbers = at[agree], which[agree], numbers[agree]
            parts.append((at, which, numbers))
    row = np.concatenate([at for at, _, _ in parts]) if parts else np.zeros(0, np.int64)
    leaves = np.concatenate([which for _, which, _ in parts]) if parts else np.zeros(0, np.int64)
    numbers = np.concatenate([n for _, _, n in parts]) if parts else np.zeros((0, width), np.int64)
    if len(parts) > 1:
        order = np.argsort(row, kind="stable")
        row, leaves, numbers = row[order], leaves[order], numbers[order]
    stream = _combined(detector, rows, row, numbers, streams)
    count = int(stream.max()) + 1 if len(stream) else 0
    known = len(streams)
    if count > known:
        example = np.zeros(count, np.int64)
        example[stream[::-1]] = np.arange(len(stream))[::-1]
        new = example[known:]
        streams.partition = np.concatenate([streams.partition, rows.partitions(row[new])])
        streams.bound = np.concatenate([streams.bound.reshape(known, width), numbers[new]])
    return Touched(stream, row, leaves, np.full(max(0, count - known), -1, np.int64))


def _combined(detector: Detector, rows: Rows, row: Integers, numbers: Integers, streams: Streams) -> Integers:
    """One number for the partition and all values of a row."""
    columns = [numbers[:, i] for i in range(numbers.shape[1])]
    if detector.plan.partition_by or not columns:
        columns.insert(0, rows.partitions(row))
    found = columns[0]
    while len(streams.pairs) < len(columns) - 1:
        streams.pairs.append(no_numbers(pa.int64()))
    for pairs, further in zip(streams.pairs, columns[1:], strict=False):
        found = pairs.number(pa.array(found << 32 | further))
    return found


# ---- streams that agree --------------------------------------------------------------------------

Binding = tuple[int, ...]


def _general(
    detector: Detector,
    rows: Rows,
    groups: Sequence[Group],
    bits: Sequence[tuple[Integers, Integers]],
    streams: Streams,
    spans: bool,
) -> Touched:
    width = len(detector.keyed)
    unnamed = np.zeros(len(rows.index), np.int64)
    seen = [_seen_by_all(rows, width, spans)] if detector.listens or spans else []
    for group, (at, which) in zip(groups, bits, strict=True):
        if spans and not group.places:
            unnamed[at] |= which
            continue
        numbers, agree = _value_numbers(detector, rows, group, at, streams)
        seen.append(_seen(rows, at[agree], which[agree], numbers[agree]))
    known = {binding: i for i, binding in enumerate(_bindings(np.column_stack([streams.partition, streams.bound])))}
    before = dict(known)
    _close(seen, known, width)
    origin = [latest_part(binding, before) for binding in list(known)[len(before) :]]
    if len(known) > len(before):
        bindings = np.array(list(known), np.int64).reshape(len(known), width + 1)
        streams.partition, streams.bound = bindings[:, 0].copy(), bindings[:, 1:].copy()
    parts = [_touched_by(one, known, streams) for one in (seen[1:] if spans else seen)]
    stream, row, leaves = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    # A row that touches a stream by several groups is one row, at which the leaves of all are true.
    order = np.lexsort((row, stream))
    stream, row, leaves = stream[order], row[order], leaves[order]
    first = np.flatnonzero(np.r_[True, (np.diff(stream) != 0) | (np.diff(row) != 0)]) if len(row) else order
    leaves = np.bitwise_or.reduceat(leaves, first) if len(row) else leaves
    stream, row = stream[first], row[first]
    if spans:
        return Touched(stream, row, leaves | unnamed[row], np.array(origin, np.int64), unnamed)
    return Touched(stream, row, leaves, np.array(origin, np.int64))


@dataclass(frozen=True, slots=True)
class _Seen:
    """Rows of a group by the values they bind: `bindings` are distinct, and row i has that of number `binding[i]`."""

    at: Integers
    leaves: Integers
    bindings: Integers
    binding: Integers


def _seen(rows: Rows, at: Integers, leaves: Integers, numbers: Integers) -> _Seen:
    bindings, binding = np.unique(np.column_stack([rows.partitions(at), numbers]), axis=0, return_inverse=True)
    return _Seen(at, leaves, bindings, binding.ravel())


def _seen_by_all(rows: Rows, width: int, spans: bool) -> _Seen:
    """Every row, of which no leaf is true; for `spans` one of each partition, which has a stream of fresh values."""
    at = np.arange(len(rows.index))
    if spans:
        at = np.unique(rows.partition, return_index=True)[1] if len(rows.partition) else at[:1]
    return _seen(rows, at, np.zeros(len(at), np.int64), np.full((len(at), width), FRESH, np.int64))


def _bindings(columns: Integers) -> Iterator[Binding]:
    """Rows as tuples; by columns, because a list for each row would keep the garbage collector busy."""
    return zip(*(columns[:, i].tolist() for i in range(columns.shape[1])), strict=True)


def _touched_by(seen: _Seen, known: dict[Binding, int], streams: Streams) -> tuple[Integers, Integers, Integers]:
    """The rows of a group once for each stream that has their values."""
    none = np.zeros(0, np.int64)
    if not len(seen.at):
        return none, none, none
    bound = seen.bindings[0, 1:] != FRESH
    number_of = {binding: i for i, binding in enumerate(_bindings(seen.bindings))}
    # For each stream the binding of the group that it agrees with, or -1.
    wanted = np.column_stack([streams.partition, np.where(bound, streams.bound, FRESH)])
    agrees = np.array([number_of.get(one, -1) for one in _bindings(wanted)], np.int64)
    stream = np.flatnonzero(agrees >= 0)
    stream = stream[np.argsort(agrees[stream], kind="stable")]
    count = np.bincount(agrees[stream], minlength=len(seen.bindings))
    begin = np.cumsum(count) - count
    times = count[seen.binding]
    place = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    found = stream[np.repeat(begin[seen.binding], times) + place]
    return found, np.repeat(seen.at, times), np.repeat(seen.leaves, times)


def _close(seen: Sequence[_Seen], known: dict[Binding, int], width: int) -> None:
    """Add every binding that joins bindings which agree, and that of the fresh values in each partition."""
    events = list(dict.fromkeys(binding for one in seen for binding in _bindings(one.bindings)))
    for partition in dict.fromkeys(event[0] for event in events):
        known.setdefault((partition, *[FRESH] * width), len(known))
    waiting = [*known]
    while waiting:
        binding = waiting.pop()
        # What has a value for every variable joins with nothing new.
        for event in events if FRESH in binding[1:] else ():
            joined = _joined(binding, event)
            if joined is not None and joined not in known:
                if len(known) >= limits.STREAMS_JOINED_MAX:
                    raise TooManyStreams
                known[joined] = len(known)
                waiting.append(joined)


def _joined(one: Binding, other: Binding) -> Binding | None:
    if one[0] != other[0]:
        return None
    found = [one[0]]
    for a, b in zip(one[1:], other[1:], strict=True):
        if a != b and FRESH not in (a, b):
            return None
        found.append(max(a, b))
    return tuple(found)


def latest_part(binding: Binding, known: dict[Binding, int]) -> int:
    """The stream that a new one was part of: that with most of its values, the others fresh."""
    best, best_count = -1, -1
    for chosen in product((False, True), repeat=len(binding) - 1):
        part = (binding[0], *(b if keep else FRESH for b, keep in zip(binding[1:], chosen, strict=True)))
        count = sum(b != FRESH for b in part[1:])
        if part in known and count > best_count:
            best, best_count = known[part], count
    return best

"""From the tuples that a walk found to complex events: WHERE, the choice among tuples, and what feeds the attributes.

In: tuples by event, stream and chain. Out: occurrences in the order of the contract.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury import types as t
from augury.algebra.expression import Aggregate, Choice, Variable
from augury.algebra.scalar import Field, Leaf, Scalar, leaves
from augury.event import EventClass, key_of
from augury.kernels.batch import Integers, Occurrences
from augury.kernels.columns import Evaluated, arrow_type, evaluate, holds
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.match.detector import Detector
from augury.kernels.match.leaves import stored, taken
from augury.kernels.match.state import Events, MatchState
from augury.kernels.match.walk import alike_best, best_of_each, unrolled
from augury.kernels.order import in_order, least_first, places

Shorts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tuples with which the expression takes place: at which event, in which stream."""

    event: Integers
    stream: Integers
    head: Shorts

    def at(self, places: Integers) -> Candidates:
        """Some of them."""
        return Candidates(self.event[places], self.stream[places], self.head[places])

    def __len__(self) -> int:
        """How many."""
        return len(self.event)


@dataclass(slots=True)
class Tuples:
    """Candidates with their nodes unrolled; values of variables and constituents as columns."""

    detector: Detector
    state: MatchState
    classes: tuple[EventClass, ...]
    candidates: Candidates
    nodes: Integers = field(init=False)
    begins: Integers = field(init=False)

    def __post_init__(self) -> None:
        """Unroll the chains."""
        chains = self.state.nodes
        self.nodes, self.begins = unrolled(self.candidates.head, chains.prev, chains.length)

    def __len__(self) -> int:
        """How many tuples."""
        return len(self.candidates)

    @property
    def events(self) -> Integers:
        """The events of all tuples, one after the other."""
        return self.state.nodes.ref[self.nodes]

    def _latest(self, wanted: npt.NDArray[np.bool_]) -> Integers:
        """For each tuple the latest of its events that is wanted; -1 for none."""
        found = np.full(len(self), -1, np.int64)
        owner = np.repeat(np.arange(len(self)), np.diff(self.begins))
        found[owner[wanted]] = self.events[wanted]
        return found

    def _attribute(self, code: int, name: str, events: Integers) -> pa.Array:
        """An attribute of an event per tuple, NULL where there is none."""
        held = self.state.events
        there = events >= 0
        mask = None if there.all() else ~there
        if name in ("occ_time", "det_time"):
            times = held.occ_time if name == "occ_time" else held.asked_det_time
            return pa.array(times[events], mask=mask).view(arrow_type(t.TIMESTAMP))
        rows = held.row[events]
        values = taken(held.tables[code], name, rows[there])
        if mask is None:
            return values
        return values.take(pa.array(np.cumsum(there) - 1, mask=mask))

    def column(self, leaf: Field) -> pa.Array:
        """A variable, or an attribute of the latest constituent of a class."""
        if leaf.scope:
            code = next(i for i, c in enumerate(self.classes) if key_of(c.name) == key_of(leaf.scope))
            events = self._latest(self.state.events.code[self.events] == code)
            return stored(self._attribute(code, leaf.name, events), leaf.type)
        return stored(self.variable(leaf.name), leaf.type)

    def variable(self, name: str) -> pa.Array:
        """What a variable stands for in each tuple; NULL where no constituent binds it."""
        detector = self.detector
        number = next((i for i, v in enumerate(detector.variables) if key_of(v.name) == key_of(name)), None)
        if number is None:
            return pa.nulls(len(self))
        variable = detector.variables[number]
        bound = self.state.nodes.marks[self.nodes] & (2 << number) != 0
        events = self._latest(bound)
        if variable.name in detector.carried:
            return self._carried(variable, events)
        which = next(i for i, v in enumerate(detector.keyed) if v.name == variable.name)
        numbers = self.state.streams.bound[self.candidates.stream, which]
        there = events >= 0
        return self.state.streams.values[which].values.take(pa.array(numbers, mask=~there))

    def _carried(self, variable: Variable, events: Integers) -> pa.Array:
        name, place = self.detector.carried[variable.name]
        code = next(i for i, c in enumerate(self.classes) if key_of(c.name) == key_of(name))
        attribute = self.classes[code].attributes[place]
        values = self._attribute(code, attribute.name, events)
        if attribute.type == variable.type:
            return values
        return convert(Column(values), attribute.type, variable.type).values

    def evaluated(self, scalar: Scalar) -> Evaluated:
        """A scalar over variables and constituents; NULL where it is in error."""
        columns: dict[Leaf, pa.Array] = {}
        for leaf in leaves(scalar):
            assert isinstance(leaf, Field)
            columns[leaf] = self.column(leaf)
        return evaluate(scalar, columns, None, len(self))

    def only(self, places: Integers) -> Tuples:
        """Some of the tuples."""
        return Tuples(self.detector, self.state, self.classes, self.candidates.at(places))


def collect(
    detector: Detector,
    state: MatchState,
    candidates: Candidates,
    classes: tuple[EventClass, ...],
    event_class: EventClass,
) -> Occurrences:
    """The complex events."""
    plan = detector.plan
    if not len(candidates):
        return _nothing(event_class)
    order = np.argsort(candidates.event, kind="stable")
    kept = Tuples(detector, state, classes, candidates.at(order))
    errors = 0
    if plan.where is not None and len(kept):
        where = kept.evaluated(plan.where)
        errors += _count(where)
        kept = kept.only(np.flatnonzero(holds(where)))
    if detector.keeps_all and (
        detector.repeats or detector.ambiguous or len(detector.keyed) or len(detector.variables)
    ):
        kept = _distinct(kept)
    aggregated = any(isinstance(feed.value, Aggregate) for feed in plan.feeds)
    if plan.choice is Choice.ALL and not aggregated:
        chosen = kept.only(_one_per_values(kept))
    else:
        chosen = kept.only(_one_per_event(kept, aggregated or plan.choice is not Choice.EARLIEST))
    columns_out = []
    for attribute in event_class.attributes:
        feed = next((f for f in plan.feeds if key_of(f.attribute) == key_of(attribute.name)), None)
        fed = _fed(feed.value if feed else None, attribute.type, chosen, kept)
        errors += _count(fed)
        columns_out.append(fed.values)
    names = [a.name for a in event_class.attributes]
    found = _ordered(event_class, chosen, pa.table(columns_out, names=names) if names else pa.table({}))
    return replace(found, errors=errors)


@cache
def _nothing(event_class: EventClass) -> Occurrences:
    none = np.zeros(0, np.int64)
    values = pa.table({a.name: pa.array([], arrow_type(a.type)) for a in event_class.attributes})
    return Occurrences.first(event_class, none, none, none, values, pa.array([], pa.list_(pa.int64())))


def _count(evaluated: Evaluated) -> int:
    return len(evaluated.errors) - int(evaluated.errors.null_count)


def _fed(value: Scalar | Aggregate | None, kind: t.Type, chosen: Tuples, kept: Tuples) -> Evaluated:
    if value is None:
        return _without_errors(pa.nulls(len(chosen), arrow_type(kind)))
    if isinstance(value, Aggregate):
        return _stored_as(_without_errors(_aggregated(value, chosen, kept)), value.type, kind)
    return _stored_as(chosen.evaluated(value), value.type, kind)


def _without_errors(values: pa.Array) -> Evaluated:
    return Evaluated(values, pa.nulls(len(values), pa.int8()))


def _stored_as(evaluated: Evaluated, source: t.Type, target: t.Type) -> Evaluated:
    """Values in the type of the attribute; one that does not fit is an error."""
    values = stored(evaluated.values, source)
    if source == target:
        return Evaluated(values, evaluated.errors)
    earlier = evaluated.errors.fill_null(0).to_numpy(zero_copy_only=False)
    converted = convert(Column(values, earlier if earlier.any() else None), source, target)
    errors = np.zeros(len(values), np.int8) if converted.errors is None else converted.errors
    return Evaluated(stored(converted.values, target), pa.array(errors, mask=errors == 0))


# ---- the choice among tuples ---------------------------------------------------------------------


def _keys(tuples: Tuples) -> list[tuple[Any, ...]]:
    """For each tuple its events and its values, in the order of the names of variables."""
    names = sorted(v.name for v in tuples.detector.variables)
    values = [tuples.variable(name).to_pylist() for name in names]
    events = tuples.events
    return [
        (tuple(events[tuples.begins[i] : tuples.begins[i + 1]].tolist()), *(least_first(v[i]) for v in values))
        for i in range(len(tuples))
    ]


def _distinct(tuples: Tuples) -> Tuples:
    """Each tuple of an event once."""
    event = tuples.candidates.event
    if len(event) == 0 or (len(event) > 1 and (np.diff(event) != 0).all()):
        return tuples
    seen: dict[tuple[Any, ...], int] = {}
    for i, key in enumerate(_keys(tuples)):
        seen.setdefault((int(event[i]), key), i)
    return tuples.only(np.array(list(seen.values()), np.int64)) if len(seen) < len(tuples) else tuples


def _one_per_event(tuples: Tuples, recent: bool) -> Integers:
    """The best tuple of each event; of those with the same events the one with the least values."""
    found, chains = tuples.candidates, tuples.state.nodes
    best: Integers = best_of_each(found.event, found.head, recent, chains.ref, chains.prev, chains.length)
    if len(best) == len(found) or not tuples.detector.variables:
        return best
    # Nearly always one tuple is the best; only where several have its events do values decide.
    alike = np.flatnonzero(alike_best(found.event, found.head, best, chains.ref, chains.prev))
    tied = alike[np.isin(found.event[alike], found.event[alike][1:][np.diff(found.event[alike]) == 0])]
    keys = _keys(tuples.only(tied))
    least: dict[int, tuple[Any, int]] = {}
    for place, event, key in zip(tied.tolist(), found.event[tied].tolist(), keys, strict=True):
        if event not in least or key[1:] < least[event][0]:
            least[event] = (key[1:], place)
    if least:
        at = np.searchsorted(found.event[best], np.array(list(least), np.int64))
        best[at] = [place for _, place in least.values()]
    return best


def _one_per_values(tuples: Tuples) -> Integers:
    """Of the tuples of an event with the same attribute values the most recent."""
    fed = [f.value for f in tuples.detector.plan.feeds]
    feeds = [tuples.evaluated(v).values.to_pylist() for v in fed if v is not None and not isinstance(v, Aggregate)]
    keys = _keys(tuples)
    best: dict[tuple[Any, ...], int] = {}
    for i, event in enumerate(tuples.candidates.event.tolist()):
        alike = (event, *(least_first(values[i]) for values in feeds))
        other = best.get(alike)
        if other is None or _preferred(keys[i], keys[other]):
            best[alike] = i
    return np.array(sorted(best.values()), np.int64)


def _preferred(key: tuple[Any, ...], to: tuple[Any, ...]) -> bool:
    latest, other = key[0][::-1], to[0][::-1]
    return latest > other or (latest == other and key[1:] < to[1:])


# ---- aggregates ----------------------------------------------------------------------------------


def _aggregated(aggregate: Aggregate, chosen: Tuples, kept: Tuples) -> pa.Array:
    event = kept.candidates.event
    begins = np.searchsorted(event, chosen.candidates.event, side="left")
    ends = np.searchsorted(event, chosen.candidates.event, side="right")
    if aggregate.operand is None:
        return pa.array(ends - begins)
    values = kept.evaluated(aggregate.operand).values
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        plain = values.view(pa.int64()).to_pylist()
    else:
        plain = values.to_pylist()
    found = [
        _aggregate(aggregate.function, [v for v in plain[b:e] if v is not None], aggregate.type)
        for b, e in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    wanted = arrow_type(aggregate.type)
    if pa.types.is_timestamp(wanted) or pa.types.is_duration(wanted):
        return pa.array(found, pa.int64()).view(wanted)
    return pa.array(found, wanted)


def _aggregate(function: str, values: list[Any], kind: t.Type) -> Any:
    """Over the values that are not NULL: of none it is NULL, and their count 0."""
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("MIN", "MAX"):
        return (min if function == "MIN" else max)(values, key=least_first)
    if isinstance(values[0], float):
        total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
        return total if function == "SUM" else total / len(values)
    exact = sum(map(Fraction, values), Fraction(0)) / (1 if function == "SUM" else len(values))
    match kind:
        case t.Decimal(scale=scale):
            digits = math.floor(abs(exact) * 10**scale + Fraction(1, 2))
            return Decimal((int(exact < 0), tuple(map(int, str(digits))), -scale))
        case t.Double():
            return float(exact)
        case _:
            return int(exact)


# ---- occurrences ---------------------------------------------------------------------------------


def _ordered(event_class: EventClass, chosen: Tuples, values: pa.Table) -> Occurrences:
    held = chosen.state.events
    event = chosen.candidates.event
    seq = held.seq[event]
    constituents = _constituents(chosen, held)
    found = Occurrences.first(event_class, seq, held.occ_time[event], held.det_time[event], values, constituents)
    if len(seq) < 2 or (np.diff(seq) > 0).all():
        return found
    place = places(seq, found.det_time)
    order = in_order(event_class, place, constituents.to_pylist(), values.columns, found.occ_time)
    return found.at(np.array(order, np.int64))


def _constituents(chosen: Tuples, held: Events) -> pa.Array:
    """The subscribed versions of each tuple, ascending: those of a complex event stand for it."""
    events = chosen.events
    if not any(lists is not None and len(lists) for lists in held.constituents):
        # Events are in the order of `seq`, and each subscribed one has its own.
        return pa.ListArray.from_arrays(pa.array(chosen.begins, pa.int32()), pa.array(held.seq[events]))
    lists = [None if one is None else one.to_pylist() for one in held.constituents]
    found = []
    for begin, end in zip(chosen.begins[:-1].tolist(), chosen.begins[1:].tolist(), strict=True):
        seqs: set[int] = set()
        for e in events[begin:end].tolist():
            of = lists[held.code[e]]
            seqs |= {int(held.seq[e])} if of is None else set(of[held.row[e]])
        found.append(sorted(seqs))
    return pa.array(found, pa.list_(pa.int64()))

"""A whole MATCH over a history: its clauses, the choice among tuples, and what feeds the attributes.

In: a plan and the history it may see. Out: occurrences in the order of the contract. Values are as the plan computes
them, before they are stored in attributes, whose types the plan does not know.

WITHIN measures from the least occ_time of a tuple to the greatest. `Class.attr` is that of the latest constituent of
the class. Of tuples with the same constituents the one with the least values counts, variables by name, NULL last.
Aggregates are over all tuples that remain, told apart by their events and the values of variables; what is no
aggregate is that of the RECENT one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from augury.algebra.expression import Aggregate, Choice, Expression, MatchPlan, Some, walk
from augury.algebra.scalar import Field, Leaf, Scalar, Value
from augury.event import key_of
from augury.kernels.reference.history import NAN, START, Event, History, Scope, comparable
from augury.kernels.reference.positions import places
from augury.kernels.reference.scalars import value_of
from augury.kernels.reference.tuples import Reason, constituents, whole_reasons
from augury.types import Decimal as DecimalType
from augury.types import Double, Type


class OrderByOccurrenceUnsupported(NotImplementedError):
    """ORDER BY OCCURRENCE is not for this oracle, whose history comes in order: `bitemporal` corrects."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A complex event: the `seq` and times of the version at which it takes place, its values and constituents."""

    seq: int
    occ_time: int
    det_time: int
    values: Mapping[str, Value]
    constituents: tuple[int, ...]


def detect(
    plan: MatchPlan,
    history: Iterable[Event],
    lifespans_us: Mapping[str, int] | None = None,
    *,
    chronon_us: int = 1_000_000,
    key: Sequence[str] = (),
) -> list[Occurrence]:
    """All occurrences, by `seq`, then the attributes of `key`, then constituents, then values.

    `history` has the versions of all classes of the program that may be seen, in order. WHERE and WITHIN do not see
    constituents that a tick purged before; a class that `lifespans_us` does not name never expires, and that a complex
    event may keep its constituents longer is not known here.
    """
    if plan.by_occurrence is not None:
        raise OrderByOccurrenceUnsupported("ORDER BY OCCURRENCE")
    over = None if plan.over is None else {key_of(name) for name in plan.over}
    seen = [event for event in history if over is None or key_of(event.event_class) in over]
    found: list[Occurrence] = []
    for part in _partitions(seen, plan.partition_by):
        for place in sorted(places(plan.expression, part.whole, Scope(part)) - {START}):
            kept = {
                _told_apart(reason)
                for reason in whole_reasons(plan.expression, part, place)
                if _remains(plan, part, reason, place, lifespans_us or {}, chronon_us)
            }
            found += _collect(plan, part, place, list(kept))
    # What has no key is told apart by its constituents and values.
    return sorted(
        found,
        key=lambda o: (
            o.seq,
            [_ordered(o.values[name]) for name in key],
            o.constituents,
            [_ordered(value) for value in o.values.values()],
        ),
    )


def _told_apart(reason: Reason) -> Reason:
    """A tuple as others are compared with it: a variable that it binds to NULL is like one that it does not bind."""
    return Reason(reason.events, frozenset((name, value) for name, value in reason.values if value is not None))


def _partitions(events: Sequence[Event], attributes: Sequence[str]) -> list[History]:
    """A history per value combination; an event without the attributes is in none."""
    parts: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        if all(map(event.has, attributes)):
            values = tuple(comparable(event.value(name)) for name in attributes)
            parts.setdefault(values, []).append(event)
    return [History.of(part) for part in parts.values()]


# ---- WHERE and WITHIN ----------------------------------------------------------------------------


def _remains(
    plan: MatchPlan, history: History, reason: Reason, place: int, lifespans_us: Mapping[str, int], chronon_us: int
) -> bool:
    if plan.where is None and plan.within_us is None:
        return True
    events = [history.events[i] for i in reason.events]
    tick = history.events[place].det_time // chronon_us * chronon_us
    if any(_purged(event, tick, lifespans_us.get(event.event_class)) for event in events):
        return False
    times = [event.occ_time for event in events if event.occ_time is not None]
    if plan.within_us is not None and max(times) - min(times) > plan.within_us:
        return False
    return plan.where is None or _evaluated(plan.where, plan.expression, history, reason) is True


def _purged(event: Event, tick: int, lifespan_us: int | None) -> bool:
    """A tick purges what was read before it and expired before it."""
    assert event.occ_time is not None
    return lifespan_us is not None and event.det_time < tick and event.occ_time + lifespan_us < tick


def _evaluated(scalar: Scalar, expression: Expression, history: History, reason: Reason) -> Value:
    """A scalar over variables, and over the latest constituent of a class; what is not there is NULL."""
    types = {v.name: v.type for node in walk(expression) if isinstance(node, Some) for v in node.variables}
    bound: dict[str, Any] = dict(reason.values)

    def leaf(wanted: Leaf) -> Value:
        assert isinstance(wanted, Field)
        if wanted.scope:
            of_class = [i for i in reason.events if history.events[i].event_class == wanted.scope]
            return history.events[max(of_class)].value(wanted.name) if of_class else None
        value: Value = bound.get(wanted.name)
        return math.nan if value == NAN and isinstance(types[wanted.name], Double) else value

    return value_of(scalar, leaf)


# ---- COLLECT -------------------------------------------------------------------------------------


def _collect(plan: MatchPlan, history: History, place: int, kept: Sequence[Reason]) -> list[Occurrence]:
    if not kept:
        return []
    if any(isinstance(feed.value, Aggregate) for feed in plan.feeds):
        return [_occurrence(plan, history, place, _recent(kept), kept)]
    match plan.choice:
        case Choice.RECENT:
            return [_occurrence(plan, history, place, _recent(kept), kept)]
        case Choice.EARLIEST:
            return [_occurrence(plan, history, place, _earliest(kept), kept)]
        case Choice.ALL:
            alike: dict[tuple[object, ...], list[Reason]] = {}
            for reason in kept:
                values = _occurrence(plan, history, place, reason, kept).values.values()
                alike.setdefault(tuple(comparable(value) for value in values), []).append(reason)
            return [_occurrence(plan, history, place, _recent(group), kept) for group in alike.values()]


def _recent(kept: Sequence[Reason]) -> Reason:
    """The tuple whose constituents, latest first, are greatest; of equal ones that with the least values."""
    best = max(sorted(reason.events)[::-1] for reason in kept)
    alike = [r for r in kept if sorted(r.events)[::-1] == best]
    return min(alike, key=lambda reason: _in_order(reason, kept))


def _earliest(kept: Sequence[Reason]) -> Reason:
    """The tuple whose constituents, earliest first, are least; of equal ones that with the least values."""
    return min(kept, key=lambda r: (sorted(r.events), _in_order(r, kept)))


def _in_order(reason: Reason, kept: Sequence[Reason]) -> list[tuple[bool, bool, Any]]:
    names = sorted({name for one in kept for name, _ in one.values})
    bound = dict(reason.values)
    return [_ordered(bound.get(name)) for name in names]


def _ordered(value: Any) -> tuple[bool, bool, Any]:
    """Least first; NaN is greater than every number, and NULL comes last."""
    is_nan = value == NAN or value != value
    return value is None, is_nan, None if value is None or is_nan else value


def _occurrence(plan: MatchPlan, history: History, place: int, chosen: Reason, kept: Sequence[Reason]) -> Occurrence:
    event = history.events[place]
    assert event.occ_time is not None
    values: dict[str, Value] = {}
    for feed in plan.feeds:
        match feed.value:
            case None:
                values[feed.attribute] = None
            case Aggregate(operand=None):
                values[feed.attribute] = len(kept)
            case Aggregate(function=function, operand=operand, type=kind) if operand is not None:
                operands = [_evaluated(operand, plan.expression, history, reason) for reason in kept]
                values[feed.attribute] = _aggregate(function, [v for v in operands if v is not None], kind)
            case Aggregate():
                raise AssertionError("an aggregate has an operand or counts all")
            case scalar:
                values[feed.attribute] = _evaluated(scalar, plan.expression, history, chosen)
    return Occurrence(event.seq, event.occ_time, event.det_time, values, constituents(history, chosen))


def _aggregate(function: str, values: list[Any], kind: Type) -> Value:
    """An aggregate over the values that are not NULL; of none it is NULL, and their count 0."""
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    if function in ("MIN", "MAX"):
        found: Value = sorted(values, key=_ordered)[0 if function == "MIN" else -1]
        return found
    if isinstance(values[0], float):
        total = math.fsum(values) if all(map(math.isfinite, values)) else sum(values)
        return total if function == "SUM" else total / len(values)
    exact = sum(map(Fraction, values), Fraction(0)) / (1 if function == "SUM" else len(values))
    match kind:
        case DecimalType(scale=scale):
            rounded = math.floor(abs(exact) * 10**scale + Fraction(1, 2))
            return Decimal((int(exact < 0), tuple(map(int, str(rounded))), -scale))
        case Double():
            return float(exact)
        case _:
            return int(exact)

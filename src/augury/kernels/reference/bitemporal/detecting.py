"""MATCH and COMPOSITE classes inside ticks: the history that each may see, and what takes place in it.

In: all versions so far, each with its place in the order of all that happens. Out: all occurrences of a class so far,
in order, as the slow references of MATCH and COMPOSITE find them from the first version on.

A place is (det_time, 0, ()) for what timers complete, (tick, 1, (class, key)) for an event of a SELECT, (det_time, 2,
(seq,)) for a version that was read: so a timer due at T comes before all that is detected at T, and the events of a
SELECT before the versions of the next chronon. What is completed at a place has that place, too; a timer that was due
when it was set has the next place after it, told by a last number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from augury import types as t
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan
from augury.algebra.scalar import Value
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.columns.spelling import INTEGER_BOUNDS, round_half_up
from augury.kernels.reference.bitemporal.version import EventId, Key, Version, key_values, ranks
from augury.kernels.reference.composite import CompositeOccurrence, composite_occurrences
from augury.kernels.reference.detection import Occurrence, detect
from augury.kernels.reference.history import DAY_US, EPOCH_DAY, Event

Place = tuple[int, int, tuple[Any, ...], int]

READ = -1
"""Stands for the class of what others are completed at: it comes before them."""


@dataclass(frozen=True, slots=True)
class Item:
    """A version at its place. `order` tells those at one place apart: class as declared, key, constituents, values.

    An event of a class with ORDER BY OCCURRENCE is told at its place, and happens at `corrected_place`: see
    `correcting`. Where the det_time of the version is the time of a clock, `detected` is when it was detected.
    """

    version: Version
    place: Place
    order: tuple[Any, ...] = (READ,)
    is_read: bool = False
    corrected_place: Place | None = None
    detected: int | None = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The `seq` of the versions below: its own if it was read."""
        if self.is_read:
            assert self.version.seq is not None
            return (self.version.seq,)
        return self.version.constituents


@dataclass(frozen=True, slots=True)
class Found:
    """An occurrence; `seq` is that of the version read at its place, None at a timer or an event of a SELECT."""

    place: Place
    seq: int | None
    occ_time: int
    det_time: int
    values: tuple[Value, ...]
    constituents: tuple[int, ...]


def read_item(version: Version) -> Item:
    """A version of a subscribed or clock class."""
    return Item(version, (version.det_time, 2, (version.seq,), 0), is_read=True)


def selected_item(version: Version, declared: int) -> Item:
    """An event of a SELECT class: after all versions of its tick, classes as declared, then keys."""
    return Item(version, (version.det_time, 1, (declared, ranks(version.key)), 0))


def detected_item(found: Found, version: Version, declared: int, event_class: EventClass) -> Item:
    """An occurrence of a MATCH or COMPOSITE: right after what completed it."""
    return Item(version, found.place, (declared, *order_of(found, event_class)))


def occurrences(
    plan: ClassPlan, classes: Mapping[str, EventClass], items: Iterable[Item], tick: int, chronon_us: int
) -> list[Found]:
    """All occurrences of a class up to a tick: by place, then key, constituents, values."""
    seen = _history(plan, classes, items)
    events = [
        Event(
            *(number, item.version.event_class, _by_name(classes, item.version), occ_time, item.version.det_time),
            detected=item.detected,
        )
        for number, item in enumerate(seen)
        if (occ_time := item.version.occ_time) is not None
    ]
    lifespans_us = {name: c.lifespan_us for name, c in classes.items() if c.lifespan_us is not None}
    found: list[Found] = []
    match plan.derivation:
        case MatchPlan() as match:
            for one in detect(match, events, lifespans_us, chronon_us=chronon_us):
                at = seen[one.seq]
                found.append(_found(plan, seen, at.place, at.version.seq, one))
        case CompositePlan() as composite:
            lasting: Mapping[str, int | None] = dict(lifespans_us)
            for each in composite_occurrences(composite, events, lasting, until_us=tick, chronon_us=chronon_us):
                if each.seq is not None:
                    at = seen[each.seq]
                    found.append(_found(plan, seen, at.place, at.version.seq, each))
                else:
                    found.append(_found(plan, seen, _place_of_timer(seen, each), None, each))
        case _:
            raise AssertionError(f"{plan.event_class.name} is neither MATCH nor COMPOSITE")
    return sorted(found, key=lambda one: (one.place, order_of(one, plan.event_class)))


def _history(plan: ClassPlan, classes: Mapping[str, EventClass], items: Iterable[Item]) -> list[Item]:
    """Every subscribed and clock class, and the complex classes that are named; OVER is the detectors' to apply."""
    named = {key_of(name) for name in plan.reads}
    seen = [
        item
        for item in items
        if item.version.occ_time is not None
        and (
            classes[item.version.event_class].kind is not ClassKind.COMPLEX or key_of(item.version.event_class) in named
        )
    ]
    return sorted(seen, key=lambda item: (item.place, item.order))


def _by_name(classes: Mapping[str, EventClass], version: Version) -> dict[str, Value]:
    attributes = classes[version.event_class].attributes
    return {attribute.name: value for attribute, value in zip(attributes, version.values, strict=True)}


def _place_of_timer(seen: Sequence[Item], one: CompositeOccurrence) -> Place:
    """Before all that is detected at its time; but after what set it, and all completed there, if it was due then."""
    last = seen[max(one.constituents)]
    return (*last.place[:3], 1) if last.version.det_time == one.det_time else (one.det_time, 0, (), 0)


def _found(
    plan: ClassPlan, seen: Sequence[Item], place: Place, seq: int | None, one: Occurrence | CompositeOccurrence
) -> Found:
    """Numbers of the history at hand are replaced by those of the versions below."""
    stored = tuple(_stored(one.values.get(a.name), a.type) for a in plan.event_class.attributes)
    numbers = {number for part in one.constituents for number in seen[part].numbers}
    return Found(place, seq, one.occ_time, one.det_time, stored, tuple(sorted(numbers)))


def order_of(found: Found, event_class: EventClass) -> tuple[Any, ...]:
    """What occurrences at one place are sorted by: key, constituents, values, occ_time."""
    key = key_values(event_class, found.values)
    return ranks(key), found.constituents, ranks(found.values), found.occ_time


def _stored(value: Any, of: t.Type) -> Value:
    """A value as an attribute holds it; what does not fit is an error of that row, and NULL."""
    match of:
        case _ if value is None:
            return None
        case t.Double():
            return float(value)
        case t.Decimal():
            return round_half_up(Decimal(value), of)
        case t.Timestamp() if isinstance(value, date):
            return (value - EPOCH_DAY).days * DAY_US
        case t.Int() | t.BigInt():
            low, high = INTEGER_BOUNDS[of]
            return int(value) if low <= value <= high else None
        case t.String(length) if length is not None:
            return str(value) if len(value) <= length else None
        case _:
            stored: Value = value
            return stored


# ---- what they are made of ------------------------------------------------------------------------


@dataclass
class Origins:
    """Which event each version that was read belongs to, and whether that event has been there ever since."""

    begun: dict[EventId, int]
    events: dict[int, tuple[EventId, int]]

    def read(self, version: Version) -> None:
        """Note a version that was read; the event of a withdrawal is gone."""
        assert version.seq is not None
        if version.occ_time is None:
            self.begun.pop(version.event, None)
            return
        self.begun.setdefault(version.event, version.seq)
        self.events[version.seq] = (version.event, self.begun[version.event])

    def purged(self, event: EventId) -> None:
        """Note that an event is gone."""
        self.begun.pop(event, None)

    def event_of(self, seq: int) -> EventId | None:
        """The event of a version, if it was neither withdrawn nor purged since."""
        event, begun = self.events[seq]
        return event if self.begun.get(event) == begun else None


def made_of_versions(version: Version, origins: Origins) -> frozenset[EventId]:
    """The events whose versions are constituents of a MATCH or COMPOSITE event, as long as they are there."""
    return frozenset(event for seq in version.constituents if (event := origins.event_of(seq)) is not None)


def made_of_complex(
    version: Version, plan: ClassPlan, classes: Mapping[str, EventClass], live: Mapping[EventId, Version]
) -> frozenset[EventId]:
    """The complex events that a MATCH or COMPOSITE event counts as made of, when it takes place.

    The detectors do not say which complex events they used: all count that the class names and that are made of
    nothing but versions that it is made of, too.
    """
    own = set(version.constituents)
    named = {name for name in plan.reads if classes[name].kind is ClassKind.COMPLEX}
    return frozenset(
        event
        for event, other in live.items()
        if other.event_class in named and other.constituents and own.issuperset(other.constituents)
    )


def key_of_occurrence(event_class: EventClass, found: Found, number: int) -> Key:
    """The key; without one every occurrence is an event of its own, known by its number among all of its class."""
    return key_values(event_class, found.values) if event_class.key else (number,)

"""The COMPOSITEEVENT of a trigger: its occurrences, each at its place, and which classes trigger.

In: what happens, in order. Out: occurrences as the slow reference of COMPOSITE finds them, oldest first, with the
versions at their leaves. That a firing uses one up is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from augury.algebra import composite as c
from augury.algebra.expression import Primitive
from augury.algebra.rule import Trigger
from augury.event import ClassKind, key_of
from augury.kernels.reference.bitemporal.detecting import READ as READ_ORDER
from augury.kernels.reference.bitemporal.detecting import Item, Place
from augury.kernels.reference.bitemporal.version import Version
from augury.kernels.reference.composite import CompositeOccurrence, composite_occurrences
from augury.kernels.reference.history import Event
from augury.kernels.reference.triggers.happening import TIMED, Happening

Order = tuple[Place, tuple[Any, ...]]
"""Where something stands among all that happens."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence: where it takes place, the versions at its leaves in order, and the `seq` numbers below them."""

    order: Order
    is_timed: bool
    parts: tuple[Version, ...]
    constituents: tuple[int, ...]


def order_of(item: Item) -> Order:
    """Where a version stands."""
    return item.place, item.order


def occurrences_of(plan: c.CompositePlan, happened: Happening, since: int | None) -> list[Occurrence]:
    """All occurrences made of what happens from a time on, oldest first; of those at one place by constituents."""
    seen = _seen(plan, happened, since)
    events = [_event(number, item.version, happened) for number, item in enumerate(seen)]
    lifespans_us = {name: known.lifespan_us for name, known in happened.classes.items()}
    until, chronon_us = happened.until, happened.chronon_us
    found = composite_occurrences(plan, events, lifespans_us, until_us=until, chronon_us=chronon_us)
    made = [_occurrence(one, seen) for one in found]
    return sorted(made, key=lambda one: (one.order, one.constituents))


def _seen(plan: c.CompositePlan, happened: Happening, since: int | None) -> list[Item]:
    """Subscribed and clock classes, and the complex ones that are named; withdrawals are left out."""
    leaves = {key_of(node.event_class) for node in c.walk(plan.expression) if isinstance(node, Primitive)}
    named = leaves | {key_of(name) for name in plan.over or ()}
    return [
        item
        for item in happened.items
        if item.version.occ_time is not None
        and (since is None or item.place[0] >= since)
        and (
            happened.classes[item.version.event_class].kind is not ClassKind.COMPLEX
            or key_of(item.version.event_class) in named
        )
    ]


def _event(number: int, version: Version, happened: Happening) -> Event:
    attributes = happened.classes[version.event_class].attributes
    values = {attribute.name: value for attribute, value in zip(attributes, version.values, strict=True)}
    return Event(number, version.event_class, values, version.occ_time, version.det_time)


def _occurrence(one: CompositeOccurrence, seen: Sequence[Item]) -> Occurrence:
    items = [seen[number] for number in sorted({number for number, _ in one.leaves})]
    constituents = tuple(sorted({number for item in items for number in item.numbers}))
    parts = tuple(item.version for item in items)
    if one.seq is not None:
        return Occurrence(order_of(seen[one.seq]), False, parts, constituents)
    return Occurrence((_place_of_timer(one, items), (READ_ORDER,)), True, parts, constituents)


def _place_of_timer(one: CompositeOccurrence, items: Sequence[Item]) -> Place:
    """Before all that is detected at its time; right after what set it, if it was due already then."""
    last = items[-1]
    return (*last.place[:3], 1) if last.version.det_time == one.det_time else (one.det_time, TIMED, (), 0)


# ---- which classes trigger ------------------------------------------------------------------------


def triggering_classes(trigger: Trigger) -> frozenset[str]:
    """The classes of TRIGGEREVENT; without it those of the expression whose events can be constituents."""
    if trigger.events:
        return frozenset(map(key_of, trigger.events))
    assert trigger.composite is not None, "a trigger has events or an expression"
    return frozenset(map(key_of, constituent_classes(trigger.composite.expression)))


def constituent_classes(expression: c.Composite) -> set[str]:
    """The classes whose events can be constituents: not those that are absent, nor what only closes a window."""
    match expression:
        case Primitive(event_class=name):
            return {name}
        case c.Node(operator=c.CompositeOperator.NOT):
            return set()
        case c.NotBetween(opening=opening, closing=closing):
            parts: tuple[c.Composite, ...] = (opening, closing)
        case c.AbsentFor(opening=opening) | c.Periodic(opening=opening, gathered=False):
            parts = (opening,)
        case c.Aperiodic(opening=opening, middle=middle, gathered=False):
            parts = (opening, middle)
        case _:
            parts = c.children(expression)
    return set[str]().union(*map(constituent_classes, parts))

"""SELECT classes: from result rows to versions (LANGUAGE.md section 5).

In: the rows that a SELECT gives now, those it gave before, and the events that are there. Out: what is announced,
changed and withdrawn. How a SELECT is run is the caller's: it is a function from views and NOW to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from augury.algebra.scalar import Value
from augury.event import EventClass
from augury.kernels.reference.bitemporal.version import Change, EventId, Key, Version, key_values, ranks

View = Sequence[Version]
"""The current versions of a class, in the order of their keys."""


class SelectFailed(Exception):
    """A SELECT could not be evaluated at this tick; the message says why."""


@dataclass(frozen=True, slots=True)
class Made:
    """A result row: attribute values in declared order, its time, and the events joined or united to make it."""

    values: tuple[Value, ...]
    occ_time: int | None
    constituents: frozenset[EventId] = frozenset()


Select = Callable[[Mapping[str, View], int], Sequence[Made]]
"""A SELECT: from views by class name and NOW to rows; raises `SelectFailed`."""

Rows = Mapping[Key, Made]


def views_of(live: Mapping[EventId, Version], classes: Sequence[str]) -> dict[str, View]:
    """The as-of-now views of classes."""
    return {
        name: sorted((v for v in live.values() if v.event_class == name), key=lambda version: ranks(version.key))
        for name in classes
    }


def keyed(event_class: EventClass, rows: Sequence[Made]) -> tuple[dict[Key, Made], int]:
    """One row per key, and how many others there were, with rows that have no time.

    The least occ_time counts, then the least attributes; rows that are quite equal are one, made of all they are of.
    """
    found: dict[Key, Made] = {}
    timed = [row for row in rows if row.occ_time is not None]
    for row in sorted(timed, key=lambda row: (row.occ_time, ranks(row.values))):
        key = key_values(event_class, row.values) if event_class.key else (*row.values, row.occ_time)
        first = found.setdefault(key, row)
        if is_same(first, row):
            found[key] = replace(first, constituents=first.constituents | row.constituents)
    return found, len(rows) - len(found)


def is_same(one: Made | Version, other: Made | Version) -> bool:
    """Whether two rows have the same attributes and time."""
    return one.occ_time == other.occ_time and ranks(one.values) == ranks(other.values)


def differences(
    event_class: EventClass, rows: Rows, previous: Rows, live: Mapping[EventId, Version], tick: int
) -> list[Version]:
    """What the rows of a tick say that those before did not, in order of keys; without numbers of constituents."""
    found: list[Version] = []
    for key in sorted({*rows, *previous}, key=ranks):
        row, before = rows.get(key), previous.get(key)
        current = live.get((event_class.name, key))
        if row is None:
            if current is not None:
                found.append(_withdrawn(event_class, current, tick))
        elif (before is None or not is_same(row, before)) and (current is None or not is_same(row, current)):
            change = Change.ANNOUNCE if current is None else Change.CHANGE
            found.append(Version(event_class.name, key, row.values, row.occ_time, tick, change))
    return found


def _withdrawn(event_class: EventClass, current: Version, tick: int) -> Version:
    """A withdrawal names the key; other attributes are NULL. Without a key all attributes say which event it is."""
    keys = event_class.key or tuple(attribute.name for attribute in event_class.attributes)
    names = {name.casefold() for name in keys}
    values = tuple(
        value if attribute.name.casefold() in names else None
        for attribute, value in zip(event_class.attributes, current.values, strict=True)
    )
    return Version(event_class.name, current.key, values, None, tick, Change.WITHDRAW)

"""The rules of LANGUAGE section 1 row by row, as slowly and plainly as they are written; rows have typed values.

In: a program and rows as mappings in the order in which they come. Out: accepted versions in the order of the history,
the rows that were rejected, and how many were absorbed. Nothing here is shared with `augury.history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from augury import types as t
from augury.algebra.program import Program
from augury.event import ClassKind, EventClass


@dataclass(frozen=True)
class Version:
    """An accepted version; `occ_time` is None where it withdraws."""

    seq: int
    event_class: str
    occ_time: int | None
    det_time: int
    change: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Outcome:
    """Versions in order, the numbers of the rejected rows (from 1), and how many rows were absorbed."""

    versions: list[Version]
    rejected: list[int]
    absorbed: int


@dataclass(frozen=True)
class Row:
    """A row that is fine by itself."""

    number: int
    event_class: EventClass
    occ_time: int | None
    det_time: int
    values: tuple[Any, ...]
    event_id: str | None


def accept(program: Program, rows: Sequence[Mapping[str, Any]]) -> Outcome:
    """One row after the other, in the order of det_time and then as they came."""
    fine = {number: row for number, given in enumerate(rows, 1) if (row := _fine(program, number, given))}
    rejected = [number for number in range(1, len(rows) + 1) if number not in fine]
    versions: list[Version] = []
    absorbed = 0
    current: dict[tuple[str, tuple[Any, ...]], Version] = {}
    accepted: set[tuple[Any, ...]] = set()
    for row in sorted(fine.values(), key=lambda row: (row.det_time, row.number)):
        event_class = row.event_class
        mark = _mark(row)
        if mark is not None and mark in accepted:
            absorbed += 1
            continue
        key = _key(row)
        old = None if key is None else current.get((event_class.name, key))
        if old is not None and _purged(old, event_class, row.det_time, program.settings.chronon_us):
            old = None
        if (old is None and row.occ_time is None) or (old is not None and not event_class.mutable):
            rejected.append(row.number)
            continue
        change = "announce" if old is None else "withdraw" if row.occ_time is None else "change"
        version = Version(len(versions) + 1, event_class.name, row.occ_time, row.det_time, change, row.values)
        versions.append(version)
        if mark is not None:
            accepted.add(mark)
        if key is not None:
            current.pop((event_class.name, key), None)
            if row.occ_time is not None:
                current[event_class.name, key] = version
    return Outcome(versions, sorted(rejected), absorbed)


def _fine(program: Program, number: int, given: Mapping[str, Any]) -> Row | None:
    lower = {name.lower(): value for name, value in given.items()}
    plan = program.class_plan(str(lower.get("event")))
    if plan is None or plan.event_class.kind is not ClassKind.SUBSCRIBED:
        return None
    occ_time, det_time = lower.get("occ_time"), lower.get("det_time")
    if det_time is None:
        det_time = occ_time
    if det_time is None:
        return None
    if "occ_time" not in lower:
        occ_time = det_time
    values = []
    keys = {name.lower() for name in plan.event_class.key}
    for attribute in plan.event_class.attributes:
        value = lower.get(attribute.name.lower())
        if value is None and attribute.name.lower() in keys:
            return None
        if value is not None and not _fits(value, attribute.type):
            return None
        values.append(value)
    return Row(number, plan.event_class, occ_time, det_time, tuple(values), lower.get("event_id"))


def _fits(value: Any, of: t.Type) -> bool:
    match of:
        case t.Boolean():
            return isinstance(value, bool)
        case t.Int():
            return isinstance(value, int) and not isinstance(value, bool) and -(2**31) <= value < 2**31
        case t.Decimal(precision, scale):
            if isinstance(value, bool) or not isinstance(value, int | Decimal):
                return False
            scaled = Decimal(value) * 10**scale
            return bool(scaled == int(scaled) and abs(scaled) < 10**precision)
        case t.String(length):
            return isinstance(value, str) and (length is None or len(value) <= length)
        case _:
            raise AssertionError(f"no case has a {of}")


def _key(row: Row) -> tuple[Any, ...] | None:
    """None for a class with `ID ()`: each of its versions is an event of its own."""
    keys = {name.lower() for name in row.event_class.key}
    pairs = zip(row.event_class.attributes, row.values, strict=True)
    return tuple(value for attribute, value in pairs if attribute.name.lower() in keys) if keys else None


def _mark(row: Row) -> tuple[Any, ...] | None:
    """What duplicates share; None where a row has none."""
    if row.event_id is not None:
        return row.event_class.name, "id", row.event_id
    if not row.event_class.key:
        return None
    return row.event_class.name, "row", row.occ_time, row.det_time, row.values


def _purged(old: Version, event_class: EventClass, det_time: int, chronon_us: int) -> bool:
    tick = det_time // chronon_us * chronon_us
    assert old.occ_time is not None
    expires = None if event_class.lifespan_us is None else old.occ_time + event_class.lifespan_us
    return expires is not None and expires < tick and old.det_time < tick

"""Which versions went into a row of a SELECT that aggregates, has DISTINCT or looks at windows.

In: the record of a run, and a version of a SELECT class. Out: the versions that came in and stand below its row, or
None where that cannot be told. The engine keeps no such constituents, for they have no say in expiry: the SELECT is
asked again over the views as they were at the tick, this time for all that went in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from augury.algebra.select import SelectPlan
from augury.duck.select import Untranslatable, evaluated, translated
from augury.engine.ports import SelectFailed
from augury.engine.rows import Made, keyed
from augury.engine.selecting import row_keys
from augury.trying.simulate_record import Record, Version


def is_gathered(record: Record, select: SelectPlan) -> bool:
    """Whether rows are made of more than the engine notes, in the SELECT or in one that it reads."""
    below = (record.plan.classes[place].derivation for place in _places(record, select))
    return not select.traced or any(isinstance(one, SelectPlan) and is_gathered(record, one) for one in below)


def gathered(record: Record, version: Version) -> tuple[int, ...] | None:
    """The `seq` of every version that came in and went into the row of a version; None where it cannot be told."""
    found = _Asking(record).below(version)
    return None if found is None else tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a SELECT gave at a tick: where each key stands, what rows are made of, the live versions of each view."""

    rows: Mapping[Any, int]
    made: Made
    live: tuple[tuple[Version, ...], ...]


@dataclass(slots=True)
class _Asking:
    record: Record

    def below(self, version: Version) -> set[int] | None:
        """What came in below a version."""
        if version.constituents is None:
            return set() if version.seq is None else {version.seq}
        derivation = self.record.plan.classes[version.place].derivation
        if not isinstance(derivation, SelectPlan) or not is_gathered(self.record, derivation):
            return set(version.constituents)
        asked = self.asked(version.place, derivation, version.tick)
        if asked is None or version.key not in asked.rows:
            return None
        found: set[int] = set()
        for view, row in asked.made.of(asked.rows[version.key]):
            more = self.below(asked.live[view][row])
            if more is None:
                return None
            found |= more
        return found

    def asked(self, place: int, select: SelectPlan, tick: int) -> _Asked | None:
        """The SELECT asked again; None where it cannot be traced, or fails."""
        known: dict[tuple[int, int], _Asked | None] = self.record.asked
        if (place, tick) not in known:
            known[place, tick] = self._ask(place, select, tick)
        return known[place, tick]

    def _ask(self, place: int, select: SelectPlan, tick: int) -> _Asked | None:
        classes = [plan.event_class for plan in self.record.plan.classes]
        views = [self.record.live(read, tick) for read in _places(self.record, select)]
        tables = dict(
            zip((classes[read].name for read in _places(self.record, select)), map(_table, views), strict=True)
        )
        try:
            rows = evaluated(translated(select, classes, gathers=True), tables, tick)
        except (Untranslatable, SelectFailed):
            return None
        found = keyed(rows, classes[place]).rows
        assert found.made is not None, "it was asked for"
        keys = {key: number for number, key in enumerate(row_keys(classes[place], found))}
        return _Asked(keys, found.made, tuple(tuple(versions) for versions, _ in views))


def _places(record: Record, select: SelectPlan) -> list[int]:
    places = map(record.place_of, select.reads)
    return [place for place in places if place is not None]


def _table(view: tuple[list[Version], pa.Table]) -> pa.Table:
    """A view as SELECTs read it: attributes, occ_time, det_time."""
    versions, values = view
    times = {
        "occ_time": pa.array([one.occ_time for one in versions], pa.timestamp("us")),
        "det_time": pa.array([one.det_time for one in versions], pa.timestamp("us")),
    }
    return pa.table(dict(zip(values.column_names, values.columns, strict=True)) | times)

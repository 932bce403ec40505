"""What ticks did, kept whole, so that it can be asked about afterwards.

In: an engine's plan, and each `Ticked` in turn. Out: every version as a plain value, the versions of each event, what
fired and what left, and the history that a MATCH or COMPOSITE class has read so far. It works nothing out itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury import types as t
from augury.algebra.scalar import Constant
from augury.algebra.select import SelectPlan
from augury.clock import show_duration, show_time
from augury.engine.actions import key_fields
from augury.engine.plan import EnginePlan
from augury.engine.reading import read_again
from augury.engine.tables import nothing
from augury.engine.ticked import ClassVersions, Ticked
from augury.event import EventClass, key_of
from augury.history.merge import merge
from augury.history.versions import WITHDRAWN
from augury.kernels.batch import ASSERT, WITHDRAW, Batch, Occurrences
from augury.kernels.match.past import plain
from augury.kernels.told import value_text

CHANGES: Final = ("announce", "change", "withdraw")

SELECTED: Final = 1 << 62
"""From this number on events of SELECT classes have a `seq` of their own in a history, as the engine has it."""

EventKey = tuple[int, Any]
"""The place of a class, and what the engine knows an event of it by."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of an event; `seq` is None where it has none, `occ_time` where it withdraws the event.

    `number` counts the versions of its class. `key` is what the engine knows the event by, `fields` the same by
    attribute. `values` are as `algebra.scalar.Constant` has them, with their types.
    """

    place: int
    event_class: EventClass
    key: Any
    number: int
    tick: int
    change: str
    seq: int | None
    occ_time: int | None
    det_time: int
    values: Mapping[str, Constant]
    fields: Mapping[str, Any]
    constituents: tuple[int, ...] | None = None
    source_time: int | None = None

    @property
    def is_withdrawal(self) -> bool:
        """Whether it withdraws its event."""
        return self.occ_time is None

    @property
    def event_key(self) -> EventKey:
        """The event that it is a version of."""
        return self.place, self.key

    @property
    def text(self) -> str:
        """The event as people read it."""
        named = {key_of(name) for name in self.event_class.key}
        shown = [value for name, value in self.values.items() if not self.is_withdrawal or key_of(name) in named]
        return event_text(self.event_class.name, shown)


def event_text(name: str, values: Iterable[Constant]) -> str:
    """An event as people read it."""
    shown = ", ".join(map(shown_value, values))
    return f"{name}({shown})" if shown else name


def shown_value(constant: Constant) -> str:
    """A value as people read it, without the zeros that a NUMERIC is filled up with."""
    text = value_text(constant)
    return text.rstrip("0").rstrip(".") if isinstance(constant.value, Decimal) and "." in text else text


def plain_value(constant: Constant) -> Any:
    """A value as JSON has it: times and durations as texts."""
    match constant.value, constant.type:
        case int(microseconds), t.Timestamp() if not isinstance(microseconds, bool):
            return show_time(microseconds)
        case int(microseconds), t.Duration() if not isinstance(microseconds, bool):
            return show_duration(microseconds)
        case Decimal() as number, _:
            return number.normalize() if number.is_finite() else str(number)
        case value, _:
            return value


@dataclass(frozen=True, slots=True)
class Firing:
    """That a statement fired for an event at a tick; statements count from 0."""

    tick: int
    statement: int
    action: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What a tick read, by `seq`, derived and purged, as versions."""

    read: list[Version]
    derived: list[Version]
    purged: list[Version]


@dataclass(slots=True)
class Record:
    """Everything so far. `of_event` has the versions of each event in order, `left` the ticks that purged it."""

    plan: EnginePlan
    versions: dict[int, list[Version]] = field(default_factory=dict)
    of_event: dict[EventKey, list[Version]] = field(default_factory=dict)
    left: dict[EventKey, list[int]] = field(default_factory=dict)
    fired: dict[EventKey, list[Firing]] = field(default_factory=dict)
    received: dict[int, Version] = field(default_factory=dict)
    ticks: list[int] = field(default_factory=list)
    asked: dict[tuple[int, int], Any] = field(default_factory=dict)
    """What SELECTs said when asked again, by class and tick: `why_gathered` keeps it here."""
    _done: list[Ticked] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)
    _histories: dict[tuple[int, ...], tuple[int, Batch]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note where classes stand."""
        self._places = {key_of(plan.event_class.name): place for place, plan in enumerate(self.plan.classes)}

    def place_of(self, name: str) -> int | None:
        """Where a class stands in the program."""
        return self._places.get(key_of(name))

    def note(self, ticked: Ticked) -> Noted:
        """Keep what a tick did; gives its versions."""
        self._done.append(ticked)
        self.ticks.append(ticked.tick)
        read = [one for versions in ticked.read for one in self._made(versions, ticked.tick)]
        derived = [one for versions in ticked.derived for one in self._made(versions, ticked.tick)]
        purged = [one for versions in ticked.purged for one in self._made(versions, ticked.tick)]
        for one in (*read, *derived):
            self.versions.setdefault(one.place, []).append(one)
            self.of_event.setdefault(one.event_key, []).append(one)
        self.received.update({one.seq: one for one in read if one.seq is not None})
        for one in purged:
            self.left.setdefault(one.event_key, []).append(ticked.tick)
        for actions in ticked.actions:
            place = self._places[key_of(actions.event_class.name)]
            for key, statement, name, _ in actions.fired.rows():
                self.fired.setdefault((place, key), []).append(Firing(ticked.tick, statement, name))
        read.sort(key=lambda one: one.seq or 0)
        return Noted(read, derived, purged)

    def _made(self, versions: ClassVersions, tick: int) -> list[Version]:
        event_class = versions.event_class
        place = self._places[key_of(event_class.name)]
        columns = [[plain(value) for value in column] for column in versions.values.columns]
        lists = None if versions.constituents is None else versions.constituents.to_pylist()
        claimed = None if versions.source_time is None else versions.source_time.to_pylist()
        found = []
        for row in range(len(versions)):
            gone = int(versions.change[row]) == WITHDRAWN
            seq = int(versions.seq[row])
            found.append(
                Version(
                    place,
                    event_class,
                    versions.keys[row],
                    int(versions.number[row]),
                    tick,
                    CHANGES[int(versions.change[row])],
                    seq if seq > 0 else None,
                    None if gone else int(versions.occ_time[row]),
                    int(versions.det_time[row]),
                    {
                        a.name: Constant(column[row], a.type)
                        for a, column in zip(event_class.attributes, columns, strict=True)
                    },
                    key_fields(event_class, versions.keys[row]),
                    None if lists is None else tuple(lists[row]),
                    None if claimed is None else claimed[row],
                )
            )
        return found

    def live(self, place: int, tick: int) -> tuple[list[Version], pa.Table]:
        """The versions of a class that SELECTs see at a tick, and their attributes, row by row."""
        found = [
            next((one for one in reversed(versions) if one.tick <= tick), None)
            for event, versions in self.of_event.items()
            if event[0] == place
        ]
        there = [one for one in found if one is not None and not one.is_withdrawal and not self._is_purged(one, tick)]
        rows = {id(one): row for row, one in enumerate(self.versions.get(place, ()))}
        tables = [
            one.values
            for ticked in self._done
            for one in (*ticked.read, *ticked.derived)
            if self._places[key_of(one.event_class.name)] == place
        ]
        values = pa.concat_tables(tables) if tables else nothing(self.plan.classes[place].event_class)
        return there, values.take([rows[id(one)] for one in there]) if values.num_columns else values

    def _is_purged(self, version: Version, tick: int) -> bool:
        """Whether an event had left before a tick; what a tick purges is seen by its SELECTs."""
        return any(version.tick <= purged < tick for purged in self.left.get(version.event_key, ()))

    # ---- histories -----------------------------------------------------------------------------

    def history(self, reads: tuple[int, ...]) -> Batch:
        """The history so far of a class that reads these complex classes: tick by tick, as the engine has it."""
        known = self._histories.get(reads)
        if known is None or known[0] != len(self._done):
            begun = [] if known is None else [known[1]]
            begin = 0 if known is None else known[0]
            parts = [*begun, *(self._of_tick(ticked, reads) for ticked in self._done[begin:])]
            self._histories[reads] = len(self._done), _joined(parts, self._nothing(reads))
        return self._histories[reads][1]

    def _of_tick(self, ticked: Ticked, reads: tuple[int, ...]) -> Batch:
        versions = {self._places[key_of(one.event_class.name)]: one for one in ticked.read}
        batch = read_again(self.plan, versions).batch
        derived = {self._places[key_of(one.event_class.name)]: one for one in ticked.derived}
        found = [self._occurrences(place, derived.get(place)) for place in reads]
        selected = {i for i, place in enumerate(reads) if self._is_selected(place)}
        return merge(batch, found, selected)

    def _nothing(self, reads: tuple[int, ...]) -> Batch:
        return merge(read_again(self.plan, {}).batch, [self._occurrences(place, None) for place in reads])

    def _is_selected(self, place: int) -> bool:
        return isinstance(self.plan.classes[place].derivation, SelectPlan)

    def numbered_history(self, reads: tuple[int, ...]) -> Batch:
        """The same, with numbers for what the clock completed, as events of SELECT classes have them anyway.

        So that somebody can ask about such an event, which is not one that others know it by.
        """
        batch = self.history(reads)
        seq = batch.seq.copy()
        places = [self._places[key_of(event_class.name)] for event_class in batch.classes]
        for at in np.flatnonzero(seq <= 0).tolist():
            place = places[int(batch.code[at])]
            seq[at] = _selected_seq(place, self.versions[place][int(batch.row[at])].number)
        return replace(batch, seq=seq)

    def number_of(self, version: Version) -> int:
        """The number that a version has in such a history."""
        return version.seq if version.seq is not None else int(_selected_seq(version.place, version.number))

    def history_seq(self, version: Version) -> int | None:
        """The number that a version has in histories; None for what the clock completed."""
        if version.seq is None and self._is_selected(version.place):
            return int(_selected_seq(version.place, version.number))
        return version.seq

    def readable(self, sentence: str) -> str:
        """A sentence in which events without a `seq` are named by themselves, not by their number in histories."""
        return re.sub(r"\d{19}", lambda found: self._named(int(found[0])), sentence)

    def _named(self, seq: int) -> str:
        place, number = divmod(seq - SELECTED, 1 << 40)
        found = [one.text for one in self.versions.get(place, ()) if one.number == number]
        return found[0] if found else str(seq)

    def _occurrences(self, place: int, versions: ClassVersions | None) -> Occurrences:
        event_class, none = self.plan.classes[place].event_class, np.zeros(0, np.int64)
        if versions is None:
            lists = pa.array([], pa.list_(pa.int64()))
            return Occurrences.first(event_class, none, none, none, nothing(event_class), lists)
        seq = versions.seq
        if self._is_selected(place):
            # A number of its own for each, over all ticks: what takes place at one stands there and nowhere else.
            seq = _selected_seq(place, versions.number)
        kind = np.where(versions.change == WITHDRAWN, WITHDRAW, ASSERT).astype(np.uint8)
        assert versions.constituents is not None, "it is a complex class"
        return Occurrences(
            event_class, seq, versions.occ_time, versions.det_time, kind, versions.values, versions.constituents
        )


def _selected_seq(place: int, number: Any) -> Any:
    return SELECTED + (place << 40) + number


def _joined(parts: Sequence[Batch], none: Batch) -> Batch:
    """Batches that follow each other as one."""
    parts = [part for part in parts if len(part)] or [none]
    if len(parts) == 1:
        return parts[0]
    tables, lists, begins = [], [], []
    for code in range(len(none.classes)):
        of_class = [part.tables[code] for part in parts]
        begins.append(np.cumsum([0, *(_length(part, code) for part in parts)]))
        tables.append(pa.concat_tables(of_class) if of_class[0].num_columns else of_class[0])
        found = [part.constituents[code] for part in parts]
        lists.append(None if found[0] is None else pa.concat_arrays([_whole(one) for one in found if one is not None]))
    rows = [
        part.row + np.array([begin[number] for begin in begins], np.int64)[part.code]
        for number, part in enumerate(parts)
    ]
    return Batch(
        none.classes,
        np.concatenate([part.code for part in parts]),
        np.concatenate(rows),
        np.concatenate([part.seq for part in parts]),
        np.concatenate([part.occ_time for part in parts]),
        np.concatenate([part.det_time for part in parts]),
        np.concatenate([part.kind for part in parts]),
        tuple(tables),
        tuple(lists),
    )


def _length(part: Batch, code: int) -> int:
    """How many rows the table of a class has: without columns a table does not know, its lists or rows do."""
    if part.tables[code].num_columns:
        return int(part.tables[code].num_rows)
    lists = part.constituents[code]
    own = part.row[part.code == code]
    return len(lists) if lists is not None else int(own.max(initial=-1)) + 1


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column

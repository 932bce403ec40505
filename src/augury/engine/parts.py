"""What a SELECT class remembers from tick to tick, so that only what was touched is derived again.

In: what becomes of the events it reads, and the passing of time. Out: which events to look at, and the rows given for
them before. A SELECT that falls apart by key is looked at value by value: `Touched` knows the values that have news, an
index per view the events of each value, `Given` the rows. One that does not is looked at as a whole. Where comparisons
with NOW turn is known in advance, so ticks at which none does need no look. It runs no SELECT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from augury.engine.plan import SelectUnit
from augury.engine.rows import Rows, whole
from augury.event import EventClass
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import NEVER, Due, LiveView, live_slots
from augury.kernels.bitemporal.cells import Cells, cells_of, grown, key_values
from augury.kernels.columns import arrow_type

_ROOM_MIN = 64


def values_of(columns: Sequence[pa.Array]) -> list[Any]:
    """The value of each row by which a SELECT falls apart: equal where values are, NULL among them."""
    found = [key_values(column) for column in columns]
    return found[0] if len(found) == 1 else list(zip(*found, strict=True))


@dataclass(slots=True)
class Index:
    """The live events of a view by the value of some columns."""

    columns: tuple[str, ...]
    slots: dict[Any, set[int]] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)

    def leave(self, slots: Iterable[int]) -> set[Any]:
        """Events have left; gives their values."""
        touched = set()
        for slot in slots:
            if slot in self.values:
                value = self.values.pop(slot)
                touched.add(value)
                there = self.slots[value]
                there.discard(slot)
                if not there:
                    del self.slots[value]
        return touched

    def enter(self, view: LiveView, slots: Integers) -> set[Any]:
        """Events came or changed; gives the values they had and have."""
        touched = set()
        fresh = values_of([view.cells[name].at(slots) for name in self.columns])
        for slot, value in zip(slots.tolist(), fresh, strict=True):
            touched.add(value)
            old = self.values.get(slot, _NONE)
            if old is not _NONE:
                if old == value:
                    continue
                touched |= self.leave((slot,))
            self.values[slot] = value
            self.slots.setdefault(value, set()).add(slot)
        return touched


_NONE: Any = object()


@dataclass(slots=True)
class Given:
    """The rows that a SELECT gave, each in a slot of its own, by the value they belong to."""

    attributes: tuple[str, ...]
    cells: dict[str, Cells]
    occ_time: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    of_value: dict[Any, list[int]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    used: int = 0

    def before(self, values: Iterable[Any]) -> Rows:
        """The rows of some values."""
        slots = np.array([slot for value in values for slot in self.of_value.get(value, ())], np.int64)
        return self._rows(slots)

    def all(self) -> Rows:
        """Every row."""
        return self.before(self.of_value)

    def _rows(self, slots: Integers) -> Rows:
        table = pa.table({name: cells.at(slots) for name, cells in self.cells.items()})
        return Rows(table, pa.array(self.occ_time[slots]))

    def put(self, values: Iterable[Any], rows: Rows) -> None:
        """These are the rows of these values now."""
        for value in values:
            self.free += self.of_value.pop(value, ())
        if not len(rows):
            return
        slots = self._room(len(rows))
        columns = {name: whole(rows.attributes.column(name)) for name in self.cells}
        for name, column in columns.items():
            self.cells[name].put(slots, column)
        self.occ_time[slots] = rows.occ_time.to_numpy(zero_copy_only=False)
        for slot, value in zip(slots.tolist(), values_of([columns[name] for name in self.attributes]), strict=True):
            self.of_value.setdefault(value, []).append(slot)

    def _room(self, count: int) -> Integers:
        again = [self.free.pop() for _ in range(min(count, len(self.free)))]
        end = self.used + count - len(again)
        if end > len(self.occ_time):
            capacity = max(_ROOM_MIN, 2 * end)
            self.occ_time = grown(self.occ_time, capacity)
            for cells in self.cells.values():
                cells.grow(capacity)
        slots = np.concatenate([np.array(again, np.int64), np.arange(self.used, end)])
        self.used = end
        return slots


@dataclass(slots=True)
class SelectState:
    """What a SELECT class remembers.

    By key: `given`, an `indexes` entry per view, and the values `touched` since it was last evaluated. As a whole: the
    `rows` it gave, None before the first, and whether anything was `touched`. `due` has for each turn when it comes.
    Of one that could be evaluated, but fails elsewhere, what it gave is held up to the tick `held_until`; if anything
    becomes of it before, it has to be looked at again.
    """

    given: Given | None
    indexes: dict[int, Index]
    due: list[Due]
    rows: Rows | None = None
    touched: set[Any] = field(default_factory=set)
    is_touched: bool = True
    held_until: int = 0

    def news(self, unit: SelectUnit, place: int, view: LiveView, slots: Integers, gone: Integers, tick: int) -> None:
        """Events of a view it reads came or changed, or have left."""
        self._looks_again()
        if self.given is not None:
            index = self.indexes[place]
            self.touched |= index.leave(gone.tolist())
            self.touched |= index.enter(view, slots)
        self._enter_turns(unit, place, view, slots, tick)

    def _looks_again(self) -> None:
        self.is_touched, self.held_until = True, 0

    def _enter_turns(self, unit: SelectUnit, place: int, view: LiveView, slots: Integers, tick: int) -> None:
        for turn, due in zip(unit.turns or (), self.due, strict=True):
            if turn.place != place or not len(slots):
                continue
            time, there = _times(view, turn.column, slots)
            time = time + turn.offset_us
            chronon_us = unit.chronon_us
            # At the first tick not before that time, and at the first after it.
            for at in {
                "at": -(-time // chronon_us) * chronon_us,
                "after": (time // chronon_us + 1) * chronon_us,
            }.values():
                later = np.where(there & (at > tick), at, NEVER)
                due.add(later, slots, view.number[slots], view.number)

    def turned(self, unit: SelectUnit, views: Sequence[LiveView], tick: int) -> None:
        """Note the events for which a comparison with NOW has turned by this tick."""
        if unit.turns is None:
            self._looks_again()
            for index in self.indexes.values():
                self.touched.update(index.slots)
            return
        for turn, due in zip(unit.turns, self.due, strict=True):
            found = due.pop(tick, views[turn.place].number).slot
            if len(found):
                self._looks_again()
                if self.given is not None:
                    values = self.indexes[turn.place].values
                    self.touched.update(values[slot] for slot in found.tolist())

    def next_due(self, unit: SelectUnit, tick: int) -> int:
        """The next tick at which it has to be looked at if nothing comes."""
        if unit.turns is None:
            return tick + unit.chronon_us
        return min((due.next_due() for due in self.due), default=NEVER)

    def has_news(self) -> bool:
        """Whether it has to be looked at now."""
        return bool(self.touched) if self.given is not None else self.is_touched

    def slots_of(self, place: int) -> Integers | None:
        """The events of a view to look at; None for all."""
        if self.given is None:
            return None
        slots = self.indexes[place].slots
        return np.array(sorted(slot for value in self.touched for slot in slots.get(value, ())), np.int64)

    def before(self) -> Rows | None:
        """The rows given before for what is looked at; None if there never were any."""
        return self.rows if self.given is None else self.given.before(self.touched)

    def put(self, rows: Rows) -> None:
        """These are the rows now of what was looked at; nothing of it is news any more."""
        if self.given is None:
            self.rows = rows
        else:
            self.given.put(self.touched, rows)
        self.touched, self.is_touched, self.held_until = set(), False, 0

    def all_rows(self) -> Rows | None:
        """Every row it gave, to be kept."""
        return self.rows if self.given is None else self.given.all()


def _times(view: LiveView, column: str, slots: Integers) -> tuple[Integers, Any]:
    """A time of events, and where there is one."""
    if column in ("occ_time", "det_time"):
        name = "occ" if column == "occ_time" else "det"
        return view.times[name][slots], np.ones(len(slots), np.bool_)
    cells = view.cells[column]
    return cells.values[slots].astype(np.int64), ~cells.absent[slots]


def select_state(unit: SelectUnit, event_class: EventClass) -> SelectState:
    """Before the first tick."""
    given = None
    if unit.parts is not None:
        cells = {a.name: cells_of(arrow_type(a.type)) for a in event_class.attributes}
        given = Given(unit.part_attributes, cells)
    indexes = {place: Index(columns) for place, columns in unit.parts or ()}
    return SelectState(given, indexes, [Due() for _ in unit.turns or ()])


def restored(
    unit: SelectUnit, event_class: EventClass, rows: Rows | None, views: Sequence[LiveView], tick: int, failing: bool
) -> SelectState:
    """The state again, from the rows that were given and the live views."""
    state = select_state(unit, event_class)
    none = np.zeros(0, np.int64)
    for place in unit.reads:
        state.news(unit, place, views[place], live_slots(views[place]), none, tick)
    if not failing:
        state.touched, state.is_touched = set(), False
    if rows is not None:
        if state.given is None:
            state.rows = rows
        else:
            state.given.put((), rows)
            if failing:
                # What has left since it failed is news, too, and only the rows still tell of it.
                state.touched |= set(state.given.of_value)
    elif state.given is None:
        state.is_touched = True
    return state

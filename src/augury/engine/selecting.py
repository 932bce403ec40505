"""SELECT classes inside a tick: rows now, rows before and what is live → versions, and what events are made of.

In: the live views and a port that runs SELECTs. Out: announcements, changes and withdrawals. How SQL is run is not
known here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from augury.engine.actions import key_ranks
from augury.engine.detecting import constituents, constituents_of
from augury.engine.parts import SelectState
from augury.engine.plan import EnginePlan, SelectUnit
from augury.engine.ports import Selects
from augury.engine.rows import Rows, changes, keyed, whole
from augury.engine.state import EngineState
from augury.engine.tables import nothing, table_of
from augury.engine.ticked import ClassVersions
from augury.engine.traces import Node
from augury.event import EventClass, key_of
from augury.history.versions import ANNOUNCE, CHANGE, WITHDRAWN
from augury.kernels.batch import AT_END, Integers
from augury.kernels.bitemporal import as_of_now, keys_of, live_slots
from augury.kernels.bitemporal.cells import key_values


@dataclass(slots=True)
class Views:
    """The live views as tables, each made once as long as it does not change."""

    state: EngineState
    made: dict[int, pa.Table] = field(default_factory=dict)

    def table(self, place: int, slots: Integers | None) -> pa.Table:
        """Attributes, occ_time, det_time and the slot of each event, of all or of some."""
        if slots is not None:
            return self._table(place, slots)
        if place not in self.made:
            self.made[place] = self._table(place, live_slots(self.state.classes[place].view))
        return self.made[place]

    def _table(self, place: int, slots: Integers) -> pa.Table:
        table = as_of_now(self.state.classes[place].view, slots)
        return table.drop_columns(["seq"]).append_column("slot", pa.array(slots))

    def changed(self, place: int) -> None:
        """Events of a class came, changed or left."""
        self.made.pop(place, None)


@dataclass(frozen=True, slots=True)
class Selected:
    """The rows of a SELECT at a tick, one a key, and how many did not count."""

    rows: Rows
    keys: list[Any]
    uncounted: int


def select(
    plan: EnginePlan, unit: SelectUnit, remembered: SelectState, views: Views, selects: Selects, tick: int
) -> Selected:
    """Evaluate a SELECT over what was touched; raises `SelectFailed`."""
    class_plan = plan.classes[unit.place]
    tables = {
        plan.classes[place].event_class.name: views.table(place, remembered.slots_of(place)) for place in unit.reads
    }
    found = keyed(selects.rows(class_plan, tables, tick), class_plan.event_class)
    keys = row_keys(class_plan.event_class, found.rows)
    return Selected(found.rows, keys, found.surplus + found.timeless)


def row_keys(event_class: EventClass, rows: Rows) -> list[Any]:
    """What events are known by: the key; with `ID ()` all attributes and the time."""
    columns = [whole(column) for column in rows.attributes.columns]
    if event_class.key:
        return keys_of(event_class, columns, np.zeros(len(rows), np.int64))
    return list(zip(*(key_values(column) for column in columns), rows.occ_time.to_pylist(), strict=True))


def no_rows(event_class: EventClass) -> Rows:
    """What a SELECT gave before it was ever evaluated."""
    return Rows(nothing(event_class), pa.array([], pa.int64()))


def differences(
    plan: EnginePlan, state: EngineState, unit: SelectUnit, before: Rows, now: Selected, tick: int
) -> ClassVersions | None:
    """What the rows of a tick say that those before did not, in order of keys; None if that is nothing."""
    event_class = plan.classes[unit.place].event_class
    found = changes(before, now.rows, event_class)
    said = np.sort(np.concatenate([found.announced, found.changed]))
    view = state.classes[unit.place].view
    slots = np.array([view.slots.get(now.keys[row], -1) for row in said.tolist()], np.int64)
    fresh = ~_already(state, unit.place, now.rows, said, slots)
    said, slots = said[fresh], slots[fresh]
    before_keys = row_keys(event_class, before.taken(found.withdrawn)) if len(found.withdrawn) else []
    gone = [key for key in before_keys if key in view.slots]
    if not len(said) and not gone:
        return None
    gone_at = np.array([view.slots[key] for key in gone], np.int64)
    columns = [
        pa.concat_arrays(
            [whole(now.rows.attributes.column(i).take(pa.array(said))), _kept(event_class, i, view, gone_at)]
        )
        for i in range(len(event_class.attributes))
    ]
    lists = [_numbers(state, unit, now.rows, row) for row in said.tolist()] + [[] for _ in gone]
    occ_time = now.rows.occ_time.to_numpy(zero_copy_only=False)[said].astype(np.int64)
    change = np.where(slots < 0, ANNOUNCE, CHANGE)
    keys = [now.keys[row] for row in said.tolist()] + gone
    order = _by_key(event_class, keys)
    count = len(keys)
    rows = ClassVersions(
        event_class,
        np.zeros(count, np.int64),
        table_of(event_class, columns),
        np.full(count, AT_END),
        np.concatenate([occ_time, np.zeros(len(gone), np.int64)]),
        np.full(count, tick),
        np.concatenate([change, np.full(len(gone), WITHDRAWN)]).astype(np.uint8),
        keys,
        pa.array(lists, pa.list_(pa.int64())),
    )
    ordered = rows.at(order)
    number = np.arange(view.read + 1, view.read + 1 + count)
    event_number = None
    if not event_class.key:
        announced = np.concatenate([np.zeros(len(said), np.int64), view.number[gone_at] + 1])[order]
        event_number = np.where(ordered.change == WITHDRAWN, announced, number)
    return replace(ordered, number=number, event_number=event_number)


def _by_key(event_class: EventClass, keys: list[Any]) -> Integers:
    ranks = [*map(key_ranks(event_class), keys)]
    return np.array(sorted(range(len(keys)), key=ranks.__getitem__), np.int64)


def _already(state: EngineState, place: int, rows: Rows, said: Integers, slots: Integers) -> np.ndarray:
    """Which of the rows their live event is like already, in all attributes and its time."""
    view, there = state.classes[place].view, slots >= 0
    same = there.copy()
    if not there.any():
        return same
    at = slots[there]
    chosen = rows.taken(said[there])
    like = view.times["occ"][at] == chosen.occ_time.to_numpy(zero_copy_only=False)
    for column, cells in zip(chosen.attributes.columns, view.cells.values(), strict=True):
        pairs = zip(key_values(whole(column)), key_values(cells.at(at)), strict=True)
        like &= np.fromiter((one == other for one, other in pairs), np.bool_, len(at))
    same[there] = like
    return same


def _kept(event_class: EventClass, column: int, view: Any, slots: Integers) -> pa.Array:
    """An attribute of events that are withdrawn: the key, or without one everything; else NULL."""
    attribute = event_class.attributes[column]
    named = {key_of(name) for name in event_class.key}
    cells = view.cells[attribute.name]
    if named and key_of(attribute.name) not in named:
        return pa.nulls(len(slots), cells.kind)
    return cells.at(slots)


def _nodes(unit: SelectUnit, rows: Rows, row: int) -> list[Node]:
    """The live events that a row is made of."""
    return [] if rows.made is None else [(unit.reads[view], slot) for view, slot in rows.made.of(row)]


def _numbers(state: EngineState, unit: SelectUnit, rows: Rows, row: int) -> list[int]:
    """The `seq` of every version that came in below a row."""
    found: set[int] = set()
    for node in _nodes(unit, rows, row):
        found |= constituents_of(state, node)
    return sorted(found)


def link_selected(state: EngineState, unit: SelectUnit, now: Selected) -> None:
    """Note what events are made of: those that are there and are as their row says."""
    if now.rows.made is None or not len(now.rows):
        return
    view = state.classes[unit.place].view
    rows = np.arange(len(now.rows))
    slots = np.array([view.slots.get(key, -1) for key in now.keys], np.int64)
    there = _already(state, unit.place, now.rows, rows, slots)
    owner: list[int] = []
    nodes: list[Node] = []
    for number, row in enumerate(rows[there].tolist()):
        made_of = _nodes(unit, now.rows, row)
        nodes += made_of
        owner += [number] * len(made_of)
    state.expiry.link(unit.place, slots[there], constituents(owner, nodes))

"""The as-of-now view of a class: a slot per live event, and what a tick does to it.

In: the versions that a tick reads, in the order of the history and accepted already. Out: a `Sight`: for each event
touched NEW, OLD and what conditions ask of both. Keys are looked up in a dictionary and everything else goes by slots,
so a tick costs what it changes, however many events are live. A slot that is left is used again only from the next
reading on: conditions may still ask about the event that was withdrawn. It knows neither expressions nor timers.

Of several versions of one event the last counts; the others are only in the history, so OLD is what was current
before the tick, and an event withdrawn and announced again within a chronon has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass, key_of
from augury.kernels.batch import WITHDRAW, Batch, Integers
from augury.kernels.bitemporal.cells import Cells, cells_of, grown, key_values
from augury.kernels.bitemporal.primitives import Facts
from augury.kernels.bitemporal.watch import Watch
from augury.kernels.columns import arrow_type
from augury.kernels.columns.column import Mask

NO_VERSION: Final = -1
"""The number of the version in a slot that no live event has."""

NOT_FIRED: Final = 2**63 - 1
"""Later than every tick: the action has not fired."""

Keys = npt.NDArray[np.object_]

_ROOM_MIN: Final = 64


@dataclass(frozen=True, slots=True)
class Versions:
    """Accepted versions of one class in the order of the history; `values` has a column per attribute.

    `keys` are Python values that are equal for versions of one event. `number` has for each how many versions of the
    class there were before it; None: they are counted on.
    """

    values: tuple[pa.Array, ...]
    occ_time: Integers
    det_time: Integers
    seq: Integers
    withdrawn: Mask
    keys: list[Any]
    number: Integers | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self.seq)


def keys_of(event_class: EventClass, values: Sequence[pa.Array], seq: Integers) -> list[Any]:
    """The keys of versions, in the order of the ID; with `ID ()` the `seq`, so that each is an event of its own."""
    if not event_class.key:
        return list(seq.tolist())
    places = {key_of(attribute.name): place for place, attribute in enumerate(event_class.attributes)}
    columns = [key_values(values[places[key_of(name)]]) for name in event_class.key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def versions_of(batch: Batch, code: int) -> Versions:
    """The versions of one class in a batch."""
    at = np.flatnonzero(batch.code == code)
    rows = pa.array(batch.row[at])
    values = tuple(_one_chunk(column.take(rows)) for column in batch.tables[code].columns)
    keys = keys_of(batch.classes[code], values, batch.seq[at])
    withdrawn: Mask = batch.kind[at] == WITHDRAW
    return Versions(values, batch.occ_time[at], batch.det_time[at], batch.seq[at], withdrawn, keys)


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True, slots=True)
class Sight:
    """The events that conditions look at, a row each, in the order of their NEW versions.

    `number` counts the versions of the class in the order of reading. `new` and `old` have columns by attribute; times
    are in `facts`, `new_seq` and `old_det`. `old` has the attributes that are asked for, NULL where there is no OLD.
    """

    facts: Facts
    slot: Integers
    number: Integers
    new_seq: Integers
    old_det: Integers
    keys: Keys
    new: Mapping[str, pa.Array]
    old: Mapping[str, pa.Array]

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.slot)


@dataclass(slots=True)
class LiveView:
    """The live events of a class by slot.

    Beside the current version a slot has what conditions need: for each timed statement whether it has fired for this
    version, for each name that FIRED asks about the first tick since the announcement, and of the version before this
    one what is asked for when this one is on time. That an event has been on time or late follows from its times.
    """

    watch: Watch
    slots: dict[Any, int]
    keys: Keys
    cells: dict[str, Cells]
    kept_old: dict[str, Cells]
    times: dict[str, Integers]
    has_old: Mask
    fired_for: dict[int, Mask]
    fired_at: dict[str, Integers]
    free: list[int] = field(default_factory=list)
    leaving: list[int] = field(default_factory=list)
    used: int = 0
    read: int = 0

    def __len__(self) -> int:
        """How many events are live."""
        return len(self.slots)

    @property
    def number(self) -> Integers:
        """By slot the number of the current version: the generation for timers."""
        return self.times["number"]


_TIMES: Final = ("number", "seq", "occ", "det", "old_occ", "old_det", "row")


def live_view(watched: Watch) -> LiveView:
    """The view of a class before its first version."""
    kinds = {a.name: arrow_type(a.type) for a in watched.event_class.attributes}
    return LiveView(
        watched,
        {},
        np.zeros(0, np.object_),
        {name: cells_of(kind) for name, kind in kinds.items()},
        {name: cells_of(kinds[name]) for name in watched.kept_old},
        {name: np.zeros(0, np.int64) for name in _TIMES},
        np.zeros(0, np.bool_),
        {place: np.zeros(0, np.bool_) for place in watched.timed},
        {name: np.zeros(0, np.int64) for name in watched.fired},
    )


def read(view: LiveView, versions: Versions, tick: int, chronon_us: int) -> Sight:
    """Take the versions of a tick into the view, and say what happened to which event."""
    view.free += view.leaving
    view.leaving = []
    slots = _slots_of(view, versions.keys)
    last = _last_of_each(view, slots)
    numbers = np.arange(view.read, view.read + len(slots)) if versions.number is None else versions.number
    view.read = max(view.read + len(slots), int(numbers.max(initial=-1)) + 1)
    whole = len(last) == len(slots)
    at = slots if whole else slots[last]
    values = versions.values if whole else tuple(column.take(pa.array(last)) for column in versions.values)
    number = numbers[last]
    facts = _facts(view, versions, last, at, tick, chronon_us)
    old_det = view.times["det"][at]
    old = {name: view.cells[name].at(at, facts.has_old) for name in view.watch.old}
    names = (attribute.name for attribute in view.watch.event_class.attributes)
    new = MappingProxyType(dict(zip(names, values, strict=True)))
    sight = Sight(facts, at, number, versions.seq[last], old_det, view.keys[at], new, MappingProxyType(old))
    _write(view, sight)
    return sight


def _facts(view: LiveView, versions: Versions, last: Integers, at: Integers, tick: int, chronon_us: int) -> Facts:
    has_old = view.number[at] != NO_VERSION
    new = (versions.occ_time[last], versions.det_time[last], versions.withdrawn[last])
    return Facts(tick, chronon_us, True, has_old, view.times["occ"][at], *new)


def _slots_of(view: LiveView, keys: list[Any]) -> Integers:
    """The slot of each key; a key that is not there gets one."""
    slots = np.fromiter(map(view.slots.get, keys, repeat(-1)), np.int64, len(keys))
    strange = np.flatnonzero(slots < 0)
    if len(strange):
        asked = keys if len(strange) == len(keys) else [keys[row] for row in strange.tolist()]
        fresh = list(dict.fromkeys(asked))
        given = _new_slots(view, len(fresh))
        view.slots.update(zip(fresh, given.tolist(), strict=True))
        view.keys[given] = np.fromiter(fresh, np.object_, len(fresh))
        view.number[given] = NO_VERSION
        slots[strange] = np.fromiter(map(view.slots.__getitem__, asked), np.int64, len(asked))
    return slots


def _new_slots(view: LiveView, count: int) -> Integers:
    again = min(count, len(view.free))
    old = view.free[len(view.free) - again :]
    del view.free[len(view.free) - again :]
    end = view.used + count - again
    if end > len(view.keys):
        _grow(view, max(_ROOM_MIN, 2 * end))
    given = np.concatenate([np.array(old, np.int64), np.arange(view.used, end)])
    view.used = end
    return given


def _grow(view: LiveView, capacity: int) -> None:
    view.keys = grown(view.keys, capacity)
    for cells in (*view.cells.values(), *view.kept_old.values()):
        cells.grow(capacity)
    view.times = {name: grown(column, capacity) for name, column in view.times.items()}
    view.has_old = grown(view.has_old, capacity)
    view.fired_for = {place: grown(column, capacity) for place, column in view.fired_for.items()}
    view.fired_at = {name: grown(column, capacity) for name, column in view.fired_at.items()}


def _last_of_each(view: LiveView, slots: Integers) -> Integers:
    """The rows that are the last of their slot, ascending."""
    rows, last = np.arange(len(slots)), view.times["row"]
    last[slots] = rows  # of equal slots the last one's row stays
    return np.flatnonzero(last[slots] == rows)


def _write(view: LiveView, sight: Sight) -> None:
    """Make NEW current in the slots it belongs to, and leave those of withdrawn events."""
    facts, at, new, number, seq = sight.facts, sight.slot, sight.new, sight.number, sight.new_seq
    stays = np.flatnonzero(~facts.withdrawn)
    if len(stays) < len(at):
        gone = np.flatnonzero(facts.withdrawn)
        _leave(view, at[gone])
        new = {name: column.take(pa.array(stays)) for name, column in new.items()}
    rows = slice(None) if len(stays) == len(at) else stays
    slots = at[rows]
    for name, cells in view.kept_old.items():
        cells.copy(slots, view.cells[name])
    for name, column in new.items():
        view.cells[name].put(slots, column)
    written = (number, seq, facts.new_occ, facts.new_det, facts.old_occ, sight.old_det)
    for name, numbers in zip(_TIMES, written, strict=False):
        view.times[name][slots] = numbers[rows]
    view.has_old[slots] = facts.has_old[rows]
    for fired in view.fired_for.values():
        fired[slots] = False
    announced = at[~facts.has_old]
    for ticks in view.fired_at.values():
        ticks[announced] = NOT_FIRED


def _leave(view: LiveView, slots: Integers) -> None:
    for key in view.keys[slots].tolist():
        del view.slots[key]
    view.number[slots] = NO_VERSION
    view.keys[slots] = None
    view.leaving += slots.tolist()


def purge(view: LiveView, slots: Integers) -> None:
    """Let live events go without a word: a later version of one of these keys announces a new event."""
    _leave(view, slots)


def recall(view: LiveView, slots: Integers, tick: int, chronon_us: int) -> Sight:
    """Live events whose current version was read at an earlier tick, as a condition sees them now."""
    slots = slots[np.argsort(view.number[slots])]
    has_old, times = view.has_old[slots], view.times
    facts = Facts(
        *(tick, chronon_us, False, has_old, times["old_occ"][slots], times["occ"][slots], times["det"][slots]),
        np.zeros(len(slots), np.bool_),
    )
    new = {name: cells.at(slots) for name, cells in view.cells.items()}
    old = {name: cells.at(slots, has_old) for name, cells in view.kept_old.items()}
    numbers = (times["number"][slots], times["seq"][slots], times["old_det"][slots])
    return Sight(facts, slots, *numbers, view.keys[slots], MappingProxyType(new), MappingProxyType(old))

"""A state of a changed program where the history is no longer whole: what is kept of the state before, and what is not.

In: the state that the history which is left gives under the new program, and the states before with their plans. Out:
one state. What a class that means the same has found, and what its detection remembers, comes from before, for the
history that made it may be gone; of all other classes only what was worked out is known. Events are the same in both by
their keys, or without one by what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from augury.engine.parts import SelectState, restored
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit, Unit
from augury.engine.rows import Rows
from augury.engine.saved_triggers import loaded_trigger, saved_trigger
from augury.engine.selecting import row_keys
from augury.engine.snapshot import loaded_detection, saved_detection
from augury.engine.state import Detection, EngineState, TriggersState
from augury.engine.traces import NOWHERE, Node, Traced, Traces
from augury.engine.unit_kernels import by_occurrence, history_classes, places_of
from augury.event import EventClass, key_of
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import Constituents, Expiry, LiveView, carried, live_slots
from augury.kernels.bitemporal.cells import key_values


@dataclass(frozen=True, slots=True)
class Grown:
    """A plan, and the state that its ticks have left."""

    plan: EnginePlan
    state: EngineState

    def place_of(self, name: str) -> int | None:
        """The place of a class, by the name that it is matched by."""
        names = [key_of(one.event_class.name) for one in self.plan.classes]
        return names.index(name) if name in names else None


def kept_of(before: Sequence[EnginePlan], new: EnginePlan, same: Collection[str]) -> frozenset[str]:
    """The classes that go on with their state, of those which mean the same; by the names they are matched by.

    What is derived does if some unit before has a state that fits, and all that it is built on goes on, too.
    """
    there = {key_of(one.event_class.name) for plan in before for one in plan.classes}
    names = [key_of(one.event_class.name) for one in new.classes]
    found = {names[place] for place in new.received if names[place] in same and names[place] in there}
    for unit in new.units:
        if all(names[place] in found for place in unit.reads):
            own = [names[place] for place in _made(unit)]
            found |= {name for name in own if name in same and any(_fits(plan, new, unit, name) for plan in before)}
    return frozenset(found)


def grafted(new: EnginePlan, worked_out: EngineState, before: Sequence[Grown], kept: Collection[str]) -> EngineState:
    """The state in which classes that are kept are as they were, and all others as they were worked out.

    The states given are used up; triggers are those of the state worked out.
    """
    grafts = _Grafts(new, worked_out, tuple(before), frozenset(kept))
    classes = [grafts.class_state(place) for place in range(len(new.classes))]
    views = [one.view for one in classes]
    found = replace(
        worked_out,
        classes=classes,
        expiry=grafts.expiry(views),
        traces=grafts.traces(views),
        seq=max(worked_out.seq, *(one.state.seq for one in before)),
        tick=max((s.tick for s in (worked_out, *(one.state for one in before)) if s.tick is not None), default=None),
    )
    found.detection = []
    found.failing = set()
    for number, unit in enumerate(new.units):
        detection, is_failing = grafts.detection(number, unit, views, found.tick)
        found.detection.append(detection)
        found.failing |= {number} if is_failing else set()
    return found


def triggers_grafted(
    new: EnginePlan, worked_out: EngineState, before: Sequence[Grown], since: Mapping[str, int]
) -> TriggersState:
    """What triggers remember: those that are still there what they did before, the others nothing yet.

    `since` has by name the last tick that a trigger has not seen.
    """
    each = list(worked_out.triggers.each)
    for number, unit in enumerate(new.triggers):
        for one in before:
            names = [former.name for former in one.plan.triggers]
            last = one.state.tick
            if unit.name in names and last is not None and since.get(unit.name, last - 1) < last:
                each[number] = loaded_trigger(new, number, saved_trigger(one.plan, names.index(unit.name), one.state))
    return replace(worked_out.triggers, each=each)


_FROM_HISTORY: Final = -1
"""Where the state of a class comes from that no engine before has: from what was worked out."""


@dataclass(frozen=True, slots=True)
class _Grafts:
    """Which part comes from where."""

    new: EnginePlan
    worked_out: EngineState
    before: tuple[Grown, ...]
    kept: frozenset[str]

    def name(self, place: int) -> str:
        return key_of(self.new.classes[place].event_class.name)

    def origin(self, place: int) -> tuple[int, int]:
        """The engine before that a class comes from, and its place there."""
        if self.name(place) in self.kept:
            for number, one in enumerate(self.before):
                if (there := one.place_of(self.name(place))) is not None:
                    return number, there
        return _FROM_HISTORY, place

    def state_of(self, origin: int) -> EngineState:
        return self.worked_out if origin == _FROM_HISTORY else self.before[origin].state

    def plan_of(self, origin: int) -> EnginePlan:
        return self.new if origin == _FROM_HISTORY else self.before[origin].plan

    def class_state(self, place: int) -> Any:
        origin, there = self.origin(place)
        found = self.state_of(origin).classes[there]
        if origin == _FROM_HISTORY:
            return found
        after = self.before[origin].state.tick
        return carried(found, self.new.watches[place], after, self.new.chronon_us)

    # ---- events of one state in another --------------------------------------------------------------------------

    def moved(self, origin: int, place: int, slots: Integers, views: Sequence[LiveView]) -> Integers:
        """Where events lie now that lie in these slots in a state; NOWHERE if they are not there any more."""
        if self.origin(place)[0] == origin:
            return slots
        there = self.place_in(origin, place)
        view = self.state_of(origin).classes[there].view
        return _same_events(self.new.classes[place].event_class, views[place], view, slots)

    def place_in(self, origin: int, place: int) -> int:
        if origin == _FROM_HISTORY:
            return place
        there = self.before[origin].place_of(self.name(place))
        assert there is not None, "only classes are asked for that the engine has"
        return there

    def places_from(self, origin: int) -> Iterator[tuple[int, int]]:
        """By place in the plan of a state the place that the class has now; those that are gone are left out."""
        now = {self.name(place): place for place in range(len(self.new.classes))}
        for there, one in enumerate(self.plan_of(origin).classes):
            if (place := now.get(key_of(one.event_class.name))) is not None:
                yield there, place

    def origins(self) -> Iterator[int]:
        yield _FROM_HISTORY
        yield from range(len(self.before))

    # ---- what follows from events --------------------------------------------------------------------------------

    def expiry(self, views: Sequence[LiveView]) -> Expiry:
        """When events leave: of all that are there, with what they are made of as far as that is there."""
        found = Expiry(self.new.lifespans_us)
        for place, view in enumerate(views):
            slots = live_slots(view)
            found.put(place, slots, view.times["occ"][slots])
        for place, view in enumerate(views):
            self._link(found, place, live_slots(view), views)
        return found

    def _link(self, expiry: Expiry, place: int, slots: Integers, views: Sequence[LiveView]) -> None:
        origin, there = self.origin(place)
        former, places = self.state_of(origin).expiry, dict(self.places_from(origin))
        owner: list[int] = []
        nodes: list[Node] = []
        for number, slot in enumerate(slots.tolist()):
            made_of = [(places[part], at) for part, at in former.parts_of((there, slot)) if part in places]
            nodes += made_of
            owner += [number] * len(made_of)
        if not owner:
            return
        event_class, at = np.array(nodes, np.int64).T
        moved = np.empty_like(at)
        for part in np.unique(event_class).tolist():
            own = event_class == part
            moved[own] = self.moved(origin, part, at[own], views)
        there_still = moved != NOWHERE
        made = Constituents(np.array(owner, np.int64)[there_still], event_class[there_still], moved[there_still])
        expiry.link(place, slots, made)

    def traces(self, views: Sequence[LiveView]) -> Traces:
        """Which version belongs to which event, of all states; what events are made of that are there."""
        versions = {place: self._traced(place, views) for place in self.new.received}
        parts: dict[Node, tuple[int, ...]] = {}
        for origin in self.origins():
            now = {there: place for there, place in self.places_from(origin) if self.origin(place) == (origin, there)}
            for (there, slot), seqs in self.state_of(origin).traces.parts.items():
                if there in now:
                    parts[now[there], slot] = seqs
        return Traces({place: one for place, one in versions.items() if one.count}, parts)

    def _traced(self, place: int, views: Sequence[LiveView]) -> Traced:
        """Those that the class comes with, and those that something worked out still holds."""
        origin, there = self.origin(place)
        seq, slot = _pairs(self.state_of(origin).traces.versions.get(there))
        if origin != _FROM_HISTORY:
            more, at = _pairs(self.worked_out.traces.versions.get(place))
            at = self.moved(_FROM_HISTORY, place, at, views)
            fresh = (at != NOWHERE) & ~np.isin(more, seq)
            seq, slot = np.concatenate([seq, more[fresh]]), np.concatenate([slot, at[fresh]])
        order = np.argsort(seq)
        return Traced(seq[order], slot[order])

    # ---- what detection remembers --------------------------------------------------------------------------------

    def detection(self, number: int, unit: Unit, views: Sequence[LiveView], tick: int | None) -> tuple[Detection, bool]:
        """What a unit remembers, and whether it has to be tried again at the next tick."""
        for origin, one in enumerate(self.before):
            for place in _made(unit):
                if self.name(place) in self.kept and self.origin(place)[0] == origin:
                    return self._as_before(one, unit, self.name(place), views, tick)
        remembered = self.worked_out.detection[number]
        if not isinstance(unit, SelectUnit):
            return remembered, False
        assert isinstance(remembered, SelectState)
        if all(self.origin(place)[0] == _FROM_HISTORY for place in unit.reads):
            return remembered, number in self.worked_out.failing
        # Events that it did not see are live: it looks at all of them at the next tick.
        rows = remembered.all_rows()
        rows = None if rows is None else self._with_all_parts(unit.place, rows, views)
        assert tick is not None, "there was a tick"
        return restored(unit, self.new.classes[unit.place].event_class, rows, views, tick, failing=True), True

    def _with_all_parts(self, place: int, rows: Rows, views: Sequence[LiveView]) -> Rows:
        """The rows but for those made of an event that has left: that is no reason to withdraw them."""
        event_class, view = self.new.classes[place].event_class, views[place]
        slots = [view.slots.get(key) for key in row_keys(event_class, rows)]
        whole = [slot is None or self._has_all_parts((place, slot), views) for slot in slots]
        return replace(rows, made=None).taken(np.flatnonzero(whole))

    def _has_all_parts(self, node: Node, views: Sequence[LiveView]) -> bool:
        parts = self.worked_out.expiry.parts_of(node)
        return all(self.moved(_FROM_HISTORY, part, np.array([at]), views)[0] != NOWHERE for part, at in parts)

    def _as_before(
        self, one: Grown, unit: Unit, name: str, views: Sequence[LiveView], tick: int | None
    ) -> tuple[Detection, bool]:
        number = _unit_of(one.plan, name)
        assert number is not None, "what is kept has a unit"
        assert tick is not None, "there was a tick"
        content = saved_detection(one.plan, one.plan.units[number], one.state.detection[number])
        is_failing = number in one.state.failing
        return loaded_detection(self.new, unit, content, views, tick, is_failing), is_failing


def _made(unit: Unit) -> tuple[int, ...]:
    return (unit.place,) if isinstance(unit, SelectUnit) else places_of(unit)


def _unit_of(plan: EnginePlan, name: str) -> int | None:
    """The unit that derives a class."""
    for number, unit in enumerate(plan.units):
        if any(key_of(plan.classes[place].event_class.name) == name for place in _made(unit)):
            return number
    return None


def _fits(before: EnginePlan, new: EnginePlan, unit: Unit, name: str) -> bool:
    """Whether what the unit of a class remembered is of use to the one it has now."""
    number = _unit_of(before, name)
    if number is None:
        return False
    former = before.units[number]
    if isinstance(unit, SelectUnit) and isinstance(former, SelectUnit):
        return (unit.select, unit.part_attributes) == (former.select, former.part_attributes)
    if isinstance(unit, SelectUnit) or isinstance(former, SelectUnit) or type(unit) is not type(former):
        return False
    if unit.detector.fingerprint() != former.detector.fingerprint():
        return False
    order = by_occurrence(unit)
    # What a corrected history has goes by the places of all its classes.
    return order == by_occurrence(former) and (order is None or _names(new, unit) == _names(before, former))


def _names(plan: EnginePlan, unit: MatchUnit | CompositeUnit) -> list[str]:
    return [key_of(one.name) for one in history_classes(plan, unit)]


def _pairs(traced: Traced | None) -> tuple[Integers, Integers]:
    if traced is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    seq, slot = traced.seq[: traced.count], traced.slot[: traced.count]
    there = traced.born[slot] <= seq
    return seq[there], slot[there]


def _same_events(of: EventClass, view: LiveView, other: LiveView, slots: Integers) -> Integers:
    """The slots in a view of the events that lie in these slots of another."""
    if of.key:
        return np.array([view.slots.get(key, NOWHERE) for key in other.keys[slots].tolist()], np.int64)
    known = dict(zip(_identities(view, here := live_slots(view)), here.tolist(), strict=True))
    return np.array([known.get(one, NOWHERE) for one in _identities(other, slots)], np.int64)


def _identities(view: LiveView, slots: Integers) -> Iterator[tuple[Any, ...]]:
    """What tells events without a key apart: the number of their version, their time and all values."""
    times = (view.times["seq"][slots].tolist(), view.times["occ"][slots].tolist())
    return zip(*times, *(key_values(cells.at(slots)) for cells in view.cells.values()), strict=True)

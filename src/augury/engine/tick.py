"""One tick: read → derive → decide → publish, then purge. There is no other place that does this.

In: a plan, the state, what came in the chronon that ends, and ports. Out: a `Ticked`, which is what is published when
it is committed; the state has moved on. It knows neither clocks nor stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np

from augury import limits
from augury.engine import detecting, selecting
from augury.engine.ahead import require_few_periods_ahead
from augury.engine.chronon import Chronon, Read
from augury.engine.detecting import Histories
from augury.engine.failing import Failures
from augury.engine.firing import post_text, settled
from augury.engine.occurrence_state import OccurrenceState, purged_from, settle_all
from augury.engine.parts import SelectState
from augury.engine.plan import CompositeUnit, EnginePlan, MatchUnit, SelectUnit
from augury.engine.ports import KnownVersions, SelectFailed, Selects
from augury.engine.reading import next_by_clock, read_again
from augury.engine.rows import whole
from augury.engine.rules import Calling, NoFunctions
from augury.engine.selecting import Views
from augury.engine.state import EngineState, forget_unheld
from augury.engine.steps import advance, advance_again
from augury.engine.ticked import ClassActions, ClassVersions, Failure, Phase, Ticked
from augury.engine.traces import NOWHERE
from augury.engine.triggering import Ruling, forget_expired, look
from augury.event import ClassKind
from augury.history.arrivals import Arrivals
from augury.history.schedule import TooManyDue, due_at_most
from augury.history.versions import WITHDRAWN
from augury.kernels.batch import Integers, Occurrences, joined
from augury.kernels.bitemporal import NEVER, Sight, Versions, as_of_now, decided, purge, take, tick_after
from augury.kernels.composite.state import CompositeState
from augury.kernels.firing import Turned


@dataclass(frozen=True, slots=True)
class Ports:
    """What a tick needs of its surroundings.

    `stopwatch` gives seconds, from any moment on; `calling` has what rules call at once, and `depth_max` says how many
    posts of rules may follow from one another. `failures` is there where other engines run the same SELECTs for other
    events, and what fails in one keeps the rows of all.
    """

    selects: Selects
    known: KnownVersions | None = None
    stopwatch: Callable[[], float] = lambda: 0.0
    calling: Calling = field(default_factory=NoFunctions)
    depth_max: int = limits.POST_DEPTH_MAX
    failures: Failures | None = None

    def ruling(self, *, is_again: bool = False) -> Ruling:
        """What rules go by."""
        return Ruling(self.depth_max, self.calling, is_again)


@dataclass(slots=True)
class _Tick:
    """A tick while it is at work."""

    plan: EnginePlan
    state: EngineState
    ports: Ports
    tick: int
    seen: dict[int, Sight] = field(default_factory=dict)
    versions: dict[int, ClassVersions] = field(default_factory=dict)
    views: Views = field(init=False)
    failed: list[Failure] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    seconds: dict[Phase, float] = field(default_factory=dict)
    _since: float = 0.0

    def __post_init__(self) -> None:
        """No view is looked at yet."""
        self.views = Views(self.state)
        self._since = self.ports.stopwatch()

    def ends(self, phase: Phase) -> None:
        now = self.ports.stopwatch()
        self.seconds[phase] = now - self._since
        self._since = now

    # ---- read ----------------------------------------------------------------------------------

    def take(self, place: int, versions: ClassVersions) -> tuple[Integers, Integers]:
        """Versions of a class become current; gives the slots of the events that are there, and rows of versions."""
        self.versions[place] = versions
        state, plan = self.state.classes[place], self.plan
        read = Versions(
            tuple(whole(column) for column in versions.values.columns),
            versions.occ_time,
            versions.det_time,
            versions.seq,
            versions.change == WITHDRAWN,
            list(versions.keys),
            versions.number - 1,
        )
        sight = self.seen[place] = take(state, read, self.tick, plan.chronon_us)
        self.views.changed(place)
        gone = sight.facts.withdrawn
        if read.withdrawn.any():
            # Also those that were announced again in this chronon: what has their key now is another event.
            left = np.concatenate([sight.slot[gone], self._again(place, read)])
            self.state.expiry.withdraw(place, left)
            self.state.traces.forget(place, left)
        there = np.flatnonzero(~gone)
        slots = sight.slot[there]
        self.state.expiry.put(place, slots, sight.facts.new_occ[there])
        self._news(place, slots, sight.slot[gone])
        return slots, np.searchsorted(versions.number, sight.number[there] + 1)

    def _again(self, place: int, read: Versions) -> Integers:
        """The slots of events that are there, and were withdrawn by one of these versions."""
        slots = self.state.classes[place].view.slots
        withdrawn = (read.keys[row] for row in np.flatnonzero(read.withdrawn).tolist())
        return np.array(list({slots[key] for key in withdrawn if key in slots}), np.int64)

    def read(self, read: Read) -> None:
        for place, versions in read.versions.items():
            self.take(place, versions)
            if place in self.plan.detected_from:
                self._trace(place, versions)

    def _trace(self, place: int, versions: ClassVersions) -> None:
        """Note which event each version belongs to, those before a withdrawal to none that is there."""
        slot_of = self.state.classes[place].view.slots.get
        slots = np.fromiter(map(slot_of, versions.keys, repeat(NOWHERE)), np.int64, len(versions))
        self.state.traces.note(place, versions.seq, slots, versions.change == WITHDRAWN)

    # ---- derive --------------------------------------------------------------------------------

    def derive(self, ruling: Ruling) -> None:
        """What the steps found comes first; what is built on SELECTs goes on with their rows, which come last."""
        late = Histories(read_again(self.plan, {}).batch)
        for number, unit in enumerate(self.plan.units):
            if isinstance(unit, SelectUnit):
                self.select(number, unit, late)
                continue
            after = self._detected_late(number, unit, late)
            for place in unit.places if isinstance(unit, CompositeUnit) else (unit.place,):
                parts = [*self.state.chronon.found.get(place, ()), *([after[place]] if place in after else [])]
                if parts:
                    versions = detecting.versions_of(self.plan, self.state, place, joined(parts))
                    detecting.note_numbers(self.plan, self.state, versions, place)
                    slots, rows = self.take(place, versions)
                    detecting.link_detected(self.plan, self.state, place, unit, versions, slots, rows)
        if late.occurrences:
            look(self.plan, self.state, late, self.tick, ruling)

    def _detected_late(self, number: int, unit: MatchUnit | CompositeUnit, late: Histories) -> dict[int, Occurrences]:
        """What a unit finds in the rows of SELECTs, and in what others found in these."""
        if not any(place in late.occurrences for place in unit.reads):
            return {}
        found = detecting.detect(self.plan, self.state, number, late, self.tick)
        for place, one in found.items():
            self.count(one.event_class.name, one.errors)
            late.occurrences[place] = one
        return {place: one for place, one in found.items() if len(one)}

    def count(self, name: str, errors: int) -> None:
        if errors:
            self.errors[name] = self.errors.get(name, 0) + errors

    def select(self, number: int, unit: SelectUnit, histories: Histories) -> None:
        remembered = self._remembered(number)
        remembered.turned(unit, [one.view for one in self.state.classes], self.tick)
        if not remembered.has_news() and number not in self.state.failing:
            return
        event_class = self.plan.classes[unit.place].event_class
        fails_until = self._fails_until(unit, Phase.DERIVE)
        if fails_until and remembered.held_until > self.tick:
            return  # nothing has become of it since, so it would not fail here now either
        try:
            now = selecting.select(self.plan, unit, remembered, self.views, self.ports.selects, self.tick)
        except SelectFailed as error:
            self.failed.append(Failure(event_class.name, str(error)))
            self._fails(number, unit, Phase.DERIVE)
            return
        if fails_until:
            self.state.failing.add(number)
            remembered.held_until = fails_until
            return
        self.state.failing.discard(number)
        if now.uncounted:
            self.warnings[event_class.name] = now.uncounted
        before = remembered.before()
        rows = selecting.no_rows(event_class) if before is None else before
        versions = selecting.differences(self.plan, self.state, unit, rows, now, self.tick)
        remembered.put(now.rows)
        if versions is not None:
            self.take(unit.place, versions)
            histories.derived(unit.place, versions)
        selecting.link_selected(self.state, unit, now)

    def _fails(self, number: int, unit: SelectUnit, phase: Phase) -> None:
        """A SELECT has failed by itself: it is tried again at the next tick, and others hear of it."""
        self.state.failing.add(number)
        if self.ports.failures is not None:
            self.ports.failures.note(self.plan.classes[unit.place].event_class.name, phase, self.tick)

    def _fails_until(self, unit: SelectUnit, phase: Phase) -> int:
        """Where others said that a SELECT fails now, the first tick at which it does not; else 0."""
        name, failures = self.plan.classes[unit.place].event_class.name, self.ports.failures
        return 0 if failures is None else failures.until(name, phase, self.tick)

    def _remembered(self, number: int) -> SelectState:
        remembered = self.state.detection[number]
        assert isinstance(remembered, SelectState)
        return remembered

    def _news(self, place: int, slots: Integers, gone: Integers) -> None:
        """Tell the SELECTs that read a class what became of its events."""
        for number in self.plan.selects_of[place]:
            unit = self.plan.units[number]
            assert isinstance(unit, SelectUnit)
            self._remembered(number).news(unit, place, self.state.classes[place].view, slots, gone, self.tick)

    # ---- decide --------------------------------------------------------------------------------

    def decide(self) -> list[ClassActions]:
        found = []
        for place, state in enumerate(self.state.classes):
            seen = self.seen.get(place)
            if not self.plan.watches[place].statements or (seen is None and state.next_due() > self.tick):
                continue
            fired = decided(state, seen, self.tick, self.plan.chronon_us)
            event_class = self.plan.classes[place].event_class
            self.count(event_class.name, fired.errors.total())
            if len(fired):
                found.append(ClassActions(event_class, fired))
        return found

    # ---- purge ---------------------------------------------------------------------------------

    def purge(self) -> list[ClassVersions]:
        if self.state.expiry.next_due() > self.tick:
            return []
        purged = []
        none = np.zeros(0, np.int64)
        for place, slots in enumerate(self.state.expiry.purge(self.tick)):
            if len(slots):
                purged.append(self._leaving(place, slots))
                keys = self.state.classes[place].view.keys[slots].tolist()
                purged_from(self.plan, self.state.detection, place, keys)
                purge(self.state.classes[place].view, slots)
                self.state.traces.forget(place, slots)
                self.views.changed(place)
                self._news(place, none, slots)
        for number, unit in enumerate(self.plan.units):
            if isinstance(unit, SelectUnit) and number not in self.state.failing:
                self._rebase(number, unit)
        return purged

    def _rebase(self, number: int, unit: SelectUnit) -> None:
        """What a purge did to the rows of a SELECT is no news, unless it fails."""
        remembered = self._remembered(number)
        if not remembered.has_news() or remembered.before() is None:
            return
        if self._fails_until(unit, Phase.DERIVE):
            self.state.failing.add(number)
            return
        try:
            now = selecting.select(self.plan, unit, remembered, self.views, self.ports.selects, self.tick)
        except SelectFailed:
            self._fails(number, unit, Phase.PURGE)  # it is reported when it fails at the next tick
            return
        if self._fails_until(unit, Phase.PURGE):
            self.state.failing.add(number)
            return
        remembered.put(now.rows)

    def _leaving(self, place: int, slots: Integers) -> ClassVersions:
        """The current versions of events, in the order of their numbers."""
        view = self.state.classes[place].view
        slots = slots[np.argsort(view.number[slots])]
        table = as_of_now(view, slots)
        times = view.times
        event_class = self.plan.classes[place].event_class
        return ClassVersions(
            event_class,
            times["number"][slots] + 1,
            table.select([attribute.name for attribute in event_class.attributes]),
            times["seq"][slots],
            times["occ"][slots],
            times["det"][slots],
            np.zeros(len(slots), np.uint8),
            view.keys[slots].tolist(),
            event_number=detecting.event_numbers(self.plan, self.state, place, slots),
        )


def step(plan: EnginePlan, state: EngineState, came: Arrivals, upto: int, ports: Ports) -> None:
    """Read rows before their tick, and let MATCH, COMPOSITE and triggers go on up to a time, that included.

    No row was detected before the time of an earlier step. What came of it is in the state's chronon.
    """
    time = tick_reading(upto, plan.chronon_us)
    assert state.tick is None or time > state.tick, "ticks go forward"
    advance(plan, state, came, time, upto, ports.known, ports.ruling())


def tick(plan: EnginePlan, state: EngineState, came: Arrivals, time: int, ports: Ports) -> Ticked:
    """The tick at the end of the chronon in which these rows came; the state given is used up."""
    assert state.tick is None or time > state.tick, "ticks go forward"
    at_work = _Tick(plan, state, ports, time)
    ruling = ports.ruling()
    advance(plan, state, came, time, time, ports.known, ruling)
    return _ticked(at_work, ruling)


def tick_again(
    plan: EnginePlan,
    state: EngineState,
    read: Mapping[int, ClassVersions],
    time: int,
    ports: Ports,
    turns: Sequence[Turned] = (),
) -> Ticked:
    """A tick that was committed, from the versions that it read: to come to the state after it.

    `turns` are the switches that were made in its chronon.
    """
    ruling = ports.ruling(is_again=True)
    at_work = _Tick(plan, state, ports, time)
    advance_again(plan, state, read_again(plan, read), time, ruling, turns)
    return _ticked(at_work, ruling)


def _ticked(at_work: _Tick, ruling: Ruling) -> Ticked:
    plan, state = at_work.plan, at_work.state
    chronon = state.chronon
    read = chronon.whole()
    at_work.read(read)
    at_work.ends(Phase.READ)
    at_work.derive(ruling)
    for name, errors in chronon.errors.items():
        at_work.count(name, errors)
    at_work.ends(Phase.DERIVE)
    actions = at_work.decide()
    at_work.ends(Phase.DECIDE)
    purged = at_work.purge()
    settle_all(plan, state.detection, [one.view.slots for one in state.classes])
    if state.traces.is_full():
        forget_unheld(plan, state)
    at_work.ends(Phase.PURGE)
    state.tick = at_work.tick
    forget_expired(state)
    # The next tick has firings of its own.
    state.triggers.pending = [replace(one, firing=None) for one in (*state.triggers.pending, *chronon.queue)]
    state.chronon = Chronon()
    received = set(plan.received)
    by_place = sorted(at_work.versions.items())
    return Ticked(
        at_work.tick,
        state.seq,
        tuple(versions for place, versions in by_place if place in received),
        tuple(versions for place, versions in by_place if place not in received),
        tuple(actions),
        read.rejected,
        read.absorbed,
        tuple(purged),
        tuple(at_work.failed),
        at_work.warnings,
        at_work.errors,
        at_work.seconds,
        tuple(settled(one, at, chronon.became) for at, one in enumerate(chronon.firings)),
        tuple(post_text(one) for one in state.triggers.pending),
    )


def next_tick(plan: EnginePlan, state: EngineState) -> int:
    """The next tick with work to do if nothing comes; ticks before it may be left out. NEVER if there is none."""
    chronon_us = plan.chronon_us
    if state.chronon.upto is not None:
        return tick_reading(state.chronon.upto, chronon_us)
    if state.tick is None:
        return NEVER
    times = [state.expiry.next_due() - 1]  # at the tick after it
    posted = next_by_clock(plan, state.tick)
    times += [] if posted is None else [posted]
    found = [_tick_after(time, chronon_us) for time in times]
    found += [one.next_due() for one in state.classes]
    for number, (unit, detection) in enumerate(zip(plan.units, state.detection, strict=True)):
        if isinstance(detection, CompositeState | OccurrenceState):
            found.append(_tick_at(detection.next_due(), chronon_us))
        elif isinstance(unit, SelectUnit) and isinstance(detection, SelectState):
            found.append(detection.next_due(unit, state.tick))
            found += [detection.held_until] if number in state.failing else []
    found += [
        _tick_at(one.detection.next_due(), chronon_us) for one in state.triggers.each if one.detection is not None
    ]
    found += [state.tick + chronon_us] if state.triggers.pending else []
    return max(min(found), state.tick + chronon_us)


def next_tick_by(plan: EnginePlan, state: EngineState, last: int) -> int:
    """The next tick with work to do, of a run up to `last`: what is held up longer is still held then."""
    due = next_tick(plan, state)
    return last if due > last and state.failing and state.tick is not None and state.tick < last else due


def tick_at_most(time: int, chronon_us: int) -> int:
    """The last tick that is not after a time."""
    return time // chronon_us * chronon_us


def tick_reading(det_time: int, chronon_us: int) -> int:
    """The tick that reads what was detected at a time."""
    return (det_time // chronon_us + 1) * chronon_us


def _tick_at(time: int, chronon_us: int) -> int:
    """The first tick that is not before a time."""
    return NEVER if time == NEVER else -(-time // chronon_us) * chronon_us


def _tick_after(time: int, chronon_us: int) -> int:
    return NEVER if time >= NEVER - 1 else int(tick_after(np.array([time]), chronon_us)[0])


def ticks(
    plan: EnginePlan,
    state: EngineState,
    came: Arrivals,
    until: int | None,
    ports: Ports,
    *,
    first: int | None = None,
    settles: bool = True,
    is_replay: bool = False,
) -> Iterator[Ticked]:
    """Every tick that has something to do, up to a time; left out, the last is the one that reads the last row.

    The last tick that is not after that time is done whatever happens at it, once there was one: what is known by then
    is settled, and what comes later is late; unless `settles` is False. `first` is the first tick there was anywhere,
    for an engine that reads some of the events only: it begins with it. `is_replay` looks ahead for a PERIODIC that
    would take place too often before the next row, and raises `CannotRun`. Raises `TooManyDue` where the clock posts
    more events than the limit allows: a time far from all others has it tick for ever.
    """
    waiting = came.by_tick(plan.chronon_us) if first is None or state.tick is not None else _from(first, came, plan)
    coming = next(waiting, None)
    last = NEVER if until is None else tick_at_most(until, plan.chronon_us)
    if coming is None and came.refusals and until is not None and _is_to_come(last, state):
        coming = last, came
    posted = 0
    while coming is not None or until is not None:
        due = next_tick_by(plan, state, last)
        if coming is not None and coming[0] <= due:
            time, rows = coming
            coming = next(waiting, None)
        else:
            time, rows = due, Arrivals()
            if is_replay:
                require_few_periods_ahead(plan, state, due, last if coming is None else min(coming[0], last))
        if until is not None and time > until:
            break
        ticked = tick(plan, state, rows, time, ports)
        posted += sum(len(one) for one in ticked.read if one.event_class.kind is ClassKind.CLOCK)
        if posted > limits.CLOCK_EVENTS_MAX:
            most = f"at most {limits.CLOCK_EVENTS_MAX:,} events of clock classes"
            raise TooManyDue(f"a run has {most}, and from its first to its last version there are more")
        yield ticked
    if settles and until is not None and state.tick is not None and _is_to_come(last, state):
        yield tick(plan, state, Arrivals(), last, ports)


def require_few_due(plan: EnginePlan, state: EngineState, came: Arrivals, until: int | None) -> None:
    """Raise `TooManyDue` where the clock would post too much, before the first tick of a replay or a step is done."""
    first, last = came.first_us() if state.tick is None else state.tick, came.last_us()
    end = last if until is None else until
    if first is None or end is None:
        return
    for code, schedule in plan.clocks:
        name = plan.program.classes[plan.received[code]].event_class.name
        due_at_most(name, schedule, tick_at_most(first, plan.chronon_us), end)


def _from(first: int, came: Arrivals, plan: EnginePlan) -> Iterator[tuple[int, Arrivals]]:
    """What came by tick, and the first tick, though nothing came at it."""
    waiting = came.by_tick(plan.chronon_us)
    coming = next(waiting, None)
    if coming is None or coming[0] > first:
        yield first, Arrivals()
    if coming is not None:
        yield coming
    yield from waiting


def _is_to_come(time: int, state: EngineState) -> bool:
    return state.tick is None or time > state.tick

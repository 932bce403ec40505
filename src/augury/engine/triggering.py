"""Triggers at a step: which fire, with which occurrence, and what their rules do and post (LANGUAGE.md section 7).

In: the histories of a step, how far the clock went, and the state. Out: firings and queued posts, noted in the
chronon; what triggers remember has moved on. docs/triggers.md has the readings. A tick that is worked out again lets
triggers use up what they used, and no rule runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from augury.algebra.scalar import Field, Value
from augury.engine.chronon import Chronon, QueuedPost
from augury.engine.detecting import SELECTED, Histories
from augury.engine.firing import fired_trigger
from augury.engine.plan import EnginePlan, too_many_periods
from augury.engine.rules import Calling, NoFunctions, Setting, calls_of, returned_of
from augury.engine.state import EngineState, TriggersState, Waiting, waiting_for
from augury.engine.trigger_plan import TriggerUnit
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT, Batch, Integers
from augury.kernels.composite.giving import Found, constituents
from augury.kernels.composite.reading import python_values, rows_of
from augury.kernels.composite.scalars import attribute_key
from augury.kernels.composite.step import step_found
from augury.kernels.composite.timed import TooManyPeriods
from augury.kernels.firing import Firing, Posted, Refusal, Switched
from augury.kernels.fitting import fitted_or_null

_JUST_AFTER: Final = 0.5
_FEW: Final = 1000
"""Up to so many values Python finds the different ones sooner than NumPy."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What rules may call, and how deep chains of posts may be; `is_again`: the tick was committed before."""

    depth_max: int
    calling: Calling = field(default_factory=NoFunctions)
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class _Moment:
    """A row of the history, or a time of the clock, at which a trigger looks; `rank` orders all of a step."""

    rank: float
    is_timer: bool
    unit: int
    row: int
    det_time: int

    def order(self) -> tuple[float, bool, int]:
        return self.rank, self.is_timer, self.unit


def look(plan: EnginePlan, state: EngineState, histories: Histories, until: int, ruling: Ruling) -> None:
    """Let triggers see what a step brought, in the order in which it happened."""
    if not plan.triggers:
        return
    history = histories.of(plan, plan.triggered_from)[0]
    looking = _Looking(plan, state.triggers, state.chronon, history, ruling, _rows_by_place(plan, history))
    concerned = looking.concerned(until)
    for number in concerned:
        looking.find(number, histories, until)
    for moment in sorted(looking.moments(concerned), key=_Moment.order):
        looking.at(moment)
    looking.end()


def _rows_by_place(plan: EnginePlan, history: Batch) -> dict[int, Integers]:
    """The rows of each class that is there, withdrawals among them."""
    places, code = (*plan.received, *plan.triggered_from), history.code
    present = set(code.tolist()) if len(code) < _FEW else set(np.unique(code).tolist())
    return {places[one]: np.flatnonzero(code == one) for one in sorted(present)}


@dataclass(slots=True)
class _Looking:
    """Triggers over the history of one step; `found` has by trigger what its expression found, with ranks.

    `rows` are those of each class that is there, by its place.
    """

    plan: EnginePlan
    state: TriggersState
    chronon: Chronon
    history: Batch
    ruling: Ruling
    rows: dict[int, Integers]
    found: dict[int, list[tuple[float, bool, Waiting]]] = field(default_factory=dict)
    _rows: dict[str, Integers] | None = None

    # ---- what expressions find -------------------------------------------------------------------

    def concerned(self, until: int) -> list[int]:
        """The triggers that a class concerns which is there, or the clock, as declared."""
        there = {number for place in self.rows for number in self.plan.triggers_of[place]}
        each = enumerate(self.state.each)
        due = (n for n, one in each if one.detection is not None and one.detection.next_due() <= until)
        return sorted(there.union(due))

    def find(self, number: int, histories: Histories, until: int) -> None:
        """Advance the expression of a trigger."""
        state, unit = self.state.each[number], self.plan.triggers[number]
        detector = unit.detector
        if detector is None:
            return
        assert state.detection is not None
        if state.detection.next_due() > until and not any(place in self.rows for place in unit.leaves):
            return
        history, shared = histories.of(self.plan, unit.reads)
        before = state.detection.places
        index = rows_of(detector, state.detection, history, shared).index
        try:
            found, errors = step_found(detector, state.detection, history, self.plan.chronon_us, until, shared=shared)
        except TooManyPeriods:
            raise too_many_periods(unit.trigger.name, unit.trigger.span) from None
        if errors:
            self.chronon.errors[unit.trigger.name] = self.chronon.errors.get(unit.trigger.name, 0) + errors
        ranked = []
        for one in found:
            row = None if not one.point[1] else int(index[one.point[2] - before])
            rank = self._rank(one, history, row)
            ranked.append((rank, one.version is None, _waiting(unit, one)))
        self.found[number] = sorted(ranked, key=lambda each: (each[0], each[2].constituents))

    def _rank(self, one: Found, history: Batch, row: int | None) -> float:
        """Where an occurrence stands among the rows of this history; timers stand between them."""
        if row is None:
            # A timer comes before all that is detected at its time, complex events of other timers among them.
            return float(np.searchsorted(self.history.det_time, one.point[0])) - _JUST_AFTER
        at = self._row_of(history, row)
        if one.version is not None:
            return float(at)
        return self._after_place(at)

    def _row_of(self, history: Batch, row: int) -> int:
        """The row of this history that is a row of another, which has fewer classes."""
        if self._rows is None:
            self._rows = {}
            for code, event_class in enumerate(self.history.classes):
                at = np.flatnonzero(self.history.code == code)
                places = np.zeros(self.history.tables[code].num_rows if len(at) else 0, np.int64)
                if len(at):
                    places = np.zeros(int(self.history.row[at].max()) + 1, np.int64)
                    places[self.history.row[at]] = at
                self._rows[key_of(event_class.name)] = places
        name = key_of(history.classes[int(history.code[row])].name)
        return int(self._rows[name][int(history.row[row])])

    def _after_place(self, at: int) -> float:
        """Right after all that stands at the place of a row, and before what other timers complete there."""
        seq, det = self.history.seq, self.history.det_time
        own = int(seq[at])
        if own < 0:
            while at >= 0 and int(seq[at]) == own:
                at -= 1
            return at + _JUST_AFTER
        while at + 1 < len(seq) and int(seq[at + 1]) == own and int(det[at + 1]) == int(det[at]):
            at += 1
        return at + _JUST_AFTER

    # ---- moments ---------------------------------------------------------------------------------

    def moments(self, concerned: Sequence[int]) -> list[_Moment]:
        """All rows and times at which some trigger looks and may find something."""
        times = self.history.det_time
        moments: list[_Moment] = []
        for number in concerned:
            unit, found = self.plan.triggers[number], self.found.get(number, [])
            if not self.state.is_on(Switched.TRIGGER, unit.trigger.name):
                continue
            rows = self._triggering(unit)
            if unit.detector is not None:
                rows = _usable(rows, [rank for rank, _, _ in found], len(self.state.each[number].waiting))
            moments += [_Moment(float(row), False, number, row, int(times[row])) for row in rows]
            if unit.by_clock:
                timed = [(rank, one) for rank, is_timed, one in found if is_timed]
                moments += [_Moment(rank, True, number, -1, one.det_time) for rank, one in timed]
        return moments

    def _triggering(self, unit: TriggerUnit) -> list[int]:
        rows = [self.rows[place] for place in unit.triggering if place in self.rows]
        if not rows:
            return []
        found = rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows))
        told: list[int] = found[self.history.kind[found] == ASSERT].tolist()
        return told

    def at(self, moment: _Moment) -> None:
        """One trigger at one moment: what took place by now waits, and the oldest that does is used."""
        unit, state = self.plan.triggers[moment.unit], self.state.each[moment.unit]
        if unit.detector is None:
            own = self._numbers(moment.row)
            self._fire(unit, moment, Waiting(moment.det_time, moment.det_time, own, {}, ("", {})))
            return
        self._admit(moment.unit, moment.rank)
        tick = self._last_purge(moment)
        state.waiting = [one for one in state.waiting if one.until >= tick]
        if state.waiting:
            self._fire(unit, moment, state.waiting.pop(0))

    def _admit(self, number: int, rank: float) -> None:
        found = self.found.get(number, [])
        count = next((i for i, (of, _, _) in enumerate(found) if of > rank), len(found))
        self.state.each[number].waiting += [one for _, _, one in found[:count]]
        del found[:count]

    def end(self) -> None:
        """What nobody looked at waits, unless its trigger is disabled."""
        for number in self.found:
            if self.state.is_on(Switched.TRIGGER, self.plan.triggers[number].trigger.name):
                self._admit(number, float("inf"))

    def _numbers(self, row: int) -> tuple[int, ...]:
        """The `seq` of the subscribed versions below a row."""
        lists = self.history.constituents[int(self.history.code[row])]
        if lists is None:
            return (int(self.history.seq[row]),)
        return tuple(lists[int(self.history.row[row])].as_py())

    def _is_read(self, moment: _Moment) -> bool:
        """Whether it is a version's place, not one of the clock or of a SELECT."""
        seq = self._seq(moment)
        return 0 < abs(seq) < SELECTED

    def _seq(self, moment: _Moment) -> int:
        """That of the version at the place of a moment; 0 for one of the clock."""
        if not moment.is_timer:
            return int(self.history.seq[moment.row])
        before = int(moment.rank - _JUST_AFTER)
        if before < 0 or before >= len(self.history):
            return 0
        # A timer that was due when it was set stands right after what set it; all others stand before their time.
        return int(self.history.seq[before]) if int(self.history.det_time[before]) == moment.det_time else 0

    def _last_purge(self, moment: _Moment) -> int:
        chronon_us = self.plan.chronon_us
        return (moment.det_time if self._is_read(moment) else moment.det_time - 1) // chronon_us * chronon_us

    # ---- firing ----------------------------------------------------------------------------------

    def _fire(self, unit: TriggerUnit, moment: _Moment, used: Waiting) -> None:
        number = self.state.fired.get(unit.name, 0) + 1
        self.state.fired[unit.name] = number
        if self.ruling.is_again:
            return
        event_class, values = self._event(moment, used)
        given = [values.get(attribute_key(a.name)) for a in event_class.attributes]
        parameters = tuple(fitted_or_null(v, p.type) for v, p in zip(given, unit.trigger.parameters, strict=False))
        named = _named(unit, parameters, used, event_class, values)
        is_read, chronon_us = self._is_read(moment), self.plan.chronon_us
        det_time = moment.det_time
        now = (det_time // chronon_us + 1) * chronon_us if is_read else -(-det_time // chronon_us) * chronon_us
        setting = Setting(
            f"{unit.name}/{number}",
            named,
            now,
            det_time,
            self.plan.rules,
            disabled(self.plan, self.state),
            self.plan.event_classes,
            self.ruling.calling,
            unit.trigger.policy,
        )
        calls = calls_of(unit.trigger.structure, setting)
        firing = Firing(
            unit.trigger.name,
            None if moment.is_timer else event_class.name,
            self._told_seq(moment),
            det_time,
            now,
            used.constituents,
            parameters,
            calls,
            returned_of(unit.trigger.returns, calls),
        )
        fired = fired_trigger(number, firing, setting.rules, event_class, values, self.ruling.calling)
        self._queue(unit, firing, moment)
        self.chronon.firings.append(fired)

    def _told_seq(self, moment: _Moment) -> int | None:
        """The `seq` of the version that was read there; a complex event has that of the one that completed it."""
        seq = 0 if moment.is_timer else int(self.history.seq[moment.row])
        return seq if 0 < seq < SELECTED else None

    def _event(self, moment: _Moment, used: Waiting) -> tuple[EventClass, Mapping[str, Value]]:
        """The class of the triggering event and its values; where the clock triggers those of the last constituent."""
        if moment.is_timer:
            return self.plan.event_classes[used.last[0]], used.last[1]
        batch, row = self.history, moment.row
        code, at = int(batch.code[row]), int(batch.row[row])
        columns = zip(batch.tables[code].column_names, batch.tables[code].columns, strict=True)
        values = {attribute_key(name): python_values(_one(column, at))[0] for name, column in columns}
        times = {"occ_time": int(batch.occ_time[row]), "det_time": int(batch.det_time[row])}
        return batch.classes[code], {**values, **times}

    def _queue(self, unit: TriggerUnit, firing: Firing, moment: _Moment) -> None:
        seq = abs(self._seq(moment))
        depth = self.chronon.depths.get(seq, 0) + 1
        at = len(self.chronon.firings)
        posts = [deed for call in firing.calls for deed in call.deeds if isinstance(deed, Posted)]
        for number, posted in enumerate(posts):
            if posted.refused is None and depth > self.ruling.depth_max:
                self.chronon.became[at, number] = Refusal.TOO_DEEP
            elif posted.refused is None:
                self.chronon.queue.append(QueuedPost(posted, unit.trigger.name, depth, at, number))


def _named(
    unit: TriggerUnit,
    parameters: Sequence[Value],
    used: Waiting,
    event_class: EventClass,
    values: Mapping[str, Value],
) -> Callable[[Field], Value]:
    """Finds a parameter; or `Class.attr` of the latest constituent of the class, else of the triggering event."""
    by_name = {key_of(one.name): value for one, value in zip(unit.trigger.parameters, parameters, strict=True)}
    own = key_of(event_class.name)

    def find(wanted: Field) -> Value:
        if not wanted.scope:
            return by_name[key_of(wanted.name)]
        which = key_of(wanted.scope), attribute_key(wanted.name)
        if which in used.values:
            return used.values[which]
        return values.get(which[1]) if own == which[0] else None

    return find


def _usable(rows: list[int], ranks: Sequence[float], waiting: int) -> list[int]:
    """The rows at which an occurrence may be there to be used, given the ranks at which more come: each uses one.

    Some may have expired by then, so at a few of these rows there is none.
    """
    found: list[int] = []
    came = at = 0
    while at < len(rows):
        while came < len(ranks) and ranks[came] <= rows[at]:
            came += 1
            waiting += 1
        if waiting:
            found.append(rows[at])
            waiting -= 1
            at += 1
        elif came < len(ranks):
            at = bisect_left(rows, ranks[came], at)
        else:
            break
    return found


def _one(column: pa.ChunkedArray, row: int) -> pa.Array:
    found = column.slice(row, 1)
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _waiting(unit: TriggerUnit, found: Found) -> Waiting:
    """What is kept of an occurrence until a firing uses it."""
    detector, parts = unit.detector, found.occ.parts
    assert detector is not None
    there = {version.name for version, _ in parts}
    values = {
        (key_of(one.scope), attribute_key(one.name)): detector.tests.value(one, found.occ)
        for one in unit.wanted
        if key_of(one.scope) in there
    }
    last = parts[-1][0]
    of_last = {**last.values, "occ_time": last.occ_time, "det_time": last.det_time} if unit.by_clock else {}
    return Waiting(found.occ.det_time, found.occ.until, tuple(constituents(found.occ)), values, (last.name, of_last))


def disabled(plan: EnginePlan, state: TriggersState) -> frozenset[str]:
    """The keys of the rules that are off, by themselves or by one of their groups."""
    if not state.off:
        return frozenset()
    return frozenset(
        key_of(rule.name)
        for rule in plan.program.rules
        if not state.is_on(Switched.RULE, rule.name)
        or not all(state.is_on(Switched.GROUP, group) for group in rule.groups)
    )


def forget_expired(state: EngineState) -> None:
    """Let go of occurrences that can no longer be used."""
    assert state.tick is not None
    for one in state.triggers.each:
        if one.waiting:
            one.waiting = [each for each in one.waiting if each.until >= state.tick]


def begin_later(plan: EnginePlan, state: EngineState, since: Mapping[str, int]) -> None:
    """After a tick that is worked out again: triggers that came at it or later have seen nothing.

    `since` has by name the last tick that such a trigger has not seen.
    """
    assert state.tick is not None
    for number, unit in enumerate(plan.triggers):
        if unit.name in since and state.tick <= since[unit.name]:
            state.triggers.each[number] = waiting_for(plan, unit)


def carried_over(before: EnginePlan, state: TriggersState, after: EnginePlan) -> TriggersState:
    """What the triggers of another program remember: those that are the same go on, all others have seen nothing.

    How often a name has fired, and what is switched off, stays with the name.
    """
    known = {unit.trigger: one for unit, one in zip(before.triggers, state.each, strict=True)}
    each = [known.get(unit.trigger) or waiting_for(after, unit) for unit in after.triggers]
    return TriggersState(each, state.fired, state.off, state.pending)

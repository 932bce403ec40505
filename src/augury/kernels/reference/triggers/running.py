"""Triggers over a whole history: which fire, in which order, and what their rules do and post (LANGUAGE.md section 7).

In: a program, raw versions, pure functions for actions. Out: all firings in order, and the run that includes what was
posted. A post changes what happens after it, so for every firing that posts all is worked out anew from the first
version on. docs/triggers.md has the readings that this follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from augury.algebra.program import Program
from augury.algebra.rule import Trigger
from augury.algebra.scalar import Field, Value
from augury.event import key_of
from augury.kernels.firing import Firing, Functions, Switched, Turn
from augury.kernels.fitting import fitted_or_null
from augury.kernels.reference.bitemporal import Raw, Reason, Rejected, Run, Select, Version
from augury.kernels.reference.bitemporal.conditions import field_of
from augury.kernels.reference.bitemporal.detecting import Item, Place
from augury.kernels.reference.bitemporal.posting import det_time_of
from augury.kernels.reference.bitemporal.resolution import timed
from augury.kernels.reference.bitemporal.ticks import tick_of
from augury.kernels.reference.triggers.expressions import (
    Occurrence,
    Order,
    occurrences_of,
    order_of,
    triggering_classes,
)
from augury.kernels.reference.triggers.happening import Happening, happening, last_purge, now_at
from augury.kernels.reference.triggers.queueing import Entry, depth_at, inserted, posts_of, raw_of, settled
from augury.kernels.reference.triggers.structures import Setting, calls_of, returned_of
from augury.kernels.reference.triggers.turning import Life, in_force, is_on, lives, program_at

DEPTH_MAX: Final = 32
"""How many posts may follow from one another, if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Triggered:
    """All firings in order, and what the ticks did, with what was posted."""

    firings: tuple[Firing, ...]
    run: Run


@dataclass(frozen=True, slots=True)
class _Rules:
    """What does not change from one attempt to the next."""

    program: Program
    turns: Sequence[Turn]
    functions: Functions
    depth_max: int


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment at which triggers look: a version at its place; or the clock has completed an occurrence for one."""

    order: Order
    item: Item | None
    completed_for: Life | None = None

    @property
    def place(self) -> Place:
        return self.order[0]


@dataclass
class _Used:
    """Which occurrences a trigger has found and which it has used up, by their numbers."""

    occurrences: list[Occurrence]
    used: set[int] = field(default_factory=set)


def triggered(
    program: Program,
    selects: Mapping[str, Select],
    raws: Sequence[Raw],
    until: int | None = None,
    *,
    functions: Functions | None = None,
    turns: Sequence[Turn] = (),
    depth_max: int = DEPTH_MAX,
) -> Triggered:
    """What triggers do over raw versions, up to the last tick by `until` (default: the one after the last of them)."""
    by_name = {key_of(name): function for name, function in (functions or {}).items()}
    rules = _Rules(program, turns, by_name, depth_max)
    # Every entry has an object of its own, by which it is found again.
    entries = [Entry(replace(one)) for raw in raws if (one := timed(raw)) is not None]
    entries.sort(key=lambda entry: det_time_of(entry.raw))
    untimed = tuple(Rejected(None, raw, Reason.NO_TIME) for raw in raws if timed(raw) is None)
    last = det_time_of(entries[-1].raw) if entries else 0
    chronon_us = program.settings.chronon_us
    end = tick_of(last, chronon_us) if until is None else until // chronon_us * chronon_us
    while True:
        happened = happening(program, selects, [entry.raw for entry in entries], end)
        firings, posting = _fired(rules, happened, entries)
        if posting is None:
            return Triggered(tuple(firings), replace(happened.run, untimed=untimed))
        entries = posting


def _fired(rules: _Rules, happened: Happening, entries: list[Entry]) -> tuple[list[Firing], list[Entry] | None]:
    """All firings in order; or, at the first whose posts are not among the entries yet, the entries with them."""
    all_lives = lives(rules.program, rules.turns)
    found = {id(life): _Used(_occurrences(life, happened)) for life in all_lives}
    firings: list[Firing] = []
    known = {entry.cause for entry in entries if entry.cause is not None}
    for moment in _moments(rules, all_lives, happened, found):
        there = [life for life in all_lives if life.is_there(moment.place[0])]
        for life in sorted(there, key=lambda life: _rank(rules, life, moment.place)):
            firing = _look(rules, life, moment, happened, found[id(life)])
            if firing is None:
                continue
            number = len(firings)
            made = posts_of(firing)
            wanted = [place for place, one in enumerate(made) if one.refused is None]
            depth = depth_at(moment.place, happened, entries) + 1
            is_deep = depth > rules.depth_max
            if wanted and not is_deep and (number, wanted[0]) not in known:
                new = [Entry(raw_of(made[place]), (number, place), depth) for place in wanted]
                return firings, inserted(entries, new, moment.place, happened)
            firings.append(settled(firing, number, happened, entries, is_deep=is_deep))
    return firings, None


def _occurrences(life: Life, happened: Happening) -> list[Occurrence]:
    plan = life.trigger.composite
    return [] if plan is None else occurrences_of(plan, happened, life.since)


def _moments(
    rules: _Rules, all_lives: Sequence[Life], happened: Happening, found: Mapping[int, _Used]
) -> list[_Moment]:
    """Versions at their places, and what the clock completes for triggers that name no TRIGGEREVENT."""
    at_versions = [(order_of(item), -1, _Moment(order_of(item), item)) for item in happened.items]
    # What the clock completes for several triggers at one time is taken trigger by trigger, as they are declared.
    at_timers = [
        (one.order, _rank(rules, life, one.order[0]), _Moment(one.order, None, life))
        for life in all_lives
        if not life.trigger.events
        for one in found[id(life)].occurrences
        if one.is_timed and life.is_there(one.order[0][0])
    ]
    return [moment for *_, moment in sorted([*at_versions, *at_timers], key=lambda each: each[:2])]


def _rank(rules: _Rules, life: Life, place: Place) -> int:
    """The place of a trigger that is there among those declared then."""
    return program_at(rules.program, rules.turns, place[0]).triggers.index(life.trigger)


# ---- one trigger at one moment --------------------------------------------------------------------


def _look(rules: _Rules, life: Life, moment: _Moment, happened: Happening, state: _Used) -> Firing | None:
    """The firing of a trigger at a moment, if it fires; what it uses up is noted."""
    trigger = life.trigger
    if not _is_triggering(life, moment) or not is_on(rules.turns, Switched.TRIGGER, trigger.name, moment.place[0]):
        return None
    if trigger.composite is None:
        assert moment.item is not None, "only an expression has timers"
        return _firing(rules, trigger, moment, happened, (moment.item.version,), moment.item.numbers)
    for number, one in enumerate(state.occurrences):
        if number not in state.used and _waits(rules, trigger, one, moment, happened):
            state.used.add(number)
            return _firing(rules, trigger, moment, happened, one.parts, one.constituents)
    return None


def _is_triggering(life: Life, moment: _Moment) -> bool:
    if moment.item is None:
        return moment.completed_for is life
    version = moment.item.version
    return version.occ_time is not None and key_of(version.event_class) in triggering_classes(life.trigger)


def _waits(rules: _Rules, trigger: Trigger, one: Occurrence, moment: _Moment, happened: Happening) -> bool:
    """Whether an occurrence has taken place by now, while the trigger was enabled, and no part of it has expired."""
    if one.order > moment.order or not is_on(rules.turns, Switched.TRIGGER, trigger.name, one.order[0][0]):
        return False
    tick = last_purge(moment.place, happened.chronon_us)
    return not any(_is_purged(version, happened, tick) for version in one.parts)


def _is_purged(version: Version, happened: Happening, tick: int) -> bool:
    lifespan_us = happened.classes[version.event_class].lifespan_us
    assert version.occ_time is not None
    return lifespan_us is not None and version.det_time < tick and version.occ_time + lifespan_us < tick


def _firing(
    rules: _Rules,
    trigger: Trigger,
    moment: _Moment,
    happened: Happening,
    parts: Sequence[Version],
    constituents: tuple[int, ...],
) -> Firing:
    """The trigger's rules at work. Where the clock triggers, the last constituent gives the parameters."""
    version = parts[-1] if moment.item is None else moment.item.version
    det_time = moment.place[0]
    kinds = [parameter.type for parameter in trigger.parameters]
    parameters = tuple(fitted_or_null(v, kind) for v, kind in zip(version.values, kinds, strict=False))
    now = now_at(moment.place, happened.chronon_us)
    setting = Setting(
        lambda wanted: _named(wanted, trigger, parameters, parts, version, happened),
        now,
        det_time,
        in_force(rules.program, rules.turns, det_time),
        happened.classes,
        rules.functions,
        trigger.policy,
    )
    calls = tuple(calls_of(trigger.structure, setting))
    return Firing(
        trigger.name,
        None if moment.item is None else version.event_class,
        None if moment.item is None else version.seq,
        det_time,
        now,
        constituents,
        parameters,
        calls,
        returned_of(trigger.returns, calls),
    )


def _named(
    wanted: Field,
    trigger: Trigger,
    parameters: Sequence[Value],
    parts: Sequence[Version],
    version: Version,
    happened: Happening,
) -> Value:
    """A parameter; or `Class.attr` of the latest constituent of the class, else of the triggering event, else NULL."""
    if not wanted.scope:
        names = [key_of(parameter.name) for parameter in trigger.parameters]
        return parameters[names.index(key_of(wanted.name))]
    of_class = [one for one in (version, *parts) if key_of(one.event_class) == key_of(wanted.scope)]
    if not of_class:
        return None
    return field_of(happened.classes[of_class[-1].event_class], of_class[-1], wanted.name)

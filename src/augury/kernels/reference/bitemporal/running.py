"""A whole program over a list of raw versions, tick by tick: read → derive → decide → publish, then purge.

In: a program of subscribed and SELECT classes, a function per SELECT, raw versions, how far the clock goes. Out: what
every tick did, and what is there at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.reference.bitemporal.deciding import Action, Course, decide
from augury.kernels.reference.bitemporal.expiry import expiries
from augury.kernels.reference.bitemporal.resolution import resolve, retained, timed
from augury.kernels.reference.bitemporal.selecting import (
    Made,
    Rows,
    Select,
    SelectFailed,
    differences,
    is_same,
    keyed,
    views_of,
)
from augury.kernels.reference.bitemporal.ticks import tick_of, ticks_between
from augury.kernels.reference.bitemporal.version import EventId, Raw, Reason, Rejected, Version, ranks


@dataclass(frozen=True, slots=True)
class Failed:
    """A SELECT class that could not be evaluated at a tick, and why."""

    event_class: str
    message: str


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick did.

    `read`: accepted versions; `published`: versions of complex events by class and key; `warnings`: rows of SELECT
    classes that did not count, by class.
    """

    tick: int
    read: tuple[Version, ...]
    published: tuple[Version, ...]
    actions: tuple[Action, ...]
    rejected: tuple[Rejected, ...]
    absorbed: tuple[Raw, ...]
    purged: tuple[Version, ...]
    failed: tuple[Failed, ...]
    warnings: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Run:
    """All ticks, and what is there after the last. `untimed`: versions refused because they have no time at all."""

    ticks: tuple[Tick, ...]
    history: tuple[Version, ...]
    live: Mapping[EventId, Version]
    archive: tuple[Version, ...]
    untimed: tuple[Rejected, ...]


@dataclass
class _State:
    """What one tick leaves for the next."""

    history: list[Version] = field(default_factory=list)
    live: dict[EventId, Version] = field(default_factory=dict)
    made_of: dict[EventId, frozenset[EventId]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    courses: dict[EventId, Course] = field(default_factory=dict)
    archive: list[Version] = field(default_factory=list)
    seq: int = 0

    def take(self, version: Version) -> None:
        self.history.append(version)
        if version.occ_time is None:
            del self.live[version.event]
        else:
            self.live[version.event] = version


def run(program: Program, selects: Mapping[str, Select], raws: Sequence[Raw], until: int | None = None) -> Run:
    """The program over raw versions, up to the tick at `until` (default: the one after the last version)."""
    plans = _covered(program)
    chronon_us = program.settings.chronon_us
    known = [(raw, timed(raw)) for raw in raws]
    untimed = tuple(Rejected(None, raw, Reason.NO_TIME) for raw, with_times in known if with_times is None)
    ordered = sorted((raw for _, raw in known if raw is not None), key=lambda raw: raw.det_time or 0)
    by_tick: dict[int, list[Raw]] = {}
    for raw in ordered:
        by_tick.setdefault(tick_of(raw.det_time or 0, chronon_us), []).append(raw)
    if not by_tick:
        return Run((), (), {}, (), untimed)
    state = _State(rows={plan.event_class.name: {} for plan in plans if plan.derivation is not None})
    last = max(by_tick) if until is None else until
    ticks = tuple(
        _tick(program, plans, selects, state, by_tick.get(tick, []), tick)
        for tick in ticks_between(min(by_tick), last, chronon_us)
    )
    return Run(ticks, tuple(state.history), dict(state.live), tuple(state.archive), untimed)


def _covered(program: Program) -> list[ClassPlan]:
    """The plans, in declared order; the reference covers subscribed and SELECT classes only."""
    for plan in program.classes:
        is_subscribed = plan.derivation is None and plan.event_class.kind is ClassKind.SUBSCRIBED
        assert is_subscribed or isinstance(plan.derivation, SelectPlan), f"{plan.event_class.name} is not covered"
    return list(program.classes)


def _tick(
    program: Program,
    plans: Sequence[ClassPlan],
    selects: Mapping[str, Select],
    state: _State,
    raws: Sequence[Raw],
    tick: int,
) -> Tick:
    before = dict(state.live)
    read, rejected, absorbed = _read(plans, state, raws, tick)
    published, failed, warnings = _derive(program, plans, selects, state, tick)
    arrived = {version.event: version for version in [*read, *published]}
    actions, state.courses = decide(plans, state.courses, before, arrived, tick, program.settings.chronon_us)
    purged = _purge(program, plans, state, tick)
    if purged:
        _rebase(plans, selects, state, tick, {failure.event_class for failure in failed})
    state.history = retained(state.history, state.live, tick, program.settings.retain_us)
    return Tick(
        tick,
        tuple(read),
        tuple(published),
        tuple(actions),
        tuple(rejected),
        tuple(absorbed),
        tuple(purged),
        tuple(failed),
        warnings,
    )


def _read(
    plans: Sequence[ClassPlan], state: _State, raws: Iterable[Raw], tick: int
) -> tuple[list[Version], list[Rejected], list[Raw]]:
    classes = {key_of(plan.event_class.name): plan.event_class for plan in plans if plan.derivation is None}
    read: list[Version] = []
    rejected: list[Rejected] = []
    absorbed: list[Raw] = []
    for raw in raws:
        match resolve(classes[key_of(raw.event_class)], raw, state.history, state.live, state.seq + 1):
            case None:
                absorbed.append(raw)
            case Reason() as reason:
                rejected.append(Rejected(tick, raw, reason))
            case version:
                state.seq += 1
                state.take(version)
                read.append(version)
    return read, rejected, absorbed


def _derive(
    program: Program, plans: Sequence[ClassPlan], selects: Mapping[str, Select], state: _State, tick: int
) -> tuple[list[Version], list[Failed], dict[str, int]]:
    """Every SELECT class, each after those it reads; what is published stands in the order of declaration."""
    by_name = {plan.event_class.name: plan for plan in plans}
    found: dict[str, list[Version]] = {name: [] for name in by_name}
    failed: list[Failed] = []
    warnings: dict[str, int] = {}
    for name in (name for layer in program.strata for name in layer):
        plan = by_name[name]
        if plan.derivation is None:
            continue
        try:
            rows, others = _evaluated(plan, selects, state, tick)
        except SelectFailed as failure:
            failed.append(Failed(name, str(failure)))
            continue
        if others:
            warnings[name] = others
        versions = differences(plan.event_class, rows, state.rows[name], state.live, tick)
        state.rows[name] = rows
        for version in versions:
            numbered = replace(version, constituents=_numbers(rows.get(version.key), state))
            state.take(numbered)
            found[name].append(numbered)
        _trace(plan.event_class, rows, state)
    return [version for versions in found.values() for version in versions], failed, warnings


def _evaluated(plan: ClassPlan, selects: Mapping[str, Select], state: _State, now: int) -> tuple[Rows, int]:
    name = plan.event_class.name
    return keyed(plan.event_class, selects[name](views_of(state.live, plan.reads), now))


def _numbers(row: Made | None, state: _State) -> tuple[int, ...]:
    """The `seq` of every subscribed version below a row."""
    found: set[int] = set()
    waiting = list(row.constituents) if row is not None else []
    while waiting:
        event = waiting.pop()
        version = state.live[event]
        if version.seq is not None:
            found.add(version.seq)
        waiting.extend(state.made_of.get(event, frozenset()) & state.live.keys())
    return tuple(sorted(found))


def _trace(event_class: EventClass, rows: Rows, state: _State) -> None:
    """Note what events are made of: those that are there and whose row says so now."""
    for key, row in rows.items():
        event = (event_class.name, key)
        if event in state.live and is_same(state.live[event], row):
            state.made_of[event] = row.constituents


def _purge(program: Program, plans: Sequence[ClassPlan], state: _State, tick: int) -> list[Version]:
    lifespans_us = {plan.event_class.name: plan.event_class.lifespan_us for plan in plans}
    strata = [name for layer in program.strata for name in layer]
    purged = [
        state.live.pop(event)
        for event, expiry in expiries(state.live, state.made_of, lifespans_us, strata).items()
        if expiry is not None and expiry < tick
    ]
    for events in (state.made_of, state.courses):
        for event in [event for event in events if event not in state.live]:
            del events[event]
    order = [plan.event_class.name for plan in plans]
    purged.sort(key=lambda version: (order.index(version.event_class), ranks(version.key)))
    if program.settings.archive:
        state.archive.extend(purged)
    return purged


def _rebase(
    plans: Sequence[ClassPlan], selects: Mapping[str, Select], state: _State, tick: int, failed: set[str]
) -> None:
    """What purging did to the rows of SELECTs is no news: from now on they are compared with these."""
    for plan in plans:
        if plan.derivation is None or plan.event_class.name in failed:
            continue
        try:
            state.rows[plan.event_class.name], _ = _evaluated(plan, selects, state, tick)
        except SelectFailed:
            continue

"""A whole program over a list of raw versions, tick by tick: read → derive → decide → publish, then purge.

In: a program, a function per SELECT, raw versions, how far the clock goes. Out: what every tick did, and what is there
at the end. MATCH and COMPOSITE are detected from the first version on at every tick; what was there at the tick before
is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import ByOccurrence, MatchPlan
from augury.algebra.program import ClassPlan, Cron, Every, Program
from augury.algebra.select import SelectPlan
from augury.event import EventClass, key_of
from augury.kernels.reference.bitemporal.correcting import Corrected, said, turns
from augury.kernels.reference.bitemporal.deciding import Action, Course, decide
from augury.kernels.reference.bitemporal.detecting import (
    Found,
    Item,
    Origins,
    detected_item,
    key_of_occurrence,
    made_of_complex,
    made_of_versions,
    occurrences,
    read_item,
    selected_item,
)
from augury.kernels.reference.bitemporal.expiry import expiries
from augury.kernels.reference.bitemporal.posting import Posted, det_time_of, in_order
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
from augury.kernels.reference.bitemporal.version import Change, EventId, Raw, Reason, Rejected, Version, ranks


@dataclass(frozen=True, slots=True)
class Failed:
    """A SELECT class that could not be evaluated at a tick, and why."""

    event_class: str
    message: str


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick did.

    `read`: accepted versions and events of the clock; `published`: versions of complex events by class, then place,
    key, constituents (SELECT: key); `warnings`: rows of SELECT classes that did not count, by class.
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
    """What one tick leaves for the next.

    `made_of` is kept for events of SELECTs, `complex_parts` for each event of a MATCH or COMPOSITE the complex events
    that its newest version was made of when it took place; `items` are all versions ever, for MATCH and COMPOSITE, of
    which `detected` are the occurrences so far, by class; `corrected` is for those with ORDER BY OCCURRENCE.
    """

    history: list[Version] = field(default_factory=list)
    live: dict[EventId, Version] = field(default_factory=dict)
    made_of: dict[EventId, frozenset[EventId]] = field(default_factory=dict)
    complex_parts: dict[EventId, tuple[Version, frozenset[EventId]]] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=dict)
    courses: dict[EventId, Course] = field(default_factory=dict)
    archive: list[Version] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    detected: dict[str, list[Found]] = field(default_factory=dict)
    corrected: dict[str, Corrected] = field(default_factory=dict)
    origins: Origins = field(default_factory=lambda: Origins({}, {}))
    seq: int = 0

    def take(self, version: Version) -> None:
        self.history.append(version)
        if version.occ_time is None:
            del self.live[version.event]
            for event, (newest, parts) in self.complex_parts.items():
                # One that is announced again is another event.
                self.complex_parts[event] = newest, parts - {version.event}
        else:
            self.live[version.event] = version


def run(
    program: Program,
    selects: Mapping[str, Select],
    raws: Sequence[Raw],
    until: int | None = None,
    since: int | None = None,
) -> Run:
    """The program over raw versions, up to the tick at `until` (default: the one after the last version).

    The clock goes from the chronon of the first version on, or from that of `since`, if it was followed before.
    """
    plans = list(program.classes)
    chronon_us = program.settings.chronon_us
    known = [(raw, timed(raw)) for raw in raws]
    untimed = tuple(Rejected(None, raw, Reason.NO_TIME) for raw, with_times in known if with_times is None)
    ordered = sorted((raw for _, raw in known if raw is not None), key=det_time_of)
    if not ordered:
        return Run((), (), {}, (), untimed)
    first, last = (tick_of(det_time_of(raw), chronon_us) for raw in (ordered[0], ordered[-1]))
    first = first if since is None else min(first, tick_of(since, chronon_us))
    moments = ticks_between(first, last if until is None else until, chronon_us)
    by_tick: dict[int, list[Raw | Posted]] = {}
    begin = first - chronon_us
    for incoming in in_order(plans, ordered, begin, moments[-1] if moments else begin):
        by_tick.setdefault(tick_of(det_time_of(incoming), chronon_us), []).append(incoming)
    state = _State(
        rows={plan.event_class.name: {} for plan in plans if isinstance(plan.derivation, SelectPlan)},
        detected={plan.event_class.name: [] for plan in plans if _is_detected(plan)},
    )
    ticks = tuple(_tick(program, plans, selects, state, by_tick.get(tick, []), tick) for tick in moments)
    return Run(ticks, tuple(state.history), dict(state.live), tuple(state.archive), untimed)


def _is_detected(plan: ClassPlan) -> bool:
    return isinstance(plan.derivation, MatchPlan | CompositePlan)


def _tick(
    program: Program,
    plans: Sequence[ClassPlan],
    selects: Mapping[str, Select],
    state: _State,
    incoming: Sequence[Raw | Posted],
    tick: int,
) -> Tick:
    before = dict(state.live)
    read, rejected, absorbed = _read(plans, state, incoming, tick)
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
    plans: Sequence[ClassPlan], state: _State, incoming: Iterable[Raw | Posted], tick: int
) -> tuple[list[Version], list[Rejected], list[Raw]]:
    classes = {key_of(plan.event_class.name): plan.event_class for plan in plans if plan.derivation is None}
    read: list[Version] = []
    rejected: list[Rejected] = []
    absorbed: list[Raw] = []
    for one in incoming:
        if isinstance(one, Posted):
            seq = state.seq + 1
            resolved: Version | Reason | None = Version(
                one.event_class, (seq,), (), one.time, one.time, Change.ANNOUNCE, seq
            )
        else:
            resolved = resolve(classes[key_of(one.event_class)], one, state.history, state.live, state.seq + 1)
        match resolved:
            case None:
                assert isinstance(one, Raw)
                absorbed.append(one)
            case Reason() as reason:
                assert isinstance(one, Raw)
                rejected.append(Rejected(tick, one, reason))
            case version:
                state.seq += 1
                state.take(version)
                state.origins.read(version)
                state.items.append(read_item(version))
                read.append(version)
    return read, rejected, absorbed


def _derive(
    program: Program, plans: Sequence[ClassPlan], selects: Mapping[str, Select], state: _State, tick: int
) -> tuple[list[Version], list[Failed], dict[str, int]]:
    """Every complex class, each after those it reads; what is published stands in the order of declaration."""
    declared = {plan.event_class.name: place for place, plan in enumerate(plans)}
    found: dict[str, list[Version]] = {name: [] for name in declared}
    failed: list[Failed] = []
    warnings: dict[str, int] = {}
    for name in (name for layer in program.strata for name in layer):
        plan = plans[declared[name]]
        match plan.derivation:
            case None | Cron() | Every():
                continue
            case MatchPlan(by_occurrence=ByOccurrence()) | CompositePlan(by_occurrence=ByOccurrence()):
                found[name] = _correct(plan, plans, state, declared[name], tick, program.settings.chronon_us)
            case MatchPlan() | CompositePlan():
                found[name] = _detect(plan, plans, state, declared[name], tick, program.settings.chronon_us)
            case SelectPlan():
                try:
                    found[name], others = _select(plan, plans, selects, state, declared[name], tick)
                except SelectFailed as failure:
                    failed.append(Failed(name, str(failure)))
                    continue
                if others:
                    warnings[name] = others
    return [version for versions in found.values() for version in versions], failed, warnings


def _detect(
    plan: ClassPlan, plans: Sequence[ClassPlan], state: _State, declared: int, tick: int, chronon_us: int
) -> list[Version]:
    """The occurrences that were not there at the tick before, as versions of events."""
    event_class = plan.event_class
    before = state.detected[event_class.name]
    found = occurrences(plan, _classes(plans), state.items, tick, chronon_us)
    assert list(map(_known_by, found[: len(before)])) == list(map(_known_by, before)), "what was there is there no more"
    state.detected[event_class.name] = found
    versions: list[Version] = []
    for number, one in list(enumerate(found, 1))[len(before) :]:
        key = key_of_occurrence(event_class, one, number)
        change = Change.CHANGE if (event_class.name, key) in state.live else Change.ANNOUNCE
        version = Version(
            *(event_class.name, key, one.values, one.occ_time, one.det_time, change),
            seq=one.seq,
            constituents=one.constituents,
        )
        state.take(version)
        state.items.append(detected_item(one, version, declared, event_class))
        versions.append(version)
    return versions


def _correct(
    plan: ClassPlan, plans: Sequence[ClassPlan], state: _State, declared: int, tick: int, chronon_us: int
) -> list[Version]:
    """What a class with ORDER BY OCCURRENCE says since the tick before."""
    corrected = state.corrected.setdefault(plan.event_class.name, Corrected())
    versions: list[Version] = []
    for turn in turns(plan, _classes(plans), corrected, list(state.items), tick, chronon_us):
        for item in said(plan, declared, turn, state.live):
            state.take(item.version)
            state.items.append(item)
            versions.append(item.version)
    return versions


def _known_by(found: Found) -> object:
    """Two of these are equal also where values are NaN."""
    return found.place, found.occ_time, found.constituents, ranks(found.values)


def _select(
    plan: ClassPlan,
    plans: Sequence[ClassPlan],
    selects: Mapping[str, Select],
    state: _State,
    declared: int,
    tick: int,
) -> tuple[list[Version], int]:
    """What the rows of a SELECT announce, change and withdraw, and how many of them did not count."""
    name = plan.event_class.name
    rows, others = _evaluated(plan, selects, state, tick)
    found: list[Version] = []
    for version in differences(plan.event_class, rows, state.rows[name], state.live, tick):
        numbered = replace(version, constituents=_numbers(rows.get(version.key), plans, state))
        state.take(numbered)
        state.items.append(selected_item(numbered, declared))
        found.append(numbered)
    state.rows[name] = rows
    _trace(plan.event_class, rows, state)
    return found, others


def _classes(plans: Sequence[ClassPlan]) -> dict[str, EventClass]:
    return {plan.event_class.name: plan.event_class for plan in plans}


def _evaluated(plan: ClassPlan, selects: Mapping[str, Select], state: _State, now: int) -> tuple[Rows, int]:
    name = plan.event_class.name
    return keyed(plan.event_class, selects[name](views_of(state.live, plan.reads), now))


def _numbers(row: Made | None, plans: Sequence[ClassPlan], state: _State) -> tuple[int, ...]:
    """The `seq` of every version that was read below a row."""
    detected = {plan.event_class.name for plan in plans if _is_detected(plan)}
    found: set[int] = set()
    waiting = list(row.constituents) if row is not None else []
    while waiting:
        event = waiting.pop()
        version = state.live[event]
        if version.event_class in detected:
            found.update(version.constituents)
            continue
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


def _made_of(plans: Sequence[ClassPlan], state: _State) -> dict[EventId, frozenset[EventId]]:
    """What every complex event is made of now."""
    by_name = {plan.event_class.name: plan for plan in plans if _is_detected(plan)}
    classes = _classes(plans)
    detected: dict[EventId, frozenset[EventId]] = {}
    for event, version in state.live.items():
        if version.event_class in by_name:
            if event not in state.complex_parts or state.complex_parts[event][0] is not version:
                parts = made_of_complex(version, by_name[version.event_class], classes, state.live)
                state.complex_parts[event] = version, parts
            detected[event] = made_of_versions(version, state.origins) | state.complex_parts[event][1]
    return {**state.made_of, **detected}


def _purge(program: Program, plans: Sequence[ClassPlan], state: _State, tick: int) -> list[Version]:
    lifespans_us = {plan.event_class.name: plan.event_class.lifespan_us for plan in plans}
    strata = [name for layer in program.strata for name in layer]
    purged = [
        state.live.pop(event)
        for event, expiry in expiries(state.live, _made_of(plans, state), lifespans_us, strata).items()
        if expiry is not None and expiry < tick
    ]
    for version in purged:
        state.origins.purged(version.event)
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
        if not isinstance(plan.derivation, SelectPlan) or plan.event_class.name in failed:
            continue
        try:
            state.rows[plan.event_class.name], _ = _evaluated(plan, selects, state, tick)
        except SelectFailed:
            continue

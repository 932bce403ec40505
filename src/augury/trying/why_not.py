"""Why an event is not there, or an action did not fire: the first thing that was missing.

In: a simulation up to the time that is asked about. Out: a `NotThere`; `why_told` makes text and JSON of it. MATCH and
COMPOSITE are asked of their kernels, at the last version that has to do with the key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Cron, Every
from augury.algebra.scalar import Constant, dump
from augury.algebra.select import SelectPlan
from augury.clock import show_time
from augury.engine.plan import SelectUnit
from augury.event import key_of
from augury.kernels.batch import Batch
from augury.kernels.composite.why_not import why_not as why_not_composite
from augury.kernels.match.why_not import why_not as why_not_match
from augury.kernels.told import WhyNot
from augury.trying.shown import Refused
from augury.trying.simulate import Simulation
from augury.trying.simulate_record import EventKey, Record, Version, shown_value
from augury.trying.why import does, ran, require_action
from augury.trying.why_asked import Asked, Unanswerable, event_asked, no_such_event, versions_asked
from augury.trying.why_conditions import look_at, values_of, why_not_fired
from augury.trying.why_corrected import corrected
from augury.trying.why_detected import Wanted, came, is_timed, of_key, wanted_by
from augury.trying.why_events import UNTOLD, reads_of
from augury.trying.why_rules import NotRuled, Ruled, rules_doing, why_not_ruled
from augury.trying.why_select import why_no_row


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that did not fire at a tick: its condition, the part that failed, and what it looked at."""

    number: int
    condition: str
    part: str
    sentence: str
    values: dict[str, Constant]


@dataclass(frozen=True, slots=True)
class NotThere:
    """What was asked about at which tick, and what was missing first; `took_place` says that nothing was.

    `looked_at` is the version whose arrival was looked at, `versions` are those of the event that were known. Of an
    action there are the `statements` of the class and the `rules` of triggers that do it.
    """

    asked: str
    tick: int
    took_place: bool
    part: str
    sentence: str
    looked_at: Version | None = None
    versions: tuple[Version, ...] = ()
    statements: tuple[Statement, ...] = ()
    action: str | None = None
    rules: tuple[NotRuled, ...] = ()


def why_not(simulation: Simulation, asked: Asked, seq: int | None = None) -> NotThere:
    """What an event lacked after the last tick of a simulation, or a MATCH or COMPOSITE at a version."""
    record = ran(simulation)
    tick = record.ticks[-1]
    versions = versions_asked(record, asked)
    if seq is None and versions and (there := _there(record, asked, versions[-1], tick)) is not None:
        return there
    match asked.plan.derivation:
        case MatchPlan(by_occurrence=None) | CompositePlan(by_occurrence=None):
            return _not_detected(record, asked, seq, tuple(versions))
        case MatchPlan() | CompositePlan():
            return _not_by_occurrence(record, asked, seq, tuple(versions))
        case SelectPlan():
            return _not_selected(simulation, asked, tuple(versions))
        case Cron() | Every():
            return NotThere(asked.text, tick, False, asked.event_class.name, "the clock has not posted it by then")
        case None:
            return _not_received(record, asked, tuple(versions), simulation.refused)


def _there(record: Record, asked: Asked, version: Version, tick: int) -> NotThere | None:
    """That the event is there, if it is."""
    look = look_at(record, version.event_key, tick)
    if look is None or look.new.is_withdrawal:
        return None
    sentence = f"it is there since the tick {show_time(look.new.tick)}: `augury why` says why"
    return NotThere(asked.text, tick, True, version.text, sentence, version, tuple(record.of_event[version.event_key]))


def _gone(record: Record, asked: Asked, version: Version) -> str:
    """What became of the event that was there."""
    if version.is_withdrawal:
        return f"{asked.text} was withdrawn at the tick {show_time(version.tick)}"
    left = next(tick for tick in record.left[version.event_key] if tick >= version.tick)
    return (
        f"{asked.text} was there since the tick {show_time(version.tick)}, expired, and was purged at {show_time(left)}"
    )


# ---- what came in, and SELECT ------------------------------------------------------------------------------------


def _not_received(record: Record, asked: Asked, versions: tuple[Version, ...], rejected: list[Refused]) -> NotThere:
    name, tick = asked.event_class.name, record.ticks[-1]
    if versions:
        return NotThere(asked.text, tick, False, name, _gone(record, asked, versions[-1]), versions[-1], versions)
    refused = [one.reason for one in rejected if key_of(one.event) == key_of(name)]
    were = "was" if len(refused) == 1 else "were"
    more = f"; {len(refused)} of this class {were} rejected, the last because {refused[-1]}" if refused else ""
    return NotThere(asked.text, tick, False, name, f"no such event came by {show_time(tick)}{more}")


def _not_selected(simulation: Simulation, asked: Asked, versions: tuple[Version, ...]) -> NotThere:
    tick = simulation.record.ticks[-1]
    unit = next(one for one in simulation.plan.units if isinstance(one, SelectUnit) and one.place == asked.place)
    found = why_no_row(simulation.plan, simulation.state, unit, asked.wanted)
    before = f"{_gone(simulation.record, asked, versions[-1])}; " if versions else ""
    looked_at = versions[-1] if versions else None
    return NotThere(asked.text, tick, False, found.part, before + found.sentence, looked_at, versions)


# ---- MATCH and COMPOSITE -----------------------------------------------------------------------------------------


def _not_detected(record: Record, asked: Asked, seq: int | None, versions: tuple[Version, ...]) -> NotThere:
    plan, tick = asked.plan.derivation, record.ticks[-1]
    assert isinstance(plan, MatchPlan | CompositePlan)
    wanted = wanted_by(plan, asked.wanted, record)
    found = came(wanted, record)
    completing = [version for version, part in found if part.completes]
    if seq is None and versions:
        sentence = _gone(record, asked, versions[-1])
        return NotThere(asked.text, tick, False, asked.event_class.name, sentence, versions[-1], versions)
    at, looked_at = seq, record.received.get(seq or 0)
    at_us = None
    if seq is None and is_timed(plan) and (not completing or completing[-1].tick < tick):
        at_us = tick
    elif seq is None and not completing:
        return _never_came(asked, tick, wanted, found)
    elif seq is None:
        looked_at = completing[-1]
        at = record.number_of(looked_at) if isinstance(plan, MatchPlan) else record.history_seq(looked_at)
        at_us = looked_at.det_time if at is None else None
    answer = _asked(record, asked, wanted, at, at_us)
    sentence = record.readable(answer.sentence)
    if answer.took_place and seq is None:
        sentence = f"{sentence}, but with other values than {asked.text}"
    took_place = answer.took_place and seq is not None
    return NotThere(asked.text, tick, took_place, answer.part, sentence, looked_at, versions)


def _not_by_occurrence(record: Record, asked: Asked, seq: int | None, versions: tuple[Version, ...]) -> NotThere:
    """What an expression lacks over what is known of what happened, in the order in which it did."""
    plan, tick = asked.plan.derivation, record.ticks[-1]
    assert isinstance(plan, MatchPlan | CompositePlan)
    assert plan.by_occurrence is not None
    if seq is None and versions:
        sentence = _gone(record, asked, versions[-1])
        return NotThere(asked.text, tick, False, asked.event_class.name, sentence, versions[-1], versions)
    if reads_of(record.plan, asked.place):
        sentence = "what an expression lacks that is ordered by occurrence and reads complex events is not told"
        return NotThere(asked.text, tick, False, asked.event_class.name, sentence, versions=versions)
    known, wanted = corrected(record, plan.by_occurrence), wanted_by(plan, asked.wanted, record)
    came_at = [(known.place_of(version.seq or 0), version, part) for version, part in came(wanted, record)]
    found = sorted(((at, version, part) for at, version, part in came_at if at is not None), key=lambda one: one[0])
    completing = [(at, version) for at, version, part in found if part.completes]
    at, looked_at = known.place_of(seq or 0), record.received.get(seq or 0)
    at_us = None
    if seq is not None and at is None:
        raise Unanswerable(
            f"the version at seq {seq} is none that holds in the end", "ask about another --seq, or --at T"
        )
    if seq is None and is_timed(plan) and (not completing or (completing[-1][1].occ_time or 0) < tick):
        at_us = tick
    elif seq is None and not completing:
        there = _never_came(asked, tick, wanted, [(version, part) for _, version, part in found])
        gone = next((version for at, version, _ in reversed(came_at) if at is None), None)
        why = "it was changed or withdrawn since, or came too late"
        more = "" if gone is None else f"; {gone.text} at seq {gone.seq} does not count: {why}"
        return replace(there, sentence=there.sentence + more)
    elif seq is None:
        at, looked_at = completing[-1]
    answer = _answered(
        replace(plan, by_occurrence=None), known.history, asked, wanted, at, at_us, record.plan.chronon_us
    )
    other = f", but with other values than {asked.text}" if answer.took_place and seq is None else ""
    took_place = answer.took_place and seq is not None
    return NotThere(
        asked.text, tick, took_place, answer.part, known.readable(answer.sentence) + other, looked_at, versions
    )


def _never_came(asked: Asked, tick: int, wanted: list[Wanted], found: list[tuple[Version, Wanted]]) -> NotThere:
    """That what completes the expression has not come, and what has."""
    missing = list(dict.fromkeys(part.text for part in wanted if part.completes or not found))
    values = ", ".join(f"{name} = {shown_value(value)}" for name, value in asked.wanted.items())
    said = f"no {' nor '.join(missing)}{f' with {values}' if values else ''} came by {show_time(tick)}"
    last = found[-1][0] if found else None
    seq = "" if last is None or last.seq is None else f", at seq {last.seq}"
    more = "" if last is None else f"; {last.text} did{seq}"
    return NotThere(asked.text, tick, False, missing[0] if missing else "", said + more, last)


def _asked(record: Record, asked: Asked, wanted: list[Wanted], seq: int | None, at_us: int | None) -> WhyNot:
    plan, reads = asked.plan.derivation, reads_of(record.plan, asked.place)
    assert isinstance(plan, MatchPlan | CompositePlan), "SELECTs are asked elsewhere"
    history = record.history(reads) if isinstance(plan, CompositePlan) else record.numbered_history(reads)
    return _answered(plan, history, asked, wanted, seq, at_us, record.plan.chronon_us)


def _answered(
    plan: MatchPlan | CompositePlan,
    history: Batch,
    asked: Asked,
    wanted: list[Wanted],
    seq: int | None,
    at_us: int | None,
    chronon_us: int,
) -> WhyNot:
    """What a kernel says of a history."""
    try:
        if isinstance(plan, CompositePlan):
            return why_not_composite(plan, of_key(history, wanted), seq, at_us=at_us, chronon_us=chronon_us)
        assert seq is not None, "a MATCH takes place at versions"
        return why_not_match(plan, history, seq, chronon_us=chronon_us)
    except UNTOLD as error:
        raise Unanswerable(f"what {asked.text} lacks cannot be told: {error}") from None


# ---- actions -----------------------------------------------------------------------------------------------------


def why_not_acted(
    simulation: Simulation, asked: Asked, action: str, at_us: int | None, seq: int | None = None
) -> NotThere:
    """What kept an action from firing for an event at a tick: of each statement that does it, the part that failed.

    Where rules do it, what kept their triggers or them from doing so at the last version known by then, or at `seq`.
    """
    require_action(simulation.program, asked, action)
    record = ran(simulation)
    if not versions_asked(record, asked):
        raise no_such_event(record, asked)
    event = event_asked(record, asked, seq)
    if not does(asked, action):
        return _not_ruled(simulation, asked, event, action, seq)
    tick = _tick_asked(record, event, at_us)
    versions = tuple(one for one in record.of_event[event] if one.tick <= tick)
    look = look_at(record, event, tick)
    if look is None:
        sentence = "the event was not there" if versions else "the event was not known yet"
        return NotThere(asked.text, tick, False, asked.event_class.name, sentence, None, versions, (), action)
    found = []
    for number, statement in enumerate(asked.plan.statements):
        name = next((one.name for one in statement.actions if key_of(one.name) == key_of(action)), None)
        if name is None:
            continue
        failed = why_not_fired(look, number, statement, name)
        if failed is None:
            sentence = f"`{name}` did fire, by statement {number + 1}: `augury why` says why"
            return NotThere(asked.text, tick, True, "", sentence, look.new, versions, (), name)
        values = values_of(look, statement.condition, name)
        found.append(Statement(number + 1, dump(statement.condition), failed.part, failed.sentence, values))
    first = found[0]
    there = NotThere(asked.text, tick, False, first.part, first.sentence, look.new, versions, tuple(found), action)
    if look.new.tick != tick or not rules_doing(simulation.program, action):
        return there
    ruled = _not_ruled(simulation, asked, event, action, look.new.seq)
    return ruled if ruled.took_place else replace(there, rules=ruled.rules)


def _not_ruled(simulation: Simulation, asked: Asked, event: EventKey, action: str, seq: int | None) -> NotThere:
    """What kept rules from doing an action at a version, by itself the last: triggers look when one is read."""
    known = [one for one in simulation.record.of_event[event] if seq is None or one.seq == seq]
    version = known[-1]
    versions = tuple(one for one in simulation.record.of_event[event] if one.tick <= version.tick)
    found: list[NotRuled] = []
    for one in why_not_ruled(simulation, version, action):
        if isinstance(one, Ruled):
            said = f"`{one.did.name}` was done, by rule {one.rule.rule} of trigger {one.triggered.trigger}"
            sentence = f"{said}: `augury why` says why"
            return NotThere(asked.text, version.tick, True, "", sentence, version, versions, (), action)
        found.append(one)
    first, tick = found[0], version.tick
    return NotThere(asked.text, tick, False, first.part, first.sentence, version, versions, (), action, tuple(found))


def _tick_asked(record: Record, event: EventKey, at_us: int | None) -> int:
    """The tick that is asked about: the one at that time, or, without one, that which read the last version."""
    if at_us is None:
        return record.of_event[event][-1].tick
    return record.ticks[-1]

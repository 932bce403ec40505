"""Why an event is there, or an action fired: constituents and parts, values of the condition, versions known then.

In: a simulation that has gone as far as the question asks. Out: an `Answer`; `why_told` makes text and JSON of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.event import key_of
from augury.kernels.told import Why
from augury.trying.shown import Acted
from augury.trying.simulate import Simulation, acted_of
from augury.trying.simulate_record import EventKey, Record, Version
from augury.trying.why_asked import Asked, Unanswerable, event_asked
from augury.trying.why_conditions import look_at
from augury.trying.why_events import why_of
from augury.trying.why_rules import Ruled, action_names, why_ruled


@dataclass(frozen=True, slots=True)
class Known:
    """An event that took part, with the versions of it that were known at the time of the question."""

    text: str
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was asked about, and as known at which tick; the version explained, and why it is there.

    `versions` are all of the event that were known, `known` those of the events it is made of. Of an action, `acted`
    says what its condition saw, and `old` is the version that it called OLD; of one that a rule did, `ruled` has the
    rule and its firing.
    """

    asked: str
    tick: int
    version: Version
    versions: tuple[Version, ...]
    why: Why | None
    note: str
    known: tuple[Known, ...]
    left: int | None = None
    acted: Acted | None = None
    old: Version | None = None
    ruled: Ruled | None = None


def why(simulation: Simulation, asked: Asked, seq: int | None = None) -> Answer:
    """Why an event is there; raises `Unanswerable`."""
    record = ran(simulation)
    event = event_asked(record, asked, seq)
    return _answer(record, asked, event, _explained(record, event, seq))


def why_acted(simulation: Simulation, asked: Asked, action: str, seq: int | None = None) -> Answer:
    """Why an action fired for an event, the last time a statement or a rule did it; raises `Unanswerable`."""
    require_action(simulation.program, asked, action)
    record = ran(simulation)
    event = event_asked(record, asked, seq)
    versions = [one for one in record.of_event[event] if seq is None or one.seq == seq]
    ruled = why_ruled(simulation, versions, action)
    found = [(one, of) for one, of in simulation.acts if of == event and key_of(one.name) == key_of(action)]
    if ruled is not None and (not found or found[-1][0].tick < ruled.tick):
        return _answer_ruled(record, asked, event, ruled)
    if not found:
        raise Unanswerable(
            f"`{action}` has not fired for {asked.text} by then",
            f"`augury why-not … --action {action} --at T` says what kept it from firing at a time",
        )
    acted = acted_of(record, *found[-1])
    tick = acted.action.tick
    look = look_at(record, event, tick)
    answer = _answer(record, asked, event, acted.version)
    known = tuple(version for version in answer.versions if version.tick <= tick)
    old = None if look is None else look.old
    return replace(answer, tick=tick, versions=known, left=None, acted=acted, old=old)


def _answer_ruled(record: Record, asked: Asked, event: EventKey, ruled: Ruled) -> Answer:
    """What a rule did, with the versions of the event that were known when it did it."""
    known = tuple(one for one in record.of_event[event] if one.tick <= ruled.tick)
    return Answer(asked.text, ruled.tick, known[-1], known, None, "", (), ruled=ruled)


def does(asked: Asked, action: str) -> bool:
    """Whether a statement of the class does an action."""
    return any(key_of(call.name) == key_of(action) for one in asked.plan.statements for call in one.actions)


def require_action(program: Program, asked: Asked, action: str) -> None:
    """Raise `Unanswerable` for an action that neither a statement of the class has nor a rule of any trigger."""
    names = list(dict.fromkeys(call.name for one in asked.plan.statements for call in one.actions))
    names += [name for name in action_names(program) if name not in names]
    if key_of(action) in map(key_of, names):
        return
    meant = closest(action, names)
    none = "there is none: actions belong to the class whose ON says DO, or to the rules of triggers"
    listed = f"there are {', '.join(names)}" if names else none
    raise Unanswerable(
        f"no statement of `{asked.event_class.name}` does `{action}`, nor does a rule of any trigger",
        f"did you mean `{meant}`?" if meant else listed,
    )


def ran(simulation: Simulation) -> Record:
    """The record of a whole simulation; raises `Unanswerable` if nothing ever happened in it."""
    record = simulation.run()
    if record.ticks:
        return record
    rejected = simulation.rejected
    if len(rejected):
        first = f"the first, {rejected.place[0]}: {rejected.reason[0]}"
        raise Unanswerable("all events were rejected, so there is nothing to ask about", first)
    if simulation.until_us is None:
        raise Unanswerable("no event came, so there is nothing to ask about", "look at what --events names")
    raise Unanswerable("nothing had come by then, so there is nothing to ask about", "leave --at out, or ask later")


def _explained(record: Record, event: EventKey, seq: int | None) -> Version:
    """The version that is meant; by itself the last."""
    versions = record.of_event[event]
    return next((one for one in reversed(versions) if seq is None or one.seq == seq), versions[-1])


def _answer(record: Record, asked: Asked, event: EventKey, version: Version) -> Answer:
    found, note = why_of(record, version, None)
    known: dict[EventKey, Known] = {}
    for one in () if found is None else found.events:
        for seq in one.made_of:
            part = record.received.get(seq)
            if part is not None and part.event_key != event:
                known[part.event_key] = Known(part.text, tuple(record.of_event[part.event_key]))
    left = next((tick for tick in record.left.get(event, ()) if tick >= version.tick), None)
    versions = tuple(record.of_event[event])
    return Answer(asked.text, record.ticks[-1], version, versions, found, note, tuple(known.values()), left)

"""Why a rule did an action, or did not: the trigger that fired, at which event, with what, and the rule's condition.

In: a simulation that has gone as far as the question asks, and an event. Out: a `Ruled` for an action that was done, a
`NotRuled` for every rule that did not do it, with the first thing that was missing. It runs nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from augury.algebra.operators import Operator
from augury.algebra.program import Program
from augury.algebra.rule import ActionCall, Deed, Rule, Trigger
from augury.algebra.scalar import Apply, Constant, Field, Now, Scalar, Value, dump, walk
from augury.engine.rules import value_of
from augury.engine.ticked import FiredTrigger
from augury.engine.trigger_plan import TriggerUnit, rule_calls
from augury.event import key_of
from augury.kernels.composite.inline import inline
from augury.kernels.composite.why_not import why_not as why_not_composite
from augury.kernels.firing import Outcome, Switched
from augury.trying.firings import DidAct, RanRule, Triggered, triggered
from augury.trying.simulate import Simulation
from augury.trying.simulate_record import Record, Version, shown_value
from augury.trying.why_events import UNTOLD
from augury.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class Ruled:
    """An action that a rule did: the firing, the rule with its condition and what that looked at, its constituents."""

    tick: int
    triggered: Triggered
    rule: RanRule
    did: DidAct
    values: dict[str, Constant]
    made_of: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class NotRuled:
    """A rule of a trigger that did not do an action: the part that failed, a sentence, and what the condition saw."""

    trigger: str
    rule: str
    condition: str | None
    part: str
    sentence: str
    values: dict[str, Constant]


def rules_doing(program: Program, action: str) -> list[Rule]:
    """The rules that do an action, if their condition holds or if it does not."""
    return [rule for rule in program.rules if _says(rule.actions, action) or _says(rule.alternatives, action)]


def triggers_doing(program: Program, action: str) -> Iterator[tuple[Trigger, Rule]]:
    """The triggers that have such a rule in their structure, each with every one of them."""
    rules = {key_of(rule.name): rule for rule in rules_doing(program, action)}
    for trigger in program.triggers:
        named = dict.fromkeys(key_of(call.rule) for call in rule_calls(trigger.structure))
        yield from ((trigger, rules[name]) for name in named if name in rules)


def action_names(program: Program) -> list[str]:
    """The actions of all rules that some trigger has, as declared."""
    called = {key_of(call.rule) for trigger in program.triggers for call in rule_calls(trigger.structure)}
    rules = (rule for rule in program.rules if key_of(rule.name) in called)
    deeds = (deed for rule in rules for deed in (*rule.actions, *rule.alternatives))
    return list(dict.fromkeys(deed.name for deed in deeds if isinstance(deed, ActionCall)))


def _says(deeds: Sequence[Deed], action: str) -> bool:
    return any(isinstance(deed, ActionCall) and key_of(deed.name) == key_of(action) for deed in deeds)


# ---- why ---------------------------------------------------------------------------------------------------------


def why_ruled(simulation: Simulation, versions: Sequence[Version], action: str) -> Ruled | None:
    """The last time that a rule did an action at one of these versions, or, if none did, with one as a constituent."""
    firings = list(reversed(simulation.firings))
    at_event = (one for one in firings if any(_is_at(one, version) for version in versions))
    seqs = {version.seq for version in versions if version.seq is not None}
    with_event = (one for one in firings if seqs.intersection(one.firing.constituents))
    for fired in (*at_event, *with_event):
        shown = triggered(simulation.program, fired)
        for rule in shown.rules:
            for deed in rule.deeds:
                if isinstance(deed, DidAct) and key_of(deed.name) == key_of(action):
                    return _ruled(simulation, shown, rule, deed)
    return None


def _ruled(simulation: Simulation, shown: Triggered, rule: RanRule, did: DidAct) -> Ruled:
    firing, record = shown.fired.firing, simulation.record
    declared = next(one for one in simulation.program.rules if key_of(one.name) == key_of(rule.rule))
    made_of = tuple(record.received[seq] for seq in firing.constituents if seq in record.received)
    return Ruled(firing.now, shown, rule, did, _seen(declared.condition, rule, firing.now), made_of)


def _is_at(fired: FiredTrigger, version: Version) -> bool:
    """Whether a firing was at a version: known by its `seq`, or, where it has none, by its key and its tick."""
    firing = fired.firing
    if firing.event_class is None or key_of(firing.event_class) != key_of(version.event_class.name):
        return False
    if firing.seq is not None or version.seq is not None:
        return firing.seq == version.seq and dict(fired.key) == dict(version.fields)
    return firing.now == version.tick and dict(fired.key) == dict(version.fields)


def _seen(condition: Scalar | None, rule: RanRule, now: int) -> dict[str, Constant]:
    """What a condition looked at, by its text, in the order of reading; nothing where the rule did not run."""
    if rule.outcome in (Outcome.DISABLED, Outcome.STOPPED):
        return {}
    given = {key_of(name): value for name, value in rule.arguments}
    found: dict[str, Constant] = {}
    for node in () if condition is None else walk(condition):
        if isinstance(node, Field):
            found.setdefault(dump(node), given[key_of(node.name)])
        elif isinstance(node, Now):
            found.setdefault(dump(node), Constant(now, TIMESTAMP))
    return found


# ---- why not -----------------------------------------------------------------------------------------------------


def why_not_ruled(simulation: Simulation, version: Version, action: str) -> Iterator[NotRuled | Ruled]:
    """Of each trigger and rule that does an action what kept it from doing so at a version; or that it did it."""
    record = simulation.record
    for trigger, rule in triggers_doing(simulation.program, action):
        unit = next(one for one in record.plan.triggers if one.name == key_of(trigger.name))
        fired = [one for one in simulation.firings if key_of(one.firing.trigger) == unit.name]
        own = _own_firing(unit, version, fired)
        if own is None:
            sentence = f"it did not fire: {_not_fired(simulation, unit, version, fired)}"
            yield NotRuled(trigger.name, rule.name, None, trigger.name, sentence, {})
        else:
            yield _not_done(simulation, triggered(simulation.program, own), rule, action)


def _own_firing(unit: TriggerUnit, version: Version, fired: Sequence[FiredTrigger]) -> FiredTrigger | None:
    """The firing at a version; where another event or the clock triggers, the last that it is a constituent of."""
    own = next((one for one in fired if _is_at(one, version)), None)
    if own is not None or version.seq is None:
        return own
    elsewhere = [one for one in fired if one.firing.event_class is None or version.place not in unit.triggering]
    return next((one for one in reversed(elsewhere) if version.seq in one.firing.constituents), None)


def _not_fired(simulation: Simulation, unit: TriggerUnit, version: Version, fired: Sequence[FiredTrigger]) -> str:
    """Why a trigger did not fire at a version: the first thing that was missing."""
    trigger, name = unit.trigger, version.event_class.name
    record = simulation.record
    classes = record.plan.classes
    if version.place not in unit.triggering:
        named = " or ".join(classes[place].event_class.name for place in sorted(unit.triggering))
        clock = ", or the clock does" if unit.by_clock else ""
        return f"events of {named} trigger it{clock}, and none of {name} does"
    if version.is_withdrawal:
        return "a withdrawal triggers nothing"
    if not simulation.state.triggers.is_on(Switched.TRIGGER, trigger.name):
        return "it is disabled"
    assert trigger.composite is not None, "without an expression it fires at every triggering event"
    whole = inline(trigger.composite.expression, None)
    before = [one for one in fired if one.firing.det_time <= version.det_time]
    used = f"; it has fired {_times(len(before))} by then, and used an occurrence each time" if before else ""
    missing = _missing(record, unit, version)
    return f"no occurrence of {whole} waited for it{missing and f': {missing}'}{used}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _missing(record: Record, unit: TriggerUnit, version: Version) -> str:
    """What the expression lacked at a version that it reads; nothing where that cannot be told."""
    plan, seq = unit.trigger.composite, record.history_seq(version)
    if plan is None or seq is None or version.place not in unit.leaves:
        return ""
    try:
        found = why_not_composite(plan, record.history(unit.reads), seq, chronon_us=record.plan.chronon_us)
    except UNTOLD:
        return ""  # the sentence says that nothing waited, which is known
    return "" if found.took_place else record.readable(found.sentence)


def _not_done(simulation: Simulation, shown: Triggered, rule: Rule, action: str) -> NotRuled | Ruled:
    """What became of a rule of a trigger that fired; of several calls of it the first that did it, or else the last."""
    calls = [one for one in shown.rules if key_of(one.rule) == key_of(rule.name)]
    for one in calls:
        for deed in one.deeds:
            if isinstance(deed, DidAct) and key_of(deed.name) == key_of(action):
                return _ruled(simulation, shown, one, deed)
    ran, now = calls[-1], shown.fired.firing.now
    values = _seen(rule.condition, ran, now)
    part, sentence = _kept(rule, ran, now, values)
    return NotRuled(shown.trigger, rule.name, ran.condition, part, sentence, values)


def _kept(rule: Rule, ran: RanRule, now: int, values: dict[str, Constant]) -> tuple[str, str]:
    """The part that kept a rule from doing an action, and a sentence."""
    match ran.outcome:
        case Outcome.DISABLED:
            return rule.name, "the trigger fired, but the rule was disabled"
        case Outcome.STOPPED:
            return rule.name, "the trigger fired, but a rule before this one failed"
        case Outcome.HELD | Outcome.NOT_HELD if any(isinstance(d, DidAct) and d.failure for d in ran.deeds):
            return rule.name, "the trigger fired, but an action of the rule before it failed"
        case Outcome.HELD:
            return (
                ran.condition or rule.name,
                f"it is done where the condition does not hold, and it holds{_list(values)}",
            )
        case Outcome.NOT_HELD:
            assert rule.condition is not None, "what has no condition holds"
            failed = _first_failed(rule.condition, ran, now)
            seen = {name: values[name] for name in _seen(failed, ran, now)}
            came_to = "NULL" if value_of(failed, _finder(ran), now) is None else "FALSE"
            return dump(failed), f"{dump(failed)} is {came_to}{_list(seen)}"


def _first_failed(condition: Scalar, ran: RanRule, now: int) -> Scalar:
    """The first part of a condition that is not true, as far down as AND goes."""
    if isinstance(condition, Apply) and condition.operator is Operator.AND:
        for operand in condition.operands:
            if value_of(operand, _finder(ran), now) is not True:
                return _first_failed(operand, ran, now)
    return condition


def _finder(ran: RanRule) -> Callable[[Field], Value]:
    given = {key_of(name): value.value for name, value in ran.arguments}
    return lambda wanted: given[key_of(wanted.name)]


def _list(values: dict[str, Constant]) -> str:
    words = ", ".join(f"{name} = {shown_value(value)}" for name, value in values.items())
    return f": {words}" if words else ""

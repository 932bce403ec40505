"""What a trigger did, with types and names from its program: for simulations, and as a line for suites.

In: a program and a `FiredTrigger` of its engine. Out: frozen values, and JSON with field names that stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from augury.algebra.program import Program
from augury.algebra.rule import ActionCall, Rule, Trigger
from augury.algebra.scalar import Constant, Value, dump
from augury.clock import moment_of
from augury.engine.firing_rows import call_row
from augury.engine.ticked import FiredTrigger
from augury.event import Attribute, key_of
from augury.history.raw import whole_json
from augury.kernels.firing import Call, Done, Outcome
from augury.trying.simulate_record import event_text, plain_value, shown_value
from augury.types import Type


@dataclass(frozen=True, slots=True)
class DidAct:
    """An action of a rule; `value` is what a function gave back, `failure` why it could not be done."""

    name: str
    arguments: tuple[Constant, ...]
    value: Value
    failure: str | None


@dataclass(frozen=True, slots=True)
class DidPost:
    """An event that a rule posted: the `seq` it has, or why it was refused; neither: a later tick reads it."""

    event_class: str
    values: tuple[tuple[str, Constant], ...]
    seq: int | None
    refused: str | None


Did = DidAct | DidPost


@dataclass(frozen=True, slots=True)
class RanRule:
    """A rule of a structure: its arguments, the text of its condition, what became of it, and what it did.

    `row` is the same as a store keeps it.
    """

    rule: str
    outcome: Outcome
    condition: str | None
    arguments: tuple[tuple[str, Constant], ...]
    deeds: tuple[Did, ...]
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Triggered:
    """A trigger that fired, with the event at which, its constituents, and its rules as the structure has them."""

    fired: FiredTrigger
    parameters: tuple[tuple[str, Constant], ...]
    rules: tuple[RanRule, ...]

    @property
    def trigger(self) -> str:
        """Its name."""
        return self.fired.firing.trigger


def triggered(program: Program, fired: FiredTrigger) -> Triggered:
    """A firing with the names and types that its program gives it."""
    calls = tuple(_ran(program, call) for call in fired.firing.calls)
    parameters = _named(trigger_of(program, fired).parameters, fired.firing.parameters)
    return Triggered(fired, parameters, calls)


def trigger_of(program: Program, fired: FiredTrigger) -> Trigger:
    """The trigger that fired."""
    return next(one for one in program.triggers if key_of(one.name) == key_of(fired.firing.trigger))


def _ran(program: Program, call: Call) -> RanRule:
    rule = next(one for one in program.rules if key_of(one.name) == key_of(call.rule))
    condition = None if rule.condition is None else dump(rule.condition)
    arguments = _named(rule.parameters, call.arguments)
    row = call_row(program, rule, call)
    return RanRule(rule.name, call.outcome, condition, arguments, tuple(_did(program, rule, call)), row)


def _did(program: Program, rule: Rule, call: Call) -> Iterator[Did]:
    """The deeds with the types of what the rule says; after a failure the rest is not done."""
    wanted = rule.actions if call.outcome is Outcome.HELD else rule.alternatives
    for deed, said in zip(call.deeds, wanted, strict=False):
        if isinstance(deed, Done):
            assert isinstance(said, ActionCall), "deeds stand in the order of the rule"
            kinds = [argument.type for argument in said.arguments]
            yield DidAct(deed.name, _constants(deed.arguments, kinds), deed.value, deed.failure)
        else:
            plan = program.class_plan(deed.event_class)
            assert plan is not None, "a rule posts events of a class of its program"
            refused = None if deed.refused is None else deed.refused.value
            yield DidPost(deed.event_class, _named(plan.event_class.attributes, deed.values), deed.seq, refused)


def _named(attributes: Sequence[Attribute], values: Sequence[Value]) -> tuple[tuple[str, Constant], ...]:
    """Values by name; a rule that did not run has none."""
    return tuple((one.name, Constant(value, one.type)) for one, value in zip(attributes, values, strict=False))


def _constants(values: Sequence[Value], kinds: Sequence[Type]) -> tuple[Constant, ...]:
    return tuple(Constant(value, kind) for value, kind in zip(values, kinds, strict=True))


def acts_of(one: Triggered) -> int:
    """How many actions its rules did."""
    return sum(isinstance(deed, DidAct) for rule in one.rules for deed in rule.deeds)


# ---- for people --------------------------------------------------------------------------------------------------


def heading(one: Triggered) -> tuple[str, str]:
    """The trigger with its parameters; at which event it fired, and with which constituents."""
    firing = one.fired.firing
    at = "by the clock" if firing.event_class is None else f"at {one.fired.event}"
    at = at if firing.seq is None else f"{at}, seq {firing.seq}"
    made_of = ", ".join(map(str, firing.constituents))
    return event_text(one.trigger, [value for _, value in one.parameters]), f"{at}, with {made_of}"


def rule_texts(rule: RanRule) -> Iterator[tuple[str, str]]:
    """A rule, what became of it, and below it what it did."""
    text = event_text(rule.rule, [value for _, value in rule.arguments])
    match rule.outcome:
        case Outcome.HELD:
            yield text, "" if rule.condition is None else f"{rule.condition} holds"
        case Outcome.NOT_HELD:
            yield text, f"{rule.condition} does not hold"
        case Outcome.DISABLED:
            yield text, "is disabled"
        case Outcome.STOPPED:
            yield text, "does not run: one before it failed"
    for deed in rule.deeds:
        yield f"  {deed_text(deed)}", _became(deed)


def deed_text(deed: Did) -> str:
    """An action or a post, as a rule has it."""
    if isinstance(deed, DidAct):
        return f"{deed.name}({', '.join(map(shown_value, deed.arguments))})"
    return f"POST {event_text(deed.event_class, [value for _, value in deed.values])}"


def _became(deed: Did) -> str:
    match deed:
        case DidAct(failure=str(failure)):
            return f"failed: {failure}"
        case DidAct(value=None):
            return ""
        case DidAct(value=value):
            return f"gave {whole_json(value)}"
        case DidPost(seq=int(seq)):
            return f"seq {seq}"
        case DidPost(refused=str(reason)):
            return f"refused: {reason}"
        case _:
            return "is read by a later tick"


# ---- JSON --------------------------------------------------------------------------------------------------------


def firing_line(program: Program, fired: FiredTrigger) -> str:
    """A firing as a line of JSON, as suites compare it."""
    kinds = [one.type for one in trigger_of(program, fired).parameters]
    firing = fired.firing
    row: dict[str, Any] = {
        "trigger": firing.trigger,
        "args": [plain_value(one) for one in _constants(firing.parameters, kinds)],
        "event": fired.event,
        "key": dict(fired.key),
    }
    if firing.seq is not None:
        row["seq"] = firing.seq
    return whole_json({**row, "constituents": list(firing.constituents), "tick": moment_of(firing.now)})


def triggered_json(one: Triggered) -> dict[str, Any]:
    """A firing with all that its rules did; docs/simulating.md says what the fields are."""
    firing = one.fired.firing
    return {
        "trigger": firing.trigger,
        "number": one.fired.number,
        "event": one.fired.event,
        "key": dict(one.fired.key),
        "seq": firing.seq,
        "constituents": list(firing.constituents),
        "parameters": {name: plain_value(value) for name, value in one.parameters},
        "calls": [{**rule.row, "condition": rule.condition} for rule in one.rules],
        "returned": firing.returned,
    }

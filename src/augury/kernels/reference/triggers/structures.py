"""A rule structure at work: which rules run, with which arguments, and what they do (LANGUAGE.md section 7).

In: a structure, the values that its arguments name, the rules in force. Out: a call for every rule of the structure,
left to right, which is the order of its POSTs. Rules side by side do not see each other, so they are run one by one;
a rule sees what those gave back that come before it by `>`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from augury import types as t
from augury.algebra.rule import ActionCall, InOrder, Policy, Post, Returned, Rule, RuleCall, SideBySide, Structure
from augury.algebra.scalar import Field, Value
from augury.event import EventClass, key_of
from augury.kernels.firing import (
    Call,
    Deed,
    Done,
    Functions,
    Outcome,
    Posted,
    Refusal,
    RuleFailed,
)
from augury.kernels.fitting import Unfit, fitted, fitted_or_null
from augury.kernels.reference.triggers.values import value_of


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules at a moment, by key; `disabled` has the keys of those that are off, by themselves or by a group."""

    rules: Mapping[str, Rule]
    disabled: Collection[str]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a structure runs in: the values it names, the tick, the time of its posts, and what it may call."""

    field: Callable[[Field], Value]
    now: int
    det_time: int
    in_force: InForce
    classes: Mapping[str, EventClass]
    functions: Functions
    policy: Policy


def calls_of(structure: Structure, setting: Setting) -> list[Call]:
    """Every rule of a structure with what became of it, left to right."""
    return _run(structure, setting, [], is_stopped=False)[0]


def returned_of(returns: tuple[t.Type, str] | None, calls: Sequence[Call]) -> Value:
    """The value of the RETURNS rule, as far as it fits the type."""
    return None if returns is None else fitted_or_null(_value_of_rule(returns[1], calls), returns[0])


def _value_of_rule(name: str, calls: Sequence[Call]) -> Value:
    """What the last of these calls that is of the rule and ran gave back; NULL if there is none, or it failed."""
    ran = [
        call for call in calls if key_of(call.rule) == key_of(name) and call.outcome in (Outcome.HELD, Outcome.NOT_HELD)
    ]
    return ran[-1].value if ran else None


def _run(
    structure: Structure, setting: Setting, before: Sequence[Call], *, is_stopped: bool
) -> tuple[list[Call], bool]:
    """The calls, and whether what comes after them by `>` is stopped; `before` is what came before by `>`."""
    match structure:
        case RuleCall():
            call = _stopped(structure, setting) if is_stopped else _called(structure, setting, before)
            return [call], is_stopped or (call.failed and setting.policy is Policy.STOP)
        case InOrder(steps=steps):
            found: list[Call] = []
            for step in steps:
                calls, is_stopped = _run(step, setting, [*before, *found], is_stopped=is_stopped)
                found += calls
            return found, is_stopped
        case SideBySide(branches=branches):
            ran = [_run(branch, setting, before, is_stopped=is_stopped) for branch in branches]
            return [call for calls, _ in ran for call in calls], any(stopped for _, stopped in ran)
        case _:
            assert_never(structure)


def _stopped(call: RuleCall, setting: Setting) -> Call:
    is_disabled = key_of(call.rule) in setting.in_force.disabled
    return Call(call.rule, Outcome.DISABLED if is_disabled else Outcome.STOPPED)


def _called(call: RuleCall, setting: Setting, before: Sequence[Call]) -> Call:
    rule = setting.in_force.rules[key_of(call.rule)]
    if key_of(rule.name) in setting.in_force.disabled:
        return Call(rule.name, Outcome.DISABLED)
    given = [
        _value_of_rule(argument.rule, before)
        if isinstance(argument, Returned)
        else value_of(argument, setting.field, setting.now)
        for argument in call.arguments
    ]
    arguments = tuple(fitted_or_null(v, p.type) for v, p in zip(given, rule.parameters, strict=True))
    names = {key_of(p.name): v for p, v in zip(rule.parameters, arguments, strict=True)}

    def field(wanted: Field) -> Value:
        return names[key_of(wanted.name)]

    is_held = rule.condition is None or value_of(rule.condition, field, setting.now) is True
    deeds, value = _done(rule.actions if is_held else rule.alternatives, field, setting)
    return Call(rule.name, Outcome.HELD if is_held else Outcome.NOT_HELD, arguments, tuple(deeds), value)


def _done(
    wanted: Sequence[ActionCall | Post], field: Callable[[Field], Value], setting: Setting
) -> tuple[list[Deed], Value]:
    """What is done, up to the first that fails, and the value of the last action."""
    deeds: list[Deed] = []
    value: Value = None
    for one in wanted:
        match one:
            case Post(event_class=name, values=scalars):
                values = [value_of(scalar, field, setting.now) for scalar in scalars]
                deeds.append(posted(setting.classes[name], values, setting.det_time))
            case ActionCall(name=name, arguments=scalars):
                done = _acted(
                    name, tuple(value_of(scalar, field, setting.now) for scalar in scalars), setting.functions
                )
                deeds.append(done)
                value = done.value
                if done.failure is not None:
                    break
    return deeds, value


def _acted(name: str, arguments: tuple[Value, ...], functions: Functions) -> Done:
    function = functions.get(key_of(name))
    if function is None:
        return Done(name, arguments)
    try:
        return Done(name, arguments, function(*arguments))
    except RuleFailed as failure:
        return Done(name, arguments, failure=str(failure))


def posted(event_class: EventClass, values: Sequence[Value], det_time: int) -> Posted:
    """An event to be posted, with its values as the class has them; refused where they cannot be."""
    try:
        held = tuple(fitted(v, a.type) for v, a in zip(values, event_class.attributes, strict=True))
    except Unfit:
        return Posted(event_class.name, tuple(values), det_time, refused=Refusal.UNFIT)
    keys = {key_of(name) for name in event_class.key}
    lacks_key = any(v is None for v, a in zip(held, event_class.attributes, strict=True) if key_of(a.name) in keys)
    return Posted(event_class.name, held, det_time, refused=Refusal.NO_KEY if lacks_key else None)

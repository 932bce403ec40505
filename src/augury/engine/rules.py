"""A rule structure at work: which rules run, with which arguments, and what they do (LANGUAGE.md section 7).

In: a structure, the values that its arguments name, the rules in force, what functions may be called. Out: a call for
every rule of the structure, left to right, which is the order of its POSTs whatever ran first. Posts are only said
here; who reads them says what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

import pyarrow as pa

from augury import types as t
from augury.algebra.rule import ActionCall, InOrder, Policy, Post, Returned, Rule, RuleCall, SideBySide, Structure
from augury.algebra.scalar import Constant, Field, Leaf, Now, Scalar, Value, leaves
from augury.event import EventClass, key_of
from augury.kernels.columns import arrow_type, evaluate
from augury.kernels.firing import Call, Deed, Done, Outcome, Posted, Refusal, RuleFailed
from augury.kernels.fitting import Unfit, fitted, fitted_or_null


class Calling(Protocol):
    """What rules may call at once, and how branches that stand side by side are run."""

    def knows(self, name: str) -> bool:
        """Whether an action of this name runs at once and may give a value back; all others wait in the outbox."""
        ...

    def call(self, which: str, name: str, arguments: Sequence[Value], kinds: Sequence[t.Type]) -> Value:
        """What it gives back; raises `RuleFailed`. `which` names the call for ever: one made again gives the same."""
        ...

    def side_by_side(self, branches: Sequence[Callable[[], _Ran]]) -> list[_Ran]:
        """Run all of them, in any order; gives what each gave, in the order given."""
        ...


class NoFunctions:
    """Nothing runs at once, as in a replay."""

    def knows(self, name: str) -> bool:
        """Nothing is known."""
        return False

    def call(self, which: str, name: str, arguments: Sequence[Value], kinds: Sequence[t.Type]) -> Value:
        """Nobody calls what is not known."""
        raise AssertionError(f"{name} is not known")

    def side_by_side(self, branches: Sequence[Callable[[], _Ran]]) -> list[_Ran]:
        """One by one: nobody waits."""
        return [branch() for branch in branches]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a structure runs in: the values it names, the tick, the time of its posts, and what is in force.

    `firing` names the firing for ever; `rules` are by key, `disabled` the keys of those that are off, by themselves or
    by a group; `classes` are by key, too.
    """

    firing: str
    field: Callable[[Field], Value]
    now: int
    det_time: int
    rules: Mapping[str, Rule]
    disabled: Collection[str]
    classes: Mapping[str, EventClass]
    calling: Calling
    policy: Policy


@dataclass(frozen=True, slots=True)
class _Ran:
    """The calls of a part of a structure, and whether what comes after it by `>` is stopped."""

    calls: tuple[Call, ...]
    is_stopped: bool


def calls_of(structure: Structure, setting: Setting) -> tuple[Call, ...]:
    """Every rule of a structure with what became of it, left to right."""
    return _run(structure, setting, (), "", is_stopped=False).calls


def returned_of(returns: tuple[t.Type, str] | None, calls: Sequence[Call]) -> Value:
    """The value of the RETURNS rule: of its last run in the structure; NULL if it did not run or failed."""
    return None if returns is None else fitted_or_null(_value_of_rule(returns[1], calls), returns[0])


def _value_of_rule(name: str, calls: Sequence[Call]) -> Value:
    ran = (Outcome.HELD, Outcome.NOT_HELD)
    found = [call for call in calls if key_of(call.rule) == key_of(name) and call.outcome in ran]
    return found[-1].value if found else None


def _run(structure: Structure, setting: Setting, before: tuple[Call, ...], at: str, *, is_stopped: bool) -> _Ran:
    """Run a part that stands at a place of the structure, after some calls."""
    match structure:
        case RuleCall():
            call = _stopped(structure, setting) if is_stopped else _called(structure, setting, before, at)
            return _Ran((call,), is_stopped or (call.failed and setting.policy is Policy.STOP))
        case InOrder(steps=steps):
            found: tuple[Call, ...] = ()
            for number, step in enumerate(steps):
                ran = _run(step, setting, (*before, *found), f"{at}.{number}", is_stopped=is_stopped)
                found, is_stopped = (*found, *ran.calls), ran.is_stopped
            return _Ran(found, is_stopped)
        case SideBySide(branches=branches):

            def branch(number: int, part: Structure) -> Callable[[], _Ran]:
                return lambda: _run(part, setting, before, f"{at}.{number}", is_stopped=is_stopped)

            each = setting.calling.side_by_side([branch(number, part) for number, part in enumerate(branches)])
            return _Ran(tuple(call for ran in each for call in ran.calls), any(ran.is_stopped for ran in each))
        case _:
            assert_never(structure)


def _stopped(call: RuleCall, setting: Setting) -> Call:
    is_disabled = key_of(call.rule) in setting.disabled
    return Call(setting.rules[key_of(call.rule)].name, Outcome.DISABLED if is_disabled else Outcome.STOPPED)


def _called(call: RuleCall, setting: Setting, before: Sequence[Call], at: str) -> Call:
    rule = setting.rules[key_of(call.rule)]
    if key_of(rule.name) in setting.disabled:
        return Call(rule.name, Outcome.DISABLED)
    arguments = tuple(
        fitted_or_null(_argument(given, setting, before), parameter.type)
        for given, parameter in zip(call.arguments, rule.parameters, strict=True)
    )
    names = {key_of(p.name): v for p, v in zip(rule.parameters, arguments, strict=True)}

    def field(wanted: Field) -> Value:
        return names[key_of(wanted.name)]

    is_held = rule.condition is None or value_of(rule.condition, field, setting.now) is True
    deeds, value = _done(rule.actions if is_held else rule.alternatives, field, setting, at)
    return Call(rule.name, Outcome.HELD if is_held else Outcome.NOT_HELD, arguments, tuple(deeds), value)


def _argument(given: Scalar | Returned, setting: Setting, before: Sequence[Call]) -> Value:
    if isinstance(given, Returned):
        return _value_of_rule(given.rule, before)
    return value_of(given, setting.field, setting.now)


def _done(
    wanted: Sequence[ActionCall | Post], field: Callable[[Field], Value], setting: Setting, at: str
) -> tuple[list[Deed], Value]:
    """What is done, up to the first that fails, and the value of the last action."""
    deeds: list[Deed] = []
    value: Value = None
    for number, one in enumerate(wanted):
        match one:
            case Post(event_class=name, values=scalars):
                values = [value_of(scalar, field, setting.now) for scalar in scalars]
                deeds.append(_posted(setting.classes[key_of(name)], values, setting.det_time))
            case ActionCall():
                done = _acted(one, field, setting, f"{setting.firing}{at}/{number}")
                deeds.append(done)
                value = done.value
                if done.failure is not None:
                    break
    return deeds, value


def _acted(action: ActionCall, field: Callable[[Field], Value], setting: Setting, which: str) -> Done:
    arguments = tuple(value_of(scalar, field, setting.now) for scalar in action.arguments)
    if not setting.calling.knows(action.name):
        return Done(action.name, arguments)
    try:
        kinds = [scalar.type for scalar in action.arguments]
        return Done(action.name, arguments, setting.calling.call(which, action.name, arguments, kinds))
    except RuleFailed as failure:
        return Done(action.name, arguments, failure=str(failure))


def _posted(event_class: EventClass, values: Sequence[Value], det_time: int) -> Posted:
    """An event to be posted, with its values as the class has them; refused where they cannot be."""
    try:
        held = tuple(fitted(v, a.type) for v, a in zip(values, event_class.attributes, strict=True))
    except Unfit:
        return Posted(event_class.name, tuple(values), det_time, refused=Refusal.UNFIT)
    keys = {key_of(name) for name in event_class.key}
    lacks_key = any(v is None for v, a in zip(held, event_class.attributes, strict=True) if key_of(a.name) in keys)
    return Posted(event_class.name, held, det_time, refused=Refusal.NO_KEY if lacks_key else None)


def value_of(scalar: Scalar, field: Callable[[Field], Value], now: int) -> Value:
    """What an expression gives at a tick; None is NULL or an error, neither of which is TRUE."""
    match scalar:
        case Field():
            return fitted(field(scalar), scalar.type)
        case Constant(value=value):
            return value
        case Now():
            return now
        case _:
            return _evaluated(scalar, field, now)


def _evaluated(scalar: Scalar, field: Callable[[Field], Value], now: int) -> Value:
    columns: dict[Leaf, Any] = {}
    for leaf in leaves(scalar):
        assert isinstance(leaf, Field), "rules have neither PREV nor timing primitives"
        columns[leaf] = pa.array([fitted(field(leaf), leaf.type)], arrow_type(leaf.type))
    values = evaluate(scalar, columns, now, 1).values
    if pa.types.is_timestamp(values.type) or pa.types.is_duration(values.type):
        values = values.view(pa.int64())
    found: Value = values[0].as_py()
    return found

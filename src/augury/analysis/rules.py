"""Conditions and actions, rules, rule structures and triggers as written → typed and resolved."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from augury.algebra import rule as a
from augury.algebra.composite import constituent_classes
from augury.algebra.operators import castable
from augury.algebra.scalar import Scalar, dump
from augury.analysis.declarations import Declarations, Names, enumerated, find_class, fits, resolve_type, unknown
from augury.analysis.derivations import composite_plan
from augury.analysis.references import counted, quoted
from augury.analysis.scalars import Scope, lower_condition, lower_scalar
from augury.analysis.scopes import condition_scope, constituent_scope, rule_scope
from augury.diagnostics import Findings, Mark
from augury.event import Attribute, ClassKind, EventClass, key_of
from augury.language import syntax as s
from augury.types import with_article


def condition_actions(
    statements: Sequence[s.OnStatement], event_class: EventClass, findings: Findings
) -> tuple[a.ConditionAction, ...]:
    """The ON statements of a class."""
    scope = condition_scope(event_class, findings)
    found = []
    for statement in statements:
        condition = lower_condition(statement.condition, scope, findings)
        actions = [_action(call, scope, findings) for call in statement.actions]
        known = tuple(action for action in actions if action is not None)
        if condition is not None and len(known) == len(actions):
            found.append(a.ConditionAction(condition, known, statement.span))
    return tuple(found)


def _action(call: s.ActionCall, scope: Scope, findings: Findings) -> a.ActionCall | None:
    if call.post:
        findings.error(
            "E223",
            "POST belongs to rules",
            call.span,
            "not in an ON statement",
            helps=["name an action here, or let a trigger run a rule that posts"],
        )
        return None
    arguments = _scalars(call.arguments, scope, findings)
    return None if arguments is None else a.ActionCall(call.name.text, arguments, call.span)


def _scalars(given: Sequence[s.Scalar], scope: Scope, findings: Findings) -> tuple[Scalar, ...] | None:
    lowered = [lower_scalar(argument, scope, findings) for argument in given]
    known = tuple(argument for argument in lowered if argument is not None)
    return known if len(known) == len(lowered) else None


def rules(tables: Declarations, findings: Findings) -> tuple[a.Rule, ...]:
    """All rules, each with the groups it belongs to."""
    groups: dict[str, list[str]] = {}
    for group in tables.groups.values():
        for name in group.rules:
            if name.key in tables.rules:
                groups.setdefault(name.key, []).append(group.name.text)
            else:
                _unknown_rule(name, tables, findings)
    found = []
    for key, rule in tables.rules.items():
        parameters = tables.parameters[key]
        scope = rule_scope(parameters, rule.name.text, findings)
        condition = None
        if rule.condition is not None:
            place = f"the CONDITION of rule `{rule.name.text}`"
            condition = lower_condition(rule.condition, replace(scope, place=place), findings)
        actions, alternatives = (
            tuple(deed for call in calls if (deed := _deed(call, scope, tables, findings)) is not None)
            for calls in (rule.actions, rule.alternatives)
        )
        found.append(
            a.Rule(
                rule.name.text,
                parameters,
                condition,
                actions,
                alternatives,
                tuple(groups.get(key, ())),
                rule.span,
            )
        )
    return tuple(found)


def _deed(call: s.ActionCall, scope: Scope, tables: Declarations, findings: Findings) -> a.Deed | None:
    arguments = _scalars(call.arguments, scope, findings)
    if not call.post:
        return None if arguments is None else a.ActionCall(call.name.text, arguments, call.span)
    event_class = find_class(call.name, tables.classes, findings)
    if event_class is None:
        return None
    if event_class.kind is not ClassKind.SUBSCRIBED:
        findings.error(
            "E223",
            f"`{event_class.name}` is a {event_class.kind} class: its events cannot be posted",
            call.name.span,
            f"a {event_class.kind} class",
            others=[Mark(event_class.span, "declared here")],
            helps=["post an event of a SUBSCRIBED class"],
        )
        return None
    wanted = event_class.attributes
    if len(call.arguments) != len(wanted):
        names = enumerated(Names(wanted))
        findings.error(
            "E223",
            f"`{event_class.name}` has {counted(len(wanted), 'attribute')}, "
            f"but {counted(len(call.arguments), 'value')} {'is' if len(call.arguments) == 1 else 'are'} posted",
            call.span,
            f"its attributes are ({names})" if names else "it has none",
            others=[Mark(event_class.span, "declared here")],
            helps=[f"write POST {event_class.name}({names}); NULL is for a value that is not known"],
        )
        return None
    if arguments is None:
        return None
    for attribute, value, written in zip(wanted, arguments, call.arguments, strict=True):
        _fits(attribute, value, written, "E223", findings)
    return a.Post(event_class.name, arguments, call.span)


def _fits(wanted: Attribute, value: Scalar, written: s.Scalar, code: str, findings: Findings) -> None:
    if not fits(value.type, wanted.type):
        cast = f"write CAST({dump(value)} AS {wanted.type})" if castable(value.type, wanted.type) else ""
        text = quoted(value, wanted.type) or cast
        findings.error(
            code,
            f"`{wanted.name}` is {with_article(wanted.type)}, which {with_article(value.type)} does not fit",
            written.span,
            f"this is {with_article(value.type)}",
            others=[Mark(wanted.span, f"declared as {wanted.type}")],
            helps=[text] if text else [],
        )


def triggers(tables: Declarations, findings: Findings) -> tuple[a.Trigger, ...]:
    """All triggers whose parts make sense."""
    found = (_trigger(trigger, tables, findings) for trigger in tables.triggers.values())
    return tuple(trigger for trigger in found if trigger is not None)


def _trigger(trigger: s.Trigger, tables: Declarations, findings: Findings) -> a.Trigger | None:
    parameters = tables.parameters["trigger:" + trigger.name.key]
    events = {n.key: cls for n in trigger.events if (cls := find_class(n, tables.classes, findings)) is not None}
    composite, constituents = None, dict(events)
    if trigger.composite is not None:
        planned = composite_plan(trigger.composite, None, tables, findings)
        if planned is not None:
            composite = planned[0]
            there = constituent_classes(composite.expression)
            constituents.update({key_of(name): tables.classes[key_of(name)] for name in planned[1] if name in there})
    triggering = events if trigger.events else constituents
    for event_class in triggering.values():
        _check_parameters(trigger, parameters, event_class, findings)
    names = {key_of(p.name): (p.name, p.type) for p in parameters}
    scope = constituent_scope("RULESTRUC", names, constituents, findings, now=True)
    called = {call.name.key: call for call in rule_calls(trigger.structure)}
    structure = _structure(trigger.structure, ChainMap(), _Around(scope, tables, called), findings)
    policy = _policy(trigger.policy, findings)
    returns = None
    if trigger.returns is not None:
        kind = resolve_type(trigger.returns.type, findings)
        if trigger.returns.rule.key not in called:
            what, known = "rule in this RULESTRUC called", [call.name.text for call in called.values()]
            unknown(what, trigger.returns.rule, known, "E221", findings, label="not in the RULESTRUC")
        returns = (kind, trigger.returns.rule.text)
    if structure is None or (trigger.composite is not None and composite is None):
        return None
    names_of_events = tuple(cls.name for cls in events.values())
    return a.Trigger(
        trigger.name.text, parameters, names_of_events, composite, structure, policy, returns, trigger.span
    )


def _policy(given: s.Ident | None, findings: Findings) -> a.Policy:
    if given is None:
        return a.Policy.STOP
    if given.text.upper() not in a.Policy.__members__:
        unknown("policy", given, list(a.Policy.__members__), "E216", findings)
        return a.Policy.STOP
    return a.Policy[given.text.upper()]


def _check_parameters(
    trigger: s.Trigger, parameters: Sequence[Attribute], event_class: EventClass, findings: Findings
) -> None:
    """The parameters are the triggering event's attributes by position; a trigger without any takes every event."""
    if not parameters:
        return
    declared = Mark(event_class.span, "declared here")
    if len(parameters) != len(event_class.attributes):
        findings.error(
            "E220",
            f"the trigger has {counted(len(parameters), 'parameter')}, but its event `{event_class.name}` "
            f"has {counted(len(event_class.attributes), 'attribute')}",
            parameters[0].span.to(parameters[-1].span),
            "they are its attributes by position",
            others=[declared],
            helps=["give it as many; or none, and name values in the RULESTRUC: R1(Class.attribute)"],
        )
        return
    for parameter, attribute in zip(parameters, event_class.attributes, strict=True):
        if not fits(attribute.type, parameter.type):
            findings.error(
                "E220",
                f"the parameter `{parameter.name}` is {with_article(parameter.type)}, "
                f"but `{event_class.name}.{attribute.name}` is {with_article(attribute.type)}",
                parameter.span,
                with_article(parameter.type),
                others=[Mark(attribute.span, with_article(attribute.type))],
                helps=[f"declare it as {attribute.type}"],
            )


def rule_calls(structure: s.RuleStructure) -> Iterator[s.RuleCall]:
    """The rules of a structure, left to right."""
    match structure:
        case s.RuleCall():
            yield structure
        case s.OneAfterTheOther(steps=parts) | s.SideBySide(branches=parts):
            for part in parts:
                yield from rule_calls(part)


@dataclass(frozen=True, slots=True)
class _Around:
    """What a rule of a structure is read in: what names mean, and which rules the structure has, by key."""

    scope: Scope
    tables: Declarations
    called: Mapping[str, s.RuleCall]


def _structure(
    structure: s.RuleStructure, before: ChainMap[str, s.RuleCall], around: _Around, findings: Findings
) -> a.Structure | None:
    """A part of a structure; `before` has the rules that have run when it begins, by key."""
    match structure:
        case s.RuleCall():
            return _rule_call(structure, before, around, findings)
        case s.OneAfterTheOther(steps=parts):
            lowered: list[a.Structure | None] = []
            until_here = before.new_child()
            for part in parts:
                lowered.append(_structure(part, until_here, around, findings))
                until_here.update({call.name.key: call for call in rule_calls(part)})
        case s.SideBySide(branches=parts):
            lowered = [_structure(part, before, around, findings) for part in parts]
    known = tuple(part for part in lowered if part is not None)
    if len(known) < len(lowered):
        return None
    kind = a.InOrder if isinstance(structure, s.OneAfterTheOther) else a.SideBySide
    return kind(known, structure.span)


def _rule_call(
    call: s.RuleCall, before: ChainMap[str, s.RuleCall], around: _Around, findings: Findings
) -> a.RuleCall | None:
    lowered = [_argument(argument, call, before, around, findings) for argument in call.arguments]
    arguments = tuple(argument for argument in lowered if argument is not None)
    rule = around.tables.rules.get(call.name.key)
    if rule is None:
        _unknown_rule(call.name, around.tables, findings)
        return None
    wanted = around.tables.parameters[call.name.key]
    if len(call.arguments) != len(wanted):
        names = enumerated(Names(wanted))
        findings.error(
            "E218",
            f"rule `{rule.name.text}` takes {counted(len(wanted), 'argument')}, not {len(call.arguments)}",
            call.span,
            f"{len(call.arguments) or 'none'} given",
            others=[Mark(rule.name.span, "declared here")],
            helps=[f"write {rule.name.text}" + (f"({names})" if names else "")],
        )
        return None
    if len(arguments) < len(lowered):
        return None
    for parameter, value, written in zip(wanted, arguments, call.arguments, strict=True):
        if not isinstance(value, a.Returned):
            _fits(parameter, value, written, "E219", findings)
    return a.RuleCall(rule.name.text, arguments, call.span)


def _argument(
    written: s.Scalar, call: s.RuleCall, before: ChainMap[str, s.RuleCall], around: _Around, findings: Findings
) -> Scalar | a.Returned | None:
    match written:
        case s.Call(function=s.Ident(key="returned"), arguments=(s.Name(qualifier=None, name=name),)):
            return _returned(name, call, before, around, findings)
        case s.Call(function=s.Ident(key="returned")):
            helps = ["write RETURNED(R1)"]
            findings.error("E222", "RETURNED takes the name of one rule", written.span, "wrong arguments", helps=helps)
            return None
        case _:
            return lower_scalar(written, around.scope, findings)


def _returned(
    name: s.Ident, call: s.RuleCall, before: ChainMap[str, s.RuleCall], around: _Around, findings: Findings
) -> a.Returned | None:
    """The value of a rule that comes before by `>`."""
    rule = around.tables.rules.get(name.key)
    if rule is None:
        _unknown_rule(name, around.tables, findings)
        return None
    if name.key not in before:
        stands = around.called.get(name.key)
        findings.error(
            "E222",
            f"rule `{rule.name.text}` does not come before `{call.name.text}` by `>`",
            name.span,
            "not in this RULESTRUC" if stands is None else "not before it",
            others=[] if stands is None else [Mark(stands.span, "it stands here")],
            helps=[f"let it run before: {rule.name.text} > {call.name.text}(RETURNED({rule.name.text}))"],
        )
        return None
    return a.Returned(rule.name.text, name.span)


def _unknown_rule(name: s.Ident, tables: Declarations, findings: Findings) -> None:
    extra = "" if tables.rules else f"declare it: RULE {name.text} (…) ACTION …"
    unknown("rule", name, Names(tables.rules.values()), "E217", findings, extra=extra)


def group_table(tables: Declarations) -> Mapping[str, tuple[str, ...]]:
    """The rules of each group, by the group's name."""
    return {
        g.name.text: tuple(tables.rules[r.key].name.text for r in g.rules if r.key in tables.rules)
        for g in tables.groups.values()
    }

"""The algebra → readable text, one part a line: what `explain --stage algebra` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import assert_never

from augury.algebra import composite as c
from augury.algebra import expression as e
from augury.algebra import program as p
from augury.algebra import rule as r
from augury.algebra import wiring as w
from augury.algebra.scalar import Constant, Scalar
from augury.algebra.scalar import dump as scalar
from augury.algebra.select import SelectPlan
from augury.clock import show_duration, show_time
from augury.event import Attribute, EventClass

Facts = Callable[[SelectPlan], list[tuple[str, str]]]
"""What else is known of a SELECT, each fact with its label."""


def dump_program(program: p.Program, facts: Facts = lambda _: []) -> str:
    """Everything a program says about events, in order of declaration.

    Engines go on from what they kept as long as this text stays the same, so how a program is joined to the world is
    not in it: see `dump_wiring`.
    """
    settings = program.settings
    parts = [
        f"settings chronon {show_duration(settings.chronon_us)}, archive {'on' if settings.archive else 'off'}, "
        f"history {'kept for ever' if settings.retain_us is None else 'kept ' + show_duration(settings.retain_us)}",
        "strata\n" + "\n".join(f"  {i} {', '.join(layer)}" for i, layer in enumerate(program.strata)),
        *(dump_class(plan, facts) for plan in program.classes),
        *(dump_source(source) for source in program.sources),
        *(dump_rule(rule) for rule in program.rules),
        *(f"group {name}: {', '.join(rules)}" for name, rules in program.groups.items()),
        *(dump_trigger(trigger) for trigger in program.triggers),
    ]
    return "\n\n".join(parts)


def dump_wiring(program: p.Program) -> str:
    """How a program is joined to the world: its bindings and detectors; empty where it has none."""
    bindings = "\n".join(map(dump_binding, program.bindings))
    return "\n\n".join(part for part in (bindings, *map(dump_detection, program.detections)) if part)


def dump_class(plan: p.ClassPlan, facts: Facts = lambda _: []) -> str:
    """One class: schema, derivation, statements."""
    lines = [_schema(plan.event_class)]
    match plan.derivation:
        case None:
            pass
        case p.Cron(pattern=pattern, zone=zone):
            lines.append(f"  posted at '{pattern}' in {zone}")
        case p.Every(period_us=period_us):
            lines.append(f"  posted every {show_duration(period_us)}")
        case SelectPlan() as select:
            lines += _indent(select.dump(facts(select)).splitlines(), 1)
        case e.MatchPlan() as match:
            lines.append("  MATCH")
            lines += _indent(_expression(match.expression), 2)
            lines += _indent(_match_clauses(match), 1)
        case c.CompositePlan() as composite:
            lines += _indent(_composite_plan(composite), 1)
        case _:
            assert_never(plan.derivation)
    for statement in plan.statements:
        lines.append(f"  ON {scalar(statement.condition)}")
        lines += [f"    DO {_deed(action)}" for action in statement.actions]
    return "\n".join(lines)


def dump_source(source: p.SourceMapping) -> str:
    """The columns of a class."""
    return f"source of {source.event_class}: " + ", ".join(f"{foreign} is {name}" for foreign, name in source.columns)


def dump_rule(rule: r.Rule) -> str:
    """One rule."""
    lines = [f"rule {rule.name} ({_attributes(rule.parameters)})"]
    if rule.groups:
        lines[0] += f" in {', '.join(rule.groups)}"
    if rule.condition is not None:
        lines.append(f"  if {scalar(rule.condition)}")
    lines += [f"  do {_deed(deed)}" for deed in rule.actions]
    lines += [f"  else do {_deed(deed)}" for deed in rule.alternatives]
    return "\n".join(lines)


def dump_trigger(trigger: r.Trigger) -> str:
    """One trigger."""
    lines = [f"trigger {trigger.name} ({_attributes(trigger.parameters)})"]
    lines.append(f"  triggered by {' or '.join(trigger.events) if trigger.events else 'every event of its expression'}")
    if trigger.composite is not None:
        lines += _indent(_composite_plan(trigger.composite), 1)
    lines.append("  rules" if trigger.policy is r.Policy.STOP else "  rules, all of them even if one fails")
    lines += _indent(_structure(trigger.structure), 2)
    if trigger.returns is not None:
        lines.append(f"  returns {trigger.returns[0]} of {trigger.returns[1]}")
    return "\n".join(lines)


def dump_binding(binding: w.Binding) -> str:
    """What carries out one action."""
    is_class = binding.kind is w.ExecutorKind.EVENT
    target = "".join(f" {text if is_class else _text(text)}" for text in binding.target)
    return f"action {binding.action} by {binding.kind}{target}{_settings(binding.settings, ', ')}"


def dump_detection(detection: w.Detection) -> str:
    """Where one detector gets its events from."""
    named = "" if detection.name == detection.event_class else f" by {detection.name}"
    lines = [f"events of {detection.event_class}{named} from {detection.kind} {_text(detection.source)}"]
    if detection.every_us is not None:
        lines.append(f"every {show_duration(detection.every_us)}")
    if detection.items is not None:
        lines.append(f"items {_text(detection.items)}")
    lines += [f"{name} is {_text(path)}" for name, path in detection.fields]
    if detection.next_page is not None:
        lines.append(f"next page {_text(detection.next_page)}")
    lines.append("forwards " + ("what is new or has changed" if detection.forward is w.Forward.CHANGED else "all"))
    lines += ["withdraws what has vanished"] if detection.withdraws else []
    lines += [_settings(detection.settings)] if detection.settings else []
    return "\n  ".join(lines)


def _settings(settings: w.Settings, before: str = "") -> str:
    return f"{before}with " + ", ".join(f"{name} {_text(value)}" for name, value in settings) if settings else ""


def _text(value: w.Setting) -> str:
    match value:
        case w.FromEnvironment(variable=variable):
            return f"${variable}"
        case w.Length(microseconds=microseconds):
            return show_duration(microseconds)
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() | float():
            return str(value)
        case _:
            assert_never(value)


def _indent(lines: Iterable[str], levels: int) -> list[str]:
    return ["  " * levels + line for line in lines]


def _schema(event_class: EventClass) -> str:
    kind = event_class.kind.value
    if event_class.kind == "subscribed":
        kind = ("mutable " if event_class.mutable else "immutable ") + kind
    lifespan = "for ever" if event_class.lifespan_us is None else show_duration(event_class.lifespan_us)
    key = ", ".join(event_class.key) or "each version"
    return f"class {event_class.name} ({_attributes(event_class.attributes)}) {kind}, key {key}, lifespan {lifespan}"


def _attributes(attributes: Iterable[Attribute]) -> str:
    return ", ".join(f"{a.name} {a.type}" for a in attributes)


def _deed(deed: r.Deed) -> str:
    match deed:
        case r.ActionCall(name=name, arguments=arguments):
            return f"{name}({', '.join(map(scalar, arguments))})"
        case r.Post(event_class=name, values=values):
            return f"post {name}({', '.join(map(scalar, values))})"


def _primitive(node: e.Primitive) -> str:
    text = node.event_class
    if node.bindings:
        text += f"({', '.join(map(_binding, node.bindings))})"
    return text if node.mask is None else f"{text}[{scalar(node.mask)}]"


def _binding(binding: e.Binding) -> str:
    match binding:
        case e.Variable(name=name):
            return name
        case e.Anything():
            return "_"
        case Constant():
            return scalar(binding)


def _expression(node: e.Expression) -> list[str]:
    match node:
        case e.Primitive():
            return [_primitive(node)]
        case e.Place(variable=variable):
            return [f"at {variable}"]
        case e.Apply(operator=operator, operands=operands):
            return [operator.value, *_indent((line for o in operands for line in _expression(o)), 1)]
        case e.Nth(count=count, every=every, operand=operand):
            return [f"{'EVERY ' if every else ''}<{count}>", *_indent(_expression(operand), 1)]
        case e.Equate(variable=variable, operand=operand):
            return [f"= {variable}", *_indent(_expression(operand), 1)]
        case e.Exists(variable=variable, operand=operand):
            return [f"EXISTS {variable}", *_indent(_expression(operand), 1)]
        case e.Some(variables=variables, operand=operand):
            names = ", ".join(f"{v.name} {v.type}" for v in variables)
            return [f"for some {names}", *_indent(_expression(operand), 1)]
        case _:
            assert_never(node)


def _match_clauses(plan: e.MatchPlan) -> list[str]:
    lines = [f"over {'all subscribed and clock classes' if plan.over is None else ', '.join(plan.over)}"]
    lines += _shared_clauses(plan)
    lines.append(f"collect {plan.choice.value}")
    return lines + _feeds(plan.feeds)


def _shared_clauses(plan: e.MatchPlan | c.CompositePlan) -> list[str]:
    lines = []
    if plan.partition_by:
        lines.append(f"partition by {', '.join(plan.partition_by)}")
    if plan.by_occurrence is not None:
        allowing = plan.by_occurrence.allowing_us
        lines.append("by occurrence" + ("" if allowing is None else f", at most {show_duration(allowing)} late"))
    if plan.where is not None:
        lines.append(f"where {scalar(plan.where)}")
    if plan.within_us is not None:
        lines.append(f"within {show_duration(plan.within_us)}")
    return lines


def _feeds(feeds: Iterable[e.Feed]) -> list[str]:
    lines = []
    for feed in feeds:
        match feed.value:
            case None:
                value = "NULL"
            case e.Aggregate(function=function, operand=operand):
                value = f"{function}({'*' if operand is None else scalar(operand)})"
            case expression:
                value = scalar(expression)
        lines.append(f"{feed.attribute} is {value}")
    return lines


def _composite_plan(plan: c.CompositePlan) -> list[str]:
    lines = [f"COMPOSITE {plan.context.value}", *_indent(_composite(plan.expression), 1)]
    if plan.over is not None:
        lines.append(f"over {', '.join(plan.over)}")
    if plan.keys:
        lines.append("a graph per " + ", ".join(f"{v.name} {v.type}" for v in plan.keys))
    return lines + _shared_clauses(plan) + _feeds(plan.feeds)


def _composite(node: c.Composite) -> list[str]:
    match node:
        case e.Primitive():
            return [_primitive(node)]
        case c.Node(operator=operator):
            return [operator.value, *_below(node)]
        case c.AnyOf(count=count):
            return [f"ANY {count} of", *_below(node)]
        case c.Bounded(low_us=low, high_us=high):
            since = "" if low is None else f" from {show_time(low)}"
            until = "" if high is None else f" until {show_time(high)}"
            return [f"occurring{since}{until}", *_below(node)]
        case c.NotBetween(absent=absent, opening=opening, closing=closing):
            labelled = [("from", opening), ("no", absent), ("to", closing)]
            return ["NOT between", *_labelled(labelled)]
        case c.AbsentFor(opening=opening, absent=absent, within_us=within_us):
            return [f"absent for {show_duration(within_us)}", *_labelled([("from", opening), ("no", absent)])]
        case c.Repeat(count=count, open=is_open):
            return [f"{count} or more" if is_open else f"every {count}", *_below(node)]
        case c.Plus(delay_us=delay_us):
            return [f"+ {show_duration(delay_us)}", *_below(node)]
        case c.Scoped(within_us=within_us, where=where):
            within = "" if within_us is None else f" within {show_duration(within_us)}"
            return [f"scope{within}{'' if where is None else f' where {scalar(where)}'}", *_below(node)]
        case c.Aperiodic(opening=opening, middle=middle, closing=closing, gathered=gathered):
            title = "APERIODIC*" if gathered else "APERIODIC"
            return [title, *_labelled([("from", opening), ("each", middle), ("to", closing)])]
        case c.Periodic(opening=opening, closing=closing, gathered=gathered, period_us=period_us):
            title = f"{'PERIODIC*' if gathered else 'PERIODIC'} every {show_duration(period_us)}"
            return [title, *_labelled([("from", opening), ("to", closing)])]
        case _:
            assert_never(node)


def _below(node: c.Composite) -> list[str]:
    return _indent((line for child in c.children(node) for line in _composite(child)), 1)


def _labelled(parts: list[tuple[str, c.Composite]]) -> list[str]:
    lines: list[str] = []
    for label, part in parts:
        first, *rest = _composite(part)
        lines += [f"  {label} {first}", *_indent(rest, 1)]
    return lines


def _argument(argument: Scalar | r.Returned) -> str:
    return f"RETURNED({argument.rule})" if isinstance(argument, r.Returned) else scalar(argument)


def _structure(structure: r.Structure) -> list[str]:
    match structure:
        case r.RuleCall(rule=rule, arguments=arguments):
            return [f"{rule}({', '.join(map(_argument, arguments))})"]
        case r.InOrder(steps=parts):
            title = "one after the other"
        case r.SideBySide(branches=parts):
            title = "side by side"
    return [title, *_indent((line for part in parts for line in _structure(part)), 1)]

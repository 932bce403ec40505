"""Syntax → text: the canonical form, which the parser reads back as the same tree.

In: a node as the parser makes it. Out: its text, an expression on one line, a statement laid out; or, for the
formatter, a document still to be laid out. Nothing here knows comments, or what a program means.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from augury.language import syntax as s
from augury.language.layout import Break, Doc, chained, flatten, group, lay_out, listed
from augury.language.print_expressions import (
    call_doc,
    composite_doc,
    duration_text,
    literal_text,
    match_doc,
    name_text,
    names_doc,
    scalar_doc,
    type_text,
)
from augury.language.print_wiring import binding_clauses, detection_clauses


def print_program(program: s.Program) -> str:
    """All statements, with blank lines around those of several lines."""
    texts = [print_statement(statement) for statement in program.statements]
    parts: list[str] = []
    for i, text in enumerate(texts):
        apart = i > 0 and ("\n" in texts[i - 1] or "\n" in text)
        parts += ["\n" if apart else "", text, "\n"]
    return "".join(parts)


def print_statement(statement: s.Statement) -> str:
    """One statement with its `;`: on one line if it fits, else a clause a line."""
    return lay_out(statement_doc(statement))


def print_match(expression: s.MatchExpression) -> str:
    """A MATCH expression on one line."""
    return flatten(match_doc(expression)).text


def print_composite(expression: s.CompositeExpression) -> str:
    """A COMPOSITE expression on one line."""
    return flatten(composite_doc(expression)).text


def print_scalar(expression: s.Scalar) -> str:
    """A scalar expression on one line."""
    return flatten(scalar_doc(expression)).text


# ---- statements ----------------------------------------------------------------------------------------


def statement_doc(statement: s.Statement) -> Doc:
    """A statement with its `;`, to be laid out; its clauses are the first to go on lines of their own."""
    head, *clauses = _clauses_of(statement)
    parts: list[Doc] = [head]
    for clause in clauses:
        parts += [Break(), clause]
    return group(*parts, ";", indent=2)


def _clauses_of(statement: s.Statement) -> Sequence[Doc]:
    match statement:
        case s.SubscribedClass(name=name, attributes=attributes, key=key, lifespan=lifespan):
            kind = f"{'MUTABLE' if statement.mutable else 'IMMUTABLE'} SUBSCRIBED"
            return [_head(kind, name, attributes, key, lifespan), *_ons(statement.statements)]
        case s.ComplexClass(name=name, attributes=attributes, key=key, lifespan=lifespan, source=source):
            head = _head("COMPLEX", name, attributes, key, lifespan)
            return [head, _source(source), *_ons(statement.statements)]
        case s.ClockClass(name=name, lifespan=lifespan):
            schedule = (_schedule(statement), _lifespan(lifespan))
            head = group(f"CREATE CLOCK EVENT CLASS {name_text(name)}", Break(), schedule, indent=0)
            return [head, *_ons(statement.statements)]
        case s.SetStatement(words=words, value=value):
            return [f"SET {' '.join(name_text(word) for word in words)} {_setting(value)}"]
        case s.Definition(name=name, parameters=parameters, expression=expression):
            called = (name_text(name), names_doc(parameters)) if parameters else name_text(name)
            return [("DEFINE ", called, " ="), match_doc(expression)]
        case s.SourceStatement(event_class=event_class, columns=columns):
            mappings = [f"{name_text(c.foreign)} AS {name_text(c.name, after_as=True)}" for c in columns]
            return [f"SOURCE {name_text(event_class)}", call_doc("FROM COLUMNS ", mappings)]
        case s.Rule():
            return _rule(statement)
        case s.RuleGroup(name=name, rules=rules):
            return [(f"RULE GROUP {name_text(name)} ", names_doc(rules))]
        case s.Trigger():
            return _trigger(statement)
        case s.Binding():
            return binding_clauses(statement)
        case s.Detection():
            return detection_clauses(statement)
        case _:
            assert_never(statement)


def _head(
    kind: str,
    name: s.Ident,
    attributes: Iterable[s.Attribute],
    key: Iterable[s.Ident],
    lifespan: s.Lifespan | None,
) -> Doc:
    """What a class is: on one line if it fits, even where the rest of the statement is on others."""
    words = (f"CREATE {kind} EVENT CLASS {name_text(name)} ", _attributes(attributes))
    return group(words, Break(), "ID ", names_doc(key), _lifespan(lifespan), indent=0)


def _attributes(attributes: Iterable[s.Attribute]) -> Doc:
    words = [f"{name_text(attribute.name)} {type_text(attribute.type)}" for attribute in attributes]
    return ("(", group(Break(""), listed(words, indent=0), indent=2), ")") if words else "()"


def _lifespan(lifespan: s.Lifespan | None) -> str:
    match lifespan:
        case None:
            return ""
        case s.Forever():
            return " LIFESPAN (-1)"
        case s.DurationLiteral():
            return f" LIFESPAN ({duration_text(lifespan)})"
        case _:
            assert_never(lifespan)


def _schedule(statement: s.ClockClass) -> str:
    if statement.every is not None:
        return f"EVERY {duration_text(statement.every)}"
    assert statement.cron is not None, "a clock class has one of the two schedules"
    zone = "" if statement.zone is None else f" ZONE {literal_text(statement.zone.value)}"
    return f"AT {literal_text(statement.cron.value)}{zone}"


def _setting(value: s.Literal | s.DurationLiteral) -> str:
    if isinstance(value, s.DurationLiteral):
        return duration_text(value)
    if isinstance(value.value, bool):
        return "ON" if value.value else "OFF"
    return literal_text(value.value)


def _source(source: s.SelectSource | s.MatchSource | s.CompositeSource) -> Doc:
    match source:
        case s.SelectSource(sql=sql, occurring_at=occurring_at):
            # A comment that ends the SQL would swallow OCCURRING; the SQL would swallow one that stood here.
            end = Break("\n" if "--" in sql.rpartition("\n")[2] else " ", bare=True)
            return group("AS ", sql, end, "OCCURRING AT ", scalar_doc(occurring_at), indent=3)
        case s.MatchSource(expression=expression, clauses=clauses):
            words: Doc = ("AS MATCH ", match_doc(expression))
        case s.CompositeSource(expression=composite, clauses=clauses):
            words = ("AS COMPOSITE ", composite_doc(composite))
        case _:
            assert_never(source)
    return group(words, *((Break(), clause) for clause in _clauses(clauses)), indent=3)


def _clauses(clauses: s.Clauses) -> list[Doc]:
    found: list[Doc] = []
    if clauses.over is not None:
        found.append(("OVER ", names_doc(clauses.over)))
    if clauses.partition_by:
        found.append(("PARTITION BY ", listed(name_text(name) for name in clauses.partition_by)))
    if clauses.order_by is not None:
        allowing = clauses.order_by.allowing
        found.append("ORDER BY OCCURRENCE" + ("" if allowing is None else f" ALLOWING {duration_text(allowing)}"))
    if clauses.where is not None:
        found.append(("WHERE ", scalar_doc(clauses.where)))
    if clauses.within is not None:
        found.append(f"WITHIN {duration_text(clauses.within)}")
    if clauses.collect is not None:
        choice, aggregates = clauses.collect.choice, clauses.collect.aggregates
        found.append(("COLLECT ", _returned(aggregates) if choice is None else name_text(choice)))
    if clauses.context is not None:
        found.append(f"CONTEXT {name_text(clauses.context)}")
    if clauses.returned:
        found.append(("RETURN ", _returned(clauses.returned)))
    return found


def _returned(items: Iterable[s.Returned]) -> Doc:
    return listed((scalar_doc(item.expression), f" AS {name_text(item.name, after_as=True)}") for item in items)


def _ons(statements: Sequence[s.OnStatement]) -> list[Doc]:
    groups = [
        group("ON ", scalar_doc(on.condition), Break(), "DO ", _actions(on.actions), indent=2) for on in statements
    ]
    return [*((on, ",") for on in groups[:-1]), *groups[-1:]]


def _actions(actions: Iterable[s.ActionCall]) -> Doc:
    return listed(
        ("POST " if a.post else "", call_doc(name_text(a.name), [scalar_doc(x) for x in a.arguments])) for a in actions
    )


def _rule(rule: s.Rule) -> Sequence[Doc]:
    clauses: list[Doc] = [(f"RULE {name_text(rule.name)} ", _attributes(rule.parameters))]
    if rule.condition is not None:
        clauses.append(("CONDITION ", scalar_doc(rule.condition)))
    if rule.actions:
        clauses.append(("ACTION ", _actions(rule.actions)))
    if rule.alternatives:
        clauses.append(("ALTERNATIVEACTION ", _actions(rule.alternatives)))
    return clauses


def _trigger(trigger: s.Trigger) -> Sequence[Doc]:
    clauses: list[Doc] = [(f"TRIGGER {name_text(trigger.name)} ", _attributes(trigger.parameters))]
    if trigger.events:
        first, *others = (name_text(event) for event in trigger.events)
        clauses.append(("TRIGGEREVENT ", chained(first, (("OR", other) for other in others))))
    if trigger.composite is not None:
        clauses.append(("COMPOSITEEVENT ", composite_doc(trigger.composite.expression)))
        clauses += _clauses(trigger.composite.clauses)
    clauses.append(("RULESTRUC ", _structure(trigger.structure, 0)))
    if trigger.policy is not None:
        clauses.append(f"ON FAILURE {name_text(trigger.policy)}")
    if trigger.returns is not None:
        clauses.append(f"RETURNS {type_text(trigger.returns.type)} : {name_text(trigger.returns.rule)}")
    return clauses


def _structure(node: s.RuleStructure, floor: int) -> Doc:
    """A rule structure; `,` (0) binds looser than `>` (1), and the rules themselves (2) not at all."""
    match node:
        case s.RuleCall(name=name, arguments=arguments):
            rule = name_text(name)
            return call_doc(rule, [scalar_doc(argument) for argument in arguments]) if arguments else rule
        case s.OneAfterTheOther(steps=steps):
            level = 1
            first, *others = (_structure(step, 2) for step in steps)
            doc: Doc = chained(first, ((">", other) for other in others))
        case s.SideBySide(branches=branches):
            level = 0
            doc = listed(_structure(branch, 1) for branch in branches)
        case _:
            assert_never(node)
    return ("(", doc, ")") if level < floor else doc

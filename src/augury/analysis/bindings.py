"""BIND as written → which executor carries out which action; and which actions have none, or are never done.

In: the tables of names, and the actions of the program with typed arguments. Out: bindings. It carries nothing out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from augury.algebra.operators import castable
from augury.algebra.program import ClassPlan, Program
from augury.algebra.rule import ActionCall, Rule
from augury.algebra.scalar import Scalar, dump
from augury.algebra.wiring import Binding, ExecutorKind
from augury.algebra.wiring_forms import EXECUTOR_FORMS
from augury.analysis.declarations import Declarations, Names, enumerated, find_class, fits
from augury.analysis.references import counted
from augury.analysis.wiring import kind_of, settings_of, texts_of
from augury.diagnostics import Diagnostic, Findings, Mark, Severity, Span
from augury.event import Attribute, ClassKind, EventClass, key_of
from augury.language import syntax as s
from augury.types import with_article


@dataclass(frozen=True, slots=True)
class _Use:
    """A place where an action is done, and the same with typed arguments, if these are right."""

    call: s.ActionCall
    typed: ActionCall | None


def bindings(
    tables: Declarations, plans: Iterable[ClassPlan], rules: Iterable[Rule], findings: Findings
) -> tuple[Binding, ...]:
    """All bindings, one for each action that is bound."""
    uses = _uses(tables, plans, rules)
    done = [places[0].call.name.text for places in uses.values()]
    first: dict[str, s.Ident] = {}
    found: list[Binding] = []
    for statement in tables.bindings:
        event_class = _posted_class(statement, tables, findings)
        binding = _binding(statement, event_class, findings)
        for action in statement.actions:
            if action.key in first:
                _bound_twice(action, first[action.key], findings)
                continue
            first[action.key] = action
            places = uses.get(action.key, [])
            if not places:
                _never_done(action, done, findings)
            if event_class is not None:
                _require_attributes(statement, event_class, places, findings)
            if binding is not None:
                found.append(replace(binding, action=places[0].call.name.text if places else action.text))
    if tables.bindings or tables.detections:
        _warn_of_unbound(uses, first, findings)
    return tuple(found)


def _binding(statement: s.Binding, event_class: EventClass | None, findings: Findings) -> Binding | None:
    """What a BIND says, for the first of its actions."""
    kind = kind_of(statement.kind, ExecutorKind, "executor", findings)
    if kind is None:
        return None
    form, action = EXECUTOR_FORMS[kind], statement.actions[0].text
    settings = settings_of(statement.options, form.options, statement.kind, findings)
    if kind is ExecutorKind.EVENT:
        target = None if event_class is None else (event_class.name,)
        return None if target is None else Binding(action, kind, target, settings, statement.span)
    texts = texts_of(statement.target, form.target, statement.kind, f"BIND {action} TO", findings)
    return None if texts is None else Binding(action, kind, texts, settings, statement.span)


# ---- actions


def _uses(tables: Declarations, plans: Iterable[ClassPlan], rules: Iterable[Rule]) -> dict[str, list[_Use]]:
    """Where each action is done, by its name without regard to case."""
    lowered = [action for plan in plans for statement in plan.statements for action in statement.actions]
    lowered += [d for rule in rules for d in (*rule.actions, *rule.alternatives) if isinstance(d, ActionCall)]
    typed = {action.span: action for action in lowered}
    uses: dict[str, list[_Use]] = {}
    for call in _calls(tables):
        uses.setdefault(call.name.key, []).append(_Use(call, typed.get(call.span)))
    return uses


def _calls(tables: Declarations) -> Iterator[s.ActionCall]:
    for statement in tables.class_statements.values():
        for on in statement.statements:
            yield from (call for call in on.actions if not call.post)
    for rule in tables.rules.values():
        yield from (call for call in (*rule.actions, *rule.alternatives) if not call.post)


def _bound_twice(action: s.Ident, before: s.Ident, findings: Findings) -> None:
    findings.error(
        "E272",
        f"the action `{action.text}` is bound twice",
        action.span,
        "again here",
        others=[Mark(before.span, "first bound here")],
        helps=["an action has one executor: leave one of them out, or do two actions"],
    )


def _never_done(action: s.Ident, done: Sequence[str], findings: Findings) -> None:
    meant = findings.closest(action.text, done)
    helps = [f"did you mean `{meant}`?"] if meant else [f"do it: ON ANNOUNCEMENT DO {action.text}(…), or leave it out"]
    message = f"nothing does the action `{action.text}`"
    findings.warning("W392", message, action.span, "in no ON statement and no rule", helps=helps)


def _warn_of_unbound(uses: Mapping[str, Sequence[_Use]], bound: Mapping[str, s.Ident], findings: Findings) -> None:
    """A program that says where its actions go should say it of all; one without a word leaves it to the settings."""
    for key, places in uses.items():
        if key not in bound:
            name = places[0].call.name
            findings.warning(
                "W393",
                f"the action `{name.text}` has no executor",
                name.span,
                "it waits in the outbox",
                helps=[f"write e.g. BIND {name.text} TO LOG, or bind it in the settings"],
            )


def note_of_unbound(program: Program, bound: Collection[str], modules: Collection[str]) -> Diagnostic | None:
    """One note for all actions that neither the program binds nor `bound`, the settings, do.

    Functions of `modules` may carry out some of them: which, only running their code would tell.
    """
    known = {key_of(name) for name in (*bound, *(binding.action for binding in program.bindings))}
    calls = {key_of(call.name): call for call in reversed([*program.action_calls()]) if key_of(call.name) not in known}
    if not calls:
        return None
    first, *others = sorted(calls.values(), key=lambda call: call.span.start)
    names = enumerated([f"`{call.name}`" for call in (first, *others)])
    verbs = ("have", "wait") if others else ("has", "waits")
    unless = f", unless a function of {enumerated(modules)} does it" if modules else ""
    return Diagnostic(
        "N304",
        f"{names} {verbs[0]} no executor{unless}, and {verbs[1]} in the outbox",
        Mark(first.span, "done here"),
        tuple(Mark(call.span, "and here") for call in others),
        (f"write e.g. BIND {first.name} TO LOG, or bind it in augury.toml",),
        Severity.NOTE,
    )


# ---- TO EVENT


def _posted_class(statement: s.Binding, tables: Declarations, findings: Findings) -> EventClass | None:
    if statement.kind.text != ExecutorKind.EVENT:
        return None
    if statement.event_class is None:
        span = statement.target[0].span.to(statement.target[-1].span) if statement.target else statement.kind.span
        helps = [f"write e.g. BIND {statement.actions[0].text} TO EVENT Approved"]
        findings.error("E273", "EVENT takes a class", span, "expected the name of a class", helps=helps)
        return None
    event_class = find_class(statement.event_class, tables.classes, findings)
    if event_class is None or event_class.kind is ClassKind.SUBSCRIBED:
        return event_class
    findings.error(
        "E274",
        f"`{event_class.name}` is a {event_class.kind} class: its events cannot be posted",
        statement.event_class.span,
        f"a {event_class.kind} class",
        others=[Mark(event_class.span, "declared here")],
        helps=["bind to an event of a SUBSCRIBED class"],
    )
    return None


def _require_attributes(
    statement: s.Binding, event_class: EventClass, places: Iterable[_Use], findings: Findings
) -> None:
    """The arguments of an action become the attributes of the class by position."""
    assert statement.event_class is not None, "only EVENT has a class"
    bound, wanted = statement.event_class.span, event_class.attributes
    for use in places:
        call = use.call
        if len(call.arguments) != len(wanted):
            names = enumerated(Names(wanted))
            findings.error(
                "E274",
                f"`{event_class.name}` has {counted(len(wanted), 'attribute')}, "
                f"but `{call.name.text}` has {counted(len(call.arguments), 'argument')}",
                call.span,
                f"the attributes are ({names})" if names else "the class has none",
                others=[Mark(bound, "bound to this class")],
                helps=[f"write {call.name.text}({names}); NULL is for a value that is not known"],
            )
        elif use.typed is not None:
            for attribute, value, written in zip(wanted, use.typed.arguments, call.arguments, strict=True):
                _require_type(attribute, value, written.span, bound, findings)


def _require_type(attribute: Attribute, value: Scalar, span: Span, bound: Span, findings: Findings) -> None:
    if not fits(value.type, attribute.type):
        cast = f"write CAST({dump(value)} AS {attribute.type})" if castable(value.type, attribute.type) else ""
        findings.error(
            "E274",
            f"`{attribute.name}` is {with_article(attribute.type)}, which {with_article(value.type)} does not fit",
            span,
            f"this is {with_article(value.type)}",
            others=[Mark(bound, "bound to this class")],
            helps=[cast or f"give {with_article(attribute.type)}"],
        )

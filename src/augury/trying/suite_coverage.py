"""What no test made happen: classes without an event, statements and triggers that never fired, rules in part.

In: a program and the results of all tests of it. Out: a `Coverage`, and the same as lines of text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import Source
from augury.event import ClassKind, key_of
from augury.kernels.firing import Outcome
from augury.trying.suite import Kind
from augury.trying.suite_bound import Got, Result

_WORDS = {
    ClassKind.SUBSCRIBED: "no event of it came",
    ClassKind.CLOCK: "the clock posted none",
    ClassKind.COMPLEX: "it never took place",
}
_STATEMENT_SHOWN_MAX = 70


@dataclass(frozen=True, slots=True)
class Untried:
    """Something of a program that no test made happen: what it is, its name, its line there, and why it counts."""

    what: str
    name: str
    line: int
    told: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much there is of a program, and what of it no test made happen."""

    program: str
    classes: int
    statements: int
    triggers: int
    rules: int
    untried: tuple[Untried, ...]

    def count(self, what: str) -> int:
        """How many of a kind were not tried."""
        return sum(one.what == what for one in self.untried)


def coverage(program: Program, source: Source, results: Iterable[Result]) -> Coverage:
    """What the tests of a program left out."""
    happened: set[str] = set()
    fired: set[tuple[str, int]] = set()
    triggers: set[str] = set()
    ran: set[tuple[str, Outcome]] = set()
    for result in results:
        happened |= {key_of(row.said.name) for i, row in enumerate(result.bound.rows) if i not in result.ran.rejected}
        happened |= {key_of(name) for name in result.ran.read}
        happened |= {key_of(got.name) for got in result.ran.got if got.kind is Kind.EVENT}
        actions = (got for got in result.ran.got if got.kind is Kind.ACTION)
        fired |= {found for got in actions if (found := _statement(program, got)) is not None}
        triggers |= {key_of(got.name) for got in result.ran.got if got.kind is Kind.FIRING}
        ran |= {(key_of(name), outcome) for name, outcome in result.ran.rules}
    untried = [
        *_classes(program, source, happened),
        *_statements(program, source, fired),
        *_triggers(program, source, triggers),
        *_rules(program, source, ran),
    ]
    statements = sum(len(plan.statements) for plan in program.classes)
    counts = len(program.classes), statements, len(program.triggers), len(program.rules)
    return Coverage(source.name, *counts, tuple(untried))


def _statement(program: Program, got: Got) -> tuple[str, int] | None:
    """Which statement fired; where an engine does not say so, the only one that could have."""
    name = key_of(got.line["event"])
    if got.statement == 0 or "rule" in got.line:
        return None  # a rule did it
    if got.statement is not None:
        return name, got.statement
    plan = program.class_plan(name)
    assert plan is not None, "it is a class of the program"
    could = [n for n, one in enumerate(plan.statements, 1) if any(call.name == got.name for call in one.actions)]
    return (name, could[0]) if len(could) == 1 else None


def _classes(program: Program, source: Source, happened: set[str]) -> Iterable[Untried]:
    for plan in program.classes:
        event_class = plan.event_class
        if key_of(event_class.name) not in happened:
            line = source.position(event_class.span.start)[0]
            yield Untried("class", event_class.name, line, _WORDS[event_class.kind])


def _statements(program: Program, source: Source, fired: set[tuple[str, int]]) -> Iterable[Untried]:
    for plan in program.classes:
        for number, one in enumerate(plan.statements, 1):
            if (key_of(plan.event_class.name), number) not in fired:
                line = source.position(one.span.start)[0]
                yield Untried("statement", plan.event_class.name, line, _text(plan, number, source), number)


def _text(plan: ClassPlan, number: int, source: Source) -> str:
    span = plan.statements[number - 1].span
    text = " ".join(source.text[span.start : span.end].split())
    return text if len(text) <= _STATEMENT_SHOWN_MAX else text[: _STATEMENT_SHOWN_MAX - 1] + "…"


def _triggers(program: Program, source: Source, fired: set[str]) -> Iterable[Untried]:
    for one in program.triggers:
        if key_of(one.name) not in fired:
            yield Untried("trigger", one.name, source.position(one.span.start)[0], "it never fired")


def _rules(program: Program, source: Source, ran: set[tuple[str, Outcome]]) -> Iterable[Untried]:
    """Rules that never ran, and of those that did the side of their condition that was never taken."""
    for one in program.rules:
        held, not_held = ((key_of(one.name), way) in ran for way in (Outcome.HELD, Outcome.NOT_HELD))
        line = source.position(one.span.start)[0]
        if not held and not not_held:
            yield Untried("rule", one.name, line, "it never ran")
        elif not held and one.actions:
            yield Untried("action", one.name, line, "its condition never held")
        elif not not_held and one.alternatives:
            yield Untried("alternative", one.name, line, "its condition always held")


def coverage_lines(found: Coverage) -> list[str]:
    """What was left out, for people."""
    tried = [
        f"{found.classes - found.count('class')} of {_many(found.classes, 'class', 'classes')}",
        f"{found.statements - found.count('statement')} of {_many(found.statements, 'statement', 'statements')}",
    ]
    if found.triggers or found.rules:
        tried.append(f"{found.triggers - found.count('trigger')} of {_many(found.triggers, 'trigger', 'triggers')}")
        tried.append(f"{found.rules - found.count('rule')} of {_many(found.rules, 'rule', 'rules')}")
    lines = [f"{found.program}: tests made {', '.join(tried[:-1])} and {tried[-1]} happen"]
    for one in found.untried:
        number = "" if one.number is None else f"statement {one.number} of "
        what = {"statement": "", "action": "ACTION of rule ", "alternative": "ALTERNATIVEACTION of rule "}.get(
            one.what, f"{one.what} "
        )
        lines.append(f"  line {one.line}: {what}{number}{one.name}: {one.told}")
    return lines


def _many(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"

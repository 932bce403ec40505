"""What `augury explain` shows: a program, or one thing of it, at a stage; or the long help of an error code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from augury import limits
from augury.algebra import dump as algebra
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan, Whole
from augury.api import Checked
from augury.automata.build import NoOneAutomaton, body_of, compile_expression
from augury.automata.drawing import draw
from augury.automata.operations import TooManyStates
from augury.automata.reasons import blow_up
from augury.catalogue import entries, entry
from augury.diagnostics import NOWHERE, Diagnostic, Mark, closest
from augury.graphs import graph_of
from augury.language import syntax as s
from augury.language.dump import dump_syntax


class ExplainError(Exception):
    """There is nothing of that name to explain; carries the diagnostic."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic."""
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def explain_code(code: str) -> str | None:
    """The long help of an error code, None for a word that has not the form of one."""
    if not re.fullmatch(r"[EeWwNn][0-9]{3}", code):
        return None
    found = entry(code.upper())
    if found is None:
        meant = closest(code, entries())
        helps = (f"did you mean `{meant}`?" if meant else "docs/errors.md lists them all",)
        raise ExplainError(Diagnostic("E504", f"there is no error code `{code.upper()}`", Mark(NOWHERE), helps=helps))
    return found.text()


def explain_program(checked: Checked, name: str | None, stage: str, *, form: str = "text") -> str:
    """The program, or one thing of it: syntax, algebra, automata (text, dot, svg) or graphs of COMPOSITE."""
    program = checked.program
    assert program is not None, "only programs without errors are explained"
    if stage == "automaton":
        things = dict(_automata(program, form, checked.source.text, name))
        if name is None:
            return "\n\n".join(text for _, text in things.values()) or "the program has no MATCH class"
    elif stage == "graph":
        things = dict(_graphs(program, form))
        if name is None:
            return "\n\n".join(text for _, text in things.values()) or "the program has no COMPOSITE class"
    elif name is None:
        if stage == "syntax":
            return dump_syntax(checked.syntax)
        parts = (algebra.dump_program(program, _facts(program)), algebra.dump_wiring(program))
        return "\n\n".join(part for part in parts if part)
    else:
        things = dict(_syntax(checked.syntax)) if stage == "syntax" else dict(_algebra(program))
    found = things.get(name.casefold())
    if found is None:
        what = {"automaton": "no MATCH class", "graph": "no COMPOSITE class"}.get(stage, "nothing")
        names = [spelling for spelling, _ in things.values()]
        meant = closest(name, names)
        helps = [f"did you mean `{meant}`?" if meant else f"there is {', '.join(names) or 'none'}"]
        if (plan := program.class_plan(name)) is not None:
            helps = [f"see it with --stage {_stage_of(plan)}"]
        if any(isinstance(st, s.Definition) and st.name.key == name.casefold() for st in checked.syntax.statements):
            helps = ["a definition is expanded where it is used: see it with --stage syntax"]
        raise ExplainError(
            Diagnostic("E504", f"the program has {what} called `{name}`", Mark(NOWHERE), helps=tuple(helps))
        )
    return found[1]


def _stage_of(plan: ClassPlan) -> str:
    """The latest stage that shows a class."""
    match plan.derivation:
        case MatchPlan():
            return "automaton"
        case CompositePlan():
            return "graph"
        case _:
            return "algebra"


def _graphs(program: Program, form: str) -> Iterator[tuple[str, tuple[str, str]]]:
    composites = [(p.event_class.name, p.derivation) for p in program.classes]
    for name, plan in [*composites, *((t.name, t.composite) for t in program.triggers)]:
        if isinstance(plan, CompositePlan):
            graph = graph_of(plan)
            text = graph.to_dot() if form == "dot" else f"{name}: {plan.context}\n{graph.dump()}"
            yield name.casefold(), (name, text.rstrip())


def _automata(program: Program, form: str, source: str, wanted: str | None) -> Iterator[tuple[str, tuple[str, str]]]:
    for plan in program.classes:
        name = plan.event_class.name
        if isinstance(plan.derivation, MatchPlan):
            is_wanted = wanted is None or wanted.casefold() == name.casefold()
            yield name.casefold(), (name, _automaton(name, plan.derivation, form, source) if is_wanted else "")


def _automaton(name: str, plan: MatchPlan, form: str, source: str) -> str:
    try:
        compiled = compile_expression(plan.expression)
    except TooManyStates:
        return _instead(_blow_up(name, plan, source), form)
    except NoOneAutomaton:
        why = f"{name}: no one automaton tells its values apart, those that a negation binds or a prefix compares"
        return _instead(why, form)
    states = len(compiled.automaton.delta)
    match form:
        case "dot":
            return compiled.to_dot()
        case "svg" if states > limits.DRAWING_STATES_MAX:
            return _instead(f"{name}: {states:,} states are too many for a picture", form)
        case "svg":
            return draw(compiled.automaton, compiled.alphabet.names(), title=name)
        case _:
            return f"{name}: {compiled.dump()}"


def _instead(why: str, form: str) -> str:
    """Why there is no automaton to show; a file that is to hold a picture does not get it."""
    if form == "text":
        return why
    helps = ("leave --dot and --svg out for what there is",)
    raise ExplainError(Diagnostic("E505", why.partition("\n")[0], Mark(NOWHERE), helps=helps))


def _blow_up(name: str, plan: MatchPlan, source: str) -> str:
    lines = [f"{name}: more than {limits.AUTOMATON_STATES_MAX:,} states; sets of states are simulated instead, slower"]
    if (found := blow_up(body_of(plan.expression))) is not None:
        span = found.part.span
        lines.append(f"  because of `{found.operator}` in {' '.join(source[span.start : span.end].split())}")
        lines.append(f"  help: {found.proposal(source)}")
    return "\n".join(lines)


def _syntax(program: s.Program) -> Iterator[tuple[str, tuple[str, str]]]:
    # A class, rule or trigger wins over an action or a detector of its name, so these come first.
    for statement in program.statements:
        if isinstance(statement, s.Binding | s.Detection):
            called = statement.actions if isinstance(statement, s.Binding) else (statement.name,)
            yield from ((name.key, (name.text, dump_syntax(statement))) for name in called)
    for statement in program.statements:
        if isinstance(statement, s.NamedStatement):
            yield statement.name.key, (statement.name.text, dump_syntax(statement))


def _algebra(program: Program) -> Iterator[tuple[str, tuple[str, str]]]:
    facts = _facts(program)
    for binding in program.bindings:
        yield binding.action.casefold(), (binding.action, algebra.dump_binding(binding))
    for detection in program.detections:
        yield detection.name.casefold(), (detection.name, algebra.dump_detection(detection))
    for plan in program.classes:
        yield plan.event_class.name.casefold(), (plan.event_class.name, algebra.dump_class(plan, facts))
    for rule in program.rules:
        yield rule.name.casefold(), (rule.name, algebra.dump_rule(rule))
    for trigger in program.triggers:
        yield trigger.name.casefold(), (trigger.name, algebra.dump_trigger(trigger))


def _facts(program: Program) -> algebra.Facts:
    """What engines find out about a SELECT: when it is derived again, and for which rows."""
    classes = [plan.event_class for plan in program.classes]

    def facts(plan: SelectPlan) -> list[tuple[str, str]]:
        from augury.engine.select_parts import parts_of  # sqlglot is slow to import and not always needed
        from augury.engine.select_turns import turns_of

        parts, turns = parts_of(plan, classes), turns_of(plan, classes)
        derives = f"whole, at every change: {parts.reason}" if isinstance(parts, Whole) else str(parts)
        in_time = f"at every tick: {turns.reason}" if isinstance(turns, Whole) else str(turns)
        return [("derives", derives), ("in time", in_time)]

    return facts

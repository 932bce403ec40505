"""What automata have to say about a program: MATCH classes that never take place, always do, or do as another does.

In: a checked program and its text. Out: warnings. What would take long is left out: the limits of `check` count nodes,
letters and moves, not seconds, so that the same program always gets the same warnings.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

from augury import limits
from augury.algebra.expression import (
    Aggregate,
    Apply,
    Choice,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    MatchPlan,
    Nth,
    Place,
    Primitive,
    Some,
    children,
    walk,
)
from augury.algebra.program import ClassPlan, Program
from augury.automata.alphabet import Alphabet, alphabet_of, has_at_most
from augury.automata.answers import canonical_form, everywhere, form_hash, never, normal, relevant_classes
from augury.automata.automaton import Automaton
from augury.automata.build import Compiled, NoOneAutomaton
from augury.automata.growth import grows
from augury.automata.reasons import BlowUp, Reason, automaton_or_blow_up, inside_out, no_reason, why_never
from augury.automata.runs import TooManyRuns
from augury.diagnostics import Diagnostic, Mark, Severity
from augury.event import ClassKind


@dataclass(frozen=True, slots=True)
class Compared:
    """A MATCH class whose automaton is at hand, in the `normal` form of its expression."""

    plan: ClassPlan
    match: MatchPlan
    expression: Expression
    compiled: Compiled

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.plan.event_class.name

    @property
    def is_filtered(self) -> bool:
        """Whether it may not take place where its expression does: filters look at occurrence tuples."""
        return self.match.where is not None or self.match.within_us is not None


@dataclass(eq=False, slots=True)
class Survey:
    """The MATCH classes of a program, one automaton per shape of expression, until the work allowed is done."""

    program: Program
    work_left: int = limits.ANSWERS_WORK_MAX
    compared: list[Compared] = field(default_factory=list)
    too_large: list[tuple[ClassPlan, MatchPlan, BlowUp]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _shapes: dict[Hashable, Automaton | int] = field(default_factory=dict)

    def take(self) -> Survey:
        """Compile what can be."""
        for plan in self.program.classes:
            if isinstance(plan.derivation, MatchPlan):
                self._take(plan, plan.derivation)
        return self

    def reason(self, one: Compared) -> Reason:
        """Why a class never takes place; its parts are looked into as long as there is work left."""
        if self.work_left <= 0:
            return no_reason(one.expression)
        self.work_left -= len(one.compiled.alphabet.symbols) * sum(10 for _ in walk(one.expression))
        return why_never(one.expression)

    def _take(self, plan: ClassPlan, match: MatchPlan) -> None:
        try:
            expression = normal(match.expression)
        except NoOneAutomaton:
            self.left_out.append(plan.event_class.name)
            return
        alphabet = _small_alphabet(expression)
        if alphabet is None or self.work_left <= 0:
            self.left_out.append(plan.event_class.name)
            return
        found = self._automaton(expression, alphabet)
        if isinstance(found, Automaton):
            self.compared.append(Compared(plan, match, expression, Compiled(alphabet, found)))
        else:
            self.too_large.append((plan, match, BlowUp(list(inside_out(expression))[found])))

    def _automaton(self, expression: Expression, alphabet: Alphabet) -> Automaton | int:
        """The automaton, or which part is too large; once per shape, for what leaves say makes no difference."""
        key = _shape(expression, alphabet)
        if key not in self._shapes:
            found = self._shapes[key] = automaton_or_blow_up(expression, alphabet)
            states = len(found.delta) if isinstance(found, Automaton) else limits.AUTOMATON_STATES_MAX
            nodes = sum(1 for _ in walk(expression)) if isinstance(found, Automaton) else 1
            self.work_left -= len(alphabet.symbols) * states * nodes
        return self._shapes[key]


def advise(program: Program, text: str) -> Iterator[Diagnostic]:
    """The warnings that automata give rise to; `text` is that of the program."""
    survey = Survey(program).take()
    for plan, match, found in survey.too_large:
        yield _too_large(plan, match, found, text)
    telling = []
    for one in survey.compared:
        if never(one.compiled):
            yield _never(one, survey.reason(one))
        elif not one.is_filtered and everywhere(one.compiled):
            if one.match.over is None or one.expression != Apply(MatchOperator.ANY):
                yield _everywhere(one)
        else:
            telling.append(one)
    for first, second in _same(telling, complex_classes(program)):
        yield _as_another(first, second)
    for one in survey.compared:
        if _wants_all(one.match) and not _is_bounded(program, one) and _grows(one.expression):
            yield _without_bound(one)


def _wants_all(match: MatchPlan) -> bool:
    return match.choice is Choice.ALL or any(isinstance(feed.value, Aggregate) for feed in match.feeds)


def _is_bounded(program: Program, one: Compared) -> bool:
    """WITHIN bounds tuples, and so does the lifespan of every class, which only filtered classes heed."""
    if one.match.within_us is not None:
        return True
    named = {node.event_class for node in walk(one.expression) if isinstance(node, Primitive)}
    plans = [plan for name in named if (plan := program.class_plan(name)) is not None]
    return one.is_filtered and all(plan.event_class.lifespan_us is not None for plan in plans)


def _grows(expression: Expression) -> bool:
    try:
        return grows(expression)
    except TooManyRuns:
        return True


def _without_bound(one: Compared) -> Diagnostic:
    message = f"`{one.name}` keeps every occurrence tuple, and their number has no bound"
    mark = Mark(one.match.expression.span, "tuples stay open for ever")
    helps = ("end them with WITHIN, or take one with COLLECT RECENT",)
    return Diagnostic("W309", message, mark, helps=helps, severity=Severity.WARNING)


def history_of(one: Compared, complex_names: frozenset[str]) -> Hashable:
    """Which events an expression reads, and in which order; only classes that read the same can be compared."""
    match = one.match
    named = frozenset(node.event_class for node in walk(one.expression) if isinstance(node, Primitive))
    own = named & complex_names if match.over is None else frozenset(match.over)
    return match.over is None, own, frozenset(match.partition_by), match.by_occurrence


def complex_classes(program: Program) -> frozenset[str]:
    """The classes whose events are in a history only where they are named."""
    classes = (plan.event_class for plan in program.classes)
    return frozenset(found.name for found in classes if found.kind is ClassKind.COMPLEX)


def _same(classes: list[Compared], complex_names: frozenset[str]) -> Iterator[tuple[Compared, Compared]]:
    """Each class that takes place at the same events as one before it, with the first of those."""
    alike: dict[Hashable, list[Compared]] = {}
    for one in classes:
        aggregates = any(isinstance(feed.value, Aggregate) for feed in one.match.feeds)
        key: tuple[Hashable, ...] = (history_of(one, complex_names), one.match.choice, aggregates)
        if one.is_filtered:  # filters look at tuples, so that only equal expressions are sure to be filtered alike
            key = (*key, one.match.expression, one.match.where, one.match.within_us)
        else:  # what is the same for equivalent expressions and quickly found, so that few canonical forms are needed
            has_start = any(symbol.is_start for symbol in one.compiled.alphabet.symbols)
            form = canonical_form(one.compiled) if has_start else one.compiled
            key = (*key, len(form.automaton.delta), relevant_classes(form))
        alike.setdefault(key, []).append(one)
    for some in alike.values():
        seen: dict[str, Compared] = {}
        for one in some if len(some) > 1 else ():
            found = "" if one.is_filtered else form_hash(canonical_form(one.compiled))
            if (first := seen.setdefault(found, one)) is not one:
                yield first, one


# ---- words ---------------------------------------------------------------------------------------


def _never(one: Compared, reason: Reason) -> Diagnostic:
    whole, part = one.match.expression.span, reason.part.span
    others = () if part == whole else (Mark(whole, "so this does not either"),)
    message = f"`{one.name}` never takes place"
    return Diagnostic("W305", message, Mark(part, reason.why), others, (reason.help,), Severity.WARNING)


def _everywhere(one: Compared) -> Diagnostic:
    helps = ("say at which events: … AND A, for those of the class A",)
    mark = Mark(one.match.expression.span, "whatever the history")
    return Diagnostic("W306", f"`{one.name}` takes place at every event", mark, (), helps, Severity.WARNING)


def _as_another(first: Compared, second: Compared) -> Diagnostic:
    message = f"`{second.name}` takes place at the same events as `{first.name}`"
    mark = Mark(second.plan.event_class.span, "in every history")
    others = (Mark(first.plan.event_class.span, "as this"),)
    helps = (f"one class will do, with the attributes of both: leave `{second.name}` out",)
    return Diagnostic("W307", message, mark, others, helps, Severity.WARNING)


def _too_large(plan: ClassPlan, match: MatchPlan, found: BlowUp, text: str) -> Diagnostic:
    message = f"the automaton of `{plan.event_class.name}` has more than {limits.AUTOMATON_STATES_MAX:,} states"
    others = () if found.part.span == match.expression.span else (Mark(match.expression.span, "in this"),)
    helps = ("it runs, but slower: sets of states are simulated instead", found.proposal(text))
    mark = Mark(found.part.span, f"`{found.operator}` makes it so large")
    return Diagnostic("W308", message, mark, others, helps, Severity.WARNING)


# ---- what is small, and what is alike --------------------------------------------------------------


def _small_alphabet(expression: Expression) -> Alphabet | None:
    """The alphabet, None where nodes or letters are too many."""
    if sum(1 for _ in walk(expression)) > limits.ANSWERS_NODES_MAX:
        return None
    leaves = dict.fromkeys(node for node in walk(expression) if isinstance(node, Primitive))
    marks = _free_variables(expression)[1]
    if not has_at_most(leaves, limits.ANSWERS_LETTERS_MAX >> marks):
        return None
    alphabet = alphabet_of(expression)
    # Counting to less than the limit gives automata as large as the count, and to more none at all.
    counts = (node.count for node in walk(expression) if isinstance(node, Nth))
    states = sum(count for count in counts if count * 2 < limits.AUTOMATON_STATES_MAX)
    return alphabet if (states * len(alphabet.symbols) << marks) < limits.ANSWERS_WORK_MAX // 5 else None


def _free_variables(expression: Expression) -> tuple[frozenset[str], int]:
    """The correlation variables that are free in an expression, and how many are in one of its parts at most."""
    found = [_free_variables(child) for child in children(expression)]
    names = frozenset().union(*(inner for inner, _ in found))
    match expression:
        case Place(variable=variable) | Equate(variable=variable):
            names |= {variable}
        case Exists(variable=variable):
            names -= {variable}
        case _:
            pass
    return names, max([len(names), *(most for _, most in found)])


def _shape(expression: Expression, alphabet: Alphabet) -> Hashable:
    """What the automaton of an expression depends on: its operators, the numbers of its leaves, and its symbols."""
    leaves = {leaf: i for i, leaf in enumerate(alphabet.leaves)}
    classes = {leaf.event_class: i for i, leaf in reversed(list(enumerate(alphabet.leaves)))}
    symbols = tuple((classes.get(s.event_class or "", -1), s.leaves, s.is_start) for s in alphabet.symbols)
    return _tree(expression, leaves, {}), symbols


def _tree(expression: Expression, leaves: dict[Primitive, int], names: dict[str, int]) -> Hashable:
    def number(variable: str) -> int:
        return names.setdefault(variable, len(names))

    inside = tuple(_tree(child, leaves, names) for child in children(expression))
    match expression:
        case Primitive():
            return leaves[expression]
        case Place(variable=variable):
            return "x", number(variable)
        case Apply(operator=operator):
            return operator, inside
        case Nth(count=count, every=every):
            return count, every, inside
        case Equate(variable=variable):
            return "=", number(variable), inside
        case Exists(variable=variable):
            return "EXISTS", number(variable), inside
        case Some():
            return inside
        case _:
            assert_never(expression)

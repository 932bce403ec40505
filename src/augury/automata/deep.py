"""What takes longer to find out about a program: which MATCH class implies which, and what tells look-alikes apart.

In: a checked program, and somebody to ask whether time is up. Out: a value that says what was found and what was not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from itertools import combinations

from augury import limits
from augury.algebra.program import Program
from augury.automata.advice import Compared, Survey, complex_classes, history_of
from augury.automata.alphabet import has_at_most
from augury.automata.answers import (
    Witness,
    canonical_form,
    distinguishing,
    everywhere,
    form_hash,
    implies,
    never,
    relevant_classes,
)
from augury.automata.build import Compiled
from augury.automata.operations import TooManyStates
from augury.diagnostics import NOWHERE, Diagnostic, Mark, Severity


@dataclass(frozen=True, slots=True)
class Implication:
    """Wherever the first class takes place, the second does; they are not known to be the same."""

    first: Compared
    second: Compared


@dataclass(frozen=True, slots=True)
class Difference:
    """Two classes that speak of the same classes and are not the same, and the shortest history that shows it."""

    first: Compared
    second: Compared
    witness: Witness


@dataclass(frozen=True, slots=True)
class Deep:
    """What was found, and what was left out: classes without an automaton, pairs that time did not allow or show."""

    implications: tuple[Implication, ...]
    differences: tuple[Difference, ...]
    classes_left_out: tuple[str, ...]
    pairs_left_out: int
    differences_left_out: int

    def notes(self) -> Iterator[Diagnostic]:
        """The findings as notes, in order: implications, differences, what was left out."""
        for found in self.implications:
            message = f"wherever `{found.first.name}` takes place, `{found.second.name}` does too"
            yield _note("N301", message, found.first, found.second)
        for apart in self.differences:
            takes, not_ = (apart.first, apart.second)[:: 1 if apart.witness.first_takes_place else -1]
            history = ", ".join(apart.witness.history)
            message = f"`{takes.name}` and `{not_.name}` differ: after {history} only `{takes.name}` takes place"
            yield _note("N302", message, apart.first, apart.second)
        if parts := list(self._left_out()):
            message = f"not compared or not shown: {'; '.join(parts)}"
            yield Diagnostic("N303", message, Mark(NOWHERE), severity=Severity.NOTE)

    def _left_out(self) -> Iterator[str]:
        if self.pairs_left_out:
            yield f"{self.pairs_left_out:,} pairs of classes, for want of time or because they are too large"
        if self.differences_left_out:
            yield f"{self.differences_left_out:,} differences that a shorter history shows"
        if self.classes_left_out:
            yield f"{', '.join(f'`{name}`' for name in self.classes_left_out)}, of which there is no small automaton"


def compare_classes(program: Program, is_over: Callable[[], bool]) -> Deep:
    """Compare the MATCH classes of a program pair by pair, as long as it is not over."""
    survey = Survey(program).take()
    known, missing = _distinct(survey, complex_classes(program), is_over)
    implied: dict[int, set[int]] = {i: set() for i in range(len(known))}
    differences: list[Difference] = []
    pairs_left_out = 0
    for i, j in _pairs(known):
        if is_over() or not _is_small(known[i].form, known[j].form):
            pairs_left_out += 1
            continue
        try:
            if _follows(known[i], known[j]):
                implied[i].add(j)
            if _follows(known[j], known[i]):
                implied[j].add(i)
            differences += _difference(known[i], known[j])
        except TooManyStates:
            pairs_left_out += 1
    differences.sort(key=lambda found: -len(found.witness.history))
    shown = differences[: limits.DEEP_DIFFERENCES_MAX]
    return Deep(
        tuple(Implication(known[i].one, known[j].one) for i in implied for j in sorted(_reduced(implied, i))),
        tuple(shown),
        (*survey.left_out, *(plan.event_class.name for plan, _, _ in survey.too_large), *missing),
        pairs_left_out,
        len(differences) - len(shown),
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """A class with its canonical form, the classes that matter to it, and what it reads."""

    one: Compared
    form: Compiled
    classes: frozenset[str]
    history: Hashable


def _distinct(
    survey: Survey, complex_names: frozenset[str], is_over: Callable[[], bool]
) -> tuple[list[_Known], list[str]]:
    """The classes worth comparing, one of each that take place at the same events; and those time did not allow."""
    found: dict[Hashable, _Known] = {}
    missing = []
    for one in survey.compared:
        if is_over():
            missing.append(one.name)
        elif not never(one.compiled) and not everywhere(one.compiled):
            form = canonical_form(one.compiled)
            known = _Known(one, form, relevant_classes(form), history_of(one, complex_names))
            found.setdefault((known.history, one.name if one.is_filtered else None, form_hash(form)), known)
    return list(found.values()), missing


def _follows(first: _Known, second: _Known) -> bool:
    """Whether the second takes place wherever the first does; a filter on the second would have to be looked into."""
    return not second.one.is_filtered and implies(first.form, second.form)


def _difference(first: _Known, second: _Known) -> list[Difference]:
    if first.classes != second.classes or first.one.is_filtered or second.one.is_filtered:
        return []
    witness = distinguishing(first.form, second.form)
    return [] if witness is None else [Difference(first.one, second.one, witness)]


def _pairs(known: list[_Known]) -> Iterator[tuple[int, int]]:
    """The pairs that read the same history and have a class in common: of others nobody asks."""
    for i, j in combinations(range(len(known)), 2):
        if known[i].history == known[j].history and known[i].classes & known[j].classes:
            yield i, j


def _is_small(first: Compiled, second: Compiled) -> bool:
    leaves = dict.fromkeys((*first.alphabet.leaves, *second.alphabet.leaves))
    return has_at_most(leaves, limits.ANSWERS_LETTERS_MAX)


def _reduced(implied: dict[int, set[int]], first: int) -> set[int]:
    """What a class implies, without what follows by way of another."""
    onwards = {k for j in implied[first] for k in implied[j]}
    return implied[first] - onwards


def _note(code: str, message: str, first: Compared, second: Compared) -> Diagnostic:
    return Diagnostic(
        code,
        message,
        Mark(first.match.expression.span),
        (Mark(second.match.expression.span),),
        severity=Severity.NOTE,
    )

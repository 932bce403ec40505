"""Why a MATCH did not take place at an event: the first part, in the order of reading, that failed, and a sentence.

In: a plan or an expression, a batch in the order of its history, a `seq`. Out: a value that reads as text. Where parts
may fail in several ways (an earlier event to start from, an event that a variable stands for, a value), the way that
gets furthest is told, and of equal ones the latest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod
from typing import Final

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import Aggregate, Apply, Choice, Expression, Feed, MatchOperator, MatchPlan, walk
from augury.algebra.scalar import Constant, Field, dump, leaves
from augury.automata.automaton import Automaton
from augury.clock import show_duration
from augury.diagnostics import NOWHERE
from augury.event import key_of
from augury.kernels.batch import ASSERT, Batch
from augury.kernels.match.failures import Failure, failure_of
from augury.kernels.match.inline import inline
from augury.kernels.match.parallel import emit, moves_of
from augury.kernels.match.past import FRESH, Past, Valuation, occurrences_at, pasts, plain, question_of
from augury.kernels.match.reading import Reading
from augury.kernels.told import WhyNot, value_text
from augury.types import BIGINT

_VALUES_TRIED: Final = 8
_COMBINATIONS_TRIED: Final = 64
_WALKS_MAX: Final = 5_000
"""How many values of a variable, and combinations of them, are looked at where the event itself does not say which; and
how many histories are read to see whether an expression takes place."""


def why_not(
    plan: MatchPlan | Expression, batch: Batch, seq: int, *, source: str | None = None, chronon_us: int = 1_000_000
) -> WhyNot:
    """Why there is no occurrence at `seq`, or that there is one; `source` is the text of the program, to cite from.

    Raises what `detector_of` and `step` raise where an expression cannot be run.
    """
    if not isinstance(plan, MatchPlan):
        plan = MatchPlan(plan, None, (), None, None, None, Choice.RECENT, ())
    whole = inline(plan.expression, source)
    span = plan.expression.span
    question = question_of(plan.expression)
    histories = pasts(plan, question, batch, seq)
    if not histories:
        return WhyNot(seq, False, whole, span, outside(plan, batch, seq))
    if _took_place(plan, histories, batch, seq, chronon_us):
        return WhyNot(seq, True, whole, span, f"it does take place at {seq}")
    if (filtered := _filtered(plan, batch, seq, chronon_us)) is not None:
        return filtered
    failures = [
        (failure_of(past, valuation, source), past, valuation) for past in histories for valuation in _valuations(past)
    ]
    failure, past, valuation = max(failures, key=lambda one: one[0].near)
    written = question.written.get(id(failure.part), failure.part)
    sentence = failure.sentence + _with_values(past, valuation, failure)
    return WhyNot(seq, False, inline(written, source), written.span, sentence)


def outside(plan: MatchPlan | CompositePlan, batch: Batch, seq: int) -> str:
    """Why an event is in no history of the expression."""
    at = [i for i, found in enumerate(batch.seq.tolist()) if found == seq]
    if not at:
        return f"there is no event {seq}"
    if all(batch.kind[i] != ASSERT for i in at):
        return f"the event {seq} is a withdrawal, and those are in no history"
    name = batch.classes[int(batch.code[at[0]])].name
    if plan.over is not None and key_of(name) not in map(key_of, plan.over):
        return f"the event at {seq} is of class {name}, which OVER ({', '.join(plan.over)}) leaves out"
    return f"the event at {seq} is of class {name}, which has no {', '.join(plan.partition_by)} to partition by"


def _took_place(plan: MatchPlan, histories: Sequence[Past], batch: Batch, seq: int, chronon_us: int) -> bool:
    """Whether there is an occurrence: automata say so where no tuple has to be looked at, and the kernel elsewhere."""
    question = histories[0].question
    filtered = plan.where is not None or plan.within_us is not None
    hopes = any(isinstance(node, Apply) and node.operator is MatchOperator.PREFIX for node in walk(question.body))
    combinations = prod(past.combinations(range(past.last + 1)) for past in histories)
    # Which leaves one event of a value can satisfy at once symbols do not know: prefix would hope in vain.
    if filtered or (hopes and question.keyed) or combinations > _WALKS_MAX:
        return len(occurrences_at(plan, batch, seq, chronon_us)) > 0
    return any(_takes_place(past) for past in histories)


def _takes_place(past: Past) -> bool:
    """Whether the expression takes place at the last event for some values."""
    question = past.question
    language = question.builders[0][1].build(question.body)
    if not isinstance(language, Automaton):
        readings = (Reading(past, valuation) for valuation in past.valuations(range(past.last + 1)))
        return any(past.last in reading.where(question.body, reading.whole, {}) for reading in readings)
    moves = moves_of(language)
    begin = next((language.step(0, i) for i, s in enumerate(question.alphabet.symbols) if s.is_start), 0)
    walks = (
        emit(moves.delta, moves.accepting, past.symbols(valuation), begin).positions[-1:]
        for valuation in past.valuations(range(past.last + 1))
    )
    return any(past.last in latest for latest in walks)


# ---- filters -------------------------------------------------------------------------------------


def _filtered(plan: MatchPlan, batch: Batch, seq: int, chronon_us: int) -> WhyNot | None:
    """What WHERE and WITHIN have to do with it, where the expression by itself takes place."""
    if plan.where is None and plan.within_us is None:
        return None
    free = replace(plan, where=None, within_us=None, choice=Choice.RECENT)
    counted = replace(free, feeds=(Feed("n", Aggregate("COUNT", None, BIGINT)),))
    found = occurrences_at(counted, batch, seq, chronon_us)
    if not len(found):
        return None
    n = found.values.column("n")[0].as_py()
    clauses = []
    if plan.where is not None:
        clauses.append(f"WHERE {dump(plan.where)}")
    if plan.within_us is not None:
        clauses.append(f"WITHIN {show_duration(plan.within_us)}")
    part = " and ".join(clauses)
    latest = ", ".join(map(str, found.constituents[0].as_py()))
    seen = _seen_by_where(free, plan, batch, seq, chronon_us)
    sentence = (
        f"it takes place at {seq}, but {part} filtered {f'all {n} tuples' if n > 1 else 'its only tuple'}"
        f"; {'the latest' if n > 1 else 'it'} has {latest}{f', with {seen}' if seen else ''}"
    )
    return WhyNot(seq, False, part, NOWHERE if plan.where is None else plan.where.span, sentence)


def _seen_by_where(free: MatchPlan, plan: MatchPlan, batch: Batch, seq: int, chronon_us: int) -> str:
    """What the fields of WHERE are in the latest tuple."""
    if plan.where is None:
        return ""
    fields = list(dict.fromkeys(leaf for leaf in leaves(plan.where) if isinstance(leaf, Field)))
    feeds = tuple(Feed(f"field_{i}", field) for i, field in enumerate(fields))
    values = occurrences_at(replace(free, feeds=feeds), batch, seq, chronon_us).values
    return ", ".join(
        f"{dump(field)} = {value_text(Constant(plain(values.column(i)[0]), field.type))}"
        for i, field in enumerate(fields)
    )


# ---- values --------------------------------------------------------------------------------------


def _valuations(past: Past) -> list[Valuation]:
    """The values that the event itself has; for other variables the latest before it, and one that no event has."""
    names = [v.name for v in past.question.keyed]
    choices = [
        past.values_at(name, [past.last]) or [*past.values_at(name, range(past.last))[:_VALUES_TRIED], FRESH]
        for name in names
    ]
    return [dict(zip(names, chosen, strict=True)) for chosen in islice(product(*choices), _COMBINATIONS_TRIED)]


def _with_values(past: Past, valuation: Valuation, failure: Failure) -> str:
    shown = [
        f"{name} = {past.shown(name, valuation[name])}"
        for name in failure.variables
        if valuation.get(name, FRESH) != FRESH
    ]
    return f" ({', '.join(shown)})" if shown else ""

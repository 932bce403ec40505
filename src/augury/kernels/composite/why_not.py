"""Why a COMPOSITE did not take place at an event, or by the clock: the operand that is missing, and a sentence.

In: a plan or an expression, a batch in the order of its history, a `seq` or a time. Out: a value that reads as text.
Of the graphs of several values that which got furthest is told, and of equal ones the latest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from augury.algebra.composite import AbsentFor, Composite, CompositePlan, Context, Node, NotBetween, children, walk
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.expression import Primitive, Variable
from augury.clock import show_time
from augury.kernels.batch import NO_SEQ, Batch
from augury.kernels.composite.failures import NodeByNode
from augury.kernels.composite.failures_recent import Recently
from augury.kernels.composite.inline import inline
from augury.kernels.composite.network import Network
from augury.kernels.composite.occurrence import Point, now_at
from augury.kernels.composite.past import END, Past, detected, joined, past_of, steps, up_to
from augury.kernels.composite.state import Key
from augury.kernels.composite.telling import Failure, how_far
from augury.kernels.match.leaves import history_rows
from augury.kernels.match.past import same_partition
from augury.kernels.match.streams import FRESH
from augury.kernels.match.why_not import outside
from augury.kernels.told import WhyNot

_KEYS_TRIED: Final = 16
"""How many graphs are looked at where the event does not say which, the latest first."""


def why_not(
    plan: CompositePlan | Composite,
    batch: Batch,
    seq: int | None,
    *,
    at_us: int | None = None,
    context: Context = Context.RECENT,
    source: str | None = None,
    chronon_us: int = 1_000_000,
) -> WhyNot:
    """Why there is no occurrence at `seq`, or, if that is None, by the clock at `at_us`; or that there is one.

    `context` is that of an expression which has no plan; `source` is the text of the program, to cite from. Raises
    `NotYet` for what cannot be run.
    """
    if not isinstance(plan, CompositePlan):
        plan = CompositePlan(plan, context, _shared(plan), None, (), None, None, None, ())
    whole = inline(plan.expression, source)
    span = plan.expression.span
    if seq is None:
        assert at_us is not None, "the clock is asked about at a time"
        place, time = show_time(at_us), at_us
    else:
        place, time = str(seq), None
    if _took_place(plan, batch, seq, at_us, chronon_us):
        return WhyNot(seq, True, whole, span, f"it does take place at {place}", time)
    found = list(_failures(plan, batch, seq, at_us, source, chronon_us))
    if not found:
        sentence = f"no event came by {place}, so no {whole}" if seq is None else outside(plan, batch, seq)
        return WhyNot(seq, False, whole, span, sentence, time)
    failure, values = max(found, key=lambda one: how_far(one[0]))
    return WhyNot(seq, False, failure.part, failure.span, failure.sentence + values, time)


def _took_place(plan: CompositePlan, batch: Batch, seq: int | None, at_us: int | None, chronon_us: int) -> bool:
    if seq is not None:
        part = up_to(batch, seq)
        return len(part) > 0 and seq in detected(plan, part, chronon_us, int(part.det_time[-1])).seq.tolist()
    assert at_us is not None
    part = batch.part(0, int(np.searchsorted(batch.det_time, at_us, side="right")))
    found = detected(plan, part, chronon_us, at_us)
    return any(
        of <= NO_SEQ and time == at_us for of, time in zip(found.seq.tolist(), found.det_time.tolist(), strict=True)
    )


def _failures(
    plan: CompositePlan, batch: Batch, seq: int | None, at_us: int | None, source: str | None, chronon_us: int
) -> Iterator[tuple[Failure, str]]:
    """How each graph failed, the latest first, with the values that it stands for."""
    if seq is None:
        assert at_us is not None
        part = batch.part(0, int(np.searchsorted(batch.det_time, at_us, side="right")))
        past = past_of(plan, part, chronon_us)
        keys = list(dict.fromkeys(bound for _, groups in reversed(past.arrived) for bound, _ in groups))
        for key in keys[:_KEYS_TRIED]:
            yield _failure(past, key, None, _clock_step(past, key, at_us), source)
        return
    part = up_to(batch, seq)
    index = history_rows(part, plan.over)
    for row in [i for i in index.tolist() if part.seq[i] == seq]:
        rows = same_partition(part, index[index <= row], plan.partition_by)
        if rows is None:
            continue
        past = past_of(plan, part, chronon_us, rows.index)
        place = len(past.batch) - 1
        point = (int(past.batch.det_time[place]), 1, place, 0)
        for key in _keys(past, place):
            yield _failure(past, key, place, point, source)


def _failure(past: Past, key: Key, place: int | None, point: Point, source: str | None) -> tuple[Failure, str]:
    evaluation = past.evaluation()
    tick = now_at(point, past.chronon_us).tick
    asked: NodeByNode | Recently
    if isinstance(evaluation, Network):
        asked = NodeByNode(past, key, place, point, tick, source, evaluation)
    else:
        asked = Recently(past, key, place, point, tick, source, evaluation)
    failure = asked.whole()
    shown = past.shown_key(key)
    return failure, f" ({', '.join(f'{name} = {value}' for name, value in shown.items())})" if shown else ""


def _clock_step(past: Past, key: Key, at_us: int) -> Point:
    """The last step of the clock at a time; a point after all that happens then, if there is none."""
    evaluation, found = past.evaluation(), None
    state = evaluation.empty()
    for now, arriving in steps(state, past.standing(key), (at_us, END, 0, 0), past.chronon_us):
        evaluation.step(state, now, arriving)
        if now.time == at_us and not arriving:
            found = now.point
    return found or (at_us, END, 0, 0)


def _keys(past: Past, place: int) -> list[Key]:
    """The graphs that an event stands in, the latest first; the latest of all if it stands in none."""
    own = [bound for version, groups in past.arrived if version.place == place for bound, _ in groups]
    others = dict.fromkeys(bound for _, groups in reversed(past.arrived) for bound, _ in groups)
    if not own:
        nothing = (0, *(FRESH for _ in past.detector.plan.keys))
        return list(others)[:_KEYS_TRIED] or [nothing]
    found = dict.fromkeys(both for bound in own for other in others if (both := joined(bound, other)) is not None)
    return [*found, *(bound for bound in own if bound not in found)][:_KEYS_TRIED]


def _shared(expression: Composite) -> tuple[Variable, ...]:
    """The variables that keep a graph per value: those in several places, one of which is not negated."""
    places = Counter(variable.name for variable in _variables(walk(expression)))
    positive = {variable.name: variable for variable in _variables(_not_negated(expression))}
    return tuple(variable for name, variable in positive.items() if places[name] > 1)


def _variables(parts: Iterator[Composite]) -> Iterator[Variable]:
    for part in parts:
        for binding in part.bindings if isinstance(part, Primitive) else ():
            if isinstance(binding, Variable):
                yield binding


def _not_negated(expression: Composite) -> Iterator[Composite]:
    yield expression
    if isinstance(expression, Node) and expression.operator is Op.NOT:
        return
    absent = expression.absent if isinstance(expression, AbsentFor | NotBetween) else None
    for one in children(expression):
        if one is not absent:
            yield from _not_negated(one)

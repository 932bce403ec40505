"""Why a MATCH took place: the events of an occurrence, and the part of the expression that each of them satisfies.

In: a plan, a batch in the order of its history, and the `seq` of an occurrence. Out: a value that reads as text. The
history is read once more, with runs that mark each event with the parts it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from augury import limits
from augury.algebra.expression import Expression, MatchPlan, Place, Variable, parts
from augury.algebra.scalar import Constant, Field, Leaf, Scalar, leaves
from augury.automata.runs import FINAL, Runs, TooManyRuns
from augury.automata.tuples import tuples_of
from augury.diagnostics import Span
from augury.event import key_of
from augury.kernels.batch import Batch
from augury.kernels.columns import arrow_type, evaluate, holds
from augury.kernels.match.inline import inline
from augury.kernels.match.past import Past, Question, TooManyValues, occurrences_at, pasts, plain, question_of
from augury.kernels.told import Constituent, NotAnOccurrence, Why

THE_PLACE = "the place itself"
"""What an event is there for that no part asks for: the expression takes place at it."""


def why(
    plan: MatchPlan,
    batch: Batch,
    seq: int | None,
    constituents: Sequence[int] | None = None,
    values: Mapping[str, object] | None = None,
    *,
    clock_us: int | None = None,
    source: str | None = None,
    chronon_us: int = 1_000_000,
) -> Why:
    """The tuple of the occurrence at `seq` that has just these constituents; without them, one that COLLECT chooses.

    At an event that the clock completed there is no `seq`, but `clock_us`, its det_time, and constituents. `values`
    are attributes of the occurrence, which tell apart tuples that have the same events, and occurrences of COLLECT
    ALL. `source` is the text of the program, from which parts are cited. Raises `NotAnOccurrence`, `TooManyValues`,
    and what `detector_of` raises.
    """
    if constituents is None:
        assert seq is not None, "what the clock completed is asked about with its constituents"
        constituents, values = _collected(plan, batch, seq, values or {}, chronon_us)
    question = question_of(plan.expression)
    wanted = {
        feed.value.name: (values or {})[feed.attribute]
        for feed in plan.feeds
        if isinstance(feed.value, Field) and not feed.value.scope and feed.attribute in (values or {})
    }
    for past in pasts(plan, question, batch, seq, clock_us):
        try:
            found = _chosen(past, True, frozenset(constituents), wanted, plan.where, plan.expression.span)
        except TooManyRuns:
            found = _chosen(past, False, frozenset(constituents), wanted, plan.where, plan.expression.span)
        if found is not None:
            return _told(past, found, source)
    raise NotAnOccurrence(f"there is no occurrence at {seq or 'the clock'} with the constituents {list(constituents)}")


def _collected(
    plan: MatchPlan, batch: Batch, seq: int, values: Mapping[str, object], chronon_us: int
) -> tuple[Sequence[int], Mapping[str, object]]:
    """The constituents and attributes of an occurrence that the kernel finds: the first that has these values."""
    found = occurrences_at(plan, batch, seq, chronon_us)
    for i, constituents in enumerate(found.constituents.to_pylist()):
        fed = {name: plain(found.values.column(name)[i]) for name in found.values.column_names}
        if all(fed.get(name) == value for name, value in values.items()):
            return constituents, fed
    raise NotAnOccurrence(f"there is no occurrence at {seq}")


# ---- the runs that mark parts --------------------------------------------------------------------

Chain = tuple[tuple[int, int], ...]
"""Places of the history, ascending, each with its marks."""


def _markings(question: Question, *, is_exact: bool) -> list[Runs]:
    """For each kind of values runs whose marks say which part an event stands for; or only that it is one."""
    mark_of: Callable[[int], int] = (lambda part: 1 << part) if is_exact else (lambda _: 1)
    return [tuples_of(question.body, builder, mark_of) for _, builder in question.builders]


@dataclass(frozen=True, slots=True)
class Found:
    """A tuple: the parts of each of its events, and the values of the variables that these bind."""

    parts_at: tuple[tuple[int, tuple[int, ...]], ...]
    values: tuple[tuple[str, Constant], ...]


def _chosen(
    past: Past,
    is_exact: bool,
    constituents: frozenset[int],
    wanted: Mapping[str, object],
    where: Scalar | None,
    span: Span,
) -> Found | None:
    """The tuple with just these constituents: one with the wanted values, and of those the one with the least.

    Which part each event stands for is told exactly, or, where that makes too many runs, by what is true of it.
    """
    allowed = [place for place in range(past.last + 1) if past.constituents(place) <= constituents]
    if not allowed or allowed[-1] != past.last:
        return None
    own, markings = past.question.parts, _markings(past.question, is_exact=is_exact)
    for among in (allowed, range(past.last + 1)):
        found = []
        if (count := past.combinations(among)) > limits.STREAMS_JOINED_MAX:
            # Among some of them there may be a tuple, and among the others a better one: neither is an answer.
            raise TooManyValues(past.question.keyed, count, past.seq(past.last), span)
        for valuation in past.valuations(among):
            letters = past.letters(valuation)
            ended = [
                chain
                for number in past.builders(valuation)
                for chain in _ended(markings[number], letters, frozenset(allowed), lambda mark: _binding(own, mark))
            ]
            for chain in ended:
                if frozenset().union(*(past.constituents(place) for place, _ in chain)) == constituents:
                    found.append(_found(past, own, letters, chain, is_exact=is_exact))
        found = [one for one in found if where is None or _satisfies(past, one, where)]
        if found:
            fitting = [one for one in found if _fits(one, wanted)] or found
            names = [v.name for v in past.question.variables]
            return min(fitting, key=lambda one: ([_in_order(dict(one.values).get(n)) for n in sorted(names)]))
    return None


def _ended(
    runs: Runs, letters: Sequence[int], allowed: frozenset[int], bound: Callable[[int], frozenset[str]]
) -> list[Chain]:
    """The tuples of the runs that end at the last letter and mark only events that are allowed.

    Of tuples that have the same events and bind the same variables, and whose runs have the same future, one.
    """
    now: dict[Any, Chain] = {(state, (), frozenset()): () for state in runs.initial}
    for place, letter in enumerate(letters):
        is_last = place == len(letters) - 1
        following: dict[Any, Chain] = {}
        for (state, places, names), chain in now.items():
            for target, mark in runs.moves(state, letter):
                if (target == FINAL) != is_last or (mark and place not in allowed):
                    continue
                if mark or is_last:
                    key = (target, (*places, place), names | bound(mark))
                    following.setdefault(key, (*chain, (place, mark)))
                else:
                    following.setdefault((target, places, names), chain)
        now = following
    return list(now.values())


def _binding(own: Sequence[Expression], mark: int) -> frozenset[str]:
    return frozenset(
        binding.name
        for part in _bits(mark)
        for binding in (getattr(own[part], "bindings", ()))
        if isinstance(binding, Variable)
    )


def _bits(mark: int) -> list[int]:
    return [bit for bit in range(mark.bit_length()) if mark >> bit & 1]


# ---- telling -------------------------------------------------------------------------------------


def _found(past: Past, own: Sequence[Expression], letters: Sequence[int], chain: Chain, *, is_exact: bool) -> Found:
    parts_at = [
        (place, tuple(_bits(mark)) if is_exact or not mark else _possible(past, letters[place]))
        for place, mark in chain
    ]
    names = {v.name for v in past.question.variables}
    values: dict[str, Constant] = {}
    for place, of in parts_at:
        for part in of:
            for i, binding in enumerate(getattr(own[part], "bindings", ())):
                if isinstance(binding, Variable) and binding.name in names:
                    values[binding.name] = past.value(place, i)
    return Found(tuple(parts_at), tuple(sorted(values.items())))


def _possible(past: Past, letter: int) -> tuple[int, ...]:
    """The parts that are true of an event, one of which it stands for."""
    alphabet = past.question.alphabet
    true = {alphabet.leaves[leaf] for leaf in alphabet.symbols[letter % len(alphabet.symbols)].leaves}
    return tuple(i for i, part in enumerate(parts(past.question.body)) if isinstance(part, Place) or part in true)


def _fits(found: Found, wanted: Mapping[str, object]) -> bool:
    """Whether variables have the wanted values; one that is not bound is NULL."""
    bound = {key_of(name): value.value for name, value in found.values}
    return all(bound.get(key_of(name)) == value for name, value in wanted.items())


def _satisfies(past: Past, found: Found, where: Scalar) -> bool:
    """Whether WHERE lets a tuple pass: its variables and the latest event of a class; what is not there is NULL."""
    bound = {key_of(name): value.value for name, value in found.values}
    columns: dict[Leaf, pa.Array] = {}
    for leaf in leaves(where):
        assert isinstance(leaf, Field), "analysis lets WHERE see nothing else"
        value: object = bound.get(key_of(leaf.name))
        if leaf.scope:
            of_class = [p for p, _ in found.parts_at if key_of(past.event_class(p).name) == key_of(leaf.scope)]
            value = past.value(of_class[-1], leaf.name).value if of_class else None
        columns[leaf] = pa.array([value], arrow_type(leaf.type))
    return bool(holds(evaluate(where, columns, None, 1))[0])


def _in_order(constant: Constant | None) -> tuple[bool, bool, Any]:
    """Least first; NaN is greater than every number, and NULL comes last."""
    value: Any = None if constant is None else constant.value
    is_nan = value != value
    return value is None, is_nan, None if value is None or is_nan else value


def _told(past: Past, found: Found, source: str | None) -> Why:
    own = past.question.parts
    constituents = []
    for place, of in found.parts_at:
        texts = dict.fromkeys(inline(own[part], source) for part in of)
        constituents.append(
            Constituent(
                past.seq(place),
                past.event_class(place).name,
                past.event(place),
                int(past.rows.batch.occ_time[past.rows.index[place]]),
                tuple(texts) or (THE_PLACE,),
                tuple(sorted(past.constituents(place))),
            )
        )
    seq = past.seq(past.last)
    return Why(seq if seq > 0 else None, tuple(constituents), found.values)

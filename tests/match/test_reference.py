"""The reference of MATCH: the corpus of worked cases, the laws between the operators, and the choice among tuples.

The cases stand in `tests/corpus/match/*.toml`, in groups that share `classes`, `definitions`, `attributes` and `says`;
a case may have its own. Every kernel in KERNELS runs them all.

- `history`: events separated by spaces. `A1` is an A with seq 1; a word that is a class by itself takes its place as
  seq, or the number after `@`: `s1`, `Order(121, 40)@7`. Arguments are values in the order of the attributes. Both
  times are seq seconds after the epoch, or `:occ` or `:occ/det` seconds: `A1:60/61.5`.
- `expression`, `clauses`: what stands between MATCH and `;`. `attributes`: those of the complex class.
- `takes_place_at`: the seq of each complex event, in order; `constituents` and `values`, one entry each, if given
  (`"NULL"` is NULL). `lifespans`: per class, where it matters.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise, product
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from augury.algebra.expression import (
    Anything,
    Apply,
    ByOccurrence,
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
    Variable,
    walk,
)
from augury.algebra.scalar import Constant
from augury.api import compile
from augury.event import EventClass, key_of
from augury.kernels import reference
from augury.kernels.reference import Event, OccurrenceTuple, occurrence_tuples, positions
from augury.kernels.reference.history import START, History, Scope
from augury.kernels.reference.prefix import Future, Reading
from augury.types import INT
from tests.match.generate import PLAIN, VARIABLES, Wanted, expression, history, pair, plan

KERNELS: list[ModuleType] = [reference]
"""Modules with `detect(plan, history, lifespans_us) -> list[Occurrence]` and `positions(expression, history)`."""

CORPUS = Path(__file__).parents[1] / "corpus" / "match"
SECOND = 1_000_000
SHARED = {"classes", "definitions", "attributes", "says"}
KEYS = SHARED | {"name", "history", "expression", "clauses", "takes_place_at", "constituents", "values", "lifespans"}

Case = dict[str, Any]

# ---- the corpus ----------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    for path in sorted(CORPUS.glob("*.toml")):
        for group in tomllib.loads(path.read_text("utf-8"))["group"]:
            shared = {key: group[key] for key in SHARED & set(group)}
            for case in group["case"]:
                yield {"attributes": "", "definitions": "", "clauses": "", **shared, **case}


CASES = list(cases())


def plan_of(case: Case) -> tuple[MatchPlan, Mapping[str, EventClass]]:
    classes = "".join(
        f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {declared} ID () LIFESPAN (-1);\n" for declared in case["classes"]
    )
    found = f"CREATE COMPLEX EVENT CLASS Found ({case['attributes']}) ID () LIFESPAN (-1)"
    program = compile(f"{classes}{case['definitions']}\n{found}\n  AS MATCH {case['expression']} {case['clauses']};")
    plan = program.class_plan("Found")
    assert plan is not None
    assert isinstance(plan.derivation, MatchPlan)
    return plan.derivation, {key_of(p.event_class.name): p.event_class for p in program.classes}


EVENT = re.compile(
    r"(?P<word>\w+) (?P<arguments>\([^)]*\))? (?:@(?P<seq>\d+))? (?::(?P<occ>[\d.]+))? (?:/(?P<det>[\d.]+))?", re.X
)


def events_of(text: str, classes: Mapping[str, EventClass]) -> list[Event]:
    """A history as the corpus writes it."""
    found: list[Event] = []
    for number, written in enumerate(re.findall(r"(?:[^\s(]|\([^)]*\))+", text), 1):
        parts = EVENT.fullmatch(written)
        assert parts is not None, f"no event: {written}"
        word, seq = parts["word"], parts["seq"] or str(number)
        if key_of(word) not in classes:
            word, seq = re.fullmatch(r"(.*?)(\d+)", word).groups()  # type: ignore[union-attr]
        event_class = classes[key_of(word)]
        given_values = [w.strip() for w in (parts["arguments"] or "()")[1:-1].split(",") if w.strip()]
        names = [attribute.name for attribute in event_class.attributes]
        occ_time = round(float(parts["occ"] or seq) * SECOND)
        det_time = round(float(parts["det"]) * SECOND) if parts["det"] else occ_time
        values = dict(zip(names, map(value_of, given_values), strict=True))
        found.append(Event(int(seq), event_class.name, values, occ_time, det_time))
    assert [event.seq for event in found] == sorted({event.seq for event in found})
    return found


def value_of(written: str) -> Any:
    words = {"NULL": None, "TRUE": True, "FALSE": False}
    return words[written] if written in words else written.strip("'") if written.startswith("'") else int(written)


def lifespans_of(case: Case) -> dict[str, int]:
    return {name: int(written.removesuffix("s")) * SECOND for name, written in case.get("lifespans", {}).items()}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__.split(".")[-1])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_expression_takes_place_where_the_definitions_say(kernel: ModuleType, case: Case) -> None:
    plan, classes = plan_of(case)
    found = kernel.detect(plan, events_of(case["history"], classes), lifespans_of(case))
    context = f"{case['says']}\n{case['expression']} {case['clauses']}\nin {case['history']}"
    assert [occurrence.seq for occurrence in found] == case["takes_place_at"], context
    if "constituents" in case:
        assert [list(occurrence.constituents) for occurrence in found] == case["constituents"], context
    if "values" in case:
        wanted = [[None if value == "NULL" else value for value in row] for row in case["values"]]
        assert [list(occurrence.values.values()) for occurrence in found] == wanted, context


def test_the_corpus_has_no_unknown_key_and_no_name_twice() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
    assert not [case["name"] for case in CASES if not set(case) <= KEYS or not case["says"]]


# ---- laws between the operators ------------------------------------------------------------------

Op = MatchOperator
ANY, FIRST, NULL = Apply(Op.ANY), Apply(Op.FIRST), Apply(Op.NULL)
NO_START = Wanted(depth=2, start=False)
WITH_START = Wanted(depth=2)
seeds = st.integers(0, 2**48)
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__.split(".")[-1])


def op(operator: MatchOperator) -> Callable[..., Expression]:
    return lambda *operands: Apply(operator, operands)


relative, relative_plus, prior, sequence = op(Op.RELATIVE), op(Op.RELATIVE_PLUS), op(Op.PRIOR), op(Op.SEQUENCE)
both, either, negated, piped, prefix = op(Op.AND), op(Op.OR), op(Op.NOT), op(Op.PIPE), op(Op.PREFIX)
after_first, between_each, first_after = op(Op.AFTER_FIRST), op(Op.BETWEEN_EACH), op(Op.FIRST_AFTER)
before, happened, series = op(Op.BEFORE), op(Op.HAPPENED), op(Op.SERIES)


def nth(count: int, e: Expression) -> Expression:
    return Nth(count, False, e)


def every(count: int, e: Expression) -> Expression:
    return Nth(count, True, e)


Sides = Callable[[Expression, Expression, Expression], tuple[Expression, Expression]]

LAWS: dict[str, Sides] = {
    "prior": lambda e, f, g: (prior(e, f), both(relative(e, ANY), f)),
    "prior of three": lambda e, f, g: (prior(e, f, g), prior(prior(e, f), g)),
    "sequence": lambda e, f, g: (sequence(e, f), both(relative(e, negated(relative(ANY, ANY))), f)),
    "sequence of three": lambda e, f, g: (sequence(e, f, g), sequence(sequence(e, f), g)),
    "first": lambda e, f, g: (FIRST, negated(relative(ANY, ANY))),
    "any": lambda e, f, g: (ANY, negated(NULL)),
    "/ after the first": lambda e, f, g: (after_first(f, e), relative(nth(1, e), f)),
    "/+ by a variable": lambda e, f, g: (
        between_each(f, e),
        Exists(
            "x",
            both(
                relative(Equate(e, "x"), f),
                negated(prior(prior(Place("x"), e), ANY)),
                negated(e),
            ),
        ),
    ),
    "firstAfter": lambda e, f, g: (first_after(e, f, g), between_each(both(f, negated(prior(g, ANY))), e)),
    "before": lambda e, f, g: (before(e), prior(e, ANY)),
    "happened": lambda e, f, g: (happened(e), either(e, prior(e, ANY))),
    "E * T": lambda e, f, g: (series(e, f), both(f, negated(prior(negated(e), f)))),
    "relative is associative": lambda e, f, g: (relative(relative(e, f), g), relative(e, relative(f, g))),
    "| is associative": lambda e, f, g: (piped(piped(e, f), g), piped(e, piped(f, g))),
    "relative+ and one more link": lambda e, f, g: (
        relative_plus(e),
        either(e, relative(relative_plus(e), e)),
    ),
    "one link and then relative+": lambda e, f, g: (relative_plus(e), either(e, relative(e, relative_plus(e)))),
    "EVERY <1>": lambda e, f, g: (every(1, e), e),
    "an unused variable": lambda e, f, g: (Exists("x", e), e),
    "a variable for the place": lambda e, f, g: (Exists("x", Equate(e, "x")), e),
    "AND distributes": lambda e, f, g: (both(e, either(f, g)), either(both(e, f), both(e, g))),
    "relative distributes on the left": lambda e, f, g: (
        relative(either(e, f), g),
        either(relative(e, g), relative(f, g)),
    ),
    "relative distributes on the right": lambda e, f, g: (
        relative(e, either(f, g)),
        either(relative(e, f), relative(e, g)),
    ),
}

LAWS_WITHOUT_START: dict[str, Sides] = {
    "E OR F": lambda e, f, g: (either(e, f), negated(both(negated(e), negated(f)))),
    "!!E": lambda e, f, g: (negated(negated(e)), e),
    "<1> E": lambda e, f, g: (nth(1, e), piped(e, FIRST)),
    "<n> E": lambda e, f, g: (nth(3, e), piped(piped(e, sequence(ANY, ANY, ANY)), FIRST)),
    "EVERY <n> E": lambda e, f, g: (every(2, e), piped(e, relative_plus(nth(2, ANY)))),
    "/ by a pipe": lambda e, f, g: (after_first(f, e), relative(piped(e, FIRST), f)),
    "/ by prior": lambda e, f, g: (after_first(f, e), relative(both(e, negated(prior(e, ANY))), f)),
}


def law(sides: Sides, seed: int, wanted: Wanted) -> tuple[Expression, Expression, tuple[Event, ...]]:
    """Both sides of a law for random parts, closed and with variables of their own, and a history."""
    random = Random(seed)
    e, f, g = (expression(random, wanted) for _ in range(3))
    return *sides(renamed(e, "e"), renamed(f, "f"), renamed(g, "g")), history(random, random.randint(0, 7))


def renamed(e: Expression, suffix: str) -> Expression:
    """The same expression with correlation variables that no other part has."""
    match e:
        case Primitive():
            return e
        case Place(variable=x):
            return Place(x + suffix)
        case Equate(operand=operand, variable=x):
            return Equate(renamed(operand, suffix), x + suffix)
        case Exists(operand=operand, variable=x):
            return Exists(x + suffix, renamed(operand, suffix))
        case Apply(operands=operands):
            return replace(e, operands=tuple(renamed(operand, suffix) for operand in operands))
        case Nth(operand=operand) | Some(operand=operand):
            return replace(e, operand=renamed(operand, suffix))


@kernels
@pytest.mark.parametrize("name", LAWS)
@given(seed=seeds)
@settings(max_examples=40)
def test_an_operator_is_what_its_definition_says(kernel: ModuleType, name: str, seed: int) -> None:
    left, right, events = law(LAWS[name], seed, WITH_START)
    assert kernel.positions(left, events) == kernel.positions(right, events)


@kernels
@pytest.mark.parametrize("name", LAWS_WITHOUT_START)
@given(seed=seeds)
@settings(max_examples=40)
def test_an_operator_is_what_its_definition_says_where_nothing_names_start(
    kernel: ModuleType, name: str, seed: int
) -> None:
    left, right, events = law(LAWS_WITHOUT_START[name], seed, NO_START)
    assert kernel.positions(left, events) == kernel.positions(right, events)


# ---- sub-histories by cutting lists --------------------------------------------------------------

CUT = Wanted(depth=3, start=False, previous=False)  # PREV looks beyond a sub-history


def at(e: Expression, events: Sequence[Event]) -> list[int]:
    """The indices at which an expression takes place."""
    found = set(positions(e, events))
    return [i for i, event in enumerate(events) if event.seq in found]


def two(seed: int, wanted: Wanted) -> tuple[Expression, Expression, tuple[Event, ...]]:
    random = Random(seed)
    e, f = expression(random, wanted), expression(random, wanted)
    return e, renamed(f, "f"), history(random, random.randint(0, 8))


@given(seed=seeds)
def test_relative_looks_at_what_comes_after(seed: int) -> None:
    e, f, events = two(seed, CUT)
    wanted = {seq for i in at(e, events) for seq in positions(f, events[i + 1 :])}
    assert set(positions(relative(e, f), events)) == wanted


@given(seed=seeds)
def test_relative_plus_looks_again_and_again(seed: int) -> None:
    e, _, events = two(seed, CUT)

    def reached(rest: Sequence[Event]) -> set[int]:
        return {seq for i in at(e, rest) for seq in {rest[i].seq} | reached(rest[i + 1 :])}

    assert set(positions(relative_plus(e), events)) == reached(events)


@given(seed=seeds)
def test_a_pipe_hides_the_rest(seed: int) -> None:
    e, f, events = two(seed, CUT)
    assert positions(piped(e, f), events) == positions(f, [events[i] for i in at(e, events)])


@given(seed=seeds)
def test_stretches_lie_between(seed: int) -> None:
    e, f, events = two(seed, CUT)
    cuts = [*at(e, events), len(events)]
    wanted = [seq for i, j in pairwise(cuts) for seq in positions(f, events[i + 1 : j])]
    assert list(positions(between_each(f, e), events)) == wanted


@given(seed=seeds)
def test_what_comes_later_changes_nothing(seed: int) -> None:
    e, events = pair(seed)
    whole = positions(e, events)
    for length in range(len(events)):
        there = {event.seq for event in events[:length]}
        assert positions(e, events[:length]) == tuple(seq for seq in whole if seq in there)


# ---- variables by constants ----------------------------------------------------------------------


def standing_for(e: Expression, x: str, marker: Expression) -> Expression:
    """A correlation variable replaced by an expression that takes place at one event only."""
    match e:
        case Primitive():
            return e
        case Place(variable=name):
            return marker if name == x else e
        case Equate(operand=operand, variable=name):
            inner = standing_for(operand, x, marker)
            return both(inner, marker) if name == x else replace(e, operand=inner)
        case Apply(operands=operands):
            return replace(e, operands=tuple(standing_for(operand, x, marker) for operand in operands))
        case Nth(operand=operand) | Exists(operand=operand) | Some(operand=operand):
            return replace(e, operand=standing_for(operand, x, marker))


@given(seed=seeds)
def test_a_correlation_variable_stands_for_one_event(seed: int) -> None:
    random = Random(seed)
    e = expression(random, Wanted(depth=3, start=False), free=("x",))
    events = [
        replace(event, values={"k": event.values.get("k"), "v": event.values.get("v"), "id": event.seq})
        for event in history(random, random.randint(0, 7))
    ]
    wanted = set()
    for event in events:
        marker = Primitive(event.event_class, (Anything(), Anything(), Constant(event.seq, INT)))
        wanted |= {seq for seq in positions(standing_for(e, "x", marker), events) if seq >= event.seq}
    assert set(positions(Exists("x", e), events)) == wanted


def with_value(e: Expression, name: str, value: Any) -> Expression:
    """An attribute variable replaced by a constant."""
    match e:
        case Primitive(bindings=bindings):
            new = tuple(Constant(value, INT) if isinstance(b, Variable) and b.name == name else b for b in bindings)
            return replace(e, bindings=new)
        case Place():
            return e
        case Apply(operands=operands):
            return replace(e, operands=tuple(with_value(operand, name, value) for operand in operands))
        case Nth(operand=operand) | Equate(operand=operand) | Exists(operand=operand) | Some(operand=operand):
            return replace(e, operand=with_value(operand, name, value))


@given(seed=seeds)
def test_an_attribute_variable_stands_for_each_value(seed: int) -> None:
    e, events = pair(seed, Wanted(depth=3))
    bound = [v.name for v in e.variables] if isinstance(e, Some) else []
    body = e.operand if isinstance(e, Some) else e
    never = (98, 99)
    wanted: set[int] = set()
    for values in product((0, 1, 2, None, *never), repeat=len(bound)):
        one = reduce(lambda inner, chosen: with_value(inner, *chosen), zip(bound, values, strict=True), body)
        wanted |= set(positions(one, events))
    assert set(positions(e, events)) == wanted


# ---- prefix --------------------------------------------------------------------------------------


@given(seed=seeds)
def test_reading_event_by_event_finds_the_same_places(seed: int) -> None:
    e, events = pair(seed)
    scope = Scope(History.of(events))
    future = Future(e, scope)
    rest = future.beginning(e, scope)
    found = []
    for place in scope.history.whole:
        rest, holds = future.read(e, rest, Reading(place, frozenset()), scope)
        found += [events[place].seq] if holds and place != START else []
    assert tuple(found) == positions(e, events)


@given(seed=seeds)
@settings(max_examples=60)
def test_prefix_holds_where_some_continuation_does(seed: int) -> None:
    random = Random(seed)
    e = expression(random, replace(PLAIN, depth=2, exists=True, start=True))
    assume(sum(node.count for node in walk(e) if isinstance(node, Nth)) < 5)  # else it may take many events
    events = history(random, random.randint(1, 4))
    found = positions(prefix(e), events)
    for length in range(1, len(events) + 1):
        last = events[length - 1].seq

        def takes_place(events_to_come: int, known: Sequence[Event] = events[:length]) -> bool:
            return any(
                positions(e, [*known, *(Event(99 + i, name, {}, 0, 0) for i, name in enumerate(names))])[-1:] >= (99,)
                for names in product("ABKZ", repeat=events_to_come)
            )

        assert any(map(takes_place, range(1, 8))) if last in found else not takes_place(4)


@given(seed=seeds)
def test_prefix_holds_before_every_place(seed: int) -> None:
    e, events = pair(seed, Wanted(depth=3, attributes=False))
    found = positions(e, events)
    earlier = {event.seq for event in events if found and event.seq < found[-1]}
    assert earlier <= set(positions(prefix(e), events))


@given(seed=seeds)
def test_prefix_of_either_is_either_prefix(seed: int) -> None:
    e, f, events = two(seed, Wanted(depth=2, attributes=False))
    assert positions(prefix(either(e, f)), events) == positions(either(prefix(e), prefix(f)), events)


# ---- tuples and COLLECT --------------------------------------------------------------------------

TUPLES = Wanted(depth=3)


@given(seed=seeds)
def test_an_expression_takes_place_where_it_has_a_tuple(seed: int) -> None:
    e, events = pair(seed, TUPLES, events=7)
    found = positions(e, events)
    for event in events:
        tuples = occurrence_tuples(e, events, event.seq)
        assert bool(tuples) == (event.seq in found)
        assert all(one.constituents[-1] == event.seq for one in tuples)


def lexicographic(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether the left one is less: at the first difference, or because the right one goes on."""
    for a, b in zip(left, right, strict=False):
        if a != b:
            return bool(a < b)
    return len(left) < len(right)


def bound(one: OccurrenceTuple, e: Expression) -> list[Any]:
    names = [v.name for v in e.variables] if isinstance(e, Some) else []
    return [dict(one.values).get(name) for name in names]


def least_bound(tuples: Sequence[OccurrenceTuple], e: Expression) -> list[Any]:
    """Of tuples with the same constituents: the least values in order of name, NULL last."""
    by_name = sorted(
        tuples, key=lambda one: [(v is None, v or 0) for v in (dict(one.values).get(name) for name in VARIABLES)]
    )
    return bound(by_name[0], e)


@kernels
@pytest.mark.parametrize("choice", [Choice.RECENT, Choice.EARLIEST])
@given(seed=seeds)
@settings(max_examples=60)
def test_collect_chooses_one_tuple(kernel: ModuleType, choice: Choice, seed: int) -> None:
    e, events = pair(seed, TUPLES, events=7)
    found = {o.seq: o for o in kernel.detect(plan(e, choice), events)}
    assert list(found) == list(positions(e, events))
    for seq, occurrence in found.items():
        tuples = occurrence_tuples(e, events, seq)
        chosen = [one for one in tuples if one.constituents == occurrence.constituents]
        assert chosen
        for other in tuples:
            if choice is Choice.RECENT:
                assert not lexicographic(occurrence.constituents[::-1], other.constituents[::-1])
            else:
                assert not lexicographic(other.constituents, occurrence.constituents)
        assert list(occurrence.values.values()) == least_bound(chosen, e)


@kernels
@given(seed=seeds)
@settings(max_examples=60)
def test_collect_all_gives_every_combination_of_values_once(kernel: ModuleType, seed: int) -> None:
    e, events = pair(seed, TUPLES, events=7)
    found = kernel.detect(plan(e, Choice.ALL), events)
    for event in events:
        tuples = occurrence_tuples(e, events, event.seq)
        here = [o for o in found if o.seq == event.seq]
        wanted = {tuple(bound(one, e)) for one in tuples}
        assert sorted(map(repr, (tuple(o.values.values()) for o in here))) == sorted(map(repr, wanted))
        assert [o.constituents for o in here] == sorted(o.constituents for o in here)
        for o in here:
            alike = [one for one in tuples if tuple(bound(one, e)) == tuple(o.values.values())]
            assert o.constituents[::-1] == max(one.constituents[::-1] for one in alike)


@kernels
@given(seed=seeds)
@settings(max_examples=60)
def test_within_keeps_the_tuples_that_are_short_enough(kernel: ModuleType, seed: int) -> None:
    e, events = pair(seed, TUPLES, events=7)
    found = kernel.detect(plan(e, within_us=2 * SECOND), events)
    short = {
        event.seq: [
            one.constituents[::-1]
            for one in occurrence_tuples(e, events, event.seq)
            if one.constituents[-1] - one.constituents[0] <= 2  # events are a second apart per seq
        ]
        for event in events
    }
    assert [(o.seq, o.constituents[::-1]) for o in found] == [(seq, max(kept)) for seq, kept in short.items() if kept]


@kernels
@given(seed=seeds)
@settings(max_examples=60)
def test_a_partition_is_a_history_of_its_own(kernel: ModuleType, seed: int) -> None:
    e, events = pair(seed, Wanted(depth=3))
    whole = kernel.detect(plan(e, partition_by=("k",)), events)
    parts = [[event for event in events if event.values.get("k") == k] for k in (1, 2)]
    assert whole == sorted((o for part in parts for o in kernel.detect(plan(e), part)), key=lambda o: o.seq)


def test_withdrawals_are_left_out() -> None:
    events = [Event(1, "A", {}, 0, 0), Event(2, "B", {}, None, 0), Event(3, "A", {}, 0, 0)]
    assert positions(sequence(Primitive("A"), Primitive("A")), events) == (3,)


def test_constituents_of_a_complex_event_stand_for_it() -> None:
    events = [
        Event(1, "A", {}, 0, 0),
        Event(2, "B", {}, 0, 0),
        Event(2, "Pair", {}, 0, 0, (1, 2)),
        Event(3, "A", {}, 0, 0),
    ]
    (found,) = reference.detect(plan(sequence(Primitive("Pair"), Primitive("A"))), events)
    assert (found.seq, found.constituents) == (3, (1, 2, 3))


def test_order_by_occurrence_is_refused() -> None:
    ordered = replace(plan(Primitive("A")), by_occurrence=ByOccurrence(None))
    with pytest.raises(reference.OrderByOccurrenceUnsupported):
        reference.detect(ordered, [])

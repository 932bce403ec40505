"""The reference of COMPOSITE: the corpus of worked cases, laws between operators, and what holds of every occurrence.

The cases stand in `tests/corpus/composite/*.toml`; `tests/composite/corpus.py` says how to read them. Every kernel in
KERNELS runs them all. Random cases come from `tests/composite/generate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from augury.algebra import composite as c
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.composite import CompositePlan, Context
from augury.algebra.expression import Anything, ByOccurrence, Feed, Primitive, Variable
from augury.algebra.scalar import Field
from augury.api import compile
from augury.kernels.reference import Event, OrderByOccurrenceUnsupported
from augury.kernels.reference.composite import CompositeOccurrence, composite_occurrences
from augury.kernels.reference.composite.graph import NodeByNode
from augury.kernels.reference.composite.lowering import form_of
from augury.kernels.reference.composite.occurrence import Operand
from augury.kernels.reference.composite.protocol import Completed, Completing, Kept, choices
from augury.kernels.reference.composite.setting import Setting
from augury.kernels.reference.history import History, Scope
from augury.types import INT
from tests.composite.corpus import SECOND, Case, cases, history_of, lifespans_of, plan_of, shown
from tests.composite.generate import PLAIN, Generated, Wanted, case

KERNELS: list[Callable[..., list[CompositeOccurrence]]] = [composite_occurrences]
"""Functions `(plan, history, lifespans_us, *, until_us, chronon_us, key)`."""

CASES = list(cases())
seeds = st.integers(0, 2**48)
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__module__.split(".")[-2])


def occurrences(generated: Generated, **changes: Any) -> list[CompositeOccurrence]:
    """What the reference finds in a generated case, some of which may be changed."""
    g = replace(generated, **changes)
    return composite_occurrences(g.plan, g.history, g.lifespans_us, until_us=g.until_us, chronon_us=g.chronon_us)


# ---- the corpus ----------------------------------------------------------------------------------


@kernels
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_expression_takes_place_where_the_contract_says(
    kernel: Callable[..., list[CompositeOccurrence]], case: Case
) -> None:
    plan, classes = plan_of(case)
    events, until_us = history_of(case, classes)
    found = kernel(plan, events, lifespans_of(case), until_us=until_us)
    about = f"{case['says']}\n{case['expression']} {case['clauses']} CONTEXT {case['context']}\nin {case['history']}"
    assert shown(found) == case["found"], about
    if "values" in case:
        wanted = [[None if value == "NULL" else value for value in row] for row in case["values"]]
        assert [list(occurrence.values.values()) for occurrence in found] == wanted, about


def test_the_corpus_has_no_name_twice_and_every_context() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names))
    assert all(sum(case["context"] == context for case in CASES) >= 150 for context in Context)


# ---- what holds of every occurrence --------------------------------------------------------------


def check(g: Generated) -> None:
    found = occurrences(g)
    seqs = [event.seq for event in g.history]
    by_seq = {event.seq: event for event in g.history}
    classes = [leaf.event_class for leaf in c.walk(g.plan.expression) if isinstance(leaf, Primitive)]
    negated = set(negated_leaves(g.plan.expression))
    for one in found:
        assert one.constituents
        assert set(one.constituents) <= set(seqs)
        assert list(one.constituents) == sorted(set(one.constituents))
        assert one.det_time <= g.until_us
        # A version stands at one leaf, which is of its class and not negated.
        assert [seq for seq, _ in one.leaves] == list(one.constituents)
        assert all(by_seq[seq].event_class == classes[leaf] for seq, leaf in one.leaves)
        assert not {leaf for _, leaf in one.leaves} & negated
        if one.seq is not None:
            assert one.seq == one.constituents[-1]
            assert (one.occ_time, one.det_time) == (by_seq[one.seq].occ_time, by_seq[one.seq].det_time)
        if g.plan.within_us is not None:
            times = [by_seq[seq].occ_time or 0 for seq in one.constituents]
            assert max(times) - min(times) <= g.plan.within_us
    assert [one.det_time for one in found] == sorted(one.det_time for one in found)


def negated_leaves(expression: c.Composite) -> Iterator[int]:
    """The numbers of the leaves whose versions are no constituents."""
    number = 0

    def walk(node: c.Composite, is_negated: bool) -> Iterator[int]:
        nonlocal number
        match node:
            case Primitive():
                if is_negated:
                    yield number
                number += 1
            case c.NotBetween(absent=absent, opening=opening, closing=closing):
                parts = [(absent, True), (opening, is_negated), (closing, is_negated)]
            case c.AbsentFor(opening=opening, absent=absent):
                parts = [(opening, is_negated), (absent, True)]
            case c.Aperiodic(opening=opening, middle=middle, closing=closing, gathered=False):
                parts = [(opening, is_negated), (middle, is_negated), (closing, True)]
            case c.Periodic(opening=opening, closing=closing, gathered=False):
                parts = [(opening, is_negated), (closing, True)]
            case c.Node(operator=Op.NOT, operands=(operand,)):
                parts = [(operand, True)]
            case _:
                parts = [(child, is_negated) for child in c.children(node)]
        if not isinstance(node, Primitive):
            for child, negated in parts:
                yield from walk(child, negated)

    yield from walk(expression, False)


@pytest.mark.parametrize("hundred", range(20))
def test_two_thousand_seeds(hundred: int) -> None:
    for seed in range(hundred * 100, hundred * 100 + 100):
        check(case(seed))


@given(seed=seeds)
@settings(max_examples=60)
def test_what_the_clock_brings_later_changes_nothing(seed: int) -> None:
    g = case(seed)
    whole = occurrences(g)
    for until_us in range(0, g.until_us, 3 * SECOND):
        assert occurrences(g, until_us=until_us) == [one for one in whole if one.det_time <= until_us]


@given(seed=seeds)
def test_what_comes_later_changes_nothing(seed: int) -> None:
    g = case(seed, Wanted(events=12))
    whole = occurrences(g)
    for length in range(1, len(g.history)):
        events = g.history[:length]
        part = occurrences(g, history=events, until_us=events[-1].det_time)
        assert part == whole[: len(part)]
        assert [one for one in whole if one.det_time < events[-1].det_time] == part[: sum_before(part, events[-1])]


def sum_before(found: Sequence[CompositeOccurrence], event: Event) -> int:
    return sum(one.det_time < event.det_time for one in found)


@given(seed=seeds)
def test_events_of_other_classes_change_nothing(seed: int) -> None:
    g = case(seed, Wanted(masks=False))
    named = {leaf.event_class for leaf in c.walk(g.plan.expression) if isinstance(leaf, Primitive)}
    assume(named != {event.event_class for event in g.history})
    fewer = tuple(event for event in g.history if event.event_class in named)
    assert occurrences(g, history=fewer) == occurrences(g)


@given(seed=seeds)
def test_a_partition_is_a_history_of_its_own(seed: int) -> None:
    g = case(seed, Wanted(partition=False))
    g = replace(g, history=tuple(e for e in g.history if e.event_class in "KL"))
    whole = occurrences(g, plan=replace(g.plan, partition_by=("k",)))
    parts = [occurrences(g, history=tuple(e for e in g.history if e.values["k"] == k)) for k in (1, 2)]
    assert sorted(map(repr, whole)) == sorted(repr(one) for part in parts for one in part)


@given(seed=seeds)
def test_a_graph_per_value_is_a_partition(seed: int) -> None:
    g = case(seed, Wanted(attributes=False, masks=False, partition=False, where=False))
    only_k = with_leaves(g.plan.expression, Primitive("K"))
    history = tuple(e for e in g.history if e.event_class == "K")
    keyed = with_leaves(only_k, Primitive("K", (Variable("X", INT), Anything())))
    shared = replace(g.plan, expression=keyed, keys=(Variable("X", INT),), feeds=())
    if sum(isinstance(node, Primitive) for node in c.walk(keyed)) < 2:
        return
    split = replace(g.plan, expression=only_k, partition_by=("k",), feeds=())
    assert occurrences(g, plan=shared, history=history) == occurrences(g, plan=split, history=history)


def with_leaves(expression: c.Composite, leaf: Primitive) -> c.Composite:
    """The expression with every leaf the same."""
    return rebuilt(expression, lambda node: leaf if isinstance(node, Primitive) else node)


def rebuilt(node: c.Composite, change: Callable[[c.Composite], c.Composite]) -> c.Composite:
    """The expression with every part changed, innermost first."""
    names = ("operand", "opening", "middle", "closing", "absent")
    there = {name: rebuilt(getattr(node, name), change) for name in names if hasattr(node, name)}
    changed: dict[str, Any] = dict(there)
    if isinstance(node, c.Node | c.AnyOf):
        changed["operands"] = tuple(rebuilt(operand, change) for operand in node.operands)
    return change(replace(node, **changed) if changed else node)


# ---- using up ------------------------------------------------------------------------------------


def is_simple(expression: c.Composite) -> bool:
    """Every class at one leaf, and nothing that takes place several times with one version."""
    leaves = [node.event_class for node in c.walk(expression) if isinstance(node, Primitive)]
    several = (c.Aperiodic, c.Periodic)
    is_or = any(isinstance(node, c.Node) and node.operator is Op.OR for node in c.walk(expression))
    return len(leaves) == len(set(leaves)) and not is_or and not any(isinstance(n, several) for n in c.walk(expression))


USING_UP = Wanted(contexts=(Context.CHRONICLE, Context.CUMULATIVE), attributes=False, partition=False)


@given(seed=seeds)
def test_a_version_is_used_once(seed: int) -> None:
    g = case(seed, USING_UP)
    assume(is_simple(g.plan.expression))
    used = [seq for one in occurrences(g) for seq in one.constituents]
    assert len(used) == len(set(used))


@given(seed=seeds)
def test_recent_clears(seed: int) -> None:
    g = case(seed, Wanted(contexts=(Context.RECENT,), windows=False, attributes=False, partition=False))
    found = occurrences(g)
    used = [seq for one in found for seq in one.constituents]
    assert len(used) == len(set(used))
    # Timers of versions that were detected together are due together, each at a step of its own (`A + 0s`).
    places = [one.seq for one in found if one.seq is not None]
    assert len(places) == len(set(places))


@given(seed=seeds)
def test_every_context_finds_what_unrestricted_finds(seed: int) -> None:
    # Gathering and absences apart, an occurrence is one of all combinations.
    g = case(
        seed,
        replace(PLAIN, negation=False, contexts=(Context.CHRONICLE, Context.CONTINUOUS, Context.RECENT), events=10),
    )
    assume(not any(isinstance(node, c.Repeat) for node in c.walk(g.plan.expression)))
    everything = {o.constituents for o in occurrences(g, plan=replace(g.plan, context=Context.UNRESTRICTED))}
    assert {one.constituents for one in occurrences(g)} <= everything


# ---- UNRESTRICTED by its definition --------------------------------------------------------------


def combinations_of(node: c.Composite, history: Sequence[Event]) -> set[frozenset[int]]:
    """Every set of versions that makes a plain expression take place, by listing them."""

    def both(*operands: c.Composite) -> Iterator[list[frozenset[int]]]:
        for chosen in product(*(combinations_of(operand, history) for operand in operands)):
            if sum(map(len, chosen)) == len(frozenset().union(*chosen)):
                yield list(chosen)

    match node:
        case Primitive(event_class=name):
            return {frozenset({event.seq}) for event in history if event.event_class == name}
        case c.Node(operator=Op.AND, operands=operands):
            return {frozenset().union(*chosen) for chosen in both(*operands)}
        case c.Node(operator=Op.OR, operands=operands):
            return set().union(*(combinations_of(operand, history) for operand in operands))
        case c.Node(operator=Op.SEQUENCE, operands=(c.Node(operator=Op.SEQUENCE, operands=(left, never)), right)) if (
            isinstance(never, c.Node) and never.operator is Op.NOT
        ):
            absent = combinations_of(never.operands[0], history)
            return {
                before | after
                for before, after in both(left, right)
                if max(before) < min(after) and not any(max(before) < min(b) and max(b) < min(after) for b in absent)
            }
        case c.Node(operator=Op.SEQUENCE, operands=operands):
            return {before | after for before, after in both(*operands) if max(before) < min(after)}
        case c.AnyOf(count=count, operands=operands):
            chosen = (both(*some) for some in combinations(operands, count))
            return {frozenset().union(*sets) for choice in chosen for sets in choice}
        case _:
            raise AssertionError(f"not plain: {node}")


def is_plain(node: c.Composite) -> bool:
    match node:
        case c.Node(
            operator=Op.SEQUENCE,
            operands=(c.Node(operator=Op.SEQUENCE, operands=(left, c.Node(operator=Op.NOT, operands=(never,)))), right),
        ):
            return is_plain(left) and is_plain(never) and is_plain(right)
        case c.Node(operator=Op.NOT) | c.Repeat() | c.NotBetween():
            return False
        case _:
            return all(is_plain(child) for child in c.children(node))


@given(seed=seeds)
def test_unrestricted_is_every_combination(seed: int) -> None:
    g = case(seed, replace(PLAIN, contexts=(Context.UNRESTRICTED,), events=9))
    assume(is_plain(g.plan.expression))
    wanted = sorted((max(each), sorted(each)) for each in combinations_of(g.plan.expression, g.history))
    assert [(one.seq, list(one.constituents)) for one in occurrences(g)] == wanted


# ---- laws ----------------------------------------------------------------------------------------

Sides = Callable[[c.Composite, c.Composite, c.Composite], tuple[c.Composite, c.Composite]]


def node(operator: Op, *operands: c.Composite) -> c.Composite:
    return c.Node(operator, operands)


def between(left: c.Composite, never: c.Composite, right: c.Composite) -> c.Composite:
    return node(Op.SEQUENCE, node(Op.SEQUENCE, left, node(Op.NOT, never)), right)


LAWS: dict[str, Sides] = {
    "NOT(B)[A, C]": lambda e, f, g: (c.NotBetween(f, e, g), between(e, f, g)),
    "ANY of all is &": lambda e, f, g: (c.AnyOf(2, (e, f)), node(Op.AND, e, f)),
    "E{1} is E": lambda e, f, g: (c.Repeat(e, 1, False), e),
    "parentheses": lambda e, f, g: (c.Scoped(e, None, None), e),
    "a bound far away": lambda e, f, g: (c.Bounded(None, 10**15, e), e),
    "a WITHIN far away": lambda e, f, g: (c.Scoped(node(Op.SEQUENCE, e, f), 10**15, None), node(Op.SEQUENCE, e, f)),
    "nothing is gathered": lambda e, f, g: (node(Op.SEQUENCE, c.Repeat(Primitive("Never"), 0, True), e), e),
    "an absence beside that never ends": lambda e, f, g: (node(Op.AND, e, node(Op.NOT, Primitive("Never"))), e),
    "an absence between that never ends": lambda e, f, g: (
        between(e, Primitive("Never"), f),
        node(Op.SEQUENCE, e, f),
    ),
    "an absence for no time": lambda e, f, g: (c.AbsentFor(e, f, 0), c.Plus(e, 0)),
    "delays add up": lambda e, f, g: (c.Plus(c.Plus(e, SECOND), SECOND), c.Plus(e, 2 * SECOND)),
}


@pytest.mark.parametrize("name", LAWS)
@given(seed=seeds)
@settings(max_examples=40)
def test_two_ways_to_say_it(name: str, seed: int) -> None:
    # Delays add up where no version is detected late.
    wanted = replace(PLAIN, depth=1, windows=True, timers=True, events=10)
    e, f, g = (case(seed + i, wanted).plan.expression for i in range(3))
    generated = case(seed, wanted)
    left, right = LAWS[name](e, f, g)
    for context in Context:
        found = [
            [(one.seq, one.det_time, one.constituents) for one in occurrences(generated, plan=written)]
            for written in (replace(generated.plan, expression=side, context=context) for side in (left, right))
        ]
        assert found[0] == found[1], context


# ---- the rest ------------------------------------------------------------------------------------


def plan_for(expression: c.Composite, context: Context = Context.RECENT) -> CompositePlan:
    return CompositePlan(expression, context, (), None, (), None, None, None, ())


A, B = Primitive("A"), Primitive("B")


def test_withdrawals_are_left_out() -> None:
    events = [Event(1, "A", {}, 0, 0), Event(2, "A", {}, None, 0), Event(3, "B", {}, 0, 0)]
    (found,) = composite_occurrences(plan_for(node(Op.SEQUENCE, A, B)), events, until_us=0)
    assert found.constituents == (1, 3)


def test_constituents_of_a_complex_event_stand_for_it() -> None:
    events = [
        Event(1, "A", {}, 0, 0),
        Event(2, "B", {}, 0, 0),
        Event(2, "Pair", {}, 0, 0, (1, 2)),
        Event(3, "A", {}, 0, 0),
    ]
    (found,) = composite_occurrences(plan_for(node(Op.SEQUENCE, Primitive("Pair"), A)), events, until_us=0)
    assert (found.seq, found.constituents, found.leaves) == (3, (1, 2, 3), ((2, 0), (3, 1)))


def test_recent_is_the_default() -> None:
    program = """
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (-1);
        CREATE COMPLEX EVENT CLASS Found () ID () LIFESPAN (-1) AS COMPOSITE A > A;
    """
    found = compile(program).class_plan("Found")
    assert found is not None
    assert isinstance(found.derivation, CompositePlan)
    assert found.derivation.context is Context.RECENT


def test_order_by_occurrence_is_refused() -> None:
    with pytest.raises(OrderByOccurrenceUnsupported):
        composite_occurrences(replace(plan_for(A), by_occurrence=ByOccurrence(None)), [], until_us=0)


def test_a_repetition_that_nothing_closes_is_refused() -> None:
    unclosed = node(Op.SEQUENCE, A, c.Repeat(B, 0, True))
    with pytest.raises(ValueError, match="nothing closes"):
        composite_occurrences(plan_for(c.AbsentFor(unclosed, B, SECOND)), [], until_us=0)


def test_occurrences_at_one_place_are_ordered_by_key_then_constituents() -> None:
    x = Variable("X", INT)
    feeds = (Feed("X", Field("", "X", INT)),)
    plan = replace(plan_for(node(Op.SEQUENCE, Primitive("K", (x,)), A), Context.CONTINUOUS), feeds=feeds)
    events = [Event(1, "K", {"k": 2}, 0, 0), Event(2, "K", {"k": 1}, 0, 0), Event(3, "A", {}, 0, 0)]
    by_constituents = composite_occurrences(plan, events, until_us=0)
    by_key = composite_occurrences(plan, events, until_us=0, key=["X"])
    assert [one.constituents for one in by_constituents] == [(1, 3), (2, 3)]
    assert [one.constituents for one in by_key] == [(2, 3), (1, 3)]


class Latest:
    """A context of one's own: the latest operands, which stay. Snoop's RECENT, for two operands."""

    uses_up = False

    def arrive(self, join: Completing, kept: Kept, slot: int, operand: Operand) -> tuple[list[Completed], Kept]:
        latest = tuple(one for one in kept if one[0][0] != slot)
        completed = [(choice, join.complete(choice)) for choice in choices(join, latest, slot, operand)]
        made = [(choice, one) for choice, one in completed if one is not None]
        return made, (*latest, ((slot, operand),)) if join.keeps(slot) else kept

    def closed(self, openings: Sequence[Operand]) -> Sequence[Operand]:
        return openings


def test_a_context_is_one_class() -> None:
    events = tuple(Event(i, name, {}, i, i) for i, name in enumerate("AABBA", 1))
    setting = Setting(Scope(History.of(events)), (A, B), {}, SECOND, SECOND)
    detector = NodeByNode(Latest()).detector(form_of(plan_for(node(Op.AND, A, B))), setting)
    found = [[p + 1 for p in sorted(one.places)] for i in range(5) for one in detector.step(setting.arrival(i))]
    assert found == [[2, 3], [2, 4], [4, 5]]

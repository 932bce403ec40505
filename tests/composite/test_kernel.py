"""The COMPOSITE kernel: the corpus, random cases against the reference with any cut, saving, limits, a new context.

Every random case runs: nothing is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

from augury import limits
from augury.algebra import composite as c
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.composite import CompositePlan, Context
from augury.algebra.expression import Primitive
from augury.kernels.composite import CONTEXTS, NotYet, detector_of, initial_state, step
from augury.kernels.composite.network import register
from augury.kernels.composite.occurrence import NodeState, Occ, Window
from augury.kernels.composite.protocol import Join, choices, each
from augury.kernels.composite.saved import loaded, saved
from augury.kernels.composite.state import GraphState
from augury.kernels.reference import Event
from augury.kernels.reference.composite import CompositeOccurrence, composite_occurrences
from augury.kernels.sealed import UnfitState
from tests.composite.columns import CLASSES, Shown, detected, found_class, living, shown
from tests.composite.corpus import Case, cases, history_of, lifespans_of, plan_of
from tests.composite.corpus import shown as as_written
from tests.composite.generate import ALIKE, EVERYTHING, MASKS, PLAIN, SECOND, WIDE, Generated, Wanted, case, history
from tests.match.columns import batch

CASES = list(cases())


# ---- the corpus ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_an_expression_takes_place_where_the_contract_says(case: Case) -> None:
    plan, classes = plan_of(case)
    events, until_us = history_of(case, classes)
    known = tuple(one for one in living(tuple(classes.values()), lifespans_of(case)) if one.name != "Found")
    found = detected(plan, events, until_us=until_us, classes=known, into=classes["found"])
    about = f"{case['says']}\n{case['expression']} {case['clauses']} CONTEXT {case['context']}\nin {case['history']}"
    assert as_written([_as_reference(one) for one in found]) == case["found"], about
    if "values" in case:
        wanted = [tuple(None if value == "NULL" else value for value in row) for row in case["values"]]
        assert [values for _, _, _, values, _ in found] == wanted, about


def _as_reference(one: Shown) -> CompositeOccurrence:
    seq, occ_time, det_time, _, constituents = one
    return CompositeOccurrence(seq, occ_time, det_time, {}, constituents, ())


# ---- random cases --------------------------------------------------------------------------------


def reference(g: Generated) -> list[Shown]:
    found = composite_occurrences(g.plan, g.history, g.lifespans_us, until_us=g.until_us, chronon_us=g.chronon_us)
    return [(o.seq, o.occ_time, o.det_time, tuple(o.values.values()), o.constituents) for o in found]


def kernel(g: Generated, through_bytes: bool = False, whole: bool = False) -> list[Shown]:
    """What the kernel finds in a case, cut at random."""
    random = Random(g.seed)
    cuts = [] if whole else sorted(random.randint(0, len(g.history)) for _ in range(random.randint(0, 6)))
    untils = [random.randint(0, g.until_us) for _ in cuts]
    return detected(
        g.plan,
        g.history,
        until_us=g.until_us,
        cuts=cuts,
        untils=untils,
        classes=living(CLASSES, g.lifespans_us),
        chronon_us=g.chronon_us,
        through_bytes=through_bytes,
    )


def compared(seeds: range, wanted: Wanted) -> None:
    """Compare the kernel with the reference: half of the cases cut anywhere, a quarter saved and loaded at each cut."""
    for seed in seeds:
        g = case(seed, wanted)
        found = kernel(g, through_bytes=seed % 4 == 1, whole=seed % 2 == 0)
        assert found == reference(g), f"seed {seed}: {g.plan.context} {g.plan.expression}"


def mixed(seeds: range, context: Context) -> None:
    """A quarter of the cases are wide, and a quarter of operands alike; short histories, for differences show early."""
    quarter = len(seeds) // 4
    compared(seeds[2 * quarter :], replace(EVERYTHING, contexts=(context,), events=18))
    compared(seeds[quarter : 2 * quarter], replace(ALIKE, contexts=(context,), events=16))
    compared(seeds[:quarter], replace(WIDE, contexts=(context,), events=14))


@pytest.mark.parametrize("context", Context)
@pytest.mark.parametrize("part", range(16))
def test_twenty_thousand_cases(context: Context, part: int) -> None:
    mixed(range(part * 250, part * 250 + 250), context)


@pytest.mark.parametrize("context", Context)
def test_plain_cases_of_each_context(context: Context) -> None:
    compared(range(10_000, 10_250), replace(PLAIN, contexts=(context,)))


ONCE_DIFFERED = {
    103_904: EVERYTHING,
    130_378: EVERYTHING,
    134_376: EVERYTHING,
    1_003_965: replace(EVERYTHING, contexts=(Context.RECENT,)),
    2_003_747: replace(WIDE, contexts=(Context.CONTINUOUS,), events=18),
    5_003_359: replace(WIDE, contexts=(Context.CHRONICLE,), events=20),
}


@pytest.mark.parametrize("seed", ONCE_DIFFERED)
def test_where_the_two_once_differed(seed: int) -> None:
    compared(range(seed, seed + 1), ONCE_DIFFERED[seed])


@pytest.mark.soak
@pytest.mark.parametrize("context", Context)
@pytest.mark.parametrize("part", range(10))
def test_a_million_cases(context: Context, part: int) -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // (10 * len(Context))
    first = int(os.environ.get("AUGURY_SOAK_FIRST", "1000000")) + part * cases
    alike, wide = first + cases // 2, first + cases * 3 // 4
    compared(range(first, alike), replace(EVERYTHING, contexts=(context,)))
    compared(range(alike, wide), replace(ALIKE, contexts=(context,)))
    compared(range(wide, first + cases), replace(WIDE, contexts=(context,), events=20))


def test_a_cut_makes_no_difference() -> None:
    for seed in range(30_000, 30_060):
        g = case(seed)
        assert kernel(g) == kernel(g, whole=True), seed


def test_a_version_that_stands_nowhere_makes_no_difference() -> None:
    for seed in range(40_000, 40_200):
        g = case(seed, replace(WIDE, events=14))
        without = replace(g, history=tuple(event for event in g.history if event.event_class != "Z"))
        assert reference(g) == reference(without), seed


# ---- many shapes ---------------------------------------------------------------------------------


def either(*sides: c.Composite) -> c.Composite:
    return c.Node(Op.OR, sides)


A, B, K, Z = (Primitive(name) for name in "ABKZ")
MASKED = tuple(Primitive("K", (), mask) for mask in MASKS[:2])
MANY_SHAPES: dict[str, c.Composite] = {
    "(A | B){5} > K": c.Node(Op.SEQUENCE, (c.Repeat(either(A, B), 5, False), K)),
    "(A | B | K){4} & A": c.Node(Op.AND, (c.Repeat(either(A, B, K), 4, False), A)),
    "ANY{2, A, B, K}{3}": c.Repeat(c.AnyOf(2, (A, B, K)), 3, False),
    "(K[..] | K[..]){3} > A": c.Node(Op.SEQUENCE, (c.Repeat(either(*MASKED), 3, False), A)),
    "((A > B) | B){3}": c.Repeat(either(c.Node(Op.SEQUENCE, (A, B)), B), 3, False),
    "(A | B){2} > B* > (K | B)": c.Node(
        Op.SEQUENCE,
        (c.Node(Op.SEQUENCE, (c.Repeat(either(A, B), 2, False), c.Repeat(B, 0, True))), either(K, B)),
    ),
    "APERIODIC(A | B, K | A, Z){2}": c.Repeat(c.Aperiodic(either(A, B), either(K, A), Z, False), 2, False),
}


@pytest.mark.parametrize("name", MANY_SHAPES)
def test_shapes_that_are_looked_at_together_are_ranked_as_one_by_one(name: str) -> None:
    for seed in range(12):
        events = history(Random(seed), 18)
        plan = plan_for(MANY_SHAPES[name], Context.RECENT)
        g = Generated(seed, plan, events, {}, SECOND, 100 * SECOND)
        assert kernel(g) == reference(g), seed


def test_so_many_choices_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_CHOICES_MAX", 9)
    detector_of(plan_for(c.AnyOf(2, (A, B, K, Z)), Context.RECENT))
    with pytest.raises(NotYet, match="more than 9 choices of OR and ANY in RECENT"):
        detector_of(plan_for(c.AnyOf(2, (A, B, K, Z, Primitive("L"))), Context.RECENT))
    monkeypatch.setattr(limits, "COMPOSITE_FILLINGS_MAX", 7)
    with pytest.raises(NotYet, match="more than 7 orders of masks of a class in RECENT"):
        detector_of(plan_for(c.Repeat(either(*MASKED), 3, False), Context.RECENT))


# ---- what is kept --------------------------------------------------------------------------------

A_THEN_B = c.Node(Op.SEQUENCE, (A, B))


def plan_for(expression: c.Composite, context: str = Context.CHRONICLE) -> CompositePlan:
    return CompositePlan(expression, context, (), None, (), None, None, None, ())  # type: ignore[arg-type]


def letters(text: str) -> list[Event]:
    return [Event(i, name, {}, i * SECOND, i * SECOND) for i, name in enumerate(text, 1)]


def sets_of(plan: CompositePlan, text: str) -> list[tuple[int, ...]]:
    return [one[4] for one in detected(plan, letters(text), until_us=1_000 * SECOND)]


def test_what_is_used_once_and_in_every_context() -> None:
    assert sets_of(plan_for(A_THEN_B), "AABB") == [(1, 3), (2, 4)]
    assert sets_of(plan_for(A_THEN_B, Context.CUMULATIVE), "AABB") == [(1, 2, 3)]


def test_too_many_operands_drop_the_oldest_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_KEPT_MAX", 2)
    plan = plan_for(A_THEN_B)
    detector = detector_of(plan)
    events = batch(letters("AAAAB"), CLASSES)
    state, found = step(detector, initial_state(detector, CLASSES), events, found_class(plan), SECOND, 9 * SECOND)
    assert [one[4] for one in shown(found)] == [(3, 5)]
    assert state.dropped == 2


def kept(plan: CompositePlan, text: str, lifespans: dict[str, int | None] | None = None) -> int:
    """How many occurrences the state holds at the end."""
    detector = detector_of(plan, flat=False)
    classes = living(CLASSES, lifespans or {})
    state = initial_state(detector, classes)
    state, _ = step(detector, state, batch(letters(text), classes), found_class(plan), SECOND, len(text) * SECOND)
    assert isinstance(state, GraphState)
    graphs = list(state.graphs.values())
    return sum(len(list(node.everything())) for graph in graphs for node in graph.nodes) + sum(
        len(graph.timers) for graph in graphs
    )


FORGOTTEN: dict[str, tuple[c.Composite, str, dict[str, int | None]]] = {
    "used up": (A_THEN_B, "AB", {}),
    "expired": (A_THEN_B, "A", {"A": 3 * SECOND}),
    "out of WITHIN": (c.Scoped(A_THEN_B, 2 * SECOND, None), "A", {}),
    "absences before every left operand": (c.NotBetween(B, A, Primitive("K")), "B", {}),
    "left operands that are blocked for ever": (c.NotBetween(B, A, Primitive("K")), "AB", {}),
    "gathered before the left operand": (
        c.Node(Op.SEQUENCE, (c.Node(Op.SEQUENCE, (A, c.Repeat(B, 0, True))), Primitive("Z"))),
        "B",
        {},
    ),
    "timers that fired": (c.Plus(A, SECOND), "AZZ", {}),
    "middles outside every window": (c.Aperiodic(A, B, Primitive("Z"), True), "B", {}),
}


@pytest.mark.parametrize("context", [one for one in Context if one is not Context.UNRESTRICTED])
@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_nothing_needs_is_forgotten(name: str, context: Context) -> None:
    expression, text, lifespans = FORGOTTEN[name]
    plan = plan_for(expression, context)
    few, many = kept(plan, text * 20, lifespans), kept(plan, text * 200, lifespans)
    # RECENT lets go of what it need not know only when there is some of it.
    assert many <= max(few, 40)


# ---- saved ---------------------------------------------------------------------------------------


def test_a_state_says_what_is_wrong_with_it() -> None:
    detector = detector_of(plan_for(A_THEN_B))
    state = initial_state(detector, CLASSES)
    state, _ = step(detector, state, batch(letters("AA"), CLASSES), found_class(detector.plan), SECOND, 2 * SECOND)
    data = saved(state, detector, CLASSES)
    assert saved(loaded(data, detector, CLASSES), detector, CLASSES) == data
    other = detector_of(plan_for(c.Node(Op.AND, (A, B))))
    for damaged, by, why in [
        (b"nonsense", detector, "no state of a COMPOSITE"),
        (data[:-2] + b"!}", detector, "checksum"),
        (data.replace(b'"format": 2', b'"format": 9'), detector, "format 9"),
        (data, other, "another expression"),
    ]:
        with pytest.raises(UnfitState, match=why):
            loaded(damaged, by, CLASSES)


# ---- contexts ------------------------------------------------------------------------------------


@pytest.fixture
def latest() -> Iterator[str]:
    @register("LATEST")
    class Latest:
        """Snoop's RECENT for two operands: the latest of each stays."""

        uses_up = False
        taking = None

        def arrive(self, join: Join, state: NodeState, slot: int, operand: Occ) -> list[Occ]:
            made = [join.complete(state, choice) for choice in choices(join, state, slot, operand, join.needed - 1)]
            if join.keeps(slot):
                state.kept[slot] = []
                state.keep(state.kept[slot], operand)
            return [one for one in made if one is not None]

        def windows(self, fitting: list[Window], complete: Callable[[list[Window]], Occ | None]) -> list[Occ]:
            return each(fitting[-1:], complete)

        def closed(self, open_windows: list[Window]) -> list[Window]:
            return open_windows

    yield "LATEST"
    del CONTEXTS["LATEST"]


def test_a_context_is_one_class(latest: str) -> None:
    assert sets_of(plan_for(c.Node(Op.AND, (A, B)), latest), "AABBA") == [(2, 3), (2, 4), (4, 5)]


def test_what_cannot_be_run_is_named() -> None:
    with pytest.raises(NotYet, match="the context NOBODY"):
        detector_of(plan_for(A, "NOBODY"))


# ---- versions ------------------------------------------------------------------------------------


def test_withdrawals_are_left_out() -> None:
    events = [Event(1, "A", {}, 0, 0), Event(2, "A", {}, None, 0), Event(3, "B", {}, 0, 0)]
    (found,) = detected(plan_for(A_THEN_B), events, until_us=0)
    assert found[4] == (1, 3)

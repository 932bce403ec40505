"""Graphs that run flat: equal to the reference and to the operators that go step by step, cut anywhere, through bytes.

Cases are made of classes that stand once each, which is what runs flat; a few that must not are named.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random

import pytest

from augury import limits
from augury.algebra import composite as c
from augury.algebra import scalar as s
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.composite import CompositePlan, Context
from augury.algebra.expression import Anything, Binding, Feed, Primitive, Variable
from augury.kernels.composite import detector_of, initial_state, step
from augury.kernels.composite.flat.state import HELD_SPARE, FlatState
from augury.kernels.reference import Event
from augury.types import INT
from tests.composite.columns import CLASSES, Shown, found_class, living, shown
from tests.composite.generate import EVERYTHING, MASKS, SECOND, Generated, history
from tests.composite.test_kernel import kernel, reference
from tests.match.columns import batch

X = Variable("X", INT)
Y = Variable("Y", INT)


# ---- random cases --------------------------------------------------------------------------------


class Maker:
    """Expressions over a list of leaves, each used once."""

    def __init__(self, random: Random, latest: bool, within: bool) -> None:
        self.random = random
        self.latest = latest
        self.within = within

    def make(self, leaves: Sequence[Primitive]) -> c.Composite:
        made = self._scoped(self._made(leaves))
        if self.random.random() < 0.1:
            return c.Bounded(self.random.choice((None, 3 * SECOND)), 25 * SECOND, made)
        return made

    def _made(self, leaves: Sequence[Primitive]) -> c.Composite:
        if len(leaves) == 1:
            return self._repeated(leaves[0])
        if len(leaves) > 2 and not self.latest and self.random.random() < 0.35:
            return self._without(leaves)
        cut = self.random.randint(1, len(leaves) - 1)
        kinds = (Op.SEQUENCE, Op.SEQUENCE, Op.AND) if self.latest else (Op.SEQUENCE, Op.SEQUENCE, Op.AND, Op.OR)
        return c.Node(self.random.choice(kinds), (self.make(leaves[:cut]), self.make(leaves[cut:])))

    def _without(self, leaves: Sequence[Primitive]) -> c.Composite:
        absent, *rest = leaves
        cut = self.random.randint(1, len(rest) - 1)
        return c.NotBetween(absent, self.make(rest[:cut]), self.make(rest[cut:]))

    def _repeated(self, leaf: Primitive) -> c.Composite:
        if self.latest or self.random.random() < 0.85:
            return leaf
        return c.Repeat(leaf, self.random.choice((1, 2, 3)), False)

    def _scoped(self, made: c.Composite) -> c.Composite:
        # A repetition within a time does not run flat.
        repeats = any(isinstance(one, c.Repeat) for one in c.walk(made))
        if not self.within or repeats or isinstance(made, Primitive) or self.random.random() < 0.7:
            return made
        return c.Scoped(made, self.random.choice((1, 2, 4, 9)) * SECOND, None)


def flat_case(seed: int, context: Context) -> Generated:
    """A case whose graph runs flat."""
    random = Random(seed)
    keyed = random.choice(("", "", "variable", "variables", "partition"))
    plain = {"A": Primitive("A"), "B": Primitive("B"), "K": Primitive("K", (Anything(), Y)), "L": Primitive("L")}
    bound: tuple[Binding, Binding] = (X if keyed.startswith("variable") else Anything(), Y)
    first = (X, Anything()) if keyed == "variable" else bound
    mask = random.choice((None, None, *MASKS))
    pair = {"K": Primitive("K", first, mask), "L": Primitive("L", bound)}
    names = random.sample("KL" if keyed else "ABKL", random.randint(2, 2 if keyed else 4))
    latest = context is Context.RECENT
    within = random.random() < 0.5
    expression = Maker(random, latest, within).make([(pair if keyed else plain)[name] for name in names])
    keys = {"": (), "variable": (X,), "variables": (X, Y), "partition": (Y,)}[keyed]
    feeds = [Feed("Y", s.Field("", "Y", INT))] if keyed or "K" in names else []
    feeds += [Feed("v", s.Field("K", "v", INT))] if "K" in names else []
    partition = ("k",) if keyed == "partition" else ()
    plan = CompositePlan(expression, context, keys, None, partition, None, None, None, tuple(feeds))
    events = history(random, random.randint(0, 11 if context is Context.UNRESTRICTED else 40), EVERYTHING)
    lifespans: dict[str, int | None] = {}
    if random.random() < 0.4:
        lifespans = {name: random.choice((2, 4, 8)) * SECOND for name in random.sample("ABKL", random.randint(1, 4))}
    last = max((event.det_time for event in events), default=0)
    return Generated(seed, plan, events, lifespans, random.choice((1, 1, 3)) * SECOND, last + SECOND)


def stepwise(g: Generated) -> list[Shown]:
    """What the operators find that go step by step."""
    detector = detector_of(g.plan, flat=False)
    classes = living(CLASSES, g.lifespans_us)
    state = initial_state(detector, classes)
    return shown(step(detector, state, batch(g.history, classes), found_class(g.plan), g.chronon_us, g.until_us)[1])


def agreed(seeds: range, context: Context, through_bytes: bool = False) -> None:
    for seed in seeds:
        g = flat_case(seed, context)
        assert detector_of(g.plan).flat is not None, f"seed {seed}: {g.plan.expression}"
        found = kernel(g, through_bytes)
        assert found == stepwise(g), f"seed {seed}: {context} {g.plan.expression}"
        assert found == reference(g), f"seed {seed}: {context} {g.plan.expression}"


@pytest.mark.parametrize("hundred", range(4))
@pytest.mark.parametrize("context", Context)
def test_four_hundred_seeds_of_each_context(context: Context, hundred: int) -> None:
    agreed(range(hundred * 100, hundred * 100 + 100), context)


@pytest.mark.parametrize("context", Context)
def test_a_state_is_bytes_in_between(context: Context) -> None:
    agreed(range(10_000, 10_060), context, through_bytes=True)


@pytest.mark.soak
@pytest.mark.parametrize("context", Context)
@pytest.mark.parametrize("part", range(10))
def test_a_million_cases(context: Context, part: int) -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // (10 * len(Context))
    first = int(os.environ.get("AUGURY_SOAK_FIRST", "1000000")) + part * cases
    agreed(range(first, first + cases), context, part % 2 == 1)


# ---- which graphs, and what they keep --------------------------------------------------------------

A, B, K = Primitive("A"), Primitive("B"), Primitive("K")
A_THEN_B = c.Node(Op.SEQUENCE, (A, B))
STEPWISE: dict[str, c.Composite] = {
    "a class that stands twice": c.Node(Op.SEQUENCE, (A, A)),
    "a timer": c.Plus(A, SECOND),
    "a guard": c.Node(Op.AND, (A, c.Node(Op.NOT, (B,)))),
    "a window": c.Aperiodic(A, B, K, False),
    "all between": c.Node(Op.SEQUENCE, (c.Node(Op.SEQUENCE, (A, c.Repeat(B, 0, True))), K)),
    "a choice of two": c.AnyOf(2, (A, B, K)),
}


def plan_for(expression: c.Composite, context: Context = Context.CHRONICLE) -> CompositePlan:
    return CompositePlan(expression, context, (), None, (), None, None, None, ())


@pytest.mark.parametrize("name", STEPWISE)
def test_what_goes_step_by_step(name: str) -> None:
    assert detector_of(plan_for(STEPWISE[name])).flat is None


def letters(text: str, first: int = 1) -> list[Event]:
    return [Event(i, name, {}, i * SECOND, i * SECOND) for i, name in enumerate(text, first)]


def after(plan: CompositePlan, parts: Sequence[str], lifespan_us: int | None = None) -> tuple[FlatState, int]:
    """The state after batches, and how many occurrences there were."""
    detector = detector_of(plan)
    classes = living(CLASSES, dict.fromkeys("AB", lifespan_us))
    state = initial_state(detector, classes)
    seq, found = 1, 0
    for part in parts:
        events = batch(letters(part, seq), classes)
        state, more = step(detector, state, events, found_class(plan), SECOND, (seq + len(part)) * SECOND)
        seq, found = seq + len(part), found + len(more)
    assert isinstance(state, FlatState)
    return state, found


@pytest.mark.parametrize("context", [one for one in Context if one is not Context.UNRESTRICTED])
def test_rows_and_versions_are_used_again(context: Context) -> None:
    few, _ = after(plan_for(A_THEN_B, context), ["AABB" * 10] * 20)
    many, found = after(plan_for(A_THEN_B, context), ["AABB" * 10] * 400)
    assert found >= 4_000
    assert len(few.arena) == len(many.arena)
    assert len(many.held) <= HELD_SPARE + 10


@pytest.mark.parametrize("context", [one for one in Context if one is not Context.RECENT])
def test_versions_that_have_left_are_let_go(context: Context) -> None:
    state, found = after(plan_for(A_THEN_B, context), ["A" * 500 + "B"] * 20, 3 * SECOND)
    assert found
    assert len(state.arena) < 2_000


@pytest.mark.parametrize("context", [Context.CHRONICLE, Context.CONTINUOUS])
def test_too_many_operands_drop_the_oldest_and_are_counted(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_KEPT_MAX", 2)
    for expression in (A_THEN_B, c.Node(Op.AND, (A, B))):
        for flat in (True, False):
            detector = detector_of(plan_for(expression, context), flat)
            state = initial_state(detector, CLASSES)
            events = batch(letters("AAAAABAA"), CLASSES)
            state, found = step(detector, state, events, found_class(detector.plan), SECOND, 9 * SECOND)
            assert [one[4] for one in shown(found)] == [(4, 6), (5, 6)][: 1 if context is Context.CHRONICLE else 2]
            assert state.dropped == 3 + (context is Context.CHRONICLE)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("context", Context)
def test_keys_that_come_once_are_let_go(context: Context, flat: bool) -> None:
    """Every A has a value of its own, and nothing comes after it: what has expired goes, whoever else comes."""
    expression = c.Node(Op.SEQUENCE, (Primitive("K", (X, Anything())), Primitive("L", (X, Anything()))))
    plan = CompositePlan(expression, context, (X,), None, (), None, None, None, ())
    detector = detector_of(plan, flat)
    classes = living(CLASSES, {"K": 3 * SECOND})
    state = initial_state(detector, classes)
    for first in range(1, 10_000, 500):
        events = [Event(i, "K", {"k": i, "v": 0}, i * SECOND, i * SECOND) for i in range(first, first + 500)]
        end = (first + 500) * SECOND
        state, _ = step(detector, state, batch(events, classes), found_class(plan), SECOND, end)
    assert len(state.held if isinstance(state, FlatState) else state.graphs) < 4_000

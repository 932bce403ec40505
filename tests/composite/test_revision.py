"""A COMPOSITE whose history is corrected: applying a correction equals detecting afresh, from any saved state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from augury.algebra import composite as c
from augury.algebra import scalar as s
from augury.algebra.composite import Context
from augury.algebra.expression import Anything, Feed, Primitive, Variable
from augury.kernels.batch import Occurrences
from augury.kernels.composite import NotYet, detector_of, initial_state, step
from augury.kernels.composite.saved import loaded, saved
from augury.kernels.reference import Event
from augury.types import INT
from tests.composite.columns import CLASSES, found_class, living
from tests.composite.generate import EVERYTHING, SECOND, Generated, case, history
from tests.match.columns import batch
from tests.match.corrected import Account, Careless, Cut, check_corrections, identity_of, said_of, stretched


def account_of(seed: int, context: Context, kind: type[Account] = Account) -> tuple[Account, bytes]:
    """A COMPOSITE with random clauses, detected over a random history."""
    return account_for(case(seed, replace(EVERYTHING, contexts=(context,), events=16)), kind)


def account_for(g: Generated, kind: type[Account] = Account) -> tuple[Account, bytes]:
    """A case, detected; its first attribute is the key for every second seed."""
    classes = living(CLASSES, g.lifespans_us)
    detector = detector_of(g.plan)
    into = found_class(g.plan)
    into = replace(into, key=tuple(a.name for a in into.attributes[: g.seed % 2]))
    begin = saved(initial_state(detector, classes), detector, classes)

    def go(state: bytes, part: Sequence[Event], until_us: int) -> tuple[bytes, Occurrences]:
        before = loaded(state, detector, classes)
        after, found = step(detector, before, batch(part, classes), into, g.chronon_us, until_us)
        return saved(after, detector, classes), found

    return kind(go, Random(g.seed), stretched(g.history), g.until_us + SECOND, [Cut(0, 0, -1, begin)]), begin


@pytest.mark.parametrize("context", Context)
def test_applying_a_correction_equals_detecting_afresh(context: Context) -> None:
    compared, corrected, changed, timed = 0, 0, 0, 0
    for seed in range(150):
        try:
            account, begin = account_of(seed, context)
        except NotYet:
            continue
        if not len(account.said):
            continue
        timed += bool((account.said.seq <= 0).any())
        rows, differ = check_corrections(account, begin, Random(seed))
        compared += 1
        corrected += rows > 0
        changed += differ > 0
    assert compared > 40
    assert corrected > compared // 2, "most corrections change something"
    assert changed > 5, "some change what is said of an occurrence that stands"
    assert timed > 5, "some are completed by timers"


X = Variable("X", INT)
K_OF_X = c.Node(c.CompositeOperator.OR, (Primitive("K", (X, Anything())), Primitive("K", (Anything(), X))))
EITHER = c.Node(c.CompositeOperator.SEQUENCE, (K_OF_X, Primitive("A")))
"""A version of K stands in the graph of its k and in that of its v: two events with the same constituents."""


@pytest.mark.parametrize("feeds", [(Feed("X", s.Field("", "X", INT)),), ()], ids=["alike but for X", "alike"])
def test_several_with_one_identity_are_corrected_from_a_state_too(feeds: tuple[Feed, ...]) -> None:
    plan = c.CompositePlan(EITHER, Context.CHRONICLE, (X,), None, (), None, None, None, feeds)
    several, alike = 0, 0
    for seed in range(30):
        events = history(Random(seed), 14)
        account, begin = account_for(Generated(2 * seed, plan, events, {}, SECOND, events[-1].det_time))
        rows = [row for row, _, _ in said_of(account.said)]
        several += len({identity_of(row, account.said.event_class) for row in rows}) < len(rows)
        alike += len(set(rows)) < len(rows)
        check_corrections(account, begin, Random(seed))
    assert several > 20
    assert alike == (0 if feeds else several)


def test_a_state_from_after_the_change_does_not_do() -> None:
    """The law can fail: what the state already knows of the old history is not corrected."""
    missed = 0
    for seed in range(40):
        account, begin = account_of(seed, Context.CHRONICLE, Careless)
        try:
            check_corrections(account, begin, Random(seed))
        except AssertionError:
            missed += 1
    assert missed > 5

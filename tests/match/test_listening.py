"""Expressions that events of other values matter to: they listen to every event, or read a class that names no value.

Against the reference on short histories, and on long ones against the same kernel row by row.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from augury.algebra import scalar as s
from augury.algebra.expression import (
    Anything,
    Apply,
    Binding,
    Choice,
    Expression,
    MatchOperator,
    MatchPlan,
    Nth,
    Primitive,
    Variable,
)
from augury.analysis.references import VariableTable
from augury.analysis.variables import bind_variables
from augury.api import compile
from augury.diagnostics import Findings
from augury.kernels.match import REFUSALS, Detector, detector_of, initial_state, step
from augury.kernels.match.leaves import Rows, truth_of
from augury.kernels.match.saved import loaded, saved
from augury.kernels.match.streams import by_spans, groups_of, touched
from augury.kernels.reference import Event, Occurrence, detect
from augury.types import INT
from tests.match.columns import CLASSES, batch, expected, found_class
from tests.match.generate import MASKS, SECOND, plan

Op = MatchOperator
UNSUPPORTED = tuple(REFUSALS)
CHUNK = 250


# ---- random cases --------------------------------------------------------------------------------

ANY = Apply(Op.ANY)
BINARY = (Op.AND, Op.OR, Op.RELATIVE, Op.PRIOR, Op.PRIOR, Op.SEQUENCE, Op.AFTER_FIRST, Op.BETWEEN_EACH, Op.PIPE)
UNARY = (Op.BEFORE, Op.HAPPENED, Op.NOT, Op.RELATIVE_PLUS)


def expression(random: Random) -> Expression:
    """Most of these listen, or read A or B besides K, and have a variable in several places."""
    while True:
        findings = Findings()
        table = VariableTable(types={"x": INT, "y": INT})
        found = bind_variables(_around(random, _part(random, 2), _part(random, 1)), table, findings)
        if not findings.has_errors():
            return found


def _around(random: Random, e: Expression, f: Expression) -> Expression:
    shapes = (
        Apply(Op.BETWEEN_EACH, (Apply(Op.NOT, (Apply(Op.HAPPENED, (f,)),)), e)),
        Apply(Op.AND, (Apply(Op.BEFORE, (e,)), Apply(Op.NOT, (Apply(Op.BEFORE, (f,)),)))),
        Apply(Op.AND, (Apply(Op.BEFORE, (e,)), Apply(Op.BEFORE, (f,)))),
        Apply(Op.PRIOR, (e, Primitive("A"), f)),
        Apply(Op.PRIOR, (e, Apply(Op.OR, (Primitive("A"), f)))),
        Apply(Op.RELATIVE, (e, Nth(random.choice((2, 3)), random.random() < 0.5, Apply(Op.OR, (f, ANY))))),
        Apply(Op.SEQUENCE, (e, ANY, random.choice((f, ANY)))),
        Apply(Op.OR, (e, Apply(Op.AND, (Primitive("B"), Apply(Op.BEFORE, (f,)))))),
        Apply(Op.AND, (Nth(2, True, ANY), Apply(Op.RELATIVE, (e, ANY)))),
        Apply(Op.RELATIVE, (e, Apply(Op.RELATIVE_PLUS, (Apply(Op.OR, (Primitive("A"), f)),)))),
        Apply(random.choice(BINARY), (e, f)),
    )
    return random.choice(shapes)


def _part(random: Random, depth: int) -> Expression:
    chance = random.random()
    if depth == 0 or chance < 0.25:
        return _leaf(random)
    if chance < 0.45:
        return Apply(random.choice(UNARY), (_part(random, depth - 1),))
    if chance < 0.55:
        return Nth(random.choice((1, 2)), random.random() < 0.4, _part(random, depth - 1))
    return Apply(random.choice(BINARY), (_part(random, depth - 1), _part(random, depth - 1)))


def _leaf(random: Random) -> Expression:
    chance = random.random()
    if chance < 0.3:
        return random.choice((ANY, Primitive("A"), Primitive("A"), Primitive("B"), Apply(Op.NOT, (Primitive("A"),))))
    x, y = Variable("X", INT), Variable("Y", INT)
    nothing: Binding = Anything()
    bindings = random.choice([(x, nothing), (x, nothing), (nothing, x), (x, y), (x, s.Constant(1, INT)), (y, x)])
    return Primitive("K", bindings, random.choice((None, None, None, *MASKS)))


def history(random: Random, events: int, values: int) -> tuple[Event, ...]:
    found = []
    for seq in range(1, events + 1):
        name = random.choice("AABKKKKKKZZ")
        attributes = {"k": random.randrange(values), "v": random.choice((None, *range(values)))}
        found.append(Event(seq, name, attributes if name == "K" else {}, seq * SECOND, seq * SECOND))
    return tuple(found)


def random_plan(random: Random) -> MatchPlan:
    """Now and then with what keeps every tuple."""
    choice = random.choice((*[Choice.RECENT] * 5, *[Choice.EARLIEST] * 4, Choice.ALL))
    within_us = random.choice((*[None] * 14, 3 * SECOND))
    return plan(
        expression(random), choice, within_us=within_us, partition_by=random.choice(((), (), (), (), ("k",), ("v",)))
    )


def cases(seeds: range) -> Iterator[tuple[int, Random, Detector]]:
    """MATCHes that have a machine, each with its seed and what is still to be drawn."""
    for seed in seeds:
        random = Random(seed)
        try:
            yield seed, random, detector_of(random_plan(random))
        except UNSUPPORTED:
            continue


def found_by(detector: Detector, events: tuple[Event, ...], cuts: list[int]) -> list[Occurrence]:
    """What the kernel finds; the state is saved and loaded at every other cut."""
    state = initial_state(detector, CLASSES)
    found: list[Occurrence] = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(events)], strict=True)):
        state, occurrences = step(detector, state, batch(events[begin:end]), found_class(detector.plan), SECOND)
        found += expected(occurrences)
        if number % 2:
            state = loaded(saved(state, detector, CLASSES), detector, CLASSES)
    return found


def random_cuts(random: Random, events: int) -> list[int]:
    return sorted(random.randrange(events + 1) for _ in range(random.choice((0, 1, 2, 4))))


def agree(seeds: range) -> tuple[int, int]:
    """How many cases have a machine, and how many of them are walked by spans; all agree with the reference."""
    compared = spanned = 0
    for seed, random, detector in cases(seeds):
        events = history(random, random.randrange(1, 9), random.choice((2, 3, 4)))
        cuts = random_cuts(random, len(events))
        try:
            found = found_by(detector, events, cuts)
        except UNSUPPORTED:
            continue
        compared += 1
        spanned += by_spans(detector, groups_of(detector, CLASSES))
        assert found == detect(detector.plan, events), (seed, cuts, detector.plan)
    return compared, spanned


@pytest.mark.parametrize("start", range(0, 2_000, CHUNK))
def test_columns_agree_with_the_reference(start: int) -> None:
    compared, spanned = agree(range(start, start + CHUNK))
    assert compared > 0.9 * CHUNK
    assert spanned > 0.4 * CHUNK


@pytest.mark.soak
def test_columns_agree_with_the_reference_on_many() -> None:
    many = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // 20
    for start in range(2_000, 2_000 + many, CHUNK):
        agree(range(start, start + CHUNK))


def agree_on_long_ones(seeds: range, patch: pytest.MonkeyPatch) -> int:
    """How many of the cases are walked by spans; those find what walking row by row finds."""
    compared = 0
    for seed, random, detector in cases(seeds):
        if not by_spans(detector, groups_of(detector, CLASSES)):
            continue
        events = history(random, random.choice((20, 60, 150)), random.choice((2, 5, 20)))
        cuts = random_cuts(random, len(events))
        found = found_by(detector, events, cuts)
        with patch.context() as row_by_row:
            row_by_row.setitem(step.__globals__, "by_spans", lambda *_: False)
            wanted = found_by(detector, events, cuts)
        assert found == wanted, (seed, cuts, detector.plan)
        compared += 1
    return compared


@pytest.mark.parametrize("start", range(10_000, 11_000, CHUNK))
def test_long_histories_are_as_row_by_row(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agree_on_long_ones(range(start, start + CHUNK), monkeypatch) > 0.4 * CHUNK


def test_a_batch_that_is_read_in_parts_is_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, random, detector in cases(range(20_000, 20_000 + CHUNK)):
        events = history(random, 40, 5)
        try:
            whole = found_by(detector, events, [])
        except UNSUPPORTED:
            continue
        with monkeypatch.context() as in_parts:
            in_parts.setitem(step.__globals__, "_rows_at_once", lambda *_: 7)
            assert found_by(detector, events, []) == whole, (seed, detector.plan)


# ---- by hand -------------------------------------------------------------------------------------

PROGRAM = compile(
    "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (-1);\n"
    "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (-1);\n"
    "CREATE COMPLEX EVENT CLASS Open (X INT) ID () AS MATCH !happened(K(X, 2)) /+ K(X, 1);\n"
    "CREATE COMPLEX EVENT CLASS Reset (X INT) ID () AS MATCH prior(K(X, 1), A, K(X, 2));\n"
    "CREATE COMPLEX EVENT CLASS Linked (X INT) ID () AS MATCH prior(K(X, _), any) AND prior(K(_, X), any);"
)


def detector_for(name: str) -> Detector:
    found = PROGRAM.class_plan(name)
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    return detector_of(found.derivation)


def events_of(text: str) -> tuple[Event, ...]:
    """`K12 A Z`: a K with k = 1 and v = 2, an A, a Z."""
    found = []
    for seq, word in enumerate(text.split(), 1):
        values = {"k": int(word[1]), "v": int(word[2])} if word[0] == "K" else {}
        found.append(Event(seq, word[0], values, seq * SECOND, seq * SECOND))
    return tuple(found)


def shown(found: list[Occurrence]) -> list[tuple[int, object, tuple[int, ...]]]:
    return [(o.seq, o.values["X"], o.constituents) for o in found]


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6]])
def test_what_no_event_of_a_batch_names_is_still_reported(cuts: list[int]) -> None:
    detector = detector_for("Open")
    found = found_by(detector, events_of("K11 K21 Z K22 Z K12 Z"), cuts)
    # The most recent that is open; a 1 or 2 of another value is an event like any other.
    assert shown(found) == [(2, 1, (1, 2)), (3, 2, (2, 3)), (4, 1, (1, 4)), (5, 1, (1, 5))]


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4]])
def test_an_event_without_a_value_is_read_for_every_value(cuts: list[int]) -> None:
    detector = detector_for("Reset")
    found = found_by(detector, events_of("K11 K21 A A K31 K12 K32 K22"), cuts)
    assert shown(found) == [(6, 1, (1, 4, 6)), (8, 2, (2, 4, 8))]


@pytest.mark.parametrize("cuts", [[], [2], [1, 2, 3]])
def test_of_tuples_with_the_same_events_the_least_value_counts(cuts: list[int]) -> None:
    detector = detector_for("Linked")
    assert shown(found_by(detector, events_of("K21 K12 Z Z"), cuts)) == [(3, 1, (1, 2, 3)), (4, 1, (1, 2, 4))]


@pytest.mark.parametrize("name", ["Open", "Reset"])
def test_rows_are_not_multiplied_by_values(name: str) -> None:
    detector = detector_for(name)
    groups = groups_of(detector, CLASSES)
    assert by_spans(detector, groups)
    read = []
    for values in (10, 1_000):
        random = Random(7)
        events = [
            Event(i, "K", {"k": random.randrange(values), "v": random.choice((1, 2))}, i * SECOND, i * SECOND)
            if i % 10
            else Event(i, "A", {}, i * SECOND, i * SECOND)
            for i in range(1, 2_001)
        ]
        versions = batch(events)
        state = initial_state(detector, CLASSES)
        rows = Rows(versions, np.arange(len(versions)), np.zeros(0, np.int64))
        true = [truth_of(leaf, rows, {}).rows for leaf in detector.alphabet.leaves]
        read.append(len(touched(detector, rows, groups, true, state.streams, spans=True).row))
    assert read == [1_800, 1_800]

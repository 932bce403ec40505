"""Values that no one automaton tells apart: variables that a negation binds in several places, and equal values under
a prefix. The kernel against the reference."""

from __future__ import annotations

import os

import pytest

from augury import limits
from augury.algebra.expression import MatchPlan
from augury.api import check, compile
from augury.automata.kinds import TooManyKinds
from augury.automata.runs import TooManyRuns
from augury.event import EventClass
from augury.kernels.match import TooManyTuples, detector_of, initial_state, step
from augury.kernels.match.saved import loaded, saved
from augury.kernels.match.why import why
from augury.kernels.match.why_not import why_not
from augury.kernels.reference import Event, Occurrence, detect
from tests.match.columns import CLASSES, batch, detected, expected, found_class
from tests.match.generate import SECOND, Wanted, pair, plan
from tests.match.test_kernel import random_case

INNER = Wanted(depth=3, inner=8)
EQUAL = Wanted(depth=3, prefix=8, keyed=True, exists=False)
CHUNK = 500
CLASS_TEXT = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (-1);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B () ID () LIFESPAN (-1);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (-1);
"""


def class_plan(match: str, attributes: str = "") -> tuple[MatchPlan, EventClass]:
    found = compile(f"{CLASS_TEXT}CREATE COMPLEX EVENT CLASS T ({attributes}) ID () AS MATCH {match};").class_plan("T")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    return found.derivation, found.event_class


def keyed(*values: tuple[int | None, int | None] | str) -> list[Event]:
    """Events of K with these values, or of the class that a letter names."""
    return [
        Event(i, value, {}, i * SECOND, i * SECOND)
        if isinstance(value, str)
        else Event(i, "K", {"k": value[0], "v": value[1]}, i * SECOND, i * SECOND)
        for i, value in enumerate(values, 1)
    ]


def agree(seeds: range, wanted: Wanted) -> tuple[int, int]:
    """How many cases told values apart and agree with the reference, and how many were past a limit."""
    compared = past = 0
    for seed in seeds:
        match, events, cuts = random_case(seed, wanted)
        detector = detector_of(match)
        if not detector.says and not detector.kinds:
            continue
        try:
            found = detected(match, events, cuts)
        except (TooManyRuns, TooManyTuples):
            past += 1
            continue
        compared += 1
        assert found == detect(match, events), (seed, cuts, match)
    return compared, past


@pytest.mark.parametrize("start", range(0, 3 * CHUNK, CHUNK))
def test_open_variables_agree_with_the_reference(start: int) -> None:
    compared, past = agree(range(start, start + CHUNK), INNER)
    assert compared >= 10
    assert past <= 2


@pytest.mark.parametrize("start", range(0, CHUNK, CHUNK))
def test_equal_values_under_a_prefix_agree_with_the_reference(start: int) -> None:
    compared, past = agree(range(start, start + CHUNK), EQUAL)
    assert compared >= 30
    assert past <= 2


@pytest.mark.soak
def test_values_agree_with_the_reference_on_many() -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // 50
    compared = 0
    for start in range(4 * CHUNK, 4 * CHUNK + cases, CHUNK):
        for wanted in (INNER, EQUAL):
            compared += agree(range(start, start + CHUNK), wanted)[0]
    assert compared > cases // 50


@pytest.mark.parametrize("wanted", [INNER, EQUAL], ids=["open", "equal"])
def test_a_state_with_values_goes_on_where_it_was_saved(wanted: Wanted) -> None:
    compared = 0
    for seed in range(10_000, 10_250):
        match, events, cuts = random_case(seed, wanted)
        detector = detector_of(match)
        if not detector.says and not detector.kinds:
            continue
        state = initial_state(detector, CLASSES)
        found: list[Occurrence] = []
        try:
            for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(events)], strict=True):
                state, occurrences = step(detector, state, batch(events[begin:end]), found_class(match), SECOND)
                found += expected(occurrences)
                state = loaded(saved(state, detector, CLASSES), detector_of(match), CLASSES)
        except (TooManyRuns, TooManyTuples):
            continue
        compared += 1
        assert found == detect(match, events), (seed, cuts, match)
    assert compared >= 6


def test_no_value_may_have_been_both_since_the_last_a() -> None:
    match, into = class_plan("A AND !relative(A, !prior(K(X, 0), K(X, 1)))")
    assert detector_of(match).says
    match, into = class_plan("relative(A, B AND !prior(K(X, 0), K(X, 1), any))")
    events = keyed((1, 0), "A", (1, 1), "B", (2, 0), (1, 0), "B", (2, 1), "B", "A", (1, 1), "B")
    assert [o.seq for o in detected(match, events, [3, 8], into=into)] == [4, 7, 12]


def test_a_prefix_knows_which_values_are_equal() -> None:
    match, into = class_plan("K(X, Y) AND prefix(K(X, _) AND K(Y, _))", "X INT, Y INT")
    assert len(detector_of(match).kinds) == 2
    events = keyed((1, 2), (3, 3), (2, 1), (None, None))
    assert [o.seq for o in detected(match, events, [1], into=into)] == [2, 4]


def test_a_value_that_only_a_constant_has_is_one_of_its_own() -> None:
    match, into = class_plan("<2> K(X, _) AND prefix(relative(K(X, _), K(1, _)) AND !K(1, _))", "X INT")
    events = keyed((2, 0), (1, 0), (2, 0), (1, 0))
    assert detected(match, events, [2], into=into) == detect(match, events)


def test_too_many_ways_to_be_equal_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    match, _ = class_plan("K(X, Y) AND prefix(K(X, _) AND K(Y, _))", "X INT, Y INT")
    monkeypatch.setattr(limits, "KINDS_OF_VALUES_MAX", 1)
    with pytest.raises(TooManyKinds):
        detector_of(match)


@pytest.mark.parametrize(
    "match", ["prefix(!prior(K(X, 0), K(X, 1)))", "relative(A, !prior(K(X, 0), prefix(K(X, 1) AND K(1, X))))"]
)
def test_what_nobody_can_decide_is_an_error(match: str) -> None:
    result = check(f"{CLASS_TEXT}CREATE COMPLEX EVENT CLASS T () ID () AS MATCH {match};")
    assert [d.code for d in result.diagnostics if d.code.startswith("E")] == ["E314"]


@pytest.mark.parametrize("wanted", [INNER, EQUAL], ids=["open", "equal"])
def test_why_and_why_not_tell_values_apart(wanted: Wanted) -> None:
    asked = told = 0
    for seed in range(500):
        expression, events = pair(seed, wanted, events=6)
        match = plan(expression)
        detector = detector_of(match)
        if not detector.says and not detector.kinds:
            continue
        occurrences = {o.seq: o for o in detect(match, events)}
        for event in events:
            asked += 1
            found = why_not(match, batch(events), event.seq)
            assert found.took_place == (event.seq in occurrences), (seed, event.seq)
            assert found.sentence
            if found.took_place:
                told += 1
                occurrence = occurrences[event.seq]
                known = why(match, batch(events), event.seq, occurrence.constituents, occurrence.values)
                assert tuple(known.constituents) == occurrence.constituents, (seed, event.seq)
    assert asked > 60
    assert told > 12

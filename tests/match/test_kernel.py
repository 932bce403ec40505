"""The kernel over columns against the reference: the corpus, random expressions, any cut, states saved and loaded."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from augury import limits
from augury.algebra import scalar as s
from augury.algebra.expression import Aggregate, Choice, Expression, Feed, MatchPlan, Primitive, Some, walk
from augury.algebra.operators import Operator
from augury.api import compile
from augury.automata.runs import TooManyRuns
from augury.event import EventClass
from augury.kernels.match import Detector, TooManyTuples, detector_of, initial_state, step
from augury.kernels.match.saved import loaded, saved
from augury.kernels.match.state import MatchState
from augury.kernels.reference import Event, Occurrence, detect
from augury.kernels.sealed import UnfitState
from augury.types import BIGINT, INT
from tests.match.columns import CLASSES, batch, detected, expected, found_class
from tests.match.generate import SECOND, Wanted, pair, plan
from tests.match.test_reference import CASES, Case, events_of, lifespans_of, plan_of

UNSUPPORTED = (TooManyRuns, TooManyTuples)
CHUNK = 500


# ---- the corpus ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_corpus_holds_for_columns(case: Case) -> None:
    match, classes = plan_of(case)
    lifespans = lifespans_of(case)
    subscribed = tuple(replace(c, lifespan_us=lifespans.get(c.name)) for c in classes.values() if c.name != "Found")
    found = detected(match, events_of(case["history"], classes), classes=subscribed, into=classes["found"])
    assert [occurrence.seq for occurrence in found] == case["takes_place_at"]
    if "constituents" in case:
        assert [list(occurrence.constituents) for occurrence in found] == case["constituents"]
    if "values" in case:
        wanted = [[None if value == "NULL" else value for value in row] for row in case["values"]]
        assert [list(occurrence.values.values()) for occurrence in found] == wanted


# ---- random cases --------------------------------------------------------------------------------


def random_case(seed: int, wanted: Wanted) -> tuple[MatchPlan, tuple[Event, ...], list[int]]:
    """A MATCH with random clauses, a history, and where it is cut."""
    random = Random(seed)
    expression, events = pair(seed, wanted, events=7)
    match = plan(
        expression,
        random.choice(list(Choice)),
        where=random_where(random, expression),
        within_us=random.choice([None, None, 2 * SECOND]),
        partition_by=random.choice([(), (), ("k",)]),
    )
    match = replace(match, feeds=(*match.feeds, *random_feeds(random, expression)))
    return match, events, [random.randrange(len(events) + 1) for _ in range(random.choice([0, 1, 2]))]


V = s.Field("K", "v", INT)
"""An attribute of the latest K among the constituents."""


def random_where(random: Random, expression: Expression) -> s.Scalar | None:
    """A comparison of a variable or of a constituent's attribute, now and then."""
    operands = [s.Field("", v.name, v.type) for v in (expression.variables if isinstance(expression, Some) else ())]
    operands += [V] if names_k(expression) else []
    if not operands or random.random() < 0.6:
        return None
    found = s.apply(random.choice((Operator.GE, Operator.NE)), (random.choice(operands), s.Constant(1, INT)))
    assert isinstance(found, s.Apply)
    return found


def random_feeds(random: Random, expression: Expression) -> tuple[Feed, ...]:
    """An attribute of a constituent, or aggregates over all tuples."""
    if not names_k(expression):
        return ()
    count, most = Aggregate("COUNT", None, BIGINT), Aggregate(random.choice(("MAX", "MIN", "SUM", "COUNT")), V, BIGINT)
    return random.choice([(), (), (Feed("last", V),), (Feed("n", count), Feed("m", most))])


def names_k(expression: Expression) -> bool:
    return any(isinstance(node, Primitive) and node.event_class == "K" for node in walk(expression))


def agree(seeds: range, wanted: Wanted) -> int:
    """How many of the cases have a machine; all of those agree with the reference."""
    compared = 0
    for seed in seeds:
        match, events, cuts = random_case(seed, wanted)
        lifespan_us = None if seed % 3 else 2 * SECOND
        lifespans = {} if lifespan_us is None else {c.name: lifespan_us for c in CLASSES}
        try:
            found = detected(match, events, cuts, tuple(replace(c, lifespan_us=lifespan_us) for c in CLASSES))
        except UNSUPPORTED:
            continue
        compared += 1
        assert found == detect(match, events, lifespans), (seed, cuts, match)
    return compared


@pytest.mark.parametrize("start", range(0, 4_000, CHUNK))
def test_columns_agree_with_the_reference(start: int) -> None:
    attributes = start // CHUNK % 2 == 0
    compared = agree(range(start, start + CHUNK), Wanted(depth=3, attributes=attributes))
    assert compared > (0.95 if attributes else 0.99) * CHUNK


@pytest.mark.soak
def test_columns_agree_with_the_reference_on_many() -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // 10
    for start in range(4_000, 4_000 + cases, CHUNK):
        # Deeper ones have more tuples than the reference can list in a lifetime.
        agree(range(start, start + CHUNK), Wanted(depth=3, attributes=start // CHUNK % 2 == 0))


def supported_case(seed: int, wanted: Wanted) -> tuple[MatchPlan, tuple[Event, ...], list[int], Detector]:
    """The first case from a seed on that has a machine."""
    while True:
        match, events, cuts = random_case(seed, wanted)
        try:
            return match, events, cuts, detector_of(match)
        except UNSUPPORTED:
            seed += 1_000


@pytest.mark.parametrize("seed", range(60))
def test_a_state_goes_on_where_it_was_saved(seed: int) -> None:
    match, events, cuts, detector = supported_case(seed, Wanted(depth=3, attributes=seed % 3 > 0))
    state = initial_state(detector, CLASSES)
    found: list[Occurrence] = []
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(events)], strict=True):
        state, occurrences = step(detector, state, batch(events[begin:end]), found_class(match), SECOND)
        found += expected(occurrences)
        state = loaded(saved(state, detector, CLASSES), detector_of(match), CLASSES)
    assert found == detect(match, events)


def test_a_value_is_taken_from_its_own_place_beside_a_part_that_is_detected_by_itself() -> None:
    found = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (-1);\n"
        "CREATE COMPLEX EVENT CLASS T (V INT) ID () AS MATCH !prior(K(I, 0), K(I, 1)) AND K(_, V);"
    ).class_plan("T")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    values = [(1, 0), (2, 1), (1, 2), (1, 1), (2, 0)]
    events = [Event(i, "K", {"k": k, "v": v}, i * SECOND, i * SECOND) for i, (k, v) in enumerate(values, 1)]
    assert [(o.seq, o.values["V"]) for o in detected(found.derivation, events)] == [(1, 0), (2, 1), (3, 2), (5, 0)]


# ---- states --------------------------------------------------------------------------------------

A, B, K = CLASSES[:3]
PRIOR = compile(
    "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (-1);\n"
    "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (-1);\n"
    "CREATE COMPLEX EVENT CLASS T (X INT, earlier INT) ID () AS MATCH prior(K(X, earlier), K(X, _)[v > 1]);\n"
    "CREATE COMPLEX EVENT CLASS U () ID () AS MATCH prior(A, A);"
)


def class_plan(name: str) -> tuple[MatchPlan, EventClass]:
    found = PRIOR.class_plan(name)
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    return found.derivation, found.event_class


def some_state() -> tuple[bytes, MatchState]:
    match, into = class_plan("T")
    detector = detector_of(match)
    events = [Event(i, "K", {"k": i % 3, "v": i % 4}, i * SECOND, i * SECOND) for i in range(1, 20)]
    state, _ = step(detector, initial_state(detector, CLASSES), batch(events), into, SECOND)
    return saved(state, detector, CLASSES), state


def test_a_state_that_is_damaged_or_of_another_expression_is_refused() -> None:
    data, _ = some_state()
    detector = detector_of(class_plan("T")[0])
    for bad, why in [
        (data[:-3] + b"xyz", "checksum"),
        (data[:-1], "checksum"),
        (data.replace(b'"nodes": ', b'"nodes":1', 1), "checksum"),
        (b"something else", "no state"),
        (data.replace(b'"format": 3', b'"format": 9', 1), "format 9"),
    ]:
        with pytest.raises(UnfitState, match=why):
            loaded(bad, detector, CLASSES)
    with pytest.raises(UnfitState, match="another expression"):
        loaded(data, detector_of(class_plan("U")[0]), CLASSES)


def test_a_state_keeps_its_meaning_when_classes_are_added_before_and_renamed() -> None:
    data, before = some_state()
    detector = detector_of(class_plan("T")[0])
    more = (replace(B, name="New"), *CLASSES)
    state = loaded(data, detector, more)
    assert len(state.events) == len(before.events)
    assert {more[code].name for code in state.events.code} == {"K"}


def test_fingerprints_tell_machines_apart_and_not_spellings() -> None:
    def fingerprint(classes: str, match: str) -> str:
        program = compile(f"{classes} CREATE COMPLEX EVENT CLASS T (X INT) ID () AS MATCH {match};")
        found = program.class_plan("T")
        assert found is not None
        assert isinstance(found.derivation, MatchPlan)
        return detector_of(found.derivation).fingerprint()

    one = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (-1);"
    other = one.replace("CLASS K", "CLASS Renamed")
    assert fingerprint(one, "prior(K(X, _), K(X, _))") == fingerprint(
        other, "relative(Renamed(X, _), any) AND Renamed(X, _)"
    )
    assert fingerprint(one, "prior(K(X, _), K(X, _))") != fingerprint(one, "sequence(K(X, _), K(X, _))")
    assert fingerprint(one, "prior(K(X, _), K(X, _))") != fingerprint(one, "prior(K(X, _), K(X, _)) WITHIN 5s")


def test_what_no_run_needs_is_forgotten() -> None:
    match, into = class_plan("T")
    detector = detector_of(match)
    state = initial_state(detector, CLASSES)
    for i in range(1, 400):
        event = Event(i, "K", {"k": i % 3, "v": 2}, i * SECOND, i * SECOND)
        state, found = step(detector, state, batch([event]), into, SECOND)
        assert len(found) == (i > 3)
    assert len(state.events) == 3
    assert state.nodes.count <= 1 + 3


@pytest.mark.parametrize("match", ["prior(K(X, _), K(X, 1)) WITHIN 5s", "prior(K(X, Q), K(X, 1)) WHERE Q > 0"])
def test_what_has_expired_is_forgotten_though_nothing_touches_it(match: str) -> None:
    found = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (9s);\n"
        f"CREATE COMPLEX EVENT CLASS T (X INT) ID () AS MATCH {match};"
    ).class_plan("T")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    classes = tuple(replace(c, lifespan_us=9 * SECOND) for c in CLASSES)
    detector = detector_of(found.derivation)
    state = initial_state(detector, classes)
    for i in range(1, 100):
        event = Event(i, "K", {"k": i, "v": 2}, i * SECOND, i * SECOND)
        state, _ = step(detector, state, batch([event], classes), found.event_class, SECOND)
        assert len(state.events) <= 10
    state, _ = step(detector, state, batch([], classes), found.event_class, SECOND, until_us=200 * SECOND)
    assert len(state.events) == 0


def test_memory_per_key_is_small() -> None:
    match, into = class_plan("T")
    detector = detector_of(match)
    keys = 1_000
    events = [Event(i, "K", {"k": i % keys, "v": 0}, i * SECOND, i * SECOND) for i in range(1, 4 * keys)]
    state, _ = step(detector, initial_state(detector, CLASSES), batch(events), into, SECOND)
    arrays = (state.at, state.last, state.heads, state.streams.partition, state.streams.bound)
    per_key = sum(array.nbytes for array in arrays) / keys
    assert per_key <= 64


# ---- past the limits -----------------------------------------------------------------------------


def program(match: str) -> tuple[MatchPlan, EventClass]:
    classes = "".join(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {c} () ID () LIFESPAN (1d);\n" for c in "AB")
    found = compile(f"{classes}CREATE COMPLEX EVENT CLASS T () ID () AS MATCH {match};").class_plan("T")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    return found.derivation, found.event_class


def letters(count: int, seed: int) -> list[Event]:
    random = Random(seed)
    return [Event(i, random.choice("AB"), {}, i * SECOND, i * SECOND) for i in range(1, count)]


def test_relative_of_the_fourteenth_is_simulated_by_sets_of_states() -> None:
    match, into = program("relative(A, <14> B)")
    detector = detector_of(match)
    assert detector.tables is not None
    assert len(detector.tables.delta) == 0
    events = letters(60, 1)
    assert detected(match, events, [7, 31], into=into) == detect(match, events)


@pytest.mark.parametrize("match", ["!relative(A, <14> B)", "prior(A, !relative(A, <13> B))"])
def test_a_machine_without_tables_is_stepped_through(match: str) -> None:
    found, into = program(match)
    detector = detector_of(found)
    assert detector.tables is None
    events = letters(30, 2)
    assert detected(found, events, [11], into=into) == detect(found, events)
    state = initial_state(detector, CLASSES)
    state, _ = step(detector, state, batch(events[:11]), into, SECOND)
    state = loaded(saved(state, detector, CLASSES), detector, CLASSES)
    _, later = step(detector, state, batch(events[11:]), into, SECOND)
    assert expected(later) == [o for o in detect(found, events) if o.seq > 11]


def test_all_without_a_bound_meets_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TUPLES_MAX", 50)
    match, into = program("relative+(A) COLLECT ALL")
    with pytest.raises(TooManyTuples):
        detected(match, [Event(i, "A", {}, i * SECOND, i * SECOND) for i in range(1, 12)], into=into)


def test_gaps_of_any_length_are_one_step() -> None:
    """A stream that sees two of a million events is as if it had seen them all."""
    match, into = program("sequence(A, B)")
    events = [Event(1, "A", {}, 0, 0), *(Event(i, "Z", {}, 0, 0) for i in range(2, 2_000)), Event(2_000, "B", {}, 0, 0)]
    assert detected(match, events, into=into) == []
    assert [o.seq for o in detected(match, [events[0], events[-1]], into=into)] == [2_000]
    detector = detector_of(match)
    whole = np.array([1, 1_000_001], np.int64)
    two = batch([events[0], events[-1]])
    _, found = step(detector, initial_state(detector, CLASSES), two, into, SECOND, position=whole)
    assert len(found) == 0

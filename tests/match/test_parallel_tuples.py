"""One history in chunks, with constituents: any cut gives every column that one step gives."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from augury.algebra.expression import Apply, Choice, Feed, MatchOperator, MatchPlan, Nth, Primitive
from augury.api import compile
from augury.engine.keys import counts
from augury.kernels.batch import Batch, Integers, Occurrences, joined
from augury.kernels.match import Detector, MatchState, detector_of, initial_state, step
from augury.kernels.match.chunks import passage_of, states_before, why_in_one
from augury.kernels.match.leaves import code_of
from augury.kernels.reference import Event
from tests.match.columns import CLASSES, batch, found_class
from tests.match.generate import Wanted, expression, history, plan
from tests.match.test_kernel import UNSUPPORTED, V, names_k

CHUNK = 400


def in_chunks(detector: Detector, whole: Batch, cuts: Sequence[int], position: Integers | None = None) -> Occurrences:
    """Chunk, compose, emit, each by itself and as bytes; the states between are those that steps end in."""
    into = found_class(detector.plan)
    spans = list(pairwise([0, *sorted(cuts), len(whole)]))
    chunks = [(whole.part(begin, end), None if position is None else position[begin:end]) for begin, end in spans]
    passages = [pickle.dumps(passage_of(detector, part, position=at)) for part, at in chunks]
    states = [pickle.dumps(state) for state in states_before(detector, whole.classes, map(pickle.loads, passages))]
    found = []
    for (part, at), (state, after) in zip(chunks, pairwise(states), strict=True):
        end, occurrences = step(detector, pickle.loads(state), part, into, 1_000_000, position=at)
        assert told_of(end) == told_of(pickle.loads(after))
        found.append(occurrences)
    return joined(found)


def told_of(state: MatchState) -> object:
    """Where a state is, and the events of its tuples; nodes and events may be numbered in another way."""
    nodes, events = state.nodes, state.events
    tuples = []
    for head in state.heads.ravel().tolist():
        chain = []
        while head > 0:
            chain.append((int(events.seq[nodes.ref[head]]), int(nodes.marks[head]), int(nodes.length[head])))
            head = int(nodes.prev[head])
        tuples.append((head, chain))
    return state.at.tolist(), state.last.tolist(), tuples


def same(one: Occurrences, other: Occurrences) -> bool:
    columns = ("seq", "occ_time", "det_time", "kind")
    alike = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
    lists = one.constituents.to_pylist() == other.constituents.to_pylist()
    return alike and lists and one.values.equals(other.values) and one.errors == other.errors


def random_match(random: Random, wanted: Wanted) -> MatchPlan:
    found = expression(random, wanted)
    match = plan(found, random.choice((Choice.RECENT, Choice.EARLIEST)))
    tells = names_k(found) and random.random() < 0.7
    return replace(match, feeds=(*match.feeds, *([Feed("last", V)] if tells else [])))


def agree(seeds: range, wanted: Wanted, lengths: Sequence[int]) -> tuple[int, int, int]:
    """How many have a machine, how many of those may be cut, and how many complex events these have."""
    machines, cut, found_in_all = 0, 0, 0
    for seed in seeds:
        random = Random(seed)
        match = random_match(random, wanted)
        events = history(random, random.choice(lengths))
        try:
            detector = detector_of(match)
        except UNSUPPORTED:
            continue
        machines += 1
        if why_in_one(detector):
            continue
        cut += 1
        whole = batch(events)
        cuts = [random.randint(0, len(events)) for _ in range(random.choice((0, 1, 2, 3, 6)))]
        _, in_one = step(detector, initial_state(detector, CLASSES), whole, found_class(match), 1_000_000)
        found = in_chunks(detector, whole, cuts)
        assert same(found, in_one), (seed, cuts, match)
        found_in_all += len(found)
    return machines, cut, found_in_all


@pytest.mark.parametrize("start", range(0, 2_400, CHUNK))
def test_any_cut_gives_all_that_one_step_gives(start: int) -> None:
    attributes = start // CHUNK % 3 == 2
    wanted = Wanted(depth=3, attributes=attributes, previous=False)
    machines, cut, found = agree(range(start, start + CHUNK), wanted, (0, 1, 3, 9, 14, 14, 14))
    # The others have a variable that stands in several places, and so a history for each value.
    assert cut > (0.75 if attributes else 0.97) * machines
    assert found > 2 * cut


def test_long_chunks_where_starts_have_met_or_are_beaten() -> None:
    _, cut, found = agree(range(5_000, 5_150), Wanted(depth=3, attributes=False), (200, 300, 500))
    assert cut > 120
    assert found > 20 * cut


@pytest.mark.soak
def test_any_cut_gives_the_same_on_many() -> None:
    cases = int(os.environ.get("AUGURY_SOAK_CASES", "1000000")) // 20
    for start in range(10_000, 10_000 + cases, CHUNK):
        wanted = Wanted(depth=3 + start // CHUNK % 2, attributes=start // CHUNK % 3 == 2, previous=False)
        agree(range(start, start + CHUNK), wanted, (3, 9, 14, 14, 14, 150))


def test_rows_that_matter_will_do_where_positions_are_counted() -> None:
    """As a cluster sends them: only rows of classes that the expression names, each with its place."""
    compared, chosen = 0, Wanted(depth=2, attributes=False, start=False)
    for seed in range(1_500):
        random = Random(seed)
        match = random_match(random, chosen)
        detector = detector_of(match)
        if not counts(detector) or why_in_one(detector):
            continue
        whole = batch(history(random, 30))
        named = [code_of(CLASSES, leaf.event_class) for leaf in detector.alphabet.leaves]
        at = np.flatnonzero(np.isin(whole.code, named))
        cuts = [random.randint(0, len(at)) for _ in range(random.choice((1, 2, 5)))]
        _, in_one = step(detector, initial_state(detector, CLASSES), whole, found_class(match), 1_000_000)
        found = in_chunks(detector, whole.at(at), cuts, at + 1)
        assert same(found, in_one), (seed, cuts, match)
        compared += len(at) < len(whole) and len(found) > 0
    assert compared > 100


def test_without_an_automaton_the_sets_of_states_themselves_go_from_chunk_to_chunk() -> None:
    """`relative(A, <14> B)` has too many sets of states to number."""
    fourteenth = Apply(MatchOperator.RELATIVE, (Primitive("A"), Nth(14, False, Primitive("B"))))
    for choice in (Choice.RECENT, Choice.EARLIEST):
        detector = detector_of(plan(fourteenth, choice))
        assert detector.tables is not None
        assert not detector.tables.delta.size
        assert not why_in_one(detector)
        whole = batch(history(Random(7), 300))
        into = found_class(detector.plan)
        _, in_one = step(detector, initial_state(detector, CLASSES), whole, into, 1_000_000)
        found = in_chunks(detector, whole, [50, 51, 170])
        assert same(found, in_one)
        assert len(found) > 40


def test_recent_looks_at_the_last_part_first_and_earliest_at_the_first() -> None:
    """Two runs meet in one state, one that began earlier and one that came later."""
    named = {Choice.RECENT: [5, 7], Choice.EARLIEST: [1, 7]}
    events = [Event(n, "A" if n in (1, 5) else "Z" if n < 7 else "B", {}, n, n) for n in range(1, 8)]
    later = Apply(MatchOperator.PRIOR, (Primitive("A"), Primitive("B")))
    for choice, wanted in named.items():
        for cut in range(8):
            found = in_chunks(detector_of(plan(later, choice)), batch(events), [cut])
            assert found.constituents.to_pylist() == [wanted]


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        ("prior(K(X, _), K(X, _))", "it has a history for each value"),
        ("sequence(A, B) PARTITION BY k", "it has a history for each value"),
        ("prior(A, K(_, v)) WHERE v > 1", "WHERE looks at every tuple"),
        ("prior(A, B) WITHIN 2s", "WITHIN looks at every tuple"),
        ("prior(A, B) COLLECT ALL", "every tuple is collected"),
        ("prior(A, B) COLLECT COUNT(*) AS n", "every tuple is collected"),
        ("prior(A, K[v > PREV(v)])", "PREV looks back"),
        ("prior(A, <70> B)", "it has 140 states of runs, more than 64"),
        ("prior(K(X, _)[v > 1], B)", ""),
        ("sequence(A, B, K) COLLECT EARLIEST", ""),
    ],
)
def test_what_cannot_be_cut_says_why(match: str, reason: str) -> None:
    program = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS K (k INT, v INT) ID () LIFESPAN (1d);\n"
        f"CREATE COMPLEX EVENT CLASS C (n BIGINT) ID () AS MATCH {match};"
    )
    derivation = program.classes[-1].derivation
    assert isinstance(derivation, MatchPlan)
    assert why_in_one(detector_of(derivation)) == reason

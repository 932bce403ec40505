"""Loops run as they are and compiled: the same occurrences, the same states, whichever way they are run.

Every loop of the source has to come up in the cases here, so that a new one brings its own.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from augury.algebra.composite import Context
from augury.algebra.expression import Choice, MatchPlan
from augury.api import compile
from augury.history.buckets import buckets_of
from augury.history.versions import Rows, judge
from augury.kernels.compiled import I8, Loop, allowing, loop, part, takes
from augury.kernels.composite.flat.layout import TOP
from augury.kernels.match import Detector, detector_of, initial_state, step
from augury.kernels.match.chunks import why_in_one
from augury.kernels.match.parallel import even_cuts, moves_of_runs, walk_in_chunks
from augury.kernels.match.saved import saved
from augury.kernels.match.state import MatchState
from augury.kernels.reference import Event
from tests.composite.columns import CLASSES as COMPOSITE_CLASSES
from tests.composite.test_flat import A_THEN_B, after, flat_case, plan_for
from tests.composite.test_kernel import kernel
from tests.match import test_listening as listening
from tests.match.columns import CLASSES, batch, expected, found_class
from tests.match.generate import SECOND, Wanted, history, plan
from tests.match.test_kernel import UNSUPPORTED, random_case
from tests.match.test_parallel_tuples import in_chunks, random_match

PLAIN, COMPILED = math.inf, -1
Case = Callable[[], list[Any]]


# ---- cases -------------------------------------------------------------------------------------------------------


def matches() -> list[Any]:
    """Random expressions over histories that are cut, with lifespans, WHERE, WITHIN, partitions and every choice."""
    found: list[Any] = []
    for seed in range(90, 170):
        match, events, cuts = random_case(seed, Wanted(depth=3, attributes=seed % 2 == 0))
        classes = tuple(replace(c, lifespan_us=None if seed % 3 else 2 * SECOND) for c in CLASSES)
        try:
            found += stepped(match, detector_of(match), events, cuts, classes)
        except UNSUPPORTED:
            continue
    return found


def stepped(match: MatchPlan, detector: Detector, events: Any, cuts: list[int], classes: Any = CLASSES) -> list[Any]:
    """The occurrences of each batch, and the state after it as bytes."""
    found: list[Any] = []
    state = initial_state(detector, classes)
    for begin, end in pairwise([0, *sorted(cuts), len(events)]):
        given = batch(events[begin:end], classes)
        state, occurrences = step(detector, state, given, found_class(match), SECOND)
        _clear_unused(state)
        found += [expected(occurrences), saved(state, detector, classes)]
    return found


def _clear_unused(state: MatchState) -> None:
    """What stands in slots that no run uses is whatever was there."""
    runs, slot = state.runs, state.runs.free
    while slot >= 0:
        for column in (runs.state, runs.head, runs.least, runs.most, runs.until):
            column[slot] = 0
        slot = int(runs.follows[slot])


def long_histories() -> list[Any]:
    """More rows than the walk takes at a time, so that nodes are let go and arrays grow."""
    found: list[Any] = []
    for seed in range(2):
        random = Random(seed)
        match = random_match(random, Wanted(depth=3, attributes=False))
        found += stepped(match, detector_of(match), history(random, 1_500), [700])
    return found


def large_automata() -> list[Any]:
    """An automaton of too many states: the walk goes by sets of states."""
    program = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (-1);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B () ID () LIFESPAN (-1);\n"
        "CREATE COMPLEX EVENT CLASS T () ID () AS MATCH relative(A, <18> B);"
    )
    found = program.class_plan("T")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    random = Random(3)
    events = [Event(i, random.choice("AABBBBB"), {}, i * SECOND, i * SECOND) for i in range(1, 80)]
    detector = detector_of(found.derivation)
    assert detector.tables is not None
    assert not len(detector.tables.delta)
    return stepped(found.derivation, detector, events, [30])


def spans() -> list[Any]:
    """Streams that every event moves."""
    found: list[Any] = []
    for seed in range(120):
        random = Random(seed)
        match = plan(listening.expression(random), random.choice((Choice.RECENT, Choice.EARLIEST)))
        events = history(random, random.choice((6, 12, 60)))
        try:
            found += stepped(match, detector_of(match), events, [random.randrange(len(events))])
        except listening.UNSUPPORTED:
            continue
    return found


def ranges() -> list[Any]:
    """One history in chunks, with constituents."""
    found: list[Any] = []
    for seed in range(60):
        random = Random(seed)
        match = random_match(random, Wanted(depth=3, attributes=False, previous=False))
        detector = detector_of(match)
        if not why_in_one(detector):
            events = history(random, random.choice((9, 14, 150)))
            found.append(expected(in_chunks(detector, batch(events), [random.randint(0, len(events)) for _ in "ab"])))
    return found


def positions() -> list[Any]:
    """One history in chunks, positions only."""
    found: list[Any] = []
    for seed in range(30):
        random = Random(seed)
        detector = detector_of(random_match(random, Wanted(depth=3, attributes=False)))
        if detector.tables is not None and detector.tables.delta.size:
            symbols = np.array([random.randrange(detector.tables.symbols) for _ in range(200)], np.int32)
            walked = walk_in_chunks(moves_of_runs(detector.tables), symbols, even_cuts(200, 3))
            found.append((walked.positions.tolist(), walked.end))
    return found


def composites() -> list[Any]:
    """Graphs that run flat, in every context, through bytes half of the time."""
    return [kernel(flat_case(seed, context), seed % 2 == 0) for context in Context for seed in range(30)]


def expiries() -> list[Any]:
    """So many versions that those which have left are let go."""
    found: list[Any] = []
    for context in (Context.CHRONICLE, Context.CUMULATIVE, Context.RECENT):
        state, count = after(plan_for(A_THEN_B, context), ["A" * 600, "A" * 600, "A" * 600, "AB"], 700 * SECOND)
        found.append((count, state.arena[: state.counters[TOP]].shape, len(state.held)))
    return found


def buckets() -> list[Any]:
    """Hashes of texts, which go over the bounds of 64 bits at every letter."""
    texts = pa.array(["", "a", None, "ab", "älter", "🦆" * 50, "a" * 500])
    return [buckets_of([texts], 1 << 40).tolist(), buckets_of([texts, texts.slice(0)], 7).tolist()]


def judgements() -> list[Any]:
    """Versions of few keys, some withdrawn, with a time beside the end of what 64 bits hold."""
    found: list[Any] = []
    for seed in range(30):
        random = Random(seed)
        rows = Rows(
            [pa.array([random.randrange(3) for _ in range(40)]), pa.array([random.randrange(4) for _ in range(40)])],
            np.array([random.choice((5, 50, 2**63 - 3)) for _ in range(40)]),
            np.sort(np.array([random.randrange(60) for _ in range(40)])),
            np.array([random.random() < 0.3 for _ in range(40)]),
            None,
        )
        known = replace(COMPOSITE_CLASSES[2], key=("k",), lifespan_us=9, mutable=seed % 2 == 0)
        judged = judge(known, rows, 2)
        found.append((judged.verdicts.tolist(), judged.there.tolist()))
    return found


CASES: tuple[Case, ...] = (
    *(matches, long_histories, large_automata, spans, ranges, positions, composites, expiries, buckets, judgements),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_both_ways_come_to_the_same(case: Case) -> None:
    with allowing(PLAIN):
        plainly = case()
    with allowing(COMPILED):
        assert case() == plainly
    assert any(plainly)


def test_those_whose_types_are_known_can_be_compiled_beforehand() -> None:
    @loop(takes("int64", I8), work=len)
    def typed(values: Any) -> Any:
        return values.sum()

    @loop(None, work=len)
    def untyped(values: Any) -> Any:
        return values.sum()

    for one in (typed, untyped):
        assert isinstance(one, Loop)
        one.prepare()
        assert (one._machine is not None) == (one is typed)
        assert one(np.arange(4)) == 6


def test_every_loop_comes_up_in_these_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    came_up: set[str] = set()
    called = Loop.__call__

    def noting(self: Loop, *arguments: Any) -> Any:
        came_up.add(repr(self))
        return called(self, *arguments)

    monkeypatch.setattr(Loop, "__call__", noting)
    with allowing(PLAIN):
        for case in CASES:
            case()
    assert came_up == {repr(one) for one in loops()}


def loops() -> Iterator[Loop]:
    """All that the source has."""
    for package in ("augury.kernels", "augury.history"):
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            yield from (one for one in vars(importlib.import_module(found.name)).values() if isinstance(one, Loop))


# ---- when a loop is compiled -------------------------------------------------------------------------------------


@part(takes("int64", "int64"))
def _doubled(value: int) -> int:
    return value + value


@loop(takes("int64", I8), work=lambda values: len(values), plain_work_max=10)
def _sum_of_doubled(values: Any) -> Any:
    total: Any = np.int64(0)
    for i in range(values.size):
        total += _doubled(values[i])
    return total


def is_compiled(one: Loop) -> bool:
    return one._machine is not None


def test_a_loop_is_compiled_once_it_has_done_its_share_and_gives_what_it_gave() -> None:
    fresh = loop(takes("int64", I8), work=lambda values: len(values), plain_work_max=10)
    summed = fresh(_sum_of_doubled.plain)  # type: ignore[attr-defined]
    assert isinstance(summed, Loop)
    four = np.arange(4)
    assert [summed(four), summed(four)] == [12, 12]
    assert not is_compiled(summed)
    assert summed(four) == 12
    assert is_compiled(summed)


def test_integers_wrap_around_both_ways_and_come_back_as_numbers_of_python() -> None:
    large = np.array([2**62, 2**62, 5])
    with allowing(PLAIN):
        plainly = _sum_of_doubled(large)
    with allowing(COMPILED):
        compiled = _sum_of_doubled(large)
    assert (plainly, type(plainly)) == (compiled, type(compiled)) == (10, int)


def test_a_loop_with_more_to_do_than_its_share_is_compiled_at_once() -> None:
    summed = loop(takes("int64", I8), work=len, plain_work_max=10)(_sum_of_doubled.plain)  # type: ignore[attr-defined]
    assert summed(np.arange(11)) == 110
    assert isinstance(summed, Loop)
    assert is_compiled(summed)


def test_a_loop_that_calls_a_loop_is_refused() -> None:
    @loop(takes("int64", I8), work=len)
    def calling(values: Any) -> Any:
        return _sum_of_doubled(values)

    with allowing(COMPILED), pytest.raises(AssertionError, match="_sum_of_doubled, which is no part"):
        calling(np.arange(3))

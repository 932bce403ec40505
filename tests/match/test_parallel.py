"""One history in chunks: any cut, any mapper, the same positions as one walk from the beginning."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from augury.algebra.expression import MatchPlan
from augury.api import compile
from augury.automata.automaton import Automaton
from augury.automata.build import NoOneAutomaton, compile_expression
from augury.automata.operations import TooManyStates
from augury.automata.runs import TooManyRuns
from augury.kernels.match import detector_of
from augury.kernels.match.parallel import (
    Moves,
    chunk_map,
    compose,
    composed,
    emit,
    even_cuts,
    moves_of,
    moves_of_runs,
    walk_in_chunks,
)
from tests.match.generate import Wanted, expression, plan

ROOT = Path(__file__).parents[2]


def word(random: Random, symbols: int, length: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.array([random.randrange(symbols) for _ in range(length)], np.int32)


def automata(count: int, first: int = 0) -> Iterable[tuple[Random, Automaton]]:
    for seed in range(first, first + count):
        random = Random(seed)
        try:
            yield random, compile_expression(expression(random, Wanted())).automaton
        except (NoOneAutomaton, TooManyStates):
            continue


def cut(random: Random, length: int) -> list[int]:
    """Anywhere, also twice at one place, at the beginning and at the end."""
    return sorted(random.choice((0, length, random.randint(0, length))) for _ in range(random.randrange(6)))


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_any_cut_gives_what_one_walk_gives(first: int) -> None:
    compared = 0
    for random, automaton in automata(300, first):
        symbols = word(random, automaton.symbols, random.choice((0, 1, 7, 60)))
        found = walk_in_chunks(moves_of(automaton), symbols, cut(random, len(symbols)))
        assert found.positions.tolist() == automaton.runs(symbols.tolist())
        assert found.end == reduce(automaton.step, symbols.tolist(), 0)
        compared += 1
    assert compared > 280


def test_sets_of_run_states_give_the_same_positions() -> None:
    compared = 0
    for seed in range(200):
        random = Random(seed)
        wanted = Wanted(depth=3, attributes=False)
        found = expression(random, wanted)
        try:
            detector, compiled = detector_of(plan(found)), compile_expression(found)
        except (NoOneAutomaton, TooManyRuns, TooManyStates):
            continue
        if detector.tables is None or not detector.tables.delta.size:
            continue
        # Both number the symbols of one alphabet.
        symbols = word(random, len([s for s in compiled.alphabet.symbols if not s.is_start]), 40)
        walked = walk_in_chunks(moves_of_runs(detector.tables), symbols, cut(random, 40))
        assert walked.positions.tolist() == compiled.automaton.runs(symbols.tolist()), (seed, found)
        compared += 1
    assert compared > 150


def test_a_map_has_the_end_of_every_start_and_maps_compose() -> None:
    for random, automaton in automata(200):
        delta = moves_of(automaton).delta
        chunks = [word(random, automaton.symbols, random.randrange(12)) for _ in range(4)]
        maps = [chunk_map(delta, chunk) for chunk in chunks]
        for chunk, one in zip(chunks, maps, strict=True):
            assert one.tolist() == [reduce(automaton.step, chunk.tolist(), s) for s in range(len(delta))]
        f, g, h, _ = maps
        assert np.array_equal(composed(composed(f, g), h), composed(f, composed(g, h)))
        nothing = np.arange(len(delta), dtype=np.int32)
        assert np.array_equal(composed(nothing, f), f)
        assert np.array_equal(composed(f, nothing), f)
        assert np.array_equal(chunk_map(delta, np.concatenate(chunks)), reduce(composed, maps))
        start = random.randrange(len(delta))
        begins = compose(maps, start)
        assert begins == [
            reduce(automaton.step, np.concatenate([[], *chunks[:i]]).astype(int), start) for i in range(5)
        ]


def test_states_and_moves_may_accept() -> None:
    automaton = Automaton(2, (), ((1, 0), (1, 2), (1, 0)), (False, False, True))
    moves = moves_of(automaton)
    symbols = np.array([0, 1, 1, 0, 0, 1], np.int32)
    by_state = emit(moves.delta, np.array(automaton.accepting), symbols, 0)
    by_move = emit(moves.delta, moves.accepting, symbols, 0)
    assert by_state.positions.tolist() == by_move.positions.tolist() == [1, 5]
    assert by_state.end == by_move.end == 2


def threads(function: Callable[[Any], Any], of: Iterable[Any]) -> Iterable[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, of))


def elsewhere(function: Callable[[Any], Any], of: Iterable[Any]) -> Iterable[Any]:
    """As a cluster does it: function and data are sent as bytes."""
    return [pickle.loads(pickle.dumps(function))(pickle.loads(pickle.dumps(one))) for one in of]


def largest_of_the_paper() -> Moves:
    found = []
    for path in sorted((ROOT / "examples" / "seeds").glob("ode_*.bicepl")):
        for one in compile(path.read_text("utf-8")).classes:
            if isinstance(one.derivation, MatchPlan):
                found.append(compile_expression(one.derivation.expression).automaton)
    return moves_of(max(found, key=lambda automaton: len(automaton.delta)))


@pytest.mark.parametrize("mapper", [map, threads, elsewhere])
def test_any_mapper_will_do(mapper: Any) -> None:
    moves = largest_of_the_paper()
    symbols = word(Random(1), moves.delta.shape[1], 10_000)
    whole = walk_in_chunks(moves, symbols, ())
    found = walk_in_chunks(moves, symbols, even_cuts(len(symbols), 7), mapper)
    assert found.positions.tolist() == whole.positions.tolist()
    assert len(found.positions) > 10
    assert found.end == whole.end


def test_states_meet_soon() -> None:
    """Of the states of the largest automaton of the paper few are still apart after some dozens of events."""
    moves = largest_of_the_paper()
    symbols = word(Random(2), moves.delta.shape[1], 200)
    carried = [len(set(chunk_map(moves.delta, symbols[:n]).tolist())) for n in range(201)]
    assert carried[0] == len(moves.delta) == 25
    assert all(now <= before for before, now in pairwise(carried))
    assert carried[-1] <= 3

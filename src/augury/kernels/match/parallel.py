"""One history in parallel: chunk it, map the states of each chunk, compose the maps, then emit (Mytkowicz et al. 2014).

In: a table of moves and symbols. Out: the positions at which the expression takes place, and the state after them, as
one walk from the beginning gives them, however the symbols are cut. The chunks do not need each other in the first
pass, nor in the second once the maps are composed, so that whoever calls may run each pass anywhere.

Positions only: which events a tuple has is not known here; `chunks` does the same with tuples. Keyed variables and
partitions have a history per value; they are run side by side by key and need none of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from augury.automata.automaton import Automaton
from augury.kernels.batch import Integers
from augury.kernels.compiled import B2, I4, I4_2, I8, loop, several, takes
from augury.kernels.match.detector import Tables
from augury.kernels.match.walk import FINAL

Shorts = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or another that gives the same results in the same order: that of a pool of threads, or of a cluster."""


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """An automaton as arrays: `delta[state, symbol]`, and at which moves the expression takes place; 0 begins."""

    delta: Shorts
    accepting: Flags


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """The positions, from 0 and ascending, and the state after the last symbol."""

    positions: Integers
    end: int


def moves_of(automaton: Automaton) -> Moves:
    """The moves of an automaton without free correlation variables, whose states accept."""
    assert not automaton.variables, "a letter is a symbol"
    delta = np.array(automaton.delta, np.int32).reshape(len(automaton.delta), automaton.symbols)
    return Moves(delta, per_move(delta, np.array(automaton.accepting, np.bool_)))


def moves_of_runs(tables: Tables) -> Moves:
    """The moves of the sets of states that runs are in: the expression takes place where a run ends."""
    assert tables.delta.size, "there are too many sets: nothing to be mapped"
    ends = np.zeros((len(tables.delta), tables.symbols), np.bool_)
    for q, states in enumerate(sets_of(tables)):
        for symbol in range(tables.symbols):
            ends[q, symbol] = FINAL in _targets(tables, states, symbol)
    return Moves(tables.delta, ends)


def sets_of(tables: Tables) -> list[frozenset[int]]:
    """The sets of states that runs are in, by their numbers in the automaton."""
    sets: dict[int, frozenset[int]] = {0: frozenset(tables.initial.tolist())}
    waiting = [0]
    for q in waiting:
        for symbol in range(tables.symbols):
            following = int(tables.delta[q, symbol])
            if following not in sets:
                sets[following] = _targets(tables, sets[q], symbol) - {FINAL}
                waiting.append(following)
    return [sets[q] for q in range(len(tables.delta))]


def _targets(tables: Tables, states: Iterable[int], symbol: int) -> frozenset[int]:
    spans = [tables.first[s * tables.symbols + symbol :][:2] for s in states]
    return frozenset(t for begin, end in spans for t in tables.target[begin:end].tolist())


def per_move(delta: Shorts, accepting: Flags) -> Flags:
    """At which moves the expression takes place, said of moves already or of the states they lead to."""
    return np.ascontiguousarray(accepting if accepting.ndim == 2 else accepting[delta])


# ---- first pass ----------------------------------------------------------------------------------


@loop(takes(I4, I4_2, I4), work=lambda delta, symbols: len(delta) + len(symbols))
def chunk_map(delta: Shorts, symbols: Shorts) -> Shorts:
    """For each state before some symbols the one after them; states that have met go on as one."""
    states = delta.shape[0]
    carried = np.arange(states).astype(np.int32)
    which = np.arange(states).astype(np.int32)
    slot = np.full(states, -1, np.int32)
    place = np.empty(states, np.int32)
    count = states
    for i in range(symbols.size):
        a = symbols[i]
        if count == 1:
            carried[0] = delta[carried[0], a]
            continue
        distinct = 0
        for j in range(count):
            t = delta[carried[j], a]
            if slot[t] < 0:
                slot[t] = distinct
                # Never past j: what is overwritten has been read.
                carried[distinct] = t
                distinct += 1
            place[j] = slot[t]
        for j in range(distinct):
            slot[carried[j]] = -1
        # Only where some have met; that is less often than there are states, however long the chunk.
        if distinct < count:
            for s in range(states):
                which[s] = place[which[s]]
            count = distinct
    found = np.empty(states, np.int32)
    for s in range(states):
        found[s] = carried[which[s]]
    return found


def composed(f: Shorts, g: Shorts) -> Shorts:
    """The map of one chunk and then another; associative, and `np.arange(states)` changes nothing."""
    return g[f]


def compose(maps: Iterable[Shorts], start: int = 0) -> list[int]:
    """The state before each chunk, and last that after all of them."""
    found = [start]
    for one in maps:
        found.append(int(one[found[-1]]))
    return found


# ---- second pass ---------------------------------------------------------------------------------


@loop(takes(several(I8, "int64"), I4_2, B2, I4, "int64"), work=lambda delta, accepting, symbols, start: len(symbols))
def _emit(delta: Shorts, accepting: Flags, symbols: Shorts, start: int) -> tuple[Integers, int]:
    positions = np.empty(symbols.size, np.int64)
    found = 0
    q = start
    for i in range(symbols.size):
        a = symbols[i]
        if accepting[q, a]:
            positions[found] = i
            found += 1
        q = delta[q, a]
    return positions[:found].copy(), q


def emit(delta: Shorts, accepting: Flags, symbols: Shorts, start: int) -> Walked:
    """The positions in a chunk, from 0; `accepting` is of moves (state, symbol) or of the states they lead to."""
    positions, end = _emit(delta, per_move(delta, accepting), symbols, start)
    return Walked(positions, int(end))


# ---- all of it -----------------------------------------------------------------------------------


def even_cuts(length: int, chunks: int) -> list[int]:
    """Where to cut symbols into so many chunks of about one length."""
    return [length * i // chunks for i in range(1, chunks)]


def walk_in_chunks(moves: Moves, symbols: Shorts, cuts: Sequence[int], mapper: Mapper = map, start: int = 0) -> Walked:
    """The walk over all symbols, cut before these ascending positions; chunks may be empty.

    `mapper` is given functions that can be pickled, and arrays.
    """
    bounds = [0, *cuts, len(symbols)]
    chunks = [symbols[begin:end] for begin, end in pairwise(bounds)]
    maps: list[Shorts] = list(mapper(partial(_mapped, moves.delta), chunks))
    begins = compose(maps, start)
    walked: list[Walked] = list(mapper(partial(_walked, moves), list(zip(chunks, begins, strict=False))))
    positions = [one.positions + begin for one, begin in zip(walked, bounds, strict=False)]
    assert reduce(composed, maps)[start] == walked[-1].end, "both passes end in one state"
    return Walked(np.concatenate(positions), walked[-1].end)


def _mapped(delta: Shorts, symbols: Shorts) -> Shorts:
    return chunk_map(delta, symbols)


def _walked(moves: Moves, chunk: tuple[Shorts, int]) -> Walked:
    symbols, start = chunk
    return emit(moves.delta, moves.accepting, symbols, start)

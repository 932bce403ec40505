"""The walk that keeps every tuple: for WHERE, WITHIN, ALL and aggregates; see `walk` for how tuples are held.

A run is a state and a tuple; the runs of a stream are a list through `follows`. A run is dropped once its tuple is
longer than WITHIN allows or holds an event that a tick has purged, and, where only one tuple is wanted, if another
one with the same future is better and no worse in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import B1, B2, I4, I4_2, I8, READ_ONLY, loop, part, several, takes
from augury.kernels.match.walk import FINAL, NONE, grown, is_better

KEEP_EVERY, KEEP_DISTINCT, KEEP_BEST = 0, 1, 2
"""Which runs of one state are kept: every one, those with different tuples, or those that none is better than."""


@part()
def _same(a: int, b: int, ref: Any, marks: Any, prev: Any) -> Any:
    while a != b:
        if a == 0 or b == 0 or ref[a] != ref[b] or marks[a] != marks[b]:
            return False
        a, b = prev[a], prev[b]
    return True


@loop(takes("int64", I4, I4, B1, "int64"), work=lambda first, follows, *_: len(first) + len(follows))
def unlinked(first: Any, follows: Any, gone: Any, free: int) -> Any:
    """Take runs out of the lists of their streams, and put them on that of free slots."""
    for stream in range(first.size):
        before, run = NONE, first[stream]
        while run != NONE:
            following = follows[run]
            if gone[run]:
                if before == NONE:
                    first[stream] = following
                else:
                    follows[before] = following
                follows[run] = free
                free = run
            else:
                before = run
            run = following
    return free


_RUNS = (I4, I4, I8, I8, I8, I4)

_ALL = takes(
    several(I8, I4, I4, I4, "int64", *_RUNS, "int64", I8, I8, I4, "int64"),
    *(I8, I8, I4, I8, I8),  # streams, begins, symbols, positions, events
    *(I4, I8, I4),  # state of each stream: set of states, last position, first run
    *(I4_2, B2, I4, I4, I4, "int64"),  # delta, quiet, moves, symbols
    *("int64", "int64", "int64", "boolean"),  # OTHER
    *(READ_ONLY, READ_ONLY, READ_ONLY, "int64", "int64", "boolean", "int64"),  # times, WITHIN, what is kept, limit
    *(I8, I4, I4, I4, "int64"),  # nodes
    *(*_RUNS, "int64"),  # runs
)


def _rows_by_runs(*arguments: Any) -> int:
    """Each row goes over the runs of its stream, which may be all there are."""
    symbol, runs = arguments[2], arguments[30]
    return len(symbol) * (1 + len(runs) // 16)


@loop(_ALL, work=_rows_by_runs)
def walk_all(
    streams: Any,
    begins: Any,
    symbol: Any,
    position: Any,
    event: Any,
    at: Any,
    last: Any,
    runs_of: Any,
    delta: Any,
    quiet: Any,
    first: Any,
    target: Any,
    mark: Any,
    symbols: int,
    other: int,
    tail: int,
    period: int,
    gaps: bool,
    occ_time: Any,
    purged_at: Any,
    tick: Any,
    within: int,
    keep: int,
    recent: bool,
    limit: int,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    nodes: int,
    state: Any,
    head: Any,
    least: Any,
    most: Any,
    until: Any,
    follows: Any,
    free: int,
) -> Any:
    """Move every stream over its rows, keeping its runs; found are events, streams and tuples; stop at the limit."""
    built = delta.shape[0] > 0
    new_state = np.empty(64, np.int32)
    new_head = np.empty(64, np.int32)
    new_least = np.empty(64, np.int64)
    new_most = np.empty(64, np.int64)
    new_until = np.empty(64, np.int64)
    found_event = np.empty(1024, np.int64)
    found_stream = np.empty(1024, np.int64)
    found_head = np.empty(1024, np.int32)
    found = 0
    past = np.int64(NONE)
    for g in range(streams.size):
        s = streams[g]
        q = at[s]
        before = last[s]
        for i in range(begins[g], begins[g + 1]):
            others = 0
            if gaps:
                others = position[i] - before - 1
                before = position[i]
            if period > 0 and others > tail + period:
                others = tail + (others - tail) % period
            k = -1
            while k < others:
                k += 1
                a = symbol[i] if k == others else other
                if built:
                    if quiet[q, a]:
                        k = others - 1 if k < others else others
                        continue
                    q = delta[q, a]
                e = event[i]
                new = 0
                found_before = found
                run = runs_of[s]
                while run != NONE:
                    c = state[run]
                    if until[run] >= tick[e]:
                        for move in range(first[c * symbols + a], first[c * symbols + a + 1]):
                            t, m = target[move], mark[move]
                            tuple_ = head[run]
                            low, high, end = least[run], most[run], until[run]
                            if m != 0 or t == FINAL:
                                low, high = min(low, occ_time[e]), max(high, occ_time[e])
                                end = min(end, purged_at[e])
                                if (within >= 0 and high - low > within) or end < tick[e]:
                                    continue
                                if nodes >= ref.size:
                                    ref, marks = grown(ref, nodes), grown(marks, nodes)
                                    prev, length = grown(prev, nodes), grown(length, nodes)
                                ref[nodes], marks[nodes], prev[nodes] = e, m | 1, tuple_
                                length[nodes] = length[tuple_] + 1
                                tuple_ = nodes
                                nodes += 1
                            if t == FINAL:
                                if found >= found_event.size:
                                    found_event, found_stream = grown(found_event, found), grown(found_stream, found)
                                    found_head = grown(found_head, found)
                                found_event[found], found_stream[found], found_head[found] = e, s, tuple_
                                found += 1
                                continue
                            dropped = False
                            j = 0
                            while keep != KEEP_EVERY and j < new:
                                if new_state[j] == t:
                                    if keep == KEEP_DISTINCT:
                                        dropped = _same(tuple_, new_head[j], ref, marks, prev)
                                    else:
                                        b = is_better(tuple_, False, new_head[j], False, recent, ref, prev, length)
                                        w = is_better(new_head[j], False, tuple_, False, recent, ref, prev, length)
                                        spare = new_least[j] >= low and new_most[j] <= high and new_until[j] >= end
                                        dropped = spare and not b
                                        ousted = low >= new_least[j] and high <= new_most[j] and end >= new_until[j]
                                        if ousted and not w and not dropped:
                                            new -= 1
                                            new_state[j], new_head[j] = new_state[new], new_head[new]
                                            new_least[j], new_most[j] = new_least[new], new_most[new]
                                            new_until[j] = new_until[new]
                                            continue
                                    if dropped:
                                        break
                                j += 1
                            if dropped:
                                continue
                            if new >= new_state.size:
                                new_state, new_head = grown(new_state, new), grown(new_head, new)
                                new_least, new_most = grown(new_least, new), grown(new_most, new)
                                new_until = grown(new_until, new)
                            new_state[new], new_head[new] = t, tuple_
                            new_least[new], new_most[new], new_until[new] = low, high, end
                            new += 1
                    run = follows[run]
                if new > limit or found - found_before > limit:
                    past = s
                    break
                # The old list is used again, as far as it reaches.
                run = runs_of[s]
                tip = NONE
                for j in range(new):
                    if run == NONE:
                        if free == NONE:
                            old = state.size
                            state, head, follows = grown(state, old), grown(head, old), grown(follows, old)
                            least, most, until = grown(least, old), grown(most, old), grown(until, old)
                            for f in range(old, state.size):
                                follows[f] = f + 1 if f + 1 < state.size else NONE
                            free = old
                        slot = free
                        free = follows[slot]
                    else:
                        slot = run
                        run = follows[run]
                    state[slot], head[slot] = new_state[j], new_head[j]
                    least[slot], most[slot], until[slot] = new_least[j], new_most[j], new_until[j]
                    follows[slot] = tip
                    tip = slot
                while run != NONE:
                    after = follows[run]
                    follows[run] = free
                    free = run
                    run = after
                runs_of[s] = tip
            if past != NONE:
                break
        at[s] = q
        last[s] = before
        if past != NONE:
            break
    return (
        *(ref, marks, prev, length, nodes),
        *(state, head, least, most, until, follows, free),
        *(found_event[:found], found_stream[:found], found_head[:found], past),
    )

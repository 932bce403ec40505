"""The walk of an expression whose automaton would be too large: by the set of states that its runs are in.

`relative(Login, <n> Fail)` has 1.5·2ⁿ states as an automaton and n + 2 as runs. In and out as in `walk`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import I4, loop, takes
from augury.kernels.match.walk import FINAL, FOUND, NODES, NONE, OTHER, ROWS, STREAMS, grown, is_better, larger


def _rows_by_states(*arguments: Any) -> int:
    symbol, heads = arguments[2], arguments[7]
    return len(symbol) * (1 + int(heads.shape[1]))


@loop(takes(FOUND, *ROWS, *STREAMS, I4, I4, I4, "int64", *OTHER, *NODES), work=_rows_by_states)
def walk_sets(
    streams: Any,
    begins: Any,
    symbol: Any,
    position: Any,
    event: Any,
    at: Any,
    last: Any,
    heads: Any,
    first: Any,
    target: Any,
    mark: Any,
    symbols: int,
    other: int,
    tail: int,
    period: int,
    gaps: bool,
    recent: bool,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    nodes: int,
) -> Any:
    """The same without an automaton, whose states would be too many: by the set of states that runs are in."""
    states = heads.shape[1]
    new = np.empty(states, np.int32)
    new_mark = np.empty(states, np.int32)
    found_event = np.empty(1024, np.int64)
    found_stream = np.empty(1024, np.int64)
    found_head = np.empty(1024, np.int32)
    found = 0
    room = ref.size - states - 1
    for g in range(streams.size):
        s = streams[g]
        before = last[s]
        for i in range(begins[g], begins[g + 1]):
            others = 0
            if gaps:
                others = position[i] - before - 1
                before = position[i]
            if period > 0 and others > tail + period:
                others = tail + (others - tail) % period
            for rest in range(others, -1, -1):
                a = symbol[i] if rest == 0 else other
                if nodes >= room:
                    size = 2 * ref.size + 4 * states + 1024
                    ref, marks = larger(ref, nodes, size), larger(marks, nodes, size)
                    prev, length = larger(prev, nodes, size), larger(length, nodes, size)
                    room = size - states - 1
                best, best_mark = np.int32(NONE), np.int32(0)
                new[:] = NONE
                for c in range(states):
                    tuple_ = heads[s, c]
                    if tuple_ == NONE:
                        continue
                    for move in range(first[c * symbols + a], first[c * symbols + a + 1]):
                        t, m = target[move], mark[move]
                        if t == FINAL:
                            if best == NONE or is_better(tuple_, True, best, True, recent, ref, prev, length):
                                best, best_mark = tuple_, m
                        elif new[t] == NONE or is_better(
                            tuple_, m != 0, new[t], new_mark[t] != 0, recent, ref, prev, length
                        ):
                            new[t], new_mark[t] = tuple_, m
                if best != NONE:
                    ref[nodes], marks[nodes], prev[nodes] = event[i], best_mark | 1, best
                    length[nodes] = length[best] + 1
                    if found >= found_event.size:
                        found_event, found_stream = grown(found_event, found), grown(found_stream, found)
                        found_head = grown(found_head, found)
                    found_event[found], found_stream[found], found_head[found] = event[i], s, nodes
                    found += 1
                    nodes += 1
                for c in range(states):
                    tuple_ = new[c]
                    if tuple_ != NONE and new_mark[c] != 0:
                        ref[nodes], marks[nodes], prev[nodes] = event[i], new_mark[c], tuple_
                        length[nodes] = length[tuple_] + 1
                        tuple_ = np.int32(nodes)
                        nodes += 1
                    heads[s, c] = tuple_
        last[s] = before
    return ref, marks, prev, length, nodes, found_event[:found], found_stream[:found], found_head[:found]

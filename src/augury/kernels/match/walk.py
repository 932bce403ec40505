"""The walks: sorted symbols in, tuples out; numba, generic over tables.

Rows come grouped by stream, each group in the order of its history. A tuple is a chain of nodes, latest first: `ref` is
the number of the event (greater is later), `marks` what it is marked with, `prev` the node before; node 0 is the empty
tuple. `walk_best` keeps the best tuple per state of runs, `walk_all` all of them. Both append to the nodes and to what
they found, and stop early only where a limit is met.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

FINAL = -1
NONE = -1

_I4 = types.int32[::1]
_I8 = types.int64[::1]
_I4_2 = types.int32[:, ::1]
_B2 = types.boolean[:, ::1]


def _compiled(signature: Any) -> Any:
    return njit(signature, cache=True, nogil=True, boundscheck=False)


@_compiled(types.Tuple((_I8, _I8))(_I8, types.int64))
def group(stream: Any, streams: int) -> Any:
    """A stable counting sort: the order of rows by stream, and where each stream begins in it."""
    begins = np.zeros(streams + 1, np.int64)
    for i in range(stream.size):
        begins[stream[i] + 1] += 1
    for s in range(streams):
        begins[s + 1] += begins[s]
    place = begins[:-1].copy()
    order = np.empty(stream.size, np.int64)
    for i in range(stream.size):
        s = stream[i]
        order[place[s]] = i
        place[s] += 1
    return order, begins


@_compiled(types.boolean(types.int64, types.boolean, types.int64, types.boolean, types.boolean, _I8, _I4, _I4))
def is_better(a: int, a_now: bool, b: int, b_now: bool, recent: bool, ref: Any, prev: Any, length: Any) -> Any:
    """Whether tuple a is to be preferred to b, each with the present event added if so said; of equal ones neither."""
    if recent:
        if a_now != b_now:
            return a_now
        while a != b:
            if a == 0 or b == 0:
                return b == 0
            if ref[a] != ref[b]:
                return ref[a] > ref[b]
            a, b = prev[a], prev[b]
        return False
    # Earliest first: where one goes on with an event, the other goes on with a later one.
    size_a, size_b = length[a], length[b]
    while length[a] > size_b:
        a = prev[a]
    while length[b] > size_a:
        b = prev[b]
    less = 0
    while a != b:
        if ref[a] != ref[b]:
            less = 1 if ref[a] < ref[b] else -1
        a, b = prev[a], prev[b]
    if less != 0:
        return less > 0
    if size_a != size_b:
        return size_a > size_b
    return a_now and not b_now


@njit(cache=True, nogil=True)
def _grown(array: Any, size: int) -> Any:
    """The array with room for one more than `size`."""
    if size < array.size:
        return array
    larger = np.empty(max(1024, 2 * array.size), array.dtype)
    larger[:size] = array[:size]
    return larger


_BEST = types.Tuple((_I8, _I4, _I4, _I4, types.int64, _I8, _I8, _I4, types.int64))(
    *(_I8, _I8, _I4, _I8, _I8),  # streams, begins, symbols, positions, events
    *(_I4, _I8, _I4_2),  # state of each stream: set of states, last position, tuples
    *(_I4_2, _B2, _I4, _I4, _I4),  # delta, quiet, moves
    *(types.int64, types.int64, types.int64, types.boolean, types.boolean),  # OTHER
    *(_I8, _I4, _I4, _I4, types.int64),  # nodes
)


@_compiled(_BEST)
def walk_best(
    streams: Any,
    begins: Any,
    symbol: Any,
    position: Any,
    event: Any,
    at: Any,
    last: Any,
    heads: Any,
    delta: Any,
    quiet: Any,
    first: Any,
    target: Any,
    mark: Any,
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
    """Move every stream over its rows, keeping the best tuple per state; found are event, stream and tuple."""
    states = heads.shape[1]
    symbols = quiet.shape[1]
    built = delta.shape[0] > 0
    now = np.empty(states, np.int32)
    new = np.empty(states, np.int32)
    new_mark = np.empty(states, np.int32)
    found_event = np.empty(1024, np.int64)
    found_stream = np.empty(1024, np.int64)
    found_head = np.empty(1024, np.int32)
    found = 0
    for g in range(streams.size):
        s = streams[g]
        q = at[s]
        before = last[s]
        for c in range(states):
            now[c] = heads[s, c]
        for i in range(begins[g], begins[g + 1]):
            others = position[i] - before - 1 if gaps else 0
            before = position[i]
            if period > 0 and others > tail + period:
                others = tail + (others - tail) % period
            # The events of others first, then this one.
            k = -1
            while k < others:
                k += 1
                a = symbol[i] if k == others else other
                if built:
                    if quiet[q, a]:
                        k = others - 1 if k < others else others
                        continue
                    q = delta[q, a]
                best, best_mark = NONE, 0
                for c in range(states):
                    new[c] = NONE
                for c in range(states):
                    tuple_ = now[c]
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
                    if nodes >= ref.size:
                        ref, marks = _grown(ref, nodes), _grown(marks, nodes)
                        prev, length = _grown(prev, nodes), _grown(length, nodes)
                    ref[nodes], marks[nodes], prev[nodes] = event[i], best_mark | 1, best
                    length[nodes] = length[best] + 1
                    if found >= found_event.size:
                        found_event, found_stream = _grown(found_event, found), _grown(found_stream, found)
                        found_head = _grown(found_head, found)
                    found_event[found], found_stream[found], found_head[found] = event[i], s, nodes
                    found += 1
                    nodes += 1
                for c in range(states):
                    tuple_ = new[c]
                    if tuple_ != NONE and new_mark[c] != 0:
                        if nodes >= ref.size:
                            ref, marks = _grown(ref, nodes), _grown(marks, nodes)
                            prev, length = _grown(prev, nodes), _grown(length, nodes)
                        ref[nodes], marks[nodes], prev[nodes] = event[i], new_mark[c], tuple_
                        length[nodes] = length[tuple_] + 1
                        tuple_ = nodes
                        nodes += 1
                    now[c] = tuple_
        at[s] = q
        last[s] = before
        for c in range(states):
            heads[s, c] = now[c]
    return ref, marks, prev, length, nodes, found_event[:found], found_stream[:found], found_head[:found], found


@_compiled(_I8(_I8, _I8))
def ranks(partition: Any, length: Any) -> Any:
    """The position of each row in the history of its partition, whose lengths go up by as much."""
    position = np.empty(partition.size, np.int64)
    for i in range(partition.size):
        length[partition[i]] += 1
        position[i] = length[partition[i]]
    return position


@_compiled(types.Tuple((_I8, _I8))(_I4, _I4, _I4))
def unrolled(head: Any, prev: Any, length: Any) -> Any:
    """The nodes of tuples, earliest first, and where each tuple begins."""
    begins = np.zeros(head.size + 1, np.int64)
    for i in range(head.size):
        begins[i + 1] = begins[i] + length[head[i]]
    nodes = np.empty(begins[-1], np.int64)
    for i in range(head.size):
        node = head[i]
        for place in range(begins[i + 1] - 1, begins[i] - 1, -1):
            nodes[place] = node
            node = prev[node]
    return nodes, begins


@_compiled(_I8(_I8, _I4, types.boolean, _I8, _I4, _I4))
def best_of_each(event: Any, head: Any, recent: bool, ref: Any, prev: Any, length: Any) -> Any:
    """Of tuples sorted by event the place of the best of each event; of equal ones the first."""
    found = np.empty(event.size, np.int64)
    count = 0
    for i in range(event.size):
        if count == 0 or event[i] != event[found[count - 1]]:
            found[count] = i
            count += 1
        elif is_better(head[i], False, head[found[count - 1]], False, recent, ref, prev, length):
            found[count - 1] = i
    return found[:count]

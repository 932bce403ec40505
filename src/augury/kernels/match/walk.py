"""The walks: sorted symbols in, tuples out; numba, generic over tables.

Rows come grouped by stream, each group in the order of its history. A tuple is a chain of nodes, latest first: `ref` is
the number of the event (greater is later), `marks` what it is marked with, `prev` the node before; node 0 is the empty
tuple. The walk here keeps the best tuple per state of runs, those that are in one state having the same future;
`walk_sets` does so without an automaton, `walk_spans` for streams that every event moves, and `walk_all` keeps all
tuples: modules of their own, compiled when needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

FINAL = -1
NONE = -1
QUIET = -1

_I4 = types.int32[::1]
_I8 = types.int64[::1]
READ_ONLY: Any = types.Array(types.int64, 1, "C", readonly=True)
"""A column of the batch, which may not be ours to write."""
_I4_2 = types.int32[:, ::1]
_B2 = types.boolean[:, ::1]


def compiled(signature: Any) -> Any:
    """Compiled when the module is imported, or read from the cache."""
    return njit(signature, cache=True, nogil=True, boundscheck=False)


@compiled(types.Tuple((_I8, _I8))(_I8, types.int64))
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


@compiled(types.boolean(types.int64, types.boolean, types.int64, types.boolean, types.boolean, _I8, _I4, _I4))
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
def larger(array: Any, used: int, size: int) -> Any:
    """The array with room for so many."""
    more = np.empty(size, array.dtype)
    more[:used] = array[:used]
    return more


@njit(cache=True, nogil=True)
def grown(array: Any, used: int) -> Any:
    """The array with room for one more than are used."""
    return array if used < array.size else larger(array, used, max(1024, 2 * array.size))


ROWS = (_I8, _I8, _I4, _I8, _I8)  # streams, where each begins; symbols, positions, events
STREAMS = (_I4, _I8, _I4_2)  # of each stream the set of states, the last position, the tuple of each state
OTHER = (types.int64, types.int64, types.int64, types.boolean, types.boolean)  # symbol, tail, period, gaps; recent
NODES = (_I8, _I4, _I4, _I4, types.int64)
FOUND = types.Tuple((*NODES, _I8, _I8, _I4))


_BLOCK = 1024


_walking: Any = njit(cache=True, nogil=True)


@_walking
def _over_block(
    begin: int,
    end: int,
    symbol: Any,
    position: Any,
    event: Any,
    base: Any,
    before: Any,
    now: Any,
    onward: Any,
    first: Any,
    target: Any,
    source: Any,
    mark: Any,
    rival: Any,
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
    given: Any,
    given_mark: Any,
    given_to: Any,
    s: int,
    found_event: Any,
    found_stream: Any,
    found_head: Any,
    found: int,
) -> Any:
    """Move one stream over some of its rows; `base` is its set of states times the number of symbols."""
    # A call that is handed so many arrays costs more than a move, so all of it stands in one loop.
    for i in range(begin, end):
        others = np.int64(0)
        if gaps:
            others = position[i] - before - 1
            before = position[i]
            if period > 0 and others > tail + period:
                others = tail + (others - tail) % period
        # The events of others first, then this one.
        while others >= 0:
            cell = base + (symbol[i] if others == 0 else other)
            base_after = onward[cell]
            if base_after == QUIET:
                others = np.int64(-1 if others == 0 else 0)
                continue
            others -= 1
            base = base_after
            k = first[cell]
            if first[cell + 1] - k == 1 and source[k] >= 0 and target[k] >= 0:
                # Nearly all moves that do something do one thing.
                tuple_ = now[source[k]]
                if mark[k] != 0:
                    ref[nodes], marks[nodes], prev[nodes] = event[i], mark[k], tuple_
                    length[nodes] = length[tuple_] + 1
                    tuple_ = np.int32(nodes)
                    nodes += 1
                now[target[k]] = tuple_
                continue
            count = 0
            for k in range(first[cell], first[cell + 1]):
                tuple_ = np.int32(NONE) if source[k] < 0 else now[source[k]]
                if rival[k]:
                    m, n = target[k] == FINAL or mark[k] != 0, target[k] == FINAL or given_mark[count - 1] != 0
                    if is_better(tuple_, m, given[count - 1], n, recent, ref, prev, length):
                        given[count - 1], given_mark[count - 1] = tuple_, mark[k]
                else:
                    given_to[count], given[count], given_mark[count] = target[k], tuple_, mark[k]
                    count += 1
            for k in range(count):
                tuple_, to = given[k], given_to[k]
                if given_mark[k] != 0 or to == FINAL:
                    ref[nodes], marks[nodes], prev[nodes] = event[i], given_mark[k] | 1, tuple_
                    length[nodes] = length[tuple_] + 1
                    tuple_ = np.int32(nodes)
                    nodes += 1
                if to != FINAL:
                    now[to] = tuple_
                else:
                    found_event[found], found_stream[found], found_head[found] = event[i], s, tuple_
                    found += 1
    return base, before, nodes, found


@njit(cache=True, nogil=True)
def _slid(
    begun: int, nodes: int, now: Any, found: Any, ref: Any, marks: Any, prev: Any, length: Any, place: Any
) -> Any:
    """Forget those of the newest nodes that nothing needs, and close the gaps: the rest stays small, and in cache."""
    for k in range(nodes - begun):
        place[k] = NONE
    for heads in (now, found):
        for i in range(heads.size):
            node = heads[i]
            while node >= begun and place[node - begun] == NONE:
                place[node - begun] = 0
                node = prev[node]
    after = begun
    for k in range(nodes - begun):
        if place[k] != NONE:
            place[k] = after
            before = prev[begun + k]
            ref[after], marks[after], length[after] = ref[begun + k], marks[begun + k], length[begun + k]
            prev[after] = place[before - begun] if before >= begun else before
            after += 1
    for heads in (now, found):
        for i in range(heads.size):
            if heads[i] >= begun:
                heads[i] = place[heads[i] - begun]
    return after


@compiled(FOUND(*ROWS, *STREAMS, _I4_2, _B2, _I4, _I4, _I4, _I4, types.boolean[::1], *OTHER, *NODES))
def walk_automaton(
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
    source: Any,
    mark: Any,
    rival: Any,
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
    """Move every stream over its rows by the automaton and its programs; found are events, streams and tuples."""
    symbols = quiet.shape[1]
    onward = np.empty(quiet.size, np.int32)
    for cell in range(quiet.size):
        q, a = cell // symbols, cell % symbols
        onward[cell] = QUIET if quiet[q, a] else delta[q, a] * symbols
    width = heads.shape[1] + 1
    given = np.empty(width, np.int32)
    given_mark = np.empty(width, np.int32)
    given_to = np.empty(width, np.int32)
    place = np.empty(_BLOCK * width, np.int32)
    found_event = np.empty(_BLOCK, np.int64)
    found_stream = np.empty(_BLOCK, np.int64)
    found_head = np.empty(_BLOCK, np.int32)
    found = 0
    for g in range(streams.size):
        s = streams[g]
        base, before = at[s] * symbols, last[s]
        now = heads[s]
        # Room for a block of rows is made before it is walked, so that the walk itself meets no growing array.
        for begin in range(begins[g], begins[g + 1], _BLOCK):
            end = min(begin + _BLOCK, begins[g + 1])
            if nodes + (end - begin) * width > ref.size:
                size = 2 * ref.size + _BLOCK * width
                ref, marks = larger(ref, nodes, size), larger(marks, nodes, size)
                prev, length = larger(prev, nodes, size), larger(length, nodes, size)
            if found + _BLOCK > found_event.size:
                size = 2 * found_event.size + _BLOCK
                found_event, found_stream = larger(found_event, found, size), larger(found_stream, found, size)
                found_head = larger(found_head, found, size)
            begun, found_before = nodes, found
            base, before, nodes, found = _over_block(
                *(begin, end, symbol, position, event, base, before, now, onward),
                *(first, target, source, mark, rival, other, tail, period, gaps, recent),
                *(ref, marks, prev, length, nodes, given, given_mark, given_to),
                *(s, found_event, found_stream, found_head, found),
            )
            nodes = _slid(begun, nodes, now, found_head[found_before:found], ref, marks, prev, length, place)
        at[s], last[s] = base // symbols, before
    return ref, marks, prev, length, nodes, found_event[:found], found_stream[:found], found_head[:found]


@compiled(_I8(_I8, _I8))
def ranks(partition: Any, length: Any) -> Any:
    """The position of each row in the history of its partition, whose lengths go up by as much."""
    position = np.empty(partition.size, np.int64)
    for i in range(partition.size):
        length[partition[i]] += 1
        position[i] = length[partition[i]]
    return position


@compiled(types.Tuple((_I8, _I8))(_I4, _I4, _I4))
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


@compiled(_I8(_I8, _I4, types.boolean, _I8, _I4, _I4))
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


@compiled(types.Tuple((_I4, _I8, _I8))(_I8, _I8, _I4, READ_ONLY, types.int64, types.int64, types.boolean))
def gathered(order: Any, row: Any, symbol: Any, position: Any, base: int, offset: int, gaps: bool) -> Any:
    """Symbols, positions and events in the order of streams; positions, where they matter, count on from a base."""
    symbols = np.empty(order.size, np.int32)
    positions = np.empty(order.size if gaps else 0, np.int64)
    events = np.empty(order.size, np.int64)
    for i in range(order.size):
        r = row[order[i]]
        symbols[i] = symbol[order[i]]
        events[i] = r + offset
        if gaps:
            positions[i] = position[r] if position.size > 0 else base + r + 1
    return symbols, positions, events


@compiled(types.boolean[::1](_I8, _I4, _I8, _I8, _I4))
def alike_best(event: Any, head: Any, best: Any, ref: Any, prev: Any) -> Any:
    """Which tuples, sorted by event, have the same events as the best of their event; `best` has a place for each."""
    found = np.zeros(event.size, np.bool_)
    which = 0
    for i in range(event.size):
        if event[i] != event[best[which]]:
            which += 1
        a, b = head[i], head[best[which]]
        while a != b and a != 0 and b != 0 and ref[a] == ref[b]:
            a, b = prev[a], prev[b]
        found[i] = a == b
    return found

"""The walks: sorted symbols in, tuples out; compiled, generic over tables.

Rows come grouped by stream, each group in the order of its history. A tuple is a chain of nodes, latest first: `ref` is
the number of the event (greater is later), `marks` what it is marked with, `prev` the node before; node 0 is the empty
tuple. The walk here keeps the best tuple per state of runs, those that are in one state having the same future;
`walk_sets` does so without an automaton, `walk_spans` for streams that every event moves, and `walk_all` keeps all
tuples: modules of their own, loaded when needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import B1, B2, I4, I4_2, I8, READ_ONLY, loop, part, several, takes

FINAL = -1
NONE = -1
QUIET = -1


def _rows(first: Any, *_: Any) -> int:
    return len(first)


@loop(takes(several(I8, I8), I8, "int64"), work=lambda stream, streams: len(stream) + streams)
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


_BETTER = takes("boolean", "int64", "boolean", "int64", "boolean", "boolean", I8, I4, I4)


@part(_BETTER)
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


is_better_tuple = loop(_BETTER, work=lambda *_: 1)(is_better)
"""The same for the rest of the program."""


@part()
def larger(array: Any, used: int, size: int) -> Any:
    """The array with room for so many."""
    more = np.empty(size, array.dtype)
    more[:used] = array[:used]
    return more


@part()
def grown(array: Any, used: int) -> Any:
    """The array with room for one more than are used."""
    return array if used < array.size else larger(array, used, max(1024, 2 * array.size))


ROWS = (I8, I8, I4, I8, I8)  # streams, where each begins; symbols, positions, events
STREAMS = (I4, I8, I4_2)  # of each stream the set of states, the last position, the tuple of each state
OTHER = ("int64", "int64", "int64", "boolean", "boolean")  # symbol, tail, period, gaps; recent
NODES = (I8, I4, I4, I4, "int64")
FOUND = several(*NODES, I8, I8, I4)


_BLOCK = 1024
_DENSE = 4
"""Nodes are kept as they are where one in so many ends a tuple: sliding them would cost more than it saves."""

# Unsigned numbers as places spare every access the question whether it counts from the end.
_U: Any = np.uint64
_U4: Any = np.uint32
_WORDS, _NEXT, _MARK, _COPY, _ENDS = 4, 0, 1, 2, 3
_PROGRAM = -1
_COPY_STATES_MAX = 1 << 15


@part()
def _moves(delta: Any, quiet: Any, first: Any, target: Any, source: Any, mark: Any, states: int) -> Any:
    """Of each cell of the automaton, side by side: where the next state begins, the mark, what is copied, if it ends.

    A copy is of one state's tuple to another. Nothing is a copy too, from a place that is always empty to one that is
    never read, so that the walk has no branch that depends on the event. _PROGRAM is what takes more than one copy.
    """
    symbols = quiet.shape[1]
    unread = states + 1
    moves = np.zeros(quiet.size * _WORDS, np.int32)
    for cell in range(quiet.size):
        q, a = cell // symbols, cell % symbols
        move = moves[cell * _WORDS : (cell + 1) * _WORDS]
        move[_NEXT] = delta[q, a] * symbols * _WORDS
        k = first[cell]
        if unread >= _COPY_STATES_MAX or first[cell + 1] - k > 1 or (first[cell + 1] - k == 1 and source[k] < 0):
            move[_COPY] = _PROGRAM
        elif first[cell + 1] == k:
            move[_COPY] = states | unread << 16
        elif target[k] == FINAL:
            move[_COPY], move[_MARK], move[_ENDS] = source[k] | unread << 16, mark[k] | 1, 1
        else:
            move[_COPY], move[_MARK] = source[k] | target[k] << 16, mark[k]
    return moves


@part()
def _over_block(
    g: int,
    begin: int,
    end: int,
    streams: Any,
    begins: Any,
    symbol: Any,
    position: Any,
    event: Any,
    at: Any,
    last: Any,
    heads: Any,
    moves: Any,
    per_state: int,
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
    nodes: Any,
    given: Any,
    given_mark: Any,
    given_to: Any,
    now: Any,
    found_event: Any,
    found_stream: Any,
    found_head: Any,
    found: Any,
) -> Any:
    """Move streams over a block of rows, from stream g on; the last of them may go on in the next block."""
    # A call that is handed so many arrays costs more than many moves, so all of it stands in one loop.
    states = heads.shape[1]
    nothing = states | (states + 1) << 16
    while begin < end:
        s = streams[g]
        stop = min(end, begins[g + 1])
        base, before, found_before = _U(at[s] * per_state), last[s], found
        for c in range(states):
            now[c] = heads[s, c]
        for i in range(_U(begin), _U(stop)):
            others = np.int64(0)
            if gaps:
                others = position[i] - before - 1
                before = position[i]
                if period > 0 and others > tail + period:
                    others = tail + (others - tail) % period
            # The events of others first, then this one.
            while others >= 0:
                cell = base + _U(symbol[i] if others == 0 else other) * _U(_WORDS)
                copy = moves[cell + _U(_COPY)]
                if gaps and others > 0 and copy == nothing:
                    others = np.int64(0)
                    continue
                others -= 1
                base = _U(moves[cell + _U(_NEXT)])
                if copy != _PROGRAM:
                    # Nearly all moves do one thing or nothing; a node that is not wanted is soon overwritten.
                    tuple_ = _U4(now[_U4(copy & 0xFFFF)])
                    m, ends = moves[cell + _U(_MARK)], moves[cell + _U(_ENDS)]
                    ref[nodes], marks[nodes], prev[nodes] = event[i], m, tuple_
                    length[nodes] = length[tuple_] + 1
                    now[_U4(copy >> 16)] = _U4(nodes) if m != 0 else tuple_
                    found_head[found] = nodes
                    found += _U(ends)
                    nodes += _U(m != 0)
                    continue
                count = 0
                program = cell // _U(_WORDS)
                for k in range(first[program], first[program + _U(1)]):
                    given_now = np.int32(NONE) if source[k] < 0 else now[source[k]]
                    if rival[k]:
                        a_now, b_now = mark[k] != 0, given_mark[count - 1] != 0
                        if target[k] == FINAL:
                            a_now = b_now = True
                        if is_better(given_now, a_now, given[count - 1], b_now, recent, ref, prev, length):
                            given[count - 1], given_mark[count - 1] = given_now, mark[k]
                    else:
                        given_to[count], given[count], given_mark[count] = target[k], given_now, mark[k]
                        count += 1
                for k in range(count):
                    head, to = given[k], given_to[k]
                    if given_mark[k] != 0 or to == FINAL:
                        ref[nodes], marks[nodes], prev[nodes] = event[i], given_mark[k] | 1, head
                        length[nodes] = length[head] + 1
                        head = np.int32(nodes)
                        nodes += _U(1)
                    if to != FINAL:
                        now[to] = head
                    else:
                        found_head[found] = head
                        found += _U(1)
        for c in range(states):
            heads[s, c] = now[c]
        at[s], last[s] = np.int64(base) // per_state, before
        for k in range(found_before, found):
            found_event[k], found_stream[k] = ref[_U4(found_head[k])], s
        begin = stop
        if stop == begins[g + 1]:
            g += 1
    return g, nodes, found


@part()
def _slid(
    begun: int,
    nodes: int,
    touched: Any,
    heads: Any,
    found: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
    slid: Any,
) -> Any:
    """Forget those of the newest nodes that nothing needs, and close the gaps: the rest stays small, and in cache.

    Without branches that depend on the nodes: older ones are all at place 0 of `used` and `slid`.
    """
    used[: nodes - begun + 1] = 0
    for s in touched:
        for c in range(heads.shape[1]):
            used[_U(max(heads[s, c] - begun + 1, 0))] = 1
    for k in range(found.size):
        used[_U(found[k] - begun + 1)] = 1
    for k in range(_U(nodes - begun), _U(0), -1):
        before = prev[_U(begun) + k - _U(1)] - begun + 1
        used[_U(before) if before > 0 else k] |= used[k]
    slid[0] = 0
    after = _U(begun)
    for node in range(_U(begun), _U(nodes)):
        k = node - _U(begun) + _U(1)
        slid[k] = node - after
        before = prev[node]
        ref[after], marks[after], length[after] = ref[node], marks[node], length[node]
        prev[after] = before - slid[_U(max(before - begun + 1, 0))]
        after += _U(used[k])
    for s in touched:
        for c in range(heads.shape[1]):
            heads[s, c] -= slid[_U(max(heads[s, c] - begun + 1, 0))]
    for k in range(found.size):
        found[k] -= slid[_U(found[k] - begun + 1)]
    return np.int64(after)


_PROGRAMS = (I4, I4, I4, I4, B1)


def _rows_and_moves(*arguments: Any) -> int:
    symbol, quiet = arguments[2], arguments[9]
    return len(symbol) + int(quiet.size)


@loop(takes(FOUND, *ROWS, *STREAMS, I4_2, B2, *_PROGRAMS, *OTHER, *NODES, I8, I8, I4), work=_rows_and_moves)
def _walked(
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
    nodes: Any,
    found_event: Any,
    found_stream: Any,
    found_head: Any,
) -> Any:
    states = heads.shape[1]
    width = states + 1
    moves = _moves(delta, quiet, first, target, source, mark, states)
    given = np.empty(width, np.int32)
    given_mark = np.empty(width, np.int32)
    given_to = np.empty(width, np.int32)
    now = np.zeros(states + 2, np.int32)
    rows = begins[streams.size]
    used = np.empty(min(rows, _BLOCK) * width + 1, np.uint8)
    slid = np.empty(used.size, np.int32)
    found: Any = 0
    g = 0
    for begin in range(begins[0], rows, _BLOCK):
        end = min(begin + _BLOCK, rows)
        # Room for a block of rows is made before it is walked, so that the walk itself meets no growing array.
        if nodes + (end - begin) * width >= ref.size:
            size = 2 * ref.size + _BLOCK * width
            ref, marks = larger(ref, nodes, size), larger(marks, nodes, size)
            prev, length = larger(prev, nodes, size), larger(length, nodes, size)
        g_after, nodes_after, found_after = _over_block(
            *(g, begin, end, streams, begins, symbol, position, event, at, last, heads),
            *(moves, quiet.shape[1] * _WORDS, first, target, source, mark, rival, other, tail, period, gaps, recent),
            *(ref, marks, prev, length, _U(nodes), given, given_mark, given_to, now),
            *(found_event, found_stream, found_head, _U(found)),
        )
        begun, nodes = nodes, np.int64(nodes_after)
        newest = found_head[found : np.int64(found_after)]
        if newest.size * _DENSE < nodes - begun:
            touched = streams[g : min(g_after + 1, streams.size)]
            nodes = _slid(begun, nodes, touched, heads, newest, ref, marks, prev, length, used, slid)
        g, found = g_after, np.int64(found_after)
    return ref, marks, prev, length, nodes, found_event[:found], found_stream[:found], found_head[:found]


def walk_automaton(*arguments: Any) -> Any:
    """Move every stream over its rows by the automaton and its programs; found are events, streams and tuples."""
    *before, ref, marks, prev, length, nodes = arguments
    rows, width = len(before[2]), before[7].shape[1] + 1
    # NumPy's memory comes in large pages, and is none until it is written; a row has at most one tuple that ends.
    room = nodes + rows + min(rows, _BLOCK) * width + 1
    arena = [np.empty(room, array.dtype) for array in (ref, marks, prev, length)]
    for more, array in zip(arena, (ref, marks, prev, length), strict=True):
        more[:nodes] = array[:nodes]
    found = (np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int64), np.empty(rows + 1, np.int32))
    return _walked(*before, *arena, nodes, *found)


@loop(takes(I8, I8, I8), work=_rows)
def ranks(partition: Any, length: Any) -> Any:
    """The position of each row in the history of its partition, whose lengths go up by as much."""
    position = np.empty(partition.size, np.int64)
    for i in range(partition.size):
        length[partition[i]] += 1
        position[i] = length[partition[i]]
    return position


@loop(takes(several(I8, I8), I4, I4, I4), work=_rows)
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


@loop(takes(I8, I8, I4, "boolean", I8, I4, I4), work=_rows)
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


@loop(takes(several(I4, I8, I8), I8, I8, I4, READ_ONLY, "int64", "int64", "boolean"), work=_rows)
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


@loop(takes(B1, I8, I4, I8, I8, I4), work=_rows)
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

"""The walk of streams that every event moves, named by it or not: see `spans`; for one tuple an event.

In: the history as those streams read it that its events do not name, and the rows at which one is named. A stream goes
from one such row to the next in as many spans as a number has digits, and notes its tuples with those in which the
expression takes place. When all streams are through, spans hand their tuples down to their halves, and at last to the
events. So nothing is done once per event and stream.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import B1, I4, I4_2, I8, I8_2, loop, part, takes
from augury.kernels.match.spans import (
    ADDED,
    AFTER,
    BEFORE,
    BEGIN,
    COLUMNS,
    END,
    ENDING,
    HEAD,
    KEPT,
    LEFT,
    LEVEL,
    NEXT,
    NODES,
    PLACE,
    RIGHT,
    SOURCE,
    SPANS,
    STATE,
    STILL,
    STREAM,
    TARGET,
    TUPLES,
    appended,
    bit_of,
    keep,
    moved,
    slot_of,
    slotted,
    span_of,
)
from augury.kernels.match.walk import (
    FINAL,
    FOUND,
    NONE,
    grown,
    is_better,
    larger,
)
from augury.kernels.match.walk import (
    NODES as NODE_TYPES,
)


@part()
def _wider(array: Any, used: int) -> Any:
    more = np.empty((2 * array.shape[0], array.shape[1]), array.dtype)
    more[:used] = array[:used]
    return more


@part()
def _roomier(ref: Any, marks: Any, prev: Any, length: Any, used: int) -> Any:
    size = 2 * ref.size + 1024
    return larger(ref, used, size), larger(marks, used, size), larger(prev, used, size), larger(length, used, size)


@part()
def _handed_down(
    f: int,
    recent: bool,
    span: Any,
    code: Any,
    kept: Any,
    given: Any,
    bound: Any,
    bits: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """Note the tuples of a span with its halves; False if there is no room: done again, it changes nothing."""
    left, right = span[f, LEFT], span[f, RIGHT]
    begin, end = span[left, BEGIN], span[left, END]
    given[:] = 0
    for j in range(begin, end):
        given[code[j, TARGET]] = 1
    i = span[f, TUPLES]
    while i != NONE:
        c, head = kept[i, STATE], kept[i, HEAD]
        # To the first half as it is; to the second if nothing was done to it, and once for each instruction.
        for j in range(begin - 2, end):
            half, t, tuple_ = left if j < begin - 1 else right, c, np.int64(head)
            if j >= begin:
                if code[j, SOURCE] != c:
                    continue
                t = code[j, TARGET]
            elif half == right and given[c] != 0:
                continue
            if span[half, ENDING] & bit_of(t) == 0:
                continue
            if j >= begin:
                if used[NODES] + length[code[j, ADDED]] > ref.size:
                    return False
                tuple_ = appended(head, code[j, ADDED], ref, marks, prev, length, used)
            if not keep(
                *(half, t, tuple_, kept[i, STREAM], recent, span, kept, bound, bits, ref, marks, prev, length, used)
            ):
                return False
        i = kept[i, NEXT]
    return True


def _places_by_digits(*arguments: Any) -> int:
    """Rows are put into spans, and these into longer ones; streams go from one row that names them to the next."""
    streams, symbol, said = arguments[0], arguments[4], arguments[6]
    return (len(streams) + len(symbol)) * len(said).bit_length() + 2 * len(said)


@loop(
    takes(
        FOUND,
        *(I8, I8, I8),  # streams, where each one's history begins and ends
        *(I8, I4, I8),  # the rows that name them: where each stream's begin, symbols, places
        *(I4, I8),  # the history: symbols, events
        *(I4, I4_2),  # of each stream the set of states, the tuple of each state
        *(I4_2, I4, I4, I4, I4, B1, "boolean"),  # delta, programs; recent
        *(I8_2, I4),  # the values of streams, the marks of variables
        *NODE_TYPES,
    ),
    work=_places_by_digits,
)
def walk_spans(
    streams: Any,
    lows: Any,
    highs: Any,
    begins: Any,
    symbol: Any,
    place: Any,
    said: Any,
    event: Any,
    at: Any,
    heads: Any,
    delta: Any,
    first: Any,
    target: Any,
    source: Any,
    mark: Any,
    rival: Any,
    recent: bool,
    bound: Any,
    bits: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    nodes: int,
) -> Any:
    """Move every stream over the history; found are events, streams and tuples: the best, and perhaps some others."""
    symbols, states = delta.shape[1], heads.shape[1]
    used = np.zeros(4, np.int64)
    used[NODES] = nodes
    span = np.empty((1024, COLUMNS), np.int32)
    code = np.empty((1024, 3), np.int32)
    kept = np.empty((1024, 4), np.int32)
    slots = np.full(4096, NONE, np.int32)
    where = np.full(states, NONE, np.int32)
    given = np.empty(states + 1, np.int32)
    given_mark = np.empty(states + 1, np.int32)
    given_to = np.empty(states + 1, np.int32)
    found_event = np.empty(1024, np.int64)
    found_stream = np.empty(1024, np.int64)
    found_head = np.empty(1024, np.int32)
    found = 0
    for g in range(streams.size):
        s = streams[g]
        q, now = at[s], heads[s]
        here = lows[g]
        for i in range(begins[g], begins[g + 1] + 1):
            until = place[i] if i < begins[g + 1] else highs[g]
            while here < until:
                level = 0
                while (here >> level) & 1 == 0 and here + (2 << level) <= until:
                    level += 1
                f = slots[slot_of(here, level, q, span, slots)]
                done, c = False, 0
                while not done:
                    if f == NONE:
                        f = span_of(
                            *(here, level, q, said, event, delta, first, target, source, mark, recent),
                            *(span, code, slots, where, ref, marks, prev, length, used),
                        )
                    done = f != NONE
                    while done and span[f, ENDING] != 0 and c < states:
                        done = now[c] == NONE or span[f, ENDING] & bit_of(c) == 0
                        done = done or keep(
                            *(f, c, now[c], s, recent, span, kept, bound, bits, ref, marks, prev, length, used)
                        )
                        c += 1 if done else 0
                    if done and span[f, STILL] == 0:
                        done = moved(f, now, given, recent, span, code, ref, marks, prev, length, used)
                    if not done:
                        # There was no room, and nothing was done that matters if it is done again.
                        span, code = _wider(span, used[SPANS]), _wider(code, code.shape[0])
                        kept, slots = _wider(kept, used[KEPT]), slotted(span, used[SPANS], 2 * slots.size)
                        ref, marks, prev, length = _roomier(ref, marks, prev, length, used[NODES])
                q = span[f, AFTER]
                here += 1 << level
            if i == begins[g + 1]:
                break
            # The event names this stream: as in `walk`.
            here = until + 1
            cell = q * symbols + symbol[i]
            q = delta[q, symbol[i]]
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
            while used[NODES] + count > ref.size:
                ref, marks, prev, length = _roomier(ref, marks, prev, length, used[NODES])
            for k in range(count):
                tuple_, to = given[k], given_to[k]
                if given_mark[k] != 0 or to == FINAL:
                    node = used[NODES]
                    ref[node], marks[node], prev[node] = event[until], given_mark[k] | 1, tuple_
                    length[node] = length[tuple_] + 1
                    tuple_ = np.int32(node)
                    used[NODES] += 1
                if to != FINAL:
                    now[to] = tuple_
                else:
                    found_event, found_stream = grown(found_event, found), grown(found_stream, found)
                    found_head = grown(found_head, found)
                    found_event[found], found_stream[found], found_head[found] = event[until], s, tuple_
                    found += 1
        at[s] = q
    # Halves come before what they are halves of.
    for f in range(used[SPANS] - 1, -1, -1):
        if span[f, TUPLES] == NONE:
            continue
        if span[f, LEVEL] > 0:
            while not _handed_down(f, recent, span, code, kept, given, bound, bits, ref, marks, prev, length, used):
                kept = _wider(kept, used[KEPT])
                ref, marks, prev, length = _roomier(ref, marks, prev, length, used[NODES])
            continue
        e = event[span[f, PLACE]]
        cell = span[f, BEFORE] * symbols + said[span[f, PLACE]]
        for k in range(first[cell], first[cell + 1]):
            i = span[f, TUPLES] if target[k] == FINAL else NONE
            while i != NONE:
                if kept[i, STATE] == source[k]:
                    node = used[NODES]
                    if node >= ref.size:
                        ref, marks, prev, length = _roomier(ref, marks, prev, length, node)
                    ref[node], marks[node], prev[node] = e, mark[k] | 1, kept[i, HEAD]
                    length[node] = length[kept[i, HEAD]] + 1
                    used[NODES] += 1
                    found_event, found_stream = grown(found_event, found), grown(found_stream, found)
                    found_head = grown(found_head, found)
                    found_event[found], found_stream[found], found_head[found] = e, kept[i, STREAM], node
                    found += 1
                i = kept[i, NEXT]
    return (
        *(ref, marks, prev, length, used[NODES]),
        *(found_event[:found], found_stream[:found], found_head[:found]),
    )

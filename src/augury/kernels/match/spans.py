"""Spans: stretches of a history that all streams read alike, each as one function of a stream's state; compiled.

An event that names a value is an event like any other to the streams of all other values. So of what a stream does
between two events that name it nothing depends on the stream but the state it is in: a span of 2^level events, for one
set of states, is worked out once, as two spans of half the length. What it does to tuples is a program as a single
move's is: each target is given the best among tuples of sources, with the events that the span marked put at their end.
Which of the tuples that a run from one state to another may mark is best does not depend on the tuple before them.

A span also keeps the best tuple per state of all streams that read it whole: those in one set of states have one
future, so only these can be the best at an event inside it. `walk_spans` hands them down to the events.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import part
from augury.kernels.match.walk import FINAL, NONE, is_better

# The columns of a span: where it begins, how long it is and the set of states before and after; its instructions;
# its halves; the states whose tuples end in it, as bits; whether it changes nothing; the tuples to be handed down.
PLACE, LEVEL, BEFORE, AFTER, BEGIN, END, LEFT, RIGHT, ENDING, STILL, TUPLES = range(11)
COLUMNS = 11
TARGET, SOURCE, ADDED = 0, 1, 2
"""An instruction: `target` is given the tuple of `source` (-1: none) and the events added; rivals follow each other."""
STATE, HEAD, STREAM, NEXT = 0, 1, 2, 3
"""A tuple that a span keeps, in a list."""
SPANS, CODE, NODES, KEPT = 0, 1, 2, 3
"""How many of each are used."""

_BITS = 30
"""States from this one on share the last bit."""
_DONE = -2
"""What the place of an instruction is taken from once its target has been seen to."""


# All of it is compiled into `walk_spans`, whose machine code is kept when this file changes: touch that one, too.
@part()
def slot_of(place: int, level: int, q: int, span: Any, slots: Any) -> Any:
    """Where a span stands, or would stand, among those that are known."""
    mask = slots.size - 1
    mixed = int(place) * 0x9E3779B1 + int(level) * 0x85EBCA77 + int(q) * 0xC2B2AE3D
    slot = (mixed ^ (mixed >> 17)) & mask
    while slots[slot] != NONE:
        f = slots[slot]
        if span[f, PLACE] == place and span[f, LEVEL] == level and span[f, BEFORE] == q:
            break
        slot = (slot + 1) & mask
    return slot


@part()
def slotted(span: Any, count: int, size: int) -> Any:
    """The spans that are known, with room for more."""
    slots = np.full(size, NONE, np.int32)
    for f in range(count):
        slots[slot_of(span[f, PLACE], span[f, LEVEL], span[f, BEFORE], span, slots)] = f
    return slots


@part()
def bit_of(state: int) -> Any:
    """The bit of a state among those whose tuples end."""
    return 1 << min(state, _BITS)


@part()
def appended(onto: int, added: int, ref: Any, marks: Any, prev: Any, length: Any, used: Any) -> Any:
    """A tuple with the events of another put at its end; whoever calls has seen that there is room for them."""
    if added == 0:
        return onto
    if onto == 0:
        return added
    size = length[added]
    node = used[NODES] + size - 1
    used[NODES] += size
    found = node
    while added != 0:
        ref[node], marks[node] = ref[added], marks[added]
        length[node] = length[onto] + length[added]
        prev[node] = node - 1 if prev[added] != 0 else onto
        node -= 1
        added = prev[added]
    return found


@part()
def span_of(
    place: int,
    level: int,
    q: int,
    said: Any,
    event: Any,
    delta: Any,
    first: Any,
    target: Any,
    source: Any,
    mark: Any,
    recent: bool,
    span: Any,
    code: Any,
    slots: Any,
    where: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """The span of 2^level events from a place on, for a set of states; NONE if there is no room to work it out."""
    halves = np.empty(64, np.int32)
    count = 0
    begin, end = place, place + (1 << level)
    while place < end:
        rank = level
        while place + (1 << rank) > end or (place - begin) & ((1 << rank) - 1) != 0:
            rank -= 1
        f = slots[slot_of(place, rank, q, span, slots)]
        while f == NONE and rank > 0:
            rank -= 1
            f = slots[slot_of(place, rank, q, span, slots)]
        if f == NONE:
            f = _event(
                place, q, said, event, delta, first, target, source, mark, span, code, ref, marks, prev, length, used
            )
            if f == NONE:
                return NONE
            slots[slot_of(place, 0, q, span, slots)] = f
        halves[count] = f
        count += 1
        place += 1 << rank
        q = span[f, AFTER]
        # As in counting: two spans of one length, the first of them at an even place, are one.
        while rank < level and (place - begin) & ((2 << rank) - 1) == 0:
            left, right = halves[count - 2], halves[count - 1]
            f = _both(left, right, recent, span, code, where, ref, marks, prev, length, used)
            if f == NONE:
                return NONE
            rank += 1
            slots[slot_of(span[f, PLACE], rank, span[f, BEFORE], span, slots)] = f
            count -= 1
            halves[count - 1] = f
    return halves[0]


@part()
def _event(
    place: int,
    q: int,
    said: Any,
    event: Any,
    delta: Any,
    first: Any,
    target: Any,
    source: Any,
    mark: Any,
    span: Any,
    code: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """The span of one event."""
    cell = q * delta.shape[1] + said[place]
    size = first[cell + 1] - first[cell]
    f, i, node = used[SPANS], used[CODE], used[NODES]
    if f >= span.shape[0] or i + size > code.shape[0] or node + size > ref.size:
        return NONE
    ending = 0
    for k in range(first[cell], first[cell + 1]):
        if target[k] == FINAL:
            ending |= bit_of(source[k])
            continue
        code[i, TARGET], code[i, SOURCE], code[i, ADDED] = target[k], source[k], 0
        if mark[k] != 0:
            ref[node], marks[node], prev[node], length[node] = event[place], mark[k], 0, 1
            code[i, ADDED] = node
            node += 1
        i += 1
    after = delta[q, said[place]]
    span[f, PLACE], span[f, LEVEL], span[f, BEFORE], span[f, AFTER] = place, 0, q, after
    span[f, BEGIN], span[f, END], span[f, LEFT], span[f, RIGHT] = used[CODE], i, NONE, NONE
    span[f, ENDING], span[f, STILL], span[f, TUPLES] = ending, i == used[CODE] and after == q, NONE
    used[SPANS], used[CODE], used[NODES] = f + 1, i, node
    return f


@part()
def _both(
    left: int,
    right: int,
    recent: bool,
    span: Any,
    code: Any,
    where: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """One span and the next as one; `where` has room for a number per state, all NONE."""
    f, out = used[SPANS], used[CODE]
    if f >= span.shape[0]:
        return NONE
    begin, end = span[left, BEGIN], span[left, END]
    for i in range(end - 1, begin - 1, -1):
        where[code[i, TARGET]] = i
    full = False
    i = span[right, BEGIN]
    while i < span[right, END] and not full:
        t = code[i, TARGET]
        given = out
        while i < span[right, END] and code[i, TARGET] == t and not full:
            b, added = code[i, SOURCE], code[i, ADDED]
            i += 1
            j = NONE if b < 0 else where[b]
            if j < NONE:
                j = _DONE - j
            if b >= 0 and j == NONE:
                full = out >= code.shape[0]
                if not full:
                    out = _rival(given, out, t, b, added, recent, code, ref, prev, length)
            while j != NONE and j < end and code[j, TARGET] == b:
                full = out >= code.shape[0] or used[NODES] + length[added] > ref.size
                if full:
                    break
                if code[j, SOURCE] >= 0:
                    tuple_ = appended(code[j, ADDED], added, ref, marks, prev, length, used)
                    out = _rival(given, out, t, code[j, SOURCE], tuple_, recent, code, ref, prev, length)
                j += 1
        if not full and out == given:
            full = out >= code.shape[0]
            if not full:
                code[out, TARGET], code[out, SOURCE], code[out, ADDED] = t, NONE, 0
                out += 1
        elif not full and out == given + 1 and code[given, SOURCE] == t and code[given, ADDED] == 0:
            # Nothing happens to it; but what the first half does to it must not be taken over below.
            out = given
        if not full and where[t] != NONE:
            where[t] = _DONE - where[t]
    for j in range(begin, end):
        t = code[j, TARGET]
        if where[t] >= 0 and not full:
            full = out >= code.shape[0]
            if not full:
                code[out, TARGET], code[out, SOURCE], code[out, ADDED] = t, code[j, SOURCE], code[j, ADDED]
                out += 1
    # What ends in the second half came from somewhere, or was there all the time.
    later = span[right, ENDING]
    ending = span[left, ENDING] | later
    for j in range(begin, end):
        if later & bit_of(code[j, TARGET]) != 0 and code[j, SOURCE] >= 0:
            ending |= bit_of(code[j, SOURCE])
        where[code[j, TARGET]] = NONE
    if full:
        return NONE
    after = span[right, AFTER]
    span[f, PLACE], span[f, LEVEL] = span[left, PLACE], span[left, LEVEL] + 1
    span[f, BEFORE], span[f, AFTER] = span[left, BEFORE], after
    span[f, BEGIN], span[f, END], span[f, LEFT], span[f, RIGHT] = used[CODE], out, left, right
    span[f, ENDING] = ending
    span[f, STILL] = out == used[CODE] and after == span[left, BEFORE]
    span[f, TUPLES] = NONE
    used[SPANS], used[CODE] = f + 1, out
    return f


@part()
def _rival(
    given: int,
    out: int,
    target: int,
    source: int,
    added: int,
    recent: bool,
    code: Any,
    ref: Any,
    prev: Any,
    length: Any,
) -> Any:
    """Add an instruction beside those for the same target, unless one of them is better whatever the tuples are."""
    j = given
    while j < out:
        # What is more recent is so whatever came before; the earliest depends on where it begins.
        if recent or code[j, SOURCE] == source:
            if is_better(code[j, ADDED], False, added, False, recent, ref, prev, length):
                return out
            if is_better(added, False, code[j, ADDED], False, recent, ref, prev, length):
                out -= 1
                for column in range(3):
                    code[j, column] = code[out, column]
                continue
            if code[j, SOURCE] == source:
                return out
        j += 1
    code[out, TARGET], code[out, SOURCE], code[out, ADDED] = target, source, added
    return out + 1


@part()
def moved(
    f: int,
    now: Any,
    given: Any,
    recent: bool,
    span: Any,
    code: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """Do to the tuples of a stream what a span does; False, and nothing is done, if there is no room."""
    begin, end = span[f, BEGIN], span[f, END]
    room = used[NODES]
    for i in range(begin, end):
        room += length[code[i, ADDED]]
    if room > ref.size:
        return False
    i = begin
    while i < end:
        t, k = code[i, TARGET], i
        i += 1
        best = np.int64(NONE)
        if code[k, SOURCE] >= 0 and not recent:
            best = appended(now[code[k, SOURCE]], code[k, ADDED], ref, marks, prev, length, used)
        while i < end and code[i, TARGET] == t:
            if recent:
                # Rivals add the same events, so those before decide.
                if is_better(now[code[i, SOURCE]], False, now[code[k, SOURCE]], False, recent, ref, prev, length):
                    k = i
            else:
                tuple_ = appended(now[code[i, SOURCE]], code[i, ADDED], ref, marks, prev, length, used)
                if is_better(tuple_, False, best, False, recent, ref, prev, length):
                    best = tuple_
            i += 1
        if code[k, SOURCE] >= 0 and recent:
            best = appended(now[code[k, SOURCE]], code[k, ADDED], ref, marks, prev, length, used)
        given[t] = best
    for i in range(begin, end):
        now[code[i, TARGET]] = given[code[i, TARGET]]
    return True


@part()
def _alike(a: int, b: int, s: int, r: int, bound: Any, bits: Any, marks: Any, prev: Any) -> Any:
    """Whether tuples of two streams, which have the same events, also bind variables to the same values."""
    binds = 0
    while a != 0:
        if marks[a] != marks[b]:
            return False
        binds |= marks[a]
        a, b = prev[a], prev[b]
    same = True
    for v in range(bits.size):
        same = same and (binds & bits[v] == 0 or bound[s, v] == bound[r, v])
    return same


@part()
def keep(
    f: int,
    c: int,
    head: int,
    stream: int,
    recent: bool,
    span: Any,
    kept: Any,
    bound: Any,
    bits: Any,
    ref: Any,
    marks: Any,
    prev: Any,
    length: Any,
    used: Any,
) -> Any:
    """Note a tuple with a span, unless a better one of the same state is there; False if there is no room.

    Of those with the same events all are kept that differ in values: `collect` chooses among them.
    """
    i = span[f, TUPLES]
    same = np.int64(NONE)
    while i != NONE:
        if kept[i, STATE] == c:
            if is_better(kept[i, HEAD], False, head, False, recent, ref, prev, length):
                return True
            if is_better(head, False, kept[i, HEAD], False, recent, ref, prev, length):
                same = i
                break
            if _alike(head, kept[i, HEAD], stream, kept[i, STREAM], bound, bits, marks, prev):
                return True
        i = kept[i, NEXT]
    if same != NONE:
        # It takes the place of the first; others with the events of that one are let go.
        kept[same, HEAD], kept[same, STREAM] = head, stream
        before, i = same, kept[same, NEXT]
        while i != NONE:
            if kept[i, STATE] == c:
                kept[before, NEXT] = kept[i, NEXT]
            else:
                before = i
            i = kept[i, NEXT]
        return True
    i = used[KEPT]
    if i >= kept.shape[0]:
        return False
    kept[i, STATE], kept[i, HEAD], kept[i, STREAM], kept[i, NEXT] = c, head, stream, span[f, TUPLES]
    span[f, TUPLES] = i
    used[KEPT] = i + 1
    return True

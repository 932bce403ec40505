"""The walk of a chunk of a history whose beginning is not known: from every state of runs at once.

In: symbols, and what each does to tuples. Out: for each state before the chunk and each after it the best part of a
tuple that the chunk adds, as a chain of nodes whose node 0 is whatever tuple came in. Nothing is found here.

Starts that have come to the same go on as one. A chain is made once: equal parts are one node, so that rows are
compared by numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import B1, B2, I4, I4_2, I8, loop, part, several, takes
from augury.kernels.match.walk import NONE, _slid, is_better, larger

_FIRST_BLOCK, _LAST_BLOCK = 64, 4096
"""Starts are compared after so many rows, and less often the longer nothing comes of it."""


@part()
def _is_beaten(one: Any, by: Any, ref: Any, prev: Any, length: Any) -> Any:
    """Whether each tuple of a start is less recent than the one that another start has in the same state."""
    for c in range(one.size):
        if one[c] == NONE:
            continue
        if by[c] == NONE or not is_better(by[c], False, one[c], False, True, ref, prev, length):
            return False
    return True


@part()
def _drop_beaten(heads: Any, which: Any, beside: Any, ref: Any, prev: Any, length: Any) -> Any:
    """Forget starts all of whose tuples are less recent than those of another that is there whenever they are."""
    for i in range(which.size):
        for k in range(which.size):
            if which[i] == NONE:
                break
            if not beside[i, k] or which[k] == NONE or which[k] == which[i]:
                continue
            if _is_beaten(heads[which[i]], heads[which[k]], ref, prev, length):
                which[i] = NONE


@part()
def _merge(heads: Any, which: Any, count: int) -> Any:
    """One row for the starts that have come to the same, none for those that have come to nothing; how many rows."""
    place = np.full(count, NONE, np.int32)
    kept = 0
    for r in range(count):
        if not (which == r).any() or (heads[r] == NONE).all():
            continue
        for q in range(kept):
            if place[r] == NONE and (heads[q] == heads[r]).all():
                place[r] = q
        if place[r] == NONE:
            # Never past r: what is overwritten has been read.
            heads[kept] = heads[r]
            place[r] = kept
            kept += 1
    for i in range(which.size):
        if which[i] != NONE:
            which[i] = place[which[i]]
    return kept


@loop(
    takes(
        several(I4_2, I8, I4, I4, I4, "int64"),
        *(I4, I8, I8, "int64", I4, I4, I4, I4, B1),
        *("int64", "int64", "int64", "boolean", "boolean", B2),
    ),
    work=lambda symbol, position, event, states, *_: len(symbol) * (1 + states),
)
def walk_from_each(
    symbol: Any,
    position: Any,
    event: Any,
    states: int,
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
    beside: Any,
) -> Any:
    """Heads by the state before and the state after, and the nodes; of the rows of a chunk symbols, positions, events.

    Instructions of a symbol are as `Programs` has them; `beside[i, k]` says that runs are in state k whenever they are
    in state i.
    """
    heads = np.full((states, states), NONE, np.int32)
    which = np.arange(states).astype(np.int32)
    for c in range(states):
        heads[c, c] = 0
    given = np.empty(states, np.int32)
    given_mark = np.empty(states, np.int32)
    given_to = np.empty(states, np.int32)
    size = 1024 + states * states
    ref = np.zeros(size, np.int64)
    marks, prev, length = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    nodes, begun, count, block = 1, 1, states, _FIRST_BLOCK
    until = block
    before = position[0] - 1 if gaps and symbol.size > 0 else 0
    no_tuples = np.empty(0, np.int32)
    for i in range(symbol.size):
        others = 0
        if gaps:
            others = position[i] - before - 1
            before = position[i]
            if period > 0 and others > tail + period:
                others = tail + (others - tail) % period
        if nodes + count * states >= ref.size:
            size = 2 * ref.size + count * states
            ref, marks = larger(ref, nodes, size), larger(marks, nodes, size)
            prev, length = larger(prev, nodes, size), larger(length, nodes, size)
        fresh = nodes
        # The events of others first, then this one; those of others are never part of a tuple where gaps matter.
        for rest in range(others, -1, -1):
            a = symbol[i] if rest == 0 else other
            for r in range(count):
                made = 0
                for k in range(first[a], first[a + 1]):
                    head = np.int32(NONE) if source[k] < 0 else heads[r, source[k]]
                    if not rival[k]:
                        given_to[made], given[made], given_mark[made] = target[k], head, mark[k]
                        made += 1
                    elif head != NONE:
                        best, now = given[made - 1], given_mark[made - 1] != 0
                        if best == NONE or is_better(head, mark[k] != 0, best, now, recent, ref, prev, length):
                            given[made - 1], given_mark[made - 1] = head, mark[k]
                for k in range(made):
                    head = given[k]
                    if head != NONE and given_mark[k] != 0:
                        node = fresh
                        while node < nodes and (prev[node] != head or marks[node] != given_mark[k]):
                            node += 1
                        if node == nodes:
                            ref[nodes], marks[nodes], prev[nodes] = event[i], given_mark[k], head
                            length[nodes] = length[head] + 1
                            nodes += 1
                        head = np.int32(node)
                    heads[r, given_to[k]] = head
        if i + 1 == until:
            if count > 1:
                if recent:
                    _drop_beaten(heads, which, beside, ref, prev, length)
                now_count = _merge(heads, which, count)
                block = min(_LAST_BLOCK, block * 2) if now_count == count else block
                count = now_count
            rows = np.arange(count)
            used, slid = np.empty(nodes - begun + 1, np.uint8), np.empty(nodes - begun + 1, np.int32)
            nodes = _slid(begun, nodes, rows, heads, no_tuples, ref, marks, prev, length, used, slid)
            begun = nodes
            until += block
    found = np.full((states, states), NONE, np.int32)
    for c in range(states):
        if which[c] != NONE:
            found[c] = heads[which[c]]
    return found, ref[:nodes].copy(), marks[:nodes].copy(), prev[:nodes].copy(), length[:nodes].copy(), nodes

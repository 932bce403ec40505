"""Occurrences as rows of one array, and queues of them: what the walk is made of. Compiled; it knows no operator.

A row is a version at a leaf, or two rows put together. Rows are counted by what refers to them and used again when
nothing does. A queue is a chain of rows, oldest first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import I8 as COLUMN
from augury.kernels.compiled import I8_2 as ROWS
from augury.kernels.compiled import inlined, part, takes
from augury.kernels.composite.flat.layout import (
    COUNT,
    END,
    FIELDS,
    FIRST,
    FREE,
    FREE_COUNT,
    HEAD,
    LEAST,
    MOST,
    NEXT,
    NOTHING,
    REFS,
    SECOND,
    SIZE,
    START,
    TAIL,
    TOP,
    UNTIL,
    VERSIONS,
)


@inlined
def is_full(arena: Any, counters: Any, wanted: int) -> Any:
    """Whether fewer rows than wanted are unused."""
    return arena.shape[0] - counters[TOP] + counters[FREE_COUNT] < wanted


@part(takes(ROWS, ROWS, COLUMN, "int64"))
def larger(arena: Any, counters: Any, wanted: int) -> Any:
    """An arena with room for more."""
    larger = np.empty((2 * arena.shape[0] + wanted, FIELDS), np.int64)
    larger[: counters[TOP]] = arena[: counters[TOP]]
    return larger


@inlined
def _row(arena: Any, counters: Any) -> Any:
    """A row that nothing uses: there has to be room."""
    row = counters[FREE]
    if row == NOTHING:
        row = counters[TOP]
        counters[TOP] += 1
    else:
        counters[FREE] = arena[row, NEXT]
        counters[FREE_COUNT] -= 1
    arena[row, REFS] = 0
    arena[row, NEXT] = NOTHING
    return row


@inlined
def leaf_row(arena: Any, counters: Any, version: int, place: int, occ_time: int, until: int) -> Any:
    """A version at a leaf."""
    row = _row(arena, counters)
    arena[row, START] = place
    arena[row, END] = place
    arena[row, LEAST] = occ_time
    arena[row, MOST] = occ_time
    arena[row, UNTIL] = until
    arena[row, FIRST] = version
    arena[row, SECOND] = NOTHING
    arena[row, SIZE] = 1
    counters[VERSIONS] += 1
    return row


@inlined
def both(arena: Any, counters: Any, one: int, other: int) -> Any:
    """Two occurrences put together."""
    row = _row(arena, counters)
    arena[row, START] = min(arena[one, START], arena[other, START])
    arena[row, END] = max(arena[one, END], arena[other, END])
    arena[row, LEAST] = min(arena[one, LEAST], arena[other, LEAST])
    arena[row, MOST] = max(arena[one, MOST], arena[other, MOST])
    arena[row, UNTIL] = min(arena[one, UNTIL], arena[other, UNTIL])
    arena[row, FIRST] = one
    arena[row, SECOND] = other
    arena[row, SIZE] = arena[one, SIZE] + arena[other, SIZE]
    arena[one, REFS] += 1
    arena[other, REFS] += 1
    return row


@inlined
def release(arena: Any, counters: Any, row: int) -> Any:
    """One reference less; rows that nothing refers to are free, and so on below them."""
    arena[row, REFS] -= 1
    if arena[row, REFS] > 0:
        return
    # What is dead waits in no queue, so its link serves the list of what is still to be freed.
    arena[row, NEXT] = NOTHING
    todo = row
    while todo != NOTHING:
        dead = todo
        todo = arena[dead, NEXT]
        if arena[dead, SECOND] == NOTHING:
            counters[VERSIONS] -= 1
        else:
            for field in (FIRST, SECOND):
                part = arena[dead, field]
                arena[part, REFS] -= 1
                if arena[part, REFS] == 0:
                    arena[part, NEXT] = todo
                    todo = part
        arena[dead, NEXT] = counters[FREE]
        counters[FREE] = dead
        counters[FREE_COUNT] += 1


@inlined
def append(arena: Any, queues: Any, queue: int, row: int) -> Any:
    """Let an occurrence wait in a queue."""
    arena[row, REFS] += 1
    arena[row, NEXT] = NOTHING
    if queues[queue, COUNT] == 0:
        queues[queue, HEAD] = row
    else:
        arena[queues[queue, TAIL], NEXT] = row
    queues[queue, TAIL] = row
    queues[queue, COUNT] += 1


@inlined
def unlink(arena: Any, counters: Any, queues: Any, queue: int, before: int, row: int) -> Any:
    """Take an occurrence out of a queue, given the one before it; the next one."""
    after = arena[row, NEXT]
    if before == NOTHING:
        queues[queue, HEAD] = after
    else:
        arena[before, NEXT] = after
    if after == NOTHING:
        queues[queue, TAIL] = before
    queues[queue, COUNT] -= 1
    release(arena, counters, row)
    return after


@part(takes("void", ROWS, COLUMN, "int64"))
def _by_place(arena: Any, rows: Any, count: int) -> Any:
    """Sort rows by where they start; they are few, or nearly in order."""
    if count > 64:
        places = np.empty(count, np.int64)
        for i in range(count):
            places[i] = arena[rows[i], START]
        rows[:count] = rows[:count][np.argsort(places)]
        return
    for i in range(1, count):
        row, at = rows[i], i
        while at > 0 and arena[rows[at - 1], START] > arena[row, START]:
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row


@part(takes(COLUMN, COLUMN, "int64", "int64"))
def longer(column: Any, used: int, wanted: int) -> Any:
    """A column that has room for more, with what was used of it."""
    larger = np.empty(2 * wanted + 16, np.int64)
    larger[:used] = column[:used]
    return larger


@part(takes("int64", ROWS, COLUMN, "int64"))
def versions_in(arena: Any, scratch: Any, row: int) -> Any:
    """Write the rows of the versions of an occurrence by place, each once, into a column twice its SIZE; how many."""
    # Found ones fill it from the front, those to be looked at from the back.
    count, top = 0, scratch.size - 1
    scratch[top] = row
    while top < scratch.size:
        one = scratch[top]
        if arena[one, SECOND] == NOTHING:
            scratch[count] = one
            count += 1
            top += 1
        else:
            scratch[top] = arena[one, SECOND]
            top -= 1
            scratch[top] = arena[one, FIRST]
    _by_place(arena, scratch, count)
    unique = 0
    for i in range(count):
        if unique == 0 or arena[scratch[unique - 1], START] != arena[scratch[i], START]:
            scratch[unique] = scratch[i]
            unique += 1
    return unique


@part(takes("boolean", ROWS, "int64", "int64"))
def is_before(arena: Any, one: int, other: int) -> Any:
    """Whether an occurrence has the older versions: its places, in order, come first."""
    if arena[one, START] != arena[other, START]:
        return arena[one, START] < arena[other, START]
    mine, theirs = np.empty(2 * arena[one, SIZE] + 2, np.int64), np.empty(2 * arena[other, SIZE] + 2, np.int64)
    count, others = versions_in(arena, mine, one), versions_in(arena, theirs, other)
    for i in range(min(count, others)):
        if arena[mine[i], START] != arena[theirs[i], START]:
            return arena[mine[i], START] < arena[theirs[i], START]
    return count < others


@part(takes("void", ROWS, COLUMN, "int64"))
def oldest_first(arena: Any, rows: Any, count: int) -> Any:
    """Sort occurrences by their versions; nearly always they are in order."""
    for i in range(1, count):
        row, at = rows[i], i
        while at > 0 and is_before(arena, row, rows[at - 1]):
            rows[at] = rows[at - 1]
            at -= 1
        rows[at] = row

"""The walk of contexts that work node by node: versions in order, each up the graph of its key. Compiled.

In: versions (leaf, key, place, times) and what waits. Out: which versions make each occurrence. A context is only how
operands are taken: the oldest, each, all at once, or every one of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import I8 as COLUMN
from augury.kernels.compiled import I8_2 as ROWS
from augury.kernels.compiled import borrowed, inlined, loop, part, several, takes
from augury.kernels.composite.flat.arena import (
    append,
    both,
    is_full,
    larger,
    leaf_row,
    longer,
    oldest_first,
    release,
    unlink,
    versions_in,
)
from augury.kernels.composite.flat.layout import (
    COUNT,
    DROPPED,
    END,
    FIRST,
    FLOOR_LEAST,
    FLOOR_UNTIL,
    HEAD,
    LEAST,
    MOST,
    NEXT,
    NOTHING,
    REFS,
    SIZE,
    START,
    UNTIL,
)
from augury.kernels.composite.flat.layout import SLOT as WAITS_AT
from augury.kernels.composite.flat.tables import (
    ABSENT,
    ABSENT_SLOT,
    AFTER,
    BOUNDED,
    EITHER,
    EVER,
    HIGH,
    INSTANT,
    KEEPS,
    KIND,
    LOW,
    NONE,
    OTHER,
    PARENT,
    REPEAT,
    SLOT,
    STATE,
    WITHIN,
)

OLDEST, EACH, ALL, EVERY = range(4)
"""How operands are taken; numbered as `protocol.Taking` is."""


@part(takes("void", ROWS, "int64", "int64", ROWS, COLUMN, ROWS, "int64", ROWS, "int64", "int64"))
def _sift(
    nodes: Any,
    at: int,
    field: int,
    arena: Any,
    counters: Any,
    queues: Any,
    first: int,
    floors: Any,
    state: int,
    least: int,
) -> Any:
    """Let go of what waits at a node and has less than `least` in a field, UNTIL or LEAST."""
    floor = EVER
    for which in (KEEPS, OTHER, ABSENT):
        if nodes[at, which] == NONE or (which == OTHER and nodes[at, OTHER] == nodes[at, KEEPS]):
            continue
        queue = first + nodes[at, which]
        before, row = NOTHING, queues[queue, HEAD] if queues[queue, COUNT] else NOTHING
        while row != NOTHING:
            if arena[row, field] < least:
                row = unlink(arena, counters, queues, queue, before, row)
            else:
                floor = min(floor, arena[row, field])
                before, row = row, arena[row, NEXT]
    floors[state, FLOOR_UNTIL if field == UNTIL else FLOOR_LEAST] = floor


@inlined
def _keep(
    arena: Any, counters: Any, queues: Any, queue: int, floors: Any, state: int, row: int, slot: int, most: int
) -> Any:
    """Let an operand wait; beyond the limit the oldest is let go."""
    if queues[queue, COUNT] >= most:
        unlink(arena, counters, queues, queue, NOTHING, queues[queue, HEAD])
        counters[DROPPED] += 1
    arena[row, WAITS_AT] = slot
    append(arena, queues, queue, row)
    floors[state, FLOOR_UNTIL] = min(floors[state, FLOOR_UNTIL], arena[row, UNTIL])
    floors[state, FLOOR_LEAST] = min(floors[state, FLOOR_LEAST], arena[row, LEAST])


@inlined
def _goes(nodes: Any, at: int, arena: Any, queues: Any, first: int, waiting: int, row: int) -> Any:
    """Whether an operand that waits at the other slot goes with a new one."""
    least = min(arena[waiting, LEAST], arena[row, LEAST])
    if max(arena[waiting, MOST], arena[row, MOST]) - least > nodes[at, WITHIN]:
        return False
    if nodes[at, KIND] != AFTER:
        return True
    if arena[waiting, END] >= arena[row, START]:
        return False
    if nodes[at, ABSENT] != NONE and queues[first + nodes[at, ABSENT], COUNT]:
        absent = queues[first + nodes[at, ABSENT], HEAD]
        while absent != NOTHING:
            if arena[waiting, END] < arena[absent, START] and arena[absent, END] < arena[row, START]:
                return False
            absent = arena[absent, NEXT]
    return True


@inlined
def _one_by_one(
    nodes: Any,
    at: int,
    taking: int,
    arena: Any,
    counters: Any,
    queues: Any,
    first: int,
    row: int,
    slot: int,
    made: Any,
    count: int,
) -> Any:
    """Put a new operand together with the oldest that it goes with, or with each; how many are made by then."""
    queue = first + nodes[at, KEEPS if slot == 1 else OTHER]
    before, waiting = NOTHING, queues[queue, HEAD] if queues[queue, COUNT] else NOTHING
    while waiting != NOTHING:
        if arena[waiting, WAITS_AT] == slot or not _goes(nodes, at, arena, queues, first, waiting, row):
            before, waiting = waiting, arena[waiting, NEXT]
            continue
        made[count] = both(arena, counters, waiting, row)
        arena[made[count], REFS] = 1
        count += 1
        if taking == EVERY:
            before, waiting = waiting, arena[waiting, NEXT]
            continue
        waiting = unlink(arena, counters, queues, queue, before, waiting)
        if taking == OLDEST:
            break
    return count


@part(takes("void", ROWS, "int64", ROWS, COLUMN, ROWS, "int64", COLUMN, "int64"))
def _take_out(nodes: Any, at: int, arena: Any, counters: Any, queues: Any, first: int, chosen: Any, taken: int) -> Any:
    """Take operands out of the queues of a node, given in the order of the queues."""
    gone = 0
    for which in (KEEPS, OTHER):
        if nodes[at, which] == NONE:
            continue
        queue = first + nodes[at, which]
        before, waiting = NOTHING, queues[queue, HEAD] if queues[queue, COUNT] else NOTHING
        while waiting != NOTHING and gone < taken:
            if waiting == chosen[gone]:
                gone += 1
                waiting = unlink(arena, counters, queues, queue, before, waiting)
            else:
                before, waiting = waiting, arena[waiting, NEXT]


@part(takes("int64", ROWS, "int64", ROWS, COLUMN, ROWS, "int64", "int64", "int64", COLUMN, "int64"))
def _all_at_once(
    nodes: Any, at: int, arena: Any, counters: Any, queues: Any, first: int, row: int, slot: int, made: Any, count: int
) -> Any:
    """Put a new operand together with all that go with it and with each other, if one is of the other slot."""
    if queues[first + nodes[at, KEEPS if slot == 1 else OTHER], COUNT] == 0:
        return count
    # What is chosen stands for now where later ones will be made.
    chosen, taken, others = made[count:], 0, 0
    least, most = arena[row, LEAST], arena[row, MOST]
    for which in (KEEPS, OTHER):
        if nodes[at, which] == NONE:
            continue
        waiting = queues[first + nodes[at, which], HEAD] if queues[first + nodes[at, which], COUNT] else NOTHING
        while waiting != NOTHING:
            low, high = min(least, arena[waiting, LEAST]), max(most, arena[waiting, MOST])
            is_other = arena[waiting, WAITS_AT] != slot
            if high - low <= nodes[at, WITHIN] and (
                not is_other or _goes(nodes, at, arena, queues, first, waiting, row)
            ):
                least, most = low, high
                others += is_other
                chosen[taken] = waiting
                taken += 1
            waiting = arena[waiting, NEXT]
    if others == 0:
        return count
    one = row
    for i in range(taken):
        one = both(arena, counters, one, chosen[i])
    arena[one, REFS] = 1
    _take_out(nodes, at, arena, counters, queues, first, chosen, taken)
    made[count] = one
    return count + 1


@part(takes("int64", ROWS, "int64", ROWS, COLUMN, ROWS, "int64", "int64", COLUMN, "int64"))
def _round(
    nodes: Any, at: int, arena: Any, counters: Any, queues: Any, first: int, row: int, made: Any, count: int
) -> Any:
    """With the operands that wait, if they are enough for a round."""
    queue = first + nodes[at, KEEPS]
    if queues[queue, COUNT] < nodes[at, LOW] - 1:
        return count
    one = row
    arena[one, REFS] += 1
    for _ in range(nodes[at, LOW] - 1):
        waiting = queues[queue, HEAD]
        whole = both(arena, counters, one, waiting)
        arena[whole, REFS] = 1
        release(arena, counters, one)
        one = whole
        unlink(arena, counters, queues, queue, NOTHING, waiting)
    made[count] = one
    return count + 1


@part(takes("void", ROWS, "int64", ROWS, COLUMN, ROWS, "int64", ROWS, "int64", "int64", "int64"))
def _stays_away(
    nodes: Any,
    at: int,
    arena: Any,
    counters: Any,
    queues: Any,
    first: int,
    floors: Any,
    state: int,
    row: int,
    most: int,
) -> Any:
    """Note what had better not have come."""
    left = first + nodes[at, KEEPS]
    if nodes[at, INSTANT] and arena[row, UNTIL] == EVER and nodes[at, WITHIN] == EVER:
        # It will not go away, and lies between all that waits and all that is to come.
        while queues[left, COUNT]:
            unlink(arena, counters, queues, left, NOTHING, queues[left, HEAD])
    else:
        _keep(arena, counters, queues, first + nodes[at, ABSENT], floors, state, row, ABSENT_SLOT, most)


@part(takes("void", ROWS, "int64", ROWS, COLUMN, ROWS, "int64"))
def _forget(nodes: Any, at: int, arena: Any, counters: Any, queues: Any, first: int) -> Any:
    """Let go of absences that lie between no waiting operand and any later one."""
    left, absent = first + nodes[at, KEEPS], first + nodes[at, ABSENT]
    while queues[absent, COUNT]:
        row = queues[absent, HEAD]
        if queues[left, COUNT] and arena[row, START] > arena[queues[left, HEAD], END]:
            return
        unlink(arena, counters, queues, absent, NOTHING, row)


@inlined
def _most_made(nodes: Any, at: int, taking: int, queues: Any, first: int) -> Any:
    """How many rows a new operand can need at a node, at most."""
    if nodes[at, KIND] == REPEAT:
        return nodes[at, LOW]
    if taking == OLDEST:
        return 1
    waiting = queues[first + nodes[at, KEEPS], COUNT]
    if nodes[at, OTHER] != NONE:
        waiting += queues[first + nodes[at, OTHER], COUNT]
    return waiting + 1


@inlined
def _arrive(
    nodes: Any,
    at: int,
    taking: int,
    slot: int,
    arena: Any,
    counters: Any,
    queues: Any,
    first: int,
    floors: Any,
    state: int,
    row: int,
    made: Any,
    before: int,
    most: int,
) -> Any:
    """A new operand at a node that keeps: how many are made with what it makes."""
    if nodes[at, WITHIN] != EVER and floors[state, FLOOR_LEAST] < arena[row, MOST] - nodes[at, WITHIN]:
        _sift(nodes, at, LEAST, arena, counters, queues, first, floors, state, arena[row, MOST] - nodes[at, WITHIN])
    count = before
    if nodes[at, KIND] == REPEAT:
        count = _round(nodes, at, arena, counters, queues, first, row, made, before)
    elif slot == 0 and nodes[at, KIND] == AFTER:
        pass
    elif taking == ALL:
        count = _all_at_once(nodes, at, arena, counters, queues, first, row, slot, made, before)
    else:
        count = _one_by_one(nodes, at, taking, arena, counters, queues, first, row, slot, made, before)
    is_used = count > before and (taking != EVERY or nodes[at, KIND] == REPEAT)
    if not is_used and (slot == 0 or nodes[at, KIND] != AFTER):
        queue = first + (nodes[at, OTHER] if slot == 1 else nodes[at, KEEPS])
        _keep(arena, counters, queues, queue, floors, state, row, slot, most)
    return count


@loop(
    takes("void", ROWS, "int64", "int64", "int64", "int64", ROWS, ROWS, ROWS, COLUMN),
    work=lambda nodes, queues_each, states_each, keys, *_: keys * len(nodes),
)
def sweep(
    nodes: Any,
    queues_each: int,
    states_each: int,
    keys: int,
    tick: int,
    queues: Any,
    floors: Any,
    arena: Any,
    counters: Any,
) -> Any:
    """Let go of what has expired by a tick, in every graph."""
    for key in range(keys):
        for at in range(nodes.shape[0]):
            state = key * states_each + nodes[at, STATE]
            if nodes[at, STATE] != NONE and tick > floors[state, FLOOR_UNTIL]:
                _sift(nodes, at, UNTIL, arena, counters, queues, key * queues_each, floors, state, tick)


def _versions_by_nodes(*arguments: Any) -> int:
    nodes, leaf = arguments[0], arguments[6]
    return len(leaf) * len(nodes)


@loop(
    takes(
        several(COLUMN, COLUMN, COLUMN, ROWS, COLUMN),
        *(ROWS, COLUMN, "int64", "int64", "int64", "int64"),  # the graph, its leaves, how they are taken, sizes
        *(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN, COLUMN, "int64"),  # versions
        *(ROWS, ROWS, ROWS, COLUMN),  # what waits
    ),
    work=_versions_by_nodes,
)
def walk(
    nodes: Any,
    leaf_nodes: Any,
    taking: int,
    queues_each: int,
    states_each: int,
    most: int,
    leaf: Any,
    key: Any,
    place: Any,
    occ_time: Any,
    until: Any,
    tick: Any,
    number: int,
    queues: Any,
    floors: Any,
    arena: Any,
    counters: Any,
) -> Any:
    """Versions one after the other, numbered from `number`.

    For each occurrence the version at which it takes place, where its versions begin, and these; then the arena, with
    the row of each version.
    """
    owner, arena = arena, borrowed(arena)
    nodes, counters, queues, floors = borrowed(nodes), borrowed(counters), borrowed(queues), borrowed(floors)
    events, begins, parts = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(256, np.int64)
    found, used = 0, 0
    new, made, scratch = np.empty(16, np.int64), np.empty(16, np.int64), np.empty(16, np.int64)
    rows = np.empty(leaf.size, np.int64)
    for i in range(leaf.size):
        if is_full(arena, counters, 1):
            owner = larger(arena, counters, 1)
            arena = borrowed(owner)
        rows[i] = new[0] = leaf_row(arena, counters, number + i, place[i], occ_time[i], until[i])
        arena[new[0], REFS] = 1
        news = 1
        at = leaf_nodes[leaf[i]]
        while news and nodes[at, PARENT] != NONE:
            slot = nodes[at, SLOT]
            at = nodes[at, PARENT]
            count = 0
            if nodes[at, KIND] == EITHER or (
                nodes[at, KIND] == BOUNDED and nodes[at, LOW] <= occ_time[i] <= nodes[at, HIGH]
            ):
                continue
            if nodes[at, KIND] != BOUNDED:
                first, state = key[i] * queues_each, key[i] * states_each + nodes[at, STATE]
                if tick[i] > floors[state, FLOOR_UNTIL]:
                    _sift(nodes, at, UNTIL, arena, counters, queues, first, floors, state, tick[i])
                if slot == ABSENT_SLOT:
                    _stays_away(nodes, at, arena, counters, queues, first, floors, state, new[0], most)
                else:
                    # Room for one operand after the other: all at once might be more than there is memory.
                    for j in range(news):
                        wanted = _most_made(nodes, at, taking, queues, first)
                        if count + wanted > made.size:
                            made = longer(made, count, count + wanted)
                        if is_full(arena, counters, wanted):
                            owner = larger(arena, counters, wanted)
                            arena = borrowed(owner)
                        row = new[j]
                        count = _arrive(
                            nodes,
                            at,
                            taking,
                            slot,
                            arena,
                            counters,
                            queues,
                            first,
                            floors,
                            state,
                            row,
                            made,
                            count,
                            most,
                        )
                    oldest_first(arena, made, count)
                if nodes[at, ABSENT] != NONE:
                    _forget(nodes, at, arena, counters, queues, first)
            for j in range(news):
                release(arena, counters, new[j])
            new, made, news = made, new, count
        for j in range(news):
            if 2 * arena[new[j], SIZE] + 2 > scratch.size:
                scratch = longer(scratch, 0, 2 * arena[new[j], SIZE] + 2)
            size = versions_in(arena, scratch, new[j])
            if found + 1 >= events.size:
                events, begins = longer(events, found, found + 2), longer(begins, found, found + 2)
            if used + size > parts.size:
                parts = longer(parts, used, used + size)
            events[found], begins[found] = i, used
            for p in range(size):
                parts[used + p] = arena[scratch[p], FIRST]
            found += 1
            used += size
            release(arena, counters, new[j])
    begins[found] = used
    return events[:found], begins[: found + 1], parts[:used], owner, rows

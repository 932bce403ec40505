"""The walk of RECENT: of each class the latest version, and at each arrival the whole expression. Compiled.

In: versions (leaf, key, place, times) and the latest of each leaf. Out: which versions make each occurrence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from augury.kernels.compiled import I8 as COLUMN
from augury.kernels.compiled import I8_2 as ROWS
from augury.kernels.compiled import loop, part, several, takes
from augury.kernels.composite.flat.layout import LATEST_OCC_TIME, LATEST_PLACE, LATEST_UNTIL, LATEST_VERSION
from augury.kernels.composite.flat.tables import AFTER, BOUNDED, HIGH, KIND, LEAF, LOW, NONE, PARENT, SLOT, WITHIN

_START, _END, _LEAST, _MOST, _OCC = range(5)
"""Of what takes place at a node."""


@part(takes("boolean", ROWS, COLUMN, ROWS, "int64", "int64", ROWS))
def _holds(nodes: Any, leaf_of: Any, latest: Any, first: int, tick: int, seen: Any) -> Any:
    """Whether the whole expression holds of the latest versions; every operand comes before what reads it."""
    for at in range(nodes.shape[0]):
        kind = nodes[at, KIND]
        if kind == LEAF:
            slot = first + leaf_of[at]
            if latest[slot, LATEST_PLACE] == NONE or latest[slot, LATEST_UNTIL] < tick:
                return False
            seen[at, _START] = seen[at, _END] = latest[slot, LATEST_PLACE]
            seen[at, _LEAST] = seen[at, _MOST] = seen[at, _OCC] = latest[slot, LATEST_OCC_TIME]
        elif kind == BOUNDED:
            if not nodes[at, LOW] <= seen[at, _OCC] <= nodes[at, HIGH]:
                return False
        elif seen[at, _MOST] - seen[at, _LEAST] > nodes[at, WITHIN]:
            return False
        parent = nodes[at, PARENT]
        if parent == NONE:
            continue
        if nodes[at, SLOT] == 0:
            seen[parent] = seen[at]
            continue
        if nodes[parent, KIND] == AFTER and seen[parent, _END] >= seen[at, _START]:
            return False
        seen[parent, _START] = min(seen[parent, _START], seen[at, _START])
        seen[parent, _LEAST] = min(seen[parent, _LEAST], seen[at, _LEAST])
        seen[parent, _MOST] = max(seen[parent, _MOST], seen[at, _MOST])
        if seen[at, _END] > seen[parent, _END]:
            seen[parent, _END] = seen[at, _END]
            seen[parent, _OCC] = seen[at, _OCC]
    return True


@part(takes("void", ROWS, "int64", "int64", COLUMN, "int64"))
def _take(latest: Any, first: int, leaves: int, parts: Any, begin: int) -> Any:
    """Write down the latest versions, oldest first, and clear them."""
    for j in range(leaves):
        at = begin + j
        while at > begin and latest[first + parts[at - 1], LATEST_PLACE] > latest[first + j, LATEST_PLACE]:
            parts[at] = parts[at - 1]
            at -= 1
        parts[at] = j
    for at in range(begin, begin + leaves):
        parts[at] = latest[first + parts[at], LATEST_VERSION]
    for j in range(leaves):
        latest[first + j, LATEST_PLACE] = NONE


def _versions_by_nodes(*arguments: Any) -> int:
    nodes, leaf = arguments[0], arguments[3]
    return len(leaf) * len(nodes)


@loop(
    takes(
        several(COLUMN, COLUMN),
        *(ROWS, COLUMN, COLUMN),  # the graph and its leaves
        *(COLUMN, COLUMN, COLUMN, COLUMN, COLUMN, COLUMN, "int64", ROWS),  # versions, and the latest
    ),
    work=_versions_by_nodes,
)
def walk_recent(
    nodes: Any,
    leaf_nodes: Any,
    leaf_of: Any,
    leaf: Any,
    key: Any,
    place: Any,
    occ_time: Any,
    until: Any,
    tick: Any,
    number: int,
    latest: Any,
) -> Any:
    """Versions one after the other, numbered from `number`.

    For each occurrence the version at which it takes place, and its versions, one a leaf.
    """
    leaves = leaf_nodes.size
    events, parts = np.empty(leaf.size, np.int64), np.empty(64, np.int64)
    found = 0
    seen = np.empty((nodes.shape[0], 5), np.int64)
    for i in range(leaf.size):
        first = key[i] * leaves
        mine = first + leaf[i]
        latest[mine, LATEST_PLACE] = place[i]
        latest[mine, LATEST_OCC_TIME] = occ_time[i]
        latest[mine, LATEST_UNTIL] = until[i]
        latest[mine, LATEST_VERSION] = number + i
        complete = True
        for j in range(leaves):
            complete = complete and latest[first + j, LATEST_PLACE] != NONE
        if not complete or not _holds(nodes, leaf_of, latest, first, tick[i], seen):
            continue
        if (found + 1) * leaves > parts.size:
            larger = np.empty(2 * parts.size + leaves, np.int64)
            larger[: found * leaves] = parts[: found * leaves]
            parts = larger
        events[found] = i
        _take(latest, first, leaves, parts, found * leaves)
        found += 1
    return events[:found].copy(), parts[: found * leaves].copy()

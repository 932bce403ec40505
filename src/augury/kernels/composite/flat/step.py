"""One step of a flat graph: a state and a batch in, the state after it and occurrences out.

It has no timers, so the clock makes no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from augury import limits
from augury.algebra.expression import Feed
from augury.event import EventClass
from augury.kernels.batch import NO_SEQ, Batch, Integers, Occurrences
from augury.kernels.composite.detector import Detector
from augury.kernels.composite.flat import layout as at
from augury.kernels.composite.flat.giving import given
from augury.kernels.composite.flat.state import HELD_SPARE, FlatState
from augury.kernels.composite.flat.versions import Versions, versions_of
from augury.kernels.composite.protocol import Taking
from augury.kernels.match.shared import Shared


def step_flat(
    detector: Detector,
    state: FlatState,
    batch: Batch,
    into: Sequence[tuple[EventClass, Sequence[Feed]]],
    chronon_us: int,
    shared: Shared,
) -> tuple[FlatState, list[Occurrences]]:
    """Read a batch for classes that differ in what feeds their attributes only; the state given is used up."""
    versions = versions_of(detector, state, batch, shared)
    if len(versions.at):
        state.grow(int(versions.key.max()) + 1)
    det_time = batch.det_time[versions.index]
    occ_time = np.ascontiguousarray(batch.occ_time[versions.index])
    columns = (versions.leaf, versions.key, versions.place, occ_time, versions.until())
    # The purge of a tick comes after what timers have completed at it: those versions have no `seq`.
    tick = (det_time - (batch.seq[versions.index] == NO_SEQ)) // chronon_us * chronon_us
    if state.flat.taking is Taking.LATEST:
        events, begins, parts, new = _recent(state, (*columns, tick))
    else:
        events, begins, parts, new = _stepwise(state, (*columns, tick))
    found = [given(versions, event_class, feeds, events, begins, parts) for event_class, feeds in into]
    _hold(state, versions, new)
    if len(tick) and len(state.held) > HELD_SPARE + 2 * state.swept:
        _sweep(state, int(tick[-1]))
    return state, found


def _stepwise(state: FlatState, columns: tuple[Integers, ...]) -> tuple[Integers, Integers, Integers, Integers]:
    """The walk; the last array has the rows of the arena that the versions got."""
    # Compiled when imported: only what runs flat pays for it.
    from augury.kernels.composite.flat.walk import walk

    flat = state.flat
    numbers = (int(flat.taking), flat.queues, flat.states, limits.COMPOSITE_KEPT_MAX)
    events, begins, parts, state.arena, rows = walk(
        flat.nodes,
        flat.leaf_nodes,
        *numbers,
        *columns,
        len(state.held),
        state.queues,
        state.floors,
        state.arena,
        state.counters,
    )
    is_mine = (state.arena[rows, at.REFS] > 0) & (state.arena[rows, at.SECOND] == at.NOTHING)
    is_mine &= state.arena[rows, at.FIRST] == len(state.held) + np.arange(len(rows))
    return events, begins, parts, rows[is_mine]


def _recent(state: FlatState, columns: tuple[Integers, ...]) -> tuple[Integers, Integers, Integers, Integers]:
    """The walk of RECENT; the last array has the places of new versions that are the latest."""
    from augury.kernels.composite.flat.walk_recent import walk_recent

    flat = state.flat
    leaves = len(flat.leaf_nodes)
    leaf_of = np.full(len(flat.nodes), -1, np.int64)
    leaf_of[flat.leaf_nodes] = np.arange(leaves)
    events, parts = walk_recent(flat.nodes, flat.leaf_nodes, leaf_of, *columns, len(state.held), state.latest)
    touched = (np.unique(columns[1])[:, None] * leaves + np.arange(leaves)).ravel()
    is_new = (state.latest[touched, at.LATEST_PLACE] >= 0) & (
        state.latest[touched, at.LATEST_VERSION] >= len(state.held)
    )
    return events, np.arange(len(events) + 1) * leaves, parts, touched[is_new]


def _hold(state: FlatState, versions: Versions, new: Integers) -> None:
    """Hold the versions of a batch that wait for others."""
    recent = state.flat.taking is Taking.LATEST
    rows, number = (state.latest, at.LATEST_VERSION) if recent else (state.arena, at.FIRST)
    if len(new):
        before = len(state.held)
        state.held = state.held.and_then(versions.taken(rows[new, number]))
        rows[new, number] = before + np.arange(len(new))


def _sweep(state: FlatState, tick: int) -> None:
    """Let go of what has expired by a tick, and of the versions that nothing waits with any more."""
    if state.flat.taking is Taking.LATEST:
        state.latest[state.latest[:, at.LATEST_UNTIL] < tick, at.LATEST_PLACE] = at.NOTHING
        rows, number = state.latest, at.LATEST_VERSION
        is_live = state.latest[:, at.LATEST_PLACE] != at.NOTHING
    else:
        from augury.kernels.composite.flat.walk import sweep

        flat = state.flat
        arrays = (state.queues, state.floors, state.arena, state.counters)
        sweep(flat.nodes, flat.queues, flat.states, state.keys, tick, *arrays)
        rows, number = state.arena[: state.counters[at.TOP]], at.FIRST
        is_live = (rows[:, at.REFS] > 0) & (rows[:, at.SECOND] == at.NOTHING)
    numbers, where = np.unique(rows[is_live, number], return_inverse=True)
    rows[is_live, number] = where
    state.held = state.held.take(numbers)
    state.swept = len(numbers)

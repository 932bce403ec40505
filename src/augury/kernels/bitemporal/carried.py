"""The state of a class under other statements: the same events, with what the statements of now ask about them.

In: the state of a class, and what its statements look at now. Out: a state of these statements. What only the
statements before could have kept is not known: no version has fired for a new statement, an action that nobody asked
about has not FIRED, and of versions before the current ones a new ONTIME finds no values.
"""

from __future__ import annotations

import numpy as np

from augury.kernels.bitemporal.due import Due, tick_after
from augury.kernels.bitemporal.live import NO_VERSION, NOT_FIRED, LiveView, live_view
from augury.kernels.bitemporal.tick import ClassState
from augury.kernels.bitemporal.watch import Watch


def carried(state: ClassState, watched: Watch, tick: int | None, chronon_us: int) -> ClassState:
    """The state after a tick, of a class that has the same attributes and key; the one given is used up."""
    view = state.view
    if [one.said for one in view.watch.statements] == [one.said for one in watched.statements]:
        view.watch = watched
        return state
    found = _viewed(view, watched)
    on_time = Due()
    if watched.timed and tick is not None:
        slots = np.flatnonzero(found.number[: found.used] != NO_VERSION)
        times = tick_after(found.times["occ"][slots], chronon_us)
        later = times > tick
        number = found.number[slots[later]]
        on_time.add(times[later], slots[later], number, found.number)
    return ClassState(found, on_time)


def _viewed(view: LiveView, watched: Watch) -> LiveView:
    found, capacity = live_view(watched), len(view.keys)
    found.slots, found.keys, found.cells, found.times = view.slots, view.keys, view.cells, view.times
    found.has_old, found.free, found.leaving = view.has_old, view.free, view.leaving
    found.used, found.read = view.used, view.read
    for name, cells in found.kept_old.items():
        cells.grow(capacity)
        cells.absent[:] = True
        if name in view.kept_old:
            found.kept_old[name] = view.kept_old[name]
    had = {one.said: place for place, one in enumerate(view.watch.statements)}
    for place in found.fired_for:
        before = view.fired_for.get(had.get(watched.statements[place].said, -1))
        found.fired_for[place] = np.zeros(capacity, np.bool_) if before is None else before
    for name in found.fired_at:
        known = view.fired_at.get(name)
        found.fired_at[name] = np.full(capacity, NOT_FIRED) if known is None else known
    return found

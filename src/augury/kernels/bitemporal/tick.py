"""One tick of one class: read, decide, and know when the next versions are on time.

In: the versions of a tick. Out: what fires. It puts `live`, `due` and `conditions` together, and nothing else: which
ticks there are, other classes, expiry and what becomes of actions are the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from augury.kernels.bitemporal.conditions import Fired, decide
from augury.kernels.bitemporal.due import Due, tick_after
from augury.kernels.bitemporal.live import LiveView, Sight, Versions, live_view, read, recall
from augury.kernels.bitemporal.watch import Watch


@dataclass(slots=True)
class ClassState:
    """The view of a class, and when its versions ahead are on time; that is kept only if a statement asks."""

    view: LiveView
    on_time: Due

    def next_due(self) -> int:
        """The next tick with work to do if no version comes; ticks before it may be left out."""
        return self.on_time.next_due()


def class_state(watched: Watch) -> ClassState:
    """Before the first version."""
    return ClassState(live_view(watched), Due())


def take(state: ClassState, versions: Versions, tick: int, chronon_us: int) -> Sight:
    """Read the versions of a tick; gives what was read, for `decided`."""
    return read(state.view, versions, tick, chronon_us)


def decided(state: ClassState, seen: Sight | None, tick: int, chronon_us: int) -> Fired:
    """What fires at a tick for what it read, if it read anything, and for the events that are on time."""
    view, sights = state.view, [] if seen is None else [seen]
    # After the reading: what it replaced is due no more.
    due = state.on_time.pop(tick, view.number).slot
    if len(due):
        sights.append(recall(view, due, tick, chronon_us))
    if seen is not None and view.watch.timed:
        later = np.flatnonzero(seen.facts.new_ahead)
        times = tick_after(seen.facts.new_occ[later], chronon_us)
        state.on_time.add(times, seen.slot[later], seen.number[later], view.number)
    return decide(view, sights, tick)


def step(state: ClassState, versions: Versions | None, tick: int, chronon_us: int) -> tuple[Sight | None, Fired]:
    """Read the versions of a tick, if there are any, and decide; gives what was read and what fires."""
    seen = None if versions is None or not len(versions) else take(state, versions, tick, chronon_us)
    return seen, decided(state, seen, tick, chronon_us)

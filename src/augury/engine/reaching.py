"""How far time has gone in a state, and how far it has to go for an event to be read before its tick.

In: a state, the clock, when events were detected. Out: times, and which switches were made by them. It reads no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from augury.engine.plan import EnginePlan
from augury.engine.state import EngineState
from augury.engine.steps import turn
from augury.engine.tick import tick_at_most
from augury.kernels.firing import Turned

_AHEAD_US: Final = 1_000_000
"""An event that was posted a moment ago may be a moment ahead of a clock that is asked again."""


def reached(state: EngineState) -> int | None:
    """How far time has gone: to the last step of the chronon, or the last tick; None before the first."""
    return state.tick if state.chronon.upto is None else state.chronon.upto


def begins_at(now: int, came: Iterable[int], chronon_us: int) -> int:
    """What counts as the tick before the first, where a clock is followed from now on: what came before is read, too.

    Where there was no clock, what came has no time, which is less than 0.
    """
    return tick_at_most(min([now, *(time for time in came if time >= 0)]), chronon_us)


def to_be_read(state: EngineState, det_time: int | None, now: int | None) -> int | None:
    """How far time has to go to read an event; None if that is later than now. Without a clock it may go anywhere."""
    known = [time for time in (reached(state), det_time, 0) if time is not None]
    if now is None:
        return max(known)
    return None if det_time is not None and det_time > now + _AHEAD_US else max(now, *known)


def now_or_later(state: EngineState, now: int) -> int:
    """Now, or as far as time has gone already."""
    return max(now, reached(state) or 0)


def tick_before(plan: EnginePlan, state: EngineState, upto: int) -> int | None:
    """The tick that has to be done before a step may go so far; None if it was done."""
    last, begun = tick_at_most(upto, plan.chronon_us), reached(state)
    return last if begun is None or begun < last else None


def first_before(times: Iterable[int], until: int) -> int | None:
    """The first of some times, if it comes before another."""
    first = min(times, default=until)
    return first if first < until else None


def turns_after(turns: Sequence[Turned], tick: int | None) -> list[Turned]:
    """The switches that were made after a tick; all of them if there was none."""
    return [one for one in turns if tick is None or (one.after_us is not None and one.after_us >= tick)]


def turn_by_now(state: EngineState, left: list[Turned]) -> None:
    """Make the switches that were made by now, and take them from the list."""
    while left and left[0].after_seq <= state.seq and (left[0].after_us or 0) <= (reached(state) or 0):
        one = left.pop(0)
        turn(state.triggers, one.kind, one.name, one.on)

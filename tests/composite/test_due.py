"""When the next timer of a COMPOSITE is due: ticks before that may be left out."""

from __future__ import annotations

import pytest

from augury.kernels.bitemporal.due import NEVER
from augury.kernels.composite import detector_of, initial_state, step
from augury.kernels.composite.flat.state import FlatState
from augury.kernels.composite.saved import loaded, saved
from tests.composite.columns import CLASSES, Shown, found_class, living, shown
from tests.composite.generate import Generated, case
from tests.match.columns import batch


def ticked(g: Generated, skips_idle: bool, through_bytes: bool = False) -> tuple[list[Shown], int]:
    """What a run by ticks finds, and how many ticks it left out."""
    classes, detector = living(CLASSES, g.lifespans_us), detector_of(g.plan)
    state = initial_state(detector, classes)
    found: list[Shown] = []
    idle, last = 0, -1
    for tick in range(0, g.until_us + g.chronon_us, g.chronon_us):
        events = [event for event in g.history if last < event.det_time <= tick]
        last = tick
        if skips_idle and not events and state.next_due() > tick:
            idle += 1
            continue
        part = batch(events, classes)
        state, occurrences = step(detector, state, part, found_class(g.plan), g.chronon_us, tick)
        found += shown(occurrences)
        assert state.next_due() > tick
        if isinstance(state, FlatState):
            assert state.next_due() == NEVER
        if through_bytes:
            next_due = state.next_due()
            state = loaded(saved(state, detector, classes), detector, classes)
            assert state.next_due() >= next_due
    return found, idle


@pytest.mark.parametrize("fifty", range(4))
def test_ticks_at_which_nothing_is_due_may_be_left_out(fifty: int) -> None:
    idle = by_timer = 0
    for seed in range(fifty * 50, fifty * 50 + 50):
        g = case(seed)
        found, _ = ticked(g, skips_idle=False)
        skipped = ticked(g, skips_idle=True)
        assert skipped[0] == found, seed
        assert ticked(g, skips_idle=True, through_bytes=True)[0] == found, seed
        idle += skipped[1]
        by_timer += sum(seq is None for seq, *_ in found)
    assert idle > 50
    assert by_timer > 20


def test_before_the_first_version_nothing_is_due() -> None:
    for seed in range(20):
        assert initial_state(detector_of(case(seed).plan), CLASSES).next_due() == NEVER

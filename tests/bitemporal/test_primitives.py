"""Every cell of the table of timing primitives, by hand; the tick is 100 and ends the chronon [90, 100)."""

from __future__ import annotations

import numpy as np
import pytest

from augury.algebra.scalar import Timing, TimingPrimitive
from augury.kernels.bitemporal.primitives import Facts, fired, holds, late
from tests.bitemporal.ticks import events

TICK, CHRONON = 100, 10
PLAIN = [primitive for primitive in TimingPrimitive if primitive is not TimingPrimitive.FIRED]

# What happens to one event before tick 100: (tick, occ_time), None withdraws.
OLD: dict[str, list[tuple[int, int | None]]] = {
    "no old": [],
    "old ahead": [(40, 120)],
    "old just ahead": [(40, 100)],
    "old happened": [(40, 50)],
    "old happened before it was read": [(40, 20)],
    "old happened in this chronon": [(40, 95)],
    "old at the beginning of this chronon": [(40, 90)],
    "old withdrawn": [(40, 50), (70, None)],
}
NEW: dict[str, tuple[int | None, ...]] = {
    "ahead": (130, 100),
    "in this chronon": (95, 90, 99),
    "past": (89, 80),
    "withdrawn": (None,),
}

NO_OLD = {
    "ahead": "ANNOUNCEMENT FUTURE",
    "in this chronon": "ANNOUNCEMENT ONTIME",
    "past": "ANNOUNCEMENT LATE",
    "withdrawn": "",
}
AHEAD = {
    "ahead": "CHANGE FUTURE",
    "in this chronon": "CHANGE ONTIME",
    "past": "CHANGE LATE",
    "withdrawn": "CANCELLATION",
}
HAPPENED = {
    "ahead": "POSTPONE FUTURE",
    "in this chronon": "RETROACTIVECHANGE",
    "past": "RETROACTIVECHANGE",
    "withdrawn": "REVOCATION",
}
# Replaced at the very tick at which it would have been on time, OLD never was.
JUST_NOW = {
    "ahead": "POSTPONE FUTURE",
    "in this chronon": "RETROACTIVECHANGE ONTIME",
    "past": "RETROACTIVECHANGE LATE",
    "withdrawn": "REVOCATION",
}
TABLE = {
    "no old": NO_OLD,
    "old ahead": AHEAD,
    "old just ahead": AHEAD,
    "old happened": HAPPENED,
    "old happened before it was read": HAPPENED,
    "old happened in this chronon": JUST_NOW,
    "old at the beginning of this chronon": JUST_NOW,
    "old withdrawn": NO_OLD,
}
CELLS = [(old, new, occ) for old in TABLE for new in NEW for occ in NEW[new]]


@pytest.mark.parametrize(("old", "new", "occ"), CELLS)
def test_a_cell_of_the_table_holds_exactly_what_it_says(old, new, occ):
    one = events(*(f"ON {primitive} DO {primitive}()" for primitive in PLAIN))
    for tick, before in OLD[old]:
        one.tick(tick, [(before, tick - 1, (1, 0))])
    fires = one.names(TICK, [(occ, TICK - 1, (1, 0))])
    assert set(fires) == set(TABLE[old][new].split())


def facts(fresh=True, **columns) -> Facts:
    """One event that was announced for 95, unless the columns say otherwise."""
    row = {"has_old": False, "old_occ": 0, "new_occ": 95, "new_det": 95, "withdrawn": False} | columns
    return Facts(TICK, CHRONON, fresh, **{name: np.array([value]) for name, value in row.items()})


@pytest.mark.parametrize("old", [{}, {"has_old": True, "old_occ": 120}, {"has_old": True, "old_occ": 50}])
@pytest.mark.parametrize("new_occ", [80, 95, 130])
def test_at_a_tick_that_did_not_read_the_version_only_on_time_holds(old, new_occ):
    known = facts(fresh=False, new_occ=new_occ, **old)
    found = [primitive for primitive in PLAIN if holds(Timing(primitive), known).any()]
    assert found == ([TimingPrimitive.ONTIME] if new_occ == 95 else [])


@pytest.mark.parametrize("new_occ", [80, 95])
def test_what_has_been_on_time_or_late_is_neither_again(new_occ):
    known = facts(new_occ=new_occ, has_old=True, old_occ=50)
    assert not holds(Timing(TimingPrimitive.ONTIME), known).any()
    assert not holds(Timing(TimingPrimitive.LATE), known).any()


@pytest.mark.parametrize(
    ("occ", "det", "minimum", "maximum", "expected"),
    [
        (80, 95, None, None, True),
        (80, 95, 10, 10, True),  # a delay of 15, less its remainder by 10
        (80, 95, 11, 20, False),
        (80, 95, 0, 9, False),
        (80, 95, 10, 20, True),
        (80, 95, 0, 10, True),
        (80, 90, 10, 10, True),
        (80, 99, 10, 10, True),
        (79, 99, 20, 30, True),
        (79, 99, 0, 19, False),
        (89, 90, 0, 0, True),  # a delay of 1, less its remainder
        (89, 90, 1, 10, False),
        (90, 99, 0, 10, False),  # in the chronon of this tick: on time, not late
    ],
)
def test_late_compares_the_delay_in_whole_chronons_with_both_bounds(occ, det, minimum, maximum, expected):
    assert late(facts(new_occ=occ, new_det=det), minimum, maximum).tolist() == [expected]


def test_a_bounded_late_out_of_its_bounds_still_counts_as_having_been_late():
    one = events("ON LATE(1s, 2s) DO a()", "ON LATE DO b()")
    assert one.names(TICK, [(80, 95, (1, 0))]) == ["b"]
    assert one.names(TICK + 10, [(81, 105, (1, 0))]) == []


def test_fired_sees_earlier_ticks_only():
    assert fired(np.array([90, 100, 2**63 - 1]), facts()).tolist() == [True, False, False]

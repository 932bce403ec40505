"""The index of times, against a list of entries."""

from __future__ import annotations

import numpy as np
import pytest

from augury.kernels.bitemporal.due import NEVER, Due, tick_after


def array(*numbers):
    return np.array(numbers, np.int64)


def test_what_is_due_comes_in_order_of_time_and_slot_and_only_once():
    due, generations = Due(), array(0, 0, 0, 0)
    due.add(array(30, 10, 20, 10), array(0, 3, 1, 2), array(0, 0, 0, 0), generations)
    assert due.next_due() == 10
    found = due.pop(20, generations)
    assert (found.time.tolist(), found.slot.tolist()) == ([10, 10, 20], [2, 3, 1])
    assert due.next_due() == 30
    assert len(due.pop(29, generations)) == 0
    assert due.pop(30, generations).slot.tolist() == [0]
    assert due.next_due() == NEVER


def test_an_entry_of_an_earlier_generation_is_overtaken():
    due, generations = Due(), array(5)
    due.add(array(10), array(0), array(5), generations)
    generations[0] = 6
    due.add(array(20), array(0), array(6), generations)
    assert len(due.pop(10, generations)) == 0
    assert due.pop(20, generations).slot.tolist() == [0]


def test_nothing_is_kept_for_never():
    due = Due()
    due.add(array(NEVER, NEVER), array(0, 1), array(0, 0), array(0, 0))
    assert len(due) == 0
    assert due.next_due() == NEVER


def test_entries_that_are_overtaken_again_and_again_do_not_pile_up():
    due, generations = Due(), np.zeros(100, np.int64)
    slots = np.arange(100)
    for generation in range(1000):
        generations[:] = generation
        due.add(np.full(100, 10**6 + generation), slots, generations.copy(), generations)
    assert len(due) < 1000
    assert len(due.runs) < 10


def test_a_tick_with_nothing_due_looks_at_no_run():
    due, generations = Due(), array(0)
    due.add(array(10), array(0), array(0), generations)
    before = due.runs
    assert len(due.pop(9, generations)) == 0
    assert due.runs is before


@pytest.mark.parametrize("seed", range(20))
def test_the_index_gives_what_a_list_of_entries_gives(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 60))
    due, generations, now = Due(), np.zeros(size, np.int64), 0
    model: list[tuple[int, int, int]] = []
    for _ in range(200):
        count = int(rng.integers(0, 8)) if rng.random() < 0.95 else 200
        slots = rng.integers(0, size, count)
        generations[slots] += 1
        times = now + rng.integers(0, 100, count)
        due.add(times, slots, generations[slots], generations)
        model += zip(times.tolist(), slots.tolist(), generations[slots].tolist(), strict=True)
        now += int(rng.integers(0, 10))
        found = due.pop(now, generations)
        expected = sorted((t, s, g) for t, s, g in model if t <= now and generations[s] == g)
        assert sorted(zip(found.time.tolist(), found.slot.tolist(), found.generation.tolist(), strict=True)) == expected
        assert (np.diff(found.time) >= 0).all()
        model = [entry for entry in model if entry[0] > now]
        current = [t for t, s, g in model if generations[s] == g]
        assert now < due.next_due() <= min(current, default=NEVER)


@pytest.mark.parametrize(("occ", "tick"), [(0, 10), (9, 10), (10, 20), (-1, 0), (-10, 0), (-11, -10)])
def test_the_tick_of_a_time_ends_its_chronon(occ, tick):
    assert tick_after(array(occ), 10).tolist() == [tick]

"""Expiry over the class graph, by hand and against the two definitions worked out afresh at every tick."""

from __future__ import annotations

import random

import numpy as np
import pytest

from augury.kernels.bitemporal.due import NEVER
from augury.kernels.bitemporal.expiry import Constituents, Expiry

LOW, HIGH, COMPLEX = 0, 1, 2


def put(expiry, event, occ):
    expiry.put(event[0], np.array([event[1]]), np.array([occ]))


def link(expiry, event, parts):
    columns = (np.zeros(len(parts), np.int64), *(np.array([part[i] for part in parts], np.int64) for i in (0, 1)))
    expiry.link(event[0], np.array([event[1]]), Constituents(*columns))


def gone(expiry, tick):
    return {(place, slot) for place, slots in enumerate(expiry.purge(tick)) for slot in slots.tolist()}


def test_an_event_without_dependants_leaves_at_the_first_tick_after_it_expired():
    expiry = Expiry([100])
    put(expiry, (LOW, 0), 50)
    assert expiry.next_due() == 151
    assert gone(expiry, 150) == set()
    assert gone(expiry, 160) == {(LOW, 0)}
    assert gone(expiry, 170) == set()
    assert expiry.next_due() == NEVER


def test_an_event_for_ever_stays():
    expiry = Expiry([None])
    put(expiry, (LOW, 0), 50)
    assert gone(expiry, 10**15) == set()
    assert expiry.expiry((LOW, 0)) == NEVER


def test_a_change_moves_the_expiry_either_way():
    expiry = Expiry([100])
    put(expiry, (LOW, 0), 50)
    put(expiry, (LOW, 0), 90)
    put(expiry, (LOW, 1), 90)
    put(expiry, (LOW, 1), 50)
    assert gone(expiry, 160) == {(LOW, 1)}
    assert gone(expiry, 200) == {(LOW, 0)}


def test_a_complex_event_lives_as_long_as_its_constituents_and_keeps_them():
    expiry = Expiry([100, 200, 10])
    put(expiry, (LOW, 0), 0)
    put(expiry, (HIGH, 0), 0)
    put(expiry, (COMPLEX, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0), (HIGH, 0)])
    assert [expiry.expiry(event) for event in ((LOW, 0), (HIGH, 0), (COMPLEX, 0))] == [200, 200, 200]
    assert gone(expiry, 110) == set()
    assert gone(expiry, 200) == set()
    assert gone(expiry, 201) == {(LOW, 0), (HIGH, 0), (COMPLEX, 0)}


def test_only_dependants_keep_an_event_not_those_it_shares_constituents_with():
    expiry = Expiry([100, 300, 10])
    for slot in (0, 1):
        put(expiry, (LOW, slot), 0)
        put(expiry, (COMPLEX, slot), 0)
    put(expiry, (HIGH, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0), (LOW, 1)])
    link(expiry, (COMPLEX, 1), [(LOW, 1), (HIGH, 0)])
    assert expiry.expiry((COMPLEX, 0)) == 100
    assert expiry.expiry((LOW, 1)) == 300
    assert gone(expiry, 110) == {(LOW, 0), (COMPLEX, 0)}
    assert gone(expiry, 310) == {(LOW, 1), (HIGH, 0), (COMPLEX, 1)}


def test_a_withdrawn_dependant_keeps_nothing():
    expiry = Expiry([100, 300, 900])
    put(expiry, (LOW, 0), 0)
    put(expiry, (COMPLEX, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0)])
    assert gone(expiry, 500) == set()
    expiry.withdraw(COMPLEX, np.array([0]))
    assert gone(expiry, 510) == {(LOW, 0)}


def test_a_new_version_of_a_complex_event_lets_its_former_constituents_go():
    expiry = Expiry([100, 300, 900])
    put(expiry, (LOW, 0), 0)
    put(expiry, (LOW, 1), 0)
    put(expiry, (COMPLEX, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0), (LOW, 1)])
    assert gone(expiry, 500) == set()
    put(expiry, (COMPLEX, 0), 10)
    link(expiry, (COMPLEX, 0), [(LOW, 1)])
    assert gone(expiry, 510) == {(LOW, 0)}
    assert gone(expiry, 911) == {(LOW, 1), (COMPLEX, 0)}


def test_constituents_that_left_already_are_left_out():
    expiry = Expiry([100, 300, 900])
    put(expiry, (COMPLEX, 0), 0)
    put(expiry, (HIGH, 0), 5000)
    expiry.withdraw(HIGH, np.array([0]))
    link(expiry, (COMPLEX, 0), [(LOW, 77), (HIGH, 0)])
    assert expiry.expiry((COMPLEX, 0)) == 900


def test_a_slot_that_is_used_again_is_another_event():
    expiry = Expiry([100, 300, 900])
    put(expiry, (LOW, 0), 0)
    put(expiry, (COMPLEX, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0)])
    expiry.withdraw(LOW, np.array([0]))
    put(expiry, (LOW, 0), 50)
    assert expiry.expiry((LOW, 0)) == 150
    assert gone(expiry, 151) == {(LOW, 0)}


class Model:
    """Live events with their occ_time, and what they are made of."""

    def __init__(self, lifespans):
        self.lifespans, self.occ, self.parts = lifespans, {}, {}

    def preliminary(self, event):
        lifespan = self.lifespans[event[0]]
        own = NEVER if lifespan is None else self.occ[event] + lifespan
        return max([own, *(self.preliminary(part) for part in self.parts.get(event, ()) if part in self.occ)])

    def final(self, event):
        users = [user for user, parts in self.parts.items() if event in parts]
        return max([self.preliminary(event), *map(self.final, users)])

    def forget(self, events):
        for event in events:
            del self.occ[event]
            self.parts.pop(event, None)
        self.parts = {user: parts - set(events) for user, parts in self.parts.items()}


@pytest.mark.parametrize("seed", range(60))
def test_what_leaves_is_what_the_definitions_say(seed):
    chance = random.Random(seed)
    lifespans = [chance.choice((5, 20, 50)), chance.choice((5, 80, 80, None)), *chance.choices((0, 10, 60), k=2)]
    expiry, model = Expiry(lifespans), Model(lifespans)
    for tick in range(10, 600, 5):
        for _ in range(chance.randrange(6)):
            place = chance.randrange(4)
            event = (place, chance.randrange(6))
            if event in model.occ and chance.random() < 0.3:
                expiry.withdraw(place, np.array([event[1]]))
                model.forget([event])
                continue
            model.occ[event] = tick + chance.randrange(-40, 40)
            put(expiry, event, model.occ[event])
            if place >= 2:
                below = [one for one in model.occ if one[0] < place]
                parts = chance.sample(below, min(len(below), chance.randrange(4)))
                link(expiry, event, parts)
                model.parts[event] = set(parts)
        expected = {event for event in model.occ if model.final(event) < tick}
        assert min((model.final(event) for event in model.occ), default=NEVER) >= expiry.next_due() - 1
        assert gone(expiry, tick) == expected
        model.forget(expected)
        for event in model.occ:
            assert expiry.expiry(event) == model.final(event)


def test_several_are_withdrawn_at_once_with_what_they_are_made_of():
    expiry = Expiry([100, 300, 900])
    for slot in (0, 1):
        put(expiry, (LOW, slot), 0)
    put(expiry, (COMPLEX, 0), 0)
    link(expiry, (COMPLEX, 0), [(LOW, 0), (LOW, 1)])
    expiry.withdraw(LOW, np.array([0, 1]))
    expiry.withdraw(COMPLEX, np.array([0]))
    assert gone(expiry, 10_000) == set()


def test_several_complex_events_are_linked_at_once():
    expiry = Expiry([100, 300, 10])
    expiry.put(LOW, np.arange(3), np.array([0, 1, 2]))
    expiry.put(HIGH, np.arange(1), np.array([0]))
    expiry.put(COMPLEX, np.arange(4), np.zeros(4, np.int64))
    parts = Constituents(np.array([0, 1, 1, 3, 3]), np.array([0, 0, 0, 0, 1]), np.array([0, 0, 1, 2, 0]))
    expiry.link(COMPLEX, np.arange(4), parts)
    assert [expiry.expiry((COMPLEX, slot)) for slot in range(4)] == [100, 101, 10, 300]
    assert [expiry.expiry((LOW, slot)) for slot in range(3)] == [101, 101, 300]

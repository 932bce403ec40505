"""Which actions fire, by hand and against an interpreter that looks at every event at every tick."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from augury.algebra.scalar import Reason
from augury.kernels.bitemporal import NEVER, as_of_now
from tests.bitemporal.ticks import Row, events


def test_conditions_compare_new_and_old():
    one = events(
        "ON CHANGE AND NEW.occTime > OLD.occTime DO delayed(NEW.k, NEW.x, OLD.x)",
        "ON CHANGE AND NEW.occTime <= OLD.occTime DO early(NEW.k, OLD.x + 1)",
    )
    assert one.fires(10, [(50, 5, (1, 7)), (50, 5, (2, 8))]) == []
    assert one.fires(20, [(60, 15, (1, 70)), (40, 16, (2, 80))]) == [(1, "delayed", 1, 70, 7), (2, "early", 2, 9)]


def test_a_comparison_with_an_absent_old_is_not_true_and_neither_is_its_negation():
    one = events("ON OLD.x = 7 DO a()", "ON NOT OLD.x = 7 DO b()", "ON OLD.occTime IS NULL DO c()")
    assert one.names(10, [(50, 5, (1, 7))]) == ["c"]
    assert one.names(20, [(None, 15, (1, None))]) == ["a"]
    assert one.names(30, [(50, 25, (1, 7))]) == ["c"]


def test_the_occ_time_of_a_withdrawal_is_null():
    one = events("ON CANCELLATION AND NEW.occTime IS NULL AND NEW.detTime < NOW DO gone(NEW.k, OLD.x)")
    one.tick(10, [(50, 5, (1, 7))])
    assert one.fires(20, [(None, 15, (1, None))]) == [(1, "gone", 1, 7)]


def test_rows_come_by_version_then_statement_then_action():
    one = events("ON NEW.x > 0 DO b(), a()", "ON ANNOUNCEMENT DO c()")
    assert [(key, name) for key, name in one.fires(10, [(50, 5, (2, 1)), (50, 5, (1, 1)), (50, 6, (3, 0))])] == [
        *((2, "b"), (2, "a"), (2, "c"), (1, "b"), (1, "a"), (1, "c"), (3, "c")),
    ]


def test_on_time_is_looked_at_when_its_tick_comes():
    one = events("ON ONTIME DO due(NEW.x, OLD.x)")
    assert one.fires(10, [(35, 5, (1, 7))]) == []
    assert one.fires(20, [(36, 15, (1, 8))]) == []
    assert one.state.next_due() == 40
    assert one.fires(30) == []
    assert one.fires(40) == [(1, "due", 8, 7)]
    assert one.fires(50) == []
    assert one.state.next_due() == NEVER


def test_a_version_that_is_replaced_before_its_tick_is_not_on_time():
    one = events("ON ONTIME DO due()")
    one.tick(10, [(35, 5, (1, 7)), (35, 5, (2, 7))])
    one.tick(20, [(55, 15, (1, 8)), (None, 15, (2, None))])
    assert one.names(40) == []
    assert one.names(60) == ["due"]


def test_a_version_that_is_replaced_at_its_very_tick_is_not_on_time():
    one = events("ON ONTIME DO due()")
    one.tick(10, [(35, 5, (1, 7))])
    assert one.names(40, [(95, 35, (1, 8))]) == []
    assert one.names(100) == ["due"]


def test_what_is_due_and_what_is_read_fire_at_one_tick_in_the_order_of_their_versions():
    one = events("ON ONTIME DO due()", "ON ANNOUNCEMENT DO new()")
    one.tick(10, [(35, 5, (1, 7)), (36, 5, (2, 7))])
    assert one.fires(40, [(35, 35, (3, 7)), (95, 35, (2, 8))]) == [(1, "due"), (3, "due"), (3, "new")]


def test_a_statement_fires_once_for_a_version():
    one = events("ON FUTURE OR ONTIME DO a()", "ON ONTIME DO b()")
    assert one.names(10, [(35, 5, (1, 7))]) == ["a"]
    assert one.names(40) == ["b"]
    assert one.names(50, [(75, 45, (1, 7))]) == ["a"]


def test_a_condition_with_a_negated_on_time_is_looked_at_when_a_version_arrives_and_when_it_is_on_time():
    one = events("ON NOT ONTIME AND NEW.x > 7 DO a()")
    assert one.names(10, [(35, 5, (1, 8)), (35, 5, (2, 7))]) == ["a"]
    assert one.names(40) == []


def test_a_condition_without_on_time_is_not_looked_at_again():
    one = events("ON NEW.x > 0 DO a()", "ON ONTIME DO b()")
    assert one.names(10, [(35, 5, (1, 7))]) == ["a"]
    assert one.names(40) == ["b"]


def test_postponed_and_on_time_again():
    one = events("ON ONTIME DO due()", "ON POSTPONE DO postponed()", "ON LATE DO late()")
    one.tick(10, [(35, 5, (1, 7))])
    assert one.names(40) == ["due"]
    assert one.names(50, [(44, 45, (1, 7))]) == []  # it has been on time
    assert one.names(60, [(85, 55, (1, 7))]) == ["postponed"]
    assert one.names(90) == ["due"]
    assert one.names(100, [(20, 95, (1, 7))]) == []
    assert one.names(110, [(200, 105, (1, 7))]) == ["postponed"]
    assert one.names(120, [(20, 115, (1, 7))]) == ["late"]


def test_on_time_counts_although_no_condition_asks_for_it():
    one = events("ON LATE DO late()")
    one.tick(10, [(35, 5, (1, 7))])
    assert len(one.state.on_time) == 0
    assert one.names(60, [(34, 55, (1, 7))]) == []
    one = events("ON LATE DO late()")
    one.tick(10, [(55, 5, (1, 7))])
    assert one.names(60, [(34, 55, (1, 7))]) == ["late"]


def test_withdrawn_and_announced_again_may_be_late_again():
    one = events("ON LATE DO late()")
    assert one.names(60, [(34, 55, (1, 7))]) == ["late"]
    assert one.names(70, [(None, 65, (1, None))]) == []
    assert one.names(80, [(34, 75, (1, 7))]) == ["late"]


def test_fired_sees_earlier_ticks_since_the_announcement():
    one = events("ON NEW.x > 0 AND NOT FIRED DO tell()", "ON NEW.x > 0 AND FIRED DO tell(NEW.x)")
    assert one.fires(10, [(50, 5, (1, 0))]) == []
    assert one.fires(20, [(50, 15, (1, 1))]) == [(1, "tell")]
    assert one.fires(30, [(50, 25, (1, 2))]) == [(1, "tell", 2)]
    assert one.fires(40, [(None, 35, (1, 3))]) == [(1, "tell", 3)]
    assert one.fires(50, [(50, 45, (1, 1))]) == [(1, "tell")]


def test_fired_is_about_the_name_of_the_action_that_would_fire():
    one = events("ON NEW.x = 1 DO a()", "ON NEW.x = 2 AND FIRED DO b(), a()", "ON NEW.x = 2 AND NOT FIRED DO c()")
    assert one.names(10, [(50, 5, (1, 1))]) == ["a"]
    assert one.names(20, [(50, 15, (1, 2))]) == ["a", "c"]
    assert one.names(30, [(50, 25, (1, 2))]) == ["a"]


def test_fired_is_about_one_event():
    one = events("ON NEW.x = 1 AND FIRED DO a()", "ON ANNOUNCEMENT AND NEW.k = 1 DO a()")
    assert one.names(10, [(50, 5, (1, 1)), (50, 5, (2, 1))]) == ["a"]
    assert one.fires(20, [(50, 15, (1, 1)), (50, 15, (2, 1))]) == [(1, "a")]


def test_an_error_is_counted_and_the_condition_not_true():
    one = events("ON 1 / NEW.x > 0 DO a()", "ON ANNOUNCEMENT DO b(1 / NEW.x)")
    _, fired = one.tick(10, [(50, 5, (1, 0)), (50, 5, (2, 1))])
    assert [(key, name, arguments) for key, _, name, arguments in fired.rows()] == [
        *((1, "b", (None,)), (2, "a", ()), (2, "b", (1.0,))),
    ]
    assert dict(fired.errors) == {(0, Reason.DIVISION_BY_ZERO): 1, (1, Reason.DIVISION_BY_ZERO): 1}


def test_a_tick_without_versions_and_timers_does_nothing():
    one = events("ON ONTIME DO a()")
    one.tick(10, [(50, 5, (1, 0))])
    sight, fired = one.tick(20)
    assert sight is None
    assert (len(fired), fired.groups) == (0, ())


# ---- against an interpreter ----------------------------------------------------------------------

STATEMENTS = (
    "ON ANNOUNCEMENT DO announced(NEW.x)",
    "ON CHANGE DO changed(OLD.x, NEW.x)",
    "ON CANCELLATION OR REVOCATION DO gone(OLD.x)",
    "ON RETROACTIVECHANGE AND NOT FIRED DO corrected()",
    "ON POSTPONE DO postponed(NOW - NEW.occTime)",
    "ON ONTIME DO due(NEW.x, OLD.x)",
    "ON LATE DO late()",
    "ON LATE(1s, 3s) DO somewhat()",
    "ON FUTURE AND FIRED DO due()",
    "ON ONTIME AND OLD.occTime < NEW.occTime OR NEW.x = 3 DO mixed()",
)
SECOND = 1_000_000


@dataclass
class Event:
    """What the interpreter knows of one event: NEW, OLD (occ, det, x) and what it has been."""

    new: tuple[int, int, int]
    old: tuple[int, int, int] | None
    read_at: int
    done: bool = False
    fired: set[str] = field(default_factory=set)
    fired_for_this: set[int] = field(default_factory=set)


def looked_at(event, withdrawn, tick, was_done):
    """The rows of the statements that hold, as (statement, name, arguments)."""
    occ, det, x = event.new
    old, fresh = event.old, event.read_at == tick
    ahead, past = occ >= tick, occ < tick
    inside = tick - SECOND <= occ < tick
    old_x = None if old is None else old[2]
    if withdrawn:
        if old is not None:
            yield 2, "gone", (old_x,)
        if x == 3:
            yield 9, "mixed", ()
        return
    if fresh and old is None:
        yield 0, "announced", (x,)
    if fresh and old is not None and old[0] >= tick:
        yield 1, "changed", (old_x, x)
    if fresh and old is not None and old[0] < tick and past and "corrected" not in event.fired:
        yield 3, "corrected", ()
    if fresh and old is not None and old[0] < tick and ahead:
        yield 4, "postponed", (tick - occ,)
    on_time = inside and not was_done
    late = fresh and past and not inside and not was_done
    if on_time:
        yield 5, "due", (x, old_x)
    if late:
        yield 6, "late", ()
    if late and SECOND <= (det - occ) // SECOND * SECOND <= 3 * SECOND:
        yield 7, "somewhat", ()
    if fresh and ahead and "due" in event.fired:
        yield 8, "due", ()
    if (fresh or inside) and ((on_time and old is not None and old[0] < occ) or x == 3):
        yield 9, "mixed", ()


def interpreted(model, rows, tick):
    """One tick, every live event looked at; gives (key, statement, name, arguments) in order of versions."""
    order = {}
    for place, (occ, det, (key, x)) in enumerate(rows):
        order[key] = (place, occ, det, x)
    withdrawn = {}
    for key, (_, occ, det, x) in sorted(order.items(), key=lambda item: item[1][0]):
        before = model.pop(key, None)
        old = None if before is None else before.new
        event = Event((occ or 0, det, x), old, tick)
        if before is not None:
            event.done, event.fired = before.done, before.fired
            if before.new[0] < tick and occ is not None and occ >= tick:
                event.done = False
        model[key] = event
        if occ is None:
            withdrawn[key] = event
    found = []
    for key, event in model.items():
        occ, was_done = event.new[0], event.done
        now = [row for row in looked_at(event, key in withdrawn, tick, was_done) if row[0] not in event.fired_for_this]
        if key not in withdrawn and occ < tick and (event.read_at == tick or occ >= tick - SECOND):
            event.done = True
        event.fired_for_this |= {statement for statement, _, _ in now}
        event.fired |= {name for _, name, _ in now}
        found += [(key, *row) for row in now]
    for key in withdrawn:
        del model[key]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_fires_is_what_an_interpreter_of_every_event_at_every_tick_finds(seed):
    chance = random.Random(seed)
    one = events(*STATEMENTS)
    one.chronon_us = SECOND
    model: dict[int, Event] = {}
    for tick in range(SECOND, 60 * SECOND, SECOND):
        rows: list[Row] = []
        there = set(model)
        for _ in range(chance.choice((0, 0, 1, 2, 5))):
            key = chance.randrange(5)
            occ: int | None = tick + chance.randrange(-80, 80) * SECOND // 10
            if key in there and chance.random() < 0.2:
                occ = None
            (there.discard if occ is None else there.add)(key)
            rows.append((occ, tick - chance.randrange(1, 10) * SECOND // 10, (key, chance.randrange(5))))
        idle = not rows and one.state.next_due() > tick
        expected = interpreted(model, rows, tick)
        found = [] if idle else list(one.tick(tick, rows)[1].rows())
        assert [(k, s, n, _plain(a)) for k, s, n, a in found] == expected
        assert as_of_now(one.state.view)["k"].to_pylist() == list(model)


def _plain(arguments):
    return tuple(a // type(a)(microseconds=1) if hasattr(a, "microseconds") else a for a in arguments)

"""A class that is disabled takes no events: all else is as if they had never been sent, after a crash as well."""

from __future__ import annotations

import random
from typing import Any

import pytest

from augury.api import compile
from augury.kernels.firing import Switched
from augury.local.running import LocalEngine
from augury.local.store.memory import MemoryStore
from tests.clocks import Clock

SECOND = 1_000_000
START = 1_800_000_000
PAIRS = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v INT) ID (k) LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT, v INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Pair (k INT) ID (k) LIFESPAN (1d) AS MATCH prior(A(k, _), B(k, _));
CREATE COMPLEX EVENT CLASS High (k INT, v INT) ID (k) LIFESPAN (1d)
  AS SELECT k, v FROM A WHERE v > 2 OCCURRING AT occTime;
RULE Tell (k INT) ACTION tell(k), POST A(k, 9);
TRIGGER Both (k INT, v INT) TRIGGEREVENT B COMPOSITEEVENT A > B CONTEXT CHRONICLE RULESTRUC Tell(k);
"""
CLASSES = ("A", "B", "Pair", "High")


def all_of(engine: LocalEngine) -> dict[str, list[dict[str, Any]]]:
    found = {name: engine.history(name).to_pylist() for name in CLASSES}
    return {**found, "Both": engine.firings("Both")}


@pytest.mark.parametrize("seed", range(12))
def test_all_else_is_as_without_them(seed: int) -> None:
    chance, program = random.Random(seed), compile(PAIRS)
    here, there = MemoryStore(program), MemoryStore(program)
    clock = Clock(START * SECOND)
    switched = LocalEngine(program, here, environment=clock)
    plain = LocalEngine(program, there, environment=clock)
    refused = 0
    for _ in range(40):
        clock.now += chance.choice([1_000, SECOND // 3, 2 * SECOND])
        name = chance.choice("AB")
        match chance.randrange(8):
            case 0:
                switched.switch(Switched.CLASS, "B", chance.random() < 0.5)
            case 1:
                switched = LocalEngine(program, here, environment=clock)  # the one before is as good as killed
            case 2:
                for engine in (switched, plain):
                    engine.advance_to(clock.now)
            case _:
                event = {"event": name, "k": chance.randrange(3), "v": chance.randrange(5)}
                is_on = switched.is_on(Switched.CLASS, name)
                answer = switched.notify(event)
                assert answer.refused == (None if is_on else f"`{name}` is disabled, and takes no events")
                refused += not is_on
                if is_on:
                    assert plain.notify(event).seq == answer.seq
    clock.now += 10 * SECOND
    for engine in (switched, plain):
        engine.advance_to(clock.now)
    assert all_of(switched) == all_of(plain)
    assert sum(len(one.rejected.place) for one in here.ticks) == refused


def test_what_rules_post_is_refused_as_well_and_the_rest_of_the_firing_goes_on() -> None:
    store = MemoryStore(program := compile(PAIRS))
    clock = Clock(START * SECOND)
    engine = LocalEngine(program, store, environment=clock)
    engine.notify({"event": "A", "k": 1, "v": 1})
    engine.switch(Switched.CLASS, "a", False)
    clock.now += 1_000
    (fired,) = engine.notify({"event": "B", "k": 1, "v": 1}).firings
    assert [str(call.outcome) for call in fired.firing.calls] == ["held"]
    clock.now += 2 * SECOND
    engine.advance_to(clock.now)
    assert [row["v"] for row in engine.history("A").to_pylist()] == [1]
    (reason,) = [reason for one in store.ticks for reason in one.rejected.reason]
    assert reason == "`A` is disabled, and takes no events"


def test_a_clock_that_is_disabled_posts_nothing() -> None:
    program = compile("CREATE CLOCK EVENT CLASS Beat EVERY 1s;")
    clock = Clock(START * SECOND)
    engine = LocalEngine(program, environment=clock)
    engine.start()
    engine.stop()
    for on in (True, False, True):
        engine.switch(Switched.CLASS, "Beat", on)
        clock.now += 3 * SECOND
        engine.advance_to(clock.now)
    times = [int(row["occ_time"].timestamp()) - START for row in engine.history("Beat").to_pylist()]
    assert times == [0, 1, 2, 6, 7, 8]


@pytest.mark.parametrize("name", ["Pair", "High", "Nobody"])
def test_only_what_takes_events_can_be_disabled(name: str) -> None:
    with pytest.raises(KeyError, match="no class called"):
        LocalEngine(compile(PAIRS)).switch(Switched.CLASS, name, False)

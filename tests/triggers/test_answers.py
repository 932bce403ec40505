"""Who waits for an answer gets it, and it stays true: while ticks go on beside it, and while the store fails."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from augury.api import compile
from augury.clock import microseconds_of
from augury.kernels.firing import Switched, Turned
from augury.local.answers import Answer
from augury.local.running import LocalEngine
from augury.local.store.errors import StoreFailed
from augury.local.store.memory import MemoryStore
from tests.triggers.test_engine import CLAIMS, Bank, claim

SECOND = 1_000_000
BELL = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Bell (door INT) ID () LIFESPAN (1d);"


def bell(door: int, det_time: float) -> dict[str, object]:
    return {"event": "Bell", "door": door, "det_time": det_time}


class Failing(MemoryStore):
    """A store that fails where it is told to, once."""

    fails_at: tuple[str, ...] = ()

    def _may_fail(self, what: str) -> None:
        if self.fails_at[:1] == (what,):
            self.fails_at = self.fails_at[1:]
            raise StoreFailed("the disk is away just now")

    def remember(self, values: Mapping[str, str]) -> None:
        self._may_fail("remember")
        super().remember(values)

    def remembered(self) -> dict[str, str]:
        self._may_fail("remembered")
        return super().remembered()

    def switched(self) -> list[Turned]:
        self._may_fail("switched")
        return super().switched()


@contextmanager
def between_two_ticks(engine: LocalEngine, until_us: int) -> Iterator[None]:
    """A block in which nobody else has anything read: the tick that was just told is not over."""
    going = engine.ticks_to(until_us)
    next(going)
    try:
        yield
    finally:
        going.close()


def waiting_for(
    other: ThreadPoolExecutor, engine: LocalEngine, store: MemoryStore, event: dict[str, object]
) -> Future[Answer]:
    """The answer that somebody else waits for, whose event is posted by now."""
    before = len(store.waiting())
    answer = other.submit(engine.notify, event)
    deadline = time.monotonic() + 20
    while len(store.waiting()) == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return answer


def test_nobody_misses_an_answer_though_ticks_go_on_meanwhile() -> None:
    engine, over = LocalEngine(compile(BELL)), Event()
    engine.post(bell(0, 1000))
    engine.advance_to(1001 * SECOND)

    def go_on() -> None:
        now = 1001
        while not over.is_set():
            now += 1
            engine.advance_to(now * SECOND)

    beside, interval = Thread(target=go_on), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    beside.start()
    try:
        numbers = [engine.notify(bell(door, 1000)).seq for door in range(150)]
    finally:
        over.set()
        beside.join()
        sys.setswitchinterval(interval)
    assert numbers == list(range(2, 152))


def test_whoever_is_told_of_a_tick_may_notify_before_the_next() -> None:
    engine = LocalEngine(compile(BELL))
    for door, at in enumerate((100, 103, 106)):
        engine.post(bell(door, at))
    told: list[float | int | None] = []
    for ticked in engine.ticks_to(110 * SECOND):
        told.append(ticked.tick / SECOND)
        if ticked.tick == 101 * SECOND:
            told.append(engine.notify(bell(9, 104.5)).seq)
    assert told == [101, 3, 105, 107, 110]
    assert engine.history("Bell").column("door").to_pylist() == [0, 1, 9, 2]


def test_no_tick_reads_further_than_it_may_for_one_who_waits() -> None:
    store = MemoryStore(compile(BELL))
    engine = LocalEngine(store.program, store)
    engine.post(bell(0, 100))
    with ThreadPoolExecutor(1) as other, between_two_ticks(engine, 105 * SECOND):
        answer = waiting_for(other, engine, store, bell(1, 110.2))
        engine.advance_to(110 * SECOND + SECOND // 2)
        assert engine.notify(bell(2, 110.4)).seq == 3
    assert answer.result().seq == 2
    engine.advance_to(120 * SECOND)
    times = [microseconds_of(time) / SECOND for time in engine.history("Bell").column("det_time").to_pylist()]
    assert times == [100, 110.2, 110.4]


def test_an_answer_is_there_though_the_engine_had_to_begin_anew_meanwhile() -> None:
    bank, store = Bank(), Failing(compile(CLAIMS))
    engine = bank.engine(store)
    engine.notify(claim(1, 5000))
    bank.now += SECOND
    with ThreadPoolExecutor(1) as other, between_two_ticks(engine, bank.now):
        answer = waiting_for(other, engine, store, claim(2, 5000))
        assert engine.notify(claim(3, 5000)).seq == 3, "both are read in one step"
        bank.now += SECOND
        engine.advance_to(bank.now)
        store.fails_at = ("remember",)
        with pytest.raises(StoreFailed):
            engine.notify(claim(4, 5000))
        assert engine.notify(claim(5, 5000)).seq == 5
    assert answer.result().seq == 2
    assert answer.result().returned == {"Claimed": None}


@pytest.mark.parametrize("at", ["remembered", "switched"])
def test_what_was_switched_stays_so_though_the_store_fails_again_and_again(at: str) -> None:
    bank, store = Bank(), Failing(compile(CLAIMS))
    engine = bank.engine(store)
    assert engine.notify(claim(1, 5000)).seq == 1
    engine.switch(Switched.TRIGGER, "Claimed", False)
    for fails_at in (("remember",), (at,)):
        store.fails_at = fails_at
        with pytest.raises(StoreFailed):
            engine.notify(claim(2, 5000))
    answer = engine.notify(claim(3, 5000))
    assert (answer.seq, answer.firings) == (4, ())
    assert not engine.is_on(Switched.TRIGGER, "Claimed")


def test_whether_an_event_changes_one_that_is_there_is_known_in_every_step() -> None:
    engine = LocalEngine(compile(BELL + "CREATE COMPLEX EVENT CLASS Rung (door INT) ID (door) AS MATCH Bell(door);"))
    told = []
    for door, at in ((1, 100.1), (2, 100.2), (1, 100.3), (2, 101), (3, 101.1)):
        (line,) = engine.notify(bell(door, at)).occurrences
        told.append((json.loads(line)["door"], json.loads(line)["change"]))
    assert told == [(1, "announce"), (2, "announce"), (1, "change"), (2, "change"), (3, "announce")]

"""Who waits for an answer gets it, and it stays true: while ticks go on beside it, and while the store fails."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from augury.api import compile
from augury.clock import microseconds_of
from augury.engine.ports import Snapshot
from augury.engine.ticked import Ticked
from augury.environment import Machine
from augury.kernels.firing import Switched, Turned
from augury.local.answers import Answer
from augury.local.running import Closed, LocalEngine
from augury.local.store.errors import StoreFailed
from augury.local.store.memory import MemoryStore
from tests.clocks import Clock
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

    def switch(self, turned: Turned) -> None:
        super().switch(turned)
        self._may_fail("switch")  # it is kept, and the answer lost

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        self._may_fail("commit")
        super().commit(ticks, taken, snapshot)


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


def test_a_switch_whose_answer_was_lost_is_as_the_store_has_it() -> None:
    bank, store = Bank(), Failing(compile(CLAIMS))
    engine = bank.engine(store)
    assert len(engine.notify(claim(1, 5000)).firings) == 1
    store.fails_at = ("switch",)
    with pytest.raises(StoreFailed):
        engine.switch(Switched.TRIGGER, "Claimed", False)
    assert engine.notify(claim(2, 5000)).firings == ()
    assert not engine.is_on(Switched.TRIGGER, "Claimed")


def test_an_answer_that_is_durable_is_told_though_the_tick_after_it_cannot_be_kept() -> None:
    bank, store = Bank(), Failing(compile(CLAIMS))
    engine = bank.engine(store)
    engine.notify(claim(1, 5000))
    bank.now += SECOND
    with ThreadPoolExecutor(1) as other, between_two_ticks(engine, bank.now):
        answer = waiting_for(other, engine, store, claim(2, 5000))
        bank.now += 3 * SECOND
        store.fails_at = ("commit",)
    assert answer.result().seq == 2
    assert len(list(store.fails_at)) == 0, "it has failed"
    assert engine.notify(claim(3, 5000)).seq == 3
    assert engine.history("Claim").num_rows == 2, "the tick was kept at last"


def test_a_name_that_means_something_else_is_not_when_an_event_was_read() -> None:
    seen = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E (x INT, seen TIMESTAMP) ID () LIFESPAN (1d);\n"
    program = compile(seen + "SOURCE E FROM COLUMNS (det_time AS seen);")
    clock = Clock(1_800_000_000 * SECOND)
    engine = LocalEngine(program, environment=clock)
    answer = engine.notify({"event": "E", "x": 1, "occ_time": "2030-01-01T00:00:00Z", "det_time": 5})
    assert answer.seq == 1
    clock.now += 2 * SECOND
    engine.advance_to(clock.now)
    (row,) = engine.history("E").to_pylist()
    assert (microseconds_of(row["det_time"]), microseconds_of(row["seen"])) == (1_800_000_000 * SECOND, 5 * SECOND)


def test_what_waits_is_read_as_a_new_program_says() -> None:
    text = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E (x INT) ID () LIFESPAN (1d);\n"
    clock = Clock(1_800_000_000 * SECOND)
    engine = LocalEngine(compile(text), environment=clock)
    engine.post({"event": "E", "x": 1, "ts": 1_800_000_007})
    engine.apply(compile(text + "SOURCE E FROM COLUMNS (ts AS det_time);"))
    clock.now += 10 * SECOND
    engine.advance_to(clock.now)
    (row,) = engine.history("E").to_pylist()
    assert microseconds_of(row["det_time"]) == 1_800_000_007 * SECOND


def test_whoever_waits_for_the_end_of_a_chronon_gives_up_when_the_engine_ends() -> None:
    text = f"SET CHRONON 1h;\n{BELL}"
    engine = LocalEngine(compile(text), environment=Machine())
    engine.notify({"event": "Bell", "door": 1})
    more = compile(f"{text}\nCREATE COMPLEX EVENT CLASS Rung (door INT) ID (door) AS MATCH Bell(door);")
    with ThreadPoolExecutor(1) as other:
        applied = other.submit(engine.apply, more)
        engine.give_up()
        with pytest.raises(Closed, match="the program is as it was"):
            applied.result(60)
    assert engine.program.class_plan("Rung") is None


def test_whether_an_event_changes_one_that_is_there_is_known_in_every_step() -> None:
    engine = LocalEngine(compile(BELL + "CREATE COMPLEX EVENT CLASS Rung (door INT) ID (door) AS MATCH Bell(door);"))
    told = []
    for door, at in ((1, 100.1), (2, 100.2), (1, 100.3), (2, 101), (3, 101.1)):
        (line,) = engine.notify(bell(door, at)).occurrences
        told.append((json.loads(line)["door"], json.loads(line)["change"]))
    assert told == [(1, "announce"), (2, "announce"), (1, "change"), (2, "change"), (3, "announce")]

"""A live engine in a world that a seed decides: when it ticks, how it is stopped and begun anew, and that all of it
comes out the same again. On the machine itself the same loop runs in a thread."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from augury.api import compile
from augury.environment import Environment, Machine
from augury.local.running import LocalEngine
from augury.local.store.memory import MemoryStore
from augury.simulated import START_US, World

SECOND = 1_000_000
BELL = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Bell (door INT) ID () LIFESPAN (1h);"
BEAT = f"SET CHRONON 5s;\n{BELL}\nCREATE CLOCK EVENT CLASS Beat EVERY 7s;"


def ticks_of(store: MemoryStore) -> list[float]:
    """When ticks were, in seconds since the world began."""
    return [(one.tick - START_US) / SECOND for one in store.ticks]


# ---- in a world --------------------------------------------------------------------------------------------------


def test_a_tick_comes_at_the_end_of_every_chronon_and_at_no_other_time() -> None:
    program, world = compile(BEAT), World(1, now=START_US + 2 * SECOND)
    store = MemoryStore(program)
    engine = LocalEngine(program, store, environment=world)
    kept: list[float] = []
    engine.when_kept = lambda: kept.append((world.now_us() - START_US) / SECOND)
    with pytest.raises(TimeoutError):
        world.live(engine.follow(), START_US + 61 * SECOND)
    assert ticks_of(store) == list(range(5, 61, 5))
    assert kept == pytest.approx(ticks_of(store), abs=1e-5)
    assert sum(one.counts()["read"] for one in store.ticks) == 9  # the clock posts from the start on, and every 7 s


def test_who_posts_in_a_world_has_its_time() -> None:
    program, world = compile(BEAT), World(1)
    engine = LocalEngine(program, environment=world)

    async def ring() -> None:
        following = asyncio.create_task(engine.follow())
        await world.sleep(12)
        await asyncio.to_thread(engine.post, {"event": "Bell", "door": 1})
        await world.sleep(12)
        following.cancel()

    world.live(ring())
    (row,) = engine.history("Bell").to_pylist()
    assert row["det_time"].timestamp() == pytest.approx(START_US / SECOND + 12, abs=1e-5)
    assert row["tick"].timestamp() == START_US / SECOND + 15


def test_what_was_missed_is_done_when_it_is_begun_anew() -> None:
    program, world = compile(BEAT), World(1)
    store = MemoryStore(program)

    async def with_a_gap() -> None:
        for _ in range(2):
            following = asyncio.create_task(LocalEngine(program, store, environment=world).follow())
            await world.sleep(11)
            following.cancel()
            await world.sleep(40)

    world.live(with_a_gap())
    beats = [one.tick for one in store.ticks for read in one.read for _ in range(len(read))]
    due = [k * 7 * SECOND for k in range(START_US // (7 * SECOND), (START_US + 60 * SECOND) // (7 * SECOND) + 1)]
    assert beats == [(one // (5 * SECOND) + 1) * 5 * SECOND for one in due if START_US <= one < START_US + 60 * SECOND]
    assert ticks_of(store)[:2] == [5, 10]
    assert ticks_of(store)[-1] == 60
    assert store.ticks[2].tick - store.ticks[1].tick >= 5 * SECOND


def test_a_tick_that_fails_is_tried_at_the_next_chronon() -> None:
    program, world = compile(BEAT), World(1)

    class Away(MemoryStore):
        def commit(self, *given: Any) -> None:
            if 12 < world.monotonic() < 28:
                raise OSError("the disk is away")
            super().commit(*given)

    store = Away(program)
    engine = LocalEngine(program, store, environment=world)
    kept: list[float] = []
    engine.when_kept = lambda: kept.append(world.monotonic())
    with pytest.raises(TimeoutError):
        world.live(engine.follow(), START_US + 41 * SECOND)
    assert engine.reports == ["a tick could not be kept: the disk is away; it is tried again at the next"]
    assert ticks_of(store) == [5, 10, 15, 25, 30, 35, 40]  # nothing is due at 20
    assert kept == pytest.approx([5, 10, 30, 30, 30, 35, 40], abs=1e-4)


def test_a_program_changed_in_a_world_waits_for_the_end_of_the_chronon() -> None:
    program, world = compile(BEAT), World(1)
    engine = LocalEngine(program, environment=world)

    async def change() -> None:
        following = asyncio.create_task(engine.follow())
        await world.sleep(11)
        await asyncio.to_thread(engine.notify, {"event": "Bell", "door": 1})
        more = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Knock (door INT) ID () LIFESPAN (1h);"
        await asyncio.to_thread(engine.apply, compile(f"{BEAT}\n{more}"))
        assert world.monotonic() == pytest.approx(15, abs=1e-5)
        await asyncio.to_thread(engine.post, {"event": "Knock", "door": 1})
        await world.sleep(10)
        following.cancel()

    world.live(change())
    assert engine.history("Knock").num_rows == 1
    assert engine.reports == []


TRANSFERS = """
SET CHRONON 5s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Moved (account INT) ID () LIFESPAN (1h) ON ANNOUNCEMENT DO tell(NEW.account);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Begun (transaction STRING) ID () LIFESPAN (1h);
RULE Left (account INT) ACTION draw(account);
RULE Right (account INT) ACTION draw(account);
TRIGGER Asked (account INT) TRIGGEREVENT Moved RULESTRUC Left(account), Right(account) RETURNS INT : Left;
"""


def database_after(seed: int, place: Path) -> list[str]:
    """Everything that a store holds after a life with crashes, transactions, and rules that draw side by side."""
    program, world = compile(TRANSFERS), World(seed)
    functions = {"draw": lambda account: world.random.randrange(1_000)}

    async def live() -> None:
        for _ in range(5):
            engine = LocalEngine(program, place, environment=world, functions=functions, snapshot_versions_min=3)
            following = asyncio.create_task(engine.follow())
            for account in range(4):
                await world.sleep(world.random.uniform(0, 9))
                with engine.transaction(begin="Begun"):
                    engine.post({"event": "Moved", "account": account})
                engine.notify({"event": "Moved", "account": -account})
            following.cancel()
            engine.close()

    world.live(live())
    with sqlite3.connect(place) as connection:
        return list(connection.iterdump())


def test_a_seed_gives_the_same_database_to_the_last_bit(tmp_path: Path) -> None:
    one, again, other = (database_after(s, tmp_path / f"{n}.db") for n, s in enumerate((1, 1, 2)))
    assert len(one) > 100
    assert one == again
    assert one != other


# ---- on the machine ----------------------------------------------------------------------------------------------


def test_who_waits_for_the_end_of_a_long_chronon_is_stopped_at_once() -> None:
    program = compile(f"SET CHRONON 1d;\n{BELL}")
    with LocalEngine(program) as engine:
        before = engine.environment
        engine.start()
        assert (before, type(engine.environment)) == (None, Machine)
        engine.start()  # it goes on already
        time.sleep(0.05)
        began = time.monotonic()
        engine.stop()
        assert time.monotonic() - began < 5
        engine.start()
        engine.stop()
    assert engine.reports == []


def test_a_thread_cannot_follow_the_time_of_a_world_and_says_so() -> None:
    engine = LocalEngine(compile(BELL), environment=World(1))
    engine.start()
    over = time.monotonic() + 30
    while not engine.reports and time.monotonic() < over:
        time.sleep(0.01)
    engine.stop()
    why = "the time of a world passes inside `World.live`: an engine follows it by follow()"
    assert engine.reports == [f"the clock is followed no more: {why}"]


# ---- together, and alone -----------------------------------------------------------------------------------------


def order_of(world: Environment) -> list[int]:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number * number

    assert world.together([partial(work, n) for n in range(6)]) == [n * n for n in range(6)]
    return done


def test_the_seed_decides_in_which_order_things_happen_that_happen_together() -> None:
    assert order_of(World(3)) == order_of(World(3))
    assert len({tuple(order_of(World(seed))) for seed in range(20)}) > 10


def test_threads_do_meet() -> None:
    both = Barrier(2, timeout=30)  # whoever comes alone is not let through
    assert sorted(Machine().together([both.wait, both.wait])) == [0, 1]
    assert Machine().together([]) == []


@pytest.mark.parametrize("world", [Machine(), World(1)], ids=["machine", "world"])
def test_all_is_done_before_a_failure_is_raised(world: Environment) -> None:
    done: list[int] = []

    def fail() -> None:
        raise LookupError("one of them")

    with pytest.raises(LookupError, match="one of them"):
        world.together([fail, lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]


def test_blocking_lets_time_pass_and_nobody_else_go_on() -> None:
    world = World(1)

    async def sleep_beside() -> list[float]:
        sleeping = asyncio.create_task(world.sleep(1))
        await world.sleep(0)
        world.block(10)
        at = world.monotonic()
        await sleeping
        return [at, world.monotonic()]

    assert world.live(sleep_beside()) == pytest.approx([10, 10], abs=1e-4)
    machine, began = Machine(random.Random(1)), time.monotonic()
    machine.block(0.05)
    machine.block(-1)
    assert 0.05 <= time.monotonic() - began < 5

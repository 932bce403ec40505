"""A world that a seed decides: the same seed gives the same run, and nothing real is waited for."""

from __future__ import annotations

import asyncio
import time

import pytest

from augury.environment import Request, Response, Unreachable
from augury.simulated import START_US, Faults, Stuck, World

FAULTS = Faults(refused=0.2, lost=0.2, delay_seconds_max=5.0)


def run_of(seed: int) -> list[str]:
    """Three who ask a host in a loop with pauses; what each saw, and when."""
    world = World(seed, FAULTS)
    heard: list[str] = []

    def answer(asked: Request) -> Response:
        heard.append(f"{world.now_us()} heard {asked.body.decode()}")
        return Response(200 if world.random.random() < 0.7 else 503)

    world.network.hosts["target"] = answer

    async def ask(who: int) -> None:
        for turn in range(20):
            try:
                told = str((await world.network.request(Request("POST", "http://target/", body=b"%d" % who))).status)
            except Unreachable as error:
                told = str(error)
            heard.append(f"{world.now_us()} {who} {turn} {told}")
            await world.sleep(world.random.uniform(0, 60))

    async def all_of_them() -> None:
        await asyncio.gather(*(ask(who) for who in range(3)))

    world.live(all_of_them())
    return heard


def test_a_seed_gives_the_same_run_again_and_another_seed_another() -> None:
    assert run_of(1) == run_of(1)
    assert run_of(1) != run_of(2)


def test_faults_happen_and_answers_are_lost_after_they_were_heard() -> None:
    told = run_of(3)
    assert any("refused" in line for line in told)
    assert any("broke off" in line for line in told)
    asked = sum(" heard " in line for line in told)
    answered = sum(line.endswith((" 200", " 503")) for line in told)
    assert asked > answered, "some were heard whose answer was lost"


def test_a_day_passes_at_once() -> None:
    world, began = World(0), time.monotonic()
    world.live(world.sleep(86_400))
    assert world.now_us() - START_US == pytest.approx(86_400_000_000, abs=10)
    assert time.monotonic() - began < 30


def test_who_waits_for_nothing_is_told() -> None:
    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck):
        World(0).live(wait())


def test_a_world_may_end_before_its_inhabitants() -> None:
    world = World(0)
    with pytest.raises(TimeoutError):
        world.live(world.sleep(100), until_us=START_US + 10_000_000)
    assert world.monotonic() == pytest.approx(10, abs=0.01)


def test_work_for_threads_is_done_in_its_turn() -> None:
    async def work() -> list[int]:
        loop = asyncio.get_running_loop()
        return [await loop.run_in_executor(None, pow, 2, n) for n in range(4)]

    assert World(0).live(work()) == [1, 2, 4, 8]


def test_files_outlive_their_writers_and_tell_a_new_one_from_one_that_grew() -> None:
    world = World(0)
    world.files.write("in/a", b"one\n")
    before = world.files.mark("in/a")
    world.files.append("in/a", b"two\n")
    assert world.files.mark("in/a") == (before[0], 8)
    world.files.write("in/a", b"new\n")
    assert world.files.mark("in/a")[0] != before[0]
    assert world.files.read("in/a", 1, 2) == b"ew"
    assert world.files.names("in") == ["a"]
    with pytest.raises(FileNotFoundError):
        world.files.read("in/b")

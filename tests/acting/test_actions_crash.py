"""A deliverer that is killed at random instants: nothing is lost, and dead letters are kept."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from aiohttp import web

from augury.local.store.outbox import open_outbox
from augury.local.store.waiting import State, Wanted
from tests.acting.targets import Target, action, fill, target

COUNT = 250

# argv: the store, a URL. Delivers all, and prints a line when it is done.
DELIVERER = """
import asyncio, sys
from augury import limits
from augury.actions.deliver import Carrier, deliver
from augury.actions.outbox import StoredOutbox
from augury.actions.webhook import Webhook
from augury.environment import real
from augury.local.store.outbox import open_outbox
limits.DELIVERY_BACKOFF_SECONDS = limits.BREAKER_SECONDS = limits.BREAKER_SECONDS_MAX = 0.02

async def main():
    async with real() as environment:
        outbox = StoredOutbox(open_outbox(sys.argv[1], alone=True))
        hook = Webhook(sys.argv[2], 5, is_public=False)
        print("begun", flush=True)
        await deliver(outbox, {"tell": Carrier(hook, retries=50)}, environment)
        await outbox.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 5), ("postgres", 2)])
def test_killed_at_random_instants(kind: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url = str(tmp_path / "store.db") if kind == "sqlite" else str(request.getfixturevalue("postgres_url"))
    seed = time.time_ns()
    print(f"seed {seed}")
    chance = random.Random(seed)
    fill(url, [action(n, "tell", {"resource": f"r{n % 50}"}) for n in range(COUNT)])
    succeeded: Counter[str] = Counter()

    async def behave(request: web.Request, count: int) -> web.Response:
        await asyncio.sleep(chance.random() * 0.02)
        key = request.headers["idempotency-key"]
        if key.endswith("7"):
            return web.Response(status=400)
        if chance.random() < 0.2:
            return web.Response(status=500)
        succeeded[key] += 1
        return web.Response()

    async def work() -> None:
        async with target(behave) as found:
            for number in range(kills):
                before = len(found.got)
                # Those before it may have carried out all there was: then this one would ask for nothing.
                fill(url, [action(COUNT + number, "tell", {"resource": f"r{number}"})])
                process = await _begin(url, found.url)
                try:
                    await _until_asked(found, before, process)
                    await asyncio.sleep(chance.random() * 0.3)
                finally:
                    process.kill()
                    await asyncio.to_thread(process.wait)
                _require_truth(url, succeeded)
            process = await _begin(url, found.url)
            try:
                assert await asyncio.to_thread(process.wait, 60) == 0
            finally:
                process.kill()

    asyncio.run(work())
    outbox = open_outbox(url, alone=False)
    states = {one.action.idempotency_key: one for one in outbox.listed(Wanted())}
    outbox.close()
    assert len(states) == COUNT + kills
    dead = {key for key in states if key.endswith("7")}
    assert {key for key, one in states.items() if one.state is State.DEAD} == dead
    assert {states[key].reason for key in dead} == {"answered 400 Bad Request"}
    assert {key for key, one in states.items() if one.state is State.DELIVERED} == set(states) - dead
    assert set(succeeded) == set(states) - dead, "every success came, and counts once by its key"
    assert sum(succeeded.values()) < 1.5 * len(succeeded), "only what was under way when it was killed comes again"


async def _begin(url: str, hook: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", DELIVERER, url, hook], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(process.stdout.readline) == b"begun\n"
    except BaseException:
        process.kill()  # or who reads its line would wait for it, and the loop for who reads
        raise
    process.stdout.close()
    return process


async def _until_asked(found: Target, before: int, process: subprocess.Popen[bytes]) -> None:
    """Wait for the first thing that a deliverer asks for."""
    over = time.monotonic() + 60
    while len(found.got) == before:
        assert process.poll() is None or len(found.got) > before, "the deliverer ended, and has asked for nothing"
        assert time.monotonic() < over, "the deliverer has asked for nothing within 60 s"
        await asyncio.sleep(0.005)


def _require_truth(url: str, succeeded: Counter[str]) -> None:
    """What is noted as delivered was delivered."""
    outbox = open_outbox(url, alone=False)
    noted = {one.action.idempotency_key for one in outbox.listed(Wanted((State.DELIVERED,)))}
    outbox.close()
    assert noted <= set(succeeded)

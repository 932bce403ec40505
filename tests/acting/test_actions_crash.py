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
from tests.acting.targets import action, fill, target

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
            for _ in range(kills):
                before = len(found.got)
                process = await _begin(url, found.url)
                while len(found.got) == before:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(chance.random() * 0.3)
                process.kill()
                await asyncio.to_thread(process.wait)
                _require_truth(url, succeeded)
            process = await _begin(url, found.url)
            assert await asyncio.to_thread(process.wait, 60) == 0

    asyncio.run(work())
    outbox = open_outbox(url, alone=False)
    states = {one.action.idempotency_key: one for one in outbox.listed(Wanted())}
    outbox.close()
    assert len(states) == COUNT
    dead = {key for key in states if key.endswith("7")}
    assert {key for key, one in states.items() if one.state is State.DEAD} == dead
    assert {states[key].reason for key in dead} == {"answered 400 Bad Request"}
    assert {key for key, one in states.items() if one.state is State.DELIVERED} == set(states) - dead
    assert set(succeeded) == set(states) - dead, "every success came, and counts once by its key"
    assert sum(succeeded.values()) < 1.5 * len(succeeded), "only what was under way when it was killed comes again"


async def _begin(url: str, hook: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", DELIVERER, url, hook], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"begun\n"
    process.stdout.close()
    return process


def _require_truth(url: str, succeeded: Counter[str]) -> None:
    """What is noted as delivered was delivered."""
    outbox = open_outbox(url, alone=False)
    noted = {one.action.idempotency_key for one in outbox.listed(Wanted((State.DELIVERED,)))}
    outbox.close()
    assert noted <= set(succeeded)

"""The deliverer in worlds that seeds decide: requests and answers are lost, targets fail, and it crashes."""

from __future__ import annotations

from collections import defaultdict

import pytest

from augury.actions.deliver import Carrier, deliver
from augury.actions.outbox import MemoryOutbox
from augury.actions.webhook import Webhook
from augury.environment import Request, Response
from augury.local.store.waiting import State, Wanted
from augury.simulated import Faults, World
from tests.acting.targets import action

SEEDS = range(25)
FAULTS = Faults(refused=0.15, lost=0.15, delay_seconds_max=2.0)
COUNT = 40


def run_of(seed: int) -> list[str]:
    """What the targets of a world heard, in order, after crashes and restarts until all is settled; checked."""
    world = World(seed, FAULTS)
    heard: list[str] = []
    done: defaultdict[str, set[str]] = defaultdict(set)
    actions = [action(n, ("tell", "order")[n % 2], {"resource": f"r{n % 7}"}) for n in range(COUNT)]
    refused = {one.idempotency_key for one in actions if world.random.random() < 0.1}

    def answer(asked: Request) -> Response:
        key = asked.headers["idempotency-key"]
        heard.append(f"{world.now_us()} {key}")
        if key in refused:
            return Response(422)
        if world.random.random() < 0.2:
            return Response(503, {"retry-after": str(world.random.randrange(90))})
        done[key].add(asked.headers["webhook-id"])
        return Response(204)

    world.network.hosts["one"] = world.network.hosts["two"] = answer
    outbox = MemoryOutbox(actions)
    carriers = {
        "tell": Carrier(Webhook("http://one/", 5), retries=100),
        "order": Carrier(Webhook("http://two/", 5), retries=100, concurrency=2),
    }
    for _ in range(world.random.randrange(4)):
        end_us = world.now_us() + world.random.randrange(1, 20_000_000)
        try:
            world.live(deliver(outbox, carriers, world), end_us)
        except TimeoutError:
            heard.append("crash")
    world.live(deliver(outbox, carriers, world))
    settled = {one.action.idempotency_key: one.state for one in outbox.listed(Wanted())}
    assert {key for key, state in settled.items() if state is State.DEAD} == refused
    assert {key for key, state in settled.items() if state is State.DELIVERED} == set(settled) - refused
    assert set(done) == set(settled) - refused
    _require_order(heard, {one.idempotency_key: n for n, one in enumerate(actions)})
    return heard


def _require_order(heard: list[str], places: dict[str, int]) -> None:
    """Once an action of an event was heard, none before it is heard again."""
    last: dict[int, int] = {}
    for line in heard:
        if line != "crash":
            place = places[line.split()[1]]
            assert place >= last.get(place % 7, -1), line
            last[place % 7] = place


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_is_delivered_to_in_order_and_nothing_is_lost(seed: int) -> None:
    run_of(seed)


def test_a_seed_gives_the_same_run_again() -> None:
    assert run_of(5) == run_of(5)
    assert run_of(5) != run_of(6)

"""The deliverer in worlds that seeds decide: requests and answers are lost, targets fail, and it crashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from augury import limits
from augury.actions.deliver import Carrier, Counts, Deliverer, Ends, deliver
from augury.actions.outbox import MemoryOutbox
from augury.actions.webhook import Webhook
from augury.engine.ticked import Action
from augury.environment import Request, Response
from augury.local.store.waiting import State, Wanted
from augury.simulated import START_US, Faults, World
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


# ---- two actions of one host ---------------------------------------------------------------------------------------


@dataclass
class Host:
    """Hears when which path is asked, in seconds since the world began."""

    world: World
    heard: list[tuple[float, str]] = field(default_factory=list)

    def hear(self, asked: Request) -> None:
        self.heard.append((self.world.monotonic(), urlsplit(asked.url).path))

    def gaps(self) -> list[float]:
        """How long nothing was heard, each time."""
        times = [at for at, _ in self.heard]
        return [after - before for before, after in pairwise(times)]


def hooks(concurrency: int = limits.DELIVERY_CONCURRENCY, **urls: str) -> dict[str, Carrier]:
    """A webhook for each action."""
    return {name: Carrier(Webhook(url, 5), retries=100, concurrency=concurrency) for name, url in urls.items()}


def of_each(**counts: int) -> list[Action]:
    """So many of each action, each of an event of its own, for those of one event wait for each other."""
    return [action(n, name, {"resource": f"{name}-{n}"}) for name, count in counts.items() for n in range(count)]


def settled(world: World, carriers: dict[str, Carrier], actions: list[Action]) -> Counts:
    """Carry out all of them; nothing comes while it runs, so it need not be looked for often."""
    deliverer = Deliverer(MemoryOutbox(actions), carriers, world, look_seconds=600)
    world.live(deliverer.run(Ends.SETTLED))
    return deliverer.counts


def test_two_actions_of_one_host_share_its_places() -> None:
    world = World(1)
    running, most = 0, 0

    async def answer(_: Request) -> Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await world.sleep(1)
        running -= 1
        return Response(204)

    world.network.hosts["shop"] = answer
    carriers = hooks(tell="http://shop/tell", order="http://shop/order")
    counts = settled(world, carriers, of_each(tell=20, order=20))
    assert (counts.delivered, most) == (40, limits.DELIVERY_CONCURRENCY)


def test_two_actions_of_one_host_share_its_breaker() -> None:
    """Neither fails often enough by itself before nothing more is tried; another host does not notice."""
    world = World(2)
    shop, other = Host(world), Host(world)

    def fails_for_a_while(asked: Request) -> Response:
        shop.hear(asked)
        return Response(503 if world.monotonic() < 60 else 204)

    def is_well(asked: Request) -> Response:
        other.hear(asked)
        return Response(204)

    world.network.hosts.update(shop=fails_for_a_while, other=is_well)
    carriers = hooks(1, tell="http://shop/tell", order="http://shop/order", log="http://other/log")
    counts = settled(world, carriers, of_each(tell=3, order=3, log=20))
    assert (counts.delivered, counts.dead) == (26, 0)
    opening = limits.BREAKER_FAILURES
    paths = [path for _, path in shop.heard[:opening]]
    assert {paths.count("/tell"), paths.count("/order")} == {2, 3}
    # From there on one finds out whether the host is back, after twice as long each time.
    found_out = [gap for gap in shop.gaps()[opening - 1 :] if gap > 0.4]
    longest = [limits.BREAKER_SECONDS * 2**n for n in range(len(found_out))]
    assert all(most / 2 <= gap <= most + 0.3 for gap, most in zip(found_out, longest, strict=True)), found_out
    assert len(found_out) >= 5
    assert other.heard[-1][0] < 1, "it has its own"


def in_seconds(seconds: int) -> str:
    return str(seconds)


def as_date(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(START_US / 1e6, UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("written", [in_seconds, as_date])
@pytest.mark.parametrize(("asked_for", "waited"), [(90, 90), (3_600, 3_600), (86_400 * 365, 3_600)])
def test_a_host_that_asks_for_time_hears_of_neither_action_meanwhile(
    written: Callable[[int], str], asked_for: int, waited: int
) -> None:
    world = World(3)
    shop, other = Host(world), Host(world)

    def busy_once(asked: Request) -> Response:
        shop.hear(asked)
        return Response(429, {"retry-after": written(asked_for)}) if len(shop.heard) == 1 else Response(204)

    def is_well(asked: Request) -> Response:
        other.hear(asked)
        return Response(204)

    world.network.hosts.update(shop=busy_once, other=is_well)
    carriers = hooks(1, tell="http://shop/tell", order="http://shop/order", log="http://other/log")
    assert settled(world, carriers, of_each(tell=2, order=2, log=5)).delivered == 9
    first, *later = [at for at, _ in shop.heard]
    # A date has no parts of a second, and the host was asked a few milliseconds after the world began.
    assert waited - 0.1 <= later[0] - first <= waited + 1
    assert len(later) == 4
    assert other.heard[-1][0] < 1


@pytest.mark.parametrize("seed", range(10))
def test_no_host_is_asked_within_any_time_it_asked_for(seed: int) -> None:
    world = World(seed)
    shop = Host(world)
    asked_until, too_early = [0.0], list[float]()

    def busy(asked: Request) -> Response:
        shop.hear(asked)
        at = world.monotonic()
        if at < asked_until[0] and at != shop.heard[-2][0]:  # those of one moment begin together
            too_early.append(at)
        if world.random.random() < 0.5:
            return Response(204)
        seconds = world.random.choice((0, 1, 30, 600, 3_600, 7_200))
        longest = min(seconds, limits.RETRY_AFTER_SECONDS_MAX)
        asked_until[0] = max(asked_until[0], world.monotonic() + longest)
        return Response(503, {"retry-after": str(seconds)})

    world.network.hosts["shop"] = busy
    carriers = hooks(tell="http://shop/tell", order="http://shop/order")
    assert settled(world, carriers, of_each(tell=20, order=20)).delivered == 40
    assert asked_until[0] > 600
    assert too_early == []

"""Executors behind HTTP: what engines are answered, and when an action is not done again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest

from augury.actions.binding import Elsewhere, Surroundings, wire
from augury.actions.deliver import Carrier, Deliverer, Ends
from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome
from augury.actions.envelope import envelope, received, signature, signing_keys
from augury.actions.outbox import MemoryOutbox
from augury.actions.webhook import ExecutorProcess
from augury.environment import Environment, Machine, Request, Response, real
from augury.local.store.waiting import State, Wanted
from augury.server import acting
from augury.server.acting import Executors, acting_app
from augury.server.given import engine_name
from tests.acting.sensing import page_of
from tests.acting.targets import action, delivery, program

KEYS = signing_keys("whsec_c2VjcmV0")
MEDIA = {"content-type": "application/cloudevents+json"}


@dataclass
class Doer(HoldsNothing):
    """Does as it is told, and keeps what it got."""

    outcomes: list[Outcome] = field(default_factory=list)
    got: list[Delivery] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)
    target: str = "doer"

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        self.got.append(delivery)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await self.go.wait()
        self.at_once -= 1
        return self.outcomes.pop(0) if self.outcomes else Delivered()


@dataclass
class Served:
    """Executors at an address."""

    url: str
    doer: Doer
    executors: Executors
    environment: Environment

    async def send(self, one: Delivery, engine: str = "kitchen", **headers: str) -> Response:
        return await self.post(envelope(one, engine), **headers)

    async def post(self, body: bytes, **headers: str) -> Response:
        said = MEDIA | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.environment.network.request(Request("POST", f"{self.url}/actions", said, body))

    async def ask(self, verb: str) -> None:
        await self.environment.network.request(Request("POST", f"{self.url}/{verb}"))

    def engine(self, name: str = "kitchen", keys: tuple[bytes, ...] = ()) -> ExecutorProcess:
        return ExecutorProcess(f"{self.url}/actions", 5, {}, keys, False, name, "tell")


@asynccontextmanager
async def served(
    *outcomes: Outcome, retries: int = 8, places: int = 8, keys: tuple[bytes, ...] = (), waits: bool = False
) -> AsyncIterator[Served]:
    doer = Doer(list(outcomes))
    if not waits:
        doer.go.set()
    async with real() as environment:
        executors = Executors({"tell": Carrier(doer, retries, places)}, environment)
        async with page_of(acting_app(executors, environment, keys, is_open=True)) as url:
            yield Served(url, doer, executors, environment)
        await executors.stop()


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


def test_an_engine_learns_what_became_of_its_action() -> None:
    async def work() -> None:
        outcomes = (Delivered(), Again("busy"), Again("later", 6.2), Dead("no such fridge"))
        async with served(*outcomes) as there:
            sent = [await there.engine().carry_out(delivery(n), there.environment) for n in range(4)]
            assert sent == [Delivered(), Again("busy"), Again("later", 7.0), Dead("no such fridge")]
            other = replace(delivery(5), action="sing")
            unbound = await there.engine().carry_out(other, there.environment)
            assert unbound == Dead("nobody is bound to the action `sing` here", is_target=True)
            assert len(there.doer.got) == 4

    run(work)


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"\xff", {}, 400),
        (b'{"specversion": "1.0", "id": "1", "source": "s"}', {}, 400),
        (b'{"specversion": "1.0", "id": "1", "source": "s", "data": {"action": "tell"}}', {}, 400),
        (envelope(delivery()).replace(b"2026-01-01T09", b"yesterday"), {}, 400),
        (envelope(delivery()), {"content_type": "text/plain"}, 415),
        (envelope(delivery()), {}, 204),
    ],
)
def test_what_is_no_action_is_refused(body: bytes, headers: dict[str, str], status: int) -> None:
    async def work() -> None:
        async with served() as there:
            answer = await there.post(body, **headers)
            assert answer.status == status
            assert len(there.doer.got) == (status == 204)

    run(work)


def test_an_action_comes_as_it_was_sent() -> None:
    one = delivery(1, "low", 2.5, Decimal("0.1234567890123456789012"), None, 10**30, [True, {"a": "ü"}])
    found = received(envelope(one, "kitchen"))
    assert (found.source, found.sender, found.delivery) == ("/augury/kitchen/Low", "kitchen", one)
    without = replace(one, seq=None, event_key={}, event="Ünder/way")
    assert received(envelope(without)).delivery == without
    assert received(envelope(without)).sender != received(envelope(one)).sender


def test_one_that_was_delivered_is_not_done_again_and_engines_are_told_apart() -> None:
    async def work() -> None:
        async with served() as there:
            for engine in ("kitchen", "kitchen", "cellar", "kitchen"):
                assert (await there.send(delivery(), engine)).status == 204
            assert [one.key for one in there.doer.got] == ["kitchen:key-1", "cellar:key-1"]

    run(work)


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "REMEMBERED_MAX", 2)

    async def work() -> None:
        async with served() as there:
            for number in (1, 2, 1, 3, 1, 2):
                await there.send(delivery(number))
            assert [one.key[-1] for one in there.doer.got] == ["1", "2", "3", "2"]

    run(work)


def test_who_comes_while_it_is_under_way_waits_for_it() -> None:
    async def work() -> None:
        async with served(Again("busy"), waits=True) as there:
            asking = [asyncio.create_task(there.send(delivery())) for _ in range(3)]
            gone = asyncio.create_task(there.send(delivery(2)))
            while len(there.doer.got) < 2:
                await asyncio.sleep(0.01)
            gone.cancel()
            done, _ = await asyncio.wait(asking, timeout=0.2)
            assert not done
            there.doer.go.set()
            assert [one.status for one in await asyncio.gather(*asking)] == [503, 503, 503]
            assert (await there.send(delivery(2))).status == 204
            assert sorted(one.key for one in there.doer.got) == ["kitchen:key-1", "kitchen:key-2"]

    run(work)


def test_no_more_at_once_than_there_are_places_however_many_engines() -> None:
    async def work() -> None:
        async with served(places=2, waits=True) as there:
            asking = [asyncio.create_task(there.send(delivery(), f"e{n}")) for n in range(6)]
            while there.executors.under_way < 6 or there.doer.at_once < 2:
                await asyncio.sleep(0.01)
            there.doer.go.set()
            assert [one.status for one in await asyncio.gather(*asking)] == [204] * 6
            assert there.doer.most_at_once == 2

    run(work)


def test_retries_are_counted_where_the_executor_is_bound() -> None:
    async def work() -> None:
        async with served(*[Again("busy")] * 4, retries=2) as there:
            said = [await there.engine().carry_out(delivery(), there.environment) for _ in range(4)]
            assert said[:3] == [Again("busy"), Again("busy"), Dead("given up after 3 tries: busy")]
            assert said[3] == Again("busy"), "whoever lets it be tried again begins anew"
            assert [one.attempt for one in there.doer.got] == [1, 2, 3, 1]

    run(work)


def test_while_it_is_paused_nothing_is_begun_and_nothing_dies() -> None:
    async def work() -> None:
        async with served(retries=0, places=1, waits=True) as there:
            first = asyncio.create_task(there.send(delivery(1)))
            queued = asyncio.create_task(there.send(delivery(2)))
            while there.executors.under_way < 2:
                await asyncio.sleep(0.01)
            await there.ask("pause")
            there.doer.go.set()
            assert (await first).status == 204
            for answer in (await queued, await there.send(delivery(3))):
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert (await there.send(delivery(1))).status == 204
            await there.ask("resume")
            assert (await there.send(delivery(2))).status == 204
            assert [one.key[-1] for one in there.doer.got] == ["1", "2"]

    run(work)


def test_only_what_is_signed_is_carried_out() -> None:
    async def work() -> None:
        async with served(keys=KEYS) as there:
            now, body = there.environment.now_us() // 1_000_000, envelope(delivery(), "kitchen")

            async def status(key: bytes, at: int, message_id: str = "key-1", sent: bytes = body) -> int:
                signed = signature((key,), message_id, at, body)
                said = {"webhook_id": message_id, "webhook_timestamp": str(at), "webhook_signature": signed}
                return (await there.post(sent, **said)).status

            assert (await there.send(delivery())).status == 401
            assert await status(b"another", now) == 401
            assert await status(KEYS[0], now - 400) == 401
            assert await status(KEYS[0], now + 400) == 401
            assert await status(KEYS[0], now, "key-2") == 401
            assert await status(KEYS[0], now, sent=body.replace(b"milk", b"beer")) == 401
            assert not there.doer.got
            assert await status(KEYS[0], now) == 204
            assert await there.engine(keys=(b"old", *KEYS)).carry_out(delivery(2), there.environment) == Delivered()
            refused = await there.engine(keys=(b"old",)).carry_out(delivery(3), there.environment)
            assert refused == Dead("the signature is not one of the secret", is_target=True, is_refusal=True)

    run(work)


def test_all_actions_of_a_program_go_there_each_as_a_target_of_its_own() -> None:
    async def work() -> None:
        async with served() as there:
            around = Surroundings(program(), engine="kitchen", elsewhere=Elsewhere(f"{there.url}/"))
            wired = wire(around, there.environment)
            assert not wired.problems
            targets = {name: carrier.executor.target for name, carrier in wired.carriers.items()}
            assert targets == {"order": f"{there.url} order", "tell": f"{there.url} tell"}
            outbox = MemoryOutbox([action(1), action(2), action(3, "order")])
            await Deliverer(outbox, wired.carriers, there.environment).run(Ends.SETTLED)
            states = [(one.action.action, one.state, one.reason) for one in outbox.listed(Wanted())]
            unbound = "nobody is bound to the action `order` here"
            assert states == [
                ("tell", State.DELIVERED, ""),
                ("tell", State.DELIVERED, ""),
                ("order", State.DEAD, unbound),
            ]

    run(work)


def test_an_engine_without_a_name_sends_nothing_elsewhere() -> None:
    around = Surroundings(program(), elsewhere=Elsewhere("http://127.0.0.1:1"))
    assert "needs a name" in wire(around, Machine()).problems[0]
    assert not wire(around, Machine()).carriers


def test_a_store_gives_its_engine_a_name_that_stays(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert engine_name("a.db") == engine_name(f"{tmp_path}/a.db") == engine_name("sqlite:///a.db")
    assert engine_name("a.db") != engine_name("b.db")

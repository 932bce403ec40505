"""The deliverer over both kinds of outbox: at least once, in order per event, each target by itself, bounded memory."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from augury import limits
from augury.actions.breaker import Breaker, backoff_seconds
from augury.actions.deliver import Carrier, Counts, Deliverer, Ends, deliver
from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome
from augury.actions.outbox import MemoryOutbox, Outbox, StoredOutbox
from augury.actions.webhook import Webhook
from augury.engine.ticked import Action
from augury.environment import Environment, real
from augury.local.store.errors import NoStore, StoreInUse
from augury.local.store.outbox import SqlOutbox, open_outbox
from augury.local.store.waiting import State, Wanted
from tests.acting.targets import START, action, fill, target


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of milliseconds."""
    monkeypatch.setattr(limits, "DELIVERY_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(limits, "BREAKER_SECONDS", 0.02)
    monkeypatch.setattr(limits, "BREAKER_SECONDS_MAX", 0.05)


@dataclass
class Noting(HoldsNothing):
    """An executor that notes when it carried out what, and does as it is told."""

    target: str = "one"
    behave: Callable[[Delivery], Outcome | Awaitable[Outcome]] = lambda _: Delivered()
    done: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        self.tried.append(delivery.key)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            outcome = self.behave(delivery)
            found = await outcome if asyncio.iscoroutine(outcome) else outcome
        finally:
            self.running -= 1
        assert isinstance(found, Delivered | Again | Dead)
        if isinstance(found, Delivered):
            self.done.append(delivery.key)
        return found


@dataclass
class Kept:
    """An outbox of either kind, with what people ask of it."""

    outbox: Outbox
    people: MemoryOutbox | SqlOutbox

    def states(self) -> dict[str, tuple[str, int, str]]:
        listed = self.people.listed(Wanted())
        return {one.action.idempotency_key: (one.state.value, one.action.attempts, one.reason) for one in listed}


Make = Callable[[list[Action]], Any]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Makes an outbox with actions, of each kind in turn."""
    url = ""
    if request.param == "sqlite":
        url = str(tmp_path / "store.db")
    elif request.param == "postgres":
        url = request.getfixturevalue("postgres_url")

    @asynccontextmanager
    async def made(actions: list[Action]) -> AsyncIterator[Kept]:
        if not url:
            memory = MemoryOutbox(actions)
            yield Kept(memory, memory)
            return
        fill(url, actions)
        outbox, people = StoredOutbox(open_outbox(url, alone=True)), open_outbox(url, alone=False)
        try:
            yield Kept(outbox, people)
        finally:
            people.close()
            await outbox.close()

    return made


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(limited())


async def delivered(kept: Kept, **executors: Noting) -> Counts:
    async with real() as environment:
        return await deliver(kept.outbox, {name: Carrier(one) for name, one in executors.items()}, environment)


# ---- at least once, and in order -----------------------------------------------------------------------------------


def test_everything_is_delivered_once_when_nothing_fails(make: Make) -> None:
    async def work() -> None:
        executor = Noting(behave=_slowly)
        async with make([action(n) for n in range(450)]) as kept:
            counts = await delivered(kept, tell=executor)
            assert sorted(executor.done) == sorted(kept.states())
            assert counts == Counts(delivered=450)
            assert {state for state, _, _ in kept.states().values()} == {"delivered"}
            assert 1 < executor.most_running <= limits.DELIVERY_CONCURRENCY

    run(work())


def test_actions_of_an_event_go_one_after_the_other_over_all_targets(make: Make) -> None:
    """Random failures, three targets: whatever happens, an action begins after the one before it was settled."""
    chance = random.Random(7)
    names = ("order", "tell", "log")
    actions = [action(n, names[n % 3], {"resource": f"r{chance.randrange(8)}"}) for n in range(150)]
    order: defaultdict[str, list[int]] = defaultdict(list)
    place = {one.idempotency_key: n for n, one in enumerate(actions)}
    finished: list[str] = []

    async def behave(delivery: Delivery) -> Outcome:
        key = delivery.event_key["resource"]
        before = [one for one in actions[: place[delivery.key]] if one.key["resource"] == key]
        assert {one.idempotency_key for one in before} <= set(finished), "it began before its turn"
        await asyncio.sleep(chance.random() * 0.003)
        lot = chance.random()
        if lot < 0.25:
            return Again("not now")
        order[key].append(place[delivery.key])
        finished.append(delivery.key)
        return Dead("never") if lot < 0.35 else Delivered()

    async def work() -> None:
        async with make(actions) as kept:
            executors = {name: Noting(name, behave) for name in names}
            await delivered(kept, **executors)
            states = kept.states()
            assert all(state in ("delivered", "dead") for state, _, _ in states.values())
        assert all(places == sorted(places) for places in order.values())
        assert sum(map(len, order.values())) == len(actions)

    run(work())


def test_events_without_a_key_do_not_wait_for_each_other(make: Make) -> None:
    release = asyncio.Event()

    async def behave(delivery: Delivery) -> Outcome:
        if delivery.key == "key-tell-0":
            await release.wait()
        return Delivered()

    async def work() -> None:
        executor = Noting(behave=behave)
        async with make([action(n, "tell", {}) for n in range(5)]) as kept, real() as environment:
            deliverer = Deliverer(kept.outbox, {"tell": Carrier(executor)}, environment)
            deliverer.start()
            await until(lambda: len(executor.done) == 4)
            release.set()
            await until(lambda: len(executor.done) == 5)
            await deliverer.stop()

    run(work())


async def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, "it never came about"
        await asyncio.sleep(0.005)


def test_an_action_without_an_executor_waits_and_holds_up_nobody(make: Make) -> None:
    async def work() -> None:
        key = {"resource": "milk"}
        async with make([action(0, "order", key), action(1, "Tell", key)]) as kept:
            executor = Noting()
            await delivered(kept, tell=executor)
            assert executor.done == ["key-Tell-1"], "names are matched without regard to case"
            assert kept.states()["key-order-0"] == ("waiting", 0, "")

    run(work())


# ---- failures ------------------------------------------------------------------------------------------------------


def test_what_fails_is_tried_again_and_at_last_a_dead_letter_with_its_reason(make: Make) -> None:
    async def work() -> None:
        executor = Noting(behave=lambda d: Delivered() if d.attempt == 3 or d.key.endswith("1") else Again("busy"))
        lost = Noting("two", lambda _: Again("the line is cut"))
        refused = Noting("three", lambda _: Dead("no such thing"))
        actions = [action(0), action(1), action(2, "order"), action(3, "log")]
        async with make(actions) as kept, real() as environment:
            carriers = {"tell": Carrier(executor), "order": Carrier(lost, retries=2), "log": Carrier(refused)}
            counts = await deliver(kept.outbox, carriers, environment)
            assert kept.states() == {
                "key-tell-0": ("delivered", 3, ""),
                "key-tell-1": ("delivered", 1, ""),
                "key-order-2": ("dead", 3, "given up after 3 tries: the line is cut"),
                "key-log-3": ("dead", 1, "no such thing"),
            }
            assert counts == Counts(delivered=2, again=4, dead=2)

    run(work())


def test_what_an_executor_raises_is_a_reason_and_stops_nobody(make: Make) -> None:
    def broken(_: Delivery) -> Outcome:
        raise ZeroDivisionError("division by zero")

    async def work() -> None:
        fine = Noting("two")
        async with make([action(0), action(1, "order")]) as kept, real() as environment:
            carriers = {"tell": Carrier(Noting(behave=broken), retries=0), "order": Carrier(fine)}
            await deliver(kept.outbox, carriers, environment)
            assert kept.states()["key-tell-0"] == (
                "dead",
                1,
                "given up after 1 try: ZeroDivisionError: division by zero",
            )
            assert fine.done == ["key-order-1"]

    run(work())


def test_a_target_that_asks_for_time_gets_it(make: Make) -> None:
    times: list[float] = []

    def behave(_: Delivery) -> Outcome:
        times.append(time.monotonic())
        return Again("later", 0.4) if len(times) == 1 else Delivered()

    async def work() -> None:
        async with make([action(0), action(1)]) as kept, real() as environment:
            await deliver(kept.outbox, {"tell": Carrier(Noting(behave=behave), concurrency=1)}, environment)
        assert len(times) == 3
        assert times[1] - times[0] >= 0.4, "others wait, too"

    run(work())


def test_a_dead_target_with_many_actions_holds_up_nobody_and_fills_no_memory(tmp_path: Path) -> None:
    """It has 5,000 before the first of the others, and is tried a few times only."""
    url = str(tmp_path / "store.db")
    fill(url, [*(action(n) for n in range(5_000)), *(action(5_000 + n, "order") for n in range(300))])

    async def work() -> None:
        dead, fine = Noting("dead", lambda _: Again("refused")), Noting("fine")
        outbox = StoredOutbox(open_outbox(url, alone=True))
        async with real() as environment:
            deliverer = Deliverer(outbox, {"tell": Carrier(dead), "order": Carrier(fine)}, environment)
            deliverer.start()
            began = time.monotonic()
            await until(lambda: len(fine.done) == 300)
            assert len(dead.tried) < 300 + (time.monotonic() - began) * 100
            lanes = deliverer._lanes.values()
            assert max(len(lane.ready) for lane in lanes) <= limits.DELIVERIES_READ_MAX
            others = sum(lane.running for lane in lanes) + len(deliverer._finished)
            assert len(deliverer._held) <= 2 * limits.DELIVERIES_READ_MAX + others
            await deliverer.stop()
        await outbox.close()

    run(work())


def test_what_hangs_keeps_to_its_own_places(make: Make) -> None:
    async def hang(_: Delivery) -> Outcome:
        await asyncio.sleep(3600)
        return Delivered()

    async def work() -> None:
        hanging, fine = Noting("hanging", hang), Noting("fine")
        actions = [action(n, "tell" if n % 2 else "order") for n in range(200)]
        async with make(actions) as kept, real() as environment:
            deliverer = Deliverer(kept.outbox, {"tell": Carrier(hanging), "order": Carrier(fine)}, environment)
            deliverer.start()
            await until(lambda: len(fine.done) == 100)
            assert hanging.running == limits.DELIVERY_CONCURRENCY
            await asyncio.wait_for(asyncio.shield(_quick_stop(deliverer)), 15)
            assert hanging.running == 0

    run(work())


async def _quick_stop(deliverer: Deliverer) -> None:
    for one in list(deliverer._tries):
        one.cancel()
    await deliverer.stop()


def test_a_target_that_fails_again_and_again_is_told_once_and_that_it_is_back() -> None:
    """Several servers, one of which is down for a while, one fails now and then, and one gets what it will not take."""
    told: list[str] = []

    async def work() -> None:
        down = [limits.BREAKER_FAILURES + 2]

        def out_of_order(_: web.Request, __: int) -> web.Response | None:
            down[0] -= 1
            return web.Response(status=503) if down[0] >= 0 else None

        def now_and_then(_: web.Request, count: int) -> web.Response | None:
            return web.Response(status=503) if count % 3 == 1 else None

        def unwilling(_: web.Request, __: int) -> web.Response:
            return web.Response(status=422)

        async with target(out_of_order) as one, target(now_and_then) as two, target(unwilling) as three:
            urls = {"tell": one.url, "order": two.url, "refuse": three.url}
            carriers = {name: Carrier(Webhook(url, 5, {}, (), False)) for name, url in urls.items()}
            outbox = MemoryOutbox([action(number, name) for number in range(12) for name in carriers])
            async with real() as environment:
                deliverer = Deliverer(outbox, carriers, environment, report=told.append)
                await deliverer.run(Ends.SETTLED)
                for carrier in carriers.values():
                    await carrier.executor.close()
            assert deliverer.counts.delivered == 24
            assert deliverer.counts.dead == 12
            place = urlsplit(one.url).netloc
            assert [place in line for line in told] == [True, True]

    run(work())
    assert "503" in told[0]
    assert told[1].endswith(": it goes on")


def test_an_action_that_is_not_let_in_is_told_at_once_and_what_is_beside_it_does_not_count() -> None:
    """Two webhooks of one host, and a third with the secret of the first: another's success says nothing of theirs."""
    told: list[str] = []

    async def work() -> None:
        refused: list[str] = []

        def some_secrets_are_wrong(request: web.Request, _: int) -> web.Response | None:
            if request.path == "/order" or len(refused) >= 4:
                return None
            refused.append(request.path)
            return web.Response(status=403)

        async with target(some_secrets_are_wrong) as found, real() as environment:
            place = found.url.removesuffix("/hook")
            carriers = {name: Carrier(Webhook(f"{place}/{name}", 20, {}, (), False), 8, 1) for name in NAMES}
            key = {"resource": "milk"}  # one after the other: each is refused, another let in, and again
            outbox = MemoryOutbox([action(n, NAMES[n % 3], key) for n in range(9)])
            deliverer = Deliverer(outbox, carriers, environment, report=told.append)
            await deliverer.run(Ends.SETTLED)
            assert refused == ["/tell", "/log", "/tell", "/log"]
            assert (deliverer.counts.delivered, deliverer.counts.dead) == (5, 4)
        assert told == [f"{place}: answered 403 Forbidden", f"{place}: it goes on"]

    run(work())


NAMES = ("tell", "order", "log")


# ---- living --------------------------------------------------------------------------------------------------------


def test_it_pauses_and_goes_on(make: Make) -> None:
    async def work() -> None:
        executor = Noting(behave=_slowly)
        async with make([action(n) for n in range(60)]) as kept, real() as environment:
            deliverer = Deliverer(kept.outbox, {"tell": Carrier(executor)}, environment)
            deliverer.start()
            await until(lambda: len(executor.done) >= 10)
            deliverer.pause()
            await until(lambda: not deliverer._tries)
            so_far = len(executor.done)
            await asyncio.sleep(0.3)
            assert len(executor.done) == so_far < 60
            deliverer.resume()
            await until(lambda: len(executor.done) == 60)
            await deliverer.stop()
            assert {state for state, _, _ in kept.states().values()} == {"delivered"}, "what was done is noted"

    run(work())


async def _slowly(_: Delivery) -> Outcome:
    await asyncio.sleep(0.01)
    return Delivered()


def test_once_tries_what_can_be_tried_and_leaves_the_rest(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELIVERY_BACKOFF_SECONDS", 10_000.0)
    monkeypatch.setattr(limits, "DELIVERY_BACKOFF_SECONDS_MAX", 10_000.0)

    async def work() -> None:
        executor = Noting(behave=lambda d: Again("busy") if d.key == "key-tell-0" else Delivered())
        async with make([action(n) for n in range(4)]) as kept, real() as environment:
            deliverer = Deliverer(kept.outbox, {"tell": Carrier(executor)}, environment)
            await deliverer.run(Ends.ONCE)
            assert sorted(executor.done) == [f"key-tell-{n}" for n in (1, 2, 3)]
            assert kept.states()["key-tell-0"] == ("waiting", 1, "busy")

    run(work())


def test_new_actions_are_found_while_it_runs(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    fill(url, [action(0)])

    async def work() -> None:
        outbox, executor = StoredOutbox(open_outbox(url, alone=True)), Noting()
        async with real() as environment:
            deliverer = Deliverer(outbox, {"tell": Carrier(executor), "late": Carrier(executor)}, environment)
            deliverer.start()
            await until(lambda: len(executor.done) == 1)
            fill(url, [action(1), action(2, "late")])  # an engine beside it
            await until(lambda: len(executor.done) == 3)
            await deliverer.stop()
        await outbox.close()

    run(work())


# ---- what people do ------------------------------------------------------------------------------------------------


def test_what_is_dropped_is_never_tried_and_lets_the_next_of_its_event_go(make: Make) -> None:
    async def work() -> None:
        key, stuck = {"resource": "milk"}, Noting("stuck", lambda _: Again("busy", 3600))
        fine = Noting("fine")
        async with make([action(0, "order", key), action(1, "tell", key)]) as kept, real() as environment:
            carriers = {"order": Carrier(stuck), "tell": Carrier(fine)}
            deliverer = Deliverer(kept.outbox, carriers, environment)
            deliverer.start()
            await until(lambda: kept.states()["key-order-0"][1] == 1)
            assert not fine.tried
            assert kept.people.drop(Wanted(action="ORDER"), environment.now_us()) == 1
            await until(lambda: fine.done == ["key-tell-1"])
            await deliverer.stop()
            assert {key: one[0] for key, one in kept.states().items()} == {
                "key-order-0": "dropped",
                "key-tell-1": "delivered",
            }
            assert len(stuck.tried) == 1

    run(work())


def test_what_is_dropped_lets_nothing_go_of_other_events_without_a_key(make: Make) -> None:
    async def work() -> None:
        stuck = Noting(behave=lambda _: Again("busy", 3600))
        async with make([action(0, "order", {}), action(1, "tell", {})]) as kept, real() as environment:
            deliverer = Deliverer(kept.outbox, {"order": Carrier(stuck), "tell": Carrier(stuck)}, environment)
            deliverer.start()
            await until(lambda: [one[1] for one in kept.states().values()] == [1, 1])
            await deliverer.stop()
            due = [one.next_at for one in kept.people.listed(Wanted())]
            assert kept.people.drop(Wanted(action="order"), environment.now_us()) == 1
            assert [one.next_at for one in kept.people.listed(Wanted())] == [None, due[1]]

    run(work())


def test_a_dead_letter_is_tried_again_by_retry(make: Make) -> None:
    answers: list[Outcome] = [Dead("no"), Delivered()]

    async def work() -> None:
        executor = Noting(behave=lambda _: answers[0])
        async with make([action(0), action(1)]) as kept, real() as environment:
            carriers = {"tell": Carrier(executor)}
            await deliver(kept.outbox, carriers, environment)
            assert {one[0] for one in kept.states().values()} == {"dead"}
            answers.pop(0)
            await deliver(kept.outbox, carriers, environment)
            assert executor.done == [], "what is dead stays so"
            assert kept.people.retry(Wanted((State.DEAD,), keys=("key-tell-1",)), environment.now_us()) == 1
            await deliver(kept.outbox, carriers, environment)
            assert executor.done == ["key-tell-1"]
            assert kept.states()["key-tell-0"][0] == "dead"
            assert kept.people.retry(Wanted(), environment.now_us()) == 1, "what is delivered is not tried again"

    run(work())


# ---- the store -----------------------------------------------------------------------------------------------------


def test_a_second_deliverer_is_refused(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    with pytest.raises(NoStore):
        open_outbox(url, alone=True)
    fill(url, [])
    first = open_outbox(url, alone=True)
    with pytest.raises(StoreInUse, match="already being delivered from by process"):
        open_outbox(url, alone=True)
    open_outbox(url, alone=False).close()
    first.close()
    open_outbox(url, alone=True).close()


def test_a_second_deliverer_is_refused_by_postgres(postgres_url: str) -> None:
    fill(postgres_url, [])
    first = open_outbox(postgres_url, alone=True)
    with pytest.raises(StoreInUse):
        open_outbox(postgres_url, alone=True)
    first.close()


def test_an_older_store_gets_what_an_outbox_needs(tmp_path: Path) -> None:
    import sqlite3

    path = str(tmp_path / "store.db")
    fill(path, [action(0)])
    with sqlite3.connect(path) as connection:  # as it was before there were deliveries
        for name in ("augury_outbox_action", "augury_outbox_event"):
            connection.execute(f"DROP INDEX {name}")
        connection.execute("DROP TABLE augury_deliveries")
    connection.close()
    outbox = open_outbox(path, alone=True)
    assert [one.action.idempotency_key for one in outbox.listed(Wanted())] == ["key-tell-0"]
    outbox.close()


def test_outcomes_are_noted_while_an_engine_writes_ticks(tmp_path: Path) -> None:
    """A writer of the store commits all the time; outcomes of the deliverer lie between."""
    from threading import Event, Thread

    from augury.engine.ports import Post
    from augury.local.store.sql import open_store
    from tests.acting.targets import program

    url = str(tmp_path / "store.db")
    fill(url, [action(n) for n in range(300)])
    over, failures, written = Event(), [], []

    def write() -> None:
        try:
            with open_store(url, program()) as store:
                while not over.is_set():
                    written.extend(store.append([Post(START, "{}")] * 20))
        except Exception as error:
            failures.append(error)

    async def work() -> None:
        outbox = StoredOutbox(open_outbox(url, alone=True))
        writer = Thread(target=write, daemon=True)
        writer.start()
        try:
            async with real() as environment:
                counts = await deliver(outbox, {"tell": Carrier(Noting())}, environment)
        finally:
            over.set()
            writer.join(20)
        assert not writer.is_alive(), "who writes ticks has not come to an end within 20 s"
        assert counts.delivered == 300
        await outbox.close()

    run(work())
    assert not failures
    assert written


# ---- breaker and back-off ------------------------------------------------------------------------------------------


def test_the_breaker_opens_lets_one_find_out_and_closes() -> None:
    chance, breaker = random.Random(1), Breaker()
    for _ in range(limits.BREAKER_FAILURES):
        assert breaker.may_try(100.0)
        assert not breaker.begin()
        breaker.failed(100.0, False, chance)
    assert not breaker.may_try(100.0)
    late = breaker.next_try()
    breaker.failed(100.0, False, chance)
    assert breaker.next_try() == late, "what was under way when it opened changes nothing"
    assert 0 < late - 100.0 <= limits.BREAKER_SECONDS
    assert breaker.may_try(late)
    assert breaker.begin()
    assert not breaker.may_try(late), "one at a time"
    breaker.failed(late, True, chance)
    assert breaker.next_try() > late
    again = breaker.next_try()
    assert breaker.begin()
    breaker.succeeded()
    assert breaker.may_try(again)
    assert breaker.next_try() == 0.0


def test_waits_grow_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELIVERY_BACKOFF_SECONDS", 1.0)
    chance = random.Random(3)
    longest = [max(backoff_seconds(n, chance) for _ in range(300)) for n in range(1, 40)]
    assert all(0.8 * 2**n < found <= 2**n for n, found in enumerate(longest[:8]))
    assert max(longest) <= limits.DELIVERY_BACKOFF_SECONDS_MAX
    assert min(backoff_seconds(5, chance) for _ in range(300)) < 1.0, "any part of it"

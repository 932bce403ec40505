"""`augury serve` killed by SIGKILL at random instants, as it starts and as it works, and started again.

Clients post all the while, some waiting until an event is read, and send again, under the same event_id, what was not
answered. In the end every acknowledged event is in the history once; what was answered is what the store says; and
firings, posts, complex events and actions are those of the slow reference over what came from outside.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from augury.algebra.program import Program
from augury.api import compile
from augury.clock import microseconds_of
from augury.engine.firing_rows import firing_rows, firings_of, shape_of
from augury.engine.ticked import FiredTrigger
from augury.kernels.firing import Done
from augury.kernels.reference.bitemporal import Raw
from augury.kernels.reference.triggers import Triggered
from augury.local.running import LocalEngine
from augury.local.store.outbox import open_outbox
from augury.local.store.waiting import Wanted
from tests.conftest import COUNTED
from tests.server.asking import JSON, NDJSON, Server
from tests.server.conftest import Serve
from tests.triggers.claimed import Claim, judged

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Quoted (account INT, price INT) ID (account) LIFESPAN (1d)
  ON CHANGE OR RETROACTIVECHANGE DO requote(NEW.account, NEW.price);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Settled (account INT, quoted INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Bought (account INT) ID (account) LIFESPAN (1d)
  AS COMPOSITE Quoted(account, _) > Approved(account, _) CONTEXT CONTINUOUS;

RULE Price (amount INT) ACTION price(amount);
RULE Approve (account INT, amount INT, price INT) CONDITION amount <= 500
  ACTION POST Approved(account, amount), pay(account, price) ALTERNATIVEACTION escalate(account, amount);
RULE Settle (account INT, quoted INT) ACTION POST Settled(account, quoted), settle(account, quoted);
RULE Remind (account INT) ACTION remind(account);
RULE Thank (account INT) ACTION thank(account);

TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered
  RULESTRUC Price(amount) > Approve(account, amount, RETURNED(Price)) RETURNS INT : Price;
TRIGGER Settlement (account INT, amount INT) TRIGGEREVENT Approved
  COMPOSITEEVENT Quoted(A, _) > Approved(A, _) CONTEXT CHRONICLE
  RULESTRUC Settle(account, Quoted.price), Thank(Quoted.account);
TRIGGER Forgotten (account INT, price INT)
  COMPOSITEEVENT Quoted(A, _) > !Approved(A, _) WITHIN 2s CONTEXT CHRONICLE RULESTRUC Remind(account);
TRIGGER Happy (account INT) TRIGGEREVENT Bought RULESTRUC Thank(account);

BIND price TO PYTHON 'prices:with_tax';
"""
PRICES = "def with_tax(amount):\n    return amount * 12 // 10\n"
FUNCTIONS = {"price": lambda amount: amount * 12 // 10}
POSTED_FROM_OUTSIDE = ("Ordered", "Quoted")
READ = (*POSTED_FROM_OUTSIDE, "Approved", "Settled")

CLIENTS = 4
ACCOUNTS = 6
PAUSE_SECONDS_MAX = 0.06
READY_SECONDS_MAX = 5.0
READY_CPU_SECONDS_MAX = 3.5
WAITS_MAX = 4.0
ANSWER_SECONDS_MAX = 40.0
BLOCK_SECONDS = 18.0
"""Ten blocks of ten kills take three minutes at most: on a busy machine there are fewer."""
KILLS = f"{COUNTED}kills of a server"
"""What a run says at its end."""


# ---- who posts -------------------------------------------------------------------------------------------------------


class Client(threading.Thread):
    """Posts events, some at once or one that it waits for, until each is answered; what was not is sent again."""

    def __init__(self, server: Server, name: str, seed: str) -> None:
        super().__init__()
        self.server, self.called, self.chance = server, name, Random(seed)
        self.netloc = urlsplit(server.url).netloc
        self.is_over = False
        self.count = self.retries = 0
        self.acknowledged: list[str] = []
        self.answers: list[tuple[str, Mapping[str, Any]]] = []
        self.surprises: list[str] = []

    def run(self) -> None:
        connection: HTTPConnection | None = None
        while not self.is_over:
            waits = self.chance.random() < 0.5
            events = [self._event() for _ in range(1 if waits else self.chance.choice((1, 1, 3)))]
            while not self.is_over:
                try:
                    connection = connection or HTTPConnection(self.netloc, timeout=ANSWER_SECONDS_MAX)
                    self._post(connection, events, waits)
                    break
                except TimeoutError:
                    self.surprises.append(f"no answer within {ANSWER_SECONDS_MAX} s")
                    os.kill(self.server.process.pid, signal.SIGABRT)  # it tells where it was
                    self.is_over = True
                except (OSError, HTTPException):
                    if connection is not None:
                        connection.close()
                    connection, self.retries = None, self.retries + 1
                    time.sleep(0.02)
            time.sleep(self.chance.uniform(0, PAUSE_SECONDS_MAX))
        if connection is not None:
            connection.close()

    def _event(self) -> dict[str, Any]:
        self.count += 1
        known = {"event_id": f"{self.called}-{self.count}", "account": self.chance.randrange(ACCOUNTS)}
        if self.chance.random() < 0.6:
            return {"event": "Ordered", "amount": self.chance.randrange(1000), **known}
        return {"event": "Quoted", "price": self.chance.randrange(1000), **known}

    def _post(self, connection: HTTPConnection, events: Sequence[Mapping[str, Any]], waits: bool) -> None:
        if waits:
            found = self.server.asked(connection, "POST", "/v1/events?wait=read", json.dumps(events[0]), JSON)
        else:
            lines = "\n".join(map(json.dumps, events))
            found = self.server.asked(connection, "POST", "/v1/events", lines, NDJSON)
        if found.status != 200 or (not waits and found.json != {"accepted": len(events), "refused": []}):
            self.surprises.append(f"{found.status} {found.body!r}")
        self.acknowledged += [event["event_id"] for event in events]
        if waits:
            self.answers.append((events[0]["event_id"], found.json))


# ---- killing ---------------------------------------------------------------------------------------------------------


@dataclass
class Life:
    """A server that is killed so many times, unless there is no time left."""

    server: Server
    seed: int
    kills: int = 0
    ready_seconds: list[float] = field(default_factory=list)
    ready_cpu_seconds: list[float] = field(default_factory=list)

    def live(self, times: int, seconds: float) -> list[Client]:
        """Kill it, and let it end by itself at last; gives those who posted."""
        chance, over = Random(self.seed), time.monotonic() + seconds
        server = self.server
        clients = [Client(server, f"c{n}", f"{self.seed}/{n}") for n in range(CLIENTS)]
        try:
            for client in clients:
                client.start()
            while self.kills < times and time.monotonic() < over:
                self._kill(chance)
            time.sleep(0.3)
        finally:
            for client in clients:
                client.is_over = True
            for client in clients:
                client.join()
        assert [one for client in clients for one in client.surprises] == []
        assert server.end() == 0
        return clients

    def _kill(self, chance: Random) -> None:
        """Kill it as it works, and perhaps once more as it starts again."""
        server = self.server
        time.sleep(chance.uniform(0, chance.choice((0.1, 0.6))))
        server.kill()
        self.kills += 1
        if chance.random() < 0.2:
            server.launch()
            time.sleep(chance.uniform(0, 1.5))
            server.kill()
            self.kills += 1
        begun = time.monotonic()
        server.start()
        self.ready_seconds.append(time.monotonic() - begun)
        self.ready_cpu_seconds.append(server.cpu_seconds())


# ---- what is there in the end ----------------------------------------------------------------------------------------


@dataclass
class Kept:
    """What a store has: histories by class, firings by trigger, actions, and the last tick."""

    histories: Mapping[str, list[dict[str, Any]]]
    firings: Mapping[str, list[dict[str, Any]]]
    actions: list[tuple[Any, ...]]
    keys: list[str]
    tick: int


def kept(program: Program, store: str) -> Kept:
    """All of it, once everything that was posted is read, and all timers are due."""
    with LocalEngine(program, store, functions=FUNCTIONS) as engine:
        engine.advance_to(time.time_ns() // 1_000 + 10_000_000)
        assert engine.tick is not None
        names = [plan.event_class.name for plan in program.classes]
        histories = {name: engine.history(name).to_pylist() for name in names}
        firings = {one.name: engine.firings(one.name, limit=1_000_000) for one in program.triggers}
        tick = engine.tick
    with closing(open_outbox(store, alone=True)) as outbox:
        rows = [one.action for one in outbox.listed(Wanted())]
    actions = [(row.action, tuple(json.loads(row.arguments)), row.trigger, row.rule, row.tick) for row in rows]
    return Kept(histories, firings, actions, [row.idempotency_key for row in rows], tick)


def claims_of(program: Program, there: Kept) -> list[Claim]:
    """Every version that was read, in order; what came from outside has an event_id."""
    found = []
    for name in READ:
        plan = program.class_plan(name)
        assert plan is not None
        for row in there.histories[name]:
            values = tuple(row[one.name] for one in plan.event_class.attributes)
            times = microseconds_of(row["occ_time"]), microseconds_of(row["det_time"])
            found.append((row["seq"], Claim(Raw(name, values, *times, row["event_id"]), row["event_id"] is None)))
    assert [seq for seq, _ in sorted(found, key=lambda one: one[0])] == list(range(1, len(found) + 1))
    return [claim for _, claim in sorted(found, key=lambda one: one[0])]


def actions_of(found: Triggered) -> Iterator[tuple[Any, ...]]:
    """What goes to the outbox by the reference."""
    for tick in found.run.ticks:
        yield from ((one.name, one.arguments, None, None, tick.tick) for one in tick.actions)
    for firing in found.firings:
        for call in firing.calls:
            done = [deed for deed in call.deeds if isinstance(deed, Done) and deed.name not in FUNCTIONS]
            yield from ((one.name, one.arguments, firing.trigger, call.rule, firing.now) for one in done)


def told_firings(program: Program, found: Triggered, name: str) -> list[dict[str, Any]]:
    """The rows that the table of a trigger should have, but for the event, which the reference does not name."""
    trigger = next(one for one in program.triggers if one.name == name)
    fired = [firing for firing in found.firings if firing.trigger == name]
    parts = [(firing.now, FiredTrigger(number, "", {}, firing)) for number, firing in enumerate(fired, 1)]
    return without_event(firing_rows(firings_of(program, trigger, parts), shape_of(trigger.parameters)))


def without_event(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("event", "key")} for row in rows]


def check_answer(event_id: str, answer: Mapping[str, Any], there: Kept, rows: Mapping[str, dict[str, Any]]) -> None:
    """What somebody was told when an event was read is so in the end."""
    row = rows[event_id]
    if answer["absorbed"]:
        assert answer["seq"] is None, "it was durable before, and the answer was lost"
        return
    assert answer["seq"] == row["seq"]
    told = {(one["trigger"], one["number"]): one for one in answer["firings"]}
    for (trigger, number), one in told.items():
        fired = there.firings[trigger][number - 1]
        for name in ("number", "event", "key", "seq", "constituents", "returned"):
            assert one[name] == fired[name], (event_id, name)
        assert one["parameters"] == {name: fired[name] for name in one["parameters"]}
    at_it = {(t, one["number"]) for t, some in there.firings.items() for one in some if one["seq"] == row["seq"]}
    assert at_it == {known for known, one in told.items() if one["seq"] == row["seq"]}
    returned = {one["trigger"]: one["returned"] for one in answer["firings"] if one["seq"] == row["seq"]}
    assert answer["returned"] == {name: value for name, value in returned.items() if name == "Order"}
    for line in answer["occurrences"]:
        names = ("change", "seq", "constituents", "account")
        assert [line[name] for name in names] in [[b[name] for name in names] for b in there.histories["Bought"]]


def check(program: Program, there: Kept, clients: Sequence[Client]) -> None:
    """Nothing is lost, nothing doubled, and all is as it should be."""
    outside = {row["event_id"]: row for name in POSTED_FROM_OUTSIDE for row in there.histories[name]}
    counts = Counter(row["event_id"] for name in POSTED_FROM_OUTSIDE for row in there.histories[name])
    assert set(counts.values()) == {1}
    assert {one for client in clients for one in client.acknowledged} <= counts.keys()
    for client in clients:
        for event_id, answer in client.answers:
            check_answer(event_id, answer, there, outside)
    found = judged(program, claims_of(program, there), there.tick, FUNCTIONS)
    for trigger in program.triggers:
        assert without_event(there.firings[trigger.name]) == told_firings(program, found, trigger.name)
    published = [
        (str(one.change), one.seq, list(one.constituents), one.values[0])
        for t in found.run.ticks
        for one in t.published
    ]
    bought = there.histories["Bought"]
    assert published == [(row["change"], row["seq"], row["constituents"], row["account"]) for row in bought]
    assert Counter(there.actions) == Counter(actions_of(found))
    assert len(set(there.keys)) == len(there.keys)


def kill(serve: Serve, folder: Path, seed: int, times: int, seconds: float, store: str | None = None) -> Life:
    """A server that lives, is killed, and lives again, and what is there in the end."""
    (folder / "prices.py").write_text(PRICES)
    program, place = compile(SHOP), store or str(folder / "a.db")
    life = Life(serve(SHOP, environment={**os.environ, "PYTHONFAULTHANDLER": "1"}, store=place), seed)
    try:
        clients = life.live(times, seconds)
        there = kept(program, place)
        check(program, there, clients)
    except BaseException as error:
        error.add_note(f"seed {seed}, {life.kills} kills; the server told:\n{(folder / 'told').read_text()[-3000:]}")
        raise
    assert life.kills >= min(times, 3)
    assert max(life.ready_cpu_seconds) < READY_SECONDS_MAX, life.ready_cpu_seconds
    assert statistics.median(life.ready_cpu_seconds) < READY_CPU_SECONDS_MAX, life.ready_cpu_seconds
    counted = {
        "kills": life.kills,
        "acknowledged": sum(len(one.acknowledged) for one in clients),
        "answers": sum(len(one.answers) for one in clients),
        "absorbed": sum(answer["absorbed"] for one in clients for _, answer in one.answers),
        "sent again": sum(one.retries for one in clients),
        "firings": {name: len(rows) for name, rows in there.firings.items()},
        "actions": len(there.actions),
        "ready": f"{statistics.median(life.ready_seconds):.2f} s, at most {max(life.ready_seconds):.2f} s",
        "ready, CPU": f"{statistics.median(life.ready_cpu_seconds):.2f} s",
    }
    print(f"seed {seed}: {counted}")
    return life


@pytest.mark.parametrize("block", range(10))
def test_nothing_is_lost_or_doubled_though_it_is_killed(
    tmp_path: Path, serve: Serve, block: int, record_property: Callable[[str, object], None]
) -> None:
    life = kill(serve, tmp_path, block, 10, BLOCK_SECONDS)
    record_property(KILLS, life.kills)
    # By the clock what else the machine does counts, too: where more want to run than can, each waits its turn.
    waits = min(max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), WAITS_MAX)
    assert statistics.median(life.ready_seconds) < READY_SECONDS_MAX * waits, (life.ready_seconds, waits)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_nothing_is_lost_or_doubled_though_it_is_killed_a_thousand_times(
    tmp_path: Path, serve: Serve, block: int, record_property: Callable[[str, object], None]
) -> None:
    record_property(KILLS, kill(serve, tmp_path, 1_000 + block, 10, 600.0).kills)

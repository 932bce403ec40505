"""What do triggers cost a server, and how long does somebody wait who waits for them?

`augury serve` runs in a process of its own, on a SQLite store on this disk, on loopback; the clients are connections of
another process, which does nothing but send what was made before and count. Everything is measured in one run, five
times in turns, each with a fresh store; of each figure the median is told.

- Durable posts: 16 clients post one event a request, each the next when the last is answered: posts a second, and how
  long one takes. With 100 triggers, and with the same classes and none. There are 20 classes, each with 10,000 sensors
  that report in turns at random, so 5 triggers ask for the class of an event and one more for its neighbour's: three
  look for a value by a mask, one for two such in a row at any sensors, one for one such here and then one next door at
  the same sensor. An event in eight completes something, and the trigger's rule has an action in the outbox. The engine
  ticks each second meanwhile, and what it takes to read the events is part of what is measured.
- A synchronous post (`wait=read`) of one client through a trigger and two rules, one of which calls a function of
  Python whose value goes back, and one posts an event; on the server with 100 other triggers, when nobody else posts.
  In turns with durable posts of the same client, of an event that nothing waits for.

    .venv/bin/python benchmarks/server.py [POSTS [RUNS]]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

CLASSES = 20
KEYS = 10_000
CLIENTS = 16
POSTS = 32_000
RUNS = 5
ASKED_SHARE = 64
"""Of so many durable posts one is asked for synchronously, afterwards."""

RATIO_MAX = 1.5
ASKED_MS_MAX = 10.0

ORDERS = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, price INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Seen (account INT, amount INT) ID () LIFESPAN (1d);
"""
ASKED = """
RULE Price (amount INT) ACTION price(amount);
RULE Approve (account INT, price INT) CONDITION price < 5000
  ACTION POST Approved(account, price) ALTERNATIVEACTION escalate(account);
TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered
  RULESTRUC Price(amount) > Approve(account, RETURNED(Price)) RETURNS INT : Price;
BIND price TO PYTHON 'prices:with_tax';
RULE Alarm (sensor INT) ACTION alarm(sensor);
"""
PRICES = "def with_tax(amount):\n    return amount * 12 // 10\n"


def program(*, has_triggers: bool) -> str:
    """The classes, and perhaps the triggers."""
    classes = [
        f"CREATE MUTABLE SUBSCRIBED EVENT CLASS R{n} (sensor INT, value INT) ID (sensor) LIFESPAN (1d);"
        for n in range(CLASSES)
    ]
    triggers = [line for n in range(CLASSES) for line in _triggers(n)]
    return "\n".join(["SET CHRONON 1s;", *classes, ORDERS, *([ASKED, *triggers] if has_triggers else [])])


def _triggers(n: int) -> Iterator[str]:
    other = (n + 1) % CLASSES
    expressions = (
        f"R{n}[value > 960]",
        f"R{n}[value < 30]",
        f"R{n}[value > 480 AND value < 510]",
        f"R{n}[value > 950]{{2}}",
        f"R{n}(S, _)[value > 900] > R{other}(S, _)[value > 900]",
    )
    for number, expression in enumerate(expressions):
        classes = f"R{n} OR R{other}" if number == 4 else f"R{n}"
        yield (
            f"TRIGGER T{n}_{number} (sensor INT, value INT) TRIGGEREVENT {classes} "
            f"COMPOSITEEVENT {expression} CONTEXT CHRONICLE RULESTRUC Alarm(sensor);"
        )


# ---- the server ------------------------------------------------------------------------------------------------------


@contextmanager
def serving(*, has_triggers: bool) -> Iterator[tuple[int, int]]:
    """A server on a fresh store: its port, and its process."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.bicepl").write_text(program(has_triggers=has_triggers))
        Path(folder, "prices.py").write_text(PRICES)
        words = ["-m", "augury", "serve", "a.bicepl", "--store", "a.db", "--port", "0", "--rate", "1000000", "--open"]
        server = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert server.stdout is not None
            said = server.stdout.readline() + server.stdout.readline()  # that it is open, and where it listens
            assert "listens at" in said, said + server.stdout.read()
            yield int(said.rpartition(":")[2]), server.pid
        finally:
            server.terminate()
            server.wait()


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processor."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- the clients, in a process of their own --------------------------------------------------------------------------


class Client(asyncio.Protocol):
    """Sends one request after the other over one connection, and notes how long each took."""

    def __init__(self, requests: Iterator[bytes], seconds: list[float], done: asyncio.Future[None]) -> None:
        self.requests, self.seconds, self.done = requests, seconds, done
        self.answer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.transport.close()
            self.done.set_result(None)
            return
        self.begun = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        head, gap, body = self.answer.partition(b"\r\n\r\n")
        if not gap or len(body) < int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return
        self.seconds.append(time.perf_counter() - self.begun)
        assert head.startswith(b"HTTP/1.1 200"), self.answer
        self.answer = b""
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server has gone"))


def request(event: dict[str, Any], wait: str = "durable") -> bytes:
    """An event as the bytes that are sent."""
    body = json.dumps(event).encode()
    return (
        f"POST /v1/events?wait={wait} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


@dataclass(frozen=True)
class Measured:
    """What clients measured: how long each request took, how long all, and how much of that their process was busy."""

    seconds: list[float]
    wall: float
    busy: float

    @property
    def a_second(self) -> float:
        return len(self.seconds) / self.wall

    def ms(self, share: float) -> float:
        """The milliseconds that such a share of requests took at most."""
        return sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)] * 1000


def clients(pipe: Any) -> None:
    """Send requests, given as lists of bytes for each connection, to a port; until None comes."""
    import uvloop

    async def all_of(port: int, lists: list[list[bytes]]) -> Measured:
        loop, seconds = asyncio.get_running_loop(), list[float]()
        done = [loop.create_future() for _ in lists]
        begun, cpu = time.perf_counter(), time.process_time()
        for requests, one in zip(lists, done, strict=True):
            await loop.create_connection(partial(Client, iter(requests), seconds, one), "127.0.0.1", port)
        await asyncio.gather(*done)
        wall = time.perf_counter() - begun
        return Measured(seconds, wall, (time.process_time() - cpu) / wall)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        while (asked := pipe.recv()) is not None:
            pipe.send(runner.run(all_of(*asked)))


def reports(count: int, seed: int) -> list[bytes]:
    """Reports of sensors, as requests."""
    chance = Random(seed)
    return [
        request(
            {
                "event": f"R{chance.randrange(CLASSES)}",
                "sensor": chance.randrange(KEYS),
                "value": chance.randrange(1000),
            }
        )
        for _ in range(count)
    ]


# ---- one run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What one server did: its posts, how much of the time it was busy; and single posts, waited for and not."""

    posts: Measured
    busy: float
    read: Measured | None
    bare: Measured | None


def turn(ask: Any, posts: int, seed: int, *, has_triggers: bool) -> Turn:
    """A fresh server, asked."""

    def measured(port: int, lists: list[list[bytes]]) -> Measured:
        ask.send((port, lists))
        found: Measured = ask.recv()
        return found

    with serving(has_triggers=has_triggers) as (port, pid):
        measured(port, [reports(max(posts // CLIENTS // 8, 1), seed + n) for n in range(CLIENTS)])  # it warms up
        lists = [reports(posts // CLIENTS, 1000 * seed + n) for n in range(CLIENTS)]
        before = cpu_seconds(pid)
        found = measured(port, lists)
        busy = (cpu_seconds(pid) - before) / found.wall
        if not has_triggers:
            return Turn(found, busy, None, None)
        time.sleep(2.5)  # until the last of them are read
        chance, read, bare = Random(seed), list[Measured](), list[Measured]()
        for _ in range(max(posts // ASKED_SHARE // 50, 1)):
            events = [{"account": chance.randrange(KEYS), "amount": chance.randrange(1000)} for _ in range(50)]
            read.append(measured(port, [[request({"event": "Ordered", **one}, "read") for one in events]]))
            bare.append(measured(port, [[request({"event": "Seen", **one}) for one in events]]))
        return Turn(found, busy, _all(read), _all(bare))


def _all(parts: list[Measured]) -> Measured:
    seconds = [one for part in parts for one in part.seconds]
    return Measured(seconds, sum(part.wall for part in parts), median(part.busy for part in parts))


def told(name: str, turns: list[Turn]) -> None:
    """Print what servers of a kind did."""
    posts = [one.posts for one in turns]
    rates = [one.a_second for one in posts]
    print(
        f"{name}: {median(rates):,.0f} durable posts a second ({min(rates):,.0f} to {max(rates):,.0f}), "
        f"p50 {median(one.ms(0.5) for one in posts):.2f} ms, p99 {median(one.ms(0.99) for one in posts):.2f} ms; "
        f"of a core the server took {median(one.busy for one in turns):.0%}, "
        f"the clients {median(one.busy for one in posts):.0%}"
    )


def main(posts: int, runs: int) -> None:
    """Measure, and print."""
    context = multiprocessing.get_context("spawn")
    ask, answer = context.Pipe()
    process = context.Process(target=clients, args=(answer,), daemon=True)
    process.start()
    turns: dict[bool, list[Turn]] = {True: [], False: []}
    for run in range(runs):
        for has_triggers in (True, False) if run % 2 else (False, True):
            turns[has_triggers].append(turn(ask, posts, run + 1, has_triggers=has_triggers))
    ask.send(None)
    process.join()
    print(f"{posts:,} posts of {CLIENTS} clients, {KEYS:,} keys of {CLASSES} classes each, {runs} runs in turns")
    told("no triggers", turns[False])
    told("100 triggers and one more", turns[True])
    pairs = zip(turns[False], turns[True], strict=True)
    ratios = [without.posts.a_second / with_.posts.a_second for without, with_ in pairs]
    print(f"posts a second without triggers over with: {median(ratios):.2f}x (at most {RATIO_MAX}x)")
    read = median(one.read.ms(0.5) for one in turns[True] if one.read is not None)
    late = median(one.read.ms(0.99) for one in turns[True] if one.read is not None)
    bare = median(one.bare.ms(0.5) for one in turns[True] if one.bare is not None)
    print(
        f"a synchronous post through a trigger and two rules: p50 {read:.2f} ms (below {ASKED_MS_MAX:.0f} ms), "
        f"p99 {late:.2f} ms"
    )
    print(f"a durable post of the same client: p50 {bare:.2f} ms; the synchronous one takes {read / bare:.1f}x")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    main(*given, *(POSTS, RUNS)[len(given) :])

"""What the tests of executors deliver to and from: stores with actions that wait, and HTTP targets of all tempers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from augury.actions.binding import Surroundings
from augury.actions.deliver import Ends
from augury.actions.delivery import Delivery, delivery_of
from augury.actions.run import carry_out, opened
from augury.actions.settings import read_settings
from augury.algebra.program import Program
from augury.api import check
from augury.engine.ticked import Action
from augury.local.running import LocalEngine
from augury.local.store import tables as s
from augury.local.store.sql import open_store
from augury.local.store.waiting import State, Wanted
from tests.clocks import Clock

START = 1_767_258_000_000_000  # 2026-01-01T09:00:00Z
SECOND = 1_000_000

SHOP = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (resource STRING, amount NUMERIC) ID (resource) LIFESPAN (5d)
  ON ANNOUNCEMENT DO order(new.resource, new.amount), tell('low', new.resource);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (resource STRING, amount NUMERIC) ID () LIFESPAN (5d);
"""


def program(text: str = SHOP) -> Program:
    """A program that is right."""
    checked = check(text, "p")
    assert checked.program is not None, checked.rendered()
    return checked.program


def action(number: int, name: str = "tell", key: Mapping[str, Any] | None = None, *arguments: Any) -> Action:
    """An action; without a key it is of an event of its own."""
    event_key = {"resource": f"r{number}"} if key is None else key
    said = arguments or (f"say {number}",)
    return Action(name, said, "Low", event_key, START + number * SECOND, 1, 1, number + 1, f"key-{name}-{number}")


def delivery(number: int = 1, *arguments: Any) -> Delivery:
    """A delivery."""
    said = arguments or ("low", "milk")
    return Delivery(f"key-{number}", "tell", said, "Low", {"resource": "milk"}, START, 7, 1)


def fill(url: str, actions: Sequence[Action]) -> None:
    """Make a store, if there is none, and let actions wait in its outbox as ticks would."""
    from augury.engine.log_rows import action_row

    with open_store(url, program()) as store, store.writer.begin() as connection:
        if actions:
            connection.execute(s.outbox.insert(), [action_row(one) for one in actions])


LOW = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (resource STRING, amount NUMERIC) ID (resource) LIFESPAN (5d)
  ON ANNOUNCEMENT DO tell('low', NEW.resource, NEW.amount);
"""


async def carried_out(store: Path, text: str, settings: str = "") -> list[dict[str, Any]]:
    """Let two events fire in an engine with this text beside `LOW`, and carry out what waits, as commands do.

    Gives the data of each action as it waited; all have to be delivered.
    """
    wanted = program(f"{LOW}{text}")
    with LocalEngine(wanted, store, environment=Clock(START)) as engine:
        for resource, amount in (("milk", 2), ("eggs", 12.5)):
            engine.post({"event": "Low", "resource": resource, "amount": amount})
        engine.environment = None
        engine.advance_to("2026-01-01T10:00:00Z")
    around = Surroundings(wanted, read_settings(f"[actions]\n{settings}"))
    told: list[str] = []
    await carry_out(str(store), around, Ends.ONCE, told.append)
    with opened(str(store)) as outbox:
        listed = list(outbox.listed(Wanted()))
    assert [(one.state, one.reason) for one in listed] == [(State.DELIVERED, "")] * 2, told
    return [delivery_of(one.action).data() for one in listed]


@dataclass
class Target:
    """A server on loopback that counts what it got, by idempotency key, and behaves as it is told."""

    url: str = ""
    got: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)


Behaviour = Callable[[web.Request, int], Any]


@asynccontextmanager
async def target(behave: Behaviour | None = None) -> AsyncIterator[Target]:
    """A target; `behave` gets the request and how many came before, and gives an answer, or None for 200."""
    found = Target()

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        count = len(found.got)
        found.got.append(request.headers["idempotency-key"])
        found.bodies.append(json.loads(body))
        found.raw.append(body)
        found.headers.append(dict(request.headers))
        answer = behave(request, count) if behave is not None else None
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if answer is not None else web.Response(text="thank you")

    app = web.Application()
    app.router.add_post("/{anything:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        found.url = f"http://127.0.0.1:{port}/hook"
        yield found
    finally:
        await runner.cleanup()


async def hang(_: web.Request, __: int) -> web.Response:
    """Never answer."""
    await asyncio.sleep(3600)
    return web.Response()


async def drip(request: web.Request, _: int) -> web.StreamResponse:
    """Answer 200, and let the body drip for ever."""
    answer = web.StreamResponse(headers={"content-length": "1000000"})
    await answer.prepare(request)
    for _ in range(3600):
        await answer.write(b".")
        await asyncio.sleep(1)
    return answer


@asynccontextmanager
async def dripping_head() -> AsyncIterator[str]:
    """A target that lets its answer drip from the first line on; gives its URL."""

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.3)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    finally:
        server.close()


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port

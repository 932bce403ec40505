"""What the tests of detectors share: a program, a sink that remembers, detectors that look when they are told to."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

from aiohttp import web

from augury.algebra.program import Program
from augury.algebra.wiring import Detection, SourceKind
from augury.api import compile as compile_program
from augury.detectors.opening import opened
from augury.detectors.run import Detectors, Pace
from augury.detectors.sinks import NotTaken
from augury.environment import Environment, real

PROGRAM_TEXT = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource VARCHAR(30), amount NUMERIC) ID (resource) LIFESPAN (14d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, heat DOUBLE) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS News (title VARCHAR, link VARCHAR) ID (link) LIFESPAN (1d);
"""
PROGRAM: Program = compile_program(PROGRAM_TEXT)

QUICK = Pace(first_seconds=0.02, longest_seconds=0.1)
EVERY_US = 20_000


class Remembers:
    """A sink that keeps what it takes; `is_dead` makes it take nothing, as an engine that is gone."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.is_dead = False

    async def take(self, lines: Sequence[str]) -> None:
        if self.is_dead:
            raise NotTaken("it is dead")
        self.lines += lines

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it took, each event once by its id."""
        found: dict[str, dict[str, Any]] = {}
        for number, line in enumerate(self.lines):
            event: Any = None
            with suppress(json.JSONDecodeError):
                event = json.loads(line, parse_float=Decimal)
            if isinstance(event, dict):
                found.setdefault(event.get("event_id", str(number)), event)
        return list(found.values())

    def values(self, *names: str) -> list[tuple[Any, ...]]:
        """Of each event the values of these names."""
        return [tuple(event.get(name) for name in names) for event in self.events]


def detection(kind: SourceKind, source: object, **more: Any) -> Detection:
    """A detection as a program would have it, polled often."""
    event_class = more.pop("event_class", "Delivery")
    pushed = kind in (SourceKind.NATS, SourceKind.MQTT)
    said = {"name": event_class, "every_us": None if pushed else EVERY_US, **more}
    return Detection(event_class=event_class, kind=kind, source=str(source), **said)


def look(
    folder: Path, *wanted: Detection, times: int = 1, functions: Any = None, sink: Remembers | None = None
) -> Remembers:
    """Start detectors on a folder, let them look so often, and end: the next call is a restart."""
    sink = sink or Remembers()
    asyncio.run(_look(folder, wanted, times, functions, sink))
    return sink


async def _look(folder: Path, wanted: Sequence[Detection], times: int, functions: Any, sink: Remembers) -> None:
    async with real() as environment:
        detectors = made(folder, environment, wanted, {"engine": sink}, functions=functions)
        for _ in range(times):
            await detectors.run_once()


def made(
    folder: Path,
    environment: Environment,
    wanted: Sequence[Detection],
    sinks: Any,
    *,
    functions: Any = None,
    **more: Any,
) -> Detectors:
    """Detectors of the shared program."""
    folder.mkdir(parents=True, exist_ok=True)
    found = opened(PROGRAM, environment, wanted, functions)
    return Detectors(found, sinks, str(folder), environment, pace=more.pop("pace", QUICK), **more)


async def until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until something holds; fail if it never does."""
    over = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < over, (
            f"it did not come about within {seconds:g} s: {inspect.getsource(holds).strip()}"
        )
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(detectors: Detectors) -> AsyncIterator[Detectors]:
    """Detectors at work, as long as they are used; what goes wrong with them is raised."""
    task = asyncio.create_task(detectors.run())
    try:
        yield detectors
    finally:
        detectors.stop()
        done, _ = await asyncio.wait([task], timeout=60)
        assert done, f"the detectors go on 60 s after they were stopped: {detectors.status()}"
        await task


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(routes: dict[str, Handler]) -> AsyncIterator[str]:
    """A real server on a loopback address, with a handler for every path."""
    app = web.Application()
    for path, handler in routes.items():
        app.router.add_route("*", path, handler)
    async with page_of(app) as url:
        yield url


@asynccontextmanager
async def page_of(app: web.Application) -> AsyncIterator[str]:
    """An application at a loopback address."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()

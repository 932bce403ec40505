"""Do bad targets delay good ones? 10,000 webhooks from the outbox of a store, half of the targets bad.

Of sixteen targets eight are healthy; two answer 500, two never answer, two let their answer drip byte by byte, and two
redirect. All actions wait in the outbox when the deliverer starts. The latency of a healthy delivery is from then until
its target got it. The same runs without the bad targets; five runs of each, in turns, and of the p95 of each kind the
median. Every success is counted once by its key.

    .venv/bin/python benchmarks/actions.py [DELIVERIES]
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HEALTHY = 8
BAD = ("failing", "failing", "hanging", "hanging", "dripping", "dripping", "redirecting", "redirecting")
RUNS = 5
RATIO_MAX = 1.5
START = 1_767_258_000_000_000

PROGRAM = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (resource STRING) ID (resource) LIFESPAN (5d);"


# ---- the targets, in a process of their own ----------------------------------------------------------------------


def serve(pipe: Any) -> None:
    """Serve all targets; gives their ports by name through the pipe, and what came whenever it is asked."""
    asyncio.run(_serve(pipe))


async def _serve(pipe: Any) -> None:
    from aiohttp import web

    got: dict[str, list[float]] = {}

    async def healthy(request: web.Request) -> web.Response:
        await request.read()
        got.setdefault(request.headers["idempotency-key"], []).append(time.time())
        return web.Response(text="ok")

    async def failing(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=500)

    async def hanging(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        return web.Response()

    async def redirecting(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(status=307, headers={"location": "/elsewhere"})

    handlers = {"healthy": healthy, "failing": failing, "hanging": hanging, "redirecting": redirecting}
    ports: dict[str, int] = {}
    for name, temper in [
        *((f"healthy{n}", "healthy") for n in range(HEALTHY)),
        *((f"bad{n}", t) for n, t in enumerate(BAD)),
    ]:
        if temper == "dripping":
            server = await asyncio.start_server(_drip, "127.0.0.1", 0)
            ports[name] = server.sockets[0].getsockname()[1]
            continue
        app = web.Application()
        app.router.add_post("/hook", handlers[temper])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports[name] = runner.addresses[0][1]
    pipe.send(ports)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, pipe.recv):
        pipe.send(dict(got))
        got.clear()


async def _drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        for byte in b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.5)
    except (ConnectionError, asyncio.CancelledError):
        return
    finally:
        writer.close()


# ---- one run -------------------------------------------------------------------------------------------------------


def fill(path: Path, names: list[str], each: int) -> None:
    """A store with so many actions for each target, those of all targets in turns."""
    import augury
    from augury.engine.log_rows import action_row
    from augury.engine.ticked import Action
    from augury.local.store import tables as s
    from augury.local.store.sql import open_store

    rows = [
        action_row(Action(name, ("low", n), "Low", {"resource": f"{name}-{n}"}, START, 1, 1, None, f"{name}-{n}"))
        for n in range(each)
        for name in names
    ]
    with open_store(str(path), augury.compile(PROGRAM)) as store, store.writer.begin() as connection:
        connection.execute(s.outbox.insert(), rows)


async def run(path: Path, ports: dict[str, int], names: list[str], healthy: int) -> tuple[float, dict[str, int]]:
    """Deliver until every healthy target has all of its own; when it began, and how many have which state."""
    from augury.actions.deliver import Carrier, Deliverer
    from augury.actions.envelope import signing_keys
    from augury.actions.outbox import StoredOutbox
    from augury.actions.webhook import Webhook
    from augury.environment import real
    from augury.local.store.outbox import open_outbox
    from augury.local.store.waiting import Wanted

    keys = signing_keys("whsec_MDEyMzQ1Njc4OWFiY2RlZg==")
    hooks = {name: Webhook(f"http://127.0.0.1:{ports[name]}/hook", 10, {}, keys, is_public=False) for name in names}
    outbox = StoredOutbox(open_outbox(str(path), alone=True))
    async with real() as environment:
        deliverer = Deliverer(outbox, {name: Carrier(hook) for name, hook in hooks.items()}, environment)
        began = time.time()
        deliverer.start()
        while deliverer.counts.delivered < healthy:
            await asyncio.sleep(0.05)
        await deliverer.stop()
    await outbox.close()
    people = open_outbox(str(path), alone=False)
    states: dict[str, int] = {}
    for one in people.listed(Wanted()):
        kind = f"{one.action.action.rstrip('0123456789')} {one.state.value}"
        states[kind] = states.get(kind, 0) + 1
    people.close()
    return began, states


def measured(folder: Path, pipe: Any, ports: dict[str, int], names: list[str], each: int) -> float:
    """The p95 of the healthy deliveries of one run, in seconds; everything has to have come once by key."""
    path = folder / f"{time.time_ns()}.db"
    fill(path, names, each)
    healthy = HEALTHY * each
    began, states = asyncio.run(run(path, ports, names, healthy))
    pipe.send(True)
    got = pipe.recv()
    wanted = {f"healthy{target}-{n}" for target in range(HEALTHY) for n in range(each)}
    assert set(got) == wanted, f"{len(wanted - set(got))} never came"
    assert states["healthy delivered"] == healthy, states
    twice = sum(len(times) - 1 for times in got.values())
    latencies = sorted(times[0] - began for times in got.values())
    p95: float = latencies[int(len(latencies) * 0.95)]
    print(f"  {len(names):2} targets: p95 {p95:6.2f} s; got more than once: {twice}; {json.dumps(states)}", flush=True)
    return p95


def main() -> int:
    """Measure, and say whether it is as it should be."""
    deliveries = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    each = deliveries // (HEALTHY + len(BAD))
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    ports = pipe.recv()
    good = [f"healthy{n}" for n in range(HEALTHY)]
    every = good + [f"bad{n}" for n in range(len(BAD))]
    print(
        f"{each * len(every):,} deliveries to {len(every)} targets, "
        f"against {each * len(good):,} to the healthy {len(good)}"
    )
    found: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder), pipe, ports, good, 20)  # warm
        for turn in range(RUNS):
            for kind in ("with", "without") if turn % 2 else ("without", "with"):
                found[kind].append(measured(Path(folder), pipe, ports, every if kind == "with" else good, each))
    pipe.send(False)
    server.join(5)
    medians = {kind: statistics.median(values) for kind, values in found.items()}
    ratio = medians["with"] / medians["without"]
    print(f"p95 of healthy deliveries, median of {RUNS}: {medians['with']:.2f} s with bad targets,", end=" ")
    print(f"{medians['without']:.2f} s without: {ratio:.2f}×, at most {RATIO_MAX}× is wanted")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())

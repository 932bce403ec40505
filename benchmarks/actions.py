"""Do bad targets delay good ones? 10,000 webhooks from the outbox of a store, half of the targets bad.

Of sixteen targets eight are healthy; two answer 500, two never answer, two let their answer drip byte by byte, and two
redirect. All actions wait in the outbox when the deliverer starts. The latency of a healthy delivery is from then until
its target got it. The same runs without the bad targets; five runs of each, in turns, and of the p95 of each kind the
median. Every success is counted by its key, and has to have come once.

A run ends when the healthy targets have all of theirs. At last a few actions with few retries go to all targets until
everything is settled: what is bad has to be a dead letter then, with the reason that its target gave.

    .venv/bin/python benchmarks/actions.py [DELIVERIES [RUNS]]

With fewer deliveries than usual the ratio is told, and not judged.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from augury.actions.deliver import Carrier

HEALTHY = 8
BAD = ("failing", "failing", "hanging", "hanging", "dripping", "dripping", "redirecting", "redirecting")
DELIVERIES = 10_000
RUNS = 5
RATIO_MAX = 1.5
SETTLED_EACH = 3
"""Actions for each target in the last phase: with more the breakers of those that fail would be waited for."""
SETTLED_RETRIES = 1
SETTLED_SECONDS = 2.0
TEMPERS = {f"bad{n}": temper for n, temper in enumerate(BAD)}
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
        *TEMPERS.items(),
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


def carriers(
    ports: dict[str, int], names: list[str], retries: int | None = None, seconds: float = 10.0
) -> dict[str, Carrier]:
    """A signed webhook for each target; `seconds` is how long one may take that never answers."""
    from augury import limits
    from augury.actions.deliver import Carrier
    from augury.actions.envelope import signing_keys
    from augury.actions.webhook import Webhook

    keys = signing_keys("whsec_MDEyMzQ1Njc4OWFiY2RlZg==")
    times = limits.DELIVERY_RETRIES if retries is None else retries
    patience = {name: seconds if TEMPERS.get(name) in ("hanging", "dripping") else 10.0 for name in names}
    return {
        name: Carrier(Webhook(f"http://127.0.0.1:{ports[name]}/hook", patience[name], {}, keys, is_public=False), times)
        for name in names
    }


async def run(path: Path, carriers: dict[str, Carrier], healthy: int | None) -> float:
    """Deliver until every healthy target has all of its own, or else until all is settled; when it began."""
    from augury.actions.deliver import Deliverer, Ends
    from augury.actions.outbox import StoredOutbox
    from augury.environment import real
    from augury.local.store.outbox import open_outbox

    outbox = StoredOutbox(open_outbox(str(path), alone=True))
    async with real() as environment:
        deliverer = Deliverer(outbox, carriers, environment)
        began = time.time()
        if healthy is None:
            await deliverer.run(Ends.SETTLED)
        else:
            deliverer.start()
            while deliverer.counts.delivered < healthy:
                await asyncio.sleep(0.05)
            await deliverer.stop()
    await outbox.close()
    return began


def states(path: Path) -> Counter[tuple[str, str, str]]:
    """How many actions have which state and reason, by the temper of their target."""
    from augury.local.store.outbox import open_outbox
    from augury.local.store.waiting import Wanted

    people = open_outbox(str(path), alone=False)
    found = Counter(
        (TEMPERS.get(one.action.action, "healthy"), one.state.value, one.reason) for one in people.listed(Wanted())
    )
    people.close()
    return found


def came_once(pipe: Any, each: int) -> list[float]:
    """When each healthy delivery came; every one has to have come, and once."""
    pipe.send(True)
    got = pipe.recv()
    wanted = {f"healthy{target}-{n}" for target in range(HEALTHY) for n in range(each)}
    assert set(got) == wanted, f"{len(wanted - set(got))} never came"
    twice = sum(len(times) - 1 for times in got.values())
    assert twice == 0, f"{twice} came more than once"
    return sorted(times[0] for times in got.values())


def measured(folder: Path, pipe: Any, ports: dict[str, int], names: list[str], each: int) -> float:
    """The p95 of the healthy deliveries of one run, in seconds; everything has to have come once by key."""
    path = folder / f"{time.time_ns()}.db"
    fill(path, names, each)
    began = asyncio.run(run(path, carriers(ports, names), HEALTHY * each))
    times = came_once(pipe, each)
    shown: Counter[str] = Counter()
    for (temper, state, _), count in states(path).items():
        shown[f"{temper} {state}"] += count
    assert shown["healthy delivered"] == HEALTHY * each, shown
    p95: float = times[int(len(times) * 0.95)] - began
    print(f"  {len(names):2} targets: p95 {p95:6.2f} s; {json.dumps(shown)}", flush=True)
    return p95


def settled(folder: Path, pipe: Any, ports: dict[str, int], names: list[str]) -> None:
    """Follow everything to its end: what is healthy came once, what is bad is a dead letter that says why."""
    path = folder / "settled.db"
    fill(path, names, SETTLED_EACH)
    asyncio.run(run(path, carriers(ports, names, SETTLED_RETRIES, SETTLED_SECONDS), None))
    came_once(pipe, SETTLED_EACH)
    gave_up = f"given up after {SETTLED_RETRIES + 1} tries: "
    reasons = {
        "failing": f"{gave_up}answered 500 Internal Server Error",
        "hanging": f"{gave_up}no answer within {SETTLED_SECONDS:g} s",
        "dripping": f"{gave_up}no answer within {SETTLED_SECONDS:g} s",
        "redirecting": "answered 307 Temporary Redirect to /elsewhere: "
        "redirects are not followed, bind the action to where it is",
    }
    wanted = Counter({("healthy", "delivered", ""): HEALTHY * SETTLED_EACH})
    for temper in BAD:
        wanted[temper, "dead", reasons[temper]] += SETTLED_EACH
    found = states(path)
    assert found == wanted, found
    print(f"all settled: {HEALTHY * SETTLED_EACH} delivered once, and as dead letters:")
    for (temper, state, reason), count in sorted(found.items()):
        if state == "dead":
            print(f"  {count} {temper}: {reason}")


def main(deliveries: int, runs: int) -> int:
    """Measure, and say whether it is as it should be."""
    each = deliveries // (HEALTHY + len(BAD))
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    ports = pipe.recv()
    good = [f"healthy{n}" for n in range(HEALTHY)]
    every = [*good, *TEMPERS]
    print(
        f"{each * len(every):,} deliveries to {len(every)} targets, "
        f"against {each * len(good):,} to the healthy {len(good)}"
    )
    found: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as folder:
        measured(Path(folder), pipe, ports, good, 20)  # warm
        for turn in range(runs):
            for kind in ("with", "without") if turn % 2 else ("without", "with"):
                found[kind].append(measured(Path(folder), pipe, ports, every if kind == "with" else good, each))
        settled(Path(folder), pipe, ports, every)
    pipe.send(False)
    server.join(5)
    medians = {kind: statistics.median(values) for kind, values in found.items()}
    ratio = medians["with"] / medians["without"]
    print(f"p95 of healthy deliveries, median of {runs}: {medians['with']:.2f} s with bad targets,", end=" ")
    print(f"{medians['without']:.2f} s without: {ratio:.2f}×, at most {RATIO_MAX}× is wanted")
    return 0 if ratio <= RATIO_MAX or deliveries < DELIVERIES else 1


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*given, *(DELIVERIES, RUNS)[len(given) :]))

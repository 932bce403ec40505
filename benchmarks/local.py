"""How fast is the local engine, what does a tick cost as more events are live, and what does durability cost?

Everything is measured in one run, because machines differ and are noisy:

- 1 M versions of a mutable class with two conditions through ticks of 10,000, in process, with the store in memory: CPU
  time a version, and its ratio to DuckDB's plain insert of the same rows;
- a tick of 1,000 changes with 10,000, 100,000 and 1 M live events: the class alone, and with a SELECT that filters,
  joins or groups by key; and a tick at which nothing happens;
- durable posts of 16 clients against one client's, and against the store's inserts of one row each.

    .venv/bin/python benchmarks/local.py [VERSIONS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

START_US = 1_700_000_000_000_000
CHRONON_US = 10_000_000
PER_TICK = 10_000
CLASS = """SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, value DOUBLE, state VARCHAR(10)) ID (sensor) LIFESPAN (90d)
  ON CHANGE AND NEW.value > OLD.value + 90 DO jumped(NEW.sensor, NEW.value),
  ON LATE(1m, 1h) DO late(NEW.sensor);
"""
OTHER = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Limit_ (sensor INT, most DOUBLE) ID (sensor) LIFESPAN (90d);\n"
SELECTS = {
    "no SELECT": "",
    "filter": "SELECT sensor FROM Reading WHERE value > 99 AND occTime > NOW - 60d OCCURRING AT occTime",
    "join": "SELECT r.sensor FROM Reading r JOIN Limit_ l ON r.sensor = l.sensor WHERE r.value > l.most"
    " OCCURRING AT r.occTime",
    "group": "SELECT sensor, COUNT(*) AS n FROM Reading WHERE value > 50 GROUP BY sensor OCCURRING AT MAX(occTime)",
}
LIVE = (10_000, 100_000, 1_000_000)


def readings(count: int, sensors: np.ndarray, begin_us: int) -> pa.Table:
    """Versions in order, 1 ms apart: one in five ahead, one in fifty late."""
    random = np.random.default_rng(7)
    det = np.arange(count) * (CHRONON_US // PER_TICK) + begin_us
    occ = det - random.integers(0, 5_000_000, count)
    occ[random.random(count) < 0.02] -= 120_000_000
    ahead = random.random(count) < 0.2
    occ[ahead] = det[ahead] + 30_000_000
    moment = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "sensor": pa.array(sensors, pa.int32()),
            "value": random.random(count) * 100,
            "state": pa.array(np.array(["ok", "low", "high"])[random.integers(0, 3, count)]),
            "occ_time": pa.array(occ, moment),
            "det_time": pa.array(det, moment),
        }
    )


def engine_of(text: str) -> tuple[Any, Any, Any]:
    import augury
    from augury.duck.selects import runnable
    from augury.engine.plan import engine_plan
    from augury.engine.state import initial
    from augury.engine.tick import Ports
    from augury.local.store.memory import MemoryStore

    program = augury.compile(text)
    plan, store = engine_plan(program), MemoryStore(program)
    return plan, initial(plan), Ports(runnable(program), store, time.perf_counter)


def run(plan: Any, state: Any, ports: Any, tables: dict[str, pa.Table], until: int | None = None) -> Iterator[Any]:
    from augury.engine.tick import ticks
    from augury.history.arrivals import arrivals
    from augury.history.raw import RawTable

    came = arrivals(plan.program, [RawTable(name, table, event_class=name) for name, table in tables.items()])
    for ticked in ticks(plan, state, came, until, ports):
        ports.known.commit([ticked])
        yield ticked


def cpu(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def throughput(count: int) -> None:
    random = np.random.default_rng(3)
    table = readings(count, random.integers(0, 100_000, count), START_US)

    def through_ticks() -> None:
        list(run(*engine_of(CLASS), {"Reading": table}))

    def inserted() -> None:
        with duckdb.connect(":memory:", config={"threads": 1}) as connection:
            connection.execute(
                "CREATE TABLE r (sensor INT, value DOUBLE, state VARCHAR, occ TIMESTAMPTZ, det TIMESTAMPTZ)"
            )
            for begin in range(0, count, PER_TICK):
                connection.register("given", table.slice(begin, PER_TICK))
                connection.execute("INSERT INTO r SELECT * FROM given")

    through_ticks()
    rounds = [(cpu(through_ticks), cpu(inserted)) for _ in range(3)]
    ours, theirs = (median(column) for column in zip(*rounds, strict=True))
    print(f"{count:,} versions, two conditions, ticks of {PER_TICK:,}, store in memory; medians of three")
    print(
        f"  {ours / count * 1e6:.2f} µs CPU a version (target 8); DuckDB's plain insert {theirs / count * 1e6:.2f}",
        end="",
    )
    print(f", ratio {ours / theirs:.1f}×")


def growing() -> None:
    print(
        "CPU ms of a tick with 1,000 changes, by how many events are live; median of 15; then of one with nothing to do"
    )
    for name, select in SELECTS.items():
        found, idle = [], []
        for live in LIVE:
            derived = "sensor INT, n BIGINT" if name == "group" else "sensor INT"
            text = CLASS + OTHER
            if select:
                text += f"CREATE COMPLEX EVENT CLASS Found ({derived}) ID (sensor) LIFESPAN (90d) AS {select};\n"
            plan, state, ports = engine_of(text)
            random = np.random.default_rng(5)
            first = {"Reading": readings(live, random.permutation(live), START_US)}
            limits = first["Reading"].select(["sensor", "occ_time", "det_time"])
            first["Limit_"] = limits.append_column("most", pa.array(np.full(live, 99.0)))
            for _ in run(plan, state, ports, first):
                pass
            times = []
            for _ in range(15):
                begin = state.tick
                some = {"Reading": readings(1_000, random.integers(0, live, 1_000), begin)}
                times.append(cpu(partial(list, run(plan, state, ports, some))))
            found.append(median(times) * 1e3)
            idle.append(idle_tick(plan, state, ports))
        shown = "  ".join(f"{live:>9,}: {ms:6.1f}" for live, ms in zip(LIVE, found, strict=True))
        nothing = "  ".join(f"{us:4.0f}" for us in idle)
        print(f"  {name:10} {shown}   1 M : 10 k {found[-1] / found[0]:.2f}×   idle, µs: {nothing}")


def idle_tick(plan: Any, state: Any, ports: Any) -> float:
    """What it costs to find that nothing is due, and what a tick costs that is done all the same, in µs."""
    from augury.engine.tick import next_tick, tick
    from augury.history.arrivals import Arrivals

    while next_tick(plan, state) <= state.tick + 4 * CHRONON_US:  # what is on time soon
        tick(plan, state, Arrivals(), next_tick(plan, state), ports)
    times = []
    for _ in range(50):
        if next_tick(plan, state) <= state.tick + CHRONON_US:
            tick(plan, state, Arrivals(), state.tick + CHRONON_US, ports)
        times.append(cpu(lambda: tick(plan, state, Arrivals(), state.tick + CHRONON_US, ports)))
    return median(times) * 1e6


def durable() -> None:
    import augury
    from augury.engine.ports import Post
    from augury.local.running import LocalEngine
    from augury.local.store.sql import open_store

    program = augury.compile(CLASS)
    event = {"event": "Reading", "sensor": 1, "value": 1.5, "state": "ok", "occ_time": "2026-01-01T00:00:00Z"}
    seconds, turns = 1.5, 7

    def single_inserts(path: Path) -> float:
        with open_store(str(path), program) as store:
            return _rate(1, seconds, lambda _: store.append([Post(0, '{"event": "Reading", "sensor": 1}')]))

    def posted(path: Path, clients: int) -> float:
        with LocalEngine(program, str(path)) as engine:
            return _rate(clients, seconds, lambda client: engine.post({**event, "sensor": client}))

    with tempfile.TemporaryDirectory() as folder:
        rounds = []
        for number in range(turns):
            place = Path(folder)
            rounds.append(
                (
                    single_inserts(place / f"i{number}.db"),
                    posted(place / f"a{number}.db", 1),
                    posted(place / f"b{number}.db", 16),
                )
            )
    inserts, one, sixteen = (median(column) for column in zip(*rounds, strict=True))
    ratios = sorted(row[2] / row[0] for row in rounds)
    print(f"durable posts a second on SQLite, synchronous=FULL; medians of {turns} turns")
    print(f"  one client's inserts {inserts:,.0f}; one client {one:,.0f}; 16 clients {sixteen:,.0f}", end="")
    print(f": {median(ratios):.1f}× the inserts of its turn ({ratios[0]:.1f} to {ratios[-1]:.1f}; target 5)", end="")
    print(f", {sixteen / one:.1f}× one client")


def _rate(clients: int, seconds: float, post: Callable[[int], object]) -> float:
    until = time.perf_counter() + seconds
    counts = [0] * clients

    def work(client: int) -> None:
        while time.perf_counter() < until:
            post(client)
            counts[client] += 1

    threads = [Thread(target=work, args=(client,)) for client in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


if __name__ == "__main__":
    throughput(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    growing()
    durable()

"""When should Spark run SELECTs itself, and when DuckDB in tasks?

Everything is measured in one run, as ratios: the clock's seconds, and CPU seconds of the whole tree of processes.

- a small SELECT, cut by key, whole: `augury.detect` over one event a tick, for few ticks and for many; the difference
  is what a tick costs;
- the query alone, through the port, over views of 100 to 100,000 rows each: one that is joined by key, one that no key
  cuts, whose condition neither engine has an index for, and one whose condition divides exact numbers, which DuckDB
  does not do as Spark does: it calls Python for it.

    .venv/bin/python benchmarks/select_spark.py [--ticks 60] [--rounds 3] [--master local[2]]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from spark import cpu_seconds

START = 1_770_000_000

SMALL = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item INT, amount INT) ID (item) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Price (item INT, cents INT) ID (item) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Worth (item INT, cents INT) ID (item) LIFESPAN (1d)
  AS SELECT s.item, s.amount * p.cents AS cents FROM Stock s JOIN Price p ON s.item = p.item OCCURRING AT s.occTime;
"""

QUERIES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Ship (id INT, x DOUBLE, y DOUBLE, tons NUMERIC(10,2)) ID (id) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Storm (id INT, x DOUBLE, y DOUBLE, tons NUMERIC(10,2), reach DOUBLE)
  ID (id) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Named (id INT, reach DOUBLE) ID (id) LIFESPAN (1d)
  AS SELECT a.id, b.reach FROM Ship a JOIN Storm b ON a.id = b.id OCCURRING AT a.occTime;
CREATE COMPLEX EVENT CLASS Endangered (id INT, storm INT) ID (id) LIFESPAN (1d)
  AS SELECT a.id, b.id AS storm FROM Ship a JOIN Storm b
     ON (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) < b.reach OCCURRING AT a.occTime;
CREATE COMPLEX EVENT CLASS Light (id INT, storm INT) ID (id) LIFESPAN (1d)
  AS SELECT a.id, b.id AS storm FROM Ship a JOIN Storm b ON a.tons / b.tons < 0.0005 OCCURRING AT a.occTime;
"""


SIZES = {"Named": (100, 10_000, 100_000), "Endangered": (100, 10_000, 30_000), "Light": (100, 1_000, 2_000)}


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """The clock's seconds, and CPU seconds of all processes."""
    began, cpu = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - began, cpu_seconds() - cpu


def median(found: list[tuple[float, float]]) -> tuple[float, float]:
    """Of both."""
    return statistics.median(one[0] for one in found), statistics.median(one[1] for one in found)


def events(ticks: int) -> pa.Table:
    """An event a tick, of a few items."""
    numbers = np.arange(ticks)
    return pa.table(
        {
            "event": np.where(numbers % 2 == 0, "Stock", "Price"),
            "det_time": pa.array((START + numbers) * 1_000_000, pa.timestamp("us", "UTC")),
            "item": pa.array(numbers // 2 % 10, pa.int32()),
            "amount": pa.array(numbers, pa.int32()),
            "cents": pa.array(numbers, pa.int32()),
        }
    )


def by_ticks(spark, ticks: int, rounds: int) -> None:
    """What a tick with a small SELECT costs, by the difference of many ticks and few."""
    from augury.api import compile, detect

    program, few = compile(SMALL), 5
    frames = {count: spark.createDataFrame(events(count)) for count in (few, ticks)}

    counts: dict[int, int] = {}

    def run(by: str, count: int) -> None:
        with detect(program, frames[count], selects=by) as found:
            versions = found.of("Worth").count()
            assert counts.setdefault(count, versions) == versions > 0, "both give as many"

    for by in ("duckdb", "spark"):
        run(by, few)
        run(by, few)
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for by in ("duckdb", "spark"):
            for count in (few, ticks):
                found.setdefault((by, count), []).append(timed(lambda b=by, c=count: run(b, c)))
    costs = {}
    for by in ("duckdb", "spark"):
        low, high = median(found[by, few]), median(found[by, ticks])
        costs[by] = [(b - a) / (ticks - few) for a, b in zip(low, high, strict=True)]
        print(f"small, {by}: {low[0]:.2f} s for {few} ticks, {high[0]:.2f} s for {ticks}; a tick "
              f"{costs[by][0] * 1000:.1f} ms, {costs[by][1] * 1000:.1f} CPU ms")  # fmt: skip
    ratios = [a / b for a, b in zip(costs["spark"], costs["duckdb"], strict=True)]
    print(f"small, spark over duckdb: {ratios[0]:.1f}×, CPU {ratios[1]:.1f}×", flush=True)


def views(rows: int, random: np.random.Generator) -> dict[str, pa.Table]:
    """Live views of so many rows each, as an engine gives them."""
    times = pa.array(np.full(rows, START * 1_000_000), pa.timestamp("us", "UTC"))

    def view(**columns: object) -> pa.Table:
        own = {"id": pa.array(np.arange(rows), pa.int32()), "x": random.random(rows), "y": random.random(rows)}
        kilos = pa.array(random.integers(100, 10_000_000, rows)).cast(pa.decimal128(19, 0))
        own["tons"] = pc.multiply(kilos, pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))).cast(pa.decimal128(10, 2))
        return pa.table({**own, **columns, "occ_time": times, "det_time": times, "slot": np.arange(rows)})

    return {"Ship": view(), "Storm": view(reach=np.full(rows, 0.2 / rows))}


def alone(spark, rounds: int) -> None:
    """One evaluation of a query, through the port."""
    from augury.api import compile
    from augury.duck.selects import runnable
    from augury.spark.selects import spark_selects

    program, random = compile(QUERIES), np.random.default_rng(1)
    selects = {"duckdb": runnable(program), "spark": spark_selects(spark, program)}
    for name, sizes in SIZES.items():
        plan = program.class_plan(name)
        assert plan is not None
        for rows in sizes:
            found: dict[str, list[tuple[float, float]]] = {by: [] for by in selects}
            for turn in range(rounds + 1):
                given = views(rows, random)  # other tables each time, which have to be handed over
                counts: list[int] = []
                for by, port in selects.items():

                    def run(port=port, plan=plan, given=given, counts=counts) -> None:
                        counts.append(len(port.rows(plan, given, 0)))

                    cost = timed(run)
                    found[by] += [cost] if turn else []
                assert counts[0] == counts[1], "both give as many rows"
            duck, ours = median(found["duckdb"]), median(found["spark"])
            told = (f"{by} {cost[0]:.3f} s, {cost[1]:.2f} CPU s" for by, cost in (("duckdb", duck), ("spark", ours)))
            ratios = f"{ours[0] / duck[0]:.2f}×, CPU {ours[1] / duck[1]:.2f}×"
            print(f"{name}, {rows:,} rows a view: {'; '.join(told)}; spark over duckdb {ratios}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ticks", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()

    from pyspark.sql import SparkSession

    # A session as users have it: that of `augury run` leaves the second compiler of Java out.
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.log.level": "ERROR"}
    settings["spark.ui.showConsoleProgress"] = "false"
    spark = SparkSession.builder.master(asked.master).config(map=settings).getOrCreate()
    alone(spark, asked.rounds)
    by_ticks(spark, asked.ticks, asked.rounds)
    spark.stop()


if __name__ == "__main__":
    main()

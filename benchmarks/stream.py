"""What does a tick of a stream cost, beside the same events as a batch, and does it grow?

Everything is measured in one run, as ratios: CPU seconds are those of the whole tree of processes (driver, JVM, Python
workers). A keyed MATCH over 100,000 keys, all of them live; each step is what a micro-batch of `watch` does: rows of a
data frame are typed and split, brought together by slot, run, written, and committed to a lake.

- a step with 100,000 events, and with none though every slot is run (the floor);
- the same 100,000 events as a batch of their own, and as one part of a batch of many times as many;
- the same step after many others: the tenth of them, and the last.

    .venv/bin/python benchmarks/stream.py [--steps 200] [--events 100000] [--keys 100000] [--master local[2]]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from spark import cpu_seconds

PROGRAM = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card BIGINT, amount BIGINT) ID (card) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card BIGINT, amount BIGINT) ID (card) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Found (card BIGINT) ID (card) LIFESPAN (1d)
  AS MATCH prior(Login(card, _), Withdrawal(card, _)[amount > 990]);
"""
START = 1_770_000_000


def events_of(step: int, count: int, keys: int, random: np.random.Generator) -> pa.Table:
    """The events of one chronon."""
    det_time = np.sort(random.integers(0, 1_000_000, count)) + (START + step) * 1_000_000
    return pa.table(
        {
            "event": np.where(random.random(count) < 0.5, "Login", "Withdrawal"),
            "det_time": pa.array(det_time, pa.timestamp("us", "UTC")),
            "card": random.integers(0, keys, count),
            "amount": random.integers(0, 1_000, count),
        }
    )


def timed(work) -> tuple[float, float]:
    """CPU seconds of all processes, and those of the clock."""
    began, cpu = time.perf_counter(), cpu_seconds()
    work()
    return cpu_seconds() - cpu, time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--master", default="local[2]")
    asked = parser.parse_args()

    from augury.api import compile, detect
    from augury.lake import Lake
    from augury.spark.arriving import Ingest
    from augury.spark.keeping import keeper
    from augury.spark.session import session
    from augury.spark.stepping import NOTHING_TOLD, ingested, told

    spark = session(asked.master)
    program = compile(PROGRAM)
    random = np.random.default_rng(1)
    chronon_us = program.settings.chronon_us
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.create(Path(folder) / "lake", program_text=PROGRAM, chronon_us=chronon_us, buckets=4)
        kept = keeper(spark, program, lake)

        def step(number: int) -> None:
            frame = spark.read.parquet(f"{folder}/{number}.parquet")
            pieces = ingested([(frame, Ingest(kept.slots, 0, "stream", generation=number + 1))]).persist()
            kept.keep(pieces, told(pieces), (START + number + 1) * 1_000_000, query="bench", batch=number)
            pieces.unpersist()

        def batch(number: int) -> None:
            with detect(program, spark.read.parquet(f"{folder}/{number}.parquet")) as found:
                found.of("Found").write.format("noop").mode("overwrite").save()

        costs, floors, batches = [], [], []
        for number in range(asked.steps):
            pq.write_table(events_of(number, asked.events, asked.keys, random), f"{folder}/{number}.parquet")
            costs.append(timed(lambda n=number: step(n)))
            if number >= 3 and number % 10 == 3:
                until = (START + number + 1) * 1_000_000
                floors.append(timed(lambda u=until: kept.keep(None, NOTHING_TOLD, u, query="bench", batch=None)))
                batches.append(timed(lambda n=number: batch(n)))
            if number % 20 == 19:
                cpu, clock = costs[-1]
                print(f"    step {number + 1}: {cpu:.2f} CPU s, {clock:.2f} s by the clock", flush=True)
        report(costs, floors, batches, kept.state_bytes)
    spark.stop()


def report(costs, floors, batches, state_bytes) -> None:
    """Print medians and ratios."""

    def median(found, at: int) -> float:
        return statistics.median(one[at] for one in found)

    early, late = costs[3:13], costs[-10:]
    floor, batch = median(floors, 0), median(batches, 0)
    print(f"step: {median(early, 0):.2f} CPU s, {median(early, 1):.2f} s by the clock (steps 4 to 13)")
    print(f"step: {median(late, 0):.2f} CPU s, {median(late, 1):.2f} s by the clock (the last ten of {len(costs)})")
    print(f"no events, every slot run: {floor:.2f} CPU s, {median(floors, 1):.2f} s by the clock")
    print(f"the same events as a batch: {batch:.2f} CPU s, {median(batches, 1):.2f} s by the clock")
    print(f"(step - floor) / batch: {(median(costs[3:], 0) - floor) / batch:.2f} (at most 3)")
    print(f"step / (batch + floor): {median(costs[3:], 0) / (batch + floor):.2f} (at most 3 of the batch)")
    print(f"last ten / first ten: {median(late, 0) / median(early, 0):.2f}")
    print(f"states: {sum(state_bytes.values()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

"""What does a tick of a stream cost, beside the same events as a batch, and does it grow?

Everything is measured in one run, as ratios: CPU seconds are those of the whole tree of processes (driver, JVM, Python
workers). A keyed MATCH over 100,000 keys, all of them live; each step is what a micro-batch of `watch` does: rows of a
data frame are typed and split, brought together by slot, run, written, and committed to a lake.

- a step with 100,000 events, and with none though every slot is run (the floor);
- the same 100,000 events as a batch of their own, from Parquet to Parquet;
- the same step after many others: the tenth of them, and the last;
- a micro-batch of a real `watch` over the last files, with Spark's query, offsets and checkpoint around the step.

    .venv/bin/python benchmarks/stream.py [--steps 200] [--events 100000] [--keys 100000] [--master local[2]]
      [--watched 20] [--long]
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
WARMING = 3
"""Steps that are not counted: code is loaded and compiled in them."""


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
    parser.add_argument("--watched", type=int, default=20, help="micro-batches of a real watch")
    parser.add_argument("--long", action="store_true", help="a JVM with both of its compilers")
    asked = parser.parse_args()

    from augury.api import compile, detect
    from augury.lake import Lake
    from augury.spark.arriving import Ingest
    from augury.spark.keeping import keeper
    from augury.spark.session import session
    from augury.spark.stepping import NOTHING_TOLD, ingested, told

    spark = session(asked.master, is_long=asked.long)
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
                found.of("Found").write.mode("overwrite").parquet(f"{folder}/batch")

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
        first = asked.steps - min(asked.watched + WARMING, asked.steps)
        watched = watching(spark, program, Path(folder), range(first, asked.steps))
        report(costs, floors, batches, watched, kept.state_bytes)
    spark.stop()


def watching(spark, program, folder: Path, numbers: range) -> list[tuple[float, float]]:
    """What a micro-batch of a real watch costs over the files of these steps: each of its turns by itself."""
    from augury.api import watch

    source = folder / "watched"
    source.mkdir()
    schema = spark.read.parquet(f"{folder}/{numbers[0]}.parquet").schema
    stream = spark.readStream.schema(schema).parquet(str(source))
    taken = []
    with watch(program, stream, store=folder / "watched-lake", clock="data", buckets=4) as query:
        for number in numbers:

            def turn(n=number) -> None:
                (folder / f"{n}.parquet").rename(source / f"{n}.parquet")
                query.query.processAllAvailable()

            taken.append(timed(turn))
        assert query.progress.commit >= len(numbers)
    return taken[WARMING:]


def report(costs, floors, batches, watched, state_bytes) -> None:
    """Print medians and ratios."""

    def median(found, at: int) -> float:
        return statistics.median(one[at] for one in found)

    early, late = costs[WARMING : WARMING + 10], costs[-10:]
    floor, batch = median(floors, 0), median(batches, 0)
    print(f"step: {median(early, 0):.2f} CPU s, {median(early, 1):.2f} s by the clock (steps 4 to 13)")
    print(f"step: {median(late, 0):.2f} CPU s, {median(late, 1):.2f} s by the clock (the last ten of {len(costs)})")
    print(f"no events, every slot run: {floor:.2f} CPU s, {median(floors, 1):.2f} s by the clock")
    print(f"the same events as a batch: {batch:.2f} CPU s, {median(batches, 1):.2f} s by the clock")
    print(f"(step - floor) / batch: {(median(costs[WARMING:], 0) - floor) / batch:.2f} (at most 3)")
    print(f"step / (batch + floor): {median(costs[WARMING:], 0) / (batch + floor):.2f} (at most 3 of the batch)")
    print(f"micro-batch of a watch: {median(watched, 0):.2f} CPU s, {median(watched, 1):.2f} s by the clock")
    print(f"(micro-batch of a watch - floor) / batch: {(median(watched, 0) - floor) / batch:.2f} (at most 3)")
    print(f"last ten / first ten: {median(late, 0) / median(early, 0):.2f}")
    print(f"states: {sum(state_bytes.values()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

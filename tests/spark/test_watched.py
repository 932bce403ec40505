"""The law that engines are equal, through the real thing: lines of JSON, columns and detectors in a watch.

A query of Spark reads what comes, with its checkpoint, and is stopped and started again on the way; what the lake holds
and a sink was told is what the engine in process gives.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import augury
from augury.clock import show_time
from augury.history.arrivals import arrivals
from augury.lake import Lake
from augury.spark.committed import ledger_in
from augury.spark.sinks import to_parquet
from tests.bitemporal.generate import generate, generate_mixed
from tests.spark.packed import SOURCE, Case, by_det_time
from tests.spark.test_equality import (
    Outcome,
    bitemporal_corpus,
    composite_corpus,
    keyed_programs,
    locally,
    match_corpus,
    of_generated,
    outcome,
)

SECOND = 1_000_000


def kept_in(case: Case, store: Path) -> Outcome:
    """What a lake says that a program did."""
    lake = Lake.open(store)
    return outcome(case.program, ledger_in(case.program, lake, list(lake.manifests())))


# ---- lines, cut at random ----------------------------------------------------------------------------------------


def is_whole(case: Case) -> bool:
    """Whether there is something to cut, and all is read: a watch is not told before its end where it is."""
    last = arrivals(case.program, [case.raw]).last_us()
    return len(case.lines) > 3 and last is not None and (case.end_us is None or last < case.end_us)


def by_chance(cases: list[Case], seed: int) -> Case:
    """One of those that can be cut and say something."""
    random = Random(f"watched {seed}")
    return next(one for one in random.sample(cases, len(cases)) if is_whole(one) and locally(one).lines)


WATCHED: dict[str, Callable[[], Case]] = {
    "conditions": lambda: by_chance([of_generated("generate", generate(seed), seed) for seed in range(300, 304)], 1),
    "mixed": lambda: by_chance([of_generated("mixed", generate_mixed(seed), seed) for seed in range(300, 304)], 2),
    "mixed again": lambda: by_chance([of_generated("mixed", generate_mixed(s), s) for s in range(310, 314)], 3),
    "keyed": lambda: by_chance(keyed_programs()[:20], 4),
    "bitemporal corpus": lambda: by_chance(bitemporal_corpus(), 5),
    "MATCH corpus": lambda: by_chance(match_corpus(), 6),
    "COMPOSITE corpus": lambda: by_chance(composite_corpus(), 7),
}


@pytest.mark.parametrize("name", WATCHED)
def test_lines_in_a_watch_that_is_taken_up_again(spark: SparkSession, tmp_path: Path, name: str) -> None:
    case = WATCHED[name]()
    folder, store = tmp_path / "came", tmp_path / "lake"
    folder.mkdir()
    came = cut(case, tmp_path)
    restart = Random(f"restart {case.chance}").randrange(1, len(came.files))
    program = augury.compile(case.program.text)

    def watched() -> Any:
        lines = augury.sources.json_lines(spark, str(folder), options={"maxFilesPerTrigger": 1})
        # A line that names no class is of none, and not of that which its file is called like.
        lines = lines.withColumn("event", f.lit(None).cast("string"))
        return augury.watch(program, lines, store=store, clock="data", buckets=case.buckets)

    came.move(folder, 0, restart)
    with watched() as first:
        first.query.processAllAvailable()
    came.move(folder, restart, len(came.files))
    with watched() as second:
        second.finish(case.end_us)
        assert second.query.runId != first.query.runId
        assert second.query.id == first.query.id, "the checkpoint tells that it is the same"
    kept = kept_in(case, store)
    rejected = sorted((came.places[place], *told) for place, *told in kept.rejected)
    assert replace(kept, rejected=rejected) == locally(case), case.program.text


@dataclass(frozen=True)
class Cut:
    """Files of a micro-batch each, and by the place of a line in the folder that is read its place among all."""

    files: list[Path]
    places: dict[str, str]

    def move(self, folder: Path, begin: int, end: int) -> None:
        """Let some of them appear in the folder."""
        for file in self.files[begin:end]:
            file.rename(folder / file.name)


def cut(case: Case, root: Path) -> Cut:
    """The lines in order of det_time, cut at random."""
    random = Random(f"cut {case.chance}")
    rows = by_det_time(case, random)
    bounds = [0, *sorted(random.sample(range(1, len(rows)), random.randint(1, 3))), len(rows)]
    made = Cut([], {})
    for number, (begin, end) in enumerate(pairwise(bounds), 1):
        path = root / f"{number:04d}.jsonl"
        path.write_text("".join(f"{line}\n" for _, line in rows[begin:end]), "utf-8")
        # Spark takes files by the time they were changed, and several are written in one millisecond.
        os.utime(path, (number, number))
        made.files.append(path)
        for at, (row, _) in enumerate(rows[begin:end], 1):
            made.places[f"{root / 'came' / path.name}:{at}"] = f"{SOURCE}:{row}"
    return made


# ---- every source, and a sink ------------------------------------------------------------------------------------

HEAT = augury.compile("""
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, heat INT, note VARCHAR(4)) ID () LIFESPAN (1h);
CREATE COMPLEX EVENT CLASS Hot (sensor INT, heat INT) ID (sensor) LIFESPAN (1h)
  AS MATCH prior(Reading(sensor, _, _)[heat > 90], Reading(sensor, heat, _)[heat > 90]) WITHIN 1m
  ON ANNOUNCEMENT DO cool(new.sensor), ON CHANGE DO cool(new.sensor);
""")
START = 1_772_355_600 * SECOND
ROWS: list[dict[str, Any]] = [
    {
        "event": "Reading",
        "occ_time": show_time(START + n * 7 * SECOND),
        "det_time": show_time(START + (n * 7 + 1) * SECOND),
        "sensor": n % 3,
        "heat": 85 + n * 5 % 17,
        # One is too long, and refused.
        "note": "much too long" if n == 4 else None if n % 2 else "ok",
    }
    for n in range(16)
]
HALVES = (ROWS[:9], ROWS[9:])
Stream = Callable[[SparkSession, Path], DataFrame]


def as_csv(spark: SparkSession, folder: Path) -> DataFrame:
    for number, rows in enumerate(HALVES, 1):
        cells = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        written(folder / f"{number}.csv", "\n".join([",".join(ROWS[0]), *cells]).encode(), number)
    return augury.sources.csv(spark, str(folder), HEAT, options={"maxFilesPerTrigger": 1})


def as_parquet(spark: SparkSession, folder: Path) -> DataFrame:
    for number, rows in enumerate(HALVES, 1):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        written(folder / f"{number}.parquet", sink.getvalue().to_pybytes(), number)
    return augury.sources.parquet(spark, str(folder), HEAT, options={"maxFilesPerTrigger": 1})


def as_detector(spark: SparkSession, folder: Path) -> DataFrame:
    halves = HALVES

    def poll(position: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        turn = position.get("turn", 0)
        return ([], position) if turn == len(halves) else (halves[turn], {"turn": turn + 1})

    return augury.sources.detector(spark, poll, every=0, name="thermometer")


def written(path: Path, content: bytes, number: int) -> None:
    path.write_bytes(content)
    os.utime(path, (number, number))


ALL_THERE: dict[str, Any] = {"availableNow": True}
"""A trigger with which the query ends by itself; a source in Python has none."""


SOURCES: dict[str, tuple[Stream, dict[str, Any]]] = {
    "csv": (as_csv, ALL_THERE),
    "parquet": (as_parquet, ALL_THERE),
    "detector": (as_detector, {}),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_in_a_watch(spark: SparkSession, tmp_path: Path, name: str) -> None:
    stream, trigger = SOURCES[name]
    folder, store, results = tmp_path / "came", tmp_path / "lake", tmp_path / "results"
    folder.mkdir()
    case = Case("heat", HEAT, tuple(json.dumps(row) for row in ROWS))
    frame, sink = stream(spark, folder), to_parquet(str(results))
    with augury.watch(HEAT, frame, store=store, clock="data", buckets=2, trigger=trigger, sinks=[sink]) as watch:
        if trigger:
            assert watch.await_termination(300)
        watch.finish()
    batches = [manifest.batch for manifest in Lake.open(store).manifests()]
    assert {0, 1} <= set(batches), "each half is a micro-batch"
    kept, wanted = kept_in(case, store), locally(case)
    assert len(wanted.lines) > 6
    assert [told[1:] for told in kept.rejected] == [told[1:] for told in wanted.rejected]
    assert len(wanted.rejected) == 1
    assert replace(kept, rejected=[]) == replace(wanted, rejected=[])
    assert carried(spark, results) == sorted(wanted.lines)


def carried(spark: SparkSession, results: Path) -> list[str]:
    """The lines that the sink has written."""
    frames = [spark.read.parquet(f"{results}/{kind}").select("line") for kind in ("events", "actions")]
    return sorted(row.line for frame in frames for row in frame.collect())


def test_a_rate_in_a_watch(spark: SparkSession, tmp_path: Path) -> None:
    """What is made up is in the history, over which the engine in process finds the same."""
    store, results = tmp_path / "lake", tmp_path / "results"
    columns = {"sensor": "CAST(value % 3 AS INT)", "heat": "CAST(85 + value * 5 % 17 AS INT)"}
    frame, sink = augury.sources.rate(spark, "Reading", 20, columns), to_parquet(str(results))
    with augury.watch(HEAT, frame, store=store, clock="data", buckets=2, sinks=[sink]) as watch:
        deadline = time.monotonic() + 300
        while watch.progress.counts.get("read", 0) < 40 and time.monotonic() < deadline:
            watch.await_termination(0.2)
    last = watch.progress.last_tick
    readings = augury.history(store).table("Reading").sort_by("seq").to_pylist()
    assert last is not None
    assert len(readings) >= 40
    rows = [
        {
            "event": "Reading",
            **{name: row[name] for name in ("sensor", "heat")},
            **{name: row[name].isoformat() for name in ("occ_time", "det_time")},
        }
        for row in readings
    ]
    case = Case("rate", HEAT, tuple(json.dumps(row) for row in rows), last)
    kept, wanted = kept_in(case, store), locally(case)
    assert wanted.lines
    assert kept == wanted
    assert carried(spark, results) == sorted(wanted.lines)

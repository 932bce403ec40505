"""Batches over the history that a stream has kept: `augury.detect(program, augury.history(path))` says what it said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import augury
from augury.api import Program
from augury.cli import app
from augury.engine import ledger, lines
from augury.history.coming import received
from augury.lake import Lake
from augury.spark.committed import ledger_in
from augury.spark.run import collect
from augury.spark.stored import NotStored
from augury.spark.ticking import TickDetected

EXAMPLES = Path(__file__).parents[2] / "examples"


def arguments(name: str, *more: str) -> list[str]:
    folder = EXAMPLES / name
    return ["run", str(folder / f"{name}.bicepl"), "--events", str(folder / "events.jsonl"), "--quiet", *more]


def said(program: Program, history: Any, **options: Any) -> list[str]:
    """The lines of a batch, whichever of the two it is."""
    with augury.detect(program, history, **options) as found:
        if isinstance(found, TickDetected):
            return list(ledger.lines(program, found.collect_ledger()))
        every = collect(found)
        return list(lines.lines(every.versions, every.occurrences, program.settings.chronon_us))


def numbers(found: Any, program: Program) -> dict[str, list[int]]:
    rows = found.versions.select("event", "seq").collect()
    return {one.name: sorted(row.seq for row in rows if row.event == one.name) for one in received(program)}


@pytest.mark.parametrize(
    ("name", "goes", "until"),
    [
        ("groceries", "by ticks", "2026-03-04T12:00:00Z"),
        ("parcels", "by ticks", "2026-03-03T09:00:00Z"),
        ("discount", "at once", "1992-01-01T00:00:00Z"),
        # The rules of both post, and the first has a clock class.
        ("brokerage", "by ticks", "2026-03-02T10:00:00Z"),
        ("travel", "by ticks", "2026-03-11T00:00:00Z"),
    ],
)
def test_what_a_stream_kept_gives_what_it_printed(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, goes: str, until: str
) -> None:
    store = str(tmp_path / "lake")
    app(arguments(name, "--engine", "spark-stream", "--store", store), standalone_mode=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed == (EXAMPLES / name / "expected.ndjson").read_text("utf-8").splitlines()
    program = augury.compile((EXAMPLES / name / f"{name}.bicepl").read_text("utf-8"))
    history = augury.history(store)
    assert said(program, history) == printed
    with augury.detect(program, history) as found:
        assert isinstance(found, TickDetected) is (goes == "by ticks")
        assert numbers(found, program) == {
            one.name: history.table(one.name)["seq"].to_pylist() for one in received(program)
        }
        assert found.rejected.count() == 0
    app(arguments(name, "--until", until), standalone_mode=False)
    then = capsys.readouterr().out.splitlines()
    assert 0 < len(then) < len(printed)
    assert said(program, history, as_known_at=until) == then


LIVE = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, heat INT, source_time VARCHAR(9)) ID (sensor) LIFESPAN (5m)
  ON CHANGE AND new.heat > old.heat DO warmer(new.sensor, new.heat);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pulse (sensor INT) ID () LIFESPAN (1m);
CREATE COMPLEX EVENT CLASS Twice (sensor INT) ID (sensor) LIFESPAN (1m)
  AS MATCH prior(Pulse(sensor), Pulse(sensor)) WITHIN 30s;
CREATE COMPLEX EVENT CLASS Hot (sensor INT, heat INT) ID (sensor) LIFESPAN (1m)
  AS SELECT sensor, heat FROM Reading WHERE heat > 50 OCCURRING AT Reading.occTime
  ON ANNOUNCEMENT DO cool(new.sensor);
"""
BEAT = "CREATE CLOCK EVENT CLASS Beat EVERY 15s;\n"
AFTER = "CREATE COMPLEX EVENT CLASS After () ID () LIFESPAN (1m) AS MATCH prior(Pulse, Beat);\n"


def row(second: float, event: str, sensor: int, **more: Any) -> str:
    times = {"occ_time": second, "det_time": second}
    return json.dumps({"event": event, **times, "sensor": sensor, **more})


def watched(spark: SparkSession, program: Program, folder: Path, files: Sequence[Sequence[str]]) -> str:
    """The lake of watches, one after the other, each over one file more."""
    (folder / "rows").mkdir()
    for number, some in enumerate(files):
        (folder / "rows" / f"{number}.jsonl").write_text("\n".join(some))
        stream = augury.sources.json_lines(spark, str(folder / "rows"))
        with augury.watch(program, stream, store=folder / "lake", clock="data", buckets=3) as watch:
            watch.finish()
    return str(folder / "lake")


FILES = [
    [
        row(1, "Pulse", 1),
        row(2, "Reading", 1, heat=60, source_time="a"),
        row(2.5, "Pulse", 1, event_id="p"),
        row(3, "Reading", 2, heat=40),
        row(4, "Reading", 2, heat=45),
        row(21, "Pulse", 1, event_id="p"),
        "no event",
        row(22, "Reading", 2, heat=70, source_time="b"),
        row(30, "Pulse", 3),
    ],
    [
        # Too late for their ticks, but for the last.
        row(5, "Pulse", 3),
        row(6, "Reading", 2, heat=71),
        json.dumps({"event": "Reading", "occ_time": None, "det_time": 7, "sensor": 1}),
        row(61, "Pulse", 1),
        row(61, "Pulse", 1),
    ],
]


@pytest.mark.parametrize("more", ["", BEAT + AFTER])
def test_what_was_late_absorbed_withdrawn_or_posted_by_the_clock_has_its_number(
    spark: SparkSession, tmp_path: Path, more: str
) -> None:
    program = augury.compile(LIVE + more)
    store = watched(spark, program, tmp_path, FILES)
    lake = Lake.open(store)
    streamed = ledger_in(program, lake, list(lake.manifests()))
    assert streamed.versions["Reading"]["source_time_"].null_count < len(streamed.versions["Reading"])
    told = list(ledger.lines(program, streamed))
    assert {json.loads(line).get("event") for line in told} >= {"Twice", "Hot", *(["After"] if more else [])}
    with augury.detect(program, augury.history(store)) as found:
        again = found.collect_ledger()
    assert list(ledger.lines(program, again)) == told
    for one in received(program):
        columns = [
            name for name in again.versions[one.name].column_names if name not in ("constituents", "augury_place")
        ]
        assert again.versions[one.name].select(columns) == streamed.versions[one.name].select(columns)
    # The first commit is the lake as it was; what is known now of that time knows what came late.
    first = said(program, augury.history(store, commit=lake.snapshot().commit), as_known_at="1970-01-01T00:00:40Z")
    assert 0 < len(first) < len(told)
    assert first == told[: len(first)]


def test_another_program_is_tried_on_what_was_kept(spark: SparkSession, tmp_path: Path) -> None:
    store = watched(spark, augury.compile(LIVE), tmp_path, FILES[:1])
    pulse = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pulse (sensor INT) ID () LIFESPAN (1m);\n"
    derived = "CREATE COMPLEX EVENT CLASS Late (sensor INT) ID () LIFESPAN (1m)"
    program = augury.compile(f"{pulse}{derived} AS MATCH sequence(Pulse(sensor), Pulse(sensor));")
    with augury.detect(program, augury.history(store)) as found:
        # Of the versions of a program all are numbered by what the stream saw.
        assert [(one.seq, one.constituents) for one in found.of("Late").collect()] == [(3, [1, 3])]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (LIVE + BEAT, "the history has no clock class `Beat`"),
        (
            "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Twice (sensor INT) ID () LIFESPAN (1m);",
            "`Twice` is derived in the",
        ),
        (
            "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pulse (sensor VARCHAR(9)) ID () LIFESPAN (1m);",
            "`sensor` of `Pulse` is VARCHAR(9), and in the history int: declare it as it was",
        ),
    ],
)
def test_what_is_no_history_for_a_program_is_told(
    spark: SparkSession, tmp_path: Path, program: str, message: str
) -> None:
    store = watched(spark, augury.compile(LIVE), tmp_path, FILES[:1])
    with pytest.raises(NotStored, match=message.replace("(", r"\(").replace(")", r"\)")):
        augury.detect(augury.compile(program), augury.history(store))


def test_a_view_of_a_history_is_no_history(spark: SparkSession, tmp_path: Path) -> None:
    program = augury.compile(LIVE)
    store = watched(spark, program, tmp_path, FILES[:1])
    for view in (augury.history(store).known_at(1), augury.history(store).as_of(1)):
        with pytest.raises(NotStored, match="say as_known_at"):
            augury.detect(program, view)

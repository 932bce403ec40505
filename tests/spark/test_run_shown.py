"""What runs on Spark show: how far they are, on a real terminal; and the larger example, the same on all engines."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from augury.api import compile
from augury.cli import app
from augury.engine.ledger import Ledger, counted, lines
from augury.engine.progress import Far
from augury.lake import Lake
from augury.local.sources import read_events
from augury.spark.run import run
from augury.spark.running import run_by_ticks
from augury.spark.telling import tasks_of, telling
from tests.terminal import Terminal, shown

EXAMPLES = Path(__file__).parents[2] / "examples"
PARCELS = EXAMPLES / "parcels"


def arguments(name: str, *more: str) -> list[str]:
    folder = EXAMPLES / name
    return ["run", str(folder / f"{name}.bicepl"), "--events", str(folder / "events.jsonl"), *more]


# ---- what is told ------------------------------------------------------------------------------------------------


def by_ticks(spark: SparkSession, told: list[Far], *, is_stream: bool) -> tuple[Ledger, list[str]]:
    program = compile((PARCELS / "parcels.bicepl").read_text("utf-8"))
    events = read_events(str(PARCELS / "events.jsonl"))
    ledger = run_by_ticks(program, events, is_stream=is_stream, spark=spark, tell=told.append)
    return ledger, list(lines(program, ledger))


def test_a_stream_tells_rows_ticks_and_lag(spark: SparkSession) -> None:
    told: list[Far] = []
    ledger, printed = by_ticks(spark, told, is_stream=True)
    assert printed == (PARCELS / "expected.ndjson").read_text("utf-8").splitlines()
    assert counted(ledger)["read"] == 28
    assert told[0] == Far("reading", 31)
    assert {far.doing for far in told[1:]} == {"stream on Spark"}
    assert {far.rows_all for far in told[1:]} == {31}
    rows = [far.rows or 0 for far in told[1:]]
    assert rows == sorted(rows)
    # From the tick at Mon 08:15, which reads the first, to that at Tue 17:30, which reads the last.
    last = told[-1]
    assert (last.rows, last.ticks, last.tick, last.lag_us) == (31, 134, 1_772_559_000_000_000, 0)


def test_a_batch_tells_which_tasks_are_done(spark: SparkSession) -> None:
    told: list[Far] = []
    _, printed = by_ticks(spark, told, is_stream=False)
    assert printed == (PARCELS / "expected.ndjson").read_text("utf-8").splitlines()
    assert told[0] == Far("reading", 31)
    assert {(far.doing, far.rows) for far in told[1:]} == {("ticks on Spark", 31)}
    assert any(far.tasks_all for far in told[1:])


def test_a_batch_at_once_tells_so_too(spark: SparkSession) -> None:
    program = compile((EXAMPLES / "discount" / "discount.bicepl").read_text("utf-8"))
    path, told = str(EXAMPLES / "discount" / "events.jsonl"), list[Far]()
    found = run(program, read_events(path), spark=spark, tell=told.append)
    assert len(found.versions) == 23
    assert told[0] == Far("reading", 23)
    assert {(far.doing, far.rows) for far in told[1:]} == {("detecting on Spark", 23)}


def test_tasks_are_those_that_run_now(spark: SparkSession) -> None:
    told: list[Far] = []
    with telling(told.append, lambda: Far("x", **tasks_of(spark))):
        spark.range(4, numPartitions=4).rdd.foreach(lambda _: __import__("time").sleep(0.6))
    assert any(far.tasks_all == 4 and (far.tasks or 0) < 4 for far in told)
    # Spark notes what is over a moment later.
    begun = time.monotonic()
    while tasks_of(spark) != {"tasks": 0, "tasks_all": 0}:
        assert time.monotonic() < begun + 20, tasks_of(spark)
        time.sleep(0.05)


def test_a_look_that_fails_does_not_stop_the_run(caplog: pytest.LogCaptureFixture) -> None:
    def look() -> Far:
        raise OSError("the JVM has gone")

    with telling(lambda far: None, look):
        done = True
    assert done
    assert [record.getMessage() for record in caplog.records] == ["how far the run is cannot be told: the JVM has gone"]


def test_nobody_is_told_and_nobody_looks() -> None:
    def look() -> Far:
        raise AssertionError("nobody asked")

    with telling(None, look):
        pass


# ---- what is seen ------------------------------------------------------------------------------------------------


@contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[io.StringIO, Terminal]]:
    monkeypatch.setenv("TERM", "xterm")
    printed = io.StringIO()
    with Terminal() as terminal, redirect_stdout(printed), redirect_stderr(terminal.stream):
        yield printed, terminal


@pytest.mark.parametrize(
    ("name", "engine", "doing"),
    [
        ("discount", "spark", "detecting on Spark"),
        ("groceries", "spark", "ticks on Spark"),
        ("groceries", "spark-stream", "stream on Spark"),
    ],
)
def test_a_bar_is_drawn_and_gone_at_the_end(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, engine: str, doing: str
) -> None:
    store = ["--store", str(tmp_path / "lake")] if engine == "spark-stream" else []
    with on_terminal(monkeypatch) as (printed, terminal):
        app(arguments(name, "--engine", engine, *store), standalone_mode=False)
    assert printed.getvalue() == (EXAMPLES / name / "expected.ndjson").read_text("utf-8")
    assert "━" in terminal.text
    assert doing in terminal.text
    left = shown(terminal.text)
    assert " versions, " in left[0]
    assert not any("━" in line for line in left)
    assert any(line.startswith("took ") for line in left)
    if store:
        assert left[-2] == f"results: on standard output; every tick in {tmp_path / 'lake'}"
        assert left[-1].endswith(f"augury history InstantReplenishingNeeded --store {tmp_path / 'lake'}")
        assert Lake.open(str(tmp_path / "lake")).last() is not None


def test_sparks_own_bar_is_off(spark: SparkSession) -> None:
    assert spark.sparkContext.getConf().get("spark.ui.showConsoleProgress") == "false"


# ---- the larger example ------------------------------------------------------------------------------------------


def events_of_parcels(folder: Path, parcels: int) -> int:
    made = runpy.run_path(str(PARCELS / "make_events.py"))
    table = made["make"](parcels, 7)
    made["write"](table, folder)
    return int(table.num_rows)


def same_on(engines: Sequence[str], capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> dict[str, int]:
    """Run it on these and locally; they print the same. Gives how often each thing stands on a line."""
    printed = {}
    for engine in ("local", *engines):
        args = ["run", str(PARCELS / "parcels.bicepl"), "--events", str(folder), "--engine", engine, "--quiet"]
        app([*args, *(["--store", str(tmp_path / "lake")] if engine == "spark-stream" else [])], standalone_mode=False)
        printed[engine] = capsys.readouterr().out.splitlines()
    for engine in engines:
        assert printed[engine] == printed["local"]
    found: dict[str, int] = {}
    for row in map(json.loads, printed["local"]):
        name = row.get("action") or f"{row['event']} {row['change']}"
        found[name] = found.get(name, 0) + 1
    return found


EVERYTHING = {
    *("tellCustomer", "recall", "checkScanner", "lookFor", "checkLabel", "leaveAtShop", "apologise", "credit"),
    *("takeBack", "Astray announce", "TwiceInVain announce", "Missing announce", "Found announce"),
    *("Overdue announce", "Overdue withdraw", "Compensation announce", "Compensation withdraw"),
}


def test_made_events_are_the_same_again_and_bring_everything_about(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    made = runpy.run_path(str(PARCELS / "make_events.py"))["make"]
    assert made(100, 7).equals(made(100, 7))
    assert not made(100, 7).equals(made(100, 8))
    assert events_of_parcels(tmp_path / "events", 600) > 3000
    found = same_on([], capsys, tmp_path / "events", tmp_path)
    assert found.keys() >= EVERYTHING


@pytest.mark.soak
def test_the_larger_example_is_the_same_on_all_engines(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert events_of_parcels(tmp_path / "events", 34_000) > 200_000
    found = same_on(["spark", "spark-stream"], capsys, tmp_path / "events", tmp_path)
    assert found.keys() >= EVERYTHING


# ---- where Spark runs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["spark", "spark-stream"])
def test_a_master_that_is_none_is_told(engine: str) -> None:
    command = [sys.executable, "-m", "augury", *arguments("discount", "--engine", engine, "--master", "nowhere")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "Master must either be yarn or start with spark, k8s, or local" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_in_process_there_is_no_master(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app(arguments("discount", "--master", "local[1]"))
    assert ended.value.code == 2
    assert "take --engine spark or spark-stream" in capsys.readouterr().err

"""Files that tasks of Spark read: the same lines, rejected events and errors as in process, however files are cut."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from augury.api import compile
from augury.cli import app
from augury.datafiles import Unreadable
from augury.engine.ledger import lines
from augury.history.raw import Broken, RawTable
from augury.local.portions import Portion, portions_of
from augury.local.sources import read_events
from augury.spark.replaying import by_ticks

BY_TICKS = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, heat INT, note VARCHAR(9)) ID (sensor) LIFESPAN (1h)
  ON CHANGE AND new.heat > old.heat DO warmer(new.sensor, new.heat);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pulse (sensor INT) ID () LIFESPAN (1h);
CREATE COMPLEX EVENT CLASS Hot (sensor INT) ID (sensor) LIFESPAN (1h)
  AS SELECT sensor FROM Reading WHERE heat > 50 OCCURRING AT Reading.occTime;
CREATE COMPLEX EVENT CLASS Twice (sensor INT) ID () LIFESPAN (1h) AS MATCH sequence(Pulse(sensor), Pulse(sensor));
"""
AT_ONCE = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Reading (sensor INT, heat INT, note VARCHAR(9)) ID () LIFESPAN (1h);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pulse (sensor INT) ID () LIFESPAN (1h);
CREATE COMPLEX EVENT CLASS Twice (sensor INT) ID () LIFESPAN (1h) AS MATCH prior(Pulse(sensor), Pulse(sensor));
"""


def reading(second: float, sensor: int, heat: Any, **more: Any) -> str:
    return json.dumps(
        {"event": "Reading", "occ_time": second, "det_time": second, "sensor": sensor, "heat": heat, **more}
    )


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of all kinds, with equal times in different files, and bad rows in each."""
    folder = tmp_path_factory.mktemp("mixed [1] files")
    pulse = '{"event": "Pulse", "occ_time": 7, "sensor": 1}'
    (folder / "a.jsonl").write_bytes(
        b"\xef\xbb\xbf" + "\n".join([reading(5, 1, 60), "", "{", reading(7, 1, 61), pulse, pulse]).encode()
    )
    (folder / "b.csv").write_text(
        "event,det_time,sensor,heat,note\nReading,7,1,70,x\nReading,7,1\nReading,8,1,hot,y\n\nPulse,7,1,,\n"
    )
    with gzip.open(folder / "c.jsonl.gz", "wt") as stream:
        stream.write("\n".join([reading(7, 2, 80), reading(7, 2, 81), "nothing", reading(9, 2, 10**12)]))
    columns = {"det_time": [7, 7, 21, None], "sensor": [1, 2, 1, 4], "more": ["m", "n", "o", "p"]}
    parquet.write_table(pa.table(columns), folder / "Pulse.parquet", row_group_size=2)
    (folder / "e.json").write_text(f"[{reading(7, 3, 90)},\n 17, {reading(11, 3, 40, colour='red')}]")
    (folder / "f.tsv").write_text("event\tocc_time\tsensor\nPulse\t7\t2\n")
    (folder / "g.ndjson").write_text("")
    (folder / "h.jsonl").write_bytes(
        b'\xff{"event"\n{"event": "Nobody", "det_time": 8}\n' + reading(12, 9, 99).encode()
    )
    (folder / "read me").write_text("no data")
    return folder


def told(program: Path, events: Path | str, engine: str, folder: Path) -> tuple[int, str, str, list[Any]]:
    """What a run prints, what it says beside it, and what it rejected."""
    rejected = folder / f"{engine}.rejected"
    args = ["run", str(program), "--events", str(events), "--engine", engine, "--rejected", str(rejected)]
    done = CliRunner().invoke(app, args)
    rows = [json.loads(line) for line in rejected.read_text().splitlines()] if rejected.exists() else []
    return done.exit_code, done.stdout, done.stderr.replace(f"--engine {engine}", "--engine"), rows


@pytest.mark.parametrize(("text", "least"), [(BY_TICKS, 6), (AT_ONCE, 2)])
def test_a_folder_of_all_kinds_is_read_as_in_process(
    spark: SparkSession, mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, least: int
) -> None:
    (tmp_path / "p.bicepl").write_text(text)
    # Places are shown as people have written them, wherever a task has its folder.
    monkeypatch.chdir(mixed.parent)
    path = Path(mixed.name)
    wanted = told(tmp_path / "p.bicepl", path, "local", tmp_path)
    assert wanted[0] == 0
    assert len(wanted[1].splitlines()) >= least
    assert {row["place"].rsplit(":")[0] for row in wanted[3]} >= {
        str(path / name) for name in ("a.jsonl", "b.csv", "c.jsonl.gz", "Pulse.parquet", "e.json", "h.jsonl")
    }
    assert told(tmp_path / "p.bicepl", path, "spark", tmp_path) == wanted


def broken(name: str) -> bytes:
    if name.endswith(".gz"):
        packed = gzip.compress("\n".join(reading(n, n, n) for n in range(4000)).encode())
        return packed[: len(packed) // 2]
    return b"PAR1 nothing of the kind" if name.endswith(".parquet") else b"\xff,b\n1,2\n"


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.parquet", "x.csv"])
@pytest.mark.parametrize("text", [BY_TICKS, AT_ONCE])
def test_what_cannot_be_read_is_told_as_in_process(spark: SparkSession, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "p.bicepl").write_text(text)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.jsonl").write_text(reading(1, 1, 1))
    (tmp_path / "data" / name).write_bytes(broken(name))
    wanted = told(tmp_path / "p.bicepl", tmp_path / "data", "local", tmp_path)
    assert wanted[0] == 2
    assert "E510" in wanted[2]
    assert told(tmp_path / "p.bicepl", tmp_path / "data", "spark", tmp_path) == wanted


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_what_is_not_there_is_told_before_anything_starts(tmp_path: Path, engine: str) -> None:
    (tmp_path / "p.bicepl").write_text(BY_TICKS)
    code, _, beside, _ = told(tmp_path / "p.bicepl", tmp_path / "nowhere.jsonl", engine, tmp_path)
    assert code == 2
    assert f"there is no file `{tmp_path / 'nowhere.jsonl'}`" in beside


def test_standard_input_and_pipes_are_read_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "p.bicepl").write_text(AT_ONCE)
    text = "\n".join(f'{{"event": "Pulse", "occ_time": {n}, "sensor": 1}}' for n in range(3))
    args = ["run", str(tmp_path / "p.bicepl"), "--events", "-", "--engine", "spark"]
    done = CliRunner().invoke(app, args, input=text)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2)


# ---- portions ----------------------------------------------------------------------------------------------------


def rows_of(portions: list[Portion]) -> Iterator[tuple[str, int, object]]:
    """The rows of all portions with their numbers in the file, as a reader of stretches puts them together."""
    before: dict[str, int] = {}
    for portion in portions:
        for raw in portion.read():
            rows = raw.table.to_pylist() if isinstance(raw, RawTable) else raw.rows
            numbers = range(1, len(rows) + 1) if raw.numbers is None else raw.numbers
            for number, row in zip(numbers, rows, strict=True):
                shown = (row.reason, row.text) if isinstance(row, Broken) else dict(row)
                yield raw.source, number + before.get(raw.source, 0), shown
        if portion.part >= 0:
            before[portion.source] = before.get(portion.source, 0) + portion.lines()


def in_process(path: Path) -> list[tuple[str, int, object]]:
    found: list[tuple[str, int, object]] = []
    for raw in read_events(str(path)):
        rows = raw.table.to_pylist() if isinstance(raw, RawTable) else raw.rows
        numbers = range(1, len(rows) + 1) if raw.numbers is None else raw.numbers
        for number, row in zip(numbers, rows, strict=True):
            found.append((raw.source, number, (row.reason, row.text) if isinstance(row, Broken) else dict(row)))
    return found


def test_files_cut_anywhere_have_the_same_rows_with_the_same_numbers(mixed: Path) -> None:
    wanted = in_process(mixed)
    for portion_bytes in range(1, 120):
        assert list(rows_of(portions_of(str(mixed), portion_bytes))) == wanted


@pytest.mark.parametrize("seed", range(30))
def test_lines_of_any_shape_cut_anywhere(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    some = ["", " ", "{}", '{"a": 1}', "x" * 30, "\ufeff{}", '{"a": "é\\n"}', "\r"]
    text = "".join(
        chance.choice(some) + chance.choice(["\n", "\n", "\r\n", "\n\n"]) for _ in range(chance.randrange(12))
    )
    (tmp_path / "A.jsonl").write_bytes((text + chance.choice(["", "{}"])).encode())
    wanted = in_process(tmp_path / "A.jsonl")
    for portion_bytes in range(1, 40):
        assert list(rows_of(portions_of(str(tmp_path / "A.jsonl"), portion_bytes))) == wanted


def test_large_files_are_cut_and_what_cannot_be_cut_is_whole(mixed: Path) -> None:
    found = portions_of(str(mixed), 64)
    counts = {
        name: sum(Path(one.source).name == name for one in found)
        for name in ("a.jsonl", "b.csv", "c.jsonl.gz", "e.json")
    }
    assert counts["a.jsonl"] > 3
    assert {counts[name] for name in ("b.csv", "c.jsonl.gz", "e.json")} == {1}
    assert [(one.begin, one.end, one.rows_before) for one in found if one.source.endswith("Pulse.parquet")] == [
        (0, 1, 0),
        (1, 2, 2),
    ]


def test_a_run_over_stretches_is_the_same(spark: SparkSession, mixed: Path) -> None:
    program = compile(BY_TICKS)
    with by_ticks(spark, program, read_events(str(mixed)), buckets=3) as here:
        wanted = here.collect_ledger()
    with by_ticks(spark, program, portions=portions_of(str(mixed), 50), buckets=3) as there:
        found = there.collect_ledger()
    assert list(lines(program, found)) == list(lines(program, wanted))
    assert found.rejected == wanted.rejected
    assert found.versions["Reading"]["seq"] == wanted.versions["Reading"]["seq"]


def test_a_file_that_is_gone_when_its_task_comes_is_told(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(reading(1, 1, 1))
    (tmp_path / "b.jsonl").write_text(reading(2, 1, 1))
    portions = portions_of(str(tmp_path))
    (tmp_path / "b.jsonl").unlink()
    with by_ticks(spark, compile(BY_TICKS), portions=portions) as found, pytest.raises(Unreadable, match="no file"):
        found.collect_ledger()

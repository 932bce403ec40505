"""Programs over data frames, on Spark: the same lines, refusals and counts as in process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import augury
from augury.algebra.program import Program
from augury.api import compile
from augury.cli import app
from augury.engine.lines import lines
from augury.history.raw import Raw
from augury.kernels.match import TooManyTuples
from augury.local.engine import detect as detect_in_process
from augury.local.kernel import match_kernel
from augury.local.portions import portions_of
from augury.local.sources import read_events, tables_of
from augury.spark import session as sessions
from augury.spark.detect import Detected, detect
from augury.spark.run import collect, run
from augury.spark.session import NoSpark, require_java
from augury.spark.stage import NotOnSpark
from tests.spark.programs import CLASSES, PROGRAMS, events, program

SECOND = 1_000_000


Shown = tuple[list[str], Any, int, int, list[tuple[int, int]]]


def shown(found: Any, of: Program) -> Shown:
    """All that a run says, of either engine."""
    texts = list(lines(found.versions, found.occurrences, of.settings.chronon_us))
    counted = [(occurrences.errors, occurrences.dropped) for occurrences in found.occurrences]
    return texts, found.rejected, found.absorbed, len(found.versions), counted


def in_process(of: Program, raw: Iterable[Raw], until_us: int | None = None) -> Shown:
    return shown(detect_in_process(of, raw, match_kernel, until_us=until_us), of)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_data_frame_gives_what_the_same_table_gives_in_process(spark: SparkSession, name: str) -> None:
    of, table = program(name), pa.Table.from_pylist(events(seed=11, count=400))
    with detect(of, spark.createDataFrame(table), partitions=3) as found:
        assert shown(collect(found), of) == in_process(of, tables_of(table))


def test_errors_are_counted_and_in_no_data_frame_of_events(spark: SparkSession) -> None:
    """Keyed classes in several tasks, classes in one, and one that reads the events of another."""
    of, table = program("failing"), pa.Table.from_pylist(events(seed=13, count=300))
    here = detect_in_process(of, tables_of(table), match_kernel)
    wanted = {found.event_class.name: found.errors for found in here.occurrences}
    assert all(count > 1 for name, count in wanted.items() if name != "Sound")
    with detect(of, spark.createDataFrame(table), partitions=4) as found:
        assert {row.event: row.errors for row in found.errors.collect()} == wanted
        assert {row.event: row.dropped for row in found.dropped.collect()} == dict.fromkeys(wanted, 0)
        for occurrences in here.occurrences:
            rows = found.of(occurrences.event_class.name).collect()
            assert sorted(row.seq for row in rows) == occurrences.seq.tolist()
            assert all(row.constituents for row in rows)
        assert found.events.count() == sum(len(occurrences) for occurrences in here.occurrences)


def test_the_command_line_says_the_same_of_errors(spark: SparkSession, tmp_path: Path) -> None:
    path, text = tmp_path / "events.jsonl", tmp_path / "failing.bicepl"
    path.write_text("\n".join(json.dumps(row, default=str) for row in events(seed=14, count=200)), "utf-8")
    text.write_text(CLASSES + PROGRAMS["failing"], "utf-8")
    runs = [
        CliRunner().invoke(app, ["run", str(text), "--events", str(path), "--engine", engine])
        for engine in ("local", "spark")
    ]
    assert [done.exit_code for done in runs] == [0, 0]
    here, there = ([line for line in done.stderr.splitlines() if "taken for NULL" in line] for done in runs)
    assert here == there
    assert [line.split(":")[0] for line in there] == ["`Share`", "`Rate`", "`Moved`", "`Later`"]


def test_the_library_takes_frames_of_spark_and_of_others(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS C (X INT) ID () AS MATCH prior(A(X), A(X));\n"
    )
    table = pa.table({"event": ["A"] * 4, "x": [1, 2, 1, 2], "det_time": [1, 2, 3, 4]})
    here = augury.detect(of, table)
    with augury.detect(of, spark.createDataFrame(table)) as there:
        rows = sorted((row.seq, row.X, row.constituents) for row in there.of("C").collect())
    assert rows == [(o.seq, o.values["X"], list(o.constituents)) for o in here] == [(3, 1, [1, 3]), (4, 2, [2, 4])]


def test_a_data_frame_for_each_class_needs_no_common_columns(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (x STRING, y DOUBLE) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS C (y DOUBLE) ID () AS MATCH sequence(A(7), B('7', y));\n"
    )
    tables = {
        "A": pa.table({"x": [7, 7, None], "det_time": [1, 3, 5]}),
        "b": pa.table({"x": ["7", "8"], "y": [0.5, 1.5], "occ_time": ["1970-01-01T00:00:03Z", "never"]}),
    }
    frames = {name: spark.createDataFrame(table).repartition(1) for name, table in tables.items()}
    wanted = in_process(of, tables_of(tables))
    assert len(wanted[0]) == len(wanted[1]) == 1
    with detect(of, frames) as found:
        assert shown(collect(found), of) == wanted
    with pytest.raises(ValueError, match="at least one class"):
        detect(of, {})


def test_the_result_is_data_frames(spark: SparkSession) -> None:
    of = program("keyed")
    table = pa.table(
        {
            "event": ["Order", "Ordr", "Perform", "Price"],
            "det_time": [1, 2, 2.5, 3],
            "I": [7, 7, 7, None],
            "Q": [2, None, None, None],
            "A": [None, None, 3, None],
            "sym": [None, None, None, "a"],
        }
    )
    with detect(of, spark.createDataFrame(table)) as found:
        (complete,) = found.of("complete").collect()
        assert complete.asDict() == {
            "event": "Complete",
            "change": "announce",
            "seq": 2,
            # PySpark gives times in the zone of this process.
            "occ_time": datetime.fromtimestamp(2.5, UTC).astimezone().replace(tzinfo=None),
            "det_time": datetime.fromtimestamp(2.5, UTC).astimezone().replace(tzinfo=None),
            "constituents": [1, 2],
            "I": 7,
            "asked": 2,
        }
        every = found.events.orderBy("event").collect()
        assert [(row.event, row.seq) for row in every] == [("Complete", 2), ("Next", 2), ("Soon", 2)]
        assert every[0]["values"].Complete.asked == 2
        assert every[0]["values"].Soon is None
        assert [(row.place, row.event) for row in found.rejected.collect()] == [("events:2", "Ordr")]
        versions = found.versions.orderBy("seq").collect()
        assert [(row.event, row.seq) for row in versions] == [("Order", 1), ("Perform", 2), ("Price", 3)]
        assert versions[0]["values"].Order.Q == 2
        assert versions[0]["values"].Price is None
        with pytest.raises(KeyError, match="there are Complete, Next, Soon"):
            found.of("Order")


def test_what_a_timer_completed_has_no_seq(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS Due (X INT) ID () AS COMPOSITE A(X) + 2s CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Later (X INT) ID () AS MATCH prior(Due(X), A);\n"
    )
    table = pa.table({"event": ["A"] * 3, "x": [1, 2, 3], "det_time": [1, 1, 4]})
    with detect(of, spark.createDataFrame(table)) as found:
        due = found.of("Due").orderBy("X").collect()
        assert [(row.seq, row.X, row.constituents) for row in due] == [(None, 1, [1]), (None, 2, [2])]
        assert [(row.seq, row.X, row.constituents) for row in found.of("Later").collect()] == [(3, 2, [2, 3])]
        assert {row.seq for row in found.events.collect()} == {None, 3}


def test_a_program_without_complex_classes_finds_nothing(spark: SparkSession) -> None:
    of = compile(CLASSES)
    with detect(of, spark.createDataFrame(pa.table({"event": ["Noise"], "det_time": [1]}))) as found:
        assert found.events.collect() == []
        assert found.errors.collect() == []
        assert found.versions.count() == 1
        assert collect(found).occurrences == ()


@pytest.mark.parametrize("name", ["built", "little"])
def test_a_run_gives_what_the_run_in_process_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "events.jsonl"
    texts = [json.dumps(row, default=str) for row in events(seed=12, count=300)]
    texts[5:5] = ["{", '{"event": "Order", "I": "seven", "det_time": 1767225600.0}', "[]"]
    path.write_text("\n".join(texts), "utf-8")
    of = program(name)
    wanted = in_process(of, read_events(str(path)))
    assert len(wanted[1]) > 3
    assert shown(run(of, read_events(str(path)), partitions=2), of) == wanted
    until_us = 1767225600 * SECOND + 40 * SECOND
    until = in_process(of, read_events(str(path)), until_us)
    assert 0 < len(until[0]) < len(wanted[0])
    files = portions_of(str(path), None)
    assert shown(run(of, portions=files, until_us=until_us), of) == until


def test_a_run_over_no_events_finds_nothing(spark: SparkSession) -> None:
    found = run(program("over"), [])
    assert (len(found.versions), found.absorbed, len(found.rejected)) == (0, 0, 0)
    assert [len(occurrences) for occurrences in found.occurrences] == [0, 0, 0]


def _too_many(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        raise TooManyTuples
    yield from ()


def test_what_the_kernel_refuses_in_a_task_is_said_of_the_class(spark: SparkSession) -> None:
    of = program("over")
    with detect(of, spark.createDataFrame(pa.table({"event": ["Noise"], "det_time": [1]}))) as found:
        refusing = found.accepted.mapInArrow(_too_many, found.found["near"].schema)
        with pytest.raises(NotOnSpark, match=r"keeps at most 10,000 .* open at a time, and `Near` has more"):
            collect(Detected(of, spark, lambda: replace(found.work, found={**found.found, "near": refusing})))


def test_too_many_open_tuples_are_told_the_limit_and_what_to_do(spark: SparkSession) -> None:
    of = compile(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS Many () ID () AS MATCH relative+(A) COLLECT ALL;\n"
    )
    # Each event doubles them.
    table = pa.table({"event": ["A"] * 20, "det_time": list(range(20))})
    wanted = (
        "the Spark engine keeps at most 10,000 occurrence tuples of one history open at a time, and `Many` has more"
    )
    clauses = ("WITHIN", "PARTITION BY", "COLLECT RECENT")
    with detect(of, spark.createDataFrame(table)) as found:
        with pytest.raises(PythonException) as in_a_task:
            found.of("Many").collect()
        with pytest.raises(NotOnSpark) as collected:
            collect(found)
    assert all(text in str(in_a_task.value) for text in (wanted, *clauses))
    (diagnostic,) = collected.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("E313", wanted)
    assert all(clause in help_ for clause, help_ in zip(clauses, diagnostic.helps, strict=True))


# ---- sessions ------------------------------------------------------------------------------------------------------


def test_a_session_that_is_there_is_taken(spark: SparkSession) -> None:
    assert sessions.session("local[7]") is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_where_there_is_no_java_it_says_what_to_get(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoSpark, match="needs Java, and there is none") as caught:
        require_java()
    assert "install Java 17" in caught.value.help
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n", "utf-8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSpark, match="does not start"):
        require_java()
    java.chmod(0o755)
    with pytest.raises(NoSpark, match=r"Java 17 or later, and `.*` is Java 8"):
        require_java()

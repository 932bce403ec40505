"""Every example through the real thing: a batch over several partitions, and a query that is stopped half way."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import augury
from augury.cli import app
from augury.engine.ledger import lines
from augury.history.coming import received
from augury.history.raw import RawTable
from augury.lake import Lake
from augury.spark.committed import CommittedFrames, ledger_in
from augury.spark.replaying import replay, watching, write_pieces
from augury.spark.sinks import to_parquet
from augury.spark.stepping import slots_on_spark
from augury.spark.ticking import detect_by_ticks
from tests.spark.packed import SOURCE, Case
from tests.spark.test_equality import Outcome, examples, locally, outcome

CASES = {case.name: case for case in examples()}
CUTS = (3, 4, 9)
each = pytest.mark.parametrize("name", CASES)


def of_lines(found: Outcome) -> Outcome:
    """Without what depends on how a row is told where it stands."""
    return replace(found, rejected=[])


@each
def test_an_example_over_lines_in_several_partitions(spark: SparkSession, name: str) -> None:
    case = CASES[name]
    rows = [(line, SOURCE, number) for number, line in enumerate(case.lines, 1)]
    frame = spark.createDataFrame(rows[::-1], "line string, source string, position bigint").repartition(3)
    with detect_by_ticks(case.program, frame, partitions=3) as detected:
        assert outcome(case.program, detected.collect_ledger()) == locally(case)


@each
def test_an_example_over_columns_in_several_partitions(spark: SparkSession, name: str, tmp_path: Path) -> None:
    case = CASES[name]
    (tmp_path / "events.jsonl").write_text("\n".join(case.lines), "utf-8")
    half = len(case.lines) // 2
    frame = spark.createDataFrame(spark.read.json(str(tmp_path / "events.jsonl")).toArrow())
    parted = frame.limit(half).unionAll(frame.offset(half))
    table = parted.toArrow()
    with detect_by_ticks(case.program, parted, partitions=2) as detected:
        found = outcome(case.program, detected.collect_ledger())
    assert found == locally(_over_columns(case, table))


class _OverColumns(Case):
    """A case whose events are columns."""

    table: pa.Table

    @property
    def raw(self) -> RawTable:  # type: ignore[override]
        return RawTable("events", self.table)


def _over_columns(case: Case, table: pa.Table) -> Case:
    found = _OverColumns(f"{case.name} as columns", case.program, case.lines, case.until_us)
    object.__setattr__(found, "table", table)
    return found


@each
def test_an_example_as_a_stream_that_is_taken_up_again(spark: SparkSession, name: str, tmp_path: Path) -> None:
    case, written, source = CASES[name], tmp_path / "written", tmp_path / "source"
    written.mkdir()
    source.mkdir()
    count = write_pieces(written, slots_on_spark(case.program, 2), [case.raw], None, CUTS)
    assert count == len(CUTS) + 1
    files = sorted(written.iterdir())
    store = str(tmp_path / "lake")
    for file in files[:2]:
        file.rename(source / file.name)
    with watching(spark, case.program, source, store, 2) as first:
        first.query.processAllAvailable()
    for file in files[2:]:
        file.rename(source / file.name)
    with watching(spark, case.program, source, store, 2) as second:
        second.finish()
    lake = Lake.open(store)
    assert outcome(case.program, ledger_in(case.program, lake, list(lake.manifests()))) == locally(case)


def test_a_replay_cut_anywhere_is_the_same_and_so_is_a_batch_over_what_it_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    case, store = CASES["groceries"], str(tmp_path / "lake")
    ledger = replay(spark, case.program, [case.raw], cuts=(1, 2, len(case.lines) - 1), buckets=3, store=store)
    assert outcome(case.program, ledger) == locally(case)
    told = locally(case).lines
    augury.history(store).createViews(spark, prefix="kept_")
    classes = received(case.program)
    histories = [
        spark.table(f"kept_{one.name}").selectExpr(
            f"'{one.name}' AS event",
            *("occ_time", "det_time", "'kept' AS _source", "seq AS _position"),
            *(attribute.name for attribute in one.attributes),
        )
        for one in classes
    ]
    every = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), histories)
    with detect_by_ticks(case.program, every.repartition(3), partitions=2) as detected:
        again = detected.collect_ledger()
    assert list(lines(case.program, again)) == told
    assert [again.versions[one.name]["seq"] for one in classes] == [ledger.versions[one.name]["seq"] for one in classes]
    # And what a sink has that is told of a commit.
    lake, sink = Lake.open(store), to_parquet(str(tmp_path / "results"))
    *_, last = (one for one in lake.manifests() if {"history", "actions"} <= {entry.kind for entry in one.added})
    sink(CommittedFrames(spark, case.program, lake, last))
    carried = [spark.read.parquet(f"{tmp_path}/results/{kind}").select("line") for kind in ("events", "actions")]
    assert all(frame.count() for frame in carried)
    of_last = list(lines(case.program, ledger_in(case.program, lake, [last])))
    assert sorted(row.line for frame in carried for row in frame.collect()) == sorted(of_last)


def test_a_replay_does_not_mix_with_what_a_folder_has(spark: SparkSession, tmp_path: Path) -> None:
    """The command line says so, and the folder stays as it is; so does a class that a lake does not have."""
    store = str(tmp_path / "lake")
    asked = ["--events", "examples/groceries/events.jsonl", "--engine", "spark-stream", "--store", store]
    command = ["run", "examples/groceries/groceries.bicepl", *asked]
    assert CliRunner().invoke(app, command).exit_code == 0
    commits = Lake.open(store).last_commit()
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "E530" in again.stderr
    assert "has ticks already: a replay begins with an empty folder" in again.stderr
    assert Lake.open(store).last_commit() == commits
    unknown = CliRunner().invoke(app, ["history", "Deliveri", "--store", store])
    assert (unknown.exit_code, "did you mean `Delivery`?" in unknown.stderr) == (1, True)

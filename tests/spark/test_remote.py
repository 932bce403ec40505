"""Streams whose lake is in a bucket or in HDFS: kept, killed and gone on with, asked and tidied up.

Drivers are processes with JVMs of their own, which have Hadoop's S3A for Spark's checkpoint; all else goes by pyarrow
and conditional PUTs. HDFS Spark knows itself; tasks go over HTTP. How files are created the path says.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import augury
from augury.lake import Lake, compaction, vacuum
from augury.lake.systems import storage_of
from augury.spark.replaying import watching
from augury.spark.shipped import NotShipped
from tests.lake import hdfs_server
from tests.lake.s3_server import REGION, S3, serving
from tests.spark import driver
from tests.spark.broker import jars
from tests.spark.test_recovery import assert_same, left

ROOT = Path(__file__).parents[2]
EVENTS, EACH = 72, 12


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with serving(tmp_path_factory.mktemp("s3")) as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.variables.items():
            patch.setenv(name, value)
        yield found


def variables(s3: S3) -> dict[str, str]:
    """What a process is told by its environment: where the bucket is, the jars of S3A, and that there are few rows."""
    settings = {
        "endpoint": s3.url,
        "endpoint.region": REGION,
        "path.style.access": "true",
        "connection.ssl.enabled": "false",
    }
    words = ["--jars", ",".join(jars(str(Path(__file__).with_name("s3a.xml"))))]
    for name, value in settings.items():
        words += ["--conf", f"spark.hadoop.fs.s3a.{name}={value}"]
    for name, value in driver.QUICK.items():
        words += ["--conf", f"{name}={value}"]
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"])}


def started(pieces: Path, store: str, log: Path, told: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.driver", str(pieces), store, "local[1]"]
    with log.open("ab") as out:
        return subprocess.Popen(command, cwd=ROOT, env=told, stdout=out, stderr=out, start_new_session=True)


def killed(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def until_committed(store: str, count: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while True:
        assert process.poll() is None, log.read_text("utf-8", "replace")[-3000:]
        assert time.monotonic() < deadline, log.read_text("utf-8", "replace")[-3000:]
        try:
            if Lake.open(store).last_commit() >= count:
                return
        except augury.lake.NoLake:
            pass
        time.sleep(0.05)


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("remote") / "pieces"
    assert driver.written(folder, EVENTS, EACH) > 4
    return folder


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, pieces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a stream into a folder of this machine leaves."""
    store = tmp_path_factory.mktemp("undisturbed") / "lake"
    with watching(spark, driver.program(), pieces, str(store), driver.BUCKETS) as query:
        query.finish()
    found = left(store)
    assert len(found["lines"]) > 20
    return found


def test_a_stream_that_is_killed_goes_on_and_its_lake_is_tidied_up(
    undisturbed: dict[str, Any], s3: S3, pieces: Path, tmp_path: Path
) -> None:
    store = f"s3a://{s3.bucket}/killed"
    killed_and_gone_on_with(pieces, store, tmp_path / "log", variables(s3))
    assert_same(remembered(store), undisturbed)
    assert_upkeep_changes_nothing(store)


def test_a_stream_keeps_its_lake_in_hdfs(
    spark: SparkSession, undisturbed: dict[str, Any], pieces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hdfs_server.serving(tmp_path) as (own, web):
        store, log = f"hdfs://{own}/lakes/one", tmp_path / "log"
        monkeypatch.setenv("AUGURY_WEBHDFS", f"http://{web}")
        killed_and_gone_on_with(pieces, store, log, dict(os.environ))
        with pytest.raises(NotShipped, match="Spark has no file system that works for `webhdfs://…`") as refused:
            watching(spark, driver.program(), pieces, f"webhdfs://{web}/lakes/two", driver.BUCKETS)
        assert "AUGURY_WEBHDFS=http://" in refused.value.help
        assert_same(remembered(store), undisturbed)
        assert_upkeep_changes_nothing(store)


def killed_and_gone_on_with(pieces: Path, store: str, log: Path, told: dict[str, str]) -> None:
    first = started(pieces, store, log, told)
    try:
        until_committed(store, 2, first, log)
    finally:
        killed(first)
    commits = Lake.open(store).last_commit()
    second = started(pieces, store, log, told)
    try:
        assert second.wait(300) == 0, log.read_text("utf-8", "replace")[-3000:]
    finally:
        if second.poll() is None:
            killed(second)
    assert commits < Lake.open(store).last_commit()


def remembered(store: str) -> dict[str, Any]:
    return left(store)  # type: ignore[arg-type]  # a path is as good as a folder


def assert_upkeep_changes_nothing(store: str) -> None:
    lake = Lake.open(store)
    tables = {one.name: augury.history(store).table(one.name) for one in augury.history(store).classes}
    assert tables["Delivery"].num_rows > 3
    writer = lake.writer()
    done = compaction(lake.files, writer.snapshot(), fan_in=2)
    assert done.removed
    writer.commit(writer.manifest(added=done.added, removed=done.removed))
    assert set(vacuum(lake, 0, commits_kept=1, now_seconds=4e9).paths) >= set(done.removed)
    for name, table in tables.items():
        assert augury.history(store).table(name) == table, name


def test_spark_without_such_a_file_system_is_told_what_to_add(spark: SparkSession, s3: S3, pieces: Path) -> None:
    store = f"s3a://{s3.bucket}/refused"
    with pytest.raises(NotShipped, match="Spark has no file system that works for `s3a://…`") as refused:
        watching(spark, driver.program(), pieces, store, driver.BUCKETS)
    assert "--packages org.apache.hadoop:hadoop-aws:3." in refused.value.help
    assert list(storage_of(store).walk()) == []


def test_the_command_line_keeps_a_stream_in_a_bucket(s3: S3, tmp_path: Path) -> None:
    store, groceries = f"s3a://{s3.bucket}/fridge", ROOT / "examples" / "groceries"
    command = [sys.executable, "-m", "augury", "run", str(groceries / "groceries.bicepl")]
    command += ["--events", str(groceries / "events.jsonl"), "--engine", "spark-stream", "--store", store]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables(s3), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == (groceries / "expected.ndjson").read_text("utf-8")
    history = augury.history(store)
    assert history.table("Delivery").num_rows > 3
    assert history.actions().num_rows > 3
    kept = {one.path.partition("/")[0] for one in Lake.open(store).storage.walk()}
    assert kept >= {"augury.json", "manifests", "epochs", "programs", "history", "state", "checkpoint"}

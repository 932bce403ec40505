"""On clusters: `local-cluster`, and `spark-submit` to a master with two workers that the tests start, all on loopback.

Executors are processes of their own, so a global that only the driver has shows here; a path does not,
for they share a disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from augury.local.sources import tables_of
from tests.spark import driver
from tests.spark.cluster import ROOT, found_by
from tests.spark.programs import events, program
from tests.spark.test_detect import in_process


def test_on_a_local_cluster_of_two_workers(spark: SparkSession, tmp_path: Path, groceries: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "tests.spark.on_local_cluster", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    found = json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert found["python"] == [sys.executable]
    assert found["batch"] == groceries
    assert found["orders"] == driver.orders(spark, ROOT / "examples", tmp_path)
    assert len(found["orders"]) > 5
    texts, *_, counted = in_process(program("little"), tables_of(pa.Table.from_pylist(events(11, 100))))
    errors = [errors for errors, _ in counted]
    assert all(errors[:2])
    assert found["by key"] == {"lines": texts, "errors": list(map(str, errors))}
    assert found["in ranges"] is True


def test_submitted_to_a_cluster_of_two_workers(folder: Path, master: str, groceries: list[str]) -> None:
    command = ["driver.py", "cluster", str(folder / "examples"), str(folder / "shared"), "stream", "batch"]
    found = found_by(folder, master, command)
    assert found["python"] == [sys.executable]
    assert found["stream"] == found["batch"] == groceries

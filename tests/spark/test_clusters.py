"""On clusters: `local-cluster`, and `spark-submit` to a master with two workers that the tests start, all on loopback.

Executors are processes of their own, so a global that only the driver has shows here; a path does not,
for they share a disk.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark import driver
from tests.spark.cluster import ROOT, found_by


def submitted(folder: Path, master: str, parts: Sequence[str]) -> dict[str, Any]:
    """What the driver found."""
    return found_by(folder, master, ["driver.py", "cluster", str(folder / "examples"), str(folder / "shared"), *parts])


def test_on_a_local_cluster_of_two_workers(
    spark: SparkSession, folder: Path, tmp_path: Path, groceries: list[str]
) -> None:
    found = submitted(folder, "local-cluster[2,1,1024]", ["batch", "orders"])
    assert found["python"] == [sys.executable]
    assert found["batch"] == groceries
    assert found["orders"] == driver.orders(spark, ROOT / "examples", tmp_path)
    assert len(found["orders"]) > 5


def test_submitted_to_a_cluster_of_two_workers(folder: Path, master: str, groceries: list[str]) -> None:
    found = submitted(folder, master, ["stream", "batch"])
    assert found["python"] == [sys.executable]
    assert found["stream"] == found["batch"] == groceries

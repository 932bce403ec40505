"""Examples that Spark runs as well: both engines print what stands beside them, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from augury.cli import app

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("name", "summary"),
    [
        ("discount", "23 versions, 0 duplicates absorbed, 0 events rejected"),
        ("orders", "25 versions, 1 duplicate absorbed, 3 events rejected"),
    ],
)
def test_an_example_prints_what_is_expected(spark: SparkSession, engine: str, name: str, summary: str) -> None:
    folder = EXAMPLES / name
    arguments = ["run", str(folder / f"{name}.bicepl"), "--events", str(folder / "events.jsonl"), "--engine", engine]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    assert done.stdout == (folder / "expected.ndjson").read_text("utf-8")
    assert done.stderr.splitlines()[0] == summary

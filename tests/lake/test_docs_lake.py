"""docs/lake.md is run: its Python prints what stands below it, on the lake that the page itself makes; Spark too."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from augury.spark.session import session
from tests.test_docs import Block, read_page

PAGE = Path(__file__).parents[2] / "docs" / "lake.md"
ON_SPARK = "# in a Spark session\n"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    there = SparkSession.getActiveSession()
    found = session("local[2]")
    yield found
    if there is None:
        found.stop()


def printed(block: Block, names: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block.text, f"{PAGE.name}:{block.line}", "exec"), names)
    return output.getvalue()


def test_the_page_prints_what_it_shows(tmp_path: Path, spark: Any) -> None:
    blocks = read_page(PAGE, PAGE.read_text("utf-8")).blocks
    compared = on_spark = 0
    with contextlib.chdir(tmp_path):
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            if (name := block.option("file")) is not None:
                Path(name).write_text(block.text, "utf-8")
            if block.tag == "python" or block.text.startswith(ON_SPARK):
                assert after is not None
                assert after.tag == "text", f"line {block.line} does not show what it prints"
                is_spark = block.text.startswith(ON_SPARK)
                found = printed(block, {"spark": spark} if is_spark else {})
                assert found.strip() == after.text.strip(), f"line {block.line}"
                compared += 1
                on_spark += is_spark
    assert (compared, on_spark) == (9, 1)

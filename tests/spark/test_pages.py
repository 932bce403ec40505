"""The examples of docs/ that need Spark: blocks with the tag `python spark`, each page in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.test_docs import PAGES, Page

WITH_SPARK = [
    page for page in PAGES if any(block.tag == "python" and "spark" in block.options for block in page.blocks)
]


@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: str(page.path))
def test_the_examples_of_a_page_run(
    page: Page, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    names: dict[str, object] = {"spark": spark, "folder": tmp_path}
    for block in page.blocks:
        if block.tag == "python" and "spark" in block.options:
            exec(compile(block.text, f"{page.path}:{block.line}", "exec"), names)


def test_there_are_such_pages() -> None:
    assert {page.path.name for page in WITH_SPARK} >= {"spark.md", "tutorial.md"}

"""One Spark session for each process that runs tests: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from augury.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    found = session("local[2]")
    yield found
    found.stop()

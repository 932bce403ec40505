"""One Spark session for each process that runs tests: starting one takes longer than most tests.

Where several processes run the tests of this folder, what takes long begins first, so that none of them is idle at the
end, and files whose tests share something dear (a broker, a cluster, a run that was never disturbed) stay in one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from augury.cli_warm import keep_classes
from augury.spark.session import session
from tests.spark import cluster, driver

TOGETHER = (
    "test_kafka.py",
    "test_recovery.py",
    "test_live.py",
    "test_sinks.py",
    "test_select.py",
    "test_remote.py",
    "test_shipped.py",
)
"""Files with fixtures that are dear: what is shared would be made in each process."""

ON_A_CLUSTER = (
    "test_submitted_to_a_cluster_of_two_workers",
    "test_submitted_with_py_files",
    "test_a_packed_environment",
)
"""Tests that share the master and the workers of one cluster; others of their files need neither."""

LONG_FIRST = (
    "test_recovery.py",
    "test_clusters.py",
    "test_equality.py",
    "test_kafka.py",
    "test_remote.py",
    "test_disorder.py",
    "test_shipped.py",
    "test_live.py",
    "test_changed.py",
    "test_watched.py",
    "test_detect.py",
    "test_accepting.py",
)
"""How the names of tests begin that take long, longest first; only the order in which they begin depends on it."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Plans are many and rows are few here.
    found = session("local[2]", extra=driver.QUICK)
    yield found
    found.stop()


@pytest.fixture(scope="session")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster of two workers, which have their folders in one with spaces in its name."""
    with cluster.of_two_workers(tmp_path_factory.mktemp("a cluster")) as url:
        yield url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with spaces in its name for what is submitted: the driver, the examples, and one that all share."""
    found = tmp_path / "a folder with spaces"
    (found / "shared").mkdir(parents=True)
    shutil.copytree(cluster.ROOT / "examples", found / "examples")
    shutil.copy(driver.__file__, found / "driver.py")
    return found


@pytest.fixture(scope="session")
def groceries() -> list[str]:
    """The lines that this example prints."""
    return (cluster.ROOT / "examples" / "groceries" / "expected.ndjson").read_text("utf-8").splitlines()


class LongFirst(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Gives a process what takes longest of what is left: whole files of some, and single tests of the others."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        if file.endswith("test_equality.py"):
            # What the engine in process does is worked out once for the batch and the stream of a group.
            return f"{file}::{name.partition('[')[2]}"
        if name in ON_A_CLUSTER:
            return "on a cluster"
        return file if file.endswith(TOGETHER) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongFirst:
    # Otherwise it would begin with the files that have most tests.
    config.option.loadscopereorder = False
    return LongFirst(config, log)


def pytest_xdist_setupnodes() -> None:
    # Before the processes start that run the tests: these start many JVMs, and from here on in half the time.
    keep_classes()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The sort is stable: the rest goes as it was written.
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    name = nodeid.removeprefix("tests/spark/")
    return next((rank for rank, begin in enumerate(LONG_FIRST) if name.startswith(begin)), len(LONG_FIRST))

"""On clusters: `local-cluster`, and `spark-submit` to a master with two workers that the test starts, all on loopback.

The driver is a script in a folder with spaces in its name, which makes a session of its own; Python is that of an
environment that is not activated, named by PYSPARK_PYTHON as the docs say. Executors are processes of their own, so a
path or a global that only the driver has shows here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark import driver

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
NOTHING: Mapping[str, str] = {}
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss16m"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.sql.session.timeZone": "UTC",
    **driver.QUICK,
}


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with spaces in its name: the driver, the examples, and one that all machines share."""
    found = tmp_path / "a folder with spaces"
    (found / "shared").mkdir(parents=True)
    (found / "logging").mkdir()
    shutil.copytree(ROOT / "examples", found / "examples")
    shutil.copy(driver.__file__, found / "driver.py")
    shutil.copy(ROOT / "src" / "augury" / "spark" / "log4j2.properties", found / "logging")
    return found


def environment(folder: Path) -> dict[str, str]:
    """Nothing of an activated environment; PYSPARK_PYTHON says which Python, as the docs do."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "JAVA_HOME", "LANG")}
    return kept | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_CONF_DIR": str(folder / "logging"),
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_WORKER_DIR": str(folder / "work"),
    }


def submitted(folder: Path, master: str, parts: Sequence[str]) -> dict[str, Any]:
    """What the driver found."""
    return found_by(folder, master, ["driver.py", "cluster", str(folder / "examples"), str(folder / "shared"), *parts])


def found_by(
    folder: Path, master: str, script: Sequence[str], *, options: Sequence[str] = (), said: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """What a script that is submitted wrote to the shared folder; `said` are variables of its environment."""
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, *settings, *options]
    command += ["--driver-java-options", QUICK, *script]
    variables = environment(folder) | dict(said)
    with (folder / "log").open("wb") as log:
        run = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True)
        try:
            code = run.wait(400)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
    assert code == 0, (folder / "log").read_text("utf-8", "replace")[-4000:]
    found: dict[str, Any] = json.loads((folder / "shared" / "found.json").read_text("utf-8"))
    return found


def groceries() -> list[str]:
    return (ROOT / "examples" / "groceries" / "expected.ndjson").read_text("utf-8").splitlines()


def test_on_a_local_cluster_of_two_workers(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    found = submitted(folder, "local-cluster[2,1,1024]", ["batch", "orders"])
    assert found["python"] == [sys.executable]
    assert found["batch"] == groceries()
    assert found["orders"] == driver.orders(spark, ROOT / "examples", tmp_path)
    assert len(found["orders"]) > 5


# ---- a master and two workers ----------------------------------------------------------------------------------------


@pytest.fixture
def master(folder: Path) -> Iterator[str]:
    """The URL of a cluster of two workers."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    url = f"spark://{LOOPBACK}:{port}"
    at = ["--host", LOOPBACK]
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon(folder, "master.Master", *at, "--port", str(port), "--webui-port", "0"))
        until_listening(port)
        for _ in range(2):
            stack.enter_context(
                daemon(folder, "worker.Worker", *at, "--webui-port", "0", "--cores", "1", "--memory", "1g", url)
            )
        yield url


@contextlib.contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(folder), stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def until_listening(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((LOOPBACK, port), 1):
            return
        assert time.monotonic() < deadline, "no master"
        time.sleep(0.1)


def test_submitted_to_a_cluster_of_two_workers(folder: Path, master: str) -> None:
    found = submitted(folder, master, ["stream"])
    assert found["python"] == [sys.executable]
    assert found["stream"] == groceries()

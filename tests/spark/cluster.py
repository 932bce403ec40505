"""A cluster of Spark for tests: a master with two workers, all on loopback, and scripts that are submitted.

The driver is a script in a folder with spaces in its name, which makes a session of its own; Python is that of an
environment that is not activated, named by PYSPARK_PYTHON as the docs say.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from augury.spark import warm
from augury.spark.session import require_java
from tests.spark import driver

ROOT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"
NOTHING: Mapping[str, str] = {}


@cache
def java_options() -> str:
    """Of every JVM. A folder for SPARK_CONF_DIR, on the class path, would keep Java from the classes that are kept."""
    logging = (ROOT / "src" / "augury" / "spark" / "log4j2.properties").as_uri()
    kept = warm.options(warm.archive_path(require_java()))
    return f'-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss16m "-Dlog4j2.configurationFile={logging}" {kept}'


def settings() -> dict[str, str]:
    """Of every application."""
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.executor.extraJavaOptions": java_options(),
        "spark.sql.session.timeZone": "UTC",
        **driver.QUICK,
    }


def spark_home() -> Path:
    """Where PySpark is."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """Nothing of an activated environment; PYSPARK_PYTHON says which Python, as the docs do."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "JAVA_HOME", "LANG")}
    return kept | {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
    }


def found_by(
    folder: Path, master: str, script: Sequence[str], *, options: Sequence[str] = (), said: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """What a script that is submitted wrote to the shared folder; `said` are variables of its environment."""
    words = [word for name, value in settings().items() for word in ("--conf", f"{name}={value}")]
    command = [str(spark_home() / "bin" / "spark-submit"), "--master", master, *words, *options]
    command += ["--driver-java-options", java_options(), *script]
    variables = environment() | dict(said)
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


@contextlib.contextmanager
def of_two_workers(folder: Path) -> Iterator[str]:
    """The URL of a cluster."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        port = free.getsockname()[1]
    url = f"spark://{LOOPBACK}:{port}"
    at = ["--host", LOOPBACK, "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(_daemon(folder, "master.Master", *at, "--port", str(port)))
        _until_listening(port)
        for number in range(2):
            own = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"worker {number}")]
            stack.enter_context(_daemon(folder, "worker.Worker", *at, *own, url))
        yield url


@contextlib.contextmanager
def _daemon(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    command = [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with (folder / "daemons.log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _until_listening(port: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((LOOPBACK, port), 1):
            return
        assert time.monotonic() < deadline, "no master"
        time.sleep(0.1)

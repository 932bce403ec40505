"""A Spark session for the command line, the demo and tests: quiet, in UTC, with this very Python in the workers.

In: a master, jars, settings. Out: the session that is there, or a new one; where there is no Java that Spark runs on,
`NoSpark` says what to get. A program that has a session of its own needs nothing of this.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from augury.spark.warm import archive_path, options

JAVA_MIN: Final = 17
"""The oldest Java that Spark 4 runs on."""

_ROWS_AT_ONCE: Final = 65_536
"""Rows of an Arrow batch on its way to Python and back: Spark's 10,000 are many small ones."""


class NoSpark(ImportError):
    """Spark cannot start here; the message says why, and `help` what to do. To a caller the engine is not there."""

    def __init__(self, message: str, help_: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.help = help_


def session(
    master: str | None = None,
    *,
    jars: Sequence[str] = (),
    extra: Mapping[str, str] | None = None,
    java_options: str | None = None,
    is_long: bool = False,
) -> SparkSession:
    """The active session, whatever its master, or a new one on the given master (`local[*]`).

    `jars` (a connector, a JDBC driver) are added to an active session, too; `extra` are settings of a new one only, and
    `java_options` further ones of its JVM, in place of those with which it starts sooner (`warm`). Of a local master
    that has long work to do (`is_long`) the JVM has both of its compilers.
    """
    absent = [jar for jar in jars if not Path(jar).is_file()]
    if absent:
        raise NoSpark(f"there is no jar `{absent[0]}`", "check the path, or fetch the jar first")
    active = SparkSession.getActiveSession()
    if active is not None:
        for jar in jars:
            active.sql(f"ADD JAR '{_as_added(Path(jar))}'")
        return active
    told = require_java()
    # A virtual environment that is not activated would otherwise have its workers run another Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    further = options(archive_path(told)) if java_options is None else java_options
    # Java reads it when it starts, and cannot where it is packed in a zip.
    with as_file(files("augury.spark") / "log4j2.properties") as logging:
        conf = _conf(master or "local[*]", logging, further, is_long)
        if jars:
            conf.set("spark.jars", ",".join(jars))
        conf.setAll(list((extra or {}).items()))
        if SparkContext._active_spark_context is None:
            _start(conf)
    return SparkSession.builder.config(conf=conf).getOrCreate()


def _as_added(jar: Path) -> Path:
    """A path at which Spark finds the jar that it is told to add: where one has a space, it looks for `%20`."""
    whole = jar.resolve()
    if whole.as_uri() == f"file://{whole}":
        return whole
    folder = Path(tempfile.mkdtemp(prefix="augury-jar-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / re.sub(r"[^A-Za-z0-9._-]", "_", jar.name)
    shutil.copy(jar, copy)  # of a link Spark takes the path behind it
    return copy


def require_java() -> str:
    """What Java tells of its version; raises `NoSpark` unless there is one that Spark runs on, where Spark looks."""
    help_ = f"install Java {JAVA_MIN} or later, or point JAVA_HOME to it"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        raise NoSpark("Spark needs Java, and there is none", help_)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        raise NoSpark(f"Spark needs Java, and `{java}` does not start", help_) from None
    # It begins with the options that it takes from the environment, and is the same Java with others.
    told = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("Picked up "))
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    if found is not None and int(found[1]) < JAVA_MIN:
        raise NoSpark(f"Spark needs Java {JAVA_MIN} or later, and `{java}` is Java {found[1]}", help_)
    return told


def _conf(master: str, logging: Path, java_options: str, is_long: bool) -> SparkConf:
    conf = SparkConf().setMaster(master).setAppName("augury")
    options = f'"-Dlog4j2.configurationFile={logging.as_uri()}" -Xss16m {java_options}'
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS_AT_ONCE),
    }
    if master.startswith("local"):
        if not is_long:
            options += " -XX:TieredStopAtLevel=1"  # a small replay is over before the second compiler pays
        # Nobody else is to reach it.
        loopback = "127.0.0.1"
        os.environ.setdefault("SPARK_LOCAL_IP", loopback)
        settings |= {"spark.driver.host": loopback, "spark.driver.bindAddress": loopback}
        settings |= {"spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1))}
    return conf.setAll([*settings.items(), ("spark.driver.extraJavaOptions", options)])


def _start(conf: SparkConf) -> None:
    try:
        SparkContext(conf=conf, gateway=_gateway(conf))
    except Py4JJavaError as error:
        told = str(error.java_exception.getMessage()).partition("\n")[0]
        message = f"Spark does not start on the master `{conf.get('spark.master')}`: {told}"
        raise NoSpark(message, "write local[2], spark://HOST:7077, yarn or another master that is there") from None


def _gateway(conf: SparkConf) -> object:
    """A JVM whose standard error is kept apart: it warns of modules before any setting can silence it."""
    with tempfile.TemporaryFile() as stderr:
        try:
            gateway: object = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            stderr.seek(0)
            lines = (line.strip() for line in stderr.read().decode("utf-8", "replace").splitlines())
            told = [line for line in lines if line and not line.startswith(("at ", "... "))]
            reason = told[-1] if told else str(error)
            raise NoSpark(f"Spark does not start: {reason}", "see whether `spark-submit --version` runs") from None
        return gateway

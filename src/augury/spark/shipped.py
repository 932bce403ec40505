"""Whether Spark has what it takes: workers what our tasks are made of, and the JVM the file system of a lake.

In: a session, and where a lake is to be. Out: nothing, or `NotShipped`, which names what is lacking and says how to
bring it there. Workers are asked by one small task before anything runs; those that run the driver's own Python on its
machine are not.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from augury.spark.session import NoSpark

_HAVE: Final[WeakSet[SparkSession]] = WeakSet()
"""Sessions whose workers were asked and have everything; one that lacks something is asked again."""

_WE: Final = "augury"
_LOCAL: Final = "local"
_MISSING: Final = re.compile(r"No module named '(\w+)")
_CANNOT_COMPILE: Final = "compiled code cannot be kept"
_OVER_HTTP: Final = "webhdfs"
_OF_AMAZON: Final = {"s3", "s3a", "s3n"}


class NotShipped(NoSpark):
    """Spark lacks something that we need there; `help` says what to do, and so does a traceback."""

    def __init__(self, message: str, help_: str) -> None:
        """Keep both; the help is a note, too, for programs that catch nothing."""
        super().__init__(message, help_)
        self.add_note(f"help: {help_}")


def require_shipped(spark: SparkSession, store: str = "") -> None:
    """Raise `NotShipped` unless a worker can import what tasks are made of, and Spark knows such a path as `store`."""
    if "://" in store:
        _require_scheme(spark, store)
    if spark in _HAVE or not _is_elsewhere(spark):
        return
    try:
        row = spark.range(1).select(f.udf(_asking(), "string", useArrow=False)("id")).first()
        told = "" if row is None else row[0]
    except PySparkException as error:
        # A worker that lacks what PySpark itself needs fails before it can be asked.
        found = _MISSING.search(str(error))
        if found is None:
            raise
        told = f"of an unknown path\n{found[0]}"
    if told:
        python, _, reason = told.partition("\n")
        raise NotShipped(f"the Python workers of Spark ({python}) cannot run Augury: {reason}", _help(reason))
    _HAVE.add(spark)


def _asking() -> Callable[[int], str]:
    """A function that travels by value, since there may be nothing on the other side that it could be named in."""

    def lacks(_: int) -> str:
        import importlib
        import os
        import sys
        import tempfile

        try:
            modules = [importlib.import_module(f"augury.spark.{name}") for name in ("tasks", "slots")]
            if not os.path.exists(str(modules[0].__file__)):
                # Packed in a zip: numba keeps what it compiles in the user's folder for such things, and nowhere else.
                kept = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")
                os.makedirs(kept, exist_ok=True)
                tempfile.TemporaryFile(dir=kept).close()
        except ImportError as error:
            return f"{sys.executable}\n{error}"
        except OSError as error:
            return f"{sys.executable}\ncompiled code cannot be kept: {error}"
        return ""

    return lacks


def _is_elsewhere(spark: SparkSession) -> bool:
    """Whether workers may have another Python than the driver, or be on another machine."""
    if is_remote():
        return True
    context = spark.sparkContext
    master = context.master or ""
    if master != _LOCAL and not master.startswith(f"{_LOCAL}["):
        return True
    python = shutil.which(context.pythonExec) or context.pythonExec
    return os.path.dirname(python) != os.path.dirname(sys.executable)


def _require_scheme(spark: SparkSession, store: str) -> None:
    scheme = store.partition("://")[0]
    jvm, context = spark._jvm, spark.sparkContext._jsc
    assert jvm is not None, "a watch has a JVM"
    assert context is not None, "a watch has a JVM"
    hadoop = jvm.org.apache.hadoop
    try:
        hadoop.fs.FileSystem.getFileSystemClass(scheme, context.hadoopConfiguration())
        if scheme == _OVER_HTTP:
            # The Hadoop that comes with Spark has it, and lacks a class that it needs.
            place = hadoop.fs.Path(store)
            place.getFileSystem(context.hadoopConfiguration()).exists(place)
    except Py4JJavaError:
        help_ = "start Spark with the jars of Hadoop that bring it"
        if scheme == _OVER_HTTP:
            help_ = "write `hdfs://namenode:8020/…`, and set AUGURY_WEBHDFS=http://namenode:9870 for driver and workers"
        if scheme in _OF_AMAZON:
            version = hadoop.util.VersionInfo.getVersion()
            help_ = f"write `s3a://…`, and start Spark with `--packages org.apache.hadoop:hadoop-aws:{version}`"
        raise NotShipped(
            f"Spark has no file system that works for `{scheme}://…`, where it is to keep its checkpoint, too", help_
        ) from None


def _help(reason: str) -> str:
    if reason.startswith(_CANNOT_COMPILE):
        return (
            "name a folder that the workers may write to: `--conf spark.executorEnv.XDG_CACHE_HOME=/tmp/augury` (docs/"
            "spark.md, On a cluster)"
        )
    found = _MISSING.search(reason)
    if found is None or found[1] == _WE:
        return (
            "give the workers a wheel of augury, called augury.zip: `spark-submit --py-files augury.zip`, or "
            '`spark.addArtifact("augury.zip", pyfile=True)` in a session; or install augury in the Python that '
            "PYSPARK_PYTHON names (docs/spark.md, On a cluster)"
        )
    return (
        f"install `{found[1]}` in the Python that PYSPARK_PYTHON names, or ship an environment that has it with "
        "`--archives` (docs/spark.md, On a cluster)"
    )

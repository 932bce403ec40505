"""Java's classes of Spark, kept as they are in memory: a JVM that finds them starts in half the time.

In: nothing. Out: a file in the user's cache folder, made once for a Java and a PySpark by a JVM that runs a small
program and is then asked what it has loaded. Java itself sees whether the file still fits, and does without it if not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyspark
from pyspark.sql import SparkSession

_SECONDS_MAX: Final = 300


def archive_path(java_told: str) -> Path:
    """Where the classes of this Java, by what it tells of itself, and of this PySpark are, or would be."""
    name = hashlib.sha256(f"{java_told}{pyspark.__version__}{pyspark.__file__}".encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return folder / "augury" / f"spark-{name}.jsa"


def options(archive: Path) -> str:
    """What to tell a JVM, so that it takes the classes from there; nothing if they are not there."""
    # What Java has to say of the file would go to standard output.
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:disable' if archive.is_file() else ""


def archiving(made: Path) -> str:
    """What to tell a JVM, so that it writes the classes it has loaded when it ends."""
    return f'"-XX:ArchiveClassesAtExit={made}" -Xlog:disable'


def make_archive(java_told: str, training: Sequence[str]) -> Path:
    """Make the file if it is not there, by a command that is given its path and runs a JVM with `archiving`.

    It takes half a minute; raises `subprocess.SubprocessError` and `OSError`.
    """
    archive = archive_path(java_told)
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / "classes.jsa"
        subprocess.run([*training, str(made)], check=True, capture_output=True, timeout=_SECONDS_MAX)
        made.rename(archive)
    return archive


def end(spark: SparkSession) -> None:
    """Stop a session and wait until its JVM has ended, and has written what it was to write."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS_MAX)

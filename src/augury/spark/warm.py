"""Java's classes of Spark, kept as they are in memory: a JVM that finds them starts in half the time.

In: nothing. Out: a file in the user's cache folder, made once for a Java and a PySpark by a JVM that runs a small
program and is then asked what it has loaded. Java itself sees whether the file still fits, and does without it if not.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pyspark

_SECONDS_MAX: Final = 300

_TRAINING: Final = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v VARCHAR(9)) ID (k) LIFESPAN (1m) ON ANNOUNCEMENT DO told(new.k);
CREATE COMPLEX EVENT CLASS Twice (k INT) ID (k) AS MATCH prior(A(k, _), A(k, _)) OVER (A);
"""


def archive_path(java_told: str) -> Path:
    """Where the classes of this Java, by what it tells of itself, and of this PySpark are, or would be."""
    name = hashlib.sha256(f"{java_told}{pyspark.__version__}{pyspark.__file__}".encode()).hexdigest()[:16]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return folder / "augury" / f"spark-{name}.jsa"


def options(archive: Path) -> str:
    """What to tell a JVM, so that it takes the classes from there; nothing if they are not there."""
    # What Java has to say of the file would go to standard output.
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto -Xlog:disable' if archive.is_file() else ""


def make_archive(java_told: str) -> Path:
    """Make the file if it is not there, which takes half a minute; raises `subprocess.SubprocessError`, `OSError`."""
    archive = archive_path(java_told)
    if archive.is_file():
        return archive
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder) / "classes.jsa"
        subprocess.run(
            [sys.executable, "-m", "augury.spark.warm", str(made)],
            check=True, capture_output=True, timeout=_SECONDS_MAX,
        )  # fmt: skip
        made.rename(archive)
    return archive


def _train(made: Path) -> None:
    """Run a small program as a batch and as a stream, in a JVM that writes what it has loaded when it ends."""
    from augury.api import compile, detect
    from augury.spark.session import session
    from augury.spark.sources import json_lines
    from augury.spark.watch import watch

    spark = session("local[2]", java_options=f'"-XX:ArchiveClassesAtExit={made}" -Xlog:disable')
    program = compile(_TRAINING, "training")
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.sql("SELECT 'A' AS event, id AS det_time, id % 3 AS k, 'x' AS v FROM range(12)")
        rows.write.parquet(f"{folder}/table")
        rows.write.json(f"{folder}/lines")
        with detect(program, spark.read.parquet(f"{folder}/table")) as found:
            found.of("Twice").write.parquet(f"{folder}/found")
        lines = json_lines(spark, f"{folder}/lines")
        with watch(program, lines, store=f"{folder}/lake", clock="data", buckets=2) as query:
            query.finish()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(_SECONDS_MAX)


if __name__ == "__main__":
    _train(Path(sys.argv[1]))

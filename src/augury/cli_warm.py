"""`augury warm`: what makes later starts of Spark quicker, made once.

What happens goes to standard error. Exit codes: 0 done; 3 the environment lacks something. Run as a module it is the
small program by which Java learns which classes to keep.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import typer

_TRAINING: Final = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v VARCHAR(9)) ID (k) LIFESPAN (1m) ON ANNOUNCEMENT DO told(new.k);
CREATE COMPLEX EVENT CLASS Twice (k INT) ID (k) AS MATCH prior(A(k, _), A(k, _)) OVER (A);
"""


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("warm")(warm_command)


def warm_command() -> None:
    """Keep Java's classes of Spark in the cache folder, so that Spark starts sooner; takes half a minute, once."""
    try:
        from augury.spark.session import NoSpark
    except ImportError as error:
        typer.echo(f"error: there is no PySpark here ({error})\n  = help: pip install 'pyspark>=4.1,<5'", err=True)
        raise typer.Exit(3) from None
    try:
        made = keep_classes()
    except NoSpark as error:
        typer.echo(f"error: {error}\n  = help: {error.help}", err=True)
        raise typer.Exit(3) from None
    except (OSError, subprocess.SubprocessError) as error:
        typer.echo(f"error: the classes could not be kept: {error}\n  = help: Spark starts as well without", err=True)
        raise typer.Exit(3) from None
    typer.echo(f"Java's classes of Spark are kept in {made}", err=True)


def keep_classes() -> Path:
    """Make the file of classes if it is not there; raises `NoSpark`, `OSError` and `subprocess.SubprocessError`."""
    from augury.spark.session import require_java
    from augury.spark.warm import make_archive

    return make_archive(require_java(), [sys.executable, "-m", "augury.cli_warm"])


def _train(made: Path) -> None:
    """Run a small program as a batch and as a stream, in a JVM that writes what it has loaded when it ends."""
    from augury.api import compile, detect
    from augury.spark.session import session
    from augury.spark.sources import json_lines
    from augury.spark.warm import archiving, end
    from augury.spark.watch import watch

    spark = session("local[2]", java_options=archiving(made))
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
    end(spark)


if __name__ == "__main__":
    _train(Path(sys.argv[1]))

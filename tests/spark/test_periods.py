"""PERIODIC with a time far from all others: Spark says what the engine in process says, however it runs the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import augury
from augury.spark.ticking import TickDetected
from tests.composite.test_periods import CLASSES, FAR, TRIGGER, ran, said

TWO = CLASSES.format(lifespan="-1") + "".join(
    f"CREATE COMPLEX EVENT CLASS {name} (k INT) ID () LIFESPAN (1d) AS COMPOSITE {expression} CONTEXT CHRONICLE;"
    for name, expression in (("Once", "A(k) > C(k)"), ("Often", "PERIODIC(A(k), [1s], C(k))"))
)


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        pytest.param(TWO, "spark", id="at once"),
        pytest.param(TRIGGER.format(lifespan="-1"), "spark", id="tick by tick"),
        pytest.param(said("RECENT"), "spark-stream", id="a stream"),
    ],
)
def test_it_is_the_same_diagnostic(spark: SparkSession, tmp_path: Path, text: str, engine: str) -> None:
    mine, theirs = ran(tmp_path, text, FAR), ran(tmp_path, text, FAR, "--engine", engine)
    assert "error[E405]: PERIODIC takes place at most 10,000,000 times after one opening" in theirs.stderr
    assert (theirs.exit_code, theirs.stdout, theirs.stderr) == (mine.exit_code, "", mine.stderr)


def test_a_frame_says_why_it_is_not_there(spark: SparkSession) -> None:
    """What other engines did must not pass for all that there is."""
    rows = [(row["event"], row["k"], row["det_time"]) for row in FAR]
    frame = spark.createDataFrame(rows, "event string, k int, det_time string")
    with augury.detect(augury.compile(TRIGGER.format(lifespan="-1")), frame) as detected:
        assert isinstance(detected, TickDetected)
        for asked in (detected.versions, detected.actions, detected.firings("T")):
            with pytest.raises(PythonException, match=r"PERIODIC takes place at most .* in `T` it would more often"):
                asked.collect()

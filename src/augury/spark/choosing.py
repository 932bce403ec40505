"""A batch on Spark: all events at once where nothing waits for a tick, else tick by tick.

In: a checked program and data frames. Out: what `augury.detect` gives. Nothing else is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.once import waits_for_ticks
from augury.history.coming import received
from augury.spark.detect import Detected
from augury.spark.detect import detect as detect_at_once
from augury.spark.shipped import require_shipped
from augury.spark.sources_schema import is_lines, require_fit
from augury.spark.ticking import TickDetected, detect_by_ticks


def detect(
    program: Program, events: DataFrame | Mapping[str, DataFrame], *, until_us: int | None = None
) -> Detected | TickDetected:
    """Run a program over events; raises `CannotRun` and `NotOnSpark` for what no engine runs, and `NotShipped`.

    Columns that can never fit are told all at once before anything runs: `SourceError`.
    """
    require_fit(program, events)
    frames = list(events.values()) if isinstance(events, Mapping) else [events]
    for frame in frames[:1]:
        require_shipped(frame.sparkSession)
    # Whether something was withdrawn is not known before the events are read.
    names = [one.name for one in received(program)]
    if waits_for_ticks(program, names) or any(map(is_lines, frames)):
        runnable(program)
        return detect_by_ticks(program, events, until_us=until_us)
    return detect_at_once(program, events, until_us=until_us)

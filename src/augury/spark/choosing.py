"""A batch on Spark: all events at once where nothing waits for a tick, else tick by tick.

In: a checked program and data frames. Out: what `augury.detect` gives. Nothing else is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from augury.algebra.program import Program
from augury.engine.once import waits_for_ticks
from augury.engine.ports import SelectsBy, require_selects_by
from augury.event import TIME_ATTRIBUTES, key_of
from augury.history.coming import received
from augury.history.typed import DET_TIME, OCC_TIME
from augury.spark.detect import Detected
from augury.spark.detect import detect as detect_at_once
from augury.spark.shipped import require_shipped
from augury.spark.sources_schema import is_lines, require_fit
from augury.spark.ticking import TickDetected, detect_by_ticks


def detect(
    program: Program,
    events: DataFrame | Mapping[str, DataFrame],
    *,
    until_us: int | None = None,
    selects: SelectsBy = "duckdb",
) -> Detected | TickDetected:
    """Run a program over events; raises `CannotRun` and `NotOnSpark` for what no engine runs, and `NotShipped`.

    Columns that can never fit are told all at once before anything runs: `SourceError`.
    """
    require_selects_by(selects)
    require_fit(program, events)
    frames = list(events.values()) if isinstance(events, Mapping) else [events]
    for frame in frames[:1]:
        require_shipped(frame.sparkSession)
    # Whether something was withdrawn is not known before the events are read, only where nothing can be.
    withdrawn = [one.name for one in received(program)] if any(may_withdraw(program, one) for one in frames) else []
    if waits_for_ticks(program, withdrawn) or any(map(is_lines, frames)):
        return detect_by_ticks(program, events, until_us=until_us, selects=selects)
    return detect_at_once(program, events, until_us=until_us)


def may_withdraw(program: Program, frame: DataFrame) -> bool:
    """Whether a row may withdraw an event: by an occ_time that is NULL, beside a det_time."""
    if program.sources:
        return True
    fields = [(TIME_ATTRIBUTES.get(key_of(field.name)), field) for field in frame.schema.fields]
    has_det_time = any(name == DET_TIME for name, _ in fields)
    return has_det_time and any(name == OCC_TIME and field.nullable for name, field in fields)

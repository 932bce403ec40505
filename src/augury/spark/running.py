"""One run of a program over raw events on Spark, tick by tick: what `augury run` calls for programs that need ticks.

In: a program, and files in portions or raw events that the driver has read. Out: a ledger, in memory. In a batch, or as
a stream, which the driver reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger
from augury.engine.plan import engine_plan
from augury.engine.ports import SelectsBy
from augury.engine.progress import Far, Tell, counting, size_of
from augury.history.raw import Raw
from augury.lake import Lake, LakeExists, NoLake
from augury.spark.portions import Portion
from augury.spark.replaying import by_ticks, replay
from augury.spark.session import session
from augury.spark.telling import tasks_of, telling


def run_by_ticks(
    program: Program,
    events: Iterable[Raw] = (),
    *,
    portions: Sequence[Portion] | None = None,
    until_us: int | None = None,
    is_stream: bool = False,
    store: str | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    tell: Tell | None = None,
    selects: SelectsBy = "duckdb",
) -> Ledger:
    """What a program does over these events, or over files; raises `CannotRun`, `NoSpark`, `LakeError`, `Unreadable`.

    `tell` hears how far it is: of a batch which tasks are done, of a stream also rows, ticks and lag.
    """
    engine_plan(program)  # refuse what does not run before a JVM is started
    if selects == "duckdb":
        runnable(program)
    if store is not None:
        _require_unused(store)
    raws = list(counting(events, tell))
    if spark is None:
        with telling(tell, lambda: Far("starting Spark")):
            spark = session(master)
    if is_stream:
        return replay(spark, program, raws, until_us=until_us, store=store, tell=tell, selects=selects)
    on, rows = spark, None if portions is not None else sum(map(size_of, raws))
    with (
        telling(tell, lambda: Far("ticks on Spark", rows, **tasks_of(on))),
        by_ticks(on, program, raws, portions=portions, until_us=until_us, selects=selects) as detected,
    ):
        return detected.collect_ledger()


def _require_unused(store: str) -> None:
    """Raise `LakeExists` where a folder has ticks already, which a replay would be mixed with."""
    with suppress(NoLake):
        if Lake.open(store).last() is not None:
            raise LakeExists(f"`{store}` has ticks already: a replay begins with an empty folder")

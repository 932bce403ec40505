"""One run of a program over raw events on Spark, tick by tick: what `augury run` calls for programs that need ticks.

In: a program and raw events as the readers give them. Out: a ledger, in memory. In a batch, or as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger
from augury.history.raw import Raw
from augury.spark.replaying import by_ticks, replay
from augury.spark.session import session


def run_by_ticks(
    program: Program,
    events: Iterable[Raw],
    *,
    until_us: int | None = None,
    is_stream: bool = False,
    store: str | None = None,
    spark: SparkSession | None = None,
) -> Ledger:
    """What a program does over these events; raises `CannotRun` and `NoSpark`."""
    runnable(program)  # refuse what does not run before a JVM is started
    spark = spark or session()
    if is_stream:
        return replay(spark, program, events, until_us=until_us, store=store)
    with by_ticks(spark, program, events, until_us=until_us) as detected:
        return detected.collect_ledger()

"""How far a run on Spark is, looked at now and then while it runs.

In: a function that looks, and one that is told. Out: nothing else; where nobody is told, no thread is started. It
changes nothing of the run: should a look fail, that is logged, and the run goes on untold.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from augury.engine.progress import Far, Tell

LOG: Final = logging.getLogger("augury")

_LOOKED_SECONDS: Final = 0.25


@contextmanager
def telling(tell: Tell | None, look: Callable[[], Far]) -> Iterator[None]:
    """Tell what a look shows, several times a second as long as the body runs, and once when it is done."""
    if tell is None:
        yield
        return
    over, failed = Event(), Event()

    def tell_once() -> None:
        try:
            tell(look())
        except Exception as error:
            failed.set()
            LOG.warning("how far the run is cannot be told: %s", error)

    def look_on() -> None:
        while not failed.is_set() and not over.wait(_LOOKED_SECONDS):
            tell_once()

    tell_once()
    looker = Thread(target=look_on, name="augury progress", daemon=True)
    looker.start()
    try:
        yield
    finally:
        over.set()
        looker.join()
    if not failed.is_set():
        tell_once()


def tasks_of(spark: SparkSession) -> dict[str, Any]:
    """The tasks of stages that run now, as `Far` has them: how many are done, and of how many."""
    if is_remote():
        return {}  # over Spark Connect nobody can ask
    tracker = spark.sparkContext.statusTracker()
    # A stage may be over before it is asked for.
    stages = [one for number in tracker.getActiveStageIds() if (one := tracker.getStageInfo(number)) is not None]
    return {
        "tasks": sum(one.numCompletedTasks for one in stages),
        "tasks_all": sum(one.numTasks for one in stages),
    }

"""Where results go on to after each commit: Parquet, a database, Kafka.

In: what a commit of `watch` holds. Out: nothing; a sink is a function that returns when everything is written, and
raises when it is not. `watch` calls it at least once for each commit, in order, and again for the same commit if it
raised or the driver died: so every sink says what a repeated commit does to it. No sink decides what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pyspark.sql import DataFrame

from augury.spark.sinks_jdbc import to_jdbc
from augury.spark.sinks_kafka import to_kafka
from augury.spark.sources_lines import SourceError

__all__ = ["Committed", "Sink", "SourceError", "to_jdbc", "to_kafka", "to_parquet"]

COMMIT_DIGITS = 12


class Committed(Protocol):
    """What became visible by one commit; frames are in the order of `augury run`."""

    @property
    def commit(self) -> int:
        """The number of the commit: the same for the same rows, however often it is told."""

    @property
    def ticks(self) -> tuple[int, int]:
        """The first and the last tick that it covers, in microseconds."""

    @property
    def events(self) -> DataFrame:
        """Complex events: event, change, seq, occ_time, det_time, constituents, key, line.

        `key` is the key as a JSON object, `line` the whole event as `augury run` prints it.
        """

    @property
    def actions(self) -> DataFrame:
        """Actions: line, action, idempotency_key, tick."""

    @property
    def rejected(self) -> DataFrame:
        """Refused events: place, event, reason, raw."""


Sink: TypeAlias = Callable[[Committed], None]


def to_parquet(path: str) -> Sink:
    """Keep results as Parquet below a path: `events`, `actions` and `rejected`, in each a folder `commit=N`.

    A repeated commit replaces its folders, so every row is there once. A folder without `_SUCCESS` was not finished,
    and will be replaced; who reads while a commit is written may miss it, and never sees half a file.
    """

    def sink(committed: Committed) -> None:
        for name in ("events", "actions", "rejected"):
            frame: DataFrame = getattr(committed, name)
            # Numbers of one length sort as they are, in every listing.
            folder = f"{path.rstrip('/')}/{name}/commit={committed.commit:0{COMMIT_DIGITS}d}"
            frame.write.mode("overwrite").parquet(folder)

    return sink

"""A commit as `watch` would tell it to a sink, made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Commit:
    """A commit as `watch` tells it."""

    commit: int
    ticks: tuple[int, int]
    events: DataFrame
    actions: DataFrame
    rejected: DataFrame


def commit_of(spark: SparkSession, number: int, rejected: Sequence[tuple[str, str, str, str]] = ()) -> Commit:
    """Three versions of two events, an action, and what was refused."""
    moment = datetime(2026, 1, 1, 9, 0, 0, 123456)
    events = [
        ("Complete", change, n, moment, moment, [n - 1, n], f'{{"I": {key}}}', f'{{"event": "Complete", "seq": {n}}}')
        for n, (change, key) in enumerate([("announce", 1), ("announce", 2), ("change", 1)], 2)
    ]
    event_columns = "event string, change string, seq bigint, occ_time timestamp, det_time timestamp,"
    event_columns += " constituents array<bigint>, key string, line string"
    actions = [('{"action": "tell"}', "tell", "id-1", moment)]
    return Commit(
        number,
        (0, 1_000_000),
        spark.createDataFrame(events, event_columns),
        spark.createDataFrame(actions, "line string, action string, idempotency_key string, tick timestamp"),
        spark.createDataFrame(list(rejected), "place string, event string, reason string, raw string"),
    )

"""Results → Kafka: complex events and actions to a topic, what was refused to a dead-letter topic.

In: what a commit holds. Out: records. A refused record of Kafka is read again by its place, so that the dead letters
hold its very bytes; anything else is there as the text that the rejected event has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from augury.spark.kafka import NO_CONNECTOR, PARTITION_DIGITS, loaded, no_connector
from augury.spark.sources_lines import SourceError, deepest

if TYPE_CHECKING:
    from augury.spark.sinks import Committed, Sink

_PLACE: Final = rf"^([A-Za-z0-9._-]{{1,249}})/(\d{{{PARTITION_DIGITS}}}):(\d+)$"
"""The place of a record: topic, partition, offset."""

_READ_AGAIN_MS: Final = 20_000
"""How long a refused record is waited for: what was there a moment ago is there, or is gone."""

_HEADERS: Final = "array<struct<key:string,value:binary>>"


def to_kafka(
    servers: str,
    topic: str,
    *,
    actions_to: str | None = None,
    rejected_to: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Sink:
    """Send complex events to a topic, actions to `actions_to` (the same topic), refused events to `rejected_to`.

    The value of a record is the line that `augury run` prints. The key of an event's record is its class and key, so
    that versions of one event stay in order; that of an action's is its idempotency key. Headers say the `commit` and
    the `event` or `action`. A dead letter is the refused record of Kafka as it was, key and headers included, or else
    the text of the event; headers say `reason`, `origin`, `event` and `commit`. Where the record is gone from its
    topic, the text stands for it, and a header `shortened` says so.

    At least once: a repeated commit is sent again, its records equal in key, value and headers to those sent before.
    Who must not act twice drops actions whose key is known, and events whose commit is lower than the last seen.
    `options` are Kafka's own, with the prefix `kafka.`.
    """
    if not topic or "" in (actions_to, rejected_to):
        raise SourceError("to_kafka: a topic has a name")

    def sink(committed: Committed) -> None:
        commit = f.lit(str(committed.commit))
        frames = [
            _events(committed.events, topic, commit),
            _actions(committed.actions, actions_to or topic, commit),
        ]
        if rejected_to is not None:
            frames.append(_dead_letters(committed.rejected, servers, rejected_to, commit, options or {}))
        # One task sends all, for several would not keep the order.
        numbered = reduce(DataFrame.unionByName, frames).withColumn("number", f.monotonically_increasing_id())
        records = numbered.coalesce(1).sortWithinPartitions("number").drop("number")
        writer = records.write.format("kafka").option("kafka.bootstrap.servers", servers).options(**(options or {}))
        try:
            writer.save()
        except AnalysisException as error:
            if error.getCondition() in NO_CONNECTOR:
                raise no_connector(records.sparkSession) from None
            raise
        except Py4JJavaError as error:
            reason = deepest(error.java_exception)
            raise SourceError(f"to_kafka: commit {committed.commit} was not sent to {servers}: {reason}") from error

    return sink


def _events(events: DataFrame, topic: str, commit: Column) -> DataFrame:
    key = f.concat("event", f.coalesce("key", f.lit("")))
    return _records(events, topic, key, f.col("line"), _headers(commit=commit, event=f.col("event")))


def _actions(actions: DataFrame, topic: str, commit: Column) -> DataFrame:
    headers = _headers(commit=commit, action=f.col("action"))
    return _records(actions, topic, f.col("idempotency_key"), f.col("line"), headers)


def _records(rows: DataFrame, topic: str, key: Column, value: Column, headers: Column) -> DataFrame:
    return rows.select(
        f.lit(topic).alias("topic"),
        f.encode(key, "UTF-8").alias("key"),
        f.encode(value, "UTF-8").alias("value"),
        headers.alias("headers"),
    )


def _headers(**values: Column) -> Column:
    pairs = [
        f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value")) for name, value in values.items()
    ]
    return f.array(*pairs).cast(_HEADERS)


# ---- dead letters --------------------------------------------------------------------------------------------------


def _dead_letters(
    rejected: DataFrame, servers: str, topic: str, commit: Column, options: Mapping[str, str]
) -> DataFrame:
    """The refused events as records, those of Kafka with the bytes they came with."""
    told = _headers(commit=commit, event=f.col("event"), reason=f.col("reason"), origin=f.col("place"))
    placed = rejected.select(
        *rejected.columns,
        f.nullif(f.regexp_extract("place", _PLACE, 1), f.lit("")).alias("from_topic"),
        f.nullif(f.regexp_extract("place", _PLACE, 2), f.lit("")).cast("int").alias("from_partition"),
        f.nullif(f.regexp_extract("place", _PLACE, 3), f.lit("")).cast("bigint").alias("from_offset"),
    )
    begins_and_ends = (
        placed.where(f.col("from_topic").isNotNull())
        .groupBy("from_topic", "from_partition")
        .agg(f.min("from_offset").alias("begin"), (f.max("from_offset") + 1).alias("end"))
        .collect()
    )
    if not begins_and_ends:
        return _records(placed, topic, f.lit(None).cast("string"), f.col("raw"), told)
    spans = {(row[0], row[1]): (row[2], row[3]) for row in begins_and_ends}
    origins = _read_again(rejected.sparkSession, servers, spans, options)
    same = [placed[f"from_{name}"] == origins[name] for name in ("topic", "partition", "offset")]
    found = origins["offset"].isNotNull()
    gone = placed["from_topic"].isNotNull() & ~found
    without = f.array().cast(_HEADERS)
    return placed.join(origins, same, "left").select(
        f.lit(topic).alias("topic"),
        origins["key"],
        f.when(found, origins["value"]).otherwise(f.encode("raw", "UTF-8")).alias("value"),
        f.concat(
            f.coalesce(origins["headers"], without),
            told,
            f.when(gone, _headers(shortened=f.lit("the record is gone from its topic"))).otherwise(without),
        ).alias("headers"),
    )


def _read_again(
    spark: SparkSession, servers: str, spans: Mapping[tuple[str, int], tuple[int, int]], options: Mapping[str, str]
) -> DataFrame:
    """The records between two offsets of each partition, as far as they are still there."""
    assign: dict[str, list[int]] = {}
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (begin, end) in spans.items():
        assign.setdefault(topic, []).append(partition)
        begins.setdefault(topic, {})[str(partition)] = begin
        ends.setdefault(topic, {})[str(partition)] = end
    asked = {
        "assign": json.dumps(assign),
        "startingOffsets": json.dumps(begins),
        "endingOffsets": json.dumps(ends),
        "includeHeaders": "true",
        "failOnDataLoss": "false",
        "kafkaConsumer.pollTimeoutMs": str(_READ_AGAIN_MS),
    }
    return loaded(spark, servers, {**options, **asked}, streaming=False)

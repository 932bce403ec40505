"""Kafka topics as a source: records → `LINES`, with topic, partition and offset as the place of each.

In: servers, topics, and what key, headers and value are. Out: a frame, streaming or not. A record that can be no event
(no value, no UTF-8, no Avro of the schema) comes with the reason; what JSON says is left to the engine. Nothing here
knows a program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import FloatType, StructType

from augury import limits
from augury.spark.kafka_fields import Field, FillIn, field_of
from augury.spark.sources_lines import LINES, NOT_UTF8, TOO_LONG, SourceError

PARTITION_DIGITS: Final = 6
"""Partitions are padded to so many digits, so that places sort as texts; clusters end well before a million."""

NO_CONNECTOR: Final = ("KAFKA_DATA_SOURCE_NOT_ENABLED", "DATA_SOURCE_NOT_FOUND")
"""What Spark says where its connector for Kafka is not among the jars."""

NO_VALUE: Final = "it has no value"
NO_AVRO: Final = "it is not Avro of the given schema"

_OURS: Final = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribepattern",
    "assign",
    "startingoffsets",
    "includeheaders",
)
_HEADER: Final = "header:"


def kafka(
    spark: SparkSession,
    servers: str,
    topics: str | Sequence[str],
    *,
    value: Literal["json", "avro"] = "json",
    avro_schema: str | None = None,
    event: str | Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    det_time: Literal["timestamp"] | None = None,
    starting: str | Mapping[str, Mapping[int, int]] = "earliest",
    streaming: bool = True,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Events from Kafka: the place of each is `topic/partition` and its offset.

    `value` is what records hold; Avro is binary, without a prefix, and of `avro_schema`. `event` says the class of
    records whose value names none: "topic", "key", "header:<name>", or a mapping from topics to classes. `columns` puts
    the key or a header into the event, in place of what the value has there: `{"key": "account INT", "header:trace":
    "trace"}`; they are text where no type is given. `det_time="timestamp"` takes Kafka's time of the record;
    otherwise the event says it, or it is the time of reading. `starting` counts for the first start of a query only:
    "earliest", "latest", or offsets by topic and partition. `options` are those of Spark's Kafka source
    (`maxOffsetsPerTrigger`, `kafka.security.protocol`, …).
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    fields = _asked(names, value, avro_schema, event, columns or {}, det_time, options or {})
    records = _records(spark, servers, names, starting, streaming, options or {}, _needs_headers(event, fields))
    padded = f.lpad(f.col("partition").cast("string"), PARTITION_DIGITS, "0")
    lines = _lines(records, value, avro_schema).select(
        "line",
        f.concat("topic", f.lit("/"), padded).alias("source"),
        f.col("offset").alias("position"),
        _class(event).alias("event"),
        "refused",
        *(_bytes_of(field.origin).alias(name) for name, field in _named(fields)),
        *([f.unix_micros("timestamp").alias("timestamp")] if det_time else []),
    )
    if fields or det_time:
        return lines.mapInArrow(FillIn(tuple(_named(fields)), det_time is not None), LINES)
    return lines


# ---- what was asked for --------------------------------------------------------------------------------------------


def _asked(
    topics: Sequence[str],
    value: str,
    avro_schema: str | None,
    event: str | Mapping[str, str] | None,
    columns: Mapping[str, str],
    det_time: str | None,
    options: Mapping[str, str],
) -> list[Field]:
    """The fields to be filled in; raises `SourceError` with all mistakes at once."""
    wrong = list(_mistakes(topics, value, avro_schema, event, det_time, options))
    fields: list[Field] = []
    for origin, wanted in columns.items():
        try:
            if not _is_origin(origin):
                raise SourceError(f'columns: `{origin}` is neither "key" nor "header:<name>"')
            fields.append(field_of(origin, wanted))
        except SourceError as error:
            wrong.append(str(error))
    if wrong:
        raise SourceError("Kafka cannot be read like this:\n" + "\n".join(f"- {one}" for one in wrong))
    return fields


def _mistakes(
    topics: Sequence[str],
    value: str,
    avro_schema: str | None,
    event: str | Mapping[str, str] | None,
    det_time: str | None,
    options: Mapping[str, str],
) -> Iterator[str]:
    if not topics or not all(topics):
        yield "topics: name at least one"
    if value not in ("json", "avro"):
        yield f'value is "json" or "avro", not {value!r}'
    if (value == "avro") != (avro_schema is not None):
        yield 'avro_schema goes with value="avro", and it needs one'
    if avro_schema is not None:
        try:
            json.loads(avro_schema)
        except ValueError as error:
            yield f"avro_schema is no JSON: {error}"
    if isinstance(event, str) and event != "topic" and not _is_origin(event):
        yield f'event is "topic", "key", "header:<name>" or a mapping from topics to classes, not {event!r}'
    if isinstance(event, Mapping) and (unknown := [topic for topic in event if topic not in topics]):
        yield f"event: `{unknown[0]}` is none of the topics"
    if det_time not in (None, "timestamp"):
        yield f'det_time is "timestamp" or left out, not {det_time!r}'
    for name in options:
        if name.lower() in _OURS:
            yield f"options: `{name}` is said by servers, topics and starting"


def _is_origin(text: str) -> bool:
    return text == "key" or (text.startswith(_HEADER) and text != _HEADER)


def _needs_headers(event: str | Mapping[str, str] | None, fields: Sequence[Field]) -> bool:
    origins = [field.origin for field in fields] + ([event] if isinstance(event, str) else [])
    return any(origin.startswith(_HEADER) for origin in origins)


def _named(fields: Sequence[Field]) -> list[tuple[str, Field]]:
    return [(f"field{number}", field) for number, field in enumerate(fields)]


# ---- records -------------------------------------------------------------------------------------------------------


def _records(
    spark: SparkSession,
    servers: str,
    topics: Sequence[str],
    starting: str | Mapping[str, Mapping[int, int]],
    streaming: bool,
    options: Mapping[str, str],
    headers: bool,
) -> DataFrame:
    begin = starting if isinstance(starting, str) else json.dumps(starting)
    ours = {"subscribe": ",".join(topics), "startingOffsets": begin, "includeHeaders": str(headers).lower()}
    return loaded(spark, servers, {**options, **ours}, streaming=streaming)


def loaded(spark: SparkSession, servers: str, options: Mapping[str, str], *, streaming: bool) -> DataFrame:
    """Records as Spark's connector gives them; raises `SourceError` where it is not there."""
    reader = spark.readStream if streaming else spark.read
    try:
        return reader.format("kafka").option("kafka.bootstrap.servers", servers).options(**options).load()
    except AnalysisException as error:
        if error.getCondition() in NO_CONNECTOR:
            raise no_connector(spark) from None
        raise


def no_connector(spark: SparkSession) -> SourceError:
    """Says how to get Spark's connector for Kafka."""
    return _missing(spark, "Spark's connector for Kafka", "spark-sql-kafka-0-10_2.13")


def _missing(spark: SparkSession, what: str, artifact: str) -> SourceError:
    package = f"org.apache.spark:{artifact}:{spark.version}"
    return SourceError(f"{what} is not there: start Spark with --packages {package}, or session(jars=…)")


def _lines(records: DataFrame, value: str, avro_schema: str | None) -> DataFrame:
    """The records with `line`, text in any case, and `refused`."""
    nothing = f.when(f.col("value").isNull(), NO_VALUE)
    nothing = nothing.when(f.octet_length("value") > limits.INFER_LINE_BYTES_MAX, TOO_LONG)
    text = f.col("value").cast("string")
    shown = f.make_valid_utf8(text)
    if value == "json":
        refused = nothing.when(~f.is_valid_utf8(text), NOT_UTF8)
        line = f.when(refused == TOO_LONG, f.left(shown, f.lit(2000))).otherwise(f.coalesce(shown, f.lit("")))
        return records.withColumn("refused", refused).withColumn("line", line)
    assert avro_schema is not None
    decoded = _decoded(records, avro_schema)
    kind = decoded.schema["decoded"].dataType
    if not isinstance(kind, StructType) or not kind.fields:
        raise SourceError("avro_schema is no record with fields: an event is a record")
    # A record that cannot be decoded comes as one without any value.
    found = f.coalesce(*(f.when(f.col("decoded")[name].isNotNull(), True) for name in kind.names))
    refused = nothing.when(found.isNull(), NO_AVRO)
    line = f.when(refused.isNull(), _as_json(kind)).otherwise(f.coalesce(f.left(shown, f.lit(2000)), f.lit("")))
    return decoded.withColumn("refused", refused).withColumn("line", line)


def _decoded(records: DataFrame, avro_schema: str) -> DataFrame:
    try:
        return records.withColumn("decoded", from_avro("value", avro_schema, {"mode": "PERMISSIVE"}))
    except AnalysisException as error:
        if error.getCondition() == "AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE":
            raise _missing(records.sparkSession, "Spark's reader of Avro", "spark-avro_2.13") from None
        raise


def _as_json(kind: StructType) -> Column:
    """A decoded record as JSON that keeps every digit; a float is the double it is equal to."""
    fields = [
        f.col("decoded")[field.name]
        .cast("double" if isinstance(field.dataType, FloatType) else field.dataType)
        .alias(field.name)
        for field in kind.fields
    ]
    formats = {
        "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    }
    return f.to_json(f.struct(*fields), {"ignoreNullFields": "false", **formats})


def _class(event: str | Mapping[str, str] | None) -> Column:
    match event:
        case None:
            return f.lit(None).cast("string")
        case "topic":
            return f.col("topic")
        case str():
            return f.make_valid_utf8(_bytes_of(event).cast("string"))
        case _:
            pairs: list[Any] = [f.lit(text) for pair in event.items() for text in pair]
            return f.try_element_at(f.create_map(*pairs), f.col("topic")) if pairs else f.lit(None).cast("string")


def _bytes_of(origin: str) -> Column:
    """The key, or the last header of a name."""
    if origin == "key":
        return f.col("key")
    name = origin.removeprefix(_HEADER)
    return f.try_element_at(f.filter("headers", lambda header: header["key"] == name), f.lit(-1))["value"]

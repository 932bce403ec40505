"""A stored history as data frames → versions as accepting tasks give them, by Spark expressions alone.

In: data frames whose rows were accepted before, typed as the classes are declared, each with its `seq`. Out: the same
rows in the layout of `layout.accepted_schema`. Nothing is judged and nothing numbered; what does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as s

from augury.algebra.program import Program
from augury.event import Attribute, EventClass, key_of
from augury.kernels.batch import ASSERT, WITHDRAW
from augury.spark.layout import REJECTED_COLUMNS, VERSION, spark_type, value_name
from augury.spark.stage import subscribed

_WHOLE: Final = (s.ByteType, s.ShortType, s.IntegerType, s.LongType)


class NotStored(ValueError):
    """A data frame that is no stored history; the message says what it lacks."""


def stored(program: Program, events: DataFrame | Mapping[str, DataFrame], positions: Mapping[str, bool]) -> DataFrame:
    """The versions of a stored history; columns of `positions` are their `seq` where that is told, else empty.

    A data frame has `event`, `seq` (bigint), `det_time`, and `occ_time` where that differs (NULL withdraws); attributes
    stand beside them, or as `values.Class.attribute`, as `Detected.versions` has them. Raises `NotStored`.
    """
    if isinstance(events, DataFrame):
        return _versions(program, events, None, positions)
    known = {key_of(c.name): c for c in subscribed(program)}
    unknown = [name for name in events if key_of(name) not in known]
    if unknown:
        raise NotStored(f"the program has no subscribed or clock class `{unknown[0]}`; leave the data frame out")
    frames = [_versions(program, frame, known[key_of(name)], positions) for name, frame in events.items()]
    return reduce(DataFrame.unionAll, frames)


def has_occ_time(events: DataFrame | Mapping[str, DataFrame]) -> bool:
    """Whether some event may have an occ_time of its own, or be withdrawn."""
    frames = [events] if isinstance(events, DataFrame) else events.values()
    return any(_field(frame, "occ_time") is not None for frame in frames)


def _versions(program: Program, frame: DataFrame, of: EventClass | None, positions: Mapping[str, bool]) -> DataFrame:
    classes = subscribed(program)
    _require(frame, "seq", s.LongType(), "bigint")
    _require(frame, "det_time", s.TimestampType(), "timestamp")
    code = f.lit(classes.index(of)) if of is not None else _codes(frame, classes)
    seq, det_time = f.col("seq"), f.unix_micros("det_time")
    occ_time, kind = det_time, f.lit(ASSERT)
    if _field(frame, "occ_time") is not None:
        _require(frame, "occ_time", s.TimestampType(), "timestamp")
        occ_time = f.coalesce(f.unix_micros("occ_time"), det_time)
        kind = f.when(f.col("occ_time").isNull(), WITHDRAW).otherwise(ASSERT)
    heads = [
        f.lit(VERSION).cast("tinyint").alias("what"),
        code.cast("smallint").alias("code"),
        kind.cast("tinyint").alias("kind"),
        f.coalesce(seq, _missing("seq")).alias("seq"),
        occ_time.alias("occ_time"),
        f.coalesce(det_time, _missing("det_time")).alias("det_time"),
    ]
    heads += [f.lit(None).cast("string").alias(name) for name in REJECTED_COLUMNS]
    values = []
    for number, event_class in enumerate(classes):
        for i, attribute in enumerate(event_class.attributes):
            own = of in (None, event_class)
            value = typed_column(frame, event_class, attribute) if own else f.lit(None).cast(spark_type(attribute.type))
            values.append(value.alias(value_name(number, i)))
    places = [(seq if same else f.lit(None).cast("bigint")).alias(name) for name, same in positions.items()]
    rows = frame.select(*heads, *values, *places)
    return rows if of is not None else rows.where(f.col("code").isNotNull())


def _codes(frame: DataFrame, classes: tuple[EventClass, ...]) -> Column:
    """The numbers of classes by their names: as they are declared, or else in any case."""
    _require(frame, "event", s.StringType(), "string")
    names = {c.name: number for number, c in enumerate(classes)}
    exact = reduce(
        lambda rest, one: f.when(f.col("event") == one[0], one[1]).otherwise(rest),
        list(names.items())[::-1],
        reduce(
            lambda rest, one: f.when(f.lower("event") == key_of(one[0]), one[1]).otherwise(rest),
            names.items(),
            f.lit(None).cast("int"),
        ),
    )
    return exact


def typed_column(frame: DataFrame, event_class: EventClass, attribute: Attribute) -> Column:
    """The values of an attribute of a class, NULL where there is no such column; raises `NotStored`."""
    name, of = attribute.name, attribute.type
    field, column = _field(frame, name), f.col(f"`{name}`")
    values = _field(frame, "values")
    if field is None and values is not None and isinstance(values.dataType, s.StructType):
        inner = _inner(values.dataType, event_class.name)
        field = None if inner is None else _inner(inner.dataType, name)
        column = f.col("values")[event_class.name][name]
    if field is None:
        return f.lit(None).cast(spark_type(of))
    if not _holds(spark_type(of), field.dataType):
        where = f"`{name}` of `{event_class.name}` is {of}, and in the history {field.dataType.simpleString()}"
        raise NotStored(f"{where}: declare it as it was")
    return column.cast(spark_type(of))


def _holds(wanted: s.DataType, there: s.DataType) -> bool:
    """Whether values of a type are values of another as they are."""
    if isinstance(wanted, s.DecimalType) and isinstance(there, s.DecimalType):
        return wanted.scale >= there.scale and wanted.precision - wanted.scale >= there.precision - there.scale
    if isinstance(wanted, _WHOLE) and isinstance(there, _WHOLE):
        return _WHOLE.index(type(wanted)) >= _WHOLE.index(type(there))
    return isinstance(there, s.NullType) or wanted == there


def _require(frame: DataFrame, name: str, wanted: s.DataType, spelled: str) -> None:
    field = _field(frame, name)
    if field is None or field.dataType != wanted:
        told = "there is none" if field is None else f"it is {field.dataType.simpleString()}"
        raise NotStored(f"a numbered history has a column `{name}` of type {spelled}; here {told}")


def _field(frame: DataFrame, name: str) -> s.StructField | None:
    return _inner(frame.schema, name)


def _inner(kind: s.DataType, name: str) -> s.StructField | None:
    fields = kind.fields if isinstance(kind, s.StructType) else []
    return next((field for field in fields if key_of(field.name) == key_of(name)), None)


def _missing(name: str) -> Column:
    return f.raise_error(f.lit(f"a version of a numbered history has no {name}")).cast("bigint")

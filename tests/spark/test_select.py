"""SELECTs mean the same in process as on Spark: types, values and failures."""

from __future__ import annotations

import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as p

from augury import types as t
from augury.algebra.program import Program
from augury.duck.select import SelectFailed, evaluated
from augury.duck.sql.kinds import Days, SqlType
from tests.bitemporal.queries import (
    EPOCH,
    EXPRESSIONS,
    FAILURES,
    NOW_US,
    QUERIES,
    plan_of,
    program_of,
    views_of,
)

Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> dict[str, pa.Table]:
    found = views_of(program_of("id INT", "SELECT id FROM Item OCCURRING AT occTime"))
    for name, table in found.items():
        spark.createDataFrame(table).createOrReplaceTempView(name)
    return found


def on_spark(spark: SparkSession, program: Program) -> tuple[list[Row], list[p.DataType]]:
    """The rows of X by Spark, and the types before they were stored."""
    plan, event_class, _ = plan_of(program)
    now = f"timestamp_micros({NOW_US})"
    frame = spark.sql(plan.query.replace(":now", now))
    kinds = [field.dataType for field in spark.sql(plan.timed_sql.replace(":now", now)).schema]
    stored = [f"CAST(`{a.name}` AS {_spark_type(a.type)}) AS a{i}" for i, a in enumerate(event_class.attributes)]
    found = frame.selectExpr(*stored, "unix_micros(CAST(occ_time AS TIMESTAMP)) AS occ_time").toArrow()
    return _rows(found), kinds


def _spark_type(kind: t.Type) -> str:
    return f"DECIMAL({kind.precision},{kind.scale})" if isinstance(kind, t.Decimal) else (
        "STRING" if isinstance(kind, t.String) else str(kind)
    )  # fmt: skip


def in_process(program: Program, views: dict[str, pa.Table]) -> tuple[list[Row], list[SqlType]]:
    _, _, made = plan_of(program)
    rows = evaluated(made, views, NOW_US)
    return _rows(rows.attributes.append_column("occ_time", rows.occ_time)), list(made.kinds)


def _rows(table: pa.Table) -> list[Row]:
    columns = [_plain(column) for column in table.columns]
    return sorted(zip(*columns, strict=True), key=repr)


def _plain(column: pa.ChunkedArray) -> list[Any]:
    return [_value(value) for value in column.to_pylist()]


def _value(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case datetime():
            return value - EPOCH
        case Decimal():
            return str(value)
        case _:
            return value


def _kind(spark_type: p.DataType) -> SqlType:
    """A type of Spark as ours."""
    match spark_type:
        case p.DecimalType():
            return t.Decimal(spark_type.precision, spark_type.scale)
        case p.DayTimeIntervalType():
            return Days() if spark_type.startField == spark_type.endField == 0 else t.DURATION
        case _:
            plain: dict[type, SqlType] = {
                p.IntegerType: t.INT, p.LongType: t.BIGINT, p.DoubleType: t.DOUBLE, p.BooleanType: t.BOOLEAN,
                p.StringType: t.STRING, p.TimestampType: t.TIMESTAMP, p.DateType: t.DATE, p.NullType: t.NULL,
            }  # fmt: skip
            return plain[type(spark_type)]


def _ours(kind: SqlType) -> SqlType:
    return t.STRING if isinstance(kind, t.String) else kind


@pytest.mark.parametrize("about", EXPRESSIONS)
def test_expressions_are_those_of_spark(spark, views, about):
    table = EXPRESSIONS[about]
    attributes = ", ".join(["id INT", *(f"x{i} {kind}" for i, (_, kind) in enumerate(table))])
    shown = ", ".join(["id", *(f"{text} AS x{i}" for i, (text, _) in enumerate(table))])
    program = program_of(attributes, f"SELECT {shown} FROM Item OCCURRING AT occTime")
    (wanted, kinds), (found, our_kinds) = on_spark(spark, program), in_process(program, views)
    texts = ["id", *(text for text, _ in table), "occTime"]
    assert dict(zip(texts, map(_ours, our_kinds), strict=True)) == dict(zip(texts, map(_kind, kinds), strict=True))
    assert len(found) == len(wanted)
    ours, theirs = ({row[0]: row for row in rows} for rows in (found, wanted))
    different = [
        (text, key, ours[key][i], theirs[key][i])
        for key in theirs
        for i, text in enumerate(texts)
        if ours[key][i] != theirs[key][i]
    ]
    assert different == []


@pytest.mark.parametrize("name", QUERIES)
def test_queries_are_those_of_spark(spark, views, name):
    program = program_of(*QUERIES[name])
    (wanted, kinds), (found, our_kinds) = on_spark(spark, program), in_process(program, views)
    assert found == wanted
    assert wanted or name == "not in"  # NULL among the items: nothing is known not to be in
    assert [*map(_ours, our_kinds)] == [*map(_kind, kinds)]


@pytest.mark.parametrize("text", FAILURES)
def test_what_fails_on_spark_fails_in_process(spark, views, text):
    program = program_of(f"id INT, x {FAILURES[text][0]}", f"SELECT id, {text} AS x FROM Item OCCURRING AT occTime")
    with pytest.raises((PySparkException, Py4JError)):
        on_spark(spark, program)
    with pytest.raises(SelectFailed):
        in_process(program, views)

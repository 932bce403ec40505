"""One table for events of all classes, as Spark carries it, and the ways between it and what kernels read.

A row has the class (`code`) and a column per class and attribute, NULL for rows of other classes: names and types of
attributes may differ between classes, and Arrow and Spark store each as `kernels.columns.arrow_type` says. Nothing
here starts Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from augury import types as t
from augury.event import ClassKind, EventClass
from augury.kernels.batch import Batch, Integers, Occurrences
from augury.kernels.columns import arrow_type

VERSION: Final = 0
REJECTED: Final = 1
ABSORBED: Final = 2
"""What a row of the accepting task is; of the last there is one, and its `seq` is how many were absorbed."""

OCCURRENCE: Final = 0
ERRORS: Final = 1
"""What a row of the task of a complex class is; of the last there is at most one a task, and its `seq` is how often a
mask, WHERE or RETURN was NULL because of an error. As a row it counts once, however often a task is tried."""

_VERSION_FIELDS: Final = (
    ("what", s.ByteType()),
    ("code", s.ShortType()),
    ("kind", s.ByteType()),
    ("seq", s.LongType()),
    ("occ_time", s.LongType()),
    ("det_time", s.LongType()),
)
REJECTED_COLUMNS: Final = ("place", "event", "reason", "raw")
OCCURRENCE_COLUMNS: Final = ("seq", "rank", "occ_time", "det_time", "constituents")
"""`rank` orders what has one `seq`: all of that comes from one task, in the order of the contract."""


def value_name(code: int, attribute: int) -> str:
    """The column of an attribute of a class."""
    return f"v{code}_{attribute}"


def spark_type(of: t.Type) -> s.DataType:
    """How Spark stores values of a type."""
    match of:
        case t.Boolean():
            return s.BooleanType()
        case t.Int():
            return s.IntegerType()
        case t.BigInt():
            return s.LongType()
        case t.Double():
            return s.DoubleType()
        case t.Decimal(precision, scale):
            return s.DecimalType(precision, scale)
        case t.String():
            return s.StringType()
        case t.Timestamp():
            return s.TimestampType()
        case t.Date():
            return s.DateType()
        case t.Duration():
            return s.DayTimeIntervalType()
        case t.Null():
            return s.NullType()


def accepted_schema(classes: Sequence[EventClass], further: Sequence[tuple[str, s.DataType]]) -> s.StructType:
    """What the accepting task gives: versions with their attributes and further columns, and what is no version."""
    fields = [s.StructField(name, kind) for name, kind in _VERSION_FIELDS]
    fields += [s.StructField(name, s.StringType()) for name in REJECTED_COLUMNS]
    fields += [
        s.StructField(value_name(code, i), spark_type(attribute.type))
        for code, event_class in enumerate(classes)
        for i, attribute in enumerate(event_class.attributes)
    ]
    return s.StructType([*fields, *(s.StructField(name, kind) for name, kind in further)])


def occurrence_schema(event_class: EventClass) -> s.StructType:
    """What the task of a complex class gives: occurrences, and a count of errors; attributes are those of class 0."""
    kinds = [s.LongType(), s.LongType(), s.LongType(), s.LongType(), s.ArrayType(s.LongType())]
    fields = [s.StructField("what", s.ByteType())]
    fields += [s.StructField(name, kind) for name, kind in zip(OCCURRENCE_COLUMNS, kinds, strict=True)]
    attributes = enumerate(event_class.attributes)
    return s.StructType([*fields, *(s.StructField(value_name(0, i), spark_type(a.type)) for i, a in attributes)])


# ---- to the table ------------------------------------------------------------------------------------------------


def version_columns(batch: Batch) -> dict[str, pa.Array]:
    """The versions of a batch as columns, without what depends on who reads them."""
    columns = {
        "what": pa.array(np.full(len(batch), VERSION, np.int8)),
        "code": pa.array(batch.code.astype(np.int16)),
        "kind": pa.array(batch.kind.astype(np.int8)),
        "seq": pa.array(batch.seq),
        "occ_time": pa.array(batch.occ_time),
        "det_time": pa.array(batch.det_time),
    }
    columns |= {name: pa.nulls(len(batch), pa.string()) for name in REJECTED_COLUMNS}
    for code, (event_class, table) in enumerate(zip(batch.classes, batch.tables, strict=True)):
        rows = pa.array(batch.row, mask=batch.code != code)
        for i in range(len(event_class.attributes)):
            columns[value_name(code, i)] = _one_array(table.column(i).take(rows))
    return columns


def occurrence_table(found: Occurrences) -> pa.Table:
    """Occurrences as a table, and their errors as a last row where there are any."""
    constituents = _one_array(found.constituents).cast(pa.list_(pa.int64()))
    rank = pa.array(np.arange(len(found)))
    times = (pa.array(found.occ_time), pa.array(found.det_time))
    columns = {"what": pa.array(np.full(len(found), OCCURRENCE, np.int8))}
    columns |= zip(OCCURRENCE_COLUMNS, (pa.array(found.seq), rank, *times, constituents), strict=True)
    for i, attribute in enumerate(found.event_class.attributes):
        columns[value_name(0, i)] = _one_array(found.values.column(i)).cast(arrow_type(attribute.type))
    table = pa.table(columns)
    return pa.concat_tables([table, _errors(found.errors, table.schema)]) if found.errors else table


def _errors(count: int, schema: pa.Schema) -> pa.Table:
    row = {"what": ERRORS, "seq": count}
    return pa.table([pa.array([row.get(field.name)], field.type) for field in schema], schema=schema)


# ---- from the table ----------------------------------------------------------------------------------------------


def batch_of(table: pa.Table, classes: Sequence[EventClass]) -> Batch:
    """Versions, and complex events right after the version that completed them; attributes that were sent only."""
    code, seq = integers(table, "code"), integers(table, "seq")
    rank = integers(table, "rank") if "rank" in table.column_names else np.zeros(len(seq), np.int64)
    # Complex classes have the higher codes, in order of declaration.
    order = np.lexsort((rank, code, seq))
    code = code[order]
    row = np.zeros(len(order), np.int64)
    tables: list[pa.Table] = []
    constituents: list[pa.Array | None] = []
    for number, event_class in enumerate(classes):
        of = np.flatnonzero(code == number)
        row[of] = np.arange(len(of))
        rows = pa.array(order[of])
        tables.append(_class_table(table, event_class, number, rows))
        derived = "constituents" in table.column_names and event_class.kind is ClassKind.COMPLEX
        constituents.append(_one_array(table.column("constituents").take(rows)) if derived else None)
    return Batch(
        tuple(classes),
        code.astype(np.int16),
        row,
        seq[order],
        integers(table, "occ_time")[order],
        integers(table, "det_time")[order],
        integers(table, "kind")[order].astype(np.uint8),
        tuple(tables),
        tuple(constituents),
    )


def _class_table(table: pa.Table, event_class: EventClass, code: int, rows: pa.Array) -> pa.Table:
    columns = {}
    for i, attribute in enumerate(event_class.attributes):
        name, kind = value_name(code, i), arrow_type(attribute.type)
        if name in table.column_names:
            columns[attribute.name] = table.column(name).take(rows).cast(kind)
        elif not len(rows):  # a class that is not sent; of one that is, an attribute that nobody names is left out
            columns[attribute.name] = pa.array([], kind)
    return pa.table(columns)


def occurrences_of(table: pa.Table, event_class: EventClass) -> Occurrences:
    """The occurrences of a class again, from all its tasks, in the order of the contract; and their errors."""
    what = integers(table, "what")
    errors = int(table.column("seq").to_numpy()[what == ERRORS].sum())
    table = table.filter(pa.array(what == OCCURRENCE))
    order = np.lexsort((integers(table, "rank"), integers(table, "seq")))
    rows = pa.array(order)
    values = {
        attribute.name: table.column(value_name(0, i)).take(rows).cast(arrow_type(attribute.type))
        for i, attribute in enumerate(event_class.attributes)
    }
    return Occurrences(
        event_class,
        integers(table, "seq")[order],
        integers(table, "occ_time")[order],
        integers(table, "det_time")[order],
        pa.table(values),
        _one_array(table.column("constituents").take(rows)).cast(pa.list_(pa.int64())),
        errors,
    )


def integers(table: pa.Table, name: str) -> Integers:
    """A column of whole numbers, none of them NULL."""
    values: npt.NDArray[Any] = table.column(name).to_numpy()
    return values.astype(np.int64, copy=False)


def _one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([pa.array([], values.type), *values.chunks])

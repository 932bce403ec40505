"""One table for events of all classes, as Spark carries it, and the ways between it and what kernels read.

A row has the class (`code`) and a column per class and attribute, NULL for rows of other classes: names and types of
attributes may differ between classes, and Arrow and Spark store each as `kernels.columns.arrow_type` says. Nothing
here starts Spark.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as s

from augury import types as t
from augury.event import ClassKind, EventClass
from augury.kernels.batch import ASSERT, Batch, Integers, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.order import in_order, places

VERSION: Final = 0
REJECTED: Final = 1
ABSORBED: Final = 2
"""What a row of the accepting task is; of the last there is one: its `seq` is how many were absorbed, its `det_time`
how far the clock goes."""

OCCURRENCE: Final = 0
ERRORS: Final = 1
DROPPED: Final = 2
"""What a row of the task of a stage is; of the last two there is at most one for each class and task, and its `seq` is
how often a mask, WHERE or RETURN was NULL because of an error, or how many events were let go because too many waited.
As a row it counts once, however often a task is tried."""

_VERSION_FIELDS: Final = (
    ("what", s.ByteType()),
    ("code", s.ShortType()),
    ("kind", s.ByteType()),
    ("seq", s.LongType()),
    ("occ_time", s.LongType()),
    ("det_time", s.LongType()),
)
END: Final = "end_us"
"""The column that says how far the clock goes, in rows for a group with timers."""

REJECTED_COLUMNS: Final = ("place", "event", "reason", "raw")
HISTORY_COLUMNS: Final = ("kind", "seq", "rank", "occ_time", "det_time", "constituents")
"""What a later class reads of an occurrence. `rank` is its number in its task, where all are in the order of the
contract; what stands at one place and comes from several tasks is put in order again."""

Place = tuple[int, int]
"""An attribute: the number of its class, and its own."""

Names = Mapping[Place, str]
"""The column that has an attribute; classes of which no row has both may share one."""


def value_name(code: int, attribute: int) -> str:
    """The column of an attribute of a class, where each has its own."""
    return f"v{code}_{attribute}"


def lanes_of(attributes: Iterable[tuple[Place, t.Type]]) -> Names:
    """Columns for attributes, shared by those of one type that are of different classes: few columns travel fast."""
    found: dict[Place, str] = {}
    taken: Counter[tuple[int, str]] = Counter()
    for place, of in attributes:
        kind = re.sub(r"\W+", "_", spark_type(of).simpleString()).strip("_")
        found[place] = f"{kind}_{taken[place[0], kind]}"
        taken[place[0], kind] += 1
    return found


def result_lanes(classes: Sequence[EventClass]) -> Names:
    """The columns of what a task finds of these classes."""
    attributes = [((member, i), a.type) for member, c in enumerate(classes) for i, a in enumerate(c.attributes)]
    return lanes_of(attributes)


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


def accepted_schema(classes: Sequence[EventClass], positions: Iterable[str]) -> s.StructType:
    """What accepting tasks give: versions with their attributes and positions, and what is no version."""
    fields = [s.StructField(name, kind) for name, kind in _VERSION_FIELDS]
    fields += [s.StructField(name, s.StringType()) for name in REJECTED_COLUMNS]
    fields += [
        s.StructField(value_name(code, i), spark_type(attribute.type))
        for code, event_class in enumerate(classes)
        for i, attribute in enumerate(event_class.attributes)
    ]
    return s.StructType([*fields, *(s.StructField(name, s.LongType()) for name in positions)])


def rows_schema(classes: Sequence[EventClass], lanes: Names, positions: Iterable[str], *, occ: bool) -> s.StructType:
    """What a group reads of versions; without `occ` the occ_time of each is its det_time."""
    fields = [s.StructField("code", s.ShortType()), s.StructField("seq", s.LongType())]
    fields += [s.StructField(name, s.LongType()) for name in ("det_time", *(["occ_time"] if occ else []), *positions)]
    kinds = {name: classes[code].attributes[i].type for (code, i), name in lanes.items()}
    return s.StructType([*fields, *(s.StructField(name, spark_type(of)) for name, of in kinds.items())])


def occurrence_schema(classes: Sequence[EventClass]) -> s.StructType:
    """What the task of a group gives: occurrences of its classes, `member` says of which, and what it counts."""
    kinds = [s.ByteType(), *[s.LongType()] * 4, s.ArrayType(s.LongType())]
    fields = [s.StructField("what", s.ByteType()), s.StructField("member", s.ShortType())]
    fields += [s.StructField(name, kind) for name, kind in zip(HISTORY_COLUMNS, kinds, strict=True)]
    of_lane = {name: classes[member].attributes[i].type for (member, i), name in result_lanes(classes).items()}
    return s.StructType([*fields, *(s.StructField(name, spark_type(of)) for name, of in of_lane.items())])


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
            columns[value_name(code, i)] = one_array(table.column(i).take(rows))
    return columns


def occurrence_table(members: Sequence[Occurrences]) -> pa.Table:
    """The occurrences of the classes of a group as a table, and what is counted of each where it is not 0."""
    lanes = result_lanes([found.event_class for found in members])
    types = {name: arrow_type(members[m].event_class.attributes[i].type) for (m, i), name in lanes.items()}
    tables = [_member_table(number, found, lanes, types) for number, found in enumerate(members)]
    counts = [
        {"what": what, "member": number, "seq": count}
        for number, found in enumerate(members)
        for what, count in ((ERRORS, found.errors), (DROPPED, found.dropped))
        if count
    ]
    schema = tables[0].schema
    counted = [pa.array([row.get(field.name) for row in counts], field.type) for field in schema]
    return pa.concat_tables([*tables, pa.table(counted, schema=schema)])


def _member_table(number: int, found: Occurrences, lanes: Names, types: Mapping[str, pa.DataType]) -> pa.Table:
    """The occurrences of one class, with the columns of all."""
    constituents = one_array(found.constituents).cast(pa.list_(pa.int64()))
    rank = pa.array(np.arange(len(found)))
    kind = pa.array(found.kind.astype(np.int8))
    times = (pa.array(found.occ_time), pa.array(found.det_time))
    columns = {"what": pa.array(np.full(len(found), OCCURRENCE, np.int8))}
    columns |= {"member": pa.array(np.full(len(found), number, np.int16))}
    columns |= zip(HISTORY_COLUMNS, (kind, pa.array(found.seq), rank, *times, constituents), strict=True)
    own = {lanes[number, i]: found.values.column(i) for i in range(len(found.event_class.attributes))}
    for name, of in types.items():
        columns[name] = one_array(own[name]).cast(of) if name in own else pa.nulls(len(found), of)
    return pa.table(columns)


# ---- from the table ----------------------------------------------------------------------------------------------


def batch_of(table: pa.Table, classes: Sequence[EventClass], names: Names | None = None) -> Batch:
    """Versions, and complex events where they stand among them; attributes that were sent only.

    `names` are the columns of attributes, where classes share some. What has no `kind` is not withdrawn, what has no
    `occ_time` happened when it was detected.
    """
    names = own_columns(classes) if names is None else names
    code = integers(table, "code")
    order = _order(table, code, classes, names)
    code = code[order]
    row = np.zeros(len(order), np.int64)
    tables: list[pa.Table] = []
    constituents: list[pa.Array | None] = []
    for number, event_class in enumerate(classes):
        of = np.flatnonzero(code == number)
        row[of] = np.arange(len(of))
        rows = pa.array(order[of])
        tables.append(_class_table(table, event_class, number, rows, names))
        derived = "constituents" in table.column_names and event_class.kind is ClassKind.COMPLEX
        constituents.append(one_array(table.column("constituents").take(rows)) if derived else None)
    det_time = integers(table, "det_time")[order]
    kind = integers(table, "kind")[order] if "kind" in table.column_names else np.full(len(order), ASSERT)
    return Batch(
        tuple(classes),
        code.astype(np.int16),
        row,
        integers(table, "seq")[order],
        integers(table, "occ_time")[order] if "occ_time" in table.column_names else det_time,
        det_time,
        kind.astype(np.uint8),
        tuple(tables),
        tuple(constituents),
    )


def own_columns(classes: Sequence[EventClass]) -> Names:
    """The columns of attributes where each has its own."""
    return {(code, i): value_name(code, i) for code, c in enumerate(classes) for i in range(len(c.attributes))}


def _order(table: pa.Table, code: Integers, classes: Sequence[EventClass], names: Names) -> Integers:
    """The order of the history: by place, class and rank."""
    seq = integers(table, "seq")
    if "rank" not in table.column_names:
        return np.argsort(seq, kind="stable")  # versions only
    rank = integers(table, "rank")
    place = places(seq, integers(table, "det_time"))
    # Complex classes have the higher codes, in order of declaration.
    order = np.lexsort((rank, code, place))
    for number, event_class in enumerate(classes):
        # What has one place may come from several tasks, each with ranks of its own.
        at = np.flatnonzero(code[order] == number)
        same = np.diff(place[order[at]]) == 0
        at = at[np.append(same, False) | np.append(False, same)] if len(at) else at
        if event_class.kind is ClassKind.COMPLEX and len(at):
            rows = order[at]
            lists = table.column("constituents").take(pa.array(rows)).to_pylist()
            own = [names[number, i] for i in range(len(event_class.attributes))]
            values = [table.column(name).take(pa.array(rows)) for name in own]
            occ_time = integers(table, "occ_time")[rows]
            order[at] = rows[in_order(event_class, place[rows], lists, values, occ_time)]
    return order


def _class_table(table: pa.Table, event_class: EventClass, code: int, rows: pa.Array, names: Names) -> pa.Table:
    columns = {}
    for i, attribute in enumerate(event_class.attributes):
        name, kind = names.get((code, i)), arrow_type(attribute.type)
        if name is not None and name in table.column_names:
            columns[attribute.name] = table.column(name).take(rows).cast(kind)
        elif not len(rows):  # a class that is not sent; of one that is, an attribute that nobody names is left out
            columns[attribute.name] = pa.array([], kind)
    return pa.table(columns)


def occurrences_of(table: pa.Table, event_class: EventClass) -> Occurrences:
    """The occurrences of a class again, from all its tasks, in the order of the contract; and what they counted."""
    what = integers(table, "what")
    errors, dropped = (int(table.column("seq").to_numpy()[what == counted].sum()) for counted in (ERRORS, DROPPED))
    table = table.filter(pa.array(what == OCCURRENCE))
    order = _order(table, np.zeros(len(table), np.int64), [event_class], own_columns([event_class]))
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
        integers(table, "kind")[order].astype(np.uint8),
        pa.table(values),
        one_array(table.column("constituents").take(rows)).cast(pa.list_(pa.int64())),
        errors,
        dropped,
    )


def integers(table: pa.Table, name: str) -> Integers:
    """A column of whole numbers, none of them NULL."""
    values: npt.NDArray[Any] = table.column(name).to_numpy()
    return values.astype(np.int64, copy=False)


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays([pa.array([], values.type), *values.chunks])


def spark_schema(schema: pa.Schema) -> s.StructType:
    """A table of ticks as Spark has it."""
    return s.StructType([s.StructField(one.name, plain_type(one.type)) for one in schema])


def plain_type(kind: pa.DataType) -> s.DataType:
    """How Spark stores a column that is no attribute."""
    if pa.types.is_timestamp(kind):
        return s.TimestampType()
    if pa.types.is_list(kind):
        return s.ArrayType(plain_type(kind.value_type))
    if pa.types.is_int64(kind):
        return s.LongType()
    if pa.types.is_int32(kind):
        return s.IntegerType()
    return s.DoubleType() if pa.types.is_floating(kind) else s.StringType()

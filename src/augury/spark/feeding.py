"""Which rows and columns a group of stages reads, as Spark expressions, and how they are brought together.

In: versions as accepting tasks give them, what earlier groups found, and a group. Out: data frames that `tasks.Detect`
reads. What no leaf can be true of is left out here, before it is shuffled; no event is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from augury import types as t
from augury.algebra.operators import Operator
from augury.algebra.scalar import Apply, Constant, Field, Scalar
from augury.engine.keys import Key
from augury.event import EventClass, key_of
from augury.kernels.batch import ASSERT
from augury.kernels.columns.column import DAY_US
from augury.spark.layout import HISTORY_COLUMNS, OCCURRENCE, VERSION, spark_type, value_name
from augury.spark.masks import needed
from augury.spark.stage import Group

ColumnOf = Callable[[int, int], Column]
"""The column of an attribute, by the numbers of its class and its own."""


def rows_of_versions(group: Group, accepted: DataFrame, *, occ: bool = True) -> DataFrame:
    """The versions that a group reads; without `occ` none has an occ_time of its own."""
    here = (f.col("what") == VERSION) & (f.col("kind") == ASSERT) & f.col("code").isin(list(group.own))
    wanted = matters(group, _own_column)
    heads = [f.col(name) for name in ("code", "seq", "det_time", *(["occ_time"] if occ else []), *group.histories)]
    return accepted.where(here if wanted is None else here & wanted).select(*heads, *lane_columns(group, _own_column))


def lane_columns(group: Group, column_of: ColumnOf) -> list[Column]:
    """The attributes that a group reads of versions, classes of one type side by side in one column."""
    lanes: dict[str, list[tuple[int, Column]]] = {}
    for (code, i), name in group.lanes.items():
        if code in group.own:
            lanes.setdefault(name, []).append((code, column_of(code, i)))
    return [_chosen(places, group.own).alias(name) for name, places in lanes.items()]


def _own_column(code: int, attribute: int) -> Column:
    return f.col(value_name(code, attribute))


def _chosen(places: Sequence[tuple[int, Column]], of: Sequence[int]) -> Column:
    """The column of a row's class; where all classes have the same, that."""
    distinct = {str(column): column for _, column in places}
    if len(distinct) == 1 and len(places) == len(of):
        return places[0][1]
    return reduce(
        lambda rest, one: f.when(f.col("code") == one[0], one[1]).otherwise(rest),
        places[1:],
        f.when(f.col("code") == places[0][0], places[0][1]),
    )


def with_complex_events(group: Group, rows: DataFrame, found: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of versions, and the complex events that a group reads besides."""
    derived = [code for code in group.sent if code not in group.own]
    if not derived:
        return rows
    rows = rows.withColumn("kind", f.lit(ASSERT).cast("tinyint"))
    for code in derived:
        events = occurrences(found[key_of(group.classes[code].name)])
        values = [f.col(value_name(0, i)).alias(name) for (c, i), name in group.lanes.items() if c == code]
        here = events.select(f.lit(code).cast("smallint").alias("code"), *HISTORY_COLUMNS, *values)
        rows = rows.unionByName(here, allowMissingColumns=True)
    # Of a version there is one to a seq, and it comes first by its class.
    return rows.fillna(0, ["rank"])


def occurrences(found: DataFrame) -> DataFrame:
    """What tasks found, without what they counted."""
    return found.where(f.col("what") == OCCURRENCE)


# ---- by key ------------------------------------------------------------------------------------------------------


def brought_together(group: Group, rows: DataFrame, partitions: int | None) -> DataFrame:
    """The rows of a group, those of a key in one partition; for one in ranges of the history see `ranges`."""
    if not group.keys:
        return rows.repartition(1)
    keys = [_key(group, key, "occ_time" in rows.columns) for key in group.keys]
    return rows.repartition(*keys) if partitions is None else rows.repartition(partitions, *keys)


def _key(group: Group, key: Key, has_occ: bool) -> Column:
    """Equal values are stored equally, so that one hash brings them to one task."""
    places = []
    for code, name in key.places:
        if code in group.sent:
            event_class = group.classes[code]
            attribute = event_class.attribute(name)
            assert attribute is not None, "a key is made of attributes"
            places.append((code, as_type(_place(group, code, event_class, name, has_occ), attribute.type, key.type)))
    found = _chosen(places, group.sent)
    return found + f.lit(0.0) if isinstance(key.type, t.Double) else found


def _place(group: Group, code: int, event_class: EventClass, name: str, has_occ: bool) -> Column:
    if name in ("occ_time", "det_time"):
        return f.timestamp_micros(name if has_occ else "det_time")
    at = next(i for i, attribute in enumerate(event_class.attributes) if attribute.name == name)
    return f.col(group.lanes[code, at])


def as_type(values: Column, of: t.Type, to: t.Type) -> Column:
    """Values as those of another type that holds them all, whatever the zone of the session."""
    if spark_type(of) == spark_type(to):
        return values
    if isinstance(of, t.Date) and isinstance(to, t.Timestamp):
        return f.timestamp_micros(f.unix_date(values).cast("bigint") * DAY_US)
    return values.cast(spark_type(to))


# ---- masks -------------------------------------------------------------------------------------------------------


def matters(group: Group, column_of: ColumnOf) -> Column | None:
    """Which rows some leaf of a group may be true of; None where that is not asked, or is all of them.

    What is not surely false of a row here is looked at again by the kernel, so a mask is taken as far as it is plain.
    """
    if group.leaves is None:
        return None
    tests = needed(group.leaves, group.classes, group.own)
    if all(of_class is None for of_class in tests.values()):
        return None
    each = [_of_class(code, group.classes[code], told, column_of) for code, told in tests.items() if told != []]
    return reduce(Column.__or__, each) if each else f.lit(False)


def _of_class(code: int, event_class: EventClass, told: list[Scalar] | None, column_of: ColumnOf) -> Column:
    here = f.col("code") == code
    if told is None:
        return here
    numbers = {key_of(attribute.name): i for i, attribute in enumerate(event_class.attributes)}
    return here & reduce(Column.__or__, [_test(one, numbers, partial(column_of, code)) for one in told])


def _test(told: Scalar, numbers: Mapping[str, int], column: Callable[[int], Column]) -> Column:
    match told:
        case Apply(operator=Operator.AND, operands=operands):
            return reduce(Column.__and__, [_test(one, numbers, column) for one in operands])
        case Apply(operator=Operator.OR, operands=operands):
            return reduce(Column.__or__, [_test(one, numbers, column) for one in operands])
        case Apply(operator=operator, operands=(Field() as field, Constant() as constant)):
            return _COMPARED[operator](column(numbers[key_of(field.name)]), f.lit(constant.value))
        case _:
            raise AssertionError("masks are made of AND, OR and comparisons")


_COMPARED: Mapping[Operator, Callable[[Column, Column], Column]] = {
    Operator.EQ: lambda left, right: left == right,
    Operator.NE: lambda left, right: left != right,
    Operator.LT: lambda left, right: left < right,
    Operator.LE: lambda left, right: left <= right,
    Operator.GT: lambda left, right: left > right,
    Operator.GE: lambda left, right: left >= right,
}

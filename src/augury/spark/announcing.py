"""Which events announce, change or withdraw one, as a column of the frames of a batch at once, by Spark expressions.

In: rows of classes with their `seq`, times in microseconds and attributes, and the versions that they are made of. Out:
the same rows with a column `change`. The rules are those of `engine.changes` for complex events and of
`history.versions` for what came in. Whoever does not select the column pays nothing: Spark leaves out what makes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from augury.algebra.program import Program
from augury.event import EventClass, key_of
from augury.history.versions import ANNOUNCE, CHANGE, WITHDRAWN
from augury.history.views import CHANGES
from augury.kernels.batch import ASSERT, NO_SEQ, WITHDRAW
from augury.spark.layout import VERSION, Names
from augury.spark.stage import subscribed

FOR_EVER_US: Final = (1 << 63) - 1

_BEFORE, _MADE_OF, _TICK, _UNTIL = "__before_us", "__made_of", "__tick_us", "__until_us"


def announced(
    rows: DataFrame,
    which: str,
    classes: Mapping[int, EventClass],
    names: Names,
    made_of: Callable[[], DataFrame] | None,
    chronon_us: int,
) -> DataFrame:
    """Rows of some classes with `change`; the column `which` has the number of each row's class.

    `made_of` has what `versions_expiring` gives, of what complex events are made of; None for what came in.
    """
    keyed = [number for number, one in classes.items() if one.key]
    if not keyed:
        return rows.withColumn("change", f.lit(CHANGES[ANNOUNCE]))
    own_until = _until(f.col("occ_time"), f.col(which), classes)
    expires = any(classes[number].lifespan_us is not None for number in keyed)
    before = Window.partitionBy(*_identity(which, classes, names)).orderBy(*_order(rows, names))
    published_us = f.col("det_time") - (f.col("seq") == NO_SEQ).cast("bigint")
    tick = published_us - f.pmod(published_us, f.lit(chronon_us))
    gone = (f.lag(own_until).over(before) < tick) & (f.lag("det_time").over(before) < tick)
    # A withdrawn event is no longer there for the next one to change.
    there = f.lag(f.when(f.col("kind") == ASSERT, f.col("det_time"))).over(before)
    if not expires or made_of is None:
        kept = there.isNotNull() if not expires else there.isNotNull() & ~f.coalesce(gone, f.lit(False))
        return rows.withColumn("change", _said(f.col(which).isin(keyed) & kept))
    made = f.when(gone, f.lag("constituents").over(before))
    paired = rows.withColumns({_BEFORE: there, _MADE_OF: made, _TICK: tick})
    paired = paired.join(_expiries(paired, made_of()), _MADE_OF, "left")
    is_gone = f.col(_MADE_OF).isNotNull() & (f.coalesce(_UNTIL, f.lit(-FOR_EVER_US)) < f.col(_TICK))
    kept = f.col(which).isin(keyed) & f.col(_BEFORE).isNotNull() & ~is_gone
    return paired.select(*rows.columns, _said(kept).alias("change"))


def versions_expiring(program: Program, accepted: DataFrame) -> DataFrame:
    """When each accepted version expires, by its `seq`: what `announced` asks about constituents."""
    here = accepted.where((f.col("what") == VERSION) & (f.col("kind") == ASSERT))
    until = _until(f.col("occ_time"), f.col("code"), dict(enumerate(subscribed(program))))
    return here.select("seq", f.coalesce(until, f.lit(FOR_EVER_US)).alias(_UNTIL))


def kept_by_constituents(program: Program, event_class: EventClass) -> EventClass:
    """A complex class, as lasting for ever where all that it may be made of does."""
    for_ever = all(one.lifespan_us is None for one in subscribed(program))
    return replace(event_class, lifespan_us=None) if for_ever else event_class


def _expiries(paired: DataFrame, made_of: DataFrame) -> DataFrame:
    """The lists of constituents that are asked about, each with when the last of them expires."""
    asked = paired.where(f.col(_MADE_OF).isNotNull()).select(_MADE_OF).distinct()
    each = asked.select(_MADE_OF, f.explode(_MADE_OF).alias("seq"))
    # Grouped by what it is joined by, so that Spark leaves the join out where nobody asks for `change`.
    return each.join(made_of, "seq").groupBy(_MADE_OF).agg(f.max(_UNTIL).alias(_UNTIL))


def _said(changes: Column) -> Column:
    """The word for each row, by whether it changes one that is there."""
    change = f.when(changes, CHANGES[CHANGE]).otherwise(CHANGES[ANNOUNCE])
    return f.when(f.col("kind") == WITHDRAW, CHANGES[WITHDRAWN]).otherwise(change)


def _until(occ_time: Column, which: Column, classes: Mapping[int, EventClass]) -> Column:
    """When a row of one of these classes expires by itself; NULL for never."""
    until = f.lit(None).cast("bigint")
    for number, one in classes.items():
        if one.lifespan_us is not None:
            until = f.when(which == number, f.try_add(occ_time, f.lit(one.lifespan_us))).otherwise(until)
    return until


def _identity(which: str, classes: Mapping[int, EventClass], names: Names) -> list[Column]:
    """What rows of one event have in common; what has no key is an event by itself."""
    users: dict[str, list[int]] = {}
    for number, one in classes.items():
        key = {key_of(name) for name in one.key}
        for i, attribute in enumerate(one.attributes):
            if key_of(attribute.name) in key:
                users.setdefault(names[number, i], []).append(number)
    columns = [f.when(f.col(which).isin(numbers), f.col(name)) for name, numbers in users.items()]
    alone = [number for number, one in classes.items() if not one.key]
    return [f.col(which), *columns, *([f.when(f.col(which).isin(alone), f.col("seq"))] if alone else [])]


def _order(rows: DataFrame, names: Names) -> list[Column]:
    """The order of the contract (`kernels.order`) among rows of one key."""
    seq = f.col("seq")
    order = [f.col("det_time").asc(), f.abs(seq).asc(), (seq <= NO_SEQ).asc()]
    if "constituents" in rows.columns:
        values = [f.col(name).asc_nulls_last() for name in dict.fromkeys(names.values())]
        order += [f.col("constituents").asc(), *values, f.col("occ_time").asc()]
    return order

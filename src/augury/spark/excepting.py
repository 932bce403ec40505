"""Of rows that are fine by themselves those that are no versions because of others with their key: few, as a rule.

In: a `Sure` data frame, and what a glance at it told. Out: where these rows came. They are duplicates of rows of their
det_time, which a glance suspects by their hashes, and rows of immutable classes whose event is there already. Only
what may be one of them is brought together by key and judged, by the rules of `history.versions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from augury.event import EventClass
from augury.history.versions import ABSORBED, Rows, judge
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.spark.layout import Place, integers, value_name
from augury.spark.looks import NO_PLACES, Placed, Summary, met_us
from augury.spark.sheets import CODE
from augury.spark.sure import CAME, PART_BITS, Sure, of_keys, plain_zero
from augury.spark.tasks import Batches

PLACES_MAX: Final = 4_000_000
"""Rows that are told apart by where they came: every task has them all."""

_TIMES_MAX: Final = 10_000
"""Times at which runs meet that are told in an expression."""


def excepted(
    sure: Sure, summaries: Sequence[Summary], order: Sequence[Placed], chronon_us: int, partitions: int
) -> Integers | None:
    """Where rows came that are no versions, ascending; None if they are too many. Runs a job if there may be some."""
    mutable = [code for code in sure.keyed if sure.classes[code].mutable]
    immutable = [code for code in sure.keyed if code not in mutable]
    alike = np.concatenate([NO_PLACES, *((one.part << PART_BITS) + one.alike for one in summaries)])
    met = met_us(order) if mutable else ()
    if max(len(alike) / PLACES_MAX, len(met) / _TIMES_MAX) > 1:
        return None
    rows, parts = sure.came(), []
    meets = sure.det_us.isin(list(met))
    if len(alike):
        # Of a time at which runs meet all rows are looked at, below.
        suspects = rows.where(f.col(CODE).isin(mutable) & ~meets)
        parts.append(suspects.join(f.broadcast(places_frame(rows, alike)), CAME, "left_semi"))
    if met:
        parts.append(rows.where(f.col(CODE).isin(mutable) & meets))
    if immutable:
        parts.append(rows.where(f.col(CODE).isin(immutable)))
    if not parts:
        return NO_PLACES
    sent = _sent(sure)
    heads = (CAME, CODE, sure.det_us.alias("det_time"), sure.occ_us.alias("occ_time"))
    columns = [sure.values[place].alias(value_name(*place)) for place in sent]
    together = reduce(DataFrame.unionAll, [part.select(*heads, *columns) for part in parts])
    together = together.repartition(partitions, _key(sure))
    found = together.mapInArrow(Except(sure.classes, frozenset(sent), chronon_us), f"{CAME} bigint")
    if found.persist().count() > PLACES_MAX:
        found.unpersist()
        return None
    places = np.sort(integers(found.toArrow(), CAME))
    found.unpersist()
    return places


def places_frame(beside: DataFrame, places: Integers) -> DataFrame:
    """Places as a data frame."""
    return beside.sparkSession.createDataFrame(pa.table({CAME: pa.array(places, pa.int64())}))


def _sent(sure: Sure) -> list[Place]:
    """The attributes that rows are judged by: of an immutable class a second row is none whatever else it says."""
    of_key = set(of_keys(sure.classes))
    return [
        (code, i)
        for code in sure.keyed
        for i in range(len(sure.classes[code].attributes))
        if sure.classes[code].mutable or (code, i) in of_key
    ]


def _key(sure: Sure) -> Column:
    """What brings together the rows of a key."""
    places = list(of_keys(sure.classes))
    found = f.lit(0)
    for code in sure.keyed:
        types = [(i, sure.classes[code].attributes[i].type) for c, i in places if c == code]
        key = f.hash(f.lit(code), *(plain_zero(f.col(value_name(code, i)), of) for i, of in types))
        found = f.when(f.col(CODE) == code, key).otherwise(found)
    return found


@dataclass(frozen=True, slots=True)
class Except:
    """Rows of classes with keys, those of a key together → where those came that are no versions."""

    classes: tuple[EventClass, ...]
    sent: frozenset[Place]
    chronon_us: int

    def __call__(self, batches: Batches) -> Batches:
        """Judge the rows class by class."""
        came = list(batches)
        if not came:
            return
        table = pa.Table.from_batches(came)
        codes = integers(table, CODE)
        for code in np.unique(codes).tolist():
            places = self._excepted(code, table.filter(pa.array(codes == code)))
            yield pa.RecordBatch.from_pydict({CAME: pa.array(places, pa.int64())})

    def _excepted(self, code: int, table: pa.Table) -> Integers:
        event_class = self.classes[code]
        order = np.lexsort((integers(table, CAME), integers(table, "det_time")))
        table = table.take(pa.array(order))
        values = [
            table.column(value_name(code, i))
            if (code, i) in self.sent
            else pa.nulls(len(table), arrow_type(attribute.type))
            for i, attribute in enumerate(event_class.attributes)
        ]
        times = integers(table, "occ_time"), integers(table, "det_time")
        rows = Rows(values, *times, np.zeros(len(table), np.bool_), None)
        verdicts = judge(event_class, rows, self.chronon_us).verdicts
        return integers(table, CAME)[verdicts >= ABSORBED]

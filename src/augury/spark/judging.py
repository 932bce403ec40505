"""Tasks for events that have to be judged beside others, or that do not come in order of det_time.

In: Arrow batches of data frames. Out, step by step: typed rows, each with its range of det_time (`Spread`, and `Post`
for the clock's); rows that are versions, once those of a key are together (`Judge`); versions with their rank in
their range, once those of a range are (`Rank`). How many come before a range is for `numbering` to add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as s

from augury.algebra.program import Program
from augury.event import EventClass
from augury.history.coming import received
from augury.history.refusing import refused
from augury.history.versions import ABSORBED as IS_ABSORBED
from augury.history.versions import IMMUTABLE, Rows, judge
from augury.kernels.batch import ASSERT, WITHDRAW, Integers
from augury.kernels.columns import arrow_type
from augury.spark.layout import (
    ABSORBED,
    REJECTED,
    VERSION,
    accepted_schema,
    integers,
    one_array,
    own_columns,
    spark_type,
)
from augury.spark.looks import Places, Ranges
from augury.spark.sheets import ROW_BITS, Source, sheets, value_columns
from augury.spark.tasks import ROWS_AT_ONCE, Batches, positions

_HEADS: dict[str, tuple[s.DataType, pa.DataType]] = {
    "what": (s.ByteType(), pa.int8()),
    "code": (s.ShortType(), pa.int16()),
    "kind": (s.ByteType(), pa.int8()),
    "seq": (s.LongType(), pa.int64()),
    "occ_time": (s.LongType(), pa.int64()),
    "det_time": (s.LongType(), pa.int64()),
    "came": (s.LongType(), pa.int64()),
    "there": (s.LongType(), pa.int64()),
    "range": (s.IntegerType(), pa.int32()),
    "event_id": (s.StringType(), pa.string()),
    "event": (s.StringType(), pa.string()),
    "reason": (s.StringType(), pa.string()),
    "raw": (s.StringType(), pa.string()),
}
"""Of a typed row: what it is, where it `came`, for one refused because of a version where that came (`there`)."""


def typed_schema(classes: Sequence[EventClass]) -> s.StructType:
    """What `Spread`, `Post` and `Judge` give."""
    fields = [s.StructField(name, kind) for name, (kind, _) in _HEADS.items()]
    types = {name: classes[code].attributes[i].type for (code, i), name in own_columns(classes).items()}
    return s.StructType([*fields, *(s.StructField(name, spark_type(of)) for name, of in types.items())])


def _arrow_schema(classes: Sequence[EventClass]) -> pa.Schema:
    fields = [(name, kind) for name, (_, kind) in _HEADS.items()]
    types = {name: classes[code].attributes[i].type for (code, i), name in own_columns(classes).items()}
    return pa.schema([*fields, *((name, arrow_type(of)) for name, of in types.items())])


def _filled(columns: dict[str, pa.Array], count: int, schema: pa.Schema) -> pa.Table:
    """A table with NULL in all columns that are not given."""
    return pa.table([columns.get(f.name, pa.nulls(count, f.type)) for f in schema], schema=schema)


# ---- typed rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spread:
    """The rows of a partition of a data frame → typed rows, and refusals."""

    program: Program
    source: Source
    until_us: int | None
    judged: frozenset[int]
    ranges: Ranges

    def __call__(self, batches: Batches) -> Batches:
        """Type all of them."""
        classes = received(self.program)
        schema = _arrow_schema(classes)
        for sheet, _ in sheets(self.program, self.source, batches, self.until_us, self.judged):
            base, det_us = sheet.part << ROW_BITS, sheet.times("det_time")
            ids = {code: part.event_id for code, part in sheet.parts.items() if part.event_id is not None}
            columns = {
                "what": pa.array(np.full(len(sheet), VERSION, np.int8)),
                "code": pa.array(sheet.code),
                "kind": pa.array(sheet.kind),
                "occ_time": pa.array(sheet.times("occ_time")),
                "det_time": pa.array(det_us),
                "came": pa.array(base + sheet.at),
                "range": pa.array(self.ranges.of(det_us)),
                "event_id": sheet.column(ids, pa.string()),
                **value_columns(sheet, classes),
            }
            rejected = [
                {"what": REJECTED, "came": base + r.position, "event": r.event, "reason": r.reason, "raw": r.raw}
                for r in sheet.refusals
            ]
            # They need no place in the history: any range does.
            rejected = [row | {"range": i % len(self.ranges)} for i, row in enumerate(rejected)]
            yield from _filled(columns, len(sheet), schema).to_batches(max_chunksize=ROWS_AT_ONCE)
            yield from pa.Table.from_pylist(rejected, schema=schema).to_batches()


@dataclass(frozen=True, slots=True)
class Post:
    """Nothing → the events of clock classes that are due, as typed rows: (class, time) each, the first class first."""

    classes: tuple[EventClass, ...]
    due_us: tuple[tuple[int, Sequence[int]], ...]
    ranges: Ranges

    def __call__(self, batches: Batches) -> Batches:
        """Post them; what comes in is of no use."""
        for _ in batches:
            pass
        schema = _arrow_schema(self.classes)
        for code, times_us in self.due_us:
            due = np.array(times_us, np.int64)
            columns = {
                "what": pa.array(np.full(len(due), VERSION, np.int8)),
                "code": pa.array(np.full(len(due), code, np.int16)),
                "kind": pa.array(np.full(len(due), ASSERT, np.int8)),
                "occ_time": pa.array(due),
                "det_time": pa.array(due),
                # Before whatever is detected at the same time, in order of declaration.
                "came": pa.array(np.full(len(due), code - len(self.classes))),
                "range": pa.array(self.ranges.of(due)),
            }
            yield from _filled(columns, len(due), schema).to_batches(max_chunksize=ROWS_AT_ONCE)


# ---- versions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judge:
    """Typed rows, those of a key or an id together → versions, what is refused, and how many were absorbed."""

    classes: tuple[EventClass, ...]
    chronon_us: int
    judged: frozenset[int]
    ranges: Ranges

    def __call__(self, batches: Batches) -> Batches:
        """Judge the rows class by class; others pass."""
        schema = _arrow_schema(self.classes)
        waiting: dict[int, list[pa.Table]] = {}
        for batch in batches:
            table = pa.Table.from_batches([batch]).cast(schema)
            code = table.column("code").fill_null(-1).to_numpy()
            passes = ~np.isin(code, list(self.judged))
            yield from table.filter(pa.array(passes)).to_batches()
            for number in self.judged:
                if (code == number).any():
                    waiting.setdefault(number, []).append(table.filter(pa.array(code == number)))
        for number, tables in waiting.items():
            for found in self._judged(number, pa.concat_tables(tables)):
                yield from found.to_batches(max_chunksize=ROWS_AT_ONCE)

    def _judged(self, number: int, table: pa.Table) -> Iterator[pa.Table]:
        event_class = self.classes[number]
        table = table.take(pa.array(np.lexsort((integers(table, "came"), integers(table, "det_time")))))
        names = [name for (code, _), name in own_columns(self.classes).items() if code == number]
        ids = table.column("event_id")
        times = (integers(table, "occ_time"), integers(table, "det_time"))
        withdrawal = integers(table, "kind") == WITHDRAW
        rows = Rows(
            [table.column(n) for n in names], *times, withdrawal, None if ids.null_count == len(ids) else one_array(ids)
        )
        found = judge(event_class, rows, self.chronon_us)
        yield table.filter(pa.array(found.verdicts < IS_ABSORBED))
        came = integers(table, "came")
        refusals = refused(event_class, rows, found.verdicts, np.arange(len(table)), lambda _: 0)
        at = np.array([refusal.position for refusal in refusals], np.int64)
        there = (
            np.where(found.verdicts[at] == IMMUTABLE, found.there[at], -1) if len(found.there) else np.full(len(at), -1)
        )
        columns: dict[str, Any] = {
            "what": pa.array(np.full(len(at), REJECTED, np.int8)),
            "came": pa.array(came[at]),
            "there": pa.array(came[there], mask=there < 0),
            "range": pa.array(self.ranges.of(times[1][np.where(there < 0, at, there)])),
            "event": pa.array([refusal.event for refusal in refusals], pa.string()),
            # The number of what is there ends the sentence, and is not known yet.
            "reason": pa.array(
                [r.reason.removesuffix("0") if t >= 0 else r.reason for r, t in zip(refusals, there, strict=True)],
                pa.string(),
            ),
            "raw": pa.array([refusal.raw for refusal in refusals], pa.string()),
        }
        yield _filled(columns, len(at), table.schema)
        absorbed = int((found.verdicts == IS_ABSORBED).sum())
        counted = {
            "what": pa.array([ABSORBED], pa.int8()),
            "seq": pa.array([absorbed]),
            "range": pa.array([0], pa.int32()),
        }
        yield _filled(counted, 1, table.schema)


# ---- ranks -------------------------------------------------------------------------------------------------------


def ranked_schema(classes: Sequence[EventClass], histories: Sequence[str]) -> s.StructType:
    """What `Rank` gives: as accepting tasks do, and the range of each row, and the rank of what a refusal names."""
    fields = accepted_schema(classes, histories).fields
    return s.StructType([*fields, s.StructField("range", s.IntegerType()), s.StructField("since", s.LongType())])


@dataclass(frozen=True, slots=True)
class Rank:
    """The rows of a range → versions with their ranks in it for `seq`, and for positions; and the rest."""

    classes: tuple[EventClass, ...]
    histories: tuple[tuple[str, tuple[int, ...]], ...]
    places: Places

    def __call__(self, batches: Batches) -> Batches:
        """Put all of them in order."""
        came = list(batches)
        if not came:
            return
        table = pa.Table.from_batches(came).cast(_arrow_schema(self.classes))
        what = integers(table, "what")
        versions = table.filter(pa.array(what == VERSION))
        order = np.lexsort((integers(versions, "came"), integers(versions, "det_time")))
        versions = versions.take(pa.array(order))
        yield from self._shown(versions, np.arange(1, len(versions) + 1), None, None)
        others = table.filter(pa.array(what == ABSORBED))
        yield from self._shown(others, integers(others, "seq"), None, None)
        rejected = table.filter(pa.array(what == REJECTED))
        where = [divmod(at, 1 << ROW_BITS) for at in rejected.column("came").to_pylist()]
        seq = np.array([self.places.position(*at) for at in where], np.int64)
        place = pa.array([self.places.place(*at) for at in where], pa.string())
        yield from self._shown(rejected, seq, place, _since(versions, rejected.column("there")))

    def _shown(self, table: pa.Table, seq: Integers, place: pa.Array | None, since: pa.Array | None) -> Batches:
        count = len(table)
        columns = {name: table.column(name) for name in table.column_names}
        columns |= {"seq": pa.array(seq), "place": pa.nulls(count, pa.string()) if place is None else place}
        columns["since"] = pa.nulls(count, pa.int64()) if since is None else since
        for name, codes in self.histories:
            code = table.column("code").fill_null(-1).to_numpy()
            columns[name] = positions(codes, code, table.column("kind").fill_null(WITHDRAW).to_numpy())
        names = ranked_schema(self.classes, [name for name, _ in self.histories]).fieldNames()
        yield from pa.table({name: columns[name] for name in names}).to_batches(max_chunksize=ROWS_AT_ONCE)


def _since(versions: pa.Table, there: pa.ChunkedArray) -> pa.Array:
    """The rank of the version that each refusal names."""
    came = integers(versions, "came")
    order = np.argsort(came)
    named = there.fill_null(-1).to_numpy()
    if not len(came):
        return pa.nulls(len(named), pa.int64())
    at = order[np.minimum(np.searchsorted(came[order], named), len(came) - 1)]
    return pa.array(at + 1, mask=named < 0)

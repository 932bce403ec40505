"""What runs in Spark's Python workers: Arrow batches in, Arrow batches out, each task one call of the core.

`Pack` makes raw events of a source into bytes of one shape, `Accept` makes versions of them, `Detect` runs one stage
over what its partition holds. Nothing here knows data frames.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Program
from augury.history.accept import accept, end_of
from augury.history.raw import Raw, RawTable, Rejected
from augury.kernels.batch import Batch, Integers, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.composite.sharing import Run, occurrences_in
from augury.kernels.match import REFUSALS, detector_of, initial_state, step
from augury.kernels.match.leaves import history_rows, taken
from augury.kernels.match.refusals import refusal
from augury.spark.layout import (
    ABSORBED,
    END,
    REJECTED,
    REJECTED_COLUMNS,
    batch_of,
    integers,
    occurrence_table,
    version_columns,
)
from augury.spark.stage import ENGINE, Key, Stage

Batches = Iterator[pa.RecordBatch]

_ROWS_AT_ONCE: Final = 65_536
_TIMES: Final = ("occ_time", "det_time")

PACKED: Final = pa.schema([("source", pa.int32()), ("part", pa.int32()), ("at", pa.int64()), ("packed", pa.binary())])
"""Raw events of any source: its number, the partition and the place there that they come from, and they as bytes."""


# ---- raw events --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pack:
    """A data frame of events → packed rows, a batch each; sources may have different columns."""

    number: int
    name: str
    event_class: str | None

    def __call__(self, batches: Batches) -> Batches:
        """Pack the batches of one partition."""
        context = TaskContext.get()
        part = 0 if context is None else context.partitionId()
        for at, batch in enumerate(batches):
            raw = RawTable(self.name, pa.Table.from_batches([batch]), None, self.event_class)
            yield packed_row(self.number, part, at, raw)


def packed_row(source: int, part: int, at: int, raw: Raw) -> pa.RecordBatch:
    """One row of the shape PACKED."""
    values = [[source], [part], [at], [pack(raw)]]
    return pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in zip(values, PACKED, strict=True)], schema=PACKED)


def pack(raw: Raw) -> bytes:
    """Raw events as bytes. They go from our driver to our workers and nowhere else, so pickle may read them."""
    if isinstance(raw, RawTable):
        # Arrow's own format: a pickled slice of a table would bring all of the table along.
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, raw.table.schema) as stream:
            stream.write_table(raw.table)
        return pickle.dumps((replace(raw, table=None), sink.getvalue().to_pybytes()))
    return pickle.dumps((raw, b""))


def unpack(packed: bytes) -> Raw:
    """The raw events again."""
    raw: Raw
    raw, table = pickle.loads(packed)
    return replace(raw, table=pa.ipc.open_stream(table).read_all()) if isinstance(raw, RawTable) else raw


def _unpacked(batches: Batches) -> Iterator[Raw]:
    """Raw events in the order of their sources; rows of tables are counted where they have no numbers."""
    table = pa.Table.from_batches(batches, PACKED)
    order = np.lexsort((integers(table, "at"), integers(table, "part"), integers(table, "source")))
    count: dict[int, int] = {}
    for row in order.tolist():
        raw = unpack(table.column("packed")[row].as_py())
        if isinstance(raw, RawTable) and raw.numbers is None:
            source = table.column("source")[row].as_py()
            first = count.get(source, 0) + 1
            count[source] = first + raw.table.num_rows - 1
            raw = replace(raw, numbers=range(first, count[source] + 1))
        yield raw


# ---- versions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Accept:
    """Packed raw events, all of them → versions numbered by `seq`, with the columns that stages ask for; and the rest.

    That one task sees all of them is the limit of this engine for now: `seq` is one order. It is to be given by
    ranges of det_time, counted first.
    """

    program: Program
    stages: tuple[Stage, ...]
    until_us: int | None

    def __call__(self, batches: Batches) -> Batches:
        """Accept what came."""
        accepted = accept(self.program, _unpacked(batches), until_us=self.until_us)
        columns = version_columns(accepted.batch)
        for stage in self.stages:
            columns |= _further(stage, accepted.batch)
        versions = pa.table(columns)
        yield from versions.to_batches(max_chunksize=_ROWS_AT_ONCE)
        end_us = end_of(accepted.batch, self.program.settings.chronon_us) if self.until_us is None else self.until_us
        yield from _no_versions(accepted.rejected, accepted.absorbed, end_us, versions.schema).to_batches()


def _no_versions(rejected: Rejected, absorbed: int, end_us: int, schema: pa.Schema) -> pa.Table:
    count = len(rejected) + 1
    columns = {name: [*getattr(rejected, name), None] for name in REJECTED_COLUMNS}
    columns |= {"what": [REJECTED] * len(rejected) + [ABSORBED], "seq": [*range(1, count), absorbed]}
    columns |= {"det_time": [None] * len(rejected) + [end_us]}
    return pa.table({f.name: pa.array(columns.get(f.name, [None] * count), f.type) for f in schema}, schema=schema)


def _further(stage: Stage, batch: Batch) -> dict[str, pa.Array]:
    """The keys of each row that a stage reads, and its position in the history of the stage."""
    keys = {name: _key_column(key, batch) for name, key in zip(stage.key_names, stage.keys, strict=True)}
    if stage.counted:
        partitions = [keys[n] for n in stage.key_names] if stage.derivation.partition_by else []
        keys[stage.position_name] = _positions(stage, batch, partitions)
    # Spark takes columns by their place.
    return {name: keys[name] for name, _ in stage.further()}


def _key_column(key: Key, batch: Batch) -> pa.Array:
    """Equal values are stored equally, so that one hash brings them to one task."""
    values, at = [pa.array([], arrow_type(key.type))], [np.zeros(0, np.int64)]
    for code, name in key.places:
        if code >= len(batch.classes):
            continue  # of complex events, which are not there yet
        of = np.flatnonzero(batch.code == code)
        attribute = batch.classes[code].attribute(name)
        assert attribute is not None
        if name in _TIMES:
            column = pa.array(getattr(batch, name)[of]).view(arrow_type(attribute.type))
        else:
            column = taken(batch.tables[code], name, batch.row[of])
        if attribute.type != key.type:
            column = convert(Column(column), attribute.type, key.type).values
        values.append(pc.add(column, 0.0) if pa.types.is_floating(column.type) else column.cast(arrow_type(key.type)))
        at.append(of)
    joined = pa.concat_arrays(values)
    place = np.full(len(batch), -1, np.int64)
    place[np.concatenate(at)] = np.arange(len(joined))
    return joined.take(pa.array(place, mask=place < 0))


def _positions(stage: Stage, batch: Batch, partitions: Sequence[pa.Array]) -> pa.Array:
    """The rank of each row in the history of the stage, or in its partition of it; NULL outside."""
    index = history_rows(batch, stage.derivation.over)
    if partitions:
        has = [all(c.attribute(n) is not None for n in stage.derivation.partition_by) for c in stage.classes]
        index = index[np.array(has, np.bool_)[batch.code[index]]]
    position = np.zeros(len(batch), np.int64)
    position[index] = _ranks([column.take(pa.array(index)) for column in partitions], len(index))
    return pa.array(position, mask=position == 0)


def _ranks(partitions: Sequence[pa.Array], count: int) -> Integers:
    if not partitions:
        return np.arange(1, count + 1)
    codes = [c.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False) for c in partitions]
    number = np.zeros(count, np.int64)
    for code in codes:
        number = np.unique(number * (count + 1) + code, return_inverse=True)[1]
    order = np.argsort(number, kind="stable")
    begins = np.searchsorted(number[order], number[order])
    ranks = np.zeros(count, np.int64)
    ranks[order] = np.arange(1, count + 1) - begins
    return ranks


# ---- occurrences -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Detect:
    """The rows of one partition → the occurrences among them, by the same step that every engine takes; and counts."""

    stage: Stage
    chronon_us: int

    def __call__(self, batches: Batches) -> Batches:
        """Detect in all of the rows at once: the kernel sorts them out by key."""
        came = list(batches)
        if not any(batch.num_rows for batch in came):
            return
        table = pa.Table.from_batches(came)
        match self.stage.derivation:
            case MatchPlan() as match:
                found = [_matched(self.stage, match, table, self.chronon_us)]
            case CompositePlan() as composite:
                found = _composed(self.stage, composite, table, self.chronon_us)
        yield from occurrence_table(found).to_batches(max_chunksize=_ROWS_AT_ONCE)


def _matched(stage: Stage, match: MatchPlan, table: pa.Table, chronon_us: int) -> Occurrences:
    batch, (plan,) = batch_of(table, stage.classes), stage.members
    position = None
    if stage.counted:
        # As `batch_of` sorts them: counted stages read versions only, each with a `seq` of its own.
        position = integers(table, stage.position_name)[np.argsort(integers(table, "seq"))]
    detector = detector_of(match)
    state = initial_state(detector, stage.classes)
    try:
        return step(detector, state, batch, plan.event_class, chronon_us, position=position)[1]
    except tuple(REFUSALS) as error:
        # Who asks for a data frame sees this text, and no diagnostic; `run` knows the error by its kind.
        told = refusal(type(error), plan, ENGINE)
        raise type(error)("; ".join([told.message, *told.helps])) from None


def _composed(stage: Stage, plan: CompositePlan, table: pa.Table, chronon_us: int) -> list[Occurrences]:
    batch = batch_of(table, stage.classes)
    end_us = table.column(END)[0].as_py() if stage.timed else int(batch.det_time[-1])
    return occurrences_in(Run(plan, stage.members), batch, chronon_us, end_us)

"""What runs in Spark's Python workers: Arrow batches in, Arrow batches out, each task one call of the core.

`Pack` makes raw events of a source into bytes of one shape, `Accept` makes versions of what the driver has read,
`Detect` runs the stages of a group over what its partition holds. Nothing here knows data frames; `accepting` has the
tasks that make versions of them.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark import TaskContext

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Program
from augury.engine.plan import too_many_periods
from augury.history.accept import accept, end_of
from augury.history.raw import Raw, RawTable, Rejected
from augury.kernels.batch import ASSERT, Batch, Integers, Occurrences
from augury.kernels.composite import TooManyPeriods
from augury.kernels.composite.sharing import Run, occurrences_in
from augury.kernels.match import REFUSALS, Shared, detector_of, initial_state, step
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
from augury.spark.stage import ENGINE, Group, Stage
from augury.spark.workers import imports_are_kept

Batches = Iterator[pa.RecordBatch]

ROWS_AT_ONCE: Final = 65_536
"""Rows of a batch on its way back to the JVM."""

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
    return row_of_bytes(source, part, at, pack(raw))


def row_of_bytes(source: int, part: int, at: int, content: bytes) -> pa.RecordBatch:
    """One row of the shape PACKED, of what is bytes already."""
    values = [[source], [part], [at], [content]]
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
    """Packed raw events, all of them → versions numbered by `seq`, with positions in `histories`; and the rest.

    One task sees all of it.
    """

    program: Program
    histories: Mapping[str, tuple[int, ...]]
    until_us: int | None

    def __call__(self, batches: Batches) -> Batches:
        """Accept what came."""
        accepted = accept(self.program, _unpacked(batches), until_us=self.until_us)
        batch = accepted.batch
        columns = version_columns(batch)
        columns |= {name: positions(codes, batch.code, batch.kind) for name, codes in self.histories.items()}
        versions = pa.table(columns)
        yield from versions.to_batches(max_chunksize=ROWS_AT_ONCE)
        end_us = end_of(batch, self.program.settings.chronon_us) if self.until_us is None else self.until_us
        yield from _no_versions(accepted.rejected, accepted.absorbed, end_us, versions.schema).to_batches()


def _no_versions(rejected: Rejected, absorbed: int, end_us: int, schema: pa.Schema) -> pa.Table:
    count = len(rejected) + 1
    columns = {name: [*getattr(rejected, name), None] for name in REJECTED_COLUMNS}
    columns |= {"what": [REJECTED] * len(rejected) + [ABSORBED], "seq": [*range(1, count), absorbed]}
    columns |= {"det_time": [None] * len(rejected) + [end_us]}
    return pa.table({f.name: pa.array(columns.get(f.name, [None] * count), f.type) for f in schema}, schema=schema)


def positions(codes: tuple[int, ...], code: npt.NDArray[Any], kind: npt.NDArray[Any], before: int = 0) -> pa.Array:
    """The rank of each version in the history of these classes, withdrawals left out; NULL outside."""
    inside = np.isin(code, codes) & (kind == ASSERT)
    return pa.array(before + np.cumsum(inside), pa.int64(), mask=~inside)


@dataclass(frozen=True, slots=True)
class Position:
    """Numbered versions, all of them → the same with their positions in some histories."""

    histories: Mapping[str, tuple[int, ...]]

    def __call__(self, batches: Batches) -> Batches:
        """Put them in order, and count."""
        came = list(batches)
        if not came:
            return
        table = pa.Table.from_batches(came)
        table = table.take(pa.array(np.argsort(integers(table, "seq"))))
        for name, codes in self.histories.items():
            column = positions(codes, integers(table, "code"), integers(table, "kind"))
            table = table.set_column(table.column_names.index(name), name, column)
        yield from table.to_batches(max_chunksize=ROWS_AT_ONCE)


# ---- occurrences -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Detect:
    """The rows of one partition → the occurrences among them, by the same step that every engine takes; and counts."""

    group: Group
    chronon_us: int

    def __call__(self, batches: Batches) -> Batches:
        """Detect in all of the rows at once: the kernel sorts them out by key."""
        came = [batch for batch in batches if batch.num_rows]
        if not came:
            return
        table, group = pa.Table.from_batches(came), self.group
        history = batch_of(table, group.classes, group.lanes)
        end_us = table.column(END)[0].as_py() if group.timed else int(history.det_time[-1])
        found = []
        for read in read_by(group, table, history):
            match read.stage.derivation:
                case MatchPlan() as match:
                    found.append(_matched(read, match, self.chronon_us))
                case CompositePlan() as plan:
                    found += _composed(read, Run(plan, read.stage.members), self.chronon_us, end_us)
        yield from occurrence_table(found).to_batches(max_chunksize=ROWS_AT_ONCE)


@dataclass(frozen=True, slots=True)
class Read:
    """What a stage reads of the rows of a task: versions, positions where they are counted, what stages share."""

    stage: Stage
    batch: Batch
    position: Integers | None
    shared: Shared


def read_by(group: Group, table: pa.Table, history: Batch) -> Iterator[Read]:
    """What each stage of a group reads, given the rows of its task as a table and as `batch_of` makes them."""
    # As `batch_of` sorts them: counted stages read versions only, each with a `seq` of its own.
    order = np.argsort(integers(table, "seq"), kind="stable") if group.histories else None
    known: dict[tuple[int, ...], tuple[Batch, Integers | None, Shared]] = {}
    for stage in group.stages:
        if stage.sent not in known:
            known[stage.sent] = (*_part_of(history, order, group, stage), Shared())
        batch, rows, shared = known[stage.sent]
        yield Read(stage, batch, _places(table, stage, rows), shared)


def _part_of(history: Batch, order: Integers | None, group: Group, stage: Stage) -> tuple[Batch, Integers | None]:
    """What a stage reads of the rows of its group, and which rows of the table these are."""
    if stage.sent == group.sent:
        return history, order
    at = np.flatnonzero(np.isin(history.code, stage.sent))
    return history.at(at), None if order is None else order[at]


def _places(table: pa.Table, stage: Stage, rows: Integers | None) -> Integers | None:
    if not stage.counted:
        return None
    found: Integers = table.column(stage.position_name).fill_null(0).to_numpy()[rows]
    return found


def _matched(read: Read, match: MatchPlan, chronon_us: int) -> Occurrences:
    (plan,) = read.stage.members
    detector = detector_of(match)
    state = initial_state(detector, read.stage.classes)
    try:
        return step(
            *(detector, state, read.batch, plan.event_class, chronon_us), position=read.position, shared=read.shared
        )[1]
    except tuple(REFUSALS) as error:
        # Who asks for a data frame sees this text, and no diagnostic; `run` knows the error by its kind.
        told = refusal(type(error), plan, ENGINE)
        raise type(error)("; ".join([told.message, *told.helps])) from None


def _composed(read: Read, run: Run, chronon_us: int, end_us: int) -> list[Occurrences]:
    try:
        return occurrences_in(run, read.batch, chronon_us, end_us, read.shared)
    except TooManyPeriods:
        first = run.members[0].event_class
        (told,) = too_many_periods(first.name, first.span).diagnostics
        raise TooManyPeriods("; ".join([told.message, *told.helps])) from None


imports_are_kept()

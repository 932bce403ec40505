"""Events of a data frame → typed rows by slot, as bytes that Spark carries; what runs in its Python workers.

In: the rows of one partition, as columns or as lines of JSON. Out: pieces, each the rows of one class that go to one
slot, and one summary a partition: what was refused by itself, which sources there are, when the first and last came. A
row is known by its source and its number there; where sources stand beside each other is decided by who sees all of
them (`Sources`), and then a row has a position. It knows no data frame.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from augury.algebra.program import Program
from augury.diagnostics import Diagnostic
from augury.engine.sharded import Slots
from augury.history.arrivals import Arrivals, ClassRows, arrived
from augury.history.coming import Came, came, received
from augury.history.json_lines import read_line
from augury.history.raw import Broken, Raw, RawRows, RawTable
from augury.history.typed import Part
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type

Batches = Iterator[pa.RecordBatch]

Source = tuple[int, str, int]
"""Where rows come from: the number of the frame, the name of the source, and its part; -1 where it has none."""

PIECES: Final = pa.schema([("slot", pa.int32()), ("code", pa.int32()), ("packed", pa.binary())])
"""Rows of a class for a slot; `slot` -1 is a summary. Codes below 0 say that `packed` is something else."""

SPARK_PIECES: Final = "slot int, code int, packed binary"

SUMMARY: Final = -1
NUMBERS: Final = -2
PRESENT: Final = -3

_ROWS_AT_ONCE: Final = 1 << 17
"""Rows of a piece at most: a value of Spark has at most 2 GiB."""

_NUMBER_BITS: Final = 40


@dataclass(slots=True)
class Summary:
    """What one partition has to tell: its sources with how many rows each, refusals, and where event_ids are."""

    rows: dict[Source, int] = field(default_factory=dict)
    refused: list[tuple[Source, int, str, str, str]] = field(default_factory=list)
    first_us: int | None = None
    last_us: int | None = None
    ids: list[tuple[int, str, int, Source, int, int]] = field(default_factory=list)
    """Code, event_id, det_time, source, number and slot of each row that has an event_id."""
    unread: list[tuple[Source, Diagnostic]] = field(default_factory=list)
    """Files that could not be read, and why."""


@dataclass(frozen=True, slots=True)
class Sources:
    """All sources in order, and how many rows of the same name come before those of each part."""

    order: tuple[Source, ...]
    before: tuple[int, ...]

    def position(self, source: Source, number: int) -> int:
        """Where one row stands."""
        return (self.order.index(source) << _NUMBER_BITS) + number

    def place(self, position: int) -> str:
        """The source and the number of a row there."""
        at = position >> _NUMBER_BITS
        _, name, _ = self.order[at]
        return f"{name}:{(position & ((1 << _NUMBER_BITS) - 1)) + self.before[at]}"


def numbers_at(position: Integers) -> Integers:
    """The numbers that rows at these positions have in their sources."""
    return position & ((1 << _NUMBER_BITS) - 1)


def sources_of(rows: Mapping[Source, int]) -> Sources:
    """The order of sources, given how many rows each has."""
    order = tuple(sorted(rows))
    before, counted = [], dict[tuple[int, str], int]()
    for number, name, part in order:
        so_far = counted.get((number, name), 0)
        before.append(so_far if part >= 0 else 0)
        counted[number, name] = so_far + rows[number, name, part]
    return Sources(order, tuple(before))


# ---- in a task ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ingest:
    """The rows of a frame → pieces and a summary.

    `number` is that of the frame among those of a run, `event_class` the class of all its rows if it has one; a frame
    of lines has the columns of `spark.sources`. `generation` puts parts of frames that come later behind those before.
    Rows with det_time ≥ `until_us` are left out. Live, `read_us` is the time of reading, and rows that claim a det_time
    before `not_before_us` get that.
    """

    slots: Slots
    number: int
    name: str
    event_class: str | None = None
    is_lines: bool = False
    generation: int = 0
    until_us: int | None = None
    read_us: int | None = None
    not_before_us: int | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Type and split what one partition holds."""
        context = TaskContext.get()
        part = (self.generation << 20) + (0 if context is None else context.partitionId())
        held = list(batches)
        if not any(batch.num_rows for batch in held):
            return
        table = pa.Table.from_batches(held)
        raws = list(self._raws(table))
        # Rows that say where they come from have their place there, whichever partition they are in.
        own = -1 if self.is_lines or set(table.column_names) >= SAYS_WHERE else part
        given = [(self.number, raw.source, own) for raw in raws]
        rows = came(self.slots.program, raws, until_us=self.until_us, read_us=self.read_us)
        yield from typed_pieces(self.slots, rows, given, summary_of(rows, given, raws), self.not_before_us)

    def _raws(self, table: pa.Table) -> Iterator[Raw]:
        """The rows by their sources, as far as they say where they come from."""
        if self.is_lines:
            yield from _lines(table)
        elif not set(table.column_names) >= SAYS_WHERE:
            yield RawTable(self.name, table, None, self.event_class)
        else:
            ordered = table.sort_by([("_source", "ascending"), ("_position", "ascending")])
            names = ordered["_source"].to_pylist()
            numbers = ordered["_position"].to_pylist()
            rows = ordered.drop_columns(["_source", "_position"])
            begin = 0
            for name, group in itertools.groupby(names):
                end = begin + len(list(group))
                yield RawTable(name, rows.slice(begin, end - begin), numbers[begin:end], self.event_class)
                begin = end


SAYS_WHERE: Final = frozenset({"_source", "_position"})
"""The columns that say of a row where it comes from."""


def piece(slot: int, code: int, content: bytes) -> pa.RecordBatch:
    """One row of the shape PIECES."""
    columns = [pa.array([value], kind) for value, kind in zip((slot, code, content), PIECES.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=PIECES)


def typed_pieces(
    slots: Slots, rows: Came, given: Sequence[Source], summary: Summary, not_before_us: int | None = None
) -> Batches:
    """Rows of some sources as pieces, and last their summary, completed."""
    for code, one in arrived(slots.program, rows, not_before_us).rows.items():
        source, number = known_by(rows, one.position)
        sources = [given[at] for at in source.tolist()]
        slot_of_row = slots.slots_of(code, one.part)
        noted(summary, code, one, sources, number, slot_of_row)
        yield from pieces_by_slot(code, one, sources, number, slot_of_row)
    yield piece(SUMMARY, SUMMARY, pickle.dumps(summary))


def pieces_by_slot(
    code: int, rows: ClassRows, sources: Sequence[Source], numbers: Integers, slot_of_row: Integers
) -> Batches:
    """Rows of a class as pieces, given the source, the number and the slot of each."""
    for slot in np.unique(slot_of_row).tolist():
        at = np.flatnonzero(slot_of_row == slot)
        for some in np.split(at, range(_ROWS_AT_ONCE, len(at), _ROWS_AT_ONCE)):
            yield piece(slot, code, packed(rows.at(some), [sources[row] for row in some.tolist()], numbers[some]))


def _lines(table: pa.Table) -> Iterator[Raw]:
    """Lines of JSON by their sources and classes, each in the order of its numbers."""
    names = table.column_names
    columns: dict[str, list[Any]] = {
        name: table[name].to_pylist() if name in names else [None] * table.num_rows for name in _LINE_COLUMNS
    }
    position: list[int] = columns["position"]
    groups: dict[tuple[str, str | None], list[int]] = {}
    for row, key in enumerate(zip(columns["source"], columns["event"], strict=True)):
        groups.setdefault(key, []).append(row)
    for (source, event), rows in sorted(groups.items(), key=lambda group: (group[0][0], group[0][1] or "")):
        rows.sort(key=position.__getitem__)
        texts = [columns["line"][row] or "" for row in rows]
        reasons = [columns["refused"][row] for row in rows]
        read = [
            read_line(text.encode("utf-8", "replace")) if reason is None else Broken(reason, text)
            for text, reason in zip(texts, reasons, strict=True)
        ]
        yield RawRows(source, read, [position[row] for row in rows], event, texts)


_LINE_COLUMNS: Final = ("line", "source", "position", "event", "refused")


def known_by(rows: Came, position: Integers) -> tuple[Integers, Integers]:
    """The source of each row, by place, and its number there."""
    source = np.searchsorted(np.array(rows.starts), position, side="right") - 1
    number = np.empty(len(position), np.int64)
    for at in np.unique(source).tolist():
        own = source == at
        numbers = np.asarray(rows.sources[at][1], np.int64)
        number[own] = numbers[position[own] - rows.starts[at]]
    return source, number


def summary_of(rows: Came, given: Sequence[Source], raws: Sequence[Raw]) -> Summary:
    """What there is to tell of raw events, but for their times."""
    found = Summary()
    for source, raw in zip(given, raws, strict=True):
        count = raw.table.num_rows if isinstance(raw, RawTable) else len(raw.rows)
        found.rows[source] = found.rows.get(source, 0) + count
    if rows.refusals:
        source_of, number = known_by(rows, np.array([one.position for one in rows.refusals]))
        for one, at, row in zip(rows.refusals, source_of.tolist(), number.tolist(), strict=True):
            found.refused.append((given[at], row, one.event, one.reason, one.raw))
    return found


def noted(
    summary: Summary, code: int, rows: ClassRows, sources: Sequence[Source], numbers: Integers, slots: Integers
) -> None:
    """Note when rows of a class came, and where their event_ids are."""
    det_time, event_id = rows.part.det_time, rows.part.event_id
    times = [int(det_time[0]), int(det_time[-1])]
    summary.first_us = times[0] if summary.first_us is None else min(summary.first_us, times[0])
    summary.last_us = times[1] if summary.last_us is None else max(summary.last_us, times[1])
    if event_id is not None:
        columns = zip(event_id.to_pylist(), det_time.tolist(), sources, numbers.tolist(), slots.tolist(), strict=True)
        summary.ids += [(code, one, *rest) for one, *rest in columns if one is not None]


# ---- rows as bytes -----------------------------------------------------------------------------------------------


def packed(rows: ClassRows, sources: Sequence[Source], numbers: Integers) -> bytes:
    """Rows of one class as bytes."""
    part, known = rows.part, sorted(set(sources))
    index = {source: at for at, source in enumerate(known)}
    columns: dict[str, Any] = {f"v{i}": column for i, column in enumerate(part.values)}
    columns |= {"occ": part.occ_time, "det": part.det_time}
    if part.withdrawal is not None:
        columns["withdrawal"] = part.withdrawal
    if part.event_id is not None:
        columns["event_id"] = part.event_id
    if rows.source_time is not None:
        columns["claimed"] = rows.source_time
    columns |= {"source": np.array([index[source] for source in sources], np.int32), "number": numbers}
    table = pa.table(columns).replace_schema_metadata({"sources": json.dumps(known)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def unpacked(content: bytes) -> tuple[pa.Table, list[Source]]:
    """The table of a piece, and its sources."""
    table = pa.ipc.open_stream(content).read_all()
    known = json.loads((table.schema.metadata or {})[b"sources"])
    return table, [(number, name, part) for number, name, part in known]


def arrivals_of(
    program: Program, pieces: Iterable[tuple[int, bytes]], codes: Sequence[int], sources: Sources
) -> Arrivals:
    """Pieces of a slot → what came to it; `codes` are the codes of the slot's classes in the whole program."""
    found: dict[int, list[tuple[pa.Table, Integers]]] = {}
    for code, content in pieces:
        table, known = unpacked(content)
        number, own = table["number"].to_numpy(), table["source"].to_numpy()
        rank = np.array([sources.order.index(source) for source in known], np.int64)
        found.setdefault(codes.index(code), []).append((table, (rank[own] << _NUMBER_BITS) + number))
    classes = received(program)
    rows = {code: _rows([a.type for a in classes[code].attributes], found[code]) for code in sorted(found)}
    return Arrivals(rows, (), sources.place)


def _rows(types: Sequence[Any], parts: Sequence[tuple[pa.Table, Integers]]) -> ClassRows:
    position = np.concatenate([at for _, at in parts])
    det_time = _joined(parts, "det")
    order = np.lexsort((position, det_time))
    at = pa.array(order)

    def optional(name: str, kind: pa.DataType) -> pa.Array | None:
        if not any(name in table.column_names for table, _ in parts):
            return None
        chunks = [
            table[name].combine_chunks() if name in table.column_names else pa.nulls(table.num_rows, kind)
            for table, _ in parts
        ]
        return pa.concat_arrays([_array(chunk) for chunk in chunks]).take(at)

    values = tuple(
        pa.concat_arrays([_array(table[f"v{i}"].combine_chunks()) for table, _ in parts])
        .cast(arrow_type(kind))
        .take(at)
        for i, kind in enumerate(types)
    )
    withdrawal, claimed = optional("withdrawal", pa.bool_()), optional("claimed", pa.int64())
    det_time = det_time[order]
    return ClassRows(
        Part(
            values,
            _joined(parts, "occ")[order],
            det_time,
            None if withdrawal is None else withdrawal.fill_null(False).to_numpy(zero_copy_only=False),
            optional("event_id", pa.string()),
        ),
        position[order],
        None if claimed is None else np.where(claimed.is_null(), det_time, claimed.fill_null(0).to_numpy()),
    )


def _joined(parts: Sequence[tuple[pa.Table, Integers]], name: str) -> Integers:
    return np.concatenate([table[name].to_numpy() for table, _ in parts])


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)

"""Versions as ticks give them ↔ the history of their class as one table, with the columns of `history.views`.

Where a version has no `seq` it is NULL, and so is the `occ_time` of a withdrawal: neither has a meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.engine.ticked import ClassVersions
from augury.event import EventClass
from augury.history.versions import WITHDRAWN
from augury.history.views import CHANGES, history_schema, system_names
from augury.kernels.batch import NO_SEQ, Integers
from augury.kernels.bitemporal import keys_of

_WORDS: Final = pa.array([CHANGES[change] for change in sorted(CHANGES)])


def history_of(event_class: EventClass, parts: Sequence[tuple[int, ClassVersions]]) -> pa.Table:
    """The table of versions that belong to ticks, in the order given."""
    schema = history_schema(event_class)
    if not parts:
        return schema.empty_table()
    ticks = np.repeat([tick for tick, _ in parts], [len(versions) for _, versions in parts])
    every = [versions for _, versions in parts]
    change = np.concatenate([v.change for v in every])
    seq, occ_time = np.concatenate([v.seq for v in every]), np.concatenate([v.occ_time for v in every])
    columns: list[Any] = [
        np.concatenate([v.number for v in every]),
        ticks,
        _WORDS.take(pa.array(change)),
        pa.array(seq, mask=seq <= NO_SEQ),
        pa.array(occ_time, mask=change == WITHDRAWN),
        np.concatenate([v.det_time for v in every]),
        *(_joined([getattr(v, name) for v in every], every) for name in ("constituents", "event_id", "source_time")),
    ]
    if not event_class.key:
        columns.append(np.concatenate([_event_numbers(v) for v in every]))
    columns += pa.concat_tables([v.values for v in every]).columns if event_class.attributes else []
    return pa.table([_as(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def versions_in(event_class: EventClass, table: pa.Table) -> Iterator[tuple[int, ClassVersions]]:
    """The versions of a history, tick by tick."""
    ticks = integers(table[system_names(event_class).tick])
    starts = np.flatnonzero(np.diff(ticks, prepend=np.iinfo(np.int64).min))
    ends = [*starts[1:].tolist(), len(ticks)] if len(ticks) else []
    for start, end in zip(starts.tolist(), ends, strict=True):
        yield int(ticks[start]), _versions(event_class, table.slice(start, end - start).combine_chunks())


def _event_numbers(versions: ClassVersions) -> Integers:
    """Which event of a class with `ID ()` each version is of."""
    if versions.event_number is not None:
        return versions.event_number
    return np.fromiter(versions.keys, np.int64, len(versions))


def _versions(event_class: EventClass, table: pa.Table) -> ClassVersions:
    names = system_names(event_class)
    values = table.select([attribute.name for attribute in event_class.attributes])
    seq = integers(table[names.seq].fill_null(NO_SEQ))
    if names.event_number is None:
        keys = keys_of(event_class, [one_chunk(column) for column in values.columns], seq)
    else:
        keys = integers(table[names.event_number]).tolist()
    constituents, event_id, source_time = (
        None if column.null_count == len(column) else one_chunk(column)
        for column in (table[names.constituents], table[names.event_id], table[names.source_time])
    )
    return ClassVersions(
        event_class,
        integers(table[names.number]),
        values,
        seq,
        integers(table[names.occ_time].cast(pa.int64()).fill_null(0)),
        integers(table[names.det_time]),
        pc.index_in(table[names.change], _WORDS).to_numpy().astype(np.uint8),
        keys,
        constituents,
        event_id,
        source_time,
    )


def integers(column: pa.ChunkedArray) -> Integers:
    """A column without NULL as numbers; times as microseconds."""
    numbers: Integers = column.cast(pa.int64()).to_numpy()
    return numbers


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole


def _joined(columns: Sequence[pa.Array | None], every: Sequence[ClassVersions]) -> pa.Array | pa.ChunkedArray:
    """One column of those of several parts, where None stands for NULLs."""
    there = next((column for column in columns if column is not None), None)
    if there is None:
        return pa.nulls(sum(map(len, every)))
    parts = (pa.nulls(len(v), there.type) if c is None else c for c, v in zip(columns, every, strict=True))
    return pa.chunked_array([chunk for part in parts for chunk in _chunks(part)], there.type)


def _chunks(column: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _as(column: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The column stored so; whole numbers of microseconds become times."""
    found = pa.array(column) if isinstance(column, np.ndarray) else column
    return found if found.type == kind else found.cast(kind)

"""Raw events → accepted versions in the order of the history, and what was refused.

In: a program and what came, in the order of its sources. Out: a `Batch` of the versions of all subscribed classes, by
det_time and then as they came, numbered by `seq`; refusals with their places; how many duplicates were absorbed.
An event is purged as `history.versions` says: that dependants may keep it longer is not known here, so a version that
comes after its expiry announces a new event all the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.program import Program
from augury.clock import show_time
from augury.event import ClassKind, EventClass, key_of
from augury.history.pieces import Piece, pieces, rows_where
from augury.history.raw import Broken, Raw, RawRows, RawTable, Rejected, json_row, shortened
from augury.history.typed import Part, Refusal, Typing, sort_out, typed
from augury.history.versions import ABSORBED, CHANGE, IMMUTABLE, NOT_THERE, WITHDRAWN, Judged, Rows, judge
from augury.kernels.batch import ASSERT, WITHDRAW, Batch, Integers
from augury.kernels.columns import arrow_type
from augury.kernels.columns.column import Mask


@dataclass(frozen=True, slots=True)
class Accepted:
    """The versions, and a mark each: `history.versions` ANNOUNCE, CHANGE or WITHDRAWN; and what is no version."""

    batch: Batch
    rejected: Rejected
    absorbed: int
    change: npt.NDArray[np.uint8]


def accept(program: Program, events: Iterable[Raw], *, until_us: int | None = None) -> Accepted:
    """Apply the rules of LANGUAGE section 1 to what came; versions with det_time ≥ `until_us` are not read."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    classes = tuple(p.event_class for p in program.classes if p.event_class.kind in kinds)
    came = _Came()
    parts: list[list[Part]] = [[] for _ in classes]
    for raw in events:
        _read(program, classes, raw, came, parts, until_us)
    judgements = [_judged(event_class, parts.pop(0), program.settings.chronon_us) for event_class in classes]
    return _numbered(classes, judgements, came)


# ---- row by row ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Came:
    """What has come: how many rows, of which sources, and those refused so far."""

    count: int = 0
    starts: list[int] = field(default_factory=list)
    sources: list[tuple[str, Sequence[int]]] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def place(self, position: int) -> str:
        """The source and the number of the row there."""
        found = bisect_right(self.starts, position) - 1
        name, numbers = self.sources[found]
        return f"{name}:{numbers[position - self.starts[found]]}"


def _read(
    program: Program,
    classes: Sequence[EventClass],
    raw: Raw,
    came: _Came,
    parts: Sequence[list[Part]],
    until_us: int | None,
) -> None:
    mappings = {key_of(source.event_class): source.columns for source in program.sources}
    came.starts.append(came.count)
    if isinstance(raw, RawTable) and raw.numbers is None:
        came.sources.append((raw.source, range(1, raw.table.num_rows + 1)))
    else:
        came.sources.append((raw.source, raw.numbers or ()))
    for piece in pieces(raw):
        codes = _classes_of(program, classes, raw, piece, came)
        for code in np.unique(codes[codes >= 0]).tolist():
            event_class = classes[code]
            typing = Typing(event_class, piece, rows_where(codes == code), came.count, came.refusals)
            parts[code].append(typed(typing, mappings.get(key_of(event_class.name), ()), until_us))
        came.count += len(piece)


def _classes_of(program: Program, classes: Sequence[EventClass], raw: Raw, piece: Piece, came: _Came) -> Integers:
    refusals: list[Refusal] = []
    codes = sort_out(program, classes, piece, raw.event_class, refusals, came.count)
    broken: dict[int, Broken] = {}
    if isinstance(raw, RawRows):
        broken = {came.count + i: row for i, row in enumerate(raw.rows) if isinstance(row, Broken)}
    for position, row in broken.items():
        came.refusals.append(Refusal(position, "", row.reason, shortened(row.text)))
        codes[position - came.count] = -1
    came.refusals += [refusal for refusal in refusals if refusal.position not in broken]
    return codes


# ---- class by class --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The rows of a class by det_time and then as they came, and what each is."""

    position: Integers
    rows: Rows
    judged: Judged

    @property
    def accepted(self) -> Mask:
        return self.judged.verdicts < ABSORBED


def _judged(event_class: EventClass, parts: Sequence[Part], chronon_us: int) -> _Judgement:
    det_time = _joined([part.det_time for part in parts], np.int64)
    position = _joined([part.position for part in parts], np.int64)
    values = [
        pa.chunked_array([part.values[i] for part in parts], arrow_type(attribute.type))
        for i, attribute in enumerate(event_class.attributes)
    ]
    occ_time = _joined([part.occ_time for part in parts], np.int64)
    withdrawal = _joined([part.withdrawal for part in parts], np.bool_)
    ids = None
    if any(part.event_id is not None for part in parts):
        chunks = [pa.nulls(len(p.position), pa.string()) if p.event_id is None else p.event_id for p in parts]
        ids = pa.chunked_array(chunks, pa.string())
    order = _order(det_time)
    if order is not None:
        taken = pa.array(order)
        values = [_taken(column, taken) for column in values]
        ids = None if ids is None else _taken(ids, taken)
        position, det_time, occ_time = position[order], det_time[order], occ_time[order]
        withdrawal = withdrawal[order]
    rows = Rows(values, occ_time, det_time, withdrawal, ids)
    return _Judgement(position, rows, judge(event_class, rows, chronon_us))


def _joined(arrays: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, kind), *arrays])


def _order(det_time: Integers) -> Integers | None:
    """The order by time that leaves ties as they are; None if that is the order they have."""
    return None if (det_time[1:] >= det_time[:-1]).all() else np.argsort(det_time, kind="stable")


def _order_of_all(det_time: Integers, position: Integers, count: int) -> Integers:
    """The order by time and then position, of rows with positions of their own below `count`."""
    row_at = np.full(count, -1)
    row_at[position] = np.arange(len(position))
    as_they_came: Integers = row_at[row_at >= 0]
    order = _order(det_time[as_they_came])
    return as_they_came if order is None else as_they_came[order]


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) and column.nbytes > 2**31 - 1:
        # One array cannot hold them: pieces of the order, each with chunks of its own.
        step = max(1, len(rows) * 2**30 // column.nbytes)
        pieces_ = [column.cast(pa.large_string()).take(rows[i : i + step]) for i in range(0, len(rows), step)]
        return pa.chunked_array([c for p in pieces_ for c in p.chunks]).cast(pa.string())
    return column.take(rows)


# ---- all together ----------------------------------------------------------------------------------------


def _numbered(classes: Sequence[EventClass], judgements: Sequence[_Judgement], came: _Came) -> Accepted:
    """Put the accepted versions of all classes in one order, number them, and tell the rest why they are none."""
    kept = [judgement.accepted for judgement in judgements]
    sizes = [int(np.count_nonzero(mask)) for mask in kept]
    pairs = list(zip(judgements, kept, strict=True))
    det_time = _joined([_where(j.rows.det_time, mask) for j, mask in pairs], np.int64)
    position = _joined([_where(j.position, mask) for j, mask in pairs], np.int64)
    order = _order(det_time) if len(pairs) < 2 else _order_of_all(det_time, position, came.count)

    def ordered(arrays: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
        joined = _joined(arrays, kind)
        return joined if order is None else joined[order]

    code = ordered([np.full(size, code, np.int16) for code, size in enumerate(sizes)], np.int16)
    seq = np.arange(1, len(code) + 1)
    withdrawal = ordered([_where(j.rows.withdrawal, mask) for j, mask in pairs], np.bool_)
    batch = Batch(
        tuple(classes),
        code,
        ordered([np.arange(size) for size in sizes], np.int64),
        seq,
        ordered([_where(j.rows.occ_time, mask) for j, mask in pairs], np.int64),
        ordered([_where(j.rows.det_time, mask) for j, mask in pairs], np.int64),
        np.where(withdrawal, WITHDRAW, ASSERT).astype(np.uint8),
        tuple(_table(c, j.rows.values, mask) for c, (j, mask) in zip(classes, pairs, strict=True)),
        tuple(None for _ in classes),
    )
    change = ordered([_where(j.judged.verdicts, mask) for j, mask in pairs], np.uint8)
    assert not len(change) or change.max() <= max(CHANGE, WITHDRAWN)
    for number, (judgement, mask) in enumerate(pairs):
        if not mask.all():
            _explain(classes[number], judgement, seq[code == number], came)
    absorbed = sum(int((j.judged.verdicts == ABSORBED).sum()) for j in judgements)
    return Accepted(batch, _rejected(came), absorbed, change)


def _where(array: npt.NDArray[Any], kept: Mask) -> npt.NDArray[Any]:
    return array if kept.all() else array[kept]


def _table(event_class: EventClass, values: Sequence[pa.ChunkedArray], kept: Mask) -> pa.Table:
    schema = pa.schema([pa.field(a.name, arrow_type(a.type)) for a in event_class.attributes])
    table = pa.Table.from_arrays(list(values), schema=schema)
    return table if kept.all() or not event_class.attributes else table.filter(pa.array(kept))


def _explain(event_class: EventClass, judgement: _Judgement, seq: Integers, came: _Came) -> None:
    """Refuse what is no version; `seq` are the numbers of those of the class that are."""
    verdicts, there = judgement.judged.verdicts, judgement.judged.there
    number = np.cumsum(judgement.accepted) - 1
    refused = np.flatnonzero((verdicts == IMMUTABLE) | (verdicts == NOT_THERE))
    keys = {key_of(name) for name in event_class.key}
    name = event_class.name
    for row, fields in zip(refused.tolist(), _fields(event_class, judgement.rows, refused), strict=True):
        key = json_row({field: value for field, value in fields.items() if key_of(field) in keys})
        if verdicts[row] == IMMUTABLE:
            since = int(seq[number[there[row]]])
            reason = f"`{name}` is immutable, and {key} is already there since seq {since}"
        elif not event_class.key:
            reason = f"`{name}` has no key: what is withdrawn cannot be told"
        else:
            reason = f"it withdraws {key} of `{name}`, which is not there"
        came.refusals.append(Refusal(int(judgement.position[row]), name, reason, json_row(fields)))


def _fields(event_class: EventClass, rows: Rows, chosen: Integers) -> Iterator[dict[str, object]]:
    """Rows again as they may have come: by now their source may be gone."""
    columns = [column.take(pa.array(chosen)).to_pylist() for column in rows.values]
    names = [attribute.name for attribute in event_class.attributes]
    for i, row in enumerate(chosen.tolist()):
        occ_time = None if rows.withdrawal[row] else show_time(int(rows.occ_time[row]))
        times = {"occ_time": occ_time, "det_time": show_time(int(rows.det_time[row]))}
        values = {name: column[i] for name, column in zip(names, columns, strict=True)}
        yield {"event": event_class.name, **times, **values}


def _rejected(came: _Came) -> Rejected:
    refusals = sorted(came.refusals, key=lambda refusal: refusal.position)
    return Rejected(
        tuple(came.place(refusal.position) for refusal in refusals),
        tuple(refusal.event for refusal in refusals),
        tuple(refusal.reason for refusal in refusals),
        tuple(refusal.raw for refusal in refusals),
    )

"""Raw events → accepted versions in the order of the history, and what was refused.

In: a program and what came, in the order of its sources. Out: a `Batch` of the versions of all subscribed classes, by
det_time and then as they came, numbered by `seq`; refusals with their places; how many duplicates were absorbed.
An event is purged as `history.versions` says: that dependants may keep it longer is not known here, so a version that
comes after its expiry announces a new event all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.program import Cron, Every, Program
from augury.event import EventClass
from augury.history.coming import Came, came, received
from augury.history.numbered import Placed, Some, in_order, versions_of
from augury.history.raw import Raw, Rejected
from augury.history.refusing import refused, told
from augury.history.schedule import due_at_most
from augury.history.typed import Part, Refusal
from augury.history.versions import ABSORBED, CHANGE, WITHDRAWN, Judged, Rows, judge
from augury.kernels.batch import Batch, Integers
from augury.kernels.columns import arrow_type

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The versions, and a mark each: `history.versions` ANNOUNCE, CHANGE or WITHDRAWN; and what is no version."""

    batch: Batch
    rejected: Rejected
    absorbed: int
    change: npt.NDArray[np.uint8]


def accept(program: Program, events: Iterable[Raw], *, until_us: int | None = None) -> Accepted:
    """Apply the rules of LANGUAGE section 1 to what came; versions with det_time ≥ `until_us` are not read."""
    return accepted(program, came(program, events, until_us=until_us), until_us=until_us)


def accepted(program: Program, rows: Came, *, until_us: int | None = None) -> Accepted:
    """The same, for rows that have been read."""
    classes = received(program)
    # The clock comes before whatever is detected at the same time.
    some = [*_posted(program, classes, rows, until_us), *rows.some]
    judgements = [
        _judged(event_class, [one.parts[code] for one in some if code in one.parts], program.settings.chronon_us)
        for code, event_class in enumerate(classes)
    ]
    return _numbered(classes, judgements, some, rows)


def end_of(versions: Batch, chronon_us: int) -> int:
    """How far the clock of a replay goes: the tick after the last version."""
    return (int(versions.det_time[-1]) // chronon_us + 1) * chronon_us if len(versions) else 0


def _posted(program: Program, classes: Sequence[EventClass], rows: Came, until_us: int | None) -> Iterator[Some]:
    """The events of clock classes: from the chronon of the first version up to the end of the last one's."""
    times = [part.det_time for some in rows.some for part in some.parts.values() if len(part)]
    if not times:
        return
    chronon_us = program.settings.chronon_us
    since_us = min(int(time.min()) for time in times) // chronon_us * chronon_us
    if until_us is None:
        until_us = (max(int(time.max()) for time in times) // chronon_us + 1) * chronon_us
    for code, event_class in enumerate(classes):
        plan = program.class_plan(event_class.name)
        assert plan is not None, "it is a class of the program"
        if isinstance(plan.derivation, Cron | Every):
            due = np.array(due_at_most(event_class.name, plan.derivation, since_us, until_us), np.int64)
            yield Some(np.full(len(due), code, np.int16), {code: Part((), due, due, None, None)})


# ---- class by class --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The rows of a class: what became of them, and the table of versions, by det_time and then as they came.

    Where some are no versions, `judged` says of each what it is, and `rows` are they, in that `order`.
    """

    table: pa.Table
    placed: Placed
    order: Integers | None = None
    rows: Rows | None = None
    judged: Judged | None = None


def _judged(event_class: EventClass, parts: Sequence[Part], chronon_us: int) -> _Judgement:
    values = [
        pa.chunked_array([part.values[i] for part in parts], arrow_type(attribute.type))
        for i, attribute in enumerate(event_class.attributes)
    ]
    order = None
    if not in_order([part.det_time for part in parts]):
        order = np.argsort(_joined([part.det_time for part in parts], np.int64), kind="stable")
        values = [_taken(column, pa.array(order)) for column in values]
    row = None if order is None else _as_they_came(np.arange(len(order)), order)
    table = _table(event_class, values)
    if not event_class.key and all(part.event_id is None and part.withdrawal is None for part in parts):
        # Without a key nothing is changed, without ids nothing is a duplicate.
        return _Judgement(table, Placed(row))
    rows = _rows(parts, values, order)
    judged = judge(event_class, rows, chronon_us)
    change = _as_they_came(judged.verdicts, order)
    kept = judged.verdicts < ABSORBED
    if kept.all():
        return _Judgement(table, Placed(row, change))
    row = _as_they_came(np.where(kept, np.cumsum(kept) - 1, -1), order)
    table = table.filter(pa.array(kept)) if event_class.attributes else table
    return _Judgement(table, Placed(row, change), order, rows, judged)


def _rows(parts: Sequence[Part], values: Sequence[pa.ChunkedArray], order: Integers | None) -> Rows:
    withdrawals = [np.zeros(len(p), np.bool_) if p.withdrawal is None else p.withdrawal for p in parts]
    ids = None
    if any(part.event_id is not None for part in parts):
        chunks = [pa.nulls(len(p), pa.string()) if p.event_id is None else p.event_id for p in parts]
        ids = pa.chunked_array(chunks, pa.string())
    det_time = _joined([part.det_time for part in parts], np.int64)
    same = all(part.occ_time is part.det_time for part in parts)
    occ_time = det_time if same else _joined([part.occ_time for part in parts], np.int64)
    withdrawal = _joined(withdrawals, np.bool_)
    if order is None:
        return Rows(values, occ_time, det_time, withdrawal, ids)
    ids = None if ids is None else _taken(ids, pa.array(order))
    return Rows(values, occ_time[order], det_time[order], withdrawal[order], ids)


def _joined(arrays: Sequence[npt.NDArray[Any]], kind: type) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, kind), *arrays])


def _as_they_came(values: npt.NDArray[_T], order: Integers | None) -> npt.NDArray[_T]:
    if order is None:
        return values
    found = np.empty_like(values)
    found[order] = values
    return found


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) and column.nbytes > 2**31 - 1:
        # One array cannot hold them: pieces of the order, each with chunks of its own.
        step = max(1, len(rows) * 2**30 // column.nbytes)
        pieces_ = [column.cast(pa.large_string()).take(rows[i : i + step]) for i in range(0, len(rows), step)]
        return pa.chunked_array([c for p in pieces_ for c in p.chunks]).cast(pa.string())
    return column.take(rows)


# ---- all together ----------------------------------------------------------------------------------------


def _numbered(
    classes: Sequence[EventClass], judgements: Sequence[_Judgement], some: Sequence[Some], came: Came
) -> Accepted:
    """Put the accepted versions of all classes in one order, number them, and tell the rest why they are none."""
    found = versions_of(some, [judgement.placed for judgement in judgements])
    seq = np.arange(1, len(found.code) + 1)
    tables = tuple(judgement.table for judgement in judgements)
    columns = (found.code, found.row, seq, found.occ_time, found.det_time, found.kind)
    batch = Batch(tuple(classes), *columns, tables, tuple(None for _ in classes))
    assert not len(found.change) or found.change.max() <= max(CHANGE, WITHDRAWN)
    absorbed, refusals = 0, [*came.refusals]
    for number, judgement in enumerate(judgements):
        if judgement.judged is not None:
            refusals += _refused(classes[number], judgement, seq[found.code == number], came.positions(number))
            absorbed += int((judgement.judged.verdicts == ABSORBED).sum())
    return Accepted(batch, told(refusals, came.place), absorbed, found.change)


def _table(event_class: EventClass, values: Sequence[pa.ChunkedArray]) -> pa.Table:
    schema = pa.schema([pa.field(a.name, arrow_type(a.type)) for a in event_class.attributes])
    return pa.Table.from_arrays(list(values), schema=schema)


def _refused(event_class: EventClass, judgement: _Judgement, seq: Integers, position: Integers) -> list[Refusal]:
    """What is no version; `seq` are the numbers of those of the class that are, `position` where all came."""
    judged, rows = judgement.judged, judgement.rows
    assert judged is not None
    assert rows is not None
    number = np.cumsum(judged.verdicts < ABSORBED) - 1
    position = position if judgement.order is None else position[judgement.order]
    return refused(event_class, rows, judged.verdicts, position, lambda row: int(seq[number[judged.there[row]]]))

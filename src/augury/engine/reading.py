"""What came in a chronon → the versions that its tick reads, numbered, and what is refused.

In: arrivals, the live views, what earlier steps of the chronon accepted, and which event_ids are known. Out: `Read`.
The clock's events come first of their time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

import numpy as np
import pyarrow as pa

from augury import limits
from augury.engine.chronon import Fates, Read, TakenSoFar, likes
from augury.engine.plan import EnginePlan
from augury.engine.ports import KnownVersions
from augury.engine.state import EngineState
from augury.engine.tables import nothing, table_of
from augury.engine.ticked import ClassVersions
from augury.event import EventClass
from augury.history.arrivals import Arrivals, ClassRows
from augury.history.raw import Rejected
from augury.history.refusing import refused, told
from augury.history.schedule import times_due
from augury.history.typed import Part, Refusal
from augury.history.versions import ABSORBED, OFF, WITHDRAWN, Judged, Rows, judge_beside
from augury.kernels.batch import ASSERT, WITHDRAW, Batch, Integers
from augury.kernels.bitemporal import keys_of
from augury.kernels.columns.column import Mask
from augury.kernels.firing import Switched


@dataclass(frozen=True, slots=True)
class _Judged:
    """The rows of a class with what each is."""

    rows: ClassRows
    columns: Rows
    judged: Judged
    keys: list[object]


def read_arrivals(
    plan: EnginePlan, state: EngineState, came: Arrivals, tick: int, known: KnownVersions | None, until: int
) -> Read:
    """Decide which rows are versions, and number them; the clock posts what is due before `until`.

    Steps of one chronon follow each other, up to its tick.
    """
    classes = plan.received_classes
    rows = {**came.rows, **_clock_rows(plan, state, tick, until)}
    judged = {code: _judge(plan, state, code, rows[code], known) for code in sorted(rows)}
    kept = {code: np.flatnonzero(one.judged.verdicts < ABSORBED) for code, one in judged.items()}
    code, at, order = _in_order(judged, kept)
    seq = _numbers(state, judged, kept, order)
    versions = {}
    given: dict[int, Integers] = {}
    for c, one in judged.items():
        number_of = np.empty(len(kept[c]), np.int64)
        number_of[at[code == c]] = seq[code == c]
        given[c] = number_of
        if len(number_of):
            versions[plan.received[c]] = _versions(plan, state, c, one, kept[c], number_of)
    refusals = [*came.refusals]
    for c, one in judged.items():
        refusals += _refusals(plan, state, c, one, kept[c], given[c])
    batch = batch_of(classes, {c: versions.get(plan.received[c]) for c in judged}, code, at, seq)
    absorbed = sum(int((one.judged.verdicts == ABSORBED).sum()) for one in judged.values())
    fates = {c: _fates(one, kept[c], given[c]) for c, one in judged.items()}
    state.seq = int(seq[-1]) if len(seq) else state.seq
    return Read(batch, versions, told(refusals, came.place), absorbed, fates)


def _fates(one: _Judged, kept: Integers, seq: Integers) -> Fates:
    numbers = np.zeros(len(one.rows), np.int64)
    numbers[kept] = seq
    return Fates(one.rows.position, one.judged.verdicts, numbers)


def read_again(plan: EnginePlan, versions: Mapping[int, ClassVersions]) -> Read:
    """Versions that were read before, as they were: to recover."""
    codes = {plan.received.index(place): one for place, one in versions.items()}
    code = np.concatenate([np.zeros(0, np.int16), *(np.full(len(one), c, np.int16) for c, one in codes.items())])
    at = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(one)) for one in codes.values())])
    seq = np.concatenate([np.zeros(0, np.int64), *(one.seq for one in codes.values())])
    order = np.argsort(seq, kind="stable")
    batch = batch_of(plan.received_classes, dict(codes), code[order], at[order], seq[order])
    return Read(batch, versions, Rejected(), 0)


def _clock_rows(plan: EnginePlan, state: EngineState, tick: int, until: int) -> dict[int, ClassRows]:
    """The events that the clock posts since the last step, the last tick, or in the first chronon."""
    since = clock_read(plan, state, tick)
    state.chronon.read_clock = until
    found = {}
    for code, schedule in plan.clocks:
        if not state.triggers.is_on(Switched.CLASS, plan.received_classes[code].name):
            continue
        due = np.fromiter(times_due(schedule, since, until), np.int64)
        if len(due):
            found[code] = ClassRows(Part((), due, due, None, None), np.full(len(due), -1))
    return found


def clock_read(plan: EnginePlan, state: EngineState, tick: int) -> int:
    """The events of the clock before this time have been read."""
    if state.chronon.read_clock is not None:
        return state.chronon.read_clock
    return tick - plan.chronon_us if state.tick is None else state.tick


def next_by_clock(plan: EnginePlan, since_us: int) -> int | None:
    """When the clock posts its next event, at or after a time."""
    far = since_us + limits.DURATION_US_MAX
    found = [next(iter(times_due(schedule, since_us, far)), None) for _, schedule in plan.clocks]
    return min((time for time in found if time is not None), default=None)


def _judge(plan: EnginePlan, state: EngineState, code: int, rows: ClassRows, known: KnownVersions | None) -> _Judged:
    event_class, part = plan.received_classes[code], rows.part
    withdrawal = np.zeros(len(part), np.bool_) if part.withdrawal is None else part.withdrawal
    columns = Rows(part.values, part.occ_time, part.det_time, withdrawal, part.event_id)
    if event_class.key:
        keys = keys_of(event_class, part.values, part.det_time)
        slots = state.classes[plan.received[code]].view.slots
        present = np.fromiter(map(slots.get, keys, repeat(-1)), np.int64, len(keys))
    else:
        keys, present = [], np.full(len(part), -1)
    noted = _known(event_class, rows, known)
    if (so_far := state.chronon.so_far(plan.received[code])) is not None:
        present, noted = _after(so_far, event_class, columns, keys, present, noted)
    if state.triggers.off and not state.triggers.is_on(Switched.CLASS, event_class.name):
        return _Judged(rows, columns, Judged(np.full(len(part), OFF, np.uint8), present), keys)
    return _Judged(rows, columns, judge_beside(event_class, columns, present, noted), keys)


_IN_CHRONON: Final = 1 << 61
"""From this number on what is present is no slot, but the `seq` of a version of the same chronon: it has none yet."""


def _after(
    so_far: TakenSoFar,
    event_class: EventClass,
    columns: Rows,
    keys: Sequence[object],
    present: Integers,
    known: Mask | None,
) -> tuple[Integers, Mask | None]:
    """Which events are present, and which rows are duplicates, after earlier steps of the chronon."""
    count = len(columns.det_time)
    absorbed = np.zeros(count, np.bool_) if known is None else known.copy()
    ids = [None] * count if columns.event_id is None else columns.event_id.to_pylist()
    absorbed |= np.fromiter((one in so_far.event_ids for one in ids), np.bool_, count)
    if event_class.key:
        seqs = map(so_far.current.get, keys, repeat(-1))
        current = np.fromiter(seqs, np.int64, count)
        present = np.where(current < 0, present, np.where(current == 0, -1, _IN_CHRONON + current))
        alike = (like in so_far.alike for like in likes(keys, columns, columns.withdrawal))
        absorbed |= np.fromiter(alike, np.bool_, count) & np.array([one is None for one in ids])
    return present, absorbed if absorbed.any() else known


def _known(event_class: EventClass, rows: ClassRows, known: KnownVersions | None) -> Mask | None:
    """The rows whose event_id a version of an earlier tick has; None if none has."""
    if rows.part.event_id is None or known is None:
        return rows.known
    ids = rows.part.event_id.to_pylist()
    found = known.known_ids(event_class, [one for one in ids if one is not None])
    if not found:
        return rows.known
    noted = np.fromiter((one in found for one in ids), np.bool_, len(ids))
    return noted if rows.known is None else noted | rows.known


def _in_order(judged: Mapping[int, _Judged], kept: Mapping[int, Integers]) -> tuple[np.ndarray, Integers, Integers]:
    """Class and place among the versions of the class, of all versions in the order of the history."""
    sizes = [len(kept[c]) for c in judged]
    code = np.repeat(np.array(list(judged), np.int16), sizes)
    at = np.concatenate([np.zeros(0, np.int64), *(np.arange(size) for size in sizes)])
    if len(judged) == 1:
        return code, at, at
    det = np.concatenate([np.zeros(0, np.int64), *(o.rows.part.det_time[kept[c]] for c, o in judged.items())])
    position = np.concatenate([np.zeros(0, np.int64), *(o.rows.position[kept[c]] for c, o in judged.items())])
    order = np.lexsort((code, position, det))
    return code[order], at[order], order


def _numbers(
    state: EngineState, judged: Mapping[int, _Judged], kept: Mapping[int, Integers], order: Integers
) -> Integers:
    """The `seq` of all versions in order: counted on, unless they have been numbered."""
    given = [one.rows.seq[kept[c]] for c, one in judged.items() if one.rows.seq is not None]
    if not given:
        return np.arange(state.seq + 1, state.seq + 1 + len(order))
    return np.concatenate(given)[order]


def _versions(
    plan: EnginePlan, state: EngineState, code: int, one: _Judged, kept: Integers, seq: Integers
) -> ClassVersions:
    place = plan.received[code]
    event_class = plan.classes[place].event_class
    part, whole = one.rows.part, len(kept) == len(one.rows)
    taken = None if whole else pa.array(kept)
    columns = part.values if taken is None else tuple(column.take(taken) for column in part.values)
    keys = one.keys if whole else [one.keys[row] for row in kept.tolist()] if one.keys else []
    claimed = one.rows.source_time
    source_time = None
    if claimed is not None:
        late = claimed != part.det_time
        source_time = pa.array(claimed[kept], mask=~late[kept])
    so_far = state.chronon.so_far(place)
    first = state.classes[place].view.read + (0 if so_far is None else so_far.count) + 1
    return ClassVersions(
        event_class,
        np.arange(first, first + len(kept)),
        table_of(event_class, columns),
        seq,
        part.occ_time[kept],
        part.det_time[kept],
        one.judged.verdicts[kept],
        keys if event_class.key else seq.tolist(),
        event_id=None if part.event_id is None else part.event_id.take(pa.array(kept)),
        source_time=source_time,
    )


def _refusals(
    plan: EnginePlan, state: EngineState, code: int, one: _Judged, kept: Integers, seq: Integers
) -> list[Refusal]:
    if len(kept) == len(one.rows):
        return []
    place, there = plan.received[code], one.judged.there

    def since(row: int) -> int:
        found = int(there[row])
        if found < len(one.rows):
            return int(seq[np.searchsorted(kept, found)])
        if found - len(one.rows) >= _IN_CHRONON:
            return found - len(one.rows) - _IN_CHRONON
        return int(state.classes[place].view.times["seq"][found - len(one.rows)])

    event_class = plan.classes[place].event_class
    return refused(event_class, one.columns, one.judged.verdicts, one.rows.position, since)


def batch_of(
    classes: Sequence[EventClass],
    versions: Mapping[int, ClassVersions | None],
    code: np.ndarray,
    at: Integers,
    seq: Integers,
) -> Batch:
    """The versions of a tick as one batch, given their classes and places in order."""
    occ_time, det_time = np.empty(len(seq), np.int64), np.empty(len(seq), np.int64)
    kind = np.full(len(seq), ASSERT, np.uint8)
    for c, one in versions.items():
        if one is not None:
            where = code == c
            rows = at[where]
            occ_time[where], det_time[where] = one.occ_time[rows], one.det_time[rows]
            kind[where] = np.where(one.change[rows] == WITHDRAWN, WITHDRAW, ASSERT)
    tables = tuple(
        found.values if (found := versions.get(c)) is not None else nothing(event_class)
        for c, event_class in enumerate(classes)
    )
    return Batch(tuple(classes), code, at, seq, occ_time, det_time, kind, tables, tuple(None for _ in classes))

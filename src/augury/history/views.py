"""The history of a class as one table → what was known at a moment, what had happened by one, what changed between.

In: every version of a class, with the columns of `history_schema`. Out: tables. It knows no store and reads no clock.

The columns are `number` (the versions of the class counted from 1), `tick`, `change`, `seq`, `occ_time`, `det_time`,
`constituents`, `event_id`, `source_time`, of a class with `ID ()` also `event_number`, which versions of one event
share, and then the attributes as declared. Where an attribute has one of these names, ours has a `_` more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.event import EventClass, key_of
from augury.history.versions import ANNOUNCE, CHANGE, WITHDRAWN, Codes, key_codes
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.kernels.columns.column import Mask
from augury.types import TIMESTAMP

CHANGES: Final = {ANNOUNCE: "announce", CHANGE: "change", WITHDRAWN: "withdraw"}
"""What versions are, in words."""

_MOMENT: Final = arrow_type(TIMESTAMP)
_FOR_EVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class SystemNames:
    """What the columns of a history are called that are no attributes; `event_number` is None where there is a key."""

    number: str
    tick: str
    change: str
    seq: str
    occ_time: str
    det_time: str
    constituents: str
    event_id: str
    source_time: str
    event_number: str | None

    def all(self) -> tuple[str, ...]:
        """The names in the order of the columns."""
        plain = (self.number, self.tick, self.change, self.seq, self.occ_time, self.det_time)
        more = (self.constituents, self.event_id, self.source_time)
        return (*plain, *more, *(() if self.event_number is None else (self.event_number,)))


def system_names(event_class: EventClass) -> SystemNames:
    """The names for a class: our own, with as many `_` behind as it takes to be no attribute's."""
    taken = {key_of(attribute.name) for attribute in event_class.attributes}

    def free(name: str) -> str:
        return name if key_of(name) not in taken else free(name + "_")

    names: dict[str, str | None] = {field.name: free(field.name) for field in fields(SystemNames)}
    if event_class.key:
        names["event_number"] = None
    return SystemNames(**names)  # type: ignore[arg-type]


def history_schema(event_class: EventClass) -> pa.Schema:
    """The columns of the history of a class."""
    names = system_names(event_class)
    kinds = {
        names.number: pa.int64(),
        names.tick: _MOMENT,
        names.change: pa.string(),
        names.seq: pa.int64(),
        names.occ_time: _MOMENT,
        names.det_time: _MOMENT,
        names.constituents: pa.list_(pa.int64()),
        names.event_id: pa.string(),
        names.source_time: _MOMENT,
    }
    if names.event_number is not None:
        kinds[names.event_number] = pa.int64()
    return pa.schema([*kinds.items(), *((a.name, arrow_type(a.type)) for a in event_class.attributes)])


def known_at(table: pa.Table, event_class: EventClass, known_at_us: int) -> pa.Table:
    """The newest version of each event with det_time ≤ the moment, unless it withdraws; in the order of the history."""
    newest = _newest(table, event_class, known_at_us)
    there = newest[~_withdrawn(table, event_class)[newest]]
    return table.take(pa.array(np.sort(there)))


def then(table: pa.Table, event_class: EventClass, as_of_us: int | None, known_at_us: int | None) -> pa.Table:
    """What was known at a time of what had happened by another; None is now and ever, and both all versions."""
    if as_of_us is None and known_at_us is None:
        return table
    known = known_at(table, event_class, _FOR_EVER if known_at_us is None else known_at_us)
    return known if as_of_us is None else as_of(known, as_of_us)


def as_of(table: pa.Table, as_of_us: int) -> pa.Table:
    """Of these versions those that had happened by then: occ_time ≤ the moment."""
    return table.filter(pc.less_equal(table["occ_time"].cast(pa.int64()), as_of_us))


def current(table: pa.Table, event_class: EventClass, purged: Integers) -> Mask:
    """Which rows are the newest versions of their events, do not withdraw, and were not purged (by `number`)."""
    found = np.zeros(table.num_rows, np.bool_)
    found[_newest(table, event_class, None)] = True
    gone = np.isin(_integers(table[system_names(event_class).number]), purged)
    return found & ~_withdrawn(table, event_class) & ~gone


def diff(table: pa.Table, event_class: EventClass, t1_us: int, t2_us: int) -> pa.Table:
    """What is known at the second moment and was not at the first: a row an event that is there, gone or another.

    Columns: `change` (`announce`, `change`, `withdraw`), the key, and then `old_…` and `new_…` of occ_time, det_time
    and every other attribute; NULL where the event was not there. `new_det_time` of a withdrawal is its own.
    What was announced and withdrawn again between the two is not in it.
    """
    if t1_us > t2_us:
        raise ValueError("the first moment lies after the second")
    codes, count = _codes(table, event_class)
    withdrawn, det_time = _withdrawn(table, event_class), _times(table)
    old, new = (_last_of(codes, count, det_time <= moment) for moment in (t1_us, t2_us))
    was, is_ = (_there(rows, withdrawn) for rows in (old, new))
    events = np.flatnonzero((was | is_) & (old != new))
    events = events[np.argsort(new[events])]
    words = np.where(~was[events], ANNOUNCE, np.where(is_[events], CHANGE, WITHDRAWN))
    names, columns = ["change"], [pa.array([CHANGES[word] for word in words.tolist()], pa.string())]
    places = (old[events], was[events]), (new[events], is_[events])
    for name in key_columns(event_class):
        # A withdrawal says its key, too.
        names.append(name)
        columns.append(_taken(table[name], new[events], np.ones(len(events), np.bool_)))
    others = [a.name for a in event_class.attributes if a.name not in key_columns(event_class)]
    for name in ("occ_time", "det_time", *others):
        for prefix, (rows, there) in zip(("old_", "new_"), places, strict=True):
            names.append(_free(prefix + name, names))
            known = np.ones(len(rows), np.bool_) if prefix + name == "new_det_time" else there
            columns.append(_taken(table[name], rows, known))
    return pa.table(columns, names)


def key_columns(event_class: EventClass) -> tuple[str, ...]:
    """The columns that say which event a version is of, in declared order."""
    names = {key_of(name) for name in event_class.key}
    event_number = system_names(event_class).event_number
    if event_number is not None:
        return (event_number,)
    return tuple(attribute.name for attribute in event_class.attributes if key_of(attribute.name) in names)


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free(name + "_", taken)


def _newest(table: pa.Table, event_class: EventClass, known_at_us: int | None) -> Integers:
    """The row of the newest version of each event, in no order."""
    codes, count = _codes(table, event_class)
    known = None if known_at_us is None else _times(table) <= known_at_us
    last = _last_of(codes, count, known)
    return last[last >= 0]


def _last_of(codes: Codes, count: int, known: Mask | None) -> Integers:
    """By event the row of its last version among those that count, -1 if there is none."""
    last = np.full(count, -1)
    rows = np.arange(len(codes)) if known is None else np.flatnonzero(known)
    # Of rows with one code the last one stays.
    last[codes[rows]] = rows
    return last


def _there(rows: Integers, withdrawn: Mask) -> Mask:
    if not len(withdrawn):
        return np.zeros(len(rows), np.bool_)
    there: Mask = (rows >= 0) & ~withdrawn[rows]
    return there


def _codes(table: pa.Table, event_class: EventClass) -> tuple[Codes, int]:
    event_number = system_names(event_class).event_number
    if event_number is None:
        return key_codes(event_class, [table[attribute.name] for attribute in event_class.attributes])
    numbers, codes = np.unique(_integers(table[event_number]), return_inverse=True)
    return codes, len(numbers)


def _withdrawn(table: pa.Table, event_class: EventClass) -> Mask:
    changes: pa.ChunkedArray = table[system_names(event_class).change]
    withdrawn: Mask = pc.equal(changes, CHANGES[WITHDRAWN]).to_numpy()
    return withdrawn.astype(np.bool_)


def _times(table: pa.Table) -> Integers:
    return _integers(table["det_time"].cast(pa.int64()))


def _integers(column: pa.ChunkedArray) -> Integers:
    numbers: Integers = column.to_numpy().astype(np.int64)
    return numbers


def _taken(column: pa.ChunkedArray, rows: Integers, there: Iterable[bool]) -> pa.ChunkedArray:
    """The values of rows, NULL where there is none."""
    return column.take(pa.array(rows, mask=~np.asarray(there, np.bool_)))

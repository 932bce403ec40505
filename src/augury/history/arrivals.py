"""Raw events → rows of each class in the order of the history, chronon by chronon.

In: a program and what came. Out: `Arrivals`, which falls into one for each chronon that something came in. Which rows
are versions is not decided here: that depends on what is there when they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.event import EventClass
from augury.history.coming import Came, came, received
from augury.history.numbered import in_order
from augury.history.raw import Raw
from augury.history.typed import Part, Refusal
from augury.kernels.batch import Integers
from augury.kernels.columns import arrow_type
from augury.kernels.columns.column import Mask


@dataclass(frozen=True, slots=True)
class ClassRows:
    """Rows of one class, each fine by itself, by det_time and then as they came: `position` says where.

    `source_time` is the det_time that rows claimed; None where all have it. `seq` has the number of each row that is
    a version, where somebody else numbers them: who reads some of the rows of a history only cannot count. `known`
    says of which rows an earlier version has the event_id, where somebody else knows that.
    """

    part: Part
    position: Integers
    source_time: Integers | None = None
    seq: Integers | None = None
    known: Mask | None = None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.part)

    def at(self, rows: Integers) -> ClassRows:
        """Some of the rows, in the order given."""
        part, places = self.part, pa.array(rows)
        return ClassRows(
            Part(
                tuple(column.take(places) for column in part.values),
                part.occ_time[rows],
                part.det_time[rows],
                None if part.withdrawal is None else part.withdrawal[rows],
                None if part.event_id is None else part.event_id.take(places),
            ),
            self.position[rows],
            None if self.source_time is None else self.source_time[rows],
            None if self.seq is None else self.seq[rows],
            None if self.known is None else self.known[rows],
        )

    def between(self, begin: int, end: int) -> ClassRows:
        """The rows from one place up to another."""
        if begin == 0 and end == len(self):
            return self
        part, some = self.part, slice(begin, end)
        return ClassRows(
            Part(
                tuple(column.slice(begin, end - begin) for column in part.values),
                part.occ_time[some],
                part.det_time[some],
                None if part.withdrawal is None else part.withdrawal[some],
                None if part.event_id is None else part.event_id.slice(begin, end - begin),
            ),
            self.position[some],
            None if self.source_time is None else self.source_time[some],
            None if self.seq is None else self.seq[some],
            None if self.known is None else self.known[some],
        )


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Rows by the index of their class among `coming.received`; what was refused by itself; how places are named."""

    rows: Mapping[int, ClassRows] = field(default_factory=lambda: MappingProxyType({}))
    refusals: tuple[Refusal, ...] = ()
    place: Callable[[int], str] = str

    def __len__(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.rows.values()))

    def by_tick(self, chronon_us: int) -> Iterator[tuple[int, Arrivals]]:
        """The ticks that read something, ascending, each with what it reads; refusals go with the first."""
        ends = {code: _ends(rows, chronon_us) for code, rows in self.rows.items()}
        ticks = sorted({tick for of_class in ends.values() for tick in of_class})
        begins = dict.fromkeys(ends, 0)
        refusals = self.refusals
        for tick in ticks:
            found: dict[int, ClassRows] = {}
            for code, of_class in ends.items():
                end = of_class.get(tick)
                if end is not None:
                    found[code] = self.rows[code].between(begins[code], end)
                    begins[code] = end
            yield tick, Arrivals(found, refusals, self.place)
            refusals = ()

    def first_us(self) -> int | None:
        """The det_time of the first row."""
        return min((int(rows.part.det_time[0]) for rows in self.rows.values() if len(rows)), default=None)

    def last_us(self) -> int | None:
        """The det_time of the last row."""
        return max((int(rows.part.det_time[-1]) for rows in self.rows.values() if len(rows)), default=None)


def _ends(rows: ClassRows, chronon_us: int) -> dict[int, int]:
    """By tick the place after the last row that it reads."""
    ticks = (rows.part.det_time // chronon_us + 1) * chronon_us
    last = np.flatnonzero(np.append(ticks[1:] != ticks[:-1], True)) if len(ticks) else np.zeros(0, np.int64)
    return dict(zip(ticks[last].tolist(), (last + 1).tolist(), strict=True))


def arrivals(
    program: Program,
    events: Iterable[Raw],
    *,
    until_us: int | None = None,
    read_us: int | None = None,
    not_before_us: int | None = None,
) -> Arrivals:
    """What came, in order; rows with det_time ≥ `until_us` are left out.

    Live, `read_us` is the time of reading, and rows that claim a det_time before `not_before_us`, the last committed
    tick, get that.
    """
    return arrived(program, came(program, events, until_us=until_us, read_us=read_us), not_before_us)


def arrived(program: Program, rows: Came, not_before_us: int | None = None) -> Arrivals:
    """What came, in order, as `arrivals` has it."""
    found: dict[int, ClassRows] = {}
    for code, event_class in enumerate(received(program)):
        parts = [some.parts[code] for some in rows.some if code in some.parts]
        if sum(map(len, parts)):
            found[code] = _ordered(event_class, parts, rows.positions(code), not_before_us)
    return Arrivals(found, tuple(rows.refusals), rows.place)


def _ordered(event_class: EventClass, parts: list[Part], position: Integers, not_before_us: int | None) -> ClassRows:
    part = parts[0] if len(parts) == 1 else _joined(event_class, parts)
    claimed = None
    if not_before_us is not None and (part.det_time < not_before_us).any():
        claimed = part.det_time
        part = replace(part, det_time=np.maximum(claimed, not_before_us))
    rows = ClassRows(part, position, claimed)
    return rows if in_order([part.det_time]) else rows.at(np.argsort(part.det_time, kind="stable"))


def _joined(event_class: EventClass, parts: list[Part]) -> Part:
    def joined(arrays: list[Any]) -> Any:
        return np.concatenate(arrays)

    withdrawals = [np.zeros(len(p), np.bool_) if p.withdrawal is None else p.withdrawal for p in parts]
    ids = [pa.nulls(len(p), pa.string()) if p.event_id is None else p.event_id for p in parts]
    return Part(
        tuple(
            pa.concat_arrays([p.values[i].cast(arrow_type(a.type)) for p in parts])
            for i, a in enumerate(event_class.attributes)
        ),
        joined([p.occ_time for p in parts]),
        joined([p.det_time for p in parts]),
        joined(withdrawals) if any(p.withdrawal is not None for p in parts) else None,
        pa.concat_arrays(ids) if any(p.event_id is not None for p in parts) else None,
    )

"""What has been read and found of a chronon whose tick is to come, step by step.

In: what each step read and detected. Out: all of it as one, when the tick asks; and until then what later steps of the
chronon have to know of the earlier ones: which events are there, which rows would be duplicates. Views move on at the
tick only, for conditions compare what a tick finds with what was there before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from augury.engine.rows import whole
from augury.engine.ticked import ClassVersions, FiredTrigger
from augury.history.raw import Rejected
from augury.history.versions import ABSORBED, WITHDRAWN, Verdicts
from augury.kernels.batch import WITHDRAW, Batch, Integers, Occurrences
from augury.kernels.bitemporal import keys_of
from augury.kernels.firing import Posted

Like = tuple[Any, int, int | None, tuple[Any, ...]]
"""What rows without an event_id are duplicates by: key, det_time, occ_time (None: it withdraws), values."""


@dataclass(frozen=True, slots=True)
class Fates:
    """What became of the rows of a class: where each came, the verdict on it, and its `seq` if it is a version."""

    position: Integers
    verdicts: Verdicts
    seq: Integers

    def of(self, position: int) -> tuple[int, int | None]:
        """The verdict on the row that came there, and its `seq`."""
        row = int(np.flatnonzero(self.position == position)[0])
        return int(self.verdicts[row]), int(self.seq[row]) if self.verdicts[row] < ABSORBED else None


@dataclass(frozen=True, slots=True)
class Read:
    """Versions of a step or a tick: all in order as a batch, and by the places of their classes.

    `fates` say by the code of a class what became of its rows.
    """

    batch: Batch
    versions: Mapping[int, ClassVersions]
    rejected: Rejected
    absorbed: int
    fates: Mapping[int, Fates] = field(default_factory=dict)


@dataclass(slots=True)
class TakenSoFar:
    """The versions of a class that earlier steps of the chronon accepted.

    `current` has the `seq` of the version of each event that they touched, 0 where it was withdrawn.
    """

    current: dict[Any, int] = field(default_factory=dict)
    event_ids: set[str] = field(default_factory=set)
    alike: set[Like] = field(default_factory=set)
    count: int = 0

    def note(self, versions: ClassVersions) -> None:
        """Note what a step accepted."""
        gone = versions.change == WITHDRAWN
        self.current.update(zip(versions.keys, np.where(gone, 0, versions.seq).tolist(), strict=True))
        self.count += len(versions)
        ids = [None] * len(versions) if versions.event_id is None else versions.event_id.to_pylist()
        self.event_ids.update(one for one in ids if one is not None)
        if versions.event_class.key:
            rows = zip(ids, likes(versions.keys, versions, gone), strict=True)
            self.alike.update(like for event_id, like in rows if event_id is None)


def likes(keys: Sequence[Any], rows: Any, gone: Any) -> list[Like]:
    """What rows are duplicates by; `rows` has values, occ_time and det_time as columns."""
    columns = [
        column.to_pylist() for column in (rows.values.columns if isinstance(rows.values, pa.Table) else rows.values)
    ]
    values = list(zip(*columns, strict=True)) if columns else [()] * len(keys)
    occ = [None if out else time for out, time in zip(gone.tolist(), rows.occ_time.tolist(), strict=True)]
    return list(zip(keys, rows.det_time.tolist(), occ, map(_comparable, values), strict=True))


def _comparable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """NaN is a value like any other here."""
    return tuple("NaN" if value != value else value for value in values)


@dataclass(frozen=True, slots=True)
class QueuedPost:
    """An event that a rule posted and nobody has read yet; `firing` and `number` say of which firing it is which post.

    `firing` is None if an earlier tick has told of it.
    """

    posted: Posted
    trigger: str
    depth: int
    firing: int | None
    number: int


@dataclass(slots=True)
class Chronon:
    """The steps of a chronon so far. `upto` is how far time has gone, None before the first step.

    `depths` has by `seq` how many posts led to a version, where some did; `became` by firing and post the `seq` of
    the version or why there is none.
    """

    reads: list[Read] = field(default_factory=list)
    found: dict[int, list[Occurrences]] = field(default_factory=dict)
    firings: list[FiredTrigger] = field(default_factory=list)
    queue: list[QueuedPost] = field(default_factory=list)
    depths: dict[int, int] = field(default_factory=dict)
    became: dict[tuple[int, int], Any] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    upto: int | None = None
    read_clock: int | None = None
    _taken: dict[int, TakenSoFar] = field(default_factory=dict)
    _noted: int = 0
    _keys: dict[int, tuple[int, set[Any]]] = field(default_factory=dict)

    def so_far(self, place: int) -> TakenSoFar | None:
        """What earlier steps accepted of a class; worked out when a later one asks, for most chronons are one step."""
        for read in self.reads[self._noted :]:
            for at, versions in read.versions.items():
                self._taken.setdefault(at, TakenSoFar()).note(versions)
        self._noted = len(self.reads)
        return self._taken.get(place)

    def keys_found(self, place: int, count: int) -> set[Any]:
        """The keys of the events that the first parts found of a class with a key; who asks later asks for no fewer."""
        noted, keys = self._keys.get(place, (0, set()))
        for part in self.found.get(place, [])[noted:count]:
            if part.event_class.key:
                found = keys_of(part.event_class, [*map(whole, part.values.columns)], part.seq)
                if not part.kind.any():
                    keys.update(found)
                    continue
                for key, kind in zip(found, part.kind.tolist(), strict=True):
                    (keys.discard if kind == WITHDRAW else keys.add)(key)
        self._keys[place] = count, keys
        return keys

    def whole(self) -> Read:
        """All that the steps read."""
        if len(self.reads) == 1:
            return self.reads[0]
        places = sorted({place for read in self.reads for place in read.versions})
        parts = {place: [r.versions[place] for r in self.reads if place in r.versions] for place in places}
        rejected = [read.rejected for read in self.reads]
        return Read(
            _joined_batches([read.batch for read in self.reads]),
            {place: _joined_versions(some) for place, some in parts.items()},
            Rejected(*(tuple(x for r in rejected for x in getattr(r, n)) for n in ("place", "event", "reason", "raw"))),
            sum(read.absorbed for read in self.reads),
        )


def _joined_batches(batches: Sequence[Batch]) -> Batch:
    """Batches of one engine's classes that follow each other; none of them has complex events."""
    sizes = np.array([[table.num_rows for table in batch.tables] for batch in batches])
    before = np.cumsum(sizes, axis=0) - sizes
    rows = [b.row + before[i][b.code] if len(b) else b.row for i, b in enumerate(batches)]
    some = [batch for batch in batches if len(batch)] or batches[:1]
    tables = tuple(
        pa.concat_tables([batch.tables[code] for batch in batches]) for code in range(len(batches[0].classes))
    )
    return Batch(
        batches[0].classes,
        np.concatenate([b.code for b in batches]),
        np.concatenate(rows),
        np.concatenate([b.seq for b in batches]),
        np.concatenate([b.occ_time for b in batches]),
        np.concatenate([b.det_time for b in batches]),
        np.concatenate([b.kind for b in batches]),
        tables,
        some[0].constituents,
    )


def _joined_versions(parts: Sequence[ClassVersions]) -> ClassVersions:
    if len(parts) == 1:
        return parts[0]

    def of(name: str, kind: pa.DataType) -> pa.Array | None:
        columns = [getattr(part, name) for part in parts]
        if all(column is None for column in columns):
            return None
        filled = (pa.nulls(len(p), kind) if c is None else c for p, c in zip(parts, columns, strict=True))
        return pa.concat_arrays([c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in filled])

    return ClassVersions(
        parts[0].event_class,
        np.concatenate([part.number for part in parts]),
        pa.concat_tables([part.values for part in parts]),
        np.concatenate([part.seq for part in parts]),
        np.concatenate([part.occ_time for part in parts]),
        np.concatenate([part.det_time for part in parts]),
        np.concatenate([part.change for part in parts]),
        [key for part in parts for key in part.keys],
        event_id=of("event_id", pa.string()),
        source_time=of("source_time", pa.int64()),
    )

"""What a flat graph remembers between batches: arrays by key, and the versions that wait.

Rows of the arrays refer to versions by number: first come those that are held from earlier batches, then those of the
batch at hand. It reads no rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from augury.kernels.batch import Integers
from augury.kernels.bitemporal.due import NEVER
from augury.kernels.composite.flat import layout as at
from augury.kernels.composite.flat.tables import EVER, NONE, Flat
from augury.kernels.composite.known import Known
from augury.kernels.composite.protocol import Taking
from augury.kernels.match.streams import Numbers, no_numbers

HELD_SPARE = 1024
"""Versions that may be held in vain before they are looked through."""


@dataclass(slots=True)
class Held:
    """Versions: leaf, `seq` and times, the value of each field that anything asks for, constituents of complex ones."""

    leaf: Integers
    seq: Integers
    occ_time: Integers
    det_time: Integers
    values: list[pa.Array]
    constituents: pa.Array | None

    def __len__(self) -> int:
        """How many."""
        return len(self.seq)

    def take(self, which: Integers) -> Held:
        """Some of them."""
        taken = pa.array(which)
        lists = None if self.constituents is None else self.constituents.take(taken)
        values = [values.take(taken) for values in self.values]
        return Held(self.leaf[which], self.seq[which], self.occ_time[which], self.det_time[which], values, lists)

    def and_then(self, more: Held) -> Held:
        """These and others."""
        if len(self) == 0 or len(more) == 0:
            return more if len(self) == 0 else self
        lists = None if self.constituents is None else pa.concat_arrays([self.constituents, more.constituents])
        values = [pa.concat_arrays(pair) for pair in zip(self.values, more.values, strict=True)]
        return Held(
            np.concatenate([self.leaf, more.leaf]),
            np.concatenate([self.seq, more.seq]),
            np.concatenate([self.occ_time, more.occ_time]),
            np.concatenate([self.det_time, more.det_time]),
            values,
            lists,
        )


def _none_held() -> Held:
    nothing = np.zeros(0, np.int64)
    return Held(nothing, nothing, nothing, nothing, [], None)


def _rows(count: int, fields: int, fill: int) -> Integers:
    return np.full((count, fields), fill, np.int64)


@dataclass(slots=True)
class FlatState(Known):
    """`pairs` number combinations of values; `keys` graphs have their queues and floors, or their latest versions.

    `swept` is how many versions were held when all of them were last looked through.
    """

    flat: Flat = field(kw_only=True)
    pairs: list[Numbers] = field(default_factory=list)
    held: Held = field(default_factory=_none_held)
    keys: int = 0
    swept: int = 0
    arena: Integers = field(default_factory=lambda: _rows(0, at.FIELDS, 0))
    counters: Integers = field(default_factory=lambda: np.array([at.NOTHING, 0, 0, 0, 0], np.int64))
    queues: Integers = field(default_factory=lambda: _rows(0, 3, 0))
    floors: Integers = field(default_factory=lambda: _rows(0, 2, EVER))
    latest: Integers = field(default_factory=lambda: _rows(0, at.LATEST_FIELDS, NONE))

    def __post_init__(self) -> None:
        """Numbers for combinations: one for each value after the first."""
        names = bool(self.partitions) + len(self.values)
        if not self.pairs:
            self.pairs = [no_numbers(pa.int64()) for _ in range(max(0, names - 1))]

    @property
    def dropped(self) -> int:
        """How many operands were let go because too many were kept."""
        return int(self.counters[at.DROPPED])

    def next_due(self) -> int:
        """Never: no operator of a flat graph has a timer."""
        return NEVER

    def grow(self, keys: int) -> None:
        """Make room for keys; what is new is empty."""
        if keys <= self.keys:
            return
        # With room to spare, so that a key more does not copy all others each time.
        keys = max(keys, self.keys + self.keys // 2)
        if self.flat.taking is Taking.LATEST:
            self.latest = _grown(self.latest, keys * len(self.flat.leaf_nodes), NONE)
        else:
            self.queues = _grown(self.queues, keys * self.flat.queues, 0)
            self.floors = _grown(self.floors, keys * self.flat.states, EVER)
        self.keys = keys


def _grown(rows: Integers, count: int, fill: int) -> Integers:
    more = np.full((count - len(rows), rows.shape[1]), fill, np.int64)
    return np.concatenate([rows, more])

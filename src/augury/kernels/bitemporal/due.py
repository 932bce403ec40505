"""What is due when: an index of times, for versions that will be on time and for any other timer.

In: times with a slot and the generation it had. Out: the slots due at a time whose generation is still the same.
Entries lie in sorted runs whose lengths grow geometrically, so adding and taking cost O(log n) an entry, in whole
arrays, and a time at which nothing is due costs one comparison. What was overtaken is never looked for: it is dropped
when it comes up, or when runs are merged. It knows neither events nor chronons.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from augury.kernels.batch import Integers

NEVER: Final = 2**63 - 1
"""A time that does not come; nothing is kept for it."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Slots and the generations for which they are due, in order of time."""

    time: Integers
    slot: Integers
    generation: Integers

    def __len__(self) -> int:
        """How many there are."""
        return len(self.time)

    def part(self, begin: int, end: int | None = None) -> Entries:
        """The entries from one place up to another."""
        return Entries(self.time[begin:end], self.slot[begin:end], self.generation[begin:end])

    def current(self, generations: Integers) -> Entries:
        """Those whose slot still has their generation."""
        kept = generations[self.slot] == self.generation
        return self if kept.all() else Entries(self.time[kept], self.slot[kept], self.generation[kept])


def _merged(parts: list[Entries]) -> Entries:
    if len(parts) == 1:
        return parts[0]
    time = np.concatenate([part.time for part in parts])
    # Stable: timsort finds the runs, so this is a merge.
    order = np.argsort(time, kind="stable")
    slot = np.concatenate([part.slot for part in parts])
    generation = np.concatenate([part.generation for part in parts])
    return Entries(time[order], slot[order], generation[order])


@dataclass(slots=True)
class Due:
    """Sorted runs, the longest first."""

    runs: list[Entries] = field(default_factory=list)
    _next: int = NEVER

    def __len__(self) -> int:
        """How many entries are kept, overtaken ones among them."""
        return sum(map(len, self.runs))

    def add(self, time: Integers, slot: Integers, generation: Integers, generations: Integers) -> None:
        """Add entries; `generations` are those that slots have now, so that overtaken entries can be dropped."""
        ever = time != NEVER
        if not ever.all():
            time, slot, generation = time[ever], slot[ever], generation[ever]
        if not len(time):
            return
        order = np.argsort(time, kind="stable")
        run = Entries(time[order], slot[order], generation[order])
        self._next = min(self._next, int(run.time[0]))
        while self.runs and len(self.runs[-1]) <= 2 * len(run):
            run = _merged([self.runs.pop().current(generations), run])
        self.runs.append(run)

    def next_due(self) -> int:
        """The earliest time of an entry, NEVER if there is none; what is due then may turn out to be overtaken."""
        return self._next

    def pop(self, time: int, generations: Integers) -> Entries:
        """Take out all that is due by then; gives what is current, in order of time and then of slot."""
        if self._next > time:
            return _NOTHING
        taken: list[Entries] = []
        left: list[Entries] = []
        for run in self.runs:
            end = int(np.searchsorted(run.time, time, side="right"))
            taken.append(run.part(0, end))
            if end < len(run):
                left.append(run.part(end))
        self.runs = sorted(left, key=len, reverse=True)
        self._next = min((int(run.time[0]) for run in left), default=NEVER)
        found = _merged(taken).current(generations)
        order = np.lexsort((found.slot, found.time))
        return Entries(found.time[order], found.slot[order], found.generation[order])


_NOTHING: Final = Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def tick_after(occ_time: Integers, chronon_us: int) -> Integers:
    """The one tick t with t − chronon ≤ occ_time < t: that at which a version is on time."""
    return (occ_time // chronon_us + 1) * chronon_us

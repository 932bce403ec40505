"""Which live event each `seq` is a version of, and which versions detected events are made of.

In: the versions that ticks read, and what detection makes of them. Out: the events of versions that it may use later.
A version that no detector holds any more is forgotten, so this grows with what is open, not with what has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from augury.kernels.batch import Integers
from augury.kernels.bitemporal.cells import grown
from augury.kernels.columns.column import Mask

Node = tuple[int, int]
"""A live event: the place of its class, and its slot in the view."""

NOWHERE: Final = -1
_UNBORN: Final = 2**63 - 1
_ROOM_MIN: Final = 64
SPARE = 1024
"""Versions that may be kept in vain before they are looked through."""


def _nothing() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(slots=True)
class Traced:
    """The versions of one class, ascending, each with the slot of its event; only the first `count` are in use.

    `born` has for each slot the first `seq` of the event that is there; what is older is of an event that has left.
    """

    seq: Integers = field(default_factory=_nothing)
    slot: Integers = field(default_factory=_nothing)
    count: int = field(init=False)
    born: Integers = field(init=False, default_factory=_nothing)

    def __post_init__(self) -> None:
        """All that is given is of events that are there."""
        self.count = len(self.seq)
        self._make_room(self.slot)
        self.born[self.slot[::-1]] = self.seq[::-1]  # of each slot the first one's stays

    def note(self, seq: Integers, slot: Integers, withdrawn: Mask) -> None:
        """Versions were read; `slot` is NOWHERE for those of events that are not there at the end of the tick."""
        there = slot != NOWHERE
        seq, slot, withdrawn = seq[there], slot[there], withdrawn[there]
        self._make_room(slot)
        if withdrawn.any():
            stays = ~withdrawn & self._since_withdrawn(seq, slot, withdrawn)
            seq, slot = seq[stays], slot[stays]
        fresh = self.born[slot] == _UNBORN
        self.born[slot[fresh][::-1]] = seq[fresh][::-1]
        end = self.count + len(seq)
        if end > len(self.seq):
            self.seq, self.slot = grown(self.seq, 2 * end), grown(self.slot, 2 * end)
        self.seq[self.count : end], self.slot[self.count : end] = seq, slot
        self.count = end

    def _since_withdrawn(self, seq: Integers, slot: Integers, withdrawn: Mask) -> Mask:
        """Which versions come after the last withdrawal of their event; all before it are forgotten."""
        ends = slot[withdrawn]
        self.forget(ends)
        last = np.zeros(len(self.born), np.int64)
        last[ends] = seq[withdrawn]
        return seq > last[slot]

    def forget(self, slots: Integers) -> None:
        """Events have left."""
        self.born[slots[slots < len(self.born)]] = _UNBORN

    def slots_of(self, seqs: Integers) -> Integers:
        """The slot of the event that each is a version of, NOWHERE if there is none."""
        if not self.count:
            return np.full(len(seqs), NOWHERE, np.int64)
        at = np.minimum(np.searchsorted(self.seq[: self.count], seqs), self.count - 1)
        slot = self.slot[at]
        return np.where((self.seq[at] == seqs) & (self.born[slot] <= seqs), slot, NOWHERE)

    def keep(self, held: Integers, current: Integers | None) -> None:
        """Forget the versions that are not held; with `current`, by slot, the current version of each event stays."""
        seq, slot = self.seq[: self.count], self.slot[: self.count]
        wanted = np.isin(seq, held, assume_unique=True)
        if current is not None:
            wanted |= current[slot] == seq
        wanted &= self.born[slot] <= seq
        self.seq, self.slot = seq[wanted], slot[wanted]
        self.count = len(self.seq)

    def _make_room(self, slots: Integers) -> None:
        end = int(slots.max(initial=NOWHERE)) + 1
        if end > len(self.born):
            known = len(self.born)
            self.born = grown(self.born, max(_ROOM_MIN, 2 * end))
            self.born[known:] = _UNBORN


@dataclass(slots=True)
class Traces:
    """The versions of received classes by place, and what events of MATCH and COMPOSITE classes are made of.

    `parts` has the constituents of the current version of each event of a class that others are built on, and `users`
    the events that have a `seq` among theirs, whether the event of that `seq` is still there or not.
    """

    versions: dict[int, Traced] = field(default_factory=dict)
    parts: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    users: dict[int, set[Node]] = field(init=False, default_factory=dict)
    _most: int = field(init=False, default_factory=lambda: SPARE)

    def __post_init__(self) -> None:
        """What is used follows from `parts`."""
        for node, seqs in self.parts.items():
            self._use(node, seqs)

    def __len__(self) -> int:
        """How many versions are kept, some of them in vain."""
        return sum(one.count for one in self.versions.values())

    def note(self, place: int, seq: Integers, slot: Integers, withdrawn: Mask) -> None:
        """Versions of a class were read."""
        self.versions.setdefault(place, Traced()).note(seq, slot, withdrawn)

    def events_of(self, seqs: Integers) -> tuple[Integers, Integers]:
        """The place and the slot of the event that each is a version of, NOWHERE where there is none."""
        places, slots = (np.full(len(seqs), NOWHERE, np.int64) for _ in range(2))
        for place, traced in self.versions.items():
            found = traced.slots_of(seqs)
            there = found != NOWHERE
            places[there], slots[there] = place, found[there]
        return places, slots

    def made(self, node: Node, seqs: tuple[int, ...]) -> None:
        """A live event has these constituents now."""
        self._unmake(node)
        self.parts[node] = seqs
        self._use(node, seqs)

    def _use(self, node: Node, seqs: Iterable[int]) -> None:
        for seq in seqs:
            self.users.setdefault(seq, set()).add(node)

    def _unmake(self, node: Node) -> None:
        for seq in self.parts.pop(node, ()):
            users = self.users[seq]
            users.discard(node)
            if not users:
                del self.users[seq]

    def forget(self, place: int, slots: Integers) -> None:
        """Events have left."""
        if place in self.versions:
            self.versions[place].forget(slots)
        if self.parts:
            for slot in slots.tolist():
                self._unmake((place, slot))

    def is_full(self) -> bool:
        """Whether it is time to look which versions are kept in vain."""
        return len(self) > self._most

    def keep(self, held: Integers, current: Sequence[Integers] | None) -> None:
        """Forget the versions that neither detection nor `parts` hold; with `current`, those that are current stay.

        `held` has each number once. What is looked through has doubled since the last time, so a version costs little.
        """
        if self.parts:
            held = np.union1d(held, np.fromiter(self.users, np.int64, len(self.users)))
        for place, traced in self.versions.items():
            traced.keep(held, None if current is None else current[place])
        self._most = len(self) + len(held) + SPARE

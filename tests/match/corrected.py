"""Histories that are corrected, and all that a kernel says about them; both kernels are tested with it.

A `Kernel` goes from one saved state to the next; an `Account` keeps the states at every cut and what was said, and
corrects it as an engine would: from the last state that the change has not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import numpy.typing as npt

from augury.event import EventClass
from augury.kernels.batch import ASSERT, Occurrences, joined
from augury.kernels.order import without_seq
from augury.kernels.reference import Event
from augury.kernels.revision import corrections, current

Go = Callable[[bytes, Sequence[Event], int], tuple[bytes, Occurrences]]
"""From a state over events until a time: the state after it, and what is found."""

STRETCH = 10
"""How far the `seq` of neighbours lie apart, so that a late version fits in between."""


def stretched(history: Sequence[Event]) -> tuple[Event, ...]:
    """The history with room between any two versions."""
    return tuple(replace(event, seq=event.seq * STRETCH) for event in history)


def corrected(random: Random, history: Sequence[Event], said: Occurrences) -> tuple[Event, ...]:
    """The history with a version more, with one less, or with one of other values or another occ_time; or all of it.

    Most often at a version that something that was said is made of: others rarely matter.
    """
    found = list(history)
    of = set(said.constituents.flatten().to_pylist())
    for _ in range(random.choice((1, 1, 2, 3))):
        used = [i for i, event in enumerate(found) if event.seq in of]
        place = random.choice(used) if used and random.random() < 0.7 else random.randrange(len(found) + 1)
        what = random.choice(("insert", "remove", "change", "change"))
        if place == len(found) or (what == "insert" and _room(found, place)):
            found.insert(place, _late(random, found, place))
        elif what == "remove":
            del found[place]
        else:
            found[place] = _changed(random, found[place])
    return tuple(found)


def _room(history: Sequence[Event], place: int) -> bool:
    before = history[place - 1].seq if place else 0
    return history[place].seq - before > 1


def _late(random: Random, history: Sequence[Event], place: int) -> Event:
    """A version between two others, of the time of the one before."""
    before = history[place - 1] if place else Event(0, "Z", {}, 0, 0)
    seq = (before.seq + history[place].seq) // 2 if place < len(history) else before.seq + STRETCH
    alike = random.choice([Event(0, "A", {}, 0, 0), Event(0, "B", {}, 0, 0), *history])
    occ_time = before.det_time - random.choice((0, 0, 1_000_000))
    return replace(alike, seq=seq, occ_time=max(0, occ_time), det_time=before.det_time)


def _changed(random: Random, event: Event) -> Event:
    if event.values and random.random() < 0.7:
        name, values = random.choice((("k", (1, 2)), ("v", (0, 1, 2, None))))
        return replace(event, values={**event.values, name: random.choice(values)})
    occ_time = (event.occ_time or 0) + random.choice((-2, -1, 1, 3)) * 1_000_000
    return replace(event, occ_time=max(0, occ_time))


def first_change(old: Sequence[Event], new: Sequence[Event]) -> int | None:
    """The det_time of the first version that differs; None for none."""
    gone = Counter(map(repr, old))
    gone.subtract(map(repr, new))
    return min((event.det_time for event in (*old, *new) if gone[repr(event)]), default=None)


@dataclass
class Cut:
    """A place in the history: how many versions came before it and the last of them, the clock, the state as bytes."""

    count: int
    seq: int
    until_us: int
    state: bytes


@dataclass
class Account:
    """A history, the states at its cuts, and all that was said about it."""

    go: Go
    random: Random
    history: tuple[Event, ...]
    until_us: int
    cuts: list[Cut]
    said: Occurrences = field(init=False)

    def __post_init__(self) -> None:
        """Detect for the first time."""
        self.said = self._detected()

    def correct(self, history: tuple[Event, ...]) -> Occurrences:
        """Take over a corrected history; the rows that this adds."""
        changed = first_change(self.history, history)
        changed = self.random.choice((0, self.until_us)) if changed is None else changed
        kept = self._restored(changed)
        self.history = history
        found = self._detected()
        rows = corrections(self.said.at(np.flatnonzero(self._since(kept))), found)
        self.said = joined([self.said, rows])
        return rows

    def _restored(self, changed_us: int) -> Cut:
        """The last cut before a change: no version may come that was detected before the clock of a state."""
        while len(self.cuts) > 1 and self.cuts[-1].until_us >= changed_us:
            self.cuts.pop()
        return self.cuts[-1]

    def _detected(self) -> Occurrences:
        """Go on from the last cut to the end, with new cuts on the way."""
        found = []
        for end in self._ends(self.cuts[-1].count):
            last = self.cuts[-1]
            clock = self.until_us
            if end < len(self.history):
                # The next version may not be of the time of the cut: a timer of that time would be on either side.
                low, high = self.history[end - 1].det_time, self.history[end].det_time - 1
                clock = self.random.choice((low, high))
            state, occurrences = self.go(last.state, self.history[last.count : end], clock)
            found.append(occurrences)
            if end < len(self.history):
                self.cuts.append(Cut(end, self.history[end - 1].seq, clock, state))
        return joined(found)

    def _ends(self, begin: int) -> list[int]:
        events = self.history
        able = [i for i in range(begin + 1, len(events)) if events[i - 1].det_time < events[i].det_time]
        return [*sorted(self.random.sample(able, min(len(able), self.random.choice((0, 1, 2, 4))))), len(events)]

    def _since(self, cut: Cut) -> npt.NDArray[np.bool_]:
        timed = without_seq(self.said.seq)
        return np.where(timed, self.said.det_time > cut.until_us, self.said.seq > cut.seq)


class Careless(Account):
    """Restores the last state, whatever has changed: what it says is wrong, so that the laws are seen to fail."""

    def _restored(self, changed_us: int) -> Cut:
        return self.cuts[-1]


def fresh(go: Go, begin: bytes, history: tuple[Event, ...], until_us: int) -> Occurrences:
    """What is found in a history at once."""
    return go(begin, history, until_us)[1]


Row = tuple[int, int, int, tuple[object, ...], tuple[int, ...]]


def rows_of(found: Occurrences) -> list[Row]:
    """What is said, without kinds and revisions."""
    values = zip(*(c.to_pylist() for c in found.values.columns), strict=True) if found.values.num_columns else None
    columns = (found.seq.tolist(), found.occ_time.tolist(), found.det_time.tolist())
    lists = map(tuple, found.constituents.to_pylist())
    return list(zip(*columns, values or [()] * len(found), lists, strict=True))


def said_of(found: Occurrences) -> list[tuple[Row, str, int]]:
    """Rows with kind and revision."""
    kinds = ["+" if kind == ASSERT else "-" for kind in found.kind]
    return list(zip(rows_of(found), kinds, found.revision.tolist(), strict=True))


def identity_of(row: Row, event_class: EventClass) -> tuple[object, ...]:
    """By which an occurrence is known, as the docs say it."""
    seq, _, det_time, values, constituents = row
    names = [a.name for a in event_class.attributes]
    key = tuple(values[names.index(name)] for name in event_class.key)
    return seq, det_time if seq <= 0 else None, constituents, key


def check_corrections(account: Account, begin: bytes, chances: Random) -> tuple[int, int]:
    """The laws, on one case; how many rows corrected it, and how many of them said something else of what stood."""
    original, event_class = account.history, account.said.event_class

    def stands() -> list[tuple[Row, str, int]]:
        now = current(account.said)
        afresh = fresh(account.go, begin, account.history, account.until_us)
        assert rows_of(now) == rows_of(afresh), "applying a correction equals detecting afresh"
        return said_of(now)

    at_first = stands()
    assert all((kind, revision) == ("+", 0) for _, kind, revision in at_first)
    assert len(account.correct(original)) == 0, "nothing has changed"
    rows = account.correct(corrected(chances, original, account.said))
    stands()
    assert len(account.correct(account.history)) == 0, "nothing has changed since"
    touched = {identity_of(row, event_class) for row, _, revision in said_of(rows) if revision == 1}
    back = account.correct(original)
    assert {identity_of(row, event_class) for row, _, revision in said_of(back) if revision == 2} == touched
    assert stands() == [(row, "+", 2 if identity_of(row, event_class) in touched else 0) for row, _, _ in at_first], (
        "what was there at first is there again, said for the third time where it had been corrected"
    )
    for _ in range(2):
        account.correct(corrected(chances, account.history, account.said))
        stands()
    changed = sum(kind == "+" and revision == 1 for _, kind, revision in said_of(rows))
    return len(rows), changed

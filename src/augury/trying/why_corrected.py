"""Which parts the constituents of an event satisfy where the class has ORDER BY OCCURRENCE.

In: the record of a run, and a version. Out: a `Why` that names versions by their `seq`, or None. The kernel is asked
over what was known of what happened, in the order in which it did: as in `engine.corrected`, the place of a version
stands for its `seq`, and its occ_time for its det_time. Where complex events stand in that history, nobody is asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import ByOccurrence, MatchPlan
from augury.engine.corrected import FIRST_PLACE
from augury.kernels.batch import ASSERT, Batch
from augury.kernels.composite.why import why as why_composite
from augury.kernels.match.why import why as why_match
from augury.kernels.told import Absence, Constituent, Instant, Why
from augury.trying.simulate_record import EventKey, Record, Version

_ANNOUNCE: Final = "announce"


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected history, and the `seq` of the version at each place."""

    history: Batch
    seqs: Sequence[int]

    def place_of(self, seq: int) -> int | None:
        """Where a version stands, if it does."""
        return FIRST_PLACE + self.seqs.index(seq) if seq in self.seqs else None

    def readable(self, sentence: str) -> str:
        """A sentence in which versions have their `seq`."""
        return re.sub(r"\d{13}", lambda found: str(self.seq_at(int(found[0]))), sentence)

    def seq_at(self, place: int) -> int:
        """Which version stands at a place."""
        return self.seqs[place - FIRST_PLACE] if 0 <= place - FIRST_PLACE < len(self.seqs) else place


def corrected(record: Record, order: ByOccurrence, until: Version | None = None) -> Corrected:
    """What was known when a version was said, by itself in the end, in the order in which it happened."""
    batch = record.history(())
    at: dict[EventKey, int] = {}
    there: dict[int, None] = {}
    greatest: int | None = None
    for row, seq in enumerate(batch.seq.tolist()):
        one = record.received[seq]
        if until is not None and _is_after(one, until):
            break
        old = None if one.change == _ANNOUNCE else at.get(one.event_key)
        times = [time for time in (one.occ_time, None if old is None else int(batch.occ_time[old])) if time is not None]
        if _is_too_old(one, order, times, greatest):
            if one.is_withdrawal:
                at.pop(one.event_key, None)
            continue
        if old is not None:
            del there[at.pop(one.event_key)]
        if one.occ_time is not None:
            there[row] = None
            at[one.event_key] = row
            greatest = one.occ_time if greatest is None else max(greatest, one.occ_time)
    rows = np.array(sorted(there, key=lambda row: (int(batch.occ_time[row]), row)), np.int64)
    found = batch.at(rows)
    places = np.arange(FIRST_PLACE, FIRST_PLACE + len(rows))
    kind = np.full(len(rows), ASSERT, np.uint8)
    placed = replace(found, seq=places, det_time=found.occ_time, kind=kind, detected=found.det_time)
    return Corrected(placed, found.seq.tolist())


def _is_after(one: Version, until: Version) -> bool:
    if until.seq is not None and one.seq is not None:
        return one.seq > until.seq
    return one.tick > until.tick or one.det_time > until.det_time


def why_corrected(record: Record, version: Version, untold: tuple[type[Exception], ...]) -> Why | None:
    """Why an event is there, if its kernel finds just these constituents; `untold` is what asking may raise."""
    plan = record.plan.classes[version.place].derivation
    assert isinstance(plan, MatchPlan | CompositePlan)
    assert plan.by_occurrence is not None
    known = corrected(record, plan.by_occurrence, version)
    places = [known.place_of(seq) for seq in version.constituents or ()]
    constituents = sorted(place for place in places if place is not None)
    if len(constituents) < len(places):
        return None
    for place in (*reversed(constituents), None):
        try:
            return _as_known(
                record, known, _asked(record, replace(plan, by_occurrence=None), version, known, place, constituents)
            )
        except untold:
            continue
    return None


def _asked(
    record: Record,
    plan: MatchPlan | CompositePlan,
    version: Version,
    known: Corrected,
    place: int | None,
    constituents: Sequence[int],
) -> Why:
    values = {name: value.value for name, value in version.values.items()}
    chronon_us, history = record.plan.chronon_us, known.history
    assert version.occ_time is not None, "what is detected is not withdrawn by it"
    if isinstance(plan, MatchPlan):
        at = version.occ_time
        return why_match(plan, history, place, constituents, values, clock_us=at, chronon_us=chronon_us)
    occ_time = version.occ_time
    return why_composite(
        plan, history, place, constituents, values, occ_time=occ_time, det_time=occ_time, chronon_us=chronon_us
    )


def _as_known(record: Record, known: Corrected, found: Why) -> Why:
    """The same with the `seq` of versions instead of their places."""
    seqs = known.seq_at

    def constituent(one: Constituent) -> Constituent:
        text = record.received[seqs(one.seq)].text if one.made_of == (one.seq,) else one.event
        return replace(one, seq=seqs(one.seq), event=text, made_of=tuple(map(seqs, one.made_of)))

    def instant(at: Instant) -> Instant:
        return at if at.seq is None else replace(at, seq=seqs(at.seq))

    def absence(one: Absence) -> Absence:
        return replace(one, after=None if one.after is None else instant(one.after), end=instant(one.end))

    at = None if found.seq is None else seqs(found.seq)
    events, absences = tuple(map(constituent, found.events)), tuple(map(absence, found.absences))
    return replace(found, seq=at, events=events, absences=absences)


def _is_too_old(one: Version, order: ByOccurrence, times: Sequence[int], greatest: int | None) -> bool:
    """Whether a version, or that whose place it takes, is older than what is allowed for, or expired when it came."""
    lifespan = one.event_class.lifespan_us
    if one.occ_time is not None and lifespan is not None and one.occ_time + lifespan < one.det_time:
        return True
    if order.allowing_us is None or greatest is None:
        return False
    return bool(times) and min(times) < greatest - order.allowing_us

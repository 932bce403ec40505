"""The steps of a chronon: rows are read, MATCH, COMPOSITE and triggers advance, and what rules post is read in turn.

In: a plan, the state, rows in order, and how far time goes. Out: nothing; what a step read and found is in the state's
chronon until the tick takes it. Where no rule posts, all rows are one step; where one does, a step ends after each row
at which that may happen, for what is posted comes before the next row. SELECTs and conditions wait for the tick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from augury.engine import detecting
from augury.engine.chronon import QueuedPost, Read
from augury.engine.detecting import Histories
from augury.engine.occurrence_state import OccurrenceState
from augury.engine.plan import EnginePlan, SelectUnit
from augury.engine.ports import KnownVersions
from augury.engine.reading import clock_read, next_by_clock, read_arrivals
from augury.engine.state import EngineState, TriggersState
from augury.engine.trigger_plan import NO_CUTS, Cuts
from augury.engine.triggering import Ruling, look
from augury.event import EventClass, key_of
from augury.history.arrivals import Arrivals, ClassRows
from augury.history.typed import Part
from augury.history.versions import ABSORBED
from augury.kernels.batch import Batch
from augury.kernels.bitemporal import NEVER
from augury.kernels.columns import arrow_type
from augury.kernels.composite.state import CompositeState
from augury.kernels.firing import Refusal, Switched, Turned

_NOTHING: Final = Arrivals()


def advance(
    plan: EnginePlan,
    state: EngineState,
    came: Arrivals,
    tick: int,
    upto: int,
    known: KnownVersions | None,
    ruling: Ruling,
) -> None:
    """Read rows that came in the chronon of a tick, and let its clock go on up to a time, that included.

    All rows are detected by then, and none before an earlier step had gone as far. At the tick itself `upto` is its
    time: timers due then fire, while what is posted then is left to the next.
    """
    _Steps(plan, state, tick, known, ruling).advance(came, upto)


def turn(state: TriggersState, kind: Switched, name: str, on: bool) -> None:
    """Enable or disable something from now on."""
    (state.off.discard if on else state.off.add)((kind, key_of(name)))


def advance_again(
    plan: EnginePlan, state: EngineState, read: Read, upto: int, ruling: Ruling, turns: Sequence[Turned]
) -> None:
    """The same over versions that were read before: no rule runs, and what rules posted is among them."""
    steps = _Steps(plan, state, upto, None, ruling)
    state.triggers.pending = []
    state.chronon.reads.append(read)
    if len(read.batch):
        state.seq = int(read.batch.seq[-1])
    begin = 0
    for one in turns:
        end = int(np.searchsorted(read.batch.seq, one.after_seq, side="right"))
        if one.after_us is not None:
            steps.detect(read.batch.part(begin, end), one.after_us)
        turn(state.triggers, one.kind, one.name, one.on)
        begin = end
    steps.detect(read.batch.part(begin, len(read.batch)) if begin else read.batch, upto)


@dataclass(slots=True)
class _Steps:
    plan: EnginePlan
    state: EngineState
    tick: int
    known: KnownVersions | None
    ruling: Ruling

    def advance(self, came: Arrivals, upto: int) -> None:
        chronon, cuts = self.state.chronon, self.plan.cuts
        chronon.queue += self.state.triggers.pending
        self.state.triggers.pending = []
        if cuts is None and not chronon.queue:
            self.step(came, upto)
        else:
            self._in_pieces(came, upto, cuts or NO_CUTS)
        chronon.upto = upto

    def step(self, came: Arrivals, upto: int, posts: Sequence[QueuedPost] = (), *, clock: int | None = None) -> None:
        """Read and detect, with all timers up to a time, and the events of the clock up to it, or before another."""
        until = min(upto + 1 if clock is None else clock, self.tick)
        read = read_arrivals(self.plan, self.state, came, self.tick, self.known, until)
        self._settle(posts, read)
        # What became of posts is told by their firings.
        self.state.chronon.reads.append(replace(read, fates={}) if posts else read)
        self.detect(read.batch, upto)

    def detect(self, batch: Batch, upto: int) -> None:
        """Let MATCH, COMPOSITE and triggers go on."""
        chronon, histories = self.state.chronon, Histories(batch)
        for number, unit in enumerate(self.plan.units):
            if isinstance(unit, SelectUnit):
                continue
            for place, found in detecting.detect(self.plan, self.state, number, histories, upto).items():
                if found.errors:
                    name = found.event_class.name
                    chronon.errors[name] = chronon.errors.get(name, 0) + found.errors
                histories.occurrences[place] = found
                if len(found):
                    chronon.found.setdefault(place, []).append(found)
        look(self.plan, self.state, histories, upto, self.ruling)

    # ---- where rules post ------------------------------------------------------------------------

    def _in_pieces(self, came: Arrivals, upto: int, cuts: Cuts) -> None:
        """Each piece ends where something may be posted, and what is posted is read before the next begins."""
        pieces = _Pieces(came, cuts)
        if came.refusals:
            self.step(Arrivals({}, came.refusals, came.place), self._reached())
        while True:
            self._read_posts(cuts)
            due, det = self._next_due(cuts), pieces.next_det()
            if due <= (upto if det is None else det):
                # Timers come before what the clock posts at the same time.
                self.step(_NOTHING, due, clock=due if self._next_timer() <= due else None)
            elif det is not None:
                part, last = pieces.take(due)
                self.step(part, last)
            elif self._reached() < min(upto, self.tick - 1) or self._next_timer() <= upto:
                self.step(_NOTHING, upto)
            else:
                break
        self.state.triggers.pending, self.state.chronon.queue = self.state.chronon.queue, []

    def _reached(self) -> int:
        """How far the clock has gone."""
        return clock_read(self.plan, self.state, self.tick) - 1

    def _next_due(self, cuts: Cuts) -> int:
        """When the clock may bring something at which a rule posts."""
        clock = self._next_by_clock() if any(code in cuts.codes for code, _ in self.plan.clocks) else NEVER
        return min(self._next_timer(), clock) if cuts.at_timers else clock

    def _next_timer(self) -> int:
        graphs = [one.detection for one in self.state.triggers.each if one.detection is not None]
        units = [one for one in self.state.detection if isinstance(one, CompositeState | OccurrenceState)]
        return min((one.next_due() for one in (*graphs, *units)), default=NEVER)

    def _next_by_clock(self) -> int:
        found = next_by_clock(self.plan, clock_read(self.plan, self.state, self.tick))
        return NEVER if found is None or found >= self.tick else found

    def _read_posts(self, cuts: Cuts) -> None:
        """Read what rules posted in this chronon, in the order of posting, and what is posted at that in turn."""
        queue = self.state.chronon.queue
        while queue and queue[0].posted.det_time < self.tick:
            det_time, some = queue[0].posted.det_time, 0
            for one in queue:
                if one.posted.det_time != det_time:
                    break
                some += 1
                if self._code(one) in cuts.codes:
                    break
            posts, queue[:some] = queue[:some], []
            self.step(posted_rows(self.plan.received_classes, posts), det_time, posts)

    def _code(self, post: QueuedPost) -> int:
        return _code_in(self.plan.received_classes, post)

    def _settle(self, posts: Sequence[QueuedPost], read: Read) -> None:
        """Note what became of posts, and how deep they are."""
        for place, one in enumerate(posts):
            verdict, seq = read.fates[self._code(one)].of(place)
            if seq is not None:
                self.state.chronon.depths[seq] = one.depth
            if one.firing is not None:
                refused = Refusal.DUPLICATE if verdict == ABSORBED else Refusal.IMMUTABLE
                self.state.chronon.became[one.firing, one.number] = refused if seq is None else seq


def posted_rows(classes: Sequence[EventClass], posts: Sequence[QueuedPost]) -> Arrivals:
    """Posts as rows of the classes that come in, each at its place among them."""
    rows: dict[int, ClassRows] = {}
    codes = [_code_in(classes, one) for one in posts]
    for code in set(codes):
        at = [place for place, one in enumerate(codes) if one == code]
        values = [posts[place].posted.values for place in at]
        columns = tuple(
            pa.array([row[number] for row in values], arrow_type(attribute.type))
            for number, attribute in enumerate(classes[code].attributes)
        )
        times = np.array([posts[place].posted.det_time for place in at], np.int64)
        rows[code] = ClassRows(Part(columns, times, times, None, None), np.array(at, np.int64))
    return Arrivals(rows, (), lambda place: f"posted by {posts[place].trigger}")


def _code_in(classes: Sequence[EventClass], post: QueuedPost) -> int:
    name = key_of(post.posted.event_class)
    return next(code for code, one in enumerate(classes) if key_of(one.name) == name)


class _Pieces:
    """Rows in order, to be taken up to where a rule may post."""

    def __init__(self, came: Arrivals, cuts: Cuts) -> None:
        self._came, self._cuts, self._next = came, cuts, 0
        codes = sorted(came.rows)
        sizes = [len(came.rows[code]) for code in codes]
        none = np.zeros(0, np.int64)
        code = np.repeat(np.array(codes, np.int64), sizes)
        at = np.concatenate([none, *(np.arange(size) for size in sizes)])
        det = np.concatenate([none, *(came.rows[c].part.det_time for c in codes)])
        position = np.concatenate([none, *(came.rows[c].position for c in codes)])
        order = np.lexsort((code, position, det))
        self._code, self._at, self._det = code[order], at[order], det[order]

    def next_det(self) -> int | None:
        """When the next row was detected; None if there is none."""
        return int(self._det[self._next]) if self._next < len(self._det) else None

    def take(self, before: int) -> tuple[Arrivals, int]:
        """The next rows up to one at which a rule may post, all before a time; and when the last was detected."""
        begin = end = self._next
        while end < len(self._det) and self._det[end] < before:
            end += 1
            if int(self._code[end - 1]) in self._cuts.codes:
                break
        self._next = end
        some = slice(begin, end)
        rows = {
            int(code): self._came.rows[int(code)].at(self._at[some][self._code[some] == code])
            for code in np.unique(self._code[some])
        }
        return Arrivals(rows, (), self._came.place), int(self._det[end - 1])

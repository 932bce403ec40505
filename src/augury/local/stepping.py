"""Events read before their tick, for whoever waits: in steps that come out the same after a crash.

In: the posts that wait, an engine. Out: `Answer`s. A step takes all posts that are there, so that many who wait share
it. How far it went and which posts it took is kept in the store, with what functions gave back, before anybody has an
answer; after a crash the steps of the chronon are done again, each over the same posts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from augury.engine.steps import turn
from augury.engine.tick import step, tick_at_most
from augury.history.arrivals import Arrivals, arrivals
from augury.history.raw import Broken, RawRows
from augury.kernels.firing import Turned
from augury.local.answers import Answer, answer_of
from augury.local.calling import CalledFunctions
from augury.local.posts import POSTED

if TYPE_CHECKING:
    from augury.local.running import LocalEngine

_STEP: Final = "step/"
"""What the steps of a chronon are called among what the store remembers, before their numbers."""

Waiting = Mapping[int, Mapping[str, Any] | Broken]


class Steps:
    """The steps of an engine's chronon; who uses it holds the engine's lock."""

    def __init__(self, engine: LocalEngine, calling: CalledFunctions) -> None:
        """No step was made yet."""
        self._engine, self._calling = engine, calling
        self._taken: set[int] = set()
        self._answers: dict[int, Answer] = {}
        self._count = 0

    def taken(self) -> list[int]:
        """The places of the posts that steps of the chronon have read."""
        return sorted(self._taken)

    def committed(self) -> None:
        """The tick of the chronon is committed: what its steps took is part of it."""
        self._taken.clear()
        self._calling.forget()
        self._count = 0

    def came(self, waiting: Waiting, until: int) -> tuple[Arrivals, list[int]]:
        """The posts that no step has read, detected before a time, as rows; and their places by position."""
        places = [place for place in waiting if place not in self._taken]
        if not places:
            return Arrivals(), []
        engine = self._engine
        raw = RawRows(POSTED, [waiting[place] for place in places], places)
        reached = engine._state.chronon.upto
        floor = engine._state.tick if reached is None else reached
        return arrivals(engine.program, [raw], until_us=until, not_before_us=floor), places

    def answer(self, place: int) -> Answer:
        """Read up to a post, with all that came before it; it may have been read with another's."""
        if place in self._answers:
            return self._answers.pop(place)
        engine = self._engine
        if engine._is_spoiled:
            engine._reload()
        for _ in engine._kept_at_last():
            pass
        upto = self._time_of(place)
        if upto is None:
            return Answer(place)
        for _ in engine._ticks(tick_at_most(upto, engine._plan.chronon_us)):
            pass
        if place not in self._answers:
            self._step(upto, max(engine._posts.waiting(), default=0), is_again=False)
        return self._answers.pop(place, Answer(place))

    def _time_of(self, place: int) -> int | None:
        """How far time has to go for a post to be read; None if that is later than now."""
        engine = self._engine
        came, places = self.came(engine._posts.waiting(), _FOR_EVER)
        det = [
            int(rows.part.det_time[at])
            for rows in came.rows.values()
            for at in np.flatnonzero(rows.position == (places.index(place) if place in places else -1)).tolist()
        ]
        now = engine._now()
        reached = engine._state.chronon.upto or engine._state.tick or 0
        if now is None:
            return max([reached, *det])
        # An event that was posted a moment ago may be a moment ahead of a clock that is asked again.
        return None if det and det[0] > now + _AHEAD_US else max([reached, now, *det])

    def _step(self, upto: int, last: int, *, is_again: bool) -> None:
        engine = self._engine
        every = engine._posts.waiting()
        waiting = {place: row for place, row in every.items() if place <= last}
        came, places = self.came(waiting, upto + 1)
        before = len(engine._state.chronon.reads)
        try:
            step(engine._plan, engine._state, came, upto, engine._ports)
            if not is_again:
                record = {f"{_STEP}{self._count}": json.dumps([upto, last])}
                engine._store.remember({**record, **self._calling.made})
        except BaseException:
            engine._is_spoiled = True
            raise
        self._calling.kept()
        self._count += 1
        reads = engine._state.chronon.reads[before:]
        positions = {int(p) for rows in came.rows.values() for p in rows.position.tolist()}
        positions |= {refusal.position for refusal in came.refusals}
        for position in sorted(positions):
            place = places[position]
            self._taken.add(place)
            if not is_again:
                self._answers[place] = answer_of(engine._plan, engine._state, place, position, reads)

    def again(self, turns: Sequence[Turned], begun: int | None = None) -> None:
        """The steps that were made since the last tick, over the same posts, with the switches made meanwhile.

        `begun` is when the clock began to be followed: where there was no tick yet, it counts as one.
        """
        engine = self._engine
        self._taken, self._answers, self._count = set(), {}, 0
        remembered = engine._store.remembered()
        self._calling.recall(remembered)
        steps = {
            int(name.removeprefix(_STEP)): json.loads(v) for name, v in remembered.items() if name.startswith(_STEP)
        }
        if engine._state.tick is None and begun is not None and all(upto >= begun for upto, _ in steps.values()):
            engine._state.tick = begun
        left = list(turns)
        for number in sorted(steps):
            self._turn(left)
            upto, last = steps[number]
            self._step(upto, last, is_again=True)
        self._turn(left, every=True)

    def _turn(self, left: list[Turned], *, every: bool = False) -> None:
        """Make the switches that were made by now."""
        state = self._engine._state
        reached = state.tick if state.chronon.upto is None else state.chronon.upto
        while left and (every or (left[0].after_seq <= state.seq and (left[0].after_us or 0) <= (reached or 0))):
            one = left.pop(0)
            turn(state.triggers, one.kind, one.name, one.on)


_FOR_EVER: Final = 1 << 62
_AHEAD_US: Final = 1_000_000

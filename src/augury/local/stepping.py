"""Events read before their tick, for whoever waits: in steps that come out the same after a crash.

In: the posts that wait, an engine. Out: `Answer`s. A step takes all posts that are there, so that many who wait share
it. How far it went and which posts it took is kept in the store, with what functions gave back, before anybody has an
answer; after a crash the steps of the chronon are done again, each over the same posts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from augury.engine.reaching import (
    first_before,
    now_or_later,
    reached,
    tick_before,
    to_be_read,
    turn_by_now,
)
from augury.engine.steps import turn
from augury.engine.tick import step
from augury.history.arrivals import Arrivals, arrivals
from augury.history.raw import Broken, RawRows
from augury.kernels.firing import Turned
from augury.local.answers import Answer, answer_of, marks_of
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
        return arrivals(engine.program, [raw], until_us=until, not_before_us=reached(engine._state)), places

    def answer(self, place: int) -> Answer:
        """Read up to a post, with all that came before it; it may have been read with another's."""
        engine = self._engine
        try:
            if place not in self._answers:
                self._be_sound()
            if place not in self._answers and (upto := self._time_of(place)) is not None:
                self._read(upto)
            return self._answers.pop(place, Answer(place))
        finally:
            engine._posts.asked.discard(place)
            self._answers.pop(place, None)

    def read_all(self) -> None:
        """Read what was posted by now, where there is a clock that says when that is."""
        self._be_sound()
        now = self._engine._now()
        if now is not None and any(place not in self._taken for place in self._engine._posts.waiting()):
            self._read(now_or_later(self._engine._state, now))

    def _be_sound(self) -> None:
        if self._engine._is_spoiled:
            self._engine._reload()
        for _ in self._engine._kept_at_last():
            pass

    def _read(self, upto: int) -> None:
        last = tick_before(self._engine._plan, self._engine._state, upto)
        for _ in () if last is None else self._engine._ticks(last):
            pass
        self.step(upto)

    def step(self, upto: int) -> None:
        """Read all that is there and was detected by a time."""
        self._step(upto, max(self._engine._posts.waiting(), default=0), is_again=False)

    def asked_before(self, until: int) -> int | None:
        """When the first post was detected that a tick up to then would read and somebody waits to hear of."""
        engine = self._engine
        asked = [place for place in sorted(engine._posts.asked) if place not in self._taken]
        rows = engine._posts.waiting() if asked else {}
        times = [time for place in asked if place in rows and (time := self._det_time(place, rows)) is not None]
        return first_before(times, until)

    def _time_of(self, place: int) -> int | None:
        """How far time has to go for a post to be read; None if that is later than now, or it has been read."""
        engine = self._engine
        rows = engine._posts.waiting()
        if place not in rows:
            return None
        return to_be_read(engine._state, self._det_time(place, rows), engine._now())

    def _det_time(self, place: int, rows: Waiting) -> int | None:
        """When a post was detected; None if it is refused whatever else is there."""
        engine = self._engine
        raw = RawRows(POSTED, [rows[place]], [place])
        return arrivals(engine.program, [raw], not_before_us=reached(engine._state)).last_us()

    def _step(self, upto: int, last: int, *, is_again: bool) -> None:
        engine = self._engine
        waiting = {place: row for place, row in engine._posts.waiting().items() if place <= last}
        came, places = self.came(waiting, upto + 1)
        marks = marks_of(engine._state.chronon)
        before = engine._state.tick
        try:
            step(engine._plan, engine._state, came, upto, engine._ports)
            if not is_again:
                record = {f"{_STEP}{self._count}": json.dumps([upto, last, before])}
                engine._store.remember({**record, **self._calling.made})
        except BaseException:
            engine._is_spoiled = True
            raise
        self._calling.kept()
        self._count += 1
        positions = {int(p) for rows in came.rows.values() for p in rows.position.tolist()}
        positions |= {refusal.position for refusal in came.refusals}
        for position in positions:
            place = places[position]
            self._taken.add(place)
            if place in engine._posts.asked:
                self._answers[place] = answer_of(engine._plan, engine._state, place, position, marks)

    def again(self, turns: Sequence[Turned], begun: int | None = None) -> None:
        """The steps that were made since the last tick, over the same posts, with the switches made meanwhile.

        `begun` is when the clock began to be followed: where there was no tick yet, it counts as one. The first step
        was made after what counted then.
        """
        engine = self._engine
        self._taken, self._answers, self._count = set(), {}, 0
        remembered = engine._store.remembered()
        self._calling.recall(remembered)
        steps = {
            int(name.removeprefix(_STEP)): json.loads(v) for name, v in remembered.items() if name.startswith(_STEP)
        }
        if engine._state.tick is None:
            engine._state.tick = steps[min(steps)][2] if steps else begun
        left = list(turns)
        for number in sorted(steps):
            turn_by_now(engine._state, left)
            upto, last, _ = steps[number]
            self._step(upto, last, is_again=True)
        for one in left:
            turn(engine._state.triggers, one.kind, one.name, one.on)

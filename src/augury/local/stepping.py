"""Events read before their tick, for whoever waits: in steps that come out the same after a crash.

In: the posts that wait, and where an engine stands. Out: `Answer`s. A step takes all posts that are there, so that many
who wait share it. How far it went and which posts it took is kept in the store, with what functions gave back, before
anybody has an answer; after a crash the steps of the chronon are done again, each over the same posts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from augury.engine.plan import EnginePlan
from augury.engine.ports import Store
from augury.engine.reaching import first_before, now_or_later, reached, to_be_read, turn_by_now
from augury.engine.state import EngineState
from augury.engine.steps import turn
from augury.engine.tick import Ports, step, tick_at_most
from augury.history.arrivals import Arrivals, arrivals
from augury.history.raw import RawRows
from augury.kernels.bitemporal import NEVER
from augury.kernels.firing import Turned
from augury.local.answers import Answer, answers_of, marks_of
from augury.local.calling import CalledFunctions
from augury.local.posts import POSTED, Kept, Posts

_STEP: Final = "step/"
"""What the steps of a chronon are called among what the store remembers, before their numbers."""

Waiting = Mapping[int, Kept]
"""Posts by place, ascending."""


@dataclass(frozen=True, slots=True)
class At:
    """Where an engine stands: its plan, its state, and what it works with."""

    plan: EnginePlan
    state: EngineState
    ports: Ports


class Steps:
    """The steps of an engine's chronon; who uses it holds the engine's lock, and says where the engine stands."""

    def __init__(self, store: Store, posts: Posts, calling: CalledFunctions) -> None:
        """No step was made yet."""
        self._store, self._posts, self._calling = store, posts, calling
        self._answers: dict[int, Answer] = {}
        self._count = 0

    def committed(self) -> None:
        """The tick of the chronon is committed: what its steps took is part of it."""
        self._calling.forget()
        self._count = 0

    def has(self, place: int) -> bool:
        """Whether there is an answer for whoever waits for what became of a post."""
        return place in self._answers

    def fetched(self, place: int) -> Answer:
        """The answer, which is told once; without one the post waits for a later tick."""
        self._posts.asked.discard(place)
        return self._answers.pop(place, Answer(place))

    def to_be_read(self, at: At, until: int, waiting: Waiting) -> tuple[Arrivals, dict[int, list[int]], list[int]]:
        """The posts that ticks up to then read, by tick their places, and the places of those that are refused."""
        chronon_us = at.plan.chronon_us
        came, places = self._came(at, waiting, tick_at_most(until, chronon_us))
        found = {
            tick: [places[position] for one in rows.rows.values() for position in one.position.tolist()]
            for tick, rows in came.by_tick(chronon_us)
        }
        return came, found, [places[refusal.position] for refusal in came.refusals]

    def _came(self, at: At, waiting: Waiting, until: int) -> tuple[Arrivals, list[int]]:
        """Posts that were detected before a time, as rows; and the places of all by position."""
        if not waiting:
            return Arrivals(), []
        places = list(waiting)
        raw = RawRows(POSTED, [one.row for one in waiting.values()], places)
        return arrivals(at.plan.program, [raw], until_us=until, not_before_us=reached(at.state)), places

    def asked_before(self, at: At, until: int, waiting: Waiting) -> int | None:
        """When the first of some posts was detected that a tick up to then would read and somebody waits to hear of."""
        # Who waits may have posted only now: those that are asked for are known of all that are given.
        asked = [place for place in waiting if place in self._posts.asked]
        times = [time for place in asked if (time := self._det_time(at, place, waiting)) is not None]
        return first_before(times, until)

    def time_of(self, at: At, place: int, now: int | None) -> int | None:
        """How far time has to go for a post to be read; None if that is later than now, or it has been read."""
        waiting = self._posts.waiting()
        return to_be_read(at.state, self._det_time(at, place, waiting), now) if place in waiting else None

    def _det_time(self, at: At, place: int, waiting: Waiting) -> int | None:
        """When a post was detected; None if it is refused whatever else is there."""
        if (given := waiting[place].det_time) is not None:
            return now_or_later(at.state, given)
        return self._came(at, {place: waiting[place]}, NEVER)[0].last_us()

    def step(self, at: At, upto: int) -> None:
        """Read all that is there and was detected by a time; where it raises, the state cannot be relied on."""
        waiting = self._posts.waiting()
        due = {place for place in waiting if place in self._posts.asked and self._is_due(at, place, waiting, upto)}
        self._step(at, upto, waiting, max(waiting, default=0), is_again=False)
        assert not due & self._posts.waiting().keys(), "who asks would be waited for again and again"

    def _is_due(self, at: At, place: int, waiting: Waiting, upto: int) -> bool:
        time = self._det_time(at, place, waiting)
        return time is not None and time <= upto

    def _step(self, at: At, upto: int, waiting: Waiting, last: int, *, is_again: bool) -> None:
        came, places = self._came(at, waiting, upto + 1)
        marks = marks_of(at.state.chronon)
        before = at.state.tick
        step(at.plan, at.state, came, upto, at.ports)
        if not is_again:
            record = {f"{_STEP}{self._count}": json.dumps([upto, last, before])}
            self._store.remember({**record, **self._calling.made})
        self._calling.kept()
        self._count += 1
        positions = {int(p) for rows in came.rows.values() for p in rows.position.tolist()}
        positions |= {refusal.position for refusal in came.refusals}
        self._posts.read_in_step(places[position] for position in positions)
        asked = {position: places[position] for position in positions if places[position] in self._posts.asked}
        self._answers |= answers_of(at.plan, at.state, asked, marks) if asked else {}

    def again(self, at: At, turns: Sequence[Turned], begun: int | None = None) -> None:
        """The steps that were made since the last tick, over the same posts, with the switches made meanwhile.

        `begun` is when the clock began to be followed: where there was no tick yet, it counts as one. The first step
        was made after what counted then.
        """
        state, waiting = at.state, self._posts.waiting()
        # Who has not fetched an answer of a tick that is committed has it from here alone.
        self._answers = {place: one for place, one in self._answers.items() if place not in waiting}
        self._count = 0
        remembered = self._store.remembered()
        self._calling.recall(remembered)
        steps = {
            int(name.removeprefix(_STEP)): json.loads(v) for name, v in remembered.items() if name.startswith(_STEP)
        }
        if state.tick is None:
            state.tick = steps[min(steps)][2] if steps else begun
        left = list(turns)
        for number in sorted(steps):
            turn_by_now(state, left)
            upto, last, _ = steps[number]
            waiting = {place: one for place, one in self._posts.waiting().items() if place <= last}
            self._step(at, upto, waiting, last, is_again=True)
        for one in left:
            turn(state.triggers, one.kind, one.name, one.on)

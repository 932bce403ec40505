"""The engine in process: events are posted, the clock is moved on, and every tick is committed to a store.

In: a checked program, a store, posts. Out: ticks, and histories as Arrow tables. It drives `engine.tick` and holds no
rule about time itself. A crash at any instant leaves a store from which the next `LocalEngine` goes on as this one
would have: ticks that were committed are worked out again from the last good snapshot, and posts that no tick has
taken wait in the store.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event, Lock, RLock, Thread
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from augury.algebra.program import Program
from augury.clock import microseconds_of, show_duration, show_time
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.ports import Post, Snapshot, Store, Torn
from augury.engine.snapshot import loaded_state, saved_state, ticks_again
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, ticks
from augury.engine.ticked import Ticked
from augury.event import EventClass
from augury.history import views
from augury.history.arrivals import Arrivals, arrivals
from augury.history.raw import RawRows, whole_json
from augury.kernels.sealed import UnfitState
from augury.local.selects import duck_selects

LOG: Final = logging.getLogger("augury")

SNAPSHOT_VERSIONS_MIN: Final = 20_000
"""Versions read since the last snapshot before the next is due: fewer are worked out again in no time."""

Moment = datetime | int
"""A time: a datetime (UTC where it has no zone), or microseconds since the epoch."""


class PostRefused(ValueError):
    """An event that can be no version of any class, whatever else is there; the message says why."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """An event that is durable, and its place among all that were posted."""

    place: int


@dataclass(slots=True)
class _Ticket:
    """A post on its way to the store."""

    row: Mapping[str, Any]
    place: int | None = None
    error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.place is not None or self.error is not None


@dataclass(slots=True)
class _Waiting:
    """Posts that are durable, and wait for their tick."""

    rows: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def raw(self) -> RawRows:
        return RawRows("posted", list(self.rows.values()), list(self.rows))


class LocalEngine:
    """A program at work on a store: `post` events, `advance_to` a time, ask for the `history`.

    `store` is a path or URL, or a `Store`; left out, everything stays in memory. `clock` gives the time of reading in
    microseconds since the epoch; left out, time is what `advance_to` says, and an event that names no det_time has its
    occ_time, as in a replay. Any number of threads may post.
    """

    def __init__(
        self,
        program: Program,
        store: str | Store | None = None,
        *,
        clock: Callable[[], int] | None = None,
        snapshot_versions_min: int = SNAPSHOT_VERSIONS_MIN,
    ) -> None:
        """Open the store, and come to the state after its last tick."""
        self.program = program
        self.clock = clock
        self.reports: list[str] = []
        """What had to be reported on the way: torn snapshots, a clock that went back."""
        self._snapshot_versions_min = snapshot_versions_min
        self._plan: EnginePlan = engine_plan(program)
        self._store: Store = _opened(program, store)
        self._ports = Ports(duck_selects(program), self._store, time.perf_counter)
        self._working = RLock()
        self._committing = Lock()
        self._queue: list[_Ticket] = []
        self._unkept: list[tuple[Ticked, list[int]]] = []
        self._read_since_snapshot = 0
        self._live: _Live | None = None
        self._state: EngineState = self._recovered()
        self._waiting = _Waiting({place: json.loads(post.line) for place, post in self._store.waiting()})

    # ---- events ----------------------------------------------------------------------------------

    def post(self, event: Mapping[str, Any] | str, *, wait: bool = True) -> Receipt | None:
        """Hand over an event, as a mapping or a line of JSON; once it returns, the event survives a crash.

        Many threads that post share one write to the disk. With `wait=False` it returns at once, and the event is
        written with the next that somebody waits for, or by `flush`. Raises `PostRefused` for what is no event of this
        program (it is among the rejected events all the same), and what the store raises when it cannot write.
        """
        row = self._row(event)
        ticket = _Ticket(row)
        self._queue.append(ticket)
        if not wait:
            return None
        while not ticket.is_done:
            with self._committing:
                if not ticket.is_done:
                    self._write_queue()
        if ticket.error is not None:
            raise ticket.error
        assert ticket.place is not None
        return Receipt(ticket.place)

    def flush(self) -> None:
        """Write what was posted without waiting."""
        with self._committing:
            self._write_queue()

    def _row(self, event: Mapping[str, Any] | str) -> Mapping[str, Any]:
        try:
            row = json.loads(event) if isinstance(event, str) else json.loads(whole_json(event))
        except ValueError as error:
            raise PostRefused(f"it is no JSON: {error}") from None
        if not isinstance(row, dict):
            raise PostRefused("an event is an object: names and values")
        return row

    def _write_queue(self) -> None:
        """Write all tickets that wait, as one transaction."""
        tickets, self._queue = self._queue, []
        if not tickets:
            return
        now = self._now()
        rows = [_with_time(ticket.row, now) for ticket in tickets]
        try:
            places = self._store.append([Post(now or 0, json.dumps(row)) for row in rows])
        except BaseException as error:
            for ticket in tickets:
                ticket.error = error
            return
        refused = self._refused(rows)
        self._waiting.rows.update(zip(places, rows, strict=True))
        for number, (ticket, place) in enumerate(zip(tickets, places, strict=True)):
            if number in refused:
                ticket.error = PostRefused(refused[number])
            else:
                ticket.place = place

    def _refused(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        came = arrivals(self.program, [RawRows("posted", rows, range(len(rows)))], read_us=self._now())
        return {refusal.position: refusal.reason for refusal in came.refusals}

    def _now(self) -> int | None:
        if self.clock is not None:
            return self.clock()
        return None

    # ---- ticks -----------------------------------------------------------------------------------

    @property
    def tick(self) -> int | None:
        """The last tick, in microseconds since the epoch; None before the first."""
        return self._state.tick

    def advance_to(self, moment: Moment) -> list[Ticked]:
        """Let the clock go on: every tick up to this time that has something to do, each committed as a whole.

        A time before the last tick changes nothing and is reported. When the store cannot be written it raises what
        the store does; nothing is lost, and the next call goes on from there.
        """
        until = moment if isinstance(moment, int) else microseconds_of(moment)
        self.flush()
        with self._working:
            self._keep_again()
            last = self._state.tick
            if last is not None and until < last:
                self._report(
                    f"the clock went back by {show_duration(last - until)}, to {show_time(until)}: "
                    f"ticks go on after {show_time(last)}"
                )
                return []
            return list(self._ticks(until))

    def _ticks(self, until: int) -> Iterator[Ticked]:
        came, positions = self._taken_before(until)
        for ticked in ticks(self._plan, self._state, came, until, self._ports):
            self._unkept.append((ticked, positions.pop(ticked.tick, [])))
            self._keep_again()
            yield ticked

    def _taken_before(self, until: int) -> tuple[Arrivals, dict[int, list[int]]]:
        """The posts that ticks up to then read, and by tick their places: what is refused goes with the first."""
        with self._committing:
            waiting = dict(self._waiting.rows)
        if not waiting:
            return Arrivals(), {}
        places = list(waiting)
        raw = RawRows("posted", list(waiting.values()), places)
        chronon_us = self._plan.chronon_us
        end = until // chronon_us * chronon_us
        came = arrivals(self.program, [raw], until_us=end, read_us=self._now(), not_before_us=self._state.tick)
        found: dict[int, list[int]] = {}
        for tick, rows in came.by_tick(chronon_us):
            at = [int(position) for one in rows.rows.values() for position in one.position]
            found[tick] = [places[position] for position in [*at, *(r.position for r in rows.refusals)]]
        if came.refusals and not found:
            found[end] = [places[refusal.position] for refusal in came.refusals]
        return came, found

    def _keep_again(self) -> None:
        """Commit what is not committed yet."""
        while self._unkept:
            ticked, taken = self._unkept[0]
            read = self._read_since_snapshot + sum(map(len, ticked.read))
            snapshot = self._due_snapshot(read)
            self._store.commit([ticked], taken, snapshot)
            self._read_since_snapshot = read if snapshot is None else 0
            self._unkept.pop(0)
            with self._committing:
                for place in taken:
                    self._waiting.rows.pop(place, None)

    def _due_snapshot(self, read: int) -> Snapshot | None:
        """The state, if enough was read since it was last kept: as much as is live, so that it costs what changes."""
        live = sum(len(one.view) for one in self._state.classes)
        if read < max(self._snapshot_versions_min, live):
            return None
        assert self._state.tick is not None
        return Snapshot(self._state.tick, saved_state(self._plan, self._state))

    # ---- recovering ------------------------------------------------------------------------------

    def _recovered(self) -> EngineState:
        last = self._store.last_tick()
        state = self._from_snapshot()
        if last is None:
            return state
        for ticked in ticks_again(self._plan, state, self._store.read_after(state.tick), last, self._ports):
            self._read_since_snapshot += sum(map(len, ticked.read))
        return state

    def _from_snapshot(self) -> EngineState:
        for found in self._store.snapshots():
            if isinstance(found, Torn):
                self._report(
                    f"the snapshot of {show_time(found.tick)} is damaged ({found.reason}): taking an earlier one"
                )
                continue
            try:
                return loaded_state(self._plan, found.content)
            except UnfitState as error:
                self._report(f"the snapshot of {show_time(found.tick)} cannot be used ({error}): taking an earlier one")
        return initial(self._plan)

    def _report(self, sentence: str) -> None:
        self.reports.append(sentence)
        LOG.warning(sentence)

    # ---- asking ----------------------------------------------------------------------------------

    def history(
        self,
        name: str,
        *,
        as_of: Moment | None = None,
        known_at: Moment | None = None,
        diff: tuple[Moment, Moment] | None = None,
    ) -> pa.Table:
        """Every version of a class, or what was known of it at a time, or what had happened by one.

        `known_at` gives the newest version of each event detected by then, unless it withdraws it; `as_of` of what is
        known (then, or now) what had happened by that time; `diff` what changed between two moments of knowledge.
        """
        event_class = self._class(name)
        table = self._store.history(event_class)
        if diff is not None:
            return views.diff(table, event_class, *map(_us, diff))
        if as_of is None and known_at is None:
            return table
        known = views.known_at(table, event_class, _FOR_EVER if known_at is None else _us(known_at))
        return known if as_of is None else views.as_of(known, _us(as_of))

    def _class(self, name: str) -> EventClass:
        plan = self.program.class_plan(name)
        if plan is None:
            raise KeyError(f"the program has no class called {name}")
        return plan.event_class

    # ---- living ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Follow the wall clock: a tick at the end of every chronon, whether something came or not."""
        if self._live is None:
            self.clock = self.clock or wall_clock
            if self._state.tick is None:
                # From now on the clock posts its events, though nothing has come yet.
                self._state.tick = self.clock() // self._plan.chronon_us * self._plan.chronon_us
            self._live = _Live(self)

    def stop(self) -> None:
        """Stop following the clock, between two ticks."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def close(self) -> None:
        """Stop, and let the store go; what was posted and not read waits there."""
        self.stop()
        self.flush()
        close = getattr(self._store, "close", None)
        if close is not None:
            close()

    def __enter__(self) -> LocalEngine:
        """The engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()


class _Live:
    """A thread that moves an engine on by the wall clock."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine, self._over = engine, Event()
        self._thread = Thread(target=self._run, name="augury ticks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        engine = self._engine
        chronon_us = engine.program.settings.chronon_us
        assert engine.clock is not None
        while True:
            now = engine.clock()
            rest = chronon_us - now % chronon_us
            if self._over.wait(rest / 1_000_000):
                return
            try:
                engine.advance_to(engine.clock() // chronon_us * chronon_us)
            except Exception as error:
                LOG.exception("a tick could not be kept: %s; it is tried again at the next", error)


def wall_clock() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000


_FOR_EVER: Final = 2**63 - 1


def _not_used(tick: int, reason: str) -> str:
    return f"the snapshot of {show_time(tick)} cannot be used, {reason}: the ticks since an earlier one are done again"


def _us(moment: Moment) -> int:
    return moment if isinstance(moment, int) else microseconds_of(moment)


def _with_time(row: Mapping[str, Any], now: int | None) -> Mapping[str, Any]:
    """The row as it is kept: with the time of reading, if it names none."""
    if now is None or any(name.casefold() in ("det_time", "dettime") for name in row):
        return row
    return {**row, "det_time": show_time(now)}


def _opened(program: Program, store: str | Store | None) -> Store:
    if store is None:
        from augury.local.store.memory import MemoryStore

        return MemoryStore(program)
    if isinstance(store, str):
        from augury.local.store.sql import open_store

        return open_store(store, program)
    return store

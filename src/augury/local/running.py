"""The engine in process: events are posted, the clock is moved on, and every tick is committed to a store.

In: a checked program, a store, posts. Out: ticks, and histories as Arrow tables. It drives `engine.tick` and holds no
rule about time itself. A crash at any instant leaves a store from which the next `LocalEngine` goes on as this one
would have: ticks that were committed are worked out again from the last good snapshot, and posts that no tick has
taken wait in the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from augury import limits
from augury.algebra.program import Program, require_program
from augury.clock import show_duration, show_time
from augury.duck.selects import runnable
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.ports import Snapshot, Store
from augury.engine.reaching import begins_at, now_or_later, reached, tick_before, turns_after
from augury.engine.replacing import Changes, compare
from augury.engine.snapshot import saved_state
from augury.engine.state import EngineState
from augury.engine.steps import turn
from augury.engine.tick import Ports, tick_at_most, tick_reading, ticks
from augury.engine.ticked import Ticked
from augury.environment import Environment, Machine
from augury.event import EventClass, key_of
from augury.history import views
from augury.history.values import Moment, as_microseconds
from augury.kernels.firing import Functions, Switched, Turned
from augury.kernels.told import Why
from augury.local.answers import Answer, rules_that_failed
from augury.local.applying import Closed, Offer, apply_at_boundary, settle
from augury.local.calling import CalledFunctions
from augury.local.following import Follower, follow
from augury.local.posts import POSTED, PostRefused, Posts, Receipt
from augury.local.recovering import CannotRecover, recovered, store_of
from augury.local.stepping import At, Steps, Waiting
from augury.local.store.errors import AlreadyCommitted, StoreError
from augury.local.transactions import Posting, inside_rule, open_on, refuse_in_rule, refuse_notify
from augury.local.why import why_selected

__all__ = ["Answer", "CannotRecover", "Closed", "LocalEngine", "PostRefused", "Receipt"]

LOG: Final = logging.getLogger("augury")

SNAPSHOT_VERSIONS_MIN: Final = 20_000
"""Versions read since the last snapshot before the next is due: fewer are worked out again in no time."""


class LocalEngine(Posting):
    """A program at work on a store: `post` events, `advance_to` a time, ask for the `history`.

    `store` is a path or URL, or a `Store`; left out, everything stays in memory. `environment` is the world it lives
    in, whose clock gives the time of reading; left out, time is what `advance_to` says, and an event that names no
    det_time has its occ_time, as in a replay. Any number of threads may post.
    """

    def __init__(
        self,
        program: Program,
        store: str | Path | Store | None = None,
        *,
        environment: Environment | None = None,
        snapshot_versions_min: int = SNAPSHOT_VERSIONS_MIN,
        functions: Functions | None = None,
        post_depth_max: int = limits.POST_DEPTH_MAX,
    ) -> None:
        """Open the store, and come to the state after its last tick; raises `CannotRun` and what the store does.

        `functions` are called at once by rules whose actions have their names, and give a value back; all other actions
        wait in the outbox. `post_depth_max` is how many posts of rules may follow from one another.
        """
        require_program(program)
        selects = runnable(program)
        self.program = program
        self.environment = environment
        self._world: Environment = environment or Machine()
        self.reports: list[str] = []
        """What had to be reported on the way: torn snapshots, a clock that went back, ticks that could not be kept."""
        self.when_kept: Callable[[], None] | None = None
        """Called whenever a tick is committed, or a program taken up, by the thread that did so."""
        self._is_closed = self._is_given_up = False
        self._snapshot_versions_min = snapshot_versions_min
        self._plan: EnginePlan = engine_plan(program)
        self._working = RLock()
        self._unkept: tuple[Ticked, list[int]] | None = None
        self._is_spoiled = self._is_behind = False
        self._offer: Offer | None = None
        self._started_at: int | None = None
        self._read_since_snapshot = 0
        self._live: Follower | None = None
        self._store: Store = store_of(program, store, self._report, self._world.monotonic)
        try:
            calling = CalledFunctions(functions, self._world, lambda: inside_rule(self))
            self._ports = Ports(selects, self._store, self._world.monotonic, calling, post_depth_max)
            self._state: EngineState = self._recovered()
            self._posts = Posts(program, self._store, self._now)
            self._steps = Steps(self._store, self._posts, calling)
            self._steps.again(self._at(), self._turned_after(self._state.tick))
        except BaseException:
            self._store.close()
            raise

    # ---- events ----------------------------------------------------------------------------------

    def post(self, event: Mapping[str, Any] | str, *, wait: bool = True) -> Receipt | None:
        """Hand over an event, as a mapping or a line of JSON; once it returns, the event survives a crash.

        Many threads that post share one write to the disk. With `wait=False` it returns at once, and the event is
        written with the next that somebody waits for, or by `flush`. Raises `PostRefused` for what is no event of this
        program (it is among the rejected events all the same), and what the store raises when it cannot write. Inside
        a transaction it returns at once, and the event is written when that commits.
        """
        self._refuse_if_closed()
        if (transaction := open_on(self)) is not None:
            transaction.post(event)
            return None
        return self._posts.post(event, wait=wait)

    def post_all(self, events: Iterable[Mapping[str, Any] | str]) -> list[str | None]:
        """Hand over events in their order; once it returns all survive a crash. For each why it is refused, or None.

        Raises what the store does when it cannot write; then they may be there all the same: only the answer was lost.
        """
        self._refuse_if_closed()
        if (transaction := open_on(self)) is not None:
            return transaction.post_all(events)
        return self._posts.post_all(events)

    def notify(self, event: Mapping[str, Any] | str) -> Answer:
        """Hand over an event and wait until it is read: triggers have fired at it, and their rules have run.

        It is durable like every other, and what the answer says stays so after a crash. Without a clock time goes on to
        the event's det_time. Raises `PostRefused`, and what the store does; it is refused in a transaction or rule.
        """
        self._refuse_if_closed()
        refuse_notify(self)
        receipt = self._posts.post(event, wait=True, ask=True)
        assert receipt is not None
        with self._working:
            return self._answer(receipt.place)

    def flush(self) -> None:
        """Write what was posted without waiting; when the store cannot, it raises and the next call tries again."""
        self._posts.flush()

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise Closed("the engine is closed: open another one on its store")

    def _now(self) -> int | None:
        return None if self.environment is None else self.environment.now_us()

    # ---- triggers and rules ----------------------------------------------------------------------

    def evaluate(self, trigger: str) -> bool:
        """Whether the composite event of a trigger has occurred, and no firing has used it; raises `KeyError`."""
        with self._working:
            names = [unit.name for unit in self._plan.triggers]
            if key_of(trigger) not in names:
                raise KeyError(f"the program has no trigger called {trigger}")
            return bool(self._state.triggers.each[names.index(key_of(trigger))].waiting)

    def switch(self, kind: Switched, name: str, on: bool) -> None:
        """Enable or disable something, after all that was posted by now; raises `KeyError`.

        A class that is disabled takes no events: they are refused, and a clock posts none. A complex class takes none.
        """
        self._refuse_if_closed()
        refuse_in_rule(self)
        known = {
            Switched.RULE: [rule.name for rule in self.program.rules],
            Switched.GROUP: list(self.program.groups),
            Switched.TRIGGER: [trigger.name for trigger in self.program.triggers],
            Switched.CLASS: [one.name for one in self._plan.received_classes],
        }
        if key_of(name) not in map(key_of, known[kind]):
            which = " that takes events" if kind is Switched.CLASS else ""
            raise KeyError(f"the program has no {kind} called {name}{which}")
        with self._working:
            self._read_all()
            try:
                self._store.switch(Turned(self._state.seq, reached(self._state), kind, name, on))
            except BaseException:
                self._is_spoiled = True  # it may be kept all the same
                raise
            turn(self._state.triggers, kind, name, on)

    def is_on(self, kind: Switched, name: str) -> bool:
        """Whether something is enabled by itself; a rule's groups may be off all the same."""
        return self._state.triggers.is_on(kind, name)

    def firings(self, trigger: str, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The firings of a trigger with greater numbers, as committed ticks have them; raises `NoSuchTrigger`."""
        return self._store.firings(trigger, after, limit)

    # ---- ticks -----------------------------------------------------------------------------------

    @property
    def tick(self) -> int | None:
        """The last tick, in microseconds since the epoch; None before the first."""
        return self._state.tick

    def advance_to(self, moment: Moment) -> list[Ticked]:
        """Let the clock go on: every tick up to this time that has something to do, each committed as a whole.

        A time before the last tick changes nothing and is reported, unless the clock is past it. When the store cannot
        be written it raises what the store does; nothing is lost, and the next call goes on from there.
        """
        return list(self.ticks_to(moment))

    def ticks_to(self, moment: Moment) -> Generator[Ticked]:
        """The same tick by tick; whoever stops in between leaves the rest to the next call.

        Between two of them nobody else has anything read; who is told of a tick may post and notify before the next.
        """
        self._refuse_if_closed()
        refuse_in_rule(self)
        until = as_microseconds(moment)
        self.flush()
        with self._working:
            yield from self._sound()
            last = self._state.tick
            if last is not None and until < last:
                now = self._now()
                if now is None or now < last:  # else another went on while this one waited its turn
                    self._report_behind(until, last)
                return
            self._is_behind = False
            yield from self._ticks(until)

    def _ticks(self, until: int) -> Iterator[Ticked]:
        """Every tick up to a time that has something to do; whom it is told may post and notify before the next."""
        chronon_us = self._plan.chronon_us
        while True:
            yield from self._sound()
            state, waiting = self._state, self._posts.waiting()
            first = self._steps.asked_before(self._at(), tick_at_most(until, chronon_us), waiting)
            for ticked in self._plain_ticks(until if first is None else tick_at_most(first, chronon_us), waiting):
                yield ticked
                if self._is_spoiled or self._state is not state or reached(state) != ticked.tick:
                    break
            else:
                if first is None:
                    return
                self._step(tick_reading(first, chronon_us) - 1)

    def _plain_ticks(self, until: int, waiting: Waiting) -> Iterator[Ticked]:
        came, places, refused = self._steps.to_be_read(self._at(), until, waiting)
        going = ticks(self._plan, self._state, came, until, self._ports)
        while True:
            try:
                ticked = next(going, None)
            except BaseException:
                self._is_spoiled = True  # it may have stopped in the middle of a tick
                raise
            if ticked is None:
                return
            told = set(ticked.rejected.place)
            taken = [*places.pop(ticked.tick, []), *(place for place in refused if f"{POSTED}:{place}" in told)]
            self._unkept = ticked, [*taken, *self._posts.in_steps()]
            self._keep()
            yield ticked

    def _keep(self) -> None:
        """Commit the tick that is not committed yet."""
        assert self._unkept is not None
        ticked, taken = self._unkept
        read = self._read_since_snapshot + sum(map(len, ticked.read))
        snapshot = self._due_snapshot(read)
        try:
            self._store.commit([ticked], taken, snapshot)
        except AlreadyCommitted:
            self._unkept, self._is_spoiled = None, True  # what is in the store counts
            raise
        self._read_since_snapshot = read if snapshot is None else 0
        self._unkept = None
        self._posts.taken(taken)
        self._steps.committed()
        for sentence in rules_that_failed(ticked):
            LOG.warning(sentence)
        if (tell := self.when_kept) is not None:  # who is told may leave at any moment
            tell()

    def _kept_at_last(self) -> Iterator[Ticked]:
        """Commit the tick that could not be; or find that it was, and only the answer was lost."""
        if self._unkept is None:
            return
        ticked, _ = self._unkept
        try:
            self._keep()
        except AlreadyCommitted:
            self._reload()
            if self._state.tick != ticked.tick:
                return
        yield ticked

    def _due_snapshot(self, read: int) -> Snapshot | None:
        """The state, if enough was read since it was last kept: as much as is live, so that it costs what changes."""
        live = sum(len(one.view) for one in self._state.classes)
        if read < max(self._snapshot_versions_min, live):
            return None
        assert self._state.tick is not None
        return Snapshot(self._state.tick, saved_state(self._plan, self._state))

    # ---- before the tick -------------------------------------------------------------------------

    def _at(self) -> At:
        return At(self._plan, self._state, self._ports)

    def _answer(self, place: int) -> Answer:
        """Read up to a post, with all that came before it; it may have been read with another's."""
        try:
            if not self._steps.has(place):
                self._be_sound()
            if not self._steps.has(place) and (upto := self._steps.time_of(self._at(), place, self._now())) is not None:
                self._read(upto)
        except StoreError:
            if not self._steps.has(place):
                raise
            # It was read, and the answer is durable: only the tick after it is not, and is tried again.
        finally:
            found = self._steps.fetched(place)
        return found

    def _read_all(self) -> None:
        """Read what was posted by now, where there is a clock that says when that is."""
        self._be_sound()
        now = self._now()
        if now is not None and self._posts.waiting():
            self._read(now_or_later(self._state, now))

    def _read(self, upto: int) -> None:
        last = tick_before(self._plan, self._state, upto)
        for _ in () if last is None else self._ticks(last):
            pass
        self._step(upto)

    def _step(self, upto: int) -> None:
        try:
            self._steps.step(self._at(), upto)
        except BaseException:
            self._is_spoiled = True
            raise

    # ---- another program -------------------------------------------------------------------------

    def plan(self, program: Program) -> Changes:
        """What it would do if another program took the place of this one; nothing is changed."""
        return compare(self.program, program, self._store.held())

    def apply(self, program: Program) -> Changes:
        """Let another program take the place of this one, at a tick boundary, all of it or nothing; says what it did.

        A chronon that is half read is read to its end first, for which an engine with a clock waits. Raises
        `CannotChange` for what cannot be, `CannotRun`, and what the store does; then everything is as it was.
        """
        self._refuse_if_closed()
        refuse_in_rule(self)
        return apply_at_boundary(self, program)

    # ---- recovering ------------------------------------------------------------------------------

    def _sound(self) -> Iterator[Ticked]:
        """Make good what a failure left: a state that cannot be relied on, a tick that could not be committed."""
        if self._is_spoiled:
            self._reload()
        yield from self._kept_at_last()

    def _be_sound(self) -> None:
        for _ in self._sound():
            pass

    def _reload(self) -> None:
        """Come to the state after the last committed tick and the steps since again, as a new engine would."""
        settle(self)
        state = self._recovered()
        self._posts.look_again()
        self._state, self._unkept = state, None
        self._steps.again(self._at(), self._turned_after(state.tick), self._started_at)
        self._is_spoiled = False

    def _recovered(self) -> EngineState:
        state, self._read_since_snapshot = recovered(self._plan, self._store, self._ports, self._report)
        return state

    def _turned_after(self, tick: int | None) -> list[Turned]:
        return turns_after(self._store.switched(), tick)

    def _report(self, sentence: str) -> None:
        self.reports.append(sentence)
        LOG.warning(sentence)

    def _report_behind(self, now: int, last: int) -> None:
        if not self._is_behind:
            went = f"{show_duration(last - now)}, to {show_time(now)}"
            self._report(f"the clock went back by {went}: ticks go on after {show_time(last)}")
        self._is_behind = True

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
            return views.diff(table, event_class, *map(as_microseconds, diff))
        moments = (None if moment is None else as_microseconds(moment) for moment in (as_of, known_at))
        return views.then(table, event_class, *moments)

    def why(self, name: str, number: int) -> Why:
        """What a version of a SELECT class is made of, by its number in the history; raises `NotAnOccurrence`."""
        return why_selected(self.program, self._store, self._class(name), number)

    def _class(self, name: str) -> EventClass:
        plan = self.program.class_plan(name)
        if plan is None:
            raise KeyError(f"the program has no class called {name}")
        return plan.event_class

    # ---- living ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Follow the clock in a thread of its own: a tick at the end of every chronon, whether something came or not.

        An engine that was given no environment takes the machine itself, and its clock counts from now on.
        """
        with self._working:
            if self._live is None:
                self._begin()
                self._live = Follower(self, self._world)

    async def follow(self) -> None:
        """Follow the clock in the loop that runs, until it is cancelled: as inhabitants of a simulated world do."""
        with self._working:
            self._begin()
        await follow(self, self._world)

    def _begin(self) -> None:
        """From now on the clock posts its events, though nothing has come yet."""
        self.environment = self._world
        came = () if self._state.tick is not None else (post.det_time for _, post in self._store.waiting())
        self._started_at = begins_at(self._world.now_us(), came, self._plan.chronon_us)
        if self._state.tick is None and self._state.chronon.upto is None:
            self._state.tick = self._started_at

    def give_up(self) -> None:
        """Let who waits for the end of a chronon to apply a program wait no longer: it raises `Closed`."""
        self._is_given_up = True

    def stop(self) -> None:
        """Stop following the clock, between two ticks."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def close(self) -> None:
        """Stop, and let the store go; what was posted and not read waits there."""
        self.stop()
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.flush()
        finally:
            self._store.close()

    def __enter__(self) -> LocalEngine:
        """The engine itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

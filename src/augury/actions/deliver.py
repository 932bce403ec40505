"""Carrying out what waits in an outbox: each action at least once, those of an event in order, each target by itself.

In: an outbox, and who carries out which action. Out: what became of each, noted in the outbox. Every target has a lane
with places of its own, and reads its own actions, so that one that is slow or dead holds up nobody else. What has to
be tried again leaves the memory until it is due. Time, chance and sleep come from the environment.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, assert_never

from augury import limits
from augury.actions.breaker import Breaker, backoff_seconds
from augury.actions.delivery import Again, Dead, Delivered, Executor, Outcome, delivery_of, shortened, told
from augury.actions.outbox import Outbox
from augury.environment import Environment
from augury.event import key_of
from augury.local.store.errors import StoreError
from augury.local.store.waiting import Known, Noted, State, Waiting

LOG: Final = logging.getLogger("augury.actions")

_LOOK_SECONDS: Final = 0.25
"""How often it is looked for new actions, and for what other processes did."""

_GATHER_SECONDS: Final = 0.004
"""How long outcomes are gathered, so that many are one transaction: about as long as one takes."""

_NOTED_AT_ONCE: Final = 100
_PAGES_A_TURN: Final = 8
_STORE_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Carrier:
    """Who carries out an action, how often it is tried again, and how many at once."""

    executor: Executor
    retries: int = limits.DELIVERY_RETRIES
    concurrency: int = limits.DELIVERY_CONCURRENCY


class Ends(Enum):
    """When a deliverer has done its work."""

    NEVER = auto()
    SETTLED = auto()
    """When no action that it carries out waits."""
    ONCE = auto()
    """When all was tried that can be tried now; what is to be tried later waits."""


@dataclass(slots=True)
class Counts:
    """How many tries ended how."""

    delivered: int = 0
    again: int = 0
    dead: int = 0


@dataclass(slots=True)
class _Feed:
    """The actions of a name: how far those were read that were never tried, and when others are due.

    `refusal` says why the target lets them not in, if it does not: by that it was reported.
    """

    action: str
    carrier: Carrier
    read_to: int = 0
    is_read: bool = False
    due_us: int | None = None
    refusal: str | None = None


@dataclass(slots=True)
class _Lane:
    """A target; `is_told` says that it failed several times in a row, and that this was reported."""

    target: str
    places: int
    feeds: list[_Feed] = field(default_factory=list)
    ready: deque[tuple[_Feed, Waiting]] = field(default_factory=deque)
    running: int = 0
    breaker: Breaker = field(default_factory=Breaker)
    is_told: bool = False


def _room(lane: _Lane) -> int:
    """How many more may wait for a target in memory."""
    return limits.DELIVERIES_READ_MAX - len(lane.ready)


async def deliver(
    outbox: Outbox,
    carriers: Mapping[str, Carrier],
    environment: Environment,
    *,
    until_idle: bool = True,
) -> Counts:
    """Carry out what waits, until nothing does that one of the carriers, by names of actions, can carry out.

    With `until_idle=False` it goes on until it is cancelled.
    """
    deliverer = Deliverer(outbox, carriers, environment)
    await deliverer.run(Ends.SETTLED if until_idle else Ends.NEVER)
    return deliverer.counts


class Deliverer:
    """Carries out actions; `start`, `pause`, `resume` and `stop` it, or `run` it to an end."""

    def __init__(
        self,
        outbox: Outbox,
        carriers: Mapping[str, Carrier],
        environment: Environment,
        look_seconds: float = _LOOK_SECONDS,
        report: Callable[[str], None] = LOG.warning,
    ) -> None:
        """Take who carries out what; nothing is done yet. `report` is told of targets that fail, once while they do."""
        self._look_seconds, self._report = look_seconds, report
        self.counts = Counts()
        self._outbox, self._environment = outbox, environment
        self._carriers = {key_of(name): carrier for name, carrier in carriers.items()}
        self._lanes: dict[str, _Lane] = {}
        self._turns: deque[_Lane] = deque()
        self._lane_of: dict[str, _Lane] = {}
        self._held: set[int] = set()
        self._tries: set[asyncio.Task[None]] = set()
        self._finished: list[Noted] = []
        self._known = Known((), 0)
        self._look_at = 0.0
        self._is_paused = self._is_stopping = False
        self._failure: str | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def executors(self) -> list[Executor]:
        """Those who carry out actions."""
        return [carrier.executor for carrier in self._carriers.values()]

    # ---- living ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Go on in the background until `stop`."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self.run(Ends.NEVER), name="augury deliverer")

    def pause(self) -> None:
        """Begin nothing new; what is under way is finished and noted."""
        self._is_paused = True

    def resume(self) -> None:
        """Go on."""
        self._is_paused = False
        self._wake.set()

    def ask_to_stop(self) -> None:
        """Begin nothing new, and end soon."""
        self._is_stopping = True
        self._wake.set()

    async def stop(self) -> None:
        """Let what is under way finish for a few seconds, note it, and end."""
        self.ask_to_stop()
        task, self._task = self._task, None
        if task is not None:
            await task

    async def run(self, ends: Ends) -> None:
        """Work until that end, or `stop`; raises what the store does, unless it is to go on for ever."""
        try:
            while not self._is_stopping:
                try:
                    moved = await self._turn()
                    self._failure = None
                except StoreError as error:
                    if ends is not Ends.NEVER:
                        raise
                    await self._wait_for_store(error)
                    continue
                if not moved and await self._is_over(ends):
                    return
                if not moved:
                    await self._rest()
        finally:
            await self._wind_down()

    async def _wind_down(self) -> None:
        if self._tries:
            await asyncio.wait(self._tries, timeout=_GRACE_SECONDS if self._is_stopping else 0)
        for one in self._tries:
            one.cancel()
        await asyncio.gather(*self._tries, return_exceptions=True)
        await self._note()

    async def _wait_for_store(self, error: StoreError) -> None:
        failure = f"{error}; it is tried again"
        if failure != self._failure:
            LOG.warning("%s", failure)
        self._failure = failure
        await self._environment.sleep(_STORE_SECONDS)

    async def _rest(self) -> None:
        """Sleep until something is due, or somebody wakes it."""
        at = self._environment.monotonic()
        times = [at + self._look_seconds if self._is_paused else self._look_at]
        if not self._is_paused:
            times += [lane.breaker.next_try() for lane in self._turns if lane.ready and lane.running < lane.places]
            ahead = [feed.due_us for lane in self._turns for feed in lane.feeds if feed.due_us is not None]
            now_us = self._environment.now_us()
            times += [at + (due_us - now_us) / 1e6 for due_us in ahead if due_us > now_us]
        seconds = min((one - at for one in times if one > at), default=_GATHER_SECONDS)
        sleeping = asyncio.ensure_future(self._environment.sleep(max(seconds, 0.001)))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
        self._wake.clear()

    async def _is_over(self, ends: Ends) -> bool:
        if ends is Ends.NEVER or self._is_paused or self._finished or self._tries:
            return False
        await self._look()
        now_us, at = self._environment.now_us(), self._environment.monotonic()
        for lane in self._turns:
            can_try = ends is Ends.SETTLED or lane.breaker.may_try(at)
            if can_try and (lane.ready or not all(feed.is_read for feed in lane.feeds)):
                return False
            due = [feed.due_us for feed in lane.feeds if feed.due_us is not None]
            if due and (ends is Ends.SETTLED or (can_try and min(due) <= now_us)):
                return False
        return True

    # ---- one turn --------------------------------------------------------------------------------------------

    async def _turn(self) -> bool:
        """Note what is done, read what is next, begin it; whether anything moved."""
        moved = await self._note()
        if self._is_paused:
            return moved
        if self._environment.monotonic() >= self._look_at:
            await self._look()
        moved |= await self._read()
        for lane in self._turns:
            moved |= self._begin(lane)
        return moved

    async def _note(self) -> bool:
        if 0 < len(self._finished) < _NOTED_AT_ONCE and self._tries:
            await self._environment.sleep(_GATHER_SECONDS)
        noted = self._finished[:]
        if not noted:
            return False
        following = await self._outbox.note(noted, self._known)
        del self._finished[: len(noted)]
        for one in noted:
            self._held.discard(one.waiting.id)
            if one.next_at is not None:
                self._be_due(self._feed_of(one.waiting), one.next_at)
        for row in following:
            self._follow(row)
        return True

    def _follow(self, row: Waiting) -> None:
        """Take what may go now that another is settled; where too many are ready, leave it to be read."""
        lane, feed = self._lane_of[row.action], self._feed_of(row)
        if len(lane.ready) < limits.DELIVERIES_READ_MAX:
            self._take(lane, feed, row)
        elif row.id <= feed.read_to or feed.is_read:
            feed.read_to, feed.is_read = min(feed.read_to, row.id - 1), False

    async def _look(self) -> None:
        looked = await self._outbox.look()
        self._look_at = self._environment.monotonic() + self._look_seconds
        for name in (*looked.names, *looked.due):
            self._know(name)
        for name, lane in self._lane_of.items():
            feed = next(one for one in lane.feeds if one.action == name)
            if looked.last_id != self._known.last_id:
                feed.is_read = False
            feed.due_us = looked.due.get(name)
        self._known = Known(tuple(self._lane_of), looked.last_id)

    def _know(self, name: str) -> None:
        """Give an action a place in the lane of its target, if somebody carries it out."""
        carrier = self._carriers.get(key_of(name))
        if carrier is None or name in self._lane_of:
            return
        lane = self._lanes.get(carrier.executor.target)
        if lane is None:
            lane = self._lanes[carrier.executor.target] = _Lane(carrier.executor.target, carrier.concurrency)
            self._turns.append(lane)
        lane.places = max(lane.places, carrier.concurrency)
        lane.feeds.append(_Feed(name, carrier))
        self._lane_of[name] = lane

    async def _read(self) -> bool:
        """Read some pages for lanes that have room, in turns, so that none has to wait for all others."""
        pages = 0
        for _ in range(len(self._turns)):
            if pages >= _PAGES_A_TURN:
                break
            lane = self._turns[0]
            self._turns.rotate(-1)
            if len(lane.ready) * 2 < limits.DELIVERIES_READ_MAX and self._may_try(lane):
                for feed in lane.feeds:
                    pages += await self._read_feed(lane, feed)
        return pages > 0

    async def _read_feed(self, lane: _Lane, feed: _Feed) -> int:
        pages, now_us = 0, self._environment.now_us()
        if feed.due_us is not None and feed.due_us <= now_us and (most := _room(lane)):
            feed.due_us = None
            rows = await self._outbox.due(feed.action, self._known, now_us, most)
            if len(rows) == most:
                self._be_due(feed, now_us)  # there was no room for more
            taken = [row for row in rows if self._take(lane, feed, row)]
            pages += bool(taken)
        if not feed.is_read and (most := _room(lane)):
            read_to = feed.read_to
            page = await self._outbox.fresh(feed.action, self._known, read_to, most)
            if page.looked_to is None:
                feed.is_read = True
                feed.read_to = max((row.id for row in page.free), default=read_to)
            else:
                feed.read_to = page.looked_to
            pages += 1
            for row in page.free:
                self._take(lane, feed, row)
        return pages

    def _take(self, lane: _Lane, feed: _Feed, row: Waiting) -> bool:
        if row.id in self._held:
            return False
        self._held.add(row.id)
        lane.ready.append((feed, row))
        return True

    def _feed_of(self, row: Waiting) -> _Feed:
        return next(one for one in self._lane_of[row.action].feeds if one.action == row.action)

    def _be_due(self, feed: _Feed, at_us: int) -> None:
        feed.due_us = at_us if feed.due_us is None else min(feed.due_us, at_us)

    # ---- one try ---------------------------------------------------------------------------------------------

    def _may_try(self, lane: _Lane) -> bool:
        return lane.breaker.may_try(self._environment.monotonic())

    def _begin(self, lane: _Lane) -> bool:
        """Begin what a lane has places for."""
        begun = False
        while lane.ready and lane.running < lane.places and not self._is_paused and self._may_try(lane):
            feed, row = lane.ready.popleft()
            lane.running += 1
            trying = self._try(lane, feed, row, lane.breaker.begin())
            task = asyncio.get_running_loop().create_task(trying)
            self._tries.add(task)
            task.add_done_callback(self._tries.discard)
            begun = True
        return begun

    async def _try(self, lane: _Lane, feed: _Feed, row: Waiting, is_probe: bool) -> None:
        try:
            outcome = await feed.carrier.executor.carry_out(delivery_of(row), self._environment)
        except Exception as error:
            LOG.debug("where %s went wrong", row.action, exc_info=error)
            outcome = Again(told(error))
        lane.running -= 1
        self._judge(lane.breaker, outcome, is_probe)
        self._tell(lane, feed, outcome)
        self._finished.append(self._noted(feed.carrier, row, outcome))
        if not self._is_stopping:
            self._begin(lane)
        self._wake.set()

    def _judge(self, breaker: Breaker, outcome: Outcome, is_probe: bool) -> None:
        at, chance = self._environment.monotonic(), self._environment.random
        match outcome:
            case Delivered() | Dead(is_target=False):
                breaker.succeeded()
            case Again(after_seconds=seconds):
                breaker.failed(at, is_probe, chance)
                if seconds is not None:
                    breaker.ask(at + _bounded(seconds))
            case Dead():
                breaker.failed(at, is_probe, chance)
            case _:
                assert_never(outcome)

    def _tell(self, lane: _Lane, feed: _Feed, outcome: Outcome) -> None:
        """Report a target that lets nobody in, or that failed several times in a row; and that it is back.

        Each action has its own password or secret, so that one may be let in where another is not; those that are
        refused in the same words are reported as one.
        """
        match outcome:
            case Delivered() if lane.is_told or feed.refusal is not None:
                for one in [one for one in lane.feeds if one.refusal == feed.refusal]:
                    one.refusal = None
                lane.is_told = False
                self._report(f"{lane.target}: it goes on")
            case Again(reason, is_refusal=True) | Dead(reason, is_refusal=True):
                is_known = feed.refusal is not None or any(one.refusal == reason for one in lane.feeds)
                feed.refusal = feed.refusal or reason
                if not is_known:
                    self._report(f"{lane.target}: {reason}")
            case Again(reason) | Dead(reason, is_target=True) if not lane.is_told and feed.refusal is None:
                if lane.breaker.open_until is not None:
                    lane.is_told = True
                    self._report(f"{lane.target}: {reason}")
            case _:
                pass

    def _noted(self, carrier: Carrier, row: Waiting, outcome: Outcome) -> Noted:
        attempts, now_us = row.attempts + 1, self._environment.now_us()
        match outcome:
            case Delivered():
                self.counts.delivered += 1
                return Noted(row, State.DELIVERED, attempts, "", now_us)
            case Dead(reason):
                self.counts.dead += 1
                return Noted(row, State.DEAD, attempts, shortened(reason), now_us)
            case Again(reason) if attempts > carrier.retries:
                self.counts.dead += 1
                times = "1 try" if attempts == 1 else f"{attempts} tries"
                return Noted(row, State.DEAD, attempts, f"given up after {times}: {shortened(reason)}", now_us)
            case Again(reason, seconds):
                self.counts.again += 1
                wait = backoff_seconds(attempts, self._environment.random) if seconds is None else _bounded(seconds)
                return Noted(row, State.WAITING, attempts, shortened(reason), now_us, now_us + int(wait * 1e6))
            case _:
                assert_never(outcome)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), limits.RETRY_AFTER_SECONDS_MAX)

"""Detectors and the engines they feed, all at once: each looks in its own time, fails and is tried again by itself.

In: detectors, sinks by name, a folder for what they remember. Out: events in the engines. Every detector has a spool;
every engine takes from it at its own pace, so that one which is slow or gone holds up neither the detectors nor the
other engines, until the spool is full.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from augury import limits
from augury.detectors.opening import Detector
from augury.detectors.sensor import Polled, SourceFailed
from augury.detectors.sinks import LINES_AT_ONCE, NotTaken, Sink
from augury.detectors.spool import Spool
from augury.detectors.watching import Watch
from augury.environment import Environment

LOG: Final = logging.getLogger("augury.detectors")


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait after failures: twice as long after each, with some chance in it, up to the longest.

    Engines are our own, and are asked more often than sources, which may belong to others.
    """

    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    longest_seconds_engine: float = 5.0


@dataclass(frozen=True, slots=True)
class Status:
    """How a detector is doing: whether it is paused, what is wrong with it, what it let through since it started."""

    is_paused: bool
    problem: str | None
    forwarded: int
    waiting_bytes: int
    untaken: Mapping[str, int]
    """By engine, how many segments it has still to take."""


class Detectors:
    """Detectors at work. `run` goes on until `stop`; each may be paused and resumed by its name meanwhile."""

    def __init__(
        self,
        detectors: Sequence[Detector],
        sinks: Mapping[str, Sink],
        folder: str,
        environment: Environment,
        *,
        pace: Pace = Pace(),  # noqa: B008
        report: Callable[[str], None] = LOG.warning,
        spool_bytes_max: int = limits.DETECTOR_SPOOL_BYTES_MAX,
    ) -> None:
        """Take up what the folder holds; raises `BadDetector` for what cannot be read, and `OSError`."""
        self._stopping = asyncio.Event()
        self._runs = {
            one.name: _Run(one, sinks, folder, environment, pace, report, spool_bytes_max) for one in detectors
        }

    async def run(self) -> None:
        """Look and feed until `stop`."""
        await self._with(self._stopping.wait())

    async def run_once(self) -> None:
        """Let every detector that is polled look until it has seen all, and every engine take it; then end.

        Sources that push are left out. Raises the first `SourceFailed` or `NotTaken`, after all were tried.
        """
        found = await asyncio.gather(*(one.once() for one in self._runs.values()), return_exceptions=True)
        for failure in found:
            if isinstance(failure, BaseException):
                raise failure

    def stop(self) -> None:
        """End `run`; what was seen and not taken waits in the folder."""
        self._stopping.set()

    def pause(self, name: str) -> None:
        """Let a detector look no more until it is resumed; engines take what it has seen. Raises `KeyError`."""
        self._runs[name].pause()

    def resume(self, name: str) -> None:
        """Let it look again. Raises `KeyError`."""
        self._runs[name].resume()

    def status(self) -> dict[str, Status]:
        """How each is doing, by name."""
        return {name: one.status() for name, one in self._runs.items()}

    async def _with(self, over: Coroutine[Any, Any, object]) -> None:
        tasks = [asyncio.create_task(work) for one in self._runs.values() for work in one.works()]
        ending = asyncio.create_task(over)
        try:
            done, _ = await asyncio.wait([ending, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()  # none of them ends by itself: it is a mistake of ours, and must not be silent
        finally:
            for task in (ending, *tasks):
                task.cancel()
            await asyncio.gather(ending, *tasks, return_exceptions=True)


class _Run:
    """One detector with its spool and engines."""

    def __init__(
        self,
        detector: Detector,
        sinks: Mapping[str, Sink],
        folder: str,
        environment: Environment,
        pace: Pace,
        report: Callable[[str], None],
        spool_bytes_max: int,
    ) -> None:
        self._detector, self._sinks, self._environment = detector, sinks, environment
        self._pace, self._report, self._spool_bytes_max = pace, report, spool_bytes_max
        self._spool = Spool(environment.files, folder, detector.name, detector.source)
        self._watch = Watch(detector, self._spool, environment)
        self._taken = {name: self._spool.taken_by(name) for name in sinks}
        self._told: dict[str, str] = {}
        self._news = {name: asyncio.Event() for name in sinks}
        self._room = asyncio.Event()
        self._going, self._pausing = asyncio.Event(), asyncio.Event()
        self._going.set()
        if self._spool.is_new_source:
            self._report(f"detector `{detector.name}` looks at another source than before: it begins anew")
        self._report_missing()
        self._forget()

    def pause(self) -> None:
        """Look no more."""
        self._going.clear()
        self._pausing.set()

    def resume(self) -> None:
        """Look again."""
        self._pausing.clear()
        self._going.set()

    def works(self) -> list[Coroutine[Any, Any, None]]:
        """What goes on as long as it runs."""
        looking = self._polling() if isinstance(self._detector.sensor, Polled) else self._following()
        return [looking, *(self._feeding(name, sink) for name, sink in self._sinks.items())]

    def status(self) -> Status:
        """How it is doing."""
        last = self._spool.standing.last
        untaken = {name: last - taken for name, taken in self._taken.items()}
        problem = "; ".join(self._told.values()) or None
        return Status(self._pausing.is_set(), problem, self._watch.forwarded, self._spool.waiting_bytes, untaken)

    async def once(self) -> None:
        """Look until all is seen, and let every engine take it."""
        failure: Exception | None = None
        if isinstance(self._detector.sensor, Polled):
            try:
                while (seen := await self._watch.look()).more:
                    pass
                failure = SourceFailed(seen.problem) if seen.problem else None
            except SourceFailed as error:
                failure = error
        for name, sink in self._sinks.items():
            try:
                while self._taken[name] < self._spool.standing.last:
                    await self._feed(name, sink)
            except NotTaken as error:
                failure = failure or error
        if failure is not None:
            raise failure

    # ---- looking ---------------------------------------------------------------------------------

    async def _polling(self) -> None:
        failures = 0
        while True:
            await self._ready()
            began = self._environment.monotonic()
            after: float | None = None
            try:
                seen = await self._watch.look()
                problem, is_more = seen.problem, seen.more
            except SourceFailed as error:
                problem, is_more, after = str(error), False, error.after_seconds
            except Exception as error:  # whatever is wrong with one must not stop the others
                problem, is_more = self._unforeseen(error), False
            self._tell("", problem, f"detector `{self._detector.name}`")
            self._wake()
            failures = failures + 1 if problem else 0
            if not is_more:
                wait = self._detector.every_seconds - (self._environment.monotonic() - began)
                await self._environment.sleep(self._delay(failures, after) if failures else max(0.0, wait))

    async def _following(self) -> None:
        failures = 0
        while True:
            await self._ready()
            before = self._watch.forwarded
            problem = await self._followed()
            if problem is not None:
                self._tell("", problem, f"detector `{self._detector.name}`")
                failures = 1 if self._watch.forwarded > before else failures + 1
                await self._environment.sleep(self._delay(failures, None))

    async def _followed(self) -> str | None:
        """Follow the source until it fails, which it says; or until it is paused, or the spool is full."""
        following = asyncio.create_task(self._follow())
        pausing = asyncio.create_task(self._pausing.wait())
        try:
            await asyncio.wait([following, pausing], return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() else None
        finally:
            following.cancel()
            pausing.cancel()
            await asyncio.gather(following, pausing, return_exceptions=True)

    async def _follow(self) -> str | None:
        try:
            async with aclosing(self._watch.follow()) as following:
                async for _ in following:
                    self._tell("", None, f"detector `{self._detector.name}`")
                    self._wake()
                    if self._is_full():
                        return None
        except SourceFailed as error:
            return str(error)
        except Exception as error:  # whatever is wrong with one must not stop the others
            return self._unforeseen(error)
        return "the source has ended"

    async def _ready(self) -> None:
        """Wait while it is paused, and while nothing fits into the spool."""
        await self._going.wait()
        while self._is_full():
            full = f"{self._spool.waiting_bytes:,} bytes wait for engines that do not take them: it looks no more"
            self._tell("full", full, f"detector `{self._detector.name}`")
            self._room.clear()
            await self._room.wait()
        self._tell("full", None, f"detector `{self._detector.name}`")

    def _is_full(self) -> bool:
        return self._spool.waiting_bytes >= self._spool_bytes_max

    def _unforeseen(self, error: Exception) -> str:
        LOG.debug("what went wrong with detector %s", self._detector.name, exc_info=error)
        if isinstance(error, OSError):
            return f"what it has seen cannot be kept: {error}"
        return f"it cannot go on: {type(error).__name__}: {error}"

    # ---- feeding ---------------------------------------------------------------------------------

    async def _feeding(self, name: str, sink: Sink) -> None:
        failures = 0
        while True:
            self._news[name].clear()
            if self._taken[name] >= self._spool.standing.last:
                await self._news[name].wait()
                continue
            try:
                await self._feed(name, sink)
                failures, problem = 0, None
            except NotTaken as error:
                failures, problem = failures + 1, str(error)
            except Exception as error:  # whatever is wrong with one must not stop the others
                failures, problem = failures + 1, self._unforeseen(error)
            self._tell(name, problem, f"detector `{self._detector.name}`")
            if failures:
                delay = self._delay(failures, None)
                await self._environment.sleep(min(delay, self._pace.longest_seconds_engine))

    async def _feed(self, name: str, sink: Sink) -> None:
        """Let an engine take the next segments."""
        lines, last = self._spool.pending(self._taken[name], LINES_AT_ONCE)
        if lines:
            await sink.take(lines)
        last = last if lines else self._spool.standing.last
        self._spool.take(name, last)
        self._taken[name] = last
        self._forget()

    def _forget(self) -> None:
        self._spool.forget(min(self._taken.values(), default=self._spool.standing.last))
        self._room.set()

    def _wake(self) -> None:
        for news in self._news.values():
            news.set()

    def _report_missing(self) -> None:
        """An engine that was left out for a while: what all others had taken meanwhile is deleted."""
        first = self._spool.first_waiting() or self._spool.standing.last + 1
        for name, taken in self._taken.items():
            if taken and taken + 1 < first:
                said = f"engine {name} was left out for a while: what detector `{self._detector.name}` has seen"
                self._report(f"{said} in that time is gone, and it gets what comes from now on")

    # ---- telling ---------------------------------------------------------------------------------

    def _delay(self, failures: int, after_seconds: float | None) -> float:
        if after_seconds is not None:
            return max(after_seconds, self._pace.first_seconds)
        longest = max(self._pace.longest_seconds, self._detector.every_seconds)
        delay = min(longest, self._pace.first_seconds * 2.0 ** min(failures - 1, 30))
        return delay * self._environment.random.uniform(0.5, 1.0)

    def _tell(self, about: str, problem: str | None, who: str) -> None:
        """Report what is wrong, once as long as it is; and that it is over."""
        before = self._told.get(about)
        if problem is None:
            if self._told.pop(about, None) is not None:
                again = f"engine {about} takes events again" if about in self._sinks else "it goes on"
                self._report(f"{who}: {again}")
        elif problem != before:
            self._told[about] = problem
            self._report(f"{who}: {problem}")

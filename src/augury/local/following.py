"""The live loop of an engine: a tick at the end of every chronon, by the clock of an environment.

In: an engine and the world it lives in. Out: nothing but what the engine does and reports. `follow` goes on in
whatever loop it is in, that of a `simulated.World` too; `Follower` has a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from threading import Thread
from typing import TYPE_CHECKING, Final

from augury.environment import Environment

if TYPE_CHECKING:
    from augury.local.running import LocalEngine

LOG: Final = logging.getLogger("augury")


async def follow(engine: LocalEngine, world: Environment, is_over: Callable[[], bool] = lambda: False) -> None:
    """Move an engine on until it is cancelled, which is between two ticks; `is_over` is asked while many are due."""
    failure: str | None = None
    while True:
        chronon_us = engine.program.settings.chronon_us
        await world.sleep((chronon_us - world.now_us() % chronon_us) / 1_000_000)
        try:
            _go_on(engine, world.now_us() // chronon_us * chronon_us, is_over)
            failure = None
        except Exception as error:
            failure = _told(engine, error, failure)


def _go_on(engine: LocalEngine, until: int, is_over: Callable[[], bool]) -> None:
    with closing(engine.ticks_to(until)) as going:
        for _ in going:
            if is_over():
                return


def _told(engine: LocalEngine, error: Exception, before: str | None) -> str:
    """Report what went wrong, once as long as it does."""
    failure = f"a tick could not be kept: {error}; it is tried again at the next"
    if failure != before:
        engine._report(failure)
        LOG.debug("where it went wrong", exc_info=error)
    return failure


class Follower:
    """A thread that moves an engine on from the moment it is made."""

    def __init__(self, engine: LocalEngine, world: Environment) -> None:
        """Start the thread."""
        self._engine, self._is_over = engine, False
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(follow(engine, world, lambda: self._is_over))
        self._thread = Thread(target=self._run, name="augury ticks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, between two ticks."""
        self._is_over = True
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        except Exception as error:
            self._engine._report(f"the clock is followed no more: {error}")

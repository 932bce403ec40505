"""A thread that moves an engine on by a clock: a tick at the end of every chronon, until it is stopped.

In: an engine and a clock. Out: nothing but what the engine does and reports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from augury.local.running import LocalEngine

LOG: Final = logging.getLogger("augury")


class Follower:
    """Moves an engine on from the moment it is made."""

    def __init__(self, engine: LocalEngine, clock: Callable[[], int]) -> None:
        """Start the thread."""
        self._engine, self._clock, self._over = engine, clock, Event()
        self._failure: str | None = None
        self._thread = Thread(target=self._run, name="augury ticks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, between two ticks."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        chronon_us = self._engine.program.settings.chronon_us
        while not self._over.wait((chronon_us - self._clock() % chronon_us) / 1_000_000):
            try:
                self._go_on(self._clock() // chronon_us * chronon_us)
                self._failure = None
            except Exception as error:
                self._tell(error)

    def _go_on(self, until: int) -> None:
        with closing(self._engine.ticks_to(until)) as going:
            for _ in going:
                if self._over.is_set():
                    return

    def _tell(self, error: Exception) -> None:
        """Report what went wrong, once as long as it does."""
        failure = f"a tick could not be kept: {error}; it is tried again at the next"
        if failure != self._failure:
            self._engine._report(failure)
            LOG.debug("where it went wrong", exc_info=error)
        self._failure = failure

"""Carrying out the actions of a store or a lake in a thread of its own, beside whoever makes them.

In: where the actions wait, and who carries out which. Out: nothing; what becomes of them is kept where they wait. It
knows nothing of who makes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import Final

from augury.actions.binding import Surroundings, wire
from augury.actions.deliver import Counts, Ends
from augury.actions.run import delivering, require_usable
from augury.environment import real

LOG: Final = logging.getLogger("augury.actions")


def require_bound(around: Surroundings) -> None:
    """Raise `CannotCarryOut` where bindings cannot be used."""

    async def look() -> None:
        async with real() as environment:
            wired = wire(around, environment)
            try:
                require_usable(wired, lambda _: None, "")
            finally:
                await wired.close()

    # In a thread of its own: whoever asks may have a loop that runs.
    with ThreadPoolExecutor(1) as alone:
        alone.submit(lambda: asyncio.run(look())).result()


class Carrying:
    """A thread that carries actions out until it is closed; raises what `carry_out` does where it cannot begin."""

    def __init__(
        self, place: str, around: Surroundings, deliveries: str | None = None, tell: Callable[[str], None] = LOG.warning
    ) -> None:
        """Begin."""
        self.counts = Counts()
        self._place, self._around, self._deliveries, self._tell = place, around, deliveries, tell
        self._stop: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._thread = self._begun(Ends.NEVER)

    def close(self, settle: bool = False) -> None:
        """Let what is under way come to its end; with `settle` all is tried first that can be tried now.

        What is to be tried later waits, for whoever carries out actions of this place next.
        """
        if not self._thread.is_alive() and not settle:
            return
        self._stop()
        self._thread.join()
        if settle:
            self._thread = self._begun(Ends.ONCE)
            self._thread.join()
            self._raise()

    def _begun(self, ends: Ends) -> Thread:
        ready = Event()
        thread = Thread(target=self._work, args=(ends, ready), name="augury actions", daemon=True)
        thread.start()
        ready.wait()
        self._raise()
        return thread

    def _raise(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _work(self, ends: Ends, ready: Event) -> None:
        try:
            asyncio.run(self._carry(ends, ready))
        except Exception as error:
            self._failure = error
            if ready.is_set():
                LOG.warning("actions are no longer carried out: %s", error)
        finally:
            ready.set()

    async def _carry(self, ends: Ends, ready: Event) -> None:
        async with (
            real() as environment,
            delivering(self._place, self._around, environment, self._tell, self._deliveries) as deliverer,
        ):
            loop = asyncio.get_running_loop()
            self._stop = lambda: loop.call_soon_threadsafe(deliverer.ask_to_stop)
            ready.set()
            try:
                await deliverer.run(ends)
            finally:
                self._stop = lambda: None
                done = deliverer.counts
                self.counts.delivered += done.delivered
                self.counts.again += done.again
                self.counts.dead += done.dead

"""Work that blocks, beside the event loop: each executor has threads of its own, and no more than its places.

In: a function. Out: what it gives, or `TimeoutError`. A thread that hangs is left behind and keeps its place, so that
it can hold up its own executor only, and not the end of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Lock, Thread
from typing import Any, TypeVar

_T = TypeVar("_T")


class Busy(RuntimeError):
    """All threads are still at work on what was given up."""


class Threads:
    """Runs functions in threads, as many at once as there are places."""

    def __init__(self, places: int) -> None:
        """Start none yet."""
        self._places = places
        self._busy = 0
        self._counting = Lock()
        self._daemons = _Daemons()

    async def run(self, work: Callable[[], _T], seconds: float | None) -> _T:
        """What the function gives, or raises; raises `TimeoutError` when it takes longer, and `Busy`."""
        with self._counting:
            if self._busy >= self._places:
                raise Busy(f"{self._busy} earlier tries have not come to an end")
            self._busy += 1

        def counted() -> _T:
            try:
                return work()
            finally:
                with self._counting:
                    self._busy -= 1

        async with asyncio.timeout(seconds):
            return await asyncio.get_running_loop().run_in_executor(self._daemons, counted)


class _Daemons(Executor):
    """A thread for each piece of work, that the end of the process does not wait for."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                answer = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(answer)

        Thread(target=run, name="augury action", daemon=True).start()
        return future

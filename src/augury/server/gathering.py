"""Events of many requests, written together: while one group is on its way to the disk, the next gathers.

In: lines of JSON, in the event loop. Out: for each why it is refused, or None, once all of its group are durable. One
thread writes, so that requests cost no thread each, and share what a write costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Refusals = list[str | None]
Group = list[tuple[Sequence[str], "asyncio.Future[Refusals]"]]


class Gatherer:
    """Posts lines by a function that writes a group, in a thread of its own."""

    def __init__(self, post_all: Callable[[list[str]], Refusals]) -> None:
        """Belong to the running loop."""
        self._post_all = post_all
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "augury posts")
        self._group: Group = []
        self._is_writing = False

    def post(self, lines: Sequence[str]) -> asyncio.Future[Refusals]:
        """What becomes of lines; it raises what the store does when it cannot write."""
        future: asyncio.Future[Refusals] = self._loop.create_future()
        self._group.append((lines, future))
        if not self._is_writing:
            self._write()
        return future

    def close(self) -> None:
        """Let the thread end, once it is through."""
        self._thread.shutdown(wait=True)

    def _write(self) -> None:
        group, self._group, self._is_writing = self._group, [], True
        lines = [line for some, _ in group for line in some]
        written = self._loop.run_in_executor(self._thread, self._post_all, lines)
        written.add_done_callback(lambda done: self._written(group, done))

    def _written(self, group: Group, done: asyncio.Future[Refusals]) -> None:
        self._is_writing = False
        if self._group:
            self._write()
        error = done.exception()
        refused: Refusals = [] if error is not None else done.result()
        start = 0
        for lines, future in group:
            end = start + len(lines)
            if future.cancelled():  # who asked has gone, and what it sent is kept all the same
                pass
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(refused[start:end])
            start = end

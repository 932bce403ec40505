"""What a server serves, as one object that all routes share: an engine, its store, and what runs beside it.

In: an engine at work and the place of its store. Out: pages of the store, threads to read it in, and a way to wait for
what happens next. It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from augury.algebra.program import Program
from augury.engine.replacing import Changes
from augury.environment import Environment
from augury.local.answers import Answer
from augury.local.running import LocalEngine
from augury.local.store.errors import StoreError
from augury.local.store.outbox import SqlOutbox, open_outbox
from augury.local.store.pages import PagedReader, open_pages
from augury.server.functions import RuleFunctions
from augury.server.gathering import Gatherer
from augury.server.instead import marked
from augury.server.requests import Requests

if TYPE_CHECKING:
    from augury.actions.deliver import Deliverer
    from augury.detectors.run import Detectors

LOG: Final = logging.getLogger("augury.server")

_READING_THREADS: Final = 4
"""Of the connections that read a store, one is left for the engine."""

_NOTIFYING_THREADS: Final = 8
"""Events that are waited for at once until they are read: the engine reads one after the other, and writes together."""

_UNKEPT_SECONDS: Final = 5.0
"""So long after an event that could not be kept a server says that it is not ready; then somebody has to try again."""

_T = TypeVar("_T")
_Posted = TypeVar("_Posted")


class Served:
    """An engine with all that routes need of it; made inside a running loop."""

    def __init__(
        self,
        engine: LocalEngine,
        store: str,
        environment: Environment,
        detectors: Detectors | None = None,
        deliverer: Deliverer | None = None,
        functions: RuleFunctions | None = None,
        instead_of: str | None = None,
    ) -> None:
        """Open the store beside the engine, to be read; raises what that raises.

        `instead_of` is the digest of the program that the server was started with: one that takes its place says so.
        """
        self.engine, self.store, self.environment = engine, store, environment
        self.detectors, self.deliverer, self.functions = detectors, deliverer, functions
        self.instead_of = instead_of
        self.requests = Requests()
        self.is_paused = self.is_delivery_paused = False
        self.over = asyncio.Event()
        self.live_clients = 0
        self.pages: PagedReader = open_pages(store)
        self.outbox: SqlOutbox = open_outbox(store, alone=False)
        self.posts = Gatherer(self._noting(engine.post_all))
        self._unkept: tuple[float, str] | None = None
        self._notifying = ThreadPoolExecutor(_NOTIFYING_THREADS, "augury notifies")
        self._outbox_lock = Lock()
        self._reading = ThreadPoolExecutor(_READING_THREADS, "augury reads")
        self._changed = asyncio.Event()
        self._shown, self._renewing = engine.program, asyncio.Lock()
        self.happened = 0
        loop = asyncio.get_running_loop()
        self._renewal: asyncio.Future[None] | None = None
        engine.when_kept = partial(_soon, loop, self._kept)

    async def read(self, work: Callable[[], _T]) -> _T:
        """Do something that reads the store, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._reading, work)

    async def notify(self, line: str) -> Answer:
        """Post an event and wait until it is read; raises what the store does."""
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._notifying, self._noting(self.engine.notify), line)
        self.tell()
        return answer

    def _noting(self, post: Callable[[_Posted], _T]) -> Callable[[_Posted], _T]:
        """The same, and it is noted whether the store could keep what was posted."""

        def noting(posted: _Posted) -> _T:
            try:
                answer = post(posted)
            except StoreError as error:
                self._unkept = self.environment.monotonic(), str(error)
                raise
            self._unkept = None
            return answer

        return noting

    @property
    def unkept(self) -> str | None:
        """Why what was posted lately could not be kept; None if it was, or nobody tried for a while."""
        if self._unkept is None or self.environment.monotonic() > self._unkept[0] + _UNKEPT_SECONDS:
            return None
        return self._unkept[1]

    async def apply(self, program: Program) -> Changes:
        """Let another program take the place of the one that runs; raises what the engine does."""
        if self.instead_of is not None:
            program = replace(program, text=marked(program.text, self.instead_of))
        changes = await self.read(lambda: self.engine.apply(program))
        await self._renew()
        self.tell()
        return changes

    def _kept(self) -> None:
        """A tick was committed, or a program taken up: who looks sees its tables, also where no answer told of it."""
        if self.engine.program is not self._shown and (self._renewal is None or self._renewal.done()):
            self._renewal = asyncio.ensure_future(self._renew_or_tell())
        self.tell()

    async def _renew_or_tell(self) -> None:
        try:
            await self._renew()
        except StoreError as error:
            LOG.warning(f"{error}; what is new in the program is shown when it can be read")

    async def _renew(self) -> None:
        """Read the tables of the program that runs, if those of another were."""
        async with self._renewing:
            program = self.engine.program
            if program is not self._shown:
                before, self.pages = self.pages, await self.read(lambda: open_pages(self.store))
                self._shown = program
                await self.read(before.close)

    async def with_outbox(self, work: Callable[[SqlOutbox], _T]) -> _T:
        """Do something with the outbox, which is for one thread at a time."""

        def alone() -> _T:
            with self._outbox_lock:
                return work(self.outbox)

        return await self.read(alone)

    def tell(self) -> None:
        """Something has happened: let those look who wait for it."""
        self.happened += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seen: int, seconds: float) -> bool:
        """Until more has happened than was seen, or the server ends; False when the time is over before that.

        Who looks notes `happened` before: what happens meanwhile is not missed.
        """
        if self.happened != seen or self.over.is_set():
            return True
        changed = asyncio.ensure_future(self._changed.wait())
        over = asyncio.ensure_future(self.over.wait())
        try:
            done, _ = await asyncio.wait((changed, over), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return bool(done)
        finally:
            changed.cancel()
            over.cancel()

    async def close(self) -> None:
        """Let go of everything but the engine, once what is under way is done."""
        self.over.set()
        self.engine.when_kept = None
        self.engine.give_up()
        if self._renewal is not None:
            await self._renewal
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        self.posts.close()
        self._notifying.shutdown(wait=True)
        self._reading.shutdown(wait=True)
        self.outbox.close()
        self.pages.close()


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    loop.call_soon_threadsafe(call)

"""A world that a seed decides: time that passes only while everybody waits, others that fail, answers that are lost.

In: a seed, and who answers at which host. Out: an `Environment` and a way to run coroutines in it. The same seed gives
the same run, instant by instant, however long it takes on the machine; nothing here waits for anything real.
"""

from __future__ import annotations

import asyncio
import errno
import io
import posixpath
import random
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import IO, Any, Final, TypeVar
from urllib.parse import urlsplit

from augury.environment import Ended, Request, Response, Unreachable

T = TypeVar("T")
Handler = Callable[[Request], Response | Awaitable[Response]]

START_US: Final = 1_767_225_600_000_000
"""When a world begins: the first of January 2026."""

_PIECE_BYTES: Final = 1 << 16


class Stuck(RuntimeError):
    """Everybody waits, and for nothing that will ever come."""


@dataclass(slots=True)
class Faults:
    """How often things go wrong, as chances from 0 to 1, and how slow others are at most."""

    refused: float = 0.0
    """A request does not reach the other."""
    lost: float = 0.0
    """It does, and the answer does not come back."""
    unreadable: float = 0.0
    """A file cannot be read or written."""
    delay_seconds_max: float = 0.0


@dataclass(slots=True)
class World:
    """A world; `random` decides about faults and is what its inhabitants draw from, `now` is when it begins."""

    seed: int
    faults: Faults = field(default_factory=Faults)
    variables: Mapping[str, str] = field(default_factory=dict)
    now: int = START_US
    stdin: IO[bytes] | None = None
    random: random.Random = field(init=False)
    began: int = field(init=False)
    network: SimulatedNetwork = field(init=False)
    files: SimulatedFiles = field(init=False)
    commands: dict[str, Callable[[Sequence[str], bytes], Ended]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin."""
        self.random, self.began = random.Random(self.seed), self.now
        self.network, self.files = SimulatedNetwork(self), SimulatedFiles(self)

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return self.now

    def monotonic(self) -> float:
        """Seconds since it began."""
        return (self.now - self.began) / 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait; only in the loop of a world does its time pass."""
        if not isinstance(asyncio.get_running_loop(), _Loop):
            raise RuntimeError("the time of a world passes inside `World.live`: an engine follows it by follow()")
        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Wait; nobody else does anything meanwhile, and what is due by then comes late."""
        self.now += _microseconds(seconds)

    def together(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Do them one after the other, in an order that the seed decides: threads take turns as they please."""
        order = list(range(len(works)))
        self.random.shuffle(order)
        given: dict[int, T] = {}
        failed: list[BaseException] = []
        for number in order:
            try:
                given[number] = works[number]()
            except BaseException as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return [given[number] for number in range(len(works))]

    async def run(self, words: Sequence[str], given: bytes, seconds: float) -> Ended:
        """Run a command of this world, by its first word."""
        if words[0] not in self.commands:
            raise FileNotFoundError(f"there is no command `{words[0]}`")
        await self.sleep(self.random.uniform(0, self.faults.delay_seconds_max))
        return self.commands[words[0]](words, given)

    def happens(self, chance: float) -> bool:
        """Whether something of that chance happens this time."""
        return chance > 0 and self.random.random() < chance

    def live(self, work: Coroutine[Any, Any, T], until_us: int | None = None) -> T:
        """Run a coroutine in this world to its end; raises `Stuck`, and `TimeoutError` past a time."""
        loop = _Loop(self)
        try:
            limit = None if until_us is None else max(until_us - self.now, 0) / 1_000_000
            return loop.run_until_complete(asyncio.wait_for(work, limit))
        finally:
            _cancel_all(loop)
            loop.close()


# ---- time --------------------------------------------------------------------------------------------------------


class _Waiting(selectors.SelectSelector):
    """What a loop does while nothing is ready: here the clock jumps to what comes next."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Nothing comes from outside."""
        if timeout is None:
            raise Stuck("everybody waits, and for nothing that will ever come")
        self._world.now += _microseconds(timeout)
        return []


def _microseconds(seconds: float) -> int:
    """Rounded up, or a loop would be a hair too early for its timer for ever."""
    return 0 if seconds <= 0 else int(seconds * 1_000_000) + 1


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose time is that of a world; work for threads is done at once, one after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        super().__init__(_Waiting(world))

    def time(self) -> float:
        """Seconds since the world began."""
        return self._world.monotonic()

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, work: Callable[..., T], *arguments: Any
    ) -> asyncio.Future[T]:
        """Do it now: threads take turns as they please, and a seed could not decide that."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """What still runs when a world ends is ended, as by a crash."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))


# ---- others, and files -------------------------------------------------------------------------------------------


class SimulatedNetwork:
    """Hosts that answer, or do not."""

    def __init__(self, world: World) -> None:
        """Nobody is there yet."""
        self._world = world
        self.hosts: dict[str, Handler] = {}

    async def request(self, asked: Request) -> Response:
        """Ask the host of a URL; it may never hear of it, or its answer may be lost."""
        world, host = self._world, urlsplit(asked.url).netloc
        slow = world.random.uniform(0, world.faults.delay_seconds_max)
        if host not in self.hosts or world.happens(world.faults.refused):
            await world.sleep(slow / 2)
            raise Unreachable(f"`{host}` refused the connection")
        is_lost = world.happens(world.faults.lost)
        try:
            async with asyncio.timeout(asked.seconds):
                await world.sleep(slow / 2)
                answer = self.hosts[host](asked)
                found = answer if isinstance(answer, Response) else await answer
                await world.sleep(slow / 2)
        except TimeoutError:
            raise Unreachable(f"no answer within {asked.seconds:g} s") from None
        if is_lost:
            raise Unreachable(f"`{host}` broke off")
        return found

    async def close(self) -> None:
        """There is nothing to let go."""


class SimulatedFiles:
    """Files that outlive their readers and writers."""

    def __init__(self, world: World) -> None:
        """There are none yet."""
        self._world = world
        self._content: dict[str, bytes] = {}
        self._number: dict[str, int] = {}
        self._numbered = 0

    def read(self, path: str, start: int = 0, count: int = -1) -> bytes:
        """Some bytes of a file."""
        content = self._found(path)[start:]
        return content if count < 0 else content[:count]

    def open(self, path: str) -> io.BufferedReader:
        """A file to be read piece by piece, each of which may fail."""
        return io.BufferedReader(_Pieces(self, path), _PIECE_BYTES)

    def write(self, path: str, content: bytes) -> None:
        """Write a file as a whole, or not at all."""
        self.may_fail(path)
        place = self.resolved(path)
        self._content[place] = content
        self._numbered += 1
        self._number[place] = self._numbered

    def append(self, path: str, content: bytes) -> None:
        """Let a file grow, as those do that others write."""
        place = self.resolved(path)
        if place not in self._number:
            self._numbered += 1
            self._number[place] = self._numbered
        self._content[place] = self._content.get(place, b"") + content

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, sorted."""
        self.may_fail(folder)
        within = self._within(folder)
        rest = (path[len(within) :] for path in self._content if path.startswith(within))
        return sorted(name for name in rest if "/" not in name)

    def mark(self, path: str) -> tuple[int, int]:
        """Its number, and its size."""
        size = len(self._found(path))
        return self._number[self.resolved(path)], size

    def remove(self, path: str) -> None:
        """Delete a file, if it is there."""
        self.may_fail(path)
        self._content.pop(self.resolved(path), None)
        self._number.pop(self.resolved(path), None)

    def is_folder(self, path: str) -> bool:
        """Whether some file is within it."""
        within = self._within(path)
        return any(one.startswith(within) for one in self._content)

    def resolved(self, path: str) -> str:
        """The path without steps up: there are no links."""
        return posixpath.normpath(path)

    def may_fail(self, path: str) -> None:
        """Fail, if that happens this time."""
        if self._world.happens(self._world.faults.unreadable):
            raise OSError(errno.EIO, "it cannot be used just now", path)

    def _within(self, folder: str) -> str:
        """How the paths of its files begin."""
        place = self.resolved(folder)
        return "" if place == "." else f"{place}/"

    def _found(self, path: str) -> bytes:
        self.may_fail(path)
        if (place := self.resolved(path)) in self._content:
            return self._content[place]
        if self.is_folder(path):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", path)
        raise FileNotFoundError(errno.ENOENT, "there is no such file", path)


class _Pieces(io.RawIOBase):
    """A file that is open: what it held then, and each piece may fail to be read."""

    def __init__(self, files: SimulatedFiles, path: str) -> None:
        self._files, self._path = files, path
        self._held = io.BytesIO(files.read(path))

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place."""
        return self._held.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        """The next piece."""
        self._files.may_fail(self._path)
        return self._held.readinto(buffer)

"""The world as the rim sees it: clock, chance, sleep, network and files, behind one small object.

Whoever runs detectors, engines and executors takes an `Environment`; `real()` is the machine itself, `simulated` one
that a seed decides, so that a run can be had again exactly. Nothing else in these folders reads a clock, draws a
number, sleeps, opens a connection or a file.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Unreachable(OSError):
    """No answer: refused, broken off, out of time, or no such host; the message says which."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request over HTTP. `seconds` is how long all of it may take."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 10.0
    redirects: int = 0
    answer_bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Response:
    """The answer: headers by lower-case name, and the body, cut off at what the request allows."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and the end of what it wrote to standard error."""

    exit_code: int
    told: str


class Network(Protocol):
    """Asks others."""

    async def request(self, asked: Request) -> Response:
        """Send it and wait for the answer; raises `Unreachable`."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Files(Protocol):
    """Reads and writes files, by path."""

    def read(self, path: str, start: int = 0, count: int = -1) -> bytes:
        """Some bytes of a file; raises `OSError`."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file as a whole: who looks sees the old or the new content; raises `OSError`."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, sorted; raises `OSError`."""
        ...

    def mark(self, path: str) -> tuple[int, int]:
        """Which file this is and how large, so that one that was replaced is told from one that grew."""
        ...


class Environment(Protocol):
    """The world."""

    @property
    def random(self) -> random.Random:
        """Chance."""
        ...

    @property
    def network(self) -> Network:
        """Others."""
        ...

    @property
    def files(self) -> Files:
        """What is kept here."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables."""
        ...

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def run(self, words: Sequence[str], given: bytes, seconds: float) -> Ended:
        """Run a command, without a shell, with something on standard input; raises `OSError` and `TimeoutError`."""
        ...


# ---- the machine itself ------------------------------------------------------------------------------------------


class RealFiles:
    """The files of this machine."""

    def read(self, path: str, start: int = 0, count: int = -1) -> bytes:
        """Some bytes of a file."""
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(count)

    def write(self, path: str, content: bytes) -> None:
        """Write beside it, bring it to the disk, and then put it in its place."""
        aside = f"{path}.{os.getpid()}.new"
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, sorted."""
        with os.scandir(folder) as found:
            return sorted(one.name for one in found if one.is_file())

    def mark(self, path: str) -> tuple[int, int]:
        """Its number on the disk, and its size."""
        about = Path(path).stat()
        return about.st_ino, about.st_size


class RealNetwork:
    """HTTP by aiohttp; connections are kept until `close`."""

    def __init__(self) -> None:
        """Open nothing yet: a session belongs to a running loop."""
        self._session: object | None = None

    async def request(self, asked: Request) -> Response:
        """Send it and wait for the answer."""
        import aiohttp

        session = self._session
        if not isinstance(session, aiohttp.ClientSession):
            connector = aiohttp.TCPConnector(limit=0)
            session = self._session = aiohttp.ClientSession(connector=connector, auto_decompress=True)
        limit = aiohttp.ClientTimeout(total=asked.seconds)
        try:
            async with session.request(
                asked.method,
                asked.url,
                headers=dict(asked.headers),
                data=asked.body or None,
                timeout=limit,
                allow_redirects=asked.redirects > 0,
                max_redirects=max(asked.redirects, 1),
            ) as answer:
                body = await answer.content.read(asked.answer_bytes_max)
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, headers, body, str(answer.url))
        except TimeoutError as error:
            raise Unreachable(f"no answer within {asked.seconds:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Let go of connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()  # type: ignore[attr-defined]


@dataclass(slots=True)
class Machine:
    """The machine itself."""

    random: random.Random = field(default_factory=random.Random)
    network: Network = field(default_factory=RealNetwork)
    files: Files = field(default_factory=RealFiles)

    @property
    def variables(self) -> Mapping[str, str]:
        """Environment variables."""
        return os.environ

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def run(self, words: Sequence[str], given: bytes, seconds: float) -> Ended:
        """Run a command; one that takes too long is ended."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *words, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
        try:
            async with asyncio.timeout(seconds):
                _, told = await process.communicate(given)
        except BaseException:
            if process.returncode is None:
                process.kill()
                await process.wait()
            raise
        assert process.returncode is not None
        return Ended(process.returncode, told[-1_000:].decode("utf-8", "replace"))


@asynccontextmanager
async def real() -> AsyncIterator[Environment]:
    """The machine itself, as long as it is used."""
    machine = Machine()
    try:
        yield machine
    finally:
        await machine.network.close()

"""The world as the rim sees it: clock, chance, sleep, network and files, behind one small object.

Engines, detectors, executors and who runs them take an `Environment`; `real()` is the machine itself, `simulated` one
that a seed decides, so that a run can be had again exactly. Who has one reads no other clock, draws no other number
and does not sleep by itself: `tests/test_architecture.py` has the list of those who do, and why that decides nothing.
"""

from __future__ import annotations

import ipaddress
import os
import random
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader, FileIO
from pathlib import Path
from tempfile import TemporaryFile
from threading import Thread
from typing import IO, Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

# What takes long to import is imported where it is needed: every verb reads its files by this module.

T = TypeVar("T")

_BUFFER_BYTES: Final = 1 << 16

_TOLD_BYTES_MAX: Final = 1_000
"""Of what a command wrote to standard error, the end."""


class Unreachable(OSError):
    """No answer: refused, broken off, out of time, or no such host; the message says which."""


class NotPublic(Unreachable):
    """An address of this machine or of a network that is not public, asked for by one who may not."""


class NotTrusted(Unreachable):
    """The other side has a certificate that this machine does not trust."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request over HTTP. `seconds` is how long all of it may take.

    `is_public` keeps it from addresses that are not public, but for those of `networks`: what a name stands for is
    looked up once, and only what was found to be allowed is connected to; else it raises `NotPublic`.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 10.0
    redirects: int = 0
    answer_bytes_max: int = 1 << 20
    is_public: bool = False
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """The answer: headers by lower-case name, and the body, cut off at what the request allows.

    `cookies` are the values of its Set-Cookie headers; whoever wants to send some keeps them.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    url: str = ""
    cookies: tuple[str, ...] = ()


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

    def open(self, path: str) -> BufferedReader:
        """A file to be read piece by piece, and closed; raises `OSError`, and so may each reading."""
        ...

    def write(self, path: str, content: bytes) -> None:
        """Write a file as a whole: who looks sees the old or the new content; raises `OSError`."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, sorted; raises `OSError`."""
        ...

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""
        ...

    def resolved(self, path: str) -> str:
        """The path that all names of one file lead to."""
        ...

    def mark(self, path: str) -> tuple[int, int]:
        """Which file this is and how large, so that one that was replaced is told from one that grew."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file, if it is there; raises `OSError`."""
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
    def stdin(self) -> IO[bytes] | None:
        """Standard input; None where it is closed."""
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

    def block(self, seconds: float) -> None:
        """Wait where nothing else can go on meanwhile: in a thread that has no loop."""
        ...

    def together(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Do all of these at the same time; gives what each gave, once all are done, or raises what one raised."""
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

    def open(self, path: str) -> BufferedReader:
        """A file to be read piece by piece."""
        return BufferedReader(FileIO(path), _BUFFER_BYTES)

    def write(self, path: str, content: bytes) -> None:
        """Write beside it, bring it to the disk, and then put it in its place; its rights stay as they are."""
        mode = _mode(path)
        if mode is not None and not stat.S_ISREG(mode):  # a pipe or a device has no place that another could take
            with open(path, "wb") as file:
                file.write(content)
            return
        place = self.resolved(path)
        aside = f"{place}.{os.getpid()}.new"
        try:
            with open(aside, "wb") as file:
                file.write(content)
                file.flush()
                if mode is not None:
                    os.fchmod(file.fileno(), stat.S_IMODE(mode))
                os.fsync(file.fileno())
            os.replace(aside, place)
        except OSError:
            with suppress(OSError):
                os.unlink(aside)
            raise

    def names(self, folder: str) -> list[str]:
        """The names of the files of a folder, sorted."""
        with os.scandir(folder) as found:
            return sorted(one.name for one in found if one.is_file())

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder of this name."""
        return os.path.isdir(path)

    def resolved(self, path: str) -> str:
        """The path without links."""
        return os.path.realpath(path)

    def mark(self, path: str) -> tuple[int, int]:
        """Its number on the disk, and its size."""
        about = Path(path).stat()
        return about.st_ino, about.st_size

    def remove(self, path: str) -> None:
        """Delete a file, if it is there."""
        Path(path).unlink(missing_ok=True)


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


class RealNetwork:
    """HTTP by aiohttp; connections are kept until `close`."""

    def __init__(self) -> None:
        """Open nothing yet: a session belongs to a running loop."""
        self._sessions: dict[tuple[bool, tuple[str, ...]], Any] = {}

    async def request(self, asked: Request) -> Response:
        """Send it and wait for the answer."""
        import aiohttp

        session = self._session(asked)
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
                body = bytearray()
                while len(body) < asked.answer_bytes_max:  # a read gives what is there, not all that comes
                    part = await answer.content.read(asked.answer_bytes_max - len(body))
                    if not part:
                        break
                    body += part
                headers = {name.lower(): value for name, value in answer.headers.items()}
                cookies = tuple(answer.headers.getall("Set-Cookie", ()))
                return Response(answer.status, headers, bytes(body), str(answer.url), cookies)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {asked.seconds:g} s") from error
        except aiohttp.ClientConnectorCertificateError as error:
            wrong = error.certificate_error
            why = getattr(wrong, "verify_message", "") or str(wrong)
            raise NotTrusted(f"the certificate of `{error.host}` is not to be trusted: {why}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(cause := getattr(error, "os_error", error), NotPublic):
                raise cause from None
            raise Unreachable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Let go of connections."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()

    def _session(self, asked: Request) -> Any:
        import aiohttp

        kind = asked.is_public, asked.networks
        if asked.is_public:
            _require_public(urlsplit(asked.url).hostname or "", asked.url, asked.networks)
        if kind not in self._sessions:
            resolver = _public_resolver(asked.networks) if asked.is_public else None
            connector = aiohttp.TCPConnector(limit=0, resolver=resolver)
            # Cookies would go from one detector or executor to another: who wants some sends them by itself.
            self._sessions[kind] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        return self._sessions[kind]


def _public_resolver(networks: tuple[str, ...]) -> Any:
    """Looks names up, and gives only what is allowed: what was looked at is what is connected to."""
    import socket

    from aiohttp.resolver import ThreadedResolver

    class PublicResolver(ThreadedResolver):
        async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> Any:
            found = await super().resolve(host, port, family)
            for one in found:
                _require_public(one["host"], host, networks)
            return found

    return PublicResolver()


def _require_public(address: str, asked: str, networks: tuple[str, ...]) -> None:
    """Refuse an address that is neither public nor of these networks; a name is none, and is looked up later."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return
    if isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or found.sixtofour or found
    if any(found in ipaddress.ip_network(network) for network in networks):
        return
    if not found.is_global or found.is_multicast:
        raise NotPublic(f"`{asked}` is at {address}, which is no public address")


@dataclass(slots=True)
class Machine:
    """The machine itself."""

    random: random.Random = field(default_factory=random.Random)
    network: Network = field(default_factory=RealNetwork)
    files: Files = field(default_factory=RealFiles)

    @property
    def stdin(self) -> IO[bytes] | None:
        """Standard input."""
        return None if sys.stdin is None else sys.stdin.buffer

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
        import asyncio

        await asyncio.sleep(seconds)

    def block(self, seconds: float) -> None:
        """Wait."""
        time.sleep(max(seconds, 0.0))

    def together(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Do them in threads, the first in this one."""
        given: dict[int, T] = {}
        failed: list[BaseException] = []

        def do(number: int) -> None:
            try:
                given[number] = works[number]()
            except BaseException as error:
                failed.append(error)

        threads = [Thread(target=do, args=(number,), daemon=True) for number in range(1, len(works))]
        for thread in threads:
            thread.start()
        if works:
            do(0)
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return [given[number] for number in range(len(works))]

    async def run(self, words: Sequence[str], given: bytes, seconds: float) -> Ended:
        """Run a command; one that takes too long is ended."""
        import asyncio

        # Files and no pipes: a process that the command leaves behind would hold those, and be waited for.
        with _file() as asked, _file() as told:
            asked.write(given)
            asked.seek(0)
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asked, stdout=asyncio.subprocess.DEVNULL, stderr=told
            )
            try:
                async with asyncio.timeout(seconds):
                    exit_code = await process.wait()
            except BaseException:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
                raise
            size = os.fstat(told.fileno()).st_size
            # Not by seeking: whoever is left behind writes where the file stands.
            end = os.pread(told.fileno(), _TOLD_BYTES_MAX, max(size - _TOLD_BYTES_MAX, 0))
        return Ended(exit_code, end.decode("utf-8", "replace"))


def _file() -> IO[bytes]:
    """A file of nobody else's; raises `OSError` without a number where none can be made, which is not the command's."""
    try:
        return TemporaryFile()
    except OSError as error:
        raise OSError(f"there is no room for what it says: {error.strerror}") from None


@asynccontextmanager
async def real() -> AsyncIterator[Environment]:
    """The machine itself, as long as it is used."""
    machine = Machine()
    try:
        yield machine
    finally:
        await machine.network.close()

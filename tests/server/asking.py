"""What the tests of the server share: a server in this process or in one of its own, and a way to ask it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from augury.api import compile
from augury.environment import Machine
from augury.local.running import LocalEngine
from augury.server.app import server_app
from augury.server.gate import Gate
from augury.server.served import Served
from augury.server.tokens import Role, Tokens, add_token
from tests.clocks import Read

JSON = {"content-type": "application/json"}
NDJSON = {"content-type": "application/x-ndjson"}

SHOP = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (resource STRING, amount NUMERIC(20, 10)) ID (resource) LIFESPAN (5d)
  ON ANNOUNCEMENT DO order(NEW.resource, NEW.amount), tell('low', NEW.resource);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Paid (resource STRING, price DOUBLE) ID () LIFESPAN (5d);
CREATE COMPLEX EVENT CLASS Twice (resource STRING) ID (resource) LIFESPAN (5d)
  AS MATCH prior(Low(resource, _), Low(resource, _));
CREATE COMPLEX EVENT CLASS Settled (resource STRING) ID (resource) LIFESPAN (5d)
  AS MATCH prior(Low(resource, _), Paid(resource, _));
"""


@dataclass(frozen=True)
class Answer:
    """What a server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.decode().split("\n") if line]


# ---- in this process -------------------------------------------------------------------------------------------------


async def ask(
    app: Any,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    token: str | None = None,
    parts: Callable[[], Awaitable[Any]] | None = None,
    address: str = "127.0.0.1",
) -> Answer:
    """Ask an application without a network, to the end of its answer; `parts` brings the body if it comes in some."""
    given = {"host": "127.0.0.1", **(headers or {})}
    if token is not None:
        given["authorization"] = f"Bearer {token}"
    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": where.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": (address, 1),
        "server": ("127.0.0.1", 2),
    }
    sent: list[Any] = []
    asked = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return asked.pop(0) if asked else await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, parts or receive, send)
    start, *bodies = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(one.get("body", b"") for one in bodies))


@dataclass
class Here:
    """An engine behind an application, in this process: ticks come when `tick` is called."""

    engine: LocalEngine
    served: Served
    app: Gate
    tokens: Path
    given: dict[Role, str]
    now_us: list[int] = field(default_factory=list)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | str = b"",
        headers: Mapping[str, str] | None = None,
        role: Role | None = Role.ADMIN,
    ) -> Answer:
        content = body.encode() if isinstance(body, str) else body
        return await ask(self.app, method, path, content, headers, None if role is None else self.given[role])

    async def post(self, *events: Mapping[str, Any]) -> Answer:
        return await self.ask("POST", "/v1/events", "\n".join(map(json.dumps, events)), NDJSON)

    async def tick(self, seconds: int = 1) -> None:
        self.now_us[0] += seconds * 1_000_000
        await asyncio.to_thread(self.engine.advance_to, self.now_us[0])


START_US = 1_767_258_000_000_000  # 2026-01-01T09:00:00Z


@asynccontextmanager
async def here(folder: Path, text: str = SHOP, **more: Any) -> AsyncIterator[Here]:
    """An engine behind an application, with a token of each role."""
    tokens = folder / "tokens"
    given = {role: add_token(tokens, role.value, (role,)) for role in Role}
    now_us = [START_US]
    engine = LocalEngine(compile(text), folder / "a.db", environment=Read(lambda: now_us[0]))
    served = Served(engine, str(folder / "a.db"), Machine())
    try:
        yield Here(engine, served, server_app(served, Tokens(tokens), **more), tokens, given, now_us)
    finally:
        await served.close()
        engine.close()


def run(work: Any) -> None:
    """Run a coroutine, for a while at most."""

    async def limited() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(limited())


# ---- a process of its own --------------------------------------------------------------------------------------------


class Server:
    """`augury serve` as a process, which can be killed and started again at the same port.

    Where nobody made a token for it, it has one that may do everything, with which it is asked if nothing else is said.
    """

    def __init__(
        self,
        folder: Path,
        text: str,
        *words: str,
        environment: Mapping[str, str] | None = None,
        store: str = "a.db",
        before: Sequence[str] = (),
    ) -> None:
        """Start it; `before` are the words of a command that becomes the server."""
        self.before = before
        self.folder, self.environment, self.store = folder, environment, store
        self.token: str | None = None
        if "--open" not in words and "--tokens" not in words and not (folder / f"{store}.tokens").exists():
            self.token = add_token(folder / "tokens", f"tests-{time.monotonic_ns()}", (Role.ADMIN,))
            words = (*words, "--tokens", str(folder / "tokens"))
        self.words = words
        (folder / "program.bicepl").write_text(text, "utf-8")
        self.told = folder / "told"
        self.url = ""
        self.start()

    def start(self, seconds: float = 60.0) -> None:
        """Start it, and wait until it is ready."""
        self.launch()
        self.wait_until_ready(seconds)

    def launch(self) -> None:
        """Start it, at the port that it had."""
        self._said = self.told.stat().st_size if self.told.exists() else 0
        port = str(urlsplit(self.url).port or 0)
        words = ["-m", "augury", "serve", "program.bicepl", "--store", self.store, "--port", port, *self.words]
        environment = dict(os.environ if self.environment is None else self.environment)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed is compiled, and starts in two thirds
        with self.told.open("ab") as file:
            self.process = subprocess.Popen(
                [*self.before, sys.executable, *words],
                cwd=self.folder,
                stdout=file,
                stderr=file,
                env=environment,
            )

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Until it answers that it is ready."""
        begun = time.monotonic()
        while "listens at" not in (text := self.told.read_bytes()[self._said :].decode()):
            assert self.process.poll() is None, text
            assert time.monotonic() < begun + seconds, text
            time.sleep(0.02)
        self.url = text.partition("listens at ")[2].split()[0]
        while self.ask("GET", "/ready").status != 200:
            assert time.monotonic() < begun + seconds, self.told.read_text()
            time.sleep(0.02)

    def cpu_seconds(self) -> float:
        """What the process has used of the processor: how long it took, were there nothing else to do."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        with self.connected() as connection:
            return self.asked(connection, method, path, body, headers, token)

    @contextmanager
    def connected(self) -> Iterator[http.client.HTTPConnection]:
        with closing(http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)) as connection:
            yield connection

    def asked(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
    ) -> Answer:
        given = dict(headers or {})
        if (said := token or self.token) is not None:
            given["authorization"] = f"Bearer {said}"
        connection.request(method, path, body.encode() if isinstance(body, str) else body, given)
        answer = connection.getresponse()
        return Answer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())

    def kill(self) -> None:
        """Kill it by SIGKILL: it is one process."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)

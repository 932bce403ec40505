"""A real server for the tests: a program behind HTTP in a thread of this process, on a free port of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import augury
from augury.client import Client
from augury.server.living import Serving, live_server
from augury.server.tokens import Role, add_token

EVERY_ROLE = tuple(Role)


@dataclass
class Server:
    """Where it is, and who may ask."""

    url: str
    store: str
    tokens: Path | None
    left: ExitStack = field(default_factory=ExitStack)

    def client(self, *roles: Role) -> Client:
        """A client with a token of its own that has these roles; without tokens anybody may post and read."""
        token = None
        if self.tokens is not None:
            token = add_token(self.tokens, f"t{id(object())}-{'-'.join(roles)}", roles or EVERY_ROLE)
        return self.left.enter_context(Client(self.url, token, timeout_seconds=20.0))


@contextmanager
def served(text: str, folder: Path, *, has_tokens: bool = True, port: int = 0) -> Iterator[Server]:
    """A program on a store in a folder; a later one on the same folder goes on."""
    store, tokens = str(folder / "store.db"), folder / "tokens" if has_tokens else None
    if tokens is not None and not tokens.exists():
        add_token(tokens, "first", (Role.READ,))
    told: SimpleQueue[str | BaseException] = SimpleQueue()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    def run() -> None:
        serving = Serving(port=port, tokens=tokens)
        try:
            loop.run_until_complete(live_server(augury.compile(text), store, serving, told.put, over=over))
        except BaseException as error:
            told.put(error)
        finally:
            loop.close()

    thread = Thread(target=run, name="server")
    thread.start()
    try:
        first = told.get(timeout=30)
        if isinstance(first, BaseException):
            raise first
        server = Server(first.rpartition(" ")[2], store, tokens)
        with server.left:
            yield server
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join(60)
        assert not thread.is_alive(), "the server does not end"


def columns(rows: Sequence[object], *names: str) -> list[tuple[object, ...]]:
    """Some members of rows."""
    return [tuple(row[name] for name in names) for row in rows]  # type: ignore[index]

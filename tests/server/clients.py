"""Servers as processes with a token for everything, and clients that ask them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from augury.client import Client
from augury.server.tokens import Role, add_token
from tests.server.asking import Server


@dataclass
class Asked:
    """A server, and a client of it that may do everything."""

    server: Server
    client: Client
    token: str
    tokens: Path = field(repr=False)

    @property
    def url(self) -> str:
        return self.server.url

    def token_for(self, role: Role) -> str:
        return add_token(self.tokens, role.value, (role,))


@contextmanager
def asked(folder: Path, text: str) -> Iterator[Asked]:
    """A program behind HTTP, in a folder."""
    tokens = folder / "a.db.tokens"
    token = add_token(tokens, "owner", tuple(Role))
    server = Server(folder, text)
    try:
        with Client(server.url, token, timeout_seconds=20.0) as client:
            yield Asked(server, client, token, tokens)
    finally:
        server.kill()

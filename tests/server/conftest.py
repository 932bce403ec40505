"""Servers as processes, which end with the test; and a real PostgreSQL, started as the tests of the store do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bitemporal.conftest import own_schema, own_server
from tests.server.asking import SHOP, Server

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a server in the folder of the test."""
    started: list[Server] = []

    def start(text: str = SHOP, *words: str, **more: Any) -> Server:
        started.append(Server(tmp_path, text, *words, **more))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def database_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database."""
    with own_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture
def postgres_url(database_server: str) -> Iterator[str]:
    """A schema of its own for a test."""
    with own_schema(database_server) as url:
        yield url

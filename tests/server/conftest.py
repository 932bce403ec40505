"""Servers as processes, which end with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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

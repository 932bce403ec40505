"""`augury actions run --dry-run`: what would go to whom is told, and nothing of it is done."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from augury.cli import app
from augury.local.store.outbox import open_outbox

PROGRAM = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Low (resource VARCHAR(30)) ID (resource) LIFESPAN (5d)
  ON ANNOUNCEMENT DO mark(NEW.resource), call(NEW.resource), publish(NEW.resource), ponder(NEW.resource);
RULE Count (resource STRING) ACTION count(resource);
TRIGGER Counted (resource STRING) TRIGGEREVENT Low RULESTRUC Count(resource);
BIND mark TO PYTHON 'dry_marks:mark';
BIND call TO WEBHOOK 'http://127.0.0.1:{port}/secret-path' WITH (secret = ENV 'HOOK');
BIND publish TO KAFKA 'low' WITH (servers = '127.0.0.1:{port}');
BIND count TO LOG;
"""
MODULE = """
from pathlib import Path

def mark(resource):
    Path("marked").write_text(resource)
"""


def augury(*arguments: object) -> Result:
    """The command, with a secret in its environment."""
    result = CliRunner(env={"HOOK": "whsec_c2VjcmV0c2VjcmV0c2VjcmV0"}).invoke(app, [str(one) for one in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A server that takes connections, and would know of one."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        held.setblocking(False)
        yield held


@pytest.fixture
def fridge(tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program and a store in which five actions wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "dry_marks.py").write_text(MODULE, "utf-8")
    program = PROGRAM.replace("{port}", str(listener.getsockname()[1]))
    (tmp_path / "fridge.bicepl").write_text(program, "utf-8")
    event = {"event": "Low", "resource": "milk", "occ_time": "2026-01-01T09:00:00Z"}
    (tmp_path / "low.jsonl").write_text(json.dumps(event) + "\n", "utf-8")
    ran = augury("run", "fridge.bicepl", "--events", "low.jsonl", "--engine", "local", "--store", "fridge.db")
    assert ran.exit_code == 0, ran.output
    return tmp_path


def test_what_would_go_to_whom_is_told_and_nothing_is_done(fridge: Path, listener: socket.socket) -> None:
    before = augury("actions", "ls", "--store", "fridge.db", "--output", "ndjson").stdout
    found = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--dry-run", "--output", "ndjson")
    assert found.exit_code == 0, found.output
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    port = listener.getsockname()[1]
    assert [(row["action"], row["args"], row["to"]) for row in rows] == [
        ("mark", ["milk"], "python dry_marks.mark"),
        ("call", ["milk"], f"http://127.0.0.1:{port}"),
        ("publish", ["milk"], f"kafka 127.0.0.1:{port}"),
        ("ponder", ["milk"], None),
        ("count", ["milk"], "log"),
    ]
    assert {row["state"] for row in rows} == {"waiting"}
    assert "the action `ponder` has no executor: it would wait in the outbox" in found.stderr
    assert "4 would be tried, 1 would wait; nothing was done" in found.stderr

    assert augury("actions", "ls", "--store", "fridge.db", "--output", "ndjson").stdout == before
    assert not (fridge / "marked").exists()
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_table_for_people_hides_paths_and_secrets(fridge: Path) -> None:
    found = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--dry-run")
    assert 'mark("milk")' in found.stdout
    assert "nobody: it waits" in found.stdout
    assert "whsec" not in found.output
    assert "secret-path" not in found.output


def test_somebody_else_may_be_at_work(fridge: Path) -> None:
    held = open_outbox(str(fridge / "fridge.db"), alone=True)
    try:
        found = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--dry-run")
    finally:
        held.close()
    assert found.exit_code == 0, found.output


def test_bindings_that_cannot_be_used_are_told_as_ever(fridge: Path) -> None:
    (fridge / "dry_marks.py").write_text("", "utf-8")
    program = (fridge / "fridge.bicepl").read_text("utf-8").replace("dry_marks:mark", "no_such_module:mark")
    (fridge / "fridge.bicepl").write_text(program, "utf-8")
    found = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--dry-run")
    assert found.exit_code == 2
    assert "no_such_module" in found.stderr


def test_what_is_delivered_is_not_told_again(fridge: Path) -> None:
    (fridge / "augury.toml").write_text(
        "".join(f'[actions.bind.{name}]\nto = "LOG"\n' for name in ("mark", "call", "publish")), "utf-8"
    )
    done = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--once")
    assert done.exit_code == 0, done.output
    found = augury("actions", "run", "fridge.bicepl", "--store", "fridge.db", "--dry-run", "--output", "ndjson")
    assert [json.loads(line)["action"] for line in found.stdout.splitlines()] == ["ponder"]

"""What the OpenAPI document allows, asked at random: the server never fails, and answers as documented."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, Server
from tests.server.conftest import Serve

PROGRAM = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, t STRING, n NUMERIC(10, 2), d DOUBLE, b BOOLEAN, w TIMESTAMP)
  ID (k) LIFESPAN (1d) ON CHANGE DO tell(NEW.k);
CREATE COMPLEX EVENT CLASS B (k INT) ID (k) LIFESPAN (1d) AS MATCH prior(A(k, _, _, _, _, _), A(k, _, _, _, _, _));
RULE R (k INT) CONDITION k > 1 ACTION tell(k);
RULE GROUP G (R);
TRIGGER T () TRIGGEREVENT A RULESTRUC R(A.k) RETURNS INT : R;
"""
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


DOCUMENT = "/v1/openapi.json"
EVENTS = [{"event": "A", "k": k, "t": "x", "n": 1.5, "d": 0.5, "b": True, "w": "2026-01-01"} for k in (1, 2, 2)]


def operations(server: Server, token: str) -> int:
    """How many operations are asked: all but those without an end, and the document, which schemathesis leaves out."""
    paths = server.ask("GET", DOCUMENT, token=token).json["paths"]
    return sum(len(found) for path, found in paths.items() if not path.endswith("/live") and path != DOCUMENT)


def fill(server: Server, token: str) -> None:
    """Let there be versions, occurrences, firings, actions and a rejected event to ask for."""
    for event in EVENTS:
        answer = server.ask("POST", "/v1/events?wait=read", json.dumps(event), JSON, token)
        assert answer.json["firings"], answer.body
    assert server.ask("POST", "/v1/events", '{"event": "A"}', JSON, token).status == 422
    for noun in ("classes/A/history", "occurrences", "firings", "actions", "rejected"):
        until(lambda noun=noun: server.ask("GET", f"/v1/{noun}", token=token).json["rows"])  # type: ignore[misc]


def until(found: Callable[[], object]) -> None:
    """Wait for something to be there."""
    over = time.monotonic() + 30
    while not found():
        assert time.monotonic() < over
        time.sleep(0.05)


def test_no_request_makes_the_server_fail(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "tester", (Role.ADMIN,))
    server = serve(PROGRAM)
    fill(server, token)
    count = operations(server, token)
    words = ["run", f"{server.url}{DOCUMENT}", "-H", f"Authorization: Bearer {token}", "--checks", CHECKS]
    # What is told live has no end; what is no HTTP at all is answered by uvicorn itself.
    words += ["--exclude-path-regex", "/live$", "--max-examples", "10", "--request-timeout", "20", "--seed", "8"]
    words += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    told = "\n".join(line[:300] for line in done.stdout.splitlines() if line.strip())
    assert done.returncode == 0, told[-6_000:] + done.stderr[-2_000:] + server.told.read_text()[-3_000:]
    assert re.findall(r"Tested: (\d+)", told) == [str(count)], told[-3_000:]
    assert server.ask("GET", "/ready").status == 200
    assert "a request failed" not in server.told.read_text()

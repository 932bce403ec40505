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
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Spare (k INT) ID () LIFESPAN (1d);
RULE Spare (k INT) ACTION tell(k);
RULE GROUP Spare (R);
TRIGGER Spare () TRIGGEREVENT A RULESTRUC R(A.k);
BIND tell TO LOG;
"""
NAMES = {"classes": "A", "triggers": "T", "rules": "R", "groups": "G"}
NEVER = ("PUT", "/v1/program/plan", "/v1/program/apply", "/v1/delivery/{verb}", "/v1/detectors/{name}/{verb}")
"""What is not done though it is asked for: chance writes no program, and neither executors nor detectors run here."""
CHECKS = "not_a_server_error,content_type_conformance,response_schema_conformance"


DOCUMENT = "/v1/openapi.json"
EVENTS = [{"event": "A", "k": k, "t": "x", "n": 1.5, "d": 0.5, "b": True, "w": "2026-01-01"} for k in (1, 2, 2)]


def operations(server: Server, token: str) -> set[tuple[str, str]]:
    """The operations that are asked: all but those without an end, and the document, which schemathesis leaves out."""
    paths = server.ask("GET", DOCUMENT, token=token).json["paths"]
    return {
        (method.upper(), path)
        for path, found in paths.items()
        for method in found
        if not path.endswith("/live") and path != DOCUMENT
    }


def answered(server: Server, token: str) -> set[tuple[str, str]]:
    """The operations that did what they were asked for at least once."""
    told = server.ask("GET", "/metrics", token=token).body.decode()
    return set(re.findall('augury_requests_total{method="([A-Z]+)",route="([^"]+)",status="200"}', told))


def named(server: Server, token: str) -> str:
    """Names for schemathesis: what is asked for is there, and what is dropped is spare, so that the rest stays.

    The BIND of the program keeps an empty one, which chance sends, from taking its place.
    """
    action = server.ask("GET", "/v1/actions", token=token).json["rows"][0]["key"]
    known = {f"/{noun}/": ("name", one) for noun, one in NAMES.items()}
    known |= {"/actions/[{]key": ("key", action), "/codes/": ("code", "E203")}
    drops = 'include-method = "DELETE"\nparameters = { "path.name" = "Spare" }\n'
    told = [
        f'include-path-regex = "{path}"\nparameters = {{ "path.{name}" = "{one}" }}\n'
        for path, (name, one) in known.items()
    ]
    return "".join(f"[[operations]]\n{each}" for each in (drops, *told))


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
    asked = operations(server, token)
    (tmp_path / "named.toml").write_text(named(server, token))
    words = ["--config-file", "named.toml", "run", f"{server.url}{DOCUMENT}", "--checks", CHECKS]
    words += ["-H", f"Authorization: Bearer {token}"]
    # What is told live has no end; what is no HTTP at all is answered by uvicorn itself.
    words += ["--exclude-path-regex", "/live$", "--max-examples", "10", "--request-timeout", "20", "--seed", "8"]
    words += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    told = "\n".join(line[:300] for line in done.stdout.splitlines() if line.strip())
    assert done.returncode == 0, told[-6_000:] + done.stderr[-2_000:] + server.told.read_text()[-3_000:]
    assert re.findall(r"Tested: (\d+)", told) == [str(len(asked))], told[-3_000:]
    assert server.ask("GET", "/ready").status == 200
    assert asked - answered(server, token) == {(method, path) for method, path in asked if {method, path} & {*NEVER}}
    assert "a request failed" not in server.told.read_text()

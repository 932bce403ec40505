"""What the OpenAPI document allows, asked at random: the server never fails, and answers as documented."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from augury.server.tokens import Role, add_token
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


def test_no_request_makes_the_server_fail(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "tester", (Role.ADMIN,))
    server = serve(PROGRAM)
    words = ["run", f"{server.url}/v1/openapi.json", "-H", f"Authorization: Bearer {token}", "--checks", CHECKS]
    # What is told live has no end; what is no HTTP at all is answered by uvicorn itself.
    words += ["--exclude-path-regex", "/live$", "--max-examples", "10", "--request-timeout", "20", "--seed", "8"]
    words += ["--phases", "examples,coverage,fuzzing", "--generation-database", "none", "--no-color"]
    command = [sys.executable, "-m", "schemathesis.cli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    told = "\n".join(line[:300] for line in done.stdout.splitlines() if line.strip())
    assert done.returncode == 0, told[-6_000:] + done.stderr[-2_000:] + server.told.read_text()[-3_000:]
    assert "Tested: 4" in told, told[-3_000:]
    assert server.ask("GET", "/ready").status == 200
    assert "a request failed" not in server.told.read_text()

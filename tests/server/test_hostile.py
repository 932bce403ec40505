"""What events hold is data: never run, never SQL, never a path or a format, on either database."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, NDJSON, Server
from tests.server.conftest import Serve

PROGRAM = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Said (who STRING, what STRING) ID (who) LIFESPAN (1d)
  ON ANNOUNCEMENT DO tell(NEW.who, NEW.what);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Heard (who STRING, what STRING) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Loud (who STRING, what STRING) ID (who) LIFESPAN (1d)
  AS SELECT who, what FROM Said WHERE what <> 'quiet' OCCURRING AT occTime;
CREATE COMPLEX EVENT CLASS Both (who STRING) ID (who) LIFESPAN (1d) AS MATCH prior(Said(who, _), Heard(who, _));
RULE Hear (who STRING, what STRING) CONDITION what <> 'quiet' ACTION POST Heard(who, what), note(who, what);
TRIGGER Each (who STRING, what STRING) TRIGGEREVENT Said RULESTRUC Hear(who, what);
"""
TEXTS = [
    "'; DROP TABLE said; --",
    '"; DROP TABLE "Said"; --',
    "x' OR '1'='1",
    "%s %(who)s {who} {0.__class__} $1 :who ?",
    "$(touch run) `touch run` ; touch run | touch run",
    "__import__('os').system('touch run')",
    "../../etc/passwd\\",
    "E'\\'; SELECT pg_sleep(9); --",
    "COPY x FROM PROGRAM 'touch run'",
    "=cmd|' /C touch run'!A0\n\\.\n",
    "\u0000 \ufdd0 \u2028 é 🜲",
]


def page(server: Server, token: str, path: str, count: int) -> list[dict[str, Any]]:
    """The rows of a page, once there are so many."""
    over = time.monotonic() + 30
    while True:
        answer = server.ask("GET", path, token=token)
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json["rows"]
        if len(found) >= count:
            return found
        assert time.monotonic() < over, found
        time.sleep(0.1)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_what_events_hold_is_kept_as_it_is_and_nothing_else_happens(
    tmp_path: Path, serve: Serve, request: pytest.FixtureRequest, database: str
) -> None:
    token = add_token(tmp_path / "tokens", "owner", (Role.ADMIN,))
    store = "a.db" if database == "sqlite" else request.getfixturevalue("postgres_url")
    server = serve(PROGRAM, "--tokens", str(tmp_path / "tokens"), store=store)
    said = [{"event": "Said", "who": text, "what": text, "event_id": text} for text in TEXTS]
    answer = server.ask("POST", "/v1/events", "\n".join(map(json.dumps, said)), NDJSON, token)
    assert answer.json == {"accepted": len(TEXTS), "refused": []}
    again = server.ask("POST", "/v1/events?wait=read", json.dumps(said[0]), JSON, token).json
    assert again["absorbed"], "it is known by its event_id"
    for name in ("Said", "Heard", "Loud", "Both"):
        rows = page(server, token, f"/v1/classes/{name}/history", len(TEXTS))
        assert sorted(row["who"] for row in rows) == sorted(TEXTS), name
        assert all(row.get("what", row["who"]) == row["who"] for row in rows)
    assert [row["event_id"] for row in page(server, token, "/v1/classes/Said/history", 1)] == TEXTS
    assert [row["who"] for row in page(server, token, "/v1/firings", len(TEXTS))] == TEXTS
    actions = page(server, token, "/v1/actions", 2 * len(TEXTS))
    assert sorted(row["args"] for row in actions) == sorted([text, text] for text in TEXTS for _ in range(2))
    for text in TEXTS:
        name = quote(text, safe="")
        for path in (f"/v1/classes/{name}/history", f"/v1/triggers/{name}", f"/v1/actions/{name}"):
            assert server.ask("GET", path, token=token).status in (400, 404, 405), path
        for path in ("/v1/occurrences?name=", "/v1/firings?name=", "/v1/classes/Said/history?known_at="):
            assert server.ask("GET", f"{path}{name}", token=token).status in (400, 404, 405, 422), path
        refused = server.ask("POST", "/v1/events", json.dumps({"event": text, "who": "x"}), JSON, token)
        assert refused.status == 422
    assert not (tmp_path / "run").exists()
    assert server.ask("GET", "/ready").status == 200
    assert "a request failed" not in server.told.read_text()

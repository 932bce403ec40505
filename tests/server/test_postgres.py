"""`augury serve --store postgresql://…`: all that a server does, on a real PostgreSQL, killed and started again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from augury.history.values import as_microseconds
from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, NDJSON, Server
from tests.server.conftest import Serve
from tests.server.test_kills import BLOCK_SECONDS, KILLS, kill

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (1d);
RULE Approve (account INT, amount INT) CONDITION amount <= 1000
  ACTION POST Approved(account, amount) ALTERNATIVEACTION escalate(account, amount);
TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered RULESTRUC Approve(account, amount);
"""
TWICE = """
CREATE COMPLEX EVENT CLASS Twice (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Ordered(account, _), Ordered(account, _));
"""


def order(account: int, amount: int) -> str:
    return json.dumps({"event": "Ordered", "account": account, "amount": amount, "event_id": f"{account}-{amount}"})


def rows(server: Server, token: str, name: str, count: int) -> list[dict[str, Any]]:
    """The history of a class, once it has so many versions."""
    over = time.monotonic() + 30
    while True:
        found: list[dict[str, Any]] = server.ask("GET", f"/v1/classes/{name}/history", token=token).json["rows"]
        if len(found) >= count:
            return found
        assert time.monotonic() < over, found
        time.sleep(0.1)


def test_nothing_is_lost_or_doubled_though_it_is_killed(
    tmp_path: Path, serve: Serve, postgres_url: str, record_property: Callable[[str, object], None]
) -> None:
    record_property(KILLS, kill(serve, tmp_path, 77, 6, BLOCK_SECONDS, postgres_url).kills)


def test_posts_firings_and_a_changed_program_are_there_after_a_kill(
    tmp_path: Path, serve: Serve, postgres_url: str
) -> None:
    token = add_token(tmp_path / "tokens", "owner", (Role.ADMIN,))
    server = serve(SHOP, "--tokens", str(tmp_path / "tokens"), store=postgres_url)
    begun = time.time_ns() // 1_000
    lines = "\n".join(order(account, 50) for account in range(3))
    assert server.ask("POST", "/v1/events", lines, NDJSON, token).json == {"accepted": 3, "refused": []}
    acknowledged = time.time_ns() // 1_000
    server.kill()
    server.start()
    answer = server.ask("POST", "/v1/events?wait=read", order(1, 2_000), JSON, token).json
    (fired,) = answer["firings"]
    assert (fired["trigger"], fired["number"], fired["constituents"]) == ("Order", 4, [answer["seq"]])
    there = rows(server, token, "Ordered", 4)
    assert [row["event_id"] for row in there] == ["0-50", "1-50", "2-50", "1-2000"]
    for row in there[:3]:  # it learned of them before it was killed
        assert begun <= as_microseconds(row["det_time"]) <= acknowledged
    assert [row["account"] for row in rows(server, token, "Approved", 3)] == [0, 1, 2]
    changes = server.ask("POST", "/v1/program/apply", SHOP + TWICE, token=token)
    assert changes.status == 200, changes.body
    assert [row["account"] for row in rows(server, token, "Twice", 1)] == [1], "worked out from the history"
    server.kill()
    server.start()
    assert TWICE in server.ask("GET", "/v1/program", token=token).json["text"]
    answer = server.ask("POST", "/v1/events?wait=read", order(2, 60), JSON, token).json
    assert [(one["event"], one["account"]) for one in answer["occurrences"]] == [("Twice", 2)]
    firings = server.ask("GET", "/v1/firings", token=token).json["rows"]
    assert [row["number"] for row in firings][:4] == [1, 2, 3, 4]
    actions = server.ask("GET", "/v1/actions", token=token).json["rows"]
    assert [(row["action"], row["args"]) for row in actions] == [("escalate", [1, 2_000])]
    assert server.end() == 0

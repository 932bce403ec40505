"""Actions carried out in a server's own process: what fails for good is a dead letter, listed and tried again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from augury.server.tokens import Role, add_token
from tests.server.asking import JSON
from tests.server.conftest import Serve

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT) ID () LIFESPAN (1d);
RULE Inform (account INT) ACTION inform(account);
TRIGGER Order (account INT) TRIGGEREVENT Ordered RULESTRUC Inform(account);
BIND inform TO PYTHON 'shop_acts:inform';
"""
CODE = """
import pathlib
import augury

async def inform(account):
    if account > 1 and not pathlib.Path("mended").exists():
        raise augury.GiveUp("nobody has this account")
"""


def test_a_rule_whose_action_fails_leaves_a_dead_letter_that_is_tried_again(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "shop_acts.py").write_text(CODE)
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve(SHOP, "--act")

    def listed(state: str, count: int) -> list[dict[str, Any]]:
        over = time.monotonic() + 30
        while True:
            found: list[dict[str, Any]] = server.ask("GET", f"/v1/actions?state={state}", token=token).json["rows"]
            if len(found) == count:
                return found
            assert time.monotonic() < over, found
            time.sleep(0.05)

    for account in (1, 2):
        event = f'{{"event": "Ordered", "account": {account}}}'
        assert server.ask("POST", "/v1/events?wait=read", event, JSON, token).json["seq"] == account
    (dead,) = listed("dead", 1)
    assert (dead["action"], dead["args"], dead["reason"]) == ("inform", [2], "nobody has this account")
    assert [row["args"] for row in listed("delivered", 1)] == [[1]]
    (tmp_path / "mended").touch()
    answer = server.ask("POST", "/v1/actions/retry", '{"states": ["dead"]}', JSON, token)
    assert answer.json == {"count": 1}
    assert [row["args"] for row in listed("delivered", 2)] == [[1], [2]]
    assert listed("dead", 0) == []

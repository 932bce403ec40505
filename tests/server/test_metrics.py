"""What Prometheus is told of a server that senses, reads and acts: the numbers of docs/operation.md, as they are."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, Server
from tests.server.conftest import Serve

PROGRAM = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Seen (account INT) ID () LIFESPAN (1d);
RULE Inform (account INT) ACTION inform(account);
TRIGGER Order (account INT) TRIGGEREVENT Ordered RULESTRUC Inform(account);
BIND inform TO PYTHON 'metric_acts:inform';
DETECT Seen FROM FILE 'seen.jsonl' EVERY 1s;
"""
CODE = """
import pathlib
import augury

async def inform(account):
    tried = pathlib.Path(f"tried-{account}")
    if account == 2:
        raise augury.GiveUp("nobody has this account")
    if account == 3 and not tried.exists():
        tried.touch()
        raise ConnectionError("not now")
"""

DELIVERIES = 'augury_deliveries_total{{outcome="{}"}}'
UNTAKEN = 'augury_detector_untaken{name="Seen"}'

Numbers = dict[str, float]


def numbers(server: Server, token: str) -> Numbers:
    """What /metrics says."""
    answer = server.ask("GET", "/metrics", token=token)
    assert answer.status == 200, answer.body
    lines = (line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def until(server: Server, token: str, is_so: Callable[[Numbers], bool]) -> Numbers:
    """The numbers, once something is so."""
    over = time.monotonic() + 30
    while not is_so(found := numbers(server, token)):
        assert time.monotonic() < over, found
        time.sleep(0.05)
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let nobody else write to a store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def requests(found: Numbers, route: str, status: int) -> float:
    """How many posts had an answer."""
    return found[f'augury_requests_total{{method="POST",route="{route}",status="{status}"}}']


def test_what_is_to_be_watched_has_its_real_value(tmp_path: Path, serve: Serve) -> None:
    (tmp_path / "metric_acts.py").write_text(CODE)
    (tmp_path / "seen.jsonl").touch()
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve(PROGRAM, "--act", "--sense")

    for account in (1, 2, 3):
        event = json.dumps({"event": "Ordered", "account": account})
        assert server.ask("POST", "/v1/events?wait=read", event, JSON, token).status == 200
    assert server.ask("POST", "/v1/events", '{"event": "Ordered"}', JSON, "nonsense").status == 401
    assert server.ask("POST", "/v1/events", '{"event": "Ordered", "account": "x"}', JSON, token).status == 422
    told = until(server, token, lambda found: found[DELIVERIES.format("delivered")] == 2)
    assert (told[DELIVERIES.format("dead")], told[DELIVERIES.format("again")]) == (1, 1)
    told = until(server, token, lambda found: found["augury_rejected_total"] == 1)
    # Who is not let in is not told which routes there are, and neither are the numbers.
    assert [requests(told, *one) for one in (("/v1/events", 200), ("/v1/events", 422), ("", 401))] == [3, 1, 1]

    assert told[UNTAKEN] == 0
    with locked(tmp_path / "a.db"):
        with (tmp_path / "seen.jsonl").open("a") as file:
            file.write('{"account": 1}\n{"account": 2}\n')
        assert until(server, token, lambda found: found[UNTAKEN] > 0)[UNTAKEN] == 1, "two events of one look"
    until(server, token, lambda found: found[UNTAKEN] == 0 and found["augury_read_total"] == 5)


def test_ticks_that_are_paused_are_told_and_fall_behind(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve()
    going = until(server, token, lambda found: found.get("augury_lag_seconds", 60.0) < 2)
    assert going["augury_paused"] == 0
    assert server.ask("POST", "/v1/engine/pause", token=token).status == 200
    begun, before = time.monotonic(), numbers(server, token)
    assert before["augury_paused"] == 1
    time.sleep(2.5)
    after = numbers(server, token)
    passed = time.monotonic() - begun
    assert 2.5 <= after["augury_lag_seconds"] - before["augury_lag_seconds"] <= passed
    assert after["augury_last_tick_timestamp_seconds"] == before["augury_last_tick_timestamp_seconds"]
    assert server.ask("POST", "/v1/engine/resume", token=token).status == 200
    again = until(server, token, lambda found: found["augury_lag_seconds"] < 2)
    assert again["augury_paused"] == 0

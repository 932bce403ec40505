"""Triggers and rules over HTTP: posts that wait for their answer, firings, switches, functions loaded again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from augury.actions.settings import ActionSettings
from augury.api import compile
from augury.environment import Machine
from augury.local.running import LocalEngine
from augury.server.app import server_app
from augury.server.functions import RuleFunctions
from augury.server.listening import answering
from augury.server.served import Served
from augury.server.tokens import Role, Tokens, add_token
from tests.clocks import Read
from tests.server.asking import JSON, NDJSON, START_US, Here, run
from tests.server.test_feeds import listening

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount NUMERIC(12, 2)) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount NUMERIC(12, 2)) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Twice (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Ordered(account, _), Ordered(account, _));
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Asked () ID () LIFESPAN (1d);
RULE Approve (account INT, amount NUMERIC(12, 2)) CONDITION amount <= 1000
  ACTION POST Approved(account, amount), price(amount) ALTERNATIVEACTION escalate(account);
RULE Count (account INT) ACTION count(account);
RULE GROUP all_of_them (Approve, Count);
TRIGGER Order (account INT, amount NUMERIC(12, 2)) TRIGGEREVENT Ordered
  RULESTRUC Approve(account, amount), Count(account) RETURNS NUMERIC(12, 2) : Approve;
TRIGGER Both (account INT, amount NUMERIC(12, 2))
  TRIGGEREVENT Approved COMPOSITEEVENT Ordered > Approved CONTEXT CHRONICLE
  RULESTRUC Count(account);
TRIGGER Audit () TRIGGEREVENT Asked COMPOSITEEVENT Ordered > Approved CONTEXT CHRONICLE
  RULESTRUC Count(Ordered.account);
BIND price TO PYTHON 'shop_prices:price';
"""
PRICES = "from decimal import Decimal\n\ndef price(amount):\n    return amount * Decimal('{factor}')\n"


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "shop_prices", raising=False)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # two texts within a second would be taken for one
    path = tmp_path / "shop_prices.py"
    path.write_text(PRICES.format(factor="1.1"))
    return path


@asynccontextmanager
async def shop(folder: Path, text: str = SHOP) -> AsyncIterator[Here]:
    """The shop behind an application, with its functions."""
    tokens = folder / "tokens"
    given = {role: add_token(tokens, role.value, (role,)) for role in Role}
    program, now_us = compile(text), [START_US]
    functions = RuleFunctions(program, ActionSettings())
    engine = LocalEngine(program, folder / "a.db", environment=Read(lambda: now_us[0]), functions=functions.by_action())
    served = Served(engine, str(folder / "a.db"), Machine(), functions=functions)
    try:
        yield Here(engine, served, server_app(served, Tokens(tokens)), tokens, given, now_us)
    finally:
        await served.close()
        engine.close()


async def order(there: Here, account: int = 7, amount: Any = 100) -> Any:
    body = json.dumps({"event": "Ordered", "account": account, "amount": amount})
    answer = await there.ask("POST", "/v1/events?wait=read", body, JSON, Role.POST)
    assert answer.status == 200, answer.body
    return answer.json


def test_who_waits_is_told_what_came_of_an_event(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            first = await order(there)
            assert (first["seq"], first["refused"], first["absorbed"]) == (1, None, False)
            assert first["returned"] == {"Order": 110.0}
            assert [(one["trigger"], one["seq"]) for one in first["firings"]] == [("Order", 1), ("Both", 2)]
            assert first["firings"][0]["parameters"] == {"account": 7, "amount": 100.0}
            assert first["occurrences"] == []
            second = await order(there, amount=2_000)
            assert second["returned"] == {"Order": None}
            assert [one["event"] for one in second["occurrences"]] == ["Twice"]
            await there.tick()
            firings = (await there.ask("GET", "/v1/firings", role=Role.READ)).json
            assert [(one["trigger"], one["number"]) for one in firings["rows"]] == [
                ("Order", 1),
                ("Order", 2),
                ("Both", 1),
            ]
            assert firings["rows"][0]["returned"] == 110.0
            some = (await there.ask("GET", "/v1/firings?name=both")).json
            assert [one["trigger"] for one in some["rows"]] == ["Both"]
            actions = (await there.ask("GET", "/v1/actions")).json["rows"]
            assert sorted(one["action"] for one in actions) == ["count", "count", "count", "escalate"]

    run(work())


def test_several_are_waited_for_in_their_order(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            events = [{"event": "Ordered", "account": n, "amount": n} for n in range(3)]
            for body, kind in (
                (json.dumps([*events, {"event": "Ordered", "account": "x"}]), JSON),
                ("\n".join(map(json.dumps, [*events, {"event": "Nothing"}])), NDJSON),
            ):
                answers = (await there.ask("POST", "/v1/events?wait=read", body, kind)).json["answers"]
                assert [one["returned"] for one in answers[:3]] == [{"Order": n * 1.1} for n in (0, 1, 2)]
                assert answers[3]["refused"]
                assert answers[3]["seq"] is None
            answer = await there.ask("POST", "/v1/events?wait=read", '{"event": "Nothing"}', JSON)
            assert (answer.status, "Nothing" in answer.json["detail"]) == (422, True)

    run(work())


def test_a_duplicate_is_absorbed(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            body = json.dumps({"event": "Ordered", "event_id": "1", "account": 7, "amount": 1})
            first, second = [(await there.ask("POST", "/v1/events?wait=read", body, JSON)).json for _ in range(2)]
            assert (first["seq"], first["absorbed"]) == (1, False)
            assert (second["seq"], second["absorbed"], second["firings"]) == (None, True, [])

    run(work())


def test_many_wait_at_once(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            answers = await asyncio.gather(*(order(there, account) for account in range(40)))
            assert sorted(one["seq"] for one in answers) == list(range(1, 80, 2))
            assert all(one["firings"][0]["parameters"]["account"] == n for n, one in enumerate(answers))

    run(work())


def test_triggers_rules_and_groups_are_described_and_switched(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            triggers = (await there.ask("GET", "/v1/triggers", role=Role.READ)).json["triggers"]
            assert [(one["name"], one["enabled"], one["returns"]) for one in triggers] == [
                ("Order", True, "NUMERIC(12,2)"),
                ("Both", True, None),
                ("Audit", True, None),
            ]
            assert (await there.ask("GET", "/v1/rules/approve")).json["groups"] == ["all_of_them"]
            assert (await there.ask("GET", "/v1/groups")).json["groups"][0]["rules"] == ["Approve", "Count"]
            for path in ("triggers/order", "rules/APPROVE", "groups/all_of_them"):
                off = await there.ask("POST", f"/v1/{path}/disable", role=Role.DEFINE)
                assert (off.status, off.json["enabled"]) == (200, False)
                assert (await there.ask("GET", f"/v1/{path}")).json["enabled"] is False
            assert (await order(there))["firings"] == []
            for path in ("triggers/order", "rules/approve", "groups/all_of_them"):
                assert (await there.ask("POST", f"/v1/{path}/enable")).json["enabled"] is True
            assert (await order(there))["returned"] == {"Order": 110.0}
            for path in ("triggers/Ordre", "rules/Aprove", "groups/all"):
                for method, verb in (("GET", ""), ("POST", "/enable")):
                    answer = await there.ask(method, f"/v1/{path}{verb}")
                    assert (answer.status, "did you mean" in answer.json["detail"]) == (404, path != "groups/all")

    run(work())


def test_a_trigger_is_evaluated(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            path = "/v1/triggers/audit/evaluate"
            assert (await there.ask("GET", path, role=Role.READ)).json == {"trigger": "Audit", "occurred": False}
            await order(there)
            assert (await there.ask("GET", path)).json == {"trigger": "Audit", "occurred": True}
            told = (await there.ask("POST", "/v1/events?wait=read", '{"event": "Asked"}', JSON)).json
            assert [one["trigger"] for one in told["firings"]] == ["Audit"]
            assert (await there.ask("GET", path)).json == {"trigger": "Audit", "occurred": False}
            assert (await there.ask("GET", "/v1/triggers/nobody/evaluate")).status == 404

    run(work())


def test_functions_are_loaded_again_and_a_mistake_changes_nothing(tmp_path: Path, prices: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path) as there:
            assert (await order(there))["returned"] == {"Order": 110.0}
            prices.write_text(PRICES.format(factor="2.0"))
            assert (await order(there))["returned"] == {"Order": 110.0}
            answer = await there.ask("POST", "/v1/functions/reload", role=Role.DEFINE)
            assert (answer.status, answer.json) == (200, {"modules": ["shop_prices"]})
            assert (await order(there))["returned"] == {"Order": 200.0}
            for wrong in ("def price(", "raise OSError('no')", "x = 1\ndel price"):
                prices.write_text(wrong)
                answer = await there.ask("POST", "/v1/functions/reload")
                assert (answer.status, "shop_prices" in answer.json["detail"]) == (422, True)
                assert (await order(there))["returned"] == {"Order": 200.0}

    run(work())


def test_firings_are_followed_live_and_none_is_lost_between_two_connections(tmp_path: Path, prices: Path) -> None:
    async def order(there: Here, account: int) -> None:
        await there.post({"event": "Ordered", "account": account, "amount": 10})
        await there.tick()

    async def work() -> None:
        async with shop(tmp_path) as there, answering(there.app, "127.0.0.1", 0) as url:
            token, path = there.given[Role.READ], "/v1/firings/live"
            async with listening(url, token, path) as live:
                assert (await live.next())[0] == "begin"
                await order(there, 1)
                name, first = await live.next()
                last = live.last_id
            assert name == "firing"
            await order(there, 2)
            async with listening(url, token, path, last) as live:
                assert (await live.next())[0] == "begin"
                heard = [first, *[(await live.next())[1] for _ in range(3)]]
            paged = (await there.ask("GET", "/v1/firings?limit=100", role=Role.READ)).json["rows"]
            assert [(row["trigger"], row["number"], row["account"]) for row in heard] == [
                (row["trigger"], row["number"], row["account"]) for row in paged
            ]
            assert {row["trigger"] for row in paged} == {"Order", "Both"}

    run(work())

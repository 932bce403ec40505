"""Rules whose functions fail, over HTTP: whoever waits is told which rule and why, and what comes after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from augury.client.told import Failed, answer_of
from augury.history.raw import RAW_SHOWN_MAX
from augury.server.tokens import Role
from tests.server.asking import JSON, Here, run
from tests.server.test_triggers import shop

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (1d);
RULE Price (account INT, amount INT)
  CONDITION amount > 0
  ACTION noted(account), price(amount), unreached(account)
  ALTERNATIVEACTION noted(account);
RULE Approve (account INT, amount INT, price INT) ACTION POST Approved(account, price), check(amount);
TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered
  RULESTRUC Price(account, amount) > Approve(account, amount, RETURNED(Price))
  {policy}
  RETURNS INT : Price;
BIND price TO PYTHON 'failing_prices:price';
BIND check TO PYTHON 'failing_prices:check';
"""
PRICES = """
def price(amount):
    if amount == 13:
        raise LookupError("nobody sells this")
    if amount == 14:
        raise ValueError("\\ud800 " + "x" * 100_000)
    if amount == 15:
        return object
    return amount * 2


def check(amount):
    if amount == 16 or amount == 13:
        raise RuntimeError
"""


@pytest.fixture(autouse=True)
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "failing_prices", raising=False)
    (tmp_path / "failing_prices.py").write_text(PRICES)


async def fired(there: Here, amount: int) -> Any:
    """The answer to an order, and the one firing of it."""
    body = json.dumps({"event": "Ordered", "account": 7, "amount": amount})
    answer = await there.ask("POST", "/v1/events?wait=read", body, JSON, Role.POST)
    assert answer.status == 200, answer.body
    (one,) = answer.json["firings"]
    assert answer_of(answer.json).firings[0].failed == tuple(Failed(**each) for each in one["failed"])
    return answer.json, one


PRICE_FAILED = {"rule": "Price", "reason": "price failed: LookupError: nobody sells this"}
CHECK_FAILED = {"rule": "Approve", "reason": "check failed: RuntimeError"}


@pytest.mark.parametrize(
    ("policy", "failed", "outcomes", "approved"),
    [
        pytest.param("", [PRICE_FAILED], ["held", "stopped"], [], id="nothing said"),
        pytest.param("ON FAILURE STOP", [PRICE_FAILED], ["held", "stopped"], [], id="stop"),
        pytest.param("ON FAILURE CONTINUE", [PRICE_FAILED, CHECK_FAILED], ["held", "held"], [None], id="continue"),
    ],
)
def test_who_waits_is_told_which_rules_failed_and_why(
    tmp_path: Path,
    policy: str,
    failed: list[Any],
    outcomes: list[str],
    approved: list[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        async with shop(tmp_path, SHOP.replace("{policy}", policy)) as there:
            answer, one = await fired(there, 13)
            assert (answer["returned"], one["returned"], one["failed"]) == ({"Order": None}, None, failed)
            await there.tick()
            rows = (await there.ask("GET", "/v1/firings", role=Role.READ)).json["rows"]
            assert [call["outcome"] for row in rows for call in row["calls"]] == outcomes
            history = (await there.ask("GET", "/v1/classes/Approved/history")).json["rows"]
            assert [row["amount"] for row in history] == approved
            actions = (await there.ask("GET", "/v1/actions")).json["rows"]
            assert [row["action"] for row in actions] == ["noted"], "what was done before it failed stands"
            said = [f"rule `{one['rule']}` of trigger `Order`, firing 1: {one['reason']}" for one in failed]
            assert [record.getMessage() for record in caplog.records if "failed" in record.getMessage()] == said

    run(work())


@pytest.mark.parametrize("amount", [-1, 8])
def test_null_is_told_apart_from_a_failure(tmp_path: Path, amount: int) -> None:
    async def work() -> None:
        async with shop(tmp_path, SHOP.replace("{policy}", "")) as there:
            answer, one = await fired(there, amount)
            assert one["failed"] == []
            # `unreached` and `noted` wait in the outbox and give nothing back, which is NULL without a failure.
            assert answer["returned"] == {"Order": None}

    run(work())


def test_of_a_failure_only_so_much_is_told(tmp_path: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path, SHOP.replace("{policy}", "")) as there:
            _, one = await fired(there, 14)
            ((rule, reason),) = [each.values() for each in one["failed"]]
            assert (rule, reason[:30]) == ("Price", "price failed: ValueError: ? xx")
            assert len(reason) <= len("price failed: ") + RAW_SHOWN_MAX
            _, one = await fired(there, 15)
            why = "price failed: it gave back <class 'object'>, which is no value"
            assert one["failed"] == [{"rule": "Price", "reason": why}]
            _, one = await fired(there, 16)
            assert one["failed"] == [CHECK_FAILED]
            assert one["returned"] is None

    run(work())


def test_the_server_goes_on_and_what_failed_is_kept_with_the_firing(tmp_path: Path) -> None:
    async def work() -> None:
        async with shop(tmp_path, SHOP.replace("{policy}", "ON FAILURE CONTINUE")) as there:
            answers = [await fired(there, amount) for amount in (13, 8, 13)]
            assert [len(one["failed"]) for _, one in answers] == [2, 0, 2]
            await there.tick()
            rows = (await there.ask("GET", "/v1/firings", role=Role.READ)).json["rows"]
            for (_, told), row in zip(answers, rows, strict=True):
                deeds = [(call["rule"], deed) for call in row["calls"] for deed in call["deeds"]]
                assert told["failed"] == [
                    {"rule": rule, "reason": f"{deed['action']} failed: {deed['failure']}"}
                    for rule, deed in deeds
                    if deed.get("failure") is not None
                ]

    run(work())

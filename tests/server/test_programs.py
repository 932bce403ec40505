"""A program changed over HTTP while it runs: as a whole or a statement at a time; and what is not changed that way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from augury.api import check
from augury.server.problems import Problem
from augury.server.statements import Kind, statement_text, with_statement, without_statement
from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, Here, here, run
from tests.server.conftest import Serve

RULE = "RULE Approve (account INT, amount INT) CONDITION amount <= 1000 ACTION POST Approved(account, amount)"
SHOP = f"""
SET CHRONON 1s;
-- what is ordered
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);  -- for a day
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Twice (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Ordered(account, _), Ordered(account, _));
{RULE};
RULE GROUP some (Approve);
TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered RULESTRUC Approve(account, amount);
BIND tell TO LOG;
"""
STRICT = "RULE Approve (account INT, amount INT) CONDITION amount <= 10 ACTION POST Approved(account, amount)"


async def order(there: Here, amount: int) -> list[str]:
    """Which triggers fire at an order."""
    body = json.dumps({"event": "Ordered", "account": 7, "amount": amount})
    answer = await there.ask("POST", "/v1/events?wait=read", body, JSON)
    return [one["trigger"] for one in answer.json["firings"]]


async def approved(there: Here) -> list[int]:
    await there.tick()
    return [row["amount"] for row in (await there.ask("GET", "/v1/classes/Approved/history")).json["rows"]]


def whats(answer: Any) -> dict[str, str]:
    """What becomes of each thing that does not stay as it is."""
    return {one["name"]: one["what"] for one in answer.json["changes"] if one["what"] != "same"}


def test_a_rule_is_replaced_while_it_runs(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            await order(there, 100)
            assert await approved(there) == [100]
            answer = await there.ask("PUT", "/v1/rules/approve?dry_run=true", STRICT, role=Role.DEFINE)
            assert (answer.status, whats(answer)) == (200, {"Approve": "changed"})
            assert "Approve" in answer.json["lines"][0]
            await order(there, 100)
            assert await approved(there) == [100, 100]
            answer = await there.ask("PUT", "/v1/rules/approve", f"{STRICT};\n", role=Role.DEFINE)
            assert (answer.status, whats(answer)) == (200, {"Approve": "changed"})
            await order(there, 100)
            await order(there, 10)
            assert await approved(there) == [100, 100, 10]
            text = (await there.ask("GET", "/v1/program")).json["text"]
            assert text == SHOP.replace(RULE, STRICT)

    run(work())


def test_a_class_is_disabled_and_enabled(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            body = json.dumps({"event": "Ordered", "account": 7, "amount": 1})
            off = await there.ask("POST", "/v1/classes/ordered/disable", role=Role.DEFINE)
            assert (off.status, off.json["enabled"]) == (200, False)
            answer = await there.ask("POST", "/v1/events?wait=read", body, JSON)
            assert (answer.status, answer.json["detail"]) == (422, "`Ordered` is disabled, and takes no events")
            listed = (await there.ask("GET", "/v1/classes")).json["classes"]
            assert [one["name"] for one in listed if not one["enabled"]] == ["Ordered"]
            on = await there.ask("POST", "/v1/classes/Ordered/enable", role=Role.DEFINE)
            assert (on.status, on.json["enabled"]) == (200, True)
            assert await order(there, 100) == ["Order"]
            wrong = await there.ask("POST", "/v1/classes/Twice/disable", role=Role.DEFINE)
            assert (wrong.status, "follows from others" in wrong.json["detail"]) == (409, True)
            assert (await there.ask("POST", "/v1/classes/Nobody/disable", role=Role.DEFINE)).status == 404
            await there.tick()
            rows = (await there.ask("GET", "/v1/classes/Ordered/history")).json["rows"]
            assert [row["amount"] for row in rows] == [100]

    run(work())


def test_things_are_added_and_dropped_one_by_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            new = {
                "classes/Thrice": "CREATE COMPLEX EVENT CLASS Thrice (account INT) ID (account) LIFESPAN (1d) AS MATCH "
                "prior(Ordered(account, _), Ordered(account, _), Ordered(account, _));",
                "rules/Tell": "RULE Tell (account INT) ACTION tell(account);",
                "groups/tellers": "RULE GROUP tellers (Tell);",
                "triggers/Told": "TRIGGER Told (account INT, amount INT) TRIGGEREVENT Approved RULESTRUC Tell(account)",
            }
            for path, statement in new.items():
                answer = await there.ask("PUT", f"/v1/{path}", statement, role=Role.DEFINE)
                assert (answer.status, whats(answer)[path.partition("/")[2]]) == (200, "added"), answer.body
            for _ in range(3):
                assert await order(there, 100) == ["Order", "Told"]
            await there.tick()
            page = (await there.ask("GET", "/v1/occurrences?name=Thrice")).json
            assert [row["account"] for row in page["rows"]] == [7]
            assert len((await there.ask("GET", "/v1/firings?name=Told")).json["rows"]) == 3
            answer = await there.ask("DELETE", "/v1/rules/Tell")
            assert (answer.status, {one["code"][0] for one in answer.json["diagnostics"]}) == (422, {"E"})
            needed = "the rule `Tell` is needed by the group `tellers`, the trigger `Told`: drop or change those first"
            assert answer.json["detail"] == needed
            needed = (
                "the class `approved` is needed by the rule `Approve`, the trigger `Told`: drop or change those first"
            )
            assert (await there.ask("DELETE", "/v1/classes/approved?dry_run=true")).json["detail"] == needed
            for path in reversed(new):
                answer = await there.ask("DELETE", f"/v1/{path}", role=Role.DEFINE)
                assert (answer.status, whats(answer)[path.partition("/")[2]]) == (200, "removed"), answer.body
                assert (await there.ask("GET", f"/v1/{path}")).status == 404
                assert (await there.ask("DELETE", f"/v1/{path}")).status == 404
            assert await order(there, 100) == ["Order"]
            assert check((await there.ask("GET", "/v1/program")).json["text"]).program is not None

    run(work())


TELL = "RULE Tell (account INT) ACTION tell(account);\n"
TELLS = "TRIGGER Tells (account INT, amount INT) TRIGGEREVENT Ordered RULESTRUC Tell(account);\n"
LARGE = "CREATE COMPLEX EVENT CLASS Large (account INT) ID (account) LIFESPAN (1d) AS MATCH Ordered(account, _)"
NOTED = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Noted (account INT) ID () LIFESPAN (1d)"


async def fired(there: Here) -> Any:
    return await order(there, 500)


async def rules_run(there: Here) -> Any:
    """Which rules run at an order."""
    await order(there, 500)
    await there.tick()
    rows = (await there.ask("GET", "/v1/firings?limit=1000")).json["rows"]
    last = max(row["seq"] for row in rows)
    return sorted(
        call["rule"] for row in rows if row["seq"] == last for call in row["calls"] if call["outcome"] != "disabled"
    )


async def found(there: Here) -> Any:
    """Which complex events come about at an order of a new account."""
    there.now_us[0] += 1
    body = json.dumps({"event": "Ordered", "account": there.now_us[0] % 1_000_000, "amount": 500})
    answer = await there.ask("POST", "/v1/events?wait=read", body, JSON)
    return [one["event"] for one in answer.json["occurrences"]]


async def kept(there: Here) -> Any:
    """What an event of the class `Noted` is answered, and which actions it has brought about."""
    answer = await there.ask("POST", "/v1/events?wait=read", '{"event": "Noted", "account": 7}', JSON)
    await there.tick()
    actions = (await there.ask("GET", "/v1/actions?event=Noted")).json["rows"]
    return answer.status, [one["action"] for one in actions]


@pytest.mark.parametrize(
    ("path", "statements", "effect", "effects"),
    [
        pytest.param(
            "triggers/Told",
            (
                "TRIGGER Told (account INT, amount INT) TRIGGEREVENT Approved RULESTRUC Tell(account)",
                "TRIGGER Told (account INT, amount INT) TRIGGEREVENT Ordered OR Approved RULESTRUC Tell(account)",
            ),
            fired,
            (["Order", "Tells"], ["Order", "Tells", "Told"], ["Order", "Tells", "Told", "Told"], ["Order", "Tells"]),
            id="trigger",
        ),
        pytest.param(
            "groups/quiet",
            ("RULE GROUP quiet (Approve)", "RULE GROUP quiet (Tell)"),
            rules_run,
            (["Approve", "Tell"], ["Tell"], ["Approve"], ["Approve", "Tell"]),
            id="group",
        ),
        pytest.param(
            "classes/Large",
            (f"{LARGE}[amount > 1000]", f"{LARGE}[amount > 100]"),
            found,
            ([], [], ["Large"], []),
            id="complex class",
        ),
        pytest.param(
            "classes/Noted",
            (
                NOTED,
                f"{NOTED} ON ANNOUNCEMENT DO tell(NEW.account)",
            ),
            kept,
            ((422, []), (200, []), (200, ["tell"]), (422, ["tell"])),
            id="subscribed class",
        ),
    ],
)
def test_what_is_put_is_added_or_replaced_and_counts_from_the_next_post_on(
    tmp_path: Path, path: str, statements: tuple[str, str], effect: Any, effects: tuple[Any, ...]
) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP + TELL + TELLS) as there:
            name = path.partition("/")[2]
            seen = [await effect(there)]
            await there.tick()  # changes take place between two ticks
            for statement, what in zip(statements, ("added", "changed"), strict=True):
                answer = await there.ask("PUT", f"/v1/{path}", statement, role=Role.DEFINE)
                assert (answer.status, whats(answer).get(name)) == (200, what), answer.body
                if path.startswith("groups"):
                    assert (await there.ask("POST", f"/v1/{path}/disable")).status == 200
                seen.append(await effect(there))
                await there.tick()
            assert statements[1] in (await there.ask("GET", "/v1/program")).json["text"]
            answer = await there.ask("DELETE", f"/v1/{path}", role=Role.DEFINE)
            assert (answer.status, whats(answer).get(name)) == (200, "removed"), answer.body
            seen.append(await effect(there))
            assert tuple(seen) == effects
            assert (await there.ask("GET", "/v1/program")).json["text"].rstrip() == (SHOP + TELL + TELLS).rstrip()

    run(work())


def test_a_program_takes_the_place_of_another_as_a_whole(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            other = SHOP.replace("amount <= 1000", "amount <= 1") + "RULE Other (a INT) ACTION tell(a);\n"
            planned = await there.ask("POST", "/v1/program/plan", other, role=Role.DEFINE)
            assert (planned.status, whats(planned)) == (200, {"Approve": "changed", "Other": "added"})
            assert (await there.ask("GET", "/v1/program")).json["text"] == SHOP
            done = await there.ask("POST", "/v1/program/apply", other, role=Role.DEFINE)
            assert done.json == planned.json
            assert (await there.ask("GET", "/v1/program")).json["text"] == other
            await order(there, 2)
            assert await approved(there) == []

    run(work())


def test_what_cannot_be_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            await order(there, 100)
            await there.tick()
            for text, status in (
                ("CREATE;", 422),
                (SHOP.replace("amount <= 1000", "amuont <= 1000"), 422),
                (SHOP.replace("Ordered (account INT, amount INT)", "Ordered (account STRING, amount INT)"), 422),
            ):
                for verb in ("plan", "apply"):
                    answer = await there.ask("POST", f"/v1/program/{verb}", text)
                    assert answer.status == status, answer.body
                    assert answer.json["diagnostics"]
            keyed = SHOP.replace("ID () LIFESPAN (1d);  -- for a day", "ID (account) LIFESPAN (1d);")
            for verb in ("plan", "apply"):
                answer = await there.ask("POST", f"/v1/program/{verb}", keyed)
                assert (answer.status, bool(answer.json["diagnostics"])) == (409, True), answer.body
            assert (await there.ask("GET", "/v1/program")).json["text"] == SHOP
            assert await order(there, 100) == ["Order"]

    run(work())


@pytest.mark.parametrize(
    "more",
    [
        "BIND order TO PYTHON 'os:system';",
        "BIND order TO COMMAND 'sh';",
        "DETECT Ordered FROM FILE '/etc/passwd';",
    ],
)
def test_what_this_machine_runs_and_reads_is_not_changed_over_http(tmp_path: Path, more: str) -> None:
    async def work() -> None:
        async with here(tmp_path, SHOP) as there:
            for verb in ("plan", "apply"):
                answer = await there.ask("POST", f"/v1/program/{verb}", SHOP + more)
                assert (answer.status, "not changed over HTTP" in answer.json["detail"]) == (409, True), answer.body
            answer = await there.ask("POST", "/v1/program/apply", SHOP.replace("BIND tell TO LOG;", ""))
            assert answer.status == 409

    run(work())


def test_what_was_changed_goes_on_after_a_restart_until_the_file_is_changed(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve(SHOP)

    def fires(event: str, **values: int) -> list[str]:
        answer = server.ask("POST", "/v1/events?wait=read", json.dumps({"event": event, **values}), JSON, token)
        return [one["trigger"] for one in answer.json["firings"]]

    assert fires("Ordered", account=1, amount=2) == ["Order"]
    told = "TRIGGER Told (account INT, amount INT) TRIGGEREVENT Approved RULESTRUC Approve(account, amount);"
    for path, text in (("triggers/Told", told), ("rules/Approve", STRICT)):
        assert server.ask("PUT", f"/v1/{path}", text, token=token).status == 200
    assert server.end() == 0
    server.start()
    assert "was changed over HTTP" in server.told.read_text()
    assert fires("Ordered", account=1, amount=200) == ["Order"]
    assert fires("Approved", account=1, amount=200) == ["Told"]
    now = server.ask("GET", "/v1/program", token=token).json["text"]
    assert now == f"{SHOP.replace(RULE, STRICT).rstrip()}\n\n{told}\n"
    assert server.end() == 0
    (tmp_path / "program.bicepl").write_text(now.replace("amount <= 10", "amount <= 500"))
    server.start()
    assert set(fires("Ordered", account=1, amount=200)) == {"Order", "Told"}  # which approves, and triggers itself


# ---- texts -----------------------------------------------------------------------------------------------------------


def test_everything_else_stays_as_it_was_written() -> None:
    text = with_statement(SHOP, Kind.CLASS, "ordered", "CREATE CLOCK EVENT CLASS Ordered EVERY 5m")
    assert "-- what is ordered\nCREATE CLOCK EVENT CLASS Ordered EVERY 5m;  -- for a day\n" in text
    assert without_statement(SHOP, Kind.GROUP, "SOME") == SHOP.replace("RULE GROUP some (Approve);\n", "")
    assert statement_text(SHOP, Kind.GROUP, "some") == "RULE GROUP some (Approve);"
    added = with_statement(SHOP, Kind.RULE, "R", "RULE R () ACTION tell(1);")
    assert added == f"{SHOP.rstrip()}\n\nRULE R () ACTION tell(1);\n"
    assert without_statement(added, Kind.RULE, "r").rstrip() == SHOP.rstrip()


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "RULE Q () ACTION tell(1)",
        "RULE R () ACTION tell(1); RULE S () ACTION tell(1)",
        "RULE GROUP R (Approve)",
        "RULE R (",
        "-- nothing",
    ],
)
def test_what_is_sent_for_a_rule_is_that_rule(statement: str) -> None:
    with pytest.raises(Problem) as caught:
        with_statement(SHOP, Kind.RULE, "R", statement)
    assert caught.value.status == 422

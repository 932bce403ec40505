"""Programs looked at, actions retried and dropped, and what goes wrong: always a problem document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from augury import limits
from augury.api import check
from augury.diagnostics import to_json
from augury.server.tokens import Role
from tests.server.asking import JSON, SHOP, Here, here, run

WRONG = "CREATE COMPLEX EVENT CLASS B () ID () AS MATCH prior(A, Aa);"


def test_a_program_is_checked_as_the_command_does(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            assert (await there.ask("POST", "/v1/check", SHOP, role=Role.READ)).json == {"ok": True, "diagnostics": []}
            told = (await there.ask("POST", "/v1/check", WRONG)).json
            checked = check(WRONG)
            assert told == {"ok": False, "diagnostics": [to_json(one, checked.source) for one in checked.diagnostics]}

    run(work())


def test_a_program_is_explained(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            whole = (await there.ask("POST", "/v1/explain", SHOP, role=Role.READ)).json["text"]
            assert "class Low (resource STRING, amount NUMERIC(20,10))" in whole
            dot = (await there.ask("POST", "/v1/explain?name=Twice&stage=automaton&form=dot", SHOP)).json["text"]
            assert dot.startswith("digraph")
            answer = await there.ask("POST", "/v1/explain?name=Twize", SHOP)
            assert (answer.status, "did you mean `Twice`" in answer.json["diagnostics"][0]["helps"][0]) == (422, True)
            answer = await there.ask("POST", "/v1/explain", WRONG)
            assert (answer.status, {one["code"] for one in answer.json["diagnostics"]}) == (422, {"E200"})
            assert (await there.ask("POST", "/v1/explain?stage=spark", SHOP)).status == 422
            assert "E203" in (await there.ask("GET", "/v1/codes/e203")).json["text"]
            for code in ("E999", "nonsense"):
                assert (await there.ask("GET", f"/v1/codes/{code}")).status == 404

    run(work())


def test_a_program_that_is_too_long_or_no_text_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            assert (await there.ask("POST", "/v1/check", b" " * (limits.SERVER_PROGRAM_BYTES_MAX + 1))).status == 413
            assert (await there.ask("POST", "/v1/check", b"\xff")).status == 400

    run(work())


def test_what_nobody_expected_is_told_without_its_reason(tmp_path: Path, caplog: Any) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:

            def broken(*_: object) -> Any:
                raise ZeroDivisionError("a secret of the engine")

            there.served.pages.rejected = broken  # type: ignore[method-assign, assignment]
            answer = await there.ask("GET", "/v1/rejected")
            assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
            assert b"secret" not in answer.body
            assert (await there.ask("GET", "/v1/classes")).status == 200

    run(work())
    assert [record.message for record in caplog.records] == ["a request failed"]


# ---- actions ---------------------------------------------------------------------------------------------------------


async def fired(there: Here) -> list[Any]:
    await there.post(*({"event": "Low", "resource": one, "amount": 1} for one in ("milk", "eggs")))
    await there.tick()
    return list((await there.ask("GET", "/v1/actions")).json["rows"])


def test_actions_are_listed_page_by_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            rows = await fired(there)
            assert [(one["action"], one["args"][-1]) for one in rows] == [
                ("order", 1),
                ("tell", "eggs"),
                ("order", 1),
                ("tell", "milk"),
            ]
            found = list[Any]()
            page: Any = {"next": 0}
            while page["next"] is not None:
                page = (await there.ask("GET", f"/v1/actions?limit=3&after={page['next']}", role=Role.READ)).json
                found += page["rows"]
            assert found == rows
            some = (await there.ask("GET", "/v1/actions?state=waiting&state=dead&action=TELL")).json["rows"]
            assert some == [rows[1], rows[3]]
            assert (await there.ask("GET", f"/v1/actions/{rows[0]['key']}")).json == rows[0]
            assert (await there.ask("GET", "/v1/actions/nothing")).status == 404
            assert (await there.ask("GET", "/v1/actions?state=lost")).status == 422

    run(work())


def test_actions_are_dropped_and_tried_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            rows = await fired(there)

            async def change(verb: str, **wanted: Any) -> Any:
                return await there.ask("POST", f"/v1/actions/{verb}", json.dumps(wanted), JSON)

            assert (await change("drop", action="tell")).json == {"count": 2}
            assert (await change("retry", keys=[rows[1]["key"]])).json == {"count": 1}
            states = [one["state"] for one in (await there.ask("GET", "/v1/actions")).json["rows"]]
            assert states == ["waiting", "waiting", "waiting", "dropped"]
            assert (await change("drop", all=True)).json == {"count": 3}
            for wanted in ({}, {"states": ["lost"]}, {"key": "x"}, {"keys": "x"}):
                assert (await change("retry", **wanted)).status == 422
            assert (await change("bury", all=True)).status == 422
            assert (await there.ask("POST", "/v1/actions/retry", "{", JSON)).status == 422

    run(work())


def test_what_does_not_run_here_cannot_be_paused(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            for path in ("/v1/delivery/pause", "/v1/detectors/Low/pause"):
                answer = await there.ask("POST", path)
                assert (answer.status, "no" in answer.json["detail"]) == (404, True)
            assert (await there.ask("GET", "/v1/detectors")).json == {"detectors": {}}

    run(work())


# ---- operation -------------------------------------------------------------------------------------------------------


def test_the_engine_tells_how_it_is_and_is_paused(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            await there.post({"event": "Low", "resource": "milk", "amount": 1})
            await there.tick()
            told = (await there.ask("GET", "/v1/engine", role=Role.READ)).json
            assert (told["tick"], told["paused"], told["reports"]) == ("2026-01-01T09:00:01Z", False, [])
            assert (await there.ask("POST", "/v1/engine/pause")).json["paused"] is True
            assert (await there.ask("POST", "/v1/engine/stop")).status == 422

    run(work())


def test_prometheus_is_told_what_ticks_and_requests_did(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            for resource in ("milk", "eggs"):
                await there.post({"event": "Low", "resource": resource, "amount": 1})
                await there.tick()
                text = (await there.ask("GET", "/metrics", role=Role.READ)).body.decode()
            numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            assert (numbers["augury_read_total"], numbers["augury_actions_total"]) == ("2.0", "4.0")
            assert (numbers["augury_ticks_total"], numbers["augury_last_seq"]) == ("2.0", "2.0")
            posted = 'method="POST",route="/v1/events"'
            assert numbers[f'augury_requests_total{{{posted},status="200"}}'] == "2.0"
            assert numbers[f"augury_request_seconds_count{{{posted}}}"] == "2.0"

    run(work())

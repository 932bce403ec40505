"""Classes and histories over HTTP: pages, times, and the forms rows come in."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from augury.server import classes
from augury.server.tokens import Role
from tests.server.asking import SHOP, Here, here, run

EXACT = "1234567890.0123456789"


async def filled(there: Here) -> None:
    """Milk is low, then eggs, then milk again, a second apart; and something with an odd name."""
    for event in (
        {"event": "Low", "resource": "milk", "amount": 1},
        {"event": "Low", "resource": "eggs", "amount": 2},
        {"event": "Low", "resource": "milk", "amount": 3},
        {"event": "Low", "resource": 'a "b"\n\u2028c', "amount": float(EXACT)},
    ):
        await there.post(event)
        await there.tick()


def test_classes_are_described(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            listed = (await there.ask("GET", "/v1/classes")).json["classes"]
            assert [one["name"] for one in listed] == ["Low", "Paid", "Twice", "Settled"]
            one = (await there.ask("GET", "/v1/classes/low")).json
            assert one == listed[0]
            assert (one["kind"], one["mutable"], one["key"], one["lifespan"]) == (
                "subscribed",
                True,
                ["resource"],
                "5d",
            )
            assert one["attributes"][1] == {"name": "amount", "type": "NUMERIC(20,10)"}
            answer = await there.ask("GET", "/v1/classes/Lou")
            assert (answer.status, "did you mean `Low`" in answer.json["detail"]) == (404, True)
            assert answer.json["known"] == ["Low", "Paid", "Twice", "Settled"]

    run(work())


def test_a_history_comes_page_by_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            await filled(there)
            found = list[Any]()
            page: Any = {"next": 0}
            while page["next"] is not None:
                where = f"/v1/classes/Low/history?limit=2&after={page['next']}"
                page = (await there.ask("GET", where, role=Role.READ)).json
                assert len(page["rows"]) <= 2
                found += page["rows"]
            assert [row["number"] for row in found] == [1, 2, 3, 4]
            assert [row["change"] for row in found] == ["announce", "announce", "change", "announce"]
            assert found[0]["event"] == "Low"
            assert found[0]["det_time"].endswith("Z")
            assert found[3]["resource"] == 'a "b"\n\u2028c'

    run(work())


def test_digits_are_kept(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            line = f'{{"event": "Low", "resource": "milk", "amount": {EXACT}}}'
            await there.ask("POST", "/v1/events", line, {"content-type": "application/json"})
            await there.tick()
            assert f'"amount": {EXACT}'.encode() in (await there.ask("GET", "/v1/classes/Low/history")).body

    run(work())


def test_what_was_known_when(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            await filled(there)

            async def amounts(query: str) -> dict[str, float]:
                rows = (await there.ask("GET", f"/v1/classes/Low/history?{query}")).json["rows"]
                return {row["resource"][:4]: row["amount"] for row in rows}

            assert await amounts("known_at=2026-01-01T09:00:00Z") == {"milk": 1}
            assert await amounts("known_at=2026-01-01T09:00:01Z") == {"milk": 1, "eggs": 2}
            assert await amounts("known_at=2026-01-01T09:00:02Z") == {"milk": 3, "eggs": 2}
            assert await amounts("as_of=2026-01-01T09:00:01Z&known_at=2026-01-01T09:00:02Z") == {"eggs": 2}
            assert list(await amounts("known_at=now&limit=1")) == ["eggs"]
            diff = "diff_from=2026-01-01T09:00:01Z&diff_to=2026-01-01T09:00:02Z"
            (row,) = (await there.ask("GET", f"/v1/classes/Low/history?{diff}")).json["rows"]
            assert (row["change"], row["resource"], row["old_amount"], row["new_amount"]) == ("change", "milk", 1, 3)

    run(work())


@pytest.mark.parametrize(
    "query",
    [
        "known_at=yesterday",
        "as_of=",
        "diff_from=now",
        "diff_from=now&diff_to=2020-01-01",
        "diff_from=now&diff_to=now&as_of=now",
        "limit=0",
        "limit=10001",
        "after=-1",
        "after=x",
        "format=xml",
    ],
)
def test_a_question_that_makes_no_sense_is_refused(tmp_path: Path, query: str) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            answer = await there.ask("GET", f"/v1/classes/Low/history?{query}")
            assert (answer.status, answer.json["status"]) == (422, 422), answer.body

    run(work())


def test_a_history_comes_as_lines_csv_and_arrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_ROWS_AT_ONCE", 2)

    async def work() -> None:
        async with here(tmp_path) as there:
            await filled(there)
            rows = (await there.ask("GET", "/v1/classes/Low/history")).json["rows"]
            for query, accept in (
                ("?format=ndjson", ""),
                ("", "application/x-ndjson"),
                ("", "text/html, application/x-ndjson;q=1"),
            ):
                answer = await there.ask("GET", f"/v1/classes/Low/history{query}", headers={"accept": accept})
                assert answer.headers["content-type"] == "application/x-ndjson"
                assert answer.lines == rows
            answer = await there.ask("GET", "/v1/classes/Low/history", headers={"accept": "text/csv"})
            table = list(csv.DictReader(io.StringIO(answer.body.decode())))
            assert [row["resource"] for row in table] == [row["resource"] for row in rows]
            answer = await there.ask("GET", "/v1/classes/Low/history?format=arrow")
            assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
            found = pa.ipc.open_stream(answer.body).read_all()
            assert found.column("number").to_pylist() == [1, 2, 3, 4]
            assert found.equals(there.engine.history("Low"))
            answer = await there.ask("GET", "/v1/classes/Paid/history?format=arrow")
            assert pa.ipc.open_stream(answer.body).read_all().num_rows == 0

    run(work())


def test_what_is_no_longer_retained_is_not_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, f"SET HISTORY RETAIN 2s;\n{SHOP}") as there:
            await filled(there)
            rows = (await there.ask("GET", "/v1/classes/Low/history")).json["rows"]
            assert [row["number"] for row in rows] == there.engine.history("Low").column("number").to_pylist()
            assert rows[0]["number"] > 1

    run(work())

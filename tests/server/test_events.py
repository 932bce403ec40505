"""Events over HTTP: one, several, a stream of lines; what is refused, what is too much, what a store cannot keep."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from augury import limits
from augury.detectors.http_sink import HttpSink
from augury.detectors.sinks import NotTaken
from augury.environment import real
from augury.local.store.errors import StoreFailed, StoreFull
from augury.server.listening import answering
from augury.server.tokens import Role
from tests.server.asking import JSON, NDJSON, Here, ask, here, run

MILK = {"event": "Low", "resource": "milk", "amount": 1.5, "occ_time": "2026-01-01"}


async def resources(there: Here, name: str = "Low") -> list[str]:
    """What the history of a class has after the next tick."""
    await there.tick()
    return [row["resource"] for row in (await there.ask("GET", f"/v1/classes/{name}/history")).json["rows"]]


def test_one_event_is_durable_when_the_answer_comes(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            answer = await there.ask("POST", "/v1/events", json.dumps(MILK, indent=1), JSON, Role.POST)
            assert (answer.status, answer.json) == (200, {"accepted": 1, "refused": []})
            assert len(there.engine._store.waiting()) == 1
            assert await resources(there) == ["milk"]

    run(work())


def test_one_event_that_is_refused_is_a_problem_and_among_the_rejected(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            answer = await there.ask("POST", "/v1/events", json.dumps({**MILK, "amount": "x"}), JSON)
            assert answer.status == 422
            assert answer.headers["content-type"] == "application/problem+json"
            assert "amount" in answer.json["detail"]
            await there.tick()
            rows = (await there.ask("GET", "/v1/rejected")).json["rows"]
            assert [row["reason"] for row in rows] == [answer.json["detail"]]

    run(work())


def test_a_list_and_lines_are_refused_one_by_one(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            eggs = {**MILK, "resource": "eggs"}
            told = (await there.ask("POST", "/v1/events", json.dumps([MILK, 7, eggs]), JSON)).json
            assert (told["accepted"], [one["line"] for one in told["refused"]]) == (2, [2])
            beer = json.dumps({**MILK, "resource": "beer"})
            lines = f"{beer}\n\nnonsense\r\n{json.dumps({**MILK, 'amount': 'x'})}"
            told = (await there.ask("POST", "/v1/events", lines, NDJSON)).json
            assert (told["accepted"], [one["line"] for one in told["refused"]]) == (1, [2, 3])
            assert "JSON" in told["refused"][0]["reason"]
            assert await resources(there) == ["milk", "eggs", "beer"]

    run(work())


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"[1", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{" * 100_000, "application/json", 422),
        (b"\xff", "application/json", 400),
        (b"\xff\n", "application/x-ndjson", 400),
        (b"", "application/json", 422),
        (b"null", "application/json", 422),
        (b"{}", "text/plain", 415),
        (b"{}", "application/x-www-form-urlencoded", 415),
        (b"", "application/x-ndjson", 200),
        (b"[]", "application/json", 200),
    ],
)
def test_what_is_no_event_is_refused(tmp_path: Path, body: bytes, kind: str, status: int) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            answer = await there.ask("POST", "/v1/events", body, {"content-type": kind})
            assert answer.status == status, answer.body
            assert (await there.post(MILK)).json["accepted"] == 1

    run(work())


def test_an_event_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            deep = "[" * (limits.JSON_DEPTH_MAX + 1) + "]" * (limits.JSON_DEPTH_MAX + 1)
            answer = await there.ask("POST", "/v1/events", f'{{"event": "Low", "resource": {deep}}}', JSON)
            assert (answer.status, answer.json["detail"]) == (422, "it is nested too deeply")

    run(work())


def test_wait_is_one_of_two_words(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            for query in ("wait=long", "wait=", "weight=read"):
                assert (await there.ask("POST", f"/v1/events?{query}", json.dumps(MILK), JSON)).status == 422
            assert (await there.ask("POST", "/v1/events?wait=durable", json.dumps(MILK), JSON)).status == 200

    run(work())


def test_a_stream_of_lines_is_kept_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_LINES_AT_ONCE", 10)

    async def work() -> None:
        async with here(tmp_path) as there:
            events = [{"event": "Low", "resource": f"r{n}", "amount": n} for n in range(55)]
            told = (await there.post(*events, {"event": "Nobody"})).json
            assert (told["accepted"], [one["line"] for one in told["refused"]]) == (55, [56])
            assert await resources(there) == [f"r{n}" for n in range(55)]

    run(work())


def counted(line: bytes) -> tuple[Any, list[int]]:
    """A body of lines without an end, and how many of them were asked for."""
    asked = [0]

    async def receive() -> Any:
        asked[0] += 1
        return {"type": "http.request", "body": line + b"\n", "more_body": True}

    return receive, asked


@pytest.mark.parametrize(
    ("name", "most", "line", "parts"),
    [
        ("SERVER_WAITED_EVENTS_MAX", 10, json.dumps(MILK).encode(), 11),
        ("SERVER_BODY_BYTES_MAX", 1_000, b'{"event": "Low", "resource": "' + b"x" * 300 + b'", "amount": 1}', 3),
    ],
)
def test_lines_that_are_waited_for_are_refused_when_the_limit_is_passed_and_not_at_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int, line: bytes, parts: int
) -> None:
    monkeypatch.setattr(limits, name, most)

    async def work() -> None:
        async with here(tmp_path) as there:
            receive, asked = counted(line)
            answer = await ask(
                there.app, "POST", "/v1/events?wait=read", headers=NDJSON, token=there.given[Role.POST], parts=receive
            )
            assert (answer.status, asked[0], answer.headers["connection"]) == (413, parts, "close")
            assert f"{most:,}" in answer.json["detail"]
            assert len(there.engine._store.waiting()) == 0, "nothing of it is posted"

    run(work())


def test_a_list_that_is_waited_for_has_as_many_events_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_WAITED_EVENTS_MAX", 2)

    async def work() -> None:
        async with here(tmp_path) as there:
            answer = await there.ask("POST", "/v1/events?wait=read", json.dumps([MILK] * 3), JSON)
            assert (answer.status, answer.json["detail"]) == (413, "at most 2 events are waited for at once")
            assert len(there.engine._store.waiting()) == 0

    run(work())


def test_posts_of_many_requests_are_written_together(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            written: list[int] = []
            append = there.engine._store.append

            def counted(posts: Any) -> list[int]:
                written.append(len(posts))
                return append(posts)

            there.engine._store.append = counted  # type: ignore[method-assign]
            bodies = [json.dumps({**MILK, "resource": f"r{n}"}) for n in range(100)]
            answers = await asyncio.gather(*(there.ask("POST", "/v1/events", body, JSON) for body in bodies))
            assert {answer.status for answer in answers} == {200}
            assert (sum(written), len(written) < 10) == (100, True)
            assert sorted(await resources(there)) == sorted(f"r{n}" for n in range(100))

    run(work())


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr(limits, "SERVER_STREAM_BYTES_MAX", 2_000)
    monkeypatch.setattr(limits, "INFER_LINE_BYTES_MAX", 1_500)

    async def work() -> None:
        async with here(tmp_path) as there:
            for size, kind, status in (
                (1_001, JSON, 413),
                (1_001, NDJSON, 200),
                (1_600, NDJSON, 413),
                (2_001, NDJSON, 413),
            ):
                answer = await there.ask("POST", "/v1/events", b"x" * size, kind)
                assert answer.status == status, (size, kind, answer.body)
            large = {"content-length": "1000001"}
            assert (await there.ask("POST", "/v1/check", b"", large)).status == 413
            assert (await there.ask("POST", "/v1/check", b"x" * 1_001)).status in (400, 413)
            assert (await there.ask("POST", "/v1/check", b"", {"content-length": "-1"})).status == 413

    run(work())


def test_who_asks_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, requests_a_second=5) as there:
            now = [100.0]  # time stands still: however slow the machine is, all are asked at once
            there.app._rates._clock = lambda: now[0]
            answers = [await there.ask("GET", "/v1/classes", role=Role.READ) for _ in range(7)]
            assert [answer.status for answer in answers] == [200] * 5 + [429] * 2
            assert int(answers[-1].headers["retry-after"]) >= 1
            assert (await there.ask("GET", "/v1/classes", role=Role.ADMIN)).status == 200
            now[0] += 0.2
            assert (await there.ask("GET", "/v1/classes", role=Role.READ)).status == 200
            assert (await there.ask("GET", "/v1/classes", role=Role.READ)).status == 429
            assert (await ask(there.app, "GET", "/health")).status == 200

    run(work())


# ---- what a store cannot keep ----------------------------------------------------------------------------------------


def failing_store(there: Here, error: Exception) -> list[Exception]:
    """Let the store of an engine fail as long as the list holds something."""
    append, errors = there.engine._store.append, [error]

    def failing(posts: Any) -> list[int]:
        if errors:
            raise errors[0]
        return append(posts)

    there.engine._store.append = failing  # type: ignore[method-assign]
    return errors


@pytest.mark.parametrize(("error", "status"), [(StoreFull("the disk is full"), 507), (StoreFailed("locked"), 503)])
def test_what_cannot_be_kept_is_not_acknowledged_and_does_not_come_later(
    tmp_path: Path, error: Exception, status: int
) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            errors = failing_store(there, error)
            for body, kind in ((json.dumps(MILK), JSON), (json.dumps([MILK, MILK]), JSON), (json.dumps(MILK), NDJSON)):
                answer = await there.ask("POST", "/v1/events", body, kind)
                assert answer.status == status
                assert answer.json["detail"] == str(error)
                assert answer.headers["retry-after"] == "1"
            assert answer.json["accepted"] == 0
            errors.clear()
            assert (await there.post({**MILK, "resource": "eggs"})).status == 200
            assert await resources(there) == ["eggs"]

    run(work())


def test_detectors_offer_again_what_a_server_cannot_keep(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there, answering(there.app, "127.0.0.1", 0) as url, real() as environment:
            errors = failing_store(there, StoreFull("no space left on device"))
            sink = HttpSink(url, environment, there.given[Role.POST])
            line = json.dumps({**MILK, "event_id": "1"})
            with pytest.raises(NotTaken, match=r"507.*no space left"):
                await sink.take([line])
            errors.clear()
            await sink.take([line])
            await sink.take([line])
            with pytest.raises(NotTaken, match="401"):
                await HttpSink(url, environment).take([line])
            assert await resources(there) == ["milk"]

    run(work())

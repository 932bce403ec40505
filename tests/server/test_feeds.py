"""What was found, page by page and live: in the order of ticks, nothing lost and nothing twice, whoever is cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from augury import limits
from augury.server.listening import answering
from augury.server.tokens import Role
from tests.server.asking import Here, here, run


async def happen(there: Here, *resources: str) -> None:
    """Let each be low twice, and paid: three versions of complex classes, at one tick."""
    for resource in resources:
        low = {"event": "Low", "resource": resource, "amount": 1}
        await there.post(low, {**low, "amount": 2}, {"event": "Paid", "resource": resource, "price": 1.5})
    await there.tick()


def told(rows: list[Any]) -> list[tuple[str, str]]:
    return [(row["event"], row["resource"]) for row in rows]


ONE_AND_TWO = [("Twice", "a"), ("Settled", "a"), ("Twice", "b"), ("Twice", "c"), ("Settled", "b"), ("Settled", "c")]


@pytest.mark.parametrize("limit", [1, 2, 4, 100])
def test_pages_of_any_length_are_the_same(tmp_path: Path, limit: int) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            await happen(there, "a")
            await happen(there, "b", "c")
            found, more, after = [], True, ""
            while more:
                page = (await there.ask("GET", f"/v1/occurrences?limit={limit}{after}", role=Role.READ)).json
                found += page["rows"]
                more, after = page["more"], f"&after={page['cursor']}"
            assert told(found) == ONE_AND_TWO
            assert (await there.ask("GET", f"/v1/occurrences?limit={limit}{after}")).json["rows"] == []
            await happen(there, "d")
            page = (await there.ask("GET", f"/v1/occurrences?limit=9{after}")).json
            assert told(page["rows"]) == [("Twice", "d"), ("Settled", "d")]

    run(work())


def test_some_classes_are_asked_for_by_name(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            await happen(there, "a")
            page = (await there.ask("GET", "/v1/occurrences?name=settled")).json
            assert told(page["rows"]) == [("Settled", "a")]
            for name in ("Low", "Nobody"):
                assert (await there.ask("GET", f"/v1/occurrences?name={name}")).status == 404

    run(work())


@pytest.mark.parametrize("cursor", ["x", "e30x", "W10", "eyJ0d2ljZSI6LTF9", "eyJ0d2ljZSI6IngifQ", "=", "%00", "bnVsbA"])
def test_what_is_no_cursor_is_refused(tmp_path: Path, cursor: str) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            assert (await there.ask("GET", f"/v1/occurrences?after={cursor}")).status == 422
            assert (await there.ask("GET", f"/v1/occurrences/live?after={cursor}")).status == 422
            assert (await there.ask("GET", "/v1/occurrences/live", headers={"last-event-id": cursor})).status == 422

    run(work())


# ---- live ------------------------------------------------------------------------------------------------------------


class Listener:
    """A client of server-sent events, as simple as one can be."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.last_id = ""

    async def next(self) -> tuple[str, Any]:
        """The next event: its name and data; blocks without data are passed over."""
        found: dict[str, str] = {}
        while True:
            line = (await self._reader.readuntil(b"\n")).decode().rstrip("\r\n")
            name, colon, value = line.partition(": ")
            if name in ("event", "id", "data") and colon:
                found[name] = value
            if not line and "data" in found:
                self.last_id = found["id"]
                return found["event"], json.loads(found["data"])


@asynccontextmanager
async def listening(url: str, token: str, path: str, last_id: str = "") -> AsyncIterator[Listener]:
    """A live connection, until it is broken off."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    again = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n{again}\r\n".encode()
    )
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    assert "text/event-stream" in head, head
    try:
        yield Listener(reader)
    finally:
        writer.close()


def test_who_listens_hears_what_happens_and_nothing_is_lost_between_two_connections(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there, answering(there.app, "127.0.0.1", 0) as url:
            token, path = there.given[Role.READ], "/v1/occurrences/live"
            await happen(there, "before")
            found: list[tuple[str, str]] = []
            async with listening(url, token, path) as live:
                assert (await live.next())[0] == "begin"
                await happen(there, "a")
                for _ in range(2):
                    name, row = await live.next()
                    assert name == "occurrence"
                    found.append((row["event"], row["resource"]))
                await happen(there, "b", "c")
                name, row = await live.next()
                found.append((row["event"], row["resource"]))
                last = live.last_id
            await happen(there, "d")
            async with listening(url, token, path, last) as live:
                assert (await live.next())[0] == "begin"
                for _ in range(5):
                    _, row = await live.next()
                    found.append((row["event"], row["resource"]))
            assert found == [*ONE_AND_TWO, ("Twice", "d"), ("Settled", "d")]
            page = (await there.ask("GET", f"/v1/occurrences?after={last}")).json
            assert told(page["rows"]) == found[3:]

    run(work())


def test_who_is_cut_off_before_anything_happens_misses_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there, answering(there.app, "127.0.0.1", 0) as url:
            token, path = there.given[Role.READ], "/v1/occurrences/live?name=Twice"
            async with listening(url, token, path) as live:
                await live.next()
                last = live.last_id
            await happen(there, "a")
            async with listening(url, token, path, last) as live:
                await live.next()
                assert (await live.next())[1]["resource"] == "a"

    run(work())


def test_who_listens_in_silence_hears_that_the_server_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_HEARTBEAT_SECONDS", 0.05)

    async def work() -> None:
        async with (
            here(tmp_path) as there,
            answering(there.app, "127.0.0.1", 0) as url,
            listening(url, there.given[Role.READ], "/v1/occurrences/live") as live,
        ):
            await live.next()
            assert b": still here" in await live._reader.readuntil(b"still here")

    run(work())


def test_only_so_many_listen_and_places_become_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SERVER_LIVE_CLIENTS_MAX", 2)

    async def work() -> None:
        async with here(tmp_path) as there, answering(there.app, "127.0.0.1", 0) as url:
            token, path = there.given[Role.READ], "/v1/occurrences/live"
            async with listening(url, token, path) as one, listening(url, token, path) as two:
                await one.next()
                await two.next()
                answer = await there.ask("GET", path)
                assert (answer.status, answer.headers["retry-after"]) == (503, "10")
            while there.served.live_clients:
                there.served.tell()
                await asyncio.sleep(0.01)
            async with listening(url, token, path) as one:
                await one.next()

    run(work())


def test_who_listens_does_not_keep_a_server_from_ending(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            path = "/v1/occurrences/live"
            async with (
                answering(there.app, "127.0.0.1", 0) as url,
                listening(url, there.given[Role.READ], path) as live,
            ):
                await live.next()
                there.served.over.set()
                await live._reader.readuntil(b"0\r\n\r\n")  # the last chunk
            assert there.served.live_clients == 0

    run(work())

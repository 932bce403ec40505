"""Servers as processes: started again, asked to end, without room, beyond this machine, and with secrets everywhere."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
from typer.testing import CliRunner

from augury.api import compile
from augury.cli_server import register
from augury.local.running import LocalEngine
from augury.local.store.asking import Question, ask
from augury.server.tokens import Role, add_token
from tests.server.asking import JSON, NDJSON, SHOP, Here, Server, here, run
from tests.server.asking import ask as ask_app
from tests.server.conftest import Serve


def paid(store: Path) -> Counter[str]:
    """How often each is in the history of what was paid."""
    return Counter(ask(str(store), Question("Paid")).table.column("resource").to_pylist())


# ---- started again ---------------------------------------------------------------------------------------------------


def test_a_server_with_a_long_history_is_ready_soon(tmp_path: Path, serve: Serve) -> None:
    with LocalEngine(compile(SHOP), tmp_path / "a.db", snapshot_versions_min=30_000) as engine:
        for part in range(1, 6):
            at = f"2026-01-01T09:00:{part:02}Z"
            engine.post_all(
                {"event": "Paid", "resource": f"r{n}", "price": n, "occ_time": at, "det_time": at}
                for n in range(part * 10_000)
            )
            engine.advance_to(f"2026-01-01T09:00:{part + 1:02}Z")
    server = serve()
    assert server.cpu_seconds() < 5.0
    assert "pandas" not in Path(f"/proc/{server.process.pid}/maps").read_text(), "a quarter of what a start takes"
    assert server.ask("GET", "/v1/classes/Paid/history?after=149999").json["rows"][0]["number"] == 150_000


# ---- asked to end ----------------------------------------------------------------------------------------------------


def test_what_is_under_way_is_finished_when_it_is_asked_to_end(tmp_path: Path, serve: Serve) -> None:
    server = serve()
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as slow:
        who = f"Host: {parts.netloc}\r\nAuthorization: Bearer {server.token}\r\n"
        head = f"POST /v1/events HTTP/1.1\r\n{who}Content-Type: application/x-ndjson\r\n"
        slow.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())

        def send(text: str) -> None:
            slow.sendall(f"{len(text):x}\r\n{text}\r\n".encode())

        send(json.dumps({"event": "Paid", "resource": "first", "price": 1}) + "\n")
        with socket.create_connection((parts.hostname or "", parts.port or 0)) as live:
            live.sendall(f"GET /v1/occurrences/live HTTP/1.1\r\n{who}\r\n".encode())
            assert b"event: begin" in _until(live, b"begin")
            time.sleep(0.2)
            server.process.terminate()
            with contextlib.suppress(ConnectionError):
                while live.recv(1_000):
                    pass
        _until_refused(parts.port or 0)
        send(json.dumps({"event": "Paid", "resource": "second", "price": 1}) + "\n")
        send("")
        assert b'{"accepted": 2, "refused": []}' in _until(slow, b'refused": []}')
    assert server.process.wait(20) == 0
    server.start()
    server.end()
    with LocalEngine(compile(SHOP), tmp_path / "a.db") as engine:
        engine.advance_to("2100-01-01T00:00:00Z")
    assert paid(tmp_path / "a.db") == Counter(["first", "second"])


def _until(connection: socket.socket, sign: bytes) -> bytes:
    connection.settimeout(20)
    found = b""
    while sign not in found:
        part = connection.recv(10_000)
        assert part, found
        found += part
    return found


def _until_refused(port: int) -> None:
    over = time.monotonic() + 20
    while time.monotonic() < over:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("it still listens")


# ---- without room ----------------------------------------------------------------------------------------------------


def let_grow(there: Here, pages: int | None) -> None:
    """Let the database of an engine have so many pages more than it has, or as many as it likes: SQLite says FULL."""
    store: Any = there.engine._store
    with store.writer.begin() as connection:
        now = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {1_000_000_000 if pages is None else now + pages}")


def test_without_room_nothing_is_acknowledged_and_it_goes_on_by_itself(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:

            async def post(number: int, wait: str = "durable") -> int:
                about = {"resource": f"r{number}", "price": 1.5, "event_id": "x" * 2_000 + str(number)}
                event = {"event": "Paid", **about}
                return (await there.ask("POST", f"/v1/events?wait={wait}", json.dumps(event), JSON)).status

            await there.tick()
            let_grow(there, 8)
            statuses = [await post(n) for n in range(30)]
            assert statuses[0] == 200
            assert set(statuses) == {200, 507}
            assert statuses == sorted(statuses)
            assert await post(1_000, "read") == 507
            ready = await ask_app(there.app, "GET", "/ready")
            assert (ready.status, ready.json) == (503, {"ready": False, "reason": "the store cannot be written"})
            assert (await there.ask("GET", "/v1/classes/Paid/history")).status == 200
            let_grow(there, None)
            assert await post(2_000) == 200
            assert (await ask_app(there.app, "GET", "/ready")).status == 200
            await there.tick()
            rows = (await there.ask("GET", "/v1/classes/Paid/history")).json["rows"]
            assert [row["resource"] for row in rows] == [*(f"r{n}" for n in range(statuses.count(200))), "r2000"]

    run(work())


# ---- who may ask ---------------------------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_without_tokens_it_listens_on_this_machine_only(tmp_path: Path, host: str) -> None:
    (tmp_path / "a.bicepl").write_text(SHOP)
    words = ("serve", str(tmp_path / "a.bicepl"), "--store", str(tmp_path / "a.db"), "--port", "0", "--host", host)
    code, said = command(*words)
    assert (code, "without tokens" in said) == (2, True)
    assert not (tmp_path / "a.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tokens", "nowhere"), "cannot be read"),
        (("--host", "no.such.host.invalid"), "no address"),
        (("--rate", "0"), "0"),
    ],
)
def test_serve_says_what_is_wrong(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    (tmp_path / "a.bicepl").write_text(SHOP)
    found = command("serve", str(tmp_path / "a.bicepl"), "--store", str(tmp_path / "a.db"), "--port", "0", *words)
    assert (found[0], said in found[1]) == (2, True), found


def test_with_tokens_it_listens_anywhere_and_a_revoked_one_counts_no_more(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "reader", (Role.READ,))
    server = serve(SHOP, "--host", "0.0.0.0")
    assert server.ask("GET", "/v1/classes").status == 401
    assert server.ask("GET", "/v1/classes", token=token).status == 200
    assert server.ask("POST", "/v1/events", "{}", JSON, token).status == 403
    assert command("token", "revoke", "reader", "--store", str(tmp_path / "a.db"))[0] == 0
    assert server.ask("GET", "/v1/classes", token=token).status == 401
    assert server.ask("GET", "/health").status == 200


def test_where_it_is_open_who_is_here_posts_and_reads_and_no_page_does(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, is_open=True) as there:
            event = json.dumps({"event": "Paid", "resource": "a", "price": 1}).encode()

            async def status(method: str, path: str, **headers: str) -> int:
                return (await ask_app(there.app, method, path, event, {**JSON, **headers})).status

            assert await status("POST", "/v1/events") == 200
            assert await status("GET", "/v1/classes", host="localhost:8700") == 200
            assert await status("GET", "/v1/classes", host="[::1]:8700", origin="http://127.0.0.1:3000") == 200
            assert await status("POST", "/v1/program/apply") == 403
            assert await status("POST", "/v1/engine/pause") == 403
            for headers in (
                {"origin": "https://evil.example"},
                {"origin": "null"},
                {"host": "evil.example"},
                {"host": ""},
            ):
                assert await status("POST", "/v1/events", **headers) == 403
            assert await status("GET", "/v1/classes", authorization="Bearer x") == 401
            owner = f"Bearer {there.given[Role.ADMIN]}"
            assert await status("GET", "/v1/classes", authorization=owner, host="proxy.example") == 200
            assert await status("POST", "/v1/engine/resume", authorization=owner) == 200

    run(work())


# ---- secrets ---------------------------------------------------------------------------------------------------------

SECRETS = {
    "HOOK_SECRET": "whsec_c2VjcmV0LW9mLXRoZS1ob29rLTEyMzQ1Njc4",
    "HEADER_KEY": "header-secret-81721",
    "NATS_URL": "nats://fridge:nats-secret-4711@127.0.0.1:1",
    "MAIL_PASSWORD": "mail-secret-0815",
    "ACT_SECRET": "whsec_c2VjcmV0LW9mLWFjdC0xMjM0NTY3ODkwYWI=",
}
BOUND = """
BIND order TO WEBHOOK 'http://127.0.0.1:1/hook'
  WITH (secret = ENV 'HOOK_SECRET', header_x_key = ENV 'HEADER_KEY', retries = 1);
BIND tell TO NATS 'acts' WITH (url = ENV 'NATS_URL', retries = 1);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Mailed (resource STRING) ID () LIFESPAN (5d)
  ON ANNOUNCEMENT DO mail(NEW.resource);
BIND mail TO MAIL 'a@example.org' WITH (server = '127.0.0.1', port = 1, sender = 'b@example.org', user = 'c',
  password = ENV 'MAIL_PASSWORD', retries = 1);
DETECT Paid FROM NATS 'paid' WITH (url = ENV 'NATS_URL', stream = 'PAID', durable = 'shop');
"""


def _everything(server: Server, token: str, wrong: str) -> Iterator[bytes]:
    """What a server says to all that can be asked, rightly and wrongly."""
    for event in (
        {"event": "Low", "resource": "milk", "amount": 1},
        {"event": "Mailed", "resource": "x"},
        {"event": 7},
    ):
        yield server.ask("POST", "/v1/events", json.dumps(event), NDJSON, token).body
    for path in (
        "/v1/engine",
        "/v1/classes",
        "/v1/actions",
        "/v1/detectors",
        "/v1/program",
        "/metrics",
        "/v1/openapi.json",
    ):
        yield server.ask("GET", path, token=token).body
        yield server.ask("GET", path, token=wrong).body
    yield server.ask("GET", f"/v1/classes?token={token}", token=token).body
    yield server.ask("POST", "/v1/program/apply", "CREATE;", token=token).body
    yield server.ask("POST", "/v1/events", b"\xff", JSON, token).body


def test_secrets_are_in_no_output(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    wrong = token[:-3] + "abc"
    (tmp_path / "augury.toml").write_text("[actions]\nprivate_targets = true\n")
    environment = {**os.environ, **SECRETS, "PYTHONDEVMODE": "1", "PYTHONASYNCIODEBUG": "1"}
    server = serve(SHOP + BOUND, "--act", "--sense", environment=environment)
    said = list(_everything(server, token, wrong))
    over = time.monotonic() + 60
    while time.monotonic() < over:
        rows = server.ask("GET", "/v1/actions", token=token).json["rows"]
        if len(rows) == 3 and all(row["attempts"] for row in rows):
            break
        time.sleep(0.1)
    said += _everything(server, token, wrong)
    assert all(row["reason"] for row in rows), rows
    assert server.end() == 0
    told = b"\n".join([server.told.read_bytes(), *said])
    assert b"nats" in told.lower()
    secret_parts = [*SECRETS.values(), "nats-secret-4711", token, token.rpartition("_")[2], wrong]
    assert [one for one in secret_parts if one.encode() in told] == []
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file() and path.suffix != ".bicepl")
    assert token.rpartition("_")[2].encode() not in stored


def test_the_password_of_a_store_is_in_no_message(tmp_path: Path) -> None:
    (tmp_path / "a.bicepl").write_text(SHOP)
    store = "postgresql://shop:store-secret-99@127.0.0.1:1/shop?connect_timeout=2"
    code, said = command("serve", str(tmp_path / "a.bicepl"), "--store", store, "--port", "0", "--open")
    assert (code, "cannot be reached" in said or "failed" in said) == (2, True), said
    assert "store-secret" not in said

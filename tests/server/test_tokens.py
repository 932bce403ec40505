"""Tokens: made once and kept as digests, revoked at once; every route of the server asks for a role."""

from __future__ import annotations

import re
import stat
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import typer
from typer.testing import CliRunner

from augury.cli_server import register
from augury.server.given import CannotServe
from augury.server.rates import Rates
from augury.server.routes import Guarded
from augury.server.tokens import Caller, Role, Tokens, add_token, read_tokens, revoke_token
from tests.server.asking import SHOP, Answer, Here, ask, here, run
from tests.server.conftest import Serve
from tests.terminal import Terminal


def test_a_token_is_known_again_and_is_kept_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = add_token(path, "fridge", (Role.POST, Role.READ))
    assert Tokens(path).caller(made) == Caller("fridge", frozenset({Role.POST, Role.READ}))
    secret = made.split("_", 2)[2]
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(secret) >= 40


def test_what_is_nearly_a_token_is_none(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = add_token(path, "fridge", (Role.ADMIN,))
    tokens = Tokens(path)
    for nearly in (made[:-1], made + "x", made.upper(), "", "_____", made.rpartition("_")[0], "\udcff_\udcff_x"):
        assert tokens.caller(nearly) is None
    assert tokens.caller(made) is not None


def test_two_tokens_of_one_secret_would_have_two_digests(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for name in ("a", "b"):
        add_token(path, name, (Role.POST,))
    first, second = read_tokens(path)
    assert first.salt != second.salt


def test_a_token_that_is_revoked_is_none_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made, other = add_token(path, "fridge", (Role.POST,)), add_token(path, "other", (Role.READ,))
    tokens = Tokens(path)
    revoke_token(path, "fridge")
    assert tokens.caller(made) is None
    assert tokens.caller(other) is not None
    later = add_token(path, "fridge", (Role.ADMIN,))
    assert tokens.caller(later) == Caller("fridge", frozenset({Role.ADMIN}))


def test_where_the_file_is_gone_or_damaged_nobody_is_let_in(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    made = add_token(path, "fridge", (Role.POST,))
    tokens = Tokens(path)
    path.write_text("{")
    assert tokens.caller(made) is None
    path.unlink()
    assert tokens.caller(made) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": 2, "tokens": []}', '{"format": 1, "tokens": [{"id": 1}]}', '{"format": 1, "tokens": 7}'],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(CannotServe, match="no file of tokens"):
        Tokens(tmp_path / "tokens")


def command(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_the_command_makes_lists_and_revokes(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "a.db"))
    code, made = command("token", "add", "fridge", "--role", "post", "--role", "read", *store)
    assert code == 0
    assert Tokens(tmp_path / "a.db.tokens").caller(made.strip()) is not None
    assert command("token", "ls", *store) == (0, "fridge: post, read\n")
    assert command("token", "revoke", "fridge", *store) == (0, "")
    assert command("token", "ls", *store) == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "a", "--role", "post"), "say which tokens"),
        (("add", "a", "--role", "post", "--store", "postgresql://h/d"), "say which tokens"),
        (("add", "", "--role", "post", "--tokens", "F"), "has a name"),
        (("revoke", "a", "--tokens", "F"), "cannot be read"),
        (("ls", "--tokens", "F"), "cannot be read"),
        (("add", "a", "--role", "post", "--tokens", "nowhere/at/all"), "cannot be written"),
    ],
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, told = command("token", *words)
    assert (code, said in told) == (2, True), told


def test_a_name_is_given_once(tmp_path: Path) -> None:
    words = ("token", "add", "a", "--role", "post", "--tokens", str(tmp_path / "t"))
    assert command(*words)[0] == 0
    code, said = command(*words)
    assert (code, "already" in said) == (2, True)
    code, said = command("token", "revoke", "b", "--tokens", str(tmp_path / "t"))
    assert (code, "no token called" in said) == (2, True)


# ---- route × role × token --------------------------------------------------------------------------------------------

OPEN = {("GET", "/health"), ("GET", "/ready")}
NEEDS = {
    Role.POST: ["POST /v1/events"],
    Role.READ: [
        "GET /metrics",
        "GET /v1/actions",
        "GET /v1/actions/{key}",
        "GET /v1/classes",
        "GET /v1/classes/{name}",
        "GET /v1/classes/{name}/history",
        "GET /v1/codes/{code}",
        "GET /v1/detectors",
        "GET /v1/engine",
        "GET /v1/firings",
        "GET /v1/firings/live",
        "GET /v1/groups",
        "GET /v1/groups/{name}",
        "GET /v1/occurrences",
        "GET /v1/occurrences/live",
        "GET /v1/openapi.json",
        "GET /v1/program",
        "GET /v1/rejected",
        "GET /v1/rules",
        "GET /v1/rules/{name}",
        "GET /v1/triggers",
        "GET /v1/triggers/{name}",
        "GET /v1/triggers/{name}/evaluate",
        "POST /v1/check",
        "POST /v1/explain",
    ],
    Role.DEFINE: [
        "DELETE /v1/classes/{name}",
        "POST /v1/classes/{name}/{verb}",
        "DELETE /v1/groups/{name}",
        "DELETE /v1/rules/{name}",
        "DELETE /v1/triggers/{name}",
        "POST /v1/functions/reload",
        "POST /v1/groups/{name}/{verb}",
        "POST /v1/program/apply",
        "POST /v1/program/plan",
        "POST /v1/rules/{name}/{verb}",
        "POST /v1/triggers/{name}/{verb}",
        "PUT /v1/classes/{name}",
        "PUT /v1/groups/{name}",
        "PUT /v1/rules/{name}",
        "PUT /v1/triggers/{name}",
    ],
    Role.ADMIN: [
        "POST /v1/actions/{verb}",
        "POST /v1/delivery/{verb}",
        "POST /v1/detectors/{name}/{verb}",
        "POST /v1/engine/{verb}",
    ],
}
MANY = 100_000
NEEDED = {(*route.split(" "),): role for role, routes in NEEDS.items() for route in routes}


def routes_of(there: Here) -> list[tuple[str, str]]:
    routes = there.app.app.router.routes  # type: ignore[attr-defined]
    assert all(isinstance(route, Guarded) for route in routes)
    return [(method, route.path) for route in routes for method in route.methods]


def filled(path: str) -> str:
    """The path with a name that nothing has, so that nothing is changed by asking."""
    verb = "resume" if any(one in path for one in ("engine", "detectors", "delivery")) else "retry"
    verb = "enable" if any(one in path for one in ("triggers", "rules", "groups", "classes")) else verb
    return path.replace("{verb}", verb).replace("{name}", "nobody").replace("{key}", "none").replace("{code}", "E203")


async def asked(there: Here, method: str, path: str, token: str | None) -> Answer:
    where = f"{filled(path)}"
    if path.endswith("/live"):
        where += "?after=nonsense"  # is refused after the role was asked for, and so ends
    return await ask(there.app, method, where, b"", {"content-type": "application/x-ndjson"}, token)


def test_every_route_asks_for_its_role_and_nobody_else_gets_an_answer(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, failures_a_second=MANY) as there:
            gone = add_token(there.tokens, "gone", (Role.ADMIN,))
            revoke_token(there.tokens, "gone")
            routes = routes_of(there)
            assert set(routes) == OPEN | NEEDED.keys(), "every route stands in the table with its role, and no other"
            for method, path in routes:
                if (method, path) in OPEN:
                    assert (await asked(there, method, path, None)).status == 200
                    continue
                for wrong in (None, "aug_0_nonsense", "nonsense", gone, there.given[Role.ADMIN] + "x"):
                    answer = await asked(there, method, path, wrong)
                    assert (answer.status, method, path) == (401, method, path)
                    assert answer.headers["www-authenticate"].startswith("Bearer")
                    assert answer.json["status"] == 401
                for role in Role:
                    answer = await asked(there, method, path, there.given[role])
                    allowed = role in (NEEDED[method, path], Role.ADMIN)
                    assert (answer.status in (401, 403), method, path, role) == (not allowed, method, path, role)
                    assert answer.status < 500, (method, path, answer.body)

    run(work())


def test_without_a_file_of_tokens_no_route_is_answered(tmp_path: Path) -> None:
    """A file that is not there yet lets nobody in, and neither does a server that has no place for one."""

    async def work() -> None:
        async with here(tmp_path, failures_a_second=MANY) as there:
            elsewhere = there.given[Role.ADMIN]
            later = Tokens(tmp_path / "later", may_be_missing=True)
            for tokens in (None, later):
                there.app._tokens = tokens
                for method, path in NEEDED:
                    for token in (None, "nonsense", elsewhere):
                        assert ((await asked(there, method, path, token)).status, method, path) == (401, method, path)
                for method, path in OPEN:
                    assert (await asked(there, method, path, None)).status == 200
            made = add_token(later.path, "owner", (Role.ADMIN,))
            assert (await asked(there, "GET", "/v1/classes", made)).status == 200

    run(work())


def test_where_it_is_open_who_has_no_token_may_post_and_read_and_nothing_else(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, failures_a_second=MANY, is_open=True) as there:
            for (method, path), needed in NEEDED.items():
                answer = await asked(there, method, path, None)
                allowed = needed in (Role.POST, Role.READ)
                assert (answer.status in (401, 403), method, path) == (not allowed, method, path)
                assert (await asked(there, method, path, "nonsense")).status == 401
                for role in Role:
                    answer = await asked(there, method, path, there.given[role])
                    allowed = role in (needed, Role.ADMIN)
                    assert (answer.status in (401, 403), method, path, role) == (not allowed, method, path, role)

    run(work())


# ---- the first start -------------------------------------------------------------------------------------------------


def started(folder: Path, *words: str) -> tuple[str, int]:
    """What a server says on a terminal until it listens, and whether it lets nobody in; then it is ended."""
    (folder / "a.bicepl").write_text(SHOP)
    line = [sys.executable, "-m", "augury", "serve", "a.bicepl", "--store", "a.db", "--port", "0", *words]
    with Terminal() as terminal, (folder / "out").open("ab") as out:
        server = subprocess.Popen(line, cwd=folder, stderr=terminal.slave, stdout=out)
        try:
            over = time.monotonic() + 60
            while "listens at" not in terminal.text:
                assert server.poll() is None, terminal.text
                assert time.monotonic() < over, terminal.text
                time.sleep(0.05)
            time.sleep(0.05)
            url = terminal.text.partition("listens at ")[2].split()[0]
            with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
                connection.request("GET", "/v1/classes")
                status = connection.getresponse().status
        finally:
            server.terminate()
            server.wait()
    return terminal.text, status


def test_at_its_first_start_a_server_shows_a_token_on_the_terminal_and_nowhere_else(
    tmp_path: Path, serve: Serve
) -> None:
    said, status = started(tmp_path)
    assert status == 401
    (made,) = re.findall("export AUGURY_TOKEN=([^ \r\n]+)", said)
    kept = tmp_path / "a.db.tokens"
    assert Tokens(kept).caller(made) == Caller("owner", frozenset({Role.ADMIN}))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    secret = made.split("_", 2)[2].encode()
    assert [path.name for path in tmp_path.iterdir() if path.is_file() and secret in path.read_bytes()] == []

    again, status = started(tmp_path)
    assert ("AUGURY_TOKEN" in again, "token" in again, status) == (False, False, 401)
    server = serve(SHOP)
    assert server.token is None, "the file that was made counts"
    assert server.ask("GET", "/v1/classes").status == 401
    assert server.ask("POST", "/v1/engine/pause", token=made).status == 200
    assert command("token", "revoke", "owner", "--store", str(tmp_path / "a.db"))[0] == 0
    assert server.ask("GET", "/v1/classes", token=made).status == 401
    code, other = command("token", "add", "owner", "--role", "admin", "--store", str(tmp_path / "a.db"))
    assert (code, server.ask("GET", "/v1/classes", token=other.strip()).status) == (0, 200)


def test_where_what_is_told_may_be_kept_no_token_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.bicepl").write_text(SHOP)
    line = [sys.executable, "-m", "augury", "serve", "a.bicepl", "--store", "a.db", "--port", "0"]
    server = subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        said = server.stderr.readline()
        assert said == "nobody has a token yet: `augury token add NAME --role admin --tokens a.db.tokens` makes one\n"
        url = server.stderr.readline().partition("listens at ")[2].strip()
        assert not (tmp_path / "a.db.tokens").exists()
        with closing(HTTPConnection(urlsplit(url).netloc, timeout=60)) as connection:
            made = None
            for wanted in (401, 200):
                connection.request("GET", "/v1/classes", headers={"authorization": f"Bearer {made}"} if made else {})
                answer = connection.getresponse()
                assert (answer.status, bool(answer.read())) == (wanted, True)
                made = add_token(tmp_path / "a.db.tokens", f"owner of {wanted}", (Role.ADMIN,))
    finally:
        server.terminate()
        server.wait()
        assert server.stderr is not None
        server.stderr.close()


def test_open_is_said_and_makes_no_token(tmp_path: Path) -> None:
    said, status = started(tmp_path, "--open")
    assert ("whoever is on this machine may post and read" in said, status) == (True, 200)
    assert not (tmp_path / "a.db.tokens").exists()


def test_what_is_no_route_is_not_told_to_who_has_no_token(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, failures_a_second=MANY) as there:
            for path in ("/", "/v1", "/docs", "/redoc", "/openapi.json", "/v1/nothing", "/static/../a.db"):
                assert (await ask(there.app, "GET", path)).status == 401
                assert (await there.ask("GET", path)).status == 404
            assert (await there.ask("DELETE", "/v1/events")).status == 405
            assert (await ask(there.app, "HEAD", "/v1/classes")).status == 401

    run(work())


def test_a_parameter_that_a_route_does_not_know_is_refused_wherever_it_is_asked(tmp_path: Path) -> None:
    """Who misspells `dry_run` or `known_at` would get something else than was asked for, and not notice."""

    async def work() -> None:
        async with here(tmp_path) as there:
            for method, path in NEEDED:
                asked = await there.ask(method, f"{filled(path)}?knwon_at=2026-01-01", b"")
                assert (asked.status, method, path) == (422, method, path), asked.body
                assert "`knwon_at` is not known here: there is" in asked.json["detail"]
            told = "`knwon_at` is not known here: there is `as_of`, `known_at`, `diff_from`, `diff_to`, `format`, "
            asked = await there.ask("GET", "/v1/classes/Paid/history?limit=1&knwon_at=2026-01-01")
            assert asked.json["detail"] == f"{told}`after`, `limit`"
            for dry in ("dryrun=true", "dry-run=true", "Dry_Run=true", "dry_run=false&dry%5Frun%20=true"):
                assert (await there.ask("DELETE", f"/v1/classes/Twice?{dry}")).status == 422
            assert (await there.ask("GET", "/v1/classes/Twice")).status == 200, "it is still there"
            assert (await ask(there.app, "GET", "/ready?probe=1")).status == 200

    run(work())


def test_who_asks_by_a_method_that_is_not_there_is_told_by_which(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            for method, path, allowed in (
                ("DELETE", "/v1/events", "POST"),
                ("POST", "/v1/rules/Approve", "DELETE, GET, PUT"),
                ("HEAD", "/v1/classes/Paid", "DELETE, GET, PUT"),
                ("PUT", "/v1/actions/retry", "GET, POST"),
                ("GET", "/v1/program/apply", "POST"),
            ):
                answer = await there.ask(method, path)
                assert (answer.status, answer.headers["allow"]) == (405, allowed), path
                if method != "HEAD":
                    assert answer.json["detail"] == f"{method} is not asked here: there is {allowed}"
            assert "/v1/openapi.json" in (await there.ask("GET", "/v1/trigger")).json["detail"]

    run(work())


def test_other_ways_to_say_who_one_is_do_not_count(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            token = there.given[Role.ADMIN]
            for said in (token, f"Basic {token}", f"Token {token}", "Bearer", "Bearer "):
                answer = await ask(there.app, "GET", "/v1/classes", headers={"authorization": said})
                assert answer.status == 401, said
            assert (await ask(there.app, "GET", f"/v1/classes?token={token}")).status == 401
            answer = await ask(there.app, "GET", "/v1/classes", headers={"authorization": f"bearer {token}"})
            assert answer.status == 200

    run(work())


def test_the_document_names_every_route(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path) as there:
            document = (await there.ask("GET", "/v1/openapi.json", role=Role.READ)).json
            told = {
                (method.upper(), path): one
                for path, found in document["paths"].items()
                for method, one in found.items()
            }
            assert told.keys() == set(routes_of(there))
            for (method, path), one in told.items():
                role = NEEDED.get((method, path))
                assert one["x-role"] == (role or "open"), (method, path)
                assert one["security"] == ([{"token": []}] if role else []), (method, path)
                assert role is None or f"`{role}`" in one["description"], (method, path)
                assert re.fullmatch("[A-Z][^_]+[^.]", one["summary"]), one["summary"]
                assert re.fullmatch("[a-z]+_[a-z_]+", one["operationId"]), one["operationId"]
            names = [one["operationId"] for one in told.values()]
            assert len(set(names)) == len(names)
            assert len({one["summary"] for one in told.values()}) == len(names)
            schemes = document["components"]["securitySchemes"]
            assert [(one["type"], one["scheme"]) for one in schemes.values()] == [("http", "bearer")]

    run(work())


# ---- too often without a token that counts ---------------------------------------------------------------------------


def test_who_is_not_let_in_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with here(tmp_path, failures_a_second=5) as there:
            now = [100.0]
            there.app._failures._clock = lambda: now[0]

            async def asked_by(address: str, token: str | None) -> Answer:
                return await ask(there.app, "GET", "/v1/classes", token=token, address=address)

            wrong = (None, "nonsense", there.given[Role.ADMIN] + "x", None, "aug_0_nonsense", "nonsense")
            answers = [await asked_by("10.0.0.1", token) for token in wrong]
            assert [one.status for one in answers] == [401] * 5 + [429]
            assert answers[-1].headers["content-type"] == "application/problem+json"
            assert (answers[-1].headers["retry-after"], answers[-1].json["status"]) == ("1", 429)
            assert (await asked_by("10.0.0.1", there.given[Role.READ])).status == 200, "others share its proxy"
            assert (await asked_by("10.0.0.2", None)).status == 401
            now[0] += 1.0
            assert (await asked_by("10.0.0.1", None)).status == 401
            assert (await ask(there.app, "GET", "/health", address="10.0.0.1")).status == 200

    run(work())


def test_only_so_many_addresses_are_remembered() -> None:
    now = [0.0]
    rates = Rates(1, lambda: now[0], names_max=3)
    assert [rates.wait(name) for name in "abcab"] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert (rates.wait("d"), len(rates)) == (0.0, 3)
    assert (rates.wait("a"), rates.wait("c")) == (1.0, 0.0), "`c` was silent for longest, and is forgotten"


def test_a_process_limits_who_is_not_let_in(tmp_path: Path, serve: Serve) -> None:
    token = add_token(tmp_path / "a.db.tokens", "owner", (Role.ADMIN,))
    server = serve()
    with server.connected() as connection:
        answers = [server.asked(connection, "GET", "/v1/classes") for _ in range(200)]
    told = [one for one in answers if one.status == 429]
    assert told, "two hundred at once are more than ten a second"
    assert {one.status for one in answers} == {401, 429}
    assert {one.headers["retry-after"] for one in told} == {"1"}
    assert server.ask("GET", "/v1/classes", token=token).status == 200

"""Detectors and executors by themselves: for who has a token or a secret, and where they are open for who is here."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import typer
from typer.testing import CliRunner

from augury import cli_actions, cli_detectors
from augury.actions.envelope import signing_keys
from augury.api import compile
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.environment import real
from augury.server.acting import Executors, acting_app
from augury.server.sensing import detectors_app
from augury.server.tokens import Role, Tokens, add_token
from tests.acting.sensing import page_of

PROGRAM = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item VARCHAR, n INT) ID (item) LIFESPAN (1d)
  ON ANNOUNCEMENT DO tell(NEW.item);
BIND tell TO LOG;
"""
SILENT_SECONDS = 1.1
"""Who is refused too often, and then silent for so long, is answered again."""
SECRET = "whsec_c2VjcmV0LW9mLWFjdC0xMjM0NTY3ODkwYWI="


async def status(url: str, method: str, path: str, token: str | None = None, **headers: str) -> int:
    """What is answered; every error is a problem document."""
    said = headers if token is None else {**headers, "authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as session, session.request(method, f"{url}{path}", headers=said) as answer:
        text = await answer.text()
        if answer.status in (401, 403):
            assert answer.content_type == "application/problem+json"
            assert json.loads(text)["status"] == answer.status
            assert ("www-authenticate" in answer.headers) == (answer.status == 401)
        return answer.status


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    asyncio.run(limited())


async def matrix(url: str, routes: dict[tuple[str, str], Role], given: dict[Role, str], wrong: list[str]) -> None:
    """Every route for every token, and for none."""
    for (method, path), needed in routes.items():
        for one in (None, *wrong):
            assert await status(url, method, path, one) == 401, (path, one)
        for role, token in given.items():
            allowed = role in (needed, Role.ADMIN)
            assert ((await status(url, method, path, token)) == 403) == (not allowed), (path, role)
    assert await status(url, "GET", "/nowhere") == 401
    assert await status(url, "GET", "/nowhere", given[Role.READ]) == 404


def test_with_tokens_executors_and_detectors_ask_for_a_role(tmp_path: Path) -> None:
    given = {role: add_token(tmp_path / "tokens", role.value, (role,)) for role in Role}
    wrong = ["nonsense", given[Role.ADMIN] + "x"]
    (tmp_path / "a.jsonl").write_text("")

    async def work() -> None:
        tokens = Tokens(tmp_path / "tokens")
        async with real() as environment:
            app = acting_app(Executors({}, environment), environment, signing_keys(SECRET), tokens)
            paths = {("GET", "/health"): Role.READ, ("POST", "/pause"): Role.ADMIN, ("POST", "/resume"): Role.ADMIN}
            served = {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource}
            assert served == {("POST", "/actions"), ("GET", "/health"), ("HEAD", "/health"), ("POST", "/{verb}")}
            async with page_of(app) as url:
                await matrix(url, paths, given, wrong)
                media = {"content-type": "application/cloudevents+json"}
                assert await status(url, "POST", "/actions", given[Role.READ]) == 415
                await asyncio.sleep(SILENT_SECONDS)
                async with aiohttp.ClientSession() as session:
                    answer = await session.post(f"{url}/actions", headers=media, data=b"{}")
                    assert answer.status == 401, "it is not signed"
            program = compile(f"{PROGRAM}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
            found = Detectors(opened(program, environment), {}, str(tmp_path), environment)
            (name,) = found.status()
            routes = {("GET", "/health"): Role.READ}
            routes |= {("POST", f"/detectors/{name}/{verb}"): Role.ADMIN for verb in ("pause", "resume")}
            async with page_of(detectors_app(found, tokens, environment)) as url:
                await matrix(url, routes, given, wrong)

    run(work)


def test_without_tokens_nobody_gets_an_answer(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    stray = add_token(tmp_path / "tokens", "stray", (Role.ADMIN,))

    async def work() -> None:
        async with real() as environment:
            executors = Executors({}, environment)
            program = compile(f"{PROGRAM}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
            found = Detectors(opened(program, environment), {}, str(tmp_path), environment)
            asked = [("GET", "/health"), ("POST", "/pause"), ("POST", "/actions"), ("GET", "/nowhere")]
            async with page_of(acting_app(executors, environment)) as url:
                assert [await status(url, *one, token) for one in asked for token in (None, stray)] == [401] * 8
            assert not executors.is_paused
            async with page_of(detectors_app(found, None, environment)) as url:
                asked = [("GET", "/health"), ("POST", "/detectors/Stock/pause"), ("GET", "/nowhere")]
                assert [await status(url, *one, token) for one in asked for token in (None, stray)] == [401] * 6

    run(work)


def test_who_is_not_let_in_too_often_is_slowed_down(tmp_path: Path) -> None:
    """Wrong tokens and wrong signatures alike; who has a token is not."""
    owner = add_token(tmp_path / "tokens", "owner", (Role.ADMIN,))

    async def work() -> None:
        async with real() as environment:
            app = acting_app(Executors({}, environment), environment, signing_keys(SECRET), Tokens(tmp_path / "tokens"))
            async with page_of(app) as url, aiohttp.ClientSession() as session:
                for method, path in (("GET", "/health"), ("POST", "/actions")):
                    headers = {"content-type": "application/cloudevents+json"}
                    answers = [await session.request(method, f"{url}{path}", headers=headers) for _ in range(100)]
                    assert {one.status for one in answers} == {401, 429}
                    slowed = next(one for one in answers if one.status == 429)
                    assert (slowed.headers["retry-after"], (await slowed.json(content_type=None))["status"]) == (
                        "1",
                        429,
                    )
                    await asyncio.sleep(SILENT_SECONDS)
                assert await status(url, "GET", "/health", owner) == 200

    run(work)


def test_where_it_is_open_who_is_here_may_ask_and_no_page_may() -> None:
    async def work() -> None:
        async with real() as environment:
            executors = Executors({}, environment)
            async with page_of(acting_app(executors, environment, is_open=True)) as url:
                assert await status(url, "GET", "/health") == 200
                assert await status(url, "POST", "/pause") == 200
                assert executors.is_paused
                for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"host": "evil.example"}):
                    assert await status(url, "POST", "/resume", **headers) == 403
                    assert await status(url, "POST", "/actions", **headers) == 403
                assert executors.is_paused
                assert await status(url, "POST", "/actions") == 415, "it is let in, and is no action"

    run(work)


def command(*words: str, **variables: str) -> tuple[int, str]:
    app = typer.Typer()
    cli_detectors.register(app)
    cli_actions.register(app)
    done = CliRunner(env=variables).invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_this_machine_tokens_are_needed_and_executors_need_a_secret(tmp_path: Path, host: str) -> None:
    program, tokens = tmp_path / "a.bicepl", tmp_path / "tokens"
    (tmp_path / "a.jsonl").write_text("")
    program.write_text(f"{PROGRAM}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
    add_token(tokens, "owner", (Role.ADMIN,))
    act = ("act", str(program), "--host", host, "--port", "0")
    sense = ("sense", str(program), "--to", "http://127.0.0.1:1", "--state", str(tmp_path / "state"), "--host", host)
    for words in (act, (*act, "--secret-env", "ACT"), (*sense, "--port", "0")):
        code, said = command(*words, ACT=SECRET)
        assert (code, "without tokens" in said) == (2, True), said
    code, said = command(*act, "--tokens", str(tokens))
    assert (code, "has to be signed" in said, "--secret-env" in said) == (2, True, True), said
    for words in (act, (*sense, "--port", "0")):
        code, said = command(*words, "--open", "--tokens", str(tokens))
        assert (code, "leave out --open" in said) == (2, True), said


def test_with_both_they_listen_where_they_are_told(tmp_path: Path) -> None:
    """What is refused next is the port, which another has."""
    program, tokens = tmp_path / "a.bicepl", tmp_path / "tokens"
    (tmp_path / "a.jsonl").write_text("")
    program.write_text(f"{PROGRAM}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
    add_token(tokens, "owner", (Role.ADMIN,))
    with socket.create_server(("0.0.0.0", 0)) as taken:
        where = ("--host", "0.0.0.0", "--port", str(taken.getsockname()[1]), "--tokens", str(tokens))
        code, said = command("act", str(program), *where, "--secret-env", "ACT", ACT=SECRET)
        assert (code, "nothing can listen" in said) == (2, True), said
        state = ("--to", "http://127.0.0.1:1", "--state", str(tmp_path / "state"))
        code, said = command("sense", str(program), *state, *where)
        assert (code, "nothing can listen" in said) == (2, True), said

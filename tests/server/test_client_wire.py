"""What a client does when a server is slow, rude or away: it asks again where that is safe, and tells the rest."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest

from augury.client import Client
from augury.client.lines import line_of
from augury.client.live import Message, Patience, follow, messages
from augury.client.problems import ClientError, Problem, Unreachable, diagnostic_of
from augury.client.wire import Question, Wire, path_of, wait_seconds
from augury.diagnostics import Severity, to_json
from tests.server.scripted import Deed, Script, hang_up, say, serving, tell, then_hang_up


def wire(script: Script, slept: list[float] | None = None, **more: Any) -> Wire:
    prefix = more.pop("prefix", "")
    given = {"token": None, "timeout_seconds": 10.0, "tries": 3, **more}
    made = Wire(script.url + prefix, sleep=(slept if slept is not None else []).append, **given)
    script.left.callback(made.close)
    return made


ASK = Question("GET", "/v1/x")
DO = Question("POST", "/v1/x", body=b"{}", is_safe=False)
BUSY = say(503, {"detail": "busy"}, Retry_After="7")


# ---- again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deeds", "slept"),
    [
        ([hang_up], [0.2]),
        ([hang_up, hang_up], [0.2, 0.4]),
        ([BUSY], [7.0]),
        ([say(507, {}), say(429, {}, Retry_After="1")], [0.2, 1.0]),
        ([say(502, b"<html>")], [0.2]),
    ],
    ids=["nothing", "nothing twice", "503", "507 and 429", "a proxy"],
)
def test_what_is_safe_is_asked_again(deeds: list[Deed], slept: list[float]) -> None:
    waited: list[float] = []
    with serving(*deeds, say(200, {"ok": 1})) as script:
        answer = wire(script, waited).ask(ASK)
    assert json.loads(answer.content) == {"ok": 1}
    assert waited == slept
    assert len(script.asked) == len(deeds) + 1


def test_it_is_not_asked_for_ever() -> None:
    with serving(BUSY, BUSY, BUSY, say(200, {})) as script, pytest.raises(Problem, match="busy") as raised:
        wire(script).ask(ASK)
    assert raised.value.status == 503
    assert len(script.asked) == 3


@pytest.mark.parametrize("deed", [hang_up, BUSY, say(500, {}), say(404, {})], ids=["nothing", "503", "500", "404"])
def test_what_is_not_safe_is_asked_once(deed: Deed) -> None:
    with serving(deed, say(200, {})) as script, pytest.raises(ClientError):
        wire(script).ask(DO)
    assert len(script.asked) == 1


def test_what_was_not_even_heard_is_asked_again_though_it_is_not_safe() -> None:
    with serving(say(429, {})) as script:
        wire(script).ask(DO)
    assert len(script.asked) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422, 500])
def test_a_no_is_a_no(status: int) -> None:
    document = {"title": "No", "status": status, "detail": "because", "wrong": [1]}
    with serving(say(status, document)) as script, pytest.raises(Problem, match=r"^because$") as raised:
        wire(script).ask(ASK)
    assert (raised.value.status, raised.value.title, raised.value.document) == (status, "No", document)
    assert len(script.asked) == 1


def test_an_answer_that_is_no_document_is_told_by_its_status() -> None:
    with serving(say(418, b"tea")) as script, pytest.raises(Problem, match=r"^418 I'm a Teapot$"):
        wire(script).ask(ASK)


def test_a_server_that_is_away_is_told() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    slept: list[float] = []
    with pytest.raises(Unreachable, match=rf"{url} does not answer: .*refused"):
        Wire(url, None, 1.0, 3, slept.append).ask(DO)
    assert slept == [0.2, 0.4]


def test_a_server_that_says_nothing_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="timed out"):
            Wire(url, None, 0.05, 1).ask(ASK)


def test_a_redirect_is_not_followed_so_that_the_token_goes_nowhere_else() -> None:
    with serving() as other, serving(say(307, b"", Location=other.url)) as script:
        with pytest.raises(Problem, match="307 Temporary Redirect"):
            wire(script, token="aug_1").ask(ASK)
        assert other.asked == []
    assert script.asked[0].headers["Authorization"] == "Bearer aug_1"


# ---- connections ---------------------------------------------------------------------------------------------


def test_a_connection_is_kept() -> None:
    with serving() as script:
        asking = wire(script)
        for _ in range(5):
            asking.ask(ASK)
        asking.close()
        asking.ask(ASK)
    assert [len(list(same)) for _, same in itertools.groupby(script.asked, lambda one: one.connection)] == [5, 1]


def test_one_that_the_server_ended_is_not_used_though_the_question_is_not_safe() -> None:
    with serving(then_hang_up(say(200, {}))) as script:
        asking = wire(script)
        asking.ask(DO)
        kept = asking._kept[0].sock
        assert kept is not None
        kept.settimeout(10)
        kept.recv(1, socket.MSG_PEEK)  # until the end has come
        asking.ask(DO)
    assert script.connections == 2


def test_threads_share_what_is_kept() -> None:
    with serving() as script:
        asking = wire(script)
        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(lambda _: asking.ask(ASK).status, range(40)))
    assert statuses == [200] * 40
    assert script.connections <= 4


def test_lines_are_sent_as_they_come() -> None:
    def body() -> Iterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    with serving() as script:
        wire(script).ask(Question("POST", "/v1/events", body=body(), is_safe=False))
    assert script.asked[0].body == b"one\ntwo\n"


# ---- addresses -----------------------------------------------------------------------------------------------


def test_paths_and_questions_are_quoted() -> None:
    question = Question("GET", path_of("v1", "classes", "a/b ü?"), {"name": ["x", "y&z"], "none": None, "limit": 2})
    with serving() as script:
        wire(script, prefix="/base/").ask(question)
    assert script.asked[0].path == "/base/v1/classes/a%2Fb%20%C3%BC%3F?name=x&name=y%26z&limit=2"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "is no address of a server: write http://HOST:PORT or https://HOST"),
        ("ftp://host", "write http://HOST:PORT"),
        ("http://host:port", "is no address of a server: Port could not be cast"),
        ("http://me:secret@host", "^an address of a server holds no password: give a token$"),
        ("http://host/?q=1", "leave out what comes after"),
    ],
)
def test_what_is_no_address_is_refused(url: str, message: str) -> None:
    with pytest.raises(ClientError, match=message):
        Wire(url, None, 1.0, 1)


def test_a_token_that_is_none_is_refused_and_not_told() -> None:
    with pytest.raises(ClientError) as raised:
        Wire("http://host", "aug_ü\r\nX: y", 1.0, 1)
    assert "aug" not in str(raised.value)


@pytest.mark.parametrize(
    ("tried", "asked_for", "seconds"),
    [(1, None, 0.2), (20, None, 5.0), (1, "3", 3.0), (1, "9999", 60.0), (1, "Wed, 21 Oct", 0.2), (1, "-1", 0.2)],
)
def test_how_long_is_waited(tried: int, asked_for: str | None, seconds: float) -> None:
    assert wait_seconds(tried, asked_for) == seconds


# ---- events as lines -----------------------------------------------------------------------------------------


def test_an_event_gets_an_id_of_its_own_unless_it_has_one() -> None:
    once, twice = json.loads(line_of({"event": "A"})), json.loads(line_of({"event": "A"}))
    assert once["event_id"] != twice["event_id"]
    assert json.loads(line_of({"event": "A", "Event_ID": "x"})) == {"event": "A", "Event_ID": "x"}
    assert line_of('{"event": "A", "event_id": "x"}') == '{"event": "A", "event_id": "x"}'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"event": "A", "x": 1.10000000000000000001}', '"event": "A", "x": 1.10000000000000000001}'),
        (" {} ", "}"),
        ('{\n "event": "A"\n}', '"event": "A" }'),
    ],
)
def test_a_line_keeps_its_digits(text: str, rest: str) -> None:
    line = line_of(text)
    assert line.startswith('{"event_id": "')
    assert line.endswith(rest)
    assert len(json.loads(line)["event_id"]) == 32


@pytest.mark.parametrize("text", ["", "no", "[1]", "3", '{"event": '])
def test_what_is_no_event_stays_as_it_is(text: str) -> None:
    assert line_of(text) == text


def test_decimals_are_written_digit_by_digit() -> None:
    assert '"x": 1.10' in line_of({"event": "A", "x": Decimal("1.10")})


def test_who_posts_many_is_told_how_many_were_kept_before_it_failed() -> None:
    accepted = {"accepted": 999, "refused": [{"line": 1, "reason": "no"}]}
    with serving(say(200, accepted), say(403, {"detail": "no more"})) as script:
        client = Client(script.url)
        with client, pytest.raises(Problem, match="no more") as raised:
            client.post_all({"event": "A"} for _ in range(2_000))
    assert raised.value.__notes__ == ["999 events of 1,000 were durable before"]


# ---- live ----------------------------------------------------------------------------------------------------


def test_a_stream_is_read_as_the_standard_says() -> None:
    lines = b"event: begin\nid: 0\ndata: {}\n\n: still here\n\ndata:a\ndata: b\r\nid: 1\r\n\r\nid: 2\ndata: cut"
    assert list(messages(lines.splitlines(keepends=True))) == [
        Message("begin", "{}", "0"),
        Message("message", "a\nb", "1"),
    ]


class Passing:
    """Time that passes while somebody waits."""

    now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def patience(seconds: float) -> Patience:
    passing = Passing()
    return Patience(seconds, lambda: passing.now, passing.sleep)


def test_a_stream_that_breaks_off_is_taken_up_where_it_was() -> None:
    deeds = [
        tell("event: begin\nid: 0\ndata: {}\n\nid: 1\ndata: a\n\n", "id: 2\ndata: b\n"),
        hang_up,
        say(503, {"detail": "later"}),
        tell("id: 2\ndata: b\n\n"),
    ]
    with serving(*deeds) as script:
        following = follow(wire(script), "/v1/firings/live", {"name": ["T"]}, None, patience(60))
        told = [next(following).data for _ in range(3)]
        following.close()  # type: ignore[attr-defined]
    assert told == ["{}", "a", "b"]
    assert [one.headers.get("Last-Event-ID") for one in script.asked] == [None, "1", "1", "1"]
    assert {one.path for one in script.asked} == {"/v1/firings/live?name=T"}


def test_a_no_ends_a_stream() -> None:
    with serving(say(403, {"detail": "not you"})) as script, pytest.raises(Problem, match="not you"):
        next(follow(wire(script), "/v1/firings/live", {}, None, patience(60)))


def test_patience_ends() -> None:
    with serving(*[hang_up] * 100) as script, pytest.raises(Unreachable):
        next(follow(wire(script), "/v1/firings/live", {}, None, patience(20)))
    assert 5 < len(script.asked) < 15


# ---- diagnostics ---------------------------------------------------------------------------------------------


def test_a_diagnostic_comes_back_as_it_was_sent() -> None:
    import augury

    checked = augury.check("CREATE COMPLEX EVENT CLASS A (x INT) ID (x) AS MATCH B(x, y);", "p.bicepl")
    assert checked.errors
    sent = [to_json(one, checked.source) for one in checked.diagnostics]
    problem = Problem(422, {"diagnostics": json.loads(json.dumps(sent))})
    assert problem.diagnostics == checked.diagnostics
    assert problem.rendered(checked.source.text) == checked.rendered()
    assert diagnostic_of(sent[0]).severity is Severity.ERROR

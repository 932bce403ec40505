"""Each kind of executor against the real thing: HTTP servers, commands, mail, databases, NATS, MQTT, Kafka."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from augury.actions import python
from augury.actions.command import Command, refusal
from augury.actions.delivery import Again, Dead, Delivered, Delivery, Executor, GiveUp, Outcome, delivery_of
from augury.actions.envelope import signing_keys
from augury.actions.event import EnginePoster, Event, HttpPoster
from augury.actions.kafka import Kafka
from augury.actions.log import Log
from augury.actions.mail import Mail, MailServer
from augury.actions.mqtt import Mqtt, MqttServer
from augury.actions.nats import Nats
from augury.actions.python import Function, NoFunction, Python, function_named, registered
from augury.actions.sql import Sql
from augury.actions.webhook import Webhook, outcome_of, retry_after
from augury.environment import real
from augury.local.running import LocalEngine
from augury.local.store.waiting import Waiting
from tests.acting.sensing import serving
from tests.acting.targets import START, carried_out, delivery, drip, dripping_head, free_port, hang, program, target
from tests.clocks import Clock

REDIRECTED = "redirects are not followed, bind the action to where it is"
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


async def tried(executor: Executor, *deliveries: Delivery) -> list[Outcome]:
    async with real() as environment:
        try:
            return [await executor.carry_out(one, environment) for one in deliveries or (delivery(),)]
        finally:
            await executor.close()


# ---- webhooks ------------------------------------------------------------------------------------------------------


def test_a_webhook_gets_a_signed_cloud_event() -> None:
    async def work() -> None:
        async with target() as found:
            headers = {"x-team": "shop"}
            hook = Webhook(found.url, 5, headers, signing_keys(SECRET), is_public=False)
            assert await tried(hook, delivery(1, "low", 2.5, None)) == [Delivered()]
        assert found.bodies == [
            {
                "specversion": "1.0",
                "id": "key-1",
                "source": "/augury/Low",
                "type": "augury.action.tell",
                "time": "2026-01-01T09:00:00Z",
                "datacontenttype": "application/json",
                "subject": '{"resource": "milk"}',
                "data": {
                    "action": "tell",
                    "arguments": ["low", 2.5, None],
                    "event": "Low",
                    "key": {"resource": "milk"},
                    "tick": "2026-01-01T09:00:00Z",
                    "seq": 7,
                    "idempotency_key": "key-1",
                },
            }
        ]
        sent = {name.lower(): value for name, value in found.headers[0].items()}
        assert sent["content-type"] == "application/cloudevents+json; charset=utf-8"
        assert sent["webhook-id"] == sent["idempotency-key"] == "key-1"
        assert sent["x-team"] == "shop"
        assert abs(int(sent["webhook-timestamp"]) - time.time()) < 60

    run(work())


def test_a_receiver_can_verify_the_signature() -> None:
    bodies: list[bytes] = []

    async def keep(request: web.Request, _: int) -> None:
        bodies.append(await request.read())

    async def work() -> None:
        async with target(keep) as found:
            both = f"{SECRET} whsec_{base64.b64encode(b'another key').decode()}"
            await tried(Webhook(found.url, 5, {}, signing_keys(both), is_public=False))
        sent = {name.lower(): value for name, value in found.headers[0].items()}
        signed = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + bodies[0]
        first, second = sent["webhook-signature"].split(" ")
        for key, signature in ((b"0123456789abcdef0123456789abcdef", first), (b"another key", second)):
            digest = hmac.new(key, signed, hashlib.sha256).digest()
            assert signature == "v1," + base64.b64encode(digest).decode()

    run(work())


@pytest.mark.parametrize("secret", ["", "abc", "whsec_", "whsec_!!", "sk_c2VjcmV0"])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        signing_keys(secret)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Delivered()),
        (204, Delivered()),
        (301, Dead(f"answered 301 Moved Permanently to http://x/: {REDIRECTED}", True)),
        (400, Dead("answered 400 Bad Request")),
        (401, Dead("answered 401 Unauthorized", True, is_refusal=True)),
        (403, Dead("answered 403 Forbidden", True, is_refusal=True)),
        (407, Dead("answered 407 Proxy Authentication Required", True, is_refusal=True)),
        (404, Dead("answered 404 Not Found", True)),
        (410, Dead("answered 410 Gone", True)),
        (408, Again("answered 408 Request Timeout", 7.0)),
        (409, Again("answered 409 Conflict", 7.0)),
        (425, Again("answered 425 Too Early", 7.0)),
        (429, Again("answered 429 Too Many Requests", 7.0)),
        (500, Again("answered 500 Internal Server Error", 7.0)),
        (503, Again("answered 503 Service Unavailable", 7.0)),
        (599, Again("answered 599", 7.0)),
    ],
)  # fmt: skip
def test_what_an_answer_means(status: int, outcome: Outcome) -> None:
    assert outcome_of(status, {"retry-after": "7", "location": "http://x/"}, START) == outcome

    async def work() -> None:
        headers = {"Retry-After": "7", "Location": "http://x/"}
        async with target(lambda *_: web.Response(status=status, headers=headers)) as found:
            assert await tried(Webhook(found.url, 5, is_public=False)) == [outcome]

    run(work())


def test_retry_after_in_seconds_or_as_a_date() -> None:
    late = datetime.fromtimestamp(START / 1e6, UTC) + timedelta(seconds=90)
    assert retry_after(format_datetime(late, usegmt=True), START) == 90
    assert retry_after(format_datetime(late - timedelta(days=1), usegmt=True), START) == 0
    assert retry_after(" 120 ", START) == 120
    assert [retry_after(text, START) for text in (None, "", "soon", "-5", "1.5")] == [None] * 5


def test_who_does_not_answer_is_tried_again_in_time() -> None:
    async def work() -> None:
        async with target(hang) as hanging, dripping_head() as dripping:
            began = time.monotonic()
            for url in (hanging.url, dripping):
                assert await tried(Webhook(url, 0.4, is_public=False)) == [Again("no answer within 0.4 s")]
            assert time.monotonic() - began < 10
        [refused] = await tried(Webhook(f"http://127.0.0.1:{free_port()}/", 5, is_public=False))
        assert isinstance(refused, Again)

    run(work())


def test_a_body_that_drips_is_not_waited_for() -> None:
    async def work() -> None:
        async with target(drip) as found:
            began = time.monotonic()
            assert await tried(Webhook(found.url, 60, is_public=False)) == [Delivered()]
            assert time.monotonic() - began < 30

    run(work())


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254", "[::ffff:10.0.0.1]"]
)
def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    async def work() -> None:
        async with target() as found:
            port = found.url.rpartition(":")[2].partition("/")[0]
            [outcome] = await tried(Webhook(f"http://{host}:{port}/hook", 2))
            assert isinstance(outcome, Dead), outcome
            assert outcome.is_target
            assert "no public address" in outcome.reason
            assert "private_targets = true" in outcome.reason
            assert not found.got

    run(work())


def test_addresses_of_networks_that_are_allowed_are_asked_and_no_others() -> None:
    async def work() -> None:
        async with target() as found:
            port = found.url.rpartition(":")[2].partition("/")[0]
            for host in ("127.0.0.1", "localhost"):
                here = ("127.0.0.0/8", "::1/128")
                assert await tried(Webhook(f"http://{host}:{port}/hook", 5, networks=here)) == [Delivered()]
                [outcome] = await tried(Webhook(f"http://{host}:{port}/hook", 5, networks=("10.0.0.0/8",)))
                assert isinstance(outcome, Dead), outcome
            assert len(found.got) == 2

    run(work())


# ---- log, Python, commands ------------------------------------------------------------------------------------------


def test_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "augury.actions"):
        assert run(tried(Log())) == [Delivered()]
    assert json.loads(caplog.messages[0]) == delivery().data()


def test_arguments_keep_their_digits() -> None:
    row = Waiting(1, "k", "tell", '[1.10, 12345678901234567890.12, 3, "x"]', "Low", "{}", START, None)
    assert delivery_of(row).json().startswith('{"action": "tell", "arguments": [1.1, 12345678901234567890.12, 3, "x"]')


def test_functions_are_called_with_the_arguments() -> None:
    seen: list[Any] = []

    def plain(what: str, which: str) -> None:
        seen.append((what, which))

    async def knowing(what: str, which: str, delivery: Delivery) -> None:
        seen.append(delivery.key)

    def fails(*_: str) -> None:
        raise OSError("no route")

    def gives_up(*_: str) -> None:
        raise GiveUp("no such owner")

    outcomes = [
        run(tried(Python(partial(_itself, one), 2, 5)))[0]
        for one in (plain, knowing, fails, gives_up, lambda only: None)
    ]
    assert seen == [("low", "milk"), "key-1"]
    assert outcomes[:4] == [Delivered(), Delivered(), Again("no route"), Dead("no such owner")]
    assert isinstance(outcomes[4], Dead)
    assert "too many positional arguments" in outcomes[4].reason


def _itself(function: Function) -> Function:
    return function


def test_a_function_that_hangs_keeps_to_its_places() -> None:
    async def work() -> None:
        executor = Python(lambda: lambda *_: time.sleep(3), 1, 0.1)
        assert await tried(executor, delivery()) == [Again("the function took longer than 0.1 s")]
        [busy] = await tried(executor, delivery())
        assert isinstance(busy, Again)
        assert "have not come to an end" in busy.reason

    run(work())


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "_REGISTERED", {})


@pytest.mark.usefixtures("fresh_registry")
def test_functions_are_found_in_modules_and_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_acts.py").write_text(
        "from augury.actions.python import action\n"
        "@action('informOwner')\n"
        "def inform(*words): pass\n"
        "def order(*words): pass\n"
    )
    about = tmp_path / "shop-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[augury.actions]\nOrder = shop_acts:order\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = registered(("shop_acts",))
    assert sorted(found) == ["informowner", "order"]
    assert function_named("shop_acts:order") is found["order"]
    with pytest.raises(ValueError, match=r"carried out by shop_acts\.inform already"):
        python.action("INFORMOWNER")(found["order"])
    for wrong in ("shop_acts", "shop_acts:nobody", "no_such_module:f"):
        with pytest.raises(NoFunction):
            function_named(wrong)


def test_a_command_is_tried_again_where_nothing_can_be_kept_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    reason = "there is no room for what it says: No such file or directory"
    assert run(tried(Command((sys.executable, "-c", ""), 20))) == [Again(f"`{sys.executable}` cannot be run: {reason}")]


def test_a_command_gets_json_and_no_shell(tmp_path: Path) -> None:
    got = tmp_path / "got"
    code = "import sys; open(sys.argv[1], 'w').write(sys.argv[2] + '\\n' + sys.stdin.read())"
    words = (sys.executable, "-c", code, str(got), "$(touch x); `id` | *")
    assert run(tried(Command(words, 20))) == [Delivered()]
    first, second = got.read_text().splitlines()
    assert first == "$(touch x); `id` | *"
    assert json.loads(second) == delivery().data()
    failing = Command((sys.executable, "-c", "import sys; sys.exit('out of paper')"), 20)
    assert run(tried(failing)) == [Again(f"`{sys.executable}` ended with 1: out of paper")]
    slow = Command((sys.executable, "-c", "import time; time.sleep(60)"), 0.3)
    assert run(tried(slow)) == [Again(f"`{sys.executable}` took longer than 0.3 s and was ended")]
    assert run(tried(Command(("/no/such/program",), 5))) == [
        Dead("`/no/such/program` cannot be run: No such file or directory", is_target=True)
    ]


def test_who_a_command_leaves_behind_is_not_waited_for() -> None:
    """It holds what the command had as its standard input and error."""
    lasting, began = "import time; time.sleep(25)", time.monotonic()
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {lasting!r}]); sys.exit('out of paper')"
    assert run(tried(Command((sys.executable, "-c", code), 20))) == [
        Again(f"`{sys.executable}` ended with 1: out of paper")
    ]
    slow = Command((sys.executable, "-c", f"{code.partition('sys.exit')[0]}{lasting}"), 0.5)
    assert run(tried(slow)) == [Again(f"`{sys.executable}` took longer than 0.5 s and was ended")]
    assert time.monotonic() - began < 20


def test_only_listed_commands_may_run() -> None:
    allowed = ("notify-send", "/usr/bin/logger")
    assert refusal(("notify-send", "hello"), allowed) is None
    assert refusal(("/usr/bin/logger",), allowed) is None
    for words in (("logger",), ("/bin/notify-send",), ("./notify-send",), ("sh", "-c", "notify-send")):
        assert refusal(words, allowed) is not None


# ---- events ---------------------------------------------------------------------------------------------------------


def test_an_action_becomes_an_event_once(tmp_path: Path) -> None:
    with LocalEngine(program(), tmp_path / "engine.db", environment=Clock(START)) as engine:
        executor = Event("Approved", ("resource", "amount"), EnginePoster(engine), 5)
        one = delivery(1, "milk", 2.5)
        assert run(tried(executor, one, one, delivery(2, "beer", 1))) == [Delivered()] * 3
        assert run(tried(executor, delivery(3, "beer"))) == [
            Dead("the action has 1 arguments, and `Approved` has 2 attributes")
        ]
        engine.environment = None
        engine.advance_to("2100-01-01T00:00:00Z")
        history = engine.history("Approved")
        assert [(row["resource"], float(row["amount"]), row["event_id"]) for row in history.to_pylist()] == [
            ("milk", 2.5, "key-1"),
            ("beer", 1.0, "key-2"),
        ]


def test_an_action_is_posted_over_http() -> None:
    answers = iter([{"accepted": 1, "refused": []}, {"accepted": 0, "refused": [{"line": 1, "reason": "no number"}]}])
    got: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        got.append(json.loads(await request.read()))
        return web.json_response(next(answers))

    async def work() -> None:
        app = web.Application()
        app.router.add_post("/v1/events", take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            poster = HttpPoster(f"http://127.0.0.1:{runner.addresses[0][1]}/")
            executor = Event("Approved", ("resource", "amount"), poster, 5)
            good, bad = await tried(executor, delivery(1, "milk", 2), delivery(2, "milk", 2))
        finally:
            await runner.cleanup()
        assert good == Delivered()
        assert isinstance(bad, Dead)
        assert "no number" in bad.reason
        assert {key: got[0][key] for key in ("event", "event_id", "resource", "amount")} == {
            "event": "Approved",
            "event_id": "key-1",
            "resource": "milk",
            "amount": 2,
        }

    run(work())


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (401, Again("the engine answered 401", is_refusal=True)),
        (403, Again("the engine answered 403", is_refusal=True)),
        (429, Again("the engine answered 429")),
        (503, Again("the engine answered 503")),
        (404, Dead("the engine answered 404: no")),
    ],
)
def test_what_an_engine_answers_to_an_event(status: int, outcome: Outcome) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, text="no")

    async def work() -> None:
        async with serving({"/v1/events": refuse}) as url:
            executor = Event("Approved", ("resource", "amount"), HttpPoster(url), 20)
            assert await tried(executor, delivery(1, "milk", 2)) == [outcome]
        [gone] = await tried(executor, delivery(1, "milk", 2))
        assert isinstance(gone, Again)
        assert not gone.is_refusal

    run(work())


# ---- databases -------------------------------------------------------------------------------------------------------


def test_a_row_is_inserted_once(tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    executor = Sql(f"sqlite:///{path}", "orders", 2, 10)
    assert run(tried(executor, delivery(1), delivery(1), delivery(2))) == [Delivered()] * 3
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT idempotency_key, action, arguments, event_key, tick FROM orders").fetchall()
    connection.close()
    assert rows == [
        (f"key-{n}", "tell", '["low", "milk"]', '{"resource": "milk"}', "2026-01-01T09:00:00Z") for n in (1, 2)
    ]


def test_a_table_of_ones_own_gets_the_arguments_by_position(postgres_url: str) -> None:
    import psycopg

    create = (
        "CREATE TABLE orders (id serial PRIMARY KEY, idempotency_key text UNIQUE, resource text, due timestamptz,"
        " amount numeric(6, 2), noted timestamptz DEFAULT now())"
    )
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(create)
        one = delivery(1, "milk", "2026-01-02T10:00:00Z", 2.5)
        few, wrong = delivery(2, "milk"), delivery(3, "milk", "tomorrow", 1)
        outcomes = run(tried(Sql(postgres_url, "orders", 2, 10), one, one, few, wrong))
        assert outcomes[:2] == [Delivered()] * 2
        assert outcomes[2] == Dead("the action has 1 arguments, and the table takes 3: resource, due, amount")
        assert isinstance(outcomes[3], Dead)
        rows = connection.execute("SELECT resource, due, amount FROM orders").fetchall()
        assert [(a, b.isoformat(), str(c)) for a, b, c in rows] == [("milk", "2026-01-02T10:00:00+00:00", "2.50")]
        connection.execute("CREATE TABLE bare (resource text)")
        [outcome] = run(tried(Sql(postgres_url, "bare", 2, 10)))
        assert outcome == Dead("the table `bare` has no column `idempotency_key`: add one, and let it be unique")


def test_a_database_that_is_not_there_is_tried_again() -> None:
    url = f"postgresql://augury:hidden@127.0.0.1:{free_port()}/x"
    [outcome] = run(tried(Sql(url, "orders", 2, 10)))
    assert isinstance(outcome, Again)
    assert "hidden" not in outcome.reason


# ---- mail ------------------------------------------------------------------------------------------------------------


class Mailbox:
    """Keeps what comes, and refuses some addresses."""

    def __init__(self) -> None:
        self.letters: list[Any] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address.startswith("nobody"):
            return "550 no such mailbox"
        if address.startswith("busy"):
            return "451 try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        import email

        self.letters.append(email.message_from_bytes(envelope.content))
        return "250 OK"


def test_a_letter_is_sent() -> None:
    from aiosmtpd.controller import Controller

    mailbox = Mailbox()
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    try:
        server = MailServer("127.0.0.1", controller.port)
        people = ("owner@example.org", "nobody@example.org", "busy@example.org")
        outcomes = [
            run(tried(Mail(to, "augury@example.org", None, server, 2, 10), delivery(1, "Grüße\nBcc: x@y.z", 2.5)))[0]
            for to in people
        ]
    finally:
        controller.stop()
    assert outcomes == [
        Delivered(),
        Dead("the mail server answered 550: no such mailbox"),
        Again("the mail server answered 451: try again later"),
    ]
    [letter] = mailbox.letters
    assert (letter["To"], letter["From"], letter["Subject"]) == (people[0], "augury@example.org", "tell: Low")
    assert letter["Message-ID"] == "<key-1@augury.invalid>"
    assert letter["Bcc"] is None
    text = letter.get_payload(decode=True).decode()
    assert text.replace("\r\n", "\n").startswith("Grüße\nBcc: x@y.z\n2.5\n\n-- \nLow")
    closed = MailServer("127.0.0.1", free_port())
    assert isinstance(run(tried(Mail(people[0], people[0], None, closed, 2, 5)))[0], Again)


# ---- messages --------------------------------------------------------------------------------------------------------


def server(command: list[str], port: int) -> subprocess.Popen[bytes]:
    """Start a server, and wait until it answers."""
    import socket

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert process.poll() is None, "it ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise AssertionError("it does not answer")


@pytest.fixture
def nats_url(tmp_path: Path) -> Iterator[str]:
    port, name = free_port(), Path(sys.executable).with_name("nats-server")
    process = server([str(name), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path)], port)
    yield f"nats://127.0.0.1:{port}"
    process.kill()
    process.wait()


def test_nats_keeps_a_message_once(nats_url: str) -> None:
    import nats

    async def work() -> None:
        client = await nats.connect(nats_url)
        stream = client.jetstream()
        await stream.add_stream(name="ACTS", subjects=["acts.>"])
        heard = await client.subscribe("plain")
        await client.flush()
        assert await tried(Nats("acts.low", nats_url, 5), delivery(1), delivery(1), delivery(2)) == [Delivered()] * 3
        assert (await stream.stream_info("ACTS")).state.messages == 2, "by Nats-Msg-Id"
        assert await tried(Nats("acts.low", nats_url, 5, "north"), delivery(1)) == [Delivered()]
        assert (await stream.stream_info("ACTS")).state.messages == 3, "equal actions of two engines are two"
        assert await tried(Nats("plain", nats_url, 5)) == [Delivered()]
        message = await heard.next_msg(5)
        assert json.loads(message.data)["data"] == delivery().data()
        assert message.headers is not None
        assert message.headers["Nats-Msg-Id"] == "key-1"
        await client.close()

    run(work())


def test_nats_that_is_not_there_is_tried_again() -> None:
    [outcome] = run(tried(Nats("x", f"nats://127.0.0.1:{free_port()}", 1)))
    assert isinstance(outcome, Again)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt_has_the_message(tmp_path: Path, qos: int) -> None:
    name = shutil.which("mosquitto") or shutil.which("/usr/sbin/mosquitto")
    assert name, "install mosquitto: apt-get install mosquitto"
    port = free_port()
    settings = tmp_path / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
    process = server([name, "-c", str(settings)], port)
    try:
        import paho.mqtt.client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        got: list[tuple[int, bytes]] = []
        listening = mqtt.Client(CallbackAPIVersion.VERSION2)
        subscribed: list[bool] = []
        listening.on_message = lambda client, data, message: got.append((message.qos, bytes(message.payload)))
        listening.on_subscribe = lambda *_: subscribed.append(True)
        listening.connect("127.0.0.1", port)
        listening.subscribe("acts/#", 2)
        listening.loop_start()
        _until(lambda: bool(subscribed))
        where = MqttServer("127.0.0.1", port)
        assert run(tried(Mqtt("acts/low", where, qos, 2, 15), delivery(1), delivery(2))) == [Delivered()] * 2
        _until(lambda: len(got) == 2)
        assert [(how, json.loads(one)["id"]) for how, one in got] == [(qos, "key-1"), (qos, "key-2")]
        listening.disconnect()
        listening.loop_stop()
    finally:
        process.kill()
        process.wait()
    gone = MqttServer("127.0.0.1", port)
    assert isinstance(run(tried(Mqtt("acts/low", gone, qos, 2, 1)))[0], Again)


def _until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_kafka_has_the_message(tmp_path: Path) -> None:
    from tests.spark.broker import Broker

    broker = Broker(tmp_path)
    broker.start()
    try:
        executor = Kafka("acts", broker.servers, None, 15)
        assert run(tried(executor, delivery(1), delivery(2))) == [Delivered()] * 2
        found = messages(broker.servers, "acts", 2)
        assert [json.loads(one.value())["id"] for one in found] == ["key-1", "key-2"]
        assert found[0].key() == b'Low {"resource": "milk"}'
        assert dict(found[0].headers())["idempotency-key"] == b"key-1"
        bind = f"BIND tell TO KAFKA 'told' WITH (servers = '{broker.servers}', key = 'shop', timeout = 15s);"
        fired = run(carried_out(tmp_path / "store.db", bind))
        told = messages(broker.servers, "told", 2)
        assert {one.key() for one in told} == {b"shop"}
        by_key = {one["idempotency_key"]: one for one in (json.loads(one.value())["data"] for one in told)}
        assert by_key == {one["idempotency_key"]: one for one in fired}
    finally:
        broker.kill()
    [outcome] = run(tried(Kafka("acts", broker.servers, None, 1)))
    assert isinstance(outcome, Again)


def messages(servers: str, topic: str, count: int) -> list[Any]:
    """The first messages of a topic."""
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"t-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[Any] = []
    deadline = time.monotonic() + 60
    try:
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} came"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(message)
    finally:
        consumer.close()
    return found

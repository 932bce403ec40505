"""Logins against real servers: mail over TLS, MQTT and NATS with passwords, for executors and for detectors.

A wrong password is told once and clearly, nothing is lost, and no password is seen anywhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from augury.actions.binding import Surroundings, Wired, wire
from augury.actions.deliver import Deliverer, Ends
from augury.actions.delivery import Again, Dead, Delivered, Executor, Outcome
from augury.actions.outbox import StoredOutbox
from augury.actions.run import opened as opened_outbox
from augury.actions.webhook import Webhook
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.environment import Environment, real
from augury.local.store.outbox import open_outbox
from augury.local.store.waiting import State, Wanted
from tests.acting.sensing import QUICK, Remembers, running, until
from tests.acting.targets import SHOP, action, delivery, fill, free_port, program

SECRET = "s3:c/r@t-Pa55"
QUOTED = "s3%3Ac%2Fr%40t-Pa55"


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """What was logged on this side; the mail server, which runs here too, logs what it says."""
    return "".join(record.getMessage() for record in caplog.records if record.name != "mail.log")


pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS")


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())


@contextmanager
def said(variables: Mapping[str, str]) -> Iterator[None]:
    """Environment variables while a program is wired, which is when they are read."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


def bound(how: str, environment: Environment, variables: Mapping[str, str]) -> Wired:
    """What the action `tell` is bound to, by a program."""
    with said(variables):
        wired = wire(Surroundings(program(f"{SHOP}BIND tell TO {how};")), environment)
    assert not wired.problems, wired.problems
    return wired


async def tried(how: str, **variables: str) -> Outcome:
    """One try of what a program binds."""
    async with real() as environment:
        executor: Executor = bound(how, environment, variables).carriers["tell"].executor
        try:
            return await executor.carry_out(delivery(), environment)
        finally:
            await executor.close()


async def delivered(how: str, folder: Path, told: list[str], **variables: str) -> dict[str, tuple[State, str]]:
    """Carry out what waits in a store once; what became of it, by key."""
    url = str(folder / "shop.db")
    async with real() as environment:
        outbox = StoredOutbox(open_outbox(url, alone=True))
        wired = bound(how, environment, variables)
        try:
            await Deliverer(outbox, wired.carriers, environment, report=told.append).run(Ends.ONCE)
        finally:
            await outbox.close()
            await wired.close()
    with opened_outbox(url) as listed:
        return {one.action.idempotency_key: (one.state, one.reason) for one in listed.listed(Wanted())}


@contextmanager
def process(words: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server, from when it answers."""
    import socket
    import time

    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(400):
            assert server.poll() is None, f"{words[0]} has ended"
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(0.025)
        yield server
    finally:
        server.kill()
        server.wait()


# ---- mail ----------------------------------------------------------------------------------------------------------


class Mailbox:
    """Keeps what comes, and by whom."""

    def __init__(self) -> None:
        self.letters: list[tuple[Any, str]] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.letters.append((session.auth_data, envelope.content.decode()))
        return "250 OK"


@dataclass(frozen=True)
class Certificate:
    """A certificate for this machine's loopback address that signs itself."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(self.certificate, self.key)
        return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    found = Certificate(folder / "cert.pem", folder / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    about = ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(found.key), "-out", str(found.certificate)]
    subprocess.run([*words, *about, *files], check=True, capture_output=True, timeout=60)
    return found


def lets_in(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: LoginPassword) -> AuthResult:
    """One user only; who is not let in hears back what they sent, as rude servers do."""
    login, password = given.login.decode(), given.password.decode()
    if password == "come back later":
        return AuthResult(success=False, handled=False, message="454 4.7.0 Temporary authentication failure")
    if (login, password) == ("ann", SECRET):
        return AuthResult(success=True, auth_data=login)
    return AuthResult(success=False, handled=False, message=f"535 5.7.8 no, `{password}` is wrong")


@contextmanager
def mail(certificate: Certificate, *, wrapped: bool = False, plain: bool = False) -> Iterator[tuple[int, Mailbox]]:
    """A mail server that wants a login, over TLS: from the start, after STARTTLS, or (plain) not at all."""
    mailbox, context = Mailbox(), certificate.context()
    how: dict[str, Any] = {"auth_required": True, "authenticator": lets_in}
    if wrapped:
        how |= {"ssl_context": context, "auth_require_tls": False}
    elif plain:
        how |= {"auth_require_tls": False}
    else:
        how |= {"tls_context": context, "require_starttls": True}
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port(), **how)
    controller.start()
    try:
        yield controller.port, mailbox
    finally:
        controller.stop()


def letter(port: int, server: str = "127.0.0.1", more: str = "tls = TRUE") -> str:
    login = "user = 'ann', password = ENV 'MAIL_PASSWORD'"
    where = f"server = '{server}', port = {port}, sender = 'augury@example.org'"
    return f"MAIL 'owner@example.org' WITH ({where}, {login}, {more})"


@pytest.fixture
def trusted(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """A certificate that this machine trusts, as an administrator would have it."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    return certificate


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_letter_goes_over_tls_with_a_login(trusted: Certificate, wrapped: bool) -> None:
    with mail(trusted, wrapped=wrapped) as (port, mailbox):
        how = letter(port, "smtps://127.0.0.1") if wrapped else letter(port)
        assert run(tried(how, MAIL_PASSWORD=SECRET)) == Delivered()
    [(who, text)] = mailbox.letters
    assert who == "ann"
    assert "Message-ID: <key-1@augury.invalid>" in text


def test_a_letter_has_the_subject_that_the_program_says(trusted: Certificate) -> None:
    for more, subject in (("", "tell: Low"), (", subject = 'Der Kühlschrank'", "Der =?utf-8?q?K=C3=BChlschrank?=")):
        with mail(trusted) as (port, mailbox):
            assert run(tried(letter(port, more=f"tls = TRUE{more}"), MAIL_PASSWORD=SECRET)) == Delivered()
        [(_, text)] = mailbox.letters
        assert f"Subject: {subject}\n" in text.replace("\r\n", "\n")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_wrong_password_of_mail_is_told_once_and_nothing_is_lost(
    trusted: Certificate, tmp_path: Path, wrapped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    fill(str(tmp_path / "shop.db"), [action(1), action(2)])
    told: list[str] = []
    with mail(trusted, wrapped=wrapped) as (port, mailbox):
        how = letter(port, "smtps://127.0.0.1") if wrapped else letter(port)
        found = run(delivered(how, tmp_path, told, MAIL_PASSWORD="guessed-0815"))
        refused = "the mail server does not let `ann` in: 535 5.7.8 no, `***` is wrong"
        assert found == {f"key-tell-{n}": (State.WAITING, refused) for n in (1, 2)}
        assert told == [f"mail 127.0.0.1:{port}: {refused}"]
        assert mailbox.letters == []
        retried = run(delivered(how.replace(")", ", retries = 0)"), tmp_path, told, MAIL_PASSWORD="guessed-0815"))
        assert set(retried.values()) <= {
            (State.WAITING, refused),
            (State.DEAD, f"given up after 2 tries: {refused}"),
        }
    assert "guessed-0815" not in logged(caplog) + "".join(told) + str(retried)


def test_a_login_that_fails_for_a_while_is_tried_again(trusted: Certificate) -> None:
    with mail(trusted) as (port, _):
        outcome = run(tried(letter(port), MAIL_PASSWORD="come back later"))
    assert outcome == Again("the mail server answered 454: 4.7.0 Temporary authentication failure")


def test_a_password_is_not_sent_where_tls_is_wanted_and_not_to_be_had(trusted: Certificate) -> None:
    with mail(trusted, plain=True) as (port, mailbox):
        outcome = run(tried(letter(port), MAIL_PASSWORD=SECRET))
        assert outcome == Dead("STARTTLS extension not supported by server.", is_target=True)
        assert run(tried(letter(port, more="tls = FALSE"), MAIL_PASSWORD=SECRET)) == Delivered()
    assert len(mailbox.letters) == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_certificate_that_nobody_knows_is_not_trusted(certificate: Certificate, wrapped: bool) -> None:
    with mail(certificate, wrapped=wrapped) as (port, mailbox):
        how = letter(port, "smtps://127.0.0.1") if wrapped else letter(port)
        outcome = run(tried(how, MAIL_PASSWORD=SECRET))
    reason = "the mail server's certificate is not to be trusted: self-signed certificate"
    assert outcome == Again(reason, is_refusal=True)
    assert mailbox.letters == []


def test_a_certificate_that_nobody_knows_is_no_target_of_a_webhook(certificate: Certificate) -> None:
    async def work() -> Outcome:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate.certificate, certificate.key)
        runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
            hook = Webhook(f"https://127.0.0.1:{runner.addresses[0][1]}/hook", 20, is_public=False)
            async with real() as environment:
                return await hook.carry_out(delivery(), environment)
        finally:
            await runner.cleanup()

    reason = "the certificate of `127.0.0.1` is not to be trusted: self-signed certificate"
    assert run(work()) == Again(reason, is_refusal=True)


@pytest.mark.parametrize(
    ("server", "password", "reason"),
    [
        ("smtp://mail.example.org", SECRET, "is no mail server: say its host, or smtps://host"),
        ("mail.example.org", "pässword", "letters of ASCII only"),
    ],
)
def test_what_can_never_work_is_told_before_anything_is_sent(server: str, password: str, reason: str) -> None:
    async def problems() -> str:
        text = f"{SHOP}BIND tell TO {letter(25, server)};"
        async with real() as environment:
            with said({"MAIL_PASSWORD": password}):
                return "".join(wire(Surroundings(program(text)), environment).problems)

    found = run(problems())
    assert reason in found
    assert password not in found


# ---- brokers -------------------------------------------------------------------------------------------------------


@dataclass
class Broker:
    """A broker that wants a password, and both sides of it as a program says them."""

    words: list[str]
    port: int
    folder: Path
    right: Mapping[str, str]
    wrong: Mapping[str, str]
    tells: str
    hears: str
    refusal: str

    def server(self) -> Any:
        return process(self.words, self.port)


def nats_with(tmp_path: Path, login: str, words: list[str]) -> Broker:
    name, port = Path(sys.executable).with_name("nats-server"), free_port()
    common = [str(name), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "nats")]
    return Broker(
        [*common, *words],
        port,
        tmp_path,
        {"NATS_URL": f"nats://{login}@127.0.0.1:{port}"},
        {"NATS_URL": f"nats://{login}x@127.0.0.1:{port}"},
        "NATS 'readings.a' WITH (url = ENV 'NATS_URL')",
        "NATS 'readings.>' WITH (url = ENV 'NATS_URL', durable = 'test')",
        f"127.0.0.1:{port} does not let us in: look at the user, password or token in `url`",
    )


def mqtt_with(tmp_path: Path) -> Broker:
    path = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    assert Path(path).exists(), "install mosquitto (Debian: apt-get install mosquitto)"
    port, kept, passwords = free_port(), tmp_path / "mosquitto", tmp_path / "passwords"
    kept.mkdir()
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "ann", SECRET], check=True, timeout=60)
    user = "user root\n" if os.geteuid() == 0 else ""  # or it becomes another, who may not read here
    lines = f"listener {port} 127.0.0.1\nallow_anonymous false\npassword_file {passwords}\n"
    (tmp_path / "mosquitto.conf").write_text(f"{user}{lines}persistence true\npersistence_location {kept}/\n")
    login = f"host = '127.0.0.1', port = {port}, user = 'ann', password = ENV 'MQTT_PASSWORD'"
    return Broker(
        [path, "-c", str(tmp_path / "mosquitto.conf")],
        port,
        tmp_path,
        {"MQTT_PASSWORD": SECRET},
        {"MQTT_PASSWORD": f"{SECRET}x"},
        f"MQTT 'readings/a' WITH ({login})",
        f"MQTT 'readings/#' WITH ({login}, client = 'augury-test')",
        "does not let `ann` in: Not authorized",
    )


@pytest.fixture(params=["mqtt", "nats", "nats-token"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Broker:
    match request.param:
        case "nats":
            return nats_with(tmp_path, f"ann:{QUOTED}", ["--user", "ann", "--pass", SECRET])
        case "nats-token":
            return nats_with(tmp_path, QUOTED, ["--auth", SECRET])
        case _:
            return mqtt_with(tmp_path)


READING = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Reading (id VARCHAR, type VARCHAR) ID () LIFESPAN (1d);
"""


def detectors(
    broker: Broker, environment: Environment, variables: Mapping[str, str], sink: Remembers, told: list[str]
) -> Any:
    """A detector as a program declares it; what it hears are the envelopes that executors send."""
    folder = broker.folder / "state"
    folder.mkdir(exist_ok=True)
    with said(variables):
        found = opened(program(f"{READING}DETECT Reading FROM {broker.hears};"), environment)
    return running(Detectors(found, {"e": sink}, str(folder), environment, pace=QUICK, report=told.append))


async def keep_a_stream(broker: Broker) -> None:
    """JetStream keeps what a stream is for; MQTT what somebody has subscribed to."""
    import nats

    if "NATS_URL" in broker.right:
        url = broker.right["NATS_URL"]
        login = {"user": "ann", "password": SECRET} if "ann:" in url else {"token": SECRET}
        client = await nats.connect(f"nats://127.0.0.1:{broker.port}", **login)
        await client.jetstream().add_stream(name="READINGS", subjects=["readings.>"])
        await client.close()


def test_a_password_of_a_broker_for_executors_and_detectors(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """With a wrong one both say so once, and with the right one nothing is missing."""
    caplog.set_level(logging.DEBUG)
    sink, heard, acted = Remembers(), list[str](), list[str]()
    fill(str(broker.folder / "shop.db"), [action(number) for number in (1, 2, 3)])

    async def all_of_it() -> None:
        await keep_a_stream(broker)
        async with real() as environment:
            async with detectors(broker, environment, broker.right, sink, heard):
                await asyncio.sleep(0.5)  # until the broker has the subscription
            assert heard == []
            found = await delivered(broker.tells, broker.folder, acted, **broker.wrong)
            assert {state for state, _ in found.values()} == {State.WAITING}
            assert {broker.refusal in reason for _, reason in found.values()} == {True}
            assert len(acted) == 1
            async with detectors(broker, environment, broker.wrong, sink, heard) as refused:
                await until(lambda: bool(heard))
                await asyncio.sleep(0.5)  # it is tried again meanwhile, and told no more
                assert refused.status()["Reading"].problem is not None
            assert len(heard) == 1
            assert broker.refusal in heard[0]
            while State.WAITING in {one for one, _ in found.values()}:
                found = await delivered(broker.tells, broker.folder, acted, **broker.right)
                await asyncio.sleep(0.05)
            assert {state for state, _ in found.values()} == {State.DELIVERED}
            async with detectors(broker, environment, broker.right, sink, heard):
                await until(lambda: len(sink.events) == 3)

    with broker.server():
        run(all_of_it())
    assert sorted(identity for (identity,) in sink.values("id")) == [f"key-tell-{number}" for number in (1, 2, 3)]
    everything = logged(caplog) + "".join(heard + acted) + "".join(sink.lines)
    state = b"".join(one.read_bytes() for one in (broker.folder / "state").rglob("*") if one.is_file())
    for password in (SECRET, QUOTED):
        assert password not in everything
        assert password.encode() not in state


def test_a_password_that_is_changed_while_an_executor_is_connected(tmp_path: Path) -> None:
    """The broker comes back with another password: what is tried then says so, and nothing is taken for delivered."""
    broker = mqtt_with(tmp_path)

    async def all_of_it() -> None:
        async with real() as environment:
            executor = bound(broker.tells, environment, broker.right).carriers["tell"].executor
            with broker.server():
                assert await executor.carry_out(delivery(1), environment) == Delivered()
            words = ["mosquitto_passwd", "-b", str(tmp_path / "passwords"), "ann", "another"]
            subprocess.run(words, check=True, timeout=60)
            with broker.server():
                outcomes: list[Outcome] = []
                while not any(isinstance(one, Again) and one.is_refusal for one in outcomes):
                    outcomes.append(await executor.carry_out(delivery(2), environment))
                    await asyncio.sleep(0.1)
                assert Delivered() not in outcomes
            await executor.close()

    run(all_of_it())


def test_a_server_that_was_away_is_found_again(tmp_path: Path) -> None:
    """An executor goes on with a broker that was killed and is back, and says meanwhile that nobody answers."""
    broker = nats_with(tmp_path, f"ann:{QUOTED}", ["--user", "ann", "--pass", SECRET])

    async def all_of_it() -> None:
        async with real() as environment:
            executor = bound(broker.tells, environment, broker.right).carriers["tell"].executor
            with broker.server():
                assert await executor.carry_out(delivery(1), environment) == Delivered()
            away = await executor.carry_out(delivery(2), environment)
            while away != Again(f"no NATS server answers at 127.0.0.1:{broker.port}"):
                assert isinstance(away, Again)  # the first of them may find out only while it waits
                away = await executor.carry_out(delivery(2), environment)
            with broker.server():
                assert await executor.carry_out(delivery(2), environment) == Delivered()
                await executor.close()

    run(all_of_it())

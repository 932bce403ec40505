"""Databases, functions, and real brokers: NATS JetStream and MQTT, with restarts of either side."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from augury.algebra.wiring import Detection, Forward, SourceKind
from augury.detectors.sensor import SourceFailed
from augury.environment import real
from tests.acting.sensing import Remembers, detection, look, made, running, until

# ---- SQL -------------------------------------------------------------------------------------------------


def test_a_query_and_what_changed_in_it(tmp_path: Path) -> None:
    path, sink = tmp_path / "shop.db", Remembers()
    stock = detection(
        SourceKind.SQL,
        f"sqlite:///{path}",
        items="SELECT item AS resource, amount, changed FROM stock WHERE item <> ':x' ORDER BY item",
        fields=(("occ_time", "changed"),),
        forward=Forward.CHANGED,
        withdraws=True,
    )
    steps = [
        "CREATE TABLE stock (item TEXT, amount NUMERIC, changed TEXT);"
        "INSERT INTO stock VALUES ('milk', 2, '2026-01-01T09:00:00Z'), ('eggs', 6.5, NULL)",
        "SELECT 1",
        "UPDATE stock SET amount = 1 WHERE item = 'milk'",
        "DELETE FROM stock WHERE item = 'eggs'",
        "DELETE FROM stock",
    ]
    for step in steps:
        with closing(sqlite3.connect(path)) as database:
            database.executescript(step)
        look(tmp_path / "state", stock, sink=sink)
    told = [(e["resource"], e.get("amount"), e.get("occ_time", "-")) for e in sink.events]
    assert told == [
        ("eggs", Decimal("6.5"), "-"),
        ("milk", 2, "2026-01-01T09:00:00Z"),
        ("milk", 1, "2026-01-01T09:00:00Z"),
        ("eggs", None, None),
        ("milk", None, None),
    ]


@pytest.mark.parametrize(
    ("url", "query", "said"),
    [
        ("sqlite://", "SELECT * FROM nowhere", "no such table"),
        ("sqlite://", "CREATE TABLE a (b)", "gives rows"),
        ("nonsense", "SELECT 1", "no database"),
        ("postgresql://ann:secret@127.0.0.1:1/x", "SELECT 1", r"ann:\*\*\*@"),
    ],
)
def test_a_database_that_does_not_answer_is_told_without_its_password(
    tmp_path: Path, url: str, query: str, said: str
) -> None:
    with pytest.raises(SourceFailed, match=said) as error:
        look(tmp_path, detection(SourceKind.SQL, url, items=query))
    assert "secret" not in str(error.value)


# ---- Python ----------------------------------------------------------------------------------------------


def called(folder: Path, function: Callable[..., Any], times: int = 1, **more: Any) -> Remembers:
    """A function as a detector, started anew for every look."""
    sink = Remembers()
    for _ in range(times):
        look(folder, detection(SourceKind.PYTHON, "it", **more), functions={"it": function}, sink=sink)
    return sink


def test_a_function_goes_on_at_its_last_position(tmp_path: Path) -> None:
    def function(position: Any) -> tuple[list[dict[str, object]], object]:
        first = 0 if position is None else position["next"]
        return [{"resource": f"r{first}", "amount": first}], {"next": first + 1}

    assert called(tmp_path, function, 3).values("resource") == [("r0",), ("r1",), ("r2",)]


def test_a_function_without_a_position_lists_all_there_is(tmp_path: Path) -> None:
    listings = [["milk", "eggs"], ["eggs"], []]

    def function() -> Iterator[dict[str, str]]:
        yield from ({"resource": name} for name in listings.pop(0))

    sink = called(tmp_path, function, 3, forward=Forward.CHANGED, withdraws=True)
    assert [(e["resource"], "occ_time" in e) for e in sink.events] == [
        ("milk", False),
        ("eggs", False),
        ("milk", True),
        ("eggs", True),
    ]


def test_a_coroutine_is_awaited_and_none_is_nothing(tmp_path: Path) -> None:
    async def function(position: Any) -> None:
        await asyncio.sleep(0)

    assert called(tmp_path, function).lines == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("text", "no list of items"),
        (([], object()), "JSON cannot hold"),
        (7, "no list"),
        ({"resource": "a"}, "no list"),
    ],
)
def test_what_a_function_must_not_give(tmp_path: Path, given: object, said: str) -> None:
    with pytest.raises(SourceFailed, match=said):
        called(tmp_path, lambda position: given)


def test_a_function_that_raises_is_a_source_that_fails(tmp_path: Path) -> None:
    def function(position: Any) -> None:
        raise KeyError("nothing there")

    with pytest.raises(SourceFailed, match="raises KeyError"):
        called(tmp_path, function)


def test_a_function_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_detectors_of_a_test.py").write_text("def all(position):\n    return [{'resource': 'milk'}]\n")
    monkeypatch.syspath_prepend(tmp_path)
    sink = look(tmp_path / "state", detection(SourceKind.PYTHON, "own_detectors_of_a_test:all"))
    assert sink.values("resource") == [("milk",)]


# ---- servers ---------------------------------------------------------------------------------------------


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Server:
    """A broker as a process, which can be killed and started again on what it has kept."""

    def __init__(self, words: list[str], port: int) -> None:
        self.words, self.port = words, port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", self.port), 1)):
                return
            assert self.process.poll() is None, f"{self.words[0]} has ended"
            time.sleep(0.025)
        raise AssertionError(f"{self.words[0]} does not answer")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[Server]:
    path = shutil.which("nats-server") or str(Path(sys.executable).with_name("nats-server"))
    port = free_port()
    words = [path, "--jetstream", "--store_dir", str(tmp_path / "nats"), "--addr", "127.0.0.1", "--port", str(port)]
    server = Server(words, port)
    yield server
    server.kill()


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Server]:
    path = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    assert Path(path).exists(), "install mosquitto (Debian: apt-get install mosquitto)"
    port = free_port()
    kept = tmp_path / "mosquitto"
    kept.mkdir()
    settings = f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {kept}/\n"
    user = "user root\n" if os.geteuid() == 0 else ""  # or it becomes another, who may not write here
    (tmp_path / "mosquitto.conf").write_text(f"{user}{settings}autosave_interval 1\nautosave_on_changes true\n")
    server = Server([path, "-c", str(tmp_path / "mosquitto.conf")], port)
    yield server
    server.kill()


def reading(sensor: int) -> bytes:
    return json.dumps({"sensor": sensor, "heat": 1.5}).encode()


class Nats:
    """The other side of a NATS server."""

    def __init__(self, server: Server) -> None:
        self.server, self.url = server, f"nats://127.0.0.1:{server.port}"

    def detection(self) -> Detection:
        settings = (("url", self.url), ("durable", "test"))
        return detection(SourceKind.NATS, "readings.>", event_class="Reading", settings=settings)

    async def send(self, *messages: bytes) -> None:
        import nats

        client = await nats.connect(self.url)
        with suppress(Exception):
            await client.jetstream().add_stream(name="READINGS", subjects=["readings.>"])
        for message in messages:
            await client.jetstream().publish("readings.a", message)
        await client.close()

    async def wait_for_acknowledgements(self, seconds: float) -> None:
        """Let the server send again what is not acknowledged after so long."""
        import nats
        from nats.js.api import ConsumerConfig

        client = await nats.connect(self.url)
        config = ConsumerConfig(durable_name="test", ack_wait=seconds, filter_subject="readings.>")
        await client.jetstream().add_consumer("READINGS", config)
        await client.close()


class Mqtt:
    """The other side of an MQTT broker."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def detection(self) -> Detection:
        settings = (("host", "127.0.0.1"), ("port", self.server.port), ("client", "augury-test"))
        return detection(SourceKind.MQTT, "readings/#", event_class="Reading", settings=settings)

    async def send(self, *messages: bytes, is_kept: bool = False) -> None:
        """Publish them; of those that are kept who subscribes later gets the last."""
        await asyncio.to_thread(self._send, messages, is_kept)

    def _send(self, messages: tuple[bytes, ...], is_kept: bool) -> None:
        from paho.mqtt import client as mqtt
        from paho.mqtt.enums import CallbackAPIVersion

        client = mqtt.Client(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", self.server.port)
        client.loop_start()
        for message in messages:
            client.publish("readings/a", message, qos=1, retain=is_kept).wait_for_publish(10)
        client.disconnect()
        client.loop_stop()


@pytest.fixture(params=["nats", "mqtt"])
def broker(request: pytest.FixtureRequest) -> Nats | Mqtt:
    if request.param == "nats":
        return Nats(request.getfixturevalue("nats_server"))
    return Mqtt(request.getfixturevalue("mosquitto"))


def sensors(sink: Remembers) -> list[object]:
    return sorted(sensor for (sensor,) in sink.values("sensor"))


def test_messages_are_taken_once_over_restarts_of_detectors_and_broker(tmp_path: Path, broker: Nats | Mqtt) -> None:
    sink, told = Remembers(), list[str]()

    async def all_of_it() -> None:
        await broker.send()  # a stream has to be there before somebody asks for it
        async with real() as environment:

            def start() -> Any:
                folder = tmp_path / "state"
                return running(made(folder, environment, [broker.detection()], {"e": sink}, report=told.append))

            async with start():
                await asyncio.sleep(0.3)  # until the broker has the subscription: before it MQTT keeps nothing
                await broker.send(*map(reading, range(3)))
                await until(lambda: sensors(sink) == [0, 1, 2])
            await broker.send(reading(3), b"[" + reading(4) + b"," + reading(5) + b"]", b"nonsense")
            async with start() as detectors:
                await until(lambda: sensors(sink) == [0, 1, 2, 3, 4, 5] and "nonsense" in sink.lines)
                await asyncio.sleep(1.2)  # for mosquitto saves what it keeps once a second
                broker.server.kill()
                await until(lambda: bool(told) and detectors.status()["Reading"].problem is not None)
                broker.server.start()
                await broker.send(reading(6))
                await until(lambda: 6 in sensors(sink))
                detectors.pause("Reading")
                await broker.send(reading(7))
                await asyncio.sleep(0.3)
                assert 7 not in sensors(sink)
                detectors.resume("Reading")
                await until(lambda: 7 in sensors(sink))

    asyncio.run(all_of_it())
    assert sensors(sink) == list(range(8))


def test_of_nats_the_stream_that_is_named_is_taken(tmp_path: Path, nats_server: Server) -> None:
    """One that is not there is told, though another has the subject."""
    broker, sink, told = Nats(nats_server), Remembers(), list[str]()

    async def look(stream: str, enough: Callable[[], bool]) -> None:
        found = broker.detection()
        wanted = replace(found, name=stream, settings=(*found.settings[:1], ("durable", stream), ("stream", stream)))
        async with (
            real() as environment,
            running(made(tmp_path / stream, environment, [wanted], {"e": sink}, report=told.append)),
        ):
            await until(enough)

    async def all_of_it() -> None:
        await broker.send(reading(1), reading(2))
        await look("READINGS", lambda: sensors(sink) == [1, 2])
        await look("NOWHERE", lambda: bool(told))

    asyncio.run(all_of_it())
    assert sensors(sink) == [1, 2]
    assert "the subject needs a stream of JetStream that keeps it" in told[0]


def test_of_mqtt_with_qos_0_only_what_is_sent_meanwhile_comes(tmp_path: Path, mosquitto: Server) -> None:
    """Messages that the broker keeps say that the detector listens, each time it begins to."""
    sink, broker = Remembers(), Mqtt(mosquitto)
    found = broker.detection()
    wanted = replace(found, settings=(*found.settings, ("qos", 0)))

    async def has_come(sensor: int) -> None:
        await until(lambda: sensor in sensors(sink), 60)

    async def all_of_it() -> None:
        async with real() as environment:
            for kept, meanwhile, afterwards in ((0, 1, 2), (3, 4, 5)):
                await broker.send(reading(kept), is_kept=True)
                async with running(made(tmp_path / "state", environment, [wanted], {"e": sink})):
                    await has_come(kept)
                    await broker.send(reading(meanwhile))
                    await has_come(meanwhile)
                await broker.send(reading(afterwards))

    asyncio.run(all_of_it())
    assert sensors(sink) == [0, 1, 3, 4]


def test_detectors_end_while_messages_come(tmp_path: Path, broker: Nats | Mqtt) -> None:
    async def all_of_it() -> None:
        await broker.send()
        over = asyncio.Event()

        async def go_on() -> None:
            while not over.is_set():
                await broker.send(*map(reading, range(20)))

        sending = asyncio.create_task(go_on())
        async with real() as environment:
            for number in range(8):
                sink = Remembers()
                async with running(made(tmp_path / str(number), environment, [broker.detection()], {"e": sink})):
                    await until(lambda sink=sink: bool(sink.lines))  # type: ignore[misc]
        over.set()
        await sending

    asyncio.run(all_of_it())


@pytest.mark.parametrize("forgets", [False, True])
def test_what_was_kept_and_not_acknowledged_comes_again_and_is_absorbed(
    tmp_path: Path, broker: Nats | Mqtt, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """Who forgets what it has seen shows that it does come again."""
    from augury.detectors import mqtt_topics, nats_stream

    sink = Remembers()

    async def lost(*_: object) -> None:
        """An acknowledgement that never arrives, as when the process is killed before it is sent."""

    async def all_of_it() -> None:
        await broker.send()
        if isinstance(broker, Nats):
            await broker.wait_for_acknowledgements(0.5)
        async with real() as environment:
            wanted = broker.detection()
            async with running(made(tmp_path / "state", environment, [wanted], {"e": sink})):
                await asyncio.sleep(0.3)
                with monkeypatch.context() as patch:
                    patch.setattr(nats_stream, "_acknowledged", lost)
                    patch.setattr(mqtt_topics, "_acknowledged", lost)
                    await broker.send(reading(1), reading(1))
                    await until(lambda: len(sink.lines) == 2)
            if forgets:
                shutil.rmtree(tmp_path / "state")
            async with running(made(tmp_path / "state", environment, [wanted], {"e": sink})):
                await asyncio.sleep(0.7)
                await broker.send(reading(2))
                await until(lambda: 2 in sensors(sink))

    asyncio.run(all_of_it())
    if isinstance(broker, Nats):
        # The engine absorbs them by their ids, which are those of their places in the stream, whoever forgets.
        assert len(sink.lines) == 5
        assert sensors(sink) == [1, 1, 2]
    else:
        assert sensors(sink) == ([1, 1, 1, 1, 2] if forgets else [1, 1, 2])


@pytest.mark.parametrize("kind", [SourceKind.NATS, SourceKind.MQTT])
def test_a_broker_that_is_not_there_is_told_once(tmp_path: Path, kind: SourceKind) -> None:
    told: list[str] = []
    port = free_port()
    settings = (("url", f"nats://127.0.0.1:{port}"),) if kind is SourceKind.NATS else (("port", port),)

    async def all_of_it() -> None:
        async with real() as environment:
            wanted = detection(kind, "a", event_class="Reading", settings=settings)
            async with running(made(tmp_path, environment, [wanted], {}, report=told.append)):
                await until(lambda: bool(told))
                await asyncio.sleep(0.3)

    asyncio.run(all_of_it())
    assert len(told) == 1
    assert "answers at" in told[0]

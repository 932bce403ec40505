"""Detectors and engines as processes of their own: the groceries with two engines, of which one is killed; commands."""

from __future__ import annotations

import asyncio
import fcntl
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from aiohttp import web
from typer.testing import CliRunner

from augury import cli_detectors, cli_server
from augury.detectors.http_sink import HttpSink
from augury.detectors.sinks import NotTaken
from augury.environment import Request, real
from augury.local.store.asking import Question, ask, ask_log
from tests.acting.sensing import serving

GROCERIES = Path(__file__).parents[2] / "examples" / "groceries" / "groceries.bicepl"
COMMAND = (
    "import typer; from augury import cli_detectors, cli_server; app = typer.Typer(); "
    "cli_detectors.register(app); cli_server.register(app); app()"
)

DETECTS = """
DETECT ResourceEmpty FROM FILE '{folder}/fridge.jsonl' EVERY 1s;
DETECT ResourceLow FROM FILE '{folder}/fridge.jsonl' EVERY 1s;
DETECT ResourceExpiring FROM DIRECTORY '{folder}/labels' EVERY 1s;
DETECT Delivery FROM HTTP '{url}/deliveries.json' EVERY 1s ITEMS '$.deliveries[*]'
  FIELDS (resource = 'item', amount = 'size.amount', occ_time = 'due') FORWARD CHANGED WITHDRAW VANISHED;
"""
"""Four detectors of three kinds, as the fridge of the thesis has four."""


def free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Process:
    """A command that goes on, and can be killed and started again."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self.words = [sys.executable, "-c", COMMAND, *words]
        self.told = folder / f"{name}.told"
        self.start()

    def start(self) -> None:
        with self.told.open("ab") as file:
            self.process = subprocess.Popen(self.words, stdout=file, stderr=file)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for one in started:
        one.kill()


async def asked(url: str, method: str = "GET", body: bytes = b"", token: str | None = None) -> Any:
    """Status and content of an answer."""
    async with real() as environment:
        headers = {"content-type": "application/x-ndjson"}
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        request = Request(method, url, headers, body)
        answer = await environment.network.request(request)
        return answer.status, json.loads(answer.body)


async def until_told(url: str, holds: Callable[[Any], bool], token: str | None = None, seconds: float = 100.0) -> None:
    """Ask until the answer is as it should be."""
    over = time.monotonic() + seconds
    last: object = None
    while time.monotonic() < over:
        try:
            status, last = await asked(url, token=token)
            if status == 200 and holds(last):
                return
        except OSError as error:
            last = error
        await asyncio.sleep(0.1)
    raise AssertionError(f"{url} says {last}")


def _is_past(seen: tuple[object, ...], told: Any) -> bool:
    return told["tick"] not in seen


def history(store: Path, name: str, is_subscribed: bool) -> list[dict[str, Any]]:
    """The versions of a class; with when each was detected, as its source says, if it has one."""
    table: pa.Table = ask(str(store), Question(name)).table
    rows = table.to_pylist()
    # Who was gone for a while reads at other ticks, and so in another order among the classes.
    own = ("tick", "det_time", "source_time", "seq", "constituents")
    kept = [{name: value for name, value in row.items() if name not in own} for row in rows]
    if is_subscribed:
        for new, row in zip(kept, rows, strict=True):
            new["det_time"] = row.get("source_time") or row["det_time"]
    return kept


def test_the_groceries_with_two_engines_of_which_one_is_killed(tmp_path: Path, processes: list[Process]) -> None:
    stock: dict[str, tuple[float, str]] = {
        "butter": (2, "2036-03-04T10:00:00Z"),
        "eggs": (12, "2036-03-04T16:00:00Z"),
    }

    async def deliveries(request: web.Request) -> web.Response:
        items = [{"item": name, "size": {"amount": a}, "due": due} for name, (a, due) in stock.items()]
        return web.json_response({"deliveries": items})

    def says(event: str, resource: str, **more: object) -> None:
        with (tmp_path / "fridge.jsonl").open("a") as file:
            file.write(json.dumps({"event": event, "resource": resource, **more}) + "\n")

    def label(resource: str, expires: str) -> None:
        (tmp_path / "labels" / f"{resource}.csv").write_text(f"resource,occ_time\n{resource},{expires}\n")

    stores = [tmp_path / "one.db", tmp_path / "two.db"]
    ports = [free_port() for _ in range(3)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    (tmp_path / "labels").mkdir()

    async def all_of_it() -> None:
        async with serving({"/deliveries.json": deliveries}) as url:
            text = GROCERIES.read_text("utf-8").replace("SET CHRONON 15m;", "SET CHRONON 1s;")
            program = tmp_path / "groceries.bicepl"
            program.write_text(text + DETECTS.format(folder=tmp_path, url=url), "utf-8")
            says("ResourceLow", "butter", amountLeft=0.1)
            says("ResourceEmpty", "milk")
            label("yogurt", "2036-03-08T00:00:00Z")
            for number in range(2):
                words = ("serve", str(program), "--store", str(stores[number]), "--port", str(ports[number]), "--open")
                processes.append(Process(tmp_path, f"engine{number}", *words))
            to = ("--to", urls[0], "--to", urls[1], "--state", str(tmp_path / "state"), "--port", str(ports[2]))
            processes.append(Process(tmp_path, "sense", "sense", str(program), *to, "--open"))
            _, second, sense = processes

            def taken(counts: dict[str, int], *engines: str) -> Callable[[Any], bool]:
                return lambda told: all(
                    told[name]["forwarded"] >= count and all(told[name]["untaken"][one] == 0 for one in engines)
                    for name, count in counts.items()
                )

            first_events = {"ResourceLow": 1, "ResourceEmpty": 1, "ResourceExpiring": 1, "Delivery": 2}
            await until_told(f"{urls[2]}/health", taken(first_events, *urls[:2]))
            second.kill()
            says("ResourceLow", "eggs", amountLeft=2)
            label("cream", "2036-03-09T00:00:00Z")
            stock["butter"] = (2, "2036-03-05T10:00:00Z")
            del stock["eggs"]
            more_events = {"ResourceLow": 2, "ResourceEmpty": 1, "ResourceExpiring": 2, "Delivery": 4}
            await until_told(f"{urls[2]}/health", taken(more_events, urls[0]))
            _, told = await asked(f"{urls[2]}/health")
            assert all(told[name]["untaken"][urls[1]] > 0 for name in ("ResourceLow", "ResourceExpiring", "Delivery"))
            await until_told(f"{urls[0]}/v1/engine", lambda health: health["tick"] is not None)
            sense.kill()
            sense.start()
            second.start()
            says("ResourceEmpty", "juice")
            await until_told(f"{urls[2]}/health", taken({"ResourceEmpty": 1}, *urls[:2]))
            await until_told(f"{urls[2]}/health", taken(dict.fromkeys(more_events, 0), *urls[:2]))
            for url in urls[:2]:
                _, health = await asked(f"{url}/v1/engine")
                seen = (None, health["tick"])
                await until_told(f"{url}/v1/engine", partial(_is_past, seen))
        assert [one.end() for one in processes] == [0, 0, 0]

    asyncio.run(all_of_it())
    counts = {"ResourceLow": 2, "ResourceEmpty": 2, "ResourceExpiring": 2, "Delivery": 4}
    for name, count in counts.items():
        first, second = (history(store, name, True) for store in stores)
        assert len(first) == count, name
        assert first == second
    for name in ("ReplenishingNeeded", "InstantReplenishingNeeded"):
        first, second = (history(store, name, False) for store in stores)
        assert len(first) >= 2, name
        assert sorted(map(str, first)) == sorted(map(str, second))
    assert [ask_log(str(store), "rejected").table.num_rows for store in stores] == [0, 0]
    assert "does not answer" in (tmp_path / "sense.told").read_text()


# ---- engines behind HTTP ----------------------------------------------------------------------------------


def test_what_is_no_engine_takes_nothing() -> None:
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def all_of_it() -> None:
        async with serving({"/v1/events": hello}) as url, real() as environment:
            with pytest.raises(NotTaken, match="no engine of Augury"):
                await HttpSink(url, environment).take(["{}"])

    asyncio.run(all_of_it())


# ---- commands --------------------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    cli_detectors.register(app)
    cli_server.register(app)
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


CLASS = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item VARCHAR, n INT) ID (item) LIFESPAN (1d);\n"


@pytest.mark.parametrize(
    ("text", "words", "code", "said"),
    [
        (CLASS, ("--to", "http://127.0.0.1:1"), 2, "detects nothing"),
        (CLASS, ("--to", "127.0.0.1"), 2, "begins with"),
        ("CREATE;", ("--to", "http://127.0.0.1:1"), 1, "error[E"),
        (CLASS + "DETECT Stock FROM PYTHON 'nowhere_at_all:f' EVERY 1s;", ("--to", "http://a"), 2, "cannot be had"),
        (CLASS + "DETECT Stock FROM FILE 'gone.jsonl';", ("--to", "http://127.0.0.1:1", "--once"), 1, "no file"),
    ],
)
def test_sense_says_what_is_wrong(tmp_path: Path, text: str, words: tuple[str, ...], code: int, said: str) -> None:
    (tmp_path / "a.bicepl").write_text(text)
    found = command("sense", str(tmp_path / "a.bicepl"), "--state", str(tmp_path / "state"), *words)
    assert found[0] == code
    assert said in found[1]


def test_two_must_not_remember_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "a.bicepl").write_text(f"{CLASS}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
    words = ("sense", str(tmp_path / "a.bicepl"), "--to", "http://127.0.0.1:1", "--state", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    with (tmp_path / "state" / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        code, said = command(*words, "--once")
        assert (code, "other detectors use" in said) == (2, True)
    assert command(*words, "--once") == (0, "")


def test_an_engine_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.bicepl").write_text(CLASS)
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        words = ("--store", str(tmp_path / "a.db"), "--port", str(sock.getsockname()[1]))
        code, said = command("serve", str(tmp_path / "a.bicepl"), *words)
    assert (code, "nothing can listen" in said) == (2, True)
    (tmp_path / "bad.db").write_text("this is no database at all, and longer than a header of one would be" * 20)
    code, said = command("serve", str(tmp_path / "a.bicepl"), "--store", str(tmp_path / "bad.db"), "--port", "0")
    assert code == 2
    assert said.startswith("error:")


def test_an_engine_runs_its_detectors_in_its_own_process(tmp_path: Path, processes: list[Process]) -> None:
    (tmp_path / "a.jsonl").write_text('{"item": "milk", "n": 3}\n')
    (tmp_path / "a.bicepl").write_text(f"SET CHRONON 1s;\n{CLASS}DETECT Stock FROM FILE '{tmp_path}/a.jsonl';")
    port, store = free_port(), tmp_path / "a.db"
    words = ("serve", str(tmp_path / "a.bicepl"), "--store", str(store), "--port", str(port), "--open")
    processes.append(Process(tmp_path, "server", *words, "--state", str(tmp_path / "state")))

    async def wait() -> None:
        await until_told(f"http://127.0.0.1:{port}/v1/engine", lambda told: told["tick"] is not None)

    asyncio.run(wait())
    over = time.monotonic() + 30
    while ask(str(store), Question("Stock")).table.num_rows == 0 and time.monotonic() < over:
        time.sleep(0.1)
    assert processes[0].end() == 0
    assert ask(str(store), Question("Stock")).table.select(["item", "n"]).to_pylist() == [{"item": "milk", "n": 3}]


def test_sense_pauses_one_detector_and_goes_on_with_it(tmp_path: Path, processes: list[Process]) -> None:
    """Another detector of the same file shows that there was time to look."""
    file, took = tmp_path / "a.jsonl", list[str]()
    file.write_text('{"item": "milk", "n": 0}\n')
    detects = f"DETECT Stock FROM FILE '{file}' EVERY 1s; DETECT Stock AS other FROM FILE '{file}' EVERY 1s;"
    (tmp_path / "a.bicepl").write_text(f"{CLASS}{detects}")
    port = free_port()
    sense = f"http://127.0.0.1:{port}"

    async def take(request: web.Request) -> web.Response:
        lines = (await request.text()).splitlines()
        took.extend(lines)
        return web.json_response({"accepted": len(lines), "refused": []})

    async def all_of_it() -> None:
        async with serving({"/v1/events": take}) as engine:
            words = ("--to", engine, "--state", str(tmp_path / "state"), "--port", str(port), "--open")
            processes.append(Process(tmp_path, "sense", "sense", str(tmp_path / "a.bicepl"), *words))
            await until_told(f"{sense}/health", lambda told: told["Stock"]["forwarded"] == 1)
            status, told = await asked(f"{sense}/detectors/Stock/pause", "POST")
            assert (status, told["Stock"]["is_paused"], told["other"]["is_paused"]) == (200, True, False)
            for n in range(1, 4):
                with file.open("a") as more:
                    more.write(f'{{"item": "milk", "n": {n}}}\n')
                await until_told(f"{sense}/health", partial(_has_forwarded, "other", n + 1))
            _, told = await asked(f"{sense}/health")
            assert (told["Stock"]["forwarded"], told["Stock"]["is_paused"]) == (1, True)
            status, told = await asked(f"{sense}/detectors/Socks/resume", "POST")
            assert (status, told["error"]) == (404, "there is no detector `Socks`; there are Stock, other")
            assert (await asked(f"{sense}/detectors/Socks/pause", "POST"))[0] == 404
            status, told = await asked(f"{sense}/detectors/Stock/resume", "POST")
            assert (status, told["Stock"]["is_paused"]) == (200, False)
            await until_told(f"{sense}/health", partial(_has_forwarded, "Stock", 4))
            await until_told(f"{sense}/health", lambda told: not any(told["Stock"]["untaken"].values()))
            await until_told(f"{sense}/health", lambda told: not any(told["other"]["untaken"].values()))
        assert processes[0].end() == 0

    asyncio.run(all_of_it())
    assert sorted(json.loads(line)["n"] for line in took) == [0, 0, 1, 1, 2, 2, 3, 3]


def _has_forwarded(name: str, count: int, told: Any) -> bool:
    return bool(told[name]["forwarded"] == count)

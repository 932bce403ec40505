"""Executors as a process of their own that serves two engines, of which one is killed, and so is it; and all in one."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from aiohttp import web
from typer.testing import CliRunner

from augury.actions.binding import Elsewhere, Surroundings, wire
from augury.actions.deliver import Deliverer, Ends
from augury.actions.outbox import MemoryOutbox
from augury.actions.run import opened
from augury.algebra.program import Program
from augury.api import compile
from augury.cli_actions import register as register_actions
from augury.cli_detectors import register as register_detectors
from augury.cli_server import register as register_server
from augury.environment import real
from augury.local.store.asking import Question, ask
from augury.local.store.waiting import Listed, State, Wanted
from augury.server.living import Serving, live_server
from augury.server.tokens import Role, add_token
from tests.acting.sensing import serving
from tests.acting.targets import SHOP, action, fill, program
from tests.acting.test_detectors_apart import DETECTS, GROCERIES, Process, asked, free_port, history, until_told

COMMAND = (
    "import typer; from augury import cli_actions, cli_detectors, cli_server; app = typer.Typer(); "
    "cli_actions.register(app); cli_detectors.register(app); cli_server.register(app); app()"
)
SECRET = "whsec_c2VjcmV0IG9mIHRoZSBmcmlkZ2U="


class Apart(Process):
    """A command that goes on, of engines, detectors or executors."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self.words = [sys.executable, "-c", COMMAND, *words]
        self.told = folder / f"{name}.told"
        self.start()


@pytest.fixture
def processes() -> Iterator[list[Apart]]:
    started: list[Apart] = []
    yield started
    for one in started:
        one.kill()


def outbox_of(store: Path) -> list[Listed]:
    with opened(str(store)) as outbox:
        return list(outbox.listed(Wanted()))


async def until(holds: Callable[[], bool], what: Callable[[], object], seconds: float = 180.0) -> None:
    """Look until it is as it should be."""
    over = time.monotonic() + seconds
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < over, str(what())
        await asyncio.sleep(0.1)


async def ended(task: asyncio.Task[None], what: Callable[[], object], seconds: float = 180.0) -> None:
    """Wait for the end of something, and for what it raises."""
    done, _ = await asyncio.wait([task], timeout=seconds)
    assert done, f"it has not ended within {seconds:g} s: {what()}"
    await task


def settled(store: Path, count: int) -> Callable[[], bool]:
    """Whether as many actions have fired, and all are delivered."""

    def holds() -> bool:
        found = outbox_of(store)
        return len(found) >= count and all(one.state is State.DELIVERED for one in found)

    return holds


def taken(counts: dict[str, int], *engines: str) -> Callable[[Any], bool]:
    """Whether detectors let as many events through, and engines have taken all of them."""
    return lambda told: all(
        told[name]["forwarded"] >= count and all(told[name]["untaken"][one] == 0 for one in engines)
        for name, count in counts.items()
    )


def test_the_groceries_with_two_engines_and_one_process_of_executors_all_killed(
    tmp_path: Path, processes: list[Apart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FRIDGE_SECRET", SECRET)
    tokens = tmp_path / "tokens"
    monkeypatch.setenv("AUGURY_TOKEN", owner := add_token(tokens, "owner", (Role.ADMIN,)))
    stock = {"butter": (2, "2036-03-04T10:00:00Z")}

    async def deliveries(request: web.Request) -> web.Response:
        items = [{"item": name, "size": {"amount": a}, "due": due} for name, (a, due) in stock.items()]
        return web.json_response({"deliveries": items})

    def says(event: str, resource: str, **more: object) -> None:
        with (tmp_path / "fridge.jsonl").open("a") as file:
            file.write(json.dumps({"event": event, "resource": resource, **more}) + "\n")

    names = ["one", "two"]
    stores = [tmp_path / f"{name}.db" for name in names]
    ports = [free_port() for _ in range(4)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    first, second, sense, act = urls
    (tmp_path / "labels").mkdir()
    done = tmp_path / "done.db"
    bound = "".join(
        f'[actions.bind.{action}]\nto = "SQL"\ntarget = "sqlite:///{done}"\ntable = "done"\n'
        for action in ("informOwner", "orderResource", "order1Day", "twitterEarlyDelivery")
    )
    (tmp_path / "bound.toml").write_text(bound)

    async def all_of_it() -> None:
        async with serving({"/deliveries.json": deliveries}) as url:
            text = GROCERIES.read_text("utf-8").replace("SET CHRONON 15m;", "SET CHRONON 1s;")
            groceries = tmp_path / "groceries.bicepl"
            groceries.write_text(text + DETECTS.format(folder=tmp_path, url=url), "utf-8")
            says("ResourceLow", "butter", amountLeft=0.1)
            says("ResourceEmpty", "milk")
            secret = ("--secret-env", "FRIDGE_SECRET", "--tokens", str(tokens))
            for name, store, port in zip(names, stores, ports, strict=False):
                words = ("--store", str(store), "--port", str(port), "--name", name, "--act-at", act, *secret)
                processes.append(Apart(tmp_path, name, "serve", str(groceries), *words))
            state = ("--state", str(tmp_path / "state"), "--port", str(ports[2]), "--open")
            processes.append(Apart(tmp_path, "sense", "sense", str(groceries), "--to", first, "--to", second, *state))
            bindings = ("--settings", str(tmp_path / "bound.toml"), "--port", str(ports[3]), *secret)
            processes.append(Apart(tmp_path, "act", "act", str(groceries), *bindings))
            _, two, _, executors = processes
            await until_told(
                f"{sense}/health", taken({"ResourceLow": 1, "ResourceEmpty": 1, "Delivery": 1}, first, second)
            )
            # Of two versions within one chronon conditions see the last, which would be announced and not delayed.
            await asyncio.sleep(2.0)
            for store in stores:
                await until(settled(store, 2), lambda: [outbox_of(store) for store in stores])
            assert (await asked(f"{act}/health"))[0] == 401
            _, told = await asked(f"{act}/health", token=owner)
            assert (told["delivered"], told["dead"]) == (4, 0)

            executors.kill()
            says("ResourceLow", "eggs", amountLeft=2)
            stock["butter"] = (2, "2036-03-05T10:00:00Z")
            for url_ in (first, second):
                await until_told(f"{url_}/v1/engine", lambda health: health["actions"]["again"] > 0, owner)
            executors.start()
            two.kill()
            says("ResourceEmpty", "juice")
            await until_told(f"{sense}/health", taken({"ResourceEmpty": 2, "Delivery": 2}, first))
            _, told = await asked(f"{sense}/health")
            assert told["ResourceEmpty"]["untaken"][second] > 0
            two.start()
            await until_told(f"{sense}/health", taken({"ResourceEmpty": 2, "Delivery": 2}, first, second))
            for store in stores:
                await until(settled(store, 5), lambda: [outbox_of(store) for store in stores])
        assert [one.end() for one in processes] == [0, 0, 0, 0]

    asyncio.run(all_of_it())
    for name, count in {"ResourceLow": 2, "ResourceEmpty": 2, "Delivery": 2}.items():
        one, other = (history(store, name, True) for store in stores)
        assert len(one) == count, name
        assert one == other
    for name in ("ReplenishingNeeded", "InstantReplenishingNeeded"):
        one, other = (history(store, name, False) for store in stores)
        assert len(one) == 2, name
        assert sorted(map(str, one)) == sorted(map(str, other))
    with closing(sqlite3.connect(done)) as connection:
        rows = connection.execute("SELECT idempotency_key, action, arguments FROM done").fetchall()
    fired = {
        (f"{name}:{one.action.idempotency_key}", one.action.action, one.action.arguments)
        for name, store in zip(names, stores, strict=True)
        for one in outbox_of(store)
    }
    assert len(rows) == len(fired) == 10
    assert set(rows) == fired


SLOW = """
import time
from pathlib import Path

def tell(what, delivery):
    with Path("done").open("a") as file:
        file.write(delivery.key + "\\n")
    time.sleep(60 if Path("slow").exists() else 0)
"""


def test_what_was_under_way_when_executors_were_killed_is_done_again(
    tmp_path: Path, processes: list[Apart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("slow_fridge.py").write_text(SLOW)
    Path("slow").touch()
    Path("shop.bicepl").write_text(f"{SHOP}BIND tell TO PYTHON 'slow_fridge:tell' WITH (timeout = 70s);")
    port, done = free_port(), Path("done")
    processes.append(Apart(tmp_path, "act", "act", "shop.bicepl", "--port", str(port), "--open"))
    outbox = MemoryOutbox([action(1)])

    async def all_of_it() -> None:
        async with real() as environment:
            there = Elsewhere(f"http://127.0.0.1:{port}")
            wired = wire(Surroundings(program(), engine="kitchen", elsewhere=there), environment)
            delivering = asyncio.create_task(Deliverer(outbox, wired.carriers, environment).run(Ends.SETTLED))
            await until(done.exists, processes[0].told.read_text)
            processes[0].kill()
            Path("slow").unlink()
            processes[0].start()
            await ended(delivering, processes[0].told.read_text)

    asyncio.run(all_of_it())
    assert [one.state for one in outbox.listed(Wanted())] == [State.DELIVERED]
    assert done.read_text().split() == ["kitchen:key-tell-1"] * 2
    assert processes[0].end() == 0


# ---- events that become of actions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["actions run", "act"])
def test_actions_become_events_of_an_engine_behind_http(
    tmp_path: Path, processes: list[Apart], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Two stores have the same actions, as after a crash that forgot what was delivered: the engine absorbs them."""
    monkeypatch.chdir(tmp_path)
    Path("shop.bicepl").write_text(f"SET CHRONON 1s;{SHOP}BIND order TO EVENT Approved;BIND tell TO LOG;")
    store, stores = tmp_path / "engine.db", [tmp_path / "one.db", tmp_path / "two.db"]
    for one in stores:
        fill(str(one), [action(1, "order", None, "milk", 2.5), action(2, "order", None, "beer", "much")])
    port, other = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    post, read = (add_token(tmp_path / "engine.db.tokens", role.value, (role,)) for role in (Role.POST, Role.READ))
    monkeypatch.setenv("MAY_POST", post)
    to = ("--to", url, "--token-env", "MAY_POST")
    processes.append(Apart(tmp_path, "server", "serve", "shop.bicepl", "--store", str(store), "--port", str(port)))
    if way == "act":
        processes.append(Apart(tmp_path, "act", "act", "shop.bicepl", "--port", str(other), "--open", *to))
        to = ("--act-at", f"http://127.0.0.1:{other}", "--name", "kitchen")

    async def all_of_it() -> None:
        await until_told(f"{url}/v1/engine", lambda told: told["tick"] is not None, read)
        if way == "act":
            await until_told(f"http://127.0.0.1:{other}/health", lambda told: told["delivered"] == 0)
        for one in stores:
            words = ("actions", "run", "shop.bicepl", "--store", str(one), "--once", *to)
            code, said = await asyncio.to_thread(command, *words)
            assert (code, said.splitlines()[-1]) == (0, "1 delivered, 1 dead"), said
        await until(lambda: bool(approved(store)), lambda: approved(store))

    asyncio.run(all_of_it())
    assert [one.end() for one in processes] == [0] * len(processes)
    key = "kitchen:key-order-1" if way == "act" else "key-order-1"
    assert approved(store) == [("milk", Decimal("2.5"), key)]
    for one in stores:
        _, dead = outbox_of(one)
        assert dead.state is State.DEAD
        assert "the engine refused the event" in dead.reason
        assert "much" in dead.reason


def approved(store: Path) -> list[tuple[Any, ...]]:
    """What the engine has, each with its id."""
    rows = ask(str(store), Question("Approved")).table.to_pylist()
    return [(row["resource"], row["amount"], row["event_id"]) for row in rows]


# ---- all in one process ------------------------------------------------------------------------------------------

STOCK = """
SET CHRONON 1s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item STRING, n INT) ID (item) LIFESPAN (1d)
  ON ANNOUNCEMENT DO tell(NEW.item), order(NEW.item, NEW.n);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (item STRING, n INT) ID () LIFESPAN (1d);
DETECT Stock FROM FILE '{folder}/stock.jsonl' EVERY 1s;
BIND tell TO SQL 'sqlite:///{folder}/told.db' WITH (table = 'told');
BIND order TO EVENT Ordered;
"""


def stock_program(folder: Path) -> Program:
    text = STOCK.format(folder=folder)
    (folder / "stock.bicepl").write_text(text)
    return compile(text, "stock.bicepl")


def add_stock(folder: Path, item: str) -> None:
    with (folder / "stock.jsonl").open("a") as file:
        file.write(json.dumps({"item": item, "n": 3}) + "\n")


def items(store: Path, name: str) -> list[str]:
    return sorted(ask(str(store), Question(name)).table.column("item").to_pylist())


def test_one_process_senses_and_acts_and_each_is_paused_alone(tmp_path: Path, processes: list[Apart]) -> None:
    stock_program(tmp_path)
    add_stock(tmp_path, "milk")
    port, store = free_port(), tmp_path / "a.db"
    url = f"http://127.0.0.1:{port}"
    token = add_token(tmp_path / "a.db.tokens", "operator", (Role.ADMIN,))
    words = ("serve", str(tmp_path / "stock.bicepl"), "--store", str(store), "--port", str(port), "--sense", "--act")
    processes.append(Apart(tmp_path, "server", *words))

    async def all_of_it() -> None:
        await until_told(f"{url}/v1/engine", lambda told: told["actions"]["delivered"] == 2, token)
        assert await asked(f"{url}/v1/delivery/pause", "POST", token=token) == (
            200,
            {"paused": True, "delivered": 2, "again": 0, "dead": 0},
        )
        add_stock(tmp_path, "eggs")
        await until(lambda: len(outbox_of(store)) == 4, lambda: outbox_of(store))
        status, told = await asked(f"{url}/v1/detectors/Stock/pause", "POST", token=token)
        assert (status, told["detectors"]["Stock"]["is_paused"]) == (200, True)
        assert (await asked(f"{url}/v1/detectors/Socks/pause", "POST", token=token))[0] == 404
        add_stock(tmp_path, "beer")
        await asked(f"{url}/v1/delivery/resume", "POST", token=token)
        await until_told(f"{url}/v1/engine", lambda told: told["actions"]["delivered"] == 4, token)
        assert (await asked(f"{url}/v1/engine", token=token))[1]["detectors"]["Stock"]["forwarded"] == 2
        await asked(f"{url}/v1/detectors/Stock/resume", "POST", token=token)
        await until_told(f"{url}/v1/engine", lambda told: told["actions"]["delivered"] == 6, token)
        await until(lambda: len(items(store, "Ordered")) == 3, lambda: items(store, "Ordered"))
        # An engine that is paused takes what comes, and does nothing with it.
        status, told = await asked(f"{url}/v1/engine/pause", "POST", token=token)
        assert (status, told["paused"]) == (200, True)
        add_stock(tmp_path, "wine")
        await until_told(f"{url}/v1/engine", lambda told: told["detectors"]["Stock"]["forwarded"] == 4, token)
        assert (await asked(f"{url}/v1/engine", token=token))[1]["tick"] == told["tick"]
        assert len(outbox_of(store)) == 6
        status, told = await asked(f"{url}/v1/engine/resume", "POST", token=token)
        assert (status, told["paused"]) == (200, False)
        await until_told(f"{url}/v1/engine", lambda told: told["actions"]["delivered"] == 8, token)
        await until(lambda: len(items(store, "Ordered")) == 4, lambda: items(store, "Ordered"))

    asyncio.run(all_of_it())
    assert processes[0].end() == 0
    assert items(store, "Stock") == items(store, "Ordered") == ["beer", "eggs", "milk", "wine"]
    assert (tmp_path / "a.db.sensed").is_dir()
    with closing(sqlite3.connect(tmp_path / "told.db")) as connection:
        assert len(connection.execute("SELECT * FROM told").fetchall()) == 4


def test_the_same_from_python_until_it_is_over(tmp_path: Path) -> None:
    stocked, store, said = stock_program(tmp_path), tmp_path / "a.db", list[str]()
    add_stock(tmp_path, "milk")

    async def all_of_it() -> None:
        over = asyncio.Event()
        around = Surroundings(stocked)
        living = live_server(stocked, str(store), Serving(), said.append, tmp_path / "seen", around, over=over)
        task = asyncio.create_task(living)
        await until(lambda: bool(said), lambda: said)
        await until(settled(store, 2), lambda: outbox_of(store))
        over.set()
        await ended(task, lambda: said)

    asyncio.run(all_of_it())
    assert said[0].startswith("the server listens at http://127.0.0.1:")


# ---- what commands say -------------------------------------------------------------------------------------------


def command(*words: str) -> tuple[int, str]:
    app = typer.Typer()
    register_actions(app)
    register_detectors(app)
    register_server(app)
    done = CliRunner().invoke(app, list(words))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("act", "P", "--secret-env", "NOT_SET"), "`NOT_SET` is not set"),
        (("act", "P", "--settings", "nowhere.toml"), "cannot be read"),
        (("act", "P", "--open"), "name one, --to URL"),
        (("act", "P"), "--secret-env, here and there; or let whoever is on this machine send actions, by --open"),
        (("act", "P", "--open", "--host", "0.0.0.0"), "leave out --open"),
        (("sense", "P", "--to", "http://127.0.0.1:1", "--state", "T", "--port", "0"), "by --open"),
        (("serve", "P", "--store", "S", "--open", "--host", "0.0.0.0", "--port", "0"), "leave out --open"),
        (("serve", "P", "--store", "postgresql://h/d", "--port", "0"), "--tokens FILE names it"),
        (("serve", "P", "--store", "S", "--act-at", "fridge", "--port", "0"), "no URL of a webhook"),
        (("serve", "P", "--store", "S", "--act", "--name", "a/b", "--port", "0"), "no name of an engine"),
        (("serve", "P", "--store", "S", "--secret-env", "SECRET", "--port", "0"), "--act-at URL"),
        (("serve", "P", "--store", "postgresql://h/d", "--sense", "--port", "0"), "--state FOLDER"),
        (("actions", "run", "P", "--store", "S", "--act-at", "http://a", "--secret-env", "BAD"), "holds no secret"),
    ],
)
def test_commands_say_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    stock_program(tmp_path)
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("BAD", "secret")
    monkeypatch.chdir(tmp_path)
    places = {"P": "stock.bicepl", "S": "a.db"}
    code, told = command(*(places.get(word, word) for word in words))
    assert code == 2, told
    assert told.startswith("error: ") or "\nerror: " in told
    assert said in told

"""Each kind of executor and of source, from the text of a program to the target, or from the source to the sink."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from augury.actions import python
from augury.actions.envelope import signature, signing_keys
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.environment import real
from tests.acting.sensing import PROGRAM_TEXT, QUICK, Remembers, serving
from tests.acting.targets import carried_out, program, target
from tests.acting.test_detectors_http import ATOM, TABLE, login_site, page

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="


# ---- BIND ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """What follows `BIND tell TO`, settings beside it, and a way to see what the target got."""

    text: str
    got: Callable[[], list[Any]]
    settings: str = ""


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@asynccontextmanager
async def webhook(folder: Path) -> AsyncIterator[Bound]:
    async with target() as found:
        text = f"WEBHOOK '{found.url}' WITH (secret = ENV 'HOOK_SECRET', header_x_team = 'shop', timeout = 20s)"

        def got() -> list[Any]:
            for sent, body in zip(found.headers, found.raw, strict=True):
                assert sent["x-team"] == "shop"
                about = sent["webhook-id"], int(sent["webhook-timestamp"])
                assert sent["webhook-signature"] == signature(signing_keys(SECRET), *about, body)
            return [one["data"] for one in found.bodies]

        yield Bound(text, got, 'private_targets = ["127.0.0.0/8"]')


@asynccontextmanager
async def command(folder: Path) -> AsyncIterator[Bound]:
    writes = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    text = f"""COMMAND '{sys.executable}' '-c' '{writes.replace("'", "''")}' '{folder}/got'"""
    yield Bound(text, lambda: _lines(folder / "got"), f'commands = ["{sys.executable}"]')


@asynccontextmanager
async def function(folder: Path) -> AsyncIterator[Bound]:
    (folder / "shop_wired_acts.py").write_text(
        "from pathlib import Path\n"
        "def tell(what, resource, amount, delivery):\n"
        f"    with Path({str(folder / 'got')!r}).open('a') as file:\n"
        "        file.write(delivery.json() + '\\n')\n"
    )
    yield Bound("PYTHON 'shop_wired_acts:tell'", lambda: _lines(folder / "got"))


@asynccontextmanager
async def database(folder: Path) -> AsyncIterator[Bound]:
    def got() -> list[Any]:
        with closing(sqlite3.connect(folder / "told.db")) as connection:
            connection.row_factory = sqlite3.Row
            rows = [dict(row) for row in connection.execute("SELECT * FROM told")]
        spelled: dict[str, Callable[[str], Any]] = {"arguments": json.loads, "event_key": json.loads, "seq": int}
        named = [{name: spelled.get(name, _itself)(value) for name, value in row.items()} for row in rows]
        return [{"key": row.pop("event_key"), **row} for row in named]

    yield Bound(f"SQL 'sqlite:///{folder}/told.db' WITH (table = 'told')", got)


def _itself(value: Any) -> Any:
    return value


def _key(data: dict[str, Any]) -> str:
    return str(data["idempotency_key"])


Kind = Callable[[Path], AbstractAsyncContextManager[Bound]]


@pytest.mark.parametrize("kind", [webhook, command, function, database])
def test_an_action_goes_from_its_bind_to_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.syspath_prepend(str(tmp_path))

    async def work() -> tuple[list[Any], list[Any]]:
        async with asyncio.timeout(60), kind(tmp_path) as bound:
            fired = await carried_out(tmp_path / "store.db", f"BIND tell TO {bound.text};", bound.settings)
            return fired, bound.got()

    fired, got = asyncio.run(work())
    assert sorted(one["arguments"] for one in fired) == [["low", "eggs", 12.5], ["low", "milk", 2]]
    assert sorted(got, key=_key) == sorted(fired, key=_key), "those of different events go side by side"


def test_an_action_goes_to_the_function_of_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing binds it: a package that is installed says that it carries it out."""
    got, about = tmp_path / "got", tmp_path / "shop_wired-1.0.dist-info"
    (tmp_path / "shop_wired_point.py").write_text(
        "from pathlib import Path\n"
        "def inform(what, resource, amount, delivery):\n"
        f"    with Path({str(got)!r}).open('a') as file:\n"
        "        file.write(delivery.json() + '\\n')\n"
    )
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shop-wired\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[augury.actions]\nTell = shop_wired_point:inform\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(python, "_REGISTERED", {})

    async def work() -> list[Any]:
        async with asyncio.timeout(60):
            return await carried_out(tmp_path / "store.db", "")

    fired = asyncio.run(work())
    assert sorted(_lines(got), key=_key) == sorted(fired, key=_key)


# ---- DETECT ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Detected:
    """A DETECT, the attributes to look at, and what they are."""

    text: str
    names: tuple[str, ...]
    events: list[tuple[Any, ...]]


@asynccontextmanager
async def pages(folder: Path) -> AsyncIterator[Detected]:
    second = "<table><tr class=item><td class=name>salt<td>1</table>"
    async with serving({"/one.html": page(TABLE, "text/html"), "/two.html": page(second, "text/html")}) as url:
        text = (
            f"DETECT Delivery FROM HTML '{url}/one.html' EVERY 1h ITEMS 'table tr.item'"
            " FIELDS (resource = 'td.name', amount = 'xpath:./td[2]') NEXT 'a[rel=next]' FORWARD CHANGED"
        )
        told = [("Süße Milch", 2), ("eggs", Decimal("12.5")), ("salt", 1)]
        yield Detected(text, ("resource", "amount"), told)


@asynccontextmanager
async def form(folder: Path) -> AsyncIterator[Detected]:
    async with serving(login_site([])) as url:
        text = (
            f"DETECT Delivery FROM HTML '{url}/stock' EVERY 1h ITEMS 'li' FIELDS (resource = 'xpath:.') NEXT 'a.n'"
            " FORWARD CHANGED WITHDRAW VANISHED"
            " WITH (form = 'form#login', form_user = 'ann', form_word = ENV 'SHOP_WORD', form_lang = 'en')"
        )
        yield Detected(text, ("resource",), [("milk",), ("eggs",)])


@asynccontextmanager
async def feed(folder: Path) -> AsyncIterator[Detected]:
    async with serving({"/feed": page(ATOM, "application/xml")}) as url:
        text = (
            f"DETECT News FROM FEED '{url}/feed' EVERY 1h FIELDS (occ_time = 'updated', event_id = 'id')"
            " FORWARD CHANGED"
        )
        told = [("Süßes", "http://x/1", "2026-01-01T09:00:00Z", "i1")]
        yield Detected(text, ("title", "link", "occ_time", "event_id"), told)


@asynccontextmanager
async def query(folder: Path) -> AsyncIterator[Detected]:
    with closing(sqlite3.connect(folder / "shop.db")) as connection:
        connection.executescript(
            "CREATE TABLE stock (item TEXT, amount NUMERIC, changed TEXT);"
            "INSERT INTO stock VALUES ('milk', 2, '2026-01-01T09:00:00Z'), ('eggs', 6.5, '2026-01-01T10:00:00Z')"
        )
    text = (
        "DETECT Delivery AS shelf FROM SQL ENV 'SHELF' EVERY 1h ITEMS 'SELECT item, amount, changed FROM stock'"
        " FIELDS (resource = 'item', occ_time = 'changed') FORWARD CHANGED WITHDRAW VANISHED"
    )
    told = [("milk", 2, "2026-01-01T09:00:00Z"), ("eggs", Decimal("6.5"), "2026-01-01T10:00:00Z")]
    yield Detected(text, ("resource", "amount", "occ_time"), told)


@asynccontextmanager
async def calls(folder: Path) -> AsyncIterator[Detected]:
    (folder / "shop_wired_sees.py").write_text(
        "def stock():\n    return [{'item': {'name': 'milk'}, 'amount': 2}, {'item': {'name': 'eggs'}, 'amount': 12}]\n"
    )
    text = (
        "DETECT Delivery FROM PYTHON 'shop_wired_sees:stock' EVERY 1h FIELDS (resource = 'item.name') FORWARD CHANGED"
    )
    yield Detected(text, ("resource", "amount"), [("milk", 2), ("eggs", 12)])


Source = Callable[[Path], AbstractAsyncContextManager[Detected]]


@pytest.mark.parametrize("source", [pages, form, feed, query, calls])
def test_what_is_there_goes_from_its_detect_to_the_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    monkeypatch.setenv("SHOP_WORD", "ü&=")
    monkeypatch.setenv("SHELF", f"sqlite:///{tmp_path}/shop.db")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "state").mkdir()

    async def work() -> None:
        async with asyncio.timeout(60), source(tmp_path) as wanted, real() as environment:
            detectors, sink = opened(program(f"{PROGRAM_TEXT}{wanted.text};"), environment), Remembers()
            running = Detectors(detectors, {"engine": sink}, str(tmp_path / "state"), environment, pace=QUICK)
            await running.run_once()
            await running.run_once()
        assert sink.values(*wanted.names) == wanted.events
        assert len(sink.lines) == len(wanted.events), "what has not changed is not told again"

    asyncio.run(work())

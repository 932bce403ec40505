"""A store as a whole: what it holds, copies made while an engine writes, copies put back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from augury.cli import app
from augury.local.running import LocalEngine
from augury.local.store.errors import NoStore, StoreMismatch
from augury.local.store.sql import open_store
from augury.local.store.upkeep import NotHere, back_up, restore, store_info
from tests.bitemporal.conftest import _binaries
from tests.bitemporal.stored import SECOND, START, class_of, program, tick_at

TEXT = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ping (host INT) ID () LIFESPAN (1d) ON ANNOUNCEMENT DO tell(new.host);
CREATE COMPLEX EVENT CLASS Twice (host INT) ID (host) LIFESPAN (1d) AS MATCH prior(Ping(host), Ping(host));
RULE Note (host INT) ACTION note(host);
TRIGGER Pinged (host INT) TRIGGEREVENT Ping RULESTRUC Note(host);
"""


def ping(engine: LocalEngine, n: int) -> None:
    engine.post({"event": "Ping", "det_time": (START + n * SECOND // 2) / SECOND, "host": n % 3})
    engine.advance_to(START + n * SECOND // 2)


def pinged(url: str, count: int) -> None:
    with LocalEngine(program(TEXT), url) as engine:
        for n in range(count):
            ping(engine, n)


def test_a_store_says_what_it_holds(store_url: str) -> None:
    pinged(store_url, 9)
    info = store_info(store_url)
    facts = dict(info.facts)
    assert (facts["format"], facts["ticks"], facts["last tick"]) == ("2", "4", "2026-01-01T09:00:04Z")
    assert (facts["posts waiting"], facts["rejected"]) == ("1", "0")
    assert int(facts["bytes"].replace(",", "")) > 4096
    assert info.classes == (("Ping", "subscribed", 8, True), ("Twice", "complex", 5, True))
    assert info.triggers == (("Pinged", 8, True),)
    assert info.lines()[-1] == "trigger Pinged: 8 firings"


def test_a_copy_is_the_store_as_it_was(tmp_path: Path) -> None:
    url, copy, again = (str(tmp_path / name) for name in ("s.db", "copy.db", "again.db"))
    pinged(url, 9)
    back_up(url, copy)
    pinged(url, 15)
    restore(copy, again)
    with LocalEngine(program(TEXT), again) as engine, LocalEngine(program(TEXT), url) as first:
        assert engine.history("Ping").num_rows == 8
        for n in range(9, 15):
            ping(engine, n)
        engine.advance_to(tick_at(8))
        first.advance_to(tick_at(8))
        assert engine.history("Twice").num_rows > 5
    assert sorted(path.name for path in tmp_path.iterdir() if ".part" in path.name) == []


def test_a_copy_made_while_an_engine_writes_is_whole(tmp_path: Path) -> None:
    url, over = str(tmp_path / "s.db"), threading.Event()

    def write() -> None:
        with LocalEngine(program(TEXT), url) as engine:
            n = 0
            while not over.is_set() or n < 20:
                ping(engine, n)
                n += 1

    writer = threading.Thread(target=write)
    pinged(url, 4)
    writer.start()
    try:
        copies = [str(tmp_path / f"copy{n}.db") for n in range(8)]
        for copy in copies:
            back_up(url, copy)
    finally:
        over.set()
        writer.join()
    for copy in copies:
        with open_store(copy, read_only=True) as reader:
            last = reader.last_tick()
            assert last is not None
            pings = reader.history(class_of(program(TEXT), "Ping"))
            assert pings.num_rows == sum(len(v) for _, read in reader.read_after(None) for v in read)
            assert len(reader.firings("Pinged")) == pings.num_rows
        with LocalEngine(program(TEXT), copy) as engine:
            assert engine.tick == last


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    url, copy = str(tmp_path / "s.db"), tmp_path / "copy.db"
    pinged(url, 3)
    copy.write_text("mine")
    with pytest.raises(NotHere, match="is already there: name another file"):
        back_up(url, str(copy))
    assert copy.read_text() == "mine"
    with pytest.raises(NotHere, match="there is no folder"):
        back_up(url, str(tmp_path / "no" / "copy.db"))
    back_up(url, str(tmp_path / "good.db"))
    with pytest.raises(NotHere, match="is already there: name another place"):
        restore(str(tmp_path / "good.db"), url)
    with pytest.raises(NoStore, match="there is no store"):
        restore(str(tmp_path / "none.db"), str(tmp_path / "t.db"))
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(NoStore, match="holds no store of Augury"):
        restore(str(tmp_path / "other.db"), str(tmp_path / "t.db"))
    with sqlite3.connect(tmp_path / "good.db") as newer:
        newer.execute("UPDATE augury_settings SET value = '99' WHERE name = 'store_format'")
    newer.close()
    with pytest.raises(StoreMismatch, match="the store has format 99"):
        restore(str(tmp_path / "good.db"), str(tmp_path / "t.db"))
    assert not (tmp_path / "t.db").exists()


def test_postgres_is_copied_by_its_own_programs(postgres_url: str, tmp_path: Path) -> None:
    """As docs/store.md says: the message has the command, and what it writes can be put back."""
    pinged(postgres_url, 9)
    dump = str(tmp_path / "store.dump")
    with pytest.raises(NotHere, match=r"pg_dump --format=custom --no-owner --schema=t[0-9a-f]+ --file=") as caught:
        back_up(postgres_url, dump)
    server, _, schema = postgres_url.partition("?options=-csearch_path%3D")
    _, _, command = str(caught.value).partition(": ")
    programs = _binaries()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    made = [str(programs / "pg_dump"), *command.split()[1:-1], postgres_url]
    subprocess.run(made, check=True, env=clean)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(NotHere, match="pg_restore --no-owner --dbname=URL"):
        restore(dump, server)
    subprocess.run([str(programs / "pg_restore"), "--no-owner", f"--dbname={server}", dump], check=True, env=clean)
    with LocalEngine(program(TEXT), postgres_url) as engine:
        assert engine.history("Ping").num_rows == 8
        ping(engine, 12)
        assert engine.history("Ping").num_rows == 9


def test_the_command_says_what_it_does(tmp_path: Path) -> None:
    url, copy = str(tmp_path / "s.db"), str(tmp_path / "copy.db")
    pinged(url, 3)
    run = CliRunner().invoke
    found = run(app, ["store", "info", url])
    assert found.exit_code == 0
    assert "class Ping (subscribed): 2 versions" in found.stdout.splitlines()
    assert run(app, ["store", "backup", url, copy]).exit_code == 0
    again = run(app, ["store", "backup", url, copy])
    assert (again.exit_code, "is already there" in again.stderr) == (3, True)
    assert run(app, ["store", "restore", copy, str(tmp_path / "b.db")]).exit_code == 0
    told = run(app, ["store", "migrate", str(tmp_path / "b.db")])
    assert (told.exit_code, told.stderr.strip()) == (0, "the store has the present format already")
    assert run(app, ["store", "info", str(tmp_path / "nothing.db")]).exit_code == 3

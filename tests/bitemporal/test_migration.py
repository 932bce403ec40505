"""Stores that an older Augury wrote: everything in them is there after a migration, and an engine goes on with it.

`format1/` has a store of format 1 as its Augury wrote it, as SQL on both databases: versions of five classes, actions,
one of them tried, posts that wait, a rejected event, a snapshot.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from augury.algebra.program import Program
from augury.api import compile
from augury.local.running import LocalEngine
from augury.local.store import migrations
from augury.local.store import tables as s
from augury.local.store.database import database
from augury.local.store.errors import NoStore, StoreFailed, StoreMismatch
from augury.local.store.outbox import open_outbox
from augury.local.store.sql import migrate_store, open_store
from augury.local.store.waiting import Wanted

OLD = Path(__file__).parent / "format1"
CLASSES = ("Order", "Ping", "Twice", "Dear", "Asked")
LATER = {"augury_outbox": ("trigger", "rule"), "augury_ticks": ("publish_seconds",)}
TABLES = ("augury_ticks", "augury_outbox", "augury_inbox", "augury_deliveries", "augury_rejected", "augury_snapshots")


@pytest.fixture(scope="module")
def of() -> Program:
    return compile((OLD / "program.bicepl").read_text())


@pytest.fixture
def old_url(store_url: str) -> str:
    """A store of format 1."""
    if "://" not in store_url:
        with sqlite3.connect(store_url) as made:
            made.executescript((OLD / "sqlite.sql").read_text())
        made.close()
        return store_url
    server, _, schema = store_url.partition("?options=-csearch_path%3D")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute((OLD / "postgres.sql").read_text().replace("format_one.", f"{schema}."))
    return store_url


def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, as the database has it; columns that came later left out."""
    held, found = database(url), {}
    with held.readers().begin() as connection:
        quote = connection.dialect.identifier_preparer.quote_identifier
        for name in (*CLASSES, *TABLES):
            rows = connection.exec_driver_sql(f"SELECT * FROM {quote(name)} ORDER BY 1")
            kept = [i for i, column in enumerate(rows.keys()) if column not in LATER.get(name, ())]
            found[name] = [tuple(row[i] for i in kept) for row in rows]
    held.close()
    return found


def shape(url: str) -> dict[str, Any]:
    """The tables of a store that are ours: columns with their types, which may be NULL, and the keys."""
    held = database(url)
    with held.readers().begin() as connection:
        seen = sa.inspect(connection)
        found = {
            name: (
                {column["name"]: (str(column["type"]), column["nullable"]) for column in seen.get_columns(name)},
                seen.get_pk_constraint(name)["constrained_columns"],
            )
            for name in seen.get_table_names()
            if name.startswith("augury_")
        }
    held.close()
    return found


def test_everything_is_there_after_the_migration(old_url: str, of: Program) -> None:
    before = content(old_url)
    assert [len(before[name]) for name in CLASSES] == [4, 2, 1, 2, 2]
    assert [len(before[name]) for name in TABLES] == [3, 2, 2, 1, 1, 1]
    said: list[str] = []
    with open_store(old_url, of, report=said.append):
        pass
    assert said == ["the store was migrated from format 1 to format 2"]
    assert content(old_url) == before
    with open_store(old_url, of, report=said.append) as store:
        assert len(store.waiting()) == 2
        assert store.firing_counts() == {}
    assert len(said) == 1
    outbox = open_outbox(old_url, alone=False)
    assert [(one.action.action, one.action.attempts, one.action.rule) for one in outbox.listed(Wanted())] == [
        ("offer", 1, None),
        ("tell", 0, None),
    ]
    outbox.close()


def test_a_migrated_store_is_like_a_new_one(old_url: str, of: Program, tmp_path: Path) -> None:
    assert migrate_store(old_url) == "the store was migrated from format 1 to format 2"
    assert migrate_store(old_url) is None
    if "://" in old_url:
        found = shape(old_url)
        server, _, schema = old_url.partition("?options=-csearch_path%3D")
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE; CREATE SCHEMA {schema}")
        open_store(old_url, of).close()
        assert found == shape(old_url)
        return
    new = str(tmp_path / "new.db")
    open_store(new, of).close()
    assert shape(old_url) == shape(new)


def test_an_engine_goes_on_with_it(old_url: str, of: Program, tmp_path: Path) -> None:
    with LocalEngine(of, old_url) as engine:
        assert "the store was migrated from format 1 to format 2" in engine.reports
        assert engine.tick == 1_767_258_003_000_000
        engine.advance_to("2026-01-01T09:00:06Z")
        orders = engine.history("Order").to_pylist()
        assert [(row["number"], row["seq"], row["change"]) for row in orders[4:]] == [
            (5, 7, "announce"),
            (6, 8, "change"),
        ]
        assert engine.history("Dear").to_pylist()[-1]["price"] == 99
        twice = engine.history("Twice").to_pylist()
    assert [row["constituents"] for row in twice] == [[1, 4], [4, 8]]
    with open_store(old_url, read_only=True) as reader:
        publishing = reader.log("ticks")["publish_seconds"].to_pylist()
    assert publishing[:3] == [None, None, None]
    assert publishing[3:]
    assert all(seconds > 0 for seconds in publishing[3:])


def test_an_old_store_is_not_read_but_says_what_to_do(old_url: str) -> None:
    for opening in (lambda: open_store(old_url, read_only=True), lambda: open_outbox(old_url, alone=True)):
        with pytest.raises(StoreMismatch, match=r"has format 1, and .* reads format 2: migrate it by `augury store mi"):
            opening()
    migrate_store(old_url)
    open_store(old_url, read_only=True).close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    old_url: str, of: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, was = content(old_url), shape(old_url)

    monkeypatch.setattr(migrations, "MIGRATIONS", (_then_fail(migrations.MIGRATIONS[0]),))
    with pytest.raises(StoreFailed):
        open_store(old_url, of)
    monkeypatch.undo()
    assert content(old_url) == before
    assert shape(old_url) == was
    assert migrate_store(old_url) is not None


def test_a_program_that_does_not_fit_leaves_an_old_store_as_it_was(old_url: str, of: Program) -> None:
    other = compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account BIGINT) ID (account) LIFESPAN (5d);")
    was = shape(old_url)
    with pytest.raises(StoreMismatch, match="`Order` has the attributes"):
        open_store(old_url, other)
    assert shape(old_url) == was


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("3", "the store has format 3, and this version of Augury reads formats up to 2: it was written by a newer"),
        ("0", "the store has format 0, and there was never such a one"),
        ("two", "the store has format two"),
    ],
)
def test_another_format_is_refused_and_nothing_is_overwritten(
    store_url: str, of: Program, written: str, sentence: str
) -> None:
    with open_store(store_url, of) as store, store.writer.begin() as connection:
        connection.execute(s.settings.update().where(s.settings.c.name == "store_format").values(value=written))
    was = shape(store_url), content(store_url)
    for opening in (
        lambda: open_store(store_url, of),
        lambda: open_store(store_url, read_only=True),
        lambda: open_outbox(store_url, alone=False),
        lambda: migrate_store(store_url),
    ):
        with pytest.raises(StoreMismatch, match=sentence):
            opening()
    assert (shape(store_url), content(store_url)) == was


def test_what_is_no_store_is_not_migrated(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(NoStore, match="there is no store"):
        migrate_store(str(tmp_path / "nothing.db"))
    with pytest.raises(NoStore, match="holds no store of Augury"):
        migrate_store(postgres_url)


def _then_fail(migration: migrations.Migration) -> migrations.Migration:
    def failing(connection: sa.Connection) -> None:
        migration(connection)
        connection.exec_driver_sql("SELECT * FROM nowhere")

    return failing

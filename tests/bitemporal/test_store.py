"""The store on SQLite and on PostgreSQL: what goes in comes out, whole ticks or nothing, one writer, any readers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.engine.ports import Post, Snapshot, Store, Torn
from augury.engine.ticked import Action, ClassActions, Failure, Phase, Ticked
from augury.history.raw import Rejected
from augury.local.store import tables as s
from augury.local.store.errors import AlreadyCommitted, NoStore, StoreClosed, StoreFailed, StoreInUse, StoreMismatch
from augury.local.store.names import attribute_columns, class_names
from augury.local.store.sql import SqlStore, open_store, stored_classes
from augury.local.store.sqlite import cells, few_cells
from tests.bitemporal.stored import (
    ORDERS,
    SECOND,
    START,
    TickedActing,
    class_of,
    orders,
    program,
    tick_at,
    versions,
)

KINDS = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Kinds (
  id BIGINT, truth BOOLEAN, small INT, big BIGINT, real DOUBLE, money NUMERIC(10,2), long NUMERIC, whole NUMERIC(18),
  huge NUMERIC(38), fine NUMERIC(38,38), word STRING, short VARCHAR(3), moment TIMESTAMP, day DATE
) ID (id) LIFESPAN (5d);
"""
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999

EDGES: dict[str, list[Any]] = {
    "truth": [True, False, None],
    "small": [-(2**31), 2**31 - 1, 0, None],
    "big": [-(2**63), 2**63 - 1, 2**53 + 1, None],
    "real": [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1.7976931348623157e308, 0.1, 1e22, None],
    "money": [Decimal("-99999999.99"), Decimal("0.01"), Decimal("-0.10"), Decimal(10), None],
    "long": [Decimal("99999999999999999999.999999999999999999"), Decimal("0.000000000000000001"), Decimal("0.1"), None],
    "whole": [Decimal(10**18 - 1), Decimal(-(10**18) + 1), Decimal(0), None],
    "huge": [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(10**37), Decimal(2**63), Decimal(1), None],
    "fine": [Decimal("0." + "9" * 38), Decimal("-1E-38"), Decimal("0.5"), None],
    "word": [
        "",
        "\0",
        "a\0b\0",
        "\ufdd0",
        "\ufdd00\ufdd01\0",
        "\U0001f600",
        'x,"y"\r\n',
        "NULL",
        "\\N",
        " ",
        "'",
        None,
    ],
    "short": ["", "äöü", "\0\0\0", None],
    "moment": [FIRST_US, LAST_US, 0, -1, 1_700_000_000_123_456, None],
    "day": [date.min, date.max, date(1970, 1, 1), date(2024, 2, 29), None],
}


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as values that compare, NaN and the sign of zero among them."""

    def plain(value: Any) -> Any:
        return repr(value) if isinstance(value, float) else value

    columns = [
        (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for column in table.columns
    ]
    return [tuple(map(plain, row)) for row in zip(*columns, strict=True)]


@pytest.fixture
def store(store_url: str) -> Iterator[SqlStore]:
    with open_store(store_url, program()) as opened:
        yield opened


def query(store: SqlStore, text: str) -> list[tuple[Any, ...]]:
    with store.database.readers().begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(text)]


def one_tick(number: int, **more: Any) -> Ticked:
    """A tick that reads one version of Order."""
    of = program()
    read = orders(of, {"account": number, "item": "x", **more}, number=number, tick=number)
    return Ticked(tick_at(number), number, read=(read,))


# ---- values ---------------------------------------------------------------------------------------------------------


def kinds_ticked(rows: list[dict[str, Any]], number: int = 1) -> Ticked:
    kinds = class_of(program(KINDS), "Kinds")
    found = versions(kinds, [{"id": i, **row} for i, row in enumerate(rows)], number=number)
    return Ticked(tick_at(number), 0, read=(found,))


def test_edges_of_all_types_come_back(store_url: str) -> None:
    length = max(map(len, EDGES.values()))
    rows = [{name: values[i % len(values)] for name, values in EDGES.items()} for i in range(length)]
    ticked = kinds_ticked(rows)
    with open_store(store_url, program(KINDS)) as store:
        store.commit([ticked])
        history = store.history(ticked.read[0].event_class)
        [(_, (read,))] = store.read_after(None)
    names = [attribute.name for attribute in ticked.read[0].event_class.attributes]
    assert rows_of(history.select(names)) == rows_of(ticked.read[0].values)
    assert read.values.schema == ticked.read[0].values.schema
    assert rows_of(read.values) == rows_of(ticked.read[0].values)


MOMENTS = st.integers(FIRST_US, LAST_US)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "truth": st.none() | st.booleans(),
            "small": st.none() | st.integers(-(2**31), 2**31 - 1),
            "big": st.none() | st.integers(-(2**63), 2**63 - 1),
            "real": st.none() | st.floats(),
            "money": st.none() | st.decimals(-99999999, 99999999, places=2),
            "long": st.none() | st.decimals(-(10**19), 10**19, places=18),
            "huge": st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
            "word": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            "moment": st.none() | MOMENTS,
            "day": st.none() | st.dates(),
            "occ_time": MOMENTS,
            "det_time": MOMENTS,
            "source_time": st.none() | MOMENTS,
            "event_id": st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
            "change": st.sampled_from(["announce", "change", "withdraw"]),
            "constituents": st.none() | st.lists(st.integers(1, 2**62), max_size=3),
        }
    ),
    min_size=1,
    max_size=120,
)


@pytest.fixture(scope="module")
def both_kinds(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[list[SqlStore]]:
    path = str(tmp_path_factory.mktemp("kinds") / "kinds.db")
    schema = f"kinds{os.getpid()}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    urls = [path, f"{postgres_server}?options=-csearch_path%3D{schema}"]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_store(url, program(KINDS))) for url in urls]


@settings(max_examples=60)
@given(ROWS)
def test_all_values_come_back(both_kinds: list[SqlStore], rows: list[dict[str, Any]]) -> None:
    for store in both_kinds:
        last = store.last_tick()
        count = 0 if last is None else (last - START) // SECOND
        number = 1 + 1000 * count
        ticked = kinds_ticked(rows, number)
        ticked = Ticked(tick_at(count + 1), 0, read=ticked.read)
        store.commit([ticked])
        [(tick, (read,))] = store.read_after(last)
        wrote = ticked.read[0]
        assert tick == ticked.tick
        assert rows_of(read.values) == rows_of(wrote.values)
        assert read.keys == wrote.keys
        for name in ("number", "seq", "det_time", "change"):
            assert getattr(read, name).tolist() == getattr(wrote, name).tolist(), name
        there = wrote.change != 2
        assert read.occ_time[there].tolist() == wrote.occ_time[there].tolist()
        for name in ("constituents", "event_id", "source_time"):
            was, now = getattr(wrote, name), getattr(read, name)
            assert (None if now is None else now.to_pylist()) == (None if was is None else was.to_pylist()), name
        known = {row["event_id"] for row in rows} - {None}
        assert store.known_ids(wrote.event_class, [*known, "nobody has this"]) == known


def test_decimals_are_numbers_where_that_is_exact(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "s.db"), program(KINDS)) as store:
        rows = [{"long": Decimal(x), "money": Decimal("9.50")} for x in ("2.5", "10", "12345678901234567890.5")]
        store.commit([kinds_ticked(rows)])
        assert query(store, "SELECT long FROM Kinds WHERE long < 11 ORDER BY long") == [(2.5,), (10,)]
        assert query(store, "SELECT long, CAST(long AS REAL) FROM Kinds WHERE typeof(long) = 'text'") == [
            ("12345678901234567890.500000000000000000 exact", 12345678901234567890.5)
        ]
        assert query(store, "SELECT count(*) FROM Kinds WHERE money = 9.5") == [(3,)]


def test_times_compare_in_sql(store: SqlStore) -> None:
    store.commit([one_tick(n) for n in range(1, 4)])
    later = """SELECT "number" FROM "Order" WHERE det_time > '2026-01-01T09:00:01.000000Z' ORDER BY 1"""
    assert query(store, later) == [(2,), (3,)]


# ---- names ----------------------------------------------------------------------------------------------------------

LONG = "x" * 70
ODD = [
    "`select`",
    "`Größe`",
    "`100 % \"odd\" :name 'x' %s %(y)s`",
    "`augury_ticks`",
    "`sqlite_master`",
    "`pg_class`",
    "Order",
    "Order_now",
    "Order_archive",
    "other",
    LONG,
    LONG + "y",
    "`" + "ü" * 40 + "`",
]
ODD_COLUMNS = 'tick INT, tick_ INT, number INT, source_time INT, xmin INT, `xmin_` INT, rowid INT, `a%sb:c"d` STRING'


def odd_program(settings: str = "") -> str:
    return settings + "".join(
        f"CREATE MUTABLE SUBSCRIBED EVENT CLASS {name} ({ODD_COLUMNS}, {LONG} INT, {LONG}z INT)"
        f' ID ({LONG}, `a%sb:c"d`) LIFESPAN (5d);\n'
        for name in ODD
    )


def test_any_name_of_a_class_or_attribute_will_do(store_url: str) -> None:
    of = program(odd_program("SET ARCHIVE ON; SET HISTORY RETAIN 1s;"))
    classes = [plan.event_class for plan in of.classes]
    row = {"tick": 1, "tick_": 2, "number": 3, "source_time": 4, "xmin": 5, "xmin_": 6, "rowid": 7}
    rows = [{**row, 'a%sb:c"d': word, LONG: 8, LONG + "z": 9} for word in ("p", "q")]
    read = tuple(versions(one, rows) for one in classes)
    with open_store(store_url, of) as store:
        store.commit([Ticked(tick_at(1), 2, read=read, purged=tuple(v.at(np.array([0])) for v in read))])
        assert {one.name for one in stored_classes(store_url)} == {one.name for one in classes}
        for one in classes:
            names = [attribute.name for attribute in one.attributes]
            history = store.history(one)
            assert history.column_names[:2] == ["number_", "tick__"]
            assert history.select(names).to_pylist() == rows
        [(_, again)] = store.read_after(None)
        assert [v.keys for v in again] == [v.keys for v in read]
        tables = dict(query(store, 'SELECT "class", table_name FROM augury_classes'))
        now = [name for (name,) in query(store, "SELECT now_name FROM augury_classes")]
        for name in now:
            quoted = store.writer.dialect.identifier_preparer.quote_identifier(name)
            assert query(store, f"SELECT count(*) FROM {quoted}") == [(1,)], name
    assert tables["Order"] == "Order"
    assert tables["Order_now"] == "Order_now"
    assert len(set(tables.values())) == len(ODD)
    assert all(len(name.encode()) <= 63 for name in tables.values())
    with open_store(store_url, of) as store:
        assert store.history(classes[0]).num_rows == 2


def test_names_are_as_they_are_unless_that_cannot_be() -> None:
    of = program(odd_program())
    classes = [plan.event_class for plan in of.classes]
    found = {one.name: names.table for one, names in zip(classes, class_names(classes, []), strict=True)}
    assert found["select"] == "select"
    assert found["Größe"] == "Größe"
    assert found["augury_ticks"] == "class_augury_ticks_" + found["augury_ticks"][-8:]
    assert found[LONG].startswith("x" * 54 + "_")
    assert found[LONG] != found[LONG + "y"]
    columns = attribute_columns(classes[0])
    assert columns[:6] == ["tick", "tick_", "number", "source_time", "xmin__", "xmin_"]
    again = class_names(classes[::-1], [])
    assert [names.table for names in again][::-1] == list(found.values())


def test_a_class_that_comes_later_does_not_take_a_name(store_url: str) -> None:
    first = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID (x) LIFESPAN (5d);\n"
    open_store(store_url, program(first)).close()
    with open_store(store_url, program(first + first.replace(" A ", " A_now "))) as store:
        tables = dict(query(store, 'SELECT "class", table_name FROM augury_classes'))
    assert tables["A"] == "A"
    assert tables["A_now"].startswith("A_now_")


# ---- ticks ----------------------------------------------------------------------------------------------------------


def test_an_empty_store(store: SqlStore) -> None:
    of: Store = store  # it is one
    assert of.last_tick() is None
    assert of.waiting() == []
    assert list(of.snapshots()) == []
    assert list(of.read_after(None)) == []
    assert of.known_ids(class_of(program(), "Order"), ["a"]) == set()
    assert of.history(class_of(program(), "Ping")).num_rows == 0


def test_a_tick_is_read_again_as_it_was(store: SqlStore) -> None:
    of = program()
    ping = class_of(of, "Ping")
    pings = versions(ping, [{"host": "a"}, {"host": "b"}], events=[10, 11])
    ticks = [
        Ticked(tick_at(1), 1, read=(orders(of, {"account": 1, "event_id": "one"}, number=1, tick=1),)),
        Ticked(tick_at(2), 1),
        Ticked(tick_at(3), 4, read=(orders(of, {"account": 1, "change": "withdraw"}, number=2, tick=3), pings)),
    ]
    store.commit(ticks)
    found = list(store.read_after(tick_at(1)))
    assert [tick for tick, _ in found] == [tick_at(2), tick_at(3)]
    assert found[0][1] == ()
    withdrawn, read = found[1][1]
    assert withdrawn.keys == [1]
    assert withdrawn.change.tolist() == [2]
    assert read.keys == [10, 11]
    assert store.history(ping)["event_number"].to_pylist() == [10, 11]
    assert [len(read) for _, read in store.read_after(None)] == [1, 0, 2]
    assert store.known_ids(class_of(of, "Order"), ["one", "two"]) == {"one"}
    assert store.known_ids(ping, ["one"]) == set()


def test_many_ticks_are_read_in_parts(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("augury.local.store.reading._ROWS_AT_ONCE", 7)
    of = program()
    ticks, number = [], 1
    for n in range(1, 30):
        count = n % 4
        rows = [{"account": i} for i in range(count)]
        ticks.append(Ticked(tick_at(n), 0, read=(orders(of, *rows, number=number, tick=n),) if rows else ()))
        number += count
    store.commit(ticks)
    for after in (None, 1, 7, 8, 28, 29):
        found = list(store.read_after(None if after is None else tick_at(after)))
        wanted = [t for t in ticks if after is None or t.tick > tick_at(after)]
        assert [tick for tick, _ in found] == [t.tick for t in wanted]
        assert [[v.number.tolist() for v in read] for _, read in found] == [
            [v.number.tolist() for v in t.read] for t in wanted
        ]
    assert store.history(class_of(of, "Order"))["number"].to_pylist() == list(range(1, number))


def test_what_was_committed_is_refused(store: SqlStore) -> None:
    store.commit([one_tick(1), one_tick(2)])
    for ticks in ([one_tick(2)], [one_tick(1)], [one_tick(3), one_tick(3)], [one_tick(2), one_tick(3)]):
        with pytest.raises(AlreadyCommitted, match=r"cannot be committed: 2026-01-01T09:00:0[23]Z already was"):
            store.commit(ticks)
    assert store.last_tick() == tick_at(2)
    assert store.history(class_of(program(), "Order")).num_rows == 2


def test_posts_wait_until_they_are_taken(store: SqlStore, store_url: str) -> None:
    posts = [Post(START + i, json.dumps({"event": "Order", "account": i, "item": "\0"})) for i in range(120)]
    places = store.append(posts[:100]) + store.append(posts[100:]) + store.append([])
    assert places == sorted(set(places))
    assert store.waiting() == list(zip(places, posts, strict=True))
    store.commit([one_tick(1)], taken=places[:118])
    with open_store(store_url, read_only=True) as reader:
        assert reader.waiting() == list(zip(places, posts, strict=True))[118:]
    store.commit([one_tick(2)], taken=places[118:])
    assert store.append(posts[:1])[0] > places[-1]


def test_the_log_the_outbox_and_the_rejected(store: SqlStore) -> None:
    of = program()
    order = class_of(of, "Order")
    action = Action(
        "tell", ("dearer\0", Decimal("1.50"), None, math.nan), "Order", {"account": 1}, tick_at(1), 1, 1, 7, "k1"
    )
    nothing: Any = type("Nothing", (), {"__len__": lambda self: 1})()
    ticked = TickedActing(
        tick_at(1),
        7,
        actions=(ClassActions(order, nothing),),
        rejected=Rejected(("f.jsonl:3\udcff",), ("Order",), ("no `account`",), ("{}",)),
        absorbed=2,
        failed=(Failure("Dear", "it broke"),),
        warnings={"Dear": 3},
        errors={"Order": 4},
        seconds={Phase.READ: 0.5, Phase.DERIVE: 0.25},
        given=(action,),
    )
    store.commit([ticked])
    [logged] = store.log("ticks").to_pylist()
    assert {name: logged[name] for name in ("last_seq", "actions", "rejected", "absorbed", "read_seconds")} == {
        "last_seq": 7,
        "actions": 1,
        "rejected": 1,
        "absorbed": 2,
        "read_seconds": 0.5,
    }
    assert json.loads(logged["failed"]) == {"Dear": "it broke"}
    assert json.loads(logged["warnings"]) == {"Dear": 3}
    assert json.loads(logged["errors"]) == {"Order": 4}
    [waits] = store.log("actions").to_pylist()
    assert json.loads(waits["arguments"]) == ["dearer\0", 1.5, None, "NaN"]
    assert json.loads(waits["key"]) == {"account": 1}
    assert (waits["state"], waits["statement"], waits["place"], waits["seq"]) == ("waiting", 1, 1, 7)
    [refused] = store.log("rejected").to_pylist()
    assert (refused["place"], refused["reason"]) == ("f.jsonl:3\\udcff", "no `account`")
    twice = TickedActing(tick_at(2), 7, actions=ticked.actions, given=(action,))
    with pytest.raises(StoreFailed):
        store.commit([twice])
    assert store.last_tick() == tick_at(1)


def test_ticks_of_one_commit_share_what_publishing_took(store: SqlStore) -> None:
    began = time.perf_counter()
    store.commit([Ticked(tick_at(1), 0), Ticked(tick_at(2), 0)])
    taken = time.perf_counter() - began
    first, second = store.log("ticks")["publish_seconds"].to_pylist()
    assert first == second
    assert 0 < first + second < taken


def test_the_catalogue_says_what_there_is(store: SqlStore) -> None:
    assert dict(query(store, "SELECT name, value FROM augury_settings")) == {
        "store_format": "2",
        "chronon": "1s",
        "archive": "off",
        "retain": None,
        "retain_us": None,
        "program": ORDERS,
    }
    [(name, statement, place, condition, action)] = query(store, "SELECT * FROM augury_actions")
    assert (name, statement, place, action) == ("Order", 1, 1, "tell")
    assert "CHANGE" in condition
    rows = store.log("catalogue").to_pylist()
    assert [(r["column"], r["type"]) for r in rows if r["class"] == "Order" and r["role"] == "attribute"] == [
        ("account", "INT"),
        ("item", "STRING"),
        ("price", "NUMERIC(10,2)"),
        ("weight", "DOUBLE"),
    ]
    told = [(r["class"], r["role"]) for r in rows if r["column"] is None]
    assert told[:2] == [("Order", "class"), ("Order", "action")]
    assert [(r["name"], r["meaning"]) for r in rows if r["role"] == "action"] == [("tell", condition)]
    assert {r["name"]: r["meaning"] for r in rows if r["kind"] == "setting"} == {
        "store_format": "2",
        "chronon": "1s",
        "archive": "off",
        "retain": None,
        "retain_us": None,
    }
    assert store.classes() == tuple(plan.event_class for plan in program().classes)


# ---- views, purging, archive, retain --------------------------------------------------------------------------------


def purging(settings: str = "") -> tuple[Any, list[Ticked]]:
    """Order 1 changes, 2 is withdrawn, 3 is purged and announced again, 4 is purged, a NULL key stays."""
    of = program(settings + ORDERS)
    first = orders(of, *({"account": n, "item": "a"} for n in (1, 2, 3, 4, None)), number=1, tick=1)
    second = orders(
        of,
        {"account": 1, "item": "b", "change": "change"},
        {"account": 2, "change": "withdraw"},
        number=6,
        tick=2,
    )
    third = orders(of, {"account": 3, "item": "c"}, number=8, tick=3)
    return of, [
        Ticked(tick_at(1), 5, read=(first,)),
        Ticked(tick_at(2), 7, read=(second,), purged=(first.at(np.array([2, 3])),)),
        Ticked(tick_at(3), 8, read=(third,)),
    ]


def test_the_view_has_what_is_current(store_url: str) -> None:
    of, ticks = purging()
    with open_store(store_url, of) as store:
        store.commit(ticks)
        current = query(store, 'SELECT "number", account, item FROM "Order_now" ORDER BY "number"')
        assert current == [(5, None, "a"), (6, 1, "b"), (8, 3, "c")]


def test_the_archive_has_what_was_purged(store_url: str) -> None:
    of, ticks = purging("SET ARCHIVE ON;")
    with open_store(store_url, of) as store:
        store.commit(ticks)
        archived = query(store, 'SELECT "number", account, item FROM "Order_archive" ORDER BY "number"')
        assert archived == [(3, 3, "a"), (4, 4, "a")]
        assert query(store, """SELECT count(*) FROM "Order_archive" WHERE tick = '2026-01-01T09:00:02.000000Z'""") == [
            (2,)
        ]


def test_what_is_not_retained_is_hidden_and_goes_once_no_snapshot_needs_it(store_url: str) -> None:
    of, ticks = purging("SET HISTORY RETAIN 1s;")
    order = class_of(of, "Order")
    with open_store(store_url, of) as store:
        store.commit(ticks, snapshot=Snapshot(tick_at(3), b""))
        # Before 09:00:02: versions 1 to 7, of which 5 and 6 are current.
        assert store.history(order)["number"].to_pylist() == [5, 6, 8]
        assert query(store, 'SELECT count(*) FROM "Order"') == [(8,)]
        store.commit([Ticked(tick_at(4), 8)], snapshot=Snapshot(tick_at(4), b""))
        assert query(store, 'SELECT count(*) FROM "Order"') == [(8,)]
        assert [len(read) for _, read in store.read_after(None)] == [1, 1, 1, 0]
        store.commit([Ticked(tick_at(5), 8)], snapshot=Snapshot(tick_at(5), b""))
        assert query(store, 'SELECT "number" FROM "Order" ORDER BY 1') == [(5,), (6,), (8,)]
        assert query(store, "SELECT count(*) FROM augury_purged") == [(0,)]
        assert store.history(order)["number"].to_pylist() == [5, 6, 8]
        assert [tick for tick, _ in store.read_after(tick_at(3))] == [tick_at(4), tick_at(5)]


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_the_last_three_snapshots_are_kept(store: SqlStore) -> None:
    for n in range(1, 6):
        store.commit([one_tick(n)], snapshot=Snapshot(tick_at(n), bytes([n]) * 1000))
    assert list(store.snapshots()) == [Snapshot(tick_at(n), bytes([n]) * 1000) for n in (5, 4, 3)]
    store.commit([], snapshot=Snapshot(tick_at(5), b"again"))
    assert next(store.snapshots()) == Snapshot(tick_at(5), b"again")


def test_a_torn_snapshot_is_told(store: SqlStore) -> None:
    for n in range(1, 4):
        store.commit([one_tick(n)], snapshot=Snapshot(tick_at(n), bytes(range(200))))
    with store.writer.begin() as connection:
        torn = s.snapshots.update().where(s.snapshots.c.tick == tick_at(3))
        connection.execute(torn.values(content=bytes([*range(199), 0])))
        connection.execute(s.snapshots.update().where(s.snapshots.c.tick == tick_at(2)).values(format=99))
    newest, middle, oldest = store.snapshots()
    assert newest == Torn(tick_at(3), "its content does not have the checksum that was noted with it")
    assert isinstance(middle, Torn)
    assert "format 99" in middle.reason
    assert oldest == Snapshot(tick_at(1), bytes(range(200)))


# ---- other programs -------------------------------------------------------------------------------------------------


def test_a_store_of_another_program_is_refused_class_by_class(store_url: str) -> None:
    open_store(store_url, program()).close()
    other = program(
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS order (account BIGINT) ID (account) LIFESPAN (5d);\n"
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ping (host STRING) ID (host) LIFESPAN (1d);\n"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS Dear (account INT) ID (account) LIFESPAN (5d);\n"
    )
    for read_only in (False, True):
        with pytest.raises(StoreMismatch) as caught:
            open_store(store_url, other, read_only=read_only)
        assert caught.value.sentences == (
            "`Order` has the attributes (account INT, item STRING, price NUMERIC(10,2), weight DOUBLE) in the store"
            " and (account BIGINT) in the program",
            "`Ping` has ID () in the store and ID (host) in the program",
            "`Dear` is complex in the store and subscribed in the program",
        )
    open_store(store_url, program()).close()


def test_before_its_first_tick_a_program_may_grow_and_shrink_and_be_spelled_otherwise(store_url: str) -> None:
    first = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Alpha (Size INT) ID (Size) LIFESPAN (5d);\n"
    second = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS ALPHA (size INT) ID (size) LIFESPAN (1d);\n"
    more = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Beta () ID () LIFESPAN (1d);\n"
    with open_store(store_url, program(first)):
        pass
    of = program(second + more)
    with open_store(store_url, of) as store:
        read = (versions(class_of(of, "Alpha"), [{"size": 2}]), versions(class_of(of, "Beta"), [{}, {}]))
        store.commit([Ticked(tick_at(2), 3, read=read, purged=read[:1])])
        assert store.history(class_of(of, "Alpha"))["size"].to_pylist() == [2]
        assert query(store, 'SELECT "Size" FROM "Alpha_now"') == []
        assert [[v.event_class for v in found] for _, found in store.read_after(None)] == [
            [class_of(of, "Alpha"), class_of(of, "Beta")],
        ]
        assert store.history(class_of(of, "Beta"))["event_number"].to_pylist() == [1, 2]
        assert query(store, 'SELECT mutable, lifespan_us FROM augury_classes ORDER BY "class"')[0][1] == 86_400_000_000


def test_after_its_first_tick_only_statements_may_change(store_url: str) -> None:
    a = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (5d);\n"
    select = "SELECT k FROM A WHERE k > 1 OCCURRING AT occTime"
    b = f"CREATE COMPLEX EVENT CLASS B (k INT) ID (k) LIFESPAN (5d) AS {select};\n"
    of = program(a + b)
    with open_store(store_url, of) as store:
        store.commit([Ticked(tick_at(1), 1, read=(versions(class_of(of, "A"), [{"k": 1}]),))])
    with open_store(store_url, program(a + b.replace("occTime;", "occTime ON ONTIME DO act(new.k);"))):
        pass
    for text, sentence in (
        (a + b.replace("> 1", "> 2"), "`B` means something else than when the store was written"),
        (a + b.replace("5d", "6d"), "`B` means something else than when the store was written"),
        (a, "`B` is in the store and not in the program"),
        (a + b + a.replace("CLASS A", "CLASS C"), "`C` is not in the store, which has ticks without it"),
        ("SET CHRONON 5m;\n" + a + b, "the store has ticks every"),
    ):
        with pytest.raises(StoreMismatch, match=sentence):
            open_store(store_url, program(text))
    with open_store(store_url, of) as store:
        assert store.last_tick() == tick_at(1)


def test_there_is_no_store(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(NoStore, match="there is no store"):
        open_store(str(tmp_path / "nothing.db"), read_only=True)
    assert not (tmp_path / "nothing.db").exists()
    with pytest.raises(NoStore, match="is a folder, and this takes a file of SQLite or postgresql://"):
        open_store(str(tmp_path), program())
    with pytest.raises(NoStore, match="there is no folder"):
        open_store(str(tmp_path / "nowhere" / "s.db"), program())
    with pytest.raises(NoStore, match="holds no store of Augury"):
        open_store(postgres_url, read_only=True)
    for url, why in (
        ("mysql://x/y", "`mysql` is no database for a store"),
        ("sqlite://", "names no file"),
        ("postgresql://nobody@127.0.0.1:1/x", "cannot be reached"),
    ):
        with pytest.raises((NoStore, StoreFailed), match=why):
            open_store(url, read_only=True)
    (tmp_path / "text.db").write_text("this is a text, and no database at all" * 100)
    with pytest.raises(StoreFailed, match="its file is no SQLite database"):
        open_store(str(tmp_path / "text.db"), read_only=True)
    with pytest.raises(StoreFailed, match="its file is no SQLite database"):
        open_store(str(tmp_path / "text.db"), program())


def test_a_path_and_its_url_are_one_store(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with open_store(f"sqlite:///{path}", program()) as store:
        store.commit([one_tick(1)])
        with pytest.raises(StoreInUse):
            open_store(str(path), program())
    (tmp_path / "link.db").symlink_to(path)
    with open_store(str(tmp_path / "link.db"), program()) as store:
        assert store.last_tick() == tick_at(1)
        with pytest.raises(StoreInUse, match=f"is already being written by process {os.getpid()}"):
            open_store(str(path), program())


# ---- one writer, any readers ----------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_readers_are_not(store: SqlStore, store_url: str) -> None:
    with pytest.raises(StoreInUse, match="is already being written by"):
        open_store(store_url, program())
    store.commit([one_tick(1)])
    with open_store(store_url, program(), read_only=True) as reader:
        assert reader.last_tick() == tick_at(1)
        store.commit([one_tick(2)])
        assert reader.history(class_of(program(), "Order")).num_rows == 2
    store.close()
    with open_store(store_url, program()) as again:
        again.commit([one_tick(3)])


def test_nothing_is_written_to_a_store_that_was_closed(store_url: str) -> None:
    store = open_store(store_url, program())
    store.close()
    for write in (lambda: store.append([Post(START, "{}")]), lambda: store.remember({"call": "1"})):
        with pytest.raises(StoreClosed, match="is closed: open it again"):
            write()
    with open_store(store_url, program()) as another:
        assert another.waiting() == []
        assert another.remembered() == {}


def test_readers_see_whole_ticks_while_another_writes(store: SqlStore, store_url: str) -> None:
    of = program()
    order, wrong, done = class_of(of, "Order"), [], threading.Event()

    def watch() -> None:
        with open_store(store_url, read_only=True) as reader:
            while not done.is_set():
                numbers = reader.history(order)["number"].to_pylist()
                if numbers != list(range(1, len(numbers) + 1)) or len(numbers) % 10:
                    wrong.append(numbers)

    watching = threading.Thread(target=watch)
    watching.start()
    for n in range(30):
        rows = [{"account": i} for i in range(10)]
        store.commit([Ticked(tick_at(n + 1), 0, read=(orders(of, *rows, number=n * 10 + 1, tick=n + 1),))])
    done.set()
    watching.join()
    assert wrong == []


def test_a_reader_cannot_write(store: SqlStore) -> None:
    with (
        pytest.raises(sa.exc.DBAPIError, match=r"readonly|read-only"),
        store.database.readers().begin() as connection,
    ):
        connection.execute(s.settings.delete())


# ---- failures -------------------------------------------------------------------------------------------------------


def test_a_full_disk_fails_the_commit_and_nothing_else(tmp_path: Path) -> None:
    of = program()
    with open_store(str(tmp_path / "s.db"), of) as store:
        store.commit([one_tick(1)])
        with store.writer.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
        rows = [{"account": n, "item": "x" * 100} for n in range(2000)]
        large = Ticked(tick_at(2), 0, read=(orders(of, *rows, number=2, tick=2),))
        for _ in range(2):
            with pytest.raises(StoreFailed, match="the disk is full") as caught:
                store.commit([large])
            assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
            assert store.last_tick() == tick_at(1)
            assert store.history(class_of(of, "Order")).num_rows == 1
        with store.writer.connect() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        store.commit([large])
        assert store.history(class_of(of, "Order")).num_rows == 2001


def test_a_lock_of_another_program_fails_the_commit(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "s.db"), program()) as store:
        with store.writer.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 10")
        foreign = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="another program has locked the database"):
            store.commit([one_tick(1)])
        foreign.close()
        store.commit([one_tick(1)])


def test_a_lost_connection_fails_the_commit_which_can_be_tried_again(postgres_url: str) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
    end += " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid = %s"
    with open_store(postgres_url, program()) as store:
        store.commit([one_tick(1)])
        for n in (2, 3):
            with store.writer.connect() as connection:
                pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute(end, [pid])
            with pytest.raises(StoreFailed):
                store.commit([one_tick(n)])
            store.commit([one_tick(n)])
            with pytest.raises(AlreadyCommitted):
                store.commit([one_tick(n)])
        with pytest.raises(StoreInUse):  # the new connection has the lock, too
            open_store(postgres_url, program())
        assert store.history(class_of(program(), "Order")).num_rows == 3


def test_a_connection_that_is_lost_while_rows_are_copied(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(postgres_url, program()) as store:
        store.commit([one_tick(1)])
        insert = store.database.insert

        def cut(connection: sa.Connection, table: sa.Table, rows: pa.Table) -> None:
            insert(connection, table, rows)
            pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            with psycopg.connect(postgres_url, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            insert(connection, table, rows)

        with monkeypatch.context() as patch:
            patch.setattr(store.database, "insert", cut)
            with pytest.raises(StoreFailed):
                store.commit([one_tick(2)])
        assert store.last_tick() == tick_at(1)
        store.commit([one_tick(2)])
        assert store.history(class_of(program(), "Order")).num_rows == 2


def test_a_history_may_be_retained_for_longer_than_time_is_old(store_url: str) -> None:
    of, ticks = purging("SET HISTORY RETAIN 3000000d;")
    with open_store(store_url, of) as store:
        for ticked in ticks:
            store.commit([ticked], snapshot=Snapshot(ticked.tick, b""))
        assert store.history(class_of(of, "Order")).num_rows == 8
        assert query(store, 'SELECT count(*) FROM "Order"') == [(8,)]


CHILD = """
import sys
from augury.engine.ports import Post, Snapshot
from tests.bitemporal.stored import *
from augury.local.store.sql import open_store
of = program()
order, ping = class_of(of, "Order"), class_of(of, "Ping")
with open_store(sys.argv[1], of) as store:
    last = store.last_tick()
    n = 1 if last is None else (last - START) // SECOND + 1
    print("ready", flush=True)
    while True:
        rows = [{"account": i, "item": str(n)} for i in range(20)]
        read = (orders(of, *rows, number=20 * n - 19, tick=n), versions(ping, [{"host": "h"}], number=n))
        taken = store.append([Post(tick_at(n), "{}")])
        store.commit([Ticked(tick_at(n), n, read=read)], taken=taken, snapshot=Snapshot(tick_at(n), b"x" * 5000))
        n += 1
"""


def test_a_process_that_is_killed_leaves_whole_ticks(store_url: str) -> None:
    of, chance = program(), random.Random(7)
    order, ping, before = class_of(of, "Order"), class_of(of, "Ping"), 0
    rounds, made = 10 if "://" not in store_url else 4, 0
    # A busy machine may not come to commit a tick before it is killed: then there are more rounds.
    while made < rounds or (before <= rounds and made < 40):
        made += 1
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, store_url], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(chance.uniform(0.02, 0.2))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        with _opened_soon(store_url) as store:
            last = store.last_tick()
            ticks = 0 if last is None else (last - START) // SECOND
            assert ticks >= before
            before = ticks
            assert store.history(order)["number"].to_pylist() == list(range(1, 20 * ticks + 1))
            assert store.history(ping)["number"].to_pylist() == list(range(1, ticks + 1))
            assert [tick for tick, _ in store.read_after(None)] == [tick_at(n) for n in range(1, ticks + 1)]
            assert all(isinstance(one, Snapshot) for one in store.snapshots())
            assert len(store.waiting()) <= made
    assert before > rounds


def _opened_soon(url: str) -> SqlStore:
    """At once on SQLite; PostgreSQL takes a moment to notice that a process is gone."""
    for _ in range(100 if "://" in url else 0):
        with contextlib.suppress(StoreInUse):
            return open_store(url, program())
        threading.Event().wait(0.05)
    return open_store(url, program())


# ---- few rows and many -----------------------------------------------------------------------------------------------

_YEARS_US = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_COLUMNS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.string(): st.text(st.characters(codec="utf-8"), max_size=5),
    pa.timestamp("us", "UTC"): _YEARS_US | _YEARS_US.map(lambda us: us // SECOND * SECOND),
    pa.list_(pa.int64()): st.lists(st.integers(1, 10**9), max_size=4),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 4): st.decimals(-(10**15), 10**15, places=4),
}


@pytest.mark.parametrize("kind", _COLUMNS, ids=str)
@given(data=st.data())
def test_a_few_values_are_kept_as_many_are(kind: pa.DataType, data: st.DataObject) -> None:
    values = pa.array(data.draw(st.lists(st.none() | _COLUMNS[kind], min_size=1, max_size=4)), kind)
    assert [(type(one), repr(one)) for one in few_cells(values)] == [(type(one), repr(one)) for one in cells(values)]

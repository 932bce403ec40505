"""What people read from a lake is what the engine in process says: histories, other times, logs, DuckDB, commits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from augury.api import Program, compile
from augury.clock import NoSuchTime
from augury.engine.ledger import ACTIONS, REJECTED, TICKS, joined, ledger_of
from augury.event import ClassKind, EventClass
from augury.history import views
from augury.history.raw import whole_json
from augury.history.views import history_schema, system_names
from augury.lake import (
    Kind,
    Lake,
    LakeHistory,
    NoSuchClass,
    NoSuchTrigger,
    Upkeep,
    compaction,
    history,
    program_name,
    retention,
)
from augury.local.lakes import ask_lake_log
from augury.local.running import LocalEngine
from augury.local.store.asking import ask_log
from augury.local.store.sql import open_store
from tests.lake.made import BEAT, NOON, ORDER, SECOND, class_named, created, filled, orders, put, rows_of, shown

TEXT = """
{settings}
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, price DOUBLE, tick TEXT) ID (account) LIFESPAN (20s);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Login (account INT) ID () LIFESPAN (10s);
CREATE COMPLEX EVENT CLASS Bought (account INT) ID () LIFESPAN (15s)
  AS MATCH prior(Login(account), Order(account, _, _));
CREATE COMPLEX EVENT CLASS Dear (account INT, price DOUBLE) ID () LIFESPAN (15s)
  AS SELECT account, price FROM Order WHERE price > 5 OCCURRING AT Order.occTime;
"""


def happened(program: Program, seed: int, seconds: int = 60) -> LocalEngine:
    """An engine that has read some events: new ones, changes, withdrawals, several within one chronon."""
    chance, engine = random.Random(seed), LocalEngine(program)
    start = NOON // SECOND
    for second in range(start, start + seconds):
        for _ in range(chance.randrange(3)):
            account = chance.randrange(6)
            event: dict[str, Any] = {"event": "Login", "account": account}
            if chance.random() < 0.7:
                event = {
                    "event": "Order",
                    "account": account,
                    "price": chance.randrange(10),
                    "tick": chance.choice("ab"),
                }
                event["occ_time"] = second + chance.randrange(-5, 20)
                known = [row["account"] for row in _current(engine)]
                if known and chance.random() < 0.2:
                    event = {"event": "Order", "account": chance.choice(known), "occ_time": None}
            engine.post({**event, "det_time": second + chance.random() / 2})
        engine.advance_to((second + 1) * SECOND)
    return engine


def _current(engine: LocalEngine) -> list[dict[str, Any]]:
    event_class = next(one.event_class for one in engine.program.classes if one.event_class.name == "Order")
    found: list[dict[str, Any]] = views.known_at(engine.history("Order"), event_class, 1 << 62).to_pylist()
    return found


def written(path: Path, engine: LocalEngine, text: str, seed: int) -> Iterator[Lake]:
    """The same as a lake: commits of some ticks, several files each, numbers that are unique and not dense."""
    chance = random.Random(seed)
    lake = created(path, text)
    tables = {plan.event_class: engine.history(plan.event_class.name) for plan in engine.program.classes}
    tick = NOON
    while tick < NOON + 61 * SECOND:
        until = tick + chance.randrange(1, 6) * SECOND
        added = [
            entry
            for event_class, table in tables.items()
            for entry in _files(lake, event_class, _ticked(table, event_class, tick, until), chance)
        ]
        writer = lake.writer()
        writer.commit(writer.manifest(added=tuple(added), last_tick=until - SECOND))
        tick = until
        yield lake


def _ticked(table: pa.Table, event_class: EventClass, first: int, until: int) -> pa.Table:
    ticks = table[system_names(event_class).tick].cast(pa.int64())
    return table.filter(pc.and_(pc.greater_equal(ticks, first), pc.less(ticks, until)))


def _files(lake: Lake, event_class: EventClass, table: pa.Table, chance: random.Random) -> Iterator[Any]:
    names = system_names(event_class)
    for name in (names.number, names.event_number):
        if name == names.number or (name is not None and event_class.kind is ClassKind.COMPLEX):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, name, pc.add(pc.multiply(table[name], 7), 3))
    rows = list(range(table.num_rows))
    chance.shuffle(rows)
    while rows:
        some, rows = rows[:4], rows[4:]
        yield lake.files.write_table(Kind.HISTORY, event_class, table.take(pa.array(some)), tag="b")


@pytest.mark.parametrize("seed", range(3))
def test_a_lake_says_what_the_engine_in_process_says(tmp_path: Path, seed: int) -> None:
    text = TEXT.format(settings="")
    program = compile(text)
    with happened(program, seed) as engine:
        *_, lake = written(tmp_path / "l", engine, text, seed)
        found = shown(lake.path)
        assert [one.name for one in found.classes] == ["Order", "Login", "Bought", "Dear"]
        times = [NOON + second * SECOND + 400_000 for second in (-1, 7, 30, 100)]
        for event_class in found.classes:
            name, expected = event_class.name, engine.history(event_class.name)
            assert expected.num_rows > 5
            assert found.table(name).equals(expected)
            assert found.table(name.upper()).schema.equals(history_schema(event_class))
            for time in times:
                known = views.known_at(expected, event_class, time)
                assert found.known_at(time).table(name).equals(known)
                assert (
                    found.as_of(time)
                    .table(name)
                    .equals(views.as_of(views.known_at(expected, event_class, 1 << 62), time))
                )
                assert found.known_at(time).as_of(times[1]).table(name).equals(views.as_of(known, times[1]))
                assert (
                    found.diff(times[1], max(time, times[1]))
                    .table(name)
                    .equals(views.diff(expected, event_class, times[1], max(time, times[1])))
                )


@pytest.mark.parametrize("seed", range(2))
def test_what_a_ledger_holds_comes_back_in_its_order_however_it_is_cut(tmp_path: Path, seed: int) -> None:
    text = TEXT.format(settings="").replace("FROM Order WHERE", "FROM Order AS o WHERE").replace("Order.occ", "o.occ")
    text = text.replace("LIFESPAN (20s);", "LIFESPAN (20s) ON CHANGE DO changed(new.account), looked(new.price);")
    program, chance = compile(text), random.Random(seed)
    with happened(program, seed) as engine:
        store: Any = engine._store
        ledger = ledger_of(program, store.ticks)
        lake = created(tmp_path / "l", text)
        added = []
        for name, table in ledger.versions.items():
            added += list(_files(lake, class_named(name, program), table, chance))
        for kind, table in (
            (Kind.ACTIONS, ledger.actions),
            (Kind.REJECTED, ledger.rejected),
            (Kind.TICKS, ledger.ticks),
        ):
            for start in range(0, table.num_rows, 5):
                added.append(lake.files.write_table(kind, "", table.slice(start, 5), tag=f"{chance.random()}"))
        writer = lake.writer()
        writer.commit(writer.manifest(added=tuple(added), last_tick=store.last_tick()))
        found, whole = shown(lake.path), joined(program, [ledger])
        for event_class in found.classes:
            assert found.table(event_class.name).equals(engine.history(event_class.name))
        assert whole.actions.num_rows > 10
        assert found.actions().equals(whole.actions.combine_chunks())
        assert found.ticks().equals(whole.ticks.combine_chunks())
        assert found.rejected().to_pylist() == whole.rejected.to_pylist()


def test_every_commit_can_be_gone_back_to(tmp_path: Path) -> None:
    text = TEXT.format(settings="")
    program = compile(text)
    with happened(program, 5) as engine:
        for lake in written(tmp_path / "l", engine, text, 5):
            last = lake.last()
            assert last is not None
            assert last.last_tick is not None
        for manifest in lake.manifests():
            found = shown(lake.path, commit=manifest.commit)
            assert found.commit == manifest.commit
            assert manifest.last_tick is not None
            for event_class in found.classes:
                expected = engine.history(event_class.name)
                until = _ticked(expected, event_class, NOON, manifest.last_tick + SECOND)
                assert found.table(event_class.name).equals(until.combine_chunks())


@pytest.mark.parametrize("seed", range(4))
def test_retain_shows_what_the_engine_shows_before_and_after_files_are_rewritten(tmp_path: Path, seed: int) -> None:
    text = TEXT.format(settings="SET HISTORY RETAIN 25s;")
    program = compile(text)
    chance = random.Random(seed)
    with happened(program, seed) as engine, happened(compile(TEXT.format(settings="")), seed) as everything:
        for lake in written(tmp_path / "l", everything, text, seed):
            if chance.random() < 0.5:
                _retain(lake, program)
        last = lake.last()
        assert last is not None
        assert last.last_tick is not None
        engine.advance_to(last.last_tick)
        _purge(lake, engine)
        before = _shown(shown(lake.path))
        _retain(lake, program)
        after = _shown(shown(lake.path))
        assert {name: table.to_pylist() for name, table in after.items()} == {
            name: table.to_pylist() for name, table in before.items()
        }
        for event_class in (plan.event_class for plan in program.classes):
            assert after[event_class.name].equals(engine.history(event_class.name)), event_class.name
        kept = sum(entry.rows for entry in lake.snapshot().files if entry.kind is Kind.HISTORY)
        assert kept < sum(everything.history(plan.event_class.name).num_rows for plan in program.classes)


def _purge(lake: Lake, engine: LocalEngine) -> None:
    """Note what the engine has purged."""
    store: Any = engine._store
    writer = lake.writer()
    added = []
    for plan in engine.program.classes:
        event_class = plan.event_class
        numbers = [n for _, versions in store._parts(event_class, "purged") for n in versions.number.tolist()]
        if numbers:
            table = pa.table({"number": pa.array([7 * n + 3 for n in numbers], pa.int64())})
            added.append(lake.files.write_table(Kind.PURGED, event_class.name, table, tag="p"))
    writer.commit(writer.manifest(added=tuple(added)))


def _retain(lake: Lake, program: Program) -> None:
    writer = lake.writer()
    snapshot = writer.snapshot()
    assert snapshot.manifest is not None
    assert snapshot.manifest.last_tick is not None
    done = Upkeep()
    for plan in program.classes:
        done = done.and_then(
            retention(lake.files, snapshot, plan.event_class, snapshot.manifest.last_tick - 25 * SECOND)
        )
    writer.commit(writer.manifest(added=done.added, removed=done.removed))


def _shown(found: LakeHistory) -> dict[str, pa.Table]:
    return {one.name: found.table(one.name) for one in found.classes}


# ---- single things -------------------------------------------------------------------------------------------


def test_times_are_written_as_people_write_them(tmp_path: Path) -> None:
    found = shown(filled(tmp_path / "l", 5).path)
    moment = datetime(2026, 1, 1, 12, 0, 2, tzinfo=UTC)
    for time in ("2026-01-01T12:00:02Z", "2026-01-01T13:00:02+01:00", moment, NOON + 2 * SECOND, "1767268802"):
        assert found.known_at(time).table("Order").num_rows == 6
    with pytest.raises(NoSuchTime, match="`soon` is no time"):
        found.known_at("soon")


def test_a_class_that_is_not_there_is_told_with_what_is_meant(tmp_path: Path) -> None:
    found = shown(filled(tmp_path / "l", 1).path)
    with pytest.raises(NoSuchClass, match=r"has no event class `Ordr`; did you mean `Order`\?"):
        found.table("Ordr")
    with pytest.raises(NoSuchClass, match="has no event class `zzz`; it has Order, Beat"):
        found.files("zzz")


def test_a_lake_without_commits_has_empty_tables(tmp_path: Path) -> None:
    found = shown(created(tmp_path / "l").path)
    assert found.manifest is None
    assert found.table("Order").equals(history_schema(ORDER).empty_table())
    assert found.known_at(NOON).table("Beat").equals(history_schema(BEAT).empty_table())
    assert found.diff(0, NOON).table("Order").num_rows == 0
    assert (found.actions().schema, found.rejected().schema, found.ticks().schema) == (*(ACTIONS, REJECTED, TICKS),)
    assert found.duckdb().sql('SELECT count(*) FROM "Order_now"').fetchall() == [(0,)]


def test_the_order_of_a_history_is_whose_it_is(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    put(writer, lake.files, orders(4, 3, 1), orders(1, 3, 1))
    put(writer, lake.files, orders(7, 2, 2))

    def backwards(event_class: EventClass, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        seq, tick = table["seq"].to_numpy(), table["tick"].cast(pa.int64()).to_numpy()
        return np.lexsort((-seq, tick))

    assert shown(lake.path).table("Order")["seq"].to_pylist() == [1, 2, 3, 4, 5, 6, 7, 8]
    found = shown(lake.path, order=backwards).table("Order")
    assert found["seq"].to_pylist() == [6, 5, 4, 3, 2, 1, 8, 7]
    assert found["number"].to_pylist() == list(range(1, 9))


def test_versions_of_one_event_share_the_number_of_the_one_that_announced_it(tmp_path: Path) -> None:
    text = TEXT.format(settings="")
    lake = created(tmp_path / "l", text)
    dear = class_named("Dear", compile(text))
    writer = lake.writer()
    rows: list[dict[str, Any]] = [
        {"seq": 1, "second": 1, "number": 500, "event_number": 500, "account": 1},
        {"seq": 2, "second": 1, "number": 77, "event_number": 77, "account": 2},
        {"seq": 3, "second": 2, "number": 9_000, "event_number": 77, "account": 3, "change": "change"},
    ]
    entry = lake.files.write_table(Kind.HISTORY, dear, rows_of(dear, rows), tag="x")
    writer.commit(writer.manifest(added=(entry,), last_tick=NOON))
    found = shown(lake.path).table("Dear")
    assert found.select(["number", "event_number", "account"]).to_pydict() == {
        "number": [1, 2, 3],
        "event_number": [1, 2, 2],
        "account": [1, 2, 3],
    }


def test_an_attribute_that_came_later_is_null_before_and_other_columns_are_not_shown(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 1)
    text = lake.about.program.replace("price DOUBLE)", "price DOUBLE, note TEXT)")
    event_class = compile(text).classes[0].event_class
    name = lake.keep_program(text)
    table = rows_of(event_class, [{"seq": 9, "second": 2, "account": 9, "note": "new"}])
    table = table.append_column("ours", pa.array([1]))
    writer = lake.writer()
    entry = lake.files.write_table(Kind.HISTORY, event_class, table, tag="x")
    writer.commit(writer.manifest(added=(entry,), last_tick=NOON + 2 * SECOND, program=name))
    found = shown(lake.path).table("Order")
    assert found.schema.equals(history_schema(event_class))
    assert found["note"].to_pylist() == [None, None, None, "new"]
    assert "note" not in shown(lake.path, commit=1).table("Order").column_names


def test_what_is_current_is_neither_withdrawn_nor_purged(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    rows: list[dict[str, Any]] = [{"seq": n, "second": 1, "account": n} for n in range(1, 6)]
    rows += [
        {"seq": 6, "second": 2, "account": 1, "change": "change", "price": 2.0},
        {"seq": 7, "second": 2, "account": 2, "change": "withdraw", "occ_time": None},
    ]
    put(writer, lake.files, rows_of(ORDER, rows))
    purged = pa.table({"number": [30], "tick": [NOON]})
    archived = rows_of(ORDER, [{"seq": 4, "second": 3, "account": 4}])
    added = (
        lake.files.write_table(Kind.PURGED, "Order", purged, tag="p"),
        lake.files.write_table(Kind.ARCHIVE, ORDER, archived, tag="a"),
    )
    writer.commit(writer.manifest(added=added))
    found = shown(lake.path)
    assert found.now("Order")["account"].to_pylist() == [5, 1]
    assert found.now("Order")["number"].to_pylist() == [5, 6]
    assert found.table("Order").num_rows == 7
    assert found.archive("Order").select(["number", "account"]).to_pylist() == [{"number": 4, "account": 4}]
    with found.duckdb() as connection:
        assert connection.sql('SELECT account FROM "Order_now" ORDER BY 1').fetchall() == [(1,), (5,)]
        assert connection.sql('SELECT count(*), max(price) FROM "order"').fetchall() == [(7, 2.0)]
        assert connection.sql("SELECT count(*) FROM Beat").fetchall() == [(0,)]
    with found.known_at(NOON + SECOND).duckdb("Order") as connection:
        assert connection.sql('SELECT count(*) FROM "Order"').fetchall() == [(5,)]
        with pytest.raises(duckdb.CatalogException):
            connection.sql("SELECT * FROM Beat")


def test_a_class_called_like_a_view_keeps_its_name(tmp_path: Path) -> None:
    text = (
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS a_NOW (k INT) ID (k) LIFESPAN (-1);"
    )
    with shown(created(tmp_path / "l", text).path).duckdb() as connection:
        names = {
            name for (name,) in connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()
        }
    assert names == {"A", "A_now_", "a_NOW", "a_NOW_now"}


def test_files_are_read_by_others(tmp_path: Path) -> None:
    lake = filled(tmp_path / "a lake", 4)
    writer = lake.writer()
    done = compaction(lake.files, writer.snapshot(), fan_in=3)
    writer.commit(writer.manifest(added=done.added, removed=done.removed))
    put(writer, lake.files, orders(900, 2, 9), second=9)
    paths = shown(lake.path).files("Order")
    assert len(paths) == 2
    with duckdb.connect() as connection:
        found = connection.execute("SELECT count(*), max(seq) FROM read_parquet(?)", [paths]).fetchall()
    assert found == [(14, 901)]


def test_logs_come_by_tick_and_stay_so_when_compacted(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    for commit in range(1, 12):
        ticks = [NOON + second * SECOND for second in (2 * commit, 2 * commit + 1)]
        for part in range(2):
            rows = [
                {"tick": tick, "place": f"{commit} {part}", "event": "e", "reason": "r", "raw": ""} for tick in ticks
            ]
            columns = {field.name: pa.array([row[field.name] for row in rows]) for field in REJECTED}
            table = pa.table({name: column.cast(REJECTED.field(name).type) for name, column in columns.items()})
            entry = lake.files.write_table(Kind.REJECTED, "", table, tag=f"{commit:04d}-{part}")
            writer.commit(writer.manifest(added=(entry,), last_tick=ticks[-1]))
    before = shown(lake.path).rejected()
    assert [row["place"] for row in before.to_pylist()][:4] == ["1 0", "1 1", "1 0", "1 1"]
    assert before["tick"].to_pylist() == sorted(before["tick"].to_pylist())
    done = compaction(lake.files, writer.snapshot(), fan_in=3)
    writer.commit(writer.manifest(added=done.added, removed=done.removed))
    assert len(lake.snapshot().of(Kind.REJECTED)) < 5
    assert shown(lake.path).rejected().equals(before)


def test_the_engines_of_all_slots_have_one_row_a_tick(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    nothing = dict.fromkeys(("derived", "actions", "rejected", "absorbed", "purged"), 0)
    spent = dict.fromkeys(("derive_seconds", "decide_seconds", "purge_seconds"), 0.25)
    for commit, slots in enumerate(([(1, 4, 2), (2, 6, 2)], [(1, 4, 0), (3, 7, 1)], [(3, 6, 1)]), 1):
        rows = [
            {"tick": NOON + second * SECOND, "last_seq": last, "read": read, "read_seconds": 0.5}
            | nothing
            | spent
            | {"failed": whole_json({"X": f"of {second % 2}"}), "warnings": whole_json({"Y": last}), "errors": "{}"}
            for second, last, read in slots
        ]
        columns = {field.name: pa.array([row[field.name] for row in rows]).cast(field.type) for field in TICKS}
        entry = lake.files.write_table(Kind.TICKS, "", pa.table(columns, schema=TICKS), tag=f"{commit:04d}")
        writer.commit(writer.manifest(added=(entry,), last_tick=NOON + 3 * SECOND))
    found = shown(lake.path).ticks()
    assert found.schema == TICKS
    told = found.select(["last_seq", "read", "read_seconds", "derive_seconds", "failed", "warnings"]).to_pylist()
    assert [tuple(row.values()) for row in told] == [
        (4, 2, 1.0, 0.5, '{"X": "of 1"}', '{"Y": 8}'),
        (6, 2, 0.5, 0.25, '{"X": "of 0"}', '{"Y": 6}'),
        (7, 2, 1.0, 0.5, '{"X": "of 1"}', '{"Y": 13}'),
    ]


TRIGGERED = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, tick TEXT) ID (account) LIFESPAN (20s);
RULE Tell (account INT) ACTION tell(account);
TRIGGER Ordered (account INT, {parameter}) TRIGGEREVENT Order RULESTRUC Tell(account);
TRIGGER Order_now () TRIGGEREVENT Order RULESTRUC Tell(Order.account);
"""


def test_firings_come_back_whatever_the_trigger_was_when_it_fired(tmp_path: Path) -> None:
    lake = created(tmp_path / "l", TRIGGERED.format(parameter="tick TEXT"))
    writer = lake.writer()
    for number, parameter in enumerate(("tick TEXT", "`seq` TEXT"), 1):
        text = TRIGGERED.format(parameter=parameter)
        lake.keep_program(text)
        program, at = compile(text), NOON + number * 2 * SECOND
        with LocalEngine(program) as engine:
            engine.post({"event": "Order", "account": number, "tick": "x", "det_time": (at - SECOND // 2) / SECOND})
            done = ledger_of(program, list(engine.advance_to(at)))
        tables = {trigger: done.firings[trigger.name] for trigger in program.triggers}
        added = [lake.files.write_firings(one, table, tag=f"{number:012d}") for one, table in tables.items()]
        assert {(entry.min_tick, entry.max_tick) for entry in added} == {(at, at)}
        writer.commit(writer.manifest(added=tuple(added), last_tick=at, program=program_name(text)))
    found = history(lake.path, compile)
    rows = found.firings("ordered").to_pylist()
    assert [(row["account"], row["seq"], row["seq_"]) for row in rows] == [(1, None, 1), (2, "x", 1)]
    assert [row["tick"].timestamp() * SECOND for row in rows] == [NOON + 2 * SECOND, NOON + 4 * SECOND]
    assert found.known_at(NOON + 3 * SECOND).firings("Ordered")["account"].to_pylist() == [1]
    with found.duckdb() as connection:
        assert connection.sql("SELECT count(*) FROM Ordered").fetchall() == [(2,)]
        assert connection.sql("SELECT count(*) FROM Order_now_").fetchall() == [(2,)], "a class has that name"
    with pytest.raises(NoSuchTrigger, match="there is no trigger `Orderd`; did you mean `Ordered`"):
        found.firings("Orderd")


BROKERAGE = Path(__file__).parents[2] / "examples" / "brokerage" / "brokerage.bicepl"


def test_a_lake_has_the_catalogue_of_its_program_as_a_store_has(tmp_path: Path) -> None:
    text = BROKERAGE.read_text("utf-8")
    created(tmp_path / "l", text)
    open_store(str(tmp_path / "s.db"), compile(text)).close()
    found = ask_lake_log(str(tmp_path / "l"), "catalogue", compile).table.to_pylist()
    stored = ask_log(str(tmp_path / "s.db"), "catalogue").table.to_pylist()
    # A store has columns of its own, and settings that only tables need.
    theirs = [row | {"table": None, "column": None} for row in stored if row["role"] != "system"]
    assert found == [row for row in theirs if row["name"] not in ("store_format", "retain_us")]
    assert {row["kind"] for row in found} == {"subscribed", "complex", "clock", "trigger", "rule", "group", "setting"}

"""Upkeep: many small files become few and say the same, what is old goes, what nobody needs is removed; never more."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from augury.lake import FileEntry, Kind, Lake, Snapshot, Upkeep, Writer, compaction, retention, retention_pays, vacuum
from augury.lake.snapshot import in_order
from augury.lake.upkeep import _runs
from tests.lake.made import BEAT, NOON, ORDER, SECOND, created, filled, orders, put, rows_of, shown, total


def commit(writer: Writer, done: Upkeep) -> None:
    writer.commit(writer.manifest(added=done.added, removed=done.removed))


# ---- compaction ----------------------------------------------------------------------------------------------


def test_many_small_files_become_few_and_say_the_same(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer, chance, seq = lake.writer(), random.Random(3), 1
    for second in range(1, 41):
        tables = []
        for _ in range(chance.randrange(4)):
            count = chance.randrange(1, 6)
            tables.append(orders(seq, count, second, accounts=7))
            seq += count
        chance.shuffle(tables)
        put(writer, lake.files, *tables, second=second)
    before = shown(lake.path)
    files = [lake.files.read_table(entry.path) for entry in before.snapshot.files]
    commit(writer, compaction(lake.files, writer.snapshot()))
    after = shown(lake.path)
    assert len(before.snapshot.files) > 40
    assert len(after.snapshot.files) < 8
    assert total(after.snapshot.files) == total(before.snapshot.files) == seq - 1
    assert after.table("Order").equals(before.table("Order"))
    assert after.known_at(NOON + 9 * SECOND).table("Order").equals(before.known_at(NOON + 9 * SECOND).table("Order"))
    # Also row by row, as those read them who read the files themselves.
    rewritten = [lake.files.read_table(entry.path) for entry in after.snapshot.files]
    assert pa.concat_tables(rewritten).equals(pa.concat_tables(files))
    assert shown(lake.path, commit=before.commit).table("Order").equals(before.table("Order"))
    for entry in after.snapshot.files:
        ticks = lake.files.read_table(entry.path)["tick"].cast(pa.int64()).to_pylist()
        assert (entry.min_tick, entry.max_tick) == (min(ticks), max(ticks))


def test_what_is_merged_again_and_again_stays_where_it_was(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    for second in range(1, 70):
        put(writer, lake.files, orders(3 * second, 2, second), orders(3 * second + 2, 1, second), second=second)
        commit(writer, compaction(lake.files, writer.snapshot(), fan_in=3))
        assert len(writer.snapshot().files) <= 14
    assert shown(lake.path).table("Order")["seq"].to_pylist() == list(range(3, 3 * 69 + 3))
    assert writer.snapshot() == Snapshot(writer.last, lake.snapshot().files)


def test_work_follows_what_is_new(tmp_path: Path) -> None:
    """How often a row is written again, over 600 commits of a row each."""
    lake = created(tmp_path / "l")
    live: tuple[FileEntry, ...] = ()
    rewritten = most = 0
    for second in range(600):
        entry = FileEntry(Kind.HISTORY, "Order", f"history/Order/{second:04d}", 1, 1000, second, second)
        live = in_order((*live, entry))
        for run in _runs(live, 8, 1 << 30):
            rewritten += total(run)
            merged = FileEntry(Kind.HISTORY, "Order", run[0].path + "~", total(run), 1000, run[0].min_tick)
            live = in_order((merged, *(one for one in live if one not in run)))
        most = max(most, len(live))
    assert total(live) == 600
    assert rewritten <= 600 * 3.1  # 8 · 8 · 8 < 600
    assert most <= 7 * 4 + 1
    assert lake.last_commit() == 0


def test_a_call_does_not_more_than_it_may(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    for second in range(1, 41):
        put(writer, lake.files, orders(second, 1, second), second=second)
    size = writer.snapshot().files[0].bytes
    done = compaction(lake.files, writer.snapshot(), work_bytes_max=10 * size + 100)
    assert len(done.removed) == 10
    assert [entry.rows for entry in done.added] == [10]
    assert not compaction(lake.files, writer.snapshot(), work_bytes_max=size)
    assert not compaction(lake.files, writer.snapshot(), file_bytes_max=size)
    assert len(compaction(lake.files, writer.snapshot(), file_bytes_max=5 * size).removed) == 5
    assert not compaction(lake.files, lake.snapshot(7))


def test_files_of_different_columns_are_not_merged(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    for second in range(1, 9):
        table = orders(second, 1, second)
        put(writer, lake.files, table if second % 2 else table.append_column("more", pa.array([1])), second=second)
    assert not compaction(lake.files, writer.snapshot())
    assert shown(lake.path).table("Order").num_rows == 8


ENTRIES = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 10**9), st.integers(0, 20)), max_size=60)


@settings(max_examples=200)
@given(ENTRIES, st.integers(2, 9))
def test_runs_are_neighbours_and_none_is_taken_twice(made: list[tuple[int, int, int]], fan_in: int) -> None:
    entries = in_order(
        FileEntry(Kind.HISTORY, "Order", f"history/Order/{place:04d}", rows, size, tick, tick)
        for place, (rows, size, tick) in enumerate(made)
    )
    places = {entry.path: place for place, entry in enumerate(entries)}
    taken: list[int] = []
    for run in _runs(entries, fan_in, 1 << 28):
        found = [places[entry.path] for entry in run]
        assert found == list(range(found[0], found[0] + len(found)))
        assert len(found) >= fan_in
        assert all(entry.bytes < 1 << 27 for entry in run)
        taken += found
    assert len(taken) == len(set(taken))


# ---- retention -----------------------------------------------------------------------------------------------


def history_of_two(path: Path) -> Lake:
    """Account 1 changes at every second; account 2 is there from the beginning; 3 was withdrawn."""
    lake = created(path)
    writer = lake.writer()
    rows = [{"seq": n, "second": 1, "account": n} for n in (1, 2, 3)]
    put(writer, lake.files, rows_of(ORDER, rows), second=1)
    put(writer, lake.files, rows_of(ORDER, [{"seq": 4, "second": 2, "account": 3, "change": "withdraw"}]), second=2)
    for second in range(3, 21):
        row = {"seq": second + 2, "second": second, "account": 1, "change": "change", "price": float(second)}
        put(writer, lake.files, rows_of(ORDER, [row]), second=second)
    return lake


def test_old_versions_go_but_current_ones_and_the_numbers_of_all_stay(tmp_path: Path) -> None:
    lake = history_of_two(tmp_path / "l")
    writer = lake.writer()
    whole = shown(lake.path).table("Order")
    for before, left in ((1, 22), (5, 17), (12, 10), (12, 10), (3, 10), (19, 3), (100, 2)):
        done = retention(lake.files, writer.snapshot(), ORDER, NOON + before * SECOND)
        commit(writer, done)
        assert not retention_pays(lake.files, writer.snapshot(), ORDER, NOON + before * SECOND), "it has just been done"
        table = shown(lake.path).table("Order")
        assert table.num_rows == left
        kept = [row for row in whole.to_pylist() if row in table.to_pylist()]
        assert kept == table.to_pylist(), "numbers and all else are what they were"
        assert 2 in table["account"].to_pylist()
        assert sum(entry.rows for entry in lake.snapshot().of(Kind.HISTORY, "Order")) == left
    put(writer, lake.files, rows_of(ORDER, [{"seq": 90, "second": 200, "account": 9}]), second=200)
    assert shown(lake.path).table("Order")["number"].to_pylist() == [2, 22, 23]
    assert shown(lake.path, commit=20).table("Order").equals(whole)


def test_retention_and_compaction_go_together(tmp_path: Path) -> None:
    lake = history_of_two(tmp_path / "l")
    writer = lake.writer()
    commit(writer, compaction(lake.files, writer.snapshot(), fan_in=3))
    whole = shown(lake.path).table("Order").to_pylist()
    for before in range(1, 21):
        commit(writer, retention(lake.files, writer.snapshot(), ORDER, NOON + before * SECOND))
        commit(writer, compaction(lake.files, writer.snapshot(), fan_in=2))
        found = shown(lake.path).table("Order").to_pylist()
        assert found == [row for row in whole if row in found]
    assert [row["number"] for row in found] == [2, 22]


def test_where_nothing_is_old_nothing_is_done(tmp_path: Path) -> None:
    lake = history_of_two(tmp_path / "l")
    assert not retention(lake.files, lake.snapshot(), ORDER, NOON)
    pays = [retention_pays(lake.files, lake.snapshot(), ORDER, NOON + second * SECOND) for second in (0, 1, 2, 6)]
    assert pays == [False, False, False, True], "one in four leaves, or it waits"
    assert not retention(lake.files, lake.snapshot(), BEAT, NOON + 100 * SECOND)


def test_purged_versions_are_not_current_and_go(tmp_path: Path) -> None:
    lake = history_of_two(tmp_path / "l")
    writer = lake.writer()
    purged = lake.files.write_table(Kind.PURGED, "Order", pa.table({"number": [20, 220]}), tag="p")
    writer.commit(writer.manifest(added=(purged,)))
    commit(writer, retention(lake.files, writer.snapshot(), ORDER, NOON + 20 * SECOND))
    assert shown(lake.path).table("Order")["number"].to_pylist() == [22]
    assert shown(lake.path).now("Order").num_rows == 0
    (left,) = lake.snapshot().of(Kind.PURGED, "Order")
    assert lake.files.read_table(left.path)["number"].to_pylist() == [220]


# ---- vacuum --------------------------------------------------------------------------------------------------

LATER = time.time() + 1_000_000


def paths(lake: Lake) -> set[str]:
    return {one.path for one in lake.storage.walk()}


def test_vacuum_removes_what_nobody_needs_and_nothing_else(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 70)
    writer = lake.writer()
    commit(writer, compaction(lake.files, writer.snapshot()))
    lake.files.write_table(Kind.HISTORY, ORDER, orders(999, 1, 99), tag="orphan")
    lake.files.write_bytes("state", "Order/9", b"orphan")
    for name in ("manifests/.tmp-1", "history/Order/.tmp-2", ".tmp-3"):
        (tmp_path / "l" / name).write_text("torn")
    for name in ("notes.txt", "mine/x.parquet", "ids/1.bin", "manifests/notes"):
        (tmp_path / "l" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "l" / name).write_text("mine")
    before, whole = paths(lake), shown(lake.path).table("Order")
    assert vacuum(lake, 3600).paths == ()
    assert vacuum(lake).paths == ()
    assert paths(lake) == before
    first = vacuum(lake, 3600, now_seconds=LATER)
    # States of commits 1 to 7, two orphans, and what was being written.
    assert len(first.paths) == 7 + 2 + 3
    assert first.bytes > 0
    assert before - paths(lake) == set(first.paths)
    assert shown(lake.path, commit=8).table("Order").num_rows == 24
    assert vacuum(lake, 3600, now_seconds=LATER).paths == ()
    second = vacuum(lake, 0, commits_kept=1, now_seconds=LATER)
    assert len([path for path in second.paths if path.startswith("history/")]) == 70
    assert shown(lake.path).table("Order").equals(whole)
    assert {"notes.txt", "mine/x.parquet", "ids/1.bin", "manifests/notes", "augury.json"} <= paths(lake)
    assert len(list(lake.manifests())) == 71


def test_vacuum_never_removes_what_is_young(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    old = lake.files.write_bytes("state", "a", b"1")
    young = lake.files.write_bytes("state", "b", b"2")
    os.utime(tmp_path / "l" / old, (time.time() - 5000, time.time() - 5000))
    assert vacuum(lake, 3600).paths == (old,)
    assert young in paths(lake)


def test_vacuum_keeps_ids_that_a_manifest_names(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    first, second = (lake.files.write_bytes("ids", "0", b"%d" % n) for n in range(2))
    writer.commit(writer.manifest(state={"ids": second}))
    assert vacuum(lake, 0, now_seconds=LATER).paths == (first,)


def test_what_a_batch_has_written_is_safe_while_it_is_young_and_can_be_committed(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 1)
    writer = lake.writer()
    entry = lake.files.write_table(Kind.HISTORY, ORDER, orders(50, 2, 5), tag="x")
    vacuum(lake, 600)
    writer.commit(writer.manifest(added=(entry,), last_tick=NOON + 5 * SECOND))
    assert shown(lake.path).table("Order").num_rows == 5


@pytest.mark.parametrize("commits", [0, 1])
def test_vacuum_of_a_lake_with_next_to_nothing(tmp_path: Path, commits: int) -> None:
    lake = filled(tmp_path / "l", commits)
    before = paths(lake)
    assert vacuum(lake, 0, now_seconds=LATER).paths == ()
    assert paths(lake) == before

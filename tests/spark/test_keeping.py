"""What a keeper leaves on the disk: states of the last commits, versions as long as they are retained, few files."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from augury.api import compile
from augury.lake import Kind, Lake
from augury.spark.keeping import STATES_KEPT, Keeper, keeper
from augury.spark.slots import SlotDone
from augury.spark.stepping import NOTHING_TOLD
from tests.lake import made

TEXT = "SET CHRONON 1s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);"
SECOND = 1_000_000


def steps(kept: Keeper, ticks: range, slots: list[int]) -> None:
    """Steps in which these slots have a new state each."""
    for tick in ticks:
        files, tag = kept.lake.files, f"{kept.writer.next_commit:012d}"
        done = [
            SlotDone(
                slot, (), files.write_bytes("state", f"{tag}-{slot:05d}", b"x"), None, frozenset(), None, {}, 0, 0, 0
            )
            for slot in slots
        ]
        kept.settle(kept.step(NOTHING_TOLD, tick * SECOND), NOTHING_TOLD, done, query="q", batch=tick)


def states(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix() for path in (store / "state").rglob("*") if path.is_file()}


def test_states_that_the_last_commits_do_not_need_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    store, program = tmp_path / "lake", compile(TEXT)
    lake = Lake.create(store, program_text=TEXT, chronon_us=SECOND, buckets=2)
    kept = keeper(spark, program, lake)
    steps(kept, range(1, 3), [0, 1])
    unchanged = kept.manifest and set(kept.manifest.state.values())
    assert unchanged
    steps(kept, range(3, 12), [0])
    assert len(states(store)) == 13
    kept = keeper(spark, program, Lake.open(store))
    steps(kept, range(12, 60), [0])
    manifests = list(lake.manifests())
    needed = {path for one in manifests[-STATES_KEPT:] for path in one.state.values()}
    assert states(store) == needed
    assert len(needed & unchanged) == 1, "that of the slot that had nothing to do"


def test_versions_that_are_not_retained_leave_the_files_with_the_upkeep(spark: SparkSession, tmp_path: Path) -> None:
    text = "SET HISTORY RETAIN 5s;\n" + made.TEXT
    lake = made.created(tmp_path / "lake", text)
    kept, last = keeper(spark, compile(text), lake), 60
    for second in range(1, last + 1):
        tag = f"{kept.writer.next_commit:012d}-00000"
        # One order, which changes every second.
        entry = lake.files.write_table(Kind.HISTORY, made.ORDER, made.orders(second, 1, second, accounts=1), tag=tag)
        done = SlotDone(0, (entry,), None, None, frozenset(), None, {}, second, 1, 0)
        kept.settle(kept.step(NOTHING_TOLD, made.NOON + second * SECOND), NOTHING_TOLD, [done], query="q", batch=second)
    files = lake.snapshot().of(Kind.HISTORY, "Order")
    assert last - 16 < (max(entry.max_tick or 0 for entry in files) - made.NOON) // SECOND
    assert made.total(files) < 5 + 2 * 16, "what was too old at the upkeep before the last is gone"
    shown = made.shown(lake.path).table("Order")
    assert shown["seq"].to_pylist() == list(range(last - 4, last + 1))
    assert shown["number"].to_pylist() == list(range(last - 4, last + 1))


def test_views_have_what_is_retained_and_join_with_other_frames(spark: SparkSession, tmp_path: Path) -> None:
    """Files that no upkeep has rewritten hold older versions; of those a view has the current ones alone."""
    text = "SET HISTORY RETAIN 5s;\n" + made.TEXT
    lake = made.created(tmp_path / "lake", text)
    kept = keeper(spark, compile(text), lake)
    for second in range(1, 13):
        # Account 1 changes every second, and 2 and 3 were there before.
        rows = [{"second": second, "seq": 10 * second, "account": 1, "price": float(second)}]
        rows += [{"second": 1, "seq": 10 + k, "account": k, "price": 0.5} for k in (2, 3) if second == 1]
        tag = f"{kept.writer.next_commit:012d}-00000"
        entry = lake.files.write_table(Kind.HISTORY, made.ORDER, made.rows_of(made.ORDER, rows), tag=tag)
        done = SlotDone(0, (entry,), None, None, frozenset(), None, {}, 10 * second, len(rows), 0)
        kept.settle(kept.step(NOTHING_TOLD, made.NOON + second * SECOND), NOTHING_TOLD, [done], query="q", batch=second)
    history = made.shown(lake.path)
    held = spark.read.parquet(*history.files("Order")).count()
    names = history.createViews(spark, prefix="retained_")
    assert "retained_Order" in names
    view, table = spark.table("retained_Order"), history.table("Order").drop_columns(["number"])
    assert table.num_rows < held, "some versions are too old, and still in the files"
    assert {2, 3} < set(table["account"].to_pylist()), "they are current"
    columns = [name for name in view.columns if name in table.column_names]
    assert set(columns) == set(view.columns)
    rows_of_view = view.select(*columns).toArrow().select(columns).to_pylist()
    assert sorted(map(str, rows_of_view)) == sorted(map(str, table.select(columns).to_pylist()))
    owners = spark.createDataFrame([(1, "Ada"), (2, "Bo"), (9, "Cy")], "account int, owner string")
    owners.createOrReplaceTempView("owners")
    joined = spark.sql(
        "SELECT owner, count(*) AS n FROM retained_Order JOIN owners USING (account) GROUP BY owner ORDER BY owner"
    )
    assert [(row.owner, row.n) for row in joined.collect()] == [("Ada", table.num_rows - 2), ("Bo", 1)]
    assert view.join(owners, "account", "left_anti").select("account").collect() == [(3,)]

"""What a keeper leaves on the disk: states of the last commits, and no older ones."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from augury.api import compile
from augury.lake import Lake
from augury.spark.keeping import STATES_KEPT, Keeper, keeper
from augury.spark.slots import SlotDone
from augury.spark.stepping import NOTHING_TOLD

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

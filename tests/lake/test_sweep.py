"""What writers leave behind is swept away: only what no manifest names, and never what may still be named."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from augury.lake import CorruptFile, Kind, Lake, LakeFailed, compaction
from augury.lake.manifest import manifest_name
from augury.lake.systems import Disk
from augury.lake.vacuum import OLDER_THAN_SECONDS, sweep
from tests.lake.made import ORDER, created, filled, orders, put, shown

DAY = OLDER_THAN_SECONDS
LATER = time.time() + 2 * DAY


def paths(lake: Lake) -> set[str]:
    return {one.path for one in lake.storage.walk()}


def left_behind(lake: Lake, commit: int) -> list[str]:
    """Files that somebody wrote for a commit, and never committed."""
    tag = f"{commit:012d}-00003"
    rows = lake.files.write_table(Kind.HISTORY, ORDER, orders(900, 2, 9), tag=tag).path
    return [rows, *(lake.files.write_bytes(kind, tag, b"left") for kind in ("state", "waiting", "ids"))]


def test_only_what_its_commit_does_not_name_goes(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 70)
    writer = lake.writer()
    done = compaction(lake.files, writer.snapshot())
    writer.commit(writer.manifest(added=done.added, removed=done.removed))
    named = paths(lake)
    left = [*left_behind(lake, 3), *left_behind(lake, 70)]
    others = [*left_behind(lake, 72), lake.files.write_bytes("state", "a", b"not for a commit")]
    for name in ("manifests/.tmp-1", "history/Order/.tmp-2"):
        (tmp_path / "l" / name).write_text("torn")
        left.append(name)
    for name in ("mine/000000000003-x", "000000000003-notes", "history/notes"):
        (tmp_path / "l" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "l" / name).write_text("mine")
        others.append(name)
    before = paths(lake)
    assert sweep(lake).paths == ()
    assert paths(lake) == before
    assert set(sweep(lake, now_seconds=LATER).paths) == set(left)
    # What compaction has replaced is named by earlier manifests: those commits can still be read.
    assert paths(lake) == named | set(others)
    assert shown(lake.path, commit=5).table("Order").num_rows == 15
    assert sweep(lake, now_seconds=LATER).paths == ()


def test_what_is_young_stays_and_so_does_what_is_left_of_a_young_commit(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 3)
    old, young = left_behind(lake, 2), left_behind(lake, 2)
    last = left_behind(lake, 3)
    for path in [*old, *last, manifest_name(2)]:
        os.utime(tmp_path / "l" / path, (time.time() - DAY - 60, time.time() - DAY - 60))
    assert set(sweep(lake).paths) == set(old)
    assert set(young) | set(last) <= paths(lake)


def test_whoever_went_back_has_a_day_to_change_their_mind(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 6)
    whole, now = shown(lake.path).table("Order"), time.time()
    for one in lake.storage.walk():
        os.utime(tmp_path / "l" / one.path, (now - 9 * DAY, now - 9 * DAY))
    away = {n: (tmp_path / "l" / manifest_name(n)).read_bytes() for n in (5, 6)}
    for n in away:
        (tmp_path / "l" / manifest_name(n)).unlink()
    assert sweep(lake).paths == ()
    writer = lake.writer()
    put(writer, lake.files, orders(500, 1, 50))
    given_up = {path for path in paths(lake) if "00000000000000000005-" in path} - lake.snapshot().paths()
    assert given_up
    assert sweep(lake).paths == ()
    again = shown(lake.path).table("Order")
    (tmp_path / "l" / manifest_name(5)).rename(tmp_path / "other")
    for n, content in away.items():
        (tmp_path / "l" / manifest_name(n)).write_bytes(content)
    assert shown(lake.path).table("Order").equals(whole)
    (tmp_path / "l" / manifest_name(6)).unlink()
    (tmp_path / "other").replace(tmp_path / "l" / manifest_name(5))
    assert set(sweep(lake, now_seconds=LATER).paths) >= given_up
    assert shown(lake.path).table("Order").equals(again)


def test_a_sweep_reads_only_so_much_and_the_next_goes_on(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 9)
    left = [path for commit in range(1, 10) for path in left_behind(lake, commit)]
    found: list[str] = []
    after = turns = 0
    while turns == 0 or after:
        done = sweep(lake, after=after, manifests_max=4, now_seconds=LATER)
        found += done.paths
        after, turns = done.after, turns + 1
    assert turns == 3
    assert sorted(found) == sorted(left)


@dataclass(frozen=True, slots=True)
class Stubborn(Disk):
    """A disk that keeps some files."""

    def remove(self, path: str) -> None:
        if path.startswith("state/"):
            raise LakeFailed(f"the lake failed to remove `{path}`: Operation not permitted")
        Disk.remove(self, path)


def test_what_cannot_be_removed_is_told_and_the_rest_goes(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    left = left_behind(lake, 1)
    stubborn = Lake(Stubborn(lake.path), lake.about)
    done = sweep(stubborn, now_seconds=LATER)
    assert list(done.failed) == [path for path in left if path.startswith("state/")]
    assert all("not permitted" in reason for reason in done.failed.values())
    assert set(done.paths) == set(left) - set(done.failed)
    assert set(sweep(lake, now_seconds=LATER).paths) == set(done.failed)


def test_a_damaged_manifest_stops_it_before_anything_goes(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 4)
    for commit in (1, 4):
        left_behind(lake, commit)
    (tmp_path / "l" / manifest_name(2)).write_text("{")
    before = paths(lake)
    with pytest.raises(CorruptFile):
        sweep(lake, now_seconds=LATER)
    assert paths(lake) == before


def test_of_a_lake_with_nothing_nothing_goes(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    left_behind(lake, 1)
    before = paths(lake)
    assert sweep(lake, now_seconds=LATER).paths == ()
    assert paths(lake) == before

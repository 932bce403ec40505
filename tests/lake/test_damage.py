"""Files that are damaged, gone or from the future: each is named, with the last good commit and what to do."""

from __future__ import annotations

import os
import pickle
import random
import re
import shutil
from pathlib import Path

import pytest

from augury.lake import CorruptFile, FileEntry, Kind, Lake, NewerFormat, NoSuchCommit, vacuum
from augury.lake.errors import Damaged
from augury.lake.manifest import bytes_of, checked_json, manifest_of, read_checked_json
from augury.lake.vacuum import needed_paths
from tests.lake.made import ORDER, TEXT, created, filled, orders, put, shown, total


def manifest_path(lake: Lake, commit: int) -> Path:
    return Path(lake.path) / "manifests" / f"{commit:020d}.json"


def flipped(content: bytes, bit: int) -> bytes:
    found = bytearray(content)
    found[bit // 8] ^= 1 << bit % 8
    return bytes(found)


def go_on_from(lake: Lake, good: int) -> None:
    """Do what the advice says: move later manifests away, and commit again."""
    for commit in range(good + 1, 200):
        manifest_path(lake, commit).unlink(missing_ok=True)
    again = Lake.open(lake.path)
    assert again.last_commit() == good
    assert total(again.snapshot().files) == 3 * good
    writer = again.writer()
    state = again.files.write_bytes("state", "Order/0", b"anew")
    put(writer, again.files, orders(900, 1, 500), second=500, state={"Order/0": state})
    table = shown(lake.path).table("Order")
    assert table.num_rows == 3 * good + 1
    assert table["number"].to_pylist() == list(range(1, 3 * good + 2))


# ---- manifests -----------------------------------------------------------------------------------------------

AT = "at 2026-01-01T12:00:41Z"


def test_any_flipped_bit_and_any_cut_of_a_manifest_is_found(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    content = manifest_path(lake, 2).read_bytes()
    chance = random.Random(1)
    for bit in chance.sample(range(8 * len(content)), 400):
        with pytest.raises((Damaged, NewerFormat)):
            manifest_of(flipped(content, bit))
    for length in (0, 1, *chance.sample(range(len(content)), 50), len(content) - 1):
        with pytest.raises(Damaged):
            manifest_of(content[:length])
    with pytest.raises(Damaged):
        manifest_of(content + b" ")
    assert bytes_of(manifest_of(content)) == content


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "another"])
def test_the_last_manifest_damaged_names_it_the_commit_before_and_what_to_do(tmp_path: Path, how: str) -> None:
    lake = filled(tmp_path / "l", 42)
    path = manifest_path(lake, 42)
    content = path.read_bytes()
    damaged = {
        "cut": content[: len(content) // 2],
        "flipped": flipped(content, 1000),
        "empty": b"",
        "another": manifest_path(lake, 41).read_bytes(),
    }
    path.write_bytes(damaged[how])
    for reading in (lake.last, lake.snapshot, lake.writer, lambda: list(lake.manifests()), lambda: shown(lake.path)):
        with pytest.raises(CorruptFile) as found:
            reading()
        assert (found.value.path, found.value.last_good) == (f"manifests/{42:020d}.json", 41)
        assert str(found.value).startswith(f"`{path}` ")
        assert str(found.value).endswith(
            f"; the last good commit is 41 {AT}: bring it back from a copy, or move "
            f"`manifests/{42:020d}.json` away and the lake goes on from commit 41 {AT}"
        )
    assert path.read_bytes() == damaged[how]
    assert total(lake.snapshot(41).files) == 123
    go_on_from(lake, 41)


@pytest.mark.parametrize("commits", [50, 70, 110])
def test_a_manifest_missing_in_the_middle_is_said(tmp_path: Path, commits: int) -> None:
    lake = filled(tmp_path / "l", commits)
    gone = 42 if commits < 64 else 66
    manifest_path(lake, gone).unlink()
    with pytest.raises(CorruptFile) as found:
        lake.snapshot()
    words = (
        rf"000{gone}\.json` is missing; the last good commit is {gone - 1} at .*: bring it back from a copy, or move "
        rf"`manifests/0*{gone + 1}\.json` and all later manifests, up to {commits}, away and the lake goes on from"
    )
    assert re.search(words, str(found.value))
    assert found.value.last_good == gone - 1
    before = {path.name for path in (tmp_path / "l" / "manifests").iterdir()}
    with pytest.raises(CorruptFile):
        vacuum(lake, 0)
    assert {path.name for path in (tmp_path / "l" / "manifests").iterdir()} == before
    go_on_from(lake, gone - 1)


def test_damage_before_the_last_full_manifest_does_not_keep_anyone_from_reading_on(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 70)
    manifest_path(lake, 10).write_bytes(b"{}")
    assert total(lake.snapshot().files) == 210
    assert total(lake.snapshot(9).files) == 27
    with pytest.raises(CorruptFile, match="the last good commit is 9 at"):
        lake.snapshot(12)
    put(lake.writer(), lake.files, orders(900, 1, 80), second=80)
    assert lake.last_commit() == 71


def test_a_full_manifest_damaged_goes_back_to_the_one_before(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 70)
    path = manifest_path(lake, 64)
    path.write_bytes(flipped(path.read_bytes(), 5000))
    with pytest.raises(CorruptFile, match="the last good commit is 63 at"):
        lake.snapshot()
    go_on_from(lake, 63)


def test_the_only_manifest_damaged_says_that_nothing_is_left(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 1)
    manifest_path(lake, 1).write_bytes(b"\x00")
    with pytest.raises(CorruptFile, match=r"no commit before it is good: .* away and the lake starts afresh"):
        lake.last()


def test_files_that_are_no_manifests_are_passed_over(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 3)
    for name in ("README.json", "00000000000000000004.json.bak", ".tmp-1", "4"):
        (tmp_path / "l" / "manifests" / name).write_text("x")
    assert lake.last_commit() == 3


# ---- another format --------------------------------------------------------------------------------------------


def test_a_newer_format_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = filled(tmp_path / "l", 3)
    about, manifest = tmp_path / "l" / "augury.json", manifest_path(lake, 3)
    said, last = read_checked_json(about.read_bytes()), lake.last()
    assert last is not None
    with monkeypatch.context() as newer:
        newer.setattr("augury.lake.manifest.FORMAT", 2)
        manifest.write_bytes(bytes_of(last))
        of_the_future = checked_json(said)
    with pytest.raises(
        NewerFormat, match=r"3.json` has format 2, and .* reads format 1: update Augury .*; nothing was"
    ):
        lake.snapshot()
    with pytest.raises(NewerFormat):
        lake.writer()
    about.write_bytes(of_the_future)
    with pytest.raises(
        NewerFormat, match=r"the lake `.*` has format 2, and this version of Augury reads format 1: upd"
    ):
        Lake.open(lake.path)
    assert about.read_bytes() == of_the_future


def test_what_a_lake_says_of_itself_damaged(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 3)
    path = tmp_path / "l" / "augury.json"
    content = path.read_bytes()
    for damaged in (content[:50], flipped(content, 900), b"", b"[]", checked_json({"id": "x"})):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFile, match=r"augury.json` is damaged.*; bring it back from a copy; all else is"):
            Lake.open(lake.path)


def test_the_text_of_a_program_damaged_or_gone(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    name = lake.keep_program(TEXT + "-- 2")
    writer = lake.writer()
    put(writer, lake.files, orders(1, 1, 1), program=name)
    path = tmp_path / "l" / "programs" / f"{name}.bicepl"
    path.write_text("CREATE")
    with pytest.raises(CorruptFile, match=f"programs/{name}.bicepl` is damaged"):
        shown(lake.path)
    path.unlink()
    with pytest.raises(CorruptFile, match=f"programs/{name}.bicepl` is gone"):
        shown(lake.path)


# ---- files that a manifest names -------------------------------------------------------------------------------


def entry_of(lake: Lake, commit: int) -> FileEntry:
    return lake.manifest(commit).added[0]


@pytest.mark.parametrize("commits", [12, 130])
@pytest.mark.parametrize("how", ["gone", "cut", "flipped"])
def test_a_file_of_rows_that_is_gone_or_damaged_names_the_commit_before_it(
    tmp_path: Path, how: str, commits: int
) -> None:
    lake = filled(tmp_path / "l", commits)
    entry = entry_of(lake, 11)
    path = tmp_path / "l" / entry.path
    content = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(content[:-20])
        case _:
            path.write_bytes(flipped(content, 8 * 40))
    with pytest.raises(CorruptFile) as found:
        shown(lake.path).table("Order")
    assert (found.value.path, found.value.last_good) == (entry.path, 10)
    assert str(found.value).startswith(f"`{path}` is {'gone' if how == 'gone' else 'damaged'}")
    assert "the last good commit is 10 at 2026-01-01T12:00:10Z: bring it back from a copy, or move" in str(found.value)
    assert shown(lake.path, commit=10).table("Order").num_rows == 30
    path.write_bytes(content)
    assert shown(lake.path).table("Order").num_rows == 3 * commits


def test_flipped_bits_in_rows_are_found_or_do_no_harm(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    table = orders(1, 500, 1)
    entry = lake.files.write_table(Kind.HISTORY, ORDER, table, tag="x")
    path = tmp_path / "l" / entry.path
    content = path.read_bytes()
    chance = random.Random(2)
    found = 0
    for bit in chance.sample(range(8 * len(content)), 300):
        path.write_bytes(flipped(content, bit))
        try:
            assert lake.files.read_table(entry.path).equals(table)
        except CorruptFile:
            found += 1
    assert found > 270  # headers of pages have no checksum, and hold more than is needed


@pytest.mark.parametrize("how", ["gone", "cut", "flipped", "header"])
def test_a_damaged_state_names_the_last_commit_without_it_and_how_to_go_on(tmp_path: Path, how: str) -> None:
    lake = filled(tmp_path / "l", 42)
    last = lake.last()
    assert last is not None
    writer = lake.writer()
    put(writer, lake.files, orders(127, 3, 43), state=last.state)  # one more commit with the same state
    name = last.state["Order/0"]
    path = tmp_path / "l" / name
    content = path.read_bytes()
    match how:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(content[:-3])
        case "flipped":
            path.write_bytes(flipped(content, 8 * len(content) - 4))
        case _:
            path.write_bytes(b"nothing")
    with pytest.raises(CorruptFile) as found:
        lake.files.read_bytes(name)
    assert (found.value.path, found.value.last_good) == (name, 41)
    assert f"away and the lake goes on from commit 41 {AT}" in str(found.value)
    travelled = pickle.loads(pickle.dumps(found.value))
    assert (str(travelled), travelled.last_good) == (str(found.value), 41)
    state = lake.manifest(41).state["Order/0"]
    assert lake.files.read_bytes(state) == b"state 41"
    go_on_from(lake, 41)


def test_the_states_of_the_last_64_commits_are_there_to_go_back_to(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 100)
    vacuum(lake, 0, now_seconds=4e9)
    for manifest in lake.manifests(after=36):
        assert lake.files.read_bytes(manifest.state["Order/0"]) == b"state %d" % manifest.commit
    with pytest.raises(CorruptFile):
        lake.files.read_bytes(lake.manifest(36).state["Order/0"])
    assert len(needed_paths(lake, 64)) == 100 + 64


def test_an_old_commit_whose_files_were_vacuumed_is_no_damage(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 3)
    writer = lake.writer()
    gone = lake.snapshot().files[0]
    merged = lake.files.write_merged([gone], lake.files.read_table(gone.path))
    writer.commit(writer.manifest(added=(merged,), removed=(gone.path,)))
    os.unlink(tmp_path / "l" / gone.path)
    assert shown(lake.path).table("Order").num_rows == 9
    with pytest.raises(NoSuchCommit, match=r"commit 3 .* can no longer be read: .* Take a later commit, up to 4; what"):
        shown(lake.path, commit=3).table("Order")


def test_a_copy_of_a_lake_is_a_lake(tmp_path: Path) -> None:
    filled(tmp_path / "l", 5)
    shutil.copytree(tmp_path / "l", tmp_path / "another place")
    shutil.rmtree(tmp_path / "l")
    assert shown(tmp_path / "another place").table("Order").num_rows == 15

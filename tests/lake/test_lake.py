"""A lake that nothing bad happens to: created, opened, committed to, read back; on a disk and elsewhere."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from augury.api import compile
from augury.lake import (
    AlreadyCommitted,
    FileEntry,
    Kind,
    Lake,
    LakeError,
    LakeExists,
    LakeFailed,
    LakeFiles,
    Manifest,
    NeedsExclusive,
    NoLake,
    NoSuchCommit,
    StaleWriter,
    UnfitCommit,
    program_name,
)
from augury.lake.manifest import FULL_EVERY, bytes_of, manifest_of
from augury.lake.storage import Storage
from augury.lake.systems import Disk, Remote
from tests.lake.made import NOON, ORDER, SECOND, TEXT, class_named, created, filled, orders, put, rows_of, total

# ---- creating and opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lake", "a lake with spaces", "näme %20 'x'", "deep/er/lake"])
def test_a_lake_is_created_and_opened_under_any_path(tmp_path: Path, name: str) -> None:
    made = created(tmp_path / name)
    found = Lake.open(str(tmp_path / name))
    assert found.about == made.about
    assert (found.about.chronon_us, found.about.buckets, found.about.program) == (SECOND, 4, TEXT)
    assert found.last() is None
    assert found.snapshot().files == ()
    assert (tmp_path / name / "programs" / f"{program_name(TEXT)}.bicepl").read_text("utf-8") == TEXT
    put(found.writer(), found.files, orders(1, 3, 1))
    assert Lake.open((tmp_path / name).as_uri()).snapshot().of(Kind.HISTORY, "order")[0].rows == 3


def test_a_lake_is_not_created_where_one_is(tmp_path: Path) -> None:
    created(tmp_path / "l")
    before = (tmp_path / "l" / "augury.json").read_bytes()
    with pytest.raises(LakeExists, match=r"there is a lake at `.*l` already: open it, or give another folder"):
        created(tmp_path / "l")
    assert (tmp_path / "l" / "augury.json").read_bytes() == before


def test_a_lake_is_not_created_among_other_things(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("mine")
    with pytest.raises(LakeExists, match=r"is not empty and no lake \(it holds `x.txt`\): give another folder"):
        created(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["x.txt"]
    with pytest.raises(LakeExists, match=r"x.txt` is a file: a lake is a folder"):
        created(tmp_path / "x.txt")
    with pytest.raises(NoLake, match=r"there is no lake at `.*x.txt`"):
        Lake.open(tmp_path / "x.txt")


def test_a_creation_that_broke_off_is_made_up_for(tmp_path: Path) -> None:
    (tmp_path / "l").mkdir()
    (tmp_path / "l" / ".tmp-0123").write_text("torn")
    assert created(tmp_path / "l").last() is None


def test_where_there_is_no_lake_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoLake, match=r"there is no lake at `.*nowhere`: it has no `augury.json`"):
        Lake.open(tmp_path / "nowhere")
    with pytest.raises(NoLake, match="`nothing://a/b` cannot be reached"):
        Lake.open("nothing://a/b")


# ---- commits -----------------------------------------------------------------------------------------------


def test_commits_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 150)
    again = Lake.open(tmp_path / "l")
    manifests = list(again.manifests())
    assert [one.commit for one in manifests] == list(range(1, 151))
    assert [one.live is not None for one in manifests] == [one % FULL_EVERY == 0 for one in range(1, 151)]
    assert again.last() == manifests[-1] == lake.last()
    assert [one.commit for one in again.manifests(after=148)] == [149, 150]
    for commit in (0, 1, 63, 64, 65, 127, 128, 129, 150):
        snapshot = again.snapshot(commit)
        assert snapshot.commit == commit
        assert total(snapshot.of(Kind.HISTORY, "Order")) == 3 * commit
        assert [entry.min_tick for entry in snapshot.files] == [NOON + c * SECOND for c in range(1, commit + 1)]
    with pytest.raises(NoSuchCommit, match="has no commit 151: its last is 150"):
        again.snapshot(151)


class Counting:
    """A storage that notes which manifests are read."""

    def __init__(self, storage: Storage) -> None:
        self.storage, self.read_paths = storage, list[str]()

    def read(self, path: str) -> bytes:
        self.read_paths.append(path)
        return self.storage.read(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)


@pytest.mark.parametrize("commits", [1, 63, 64, 65, 130, 191])
def test_opening_reads_at_most_64_manifests(tmp_path: Path, commits: int) -> None:
    lake = filled(tmp_path / "l", commits, rows=1)
    lake.storage = counting = Counting(lake.storage)
    assert total(lake.snapshot().files) == commits
    assert len(counting.read_paths) <= 64
    assert len(counting.read_paths) == min(commits, commits % 64 + 1 if commits >= 64 else commits)


def test_what_a_manifest_leaves_unsaid_stays(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    writer = lake.writer()
    name = lake.keep_program(TEXT + "-- again\n")
    first = put(writer, lake.files, orders(1, 2, 1), offsets={"a": [1, None]}, counts={"read": 2}, program=name)
    second = writer.manifest(last_tick=first.last_tick)
    assert (second.commit, second.offsets, second.program, second.added, second.counts) == (
        *(2, {"a": [1, None]}, name),
        *((), {}),
    )
    writer.commit(second)
    assert Lake.open(tmp_path / "l").program_text(name) == TEXT + "-- again\n"
    assert Lake.open(tmp_path / "l").program_text() == TEXT


def test_a_commit_that_does_not_fit_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 3)
    writer = lake.writer()
    entry = lake.snapshot().files[0]
    table = orders(100, 1, 4)
    new = lake.files.write_table(Kind.HISTORY, ORDER, table, tag="x")
    wrong: list[tuple[dict[str, Any], type[LakeError], str]] = [
        ({"commit": 3}, AlreadyCommitted, "commit 3 of the lake .* is there already; the next one is 4"),
        ({"commit": 5}, UnfitCommit, "commit 5 leaves a gap: the next one is 4"),
        ({"epoch": 1}, UnfitCommit, "the manifest has epoch 1, and its writer 2"),
        ({"removed": ("history/no",)}, UnfitCommit, "commit 4 removes `history/no`, which is not in the lake"),
        ({"added": (entry,)}, UnfitCommit, "commit 4 adds `history/Order/.*`, which is in the lake already"),
        ({"added": (replace(new, path="history/x.parquet"),)}, UnfitCommit, "and there is no such file: every machine"),
        ({"state": {"a": "state/a.state"}}, UnfitCommit, "names `.*state/a.state`, and there is no such file"),
        ({"waiting": ("waiting/a",)}, UnfitCommit, "names `.*waiting/a`, and there is no such file"),
        ({"last_tick": NOON}, UnfitCommit, "is at 2026-01-01T12:00:00Z, and the one before it at 2026-01-01T12:00:03Z"),
        ({"last_tick": None}, UnfitCommit, "commit 4 is at no tick"),
    ]
    for said, kind, words in wrong:
        with pytest.raises(kind, match=words):
            writer.commit(replace(writer.manifest(), **said))
    with pytest.raises(ValueError, match="not JSON compliant"):
        writer.commit(writer.manifest(offsets=float("nan")))
    assert lake.last_commit() == 3
    writer.commit(writer.manifest(added=(new,)))
    assert total(lake.snapshot().files) == 10


def test_the_newest_writer_alone_may_commit(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    old, new = lake.writer(), Lake.open(tmp_path / "l").writer()
    assert new.epoch == old.epoch + 1
    words = rf"somebody else writes to the lake .* \(epoch {new.epoch}: process {os.getpid()} on .*\): nothing was"
    with pytest.raises(StaleWriter, match=words):
        put(old, lake.files, orders(50, 1, 3))
    put(new, lake.files, orders(60, 1, 3))
    with pytest.raises(StaleWriter):
        put(old, lake.files, orders(70, 1, 3))
    assert lake.last_commit() == 3
    assert sorted(os.listdir(tmp_path / "l" / "epochs")) == [f"{one:020d}.json" for one in (1, 2, 3)]


def test_who_looked_before_the_newer_writer_began_commits_once_at_most(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    old = lake.writer()
    late = old.manifest(added=(lake.files.write_table(Kind.HISTORY, ORDER, orders(50, 1, 3), tag="o"),))
    new = lake.writer()
    put(new, lake.files, orders(60, 1, 3))
    old._require_newest = lambda: None  # type: ignore[method-assign]  # it had asked just before
    before = lake.last()
    with pytest.raises(AlreadyCommitted, match=r"commit 3 of the lake .* is somebody else's; nothing was written over"):
        old.commit(late)
    assert lake.last() == before


class Forgetful:
    """A storage whose answer is lost after it has created a manifest, or before."""

    def __init__(self, storage: Storage, done: bool) -> None:
        self.storage, self.done, self.failing = storage, done, True

    def create(self, path: str, content: bytes) -> bool:
        if not self.failing:
            return self.storage.create(path, content)
        self.failing = False
        if self.done:
            self.storage.create(path, content)
        raise LakeFailed("the answer was lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)


def test_a_commit_of_which_only_the_answer_was_lost_is_one(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    writer = lake.writer()
    writer._storage = Forgetful(lake.storage, done=True)
    manifest = put(writer, lake.files, orders(50, 1, 3))
    assert lake.last() == manifest
    writer.commit(manifest)  # asked again
    assert lake.last_commit() == 3


def test_a_commit_that_failed_can_be_tried_again(tmp_path: Path) -> None:
    lake = filled(tmp_path / "l", 2)
    writer = lake.writer()
    manifest = writer.manifest(added=(lake.files.write_table(Kind.HISTORY, ORDER, orders(50, 1, 3), tag="o"),))
    writer._storage = Forgetful(lake.storage, done=False)
    with pytest.raises(LakeFailed):
        writer.commit(manifest)
    assert lake.last_commit() == 2
    writer.commit(manifest)
    assert lake.last() == manifest


def test_writers_of_many_threads_take_epochs_of_their_own(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(lake.writer().epoch)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(1, 17))


# ---- manifests as bytes ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NUMBERS = st.none() | st.integers(-(2**62), 2**62)
ENTRIES = st.builds(
    FileEntry, st.sampled_from(Kind), st.text(max_size=5), st.text(max_size=9), st.integers(0), st.integers(0),
    NUMBERS, NUMBERS, NUMBERS, NUMBERS,
)  # fmt: skip
MANIFESTS = st.builds(
    Manifest,
    commit=st.integers(1),
    epoch=st.integers(1),
    query=st.text(max_size=5),
    batch=st.none() | st.integers(0),
    last_tick=NUMBERS,
    last_seq=st.integers(0),
    added=st.lists(ENTRIES, max_size=3).map(tuple),
    removed=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    state=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    waiting=st.lists(st.text(max_size=5), max_size=3).map(tuple),
    offsets=JSON,
    counts=st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
    seconds=st.dictionaries(st.text(max_size=5), st.floats(0, 1e9), max_size=3),
    program=st.text(max_size=5),
    live=st.none() | st.lists(ENTRIES, max_size=3).map(tuple),
)


@given(MANIFESTS)
def test_a_manifest_is_what_its_bytes_say(manifest: Manifest) -> None:
    content = bytes_of(manifest)
    assert manifest_of(content) == manifest
    assert bytes_of(manifest_of(content)) == content
    assert pickle.loads(pickle.dumps(manifest)) == manifest
    plain = json.loads(content)
    assert list(plain) == sorted(plain)
    assert {"format", "checksum", "commit", "epoch", "state", "offsets"} <= plain.keys()


# ---- files ---------------------------------------------------------------------------------------------------


def test_files_travel_to_other_processes_and_write_what_they_read(tmp_path: Path) -> None:
    files = pickle.loads(pickle.dumps(created(tmp_path / "a b").files))
    table = orders(5, 4, 7)
    entry = files.write_table("history", ORDER, table, tag="b-07")
    assert (entry.rows, entry.min_tick, entry.max_tick) == (4, NOON + 7 * SECOND, NOON + 7 * SECOND)
    assert (entry.min_seq, entry.max_seq) == (5, 8)
    assert entry.bytes == (tmp_path / "a b" / entry.path).stat().st_size
    assert entry.path.startswith("history/Order/b-07-")
    assert files.read_table(entry.path).equals(table)
    assert files.read_table(entry.path, ["price", "seq"]).column_names == ["price", "seq"]
    other = files.write_table("history", ORDER, table, tag="b-07")
    assert other.path != entry.path
    empty = files.write_table("rejected", "", pa.table({"reason": pa.array([], pa.string())}), tag="x")
    assert (empty.rows, empty.min_tick, empty.path.count("/")) == (0, None, 1)


def test_bytes_are_read_as_they_were_written(tmp_path: Path) -> None:
    files = created(tmp_path / "l").files
    for content in (b"", b"\n", os.urandom(10_000)):
        path = files.write_bytes("state", "Complete/07", content)
        assert path.startswith("state/Complete/07-")
        assert path.endswith(".state")
        assert files.read_bytes(path) == content


def test_nothing_unfinished_stays_beside_what_is_written(tmp_path: Path) -> None:
    filled(tmp_path / "l", 5)
    assert [name for _, _, names in os.walk(tmp_path) for name in names if name.startswith(".tmp")] == []


ODD = compile(
    "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS `_x/../y` (tick INT) ID () LIFESPAN (1d);"
    f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS `{'w' * 200}` (x INT) ID () LIFESPAN (1d);"
)


def test_names_that_are_no_names_of_files_are_changed(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    for name in ("_x/../y", "w" * 200):
        event_class = class_named(name, ODD)
        own = {"tick": 1} if name == "_x/../y" else {"x": 1}
        table = rows_of(event_class, [{"seq": 9, "second": 3, "event_number": 90, **own}])
        if name == "_x/../y":
            # Attributes of these names are not meant by the bounds.
            assert table.column_names[:4] == ["number", "tick_", "change", "seq"]
        entry = lake.files.write_table(Kind.HISTORY, event_class, table, tag="a/b")
        assert (entry.min_tick, entry.event_class) == (NOON + 3 * SECOND, name)
        folder = (tmp_path / "l" / entry.path).parent
        assert folder.parent == tmp_path / "l" / "history"
        assert not folder.name.startswith(("_", "."))


# ---- elsewhere -----------------------------------------------------------------------------------------------


class OneAtATime:
    """Creates files if absent, as the Spark side does with Hadoop's rename."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def create(self, path: str, content: bytes) -> bool:
        with self.lock:
            place = Path(path.removeprefix("else://"))
            if place.exists():
                return False
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            return True


@pytest.fixture(params=["disk", "disk with exclusive", "elsewhere"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    match request.param:
        case "disk":
            yield Disk(str(tmp_path / "a b"))
        case "disk with exclusive":
            yield Disk(str(tmp_path / "a b"), OneAtATime())
        case _:
            yield Remote(f"else://{tmp_path}/a b", fs.LocalFileSystem(), f"{tmp_path}/a b", OneAtATime())


def test_every_place_keeps_its_word(storage: Storage) -> None:
    assert storage.names("x") == []
    assert list(storage.walk()) == []
    storage.write("x/y/one", b"1")
    storage.write("x/two", memoryview(b"22"))
    storage.write("x/.tmp-three", b"3")
    assert storage.create("x/four", b"4")
    assert not storage.create("x/four", b"5")
    assert storage.read("x/four") == b"4"
    assert sorted(storage.names("x")) == ["four", "two"]
    assert {(one.path, one.bytes) for one in storage.walk()} == {
        *(("x/y/one", 1), ("x/two", 2), ("x/.tmp-three", 1), ("x/four", 1)),
    }
    assert all(
        abs(one.written_seconds - os.stat(f"{_plain(storage)}/{one.path}").st_mtime) < 1 for one in storage.walk()
    )
    assert [one.path for one in storage.walk("x/y")] == ["x/y/one"]
    assert (storage.exists("x/two"), storage.exists("x/y"), storage.exists("x/no")) == (True, False, False)
    with storage.open("x/two") as source:
        assert source.read() == b"22"
    storage.remove("x/two")
    storage.remove("x/two")
    for reading in (storage.read, storage.open):
        with pytest.raises(FileNotFoundError):
            reading("x/two")


def _plain(storage: Storage) -> str:
    return storage.root.removeprefix("else://")


def test_elsewhere_a_lake_is_read_without_more_and_written_with_something_exclusive(tmp_path: Path) -> None:
    made = filled(tmp_path / "l", 3)
    system = fs.LocalFileSystem()
    reader = Lake(Remote("else://l", system, f"{tmp_path}/l"), made.about)
    assert total(reader.snapshot().files) == 9
    reason = "`else://l` cannot be written as it is: it is not on a disk of this machine"
    words = f"{reason}, .* open the lake with `exclusive=…`"
    with pytest.raises(NeedsExclusive, match=words):
        reader.writer()
    writer = Lake(Remote(f"else://{tmp_path}/l", system, f"{tmp_path}/l", OneAtATime()), made.about).writer()
    put(writer, LakeFiles(str(tmp_path / "l")), orders(50, 1, 4))
    assert made.last_commit() == 4

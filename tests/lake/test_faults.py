"""Processes that race, die at any instant, or find the disk full or locked: a lake is whole, and nothing is lost."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from augury.lake import Kind, Lake, LakeFailed, vacuum
from augury.lake.vacuum import needed_paths
from tests.lake.made import ORDER, created, filled, orders, put, shown, total

ROOT: Final = Path(__file__).parents[2]
KILLS: Final = 30


@contextmanager
def process(*arguments: object, before: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """A process that writes; it is ended by its own id, whatever happens."""
    command = [*before, sys.executable, "-m", "tests.lake.writing", *map(str, arguments)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as found:
        try:
            yield found
        finally:
            found.kill()


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    said = of.stdout.readline()
    if not said:
        assert of.stderr is not None
        pytest.fail(f"the process ended: {of.stderr.read()}")
    return said.strip()


def tell(to: subprocess.Popen[str]) -> None:
    assert to.stdin is not None
    to.stdin.write("\n")
    to.stdin.flush()


def assert_whole(lake: Lake) -> int:
    """Every commit is whole, rows add up, every file is there; gives the last commit."""
    last = 0
    for manifest in lake.manifests():
        assert manifest.commit == last + 1
        last = manifest.commit
        assert total([entry for entry in manifest.added if "~" not in entry.path]) == 5
    snapshot = lake.snapshot()
    assert total(snapshot.files) == 5 * last
    if last:
        assert snapshot.manifest is not None
        assert lake.files.read_bytes(snapshot.manifest.state["Order/0"]) == b"%d" % last * 100
    table = shown(lake.path).table("Order")
    assert table["seq"].to_pylist() == [commit * 10 + row for commit in range(1, last + 1) for row in range(5)]
    assert table["number"].to_pylist() == list(range(1, 5 * last + 1))
    return last


# ---- two writers ---------------------------------------------------------------------------------------------


def test_of_two_processes_that_create_a_file_one_does_and_it_is_whole(tmp_path: Path) -> None:
    lake, rounds = created(tmp_path / "l"), 200
    with process("create", lake.path, rounds, "a") as one, process("create", lake.path, rounds, "b") as other:
        assert [line(one), line(other)] == ["ready", "ready"]
        winners = []
        for number in range(rounds):
            for each in (one, other) if number % 2 else (other, one):
                tell(each)
            said = line(one), line(other)
            assert sorted(said) == ["False", "True"]
            winner = "a" if said[0] == "True" else "b"
            content = (tmp_path / "l" / "manifests" / f"race-{number}").read_bytes()
            assert content == f"{winner} {number}\n".encode() * 1000
            winners.append(winner)
    assert len(winners) == rounds


def test_two_writers_that_race_commit_everything_once(tmp_path: Path) -> None:
    lake, wins = created(tmp_path / "l"), 15
    with process("race", lake.path, wins) as one, process("race", lake.path, wins) as other:
        assert [line(one), line(other)] == ["ready", "ready"]
        tell(one)
        tell(other)
        said = [each.communicate(timeout=300)[0].split("\n") for each in (one, other)]
    won = [int(text.removeprefix("won ")) for lines in said for text in lines if text.startswith("won")]
    assert sorted(won) == list(range(1, 2 * wins + 1))
    refused = {text for lines in said for text in lines if text and not text.startswith("won")}
    assert refused
    assert refused <= {"StaleWriter", "AlreadyCommitted"}
    assert assert_whole(lake) == 2 * wins


# ---- a process that dies -------------------------------------------------------------------------------------


def killed(path: str, times: int, chance: random.Random) -> Iterator[list[int]]:
    """The commits that processes say to have done which are killed, each some time after some commits."""
    with process("again", path) as parent:
        assert line(parent) == "ready"
        for _ in range(times):
            tell(parent)
            pid = int(line(parent).removeprefix("pid "))
            said = [line(parent) for _ in range(chance.randrange(4))]
            time.sleep(chance.random() * 0.03)
            os.kill(pid, signal.SIGKILL)
            while not (last := line(parent)).startswith("dead"):
                said.append(last)
            assert last == f"dead by {int(signal.SIGKILL)}"
            yield [int(text) for text in said]


def test_a_writer_killed_at_any_instant_leaves_a_whole_lake(tmp_path: Path) -> None:
    lake, chance = created(tmp_path / "a lake"), random.Random((os.environ.get("AUGURY_FRESH") and time.time_ns()) or 7)
    acknowledged = orphans = 0
    for said in killed(lake.path, KILLS, chance):
        acknowledged = max([acknowledged, *said])
        last = Lake.open(lake.path).last_commit()
        # What was answered is there; at most one more is, whose answer was lost.
        assert acknowledged <= last <= acknowledged + 1
        acknowledged = last
        on_disk = {one.path for one in lake.storage.walk()}
        orphans += len({path for path in on_disk if _of_rows(path)} - needed_paths(lake, 10**9))
    assert acknowledged > KILLS / 2
    assert assert_whole(lake) == acknowledged
    assert orphans
    every = needed_paths(lake, 10**9)
    gone = vacuum(lake, 0, commits_kept=10**9, now_seconds=time.time() + 5)
    assert not every & set(gone.paths)
    left = {one.path for one in lake.storage.walk() if _of_rows(one.path)}
    assert left == every
    assert assert_whole(lake) == acknowledged


def _of_rows(path: str) -> bool:
    return not path.startswith(("manifests/0", "epochs/0", "programs/", "augury.json"))


# ---- disks ---------------------------------------------------------------------------------------------------

NAMESPACE: Final = ("unshare", "--user", "--map-root-user", "--mount")


def _mounts() -> bool:
    """Whether a disk of our own can be mounted here, which nobody else sees."""
    try:
        done = subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "t", "/mnt"], capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


own_disk = pytest.mark.skipif(not _mounts(), reason="needs a Linux that lets users mount a disk of their own")


@own_disk
def test_on_a_full_disk_a_commit_fails_as_a_whole_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text(
        f"""set -e
mount -t tmpfs -o size=1m t "{tmp_path}/disk"
cp -r "{tmp_path}/l" "{tmp_path}/disk/l"
head -c 200000 /dev/zero > "{tmp_path}/disk/ballast"
exec "$@"
"""
    )
    (tmp_path / "disk").mkdir()
    filled(tmp_path / "l", 2)
    with process("full", tmp_path / "disk" / "l", before=(*NAMESPACE, "sh", str(script))) as writing:
        said, errors = writing.communicate(timeout=120)
    assert errors == ""
    told, went_on = said.strip().split("\n")
    assert re.fullmatch(
        r"the lake `.*/disk/l` failed to write `.*`: No space left on device; nothing of it is kept: make room and "
        "try again",
        told,
    )
    assert int(went_on.removeprefix("went on after ")) > 10


@own_disk
def test_a_disk_that_is_read_only_is_read_and_says_so_when_written_to(tmp_path: Path) -> None:
    filled(tmp_path / "l", 2)
    (tmp_path / "disk").mkdir()
    script = tmp_path / "script.sh"
    script.write_text(
        f"""set -e
mount -t tmpfs t "{tmp_path}/disk"
cp -r "{tmp_path}/l" "{tmp_path}/disk/l"
mount -o remount,ro "{tmp_path}/disk"
exec "$@"
"""
    )
    asking = f"""
from augury import compile
from augury.lake import Lake, LakeFailed, history
lake = Lake.open("{tmp_path}/disk/l")
print(history(lake.path, compile).table("Order").num_rows)
for work in (lake.writer, lambda: lake.files.write_bytes("state", "x", b"")):
    try:
        work()
    except LakeFailed as failed:
        print(failed)
"""
    command = [*NAMESPACE, "sh", str(script), sys.executable, "-c", asking]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert done.stderr == ""
    rows, *told = done.stdout.strip().split("\n")
    assert rows == "6"
    assert len(told) == 2
    for text in told:
        assert text.endswith(
            "Read-only file system; nothing of it is kept: see to it that this user may write there, or take "
            "another folder"
        )


@pytest.mark.parametrize(
    ("step", "work"), [("fsync", "state"), ("rename", "state"), ("fsync", "commit"), ("link", "commit")]
)
def test_a_step_on_the_way_to_a_file_that_is_refused_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, work: str
) -> None:
    lake = filled(tmp_path / "l", 2)
    writer = lake.writer()
    entry = lake.files.write_table(Kind.HISTORY, ORDER, orders(50, 1, 3), tag="x")
    before = sorted(one.path for one in lake.storage.walk())

    def refused(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    def do() -> None:
        if work == "commit":
            writer.commit(writer.manifest(added=(entry,)))
        else:
            lake.files.write_bytes("state", "x", b"abc")

    with monkeypatch.context() as patched:
        patched.setattr(f"os.{step}", refused)
        with pytest.raises(LakeFailed, match="No space left on device; nothing of it is kept: make room"):
            do()
    assert sorted(one.path for one in lake.storage.walk()) == before
    do()
    assert len(list(lake.storage.walk())) == len(before) + 1


def test_a_reader_beside_a_writer_sees_whole_commits(tmp_path: Path) -> None:
    lake = created(tmp_path / "l")
    seen = set()
    with process("loop", lake.path) as writing:
        assert line(writing) == "ready"
        tell(writing)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            found = shown(lake.path)
            table = found.table("Order")
            assert table.num_rows == 5 * found.commit
            seen.add(found.commit)
    assert len(seen) > 3


def test_a_folder_that_this_user_may_not_write_to(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; the read-only disk is the same for it")
    lake = filled(tmp_path / "l", 1)
    folder = tmp_path / "l" / "history" / "Order"
    folder.chmod(0o500)
    try:
        with pytest.raises(LakeFailed, match="Permission denied; nothing of it is kept: see to it that this user may"):
            put(lake.writer(), lake.files, orders(9, 1, 2))
    finally:
        folder.chmod(0o700)

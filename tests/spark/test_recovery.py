"""Nothing is lost, nothing doubled on Spark: drivers killed at any instant, lost workers, damaged stores.

Drivers are processes with JVMs of their own (`tests.spark.driver`), killed by SIGKILL when certain files appear in the
store. What a store holds in the end has to equal what a run that was never disturbed left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from augury.engine.ledger import Ledger, counted, lines, renumbered
from augury.lake import Kind, Lake, vacuum
from augury.lake.storage import UNFINISHED, is_unfinished
from augury.local.store.lake_outbox import outbox_at
from augury.local.store.waiting import Listed, State, Wanted
from augury.spark.committed import ledger_in
from augury.spark.replaying import watching
from tests.spark import driver
from tests.spark.delivering import Deliverers, hook

ROOT = Path(__file__).parents[2]
EVENTS, EACH = 72, 6

# ---- what a store holds ----------------------------------------------------------------------------------------------


def left(store: Path) -> dict[str, Any]:
    """All that was committed, as plain values; which tick tells of what is wrong by itself depends on how it came."""
    lake = Lake.open(store)
    program = driver.program(posting="TRIGGER" in lake.about.program)
    manifests = list(lake.manifests())
    assert [one.commit for one in manifests] == list(range(1, len(manifests) + 1))
    ledger = ledger_in(program, lake, manifests)
    found: dict[str, Any] = {"lines": list(lines(program, ledger)), "counts": counted(ledger)}
    for plan in program.classes:
        name = plan.event_class.name
        found[f"history of {name}"] = renumbered(plan.event_class, ledger.versions[name]).to_pylist()
    found["actions"] = ledger.actions.to_pylist()
    found["rejected"] = sorted(tuple(row.values()) for row in ledger.rejected.drop_columns(["tick"]).to_pylist())
    found["archive"] = archived(ledger)
    for trigger in program.triggers:
        found[f"firings of {trigger.name}"] = ledger.firings[trigger.name].to_pylist()
    return found


def archived(ledger: Ledger) -> dict[str, list[str]]:
    """Without the numbers of versions, which depend on how slots were run."""
    found = {}
    for name, table in ledger.archive.items():
        told = [column for column in table.column_names if column not in ("number", "event_number")]
        found[name] = sorted(str(row) for row in table.select(told).to_pylist())
    return found


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """One part at a time, so that a difference is small."""
    assert found.keys() == expected.keys()
    for part in expected:
        assert found[part] == expected[part], part


def assert_vacuum_leaves_what_is_needed(store: Path) -> None:
    """What no commit names goes, and nothing else: neither other files nor anything that a commit says."""
    lake, expected = Lake.open(store), left(store)
    named: set[str] = set()
    for manifest in lake.manifests():
        named |= {entry.path for entry in manifest.added} | {*manifest.state.values(), *manifest.waiting}
    before = files_in(store)
    data = {"state", *(kind.value for kind in Kind)}
    orphans = {path for path in before if path.split("/")[0] in data} - named
    orphans |= {path for path in before if is_unfinished(path)}
    vacuum(lake, 0.0, commits_kept=10**6, now_seconds=time.time() + 60)
    assert files_in(store) == before - orphans
    assert named <= files_in(store)
    assert_same(left(store), expected)


def files_in(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file()}


@dataclass(frozen=True)
class Watched:
    """Files of pieces for a program, and what a run over them leaves that was never disturbed."""

    pieces: Path
    posting: bool
    left: dict[str, Any]


def watched(spark: SparkSession, folder: Path, *, posting: bool) -> Watched:
    assert driver.written(folder / "pieces", EVENTS, EACH, posting=posting) > 10
    store, program = folder / "lake", driver.program(posting=posting)
    with watching(spark, program, folder / "pieces", str(store), driver.BUCKETS) as query:
        query.finish()
    found = left(store)
    for part in found:
        assert found[part], part
    keys = [row["idempotency_key"] for row in found["actions"]]
    assert len(set(keys)) == len(keys) > 40
    assert {row["action"] for row in found["actions"]} >= {"arrived", "changed", "missing", "third", "here", "gone"}
    assert any("immutable" in row[2] for row in found["rejected"])
    assert found["counts"]["absorbed"]
    return Watched(folder / "pieces", posting, found)


@pytest.fixture(scope="module")
def apart(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A program in several slots."""
    return watched(spark, tmp_path_factory.mktemp("apart"), posting=False)


@pytest.fixture(scope="module")
def posting(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """One whose rules post events, also such that only the next tick reads, and so has one slot."""
    found = watched(spark, tmp_path_factory.mktemp("posting"), posting=True)
    offsets = [one.offsets["posts"] for one in Lake.open(found.pieces.parent / "lake").manifests()]
    assert any(offsets), "no commit is made while a post waits"
    assert {"remind", "giveUp"} <= {row["action"] for row in found.left["actions"]}
    assert {row["trigger"] for row in found.left["actions"]} == {None, "Expected", "Overdue", "Again"}
    return found


# ---- kill -9 of the driver -------------------------------------------------------------------------------------------

Instant = tuple[str, str]
"""A folder of the store, and how the name of a file begins at whose appearance the driver is killed."""

INSTANTS: tuple[Instant, ...] = (
    ("manifests", "0"),
    ("state", "0"),
    ("manifests", UNFINISHED),
    ("checkpoint/offsets", ""),
    ("checkpoint/commits", ""),
    ("manifests", "0"),
    ("checkpoint/sources/0", ""),
    ("waiting", ""),
    ("history/Delivery", ""),
    ("checkpoint/commits", "."),
    ("ids", "."),
    ("epochs", "0"),
)


DELIVERED_AT: tuple[Instant, ...] = (("actions", ""), ("manifests", "0"), ("waiting", ""), ("checkpoint/commits", ""))
"""At which the driver is killed while its actions are delivered."""


class Driver:
    """A driver that runs, with all processes that it has started."""

    def __init__(self, one: Watched, store: Path, master: str) -> None:
        kind = "posting" if one.posting else "apart"
        command = [sys.executable, "-m", "tests.spark.driver", str(one.pieces), str(store), master, kind]
        self.log = store.with_suffix(".log").open("ab")
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"JAVA_TOOL_OPTIONS": "-XX:+UseSerialGC"},
            stdout=subprocess.PIPE,
            stderr=self.log,
            start_new_session=True,
        )

    def say_watching(self) -> None:
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        assert told == b"watching\n", Path(self.log.name).read_text()[-4000:]

    def kill(self) -> bool:
        """Kill driver and JVM at once; Python workers find out by themselves. Whether there was anything to kill."""
        if self.process.poll() is not None:
            return False
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.wait_for_workers()
        return True

    def wait_for_workers(self) -> None:
        deadline = time.monotonic() + 30
        while (others := members(self.process.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not others, "workers outlive their driver"

    def close(self) -> None:
        for one in members(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.log.close()


def members(session: int) -> list[int]:
    """The processes of a session that live."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry.name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] not in "ZX":
                    found.append(int(entry.name))
    return found


@contextlib.contextmanager
def running(watched: Watched, store: Path, master: str = "local[1]") -> Iterator[Driver]:
    found = Driver(watched, store, master)
    try:
        yield found
    finally:
        found.close()


def names(folder: Path, begin: str) -> set[str]:
    with contextlib.suppress(FileNotFoundError):
        return {name for name in os.listdir(folder) if name.startswith(begin)}
    return set()


def wait_for(store: Path, instant: Instant, more: int, is_over: Callable[[], bool]) -> None:
    """Until so many files of that kind have appeared, or all is over."""
    folder, begin = store / instant[0], instant[1]
    seen = names(folder, begin)
    while more > 0 and not is_over():
        now = names(folder, begin)
        more -= len(now - seen)
        seen |= now
        time.sleep(0.0005)


def phase(store: Path) -> str:
    """Where the commit was when the driver was killed, as the store shows it."""
    offsets, commits = (
        max((int(name) for name in names(store / "checkpoint" / kind, "") if name.isdigit()), default=-1)
        for kind in ("offsets", "commits")
    )
    last = Lake.open(store).last()
    batch = -1 if last is None or last.batch is None else last.batch
    if offsets == commits:
        return "between batches"
    return "before the commit" if batch < offsets else "after the commit"


def kills(watched: Watched, folder: Path, count: int, seed: int, first: int = 0) -> list[str]:
    """Kill so many drivers; look at the store whenever one comes to its end. Gives the phases in which they were."""
    chance, phases, stores = random.Random(seed), list[str](), 0
    folder.mkdir()
    store = folder / f"lake {stores}"
    while True:
        number = len(phases)
        instant, more = INSTANTS[(first + number) % len(INSTANTS)], chance.choice([1, 1, 1, 2])
        with running(watched, store) as one:
            if number < count:
                if instant[0] != "epochs":
                    one.say_watching()
                wait_for(store, instant, more, lambda: one.process.poll() is not None)
                if chance.random() < 0.3:
                    time.sleep(chance.random() * 0.4)
                if one.kill():
                    phases.append(phase(store))
                    continue
            assert one.process.wait(300) == 0, Path(one.log.name).read_text()[-4000:]
            one.wait_for_workers()
        assert_same(left(store), watched.left)
        assert_vacuum_leaves_what_is_needed(store)
        stores += 1
        store = folder / f"lake {stores}"
        if len(phases) >= count:
            return phases


def test_killed_at_any_instant_it_goes_on_as_if_nothing_had_been(apart: Watched, tmp_path: Path) -> None:
    """Six times, and four times more below, where rules post events and actions are delivered meanwhile."""
    phases = kills(apart, tmp_path / "apart", 6, seed=1)
    assert {"before the commit", "after the commit"} <= set(phases), phases


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["apart", "posting"])
def test_killed_many_times_it_goes_on_as_if_nothing_had_been(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    phases = kills(request.getfixturevalue(kind), tmp_path / kind, 50, seed=2)
    assert {"before the commit", "after the commit", "between batches"} <= set(phases), phases


# ---- actions, delivered by who is killed, too ------------------------------------------------------------------------


Event = tuple[str | int | None, ...]
"""What is equal for actions of one event."""


def listed(store: Path) -> list[Listed]:
    outbox = outbox_at(str(store), alone=False)
    try:
        return list(outbox.listed(Wanted()))
    finally:
        outbox.close()


def firsts(sent: Iterable[tuple[str, Event]]) -> dict[Event, list[str]]:
    """By event the keys of its actions, in the order in which each came first."""
    found: dict[Event, list[str]] = {}
    for key, event in sent:
        if key not in found.setdefault(event, []):
            found[event].append(key)
    return found


def test_every_action_is_delivered_though_watch_and_deliverer_are_killed(posting: Watched, tmp_path: Path) -> None:
    """Each under the key that it has where nothing is killed; none is missing, and none is there that should not be."""
    store, text = tmp_path / "lake", driver.PROGRAM + driver.TRIGGERS
    wanted = {row["idempotency_key"]: row for row in posting.left["actions"]}
    names = sorted({row["action"] for row in wanted.values()})
    with hook(seed=7) as hooked:
        deliverers = Deliverers(tmp_path / "delivering", store, text, names, hooked)
        deliverers.start()
        phases = []
        try:
            for instant in (*DELIVERED_AT, None):
                with running(posting, store) as one:
                    if instant is not None:
                        one.say_watching()
                        wait_for(store, instant, 2, lambda: one.process.poll() is not None)
                        assert one.kill(), "it came to its end before it could be killed"
                        phases.append(phase(store))
                    else:
                        assert one.process.wait(300) == 0, Path(one.log.name).read_text()[-4000:]
                        one.wait_for_workers()
        finally:
            deliverers.is_over.set()
            deliverers.join()
        assert deliverers.failure is None, deliverers.failure
        hooked.fails = False
        with deliverers.started() as process:
            deadline = time.monotonic() + 60
            while any(one.state is State.WAITING for one in listed(store)) or hooked.taken.keys() < wanted.keys():
                assert process.poll() is None, deliverers.told()
                assert time.monotonic() < deadline, deliverers.told()
                time.sleep(0.05)
    print(
        f"{len(phases)} watches and {deliverers.kills} deliverers killed; {len(hooked.sent)} tries, {len(wanted)} done"
    )
    assert_same(left(store), posting.left)
    assert_vacuum_leaves_what_is_needed(store)
    outbox = listed(store)
    assert {one.state for one in outbox} == {State.DELIVERED}
    assert sorted(one.action.idempotency_key for one in outbox) == sorted(wanted), "each is counted once"
    assert hooked.taken.keys() == wanted.keys()
    for about in hooked.sent:
        row, data = wanted[about["id"]], about["data"]
        assert (data["action"], data["arguments"]) == (row["action"], json.loads(row["arguments"]))
    assert max(hooked.taken.values()) <= 1 + deliverers.kills, "only whose answer was lost is sent again"
    assert deliverers.kills >= 3
    events = [(one.action.idempotency_key, one.action.event_known_by) for one in outbox]
    at = dict(events)
    assert firsts((about["id"], at[about["id"]]) for about in hooked.sent) == firsts(events), (
        "in the order of each event"
    )
    assert {row["trigger"] for row in wanted.values()} == {None, "Expected", "Overdue", "Again"}


# ---- lost Python workers ---------------------------------------------------------------------------------------------


def workers(session: int) -> list[int]:
    """The Python workers of a session, and the process that forks them."""
    found = []
    for one in members(session):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
    return found


def test_lost_python_workers_change_nothing(apart: Watched, tmp_path: Path) -> None:
    store, lost = tmp_path / "lake", 0
    with running(apart, store, "local[2,8]") as one:
        one.say_watching()
        for instant in (("state", "0"), ("checkpoint/offsets", ""), ("history/Delivery", UNFINISHED), ("state", "")):
            wait_for(store, instant, 1, lambda: one.process.poll() is not None)
            for worker in workers(one.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    lost += 1
        assert one.process.wait(300) == 0, Path(one.log.name).read_text()[-4000:]
        one.wait_for_workers()
    assert lost >= 4
    assert_same(left(store), apart.left)
    assert_vacuum_leaves_what_is_needed(store)

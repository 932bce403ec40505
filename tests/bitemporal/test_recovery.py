"""Nothing is lost, nothing doubled: killed at any instant, stopped and taken up again, cut anyhow, by many threads.

What an engine left in its store is told as plain values, and has to equal what a run that was never disturbed left.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from augury.algebra.program import Program
from augury.api import compile
from augury.clock import microseconds_of, show_time
from augury.duck.selects import runnable
from augury.engine.plan import engine_plan
from augury.engine.ports import Post, Snapshot
from augury.engine.snapshot import saved_state
from augury.engine.state import initial
from augury.engine.tick import Ports, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import arrivals
from augury.history.raw import RawRows
from augury.kernels.reference.bitemporal import Raw
from augury.local.running import CannotRecover, LocalEngine, PostRefused
from augury.local.store.memory import MemoryStore
from augury.local.store.reading import SqlReader
from augury.local.store.sql import SqlStore, open_store
from augury.local.store.tables import purged as purged_table
from tests.bitemporal.corpus import json_of
from tests.bitemporal.generate import SECOND, START, Generated, generate, generate_mixed
from tests.bitemporal.local import Known, versions_of
from tests.clocks import Read

ROOT = Path(__file__).parents[2]

# ---- a program with everything in it, and what a client does ---------------------------------------------

PROGRAM = """
SET CHRONON 5s;
SET ARCHIVE ON;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Delivery (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (40s)
  ON ANNOUNCEMENT DO announced(new.resource, new.occTime),
  ON ONTIME DO arrived(new.resource, new.amount),
  ON CHANGE AND new.amount > old.amount DO more(new.resource, new.amount - old.amount),
  ON CHANGE AND NOT FIRED DO changed(new.resource, NOW),
  ON FIRED AND new.amount > 3 DO changed(new.resource, NOW),
  ON CANCELLATION OR REVOCATION DO gone(new.resource);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Low (resource VARCHAR(10), rest INT) ID (resource) LIFESPAN (30s)
  ON LATE(0s, 1m) DO late(new.resource);
CREATE CLOCK EVENT CLASS Beat EVERY 20s LIFESPAN (60s)
  ON ANNOUNCEMENT DO beaten(new.occTime);
CREATE COMPLEX EVENT CLASS Soon (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (20s)
  AS SELECT d.resource, d.amount FROM Delivery d WHERE d.occTime - NOW < 10s OCCURRING AT d.occTime
  ON ANNOUNCEMENT DO soon(new.resource),
  ON ONTIME DO here(new.resource, new.amount);
CREATE COMPLEX EVENT CLASS Filled (resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (30s)
  AS MATCH prior(Low(resource, _), Delivery(resource, amount))
  ON CHANGE OR RETROACTIVECHANGE DO filled(new.resource, old.amount, new.amount);
CREATE COMPLEX EVENT CLASS Missing (resource VARCHAR(10)) ID () LIFESPAN (30s)
  AS COMPOSITE Low(resource, _) > !Delivery(resource, _) WITHIN 12s CONTEXT CHRONICLE
  ON ANNOUNCEMENT DO missing(new.resource);
"""

Step = tuple[str, Any]
"""`post` with a line, or `advance` with a time."""


def script(chronons: int = 18) -> list[Step]:
    """What the client does, in order: events of each chronon, some late, some wrong, and then the time goes on."""
    chance = random.Random("script")
    steps: list[Step] = []
    number = 0
    for chronon in range(chronons):
        begin = START // (5 * SECOND) * 5 * SECOND + chronon * 5 * SECOND
        moments = sorted(begin + chance.randrange(5 * SECOND) for _ in range(chance.choice([0, 1, 2, 3, 4])))
        for det in moments:
            number += 1
            ahead = chance.choice([-20, -3, 0, 2, 8, 15, 30]) * SECOND
            event = chance.choice(["Delivery", "Delivery", "Low"])
            line: dict[str, Any] = {"event": event, "event_id": f"e{number}", "resource": chance.choice("abcd")}
            line["occ_time"] = None if chance.random() < 0.15 else show_time(det + ahead)
            late = chance.random() < 0.1 and chronon > 2
            line["det_time"] = show_time(det - 12 * SECOND if late else det)
            line["amount" if event == "Delivery" else "rest"] = chance.randrange(6)
            if chance.random() < 0.05:
                line["resource"] = "far too long for it"
            steps.append(("post", json.dumps(line)))
        if chance.random() < 0.8:
            steps.append(("advance", begin + chance.choice([5, 5, 6, 7]) * SECOND))
    steps.append(("advance", begin + 90 * SECOND))
    return steps


class Snapping(LocalEngine):
    """Keeps a snapshot with every tick."""

    every = 1

    def _due_snapshot(self, read: int) -> Snapshot | None:
        assert self._state.tick is not None
        if self._state.tick // self._plan.chronon_us % self.every:
            return None
        return Snapshot(self._state.tick, saved_state(self._plan, self._state))


class Often(Snapping):
    """Keeps one with every third."""

    every = 3


def work(program: Program, url: str, log: Path) -> None:
    """Be the client: go on with the script where the log says, and log each step once it was answered."""
    done = len(log.read_text().splitlines()) if log.exists() else 0
    with Often(program, url) as engine, log.open("a") as logged:
        for kind, value in script()[done:]:
            if kind == "post":
                with contextlib.suppress(PostRefused):
                    engine.post(value)
            else:
                engine.advance_to(value)
            logged.write(f"{kind}\n")
            logged.flush()


def serve() -> None:
    """Fork a client for each line on standard input, `[url, log, seconds]`; kill it after so many, if it still runs."""
    program = compile(PROGRAM)
    for line in sys.stdin:
        url, log, seconds = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(program, url, Path(log))
                status = 0
            finally:
                os._exit(status)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Clients:
    """A process that has imported everything once, and forks clients."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "from tests.bitemporal.test_recovery import serve; serve()"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def run(self, url: str, log: Path, seconds: float | None = None) -> bool:
        """Whether the client came to its end; False if it was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([url, str(log), seconds]) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        assert code in (0, -signal.SIGKILL), code
        return code == 0

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture
def clients() -> Iterator[Clients]:
    found = Clients()
    yield found
    found.close()


# ---- what a store holds --------------------------------------------------------------------------------


def left(url: str, program: Program) -> dict[str, Any]:
    """All that ticks have left, as plain values; what was refused counts once, for who posts it again is told again."""
    found: dict[str, Any] = {}
    with open_store(url, program, read_only=True) as reader:
        for one in reader.classes():
            found[f"history of {one.name}"] = reader.history(one).to_pylist()
        phases = ("read", "derive", "decide", "purge", "publish")
        left_out = [*(f"{phase}_seconds" for phase in phases), "absorbed", "rejected"]
        found["ticks"] = reader.log("ticks").drop_columns(left_out).to_pylist()
        found["actions"] = reader.log("actions").to_pylist()
        refused = reader.log("rejected").drop_columns(["place"]).to_pylist()
        found["rejected"] = [dict(row) for row in dict.fromkeys(tuple(row.items()) for row in refused)]
        found.update(archives(reader, program))
        found["waiting"] = reader.waiting()
    return found


def archives(reader: SqlReader, program: Program) -> dict[str, Any]:
    with reader.database.readers().begin() as connection:
        found: dict[str, Any] = {"purged": sorted(map(tuple, connection.execute(sa.select(purged_table))))}
        if program.settings.archive:
            for tables in reader._tables.values():
                rows = connection.execute(sa.select(tables.archive).order_by(tables.archive.c[0]))
                found[f"archive of {tables.event_class.name}"] = list(map(tuple, rows))
    return found


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """One part at a time, so that a difference is small."""
    assert found.keys() == expected.keys()
    for part in expected:
        assert found[part] == expected[part], part


def assert_posts_are_there_once(found: dict[str, Any], steps: Sequence[Step]) -> None:
    """Every post is a version of its own, or refused."""
    posted = {json.loads(value)["event_id"] for kind, value in steps if kind == "post"}
    histories = [rows for name, rows in found.items() if name.startswith("history of")]
    ids = Counter(row["event_id"] for rows in histories for row in rows if row["event_id"] is not None)
    assert set(ids) <= posted
    assert set(ids.values()) == {1}
    assert len(ids) + len(found["rejected"]) == len(posted)


# ---- kill -9 ---------------------------------------------------------------------------------------------


def kills(clients: Clients, stores: Iterator[str], folder: Path, count: int, seed: int) -> None:
    """Kill clients so often, at random instants; and whenever one comes to its end, look at what is there."""
    program, chance = compile(PROGRAM), random.Random(seed)
    url = next(stores)
    clients.run(url, folder / "warm")
    began = time.monotonic()
    url = next(stores)
    clients.run(url, folder / "undisturbed")
    whole = time.monotonic() - began
    expected = left(url, program)
    assert_posts_are_there_once(expected, script())
    for part in ("actions", "rejected", "purged", "archive of Delivery", "history of Missing", "history of Filled"):
        assert expected[part], part
    killed = runs = 0
    url = next(stores)
    while True:
        is_over = clients.run(
            url,
            folder / f"log {runs}",
            None if killed >= count else chance.random() * whole * chance.choice([1, 0.4, 0.2, 0.1]),
        )
        if not is_over:
            killed += 1
            continue
        assert_same(left(url, program), expected)
        if killed >= count:
            return
        runs += 1
        url = next(stores)


def test_killed_at_any_instant_it_goes_on_as_if_nothing_had_been(clients: Clients, tmp_path: Path) -> None:
    stores = (str(tmp_path / f"store {number}.db") for number in range(1000))
    kills(clients, stores, tmp_path, 50, seed=1)


def test_killed_at_any_instant_on_postgresql(
    clients: Clients, postgres_server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        schemas = [f"k{os.getpid()}_{number}" for number in range(9)]
        request.addfinalizer(lambda: _dropped(postgres_server, schemas))
        for schema in schemas:
            connection.execute(f"CREATE SCHEMA {schema}")
        urls = (f"{postgres_server}?options=-csearch_path%3D{schema}" for schema in schemas)
        kills(clients, urls, tmp_path, 5, seed=2)


def _dropped(server: str, schemas: Sequence[str]) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        for schema in schemas:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")


# ---- torn snapshots ----------------------------------------------------------------------------------------


def go(engine: LocalEngine, steps: Sequence[Step]) -> None:
    for kind, value in steps:
        if kind == "post":
            with contextlib.suppress(PostRefused):
                engine.post(value)
        else:
            engine.advance_to(value)


DAMAGES = {
    "content = substr(content, 1, 99)": "its content does not have the checksum that was noted with it",
    "format = 99": "it has format 99, and this version of Augury reads format 1",
}


def test_torn_snapshots_are_reported_and_their_predecessors_taken(tmp_path: Path) -> None:
    program, steps = compile(PROGRAM), script()
    most = len(steps) * 4 // 5
    whole = str(tmp_path / "whole.db")
    with Often(program, whole) as engine:
        go(engine, steps[:most])
    for torn in (1, 2, 3):
        shutil.copy(whole, tmp_path / f"{torn}.db")
    with Often(program, whole) as engine:
        assert engine.reports == []
        go(engine, steps[most:])
    expected = left(whole, program)
    for torn, (damage, why) in zip((1, 2, 3), itertools.cycle(DAMAGES.items()), strict=False):
        url = str(tmp_path / f"{torn}.db")
        with contextlib.closing(sqlite3.connect(url)) as connection:
            rows = connection.execute("SELECT tick FROM augury_snapshots ORDER BY tick DESC")
            found = [tick for (tick,) in rows]
            assert len(found) == 3
            damaged = [(tick,) for tick in found[:torn]]
            connection.executemany(f"UPDATE augury_snapshots SET {damage} WHERE tick = ?", damaged)
            connection.commit()
        shown = [tick.replace(".000000Z", "Z") for tick in found]
        with Often(program, url) as engine:
            *damages, rest = engine.reports
            assert damages == [f"the snapshot of {tick} is damaged ({why})" for tick in shown[:torn]]
            if torn == 3:
                assert rest == "no snapshot can be used: all ticks are worked out again, from the first"
            else:
                assert rest == f"the ticks since the snapshot of {shown[torn]} are worked out again"
            go(engine, steps[most:])
        assert_same(left(url, program), expected)


def test_without_snapshots_and_without_the_history_it_says_so(tmp_path: Path) -> None:
    program = compile("SET HISTORY RETAIN 5s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);")
    url = str(tmp_path / "s.db")
    with LocalEngine(program, url, snapshot_versions_min=1) as engine:
        for second in range(30):
            engine.post({"event": "A", "k": second % 2, "det_time": second, "occ_time": second})
            engine.advance_to((second + 1) * SECOND)
    with LocalEngine(program, url) as engine:
        assert engine.tick == 30 * SECOND
    with contextlib.closing(sqlite3.connect(url)) as connection:
        connection.execute("UPDATE augury_snapshots SET content = x''")
        connection.commit()
    with pytest.raises(CannotRecover, match="of the history of `A` versions are deleted, as SET HISTORY RETAIN says"):
        LocalEngine(program, url)
    with open_store(url, program) as store:  # nobody holds it
        assert store.last_tick() == 30 * SECOND


# ---- ticks as plain values ---------------------------------------------------------------------------------


def told(one: Ticked) -> dict[str, Any]:
    """What a tick did; of places of refused rows only their order counts."""
    return {
        "tick": one.tick,
        "last_seq": one.last_seq,
        "read": [version for versions in one.read for version in versions_of(versions)],
        "numbers": [versions.number.tolist() for versions in (*one.read, *one.derived, *one.purged)],
        "derived": [version for versions in one.derived for version in versions_of(versions)],
        "actions": list(one.action_rows()),
        "rejected": list(zip(one.rejected.event, one.rejected.reason, one.rejected.raw, strict=True)),
        "absorbed": one.absorbed,
        "purged": [version for versions in one.purged for version in versions_of(versions)],
        "failed": one.failed,
        "warnings": dict(one.warnings),
        "errors": dict(one.errors),
    }


def by_det_time(case: Generated) -> list[Raw]:
    return sorted(case.raws, key=lambda raw: raw.det_time or 0)


def replayed(case: Generated, raws: Sequence[Raw]) -> list[dict[str, Any]]:
    """The ticks of one replay of everything."""
    plan, known = engine_plan(case.program), Known()
    rows = [json_of(case.program, raw) for raw in raws]
    came = arrivals(case.program, [RawRows("raws", rows, range(len(rows)))])
    found = []
    for one in ticks(plan, initial(plan), came, case.until, Ports(runnable(case.program), known)):
        known.note(one)
        found.append(told(one))
    return found


DOING = ("read", "derived", "actions", "rejected", "absorbed", "purged", "failed")


def assert_ticks(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]], case: Generated) -> None:
    """Ticks that did nothing are left out: the last of an advance is done in any case."""
    found, expected = ([one for one in some if any(one[part] for part in DOING)] for some in (found, expected))
    assert [one["tick"] for one in found] == [one["tick"] for one in expected], case.text
    for one, other in zip(found, expected, strict=True):
        for part in other:
            assert one[part] == other[part], f"{part} at {show_time(one['tick'])} of\n{case.text}"


CASES = [*((generate, seed) for seed in range(75)), *((generate_mixed, seed) for seed in range(75))]
PARTS = 10


@pytest.mark.parametrize("part", range(PARTS))
def test_however_posts_and_times_are_cut_and_it_is_stopped_the_ticks_are_those_of_one_replay(
    part: int, tmp_path: Path
) -> None:
    for number, (make, seed) in enumerate(CASES[part::PARTS]):
        case, chance = make(seed), random.Random(f"cutting {seed}")
        store: str | MemoryStore = MemoryStore(case.program)
        if number % 3 == 2:
            store = str(tmp_path / f"{number}.db")
        kind = chance.choice([Snapping, Often, LocalEngine])
        raws = by_det_time(case)
        expected = replayed(case, raws)
        found: list[dict[str, Any]] = []
        engine, stops = kind(case.program, store), 0
        for place, raw in enumerate(raws):
            engine.post(json_of(case.program, raw), wait=chance.random() < 0.5)
            if chance.random() < 0.4:
                following = raws[place + 1].det_time if place + 1 < len(raws) else case.until
                found += map(told, engine.advance_to(moment_before(case.program, following, chance)))
            if chance.random() < 0.3:
                if stops < 2:
                    engine.close()
                    engine, stops = kind(case.program, store), stops + 1
                else:
                    engine._reload()
        with engine:
            found += map(told, engine.advance_to(case.until))
        assert_ticks(found, expected, case)


def moment_before(program: Program, det_time: int | None, chance: random.Random) -> int:
    """A time up to which ticks may go without a version of that det_time being late."""
    assert det_time is not None
    chronon_us = program.settings.chronon_us
    return chance.randrange(START - 2 * chronon_us, det_time // chronon_us * chronon_us + chronon_us)


def test_a_select_class_without_a_key_can_be_kept(tmp_path: Path) -> None:
    text = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
    text += "CREATE COMPLEX EVENT CLASS X (k INT) ID () LIFESPAN (-1) AS SELECT k FROM A OCCURRING AT A.occTime;"
    with LocalEngine(compile(text), str(tmp_path / "s.db")) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 1})
        engine.advance_to(2 * SECOND)
        engine.post({"event": "A", "k": 1, "occ_time": None, "det_time": 3})
        engine.advance_to(4 * SECOND)
        rows = engine.history("X").to_pylist()
        assert [row["change"] for row in rows] == ["announce", "withdraw"]


def test_what_is_refused_is_told_at_the_last_tick_of_an_advance_though_that_was_due() -> None:
    text = "CREATE CLOCK EVENT CLASS B EVERY 1s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
    with LocalEngine(compile(text)) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 1})
        engine.advance_to(2 * SECOND)
        with pytest.raises(PostRefused):
            engine.post({"event": "A", "k": "x", "det_time": 2})
        (ticked,) = engine.advance_to(3 * SECOND)
        assert len(ticked.rejected) == 1


def test_what_is_refused_waits_until_a_tick_tells() -> None:
    text = "CREATE CLOCK EVENT CLASS B EVERY 1s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
    with LocalEngine(compile(text)) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 1})
        engine.advance_to(2 * SECOND)
        with pytest.raises(PostRefused):
            engine.post({"event": "A", "k": "x", "det_time": 2})
        found = engine.advance_to(3 * SECOND)
        engine.post({"event": "A", "k": 2, "det_time": 3})
        found += engine.advance_to(4 * SECOND)
        assert [len(ticked.rejected) for ticked in found].count(1) == 1
        assert engine._store.waiting() == []


def test_a_late_post_gets_the_time_of_the_last_tick_and_keeps_what_it_claimed(store_url: str) -> None:
    program = compile("SET CHRONON 10s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);")
    with LocalEngine(program, store_url) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 5, "occ_time": 5})
        engine.advance_to(13 * SECOND)
        engine.post({"event": "A", "k": 2, "det_time": 7, "occ_time": 6})
        engine.post({"event": "A", "k": 3, "det_time": 12, "occ_time": 6})
    with LocalEngine(program, store_url) as engine:
        engine.post({"event": "A", "k": 4, "det_time": 11, "occ_time": 6})
        assert engine.advance_to(19 * SECOND) == []
        (ticked,) = engine.advance_to(25 * SECOND)
        assert ticked.tick == 20 * SECOND
        rows = engine.history("A").to_pylist()
    times = [
        (row["k"], microseconds_of(row["det_time"]) // SECOND, row["source_time"] and row["source_time"].second)
        for row in rows
    ]
    assert times == [(1, 5, None), (2, 10, 7), (4, 11, None), (3, 12, None)]


# ---- many threads ------------------------------------------------------------------------------------------


class Watched:
    """A store that notes which posts are durable."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.durable: set[int] = set()
        self.groups: list[int] = []

    def append(self, posts: Sequence[Post]) -> list[int]:
        places = self.store.append(posts)
        self.durable.update(places)
        self.groups.append(len(places))
        return places

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


THREADS, EACH = 16, 200


def test_of_what_many_threads_post_each_is_there_once(tmp_path: Path) -> None:
    program = compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (thread INT, n INT) ID (thread, n) LIFESPAN (5s);")
    store = Watched(open_store(str(tmp_path / "s.db"), program))
    clock = iter(range(10**9))
    errors: list[BaseException] = []
    watched: Any = store
    with LocalEngine(
        program, watched, environment=Read(lambda: START + next(clock) * 1000), snapshot_versions_min=50
    ) as engine:

        def post(thread: int) -> None:
            try:
                for n in range(EACH):
                    line = {"event": "A", "thread": thread, "n": n}
                    receipt = engine.post(line)
                    assert receipt is not None
                    assert receipt.place in store.durable
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=post, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            engine.advance_to(START + next(clock) * 1000)
        for thread in threads:
            thread.join()
        engine.advance_to(START + next(clock) * 1000 + 60 * SECOND)
        assert errors == []
        rows = engine.history("A").to_pylist()
        assert sorted((row["thread"], row["n"]) for row in rows) == [
            (t, n) for t in range(THREADS) for n in range(EACH)
        ]
        assert sorted(row["seq"] for row in rows) == list(range(1, THREADS * EACH + 1))
        for number in range(THREADS):  # what one thread posts stays in order
            assert [row["n"] for row in rows if row["thread"] == number] == list(range(EACH))
        assert store.waiting() == []
    assert sum(store.groups) == THREADS * EACH
    assert max(store.groups) > 1  # they share writes


def test_what_is_not_waited_for_is_written_by_the_next_that_is(tmp_path: Path) -> None:
    program = compile("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (5s);")
    with LocalEngine(program, str(tmp_path / "s.db")) as engine:
        assert [engine.post({"event": "A", "k": k, "det_time": 1}, wait=False) for k in range(3)] == [None] * 3
        assert engine._store.waiting() == []
        receipt = engine.post({"event": "A", "k": 3, "det_time": 1})
        assert receipt is not None
        assert [place for place, _ in engine._store.waiting()][-1] == receipt.place
        engine.post({"event": "A", "k": 4, "det_time": 1}, wait=False)
    with LocalEngine(program, str(tmp_path / "s.db")) as engine:
        (ticked,) = engine.advance_to(2 * SECOND)
        assert ticked.read[0].values["k"].to_pylist() == [0, 1, 2, 3, 4]

"""What goes wrong around an engine: wrong events, clocks, disks, SELECTs; it is told clearly, and the rest goes on."""

from __future__ import annotations

import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from augury import limits
from augury.api import compile
from augury.clock import microseconds_of, show_time
from augury.duck.selects import runnable
from augury.engine.plan import CannotRun
from augury.engine.ports import Post, Snapshot
from augury.engine.ticked import Ticked
from augury.environment import Machine
from augury.history.arrivals import arrivals
from augury.history.json_lines import read_line
from augury.history.raw import RawRows
from augury.history.schedule import TooManyDue
from augury.local.posts import Posts
from augury.local.running import LocalEngine, PostRefused
from augury.local.store.errors import AlreadyCommitted, StoreFailed
from augury.local.store.memory import MemoryStore
from augury.local.store.sql import SqlStore, open_store
from augury.local.ticking import TickReplay
from augury.trying.simulate import Simulation
from tests.bitemporal.generate import SECOND
from tests.bitemporal.test_recovery import PROGRAM, Step, assert_same, go, left, script, told

# ---- wrong events ----------------------------------------------------------------------------------------

SIMPLE = """
SET CHRONON 5s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, s VARCHAR(10), d DOUBLE, n NUMERIC(10,2)) ID (k) LIFESPAN (-1);
CREATE CLOCK EVENT CLASS Beat EVERY 1h;
CREATE COMPLEX EVENT CLASS Seen (k INT) ID (k) AS MATCH A(k, _, _, _);
"""


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": ("", "it is not JSON: Expecting value at column 1"),
    "text": ("no", "it is not JSON: Expecting value at column 1"),
    "torn": ('{"event": "A", "k"', "it is not JSON: Expecting ':' delimiter at column 19"),
    "a list": ("[1]", "it is not an object: JSON Lines has one object a line"),
    "a number": ("3", "it is not an object: JSON Lines has one object a line"),
    "None": (None, "it is not an object: JSON Lines has one object a line"),
    "no class": ({"k": 1, "det_time": 1}, "it does not say of which class it is: no `event`"),
    "class of no text": ('{"event": ["A"], "det_time": 1}', 'there is no event class "[\\"A\\"]"'),
    "unknown class": ({"event": "Ab", "k": 1, "det_time": 1}, 'there is no event class "Ab"; did you mean `A`?'),
    "complex class": (
        {"event": "Seen", "det_time": 1},
        "`Seen` is a complex class: its events are derived, not posted",
    ),
    "clock class": ({"event": "Beat", "det_time": 1}, "`Beat` is a clock class: its events are posted by the clock"),
    "no key": ({"event": "A", "det_time": 1}, "`k` belongs to the key, and is NULL"),
    "key of a wrong type": ({"event": "A", "k": "x", "det_time": 1}, '`k` is an INT, and "x" does not fit'),
    "a truth": ({"event": "A", "k": True, "det_time": 1}, "`k` is an INT, and true does not fit"),
    "too large": ({"event": "A", "k": 2**31, "det_time": 1}, "`k` is an INT, and 2147483648 does not fit"),
    "too long": (
        {"event": "A", "k": 1, "s": "x" * 11, "det_time": 1},
        '`s` is a VARCHAR(10), and "xxxxxxxxxxx" does not',
    ),
    "no time": ({"event": "A", "k": 1}, "it has neither an occ_time nor a det_time"),
    "withdrawn at no time": ({"event": "A", "k": 1, "occ_time": None}, "it has neither an occ_time nor a det_time"),
    "no such time": ({"event": "A", "k": 1, "det_time": "soon"}, '`det_time` is a TIMESTAMP, and "soon" does not fit'),
    "time of an object": ({"event": "A", "k": 1, "det_time": {}}, "`det_time` is a TIMESTAMP, and {} does not fit"),
    "NaN as a key": ('{"event": "A", "k": NaN, "det_time": 1}', '`k` is an INT, and "NaN" does not fit'),
    "NaN as a time": (
        {"event": "A", "k": 1, "det_time": float("nan")},
        '`det_time` is a TIMESTAMP, and "NaN" does not',
    ),
    "NaN as a decimal": (
        '{"event": "A", "k": 1, "n": NaN, "det_time": 1}',
        '`n` is a NUMERIC(10,2), and "NaN" does not',
    ),
    "a vast exponent": ('{"event": "A", "k": 1, "n": 1e999999999, "det_time": 1}', '`n` is a NUMERIC(10,2), and "1E+9'),
    "many digits": (
        f'{{"event": "A", "k": {"9" * 5000}, "det_time": 1}}',
        "it holds a number that is too long: Exceeds",
    ),
    "as many in Python": ({"event": "A", "k": 10**5000, "det_time": 1}, "it holds a number that is too long: Exceeds"),
    "a NUL as it is": (
        '{"event": "A", "k": 1, "s": "a\0b", "det_time": 1}',
        "it is not JSON: Invalid control character",
    ),
    "a class with NUL": (
        {"event": "A\0", "k": 1, "det_time": 1},
        'there is no event class "A\\u0000"; did you mean `A`?',
    ),
    "half a character": (
        '{"event": "A", "k": 1, "s": "\\ud800", "det_time": 1}',
        '`s` is a VARCHAR(10), and "?" does not',
    ),
    "nested": (
        {"event": "A", "k": nested(20), "det_time": 1},
        "`k` is an INT, and [[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]",
    ),
    **{
        f"nested {depth} deep": (
            f'{{"event": "A", "k": 1, "det_time": 1, "s": {"[" * depth}{"]" * depth}}}',
            "it is nested too deeply",
        )
        for depth in (101, 250, 330, 400, 900, 100_000)
    },
    "nested in Python": ({"event": "A", "k": 1, "s": nested(5000), "det_time": 1}, "it is nested too deeply"),
    "huge": ({"event": "A", "k": 1, "s": "x" * 10_000_001, "det_time": 1}, "it is longer than 10,000,000 bytes"),
    "large": ({"event": "A", "k": 1, "s": "x" * 5_000_000, "det_time": 1}, '`s` is a VARCHAR(10), and "xxxxxx'),
}


@pytest.mark.parametrize("is_reopened", [False, True], ids=["at once", "reopened"])
def test_a_wrong_event_is_refused_with_a_reason_and_its_neighbours_go_on(store_url: str, is_reopened: bool) -> None:
    program = compile(SIMPLE)
    engine = LocalEngine(program, store_url)
    for number, (event, reason) in enumerate(WRONG.values()):
        engine.post({"event": "A", "k": number, "s": "ok", "det_time": 2 + number / 1000})
        with pytest.raises(PostRefused) as refused:
            engine.post(event)
        assert str(refused.value).startswith(reason)
    if is_reopened:
        engine.close()
        engine = LocalEngine(program, store_url)
    with engine:
        (ticked,) = engine.advance_to(9 * SECOND)
        for found, (_, reason) in zip(ticked.rejected.reason, WRONG.values(), strict=True):
            assert found.startswith(reason)
        assert [row["k"] for row in engine.history("A").to_pylist()] == list(range(len(WRONG)))
        assert engine.history("Seen").num_rows == len(WRONG)
        assert isinstance(engine._store, SqlStore)
        kept = engine._store.log("rejected").to_pylist()
        assert tuple(row["reason"] for row in kept) == ticked.rejected.reason
        assert all(len(row["raw"]) <= 500 for row in kept)
        assert kept[1]["raw"] == "no"
        assert engine._store.waiting() == []


def test_values_that_look_wrong_and_are_not(store_url: str) -> None:
    with LocalEngine(compile(SIMPLE), store_url) as engine:
        engine.post('{"event": "A", "k": 1, "d": NaN, "det_time": 1}')
        engine.post({"event": "A", "k": 2, "s": "a\0b", "det_time": 1, "event_id": "\0"})
        engine.post({"event": "A", "k": 3, "n": 0.1, "more": nested(20), "det_time": 1})
        engine.post('{"event": "A", "k": 4, "n": 12345678.91, "det_time": 1}')
        engine.advance_to(9 * SECOND)
        rows = engine.history("A").to_pylist()
        assert str(rows[0]["d"]) == "nan"
        assert (rows[1]["s"], rows[1]["event_id"]) == ("a\0b", "\0")
        assert [str(row["n"]) for row in rows[2:]] == ["0.10", "12345678.91"]


def test_whatever_is_posted_is_taken_or_refused(tmp_path: Path) -> None:
    chance = random.Random(7)
    values = [
        *(None, True, 0, -1, 2**70, 1.5, 1e300, float("inf"), "", "A", "1", "NaN", "\0", "\ud800", "2026-01-01"),
        *([], [1, [2]], {}, {"a": {"b": 1}}, 10**400, "x" * 1000, "2026-01-01T00:00:00+25:00", "ſ", "İ"),
    ]
    names = ["event", "EVENT", "k", "K", "s", "d", "n", "det_time", "detTime", "occ_time", "event_id", "", "\0", "seq"]
    posted = refused = 0
    program = compile(SIMPLE.replace("CREATE CLOCK EVENT CLASS Beat EVERY 1h;", ""))
    with LocalEngine(program, str(tmp_path / "s.db")) as engine:
        for number in range(250):
            row = {chance.choice(names): chance.choice(values) for _ in range(chance.randrange(5))}
            if chance.random() < 0.8:
                row = {"event": "A", "k": number, "det_time": 1, **row}
            posted += 1
            try:
                engine.post(row)
            except PostRefused:
                refused += 1
        ticks = engine.advance_to(4 * 10**15)
        assert engine._store.waiting() == []
    counts = [one.counts() for one in ticks]
    assert 50 < refused <= sum(count["rejected"] for count in counts)
    assert sum(count["read"] + count["rejected"] + count["absorbed"] for count in counts) == posted


# ---- clocks ----------------------------------------------------------------------------------------------

TICKING = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);
CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID (k) LIFESPAN (-1);
CREATE COMPLEX EVENT CLASS Alone (k INT) ID (k) LIFESPAN (-1)
  AS COMPOSITE A(k) > !B(k) WITHIN 2s CONTEXT CHRONICLE
  ON ANNOUNCEMENT DO alone(new.k);
"""


def test_a_time_before_the_last_tick_changes_nothing_and_is_reported_once() -> None:
    with LocalEngine(compile(TICKING)) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 100})
        engine.advance_to(101 * SECOND)
        for back in (90, 91, 92):
            engine.post({"event": "A", "k": back, "det_time": back})
            assert engine.advance_to(back * SECOND) == []
        sentence = "the clock went back by 11s, to 1970-01-01T00:01:30Z: ticks go on after 1970-01-01T00:01:41Z"
        assert engine.reports == [sentence]
        engine.advance_to(102 * SECOND)
        assert engine.advance_to(100 * SECOND) == []
        again = "the clock went back by 2s, to 1970-01-01T00:01:40Z: ticks go on after 1970-01-01T00:01:42Z"
        assert engine.reports == [sentence, again]
        rows = engine.history("A").to_pylist()
        assert [(row["k"], microseconds_of(row["det_time"]) // SECOND) for row in rows] == [
            *((1, 100), (90, 101), (91, 101), (92, 101)),
        ]
        assert [row["source_time"].timestamp() for row in rows[1:]] == [90, 91, 92]


def eventually(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Shifted(Machine):
    """A machine whose clock is before or after the wall clock by some time."""

    def __init__(self) -> None:
        super().__init__()
        self.by_us = 0

    def now_us(self) -> int:
        return super().now_us() + self.by_us


def test_live_a_clock_that_goes_back_is_reported_and_ticks_go_on_when_it_has_caught_up() -> None:
    clock = Shifted()
    with LocalEngine(compile(TICKING), environment=clock) as engine:
        engine.start()
        engine.post({"event": "A", "k": 1})
        eventually(lambda: engine.history("A").num_rows == 1)
        last = engine.tick
        assert last is not None
        clock.by_us = -3 * SECOND
        engine.post({"event": "A", "k": 2})
        eventually(lambda: len(engine.reports) == 1)
        assert engine.reports[0].startswith("the clock went back by ")
        assert engine.reports[0].endswith(f"ticks go on after {show_time(last)}")
        assert engine.history("A").num_rows == 1
        clock.by_us = 0
        eventually(lambda: engine.history("A").num_rows == 2)
        rows = engine.history("A").to_pylist()
        assert microseconds_of(rows[1]["det_time"]) == last
        assert microseconds_of(rows[1]["source_time"]) < last
        assert len(engine.reports) == 1


def test_live_an_absence_is_told_within_two_chronons_though_nothing_comes(tmp_path: Path) -> None:
    with LocalEngine(compile(TICKING), str(tmp_path / "s.db")) as engine:
        engine.start()
        posted = time.time()
        engine.post({"event": "A", "k": 1})
        eventually(lambda: engine.history("Alone").num_rows == 1)
        told_after = time.time() - posted
        engine.stop()
        [row], [first] = engine.history("Alone").to_pylist(), engine.history("A").to_pylist()
        assert (row["occ_time"] - first["occ_time"]).total_seconds() == 2
        assert posted - 0.001 <= first["occ_time"].timestamp() <= posted + told_after
        assert told_after > 1.9
        assert row["tick"].timestamp() - row["occ_time"].timestamp() <= 1  # the tick is the first that can tell
        assert isinstance(engine._store, SqlStore)
        assert [row["action"] for row in engine._store.log("actions").to_pylist()] == ["alone"]
        assert engine.reports == []


def test_live_an_event_without_a_time_or_with_none_is_read_at_the_next_tick() -> None:
    text = TICKING + "SOURCE B FROM COLUMNS (seen AS det_time);"
    with LocalEngine(compile(text)) as engine:
        engine.start()
        before = Machine().now_us()
        engine.post({"event": "A", "k": 1})
        engine.post({"event": "A", "k": 2, "det_time": None})
        engine.post({"event": "A", "k": 3, "detTime": None, "DET_TIME": None})
        engine.post({"event": "B", "k": 4, "seen": None})
        engine.post({"event": "B", "k": 5, "seen": before / SECOND})
        eventually(lambda: engine.history("A").num_rows == 3 and engine.history("B").num_rows == 2)
        for row in (*engine.history("A").to_pylist(), *engine.history("B").to_pylist()):
            assert 0 <= microseconds_of(row["det_time"]) - before < 10 * SECOND


class Slow(MemoryStore):
    """A store that takes its time."""

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        time.sleep(0.05)
        super().commit(ticks, taken, snapshot)


def test_stop_waits_for_the_tick_and_not_for_all_that_are_due() -> None:
    program = compile("CREATE CLOCK EVENT CLASS Beat EVERY 1s;")
    store = Slow(program)
    clock = Shifted()
    with LocalEngine(program, store, environment=clock) as engine:
        engine.start()
        engine.stop()
        clock.by_us = 3600 * SECOND
        first = engine.tick
        engine.start()
        eventually(lambda: len(store.ticks) > 3)
        began = time.monotonic()
        engine.stop()
        assert time.monotonic() - began < 2
        count = len(store.ticks)
        assert count < 3000
        assert engine.tick == store.last_tick()
        time.sleep(0.2)
        assert len(store.ticks) == count  # it has stopped indeed
        assert first is not None
        engine.advance_to(first + 100 * SECOND)
        beats = [microseconds_of(row["occ_time"]) for row in engine.history("Beat").to_pylist()]
        assert beats == list(range(beats[0], beats[0] + len(beats) * SECOND, SECOND))


# ---- a full disk -------------------------------------------------------------------------------------------

FULL = "failed: the disk is full, or as large as the database may grow"


@contextlib.contextmanager
def full(engine: LocalEngine) -> Iterator[None]:
    """While no page can be added."""
    store = engine._store
    assert isinstance(store, SqlStore)

    def pages(count: int | str) -> None:
        with store.writer.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {count}")

    pages(1)  # which means: as many as there are
    try:
        yield
    finally:
        pages(2**30)


def fails(work: Callable[[], object]) -> bool:
    """Whether the disk was too full for it; some room is left in pages that are there."""
    with contextlib.suppress(PostRefused):
        try:
            work()
        except StoreFailed as error:
            if FULL not in str(error):
                raise
            return True
    return False


PADDED = (
    PROGRAM.replace(
        "resource VARCHAR(10), amount INT) ID (resource) LIFESPAN (40s)",
        "resource VARCHAR(10), amount INT, pad TEXT) ID (resource) LIFESPAN (40s)",
    )
    .replace("Delivery(resource, amount))", "Delivery(resource, amount, _))")
    .replace("!Delivery(resource, _)", "!Delivery(resource, _, _)")
)


def padded(steps: Sequence[Step]) -> list[Step]:
    """Events that need pages of their own."""
    pad = f', "pad": "{"x" * 6000}"}}'
    return [(kind, value[:-1] + pad if kind == "post" and '"Delivery"' in value else value) for kind, value in steps]


@pytest.mark.parametrize("seed", range(2))
def test_on_a_full_disk_nothing_acknowledged_is_lost_and_when_there_is_room_it_goes_on(
    tmp_path: Path, seed: int
) -> None:
    program, chance = compile(PADDED), random.Random(seed)
    url, other = str(tmp_path / "s.db"), str(tmp_path / "undisturbed.db")
    steps = padded(script(14))
    failed = {"post": 0, "advance": 0}
    with LocalEngine(program, url, snapshot_versions_min=3) as engine:
        for kind, value in steps:
            step = (lambda v=value: engine.post(v)) if kind == "post" else (lambda v=value: engine.advance_to(v))
            done = False
            if chance.random() < 0.6:
                before = left(url, program)
                with full(engine):
                    done = not fails(step)
                    if not done:
                        failed[kind] += 1
                        if kind == "post":
                            assert left(url, program) == before
            if not done:
                assert not fails(step)
    assert failed["post"]
    assert failed["advance"]
    with LocalEngine(program, other, snapshot_versions_min=3) as engine:
        go(engine, steps)
    assert_same(left(url, program), left(other, program))


def test_live_a_full_disk_is_reported_once_and_ticks_are_made_up_for(tmp_path: Path) -> None:
    text = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, s TEXT) ID (k) LIFESPAN (-1);"
    text += "CREATE CLOCK EVENT CLASS B EVERY 1s;"
    with LocalEngine(compile(text), str(tmp_path / "s.db")) as engine:
        engine.post({"event": "A", "k": 1, "s": "x" * 50_000, "det_time": Machine().now_us() / SECOND})
        engine.start()
        with full(engine):
            eventually(lambda: len(engine.reports) == 1)
            time.sleep(1.5)
        eventually(lambda: engine.history("A").num_rows == 1)
        engine.stop()
        place = tmp_path / "s.db"
        assert engine.reports == [
            f"a tick could not be kept: the store `{place}` {FULL}; it is tried again at the next"
        ]
        beats = [microseconds_of(row["occ_time"]) for row in engine.history("B").to_pylist()]
        assert beats == list(range(beats[0], beats[0] + len(beats) * SECOND, SECOND))


# ---- answers that are lost, and ticks that break off -------------------------------------------------------


class Forgetful:
    """A store that now and then does what it is asked, or does not, and fails in both cases."""

    def __init__(self, store: Any, chance: random.Random) -> None:
        self.store, self.chance, self.failures = store, chance, 0

    def _perhaps(self, work: Callable[[], Any]) -> Any:
        way = self.chance.random()
        if way < 0.15:
            self.failures += 1
            raise StoreFailed("it was not done")
        found = work()
        if way < 0.3:
            self.failures += 1
            raise StoreFailed("the answer was lost")
        return found

    def append(self, posts: Sequence[Post]) -> Any:
        return self._perhaps(lambda: self.store.append(posts))

    def commit(self, *arguments: Any) -> Any:
        return self._perhaps(lambda: self.store.commit(*arguments))

    def known_ids(self, *arguments: Any) -> Any:
        return self._perhaps(lambda: self.store.known_ids(*arguments))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


@pytest.mark.parametrize("seed", range(3))
def test_whether_it_was_done_when_the_store_failed_is_found_out(seed: int) -> None:
    program, steps, chance = compile(PROGRAM), script(), random.Random(seed)
    undisturbed = MemoryStore(program)
    with LocalEngine(program, undisturbed) as engine:
        go(engine, steps)
    store: Any = Forgetful(MemoryStore(program), chance)
    found: list[Ticked] = []
    with contextlib.suppress(StoreFailed), LocalEngine(program, store, snapshot_versions_min=4) as engine:
        for kind, value in steps:
            while True:
                try:
                    if kind == "post":
                        engine.post(value, wait=False)  # it stays in the queue until it is written
                        break
                    for one in engine.ticks_to(value):
                        found.append(one)
                    break
                except StoreFailed:
                    continue
        assert store.failures > 10
        expected = list(map(told, undisturbed.ticks))
        assert list(map(told, store.ticks)) == expected
        assert list(map(told, found)) == expected
        assert store.waiting() == []


class Breaking:
    """Runs SELECTs, and breaks at one of them in a way that nobody thought of."""

    def __init__(self, selects: Any) -> None:
        self.selects, self.left = selects, 4

    def rows(self, *arguments: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise MemoryError("no memory")
        return self.selects.rows(*arguments)


def test_a_tick_that_breaks_off_in_the_middle_is_done_again_from_its_beginning() -> None:
    program, steps = compile(PROGRAM), script()
    undisturbed, store = MemoryStore(program), MemoryStore(program)
    with LocalEngine(program, undisturbed) as engine:
        go(engine, steps)
    broken = 0
    with LocalEngine(program, store, snapshot_versions_min=5) as engine:
        breaking: Any = Breaking(engine._ports.selects)
        engine._ports = type(engine._ports)(breaking, engine._ports.known)
        for step in steps:
            try:
                go(engine, [step])
            except MemoryError:
                broken += 1
                breaking.left = 0  # from now on it does not
                go(engine, [step])
                breaking.left = 4
    assert broken > 2
    assert list(map(told, store.ticks)) == list(map(told, undisturbed.ticks))


def test_too_many_events_of_the_clock_are_an_error_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOCK_EVENTS_MAX", 5)
    with LocalEngine(
        compile(
            "CREATE CLOCK EVENT CLASS B EVERY 1s; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
        )
    ) as engine:
        engine.post({"event": "A", "k": 1, "det_time": 100})
        for _ in range(3):
            with pytest.raises(TooManyDue):
                engine.advance_to(150 * SECOND)
        beats = [row["occ_time"].timestamp() for row in engine.history("B").to_pylist()]
        assert beats == list(range(100, 100 + len(beats)))
        assert len(beats) == 15
        assert engine.history("A").num_rows == 1


def test_a_replay_in_which_the_clock_would_post_too_much_ends_before_its_first_tick() -> None:
    program = compile(
        "CREATE CLOCK EVENT CLASS B EVERY 1s;"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1) ON ANNOUNCEMENT DO a();"
    )
    rows = [read_line(b'{"event": "A", "k": 1, "det_time": %d}' % at) for at in (0, 4_000_000_000)]
    came = arrivals(program, [RawRows("r", rows, range(2))])
    for run in (TickReplay(program, runnable(program), came, None).texts(), Simulation(program, came).done()):
        with pytest.raises(CannotRun, match=r"at most 10,000,000 events of a clock class, .* `B` has more"):
            next(run)


def test_a_tick_that_somebody_else_has_committed_is_not_overwritten() -> None:
    program = compile(TICKING)
    store = MemoryStore(program)
    with LocalEngine(program, store) as engine, LocalEngine(program, store) as other:
        engine.post({"event": "A", "k": 1, "det_time": 100})
        other.post({"event": "B", "k": 2, "det_time": 100})
        other.advance_to(101 * SECOND)
        with pytest.raises(AlreadyCommitted):
            engine.advance_to(101 * SECOND)
        engine.advance_to(105 * SECOND)
        assert engine.history("A").num_rows == engine.history("B").num_rows == 1
        assert engine.history("Alone").num_rows == 1


def test_a_post_that_joins_the_queue_while_it_is_written_is_not_lost() -> None:
    program = compile(TICKING)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        posts = Posts(program, MemoryStore(program), lambda: None)
        threads = [
            threading.Thread(
                target=lambda t=t: [posts.post({"event": "A", "k": t, "det_time": n}, wait=True) for n in range(60)]
            )
            for t in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    finally:
        sys.setswitchinterval(interval)
    assert len(posts.waiting()) == 8 * 60


def test_an_engine_that_cannot_be_opened_lets_the_store_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, url = compile(TICKING), str(tmp_path / "s.db")

    def broken(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(LocalEngine, "_recovered", broken)
        with pytest.raises(MemoryError):
            LocalEngine(program, url)
    open_store(url, program).close()


# ---- SELECTs ------------------------------------------------------------------------------------------------

DIVIDING = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, v INT) ID (k) LIFESPAN (-1);
CREATE COMPLEX EVENT CLASS Share (k INT, share DOUBLE) ID (k) LIFESPAN (-1)
  AS SELECT k, 12 / v AS share FROM A OCCURRING AT A.occTime
  ON ANNOUNCEMENT DO shared(new.k, new.share);
CREATE COMPLEX EVENT CLASS Copy (k INT) ID (k) LIFESPAN (-1) AS SELECT k FROM A OCCURRING AT A.occTime;
CREATE COMPLEX EVENT CLASS Any2 (k INT) ID (k) LIFESPAN (-1) AS MATCH A(k, _);
"""


def test_a_select_that_fails_is_reported_for_its_tick_and_recovers_when_the_row_is_gone(store_url: str) -> None:
    program = compile(DIVIDING)
    failed: dict[int, list[tuple[str, str]]] = {}

    def at(second: int, *rows: dict[str, Any]) -> None:
        for row in rows:
            engine.post({"event": "A", "det_time": second, **row})
        for one in engine.advance_to((second + 1) * SECOND):
            failed[one.tick // SECOND] = [(failure.event_class, failure.reason) for failure in one.failed]

    with LocalEngine(program, store_url) as engine:
        at(10, {"k": 1, "v": 3})
        at(11, {"k": 2, "v": 0}, {"k": 3, "v": 4})
        at(13, {"k": 1, "v": 6})
    with LocalEngine(program, store_url) as engine:
        at(14, {"k": 4, "v": 1})
        at(15, {"k": 2, "v": None, "occ_time": None})
        at(16, {"k": 5, "v": 2})
        failure = [("Share", "Division by zero")]
        assert failed == {11: [], 12: failure, 13: failure, 14: failure, 15: failure, 16: [], 17: []}
        shares = [
            (row["tick"].second, row["change"], row["k"], row["share"]) for row in engine.history("Share").to_pylist()
        ]
        assert shares == [
            *((11, "announce", 1, 4.0), (16, "change", 1, 2.0), (16, "announce", 3, 3.0), (16, "announce", 4, 12.0)),
            (17, "announce", 5, 6.0),
        ]
        copies = [(row["tick"].second, row["change"], row["k"]) for row in engine.history("Copy").to_pylist()]
        assert copies == [
            *((11, "announce", 1), (12, "announce", 2), (12, "announce", 3), (14, "change", 1)),
            *((15, "announce", 4), (16, "withdraw", 2), (17, "announce", 5)),
        ]
        assert engine.history("Any2").num_rows == 6
        assert isinstance(engine._store, SqlStore)
        logged = {row["tick"].second: row["failed"] for row in engine._store.log("ticks").to_pylist()}
        assert (logged[12], logged[16]) == ('{"Share": "Division by zero"}', "{}")
        assert {row["tick"].second for row in engine._store.log("actions").to_pylist()} == {11, 16, 17}

"""Posts: what is surely fine is never refused, the quick way to a line says what the slow one says, nobody is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from threading import Semaphore, Thread
from time import monotonic, sleep
from typing import Any

import pytest

from augury.api import compile
from augury.engine.ports import Post
from augury.history.arrivals import arrivals
from augury.history.json_lines import read_line
from augury.history.plain import plainly_fine
from augury.history.raw import RawRows, whole_json
from augury.local.posts import _line
from augury.local.running import LocalEngine
from augury.local.store.memory import MemoryStore
from tests.clocks import Clock

PROGRAM = compile(
    """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, b BIGINT, d DOUBLE, s VARCHAR(4), t STRING, f BOOLEAN) ID (k)
  LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS T (k INT, due TIMESTAMP) ID (k) LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS M (k INT) ID (k) LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS MATCH A(k, _, _, _, _, _);
SOURCE M FROM COLUMNS (key AS k);
"""
)
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, 2**53 + 1, 10**400),
    *(Decimal("1.5"), Decimal("1e400"), Decimal("1e-400"), Decimal("NaN"), Decimal("-0.0"), 1.5),
    *("", "abcd", "abcde", "ü", "\ud800", "1", "true", "x" * 20, [], {}, [1]),
]
TIMES: list[Any] = [
    *("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456Z", "2026-02-30T00:00:00Z", "2026-01-01T24:00:00Z"),
    *("0000-01-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00+01:00", "2026-13-01T00:00:00Z", None, 0, 1.5, "now"),
    *("9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00Z", "2026-01-01T00:00:00.1234567Z"),
]


def random_row(random: Random) -> dict[str, Any]:
    good = {"k": 1, "b": 2, "d": Decimal("2.5"), "s": "ab", "t": "text", "f": True, "due": TIMES[0]}
    row: dict[str, Any] = {"event": random.choice(["A", "A", "A", "a", "T", "M", "C", "X", 1, None])}
    for name, value in good.items():
        if name == "due" and row["event"] != "T":
            continue
        if random.random() < 0.95:
            row[name] = value if random.random() < 0.9 else random.choice(VALUES)
    for name in ("occ_time", "det_time"):
        if random.random() < 0.7:
            row[name] = TIMES[0] if random.random() < 0.8 else random.choice(TIMES)
    for name in ("event_id", "more", "seq", "K", "OCC_TIME"):
        if random.random() < 0.04:
            row[name] = random.choice(VALUES)
    return row


def test_what_is_surely_fine_is_not_refused() -> None:
    random, is_fine = Random(7), plainly_fine(PROGRAM)
    rows = [row for row in (random_row(random) for _ in range(20_000)) if is_fine(row)]
    assert len(rows) > 1_000
    came = arrivals(PROGRAM, [RawRows("rows", rows, range(len(rows)))])
    assert [(rows[one.position], one.reason) for one in came.refusals] == []
    assert len(came) == len(rows)


def test_the_quick_way_to_a_line_says_the_same() -> None:
    random = Random(8)
    for _ in range(5_000):
        event = random_row(random)
        try:
            slow = whole_json(event).encode("utf-8", "replace").strip()
        except ValueError:
            continue
        line, row = _line(event)
        expected = read_line(slow)
        assert repr(row) == repr(expected), event
        if isinstance(expected, dict):
            assert line.encode() == slow


def test_who_writes_for_others_is_not_lost_when_somebody_flushes(tmp_path: Path) -> None:
    """A flush may write the event of who leads, or of who is to lead next: the lead goes on all the same."""
    with LocalEngine(PROGRAM, str(tmp_path / "s.db"), environment=Clock(1_770_000_000_000_000)) as engine:
        errors: list[BaseException] = []

        def post(number: int) -> None:
            try:
                for n in range(100):
                    engine.post({"event": "M", "key": number * 1000 + n})
            except BaseException as error:
                errors.append(error)

        threads = [Thread(target=post, args=(number,), daemon=True) for number in range(16)]
        for thread in threads:
            thread.start()
        until = monotonic() + 60
        while any(thread.is_alive() for thread in threads) and monotonic() < until:
            engine.flush()
        assert not any(thread.is_alive() for thread in threads), "somebody waits for a lead that nobody has"
        assert not errors
        assert sum(len(ticked.read[0]) for ticked in engine.advance_to(1_770_000_010_000_000) if ticked.read) == 1600


class Slow:
    """A store that writes a group when it is told to."""

    def __init__(self) -> None:
        self.store = MemoryStore(PROGRAM)
        self.groups: list[int] = []
        self.may_write = Semaphore(0)

    def append(self, posts: Sequence[Post]) -> list[int]:
        self.groups.append(len(posts))
        self.may_write.acquire()
        return self.store.append(posts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class Interrupted(Exception):
    """As Ctrl-C does it."""


def until(is_so: Callable[[], bool]) -> None:
    end = monotonic() + 30
    while not is_so():
        assert monotonic() < end, "it never comes"
        sleep(0.001)


@pytest.mark.parametrize(
    ("before", "is_written"),
    [
        pytest.param(0, False, id="who would have led next"),
        pytest.param(1, False, id="who waits for its group"),
        pytest.param(1, True, id="whose group is being written"),
    ],
)
def test_who_is_interrupted_leaves_nobody_asleep(before: int, is_written: bool) -> None:
    """One posts and its write takes long; `before` others, this thread and two more come, and this one leaves."""
    slow = Slow()
    given: Any = slow
    engine = LocalEngine(PROGRAM, given, environment=Clock(1_770_000_000_000_000))
    waiting = engine._posts._queue
    others: list[Thread] = []
    errors: list[AssertionError] = []

    def post() -> None:
        thread = Thread(target=lambda: engine.post({"event": "M", "key": len(others)}), daemon=True)
        others.append(thread)
        thread.start()

    def meanwhile() -> None:
        try:
            until(lambda: len(waiting) == before + 1)
            post()
            until(lambda: len(waiting) == before + 2)
            post()
            until(lambda: len(waiting) == before + 3)
            if is_written:
                slow.may_write.release()
                until(lambda: len(slow.groups) == 2)
        except AssertionError as error:
            errors.append(error)
        os.kill(os.getpid(), signal.SIGUSR1)

    def interrupt(*_: object) -> None:
        raise Interrupted

    post()
    until(lambda: slow.groups == [1])
    for number in range(before):
        post()
        until(lambda: len(waiting) == number + 1)  # noqa: B023
    was = signal.signal(signal.SIGUSR1, interrupt)
    try:
        helper = Thread(target=meanwhile, daemon=True)
        helper.start()
        with pytest.raises(Interrupted):
            engine.post({"event": "M", "key": 99})
    finally:
        signal.signal(signal.SIGUSR1, was)
    helper.join()
    for _ in range(10):
        slow.may_write.release()
    until(lambda: not any(thread.is_alive() for thread in others))
    engine.post({"event": "M", "key": 100})
    engine.close()
    assert not errors
    assert sum(slow.groups) == len(others) + 2, "also what was interrupted is there, once"

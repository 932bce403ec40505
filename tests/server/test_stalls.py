"""Many who post, wait, switch and change the program of one engine at once, by its clock: nobody waits for long.

Whoever stands still is told of with where every thread was.
"""

from __future__ import annotations

import faulthandler
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from augury.api import compile
from augury.environment import Machine
from augury.kernels.firing import Switched
from augury.local.running import LocalEngine

SHOP = """
SET CHRONON 1s;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ordered (account INT, amount INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (1d);
RULE Price (amount INT) ACTION price(amount);
RULE Approve (account INT, amount INT) ACTION POST Approved(account, amount);
RULE Thank (account INT) ACTION thank(account);
TRIGGER Order (account INT, amount INT) TRIGGEREVENT Ordered
  RULESTRUC Price(amount) > (Approve(account, amount), Thank(account)) RETURNS INT : Price;
"""
TWICE = """
CREATE COMPLEX EVENT CLASS Twice (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Approved(account, _), Ordered(account, _));
"""
WAIT_SECONDS_MAX = 30.0


class Crowd:
    """Threads that ask an engine for something again and again; how long each waited."""

    def __init__(self, engine: LocalEngine, seconds: float) -> None:
        self.engine, self.over = engine, time.monotonic() + seconds
        self.sent: Counter[str] = Counter()
        self.waits: dict[str, float] = {}
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._count = 0

    def order(self) -> dict[str, Any]:
        with self._lock:
            self._count += 1
            event_id = f"e{self._count}"
            self.sent[event_id] += 1
        return {"event": "Ordered", "account": random.randrange(5), "amount": 10, "event_id": event_id}

    def add(self, name: str, ask: Callable[[], object], pause_seconds: float) -> None:
        def go_on() -> None:
            try:
                while time.monotonic() < self.over:
                    begun = time.monotonic()
                    ask()
                    self.waits[name] = max(self.waits.get(name, 0.0), time.monotonic() - begun)
                    time.sleep(random.uniform(0, pause_seconds))
            except BaseException as error:
                self.failures.append(error)

        self._threads.append(threading.Thread(target=go_on, name=name, daemon=True))

    def go(self) -> None:
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join(max(0.0, self.over + WAIT_SECONDS_MAX - time.monotonic()))
        still = [thread.name for thread in self._threads if thread.is_alive()]
        if still:
            faulthandler.dump_traceback(all_threads=True)
        assert still == []
        if self.failures:
            raise self.failures[0]


def crowded(store: Path | str, seconds: float) -> Crowd:
    """A crowd before an engine that follows the clock; what it sent is there once in the end."""
    programs = [compile(SHOP), compile(SHOP + TWICE)]
    functions = {"price": lambda amount: amount * 12 // 10, "thank": lambda _: None}
    with LocalEngine(programs[0], store, environment=Machine(), functions=functions) as engine:
        engine.start()
        crowd = Crowd(engine, seconds)
        # Who waits for an answer comes again when it has one; the others must not post more than can be read.
        for number in range(6):
            crowd.add(f"notify {number}", lambda: _answered(engine, crowd), 0.02)
        for number in range(2):
            crowd.add(f"post {number}", lambda: engine.post(crowd.order()), 0.4)
            crowd.add(f"post at once {number}", lambda: engine.post(crowd.order(), wait=False), 0.4)
            crowd.add(f"post all {number}", lambda: engine.post_all([crowd.order() for _ in range(3)]), 1.0)
        crowd.add("switch", lambda: engine.switch(Switched.RULE, "Thank", random.random() < 0.5), 0.1)
        crowd.add("apply", lambda: engine.apply(random.choice(programs)), 1.0)
        crowd.add("pause", lambda: _paused(engine), 0.2)
        crowd.add("ask", lambda: (engine.evaluate("Order"), engine.history("Approved")), 0.1)
        crowd.go()
        engine.stop()
        engine.advance_to(Machine().now_us() + 2_000_000)
        assert engine.reports == [], "the clock did not go back, though many moved it on"
        there = Counter(engine.history("Ordered").column("event_id").to_pylist())
    assert there == crowd.sent
    return crowd


def _answered(engine: LocalEngine, crowd: Crowd) -> None:
    answer = engine.notify(crowd.order())
    assert answer.seq is not None
    assert answer.returned == {"Order": 12}


def _paused(engine: LocalEngine) -> None:
    engine.stop()
    engine.start()


def test_nobody_waits_for_long(tmp_path: Path) -> None:
    crowd = crowded(tmp_path / "a.db", 4.0)
    assert set(crowd.waits) >= {"notify 0", "post 0", "post all 0", "switch", "apply"}


@pytest.mark.soak
def test_nobody_waits_for_long_in_minutes(tmp_path: Path) -> None:
    crowd = crowded(tmp_path / "a.db", 120.0)
    print({name: round(wait, 2) for name, wait in crowd.waits.items()}, len(crowd.sent))

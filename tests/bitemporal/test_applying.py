"""A program takes the place of another while an engine runs: what is kept, rebuilt, lost, refused; all or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from augury.engine.replacing import CannotChange, Change, Kind, State, What
from augury.environment import Machine
from augury.local.running import LocalEngine
from augury.local.store import tables as s
from augury.local.store.errors import StoreFailed, StoreMismatch
from augury.local.store.memory import MemoryStore
from augury.local.store.sql import SqlStore, open_store
from tests.bitemporal.stored import SECOND, START, program, tick_at
from tests.clocks import Read

ORDER = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, amount INT) ID (account) LIFESPAN (1d)
  ON CHANGE OR RETROACTIVECHANGE DO tell(new.account);
"""
PAID = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Paid (account INT) ID () LIFESPAN (1d);\n"
LARGE = """
CREATE COMPLEX EVENT CLASS Large (account INT, amount INT) ID (account) LIFESPAN (1d)
  AS SELECT account, amount FROM Order WHERE amount > 10 OCCURRING AT occTime ON ANNOUNCEMENT DO offer(new.account);
"""
SETTLED = """
CREATE COMPLEX EVENT CLASS Settled (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Order(account, _), Paid(account)) ON ANNOUNCEMENT DO thank(new.account);
"""
THEN = """
CREATE COMPLEX EVENT CLASS Next () ID () LIFESPAN (1d) AS COMPOSITE Order > Paid CONTEXT CHRONICLE;
"""
ON_LARGE = """
CREATE COMPLEX EVENT CLASS Both (account INT) ID (account) LIFESPAN (1d)
  AS MATCH prior(Large(account, _), Settled(account));
"""
TRIGGER = """
RULE Note (account INT) ACTION note(account);
TRIGGER Pays (account INT) TRIGGEREVENT Paid COMPOSITEEVENT Order > Paid CONTEXT CHRONICLE RULESTRUC Note(account);
"""


def posts(count: int = 12, after: int = 0) -> list[dict[str, Any]]:
    """Orders and payments of five accounts, one a third of a second."""
    found: list[dict[str, Any]] = []
    for n in range(after, after + count):
        det_time = (START + n * SECOND // 3) / SECOND
        if n % 3:
            found.append({"event": "Order", "det_time": det_time, "account": n % 5, "amount": 5 * n})
        else:
            found.append({"event": "Paid", "det_time": det_time, "account": n % 4})
    return found


def ran(engine: LocalEngine, events: Sequence[dict[str, Any]], until: int) -> None:
    engine.post_all(events)
    engine.advance_to(tick_at(until))


def histories(engine: LocalEngine) -> dict[str, list[dict[str, Any]]]:
    names = [plan.event_class.name for plan in engine.program.classes]
    return {name: engine.history(name).to_pylist() for name in names}


def actions(store: Any) -> list[tuple[str, str]]:
    if isinstance(store, MemoryStore):
        return [(a.name, a.idempotency_key) for ticked in store.ticks for a in ticked.action_rows()]
    return [(row["action"], row["idempotency_key"]) for row in store.log("actions").to_pylist()]


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        return None
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "s.db")


CHANGES = {
    "a SELECT comes": (ORDER + PAID, ORDER + PAID + LARGE),
    "a MATCH and a COMPOSITE come": (ORDER + PAID, ORDER + PAID + SETTLED + THEN),
    "one on another comes": (ORDER + PAID + LARGE, ORDER + PAID + LARGE + SETTLED + ON_LARGE),
    "a SELECT changes": (ORDER + PAID + LARGE, ORDER + PAID + LARGE.replace("> 10", "> 25")),
    "what another is built on changes": (
        ORDER + PAID + LARGE + SETTLED + ON_LARGE,
        ORDER + PAID + LARGE.replace("> 10", "> 25") + SETTLED + ON_LARGE,
    ),
    "one goes": (ORDER + PAID + LARGE + SETTLED, ORDER + PAID + SETTLED),
    "statements change": (ORDER + PAID + LARGE, ORDER.replace("tell(", "say(") + PAID + LARGE),
    "a subscribed class comes": (ORDER + LARGE, ORDER + LARGE + PAID),
    "the order changes": (ORDER + PAID + SETTLED + THEN, PAID + ORDER + THEN + SETTLED),
}


@pytest.mark.parametrize("name", CHANGES)
def test_it_is_as_if_the_program_had_always_been_so(place: Any, name: str) -> None:
    before, after = (program(text) for text in CHANGES[name])
    events = [one for one in posts() if one["event"] == "Order" or "Paid" in CHANGES[name][0]]
    with LocalEngine(before, place) as engine, LocalEngine(after) as always:
        ran(engine, events, 4)
        was = actions(engine._store)
        engine.apply(after)
        assert actions(engine._store) == was, "nothing fires for the past"
        ran(always, events, 4)
        assert histories(engine) == histories(always)
        later = posts(12, 12)
        ran(engine, later, 9)
        ran(always, later, 9)
        assert histories(engine) == histories(always)
        assert engine.reports == []


def test_a_store_goes_on_with_the_new_program(store_url: str) -> None:
    before, after = program(ORDER + PAID + LARGE), program(ORDER + PAID + LARGE.replace("> 10", "> 25") + SETTLED)
    with LocalEngine(before, store_url) as engine:
        ran(engine, posts(), 4)
        engine.apply(after)
        was = histories(engine)
    with pytest.raises(StoreMismatch, match="`Settled` is in the store and not in the program") as caught:
        LocalEngine(before, store_url)
    assert caught.value.sentences[-1].startswith("the program of a store that has ticks is changed by `augury apply`")
    with LocalEngine(after, store_url) as engine, LocalEngine(after) as always:
        assert histories(engine) == was
        assert engine.reports == []
        assert engine._store.program_text() == after.text  # type: ignore[attr-defined]
        ran(engine, posts(12, 12), 9)
        ran(always, posts(24), 9)
        assert histories(engine) == histories(always)


def test_what_a_class_had_found_is_put_aside(store_url: str) -> None:
    texts = [ORDER + LARGE.replace("> 10", f"> {least}") for least in (10, 25, 38)]
    with LocalEngine(program(texts[0]), store_url) as engine:
        ran(engine, [one for one in posts() if one["event"] == "Order"], 4)
        counts = [engine.history("Large").num_rows]
        for text in texts[1:]:
            engine.apply(program(text))
            counts.append(engine.history("Large").num_rows)
        store = engine._store
        assert isinstance(store, SqlStore)
        with store.database.readers().begin() as connection:
            former = connection.execute(sa.select(s.former.c.table_name, s.former.c["class"])).all()
            names = sorted(name for name, _ in former)
            assert [tuple(row) for row in former] == [(name, "Large") for name in names]
            found = [connection.exec_driver_sql(f'SELECT count(*) FROM "{name}"').scalar() for name in names]
            now = connection.exec_driver_sql('SELECT count(*) FROM "Large_now"').scalar()
    assert names == ["Large_before_1", "Large_before_2"]
    assert found == counts[:2]
    assert len(set(counts)) == 3
    assert now == 3


def test_a_class_that_goes_keeps_its_history_and_may_come_back(place: Any) -> None:
    both, one = program(ORDER + PAID + SETTLED), program(PAID)
    with LocalEngine(both, place) as engine, LocalEngine(both) as always:
        ran(engine, posts(), 4)
        was = engine.history("Order").to_pylist()
        changes = engine.apply(one)
        assert changes.of(Kind.CLASS)["order"] == Change(
            Kind.CLASS, "Order", What.REMOVED, State.LOST, "its history stays in the store"
        )
        with pytest.raises(KeyError):
            engine.history("Order")
        ran(engine, [event for event in posts(6, 12) if event["event"] == "Paid"], 6)
        changes = engine.apply(both)
        assert changes.of(Kind.CLASS)["order"].state is State.REBUILT
        assert engine.history("Order").to_pylist() == was
        ran(always, posts(), 4)
        ran(always, [event for event in posts(6, 12) if event["event"] == "Paid"], 6)
        assert histories(engine) == histories(always)


# ---- what plan says -------------------------------------------------------------------------------------------------


def said(engine: LocalEngine, text: str) -> dict[str, tuple[What, State]]:
    each = engine.plan(program(text)).each
    return {f"{one.kind} {one.name}": (one.what, one.state) for one in each if one.kind is not Kind.SETTING}


def test_the_plan_says_what_becomes_of_each_thing() -> None:
    text = ORDER + PAID + LARGE + SETTLED + ON_LARGE + TRIGGER
    with LocalEngine(program(text)) as engine:
        ran(engine, posts(), 4)
        assert engine.plan(program(text)).is_nothing
        assert engine.plan(program(text)).lines() == ["nothing changes"]
        assert set(said(engine, text).values()) == {(What.SAME, State.KEPT), (What.SAME, State.NONE)}
        other = said(engine, text.replace("> 10", "> 25"))
        assert other["class Large"] == (What.CHANGED, State.REBUILT)
        assert other["class Both"] == (What.SAME, State.REBUILT)
        assert other["class Settled"] == (What.SAME, State.KEPT)
        assert other["trigger Pays"] == (What.SAME, State.KEPT)
        other = said(engine, text.replace("note(account)", "jot(account)"))
        assert other["rule Note"] == (What.CHANGED, State.NONE)
        assert other["trigger Pays"] == (What.SAME, State.KEPT)
        other = said(engine, text.replace("CHRONICLE RULESTRUC", "RECENT RULESTRUC"))
        assert other["trigger Pays"] == (What.CHANGED, State.BEGINS)
        other = said(engine, ORDER + PAID)
        assert other["trigger Pays"] == (What.REMOVED, State.LOST)
        assert other["rule Note"] == (What.REMOVED, State.NONE)
        assert other["class Large"] == (What.REMOVED, State.LOST)
        more = "CREATE CLOCK EVENT CLASS Minute EVERY 1m;\nRULE GROUP Notes (Note);\nBIND note TO LOG;\n"
        other = said(engine, text + more)
        assert other["class Minute"] == (What.ADDED, State.BEGINS)
        assert other["group Notes"] == (What.ADDED, State.NONE)
        assert other["binding note"] == (What.ADDED, State.NONE)


def test_a_change_of_rules_only_does_not_go_over_the_history() -> None:
    text = ORDER + PAID + LARGE + TRIGGER
    with LocalEngine(program(text)) as engine:
        ran(engine, posts(), 4)
        assert not engine.plan(program(text.replace("note(account)", "jot(account)"))).replays
        assert not engine.plan(program(ORDER + PAID + LARGE)).replays
        assert engine.plan(program(text + SETTLED)).replays


REFUSED = {
    "attributes": (ORDER.replace("amount INT", "amount BIGINT"), "`Order` has the attributes (account int, amount"),
    "key": (ORDER.replace("ID (account)", "ID (amount)"), "`Order` has ID (account) in the store and ID (amount)"),
    "kind": (
        PAID.replace("Paid", "Extra")
        + "CREATE COMPLEX EVENT CLASS Order (account INT, amount INT) ID (account) LIFESPAN (1d)"
        + " AS MATCH Extra(account);",
        "`Order` is subscribed in the store and complex in the program",
    ),
    "chronon": ("SET CHRONON 5s;" + ORDER, "the store has ticks every 1s, and the program wants them every 5s"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_changed(place: Any, name: str) -> None:
    text, sentence = REFUSED[name]
    with LocalEngine(program(ORDER), place) as engine:
        ran(engine, [one for one in posts() if one["event"] == "Order"], 4)
        was = histories(engine)
        planned = engine.plan(program(text))
        assert [one.code for one in planned.refused] == ["E531"]
        assert sentence.lower() in planned.refused[0].message.lower()
        assert planned.refused[0].helps
        with pytest.raises(CannotChange, match=r"in the store|ticks every"):
            engine.apply(program(text))
        assert histories(engine) == was
        ran(engine, [one for one in posts(6, 12) if one["event"] == "Order"], 6)
        assert engine.history("Order").num_rows > len(was["Order"])


def test_a_class_without_history_may_be_declared_otherwise(store_url: str) -> None:
    with LocalEngine(program(ORDER + PAID), store_url) as engine:
        ran(engine, [one for one in posts() if one["event"] == "Order"], 4)
        engine.apply(program(ORDER + PAID.replace("account INT", "account BIGINT, how STRING")))
        engine.post({"event": "Paid", "det_time": tick_at(5) / SECOND, "account": 2**40, "how": "cash"})
        engine.advance_to(tick_at(7))
        [row] = engine.history("Paid").to_pylist()
    assert (row["account"], row["how"]) == (2**40, "cash")


RETAIN = "SET HISTORY RETAIN 1s;\n"
THIRD = """
CREATE COMPLEX EVENT CLASS Third (account INT, amount INT) ID () LIFESPAN (-1)
  AS COMPOSITE Order{3} PARTITION BY account CONTEXT CHRONICLE RETURN Order.account AS account, Order.amount AS amount
  ON ANNOUNCEMENT DO praise(new.account);
"""


def ordered(engine: LocalEngine, begin: int, end: int) -> None:
    for n in range(begin, end):
        engine.post({"event": "Order", "det_time": (START + n * SECOND) / SECOND, "account": n % 2, "amount": n})
        engine.advance_to(tick_at(n + 1))


def test_classes_that_stay_go_on_where_the_history_is_no_longer_whole(store_url: str, tmp_path: Path) -> None:
    before, after = program(RETAIN + ORDER + THIRD), program(RETAIN + ORDER + THIRD + LARGE)
    with LocalEngine(before, str(tmp_path / "undisturbed.db")) as undisturbed:
        ordered(undisturbed, 0, 60)
        wanted = histories(undisturbed)
    with LocalEngine(before, store_url, snapshot_versions_min=1) as engine:
        ordered(engine, 0, 40)
        left = engine.history("Order").num_rows
        assert left < 40
        planned = engine.plan(after)
        assert not planned.refused
        assert any("what SET HISTORY RETAIN has left" in line for line in planned.lines())
        changes = engine.apply(after)
        assert changes.of(Kind.CLASS)["third"].state is State.KEPT
        assert [row["amount"] for row in engine.history("Large").to_pylist()][-2:] == [38, 39]
        ordered(engine, 40, 50)
    # It goes on from what the store has kept, too.
    with LocalEngine(after, store_url, snapshot_versions_min=1) as engine:
        ordered(engine, 50, 60)
        found = histories(engine)
        assert [row["amount"] for row in found.pop("Large")][-2:] == [58, 59]
        assert found == wanted
        assert wanted["Third"]


def test_a_class_that_comes_back_without_its_history_is_refused(store_url: str) -> None:
    with LocalEngine(program(RETAIN + ORDER + PAID), store_url, snapshot_versions_min=1) as engine:
        ordered(engine, 0, 40)
        engine.apply(program(RETAIN + PAID))
        [refused] = engine.plan(program(RETAIN + ORDER + PAID)).refused
        assert "are left by SET HISTORY RETAIN" in refused.message
        engine.apply(program(RETAIN + PAID + TRIGGER_ON_PAID))
        assert len(engine.program.triggers) == 1


TRIGGER_ON_PAID = """
RULE Note (account INT) ACTION note(account);
TRIGGER Payments () TRIGGEREVENT Paid RULESTRUC Note(Paid.account);
"""


# ---- triggers -------------------------------------------------------------------------------------------------------

PAIRS = """
RULE Note (account INT) ACTION note(account);
TRIGGER {name} () TRIGGEREVENT Paid COMPOSITEEVENT Order > Paid CONTEXT CHRONICLE RULESTRUC Note(Order.account);
"""


def fired(engine: LocalEngine, name: str) -> list[tuple[int, list[int]]]:
    return [(row["number"], row["constituents"]) for row in engine.firings(name)]


def pair(engine: LocalEngine, second: int, *names: str) -> None:
    rows = [{"event": name, "account": 1} | ({"amount": 1} if name == "Order" else {}) for name in names]
    ran(engine, [{**row, "det_time": (tick_at(second) + i) / SECOND} for i, row in enumerate(rows)], second + 1)


@pytest.mark.parametrize("change", ["rules", "classes"])
def test_a_trigger_that_stays_keeps_what_waits_and_one_that_comes_sees_nothing_of_the_past(
    place: Any, change: str
) -> None:
    text = ORDER + PAID + PAIRS.format(name="Old")
    more = LARGE if change == "classes" else ""
    after = text + more + PAIRS.format(name="New").replace("RULE Note (account INT) ACTION note(account);", "")
    with LocalEngine(program(text), place) as engine:
        pair(engine, 1, "Order", "Order", "Paid", "Order")
        assert fired(engine, "old") == [(1, [1, 3])]
        changes = engine.apply(program(after))
        assert changes.replays is (change == "classes")
        assert changes.of(Kind.TRIGGER)["old"].state is State.KEPT
        assert changes.of(Kind.TRIGGER)["new"].state is State.BEGINS
        pair(engine, 2, "Paid", "Order", "Paid")
        assert fired(engine, "Old") == [(1, [1, 3]), (2, [2, 5]), (3, [4, 7])]
        assert fired(engine, "New") == [(1, [6, 7])]


def test_a_trigger_that_is_replaced_begins_anew_and_its_count_goes_on(place: Any) -> None:
    text = ORDER + PAID + PAIRS.format(name="Old")
    other = text.replace("CONTEXT CHRONICLE", "CONTEXT RECENT")
    with LocalEngine(program(text), place) as engine:
        pair(engine, 1, "Order", "Order", "Paid")
        engine.apply(program(other))
        pair(engine, 2, "Paid", "Order", "Paid")
        engine.apply(program(ORDER + PAID))
        pair(engine, 3, "Order", "Paid")
        engine.apply(program(text))
        pair(engine, 4, "Order", "Paid")
        assert fired(engine, "Old") == [(1, [1, 3]), (2, [5, 6]), (3, [9, 10])]


def test_a_torn_snapshot_does_not_let_a_new_trigger_see_the_past(store_url: str) -> None:
    text = ORDER + PAID
    after = text + PAIRS.format(name="New")
    with LocalEngine(program(text), store_url) as engine:
        pair(engine, 1, "Order", "Paid", "Order")
        engine.apply(program(after))
        pair(engine, 2, "Paid", "Order")
        store = engine._store
        assert isinstance(store, SqlStore)
        with store.writer.begin() as connection:
            connection.execute(s.snapshots.update().values(content=b"torn"))
    with LocalEngine(program(after), store_url) as engine:
        assert "no snapshot can be used" in engine.reports[-1]
        pair(engine, 3, "Paid")
        assert fired(engine, "New") == [(1, [5, 6])]


# ---- all or nothing -------------------------------------------------------------------------------------------------


def test_an_apply_that_fails_leaves_all_as_it_was(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = program(ORDER + PAID + LARGE), program(ORDER + PAID + LARGE.replace("> 10", "> 25") + SETTLED)
    with LocalEngine(before, store_url) as engine:
        ran(engine, posts(), 4)
        was = histories(engine)

        def fails(*_: Any) -> None:
            raise sa.exc.OperationalError("INSERT", {}, OSError("no space"))

        monkeypatch.setattr("augury.local.store.sql._keep", fails)
        with pytest.raises(StoreFailed):
            engine.apply(after)
        monkeypatch.undo()
        assert histories(engine) == was
        assert engine.program is before
        ran(engine, posts(3, 12), 6)
    with LocalEngine(before, store_url) as engine:
        engine.apply(after)
    with LocalEngine(after, store_url) as engine, LocalEngine(after) as always:
        ran(always, posts(15), 6)
        assert histories(engine) == histories(always)


@contextmanager
def answers_lost(engine: LocalEngine, *, then_gone: bool) -> Iterator[None]:
    """What the store commits is kept, and the answer is lost; then, perhaps, it cannot be reached at all."""
    store: Any = engine._store
    dialect = store.writer.dialect
    commit, begin = dialect.do_commit, dialect.do_begin
    broken = dialect.dbapi.OperationalError("the connection was closed unexpectedly")
    lost: list[bool] = []

    def loses(connection: Any) -> None:
        commit(connection)
        if not lost:
            lost.append(True)
            raise broken

    def gone(connection: Any) -> None:
        if lost and then_gone:
            raise broken
        begin(connection)

    dialect.do_commit, dialect.do_begin = loses, gone
    try:
        yield
    finally:
        dialect.do_commit, dialect.do_begin = commit, begin


@pytest.mark.parametrize("then_gone", [False, True])
def test_an_apply_whose_answer_is_lost_is_found_out(store_url: str, then_gone: bool) -> None:
    before, after = program(ORDER + PAID + LARGE), program(ORDER + PAID + LARGE.replace("> 10", "> 25") + SETTLED)
    with LocalEngine(before, store_url) as engine, LocalEngine(after) as always:
        ran(engine, posts(), 4)
        with answers_lost(engine, then_gone=then_gone):
            if then_gone:
                with pytest.raises(StoreFailed):
                    engine.apply(after)
                with pytest.raises(StoreFailed):  # it is not known which program to go on with
                    engine.advance_to(tick_at(5))
                assert engine.program is before
            else:
                assert {one.name for one in engine.apply(after).each if one.what != "same"} == {"Large", "Settled"}
        later = posts(12, 12)
        ran(engine, later, 9)
        assert engine.program is after
        ran(always, posts(), 4)
        ran(always, later, 9)
        assert histories(engine) == histories(always)
    with LocalEngine(after, store_url) as engine, LocalEngine(after) as always:
        ran(always, [*posts(), *later], 9)
        assert histories(engine) == histories(always)


KILLED = """
import os, signal, sys
from augury.local.store import sql
from tests.bitemporal.test_applying import AFTER, BEFORE, posts, ran
from tests.bitemporal.stored import program
from augury.local.running import LocalEngine

url, when = sys.argv[1:]
engine = LocalEngine(program(BEFORE), url)
ran(engine, posts(), 4)
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if when == "before":
    sql._keep = kill
engine.apply(program(AFTER))
kill()
"""
BEFORE, AFTER = ORDER + PAID + LARGE, ORDER + PAID + LARGE.replace("> 10", "> 25") + SETTLED


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_leaves_the_old_or_the_new_program(store_url: str, when: str) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), store_url, when], check=False, env=env)
    assert run.returncode == -signal.SIGKILL
    is_there, is_not = (AFTER, BEFORE) if when == "after" else (BEFORE, AFTER)
    with pytest.raises(StoreMismatch):
        open_store(store_url, program(is_not))
    with LocalEngine(program(is_there), store_url) as engine, LocalEngine(program(is_there)) as always:
        ran(always, posts(), 4)
        assert histories(engine) == histories(always)


def test_a_torn_snapshot_is_worked_out_again_under_the_program_of_now(store_url: str) -> None:
    with LocalEngine(program(BEFORE), store_url) as engine:
        ran(engine, posts(), 4)
        engine.apply(program(AFTER))
        store = engine._store
        assert isinstance(store, SqlStore)
        with store.writer.begin() as connection:
            connection.execute(s.snapshots.update().values(content=b"torn"))
    with LocalEngine(program(AFTER), store_url) as engine, LocalEngine(program(AFTER)) as always:
        assert engine.reports == [
            "the snapshot of 2026-01-01T09:00:04Z is damaged (its content does not have the checksum that was noted "
            "with it)",
            "no snapshot can be used: all ticks are worked out again, from the first",
        ]
        ran(always, posts(24), 9)
        ran(engine, posts(12, 12), 9)
        assert histories(engine) == histories(always)


def test_posts_that_wait_are_read_by_the_new_program(place: Any) -> None:
    with LocalEngine(program(ORDER + PAID), place) as engine:
        ran(engine, posts(3), 1)
        engine.post({"event": "Paid", "det_time": tick_at(2) / SECOND, "account": 1})
        engine.post({"event": "Order", "det_time": tick_at(2) / SECOND, "account": 9, "amount": 50})
        engine.apply(program(ORDER + LARGE))
        [ticked] = [one for one in engine.advance_to(tick_at(3)) if one.read]
        assert [one.event_class.name for one in ticked.read] == ["Order"]
        assert len(ticked.rejected) == 1
        assert engine.history("Large").to_pylist()[-1]["account"] == 9


# ---- in the middle of a chronon -------------------------------------------------------------------------------------


def test_a_chronon_that_is_half_read_is_read_to_its_end_by_the_program_of_then(place: Any) -> None:
    text = ORDER + PAID + PAIRS.format(name="Old")
    with LocalEngine(program(text), place) as engine:
        answer = engine.notify({"event": "Order", "det_time": tick_at(1) / SECOND, "account": 1, "amount": 20})
        assert answer.seq == 1
        paid = engine.notify({"event": "Paid", "det_time": (tick_at(1) + 1) / SECOND, "account": 1})
        assert [fired.firing.trigger for fired in paid.firings] == ["Old"]
        ticks = [engine.tick]
        engine.apply(program(ORDER + PAID + LARGE))
        assert [*ticks, engine.tick] == [None, tick_at(2)]
        assert engine.history("Paid").num_rows == 1
        assert engine.history("Large")["account"].to_pylist() == [1]


def test_an_engine_with_a_clock_waits_for_the_end_of_the_chronon(place: Any) -> None:
    began = time.time_ns() // 1000
    with LocalEngine(program(ORDER), place, environment=Machine()) as engine:
        engine.start()
        engine.notify({"event": "Order", "account": 1, "amount": 20})
        engine.apply(program(ORDER + LARGE))
        assert engine.tick is not None
        assert engine.tick <= time.time_ns() // 1000
        assert engine.tick > began
        assert engine.history("Large").num_rows == 1


def test_nobody_is_kept_waiting_for_the_end_of_a_long_chronon(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often others read on before an apply comes by, it holds them up for a moment only."""
    now, hour, order = [START], 3_600 * SECOND, {"event": "Order", "account": 1, "amount": 20}
    with LocalEngine(program("SET CHRONON 1h;" + ORDER), environment=Read(lambda: now[0])) as engine:
        slept: list[tuple[int, bool]] = []

        def sleep(_: LocalEngine, microseconds: int) -> None:
            free: list[bool] = []

            def look() -> None:
                free.append(engine._working.acquire(blocking=False))
                if free[0]:
                    engine._working.release()

            asking = threading.Thread(target=look)
            asking.start()
            asking.join()
            slept.append((microseconds, free[0]))
            if len(slept) <= 4:  # another is quicker, and reads on in the next chronon
                now[0] = (now[0] // hour + 1) * hour + SECOND
                engine.notify(order)
            else:
                now[0] += microseconds

        monkeypatch.setattr("augury.local.applying._sleep", sleep)
        engine.notify(order)
        engine.apply(program("SET CHRONON 1h;" + ORDER + LARGE))
        assert engine.history("Large").num_rows == 5, "an order each"
    *long, last = slept
    assert [free for _, free in long] == [True] * 5, "nobody is held up while it waits"
    assert (last[1], last[0] <= 3_200_000) == (False, True), "and at the end for a moment"

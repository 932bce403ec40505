"""What stores keep of triggers: firings in tables of their own, posts that wait, values, switches; all or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from augury.algebra.program import Program
from augury.engine.ports import Adoption, Store
from augury.engine.ticked import Action, FiredTrigger, Ticked
from augury.kernels.firing import Call, Done, Firing, Outcome, Posted, Refusal, Switched, Turned
from augury.local.store.errors import AlreadyCommitted, NoSuchTrigger, StoreFailed
from augury.local.store.memory import MemoryStore
from augury.local.store.outbox import open_outbox
from augury.local.store.sql import SqlStore, open_store
from augury.local.store.waiting import Wanted
from tests.bitemporal.stored import START, TickedActing, program, tick_at

CLAIMS = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount NUMERIC(10,2), due TIMESTAMP) ID () LIFESPAN (30d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount NUMERIC(10,2), due TIMESTAMP) ID (account)
  LIFESPAN (30d);
RULE Approve (account INT, amount NUMERIC(10,2), due TIMESTAMP)
  CONDITION amount <= 1000
  ACTION approve(account, due), POST Approved(account, amount, due)
  ALTERNATIVEACTION escalate(account, due - NOW);
RULE Note (n INT) ACTION note(n);
RULE GROUP Paying (Approve, Note);
TRIGGER Pay (account INT, amount NUMERIC(10,2), due TIMESTAMP)
  TRIGGEREVENT Claim
  COMPOSITEEVENT Claim > Claim CONTEXT CHRONICLE
  RULESTRUC Note(account) > Approve(account, amount, due)
  RETURNS TIMESTAMP : Approve;
TRIGGER Odd (`seq` INT, `tick` NUMERIC(10,2), calls TIMESTAMP) TRIGGEREVENT Claim RULESTRUC Note(`seq`);
"""
DUE = START + 90_000_000


def pay(number: int, *, amount: str = "900.00") -> FiredTrigger:
    """A firing of Pay whose first rule is disabled; the second holds up to a thousand."""
    held = Decimal(amount) <= 1000
    values = (7, Decimal(amount), DUE)
    deeds = (
        (Done("approve", (7, DUE), 12), Posted("Approved", values, START, 4, None))
        if held
        else (Done("escalate", (7, 90_000_000), failure="nobody is there"),)
    )
    calls = (
        Call("Note", Outcome.DISABLED),
        Call("Approve", Outcome.HELD if held else Outcome.NOT_HELD, values, deeds, DUE if held else None),
    )
    constituents = (number, number + 1)
    firing = Firing(
        "Pay", "Claim", number + 1, START + number, tick_at(1), constituents, values, calls, DUE if held else None
    )
    return FiredTrigger(number, "Claim", {}, firing)


def odd(number: int, *values: Any) -> FiredTrigger:
    """A firing of Odd by the clock, without a value."""
    calls = (Call("Note", Outcome.STOPPED),)
    return FiredTrigger(number, "Claim", {"k": "ü\0"}, Firing("Odd", None, None, START, START, (), values, calls))


@contextmanager
def opened(where: str, url: str) -> Iterator[Any]:
    of = program(CLAIMS)
    if where == "memory":
        yield MemoryStore(of)
        return
    with open_store(url, of) as store:
        yield store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else str(tmp_path / "s.db")
    with opened(request.param, url) as found:
        yield found


def test_nothing_is_there_at_first(store: Store) -> None:
    assert store.posts_pending() == ()
    assert store.remembered() == {}
    assert store.switched() == []
    assert store.firing_counts() == {}


def test_firings_come_back_by_number(store: Any) -> None:
    store.commit([Ticked(tick_at(1), 2, firings=(pay(1), odd(1, 3, Decimal("0.10"), DUE), pay(2, amount="1000.01")))])
    store.commit([Ticked(tick_at(2), 2, firings=(pay(3), odd(2, None, None, None)))])
    assert store.firing_counts() == {"Pay": 3, "Odd": 2}
    first, second = store.firings("pay", limit=2)
    due = datetime(2026, 1, 1, 9, 1, 30, tzinfo=UTC)
    assert first == {
        "number": 1,
        "tick": datetime(2026, 1, 1, 9, 0, 1, tzinfo=UTC),
        "det_time": datetime(2026, 1, 1, 9, 0, 0, 1, tzinfo=UTC),
        "now": datetime(2026, 1, 1, 9, 0, 1, tzinfo=UTC),
        "event": "Claim",
        "key": {},
        "seq": 2,
        "constituents": [1, 2],
        "account": 7,
        "amount": Decimal("900.00"),
        "due": due,
        "returned": "2026-01-01T09:01:30Z",
        "calls": [
            {"rule": "Note", "outcome": "disabled", "arguments": [], "deeds": [], "value": None},
            {
                "rule": "Approve",
                "outcome": "held",
                "arguments": [7, Decimal("900.00"), "2026-01-01T09:01:30Z"],
                "deeds": [
                    {"action": "approve", "arguments": [7, "2026-01-01T09:01:30Z"], "value": 12, "failure": None},
                    {
                        "post": "Approved",
                        "values": {"account": 7, "amount": Decimal("900.00"), "due": "2026-01-01T09:01:30Z"},
                        "seq": 4,
                        "refused": None,
                    },
                ],
                "value": DUE,
            },
        ],
    }
    assert list(first)[8:11] == ["account", "amount", "due"]
    [_, call] = second["calls"]
    assert (second["returned"], call["outcome"]) == (None, "not held")
    assert call["deeds"] == [
        {"action": "escalate", "arguments": [7, "90s"], "value": None, "failure": "nobody is there"}
    ]
    assert [row["number"] for row in store.firings("Pay", 1)] == [2, 3]
    assert store.firings("Pay", 3) == []
    [clock, nulls] = store.firings("Odd")
    assert (clock["seq"], clock["tick"], clock["calls"]) == (3, Decimal("0.10"), due)
    assert (clock["seq_"], clock["key"], clock["constituents"]) == (None, {"k": "ü\0"}, [])
    assert clock["calls_"] == [{"rule": "Note", "outcome": "stopped", "arguments": [], "deeds": [], "value": None}]
    assert (nulls["seq"], nulls["tick"], nulls["calls"]) == (None, None, None)
    with pytest.raises(NoSuchTrigger, match="the store has no trigger `Play`") as caught:
        store.firings("Play")
    assert caught.value.meant == "Pay"


def test_a_refused_post_says_why(store: Any) -> None:
    posted = Posted("Approved", (None, None, None), START, None, Refusal.NO_KEY)
    call = Call("Approve", Outcome.HELD, (None, None, None), (Done("approve", (None, None)), posted))
    firing = Firing("Pay", "Claim", 1, START, START, (1,), (None, None, None), (call,))
    store.commit([Ticked(tick_at(1), 1, firings=(FiredTrigger(1, "Claim", {}, firing),))])
    [row] = store.firings("Pay")
    assert row["calls"][0]["deeds"][1]["refused"] == "no key"


def test_posts_of_the_last_tick_wait_for_the_next(store: Store) -> None:
    store.commit([Ticked(tick_at(1), 0, posts=("a", "b")), Ticked(tick_at(2), 0, posts=('{"x": "ä\\u0000"}', "d"))])
    assert store.posts_pending() == ('{"x": "ä\\u0000"}', "d")
    store.commit([])
    assert len(store.posts_pending()) == 2
    store.commit([Ticked(tick_at(3), 0)])
    assert store.posts_pending() == ()


def test_what_is_remembered_goes_with_the_next_tick(store: Store) -> None:
    store.remember({"1 Pay": "3", "2 Pay": "null"})
    store.remember({})
    store.remember({"2 Pay": '"\\u0000"', "3 Pay": "4"})
    assert store.remembered() == {"1 Pay": "3", "2 Pay": '"\\u0000"', "3 Pay": "4"}
    store.commit([])
    assert len(store.remembered()) == 3
    store.commit([Ticked(tick_at(1), 0)])
    assert store.remembered() == {}


def test_switches_stay_in_order(store: Store) -> None:
    turned = [
        Turned(0, None, Switched.RULE, "Note", False),
        Turned(3, tick_at(1), Switched.TRIGGER, "Pay", False),
        Turned(3, tick_at(1) + 7, Switched.RULE, "Note", True),
    ]
    store.switch(turned[0])
    store.commit([Ticked(tick_at(1), 0)])
    store.switch(turned[1])
    store.switch(turned[2])
    assert store.switched() == turned


def test_a_refused_commit_leaves_all_as_it_was(store: Any) -> None:
    store.commit([Ticked(tick_at(1), 0, firings=(pay(1),), posts=("p",))])
    store.remember({"c": "1"})
    with pytest.raises(AlreadyCommitted):
        store.commit([Ticked(tick_at(1), 0, firings=(pay(2),))])
    assert (store.posts_pending(), store.remembered(), store.firing_counts()) == (("p",), {"c": "1"}, {"Pay": 1})


def test_a_failed_commit_leaves_all_as_it_was(store_url: str) -> None:
    with open_store(store_url, program(CLAIMS)) as store:
        store.commit([Ticked(tick_at(1), 0, firings=(pay(1),), posts=("p",))])
        store.remember({"c": "1"})
        with pytest.raises(StoreFailed):
            store.commit([Ticked(tick_at(2), 0, firings=(pay(2), pay(1)), posts=("q",))])
        assert store.last_tick() == tick_at(1)
    with open_store(store_url, read_only=True) as reader:
        assert (reader.posts_pending(), reader.remembered()) == (("p",), {"c": "1"})
        assert [row["number"] for row in reader.firings("Pay")] == [1]


def test_it_is_all_there_after_opening_again(store_url: str) -> None:
    with open_store(store_url, program(CLAIMS)) as store:
        store.commit([Ticked(tick_at(1), 0, firings=(pay(1), pay(2)), posts=("p",))])
        store.remember({"c": "1"})
        store.switch(Turned(2, tick_at(1), Switched.GROUP, "Paying", False))
        was = store.firings("Pay")
    with open_store(store_url, program(CLAIMS)) as store:
        assert store.firings("Pay") == was
        assert store.firing_counts() == {"Pay": 2}
        assert (store.posts_pending(), store.remembered()) == (("p",), {"c": "1"})
        assert store.switched() == [Turned(2, tick_at(1), Switched.GROUP, "Paying", False)]


def test_actions_of_rules_name_trigger_and_rule(store_url: str) -> None:
    action = Action("approve", (7,), "Claim", {}, tick_at(1), 0, 1, 2, "k1", "Pay", "Approve")
    plain = Action("tell", (7,), "Claim", {}, tick_at(1), 1, 1, 2, "k2")
    ticked = TickedActing(tick_at(1), 2, firings=(pay(1),), given=(action, plain))
    with open_store(store_url, program(CLAIMS)) as store:
        store.commit([ticked])
        rows = store.log("actions").to_pylist()
    assert [(row["statement"], row["trigger"], row["rule"]) for row in rows] == [(0, "Pay", "Approve"), (1, None, None)]
    outbox = open_outbox(store_url, alone=False)
    listed = [(one.action.action, one.action.trigger, one.action.rule) for one in outbox.listed(Wanted())]
    outbox.close()
    assert listed == [("approve", "Pay", "Approve"), ("tell", None, None)]


# ---- tables and the catalogue ---------------------------------------------------------------------------------------


def query(store: SqlStore, text: str) -> list[tuple[Any, ...]]:
    with store.database.readers().begin() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(text)]


def test_a_table_is_called_like_its_trigger(store_url: str) -> None:
    with open_store(store_url, program(CLAIMS)) as store:
        store.commit([Ticked(tick_at(1), 2, firings=(pay(1),))])
        [(account, calls)] = query(store, 'SELECT account, calls FROM "Pay" WHERE "number" = 1')
        assert account == 7
        assert [call["rule"] for call in json.loads(calls)] == ["Note", "Approve"]
        assert query(store, "SELECT trigger, position, table_name FROM augury_triggers ORDER BY position") == [
            ("Pay", 1, "Pay"),
            ("Odd", 2, "Odd"),
        ]
        assert query(store, "SELECT rule, position FROM augury_rules ORDER BY position") == [
            ("Approve", 1),
            ("Note", 2),
        ]
        assert query(store, "SELECT rule_group, rule FROM augury_groups ORDER BY position") == [
            ("Paying", "Approve"),
            ("Paying", "Note"),
        ]
        columns = [row for row in store.log("catalogue").to_pylist() if row["class"] == "Odd"]
        assert [(row["column"], row["name"]) for row in columns if row["role"] == "parameter"] == [
            ("seq", "seq"),
            ("tick", "tick"),
            ("calls", "calls"),
        ]
        assert ("seq_", "seq") in [(row["column"], row["name"]) for row in columns if row["role"] == "system"]
        told = [row for row in store.log("catalogue").to_pylist() if row["column"] is None and row["role"] != "class"]
        rules = [row for row in told if row["kind"] in ("rule", "group")]
        assert [(row["kind"], row["class"], row["name"]) for row in rules] == [
            ("rule", "Approve", None),
            ("rule", "Note", None),
            ("group", "Paying", "Approve"),
            ("group", "Paying", "Note"),
        ]
        assert rules[0]["meaning"].startswith("rule Approve")
        assert [row["class"] for row in told if row["kind"] == "trigger"] == ["Pay", "Odd"]
        assert [row["meaning"] for row in told if row["name"] == "chronon"] == ["1s"]


NAMED = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT) ID () LIFESPAN (30d);
RULE Note (account INT) ACTION note(account);
TRIGGER {name} ({parameters}) TRIGGEREVENT Claim RULESTRUC Note({first});
"""


def test_tables_of_triggers_avoid_all_other_names(store_url: str) -> None:
    odd = ("Claim", "Claim_now", "`augury_ticks`", '`100 %s "x"`', "x" * 80)
    programs = [program(NAMED.format(name=name, parameters="account INT", first="account")) for name in odd]
    with open_store(store_url, programs[0]) as store:
        for number, of in enumerate(programs, 1):
            store.adopt(Adoption(of))
            [trigger] = of.triggers
            calls = (Call("Note", Outcome.DISABLED),)
            firing = Firing(trigger.name, "Claim", 1, START, START, (1,), (5,), calls)
            store.commit([Ticked(tick_at(number), 1, firings=(FiredTrigger(1, "Claim", {}, firing),))])
            assert [row["account"] for row in store.firings(trigger.name)] == [5]
    with open_store(store_url, read_only=True) as reader:
        assert len(reader.firing_counts()) == 5
        assert reader.firings("claim")[0]["account"] == 5


def test_other_parameters_are_other_columns_and_old_ones_stay(store_url: str) -> None:
    def fired(number: int, *values: Any) -> Ticked:
        firing = Firing("Pay", "Claim", 1, START, START, (1,), values, (Call("Note", Outcome.DISABLED),))
        return Ticked(tick_at(number), 1, firings=(FiredTrigger(number, "Claim", {}, firing),))

    def of(parameters: str) -> Program:
        text = NAMED.format(name="Pay", parameters=parameters, first="1")
        return program(text.replace("Claim (account INT)", "Claim (x INT, y INT)"))

    first, second = of("a INT, b INT"), of("b BIGINT, tick INT")
    with open_store(store_url, first) as store:
        store.commit([fired(1, 1, 2)])
        store.adopt(Adoption(second))
        store.commit([fired(2, 2**40, 3)])
        assert [(row["number"], row["b"], row["tick"]) for row in store.firings("Pay")] == [
            (1, None, None),
            (2, 2**40, 3),
        ]
        store.adopt(Adoption(first))
        store.commit([fired(3, 4, None)])
    with open_store(store_url, read_only=True) as reader:
        assert [(row["a"], row["b"]) for row in reader.firings("Pay")] == [(1, 2), (None, None), (4, None)]
        columns = [row for row in reader.log("catalogue").to_pylist() if row["kind"] == "trigger" and row["column"]]
    assert sorted((row["name"], row["role"]) for row in columns if row["role"] != "system") == [
        ("a", "parameter"),
        ("b", "former"),
        ("b", "parameter"),
        ("tick", "former"),
    ]

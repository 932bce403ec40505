"""Triggers on the engine, as the reference has them: worked cases, random programs, steps of any size, states as bytes.

And in process: events that somebody waits for, switches, crashes at any moment, functions that are called once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from itertools import zip_longest
from random import Random
from threading import Barrier
from typing import Any, cast

import pytest

from augury.algebra.scalar import Value
from augury.api import check, compile
from augury.clock import microseconds_of
from augury.engine.snapshot import loaded_state, saved_state
from augury.kernels.firing import Switch, Switched, Turn
from augury.local.posts import PostRefused
from augury.local.running import LocalEngine
from augury.local.store.memory import MemoryStore
from tests.bitemporal.corpus import json_of
from tests.clocks import Clock, Read
from tests.triggers.corpus import FUNCTIONS, Case, cases, program_of, raws_of, turns_of, until_of
from tests.triggers.engines import DEPTH_MAX, Driven, difference
from tests.triggers.generate import Generated, generate
from tests.triggers.test_reference import reference

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_case_of_the_contract(case: Case) -> None:
    program, expected = program_of(case), reference(case)
    for seed in (None, 1):
        driven = Driven(
            program, FUNCTIONS, turns_of(case), case.get("depth", DEPTH_MAX), None if seed is None else Random(seed)
        )
        driven.run(program, raws_of(case, program), until_of(case))
        assert not difference(expected, driven.ticked), (case["title"], seed)


@pytest.mark.parametrize("block", [*range(4), *(pytest.param(n, marks=pytest.mark.soak) for n in range(4, 100))])
def test_random_programs_in_steps_of_any_size(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        made = generate(seed)
        expected = made.run()
        for random in (None, Random(seed)):
            driven = Driven(made.program, made.functions, made.turns, made.depth_max, random)
            driven.run(made.program, made.raws, made.until)
            assert not difference(expected, driven.ticked), f"{seed}\n{made.text}"


class Saving(Driven):
    """An engine whose state goes through bytes after every tick."""

    def _chronon(self, *arguments: object) -> None:
        super()._chronon(*arguments)  # type: ignore[arg-type]
        pending = self.state.triggers.pending
        self.state = loaded_state(self.plan, saved_state(self.plan, self.state))
        self.state.triggers.pending = pending  # the store keeps what a tick left for the next


def test_states_go_through_bytes() -> None:
    for seed in range(25):
        made = generate(seed)
        driven = Saving(made.program, made.functions, made.turns, made.depth_max)
        driven.run(made.program, made.raws, made.until)
        assert not difference(made.run(), driven.ticked), f"{seed}\n{made.text}"


# ---- in process -------------------------------------------------------------------------------------


class Life:
    """An engine that is posted to, waited for, switched, and that crashes, as a seed has it."""

    def __init__(self, made: Generated, seed: int) -> None:
        self.made, self.random = made, Random(f"life {seed}")
        self.store = MemoryStore(made.program)
        self.now = min(raw.det_time or 0 for raw in made.raws)
        self.turns: list[Turn] = []
        self.crashes = self.answers = 0
        self.engine = self._opened()

    def _opened(self) -> LocalEngine:
        made = self.made
        snapshot = self.random.choice([1, 20_000])
        return LocalEngine(
            made.program,
            self.store,
            environment=Read(lambda: self.now),
            functions=made.functions,
            post_depth_max=made.depth_max,
            snapshot_versions_min=snapshot,
        )

    def run(self) -> None:
        raws = sorted(self.made.raws, key=lambda raw: raw.det_time or 0)
        for raw, after in zip_longest(raws, raws[1:]):
            assert raw.det_time is not None
            self.now = raw.det_time
            try:
                if self.random.random() < 0.5:
                    answer = self.engine.notify(json_of(self.made.program, raw))
                    self.answers += answer.seq is not None
                else:
                    self.engine.post(json_of(self.made.program, raw))
            except PostRefused:
                continue
            # A switch at a time comes before all that is detected then.
            self._live(may_switch=after is None or after.det_time != self.now)
        self.engine.advance_to(self.made.until)

    def _live(self, *, may_switch: bool) -> None:
        match self.random.randrange(5):
            case 0:
                self.engine = self._opened()  # the one before has crashed
                self.crashes += 1
            case 1 if may_switch:
                self._switch()
            case 2:
                self.engine.advance_to(self.now)
            case _:
                pass

    def _switch(self) -> None:
        program = self.made.program
        names = {
            Switched.RULE: [rule.name for rule in program.rules],
            Switched.GROUP: list(program.groups),
            Switched.TRIGGER: [trigger.name for trigger in program.triggers],
        }
        kind = self.random.choice([kind for kind, some in names.items() if some])
        name, on = self.random.choice(names[kind]), self.random.random() < 0.5
        self.engine.switch(kind, name, on)
        self.turns.append(Switch(self.now + 1, kind, name, on))
        self.now += 1


@pytest.mark.parametrize("block", [*range(3), *(pytest.param(n, marks=pytest.mark.soak) for n in range(3, 100))])
def test_crashes_and_switches_at_any_moment(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * 20, block * 20 + 20):
        made = generate(seed, turns=False)
        life = Life(made, seed)
        life.run()
        expected = replace(made, turns=tuple(life.turns)).run()
        assert not difference(expected, life.store.ticks), f"{seed}\n{made.text}"
        seen.update(crashes=life.crashes, turns=len(life.turns), answers=life.answers, firings=len(expected.firings))
    assert min(seen.values()) > 20, seen


CLAIMS = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount INT) ID () LIFESPAN (30d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID (account) LIFESPAN (30d);
CREATE COMPLEX EVENT CLASS Paid (A INT) ID (A) AS MATCH prior(Claim(A, _), Approved(A, _));
RULE Ask (account INT, amount INT) ACTION ask(account, amount);
RULE Pay (account INT, amount INT, limit INT) CONDITION amount <= limit
  ACTION pay(account, amount), POST Approved(account, amount) ALTERNATIVEACTION refuse(account);
TRIGGER Claimed (account INT, amount INT) TRIGGEREVENT Claim
  RULESTRUC Ask(account, amount) > Pay(account, amount, RETURNED(Ask)) RETURNS int : Pay;
"""


def claim(account: int, amount: int, **more: object) -> dict[str, object]:
    return {"event": "Claim", "account": account, "amount": amount, **more}


class Bank:
    """Functions that remember how often they were called."""

    def __init__(self, text: str = CLAIMS) -> None:
        self.program = compile(text)
        self.asked: list[int] = []
        self.allows: Any = 1000
        self.now = 1_700_000_000_000_000

    def ask(self, account: int, amount: int) -> Value:
        self.asked.append(account)
        if account == 13:
            raise LookupError("nobody has this account")
        return cast(Value, self.allows)

    def pay(self, account: int, amount: int) -> Value:
        return amount * 100

    def engine(self, store: MemoryStore | None = None) -> LocalEngine:
        functions = {"ask": self.ask, "pay": self.pay}
        return LocalEngine(self.program, store, environment=Read(lambda: self.now), functions=functions)


def test_whoever_waits_hears_what_came_of_it() -> None:
    engine = Bank().engine()
    answer = engine.notify(claim(7, 900))
    assert (answer.seq, answer.refused, answer.is_absorbed) == (1, None, False)
    assert answer.returned == {"Claimed": 90_000}
    (fired,) = answer.firings
    assert [str(call.outcome) for call in fired.firing.calls] == ["held", "held"]
    assert [call.value for call in fired.firing.calls] == [1000, 90_000]
    (line,) = answer.occurrences
    assert '"event": "Paid", "change": "announce", "seq": 2' in line
    assert not fired.actions, "both were called at once"
    more = engine.notify(claim(7, 5000))
    assert more.returned == {"Claimed": None}
    assert [action.name for one in more.firings for action in one.actions] == ["refuse"]


def test_a_failing_function_stops_its_structure_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    bank = Bank()
    engine = bank.engine()
    answer = engine.notify(claim(13, 1))
    (fired,) = answer.firings
    first, second = fired.firing.calls
    assert first.failed
    assert "LookupError: nobody has this account" in str(first.deeds[0])
    assert str(second.outcome) == "stopped"
    assert answer.returned == {"Claimed": None}
    engine.advance_to(bank.now + 1_000_000)
    said = "rule `Ask` of trigger `Claimed`, firing 1: ask failed: LookupError: nobody has this account"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_duplicate_and_a_refusal_are_told() -> None:
    engine = Bank().engine()
    assert engine.notify(claim(1, 1, event_id="a")).seq == 1
    again = engine.notify(claim(1, 1, event_id="a"))
    assert (again.seq, again.is_absorbed) == (None, True)
    refused = engine.notify({"event": "Approved", "account": 1, "amount": 3})
    assert refused.seq is None
    assert refused.refused == '`Approved` is immutable, and {"account": 1} is already there since seq 2'
    with pytest.raises(PostRefused, match="amount"):
        engine.notify({"event": "Claim", "account": 1, "amount": "much"})


def test_calls_are_made_once_though_the_engine_crashes() -> None:
    bank, store = Bank(), MemoryStore(compile(CLAIMS))
    first = bank.engine(store).notify(claim(7, 900))
    bank.now += 10
    again = bank.engine(store)
    assert bank.asked == [7]
    assert again.notify(claim(8, 10)).seq == 3
    assert bank.asked == [7, 8]
    bank.now += 1_000_000
    again.advance_to(bank.now)
    assert [row["number"] for row in again.firings("Claimed")] == [1, 2]
    assert first.returned == {"Claimed": again.firings("Claimed")[0]["returned"]}


def test_what_was_acknowledged_before_the_first_tick_keeps_its_time_though_the_engine_crashes() -> None:
    bank, store = Bank(), MemoryStore(compile(CLAIMS))
    first = bank.engine(store)
    first.start()
    first.stop()
    bank.now += 700_000
    first.post(claim(7, 900))
    bank.now += 3_000_000
    second = bank.engine(store)
    second.start()
    second.stop()
    assert second.notify(claim(8, 10)).seq == 3
    third = bank.engine(store)
    bank.now += 2_000_000
    third.advance_to(bank.now)
    early, other = third.history("Claim").to_pylist()
    assert microseconds_of(early["det_time"]) == 1_700_000_000_700_000
    assert (early["source_time"], microseconds_of(early["tick"])) == (None, 1_700_000_001_000_000)
    assert (microseconds_of(other["det_time"]), other["seq"]) == (1_700_000_003_700_000, 3)


def test_from_when_on_the_clock_was_followed_is_known_after_a_crash() -> None:
    bank, store = Bank(), MemoryStore(compile(CLAIMS))
    first = bank.engine(store)
    first.start()
    first.stop()
    begun = bank.now
    bank.now += 700_000
    assert first.notify({**claim(7, 900), "det_time": (begun - 5_000_000) / 1e6}).seq == 1
    second = bank.engine(store)
    bank.now += 2_000_000
    second.start()
    second.stop()
    second.advance_to(bank.now)
    (late,) = second.history("Claim").to_pylist()
    claimed = microseconds_of(late["det_time"]), microseconds_of(late["source_time"])
    assert claimed == (begun, begun - 5_000_000)


def test_what_is_to_be_detected_later_waits() -> None:
    bank = Bank()
    engine = bank.engine()
    answer = engine.notify(claim(7, 900, det_time=(bank.now + 60_000_000) / 1_000_000))
    assert (answer.seq, answer.refused, answer.firings) == (None, None, ())
    bank.now += 120_000_000
    engine.advance_to(bank.now)
    assert engine.history("Claim").num_rows == 1


def test_what_claims_to_be_older_than_the_last_step_gets_its_time() -> None:
    bank = Bank()
    engine = bank.engine()
    engine.notify(claim(1, 1))
    late = engine.notify(claim(2, 2, det_time="1999-01-01T00:00:00Z"))
    assert (late.seq, late.refused) == (3, None)
    bank.now += 2_000_000
    engine.advance_to(bank.now)
    (first, second) = engine.history("Claim").to_pylist()
    assert second["det_time"] == first["det_time"]
    assert second["source_time"].year == 1999


def test_a_status_query_uses_nothing_up() -> None:
    program = compile(
        CLAIMS.replace("RULESTRUC", "COMPOSITEEVENT Claim > Approved CONTEXT CHRONICLE\n  RULESTRUC").replace(
            "TRIGGEREVENT Claim", "TRIGGEREVENT Claim"
        )
    )
    bank = Bank()
    engine = LocalEngine(program, environment=Read(lambda: bank.now))
    assert not engine.evaluate("Claimed")
    engine.notify(claim(1, 1))
    engine.notify({"event": "Approved", "account": 1, "amount": 1})
    assert engine.evaluate("claimed")
    assert engine.evaluate("Claimed")
    (fired,) = engine.notify(claim(1, 2)).firings
    assert fired.firing.constituents == (1, 2)
    assert not engine.evaluate("Claimed")
    with pytest.raises(KeyError, match="no trigger called Claims"):
        engine.evaluate("Claims")


NO_VALUES = {
    "an object": (object(), "which is no value"),
    "a number that nobody writes down": (10**5000, "it gave back a number of 16,610 bits"),
    "half of a character": ("a\udc80b", "half of a surrogate pair is no character"),
    "a signal": (Decimal("sNaN"), "which is no value"),
}


@pytest.mark.parametrize("kind", ["INT", "TEXT", "DOUBLE", "NUMERIC"])
@pytest.mark.parametrize("what", NO_VALUES)
def test_a_function_fails_by_what_it_gives_back(what: str, kind: str) -> None:
    given, said = NO_VALUES[what]
    text = CLAIMS.replace("limit INT) CONDITION amount <= limit", f"limit {kind}) CONDITION limit IS NOT NULL")
    bank = Bank(text)
    bank.allows = given
    engine = bank.engine()
    (fired,) = engine.notify(claim(1, 1)).firings
    assert said in str(fired.firing.calls[0].deeds[0])
    bank.now += 1_000_000
    assert [len(ticked.firings) for ticked in engine.advance_to(bank.now)] == [1], "nothing stands in the way"


def test_errors_of_expressions_are_counted_whatever_triggers() -> None:
    program = compile(
        """
        CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, n INT) ID (k) LIFESPAN (1d);
        CREATE COMPLEX EVENT CLASS S (k INT, n INT) ID (k) AS SELECT k, n FROM A OCCURRING AT A.occTime;
        RULE R (n INT) ACTION act(n);
        TRIGGER AtSelect (k INT, n INT) COMPOSITEEVENT S[10 / n > 1] CONTEXT CHRONICLE RULESTRUC R(n);
        TRIGGER AtVersion (k INT, n INT) COMPOSITEEVENT A[10 / n > 1] CONTEXT CHRONICLE RULESTRUC R(n);
        """
    )
    engine = LocalEngine(program)
    engine.post({"event": "A", "k": 1, "n": 0, "det_time": 100})
    (ticked,) = engine.advance_to(101_000_000)
    assert ticked.errors == {"AtSelect": 1, "AtVersion": 1}


def test_rules_that_stand_side_by_side_run_at_the_same_time() -> None:
    program = compile(
        """
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Bell (door INT) ID () LIFESPAN (1d);
        RULE Left (door INT) ACTION meet(door);
        RULE Right (door INT) ACTION meet(door);
        TRIGGER Rung (door INT) TRIGGEREVENT Bell RULESTRUC Left(door), Right(door);
        """
    )
    both = Barrier(2, timeout=30)  # whoever comes alone is not let through
    engine = LocalEngine(
        program, environment=Clock(1_700_000_000_000_000), functions={"meet": lambda door: both.wait() < 2}
    )
    (fired,) = engine.notify({"event": "Bell", "door": 1}).firings
    assert [(call.rule, call.failed, call.value) for call in fired.firing.calls] == [
        ("Left", False, True),
        ("Right", False, True),
    ]


def nested(depth: int) -> str:
    """A structure of so many rules inside each other, in turns one after the other and side by side."""
    structure = "R(0)"
    for level in range(1, depth):
        structure = f"({structure} > R({level}))" if level % 2 else f"(R({level}), {structure})"
    return (
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS E (a INT) ID () LIFESPAN (1d);\n"
        "RULE R (n INT) ACTION note(n);\n"
        f"TRIGGER T (a INT) TRIGGEREVENT E RULESTRUC {structure};"
    )


def test_structures_are_nested_as_deeply_as_a_program_may_be() -> None:
    deepest = next(depth for depth in range(2, 200) if check(nested(depth + 1)).program is None)
    assert {one.code for one in check(nested(deepest + 1)).errors} == {"E401"}, "the limit of all nesting"
    assert deepest > 25
    noted: list[int] = []
    engine = LocalEngine(
        compile(nested(deepest)), environment=Clock(1_700_000_000_000_000), functions={"note": noted.append}
    )
    (fired,) = engine.notify({"event": "E", "a": 1}).firings
    order = [0]
    for level in range(1, deepest):
        order = [*order, level] if level % 2 else [level, *order]
    assert [call.arguments[0] for call in fired.firing.calls] == order, "told in the order of the structure"
    assert sorted(noted) == list(range(deepest))
    for level in range(1, deepest, 2):  # what comes after by > ran after all that it encloses
        assert noted.index(level) > max(noted.index(inner) for inner in range(level))

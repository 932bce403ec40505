"""Why and why-not of actions that rules do: the trigger, the event at which it fired, the rule and its condition."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import augury
from augury.kernels.firing import Switched
from augury.trying.simulate import simulation
from augury.trying.why_asked import asked_about
from augury.trying.why_not import why_not_acted
from tests.trying.test_why import ROOT, run

BROKERAGE = ("examples/brokerage/brokerage.bicepl", "--events", "examples/brokerage/events.jsonl")
CLAIMS = """
SET CHRONON 1m;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount INT) ID (account) LIFESPAN (1d)
  ON NEW.amount > 500 DO note(NEW.account);
CREATE COMPLEX EVENT CLASS Big (account INT) ID (account)
  AS SELECT account FROM Claim WHERE amount > 100 OCCURRING AT occTime;
RULE Pay (account INT, amount INT)
  CONDITION amount <= 300 AND amount > 0 AND NOW > TIMESTAMP '2000-01-01 00:00:00'
  ACTION pay(account), note(account);
RULE Look (account INT) ACTION look(account);
TRIGGER Paying (account INT, amount INT) TRIGGEREVENT Claim RULESTRUC Pay(account, amount);
TRIGGER Looking (account INT) TRIGGEREVENT Big RULESTRUC Look(account);
"""
EVENTS = """\
{"event": "Claim", "occ_time": "2026-01-01T09:00:00Z", "account": 1, "amount": 250}
{"event": "Claim", "occ_time": "2026-01-01T09:01:00Z", "account": 2, "amount": 400}
{"event": "Claim", "occ_time": "2026-01-01T09:02:00Z", "account": 3, "amount": 600}
{"event": "Claim", "occ_time": "2026-01-01T09:03:00Z", "account": 4}
{"event": "Claim", "occ_time": "2026-01-01T09:04:00Z", "account": 5, "amount": 50}
{"event": "Claim", "det_time": "2026-01-01T09:05:00Z", "occ_time": null, "account": 5}
"""


@pytest.fixture
def claims(tmp_path: Path) -> list[str]:
    """A program whose rules do what a statement does, too, as words of a command."""
    (tmp_path / "claims.bicepl").write_text(CLAIMS)
    (tmp_path / "claims.jsonl").write_text(EVENTS)
    return [str(tmp_path / "claims.bicepl"), "--events", str(tmp_path / "claims.jsonl")]


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_what_a_rule_did_is_explained_by_its_firing_and_condition() -> None:
    assert run("why", *BROKERAGE, "--event", "Perform", "--seq", "7", "--action", "PARTIAL") == (
        0,
        """\
partial(121, 25, 40) was done for Perform
  at the tick 2026-03-02T09:10:00Z
  by rule Fill(121, 40, 25) of trigger Settle(121, 25), which fired at Perform, seq 7, with 1, 7
    CONDITION done >= asked does not hold, so this is its ALTERNATIVEACTION
      done  = 25
      asked = 40
  made of
    announce  Order(121, 40) at 2026-03-02T09:00:00Z, detected 2026-03-02T09:00:00Z, seq 1
    announce  Perform(121, 25) at 2026-03-02T09:08:00Z, detected 2026-03-02T09:08:00Z, seq 7
  versions of Perform known then
    announce  Perform(121, 25) at 2026-03-02T09:08:00Z, detected 2026-03-02T09:08:00Z, seq 7
""",
        "",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Perform", "--action", "charge"), "of trigger Settle(124, 50), which fired at Perform, seq 27, with 19, 27"),
        (("Perform", "--action", "charge"), "    it has no CONDITION"),
        (("Order", "--key", "account=124", "--action", "remind"), "Forgotten(124, 50), which fired by the clock"),
        (("Order", "--seq", "19", "--action", "charge"), "charge(124, 100) was done for Order"),
        (("Closing", "--action", "report"), "of trigger DayEnd, which fired at Closing, seq 29"),
        (("Rise", "--action", "ticker"), "by statement 1: ON ANNOUNCEMENT"),
    ],
)
def test_who_did_it(words: tuple[str, ...], said: str) -> None:
    code, text, _ = run("why", *BROKERAGE, "--event", *words)
    assert code == 0
    assert said in text


def test_what_a_rule_did_as_json() -> None:
    words = ("--event", "Perform", "--seq", "7", "--action", "partial", "--output", "json")
    found = json.loads(run("why", *BROKERAGE, *words)[1])
    action = found["action"]
    assert {name: action[name] for name in ("action", "args", "rule", "outcome", "condition", "values")} == {
        "action": "partial",
        "args": [121, 25, 40],
        "rule": "Fill",
        "outcome": "not held",
        "condition": "done >= asked",
        "values": {"done": 25, "asked": 40},
    }
    assert (action["firing"]["trigger"], action["firing"]["constituents"]) == ("Settle", [1, 7])
    assert found["known_at"] == "2026-03-02T09:10:00Z"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("Perform", "--action", "audit"),
            "rule Large of trigger Settle: CONDITION done >= 100\n    done >= 100 is FALSE: done = 50",
        ),
        (("Perform", "--action", "partial"), "the condition does not hold, and it holds: done = 50, asked = 50"),
        (
            ("Perform", "--key", "account=123", "--action", "charge"),
            "it did not fire: no occurrence of Order(I, _) > Perform(I, _) waited for it: no Order(I, _) took place"
            " before 18 (I = 123); it has fired 3 times by then, and used an occurrence each time",
        ),
        (("Ask", "--seq", "12", "--action", "buy"), "no occurrence of Rise{3} waited for it"),
        (("Quote", "--action", "charge"), "it did not fire: events of Perform trigger it, and none of Quote does"),
        (("Quote", "--action", "remind"), "events of Order trigger it, or the clock does, and none of Quote does"),
        (
            ("Perform", "--action", "confirm"),
            "`confirm` was done, by rule Fill of trigger Settle: `augury why` says why",
        ),
        (("Order", "--seq", "19", "--action", "remind"), "`remind` was done, by rule Remind of trigger Forgotten"),
    ],
)
def test_what_kept_a_rule_from_it(words: tuple[str, ...], said: str) -> None:
    code, text, _ = run("why-not", *BROKERAGE, "--event", *words)
    assert code == 0
    assert said in text


@pytest.mark.parametrize(
    ("key", "action", "said"),
    [
        ("2", "pay", "    amount <= 300 is FALSE: amount = 400"),
        ("4", "pay", "    amount <= 300 is NULL: amount = NULL"),
        ("5", "pay", "it did not fire: a withdrawal triggers nothing"),
        (
            "2",
            "note",
            "  statement 1: ON NEW.amount > 500\n    NEW.amount > 500 is FALSE: NEW.amount = 400\n  rule Pay of",
        ),
        ("1", "note", "`note` was done, by rule Pay of trigger Paying"),
        ("3", "note", "`note` did fire, by statement 1"),
    ],
)
def test_statements_and_rules_that_do_the_same(claims: list[str], key: str, action: str, said: str) -> None:
    code, text, _ = run("why-not", *claims, "--event", "Claim", "--key", key, "--action", action)
    assert code == 0
    assert said in text


def test_an_event_without_a_seq_triggers_too(claims: list[str]) -> None:
    _, text, _ = run("why", *claims, "--event", "Big", "--key", "2", "--action", "look")
    assert "look(2) was done for Big(account = 2)" in text
    assert "of trigger Looking(2), which fired at Big, with 2" in text


def test_the_statement_and_the_rule_that_did_it(claims: list[str]) -> None:
    assert "by rule Pay(1, 250)" in run("why", *claims, "--event", "Claim", "--key", "1", "--action", "note")[1]
    assert "by statement 1" in run("why", *claims, "--event", "Claim", "--key", "3", "--action", "note")[1]


def test_a_rule_that_is_disabled(claims: list[str]) -> None:
    program = augury.compile(CLAIMS)
    running = simulation(program, claims[-1])
    running.state.triggers.off.add((Switched.RULE, "pay"))
    found = why_not_acted(running, asked_about(program, "Claim", ["1"]), "pay", None)
    assert (found.took_place, found.sentence) == (False, "the trigger fired, but the rule was disabled")


def test_a_trigger_that_is_disabled(claims: list[str]) -> None:
    program = augury.compile(CLAIMS)
    running = simulation(program, claims[-1])
    running.state.triggers.off.add((Switched.TRIGGER, "paying"))
    found = why_not_acted(running, asked_about(program, "Claim", ["1"]), "pay", None)
    assert (found.took_place, found.sentence) == (False, "it did not fire: it is disabled")


def test_an_action_that_nobody_does() -> None:
    code, _, err = run("why", *BROKERAGE, "--event", "Quote", "--action", "chrge")
    assert code == 1
    assert "no statement of `Quote` does `chrge`, nor does a rule of any trigger" in err
    assert "did you mean `charge`?" in err

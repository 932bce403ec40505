"""Triggers and rules where programs are tried: what suites say of firings, and what simulations show of them."""

from __future__ import annotations

import json
from pathlib import Path

import augury
from augury.algebra.program import Program
from augury.trying.page import page
from augury.trying.shown import Shown, line
from augury.trying.shown_table import tables
from augury.trying.simulate import simulation
from tests.trying.test_suite import failures, run, suite

PROGRAM = """
SET CHRONON 1m;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Report (account INT, amount NUMERIC(8, 2)) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount NUMERIC(8, 2)) ID (account) LIFESPAN (1d)
  ON ANNOUNCEMENT DO greet(NEW.account);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT) ID (account) LIFESPAN (1d);
RULE Approve (account INT, amount NUMERIC(8, 2))
  CONDITION amount <= 1000
  ACTION approve(account, amount), POST Approved(account)
  ALTERNATIVEACTION escalate(account);
RULE Note (amount NUMERIC(8, 2)) ACTION note(amount);
RULE Thank (account INT) ACTION thank(account);
TRIGGER Pay (account INT, amount NUMERIC(8, 2))
  TRIGGEREVENT Claim
  COMPOSITEEVENT Report(A, _) > Claim(A, _) CONTEXT CHRONICLE
  RULESTRUC Note(Report.amount) > Approve(account, amount);
TRIGGER Paid (account INT) TRIGGEREVENT Approved RULESTRUC Thank(account);
TRIGGER Late (account INT, amount NUMERIC(8, 2))
  COMPOSITEEVENT Report(A, _) > !Claim(A, _) WITHIN 10m CONTEXT CHRONICLE RULESTRUC Note(amount);
"""
EVENTS = """events:
      - Report(account=1, amount=9.5) at 0s
      - Claim(account=1, amount=12) at 90s
"""


# ---- suites ------------------------------------------------------------------------------------------------------


def test_firings_are_expected_with_parameters_event_and_tick(tmp_path: Path) -> None:
    wanted = """    expect_firings:
      - Pay(1, 12) for Claim(account=1) at 2m
      - Paid(1) for Approved(account=1)
    expect_actions: [greet(1), note(9.5), "approve(1, 12) for Claim(account=1) at 2m", thank]
    never: [Late, escalate]"""
    result = run(suite(tmp_path, EVENTS + wanted, program=PROGRAM))
    assert result.exit_code == 0, result.output


def test_a_firing_has_constituents_in_the_long_form(tmp_path: Path) -> None:
    about = "trigger: pay, args: [1, 12], event: Claim, key: {{account: 1}}"
    wanted = "    expect_some: [{{" + about + ", seq: {}, constituents: {}}}]"
    assert failures(suite(tmp_path, EVENTS + wanted.format(2, [1, 2]), program=PROGRAM)) == []
    (failure,) = failures(suite(tmp_path, EVENTS + wanted.format(2, [2]), program=PROGRAM))
    (pair,) = failure["lines"]
    assert pair["differs"] == "not the same: constituents"
    assert pair["got"] == "Pay(1, 12) for Claim(account=1) at 2m"


def test_another_firing_than_expected_is_told(tmp_path: Path) -> None:
    (failure,) = failures(suite(tmp_path, EVENTS + "    expect_firings: [Pay(1, 13), Late]", program=PROGRAM))
    assert failure["message"] == "other firings than expected"
    assert failure["tick"] == "2026-01-01T09:02:00Z"
    found = {(one["expected"], one["got"]): one["differs"] for one in failure["lines"]}
    assert found == {
        ("Pay(1, 13)", "Pay(1, 12) for Claim(account=1) at 2m"): "not the same: argument 2",
        (None, "Paid(1) for Approved(account=1) at 2m"): "unexpected",
        ("Late", None): "missing",
    }


def test_what_must_never_fire(tmp_path: Path) -> None:
    (failure,) = failures(suite(tmp_path, EVENTS + "    never: [Pay(1, ...)]", program=PROGRAM))
    assert failure["message"] == "what must never be is there"


def test_an_action_is_asked_which_rule_did_it(tmp_path: Path) -> None:
    wanted = "    expect_some: [{{action: note, args: [9.5], trigger: {}, rule: Note}}]"
    assert failures(suite(tmp_path, EVENTS + wanted.format("Pay"), program=PROGRAM)) == []
    (failure,) = failures(suite(tmp_path, EVENTS + wanted.format("Late"), program=PROGRAM))
    assert failure["lines"][0]["differs"] == "not the same: trigger"


def test_names_of_triggers_are_looked_up(tmp_path: Path) -> None:
    result = run(suite(tmp_path, EVENTS + "    expect_firings: [Pya, Pay(account=1)]", program=PROGRAM))
    assert result.exit_code == 2
    assert "the program has no trigger `Pya`" in result.stderr
    assert "did you mean `Pay`?" in result.stderr
    assert "parameters of a trigger have no names" in result.stderr


def test_firings_are_not_asked_of_other_engines(tmp_path: Path) -> None:
    result = run(suite(tmp_path, EVENTS + "    engines: [local, spark]\n    never: [Late]", program=PROGRAM))
    assert result.exit_code == 2
    assert "firings are known in process only" in result.stderr


def test_what_was_got_is_written_down_with_firings(tmp_path: Path) -> None:
    path = suite(tmp_path, EVENTS + "    expect_firings: [Late]", EVENTS, program=PROGRAM)
    assert run(path, "--update").exit_code == 0
    text = path.read_text("utf-8")
    assert text.count("- Pay(1, 12) for Claim(account=1) at 2m\n") == 2
    assert "Late" not in text
    assert run(path).exit_code == 0


def test_triggers_rules_and_sides_of_conditions_that_no_test_took(tmp_path: Path) -> None:
    path = tmp_path / "cards.bicepl"
    few = "events: [Report(account=1, amount=1) at 0s]\n    expect: []"
    told = run(suite(tmp_path, few, program=PROGRAM)).stdout.splitlines()[2:]
    assert told == [
        f"{path}: tests made 1 of 3 classes, 0 of 1 statement, 0 of 3 triggers and 0 of 3 rules happen",
        "  line 4: class Claim: no event of it came",
        "  line 6: class Approved: no event of it came",
        "  line 5: statement 1 of Claim: ON ANNOUNCEMENT DO greet(NEW.account)",
        "  line 13: trigger Pay: it never fired",
        "  line 17: trigger Paid: it never fired",
        "  line 18: trigger Late: it never fired",
        "  line 7: rule Approve: it never ran",
        "  line 11: rule Note: it never ran",
        "  line 12: rule Thank: it never ran",
    ]
    more = run(suite(tmp_path, EVENTS + "    expect: []", program=PROGRAM)).stdout.splitlines()[2:]
    assert more == [
        f"{path}: tests made 3 of 3 classes, 1 of 1 statement, 2 of 3 triggers and 3 of 3 rules happen",
        "  line 18: trigger Late: it never fired",
        "  line 7: ALTERNATIVEACTION of rule Approve: its condition always held",
    ]
    found = json.loads(run(suite(tmp_path, EVENTS + "    expect: []", program=PROGRAM), "--output", "json").stdout)
    (covered,) = found["coverage"]
    assert (covered["triggers"], covered["rules"]) == (3, 3)
    assert [one["what"] for one in covered["untried"]] == ["trigger", "alternative"]


def test_the_side_that_never_held_is_told(tmp_path: Path) -> None:
    large = EVENTS.replace("amount=12", "amount=2000") + "    expect: []"
    assert (
        "  line 7: ACTION of rule Approve: its condition never held"
        in run(suite(tmp_path, large, program=PROGRAM)).stdout.splitlines()
    )


# ---- simulations -------------------------------------------------------------------------------------------------

LINES = """\
{"event": "Report", "occ_time": "2026-01-01T09:00:00Z", "account": 1, "amount": 9.5}
{"event": "Report", "occ_time": "2026-01-01T09:00:30Z", "account": 2, "amount": 7}
{"event": "Claim", "occ_time": "2026-01-01T09:01:30Z", "account": 1, "amount": 12}
"""


def simulated(folder: Path, until_us: int | None = None) -> tuple[Program, list[Shown]]:
    """The program above over its lines, tick by tick."""
    path = folder / "events.jsonl"
    path.write_text(LINES, "utf-8")
    program = augury.compile(PROGRAM)
    return program, list(simulation(program, str(path), until_us).ticks())


def test_a_tick_shows_what_triggered_with_which_constituents_and_what_rules_did(tmp_path: Path) -> None:
    _, ticks = simulated(tmp_path)
    (text,) = tables(ticks[-1:])
    lines = [" ".join(one.split()) for one in text.splitlines()]
    begin = next(i for i, one in enumerate(lines) if one.startswith("triggered"))
    assert lines[begin : begin + 8] == [
        "triggered Pay(1, 12) at Claim, seq 3, with 1, 3",
        "Note(9.5)",
        "note(9.5)",
        "Approve(1, 12) amount <= 1000 holds",
        "approve(1, 12)",
        "POST Approved(1) seq 4",
        "Paid(1) at Approved, seq 4, with 4",
        "Thank(1)",
    ]


def test_a_tick_tells_programs_of_firings(tmp_path: Path) -> None:
    _, ticks = simulated(tmp_path)
    found = json.loads(line(ticks[-1]))
    assert [one["action"] for one in found["fired"]] == ["greet"]
    pay, paid = found["triggered"]
    assert {name: pay[name] for name in ("trigger", "number", "event", "key", "seq", "constituents")} == {
        "trigger": "Pay",
        "number": 1,
        "event": "Claim",
        "key": {"account": 1},
        "seq": 3,
        "constituents": [1, 3],
    }
    assert pay["parameters"] == {"account": 1, "amount": 12}
    note, approve = pay["calls"]
    assert (note["rule"], note["outcome"], note["condition"]) == ("Note", "held", None)
    assert approve["condition"] == "amount <= 1000"
    assert approve["deeds"][1] == {"post": "Approved", "values": {"account": 1}, "seq": 4, "refused": None}
    assert paid["constituents"] == [4]


def test_a_firing_by_the_clock_is_shown_at_its_tick(tmp_path: Path) -> None:
    _, ticks = simulated(tmp_path, 1_767_258_660_000_000)  # 09:11
    late = [one for one in ticks if one.triggered][-1]
    (text,) = tables([late])
    assert "Late(2, 7)" in text
    assert "by the clock, with 2" in text


def test_the_page_shows_firings_and_counts_what_rules_did(tmp_path: Path) -> None:
    program, ticks = simulated(tmp_path)
    text = page("claims", program, ticks)
    assert "<h3>triggered</h3>" in text
    assert "POST Approved(1)" in text
    assert "4 actions" in text
    assert text.count('class="action"') == 4  # flags on the time line
    assert "rule Approve of Pay(1, 12) at Claim, seq 3, with 1, 3" in text

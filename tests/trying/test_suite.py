"""`augury test`: what tests can say, how they go, and what is told of it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner, Result

from augury.algebra.program import Program
from augury.cli_test import register
from augury.diagnostics import Span
from augury.trying import suite_run
from augury.trying.suite import Kind, Said
from augury.trying.suite_bound import Ran, Row
from augury.trying.suite_engines import InProcess
from augury.trying.suite_orders import all_orders, every_order

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent.name for path in ROOT.glob("examples/*/tests.yaml"))

PROGRAM = """
SET CHRONON 1m;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT, device STRING) ID (card) LIFESPAN (1d)
  ON ANNOUNCEMENT DO greet(NEW.card, NEW.device),
  ON CHANGE DO move(NEW.card, OLD.occTime);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card INT, amount NUMERIC(8,2)) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Due (name STRING, day DATE, moment TIMESTAMP) ID (name) LIFESPAN (9d);
CREATE COMPLEX EVENT CLASS Quick (card INT, amount NUMERIC(8,2)) ID (card)
  AS MATCH prior(Login(card, _), Withdrawal(card, amount)) WITHIN 10m
  ON ANNOUNCEMENT DO ask(NEW.card, NEW.amount);
CREATE COMPLEX EVENT CLASS Idle (card INT) ID (card)
  AS COMPOSITE Login(card, _) > !Withdrawal(card, _) WITHIN 5m CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Total (card INT, n BIGINT) ID (card)
  AS SELECT card, COUNT(*) AS n FROM Withdrawal GROUP BY card OCCURRING AT MAX(occTime);
CREATE COMPLEX EVENT CLASS Known (name STRING, day DATE, moment TIMESTAMP) ID (name)
  AS SELECT name, day, moment FROM Due OCCURRING AT Due.occTime;
"""
WARM = "- Login(card=1, device=phone) at 0s\n      - Withdrawal(card=1, amount=9.5) at 10s seen 12s"


def suite(folder: Path, *tests: str, head: str = "", program: str = PROGRAM) -> Path:
    """A suite with these tests, beside its program; each test is written below its name."""
    (folder / "cards.bicepl").write_text(program, "utf-8")
    body = "".join(f"  - name: test {i}\n    {test.strip()}\n" for i, test in enumerate(tests, 1))
    path = folder / "tests.yaml"
    path.write_text(f"program: cards.bicepl\nstart: 2026-01-01T09:00:00Z\n{head}tests:\n{body}", "utf-8")
    return path


def run(*arguments: object) -> Result:
    """`augury test` with these arguments."""
    app = typer.Typer()
    app.callback()(lambda: None)
    register(app)
    result = CliRunner().invoke(app, ["test", *map(str, arguments)], prog_name="augury")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def failures(path: Path, *arguments: object) -> list[dict[str, Any]]:
    """The failures of the first test."""
    found = json.loads(run(path, "--output", "json", *arguments).stdout)
    assert not found["suites"][0]["errors"], found["suites"][0]["errors"]
    return list(found["suites"][0]["tests"][0]["failures"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_suite_of_an_example_passes(name: str) -> None:
    result = run(ROOT / "examples" / name / "tests.yaml")
    assert result.exit_code == 0, result.output
    assert "all passed" in result.stdout


def test_every_example_that_is_tested_is_there() -> None:
    assert {"brokerage", "card", "discount", "groceries", "orders", "parcels", "travel"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("examples/*/expected.ndjson")))
def test_lines_of_a_run_can_be_pasted(name: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / name
    lines = (folder / "expected.ndjson").read_text("utf-8").splitlines()
    came = (folder / "events.jsonl").read_text("utf-8").splitlines()
    listed = {
        "events": [line for line in came if "Perfrom" not in line],  # which orders has to be rejected
        "expect": [line for line in lines if line.startswith('{"event"')],
        "expect_actions": [line for line in lines if line.startswith('{"action"')],
    }
    body = "".join(f"    {key}:\n" + "".join(f"      - {line}\n" for line in of_key) for key, of_key in listed.items())
    path = tmp_path / "tests.yaml"
    path.write_text(f"program: {folder / name}.bicepl\ntests:\n  - name: as it runs\n{body}", "utf-8")
    assert len(lines) > 10
    assert {one["message"] for one in failures(path)} <= {"an event is rejected"}
    path.write_text(path.read_text("utf-8").replace(f"      - {listed['expect'][0]}\n", "", 1), "utf-8")
    assert "other events than expected" in {one["message"] for one in failures(path)}


# ---- what holds, and what does not ---------------------------------------------------------------------------------

HOLDS = [
    f"events:\n      {WARM}\n    expect: [Quick(card=1, amount=9.5) at 10s seen 12s, 'Total(card=1, n=1)']",
    f"events:\n      {WARM}\n    expect: [Total, Quick]",
    f"events:\n      {WARM}\n    expect: [Quick(1, 9.5), Total(1, _)]",
    f"events:\n      {WARM}\n    expect: [Quick(1, ...), Total(n=1.0)]",
    f"events:\n      {WARM}\n    expect_some: [Quick]",
    f"events:\n      {WARM}\n    expect_some: [greet]",
    f"events:\n      {WARM}\n    never: [Idle, move, Quick(card=2), Total(n=2)]",
    f"events:\n      {WARM}\n    expect_actions: [greet(1, 'phone'), ask(1, 9.50)]",
    f"events:\n      {WARM}\n    expect_actions: [ask, 'greet(1, ...) for Login(card=1) at 1m']",
    f"events:\n      {WARM}\n    expect_actions: [ask(_, _) for Quick(card=1), greet(_, phone)]",
    "events:\n      - {event: Login, card: 1, at: 0s}\n    expect: []",
    "events:\n      - Login(card=1) at 0s\n    advance_to: 5m\n    expect: [Idle(card=1) at 5m seen 5m]",
    "events:\n      - Login(card=1) at -1h seen 2026-01-01T09:00:00Z\n    advance_to: 2026-01-01T09:05:00Z\n"
    "    expect: [Idle at -55m seen 0s]",
    "events:\n      - Login(card=n+1) at 0s every 10s times 3\n"
    "    expect_actions: [greet(1, NULL), greet(2, NULL), greet(3, _)]",
    "events:\n      - Withdrawal(card=1, amount=(5+n)*2) at 0s every 1m times 3\n    expect:\n"
    "      - Total(n=1)\n      - change Total(n=2)\n      - change Total(n=3) seen 3m",
    "events:\n      - Login(card=1, device='d{n}') at 0s every 1s times 2\n    expect_actions: [greet(1, 'd1')]",
    "events:\n      - Login(card=1) at 1h seen 0s\n      - Login(card=1) at 2h seen 1m\n"
    "    expect_actions: [greet, move(1, 1h)]",
    "events:\n      - Due(name=x, day=1d, moment=90s) at 0s\n"
    "    expect: [\"Known(name='x', day='2026-01-02', moment='2026-01-01T10:01:30+01:00')\"]",
    "events:\n      - Due(name=x, day=2026-01-02, moment=2026-01-02T00:00:00Z) at 0s\n"
    "    expect: [Known(day=1d, moment=15h)]",
    "events:\n      - Due(name=x) at 0s\n      - withdraw Due(name=x) seen 5m\n    expect:\n      - Known(name=x)\n"
    "      - withdraw Known(name=x) seen 6m",
    "events:\n      - Due(name=x) at 0s\n      - Login(card=x) at 1m rejected\n    expect: [Known]",
    "events:\n      - Due(name=x) at 0s id a\n      - Due(name=x) at 0s id 'a'\n    expect: [Known]",
    "events:\n      - Due(name='it''s \"(, # : [') at 0s\n    expect: [Known(name=\"it's \\\"(, # : [\")]",
    "steps:\n      - events: [Login(card=1) at 0s]\n        expect: []\n        expect_actions: [greet]\n"
    "      - advance_to: 5m\n        expect: [Idle]\n        never: [greet]\n"
    "      - advance_to: 6m\n        expect: []\n"
    "    expect: [Idle]\n    expect_actions: [greet]",
    '''events:
      - {"event": "Login", "occ_time": "2026-01-01T09:00:00Z", "det_time": "2026-01-01T09:00:01Z", "card": 1}
      - {"event": "Login", "occ_time": null, "det_time": "2026-01-01T09:02:00Z", "card": 1}
      - {event: Withdrawal, card: 5+n, amount: 1, at: 3m, every: 1m, times: 2}
    expect:
      - {"event": "Total", "change": "announce", "occ_time": "2026-01-01T09:03:00Z", "constituents": [], "card": 5}
      - Idle(card=1)      # withdrawals do not count here
      - {event: Total, card: 6, seen: 5m}
    expect_actions:
      - {"action": "greet", "args": [1, null], "event": "Login", "key": {"card": 1}, "tick": "2026-01-01T09:01:00Z"}''',
    "start: 2027-01-01\n    events: [Login(card=1) at 0s]\n    expect_actions:\n      - greet at 2027-01-01T00:01:00Z",
    "events: []\n    expect: []",
]  # fmt: skip


@pytest.mark.parametrize("test", HOLDS)
def test_a_test_holds(test: str, tmp_path: Path) -> None:
    result = run(suite(tmp_path, test))
    assert result.exit_code == 0, result.output


FAILS = [
    (f"events:\n      {WARM}\n    expect: [Quick]", "other events", ["unexpected"]),
    (f"events:\n      {WARM}\n    expect: [Quick, Total, Total]", "other events", ["missing"]),
    (f"events:\n      {WARM}\n    expect: [Quick(card=2), Total]", "other events", ["not the same: card"]),
    (f"events:\n      {WARM}\n    expect: [Quick at 12s, Total]", "other events", ["not the same: at"]),
    (f"events:\n      {WARM}\n    expect: [Quick seen 10s, Total]", "other events", ["not the same: seen"]),
    (f"events:\n      {WARM}\n    expect: [change Quick, Total]", "other events", ["not the same: change"]),
    (f"events:\n      {WARM}\n    expect: [withdraw Quick, Total]", "other events", ["not the same: change"]),
    (f"events:\n      {WARM}\n    expect: [Quick(amount='9.5x'), Total]", "other events", ["not the same: amount"]),
    (f"events:\n      {WARM}\n    expect: [{{event: Quick, seq: 1}}, Total]", "other events", ["not the same: seq"]),
    (
        f"events:\n      {WARM}\n    expect: [{{event: Quick, constituents: [2]}}, Total]",
        "other events",
        ["not the same: constituents"],
    ),
    (f"events:\n      {WARM}\n    expect: []", "other events", ["unexpected", "unexpected"]),
    (f"events:\n      {WARM}\n    expect_some: [Idle, Quick]", "some of what", ["missing"]),
    (f"events:\n      {WARM}\n    expect_some: [Quick, Quick]", "some of what", ["missing"]),
    (f"events:\n      {WARM}\n    never: [Quick(card=1)]", "never", ["never"]),
    (f"events:\n      {WARM}\n    never: [greet(1, ...)]", "never", ["never"]),
    (f"events:\n      {WARM}\n    expect_actions: [ask, ask]", "other actions", ["unexpected", "missing"]),
    (f"events:\n      {WARM}\n    expect_actions: [ask(1), greet]", "other actions", ["not the same: arguments"]),
    (f"events:\n      {WARM}\n    expect_actions: [ask(1, 2), greet]", "other actions", ["not the same: argument 2"]),
    (f"events:\n      {WARM}\n    expect_actions: [ask for Login, greet]", "other actions", ["not the same: event"]),
    (f"events:\n      {WARM}\n    expect_actions: [ask at 2m, greet]", "other actions", ["not the same: at"]),
    ("events: [Login(card=1) at 0s]", "expects nothing", []),
    ("events: [Login(card=x) at 0s]\n    expect: []", "an event is rejected", []),
    ("events: [Login(card=1) at 0s rejected]\n    expect: []", "an event is not rejected", []),
]


@pytest.mark.parametrize(("test", "message", "differs"), FAILS)
def test_a_test_fails(test: str, message: str, differs: list[str], tmp_path: Path) -> None:
    path = suite(tmp_path, test)
    assert run(path).exit_code == 1
    (failure,) = failures(path)
    assert message in failure["message"]
    assert [line["differs"] for line in failure["lines"] if line["differs"]] == differs


def test_lines_that_fit_several_are_given_so_that_all_have_one(tmp_path: Path) -> None:
    events = "events: [Withdrawal(card=n) at 0s every 1s times 3]"
    assert not failures(suite(tmp_path, f"{events}\n    expect: [Total, Total(card=2), Total(card=0)]"))
    assert not failures(suite(tmp_path, f"{events}\n    expect: [Total, Total(card=0), Total]"))
    found = failures(suite(tmp_path, f"{events}\n    expect: [Total(card=0), Total(card=0), Total]"))
    assert [line["differs"] for line in found[0]["lines"]] == ["", "", "not the same: card"]


def test_a_step_is_about_its_own_ticks(tmp_path: Path) -> None:
    steps = "steps:\n      - events: [Login(card=1) at 0s]\n        advance_to: {}\n        expect: [Idle]"
    (failure,) = failures(suite(tmp_path, steps.format("4m59s")))
    assert failure["step"] == 1
    assert not failures(suite(tmp_path, steps.format("5m")))


def test_a_select_that_fails_fails_the_test(tmp_path: Path) -> None:
    program = PROGRAM + (
        "CREATE COMPLEX EVENT CLASS Whole (x INT) ID (x) AS SELECT CAST(device AS INT) AS x FROM Login "
        "OCCURRING AT Login.occTime;"
    )
    path = suite(tmp_path, "events: [Login(card=1, device='no number') at 0s]\n    expect: []", program=program)
    assert [one["message"] for one in failures(path)] == ["the SELECT of `Whole` failed"]


def test_foreign_names_of_a_source_are_those_that_come(tmp_path: Path) -> None:
    program = PROGRAM + "SOURCE Withdrawal FROM COLUMNS (acct AS card, ts AS occ_time, card AS amount);"
    path = suite(
        tmp_path, "events: [Withdrawal(card=7, amount=3) at 5s]\n    expect: [Total(card=7) at 5s]", program=program
    )
    assert run(path).exit_code == 0


# ---- arrival orders ------------------------------------------------------------------------------------------------


def test_every_order_of_arrival_is_tried(tmp_path: Path) -> None:
    fine = """events:
      - Withdrawal(card=1, amount=n) at 0s every 1s times 2
      - Login(card=2) at 0s
      - Login(card=3) at 0s
    expect: [Total(n=2)]
    permutations: all"""
    result = run(suite(tmp_path, fine))
    assert result.exit_code == 0, result.output
    assert "(6 of 6 orders)" in result.stdout


def test_an_order_that_gives_something_else_is_shown(tmp_path: Path) -> None:
    test = """events:
      - Login(card=1) at 0s
      - Withdrawal(card=1) at 0s
    expect_some: [Quick]
    permutations: all"""
    (failure,) = failures(suite(tmp_path, test))
    assert failure["message"] == "another arrival order gives something else"
    assert failure["notes"] == ["in this order:", "  Withdrawal(card=1) seen 0s", "  Login(card=1) seen 0s"]
    line = failure["lines"][0]
    assert (line["expected"], line["got"]) == ("Quick(card=1, amount=NULL) at 0s seen 0s", None)
    assert not failures(suite(tmp_path, test.replace("permutations: all", "permutations: none")))


def logins(count: int, further: str = "expect: []", orders: str = "all") -> str:
    came = "".join(f"      - Login(card={card}) at 0s\n" for card in range(count))
    return f"events:\n{came}    {further}\n    permutations: {orders}"


def test_all_orders_are_all_however_many(tmp_path: Path) -> None:
    result = run(suite(tmp_path, logins(6)))
    assert "(720 of 720 orders)" in result.stdout
    tried = set()
    said = Said(Kind.EVENT, "Login", Span(0, 5), Span(0, 5), "Login")
    rows = [Row(said, n // 5, f"{n}", f"{n}") for n in range(7)]
    for order in all_orders(rows):
        tried.add(tuple(row.json for row in order))
    assert len(tried) == every_order(rows) - 1 == 239
    assert all({*order[:5]} == {*"01234"} and {*order[5:]} == {*"56"} for order in tried)


def test_thousands_of_events_that_say_the_same_have_one_order() -> None:
    said = Said(Kind.EVENT, "Login", Span(0, 5), Span(0, 5), "Login")
    rows = [Row(said, 0, "same", "same") for _ in range(2_000)]
    assert every_order(rows) == 1
    assert [len(order) for order in all_orders(rows)] == []


def test_events_that_say_the_same_are_not_told_apart(tmp_path: Path) -> None:
    same = ", ".join(["Login(card=1) at 0s"] * 5)
    test = f"events: [{same}, Login(card=2) at 0s]\n    expect: []\n    permutations: all"
    result = run(suite(tmp_path, test))
    assert "(6 of 6 orders)" in result.stdout, result.output


def test_more_orders_than_can_be_tried_are_a_failure(tmp_path: Path) -> None:
    (failure,) = failures(suite(tmp_path, logins(10)))
    assert failure["message"] == "there are 3,628,800 arrival orders, more than the 50,000 that are tried"
    assert failure["notes"][0] == "write `permutations: 500` to try as many of them, drawn by --seed"


def test_another_engine_that_prints_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(program: Program, engine: str, rows: Sequence[Row], until_us: int | None) -> Ran:
        ran = InProcess(program).run(rows, until_us)
        got = (replace(one, line={**one.line, "card": 7}) if one.name == "Quick" else one for one in ran.got)
        return replace(ran, got=tuple(got))

    monkeypatch.setattr(suite_run, "run_elsewhere", elsewhere)
    path = suite(tmp_path, f"events:\n      {WARM}\n    expect_some: [Quick]", head="engines: [local, spark]\n")
    here, there = json.loads(run(path, "--output", "json").stdout)["suites"][0]["tests"]
    assert (here["engine"], here["passed"]) == ("local", True)
    assert (there["engine"], there["passed"]) == ("spark", False)
    (failure,) = there["failures"]
    assert failure["message"] == "`spark` prints something else than `local`"
    (line,) = [one for one in failure["lines"] if one["differs"]]
    assert line["expected"] == "Quick(card=1, amount=9.5) at 10s seen 12s"
    assert line["got"] == "Quick(card=7, amount=9.5) at 10s seen 12s"
    text = run(path).stdout
    assert "`spark` prints something else than `local`" in text


def test_of_many_orders_as_many_are_tried_as_asked_for_and_the_seed_decides(tmp_path: Path) -> None:
    result = run(suite(tmp_path, logins(6, orders="50")), "--seed", 7)
    assert "(50 of 720 orders, sampled with --seed 7)" in result.stdout
    assert "(6 of 6 orders)" in run(suite(tmp_path, logins(3, orders="50"))).stdout
    apart = suite(tmp_path, logins(6, "  - Withdrawal(card=3) at 0s\n    expect_some: [Quick]", "50"))
    first, again = failures(apart, "--seed", 7), failures(apart, "--seed", 7)
    assert first == again
    assert first[0]["notes"] != failures(apart, "--seed", 8)[0]["notes"]


# ---- what is told --------------------------------------------------------------------------------------------------

GOLDEN = """\
FAIL tests.yaml:4 test 1
     line 8: other events than expected

         expected                                     got
       ! Quick(card=1, amount=9) at 10s             | Quick(card=1, amount=9.5) at 10s seen 12s
                                                      ^ not the same: amount, line 9
       + ·                                          | Total(card=1, n=1) at 10s seen 1m
                                                      ^ unexpected
       - { event: Idle, card: 1, at: 5m, seen: 5m } | ·
                                                      ^ missing, line 10

       they part at the tick 1m, 2026-01-01T09:01:00Z

     line 11: what must never be is there

         never   got
       ! ask   | ask(1, 9.5) for Quick(card=1) at 1m
                 ^ never, line 11

       they part at the tick 1m, 2026-01-01T09:01:00Z

       time line, from 2026-01-01T09:00:00Z (> came, < was got)
        0s | > Login(card=1, device='phone')
       12s | > Withdrawal(card=1, amount=9.5) at 10s
        1m | <<< here they part
           | < Quick(card=1, amount=9.5) at 10s seen 12s
           | < Total(card=1, n=1) at 10s seen 1m
           | < greet(1, 'phone') for Login(card=1) at 1m
           | < ask(1, 9.5) for Quick(card=1) at 1m
           | the end

ok   tests.yaml:12 test 2
2 tests, 1 failed
cards.bicepl: tests made 4 of 7 classes and 2 of 3 statements happen
  line 7: class Due: no event of it came
  line 11: class Idle: it never took place
  line 15: class Known: it never took place
  line 5: statement 2 of Login: ON CHANGE DO move(NEW.card, OLD.occTime)
"""


def test_a_failure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = f"""events:
      {WARM}
    expect:
      - Quick(card=1, amount=9) at 10s
      - {{ event: Idle, card: 1, at: 5m, seen: 5m }}
    never: [ask]"""
    suite(tmp_path, wrong, "events: [Login(card=2) at 0s]\n    expect: []")
    monkeypatch.chdir(tmp_path)
    result = run("tests.yaml")
    assert result.stdout == GOLDEN
    assert result.exit_code == 1


def test_the_time_line_of_a_long_test_is_cut_around_the_parting(tmp_path: Path) -> None:
    events = "events: [Login(card=n) at 0s every 1m times 100, Withdrawal(card=50) at 50m]"
    result = run(suite(tmp_path, f"{events}\n    never: [Quick]"))
    assert "| <<< here they part\n" in result.stdout
    assert result.stdout.count(" | ") < 20
    assert " before\n" in result.stdout
    assert " after\n" in result.stdout


def test_suites_of_one_program_are_counted_together(tmp_path: Path) -> None:
    suite(tmp_path, "events: [Login(card=1) at 0s]\n    expect: []").rename(tmp_path / "one.yaml")
    suite(tmp_path, f"events:\n      {WARM}\n    expect_some: [Quick]").rename(tmp_path / "two.yaml")
    result = run(tmp_path / "one.yaml", tmp_path / "two.yaml")
    assert result.exit_code == 0
    assert result.stdout.count("cards.bicepl: tests made 4 of 7 classes") == 1


NASTY = "a <b> & \"c\" ]]> 'd' \\x1b[31m \\0"


def test_junit_is_valid_xml_with_a_case_a_test(tmp_path: Path) -> None:
    path = suite(tmp_path, f"events:\n      {WARM}\n    expect: []", f"events:\n      {WARM}\n    never: [Idle]")
    path.write_text(path.read_text().replace("name: test 1", f'name: "{NASTY}"'.replace('"c"', '\\"c\\"')))
    result = run(path, "--output", "junit")
    assert result.exit_code == 1
    root = ElementTree.fromstring(result.stdout)
    (found,) = root.findall("testsuite")
    assert {name: found.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "2",
        "failures": "1",
        "errors": "0",
    }
    first, second = found.findall("testcase")
    assert first.get("name") == "a <b> & \"c\" ]]> 'd' \ufffd[31m \ufffd"
    assert first.get("line") == "4"
    assert float(first.get("time", "x")) >= 0
    (failure,) = first.findall("failure")
    assert failure.get("message") == "other events than expected"
    assert "Quick(card=1, amount=9.5)" in (failure.text or "")
    assert second.findall("failure") == []


def test_junit_tells_what_could_not_be_run(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("program: none.bicepl\ntests: [{name: x, expct: []}]")
    result = run(tmp_path / "bad.yaml", "--output", "junit")
    assert result.exit_code == 2
    (error,) = ElementTree.fromstring(result.stdout).findall("testsuite/testcase/error")
    assert "expct" in (error.get("message") or "")


def test_json_tells_all(tmp_path: Path) -> None:
    result = run(suite(tmp_path, f"events:\n      {WARM}\n    expect: [Quick(card=2), Total]"), "--output", "json")
    found = json.loads(result.stdout)
    assert (found["tests"], found["failed"], found["errors"]) == (1, 1, 0)
    (test,) = found["suites"][0]["tests"]
    assert (test["name"], test["line"], test["engine"], test["passed"]) == ("test 1", 4, "local", False)
    (failure,) = test["failures"]
    assert (failure["line"], failure["tick"]) == (8, "2026-01-01T09:01:00Z")
    assert failure["lines"][0] == {
        "expected": "Quick(card=2)",
        "got": "Quick(card=1, amount=9.5) at 10s seen 12s",
        "differs": "not the same: card",
        "tick": "2026-01-01T09:01:00Z",
        "line": 8,
    }
    untried = {(one["what"], one["name"], one["number"]) for one in found["coverage"][0]["untried"]}
    assert ("statement", "Login", 2) in untried


# ---- exit codes ----------------------------------------------------------------------------------------------------


def test_one_suite_that_cannot_be_read_does_not_hide_another(tmp_path: Path) -> None:
    good = suite(tmp_path, "events: [Login(card=1) at 0s]\n    expect: []")
    result = run(tmp_path / "none.yaml", good)
    assert result.exit_code == 2
    assert "1 test, all passed" in result.stdout
    assert "there is no file" in result.stderr


def test_a_program_that_is_wrong_is_reported(tmp_path: Path) -> None:
    result = run(suite(tmp_path, "expect: []", program="CREATE NONSENSE;"))
    assert result.exit_code == 1
    assert "cards.bicepl:1:8" in result.stderr


def test_a_program_that_is_not_there_is_shown_in_the_suite(tmp_path: Path) -> None:
    path = suite(tmp_path, "expect: []")
    (tmp_path / "cards.bicepl").unlink()
    result = run(path)
    assert result.exit_code == 2
    assert "tests.yaml:1:10" in result.stderr


def test_wrong_usage(tmp_path: Path) -> None:
    assert run().exit_code == 2
    assert run("-", "--update").exit_code == 2
    assert run(suite(tmp_path, "expect: []"), "--output", "xml").exit_code == 2


# ---- speed ---------------------------------------------------------------------------------------------------------


def cpu_seconds(*arguments: str) -> float:
    """How long a Python process computes, its children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, timeout=120, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


TURNS = 5
TIMES_MAX = 2.5
"""On a slow or busy machine: what a small suite may take, loading included, as a multiple of loading the engine."""


def test_a_small_suite_takes_a_second_at_most_beyond_loading_the_engine() -> None:
    verb = (
        "import sys, typer; from augury.cli_test import register; app = typer.Typer(); app.callback()(lambda: None); "
    )
    verb += "register(app); app(sys.argv[1:], standalone_mode=False)"
    path = str(ROOT / "examples" / "card" / "tests.yaml")
    loading = "import augury.cli, augury.local.replay"
    taken = []
    for _ in range(TURNS):  # noise only adds: one turn without it is enough
        taken.append((cpu_seconds("-c", verb, "test", path), cpu_seconds("-c", loading)))
        suite_seconds, loaded = taken[-1]
        if suite_seconds < max(loaded + 1, TIMES_MAX * loaded):
            return
    pytest.fail(str(taken))


def test_no_jvm_is_started() -> None:
    code = "import sys; from augury.environment import Machine; from augury.trying.suite_verb import tested; "
    code += "found = tested(sys.argv[1:], 1, Machine(), update=False, tell=None); "
    code += "sys.exit(found.exit_code or 'pyspark' in sys.modules or 'py4j' in sys.modules)"
    cpu_seconds("-c", code, str(ROOT / "examples" / "groceries" / "tests.yaml"))

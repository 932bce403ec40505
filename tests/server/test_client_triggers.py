"""`augury.Client` and the verbs against a real server with triggers: answers, firings, switches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from augury.cli import app
from augury.client import Client, Problem
from tests.server.clients import Asked, asked

PROGRAM = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Report (account INT, amount INT) ID () LIFESPAN (30d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Claim (account INT, amount INT) ID () LIFESPAN (30d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Approved (account INT, amount INT) ID () LIFESPAN (30d);
CREATE COMPLEX EVENT CLASS Paid (account INT) ID (account) AS MATCH prior(Claim(account, _), Approved(account, _));
RULE Approve (account INT, amount INT)
  CONDITION amount <= 1000
  ACTION approve(account), POST Approved(account, amount)
  ALTERNATIVEACTION escalate(account, amount);
RULE GROUP Careful (Approve);
TRIGGER Pay (account INT, amount INT)
  TRIGGEREVENT Claim
  COMPOSITEEVENT Report > Claim CONTEXT CHRONICLE
  RULESTRUC Approve(account, amount)
  RETURNS INT : Approve;
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with asked(tmp_path_factory.mktemp("server"), PROGRAM) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Asked) -> Client:
    return server.client


def report(account: int) -> dict[str, object]:
    return {"event": "Report", "account": account, "amount": 1}


def claim(account: int, amount: int = 10) -> dict[str, object]:
    return {"event": "Claim", "account": account, "amount": amount}


def run(server: Asked, *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"AUGURY_URL": server.url, "AUGURY_TOKEN": server.token})


def test_who_notifies_is_told_what_became_of_the_event(client: Client) -> None:
    reported = client.notify(report(1))
    answer = client.notify(claim(1))
    assert (reported.firings, reported.returned, reported.refused) == ((), {}, None)
    (fired,) = answer.firings
    assert (fired.trigger, fired.event, fired.constituents) == ("Pay", "Claim", (reported.seq, answer.seq))
    assert fired.parameters == {"account": 1, "amount": 10}
    assert answer.returned == {"Pay": None}
    assert [(one["event"], one["account"]) for one in answer.occurrences] == [("Paid", 1)]
    assert not answer.is_absorbed


def test_an_event_that_was_notified_before_is_absorbed(client: Client) -> None:
    event = {**report(2), "event_id": "once"}
    assert not client.notify(event).is_absorbed
    again = client.notify(event)
    assert (again.is_absorbed, again.seq) == (True, None)


def test_one_that_is_refused_is_a_problem(client: Client) -> None:
    with pytest.raises(Problem, match="`account` is an INT"):
        client.notify({"event": "Claim", "account": "x"})


def test_triggers_rules_and_groups_are_typed(client: Client) -> None:
    (trigger,) = client.triggers()
    assert (trigger.name, trigger.enabled, trigger.events, trigger.returns) == ("Pay", True, ("Claim",), "INT")
    assert client.trigger("PAY") == trigger
    (rule,) = client.rules()
    assert (rule.name, rule.groups, [one.name for one in rule.parameters]) == (
        "Approve",
        ("Careful",),
        ["account", "amount"],
    )
    assert client.rule("approve") == rule
    assert client.groups() == (client.group("careful"),)
    assert client.group("careful").rules == ("Approve",)
    with pytest.raises(Problem, match="the program has no trigger called `Pat`: did you mean `Pay`"):
        client.trigger("Pat")


def test_a_trigger_whose_event_has_occurred_says_so(client: Client) -> None:
    assert not client.evaluate("Pay")
    client.notify(report(3))
    client.switch("trigger", "Pay", False)
    assert not client.trigger("Pay").enabled
    assert client.notify(claim(3)).firings == ()
    client.switch("trigger", "Pay", True)
    client.notify(report(3))
    assert [one.trigger for one in client.notify(claim(3)).firings] == ["Pay"]


@pytest.mark.parametrize(("kind", "name"), [("rule", "Approve"), ("group", "Careful")])
def test_a_rule_that_is_disabled_does_nothing(client: Client, kind: str, name: str) -> None:
    client.switch(kind, name, False)  # type: ignore[arg-type]
    client.notify(report(4))
    answer = client.notify(claim(4))
    client.switch(kind, name, True)  # type: ignore[arg-type]
    assert ([one.trigger for one in answer.firings], answer.occurrences) == (["Pay"], ())


def test_firings_come_page_by_page_and_live(client: Client) -> None:
    with closing(client.live_firings("Pay")) as live:
        for account in (5, 6):
            client.notify(report(account))
            client.notify(claim(account))
        told = [next(live)]
        while told[-1]["account"] != 6:
            told.append(next(live))
        cursor = live.cursor
    every = list(client.firings("pay"))
    assert every[-len(told) :] == told
    assert [row["number"] for row in every] == list(range(1, len(every) + 1))
    assert [(row["trigger"], row["account"]) for row in told[-2:]] == [("Pay", 5), ("Pay", 6)]
    assert list(client.firings(after=cursor)) == []


# ---- the verbs -----------------------------------------------------------------------------------------------------


def test_the_verbs_ask_a_server(server: Asked) -> None:
    events = [json.dumps(event) for event in (report(7), claim(7))]
    result = run(server, "notify", *events, "--output", "ndjson")
    assert result.exit_code == 0, result.stderr
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [[one["trigger"] for one in answer["firings"]] for answer in answers] == [[], ["Pay"]]
    assert run(server, "trigger", "disable", "Pay").stderr == "the trigger `Pay` is disabled\n"
    (row,) = json.loads(run(server, "trigger", "ls", "--output", "json").stdout)
    assert (row["name"], row["enabled"]) == ("Pay", False)
    assert run(server, "trigger", "enable", "Pay").exit_code == 0
    assert run(server, "trigger", "show", "Pay").stdout.endswith("enabled; its event has not occurred\n")
    assert run(server, "rule", "disable", "Careful", "--group").exit_code == 0
    assert run(server, "rule", "enable", "Careful", "--group").exit_code == 0
    assert "Approve" in run(server, "rule", "ls").stdout
    assert run(server, "trigger", "show", "Pat").exit_code == 2


def test_the_fire_log_goes_on_after_a_cursor(server: Asked, client: Client) -> None:
    client.notify(report(8))
    client.notify(claim(8))
    with closing(client.live_firings()) as live:
        client.notify(report(9))
        client.notify(claim(9))
        next(row for row in live if row["account"] == 9)
    first = run(server, "trigger", "fire-log", "--limit", "1", "--output", "ndjson")
    assert json.loads(first.stdout)["number"] == 1
    cursor = first.stderr.removeprefix("go on with --after ").strip()
    rest = run(server, "trigger", "fire-log", "Pay", "--after", cursor, "--output", "ndjson")
    numbers = [json.loads(line)["number"] for line in rest.stdout.splitlines()]
    assert numbers == list(range(2, len(numbers) + 2))
    assert "Pay" in run(server, "trigger", "fire-log").stdout


# ---- programs that change ------------------------------------------------------------------------------------------

GREET = "RULE Greet (account INT) ACTION greet(account);"
HELLO = "TRIGGER Hello (account INT, amount INT) TRIGGEREVENT Report RULESTRUC Greet(account);"


def test_a_program_takes_the_place_of_another(tmp_path: Path) -> None:
    with asked(tmp_path, PROGRAM) as server:
        client = server.client
        client.notify(report(1))
        larger = f"{PROGRAM}\n{GREET}\n{HELLO}\n"
        planned = client.plan(larger)
        assert {(one.kind, one.name) for one in planned.changes} >= {("rule", "Greet"), ("trigger", "Hello")}
        assert client.program() == PROGRAM
        assert client.apply(larger) == planned
        assert client.program() == larger
        assert [one.trigger for one in client.notify(report(2)).firings] == ["Hello"]
        assert [one.constituents for one in client.notify(claim(1)).firings] == [(1, 3)]


def test_things_are_put_and_dropped_one_by_one(tmp_path: Path) -> None:
    with asked(tmp_path, PROGRAM) as server:
        client = server.client
        client.put("rule", "Greet", GREET)
        tried = client.put("trigger", "Hello", HELLO, dry_run=True)
        assert len(client.triggers()) == 1
        assert client.put("trigger", "Hello", HELLO) == tried
        assert [one.trigger for one in client.notify(report(1)).firings] == ["Hello"]
        with pytest.raises(Problem) as raised:
            client.drop("rule", "Greet")
        assert raised.value.diagnostics
        assert ("trigger", "Hello") in {(one.kind, one.name) for one in client.drop("trigger", "Hello").changes}
        client.drop("rule", "Greet")
        assert client.notify(report(2)).firings == ()
        with pytest.raises(Problem, match="the program has no trigger called `Hello`"):
            client.drop("trigger", "Hello")
        for do in (lambda: client.drop("triger", "Pay"), lambda: client.switch("triger", "Pay", False)):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=r"no kind `triger` .* there are class, rule, group, trigger"):
                do()


def test_the_verbs_plan_and_apply(tmp_path: Path) -> None:
    with asked(tmp_path, PROGRAM) as server:
        file = tmp_path / "larger.bicepl"
        file.write_text(f"{PROGRAM}\n{GREET}\n{HELLO}\n")
        planned, applied = run(server, "plan", str(file)), run(server, "apply", str(file))
        assert (planned.exit_code, applied.exit_code) == (0, 0), planned.stderr + applied.stderr
        assert planned.stdout == applied.stdout
        assert "Hello" in planned.stdout
        assert run(server, "plan", str(file)).stdout == "nothing changes\n"
        dropped = run(server, "trigger", "drop", "Hello", "--output", "json")
        assert "Hello" in [one["name"] for one in json.loads(dropped.stdout)]
        assert [one.name for one in server.client.triggers()] == ["Pay"]


LOUD = "RULE Greet (account INT) CONDITION account > 1 ACTION greet(account);"
FRIENDS = "RULE GROUP Friends (Greet, Approve);"


def test_the_verbs_put_show_and_drop(tmp_path: Path) -> None:
    def changed(*arguments: str) -> list[tuple[str, str, str]]:
        result = run(here, *arguments, "--output", "json")
        assert result.exit_code == 0, result.stderr
        return [(one["kind"], one["name"], one["what"]) for one in json.loads(result.stdout) if one["what"] != "same"]

    def file(text: str) -> str:
        (tmp_path / "one.bicepl").write_text(text)
        return str(tmp_path / "one.bicepl")

    with asked(tmp_path, PROGRAM) as here:
        assert changed("rule", "put", file(GREET), "--dry-run") == [("rule", "Greet", "added")]
        assert run(here, "rule", "show", "Greet").exit_code == 2
        assert changed("rule", "put", file(GREET)) == [("rule", "Greet", "added")]
        assert changed("trigger", "put", file(f"-- a greeting\n{HELLO}\n")) == [("trigger", "Hello", "added")]
        assert [one.trigger for one in here.client.notify(report(1)).firings] == ["Hello"]
        assert changed("rule", "put", file(LOUD)) == [("rule", "Greet", "changed")]
        assert ("group", "Friends", "added") in changed("rule", "put", file(FRIENDS))
        shown = run(here, "rule", "show", "greet").stdout
        assert (shown.splitlines()[0], shown.splitlines()[-1]) == ("rule Greet (account INT) in Friends", "enabled")
        shown = run(here, "rule", "show", "Friends", "--group").stdout
        assert shown == "group Friends of Greet, Approve\n\nenabled\n"
        (row,) = json.loads(run(here, "rule", "show", "Greet", "--output", "json").stdout)
        assert row["groups"] == ["Friends"]
        hello = HELLO.replace("TRIGGEREVENT Report", "TRIGGEREVENT Claim")
        assert changed("trigger", "put", file(hello)) == [("trigger", "Hello", "changed")]
        assert [one.trigger for one in here.client.notify(report(2)).firings] == []
        assert ("group", "Friends", "removed") in changed("rule", "drop", "Friends", "--group")
        refused = run(here, "rule", "drop", "Greet")
        assert (refused.exit_code, "Greet" in refused.stderr) == (1, True)
        assert changed("trigger", "drop", "Hello") == [("trigger", "Hello", "removed")]
        assert changed("rule", "drop", "Greet", "--dry-run") == [("rule", "Greet", "removed")]
        assert changed("rule", "drop", "Greet") == [("rule", "Greet", "removed")]
        assert [one.name for one in here.client.rules()] == ["Approve"]


def test_what_is_wrong_with_a_statement_is_told_with_its_file(server: Asked, tmp_path: Path) -> None:
    file = tmp_path / "wrong.bicepl"
    file.write_text("RULE Wrong (account INT) CONDITION acount > 1 ACTION greet(account);")
    result = run(server, "rule", "put", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "acount" in result.stderr
    assert f"--> {file}\n" in result.stderr, "its place is that in the program of the server"


def test_the_fire_log_is_followed_until_there_are_so_many(server: Asked, client: Client) -> None:
    cursor = client.firings()
    before = len(list(cursor))
    words = ["trigger", "fire-log", "Pay", "--follow", "--limit", "2"]
    environment = {**os.environ, "AUGURY_URL": server.url, "AUGURY_TOKEN": server.token, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "augury", *words, "--after", str(cursor.cursor)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as log:
        try:
            for account in (21, 22):
                client.notify(report(account))
                client.notify(claim(account))
            told, said = log.communicate(timeout=60)
        finally:
            log.kill()
    rows = [json.loads(line) for line in told.splitlines()]
    assert [(row["trigger"], row["account"], row["number"]) for row in rows] == [
        ("Pay", 21, before + 1),
        ("Pay", 22, before + 2),
    ]
    assert log.returncode == 0
    (went_on,) = said.splitlines()
    assert list(client.firings("Pay", after=went_on.removeprefix("go on with --after "))) == []


def test_a_fire_log_that_is_followed_tells_a_firing_when_it_comes_and_ends_by_ctrl_c(
    server: Asked, client: Client
) -> None:
    environment = {**os.environ, "AUGURY_URL": server.url, "AUGURY_TOKEN": server.token, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "augury", "trigger", "fire-log", "--follow"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as log:
        ending = threading.Timer(60, log.kill)  # so that nobody waits for ever
        ending.start()
        is_told = threading.Event()
        poster = threading.Thread(target=_post_until, args=(client, is_told))
        poster.start()
        try:
            assert log.stdout is not None
            first = log.stdout.readline()
        finally:
            is_told.set()
            poster.join()
            log.send_signal(signal.SIGINT)
            _, said = log.communicate(timeout=30)
            ending.cancel()
    assert json.loads(first)["trigger"] == "Pay"
    assert (log.returncode, said.startswith("go on with --after ")) == (0, True), said


def _post_until(client: Client, is_over: threading.Event) -> None:
    """Let the trigger fire again and again: who follows hears what comes after it has begun."""
    while not is_over.wait(0.3):
        client.notify(report(30))
        client.notify(claim(30))

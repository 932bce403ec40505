"""The verbs that ask a server: which token they send, how they show an answer, and how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from augury.cli import app
from augury.diagnostics import to_json
from tests.server.scripted import Deed, Script, say, serving

ANSWER: dict[str, Any] = {
    "place": 1,
    "seq": 7,
    "refused": None,
    "absorbed": False,
    "returned": {"Pay": 3},
    "firings": [
        {
            "trigger": "Pay",
            "number": 1,
            "event": "Claim",
            "key": {},
            "seq": 7,
            "constituents": [3, 7],
            "parameters": {"account": 1},
            "returned": 3,
        }
    ],
    "occurrences": [],
}
TRIGGER = {
    "name": "Pay",
    "enabled": True,
    "parameters": [{"name": "account", "type": "INT"}],
    "events": ["Claim"],
    "returns": "INT",
    "text": "TRIGGER Pay …\n",
}


def run(script: Script, *arguments: str, given: str | None = None, **variables: str) -> Result:
    environment = {"AUGURY_URL": script.url, "AUGURY_TOKEN": None, **variables}
    return CliRunner().invoke(app, arguments, input=given, env=environment)


def asked(*arguments: str, answer: Any, given: str | None = None) -> tuple[Result, Script]:
    with serving(say(200, answer)) as script:
        return run(script, *arguments, given=given), script


# ---- tokens --------------------------------------------------------------------------------------------------


def test_the_token_is_taken_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("aug_file\n")
    with serving(*[say(200, {"triggers": []})] * 4) as script:
        results = [
            run(script, "trigger", "ls"),
            run(script, "trigger", "ls", AUGURY_TOKEN="aug_1"),
            run(script, "trigger", "ls", "--token-env", "MINE", MINE="aug_2", AUGURY_TOKEN="aug_1"),
            run(script, "trigger", "ls", "--token-file", str(file), AUGURY_TOKEN="aug_1"),
        ]
    assert [one.exit_code for one in results] == [0] * 4
    sent = [one.headers.get("Authorization") for one in script.asked]
    assert sent == [None, "Bearer aug_1", "Bearer aug_2", "Bearer aug_file"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token-env", "MINE"], "error: the environment has no variable `MINE`, which should hold the token\n"),
        (["--token-file", "nowhere"], "error: the token `nowhere` cannot be read: No such file or directory\n"),
    ],
)
def test_a_token_that_was_named_has_to_be_there(arguments: list[str], message: str) -> None:
    with serving() as script:
        result = run(script, "rule", "ls", *arguments)
    assert (result.exit_code, result.stderr) == (2, message)
    assert script.asked == []


# ---- how it ends -----------------------------------------------------------------------------------------------

NO_TOKEN = say(401, {"detail": "a token is needed: Authorization: Bearer TOKEN"})


@pytest.mark.parametrize(
    ("deed", "exit_code", "message"),
    [
        pytest.param(NO_TOKEN, 2, "TOKEN\n  = help: give a token: put it into AUGURY_TOKEN, or name", id="401"),
        pytest.param(say(403, {"detail": "it needs the role define"}), 2, "  = help: ask whoever runs", id="403"),
        pytest.param(say(404, {"detail": "no trigger called `X`"}), 2, "error: no trigger called `X`\n", id="404"),
        pytest.param(say(409, {"detail": "BIND"}), 1, "error: BIND\n", id="409"),
        pytest.param(say(500, {"detail": "the server failed"}), 3, "error: the server failed\n", id="500"),
    ],
)
def test_a_no_is_told_and_ends_the_command(deed: Deed, exit_code: int, message: str) -> None:
    with serving(deed) as script:
        result = run(script, "trigger", "enable", "X")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr


def test_a_server_that_is_away_is_told() -> None:
    with serving() as script:
        pass
    result = run(script, "trigger", "ls")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"error: {script.url} does not answer: ")


def test_what_is_no_address_is_told() -> None:
    result = CliRunner().invoke(app, ["trigger", "ls", "--url", "localhost"])
    assert result.exit_code == 2
    assert "`localhost` is no address of a server" in result.stderr


# ---- events ----------------------------------------------------------------------------------------------------


def test_notify_shows_what_became_of_each() -> None:
    with serving(say(200, ANSWER), say(422, {"detail": "no such class"}), say(200, ANSWER)) as script:
        result = run(script, "notify", '{"event": "Claim"}', "-", "--output", "ndjson", given='{"a": 1}\n\n{"b": 1}\n')
    assert result.exit_code == 1
    assert result.stderr == "error: event 2 is refused: no such class\n"
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["seq"], one["returned"], one["firings"][0]["constituents"]) for one in lines] == [
        (7, {"Pay": 3}, [3, 7])
    ] * 2
    assert [one.path for one in script.asked] == ["/v1/events?wait=read"] * 3
    assert all("event_id" in json.loads(one.body) for one in script.asked)


def test_notify_draws_a_table() -> None:
    result, _ = asked("notify", "{}", answer=ANSWER)
    head, _, row = result.stdout.splitlines()
    assert head.split() == ["seq", "fired", "returned", "occurrences"]
    assert row.split() == ["7", "Pay", "1", '{"Pay":', "3}", "0"]


def test_notify_warns_of_rules_that_failed() -> None:
    (fired,) = ANSWER["firings"]
    failed = [{"rule": "Approve", "reason": "price failed: ValueError: no"}]
    answer = {**ANSWER, "firings": [{**fired, "returned": None, "failed": failed}], "returned": {"Pay": None}}
    result, _ = asked("notify", "{}", "--output", "ndjson", answer=answer)
    assert result.exit_code == 0
    assert result.stderr == "warning: event 1: rule `Approve` of trigger `Pay`: price failed: ValueError: no\n"
    assert json.loads(result.stdout)["firings"][0]["failed"] == failed


def test_notify_durably_posts_all_at_once() -> None:
    answer = {"accepted": 1, "refused": [{"line": 2, "reason": "why"}]}
    result, script = asked("notify", "--durable", "-", "--output", "json", answer=answer, given='{"a": 1}\n{"b": 1}\n')
    assert (result.exit_code, result.stderr) == (1, "error: event 2 is refused: why\n")
    assert json.loads(result.stdout) == [{"accepted": 1, "refused": 1}]
    assert len(script.asked) == 1


# ---- triggers and rules ----------------------------------------------------------------------------------------


def test_lists_are_drawn_or_written() -> None:
    table, _ = asked("trigger", "ls", answer={"triggers": [TRIGGER]})
    assert table.stdout.splitlines()[2].split() == ["Pay", "yes", "account", "INT", "Claim", "INT"]
    lines, _ = asked("trigger", "ls", "--output", "ndjson", answer={"triggers": [TRIGGER]})
    assert json.loads(lines.stdout)["events"] == ["Claim"]
    none, _ = asked("rule", "ls", answer={"rules": []})
    assert none.stdout == "none\n"
    empty, _ = asked("rule", "ls", "--groups", "--output", "json", answer={"groups": []})
    assert empty.stdout == "[]\n"


def test_a_trigger_is_shown_with_whether_it_has_occurred() -> None:
    with serving(say(200, TRIGGER), say(200, {"trigger": "Pay", "occurred": True})) as script:
        result = run(script, "trigger", "show", "Pay")
    assert result.stdout == "TRIGGER Pay …\n\nenabled; its event has occurred, and waits to be used\n"


@pytest.mark.parametrize(
    ("arguments", "path", "told"),
    [
        (["trigger", "enable", "Pay"], "/v1/triggers/Pay/enable", "the trigger `Pay` is enabled\n"),
        (["trigger", "disable", "a/b"], "/v1/triggers/a%2Fb/disable", "the trigger `a/b` is disabled\n"),
        (["rule", "enable", "R"], "/v1/rules/R/enable", "the rule `R` is enabled\n"),
        (["rule", "disable", "g", "--group"], "/v1/groups/g/disable", "the group `g` is disabled\n"),
    ],
)
def test_things_are_switched(arguments: list[str], path: str, told: str) -> None:
    result, script = asked(*arguments, answer={})
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", told)
    assert (script.asked[0].method, script.asked[0].path) == ("POST", path)


CHANGES = {"changes": [], "replays": False, "lines": []}


@pytest.mark.parametrize(
    ("verb", "text", "path"),
    [
        ("trigger", "TRIGGER `a/b` () TRIGGEREVENT E RULESTRUC R;", "/v1/triggers/a%2Fb?dry_run=false"),
        ("rule", "RULE R () ACTION tell(1);", "/v1/rules/R?dry_run=false"),
        ("rule", "RULE GROUP g (R);", "/v1/groups/g?dry_run=false"),
    ],
)
def test_a_statement_is_put_under_the_name_that_it_declares(verb: str, text: str, path: str) -> None:
    result, script = asked(verb, "put", "-", answer=CHANGES, given=text)
    assert (result.exit_code, result.stdout) == (0, "nothing changes\n"), result.stderr
    assert (script.asked[0].method, script.asked[0].path, script.asked[0].body.decode()) == ("PUT", path, text)


@pytest.mark.parametrize(
    ("verb", "text", "message"),
    [
        ("trigger", "RULE R () ACTION tell(1);", "should hold one statement, which declares a trigger\n"),
        ("rule", "RULE R () ACTION t(1); RULE S () ACTION t(1);", "one statement, which declares a rule or a group\n"),
        ("rule", "", "one statement, which declares a rule or a group\n"),
        ("rule", "RULE R (", "error[E1"),
    ],
)
def test_what_is_no_such_statement_is_told_and_not_sent(verb: str, text: str, message: str) -> None:
    result, script = asked(verb, "put", "-", answer=CHANGES, given=text)
    assert (result.exit_code, script.asked) == (1, [])
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (["trigger", "drop", "Pay"], "/v1/triggers/Pay?dry_run=false"),
        (["rule", "drop", "R", "--dry-run"], "/v1/rules/R?dry_run=true"),
        (["rule", "drop", "g", "--group"], "/v1/groups/g?dry_run=false"),
    ],
)
def test_things_are_dropped(arguments: list[str], path: str) -> None:
    result, script = asked(*arguments, answer=CHANGES)
    assert (result.exit_code, script.asked[0].method, script.asked[0].path) == (0, "DELETE", path)


def test_the_fire_log_says_where_to_go_on() -> None:
    page = {"rows": [{"trigger": "Pay", "number": 1, "constituents": [1, 2]}], "cursor": "abc", "more": False}
    result, script = asked("trigger", "fire-log", "Pay", "--limit", "5", answer=page)
    assert result.stderr == "go on with --after abc\n"
    assert result.stdout.splitlines()[2].split() == ["Pay", "1", "1,", "2"]
    assert script.asked[0].path == "/v1/firings?name=Pay&limit=5"


# ---- programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_what_is_wrong_with_a_program_is_shown_in_its_file(verb: str, tmp_path: Path) -> None:
    import augury

    text = "CREATE COMPLEX EVENT CLASS A (x INT) ID (x) AS MATCH B(x);\n"
    file = tmp_path / "wrong.bicepl"
    file.write_text(text)
    checked = augury.check(text)
    told = [to_json(one, checked.source) for one in checked.errors]
    with serving(say(422, {"detail": "…", "diagnostics": told})) as script:
        result = run(script, verb, str(file))
    assert result.exit_code == 1
    assert f"{file}:1:54" in result.stderr
    assert script.asked[0].body.decode() == text


def test_a_file_that_is_not_there_is_told() -> None:
    with serving() as script:
        result = run(script, "plan", "nowhere.bicepl")
    assert result.exit_code == 2
    assert "there is no file `nowhere.bicepl`" in result.stderr

"""The command line from the outside: arguments, output, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from augury import __version__
from augury.cli import app

ROOT = Path(__file__).parents[1]
CARD = str(ROOT / "examples" / "card" / "card.bicepl")
GOOD = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID (x) LIFESPAN (1d);\n"
PIPED = GOOD + "CREATE COMPLEX EVENT CLASS B () ID () AS MATCH !A | A;\n"
BAD = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INTT) ID (y) LIFESPAN (1d);\n"


def run(*args: str, stdin: str | None = None):
    return CliRunner().invoke(app, list(args), input=stdin)


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str, name: str = "p.bicepl") -> str:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return str(path)

    return write


def test_the_version() -> None:
    assert run("--version").stdout == f"augury {__version__}\n"


def test_check_says_what_a_good_program_holds(file) -> None:
    done = run("check", file(GOOD))
    assert done.exit_code == 0
    assert done.stdout.endswith("ok, 1 class\n")
    assert done.stderr == ""


def test_check_reports_all_mistakes_on_standard_error(file) -> None:
    done = run("check", file(BAD))
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "error[E204]" in done.stderr
    assert "error[E205]" in done.stderr
    assert done.stderr.endswith("2 errors\n")


def test_check_as_json_is_one_array_on_standard_output(file) -> None:
    done = run("check", file(BAD), "--output", "json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)
    assert [d["code"] for d in found] == ["E204", "E205"]
    assert BAD[found[0]["start"] : found[0]["end"]] == "INTT"
    assert (found[0]["line"], found[0]["column"]) == (1, 46)
    assert json.loads(run("check", file(GOOD), "--output", "json").stdout) == []


def test_several_files_are_programs_of_their_own(file) -> None:
    done = run("check", file(GOOD, "a.bicepl"), file(GOOD, "b.bicepl"), file(BAD, "c.bicepl"))
    assert done.exit_code == 1
    assert done.stdout.count("ok, 1 class") == 2


def test_warnings_fail_only_when_strict(file) -> None:
    lax, strict = run("check", file(PIPED)), run("check", "--strict", file(PIPED))
    assert (lax.exit_code, strict.exit_code) == (0, 1)
    assert "warning[W301]" in lax.stderr
    assert "1 warning" in lax.stdout


def test_standard_input_is_a_dash() -> None:
    assert run("check", "-", stdin=GOOD).exit_code == 0


def test_fmt_prints_the_canonical_form_and_keeps_comments() -> None:
    done = run("fmt", "-", stdin="-- one\nset chronon 15M; -- two\n")
    assert done.exit_code == 0
    assert done.stdout == "-- one\nSET CHRONON 15m;  -- two\n"


def test_fmt_write_and_check(file) -> None:
    path = file("set chronon 15m;")
    assert run("fmt", "--check", path).exit_code == 1
    assert run("fmt", "--write", path).exit_code == 0
    assert Path(path).read_text("utf-8") == "SET CHRONON 15m;\n"
    assert run("fmt", "--check", path).exit_code == 0


def test_fmt_leaves_a_broken_file_alone(file) -> None:
    path = file("set chronon")
    done = run("fmt", "--write", path)
    assert done.exit_code == 1
    assert "error[E1" in done.stderr
    assert Path(path).read_text("utf-8") == "set chronon"


def test_explain_shows_a_class_at_both_stages() -> None:
    assert "MATCH\n    for some card STRING" in run("explain", CARD, "suspicious").stdout
    assert run("explain", CARD, "Suspicious", "--stage", "syntax").stdout.startswith("ComplexClass")


def test_explain_shows_the_automaton_of_a_match() -> None:
    assert run("explain", CARD, "Suspicious", "--stage", "automaton").stdout.startswith("Suspicious: 3 states")
    assert run("explain", CARD, "--stage", "automaton", "--dot").stdout.startswith("digraph automaton {")
    assert "no MATCH class called `Login`" in run("explain", CARD, "Login", "--stage", "automaton").stderr


def test_explain_says_at_which_stage_a_class_is_seen() -> None:
    assert "see it with --stage algebra" in run("explain", CARD, "Login", "--stage", "automaton").stderr
    done = run("explain", CARD, "Suspicious", "--stage", "graph")
    assert "no COMPOSITE class called `Suspicious`" in done.stderr
    assert "see it with --stage automaton" in done.stderr


def test_explain_of_an_unknown_name_proposes_one() -> None:
    done = run("explain", CARD, "Suspicius")
    assert done.exit_code == 1
    assert "did you mean `Suspicious`?" in done.stderr


def test_explain_of_a_code() -> None:
    done = run("explain", "e203")
    assert done.exit_code == 0
    assert done.stdout.startswith("E203: ")


def test_explain_of_a_code_that_is_none_proposes_one() -> None:
    done = run("explain", "E2030")
    assert (done.exit_code, "E500" in done.stderr) == (2, True)
    done = run("explain", "E999")
    assert done.exit_code == 2
    assert "there is no error code `E999`" in done.stderr
    assert "help: " in done.stderr


def test_explain_of_a_broken_program_shows_its_errors(file) -> None:
    done = run("explain", file(BAD))
    assert done.exit_code == 1
    assert "error[E204]" in done.stderr


def test_infer_drafts_what_check_accepts(file) -> None:
    data = file('{"event": "Order", "occ_time": "2026-01-01T09:00:00Z", "account": 121, "quantity": 40}\n', "o.jsonl")
    drafted = run("infer", data)
    assert drafted.exit_code == 0
    assert "EVENT CLASS Order" in drafted.stdout
    assert run("check", "-", stdin=drafted.stdout).exit_code == 0


@pytest.mark.parametrize("command", ["check", "fmt", "explain", "infer"])
def test_a_missing_file_is_wrong_usage(command: str) -> None:
    done = run(command, "no/such/file.bicepl")
    assert done.exit_code == 2
    assert "no/such/file.bicepl" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_exits_with_two() -> None:
    assert run("check").exit_code == 2
    assert run("nonsense").exit_code == 2
    assert run("explain", CARD, "--stage", "nonsense").exit_code == 2

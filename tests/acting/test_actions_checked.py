"""What `augury check` says of actions that nobody carries out, with and without settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from augury.cli import app

CLOCK = "CREATE CLOCK EVENT CLASS Morning AT '0 9 * * 1-5' ON ONTIME DO Boil(), pour('tea'), pour('milk');\n"
RULE = "RULE Greet () ACTION greet();\n"
BOUND = '[actions.bind.boil]\nto = "LOG"\n'
BOTH = BOUND + '[actions.bind.POUR]\nto = "LOG"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which commands are given; the program lies one below."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    return tmp_path


def checked(folder: Path, text: str, *options: str) -> Result:
    (folder / "shop" / "a.bicepl").write_text(text)
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["check", "shop/a.bicepl", *options])


def note(names: str, verbs: tuple[str, str] = ("have", "wait"), unless: str = "") -> str:
    return f"shop/a.bicepl: note[N304]: {names} {verbs[0]} no executor{unless}, and {verbs[1]} in the outbox\n"


def test_of_a_program_that_binds_nothing_there_is_one_note(folder: Path) -> None:
    found = checked(folder, CLOCK + RULE, "--strict")
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout == "shop/a.bicepl: ok, 1 class, 1 rule\n" + note("`Boil`, `pour`, `greet`")


def test_what_settings_bind_has_an_executor(folder: Path) -> None:
    (folder / "augury.toml").write_text(BOUND)
    assert checked(folder, CLOCK).stdout == "shop/a.bicepl: ok, 1 class\n" + note("`pour`", ("has", "waits"))
    (folder / "augury.toml").write_text(BOTH)
    assert checked(folder, CLOCK).stdout == "shop/a.bicepl: ok, 1 class\n"


def test_settings_lie_here_or_beside_the_program_or_are_named(folder: Path) -> None:
    (folder / "shop" / "augury.toml").write_text(BOTH)
    assert "N304" not in checked(folder, CLOCK).stdout
    (folder / "augury.toml").write_text("")  # those that `augury actions run` would take
    assert "`Boil`, `pour`" in checked(folder, CLOCK).stdout
    assert "N304" not in checked(folder, CLOCK, "--settings", "shop/augury.toml").stdout
    assert checked(folder, CLOCK, "--settings", "nowhere.toml").exit_code == 2


def test_a_program_that_binds_some_is_warned_of_what_settings_do_not_bind_either(folder: Path) -> None:
    text = CLOCK + RULE + "BIND greet TO LOG;\n"
    assert [d["code"] for d in json.loads(checked(folder, text, "--output", "json").stdout)] == ["W393", "W393"]
    (folder / "augury.toml").write_text(BOUND)
    found = checked(folder, text, "--strict")
    assert found.exit_code == 1
    assert found.stderr.count("W393") == 1
    assert "the action `pour` has no executor" in found.stderr
    (folder / "augury.toml").write_text(BOTH)
    found = checked(folder, text, "--strict")
    assert (found.exit_code, found.stdout) == (0, "shop/a.bicepl: ok, 1 class, 1 rule\n")


@pytest.mark.parametrize("binds", ["", "BIND greet TO LOG;\n"])
def test_functions_of_modules_may_carry_them_out(folder: Path, binds: str) -> None:
    (folder / "augury.toml").write_text('[actions]\nmodules = ["no.such.module"]\n' + BOUND)
    found = checked(folder, CLOCK + (RULE + binds if binds else ""), "--strict")
    assert (found.exit_code, found.stderr) == (0, "")
    assert note("`pour`", ("has", "waits"), ", unless a function of no.such.module does it") in found.stdout


def test_a_note_has_its_places_in_json(folder: Path) -> None:
    (found,) = json.loads(checked(folder, CLOCK, "--output", "json").stdout)
    assert (found["code"], found["severity"]) == ("N304", "note")
    assert CLOCK[found["start"] : found["end"]] == "Boil()"
    assert [CLOCK[other["start"] : other["end"]] for other in found["others"]] == ["pour('tea')"]
    assert found["helps"] == ["write e.g. BIND Boil TO LOG, or bind it in augury.toml"]


def test_settings_that_are_wrong_are_said_and_the_program_is_checked(folder: Path) -> None:
    (folder / "augury.toml").write_text('[actions]\ncomands = []\n[actions.bind.boil]\nto = "PIGEON"\n')
    found = checked(folder, CLOCK)
    assert found.exit_code == 1
    assert found.stdout == "shop/a.bicepl: ok, 1 class\n" + note("`Boil`, `pour`")
    assert found.stderr.count("error[E506]") == 2
    assert "did you mean `commands`?" in found.stderr
    assert " --> augury.toml\n" in found.stderr

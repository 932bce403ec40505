"""What `make demo` runs: its commands as they stand in the Makefile, but for those that start Spark."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from augury.api import compile
from augury.cli import app

ROOT = Path(__file__).parents[1]
STORES = {"build/demo/lake": "groceries", "build/demo/parcels-lake": "parcels"}
"""The lakes that streams leave, and of which example each is."""


def recipe() -> list[str]:
    """The lines of the demo, those that go on in the next one joined."""
    text = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    found = re.search(r"^demo:.*\n((?:\t.*\n)+)", text, re.MULTILINE)
    assert found is not None
    return [line.strip() for line in found[1].splitlines()]


def commands() -> list[list[str]]:
    return [shlex.split(line)[1:] for line in recipe() if line.startswith("$(AUGURY)")]


def shown() -> list[list[str]]:
    """The commands that it ends with, for whoever wants to look at the results."""
    said = (re.fullmatch(r'@echo "  \$\(AUGURY\) (.*)"', line) for line in recipe())
    return [shlex.split(one[1]) for one in said if one is not None]


def test_it_runs_the_groceries_and_a_larger_example_on_spark_and_ends_by_showing_how_to_look() -> None:
    on_spark = [words[1] for words in commands() if "spark-stream" in words]
    assert on_spark == ["examples/groceries/groceries.bicepl", "examples/parcels/parcels.bicepl"]
    assert {words[words.index("--store") + 1] for words in shown()} == STORES.keys()
    assert recipe()[-1].startswith("@echo")
    for words in [*shown(), *(one for one in commands() if one[-1] in STORES and one[0] == "history")]:
        verb, name, *_ = words
        example = STORES[words[words.index("--store") + 1]]
        program = compile((ROOT / "examples" / example / f"{example}.bicepl").read_text("utf-8"))
        assert (verb, program.class_plan(name) is not None) == ("history", True)


def test_what_needs_no_spark_does_what_it_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    of_lakes = [words for words in commands() if "--engine" in words or words[-1] in STORES]
    rest = [words for words in commands() if words not in of_lakes]
    assert [words[0] for words in rest] == [
        "check",
        "run",
        "history",
        "history",
        "history",
        "explain",
        "explain",
        "explain",
    ]
    for words in rest:
        done = CliRunner().invoke(app, [word.replace("build/demo", str(tmp_path)) for word in words])
        assert (done.exit_code, bool(done.stdout)) == (0, True), (words, done.stderr)

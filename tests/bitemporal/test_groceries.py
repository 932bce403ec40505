"""The example that `make demo` shows first: what is printed stands beside it, however the engine is driven."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

import augury
from augury.cli import app
from augury.engine.lines import tick_lines

FOLDER = Path(__file__).parents[2] / "examples" / "groceries"
PROGRAM, EVENTS = FOLDER / "groceries.bicepl", FOLDER / "events.jsonl"
EXPECTED = (FOLDER / "expected.ndjson").read_text("utf-8").splitlines()
SUMMARY = """\
15 versions, 1 duplicate absorbed, 1 event rejected, 11 actions
  {}:8: `ResourceEmpty` is immutable, and {{"resource": "milk"}} is already there since seq 4
"""


@pytest.mark.parametrize("keeps", [False, True], ids=["in memory", "in a store"])
def test_a_run_prints_what_is_expected(keeps: bool, tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "fridge.db")] if keeps else []
    done = CliRunner().invoke(app, ["run", str(PROGRAM), "--events", str(EVENTS), "--engine", "local", *store])
    assert done.exit_code == 0
    assert done.stdout.splitlines() == EXPECTED
    assert done.stderr == SUMMARY.format(EVENTS)


def test_an_engine_that_is_opened_anew_for_every_event_does_the_same(tmp_path: Path) -> None:
    program = augury.compile(PROGRAM.read_text("utf-8"))
    printed = []
    for line in EVENTS.read_text("utf-8").splitlines():
        with augury.LocalEngine(program, str(tmp_path / "fridge.db")) as engine:
            printed += [text for one in engine.advance_to(_detected(line)) for text in tick_lines(one)]
            engine.post(line)
    with augury.LocalEngine(program, str(tmp_path / "fridge.db")) as engine:
        ticked = engine.advance_to(datetime.fromisoformat("2026-03-09T07:00:00Z"))
        printed += [text for one in ticked for text in tick_lines(one)]
        assert engine.reports == []
    assert printed == EXPECTED


def _detected(line: str) -> datetime:
    return datetime.fromisoformat(json.loads(line)["det_time"])


def test_every_statement_of_the_program_fires() -> None:
    program = augury.compile(PROGRAM.read_text("utf-8"))
    engine = augury.LocalEngine(program)
    for line in EVENTS.read_text("utf-8").splitlines():
        engine.post(line, wait=False)
    ticked = engine.advance_to(datetime.fromisoformat("2026-03-09T07:00:00Z"))
    fired = {(action.event, action.statement) for one in ticked for action in one.action_rows()}
    written = {(p.event_class.name, n + 1) for p in program.classes for n in range(len(p.statements))}
    assert fired == written
    assert sum(one.counts()["purged"] for one in ticked) > 0

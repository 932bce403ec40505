"""The examples with triggers: what stands beside them is what the slow reference says, and what runs print."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import augury
from augury.algebra.program import Program
from augury.cli import app
from augury.kernels.firing import Outcome
from augury.kernels.reference.triggers import Triggered
from tests.triggers.told import lines, told

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("brokerage", "travel")


@pytest.fixture(scope="module", params=NAMES)
def example(request: pytest.FixtureRequest) -> tuple[Path, Program, Triggered]:
    folder = EXAMPLES / request.param
    program = augury.compile((folder / f"{request.param}.bicepl").read_text("utf-8"))
    return folder, program, told(program, folder / "events.jsonl")


def test_what_stands_beside_it_is_what_the_reference_says(example: tuple[Path, Program, Triggered]) -> None:
    folder, program, found = example
    assert list(lines(program, found)) == (folder / "expected.ndjson").read_text("utf-8").splitlines()


def test_a_run_prints_what_stands_beside_it(example: tuple[Path, Program, Triggered]) -> None:
    folder, _, _ = example
    path, events = str(folder / f"{folder.name}.bicepl"), str(folder / "events.jsonl")
    done = CliRunner().invoke(app, ["run", path, "--events", events, "--engine", "local"])
    assert done.exit_code == 0
    assert done.stdout == (folder / "expected.ndjson").read_text("utf-8")


def test_every_trigger_fires_and_every_rule_runs_both_ways_it_has(example: tuple[Path, Program, Triggered]) -> None:
    _, program, found = example
    assert {firing.trigger for firing in found.firings} == {trigger.name for trigger in program.triggers}
    ran = {(call.rule, call.outcome) for firing in found.firings for call in firing.calls}
    ways = {(rule.name, Outcome.HELD) for rule in program.rules}
    ways |= {(rule.name, Outcome.NOT_HELD) for rule in program.rules if rule.condition is not None}
    assert ran == ways


def test_who_asks_the_broker_and_waits_gets_the_answer_of_the_rule() -> None:
    program = augury.compile((EXAMPLES / "brokerage" / "brokerage.bicepl").read_text("utf-8"))
    functions = {
        "buy": lambda account, symbol, price: f"{account}: buy {symbol} below {price}",
        "instead": lambda account, asked, symbol: f"{account}: not {asked}, {symbol}",
    }
    begun = datetime(2026, 3, 2, 9, tzinfo=UTC)
    with augury.LocalEngine(program, functions=functions) as engine:
        for minute, price in enumerate((20, 21, 22, 23)):
            at = (begun + timedelta(minutes=minute)).isoformat()
            engine.notify({"event": "Quote", "det_time": at, "symbol": "ACME", "price": price})
        assert engine.evaluate("Advice")
        ask = {"event": "Ask", "det_time": (begun + timedelta(minutes=5)).isoformat(), "account": 7, "symbol": "BOLT"}
        answer = engine.notify(ask)
        assert answer.returned == {"Advice": "7: not BOLT, ACME"}
        assert [one.firing.constituents for one in answer.firings] == [(2, 3, 4)]
        assert not engine.evaluate("Advice")
        assert engine.notify({**ask, "det_time": (begun + timedelta(minutes=6)).isoformat()}).returned == {}

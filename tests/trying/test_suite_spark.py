"""Tests that ask for Spark: the same lines there, and what is said where it is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from augury.environment import Machine
from augury.trying import suite_verb
from augury.trying.suite_bound import Result

ROOT = Path(__file__).parents[2]

SUITE = f"""
program: {ROOT}/examples/card/card.bicepl
start: 2026-03-02T09:00:00Z
engines: [local, spark]
tests:
  - name: events, actions and timers, step by step
    steps:
      - events:
          - Login(card='C-1', known=FALSE) at 0s
          - Login(card='C-2', known=FALSE, device=5) at 0s
          - Confirmation(card=NULL) at 0s rejected
          - Withdrawal(card='C-1', amount=600) at 5m
        expect: [Suspicious(card='C-1', amount=600) at 5m]
        expect_actions: [askOwner('C-1', 'Was it you? %s', 600) for Suspicious at 6m]
      - advance_to: 14m
        expect: []
      - advance_to: 16m
        expect: [Unconfirmed(card='C-1') at 15m seen 15m]
    permutations: all
  - name: what fails here fails there
    events: [Confirmation(card='C-1', accepted=FALSE) at 0s]
    expect_actions: [unblockCard]
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, ...]:
    """How the suite goes."""
    path = tmp_path_factory.mktemp("spark") / "tests.yaml"
    path.write_text(SUITE)
    found = suite_verb.tested([str(path)], 1, Machine(), update=False, tell=None)
    assert found.exit_code == 1
    return found.results


def test_a_test_is_run_on_each_engine(results: tuple[Result, ...]) -> None:
    assert [(one.engine, one.passed) for one in results] == [
        ("local", True),
        ("spark", True),
        ("local", False),
        ("spark", False),
    ]


def test_ticks_and_refusals_are_those_of_the_engine_in_process(results: tuple[Result, ...]) -> None:
    local, spark = results[:2]
    assert [(got.line, got.tick_us) for got in spark.ran.got] == [(got.line, got.tick_us) for got in local.ran.got]
    assert spark.ran.rejected == local.ran.rejected


def test_orders_are_tried_once(results: tuple[Result, ...]) -> None:
    assert [one.orders for one in results] == [(6, 6), (1, 1), (1, 1), (1, 1)]


def test_without_spark_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").write_text("raise ImportError('pyspark is not here')\n")
    path = tmp_path / "tests.yaml"
    path.write_text(SUITE)
    code = (
        "import sys, typer; from augury.cli_test import register; app = typer.Typer(); app.callback()(lambda: None); "
        "register(app); app(sys.argv[1:])"
    )
    arguments = [sys.executable, "-c", code, "test", str(path)]
    paths = f"{tmp_path}:{ROOT / 'src'}"
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=120, env={"PYTHONPATH": paths, "HOME": "/"}
    )
    assert done.returncode == 3, done.stderr
    assert "ok  " in done.stdout
    assert "the engine `spark` cannot be loaded" in done.stdout
    assert "install" in done.stdout


STREAMED = f"""
program: {ROOT}/examples/card/card.bicepl
start: 2026-03-02T09:00:00Z
engines: [local, spark-stream]
tests:
  - name: a stream prints the same lines
    steps:
      - events:
          - Login(card='C-1', known=FALSE) at 0s
          - Confirmation(card=NULL) at 0s rejected
          - Withdrawal(card='C-1', amount=600) at 5m
        expect: [Suspicious(card='C-1', amount=600) at 5m]
        expect_actions: [askOwner('C-1', 'Was it you? %s', 600) for Suspicious at 6m]
      - advance_to: 16m
        expect: [Unconfirmed(card='C-1') at 15m seen 15m]
"""


def test_a_stream_of_spark_is_an_engine_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "tests.yaml"
    path.write_text(STREAMED)
    found = suite_verb.tested([str(path)], 1, Machine(), update=False, tell=None)
    local, stream = found.results
    assert [(one.engine, one.passed) for one in found.results] == [("local", True), ("spark-stream", True)]
    assert [(got.line, got.tick_us) for got in stream.ran.got] == [(got.line, got.tick_us) for got in local.ran.got]
    assert stream.ran.rejected == local.ran.rejected
    assert len(stream.ran.got) == 3

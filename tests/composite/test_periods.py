"""PERIODIC with a time far from all others: it is refused before it takes place for centuries, and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from augury import LocalEngine, limits
from augury.api import compile
from augury.cli import app
from augury.engine.plan import CannotRun

CONTEXTS = ("RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "UNRESTRICTED")
CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN ({lifespan});
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS C (k INT) ID () LIFESPAN (1d);
"""
PERIODIC = (
    CLASSES
    + "CREATE COMPLEX EVENT CLASS P () ID () LIFESPAN (1d) AS COMPOSITE PERIODIC{star}(A, [1s], C) CONTEXT {context};"
)
TRIGGER = CLASSES + "RULE R () ACTION tell();\nTRIGGER T () COMPOSITEEVENT PERIODIC(A, [1s], C) RULESTRUC R();"
FAR = [
    {"event": "A", "k": 1, "det_time": "2026-01-01T00:00:00Z"},
    {"event": "C", "k": 1, "det_time": "2226-01-01T00:00:00Z"},
]
LATE = [
    {"event": "A", "k": 1, "occ_time": "1826-01-01T00:00:00Z", "det_time": "2026-01-01T00:00:00Z"},
    {"event": "C", "k": 1, "det_time": "2026-01-01T00:00:05Z"},
]


def said(context: str, lifespan: str = "-1", star: str = "") -> str:
    return PERIODIC.format(context=context, lifespan=lifespan, star=star)


def ran(folder: Path, text: str, events: list[dict[str, Any]], *options: str) -> Any:
    (folder / "a.bicepl").write_text(text)
    (folder / "a.jsonl").write_text("\n".join(map(json.dumps, events)))
    files = [str(folder / "a.bicepl"), "--events", str(folder / "a.jsonl")]
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["run", *files, *options])


def count(text: str, events: list[dict[str, Any]]) -> int:
    return sum(map(len, compile(text).detect(events).occurrences))


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_closing_far_away_is_refused_by_the_name_of_the_class(tmp_path: Path, context: str) -> None:
    with pytest.raises(CannotRun, match=r"PERIODIC takes place at most 10,000,000 times .* in `P`") as raised:
        compile(said(context)).detect(FAR)
    assert [diagnostic.code for diagnostic in raised.value.diagnostics] == ["E405"]
    found = ran(tmp_path, said(context), FAR)
    assert found.exit_code == 1
    assert "error[E405]: PERIODIC takes place at most 10,000,000 times after one opening" in found.stderr


@pytest.mark.parametrize("context", [one for one in CONTEXTS if one != "RECENT"])
def test_an_opening_detected_centuries_late_is_refused(context: str) -> None:
    with pytest.raises(CannotRun, match="in `P`"):
        compile(said(context)).detect(LATE)


def test_of_many_times_at_once_recent_takes_the_last() -> None:
    (found,) = compile(said("RECENT")).detect(LATE).occurrences
    assert len(found) == 6  # at its detection, and at each second up to the closing: a timer comes before a version


def test_a_trigger_is_named(tmp_path: Path) -> None:
    found = ran(tmp_path, TRIGGER.format(lifespan="-1"), FAR)
    assert found.exit_code == 1
    assert "and in `T` it would more often" in found.stderr


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_lifespan_ends_it(tmp_path: Path, context: str) -> None:
    assert 58 <= count(said(context, "1m"), FAR) <= 61
    assert 58 <= len(ran(tmp_path, said(context, "1m"), FAR).stdout.splitlines()) <= 61


@pytest.mark.parametrize("context", CONTEXTS)
def test_what_is_gathered_takes_place_once(context: str) -> None:
    assert count(said(context, star="*"), FAR) == 1
    assert count(said(context, star="*"), LATE) == 1


def test_the_limit_is_of_one_opening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOCK_EVENTS_MAX", 5)
    text = said("CHRONICLE")
    every = [
        {"event": name, "k": 1, "det_time": f"2026-01-01T00:00:{at + 10 * i:02}Z"}
        for i in range(5)
        for name, at in (("A", 0), ("C", 5))
    ]
    assert count(text, every) == 25
    with pytest.raises(CannotRun):
        count(text, [every[0], every[3]])


def test_an_engine_that_goes_on_by_itself_is_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was away for long is no stray time: what it missed takes place."""
    monkeypatch.setattr(limits, "CLOCK_EVENTS_MAX", 5)
    with LocalEngine(compile(said("CHRONICLE"))) as engine:
        engine.post({"event": "A", "k": 1, "det_time": "2026-01-01T00:00:00Z"})
        engine.advance_to("2026-01-01T00:00:30Z")
        assert engine.history("P").num_rows >= 29

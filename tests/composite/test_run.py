"""COMPOSITE classes from events to lines: timers without a `seq`, other classes on them, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from augury import limits
from augury.api import compile
from augury.local.engine import CannotRun, Detected, detect
from augury.local.kernel import MatchKernel
from augury.local.output import lines
from augury.local.sources import tables_of

CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);
"""


def run(program: str, *events: tuple[str, float, int], until: float | None = None) -> Detected:
    rows = [{"event": name, "occ_time": time, "k": k} for name, time, k in events]
    until_us = None if until is None else int(until * 1_000_000)
    return detect(compile(CLASSES + program), tables_of(rows), MatchKernel(), until_us=until_us)


def printed(found: Detected, chronon_us: int = 1_000_000) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(found.versions, found.occurrences, chronon_us)]


def test_a_sequence_by_value_in_two_contexts() -> None:
    found = run(
        "CREATE COMPLEX EVENT CLASS R (X INT) ID () AS COMPOSITE A(X) > B(X);\n"
        "CREATE COMPLEX EVENT CLASS C (X INT) ID () AS COMPOSITE A(X) > B(X) CONTEXT CHRONICLE;",
        *(("A", 1, 1), ("A", 2, 1), ("A", 3, 2), ("B", 4, 1), ("B", 5, 1), ("B", 6, 3)),
    )
    assert [(o.event, o.constituents, dict(o.values)) for o in found] == [
        ("R", (2, 4), {"X": 1}),
        ("C", (1, 4), {"X": 1}),
        ("C", (2, 5), {"X": 1}),
    ]


def test_an_absence_is_noticed_while_nothing_arrives() -> None:
    absent = "CREATE COMPLEX EVENT CLASS Late (X INT) ID () AS COMPOSITE A(X) > !B(X) WITHIN 5s CONTEXT CHRONICLE;"
    found = run(absent, ("A", 1, 1), ("A", 2, 2), ("B", 3, 1), until=60)
    (late,) = found
    assert (late.seq, late.occ_time, late.det_time, late.constituents) == (None, 7_000_000, 7_000_000, (2,))
    (line,) = printed(found)
    assert "seq" not in line
    assert line["occ_time"] == "1970-01-01T00:00:07Z"
    assert list(run(absent, ("A", 1, 1), until=5)) == []
    assert len(list(run(absent, ("A", 1, 1), until=6))) == 1


def test_what_is_due_at_the_end_of_a_chronon_is_published_there() -> None:
    text = (
        "CREATE COMPLEX EVENT CLASS Seen () ID () AS COMPOSITE B;\n"
        "CREATE COMPLEX EVENT CLASS Due () ID () AS COMPOSITE A + 5s;"
    )
    found = run(text, ("A", 0, 1), ("B", 4.5, 1), ("B", 5, 1), until=60)
    assert [line["event"] for line in printed(found)] == ["Seen", "Due", "Seen"]


def test_classes_are_built_on_each_other() -> None:
    found = run(
        "CREATE COMPLEX EVENT CLASS Pair (X INT) ID () AS COMPOSITE A(X) > B(X) CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Two () ID () AS MATCH <2> Pair;\n"
        "CREATE COMPLEX EVENT CLASS Both () ID () AS COMPOSITE Pair & Two CONTEXT CHRONICLE;",
        *(("A", 1, 1), ("B", 2, 1), ("A", 3, 2), ("B", 4, 2)),
    )
    assert [(o.event, o.seq, o.constituents) for o in found] == [
        ("Pair", 2, (1, 2)),
        ("Pair", 4, (3, 4)),
        ("Two", 4, (1, 2, 3, 4)),
        ("Both", 4, (1, 2, 3, 4)),
    ]


def test_a_class_on_events_of_the_clock_is_refused_by_name() -> None:
    text = (
        "CREATE COMPLEX EVENT CLASS Due () ID () AS COMPOSITE A + 5s;\n"
        "CREATE COMPLEX EVENT CLASS After () ID () AS MATCH Due;"
    )
    with pytest.raises(CannotRun, match="like those of `Due`, yet, as `After` needs it to"):
        run(text, ("A", 1, 1))


def test_beyond_the_limit_the_oldest_are_let_go_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_KEPT_MAX", 3)
    chronicle = "CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE A > B CONTEXT CHRONICLE;"
    found = run(chronicle, *(("A", i, 1) for i in range(1, 6)), ("B", 9, 1))
    assert [o.constituents for o in found] == [(3, 6)]
    assert [of.dropped for of in found.occurrences] == [2]

"""COMPOSITE classes from events to lines: timers without a `seq`, other classes on them, what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from augury import limits
from augury.algebra.composite import CompositePlan
from augury.api import compile
from augury.engine.lines import lines
from augury.history.accept import end_of
from augury.kernels.reference.composite import composite_occurrences
from augury.local.engine import Detected, detect
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from tests.match.oracle import events_of, reference_kernel
from tests.spark.programs import events, program

SECOND = 1_000_000

CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID () LIFESPAN (1d);
"""


def run(program: str, *events: tuple[str, float, int], until: float | None = None) -> Detected:
    rows = [{"event": name, "occ_time": time, "k": k} for name, time, k in events]
    until_us = None if until is None else int(until * 1_000_000)
    return detect(compile(CLASSES + program), tables_of(rows), match_kernel, until_us=until_us)


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


@pytest.mark.parametrize("context", ["CHRONICLE", "RECENT", "UNRESTRICTED"])
def test_what_one_version_completes_by_several_events_is_in_the_order_of_keys(context: str) -> None:
    found = run(
        "CREATE COMPLEX EVENT CLASS Both (X INT) ID () AS MATCH prior(A(X), B) COLLECT ALL;\n"
        f"CREATE COMPLEX EVENT CLASS Down (n INT) ID (n) AS COMPOSITE A(X) > Both(X) CONTEXT {context} RETURN -X AS n;",
        *(("A", 1, 1), ("A", 2, 2), ("B", 3, 9)),
    )
    assert [o.constituents for o in found.of("Both")] == [(1, 3), (2, 3)]
    assert [o.values["n"] for o in found.of("Down")] == [-2, -1]


LATE = "CREATE COMPLEX EVENT CLASS Late (X INT) ID () AS COMPOSITE A(X) > !B(X) WITHIN 5s CONTEXT CHRONICLE;\n"


def of(found: Detected, name: str) -> list[tuple[int | None, float, tuple[int, ...]]]:
    """`seq`, det_time in seconds and constituents of the events of a class."""
    return [(o.seq, o.det_time / SECOND, o.constituents) for o in found.of(name)]


def test_a_match_on_what_the_clock_completed() -> None:
    text = LATE + "CREATE COMPLEX EVENT CLASS Back (X INT) ID () AS MATCH prior(Late(X), B(X));"
    found = run(text, ("A", 1, 1), ("A", 2, 2), ("B", 4, 2), ("B", 8, 2), ("B", 9, 1))
    assert of(found, "Late") == [(None, 6, (1,))]
    assert of(found, "Back") == [(5, 9, (1, 5))]
    why = compile(CLASSES + text).why(next(found.of("Back")))
    assert (why.seq, why.constituents) == (5, [1, 5])


def test_what_such_an_event_completes_has_no_seq_either() -> None:
    text = (
        LATE + "CREATE COMPLEX EVENT CLASS Again (X INT) ID (X) AS MATCH prior(B, Late(X));\n"
        "CREATE COMPLEX EVENT CLASS Pair (X INT) ID () AS COMPOSITE B > Again(X) CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Last () ID () AS MATCH sequence(Pair, B);"
    )
    found = run(text, ("B", 1, 9), ("A", 2, 1), ("A", 3, 2), ("B", 7.5, 9), ("B", 8, 9))
    assert of(found, "Again") == [(None, 7, (1, 2)), (None, 8, (3, 4))]
    assert of(found, "Pair") == [(None, 7, (1, 2)), (None, 8, (3, 4))]
    assert of(found, "Last") == [(4, 7.5, (1, 2, 4)), (5, 8, (3, 4, 5))]
    # What is due at 8 is published by the tick at 8, with what came at 7.5.
    shown = [(line["event"], line.get("seq")) for line in printed(found)]
    timers = [("Late", None), ("Again", None), ("Pair", None)]
    assert shown == [*timers, *timers, ("Last", 4), ("Last", 5)]


def test_two_timers_of_one_time_stand_together_in_the_order_of_their_keys() -> None:
    text = (
        "CREATE COMPLEX EVENT CLASS Late (X INT) ID (X) AS COMPOSITE A(X) > !B(X) WITHIN 5s CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Next (X INT) ID () AS MATCH sequence(Late, Late(X));\n"
        "CREATE COMPLEX EVENT CLASS Two () ID () AS COMPOSITE Late{2};"
    )
    found = run(text, ("A", 1, 7), ("A", 1, 3), ("B", 6, 9), ("B", 7, 9))
    assert [(o.values["X"], o.constituents) for o in found.of("Late")] == [(3, (2,)), (7, (1,))]
    assert [(o.seq, o.values["X"], o.constituents) for o in found.of("Next")] == [(None, 7, (1, 2))]
    assert of(found, "Two") == [(None, 6, (1, 2))]


def test_what_is_due_stands_before_every_version_of_its_time() -> None:
    text = (
        "CREATE COMPLEX EVENT CLASS Due () ID () AS COMPOSITE A + 5s CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Follows () ID () AS MATCH sequence(Due, B);\n"
        "CREATE COMPLEX EVENT CLASS Precedes () ID () AS MATCH sequence(B, Due);\n"
        "CREATE COMPLEX EVENT CLASS Later () ID () AS COMPOSITE Due > B CONTEXT CHRONICLE;"
    )
    found = run(text, ("A", 1, 1), ("B", 5, 1), ("B", 6, 1), ("B", 6, 2))
    assert of(found, "Follows") == [(3, 6, (1, 3))]
    assert of(found, "Precedes") == [(None, 6, (1, 2))]
    assert of(found, "Later") == [(3, 6, (1, 3))]


def test_what_is_due_at_once_stands_right_after_the_version_that_set_it() -> None:
    text = (
        "CREATE COMPLEX EVENT CLASS Due (X INT) ID () AS COMPOSITE A(X) + 0s CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Own (X INT) ID () AS MATCH sequence(A(X), Due(X));\n"
        "CREATE COMPLEX EVENT CLASS Other (X INT) ID () AS MATCH sequence(Due, A(X));\n"
        "CREATE COMPLEX EVENT CLASS Again (X INT) ID () AS COMPOSITE Due(X) + 0s CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS Seen (X INT) ID () AS MATCH sequence(Again(X), A);\n"
        "CREATE COMPLEX EVENT CLASS Came () ID () AS COMPOSITE A;"
    )
    found = run(text, ("A", 3, 1), ("A", 3, 2), ("A", 3, 3))
    assert [(o.seq, o.constituents) for o in found.of("Own")] == [(None, (1,)), (None, (2,)), (None, (3,))]
    assert [(o.seq, o.constituents) for o in found.of("Other")] == [(2, (1, 2)), (3, (2, 3))]
    assert [(o.seq, o.constituents) for o in found.of("Again")] == [(None, (1,)), (None, (2,)), (None, (3,))]
    assert [(o.seq, o.constituents) for o in found.of("Seen")] == [(2, (1, 2)), (3, (2, 3))]
    # It is published with the version, though its time is the end of the chronon before.
    assert {line["event"] for line in printed(found)[:3]} == {"Due"}
    assert [line["event"] for line in printed(found)][-3:] == ["Came"] * 3


def test_a_timer_of_another_class_comes_before_the_purge_of_its_tick() -> None:
    """As a timer of the class itself does: what expires between two ticks is there at the later one."""
    classes = (
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS S () ID () LIFESPAN (4s);\n"
        "CREATE COMPLEX EVENT CLASS Due () ID () AS COMPOSITE A + 5s CONTEXT CHRONICLE;\n"
    )
    direct = "CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE S & (A + 5s) CONTEXT CHRONICLE;"
    built = "CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE S & Due CONTEXT CHRONICLE;"
    match = "CREATE COMPLEX EVENT CLASS C () ID () AS MATCH prior(S, Due) WITHIN 1h;"
    for text in (direct, built, match):
        found = run(classes + text, ("S", 1, 0), ("A", 1, 1), ("A", 2, 1), until=60)
        assert of(found, "C")[:1] == [(None, 6, (1, 2))], text


@pytest.mark.parametrize("seed", range(8))
def test_classes_on_timers_are_as_the_references_find_them(seed: int) -> None:
    """Each class over the history that the engine gives it: MATCH by its reference, COMPOSITE by its own."""
    of_program = program("on timers")
    raw = list(tables_of(events(seed, 70, faults=False)))
    found = detect(of_program, raw, match_kernel)
    by_reference = detect(of_program, raw, reference_kernel)
    assert printed(found) == printed(by_reference)
    compared = 0
    for plan in of_program.classes:
        if not isinstance(plan.derivation, CompositePlan):
            continue
        event_class = plan.event_class
        history = found.history_of(event_class.name)
        lifespans = {c.name: c.lifespan_us for c in history.classes if c.lifespan_us is not None}
        slow = composite_occurrences(
            plan.derivation,
            events_of(history),
            lifespans,
            until_us=end_of(found.versions, SECOND),
            chronon_us=SECOND,
            key=event_class.key,
        )
        assert sorted((o.occ_time, o.det_time, o.constituents, str(list(o.values.values()))) for o in slow) == sorted(
            (o.occ_time, o.det_time, o.constituents, str(list(o.values.values()))) for o in found.of(event_class.name)
        )
        compared += len(slow)
    assert compared > 20


def test_beyond_the_limit_the_oldest_are_let_go_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_KEPT_MAX", 3)
    chronicle = "CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE A > B CONTEXT CHRONICLE;"
    found = run(chronicle, *(("A", i, 1) for i in range(1, 6)), ("B", 9, 1))
    assert [o.constituents for o in found] == [(3, 6)]
    assert [of.dropped for of in found.occurrences] == [2]

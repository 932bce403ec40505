"""Clock classes in a replay: where their events stand among the others, from when to when, and the limit."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from augury import limits
from augury.api import compile
from augury.history.accept import accept
from augury.history.raw import RawRows
from augury.kernels.batch import Batch
from augury.local.engine import detect
from augury.local.kernel import CannotRun, match_kernel

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);
CREATE CLOCK EVENT CLASS Tick EVERY 10s;
CREATE CLOCK EVENT CLASS Minute AT '* * * * *';
"""
SECOND = 1_000_000


def rows(*times: float) -> RawRows:
    return RawRows("rows", [{"event": "A", "det_time": t, "k": i} for i, t in enumerate(times)], range(len(times)))


def shown(batch: Batch) -> list[tuple[str, float, int]]:
    names = [batch.classes[code].name for code in batch.code]
    return list(zip(names, (batch.det_time / SECOND).tolist(), batch.seq.tolist(), strict=True))


def test_events_of_the_clock_stand_before_what_is_detected_at_their_time() -> None:
    found = accept(compile(CLASSES), [rows(55, 60, 60, 70.5)]).batch
    assert shown(found) == [
        ("A", 55, 1),
        ("Tick", 60, 2),
        ("Minute", 60, 3),
        ("A", 60, 4),
        ("A", 60, 5),
        ("Tick", 70, 6),
        ("A", 70.5, 7),
    ]
    assert found.occ_time.tolist() == found.det_time.tolist()


def test_the_clock_begins_with_the_chronon_of_the_first_version_and_ends_with_that_of_the_last() -> None:
    program = compile("SET CHRONON 15s;" + CLASSES)
    # Chronons are [45, 60) and [75, 90).
    assert [t for name, t, _ in shown(accept(program, [rows(59, 76)]).batch) if name == "Tick"] == [50, 60, 70, 80]
    until = accept(program, [rows(59, 76)], until_us=70 * SECOND).batch
    assert shown(until) == [("Tick", 50, 1), ("A", 59, 2), ("Tick", 60, 3), ("Minute", 60, 4)]


def test_without_versions_there_is_no_time_and_no_event_of_the_clock() -> None:
    assert len(accept(compile(CLASSES), [rows()], until_us=1_000 * SECOND).batch) == 0


def test_what_is_posted_as_an_event_of_the_clock_is_refused() -> None:
    posted = RawRows("rows", [{"event": "Tick", "det_time": 1}], [1])
    found = accept(compile(CLASSES), [posted])
    assert found.rejected.reason == ("`Tick` is a clock class: its events are posted by the clock",)


def test_refusals_speak_of_the_numbers_that_versions_have() -> None:
    program = compile(CLASSES.replace("MUTABLE", "IMMUTABLE", 1))
    again = RawRows("rows", [{"event": "A", "det_time": t, "k": 1} for t in (61, 62)], [1, 2])
    found = accept(program, [rows(59), again])
    assert found.rejected.reason == ('`A` is immutable, and {"k": 1} is already there since seq 4',)


def test_a_pattern_and_a_period_are_matched_like_other_classes() -> None:
    text = (
        CLASSES
        + "CREATE COMPLEX EVENT CLASS T (k INT) ID () AS MATCH sequence(Tick, Minute, A(k)) OVER (Tick, Minute, A);"
    )
    found = detect(compile(text), [rows(58, 60, 118, 121)], match_kernel)
    (occurrences,) = found.occurrences
    assert occurrences.constituents.to_pylist() == [[2, 3, 4], [11, 12, 13]]
    assert occurrences.values.to_pylist() == [{"k": 1}, {"k": 3}]


def test_a_stray_date_does_not_make_the_clock_tick_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLOCK_EVENTS_MAX", 100)
    stray = rows(0, datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    with pytest.raises(CannotRun, match=r"at most 100 events of a clock class, and .* `Tick` has more") as raised:
        detect(compile(CLASSES), [stray], match_kernel)
    assert [d.code for d in raised.value.diagnostics] == ["E405"]

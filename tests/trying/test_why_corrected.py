"""`why`, `why-not` and `simulate` of classes with ORDER BY OCCURRENCE: parts, and what was missing, in that order."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

import augury
from augury.trying.simulate import simulation
from augury.trying.why_asked import asked_about, versions_asked
from augury.trying.why_not import why_not
from tests.trying.test_why import run

PROGRAM = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, x INT) ID (k) LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS B (k INT, y INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS C (k INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Three (k INT, y INT) ID (k) AS MATCH prior(A(k, _), B(k, y), C(k)) ORDER BY OCCURRENCE;
CREATE COMPLEX EVENT CLASS Soon (k INT) ID (k) AS MATCH relative(A(k, _), B(k, _)) ORDER BY OCCURRENCE ALLOWING 1m;
CREATE COMPLEX EVENT CLASS Next (k INT) ID (k) AS COMPOSITE A(k, _) > B(k, _) ORDER BY OCCURRENCE CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Alone (k INT) ID (k)
  AS COMPOSITE A(k, _) > !C(k) ORDER BY OCCURRENCE WITHIN 30s CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Later (k INT) ID (k) AS MATCH prior(Three(k, _), B(k, _)) ORDER BY OCCURRENCE;
"""
NAMES = ("Three", "Soon", "Next", "Alone")
START = 1_000_000_000


def events(path: Path, rows: list[dict[str, Any]]) -> str:
    times = ("occ_time", "det_time")
    moved = [row | {name: START + row[name] for name in times if row.get(name) is not None} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in moved))
    return str(path)


def random_events(seed: int) -> list[dict[str, Any]]:
    """Versions of two keys, many of them late, some changed, withdrawn or older than ALLOWING."""
    draw, now, found = random.Random(seed), 0, list[dict[str, Any]]()
    for number in range(40):
        now += draw.choice((0, 1, 5, 10, 25))
        row: dict[str, Any] = {"event": draw.choice("AABBC"), "k": draw.randrange(2), "det_time": now}
        row["occ_time"] = now - draw.choice((0, 0, 0, 5, 30, 90))
        row |= {"x": number} if row["event"] == "A" else {"y": draw.randrange(3)} if row["event"] == "B" else {}
        if row["event"] == "A" and draw.random() < 0.15:
            row["occ_time"] = None
        found.append(row)
    return found


def test_constituents_are_told_with_their_parts(tmp_path: Path) -> None:
    """What is said is what the kernel finds over the corrected history, with just these constituents."""
    program = augury.compile(PROGRAM)
    told, untold = dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0)
    for seed in range(8):
        path = events(tmp_path / f"{seed}.jsonl", random_events(seed))
        for shown in simulation(program, path).ticks():
            for one in shown.derived:
                name = one.version.event_class.name
                if name == "Later" or one.version.is_withdrawal:
                    continue
                assert one.why is not None
                assert one.why.constituents == list(one.version.constituents or ())
                if one.note:
                    untold[name] += 1
                    continue
                told[name] += 1
                parts = [part for event in one.why.events for part in event.parts]
                assert all(part[0] == event.event[0] for part, event in zip(parts, one.why.events, strict=True))
                times = [event.occ_time for event in one.why.events]
                assert times == sorted(times), "in the order in which it happened"
    assert min(told.values()) > 15
    assert sum(untold.values()) * 20 <= sum(told.values()), untold


LATE: list[dict[str, Any]] = [
    {"event": "A", "k": 1, "x": 1, "occ_time": 20, "det_time": 21},
    {"event": "C", "k": 1, "occ_time": 40, "det_time": 41},
    {"event": "B", "k": 1, "y": 7, "occ_time": 30, "det_time": 50},
    {"event": "B", "k": 2, "y": 7, "occ_time": 60, "det_time": 60},
    {"event": "A", "k": 2, "x": 1, "occ_time": 70, "det_time": 75},
    {"event": "C", "k": 2, "occ_time": 80, "det_time": 80},
    {"event": "A", "k": 3, "x": 1, "occ_time": 80, "det_time": 81},
    {"event": "C", "k": 3, "occ_time": 95, "det_time": 95},
    {"event": "A", "k": 4, "x": 1, "occ_time": 90, "det_time": 96},
    {"event": "A", "k": 4, "x": 2, "occ_time": None, "det_time": 97},
    {"event": "B", "k": 5, "y": 1, "occ_time": 1, "det_time": 99},
]


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    (tmp_path / "a.bicepl").write_text(PROGRAM)
    return [str(tmp_path / "a.bicepl"), "--events", events(tmp_path / "a.jsonl", LATE)]


def test_what_came_late_stands_where_it_happened(asked: list[str]) -> None:
    code, text, _ = run("why", *asked, "--event", "Three", "--key", "1")
    assert code == 0
    assert (
        """\
  takes place at seq 2 with k = 1, y = 7, made of
    seq 1  A(1, 1)  at 2001-09-09T01:47:00Z  as A(k, _)
    seq 3  B(1, 7)  at 2001-09-09T01:47:10Z  as B(k, y)
    seq 2  C(1)     at 2001-09-09T01:47:20Z  as C(k)
"""
        in text
    )


def test_what_waits_is_told_in_that_order(asked: list[str], tmp_path: Path) -> None:
    for shown in simulation(augury.compile(PROGRAM), asked[-1]).ticks():
        waiting = [(one.event_class, one.has) for one in shown.pending.partial]
        assert all(seq is not None and seq <= len(LATE) for _, has in waiting for seq, _, _ in has)
    assert ("Three", ((1, "A(1, 1)", "A(k, _)"), (3, "B(1, 7)", "B(k, y)"))) in waiting
    rows = [{"event": "A", "k": 1, "x": 1, "occ_time": 5, "det_time": 12}]
    (only,) = simulation(augury.compile(PROGRAM), events(tmp_path / "b.jsonl", rows)).ticks()
    has = ((1, "A(1, 1)", "A(k, _)"),)
    assert {(one.event_class, one.has) for one in only.pending.partial} == {(name, has) for name in NAMES}
    assert [(one.event_class, one.due) for one in only.pending.timers] == [("Alone", (START + 35) * 1_000_000)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("Next", "--key", "2"), "no A(k, _) took place before 4 (k = 2)"),
        (("Three", "--key", "2"), "no B(k, y) took place after A(k, _) at 5 and before 6 (k = 2)"),
        (("Soon", "--key", "3"), "no B(k, _) with k = 3 came by 2001-09-09T01:48:20Z; A(3, 1) did, at seq 7"),
        (
            ("Soon", "--key", "5"),
            "no A(k, _) nor B(k, _) with k = 5 came by 2001-09-09T01:48:20Z; B(5, 1) at seq 11 does not count: "
            "it was changed or withdrawn since, or came too late",
        ),
        (("Alone", "--key", "3"), "C(k) at 8 came after A(k, _) at 7 and before 2001-09-09T01:48:30Z (k = 3)"),
        (("Later", "--key", "3"), "what an expression lacks that is ordered by occurrence and reads complex events"),
        (("Next", "--key", "2", "--seq", "6"), "the event at 6 is a C, not a B (k = 2)"),
    ],
)
def test_what_was_missing(asked: list[str], words: tuple[str, ...], sentence: str) -> None:
    found = json.loads(run("why-not", *asked, "--event", *words, "--output", "json")[1])
    assert sentence in found["sentence"]
    assert found["took_place"] is False


def test_what_is_not_there_lacks_something(tmp_path: Path) -> None:
    """No event that never took place is said to: few events, so that much is missing."""
    program, missing = augury.compile(PROGRAM), 0
    for seed in range(30):
        path = events(tmp_path / f"{seed}.jsonl", random_events(seed)[: 4 + seed % 5])
        ran = simulation(program, path, tells_why=False)
        record = ran.run()
        for name in ("Soon", "Next", "Alone"):
            for key in range(2):
                question = asked_about(program, name, [str(key)])
                if versions_asked(record, question):
                    continue
                found = why_not(ran, question)
                missing += 1
                assert not found.took_place, (seed, name, key)
                assert "but with other values" not in found.sentence, (seed, name, key)
                assert not re.search(r"\d{13}", found.sentence)
    assert missing > 40


def test_a_version_that_does_not_hold_is_not_asked_about(asked: list[str]) -> None:
    code, _, said = run("why-not", *asked, "--event", "Next", "--key", "4", "--seq", "9")
    assert (code, "the version at seq 9 is none that holds in the end" in said) == (1, True)

"""What went into rows of aggregates, DISTINCT, windows and their like, which the engine does not trace."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import augury
from augury.history.values import moment_us
from augury.simulated import World
from augury.trying.simulate import Simulation, simulation
from augury.trying.why import why
from augury.trying.why_asked import asked_about
from augury.trying.why_events import WENT_IN

CLASSES = """
SET CHRONON 1m;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Paid (id INT, card INT, amount INT) ID (id) LIFESPAN (1h);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Owner (card INT, name STRING) ID (card) LIFESPAN (-1);
"""
EVENTS = [
    {"event": "Owner", "card": 1, "name": "Ann"},  # seq 1
    {"event": "Paid", "id": 1, "card": 1, "amount": 5},
    {"event": "Paid", "id": 2, "card": 2, "amount": 7},
    {"event": "Paid", "id": 3, "card": 1, "amount": 9},
    {"event": "Paid", "id": 4, "card": 1, "amount": 5},  # seq 5
    {"event": "Paid", "id": 3, "card": 1, "amount": 8},
    {"event": "Paid", "id": 1, "occ_time": None},
]


def ran(select: str, events: list[dict[str, object]] | None = None) -> Simulation:
    """A program with one SELECT class more, over events a second apart and all in one chronon."""
    rows = [
        {"det_time": f"2026-01-01T09:00:{number:02}Z", **event} for number, event in enumerate(events or EVENTS[:5])
    ]
    world = World(1)
    world.files.write("events.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    return simulation(augury.compile(CLASSES + select), "events.jsonl", environment=world)


def made_of(running: Simulation, name: str, *key: str) -> list[int] | None:
    found = why(running, asked_about(running.program, name, list(key)))
    return None if found.why is None else found.why.constituents


@pytest.mark.parametrize(
    ("columns", "sql", "key", "seqs"),
    [
        ("card INT, n BIGINT", "card, COUNT(*) AS n FROM Paid GROUP BY card OCCURRING AT MAX(occTime)", 1, [2, 4, 5]),
        (
            "card INT",
            "DISTINCT p.card FROM Paid p JOIN Owner o ON o.card = p.card OCCURRING AT o.occTime",
            1,
            [1, 2, 4, 5],
        ),
        (
            "card INT, amount INT",
            "card, amount FROM Paid WHERE amount > 5 GROUP BY card, amount HAVING COUNT(*) > 0 "
            "OCCURRING AT MIN(occTime)",
            1,
            [4],
        ),
        (
            "name STRING, total BIGINT",
            "o.name, SUM(p.amount) AS total FROM Owner o JOIN Paid p ON o.card = p.card GROUP BY o.name "
            "OCCURRING AT MAX(p.occTime)",
            "Ann",
            [1, 2, 4, 5],
        ),
        (
            "id INT, upto BIGINT",
            "id, SUM(amount) OVER (PARTITION BY card ORDER BY id) AS upto FROM Paid OCCURRING AT occTime",
            3,
            [2, 4],
        ),
        (
            "id INT, place INT",
            "id, ROW_NUMBER() OVER (PARTITION BY card ORDER BY id DESC) AS place FROM Paid OCCURRING AT occTime",
            3,
            [2, 4, 5],
        ),
        (
            "id INT, place INT",
            "id, RANK() OVER w AS place FROM Paid WINDOW w AS (PARTITION BY card ORDER BY amount) OCCURRING AT occTime",
            2,
            [3],
        ),
        (
            "id INT, share BIGINT",
            "id, SUM(SUM(amount)) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS share FROM Paid "
            "GROUP BY id OCCURRING AT MAX(occTime)",
            3,
            [3, 4],
        ),
        (
            "card INT, amount INT",
            "x.card, x.amount FROM (SELECT card, amount, occTime FROM Paid EXCEPT SELECT card, 7, occTime FROM Paid) x "
            "WHERE x.card = 2 OR x.amount = 9 OCCURRING AT x.occTime",
            1,
            [4],
        ),
        (
            "card INT",
            "x.card FROM (SELECT card FROM Paid INTERSECT SELECT card FROM Owner) x "
            "JOIN Owner o ON o.card = x.card OCCURRING AT o.occTime",
            1,
            [1, 2, 4, 5],
        ),
        (
            "card INT, n BIGINT",
            "x.card, x.n FROM (SELECT card, COUNT(DISTINCT amount) AS n, MAX(occTime) AS last FROM Paid GROUP BY card) "
            "x WHERE x.n > 1 OCCURRING AT x.last",
            1,
            [2, 4, 5],
        ),
        ("n BIGINT", "COUNT(*) AS n FROM Paid OCCURRING AT MAX(occTime)", 4, [2, 3, 4, 5]),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else str(value),
)
def test_the_rows_that_went_in_are_told(columns: str, sql: str, key: int | str, seqs: list[int]) -> None:
    name = columns.split()[0]
    running = ran(f"CREATE COMPLEX EVENT CLASS Found ({columns}) ID ({name}) LIFESPAN (1d) AS SELECT {sql};")
    assert made_of(running, "Found", f"{name}={key}") == seqs
    (version,) = (one for one in running.record.versions[2] if str(key) == str(one.values[name].value))
    assert version.constituents == (), "for expiry it has none"


TOTALS = """
CREATE COMPLEX EVENT CLASS Total (card INT, n BIGINT, s BIGINT) ID (card) LIFESPAN (1d)
  AS SELECT card, COUNT(*) AS n, SUM(amount) AS s FROM Paid GROUP BY card OCCURRING AT MAX(occTime);
CREATE COMPLEX EVENT CLASS Named (name STRING, s BIGINT) ID (name) LIFESPAN (1d)
  AS SELECT o.name, t.s FROM Total t JOIN Owner o ON o.card = t.card OCCURRING AT t.occTime;
"""


def test_a_select_over_an_aggregate_goes_down_to_what_came_in() -> None:
    running = ran(TOTALS, EVENTS)
    assert made_of(running, "Total", "1") == [5, 6], "a changed version, and none of what was withdrawn"
    assert made_of(running, "Named", "Ann") == [1, 5, 6]
    found = why(running, asked_about(running.program, "Named", ["Ann"])).why
    assert found is not None
    assert [one.parts for one in found.events] == [(WENT_IN,)] * 3


def test_what_is_told_adds_up_at_every_tick(tmp_path: Path) -> None:
    dice = random.Random(7)
    rows: list[dict[str, object]] = []
    live: set[int] = set()
    for minute in range(0, 180, 3):
        time = moment_us("2026-01-01T09:00:00Z") + minute * 60_000_000
        row: dict[str, object] = {"event": "Paid", "id": dice.randrange(9), "det_time": time / 1e6}
        if row["id"] in live and dice.random() < 0.3:
            row["occ_time"] = None
            live.discard(int(str(row["id"])))
        else:
            row |= {"card": dice.randrange(2), "amount": dice.randrange(10), "occ_time": time / 1e6}
            live.add(int(str(row["id"])))
        rows.append(row)
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    running = simulation(augury.compile(CLASSES + TOTALS), str(tmp_path / "events.jsonl"))
    looked = 0
    for tick in running.ticks():
        for one in tick.derived:
            if one.version.is_withdrawal:
                continue
            assert one.why is not None, one.note
            amounts = [int(str(running.record.received[seq].values["amount"].value)) for seq in one.why.constituents]
            assert (len(amounts), sum(amounts)) == (one.version.values["n"].value, one.version.values["s"].value)
            looked += 1
    assert running.record.left, "some of them expired on the way"
    assert looked > 30

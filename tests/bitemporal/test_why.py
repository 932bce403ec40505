"""Why a row of a SELECT class is there, and small courtesies of the local engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import augury
from augury.engine.plan import CannotRun
from augury.kernels.told import NotAnOccurrence
from augury.local.running import Closed, LocalEngine

PROGRAM = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item VARCHAR(10), amount INT) ID (item) LIFESPAN (-1);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Demand (item VARCHAR(10), wanted INT) ID (item) LIFESPAN (-1);
CREATE COMPLEX EVENT CLASS Short (item VARCHAR(10), missing INT) ID (item) LIFESPAN (-1)
  AS SELECT s.item, d.wanted - s.amount AS missing FROM Stock s JOIN Demand d ON s.item = d.item
     WHERE d.wanted > s.amount OCCURRING AT d.occTime;
CREATE COMPLEX EVENT CLASS Total (n BIGINT) ID () LIFESPAN (-1)
  AS SELECT COUNT(*) AS n FROM Stock OCCURRING AT MAX(occTime);
"""


def test_a_row_is_made_of_the_rows_that_were_joined() -> None:
    with LocalEngine(augury.compile(PROGRAM)) as engine:
        engine.post({"event": "Stock", "item": "milk", "amount": 1, "occ_time": "2026-01-01T09:00:00Z"})
        engine.post({"event": "Stock", "item": "eggs", "amount": 9, "occ_time": "2026-01-01T09:00:00Z"})
        engine.post({"event": "Demand", "item": "milk", "wanted": 3, "occ_time": "2026-01-01T09:00:01Z"})
        engine.advance_to("2026-01-01T09:00:10Z")
        why = engine.why("Short", 1)
        assert why.constituents == [1, 3]
        assert why.dump() == (
            "takes place at the tick 2026-01-01T09:00:02Z\n"
            '  seq 1  Stock("milk", 1)  at 2026-01-01T09:00:00Z  as a row of FROM\n'
            '  seq 3  Demand("milk", 3) at 2026-01-01T09:00:01Z  as a row of FROM'
        )
        engine.post({"event": "Demand", "item": "milk", "occ_time": None, "det_time": "2026-01-01T09:00:11Z"})
        engine.advance_to("2026-01-01T09:00:20Z")
        for number, sentence in ((2, "withdraws the event"), (9, "there is no version 9 of `Short`")):
            with pytest.raises(NotAnOccurrence, match=sentence):
                engine.why("Short", number)
        with pytest.raises(NotAnOccurrence, match="is not traced"):
            engine.why("Total", 1)


def test_what_cannot_be_run_is_refused_at_once() -> None:
    event = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);"
    wide = f"CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS COMPOSITE {' > '.join(['A(k)'] * 63)};"
    with pytest.raises(CannotRun, match="more than 62 classes in one expression"):
        LocalEngine(augury.compile(event + wide))
    rule = "RULE R (k INT) ACTION a(k); TRIGGER t (int k) TRIGGEREVENT A RULESTRUC R(k);"
    with LocalEngine(augury.compile(event + rule)) as engine:
        assert not engine.reports, "triggers run"


def test_a_text_where_a_program_is_wanted_is_refused() -> None:
    text: Any = "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);"
    for run in (LocalEngine, lambda one: augury.detect(one, []), lambda one: augury.watch(one, None, store="s")):
        with pytest.raises(TypeError, match=r"a str is no program: augury\.compile\(text\) makes one"):
            run(text)


def test_a_closed_engine_takes_nothing(tmp_path: Path) -> None:
    engine = LocalEngine(augury.compile(PROGRAM), tmp_path / "s.db")
    engine.close()
    engine.close()
    with pytest.raises(Closed):
        engine.post({"event": "Stock", "item": "milk", "amount": 1, "occ_time": 0})
    with pytest.raises(Closed):
        engine.advance_to(10_000_000)


def test_what_is_no_time_is_said_so() -> None:
    with LocalEngine(augury.compile(PROGRAM)) as engine:
        with pytest.raises(ValueError, match="`soon` is no time"):
            engine.advance_to("soon")
        with pytest.raises(TypeError, match=r"not 1\.5"):
            engine.advance_to(1.5)  # type: ignore[arg-type]

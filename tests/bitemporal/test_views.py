"""Views of a history: what was known at a time, what had happened by then, what was learned between two times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from augury.engine.history_rows import history_of
from augury.event import EventClass
from augury.history.views import as_of, current, diff, history_schema, key_columns, known_at, system_names
from tests.bitemporal.stored import class_of, program, versions

EVER = 10**15
PROGRAM = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Seat (flight STRING, seat INT, who STRING, paid DOUBLE)
  ID (flight, seat) LIFESPAN (5d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Odd (number INT, old_x INT, x INT, tick INT, source_time INT) ID (old_x)
  LIFESPAN (5d);
CREATE COMPLEX EVENT CLASS Taken (who STRING) ID () AS MATCH Seat(_, _, who, _);
"""
OF = program(PROGRAM)
SEAT, ODD, TAKEN = (class_of(OF, name) for name in ("Seat", "Odd", "Taken"))


def history(event_class: EventClass, *rows: dict[str, Any], events: list[int] | None = None) -> pa.Table:
    """Versions that are detected one microsecond after the other, unless they say when."""
    timed = [{"det_time": place, "occ_time": place, **row} for place, row in enumerate(rows, 1)]
    return history_of(event_class, [(100, versions(event_class, timed, events=events))])


SEATS = history(
    SEAT,
    {"flight": "a", "seat": 1, "who": "Ann"},
    {"flight": "a", "seat": 2, "who": "Bob", "occ_time": 50},
    {"flight": "a", "seat": 1, "who": "Cid", "change": "change"},
    {"flight": "a", "seat": 2, "change": "withdraw"},
    {"flight": "a", "seat": None, "who": "Dan"},
    {"flight": "a", "seat": 2, "who": "Eva"},
)


def who(table: pa.Table) -> list[str]:
    found: list[str] = table["who"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("moment", "names"),
    [
        (0, []),
        (1, ["Ann"]),
        (2, ["Ann", "Bob"]),
        (3, ["Bob", "Cid"]),
        (4, ["Cid"]),
        (5, ["Cid", "Dan"]),
        (EVER, ["Cid", "Dan", "Eva"]),
    ],
)
def test_as_known_at(moment: int, names: list[str]) -> None:
    known = known_at(SEATS, SEAT, moment)
    assert who(known) == names
    assert known.schema == history_schema(SEAT)


def test_as_of_is_what_had_happened_by_then() -> None:
    assert who(as_of(known_at(SEATS, SEAT, 2), 2)) == ["Ann"]
    assert who(as_of(known_at(SEATS, SEAT, 2), 50)) == ["Ann", "Bob"]
    assert who(as_of(SEATS, 3)) == ["Ann", "Cid"]


def test_events_without_a_key_are_told_apart_by_number() -> None:
    rows = ({"who": "Ann"}, {"who": "Ann"}, {"who": "Ann", "change": "withdraw"})
    table = history(TAKEN, *rows, events=[7, 8, 7])
    assert known_at(table, TAKEN, EVER)["event_number"].to_pylist() == [8]
    assert key_columns(TAKEN) == ("event_number",)
    found = diff(table, TAKEN, 2, 3)
    assert found.select(["change", "event_number"]).to_pylist() == [{"change": "withdraw", "event_number": 7}]


def test_what_is_current() -> None:
    assert current(SEATS, SEAT, np.array([5])).tolist() == [False, False, True, False, False, True]


def test_a_nan_and_a_null_in_a_key_are_values_like_others() -> None:
    of = program("CREATE MUTABLE SUBSCRIBED EVENT CLASS N (x DOUBLE, y INT) ID (x) LIFESPAN (1d);")
    n = class_of(of, "N")
    table = history(n, *({"x": x, "y": y} for y, x in enumerate([float("nan"), None, float("nan"), None, 0.0, -0.0])))
    assert known_at(table, n, EVER)["y"].to_pylist() == [2, 3, 5]


def test_diff_shows_old_and_new() -> None:
    found = diff(SEATS, SEAT, 2, 5)
    assert found.column_names == [
        "change",
        "flight",
        "seat",
        *("old_occ_time", "new_occ_time", "old_det_time", "new_det_time"),
        *("old_who", "new_who", "old_paid", "new_paid"),
    ]
    plain = found.select(["change", "seat", "old_who", "new_who"]).to_pylist()
    assert [tuple(row.values()) for row in plain] == [
        ("change", 1, "Ann", "Cid"),
        ("withdraw", 2, "Bob", None),
        ("announce", None, None, "Dan"),
    ]
    assert found["new_det_time"].cast(pa.int64()).to_pylist() == [3, 4, 5]
    assert found["new_occ_time"].cast(pa.int64()).to_pylist() == [3, None, 5]
    assert diff(SEATS, SEAT, 3, 3).num_rows == 0
    assert diff(SEATS, SEAT, 0, 4)["new_who"].to_pylist() == ["Cid"], "what came and went is not told"
    assert diff(SEATS, SEAT, 3, EVER).select(["change", "new_who"]).to_pylist()[-1] == {
        "change": "change",
        "new_who": "Eva",
    }
    with pytest.raises(ValueError, match="the first moment lies after the second"):
        diff(SEATS, SEAT, 2, 1)


def test_names_that_clash_are_told_apart() -> None:
    names = system_names(ODD)
    assert (names.number, names.tick, names.source_time, names.seq) == ("number_", "tick_", "source_time_", "seq")
    table = history(ODD, {"number": 5, "old_x": 1, "x": 2, "tick": 3}, {"old_x": 1, "x": 4, "change": "change"})
    assert table["number"].to_pylist() == [5, None]
    assert table["number_"].to_pylist() == [1, 2]
    found = diff(table, ODD, 1, 2)
    assert found.select(["old_x", "old_x_", "new_x"]).to_pylist() == [{"old_x": 1, "old_x_": 2, "new_x": 4}]


def test_of_nothing_nothing_is_known() -> None:
    for event_class in (SEAT, ODD, TAKEN):
        empty = history_schema(event_class).empty_table()
        assert known_at(empty, event_class, EVER).num_rows == 0
        assert as_of(empty, EVER).num_rows == 0
        assert diff(empty, event_class, 0, EVER).num_rows == 0
        assert current(empty, event_class, np.array([1])).tolist() == []


HISTORIES = st.lists(
    st.tuples(st.integers(0, 2) | st.none(), st.sampled_from(["announce", "change", "withdraw"]), st.integers(0, 3)),
    max_size=20,
)


def drawn(case: list[tuple[int | None, str, int]]) -> pa.Table:
    """A history in which time goes on by as many microseconds as each version says."""
    now, rows = 0, []
    for place, (seat, change, pause) in enumerate(case):
        now += pause
        rows.append({"flight": "a", "seat": seat, "who": str(place), "change": change, "det_time": now})
    return history(SEAT, *rows)


def slowly_known(table: pa.Table, moment: int) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The definition, row by row."""
    there: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row, det_time in zip(table.to_pylist(), table["det_time"].cast(pa.int64()).to_pylist(), strict=True):
        if det_time <= moment:
            key = (row["flight"], row["seat"])
            there.pop(key, None)
            if row["change"] != "withdraw":
                there[key] = row
    return there


@given(HISTORIES, st.integers(0, 40))
def test_what_is_known_is_what_the_definition_says(case: list[tuple[int | None, str, int]], moment: int) -> None:
    table = drawn(case)
    assert known_at(table, SEAT, moment).to_pylist() == list(slowly_known(table, moment).values())


@given(HISTORIES, st.integers(0, 40), st.integers(0, 20))
def test_an_answer_never_changes_when_later_versions_arrive(
    case: list[tuple[int | None, str, int]], moment: int, at: int
) -> None:
    table = drawn(case)
    early = table.filter(pa.compute.less_equal(table["det_time"].cast(pa.int64()), moment))
    assert known_at(table, SEAT, moment) == known_at(early, SEAT, moment)
    assert as_of(known_at(table, SEAT, moment), at) == as_of(known_at(early, SEAT, moment), at)
    before = min(at, moment)
    assert diff(table, SEAT, before, moment) == diff(early, SEAT, before, moment)


@given(HISTORIES, st.integers(0, 40), st.integers(0, 40))
def test_a_diff_leads_from_one_answer_to_the_other(
    case: list[tuple[int | None, str, int]], one: int, other: int
) -> None:
    table = drawn(case)
    first, second = min(one, other), max(one, other)
    known = {key: row["who"] for key, row in slowly_known(table, first).items()}
    for row in diff(table, SEAT, first, second).to_pylist():
        key = (row["flight"], row["seat"])
        assert known.get(key) == row["old_who"]
        assert (key in known) == (row["change"] != "announce")
        known.pop(key, None)
        if row["change"] != "withdraw":
            known[key] = row["new_who"]
    assert known == {key: row["who"] for key, row in slowly_known(table, second).items()}

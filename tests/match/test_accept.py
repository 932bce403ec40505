"""From raw events to accepted versions: values, rows, versions, shapes of input, and the slow reference."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from augury import types as t
from augury.algebra.program import Program
from augury.api import compile
from augury.datafiles import Unreadable
from augury.history import json_lines as lines_of_json
from augury.history import numbered, pieces, versions
from augury.history.accept import Accepted, accept
from augury.history.merge import merge
from augury.history.raw import Broken, Raw, RawRows, RawTable
from augury.history.values import fit, fit_objects
from augury.kernels.batch import WITHDRAW, Batch, Occurrences
from augury.kernels.columns import arrow_type
from augury.local.sources import read_events, tables_of
from tests.match import accept_reference

SECOND = 1_000_000
PROGRAM = compile(
    """
    SET CHRONON 5s;
    CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (id INT, price NUMERIC(6,2), note VARCHAR(3)) ID (id) LIFESPAN (4s);
    CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Badge (id INT, door VARCHAR(3), open BOOLEAN) ID (id, door) LIFESPAN (4s);
    CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Birth (name TEXT) ID (name) LIFESPAN (-1);
    CREATE MUTABLE SUBSCRIBED EVENT CLASS Tick (id INT) ID () LIFESPAN (1d);
    CREATE CLOCK EVENT CLASS Leap AT '0 0 29 2 *';
    CREATE COMPLEX EVENT CLASS Twice (id INT) ID (id) AS MATCH relative(Order(id, _, _), Order(id, _, _));
    """
)


def accepted(events: Any, program: Program = PROGRAM, until_us: int | None = None) -> Accepted:
    return accept(program, tables_of(events), until_us=until_us)


def rows_of(batch: Batch) -> list[tuple[Any, ...]]:
    """Every version as Python values: class, seq, occ_time (None: withdrawn), det_time, values."""
    tables = [table.to_pylist() for table in batch.tables]
    return [
        (
            batch.classes[batch.code[i]].name,
            int(batch.seq[i]),
            None if batch.kind[i] == WITHDRAW else int(batch.occ_time[i]),
            int(batch.det_time[i]),
            tuple(tables[batch.code[i]][batch.row[i]].values()) if tables[batch.code[i]] else (),
        )
        for i in range(len(batch))
    ]


def order(number: int, occ: int | None, det: int, **more: Any) -> dict[str, Any]:
    return {"event": "Order", "id": number, "occ_time": occ, "det_time": det, **more}


def reasons(events: Any, program: Program = PROGRAM) -> list[str]:
    return list(accepted(events, program).rejected.reason)


# ---- values ----------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 1, 1, 9, tzinfo=UTC)
FITTING: list[tuple[object, t.Type, object]] = [
    (True, t.BOOLEAN, True),
    (7, t.INT, 7),
    (7.0, t.INT, 7),
    (Decimal("7.00"), t.INT, 7),
    (-(2**31), t.INT, -(2**31)),
    (2**63 - 1, t.BIGINT, 2**63 - 1),
    (np.int64(5), t.INT, 5),
    (7, t.DOUBLE, 7.0),
    (2**70, t.DOUBLE, float(2**70)),
    (Decimal("0.1"), t.DOUBLE, 0.1),
    ("Infinity", t.DOUBLE, math.inf),
    (np.float64(0.5), t.DOUBLE, 0.5),
    (Decimal("1.10"), t.Decimal(4, 2), Decimal("1.10")),
    (0.1, t.Decimal(4, 2), Decimal("0.10")),
    (3, t.Decimal(4, 2), Decimal("3.00")),
    (10**20, t.Decimal(38, 0), Decimal(10**20)),
    (Decimal("1e3"), t.Decimal(38, 18), Decimal(1000)),
    ("abc", t.String(3), "abc"),
    ("äöü", t.String(3), "äöü"),
    ("2026-01-01T09:00:00Z", t.TIMESTAMP, MOMENT),
    ("2026-01-01 10:00+01:00", t.TIMESTAMP, MOMENT),
    ("2026-01-01T09:00:00", t.TIMESTAMP, MOMENT),
    (1767258000, t.TIMESTAMP, MOMENT),
    (1767258000.25, t.TIMESTAMP, MOMENT + timedelta(microseconds=250_000)),
    (Decimal("1767258000.123456"), t.TIMESTAMP, MOMENT + timedelta(microseconds=123_456)),
    (1767258000.123456, t.TIMESTAMP, MOMENT + timedelta(microseconds=123_456)),
    (datetime(2026, 1, 1, 9), t.TIMESTAMP, MOMENT),
    (datetime(2026, 1, 1, 10, tzinfo=timezone(timedelta(hours=1))), t.TIMESTAMP, MOMENT),
    (pd.Timestamp("2026-01-01T09:00:00.000000999"), t.TIMESTAMP, MOMENT),
    (np.datetime64("2026-01-01T09:00:00"), t.TIMESTAMP, MOMENT),
    (date(2026, 1, 1), t.TIMESTAMP, datetime(2026, 1, 1, tzinfo=UTC)),
    ("2026-01-01", t.DATE, date(2026, 1, 1)),
    (date(2026, 1, 1), t.DATE, date(2026, 1, 1)),
    (datetime(2026, 1, 1), t.DATE, date(2026, 1, 1)),
    (None, t.INT, None),
    (pd.NA, t.INT, None),
    (pd.NaT, t.TIMESTAMP, None),
]
MISFITS: list[tuple[object, t.Type]] = [
    (1, t.BOOLEAN),
    ("true", t.BOOLEAN),
    (True, t.INT),
    ("7", t.INT),
    (7.5, t.INT),
    (math.nan, t.INT),
    (2**31, t.INT),
    (2**63, t.BIGINT),
    (Decimal("1e999999"), t.BIGINT),
    ("0.5", t.DOUBLE),
    (True, t.DOUBLE),
    (Decimal("1e400"), t.DOUBLE),
    (Decimal("1.101"), t.Decimal(4, 2)),
    (Decimal("1e-400"), t.Decimal(38, 38)),
    (100, t.Decimal(4, 2)),
    (math.inf, t.Decimal(4, 2)),
    (Decimal("NaN"), t.Decimal(4, 2)),
    ("1", t.Decimal(4, 2)),
    ("abcd", t.String(3)),
    (7, t.STRING),
    ("\ud800", t.STRING),
    (b"x", t.STRING),
    ({}, t.STRING),
    ("yesterday", t.TIMESTAMP),
    ("1767258000", t.TIMESTAMP),
    ("2026-02-30T00:00:00Z", t.TIMESTAMP),
    (10**12, t.TIMESTAMP),
    (math.nan, t.TIMESTAMP),
    (True, t.TIMESTAMP),
    (datetime(2026, 1, 1, 9), t.DATE),
    (20260101, t.DATE),
    ([], t.DATE),
]


@pytest.mark.parametrize(("value", "of", "kept"), FITTING, ids=repr)
def test_a_value_that_fits_is_kept(value: object, of: t.Type, kept: object) -> None:
    fitted = fit_objects([value], of)
    assert fitted.values.type == arrow_type(of)
    assert fitted.misfits is None
    assert fitted.values.to_pylist() == [kept]


@pytest.mark.parametrize(("value", "of"), MISFITS, ids=repr)
def test_a_value_that_does_not_fit_is_marked_and_its_neighbours_stay(value: object, of: t.Type) -> None:
    fitted = fit_objects([None, value, None], of)
    assert fitted.values.type == arrow_type(of)
    assert fitted.values.to_pylist() == [None, None, None]
    assert fitted.misfits is not None
    assert fitted.misfits.tolist() == [False, True, False]


@pytest.mark.parametrize(
    "of", [t.BOOLEAN, t.INT, t.BIGINT, t.DOUBLE, t.Decimal(4, 2), t.String(3), t.TIMESTAMP, t.DATE]
)
def test_values_of_all_kinds_in_one_column_are_each_read_as_if_alone(of: t.Type) -> None:
    values = [value for value, _, _ in FITTING] + [value for value, _ in MISFITS]
    together = fit_objects(values, of)
    alone = [fit_objects([value], of) for value in values]
    assert together.misfits is not None
    assert together.misfits.tolist() == [one.misfits is not None for one in alone]
    shown = [str(one.values.to_pylist()[0]) for one in alone]
    assert list(map(str, together.values.to_pylist())) == shown


@pytest.mark.parametrize(
    ("column", "of", "kept"),
    [
        (pa.array([1, 2**31, None]), t.INT, [1, None, None]),
        (pa.array([1, 2**63], pa.uint64()), t.BIGINT, [1, None]),
        (pa.array([1, 2**63], pa.uint64()), t.Decimal(38, 0), [Decimal(1), Decimal(2**63)]),
        (pa.array([2**62 + 1]), t.DOUBLE, [float(2**62 + 1)]),
        (pa.array([1.0, 1.5, math.nan]), t.INT, [1, None, None]),
        (pa.array([Decimal("1.10"), Decimal("1.15")]), t.Decimal(3, 1), [Decimal("1.1"), None]),
        (pa.array([Decimal("99.9"), Decimal("100.0")]), t.Decimal(3, 1), [Decimal("99.9"), None]),
        (pa.array([7, 100, -100], pa.int8()), t.Decimal(3, 1), [Decimal(7), None, None]),
        (pa.array(["a", "abcd"], pa.large_string()), t.String(3), ["a", None]),
        (pa.array(["a", "b"]).dictionary_encode(), t.STRING, ["a", "b"]),
        (pa.array([1767258000], pa.timestamp("s")), t.TIMESTAMP, [MOMENT]),
        (pa.array([1767258000_000], pa.timestamp("ms", "Europe/Vienna")), t.TIMESTAMP, [MOMENT]),
        (pa.array([1767258000_000_000_999], pa.timestamp("ns")), t.TIMESTAMP, [MOMENT]),
        (pa.array([1767258000_000_000, 2**62], pa.timestamp("us")), t.TIMESTAMP, [MOMENT, None]),
        (pa.array([2**60], pa.timestamp("s")), t.TIMESTAMP, [None]),
        (pa.array([1767258000.5]), t.TIMESTAMP, [MOMENT + timedelta(milliseconds=500)]),
        (pa.array([20454], pa.date32()), t.DATE, [date(2026, 1, 1)]),
        (pa.array([20454 * 86_400_000], pa.date64()), t.DATE, [date(2026, 1, 1)]),
        (pa.array([0, 1], pa.timestamp("ns")), t.DATE, [date(1970, 1, 1), None]),
        (pa.array([3_000_000], pa.int32()).view(pa.date32()), t.DATE, [None]),
        (pa.nulls(2), t.BOOLEAN, [None, None]),
        (pa.array([[1]]), t.INT, [None]),
    ],
    ids=lambda value: str(value).replace("\n", "") if isinstance(value, pa.Array) else None,
)
def test_a_column_of_another_type_is_kept_as_far_as_it_fits(column: pa.Array, of: t.Type, kept: list[object]) -> None:
    fitted = fit(column, of)
    assert fitted.values.type == arrow_type(of)
    assert fitted.values.to_pylist() == kept
    misfits = [new is None and old is not None for new, old in zip(kept, column.is_valid().to_pylist(), strict=True)]
    misfits = [m and v for m, v in zip(misfits, column.is_valid().to_pylist(), strict=True)]
    assert (fitted.misfits.tolist() if fitted.misfits is not None else [False] * len(kept)) == misfits


def test_cells_of_text_are_read_as_their_type() -> None:
    def read(of: t.Type, *cells: str) -> list[object]:
        found: list[object] = fit(pa.array(cells), of, text=True).values.to_pylist()
        return found

    assert read(t.INT, "7", "x", "2147483648", " 8 ") == [7, None, None, 8]
    assert read(t.Decimal(4, 2), "1.10", "1.101", "1_0", "１", "") == [Decimal("1.10"), None, None, None, None]
    assert read(t.TIMESTAMP, "1767258000", "2026-01-01T09:00:00Z", "x") == [MOMENT, MOMENT, None]
    assert read(t.BOOLEAN, "true", "FALSE", "2") == [True, False, None]
    assert read(t.DOUBLE, "1e3", "NaNa") == [1000.0, None]


def test_one_bad_row_does_not_slow_down_or_change_the_others() -> None:
    numbers = [Decimal(i) / 100 for i in range(3000)]
    column = pa.array([*numbers[:1700], Decimal("0.001"), *numbers[1700:]], pa.decimal128(10, 3))
    fitted = fit(column, t.Decimal(10, 2))
    assert fitted.misfits is not None
    assert np.flatnonzero(fitted.misfits).tolist() == [1700]
    assert [v for v in fitted.values.to_pylist() if v is not None] == numbers


# ---- rows ------------------------------------------------------------------------------------------------


def test_names_are_matched_without_regard_to_case_and_what_is_unknown_is_ignored() -> None:
    found = accepted([{"EVENT": "ORDER", "Id": 1, "OCC_TIME": 5, "Price": 2, "weather": "fine", "seq": 99}])
    assert rows_of(found.batch) == [("Order", 1, 5 * SECOND, 5 * SECOND, (1, Decimal("2.00"), None))]


def test_times_stand_in_for_each_other_and_a_null_withdraws() -> None:
    found = accepted(
        [
            {"event": "Order", "id": 1, "occ_time": 5},
            {"event": "Order", "id": 2, "det_time": 6},
            {"event": "Order", "id": 1, "occ_time": None, "det_time": 7},
            {"event": "Order", "id": 3, "occ_time": 8, "det_time": None},
        ]
    )
    assert [(v[2], v[3]) for v in rows_of(found.batch)] == [
        (5 * SECOND, 5 * SECOND),
        (6 * SECOND, 6 * SECOND),
        (None, 7 * SECOND),
        (8 * SECOND, 8 * SECOND),
    ]
    assert found.change.tolist() == [versions.ANNOUNCE, versions.ANNOUNCE, versions.WITHDRAWN, versions.ANNOUNCE]


def test_columns_without_an_occ_time_take_the_det_time() -> None:
    found = accepted({"Order": pa.table({"id": [1, 2], "det_time": [3, 4]})})
    assert [v[2:4] for v in rows_of(found.batch)] == [(3 * SECOND, 3 * SECOND), (4 * SECOND, 4 * SECOND)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"event": "Ordr", "occ_time": 1}, 'there is no event class "Ordr"; did you mean `Order`?'),
        ({"event": "Qqq", "occ_time": 1}, 'there is no event class "Qqq"'),
        ({"event": 7}, 'there is no event class "7"'),
        ({"occ_time": 1}, "it does not say of which class it is: no `event`"),
        ({"event": "Twice"}, "`Twice` is a complex class: its events are derived, not posted"),
        ({"event": "Leap"}, "`Leap` is a clock class: its events are posted by the clock"),
        ({"event": "Order", "id": 1}, "it has neither an occ_time nor a det_time"),
        ({"event": "Order", "id": 1, "occ_time": None}, "it has neither an occ_time nor a det_time"),
        ({"event": "Order", "id": 1, "occ_time": "noon"}, '`occ_time` is a TIMESTAMP, and "noon" does not fit'),
        ({"event": "Order", "id": "x", "occ_time": 1}, '`id` is an INT, and "x" does not fit'),
        (
            {"event": "Order", "id": 1, "price": Decimal("1.001"), "occ_time": 1},
            "`price` is a NUMERIC(6,2), and 1.001 does not fit",
        ),
        ({"event": "Order", "id": 1, "note": "long", "occ_time": 1}, '`note` is a VARCHAR(3), and "long" does not fit'),
        ({"event": "Order", "occ_time": 1}, "`id` belongs to the key, and is NULL"),
        (
            {"event": "Order", "id": 1, "occ_time": None, "det_time": 1},
            'it withdraws {"id": 1} of `Order`, which is not there',
        ),
        ({"event": "Tick", "occ_time": None, "det_time": 1}, "`Tick` has no key: what is withdrawn cannot be told"),
    ],
)
def test_a_row_is_rejected_with_the_reason_and_its_neighbours_stay(row: Mapping[str, Any], reason: str) -> None:
    found = accepted([{"event": "Tick", "det_time": 1}, row, {"event": "Tick", "det_time": 2}])
    assert found.rejected.reason == (reason,)
    assert found.rejected.place == ("events:2",)
    assert found.batch.seq.tolist() == [1, 2]
    assert json.loads(found.rejected.raw[0], parse_float=Decimal) is not None


def test_a_source_maps_foreign_columns_and_one_may_feed_several() -> None:
    program = compile(
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, noted TIMESTAMP) ID (account) LIFESPAN (1d);\n"
        "SOURCE Order FROM COLUMNS (acct AS account, ts AS occ_time, ts AS noted, nr AS event_id);"
    )
    rows = [{"event": "Order", "ACCT": 7, "ts": 5, "nr": 1}, {"event": "Order", "account": 8, "occ_time": 6, "nr": 1}]
    found = accepted(rows, program)
    assert found.absorbed == 1
    assert rows_of(found.batch) == [
        ("Order", 1, 5 * SECOND, 5 * SECOND, (7, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)))
    ]
    both = pa.table({"acct": [1, None], "account": [3, 4], "ts": [1, 2]})
    assert [v[4][0] for v in rows_of(accepted({"Order": both}, program).batch)] == [1, 4]


def test_versions_known_at_the_end_or_later_are_not_read() -> None:
    rows = [order(1, 9, 1), order(2, 1, 2), order(3, 1, 3), {**order(4, 1, 3), "price": "bad"}]
    found = accepted(rows, until_us=3 * SECOND)
    assert [v[4][0] for v in rows_of(found.batch)] == [1, 2]
    assert len(found.rejected) == 0


# ---- versions --------------------------------------------------------------------------------------------


def test_a_later_version_changes_and_a_withdrawn_event_is_announced_again() -> None:
    found = accepted([order(1, 5, 1), order(1, 6, 2), order(1, None, 3), order(1, None, 4), order(1, 9, 5)])
    assert found.change.tolist() == [versions.ANNOUNCE, versions.CHANGE, versions.WITHDRAWN, versions.ANNOUNCE]
    assert found.rejected.place == ("events:4",)


def test_an_immutable_class_refuses_a_later_version_and_says_since_when() -> None:
    badge = {"event": "Badge", "id": 1, "door": "a", "occ_time": 9}
    rows = [
        {**badge, "det_time": 2},
        order(1, 1, 1),
        {**badge, "det_time": 3},
        {**badge, "occ_time": None, "det_time": 4},
    ]
    found = accepted(rows)
    assert (
        found.rejected.reason == ('`Badge` is immutable, and {"id": 1, "door": "a"} is already there since seq 2',) * 2
    )
    assert found.rejected.place == ("events:3", "events:4")


def test_what_has_expired_before_the_tick_is_announced_again() -> None:
    """Lifespan 4 s, chronon 5 s: an event of second 0 is purged at the tick of second 5, not within its chronon."""
    assert accepted([order(1, 0, 0), order(1, 1, 4)]).change.tolist() == [versions.ANNOUNCE, versions.CHANGE]
    assert accepted([order(1, 0, 0), order(1, 1, 5)]).change.tolist() == [versions.ANNOUNCE, versions.ANNOUNCE]
    assert accepted([order(1, 1, 0), order(1, 1, 5)]).change.tolist() == [versions.ANNOUNCE, versions.CHANGE]
    # Long expired when it was read: still there until the tick after.
    assert accepted([order(1, -9, 6), order(1, -8, 7)]).change.tolist() == [versions.ANNOUNCE, versions.CHANGE]
    assert reasons([order(1, 0, 0), order(1, None, 5)]) == ['it withdraws {"id": 1} of `Order`, which is not there']


def test_duplicates_are_absorbed_by_id_or_else_by_all_they_say() -> None:
    same = accepted(
        [order(1, 1, 1, note="a"), order(1, 1, 1, note="a"), order(1, 1, 1, note="b"), order(1, 1, 1, note="a")]
    )
    assert (len(same.batch), same.absorbed) == (2, 2)
    by_id = accepted([order(1, 1, 1, event_id="x"), order(2, 2, 2, event_id="x"), order(3, 3, 3, event_id=5)])
    assert (len(by_id.batch), by_id.absorbed) == (2, 1)
    ticks = accepted(
        [{"event": "Tick", "id": 1, "det_time": 1}] * 2 + [{"event": "Tick", "det_time": 2, "event_id": "t"}] * 2
    )
    assert (len(ticks.batch), ticks.absorbed) == (3, 1)
    other_class = accepted([order(1, 1, 1, event_id="x"), {"event": "Tick", "det_time": 1, "event_id": "x"}])
    assert (len(other_class.batch), other_class.absorbed) == (2, 0)


def test_a_rejected_row_does_not_make_a_later_one_a_duplicate() -> None:
    found = accepted([order(1, None, 1, event_id="x"), order(1, 1, 2, event_id="x")])
    assert (len(found.batch), found.absorbed, len(found.rejected)) == (1, 0, 1)


def test_versions_stand_by_det_time_and_then_as_they_came() -> None:
    rows = [
        order(1, 0, 9),
        {"event": "Tick", "id": 1, "det_time": 2},
        order(2, 0, 2),
        {"event": "Tick", "id": 2, "det_time": 1},
    ]
    assert [(v[0], v[1], v[4][0]) for v in rows_of(accepted(rows).batch)] == [
        ("Tick", 1, 2),
        ("Tick", 2, 1),
        ("Order", 3, 2),
        ("Order", 4, 1),
    ]


def test_no_events_give_an_empty_batch_with_all_classes() -> None:
    found = accepted([])
    assert len(found.batch) == 0
    assert [c.name for c in found.batch.classes] == ["Order", "Badge", "Birth", "Tick", "Leap"]
    assert found.batch.tables[0].schema.names == ["id", "price", "note"]
    assert found.batch.code.dtype == np.int16
    assert found.batch.kind.dtype == np.uint8


# ---- the reference ---------------------------------------------------------------------------------------

TIMES = st.integers(0, 14).map(lambda n: n * SECOND)
IDS = st.sampled_from([None, None, None, "a", "b"])


@st.composite
def a_row(draw: st.DrawFn) -> dict[str, Any]:
    event = draw(st.sampled_from(["Order", "Order", "order", "Badge", "Birth", "Tick", "Twice", "Nothing"]))
    row: dict[str, Any] = {"event": event, "det_time": draw(TIMES)}
    match draw(st.integers(0, 5)):
        case 0:
            row["occ_time"] = None
        case 1:
            pass
        case 2:
            del row["det_time"]
            row["occ_time"] = draw(TIMES)
        case _:
            row["occ_time"] = draw(TIMES)
    if (event_id := draw(IDS)) is not None:
        row["event_id"] = event_id
    bad = draw(st.integers(0, 15)) == 0
    row["id"] = "no number" if bad else draw(st.integers(0, 2))
    row["price"] = draw(st.sampled_from([None, 1, Decimal("1.00"), Decimal("1.5"), Decimal("1.001"), 10_000]))
    row["note"] = draw(st.sampled_from([None, "a", "b", "b", "long"]))
    row["door"] = draw(st.sampled_from(["x", "x", "y", None]))
    row["open"] = draw(st.sampled_from([None, True, False, 1]))
    row["name"] = draw(st.sampled_from(["eve", "adam", None]))
    return row


def seconds(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its times in seconds, as events have them."""
    times = {name: row[name] // SECOND for name in ("occ_time", "det_time") if row.get(name) is not None}
    return {**row, **times}


def changes_of(found: Accepted) -> list[str]:
    return [["announce", "change", "withdraw"][change] for change in found.change.tolist()]


def assert_as_the_reference(rows: Sequence[Mapping[str, Any]]) -> None:
    expected = accept_reference.accept(PROGRAM, rows)
    found = accepted([seconds(row) for row in rows])
    assert rows_of(found.batch) == [(v.event_class, v.seq, v.occ_time, v.det_time, v.values) for v in expected.versions]
    assert changes_of(found) == [v.change for v in expected.versions]
    assert [int(place.split(":")[1]) for place in found.rejected.place] == expected.rejected
    assert found.absorbed == expected.absorbed


@given(st.lists(a_row(), max_size=25))
@settings(max_examples=400)
def test_versions_are_those_of_the_reference(rows: list[dict[str, Any]]) -> None:
    assert_as_the_reference(rows)


@given(st.lists(a_row(), max_size=12), st.data())
def test_a_bad_row_never_changes_its_neighbours(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    events: list[Any] = [seconds(row) for row in rows]
    place = data.draw(st.integers(0, len(events)))
    bad = data.draw(st.sampled_from([Broken("it is broken", "{"), {"event": "Order", "id": [], "occ_time": 1}, {}]))
    worse = [*events[:place], bad, *events[place:]]
    before = accept(PROGRAM, [RawRows("e", events, range(1, len(events) + 1))])
    after = accept(PROGRAM, [RawRows("e", worse, range(1, len(worse) + 1))])
    assert rows_of(before.batch) == rows_of(after.batch)
    assert len(after.rejected) == len(before.rejected) + 1
    assert f"e:{place + 1}" in after.rejected.place


@given(st.lists(a_row(), max_size=12), st.data())
def test_a_shuffled_file_of_distinct_det_times_gives_the_same(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    events = [{**seconds(row), "det_time": n} for n, row in enumerate(rows)]
    shuffled = data.draw(st.permutations(events))
    first, second = accepted(events), accepted(shuffled)
    assert rows_of(first.batch) == rows_of(second.batch)
    assert sorted(first.rejected.reason) == sorted(second.rejected.reason)
    assert first.absorbed == second.absorbed


@given(st.lists(a_row(), max_size=15), st.integers(1, 6))
def test_rows_cut_into_several_sources_give_the_same(rows: list[dict[str, Any]], size: int) -> None:
    events = [seconds(row) for row in rows]
    cut = [RawRows("e", events[i : i + size], range(i + 1, i + size + 1)) for i in range(0, len(events), size)]
    whole, parts = accepted(events), accept(PROGRAM, cut)
    assert rows_of(whole.batch) == rows_of(parts.batch)
    assert [p.split(":")[1] for p in whole.rejected.place] == [p.split(":")[1] for p in parts.rejected.place]
    assert whole.rejected.reason == parts.rejected.reason


def of_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with values of one type a field, as columns have them."""
    number = row["id"] if isinstance(row["id"], int) else 2**40
    price = None if row["price"] is None else Decimal(row["price"])
    return {**seconds(row), "id": number, "price": price, "open": None if row["open"] is None else bool(row["open"])}


@given(st.lists(a_row(), max_size=25), st.integers(1, 5), st.integers(1, 4))
@settings(max_examples=200)
def test_tables_cut_into_pieces_of_any_size_give_the_same(rows: list[dict[str, Any]], size: int, at_once: int) -> None:
    """Many rows are looked at in pieces, of which classes have parts, and classes fall out of order between them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "_PIECE_ROWS", size)
        patched.setattr(numbered, "_ROWS_AT_ONCE", at_once)
        assert_as_the_reference(rows)
        table = pa.Table.from_pylist([of_columns(row) for row in rows])
        cut = accepted(table)
    whole = accepted(table)
    assert rows_of(cut.batch) == rows_of(whole.batch)
    assert (cut.rejected, cut.absorbed, changes_of(cut)) == (whole.rejected, whole.absorbed, changes_of(whole))


def test_times_that_came_as_one_are_kept_once() -> None:
    """With many events memory is what acceptance costs."""
    found = accepted(pa.table({"event": ["Order"] * 3, "id": [1, 2, 3], "det_time": [1, 2, 3]})).batch
    assert found.occ_time is found.det_time
    found = accepted(pa.table({"event": ["Order"] * 3, "id": [1, 2, 3], "det_time": [3, 2, 1]})).batch
    assert found.occ_time is found.det_time
    assert found.det_time.tolist() == [1 * SECOND, 2 * SECOND, 3 * SECOND]


def test_many_rows_go_through_the_compiled_loop_and_come_out_the_same() -> None:
    count = versions._COMPILED_ROWS_MIN + 5
    random = np.random.default_rng(7)
    ids, det = random.integers(0, 9000, count), np.sort(random.integers(0, 40_000, count))
    occ = np.where(random.random(count) < 0.2, -1, det)
    rows = [
        {"event": "Order", "id": int(i), "occ_time": None if o < 0 else int(o) * SECOND, "det_time": int(d) * SECOND}
        for i, o, d in zip(ids, occ, det, strict=True)
    ]
    table = pa.table(
        {
            "id": ids,
            "occ_time": pa.array(occ * SECOND, mask=occ < 0).view(pa.timestamp("us")),
            "det_time": pa.array(det * SECOND).view(pa.timestamp("us")),
        }
    )
    expected = accept_reference.accept(PROGRAM, rows)
    found = accepted({"Order": table})
    assert found.batch.tables[0]["id"].to_pylist() == [v.values[0] for v in expected.versions]
    assert changes_of(found) == [v.change for v in expected.versions]
    assert (found.absorbed, len(found.rejected)) == (expected.absorbed, len(expected.rejected))
    assert found.absorbed > 0
    assert len(found.rejected) > 0


# ---- shapes of input -------------------------------------------------------------------------------------


def columns_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    names = ["event", "occ_time", "det_time", "id", "price", "note", "door", "open", "name"]
    kinds = [pa.string(), pa.timestamp("us"), pa.timestamp("us"), pa.int64(), pa.decimal128(9, 3), *[pa.string()] * 2]
    columns = [[row.get(name) for row in rows] for name in names]
    return pa.table(
        [pa.array(c, k) for c, k in zip(columns, [*kinds, pa.bool_(), pa.string()], strict=True)], names=names
    )


def json_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    def plain(value: Any) -> Any:
        return float(value) if isinstance(value, Decimal) else value

    return "".join(json.dumps({k: plain(v) for k, v in row.items()}) + "\n" for row in rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


def every_shape(table: pa.Table, rows: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[list[Raw]]:
    yield list(tables_of(rows))
    yield list(tables_of(table))
    yield list(tables_of(table.combine_chunks().to_batches()[0])) if rows else []
    yield list(tables_of(table.to_pandas()))
    encoded = table.set_column(0, "event", table["event"].dictionary_encode())
    yield [RawTable("e", encoded)]
    file = folder / "e.jsonl"
    file.write_text(json_lines([seconds(row) for row in plain_rows(table)]), "utf-8")
    yield list(read_events(str(file)))
    packed = folder / "p.json.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    yield list(read_events(str(packed)))
    parquet.write_table(table, folder / "e.parquet")
    yield list(read_events(str(folder / "e.parquet")))
    table.to_pandas().to_csv(folder / "e.csv", index=False)
    yield list(read_events(str(folder / "e.csv")))


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    times = [table.schema.names.index(name) for name in ("occ_time", "det_time")]
    for i in times:
        table = table.set_column(i, table.schema.names[i], table.column(i).cast(pa.int64()))
    return [
        {k: v for k, v in row.items() if v is not None or (k == "occ_time" and row["det_time"] is not None)}
        for row in table.to_pylist()
    ]


@given(st.lists(a_row().filter(lambda row: row["id"] != "no number" and row["open"] != 1), max_size=10))
@settings(max_examples=60)
def test_every_shape_of_the_same_events_gives_the_same_batch(folder: Path, rows: list[dict[str, Any]]) -> None:
    given_rows = [{"occ_time": row.get("det_time"), **row} for row in rows]
    table = columns_of(given_rows)
    first: Accepted | None = None
    for shape in every_shape(table, table.to_pylist(), folder):
        found = accept(PROGRAM, shape)
        first = first or found
        assert rows_of(found.batch) == rows_of(first.batch)
        assert found.change.tolist() == first.change.tolist()
        assert found.absorbed == first.absorbed
        assert [p.split(":")[-1] for p in found.rejected.place] == [
            str(int(p.split(":")[-1]) + int(shape[0].source.endswith(".csv"))) for p in first.rejected.place
        ]


def test_a_mapping_gives_each_class_its_rows() -> None:
    found = accepted({"Tick": [{"id": 1, "det_time": 1}], "order": pd.DataFrame({"id": [5], "occ_time": [1]})})
    assert [(v[0], v[4][0]) for v in rows_of(found.batch)] == [("Tick", 1), ("Order", 5)]


def test_a_stream_of_batches_and_a_frame_with_a_column_twice_are_read() -> None:
    table = pa.table({"event": ["Tick"], "id": [1], "det_time": [1]})
    frame = pd.DataFrame([["Tick", 1, 1, 2]], columns=["event", "id", "det_time", "id"])
    for events in (table.to_reader(), frame, {"Tick": table.to_reader()}):
        assert [v[4] for v in rows_of(accepted(events).batch)] == [(1,)]


def test_a_frame_of_mixed_values_is_read_value_by_value() -> None:
    frame = pd.DataFrame(
        {"event": ["Tick"] * 3, "id": [1, "x", None], "det_time": [1, 2, 3], 5: [0, 0, 0]}, dtype=object
    )
    found = accepted(frame)
    assert [v[4] for v in rows_of(found.batch)] == [(1,), (None,)]
    assert found.rejected.place == ("events:2",)


@pytest.mark.parametrize(
    "events",
    ["orders.jsonl", 7, [1], [{1: 2}], {"event": "Order"}, {"Order": {"id": 1}}, {1: []}, None],
    ids=repr,
)
def test_what_holds_no_events_is_a_type_error_that_says_what_does(events: object) -> None:
    with pytest.raises(TypeError, match=r"events|mapping|class"):
        list(tables_of(events))


# ---- files -----------------------------------------------------------------------------------------------


def read(path: Path) -> Accepted:
    return accept(PROGRAM, read_events(str(path)))


def test_broken_lines_are_rejected_and_their_neighbours_go_on(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    good = b'{"event": "Tick", "id": %d, "det_time": 1}\n'
    digits = b'{"event": "Tick", "id": ' + b"9" * 5000 + b"}\n"
    nested = b"[" * 100_000 + b"\n"
    file.write_bytes(
        b"\xef\xbb\xbf" + good % 1 + b'{"a": \n' + b"[1]\n\n" + b'{"\xff": 1}\n' + digits + nested + good % 2
    )
    found = read(file)
    assert [v[4] for v in rows_of(found.batch)] == [(1,), (2,)]
    assert [place.split(":")[1] for place in found.rejected.place] == ["2", "3", "5", "6", "7"]
    assert [reason[:20] for reason in found.rejected.reason] == [
        "it is not JSON: Expe",
        "it is not an object:",
        "it is not UTF-8",
        "it holds a number th",
        "it is nested too dee",
    ]


@given(st.text(st.sampled_from('{}[]":, 1.eE-atrufl\\\t\u00a0\x0c'), max_size=14))
@settings(max_examples=300)
def test_a_line_is_read_as_json_reads_it(text: str) -> None:
    """The short way to the scanner of json takes what json takes, and says what json says of the rest."""
    line = text.encode().strip()
    try:
        expected = lines_of_json.DECODER.decode(line.decode())
    except json.JSONDecodeError as error:
        expected = Broken(f"it is not JSON: {error.msg} at column {error.colno}", line.decode())
    if not isinstance(expected, dict | Broken):
        expected = Broken(lines_of_json.NO_OBJECT, line.decode())
    assert lines_of_json.read_line(line) == expected


def test_what_stands_around_an_object_is_not_passed_over() -> None:
    assert lines_of_json.read_line(b'{"a": 1.50, "b": [1e400]}') == {"a": Decimal("1.50"), "b": [Decimal("1e400")]}
    for text, reason in (
        ('{"a": 1} x', "Extra data at column 10"),
        ('{"a": 1}{}', "Extra data at column 9"),
        ("x", "Expecting value at column 1"),
        ('{"a": }', "Expecting value at column 7"),
    ):
        assert lines_of_json.read_line(text.encode()) == Broken(f"it is not JSON: {reason}", text)


def test_lines_are_made_into_text_when_they_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_bytes(b'{"event": "Tick", "id": 1, "det_time": 1}\n  {"event": "N\xc3\xa9ant"} \n')
    (raw,) = read_events(str(file))
    assert isinstance(raw, RawRows)
    assert raw.texts is not None
    assert list(raw.texts[1:]) == [raw.texts[1]] == ['{"event": "Néant"}']
    assert read(file).rejected.raw == ('{"event": "Néant"}',)


def test_broken_rows_of_csv_are_rejected_and_a_file_may_name_the_class(tmp_path: Path) -> None:
    file = tmp_path / "Tick.csv"
    file.write_bytes(b'id,det_time\n1,5\n2\n"3\n",6\n\xff,7\n,8\n\nx,9\n')
    found = read(file)
    assert [v[3:] for v in rows_of(found.batch)] == [(5 * SECOND, (1,)), (6 * SECOND, (3,)), (8 * SECOND, (None,))]
    assert [(p.split(":")[1], r) for p, r in zip(found.rejected.place, found.rejected.reason, strict=True)] == [
        ("3", "it has 1 cells, the header 2"),
        ("6", "it is not UTF-8"),
        ("9", '`id` is an INT, and "x" does not fit'),
    ]


def test_a_folder_is_read_by_name_and_ties_follow_that_order(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"event": "Tick", "id": 1, "det_time": 1}\n')
    (tmp_path / "a.json").write_text('[{"event": "Tick", "id": 2, "det_time": 1}, 7]')
    (tmp_path / "c.jsonl").write_text("")
    (tmp_path / "notes.txt").write_text("nothing")
    found = read(tmp_path)
    assert [v[4] for v in rows_of(found.batch)] == [(2,), (1,)]
    assert found.rejected.place == (f"{tmp_path / 'a.json'}:2",)


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_long_file_is_read_in_pieces_and_places_stay_right(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"Tick.{ending}"
    rows = [f'{{"id": {n}, "det_time": {n}}}' if ending == "jsonl" else f"{n},{n}" for n in range(1, 60_001)]
    rows[54_999] = "{" if ending == "jsonl" else "1,2,3"
    rows[55_001] = '{"id": "x", "det_time": 1}' if ending == "jsonl" else "x,1"
    file.write_text("\n".join(rows if ending == "jsonl" else ["id,det_time", *rows]), "utf-8")
    found = read(file)
    assert len(found.batch) == 59_998
    first = 0 if ending == "jsonl" else 1
    assert found.rejected.place == (f"{file}:{55_000 + first}", f"{file}:{55_002 + first}")
    assert found.batch.tables[3]["id"].to_pylist() == [n for n in range(1, 60_001) if n not in (55_000, 55_002)]


def test_a_file_that_cannot_be_read_has_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "e.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"event": "Tick"}\n' * 100_000)[:-20])
    latin1 = pa.array([b"M\xfcnchen"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"event": latin1}), tmp_path / "latin1.parquet")
    for name in ("none.jsonl", "e.parquet", "cut.jsonl.gz", "latin1.parquet"):
        with pytest.raises(Unreadable) as raised:
            read(tmp_path / name)
        assert raised.value.diagnostic.code == "E510"


FRAGMENTS = [
    b'{"event": "Order", "id": 1, "det_time": 1}',
    b'"event"',
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b'"',
    b"\n",
    b"\r",
]
FRAGMENTS += [
    b"\xff",
    b"\0",
    b"1e999999999",
    b"-1e-999999999",
    b"NaN",
    b"null",
    b"\\ud800",
    b"event,id,det_time\n",
    b"Order,1,1\n",
    b"\xef\xbb\xbf",
]


@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join), st.sampled_from(["jsonl", "csv", "parquet", "txt"])
)
@settings(max_examples=300)
def test_no_file_brings_a_traceback(folder: Path, content: bytes, ending: str) -> None:
    file = folder / f"Order.{ending}"
    file.write_bytes(content)
    with suppress(Unreadable):
        assert all(read(file).rejected.reason)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.decimals()
    | st.datetimes()
    | st.dates(),
    lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.text(max_size=2), inside, max_size=2),
    max_leaves=4,
)


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["event", "id", "price", "note", "occ_time", "det_time", "event_id"]), JSON_VALUES
        )
    )
)
def test_no_value_brings_a_traceback(rows: list[dict[str, Any]]) -> None:
    events = [{"event": "Order", "id": 1, "det_time": 1, **row} for row in rows]
    found = accepted(events)
    assert len(found.batch) + len(found.rejected) + found.absorbed == len(events)


# ---- merging ---------------------------------------------------------------------------------------------


def test_complex_events_follow_the_version_that_completed_them() -> None:
    batch = accepted([{"event": "Tick", "id": n, "det_time": n} for n in range(1, 4)]).batch
    plan = PROGRAM.class_plan("Twice")
    assert plan is not None

    def found(*seqs: int) -> Occurrences:
        times = np.array(seqs) * SECOND
        values = pa.table({"id": pa.array([s * 10 for s in seqs], pa.int32())})
        return Occurrences.first(plan.event_class, np.array(seqs), times, times, values, pa.array([[s] for s in seqs]))

    merged = merge(batch, [found(2, 2), found(1, 2)])
    assert merged.seq.tolist() == [1, 1, 2, 2, 2, 2, 3]
    known = len(batch.classes)
    assert merged.code.tolist() == [3, known + 1, 3, known, known, known + 1, 3]
    assert merged.row.tolist() == [0, 0, 1, 0, 1, 1, 2]
    assert [merged.tables[c]["id"][r].as_py() for c, r in zip(merged.code, merged.row, strict=True)] == [
        *(1, 10, 2, 20, 20, 20, 3)
    ]
    assert merge(batch, []) is batch

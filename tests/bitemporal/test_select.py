"""SELECT classes in process: what is translated and refused, rows and what they are made of, keys, changes.

That values are those of Spark is the matter of tests/spark/test_select.py, over the same queries.
"""

from __future__ import annotations

import math
import random
import re
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from augury.algebra.select import SelectPlan
from augury.duck.select import Duck, Made, Rows, SelectFailed, Untranslatable, changes, evaluated, keyed
from augury.event import EventClass
from augury.kernels.columns import arrow_type
from augury.kernels.order import least_first
from tests.bitemporal.queries import (
    EPOCH,
    EXPRESSIONS,
    FAILURES,
    ITEMS,
    NOW_US,
    QUERIES,
    at,
    plan_of,
    program_of,
    view_of,
    views_of,
)


def rows_of(attributes: str, body: str, key: str = "", now_us: int = NOW_US) -> tuple[Rows, EventClass]:
    program = program_of(attributes, body, key)
    _, event_class, made = plan_of(program)
    return evaluated(made, views_of(program), now_us), event_class


def values_of(attributes: str, body: str) -> list[tuple[Any, ...]]:
    rows, _ = rows_of(attributes, body)
    return sorted(zip(*(column.to_pylist() for column in rows.attributes.columns), strict=True), key=repr)


def column_of(expression: str, kind: str) -> list[Any]:
    rows, _ = rows_of(f"x {kind}", f"SELECT {expression} AS x FROM Item OCCURRING AT occTime")
    return list(rows.attributes.column("x").to_pylist())


def us(hours: float) -> int:
    return int((at(hours) - EPOCH).total_seconds()) * 1_000_000


# ---- what comes out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_rows_are_stored_as_the_class_declares(name):
    rows, event_class = rows_of(*QUERIES[name])
    assert [field.type for field in rows.attributes.schema] == [arrow_type(a.type) for a in event_class.attributes]
    assert rows.attributes.column_names == [a.name for a in event_class.attributes]
    assert rows.occ_time.type == pa.int64()
    assert len(rows) == rows.attributes.num_rows
    assert rows.made is None or len(rows.made.starts) == len(rows) + 1


@pytest.mark.parametrize("about", EXPRESSIONS)
def test_expressions_are_stored_as_declared(about):
    for text, kind in EXPRESSIONS[about]:
        rows, event_class = rows_of(f"x {kind}", f"SELECT {text} AS x FROM Item OCCURRING AT occTime")
        assert rows.attributes.schema.field("x").type == arrow_type(event_class.attributes[0].type), text
        assert len(rows) == len(ITEMS)


VALUES: list[tuple[str, str, list[Any]]] = [
    ("i / 2", "DOUBLE", [3.5, -3.5, None, 1.5, 0.5, 1.0, 3.5]),
    ("n / 3", "NUMERIC(14,6)", ["3.416667", "-0.016667", None, "33333333.330000", "0.003333", "0.666667", "0.833333"]),
    ("CAST(n AS INT)", "INT", [10, 0, None, 99999999, 0, 2, 2]),
    ("d > 1", "BOOLEAN", [True, False, None, True, True, False, False]),
    ("SUBSTRING(s, 0, 2)", "STRING", ["ap", "Äp", None, "", " a", "zz", "ap"]),
    ("UPPER(s)", "STRING", ["APPLE", "ÄPFEL_1", None, "", " A%B ", "ZZ\\TOP", "APPLE"]),
    ("'it''s'", "STRING", ["it's"] * 7),
    ("i <> 7 AND 1 / (i - 7) < 0", "BOOLEAN", [False, True, None, True, True, True, False]),
    ("i = 7 OR 1 / (i - 7) > -1", "BOOLEAN", [True, True, None, True, True, True, True]),
    ("IF(id > 0, 1, CAST('x' AS INT))", "INT", [1] * 7),
    ("IF(id > 0, 1, 1 / 0)", "DOUBLE", [1.0] * 7),
    ("COALESCE(id, 1 / 0)", "DOUBLE", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]),
    ("CASE WHEN i = 7 THEN 0 ELSE 70 / (i - 7) END", "DOUBLE", [0.0, -5.0, None, -17.5, -70 / 6, -14.0, 0.0]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "wanted"), VALUES)
def test_values(text, kind, wanted):
    exact = [Decimal(value) if kind.startswith("NUMERIC") and value else value for value in wanted]
    assert column_of(text, kind) == exact


def test_occurrence_times():
    rows, _ = rows_of(
        "id INT", "SELECT i.id FROM Item i JOIN Part p ON p.item = i.id OCCURRING AT MAX(i.occTime, p.occTime) + 5h"
    )
    found = zip(rows.attributes.column("id").to_pylist(), rows.occ_time.to_pylist(), strict=True)
    assert sorted(found) == [(1, us(5)), (1, us(6)), (2, us(7)), (4, us(11)), (7, us(11))]


def test_a_string_longer_than_its_attribute_is_cut():
    assert values_of("x VARCHAR(3)", "SELECT s AS x FROM Item WHERE id = 2 OCCURRING AT occTime") == [("Äpf",)]


def test_now_is_bound_anew():
    program = program_of("id INT", "SELECT id FROM Item WHERE occTime > NOW - 2h OCCURRING AT occTime")
    _, _, made = plan_of(program)
    views = views_of(program)
    assert [len(evaluated(made, views, us(hour))) for hour in (0, 3, 7, 20)] == [7, 5, 1, 0]


def test_a_view_is_read_again_when_it_is_another():
    program = program_of("id INT", "SELECT id FROM Item OCCURRING AT occTime")
    _, _, made = plan_of(program)
    views, duck = views_of(program), Duck()
    assert len(evaluated(made, views, 0, duck)) == 7
    assert len(evaluated(made, {**views, "Item": views["Item"].slice(2)}, 0, duck)) == 5
    assert len(evaluated(made, {**views, "Item": views["Item"].slice(7)}, 0, duck)) == 0


def test_a_translation_can_be_printed():
    _, _, made = plan_of(program_of("x NUMERIC", "SELECT n / 3 AS x FROM Item WHERE NOW > ts OCCURRING AT occTime"))
    assert str(made).startswith("SELECT ")
    assert "-- reads Item; functions: spark_divide_decimal_10_2_decimal_1_0_decimal_14_6" in str(made)
    assert made.uses_now


# ---- what does not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_says_why_in_one_line(text):
    kind, word = FAILURES[text]
    with pytest.raises(SelectFailed) as failed:
        column_of(text, kind)
    message = str(failed.value)
    assert re.search(word, message)
    assert "\n" not in message
    assert not re.search(r"UDF|Error|Traceback|_\d", message)


def test_after_a_failure_the_next_query_runs():
    with pytest.raises(SelectFailed, match="zero"):
        column_of("1 / (i - i)", "DOUBLE")
    assert column_of("id", "INT") == [1, 2, 3, 4, 5, 6, 7]


def test_a_time_beyond_the_years_fails():
    with pytest.raises(SelectFailed, match="years 1 to 9999"):
        column_of("ts + 3000000d", "TIMESTAMP")


REFUSED = [
    ("sqrt(d)", "DOUBLE", "SQRT"), ("ROUND(d, 2)", "DOUBLE", "ROUND"), ("TRY_CAST(s AS INT)", "INT", "TRY_CAST"),
    ("s RLIKE 'a'", "BOOLEAN", "REGEXP_LIKE"), ("CAST(i AS SMALLINT)", "INT", "SMALLINT"),
    ("date_format(ts, 'yyyy')", "STRING", "FORMAT"), ("s LIKE s", "BOOLEAN", "pattern"),
    (r"s LIKE 'a\\b'", "BOOLEAN", "pattern"), ("pmod(i, 3)", "INT", "PMOD"), ("to_date(s, 'yyyy')", "DATE", "."),
    ("stddev(d) OVER (PARTITION BY i)", "DOUBLE", "aggregate"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "word"), REFUSED)
def test_what_is_not_known_to_mean_the_same_is_refused(text, kind, word):
    program = program_of(f"x {kind}", f"SELECT {text} AS x FROM Item OCCURRING AT occTime")
    with pytest.raises(Untranslatable, match=word) as refusal:
        plan_of(program)
    assert refusal.value.fragment


@pytest.mark.parametrize(
    "body",
    [
        "SELECT id, COUNT(*) AS c FROM Item GROUP BY ROLLUP (id) OCCURRING AT MAX(occTime)",
        "SELECT COUNT(DISTINCT id, i) AS id, 1L AS c FROM Item OCCURRING AT MAX(occTime)",
        "SELECT a.id, 1L AS c FROM Item a, Item b FULL JOIN Part ON b.id = Part.id OCCURRING AT a.occTime",
    ],
)
def test_queries_that_are_refused(body):
    with pytest.raises(Untranslatable):
        plan_of(program_of("id BIGINT, c BIGINT", body))


def test_what_grows_without_end_is_refused():
    test = "1 / i > 0"
    for number in range(25):
        test = f"(b {'AND' if number % 2 else 'OR'} {test} {'AND' if number % 2 else 'OR'} NOT b)"
    with pytest.raises(Untranslatable, match="too long"):
        plan_of(program_of("x BOOLEAN", f"SELECT {test} AS x FROM Item OCCURRING AT occTime"))


def test_duckdb_reaches_no_file():
    duck = Duck()
    with pytest.raises(duckdb.Error, match="disabled"):
        duck.connection.execute("SELECT * FROM read_csv('/etc/hostname')")
    with pytest.raises(duckdb.Error, match="locked"):
        duck.connection.execute("SET threads = 4")


# ---- what rows are made of --------------------------------------------------------------------------

TRACED = [
    ("SELECT id FROM Item WHERE id < 3 OCCURRING AT occTime", {1: {("Item", 0)}, 2: {("Item", 1)}}),
    (
        "SELECT p.id FROM Item i JOIN Part p ON i.id = p.item WHERE i.id = 1 OCCURRING AT i.occTime",
        {10: {("Item", 0), ("Part", 0)}, 11: {("Item", 0), ("Part", 1)}},
    ),
    (
        "SELECT i.id FROM Item i LEFT JOIN Part p ON i.id = p.item AND p.q = 9 WHERE i.id < 4 OCCURRING AT i.occTime",
        {1: {("Item", 0)}, 2: {("Item", 1), ("Part", 2)}, 3: {("Item", 2)}},
    ),
    (
        "SELECT u.id FROM (SELECT i AS id, ts FROM Item WHERE id IN (1, 2) UNION SELECT 7, ts FROM Item WHERE id = 1) u"
        " OCCURRING AT u.ts",
        {7: {("Item", 0)}, -7: {("Item", 1)}},
    ),
    (
        "SELECT u.id FROM (SELECT q AS id, TIMESTAMP '2026-01-01 00:00:00' AS t FROM Part WHERE q > 5"
        " UNION SELECT i, TIMESTAMP '2026-01-01 00:00:00' FROM Item WHERE id = 1) u OCCURRING AT u.t",
        {9: {("Part", 2)}, 6: {("Part", 5), ("Part", 6)}, 7: {("Item", 0)}},
    ),
    (
        "WITH c AS (SELECT id, item FROM Part WHERE q > 5) SELECT c.id FROM c JOIN Item ON Item.id = c.item"
        " WHERE EXISTS (SELECT 1 FROM Part WHERE name = 'bolt') OCCURRING AT Item.occTime",
        {12: {("Part", 2), ("Item", 1)}, 15: {("Part", 5), ("Item", 6)}, 16: {("Part", 6), ("Item", 3)}},
    ),
    (
        "SELECT id FROM Item LEFT SEMI JOIN Part ON Item.id = Part.item WHERE id < 3 OCCURRING AT occTime",
        {1: {("Item", 0)}, 2: {("Item", 1)}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "wanted"), TRACED)
def test_rows_are_traced_to_those_joined_and_united(body, wanted):
    program = program_of("id INT", body)
    plan, _, made = plan_of(program)
    rows = evaluated(made, views_of(program), NOW_US)
    assert plan.traced
    assert rows.made is not None
    names = [view.name for view in made.views]
    found = {
        key: {(names[view], row) for view, row in rows.made.of(i)}
        for i, key in enumerate(rows.attributes.column("id").to_pylist())
    }
    assert found == wanted


def test_row_numbers_are_those_of_the_view():
    program = program_of("id INT", "SELECT id FROM Item WHERE id > 5 OCCURRING AT occTime")
    _, _, made = plan_of(program)
    views = views_of(program)
    numbered = views["Item"].append_column("row", pa.array([100 + n for n in range(7)]))
    rows = evaluated(made, {**views, "Item": numbered}, 0)
    assert rows.made is not None
    assert [rows.made.of(i) for i in range(2)] == [[(0, 105)], [(0, 106)]]


@pytest.mark.parametrize("name", ["groups", "distinct", "row numbers", "a CTE"])
def test_aggregates_and_their_like_are_not_traced(name):
    rows, _ = rows_of(*QUERIES[name])
    assert rows.made is None


# ---- keys -------------------------------------------------------------------------------------------


def test_of_several_rows_with_one_key_the_least_counts():
    body = "SELECT item AS id, q FROM Part OCCURRING AT occTime"
    rows, event_class = rows_of("id INT, q INT", body, "id")
    found = keyed(rows, event_class)
    assert found.rows.attributes.to_pylist() == [
        {"id": 1, "q": 4}, {"id": 2, "q": 9}, {"id": 4, "q": 6}, {"id": 7, "q": 6}, {"id": 9, "q": 4},
        {"id": None, "q": 4},
    ]  # fmt: skip
    assert (found.surplus, found.timeless) == (1, 0)


def test_without_an_occurrence_time_there_is_no_event():
    rows, event_class = rows_of("id INT", "SELECT id FROM Item OCCURRING AT ts", "id")
    found = keyed(rows, event_class)
    assert (len(found.rows), found.surplus, found.timeless) == (6, 0, 1)
    assert found.rows.made is not None
    assert found.rows.made.of(2) == [(0, 3)]


def test_equal_rows_are_one_event_made_of_all_that_each_is_made_of():
    rows, event_class = rows_of("x INT", "SELECT i.i AS x FROM Item i, Part p WHERE i.id = 1 OCCURRING AT i.occTime")
    back = rows.taken(np.arange(len(rows))[::-1].copy())
    for found in (keyed(rows, event_class), keyed(back, event_class)):
        assert (len(found.rows), found.surplus) == (1, 6)
        assert found.rows.made is not None
        assert found.rows.made.of(0) == [(0, 0), *((1, row) for row in range(7))]


def test_only_rows_that_are_quite_equal_are_united():
    """Row 1 and 4 are the least of key 1; row 2 has their key, row 3 their values but for the time."""
    event_class = program_of("k INT, x INT", "SELECT id AS k, i AS x FROM Item OCCURRING AT occTime", "k")
    target = event_class.classes[-1].event_class
    columns = {"k": pa.array([2, 1, 1, 1, 1], pa.int32()), "x": pa.array([None, 5, 6, 5, 5], pa.int32())}
    made = Made(np.array([0, 1, 3, 4, 5, 7]), np.array([0, 0, 1, 0, 0, 0, 1]), np.array([9, 1, 8, 2, 3, 4, 8]))
    found = keyed(Rows(pa.table(columns), pa.array([7, 1, 1, 2, 1], pa.int64()), made), target)
    assert plain(found.rows) == [(1, 5, 1), (2, None, 7)]
    assert found.rows.made is not None
    assert [found.rows.made.of(i) for i in range(2)] == [[(0, 1), (0, 4), (1, 8)], [(0, 9)]]


def random_rows(chance: random.Random, count: int, event_class: EventClass) -> Rows:
    ids = [chance.choice([None, 1, 2, 3, 4]) for _ in range(count)]
    doubles = [chance.choice([None, math.nan, 0.5, -1.0, math.inf]) for _ in range(count)]
    texts = [chance.choice([None, "", "a", "Z", "é"]) for _ in range(count)]
    columns = [pa.array(ids, pa.int32()), pa.array(doubles, pa.float64()), pa.array(texts, pa.string())]
    times = pa.array([chance.choice([1, 2, 3]) for _ in range(count)], pa.int64())
    starts = np.arange(count + 1)
    made = Made(starts, np.zeros(count, np.int64), np.arange(count))
    return Rows(pa.table(columns, names=[a.name for a in event_class.attributes]), times, made)


def plain(rows: Rows) -> list[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in rows.attributes.columns]
    return list(zip(*columns, rows.occ_time.to_pylist(), strict=True))


@pytest.mark.parametrize("key", ["k", "k, d", ""])
@pytest.mark.parametrize("seed", range(20))
def test_keys_and_changes_are_those_of_a_plain_reading(key, seed):
    chance = random.Random(f"{key}{seed}")
    event_class = program_of("k INT, d DOUBLE, s STRING", "SELECT i AS k, d, s FROM Item OCCURRING AT occTime", key)
    target = event_class.classes[-1].event_class
    size = {"k": 1, "k, d": 2, "": 4}[key]

    def least(rows: Rows) -> dict[str, tuple[Any, ...]]:
        best: dict[str, tuple[Any, ...]] = {}
        for row in sorted(plain(rows), key=lambda row: (row[3], [least_first(value) for value in row[:3]])):
            best.setdefault(repr(row[:size]), row)
        return best

    before, after = (random_rows(chance, chance.randrange(30), target) for _ in range(2))
    kept = [keyed(rows, target) for rows in (before, after)]
    for rows, found in zip((before, after), kept, strict=True):
        assert sorted(map(repr, plain(found.rows))) == sorted(map(repr, least(rows).values()))
        assert found.surplus == len(rows) - len(found.rows)
        equal: dict[str, list[tuple[int, int]]] = {}
        for number, row in enumerate(plain(rows)):
            equal.setdefault(repr(row), []).append((0, number))
        assert found.rows.made is not None
        assert [found.rows.made.of(i) for i in range(len(found.rows))] == [equal[repr(r)] for r in plain(found.rows)]
    old, new = least(before), least(after)
    diff = changes(kept[0].rows, kept[1].rows, target)
    olds, news = plain(kept[0].rows), plain(kept[1].rows)
    assert {repr(news[i][:size]) for i in diff.announced} == set(new) - set(old)
    assert {repr(olds[i][:size]) for i in diff.withdrawn} == set(old) - set(new)
    assert {repr(news[i][:size]) for i in diff.changed} == {
        name for name in set(old) & set(new) if repr(old[name]) != repr(new[name])
    }
    assert [repr(olds[i][:size]) for i in diff.changed_from] == [repr(news[i][:size]) for i in diff.changed]


# ---- size -------------------------------------------------------------------------------------------


def test_ten_thousand_rows():
    body = "SELECT a.id, a.n / 3 AS x FROM Item a JOIN Item b ON a.id = b.i WHERE a.s LIKE 'a%' OCCURRING AT a.occTime"
    program = program_of("id INT, x NUMERIC", body, "id")
    plan, event_class, made = plan_of(program)
    assert isinstance(plan, SelectPlan)
    item = next(p.event_class for p in program.classes if p.event_class.name == "Item")
    many = [(n, True, n, n, n / 7, Decimal(n), Decimal(n), f"a{n}", at(0), None) for n in range(10_000)]
    rows = evaluated(made, {"Item": view_of(item, many)}, NOW_US)
    found = keyed(rows, event_class)
    assert (len(found.rows), found.surplus) == (10_000, 0)
    diff = changes(found.rows.taken(np.arange(5_000)), found.rows, event_class)
    assert (len(diff.announced), len(diff.changed), len(diff.withdrawn)) == (5_000, 0, 0)

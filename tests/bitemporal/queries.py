"""SELECTs that have one meaning on every engine: expressions by type, whole queries, and those that fail.

Everything is over three views, `Item`, `Part` and `Wide`; what it gives is compared, not written down here.
"""

# A query reads best on one line.
# ruff: noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.api import compile
from augury.duck.select import Translated, translated
from augury.event import EventClass
from augury.kernels.columns import arrow_type

CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Item (id INT, b BOOLEAN, i INT, j BIGINT, d DOUBLE, n NUMERIC(10,2), w NUMERIC,
  s STRING, ts TIMESTAMP, day DATE) ID (id) LIFESPAN (5d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Part (id INT, item INT, q INT, name VARCHAR(20), price NUMERIC(8,2))
  ID (id) LIFESPAN (5d);
"""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 1, 9, tzinfo=UTC)
NOW_US = 1_767_344_400_000_000  # 2026-01-02T09:00:00Z


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


ITEMS: list[tuple[Any, ...]] = [
    (1, True, 7, 70, 1.5, Decimal("10.25"), Decimal("3.141592653589793238"), "apple", at(0), date(2026, 1, 31)),
    (2, False, -7, -70, -2.5, Decimal("-0.05"), Decimal("-2.5"), "Äpfel_1", at(1.5), date(2024, 2, 29)),
    (3, None, None, None, None, None, None, None, None, None),
    (4, True, 3, 2**40, math.nan, Decimal("99999999.99"), Decimal("0.000000000000000001"), "", at(30), date(1960, 5, 5)),
    (5, False, 1, 1, math.inf, Decimal("0.01"), Decimal("12345678901234567890.5"), " a%b ", at(-9e5), date(1900, 1, 1)),
    (6, None, 2, 2, 0.001, Decimal("2.00"), Decimal(7), "zz\\top", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None),
    (7, True, 7, 70, -0.0, Decimal("2.50"), None, "apple", at(0) + timedelta(microseconds=123456), date(2026, 1, 31)),
]  # fmt: skip
PARTS: list[tuple[Any, ...]] = [
    (10, 1, 4, "wheel", Decimal("1.10")),
    (11, 1, None, "axle", Decimal("2.20")),
    (12, 2, 9, "Wheel", None),
    (13, 9, 4, "wheel", Decimal("-3.35")),
    (14, None, 4, None, Decimal("0.00")),
    (15, 7, 6, "axle", Decimal("5.55")),
    (16, 4, 6, "bolt", Decimal("5.55")),
]


def view_of(event_class: EventClass, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """An as-of-now view; events of a class occur an hour after each other, and are known a minute later."""
    kinds = [arrow_type(attribute.type) for attribute in event_class.attributes]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    times = [at(number) for number in range(len(rows))]
    stored = pa.timestamp("us", tz="UTC")
    columns += [pa.array(times, stored), pa.array([time + timedelta(minutes=1) for time in times], stored)]
    return pa.table(columns, names=[*(a.name for a in event_class.attributes), "occ_time", "det_time"])


def program_of(attributes: str, body: str, key: str = "") -> Program:
    return compile(f"{CLASSES}CREATE COMPLEX EVENT CLASS X ({attributes}) ID ({key}) LIFESPAN (1d) AS {body};")


def plan_of(program: Program, name: str = "X") -> tuple[SelectPlan, EventClass, Translated]:
    classes = {plan.event_class.name: plan for plan in program.classes}
    plan = classes[name].derivation
    assert isinstance(plan, SelectPlan)
    return plan, classes[name].event_class, translated(plan, [one.event_class for one in program.classes])


def views_of(program: Program) -> dict[str, pa.Table]:
    rows = {"Item": ITEMS, "Part": PARTS}
    return {
        plan.event_class.name: view_of(plan.event_class, rows[plan.event_class.name])
        for plan in program.classes
        if plan.event_class.name in rows
    }


# Expressions over Item by what they are about, each with the type of the attribute it goes into.
EXPRESSIONS: dict[str, list[tuple[str, str]]] = {
    "whole numbers": [
        ("i + 1", "INT"), ("i - j", "BIGINT"), ("i * i", "INT"), ("i / 2", "DOUBLE"), ("j / i", "DOUBLE"),
        ("i % 3", "INT"), ("-j % 4", "BIGINT"), ("i DIV 2", "BIGINT"), ("j DIV 3", "BIGINT"), ("-i", "INT"),
        ("ABS(i)", "INT"), ("ABS(j)", "BIGINT"), ("CEIL(i)", "BIGINT"), ("FLOOR(j)", "BIGINT"), ("i + NULL", "INT"),
        ("mod(i, 4)", "INT"), ("-2147483648", "INT"), ("9223372036854775807", "BIGINT"), ("ROUND(i)", "INT"),
    ],
    "doubles": [
        ("d + 1", "DOUBLE"), ("d - n", "DOUBLE"), ("d * i", "DOUBLE"), ("d / 3", "DOUBLE"), ("d % 2", "DOUBLE"),
        ("-d", "DOUBLE"), ("ABS(d)", "DOUBLE"), ("1e3 * d", "DOUBLE"), ("d / i", "DOUBLE"), ("d + j", "DOUBLE"),
        ("FLOOR(CAST(n AS DOUBLE))", "BIGINT"), ("CEIL(-1.5e0)", "BIGINT"), ("w + d", "DOUBLE"),
    ],
    "exact numbers": [
        ("n + n", "NUMERIC(38,10)"), ("n - 1", "NUMERIC(38,10)"), ("n * n", "NUMERIC(38,10)"),
        ("n / 3", "NUMERIC(38,18)"), ("n / i", "NUMERIC(38,18)"), ("n % 0.3", "NUMERIC(38,10)"),
        ("1.5 * n", "NUMERIC(38,10)"), ("n / 7.00", "NUMERIC(38,18)"), ("n + i", "NUMERIC(38,10)"),
        ("n + j", "NUMERIC(38,10)"), ("-n", "NUMERIC(38,10)"), ("ABS(n)", "NUMERIC(38,10)"), ("n DIV 2", "BIGINT"),
        ("CEIL(n)", "NUMERIC(38,0)"), ("FLOOR(n)", "NUMERIC(38,0)"), ("ROUND(n, 1)", "NUMERIC(38,10)"),
        ("ROUND(n)", "NUMERIC(38,0)"), ("n % i", "NUMERIC(38,10)"), ("2 / n", "NUMERIC(38,18)"),
    ],
    "wide exact numbers": [
        ("w + w", "NUMERIC(38,10)"), ("w - n", "NUMERIC(38,10)"), ("w * 2", "NUMERIC(38,10)"),
        ("w / 3", "NUMERIC(38,12)"), ("w + 1", "NUMERIC(38,10)"), ("n * 1.123456789", "NUMERIC(38,18)"),
        ("w * 0.1", "NUMERIC(38,12)"), ("w % 0.7", "NUMERIC(38,16)"), ("w DIV 3", "BIGINT"),
        ("CAST(w AS DOUBLE)", "DOUBLE"), ("CEIL(w)", "NUMERIC(38,0)"), ("w / n", "NUMERIC(38,10)"),
    ],
    "comparisons": [
        ("i = j", "BOOLEAN"), ("i < n", "BOOLEAN"), ("d > n", "BOOLEAN"), ("d = d", "BOOLEAN"), ("d > 1e300", "BOOLEAN"),
        ("n <> 2", "BOOLEAN"), ("s < 'b'", "BOOLEAN"), ("s = 'APPLE'", "BOOLEAN"), ("s >= 'z'", "BOOLEAN"),
        ("b = TRUE", "BOOLEAN"), ("b < TRUE", "BOOLEAN"), ("ts > day", "BOOLEAN"), ("day <= DATE '2026-01-31'", "BOOLEAN"),
        ("ts = '2026-01-01 09:00:00'", "BOOLEAN"), ("i <=> NULL", "BOOLEAN"), ("i BETWEEN 1 AND 5", "BOOLEAN"),
        ("n BETWEEN 0 AND 2.5", "BOOLEAN"), ("i IN (1, 2, NULL)", "BOOLEAN"), ("n IN (2, 0.01)", "BOOLEAN"),
        ("s IS NULL", "BOOLEAN"), ("b IS NOT TRUE", "BOOLEAN"), ("i = '7'", "BOOLEAN"), ("d = 'NaN'", "BOOLEAN"),
        ("w > n", "BOOLEAN"), ("d <> 0", "BOOLEAN"), ("s <> ''", "BOOLEAN"),
    ],
    "truth": [
        ("b AND i > 1", "BOOLEAN"), ("b OR i > 1", "BOOLEAN"), ("NOT b", "BOOLEAN"), ("b AND NULL", "BOOLEAN"),
        ("b OR NULL", "BOOLEAN"), ("i <> 0 AND 5 / i > 1", "BOOLEAN"), ("d = 0 OR 1 / d > 0", "BOOLEAN"),
        ("IF(i > 2, i, j)", "BIGINT"), ("CASE WHEN b THEN n ELSE i END", "NUMERIC(38,10)"),
        ("CASE i WHEN 7 THEN 'seven' WHEN 3 THEN 'three' END", "STRING"), ("COALESCE(n, i, 0)", "NUMERIC(38,10)"),
        ("NULLIF(i, 7)", "INT"), ("NULLIF(n, 2)", "NUMERIC(38,10)"), ("GREATEST(i, n, 1)", "NUMERIC(38,10)"),
        ("LEAST(d, i)", "DOUBLE"), ("GREATEST(d, 1)", "DOUBLE"), ("nvl(s, '-')", "STRING"), ("LEAST(ts, day)", "TIMESTAMP"),
    ],
    "strings": [
        ("s || '!'", "STRING"), ("CONCAT(s, '-', i)", "STRING"), ("LENGTH(s)", "INT"), ("UPPER(s)", "STRING"),
        ("LOWER(s)", "STRING"), ("TRIM(s)", "STRING"), ("LTRIM(s)", "STRING"), ("SUBSTRING(s, 2, 3)", "STRING"),
        ("SUBSTRING(s, 0, 2)", "STRING"), ("SUBSTRING(s, -3)", "STRING"), ("SUBSTRING(s, -9, 6)", "STRING"),
        ("SUBSTRING(s, 2, -1)", "STRING"), ("STARTSWITH(s, 'a')", "BOOLEAN"), ("ENDSWITH(s, '')", "BOOLEAN"),
        ("CONTAINS(s, 'p')", "BOOLEAN"), ("s LIKE '_p%'", "BOOLEAN"), ("s LIKE '%\\%%'", "BOOLEAN"),
        ("s LIKE '%!_1' ESCAPE '!'", "BOOLEAN"), ("s LIKE 'apple'", "BOOLEAN"), ("s || NULL", "STRING"),
        ("UPPER('straße ﬁ')", "STRING"), ("s NOT LIKE 'a%'", "BOOLEAN"), ("'it''s'", "STRING"), (r"CONCAT('a''', '''b', 'c\'d', '''', '')", "STRING"),
        ("s LIKE 'zz\\\\\\\\%'", "BOOLEAN"),
    ],
    "times": [
        ("YEAR(ts)", "INT"), ("MONTH(day)", "INT"), ("DAY(ts)", "INT"), ("HOUR(ts)", "INT"), ("MINUTE(ts)", "INT"),
        ("SECOND(ts)", "INT"), ("HOUR(day)", "INT"), ("ts + 5h", "TIMESTAMP"), ("ts - 2d", "TIMESTAMP"),
        ("5d + ts", "TIMESTAMP"), ("day + 1d", "DATE"), ("day - 2h", "TIMESTAMP"), ("ts - day > 1d", "BOOLEAN"),
        ("ts - NOW < 5d", "BOOLEAN"), ("NOW", "TIMESTAMP"), ("NOW - 30m", "TIMESTAMP"), ("occTime", "TIMESTAMP"),
        ("ts - occTime > 2 * 1h", "BOOLEAN"), ("date_add(day, 3)", "DATE"), ("date_sub(day, 40)", "DATE"),
        ("datediff(ts, day)", "INT"), ("date_trunc('hour', ts)", "TIMESTAMP"), ("date_trunc('WEEK', ts)", "TIMESTAMP"),
        ("trunc(day, 'MM')", "DATE"), ("add_months(day, 1)", "DATE"), ("last_day(day)", "DATE"),
        ("dayofweek(day)", "INT"), ("quarter(day)", "INT"), ("day - DATE '2026-01-01' > 3d", "BOOLEAN"),
        ("EXTRACT(YEAR FROM ts)", "INT"), ("ts + INTERVAL '1' MONTH", "TIMESTAMP"), ("unix_micros(ts)", "BIGINT"),
        ("day - INTERVAL '1' YEAR", "DATE"), ("TIMESTAMP '2026-01-01 10:00:00'", "TIMESTAMP"), ("dayofyear(ts)", "INT"),
        ("detTime - occTime = 1m", "BOOLEAN"),
    ],
    "what binds tighter": [
        ("i + 1 || 'x'", "STRING"), ("2 * i || s", "STRING"), ("-i % 4", "INT"), ("10 - 4 - i", "INT"), ("2 + 9 DIV 2 * i", "BIGINT"),
        ("NOT b OR b", "BOOLEAN"), ("NOT i = 7", "BOOLEAN"), ("i = 7 = b", "BOOLEAN"), ("NOT b IS NULL", "BOOLEAN"),
        ("b OR b AND i > 99", "BOOLEAN"), ("i < 3 <=> b", "BOOLEAN"), ("NOT i BETWEEN 1 AND 3 AND b", "BOOLEAN"),
        ("i % (3) * 2", "INT"), ("- - i", "INT"), ("i - -1", "INT"), ("7 / 2 / 2", "DOUBLE"), ("s || 'a' LIKE '%ea'", "BOOLEAN"),
    ],
    "casts": [
        ("CAST(b AS INT)", "INT"), ("CAST(i AS STRING)", "STRING"), ("CAST(n AS INT)", "INT"), ("CAST(n AS STRING)", "STRING"),
        ("CAST(d AS STRING)", "STRING"), ("CAST(n AS DOUBLE)", "DOUBLE"), ("CAST(n AS NUMERIC(12,1))", "NUMERIC(12,1)"),
        ("CAST(ts AS STRING)", "STRING"), ("CAST(day AS STRING)", "STRING"), ("CAST(ts AS DATE)", "DATE"),
        ("CAST(day AS TIMESTAMP)", "TIMESTAMP"), ("CAST('12' AS INT)", "INT"), ("CAST(' 1.55 ' AS NUMERIC(4,1))", "NUMERIC(4,1)"),
        ("CAST('1e2' AS DOUBLE)", "DOUBLE"), ("CAST('2026-02-03T04:05:06.5Z' AS TIMESTAMP)", "TIMESTAMP"),
        ("CAST('yes' AS BOOLEAN)", "BOOLEAN"), ("CAST(i AS BOOLEAN)", "BOOLEAN"), ("CAST(0.1e0 AS NUMERIC(20,18))", "NUMERIC(20,18)"),
        ("CAST(j AS NUMERIC(20,2))", "NUMERIC(20,2)"), ("CAST(ts AS BIGINT)", "BIGINT"), ("CAST(i AS TIMESTAMP)", "TIMESTAMP"),
        ("CAST(-2.7e0 AS INT)", "INT"), ("CAST(w AS STRING)", "STRING"), ("CAST(w AS NUMERIC(38,2))", "NUMERIC(38,2)"),
        ("CAST(b AS STRING)", "STRING"), ("CAST('2026-02-03' AS DATE)", "DATE"), ("CAST(d AS BOOLEAN)", "BOOLEAN"),
        ("CAST(i AS DOUBLE)", "DOUBLE"), ("CAST(b AS NUMERIC(3,1))", "NUMERIC(3,1)"), ("CAST(1e7 AS STRING)", "STRING"),
    ],
}  # fmt: skip

# Whole queries: the attributes of the class, and what it is derived by.
QUERIES: dict[str, tuple[str, str]] = {
    "one view": ("id INT, n NUMERIC", "SELECT id, n FROM Item OCCURRING AT occTime"),
    "a condition": ("id INT", "SELECT id FROM Item WHERE i > 2 AND s LIKE 'a%' OCCURRING AT occTime - 5m"),
    "star": ("id INT, q INT", "SELECT * EXCEPT (item, name, price) FROM Part OCCURRING AT occTime"),
    "a join": ("id INT, name STRING", "SELECT i.id, p.name FROM Item i JOIN Part p ON i.id = p.item OCCURRING AT MAX(i.occTime, p.occTime)"),
    "a left join": ("id INT, q INT", "SELECT i.id, p.q FROM Item i LEFT JOIN Part p ON i.id = p.item AND p.q > 4 OCCURRING AT i.occTime"),
    "a right join": ("id INT, q INT", "SELECT p.id, i.i AS q FROM Item i RIGHT JOIN Part p ON i.id = p.item OCCURRING AT p.occTime + 1h"),
    "a full join": ("id INT, q INT", "SELECT i.id, p.id AS q FROM Item i FULL JOIN Part p ON i.id = p.item OCCURRING AT MIN(i.occTime, p.occTime)"),
    "a cross join": ("id INT, q INT", "SELECT i.id, p.id AS q FROM Item i, Part p WHERE i.i = p.q + 3 OCCURRING AT i.occTime"),
    "using": ("id INT, q INT", "SELECT id, b.q FROM Part a JOIN Part b USING (id) OCCURRING AT a.occTime"),
    "a semi join": ("id INT", "SELECT id FROM Item LEFT SEMI JOIN Part ON Item.id = Part.item OCCURRING AT Item.occTime"),
    "an anti join": ("id INT", "SELECT id FROM Item LEFT ANTI JOIN Part ON Item.id = Part.item OCCURRING AT occTime"),
    "types that meet": ("id INT", "SELECT i.id FROM Item i JOIN Part p ON i.n > p.price AND i.j > p.q OCCURRING AT i.occTime"),
    "a union": ("id INT", "SELECT id, occTime FROM Item UNION SELECT item, occTime FROM Part WHERE item IS NOT NULL OCCURRING AT occTime"),
    "a union of all": ("x NUMERIC", "SELECT id AS x FROM Item UNION ALL SELECT price FROM Part OCCURRING AT occTime"),
    "a union of rows": ("id INT, x DOUBLE", "SELECT u.id, u.x FROM (SELECT i AS id, d AS x, ts FROM Item UNION SELECT i, d, ts FROM Item) u OCCURRING AT u.ts"),
    "except": ("id INT", "SELECT t.id FROM (SELECT id FROM Item EXCEPT SELECT item FROM Part) t JOIN Item ON Item.id = t.id OCCURRING AT Item.occTime"),
    "intersect": ("id INT", "SELECT t.id FROM (SELECT id FROM Item INTERSECT SELECT item FROM Part) t JOIN Item ON Item.id = t.id OCCURRING AT Item.occTime"),
    "intersect before union": ("id INT", "SELECT t.id FROM (SELECT id FROM Item WHERE id < 4 UNION SELECT q FROM Part INTERSECT SELECT id FROM Item) t JOIN Item ON Item.id = 1 OCCURRING AT Item.occTime"),
    "except of all": ("id INT", "SELECT t.id FROM (SELECT q AS id FROM Part EXCEPT ALL SELECT id FROM Item) t JOIN Item ON Item.id = 1 OCCURRING AT Item.occTime"),
    "group by all": ("q INT, c BIGINT", "SELECT q, COUNT(*) AS c FROM Part GROUP BY ALL OCCURRING AT MAX(occTime)"),
    "a natural join": ("id INT, q INT", "SELECT id, q FROM Part NATURAL JOIN (SELECT id, item FROM Part WHERE q > 4) b OCCURRING AT occTime"),
    "using of a full join": ("id INT", "SELECT id FROM Part FULL JOIN (SELECT i AS id FROM Item) b USING (id) WHERE occTime IS NOT NULL OR id > 0 OCCURRING AT occTime"),
    "a filter before a division": ("id INT, x DOUBLE", "SELECT t.id, 1 / (t.i - 7) AS x FROM (SELECT * FROM Item WHERE i <> 7) t WHERE 1 / (t.i - 7) < 0 OCCURRING AT t.occTime"),
    "groups": ("item INT, c BIGINT, s BIGINT, a DOUBLE", "SELECT item, COUNT(*) AS c, SUM(q) AS s, AVG(q) AS a FROM Part GROUP BY item OCCURRING AT MAX(occTime)"),
    "groups of exact numbers": ("name STRING, s NUMERIC, a NUMERIC, lo NUMERIC", "SELECT name, SUM(price) AS s, AVG(price) AS a, MIN(price) AS lo FROM Part GROUP BY name OCCURRING AT MIN(occTime)"),
    "having": ("q INT, c BIGINT", "SELECT q, COUNT(price) AS c FROM Part GROUP BY q HAVING COUNT(*) > 1 AND SUM(price) > -3 OCCURRING AT MIN(occTime) + 1d"),
    "groups of doubles": ("d DOUBLE, c BIGINT", "SELECT d + 0 AS d, COUNT(*) AS c FROM Item GROUP BY d + 0 OCCURRING AT MAX(occTime)"),
    "a group of all": ("c BIGINT, s DOUBLE", "SELECT COUNT(DISTINCT i) AS c, SUM(d) AS s FROM Item WHERE id < 3 OCCURRING AT MAX(occTime)"),
    "a group of none": ("c BIGINT, s BIGINT", "SELECT COUNT(*) AS c, SUM(i) AS s FROM Item WHERE id > 99 OCCURRING AT MAX(occTime)"),
    "group by place": ("y INT, c BIGINT", "SELECT YEAR(ts) AS y, COUNT(*) AS c FROM Item GROUP BY 1 OCCURRING AT MIN(occTime)"),
    "filtered": ("c BIGINT, s NUMERIC", "SELECT COUNT(*) FILTER (WHERE q > 4) AS c, SUM(price) FILTER (WHERE q = 4) AS s FROM Part OCCURRING AT MAX(occTime)"),
    "distinct": ("q INT, name STRING", "SELECT DISTINCT q, name FROM Part JOIN Item ON Item.id = 1 OCCURRING AT Item.occTime"),
    "row numbers": ("id INT, r INT, k INT", "SELECT id, ROW_NUMBER() OVER (PARTITION BY q ORDER BY id) AS r, RANK() OVER (ORDER BY q) AS k FROM Part OCCURRING AT occTime"),
    "ranks down": ("id INT, r INT, k INT", "SELECT id, DENSE_RANK() OVER (ORDER BY price DESC) AS r, NTILE(3) OVER (ORDER BY id) AS k FROM Part OCCURRING AT occTime"),
    "neighbours": ("id INT, a INT, z INT", "SELECT id, LAG(q) OVER (ORDER BY id) AS a, LEAD(q, 2, -1) OVER (ORDER BY id) AS z FROM Part OCCURRING AT occTime"),
    "running sums": ("id INT, s NUMERIC, a NUMERIC", "SELECT id, SUM(price) OVER (ORDER BY id) AS s, AVG(price) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a FROM Part OCCURRING AT occTime"),
    "sums over time": ("id INT, s BIGINT", "SELECT id, SUM(q) OVER (ORDER BY occTime RANGE BETWEEN 2h PRECEDING AND CURRENT ROW) AS s FROM Part OCCURRING AT occTime"),
    "a named window": ("id INT, s BIGINT", "SELECT id, COUNT(q) OVER w AS s FROM Part WINDOW w AS (PARTITION BY name) OCCURRING AT occTime"),
    "a sub-select": ("id INT", "SELECT id FROM Item WHERE id IN (SELECT item FROM Part WHERE q > 4) OCCURRING AT occTime"),
    "not in": ("id INT", "SELECT id FROM Item WHERE id NOT IN (SELECT item FROM Part) OCCURRING AT occTime"),
    "exists": ("id INT", "SELECT id FROM Item o WHERE EXISTS (SELECT 1 FROM Part WHERE item = o.id AND q > 4) OCCURRING AT occTime"),
    "a scalar sub-select": ("id INT, top INT", "SELECT id, (SELECT MAX(q) FROM Part p WHERE p.item = o.id) AS top FROM Item o WHERE i < (SELECT MAX(q) FROM Part) OCCURRING AT occTime"),
    "a CTE": ("id INT, c BIGINT", "WITH g AS (SELECT item, COUNT(*) AS c FROM Part GROUP BY item) SELECT i.id, g.c FROM Item i JOIN g ON g.item = i.id OCCURRING AT i.occTime"),
    "the first rows": ("id INT, price NUMERIC", "SELECT id, price FROM Part ORDER BY price, id LIMIT 3 OCCURRING AT occTime"),
    "the last rows": ("id INT, price NUMERIC", "SELECT id, price FROM Part ORDER BY price DESC NULLS FIRST, id LIMIT 3 OCCURRING AT occTime"),
    "now": ("id INT", "SELECT id FROM Item WHERE occTime > NOW - 20h OCCURRING AT ts + 5h"),
    "an alias of this list": ("id INT, x INT, y INT", "SELECT id, i + 1 AS x, x * 2 AS y FROM Item OCCURRING AT occTime"),
    "by position": ("a INT, z NUMERIC", "SELECT id, price * 2 FROM Part OCCURRING AT occTime"),
    "a day": ("id INT", "SELECT id FROM Item OCCURRING AT day"),
    "a constant": ("id INT, x STRING, y INT", "SELECT id, 'x' AS x, NULL AS y FROM Item OCCURRING AT occTime"),
    "sums of durations": ("id INT", "SELECT item AS id FROM Part GROUP BY item HAVING SUM(detTime - occTime) > 1m OCCURRING AT MAX(occTime)"),
    "max of strings": ("m STRING, l DATE", "SELECT MAX(s) AS m, MIN(day) AS l FROM Item OCCURRING AT MAX(occTime)"),
}  # fmt: skip

# What fails at run time, each with a word of the reason.
FAILURES: dict[str, tuple[str, str]] = {
    "1 / (i - 7)": ("DOUBLE", "zero"),
    "n / (n - n)": ("NUMERIC", "zero"),
    "i % (i - i)": ("INT", "zero"),
    "d / 0e0": ("DOUBLE", "zero"),
    "i + 2147483647": ("INT", "verflow"),
    "j * 9223372036854775807": ("BIGINT", "verflow"),
    "CAST(s AS INT)": ("INT", "'apple'"),
    "CAST(d AS INT)": ("INT", "NaN|nan|range"),
    "CAST(j AS INT)": ("INT", "range"),
    "CAST(n AS NUMERIC(4,2))": ("NUMERIC(4,2)", "99999999.99"),
    "w * w": ("NUMERIC", "fit|range"),
    "CAST('x' AS TIMESTAMP)": ("TIMESTAMP", "'x'"),
    "-(i - 2147483647 - 4)": ("INT", "verflow|range"),
    "(SELECT q FROM Part)": ("INT", "row"),
}

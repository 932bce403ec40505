"""By which columns SELECTs fall apart, and when they turn: what is expected by hand, and on random data that it is true.

The proof is in the random tests: over views of some values a SELECT gives those of its rows that have them, and
between two times no row changes whose comparisons with NOW do not turn.
"""

# A query reads best on one line.
# ruff: noqa: E501

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from itertools import combinations
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from augury.algebra.select import ByKey, SelectPlan, Turns, Whole
from augury.clock import microseconds_of
from augury.duck.select import Duck, Translated, evaluated, translated
from augury.duck.sql.queries import ROW, view_name
from augury.engine.rows import Rows
from augury.engine.select_parts import parts_of
from augury.engine.select_turns import turns_of
from augury.event import EventClass
from augury.kernels.columns import arrow_type
from tests.bitemporal.queries import QUERIES, at, program_of

# What a SELECT falls apart by, as explain shows it, or a word of why it does not: attributes, key, body.
APART: dict[str, tuple[str, str, str, str]] = {
    "a filter": ("id INT, i INT", "id", "SELECT id, i FROM Item WHERE i > 2 OCCURRING AT occTime", "Item.id → id"),
    "two columns": ("a INT, b INT", "b, a", "SELECT item AS a, q AS b FROM Part OCCURRING AT occTime", "Part.q → b; Part.item → a"),
    "one column twice": ("a INT, b INT", "a, b", "SELECT item AS a, item AS b FROM Part OCCURRING AT occTime", "Part.item → a"),
    "not in the key": ("a INT, b INT", "b", "SELECT item AS a, q + 1 AS b FROM Part OCCURRING AT occTime", "!no attribute of the key (b)"),
    "another type": ("a BIGINT", "a", "SELECT item AS a FROM Part OCCURRING AT occTime", "!no attribute of the key (a)"),
    "a cast": ("a INT", "a", "SELECT CAST(item AS INT) AS a FROM Part OCCURRING AT occTime", "!no column of"),
    "a cut string": ("s VARCHAR(3)", "s", "SELECT name AS s FROM Part OCCURRING AT occTime", "!no attribute of the key (s)"),
    "a whole string": ("s VARCHAR(20)", "s", "SELECT name AS s FROM Part OCCURRING AT occTime", "Part.name → s"),
    "a longer string": ("s STRING", "s", "SELECT name AS s FROM Part OCCURRING AT occTime", "Part.name → s"),
    "a double": ("d DOUBLE", "d", "SELECT d FROM Item OCCURRING AT occTime", "!no column of"),
    "strings joined": ("s STRING, n INT", "s", "SELECT i.s, p.id AS n FROM Item i JOIN Part p ON i.s = p.name OCCURRING AT i.occTime", "Item.s, Part.name → s"),
    "joined on two": ("a INT, b INT, n INT", "a, b", "SELECT x.item AS a, x.q AS b, y.id AS n FROM Part x JOIN Part y ON x.item = y.item AND x.q = y.q OCCURRING AT x.occTime", "Part.item → a; Part.q → b"),
    "joined crosswise": ("a INT", "a", "SELECT x.item AS a FROM Part x JOIN Part y ON x.item = y.q AND x.q = y.item OCCURRING AT x.occTime", "!falls apart by different columns"),
    "joined on types that differ": ("id INT", "id", "SELECT i.id FROM Item i JOIN Part p ON i.j = p.q OCCURRING AT i.occTime", "!the join of `Part AS p`"),
    "joined on less": ("id INT", "id", "SELECT i.id FROM Item i JOIN Part p ON i.id <= p.item OCCURRING AT i.occTime", "!the join of `Part AS p`"),
    "joined on either": ("id INT", "id", "SELECT i.id FROM Item i JOIN Part p ON i.id = p.item OR i.id = 1 OCCURRING AT i.occTime", "!the join of `Part AS p`"),
    "NULL joined": ("i INT, n INT", "i", "SELECT p.q AS i, p.id AS n FROM Item i JOIN Part p ON i.i <=> p.q OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "NULL joined left": ("i INT, n INT", "i", "SELECT i.i, p.id AS n FROM Item i LEFT JOIN Part p ON i.i <=> p.q OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "left, from the right": ("i INT, n INT", "i", "SELECT p.q AS i, i.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q OCCURRING AT i.occTime", "!no attribute of the key (i)"),
    "left, of both": ("i INT, n INT", "i", "SELECT COALESCE(p.q, i.i) AS i, p.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "left, then joined": ("i INT, n INT", "i", "SELECT i.i, r.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q JOIN Part r ON r.q = p.q OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "left, then joined by NULL": ("i INT, n INT", "i", "SELECT i.i, r.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q JOIN Part r ON r.q <=> p.q OCCURRING AT i.occTime", "!the join of `Part AS r`"),
    "left, then left": ("i INT, n INT", "i", "SELECT i.i, r.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q AND p.id > 3 LEFT JOIN Part r ON r.q = p.q AND r.id < 5 OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "left of an inner join": ("i INT, n INT", "i", "SELECT i.i, r.id AS n FROM Item i LEFT JOIN (Part p JOIN Part r ON p.q = r.q) ON i.i = p.q OCCURRING AT i.occTime", "Item.i, Part.q → i"),
    "right": ("q INT, n INT", "q", "SELECT p.q, i.id AS n FROM Item i RIGHT JOIN Part p ON i.i = p.q AND i.id > 2 OCCURRING AT p.occTime", "Item.i, Part.q → q"),
    "right, from the left": ("q INT", "q", "SELECT i.i AS q FROM Item i RIGHT JOIN Part p ON i.i = p.q OCCURRING AT p.occTime", "!no attribute of the key (q)"),
    "full": ("q INT, n INT, m INT", "q", "SELECT COALESCE(i.i, p.q) AS q, i.id AS n, p.id AS m FROM Item i FULL JOIN Part p ON i.i = p.q OCCURRING AT MAX(i.occTime, p.occTime)", "Item.i, Part.q → q"),
    "full, of one": ("q INT", "q", "SELECT i.i AS q FROM Item i FULL JOIN Part p ON i.i = p.q OCCURRING AT p.occTime", "!no attribute of the key (q)"),
    "full, of three": ("id INT, n INT", "id", "SELECT id, c.n FROM Part a FULL JOIN (SELECT item AS m, id FROM Part) b USING (id) FULL JOIN (SELECT id, q AS n FROM Part WHERE q > 1) c USING (id) OCCURRING AT a.occTime", "Part.id → id"),
    "full, grouped": ("q INT, c BIGINT", "q", "SELECT COALESCE(i.i, p.q) AS q, COUNT(*) AS c FROM Item i FULL JOIN Part p ON i.i = p.q GROUP BY COALESCE(i.i, p.q) OCCURRING AT MAX(i.occTime)", "Item.i, Part.q → q"),
    "full, both distinct": ("a INT, b INT", "a", "SELECT COALESCE(t.x, t.y) AS a, t.x AS b FROM (SELECT DISTINCT i.i AS x, p.q AS y, TIMESTAMP '2026-01-01 00:00:00' AS o FROM Item i FULL JOIN Part p ON i.i = p.q) t OCCURRING AT t.o", "Item.i, Part.q → a"),
    "full, one distinct": ("a INT", "a", "SELECT t.x AS a FROM (SELECT DISTINCT i.i AS x, TIMESTAMP '2026-01-01 00:00:00' AS o FROM Item i FULL JOIN Part p ON i.i = p.q) t OCCURRING AT t.o", "!DISTINCT"),
    "commas": ("id INT, n INT", "id", "SELECT a.i AS id, b.id AS n FROM Item a, Item c, Part b WHERE a.i = b.q AND b.q = c.i OCCURRING AT a.occTime", "Item.i, Part.q → id"),
    "commas, then left": ("id INT, n INT", "id", "SELECT a.i AS id, c.id AS n FROM Item a, Part b LEFT JOIN Part c ON c.q = b.q AND c.id > a.id WHERE a.i = b.q OCCURRING AT a.occTime", "Item.i, Part.q → id"),
    "two on the right side": ("id INT, n INT", "id", "SELECT c.i AS id, b.id AS n FROM Part a JOIN Part b ON a.id < b.id RIGHT JOIN Item c ON c.i = b.q WHERE a.q = b.q OCCURRING AT c.occTime", "Part.q, Item.i → id"),
    "a semi join": ("id INT", "id", "SELECT i AS id FROM Item LEFT SEMI JOIN Part ON Item.i = Part.q AND Part.id > Item.id OCCURRING AT occTime", "Item.i, Part.q → id"),
    "an anti join": ("id INT", "id", "SELECT i AS id FROM Item LEFT ANTI JOIN Part ON Item.i = Part.q AND Part.id > Item.id OCCURRING AT occTime", "Item.i, Part.q → id"),
    "an anti join on less": ("id INT", "id", "SELECT i AS id FROM Item LEFT ANTI JOIN Part ON Item.i < Part.q OCCURRING AT occTime", "!the join of `Part`"),
    "a semi join by name": ("id INT", "id", "SELECT a.id FROM Part a LEFT SEMI JOIN (SELECT i AS id FROM Item) b USING (id) OCCURRING AT a.occTime", "Part.id, Item.i → id"),
    "groups": ("a INT, b INT, c BIGINT", "a, b", "SELECT item AS a, q AS b, COUNT(*) AS c FROM Part GROUP BY item, q HAVING COUNT(*) > 1 OCCURRING AT MAX(occTime)", "Part.item → a; Part.q → b"),
    "groups by place": ("a INT, c BIGINT", "a", "SELECT q AS a, SUM(id) AS c FROM Part GROUP BY 1 OCCURRING AT MAX(occTime)", "Part.q → a"),
    "groups by another": ("a INT", "a", "SELECT MAX(q) AS a FROM Part GROUP BY item OCCURRING AT MAX(occTime)", "!no column of"),
    "groups by alias": ("a INT, c BIGINT", "a", "SELECT q AS a, SUM(id) AS c FROM Part GROUP BY a OCCURRING AT MAX(occTime)", "Part.q → a"),
    "groups of a join": ("a INT, c BIGINT", "a", "SELECT i.i AS a, COUNT(p.id) AS c FROM Item i LEFT JOIN Part p ON i.i = p.q GROUP BY i.i OCCURRING AT MAX(i.occTime)", "Item.i, Part.q → a"),
    "groups by the other side": ("a INT, c BIGINT", "a", "SELECT p.q AS a, COUNT(*) AS c FROM Item i LEFT JOIN Part p ON i.i = p.q GROUP BY p.q OCCURRING AT MAX(i.occTime)", "!`GROUP BY p.q`"),
    "having without groups": ("a INT", "a", "SELECT 1 AS a FROM Part HAVING COUNT(*) > 1 OCCURRING AT MAX(occTime)", "!is over all rows, without GROUP BY"),
    "distinct": ("a INT, b INT", "a", "SELECT DISTINCT q AS a, item AS b FROM Part OCCURRING AT occTime", "Part.q → a"),
    "distinct, then a part": ("a INT, c BIGINT", "a", "SELECT t.q AS a, COUNT(*) AS c FROM (SELECT DISTINCT q, item, occTime FROM Part) t GROUP BY t.q OCCURRING AT MAX(t.occTime)", "Part.q → a"),
    "distinct of others": ("a INT", "a", "SELECT t.a FROM (SELECT DISTINCT q + 0 AS a, TIMESTAMP '2026-01-01 00:00:00' AS o FROM Part) t OCCURRING AT t.o", "!DISTINCT"),
    "windows": ("a INT, n INT, r INT, m INT", "a", "SELECT q AS a, id AS n, RANK() OVER (PARTITION BY q, item ORDER BY id) AS r, MAX(item) OVER (PARTITION BY q) AS m FROM Part OCCURRING AT occTime", "Part.q → a"),
    "windows of two": ("a INT, b INT, n INT, r INT", "b, a", "SELECT item AS a, q AS b, id AS n, RANK() OVER (PARTITION BY q, item ORDER BY id) AS r FROM Part OCCURRING AT occTime", "Part.q → b; Part.item → a"),
    "a named window": ("a INT, n INT, c BIGINT", "a", "SELECT q AS a, id AS n, COUNT(item) OVER w AS c FROM Part WINDOW w AS (PARTITION BY q) OCCURRING AT occTime", "Part.q → a"),
    "a window of groups": ("a INT, b INT, r INT", "a", "SELECT q AS a, item AS b, RANK() OVER (PARTITION BY q ORDER BY COUNT(*), item) AS r FROM Part GROUP BY q, item OCCURRING AT MAX(occTime)", "Part.q → a"),
    "the first of each": ("a INT, n INT", "a", "SELECT t.q AS a, t.id AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY q ORDER BY id) AS r FROM Part) t WHERE t.r = 1 OCCURRING AT t.occTime", "Part.q → a"),
    "a union by place": ("a INT, b INT", "a, b", "SELECT id AS a, i AS b, occTime FROM Item UNION SELECT q, item, occTime FROM Part OCCURRING AT occTime", "Item.id, Part.q → a; Item.i, Part.item → b"),
    "a union crosswise": ("a INT, b INT", "a, b", "SELECT q AS a, item AS b, occTime FROM Part UNION ALL SELECT item, q, occTime FROM Part OCCURRING AT occTime", "!do not fall apart by the same column"),
    "a union of types": ("a BIGINT", "a", "SELECT j AS a, occTime FROM Item UNION ALL SELECT q, occTime FROM Part OCCURRING AT occTime", "!do not fall apart by the same column"),
    "a union of strings": ("a STRING, k STRING", "a", "SELECT s AS a, 'item' AS k, occTime FROM Item UNION SELECT name, 'part', occTime FROM Part OCCURRING AT occTime", "Item.s, Part.name → a"),
    "a union with a constant": ("a INT", "a", "SELECT u.a FROM (SELECT q AS a, occTime FROM Part UNION ALL SELECT 1, TIMESTAMP '2026-01-01 00:00:00') u OCCURRING AT u.occTime", "!has no FROM clause"),
    "a union of constants": ("a INT", "a", "SELECT q AS a, occTime FROM Part UNION ALL SELECT 1, occTime FROM Item OCCURRING AT occTime", "!no column of `SELECT 1, occ_time FROM Item`"),
    "a union joined": ("a INT, n INT", "a", "SELECT u.a, p.id AS n FROM (SELECT i AS a, occTime FROM Item UNION SELECT q, occTime FROM Part) u JOIN Part p ON p.q = u.a OCCURRING AT u.occTime", "Item.i, Part.q → a"),
    "except": ("a INT", "a", "SELECT u.a FROM (SELECT i AS a, occTime FROM Item EXCEPT SELECT q, occTime FROM Part) u OCCURRING AT u.occTime", "Item.i, Part.q → a"),
    "except all": ("a INT", "a", "SELECT u.a FROM (SELECT i AS a, TIMESTAMP '2026-01-01 00:00:00' AS o FROM Item EXCEPT ALL SELECT q, TIMESTAMP '2026-01-01 00:00:00' FROM Part) u OCCURRING AT u.o", "Item.i, Part.q → a"),
    "intersect": ("a INT", "a", "SELECT u.a FROM (SELECT i AS a, TIMESTAMP '2026-01-01 00:00:00' AS o FROM Item INTERSECT SELECT q, TIMESTAMP '2026-01-01 00:00:00' FROM Part) u OCCURRING AT u.o", "Item.i, Part.q → a"),
    "in": ("a INT", "a", "SELECT i AS a FROM Item WHERE i IN (SELECT q FROM Part WHERE item > 2) OR id = 1 OCCURRING AT occTime", "Item.i, Part.q → a"),
    "in, grouped": ("a INT", "a", "SELECT i AS a FROM Item WHERE i IN (SELECT q FROM Part GROUP BY q HAVING COUNT(*) > 1) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "in, of two": ("a INT", "a", "SELECT i AS a FROM Item WHERE (i, id) IN (SELECT q, item FROM Part) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "in, of a union": ("a INT", "a", "SELECT i AS a FROM Item WHERE i IN (SELECT q FROM Part UNION ALL SELECT i FROM Item WHERE id > 4) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "in, of the first": ("a INT", "a", "SELECT i AS a FROM Item WHERE i IN (SELECT q FROM Part ORDER BY id LIMIT 2) OCCURRING AT occTime", "!the sub-select in"),
    "in, as a value": ("a INT, b BOOLEAN", "a", "SELECT i AS a, i IN (SELECT q FROM Part) AS b FROM Item OCCURRING AT occTime", "!the sub-select in"),
    "in, of other types": ("a INT", "a", "SELECT i AS a FROM Item WHERE i IN (SELECT CAST(q AS BIGINT) FROM Part) OCCURRING AT occTime", "!the sub-select in"),
    "not in": ("a INT", "a", "SELECT i AS a FROM Item WHERE i NOT IN (SELECT q FROM Part) OCCURRING AT occTime", "!in `NOT i IN (SELECT q FROM Part)`"),
    "not in, tied": ("a INT", "a", "SELECT i AS a FROM Item o WHERE id NOT IN (SELECT item FROM Part p WHERE p.q = o.i) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "exists": ("a INT", "a", "SELECT i AS a FROM Item o WHERE EXISTS (SELECT 1 FROM Part p WHERE p.q = o.i AND p.id > o.id) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "not exists": ("a INT", "a", "SELECT i AS a FROM Item o WHERE NOT EXISTS (SELECT 1 FROM Part p WHERE o.i = p.q AND p.id > o.id) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "exists, untied": ("a INT", "a", "SELECT i AS a FROM Item o WHERE EXISTS (SELECT 1 FROM Part p WHERE p.q > o.i) OCCURRING AT occTime", "!the sub-select in"),
    "exists in exists": ("a INT", "a", "SELECT i AS a FROM Item o WHERE EXISTS (SELECT 1 FROM Part p WHERE p.q = o.i AND NOT EXISTS (SELECT 1 FROM Part r WHERE r.q = p.q AND r.id < p.id)) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "exists in exists, untied": ("a INT", "a", "SELECT i AS a FROM Item o WHERE EXISTS (SELECT 1 FROM Part p WHERE p.q = o.i AND NOT EXISTS (SELECT 1 FROM Part r WHERE r.id < p.id)) OCCURRING AT occTime", "!the sub-select in"),
    "exists over a join": ("a INT", "a", "SELECT i AS a FROM Item o WHERE EXISTS (SELECT 1 FROM Part p, Part r WHERE p.q = o.i AND r.q = o.i AND p.id < r.id) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "a count": ("a INT, c BIGINT", "a", "SELECT i AS a, (SELECT COUNT(*) FROM Part p WHERE p.q = o.i) AS c FROM Item o OCCURRING AT occTime", "Part.q, Item.i → a"),
    "a tied condition": ("a INT, n INT", "a", "SELECT i AS a, id AS n FROM Item o WHERE id > (SELECT MIN(p.item) FROM Part p WHERE p.q = o.i) OCCURRING AT occTime", "Item.i, Part.q → a"),
    "a condition of groups": ("a INT, c BIGINT", "a", "SELECT i AS a, COUNT(*) AS c FROM Item o GROUP BY i HAVING COUNT(*) > (SELECT COUNT(*) FROM Part p WHERE p.q = o.i) OCCURRING AT MAX(occTime)", "Item.i, Part.q → a"),
    "a CTE twice": ("a INT, c BIGINT, m INT", "a", "WITH g AS (SELECT q, COUNT(*) AS c FROM Part GROUP BY q) SELECT i.i AS a, g.c, h.q AS m FROM Item i JOIN g ON g.q = i.i LEFT JOIN g h ON h.q = i.i AND h.c > 1 OCCURRING AT i.occTime", "Part.q, Item.i → a"),
    "a CTE renamed": ("a INT", "a", "WITH g(x, o) AS (SELECT q, occTime FROM Part) SELECT g.x AS a FROM g OCCURRING AT g.o", "Part.q → a"),
    "a star": ("q INT, id INT", "id, q", "SELECT * EXCEPT (item, name, price) FROM Part OCCURRING AT occTime", "Part.id → id; Part.q → q"),
    "a filter of nulls": ("a INT, n INT", "a", "SELECT i.i AS a, i.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q WHERE p.id IS NULL OCCURRING AT i.occTime", "Item.i, Part.q → a"),
    "the first rows": ("a INT", "a", "SELECT q AS a FROM Part ORDER BY q LIMIT 2 OCCURRING AT occTime", "!`LIMIT 2`"),
    "no condition": ("a INT", "a", "SELECT q AS a FROM Part, Item OCCURRING AT Item.occTime", "!the join of `Item`"),
}  # fmt: skip

# When a SELECT turns, as explain shows it, or a word of why at every tick.
TURNS: dict[str, tuple[str, str, str, str]] = {
    "no NOW": ("id INT", "id", "SELECT id FROM Item OCCURRING AT occTime", "nothing changes"),
    "less": ("id INT", "id", "SELECT id FROM Item WHERE occTime - NOW < 5h OCCURRING AT occTime", "occTime − 5h of Item"),
    "at least": ("id INT", "id", "SELECT id FROM Item WHERE NOW - detTime >= 1h OCCURRING AT occTime", "detTime + 1h of Item"),
    "later than a sum": ("id INT", "id", "SELECT a.id FROM Item a JOIN Part b ON a.id = b.item WHERE NOW > b.occTime + 2h OCCURRING AT a.occTime", "occTime + 2h of Part"),
    "between": ("id INT", "id", "SELECT id FROM Item WHERE occTime BETWEEN NOW - 1h AND NOW + 90m OCCURRING AT occTime", "occTime + 1h of Item; occTime − 90m of Item"),
    "NOW between": ("id INT", "id", "SELECT id FROM Item WHERE NOT NOW BETWEEN occTime AND ts + 1h OCCURRING AT occTime", "occTime of Item; ts + 1h of Item"),
    "a deadline": ("id INT", "id", "SELECT id FROM Item WHERE NOT (NOW < ts OR i = 2) OCCURRING AT occTime", "ts of Item"),
    "equal": ("id INT", "id", "SELECT id FROM Item WHERE NOW = occTime OCCURRING AT occTime", "occTime of Item"),
    "unequal": ("id INT", "id", "SELECT id FROM Item WHERE NOW + 1h <> occTime - 1h OCCURRING AT occTime", "occTime − 2h of Item"),
    "many times": ("id INT", "id", "SELECT id FROM Item WHERE NOW > occTime + 3 * 1h - (2 * 30m) OCCURRING AT occTime", "occTime + 2h of Item"),
    "a case": ("id INT, x INT", "id", "SELECT id, CASE WHEN NOW < occTime THEN 1 WHEN NOW > ts THEN 2 ELSE 3 END AS x FROM Item OCCURRING AT occTime", "occTime of Item; ts of Item"),
    "a truth": ("id INT, x BOOLEAN", "id", "SELECT id, occTime < NOW AS x FROM Item OCCURRING AT occTime", "occTime of Item"),
    "a union": ("a INT", "a", "SELECT u.a FROM (SELECT i AS a, occTime FROM Item UNION SELECT q, occTime FROM Part WHERE id > 2) u WHERE u.occTime > NOW - 3h OCCURRING AT u.occTime", "occTime + 3h of Item; occTime + 3h of Part"),
    "in a sub-select": ("a INT", "a", "SELECT i AS a FROM Item o WHERE NOT EXISTS (SELECT 1 FROM Part p WHERE p.q = o.i AND p.occTime > NOW - 2h AND o.ts < NOW) OCCURRING AT occTime", "ts of Item; occTime + 2h of Part"),
    "counted": ("a INT, c BIGINT", "a", "SELECT q AS a, COUNT(*) FILTER (WHERE occTime >= NOW - 2h) AS c FROM Part GROUP BY q OCCURRING AT MAX(occTime)", "occTime + 2h of Part"),
    "grouped": ("a INT, t TIMESTAMP", "a", "SELECT i AS a, ts AS t FROM Item GROUP BY i, ts HAVING ts < NOW OCCURRING AT MAX(occTime)", "ts of Item"),
    "left": ("a INT, n INT", "a", "SELECT i.i AS a, p.id AS n FROM Item i LEFT JOIN Part p ON i.i = p.q AND p.occTime > NOW - 4h OCCURRING AT i.occTime", "occTime + 4h of Part"),
    "a join by time": ("id INT, q INT", "id", "SELECT i.id, p.q FROM Item i JOIN Part p ON i.occTime < p.occTime AND NOW > p.occTime OCCURRING AT i.occTime", "occTime of Part"),
    "the first rows": ("id INT", "id", "SELECT id FROM Item WHERE occTime > NOW - 2h ORDER BY id LIMIT 2 OCCURRING AT occTime", "occTime + 2h of Item"),
    "through a CTE": ("id INT", "id", "WITH g(x, o) AS (SELECT id, ts FROM Item) SELECT g.x AS id FROM g WHERE g.o + 1h > NOW OCCURRING AT g.o", "ts + 1h of Item"),
    "either": ("id INT", "id", "SELECT i.id FROM Item i FULL JOIN Part p ON i.id = p.item WHERE COALESCE(i.occTime, p.occTime) < NOW OCCURRING AT i.occTime", "occTime of Item; occTime of Part"),
    "put out": ("id INT, t TIMESTAMP", "id", "SELECT id, NOW AS t FROM Item OCCURRING AT occTime", "!NOW is used in"),
    "occurring": ("id INT", "id", "SELECT t.id FROM (SELECT id, NOW + 1h AS o FROM Item) t OCCURRING AT t.o", "!NOW is used in"),
    "an aggregate": ("id INT", "id", "SELECT item AS id FROM Part GROUP BY item HAVING MAX(occTime) < NOW OCCURRING AT MAX(occTime)", "!`MAX(occ_time)`"),
    "two columns": ("id INT", "id", "SELECT id FROM Item WHERE NOW - occTime > ts - occTime OCCURRING AT occTime", "ts of Item"),
    "three times": ("id INT", "id", "SELECT i.id FROM Item i JOIN Part p ON i.id = p.item WHERE NOW - i.occTime > i.ts - p.occTime OCCURRING AT i.occTime", "!two columns"),
    "a day": ("id INT", "id", "SELECT id FROM Item WHERE day < NOW OCCURRING AT occTime", "!no TIMESTAMP"),
    "a constant": ("id INT", "id", "SELECT id FROM Item WHERE NOW > TIMESTAMP '2026-01-01 00:00:00' OCCURRING AT occTime", "!no column of a view"),
    "a function": ("id INT", "id", "SELECT id FROM Item WHERE YEAR(NOW) = YEAR(ts) OCCURRING AT occTime", "!NOW is used in"),
    "made": ("id INT", "id", "SELECT t.id FROM (SELECT id, MAX(occTime) AS o FROM Item GROUP BY id) t WHERE t.o < NOW OCCURRING AT t.o", "!`t.o`"),
    "in a list": ("id INT", "id", "SELECT id FROM Item WHERE NOW IN (occTime, ts) OCCURRING AT occTime", "!NOW is used in"),
    "a month": ("id INT", "id", "SELECT id FROM Item WHERE occTime < NOW - INTERVAL '1' MONTH OCCURRING AT occTime", "!no duration"),
}  # fmt: skip


@cache
def compiled(attributes: str, key: str, body: str) -> tuple[SelectPlan, list[EventClass]]:
    program = program_of(attributes, body, key)
    plan = program.classes[-1].derivation
    assert isinstance(plan, SelectPlan)
    return plan, [one.event_class for one in program.classes]


def as_expected(found: ByKey | Turns | Whole, wanted: str) -> bool:
    if wanted.startswith("!"):
        return isinstance(found, Whole) and wanted[1:] in found.reason
    return not isinstance(found, Whole) and str(found).removeprefix("by key: ") == wanted


@pytest.mark.parametrize("name", APART)
def test_what_a_select_falls_apart_by(name):
    attributes, key, body, wanted = APART[name]
    plan, classes = compiled(attributes, key, body)
    found = parts_of(plan, classes)
    assert as_expected(found, wanted), found


@pytest.mark.parametrize("name", TURNS)
def test_when_a_select_turns(name):
    attributes, key, body, wanted = TURNS[name]
    plan, classes = compiled(attributes, key, body)
    found = turns_of(plan, classes)
    assert as_expected(found, wanted), found


# ---- on random data ---------------------------------------------------------------------------------

ALL = {
    **{f"select {name}": (attributes, "", body) for name, (attributes, body) in QUERIES.items()},
    **{f"apart {name}": (attributes, key, body) for name, (attributes, key, body, _) in APART.items()},
    **{f"turns {name}": (attributes, key, body) for name, (attributes, key, body, _) in TURNS.items()},
}
UNTRANSLATED = {"apart in, of two"}
ROUNDS, CUTS = 2, 14
DUCK = Duck()
Row = tuple[Any, ...]


def random_rows(chance: random.Random, event_class: EventClass) -> list[Row]:
    """Few rows of few values, NULLs and repetitions among them; the key is no key here, which views do not mind."""

    def number() -> Any:
        return chance.choice([None, 1, 1, 2, 3, 4])

    rows: list[Row] = []
    for _ in range(chance.choice([0, 2, 5, 9])):
        text = chance.choice([None, "a", "b", "apple"])
        if event_class.name == "Item":
            day = chance.choice([None, date(2026, 1, 1), date(2026, 1, 2)])
            deadline = chance.choice([None, at(chance.randrange(6))])
            amount = chance.choice([None, Decimal(1), Decimal("2.50")])
            values: Row = (number(), chance.choice([None, True, False]), number(), number(), chance.choice([None, 1.5, 2.0]), amount, amount, text, deadline, day)  # fmt: skip
        else:
            values = (number(), number(), number(), text, chance.choice([None, Decimal("1.10")]))
        occ_time = at(chance.randrange(6))
        rows.append((*values, occ_time, occ_time + timedelta(minutes=chance.choice([1, 30])), len(rows)))
    return rows


def view_of(event_class: EventClass, rows: list[Row]) -> pa.Table:
    stored = pa.timestamp("us", tz="UTC")
    kinds = [*(arrow_type(attribute.type) for attribute in event_class.attributes), stored, stored, pa.int64()]
    names = [*(attribute.name for attribute in event_class.attributes), "occ_time", "det_time", "row"]
    return pa.table([pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)], names=names)


@dataclass(frozen=True)
class Answered:
    """In place of DuckDB: what it said."""

    table: pa.Table

    def query(self, *_: object) -> pa.Table:
        return self.table


def over_cuts(
    made: Translated, views: dict[str, pa.Table], cuts: list[dict[str, list[int]]], now_us: int
) -> list[Rows]:
    """The rows of a SELECT over views of some rows only; one statement for all cuts, since each takes its time."""
    texts = []
    for number, cut in enumerate(cuts):
        text = made.sql
        for view in made.views:
            rows = ", ".join(map(str, cut[view.name])) or "-1"
            text = text.replace(view_name(view), f"(SELECT * FROM {view_name(view)} WHERE {ROW} IN ({rows}))")
        texts.append(f"SELECT *, {number} AS cut_ FROM ({text}) AS of_cut")
    table = DUCK.query(replace(made, sql=" UNION ALL ".join(texts)), views, now_us)
    numbers, rest = table.column("cut_"), table.drop_columns(["cut_"])
    apart = [rest.filter(pc.equal(numbers, number)) for number in range(len(cuts))]
    return [evaluated(made, views, now_us, cast("Duck", Answered(one))) for one in apart]


def counted(
    rows: Rows, attributes: tuple[str, ...], only: set[Row] | None = None, but: Collection[Row] = ()
) -> Counter[str]:
    """The rows, each with what it is made of, whose attributes have some values, or have not."""
    columns = {name: rows.attributes.column(name).to_pylist() for name in rows.attributes.column_names}
    times = rows.occ_time.to_pylist()
    found: Counter[str] = Counter()
    for i in range(len(rows)):
        part = tuple(columns[name][i] for name in attributes)
        if part not in but and (only is None or part in only):
            values = (*(column[i] for column in columns.values()), times[i], rows.made.of(i) if rows.made else None)
            found[repr(values)] += 1
    return found


def part_of(event_class: EventClass, columns: tuple[str, ...], row: Row) -> Row:
    names = [attribute.name for attribute in event_class.attributes]
    return tuple(row[names.index(column)] for column in columns)


def cuts_differ(name: str, by: ByKey, rounds: int, cuts: int) -> bool:
    """Whether the rows of some values are ever not what the SELECT gives over views of these values."""
    plan, known = compiled(*ALL[name])
    made = translated(plan, known)
    classes = {one.name: one for one in known}
    chance = random.Random(name)
    for _ in range(rounds):
        data = {read: random_rows(chance, classes[read]) for read in plan.reads}
        values = {part_of(classes[read], columns, row) for read, columns in by.columns for row in data[read]}
        values |= {tuple(None for _ in by.attributes)}
        choices = [set(chance.sample(sorted(values, key=repr), chance.randrange(len(values) + 1))) for _ in range(cuts)]
        cut_rows = [
            {
                read: [row[-1] for row in data[read] if part_of(classes[read], columns, row) in some]
                for read, columns in by.columns
            }
            for some in choices
        ]
        views = {read: view_of(classes[read], rows) for read, rows in data.items()}
        now_us = microseconds_of(at(chance.randrange(8)))
        whole = evaluated(made, views, now_us, DUCK)
        for some, found in zip(choices, over_cuts(made, views, cut_rows, now_us), strict=True):
            if counted(found, by.attributes) != counted(whole, by.attributes, only=some):
                return True
    return False


def parts(name: str) -> ByKey | Whole:
    plan, classes = compiled(*ALL[name])
    return parts_of(plan, classes)


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNTRANSLATED])
def test_over_some_values_a_select_gives_its_rows_of_these(name):
    by = parts(name)
    assert isinstance(by, Whole) or not cuts_differ(name, by, ROUNDS, CUTS)


def test_so_much_is_shown():
    assert ROUNDS * CUTS * sum(isinstance(parts(name), ByKey) for name in ALL) > 3000


@pytest.mark.parametrize(
    ("name", "columns", "attribute"),
    [
        ("apart not in", {"Item": "i", "Part": "q"}, "a"),
        ("apart in, as a value", {"Item": "i", "Part": "q"}, "a"),
        ("apart left, from the right", {"Item": "i", "Part": "q"}, "i"),
        ("apart left, then joined by NULL", {"Item": "i", "Part": "q"}, "i"),
        ("apart full, of one", {"Item": "i", "Part": "q"}, "q"),
        ("apart full, one distinct", {"Item": "i", "Part": "q"}, "a"),
        ("apart groups by the other side", {"Item": "i", "Part": "q"}, "a"),
        ("apart groups by another", {"Part": "q"}, "a"),
        ("apart exists in exists, untied", {"Item": "i", "Part": "q"}, "a"),
        ("apart a union with a constant", {"Part": "q"}, "a"),
        ("apart in, of the first", {"Item": "i", "Part": "q"}, "a"),
        ("apart a union crosswise", {"Part": "q"}, "a"),
        ("apart no condition", {"Part": "q", "Item": "i"}, "a"),
    ],
)
def test_what_is_said_not_to_fall_apart_does_not(name, columns, attribute):
    assert isinstance(parts(name), Whole)
    assert cuts_differ(name, ByKey(tuple((read, (column,)) for read, column in columns.items()), (attribute,)), 20, 6)


TURNING = [f"turns {name}" for name, (*_, wanted) in TURNS.items() if name != "no NOW" and not wanted.startswith("!")]


@pytest.mark.parametrize("name", ["select now", *TURNING])
def test_without_a_turn_no_row_changes(name):
    """Between two times only parts change with a row that turns; at all, if the SELECT does not fall apart."""
    plan, known = compiled(*ALL[name])
    made = translated(plan, known)
    classes = {one.name: one for one in known}
    by, turns = parts_of(plan, known), turns_of(plan, known)
    assert isinstance(turns, Turns)
    chance = random.Random(name)
    changed = 0
    for _ in range(7):
        data = {read: random_rows(chance, classes[read]) for read in plan.reads}
        views = {read: view_of(classes[read], rows) for read, rows in data.items()}
        hours = [half / 2 for half in range(-6, 54 if name == "select now" else 20)]
        moments = sorted(microseconds_of(at(hour)) + chance.choice([-1, 0, 0, 1]) for hour in chance.sample(hours, 4))
        for one, other in combinations([(now_us, evaluated(made, views, now_us, DUCK)) for now_us in moments], 2):
            touched = parts_that_turn(turns, by, classes, data, one[0], other[0])
            attributes = by.attributes if isinstance(by, ByKey) else ()
            assert counted(one[1], attributes, but=touched) == counted(other[1], attributes, but=touched)
            changed += counted(one[1], ()) != counted(other[1], ())
    assert changed, "it never turns, so nothing is shown"


def parts_that_turn(
    turns: Turns, by: ByKey | Whole, classes: dict[str, EventClass], data: dict[str, list[Row]], start: int, end: int
) -> set[Row]:
    """The values of rows of which a comparison with NOW may change from one time to the other; () is all rows."""
    touched: set[Row] = set()
    for turn in turns.turns:
        event_class = classes[turn.event_class]
        names = [*(attribute.name for attribute in event_class.attributes), "occ_time", "det_time"]
        columns = dict(by.columns)[turn.event_class] if isinstance(by, ByKey) else ()
        for row in data[turn.event_class]:
            time = row[names.index(turn.column)]
            if time is not None and start <= microseconds_of(time) + turn.offset_us <= end:
                touched.add(part_of(event_class, columns, row))
    return touched

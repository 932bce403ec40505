"""AS SELECT … OCCURRING AT: what is planned, what is refused and where the finger points, and that nothing escapes."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from augury.algebra.select import SelectPlan
from augury.analysis.declarations import Declarations, declare
from augury.analysis.select import analyse_select
from augury.diagnostics import Diagnostic, Findings, Span
from augury.event import ClassKind, EventClass
from augury.language import syntax as s
from augury.language.parser import parse

SEEDS = Path(__file__).parents[2] / "examples" / "seeds"
CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (shop TEXT, product TEXT, pieces INT, price NUMERIC(10, 2))
  ID (shop, product) LIFESPAN (30d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Shipment (shop TEXT, product TEXT, pieces BIGINT, weight REAL, due DATE)
  ID (shop, product) LIFESPAN (14d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (shop TEXT, `end` INT) ID (shop) LIFESPAN (1d);
"""


def declared(text: str) -> tuple[s.Program, Declarations]:
    findings = Findings()
    program = parse(text, findings).program
    tables = declare(program, findings)
    assert not findings.has_errors(), findings.sorted()
    return program, tables


def selects(text: str) -> list[tuple[SelectPlan | None, tuple[Diagnostic, ...]]]:
    """The plan and the findings of every SELECT class of a program."""
    program, tables = declared(text)
    results = []
    for statement in program.statements:
        if isinstance(statement, s.ComplexClass) and isinstance(statement.source, s.SelectSource):
            findings = Findings()
            plan = analyse_select(statement.source, tables.classes[statement.name.key], tables.classes, findings)
            results.append((plan, findings.sorted()))
    return results


def program_of(body: str, attributes: str = "shop TEXT, product TEXT") -> str:
    return f"{CLASSES}CREATE COMPLEX EVENT CLASS X ({attributes}) ID () AS\n  {body};\n"


def planned(body: str, attributes: str = "shop TEXT, product TEXT") -> SelectPlan:
    [(plan, findings)] = selects(program_of(body, attributes))
    assert findings == ()
    assert plan is not None
    return plan


def refused(body: str, attributes: str = "shop TEXT, product TEXT") -> list[tuple[str, str, str, tuple[str, ...]]]:
    """Code, marked text, message and proposals of every finding; there has to be one."""
    text = program_of(body, attributes)
    [(plan, findings)] = selects(text)
    assert plan is None
    assert findings
    return [(d.code, text[d.mark.span.start : d.mark.span.end], d.message, d.helps) for d in findings]


# ---- what is planned -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(SEEDS.glob("bicepl_*.bicepl")), ids=lambda path: path.stem)
def test_every_select_of_the_seeds_is_planned(path):
    for plan, findings in selects(path.read_text(encoding="utf-8")):
        assert plan is not None
        assert findings == ()


def test_the_seeds_hold_selects():
    counts = [len(selects(path.read_text(encoding="utf-8"))) for path in SEEDS.glob("bicepl_*.bicepl")]
    assert sum(counts) == 12


REPLENISHING = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS ResourceLow (resource VARCHAR(30), amountLeft NUMERIC)
  ID (resource) LIFESPAN (5d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS ResourceExpiring (resource VARCHAR(30)) ID (resource) LIFESPAN (5d);
CREATE COMPLEX EVENT CLASS ReplenishingNeeded (resource VARCHAR(30)) ID (resource) LIFESPAN (3d)
  AS SELECT tab.resource FROM (SELECT resource, occTime FROM ResourceLow
       UNION SELECT resource, occTime FROM ResourceExpiring WHERE occTime - NOW < 5d) tab
     OCCURRING AT tab.occTime
  ON ONTIME DO orderResource(new.resource),
  ON LATE(5h, 1d) DO order1Day(new.resource);
"""
REPLENISHING_SQL = (
    "SELECT tab.resource{} FROM (SELECT resource, occ_time FROM ResourceLow"
    " UNION SELECT resource, occ_time FROM ResourceExpiring WHERE occ_time - :now < INTERVAL '5' DAY) tab"
)


def test_the_plan_of_the_replenishing_example_reads_so():
    [(plan, findings)] = selects(REPLENISHING)
    assert findings == ()
    assert plan is not None
    assert plan.dump().splitlines() == [
        "select ReplenishingNeeded",
        "  sql        " + REPLENISHING_SQL.format(""),
        "  reads      ResourceLow, ResourceExpiring",
        "  column     resource: VARCHAR(30) → resource",
        "  occurs at  tab.occ_time",
        "  rows       traced to what they are made of",
        "  now        bound to :now",
    ]
    inner = REPLENISHING_SQL.format(", tab.occ_time")
    assert plan.query == f"SELECT c1 AS `resource`, c2 AS occ_time FROM ({inner}) AS made(c1, c2)"


STOCK = "SELECT shop, product FROM Stock"


@pytest.mark.parametrize(
    ("occurring_at", "occurrence"),
    [
        ("occTime", "occ_time"),
        ("OCC_TIME", "occ_time"),
        ("detTime", "det_time"),
        ("Stock.occTime", "Stock.occ_time"),
        ("stock.det_time + 10m", "stock.det_time + INTERVAL '10' MINUTE"),
        ("1h + occTime - 30s", "occ_time + INTERVAL '1' HOUR - INTERVAL '30' SECOND"),
        ("MAX(occTime)", "occ_time"),
        ("MAX(occTime, detTime)", "GREATEST(occ_time, det_time)"),
        ("min(occTime + 1d, max(occTime, detTime) - 5m) + 10h",
         "LEAST(occ_time + INTERVAL '1' DAY, GREATEST(occ_time, det_time) - INTERVAL '5' MINUTE) + INTERVAL '10' HOUR"),
    ],
)  # fmt: skip
def test_the_occurrence_time_becomes_sql(occurring_at, occurrence):
    assert planned(f"{STOCK} OCCURRING AT {occurring_at}").occurrence == occurrence


@pytest.mark.parametrize(
    ("body", "occurrence"),
    [
        ("SELECT shop, max(product) AS product FROM Stock GROUP BY shop OCCURRING AT MAX(occTime)", "MAX(occ_time)"),
        (
            "SELECT shop, max(product) FROM Stock GROUP BY shop OCCURRING AT MAX(MIN(occTime), MAX(detTime)) - 5m",
            "GREATEST(MIN(occ_time), MAX(det_time)) - INTERVAL '5' MINUTE",
        ),
        ("SELECT max(shop), max(product) FROM Stock OCCURRING AT MIN(occTime + 1h)",
         "MIN(occ_time + INTERVAL '1' HOUR)"),
        ("SELECT shop, max(product) AS product FROM Stock GROUP BY shop, occTime OCCURRING AT occTime", "occ_time"),
        ("SELECT shop, product, MAX(occTime) AS t FROM Stock GROUP BY shop, product OCCURRING AT t", "t"),
        ("SELECT shop, product FROM Shipment OCCURRING AT due", "CAST(due AS TIMESTAMP)"),
    ],
)  # fmt: skip
def test_a_single_max_is_an_aggregate_in_a_group_only(body, occurrence):
    assert planned(body).occurrence == occurrence


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("occTime > NOW - 5d", "occ_time > :now - INTERVAL '5' DAY"),
        ("now-OCCTIME<10H", ":now-occ_time<INTERVAL '10' HOUR"),
        ("occTime BETWEEN NOW - 15m AND NOW + 30S",
         "occ_time BETWEEN :now - INTERVAL '15' MINUTE AND :now + INTERVAL '30' SECOND"),
        ("shop <> '5d NOW' AND `product` = \"10h\"", "shop <> '5d NOW' AND `product` = \"10h\""),
        ("pieces > 3 -- 5d NOW\n AND /* 5d */ pieces < 5", "pieces > 3 AND pieces < 5"),
        ("pieces > CAST(5 AS DOUBLE)   AND\n price > 1.5d", "pieces > CAST(5 AS DOUBLE) AND price > 1.5d"),
    ],
)  # fmt: skip
def test_durations_now_and_times_are_replaced_and_nothing_else(written, sql):
    plan = planned(f"{STOCK} WHERE {written}\n OCCURRING AT occTime")
    assert plan.sql == f"SELECT shop, product FROM Stock WHERE {sql}"
    assert plan.uses_now == (":now" in sql)


# The columns with the attributes they feed, for a class (shop TEXT, product TEXT).
@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("SELECT product, shop FROM Stock", "product→product shop→shop"),
        ("SELECT SHOP, pieces, Product FROM Stock", "SHOP→shop pieces Product→product"),
        ("SELECT * FROM Stock", "shop→shop product→product pieces price occ_time det_time"),
        ("SELECT occTime, s.* EXCEPT (price, det_time) FROM Stock s WHERE 1 = 1",
         "occ_time shop→shop product→product pieces occ_time"),
        ("SELECT upper(shop), product || '!' FROM Stock", "-→shop -→product"),
        ("SELECT product AS p, shop AS s FROM Stock", "p→shop s→product"),
        ("SELECT shop, upper(product) FROM Stock", "shop→shop -→product"),
    ],
)  # fmt: skip
def test_columns_feed_attributes_by_name_else_by_position(body, columns):
    plan = planned(f"{body} OCCURRING AT occTime")
    shown = [(c.name or "-") + (f"→{c.attribute}" if c.attribute else "") for c in plan.columns]
    assert " ".join(shown) == columns


def test_a_class_without_attributes_is_fed_nothing():
    plan = planned("SELECT shop, count(*) FROM Stock GROUP BY shop OCCURRING AT MAX(occTime)", "")
    assert [c.attribute for c in plan.columns] == [None, None]
    assert plan.query.startswith("SELECT c3 AS occ_time FROM (")


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("pieces + 1", "INT"),
        ("pieces / 2", "DOUBLE"),
        ("price * 0.5", "NUMERIC(38,3)"),
        ("CAST(price AS DECIMAL)", "NUMERIC(10,0)"),
        ("CAST(pieces AS STRING)", "STRING"),
        ("shop || '!'", "STRING"),
        ("length(shop)", "INT"),
        ("occTime - NOW", "DURATION"),
        ("occTime + 5d", "TIMESTAMP"),
        ("pieces > 3 AND shop IS NULL", "BOOLEAN"),
        ("CASE WHEN pieces > 3 THEN pieces ELSE 5000000000 END", "BIGINT"),
        ("CASE WHEN pieces > 3 THEN shop END", "STRING"),
        ("coalesce(pieces, 0.5)", "NUMERIC(11,1)"),
        ("if(pieces > 3, 1e0, 2)", "DOUBLE"),
        ("5L", "BIGINT"),
        ("date_add(occTime, 3)", "DATE"),
        ("row_number() OVER (ORDER BY pieces)", "INT"),
        ("max(pieces) OVER (PARTITION BY shop)", "INT"),
        ("sum(price) OVER (PARTITION BY shop)", "NUMERIC(20,2)"),
        ("avg(pieces) OVER (PARTITION BY shop)", "DOUBLE"),
        ("count(*) OVER (PARTITION BY shop)", "BIGINT"),
        ("my_function(pieces)", None),
        ("round(price, 1)", None),
        ("(SELECT max(pieces) FROM Shipment)", None),
    ],
)
def test_the_type_of_a_column_is_known_where_it_is_certain(expression, kind):
    plan = planned(f"SELECT shop, product, {expression} AS x FROM Stock OCCURRING AT occTime")
    assert (str(plan.columns[-1].type) if plan.columns[-1].type else None) == kind


# Name resolution: all of these are fine; what is read, and whether rows are traced for expiry.
GOOD: list[tuple[str, str, str, bool]] = [
    ("SELECT shop, product FROM Stock JOIN Shipment USING (shop, product)", "Stock.occTime", "Stock Shipment", True),
    ("SELECT shop, product FROM Stock NATURAL JOIN Shipment", "occTime", "Stock Shipment", True),
    ("SELECT s.shop, d.product FROM Stock AS s LEFT JOIN Shipment d ON s.shop = d.shop AND d.due > s.occTime",
     "MAX(s.occTime, d.occTime)", "Stock Shipment", True),
    ("SELECT shop, product FROM Stock LEFT SEMI JOIN Shipment ON Stock.shop = Shipment.shop", "occTime",
     "Stock Shipment", True),
    ("SELECT shop, product FROM (Stock JOIN Shipment USING (shop, product))", "Stock.occTime", "Stock Shipment", True),
    ("WITH low AS (SELECT shop, product, occTime t FROM Stock WHERE pieces < 3), x(a, b, c) AS (SELECT * FROM low) "
     "SELECT a, b FROM x", "c + 5d", "Stock", True),
    ("WITH Stock AS (SELECT * FROM Stock WHERE pieces > 3) SELECT shop, product FROM Stock", "occTime", "Stock", True),
    ("SELECT shop, product FROM Stock s WHERE pieces > (SELECT AVG(pieces) FROM Shipment d WHERE d.shop = s.shop) "
     "AND EXISTS (SELECT 1 FROM Order o WHERE o.shop = s.shop AND o.end > s.pieces)", "occTime",
     "Stock Shipment Order", True),
    ("SELECT shop, product FROM Stock WHERE shop IN (SELECT shop FROM (SELECT DISTINCT shop FROM Order))", "occTime",
     "Stock Order", True),
    ("SELECT shop, product FROM Order JOIN (SELECT shop AS s, product FROM Stock) t ON Order.shop = t.s",
     "Order.occTime", "Order Stock", True),
    ("SELECT shop, product FROM Stock UNION ALL SELECT shop, product FROM Shipment", "occTime", "Stock Shipment",
     True),
    ("SELECT shop, product, occTime AS t FROM Stock EXCEPT SELECT shop, product, due FROM Shipment", "t",
     "Stock Shipment", False),
    ("SELECT pieces * 2 AS twice, twice + 1 AS more, shop, product FROM Stock ORDER BY more, price", "occTime",
     "Stock", True),
    ("SELECT shop, product, sum(count(*)) OVER (PARTITION BY shop ORDER BY pieces) z FROM Stock "
     "GROUP BY shop, product, pieces", "MAX(occTime)", "Stock", False),
    ("SELECT DISTINCT shop, product FROM Stock ORDER BY shop LIMIT 3", "occTime", "Stock", False),
    ("SELECT shop, max(product) AS product FROM Stock GROUP BY 1 HAVING count(*) > 3 ORDER BY 2",
     "MIN(occTime)", "Stock", False),
    ("SELECT upper(shop) AS u, max(product) FROM Stock GROUP BY upper(Stock.shop) ORDER BY u", "MIN(occTime)", "Stock",
     False),
    ("SELECT upper(shop) AS u, max(product) FROM Stock GROUP BY u", "MIN(occTime)", "Stock", False),
    ("SELECT shop, product FROM Stock GROUP BY ALL", "MAX(occTime)", "Stock", False),
    ("SELECT shop, max(product) product FROM Stock GROUP BY shop, ROLLUP(pieces)", "MAX(occTime)", "Stock", False),
    ("SELECT shop, product, r FROM (SELECT *, rank() OVER (ORDER BY price DESC) r FROM Stock) WHERE r = 1", "occTime",
     "Stock", False),
    ("SELECT s.shop, l.product FROM Stock s, LATERAL (SELECT product FROM Shipment d WHERE d.shop = s.shop) l",
     "s.occTime", "Stock Shipment", True),
    ("SELECT shop, w AS product FROM Stock LATERAL VIEW explode(split(product, ',')) t AS w", "occTime", "Stock",
     True),
    ("SELECT v.a AS shop, s.product FROM Stock s JOIN VALUES ('x', 1), ('y', 2) AS v(a, b) ON s.pieces = v.b",
     "s.occTime", "Stock", True),
    ("SELECT shop, sort_array(collect_list(product))[0] AS product FROM Stock GROUP BY shop", "MAX(occTime)", "Stock",
     False),
    ("SELECT shop, first_value(product) OVER (PARTITION BY shop ORDER BY occTime) AS product FROM Stock", "occTime",
     "Stock", False),
    ("SELECT shop, product FROM Stock WHERE unix_timestamp(occTime) > 3 AND pieces IS DISTINCT FROM NULL", "occTime",
     "Stock", True),
    ("SELECT shop, product, pieces IS DISTINCT FROM NULL FROM Stock", "occTime", "Stock", True),
    ("SELECT shop, named_struct('a', product) AS s, s.a AS product FROM Stock", "occTime", "Stock", True),
]  # fmt: skip


@pytest.mark.parametrize(("body", "time", "reads", "traced"), GOOD, ids=range(len(GOOD)))
def test_names_are_resolved(body, time, reads, traced):
    plan = planned(f"{body} OCCURRING AT {time}")
    assert plan.reads == tuple(reads.split())
    assert plan.traced == traced


@pytest.mark.parametrize("body", [f"{body} OCCURRING AT {time}" for body, time, *_ in GOOD], ids=range(len(GOOD)))
def test_the_query_gives_the_attributes_and_the_time(body):
    plan = planned(body)
    tree = sqlglot.parse_one(plan.query, dialect="spark")
    assert isinstance(tree, exp.Select)
    fed = [c.attribute for c in plan.columns if c.attribute]
    assert tree.named_selects == [*fed, "occ_time"]
    made = tree.args["from_"].this
    assert len(made.alias_column_names) == len(plan.columns) + 1
    while not isinstance(made, exp.Select):
        made = made.this
    if not made.is_star:
        assert len(made.expressions) == len(plan.columns) + 1


def test_each_part_of_a_union_gets_the_time():
    plan = planned(
        "SELECT shop, product FROM Stock UNION (SELECT shop, product FROM Shipment) OCCURRING AT occTime - 5m"
    )
    time = "occ_time - INTERVAL '5' MINUTE"
    assert plan.timed_sql == (
        f"SELECT shop, product, {time} FROM Stock UNION (SELECT shop, product, {time} FROM Shipment)"
    )


# ---- what is refused -----------------------------------------------------------------------------

FORMS = "OCCURRING AT takes a time column of the FROM clause, ± a duration, MAX(…) and MIN(…) of such"
USE_NOW = "write NOW, the time of the tick, without parentheses"
HAS = "`Stock` has shop, product, pieces, price, occ_time, det_time"
GROUP = "add it to GROUP BY, or take MAX(…), MIN(…) or another aggregate of it"
JOINED = "FROM Stock s JOIN Shipment d ON s.shop = d.shop"


def unsteady(name: str) -> str:
    return f"`{name}` is not deterministic: it differs from run to run"


# The SELECT (OCCURRING AT occTime, unless it says otherwise), code, marked text, message, proposals.
BAD: list[tuple[str, ...]] = [
    ("SELECT shop product x FROM Stock", "E117", "x", "the SELECT cannot be read: `x` is unexpected"),
    (f"{STOCK} WHERE", "E117", "WHERE", "the SELECT cannot be read: something is missing"),
    ("SELECT shop, (product FROM Stock)", "E117", "FROM", "the SELECT cannot be read: expected `)`"),
    ("SELECT shop, product, FROM Stock", "E117", ",", "the SELECT cannot be read: nothing follows `,`"),
    ("SELECT FROM Stock", "E117", "SELECT", "the SELECT cannot be read: nothing follows `SELECT`"),
    (f"{STOCK} WHERE pieces > :limit", "E117", "limit", "the SELECT cannot be read: NOW is its only parameter"),
    ("SELECT shop, product FROM Stok", "E251", "Stok", "there is no event class `Stok`", "did you mean `Stock`?"),
    ("SELECT shop, product FROM Warehouse", "E251", "Warehouse", "there is no event class `Warehouse`",
     "there is Stock, Shipment, Order, X"),
    ("SELECT shop, t.product FROM Stock", "E251", "t", "there is no table `t` in this FROM clause", "there is Stock"),
    ("SELECT shop, Stock.product FROM Stock s", "E251", "Stock", "there is no table `Stock` in this FROM clause",
     "`Stock` is called `s` here"),
    ("SELECT shop, prodct FROM Stock", "E252", "prodct", "there is no column `prodct` in this FROM clause",
     f"did you mean `product`? {HAS}"),
    (f"{STOCK} WHERE Stock.weight > 3", "E252", "weight", "there is no column `weight` in `Stock`", HAS),
    ("SELECT shop, product FROM (SELECT shop, product, occTime FROM Stock) t WHERE t.pieces > 3", "E252", "pieces",
     "there is no column `pieces` in `t`", "`t` has shop, product, occ_time"),
    (f"{STOCK} JOIN Order USING (shop, product) OCCURRING AT Stock.occTime", "E252", "product",
     "there is no column `product` in this FROM clause", "`Order` has shop, end, occ_time, det_time"),
    (f"SELECT s.shop, product {JOINED} OCCURRING AT s.occTime", "E253", "product",
     "the column `product` is ambiguous: `s` and `d` have it", "write s.product or d.product"),
    (f"SELECT s.shop, s.product {JOINED}", "E253", "occTime", "the column `occTime` is ambiguous: `s` and `d` have it",
     "write s.occTime or d.occTime or MAX(s.occTime, d.occTime)"),
    (f"{STOCK} WHERE occTime < now()", "E311", "now", unsteady("now"), USE_NOW),
    (f"{STOCK} WHERE occTime < current_timestamp", "E311", "current_timestamp", unsteady("current_timestamp"),
     USE_NOW),
    (f"{STOCK} WHERE localtimestamp > occTime", "E311", "localtimestamp", unsteady("localtimestamp"), USE_NOW),
    (f"{STOCK} WHERE unix_timestamp() > pieces", "E311", "unix_timestamp", unsteady("current_timestamp"), USE_NOW),
    *((f"{STOCK} WHERE {name}() = pieces", "E311", name, unsteady(name))
      for name in ("rand", "uuid", "monotonically_increasing_id", "input_file_name")),
    ("SELECT shop, first(product) AS product FROM Stock GROUP BY shop OCCURRING AT MAX(occTime)", "E311",
     "first(product)", "`first` is not deterministic: rows have no order",
     "take MIN(…) or MAX(…), or give an order: sort_array(collect_list(…))"),
    (f"{STOCK} TABLESAMPLE (10 PERCENT)", "E311", "10", unsteady("tablesample")),
    (f"{STOCK} LIMIT 50", "E312", "50", "LIMIT without ORDER BY takes any rows",
     "say which rows come first: ORDER BY …"),
    ("SELECT shop, product FROM (SELECT * FROM Stock OFFSET 7)", "E312", "7", "OFFSET without ORDER BY takes any rows",
     "say which rows come first: ORDER BY …"),
    ("SELECT shop FROM Stock", "E256", "shop", "no column of this SELECT gives `product` of `X`",
     "the columns are shop"),
    ("SELECT product, shop AS p FROM Stock", "E256", "product, shop AS p",
     "no column of this SELECT gives `shop` of `X`", "the columns are product, p"),
    ("SELECT shop, price, product AS produce FROM Stock", "E256", "shop, price, product AS produce",
     "no column of this SELECT gives `product` of `X`", "did you mean `produce AS product`?"),
    ("SELECT * FROM Stock PIVOT (sum(pieces) FOR shop IN ('a', 'b'))", "E256", "*",
     "no column of this SELECT gives `shop`, `product` of `X`",
     "the columns of this * are not known before it runs: write them out"),
    ("SELECT shop, count(*) AS product FROM Stock GROUP BY shop OCCURRING AT MAX(occTime)", "E257",
     "count(*) AS product", "the attribute `product` of `X` is STRING, not BIGINT", "write CAST(… AS STRING)"),
    ("SELECT shop, occTime - detTime FROM Stock", "E257", "occTime - detTime",
     "the attribute `product` of `X` is STRING, not DURATION", "write CAST(… AS STRING)"),
    (f"{STOCK} OCCURRING AT shop", "E258", "shop", "the events cannot occur at `shop`: it is STRING, not a time",
     FORMS),
    (f"{STOCK} OCCURRING AT ocTime", "E258", "ocTime", "there is no column `ocTime` in this FROM clause",
     f"did you mean `occ_time`? {HAS}"),
    (f"SELECT t.shop, t.product FROM ({STOCK}) t OCCURRING AT t.occTime + 5d", "E258", "occTime",
     "there is no column `occTime` in `t`", "`t` has shop, product"),
    *((f"SELECT shop, product FROM Stock OCCURRING AT {time}", "E258", marked, "events cannot occur at this", FORMS)
      for time, marked in [("NOW + 5d", "NOW"), ("occTime + 5", "occTime + 5"), ("'2026-01-01'", "'2026-01-01'"),
                           ("GREATEST(occTime, detTime)", "GREATEST(occTime, detTime)"), ("MAX(occTime, 5)", "5")]),
    (f"{STOCK} EXCEPT SELECT shop, product FROM Shipment", "E258", "occTime",
     "OCCURRING AT of several SELECTs means a column of their result",
     "give the parts a name: SELECT … FROM (SELECT … UNION SELECT …) tab OCCURRING AT tab.occTime"),
    ("SELECT shop, product INTO y FROM Stock", "E118", "INTO", "a class is derived by one SELECT, nothing else",
     "write AS SELECT …"),
    (f"WITH a AS (SELECT 1) INSERT INTO Stock {STOCK}", "E118", "INSERT",
     "a class is derived by one SELECT, nothing else", "write AS SELECT …"),
    ("SELECT shop, product, count(*) FROM Stock GROUP BY shop OCCURRING AT MAX(occTime)", "E260", "product",
     "`product` is neither grouped nor aggregated", GROUP),
    ("SELECT *, count(*) FROM Stock OCCURRING AT MAX(occTime)", "E260", "*", "`*` is neither grouped nor aggregated",
     GROUP),
    ("SELECT shop, max(product) AS product FROM Stock GROUP BY shop HAVING price > 3 OCCURRING AT MAX(occTime)",
     "E260", "price", "`price` is neither grouped nor aggregated", GROUP),
    (f"{STOCK} WHERE count(*) > 3", "E260", "count(*)", "an aggregate cannot stand here", "use HAVING"),
    ("SELECT shop, max(product) AS product FROM Stock GROUP BY shop", "E260", "occTime",
     "the time `occTime` is neither grouped nor aggregated", "write MAX(…) or MIN(…) of it"),
    ("SELECT shop, product, SHOP FROM Stock", "E261", "SHOP", "two columns of this SELECT are called `SHOP`",
     "give one of them another name with AS"),
    (f"SELECT s.*, d.product {JOINED} OCCURRING AT s.occTime", "E261", "d.product",
     "two columns of this SELECT are called `product`", "give one of them another name with AS"),
    ("SELECT shop, product FROM parquet.`/data/x`", "E263", "parquet.`/data/x`", "a SELECT reads event classes only",
     "declare a class for what it holds"),
    ("SELECT shop, product FROM range(10), Stock OCCURRING AT Stock.occTime", "E263", "range(10)",
     "a SELECT reads event classes only", "declare a class for what it holds"),
    (f"{STOCK} UNION SELECT shop FROM Shipment", "E265", "shop FROM Shipment",
     "the parts of this query have 2 and 1 columns"),
    (f"{STOCK} WHERE pieces < 5d", "E266", "pieces < 5d", "INT and DURATION do not go together",
     "5d, 10h, 15m, 30s are durations"),
    (f"{STOCK} WHERE occTime - NOW < 5", "E266", "occTime - NOW < 5", "DURATION and INT do not go together",
     "5d, 10h, 15m, 30s are durations"),
    (f"{STOCK} WHERE pieces + 1", "E266", "pieces + 1", "BOOLEAN and INT do not go together"),
    (f"{STOCK} WHERE NOW - occTime < 99999999999d", "E110", "99999999999d", "the duration 99999999999d is too long"),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=[f"{code}-{number}" for number, (_, code, *_) in enumerate(BAD)])
def test_a_mistake_is_pointed_at(case):
    body, code, marked, message, *helps = case
    at = "" if "OCCURRING AT" in body else " OCCURRING AT occTime"
    assert refused(body + at) == [(code, marked, message, tuple(helps))]


def test_every_code_is_shown():
    assert {case[1] for case in BAD} >= {
        *("E117", "E118", "E251", "E252", "E253", "E256", "E257", "E258", "E260", "E261", "E263", "E265", "E266"),
        *("E311", "E312"),
    }


@pytest.mark.parametrize(
    "opening", ["(", "abs(", "CASE WHEN true THEN ", "NOT ", "(SELECT max(shop) FROM Stock WHERE shop = "]
)
def test_too_deep_is_said_not_suffered(opening):
    closing = {"(": ")", "abs(": ")", "NOT ": "", "CASE WHEN true THEN ": " END"}.get(opening, ")")
    for depth in (1, 10, 60, 200, 2000):
        sql = f"SELECT {opening * depth}shop{closing * depth} AS shop, product FROM Stock"
        findings = analysed(sql)
        assert {d.code for d in findings} <= {"E401", "E257"}, (depth, findings)
        assert depth < 200 or [d.code for d in findings] == ["E401"]


def test_all_unknown_names_are_found_at_once():
    body = """SELECT shp, Stock.prodct
         FROM Stock  -- 5d
         WHERE NOW - occTime < 5d AND pces > 3 AND EXISTS (SELECT 1 FROM Shipment d WHERE d.x = y.shop)
         AND shop IN (SELECT shop FROM Shipmnt WHERE anything > 3)
         ORDER BY pric OCCURRING AT ocTime + 10m"""
    found = [(code, marked) for code, marked, _, _ in refused(body)]
    assert found == [
        ("E252", "shp"), ("E252", "prodct"), ("E252", "pces"), ("E252", "x"), ("E251", "y"),
        ("E251", "Shipmnt"), ("E252", "pric"), ("E258", "ocTime"),
    ]  # fmt: skip


def test_an_unclosed_quote_is_pointed_at():
    sql = "SELECT shop, product FROM Stock WHERE shop = 'it''s' AND product = 'milk"
    [finding] = analysed(sql)
    assert (finding.code, finding.mark.span.start) == ("E117", sql.rindex("'"))
    assert finding.message == "the SELECT cannot be read: this quote or comment is not closed"


@pytest.mark.parametrize("sql", ["", "  ", "-- nothing", "DROP TABLE Stock", "VALUES (1)", "SELECT 1; SELECT 2"])
def test_what_is_no_single_select_is_refused(sql):
    assert "E118" in {d.code for d in analysed(sql)}


def test_the_other_places_of_a_mistake_are_marked():
    text = program_of("SELECT shop, pieces AS product FROM Stock OCCURRING AT occTime")
    [(_, [finding])] = selects(text)
    assert [text[m.span.start : m.span.end] for m in finding.others] == ["product"]
    assert finding.others[0].span.start < finding.mark.span.start


# ---- nothing escapes, nothing is slow ------------------------------------------------------------

OCCURRING_AT = s.Name(None, s.Ident("occTime", Span(0, 7)), Span(0, 7))
_, TABLES = declared(program_of("SELECT shop, product FROM Stock OCCURRING AT occTime"))


def analysed(sql: str) -> tuple[Diagnostic, ...]:
    """The findings of a SELECT that stands at offset 0, whatever it is."""
    findings = Findings()
    source = s.SelectSource(sql, OCCURRING_AT, Span(0, len(sql)))
    plan = analyse_select(source, TABLES.classes["x"], TABLES.classes, findings)
    assert (plan is None) == findings.has_errors()
    return findings.sorted()


BODIES = [case[0].split(" OCCURRING")[0] for case in BAD] + [body for body, *_ in GOOD]
WORDS = re.findall(r"\w+|\S", " ".join(BODIES))


def mutated(chance: random.Random) -> str:
    """A SELECT of the tables above with a few tokens cut off, lost, doubled, exchanged or made up."""
    tokens = re.findall(r"\s+|\w+|\S", chance.choice(BODIES))
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(tokens) + 1)
        match chance.randrange(5):
            case 0:
                tokens = tokens[:place] or ["SELECT "]
            case 1:
                del tokens[place : place + 1]
            case 2:
                tokens.insert(place, chance.choice(tokens or ["x"]))
            case 3:
                tokens[place : place + 1] = [chance.choice(WORDS), " "]
            case _:
                tokens.insert(place, chr(chance.choice([chance.randrange(1, 128), chance.randrange(128, 0x1F700)])))
    return "".join(tokens)


def test_mutated_selects_raise_nothing():
    chance = random.Random(20260101)
    begun = time.process_time()
    for _ in range(500):
        sql = mutated(chance)
        for finding in analysed(sql):
            assert 0 <= finding.mark.span.start <= finding.mark.span.end <= max(len(sql), 7), sql
            assert "\x1b" not in finding.message
            if "cannot be analysed" in finding.message:  # only where sqlglot itself fails, not by a slip of ours
                with pytest.raises((ValueError, TypeError, AttributeError)):
                    sqlglot.parse_one(sql, dialect="spark")
    assert time.process_time() - begun < 5


def test_two_hundred_selects_take_well_under_a_second():
    sources = []
    for body, at, *_ in GOOD[:20]:
        program, _ = declared(program_of(f"{body} OCCURRING AT {at}"))
        sources += [x.source for x in program.statements if isinstance(x, s.ComplexClass)]
    begun = time.process_time()
    for source in sources * 10:
        assert isinstance(source, s.SelectSource)
        assert analyse_select(source, TABLES.classes["x"], TABLES.classes, Findings()) is not None
    assert time.process_time() - begun < 0.8


def test_sqlglot_is_loaded_by_the_first_select_only():
    script = "import sys, augury.analysis.select; assert not [m for m in sys.modules if m.startswith('sqlglot')]"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_class_that_nothing_declares_is_no_trouble():
    target = EventClass("Lone", ClassKind.COMPLEX, True, (), (), None)
    findings = Findings()
    assert analyse_select(s.SelectSource("SELECT 1", OCCURRING_AT, Span(0, 8)), target, {}, findings) is None
    assert [d.code for d in findings.sorted()] == ["E258"]

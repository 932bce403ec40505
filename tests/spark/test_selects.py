"""SELECTs run by Spark itself: rows, constituents and failures as on DuckDB, and the same lines from whole programs."""

# A query reads best on one line.
# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan
from augury.api import compile, detect
from augury.cli import app
from augury.duck.selects import runnable
from augury.engine.ledger import lines
from augury.engine.plan import CannotRun
from augury.engine.ports import SelectFailed, SelectsBy
from augury.engine.rows import Rows
from augury.lake import Lake
from augury.spark.committed import ledger_in
from augury.spark.selects import failure, spark_selects
from augury.spark.sources import json_lines
from augury.spark.tracing import Untraceable, Views, traced_sql
from augury.spark.watch import watch
from tests.bitemporal.queries import CLASSES, FAILURES, NOW_US, QUERIES, views_of
from tests.bitemporal.test_select import TRACED
from tests.spark import test_equality as equality
from tests.spark.packed import Case, in_batch, in_stream
from tests.spark.printed import reference_lines

GROCERIES = Path(__file__).parents[2] / "examples" / "groceries"


# ---- one query ---------------------------------------------------------------------------------------------------

FORMS = {
    "all columns of a query": "SELECT u.id FROM (SELECT * FROM Part) u OCCURRING AT u.occTime",
    "all columns of one source": "SELECT u.id FROM (SELECT p.*, i.ts FROM Part p JOIN Item i ON p.item = i.id) u OCCURRING AT u.ts",
    "all columns but some": "SELECT u.id FROM (SELECT * EXCEPT (price, name) FROM Part) u OCCURRING AT u.occTime",
    "all columns of a join": "SELECT u.i AS id FROM (SELECT * FROM (SELECT id, q FROM Part) NATURAL JOIN (SELECT id, i, ts FROM Item)) u RIGHT JOIN Item z ON z.i = u.i OCCURRING AT z.occTime",
    "a class beside itself": "SELECT a.id FROM Part a JOIN Part b ON a.item = b.item AND a.id < b.id JOIN Part c ON c.id = b.id OCCURRING AT c.occTime",
    "joined by commas": "SELECT p.id FROM Part p, Item i WHERE p.item = i.id OCCURRING AT i.occTime",
    "joined in brackets": "SELECT p.id FROM (Part p JOIN Item i ON p.item = i.id) LEFT JOIN Part z ON z.id = p.id + 1 OCCURRING AT i.occTime",
    "both sides outer": "SELECT COALESCE(p.id, i.id) AS id FROM Part p FULL OUTER JOIN Item i ON p.item = i.id OCCURRING AT i.occTime",
    "joined to a query": "SELECT p.id FROM Part AS p JOIN (SELECT id AS n, ts FROM Item WHERE i > 2) AS j ON j.n = p.item OCCURRING AT j.ts",
    "names for columns": "SELECT t.a AS id FROM (SELECT id, occTime FROM Part) t(a, z) OCCURRING AT t.z",
    "unions of both kinds": "SELECT u.id FROM (SELECT q AS id, TIMESTAMP '2026-01-01' AS t FROM Part UNION ALL SELECT item, TIMESTAMP '2026-01-01' FROM Part UNION SELECT id, TIMESTAMP '2026-01-01' FROM Item UNION ALL SELECT i, TIMESTAMP '2026-01-01' FROM Item) u OCCURRING AT u.t",
    "a union in brackets": "SELECT u.id FROM ((SELECT id, occTime FROM Part WHERE q = 4) UNION DISTINCT (SELECT id, occTime FROM Item)) u OCCURRING AT u.occTime",
    "the first of a union": "SELECT u.id FROM (SELECT id, occTime FROM Part UNION SELECT id, occTime FROM Item ORDER BY id DESC LIMIT 4) u OCCURRING AT u.occTime",
    "a union at the top": "SELECT id FROM Part WHERE q > 4 UNION SELECT id FROM Item OCCURRING AT occTime",
    "a WITH query twice": "WITH c(a, b) AS (SELECT id, item FROM Part) SELECT x.a AS id FROM c x JOIN c AS y ON x.b = y.b JOIN Item ON Item.id = x.b OCCURRING AT Item.occTime",
    "a WITH query on another": "WITH c AS (SELECT id, item FROM Part WHERE q > 4), e AS (SELECT * FROM c WHERE id > 12) SELECT e.id FROM e JOIN Item i ON i.id = e.item OCCURRING AT i.occTime",
    "a WITH query in a condition": "WITH c AS (SELECT id FROM Item WHERE id < 3) SELECT p.id FROM Part p JOIN c ON c.id = p.item WHERE p.item IN (SELECT * FROM c) OCCURRING AT p.occTime",
    "a WITH query called like a class": "WITH Item AS (SELECT id, occTime FROM Part WHERE id > 13) SELECT id FROM Item OCCURRING AT occTime",
    "hidden names that are taken": "WITH made_1 AS (SELECT id AS made_of, occTime FROM Part) SELECT made_of AS id FROM made_1 OCCURRING AT occTime",
    "words for names": "WITH Window AS (SELECT id, item FROM Part), Full AS (SELECT * FROM Window) SELECT w.id FROM Full w LEFT SEMI JOIN Full ON w.id = Full.id JOIN Item i ON i.id = w.item OCCURRING AT i.occTime",
    "clauses for columns": "SELECT p.offset AS id FROM (SELECT id AS offset, item AS window FROM Part) p JOIN (SELECT id AS window FROM Item) i ON p.window = i.window JOIN Item z ON z.id = p.window OCCURRING AT z.occTime",
    "a union of such columns": "SELECT p.offset AS id FROM (SELECT id AS offset, occTime FROM Part) p UNION SELECT i.offset FROM (SELECT id AS offset, occTime FROM Item) i WHERE i.offset > 2 OCCURRING AT occTime",
    "a WITH query called like a class that it asks twice": "WITH Part AS (SELECT id, occTime FROM Part WHERE id < (SELECT MAX(id) FROM Part)) SELECT id FROM Part OCCURRING AT occTime",
    "a column called FROM": "SELECT p.from AS id FROM (SELECT id AS `from`, occTime FROM Part) p OCCURRING AT p.occTime",
    "half a join": "SELECT p.id FROM Part p LEFT SEMI JOIN (SELECT id FROM Item WHERE id < 3) i ON p.item = i.id JOIN Item z ON z.id = p.item OCCURRING AT z.occTime",
    "what has no partner": "SELECT id FROM Part LEFT ANTI JOIN Item i ON Part.item = i.id OCCURRING AT occTime",
    "FROM that begins nothing": "SELECT YEAR(ts) + EXTRACT(DAY FROM ts) AS id FROM Item WHERE i IS DISTINCT FROM 7 AND ts IS NOT NULL OCCURRING AT occTime",
    "a sub-select beside the columns": "SELECT (SELECT MAX(q) FROM Part p WHERE p.item = o.id) AS id FROM Item o OCCURRING AT o.occTime",
    "now": QUERIES["now"][1],
    "first rows": "SELECT id FROM Part WHERE q IS NOT NULL ORDER BY price, id LIMIT 3 OCCURRING AT occTime",
    "letters that are cut": "SELECT id FROM Part WHERE name = 'it\\'s' OR name LIKE 'wh%' -- no ) and no FROM\n OCCURRING AT occTime",
    **{f"as for DuckDB {n}": body for n, (body, _) in enumerate(TRACED)},
}  # fmt: skip

ONLY_ON_SPARK = {
    "RLIKE": ("SELECT id FROM Part WHERE name RLIKE '^[aw]' AND q > 4 OCCURRING AT occTime", {15: [(0, 17)]}),
    "a query for each row": (
        "SELECT p.id FROM Item i, LATERAL (SELECT id FROM Part WHERE item = i.id AND q > 4) p OCCURRING AT i.occTime",
        {12: [(0, 5), (1, 8)], 15: [(0, 20), (1, 17)], 16: [(0, 11), (1, 20)]},
    ),
    "rows of a list": (
        "SELECT n AS id FROM Part LATERAL VIEW explode(array(q, item)) AS n WHERE id = 16 OCCURRING AT occTime",
        {6: [(0, 20)], 4: [(0, 20)]},
    ),
}


UNTRACED = ("groups of exact numbers", "having", "distinct", "running sums", "a CTE")
"""Of the queries that `test_select` runs on both engines, some that stay as they are."""


def gathered(queries: Mapping[str, tuple[str, str]]) -> Program:
    """A program with a class for each of these."""
    made = (
        f"CREATE COMPLEX EVENT CLASS X{number} ({attributes}) ID () LIFESPAN (1d) AS {body};\n"
        for number, (attributes, body) in enumerate(queries.values())
    )
    return compile(CLASSES + "".join(made))


def select_plans(program: Program) -> list[ClassPlan]:
    return [plan for plan in program.classes if isinstance(plan.derivation, SelectPlan)]


def numbered(program: Program) -> dict[str, pa.Table]:
    """Views whose rows have the numbers 2, 5, 8, …"""
    return {
        name: table.append_column("slot", pa.array([2 + 3 * row for row in range(table.num_rows)]))
        for name, table in views_of(program).items()
    }


def told(rows: Rows) -> list[str]:
    """Rows with what they are made of, in some order; -0.0 is 0.0, for groups of Spark have no other."""
    columns = [column.to_pylist() for column in [*rows.attributes.columns, rows.occ_time]]
    plain = [[value + 0.0 if isinstance(value, float) else value for value in column] for column in columns]
    made = [None if rows.made is None else rows.made.of(row) for row in range(len(rows))]
    return sorted(map(str, zip(*plain, made, strict=True)))


def test_rows_and_what_they_are_made_of_are_as_on_duckdb(spark: SparkSession) -> None:
    every = {**{name: QUERIES[name] for name in UNTRACED}, **{name: ("id INT", body) for name, body in FORMS.items()}}
    program = gathered(every)
    selects, on_duck, views = spark_selects(spark, program), runnable(program), numbered(program)
    for name, plan in zip(every, select_plans(program), strict=True):
        assert isinstance(plan.derivation, SelectPlan)
        found = selects.rows(plan, views, NOW_US)
        assert told(found) == told(on_duck.rows(plan, views, NOW_US)), name
        assert len(found), name
        assert (found.made is not None) is plan.derivation.traced is (name in FORMS), name


def test_spark_runs_what_duckdb_does_not(spark: SparkSession) -> None:
    program = gathered({name: ("id INT", body) for name, (body, _) in ONLY_ON_SPARK.items()})
    with pytest.raises(CannotRun) as refused:
        runnable(program)
    assert len(refused.value.diagnostics) == len(ONLY_ON_SPARK)
    selects, views = spark_selects(spark, program), numbered(program)
    for plan, (_, wanted) in zip(select_plans(program), ONLY_ON_SPARK.values(), strict=True):
        rows = selects.rows(plan, views, NOW_US)
        assert rows.made is not None
        found = {key: rows.made.of(row) for row, key in enumerate(rows.attributes["id"].to_pylist())}
        assert found == wanted


def test_varchar_takes_so_many_letters_and_numbers_what_fits(spark: SparkSession) -> None:
    body = "SELECT name AS a, id, price AS c FROM Part WHERE id = 10 OCCURRING AT occTime"
    program = gathered({"": ("a VARCHAR(3), id BIGINT, c NUMERIC(4,1)", body)})
    rows = spark_selects(spark, program).rows(program.classes[-1], numbered(program), NOW_US)
    assert [{name: str(value) for name, value in row.items()} for row in rows.attributes.to_pylist()] == [
        {"a": "whe", "id": "10", "c": "1.1"}
    ]


# ---- what fails, and what is refused -----------------------------------------------------------------------------


def test_what_fails_on_duckdb_fails_with_a_sentence(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    texts = {
        text: (f"id INT, x {kind}", f"SELECT id, {text} AS x FROM Item OCCURRING AT occTime")
        for text, (kind, _) in FAILURES.items()
    }
    texts["a time too far"] = ("id INT", "SELECT id FROM Item OCCURRING AT occTime + 3000000d")
    program = gathered(texts)
    selects, views = spark_selects(spark, program), numbered(program)
    said = {}
    for text, plan in zip(texts, select_plans(program), strict=True):
        with pytest.raises(SelectFailed) as failed:
            selects.rows(plan, views, NOW_US)
        said[text] = str(failed.value)
    assert said["1 / (i - 7)"] == "Division by zero"
    assert said["(SELECT q FROM Part)"] == "More than one row returned by a subquery used as an expression"
    assert said["a time too far"] == "a time lies outside the years 1 to 9999"
    assert all(0 < len(text) < 120 and "\n" not in text and "SQLSTATE" not in text for text in said.values())
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


def test_a_failure_that_values_did_not_bring_about_is_none_of_the_select() -> None:
    assert failure(RuntimeError("Job aborted: executor 3 was lost")) is None
    assert (
        failure(RuntimeError("An error occurred … [SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row. SQLSTATE: 21000"))
        == "More than one row"
    )
    assert failure(RuntimeError("[TABLE_OR_VIEW_NOT_FOUND] There is none. SQLSTATE: 42P01")) is None


def test_what_spark_refuses_is_told_before_anything_runs(spark: SparkSession) -> None:
    program = gathered(
        {
            "a": ("id INT", "SELECT id FROM Item WHERE made_up(id) > 1 OCCURRING AT occTime"),
            "b": ("id INT", "SELECT id FROM Item, (VALUES (1)) AS v(n) OCCURRING AT occTime"),
            "c": ("id INT", "SELECT id FROM Item OCCURRING AT occTime"),
        }
    )
    with pytest.raises(CannotRun) as refused:
        spark_selects(spark, program)
    assert [diagnostic.message for diagnostic in refused.value.diagnostics] == [
        "Spark does not run the SELECT of `X0`: Cannot resolve routine `made_up` on search path [`system`.`builtin`, "
        "`system`.`session`, `spark_catalog`.`default`]",
        "Spark does not run the SELECT of `X1`: what its rows are made of is not known, because of VALUES",
    ]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT a FROM x PIVOT (sum(a) FOR b IN (1))", "PIVOT in FROM"),
        ("SELECT a FROM range(5)", "`range("),
        ("SELECT a FROM other", "`other` in FROM"),
        ("SELECT a FROM db.x", "`db."),
        ("WITH RECURSIVE c AS (SELECT a FROM x) SELECT a FROM c", "RECURSIVE"),
        ("SELECT a FROM (x JOIN x y) z", "alias of joined tables"),
        ("TABLE x", "TABLE"),
    ],
)
def test_forms_that_are_not_traced_are_named(sql: str, reason: str) -> None:
    with pytest.raises(Untraceable) as refused:
        traced_sql(sql, ["x"], Views("made_", "made_row", {"x": "made_of x"}))
    assert reason in str(refused.value)


# ---- whole programs ----------------------------------------------------------------------------------------------


def selecting(cases: list[Case]) -> list[Case]:
    return [case for case in cases if select_plans(case.program)]


GROUPS = {
    "corpus": lambda: selecting(equality.bitemporal_corpus()),
    "keyed": lambda: selecting([*equality.keyed_programs(), *equality.examples()]),
    "random": lambda: selecting(equality.random_programs(0)),
}

SOME = {"corpus": 9, "keyed": 20, "random": 4}
"""Every so many of a group run each time, and all of them in `make soak`."""


@pytest.mark.parametrize("name", GROUPS)
def test_a_batch_does_what_the_engine_in_process_does(spark: SparkSession, name: str) -> None:
    cases = GROUPS[name]()[:: SOME[name]]
    equality.same(cases, in_batch(spark, cases, "spark"))


@pytest.mark.soak
@pytest.mark.parametrize("name", GROUPS)
def test_every_batch_does_so(spark: SparkSession, name: str) -> None:
    cases = GROUPS[name]()
    equality.same(cases, in_batch(spark, cases, "spark"))


def test_streams_do_so_however_they_are_cut(spark: SparkSession, tmp_path: Path) -> None:
    cases = [case for name in GROUPS for case in GROUPS[name]()[1::20]]
    equality.same(cases, in_stream(spark, cases, tmp_path, 2, "spark"))


@pytest.mark.soak
@pytest.mark.parametrize("name", GROUPS)
def test_every_stream_does_so(spark: SparkSession, tmp_path: Path, name: str) -> None:
    cases = GROUPS[name]()
    equality.same(cases, in_stream(spark, cases, tmp_path, 2, "spark"))


def test_they_print_what_the_reference_prints() -> None:
    """Of the random programs that run here, and do here what the engine in process does."""
    for case in GROUPS["random"]()[:: SOME["random"]]:
        assert equality.local(case).lines == reference_lines(case), f"{case.name}\n{case.program.text}"


# ---- from the outside --------------------------------------------------------------------------------------------

PROGRAM = """
SET CHRONON 5s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Stock (item VARCHAR(10), amount INT) ID (item) LIFESPAN (1h);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Price (item VARCHAR(10), cents INT) ID (item) LIFESPAN (1h);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Visit (shop INT, guests INT) ID (shop) LIFESPAN (1m);
CREATE COMPLEX EVENT CLASS Share (item VARCHAR(10), part DOUBLE) ID (item) LIFESPAN (1h)
  AS SELECT s.item, p.cents / s.amount AS part FROM Stock s JOIN Price p ON s.item = p.item OCCURRING AT s.occTime
  ON ANNOUNCEMENT DO offer(new.item, new.part);
CREATE COMPLEX EVENT CLASS Cheap (item VARCHAR(10)) ID (item) LIFESPAN (1h)
  AS SELECT item FROM Share WHERE part < 10 AND occTime <= NOW - 10s OCCURRING AT occTime;
CREATE COMPLEX EVENT CLASS Crowded (shop INT) ID (shop) LIFESPAN (1m)
  AS MATCH prior(Visit(shop, _)[guests > 3], Visit(shop, _)[guests > 3]);
"""
EVENTS: list[tuple[str, int, dict[str, Any]]] = [
    ("Stock", 1, {"item": "milk", "amount": 4}),
    ("Price", 2, {"item": "milk", "cents": 20}),
    ("Visit", 3, {"shop": 1, "guests": 5}),
    ("Stock", 8, {"item": "eggs", "amount": 2}),
    ("Price", 9, {"item": "eggs", "cents": 90}),
    ("Visit", 12, {"shop": 1, "guests": 6}),
    ("Stock", 16, {"item": "milk", "amount": 0}),  # from now on the SELECT fails …
    ("Price", 21, {"item": "eggs", "cents": 16}),
    ("Stock", 27, {"item": "milk", "amount": 5}),  # … until here
    ("Visit", 33, {"shop": 2, "guests": 9}),
]


def written(path: Path, events: list[tuple[str, int, dict[str, Any]]]) -> None:
    rows = ({"event": event, "occ_time": f"2026-03-01T09:00:{at:02}Z", **values} for event, at, values in events)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture(scope="module")
def in_process() -> list[str]:
    rows = [json.dumps({"event": e, "occ_time": f"2026-03-01T09:00:{at:02}Z", **v}) for e, at, v in EVENTS]
    found = equality.locally(Case("shop", compile(PROGRAM), tuple(rows), buckets=2)).lines
    assert sum("offer" in line for line in found) == 2
    assert sum("Crowded" in line for line in found) == 1
    assert sum("Cheap" in line for line in found) >= 2
    return found


def test_a_failing_select_keeps_its_rows_and_others_go_on(spark, tmp_path, in_process):
    written(tmp_path / "events.jsonl", EVENTS)
    program, frame = compile(PROGRAM), json_lines(spark, str(tmp_path), streaming=False)
    active = SparkSession.getActiveSession()
    spark.range(1).createOrReplaceTempView("Stock")  # of the user: neither hides the other
    with detect(program, frame, selects="spark") as found:
        assert SparkSession.getActiveSession() is active
        assert [row.item for row in found.of("Cheap").orderBy("det_time", "item").collect()][:1] == ["milk"]
        ledger = found.collect_ledger()
    assert list(lines(program, ledger)) == in_process
    failed = [json.loads(text) for text in ledger.ticks["failed"].to_pylist() if json.loads(text)]
    assert failed == [{"Share": "Division by zero"}, {"Share": "Division by zero"}]
    assert spark.table("Stock").columns == ["id"]
    assert not spark.catalog.tableExists("Price")
    spark.catalog.dropTempView("Stock")


def test_a_stream_goes_on_whoever_runs_the_selects(spark, tmp_path, in_process):
    program, store, source = compile(PROGRAM), tmp_path / "lake", tmp_path / "events"
    source.mkdir()
    parts: list[tuple[int, int, SelectsBy]] = [(0, 4, "spark"), (4, 8, "duckdb"), (8, 10, "spark")]
    for number, (begin, end, by) in enumerate(parts):
        written(source / f"{number}.jsonl", EVENTS[begin:end])
        stream = json_lines(spark, str(source), streaming=True)
        with watch(program, stream, store=store, clock="data", selects=by, buckets=2) as query:
            query.query.processAllAvailable()
            if end == len(EVENTS):
                query.finish()
    lake = Lake.open(store)
    assert list(lines(program, ledger_in(program, lake, list(lake.manifests())))) == in_process


@pytest.mark.parametrize("engine", ["spark", "spark-stream"])
def test_the_groceries_are_the_same_from_the_command_line(spark, groceries, engine):
    events = str(GROCERIES / "events.jsonl")
    arguments = ["run", str(GROCERIES / "groceries.bicepl"), "--events", events, "--engine", engine]
    ran = CliRunner().invoke(app, [*arguments, "--selects", "spark"])
    assert ran.exit_code == 0, ran.stderr
    assert ran.stdout.splitlines() == groceries


def test_a_wrong_word_is_answered_with_a_proposal(spark, tmp_path):
    program = compile(PROGRAM)
    words: list[Any] = ["sparc", "polars"]
    frame = spark.createDataFrame([("Visit", 1, 2)], "event string, shop int, guests int")
    with pytest.raises(ValueError, match="nothing called `sparc` runs SELECTs: did you mean `spark`"):
        detect(program, frame, selects=words[0])
    with pytest.raises(ValueError, match="take `duckdb` or `spark`"):
        watch(program, frame, store=tmp_path / "lake", selects=words[1])
    with pytest.raises(ValueError, match="in process, SELECTs run on DuckDB"):
        detect(program, [{"event": "Visit", "shop": 1, "guests": 2}], selects="spark")
    arguments = ["run", "no.bicepl", "--events", "no.jsonl", "--selects"]
    for more, said in ((["spark"], "take --engine spark or"), (["sparc", "--engine", "spark"], "'duckdb', 'spark'")):
        ran = CliRunner().invoke(app, [*arguments, *more])
        assert ran.exit_code == 2
        assert said in ran.stderr
    assert not (tmp_path / "lake").exists()


def test_explain_says_where_selects_run(tmp_path):
    path = tmp_path / "shop.bicepl"
    path.write_text(PROGRAM, "utf-8")
    arguments = ["explain", str(path), "--stage", "spark"]
    by_default, by_choice = (
        CliRunner().invoke(app, [*arguments, *more]).stdout for more in ([], ["--selects", "spark"])
    )
    assert by_default.count("runs on DuckDB in the task") == 2
    assert by_choice.count("runs as Spark SQL, with its slot on the driver") == 2
    assert (
        "shard 2: Stock, Price, Share, Cheap: one slot, because its SELECTs are queries over all of their views"
        in by_choice
    )
    wrong = CliRunner().invoke(app, ["explain", str(path), "--selects", "spark"])
    assert wrong.exit_code == 2
    assert "--stage spark --selects spark" in wrong.stderr

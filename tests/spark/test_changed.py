"""A changed program on the lake of the one before: what stays, what is worked out again, what cannot go on."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.api import compile, history
from augury.clock import show_time
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger, joined, ledger_of, renumbered
from augury.engine.plan import engine_plan
from augury.engine.state import initial
from augury.engine.tick import Ports, ticks
from augury.history.arrivals import arrivals
from augury.history.raw import RawRows
from augury.lake import Lake, LakeError, Manifest
from augury.spark.keeping import OtherProgram
from augury.spark.replaying import watching, write_pieces
from augury.spark.stepping import slots_on_spark

START = 1_770_000_000
COUNT = 120

ORDERS = """
SET CHRONON 5s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, amount INT) ID (account) LIFESPAN (2m)
  ON ANNOUNCEMENT DO thank(new.account);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Payment (account INT, paid INT) ID () LIFESPAN (1m);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Visit (page VARCHAR(10)) ID () LIFESPAN (1m);
CREATE COMPLEX EVENT CLASS Paid (account INT) ID (account) LIFESPAN (3m)
  AS MATCH prior(Order(account, _), Payment(account, _));
CREATE COMPLEX EVENT CLASS Popular (page VARCHAR(10), visits BIGINT) ID (page) LIFESPAN (1m)
  AS SELECT page, COUNT(*) AS visits FROM Visit GROUP BY page HAVING COUNT(*) > 2 OCCURRING AT MAX(occTime);
"""
LARGE = """
CREATE COMPLEX EVENT CLASS Large (account INT, amount INT) ID (account) LIFESPAN (1m)
  AS SELECT account, amount FROM Order WHERE amount > 5 OCCURRING AT Order.occTime
  ON ANNOUNCEMENT DO celebrate(new.account);
"""


def rows(begin: int, end: int) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for i in range(begin, end):
        time = {"occ_time": show_time((START + i) * 1_000_000)}
        match i % 3:
            case 0:
                found.append({"event": "Order", "account": i % 7, "amount": i % 11, **time})
            case 1:
                found.append({"event": "Payment", "account": i % 5, "paid": i, **time})
            case _:
                found.append({"event": "Visit", "page": f"p{i % 4}", **time})
    return found


def raws(begin: int, end: int) -> list[RawRows]:
    return [RawRows("events", rows(begin, end), range(begin + 1, end + 1))]


def local(program: Program, end: int) -> Ledger:
    """What one engine does that had this program from the beginning."""
    plan = engine_plan(program)
    came = arrivals(program, raws(0, end))
    until = (START + end) * 1_000_000 // 5_000_000 * 5_000_000
    return joined(
        program, [ledger_of(program, list(ticks(plan, initial(plan), came, until, Ports(runnable(program)))))]
    )


class Run:
    """Streams of one lake, one after the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.store = spark, folder, folder / "lake"
        self.parts = 0

    def take(self, program: Program, begin: int, end: int, backfill_from: str | None = None) -> None:
        """Let a program read some of the rows; what is in the last chronon waits."""
        self.parts += 1
        source = self.folder / f"part{self.parts}"
        source.mkdir()
        write_pieces(source, slots_on_spark(program, 3), raws(begin, end), None, [(end - begin) // 2])
        # Each part is a source of its own, so that it has a checkpoint of its own.
        if (self.store / "checkpoint").exists():
            (self.store / "checkpoint").rename(self.folder / f"checkpoint{self.parts}")
        with watching(self.spark, program, source, str(self.store), 3, backfill_from=backfill_from) as watch:
            watch.query.processAllAvailable()

    def finish(self, program: Program, end: int) -> None:
        source = self.folder / "empty"
        source.mkdir(exist_ok=True)
        if (self.store / "checkpoint").exists():
            (self.store / "checkpoint").rename(self.folder / "checkpoint_last")
        with watching(self.spark, program, source, str(self.store), 3) as watch:
            watch.advance((START + end) * 1_000_000 // 5_000_000 * 5_000_000)

    def last(self) -> Manifest:
        found = Lake.open(self.store).last()
        assert found is not None
        return found


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return Run(spark, tmp_path)


def of(ledger: Ledger, program: Program, name: str) -> pa.Table:
    plan = program.class_plan(name)
    assert plan is not None
    return renumbered(plan.event_class, ledger.versions[name]).drop_columns(["augury_place"])


def test_what_is_new_is_derived_from_the_history_and_what_is_not_goes_on(run: Run) -> None:
    before, after = compile(ORDERS), compile(ORDERS + LARGE)
    run.take(before, 0, 60)
    states = dict(run.last().state)
    fired = history(run.store).actions().num_rows
    run.take(after, 60, COUNT)
    manifests = list(Lake.open(run.store).manifests())
    change = next(one for one in manifests if (one.offsets or {}).get("rebuilt"))
    # `Popular` and what it counts have nothing to do with the change.
    assert set(change.offsets["rebuilt"]) == {"Paid", "Large"}
    kept = [name for name in states if name in change.state and states[name] == change.state[name]]
    assert kept, "shards of which the program says the same keep their states"
    run.finish(after, COUNT)
    whole, found = local(after, COUNT), history(run.store)
    for name in ("Order", "Payment", "Visit", "Paid", "Popular", "Large"):
        assert found.table(name).equals(of(whole, after, name)), name
    old = {row["idempotency_key"] for row in local(before, COUNT).actions.to_pylist()}
    actions = found.actions().to_pylist()
    assert len(actions) > fired
    celebrated = [row for row in actions if row["action"] == "celebrate"]
    assert celebrated, "of what takes place after the change"
    assert all(row["tick"].timestamp() > START + 55 for row in celebrated), "and of nothing before"
    assert {row["idempotency_key"] for row in actions if row["action"] == "thank"} == old


def test_a_chosen_time_limits_what_is_derived_anew(run: Run) -> None:
    before, after = compile(ORDERS), compile(ORDERS + LARGE)
    run.take(before, 0, 60)
    since = show_time((START + 40) * 1_000_000)
    run.take(after, 60, COUNT, backfill_from=since)
    run.finish(after, COUNT)
    whole = local(after, COUNT)
    ticks_of_all = [row["tick"] for row in of(whole, after, "Large").to_pylist()]
    wanted = [tick for tick in ticks_of_all if tick.timestamp() >= START + 40]
    assert 0 < len(wanted) < len(ticks_of_all)
    assert [row["tick"] for row in history(run.store).table("Large").to_pylist()] == wanted
    assert history(run.store).table("Paid").equals(of(whole, after, "Paid"))


def test_a_class_declared_otherwise_is_refused_and_nothing_changes(run: Run) -> None:
    run.take(compile(ORDERS), 0, 30)
    listing = contents(run.store)
    other = compile(
        ORDERS.replace("amount INT) ID (account)", "amount BIGINT) ID (account)").replace("paid INT", "p INT")
    )
    with pytest.raises(LakeError, match=r"`Order` is .*; `Payment` is .*another name") as told:
        run.take(other, 30, 40)
    assert str(run.store) in str(told.value)
    assert contents(run.store) == listing


def test_another_chronon_is_refused(run: Run) -> None:
    run.take(compile(ORDERS), 0, 30)
    with pytest.raises(OtherProgram, match="a chronon has 5s, and in this one 1m"):
        run.take(compile(ORDERS.replace("SET CHRONON 5s", "SET CHRONON 1m")), 30, 40)


def test_a_program_that_is_only_written_otherwise_changes_nothing(run: Run) -> None:
    run.take(compile(ORDERS), 0, 30)
    run.take(compile(ORDERS.replace("CREATE", "create").replace("\n  AS", " AS")), 30, 60)
    assert not any((one.offsets or {}).get("rebuilt") for one in Lake.open(run.store).manifests())


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "checkpoint" not in path.parts)
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

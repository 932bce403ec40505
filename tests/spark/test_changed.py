"""A changed program on the lake of the one before: what stays, what is worked out again, what cannot go on."""

from __future__ import annotations

import hashlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.api import compile, history
from augury.clock import show_time
from augury.duck.selects import runnable
from augury.engine.ledger import Ledger, joined, ledger_of, renumbered
from augury.engine.plan import engine_plan
from augury.engine.sharded import parted
from augury.engine.state import initial
from augury.engine.tick import Ports, ticks
from augury.engine.triggering import carried_over
from augury.history.arrivals import arrivals
from augury.history.coming import received
from augury.history.raw import RawRows
from augury.lake import Lake, LakeError, Manifest, retention
from augury.lake.order import order_of
from augury.spark import changing, keeping
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
        how: dict[str, Any] = {"backfill_from": backfill_from, "compile": compile}
        with watching(self.spark, program, source, str(self.store), 3, **how) as watch:
            watch.query.processAllAvailable()

    def forget(self, program: Program, before_us: int) -> int:
        """Let versions of earlier ticks leave the history, as SET HISTORY RETAIN does; gives how many stay."""
        writer = Lake.open(self.store).writer()
        for plan in program.classes:
            lake, order = Lake.open(self.store), order_of(program)
            done = retention(lake.files, writer.snapshot(), plan.event_class, before_us, order=order)
            writer.commit(writer.manifest(added=done.added, removed=done.removed))
        return sum(history(self.store).table(one.name).num_rows for one in received(program))

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


def test_what_came_before_a_change_leaves_after_it(run: Run) -> None:
    before, after = compile(ORDERS), compile(ORDERS + LARGE)
    run.take(before, 0, 60)
    run.take(after, 60, COUNT)
    assert history(run.store).now("Order").num_rows
    run.finish(after, COUNT + 600)
    found = history(run.store)
    assert [found.now(name).num_rows for name in ("Order", "Payment", "Visit", "Paid", "Popular", "Large")] == [0] * 6


THIRD = """
CREATE COMPLEX EVENT CLASS Third (account INT, amount INT) ID () LIFESPAN (1m)
  AS COMPOSITE Order(account, amount){3} PARTITION BY account CONTEXT CHRONICLE;
"""
TOTAL = """
CREATE COMPLEX EVENT CLASS Total (n BIGINT) ID (n) LIFESPAN (1m)
  AS SELECT COUNT(*) AS n FROM Order OCCURRING AT MAX(occTime);
"""


def test_what_stays_goes_on_where_the_history_is_no_longer_whole(run: Run) -> None:
    before, after = compile(ORDERS + THIRD), compile(ORDERS + LARGE + THIRD)
    run.take(before, 0, 60)
    last = run.last()
    change = last.last_tick
    assert change is not None
    assert run.forget(before, change - 10_000_000) < last.last_seq
    listing = contents(run.store)
    with pytest.raises(LakeError, match=r"`Order` was run by \(account\) and would be run in one piece"):
        run.take(compile(ORDERS + THIRD + TOTAL), 60, 70)
    assert listing.items() <= contents(run.store).items()
    run.take(after, 60, COUNT)
    [changed] = [one for one in Lake.open(run.store).manifests() if "rebuilt" in (one.offsets or {})]
    assert changed.offsets is not None
    assert changed.offsets["rebuilt"] == ["Large"]
    run.finish(after, COUNT)
    undisturbed, found = local(before, COUNT), history(run.store)
    for name in ("Order", "Payment", "Visit", "Paid", "Popular", "Third"):
        wanted = [row for row in of(undisturbed, before, name).to_pylist() if as_us(row["tick"]) > change]
        assert wanted, name
        assert [row for row in found.table(name).to_pylist() if as_us(row["tick"]) > change] == wanted, name
    # It has the numbers that follow from what was left.
    large = of(local(after, COUNT), after, "Large").drop_columns(["number"]).to_pylist()
    derived = found.table("Large").drop_columns(["number"]).to_pylist()
    assert [row for row in derived if as_us(row["tick"]) > change] == [r for r in large if as_us(r["tick"]) > change]
    old = {row["idempotency_key"] for row in undisturbed.actions.to_pylist()}
    assert {row["idempotency_key"] for row in found.actions().to_pylist() if row["action"] == "thank"} == old


def as_us(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


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


NOTES = "CREATE MUTABLE SUBSCRIBED EVENT CLASS Note (page VARCHAR(10), visits BIGINT) ID () LIFESPAN (5m);\n"
RULES = """
RULE Write (page VARCHAR(10), visits BIGINT) ACTION POST Note(page, visits);
RULE Thank (account INT, paid INT) ACTION thanks(account, paid);
TRIGGER Often (page VARCHAR(10), visits BIGINT) TRIGGEREVENT Popular RULESTRUC Write(page, visits);
TRIGGER Settled (account INT, paid INT) TRIGGEREVENT Payment
  COMPOSITEEVENT Order > Payment CONTEXT CHRONICLE RULESTRUC Thank(account, paid);
"""
MORE = """
TRIGGER Newer (account INT, paid INT) TRIGGEREVENT Payment
  COMPOSITEEVENT Order > Payment CONTEXT CHRONICLE RULESTRUC Thank(account, paid);
"""


def fired_locally(before: Program, after: Program, change: int, end: int) -> Ledger:
    """What the triggers of one engine do that gets another program at a tick."""
    done, state = [], initial(engine_plan(before))
    came = arrivals(after, raws(0, COUNT))
    for program, until in ((before, change), (after, end)):
        plan = engine_plan(program)
        if program is after:
            state.triggers = carried_over(engine_plan(before), state.triggers, plan)
        read, came = parted(came, until)
        done += list(ticks(plan, state, read, until, Ports(runnable(program))))
    return ledger_of(after, done)


def test_triggers_that_stay_go_on_and_new_ones_see_what_comes(run: Run) -> None:
    before = compile(ORDERS + NOTES + RULES)
    after = compile(ORDERS + NOTES + RULES.replace("thanks(", "thankYou(") + MORE)
    run.take(before, 0, 60)
    change = run.last().last_tick
    run.take(after, 60, 93)
    last = run.last()
    assert change is not None
    assert last.last_tick is not None
    wanted, found = fired_locally(before, after, change, last.last_tick), history(run.store)
    assert wanted.firings.keys() == {"Often", "Settled", "Newer"}
    for name, table in wanted.firings.items():
        assert found.firings(name).to_pylist() == table.to_pylist(), name
    acted = [(row["idempotency_key"], row["action"]) for row in found.actions().to_pylist() if row["trigger"]]
    assert acted == [(r["idempotency_key"], r["action"]) for r in wanted.actions.to_pylist() if r["trigger"]]
    assert {action for _, action in acted} == {"thanks", "thankYou"}
    # A program in several slots reads what the rules of the one before have posted.
    assert last.offsets["posts"]
    alone = compile(ORDERS + NOTES)
    run.take(alone, 93, COUNT)
    run.finish(alone, COUNT)
    again = history(run.store)
    assert again.table("Note").num_rows == found.table("Note").num_rows + len(last.offsets["posts"])
    seq = sorted(s for name in ("Order", "Payment", "Visit", "Note") for s in again.table(name)["seq"].to_pylist())
    assert seq == list(range(1, len(seq) + 1))


def test_states_of_another_format_are_worked_out_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compile(ORDERS)
    for module in (keeping, changing):
        monkeypatch.setattr(module, "STATE_FORMAT", 0)
    run.take(program, 0, 60)
    monkeypatch.undo()
    run.take(program, 60, COUNT)
    run.finish(program, COUNT)
    assert any((one.offsets or {}).get("rebuilt") for one in Lake.open(run.store).manifests())
    whole, found = local(program, COUNT), history(run.store)
    for name in ("Order", "Payment", "Visit", "Paid", "Popular"):
        assert found.table(name).equals(of(whole, program, name)), name


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

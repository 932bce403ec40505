"""What runs in the workers, without a JVM: tasks given batches by hand find what the engine in process finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from augury import limits
from augury import types as t
from augury.algebra.program import Program
from augury.api import compile
from augury.engine.lines import lines
from augury.event import key_of
from augury.history.raw import Broken, RawRows, RawTable
from augury.kernels.batch import WITHDRAW, Batch, Occurrences
from augury.local.engine import detect
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.layout import (
    ABSORBED,
    END,
    VERSION,
    occurrence_table,
    occurrences_of,
    result_lanes,
    spark_type,
    value_name,
)
from augury.spark.plan import explain_plan, refused, stages_of
from augury.spark.stage import NotOnSpark, Stage, groups_of, histories_of, plain
from augury.spark.tasks import Accept, Detect, Pack, pack, packed_row, unpack
from tests.spark.by_hand import history, of_member, schema_of, shares
from tests.spark.programs import CLASSES, PROGRAMS, events, program

SECOND = 1_000_000


def accepted_by_hand(of: Program, rows: list[dict[str, Any]]) -> pa.Table:
    packed = [packed_row(0, 0, at, raw) for at, raw in enumerate(tables_of(rows))]
    histories = histories_of(groups_of(stages_of(of)))
    return pa.Table.from_batches(Accept(plain(of), histories, None)(iter(packed)))


Shown = tuple[list[str], list[tuple[int, int]]]


def by_hand(of: Program, rows: list[dict[str, Any]], parts: int) -> Shown:
    """The lines of a program and what is counted of its classes, each keyed group cut into parts by its keys."""
    given = accepted_by_hand(of, rows)
    accepted = given.filter(pc.equal(given["what"], VERSION))
    (end_us,) = given.filter(pc.equal(given["what"], ABSORBED))["det_time"]
    found: dict[str, pa.Table] = {}
    for group in groups_of(stages_of(of)):
        task, table = Detect(group, of.settings.chronon_us), history(group, accepted, found)
        if group.timed:
            table = table.append_column(END, pa.repeat(end_us, len(table)))
        batches = [
            batch
            for share in (shares(group, table, parts) if group.keys else [table])
            for batch in task(iter(share.to_batches()))
        ]
        made = pa.Table.from_batches(batches, schema_of(group.found))
        found |= {key_of(c.name): of_member(group, member, made) for member, c in enumerate(group.found)}
    plain_ = detect(of, tables_of(rows), match_kernel)
    occurrences = [occurrences_of(found[key_of(o.event_class.name)], o.event_class) for o in plain_.occurrences]
    return shown(of, plain_.versions, occurrences)


def shown(of: Program, versions: Batch, occurrences: Sequence[Occurrences]) -> Shown:
    counted = [(found.errors, found.dropped) for found in occurrences]
    return list(lines(versions, occurrences, of.settings.chronon_us)), counted


def in_process(of: Program, rows: list[dict[str, Any]]) -> Shown:
    found = detect(of, tables_of(rows), match_kernel)
    return shown(of, found.versions, found.occurrences)


@pytest.mark.parametrize("name", PROGRAMS)
def test_however_keys_are_cut_the_same_is_found(name: str) -> None:
    of = program(name)
    found: set[str] = set()
    for seed, parts in ((1, 1), (2, 2), (3, 5), (4, 3), (5, 2)):
        rows = events(seed, 150)
        wanted = in_process(of, rows)
        assert by_hand(of, rows, parts) == wanted
        found |= {line.split(",")[0] for line in wanted[0]}
    assert len(found) == sum(len(stage.found) for stage in stages_of(of)), "every class finds something"


def test_errors_are_there_to_be_counted() -> None:
    """The law above says something of errors: the classes that can have some do, and the one that cannot has none."""
    errors = [errors for errors, _ in in_process(program("failing"), events(13, 300))[1]]
    assert errors[-1] == 0
    assert all(count > 1 for count in errors[:-1])


def test_a_cut_that_tears_a_key_apart_is_noticed() -> None:
    """The law above can fail: with the rows of a key in two tasks it does."""
    of, rows = program("keyed"), events(1, 150)
    accepted = accepted_by_hand(of, rows)
    accepted = accepted.filter(pc.equal(accepted["what"], VERSION))
    group = groups_of(stages_of(of))[0]
    table = history(group, accepted, {})
    whole = sum(batch.num_rows for batch in Detect(group, SECOND)(iter(table.to_batches())))
    halves = [table.slice(0, len(table) // 2), table.slice(len(table) // 2)]
    torn = sum(batch.num_rows for half in halves for batch in Detect(group, SECOND)(iter(half.to_batches())))
    assert torn < whole


def test_stages_of_one_key_share_a_task_and_the_columns_of_classes() -> None:
    groups = groups_of(stages_of(program("keyed")))
    names = [[c.name for c in group.found] for group in groups]
    # Whatever variables are called, whichever class stands first, and though one reads another class besides.
    assert names == [["Complete", "Next", "Soon", "Gap", "Back", "Seen"], ["Both"], ["Weighed"]]
    (key,) = groups[0].keys
    assert key.places == ((0, "I"), (1, "I"), (3, "I"))
    lanes = groups[0].lanes
    # The key is an INT of two classes and a BIGINT of another; Q and A are INTs, and Order has two of them.
    assert lanes == {(0, 0): "int_0", (0, 1): "int_1", (1, 0): "bigint_0", (1, 1): "int_0", (3, 0): "int_0"}
    assert list(groups[0].histories.values()) == [tuple(range(6))], "Next and Gap count events of one history"


def test_kinds_are_the_same_after_a_journey() -> None:
    found = next(o for o in detect(program("keyed"), tables_of(events(1, 150)), match_kernel).occurrences if len(o) > 3)
    corrected = replace(found.at(np.arange(2)), kind=np.full(2, WITHDRAW, np.uint8), errors=3)
    lanes = {lane: value_name(0, i) for (_, i), lane in result_lanes([found.event_class]).items()}
    again = occurrences_of(occurrence_table([corrected]).rename_columns(lanes), found.event_class)
    assert str(again.kind.dtype) == "uint8"
    assert (again.kind.tolist(), again.errors) == ([WITHDRAW] * 2, 3)


def test_raw_events_are_the_same_after_a_journey() -> None:
    rows = RawRows("e.jsonl", [{"event": "A", "x": 1}, Broken("it is not JSON", "{")], [1, 2], None, ["a", "{"])
    assert unpack(pack(rows)) == rows
    table = RawTable("e.csv", pa.table({"x": ["1", None, "3"]}).slice(1), [2, 3], "A", text=True)
    again = unpack(pack(table))
    assert isinstance(again, RawTable)
    assert again.table.equals(table.table)
    assert (again.source, again.numbers, again.event_class, again.text) == ("e.csv", [2, 3], "A", True)


def test_rows_of_data_frames_are_numbered_in_the_order_of_their_partitions() -> None:
    of = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID (x) LIFESPAN (1d);")
    batches = [pa.RecordBatch.from_pylist([{"x": x, "det_time": 5}]) for x in (1, 2, None, 1)]
    (first, second), (third, fourth) = (list(Pack(0, "A", "A")(iter(some))) for some in (batches[:2], batches[2:]))
    third, fourth = (row.set_column(1, "part", pa.array([1], pa.int32())) for row in (third, fourth))
    table = pa.Table.from_batches(Accept(plain(of), {}, None)(iter([fourth, second, third, first])))
    assert table.filter(pc.equal(table["what"], VERSION))["v0_0"].to_pylist() == [1, 2]
    # The fourth is one that came before: absorbed, and not refused as a change.
    assert [(row["what"], row["place"], row["seq"]) for row in table.to_pylist()[2:]] == [(1, "A:3", 1), (2, None, 1)]


def test_the_plan_says_what_is_sent_where_and_why() -> None:
    assert explain_plan(program("over")) == (
        "accept Order, Perform, Price, Shift, Badge, Noise: in many tasks, numbered by ranges of det_time\n"
        "  Order, Perform, Noise: row by row; those with an event_id brought together by it\n"
        "  Price, Shift, Badge: brought together by key, only those that may be no versions where columns tell of the "
        "rest; where there is an event_id one partition for each class, because an id may come with any key\n"
        "Near: keyed by I, one shuffle\n"
        "  reads Order, Perform, with positions; columns Order.I, Perform.I\n"
        "Pair: in ranges of the history, gone over twice\n"
        "  reads Order, Perform, with positions; columns none\n"
        "  pushed down: Shift only where I = 3 AND sym = 'a'\n"
        "Constant: in ranges of the history, gone over twice, those of Pair\n"
        "  reads Order, Shift; columns Order.I, Shift.I, Shift.sym, Shift.since, Shift.day"
    )


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("prior(A(K, _, _, _), B(K, _, _, _)[n > 9])", ["B only where n > 9"]),
        ("prior(A(K, _, 'x', _), B(K, 7, _, _)[d > 0.5])", ["A only where s = 'x'", "B only where n = 7"]),
        (
            "prior(A(K, _, _, _)[n > 1 AND d > 2], A(K, _, _, _)[n < 0 OR s = 'y'])",
            ["A only where n > 1 OR n < 0 OR s = 'y'"],
        ),
        ("prior(A(K, _, _, _)[n > 1 OR d > 2], B(K, _, _, _)[s <> 'x'])", []),
        ("prior(A(K, _, _, _)[n > 1], A(K, _, _, _))", []),
        ("sequence(A(K, _, _, _)[n > 1], B(K, _, _, _))", ["A only where n > 1"]),
        ("prior(A(K, _, _, _)[PREV(n) > 1], B(K, _, _, _)[n > 9])", []),
    ],
)
def test_the_plan_says_what_is_pushed_down(statement: str, told: list[str]) -> None:
    text = "".join(
        f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {name} (k INT, n INT, s TEXT, d DOUBLE) ID () LIFESPAN (1d);"
        for name in "AB"
    )
    found = explain_plan(compile(f"{text} CREATE COMPLEX EVENT CLASS C (K INT) ID () AS MATCH {statement};"))
    pushed = [line.removeprefix("  pushed down: ") for line in found.splitlines() if "pushed down" in line]
    assert pushed == told, found


def stage_of(statement: str) -> Stage:
    (stage,) = stages_of(compile(CLASSES + f"CREATE COMPLEX EVENT CLASS C (I INT) ID () AS MATCH {statement};"))
    return stage


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("prior(Order, Perform)", "no variable joins its events, and there is no PARTITION BY"),
        ("!happened(Order(I, _)) /+ Perform(I, _)", "events of other values of `I` matter to it"),
        ("prior(Order(I, _)[Q > PREV(Q)], Perform(I, _))", "PREV looks at events of other values"),
        ("prior(Order(I, _), Noise, Perform(I, _))", "not every event that it reads names one value of `I`"),
        ("prior(Order(I, X), Order(X, I))", "not every event that it reads names one value of `I`, `X`"),
    ],
)
def test_what_cannot_be_cut_runs_in_one_partition(statement: str, reason: str) -> None:
    stage = stage_of(statement)
    assert (stage.keys, stage.reason) == ((), reason)


def composite_of(statement: str, before: str = "") -> Stage:
    text = f"{CLASSES}{before}CREATE COMPLEX EVENT CLASS C (I INT) ID () AS COMPOSITE {statement};"
    return stages_of(compile(text))[-1]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("Order > Perform", "no variable joins its events, and there is no PARTITION BY"),
        ("Order(I, _)[Q > PREV(Q)] > Perform(I, _)", "PREV looks at events of other values"),
        ("Order(I, _) > Noise > Perform(I, _)", "not every event that it reads names one value of `I`"),
        ("Order(I, _) > !Noise > Perform(I, _)", "not every event that it reads names one value of `I`"),
        ("Order(I, X) > Order(X, I)", "not every event that it reads names one value of `I`, `X`"),
    ],
)
def test_a_composite_that_cannot_be_cut_runs_in_one_partition(statement: str, reason: str) -> None:
    stage = composite_of(statement)
    assert (stage.keys, stage.reason) == ((), reason)


@pytest.mark.parametrize(
    ("statement", "keys"),
    [
        ("Order(I, _) > Perform(I, _)", ["I"]),
        ("Order(I, _) > !Perform(I, _) WITHIN 3s", ["I"]),
        ("Shift > Badge PARTITION BY sym", ["sym"]),
        # What every event names is enough.
        ("(Shift(I, sym, _, _, _) > Badge(I, _)) & Badge(I, sym) CONTEXT CHRONICLE", ["I"]),
        ("Shift(I, sym, _, _, _) > Badge(I, sym)", ["I", "sym"]),
        ("Order(I, I) > Order(I, _)", ["I"]),
    ],
)
def test_a_composite_is_cut_by_what_every_event_names(statement: str, keys: list[str]) -> None:
    assert [key.name for key in composite_of(statement).keys] == keys


def test_keys_of_complex_events_are_not_rounded_by_spark() -> None:
    before = "CREATE COMPLEX EVENT CLASS D (I INT, w {}) ID () AS COMPOSITE Order(I, _) + 1s;\n"
    double = composite_of("D(_, w) > Price(_, _, w)", before.format("DOUBLE"))
    assert [key.name for key in double.keys] == ["w"]
    rounded = composite_of("D(_, w) > Price(_, _, w)", before.format("NUMERIC(10, 2)"))
    assert (rounded.keys, rounded.reason) == ((), "`D.w` is compared with DOUBLEs and is none")


def test_what_is_let_go_is_counted_in_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMPOSITE_KEPT_MAX", 2)
    of, rows = program("composite"), events(5, 200)
    found = by_hand(of, rows, 3)
    assert found == in_process(of, rows)
    assert sum(dropped > 0 for _, dropped in found[1]) > 2


def test_keys_are_of_one_type_in_all_classes() -> None:
    (key,) = stage_of("prior(Order(I, _), Perform(I, _))").keys
    assert (key.name, key.type, key.places) == ("I", t.BIGINT, ((0, "I"), (1, "I")))
    keys = stage_of("prior(Shift, Badge) PARTITION BY sym, I").keys
    assert [(key.name, key.type) for key in keys] == [("sym", t.STRING), ("I", t.INT)]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE Order > Perform ORDER BY OCCURRENCE;",
            "ORDER BY OCCURRENCE",
        ),
        ("CREATE COMPLEX EVENT CLASS C (I INT) ID (I) AS SELECT I FROM Order OCCURRING AT occTime;", "SELECT"),
        ("CREATE COMPLEX EVENT CLASS C () ID () AS MATCH Order ORDER BY OCCURRENCE;", "ORDER BY OCCURRENCE"),
    ],
)
def test_what_does_not_run_is_refused_with_its_place(statement: str, what: str) -> None:
    with pytest.raises(NotOnSpark, match=f"does not run {what} yet, as `C` needs it to") as caught:
        stages_of(compile(CLASSES + statement))
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E313"]


def test_errors_of_the_kernel_are_known_by_name() -> None:
    plan = program("over").class_plan("Near")
    assert plan is not None
    assert isinstance(refused(plan, "TooManyTuples"), NotOnSpark)
    assert refused(plan, "ZeroDivisionError") is None


def test_every_type_is_stored_by_spark() -> None:
    kinds: Sequence[t.Type] = (t.BOOLEAN, t.INT, t.BIGINT, t.DOUBLE, t.Decimal(5, 2), t.STRING, t.TIMESTAMP, t.DATE)
    simple = [spark_type(kind).simpleString() for kind in (*kinds, t.DURATION, t.NULL)]
    wanted = ["boolean", "int", "bigint", "double", "decimal(5,2)", "string", "timestamp", "date"]
    assert simple == [*wanted, "interval day to second", "void"]

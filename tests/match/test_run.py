"""A program run over events: the engine around a kernel, the lines it prints, and `augury run` from the outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from augury import limits
from augury import types as t
from augury.algebra.program import ClassPlan, Program
from augury.api import compile
from augury.cli import app
from augury.engine.changes import changes
from augury.engine.lines import json_column, lines
from augury.history.raw import Raw
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.match.shared import Shared
from augury.local.engine import Detected, detect
from augury.local.kernel import CannotRun, match_kernel
from augury.local.sources import tables_of
from tests.match.oracle import reference_kernel

SECOND = 1_000_000
CLASSES = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (I INT, quantity INT) ID (I) LIFESPAN (5d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Perform (I INT, amount INT) ID (I) LIFESPAN (5d);
"""
COMPLETE = """
CREATE COMPLEX EVENT CLASS Complete (I INT, asked INT) ID (I) LIFESPAN (1d)
  AS MATCH prior(Order(I, Q), Perform(I, A)) WHERE A >= Q RETURN Q AS asked;
"""
TOO_WIDE = f"COMPOSITE {' > '.join(['Order'] * 63)}"
EVENTS = """
{"event": "Order", "occ_time": "2026-01-01T09:00:00Z", "det_time": "2026-01-01T09:00:02Z", "I": 121, "quantity": 40}
{"event": "Order", "occ_time": "2026-01-01T09:00:00Z", "det_time": "2026-01-01T09:00:02Z", "I": 121, "quantity": 40}
{"event": "Ordr", "occ_time": "2026-01-01T09:00:03Z"}
{"event": "Order", "occ_time": "2026-01-01T09:00:03Z", "I": 122, "quantity": 5}
{"event": "Perform", "occ_time": "2026-01-01T09:00:04.5Z", "I": 121, "amount": 40}
"""
LINE = (
    '{"event": "Complete", "change": "announce", "seq": 3, "occ_time": "2026-01-01T09:00:04.500000Z", '
    '"det_time": "2026-01-01T09:00:04.500000Z", "constituents": [1, 3], "I": 121, "asked": 40}\n'
)


def run(*args: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["run", *args], input=stdin)


File = Callable[[str, str], str]


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(text: str, name: str) -> str:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return str(path)

    return write


def detected(program: str | Program, events: Any, kernel: Any = match_kernel) -> Detected:
    return detect(compile(program) if isinstance(program, str) else program, tables_of(events), kernel)


def texts_of(program: Program, events: Any, kernel: Any) -> list[str]:
    found = detected(program, events, kernel)
    return list(lines(found.versions, found.occurrences, program.settings.chronon_us))


def printed(program: str, events: Any) -> list[dict[str, Any]]:
    """The lines, which are the same with the reference."""
    compiled = compile(program)
    texts = texts_of(compiled, events, match_kernel)
    assert texts == texts_of(compiled, events, reference_kernel)
    return [json.loads(text) for text in texts]


def at(second: float, event: str, **values: Any) -> dict[str, Any]:
    return {"event": event, "det_time": second, **values}


# ---- the engine ------------------------------------------------------------------------------------------


def test_a_class_sees_all_versions_and_the_complex_events_that_it_reads() -> None:
    seen: dict[str, list[tuple[str, int]]] = {}

    def kernel(program: Program, plan: ClassPlan, history: Batch, shared: Shared) -> Occurrences:
        """One event at each event of the last class that is read."""
        names = [c.name for c in history.classes]
        events = [(names[code], int(seq)) for code, seq in zip(history.code, history.seq, strict=True)]
        seen[plan.event_class.name] = events
        mine = np.array([i for i, (name, _) in enumerate(events) if name == plan.reads[-1]], np.int64)
        parts = pa.array([[int(history.seq[i])] for i in mine], pa.list_(pa.int64()))
        times = history.occ_time[mine], history.det_time[mine]
        return Occurrences.first(plan.event_class, history.seq[mine], *times, pa.table({}), parts)

    program = (
        CLASSES + "CREATE COMPLEX EVENT CLASS Late () ID () AS MATCH Early;\n"
        "CREATE COMPLEX EVENT CLASS Early () ID () AS MATCH Order;\n"
        "CREATE COMPLEX EVENT CLASS Alone () ID () AS MATCH Perform;\n"
    )
    found = detected(program, [at(1, "Order", I=1), at(2, "Perform", I=1), at(3, "Order", I=2)], kernel)
    versions = [("Order", 1), ("Perform", 2), ("Order", 3)]
    assert seen["Early"] == versions
    assert seen["Alone"] == versions
    assert seen["Late"] == [("Order", 1), ("Early", 1), ("Perform", 2), ("Order", 3), ("Early", 3)]
    assert [o.event_class.name for o in found.occurrences] == ["Late", "Early", "Alone"]
    assert [o.seq.tolist() for o in found.occurrences] == [[1, 3], [1, 3], [2]]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "CREATE COMPLEX EVENT CLASS C (I INT) ID (I) AS SELECT I FROM Order OCCURRING AT occTime;",
            "SELECTs wait for ticks, and a history at once has none: `C` is not detected so",
        ),
        (
            "CREATE COMPLEX EVENT CLASS C () ID () AS MATCH Order ORDER BY OCCURRENCE;",
            "what `C` says changes with late versions, and a history at once has none",
        ),
    ],
)
def test_what_waits_for_ticks_is_refused_before_an_event_is_read(statement: str, what: str) -> None:
    def read() -> NoReturn:
        raise AssertionError("an event is read")

    unread: Iterator[Raw] = iter(read, None)
    program = compile(CLASSES + statement)
    with pytest.raises(CannotRun, match=f"^{what}\n") as raised:
        detect(program, unread, match_kernel)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "E313"
    assert (CLASSES + statement)[diagnostic.mark.span.start : diagnostic.mark.span.end] == "C"
    assert raised.value.__notes__ == [f"help: {diagnostic.helps[0]}"]
    assert "LocalEngine" in diagnostic.helps[0]


@pytest.mark.parametrize(
    ("clauses", "helps"),
    [
        ("COLLECT ALL", ["add WITHIN", "PARTITION BY", "COLLECT RECENT"]),
        ("COLLECT COUNT(*) AS n", ["add WITHIN", "PARTITION BY", "COLLECT RECENT"]),
        ("PARTITION BY I WITHIN 1d COLLECT ALL", ["WITHIN 1d is long", "COLLECT RECENT"]),
        ("WHERE Order.quantity > 0", ["add WITHIN", "PARTITION BY", "WHERE needs every tuple"]),
    ],
)
def test_a_history_with_too_many_open_tuples_is_told_the_limit_and_what_to_do(clauses: str, helps: list[str]) -> None:
    # Each event doubles them.
    text = CLASSES + f"CREATE COMPLEX EVENT CLASS Many (n BIGINT) ID () AS MATCH relative+(Order) {clauses};"
    with pytest.raises(CannotRun) as raised:
        compile(text).detect([{"event": "Order", "occ_time": i, "I": 7, "quantity": i} for i in range(20)])
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "E313"
    assert diagnostic.message == (
        f"this engine keeps at most {limits.TUPLES_MAX:,} occurrence tuples of one history open at a time, "
        "and `Many` has more"
    )
    assert text[diagnostic.mark.span.start : diagnostic.mark.span.end] == "Many"
    for found, wanted in zip(diagnostic.helps, helps, strict=True):
        assert wanted in found


def test_the_command_line_says_what_to_do_about_too_many_open_tuples(file: File) -> None:
    text = CLASSES + "CREATE COMPLEX EVENT CLASS Many () ID () AS MATCH relative+(Order) COLLECT ALL;"
    events = "".join(f'{{"event": "Order", "occ_time": {i}, "I": 7, "quantity": {i}}}\n' for i in range(20))
    done = run(file(text, "p.bicepl"), "--events", file(events, "e.jsonl"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert "error[E313]: this engine keeps at most 10,000 occurrence tuples" in done.stderr
    assert all(clause in done.stderr for clause in ("WITHIN", "PARTITION BY", "COLLECT RECENT"))


def test_variables_that_combine_in_too_many_ways_are_told_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS_JOINED_MAX", 50)
    text = (
        "CREATE COMPLEX EVENT CLASS Many (X INT, Y INT) ID ()\n"
        "  AS MATCH prior(Order(X, _), Perform(Y, _), Order(X, _), Perform(Y, _));"
    )
    names = ("Order", "Perform")
    events = [{"event": names[i % 2], "occ_time": i, "I": i, "quantity": i, "amount": i} for i in range(60)]
    with pytest.raises(CannotRun, match="at most 50 combinations of values of variables apart, and `Many` has more"):
        compile(CLASSES + text).detect(events)


LAYERS = compile(
    """
    SET CHRONON 2s;
    CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (I INT, quantity INT) ID (I) LIFESPAN (3s);
    CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Perform (I INT, amount INT) ID () LIFESPAN (5s);
    CREATE COMPLEX EVENT CLASS Later (I INT, n INT) ID (I) LIFESPAN (2s)
      AS MATCH relative(Complete(I, n), Order(I, _)) COLLECT EARLIEST;
    CREATE COMPLEX EVENT CLASS Complete (I INT, n INT) ID (I) LIFESPAN (4s)
      AS MATCH prior(Order(I, Q), Perform(I, A)) WHERE A >= Q COLLECT ALL RETURN Q AS n;
    CREATE COMPLEX EVENT CLASS After (I INT) ID () AS MATCH sequence(Later(I, _), any) WITHIN 6s;
    """
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "event": st.sampled_from(["Order", "Perform"]),
                "occ_time": st.sampled_from([None, 1, 2, 3, 4, 5, 6, 7, 8]),
                "det_time": st.integers(0, 8),
                "I": st.integers(0, 1),
                "quantity": st.integers(0, 2),
                "amount": st.integers(0, 2),
            }
        ),
        max_size=9,
    )
)
def test_a_program_of_layers_prints_what_the_reference_does(events: list[dict[str, Any]]) -> None:
    assert texts_of(LAYERS, events, match_kernel) == texts_of(LAYERS, events, reference_kernel)


# ---- lines -----------------------------------------------------------------------------------------------


def test_lines_come_by_tick_then_class_as_declared_then_seq() -> None:
    program = (
        "SET CHRONON 10s;"
        + CLASSES
        + "CREATE COMPLEX EVENT CLASS Second () ID () AS MATCH Perform;\n"
        + "CREATE COMPLEX EVENT CLASS Other () ID () AS MATCH Order;\n"
    )
    events = [
        at(1, "Order", I=1),
        at(2, "Perform", I=1),
        at(3, "Order", I=2),
        at(11, "Order", I=3),
        at(12, "Perform", I=3),
    ]
    assert [(line["event"], line["seq"]) for line in printed(program, events)] == [
        ("Second", 2),
        ("Other", 1),
        ("Other", 3),
        ("Second", 5),
        ("Other", 4),
    ]


def test_a_second_occurrence_of_a_key_is_a_change_until_the_first_has_expired() -> None:
    program = CLASSES.replace("5d", "10s") + (
        "CREATE COMPLEX EVENT CLASS Seen (I INT) ID (I) LIFESPAN (20s) AS MATCH Order(I, _);\n"
        "CREATE COMPLEX EVENT CLASS Each (I INT) ID () LIFESPAN (20s) AS MATCH Order(I, _);\n"
    )
    events = [
        at(second, "Order", I=number) for second, number in ((0, 1), (5, 2), (20, 1), (25.5, 2), (41.5, 1), (60, 2))
    ]
    found = {"Seen": [], "Each": []}  # type: dict[str, list[tuple[int, str]]]
    for line in printed(program, events):
        found[line["event"]].append((line["I"], line["change"]))
    assert found["Seen"] == [
        (1, "announce"),
        (2, "announce"),
        (1, "change"),
        (2, "change"),
        (1, "announce"),
        (2, "announce"),
    ]
    assert {change for _, change in found["Each"]} == {"announce"}


def test_an_event_stays_as_long_as_its_constituents() -> None:
    program = compile(
        CLASSES.replace("5d", "60s")
        + "CREATE COMPLEX EVENT CLASS Seen (I INT) ID (I) LIFESPAN (5s) AS MATCH Order(I, _);\n"
    )
    found = detected(program, [at(0, "Order", I=1), at(50, "Order", I=1), at(150, "Order", I=1)])
    assert changes(found.versions, found.occurrences[0], SECOND).tolist() == [False, True, False]
    for_ever = compile(
        CLASSES.replace("(5d)", "(-1)")
        + "CREATE COMPLEX EVENT CLASS Seen (I INT) ID (I) LIFESPAN (5s) AS MATCH Order(I, _);\n"
    )
    found = detected(for_ever, [at(0, "Order", I=1), at(10**9, "Order", I=1)])
    assert changes(found.versions, found.occurrences[0], SECOND).tolist() == [False, True]


@pytest.mark.parametrize(
    ("of", "value", "text"),
    [
        (t.BOOLEAN, True, "true"),
        (t.BIGINT, 2**63 - 1, "9223372036854775807"),
        (t.DOUBLE, 0.1, "0.1"),
        (t.DOUBLE, float("nan"), '"NaN"'),
        (t.DOUBLE, float("-inf"), '"-Infinity"'),
        (t.Decimal(38, 18), Decimal("0.000000000000000001"), "0.000000000000000001"),
        (t.Decimal(5, 2), Decimal("1.10"), "1.10"),
        (t.Decimal(38, 0), Decimal(10**37), "1" + "0" * 37),
        (t.STRING, 'ä "quoted"\n', '"ä \\"quoted\\"\\n"'),
        (t.TIMESTAMP, datetime(2026, 1, 1, 9, tzinfo=UTC), '"2026-01-01T09:00:00Z"'),
        (t.TIMESTAMP, datetime(1, 1, 1, tzinfo=UTC), '"0001-01-01T00:00:00Z"'),
        (t.TIMESTAMP, datetime(2026, 1, 1, 9, 0, 0, 10, tzinfo=UTC), '"2026-01-01T09:00:00.000010Z"'),
        (t.TIMESTAMP, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), '"9999-12-31T23:59:59Z"'),
        (t.STRING, "plain ä", '"plain ä"'),
        (t.STRING, "\x00\x1f\x7f\\", '"\\u0000\\u001f\x7f\\\\"'),
        (t.STRING, "", '""'),
        (t.INT, -7, "-7"),
        (t.DATE, date(2026, 1, 1), '"2026-01-01"'),
    ],
)
def test_values_are_printed_exactly(of: t.Type, value: Any, text: str) -> None:
    kind = {t.DOUBLE: pa.float64(), t.TIMESTAMP: pa.timestamp("us", "UTC"), t.DATE: pa.date32()}.get(of)
    column = pa.chunked_array(
        [
            pa.array(
                [value, None], kind or (pa.decimal128(of.precision, of.scale) if isinstance(of, t.Decimal) else None)
            )
        ]
    )
    assert json_column(column, of).to_pylist() == [text, "null"]


def test_many_lines_are_made_piece_by_piece_and_all_come() -> None:
    program = CLASSES + "CREATE COMPLEX EVENT CLASS Seen (I INT) ID () AS MATCH Order(I, _);\n"
    compiled = compile(program)
    plan = compiled.class_plan("Seen")
    assert plan is not None
    count = 40_000
    found = detected(program, [at(0, "Order", I=1)])
    seq = np.arange(1, count + 1)
    values = pa.table({"I": pa.array(seq, pa.int32())})
    many = Occurrences.first(plan.event_class, seq, seq, seq, values, pa.array([[1]] * count))
    texts = list(lines(found.versions, [many], SECOND))
    assert [json.loads(text)["I"] for text in texts] == seq.tolist()


# ---- the command -----------------------------------------------------------------------------------------


def test_run_prints_events_on_standard_output_and_all_else_on_standard_error(file: File) -> None:
    done = run(file(CLASSES + COMPLETE, "p.bicepl"), "--events", file(EVENTS, "e.jsonl"))
    assert done.exit_code == 0
    assert done.stdout == LINE
    summary, rejected = done.stderr.splitlines()
    assert summary == "3 versions, 1 duplicate absorbed, 1 event rejected"
    assert rejected.endswith('e.jsonl:4: there is no event class "Ordr"; did you mean `Order`?')


def test_run_reads_standard_input(file: File) -> None:
    program = file(CLASSES + COMPLETE, "p.bicepl")
    assert run(program, "--events", "-", stdin=EVENTS).stdout == LINE
    assert run("-", "--events", file(EVENTS, "e.jsonl"), stdin=CLASSES + COMPLETE).stdout == LINE
    assert run("-", "--events", "-", stdin=EVENTS).exit_code == 2


def test_run_ends_before_a_time(file: File) -> None:
    program, events = file(CLASSES + COMPLETE, "p.bicepl"), file(EVENTS, "e.jsonl")
    assert run(program, "--events", events, "--until", "2026-01-01T09:00:04.5Z").stdout == ""
    assert run(program, "--events", events, "--until", "2026-01-01T09:00:04.999999Z").stdout == ""
    assert run(program, "--events", events, "--until", "1767258005").stdout == LINE
    wrong = run(program, "--events", events, "--until", "noon")
    assert wrong.exit_code == 2
    assert "`noon` is no time" in wrong.stderr


def test_run_writes_rejected_events_to_a_file(file: File, tmp_path: Path) -> None:
    program, events, to = file(CLASSES, "p.bicepl"), file(EVENTS, "e.jsonl"), tmp_path / "rejected.jsonl"
    assert run(program, "--events", events, "--rejected", str(to)).exit_code == 0
    (row,) = map(json.loads, to.read_text("utf-8").splitlines())
    assert row["event"] == "Ordr"
    assert row["place"] == f"{events}:4"
    assert json.loads(row["raw"])["event"] == "Ordr"
    refused = run(program, "--events", events, "--rejected", str(tmp_path / "no" / "folder"))
    assert refused.exit_code == 2
    assert "E503" in refused.stderr


def test_run_shows_the_first_rejected_events_only(file: File) -> None:
    done = run(file(CLASSES, "p.bicepl"), "--events", file("\x1b[31m{\n" * 30, "e.jsonl"))
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == "  … and 10 more"
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("order", ["", "ORDER BY OCCURRENCE"])
def test_what_no_engine_runs_all_refuse_with_the_same_words(file: File, order: str) -> None:
    """Before an event is read, and before Java is started."""
    written = CLASSES + f"CREATE COMPLEX EVENT CLASS C () ID () AS {TOO_WIDE} {order};"
    path, events = file(written, "p.bicepl"), file(EVENTS, "e.jsonl")
    suite = file("program: p.bicepl\ntests:\n  - name: one\n    expect: []\n", "suite.yaml")
    commands = [["run", path, "--events", events, "--engine", engine] for engine in ("local", "spark", "spark-stream")]
    commands += [["simulate", path, "--events", events], ["test", suite], ["explain", path, "--stage", "spark"]]
    commands += [["why", path, "--events", events, "--event", "C"]]
    told = "error[E313]: this engine does not run more than 62 classes in one expression yet, as `C` needs it to"
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert (done.exit_code, done.stdout) == (1, ""), command
        assert [line for line in done.stderr.splitlines() if line.startswith("error")] == [told], command


def test_run_refuses_what_it_cannot_do(file: File, tmp_path: Path) -> None:
    good, events = file(CLASSES, "p.bicepl"), file(EVENTS, "e.jsonl")
    composite = file(CLASSES + f"CREATE COMPLEX EVENT CLASS C () ID () AS {TOO_WIDE};", "c.bicepl")
    for args, exit_code, code in (
        ((composite, "--events", events), 1, "E313"),
        ((file("CREATE", "b.bicepl"), "--events", events), 1, "error["),
        ((str(tmp_path / "none.bicepl"), "--events", events), 2, "E500"),
        ((good, "--events", str(tmp_path / "none.jsonl")), 2, "E510"),
        ((good,), 2, "--events"),
        ((good, "--events", events, "--engine", "abacus"), 2, "--engine"),
    ):
        done = run(*args)
        assert (done.exit_code, done.stdout) == (exit_code, "")
        assert code in done.stderr


def test_run_prints_actions(file: File) -> None:
    program = file(CLASSES + COMPLETE.replace("asked;", "asked ON ANNOUNCEMENT DO tell(new.I);"), "p.bicepl")
    done = run(program, "--events", file(EVENTS, "e.jsonl"))
    action = '{"action": "tell", "args": [121], "event": "Complete", "key": {"I": 121}, "tick": "2026-01-01T09:00:05Z"}'
    assert (done.exit_code, done.stdout) == (0, f"{LINE}{action}\n")
    assert "1 action" in done.stderr


def test_run_ends_quietly_when_nobody_reads_on(file: File) -> None:
    program = file(CLASSES + "CREATE COMPLEX EVENT CLASS Seen (I INT) ID () AS MATCH Order(I, _);\n", "p.bicepl")
    events = file("".join(f'{{"event": "Order", "I": {i}, "det_time": {i}}}\n' for i in range(20)), "e.jsonl")
    script = "import sys; from augury.cli import main; sys.argv[0] = 'augury'; main()"
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-c", script, "run", program, "--events", events],
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0
    assert done.stderr == "20 versions, 0 duplicates absorbed, 0 events rejected\n"


def test_errors_of_expressions_are_counted_and_said(tmp_path: Path) -> None:
    program = tmp_path / "p.bicepl"
    program.write_text(
        "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);\n"
        "CREATE COMPLEX EVENT CLASS B (y DOUBLE) ID () AS MATCH A(X)[10 / x > 1] RETURN 1 / (X - 5) AS y;\n"
        "CREATE COMPLEX EVENT CLASS C (y INT) ID () AS MATCH A(X) WHERE 10 / X > 1 RETURN X AS y;\n",
        "utf-8",
    )
    events = tmp_path / "e.jsonl"
    events.write_text(
        "".join(f'{{"event": "A", "occ_time": {i}, "x": {x}}}\n' for i, x in enumerate((0, 5, 2))), "utf-8"
    )
    done = CliRunner().invoke(app, ["run", str(program), "--events", str(events)])
    assert done.exit_code == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(o["event"], o["seq"], o["y"]) for o in found] == [
        ("B", 2, None),
        ("C", 2, 5),
        ("B", 3, pytest.approx(-1 / 3)),
        ("C", 3, 2),
    ]
    assert "`B`: 2 errors in masks, WHERE, RETURN or conditions, taken for NULL" in done.stderr
    assert "`C`: 1 error in masks, WHERE, RETURN or conditions, taken for NULL" in done.stderr

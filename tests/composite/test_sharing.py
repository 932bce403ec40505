"""What COMPOSITE classes of one program have in common: runs of equal expressions, masks, and what leaves read."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from augury.algebra.composite import CompositePlan
from augury.algebra.program import ClassPlan, Program
from augury.api import compile
from augury.engine.lines import lines
from augury.event import key_of
from augury.history.accept import accept
from augury.kernels.batch import Batch, Occurrences
from augury.kernels.composite import detector_of, initial_state, sharing
from augury.kernels.composite.reading import arrivals
from augury.kernels.composite.sharing import runs_of
from augury.kernels.match.shared import Shared
from augury.local.engine import detect
from augury.local.kernel import match_kernel
from augury.local.sources import tables_of
from augury.spark.plan import explain_plan
from tests.spark.programs import CLASSES, PROGRAMS, events, program

ABC = "".join(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID () LIFESPAN (1d);\n" for name in "ABC")


def composites(*expressions: str) -> Program:
    """A class for each expression: C0, C1, …"""
    texts = (f"CREATE COMPLEX EVENT CLASS C{i} () ID () AS COMPOSITE {e};" for i, e in enumerate(expressions))
    return compile(ABC + "\n".join(texts))


def test_classes_of_one_expression_are_found_by_one_run() -> None:
    assert [run.names for run in runs_of(program("shared"))] == [
        ("Pair", "Sum", "Share"),
        ("Latest",),
        ("Slow", "Slower"),
        ("Dear",),
    ]


def test_names_and_spelling_make_no_difference() -> None:
    found = runs_of(composites("(A(X, W) > B(X, _)) WHERE W > 3", "(a(y, Q) > b(Y, _)) WHERE q > 3"))
    assert [run.names for run in found] == [("C0", "C1")]


@pytest.mark.parametrize(
    "other",
    [
        "A(X, _) > B(X, _) CONTEXT CHRONICLE",
        "A(X, _) > B(X, _) WITHIN 5s",
        "A(X, _) > B(X, _) PARTITION BY v",
        "A(X, _) > B(X, _) OVER (A, B)",
        "A(X, _) > B(_, X)",
        "A(X, _) > B(Y, _)",
        "A(X, _) > C(X, _)",
        "A(X, _)[v > 1] > B(X, _)",
        "(A(X, W) > B(X, _)) WHERE W > 1",
        "B(X, _) > A(X, _)",
    ],
)
def test_what_may_be_found_elsewhere_is_a_run_of_its_own(other: str) -> None:
    found = runs_of(composites("A(X, _) > B(X, _)", other))
    assert [run.names for run in found] == [("C0",), ("C1",)]


def alone(name: str) -> Program:
    """The program of shared runs with one of its classes only, and those that it reads."""
    statements = re.findall(r"CREATE COMPLEX.*?;", PROGRAMS["shared"], re.DOTALL)
    wanted = {"Pair", "Sum", "Dear"} if name == "Dear" else {name}
    return compile(CLASSES + "\n".join(s for s in statements if re.findall(r"\w+", s)[4] in wanted))


@pytest.mark.parametrize("name", ["Pair", "Sum", "Share", "Slow", "Slower", "Dear"])
def test_a_class_has_what_it_has_alone(name: str) -> None:
    raw = list(tables_of(events(21, 200)))
    together, single = (detect(of, raw, match_kernel) for of in (program("shared"), alone(name)))
    texts = []
    for found in (together, single):
        own = next(o for o in found.occurrences if o.event_class.name == name)
        texts.append((list(lines(found.versions, [own], 1_000_000)), own.errors, own.dropped))
    assert texts[0] == texts[1]
    assert texts[0][0]


def truths(shared: Shared) -> list[str]:
    """The classes and masks that were looked at, one entry for each time that a mask was evaluated."""
    return sorted(
        f"{key[2]} {key[4] is not None}" for key in shared.known if isinstance(key, tuple) and key[0] == "true"
    )


def test_a_mask_is_evaluated_once_for_all_classes_that_read_a_history() -> None:
    """Of MATCH and COMPOSITE: the kernel of a MATCH is handed what the engine shares."""
    of = compile(
        ABC + "CREATE COMPLEX EVENT CLASS M () ID () AS MATCH prior(A[v > 5], B);\n"
        "CREATE COMPLEX EVENT CLASS R () ID () AS COMPOSITE A[v > 5] > B;\n"
        "CREATE COMPLEX EVENT CLASS S () ID () AS COMPOSITE A[v > 5] & C[v < 2] CONTEXT CHRONICLE;\n"
        "CREATE COMPLEX EVENT CLASS T () ID () AS COMPOSITE C[v < 2] > A[v > 5] CONTEXT CONTINUOUS;\n"
        "CREATE COMPLEX EVENT CLASS U () ID () AS MATCH R;"
    )
    handed: dict[str, Shared] = {}

    def kernel(program: Program, plan: ClassPlan, history: Batch, shared: Shared) -> Occurrences:
        handed[plan.event_class.name] = shared
        return match_kernel(program, plan, history, shared)

    rows = [{"event": "ABC"[i % 3], "det_time": i, "k": i % 2, "v": i % 7} for i in range(60)]
    found = detect(of, tables_of(rows), kernel)
    assert all(len(occurrences) for occurrences in found.occurrences)
    # M, R, S and T read one history; of their eight leaves three are different.
    assert truths(handed["M"]) == ["a True", "b False", "c True"]
    assert handed["M"].reused > 5
    # The history of U has the events of R in it.
    assert handed["U"] is not handed["M"]
    assert truths(handed["U"]) == ["r False"]


def test_consumption_is_never_shared() -> None:
    of = composites("A > B CONTEXT CHRONICLE", "A > C CONTEXT CHRONICLE", "A > B CONTEXT CONTINUOUS")
    rows: list[dict[str, Any]] = [{"event": name, "det_time": i, "k": 1, "v": 1} for i, name in enumerate("AABC")]
    found = detect(of, tables_of(rows), match_kernel)
    assert [(o.event, o.constituents) for o in found] == [
        ("C0", (1, 3)),
        ("C1", (1, 4)),
        ("C2", (1, 3)),
        ("C2", (2, 3)),
    ]


def test_a_graph_sees_the_events_of_the_classes_that_it_mentions() -> None:
    of = composites("A > !B > A[v > 1]")
    rows = [{"event": "ABC"[i % 3], "det_time": i, "k": i % 2, "v": i % 7} for i in range(60)]
    batch = accept(of, tables_of(rows)).batch
    plan = of.classes[-1].derivation
    assert isinstance(plan, CompositePlan)
    detector = detector_of(plan)
    arrived, _ = arrivals(detector, initial_state(detector, batch.classes), batch, Shared())
    assert len(arrived) == 40
    assert {version.name for version, _ in arrived} == {key_of("A"), key_of("B")}


def test_the_plan_for_spark_has_a_stage_for_each_run() -> None:
    stages = [line for line in explain_plan(program("shared")).splitlines() if not line.startswith(" ")]
    assert [stage.split(":")[0] for stage in stages[1:]] == ["Pair, Sum, Share", "Latest", "Slow, Slower", "Dear"]


def test_a_short_history_goes_step_by_step_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    of = composites("A(K, _) > B(K, _)", "A & B WITHIN 9s", "A > !B > C")
    random = Random(7)
    rows = [{"event": random.choice("ABC"), "det_time": i, "k": i % 4, "v": i % 7} for i in range(200)]
    found = [list(detect(of, tables_of(rows), match_kernel))]
    monkeypatch.setattr(sharing, "FLAT_ROWS_MIN", 0)
    found.append(list(detect(of, tables_of(rows), match_kernel)))
    assert found[0] == found[1]
    assert {one.event for one in found[0]} == {"C0", "C1", "C2"}

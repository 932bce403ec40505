"""Event graphs: what plans become, how they print, and when two are the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from augury.algebra import composite as c
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.expression import Primitive
from augury.graphs import Graph, NotYet, graph_of
from augury.graphs.graph import absences_of, operands_of
from tests.composite.corpus import plan_of
from tests.composite.generate import cases


def graph(expression: str, clauses: str = "") -> Graph:
    """The graph of an expression as it is written, over the classes of the corpus."""
    classes = ["A ()", "B ()", "C ()", "D ()", "K (k INT, v INT)", "L (k INT, v INT)"]
    case = {"classes": classes, "attributes": "", "clauses": clauses, "expression": expression, "context": "CHRONICLE"}
    return graph_of(plan_of(case)[0])


GOLDEN = {
    "A > B": """
        0  leaf 0: A
        1  leaf 1: B
        2  join 0 then 1
    """,
    "A > !B > C": """
        0  leaf 0: A
        1  leaf 1: B  (every one)
        2  leaf 2: C
        3  join 0 then 2, no 1 between
    """,
    "NOT(B)[A, C]": """
        0  leaf 0: A
        1  leaf 1: B  (every one)
        2  leaf 2: C
        3  join 0 then 2, no 1 between
    """,
    "(A & !B) | ANY{2, A, B, C}": """
        0  leaf 0: A
        1  leaf 1: B  (every one)
        2  0 if no 1
        3  leaf 2: A
        4  leaf 3: B
        5  leaf 4: C
        6  join 2 of 3, 4, 5
        7  either 2, 6
    """,
    "!B > A{2,} > C": """
        0  leaf 0: B  (every one)
        1  leaf 1: A
        2  leaf 2: C
        3  join 2, with all 1 before (at least 2), no 0 before
    """,
    "A > B* > !D > C{1,} > A": """
        0  leaf 0: A
        1  leaf 1: B
        2  leaf 2: D  (every one)
        3  leaf 3: C
        4  leaf 4: A
        5  join 0 then 4, with all 1 between, with all 3 between (at least 1), no 2 between
    """,
    "A > (B*) > C": """
        0  leaf 0: A
        1  leaf 1: B
        2  leaf 2: C
        3  join 0 then 2, with all 1 between
    """,
    "A & !(K(X, _){2} > !L(X, _) > B)": """
        0  leaf 0: A
        1  leaf 1: K(X, _)  (every one)
        2  every 2 of 1 equal 1.0  (every one)
        3  leaf 2: L(X, _)  (every one)
        4  leaf 3: B  (every one)
        5  join 2 then 4, no 3 between equal 1.0 2.0  (every one)
        6  0 if no 5
    """,
    "A > (B > A*) > C": """
        0  leaf 0: A
        1  leaf 1: B
        2  join 0 then 1
        3  leaf 2: A
        4  leaf 3: C
        5  join 2 then 4, with all 3 between
    """,
    "(K > L WITHIN 5s WHERE K.v < L.v) + 3s": """
        0  leaf 0: K
        1  leaf 1: L
        2  join 0 then 1 within 5s where K.v < L.v
        3  2 + 3s
    """,
    "A{2} > !B WITHIN 5s": """
        0  leaf 0: A
        1  every 2 of 0 within 5s
        2  leaf 1: B  (every one)
        3  1 + 5s if no 2 between
    """,
    "APERIODIC*(A, B, C) & PERIODIC(A, [5s], C)": """
        0  leaf 0: A
        1  leaf 1: B
        2  leaf 2: C
        3  all 1 from 0 to 2
        4  leaf 3: A
        5  leaf 4: C
        6  every 5s from 4 to 5
        7  join 3, 6
    """,
    "A & !(K(X, _) & L(X, _))": """
        0  leaf 0: A
        1  leaf 1: K(X, _)  (every one)
        2  leaf 2: L(X, _)  (every one)
        3  join 1, 2 equal 1.0 2.0  (every one)
        4  0 if no 3
    """,
    "K(X, _)[v > 5] > L(X, _)": """
        0  leaf 0: K(X, _)[v > 5]
        1  leaf 1: L(X, _)
        2  join 0 then 1
        a graph per value of X
    """,
}


@pytest.mark.parametrize("expression", GOLDEN)
def test_what_a_graph_looks_like(expression: str) -> None:
    wanted = "".join(f"{line.strip()}\n" for line in GOLDEN[expression].strip().splitlines())
    assert graph(expression).dump() == wanted


def test_a_drawing_has_every_node_and_dashes_for_absences() -> None:
    assert graph("A > !B > C").to_dot() == (
        "digraph composite {\n"
        "  rankdir=BT;\n"
        "  node [shape=box];\n"
        '  n0 [label="leaf 0: A"];\n'
        '  n1 [label="leaf 1: B"];\n'
        '  n2 [label="leaf 2: C"];\n'
        '  n3 [label="join 0 then 2, no 1 between"];\n'
        "  n0 -> n3;\n"
        "  n2 -> n3;\n"
        "  n1 -> n3 [style=dashed];\n"
        "}\n"
    )


def test_operands_come_before_what_reads_them() -> None:
    for generated in cases(0, 300):
        made = graph_of(generated.plan)
        read = [operand for node in made.nodes for operand in operands_of(node)]
        assert sorted(read) == list(range(made.root)), "every node but the last is read once"
        for number, node in enumerate(made.nodes):
            assert all(operand < number for operand in operands_of(node))
            assert set(absences_of(node)) <= made.free
            assert number not in made.free or made.free.issuperset(operands_of(node))


def test_names_are_no_part_of_the_fingerprint() -> None:
    assert graph("A > B").fingerprint() == graph("C > D").fingerprint()
    assert graph("K(X, _) > L(X, _)").fingerprint() == graph("L(Y, _) > K(Y, _)").fingerprint()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A > B", "A & B"),
        ("A > B", "A > A"),
        ("A > B", "(A > B WITHIN 5s)"),
        ("A{2}", "A{3}"),
        ("K[v > 5] > A", "K[v > 6] > A"),
        ("K(X, _) > L(X, _)", "K(X, _) > L(_, X)"),
        ("A > !B > C", "A > B > C"),
        ("APERIODIC(A, B, C)", "APERIODIC*(A, B, C)"),
    ],
)
def test_what_differs_has_another_fingerprint(one: str, other: str) -> None:
    assert graph(one).fingerprint() != graph(other).fingerprint()


def test_what_analysis_refuses_is_named_here_too() -> None:
    expression = c.Node(Op.SEQUENCE, (Primitive("B"), c.Repeat(Primitive("A"), 0, True)))
    plan = replace(next(cases(0, 1)).plan, expression=expression, keys=(), where=None, within_us=None)
    with pytest.raises(NotYet, match="nothing closes"):
        graph_of(plan)

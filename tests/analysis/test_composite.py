"""COMPOSITE lowered: absences, repetitions, bounds, keys."""

from __future__ import annotations

import pytest

from tests.analysis.lowering import codes, lines


def tree(composite: str) -> list[str]:
    """The expression of a COMPOSITE as dumped."""
    found = lines(f"COMPOSITE {composite}")[1:]
    return [line.removeprefix("  ") for line in found if line.startswith("  ")]


def test_sequence_and_and_associate_to_the_left() -> None:
    assert tree("A > B > C & D & A") == [">", "  >", "    A", "    B", "  &", "    &", "      C", "      D", "    A"]


def test_an_absence_at_the_end_waits_for_the_bound_around_it() -> None:
    absent = ["absent for 5m", "  from A", "  no B"]
    assert tree("A > !B WITHIN 5m") == absent
    assert tree("NOT(B)[A, A + 5m]") == absent
    assert tree("(A > !B WITHIN 5m) & C") == ["&", "  scope within 5m", *(f"    {line}" for line in absent), "  C"]


def test_the_bound_of_a_class_reaches_its_alternatives() -> None:
    assert tree("C | (A > !B) WITHIN 5m") == ["|", "  C", "  absent for 5m", "    from A", "    no B"]
    assert tree("C & (A > !B) WITHIN 5m") == ["&", "  C", "  absent for 5m", "    from A", "    no B"]


def test_two_absences_at_the_end_are_absent_together() -> None:
    assert tree("A > !B > !C WITHIN 5m") == ["absent for 5m", "  from A", "  no |", "    B", "    C"]


def test_an_absence_in_the_middle_needs_no_bound() -> None:
    assert tree("A > !B > C") == [">", "  >", "    A", "    !", "      B", "  C"]
    assert tree("!B > C") == [">", "  !", "    B", "  C"]
    assert tree("A & !B") == ["&", "  A", "  !", "    B"]


@pytest.mark.parametrize(
    ("composite", "code"),
    [
        ("!A", "E304"),
        ("!A & !B", "E304"),
        ("!A > !B WITHIN 5m", "E304"),
        ("A | !B", "E304"),
        ("ANY{1, A, B} > !C", "E305"),
        ("A > !B", "E305"),
        ("(A > !B) & C", "E305"),
        ("ANY{3, A, B}", "E307"),
        ("ANY{0, A, B}", "E308"),
        ("A{0}", "E308"),
        ("A*", "E310"),
        ("A > B*", "E310"),
        ("A & B{2,}", "E310"),
        ("BETWEEN [1999-06-10] [1999-06-06] A", "E306"),
        ("PERIODIC(A, [0s], B)", "E308"),
        ("A{100001}", "E404"),
    ],
)
def test_what_cannot_be_detected_is_refused(composite: str, code: str) -> None:
    assert codes(f"COMPOSITE {composite}") == [code]


@pytest.mark.parametrize("composite", ["A* > B", "A > B* > C", "A > B{2,} > C", "(A > B*) > C", "(A* > B) & C"])
def test_a_repetition_that_something_closes_is_fine(composite: str) -> None:
    assert codes(f"COMPOSITE {composite}") == []


@pytest.mark.parametrize(
    ("bound", "line"),
    [
        ("AT [1999-06-06T09:20:00Z]", "occurring from 1999-06-06T09:20:00Z until 1999-06-06T09:20:00.999999Z"),
        ("AT [06-06-1999]", "occurring from 1999-06-06T00:00:00Z until 1999-06-06T23:59:59.999999Z"),
        ("BY [06 06 1999 9 20 0]", "occurring until 1999-06-06T09:20:00Z"),
        ("BY [1999-06-06]", "occurring until 1999-06-06T23:59:59.999999Z"),
        (
            "BETWEEN [1999 06 06 9 20 0] [06 10 1999 0 0 0]",
            "occurring from 1999-06-06T09:20:00Z until 1999-06-10T00:00:00Z",
        ),
        ("BETWEEN [1999-06-06] [1999-06-06]", "occurring from 1999-06-06T00:00:00Z until 1999-06-06T23:59:59.999999Z"),
        ("BY [1999-06-06T11:20:00+02:00]", "occurring until 1999-06-06T09:20:00Z"),
    ],
)
def test_the_bounds_of_times(bound: str, line: str) -> None:
    assert tree(f"{bound} A")[0] == line


def test_shared_variables_keep_a_graph_per_value() -> None:
    found = lines("COMPOSITE A(i, y) > B(i) > !C(j) > D", attributes="y STRING")
    assert "a graph per i INT" in found
    assert "y is y" in found


def test_a_variable_shared_with_a_negation_keeps_a_graph_per_value() -> None:
    assert "a graph per i INT" in lines("COMPOSITE A(i, _) > !B(i) > D")


def test_a_variable_under_two_negations_only_is_refused() -> None:
    assert codes("COMPOSITE A > !B(i) > !C(i) > D") == ["E302"]


def test_a_definition_is_not_an_event() -> None:
    assert codes("COMPOSITE A > p", definitions="DEFINE p() = prior(A, B);") == ["E235"]


def test_an_inner_where_sees_the_constituents_inside_only() -> None:
    assert codes("COMPOSITE (A > B WHERE A.x = B.x) > D") == []
    assert codes("COMPOSITE (A > B WHERE A.x = C.x) > C") == ["E214"]


def test_an_absence_does_not_close_a_repetition() -> None:
    assert codes("COMPOSITE A > B* > !C WITHIN 5m") == ["E310"]
    assert codes("COMPOSITE A > B* > !C > D") == []
    assert codes("COMPOSITE (A > B* > !C) > D") == []


@pytest.mark.parametrize(
    "around", ["ANY{{2, C, ({})}}", "({}) + 5s", "BY [2026 01 01 00 00 00] ({})", "({}){{2}}", "PERIODIC({}, [5s], C)"]
)
def test_the_bound_of_a_class_reaches_every_operator(around: str) -> None:
    assert codes(f"COMPOSITE {around.format('A > !B')} WITHIN 5m") == []


def test_the_two_ways_to_say_that_nothing_comes_have_the_same_keys() -> None:
    for composite in ("A(X, _) > !B WITHIN 5m", "NOT(B)[A(X, _), A(X, _) + 5m]"):
        assert not [line for line in lines(f"COMPOSITE {composite}") if line.startswith("a graph per")]
    assert "a graph per X INT" in lines("COMPOSITE A(X, _) > !B(X) WITHIN 5m")


def test_the_closing_of_a_window_is_no_constituent() -> None:
    assert codes("COMPOSITE APERIODIC*(A, B, C) WHERE C.x > 1") == []
    assert codes("COMPOSITE APERIODIC(A, B, C) WHERE C.x > 1") != []
    assert codes("COMPOSITE PERIODIC(A, [5s], C) WHERE C.x > 1") != []
    assert codes("COMPOSITE (A & !C WHERE C.x > 1)") != []

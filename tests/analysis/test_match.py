"""MATCH lowered: where variables are bound, how definitions expand, which names win."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.analysis.lowering import codes, expression, lines


def tree(text: str) -> str:
    return dedent(text).strip()


def test_shared_variables_are_bound_around_the_whole() -> None:
    assert expression("prior(A(x, _), B(x))") == tree("""
        for some x INT
          prior
            A(x, _)
            B(x)
    """)


def test_a_variable_under_one_negation_is_bound_inside_it() -> None:
    assert expression("A AND !B(i)") == tree("""
        AND
          A
          !
            for some i INT
              B(i)
    """)


def test_a_variable_that_also_stands_outside_keeps_its_value_under_the_negation() -> None:
    assert expression("A(i, _) AND !prior(B(i), any)") == tree("""
        for some i INT
          AND
            A(i, _)
            !
              prior
                B(i)
                any
    """)


def test_of_nested_negations_the_innermost_that_holds_all_places_binds() -> None:
    assert expression("D AND !(D AND !B(i))") == tree("""
        AND
          D
          !
            AND
              D
              !
                for some i INT
                  B(i)
    """)
    assert expression("D AND !(A(i, _) AND !B(i))") == tree("""
        AND
          D
          !
            for some i INT
              AND
                A(i, _)
                !
                  B(i)
    """)


@pytest.mark.parametrize(
    "match",
    ["!A(i, _) AND !B(i)", "!(!A(i, _) AND !B(i)) AND D", "firstAfter(D, D, B(i)) AND !A(i, _)"],
)
def test_a_variable_under_several_negations_and_nowhere_else_is_refused(match: str) -> None:
    assert "E302" in codes(f"MATCH {match}")


def test_the_negated_parts_of_series_and_first_after_bind_too() -> None:
    assert expression("B(i) * D") == tree("""
        *
          for some i INT
            B(i)
          D
    """)
    assert expression("firstAfter(D, C(j), B(i))") == tree("""
        for some j BIGINT
          firstAfter
            D
            C(j)
            for some i INT
              B(i)
    """)


def test_a_variable_takes_the_type_that_all_its_places_promote_to() -> None:
    assert expression("prior(B(i), C(i))").splitlines()[0] == "for some i BIGINT"
    assert codes("MATCH prior(B(i), A(_, i))") == ["E229"]


def test_a_name_given_by_equals_is_bound_around_the_whole() -> None:
    assert expression("relative(A = x, B) AND !prior(D, x)") == tree("""
        EXISTS x
          AND
            relative
              = x
                A
              B
            !
              prior
                D
                at x
    """)


def test_the_innermost_exists_wins_over_an_outer_one_and_over_a_class() -> None:
    assert expression("EXISTS b (relative(A = b, D) AND EXISTS b relative(D = b, b))") == tree("""
        EXISTS b
          AND
            relative
              = b
                A
              D
            EXISTS b#2
              relative
                = b#2
                  D
                at b#2
    """)


def test_exists_reaches_as_far_right_as_it_can() -> None:
    assert expression("D AND EXISTS x A = x OR B") == tree("""
        AND
          D
          EXISTS x
            OR
              = x
                A
              B
    """)


def test_a_definition_takes_variables_and_expressions() -> None:
    definitions = "DEFINE pair(E, v) = prior(E, B(v));"
    assert expression("pair(A(i, _) OR D, i)", definitions=definitions) == tree("""
        for some i INT
          prior
            OR
              A(i, _)
              D
            B(i)
    """)


def test_a_definition_takes_constants_and_anything() -> None:
    definitions = "DEFINE just(v) = B(v);"
    assert expression("just(3) OR just(_)", definitions=definitions) == "OR\n  B(3)\n  B(_)"


def test_the_own_variables_of_a_definition_do_not_meet_those_of_its_user() -> None:
    definitions = "DEFINE twice() = prior(B(i), B(i));"
    found = expression("prior(twice, A(i, _), twice())", definitions=definitions)
    assert found.splitlines()[0] == "for some twice.i INT, i INT, twice2.i INT"


def test_a_name_equated_inside_a_definition_is_bound_around_its_body() -> None:
    definitions = "DEFINE marked() = relative(A = x, B) AND !x;"
    assert expression("prior(marked, marked)", definitions=definitions).count("EXISTS x") == 2


def test_a_correlation_variable_can_be_handed_to_a_definition() -> None:
    definitions = "DEFINE after(e) = relative(e, B);"
    assert expression("EXISTS x (A = x OR after(x))", definitions=definitions) == tree("""
        EXISTS x
          OR
            = x
              A
            relative
              at x
              B
    """)


def test_an_unused_definition_is_checked_too() -> None:
    assert codes("MATCH A", definitions="DEFINE odd(v) = B(v, v);") == ["E206"]


def test_definitions_in_a_circle_name_the_circle() -> None:
    definitions = "DEFINE p() = q;\nDEFINE q() = prior(A, p);"
    assert "E301" in codes("MATCH p", definitions=definitions)


def test_definitions_that_explode_are_refused() -> None:
    definitions = "DEFINE d0() = A;\n" + "\n".join(f"DEFINE d{i}() = prior(d{i - 1}, d{i - 1});" for i in range(1, 20))
    assert codes("MATCH d19", definitions=definitions) == ["E403"]


def test_a_complex_class_without_a_lifespan_takes_the_longest_of_its_constituents() -> None:
    from augury.api import compile
    from tests.analysis.lowering import CLASSES

    program = compile(CLASSES + "CREATE COMPLEX EVENT CLASS T () ID () AS MATCH prior(A, C);")
    plan = program.class_plan("t")
    assert plan is not None
    assert plan.event_class.lifespan_us == 3 * 86_400_000_000


def test_attributes_are_fed_by_return_collect_or_the_variable_of_their_name() -> None:
    found = lines(
        "MATCH prior(A(i, s), B(j)) COLLECT COUNT(*) AS n RETURN i + 1 AS next, A.y AS name",
        attributes="i INT, next INT, name STRING, n INT",
    )
    assert found[-4:] == ["i is i", "next is i + 1", "name is A.y", "n is COUNT(*)"]


def test_a_cycle_through_over_is_found() -> None:
    assert codes("MATCH A OVER (A, T)") == ["E300"]


def test_an_attribute_that_nothing_feeds_is_warned_of() -> None:
    assert codes("MATCH A AND !B(i)", attributes="i INT") == ["W304"]


@pytest.mark.parametrize(
    ("match", "warned"),
    [
        ("!happened(A(i, _)) /+ B(i)", True),
        ("prior(A(i, _), !B(i))", True),
        ("prior(A(i, _), B(i), any)", True),
        ("prior(A(i, _), B(i))", False),
        ("prior(A(i, _), B(i), D)", False),
        ("(!happened(A(i, _)) /+ B(i)) AND D", False),
        ("(!happened(A(i, _)) /+ B(i)) | D", False),
    ],
)
def test_a_place_that_carries_no_variable_is_warned_of(match: str, warned: bool) -> None:
    assert ("W302" in codes(f"MATCH {match}")) == warned

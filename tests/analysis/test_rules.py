"""Rule structures: what earlier rules gave back as arguments, and the policy of a trigger."""

from __future__ import annotations

import pytest

from augury.algebra.dump import dump_trigger
from augury.algebra.rule import InOrder, Policy, Returned, RuleCall, Trigger
from augury.algebra.scalar import Scalar
from augury.api import check

RULES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);
RULE Score (x INT) ACTION score(x);
RULE Tell (points INT, x INT) ACTION tell(points, x);
"""


def trigger(structure: str) -> Trigger:
    checked = check(f"{RULES}TRIGGER t (x INT) TRIGGEREVENT A RULESTRUC {structure};")
    assert checked.program is not None, checked.rendered()
    return checked.program.triggers[0]


def test_what_a_rule_gave_back_is_an_argument_under_the_name_of_the_rule() -> None:
    found = trigger("Score(x) > Tell(returned(SCORE), x)").structure
    assert isinstance(found, InOrder)
    _, tell = found.steps
    assert isinstance(tell, RuleCall)
    given, x = tell.arguments
    assert given == Returned("Score")
    assert isinstance(x, Scalar)


@pytest.mark.parametrize(
    ("clause", "policy"),
    [("", Policy.STOP), ("ON FAILURE STOP", Policy.STOP), ("on failure Continue", Policy.CONTINUE)],
)
def test_a_failure_stops_unless_the_trigger_says_otherwise(clause: str, policy: Policy) -> None:
    assert trigger(f"Score(x) {clause}").policy is policy


def test_both_are_shown_and_the_policy_only_where_it_is_not_the_usual_one() -> None:
    assert dump_trigger(trigger("Score(x) > Tell(RETURNED(Score), x) ON FAILURE CONTINUE")).splitlines()[2:] == [
        "  rules, all of them even if one fails",
        "    one after the other",
        "      Score(x)",
        "      Tell(RETURNED(Score), x)",
    ]
    # Engines go on from what they kept as long as the text is the same.
    assert dump_trigger(trigger("Score(x) ON FAILURE STOP")) == dump_trigger(trigger("Score(x)"))


@pytest.mark.parametrize(
    "structure",
    [
        "Score(1) > Tell(RETURNED(Score), 1)",
        "(Score(1), Tell(1, 1)) > Tell(RETURNED(Score), RETURNED(Tell))",
        "Score(1) > (Tell(1, 1), Tell(RETURNED(Score), 1) > Score(1))",
        "(Score(1) > Tell(1, 1), Tell(1, 1)) > Tell(RETURNED(Score), 1)",
        "Score(1) > Score(RETURNED(Score))",
    ],
)
def test_a_rule_that_comes_before(structure: str) -> None:
    assert isinstance(trigger(structure).structure, InOrder)


@pytest.mark.parametrize(
    "structure",
    [
        "Score(1), Tell(RETURNED(Score), 1)",
        "Tell(RETURNED(Score), 1) > Score(1)",
        "Score(RETURNED(Score)) > Score(1)",
        "(Tell(RETURNED(Score), 1), Score(1)) > Tell(1, 1)",
        "Tell(1, 1) > (Score(1) > Tell(1, 1), Tell(1, 1) > Tell(RETURNED(Score), 1))",
        "Score(1) > Tell(1, 1), Tell(RETURNED(Score), 1)",
        "(Tell(1, RETURNED(Score)) > Tell(1, 1), Tell(1, 1)) > Score(1)",
    ],
)
def test_a_rule_that_does_not(structure: str) -> None:
    checked = check(f"{RULES}TRIGGER t (x INT) TRIGGEREVENT A RULESTRUC {structure};")
    assert [one.code for one in checked.errors] == ["E222"]


@pytest.mark.parametrize(
    ("level", "levels"),
    [("Score(1) > ({})", 60), ("(Score(1), {})", 60), ("(({}))", 60), ("Score(1) > (Score(2), {})", 40)],
)
def test_structures_nest_as_deep_as_they_are_said_to_and_no_deeper(level: str, levels: int) -> None:
    structure = "Score(1)"
    for _ in range(levels):
        structure = level.format(structure)
    assert trigger(structure).structure is not None
    for _ in range(levels):
        structure = level.format(structure)
    checked = check(f"{RULES}TRIGGER t (x INT) TRIGGEREVENT A RULESTRUC {structure};")
    assert [one.code for one in checked.errors] == ["E401"]

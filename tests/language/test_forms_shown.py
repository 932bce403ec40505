"""Every form that the grammar accepts stands in docs/language.md, in an example that `tests/test_docs.py` checks.

A form is a production of the grammar: which ones examples are made of is what the parser reduces. Those that are
accepted only to be refused with a better message, and the few that nobody should write, are listed here with a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from augury.api import check
from augury.diagnostics import Findings
from augury.language import parser
from tests.test_docs import EXPRESSIONS, reference

CLASSES = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);
RULE R () ACTION f();
"""

# By form: a program that has it, and the mistakes that are found in it.
ELSEWHERE = {
    "statement: SET name NAME": ("SET CHRONON fast;", ["E105"]),
    "setting_value: NUMBER": ("SET CHRONON 5;", ["E215"]),
    "setting_value: STRING": ("SET CHRONON '5s';", ["E215"]),
    "setting_value: TRUE": ("SET ARCHIVE TRUE;", []),
    "setting_value: FALSE": ("SET ARCHIVE FALSE;", []),
    "statement: RULE name parameters": ("RULE S ();", ["E112"]),
    "statement: RULE name parameters condition": ("RULE S (x INT) CONDITION x > 1;", ["E112"]),
    # Without a CONDITION the ALTERNATIVEACTION is never done.
    "statement: RULE name parameters alternative_clause": ("RULE S () ALTERNATIVEACTION f();", []),
    "statement: RULE name parameters action_clause alternative_clause": (
        "RULE S () ACTION f() ALTERNATIVEACTION g();",
        [],
    ),
    "statement: TRIGGER name parameters rule_structure": ("TRIGGER T () RULESTRUC R;", ["E113"]),
    "statement: TRIGGER name parameters rule_structure returns": (
        "TRIGGER T () RULESTRUC R RETURNS int : R;",
        ["E113"],
    ),
    "statement: BIND bound TO kind with_clause": ("BIND f TO LOG WITH (retries = 1);", ["E271"]),
    "option_value: MINUS NUMBER": ("BIND f TO PYTHON 'a:b' WITH (retries = -1);", ["E271"]),
    "source: SQL": ("CREATE COMPLEX EVENT CLASS B (x INT) ID () AS SELECT x FROM A;", ["E106"]),
    "call: name LPAR RPAR": ("CREATE COMPLEX EVENT CLASS B () ID () AS MATCH A[f() = 1];", ["E211"]),
    # `x /+ 2` is x divided by +2, for `/+` is one token.
    "product: product SLASHPLUS unary": ("CREATE COMPLEX EVENT CLASS B () ID () AS MATCH A[x /+ 2 = 1];", []),
}


def text_of(rule: Any) -> str:
    """A production as people write it."""
    return f"{rule.origin.name}: {' '.join(symbol.name for symbol in rule.expansion)}"


def is_form(rule: Any) -> bool:
    """Not a repetition, nor a start, nor a word that may be a name."""
    return not rule.origin.name.startswith(("__", "$root")) and rule.origin.name != "name"


@contextmanager
def reduced() -> Iterator[set[str]]:
    """The productions that texts are made of which are read meanwhile."""
    lark, _ = parser._lark()
    callbacks: dict[Any, Callable[..., Any]] = lark.parser.parser.parser.callbacks
    before, found = dict(callbacks), set[str]()

    def noting(rule: Any, build: Callable[..., Any]) -> Callable[..., Any]:
        def built(*parts: Any) -> Any:
            found.add(text_of(rule))
            return build(*parts)

        return built

    callbacks.update({rule: noting(rule, build) for rule, build in before.items()})
    try:
        yield found
    finally:
        callbacks.update(before)


def forms() -> set[str]:
    """All of the grammar."""
    lark, _ = parser._lark()
    return {text_of(rule) for rule in lark.rules if is_form(rule)}


def test_every_form_of_the_grammar_is_shown() -> None:
    with reduced() as shown:
        for block in reference().blocks:
            if block.tag == "bicepl" and block.option("fails") is None:
                parser.parse(block.text, Findings())
            for line in block.text.splitlines() if block.tag in EXPRESSIONS else ():
                EXPRESSIONS[block.tag](line, Findings())
    assert len(shown) > 100
    assert forms() - shown == set(ELSEWHERE), "show it in docs/language.md, or say here why not"


@pytest.mark.parametrize("form", ELSEWHERE)
def test_what_is_not_shown_is_what_is_said(form: str) -> None:
    program, mistakes = ELSEWHERE[form]
    with reduced() as found:
        checked = check(CLASSES + program)
    assert form in found
    assert [one.code for one in checked.errors] == mistakes

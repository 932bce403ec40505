"""Laws of text and syntax: what is printed reads back as the same tree, and formatting changes only the looks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from augury.diagnostics import Findings
from augury.language.formatter import format_text
from augury.language.lexer import lex
from augury.language.parser import parse, parse_composite, parse_match, parse_scalar
from augury.language.printer import print_composite, print_match, print_program, print_scalar
from tests.properties.syntax_strategies import composites, match_expressions, programs, scalars

SEEDS = sorted((Path(__file__).parents[2] / "examples" / "seeds").glob("*.bicepl"))
laws = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def read_back(parse_part, text):
    findings = Findings()
    node = parse_part(text, findings)
    assert findings.sorted() == (), text
    return node


@laws
@given(scalars(3))
def test_a_scalar_reads_back(expression):
    assert read_back(parse_scalar, print_scalar(expression)) == expression


@laws
@given(match_expressions(3))
def test_a_match_expression_reads_back(expression):
    assert read_back(parse_match, print_match(expression)) == expression


@laws
@given(composites(3))
def test_a_composite_expression_reads_back(expression):
    assert read_back(parse_composite, print_composite(expression)) == expression


@laws
@given(programs)
def test_a_program_reads_back(program):
    assert read_back(parse, print_program(program)).program == program


@laws
@given(programs)
def test_what_is_printed_is_formatted(program):
    text = print_program(program)
    assert format_text(text) == text


# ---- the formatter -------------------------------------------------------------------------------------


def assert_formatted_well(text):
    before = read_back(parse, text)
    formatted = format_text(text)
    assert isinstance(formatted, str)
    after = read_back(parse, formatted)
    assert after.program == before.program
    assert [c.text for c in after.comments] == [c.text for c in before.comments]
    assert format_text(formatted) == formatted


SPELLINGS = {
    "AND": ["and", "&", "^", "∧"],
    "OR": ["or", "∨"],
    "NOT": ["not ", "¬", "!"],
    "EXISTS": ["exists ", "∃"],
    "RELATIVE": ["Relative", "rel"],
    "SEQUENCE": ["seq"],
    "EQ": ["=="],
    "NE": ["!="],
    "SEMI": [";", ";;"],
    "SQL": [],  # kept as it is, with a line break after it: it may end in a comment of its own
}


def rewritten(text, chance, gaps):
    """The tokens of a text, some in another spelling, with one of the gaps before each and at the end."""
    parts = []
    for token in lex(text, Findings()).tokens:
        spellings = [token.value, *SPELLINGS.get(token.type, [])]
        parts += [chance.choice(gaps), chance.choice(spellings), "\n" if token.type == "SQL" else ""]
    return "".join([*parts, chance.choice(gaps)])


comment_lines = st.text("ab '`;-*/[∧\r\té", max_size=5).map(lambda text: f"--{text}\n")
gap = st.sampled_from([" ", " ", " ", "\n", "\n\n", "\n  \n\n", "\t", "\r\n"])
gaps_with_comments = gap | st.builds(
    lambda *parts: "".join(parts), gap, comment_lines, st.just("") | comment_lines, gap
)


@laws
@given(programs, st.data())
def test_formatting_keeps_syntax_and_comments(program, data):
    choices = data.draw(st.lists(gaps_with_comments, min_size=1, max_size=12))
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    assert_formatted_well(rewritten(print_program(program), chance, [" ", *choices]))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_a_seed_is_formatted_well(path):
    assert_formatted_well(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_a_seed_keeps_comments_put_anywhere(path):
    chance = random.Random(path.stem)
    gaps = [" "] * 12 + ["\n", " -- at the end\n", "\n-- alone\n", "\n\n-- apart\n\n", " -- one\n-- two\n"]
    assert_formatted_well(rewritten(path.read_text(encoding="utf-8"), chance, gaps))

"""The language corpus: programs that LANGUAGE.md accepts, warns of or refuses, run against the real front end.

In: the tables of `language/*.toml`, written from LANGUAGE.md alone. Out: a verdict of `check`, or two trees compared.
Nothing here knows how the front end works; every case quotes the sentence it follows from. `silent` marks a program
that must be accepted without any warning; `at` and `mentions` are about the first error (of warnings, about any).
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from augury.api import check
from augury.diagnostics import Diagnostic, Findings
from augury.language.parser import parse_composite, parse_match, parse_scalar

LANGUAGE = Path(__file__).parent / "language"
TABLES = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(LANGUAGE.glob("*.toml"))}
PARSERS = {"match": parse_match, "composite": parse_composite, "scalar": parse_scalar}
CASE_KEYS = {"name", "says", "program", "verdict", "family", "at", "mentions", "silent"}
PAIR_KEYS = {"name", "says", "section", "left", "right"}

Table = dict[str, Any]


def rows(kind: str) -> list[Any]:
    """All tables of one kind, named after their section and themselves."""
    found = [(stem, row) for stem, tables in TABLES.items() for row in tables.get(kind, ())]
    return [pytest.param(row, id=f"{stem.split('_')[0]}-{row['name']}") for stem, row in found]


def drawn(findings: tuple[Diagnostic, ...]) -> str:
    return "\n".join(f"  {finding.code}: {finding.message} {finding.mark} {finding.helps}" for finding in findings)


def points_at(finding: Diagnostic, program: str, words: str) -> bool:
    """Does the finding's mark overlap one of the places where `words` stand?"""
    start, end = finding.mark.span.start, max(finding.mark.span.end, finding.mark.span.start + 1)
    place = program.find(words)
    while place >= 0:
        if start < place + len(words) and place < end:
            return True
        place = program.find(words, place + 1)
    return False


def fits(finding: Diagnostic, case: Table) -> bool:
    said = f"{finding.message} {' '.join(map(str, finding.helps))}".casefold()
    return (
        finding.code.startswith(case.get("family", ""))
        and ("at" not in case or points_at(finding, case["program"], case["at"]))
        and all(word.casefold() in said for word in case.get("mentions", ()))
    )


@pytest.mark.parametrize("case", rows("case"))
def test_the_front_end_gives_the_verdict_of_the_contract(case: Table) -> None:
    answer = check(case["program"])
    errors = tuple(answer.errors)
    others = tuple(finding for finding in answer.diagnostics if finding not in errors)
    context = f"{case['says']}\n{case['program']}\nerrors:\n{drawn(errors)}\nother findings:\n{drawn(others)}"
    match case["verdict"]:
        case "accept":
            assert not errors, f"must be accepted: {context}"
            assert not (case.get("silent") and others), f"nothing to warn of: {context}"
        case "warn":
            assert not errors, f"must be accepted, with a warning: {context}"
            assert any(fits(finding, case) for finding in others), f"must be warned of: {context}"
        case "reject":
            assert errors, f"must be refused: {context}"
            assert fits(errors[0], case), f"must be refused as {wanted(case)}: {context}"
        case verdict:
            raise AssertionError(f"no such verdict: {verdict}")


def wanted(case: Table) -> str:
    return ", ".join(f"{key} {case[key]!r}" for key in ("family", "at", "mentions") if key in case)


def tree(case: Table, side: str) -> object:
    findings = Findings()
    found = PARSERS[case["section"]](case[side], findings)
    assert not findings.has_errors(), f"{case['says']}: cannot be read: {case[side]}"
    assert found is not None
    return found


@pytest.mark.parametrize("pair", rows("same"))
def test_two_spellings_are_one_tree(pair: Table) -> None:
    assert tree(pair, "left") == tree(pair, "right"), f"{pair['says']}: {pair['left']}   {pair['right']}"


@pytest.mark.parametrize("pair", rows("different"))
def test_two_spellings_are_two_trees(pair: Table) -> None:
    assert tree(pair, "left") != tree(pair, "right"), f"{pair['says']}: {pair['left']}   {pair['right']}"


@pytest.mark.parametrize("stem", TABLES)
def test_a_table_has_no_unknown_key_and_no_name_twice(stem: str) -> None:
    tables = TABLES[stem]
    assert set(tables) <= {"case", "same", "different"}
    every = [row for kind in tables.values() for row in kind]
    names = [row["name"] for row in every]
    assert len(names) == len(set(names))
    assert all(set(row) <= CASE_KEYS for row in tables.get("case", ()))
    assert all(set(row) == PAIR_KEYS for kind in ("same", "different") for row in tables.get(kind, ()))


def test_a_finding_points_at_the_words_its_mark_overlaps() -> None:
    program = "CREATE COMPLEX EVENT CLASS X () ID () AS MATCH Nowhere;"
    (error,) = check(program).errors
    assert points_at(error, program, "Nowhere")
    assert points_at(error, program, "MATCH Nowhere;")
    assert not points_at(error, program, "MATCH")
    assert not fits(error, {"program": program, "family": "E3"})
    assert not fits(error, {"program": program, "mentions": ["elsewhere"]})

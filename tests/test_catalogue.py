"""The catalogue of codes: complete, and every example of it true."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from augury import limits
from augury.algebra.operators import FUNCTIONS
from augury.algebra.scalar import TimingPrimitive
from augury.api import check
from augury.catalogue import Entry, entries, entry
from augury.cli import app
from augury.diagnostics import Severity
from augury.types import TYPE_NAMES
from tools.make_docs import ERRORS, errors_page

SOURCE = Path(__file__).parents[1] / "src" / "augury"
CODE = re.compile(r"[\"']([EWN][0-9]{3})[\"']")
WITH_PROGRAMS = [e for e in entries().values() if e.wrong]
each_entry = pytest.mark.parametrize("found", list(entries().values()), ids=lambda e: e.code)
each_example = pytest.mark.parametrize("found", WITH_PROGRAMS, ids=lambda e: e.code)


def test_every_code_in_the_source_is_in_the_catalogue_and_no_other() -> None:
    raised = {code for file in SOURCE.rglob("*.py") for code in CODE.findall(file.read_text("utf-8"))}
    assert len(raised) > 80
    assert sorted(raised) == sorted(entries())


def test_the_catalogue_is_in_order() -> None:
    codes = list(tomllib.loads((SOURCE / "codes.toml").read_text("utf-8")))
    assert codes == sorted(codes)


@each_entry
def test_an_entry_is_short_and_has_both_examples_or_none(found: Entry) -> None:
    assert "\n" not in found.title
    assert len(found.title) <= 80
    assert not found.title.endswith(".")
    lines = found.explanation.strip().split("\n")
    assert 1 <= len(lines) <= 6
    assert all(len(line) <= 132 for line in lines)
    assert found.explanation.strip().endswith(".")
    assert bool(found.wrong) == bool(found.right)
    assert found.wrong or "appears when" in found.explanation, "without an example, words say when it appears"


@each_example
def test_the_wrong_example_brings_about_its_code_and_no_other_error(found: Entry) -> None:
    checked = check(found.wrong.strip("\n"))
    codes = {d.code for d in checked.diagnostics}
    assert found.code in codes, checked.rendered()
    assert {d.code for d in checked.diagnostics if d.severity is Severity.ERROR} <= {found.code}, checked.rendered()


@each_example
def test_the_right_example_has_nothing_to_report(found: Entry) -> None:
    assert check(found.right.strip("\n")).rendered() == ""


@each_entry
def test_explain_prints_an_entry(found: Entry) -> None:
    done = CliRunner().invoke(app, ["explain", found.code.lower()])
    assert done.exit_code == 0
    assert done.stdout == found.text() + "\n"
    assert done.stdout.startswith(f"{found.code}: {found.title}\n\n")
    for part in (found.explanation, found.wrong, found.right):
        assert all(line.strip() in done.stdout for line in part.splitlines())


def test_a_code_that_is_none_has_no_entry() -> None:
    assert entry("E999") is None
    done = CliRunner().invoke(app, ["explain", "E999"])
    assert done.exit_code == 2
    assert "E999" in done.stderr


def listed(code: str) -> set[str]:
    """The words in capitals of an explanation."""
    found = entry(code)
    assert found is not None
    return set(re.findall(r"\b[A-Z_]{2,}\b", found.explanation))


def test_what_is_promised_to_be_listed_is_listed() -> None:
    assert listed("E211") >= set(FUNCTIONS)
    assert listed("E204") >= set(TYPE_NAMES)
    assert listed("E212") >= set(TimingPrimitive)


def test_the_limits_that_are_named_are_those_that_hold() -> None:
    for code, limit in (
        ("E401", limits.NESTING_MAX),
        ("E402", limits.PROGRAM_CHARACTERS_MAX),
        ("E403", limits.EXPRESSION_NODES_MAX),
        ("E404", limits.NTH_MAX),
        ("E505", limits.DRAWING_STATES_MAX),
        ("W308", limits.AUTOMATON_STATES_MAX),
        ("W309", limits.TUPLES_MAX),
    ):
        assert f"{limit:,}" in entries()[code].explanation


def test_the_page_of_errors_is_up_to_date() -> None:
    assert ERRORS.read_text("utf-8") == errors_page(), "`make docs` writes it"


def test_the_page_of_errors_has_every_entry_and_links_that_lead_somewhere() -> None:
    page = errors_page()
    sections = re.findall(r"^### (\S+)$", page, re.MULTILINE)
    links = re.findall(r"\(#(\S+)\)", page)
    assert sections == list(entries())
    assert links == [code.lower() for code in sections]
    assert page.count("```") == 4 * len(WITH_PROGRAMS)

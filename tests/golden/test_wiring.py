"""BIND and DETECT at every stage, as text: syntax, algebra and canonical form of one program that has every kind."""

from __future__ import annotations

from pathlib import Path

from augury.algebra.dump import dump_program, dump_wiring
from augury.algebra.wiring import ExecutorKind, SourceKind
from augury.api import check
from augury.language.dump import dump_syntax
from augury.language.formatter import format_text
from augury.language.syntax import Binding, Detection, Program
from tests.golden.test_stages import compare

WIRING = Path(__file__).parent / "wiring"
TEXT = (WIRING / "groceries.bicepl").read_text("utf-8")
CHECKED = check(TEXT, "groceries.bicepl")


def test_the_syntax_of_what_joins_a_program_to_the_world() -> None:
    joining = (st for st in CHECKED.syntax.statements if isinstance(st, Binding | Detection))
    compare(WIRING / "groceries.syntax.txt", dump_syntax(Program(tuple(joining))))


def test_the_algebra_of_what_joins_a_program_to_the_world() -> None:
    assert CHECKED.program is not None, CHECKED.rendered()
    assert CHECKED.rendered() == ""
    compare(WIRING / "groceries.algebra.txt", dump_wiring(CHECKED.program))


def test_the_canonical_form_of_what_joins_a_program_to_the_world() -> None:
    formatted = format_text(TEXT)
    assert isinstance(formatted, str)
    compare(WIRING / "groceries.formatted.txt", formatted)


def test_the_program_has_every_kind() -> None:
    assert CHECKED.program is not None
    assert {b.kind for b in CHECKED.program.bindings} == set(ExecutorKind)
    assert {d.kind for d in CHECKED.program.detections} == set(SourceKind)


def test_what_a_program_means_does_not_depend_on_how_it_is_joined_to_the_world() -> None:
    assert CHECKED.program is not None
    alone = check(TEXT[: TEXT.index("BIND")]).program
    assert alone is not None
    assert dump_program(CHECKED.program) == dump_program(alone)
    assert dump_wiring(alone) == ""

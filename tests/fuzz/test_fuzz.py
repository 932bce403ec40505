"""`check` answers to anything: no exception, no case over a second, every finding with a code and a place.

20,000 cases here, from written seeds; `make soak` goes on with fresh ones for AUGURY_SOAK_SECONDS.
To see one case again: `examine(made("grammar", SEED), "grammar", SEED)`.
"""

from __future__ import annotations

import json
import os
import re
import time
from random import SystemRandom

import pytest

from augury.api import Checked, check
from augury.diagnostics import Diagnostic, Mark, Source, Span, render, to_json
from augury.explain import explain_program
from augury.files import UnreadableFile, source_of
from augury.language.dump import dump_syntax
from augury.language.formatter import format_text
from tests.fuzz.generate import DELIBERATE, grammar_made, mutated, soup

SECONDS_AT_MOST = 1.0
CASES = {"grammar": 3_000, "mutated": 5_000, "soup": 12_000}
CHUNK = 500
CHUNKS = [(kind, first) for kind, count in CASES.items() for first in range(0, count, CHUNK)]
DEEPER_LOOK_EVERY = 10


class Broken(AssertionError):
    """A case that must not be; names the seed and shows the text."""

    def __init__(self, why: str, kind: str, seed: int, text: str) -> None:
        super().__init__(f"{why}\n\nmade({kind!r}, {seed}) is {text!r}\nwhich reads\n{text}")


def made(kind: str, seed: int) -> str | bytes:
    match kind:
        case "grammar":
            return grammar_made(seed)
        case "mutated":
            return mutated(seed)
        case _:
            return soup(seed)


def examine(case: str | bytes, kind: str, seed: int) -> None:
    """Check a case as the command does, and look at everything that comes out."""
    try:
        source = source_of(case, "case") if isinstance(case, bytes) else Source("case", case)
    except UnreadableFile as refused:
        shown(refused.diagnostic, refused.source)
        return
    text = source.text
    try:
        started = time.process_time()
        checked = check(text, "case")
        took = time.process_time() - started
        complaint = complaint_about(checked, kind)
        if seed % DEEPER_LOOK_EVERY == 0:
            look_deeper(checked)
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {error}", kind, seed, text) from error
    if took > SECONDS_AT_MOST:
        raise Broken(f"it took {took:.1f} s", kind, seed, text)
    if complaint:
        raise Broken(complaint, kind, seed, text)


def complaint_about(checked: Checked, kind: str) -> str:
    """What is wrong with an answer; nothing, if all is well."""
    if (checked.program is None) != bool(checked.errors):
        return "a program is there if and only if there are no errors"
    for diagnostic in checked.diagnostics:
        if complaint := wrong_with(diagnostic, len(checked.source.text)):
            return f"{diagnostic}: {complaint}"
        if kind == "grammar" and diagnostic.code.startswith("E1") and diagnostic.code not in DELIBERATE:
            return f"the grammar takes it, but {diagnostic.code}: {diagnostic.message}"
        shown(diagnostic, checked.source)
    return ""


def wrong_with(diagnostic: Diagnostic, length: int) -> str:
    if not re.fullmatch(r"[EW]\d{3}", diagnostic.code):
        return "no code"
    if not diagnostic.message:
        return "no message"
    if "cannot be analysed" in diagnostic.message:
        return "an exception in disguise"
    for mark in (diagnostic.mark, *diagnostic.others):
        if not 0 <= mark.span.start <= mark.span.end <= length:
            return f"{mark.span} is not inside the text"
    return ""


def shown(diagnostic: Diagnostic, source: Source) -> None:
    """Both forms of a diagnostic can be made."""
    assert diagnostic.code in render(diagnostic, source)
    assert json.loads(json.dumps(to_json(diagnostic, source)))["code"] == diagnostic.code


def look_deeper(checked: Checked) -> None:
    """Every stage that takes this text gives something."""
    dump_syntax(checked.syntax)
    if checked.program is not None:
        assert explain_program(checked, None, "algebra")
    formatted = format_text(checked.source.text)
    assert isinstance(formatted, str) or formatted, "formatted, or why not"


@pytest.mark.parametrize(("kind", "first"), CHUNKS, ids=[f"{kind}-{first}" for kind, first in CHUNKS])
def test_check_answers_to(kind, first):
    check("SET CHRONON 1s;")  # the parser is built once, and takes its time
    for seed in range(first, first + CHUNK):
        examine(made(kind, seed), kind, seed)


def test_there_are_20_000_cases():
    assert len(CHUNKS) * CHUNK == sum(CASES.values()) == 20_000


def test_many_grammar_made_programs_make_sense():
    checked = [check(grammar_made(seed)) for seed in range(200)]
    assert sum(c.program is not None for c in checked) > 60


def test_seeds_give_the_same_text_for_ever():
    assert [made(kind, 7) for kind in CASES] == [made(kind, 7) for kind in CASES]
    assert len({made(kind, seed) for kind in CASES for seed in range(50)}) > 140


@pytest.mark.parametrize(
    ("diagnostic", "complaint"),
    [
        (Diagnostic("X1", "something", Mark(Span(0, 0))), "no code"),
        (Diagnostic("E100", "", Mark(Span(0, 0))), "no message"),
        (Diagnostic("E250", "this SELECT cannot be analysed (KeyError)", Mark(Span(0, 0))), "in disguise"),
        (Diagnostic("E100", "something", Mark(Span(3, 2))), "not inside"),
        (Diagnostic("E100", "something", Mark(Span(0, 11))), "not inside"),
        (Diagnostic("E100", "something", Mark(Span(0, 10)), (Mark(Span(-1, 3)),)), "not inside"),
    ],
)
def test_a_bad_diagnostic_is_noticed(diagnostic, complaint):
    assert complaint in wrong_with(diagnostic, 10)


def test_what_is_wrong_with_a_case_is_told_with_its_seed(monkeypatch):
    def fail(*_arguments):
        raise KeyError("inside")

    monkeypatch.setattr("tests.fuzz.test_fuzz.check", fail)
    with pytest.raises(Broken, match=r"KeyError: 'inside'(.|\n)*made\('soup', 7\)(.|\n)*SET"):
        examine(b"SET", "soup", 7)


@pytest.mark.soak
def test_check_answers_to_fresh_cases():
    seconds = float(os.environ.get("AUGURY_SOAK_SECONDS", "600"))
    first = SystemRandom().randrange(1_000_000, 1_000_000_000)
    print(f"seeds from {first}")
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end:
        for kind in CASES:
            examine(made(kind, seed), kind, seed)
        seed += 1

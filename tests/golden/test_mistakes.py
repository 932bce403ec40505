"""What users are told about their mistakes, word by word: mistakes/*.bicepl, and beside each what is said about it.

A file holds cases, each after a line `-- case: what is wrong [codes]`; what stands before the first is part of them
all. The codes are those of all diagnostics in order: an accepted golden cannot drift to another code.
`make accept` rewrites the texts, and the diff is the review.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from typer.testing import CliRunner

from augury import limits
from augury.api import Checked, check
from augury.catalogue import entries
from augury.cli import app
from augury.diagnostics import Diagnostic, Severity, render, to_json

MISTAKES = Path(__file__).parent / "mistakes"
FILES = sorted(MISTAKES.glob("*.bicepl"))
CASE = re.compile(r"^-- case: (?P<name>.+) \[(?P<codes>[EW0-9, ]+)\]\n", re.MULTILINE)
PLACE = {"start", "end", "line", "column", "end_line", "end_column", "label"}
FIELDS = PLACE | {"severity", "code", "message", "file", "others", "helps"}


@dataclass(frozen=True)
class Case:
    file: Path
    name: str
    codes: list[str]
    text: str

    @cached_property
    def checked(self) -> Checked:
        return check(self.text, self.file.name)


def cases_of(file: Path) -> Iterator[Case]:
    text = file.read_text("utf-8")
    found = list(CASE.finditer(text))
    assert text.count("-- case:") == len(found), f"{file.name} has a case line that cannot be read"
    shared = text[: found[0].start()].strip()
    for this, after in zip(found, [*found[1:], None], strict=True):
        body = text[this.end() : after.start() if after else len(text)].strip()
        program = f"{shared}\n{body}\n" if shared else f"{body}\n"
        yield Case(file, this["name"], this["codes"].split(", "), program)


CASES = {file: list(cases_of(file)) for file in FILES}
each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
each_case = pytest.mark.parametrize(
    "case", [case for cases in CASES.values() for case in cases], ids=lambda case: f"{case.file.stem}: {case.name}"
)


def compare(golden: Path, text: str) -> None:
    if os.environ.get("AUGURY_ACCEPT"):
        golden.write_text(text, "utf-8")
    assert golden.exists(), f"there is no {golden.name}; `make accept` writes it"
    assert golden.read_text("utf-8") == text, f"{golden.name} differs; `make accept` rewrites it"


@each_file
def test_what_is_said(file: Path) -> None:
    said = [f"==== {case.name}\n\n{case.checked.rendered()}\n" for case in CASES[file]]
    compare(file.with_suffix(".txt"), "\n".join(said))


@each_case
def test_a_mistake_has_its_codes(case: Case) -> None:
    assert [d.code for d in case.checked.diagnostics] == case.codes, case.checked.rendered()


@each_file
def test_mistakes_as_json(file: Path) -> None:
    for case in CASES[file]:
        for diagnostic in case.checked.diagnostics:
            said = json.loads(json.dumps(to_json(diagnostic, case.checked.source)))
            assert said.keys() == FIELDS
            assert said["file"] == file.name
            assert said["severity"] == ("warning" if said["code"].startswith("W") else "error")
            for place in (said, *said["others"]):
                assert place.keys() >= PLACE
                marked = case.text[place["start"] : place["end"]]
                assert marked == marked.strip(), "a mark starts and ends at what it marks"
                assert marked == between(case.text.split("\n"), place)
                assert place is said or marked, "another place is one that can be seen"


def between(lines: list[str], place: dict[str, int]) -> str:
    """The text from a line and column to a line and column."""
    first, last = place["line"] - 1, place["end_line"] - 1
    if first == last:
        return lines[first][place["column"] - 1 : place["end_column"] - 1]
    inner = lines[first + 1 : last]
    return "\n".join([lines[first][place["column"] - 1 :], *inner, lines[last][: place["end_column"] - 1]])


@each_file
def test_the_carets_stand_under_what_is_marked(file: Path) -> None:
    for case in CASES[file]:
        for diagnostic in case.checked.diagnostics:
            source, span = case.checked.source, diagnostic.mark.span
            line = source.line(source.position(span.start)[0])
            if not line.isascii() or len(line) > 140:
                continue
            drawn = render(diagnostic, source).split("\n")
            below = next(i for i, text in enumerate(drawn) if re.match(r" *\| *\^", text))
            above = next(text for text in reversed(drawn[:below]) if re.match(r" *[0-9]+ \| ", text))
            carets = re.search(r"\^+", drawn[below])
            assert carets is not None
            marked = case.text[span.start : span.end].split("\n")[0]
            assert above[carets.start() : carets.end()].strip() == marked or not marked


# What the label says is itself the proposal: where a `;` or a bracket is missing, or that one is too many.
# Of SQL that cannot be read, or is of chance, nobody knows what was meant.
NEEDS_NO_HELP = {"E114", "E115", "E117", "E311", "E265"}


@each_file
def test_a_mistake_is_said_in_one_sentence_and_a_proposal(file: Path) -> None:
    for diagnostic in (d for case in CASES[file] for d in case.checked.diagnostics):
        assert one_sentence(diagnostic.message), diagnostic.message
        assert diagnostic.mark.label or diagnostic.code == "E117", diagnostic.message
        assert diagnostic.helps or diagnostic.code in NEEDS_NO_HELP or is_hopeless(diagnostic), diagnostic.message
        assert all(help_text and not help_text.endswith(".") for help_text in diagnostic.helps)
        assert re.search(r"\b1 (attribute|argument|parameter|event|operand|value)s\b", diagnostic.message) is None


def one_sentence(message: str) -> bool:
    return "\n" not in message and not message.endswith((".", "!", "?", ":")) and ". " not in message


def is_hopeless(diagnostic: Diagnostic) -> bool:
    """Where nobody can guess what was meant, and what could have stood there is said in the label."""
    hopeless = ("expected", "a DOUBLE", "beyond", "81 digits", "a DURATION", "a TIMESTAMP", "a STRING")
    return diagnostic.code in ("E100", "E110", "E209", "E233") and diagnostic.mark.label.startswith(hopeless)


def test_every_code_a_program_can_bring_about_is_shown() -> None:
    shown = {code for cases in CASES.values() for case in cases for code in case.codes}
    assert shown == {entry.code for entry in entries().values() if entry.wrong}


def test_the_names_of_cases_are_apart() -> None:
    names = [(case.file, case.name) for cases in CASES.values() for case in cases]
    assert len(set(names)) == len(names) >= 100


def test_each_text_has_its_program() -> None:
    assert {p.stem for p in MISTAKES.glob("*.txt")} - {"environment"} == {p.stem for p in FILES}


# ---- mistakes that are no text of a program: files, data, names on the command line


GOOD = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Login (card TEXT) ID (card) LIFESPAN (1d);\n"


def write(folder: Path) -> dict[str, list[str]]:
    """Files that cannot be used, and the commands that try."""
    (folder / "good.bicepl").write_text(GOOD, "utf-8")
    (folder / "folder").mkdir()
    (folder / "latin1.bicepl").write_bytes(b"-- one\n-- M\xfcnchen\n")
    with (folder / "large.bicepl").open("wb") as file:
        file.truncate(limits.PROGRAM_CHARACTERS_MAX * 4 + 1)
    burst = "CREATE COMPLEX EVENT CLASS C () ID () AS MATCH <300> Login;\n"
    (folder / "burst.bicepl").write_text((folder / "good.bicepl").read_text("utf-8") + burst, "utf-8")
    wide = f"CREATE COMPLEX EVENT CLASS C () ID () AS COMPOSITE\n  {' > '.join(['Login'] * 63)};\n"
    (folder / "wide.bicepl").write_text(GOOD + wide, "utf-8")
    seconds = "CREATE CLOCK EVENT CLASS Second EVERY 1s;\n"
    (folder / "seconds.bicepl").write_text(GOOD + seconds, "utf-8")
    stray = [f'{{"event": "Login", "card": "{year}", "det_time": "{year}-01-01"}}\n' for year in (2026, 1926)]
    (folder / "stray.jsonl").write_text("".join(stray), "utf-8")
    (folder / "empty.jsonl").write_text("", "utf-8")
    (folder / "partly.jsonl").write_text('{"event": "A", "x": 1}\nnot JSON\n', "utf-8")
    (folder / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (folder / "broken.parquet").write_bytes(b"not a table")
    misspelt = "program: good.bicepl\ntests:\n  - name: one\n    event: [Login(card=1) at 0s]\n"
    (folder / "misspelt.yaml").write_text(misspelt, "utf-8")
    unfit = "program: good.bicepl\ntests:\n  - name: one\n    events: [Logn(card='1') at 0s]\n    expect: []\n"
    (folder / "unfit.yaml").write_text(unfit, "utf-8")
    (folder / "settings.toml").write_text("[actions.open]\nto = 'nowhere'\n", "utf-8")
    return {
        "E313 a class that cannot be run yet": ["run", "wide.bicepl", "--events", "empty.jsonl"],
        "E402 a file too long": ["check", "large.bicepl"],
        "E405 a stray date in the data": ["run", "seconds.bicepl", "--events", "stray.jsonl"],
        "E500 no such file": ["check", "no/such/file.bicepl"],
        "E501 a folder": ["check", "folder"],
        "E502 another encoding": ["check", "latin1.bicepl"],
        "E503 a file below a file": ["check", "good.bicepl/more.bicepl"],
        "E504 nothing of that name": ["explain", "good.bicepl", "Logn"],
        "E505 an automaton too large to be drawn": ["explain", "burst.bicepl", "C", "--stage", "automaton", "--svg"],
        "E506 settings that are none": ["check", "good.bicepl", "--settings", "settings.toml"],
        "E510 data that is not there": ["infer", "no/such/data.jsonl"],
        "E510 data that is broken": ["infer", "broken.parquet"],
        "E511 no data": ["infer", "empty.jsonl"],
        "E511 a row that cannot be read": ["infer", "partly.jsonl"],
        "E512 no data format": ["infer", "picture.csv"],
        "E520 an engine that is not there": ["run", "good.bicepl", "--events", "empty.jsonl", "--engine", "spark"],
        "E530 no place for a store": [
            "run",
            "good.bicepl",
            "--events",
            "empty.jsonl",
            "--store",
            "no/such/folder/s.db",
        ],
        "E540 a suite with a key that is none": ["test", "misspelt.yaml"],
        "E541 a suite of another program": ["test", "unfit.yaml"],
    }


def test_what_is_said_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAVA_HOME", "no/such/java")
    said = []
    commands = write(tmp_path)
    for name, command in commands.items():
        done = CliRunner().invoke(app, command)
        assert f"[{name[:4]}]" in done.stderr, done.stderr
        said.append(f"==== {name}\n\n{done.stderr}")
    compare(MISTAKES / "environment.txt", "\n".join(said))
    no_program = {e.code for e in entries().values() if not e.wrong and e.code.startswith("E")}
    # E531 is told of two programs and a store: tests/bitemporal/test_applying.py has it.
    assert {name[:4] for name in commands} == no_program - {"E531"}


def test_a_program_too_long_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROGRAM_CHARACTERS_MAX", 100)
    assert [d.code for d in check("-" * 101).diagnostics] == ["E402"]


# ---- many mistakes at once


def test_ten_mistakes_in_ten_statements_are_all_shown() -> None:
    checked = CASES[MISTAKES / "ten.bicepl"][0].checked
    assert len(checked.errors) == 10
    assert [d.mark.span for d in checked.diagnostics] == sorted(
        (d.mark.span for d in checked.diagnostics), key=lambda s: s.start
    )
    assert all(d.severity is Severity.ERROR for d in checked.diagnostics)

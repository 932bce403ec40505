"""Diagnostics as values, drawn and as JSON: places, windows of long lines, wide characters, colours, proposals."""

from __future__ import annotations

import re

import pytest

from augury import limits
from augury.api import check
from augury.diagnostics import (
    NOWHERE,
    Diagnostic,
    Findings,
    Mark,
    Severity,
    Source,
    Span,
    closest,
    render,
    to_json,
)


def drawn(text: str, start: int, end: int, label: str = "here", **more: object) -> list[str]:
    """The lines of a diagnostic about a range of a text."""
    diagnostic = Diagnostic("E999", "something is wrong", Mark(Span(start, end), label), **more)  # type: ignore[arg-type]
    return render(diagnostic, Source("p.bicepl", text)).split("\n")


def at(text: str, part: str) -> tuple[int, int]:
    start = text.index(part)
    return start, start + len(part)


# ---- places


@pytest.mark.parametrize(
    ("text", "offset", "place"),
    [
        ("", 0, (1, 1)),
        ("abc", 0, (1, 1)),
        ("abc", 3, (1, 4)),
        ("abc\n", 3, (1, 4)),
        ("abc\n", 4, (2, 1)),
        ("a\n\nb", 2, (2, 1)),
        ("a\n\nb", 3, (3, 1)),
        ("ä€😀x", 3, (1, 4)),
    ],
)
def test_an_offset_is_a_line_and_a_column(text: str, offset: int, place: tuple[int, int]) -> None:
    assert Source("p", text).position(offset) == place


def test_a_line_is_without_its_break() -> None:
    source = Source("p", "a\r\nb\n\nc")
    assert [source.line(n) for n in (1, 2, 3, 4)] == ["a", "b", "", "c"]


def test_spans_are_joined() -> None:
    assert Span(3, 5).to(Span(1, 2)) == Span(1, 5)


# ---- drawing


def test_a_diagnostic_is_drawn() -> None:
    text = "one\nMATCH prior(Login, Withdrawal[amout > 500])\n"
    lines = drawn(text, *at(text, "amout"), "unknown attribute", helps=("did you mean `amount`?",))
    assert lines == [
        "error[E999]: something is wrong",
        " --> p.bicepl:2:31",
        "  |",
        "2 | MATCH prior(Login, Withdrawal[amout > 500])",
        "  |                               ^^^^^ unknown attribute",
        "  = help: did you mean `amount`?",
    ]


def test_other_places_are_drawn_in_order_with_gaps() -> None:
    text = "first\nx\nx\nsecond third\n"
    others = (Mark(Span(*at(text, "first")), "declared here"), Mark(Span(*at(text, "second")), "and here"))
    assert drawn(text, *at(text, "third"), "again", others=others)[2:] == [
        "  |",
        "1 | first",
        "  | ----- declared here",
        " ...",
        "4 | second third",
        "  | ------ and here",
        "  |        ^^^^^ again",
    ]


def test_the_margin_is_as_wide_as_the_largest_line_number() -> None:
    text = "\n" * 99 + "x"
    assert drawn(text, 99, 100)[1:4] == ["   --> p.bicepl:100:1", "    |", "100 | x"]


def test_a_mark_at_the_end_of_the_file() -> None:
    assert drawn("SET CHRONON 15m", 15, 15, "expected `;`")[3:] == [
        "1 | SET CHRONON 15m",
        "  |                ^ expected `;`",
    ]


def test_a_mark_behind_the_last_line_break() -> None:
    assert drawn("x\n", 2, 2)[1:] == [" --> p.bicepl:2:1", "  |", "2 |", "  | ^ here"]


def test_a_mark_of_several_lines_is_drawn_under_the_first() -> None:
    text = "AS SELECT a,\n  b\nFROM c"
    assert drawn(text, 3, len(text))[3:] == ["1 | AS SELECT a,", "  |    ^^^^^^^^^ here"]


def test_an_empty_file_shows_its_name_only() -> None:
    assert drawn("", 0, 0) == ["error[E999]: something is wrong", " --> p.bicepl"]


def test_what_stands_nowhere_shows_no_line() -> None:
    diagnostic = Diagnostic("E999", "nothing of that name", Mark(NOWHERE), helps=("look again",))
    assert render(diagnostic, Source("p.bicepl", "SET CHRONON 15m;")).split("\n") == [
        "error[E999]: nothing of that name",
        " --> p.bicepl",
        "  = help: look again",
    ]


def test_a_tab_is_one_column() -> None:
    assert drawn("\tSET\tCHRONIN 15m;", *at("\tSET\tCHRONIN 15m;", "CHRONIN"))[3:] == [
        "1 |  SET CHRONIN 15m;",
        "  |      ^^^^^^^ here",
    ]


def test_wide_characters_take_two_columns_and_combining_ones_none() -> None:
    text = "'日本' 'e\u0301' x"
    assert drawn(text, *at(text, "x"))[3:] == [f"1 | {text}", "  |            ^ here"]
    assert drawn(text, *at(text, "'日本'"))[4] == "  | ^^^^^^ here"


def test_characters_a_terminal_would_act_upon_are_not_printed() -> None:
    text = "a \x1b[31m\u202e b"
    lines = drawn(text, *at(text, "b"), "\x1b[0m\nlabel", helps=("\x07help",))
    assert not any(ch in "\n".join(lines) for ch in "\x1b\u202e\x07")
    assert lines[3] == "1 | a �[31m� b"
    assert lines[-1] == "  = help: �help"


@pytest.mark.parametrize("place", [0, 1, 69, 70, 71, 500, 5000, 9928, 9929, 9930, 9998, 9999, 10_000])
def test_a_long_line_is_cut_around_the_mark(place: int) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(10_000))
    lines = drawn(text, place, min(place + 3, 10_000))
    assert len(lines[3]) <= len("1 | ") + 142
    carets = re.search(r"\^+", lines[4])
    assert carets is not None
    marked = text[place : place + 3]
    assert lines[3][carets.start() : carets.end()] == (marked or "")
    assert (lines[3][4] == "…") == (place > 70)
    assert lines[3].endswith("…") == (place < 9930)


def test_a_long_mark_ends_with_what_is_shown() -> None:
    lines = drawn("x" * 1000, 10, 990)
    assert lines[4].count("^") == 130


def test_two_marks_of_a_long_line_stand_under_what_they_mark() -> None:
    near = "a" * 50 + "FIRST" + "b" * 40 + "SECOND" + "c" * 200
    far = "a" * 50 + "FIRST" + "b" * 400 + "SECOND" + "c" * 200
    for text, rows in ((near, 3), (far, 4)):
        other = Mark(Span(*at(text, "FIRST")), "one")
        lines = drawn(text, *at(text, "SECOND"), "two", others=(other,))[3:]
        assert len(lines) == rows
        for sign, word in (("-", "FIRST"), ("^", "SECOND")):
            below = next(i for i, line in enumerate(lines) if re.match(rf" *\| *{re.escape(sign)}", line))
            above = next(line for line in reversed(lines[:below]) if line.startswith("1 | "))
            column = lines[below].index(sign)
            assert above[column : column + len(word)] == word


def test_colours_change_nothing_else() -> None:
    text = "SET CHRONIN 15m;"
    for severity, colour in ((Severity.ERROR, "\x1b[1;31m"), (Severity.WARNING, "\x1b[1;33m")):
        mark, other = Mark(Span(4, 11), "unknown"), Mark(Span(0, 3), "here")
        diagnostic = Diagnostic("E215", "no such setting", mark, (other,), ("did you mean `CHRONON`?",), severity)
        source = Source("p.bicepl", text)
        plain, painted = render(diagnostic, source), render(diagnostic, source, colour=True)
        assert "\x1b" not in plain
        assert painted.startswith(f"{colour}{severity}[E215]\x1b[0m\x1b[1m: no such setting\x1b[0m")
        assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
        assert f"{colour}    ^^^^^^^ unknown\x1b[0m" in painted
        assert painted.count("\x1b[0m") == len(re.findall(r"\x1b\[[0-9;]*[1-9]m", painted))


# ---- JSON


def test_json_has_the_place_twice_as_offsets_and_as_lines() -> None:
    source = Source("p.bicepl", "one\ntwo three\nfour")
    other = Mark(Span(0, 3), "first")
    diagnostic = Diagnostic("W999", "odd", Mark(Span(8, 18), "across"), (other,), ("think",), Severity.WARNING)
    assert to_json(diagnostic, source) == {
        "severity": "warning",
        "code": "W999",
        "message": "odd",
        "file": "p.bicepl",
        "start": 8,
        "end": 18,
        "line": 2,
        "column": 5,
        "end_line": 3,
        "end_column": 5,
        "label": "across",
        "others": [
            {"start": 0, "end": 3, "line": 1, "column": 1, "end_line": 1, "end_column": 4, "label": "first"},
        ],
        "helps": ["think"],
    }


# ---- findings


def test_findings_are_in_order_of_place_and_without_repeats() -> None:
    findings = Findings()
    findings.error("E200", "b", Span(5, 6))
    findings.warning("W300", "a", Span(1, 2))
    findings.error("E200", "b", Span(5, 6))
    assert [(d.code, d.severity) for d in findings.sorted()] == [("W300", Severity.WARNING), ("E200", Severity.ERROR)]
    assert findings.has_errors()


def test_warnings_are_no_errors() -> None:
    findings = Findings()
    findings.warning("W300", "a", Span(1, 2))
    assert not findings.has_errors()


@pytest.mark.parametrize(
    ("word", "meant"),
    [("amout", "amount"), ("AMOUNT", "amount"), ("Card", "card"), ("zzz", None), ("", None)],
)
def test_the_closest_name(word: str, meant: str | None) -> None:
    assert closest(word, ["card", "amount", "atm"]) == meant


# ---- from a text to a drawing


def test_a_text_without_statements_has_nothing_wrong() -> None:
    for text in ("", "\n\n", "-- only a comment", ";;", "\ufeff"):
        assert check(text).rendered() == ""


def test_a_tab_and_wide_characters_in_a_program() -> None:
    text = "CREATE CLOCK EVENT CLASS 朝\tEVERY 5m ON\tNEW.時 > 9 DO tell();"
    lines = check(text, "p.bicepl").rendered().split("\n")
    assert lines[1] == " --> p.bicepl:1:44"
    assert lines[4].index("^") - len("  | ") == 44
    assert lines[4].count("^") == 2


def test_carriage_returns_shift_no_mark() -> None:
    text = "SET CHRONON 15m;\r\nSET CHRONIN 15m;\r\n"
    lines = check(text, "p.bicepl").rendered().split("\n")
    assert lines[1:5] == [" --> p.bicepl:2:5", "  |", "2 | SET CHRONIN 15m;", "  |     ^^^^^^^ unknown setting"]


def test_a_very_long_program_line_is_reported_in_one_screen() -> None:
    program = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID (x) LIFESPAN (1d);"
    mask = " OR ".join(f"x = {i}" for i in range(2_000))
    rendered = check(f"{program} CREATE COMPLEX EVENT CLASS B () ID () AS MATCH A[{mask} OR y = 1];").rendered()
    assert "error[E203]" in rendered
    assert max(map(len, rendered.split("\n"))) < 180


def test_many_statements_without_a_semicolon_are_read_one_by_one() -> None:
    checked = check("SET CHRONON 15m\n" * 500)
    assert [d.code for d in checked.diagnostics].count("E114") == 500
    assert {d.code for d in checked.diagnostics} == {"E114", "E215"}


@pytest.mark.parametrize("mistake", ["hello;\n", "§", "SET CHRONON 15m\n"])
def test_of_too_many_mistakes_the_rest_is_left_out(mistake: str) -> None:
    checked = check(mistake * 20_000)
    left_out = [d for d in checked.diagnostics if "left out" in d.mark.label]
    assert len(left_out) == 1
    assert left_out[0].code == "E100"
    assert len(checked.diagnostics) < 2 * limits.SYNTAX_ERRORS_MAX + 10

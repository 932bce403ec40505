"""Suites as text: the short notation, places of mistakes, and that no text brings a traceback."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import augury
from augury import limits
from augury.cli import app
from augury.diagnostics import Source, render
from augury.trying.suite import Kind, Said, Suite, Unusable
from augury.trying.suite_bound import BoundSuite, Got
from augury.trying.suite_names import bound
from augury.trying.suite_notation import Misread, length_us, read_said, time_us
from augury.trying.suite_read import START_US, read_suite
from augury.trying.suite_values import Anything, Constant, Formula, NoNumber, Offset, says, worked_out
from augury.trying.suite_written import offset_text, value_text, written
from augury.trying.suite_yaml import hidden, shown

ROOT = Path(__file__).parents[2]
CARD = augury.compile((ROOT / "examples/card/card.bicepl").read_text())
SECOND = 1_000_000


def said(text: str, kind: Kind = Kind.EVENT) -> Said:
    return read_said(text, kind, START_US)


def problems(text: str) -> list[tuple[int, int, str]]:
    """What is wrong with a suite about examples/card: lines, columns, messages."""
    source = Source("tests.yaml", text)
    suite = read_suite(source)
    found = bound(suite, CARD) if isinstance(suite, Suite) else suite
    if isinstance(found, BoundSuite):
        return []
    assert found.diagnostics
    assert all(render(one, source) for one in found.diagnostics)
    return [(*source.position(one.mark.span.start), one.message) for one in found.diagnostics]


# ---- the short notation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("0", 0),
        ("0s", 0),
        ("10s", 10 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1d2h3m4s", 93784 * SECOND),
        ("-5m", -300 * SECOND),
        ("+5m", 300 * SECOND),
        ("1.5s", SECOND * 3 // 2),
        ("250ms", SECOND // 4),
        ("3us", 3),
        ("0.5us", None),
        ("5", None),
        ("5 s", None),
        ("s", None),
        ("", None),
        ("1h-5m", None),
        ("5w", None),
    ],
)
def test_a_length_of_time(text: str, us: int | None) -> None:
    assert length_us(text) == us


@given(st.integers(-(10**15), 10**15))
def test_an_offset_is_read_as_it_is_written(us: int) -> None:
    assert length_us(offset_text(us)) == us


@pytest.mark.parametrize("text", ["99999999999d", "2026-13-01", "10000-01-01", "tomorrow", "9" * 5000 + "d"])
def test_a_time_that_is_none(text: str) -> None:
    assert time_us(text, START_US) is None


def test_a_line_says_all_it_can() -> None:
    found = said(
        "withdraw `odd name`(a=1, `b c`='x''y', d=\"\\n\", e=true, f=null, g=milk, ...) at -5s seen 1h id 'q' rejected"
    )
    assert (found.change, found.name, found.is_open, found.is_rejected, found.event_id) == (
        "withdraw",
        "odd name",
        True,
        True,
        "q",
    )
    assert (found.at_us, found.seen_us) == (START_US - 5 * SECOND, START_US + 3600 * SECOND)
    arguments = [(one.name, one.value) for one in found.arguments or ()]
    assert [(name, value.value if isinstance(value, Constant) else value) for name, value in arguments] == [
        ("a", Decimal(1)),
        ("b c", "x'y"),
        ("d", "\n"),
        ("e", True),
        ("f", None),
        ("g", "milk"),
    ]


def test_values_that_are_no_constants() -> None:
    (anything, offset, formula, negative) = (one.value for one in said("A(_, -5m, -(n+1)*2, -3.5)").arguments or ())
    assert anything == Anything()
    assert isinstance(offset, Offset)
    assert offset.moment_us == START_US - 300 * SECOND
    assert isinstance(formula, Formula)
    assert [worked_out(formula, n) for n in range(3)] == [-2, -4, -6]
    assert negative == Constant(Decimal("-3.5"), "-3.5")


@pytest.mark.parametrize(("text", "wanted"), [("2+3*n", 11), ("(2+3)*n", 15), ("10-n-1", 6), ("n%2", 1), ("7/2", 3.5)])
def test_a_formula(text: str, wanted: float) -> None:
    ((argument),) = said(f"A(x={text})").arguments or ()
    assert isinstance(argument.value, Formula)
    assert float(worked_out(argument.value, 3)) == wanted


def test_a_formula_without_a_value() -> None:
    ((argument),) = said("A(x=1/n)").arguments or ()
    assert isinstance(argument.value, Formula)
    with pytest.raises(NoNumber):
        worked_out(argument.value, 0)


def test_words_that_are_names_too() -> None:
    assert said("change(x=1) at 0s").name == "change"
    assert said("change at 0s").name == "change"
    assert said("change change at 0s").change == "change"
    assert said("withdraw at(x=1) at 0s").name == "at"
    assert said("for() for for(for=1)", Kind.ACTION).about is not None


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", 0, "begins with its name"),
        ("(x=1)", 0, "begins with its name"),
        ("A(x=1", 5, "is missing"),
        ("A(x=)", 4, "no value"),
        ("A(x=1,)", 6, "no value"),
        ("A(x='a)", 4, "never ends"),
        ('A(x="\\q")', 4, "means nothing"),
        ("A(x=C-1)", 4, "no value"),
        ("A at soon", 5, "no time"),
        ("A at", 4, "missing"),
        ("A at 5s at 6s", 8, "twice"),
        ("A sen 5s", 2, "not understood"),
        ("A every 5s", 0, "go together"),
        ("A at 0s every 5 times 3", 14, "length of time"),
        ("A at 0s every 0s times 3", 14, "length of time"),
        ("A at 0s every 5s times 0", 23, "whole number"),
        ("A at 0s every 5s times 99999999999", 23, "whole number"),
        ("A id", 4, "id is missing"),
        ("A for 5", 6, "class of an event"),
        ("A ; B", 2, "not understood"),
        ("A(x=" + "(" * 60 + "1" + ")" * 60 + ")", 54, "too deeply"),
    ],
)
def test_a_mistake_is_placed(text: str, place: int, words: str) -> None:
    with pytest.raises(Misread, match=words) as caught:
        said(text)
    assert caught.value.span.start == place


@given(st.text(st.sampled_from("AB(,=)'\"`_ 0159.+-*/%ndhms…\\\n{}"), max_size=40))
def test_no_line_brings_a_traceback(text: str) -> None:
    found: Said | Misread
    try:
        found = said(text)
    except Misread as error:
        found = error
    assert 0 <= found.span.start <= found.span.end <= len(text)


# ---- values that were got ------------------------------------------------------------------------------------------

GOT = st.one_of(
    st.none(), st.booleans(), st.integers(), st.decimals(allow_nan=False, allow_infinity=False, places=3), st.text()
)


@given(GOT)
def test_what_was_got_is_said_by_how_it_is_written(value: object) -> None:
    ((argument),) = said(f"A(x={value_text(value)})").arguments or ()
    assert says(argument.value, value)


@given(st.dictionaries(st.sampled_from(["x", "y z", "É"]), GOT), st.integers(0, 2), st.integers(0, 10**12))
def test_a_line_that_was_got_can_be_read(values: dict[str, object], change: int, us: int) -> None:
    word = ("announce", "change", "withdraw")[change]
    times = {"occ_time": None if change == 2 else "2026-01-01T10:00:00Z", "det_time": "2025-12-31T10:00:00.500000Z"}
    line = {"event": "An event", "change": word, "seq": 3, **times, "constituents": [3], **values}
    text = written(Got(Kind.EVENT, "An event", line, us), START_US)
    found = said(text)
    assert found.name == "An event"
    assert found.seen_us == START_US - 50399 * SECOND - SECOND // 2
    assert [(one.name, says(one.value, values[one.name or ""])) for one in found.arguments or ()] == [
        (name, True) for name in values
    ]


@pytest.mark.parametrize(
    ("value", "got", "wanted"),
    [
        ("1", 1, True),
        ("1", Decimal("1.00"), True),
        ("1", True, False),
        ("1", "1", True),
        ("1.0", "1", False),
        ("1", None, False),
        ("NULL", None, True),
        ("NULL", 0, False),
        ("TRUE", True, True),
        ("TRUE", 1, False),
        ("milk", "milk", True),
        ("milk", "Milk", False),
        ("1h", "2026-01-01T01:00:00Z", True),
        ("1h", "2026-01-01T01:00:01Z", False),
        ("1d", "2026-01-02", True),
        ("90m", "90m", True),
        ("1h", 3600, False),
        ("'2026-01-01T02:00:00+01:00'", "2026-01-01T01:00:00Z", True),
        ("'2026-01-01'", "2026-01-01T00:00:00", False),
        ("_", None, True),
        ("_", {}, True),
    ],
    ids=repr,
)
def test_a_value_says_what_was_got(value: str, got: object, wanted: bool) -> None:
    ((argument),) = said(f"A(x={value})").arguments or ()
    assert says(argument.value, got) is wanted


# ---- YAML ----------------------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("AB(,=)'\"`- :[]{}#\nfor"), max_size=60))
def test_hiding_keeps_places_and_can_be_undone(text: str) -> None:
    assert len(hidden(text)) == len(text)
    assert shown(hidden(text)) == text


HEAD = "program: card.bicepl\ntests:\n"
TEST = HEAD + "  - name: x\n"

NINES = "9" * 5_000
WRONG = [
    ("", [(1, 1, "the suite is empty")]),
    ("# nothing\n", [(1, 1, "the suite is empty")]),
    ("[1, 2]", [(1, 1, "a suite is a mapping with program, start, engines, tests")]),
    ("program: a\ntests: [", [(2, 9, "this is no YAML: expected the node content, but found '<stream end>'")]),
    ("program: a\n\ttests: 1", [(2, 1, "this is no YAML: found character '\\t' that cannot start any token")]),
    ("program: \x01", [(1, 10, "the character U+0001 cannot stand in a suite")]),
    ("program: a\n---\nprogram: b", [(2, 1, "this is no YAML: but found another document")]),
    ("[" * 5000, [(1, 1, "the suite is nested too deeply")]),
    ("tests: []", [(1, 1, "the suite has no `program`")]),
    ("program: card.bicepl", [(1, 1, "the suite has no `tests`")]),
    ("program: card.bicepl\ntests: []", [(2, 1, "there are no tests")]),
    ("program: card.bicepl\ntests:", [(2, 1, "there are no tests")]),
    ("program:\ntests: [{name: x}]", [(1, 1, "`program` is a text")]),
    ("program: [a]\ntests: [{name: x}]", [(1, 10, "`program` is a text")]),
    ("program: a\nprogram: b\ntests: [{name: x}]", [(2, 1, "`program` is said twice")]),
    ("program: a\n? [x]\n: y\ntests: [{name: x}]", [(2, 3, "a name is a word, and not a list")]),
    (HEAD + "  - 5", [(3, 5, "a test is a mapping with name, start, engines, permutations, steps, events, advance_to, "
                             "expect, expect_actions, expect_firings, expect_some, never")]),
    (HEAD + "  - events: []", [(3, 5, "the test has no `name`")]),
    (HEAD + "  - name:\n    events: []", [(3, 5, "`name` is a text")]),
    (TEST + "    evnts: []", [(4, 5, "a test has no `evnts`")]),
    (TEST + "    events: Login at 0s", [(4, 13, "`events` is a list")]),
    (TEST + "    events:\n      - [Login]", [(5, 9, "a line is a text or a mapping, not a list")]),
    (TEST + "    engines: [spork]", [(4, 15, "there is no engine `spork`")]),
    (TEST + "    engines: []", [(4, 5, "no engine is named")]),
    (TEST + "    start: never", [(4, 12, "`never` is no time")]),
    (TEST + "    permutations: 1", [(4, 19, "`permutations` is all, none or a number from 2 to 50,000, not `1`")]),
    (TEST + "    steps: [5]", [(4, 13, "a step is a mapping with events, advance_to, expect, expect_actions, "
                                       "expect_firings, expect_some, never")]),
    (TEST + "    events: [Login(card=x)]", [(4, 14, "it does not say when it happens")]),
    (TEST + "    events: [withdraw Login at 5s]", [(4, 14, "a withdrawal happens at no time: it only becomes known")]),
    (TEST + "    events: [withdraw Login]", [(4, 14, "it does not say when it was seen")]),
    (TEST + "    events: [change Login at 0s]", [(4, 14, "whether it is a change follows from the versions before")]),
    (TEST + "    events: ['Login(...) at 0s']", [(4, 15, "an event that comes is given in full")]),
    (TEST + "    events: [Login for X at 0s]", [(4, 14, "`for` belongs to actions")]),
    (TEST + "    events: [{event: Login, at: 0s, seq: 1}]",
     [(4, 14, "an event that comes has no `seq` and no `constituents` yet")]),
    (TEST + "    events: [{card: 1}]", [(4, 14, "this does not say of which event it is")]),
    (TEST + "    events: [{event: Login, at: 0s, times: 3}]", [(4, 37, "`times` needs an `every` beside it")]),
    (TEST + "    events: [{event: Login, at: 0s, card: [1]}]",
     [(4, 43, "a value is a number, a text, true, false or null")]),
    (TEST + "    events: [{event: Login, at: 0s, occ_time: 1s}]", [(4, 37, "`at` is said twice, as `occ_time` too")]),
    (TEST + "    events: [{event: Login, at: 0s, rejected: 7}]", [(4, 47, "`rejected` is true or false")]),
    (TEST + "    expect: [Suspicious every 5s times 2]", [(4, 14, "what is expected is not repeated")]),
    (TEST + "    expect: [Suspicious rejected]", [(4, 14, "`id` and `rejected` belong to events that come")]),
    (TEST + "    expect: [Suspicious for X]", [(4, 14, "`for` belongs to actions")]),
    (TEST + "    expect: [{action: x}]", [(4, 14, "this is an action")]),
    (TEST + "    expect: [{event: Suspicious, change: no}]", [(4, 42, "there is no change `no`")]),
    (TEST + "    expect: [{event: Suspicious, seq: x}]",
     [(4, 39, "`seq` is a whole number from 0 to 4,611,686,018,427,387,904")]),
    (TEST + "    expect: [{event: Suspicious, constituents: 3}]",
     [(4, 34, "`constituents` is a list of whole numbers")]),
    (TEST + "    expect_actions: [askOwner seen 5s]", [(4, 22, "an action has one time, that of its tick")]),
    (TEST + "    expect_actions: [{event: Login}]", [(4, 22, "this is an event")]),
    (TEST + "    expect_actions: [{action: askOwner, args: 5}]", [(4, 41, "`args` is a list")]),
    (TEST + "    expect_actions: [{action: askOwner, key: {}}]", [(4, 41, "`key` needs an `event` beside it")]),
    (TEST + "    expect_actions: [{action: askOwner, arguments: []}]", [(4, 41, "an action has no `arguments`")]),
    (TEST + "    expect_firings: [Both seen 5s]", [(4, 22, "a firing has one time, that of its tick")]),
    (TEST + "    expect_firings: [{event: Login}]", [(4, 22, "this does not say which trigger fired")]),
    (TEST + "    expect_firings: [{action: askOwner}]", [(4, 22, "this is an action")]),
    (TEST + "    expect_firings: [{trigger: Both, rule: R}]", [(4, 38, "a firing has no `rule`")]),
    (TEST + "    expect_firings: [{trigger: Both, constituents: 3}]",
     [(4, 38, "`constituents` is a list of whole numbers")]),
    (TEST + "    permutations: " + NINES,
     [(4, 19, f"`permutations` is all, none or a number from 2 to {limits.SUITE_ORDERS_MAX:,}, not `{NINES}`")]),
    (TEST + "    expect_firings: [5]", [(4, 22, "a firing begins with its name")]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), WRONG)
def test_a_suite_is_refused(text: str, wanted: list[tuple[int, int, str]]) -> None:
    assert problems(text) == wanted


NAMES = [
    ("events: [Logn at 0s]", 14, "the program has no event class `Logn`"),
    ("events: [Suspicious at 0s]", 14, "`Suspicious` is a complex class: its events are derived"),
    ("events: ['Login(car=1) at 0s']", 21, "`Login` has no attribute `car`"),
    ("events: ['Login(1, 2, TRUE, 4) at 0s']", 33, "`Login` has 3 attributes"),
    ("events: ['Login(1) at 0s']", 15, "by position all 3 values are written"),
    ("events: ['Login(card=1, CARD=2) at 0s']", 29, "`card` is said twice"),
    ("events: [Withdrawal(amount=n) at 0s]", 25, "`n` counts the repetitions of an event"),
    ("events: [Withdrawal(amount=1/n) at 0s every 1s times 2]", 14, "`1/n` has no value where n is 0"),
    ("events: [Withdrawal at 9999-12-31 every 1d times 2]", 14, "its repetitions go beyond the year 9999"),
    ("expect: [Login]", 14, "`Login` is a subscribed class: its versions are not printed"),
    ("expect: [Suspicous]", 14, "the program has no event class `Suspicous`"),
    ("expect_some: [blockCard seen 5s]", 19, "an action has one time, that of its tick"),
    ("expect_actions: [bockCard]", 22, "the program has no action `bockCard`"),
    ("expect_actions: [blockCard(card=1)]", 32, "arguments of an action have no names"),
    ("expect_actions: [blockCard for Nobody]", 36, "the program has no event class `Nobody`"),
    (
        "expect_actions: [blockCard for Confirmation(accepted=TRUE)]",
        49,
        "`Confirmation` has no attribute in its key that is called `accepted`",
    ),
    ("never: [blokCard]", 13, "the program has no event class `blokCard`"),
    (
        "{events: [Login at 5m], advance_to: 1m}",
        None,
        "it is never read: the test ends with the tick 1m, before it is seen",
    ),
]


@pytest.mark.parametrize(("text", "column", "message"), NAMES)
def test_a_name_that_is_not_there_is_refused(text: str, column: int | None, message: str) -> None:
    if column is None:
        steps = HEAD + f"  - name: x\n    steps: [{text}]"
        assert [found for _, _, found in problems(steps)] == [message]
    else:
        assert problems(TEST + f"    {text}") == [(4, column, message)]


def test_the_clock_does_not_go_back() -> None:
    steps = "    steps:\n      - advance_to: 5m\n      - advance_to: 4m\n      - events: [Login at 1m]\n"
    assert problems(TEST + steps) == [
        (6, 21, "the clock stands at 5m already"),
        (7, 18, "it is seen at 1m, and the clock stands at 4m already"),
    ]
    assert problems(TEST + "    steps:\n      - advance_to: 5m\n    advance_to: 1m\n") == [
        (6, 17, "its steps go to 5m")
    ]


def test_everything_is_said_at_once_and_helps() -> None:
    text = HEAD + "  - nam: x\n    events:\n      - Logn at 0s\n      - Login(x=) at 0s\n    expct: []\n"
    found = read_suite(Source("tests.yaml", text))
    assert isinstance(found, Unusable)
    assert found.diagnostics[0].helps == ("did you mean `name`?",)
    assert len(found.diagnostics) == 4


def test_aliases_are_followed() -> None:
    text = HEAD + "  - name: x\n    events: &login\n      - Login(card=a) at 0s\n    expect: []\n"
    assert problems(text + "  - name: y\n    events: *login\n    expect: []\n") == []
    assert problems("program: a\ntests: &a [*a]") != []


# ---- no text brings a traceback ------------------------------------------------------------------------------------

GOOD = (ROOT / "examples/card/tests.yaml").read_text()


@given(st.data())
def test_a_suite_that_is_cut_and_stirred_brings_no_traceback(data: st.DataObject) -> None:
    lines = GOOD.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        line = data.draw(st.integers(0, len(lines) - 1))
        place = data.draw(st.integers(0, len(lines[line])))
        new = data.draw(
            st.sampled_from(["", ":", "-", "[", "{", "'", '"', "(", ")", "\n", "  ", "#", "&a ", "*a", "at", "!", "9"])
        )
        length = data.draw(st.integers(0, 3))
        lines[line] = lines[line][:place] + new + lines[line][place + length :]
    problems("".join(lines))


@given(st.text(max_size=60))
def test_no_text_brings_a_traceback(text: str) -> None:
    problems(text)
    problems(TEST + f"    events: [{text}]")


def test_a_file_that_is_no_suite_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    (tmp_path / "b.yaml").write_text("#" * (limits.PROGRAM_CHARACTERS_MAX + 1))
    told = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["test", *map(str, (tmp_path, *sorted(tmp_path.iterdir())))])
    assert told.exit_code == 2
    helps = [line.partition("help: ")[2] for line in told.stderr.splitlines() if "help: " in line]
    assert helps == [
        f"name its files: {tmp_path}/*.yaml",
        "save it as UTF-8; is it a suite at all?",
        "split it into several suites; is this a data file?",
    ]

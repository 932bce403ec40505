"""What is no program, or hardly one, gets a diagnostic and an exit code from the real command: never a traceback.

Texts are checked in groups, one process each, because starting one takes longer than most of them.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from augury.api import check
from augury.explain import explain_program
from augury.language.formatter import format_text

SOURCE = Path(__file__).parents[1] / "src"
SECONDS_AT_MOST = 120  # of the wall clock; what is asserted below is the processor's time
DEEP = 10_000


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str
    cpu: float
    """Seconds of processor time."""


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def augury(cache):
    def run(
        *arguments: str | Path | bytes,
        data: bytes = b"",
        shell: str = "",
        env: dict[str, str] | None = None,
        **more: Any,
    ):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*(["sh", "-c", shell, "sh"] if shell else []), sys.executable, "-m", "augury", *arguments],
            input=data,
            stdout=more.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            timeout=SECONDS_AT_MOST,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "XDG_CACHE_HOME": str(cache), **(env or {})},
            check=False,
            **more,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        err = done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in err, err[-3000:]
        assert done.returncode in (0, 1, 2, 3)
        return Answer(done.returncode, (done.stdout or b"").decode("utf-8", "replace"), err, cpu)

    return run


# ---- files that give no text -------------------------------------------------------------------------


@pytest.fixture
def unreadable(tmp_path):
    """A file that is there and cannot be opened, not even by root."""
    path = tmp_path / "loop.bicepl"
    path.symlink_to(path)
    return path


def test_a_missing_file(augury, tmp_path):
    answer = augury("check", tmp_path / "none.bicepl")
    assert (answer.code, answer.out) == (2, "")
    assert "error[E500]: there is no file" in answer.err


def test_a_directory(augury, tmp_path):
    answer = augury("check", tmp_path)
    assert answer.code == 2
    assert "E501" in answer.err


def test_a_file_that_cannot_be_opened(augury, unreadable):
    answer = augury("check", unreadable)
    assert answer.code == 2
    assert "E503" in answer.err


BYTES: dict[str, tuple[bytes, str]] = {
    "latin-1": (b"SET CHRONON 5m; -- Z\xfcrich", "E502: .*byte 0xfc in line 1 "),
    "utf-16": ("SET CHRONON 5m;".encode("utf-16"), "E502"),
    "a byte after a mark": (b"\xef\xbb\xbfSET CHRONON 5m;\n\xff", "E502: .*byte 0xff in line 2 "),
    "utf-16 without a mark": ("SET CHRONON 5m;".encode("utf-16-le"), "E101"),
    "nothing but NUL": (b"\x00" * 50, r"E101: .*U\+0000"),
    "a program of another kind": (b"\x7fELF\x02\x01\x01\x00\x00", "E101"),
    "no byte": (b"", ""),
    "a mark": (b"\xef\xbb\xbf", ""),
    "comments": (b"-- nothing\n  -- at all", ""),
    "semicolons": (b";;;\r\n;", ""),
    "a mark and ends of lines": (b"\xef\xbb\xbfSET CHRONON 5m;\r\n", ""),
}


def test_bytes_that_are_no_text(augury, tmp_path):
    files = {f"{i}.bicepl": name for i, name in enumerate(BYTES)}
    for file, name in files.items():
        (tmp_path / file).write_bytes(BYTES[name][0])
    answer = augury("check", *files, "--output", "json", cwd=tmp_path)
    assert answer.code == 1
    said = dict.fromkeys(BYTES, "")
    for diagnostic in json.loads(answer.out):
        said[files[diagnostic["file"]]] += f"{diagnostic['code']}: {diagnostic['message']}\n"
    assert [name for name, (_, says) in BYTES.items() if not re.search(says, said[name])] == []
    assert [name for name, (_, says) in BYTES.items() if said[name] and not says] == []


@pytest.mark.parametrize(
    ("data", "code", "says"), [(b"\xff", 1, "E502"), (b"", 0, "ok, 0 classes"), (b"\0", 1, "E101")]
)
def test_bytes_on_standard_input(augury, data, code, says):
    answer = augury("check", "-", data=data)
    assert answer.code == code
    assert says in answer.out + answer.err


def test_standard_input_that_is_closed(augury):
    answer = augury("check", "-", shell='exec "$@" <&-')
    assert answer.code == 2
    assert "standard input is closed" in answer.err


def test_a_name_that_is_not_utf_8(augury, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.bicepl"
    assert augury("check", path).code == 2
    (found,) = json.loads(augury("check", path, "--output", "json").out)
    assert found["code"] == "E500"
    with open(path, "w") as stream:
        stream.write("SET CHRONON 5m;")
    assert augury("check", path).code == 0


def test_a_file_of_50_mb_is_refused_at_once(augury, tmp_path):
    path = tmp_path / "large.bicepl"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    answer = augury("check", path)
    assert answer.code == 1
    assert "E402" in answer.err
    assert answer.cpu < 5  # reading it takes minutes, and starting 0.3 to 1.5 s


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device(augury, device):
    assert augury("check", device).code == (1 if device == "/dev/zero" else 0)


def test_every_file_gets_its_answer(augury, tmp_path):
    (tmp_path / "good.bicepl").write_text("SET CHRONON 5m;")
    (tmp_path / "bad.bicepl").write_text("SET CHRONON;")
    (tmp_path / "odd.bicepl").write_bytes(b"\xff")
    names = ["good.bicepl", "bad.bicepl", "none.bicepl", "odd.bicepl", "."]
    answer = augury("check", *names, "--output", "json", cwd=tmp_path)
    assert answer.code == 2
    assert [(d["file"], d["code"]) for d in json.loads(answer.out)] == [
        ("bad.bicepl", "E100"),
        ("none.bicepl", "E500"),
        ("odd.bicepl", "E502"),
        (".", "E501"),
    ]


# ---- output that goes nowhere --------------------------------------------------------------------------


def test_output_that_cannot_be_written(augury):
    with open("/dev/full", "wb") as full:
        answer = augury("check", "-", data=b"SET CHRONON 5m;", stdout=full)
    assert answer.code == 3
    assert "cannot be written" in answer.err


def test_output_is_utf_8_whatever_the_terminal_says(augury):
    data = "SET CHRONON 5m; -- ∃x\n".encode()
    assert "∃x" in augury("fmt", "-", data=data, env={"PYTHONIOENCODING": "latin-1"}).out


def test_formatting_that_cannot_be_written_leaves_the_file_alone(augury, tmp_path):
    path = tmp_path / "small.bicepl"
    path.write_text("SET   CHRONON 5m;")
    path.chmod(0o640)
    answer = augury("fmt", "--write", path, shell='ulimit -f 0; exec "$@"')
    assert answer.code == 2
    assert "cannot be written" in answer.err
    assert path.read_text() == "SET   CHRONON 5m;"
    assert augury("fmt", "--write", path).code == 0
    assert path.read_text() == "SET CHRONON 5m;\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["small.bicepl"]


# ---- texts that are too much ---------------------------------------------------------------------------

A = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID (x) LIFESPAN (5d);\n"
RULE = "RULE R () ACTION act();\n"


def match(expression: str) -> str:
    return f"{A}CREATE COMPLEX EVENT CLASS M () ID () AS MATCH {expression};"


def composite(expression: str) -> str:
    return f"{A}CREATE COMPLEX EVENT CLASS M () ID () AS COMPOSITE {expression};"


def where(condition: str) -> str:
    return match(f"A(v) WHERE {condition}")


def select(query: str) -> str:
    return f"{A}CREATE COMPLEX EVENT CLASS M (x INT) ID (x) AS {query} OCCURRING AT occTime;"


def structure(rules: str) -> str:
    return f"{A}{RULE}TRIGGER t () TRIGGEREVENT A RULESTRUC {rules};"


def nested(opening: str, inner: str, closing: str = "", depth: int = DEEP) -> str:
    return opening * depth + inner + closing * depth


def many(form: str, count: int, between: str = "\n") -> str:
    return between.join(form.format(i=i, next=(i + 1) % count, before=i - 1) for i in range(count))


def definitions(count: int, form: str) -> str:
    """d0 is A, and each of the others is made from the one before it."""
    return "DEFINE d0 = A;\n" + "".join(f"DEFINE d{i + 1} = {form.format(d=f'd{i}')};\n" for i in range(count))


def event_class(name: str, attributes: str, key: str = "") -> str:
    return f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {name} ({attributes}) ID ({key}) LIFESPAN (5d);"


WIDE = event_class("W", many("x{i} INT", DEEP, ", "), many("x{i}", DEEP, ", "))

# Group → name → text and the codes it gets; `cpu` below says how long a group may take.
TEXTS: dict[str, dict[str, tuple[str, set[str]]]] = {
    "deep MATCH": {
        "parentheses": (match(nested("(", "A", ")")), {"E401"}),
        "parentheses that are never closed": (match("(" * DEEP), {"E401"}),
        "!": (match(nested("!", "A")), {"E401"}),
        "<n>": (match(nested("<1> ", "A")), {"E401"}),
        "prior": (match(nested("prior(", "A", ", A)")), {"E401"}),
        "relative+": (match(nested("relative+(", "A", ")")), {"E401"}),
        "EXISTS": (match(many("EXISTS u{i}", DEEP, " ") + " A"), {"E401"}),
        "arguments": (match(nested("A(", "x", ")")), {"E401"}),
        "|": (match(many("A", DEEP, " | ")), {"E401"}),
        "/": (match(many("A", DEEP, " / ")), {"E401"}),
        "*": (match(many("A", DEEP, " * ")), {"E401"}),
        "=": (match("A" + " = u" * DEEP), {"E401"}),
        "names given by =": (match(many("A = u{i}", 3_000, " AND ")), {"E401"}),
    },
    "deep COMPOSITE": {
        "parentheses": (composite(nested("(", "A", ")")), {"E401"}),
        "!": (composite(nested("!", "A")), {"E100"}),
        ">": (composite(many("A", DEEP, " > ")), {"E401"}),
        "&": (composite(many("A", DEEP, " & ")), {"E401"}),
        "ANY": (composite(nested("ANY{1, (", "A", "), A}")), {"E401"}),
        "{n}": (composite("A" + "{2}" * DEEP), {"E401"}),
        "+": (composite("A" + " + 5m" * DEEP), {"E401"}),
        "AT": (composite(nested("AT [2000-01-01] (", "A", ")")), {"E401"}),
        "APERIODIC": (composite(nested("APERIODIC(", "A", ", A, A)")), {"E401"}),
        "WITHIN": (composite(nested("(", "A", " WITHIN 5m)")), {"E401"}),
        "NOT": (composite(nested("NOT(", "A", ")[A, A]")), {"E401"}),
        "rules": (structure(nested("(", "R", ")")), {"E401"}),
        "rules in order": (structure(nested("(R, R > ", "R", ")")), {"E401"}),
    },
    "deep scalars": {
        "NOT": (where(nested("NOT ", "v > 1")), {"E401"}),
        "parentheses": (where(nested("(", "v > 1", ")")), {"E401"}),
        "minus": (where(nested("- ", "v > 1")), {"E401"}),
        "CASE": (where(nested("CASE WHEN ", "v > 1", " THEN TRUE END")), {"E401"}),
        "THEN": (where(nested("CASE WHEN TRUE THEN ", "v > 1", " END")), {"E401"}),
        "functions": (where(nested("ABS(", "v", ")") + " > 1"), {"E401"}),
        "CAST": (where(nested("CAST(", "v", " AS INT)") + " > 1"), {"E401"}),
        "IN": (where(nested("v IN (", "1", ")")), {"E401"}),
        "sums": (where(f"1{' + 1' * DEEP} > 1"), {"E401"}),
        "BETWEEN, which doubles": (where(nested("(", "TRUE", " BETWEEN TRUE AND TRUE)", 60)), {"E403"}),
    },
    "deep SELECT": {
        "parentheses": (select(f"SELECT {nested('(', 'x', ')')} AS x FROM A"), {"E401"}),
        "sub-selects": (select(f"SELECT x FROM {nested('(SELECT x, occTime FROM ', 'A', ')')}"), {"E401"}),
        "CASE": (select(f"SELECT {nested('CASE WHEN TRUE THEN ', 'x', ' END')} AS x FROM A"), {"E401"}),
        "NOT": (select(f"SELECT x FROM A WHERE {nested('NOT ', 'x > 1')}"), {"E401"}),
        "minus": (select(f"SELECT {nested('- ', 'x')} AS x FROM A"), {"E401"}),
        "sums": (select(f"SELECT x{' + 1' * 2_000} AS x FROM A"), {"E401"}),
        "UNION": (select(many("SELECT x FROM A", 2_000, " UNION ALL ")), {"E401"}),
    },
    "wide": {
        "OR in MATCH": (match(many("A", 9_000, " OR ")), set()),
        "too much OR in MATCH": (match(many("A", DEEP, " OR ")), {"E403"}),
        "AND in MATCH": (match(many("A", 9_000, " AND ")), set()),
        "operands of prior": (match(f"prior({many('A', 9_000, ', ')})"), set()),
        "negated variables": (match(many("!A(v{i})", 4_000, " AND ")), set()),
        "variables under many negations": (match(f"{'!' * 60}({many('A(v{i})', 2_000, ' OR ')})"), set()),
        "| in COMPOSITE": (composite(many("A", DEEP, " | ")), set()),
        "WHERE in COMPOSITE": (composite(many("(A(v{i}) WHERE v{i} > 1)", 500, " | ")), set()),
        "OR in WHERE": (where(many("v > {i}", DEEP, " OR ")), set()),
        "AND in WHERE": (where(many("v > {i}", DEEP, " AND ")), set()),
        "rules one after the other": (structure(many("R", DEEP, " > ")), set()),
        "rules side by side": (structure(many("R", DEEP, ", ")), set()),
        "rules that take what earlier ones gave back": (
            many("RULE S{i} (x INT) ACTION act(x);", 3_000)
            + structure(
                f"{many('S{i}(1)', 3_000, ' > ')} > "
                f"({many('S{i}(RETURNED(S0))', 3_000, ', ')}) > ({many('(R > S{i}(RETURNED(S{i})))', 3_000, ', ')})"
            ),
            set(),
        ),
    },
    "definitions": {
        "exponential": (definitions(60, "{d} AND prior({d}, {d})") + match("d60"), {"E403"}),
        "as large as may be": (definitions(10, "{d} AND !{d}") + match("d10"), set()),
        "in a chain": (definitions(1_000, "!{d}") + match("d1000"), {"E401"}),
        "in a circle of 10,000": (many("DEFINE d{i} = d{next};", DEEP), {"E301"}),
        "in 100 knots": (many("DEFINE d{i} = d{next} OR prior(d{next}, d0);", 100), {"E301"}),
        "used by 1,000 others": (A + definitions(11, "{d} AND !{d}") + many("DEFINE f{i} = d11;", 1_000), set()),
        "used by 1,000 classes": (
            A + definitions(11, "{d} AND !{d}") + many("CREATE COMPLEX EVENT CLASS M{i} () ID () AS MATCH d11;", 1_000),
            {"E403"},
        ),
    },
    "classes": {
        "10,000 in one circle": (
            many("CREATE COMPLEX EVENT CLASS C{i} () ID () AS MATCH C{next};", DEEP),
            {"E300"},
        ),
        "a chain of 5,000": (
            many("CREATE COMPLEX EVENT CLASS C{i} () ID () AS MATCH C{before};", 5_000).replace("C-1", "A") + A,
            set(),
        ),
    },
    "duplicates": {
        "10,000 of one name": (A * DEEP, {"E201"}),
        "10,000 attributes of one name": (event_class("W", many("x INT", DEEP, ", ")), {"E202"}),
    },
    "10,000 attributes": {
        "declared": (WIDE, set()),
        "unknown in the key": (event_class("W", many("x{i} INT", DEEP, ", "), many("y{i}", 2_000, ", ")), {"E205"}),
        "unknown in a mask": (f"{WIDE}\n{match('W[' + many('y{i} > 1', 2_000, ' OR ') + ']')}", {"E203"}),
        "mapped": (f"{WIDE}\nSOURCE W FROM COLUMNS ({many('c AS x{i}', DEEP, ', ')});", set()),
        "too few arguments": (
            WIDE + many("CREATE COMPLEX EVENT CLASS M{i} () ID () AS MATCH W(v);", 500),
            {"E206"},
        ),
    },
    "unknown names": {
        "classes in MATCH": (
            many(event_class("C{i}", ""), 500) + match(many("D{i}", 9_900, " OR ")),
            {"E200"},
        ),
        "classes in COMPOSITE": (
            many(event_class("C{i}", ""), 500) + composite(many("D{i}", 2_000, " | ")),
            {"E200"},
        ),
        "rules": (many("RULE S{i} () ACTION act();", 1_000) + structure(many("Q{i}", 2_000, ", ")), {"E217"}),
        "variables": (where(many("w{i} > 1", 2_000, " OR ")), {"E214"}),
        "functions": (where(many("FUN{i}(v) > 1", 2_000, " OR ")), {"E211"}),
        "types": (event_class("W", many("x{i} INTT", 2_000, ", ")), {"E204"}),
        "settings": (many("SET CHRONO{i} 5m;", 2_000), {"E215"}),
        "zones": (many("CREATE CLOCK EVENT CLASS C{i} AT '0 9 * * *' ZONE 'Europe/Wien{i}';", 500), {"E234"}),
    },
    "mistakes": {
        "in every statement": ("CREATE x;\n" * DEEP, {"E100"}),
        "a table of another program": ("1;2;3\n" * DEEP, {"E100"}),
        "starts of statements": ("SET " * DEEP, {"E100", "E114"}),
        "no semicolon anywhere": (A.replace(";", "") * 1_000, {"E100", "E114", "E201"}),
        "characters": ("# " * 500_000, {"E100", "E101"}),
        "times that are not closed": ("AT [\n" * 200_000, {"E100", "E107"}),
        "quotes in SQL that are not closed": ("x AS SELECT " + "\\'\n" * 100_000, {"E100"}),
        "comments in SQL that are not closed": ("x AS SELECT /*;\n" * 20_000, {"E100"}),
    },
    "long": {
        "a string": (where(f"'{'a' * 5_000_000}' = 'x'"), set()),
        "a string of quotes": (where("'" + "''" * 2_000_000 + "' = 'x'"), set()),
        "a string that is not closed": (f"{A}SET CHRONON '{'a' * 5_000_000}", {"E102"}),
        "a name": (match("a" * 5_000_000), {"E200"}),
        "a number": (where(f"{'1' * 5_000_000} > v"), {"E110"}),
        "a fraction": (where(f"1.{'1' * 5_000_000} > v"), {"E110"}),
        "a duration": (composite(f"A + {'1' * 5_000_000}d"), {"E110"}),
        "a time": (composite(f"AT [1999 01 01 {'1' * 5_000} 0 0] A"), {"E108"}),
        "an hour": (composite("AT [1999 01 01 99999999999 0 0] A"), {"E108"}),
        "a comment": (f"{A}-- {'x' * 5_000_000}", set()),
        "blanks": (A + " " * 5_000_000, set()),
        "blanks in a SELECT": (select(f"SELECT x{' ' * 2_000_000}FROM A"), set()),
    },
}
CPU_AT_MOST = 15.0
LARGE = {"wide", "definitions", "classes", "duplicates", "10,000 attributes", "unknown names"}
"""Groups of size rather than depth, which take long: for `make soak`."""
GROUPS = [pytest.param(group, marks=[pytest.mark.soak] if group in LARGE else []) for group in TEXTS]


@pytest.mark.parametrize("group", GROUPS)
def test_texts_get_their_codes(augury, tmp_path, group):
    files = {f"{i}.bicepl": name for i, name in enumerate(TEXTS[group])}
    for file, name in files.items():
        (tmp_path / file).write_text(TEXTS[group][name][0], "utf-8")
    answer = augury("check", *files, "--output", "json", cwd=tmp_path)
    found: dict[str, set[str]] = {name: set() for name in files.values()}
    for diagnostic in json.loads(answer.out):
        if diagnostic["severity"] == "error":
            found[files[diagnostic["file"]]].add(diagnostic["code"])
    assert {name: codes - TEXTS[group][name][1] for name, codes in found.items() if codes - TEXTS[group][name][1]} == {}
    assert {name for name, (_, codes) in TEXTS[group].items() if codes and not found[name]} == set()
    assert answer.code == 1 if any(found.values()) else answer.code == 0
    assert answer.cpu < CPU_AT_MOST


def test_a_circle_is_named_but_not_all_of_it():
    (found,) = check(many("CREATE COMPLEX EVENT CLASS C{i} () ID () AS MATCH C{next};", 1_000)).errors
    assert "C0 → C1 → C2" in found.message
    assert "981 more" in found.message
    assert len(found.others) < 20


def test_messages_do_not_list_hundreds_of_names():
    attributes = many("x{i} INT", 500, ", ")
    texts = [
        event_class("W", attributes) + match("W(v)"),
        event_class("W", attributes) + match("W[y > 1]"),
        event_class("W", attributes, "nobody"),
        event_class("W", attributes) + "RULE S () ACTION POST W(1);",
        f"RULE S ({attributes}) ACTION act();" + structure("S"),
    ]
    for text in texts:
        for diagnostic in check(text).errors:
            said = [diagnostic.message, diagnostic.mark.label, *diagnostic.helps]
            assert sum(map(len, said)) < 1_000


def test_a_name_as_long_as_the_program_is_cut_where_it_is_shown():
    assert len(check(match("a" * 100_000)).rendered()) < 5_000


def test_proposals_are_made_for_the_first_mistakes():
    found = check(many(event_class("Class{i}", ""), 100) + match(many("Klass{i}", 2_000, " OR "))).errors
    assert found[0].helps == ("did you mean `Class0`?",)
    assert not found[-1].helps or "did you mean" not in found[-1].helps[0]


def test_after_1_000_mistakes_the_rest_is_left_out():
    found = check("x;\n" * 5_000).errors
    assert len(found) == 1_001
    assert found[-1].message == "more than 1,000 places cannot be read"


@pytest.mark.parametrize("number", ["9" * 39, "- " + "9" * 39, "0." + "9" * 39])
def test_a_constant_too_long_for_any_type_does_not_stand_for_anything(number):
    (found,) = check(match(f"A({number})")).errors
    assert (found.code, found.mark.span.start) == ("E209", match(f"A({number})").index(number))


# ---- as deep as may be: every stage takes it ---------------------------------------------------------------

DEEPEST: dict[str, str] = {
    "parentheses": match(nested("(", "A", ")", 60)),
    "!": match(nested("!", "A", depth=60)),
    "prior": match(nested("prior(A, ", "A", ")", 60)),
    "EXISTS": match(many("EXISTS u{i} A = u{i} AND", 40, " ") + " A"),
    "definitions": definitions(60, "!{d}") + match("d60"),
    ">": composite(many("A", 60, " > ")),
    "APERIODIC": composite(nested("APERIODIC(", "A", ", A, A)", 60)),
    "NOT": composite(nested("NOT(", "A", ")[A, A]", 60)),
    "WITHIN": composite(nested("(", "A", " WITHIN 5m)", 60)),
    "scalar NOT": where(nested("NOT ", "v > 1", depth=60)),
    "CASE": where(nested("CASE WHEN TRUE THEN ", "v > 1", " END", 60)),
    "functions": where(nested("ABS(", "v", ")", 60) + " > 1"),
    "BETWEEN": where(nested("(", "TRUE", " BETWEEN TRUE AND TRUE)", 8)),
    "sub-selects": select(f"SELECT x FROM {nested('(SELECT x, occTime FROM ', 'A', ')', 10)}"),
    "rules": structure(nested("(R, R > ", "R", ")", 40)),
}


@pytest.mark.parametrize("name", DEEPEST)
def test_every_stage_takes_what_is_deep(name):
    checked = check(DEEPEST[name])
    assert checked.errors == ()
    assert len(explain_program(checked, None, "algebra")) < 200_000
    assert len(explain_program(checked, None, "syntax")) < 200_000
    formatted = format_text(DEEPEST[name])
    assert isinstance(formatted, str)
    assert check(formatted).syntax == checked.syntax


# ---- programs that are merely large --------------------------------------------------------------------------


def test_a_program_of_thousands_of_classes_in_one_line(augury, tmp_path):
    path = tmp_path / "large.bicepl"
    path.write_text(many(event_class("C{i}", "x INT, y VARCHAR(30)", "x"), 5_000, " "))
    answer = augury("check", path)
    assert (answer.code, answer.out.split(": ")[1]) == (0, "ok, 5000 classes\n")
    assert answer.cpu < 8


@pytest.mark.soak
@pytest.mark.parametrize("between", ["\n", " "], ids=["lines", "one line"])
def test_a_program_of_9_mb(augury, tmp_path, between):
    path = tmp_path / "large.bicepl"
    path.write_text(many(event_class("C{i}", "x INT, y VARCHAR(30)", "x"), 100_000, between))
    answer = augury("check", path)
    assert answer.code == 0
    assert answer.cpu < 60

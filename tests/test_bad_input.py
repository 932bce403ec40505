"""Input no program should be: each gets a diagnostic and exit code 1 or 2, in bounded time, never a traceback."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from augury.api import check

CLASSES = "".join(f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {c} (x INT) ID () LIFESPAN (1d);\n" for c in "ABC")
DEEP = 10_000


def run(*paths: Path | str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "augury", "check", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return done


@pytest.mark.parametrize(
    ("content", "code", "exit_code"),
    [
        (b"\xff\xfe\x00C", "E502", 1),
        ("CREATE".encode("utf-16"), "E502", 1),
        ("-- caf\u00e9".encode("latin-1"), "E502", 1),
        (b"\x00\x00\x00", "E101", 1),
        (b"", None, 0),
        (b"-- nothing but a comment\n", None, 0),
        (b"\xef\xbb\xbf-- a byte order mark is no mistake\nSET CHRONON 1m;\r\n", None, 0),
        (b"x" * 5_000_000, "E100", 1),
        (b"'" + b"x" * 5_000_000, "E102", 1),
    ],
    ids=["binary", "utf-16", "latin-1", "nul", "empty", "comment", "bom", "one-line", "one-string"],
)
def test_bytes_that_are_no_program(tmp_path: Path, content: bytes, code: str | None, exit_code: int) -> None:
    path = tmp_path / "p.bicepl"
    path.write_bytes(content)
    done = run(path)
    assert done.returncode == exit_code
    assert code is None or f"error[{code}]" in done.stderr


def test_a_file_of_fifty_megabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    begun = time.monotonic()
    done = run(path)
    assert done.returncode == 1
    assert "error[E402]" in done.stderr
    assert time.monotonic() - begun < 10


def test_missing_files_folders_and_good_files_in_one_call(tmp_path: Path) -> None:
    good = tmp_path / "good.bicepl"
    good.write_text("SET CHRONON 1m;", "utf-8")
    done = run(tmp_path / "missing.bicepl", tmp_path, good)
    assert done.returncode == 2
    assert "error[E500]" in done.stderr
    assert "error[E501]" in done.stderr
    assert "good.bicepl: ok" in done.stdout


def match(expression: str) -> str:
    return f"{CLASSES}CREATE COMPLEX EVENT CLASS T () ID () AS MATCH {expression};"


def composite(expression: str) -> str:
    return f"{CLASSES}CREATE COMPLEX EVENT CLASS T () ID () AS COMPOSITE {expression};"


def mask(expression: str) -> str:
    return match(f"A[{expression}]")


def select(condition: str) -> str:
    return f"{CLASSES}CREATE COMPLEX EVENT CLASS T () ID () AS SELECT x FROM A WHERE {condition} OCCURRING AT occTime;"


NESTED = {
    "match parentheses": match("(" * DEEP + "A" + ")" * DEEP),
    "match not": match("!" * DEEP + "A"),
    "match prior": match("prior(" * DEEP + "A" + ", A)" * DEEP),
    "match exists": match("".join(f"EXISTS x{i} " for i in range(DEEP)) + "A"),
    "match nth": match("<1> " * DEEP + "A"),
    "match pipe": match(" | ".join(["any"] * DEEP)),
    "match series": match(" * ".join(["A"] * DEEP)),
    "match equate": match("A" + "".join(f" = x{i}" for i in range(DEEP))),
    "match unclosed": match("(" * DEEP),
    "composite parentheses": composite("(" * DEEP + "A" + ")" * DEEP),
    "composite sequence": composite(" > ".join(["A"] * DEEP)),
    "composite plus": composite("A" + " + 1s" * DEEP),
    "mask not": mask("NOT " * DEEP + "x > 1"),
    "mask minus": mask("-" * 1 + " -" * DEEP + "x > 1"),
    "mask sum": mask("x" + " + x" * DEEP + " > 1"),
    "mask call": mask("ABS(" * DEEP + "x" + ")" * DEEP + " > 1"),
    "mask case": mask("CASE WHEN " * DEEP + "TRUE" + " THEN TRUE END" * DEEP),
    "select parentheses": select("(" * DEEP + "x" + ")" * DEEP + " > 1"),
    "select not": select("NOT " * DEEP + "x > 1"),
    "select in": select("x IN (SELECT x FROM A WHERE " * 300 + "TRUE" + ")" * 300),
    "rules": f"RULE R () ACTION a();\n{CLASSES}TRIGGER t () TRIGGEREVENT A RULESTRUC {'(' * DEEP}R{')' * DEEP};",
}


@pytest.mark.parametrize("name", NESTED)
def test_nesting_ten_thousand_deep(name: str) -> None:
    begun = time.process_time()
    checked = check(NESTED[name])
    assert checked.errors, "too deep to be taken"
    assert {d.code for d in checked.errors} <= {"E100", "E115", "E401", "E403", "E117"}
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "text", [match(" OR ".join(["A"] * DEEP)), mask(" AND ".join(["x > 1"] * DEEP))], ids=["or", "and"]
)
def test_a_long_list_is_not_deep(text: str) -> None:
    assert {d.code for d in check(text).errors} <= {"E403"}


def test_many_classes_with_one_name_many_attributes_and_many_unknown_names() -> None:
    begun = time.process_time()
    one = "CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A () ID () LIFESPAN (1d);\n"
    assert len(check(one * 3000).errors) == 2999
    attributes = ", ".join(f"a{i} INT" for i in range(5000))
    wide = f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS W ({attributes}) ID (a0) LIFESPAN (1d);"
    assert not check(wide).errors
    unknown = "".join(f"CREATE COMPLEX EVENT CLASS T{i} () ID () AS MATCH Unknown{i};\n" for i in range(1000))
    assert len(check(unknown).errors) == 1000
    assert time.process_time() - begun < 20


def test_a_chain_and_a_circle_of_thousands_of_classes() -> None:
    def chain(last: str) -> str:
        text = [f"CREATE COMPLEX EVENT CLASS C{i} () ID () AS MATCH C{i + 1};" for i in range(2999)]
        return "\n".join([*text, last])

    assert not check(chain("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS C2999 () ID () LIFESPAN (1d);")).errors
    circle = check(chain("CREATE COMPLEX EVENT CLASS C2999 () ID () AS MATCH C0;"))
    assert [d.code for d in circle.errors] == ["E300"]

"""`augury test --update`: what was got is written down, and nothing else is touched."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import augury
from augury.diagnostics import Source
from augury.environment import Machine
from augury.trying import suite_verb
from augury.trying.suite import Suite
from augury.trying.suite_bound import BoundSuite, Result
from augury.trying.suite_names import bound
from augury.trying.suite_read import read_suite
from augury.trying.suite_run import Runner
from augury.trying.suite_update import updated
from augury.trying.suite_written import value_text

PROGRAM = """
SET CHRONON 1m;
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT, t STRING) ID () LIFESPAN (1d) ON ANNOUNCEMENT DO note(NEW.x, NEW.t);
CREATE COMPLEX EVENT CLASS Large (x INT, t STRING) ID () AS MATCH A(x, t) WHERE x > 10;
"""
RUNNER = Runner(augury.compile(PROGRAM))
HEAD = "program: a.bicepl   # the program\n\ntests:\n  - name: one\n    events:   # what comes\n"
EVENTS = "      - A(x=9, t=a) at 0s\n      - A(x=11, t='b: c') at 1s\n      - A(x=12) at 2s\n"


def run(text: str) -> list[Result]:
    suite = read_suite(Source("tests.yaml", text))
    assert isinstance(suite, Suite), suite
    ready = bound(suite, RUNNER.program)
    assert isinstance(ready, BoundSuite), ready
    return list(RUNNER.run(ready))


def rewritten(text: str) -> str:
    """The suite with what was got; looked at again, it holds, and nothing more is to be done."""
    new = updated(Source("tests.yaml", text), run(text)).text
    results = run(new)
    assert all(result.passed for result in results), new
    assert updated(Source("tests.yaml", new), results).text == new
    return new


WRITTEN = [
    (
        "    expect: []   # nothing\n    permutations: all\n",
        """    expect:
      - Large(x=11, t='b: c') at 1s seen 1s
      - Large(x=12, t=NULL) at 2s seen 2s   # nothing
    permutations: all
""",
    ),
    (
        "    expect:\n    permutations: all\n",
        """    expect:
      - Large(x=11, t='b: c') at 1s seen 1s
      - Large(x=12, t=NULL) at 2s seen 2s
    permutations: all
""",
    ),
    (
        "    expect: [Large(x=12), Large(x=13)]\n",
        """    expect:
      - Large(x=11, t='b: c') at 1s seen 1s
      - Large(x=12)
""",
    ),
    (
        """    expect:
    # above all
      # the second one
      - Large(x=12)   # stays as it is
      # the third one
      - Large(x=13)   # goes

    # at the end
    expect_some: [Large]
""",
        """    expect:
    # above all
      - Large(x=11, t='b: c') at 1s seen 1s
      # the second one
      - Large(x=12)   # stays as it is

    # at the end
    expect_some: [Large]
""",
    ),
    (
        "    expect_actions:\n    - note(9, ...)\n    - 'note(11, _)'\n",
        """    expect_actions:
    - note(9, ...)
    - 'note(11, _)'
    - note(12, NULL) for A at 1m
""",
    ),
    (
        "    expect_actions:\n      - {action: note, args: [9, a]}\n      - action: note\n        args: [11, b]\n",
        """    expect_actions:
      - {action: note, args: [9, a]}
      - note(11, 'b: c') for A at 1m
      - note(12, NULL) for A at 1m
""",
    ),
    (
        "    steps:\n      - {advance_to: 1m, expect: [], expect_actions: [note, note(11, _)]}\n"
        "      - advance_to: 2m\n        expect:\n          - Large   # no\n        expect_actions: []\n",
        """    steps:
      - {advance_to: 1m, expect: ["Large(x=11, t='b: c') at 1s seen 1s", "Large(x=12, t=NULL) at 2s seen 2s"], """
        """expect_actions: ["note", "note(11, _)", "note(12, NULL) for A at 1m"]}
      - advance_to: 2m
        expect: []
        expect_actions: []
""",
    ),
    (
        "",
        """    expect:
      - Large(x=11, t='b: c') at 1s seen 1s
      - Large(x=12, t=NULL) at 2s seen 2s
    expect_actions:
      - note(9, 'a') for A at 1m
      - note(11, 'b: c') for A at 1m
      - note(12, NULL) for A at 1m
""",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), WRITTEN)
@pytest.mark.parametrize("rest", ["", "\n  # the next one\n  - name: two\n    events: []\n    expect: []  # none\n"])
def test_what_was_got_is_written_down(before: str, after: str, rest: str) -> None:
    whole = HEAD + EVENTS + before + rest
    assert rewritten(whole) == HEAD + EVENTS + after + rest


def test_a_suite_without_a_last_line_break() -> None:
    text = HEAD + EVENTS + "    expect: []"
    assert rewritten(text).endswith("\n      - Large(x=12, t=NULL) at 2s seen 2s")


def test_a_list_that_holds_is_left_alone() -> None:
    text = HEAD + EVENTS + "    expect: [ Large , Large ]\n"
    assert rewritten(text) == text


def test_what_is_not_exact_is_left_alone() -> None:
    text = HEAD + EVENTS + "    expect: []\n    never: [Large]\n"
    new = updated(Source("tests.yaml", text), run(text)).text
    assert new.endswith("    never: [Large]\n")
    assert [failure.message for result in run(new) for failure in result.failures] == ["what must never be is there"]


def test_an_alias_is_left_to_people() -> None:
    text = HEAD + EVENTS + "    expect: &all [Large, Large]\n  - name: two\n    events: []\n    expect: *all\n"
    update = updated(Source("tests.yaml", text), run(text))
    assert update.text == text
    assert update.by_hand == ["line 12: `expect` is an alias: its list stands elsewhere"]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(8, 14), st.text(max_size=12)), max_size=5),
    st.lists(st.sampled_from(["Large", "Large(x=12)", "{event: Large, x: 11}", "'Large(x=13, _)'"]), max_size=4),
    st.booleans(),
)
def test_any_texts_are_written_so_that_they_hold(rows: list[tuple[int, str]], lines: list[str], is_flow: bool) -> None:
    came = "".join(f"      - A(x={x}, t={value_text(t)}) at {i}s\n" for i, (x, t) in enumerate(rows))
    listed = f" [{', '.join(lines)}]" if is_flow else "".join(f"\n      - {line}  # {line}" for line in lines)
    rewritten(
        f"program: a.bicepl\ntests:\n  - name: one\n    events:\n{came}    expect:{listed}\n    permutations: none\n"
    )


# ---- files -----------------------------------------------------------------------------------------------------------


def on_disk(folder: Path, text: str) -> Path:
    (folder / "a.bicepl").write_text(PROGRAM)
    path = folder / "tests.yaml"
    path.write_bytes(text.encode())
    return path


def update(path: Path) -> suite_verb.Tested:
    return suite_verb.tested([str(path)], 1, Machine(), update=True, tell=None)


def test_a_file_is_rewritten_once(tmp_path: Path) -> None:
    path = on_disk(tmp_path, HEAD + EVENTS + "    expect: []\n")
    first = update(path)
    assert (first.exit_code, first.notes) == (0, (f"{path}: rewritten",))
    new = path.read_bytes()
    assert b"Large(x=11" in new
    again = update(path)
    assert (again.exit_code, again.notes) == (0, ())
    assert path.read_bytes() == new


def test_line_ends_stay_as_they_are(tmp_path: Path) -> None:
    path = on_disk(tmp_path, (HEAD + EVENTS + "    expect: []\n").replace("\n", "\r\n"))
    assert update(path).exit_code == 0
    new = path.read_bytes()
    assert new.count(b"\n") == new.count(b"\r\n") == 11
    assert update(path).notes == ()


def test_what_still_fails_is_told(tmp_path: Path) -> None:
    found = update(on_disk(tmp_path, HEAD + EVENTS + "    expect: []\n    never: [Large]\n"))
    assert found.exit_code == 1
    assert [failure.message for result in found.results for failure in result.failures] == [
        "what must never be is there"
    ]


def test_a_suite_that_cannot_be_written_stays(tmp_path: Path) -> None:
    path = on_disk(tmp_path, HEAD + EVENTS + "    expect: []\n")
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # as if the disk were full
    try:
        found = update(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert found.exit_code == 2
    assert [diagnostic.code for diagnostic, _ in found.reports[0].problems] == ["E503"]
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.bicepl", "tests.yaml"]

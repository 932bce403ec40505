"""What a run shows on a terminal: a bar, nothing of it afterwards, and the same bytes on standard output as always."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from augury.api import compile
from augury.cli import app
from augury.engine.progress import Far, at_tick, counting, in_words
from augury.history.raw import Raw, RawRows, RawTable
from augury.local.bar import bar_on
from augury.local.replay import replay
from augury.local.summary import closing_of
from tests.terminal import Terminal, shown

EXAMPLES = Path(__file__).parents[1] / "examples"
SECOND = 1_000_000
HOUR = 3600 * SECOND


def arguments(name: str, *more: str) -> list[str]:
    folder = EXAMPLES / name
    return ["run", str(folder / f"{name}.bicepl"), "--events", str(folder / "events.jsonl"), *more]


def on_terminal(args: Sequence[str], monkeypatch: pytest.MonkeyPatch, term: str = "xterm-256color") -> tuple[str, str]:
    """Standard output, which is no terminal, and what was written to standard error, which is one."""
    monkeypatch.setenv("TERM", term)
    printed = io.StringIO()
    with Terminal() as terminal, redirect_stdout(printed), redirect_stderr(terminal.stream):
        app(list(args), standalone_mode=False)
    return printed.getvalue(), terminal.text


# ---- the value ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("far", "words", "share"),
    [
        (Far("starting Spark"), "", None),
        (Far("reading", 1200), "1,200 rows", None),
        (Far("ticks", 5, 20), "5 of 20 rows", 0.25),
        (Far("ticks", 30, 20), "30 of 20 rows", 1.0),
        (Far("ticks", 0, 0), "0 of 0 rows", None),
        (Far("on Spark", tasks=3, tasks_all=4), "3 of 4 tasks", 0.75),
        (Far("on Spark", 9, tasks=0, tasks_all=0), "9 rows", None),
        (
            Far("stream", 1, 2, 7, 26 * HOUR, 25 * HOUR + 59 * SECOND, 1, 2),
            "1 of 2 rows · tick 7, 1970-01-02T02:00:00Z · 1d 1h behind · 1 of 2 tasks",
            0.5,
        ),
        (Far("x", tick=HOUR, lag_us=0), "at 1970-01-01T01:00:00Z · 0s behind", None),
        (Far("x", lag_us=90 * SECOND), "1m 30s behind", None),
    ],
)
def test_how_far_in_words(far: Far, words: str, share: float | None) -> None:
    assert in_words(far) == words
    assert far.share == share


def test_ticks_are_counted_from_the_first_and_lag_ends_at_the_newest_row() -> None:
    assert at_tick("ticks", None, None, 9 * HOUR, HOUR, rows=3) == Far("ticks", 3)
    assert at_tick("ticks", 4 * HOUR, 2 * HOUR, 9 * HOUR, HOUR) == Far("ticks", ticks=3, tick=4 * HOUR, lag_us=5 * HOUR)
    assert at_tick("ticks", 10 * HOUR, 2 * HOUR, 9 * HOUR, HOUR).lag_us == 0
    assert at_tick("ticks", 4 * HOUR, None, None, HOUR) == Far("ticks", tick=4 * HOUR)


def test_rows_are_counted_while_they_are_read_and_stay_the_same() -> None:
    raws: list[Raw] = [RawTable("t", pa.table({"event": ["A", "A", "B"]})), RawRows("r", [{"event": "A"}], [1])]
    told: list[Far] = []
    assert list(counting(raws, told.append)) == raws
    assert told == [Far("reading", 3), Far("reading", 4)]
    assert list(counting(raws, None)) == raws


# ---- the local engine --------------------------------------------------------------------------------------------


def test_the_local_engine_tells_rows_ticks_and_lag() -> None:
    program = compile((EXAMPLES / "groceries" / "groceries.bicepl").read_text("utf-8"))
    told: list[Far] = []
    found = replay(program, str(EXAMPLES / "groceries" / "events.jsonl"), "local", None, None, None, told.append)
    lines = "".join(found.texts()).splitlines()
    assert told[0] == Far("reading", 17)
    ticks = [far for far in told if far.doing == "ticks"]
    assert (ticks[-1].rows, ticks[-1].rows_all, ticks[-1].lag_us) == (17, 17, 0)
    assert [far.rows for far in ticks] == sorted(far.rows or 0 for far in ticks)
    assert [far.lag_us for far in ticks] == sorted((far.lag_us or 0 for far in ticks), reverse=True)
    assert (ticks[0].ticks, ticks[0].lag_us) == (1, 6 * 24 * HOUR + 23 * HOUR + 37 * 60 * SECOND)
    assert ticks[-1].ticks == 7 * 24 * 4
    assert sum(found.given.values()) == sum('"change"' in line for line in lines)


def test_a_history_at_once_is_told_as_well_and_gives_the_same_counts() -> None:
    program = compile((EXAMPLES / "discount" / "discount.bicepl").read_text("utf-8"))
    told: list[Far] = []
    found = replay(program, str(EXAMPLES / "discount" / "events.jsonl"), "local", None, None, None, told.append)
    assert told == [Far("reading", 23), Far("detecting", 23)]
    lines = "".join(found.texts()).splitlines()
    assert found.given == {name: sum(f'"{name}"' in line for line in lines) for name in found.given}
    assert sum(found.given.values()) == len(lines)


# ---- the bar -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["groceries", "discount"])
def test_a_bar_is_drawn_and_gone_at_the_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = CliRunner().invoke(app, arguments(name))
    printed, text = on_terminal(arguments(name), monkeypatch)
    assert printed == piped.stdout
    assert "━" in text
    assert " rows" in text
    left = shown(text)
    assert left[: len(piped.stderr.splitlines())] == piped.stderr.splitlines()
    assert [line.split(" ")[0] for line in left[len(piped.stderr.splitlines()) :]] == ["versions", "took", "results:"]


def test_quiet_and_a_terminal_that_cannot_erase_have_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    piped = CliRunner().invoke(app, arguments("groceries"))
    printed, text = on_terminal(arguments("groceries", "--quiet"), monkeypatch)
    assert (printed, text.replace("\r\n", "\n")) == (piped.stdout, piped.stderr)
    printed, text = on_terminal(arguments("groceries"), monkeypatch, "dumb")
    assert (printed, text.replace("\r\n", "\n")) == (piped.stdout, piped.stderr)


def test_a_failure_is_told_after_the_bar_has_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm")
    args = ["run", str(EXAMPLES / "orders" / "orders.bicepl"), "--events", str(tmp_path / "none.jsonl")]
    with Terminal() as terminal, redirect_stdout(io.StringIO()), redirect_stderr(terminal.stream):
        assert app(args, standalone_mode=False) == 2
    left = shown(terminal.text)
    assert left[0].startswith("error[E510]: ")
    assert not any("━" in line for line in left)


def test_a_process_whose_output_and_errors_are_one_terminal_leaves_just_its_lines() -> None:
    piped = CliRunner().invoke(app, arguments("groceries"))
    with Terminal() as terminal:
        done = subprocess.run(
            [sys.executable, "-m", "augury", *arguments("groceries")],
            stdout=terminal.slave,
            stderr=terminal.slave,
            env={**os.environ, "TERM": "xterm"},
            check=False,
            timeout=300,
        )
    assert done.returncode == 0
    assert "━" in terminal.text
    left = shown(terminal.text)
    lines = [*piped.stdout.splitlines(), *piped.stderr.splitlines()]
    assert left[: len(lines)] == lines
    assert not any("━" in line for line in left)


def test_what_others_say_on_standard_error_stays_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    with Terminal() as terminal, redirect_stderr(terminal.stream), bar_on(terminal.stream) as bar:
        assert bar.tell is not None
        bar.tell(Far("ticks", 1, 2))
        print("a warning", file=sys.stderr)
        bar.tell(Far("more", 2, 2))
    assert "1 of 2 rows" in terminal.text
    assert shown(terminal.text) == ["a warning"]


def test_no_terminal_is_told_nothing() -> None:
    stream = io.StringIO()
    with bar_on(stream) as bar, bar.aside():
        assert (bar.tell, bar.is_drawn) == (None, False)
    with bar_on(None) as bar:
        assert bar.tell is None
    assert stream.getvalue() == ""


# ---- the closing -------------------------------------------------------------------------------------------------


def test_the_closing_says_what_was_found_how_long_it_took_and_where_it_is(tmp_path: Path) -> None:
    store, refused = str(tmp_path / "my fridge.db"), str(tmp_path / "refused.jsonl")
    done = CliRunner().invoke(app, arguments("groceries", "--store", store, "--rejected", refused, "--closing"))
    assert done.exit_code == 0
    found, took, results, look, rejected = done.stderr.splitlines()[2:]
    given = {
        name: sum(f'"event": "{name}", "change"' in line for line in done.stdout.splitlines())
        for name in ("InstantReplenishingNeeded", "ReplenishingNeeded")
    }
    assert found == "versions of complex events: " + ", ".join(f"{name} {count}" for name, count in given.items())
    assert took.startswith("took ")
    assert took.endswith(" s")
    assert float(took.split()[1]) >= 0
    assert results == f"results: on standard output; every tick in {store}"
    assert look == f"  look at them: augury history InstantReplenishingNeeded --store '{store}'"
    assert rejected == f"rejected events: in {refused}"
    asked = CliRunner().invoke(app, ["history", "InstantReplenishingNeeded", "--store", store])
    assert (asked.exit_code, asked.stderr) == (0, "")
    assert len(asked.stdout.splitlines()) == 2 + given["InstantReplenishingNeeded"]


def test_the_closing_keeps_a_password_to_itself() -> None:
    program = compile("CREATE IMMUTABLE SUBSCRIBED EVENT CLASS A (x INT) ID () LIFESPAN (1d);")
    text = closing_of(program, {}, 1.25, "postgresql://me:secret@localhost/d", None)
    assert "secret" not in text
    assert text.splitlines() == [
        "took 1.2 s",
        "results: on standard output; every tick in postgresql://me:***@localhost/d",
        "  look at them: augury history A --store 'postgresql://me:***@localhost/d'",
    ]


def test_quiet_and_closing_exclude_each_other() -> None:
    done = CliRunner().invoke(app, arguments("groceries", "--quiet", "--closing"))
    assert (done.exit_code, done.stdout) == (2, "")

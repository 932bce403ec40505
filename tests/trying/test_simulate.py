"""Simulations: what they show is what a run prints, why it did so, and what waits."""

from __future__ import annotations

import itertools
import json
import os
import pty
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import augury
from augury.algebra.program import Program
from augury.cli import app as run_app
from augury.cli_trying import register
from augury.environment import Machine
from augury.history.arrivals import arrivals
from augury.history.values import moment_us
from augury.local.replay import replay
from augury.trying.shown import Shown, line, to_json
from augury.trying.simulate import Simulation, simulation
from augury.trying.simulate_pace import paced
from augury.trying.why_conditions import look_at, truth, why_not_fired
from tests.bitemporal.generate import generate_mixed
from tests.bitemporal.local import raw_rows

ROOT = Path(__file__).parents[2]
EXAMPLES = ("groceries", "orders", "card", "discount", "brokerage", "travel")

CARDS = """
SET CHRONON 1m;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT) ID (card) LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card INT, amount NUMERIC(8,2)) ID () LIFESPAN (1d);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Meeting (name STRING) ID (name) LIFESPAN (1d)
  ON ONTIME DO ring(NEW.name, NOW), ON CHANGE AND NEW.occTime > OLD.occTime DO tell(NEW.name, OLD.occTime);
CREATE CLOCK EVENT CLASS Hour EVERY 1h;
CREATE COMPLEX EVENT CLASS Quick (card INT) ID (card)
  AS COMPOSITE Login(card) > Withdrawal(card, _) CONTEXT CHRONICLE ON ANNOUNCEMENT DO note(NEW.card);
CREATE COMPLEX EVENT CLASS Idle (card INT) ID (card)
  AS COMPOSITE Login(card) > !Withdrawal(card, _) WITHIN 10m CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Latest (card INT) ID () AS COMPOSITE (Login(card) & Hour) > Withdrawal(card, _);
CREATE COMPLEX EVENT CLASS Next (card INT) ID (card) AS MATCH sequence(Login(card), Withdrawal(card, _));
CREATE COMPLEX EVENT CLASS After (card INT) ID (card) AS MATCH prior(Quick(card), Withdrawal(card, _));
CREATE COMPLEX EVENT CLASS Total (card INT, n BIGINT) ID (card)
  AS SELECT card, COUNT(*) AS n FROM Withdrawal GROUP BY card OCCURRING AT MAX(occTime);
"""
CARD_EVENTS = """
{"event":"Login","occ_time":"2026-01-01T08:55:00Z","card":1}
{"event":"Meeting","occ_time":"2026-01-01T09:30:00Z","det_time":"2026-01-01T08:56:00Z","name":"stand up"}
{"event":"Withdrawal","occ_time":"2026-01-01T08:57:00Z","card":1,"amount":5}
{"event":"Login","occ_time":"2026-01-01T08:58:00Z","card":2}
{"event":"Meeting","occ_time":"2026-01-01T09:40:00Z","det_time":"2026-01-01T09:05:00Z","name":"stand up"}
{"event":"Withdrawal","occ_time":"2026-01-01T09:21:00Z","card":2,"amount":7.5}
{"event":"Withdrawal","occ_time":"2026-01-01T09:22:00Z","card":1,"amount":9.5}
"""


def example(name: str) -> tuple[Program, str]:
    """A program of the examples, and its events."""
    folder = ROOT / "examples" / name
    return augury.compile((folder / f"{name}.bicepl").read_text()), str(folder / "events.jsonl")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, str]:
    """A program with one of each kind of class."""
    path = tmp_path_factory.mktemp("cards") / "cards.jsonl"
    path.write_text(CARD_EVENTS.lstrip())
    return augury.compile(CARDS), str(path)


def shown_at(program: Program, events: str, until: str | None = None) -> dict[str, dict[str, Any]]:
    """The ticks of a simulation as JSON, by their times."""
    ticks = simulation(program, events, None if until is None else moment_us(until)).ticks()
    return {found["tick"]: found for found in (json.loads(line(one)) for one in ticks)}


def printed(shown: Shown) -> Iterator[dict[str, Any]]:
    """What a run prints of a tick, made of what a simulation shows."""
    found = json.loads(line(shown))
    for one in found["derived"]:
        names = ("event", "change", "seq", "occ_time", "det_time", "constituents")
        yield {name: one[name] for name in names if name in one} | one["values"]
    for one in found["fired"]:
        yield {name: one[name] for name in ("action", "args", "event", "key")} | {"tick": found["tick"]}
    for one in found["triggered"]:
        about = {"event": one["event"], "key": one["key"], "trigger": one["trigger"]}
        for call in one["calls"]:
            acts = (deed for deed in call["deeds"] if "action" in deed)
            for deed in acts:
                row = {"action": deed["action"], "args": deed["arguments"], **about, "rule": call["rule"]}
                yield row | {"tick": found["tick"]}


# ---- what is shown -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_shown_is_what_a_run_prints(name: str) -> None:
    program, events = example(name)
    ran = [
        json.loads(text)
        for texts in replay(program, events, "local", None, None).texts()
        for text in texts.split("\n")
        if text
    ]
    shown = [row for one in simulation(program, events).ticks() for row in printed(one)]
    actions = {row["action"] for row in ran if "action" in row}
    # A run that goes in one step leaves the actions out, and says so.
    assert [row for row in shown if "action" not in row or actions] == ran
    assert ran


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_complex_event_is_explained_by_its_constituents(name: str) -> None:
    program, events = example(name)
    for one in simulation(program, events).ticks():
        for derived in one.derived:
            if derived.version.constituents:
                assert derived.why is not None
                assert derived.note == ""
                assert derived.why.constituents == list(derived.version.constituents)
                assert all(part for event in derived.why.events for part in event.parts)


def test_a_tick_says_what_arrived_was_derived_and_why(cards: tuple[Program, str]) -> None:
    ticks = shown_at(*cards, "2026-01-01T10:00:00Z")
    tick = ticks["2026-01-01T08:58:00Z"]
    assert [one["event"] for one in tick["arrived"]] == ["Withdrawal"]
    quick, total = tick["derived"]
    assert [(one["text"], one["parts"]) for one in quick["why"]["constituents"]] == [
        ("Login(1)", ["Login(card)"]),
        ("Withdrawal(1, 5)", ["Withdrawal(card, _)"]),
    ]
    assert [(one["text"], one["parts"]) for one in total["why"]["constituents"]] == [
        ("Withdrawal(1, 5)", ["a row that went in"]),
    ]
    (after,) = (one for one in ticks["2026-01-01T09:23:00Z"]["derived"] if one["event"] == "After")
    assert [(one["text"], one["made_of"]) for one in after["why"]["constituents"]] == [
        ("Quick(1)", [1, 3]),
        ("Withdrawal(1, 9.5)", [8]),
    ]
    (idle,) = ticks["2026-01-01T09:08:00Z"]["derived"]
    assert idle["why"]["absent"] == ["no Withdrawal(card, _) after seq 4 and before 2026-01-01T09:08:00Z"]
    assert [one["occ_time"] for one in idle["why"]["timers"]] == ["2026-01-01T09:08:00Z"]


def test_an_action_comes_with_its_condition_and_the_values_of_it(cards: tuple[Program, str]) -> None:
    ticks = shown_at(*cards, "2026-01-01T10:00:00Z")
    (tell,) = ticks["2026-01-01T09:06:00Z"]["fired"]
    assert tell["condition"] == "CHANGE AND NEW.occ_time > OLD.occ_time"
    assert tell["values"] == {
        "CHANGE": True,
        "NEW.occ_time": "2026-01-01T09:40:00Z",
        "OLD.occ_time": "2026-01-01T09:30:00Z",
        "NEW.name": "stand up",
    }
    (ring,) = ticks["2026-01-01T09:41:00Z"]["fired"]
    assert ring["values"] == {"ONTIME": True, "NEW.name": "stand up", "NOW": "2026-01-01T09:41:00Z"}


def test_partial_matches_are_those_that_can_still_be_completed(cards: tuple[Program, str]) -> None:
    ticks = shown_at(*cards, "2026-01-01T10:00:00Z")

    def partial(tick: str, event: str) -> list[list[str]]:
        found = ticks[tick]["pending"]["partial"]
        return [[has["event"] for has in one["has"]] for one in found if one["event"] == event]

    assert partial("2026-01-01T08:56:00Z", "Next") == [["Login(1)"]]
    # An event of another class came right after the login: sequence has nothing to wait for.
    assert partial("2026-01-01T08:57:00Z", "Next") == []
    assert partial("2026-01-01T08:56:00Z", "Quick") == [["Login(1)"]]
    # Consumed by the occurrence, as CHRONICLE has it.
    assert partial("2026-01-01T08:58:00Z", "Quick") == []
    # The withdrawal that must stay away has come.
    assert partial("2026-01-01T08:56:00Z", "Idle") == [["Login(1)"]]
    assert partial("2026-01-01T08:58:00Z", "Idle") == []
    assert partial("2026-01-01T09:01:00Z", "Latest") == [
        ["Hour"],
        ["Login(1)", "Hour", "Withdrawal(1, 5)"],
        ["Login(2)", "Hour"],
    ]
    assert partial("2026-01-01T09:22:00Z", "After") == [["Quick(1)"], ["Quick(2)"]]


PARTS = """
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ask (i INT, q INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Pay (i INT, a INT) ID () LIFESPAN (1d);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Done (i INT) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Paid (i INT) ID () AS MATCH prior(Ask(i, x), Pay(i, y), Done(i)) WHERE y >= x;
CREATE COMPLEX EVENT CLASS Twice (i INT) ID () AS MATCH prior(Ask(i, _), Ask[q < 2], Done(i));
CREATE COMPLEX EVENT CLASS Masked (i INT) ID () AS MATCH prior(Ask[q > 1], Ask[q < 2], Done(i));
CREATE COMPLEX EVENT CLASS Ended (i INT) ID () AS MATCH relative(Ask(i, _) | Ask(i, 1), Done(i)) COLLECT EARLIEST;
"""


def test_the_part_of_an_event_that_waits_is_the_one_it_is_found_to_satisfy(tmp_path: Path) -> None:
    """What is told of a tuple while it is open is what `why` tells of it when it is complete."""
    agreed = dict.fromkeys(("Paid", "Twice", "Masked", "Ended"), 0)
    for seed in range(4):
        told: dict[tuple[str, tuple[int | None, ...]], tuple[str, ...]] = {}
        path = _asked_and_paid(tmp_path / f"{seed}.jsonl", random.Random(seed))
        for shown in simulation(augury.compile(PARTS), str(path)).ticks():
            for one in shown.derived:
                assert one.why is not None
                *before, _ = one.why.events
                name = one.version.event_class.name
                parts = told.get((name, tuple(event.seq for event in before)))
                if parts is not None and any(parts):
                    agreed[name] += 1
                    assert parts == tuple(event.parts[0] for event in before), name
            for waiting in shown.pending.partial:
                key = waiting.event_class, tuple(seq for seq, _, _ in waiting.has)
                told[key] = tuple(part for _, _, part in waiting.has)
    assert agreed["Paid"] > 0
    assert agreed["Twice"] > 0
    assert agreed["Masked"] == 0, "marks do not tell such parts apart, and nothing is said"


def _asked_and_paid(path: Path, chance: random.Random) -> Path:
    rows = []
    for second in range(40):
        row = {"i": chance.randrange(2), "occ_time": second}
        match chance.randrange(4):
            case 0:
                rows.append({"event": "Done", **row})
            case 1:
                rows.append({"event": "Pay", "a": chance.randrange(4), **row})
            case _:
                rows.append({"event": "Ask", "q": chance.randrange(4), **row})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_timers_clocks_and_expiries_say_when(cards: tuple[Program, str]) -> None:
    ticks = shown_at(*cards, "2026-01-01T10:00:00Z")

    def due(tick: str, kind: str) -> list[tuple[str, str]]:
        return [(one["event"], one["due"]) for one in ticks[tick]["pending"][kind]]

    assert due("2026-01-01T08:56:00Z", "timers") == [("Idle", "2026-01-01T09:05:00Z")]
    assert due("2026-01-01T08:58:00Z", "timers") == []
    assert due("2026-01-01T08:57:00Z", "on_time") == [("Meeting", "2026-01-01T09:31:00Z")]
    assert due("2026-01-01T09:06:00Z", "on_time") == [("Meeting", "2026-01-01T09:41:00Z")]
    assert due("2026-01-01T08:56:00Z", "clock") == [("Hour", "2026-01-01T09:00:00Z")]
    # A login that a complex event is made of stays until that may go.
    assert ("Login", "2026-01-02T08:57:00Z") in due("2026-01-01T08:58:00Z", "expiries")
    program, events = example("groceries")
    assert shown_at(program, events)["2026-03-02T09:30:00Z"]["pending"]["turns"] == [
        {
            "event": "ReplenishingNeeded",
            "what": "ResourceExpiring: resource = 'yogurt'",
            "due": "2026-03-03T00:00:00Z",
        }
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_tick_tells_when_the_next_one_is(name: str) -> None:
    program, events = example(name)
    ticks = list(simulation(program, events).ticks())
    for one, following in itertools.pairwise(ticks):
        due = one.pending.next_tick
        assert due is not None
        assert due > one.tick
        assert following.tick == due or (
            following.tick < due and (following.arrived or following.rejected or following.absorbed)
        )


def test_rejected_and_absorbed_events_are_shown_where_they_came() -> None:
    program, events = example("groceries")
    ticks = shown_at(program, events)
    (refused,) = ticks["2026-03-03T19:15:00Z"]["rejected"]
    assert refused["place"].endswith("events.jsonl:8")
    assert "immutable" in refused["reason"]
    assert ticks["2026-03-04T09:15:00Z"]["absorbed"] == 1
    assert [one["event"] for one in ticks["2026-03-05T07:15:00Z"]["purged"]] == []
    assert sum(len(one["purged"]) for one in ticks.values()) > 0


# ---- conditions, against the engine -------------------------------------------------------------------------------

WATCHED = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS E (k INT, x INT) ID (k) LIFESPAN (40s)
  ON ANNOUNCEMENT DO announced(NEW.k),
  ON CHANGE AND NEW.x > OLD.x DO more(OLD.x, NEW.x),
  ON CANCELLATION OR REVOCATION DO gone(NEW.k),
  ON RETROACTIVECHANGE DO retro(OLD.occTime),
  ON POSTPONE DO later(NEW.occTime - OLD.occTime),
  ON FUTURE AND NOT FIRED DO ahead(NEW.k),
  ON ONTIME DO ontime(NEW.k),
  ON ONTIME AND OLD.x IS NULL DO fresh(NEW.k),
  ON LATE(10s, 20s) OR LATE(1m, 2m) DO late(NEW.k),
  ON NOW - NEW.occTime > 15s AND NEW.x <> 2 DO old(NOW);
"""


def random_events(seed: int) -> list[dict[str, Any]]:
    """Versions of few events around the present, some of them withdrawals."""
    draw, found, now = random.Random(seed), [], 0
    for _ in range(draw.randrange(5, 40)):
        now += draw.choice((0, 1, 5, 10, 25, 70))
        occ = None if draw.random() < 0.15 else now + draw.choice((-80, -30, -15, -5, 0, 3, 10, 20, 45))
        row = {"event": "E", "k": draw.randrange(3), "x": draw.randrange(4), "det_time": 1_000_000_000 + now}
        found.append(row | {"occ_time": None if occ is None else 1_000_000_000 + occ})
    return found


@pytest.mark.parametrize("block", range(2))
def test_conditions_are_worked_out_as_the_engine_does(block: int, tmp_path: Path) -> None:
    program, fired_names = augury.compile(WATCHED), set()
    for seed in range(block * 15, block * 15 + 15):
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in random_events(seed)))
        until = 1_000_000_000 + 3_000
        running = simulation(program, str(path), until * 1_000_000)
        for shown in running.ticks():
            for event in running.record.of_event:
                look = look_at(running.record, event, shown.tick)
                fired = {
                    (one.action.statement, one.action.name) for one in shown.fired if one.version.event_key == event
                }
                assert look is not None or not fired, (seed, shown.tick)
                if look is None:
                    continue
                for number, statement in enumerate(program.classes[0].statements):
                    name = statement.actions[0].name
                    failed = why_not_fired(look, number, statement, name)
                    assert (failed is None) == ((number + 1, name) in fired), (seed, shown.tick, name, failed)
                    if failed is None:
                        assert truth(look, statement.condition, name) is True
                        fired_names.add(name)
    assert len(fired_names) == 10, f"some statement never fires: {sorted(fired_names)}"


# ---- pace --------------------------------------------------------------------------------------------------------


class Sleeper(Machine):
    """A machine that does not wait, and notes how long it would have."""

    def __init__(self) -> None:
        """Nobody has waited yet."""
        super().__init__()
        self.slept: list[float] = []

    def block(self, seconds: float) -> None:
        """Let time pass."""
        self.slept.append(seconds)


def test_a_simulation_plays_in_step_with_the_clock() -> None:
    ticks = [Shown(1, 0), Shown(2, 60_000_000), Shown(3, 90_000_000)]
    world = Sleeper()
    assert list(paced(ticks, world, speed=30)) == ticks
    assert world.slept == [2.0, 1.0]


def test_a_simulation_steps_as_long_as_it_is_asked_to() -> None:
    ticks = [Shown(number, number) for number in range(5)]
    answers = iter([True, True, False])
    assert list(paced(ticks, Machine(), step=True, ask=lambda: next(answers))) == ticks[:3]


# ---- the command line --------------------------------------------------------------------------------------------

GROCERIES = ["examples/groceries/groceries.bicepl", "--events", "examples/groceries/events.jsonl"]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    """The command line with the verbs of this folder alone."""
    monkeypatch.chdir(ROOT)
    made = typer.Typer()
    register(made)
    return made


FIRST_TICK = """\
tick 1  2026-03-02T07:15:00Z
  arrived  seq 1  ResourceLow('butter', 0.1)                    occurs 07:05:00, detected 07:06:00
  derived  ReplenishingNeeded('butter')                         occurs 07:05:00, detected 07:15:00
             seq 1 ResourceLow('butter', 0.1) as a row of FROM
  fired    orderResource("butter")                              for ReplenishingNeeded('butter')
             ON ONTIME                                          ONTIME = TRUE, NEW.resource = 'butter'
  pending  ReplenishingNeeded: resource = 'butter'              expires 2026-03-07T07:05:00Z
           ResourceLow: resource = 'butter'                     expires 2026-03-07T07:05:00Z
"""


def test_a_table_shows_a_tick(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["simulate", *GROCERIES, "--until", "2026-03-02T07:15:00Z"])
    assert (result.exit_code, result.stdout) == (0, FIRST_TICK)


def test_played_quickly_it_shows_the_same(app: typer.Typer) -> None:
    words = ["simulate", *GROCERIES, "--until", "2026-03-02T12:00:00Z"]
    at_once, played = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--speed", "100000000"]))
    assert played.exit_code == 0
    assert played.stdout == at_once.stdout
    assert played.stdout.count("\ntick ") > 1


def test_ndjson_has_a_line_a_tick(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["simulate", *GROCERIES, "--output", "ndjson"])
    program, _ = example("groceries")
    ticks = [json.loads(text) for text in result.stdout.splitlines()]
    assert ticks == [json.loads(line(one)) for one in simulation(program, "examples/groceries/events.jsonl").ticks()]
    assert list(ticks[0]) == list(to_json(Shown(1, 0)))
    assert len(ticks) == 29


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (["--until", "soon"], 2, "`soon` is no time"),
        (["--step"], 2, "needs a terminal"),
        (["--output", "html", "--speed", "2"], 2, "plays by itself"),
        (["--speed", "0"], 2, "0"),
    ],
)
def test_wrong_usage_is_told(app: typer.Typer, words: list[str], exit_code: int, said: str) -> None:
    result = CliRunner().invoke(app, ["simulate", *GROCERIES, *words], env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr


def test_what_is_read_is_not_written_over(app: typer.Typer, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    events, program = folder / "a.jsonl", tmp_path / "a.bicepl"
    events.write_text((ROOT / GROCERIES[2]).read_text())
    program.write_text((ROOT / GROCERIES[0]).read_text())
    (tmp_path / "link").symlink_to(events)
    kept = events.read_text(), program.read_text()
    for source, to in ((events, events), (events, tmp_path / "link"), (folder, events), (events, program)):
        for made, words in ((app, ("simulate", "--to")), (run_app, ("run", "--rejected"))):
            done = CliRunner().invoke(made, [words[0], str(program), "--events", str(source), words[1], str(to)])
            assert (done.exit_code, done.stdout) == (2, ""), done.output
            assert "is what is read" in done.stderr
    assert (events.read_text(), program.read_text()) == kept
    page = ["simulate", str(program), "--events", str(folder), "--to", str(folder / "page.html"), "--output", "html"]
    for _ in range(2):
        assert CliRunner().invoke(app, page).exit_code == 0, "it is no file of data"


def test_nothing_is_overwritten_when_it_fails(app: typer.Typer, tmp_path: Path) -> None:
    kept = tmp_path / "kept.html"
    kept.write_text("kept")
    missing = [
        "simulate",
        GROCERIES[0],
        "--events",
        str(tmp_path / "none.jsonl"),
        "--output",
        "html",
        "--to",
        str(kept),
    ]
    result = CliRunner().invoke(app, missing)
    assert result.exit_code == 2
    assert "none.jsonl" in result.stderr
    assert kept.read_text() == "kept"
    program = tmp_path / "wrong.bicepl"
    program.write_text("CREATE NOTHING;")
    result = CliRunner().invoke(app, ["simulate", str(program), *GROCERIES[1:], "--output", "html", "--to", str(kept)])
    assert result.exit_code == 1
    assert "error[E" in result.stderr
    assert kept.read_text() == "kept"


def test_events_that_are_all_refused_are_told(app: typer.Typer, tmp_path: Path) -> None:
    events = tmp_path / "bad.jsonl"
    events.write_text('{"event": "Nobody", "occ_time": "2026-01-01T09:00:00Z"}\n')
    result = CliRunner().invoke(app, ["simulate", GROCERIES[0], "--events", str(events)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert 'there is no event class "Nobody"' in result.stderr
    early = CliRunner().invoke(app, ["simulate", *GROCERIES, "--until", "1999-01-01"])
    assert (early.exit_code, early.stdout, early.stderr) == (0, "", "no event came by 1999-01-01: there is no tick\n")


RUN = (
    "import sys, typer; from augury.cli_trying import register; "
    "app = typer.Typer(); register(app); app(standalone_mode=False)"
)


def test_step_waits_for_enter_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", RUN, "simulate", *GROCERIES, "--step"]
    running = subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    os.close(theirs)
    os.write(ours, b"\nq\n")
    out, _ = running.communicate(timeout=120)
    os.close(ours)
    assert running.returncode == 0
    assert [text.split()[1] for text in out.splitlines() if text.startswith("tick ")] == ["1", "2"]


def test_it_starts_no_jvm_and_loads_little() -> None:
    code = RUN + "; print(sorted({'pyspark', 'rich.table', 'asyncio', 'aiohttp', 'sqlalchemy'} & set(sys.modules)))"
    command = [
        sys.executable,
        "-c",
        code,
        "simulate",
        *GROCERIES,
        "--until",
        "2026-03-02T07:15:00Z",
        "--output",
        "ndjson",
    ]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_a_simulation_can_be_asked_without_reasons() -> None:
    program, events = example("orders")
    running = simulation(program, events, tells_why=False)
    assert isinstance(running, Simulation)
    assert all(one.why is None for shown in running.ticks() for one in shown.derived)


@pytest.mark.parametrize("seed", range(8))
def test_whatever_a_random_program_derives_is_explained(seed: int) -> None:
    case = generate_mixed(seed)
    running = Simulation(case.program, arrivals(case.program, [raw_rows(case.program, case.raws)]), case.until)
    for shown in running.ticks():
        assert json.loads(line(shown))["tick"]
        for derived in shown.derived:
            if derived.version.constituents:
                assert derived.why is not None
                assert derived.why.constituents == list(derived.version.constituents)
                assert "cannot be told" not in derived.note

"""Why and why-not on the command line: what an event is made of, why an action fired, and what was missing first."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import augury
from augury.cli_trying import register
from augury.trying.simulate import simulation
from augury.trying.why import why
from augury.trying.why_asked import asked_about
from augury.trying.why_events import WHY_VERSIONS_MAX
from augury.trying.why_not import why_not

ROOT = Path(__file__).parents[2]
GROCERIES = ("examples/groceries/groceries.bicepl", "--events", "examples/groceries/events.jsonl")
ORDERS = ("examples/orders/orders.bicepl", "--events", "examples/orders/events.jsonl")

PROGRAM = """
SET CHRONON 1m;
CREATE MUTABLE SUBSCRIBED EVENT CLASS Login (card INT) ID (card) LIFESPAN (2h);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Withdrawal (card INT, amount NUMERIC(8,2)) ID () LIFESPAN (2h);
CREATE MUTABLE SUBSCRIBED EVENT CLASS Limit (card INT, most INT) ID (card) LIFESPAN (-1);
CREATE CLOCK EVENT CLASS Hour EVERY 1h;
CREATE COMPLEX EVENT CLASS Quick (card INT) ID (card) LIFESPAN (2h)
  AS COMPOSITE Login(card) > Withdrawal(card, _) CONTEXT CHRONICLE ON ANNOUNCEMENT DO note(NEW.card);
CREATE COMPLEX EVENT CLASS Idle (card INT) ID (card)
  AS COMPOSITE Login(card) > !Withdrawal(card, _) WITHIN 10m CONTEXT CHRONICLE;
CREATE COMPLEX EVENT CLASS Next (card INT) ID (card) AS MATCH sequence(Login(card), Withdrawal(card, _));
CREATE COMPLEX EVENT CLASS Big (card INT) ID () AS MATCH Withdrawal[amount > 100] AND Withdrawal(card, _);
CREATE COMPLEX EVENT CLASS Beyond (card INT, amount NUMERIC(8,2)) ID (card, amount)
  AS SELECT w.card, w.amount FROM Withdrawal w JOIN Limit l ON w.card = l.card WHERE w.amount > l.most
     OCCURRING AT w.occTime;
CREATE COMPLEX EVENT CLASS Total (card INT, n BIGINT) ID (card)
  AS SELECT card, COUNT(*) AS n FROM Withdrawal GROUP BY card OCCURRING AT MAX(occTime);
"""
EVENTS = """
{"event":"Login","occ_time":"2026-01-01T08:55:00Z","card":1}
{"event":"Limit","occ_time":"2026-01-01T08:56:00Z","card":1,"most":6}
{"event":"Withdrawal","occ_time":"2026-01-01T08:57:00Z","card":1,"amount":5}
{"event":"Login","occ_time":"2026-01-01T08:58:00Z","card":2}
{"event":"Limit","occ_time":"2026-01-01T09:10:00Z","card":1,"most":9}
{"event":"Withdrawal","occ_time":"2026-01-01T09:21:00Z","card":2,"amount":7.5}
{"event":"Withdrawal","occ_time":"2026-01-01T09:22:00Z","card":1,"amount":9.5}
{"event":"Limit","occ_time":"2026-01-01T09:22:30Z","card":"none"}
"""


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A program with one of each kind of class, as words of a command."""
    folder = tmp_path_factory.mktemp("cards")
    (folder / "cards.bicepl").write_text(PROGRAM)
    (folder / "cards.jsonl").write_text(EVENTS.lstrip())
    return [str(folder / "cards.bicepl"), "--events", str(folder / "cards.jsonl")]


def run(*words: str) -> tuple[int, str, str]:
    """What a verb of this folder says."""
    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, list(words), env={"NO_COLOR": "1", "COLUMNS": "200"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


# ---- why ---------------------------------------------------------------------------------------------------------


def test_a_select_is_made_of_rows() -> None:
    assert run(
        "why", *GROCERIES, "--event", "replenishingneeded", "--key", "butter", "--at", "2026-03-03T00:00:00Z"
    ) == (
        0,
        """\
ReplenishingNeeded(resource = 'butter') is there, as known at 2026-03-03T00:00:00Z
  takes place at the tick 2026-03-02T07:15:00Z, made of
    seq 1  ResourceLow('butter', 0.1)  at 2026-03-02T07:05:00Z  as a row of FROM
  versions of ReplenishingNeeded(resource = 'butter') known then
    announce  ReplenishingNeeded('butter') at 2026-03-02T07:05:00Z, detected 2026-03-02T07:15:00Z
""",
        "",
    )


def test_a_match_is_made_of_events_with_their_parts() -> None:
    assert (
        run("why", *ORDERS, "--event", "Complete", "--key", "129")[1]
        == """\
Complete(I = 129) is there, as known at 2026-03-02T13:02:00Z
  takes place at seq 24 with A = 3, I = 129, Q = 3, made of
    seq 23  Order(129, 3)    at 2026-03-02T10:15:00Z  as Order(I, Q)
    seq 24  Perform(129, 3)  at 2026-03-02T10:21:00Z  as Perform(I, A)
  versions of Complete(I = 129) known then
    announce  Complete(129, 3) at 2026-03-02T10:21:00Z, detected 2026-03-02T10:21:02Z, seq 24
"""
    )


def test_a_composite_says_what_the_clock_did_and_what_stayed_away(cards: list[str]) -> None:
    _, text, _ = run("why", *cards, "--event", "Idle", "--key", "card=2")
    assert "the clock at 2026-01-01T09:08:00Z  as Login(card) > !Withdrawal(card, _) WITHIN 10m" in text
    assert "no Withdrawal(card, _) after seq 4 and before 2026-01-01T09:08:00Z" in text


def test_an_action_is_explained_by_new_old_and_the_condition() -> None:
    assert (
        run("why", *GROCERIES, "--event", "Delivery", "--key", "butter", "--action", "INFORMOWNER")[1]
        == """\
informOwner("delayed", "butter", "2026-03-05T10:00:00Z") fired for Delivery(resource = 'butter')
  at the tick 2026-03-03T20:15:00Z
  by statement 1: ON CHANGE AND NEW.occ_time > OLD.occ_time
    CHANGE       = TRUE
    NEW.occ_time = 2026-03-05T10:00:00Z
    OLD.occ_time = 2026-03-04T10:00:00Z
    NEW.resource = 'butter'
  NEW  change    Delivery('butter', 2) at 2026-03-05T10:00:00Z, detected 2026-03-03T20:10:00Z, seq 8
  OLD  announce  Delivery('butter', 2) at 2026-03-04T10:00:00Z, detected 2026-03-02T07:40:00Z, seq 2
  versions of Delivery(resource = 'butter') known then
    announce  Delivery('butter', 2) at 2026-03-04T10:00:00Z, detected 2026-03-02T07:40:00Z, seq 2
    change    Delivery('butter', 2) at 2026-03-05T10:00:00Z, detected 2026-03-03T20:10:00Z, seq 8
"""
    )


def test_versions_that_came_later_are_not_known_yet() -> None:
    def versions(at: str) -> list[tuple[str, int]]:
        words = ("--event", "Delivery", "--key", "eggs", "--at", at, "--output", "json")
        found = json.loads(run("why", *GROCERIES, *words)[1])
        return [(one["change"], one["seq"]) for one in found["versions"]]

    assert versions("2026-03-03T09:00:00Z") == [("announce", 6)]
    assert versions("2026-03-04T09:15:00Z") == [("announce", 6), ("change", 9)]


def test_the_versions_of_constituents_are_told(cards: list[str]) -> None:
    words = ("--event", "Beyond", "--key", "1", "--key", "9.5", "--output", "json")
    found = json.loads(run("why", *cards, *words)[1])
    assert found["is_there"] is True
    assert [(one["text"], one["parts"]) for one in found["why"]["constituents"]] == [
        ("Limit(1, 9)", ["a row of FROM"]),
        ("Withdrawal(1, 9.5)", ["a row of FROM"]),
    ]
    limit = next(one for one in found["known"] if one["event"] == "Limit(1, 9)")
    assert [one["values"]["most"] for one in limit["versions"]] == [6, 9]


def test_events_that_have_left_are_told(cards: list[str]) -> None:
    _, text, _ = run("why", *GROCERIES, "--event", "Delivery", "--key", "ham")
    assert "is not there, as known at 2026-03-09T07:00:00Z: it was withdrawn at the tick 2026-03-05T15:15:00Z" in text
    _, text, _ = run("why", *cards, "--event", "Login", "--key", "1", "--at", "2026-01-01T15:00:00Z")
    assert "it expired, and was purged at the tick" in text
    _, text, _ = run("why", *cards, "--event", "Hour")
    assert "the clock posted it at 2026-01-01T09:00:00Z" in text
    _, text, _ = run("why", *cards, "--event", "Total", "--key", "1")
    assert "made of\n    seq 3  Withdrawal(1, 5)    at 2026-01-01T08:57:00Z  as a row that went in\n" in text


def test_what_has_no_key_is_named_by_seq_or_attributes(cards: list[str], tmp_path: Path) -> None:
    found = json.loads(run("why", *cards, "--event", "Withdrawal", "--output", "json")[1])
    assert found["version"]["seq"] == 8
    for words in (("--seq", "3"), ("--key", "amount=5")):
        found = json.loads(run("why", *cards, "--event", "Withdrawal", *words, "--output", "json")[1])
        assert found["version"]["seq"] == 3


# ---- long histories, and rows that are gathered -------------------------------------------------------------------


@pytest.fixture
def long_cards(tmp_path: Path) -> list[str]:
    """A card that is used at once, and another after more versions than are read again for each event."""
    (tmp_path / "long.bicepl").write_text(PROGRAM)
    lines = [{"event": "Login", "card": 1}, {"event": "Withdrawal", "card": 1, "amount": 5}]
    lines += [{"event": "Limit", "card": card, "most": 1} for card in range(WHY_VERSIONS_MAX)]
    lines += [{"event": "Login", "card": 2}, {"event": "Withdrawal", "card": 2, "amount": 5}]
    minutes = ["00", "00", *["01"] * (len(lines) - 2)]
    times = [f"2026-01-01T09:{minute}:00.{place:03}Z" for place, minute in enumerate(minutes)]
    rows = [json.dumps({**line, "occ_time": time}) for line, time in zip(lines, times, strict=True)]
    (tmp_path / "long.jsonl").write_text("\n".join(rows) + "\n")
    return [str(tmp_path / "long.bicepl"), "--events", str(tmp_path / "long.jsonl")]


def test_a_simulation_leaves_parts_out_in_long_histories_and_why_tells_them(long_cards: list[str]) -> None:
    _, text, _ = run("simulate", *long_cards, "--output", "ndjson")
    quick = [one for line in text.splitlines() for one in json.loads(line)["derived"] if one["event"] == "Quick"]
    parts = [[part for one in found["why"]["constituents"] for part in one["parts"]] for found in quick]
    assert parts == [["Login(card)", "Withdrawal(card, _)"], ["a constituent", "a constituent"]]
    assert [one.get("note") for one in quick] == [
        None,
        "parts are told of histories of at most 500 versions; `augury why` tells them of any",
    ]
    _, told, _ = run("why", *long_cards, "--event", "Quick", "--key", "2")
    assert "as Login(card)" in told
    assert "as Withdrawal(card, _)" in told
    assert "at most 500" not in told


def test_a_simulation_leaves_out_what_went_in_in_long_histories_and_why_tells_it(long_cards: list[str]) -> None:
    _, text, _ = run("simulate", *long_cards, "--output", "ndjson")
    totals = [one for line in text.splitlines() for one in json.loads(line)["derived"] if one["event"] == "Total"]
    parts = [found["why"] and [one["parts"] for one in found["why"]["constituents"]] for found in totals]
    assert parts == [[["a row that went in"]], None]
    origin = "its row comes of an aggregate, DISTINCT, window or the like over Withdrawal"
    assert totals[1]["note"] == f"{origin}; `augury why` tells what went in"
    _, told, _ = run("why", *long_cards, "--event", "Total", "--key", "2")
    assert "Withdrawal(2, 5)  at 2026-01-01T09:01:00.503000Z  as a row that went in" in told


# ---- why not -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--event", "ReplenishingNeeded", "--key", "yogurt", "--at", "2026-03-02T12:00:00Z"),
            "WHERE occTime - NOW < INTERVAL '5' DAY is not true: "
            "ResourceExpiring('yogurt') at 2026-03-08T00:00:00Z; NOW = 2026-03-02T12:00:00Z",
        ),
        (
            ("--event", "ReplenishingNeeded", "--key", "tea", "--at", "2026-03-02T12:00:00Z"),
            "no ResourceLow with resource = 'tea' nor ResourceExpiring with resource = 'tea' is live at "
            "2026-03-02T12:00:00Z",
        ),
        (
            ("--event", "Delivery", "--key", "ham"),
            "Delivery(resource = 'ham') was withdrawn at the tick 2026-03-05T15:15:00Z",
        ),
        (
            ("--event", "ResourceEmpty", "--key", "tea"),
            "no such event came by 2026-03-09T07:00:00Z; 1 of this class was rejected, the last because "
            '`ResourceEmpty` is immutable, and {"resource": "milk"} is already there since seq 4',
        ),
        (
            ("--event", "Delivery", "--key", "eggs"),
            "it is there since the tick 2026-03-04T09:15:00Z: `augury why` says why",
        ),
    ],
)
def test_what_the_groceries_lack(words: tuple[str, ...], sentence: str) -> None:
    found = json.loads(run("why-not", *GROCERIES, *words, "--output", "json")[1])
    assert found["sentence"] == sentence


@pytest.mark.parametrize(
    ("words", "part", "sentence"),
    [
        (
            ("Quick", "--key", "2", "--at", "2026-01-01T09:00:00Z"),
            "Withdrawal(card, _)",
            "no Withdrawal(card, _) with card = 2 came by 2026-01-01T09:00:00Z; Login(2) did, at seq 4",
        ),
        (
            ("Quick", "--key", "9"),
            "Login(card)",
            "no Login(card) nor Withdrawal(card, _) with card = 9 came by 2026-01-01T09:23:00Z",
        ),
        (("Next", "--key", "1"), "Login(card)", "right before 8, the event at 7 is a Withdrawal, not a Login"),
        (
            # At this time the clock completes the event of another card.
            ("Idle", "--key", "1", "--at", "2026-01-01T09:08:00Z"),
            "!Withdrawal(card, _)",
            "Withdrawal(card, _) at 3 came after Login(card) at 1 and before 2026-01-01T09:05:00Z (card = 1)",
        ),
        (
            ("Big", "--key", "card=1"),
            "Withdrawal[amount > 100]",
            "[amount > 100] is not TRUE for the Withdrawal at 8 with amount = 9.50",
        ),
        (
            ("Beyond", "--key", "1", "--key", "5"),
            "WHERE w.amount > l.most",
            "WHERE w.amount > l.most is not true: Withdrawal(1, 5) at 2026-01-01T08:57:00Z; "
            "Withdrawal(1, 9.5) at 2026-01-01T09:22:00Z; Limit(1, 9) at 2026-01-01T09:10:00Z",
        ),
        (
            ("Beyond", "--key", "2", "--key", "7.5"),
            "Limit",
            "no Limit with card = 2 is live at 2026-01-01T09:23:00Z",
        ),
        (
            ("Total", "--key", "2", "--at", "2026-01-01T09:00:00Z"),
            "Withdrawal",
            "no Withdrawal with card = 2 is live at 2026-01-01T09:00:00Z",
        ),
        (("Hour", "--at", "2026-01-01T08:58:00Z"), "Hour", "the clock has not posted it by then"),
    ],
)
def test_what_the_cards_lack(cards: list[str], words: tuple[str, ...], part: str, sentence: str) -> None:
    found = json.loads(run("why-not", *cards, "--event", *words, "--output", "json")[1])
    assert (found["took_place"], found["part"], found["sentence"]) == (False, part, sentence)


def test_events_of_selects_and_of_the_clock_are_named_in_sentences(tmp_path: Path) -> None:
    (tmp_path / "p.bicepl").write_text(
        "SET CHRONON 1m; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID (k) LIFESPAN (1d);"
        "CREATE COMPLEX EVENT CLASS S (k INT) ID (k) AS SELECT k FROM A OCCURRING AT A.occTime;"
        "CREATE COMPLEX EVENT CLASS M (k INT) ID (k) AS MATCH prior(B(k), S(k));"
        "CREATE COMPLEX EVENT CLASS C (k INT) ID (k) AS COMPOSITE B(k) > S(k) CONTEXT CHRONICLE;"
        "CREATE COMPLEX EVENT CLASS T (k INT) ID (k) AS COMPOSITE A(k) + 5m;"
        "CREATE COMPLEX EVENT CLASS U (k INT) ID (k) AS MATCH prior(B(k), T(k));"
    )
    rows = [{"event": "A", "k": 1, "occ_time": SECOND}, {"event": "B", "k": 1, "occ_time": SECOND + 600}]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (str(tmp_path / "p.bicepl"), "--events", str(tmp_path / "e.jsonl"), "--key", "1", "--output", "json")

    def sentence(name: str) -> str:
        found = json.loads(run("why-not", *words, "--event", name)[1])
        assert found["took_place"] is False
        return str(found["sentence"])

    assert sentence("M") == "no B(k) took place before S(1) (k = 1)"
    assert sentence("C") == "no B(k) took place before S(1) (k = 1)"
    assert sentence("U") == "no B(k) took place before T(1) (k = 1)"


@pytest.mark.parametrize(
    ("expression", "key", "sentence"),
    [
        ("prior(B(k), T(k))", 1, "no B(k) took place before T(1) (k = 1)"),
        ("prior(B(k), T(k))", 3, "no B(k) took place before T(3) (k = 3)"),
        ("sequence(B(k), T(k))", 2, "right before T(2), the event at T(1) is a T, not a B"),
        ("prior(B(k), T(k)) WITHIN 5m", 2, "WITHIN 5m filtered its only tuple"),
        ("prior(T(k), B(k))", 2, "no T(k) took place before 4 (k = 2)"),
        ("prior(B(k), T[k > 5])", 2, "k > 5"),
    ],
)
def test_what_is_lacking_at_an_event_that_the_clock_completed(
    tmp_path: Path, expression: str, key: int, sentence: str
) -> None:
    (tmp_path / "p.bicepl").write_text(
        "SET CHRONON 1m; CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (1d);"
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS B (k INT) ID (k) LIFESPAN (1d);"
        "CREATE COMPLEX EVENT CLASS T (k INT) ID (k) AS COMPOSITE A(k) + 10m CONTEXT CHRONICLE;"
        f"CREATE COMPLEX EVENT CLASS U (k INT) ID (k) AS MATCH {expression};"
    )
    came = [("A", 1, 0), ("A", 2, 1), ("A", 3, 2), ("B", 2, 3)]
    rows = [{"event": name, "k": k, "occ_time": SECOND + second} for name, k, second in came]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    at = str(SECOND + 1200)
    words = (str(tmp_path / "p.bicepl"), "--events", str(tmp_path / "e.jsonl"), "--at", at, "--event", "U")
    found = json.loads(run("why-not", *words, "--key", str(key), "--output", "json")[1])
    assert found["took_place"] is False
    assert sentence in found["sentence"]
    assert re.search(r"\d{19}", found["sentence"]) is None


def test_a_version_may_be_asked_about(cards: list[str]) -> None:
    found = json.loads(run("why-not", *cards, "--event", "Next", "--seq", "3", "--output", "json")[1])
    assert found["looked_at"]["seq"] == 3
    assert found["sentence"] == "right before 3, the event at 2 is a Limit, not a Login"


def test_why_not_reads_as_text(cards: list[str]) -> None:
    assert (
        run("why-not", *cards, "--event", "Next", "--key", "1")[1]
        == """\
Next(card = 1) is not there at the tick 2026-01-01T09:23:00Z
  right before 8, the event at 7 is a Withdrawal, not a Login
  because of Login(card)
  looked at Withdrawal(1, 9.5) at 2026-01-01T09:22:00Z, detected 2026-01-01T09:22:00Z, seq 8
"""
    )


# ---- why an action did not fire -----------------------------------------------------------------------------------

WATCHED = """
SET CHRONON 10s;
CREATE MUTABLE SUBSCRIBED EVENT CLASS E (k INT, x INT) ID (k) LIFESPAN (1d)
  ON {} DO act(NEW.k);
"""
SECOND = 1_000_000_000
"""A time, in seconds since the epoch: the beginning of a chronon."""


@pytest.mark.parametrize(
    ("condition", "versions", "at", "sentence"),
    [
        ("ANNOUNCEMENT", [(0, 5, 1), (12, 40, 1)], 20, "there is OLD, E(1, 1) at 2001-09-09T01:46:45Z"),
        ("CHANGE", [(0, 5, 1)], 10, "CHANGE does not hold: there is no OLD"),
        ("CHANGE", [(0, 5, 1), (12, 40, 1)], 20, "OLD has happened at 2001-09-09T01:46:45Z, before the tick"),
        ("CHANGE", [(0, 50, 1), (12, None, 1)], 20, "NEW withdraws the event"),
        ("CANCELLATION", [(0, 50, 1), (12, 60, 1)], 20, "NEW does not withdraw the event"),
        ("REVOCATION", [(0, 50, 1), (12, None, 1)], 20, "OLD is still ahead: it happens at 2001-09-09T01:47:30Z"),
        ("RETROACTIVECHANGE", [(0, 5, 1), (12, 40, 1)], 20, "NEW is ahead: it happens at 2001-09-09T01:47:20Z"),
        ("POSTPONE", [(0, 5, 1), (12, 6, 1)], 20, "NEW has happened at 2001-09-09T01:46:46Z"),
        ("FUTURE", [(0, 5, 1)], 10, "NEW has happened at 2001-09-09T01:46:45Z, before the tick 2001-09-09T01:46:50Z"),
        ("ONTIME", [(0, 45, 1)], 10, "it is on time at the tick 2001-09-09T01:47:30Z"),
        ("ONTIME", [(30, 5, 1)], 40, "before the chronon that ends at 2001-09-09T01:47:20Z: it would be LATE"),
        ("ONTIME", [(0, 5, 1), (22, 21, 1)], 30, "the event has been ONTIME or LATE already, with OLD at"),
        ("LATE", [(0, 5, 1)], 10, "in the chronon that ends at 2001-09-09T01:46:50Z: it is ONTIME"),
        ("LATE(1m, 2m)", [(30, 5, 1)], 40, "was detected 20s later, in whole chronons"),
        ("FIRED", [(0, 5, 1)], 10, "act has not fired for this event at an earlier tick since it was announced"),
        ("NOT ANNOUNCEMENT", [(0, 5, 1)], 10, "ANNOUNCEMENT does hold"),
        ("NEW.x > 3", [(0, 5, 1)], 10, "NEW.x > 3 is FALSE: NEW.x = 1"),
        ("NEW.x > OLD.x", [(0, 5, 1)], 10, "is NULL: NEW.x = 1, OLD.x = NULL (there is no OLD)"),
        ("ANNOUNCEMENT AND NOW - NEW.occTime > 1h", [(0, 5, 1)], 10, "NOW = 2001-09-09T01:46:50Z"),
        ("CHANGE OR NEW.x = 7", [(0, 5, 1)], 10, "there is no OLD; and NEW.x = 7 is FALSE: NEW.x = 1"),
        ("ANNOUNCEMENT", [(0, 5, 1)], 30, "it is looked at when a version is read, and the version was read at"),
        ("ONTIME", [(0, 5, 1)], 30, "it has fired for this version at an earlier tick"),
    ],
)
def test_the_part_of_a_condition_that_failed(
    tmp_path: Path, condition: str, versions: list[tuple[int, int | None, int]], at: int, sentence: str
) -> None:
    (tmp_path / "p.bicepl").write_text(WATCHED.format(condition))
    rows: list[dict[str, Any]] = [
        {"event": "E", "k": 1, "x": x, "det_time": SECOND + det, "occ_time": None if occ is None else SECOND + occ}
        for det, occ, x in versions
    ]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = (str(tmp_path / "p.bicepl"), "--events", str(tmp_path / "e.jsonl"), "--event", "E", "--key", "1")
    found = json.loads(run("why-not", *words, "--action", "act", "--at", str(SECOND + at), "--output", "json")[1])
    assert sentence in found["sentence"]
    assert found["took_place"] is False
    assert found["statements"][0]["sentence"] == found["sentence"]


def test_an_action_that_fired_is_said_to_have() -> None:
    words = ("--event", "Delivery", "--key", "butter", "--action", "informOwner", "--at", "2026-03-03T20:15:00Z")
    code, text, _ = run("why-not", *GROCERIES, *words)
    assert code == 0
    assert "`informOwner` did fire, by statement 1: `augury why` says why" in text


# ---- questions without an answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "words", "exit_code", "said"),
    [
        ("why", ("--event", "Deliver", "--key", "eggs"), 1, "did you mean `Delivery`?"),
        ("why", ("--event", "Zzz"), 1, "it has ResourceEmpty, ResourceLow"),
        ("why", ("--event", "Delivery", "--key", "egg"), 1, "did you mean --key resource=eggs?"),
        ("why", ("--event", "Delivery", "--key", "qqqq"), 1, "there are --key resource=butter, --key resource=eggs"),
        ("why", ("--event", "Delivery"), 2, "there are 3 events of `Delivery`: which one is meant?"),
        ("why", ("--event", "Delivery", "--key", "a", "--key", "b"), 2, "`b` is no part of the key of `Delivery`"),
        ("why", ("--event", "Delivery", "--key", "a", "--key", "amout=3"), 2, "did you mean `amount`?"),
        ("why", ("--event", "Delivery", "--key", "eggs", "--key", "amount=x"), 2, "`x` does not fit"),
        ("why", ("--event", "Delivery", "--key", "amount=2"), 2, "`resource` is not given"),
        (
            "why",
            ("--event", "Delivery", "--key", "eggs", "--seq", "1"),
            1,
            "there is no Delivery(resource = 'eggs') at seq 1",
        ),
        ("why", ("--event", "Delivery", "--key", "eggs", "--at", "2020-01-01"), 1, "nothing had come by then"),
        ("why", ("--event", "Delivery", "--key", "eggs", "--at", "tomorrow"), 2, "`tomorrow` is no time"),
        ("why", ("--event", "Delivery", "--key", "ham", "--action", "informOwner"), 1, "has not fired for Delivery"),
        ("why", ("--event", "Delivery", "--key", "ham", "--action", "informer"), 1, "did you mean `informOwner`?"),
        ("why", ("--event", "ResourceLow", "--key", "ham", "--action", "x"), 1, "actions belong to the class whose ON"),
        ("why-not", ("--event", "Delivery", "--key", "tea", "--action", "informOwner"), 1, "there is no Delivery"),
        ("why-not", ("--event", "Delivry", "--key", "tea"), 1, "did you mean `Delivery`?"),
    ],
)
def test_a_question_without_an_answer(verb: str, words: tuple[str, ...], exit_code: int, said: str) -> None:
    code, out, err = run(verb, *GROCERIES, *words)
    assert (code, out) == (exit_code, "")
    assert said in err


def test_where_nothing_was_accepted_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    said = {"": "no event came", '{"event": "Deliver", "occ_time": 5}\n': "the first, ", "nonsense\n": "it is not JSON"}
    for text, sentence in said.items():
        path.write_text(text)
        for verb in ("why", "why-not"):
            code, out, err = run(verb, GROCERIES[0], "--events", str(path), "--event", "Delivery", "--key", "eggs")
            assert (code, out) == (1, "")
            assert sentence in err
            assert ("all events were rejected" in err) == bool(text)
            assert "--at" not in err


def test_a_question_without_an_answer_as_json() -> None:
    code, out, err = run("why", *GROCERIES, "--event", "Deliver", "--key", "eggs", "--output", "json")
    assert (code, err) == (1, "")
    assert json.loads(out) == {
        "error": "the program has no event class `Deliver`",
        "helps": ["did you mean `Delivery`?"],
    }


def test_a_program_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.bicepl"
    path.write_text("CREATE EVENT;")
    assert run("why", str(path), *GROCERIES[1:], "--event", "A")[0] == 1
    assert run("why", str(tmp_path / "none.bicepl"), *GROCERIES[1:], "--event", "A")[0] == 2
    code, _, err = run("why", GROCERIES[0], "--events", str(tmp_path / "none"), "--event", "Delivery")
    assert code == 2
    assert "none" in err


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "p.bicepl").write_text("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (x STRING) ID (x) LIFESPAN (1d);")
    (tmp_path / "e.jsonl").write_text(json.dumps({"event": "A", "x": "\x1b[31mred", "occ_time": SECOND}) + "\n")
    _, text, _ = run("why", str(tmp_path / "p.bicepl"), "--events", str(tmp_path / "e.jsonl"), "--event", "A")
    assert "\x1b" not in text
    assert "red" in text


# ---- laws --------------------------------------------------------------------------------------------------------


def random_cards(seed: int) -> str:
    """Logins, withdrawals and limits of three cards."""
    draw, lines, now = random.Random(seed), [], SECOND
    for _ in range(draw.randrange(4, 25)):
        now += draw.choice((5, 61, 200, 700))
        row: dict[str, Any] = {"event": draw.choice(("Login", "Withdrawal", "Limit")), "card": draw.randrange(3)}
        row |= {"occ_time": now - draw.choice((0, 0, 30))} | {"det_time": now}
        row |= {"amount": draw.choice((5, 150))} if row["event"] == "Withdrawal" else {}
        row |= {"most": draw.choice((1, 10))} if row["event"] == "Limit" else {}
        lines.append(json.dumps(row))
    return "\n".join(lines) + "\n"


def test_every_event_is_either_explained_or_said_to_be_missing(tmp_path: Path) -> None:
    program, counts = augury.compile(PROGRAM), {"there": 0, "missing": 0}
    for seed in range(6):
        path = tmp_path / f"{seed}.jsonl"
        path.write_text(random_cards(seed))
        ran = simulation(program, str(path), tells_why=False)
        ran.run()
        live = {(place, key) for place, state in enumerate(ran.state.classes) for key in state.view.slots}
        for name in ("Quick", "Idle", "Next", "Total"):
            for card in range(3):
                asked = asked_about(program, name, [str(card)])
                answer = why_not(ran, asked)
                assert answer.took_place == ((asked.place, card) in live), (seed, name, card, answer)
                assert answer.sentence
                counts["there" if answer.took_place else "missing"] += 1
                if answer.took_place:
                    found = why(ran, asked)
                    assert found.why is not None
                    assert found.left is None
    assert min(counts.values()) > 20, counts

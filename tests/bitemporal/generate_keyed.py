"""Random programs whose events fall apart by a key, and random events for them; each a function of a seed.

A program has one or two components that nothing joins. In each, subscribed classes have the attributes `k` (`j` in the
second) and `v INT`. By the first MATCH, COMPOSITE and SELECT classes join and group; it is of any type, with NULL and
with values that are equal though they look different. Some classes do not fall apart all the same. Events are rows as
lines of JSON have them: with duplicates, event_ids that several keys have, withdrawals, and a few that are wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

from augury.algebra.program import Program
from augury.api import ProgramError, compile
from augury.clock import show_time
from tests.bitemporal.generate import GAPS, MIXED_LIFESPANS, SECOND, START, _lifespan, _statements


@dataclass(frozen=True)
class Keyed:
    """A program as text and compiled, events as rows, and how far the clock goes."""

    text: str
    program: Program
    rows: tuple[dict[str, Any], ...]
    until: int


@dataclass(frozen=True)
class _Kind:
    """Types of `k` whose values can be equal, the widest last, and values as JSON has them."""

    types: tuple[str, ...]
    values: tuple[Any, ...]


DOUBLES = _Kind(("DOUBLE",), (0.0, -0.0, 1.5, "NaN", None))
KINDS = (
    _Kind(("INT", "BIGINT"), (1, 2, -3, 40, None)),
    _Kind(("INT",), (1, 2, 3, None)),
    _Kind(("VARCHAR(9)", "STRING"), ("a", "b", "", "ü", None)),
    _Kind(("NUMERIC(10, 2)",), (1, 1.5, "1.50", 2.25, None)),
    _Kind(("TIMESTAMP",), ("2026-01-01T09:00:00Z", "2026-01-01T10:00:00+01:00", "2026-01-02T00:00:00.5Z", None)),
    DOUBLES,
    _Kind(("DATE",), ("2026-01-01", "2026-01-02", "2026-02-01")),
    _Kind(("BOOLEAN",), (True, False, None)),
)


_K = re.compile(r"\bk\b")
"""The name of the key, which in the second component is `j`: a PARTITION BY would take its classes in."""


def generate_keyed(seed: int) -> Keyed:
    """The case of a seed."""
    random = Random(f"keyed {seed}")
    text = f"SET CHRONON {random.choice([1, 5, 10, 10])}s;\n"
    text += "SET ARCHIVE ON;\n" if random.random() < 0.3 else ""
    kinds: dict[str, _Kind] = {}
    statements: list[str] = []
    for letters in ("ABC", "FGH")[: random.choice([1, 1, 2])]:
        kind = random.choice(KINDS)
        known = list(letters[: random.choice([2, 2, 3])])
        kinds |= dict.fromkeys(known, kind)
        own = [_subscribed(random, name, kind) for name in known]
        for number in range(random.choice([1, 2, 3])):
            name = f"{letters[0]}{number}"
            own.append(_complex(random, name, known, kind, text + "".join(own)))
            known.append(name)
        statements += own if letters == "ABC" else [_K.sub("j", statement) for statement in own]
    text += "".join(statements)
    rows = _rows(random, kinds)
    return Keyed(text, compile(text), tuple(rows), START + (len(rows) * 3 + random.randrange(60)) * SECOND)


def _subscribed(random: Random, name: str, kind: _Kind) -> str:
    mutable = "IMMUTABLE" if random.random() < 0.25 else "MUTABLE"
    key = random.choice(["k", "k", "k, v", ""])
    head = f"CREATE {mutable} SUBSCRIBED EVENT CLASS {name} (k {random.choice(kind.types)}, v INT) ID ({key})"
    return f"{head} {_lifespan(random, MIXED_LIFESPANS)}{_watched(random)};\n"


def _complex(random: Random, name: str, known: list[str], kind: _Kind, before: str) -> str:
    """A class that compiles after those before it; most of what is tried does."""
    while True:
        ways = [_match, _match, _composite, _composite] if kind is DOUBLES else [_match, _composite, _select]
        derivation = random.choice(ways)(random, known)
        key = random.choice(["k", "k", "k", "k, v", ""])
        lifespan = _lifespan(random, MIXED_LIFESPANS) if random.random() < 0.7 else ""
        text = f"CREATE COMPLEX EVENT CLASS {name} (k {kind.types[-1]}, v INT) ID ({key}) {lifespan}\n  AS {derivation}"
        text += f"{_watched(random)};\n"
        try:
            compile(before + text)
        except ProgramError:
            continue
        return text


_TIMELY = (
    *("NEW.v > 1", "NEW.v > OLD.v", "OLD.v IS NULL", "NEW.occTime > OLD.occTime", "NOW - NEW.detTime <= 2s"),
    *("NEW.occTime > NOW + 5s", "NEW.occTime + 10s <= NOW", "NEW.k = OLD.k", "NEW.k IS NULL"),
)


def _watched(random: Random) -> str:
    return _statements(random, _TIMELY) if random.random() < 0.7 else ""


def _match(random: Random, known: list[str]) -> str:
    a, b, c = (random.choice(known) for _ in range(3))
    clauses = random.choice(["", "", " WITHIN 10s", " WITHIN 30s"])
    clauses += random.choice(["", "", " COLLECT ALL", " COLLECT EARLIEST", " COLLECT COUNT(*) AS v"])
    kept = "" if "AS v" in clauses else " RETURN w AS v"
    over = ", ".join(dict.fromkeys([a, b, c]))
    parted = f" OVER ({over}) PARTITION BY k" if random.random() < 0.5 else " PARTITION BY k"
    return "MATCH " + random.choice(
        [
            f"prior({a}(k, _), {b}(k, v)){clauses}",
            f"prior({a}(k, v), {b}(k, w)) WHERE v <= w{clauses}{kept}",
            f"relative({a}(k, _), {b}(k, _)){clauses}",
            f"prior({a}(k, _), {b}(k, _), {c}(k, v)){clauses}",
            f"({a}(k, v) OR {b}(k, v)){clauses}",
            f"relative({a}(k, _), <2> {b}(k, _)){clauses}",
            f"{a}(k, v)",
            f"{a}(k, v)[v >= 1]",
            f"{a}(k, v) AND !prior({b}(k, _), any)",
            f"sequence({a}, {b}){parted} RETURN {a}.k AS k, {b}.v AS v",
            f"({b} /+ {a}){parted} RETURN {b}.k AS k",
            f"{a}[v >= PREV(v)]{parted} RETURN {a}.k AS k, {a}.v AS v",
            f"EVERY <2> {a}{parted} RETURN {a}.k AS k",
            f"sequence({a}(k, _), {b}(k, _))",
        ]
    )


def _composite(random: Random, known: list[str]) -> str:
    a, b, c = (random.choice(known) for _ in range(3))
    seconds = random.choice([0, 3, 5, 12])
    context = random.choice(["RECENT", "CHRONICLE", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "UNRESTRICTED"])
    within = random.choice(["", "", " WITHIN 20s"])
    shared = random.choice(
        [
            f"{a}(k, _) > {b}(k, v){within}",
            f"{a}(k, _) & {b}(k, v){within}",
            f"({a}(k, v) | {b}(k, v)) > {c}(k, _){within}",
            f"{a}(k, _) > !{b}(k, _) > {c}(k, v){within}",
            f"{a}(k, v) > !{b}(k, _) WITHIN {seconds}s",
            f"({a}(k, v) + {seconds}s)",
            f"(({a}(k, _) > {b}(k, _)) + {seconds}s)",
            f"NOT({b}(k, _))[{a}(k, v), {c}(k, _)]",
            f"ANY{{2, {a}(k, _), {b}(k, _), {c}(k, _)}}{within}",
            f"PERIODIC({a}(k, v), [{random.choice([5, 7])}s], {b}(k, _))",
            f"APERIODIC({a}(k, _), {b}(k, v), {c}(k, _))",
            f"APERIODIC*({a}(k, _), {b}(k, _), {c}(k, v))",
            f"{a}(k, _){{2}}{within}",
            f"({a}(k, v) > {b}(k, w)) WHERE v <= w",
        ]
    )
    parted = f"{a} > {b} PARTITION BY k{within}"
    if random.random() < 0.25:
        return f"COMPOSITE {parted} CONTEXT {context} RETURN {b}.k AS k, {a}.v AS v"
    return f"COMPOSITE {shared} CONTEXT {context}"


def _select(random: Random, known: list[str]) -> str:
    a, b = (random.choice(known) for _ in range(2))
    least = random.choice([1, 2])
    return random.choice(
        [
            f"SELECT x.k, y.v FROM {a} x JOIN {b} y ON x.k = y.k OCCURRING AT MAX(x.occTime, y.occTime)",
            f"SELECT k, COUNT(*) AS v FROM {a} GROUP BY k HAVING COUNT(*) >= {least} OCCURRING AT MAX({a}.occTime)",
            f"SELECT k, MAX(v) AS v FROM {a} GROUP BY k OCCURRING AT MIN({a}.occTime)",
            f"SELECT k, v FROM {a} WHERE v >= {least} AND occTime - NOW < 10s OCCURRING AT {a}.occTime + 5s",
            f"SELECT t.k, t.v FROM (SELECT k, v, occTime FROM {a} UNION SELECT k, v, occTime FROM {b}) t"
            " OCCURRING AT t.occTime",
        ]
    )


def _rows(random: Random, kinds: dict[str, _Kind]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    clock = START
    for _ in range(random.randint(8, 26)):
        clock += random.choice(GAPS[:-1])
        if rows and random.random() < 0.12:
            rows.append(random.choice(rows))
            continue
        name = random.choice(list(kinds))
        row: dict[str, Any] = {"event": name, "det_time": show_time(clock)}
        if random.random() < 0.15:
            row["event_id"] = random.choice("pqr")
        if random.random() < 0.9:
            away = random.choice([0, 0, 0, -1, 1, -7, 7, -30, 30]) * SECOND
            row["occ_time"] = None if random.random() < 0.15 else show_time(clock + away)
        row |= {
            "k" if name in "ABC" else "j": random.choice(kinds[name].values),
            "v": random.choice([0, 1, 2, 3, None]),
        }
        rows.append(row | random.choice(_FAULTS) if random.random() < 0.04 else row)
    return rows


_FAULTS: tuple[dict[str, Any], ...] = ({"event": "Nobody"}, {"v": "many"}, {"det_time": "soon"}, {"event": None})

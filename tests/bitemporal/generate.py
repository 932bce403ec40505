"""Random programs with SELECT classes and conditions, and random histories for them; each a function of a seed.

Every class has the attributes `k INT, v INT`. A SELECT is given twice: as text, for an engine, and as a function, for
the reference; the two say the same. Times are seconds after START; few keys and values, so that versions meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.api import compile
from augury.kernels.reference.bitemporal import ABSENT, EventId, Made, Raw, Select, Version, View
from augury.kernels.reference.bitemporal.version import Absent

SECOND = 1_000_000
START = 1_700_000_003 * SECOND
"""Not at the bound of a chronon of 5 or 10 seconds."""


@dataclass(frozen=True)
class Generated:
    """A program as text and compiled, a function per SELECT class, raw versions, and how far the clock goes."""

    text: str
    program: Program
    selects: Mapping[str, Select]
    raws: tuple[Raw, ...]
    until: int


def generate(seed: int) -> Generated:
    """The case of a seed."""
    random = Random(seed)
    subscribed = ["A"] if random.random() < 0.3 else ["A", "B"]
    text = f"SET CHRONON {random.choice([1, 5, 10])}s;\n"
    text += "SET ARCHIVE ON;\n" if random.random() < 0.3 else ""
    for name in subscribed:
        kind = "IMMUTABLE" if random.random() < 0.25 else "MUTABLE"
        key = "" if random.random() < 0.15 else "k"
        text += f"CREATE {kind} SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID ({key}) {_lifespan(random)}"
        text += f"{_statements(random)};\n"
    known = list(subscribed)
    selects: dict[str, Select] = {}
    for name in ["X", "Y"][: random.choice([0, 1, 1, 2, 2])]:
        query, select = _select(random, known)
        key = random.choice(["k", "k", "k", "k, v", ""])
        lifespan = _lifespan(random) if random.random() < 0.7 else ""
        text += f"CREATE COMPLEX EVENT CLASS {name} (k INT, v INT) ID ({key}) {lifespan}\n  AS {query}"
        text += f"{_statements(random)};\n"
        selects[name] = select
        known.append(name)
    raws = _raws(random, subscribed)
    last = max(raw.det_time or 0 for raw in raws)
    return Generated(text, compile(text), selects, tuple(raws), last + random.randrange(60) * SECOND)


def _lifespan(random: Random) -> str:
    return f"LIFESPAN ({random.choice(['-1', '0s', '3s', '10s', '20s', '20s', '60s'])})"


# ---- conditions -----------------------------------------------------------------------------------

PRIMITIVES = (
    *("ANNOUNCEMENT", "CHANGE", "CANCELLATION", "RETROACTIVECHANGE", "POSTPONE", "REVOCATION", "FUTURE"),
    *("ONTIME", "ONTIME", "ONTIME", "LATE", "LATE(0s, 5s)", "LATE(5s, 10s)", "LATE(10s, 1m)", "FIRED", "FIRED"),
)
COMPARISONS = (
    *("NEW.v > 1", "OLD.v = 1", "NEW.v > OLD.v", "NEW.v - OLD.v <= 1", "OLD.v IS NULL", "NEW.v IS NULL"),
    *("NEW.occTime > OLD.occTime", "NEW.occTime - OLD.occTime > 5s", "NOW - NEW.detTime <= 2s", "NEW.k = 1"),
    *("NEW.occTime > NOW + 5s", "NEW.occTime + 10s <= NOW", "OLD.detTime < NEW.detTime", "NEW.occTime = OLD.occTime"),
)
ARGUMENTS = ("NEW.v", "OLD.v", "NEW.occTime", "OLD.occTime", "NOW", "NEW.detTime - NEW.occTime", "'x'", "NEW.v + OLD.v")


def _statements(random: Random) -> str:
    statements = []
    for _ in range(random.choice([0, 1, 2, 3, 4])):
        calls = []
        for name in random.sample(["a", "b", "c"], random.choice([1, 1, 1, 2])):
            calls.append(f"{name}({', '.join(random.sample(ARGUMENTS, random.randrange(3)))})")
        statements.append(f"\n  ON {_condition(random, 3)} DO {', '.join(calls)}")
    return ",".join(statements)


def _condition(random: Random, depth: int) -> str:
    chosen = random.random()
    if depth == 0 or chosen < 0.45:
        return random.choice(PRIMITIVES if random.random() < 0.7 else COMPARISONS)
    if chosen < 0.6:
        return f"NOT ({_condition(random, depth - 1)})"
    word = "AND" if chosen < 0.8 else "OR"
    return f"({_condition(random, depth - 1)} {word} {_condition(random, depth - 1)})"


# ---- SELECTs --------------------------------------------------------------------------------------


def _select(random: Random, known: list[str]) -> tuple[str, Select]:
    return random.choice([_filter, _filter, _join, _union, _group])(random, known)


def _filter(random: Random, known: list[str]) -> tuple[str, Select]:
    source, least = random.choice(known), random.randrange(3)
    ahead, later = random.choice([None, 0, 10]), random.choice([0, 0, 5, -5])
    where = f"v >= {least}" + (f" AND occTime - NOW < {ahead}s" if ahead is not None else "")
    occurring = f"{source}.occTime" + (f" {'+' if later > 0 else '-'} {abs(later)}s" if later else "")

    def select(views: Mapping[str, View], now: int) -> list[Made]:
        return [
            Made(row.values, _occ(row) + later * SECOND, frozenset({row.event}))
            for row in views[source]
            if isinstance(v := row.values[1], int) and v >= least
            if ahead is None or _occ(row) - now < ahead * SECOND
        ]

    return f"SELECT k, v FROM {source} WHERE {where} OCCURRING AT {occurring}", select


def _join(random: Random, known: list[str]) -> tuple[str, Select]:
    left, right = random.choice(known), random.choice(known)
    function = random.choice(["MAX", "MIN"])

    def select(views: Mapping[str, View], now: int) -> list[Made]:
        choose = max if function == "MAX" else min
        return [
            Made((x.values[0], y.values[1]), choose(_occ(x), _occ(y)), frozenset({x.event, y.event}))
            for x in views[left]
            for y in views[right]
            if x.values[0] == y.values[0]
        ]

    sql = f"SELECT x.k, y.v FROM {left} x JOIN {right} y ON x.k = y.k OCCURRING AT {function}(x.occTime, y.occTime)"
    return sql, select


def _union(random: Random, known: list[str]) -> tuple[str, Select]:
    left, right = random.choice(known), random.choice(known)
    is_all = random.random() < 0.5

    def select(views: Mapping[str, View], now: int) -> list[Made]:
        rows = [*views[left], *views[right]]
        if is_all:
            return [Made(row.values, _occ(row), frozenset({row.event})) for row in rows]
        united: dict[tuple[Value, ...], set[EventId]] = {}
        for row in rows:
            united.setdefault((*row.values, _occ(row)), set()).add(row.event)
        return [Made((k, v), occ, frozenset(events)) for (k, v, occ), events in united.items() if isinstance(occ, int)]

    word = "UNION ALL" if is_all else "UNION"
    inner = f"SELECT k, v, occTime FROM {left} {word} SELECT k, v, occTime FROM {right}"
    return f"SELECT t.k, t.v FROM ({inner}) t OCCURRING AT t.occTime", select


def _group(random: Random, known: list[str]) -> tuple[str, Select]:
    source, least = random.choice(known), random.choice([1, 1, 2])

    def select(views: Mapping[str, View], now: int) -> list[Made]:
        groups: dict[Value, list[int]] = {}
        for row in views[source]:
            groups.setdefault(row.values[1], []).append(_occ(row))
        return [Made((v, len(times)), max(times)) for v, times in groups.items() if len(times) >= least]

    sql = f"SELECT v AS k, COUNT(*) AS v FROM {source} GROUP BY v HAVING COUNT(*) >= {least}"
    return f"{sql} OCCURRING AT MAX({source}.occTime)", select


def _occ(row: Version) -> int:
    assert row.occ_time is not None
    return row.occ_time


# ---- histories ------------------------------------------------------------------------------------


def _raws(random: Random, classes: list[str]) -> list[Raw]:
    raws: list[Raw] = []
    clock = START
    for _ in range(random.randint(1, 16)):
        clock += random.choice([0, 200_000, SECOND, SECOND, 3 * SECOND, 7 * SECOND, 25 * SECOND])
        if raws and random.random() < 0.1:
            raws.append(random.choice(raws))
            continue
        away = random.choice([0, 0, 0, -1, 1, -7, 7, -30, 30, -90, 15]) * SECOND
        occ_time: int | Absent | None = None if random.random() < 0.18 else clock + away
        if random.random() < 0.03:
            occ_time = ABSENT
        values = (random.randint(1, 2), random.choice([0, 1, 2, 3, None]))
        event_id = random.choice("pqr") if random.random() < 0.1 else None
        raws.append(Raw(random.choice(classes), values, occ_time, clock, event_id))
    return raws

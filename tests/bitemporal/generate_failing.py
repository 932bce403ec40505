"""Random programs whose SELECTs fail for some values, and random histories for them; each a function of a seed.

All classes have the attributes `k INT, v INT`, and fall apart by `k`, of which there are some more values than in other
random programs, so that an event fails in one slot and not in others. Classes stand on each other, so that what one
keeps others miss; sums come to fail by what is purged, and comparisons with NOW by the time that passes.
"""

from __future__ import annotations

from random import Random

from augury.api import ProgramError, compile
from augury.kernels.reference.bitemporal import Raw
from tests.bitemporal.generate import GAPS, SECOND, START, Generated, _lifespan
from tests.bitemporal.generate_keyed import _composite, _match, _select, _watched

_LIFESPANS = ("-1", "10s", "20s", "30s", "60s", "120s")


def generate_failing(seed: int) -> Generated:
    """The case of a seed; its SELECTs are given as text only."""
    random = Random(f"failing {seed}")
    text = f"SET CHRONON {random.choice([5, 10, 10])}s;\n"
    text += "SET ARCHIVE ON;\n" if random.random() < 0.3 else ""
    known = ["A"] if random.random() < 0.3 else ["A", "B"]
    for name in known:
        kind, key = "IMMUTABLE" if random.random() < 0.15 else "MUTABLE", random.choice(["k", "k", "k", ""])
        head = f"CREATE {kind} SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID ({key})"
        text += f"{head} {_lifespan(random, _LIFESPANS)}{_watched(random)};\n"
    subscribed = list(known)
    for number in range(random.choice([1, 2, 2, 3, 3])):
        text += _complex(random, f"C{number}", known, text, is_fragile=number == 0 or random.random() < 0.5)
        known.append(f"C{number}")
    raws = _raws(random, subscribed)
    last = max(raw.det_time or 0 for raw in raws)
    return Generated(text, compile(text), {}, tuple(raws), last + random.randrange(60) * SECOND)


def _complex(random: Random, name: str, known: list[str], before: str, *, is_fragile: bool) -> str:
    """A class that compiles after those before it; most of what is tried does."""
    while True:
        derivation = (_fragile if is_fragile else random.choice([_match, _composite, _select]))(random, known)
        key = random.choice(["k", "k", "k", "k, v", "" if derivation.startswith("SELECT") else "k"])
        lifespan = _lifespan(random, _LIFESPANS) if random.random() < 0.7 else ""
        text = f"CREATE COMPLEX EVENT CLASS {name} (k INT, v INT) ID ({key}) {lifespan}\n  AS {derivation}"
        text += f"{_watched(random)};\n"
        try:
            compile(before + text)
        except ProgramError:
            continue
        return text


def _fragile(random: Random, known: list[str]) -> str:
    a, b = (random.choice(known) for _ in range(2))
    bad = random.randrange(4)
    return random.choice(
        [
            f"SELECT k, {_one('v', bad)} FROM {a} OCCURRING AT {a}.occTime",
            f"SELECT k, {_one('v', bad)} FROM {a} WHERE occTime - NOW < 10s OCCURRING AT {a}.occTime",
            f"SELECT k, {_one('v', bad)} FROM {a} WHERE NOW - occTime < 20s OCCURRING AT {a}.occTime + 5s",
            f"SELECT k, {_one('SUM(v)', bad)} FROM {a} GROUP BY k OCCURRING AT MAX({a}.occTime)",
            f"SELECT k, {_one('COUNT(*)', 1 + bad)} FROM {a} GROUP BY k OCCURRING AT MIN({a}.occTime)",
            f"SELECT k, CAST(SUM(v) * 1000000000 AS INT) AS v FROM {a} GROUP BY k OCCURRING AT MAX({a}.occTime)",
            f"SELECT x.k, {_one('x.v + y.v', bad)} FROM {a} x JOIN {b} y ON x.k = y.k"
            " OCCURRING AT MAX(x.occTime, y.occTime)",
        ]
    )


def _one(value: str, bad: int) -> str:
    """A column that fails where the value is a certain one."""
    return f"CAST(CASE WHEN {value} = {bad} THEN 'bad' ELSE '{bad + 1}' END AS INT) AS v"


def _raws(random: Random, classes: list[str]) -> list[Raw]:
    found: list[Raw] = []
    clock = START
    for _ in range(random.randint(8, 24)):
        clock += random.choice(GAPS)
        if found and random.random() < 0.08:
            found.append(random.choice(found))
            continue
        occ_time = None if random.random() < 0.18 else clock + random.choice([0, 0, -1, 1, -7, 7, -30, 30]) * SECOND
        values = (random.randint(1, 5), random.choice([0, 1, 2, 3, None]))
        event_id = random.choice("pqr") if random.random() < 0.1 else None
        found.append(Raw(random.choice(classes), values, occ_time, clock, event_id))
    return found

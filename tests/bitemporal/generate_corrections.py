"""Random programs with classes that have ORDER BY OCCURRENCE, and random histories for them; each a function of a seed.

`generate_corrected` has them among MATCH, COMPOSITE, SELECT and clock classes, with lifespans, ALLOWING, late, changed
and withdrawn versions: for an engine against the reference. `generate_plainly` has no lifespans, no ALLOWING, no class
that reads another complex one, and no two versions of one occ_time: for laws that hold of such programs only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from augury.algebra.program import Program
from augury.api import compile
from augury.kernels.reference.bitemporal import Raw, Select
from tests.bitemporal.generate import (
    MIXED_GAPS,
    MIXED_LIFESPANS,
    SECOND,
    START,
    TIMELY,
    TIMELY_ARGUMENTS,
    Generated,
    _compiles,
    _composite,
    _lifespan,
    _match,
    _select,
    _statements,
)

ORDER = " ORDER BY OCCURRENCE"

_LEAF = re.compile(r"\b[A-E]\b(?:\([^()]*\))?(?![\[(])")
_MASKS = (
    "[detTime > occTime]",
    "[detTime <= occTime + 2s]",
    "[detTime < PREV(detTime)]",
    "[PREV(detTime, 2) > occTime]",
)


def generate_corrected(seed: int) -> Generated:
    """The case of a seed; at least one of its classes has ORDER BY OCCURRENCE."""
    random = Random(f"corrected {seed}")
    # The reference lists every tuple of a MATCH after every version, so deep ones have short histories.
    depth, most = random.choice([(1, 14), (1, 14), (2, 9)])
    lifespans = ("-1",) if random.random() < 0.5 else MIXED_LIFESPANS
    subscribed = ["A"] if random.random() < 0.2 else ["A", "B"]
    settings = f"SET CHRONON {random.choice([5, 10, 10, 20])}s;\n"
    statements = []
    for name in subscribed:
        kind = "IMMUTABLE" if random.random() < 0.15 else "MUTABLE"
        key = "" if random.random() < 0.15 else "k"
        head = f"CREATE {kind} SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID ({key})"
        statements.append(f"{head} {_lifespan(random, lifespans)}{_statements(random)};\n")
    clocks = ["T"] if random.random() < 0.25 else []
    for name in clocks:
        head = f"CREATE CLOCK EVENT CLASS {name} EVERY {random.choice([10, 20, 30])}s {_lifespan(random, lifespans)}"
        statements.append(f"{head}{_statements(random, TIMELY, TIMELY_ARGUMENTS)};\n")
    known = list(subscribed)
    selects: dict[str, Select] = {}
    ways = ["corrected", *random.choices(["corrected", "corrected", "plain", "select"], k=random.choice([0, 0, 1, 2]))]
    random.shuffle(ways)
    for name, way in zip("CDE", ways, strict=False):
        while True:
            if way == "select":
                query, selects[name] = _select(random, known)
            else:
                allowing = random.choice(["", "", f" ALLOWING {random.choice([0, 5, 10, 30])}s"])
                order = ORDER + allowing if way == "corrected" else ""
                query = random.choice([_match, _composite])(random, known, clocks, depth, order)
            if way == "corrected" and random.random() < 0.5:
                query = _asking_when_detected(random, query, known)
            text = f"CREATE COMPLEX EVENT CLASS {name} (k INT, v INT) ID ({random.choice(['k', 'k', 'k, v', ''])})"
            text += f" {_lifespan(random, lifespans)}\n  AS {query}{_statements(random)};\n"
            if _compiles(settings + "".join([*statements, text])):
                break
        statements.append(text)
        known.append(name)
    text = settings + "".join(statements)
    raws = _versions(random, subscribed, most)
    last = max(raw.det_time or 0 for raw in raws)
    return Generated(text, compile(text), selects, tuple(raws), last + random.randrange(60) * SECOND)


def _asking_when_detected(random: Random, query: str, known: list[str]) -> str:
    """The same query with detTime in a mask, WHERE, RETURN or COLLECT, or several of them; not all of this compiles."""
    expression, order, rest = re.split(f"({ORDER}(?: ALLOWING \\w+)?)", query)
    one, other = random.choice(known), random.choice(known)
    ways = random.sample(["mask", "where", "return"], random.choice([1, 1, 2]))
    if "mask" in ways and (leaves := list(_LEAF.finditer(expression))):
        at = random.choice(leaves).end()
        expression = expression[:at] + random.choice(_MASKS) + expression[at:]
    if "where" in ways and "WHERE" not in rest:
        rest = (
            random.choice([f" WHERE {one}.detTime <= {other}.detTime", f" WHERE {one}.detTime > {other}.occTime"])
            + rest
        )
    if "return" in ways and " AS v" not in rest:
        value = random.choice([f"SECOND({one}.detTime)", f"SECOND({one}.detTime) - SECOND({other}.occTime)"])
        is_match = query.startswith("MATCH") and "COLLECT" not in rest
        rest += f" COLLECT MAX({value}) AS v" if is_match and random.random() < 0.3 else f" RETURN {value} AS v"
    return expression + order + rest


def _versions(random: Random, classes: list[str], most: int) -> list[Raw]:
    """Late ones, some announced, and many of events that are there: changed, moved, withdrawn."""
    raws: list[Raw] = []
    clock = START
    for _ in range(random.randint(4, most)):
        clock += random.choice(MIXED_GAPS)
        if raws and random.random() < 0.1:
            # Said again: nothing but the det_time is another.
            raws.append(replace(random.choice(raws), det_time=clock))
            continue
        away = random.choice([0, 0, 0, -1, -2, -5, -7, -12, -30, 4, 15]) * SECOND
        event_class, key = random.choice(classes), random.randint(1, 3)
        if raws and random.random() < 0.35:
            event_class, key = (last := random.choice(raws)).event_class, last.values[0]  # type: ignore[assignment]
        occ_time = None if random.random() < 0.2 else clock + away
        raws.append(Raw(event_class, (key, random.choice([0, 1, 2, 3, None])), occ_time, clock))
    return raws


# ---- where laws hold ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plainly:
    """A program with the clause and without it, and versions of distinct events, whose occ_times differ."""

    text: str
    corrected: Program
    uncorrected: Program
    raws: tuple[Raw, ...]
    until: int


def generate_plainly(seed: int) -> Plainly:
    """The case of a seed. Its versions come when they happen."""
    random = Random(f"plainly {seed}")
    depth, most = random.choice([(1, 12), (2, 8)])
    clocks = ["T"] if random.random() < 0.2 else []
    head = f"SET CHRONON {random.choice([5, 10])}s;\n"
    for name in "AB":
        head += f"CREATE MUTABLE SUBSCRIBED EVENT CLASS {name} (n INT, k INT, v INT) ID (n) LIFESPAN (-1);\n"
    head += "".join(f"CREATE CLOCK EVENT CLASS {name} EVERY 20s;\n" for name in clocks)
    while True:
        query = random.choice([_match, _composite, _touchy])(random, ["A", "B"], clocks, depth, ORDER)
        # The first attribute is the key, of which the expressions know nothing.
        query = query.replace("(k,", "(_, k,").replace("(_, v)", "(_, _, v)").replace("(_, w)", "(_, _, w)")
        query = query.replace("(1, v)", "(_, 1, v)").replace("(_, NULL)", "(_, _, NULL)")
        key = random.choice(["k", "k, v", ""])
        text = f"{head}CREATE COMPLEX EVENT CLASS X (k INT, v INT) ID ({key}) LIFESPAN (-1)\n  AS {query};\n"
        # When it was detected is another time where it comes in another order.
        if "detTime" not in query and _compiles(text):
            break
    times = [START + s * SECOND for s in sorted(random.sample(range(1, 90), random.randint(3, most)))]
    raws = tuple(
        Raw(random.choice("AB"), (number, random.randint(1, 2), random.choice([0, 1, 2, None])), time, time)
        for number, time in enumerate(times)
    )
    return Plainly(text, compile(text), compile(text.replace(ORDER, "")), raws, START + 120 * SECOND)


def _touchy(random: Random, known: list[str], clocks: list[str], depth: int, order: str) -> str:
    """A COMPOSITE with several occurrences of a key at one place, or with timers among the versions."""
    expression = random.choice(
        [
            *("A(k, _) > B(k, v)", "A(k, v) > B", "A(k, v) & B(k, _)", "A(k, v) > !B(k, _) > A(k, _)"),
            *("(A(k, v) + 9s) > B(k, _)", "(A(k, v) > !B(k, _) WITHIN 9s) > A", "(A(k, v) + 5s) & (B(k, _) + 20s)"),
            *("PERIODIC(A(k, v), [7s], B(k, _)) > A", "A > (B(k, v) + 9s)", "A(k, v) > (PERIODIC(B(k, _), [9s], A))"),
        ]
    )
    context = random.choice(["UNRESTRICTED", "UNRESTRICTED", "RECENT", "CHRONICLE", "CONTINUOUS", "CUMULATIVE"])
    return f"COMPOSITE {expression}{order} CONTEXT {context}"


def shuffled(case: Plainly, seed: int) -> tuple[Raw, ...]:
    """The same versions, detected in any order: some late, some announced; the first and the last time as before."""
    random = Random(seed)
    times = [raw.det_time for raw in case.raws]
    random.shuffle(times)
    return in_order(replace(raw, det_time=time) for raw, time in zip(case.raws, times, strict=True))


def in_order(raws: Iterable[Raw]) -> tuple[Raw, ...]:
    """By det_time."""
    return tuple(sorted(raws, key=lambda raw: raw.det_time or 0))

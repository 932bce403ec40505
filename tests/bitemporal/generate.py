"""Random programs with complex classes and conditions, and random histories for them; each a function of a seed.

`generate` has subscribed and SELECT classes, `generate_mixed` MATCH, COMPOSITE and clock classes among them. Every
class but those of the clock has the attributes `k INT, v INT`. A SELECT is given twice: as text, for an engine, and as
a function, for the reference; the two say the same. Times are seconds after START; few keys and values, so that
versions meet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.api import ProgramError, compile
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


LIFESPANS = ("-1", "0s", "3s", "10s", "20s", "20s", "60s")
MIXED_LIFESPANS = ("-1", "0s", "10s", "20s", "30s", "60s", "60s", "120s")
MIXED_GAPS = (0, 200_000, SECOND, 2 * SECOND, 5 * SECOND, 7 * SECOND, 12 * SECOND)


def generate_mixed(seed: int, *, is_small: bool = False) -> Generated:
    """The case of a seed, with at least one MATCH or COMPOSITE class; a small one has no SELECT, and is short."""
    random = Random(f"mixed {seed}")
    # The reference lists every tuple of a MATCH, so deep ones have short histories.
    depth, most = random.choice([(1, 22), (1, 22), (2, 12)])
    subscribed = ["A"] if random.random() < 0.2 else ["A", "B"]
    settings = f"SET CHRONON {random.choice([5, 10, 10, 20])}s;\n"
    settings += "SET ARCHIVE ON;\n" if random.random() < 0.3 else ""
    statements = []
    for name in subscribed:
        kind = "IMMUTABLE" if random.random() < 0.25 else "MUTABLE"
        key = "" if random.random() < 0.15 else "k"
        head = f"CREATE {kind} SUBSCRIBED EVENT CLASS {name} (k INT, v INT) ID ({key})"
        statements.append(f"{head} {_lifespan(random, MIXED_LIFESPANS)}{_statements(random)};\n")
    clocks = ["T"] if random.random() < 0.5 else []
    for name in clocks:
        head = f"CREATE CLOCK EVENT CLASS {name} EVERY {random.choice([7, 10, 20, 30])}s"
        lifespan = _lifespan(random, MIXED_LIFESPANS) if random.random() < 0.7 else ""
        statements.append(f"{head} {lifespan}{_statements(random, TIMELY, TIMELY_ARGUMENTS)};\n")
    known = list(subscribed)
    selects: dict[str, Select] = {}
    if is_small:
        most, ways = 12, ["detect"] * random.choice([1, 1, 2, 2, 3])
    else:
        ways = ["detect", *random.choices(["select", "detect"], k=random.choice([1, 1, 2, 2, 3]))]
    random.shuffle(ways)
    for name, way in zip("CDEF", ways, strict=False):
        while True:
            if way == "select":
                query, selects[name] = (
                    _counted(clocks[0]) if clocks and random.random() < 0.15 else _select(random, known)
                )
            else:
                query = random.choice([_match, _composite])(random, known, clocks, depth)
            key = random.choice(["k", "k", "k", "k, v", ""])
            lifespan = _lifespan(random, MIXED_LIFESPANS) if random.random() < 0.7 else ""
            text = f"CREATE COMPLEX EVENT CLASS {name} (k INT, v INT) ID ({key}) {lifespan}\n  AS {query}"
            text += f"{_statements(random)};\n"
            if _compiles(settings + "".join([*statements, text])):
                break
        statements.append(text)
        known.append(name)
    if random.random() < 0.3:
        random.shuffle(statements)
    text = settings + "".join(statements)
    raws = _raws(random, subscribed, least=7, most=most, gaps=MIXED_GAPS)
    last = max(raw.det_time or 0 for raw in raws)
    return Generated(text, compile(text), selects, tuple(raws), last + random.randrange(60) * SECOND)


def _compiles(text: str) -> bool:
    try:
        compile(text)
    except ProgramError:
        return False
    return True


def _lifespan(random: Random, lifespans: Sequence[str] = LIFESPANS) -> str:
    return f"LIFESPAN ({random.choice(lifespans)})"


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


TIMELY = tuple(text for text in COMPARISONS if ".v" not in text and ".k" not in text)
TIMELY_ARGUMENTS = tuple(text for text in ARGUMENTS if ".v" not in text)
"""For classes without attributes."""


def _statements(random: Random, comparisons: Sequence[str] = COMPARISONS, arguments: Sequence[str] = ARGUMENTS) -> str:
    statements = []
    for _ in range(random.choice([0, 1, 2, 3, 4])):
        calls = []
        for name in random.sample(["a", "b", "c"], random.choice([1, 1, 1, 2])):
            calls.append(f"{name}({', '.join(random.sample(arguments, random.randrange(3)))})")
        statements.append(f"\n  ON {_condition(random, 3, comparisons)} DO {', '.join(calls)}")
    return ",".join(statements)


def _condition(random: Random, depth: int, comparisons: Sequence[str]) -> str:
    chosen = random.random()
    if depth == 0 or chosen < 0.45:
        return random.choice(PRIMITIVES if random.random() < 0.7 else comparisons)
    if chosen < 0.6:
        return f"NOT ({_condition(random, depth - 1, comparisons)})"
    word = "AND" if chosen < 0.8 else "OR"
    left, right = (_condition(random, depth - 1, comparisons) for _ in range(2))
    return f"({left} {word} {right})"


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


def _counted(clock: str) -> tuple[str, Select]:
    def select(views: Mapping[str, View], now: int) -> list[Made]:
        times = [_occ(row) for row in views[clock]]
        return [Made((1, len(times)), max(times))] if times else []

    return f"SELECT 1 AS k, COUNT(*) AS v FROM {clock} HAVING COUNT(*) > 0 OCCURRING AT MAX({clock}.occTime)", select


def _occ(row: Version) -> int:
    assert row.occ_time is not None
    return row.occ_time


# ---- MATCH and COMPOSITE --------------------------------------------------------------------------
# Not all of what is made here passes the analysis: whoever asks tries again.


RARE = ("(_, w)", "(1, v)", "(_, NULL)", "[v > 1]", "[k = 1]", "[v >= PREV(v)]", "[occTime <= detTime]")


def _leaf(random: Random, known: Sequence[str], clocks: Sequence[str]) -> str:
    if clocks and random.random() < 0.2:
        return random.choice(clocks)
    name = random.choice(known)
    arguments = random.choice([*[""] * 4, *["(k, _)"] * 5, *["(_, v)"] * 2, "(k, v)", "(k, w)", *RARE[:3]])
    mask = random.choice(RARE[3:]) if random.random() < 0.12 else ""
    return name + arguments + mask


def _used(random: Random, known: list[str]) -> list[str]:
    """Some classes, the newest more often than others, so that classes stand on each other."""
    some = random.sample(known, min(len(known), random.choice([1, 2, 2, 3])))
    return list(dict.fromkeys([*some, known[-1]] if random.random() < 0.6 else some))


def _match(random: Random, known: list[str], clocks: list[str], depth: int, order: str = "") -> str:
    used = _used(random, known)
    expression = _expression(random, used, clocks, depth)
    text = f"MATCH {expression}"
    if random.random() < 0.4:
        text += f" OVER ({', '.join([*used, *clocks])})"
    text += (" PARTITION BY k" if random.random() < 0.15 else "") + order
    text += random.choice([" WHERE v >= 1", " WHERE v <= w", " WHERE k = v"]) if random.random() < 0.2 else ""
    text += f" WITHIN {random.choice([3, 10, 30, 60])}s" if random.random() < 0.2 else ""
    text += random.choice(
        ["", "", "", " COLLECT EARLIEST", " COLLECT ALL", " COLLECT MAX(v) AS v", " COLLECT COUNT(*) AS v"]
    )
    return text + (" RETURN w AS v" if " AS v" not in text and "w" in expression and random.random() < 0.5 else "")


def _expression(random: Random, known: Sequence[str], clocks: Sequence[str], depth: int) -> str:
    if depth == 0:
        return _leaf(random, known, clocks)
    e, f, g = (_expression(random, known, clocks, random.randrange(depth)) for _ in range(3))
    return random.choice(
        [
            *(
                f"prior({e}, {f})",
                f"prior({e}, {f})",
                f"prior({e}, {f})",
                f"({e} OR {f})",
                f"sequence({e}, {f})",
                f"sequence({e}, {f})",
            ),
            *(f"relative({e}, {f})", f"({e} OR {f})", f"({e} AND !prior({f}, any))", f"(!{e} AND {f})"),
            *(f"<2> ({e})", f"EVERY <2> ({e})", f"({e} /+ {f})", f"firstAfter({e}, {f}, {g})", f"({e} * {f})"),
            *(f"sequence({e}, !{f} AND {g})", f"({e} | sequence({f}, {g}))", _leaf(random, known, clocks)),
        ]
    )


def _composite(random: Random, known: list[str], clocks: list[str], depth: int, order: str = "") -> str:
    used = _used(random, known)
    text = f"COMPOSITE {_graph(random, used, clocks, depth)}"
    text += f" OVER ({', '.join([*used, *clocks])})" if random.random() < 0.2 else ""
    text += (" PARTITION BY k" if random.random() < 0.15 else "") + order
    text += random.choice([" WHERE v >= 1", " WHERE v <= w"]) if random.random() < 0.1 else ""
    text += f" WITHIN {random.choice([3, 10, 30, 60])}s" if random.random() < 0.2 else ""
    context = random.choice(["RECENT", "CHRONICLE", "CHRONICLE", "CONTINUOUS", "CUMULATIVE", "UNRESTRICTED"])
    return f"{text} CONTEXT {context}" + (" RETURN w AS v" if "w" in text and random.random() < 0.5 else "")


def _graph(random: Random, known: Sequence[str], clocks: Sequence[str], depth: int) -> str:
    if depth == 0:
        return _leaf(random, known, clocks)
    e, f, g = (_graph(random, known, clocks, random.randrange(depth)) for _ in range(3))
    seconds = random.choice([0, 3, 5, 10, 12])
    return random.choice(
        [
            *(f"({e} > {f})", f"({e} > {f})", f"({e} & {f})", f"({e} | {f})", f"ANY{{2, {e}, {f}, {g}}}"),
            *(f"({e} > !{f} WITHIN {seconds}s)", f"({e} > !{f} WITHIN 10s)", f"({e} > !{f} > {g})", f"({e} & !{f})"),
            *(f"(({e}) + {seconds}s)", f"(({e}) + 5s)", f"NOT({e})[{f}, {g}]", f"({e}){{2}}", f"({e} > ({f})* > {g})"),
            *(f"PERIODIC({e}, [{random.choice([7, 10, 20])}s], {f})", f"APERIODIC({e}, {f}, {g})"),
            *(f"PERIODIC*({e}, [5s], {f})", f"APERIODIC*({e}, {f}, {g})", _leaf(random, known, clocks)),
        ]
    )


# ---- histories ------------------------------------------------------------------------------------


GAPS = (0, 200_000, SECOND, SECOND, 3 * SECOND, 7 * SECOND, 25 * SECOND)


def _raws(random: Random, classes: list[str], least: int = 1, most: int = 16, gaps: Sequence[int] = GAPS) -> list[Raw]:
    raws: list[Raw] = []
    clock = START
    for _ in range(random.randint(least, most)):
        clock += random.choice(gaps)
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

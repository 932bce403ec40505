"""A whole history in one step against tick after tick: where the first is allowed, both print the same lines."""

from __future__ import annotations

import json

from augury.algebra.program import Program
from augury.api import compile
from augury.duck.selects import runnable
from augury.engine.lines import lines
from augury.engine.once import goes_in_one_step
from augury.engine.tick import tick_at_most
from augury.history.arrivals import arrived
from augury.history.coming import came, received
from augury.history.raw import Raw, RawRows
from augury.local.engine import detect_in
from augury.local.kernel import match_kernel
from augury.local.ticking import TickReplay
from tests.bitemporal.generate import generate_mixed
from tests.bitemporal.local import raw_rows


def both(program: Program, raw: Raw, until: int | None) -> tuple[list[str], list[str]] | None:
    """The lines of either way; None where the first is not allowed."""
    rows = came(program, [raw], until_us=until)
    names = [received(program)[code].name for code in rows.withdrawn()]
    if not goes_in_one_step(program, names):
        return None
    detected = detect_in(program, rows, match_kernel, until_us=until)
    at_once = list(lines(detected.versions, detected.occurrences, program.settings.chronon_us))
    ticking = TickReplay(program, runnable(program), arrived(program, rows), until)
    by_ticks = [line for text in ticking.texts() for line in text.splitlines()]
    assert sorted(detected.rejected.reason) == sorted(ticking.rejected.reason)
    assert detected.absorbed == ticking.counts["absorbed"]
    return at_once, by_ticks


def test_random_programs() -> None:
    compared = printed = 0
    for seed in range(250):
        g = generate_mixed(seed)
        if "SELECT" in g.text:
            continue
        program = compile(in_one_step(g.text))
        until = tick_at_most(g.until, program.settings.chronon_us)
        found = both(program, raw_rows(program, g.raws), until)
        if found is not None:
            compared += 1
            printed += len(found[0])
            assert found[0] == found[1], seed
    assert compared > 20
    assert printed > 100


def test_what_is_withdrawn_keeps_a_complex_event_no_longer() -> None:
    program = compile(
        "CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT) ID (k) LIFESPAN (-1);"
        "CREATE COMPLEX EVENT CLASS X (k INT) ID (k) LIFESPAN (3s) AS MATCH A(k);"
    )
    times = ((0, 0), (2, None), (20, 20))
    rows = [{"event": "A", "k": 1, "det_time": det, "occ_time": occ} for det, occ in times]
    raw = RawRows("rows", rows, range(3))
    assert goes_in_one_step(program, [])
    assert both(program, raw, None) is None, "the A keeps its X until it is withdrawn, and ticks find that out"
    ticking = TickReplay(program, runnable(program), arrived(program, came(program, [raw])), None)
    lines_ = [json.loads(line) for text in ticking.texts() for line in text.splitlines()]
    assert [line["change"] for line in lines_] == ["announce", "announce"]


def in_one_step(text: str) -> str:
    """The program with events that live for ever or have no key, so that it may go in one step; no statements."""
    kept = [line for line in text.splitlines() if not line.lstrip().startswith("ON ")]
    plain = "\n".join(line.rstrip().rstrip(";") for line in kept)
    statements = [one.strip() for one in plain.replace("SET ", "\0SET ").replace("CREATE ", "\0CREATE ").split("\0")]
    ended = [one + ";" for one in statements if one]
    return "\n".join(one.replace("ID (k)", "ID ()") if "SUBSCRIBED" in one else one for one in ended)


def test_what_must_wait_for_ticks() -> None:
    def asked(text: str, *withdrawn: str) -> bool:
        return goes_in_one_step(compile(text), withdrawn)

    event = "CREATE {} SUBSCRIBED EVENT CLASS A (k INT) ID ({}) LIFESPAN ({});"
    found = "CREATE COMPLEX EVENT CLASS F (k INT) ID ({}) LIFESPAN ({}) AS MATCH A(k);"
    assert asked(event.format("IMMUTABLE", "", "1d") + found.format("k", "1d"))
    assert asked(event.format("MUTABLE", "k", "1d") + found.format("", "1d"))
    assert not asked(event.format("MUTABLE", "k", "1d") + found.format("", "1d"), "a")
    assert not asked(event.format("MUTABLE", "k", "1d") + found.format("k", "1d"))
    assert not asked(event.format("IMMUTABLE", "k", "1d") + found.format("", "1d"))
    assert asked(event.format("IMMUTABLE", "k", "-1") + found.format("k", "1d"))
    assert asked(event.format("IMMUTABLE", "k", "1d"))
    assert not asked(event.format("IMMUTABLE", "", "1d").rstrip(";") + " ON ANNOUNCEMENT DO a();")

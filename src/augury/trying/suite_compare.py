"""Wanted lines beside the lines that were got: which go together, and where the others part.

In: `Wanted` and `Got` values. Out: pairs, and failures made of them. It runs nothing and prints nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from augury.event import key_of
from augury.trying.suite import EXACT, Demand, Kind, Said
from augury.trying.suite_bound import BoundTest, Check, Failure, Got, Pair, Ran, Wanted
from augury.trying.suite_values import iso_us, says
from augury.trying.suite_written import written

NEAR_TRIED_MAX: Final = 100
"""Lines that a missing one is compared with, to show the one that is most like it beside it."""

Matched = list[tuple[Wanted | None, Got | None]]
"""Wanted lines and got ones side by side; None stands for the one that is missing."""


def differences(wanted: Wanted, got: Got, *, is_never: bool = False) -> list[str]:
    """In what a line is not as wanted: names of fields; empty where it is. What is not said is not compared."""
    if wanted.kind is not got.kind or wanted.name != got.name:
        return ["name"]
    return _of_event(wanted, got, is_never=is_never) if got.kind is Kind.EVENT else _of_deed(wanted, got)


def _of_event(wanted: Wanted, got: Got, *, is_never: bool) -> list[str]:
    said, line = wanted.said, got.line
    changes = ("announce", "change") if is_never and said.change is None else (said.change or "announce",)
    found = [] if line["change"] in changes else ["change"]
    found += [name for name, value in wanted.fields if not says(value, line.get(name))]
    found += _of_times((("at", said.at_us, "occ_time"), ("seen", said.seen_us, "det_time")), line)
    return found + _of_numbers(said, line)


def _of_numbers(said: Said, line: Mapping[str, Any]) -> list[str]:
    found = ["seq"] if said.seq is not None and said.seq != line.get("seq") else []
    is_made_so = said.constituents is None or list(said.constituents) == line.get("constituents")
    return found if is_made_so else [*found, "constituents"]


def _of_deed(wanted: Wanted, got: Got) -> list[str]:
    """Of an action or a firing."""
    said, line, found = wanted.said, got.line, []
    if wanted.arguments is not None:
        arguments, given = wanted.arguments, line["args"]
        count = len(arguments)
        if count > len(given) or (count < len(given) and not wanted.is_open):
            found.append("arguments")
        else:
            pairs = zip(arguments, given[:count], strict=True)
            found += [f"argument {place}" for place, pair in enumerate(pairs, 1) if not says(*pair)]
    if wanted.about is not None:
        found += [] if wanted.about == line["event"] else ["event"]
        found += [name for name, value in wanted.fields if not says(value, line["key"].get(name))]
    by = (("trigger", said.trigger), ("rule", said.rule))
    found += [name for name, value in by if value is not None and key_of(value) != key_of(line.get(name, ""))]
    return found + _of_times((("at", said.at_us, "tick"),), line) + _of_numbers(said, line)


def _of_times(times: Iterable[tuple[str, int | None, str]], line: Any) -> list[str]:
    return [name for name, us, field in times if us is not None and (line[field] is None or iso_us(line[field]) != us)]


# ---- which go together -------------------------------------------------------------------------------------------


def matched(wanted: Sequence[Wanted], got: Sequence[Got]) -> Matched:
    """Each wanted line with a line of its own that is so, as many as can be, whatever their order."""
    by_name: dict[tuple[Kind, str], list[int]] = {}
    for place, one in enumerate(got):
        by_name.setdefault((one.kind, one.name), []).append(place)
    taken = _in_turn(wanted, got, by_name)
    left = sorted(set(range(len(wanted))) - set(taken.values()))
    if left:
        fits = [[i for i in by_name.get((one.kind, one.name), ()) if not differences(one, got[i])] for one in wanted]
        for place in left:
            _give(place, fits, taken)
    of_wanted = {place: i for i, place in taken.items()}
    found: Matched = [(one, got[of_wanted[i]] if i in of_wanted else None) for i, one in enumerate(wanted)]
    return found + [(None, one) for i, one in enumerate(got) if i not in taken]


def _in_turn(
    wanted: Sequence[Wanted], got: Sequence[Got], by_name: dict[tuple[Kind, str], list[int]]
) -> dict[int, int]:
    """The first line that fits for each wanted one, in turn: by the place of the line that of the wanted one."""
    free = {name: list(places) for name, places in by_name.items()}
    taken: dict[int, int] = {}
    for place, one in enumerate(wanted):
        could = free.get((one.kind, one.name), [])
        found = next((i for i in could if not differences(one, got[i])), None)
        if found is not None:
            could.remove(found)
            taken[found] = place
    return taken


def _give(place: int, fits: Sequence[Sequence[int]], taken: dict[int, int]) -> None:
    """Find a line for a wanted one; those that have one already may have to take another."""
    came_from: dict[int, int] = {}
    waiting = deque([place])
    while waiting:
        asking = waiting.popleft()
        for line in fits[asking]:
            if line in came_from:
                continue
            came_from[line] = asking
            if line not in taken:
                _hand_over(line, place, came_from, taken)
                return
            waiting.append(taken[line])


def _hand_over(line: int, place: int, came_from: dict[int, int], taken: dict[int, int]) -> None:
    before = {holder: held for held, holder in taken.items()}
    while True:
        asking = came_from[line]
        taken[line] = asking
        if asking == place:
            return
        line = before[asking]


def beside(lines: Matched, got: Sequence[Got], start_us: int) -> tuple[Pair, ...]:
    """The lines as text, in the order of ticks and as they were got.

    Those without a partner stand beside one of their class, where there is one.
    """
    extra = [line for one, line in lines if one is None and line is not None]
    found: Matched = [(one, line) for one, line in lines if one is not None and line is not None]
    for one in [one for one, line in lines if one is not None and line is None]:
        near = _nearest(one, extra)
        if near is not None:
            extra.remove(near)
        found.append((one, near))
    found += [(None, line) for line in extra]
    places = {id(line): place for place, line in enumerate(got)}

    def order(pair: tuple[Wanted | None, Got | None]) -> tuple[bool, int, int]:
        tick, place = _tick(*pair), len(got) if pair[1] is None else places[id(pair[1])]
        return tick is None, tick or 0, place

    return tuple(_pair(one, line, start_us) for one, line in sorted(found, key=order))


def _tick(wanted: Wanted | None, got: Got | None) -> int | None:
    """The first tick that a pair is about."""
    return min((one.tick_us for one in (wanted, got) if one is not None and one.tick_us is not None), default=None)


def _nearest(wanted: Wanted, extra: Sequence[Got]) -> Got | None:
    same = (one for one in extra if one.kind is wanted.kind and one.name == wanted.name)
    return min(islice(same, NEAR_TRIED_MAX), key=lambda one: len(differences(wanted, one)), default=None)


def _pair(wanted: Wanted | None, got: Got | None, start_us: int) -> Pair:
    tick = _tick(wanted, got)
    if wanted is None:
        assert got is not None, "one of the two is there"
        return Pair(None, written(got, start_us), "unexpected", tick)
    text, span = _one_line(wanted.said), wanted.said.span
    if got is None:
        return Pair(text, None, "missing", tick, span)
    found = differences(wanted, got)
    return Pair(text, written(got, start_us), f"not the same: {', '.join(found)}" if found else "", tick, span)


def _one_line(said: Said) -> str:
    return " ".join(said.written.split())


# ---- failures ----------------------------------------------------------------------------------------------------


def within(got: Iterable[Got], check: Check) -> list[Got]:
    """The lines that an expectation is about."""
    after, until = check.after_us, check.until_us
    return [
        one
        for one in got
        if (after is None or one.tick_us > after) and (until is None or one.tick_us <= until)
        if EXACT.get(check.expectation.demand, one.kind) is one.kind
    ]


def unmet(bound: BoundTest, check: Check, ran: Ran) -> Failure | None:
    """What is wrong with what was got, by one expectation."""
    start_us, got = bound.test.start_us, within(ran.got, check)
    demand = check.expectation.demand
    match demand:
        case Demand.NEVER:
            found = [(w, g) for g in got for w in check.wanted if not differences(w, g, is_never=True)]
            text = [Pair(_one_line(w.said), written(g, start_us), "never", g.tick_us, w.said.span) for w, g in found]
            message = "what must never be is there"
        case Demand.SOME:
            lines = matched(check.wanted, got)
            pairs = beside(lines, got, start_us)
            lacking = any(one is not None and line is None for one, line in lines)
            text = [pair for pair in pairs if pair.expected is not None] if lacking else []
            message = "some of what is expected is not there"
        case _:
            pairs = beside(matched(check.wanted, got), got, start_us)
            text = list(pairs) if any(pair.differs for pair in pairs) else []
            message = f"other {EXACT[demand]}s than expected"
    if not text:
        return None
    parts = [pair.tick_us for pair in text if pair.differs and pair.tick_us is not None]
    tick, sides = min(parts, default=None), ("never" if demand is Demand.NEVER else "expected", "got")
    return Failure(message, check.expectation.key_span, tuple(text), tick, check.step, sides=sides)

"""A simulation as one page: the time line, every tick in words to step through, and a table of all versions.

In: a program and its ticks. Out: HTML that needs nothing from anywhere, and shows all of it without its script. No text
of a program or an event becomes markup: `page_markup` escapes it, and the page's own policy runs no other script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Final

from augury.algebra.program import Program
from augury.clock import show_time
from augury.history.raw import json_literal
from augury.trying.firings import Triggered, acts_of, heading, rule_texts
from augury.trying.page_markup import Markup, joined, tag
from augury.trying.page_style import SCRIPT, STYLE
from augury.trying.page_svg import PALETTE, time_line
from augury.trying.shown import Acted, Alarm, Derived, Pending, Shown
from augury.trying.shown_table import ALARM_WORDS, change_text, moment, partial_text, why_texts
from augury.trying.simulate_record import Version, shown_value

TICKS_DRAWN_MAX: Final = 400
VERSIONS_LISTED_MAX: Final = 2_000
_POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'"


def page(name: str, program: Program, ticks: Sequence[Shown]) -> str:
    """The whole page; of very many ticks the first are drawn, and it says so."""
    drawn = [one for one in ticks if not one.is_quiet or len(ticks) <= TICKS_DRAWN_MAX][:TICKS_DRAWN_MAX]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY.format(_digest(STYLE), _digest(SCRIPT))),
        tag("title", f"{name} simulated"),
        tag("style", Markup(STYLE)),
    )
    body = tag(
        "body",
        _header(name, program, ticks, drawn),
        _controls(drawn),
        tag(
            "main",
            tag("div", time_line(program, drawn), class_="drawing"),
            tag("div", *(_tick(one) for one in drawn), class_="details", aria_live="polite"),
        ),
        _events(drawn),
        tag("script", Markup(SCRIPT)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _digest(text: str) -> str:
    return b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(name: str, program: Program, ticks: Sequence[Shown], drawn: Sequence[Shown]) -> Markup:
    counts = [
        (len(ticks), "tick"),
        (sum(len(one.arrived) for one in ticks), "version"),
        (sum(len(one.derived) for one in ticks), "complex version"),
        (sum(len(one.fired) + sum(map(acts_of, one.triggered)) for one in ticks), "action"),
        (sum(len(one.rejected) for one in ticks), "rejected event"),
    ]
    told = ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts)
    if len(drawn) < len(ticks):
        told += f"; the first {len(drawn):,} with something to see are drawn"
    legend = [
        tag("li", _key(place % PALETTE, plan.event_class.kind.value), plan.event_class.name)
        for place, plan in enumerate(program.classes)
    ]
    return tag("header", tag("h1", name), tag("p", told), tag("ul", *legend, class_="legend"))


_KEYS: Final = {
    "subscribed": "M4 10a6 6 0 1 0 12 0a6 6 0 1 0 -12 0Z",
    "complex": "M10 2L18 10L10 18L2 10Z",
    "clock": "M10 3L17 16L3 16Z",
}


def _key(colour: int, kind: str) -> Markup:
    shape = tag("path", d=_KEYS[kind])
    inside = tag("g", shape, class_=f"mark {kind} announce c{colour}")
    return tag("svg", inside, width=20, height=20, viewBox="0 0 20 20", aria_hidden="true")


def _controls(ticks: Sequence[Shown]) -> Markup:
    last = max(0, len(ticks) - 1)
    buttons = [
        tag("button", text, id=name, type="button", title=title)
        for name, text, title in (
            ("first", "|◀", "the first tick"),
            ("back", "◀", "the tick before"),
            ("next", "▶", "the next tick"),
            ("last", "▶|", "the last tick"),
            ("play", "Play", "one tick after the other"),
        )
    ]
    slider = tag("input", type="range", id="slider", min=0, max=last, value=last, aria_label="tick")
    return tag("div", *buttons, slider, tag("output", id="chosen"), class_="controls")


# ---- a tick in words ---------------------------------------------------------------------------------------------


def _tick(shown: Shown) -> Markup:
    tick = shown.tick
    parts = [
        _part("arrived", [_version(one, tick) for one in shown.arrived]),
        _part("absorbed", [tag("li", f"{shown.absorbed} duplicates")] if shown.absorbed else []),
        _part("rejected", [_item(f"{one.event or 'event'} at {one.place}", one.reason) for one in shown.rejected]),
        _part("derived", [_derived(one, tick) for one in shown.derived]),
        _part("failed", [_item(name, reason) for name, reason in shown.failed]),
        _part("fired", [_acted(one) for one in shown.fired]),
        _part("triggered", [_triggered(one) for one in shown.triggered]),
        _part("purged", [tag("li", tag("code", one.text)) for one in shown.purged]),
        _part("pending", list(_pending(shown.pending, tick))),
    ]
    quiet = [tag("p", "nothing to see", class_="quiet")] if shown.is_quiet else []
    title = f"Tick {shown.number} · {show_time(tick)}"
    return tag("section", tag("h2", title), *quiet, *parts, class_="tick", id=f"tick-{shown.number}", data_title=title)


def _part(name: str, items: list[Markup]) -> Markup:
    return joined(tag("h3", name), tag("ul", *items)) if items else Markup("")


def _item(text: str, when: str = "", *inside: str) -> Markup:
    more = [tag("ul", *(tag("li", one) for one in inside))] if inside else []
    return tag("li", tag("code", text), " ", tag("span", when, class_="when"), *more)


def _version(version: Version, tick: int, *inside: str) -> Markup:
    occurs = "" if version.occ_time is None else f"occurs {moment(version.occ_time, tick)}, "
    claimed = "" if version.source_time is None else f", claimed {moment(version.source_time, tick)}"
    return _item(change_text(version), f"{occurs}detected {moment(version.det_time, tick)}{claimed}", *inside)


def _derived(derived: Derived, tick: int) -> Markup:
    return _version(derived.version, tick, *why_texts(derived))


def _acted(acted: Acted) -> Markup:
    text = f"{acted.action.name}({', '.join(map(json_literal, acted.action.arguments))})"
    values = [f"{name} = {shown_value(value)}" for name, value in acted.values.items()]
    return _item(text, f"for {acted.version.text}", f"ON {acted.condition}", *values)


def _triggered(one: Triggered) -> Markup:
    text, at = heading(one)
    lines = [line for rule in one.rules for line in rule_texts(rule)]
    return _item(text, at, *(f"{what.strip()}  {became}".rstrip() for what, became in lines))


def _pending(pending: Pending, tick: int) -> Iterator[Markup]:
    for one in pending.partial:
        parts = [f"{event} as {part}" for _, event, part in one.has if part]
        waits = [f"in {one.waits_in}"] if one.waits_in else []
        yield _item(partial_text(one), "waits", *parts, *waits)
    yield from _more(pending, "partial", len(pending.partial))
    for kind, word in ALARM_WORDS.items():
        alarms: tuple[Alarm, ...] = getattr(pending, kind)
        for alarm in alarms:
            yield _item(f"{alarm.event_class}: {alarm.what}", f"{word} {moment(alarm.due, tick)}")
        yield from _more(pending, kind, len(alarms))


def _more(pending: Pending, kind: str, listed: int) -> Iterator[Markup]:
    more = pending.counts.get(kind, listed) - listed
    if more > 0:
        yield tag("li", f"… and {more:,} more", class_="when")


# ---- all versions ------------------------------------------------------------------------------------------------


def _events(ticks: Sequence[Shown]) -> Markup:
    titles = ("tick", "seq", "event", "change", "occurs", "detected", "made of")
    rows = [
        tag("tr", *(tag("td", cell) for cell in _cells(version)))
        for shown in ticks
        for version in (*shown.arrived, *(one.version for one in shown.derived))
    ]
    more = len(rows) - VERSIONS_LISTED_MAX
    note = [tag("p", f"… and {more:,} more; --output ndjson has them all")] if more > 0 else []
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", title, scope="col") for title in titles))),
        tag("tbody", *rows[:VERSIONS_LISTED_MAX]),
    )
    return tag("section", tag("h2", "All versions"), tag("div", table, class_="scroll"), *note, class_="events")


def _cells(version: Version) -> tuple[str, ...]:
    return (
        show_time(version.tick),
        "" if version.seq is None else str(version.seq),
        version.text,
        version.change,
        "" if version.occ_time is None else show_time(version.occ_time),
        show_time(version.det_time),
        ", ".join(map(str, version.constituents or ())),
    )

"""Ticks as tables for the eye: what arrived, was derived and why, fired, left, was refused, and is pending.

In: `Shown` values. Out: texts, one a tick. Times of the tick's own day are shown without the day. It prints nothing.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from augury.clock import show_time
from augury.history.raw import json_literal
from augury.local.shown import printable
from augury.trying.firings import Triggered, heading, rule_texts
from augury.trying.shown import Acted, Alarm, Derived, Partial, Pending, Shown
from augury.trying.simulate_record import SELECTED, Version, shown_value

if TYPE_CHECKING:
    from rich.console import Console

_ALARMS_SHOWN_MAX: Final = 4
"""Of each kind in a table, which has them at every tick; NDJSON and the page have more."""

_STYLES: Final = {
    "arrived": "cyan",
    "derived": "magenta",
    "fired": "bold yellow",
    "triggered": "bold yellow",
    "rejected": "red",
    "failed": "red",
    "purged": "dim",
    "pending": "dim",
}
ALARM_WORDS: Final = {
    "timers": "timer",
    "on_time": "on time",
    "turns": "looked at again",
    "clock": "clock",
    "expiries": "expires",
}

Row = tuple[str, str, str]
"""The kind, what, and when."""


def tables(shown: Iterable[Shown], *, is_terminal: bool = False, width: int | None = None) -> Iterator[str]:
    """A table a tick; on a terminal in colour and as wide as that, elsewhere as wide as it takes unless told."""
    if not is_terminal and width is None:
        yield from map(_plain, shown)
        return
    from rich.console import Console

    text = io.StringIO()
    if is_terminal:
        console = Console(file=text, force_terminal=True, width=width)
    else:
        console = Console(file=text, width=width, color_system=None, legacy_windows=False)
    for one in shown:
        text.seek(0)
        text.truncate()
        _draw(console, one)
        yield "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _plain(shown: Shown) -> str:
    """The same columns as `_draw` has, where nothing is folded: to load and ask rich takes longer than most ticks."""
    from rich.cells import cell_len

    found = [(f"  {kind}", printable(what), printable(when)) for kind, what, when in rows(shown)]
    kinds = max((cell_len(kind) for kind, _, _ in found), default=0)
    whats = max((cell_len(what) for _, what, _ in found), default=0)
    lines = [_title(shown)]
    for kind, what, when in found:
        line = f"{kind}{' ' * (kinds - cell_len(kind) + 2)}{what}{' ' * (whats - cell_len(what) + 2)}{when}"
        lines.append(line.rstrip())
    return "".join(f"{line}\n" for line in lines)


def _title(shown: Shown) -> str:
    return f"tick {shown.number}  {show_time(shown.tick)}"


def _draw(console: Console, shown: Shown) -> None:
    from rich.table import Table
    from rich.text import Text

    drawing = Table.grid(padding=(0, 2))
    drawing.add_column()
    drawing.add_column(overflow="fold")
    drawing.add_column(overflow="fold")
    before = ""
    for kind, what, when in rows(shown):
        style = _STYLES.get(kind or before, "")
        drawing.add_row(Text(f"  {kind}", style), Text(printable(what)), Text(printable(when), "dim"))
        before = kind or before
    console.print(Text(_title(shown), "bold"))
    console.print(drawing)


def rows(shown: Shown) -> list[Row]:
    """What a tick shows, line by line; a kind stands at its first line only."""
    tick = shown.tick
    found: list[Row] = []
    found += _kind("arrived", [row for one in shown.arrived for row in _arrived(one, tick)])
    if shown.absorbed:
        found.append(("absorbed", f"{shown.absorbed} duplicate{'' if shown.absorbed == 1 else 's'}", ""))
    found += _kind("rejected", [(f"{one.event or 'event'} at {one.place}: {one.reason}", "") for one in shown.rejected])
    found += _kind("derived", [row for one in shown.derived for row in _derived(one, tick)])
    found += _kind("failed", [(f"{name}: {reason}", "") for name, reason in shown.failed])
    found += _kind("warning", [(f"{name}: {n} rows did not count", "") for name, n in shown.warnings.items()])
    found += _kind("error", [(f"{name}: {n} values could not be worked out", "") for name, n in shown.errors.items()])
    found += _kind("fired", [row for one in shown.fired for row in _fired(one)])
    found += _kind("triggered", [row for one in shown.triggered for row in _triggered(one)])
    found += _kind("purged", [(one.text, "") for one in shown.purged])
    found += _kind("pending", list(_pending(shown.pending, tick)))
    return found


def _kind(kind: str, lines: list[tuple[str, str]]) -> list[Row]:
    return [(kind if number == 0 else "", what, when) for number, (what, when) in enumerate(lines)]


def moment(time: int, tick: int) -> str:
    """A time; of the day of the tick without the day."""
    text, today = show_time(time), show_time(tick)[:10]
    return text[11:].removesuffix("Z") if text.startswith(today) else text


def change_text(version: Version) -> str:
    """A version, with what it does to its event unless it announces it."""
    seq = "" if version.seq is None else f"seq {version.seq}  "
    return f"{seq}{version.text}{'' if version.change == 'announce' else f'  {version.change}'}"


def _when(version: Version, tick: int) -> str:
    occurs = "" if version.occ_time is None else f"occurs {moment(version.occ_time, tick)}, "
    return f"{occurs}detected {moment(version.det_time, tick)}"


def _arrived(version: Version, tick: int) -> Iterator[tuple[str, str]]:
    claimed = "" if version.source_time is None else f", claimed {moment(version.source_time, tick)}"
    yield change_text(version), _when(version, tick) + claimed


def _derived(derived: Derived, tick: int) -> Iterator[tuple[str, str]]:
    yield change_text(derived.version), _when(derived.version, tick)
    for text in why_texts(derived):
        yield f"  {text}", ""


def why_texts(derived: Derived) -> list[str]:
    """Why a complex event is there, a line a constituent."""
    why = derived.why
    lines = [] if why is None else [f"{_seq(one.seq)}{one.event} as {', '.join(one.parts)}" for one in why.events]
    lines += [] if why is None else [one.dump() for one in why.timers] + [one.dump() for one in why.absences]
    return [*lines, *([derived.note] if derived.note else [])]


def _seq(seq: int | None) -> str:
    return f"seq {seq} " if seq is not None and 0 < seq < SELECTED else ""


def _fired(acted: Acted) -> Iterator[tuple[str, str]]:
    arguments = ", ".join(map(json_literal, acted.action.arguments))
    yield f"{acted.action.name}({arguments})", f"for {acted.version.text}"
    values = ", ".join(f"{name} = {shown_value(value)}" for name, value in acted.values.items())
    yield f"  ON {acted.condition}", values


def _triggered(one: Triggered) -> Iterator[tuple[str, str]]:
    yield heading(one)
    for rule in one.rules:
        yield from ((f"  {what}", became) for what, became in rule_texts(rule))


def _pending(pending: Pending, tick: int) -> Iterator[tuple[str, str]]:
    for one in pending.partial:
        yield partial_text(one), "waits"
    yield from _more(pending, "partial", len(pending.partial))
    for kind, word in ALARM_WORDS.items():
        alarms: tuple[Alarm, ...] = getattr(pending, kind)[:_ALARMS_SHOWN_MAX]
        for alarm in alarms:
            yield f"{alarm.event_class}: {alarm.what}", f"{word} {moment(alarm.due, tick)}"
        yield from _more(pending, kind, len(alarms))


def _more(pending: Pending, kind: str, listed: int) -> Iterator[tuple[str, str]]:
    more = pending.counts.get(kind, listed) - listed
    if more > 0:
        yield f"… and {more} more", "waits" if kind == "partial" else ALARM_WORDS[kind]


def partial_text(partial: Partial) -> str:
    """What a MATCH or COMPOSITE has so far."""
    has = ", ".join(f"{_seq(seq)}{event}" for seq, event, _ in partial.has)
    return f"{partial.event_class} has {has}"

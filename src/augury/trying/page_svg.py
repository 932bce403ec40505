"""The time line of a simulation, drawn: occurrence time goes to the right, detection time down, a row a tick.

In: ticks. Out: SVG. What lies left of the line NOW has happened when it is detected, what lies right of it is ahead.
Marks are versions, by class and kind; curves lead to what complex events are made of, dashes to the version before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from augury.algebra.program import Program
from augury.clock import UNIT_US, moment_of, show_time
from augury.event import ClassKind
from augury.history.raw import json_literal
from augury.trying.firings import DidAct, deed_text, heading
from augury.trying.page_markup import Markup, number, tag
from augury.trying.shown import Shown
from augury.trying.simulate_record import EventKey, Version

PALETTE: Final = 10
"""How many colours classes have before they repeat; the style has them as c0, c1, …"""

_LEFT, _PLOT, _RIGHT, _TOP, _BOTTOM = 196, 740, 350, 58, 34
_LANE, _ROW_PAD, _APART = 20, 8, 17
_LANES_MAX: Final = 8
_LABEL_MAX: Final = 46
_STEPS_US: Final = tuple(
    count * UNIT_US[unit]
    for unit, counts in (("s", (1, 5, 15, 30)), ("m", (1, 5, 15, 30)), ("h", (1, 3, 6, 12)), ("d", (1, 2, 7, 14, 30)))
    for count in counts
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A version in the drawing; `name` is its own in the page."""

    name: str
    version: Version
    shown: int
    x: float
    y: float


@dataclass(slots=True)
class Scale:
    """Times → places to the right."""

    first_us: int
    last_us: int

    def x(self, time_us: int) -> float:
        """The place of a time."""
        return _LEFT + _PLOT * (time_us - self.first_us) / max(1, self.last_us - self.first_us)

    def steps(self) -> Iterator[tuple[int, str]]:
        """Round times, with how they are written."""
        length = self.last_us - self.first_us
        step = next((one for one in _STEPS_US if length / one <= 8), max(1, length // 8))
        time = -(-self.first_us // step) * step
        while time <= self.last_us:
            moment = moment_of(time)
            is_day = step >= UNIT_US["d"] or time % UNIT_US["d"] == 0
            yield time, moment.strftime("%-d %b %Y") if is_day else moment.strftime("%H:%M:%S").removesuffix(":00")
            time += step


@dataclass(slots=True)
class Drawing:
    """Where everything stands: marks by row, and how high rows are."""

    program: Program
    ticks: Sequence[Shown]
    scale: Scale
    marks: list[Mark] = field(default_factory=list)
    tops: list[float] = field(default_factory=list)
    heights: list[float] = field(default_factory=list)
    _last: dict[EventKey, Mark] = field(default_factory=dict)
    _by_seq: dict[int, Mark] = field(default_factory=dict)
    links: list[tuple[Mark, Mark, str]] = field(default_factory=list)
    """From a mark to another: to a constituent, or to the version before."""

    def place(self) -> None:
        """Put every version somewhere."""
        top = float(_TOP)
        for row, shown in enumerate(self.ticks):
            versions = [*shown.arrived, *(one.version for one in shown.derived)]
            lanes = self._lanes(versions, shown.tick)
            count = max([lane + 1 for lane in lanes] + [len(_flags(shown)), 1])
            height = _LANE * min(count, _LANES_MAX) + _ROW_PAD
            self.tops.append(top)
            self.heights.append(height)
            for version, lane in zip(versions, lanes, strict=True):
                y = top + _ROW_PAD / 2 + _LANE * (lane + 0.5)
                self._put(version, row, y, shown.tick)
            top += height

    def _time(self, version: Version, tick: int) -> int:
        """Where a version stands; a withdrawal where its event stood."""
        if version.occ_time is not None:
            return version.occ_time
        before = self._last.get(version.event_key)
        return tick if before is None or before.version.occ_time is None else before.version.occ_time

    def _lanes(self, versions: Sequence[Version], tick: int) -> list[int]:
        """For each version a lane of its row in which no other is too near."""
        taken: list[list[float]] = []
        found = []
        for version in versions:
            x = self.scale.x(self._time(version, tick))
            lane = next((n for n, others in enumerate(taken) if all(abs(x - o) >= _APART for o in others)), len(taken))
            lane = min(lane, _LANES_MAX - 1)
            while len(taken) <= lane:
                taken.append([])
            taken[lane].append(x)
            found.append(lane)
        return found

    def _put(self, version: Version, row: int, y: float, tick: int) -> None:
        mark = Mark(f"m{len(self.marks)}", version, row, self.scale.x(self._time(version, tick)), y)
        before = self._last.get(version.event_key)
        if before is not None and version.change != "announce":
            self.links.append((mark, before, "revision"))
        for seq in version.constituents or ():
            if seq in self._by_seq:
                self.links.append((mark, self._by_seq[seq], "link"))
        self.marks.append(mark)
        self._last[version.event_key] = mark
        if version.seq is not None and version.constituents is None:
            self._by_seq[version.seq] = mark

    @property
    def height(self) -> float:
        """How high all rows are together, with the axis."""
        return (self.tops[-1] + self.heights[-1] if self.tops else _TOP) + _BOTTOM


def time_line(program: Program, ticks: Sequence[Shown]) -> Markup:
    """The drawing of some ticks."""
    drawing = Drawing(program, ticks, _scale(ticks))
    drawing.place()
    width, height = _LEFT + _PLOT + _RIGHT, drawing.height
    return tag(
        "svg",
        tag("title", "Time line: occurrence time to the right, detection time down"),
        _rows(drawing),
        _axis(drawing),
        _now(drawing),
        tag("g", *_links(drawing), class_="links"),
        tag("g", *_marks(drawing), class_="marks"),
        tag("g", *_actions(drawing), class_="actions"),
        id="time-line",
        viewBox=f"0 0 {width} {number(height)}",
        width=width,
        height=number(height),
        role="img",
        xmlns="http://www.w3.org/2000/svg",
    )


def _scale(ticks: Sequence[Shown]) -> Scale:
    times = [shown.tick for shown in ticks]
    for shown in ticks:
        versions = [*shown.arrived, *(one.version for one in shown.derived)]
        times += [one.occ_time for one in versions if one.occ_time is not None]
    first, last = min(times, default=0), max(times, default=1)
    pad = max((last - first) // 30, 1_000_000)
    return Scale(first - pad, last + pad)


def _rows(drawing: Drawing) -> Markup:
    found = []
    for row, (shown, top, height) in enumerate(zip(drawing.ticks, drawing.tops, drawing.heights, strict=True)):
        middle = number(top + height / 2 + 4)
        texts = [
            tag("text", str(shown.number), x=34, y=middle, class_="count", text_anchor="end"),
            tag("text", show_time(shown.tick).replace("T", " "), x=44, y=middle, class_="time"),
        ]
        rect = tag("rect", x=0, y=number(top), width=_LEFT + _PLOT + _RIGHT, height=number(height))
        found.append(tag("g", rect, *texts, class_=f"row{' odd' if row % 2 else ''}", data_tick=row))
    return tag("g", *found, class_="rows")


def _axis(drawing: Drawing) -> Markup:
    bottom = number(drawing.height - _BOTTOM)
    found = [
        tag("text", "detected at the tick ↓", x=8, y=_TOP - 12, class_="axis"),
        tag("text", "occurs →", x=_LEFT, y=18, class_="axis"),
        tag("text", "actions", x=_LEFT + _PLOT + 18, y=_TOP - 12, class_="axis"),
    ]
    for time, text in drawing.scale.steps():
        x = number(drawing.scale.x(time))
        found.append(tag("line", x1=x, x2=x, y1=_TOP - 4, y2=bottom, class_="grid"))
        found.append(tag("text", text, x=x, y=_TOP - 12, class_="step", text_anchor="middle"))
    return tag("g", *found, class_="axes")


def _now(drawing: Drawing) -> Markup:
    """The line of NOW, and the side of it where things have happened when they are detected."""
    points = [
        (drawing.scale.x(shown.tick), y)
        for shown, top, height in zip(drawing.ticks, drawing.tops, drawing.heights, strict=True)
        for y in (top, top + height)
    ]
    if not points:
        return Markup("")
    line = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    first, last = points[0][1], points[-1][1]
    area = f"{_LEFT},{number(first)} {line} {_LEFT},{number(last)}"
    x, y = points[-1]
    return tag(
        "g",
        tag("polygon", points=area, class_="happened"),
        tag("polyline", points=line, class_="now"),
        tag("text", "NOW", x=number(x), y=number(y + 14), class_="now-name", text_anchor="middle"),
        class_="clock",
    )


def _links(drawing: Drawing) -> Iterator[Markup]:
    for mark, to, kind in drawing.links:
        middle = (mark.y + to.y) / 2
        path = f"M{number(mark.x)} {number(mark.y)} C{number(mark.x)} {number(middle)}"
        path += f" {number(to.x)} {number(middle)} {number(to.x)} {number(to.y)}"
        yield tag("path", d=path, class_=kind, data_from=mark.name, data_to=to.name, data_tick=mark.shown)


_SHAPES: Final = {
    ClassKind.SUBSCRIBED: "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0Z",
    ClassKind.COMPLEX: "M0 -8L8 0L0 8L-8 0Z",
    ClassKind.CLOCK: "M0 -7L7 6L-7 6Z",
}


def _marks(drawing: Drawing) -> Iterator[Markup]:
    places = {id(plan.event_class): place for place, plan in enumerate(drawing.program.classes)}
    for mark in drawing.marks:
        version = mark.version
        colour = places.get(id(version.event_class), version.place) % PALETTE
        inside = [tag("title", told(version)), tag("path", d=_SHAPES[version.event_class.kind])]
        if version.is_withdrawal:
            inside.append(tag("path", d="M-5 -5L5 5M5 -5L-5 5", class_="cross"))
        yield tag(
            "g",
            *inside,
            id=mark.name,
            class_=f"mark {version.event_class.kind.value} {version.change} c{colour}",
            transform=f"translate({number(mark.x)} {number(mark.y)})",
            data_tick=mark.shown,
            tabindex=0,
        )


def told(version: Version) -> str:
    """What a mark says to who points at it."""
    lines = [f"{version.text} — {version.change}"]
    if version.occ_time is not None:
        lines.append(f"occurs {show_time(version.occ_time)}")
    lines.append(f"detected {show_time(version.det_time)}, at the tick {show_time(version.tick)}")
    lines += [f"seq {version.seq}"] if version.seq is not None else []
    lines += [f"made of {', '.join(map(str, version.constituents))}"] if version.constituents else []
    return "\n".join(lines)


def _flags(shown: Shown) -> list[tuple[str, str]]:
    """The actions of a tick, and why each was done: those of statements, then those of rules."""
    found = [
        (
            f"{one.action.name}({', '.join(map(json_literal, one.action.arguments))})",
            f"for {one.version.text}\nON {one.condition}",
        )
        for one in shown.fired
    ]
    for one in shown.triggered:
        for rule in one.rules:
            acts = (deed for deed in rule.deeds if isinstance(deed, DidAct))
            found += [(deed_text(deed), f"rule {rule.rule} of {' '.join(heading(one))}") for deed in acts]
    return found


def _actions(drawing: Drawing) -> Iterator[Markup]:
    """A flag and the name for each action, and a flag on the line of NOW."""
    for row, (shown, top) in enumerate(zip(drawing.ticks, drawing.tops, strict=True)):
        flags = _flags(shown)
        for lane, (whole, by) in enumerate(flags[:_LANES_MAX]):
            y = top + _ROW_PAD / 2 + _LANE * (lane + 0.5)
            more = len(flags) - _LANES_MAX
            if lane == _LANES_MAX - 1 and more > 0:
                whole = f"… and {more + 1} more actions"
            short = whole if len(whole) <= _LABEL_MAX else whole[: _LABEL_MAX - 1] + "…"
            x = _LEFT + _PLOT + 18
            flag = tag("path", d=f"M{x} {number(y + 7)}v-14l9 4l-9 4", class_="flag")
            text = tag("text", short, x=x + 16, y=number(y + 4))
            title = tag("title", f"{whole}\n{by}")
            yield tag("g", title, flag, text, class_="action", data_tick=row)
        if flags:
            at = f"translate({number(drawing.scale.x(shown.tick))} {number(top + drawing.heights[row] / 2)})"
            yield tag("g", tag("path", d="M0 7v-14l9 4l-9 4", class_="flag"), transform=at, data_tick=row)

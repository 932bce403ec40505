"""An automaton as a picture: self-contained SVG, laid out here, without any other program.

States stand in columns by their distance from the initial one; moves to a column further right go straight or in a
bow over what is between, moves back in a bow below, and a move to the state itself is a loop above it. All moves from
one state to another are one arrow, and the target of most letters is labelled `else`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import dist, hypot

from augury.automata.automaton import Automaton

_RADIUS = 20.0
_ROW = 96.0
_COLUMN_MIN, _COLUMN_MAX = 130.0, 240.0
_CELL = 9.0
_GLYPH = 6.7
"""About the width of a character of the labels; fonts differ, and a little too wide does no harm."""
_NAME_SHOWN_MAX = 14
_LABEL_SHOWN_MAX = 30

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Arrow:
    """All moves from one state to another."""

    source: int
    target: int
    label: str


@dataclass(frozen=True, slots=True)
class _Curve:
    """A quadratic curve; its ends are on the rims of two circles."""

    begin: Point
    bend: Point
    end: Point

    def at(self, t: float) -> Point:
        s = 1 - t
        x, y = (s * s * a + 2 * s * t * b + t * t * c for a, b, c in zip(self.begin, self.bend, self.end, strict=True))
        return x, y

    def points(self) -> list[Point]:
        steps = max(8, int(dist(self.begin, self.end) / _CELL))
        return [self.at(i / steps) for i in range(steps + 1)]


@dataclass(frozen=True, slots=True)
class _Label:
    """Text around its middle."""

    x: float
    y: float
    text: str

    @property
    def box(self) -> tuple[float, float, float, float]:
        half = len(self.text) * _GLYPH / 2 + 2
        return self.x - half, self.y - 9, self.x + half, self.y + 9


def draw(automaton: Automaton, names: Sequence[str] | None = None, *, title: str = "automaton") -> str:
    """The automaton, one without marks, as an SVG document."""
    assert not automaton.variables, "an automaton of a whole expression"
    shown, legend = _short_names(names or [str(i) for i in range(automaton.symbols)])
    arrows = _arrows(automaton, shown)
    places = _places(automaton, arrows)
    picture = _Picture(places)
    for arrow in sorted(arrows, key=lambda a: dist(places[a.source], places[a.target])):
        picture.add(arrow)
    picture.label()
    return "\n".join(_document(automaton, picture, legend, title))


def _short_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names fit for labels, and a line for each that had to be shortened: letters stand for long ones."""
    shown: list[str] = []
    legend: list[str] = []
    for name in names:
        if len(name) > _NAME_SHOWN_MAX:
            number = len(legend)
            letter = chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")
            legend.append(f"{letter}: {name}")
            name = letter
        shown.append(name)
    return shown, legend


def _arrows(automaton: Automaton, names: Sequence[str]) -> list[_Arrow]:
    """One arrow per pair of states; where most symbols lead is `else`."""
    found = []
    for state, row in enumerate(automaton.delta):
        groups: dict[int, list[str]] = {}
        for symbol, target in enumerate(row):
            groups.setdefault(target, []).append(names[symbol])
        rest = max(groups, key=lambda target: (len(groups[target]), -target))
        groups[rest] = ["else" if len(groups) > 1 else "any"] if len(groups[rest]) > 1 else groups[rest]
        found += [_Arrow(state, target, ", ".join(groups[target])) for target in sorted(groups)]
    return found


# ---- where states stand --------------------------------------------------------------------------


def _places(automaton: Automaton, arrows: list[_Arrow]) -> list[Point]:
    """Columns by distance from the initial state; in a column, by where its arrows come from."""
    column = [0] * len(automaton.delta)  # states are numbered as a walk meets them: breadth first
    for arrow in sorted(arrows, key=lambda a: a.source):
        if arrow.target > arrow.source and column[arrow.target] == 0:
            column[arrow.target] = column[arrow.source] + 1
    widths = [len(a.label) for a in arrows if column[a.source] != column[a.target]]
    step = min(_COLUMN_MAX, max(_COLUMN_MIN, max(map(_shown_width, widths), default=0) + 4 * _RADIUS))
    step *= min(1.5, max(1.0, len(arrows) / 45))  # many arrows need room
    rows: list[float] = [0.0] * len(column)
    for number in range(max(column) + 1):
        members = [state for state, at in enumerate(column) if at == number]
        wanted = {
            state: _mean([rows[a.source] for a in arrows if a.target == state and column[a.source] == number - 1])
            for state in members
        }
        members.sort(key=lambda state: (wanted[state], state))
        for i, state in enumerate(members):
            rows[state] = i - (len(members) - 1) / 2
    return [(step * x, _ROW * y) for x, y in zip(column, rows, strict=True)]


def _shown_width(characters: int) -> float:
    return min(characters, _LABEL_SHOWN_MAX) * _GLYPH


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


# ---- where arrows go -----------------------------------------------------------------------------


class _Picture:
    """Arrows put in one by one, each where it meets fewest of what is there."""

    def __init__(self, places: list[Point]) -> None:
        self.places = places
        self.taken: Counter[tuple[int, int]] = Counter()
        self.curves: list[tuple[_Arrow, _Curve]] = []
        self.loops: list[tuple[_Arrow, Point]] = []
        self.labels: list[tuple[_Arrow, _Label]] = []
        for x, y in places:
            self._take([(x + dx, y + dy) for dx in _around(_RADIUS + 6) for dy in _around(_RADIUS + 6)], 9)

    def add(self, arrow: _Arrow) -> None:
        here, there = self.places[arrow.source], self.places[arrow.target]
        if arrow.source == arrow.target:
            self.loops.append((arrow, here))
            self._take([(here[0] + dx, here[1] - _RADIUS - 14 + dy) for dx in _around(14) for dy in _around(14)], 2)
            return
        curves = [_curve(here, there, bow) for bow in _bows(here, there)]
        costs = [self._cost(curve, i) for i, curve in enumerate(curves)]
        best = curves[costs.index(min(costs))]
        self.curves.append((arrow, best))
        self._take(best.points(), 1)

    def label(self) -> None:
        """Put every label beside its arrow, where no other stands."""
        boxes = [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in self.places]
        spots = [(arrow, [(x, y - _RADIUS - 36 - 16 * i) for i in range(3)]) for arrow, (x, y) in self.loops]
        tries = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
        spots += [(arrow, [curve.at(t) for t in tries]) for arrow, curve in self.curves]
        for arrow, points in spots:
            candidates = [_Label(x, y, _cut(arrow.label)) for x, y in points]
            free = (one for one in candidates if not any(_overlap(one.box, box) for box in boxes))
            found = next(free, candidates[0])
            boxes.append(found.box)
            self.labels.append((arrow, found))

    def corners(self) -> tuple[float, float, float, float]:
        """The smallest box around everything."""
        boxes = [label.box for _, label in self.labels]
        boxes += [(x, y, x, y) for _, curve in self.curves for x, y in curve.points()]
        boxes += [(x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS) for x, y in self.places]
        lefts, tops, rights, bottoms = zip(*boxes, strict=True)
        return min(lefts) - 48, min(tops) - 12, max(rights) + 12, max(bottoms) + 12

    def _cost(self, curve: _Curve, order: int) -> float:
        inner = curve.points()[2:-2]
        return sum(self.taken[_cell(point)] for point in inner) + 0.6 * order

    def _take(self, points: list[Point], weight: int) -> None:
        for cell in {_cell(point) for point in points}:
            self.taken[cell] += weight


def _around(reach: float) -> list[float]:
    steps = int(reach / _CELL) + 1
    return [reach * i / steps for i in range(-steps, steps + 1)]


def _cell(point: Point) -> tuple[int, int]:
    return int(point[0] // _CELL), int(point[1] // _CELL)


def _bows(here: Point, there: Point) -> Iterator[float]:
    """How far arrows may bend to their left, best first: forward nearly straight, back below."""
    length = dist(here, there)
    forward = there[0] > here[0]
    if forward:
        yield 0.0
    for part in (0.14, 0.24, 0.34, 0.44, 0.56, 0.7, 0.85):
        yield part * length + 12
        yield -part * length - 12


def _curve(here: Point, there: Point, bow: float) -> _Curve:
    """From rim to rim; the middle of the curve is as far from the straight line as the bow says."""
    dx, dy = there[0] - here[0], there[1] - here[1]
    length = hypot(dx, dy)
    # Seen along the arrow, to its right: that is below for an arrow that goes back, so that it may return.
    across = (dy / length, -dx / length)
    bend = ((here[0] + there[0]) / 2 + 2 * bow * across[0], (here[1] + there[1]) / 2 + 2 * bow * across[1])
    return _Curve(_towards(here, bend, _RADIUS), bend, _towards(there, bend, _RADIUS + 3))


def _towards(centre: Point, point: Point, reach: float) -> Point:
    length = dist(centre, point) or 1.0
    return centre[0] + (point[0] - centre[0]) / length * reach, centre[1] + (point[1] - centre[1]) / length * reach


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL_SHOWN_MAX else text[: _LABEL_SHOWN_MAX - 1] + "…"


# ---- the document --------------------------------------------------------------------------------

_STYLE = """\
  <style>
    text { font: 12px "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #222; }
    .state { fill: #fff; stroke: #222; stroke-width: 1.5; }
    .ring { fill: none; stroke: #222; stroke-width: 1.5; }
    .move { fill: none; stroke: #567; stroke-width: 1.2; }
    .label { text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4; stroke-linejoin: round; }
    .number { text-anchor: middle; }
  </style>
  <defs>
    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">
      <path d="M0 1 L10 5 L0 9 z" fill="#567"/>
    </marker>
  </defs>"""


def _document(automaton: Automaton, picture: _Picture, legend: list[str], title: str) -> Iterator[str]:
    left, top, right, bottom = picture.corners()
    foot = bottom + 18 * len(legend) + (6 if legend else 0)
    right = max([right, *(left + 12 + len(line) * _GLYPH for line in legend)])
    box = f"{left:.0f} {top:.0f} {right - left:.0f} {foot - top:.0f}"
    size = f'width="{right - left:.0f}" height="{foot - top:.0f}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {size} role="img">'
    yield f"  <title>{escape(title)}</title>"
    yield _STYLE
    yield f'  <rect x="{left:.0f}" y="{top:.0f}" width="{right - left:.0f}" height="{foot - top:.0f}" fill="#fff"/>'
    yield from _moves(picture)
    yield from _states(automaton, picture)
    for arrow, label in picture.labels:
        whole = f"<title>{escape(arrow.label)}</title>" if label.text != arrow.label else ""
        text = f"{escape(label.text)}{whole}"
        yield f'  <text class="label" x="{label.x:.1f}" y="{label.y + 4:.1f}">{text}</text>'
    for i, line in enumerate(legend):
        yield f'  <text x="{left + 8:.0f}" y="{bottom + 12 + 18 * i:.0f}">{escape(line)}</text>'
    yield "</svg>"


def _moves(picture: _Picture) -> Iterator[str]:
    x, y = picture.places[0]
    lines = [f"M{x - _RADIUS - 24:.1f} {y:.1f} L{x - _RADIUS - 3:.1f} {y:.1f}"]
    for _, curve in picture.curves:
        (ax, ay), (bx, by), (cx, cy) = curve.begin, curve.bend, curve.end
        lines.append(f"M{ax:.1f} {ay:.1f} Q{bx:.1f} {by:.1f} {cx:.1f} {cy:.1f}")
    for _, (x, y) in picture.loops:
        side, rim = _RADIUS * 0.5, _RADIUS * 0.87
        bend = f"C{x - 24:.1f} {y - _RADIUS - 38:.1f} {x + 24:.1f} {y - _RADIUS - 38:.1f}"
        lines.append(f"M{x - side:.1f} {y - rim:.1f} {bend} {x + side + 1:.1f} {y - rim - 3:.1f}")
    yield from (f'  <path class="move" d="{line}" marker-end="url(#tip)"/>' for line in lines)


def _states(automaton: Automaton, picture: _Picture) -> Iterator[str]:
    for state, (x, y) in enumerate(picture.places):
        yield f'  <circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.0f}"/>'
        if automaton.accepting[state]:
            yield f'  <circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS - 4:.0f}"/>'
        yield f'  <text class="number" x="{x:.1f}" y="{y + 4:.1f}">{state}</text>'

"""RECENT's evaluation of one filled shape: whether the expression holds over it, and as which occurrence.

In: a shape, a version for each of its leaves, and what came aside since the last firing. Out: an occurrence, or None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from augury.kernels.reference.composite import forms as f
from augury.kernels.reference.composite.chain import ChainJoin, Found
from augury.kernels.reference.composite.nodes import in_bounds
from augury.kernels.reference.composite.occurrence import Operand, Point, Step
from augury.kernels.reference.composite.protocol import Choice, Join, passes
from augury.kernels.reference.composite.setting import Setting
from augury.kernels.reference.composite.shapes import Given, Put, Shape, Slot
from augury.kernels.reference.composite.timers import due


class Evaluation:
    """One evaluation; `ranks` say how late the picked operands ended, outermost operators first, left to right."""

    def __init__(
        self,
        setting: Setting,
        step: Step,
        found: Mapping[f.Form, Sequence[Operand]],
        last_firing: Point | None,
        versions: frozenset[int],
    ) -> None:
        self.setting = setting
        self.step = step
        self.found = found
        self.last_firing = last_firing
        self.versions = versions
        self.ranks: list[Any] = []

    def holds(self, shape: Shape, versions: Iterator[int]) -> Operand | None:
        """The occurrence that a shape makes, its leaves filled in order."""
        match shape:
            case Slot(leaf=leaf):
                return self.setting.at_leaf(leaf, next(versions))
            case Given(operand=operand):
                return operand
            case Put(operands=operands):
                rank = len(self.ranks)
                self.ranks.append(None)
                found = [self.holds(operand, versions) for operand in operands]
                there = [one for one in found if one is not None]
                if len(there) < len(found):
                    return None
                self.ranks[rank] = _rank(shape, there)
                return self._applied(shape.form, there)
            case _:
                assert_never(shape)

    def _applied(self, form: f.Form, operands: list[Operand]) -> Operand | None:
        choice: Choice = tuple(enumerate(operands))
        match form:
            case f.Leaf():
                raise AssertionError("a leaf is a slot")
            case f.Either():
                return operands[0]
            case f.Together(terms=terms):
                return Join(self.setting, len(choice), terms).complete(choice)
            case f.Times(terms=terms):
                return Join(self.setting, 1, terms).complete(tuple((0, each) for each in operands))
            case f.Beside():
                return self._beside(form, operands[0])
            case f.Chain(left=left, terms=terms):
                if form.closes and any(
                    operands[0].before(c) and c.end < operands[1].end for c in self.found[form.right]
                ):
                    return None
                sides = choice if left is not None else ((1, operands[0]),)
                return self._chain(form, terms).complete(sides)
            case f.Later(delay_us=delay):
                return self._timer(operands[0], delay)
            case f.Unless():
                return self._unless(form, operands[0])
            case f.Window():
                return self._window(form, choice)
            case f.Pulse():
                return self._pulse(form, operands[0])
            case f.Bounds(low_us=low, high_us=high):
                return operands[0] if in_bounds(operands[0], low, high) else None
            case f.Tested(tests=tests):
                return operands[0] if passes(self.setting, f.Terms(tests=tests), operands[0]) else None
            case _:
                assert_never(form)

    def _chain(self, form: f.Chain, terms: f.Terms) -> ChainJoin:
        middles: list[Found] = []
        periods_us: list[int] = []
        for middle in form.middles:
            match middle:
                case f.Absent(form=absent):
                    middles.append(Found(None, self.found[absent]))
                case f.All(form=each, least=least):
                    middles.append(Found(least, self.found[each]))
                case f.Elapsed(period_us=period):
                    periods_us.append(period)
        return ChainJoin(self.setting, terms, form.left is not None, middles, periods_us, None, self.versions)

    def _beside(self, form: f.Beside, operand: Operand) -> Operand | None:
        within = form.terms.within_us
        oldest = None if within is None else max(self.setting.occ_times([operand])) - within
        there = [
            one for one in self.found[form.absent] if oldest is None or min(self.setting.occ_times([one])) >= oldest
        ]
        return None if there else operand

    # ---- timers --------------------------------------------------------------------------------------

    def _timer(self, operand: Operand, delay_us: int) -> Operand | None:
        """The occurrence that a timer makes, if it was due by now."""
        time = due(operand, delay_us)
        before = sum(event.det_time < time for event in self.setting.events)
        point = (max(before - 1, operand.end[0]), 1, time)
        if point > self.step.point:
            return None
        occ_time = operand.occ_time + delay_us
        return Operand(operand.parts, operand.start, point, occ_time, time, operand.windows)

    def _unless(self, form: f.Unless, opening: Operand) -> Operand | None:
        made = self._timer(opening, form.delay_us)
        if made is None or any(opening.before(b) and b.end < made.end for b in self.found[form.absent]):
            return None
        return made

    def _window(self, form: f.Window, choice: Choice) -> Operand | None:
        made = Join(self.setting, 2, form.terms, ordered=True).complete(choice)
        (_, opening), (_, middle) = choice
        closings = self.found[form.closing]
        if made is None or any(opening.before(c) and c.end <= middle.end for c in closings):
            return None
        return _in_window(form, opening, made)

    def _pulse(self, form: f.Pulse, opening: Operand) -> Operand | None:
        """At the latest of its times that lies after the last firing and before a closing."""
        latest: Operand | None = None
        count = 1
        while (made := self._timer(opening, count * form.period_us)) is not None:
            count += 1
            is_closed = any(opening.before(c) and c.end <= made.end for c in self.found[form.closing])
            if not is_closed and (self.last_firing is None or made.end > self.last_firing):
                latest = made
        return None if latest is None else _in_window(form, opening, latest)


def _in_window(form: f.Window | f.Pulse, opening: Operand, made: Operand) -> Operand:
    return Operand(
        made.parts,
        made.start,
        made.end,
        made.occ_time,
        made.det_time,
        (*made.windows, (form, opening)),
    )


def _rank(shape: Put, operands: Sequence[Operand]) -> Any:
    """OR takes the side that ended last, ANY the m latest; on a tie the leftmost."""
    match shape.form:
        case f.Either():
            return operands[0].end, -shape.picked[0]
        case f.Together():
            return sorted((one.end for one in operands), reverse=True), [-index for index in shape.picked]
        case _:
            return [not isinstance(operand, Given) for operand in shape.operands]

"""RECENT: the whole expression over the latest versions since the last firing, and a firing clears (Raghavan 1999).

In: a form and one graph's history. Out: a detector that fires at most once a step. Not Snoop's RECENT, which keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from augury.kernels.reference.composite import forms as f
from augury.kernels.reference.composite import shapes as sh
from augury.kernels.reference.composite.evaluation import Evaluation
from augury.kernels.reference.composite.graph import graph
from augury.kernels.reference.composite.occurrence import Operand, Point, Step
from augury.kernels.reference.composite.protocol import Detector
from augury.kernels.reference.composite.setting import Setting
from augury.kernels.reference.composite.timers import due
from augury.kernels.reference.composite.unrestricted import Unrestricted


class Recent:
    """The default context."""

    def detector(self, form: f.Form, setting: Setting) -> Detector:
        """The whole expression at work."""
        return _Recent(form, setting)


class _Recent:
    def __init__(self, form: f.Form, setting: Setting) -> None:
        self.form = form
        self.setting = setting
        self.leaves = sorted({leaf for shape in sh.shapes(form, {}) for leaf in sh.slots(shape)})
        self.classes = [primitive.event_class for primitive in setting.leaves]
        self.needed: Counter[str] = Counter()
        for shape in sh.shapes(form, {}):
            self.needed |= Counter(self.classes[leaf] for leaf in sh.slots(shape))
        self.openings: dict[Hashable, Operand] = {}
        self.last_step: Step | None = None
        self.last_firing: Point | None = None
        self._clear()

    def _clear(self) -> None:
        self.kept: dict[int, list[int]] = {leaf: [] for leaf in self.leaves}
        self.asides = {form: graph(form, self.setting, Unrestricted()) for form in sh.aside(self.form)}
        self.found: dict[f.Form, list[Operand]] = {form: [] for form in self.asides}

    # ---- a step --------------------------------------------------------------------------------------

    def step(self, step: Step) -> list[Operand]:
        """The occurrence that fires here, if one does; a version that fits no leaf makes no difference."""
        if step.place is not None and not any(self.setting.at_leaf(n, step.place) for n in range(len(self.classes))):
            return []
        self.last_step = step
        self._take_in(step)
        made = self._best(step)
        if made is None:
            return []
        self.openings = {window: opening for window, opening in made.windows if not self._is_closed(window, opening)}
        self.last_firing = step.point
        self._clear()
        return [replace(made, windows=())]

    def _take_in(self, step: Step) -> None:
        for form, detector in self.asides.items():
            found = [*self.found[form], *detector.step(step)]
            self.found[form] = [one for one in found if not self.setting.expired(one, step.tick)]
        for leaf, places in self.kept.items():
            versions = [*places, *([] if step.place is None else [step.place])]
            fitting = [(place, self.setting.at_leaf(leaf, place)) for place in versions]
            fresh = [place for place, one in fitting if one and not self.setting.expired(one, step.tick)]
            self.kept[leaf] = fresh[-self.needed[self.classes[leaf]] :]
        self.openings = {w: one for w, one in self.openings.items() if not self.setting.expired(one, step.tick)}
        self.openings = {w: one for w, one in self.openings.items() if not self._is_replaced(w, step)}

    def _is_replaced(self, window: Hashable, step: Step) -> bool:
        """Whether the opening of a window still open has come again since; another window may have opened it."""
        assert isinstance(window, f.Window | f.Pulse)
        return any(True for _ in self._holding(window.opening, step, self.openings))

    def _is_closed(self, window: Hashable, opening: Operand) -> bool:
        assert isinstance(window, f.Window | f.Pulse)
        return any(opening.before(closing) for closing in self.found[window.closing])

    # ---- what holds ----------------------------------------------------------------------------------

    def _best(self, step: Step) -> Operand | None:
        """The occurrence with the sides that ended last, outermost operators first, in which this step takes part."""
        taking_part = [
            (ranks, made)
            for ranks, made in self._holding(self.form, step, self.openings)
            if (made.end == step.point if step.place is None else step.place in made.places)
        ]
        if not taking_part:
            return None
        highest = max(list(ranks) for ranks, _ in taking_part)
        return next(made for ranks, made in taking_part if ranks == highest)

    def _holding(self, form: f.Form, step: Step, openings: sh.Openings) -> Iterator[tuple[Sequence[Any], Operand]]:
        for shape in sh.shapes(form, openings):
            versions = sh.filled(sh.slots(shape), self.kept, self.classes)
            if versions is not None:
                evaluation = Evaluation(self.setting, step, self.found, self.last_firing, frozenset(versions))
                made = evaluation.holds(shape, iter(versions))
                if made is not None:
                    yield evaluation.ranks, made

    # ---- timers --------------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """The next time at which a timer over what is kept may be due; at some of them nothing fires."""
        inside = [time for detector in self.asides.values() if (time := detector.next_due()) is not None]
        last = self.last_step
        if last is None:
            return None
        own = [time for form in _all(self.form) for _, time in self._times(form)]
        later = [time for time in own if time > last.time or (time == last.time and last.place is not None)]
        return min([*inside, *later], default=None)

    def _times(self, form: f.Form) -> set[tuple[int, int]]:
        """The occ_time and det_time that occurrences may have which are made of what is kept."""
        match form:
            case f.Leaf(number=number):
                events = [self.setting.events[place] for place in self.kept[number]]
                return {(event.occ_time, event.det_time) for event in events if event.occ_time is not None}
            case f.Later(operand=operand, delay_us=delay):
                return {_after(times, delay) for times in self._times(operand)}
            case f.Unless(opening=opening, delay_us=delay):
                return {_after(times, delay) for times in self._times(opening)}
            case f.Pulse(opening=opening, period_us=period):
                spared = self.openings.get(form)
                starts = self._times(opening) | (set() if spared is None else {(spared.occ_time, spared.det_time)})
                return {times for start in starts for times in self._pulses(start, period)}
            case f.Window():
                spared = self.openings.get(form)
                own = set() if spared is None else {(spared.occ_time, spared.det_time)}
                return own.union(*(self._times(inner) for inner in sh.positive(form)))
            case _:
                return set[tuple[int, int]]().union(*(self._times(inner) for inner in sh.positive(form)))

    def _pulses(self, start: tuple[int, int], period_us: int) -> Iterator[tuple[int, int]]:
        times = start
        count = 0
        while times[1] <= self.setting.until_us:
            count += 1
            times = _after(start, count * period_us)
            yield times


def _all(form: f.Form) -> Iterator[f.Form]:
    yield form
    for inner in sh.positive(form):
        yield from _all(inner)


def _after(times: tuple[int, int], delay_us: int) -> tuple[int, int]:
    occ_time, det_time = times
    return occ_time + delay_us, due(Operand((), (0, 0, 0), (0, 0, 0), occ_time, det_time), delay_us)

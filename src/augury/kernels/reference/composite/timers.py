"""The operators that wait for time, node by node: `E + d`, an absence for d, PERIODIC, and the windows of APERIODIC.

In: what the nodes below found at a step. Out: what takes place here. A timer belongs to the occurrence that set it, in
every context; a version never fires a timer, the step of the timer right after it does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from augury.kernels.reference.composite.forms import Terms
from augury.kernels.reference.composite.nodes import Node
from augury.kernels.reference.composite.occurrence import Operand, Step, delayed, distinct
from augury.kernels.reference.composite.protocol import Detector, Join, Pairing
from augury.kernels.reference.composite.setting import Setting


def due(operand: Operand, delay_us: int) -> int:
    """When a timer is due: so long after an occurrence, not before its detection."""
    return max(operand.occ_time + delay_us, operand.det_time)


@dataclass(eq=False)
class _Waiting(Node, ABC):
    """A node that has set timers."""

    @abstractmethod
    def times(self) -> list[int]:
        """The times of its timers."""

    def next_due(self) -> int | None:
        """The time of the next timer set here or below."""
        below = super().next_due()
        return min([*self.times(), *([] if below is None else [below])], default=None)


@dataclass(eq=False)
class LaterNode(_Waiting):
    """`E + d`."""

    operand: Detector
    delay_us: int
    waiting: list[Operand] = field(default_factory=list)

    def below(self) -> Sequence[Detector]:
        """The operand."""
        return [self.operand]

    def times(self) -> list[int]:
        """One for each occurrence that waits."""
        return [due(operand, self.delay_us) for operand in self.waiting]

    def step(self, step: Step) -> list[Operand]:
        """The occurrences whose time has come."""
        self.waiting = self.fresh([*self.waiting, *self.operand.step(step)], step)
        ripe = [one for one in self.waiting if step.place is None and due(one, self.delay_us) <= step.time]
        self.waiting = [one for one in self.waiting if one not in ripe]
        return distinct(delayed(one, one.occ_time + self.delay_us, step) for one in ripe)


@dataclass(eq=False)
class UnlessNode(_Waiting):
    """An absence for so long after the opening."""

    opening: Detector
    absent: Detector
    delay_us: int
    agree: frozenset[str]
    waiting: list[Operand] = field(default_factory=list)
    there: list[Operand] = field(default_factory=list)

    def below(self) -> Sequence[Detector]:
        """What opens it, and what must not come."""
        return [self.opening, self.absent]

    def times(self) -> list[int]:
        """One for each opening that waits."""
        return [due(operand, self.delay_us) for operand in self.waiting]

    def step(self, step: Step) -> list[Operand]:
        """The openings whose time has come, if nothing absent came since."""
        self.waiting = self.fresh([*self.waiting, *self.opening.step(step)], step)
        self.there = self.fresh([*self.there, *self.absent.step(step)], step)
        ripe = [one for one in self.waiting if step.place is None and due(one, self.delay_us) <= step.time]
        self.waiting = [one for one in self.waiting if one not in ripe]
        lasting = [one for one in ripe if not any(self._came(one, absent, step) for absent in self.there)]
        return distinct(delayed(one, one.occ_time + self.delay_us, step) for one in lasting)

    def _came(self, opening: Operand, absent: Operand, step: Step) -> bool:
        between = opening.before(absent) and absent.end < step.point
        return between and self.setting.agree([opening, absent], self.agree)


@dataclass(eq=False)
class WindowNode(Node):
    """APERIODIC: a window opens, and stays open whatever takes place in it, until a closing."""

    pairing: Pairing
    opening: Detector
    middle: Detector
    closing: Detector
    terms: Terms
    open: list[Operand] = field(default_factory=list)

    def below(self) -> Sequence[Detector]:
        """What opens, what takes place, and what closes."""
        return [self.opening, self.middle, self.closing]

    def step(self, step: Step) -> list[Operand]:
        """Closings close first; then each middle goes with the open windows; then windows open."""
        openings, middles, closings = (node.step(step) for node in self.below())
        self.open = still_open(self.setting, self.pairing, self.fresh(self.open, step), closings, self.terms.agree)
        join = Join(self.setting, 2, self.terms, ordered=True)
        found: list[Operand] = []
        for middle in middles:
            self.open = self.young(self.open, middle, self.terms)
            made, _ = self.pairing.arrive(join, tuple(((0, one),) for one in self.open), 1, middle)
            found += [one for _, one in made]
        self.open += openings
        return distinct(found)


@dataclass(frozen=True, slots=True)
class _Pulsing:
    opening: Operand
    count: int = 1


@dataclass(eq=False)
class PulseNode(_Waiting):
    """PERIODIC: every opening has its own timers, until a closing."""

    pairing: Pairing
    opening: Detector
    period_us: int
    closing: Detector
    agree: frozenset[str]
    open: list[_Pulsing] = field(default_factory=list)

    def below(self) -> Sequence[Detector]:
        """What opens and what closes."""
        return [self.opening, self.closing]

    def times(self) -> list[int]:
        """The next one of each opening."""
        return [due(one.opening, one.count * self.period_us) for one in self.open]

    def step(self, step: Step) -> list[Operand]:
        """Closings close first; then the openings take place again, once for each time that has come."""
        openings, closings = self.opening.step(step), self.closing.step(step)
        fresh = self.fresh([one.opening for one in self.open], step)
        left = still_open(self.setting, self.pairing, fresh, closings, self.agree)
        self.open = [one for one in self.open if one.opening in left] + [_Pulsing(opening) for opening in openings]
        found: list[Operand] = []
        for index, one in enumerate(self.open):
            while step.place is None and due(one.opening, one.count * self.period_us) <= step.time:
                found.append(delayed(one.opening, one.opening.occ_time + one.count * self.period_us, step))
                one = replace(one, count=one.count + 1)
            self.open[index] = one
        return distinct(found)


def still_open(
    setting: Setting, pairing: Pairing, openings: list[Operand], closings: Sequence[Operand], agree: frozenset[str]
) -> list[Operand]:
    """The windows that are left after some closings, each of which closes what opened before it."""
    for closing in closings:
        fitting = [one for one in openings if one.before(closing) and setting.agree([one, closing], agree)]
        gone = pairing.closed(fitting)
        openings = [one for one in openings if one not in gone]
    return openings

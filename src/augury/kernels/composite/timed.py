"""Nodes that set timers, and windows.

In: new occurrences of the operands, and the timers that are due. Out: those of the node. A timer stands in the heap of
its key; what it needs is found again by the number of its window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from augury import limits
from augury.graphs.graph import AbsentForNode, AperiodicNode, PeriodicNode, PlusNode, Scope
from augury.kernels.composite.joins import Inputs, between, going
from augury.kernels.composite.occurrence import (
    NodeState,
    Now,
    Occ,
    Point,
    Timer,
    Window,
    conflict,
    later,
    merged,
    share,
    timer_point,
)
from augury.kernels.composite.protocol import Pairing
from augury.kernels.composite.scalars import Tests

SetTimer = Callable[[Point, int, Occ | None], int]
"""When, the number of the window (-1 for a new one, 0 for none), and the occurrence that set it if it has no window."""


def due_point(of: Occ, delay_us: int) -> Point:
    """When a timer is due that an occurrence sets: not before its detection."""
    return timer_point(max(of.occ_time + delay_us, of.det_time), of.end)


@dataclass(slots=True)
class PlusOp:
    """A timer after each operand."""

    node: PlusNode

    def empty(self) -> NodeState:
        """Nothing is kept but timers."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs, due: Sequence[Timer], set_timer: SetTimer) -> list[Occ]:
        """Set timers; what is due takes place."""
        delay = self.node.delay_us
        fires = [of for *_, of in due if of is not None and of.until >= now.tick]
        for one in inputs[0]:
            point = due_point(one, delay)
            if point == now.point:
                fires.append(one)
            else:
                set_timer(point, 0, one)
        return [later(one, now.point, one.occ_time + delay) for one in fires]


@dataclass(slots=True)
class AbsentForOp:
    """A timer after each operand, unless something comes between."""

    node: AbsentForNode
    tests: Tests

    def empty(self) -> NodeState:
        """Nothing waits."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs, due: Sequence[Timer], set_timer: SetTimer) -> list[Occ]:
        """Set timers; what is due takes place if nothing came."""
        state.purge(now.tick)
        delay = self.node.delay_us
        numbers = {number for _, _, _, number, _ in due}
        fires = [window.opening for window in state.windows if window.number in numbers]
        fires = [one for one in fires if not self._came(state, one, now.point)]
        state.windows = [window for window in state.windows if window.number not in numbers]
        for one in inputs[0]:
            point = due_point(one, delay)
            if point == now.point:
                fires.append(one)
            else:
                number = set_timer(point, -1, None)
                state.open_window(Window(number, one))
        for one in inputs[1]:
            state.keep(state.absent, one)
        if state.absent:
            first = min((window.opening.end for window in state.windows), default=None)
            state.absent = [] if first is None else [one for one in state.absent if one.start > first]
        return [later(one, now.point, one.occ_time + delay) for one in fires]

    def _came(self, state: NodeState, opening: Occ, due: Point) -> bool:
        there = [one for one in state.absent if opening.end < one.start and one.end < due]
        return any(self.tests.agree(self.node.scope, opening, one) for one in there)


@dataclass(slots=True)
class AperiodicOp:
    """What comes in windows."""

    node: AperiodicNode
    pairing: Pairing
    tests: Tests

    def empty(self) -> NodeState:
        """No window is open."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs, due: Sequence[Timer], set_timer: SetTimer) -> list[Occ]:
        """Close, then serve what comes between, then open."""
        state.purge(now.tick)
        openings, middles, closings = inputs
        found: list[Occ] = []
        used: list[Used] = []
        for closing in closings:
            # A closing that is no constituent is no operand that others could be too old for.
            if self.node.gathered:
                self._forget(state, closing)
            found += close(self.pairing, self.tests, self.node, state, closing, used)
        for middle in middles:
            self._forget(state, middle)
            if not _is_used(used, _MIDDLE, middle):
                found += self._between(state, middle)
        for opening in openings:
            if not _is_used(used, _OPENING, opening):
                if self.node.gathered:
                    self._forget(state, opening)
                state.open_window(Window(0, opening))
        if state.middles:
            first = min((window.opening.end for window in state.windows), default=None)
            state.middles = [] if first is None else [one for one in state.middles if one.start > first]
        return found

    def _forget(self, state: NodeState, arriving: Occ) -> None:
        within = self.node.scope.within_us
        if within is not None:
            state.drop_older(arriving.most - within)

    def _between(self, state: NodeState, middle: Occ) -> list[Occ]:
        if self.node.gathered:
            state.keep(state.middles, middle)
            return []
        fitting = [w for w in state.windows if w.opening.end < middle.start and not conflict(w.opening, middle)]

        def complete(windows: list[Window]) -> Occ | None:
            openings = going([window.opening for window in windows], [middle], self.node.scope, self.tests, None)
            made = merged([*openings, middle]) if openings else None
            return made if made is not None and self.tests.passes(self.node.scope, made) else None

        return self.pairing.windows(fitting, complete)


_OPENING, _MIDDLE, _CLOSING = range(3)
Used = tuple[int, Occ]
"""A slot and an operand of it that was used."""


def _is_used(used: Sequence[Used], slot: int, one: Occ) -> bool:
    """Whether an operand was used, or shares a version with one of another slot that was."""
    return any(by is one or (at != slot and share(by, one)) for at, by in used)


def close(
    pairing: Pairing,
    tests: Tests,
    node: AperiodicNode | PeriodicNode,
    state: NodeState,
    closing: Occ,
    used: list[Used],
) -> list[Occ]:
    """Close windows; what takes place then, if the node gathers, and is used up by it."""
    before = [window for window in state.windows if window.opening.end < closing.start]
    closed = pairing.closed([window for window in before if tests.agree(node.scope, window.opening, closing)])
    gone = set(map(id, closed))
    state.windows = [window for window in state.windows if id(window) not in gone]
    if not node.gathered:
        return []
    new: list[Used] = []

    def complete(windows: list[Window]) -> Occ | None:
        # A window takes part if something came in it; all openings are taken before what came between.
        fitting = [w.opening for w in windows if _came_between(node, state, w.opening, closing, tests)]
        openings = going(fitting, [closing], node.scope, tests, None)
        if not openings:
            return None
        middles: list[Occ] = []
        if isinstance(node, AperiodicNode):
            middles = _inside(state, openings, closing, node.scope, tests)
        made = merged([*openings, *middles, closing])
        if made is None or not tests.passes(node.scope, made):
            return None
        new.extend([*((_OPENING, one) for one in openings), *((_MIDDLE, one) for one in middles), (_CLOSING, closing)])
        return made

    found = pairing.windows(closed, complete)
    if new and pairing.uses_up:
        used += new
        state.middles = [one for one in state.middles if not _is_used(new, _MIDDLE, one)]
        state.windows = [w for w in state.windows if not _is_used(new, _OPENING, w.opening)]
    return found


def _came_between(
    node: AperiodicNode | PeriodicNode, state: NodeState, opening: Occ, closing: Occ, tests: Tests
) -> bool:
    """Whether there is anything to gather from an opening to a closing."""
    if conflict(opening, closing):
        return False
    if isinstance(node, PeriodicNode):
        # The first of the periods says whether any is before the closing.
        return due_point(opening, node.period_us) < closing.start
    return bool(_inside(state, [opening], closing, node.scope, tests))


def _inside(state: NodeState, openings: Sequence[Occ], closing: Occ, scope: Scope, tests: Tests) -> list[Occ]:
    """What came after one of the openings and before the closing, as far as it goes with them, oldest first."""
    first = min(opening.end for opening in openings)
    return going(between(state.middles, first, closing), [*openings, closing], scope, tests, None)


class TooManyPeriods(Exception):
    """PERIODIC would take place more often in one window than the limit allows."""


def require_few(window: Window, period_us: int, until_us: int) -> None:
    """Raise `TooManyPeriods` where a window has too many periods up to a time."""
    last = window.opening.occ_time + window.periods * period_us
    if (until_us - last) // period_us > limits.CLOCK_EVENTS_MAX:
        raise TooManyPeriods


@dataclass(slots=True)
class PeriodicOp:
    """Timers in windows."""

    node: PeriodicNode
    pairing: Pairing
    tests: Tests

    def empty(self) -> NodeState:
        """No window is open."""
        return NodeState([])

    def step(self, state: NodeState, now: Now, inputs: Inputs, due: Sequence[Timer], set_timer: SetTimer) -> list[Occ]:
        """Close, then let timers fire, then open."""
        state.purge(now.tick)
        openings, closings = inputs
        found: list[Occ] = []
        used: list[Used] = []
        within = self.node.scope.within_us
        for closing in closings:
            if within is not None and self.node.gathered:
                state.drop_older(closing.most - within)
            found += close(self.pairing, self.tests, self.node, state, closing, used)
        numbers = {number for _, _, _, number, _ in due}
        for window in state.windows:
            if window.number in numbers:
                found += self._periods(window, now, set_timer)
        for opening in openings:
            if _is_used(used, _OPENING, opening):
                continue
            if within is not None and self.node.gathered:
                state.drop_older(opening.most - within)
            window = Window(set_timer(self._next(opening, 1), -1, None), opening)
            state.open_window(window)
            if self._next(opening, 1) == now.point:
                found += self._periods(window, now, set_timer)
        return found

    def _next(self, opening: Occ, count: int) -> Point:
        return due_point(opening, count * self.node.period_us)

    def _periods(self, window: Window, now: Now, set_timer: SetTimer) -> list[Occ]:
        """Every period that has passed by now; those before a late detection come one after the other."""
        if self.node.gathered:
            return []  # it takes place at the closing, which needs no timer
        require_few(window, self.node.period_us, now.time)
        found = []
        while self._next(window.opening, window.periods + 1) == now.point:
            window.periods += 1
            occ_time = window.opening.occ_time + window.periods * self.node.period_us
            found.append(later(window.opening, now.point, occ_time))
        set_timer(self._next(window.opening, window.periods + 1), window.number, None)
        return found

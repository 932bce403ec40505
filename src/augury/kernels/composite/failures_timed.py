"""Why nodes with timers and windows did not take place at a step, in the contexts that work node by node.

In: a place in the history of a key, and a node. Out: the operand to blame, and a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from augury.clock import show_duration, show_time
from augury.graphs import graph as g
from augury.kernels.composite.occurrence import Occ, conflict, now_at
from augury.kernels.composite.telling import GONE, SHARED, Asked, Failure, furthest
from augury.kernels.composite.timed import due_point

if TYPE_CHECKING:
    from augury.kernels.composite.failures import NodeByNode

_TRIED = 32


def plus(asked: NodeByNode, number: int, node: g.PlusNode) -> Failure:
    """A timer after each operand."""
    started = asked.earlier(node.operand)
    if not started:
        return asked.missing(node.operand)
    return by_the_clock(asked, number, node.operand, started[0], node.delay_us)


def absent_for(asked: NodeByNode, number: int, node: g.AbsentForNode) -> Failure:
    """A timer after each operand, if nothing came between."""
    started = asked.earlier(node.operand)
    if not started:
        return asked.missing(node.operand)
    opening = started[0]
    due = min(due_point(opening, node.delay_us), asked.point)
    agree = asked.past.detector.tests.agree
    for b in asked.earlier(node.absent):
        if opening.end < b.start and b.end <= due and (not node.scope.equal or agree(node.scope, opening, b)):
            return came_after(asked, number, node, opening, b)
    return by_the_clock(asked, number, node.operand, opening, node.delay_us)


def came_after(asked: Asked, number: int, node: g.AbsentForNode, opening: Occ, b: Occ) -> Failure:
    """What should have stayed away."""
    due = due_point(opening, node.delay_us)[0]
    after = f"after {asked.named(node.operand, opening)} and before {show_time(due)}"
    return asked.blame_absent(number, node.absent, f"{asked.named(node.absent, b)} came {after}")


def by_the_clock(asked: Asked, number: int, operand: int, opening: Occ, delay_us: int) -> Failure:
    """What the clock completes: it is due later, or it was, or the opening was gone by then."""
    due = due_point(opening, delay_us)
    name = asked.named(operand, opening)
    if due > asked.point:
        when = f"is due at {show_time(due[0])}, {show_duration(delay_us)} after {name}"
    elif opening.until < now_at(due, asked.past.chronon_us).tick:
        when = f"had {name} expire at {show_time(opening.until)}, before it was due"
    else:
        when = f"was due at {show_time(due[0])}, {show_duration(delay_us)} after {name}, and not at {asked.here}"
    return asked.blame(number, f"{asked.text(number)} takes place by the clock: it {when}")


# ---- windows -------------------------------------------------------------------------------------


def aperiodic(asked: NodeByNode, number: int, node: g.AperiodicNode) -> Failure:
    """What comes in windows, or all of it at the closing."""
    last = node.closing if node.gathered else node.middle
    arrived = asked.at_step(last)
    if not arrived:
        return asked.failure(last)
    openings = asked.earlier(node.opening)
    if not openings:
        return asked.missing(node.opening)
    return furthest(
        _in_window(asked, number, node, opening, (last, one)) for one in arrived for opening in openings[:_TRIED]
    )


def _in_window(
    asked: NodeByNode,
    number: int,
    node: g.AperiodicNode | g.PeriodicNode,
    opening: Occ,
    arrived: tuple[int, Occ],
) -> Failure:
    last, one = arrived
    names = [asked.named(node.opening, opening), asked.named(last, one)]
    if opening.end >= one.start:
        return replace(asked.blame(node.opening, f"{names[0]} is not before {names[1]}"), near=number)
    if conflict(opening, one):
        return asked.blame(node.opening, f"{names[0]} and {names[1]} have an event in common", SHARED)
    if (failure := not_open(asked, number, node, opening)) is not None:
        # What WITHIN has dropped is said with the two that are too far apart.
        return (
            failure
            if failure.part != asked.text(node.opening)
            else asked.too_long(number, node.scope, names, [opening, one]) or failure
        )
    occs = [opening, one]
    if node.gathered and isinstance(node, g.AperiodicNode):
        inside = [m for m in asked.trace.found[node.middle] if opening.end < m.start and m.end < one.start]
        inside = [m for m in inside if m.until >= asked.tick]
        if not inside:
            sentence = f"no {asked.text(node.middle)} took place between {names[0]} and {names[1]}"
            return replace(asked.blame(node.middle, sentence, SHARED), near=number)
        names.insert(1, asked.named(node.middle, inside[-1]))
        occs.insert(1, inside[-1])
    scoped = asked.too_long(number, node.scope, names, occs) or asked.untrue(number, node.scope, names, occs)
    return scoped or asked.blame(number, f"{' and '.join(names)} do not go together")


def not_open(asked: NodeByNode, number: int, node: g.AperiodicNode | g.PeriodicNode, opening: Occ) -> Failure | None:
    """Why the window of an opening is open no more."""
    name = asked.named(node.opening, opening)
    if opening.until < asked.tick:
        return asked.expired(number, node.opening, opening)
    # A closing that gathers is what the window waits for; any other comes before what is in the window.
    state = asked.before if node.gathered else asked.trace.state
    if any(window.opening is opening for window in state.nodes[number].windows):
        return None
    if (failure := asked.used(number, node.opening, opening)) is not None and node.gathered:
        return failure
    point = asked.closed.get(id(opening))
    closings = [one for one in asked.trace.found[node.closing] if one.end == point and opening.end < one.start]
    if closings:
        closing = asked.named(node.closing, closings[0])
        return replace(asked.blame(node.closing, f"{closing} closed the window of {name}", GONE), near=number)
    return asked.let_go(number, node.opening, opening, node.scope)


def periodic(asked: NodeByNode, number: int, node: g.PeriodicNode) -> Failure:
    """Timers in windows, or once, at the closing, if there was one."""
    openings = asked.earlier(node.opening)
    if node.gathered:
        arrived = asked.at_step(node.closing)
        if not arrived:
            return asked.failure(node.closing)
        if not openings:
            return asked.missing(node.opening)
        return furthest(
            _gathered(asked, number, node, opening, one) for one in arrived for opening in openings[:_TRIED]
        )
    if not openings:
        return asked.missing(node.opening)
    opening = openings[0]
    if not asked.is_here(opening) and (failure := not_open(asked, number, node, opening)) is not None:
        return failure
    return next_period(asked, number, node, opening)


def _gathered(asked: NodeByNode, number: int, node: g.PeriodicNode, opening: Occ, closing: Occ) -> Failure:
    first = due_point(opening, node.period_us)
    if opening.end < closing.start <= first and not_open(asked, number, node, opening) is None:
        names = f"{asked.named(node.opening, opening)} and {asked.named(node.closing, closing)}"
        sentence = f"between {names} no period of {show_duration(node.period_us)} passed"
        return asked.blame(number, sentence, SHARED)
    return _in_window(asked, number, node, opening, (node.closing, closing))


def next_period(asked: Asked, number: int, node: g.PeriodicNode, opening: Occ) -> Failure:
    """When a window has its next time."""
    count = max(0, (asked.point[0] - opening.occ_time) // node.period_us) + 1
    while count > 1 and due_point(opening, (count - 1) * node.period_us) > asked.point:
        count -= 1
    due = show_time(due_point(opening, count * node.period_us)[0])
    name = asked.named(node.opening, opening)
    return asked.blame(number, f"{asked.text(number)} takes place by the clock: next at {due}, after {name}")

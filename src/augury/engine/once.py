"""Whether a replay may take a whole history in one step, because no tick would make a difference.

In: a program, and for which classes withdrawals came. Out: yes or no. What goes version by version (MATCH, COMPOSITE)
needs no ticks; SELECTs and conditions do, and so does everything for which it matters when an event expires, if that
depends on what else is there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.event import ClassKind, EventClass, key_of


def goes_in_one_step(program: Program, withdrawn: Iterable[str]) -> bool:
    """Whether all that a program says over a history is the same if nothing waits for a tick."""
    if any(isinstance(plan.derivation, SelectPlan) or plan.statements for plan in program.classes):
        return False
    gone = {key_of(name) for name in withdrawn}
    classes = [plan.event_class for plan in program.classes]
    received = [one for one in classes if one.kind is not ClassKind.COMPLEX]
    derived = {key_of(one.name): one for one in classes if one.kind is ClassKind.COMPLEX}
    joined = _read_or_reading(program, derived)
    if derived and any(_is_refused_by_what_lives(one, gone) for one in received):
        # A complex event may keep what it is made of, and so have later versions refused, or withdrawals accepted.
        return False
    # Whether an occurrence announces or changes depends on when the one before it expires.
    expiring = {name for name, one in derived.items() if _may_expire(one)}
    return not expiring or (joined.isdisjoint(expiring) and not any(map(_may_expire, received)))


def _read_or_reading(program: Program, derived: Container[str]) -> set[str]:
    """The complex classes that are built on others, or have others built on them."""
    found: set[str] = set()
    for plan in program.classes:
        below = {key_of(name) for name in plan.reads if key_of(name) in derived}
        if below:
            found |= {key_of(plan.event_class.name), *below}
    return found


def _may_expire(event_class: EventClass) -> bool:
    """Whether a later version may find its event gone."""
    return bool(event_class.key) and event_class.lifespan_us is not None


def _is_refused_by_what_lives(event_class: EventClass, gone: set[str]) -> bool:
    return _may_expire(event_class) and (not event_class.mutable or key_of(event_class.name) in gone)

"""Whether a replay may take a whole history in one step, because no tick would make a difference.

In: a program, and for which classes withdrawals came. Out: yes or no. What goes version by version (MATCH, COMPOSITE)
needs no ticks; SELECTs, conditions and triggers do, and so does everything for which it matters when an event expires,
if that depends on what else is there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.event import ClassKind, EventClass, key_of


def goes_in_one_step(program: Program, withdrawn: Iterable[str]) -> bool:
    """Whether all that a program says over a history is the same if nothing waits for a tick."""
    return not waits_for_ticks(program, withdrawn)


def waits_for_ticks(program: Program, withdrawn: Iterable[str]) -> str:
    """Why a history has to be gone through tick by tick; nothing if it has not."""
    if program.triggers:
        return f"the trigger `{program.triggers[0].name}` fires version by version"
    for plan in program.classes:
        if getattr(plan.derivation, "by_occurrence", None) is not None:
            return f"what `{plan.event_class.name}` says changes with every late version"
        if isinstance(plan.derivation, SelectPlan):
            return f"the SELECT of `{plan.event_class.name}` is evaluated at ticks"
        if plan.statements:
            return f"conditions of `{plan.event_class.name}` are looked at at ticks"
    gone = {key_of(name) for name in withdrawn}
    classes = [plan.event_class for plan in program.classes]
    received = [one for one in classes if one.kind is not ClassKind.COMPLEX]
    derived = {key_of(one.name): one for one in classes if one.kind is ClassKind.COMPLEX}
    kept = next((one for one in received if _is_refused_by_what_lives(one, gone)), None)
    if derived and kept is not None:
        # A complex event may keep what it is made of, and so have later versions refused, or withdrawals accepted.
        return f"how long an event of `{kept.name}` lives depends on what is built on it"
    # Whether an occurrence announces or changes depends on when the one before it expires.
    expiring = {name: one for name, one in derived.items() if _may_expire(one)}
    together = [expiring[name] for name in expiring if name in _read_or_reading(program, derived)]
    if expiring and any(_may_go(one, gone) for one in received):
        together = [*expiring.values()]
    return f"how long an event of `{together[0].name}` lives depends on what it is made of" if together else ""


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


def _may_go(event_class: EventClass, gone: set[str]) -> bool:
    """Whether an event may leave that a complex event has kept, or that has kept it."""
    return _may_expire(event_class) or (bool(event_class.key) and key_of(event_class.name) in gone)


def _is_refused_by_what_lives(event_class: EventClass, gone: set[str]) -> bool:
    return _may_expire(event_class) and (not event_class.mutable or key_of(event_class.name) in gone)

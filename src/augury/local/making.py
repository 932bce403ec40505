"""A class and values by name → an event to be posted; whoever names a class that cannot be posted is told at once.

In: a program, the name of a class, and a way to look values up. Out: events as mappings. It posts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.event import ClassKind, EventClass, key_of

TOLD_BY_NAME: Final = ("event_id", "occ_time", "det_time")
"""What an event may say besides its attributes; left out where the value is None."""


class NotBound(TypeError):
    """A class that cannot be posted, or values that can be no event of it; the message says what to write instead."""


class Missing:
    """No value of that name."""


MISSING: Final = Missing()
Find = Callable[[str], Any]
"""The value of a name, without regard to case, or MISSING."""


def posted_class(program: Program, name: str, where: str) -> EventClass:
    """The subscribed class of that name; raises `NotBound`, which says `where` it was named."""
    plan = program.class_plan(name)
    if plan is not None and plan.event_class.kind is ClassKind.SUBSCRIBED:
        return plan.event_class
    names = [p.event_class.name for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED]
    there = f"there is {', '.join(names)}" if names else "the program has no subscribed class"
    if plan is not None:
        by_whom = "posted by the clock" if plan.event_class.kind is ClassKind.CLOCK else "derived, not posted"
        raise NotBound(
            f"{where}: `{plan.event_class.name}` is a {plan.event_class.kind} class: its events are {by_whom}; {there}"
        )
    meant = closest(name, names)
    raise NotBound(f"{where}: there is no event class `{name}`; " + (f"did you mean `{meant}`?" if meant else there))


def made(event_class: EventClass, find: Find, where: str) -> dict[str, Any]:
    """An event of the class: what is found by the names of its attributes, and NULL for the rest.

    Raises `NotBound` if an attribute of the key is missing: no event could be told from another.
    """
    event: dict[str, Any] = {"event": event_class.name}
    for name in TOLD_BY_NAME:
        value = find(name)
        if value is not MISSING and value is not None:
            event[name] = value
    for attribute in event_class.attributes:
        value = find(attribute.name)
        event[attribute.name] = None if value is MISSING else value
    for name in event_class.key:
        if find(name) is MISSING:
            raise NotBound(lacking(event_class, name, where))
    return event


def lacking(event_class: EventClass, name: str, where: str) -> str:
    """What is wrong if nothing has the value of a key."""
    return (
        f"{where}: nothing is called `{name}`, which is the key of `{event_class.name}`; "
        f"name an argument or an attribute of the object so"
    )


def in_mapping(values: Mapping[str, Any]) -> Find:
    """Looks values up in a mapping."""
    folded = {key_of(name): value for name, value in values.items()}
    return lambda name: folded.get(key_of(name), MISSING)

"""Conditions and actions: when a condition is looked at, what it remembers, and the actions of a tick (section 5).

In: what conditions remember of each event, and the events that a tick read or at which time has come. Out: the
actions of the tick in order, and what is to be remembered for the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from augury.algebra.program import ClassPlan
from augury.algebra.rule import ConditionAction
from augury.algebra.scalar import Timing, TimingPrimitive, Value, walk
from augury.event import key_of
from augury.kernels.reference.bitemporal.conditions import is_true_at, value_at
from augury.kernels.reference.bitemporal.timing import Moment, is_due, is_settled_now
from augury.kernels.reference.bitemporal.version import EventId, Version, ranks


@dataclass(frozen=True, slots=True)
class Action:
    """A row: what is to be done, for which version, at which tick, by which statement of the class."""

    tick: int
    name: str
    arguments: tuple[Value, ...]
    version: Version
    statement: int
    place: int


@dataclass(frozen=True, slots=True)
class Course:
    """What conditions remember of an event that is there.

    `old` and `new` are the versions they see; `done` holds the statements that fired for `new`.
    """

    old: Version | None
    new: Version
    is_settled: bool
    fired: frozenset[str]
    done: frozenset[int]


Courses = Mapping[EventId, Course]


def decide(
    plans: Sequence[ClassPlan],
    courses: Courses,
    before: Mapping[EventId, Version],
    arrived: Mapping[EventId, Version],
    tick: int,
    chronon_us: int,
) -> tuple[list[Action], dict[EventId, Course]]:
    """The actions of a tick by class, key, statement; and the courses after it.

    `before`: the events that were there before the tick, as they were; `arrived`: the last version of each event that
    the tick has read or derived.
    """
    declared = {plan.event_class.name: place for place, plan in enumerate(plans)}
    actions: list[Action] = []
    after: dict[EventId, Course] = {}
    for event in sorted({*courses, *arrived}, key=lambda event: (declared[event[0]], ranks(event[1]))):
        plan = plans[declared[event[0]]]
        is_read = event in arrived
        course = _turned(courses.get(event), before.get(event), arrived[event], tick) if is_read else courses[event]
        at = Moment(tick, chronon_us, course.old, course.new, is_read, course.is_settled, course.fired)
        found = list(_fired(plan, at, course.done)) if is_read or is_due(course.new, tick, chronon_us) else []
        actions.extend(found)
        if course.new.occ_time is not None:
            after[event] = replace(
                course,
                is_settled=course.is_settled or is_settled_now(at),
                fired=course.fired | {key_of(action.name) for action in found},
                done=course.done | {action.statement for action in found},
            )
    return actions, after


def _turned(course: Course | None, old: Version | None, new: Version, tick: int) -> Course:
    """The course of an event that a version arrives for; an event that was not there begins anew."""
    if old is None or course is None:
        return Course(None, new, is_settled=False, fired=frozenset(), done=frozenset())
    assert old.occ_time is not None
    is_postponed = old.occ_time < tick and new.occ_time is not None and new.occ_time >= tick
    return Course(old, new, course.is_settled and not is_postponed, course.fired, done=frozenset())


def _fired(plan: ClassPlan, at: Moment, done: frozenset[int]) -> Iterator[Action]:
    for number, statement in enumerate(plan.statements, 1):
        if not at.is_read and not mentions_ontime(statement):
            continue
        for place, call in enumerate(statement.actions, 1):
            name = key_of(call.name)
            if number not in done and is_true_at(statement.condition, plan.event_class, at, name):
                arguments = tuple(value_at(argument, plan.event_class, at, name) for argument in call.arguments)
                yield Action(at.tick, call.name, arguments, at.new, number, place)


def mentions_ontime(statement: ConditionAction) -> bool:
    """Whether ONTIME stands in the condition, so that it is looked at when the current version is on time."""
    return any(
        isinstance(node, Timing) and node.primitive is TimingPrimitive.ONTIME for node in walk(statement.condition)
    )

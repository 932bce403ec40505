"""What the statements of a class look at, found once: attributes of OLD, timers, the names FIRED asks for.

In: an event class and its condition-action statements. Out: a `Watch`. It knows no event.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.algebra.rule import ConditionAction
from augury.algebra.scalar import Field, Scalar, Timing, TimingPrimitive, dump, walk
from augury.event import TIME_ATTRIBUTES, EventClass, key_of


@dataclass(frozen=True, slots=True)
class Watched:
    """A statement; `timed` if ONTIME stands in its condition, `asks_fired` if FIRED does."""

    statement: ConditionAction
    timed: bool
    asks_fired: bool

    @property
    def said(self) -> tuple[str, tuple[tuple[str, ...], ...]]:
        """What the statement says, wherever it stands and however it is written."""
        actions = ((key_of(a.name), *map(dump, a.arguments)) for a in self.statement.actions)
        return dump(self.statement.condition), tuple(actions)


@dataclass(frozen=True, slots=True)
class Watch:
    """The statements of a class in their order, and what an as-of-now view has to keep for them.

    `old` are the attributes of OLD that a tick hands to the conditions; `kept_old` those of them that are asked for
    again when NEW is on time, at a later tick. `fired` are the names of actions that FIRED asks about, by `key_of`.
    """

    event_class: EventClass
    statements: tuple[Watched, ...]
    old: tuple[str, ...]
    kept_old: tuple[str, ...]
    fired: tuple[str, ...]

    @property
    def timed(self) -> tuple[int, ...]:
        """The statements that are looked at also when a version is on time."""
        return tuple(place for place, watched in enumerate(self.statements) if watched.timed)


def watch(event_class: EventClass, statements: tuple[ConditionAction, ...]) -> Watch:
    """What these statements of a class look at."""
    watched = tuple(
        Watched(one, _stands(TimingPrimitive.ONTIME, one), _stands(TimingPrimitive.FIRED, one)) for one in statements
    )
    return Watch(
        event_class,
        watched,
        _old_attributes(event_class, statements),
        _old_attributes(event_class, tuple(one.statement for one in watched if one.timed)),
        tuple(dict.fromkeys(key_of(a.name) for one in watched if one.asks_fired for a in one.statement.actions)),
    )


def _stands(primitive: TimingPrimitive, statement: ConditionAction) -> bool:
    return any(isinstance(node, Timing) and node.primitive is primitive for node in walk(statement.condition))


def scalars(statement: ConditionAction) -> tuple[Scalar, ...]:
    """The condition and all arguments."""
    return (statement.condition, *(argument for action in statement.actions for argument in action.arguments))


def _old_attributes(event_class: EventClass, statements: tuple[ConditionAction, ...]) -> tuple[str, ...]:
    nodes = [node for one in statements for scalar in scalars(one) for node in walk(scalar)]
    asked = {node.name for node in nodes if isinstance(node, Field) and node.scope == "OLD"}
    times = set(TIME_ATTRIBUTES.values())
    return tuple(a.name for a in event_class.attributes if a.name in asked and a.name not in times)

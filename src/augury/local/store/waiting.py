"""What an outbox tells and is told, as plain values: actions that wait, what became of them, and which are asked for.

In: nothing. Out: values. Nothing here knows a database, or how an action is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_KEY: Final = "{}"
"""The key of an event whose class has `ID ()`."""


class State(StrEnum):
    """What has become of an action."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Waiting:
    """An action that waits, as the outbox has it: `arguments` and `key` are JSON, `tick` microseconds of the epoch.

    What a rule did has the names of the rule and of the trigger that fired.
    """

    id: int
    idempotency_key: str
    action: str
    arguments: str
    event: str
    key: str
    tick: int
    seq: int | None
    attempts: int = 0
    trigger: str | None = None
    rule: str | None = None

    @property
    def event_known_by(self) -> tuple[str | int | None, ...]:
        """Equal for actions of one event, which are carried out one after the other.

        An event without a key is known by the version that fired; of a SELECT class, whose rows have no `seq`, those of
        one tick stay in order.
        """
        return (self.event, self.key) if self.key != NO_KEY else (self.event, self.key, self.tick, self.seq)


@dataclass(frozen=True, slots=True)
class Noted:
    """What became of an action when it was last tried; one that waits again says until when."""

    waiting: Waiting
    state: State
    attempts: int
    reason: str
    tried_at: int
    next_at: int | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """What there is to do: the last action of the outbox, names of actions that wait, and when tries are due again."""

    last_id: int
    names: tuple[str, ...]
    due: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Known:
    """The actions that somebody carries out, by name, and the last id up to which it is known that there are no others.

    What came later is left alone: it might be preceded by an action of a name that nobody has looked for yet.
    """

    names: tuple[str, ...]
    last_id: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the actions of a name: those that may go now, and how far it has been looked; None is to the end."""

    free: Sequence[Waiting]
    looked_to: int | None


@dataclass(frozen=True, slots=True)
class Listed:
    """An action with all that is known of it."""

    action: Waiting
    state: State
    reason: str
    tried_at: int | None
    next_at: int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which actions are asked for; what is left empty does not matter."""

    states: tuple[State, ...] = ()
    action: str | None = None
    event: str | None = None
    keys: tuple[str, ...] = ()

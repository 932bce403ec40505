"""The nouns: what a trigger does when it fires, and what may be changed while the system runs.

Times are microseconds since the epoch; values stand in the order in which they are declared. They know no history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from augury.algebra.program import Program
from augury.algebra.scalar import Value

Functions = Mapping[str, Callable[..., Value]]
"""What actions do at once, by name without regard to case; an action that is not named here gives nothing back."""


class RuleFailed(Exception):
    """What an action could not do; the message says why."""


class Refusal(StrEnum):
    """Why an event that a rule posts does not become a version."""

    DUPLICATE = "duplicate"
    IMMUTABLE = "immutable"
    UNFIT = "unfit"
    NO_KEY = "no key"
    TOO_DEEP = "too deep"


class Outcome(StrEnum):
    """What became of a rule of a structure."""

    HELD = "held"
    NOT_HELD = "not held"
    DISABLED = "disabled"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Done:
    """An action: what it gave back; `failure` says why it could not be done."""

    name: str
    arguments: tuple[Value, ...]
    value: Value = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """An event that a rule posts, and the `seq` of the version it became; neither that nor a refusal: it was not read.

    The version has `det_time` as both its times.
    """

    event_class: str
    values: tuple[Value, ...]
    det_time: int
    seq: int | None = None
    refused: Refusal | None = None


Deed = Done | Posted


@dataclass(frozen=True, slots=True)
class Call:
    """A rule of a structure; arguments and deeds are empty unless it ran. `value` is that of its last action."""

    rule: str
    outcome: Outcome
    arguments: tuple[Value, ...] = ()
    deeds: tuple[Deed, ...] = ()
    value: Value = None

    @property
    def failed(self) -> bool:
        """Whether one of its actions could not be done."""
        return any(isinstance(deed, Done) and deed.failure is not None for deed in self.deeds)


@dataclass(frozen=True, slots=True)
class Firing:
    """A trigger that fired: at which event, with which occurrence, and what its rules did, as the structure has them.

    `event_class` is None where the clock completed the occurrence, and `seq` where no version was read there;
    `constituents` are `seq` numbers, ascending. `returned` is the value of the RETURNS rule.
    """

    trigger: str
    event_class: str | None
    seq: int | None
    det_time: int
    now: int
    constituents: tuple[int, ...]
    parameters: tuple[Value, ...]
    calls: tuple[Call, ...]
    returned: Value = None


# ---- while the system runs ------------------------------------------------------------------------


class Switched(StrEnum):
    """What can be enabled and disabled; a class that is off takes no events."""

    RULE = "rule"
    GROUP = "group"
    TRIGGER = "trigger"
    CLASS = "class"


@dataclass(frozen=True, slots=True)
class Switch:
    """From a time on something is enabled or disabled; it comes before all that is detected then."""

    at: int
    kind: Switched
    name: str
    on: bool


@dataclass(frozen=True, slots=True)
class Turned:
    """A switch as an engine made it: after the version of a `seq`, when time had gone so far (None: it had not begun).

    It comes before all later versions, and before what the clock does after that time.
    """

    after_seq: int
    after_us: int | None
    kind: Switched
    name: str
    on: bool


@dataclass(frozen=True, slots=True)
class Revision:
    """From a time on the rules, groups and triggers are those of another program with the same classes."""

    at: int
    program: Program


Turn = Switch | Revision

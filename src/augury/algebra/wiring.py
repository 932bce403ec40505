"""How a program is joined to the world: which executor carries out an action (BIND), where events come from (DETECT).

Plain values with spans for diagnostics; `wiring_forms` says what each kind takes. Nothing here opens, asks or sends
anything; `actions` and `detectors` do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from augury.diagnostics import Span


class ExecutorKind(StrEnum):
    """What can carry out an action."""

    LOG = "LOG"
    PYTHON = "PYTHON"
    COMMAND = "COMMAND"
    WEBHOOK = "WEBHOOK"
    EVENT = "EVENT"
    SQL = "SQL"
    MAIL = "MAIL"
    KAFKA = "KAFKA"
    NATS = "NATS"
    MQTT = "MQTT"


class SourceKind(StrEnum):
    """What a detector looks at."""

    FILE = "FILE"
    DIRECTORY = "DIRECTORY"
    HTTP = "HTTP"
    HTML = "HTML"
    FEED = "FEED"
    SQL = "SQL"
    NATS = "NATS"
    MQTT = "MQTT"
    PYTHON = "PYTHON"


class Forward(StrEnum):
    """What a detector's buffer lets through: all that it sees, or only what is new or has changed."""

    ALL = "ALL"
    CHANGED = "CHANGED"


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """A value that is read from an environment variable when the program starts: secrets stay out of programs."""

    variable: str


@dataclass(frozen=True, slots=True)
class Length:
    """A duration."""

    microseconds: int


Setting = str | int | float | bool | Length | FromEnvironment
"""What an option may be set to."""

Settings = tuple[tuple[str, Setting], ...]
"""What WITH says, by lower-case name; what follows `form_` is as it was written, for pages tell cases apart."""


@dataclass(frozen=True, slots=True)
class Binding:
    """`BIND action TO KIND target … WITH (…)`: what carries out the actions of a name.

    `target` is what the kind takes: a URL, the words of a command, `module:function`, a topic, an address; of EVENT the
    class. Actions are matched without regard to case (`event.key_of`); `action` is spelled as where it is done.
    """

    action: str
    kind: ExecutorKind
    target: tuple[str | FromEnvironment, ...] = ()
    settings: Settings = ()
    span: Span = field(default=Span(0, 0), compare=False)


@dataclass(frozen=True, slots=True)
class Detection:
    """`DETECT Class FROM KIND source EVERY d …`: where events of a class come from.

    `every_us` is None for what is followed, not polled. `items` says where the events are in what is read, `fields`
    where the attributes (and `occ_time`, `det_time`, `event_id`) are in an item: paths of JSON, or CSS or XPath.
    Without `fields` an item has them by their names. `next_page` is where the next page is linked. With `withdraws` an
    item that has vanished is withdrawn. `name` is unique in the program: its class, or what `AS name` says.
    """

    name: str
    event_class: str
    kind: SourceKind
    source: str | FromEnvironment
    every_us: int | None = None
    items: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    next_page: str | None = None
    forward: Forward = Forward.ALL
    withdraws: bool = False
    settings: Settings = ()
    span: Span = field(default=Span(0, 0), compare=False)

"""The shared nouns: event classes and their attributes.

Names are matched without regard to case; `key_of` is how. Nothing here knows how classes are written or derived.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from augury.diagnostics import NOWHERE, Span
from augury.types import Timestamp, Type

TIME_ATTRIBUTES = {
    "occtime": "occ_time",
    "occ_time": "occ_time",
    "dettime": "det_time",
    "det_time": "det_time",
}
"""The spellings of the two times that every version has, and what they are called inside."""

RESERVED_ATTRIBUTES = frozenset({"event", "event_id", "occ_time", "det_time", "seq", "change", "constituents"})
"""Names with a meaning of their own in events as JSON."""


class ClassKind(StrEnum):
    """Where the events of a class come from."""

    SUBSCRIBED = "subscribed"
    COMPLEX = "complex"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Attribute:
    """A named, typed value of every event of a class."""

    name: str
    type: Type
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class EventClass:
    """A class of events; `lifespan_us` is None for one whose events never expire."""

    name: str
    kind: ClassKind
    mutable: bool
    attributes: tuple[Attribute, ...]
    key: tuple[str, ...]
    lifespan_us: int | None
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    _by_key: Mapping[str, Attribute] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Note the attributes by their names; of two with one name the first counts."""
        times = {key: Attribute(name, Timestamp()) for key, name in TIME_ATTRIBUTES.items()}
        found = {key_of(attribute.name): attribute for attribute in reversed(self.attributes)}
        object.__setattr__(self, "_by_key", {**found, **times})

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of that name, occ_time and det_time among them."""
        return self._by_key.get(key_of(name))


def key_of(name: str) -> str:
    """What a name is matched by."""
    return name.casefold()

"""What a server answers, as types. Values of events are plain: numbers with a point are decimals, times are ISO text.

In: JSON. Out: frozen values; what a newer server says besides is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Final, TypeVar

from augury.client.problems import diagnostic_of
from augury.diagnostics import Diagnostic

T = TypeVar("T")
Row = Mapping[str, Any]

DECODER: Final = json.JSONDecoder(parse_float=Decimal)
"""Numbers keep their digits."""


def made(kind: type[T], row: Row) -> T:
    """A value of a type from the members of its names."""
    return kind(**{field.name: row[field.name] for field in fields(kind) if field.name in row})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that is none: which of those that were posted, counted from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """How many events are durable, and which are refused; of many refusals the first are told."""

    accepted: int
    refused: tuple[Refused, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """A rule that failed, and why."""

    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fired:
    """A trigger that fired: its how-manieth firing it is, at which event, with which constituents.

    A rule that failed gives nothing back, and is among `failed`; a server that is older tells of none.
    """

    trigger: str
    number: int
    event: str
    key: Row
    seq: int | None
    constituents: tuple[int, ...]
    parameters: Row
    returned: Any
    failed: tuple[Failed, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an event, as `LocalEngine.notify` says it."""

    place: int | None
    seq: int | None
    refused: str | None
    is_absorbed: bool
    firings: tuple[Fired, ...]
    returned: Mapping[str, Any]
    occurrences: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A name with its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """An event class; `lifespan` is None for one whose events never expire. One that is not `enabled` takes none."""

    name: str
    kind: str
    enabled: bool
    mutable: bool
    attributes: tuple[Named, ...]
    key: tuple[str, ...]
    lifespan: str | None
    reads: tuple[str, ...]
    derivation: str


@dataclass(frozen=True, slots=True)
class TriggerInfo:
    """A trigger, and its text as `augury explain` shows it."""

    name: str
    enabled: bool
    parameters: tuple[Named, ...]
    events: tuple[str, ...]
    returns: str | None
    text: str


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """A rule, and its text as `augury explain` shows it; `enabled` is its own switch, whatever its groups say."""

    name: str
    enabled: bool
    parameters: tuple[Named, ...]
    groups: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group of rules."""

    name: str
    enabled: bool
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checked:
    """What is wrong with a program."""

    ok: bool
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one thing of a program, and of what is remembered of it; `why` says why not all of it stays."""

    kind: str
    name: str
    what: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What a change of program does, or would do; `replays`: the history is gone over again for it."""

    changes: tuple[Change, ...]
    replays: bool
    lines: tuple[str, ...]
    """The same for people."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether a server takes events, and if not why."""

    ready: bool
    reason: str | None


def accepted_of(row: Row, before: int = 0) -> Accepted:
    """What was said of several events, the first of which is the one after `before`."""
    refused = tuple(Refused(before + one["line"], one["reason"]) for one in row["refused"])
    return Accepted(row["accepted"], refused)


def answer_of(row: Row) -> Answer:
    """What was said of an event that was waited for."""
    firings = tuple(_fired(one) for one in row["firings"])
    told = (row["place"], row["seq"], row["refused"], row["absorbed"])
    return Answer(*told, firings, row["returned"], tuple(row["occurrences"]))


def _fired(row: Row) -> Fired:
    failed = tuple(made(Failed, one) for one in row.get("failed", ()))
    return made(Fired, {**row, "constituents": tuple(row["constituents"]), "failed": failed})


def class_of(row: Row) -> ClassInfo:
    """A class."""
    lists = {name: tuple(row[name]) for name in ("key", "reads")}
    return made(ClassInfo, {**row, **lists, "attributes": _named(row["attributes"])})


def trigger_of(row: Row) -> TriggerInfo:
    """A trigger."""
    return made(TriggerInfo, {**row, "events": tuple(row["events"]), "parameters": _named(row["parameters"])})


def rule_of(row: Row) -> RuleInfo:
    """A rule."""
    return made(RuleInfo, {**row, "groups": tuple(row["groups"]), "parameters": _named(row["parameters"])})


def group_of(row: Row) -> GroupInfo:
    """A group of rules."""
    return made(GroupInfo, {**row, "rules": tuple(row["rules"])})


def checked_of(row: Row) -> Checked:
    """What is wrong with a program."""
    return Checked(row["ok"], tuple(map(diagnostic_of, row["diagnostics"])))


def changes_of(row: Row) -> Changes:
    """What a change of program does."""
    return Changes(tuple(made(Change, one) for one in row["changes"]), row["replays"], tuple(row["lines"]))


def _named(rows: list[Row]) -> tuple[Named, ...]:
    return tuple(made(Named, row) for row in rows)

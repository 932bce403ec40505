"""What a simulation shows of a tick, as plain values, and as JSON with field names that stay.

In: nothing; `simulate` makes them. Out: values that every printer shares. They know no engine and no terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from augury.algebra.scalar import Constant
from augury.clock import show_time
from augury.engine.ticked import Action
from augury.history.raw import whole_json
from augury.kernels.told import Constituent, Why
from augury.trying.firings import Triggered, triggered_json
from augury.trying.simulate_record import SELECTED, Version, plain_value


@dataclass(frozen=True, slots=True)
class Derived:
    """A version of a complex event, and why it is there: `why`, or `note` where that cannot be told in parts."""

    version: Version
    why: Why | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Acted:
    """An action that fired: for which version, its condition as text, and what that and its arguments looked at."""

    action: Action
    version: Version
    condition: str
    values: Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Partial:
    """What a MATCH or COMPOSITE has so far: events, each with the part it stands for where that is known."""

    event_class: str
    has: tuple[tuple[int | None, str, str], ...]
    """The `seq`, the event and the part."""
    waits_in: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that happens at a time if nothing else does: what, and to which event or part."""

    event_class: str
    what: str
    due: int


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits after a tick. Lists are cut where they are long; `counts` has how many there are of each."""

    partial: tuple[Partial, ...] = ()
    timers: tuple[Alarm, ...] = ()
    on_time: tuple[Alarm, ...] = ()
    turns: tuple[Alarm, ...] = ()
    clock: tuple[Alarm, ...] = ()
    expiries: tuple[Alarm, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    next_tick: int | None = None


ALARMS = ("timers", "on_time", "turns", "clock", "expiries")
"""The kinds of alarms, as `Pending` names them."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An event that was rejected: where it came from, its class, why, and as it was given."""

    place: str
    event: str
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One tick; `number` counts them from 1."""

    number: int
    tick: int
    arrived: tuple[Version, ...] = ()
    rejected: tuple[Refused, ...] = ()
    absorbed: int = 0
    derived: tuple[Derived, ...] = ()
    fired: tuple[Acted, ...] = ()
    triggered: tuple[Triggered, ...] = ()
    purged: tuple[Version, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    warnings: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    pending: Pending = field(default_factory=Pending)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened that anybody could see."""
        happened = (self.arrived, self.derived, self.fired, self.triggered, self.purged)
        return not any(happened) and not any((self.rejected, self.failed, self.absorbed))


# ---- JSON --------------------------------------------------------------------------------------------------------


def line(shown: Shown) -> str:
    """A tick as one line of JSON."""
    return whole_json(to_json(shown))


def to_json(shown: Shown) -> dict[str, Any]:
    """A tick as a JSON value; docs/simulating.md says what the fields are."""
    return {
        "tick": show_time(shown.tick),
        "number": shown.number,
        "arrived": [version_json(one) for one in shown.arrived],
        "rejected": [
            {"place": one.place, "event": one.event, "reason": one.reason, "raw": one.raw} for one in shown.rejected
        ],
        "absorbed": shown.absorbed,
        "derived": [derived_json(one) for one in shown.derived],
        "fired": [acted_json(one) for one in shown.fired],
        "triggered": [triggered_json(one) for one in shown.triggered],
        "purged": [version_json(one) for one in shown.purged],
        "failed": [{"event": name, "reason": reason} for name, reason in shown.failed],
        "warnings": dict(shown.warnings),
        "errors": dict(shown.errors),
        "pending": _pending_json(shown.pending),
    }


def version_json(version: Version) -> dict[str, Any]:
    """A version; attributes stand under `values`."""
    found: dict[str, Any] = {"event": version.event_class.name, "change": version.change}
    if version.seq is not None:
        found["seq"] = version.seq
    found["occ_time"] = None if version.occ_time is None else show_time(version.occ_time)
    found["det_time"] = show_time(version.det_time)
    if version.source_time is not None:
        found["source_time"] = show_time(version.source_time)
    found["key"] = dict(version.fields)
    found["values"] = {name: plain_value(value) for name, value in version.values.items()}
    if version.constituents is not None:
        found["constituents"] = list(version.constituents)
    return found


def derived_json(derived: Derived) -> dict[str, Any]:
    """A complex event with its why."""
    return {**version_json(derived.version), "why": None if derived.why is None else why_json(derived.why)} | (
        {"note": derived.note} if derived.note else {}
    )


def why_json(why: Why) -> dict[str, Any]:
    """Constituents with the parts that they satisfy, variables, timers and what stayed away."""
    return {
        "constituents": [constituent_json(one) for one in why.events],
        "variables": {name: plain_value(value) for name, value in why.values},
        "timers": [
            {"part": one.part, "occ_time": show_time(one.occ_time), "det_time": show_time(one.det_time)}
            for one in why.timers
        ],
        "absent": [one.dump() for one in why.absences],
    }


def constituent_json(one: Constituent) -> dict[str, Any]:
    """An event with the parts that it satisfies."""
    return {
        "seq": one.seq if 0 < one.seq < SELECTED else None,
        "event": one.event_class,
        "text": one.event,
        "occ_time": show_time(one.occ_time),
        "parts": list(one.parts),
        "made_of": list(one.made_of),
    }


def acted_json(acted: Acted) -> dict[str, Any]:
    """An action with its condition and the values of that."""
    action = acted.action
    return {
        "action": action.name,
        "args": list(action.arguments),
        "event": action.event,
        "key": dict(action.key),
        "statement": action.statement,
        "condition": acted.condition,
        "values": {name: plain_value(value) for name, value in acted.values.items()},
        "idempotency_key": action.idempotency_key,
    }


def _pending_json(pending: Pending) -> dict[str, Any]:
    found: dict[str, Any] = {
        "partial": [
            {
                "event": one.event_class,
                "has": [{"seq": seq, "event": event, "part": part} for seq, event, part in one.has],
                "waits_in": one.waits_in,
            }
            for one in pending.partial
        ]
    }
    for kind in ALARMS:
        alarms: tuple[Alarm, ...] = getattr(pending, kind)
        found[kind] = [{"event": one.event_class, "what": one.what, "due": show_time(one.due)} for one in alarms]
    found["counts"] = dict(pending.counts)
    found["next_tick"] = None if pending.next_tick is None else show_time(pending.next_tick)
    return found

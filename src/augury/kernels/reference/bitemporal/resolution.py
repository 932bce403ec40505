"""Which versions are accepted, and what the views of a class then hold (LANGUAGE.md section 1).

In: a raw version, and what was accepted before it. Out: an accepted version, a refusal, or nothing for a duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from augury.event import EventClass
from augury.kernels.reference.bitemporal.version import (
    ABSENT,
    Change,
    EventId,
    Raw,
    Reason,
    Version,
    key_values,
    ranks,
)


def timed(raw: Raw) -> Raw | None:
    """A raw version of a replay with both times: either stands in for one left out; None if neither is known."""
    if raw.det_time is not None:
        return replace(raw, occ_time=raw.det_time) if raw.occ_time is ABSENT else raw
    if raw.occ_time is None or raw.occ_time is ABSENT:
        return None
    return replace(raw, det_time=raw.occ_time)


def arrived(det_time: int, last_tick: int | None) -> tuple[int, int | None]:
    """The det_time of a live version, and what it claimed if that lies before the last tick committed."""
    if last_tick is None or det_time >= last_tick:
        return det_time, None
    return last_tick, det_time


def resolve(
    event_class: EventClass, raw: Raw, history: Sequence[Version], live: Mapping[EventId, Version], seq: int
) -> Version | Reason | None:
    """What becomes of a version with both times: it is accepted with that `seq`, refused, or absorbed (None)."""
    assert raw.det_time is not None
    assert raw.occ_time is not ABSENT
    key = key_values(event_class, raw.values) if event_class.key else (seq,)
    if _is_duplicate(event_class, raw, history):
        return None
    current = live.get((event_class.name, key))
    if raw.occ_time is None and current is None:
        return Reason.NOT_THERE
    if current is not None and not event_class.mutable:
        return Reason.IMMUTABLE
    change = Change.WITHDRAW if raw.occ_time is None else Change.CHANGE if current is not None else Change.ANNOUNCE
    return Version(event_class.name, key, raw.values, raw.occ_time, raw.det_time, change, seq, raw.event_id)


def _is_duplicate(event_class: EventClass, raw: Raw, history: Sequence[Version]) -> bool:
    accepted = [version for version in history if version.event_class == event_class.name]
    if raw.event_id is not None:
        return any(version.event_id == raw.event_id for version in accepted)
    if not event_class.key:
        return False
    return any(
        version.event_id is None
        and (version.occ_time, version.det_time) == (raw.occ_time, raw.det_time)
        and ranks(version.values) == ranks(raw.values)
        for version in accepted
    )


def as_of_now(history: Iterable[Version]) -> dict[EventId, Version]:
    """The newest version of each event, if it does not withdraw it; in the order in which events came."""
    newest: dict[EventId, Version] = {}
    for version in history:
        newest[version.event] = version
    return {event: version for event, version in newest.items() if version.occ_time is not None}


def as_known_at(history: Iterable[Version], moment: int) -> dict[EventId, Version]:
    """What `as_of_now` gave at that moment, before anything was purged: the history never forgets."""
    return as_of_now(version for version in history if version.det_time <= moment)


def retained(
    history: Sequence[Version], live: Mapping[EventId, Version], tick: int, retain_us: int | None
) -> list[Version]:
    """The history after a tick: with `SET HISTORY RETAIN d` only what is current or was detected in the last d."""
    if retain_us is None:
        return list(history)
    return [v for v in history if v.det_time >= tick - retain_us or live.get(v.event) is v]

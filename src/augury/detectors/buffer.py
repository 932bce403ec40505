"""What a detector lets through: all that it sees, or what is new, has changed or has vanished.

In: a state and the events of one look. Out: the events to forward, each with an id, and the state after it. Pure:
it reads no clock and no source, and equal states and looks give equal events.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from augury import limits
from augury.algebra.wiring import Forward
from augury.detectors.shape import Shape, is_withdrawal, values_of, withdrawal_of
from augury.history.json_lines import DECODER
from augury.history.raw import whole_json

_GONE: Final = "-"
"""What stands before the digest of an event that its source has withdrawn by itself."""


@dataclass(frozen=True, slots=True)
class Found:
    """An event as a source has it, and its place there, if that stays its own."""

    event: Mapping[str, object]
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What a buffer does with what is seen."""

    detector: str
    shape: Shape
    forward: Forward = Forward.ALL
    withdraws: bool = False


@dataclass(frozen=True, slots=True)
class BufferState:
    """What is remembered: when this began, how many events were forwarded, and by key a digest of the last values.

    `began_us` and `forwarded` tell versions apart that say the same: what changes back is new.
    """

    began_us: int
    forwarded: int = 0
    known: Mapping[str, str] = field(default_factory=dict)


def buffered(
    rule: Rule, state: BufferState, found: Sequence[Found], now_us: int, *, whole: bool
) -> tuple[list[dict[str, object]], BufferState]:
    """The events to forward, and the state after them; only a whole listing tells what has vanished."""
    remembers = rule.withdraws or rule.forward is Forward.CHANGED
    known = dict(state.known) if remembers else {}
    given: list[tuple[Mapping[str, object], str | None]] = []
    present: set[str] = set()
    for one in _last_of_each(rule, found) if whole and remembers else found:
        if not remembers:
            given.append((one.event, one.place))
            continue
        key, digest = _key(rule.shape, one.event), _digest(rule.shape, one.event)
        present.add(key)
        if rule.forward is Forward.ALL or known.get(key) != digest:
            given.append((one.event, one.place))
        known.pop(key, None)
        known[key] = digest
    if whole and remembers:
        given += [(event, None) for event in _vanished(rule, known, present, now_us)]
        known = {key: digest for key, digest in known.items() if key in present}
    for key in list(known)[: max(0, len(known) - limits.DETECTOR_KEYS_MAX)]:
        del known[key]
    numbered = enumerate(given, state.forwarded)
    events = [_with_id(rule, state.began_us, number, event, place) for number, (event, place) in numbered]
    return events, BufferState(state.began_us, state.forwarded + len(events), known)


def saved_buffer(state: BufferState) -> str:
    """A state as text."""
    return json.dumps([state.began_us, state.forwarded, dict(state.known)])


def loaded_buffer(text: str) -> BufferState:
    """The state that a text holds."""
    began_us, forwarded, known = json.loads(text)
    return BufferState(began_us, forwarded, known)


def _vanished(rule: Rule, known: Mapping[str, str], present: set[str], now_us: int) -> Iterable[dict[str, object]]:
    if rule.withdraws:
        for key, digest in known.items():
            if key not in present and not digest.startswith(_GONE):
                yield withdrawal_of(rule.shape, DECODER.decode(key), now_us)


def _last_of_each(rule: Rule, found: Sequence[Found]) -> list[Found]:
    """Of items with one key the last: a listing says one thing about each."""
    last = {_key(rule.shape, one.event): one for one in found}
    return list(last.values())


def _key(shape: Shape, event: Mapping[str, object]) -> str:
    """What an event is known by; without a key it is all that it says."""
    names: Iterable[str] = shape.key or sorted(values_of(shape, event))
    return whole_json([_canonical(event.get(name)) for name in names])


def _digest(shape: Shape, event: Mapping[str, object]) -> str:
    values = sorted(values_of(shape, event).items())
    text = whole_json([[name, _canonical(value)] for name, value in values])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return _GONE + digest if is_withdrawal(shape, event) else digest


def _canonical(value: object) -> object:
    """Numbers that are equal are written alike."""
    if isinstance(value, float) and value - value == 0:
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() and value.adjusted() < 30 else value.normalize()
    return value


def _with_id(
    rule: Rule, began_us: int, number: int, event: Mapping[str, object], place: str | None
) -> dict[str, object]:
    """The event with an id: its own, or one that the same event at the same place always has."""
    if event.get("event_id") is not None:
        return dict(event)
    by = f"at {place}" if place is not None else f"{began_us} {number}"
    text = whole_json([rule.detector, by, sorted(values_of(rule.shape, event).items())])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return {**event, "event_id": f"{rule.detector}-{digest}"}

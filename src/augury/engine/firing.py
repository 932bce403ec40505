"""A firing → what is kept of it and what waits in the outbox; and posts of rules ↔ texts, between two ticks.

In: firings and queued posts. Out: `FiredTrigger`s with their actions, and texts. It runs nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from augury import types as t
from augury.algebra.rule import ActionCall, Rule
from augury.algebra.scalar import Value
from augury.clock import EPOCH
from augury.engine.chronon import QueuedPost
from augury.engine.rules import Calling
from augury.engine.ticked import Action, FiredTrigger
from augury.event import EventClass, key_of
from augury.kernels.composite.scalars import attribute_key
from augury.kernels.firing import Call, Done, Firing, Outcome, Posted


def fired_trigger(
    number: int,
    firing: Firing,
    rules: Mapping[str, Rule],
    event_class: EventClass,
    values: Mapping[str, Value],
    calling: Calling,
) -> FiredTrigger:
    """A firing with the actions that wait in the outbox: those that no function has carried out at once."""
    attributes = [event_class.attribute(name) for name in event_class.key]
    key = {a.name: plain(values.get(attribute_key(a.name)), a.type) for a in attributes if a is not None}
    actions: list[Action] = []
    place = 0
    for call in firing.calls:
        rule = rules[key_of(call.rule)]
        written = rule.actions if call.outcome is Outcome.HELD else rule.alternatives
        for deed, wanted in zip(call.deeds, written, strict=False):
            if not isinstance(deed, Done) or not isinstance(wanted, ActionCall):
                continue
            place += 1
            if calling.knows(deed.name):
                continue
            arguments = tuple(plain(v, s.type) for v, s in zip(deed.arguments, wanted.arguments, strict=True))
            own = _own_key(firing, number, place)
            actions.append(
                Action(
                    deed.name,
                    arguments,
                    event_class.name,
                    key,
                    firing.now,
                    0,
                    place,
                    firing.seq,
                    own,
                    firing.trigger,
                    call.rule,
                )
            )
    return FiredTrigger(number, event_class.name, key, firing, tuple(actions))


def plain(value: Value, kind: t.Type) -> Any:
    """A value as users have it: times are moments, durations spans of time."""
    match kind:
        case _ if value is None:
            return None
        case t.Timestamp() if isinstance(value, int):
            return EPOCH + timedelta(microseconds=value)
        case t.Duration() if isinstance(value, int):
            return timedelta(microseconds=value)
        case _:
            return value


def _own_key(firing: Firing, number: int, place: int) -> str:
    # The number alone would do, but a store that was set back to an earlier state may count anew.
    known_by = (number, firing.det_time, *firing.constituents, place)
    text = "\x1f".join(["trigger", key_of(firing.trigger), *map(str, known_by)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def settled(fired: FiredTrigger, at: int, became: Mapping[tuple[int, int], Any]) -> FiredTrigger:
    """A firing with what became of its posts; `at` is its place among those of the tick."""
    if not any(isinstance(deed, Posted) for call in fired.firing.calls for deed in call.deeds):
        return fired
    numbers = iter(range(sum(len(call.deeds) for call in fired.firing.calls)))

    def settle(deed: Done | Posted) -> Done | Posted:
        if not isinstance(deed, Posted):
            return deed
        fate = became.get((at, next(numbers)))
        if fate is None:
            return deed
        return replace(deed, seq=fate) if isinstance(fate, int) else replace(deed, refused=fate)

    calls: Sequence[Call] = [
        replace(call, deeds=tuple(settle(deed) for deed in call.deeds)) for call in fired.firing.calls
    ]
    return replace(fired, firing=replace(fired.firing, calls=tuple(calls)))


# ---- posts between two ticks ----------------------------------------------------------------------


def post_text(queued: QueuedPost) -> str:
    """A post that waits for the next tick."""
    posted = queued.posted
    values = [written_value(value) for value in posted.values]
    return json.dumps([posted.event_class, values, posted.det_time, queued.trigger, queued.depth])


def read_post(text: str) -> QueuedPost:
    """The post again; the tick that told of it is over."""
    event_class, values, det_time, trigger, depth = json.loads(text)
    return QueuedPost(Posted(event_class, tuple(map(read_value, values)), det_time), trigger, depth, None, 0)


def written_value(value: Value) -> Any:
    """A value as JSON has it, such that `read_value` gives it back."""
    match value:
        case Decimal():
            return {"decimal": str(value)}
        case date():
            return {"date": value.isoformat()}
        case float():
            return {"double": value.hex()}
        case _:
            return value


def read_value(value: Any) -> Value:
    """The value again."""
    match value:
        case {"decimal": str(text)}:
            return Decimal(text)
        case {"date": str(text)}:
            return date.fromisoformat(text)
        case {"double": str(text)}:
            return float.fromhex(text)
        case _:
            found: Value = value
            return found

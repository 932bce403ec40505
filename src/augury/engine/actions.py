"""What fired at a tick → actions, in the order of the contract, each with a key that is its own for ever.

In: a `Ticked`. Out: `Action`s. An action is known by its event, tick, statement and place there, so that whoever works
the tick out again gives it the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from augury import types as t
from augury.clock import EPOCH
from augury.engine.ticked import Action, ClassActions, Ticked
from augury.event import EventClass
from augury.kernels.bitemporal.cells import NAN_KEY
from augury.kernels.order import least_first

_DAY_ZERO = date(1970, 1, 1)


def actions_of(ticked: Ticked) -> Iterator[Action]:
    """Every action of a tick: by class as declared, key, statement, place in it."""
    for one in ticked.actions:
        yield from _of_class(one, ticked.tick)


def _of_class(one: ClassActions, tick: int) -> Iterator[Action]:
    event_class, fired = one.event_class, one.fired
    columns = [[argument.to_pylist() for argument in group.arguments] for group in fired.groups]
    rows = []
    for group, row in zip(fired.group.tolist(), fired.row.tolist(), strict=True):
        key = fired.groups[group].keys[row]
        rank = [least_first(value) for value in (key if isinstance(key, tuple) else (key,))]
        rows.append((rank, fired.groups[group].statement, fired.groups[group].action, group, row))
    rows.sort(key=lambda found: found[:3])
    for _, statement, place, group, row in rows:
        of_group = fired.groups[group]
        key = of_group.keys[row]
        seq = int(of_group.seq[row])
        yield Action(
            of_group.name,
            tuple(column[row] for column in columns[group]),
            event_class.name,
            key_fields(event_class, key),
            tick,
            statement + 1,
            place + 1,
            seq if seq > 0 else None,
            _own_key(event_class, key, tick, statement, place),
        )


def _own_key(event_class: EventClass, key: Any, tick: int, statement: int, place: int) -> str:
    text = "\x1f".join([event_class.name.casefold(), repr(key), str(tick), str(statement), str(place)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def key_fields(event_class: EventClass, key: Any) -> Mapping[str, Any]:
    """The key of an event by attribute, as plain values; nothing for a class with `ID ()`."""
    if not event_class.key:
        return {}
    values = key if len(event_class.key) > 1 else (key,)
    attributes = [event_class.attribute(name) for name in event_class.key]
    return {a.name: _plain(v, a.type) for a, v in zip(attributes, values, strict=True) if a is not None}


def _plain(value: Any, kind: t.Type) -> Any:
    if value is None:
        return None
    match kind:
        case t.Timestamp():
            return EPOCH + timedelta(microseconds=value)
        case t.Date():
            return _DAY_ZERO + timedelta(days=value)
        case t.Decimal(scale=scale):
            return Decimal(int(value)).scaleb(-scale)
        case t.Double():
            return float("nan") if value == NAN_KEY else value
        case _:
            return value

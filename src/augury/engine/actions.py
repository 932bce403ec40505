"""What fired at a tick → actions, in the order of the contract, each with a key that is its own for ever.

In: a `Ticked`. Out: `Action`s. An action is known by its event, tick, statement and place there, so that whoever works
the tick out again gives it the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from augury import types as t
from augury.clock import EPOCH
from augury.engine.ticked import Action, ClassActions, Ticked
from augury.event import EventClass
from augury.kernels.bitemporal.cells import NAN_KEY

_DAY_ZERO = date(1970, 1, 1)


def actions_of(ticked: Ticked) -> Iterator[tuple[Action, str]]:
    """Every action of a tick: by class as declared, key, statement, place in it; with the rank of its key as text."""
    for one in ticked.actions:
        yield from _of_class(one, ticked.tick)


def _of_class(one: ClassActions, tick: int) -> Iterator[tuple[Action, str]]:
    event_class, fired = one.event_class, one.fired
    columns = [[argument.to_pylist() for argument in group.arguments] for group in fired.groups]
    ranked = key_ranks(event_class)
    rows = []
    for group, row in zip(fired.group.tolist(), fired.row.tolist(), strict=True):
        key = fired.groups[group].keys[row]
        rank = ranked(key)
        rows.append((rank, fired.groups[group].statement, fired.groups[group].action, group, row))
    rows.sort(key=lambda found: found[:3])
    for rank, statement, place, group, row in rows:
        of_group = fired.groups[group]
        key = of_group.keys[row]
        seq = int(of_group.seq[row])
        action = Action(
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
        yield action, rank


def key_ranks(event_class: EventClass) -> Callable[[Any], str]:
    """What makes a text of a key, such that texts are in the order of keys."""
    doubles = _doubles(event_class)  # of what has no key, its time, number or constituents may come, too
    return lambda key: " ".join(map(rank_of, key if isinstance(key, tuple) else (key,), chain(doubles, repeat(False))))


def _doubles(event_class: EventClass) -> list[bool]:
    """Of each value of a key whether it is a DOUBLE, where NaN stands as a text."""
    names = event_class.key or tuple(attribute.name for attribute in event_class.attributes)
    attributes = [event_class.attribute(name) for name in names]
    return [attribute is not None and isinstance(attribute.type, t.Double) for attribute in attributes]


def rank_of(value: Any, is_double: bool = False) -> str:
    """A text that comes before those of greater values; NaN comes after every number, and NULL last."""
    match value:
        case None:
            return "2"
        case str():
            return "1" if is_double else f"0{value.encode('utf-8', 'surrogatepass').hex()}"
        case float():
            bits = int(np.float64(value + 0.0).view(np.int64))
            return f"0{(bits if bits >= 0 else -(2**63) - bits) + 2**63:020d}"
        case _:
            return f"0{int(value) + _OFFSET:041d}"


_OFFSET: Final = 10**40
"""Makes every whole number, and every decimal without its point, one of as many digits that is not negative."""


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

"""Which single events are surely fine by themselves, without making columns of them.

In: a program, and then rows as JSON has them. Out: whether `history.coming` surely has nothing against a row. Where it
says no, nothing is known: ask there. Making columns costs a millisecond, however few rows there are, and those who
post event by event would wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from augury import types as t
from augury.algebra.program import Program
from augury.event import ClassKind, EventClass, key_of

Test = Callable[[Any], bool]

_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z")
_EXPONENT_MAX: Final = 290
"""Powers of ten that every DOUBLE has room for."""


def plainly_fine(program: Program) -> Callable[[Mapping[str, Any]], bool]:
    """A test of rows with a time of their own: neither a det_time nor an occ_time that is NULL."""
    mapped = {key_of(source.event_class) for source in program.sources}
    classes = [plan.event_class for plan in program.classes if plan.event_class.kind is ClassKind.SUBSCRIBED]
    tests = {c.name: _tests(c) for c in classes if key_of(c.name) not in mapped}
    known = {name: tested for name, tested in tests.items() if tested is not None}
    counts = {one.name: len(one.attributes) for one in classes}

    def is_fine(row: Mapping[str, Any]) -> bool:
        name = row.get("event")
        if type(name) is not str:
            return False
        tested = known.get(name)
        if tested is None or not ("occ_time" in row or "det_time" in row):
            return False
        attributes = 0
        for field, value in row.items():
            found = tested.get(field)
            if found is None or not found[0](value):
                return False
            attributes += found[1]
        return attributes == counts[name]

    return is_fine


def _tests(event_class: EventClass) -> dict[str, tuple[Test, bool]] | None:
    """By field, as it is declared, what is surely fine, and whether it is an attribute; None if that cannot be told."""
    found: dict[str, tuple[Test, bool]] = {}
    for attribute in event_class.attributes:
        test = _test(attribute.type)
        if test is None:
            return None
        found[attribute.name] = test, True
    times: dict[str, tuple[Test, bool]] = {"occ_time": (_is_moment, False), "det_time": (_is_moment, False)}
    return {**found, **times, "event": (lambda _: True, False), "event_id": (_is_name, False)}


def _is_name(value: Any) -> bool:
    return type(value) is str and value.isascii()


def _test(kind: t.Type) -> Test | None:
    match kind:
        case t.Boolean():
            return lambda value: type(value) is bool
        case t.Int():
            return lambda value: type(value) is int and -(2**31) <= value < 2**31
        case t.BigInt():
            return lambda value: type(value) is int and -(2**63) <= value < 2**63
        case t.Double():
            return _is_double
        case t.String(max_length=length):
            most = 2**31 if length is None else length
            return lambda value: type(value) is str and value.isascii() and len(value) <= most
        case _:
            return None


def _is_double(value: Any) -> bool:
    if type(value) is Decimal:
        return value.is_finite() and abs(value.adjusted()) < _EXPONENT_MAX
    return type(value) is int and -(2**53) <= value <= 2**53


def _is_moment(value: Any) -> bool:
    if type(value) is not str or not _MOMENT.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True

"""Small programs, versions and ticks for the tests of stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.api import check
from augury.engine.ticked import Action, ClassVersions, Ticked
from augury.event import EventClass
from augury.history.versions import ANNOUNCE, CHANGE, WITHDRAWN
from augury.kernels.bitemporal import keys_of
from augury.kernels.columns import arrow_type

SECOND = 1_000_000
START = 1_767_258_000_000_000  # 2026-01-01T09:00:00Z
CODES = {"announce": ANNOUNCE, "change": CHANGE, "withdraw": WITHDRAWN}

ORDERS = """
CREATE MUTABLE SUBSCRIBED EVENT CLASS Order (account INT, item STRING, price NUMERIC(10,2), weight DOUBLE)
  ID (account) LIFESPAN (5d)
  ON CHANGE AND new.price > 10 DO tell('dearer', new.account);
CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Ping (host STRING) ID () LIFESPAN (1d);
CREATE COMPLEX EVENT CLASS Dear (account INT) ID (account) LIFESPAN (5d)
  AS MATCH Order(account, _, _, _);
"""


def program(text: str = ORDERS) -> Program:
    """A program that is right."""
    checked = check(text, "p")
    assert checked.program is not None, checked.rendered()
    return checked.program


def class_of(of: Program, name: str) -> EventClass:
    """A class of it."""
    plan = of.class_plan(name)
    assert plan is not None
    return plan.event_class


def tick_at(number: int) -> int:
    """The n-th tick, a second after the one before."""
    return START + number * SECOND


def versions(
    event_class: EventClass,
    rows: Sequence[Mapping[str, Any]],
    *,
    number: int = 1,
    det_time: int = START,
    events: Sequence[int] | None = None,
) -> ClassVersions:
    """Versions from rows that may also say change, seq, occ_time, det_time, constituents, event_id and source_time."""

    def given(name: str, otherwise: Any = None) -> list[Any]:
        return [row.get(name, otherwise) for row in rows]

    names = [attribute.name for attribute in event_class.attributes]
    columns = [pa.array(given(a.name), arrow_type(a.type)) for a in event_class.attributes]
    values = pa.table(columns, names)
    numbers = np.arange(number, number + len(rows))
    seq = np.array([row.get("seq", n) for row, n in zip(rows, numbers.tolist(), strict=True)], np.int64)
    keys = keys_of(event_class, columns, seq) if event_class.key else list(events or numbers.tolist())
    constituents, event_id, source_time = given("constituents"), given("event_id"), given("source_time")
    return ClassVersions(
        event_class,
        numbers,
        values,
        seq,
        np.array(given("occ_time", det_time), np.int64),
        np.array(given("det_time", det_time), np.int64),
        np.array([CODES[change] for change in given("change", "announce")], np.uint8),
        keys,
        pa.array(constituents, pa.list_(pa.int64())) if any(c is not None for c in constituents) else None,
        pa.array(event_id, pa.string()) if any(event_id) else None,
        pa.array(source_time, pa.int64()).cast(pa.timestamp("us", "UTC")) if any(source_time) else None,
    )


def orders(of: Program, *rows: Mapping[str, Any], number: int, tick: int) -> ClassVersions:
    """Versions of Order, detected half a second before a tick."""
    return versions(class_of(of, "Order"), rows, number=number, det_time=tick_at(tick) - SECOND // 2)


@dataclass(frozen=True)
class TickedActing(Ticked):
    """A tick whose actions are given."""

    given: tuple[Action, ...] = ()

    def action_rows(self) -> Iterator[Action]:
        """Those."""
        return iter(self.given)

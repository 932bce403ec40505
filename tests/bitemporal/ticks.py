"""Versions of one class written as rows, and the state that reads them; times are small numbers of microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from augury import api
from augury.event import EventClass
from augury.kernels.bitemporal import ClassState, Fired, Sight, Versions, class_state, keys_of, step, watch
from augury.kernels.columns import arrow_type

Row = tuple[int | None, int, tuple[Any, ...]]
"""occ_time (None withdraws), det_time, and the attributes."""


def versions_of_rows(event_class: EventClass, rows: Sequence[Row], first_seq: int) -> Versions:
    columns = [[values[i] for _, _, values in rows] for i in range(len(event_class.attributes))]
    kinds = [arrow_type(attribute.type) for attribute in event_class.attributes]
    values = tuple(pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True))
    seq = np.arange(first_seq, first_seq + len(rows))
    occ = np.array([0 if occ is None else occ for occ, _, _ in rows], np.int64)
    det = np.array([det for _, det, _ in rows], np.int64)
    withdrawn = np.array([occ is None for occ, _, _ in rows], np.bool_)
    return Versions(values, occ, det, seq, withdrawn, keys_of(event_class, values, seq))


@dataclass
class OneClass:
    """The first class of a program, tick by tick."""

    text: str
    chronon_us: int = 10
    seq: int = 1
    event_class: EventClass = field(init=False)
    state: ClassState = field(init=False)

    def __post_init__(self):
        plan = api.compile(self.text).classes[0]
        self.event_class = plan.event_class
        self.state = class_state(watch(plan.event_class, plan.statements))

    def versions(self, rows: Sequence[Row]) -> Versions:
        self.seq += len(rows)
        return versions_of_rows(self.event_class, rows, self.seq - len(rows))

    def tick(self, tick: int, rows: Sequence[Row] = ()) -> tuple[Sight | None, Fired]:
        return step(self.state, self.versions(rows) if rows else None, tick, self.chronon_us)

    def fires(self, tick: int, rows: Sequence[Row] = ()) -> list[tuple[Any, ...]]:
        """Key, action and arguments of what fires."""
        return [(key, name, *arguments) for key, _, name, arguments in self.tick(tick, rows)[1].rows()]

    def names(self, tick: int, rows: Sequence[Row] = ()) -> list[str]:
        return [row[1] for row in self.fires(tick, rows)]


def events(*statements: str, attributes: str = "k INT, x INT", key: str = "k") -> OneClass:
    """A mutable class with these statements."""
    return OneClass(
        f"CREATE MUTABLE SUBSCRIBED EVENT CLASS E ({attributes}) ID ({key}) LIFESPAN (-1) {', '.join(statements)};"
    )

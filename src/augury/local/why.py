"""Why a row of a SELECT class is there: the versions that were joined or united to make it.

In: the store of a program, a SELECT class and the number of one of its versions. Out: what every `why` answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.clock import microseconds_of
from augury.engine.ports import Store
from augury.event import ClassKind, EventClass
from augury.history.raw import json_literal
from augury.history.views import system_names
from augury.kernels.told import Constituent, NotAnOccurrence, Why


def why_selected(program: Program, store: Store, event_class: EventClass, number: int) -> Why:
    """The constituents of a version of a SELECT class, by its number in the history of the class.

    Raises `NotAnOccurrence` for a number that no version has, for a withdrawal, and for rows that are not traced.
    """
    plan = program.class_plan(event_class.name)
    assert plan is not None, "it is a class of the program"
    names = system_names(event_class)
    table = store.history(event_class)
    row = table.filter(pc.equal(table[names.number], number))
    what = f"version {number} of `{event_class.name}`"
    if not row.num_rows:
        raise NotAnOccurrence(f"there is no {what}")
    if row[names.change][0].as_py() == "withdraw":
        raise NotAnOccurrence(f"{what} withdraws the event: the SELECT no longer gives its row")
    if not isinstance(plan.derivation, SelectPlan) or not plan.derivation.traced:
        raise NotAnOccurrence(f"{what} is not traced: it comes of an aggregate, DISTINCT, window or the like")
    wanted = row[names.constituents][0].as_py() or []
    found = [one for other in program.classes for one in _versions(store, other.event_class, wanted)]
    tick = microseconds_of(row[names.tick][0].as_py())
    return Why(None, tuple(sorted(found, key=lambda one: one.seq)), (), tick=tick)


def _versions(store: Store, event_class: EventClass, wanted: list[int]) -> list[Constituent]:
    """Those of the versions that are of this class."""
    if event_class.kind is ClassKind.COMPLEX:
        return []
    names, table = system_names(event_class), store.history(event_class)
    rows = table.filter(pc.is_in(table[names.seq], pa.array(wanted, pa.int64())))
    return [_constituent(event_class, names, row) for row in rows.to_pylist()]


def _constituent(event_class: EventClass, names: Any, row: Mapping[str, Any]) -> Constituent:
    values = ", ".join(json_literal(row[attribute.name]) for attribute in event_class.attributes)
    occ_time = row[names.occ_time]
    seq = row[names.seq]
    return Constituent(
        seq, event_class.name, f"{event_class.name}({values})", microseconds_of(occ_time), ("a row of FROM",), (seq,)
    )

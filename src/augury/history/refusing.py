"""Rows that are no versions → why, in a sentence each.

In: rows of a class and the verdicts on them. Out: refusals. It knows no rule of what is a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from augury.clock import show_time
from augury.event import EventClass, key_of
from augury.history.raw import Rejected, json_row
from augury.history.typed import Refusal
from augury.history.versions import IMMUTABLE, NOT_THERE, OFF, Rows, Verdicts
from augury.kernels.batch import Integers


def refused(
    event_class: EventClass, rows: Rows, verdicts: Verdicts, position: Integers, since: Callable[[int], int]
) -> list[Refusal]:
    """The rows that are refused; `position` says where they came, `since` the `seq` of what an immutable row meets."""
    chosen = np.flatnonzero((verdicts == IMMUTABLE) | (verdicts == NOT_THERE) | (verdicts == OFF))
    keys = {key_of(name) for name in event_class.key}
    name, found = event_class.name, []
    for row, fields in zip(chosen.tolist(), _fields(event_class, rows, chosen), strict=True):
        key = json_row({field: value for field, value in fields.items() if key_of(field) in keys})
        if verdicts[row] == IMMUTABLE:
            reason = f"`{name}` is immutable, and {key} is already there since seq {since(row)}"
        elif verdicts[row] == OFF:
            reason = f"`{name}` is disabled, and takes no events"
        elif not event_class.key:
            reason = f"`{name}` has no key: what is withdrawn cannot be told"
        else:
            reason = f"it withdraws {key} of `{name}`, which is not there"
        found.append(Refusal(int(position[row]), name, reason, json_row(fields)))
    return found


def told(refusals: Iterable[Refusal], place: Callable[[int], str]) -> Rejected:
    """Refusals in the order in which their rows came; `place` names where that was."""
    ordered = sorted(refusals, key=lambda refusal: refusal.position)
    return Rejected(
        tuple(place(one.position) for one in ordered),
        tuple(one.event for one in ordered),
        tuple(one.reason for one in ordered),
        tuple(one.raw for one in ordered),
    )


def _fields(event_class: EventClass, rows: Rows, chosen: Integers) -> Iterator[dict[str, object]]:
    """Rows again as they may have come: by now their source may be gone."""
    columns = [column.take(pa.array(chosen)).to_pylist() for column in rows.values]
    names = [attribute.name for attribute in event_class.attributes]
    for i, row in enumerate(chosen.tolist()):
        occ_time = None if rows.withdrawal[row] else show_time(int(rows.occ_time[row]))
        times = {"occ_time": occ_time, "det_time": show_time(int(rows.det_time[row]))}
        values = {name: column[i] for name, column in zip(names, columns, strict=True)}
        yield {"event": event_class.name, **times, **values}

"""The logs of a lake, as tables: its ticks, actions and rejected events, in the order of the contract.

In: a snapshot. Out: Arrow tables with the columns of `engine.ledger`; what a file has besides is shown as well.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.engine.ledger import ACTIONS, REJECTED, TICKS
from augury.engine.log_rows import COUNTS, PHASES
from augury.event import key_of
from augury.history.raw import whole_json
from augury.lake.files import LakeFiles
from augury.lake.manifest import Kind
from augury.lake.order import whole
from augury.lake.snapshot import Snapshot

LOGS: Final = {Kind.TICKS: TICKS, Kind.ACTIONS: ACTIONS, Kind.REJECTED: REJECTED}


def log(files: LakeFiles, snapshot: Snapshot, kind: Kind) -> pa.Table:
    """All rows of a log, by tick; within a tick as they were written."""
    tables = [files.read_table(entry.path) for entry in snapshot.files if entry.kind is kind]
    table = pa.concat_tables([LOGS[kind].empty_table(), *tables], promote_options="permissive")
    return table.take(pa.array(np.argsort(whole(table["tick"]), kind="stable"))).combine_chunks()


def ticks(files: LakeFiles, snapshot: Snapshot) -> pa.Table:
    """All ticks, a row each: what the engines of all slots did at it, together, and the seconds of all of them."""
    table = log(files, snapshot, Kind.TICKS)
    added = [*COUNTS, *(f"{phase}_seconds" for phase in PHASES)]
    told = ("failed", "warnings", "errors")
    asked = [("last_seq", "max"), *((name, "sum") for name in added), *((name, "list") for name in told)]
    found = table.group_by("tick", use_threads=False).aggregate(asked)
    columns: dict[str, Any] = {"tick": found["tick"]}
    # An engine knows the numbers of its own versions only: the last of all is the greatest so far.
    columns["last_seq"] = np.maximum.accumulate(found["last_seq_max"].to_numpy())
    columns |= {name: found[f"{name}_sum"] for name in added}
    columns |= {name: [_together(texts) for texts in found[f"{name}_list"].to_pylist()] for name in told}
    return pa.table(columns, schema=TICKS).combine_chunks()


def _together(texts: list[str]) -> str:
    """Objects of JSON as one: numbers of a class are added up, and its reasons stand beside each other."""
    found: dict[str, Any] = {}
    for text in texts:
        for name, value in json.loads(text).items():
            if name not in found:
                found[name] = value
            elif isinstance(value, int):
                found[name] += value
            elif value not in found[name].split("; "):
                found[name] += f"; {value}"
    return whole_json(found)


def actions(files: LakeFiles, snapshot: Snapshot, program: Program) -> pa.Table:
    """All actions: by tick, class as declared, key, statement, place in it; then what rules did, firing by firing."""
    table = log(files, snapshot, Kind.ACTIONS)
    declared = {key_of(plan.event_class.name): place for place, plan in enumerate(program.classes)}
    last = len(declared)
    named = zip(table["event"].to_pylist(), table["trigger"].to_pylist(), strict=True)
    places = (declared.get(key_of(name or ""), last) if trigger is None else last + 1 for name, trigger in named)
    place = pa.array(places, pa.int64())
    order = [(name, "ascending") for name in ("tick", "class", "rank", "statement", "place")]
    return table.append_column("class", place).sort_by(order).drop_columns(["class"]).combine_chunks()

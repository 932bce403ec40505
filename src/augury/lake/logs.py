"""The logs of a lake, as tables: its ticks, actions and rejected events, in the order of the contract.

In: a snapshot. Out: Arrow tables with the columns of `engine.ledger`; what a file has besides is shown as well.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.engine.ledger import ACTIONS, REJECTED, TICKS
from augury.event import key_of
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

"""What one commit of a lake holds, as the frames that sinks are given.

In: a lake and a manifest. Out: frames in the order of `augury run`. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.program import Program
from augury.engine.actions import key_fields
from augury.engine.firing_rows import firings_schema, trigger_named
from augury.engine.history_rows import versions_in
from augury.engine.ledger import ACTIONS, REJECTED, TICKS, Ledger, joined
from augury.engine.lines import version_lines
from augury.event import ClassKind, key_of
from augury.history.raw import whole_json
from augury.history.views import CHANGES
from augury.kernels.bitemporal import keys_of
from augury.lake import Kind, Lake, Manifest
from augury.lake.firings import conformed

_EVENTS = pa.schema(
    [
        ("event", pa.string()),
        ("change", pa.string()),
        ("seq", pa.int64()),
        ("occ_time", pa.timestamp("us", "UTC")),
        ("det_time", pa.timestamp("us", "UTC")),
        ("constituents", pa.list_(pa.int64())),
        ("key", pa.string()),
        ("line", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class CommittedFrames:
    """One commit."""

    spark: SparkSession
    program: Program
    lake: Lake
    manifest: Manifest

    @property
    def commit(self) -> int:
        """Its number."""
        return self.manifest.commit

    @property
    def ticks(self) -> tuple[int, int]:
        """The first and the last tick that it covers, in microseconds."""
        bounds = [(e.min_tick, e.max_tick) for e in self.manifest.added]
        last = self.manifest.last_tick or 0
        lows = [low for low, _ in bounds if low is not None]
        return min(lows, default=last), max([last, *(high for _, high in bounds if high is not None)])

    @property
    def ledger(self) -> Ledger:
        """Everything it holds, in the order of the contract."""
        return ledger_in(self.program, self.lake, [self.manifest])

    @property
    def events(self) -> DataFrame:
        """Complex events: event, change, seq, occ_time, det_time, constituents, key, line."""
        ledger = self.ledger
        tables = [_EVENTS.empty_table(), *_event_tables(self.program, ledger)]
        table = pa.concat_tables(tables)
        return self.spark.createDataFrame(table)

    @property
    def actions(self) -> DataFrame:
        """Actions: line, action, idempotency_key, tick, and the rest of `engine.ledger`."""
        return self.spark.createDataFrame(self.ledger.actions)

    def firings(self, trigger: str) -> DataFrame:
        """The firings of a trigger: number, tick, det_time, now, event, key, seq, constituents, its parameters, …"""
        found = trigger_named(self.program, trigger)
        schema = firings_schema(found)
        return self.spark.createDataFrame(self.ledger.firings.get(found.name, schema.empty_table()))

    @property
    def rejected(self) -> DataFrame:
        """Refused events: place, event, reason, raw, tick."""
        return self.spark.createDataFrame(self.ledger.rejected)


def ledger_in(program: Program, lake: Lake, manifests: list[Manifest]) -> Ledger:
    """What commits hold, as one ledger in the order of the contract."""
    files = lake.files
    triggers = {key_of(trigger.name): trigger for trigger in program.triggers}
    parts = []
    for manifest in manifests:
        if manifest.removed:
            continue  # an upkeep, which says nothing new
        for entry in manifest.added:
            match entry.kind:
                case Kind.HISTORY:
                    parts.append(Ledger(versions={entry.event_class: files.read_table(entry.path)}))
                case Kind.ARCHIVE:
                    parts.append(Ledger(archive={entry.event_class: files.read_table(entry.path)}))
                case Kind.FIRINGS if key_of(entry.event_class) in triggers:
                    trigger = triggers[key_of(entry.event_class)]
                    parts.append(Ledger(firings={trigger.name: conformed(files.read_table(entry.path), trigger)}))
                case Kind.ACTIONS:
                    parts.append(Ledger(actions=_with_all(files.read_table(entry.path), ACTIONS)))
                case Kind.REJECTED:
                    parts.append(Ledger(rejected=files.read_table(entry.path).cast(REJECTED)))
                case Kind.TICKS:
                    parts.append(Ledger(ticks=files.read_table(entry.path).cast(TICKS)))
                case _:
                    pass
    return joined(program, parts)


def _with_all(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The columns of a log; a lake of an older Augury lacks some."""
    count = table.num_rows
    columns = [table[f.name].cast(f.type) if f.name in table.column_names else pa.nulls(count, f.type) for f in schema]
    return pa.table(columns, schema=schema)


def _event_tables(program: Program, ledger: Ledger) -> Iterator[pa.Table]:
    for plan in program.classes:
        event_class = plan.event_class
        table = ledger.versions.get(event_class.name)
        if table is None or event_class.kind is not ClassKind.COMPLEX:
            continue
        for _, versions in versions_in(event_class, table):
            columns = [column.combine_chunks() for column in versions.values.columns]
            keys = keys_of(event_class, columns, versions.number)
            withdrawn = [CHANGES[change] == "withdraw" for change in versions.change.tolist()]
            yield pa.table(
                [
                    pa.array([event_class.name] * len(versions)),
                    pa.array([CHANGES[change] for change in versions.change.tolist()]),
                    pa.array(versions.seq, mask=versions.seq <= 0),
                    pa.array(versions.occ_time, mask=np.array(withdrawn, np.bool_)).cast(
                        _EVENTS.field("occ_time").type
                    ),
                    pa.array(versions.det_time).cast(_EVENTS.field("det_time").type),
                    versions.constituents or pa.array([[]] * len(versions), pa.list_(pa.int64())),
                    pa.array([whole_json(dict(key_fields(event_class, key))) for key in keys]),
                    pa.array(list(version_lines(versions))),
                ],
                schema=_EVENTS,
            )

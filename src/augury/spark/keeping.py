"""Steps of a program kept in a lake: what came, and how far to go → one commit.

In: pieces of rows and a time. Out: a manifest that is committed, or nothing where there was nothing to keep. It
reads no clock and knows no stream; whoever calls it does so one call at a time.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from augury.algebra.dump import dump_program, dump_trigger
from augury.algebra.program import Program
from augury.clock import show_duration
from augury.engine import ledger as of_ticks
from augury.engine.ports import SelectsBy
from augury.engine.sharded import Slots
from augury.engine.snapshot import STATE_FORMAT
from augury.engine.tick import tick_reading
from augury.event import key_of
from augury.history.coming import received
from augury.kernels.bitemporal import NEVER
from augury.lake import (
    CorruptFile,
    FileEntry,
    Lake,
    LakeError,
    Manifest,
    Upkeep,
    Writer,
    compaction,
    program_name,
    retention,
    retention_pays,
)
from augury.lake.order import order_of
from augury.lake.snapshot import named_by
from augury.lake.vacuum import sweep
from augury.spark.arriving import Source, sources_of
from augury.spark.changing import go_on, require_fit
from augury.spark.ids import merged
from augury.spark.inherited import Compile
from augury.spark.selects import SparkSelects
from augury.spark.slots import SlotDone, Step, done_in
from augury.spark.stepping import Told, collected, name_of, slots_on_spark

_UPKEEP_EVERY: Final = 16
"""Commits between two looks at whether files should be merged or are too old."""

_SWEEP_EVERY_SECONDS: Final = 3600.0
"""What was left behind is a day old before it goes, and to look for it takes a look at every file."""

STATES_KEPT: Final = 16
"""Commits whose states stay, for going back where the last are damaged; each may be as large as all that lives."""

LOG: Final = logging.getLogger("augury")


class OtherProgram(LakeError):
    """The lake is of another program; nothing was changed."""


@dataclass(slots=True)
class Keeper:
    """A program at work on a lake; `last_tick` is how far it has gone, whether that was worth a commit or not.

    In a replay the clock is that of the data. `selects` is there where SELECTs are run by Spark itself.
    """

    spark: SparkSession
    program: Program
    lake: Lake
    writer: Writer
    slots: Slots
    name: str
    last_tick: int | None
    is_replay: bool = False
    selects: SparkSelects | None = None
    last: tuple[SlotDone, ...] = field(default=(), repr=False)
    state_bytes: dict[int, int] = field(default_factory=dict, repr=False)
    _named: deque[set[str]] = field(default_factory=deque, repr=False)
    _swept_after: int = field(default=0, repr=False)
    _swept_seconds: float | None = field(default=None, repr=False)

    @property
    def manifest(self) -> Manifest | None:
        """The last commit."""
        return self.writer.last

    @property
    def noted(self) -> Mapping[str, Any]:
        """What the last commit says beside its files."""
        found = self.manifest
        return {} if found is None or found.offsets is None else dict(found.offsets)

    @property
    def next_due(self) -> int:
        """The next tick at which something is due though nothing comes, or at which rows that wait are read."""
        due, first_us = int(self.noted.get("next_due", NEVER)), self.noted.get("waiting_from")
        return due if first_us is None else min(due, tick_reading(first_us, self.program.settings.chronon_us))

    def keep(
        self,
        pieces: DataFrame | None,
        found: Told,
        until_us: int,
        *,
        query: str | None = None,
        batch: int | None = None,
    ) -> Manifest | None:
        """Go on up to a tick with what came, and commit what that gives; None if it gives nothing and nothing came."""
        began = time.perf_counter()
        step = self.step(found, until_us)
        rows = collected(self.spark, pieces, found, step, self.writer.next_commit, self.selects)
        done = done_in(rows)
        taken = {"all": time.perf_counter() - began}
        return self.settle(step, found, done, query=query, batch=batch, seconds=taken)

    def settle(
        self,
        step: Step,
        found: Told,
        done: Sequence[SlotDone],
        *,
        query: str | None = None,
        batch: int | None = None,
        seconds: Mapping[str, float] | None = None,
    ) -> Manifest | None:
        """Commit what the engines of all slots did in a step."""
        self.last = tuple(done)
        self.state_bytes |= {one.slot: one.state_bytes for one in done if one.state is not None}
        until_us = step.until_us
        refused = self._refused(step, found, until_us)
        self.last_tick = until_us if self.last_tick is None else max(self.last_tick, until_us)
        if not refused and batch is None and all(_did_nothing(one, step) for one in done):
            return None
        said: dict[str, Any] = {} if query is None else {"query": query, "batch": batch}
        manifest = replace(self._manifest(step, found, done, refused), seconds=dict(seconds or {}), **said)
        self._commit(manifest)
        if manifest.commit % _UPKEEP_EVERY == 0:
            self._upkeep()
            self.sweep()
        return manifest

    def _commit(self, manifest: Manifest) -> None:
        self.writer.commit(manifest)
        self._named.append(named_by(manifest))
        self._forget_states()

    def recall_states(self) -> None:
        """See what the last commits need, after taking over from another."""
        last = 0 if self.manifest is None else self.manifest.commit
        try:
            recent = [named_by(one) for one in self.lake.manifests(after=max(0, last - STATES_KEPT - 1))]
        except CorruptFile as error:
            LOG.warning("states that nobody needs any more may be left where they are: %s", error)
            recent = [named_by(self.manifest)]
        self._named = deque(recent)
        self._forget_states()

    def _forget_states(self) -> None:
        """Remove the states, and rows that have waited, that none of the last commits needs."""
        while len(self._named) > STATES_KEPT:
            # A file that a commit no longer names is named by none after it.
            for path in sorted(self._named.popleft() - self._named[0]):
                try:
                    self.lake.storage.remove(path)
                except LakeError as error:
                    LOG.warning("a state that nobody needs any more is left where it is: %s", error)

    def step(self, found: Told, until_us: int) -> Step:
        """How far to go with what came, from where the last commit is."""
        noted, manifest = self.noted, self.manifest
        first = noted.get("first_tick")
        if first is None and found.first_us is not None:
            first = tick_reading(found.first_us, self.program.settings.chronon_us)
        rows: dict[Source, int] = dict(found.rows)
        for number, name, part in noted.get("waiting_for", ()):
            rows.setdefault((number, name, part), 0)
        named = {} if manifest is None else manifest.state
        places = ((slot, f"slot/{self.slots.name_of(slot)}") for slot in range(len(self.slots)))
        states = {slot: named[name] for slot, name in places if name in named}
        ids = tuple(path for name, path in sorted(named.items()) if name.startswith("ids/"))
        return Step(
            self.slots,
            self.name,
            sources_of(rows),
            until_us,
            first,
            self.lake.path,
            states,
            {int(slot): path for slot, path in noted.get("waiting", {}).items()},
            ids,
            noted.get("generation", 0),
            0 if manifest is None else manifest.last_seq,
            posts=tuple(noted.get("posts", ())),
            is_replay=self.is_replay,
        )

    def _manifest(
        self,
        step: Step,
        found: Told,
        done: Sequence[SlotDone],
        refused: tuple[FileEntry, ...],
    ) -> Manifest:
        states = {**step.states, **{one.slot: one.state for one in done if one.state is not None}}
        ids = (*step.ids, *(one.ids for one in done if one.ids is not None))
        ids = merged(self.lake.files, ids, f"{self.writer.next_commit:012d}")
        waiting = {one.slot: one.waiting for one in done if one.waiting is not None}
        counts: Counter[str] = Counter()
        for one in done:
            counts.update(one.counts)
        counts["rejected"] += len(found.refused)
        counts["live"] = sum(one.live for one in done)
        last_us = max((us for us in (found.last_us, self.noted.get("last_us")) if us is not None), default=None)
        offsets = {
            "first_tick": step.first_tick,
            "next_due": min((one.next_due for one in done), default=NEVER),
            "last_us": last_us,
            "waiting": {str(slot): path for slot, path in waiting.items()},
            "waiting_from": min((one.waiting_from_us for one in done if one.waiting_from_us is not None), default=None),
            "waiting_for": sorted({source for one in done for source in one.waiting_for}),
            "generation": step.generation,
            "posts": [text for one in done for text in one.posts],
            "fired": {**self.noted.get("fired", {}), **{k: n for one in done for k, n in one.fired.items()}},
            "since": self.noted.get("since", {}),
            **declared(self.program, self.selects),
        }
        named = {f"slot/{self.slots.name_of(slot)}": path for slot, path in states.items()}
        named |= {f"ids/{number:05d}": path for number, path in enumerate(ids)}
        return self.writer.manifest(
            last_tick=self.last_tick,
            last_seq=max([step.after_seq, *(one.last_seq for one in done)]),
            added=(*(entry for one in done for entry in one.entries), *refused),
            state=named,
            waiting=tuple(waiting.values()),
            offsets=offsets,
            counts=dict(counts),
            program=program_name(self.program.text),
        )

    def _refused(self, step: Step, found: Told, until_us: int) -> tuple[FileEntry, ...]:
        """What was wrong by itself, written by the driver: no slot has it."""
        if not found.refused:
            return ()
        rows = [
            {"tick": until_us, "place": place, "event": event, "reason": reason, "raw": raw}
            for source, number, event, reason, raw in found.refused
            for place in [step.sources.place(step.sources.position(source, number))]
        ]
        columns = {one.name: [row[one.name] for row in rows] for one in of_ticks.REJECTED}
        columns["tick"] = pa.array(columns["tick"], pa.int64()).cast(of_ticks.REJECTED.field("tick").type)
        table = pa.table(columns, schema=of_ticks.REJECTED)
        return (self.lake.files.write_table("rejected", "", table, tag=f"{self.writer.next_commit:012d}-driver"),)

    def sweep(self) -> None:
        """Remove files that no manifest names, at most once an hour; what hinders that is told by a warning."""
        now_seconds = time.monotonic()
        if self._swept_seconds is not None and now_seconds - self._swept_seconds < _SWEEP_EVERY_SECONDS:
            return
        self._swept_seconds = now_seconds
        try:
            done = sweep(self.lake, after=self._swept_after)
        except (LakeError, OSError) as error:
            LOG.warning("files of the lake that nobody names are left where they are: %s", error)
            return
        self._swept_after = done.after
        if done.failed:
            reason = next(iter(done.failed.values()))
            LOG.warning("%s files belong to no commit, and could not be removed: %s", f"{len(done.failed):,}", reason)

    def _upkeep(self) -> None:
        self._commit_upkeep(compaction(self.lake.files, self.writer.snapshot()))
        retain_us = self.program.settings.retain_us
        if retain_us is None or self.last_tick is None:
            return
        # Over the files that are there now: in a busy stream there is always something to be merged.
        files, snapshot, before = self.lake.files, self.writer.snapshot(), self.last_tick - retain_us
        done, order = Upkeep(), order_of(self.program)
        for event_class in (plan.event_class for plan in self.program.classes):
            if retention_pays(files, snapshot, event_class, before):
                done = done.and_then(retention(files, snapshot, event_class, before, order=order))
        self._commit_upkeep(done)

    def _commit_upkeep(self, done: Upkeep) -> None:
        if done:
            self._commit(self.writer.manifest(added=done.added, removed=done.removed))


def _did_nothing(one: SlotDone, step: Step) -> bool:
    return not one.entries and one.state is None and (one.waiting is None) == (one.slot not in step.waiting)


def declared(program: Program, selects: SparkSelects | None) -> dict[str, Any]:
    """What a lake notes of a program, and of how it is cut, to know one day what has changed."""
    names = [one.name for one in received(program)]
    triggers = {key_of(one.name): meaning(dump_trigger(one)) for one in program.triggers}
    told = {"classes": signatures(program), "received": names, "triggers": triggers}
    return {"meaning": meaning(dump_program(program)), "states": STATE_FORMAT, "selects": _by(selects), **told}


def _by(selects: SparkSelects | None) -> SelectsBy:
    return "duckdb" if selects is None else "spark"


def signatures(program: Program) -> dict[str, str]:
    """What a class is, as far as its history depends on it."""
    found = {}
    for plan in program.classes:
        event_class = plan.event_class
        attributes = ", ".join(f"{attribute.name} {attribute.type}" for attribute in event_class.attributes)
        found[event_class.name] = f"{event_class.kind} ({attributes}) ID ({', '.join(event_class.key)})"
    return found


def keeper(
    spark: SparkSession,
    program: Program,
    lake: Lake,
    *,
    backfill_from_us: int | None = None,
    selects: SparkSelects | None = None,
    compile: Compile | None = None,
) -> Keeper:
    """Take over a lake; whoever wrote to it before is refused from now on.

    A changed program goes on as `changing` says; new complex classes are derived from the history, from a time on. So
    does one whose SELECTs are run by another, for it is cut otherwise. `compile` reads the program before.
    Raises `OtherProgram`, `CannotGoOn`, `CorruptFile` and `NewerFormat` before anything is written.
    """
    require_chronon(program, lake)
    require_whole(lake)
    last = lake.last()
    noted = {} if last is None else last.offsets or {}
    # States of another format are no longer read, and are worked out again like those of another program.
    before = (noted.get("meaning"), noted.get("states"), noted.get("selects", "duckdb"))
    is_changed = last is not None and before != (meaning(dump_program(program)), STATE_FORMAT, _by(selects))
    if last is not None and is_changed:
        require_fit(lake, last, signatures(program))
    slots = slots_on_spark(program, lake.about.buckets, selects)
    lake.keep_program(program.text)
    writer, name = lake.writer(), name_of(slots)
    if is_changed:
        said = declared(program, selects)
        go_on(spark, lake, writer, slots, name, program.text, said, backfill_from_us, selects, compile)
    last = writer.last
    found = Keeper(spark, program, lake, writer, slots, name, None if last is None else last.last_tick)
    found.selects = selects
    found.recall_states()
    found.sweep()
    return found


def require_chronon(program: Program, lake: Lake) -> None:
    """Raise `OtherProgram` where a lake has other ticks."""
    chronon_us, other_us = program.settings.chronon_us, lake.about.chronon_us
    if chronon_us != other_us:
        told = f"{show_duration(other_us)}, and in this one {show_duration(chronon_us)}"
        raise OtherProgram(
            f"the lake `{lake.path}` is of a program in which a chronon has {told}: set it as it was, or give another "
            "folder; nothing was changed"
        )


def require_whole(lake: Lake) -> None:
    """Raise `CorruptFile` where a file that the next step reads is damaged or gone."""
    last = lake.snapshot().manifest
    for path in () if last is None else sorted({*last.state.values(), *last.waiting}):
        lake.files.read_bytes(path)


def meaning(dumped: str) -> str:
    """What tells a program, or a part of one, from others, however it is written."""
    return hashlib.sha256(dumped.encode()).hexdigest()

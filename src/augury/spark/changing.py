"""A changed program on the lake of the one before: what stays, what is worked out again, and what cannot go on.

In: a lake and a program that means something else than the one that wrote to it. Out: a commit after which the lake is
the new program's. Shards of which the program says the same keep their states. The others are run again, over the
history of what came in: their complex classes get it anew, all that is new from a chosen time on, and no action fires.
A class that is declared otherwise than its history was written stops all of this, before anything is changed.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from augury.algebra.program import Program
from augury.engine.chronon import QueuedPost
from augury.engine.failing import Failures
from augury.engine.firing import post_text, read_post
from augury.engine.grafting import grafted, triggers_grafted
from augury.engine.history_rows import integers, one_chunk, versions_in
from augury.engine.ledger import Ledger, history_order, ledger_of
from augury.engine.ports import Selects
from augury.engine.sharded import GENERATIONS_MAX, Slots, split
from augury.engine.snapshot import STATE_FORMAT, saved_state, ticks_again
from augury.engine.state import initial
from augury.engine.steps import posted_rows
from augury.engine.tick import Ports, next_tick
from augury.engine.ticked import ClassVersions
from augury.engine.triggering import begin_later
from augury.event import ClassKind, EventClass, key_of
from augury.history.coming import received
from augury.history.typed import Part
from augury.kernels.bitemporal import NEVER
from augury.lake import FileEntry, Kind, Lake, LakeError, LakeFiles, Manifest, Writer, program_name
from augury.lake.order import conformed
from augury.spark.arriving import Batches, Source, arrivals_of, packed, sources_of
from augury.spark.inherited import Compile, Inherited, inherited
from augury.spark.selects import SparkSelects
from augury.spark.slots import (
    DONE,
    RESULTS,
    SPARK_RESULTS,
    SlotDone,
    Step,
    done_in,
    failures_of,
    kit_of,
    packed_again,
    result,
    told_of,
    written,
)
from augury.spark.stepping import for_slots, unforeseen


class CannotGoOn(LakeError):
    """A lake that a program cannot go on with; the message says why and what to do. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Slots → their states after the last tick, from the history of what came in; and what they derive on the way.

    `files` has the files of each class that comes in, `whole` the complex classes that had a history before: of others
    only what is derived from `from_us` on is written. `since` has by key the tick up to which a trigger has seen
    nothing, and `fired` how often each name has fired. `goes_on` says which classes keep their states where the history
    is not whole. `selects` runs SELECTs where it is called on the driver.
    """

    step: Step
    commit: int
    files: Mapping[str, tuple[str, ...]]
    whole: frozenset[str]
    from_us: int | None
    since: Mapping[str, int] = field(default_factory=dict)
    fired: Mapping[str, int] = field(default_factory=dict)
    goes_on: Inherited | None = None
    selects: Selects | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Rebuild slot by slot."""
        for batch in batches:
            for slot in batch.column("slot").to_pylist():
                failures = failures_of(self.step, kit_of(self.step, slot, self.selects), slot)
                yield result(DONE, "", pickle.dumps(self._rebuilt(slot, failures)))
                yield from told_of(failures)

    def _rebuilt(self, slot: int, failures: Failures | None) -> SlotDone:
        step = self.step
        kit, lake = kit_of(step, slot, self.selects), LakeFiles(step.root)
        state = initial(kit.plan, step.slots.after_number(slot, step.generation))
        reads: dict[int, list[ClassVersions]] = {} if step.first_tick is None else {step.first_tick: []}
        for event_class in received(kit.program):
            for tick, versions in self._read(lake, slot, event_class):
                reads.setdefault(tick, []).append(versions)
        in_order = ((tick, tuple(reads[tick])) for tick in sorted(reads))
        done = []
        for one in ticks_again(kit.plan, state, in_order, step.until_us, Ports(kit.selects, failures=failures)):
            done.append(one)
            begin_later(kit.plan, state, self.since)
        grown = [] if self.goes_on is None else list(self.goes_on.grown(slot, lake))
        if self.goes_on is not None and grown:
            triggers = triggers_grafted(kit.plan, state, grown, self.since)
            state = grafted(kit.plan, state, grown, self.goes_on.kept)
            state.triggers = triggers
        if kit.plan.triggers:
            state.triggers.fired = dict(self.fired)
        state.seq = max(state.seq, step.after_seq)
        tag = f"{self.commit:012d}-{slot:05d}"
        ledger = self._derived(ledger_of(kit.program, done), kit.program)
        path = lake.write_bytes("state", tag, saved_state(kit.plan, state)) if done or grown else None
        live = sum(len(one.view) for one in state.classes)
        entries = tuple(written(lake, tag, kit, ledger))
        due = next_tick(kit.plan, state)
        return SlotDone(slot, entries, path, None, frozenset(), None, {}, state.seq, live, due)

    def _read(self, lake: LakeFiles, slot: int, event_class: EventClass) -> Iterator[tuple[int, ClassVersions]]:
        paths = self.files.get(key_of(event_class.name), ())
        if not paths:
            return
        table = pa.concat_tables(
            [conformed(lake.read_table(path), event_class) for path in paths], promote_options="permissive"
        )
        whole = self.step.slots.program
        code = next(i for i, c in enumerate(received(whole)) if key_of(c.name) == key_of(event_class.name))
        values = tuple(one_chunk(table[attribute.name]) for attribute in event_class.attributes)
        nothing = np.zeros(table.num_rows, np.int64)
        own = self.step.slots.slots_of(code, Part(values, nothing, nothing, None, None)) == slot
        table = table.filter(pa.array(own))
        yield from versions_in(event_class, table.take(pa.array(history_order(event_class, table, by_key=False))))

    def _derived(self, ledger: Ledger, program: Program) -> Ledger:
        """What is new in the ledger: complex events, and no action."""
        goes_on = frozenset[str]() if self.goes_on is None else self.goes_on.kept
        classes = [plan.event_class for plan in program.classes if key_of(plan.event_class.name) not in goes_on]
        anew = {one.name for one in classes if one.kind is ClassKind.COMPLEX}

        def kept(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
            found = {name: table for name, table in tables.items() if name in anew}
            return {name: some for name, table in found.items() if (some := self._since(name, table)).num_rows}

        return Ledger(versions=kept(ledger.versions), archive=kept(ledger.archive))

    def _since(self, name: str, table: pa.Table) -> pa.Table:
        if self.from_us is None or key_of(name) in self.whole:
            return table
        ticks = integers(table.column(1))
        return table.filter(pa.array(ticks >= self.from_us))


@dataclass(frozen=True, slots=True)
class Changed:
    """What a new program means for a lake: slots to be run again, and complex classes that get their history anew."""

    slots: tuple[int, ...]
    classes: tuple[str, ...] = field(default=())


def require_fit(lake: Lake, last: Manifest, signatures: Mapping[str, str]) -> None:
    """Raise `CannotGoOn` if a class is declared otherwise than its history was written; all such at once."""
    before: Mapping[str, str] = (last.offsets or {}).get("classes", {})
    known = {key_of(name): (name, said) for name, said in before.items()}
    other = [
        f"`{name}` is {said} now, and was {known[key_of(name)][1]}"
        for name, said in signatures.items()
        if key_of(name) in known and known[key_of(name)][1] != said
    ]
    if other:
        raise CannotGoOn(
            f"the lake `{lake.path}` cannot go on with this program: {'; '.join(other)}. Declare them as they were, or "
            "give what changed another name (it is then derived from the history), or take another folder"
        )


def changed(slots: Slots, last: Manifest) -> Changed:
    """The slots of which the lake has no state that can be read, be their shard new to it or not; and their classes."""
    is_read = (last.offsets or {}).get("states") == STATE_FORMAT
    shards = {
        shard
        for shard in range(len(slots.shards))
        if not is_read
        or not any(f"slot/{slots.name_of(slot)}" in last.state for slot in range(*slots.starts[shard : shard + 2]))
    }
    found = tuple(slot for slot in range(len(slots)) if slots.shard_of(slot) in shards)
    plans = [slots.program.classes[place] for shard in sorted(shards) for place in slots.shards[shard].places]
    derived = tuple(p.event_class.name for p in plans if p.event_class.kind is ClassKind.COMPLEX)
    return Changed(found, derived)


def go_on(
    spark: SparkSession,
    lake: Lake,
    writer: Writer,
    slots: Slots,
    name: str,
    program_text: str,
    noted: Mapping[str, Any],
    from_us: int | None,
    selects: SparkSelects | None = None,
    compile: Compile | None = None,
) -> Manifest | None:
    """Make the lake the new program's, by one commit; None if there is nothing to do. Raises `CannotGoOn`."""
    last = writer.last
    if last is None or last.last_tick is None:
        return None
    todo = changed(slots, last)
    before: Mapping[str, Any] = last.offsets or {}
    generation = int(before.get("generation", 0)) + 1
    if generation >= GENERATIONS_MAX:
        raise CannotGoOn(f"the lake `{lake.path}` has seen {generation:,} programs: take another folder")
    snapshot = writer.snapshot()
    names = [c.name for c in received(slots.program)]
    files = {key_of(name): tuple(entry.path for entry in snapshot.of(Kind.HISTORY, name)) for name in names}
    goes_on = _going_on(lake, last, slots, todo, snapshot.files, compile)
    had = frozenset(key_of(e.event_class) for e in snapshot.files if e.kind is Kind.HISTORY)
    first = before.get("first_tick")
    step = Step(slots, name, sources_of({}), last.last_tick, first, lake.path, generation=generation)
    step = replace(step, after_seq=last.last_seq)
    done: list[SlotDone] = []
    if todo.slots:
        since = _since(last, noted["triggers"])
        fired = before.get("fired", {})
        rebuild = Rebuild(step, writer.next_commit, files, had, from_us, since, fired, goes_on)
        done = _done(spark, rebuild, todo.slots, selects)
    states = {k: path for k, path in last.state.items() if k.startswith("ids/")}
    filed = {slot: f"slot/{slots.name_of(slot)}" for slot in range(len(slots))}
    states |= {name: last.state[name] for s, name in filed.items() if name in last.state and s not in todo.slots}
    states |= {filed[one.slot]: one.state for one in done if one.state is not None}
    replaced = {key_of(name) for name in todo.classes} - (frozenset() if goes_on is None else goes_on.kept)
    kinds = (Kind.HISTORY, Kind.ARCHIVE, Kind.PURGED, Kind.NUMBERS)
    gone = tuple(e.path for e in snapshot.files if e.kind in kinds and key_of(e.event_class) in replaced)
    waiting, waits_for, first_us = _waiting_anew(lake, slots, last, writer.next_commit)
    offsets = {
        **before,
        **noted,
        "since": _since(last, noted["triggers"]),
        "generation": generation,
        "waiting": {str(slot): path for slot, path in waiting.items()},
        "waiting_for": waits_for,
        "waiting_from": first_us,
        "next_due": min([int(before.get("next_due", NEVER)), *(one.next_due for one in done)]),
        "posts": [post_text(one) for one in _posts(slots, last)] if len(slots) == 1 else [],
        "rebuilt": sorted(name for name in todo.classes if key_of(name) in replaced),
    }
    manifest = writer.manifest(
        added=tuple(entry for one in done for entry in one.entries),
        removed=gone,
        state=states,
        waiting=tuple(waiting.values()),
        offsets=offsets,
        program=program_name(program_text),
    )
    writer.commit(manifest)
    return manifest


def _done(spark: SparkSession, rebuild: Rebuild, slots: Sequence[int], selects: SparkSelects | None) -> list[SlotDone]:
    """Rebuild slots, and again where SELECTs failed that others have to know of; what was in vain nobody names."""
    while True:
        rows = _rows_of(spark, rebuild, slots, selects)
        further = unforeseen(rebuild.step, rows)
        if further is None:
            return done_in(rows)
        rebuild = replace(rebuild, step=further)


def _rows_of(spark: SparkSession, rebuild: Rebuild, slots: Sequence[int], selects: SparkSelects | None) -> pa.Table:
    """Rebuild slots: in workers, and on the driver those that need a session for their SELECTs."""
    own = rebuild.step.slots.selecting() if selects is not None else ()
    here, there = [slot for slot in slots if slot in own], [slot for slot in slots if slot not in own]
    found = [pa.Table.from_batches([], RESULTS)]
    if there:
        rows = spark.createDataFrame(for_slots(there, ()))
        tasks = min(len(there), int(spark.conf.get("spark.sql.shuffle.partitions") or 1))
        found.append(rows.repartition(tasks, "slot").mapInArrow(rebuild, SPARK_RESULTS).toArrow().cast(RESULTS))
    if here:
        batches = replace(rebuild, selects=selects)(iter(for_slots(here, ()).to_batches()))
        found.append(pa.Table.from_batches(list(batches), RESULTS))
    return pa.concat_tables(found)


def _since(last: Manifest, triggers: Mapping[str, str]) -> dict[str, int]:
    """By key the last tick that a trigger has not seen: of one that is new or another the last there was."""
    noted: Mapping[str, Any] = last.offsets or {}
    had, since = noted.get("triggers", {}), noted.get("since", {})
    assert last.last_tick is not None
    found = {name: since.get(name) if had.get(name) == said else last.last_tick for name, said in triggers.items()}
    return {name: tick for name, tick in found.items() if tick is not None}


def _going_on(
    lake: Lake, last: Manifest, slots: Slots, todo: Changed, files: Sequence[FileEntry], compile: Compile | None
) -> Inherited | None:
    """What goes on with its state, where versions are no longer kept that it came from; None where all are.

    Raises `CannotGoOn`: nothing can be worked out from what is not there.
    """
    classes: Mapping[str, str] = (last.offsets or {}).get("classes", {})
    came = {key_of(name) for name, said in classes.items() if not said.startswith(str(ClassKind.COMPLEX))}
    rows = [(key_of(e.event_class), e.rows) for e in files if e.kind is Kind.HISTORY and key_of(e.event_class) in came]
    there = sum(count for _, count in rows)
    if not todo.slots or there >= last.last_seq:
        return None
    try:
        return inherited(lake, last, slots, todo.slots, {name for name, _ in rows}.__contains__, compile)
    except ValueError as error:
        raise CannotGoOn(
            f"the lake `{lake.path}` cannot go on with this program: of {last.last_seq:,} versions {there:,} are kept, "
            f"as SET HISTORY RETAIN says, and what was known before is of no use: {error}. Leave the classes that are "
            "there as they were, or take another folder"
        ) from None


def _posts(slots: Slots, last: Manifest) -> list[QueuedPost]:
    """What rules posted at the last tick, of classes that are still there."""
    names = {key_of(one.name) for one in received(slots.program)}
    posts = map(read_post, (last.offsets or {}).get("posts", ()))
    return [one for one in posts if key_of(one.posted.event_class) in names]


_POSTED: Final[Source] = (-1, "rules", -1)
"""Where rows come from that rules have posted: before all others of their time."""


def _waiting_anew(
    lake: Lake, slots: Slots, last: Manifest, commit: int
) -> tuple[dict[int, str], list[Source], int | None]:
    """Rows that wait for their tick, put to the slots that they belong to now; their sources, and when they begin.

    Among them is what rules posted at the last tick, where several slots have to number it.
    """
    noted = last.offsets or {}
    names: Sequence[str] = noted.get("received", ())
    given: list[Source] = [(number, name, part) for number, name, part in noted.get("waiting_for", ())]
    classes = received(slots.program)
    codes = {key_of(c.name): code for code, c in enumerate(classes)}
    pieces: list[tuple[int, bytes]] = []
    for path in last.waiting:
        for code, content in pickle.loads(lake.files.read_bytes(path)):
            if key_of(names[code]) in codes:
                pieces.append((codes[key_of(names[code])], content))
    posts = _posts(slots, last) if len(slots) > 1 else []
    for code, rows in posted_rows(classes, posts).rows.items():
        pieces.append((code, packed(rows, [_POSTED] * len(rows), rows.position)))
    given = sorted({*given, *([_POSTED] if posts else [])})
    sources = sources_of(dict.fromkeys(given, 0))
    came = arrivals_of(slots.program, pieces, list(range(len(codes))), sources)
    found: dict[int, str] = {}
    for slot, some in split(slots, came).items():
        own = slots.codes[slots.shard_of(slot)]
        content = [(own[code], packed_again(sources, rows)) for code, rows in some.rows.items()]
        found[slot] = lake.files.write_bytes("waiting", f"{commit:012d}-{slot:05d}", pickle.dumps(content))
    return found, given, came.first_us()

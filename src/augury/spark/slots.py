"""The engine of a slot in a Spark task: what came to the slot → what its ticks did.

In: pieces of rows, and where the state of the slot lies. Out: which rows it accepts (`Judge`), or what its ticks did
(`Run`), as tables or as files of a lake. The tick itself is `engine.tick`, and nothing here knows more about time than
how far to go.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.failing import Failing, Failures, united
from augury.engine.firing import post_text, read_post
from augury.engine.known import KnownIds as ReadIds
from augury.engine.ledger import Ledger, ledger_of
from augury.engine.plan import CannotRun, EnginePlan, engine_plan, ticks_too_often
from augury.engine.ports import Selects
from augury.engine.sharded import (
    Identified,
    Known,
    Slots,
    absorbing,
    accepted,
    det_times,
    identified,
    numbered,
    parted,
    provisionally,
)
from augury.engine.snapshot import loaded_state, saved_state
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, next_tick, require_few_due, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import Arrivals, ClassRows
from augury.history.schedule import TooManyDue
from augury.history.views import system_names
from augury.kernels.batch import Integers
from augury.kernels.sealed import UnfitState
from augury.lake import CorruptFile, FileEntry, LakeFiles
from augury.lake.damage import corrupt_file
from augury.spark.arriving import NUMBERS, PRESENT, Batches, Source, Sources, arrivals_of, numbers_at, packed, piece
from augury.spark.ids import KnownIds, hashed, in_run
from augury.spark.workers import imports_are_kept

RESULTS: Final = pa.schema([("kind", pa.string()), ("event_class", pa.string()), ("packed", pa.binary())])
SPARK_RESULTS: Final = "kind string, event_class string, packed binary"

VERSIONS: Final = "versions"
ARCHIVE: Final = "archive"
ACTIONS: Final = "actions"
REJECTED: Final = "rejected"
TICKS: Final = "ticks"
FIRINGS: Final = "firings"
DONE: Final = "done"
FAILED: Final = "failed"
"""Which SELECTs have failed in a slot, of those that other slots run as well."""
REFUSED: Final = "refused"
"""In a task something came up that no engine runs, or a damaged file: `packed` says what. Nothing of a step counts."""

REFUSED_CODE: Final = -4
WAITED: Final = -5
"""What `Judge` tells of rows that waited: class, event_id, det_time and position of each that has an id."""
LOOKED: Final = -6
"""What `Judge` tells where it ran SELECTs that other slots run as well: those that have failed."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far the engines of all slots go, and from where.

    `states` has the file of the state of each slot that has one, below `root`, and `waiting` that of rows that came
    before and were not read yet; `ids` are the files of known event_ids, and `known` is what slots have to know of each
    other. `first_tick` is the first tick there was anywhere. `posts` are what rules posted at the last tick, of
    which there are none where there are several slots. `name` is that of the program, so that what is
    made of it once in a process is not made again. In a replay the clock is that of the data, in which a time may be
    far from all others. Where rows `are_numbered`, they were versions before: the number of each in its source is its
    `seq`, and what the clock posted is among them.
    """

    slots: Slots
    name: str
    sources: Sources
    until_us: int
    first_tick: int | None
    root: str = ""
    states: Mapping[int, str] = field(default_factory=dict)
    waiting: Mapping[int, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    generation: int = 0
    after_seq: int = 0
    known: Known = Known()
    posts: tuple[str, ...] = ()
    is_replay: bool = False
    are_numbered: bool = False


@dataclass(frozen=True, slots=True)
class SlotDone:
    """What the engine of a slot did, apart from what it wrote into the entries.

    `posts` are what rules posted at its last tick, for the next to read, and `fired` says how often triggers have.
    """

    slot: int
    entries: tuple[FileEntry, ...]
    state: str | None
    waiting: str | None
    waiting_for: frozenset[Source]
    ids: str | None
    counts: Mapping[str, int]
    last_seq: int
    live: int
    next_due: int
    state_bytes: int = 0
    waiting_from_us: int | None = None
    posts: tuple[str, ...] = ()
    fired: Mapping[str, int] = field(default_factory=dict)


# ---- a slot with its engine --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Kit:
    """What the engine of a slot needs of the part of a program that its shard runs."""

    program: Program
    plan: EnginePlan
    selects: Selects


_PLANS: dict[tuple[str, int], EnginePlan] = {}
_SELECTS: dict[tuple[str, int], Selects] = {}
"""Of this process, which Spark uses again for one task after the other."""


def kit_of(step: Step, slot: int, selects: Selects | None = None) -> Kit:
    """What runs a slot, made when it is first asked for in this process; SELECTs run on DuckDB if none are given."""
    key = (step.name, step.slots.shard_of(slot))
    if key not in _PLANS:
        _PLANS[key] = engine_plan(step.slots.program_of(slot))
    plan = replace(_PLANS[key], clocks=()) if step.are_numbered else _PLANS[key]
    if selects is None:
        if key not in _SELECTS:
            _SELECTS[key] = runnable(plan.program)
        selects = _SELECTS[key]
    return Kit(plan.program, plan, selects)


def _state(step: Step, kit: Kit, slot: int) -> EngineState:
    path = step.states.get(slot)
    if path is None:
        state = initial(kit.plan, step.slots.after_number(slot, step.generation))
        state.seq = step.after_seq
        return state
    files = LakeFiles(step.root)
    content = files.read_bytes(path)
    try:
        state = loaded_state(kit.plan, content)
        state.triggers.pending = [read_post(text) for text in step.posts]
        return state
    except UnfitState as error:
        raise corrupt_file(files.storage(), path, f"cannot be used: {error}") from None


def failures_of(step: Step, kit: Kit, slot: int) -> Failures | None:
    """What a slot is given of SELECTs that fail; None where no other slot runs them."""
    return Failures(kit.plan.chronon_us, step.known.failing or {}) if step.slots.shares_selects(slot) else None


def _ticked(step: Step, kit: Kit, state: EngineState, came: Arrivals, failures: Failures | None = None) -> list[Ticked]:
    ids = ReadIds()  # those of earlier steps come with the rows
    found = []
    plan, ports = kit.plan, Ports(kit.selects, ids, failures=failures)
    first, is_replay = step.first_tick, step.is_replay
    try:
        require_few_due(plan, state, came, step.until_us)
        for one in ticks(plan, state, came, step.until_us, ports, first=first, settles=False, is_replay=is_replay):
            ids.note(one)
            found.append(one)
    except TooManyDue as error:
        raise ticks_too_often(kit.program, error) from None
    return found


@dataclass(frozen=True, slots=True)
class _Held:
    """What a task holds for one slot."""

    pieces: list[tuple[int, bytes]]
    numbers: list[bytes]

    def given(self) -> tuple[Integers, Integers]:
        """The positions of versions and their numbers; a slot has at most one such row."""
        none = np.zeros(0, np.int64)
        found: tuple[Integers, Integers] = pickle.loads(self.numbers[0]) if self.numbers else (none, none)
        return found


def _by_slot(batches: Batches) -> dict[int, _Held]:
    found: dict[int, _Held] = {}
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        for slot, code, content in zip(*columns, strict=True):
            held = found.setdefault(slot, _Held([], []))
            if code == NUMBERS:
                held.numbers.append(content)
            elif code != PRESENT:
                held.pieces.append((code, content))
    return dict(sorted(found.items()))


def _came(step: Step, kit: Kit, slot: int, held: _Held) -> tuple[Arrivals, Arrivals]:
    """What came to a slot that is to be read now, and what waits: its chronon is not over."""
    codes = step.slots.codes[step.slots.shard_of(slot)]
    pieces = [*held.pieces, *_waiting(step, slot)]
    came = absorbing(_known(step, kit, arrivals_of(kit.program, pieces, codes, step.sources)), step.known.absorbed)
    return parted(came, step.until_us)


def _known(step: Step, kit: Kit, came: Arrivals) -> Arrivals:
    known, classes = KnownIds(step.root, step.ids), kit.plan.received_classes
    rows = {code: replace(one, known=known.among(classes[code], one.part.event_id)) for code, one in came.rows.items()}
    return replace(came, rows=rows)


def _waiting(step: Step, slot: int) -> list[tuple[int, bytes]]:
    path = step.waiting.get(slot)
    found: list[tuple[int, bytes]] = [] if path is None else pickle.loads(LakeFiles(step.root).read_bytes(path))
    return found


def as_numbered(came: Arrivals) -> Arrivals:
    """The rows with the numbers that they came with."""
    rows = {code: replace(one, seq=numbers_at(one.position)) for code, one in came.rows.items()}
    return replace(came, rows=rows)


def _ids_waiting(step: Step, kit: Kit, slot: int) -> list[Identified]:
    codes = step.slots.codes[step.slots.shard_of(slot)]
    waited = arrivals_of(kit.program, _waiting(step, slot), codes, step.sources)
    return list(identified(step.slots, slot, waited))


# ---- tasks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Judge:
    """Pieces of some slots → for each the rows that its engine accepts: positions and det_times, as bytes.

    Where it runs SELECTs that other slots run as well, it tells which have failed. `selects` runs SELECTs where it is
    called on the driver.
    """

    step: Step
    selects: Selects | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Judge slot by slot; no state is kept."""
        for slot, held in _by_slot(batches).items():
            kit = kit_of(self.step, slot, self.selects)
            try:
                came, _ = _came(self.step, kit, slot, held)
                position, failing = self._judged(kit, slot, came)
            except (CannotRun, CorruptFile) as error:
                yield piece(slot, REFUSED_CODE, refusal(error))
                return
            yield piece(slot, NUMBERS, pickle.dumps((position, det_times(came, position))))
            if failing is not None:
                yield piece(slot, LOOKED, pickle.dumps(failing))
            if slot in self.step.waiting:
                yield piece(slot, WAITED, pickle.dumps(_ids_waiting(self.step, kit, slot)))

    def _judged(self, kit: Kit, slot: int, came: Arrivals) -> tuple[Integers, Failing | None]:
        """The positions of the rows that are accepted, and which SELECTs fail, if the engine had to be asked."""
        step, failures = self.step, failures_of(self.step, kit, slot)
        is_asked = failures is not None and step.known.failing is not None
        if not is_asked and all(_is_surely_accepted(kit.plan, code, rows) for code, rows in came.rows.items()):
            position = np.concatenate([np.zeros(0, np.int64), *(rows.position for rows in came.rows.values())])
            has_nothing = failures is not None and not len(came) and slot not in step.states
            return np.sort(position), {} if has_nothing else None
        came, position = provisionally(came, step.after_seq)
        done = _ticked(step, kit, _state(step, kit, slot), came, failures)
        return accepted(done, position, step.after_seq), None if failures is None else failures.found()


def _is_surely_accepted(plan: EnginePlan, code: int, rows: ClassRows) -> bool:
    """Whether nothing beside a row can keep it from being a version."""
    # Of a class without a key nothing can be withdrawn.
    part = rows.part
    return not plan.received_classes[code].key and part.event_id is None and part.withdrawal is None


@dataclass(frozen=True, slots=True)
class Run:
    """Pieces of some slots, with the numbers of their versions where there are several slots → what their ticks did.

    `selects` runs SELECTs where it is called on the driver.
    """

    step: Step
    commit: int = 0
    selects: Selects | None = None

    def __call__(self, batches: Batches) -> Batches:
        """Run slot by slot; with a lake the results are written there, and only told."""
        for slot, held in _by_slot(batches).items():
            kit = kit_of(self.step, slot, self.selects)
            try:
                came, waits = _came(self.step, kit, slot, held)
                if self.step.are_numbered:
                    came = as_numbered(came)
                elif len(self.step.slots) > 1:
                    came = numbered(came, *held.given())
                state, failures = _state(self.step, kit, slot), failures_of(self.step, kit, slot)
                done = _ticked(self.step, kit, state, came, failures)
            except (CannotRun, CorruptFile) as error:
                yield result(REFUSED, "", refusal(error))
                return
            yield from told_of(failures)
            ledger = ledger_of(kit.program, done)
            if not self.step.root:
                yield from _as_rows(ledger)
                continue
            yield result(DONE, "", pickle.dumps(self._kept(kit, slot, state, done, ledger, waits)))

    def _kept(
        self, kit: Kit, slot: int, state: EngineState, done: list[Ticked], ledger: Ledger, waits: Arrivals
    ) -> SlotDone:
        files = LakeFiles(self.step.root)
        tag = f"{self.commit:012d}-{slot:05d}"
        entries = list(written(files, tag, kit, ledger))
        path, content = None, b""
        if done:
            content = saved_state(kit.plan, state)
            path = files.write_bytes("state", tag, content)
        waiting = None
        if len(waits):
            codes = self.step.slots.codes[self.step.slots.shard_of(slot)]
            pieces = [(codes[code], packed_again(self.step.sources, one)) for code, one in waits.rows.items()]
            waiting = files.write_bytes("waiting", tag, pickle.dumps(pieces))
        counts = {name: sum(one.counts()[name] for one in done) for name in (done[0].counts() if done else ())}
        live = sum(len(one.view) for one in state.classes)
        ids = [v for one in done for v in one.read if v.event_id is not None]
        run = in_run(hashed(v.event_class, v.event_id.drop_null().to_pylist()) for v in ids if v.event_id is not None)
        kept = files.write_bytes("ids", tag, run) if run else None
        sources = frozenset(self.step.sources.order[int(at)] for at in _sources_in(waits))
        due = next_tick(kit.plan, state)
        first = min((int(rows.part.det_time[0]) for rows in waits.rows.values()), default=None)
        posts = tuple(post_text(one) for one in state.triggers.pending)
        told = (counts, state.seq, live, due, len(content), first, posts, dict(state.triggers.fired))
        return SlotDone(slot, tuple(entries), path, waiting, sources, kept, *told)


def written(files: LakeFiles, tag: str, kit: Kit, ledger: Ledger) -> Iterator[FileEntry]:
    """Write a ledger into a lake."""
    classes = {plan.event_class.name: plan.event_class for plan in kit.plan.classes}
    for name, table in ledger.versions.items():
        yield files.write_table("history", classes[name], table, tag=tag)
    for name, table in ledger.archive.items():
        if kit.program.settings.archive:
            yield files.write_table("archive", classes[name], table, tag=tag)
        else:
            names = system_names(classes[name])
            left = table.select([names.number, names.tick]).rename_columns(["number", "tick"])
            yield files.write_table("purged", name, left, tag=tag)
    for trigger in kit.program.triggers:
        if trigger.name in ledger.firings:
            yield files.write_firings(trigger, ledger.firings[trigger.name], tag=tag)
    for kind, table in (("actions", ledger.actions), ("rejected", ledger.rejected), ("ticks", ledger.ticks)):
        if table.num_rows:
            yield files.write_table(kind, "", table, tag=tag)


def _sources_in(came: Arrivals) -> Integers:
    return np.unique(np.concatenate([np.zeros(0, np.int64), *(one.position >> 40 for one in came.rows.values())]))


def packed_again(sources: Sources, rows: ClassRows) -> bytes:
    """Rows that were unpacked, as bytes again."""
    given: list[Source] = [sources.order[int(at)] for at in rows.position >> 40]
    return packed(rows, given, rows.position & ((1 << 40) - 1))


def _as_rows(ledger: Ledger) -> Iterator[pa.RecordBatch]:
    for kind, tables in ((VERSIONS, ledger.versions), (ARCHIVE, ledger.archive), (FIRINGS, ledger.firings)):
        for name, table in tables.items():
            yield result(kind, name, ipc_bytes(table))
    for kind, table in ((ACTIONS, ledger.actions), (REJECTED, ledger.rejected), (TICKS, ledger.ticks)):
        if table.num_rows:
            yield result(kind, "", ipc_bytes(table))


def told_of(failures: Failures | None) -> Iterator[pa.RecordBatch]:
    """Which SELECTs have failed in a slot, where others have to hear of it."""
    if failures is not None and (found := failures.found()):
        yield result(FAILED, "", pickle.dumps(found))


def failing_in(rows: pa.Table) -> Failing:
    """Which SELECTs have failed in some slot, as results tell."""
    return united(
        pickle.loads(content) for content in rows.filter(pc.equal(rows["kind"], FAILED))["packed"].to_pylist()
    )


def result(kind: str, event_class: str, content: bytes) -> pa.RecordBatch:
    """One row of the shape RESULTS."""
    values = [pa.array([value], of) for value, of in zip((kind, event_class, content), RESULTS.types, strict=True)]
    return pa.RecordBatch.from_arrays(values, schema=RESULTS)


def require_run(rows: pa.Table) -> None:
    """Raise `CannotRun` if a task found something that no engine runs, and `CorruptFile` if it could not read one."""
    for content in rows.filter(pc.equal(rows["kind"], REFUSED))["packed"].to_pylist():
        raise refused(content)


def done_in(rows: pa.Table) -> list[SlotDone]:
    """What tasks did that wrote into a lake; raises `CannotRun`, `CorruptFile`."""
    require_run(rows)
    return [pickle.loads(content) for content in rows.filter(pc.equal(rows["kind"], DONE))["packed"].to_pylist()]


def refusal(error: CannotRun | CorruptFile) -> bytes:
    """Why a task did not do what it should, as bytes."""
    return pickle.dumps(error if isinstance(error, CorruptFile) else error.diagnostics)


def refused(content: bytes) -> CannotRun | CorruptFile:
    """The same again."""
    found = pickle.loads(content)
    return found if isinstance(found, CorruptFile) else CannotRun(found)


def ipc_bytes(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def ipc_table(content: bytes) -> pa.Table:
    """The table again."""
    return pa.ipc.open_stream(content).read_all()


imports_are_kept()

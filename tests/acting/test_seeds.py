"""A thousand worlds: detectors, an engine and a deliverer, among delays, failures, lost answers and crashes.

Each seed decides a random program, its events, and everything that goes wrong; in the end the history, the occurrences
and the actions are those of the reference, every action was carried out or is a dead letter with its reason, and those
of one event came in order. The seed that fails is in the message: `one_world(SEED)` has it again, instant by instant.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from augury.actions.deliver import Carrier, Deliverer, Ends
from augury.actions.outbox import MemoryOutbox
from augury.actions.webhook import Webhook
from augury.algebra.wiring import Detection, SourceKind
from augury.api import compile
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.detectors.sensor import SourceFailed
from augury.detectors.sinks import EngineSink, NotTaken
from augury.engine.ports import Post, Snapshot
from augury.engine.tick import tick_at_most, tick_reading
from augury.engine.ticked import Ticked
from augury.environment import Request, Response
from augury.kernels.reference.bitemporal import Raw, Run
from augury.local.running import LocalEngine
from augury.local.store.errors import StoreError, StoreFailed
from augury.local.store.memory import MemoryStore
from augury.local.store.waiting import State, Wanted
from augury.simulated import Faults, World
from tests.bitemporal.corpus import json_of
from tests.bitemporal.generate import Generated, generate, generate_mixed
from tests.bitemporal.local import run_of
from tests.bitemporal.test_reference import reference
from tests.bitemporal.told import difference

TARGET = "http://target.example"
WORLDS, BLOCKS = 1_000, 10


class FailingStore(MemoryStore):
    """A store that outlives engines, and at times fails: before it wrote something, or when it was to say so."""

    def __init__(self, case: Generated, world: World, chance: float) -> None:
        super().__init__(case.program)
        self.world, self.chance = world, chance
        self.lines: dict[int, str] = {}

    def append(self, posts: Sequence[Post]) -> list[int]:
        self._may_fail()
        places = super().append(posts)
        self.lines.update(zip(places, (post.line for post in posts), strict=True))
        self._may_fail()
        return places

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        self._may_fail()
        super().commit(ticks, taken, snapshot)
        self._may_fail()

    def _may_fail(self) -> None:
        if self.world.happens(self.chance):
            raise StoreFailed("the disk is away just now")


@dataclass
class Target:
    """Who gets the actions: answers by chance, and remembers what it has done."""

    world: World
    done: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)

    def __call__(self, asked: Request) -> Response:
        key, chance = asked.headers["idempotency-key"], self.world.random.random()
        if chance < 0.15:
            return Response(503)
        if chance < 0.2:
            return Response(429, {"retry-after": str(self.world.random.randrange(100))})
        if chance < 0.22 and key not in self.done:
            self.refused.add(key)
            return Response(422)
        if key not in self.done:
            self.done.append(key)
        return Response(204)


@dataclass
class Life:
    """A program at work in a world; what crashes is made anew from what was kept."""

    world: World
    case: Generated
    raws: tuple[Raw, ...]
    store: FailingStore
    target: Target
    outbox: MemoryOutbox = field(default_factory=MemoryOutbox)
    crashes: int = 0
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.network.hosts["target.example"] = self.target
        self.names = sorted({raw.event_class for raw in self.raws})
        for name in self.names:
            self.world.files.append(f"in/{name}.jsonl", b"")
        self.engine = self._engine()

    def _engine(self) -> LocalEngine:
        return LocalEngine(
            self.case.program, self.store, snapshot_versions_min=self.world.random.choice([1, 8, 10_000])
        )

    def crash(self) -> bool:
        """Whether what is at work dies now."""
        dies = self.world.happens(0.2)
        self.crashes += dies
        return dies

    async def lead(self) -> None:
        """Let all events come, tick by tick, and carry out what fires meanwhile; then all that is left."""
        chronon_us = self.case.program.settings.chronon_us
        delivering = asyncio.create_task(self.deliver_for_ever())
        by_tick: dict[int, list[Raw]] = {}
        for raw in self.raws:
            by_tick.setdefault(tick_reading(raw.det_time or 0, chronon_us), []).append(raw)
        last = tick_at_most(self.case.until, chronon_us)
        for tick in sorted({*by_tick, last}):
            if tick <= last:
                self.come(by_tick.get(tick, ()))
                await self.sense()
                await self.advance(tick)
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        await self.deliverer().run(Ends.SETTLED)

    def come(self, raws: Sequence[Raw]) -> None:
        for raw in raws:
            row = json.dumps(json_of(self.case.program, raw))
            self.world.files.append(f"in/{raw.event_class}.jsonl", f"{row}\n".encode())

    async def sense(self) -> None:
        """Let the detector see all that came, and the engine take it, however often that fails."""
        detections = [Detection(name, name, SourceKind.FILE, f"in/{name}.jsonl") for name in self.names]
        while True:
            try:
                sinks = {"engine": EngineSink(self.engine, "engine")}
                detectors = opened(self.case.program, self.world, detections)
                looking = Detectors(detectors, sinks, "state", self.world, report=self.reports.append)
                await looking.run_once()
                return
            except (SourceFailed, NotTaken, OSError):
                await self.world.sleep(self.world.random.uniform(0, 10))
            if self.crash():
                self.engine = self._engine()

    async def advance(self, tick: int) -> None:
        while True:
            if self.crash():
                self.engine = self._engine()
            try:
                self.engine.advance_to(tick)
                break
            except StoreError:
                await self.world.sleep(self.world.random.uniform(0, 10))
        for one in self.store.ticks:
            self.outbox.add(one.action_rows())

    async def deliver_for_ever(self) -> None:
        """A deliverer, and after each crash another."""
        while True:
            seconds = self.world.random.uniform(0, 100)
            try:
                async with asyncio.timeout(seconds):
                    await self.deliverer().run(Ends.NEVER)
            except TimeoutError:
                self.crashes += 1

    def deliverer(self) -> Deliverer:
        carrier = Carrier(Webhook(TARGET, 10.0, is_public=False), retries=1_000)
        names = {statement.name for plan in self.case.program.classes for statement in _actions(plan)}
        return Deliverer(self.outbox, dict.fromkeys(names, carrier), self.world, look_seconds=5.0)


def _actions(plan):
    return [action for statement in plan.statements for action in statement.actions]


def case_of(seed: int) -> tuple[Generated, tuple[Raw, ...]]:
    """A program and its events in order of time, each with an id and a time of its own: repeats are absorbed."""
    case = generate_mixed(seed) if seed % 8 == 0 else generate(seed)
    if seed % 4:  # a DuckDB for every engine and every tick would take most of the time
        plain = case.text.partition("CREATE COMPLEX")[0]
        case = replace(case, text=plain, program=compile(plain), selects={})
    timed = sorted((raw for raw in case.raws if raw.det_time is not None), key=lambda raw: raw.det_time or 0)
    raws = [replace(r, event_id=f"e{n}", det_time=(r.det_time or 0) + n) for n, r in enumerate(timed)]
    return case, tuple(raws)


def one_world(seed: int) -> Life:
    """The world of a seed, lived to its end and compared with the reference."""
    world = World(seed)
    calm = world.random.random()
    world.faults = Faults(0.2 * calm, 0.2 * calm, 0.05 * calm, 20.0 * calm)
    case, raws = case_of(seed)
    life = Life(world, case, raws, FailingStore(case, world, 0.1 * calm), Target(world))
    world.live(life.lead())
    _as_the_reference_says(life)
    _all_carried_out(life)
    return life


def _as_the_reference_says(life: Life) -> None:
    by_id = {raw.event_id: raw for raw in life.raws}
    found = run_of(
        life.case.program,
        life.engine._plan,
        life.engine._state,
        life.store.ticks,
        lambda place: by_id[json.loads(life.store.lines[int(place.rsplit(":", 1)[1])])["event_id"]],
    )
    parts = difference(_once(reference(life.case.program, life.raws, life.case.until)), _once(found))
    assert not parts, parts


def _once(run: Run) -> Run:
    """A run without what repeats add to it; of a class what has no `seq` is told by key or by place, as one likes."""
    ticks = (
        replace(
            one,
            rejected=tuple(dict.fromkeys(one.rejected)),
            absorbed=(),
            published=tuple(sorted(one.published, key=lambda v: (v.event_class, v.seq or 0, repr(v.values)))),
        )
        for one in run.ticks
    )
    return replace(run, ticks=tuple(ticks))


def _all_carried_out(life: Life) -> None:
    listed = list(life.outbox.listed(Wanted()))
    assert [one.action.idempotency_key for one in listed] == [
        action.idempotency_key for one in life.store.ticks for action in one.action_rows()
    ]
    for one in listed:
        key = one.action.idempotency_key
        if one.state is State.DEAD:
            assert key in life.target.refused, f"{key}: {one.reason}"
            assert "422" in one.reason
        else:
            assert one.state is State.DELIVERED, one
            assert key in life.target.done, "what is said to be carried out was"
    of_event: dict[object, list[str]] = {}
    for one in listed:
        of_event.setdefault(one.action.event_known_by, []).append(one.action.idempotency_key)
    place = {key: number for number, key in enumerate(life.target.done)}
    for keys in of_event.values():
        came = [place[key] for key in keys if key in place]
        assert came == sorted(came), "those of one event come in order"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_goes_wrong_the_end_is_as_the_reference_says(block: int) -> None:
    crashes = 0
    for seed in range(block * WORLDS // BLOCKS, (block + 1) * WORLDS // BLOCKS):
        try:
            crashes += one_world(seed).crashes
        except BaseException as error:
            error.add_note(f"seed {seed}: tests.acting.test_seeds.one_world({seed})")
            raise
    assert crashes > WORLDS // BLOCKS, "something did go wrong"


def test_a_world_can_be_had_again() -> None:
    for seed in (1, 2, 3):
        one, other = one_world(seed), one_world(seed)
        assert one.world.now_us() == other.world.now_us()
        assert one.target.done == other.target.done
        assert one.crashes == other.crashes

"""A thousand worlds: detectors, a live engine and a deliverer, among delays, failures, lost answers and crashes.

Each seed decides a random program, its events, and everything that goes wrong: the engine follows the clock of its
world, its store fails before or after it wrote, the process dies in the middle of that or between two instants, and
another takes up what it left. In the end the history, the occurrences and the actions are those of the reference over
what was posted, every action was carried out or is a dead letter with its reason, and those of one event came in
order. The seed that fails is in the message: `one_world(SEED)` has it again, instant by instant.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from augury.actions.deliver import Carrier, Deliverer, Ends
from augury.actions.outbox import MemoryOutbox
from augury.actions.webhook import Webhook
from augury.algebra.wiring import Detection, SourceKind
from augury.api import compile
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.detectors.sinks import EngineSink
from augury.engine.lines import tick_lines
from augury.engine.plan import engine_plan
from augury.engine.ports import Post, Snapshot
from augury.engine.state import initial
from augury.engine.ticked import Ticked
from augury.environment import Request, Response
from augury.history.values import as_microseconds
from augury.kernels.reference.bitemporal import Raw, Run, run
from augury.kernels.reference.bitemporal.resolution import arrived, timed
from augury.local.running import LocalEngine
from augury.local.store.errors import StoreFailed
from augury.local.store.memory import MemoryStore
from augury.local.store.waiting import State, Wanted
from augury.simulated import Faults, World
from tests.bitemporal.corpus import json_of
from tests.bitemporal.duck import selects_of
from tests.bitemporal.generate import SECOND, Generated, generate, generate_mixed
from tests.bitemporal.local import run_of
from tests.bitemporal.told import difference

TARGET = "http://target.example"
WORLDS, BLOCKS = 1_000, 10
LONGEST_SECONDS = 3_600
"""Within that all events have come and were read, in every world."""


class Died(BaseException):
    """The process is gone, here and now."""


class FailingStore(MemoryStore):
    """A store that outlives engines, and at times fails, or the process with it: before it wrote something, or after.

    It remembers who was told what, and when: `diary`.
    """

    def __init__(self, case: Generated, world: World, chance: float) -> None:
        super().__init__(case.program)
        self.world, self.chance = world, chance
        self.outbox = MemoryOutbox()
        self.posted: dict[int, dict[str, Any]] = {}
        self.taken: dict[int, int] = {}
        """By place, the tick that was the last when another took it."""
        self.started = self.since = 0
        self.diary: list[tuple[int, object]] = []

    def append(self, posts: Sequence[Post]) -> list[int]:
        self._may_fail()
        places = super().append(posts)
        self.posted.update(zip(places, (json.loads(post.line) for post in posts), strict=True))
        self.diary.append((self.world.now_us(), list(posts)))
        self._may_fail()
        return places

    def commit(self, ticks: Sequence[Ticked], taken: Sequence[int] = (), snapshot: Snapshot | None = None) -> None:
        self._may_fail()
        last = self.last_tick()
        super().commit(ticks, taken, snapshot)
        if last is None:
            last = self.since = self.started
        self.taken.update(dict.fromkeys(taken, last))
        for one in ticks:
            self.outbox.add(one.action_rows())
            self.diary.append((self.world.now_us(), one))
        self._may_fail()

    def _may_fail(self) -> None:
        if self.world.happens(self.chance):
            self.diary.append((self.world.now_us(), "it failed"))
            raise StoreFailed("the disk is away just now")
        if self.world.happens(self.chance / 2):
            self.diary.append((self.world.now_us(), "it died"))
            raise Died


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
    """A program at work in a world; what dies is made anew from what was kept."""

    world: World
    case: Generated
    raws: tuple[Raw, ...]
    store: FailingStore
    target: Target
    crashes: int = 0
    reports: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.network.hosts["target.example"] = self.target
        self.names = sorted({raw.event_class for raw in self.raws})
        self.ids = {raw.event_id for raw in self.raws}
        self.over = asyncio.Event()
        for name in self.names:
            self.world.files.append(f"in/{name}.jsonl", b"")

    async def lead(self) -> None:
        """Let all events come, and one process after the other read them and act; then carry out what is left."""
        coming = asyncio.create_task(self.come())
        async with asyncio.timeout(LONGEST_SECONDS):
            while not self.over.is_set():
                await self.be_at_work(self.world.random.uniform(0, 120))
                await self.world.sleep(self.world.random.choice([0, self.world.random.uniform(0, 20)]))
        await coming
        await self.deliverer().run(Ends.SETTLED)

    async def come(self) -> None:
        """Events appear where detectors look, around the time that some of them claim as theirs."""
        for raw in self.raws:
            assert raw.det_time is not None
            at = raw.det_time + int(self.world.random.uniform(-5, 5) * SECOND)
            await self.world.sleep((at - self.world.now_us()) / SECOND)
            row = json_of(self.case.program, raw)
            if self.world.happens(0.3):
                del row["det_time"]  # it is that of who sees it
            self.world.files.append(f"in/{raw.event_class}.jsonl", f"{json.dumps(row)}\n".encode())

    async def be_at_work(self, seconds: float) -> None:
        """A process: it goes on for so long, or until it dies."""
        world, chronon_us = self.world, self.case.program.settings.chronon_us
        engine = LocalEngine(
            self.case.program,
            self.store,
            environment=world,
            snapshot_versions_min=world.random.choice([1, 5, 10_000]),
        )
        try:
            detectors = self.detectors(engine)
        except OSError:
            return  # what it remembers cannot be read just now
        # What was posted to one that died before its first tick keeps its time.
        began = min([world.now_us(), *(post.det_time for _, post in self.store.waiting())])
        self.store.started = began // chronon_us * chronon_us
        engine.when_kept = self.look
        works = [engine.follow(), detectors.run(), self.deliverer().run(Ends.NEVER), self.over.wait()]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            self.crashes += not done
        except Died:
            self.crashes += 1
        finally:
            self.reports += engine.reports
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def look(self) -> None:
        """Note when all that came was read, and time has gone as far as it should."""
        store, last = self.store, self.store.last_tick()
        if last is None or last < self.case.until:
            return
        if {store.posted[place]["event_id"] for place in store.taken} == self.ids:
            self.over.set()

    def detectors(self, engine: LocalEngine) -> Detectors:
        every_us = self.world.random.randrange(2, 10) * SECOND
        detections = [Detection(name, name, SourceKind.FILE, f"in/{name}.jsonl", every_us) for name in self.names]
        sinks = {"engine": EngineSink(engine, "engine")}
        return Detectors(
            opened(self.case.program, self.world, detections), sinks, "state", self.world, report=self.reports.append
        )

    def deliverer(self) -> Deliverer:
        carrier = Carrier(Webhook(TARGET, 10.0, is_public=False), retries=1_000)
        names = {statement.name for plan in self.case.program.classes for statement in _actions(plan)}
        return Deliverer(self.store.outbox, dict.fromkeys(names, carrier), self.world, look_seconds=5.0)


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


def lived(seed: int) -> Life:
    """The world of a seed, lived to its end."""
    case, raws = case_of(seed)
    world = World(seed, now=(raws[0].det_time or 0) - seed % 7 * SECOND)
    calm = world.random.random()
    world.faults = Faults(0.2 * calm, 0.2 * calm, 0.05 * calm, 20.0 * calm)
    life = Life(world, case, raws, FailingStore(case, world, 0.1 * calm), Target(world))
    world.live(life.lead())
    return life


def one_world(seed: int) -> Life:
    """The world of a seed, lived to its end and compared with the reference."""
    life = lived(seed)
    _as_the_reference_says(life)
    _all_carried_out(life)
    return life


def _as_the_reference_says(life: Life) -> None:
    """What ticks did is what the reference says of all that was posted, each with the time that it got."""
    program, store = life.case.program, life.store
    by_id = {raw.event_id: raw for raw in life.raws}
    read = {place: _as_read(store.posted[place], by_id, last) for place, last in sorted(store.taken.items())}
    assert {raw.event_id for raw in read.values()} == set(by_id), "all that came was read"
    plan = engine_plan(program)
    found = run_of(program, plan, initial(plan), store.ticks, lambda place: read[int(place.rsplit(":", 1)[1])])
    wanted = run(program, selects_of(program), list(read.values()), store.last_tick(), store.since)
    parts = difference(_sorted(wanted), _sorted(found))
    assert not parts, parts


def _as_read(row: dict[str, Any], by_id: dict[str | None, Raw], last_tick: int) -> Raw:
    claimed = timed(replace(by_id[row["event_id"]], det_time=as_microseconds(row["det_time"])))
    assert claimed is not None
    assert claimed.det_time is not None
    return replace(claimed, det_time=arrived(claimed.det_time, last_tick)[0])


def _sorted(run: Run) -> Run:
    """Of a class what has no `seq` is told by key or by place, as one likes."""
    ticks = (
        replace(one, published=tuple(sorted(one.published, key=lambda v: (v.event_class, v.seq or 0, repr(v.values)))))
        for one in run.ticks
    )
    return replace(run, ticks=tuple(ticks))


def _all_carried_out(life: Life) -> None:
    listed = list(life.store.outbox.listed(Wanted()))
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


def written(life: Life) -> list[tuple[int, object]]:
    """All that happened in a life, and when."""
    shown = {Ticked: lambda one: (one.tick, one.counts(), one.seconds, list(tick_lines(one)))}
    diary = [(now, shown[Ticked](one) if isinstance(one, Ticked) else one) for now, one in life.store.diary]
    return [*diary, (life.world.now_us(), [life.target.done, life.reports, life.crashes])]


def test_a_world_can_be_had_again() -> None:
    lives = {seed: written(lived(seed)) for seed in range(8)}
    for seed, life in lives.items():
        assert written(lived(seed)) == life, f"seed {seed}"
    assert sum("it died" in map(str, (what for _, what in life)) for life in lives.values()) > 1
    assert sum("it failed" in map(str, (what for _, what in life)) for life in lives.values()) > 1

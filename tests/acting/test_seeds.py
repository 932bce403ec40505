"""A thousand worlds: detectors, a live engine and a deliverer, among delays, failures, lost answers and crashes.

Each seed decides a random program, its events, and everything that goes wrong: the engine follows the clock of its
world, its store fails before or after it wrote, the process dies in the middle of that or between two instants, and
another takes up what it left. At times two engines are fed by the same detectors. In the end the history, the
occurrences and the actions are those of the reference over what was posted, every action was carried out or is a dead
letter with its reason, and those of one event came in order. The seed that fails is in the message: `one_world(SEED)`
has it again, instant by instant.
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
    """A program at work in a world; what dies is made anew from what was kept.

    Every store has an engine of its own, all fed by the same detectors; the actions of the first are carried out.
    """

    world: World
    case: Generated
    raws: tuple[Raw, ...]
    stores: tuple[FailingStore, ...]
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

    @property
    def store(self) -> FailingStore:
        return self.stores[0]

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
        engines = [self.engine(store) for store in self.stores]
        try:
            detectors = self.detectors(engines)
        except OSError:
            return  # what it remembers cannot be read just now
        works = [
            *(engine.follow() for engine in engines),
            detectors.run(),
            self.deliverer().run(Ends.NEVER),
            self.over.wait(),
        ]
        tasks = [asyncio.create_task(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            self.crashes += not done
        except Died:
            self.crashes += 1
        finally:
            self.reports += [report for engine in engines for report in engine.reports]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def engine(self, store: FailingStore) -> LocalEngine:
        """An engine that goes on where the last one of its store ended."""
        world, chronon_us = self.world, self.case.program.settings.chronon_us
        least = world.random.choice([1, 5, 10_000])
        engine = LocalEngine(self.case.program, store, environment=world, snapshot_versions_min=least)
        # What was posted to one that died before its first tick keeps its time.
        began = min([world.now_us(), *(post.det_time for _, post in store.waiting())])
        store.started = began // chronon_us * chronon_us
        engine.when_kept = self.look
        return engine

    def look(self) -> None:
        """Note when all that came was read, and time has gone as far as it should."""
        if all(map(self._is_done, self.stores)):
            self.over.set()

    def _is_done(self, store: FailingStore) -> bool:
        last = store.last_tick()
        if last is None or last < self.case.until:
            return False
        return {store.posted[place]["event_id"] for place in store.taken} == self.ids

    def detectors(self, engines: Sequence[LocalEngine]) -> Detectors:
        every_us = self.world.random.randrange(2, 10) * SECOND
        detections = [Detection(name, name, SourceKind.FILE, f"in/{name}.jsonl", every_us) for name in self.names]
        names = ("engine", "other")[: len(engines)]
        sinks = {name: EngineSink(engine, name) for name, engine in zip(names, engines, strict=True)}
        return Detectors(
            opened(self.case.program, self.world, detections), sinks, "state", self.world, report=self.reports.append
        )

    def deliverer(self) -> Deliverer:
        carrier = Carrier(Webhook(TARGET, 10.0, is_public=False), retries=1_000)
        names = {statement.name for plan in self.case.program.classes for statement in _actions(plan)}
        return Deliverer(self.store.outbox, dict.fromkeys(names, carrier), self.world, look_seconds=5.0)


def _actions(plan):
    return [action for statement in plan.statements for action in statement.actions]


def _case(seed: int) -> Generated:
    """SELECTs in a quarter only: a DuckDB for every engine and every tick would take most of the time."""
    match seed % 8:
        case 0:
            return generate_mixed(seed)
        case 4:
            return generate(seed)
        case 2:
            case = generate(seed)
            plain = case.text.partition("CREATE COMPLEX")[0]
            return replace(case, text=plain, program=compile(plain), selects={})
        case _:
            return generate_mixed(seed, is_small=True)


def has_two_engines(seed: int) -> bool:
    """Whether the detectors of a world feed two engines, each with a store of its own."""
    return seed % 8 == 5


def case_of(seed: int) -> tuple[Generated, tuple[Raw, ...]]:
    """A program and its events in order of time, each with an id and a time of its own: repeats are absorbed."""
    case = _case(seed)
    timed = sorted((raw for raw in case.raws if raw.det_time is not None), key=lambda raw: raw.det_time or 0)
    raws = [replace(r, event_id=f"e{n}", det_time=(r.det_time or 0) + n) for n, r in enumerate(timed)]
    return case, tuple(raws)


def lived(seed: int) -> Life:
    """The world of a seed, lived to its end."""
    case, raws = case_of(seed)
    world = World(seed, now=(raws[0].det_time or 0) - seed % 7 * SECOND)
    calm = world.random.random()
    world.faults = Faults(0.2 * calm, 0.2 * calm, 0.05 * calm, 20.0 * calm)
    stores = tuple(FailingStore(case, world, 0.1 * calm) for _ in range(2 if has_two_engines(seed) else 1))
    life = Life(world, case, raws, stores, Target(world))
    world.live(life.lead())
    return life


def one_world(seed: int) -> Life:
    """The world of a seed, lived to its end and compared with the reference."""
    life = lived(seed)
    for store in life.stores:
        _as_the_reference_says(life, store)
    _all_carried_out(life)
    return life


def _as_the_reference_says(life: Life, store: FailingStore) -> None:
    """What ticks did is what the reference says of all that was posted, each with the time that it got."""
    program = life.case.program
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


KINDS_MIN = {"COMPOSITE": 40, "MATCH": 40, "SELECT": 15, "CLOCK": 25}
"""Of a hundred worlds so many have a class of the kind, at least: what is rare is hardly tested."""


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_goes_wrong_the_end_is_as_the_reference_says(block: int) -> None:
    crashes, kinds = 0, dict.fromkeys(KINDS_MIN, 0)
    for seed in range(block * WORLDS // BLOCKS, (block + 1) * WORLDS // BLOCKS):
        try:
            life = one_world(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: tests.acting.test_seeds.one_world({seed})")
            raise
        crashes += life.crashes
        for kind in kinds:
            kinds[kind] += f"AS {kind}" in life.case.text or f"CREATE {kind}" in life.case.text
    assert crashes > WORLDS // BLOCKS, "something did go wrong"
    assert {kind: count for kind, count in kinds.items() if count * BLOCKS * 100 < KINDS_MIN[kind] * WORLDS} == {}


def written(life: Life) -> list[tuple[int, object]]:
    """All that happened in a life, and when."""
    shown = {Ticked: lambda one: (one.tick, one.counts(), one.seconds, list(tick_lines(one)))}
    told = [one for store in life.stores for one in store.diary]
    diary = [(now, shown[Ticked](one) if isinstance(one, Ticked) else one) for now, one in told]
    return [*diary, (life.world.now_us(), [life.target.done, life.reports, life.crashes])]


def test_a_world_can_be_had_again() -> None:
    lives = {seed: written(lived(seed)) for seed in range(8)}
    for seed, life in lives.items():
        assert written(lived(seed)) == life, f"seed {seed}"
    assert sum("it died" in map(str, (what for _, what in life)) for life in lives.values()) > 1
    assert sum("it failed" in map(str, (what for _, what in life)) for life in lives.values()) > 1

"""Detectors at work: several engines, one of them gone; pauses; crashes at any step; a spool with a bound."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest

from augury import LocalEngine
from augury.algebra.wiring import Forward, SourceKind
from augury.clock import show_time
from augury.detectors.sensor import BadDetector
from augury.detectors.sinks import EngineSink, NotTaken
from augury.detectors.spool import Spool
from augury.environment import Machine, RealFiles, real
from tests.acting.sensing import PROGRAM, Remembers, detection, made, running, until
from tests.clocks import Clock


class Counter:
    """A function that gives the next number at every look."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, position: Any) -> tuple[list[dict[str, object]], int]:
        self.calls += 1
        number = position or 0
        return [{"resource": f"r{number}", "amount": number}], number + 1


def numbers(sink: Remembers) -> list[object]:
    return [amount for (amount,) in sink.values("amount")]


COUNTING = detection(SourceKind.PYTHON, "counter", name="counting")


def test_an_engine_that_is_gone_holds_up_no_other_and_misses_nothing(tmp_path: Path) -> None:
    first, second, told = Remembers(), Remembers(), list[str]()

    async def all_of_it() -> None:
        second.is_dead = True
        async with real() as environment:
            sinks, functions = {"first": first, "second": second}, {"counter": Counter()}
            detectors = made(tmp_path, environment, [COUNTING], sinks, functions=functions, report=told.append)
            async with running(detectors):
                await until(lambda: len(first.events) >= 5)
                assert detectors.status()["counting"].untaken["second"] >= 4
            detectors = made(tmp_path, environment, [COUNTING], sinks, functions=functions, report=told.append)
            async with running(detectors):  # and over a restart
                await until(lambda: len(first.events) >= 8)
                second.is_dead = False
                await until(lambda: len(second.events) >= 8)
                detectors.pause("counting")
                await until(lambda: detectors.status()["counting"].untaken == {"first": 0, "second": 0})

    asyncio.run(all_of_it())
    assert numbers(first) == numbers(second) == list(range(len(first.events)))
    assert first.lines == second.lines
    assert [one for one in told if "it is dead" in one] == ["detector `counting`: it is dead"] * 2


def test_each_is_paused_and_resumed_alone(tmp_path: Path) -> None:
    one, other, sink = Counter(), Counter(), Remembers()
    wanted = [detection(SourceKind.PYTHON, name, name=name) for name in ("one", "other")]

    async def all_of_it() -> None:
        async with real() as environment:
            functions = {"one": one, "other": other}
            async with running(made(tmp_path, environment, wanted, {"e": sink}, functions=functions)) as detectors:
                await until(lambda: one.calls > 2 and other.calls > 2)
                detectors.pause("one")
                assert detectors.status()["one"].is_paused
                await asyncio.sleep(0.05)
                before, seen = one.calls, other.calls
                await until(lambda: other.calls > seen + 5)
                assert one.calls <= before + 1  # one look may have been under way
                detectors.resume("one")
                await until(lambda: one.calls > before + 3)
                with pytest.raises(KeyError):
                    detectors.pause("nobody")

    asyncio.run(all_of_it())


def test_a_full_spool_stops_the_detector_until_there_is_room(tmp_path: Path) -> None:
    counter, sink, told = Counter(), Remembers(), list[str]()
    sink.is_dead = True

    async def all_of_it() -> None:
        async with real() as environment:
            detectors = made(
                tmp_path,
                environment,
                [COUNTING],
                {"e": sink},
                functions={"counter": counter},
                report=told.append,
                spool_bytes_max=1_000,
            )
            async with running(detectors):
                await until(lambda: any("it looks no more" in one for one in told))
                seen = counter.calls
                await asyncio.sleep(0.2)
                assert counter.calls == seen
                assert 1_000 <= detectors.status()["counting"].waiting_bytes < 1_500
                sink.is_dead = False
                await until(lambda: counter.calls > seen + 3)

    asyncio.run(all_of_it())
    assert numbers(sink) == list(range(len(sink.events)))


class Killed(BaseException):
    """The process is killed here."""


class KilledFiles(RealFiles):
    """Files of a process that is killed at some write: before it, or after it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def write(self, path: str, content: bytes) -> None:
        where = self.chance.random()
        if where < 0.15:
            raise Killed
        super().write(path, content)
        if where > 0.85:
            raise Killed


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_at_any_write_loses_nothing_and_doubles_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    sinks = {"first": Remembers(), "second": Remembers()}
    stock: dict[str, int] = {}

    def listing() -> list[dict[str, object]]:
        return [{"resource": name, "amount": amount} for name, amount in stock.items()]

    wanted = detection(SourceKind.PYTHON, "stock", name="stock", forward=Forward.CHANGED, withdraws=True)

    async def look(files: RealFiles) -> None:
        detectors = made(tmp_path, Machine(files=files), [wanted], sinks, functions={"stock": listing})
        await detectors.run_once()

    for _ in range(20):
        stock[chance.choice("abc")] = chance.randrange(3)
        if chance.random() < 0.3:
            stock.pop(chance.choice(list(stock)), None)
        sinks["second"].is_dead = chance.random() < 0.4
        try:
            asyncio.run(look(KilledFiles(chance)))
        except (Killed, NotTaken):
            continue
    sinks["second"].is_dead = False
    asyncio.run(look(RealFiles()))
    views = []
    for sink in sinks.values():
        view: dict[str, object] = {}
        for event in sink.events:
            if event.get("occ_time", 0) is None:
                del view[event["resource"]]
            else:
                assert view.get(event["resource"]) != event["amount"]
                view[event["resource"]] = event["amount"]
        views.append(view)
    assert views == [stock, stock]
    assert sinks["first"].events == sinks["second"].events


def test_a_detector_that_breaks_in_an_unforeseen_way_stops_no_other(tmp_path: Path, monkeypatch: Any) -> None:
    from augury.detectors.function import FunctionSource

    counter, told, real_poll = Counter(), list[str](), FunctionSource.poll

    async def poll(self: Any, position: bytes | None) -> Any:
        if self._name == "bad":
            raise ZeroDivisionError("our own mistake")
        return await real_poll(self, position)

    monkeypatch.setattr(FunctionSource, "poll", poll)

    async def all_of_it() -> None:
        async with real() as environment:
            wanted = [COUNTING, detection(SourceKind.PYTHON, "bad", name="bad")]
            functions = {"counter": counter, "bad": Counter()}
            async with running(made(tmp_path, environment, wanted, {}, functions=functions, report=told.append)):
                await until(lambda: counter.calls > 5 and bool(told))

    asyncio.run(all_of_it())
    assert told == ["detector `bad`: it cannot go on: ZeroDivisionError: our own mistake"]


def test_events_reach_an_engine_in_this_process_once(tmp_path: Path) -> None:
    source = tmp_path / "deliveries.jsonl"
    source.write_text('{"resource": "milk", "amount": 1}\n{"resource": "milk", "amount": "x"}\nnonsense\n')
    wanted = detection(SourceKind.FILE, source)

    async def feed(engine: LocalEngine, folder: Path) -> None:
        async with real() as environment:
            await made(folder, environment, [wanted], {"e": EngineSink(engine, "e")}).run_once()

    with LocalEngine(PROGRAM, tmp_path / "store.db", environment=Clock(10_000_000_000_000_000)) as engine:
        asyncio.run(feed(engine, tmp_path / "one"))
        asyncio.run(feed(engine, tmp_path / "two"))  # who forgot where it was sends the same ids again
        ticks = engine.advance_to(show_time(10_000_000_002_000_000))
        assert engine.history("Delivery").select(["resource"]).to_pylist() == [{"resource": "milk"}]
        reasons = [reason for ticked in ticks for reason in ticked.rejected.reason]
        assert len(reasons) == 4
        assert any("JSON" in reason for reason in reasons)


def test_another_source_begins_anew_and_a_damaged_state_is_refused(tmp_path: Path) -> None:
    files = RealFiles()
    spool = Spool(files, str(tmp_path), "a", "FILE x")
    spool.commit(["1"], b"position", "")
    assert Spool(files, str(tmp_path), "a", "FILE x").standing.position == b"position"
    other = Spool(files, str(tmp_path), "a", "FILE y")
    assert (other.is_new_source, other.standing.position) == (True, None)
    assert other.pending(0, 10) == (["1"], 1)  # what waits from before is still to be taken
    state = tmp_path / "a.state"
    content = json.loads(state.read_text())
    state.write_text(json.dumps({**content, "state": content["state"].replace("FILE", "file")}))
    with pytest.raises(BadDetector, match="checksum"):
        Spool(files, str(tmp_path), "a", "FILE x")


def test_who_deletes_the_state_begins_anew(tmp_path: Path) -> None:
    files = RealFiles()
    spool = Spool(files, str(tmp_path), "a", "s")
    for number in range(3):
        spool.commit([str(number)], None, str(number))
    spool.take("e", 3)
    spool.forget(3)
    (tmp_path / "a.state").unlink()
    spool = Spool(files, str(tmp_path), "a", "s")
    spool.commit(["again\u2028\x85"], None, "")
    for name in ("e", "f"):
        assert spool.pending(spool.taken_by(name), 10) == (["again\u2028\x85"], 4)

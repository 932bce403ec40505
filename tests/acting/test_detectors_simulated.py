"""Detectors in a world that a seed decides: requests refused and lost, files out of reach, crashes at any time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from augury.algebra.wiring import Forward, SourceKind
from augury.detectors.http_sink import HttpSink
from augury.detectors.opening import opened
from augury.detectors.run import Detectors
from augury.environment import Request, Response
from augury.simulated import Faults, World
from tests.acting.sensing import PROGRAM, detection

FAULTS = Faults(refused=0.15, lost=0.15, unreadable=0.05, delay_seconds_max=3.0)
FIVE_SECONDS_US, MINUTE_US = 5_000_000, 60_000_000

WANTED = [
    detection(
        SourceKind.HTTP,
        "http://shop/stock",
        items="$.items[*]",
        next_page="next",
        every_us=FIVE_SECONDS_US,
        forward=Forward.CHANGED,
        withdraws=True,
    ),
    detection(SourceKind.FILE, "/in/readings.jsonl", event_class="Reading", every_us=FIVE_SECONDS_US),
]


class Inbox:
    """An engine as far as detectors see it: it absorbs by id what it has already."""

    def __init__(self, world: World) -> None:
        self.world, self.events = world, dict[str, dict[str, Any]]()
        self.heard: list[tuple[int, int]] = []

    def __call__(self, asked: Request) -> Response:
        lines = asked.body.decode().splitlines()
        self.heard.append((self.world.now_us(), len(lines)))
        for line in lines:
            event = json.loads(line)
            self.events.setdefault(event["event_id"], event)
        return Response(200, {}, json.dumps({"accepted": len(lines), "refused": []}).encode())

    def view(self) -> dict[str, object]:
        """The deliveries that are current to who applies the events in their order."""
        view: dict[str, object] = {}
        for event in self.events.values():
            if event["event"] == "Delivery":
                if event.get("occ_time", 0) is None:
                    del view[event["resource"]]
                else:
                    assert view.get(event["resource"]) != event["amount"]
                    view[event["resource"]] = event["amount"]
        return view

    def sensors(self) -> list[object]:
        return [event["sensor"] for event in self.events.values() if event["event"] == "Reading"]


def shop(stock: dict[str, int]) -> Any:
    def answer(asked: Request) -> Response:
        names = sorted(stock)
        first = int(asked.url.partition("?")[2] or 0)
        items = [{"resource": name, "amount": stock[name]} for name in names[first : first + 2]]
        more = f"/stock?{first + 2}" if first + 2 < len(names) else None
        return Response(200, {}, json.dumps({"items": items, "next": more}).encode())

    return answer


def run_of(seed: int) -> list[Inbox]:
    """Twenty lives of detectors, each ended at some instant, while the shop and the file go on; then a quiet end."""
    world = World(seed, FAULTS)
    stock: dict[str, int] = {}
    inboxes = [Inbox(world), Inbox(world)]
    world.network.hosts |= {"shop": shop(stock), "one": inboxes[0], "two": inboxes[1]}

    async def live() -> None:
        sinks = {f"http://{name}": HttpSink(f"http://{name}", world) for name in ("one", "two")}
        await Detectors(opened(PROGRAM, world, WANTED), sinks, "/state", world, report=lambda _: None).run()

    def live_until(until_us: int) -> None:
        while world.now_us() < until_us:
            try:
                world.live(live(), until_us)
            except TimeoutError:
                return
            except OSError:
                world.now += 1_000_000  # it could not start: a file could not be used

    for number in range(20):
        stock[world.random.choice("abcde")] = world.random.randrange(3)
        if world.random.random() < 0.3:
            stock.pop(world.random.choice(sorted(stock)))
        world.files.append("/in/readings.jsonl", json.dumps({"sensor": number}).encode() + b"\n")
        live_until(world.now_us() + world.random.randrange(1, MINUTE_US))
    world.faults = Faults()
    live_until(world.now_us() + 2 * MINUTE_US)
    for inbox in inboxes:
        assert inbox.view() == stock
        assert inbox.sensors() == list(range(20))
    return inboxes


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_both_engines_know_all_whatever_goes_wrong(first: int) -> None:
    for seed in range(first, first + 10):
        try:
            one, two = run_of(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        assert sorted(one.events) == sorted(two.events)


def test_a_seed_gives_the_same_run() -> None:
    assert [inbox.heard for inbox in run_of(7)] == [inbox.heard for inbox in run_of(7)]
    assert [inbox.heard for inbox in run_of(7)] != [inbox.heard for inbox in run_of(8)]

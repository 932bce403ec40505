"""One detector at work: look, let through what is to be let through, keep it with the position, tell the source.

In: a detector and its spool. Out: lines in the spool. What fails is raised; `run` tries again. It knows no engine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from augury.detectors.buffer import BufferState, Found, buffered, loaded_buffer, saved_buffer
from augury.detectors.opening import Detector
from augury.detectors.sensor import Item, Polled, Pushed, Seen
from augury.detectors.shape import event_of
from augury.detectors.spool import Spool
from augury.environment import Environment
from augury.history.json_lines import read_line
from augury.history.raw import Broken, whole_json


class Watch:
    """A detector with what it remembers."""

    def __init__(self, detector: Detector, spool: Spool, environment: Environment) -> None:
        """Take up where the spool says."""
        self._detector, self._spool, self._environment = detector, spool, environment
        saved = spool.standing.buffer
        self._state: BufferState | None = loaded_buffer(saved) if saved else None
        self.forwarded = 0
        """Events that were let through since it started."""

    async def look(self) -> Seen:
        """Ask the source once, and keep what it gives; raises `SourceFailed` and `OSError`."""
        sensor = self._detector.sensor
        assert isinstance(sensor, Polled), "what pushes is followed"
        seen = await sensor.poll(self._spool.standing.position)
        self._keep(seen)
        return seen

    async def follow(self) -> AsyncGenerator[Seen]:
        """Keep what the source sends, and tell it so."""
        sensor = self._detector.sensor
        assert isinstance(sensor, Pushed), "what does not push is polled"
        async with aclosing(sensor.follow(self._spool.standing.position)) as arriving:
            async for arrived in arriving:
                self._keep(arrived.seen)
                await arrived.taken()
                yield arrived.seen

    def _keep(self, seen: Seen) -> None:
        now_us = self._environment.now_us()
        state = self._state or BufferState(now_us)
        found, broken = [], []
        for item in seen.items:
            if isinstance(item, Broken):
                broken.append(_line_of(item))
            elif (one := self._found(item, now_us)) is not None:
                found.append(one)
        whole = seen.whole and seen.problem is None
        events, state = buffered(self._detector.rule, state, found, now_us, whole=whole)
        lines = [*map(whole_json, events), *broken]
        self._spool.commit(lines, seen.position, saved_buffer(state))
        self._state = state
        self.forwarded += len(lines)

    def _found(self, item: Item, now_us: int) -> Found | None:
        event = event_of(self._detector.rule.shape, item, now_us)
        return None if event is None else Found(event, item.place)


def _line_of(broken: Broken) -> str:
    """What cannot be read, as a line that the engine puts among its rejected events."""
    line = " ".join(broken.text.split("\n")).strip()
    found = read_line(line.encode("utf-8", "replace"))
    says_why = isinstance(found, Broken) and found.reason == broken.reason
    return line if says_why else whole_json([broken.reason, broken.text])

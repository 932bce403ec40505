"""Triggers on the engine, driven tick by tick or in steps of any size, and told as the reference tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.duck.selects import runnable
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.rules import NoFunctions
from augury.engine.state import EngineState, initial
from augury.engine.steps import turn
from augury.engine.tick import Ports, next_tick, step, tick, tick_at_most
from augury.engine.ticked import Ticked
from augury.engine.triggering import carried_over
from augury.event import key_of
from augury.history.arrivals import Arrivals, arrivals
from augury.kernels.firing import Firing, Functions, Posted, Revision, Turn
from augury.kernels.reference.bitemporal import Raw
from augury.kernels.reference.triggers import Triggered
from tests.bitemporal.local import Known, raw_rows, versions_of

DEPTH_MAX = 32


class Called(NoFunctions):
    """Functions of a test, called as they are."""

    def __init__(self, functions: Functions) -> None:
        self.functions = {key_of(name): function for name, function in functions.items()}

    def knows(self, name: str) -> bool:
        return key_of(name) in self.functions

    def call(self, which: str, name: str, arguments: Sequence[Value], kinds: Sequence[object]) -> Value:
        return self.functions[key_of(name)](*arguments)


class Driven:
    """An engine that is told how far to go, with turns between versions; `random` cuts chronons into steps."""

    def __init__(
        self,
        program: Program,
        functions: Functions,
        turns: Sequence[Turn] = (),
        depth_max: int = DEPTH_MAX,
        random: Random | None = None,
    ) -> None:
        self.plan: EnginePlan = engine_plan(program)
        self.state: EngineState = initial(self.plan)
        self.known, self.random = Known(), random
        self.ports = Ports(runnable(program), self.known, calling=Called(functions), depth_max=depth_max)
        self.turns = sorted(turns, key=lambda one: one.at)
        self.ticked: list[Ticked] = []

    def run(self, program: Program, raws: Sequence[Raw], until: int | None) -> None:
        came = arrivals(program, [raw_rows(program, raws)])
        chronon_us = self.plan.chronon_us
        coming = dict(came.by_tick(chronon_us))
        end = max(coming, default=0) if until is None else tick_at_most(until, chronon_us)
        while True:
            waiting = min(coming, default=None)
            due = min(next_tick(self.plan, self.state), end if self.state.tick is not None else due_never(waiting))
            time = due if waiting is None else min(due, waiting)
            if time > end or (self.state.tick is not None and self.state.tick >= end):
                break
            self._chronon(coming.pop(time, Arrivals()), time)

    def _chronon(self, rows: Arrivals, time: int) -> None:
        while self.turns and self.turns[0].at <= time:
            one = self.turns.pop(0)
            before, rows = split(rows, one.at)
            last = time - self.plan.chronon_us if self.state.tick is None else self.state.tick
            is_begun = self.state.tick is not None or self.state.chronon.upto is not None
            if one.at - 1 >= last and (len(before) or before.refusals or is_begun):
                self._stepped(before, min(one.at, time) - 1, time)
            if isinstance(one, Revision):
                after = engine_plan(one.program)
                self.state.triggers = carried_over(self.plan, self.state.triggers, after)
                self.plan = after
            else:
                turn(self.state.triggers, one.kind, one.name, one.on)
        if self.random is not None:
            for cut in sorted({self.random.randrange(time - self.plan.chronon_us, time) for _ in range(3)}):
                if cut >= (self.state.chronon.upto or 0) and (self.state.tick is not None or len(rows)):
                    before, rows = split(rows, cut + 1)
                    self._stepped(before, cut, time)
        found = tick(self.plan, self.state, rows, time, self.ports)
        self.known.note(found)
        self.ticked.append(found)

    def _stepped(self, rows: Arrivals, upto: int, time: int) -> None:
        if upto < time - self.plan.chronon_us:
            assert not len(rows)
            return
        step(self.plan, self.state, rows, upto, self.ports)


def due_never(waiting: int | None) -> int:
    return 2**62 if waiting is None else waiting


def split(rows: Arrivals, at: int) -> tuple[Arrivals, Arrivals]:
    """The rows detected before a time, and the others; refusals go with the first."""
    ends = {code: int(np.searchsorted(one.part.det_time, at)) for code, one in rows.rows.items()}
    before = {code: one.between(0, ends[code]) for code, one in rows.rows.items() if ends[code]}
    after = {code: one.between(ends[code], len(one)) for code, one in rows.rows.items() if ends[code] < len(one)}
    return Arrivals(before, rows.refusals, rows.place), Arrivals(after, (), rows.place)


# ---- comparing --------------------------------------------------------------------------------------


def told_by_engine(ticked: Sequence[Ticked]) -> list[dict[str, Any]]:
    """What ticks did that did something; posts that the next tick reads have no number yet."""
    found = []
    for one in ticked:
        read = sorted((v for c in one.read for v in versions_of(c)), key=lambda v: v.seq or 0)
        published = [v for c in one.derived for v in versions_of(c)]
        found.append(_tick(one.tick, read, published, [untold(each.firing, one.tick) for each in one.firings]))
    return [tick for tick in found if any(tick[name] for name in tick if name != "tick")]


def told_by_reference(triggered: Triggered) -> list[dict[str, Any]]:
    firings: dict[int, list[Firing]] = {}
    for firing in triggered.firings:
        firings.setdefault(firing.now, []).append(untold(firing, firing.now))
    found = [_tick(one.tick, one.read, one.published, firings.pop(one.tick, [])) for one in triggered.run.ticks]
    assert not firings, "firings belong to ticks"
    return [tick for tick in found if any(tick[name] for name in tick if name != "tick")]


def _tick(tick: int, read: Any, published: Any, firings: list[Firing]) -> dict[str, Any]:
    def shown(versions: Any) -> list[Any]:
        return [
            (v.event_class, repr(v.values), v.occ_time, v.det_time, str(v.change), v.seq, v.constituents)
            for v in versions
        ]

    return {"tick": tick, "read": shown(read), "published": shown(published), "firings": firings}


def untold(firing: Firing, tick: int) -> Firing:
    """A firing without what becomes of posts that only the next tick reads."""

    def of(deed: Any) -> Any:
        is_later = (
            isinstance(deed, Posted)
            and deed.det_time >= tick
            and str(deed.refused) not in ("unfit", "no key", "too deep")
        )
        return replace(deed, seq=None, refused=None) if is_later else deed

    return replace(firing, calls=tuple(replace(c, deeds=tuple(map(of, c.deeds))) for c in firing.calls))


def difference(reference: Triggered, ticked: Sequence[Ticked]) -> str:
    """Where reference and engine part, or nothing."""
    left, right = told_by_reference(reference), told_by_engine(ticked)
    for mine, theirs in zip(left, right, strict=False):
        for name in mine:
            if mine[name] != theirs[name]:
                return f"tick {mine['tick']} {name}\n  reference {mine[name]}\n  engine    {theirs[name]}"
    return "" if len(left) == len(right) else f"{len(left)} ticks and {len(right)}: {(left + right)[-1]}"

"""A program takes the place of another while an engine runs: what it does, and doing it, in one transaction.

In: an engine, the new program. Out: what was changed. Before the store has adopted it nothing is; afterwards
everything is.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from augury.algebra.program import Program
from augury.duck.selects import runnable
from augury.engine.history_rows import history_of
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.ports import Adoption, Selects, Snapshot, Store
from augury.engine.rebuilding import Parts, Rebuilt, begun_anew, carried_over, worked_out
from augury.engine.replacing import (
    CannotChange,
    Change,
    Changes,
    Kind,
    State,
    What,
    compare,
    is_whole,
    same_classes,
)
from augury.engine.snapshot import saved_state
from augury.engine.state import EngineState
from augury.engine.tick import Ports, tick_reading
from augury.event import ClassKind, key_of
from augury.local.store.errors import StoreError

if TYPE_CHECKING:
    from augury.local.running import LocalEngine


class Closed(RuntimeError):
    """An engine that was closed, or is about to be, takes no events, no time and no program."""


HELD_US: Final = 100_000
"""So long before the end of a chronon others have to wait, so that nobody reads on before a program is applied; twice
as long whenever somebody was quicker, for a busy engine may take longer to come by."""


GIVEN_UP_US: Final = 250_000
"""So long it may take until who waits for a boundary hears that the engine ends."""


def apply_at_boundary(engine: LocalEngine, program: Program) -> Changes:
    """Make a program an engine's, when nothing of a chronon is read yet."""
    for missed in count():
        held_us = HELD_US << missed
        with engine._working:
            if _is_at_boundary(engine) or _left_us(engine) <= held_us:
                while not _is_at_boundary(engine):
                    _sleep(engine, _left_us(engine))
                return _turned(engine, program)
            left_us = _left_us(engine)
        _sleep(engine, left_us - held_us)
    raise AssertionError("it counts for ever")


def _is_at_boundary(engine: LocalEngine) -> bool:
    """Whether the state is that after a committed tick; a chronon that is over, or has no clock, is read to its end."""
    engine._be_sound()
    end, now = _end_of(engine), engine._now()
    if end is not None and (now is None or now >= end):
        engine.advance_to(end)
    return engine._state.chronon.upto is None


def _end_of(engine: LocalEngine) -> int | None:
    """When the tick comes that ends a chronon which is half read."""
    upto = engine._state.chronon.upto
    return None if upto is None else tick_reading(upto, engine._plan.chronon_us)


def _left_us(engine: LocalEngine) -> int:
    """How long the chronon that is half read goes on; a clock that nobody follows waits for nobody."""
    end, now = _end_of(engine), engine._now()
    return 0 if end is None or now is None else end - now


def _sleep(engine: LocalEngine, microseconds: int) -> None:
    """Wait, and look now and then whether that is still wanted; raises `Closed`."""
    while microseconds > 0:
        if engine._is_given_up:
            raise Closed("the engine ends, and the program is as it was: apply it once it runs again")
        engine._world.block(min(microseconds, GIVEN_UP_US) / 1_000_000)
        microseconds -= GIVEN_UP_US


def _turned(engine: LocalEngine, program: Program) -> Changes:
    offer = offered(engine._plan, engine._state, engine._store, program, engine._ports)
    try:
        engine._store.adopt(offer.adoption)
    except BaseException:
        # Until the store says so nobody knows: the answer may be all that was lost, as on a connection that broke.
        engine._offer, engine._is_spoiled = offer, True
        with suppress(StoreError):
            engine._reload()
        if engine.program is not program:
            raise
        return offer.changes
    _go_on(engine, offer)
    return offer.changes


def settle(engine: LocalEngine) -> None:
    """Find out whose the store is where that is not known; raises what the store does, and then it is not known yet."""
    if engine._offer is None:
        return
    if engine._store.runs(engine._offer.plan.program):
        _go_on(engine, engine._offer)
    engine._offer = None


def _go_on(engine: LocalEngine, offer: Offer) -> None:
    engine.program, engine._plan, engine._state = offer.plan.program, offer.plan, offer.state
    engine._ports = replace(engine._ports, selects=offer.selects)
    engine._posts.turn_to(offer.plan.program)
    engine._read_since_snapshot = 0
    if (tell := engine.when_kept) is not None:
        tell()


@dataclass(frozen=True, slots=True)
class Offer:
    """A program that a store may adopt, with what an engine needs to go on with it."""

    changes: Changes
    plan: EnginePlan
    selects: Selects
    state: EngineState
    adoption: Adoption


def offered(old: EnginePlan, state: EngineState, store: Store, program: Program, ports: Ports) -> Offer:
    """Work out what a store has to adopt; raises `CannotChange`, `CannotRun` and what the store does."""
    changes = compare(old.program, program, store.held())
    if changes.refused:
        raise CannotChange(changes.refused)
    selects, new = runnable(program), engine_plan(program)
    triggers = changes.of(Kind.TRIGGER)
    kept = {name for name, one in triggers.items() if one.state is State.KEPT}
    if changes.replays:
        held = store.held()
        same = () if is_whole(program, held) else same_classes(old.program, program, held.has_history)
        found = worked_out(old, new, state, kept, store.past(program), replace(ports, selects=selects), same)
        anew = _anew(store, new, found)
        changes = replace(changes, each=tuple(_as_found(one, anew) for one in changes.each))
    elif not store.held().has_ticks:
        found, anew = begun_anew(old, new, state, kept), {}
    else:
        found, anew = carried_over(old, new, state, kept), {}
    snapshot = None if state.tick is None else Snapshot(state.tick, saved_state(new, found.state))
    begun = frozenset(name for name, one in triggers.items() if one.state is State.BEGINS)
    return Offer(changes, new, selects, found.state, Adoption(program, anew, found.purged, begun, snapshot))


def _anew(store: Store, plan: EnginePlan, found: Rebuilt) -> dict[str, Parts]:
    """The complex classes whose history comes out other than it is kept; where both are the same it stays."""
    assert found.derived is not None
    known = {key_of(one.name) for one in store.held().classes}
    other = {}
    for one in plan.classes:
        name, event_class = key_of(one.event_class.name), one.event_class
        if event_class.kind is not ClassKind.COMPLEX or name in found.kept:
            continue
        parts = found.derived.get(name, [])
        was = store.everything(event_class) if name in known else None
        if (was is None and parts) or (was is not None and not _equal(was, history_of(event_class, parts))):
            other[name] = parts
    return other


def _equal(one: pa.Table, other: pa.Table) -> bool:
    """Whether two histories say the same; NaN is itself."""
    if one.num_rows != other.num_rows:
        return False
    return all(a.equals(b) or _texts(a) == _texts(b) for a, b in zip(one.columns, other.columns, strict=True))


def _texts(column: pa.ChunkedArray) -> list[str]:
    return list(map(repr, column.to_pylist()))


def _as_found(change: Change, anew: dict[str, Parts]) -> Change:
    """What became of a class, which is known now."""
    if change.kind is not Kind.CLASS or change.what not in (What.SAME, What.CHANGED):
        return change
    if key_of(change.name) in anew and change.state is State.KEPT:
        why = "events it is built on live longer or shorter now: its history is derived anew"
        return replace(change, state=State.REBUILT, why=why)
    if change.state is State.REBUILT and change.what is What.SAME and key_of(change.name) not in anew:
        return replace(change, state=State.KEPT, why="")
    return change

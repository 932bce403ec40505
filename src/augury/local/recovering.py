"""A store → the state after its last committed tick, from the last good snapshot and what ticks have read since.

In: a plan, a store, ports. Out: an `EngineState`, and how much was read since the snapshot. It writes nothing, and what
it finds damaged on the way is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from augury.algebra.program import Program
from augury.clock import show_time
from augury.engine.firing import read_post
from augury.engine.plan import EnginePlan
from augury.engine.ports import Store, Torn
from augury.engine.reaching import turns_after
from augury.engine.rebuilding import begin_triggers
from augury.engine.snapshot import loaded_state, ticks_again
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports
from augury.engine.ticked import ClassVersions
from augury.event import key_of
from augury.kernels.sealed import UnfitState

Reads = Iterable[tuple[int, tuple[ClassVersions, ...]]]


class CannotRecover(RuntimeError):
    """A store from which no engine can go on; the message says why."""


def recovered(plan: EnginePlan, store: Store, ports: Ports, report: Callable[[str], None]) -> tuple[EngineState, int]:
    """The state after the last committed tick, and how many versions were read since its snapshot.

    Raises `CannotRecover`, and what the store does.
    """
    last, read = store.last_tick(), 0
    state = _from_snapshot(plan, store, report)
    if last is not None:
        reads = _whole(plan, state, store.read_after(state.tick))
        turns, begun = turns_after(store.switched(), state.tick), store.begun()
        for ticked in ticks_again(plan, state, reads, last, ports, turns):
            read += sum(map(len, ticked.read))
            begin_triggers(plan, state, begun)
    state.triggers.fired = {key_of(name): count for name, count in store.firing_counts().items()}
    state.triggers.pending = [read_post(text) for text in store.posts_pending()]
    return state, read


def _from_snapshot(plan: EnginePlan, store: Store, report: Callable[[str], None]) -> EngineState:
    unused = 0
    for found in store.snapshots():
        unused += 1
        if isinstance(found, Torn):
            report(f"the snapshot of {show_time(found.tick)} is damaged ({found.reason})")
            continue
        try:
            state = loaded_state(plan, found.content)
        except UnfitState as error:
            report(f"the snapshot of {show_time(found.tick)} cannot be used ({error})")
            continue
        if unused > 1:
            report(f"the ticks since the snapshot of {show_time(found.tick)} are worked out again")
        return state
    if unused:
        report("no snapshot can be used: all ticks are worked out again, from the first")
    return initial(plan)


def _whole(plan: EnginePlan, state: EngineState, reads: Reads) -> Iterator[tuple[int, tuple[ClassVersions, ...]]]:
    """What ticks have read, if nothing is missing: `SET HISTORY RETAIN` deletes what no snapshot needs."""
    classes = zip(plan.classes, state.classes, strict=True)
    known = {key_of(one.event_class.name): kept.view.read for one, kept in classes}
    for tick, read in reads:
        for versions in read:
            name = key_of(versions.event_class.name)
            if versions.number[0] != known[name] + 1 or versions.number[-1] != known[name] + len(versions):
                raise CannotRecover(
                    f"the store cannot be taken up again: no snapshot can be used, and of the history of "
                    f"`{versions.event_class.name}` versions are deleted, as SET HISTORY RETAIN says"
                )
            known[name] += len(versions)
        yield tick, read


def store_of(
    program: Program, store: str | Path | Store | None, report: Callable[[str], None], stopwatch: Callable[[], float]
) -> Store:
    """The store that is meant: itself, one in a file or database, or one in memory; raises what stores do."""
    if store is None:
        from augury.local.store.memory import MemoryStore

        return MemoryStore(program)
    if isinstance(store, str | Path):
        from augury.local.store.sql import open_store

        return open_store(str(store), program, report=report, stopwatch=stopwatch)
    return store

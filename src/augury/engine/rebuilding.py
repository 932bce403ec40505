"""The state of an engine under another program: kept where that may be, else worked out again from the history.

In: the plans of both programs, the state after a tick, what committed ticks have read. Out: a state of the new plan,
and what its complex classes find in the history on the way. No action fires and no rule runs for the past.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from augury.engine.grafting import Grown, grafted, kept_of
from augury.engine.plan import EnginePlan
from augury.engine.saved_triggers import loaded_trigger, saved_trigger
from augury.engine.snapshot import loaded_state, saved_state, ticks_again
from augury.engine.state import EngineState, TriggersState, initial, waiting_for
from augury.engine.tick import Ports
from augury.engine.ticked import ClassVersions, Ticked
from augury.event import key_of

Parts = list[tuple[int, ClassVersions]]
"""Versions of a class by tick."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A state of a program, and what its complex classes have found up to it.

    `derived` and `purged` are by the names that classes are matched by, and have those that were worked out again;
    None: nothing was. `kept` are the classes that were not, though others were.
    """

    state: EngineState
    derived: dict[str, Parts] | None = None
    purged: dict[str, Parts] | None = None
    kept: frozenset[str] = frozenset()


def carried_over(old: EnginePlan, new: EnginePlan, state: EngineState, kept: Collection[str]) -> Rebuilt:
    """The state for a program that says the same of all classes; `kept` are the triggers that go on."""
    bare_old, bare_new = _without_triggers(old), _without_triggers(new)
    found = loaded_state(bare_new, saved_state(bare_old, replace(state, triggers=TriggersState())))
    found.triggers = _triggers(old, new, state, kept)
    return Rebuilt(found)


def begun_anew(old: EnginePlan, new: EnginePlan, state: EngineState, kept: Collection[str]) -> Rebuilt:
    """The state for a program that takes the place of another before anything was read."""
    found = initial(_without_triggers(new))
    found.tick = state.tick
    found.triggers = _triggers(old, new, state, kept)
    return Rebuilt(found)


def worked_out(
    old: EnginePlan,
    new: EnginePlan,
    state: EngineState,
    kept: Collection[str],
    reads: Iterable[tuple[int, tuple[ClassVersions, ...]]],
    ports: Ports,
    same: Collection[str] = (),
) -> Rebuilt:
    """The state that the history gives under the new program, up to the tick of the state.

    Where the history is not whole, `same` are the classes that mean the same, which go on as they were.
    """
    assert state.tick is not None, "there is a history"
    bare, bare_old = _without_triggers(new), _without_triggers(old)
    found = initial(bare)
    stays = kept_of([bare_old], bare, same)
    names = [key_of(one.event_class.name) for one in new.classes]
    derived: dict[str, Parts] = {}
    purged: dict[str, Parts] = {name: [] for name in names if name not in stays}
    for ticked in ticks_again(bare, found, reads, state.tick, ports):
        _note(derived, ticked, (one for one in ticked.derived if key_of(one.event_class.name) not in stays))
        _note(purged, ticked, (one for one in ticked.purged if key_of(one.event_class.name) not in stays))
    if stays:
        # By way of bytes: until the store has adopted the new program the old one may have to go on.
        content = saved_state(bare_old, replace(state, triggers=TriggersState()))
        found = grafted(bare, found, [Grown(bare_old, loaded_state(bare_old, content))], stays)
    found.seq, found.tick = state.seq, state.tick
    found.triggers = _triggers(old, new, state, kept)
    return Rebuilt(found, derived, purged, stays)


def _note(parts: dict[str, Parts], ticked: Ticked, versions: Iterable[ClassVersions]) -> None:
    for one in versions:
        if len(one):
            parts.setdefault(key_of(one.event_class.name), []).append((ticked.tick, one))


def _without_triggers(plan: EnginePlan) -> EnginePlan:
    return replace(plan, triggers=(), triggered_from=(), cuts=None)


def _triggers(old: EnginePlan, new: EnginePlan, state: EngineState, kept: Collection[str]) -> TriggersState:
    """What waits for the triggers that go on; the others have seen nothing. What is switched off stays so, by name."""
    before = {unit.name: number for number, unit in enumerate(old.triggers)}
    each = [
        # By way of bytes: classes have other places now.
        loaded_trigger(new, number, saved_trigger(old, before[unit.name], state))
        if unit.name in kept
        else waiting_for(new, unit)
        for number, unit in enumerate(new.triggers)
    ]
    return replace(state.triggers, each=each)


def begin_triggers(plan: EnginePlan, state: EngineState, since: Mapping[str, int]) -> None:
    """After a tick was worked out again: let the triggers begin anew that did so after it; `since` is by name."""
    for number, unit in enumerate(plan.triggers):
        if since.get(unit.name) == state.tick:
            state.triggers.each[number] = waiting_for(plan, unit)

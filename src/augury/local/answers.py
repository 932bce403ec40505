"""What became of an event that somebody waits for: the version it is, what fired at it, what came about.

In: the state after a step, and where the event came. Out: an `Answer`. It reads nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from augury.engine import detecting
from augury.engine.chronon import Chronon
from augury.engine.firing import plain, settled
from augury.engine.lines import version_lines
from augury.engine.plan import EnginePlan
from augury.engine.state import EngineState
from augury.engine.ticked import FiredTrigger, Ticked
from augury.event import key_of
from augury.history.versions import ABSORBED
from augury.kernels.batch import joined
from augury.kernels.firing import Done, Posted


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an event that was posted by `notify`.

    `seq` is that of the version it is; None if it was refused (and why), absorbed as a duplicate, or waits for a later
    tick because it says that it will be detected then. `firings` are those at it and at all that rules posted in turn;
    `returned` has the values of RETURNS of those at the event itself, by trigger; `occurrences` are the complex events
    that came about, as lines of JSON.
    """

    place: int
    seq: int | None = None
    refused: str | None = None
    is_absorbed: bool = False
    firings: tuple[FiredTrigger, ...] = ()
    returned: Mapping[str, Any] = field(default_factory=dict)
    occurrences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Marks:
    """How much of a chronon there was before a step: what was read, fired, and found of each complex class."""

    reads: int
    firings: int
    found: Mapping[int, int]


def marks_of(chronon: Chronon) -> Marks:
    """What there is now."""
    found = {place: len(parts) for place, parts in chronon.found.items()}
    return Marks(len(chronon.reads), len(chronon.firings), found)


def answer_of(plan: EnginePlan, state: EngineState, place: int, position: int, before: Marks) -> Answer:
    """The answer for the row that came at a position of a step, before which there was so much of the chronon."""
    name = f":{place}"
    for read in state.chronon.reads[before.reads :]:
        for at, reason in zip(read.rejected.place, read.rejected.reason, strict=True):
            if at.endswith(name):
                return Answer(place, refused=reason)
        for fates in read.fates.values():
            if (fates.position == position).any():
                verdict, seq = fates.of(position)
                if seq is None:
                    return Answer(place, is_absorbed=verdict == ABSORBED)
                return _of_version(plan, state, place, seq, before)
    return Answer(place)


def _of_version(plan: EnginePlan, state: EngineState, place: int, seq: int, before: Marks) -> Answer:
    chain, firings = {seq}, []
    for at, one in enumerate(state.chronon.firings[before.firings :], before.firings):
        if one.firing.seq in chain:
            fired = settled(one, at, state.chronon.became)
            firings.append(fired)
            deeds = (deed for call in fired.firing.calls for deed in call.deeds)
            chain.update(deed.seq for deed in deeds if isinstance(deed, Posted) and deed.seq is not None)
    returns = {key_of(unit.trigger.name): unit.trigger.returns for unit in plan.triggers}
    returned = {
        one.firing.trigger: plain(one.firing.returned, kind[0])
        for one in firings
        if one.firing.seq == seq and (kind := returns[key_of(one.firing.trigger)]) is not None
    }
    return Answer(place, seq, None, False, tuple(firings), returned, tuple(_occurrences(plan, state, chain, before)))


def _occurrences(plan: EnginePlan, state: EngineState, chain: set[int], before: Marks) -> list[str]:
    lines: list[str] = []
    for place, parts in sorted(state.chronon.found.items()):
        new = parts[before.found.get(place, 0) :]
        if new and np.isin(joined(new).seq, list(chain)).any():
            # Whether an event changes one that is there depends on all of its key.
            has_key = bool(plan.classes[place].event_class.key)
            versions = detecting.versions_of(plan, state, place, joined(parts if has_key else new))
            lines += version_lines(versions.at(np.flatnonzero(np.isin(versions.seq, list(chain)))))
    return lines


def rules_that_failed(ticked: Ticked) -> Iterator[str]:
    """A sentence for every rule of a tick that failed; what it did before that stands."""
    for fired in ticked.firings:
        for call in fired.firing.calls:
            for deed in call.deeds:
                if isinstance(deed, Done) and deed.failure is not None:
                    at = f"rule `{call.rule}` of trigger `{fired.firing.trigger}`, firing {fired.number}"
                    yield f"{at}: {deed.name} failed: {deed.failure}"

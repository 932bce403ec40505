"""What became of an event that somebody waits for: the version it is, what fired at it, what came about.

In: the state after a step, and where the event came. Out: an `Answer`. It reads nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
from augury.local.posts import POSTED


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


def answers_of(plan: EnginePlan, state: EngineState, asked: Mapping[int, int], before: Marks) -> dict[int, Answer]:
    """The answers for rows of a step, given their places by position, before which there was so much of the chronon.

    By place; what the step has not read has none.
    """
    answers, owners = _fates(state.chronon, asked, before)
    firings = _firings(state.chronon, owners, before)
    lines = _occurrences(plan, state, owners, before)
    returns = {key_of(unit.trigger.name): unit.trigger.returns for unit in plan.triggers}
    for place, answer in answers.items():
        if answer.seq is not None:
            own = firings.get(place, [])
            returned = {
                one.firing.trigger: plain(one.firing.returned, kind[0])
                for one in own
                if one.firing.seq == answer.seq and (kind := returns[key_of(one.firing.trigger)]) is not None
            }
            occurrences = tuple(lines.get(place, ()))
            answers[place] = replace(answer, firings=tuple(own), returned=returned, occurrences=occurrences)
    return answers


def _fates(chronon: Chronon, asked: Mapping[int, int], before: Marks) -> tuple[dict[int, Answer], dict[int, int]]:
    """What became of the rows themselves, by place; and by the `seq` of each version whose place it is."""
    names = {f"{POSTED}:{place}": place for place in asked.values()}
    answers: dict[int, Answer] = {}
    owners: dict[int, int] = {}
    for read in chronon.reads[before.reads :]:
        for name, reason in zip(read.rejected.place, read.rejected.reason, strict=True):
            if name in names:
                answers[names[name]] = Answer(names[name], refused=reason)
        for fates in read.fates.values():
            rows = zip(fates.position.tolist(), fates.verdicts.tolist(), fates.seq.tolist(), strict=True)
            for position, verdict, seq in rows:
                place = asked.get(position)
                if place is None or place in answers:
                    continue
                if verdict < ABSORBED:
                    owners[seq] = place
                    answers[place] = Answer(place, seq)
                else:
                    answers[place] = Answer(place, is_absorbed=verdict == ABSORBED)
    return answers, owners


def _firings(chronon: Chronon, owners: dict[int, int], before: Marks) -> dict[int, list[FiredTrigger]]:
    """The firings at versions and at all that rules posted in turn, by the place of the event that began it.

    Who posted a version is noted among the owners.
    """
    found: dict[int, list[FiredTrigger]] = {}
    for at, one in enumerate(chronon.firings[before.firings :], before.firings):
        place = None if one.firing.seq is None else owners.get(one.firing.seq)
        if place is not None:
            fired = settled(one, at, chronon.became)
            found.setdefault(place, []).append(fired)
            deeds = (deed for call in fired.firing.calls for deed in call.deeds)
            owners |= {deed.seq: place for deed in deeds if isinstance(deed, Posted) and deed.seq is not None}
    return found


def _occurrences(
    plan: EnginePlan, state: EngineState, owners: Mapping[int, int], before: Marks
) -> dict[int, list[str]]:
    """The complex events that came about at versions, as lines, by the place of the event that began it."""
    lines: dict[int, list[str]] = {}
    for place, parts in sorted(state.chronon.found.items()):
        known = before.found.get(place, 0)
        if len(parts) == known:
            continue
        found = joined(parts[known:])
        if owners.keys().isdisjoint(found.seq.tolist()):
            continue
        # Whether an event changes one that is there depends on all of its key.
        versions = detecting.versions_of(plan, state, place, found, state.chronon.keys_found(place, known))
        rows: dict[int, list[int]] = {}
        for row, seq in enumerate(versions.seq.tolist()):
            if seq in owners:
                rows.setdefault(owners[seq], []).append(row)
        for owner, own in rows.items():
            lines.setdefault(owner, []).extend(version_lines(versions.at(np.array(own))))
    return lines


def rules_that_failed(ticked: Ticked) -> Iterator[str]:
    """A sentence for every rule of a tick that failed; what it did before that stands."""
    for fired in ticked.firings:
        for rule, reason in failures_of(fired):
            yield f"rule `{rule}` of trigger `{fired.firing.trigger}`, firing {fired.number}: {reason}"


def failures_of(fired: FiredTrigger) -> Iterator[tuple[str, str]]:
    """The rules of a firing that failed, with what went wrong: which function, and what it raised, in a few words."""
    for call in fired.firing.calls:
        for deed in call.deeds:
            if isinstance(deed, Done) and deed.failure is not None:
                yield call.rule, f"{deed.name} failed: {deed.failure}"

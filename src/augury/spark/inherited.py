"""Whose states the slots of a changed program go on with, where the history can no longer give them all.

In: a lake, its last commit, and the slots of the new program. Out: for each slot the states of the program before that
have its classes; or a refusal, before anything is changed, where a class lies in other slots now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from augury.algebra.program import Program
from augury.engine.grafting import Grown, kept_of
from augury.engine.plan import engine_plan
from augury.engine.replacing import same_classes
from augury.engine.sharded import Slots, slots_of
from augury.engine.shards import Shard
from augury.engine.snapshot import STATE_FORMAT, loaded_state
from augury.event import key_of
from augury.lake import Lake, LakeFiles, Manifest
from augury.spark.arriving import sources_of
from augury.spark.slots import Step, kit_of
from augury.spark.stepping import name_of, plain

Compile = Callable[[str], Program]
"""How the text of a program is read that was at work before."""


class NotInherited(ValueError):
    """No state before can be gone on with; the message says why, as the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """The classes that go on, by the names they are matched by, and from where.

    `step` has the slots of the program before with the files of their states, `slots` for each slot now those that
    have its classes.
    """

    step: Step
    slots: Mapping[int, tuple[int, ...]]
    kept: frozenset[str]

    def grown(self, slot: int, lake: LakeFiles) -> Iterator[Grown]:
        """The states before of the classes of a slot."""
        for before in self.slots.get(slot, ()):
            if before in self.step.states:
                plan = kit_of(self.step, before).plan
                yield Grown(plan, loaded_state(plan, lake.read_bytes(self.step.states[before])))


def inherited(
    lake: Lake,
    last: Manifest,
    new: Slots,
    anew: Sequence[int],
    has_history: Callable[[str], bool],
    compile: Compile | None,
) -> Inherited:
    """What the slots that are to be run again go on with; raises `NotInherited`."""
    noted: Mapping[str, Any] = last.offsets or {}
    if noted.get("states") != STATE_FORMAT:
        raise NotInherited("states were written in another format")
    if compile is None:
        raise NotInherited("nobody has said how to read the program before")
    was = compile(lake.program_text(last.program))
    was = replace(was, settings=replace(was.settings, chronon_us=lake.about.chronon_us))
    old = slots_of(plain(was), new.buckets, whole_selects=noted.get("selects", "duckdb") == "spark")
    same = same_classes(old.program, new.program, has_history)
    plans = [engine_plan(old.program_of(old.starts[shard])) for shard in range(len(old.shards))]
    kept: set[str] = set()
    slots: dict[int, tuple[int, ...]] = {}
    for number in sorted({new.shard_of(slot) for slot in anew}):
        shard = new.shards[number]
        own = kept_of(plans, engine_plan(new.program_of(new.starts[number])), same)
        kept |= own
        places = [place for place in shard.places if _name(new, place) in own]
        before = sorted({_shard_before(old, new, shard, place) for place in places})
        for slot in range(*new.starts[number : number + 2]):
            slots[slot] = tuple(old.starts[one] + slot - new.starts[number] for one in before)
    names = ((slot, f"slot/{old.name_of(slot)}") for slot in range(len(old)))
    states = {slot: last.state[name] for slot, name in names if name in last.state}
    step = Step(old, name_of(old), sources_of({}), 0, None, states=states)
    return Inherited(step, slots, frozenset(kept))


def _name(slots: Slots, place: int) -> str:
    return key_of(slots.program.classes[place].event_class.name)


def _shard_before(old: Slots, new: Slots, shard: Shard, place: int) -> int:
    """The shard before that a class was in; raises `NotInherited` where its events lie in other slots now."""
    name = _name(new, place)
    at = next(one for one in range(len(old.program.classes)) if _name(old, one) == name)
    number = next(i for i, one in enumerate(old.shards) if at in one.places)
    had, has = old.shards[number].columns(at), shard.columns(place)
    if [*map(key_of, had)] != [*map(key_of, has)]:
        shown = [f"by ({', '.join(columns)})" if columns else "in one piece" for columns in (had, has)]
        raise NotInherited(
            f"`{new.program.classes[place].event_class.name}` was run {shown[0]} and would be run {shown[1]}"
        )
    return number

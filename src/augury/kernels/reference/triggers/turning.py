"""What is in force when: triggers come and go, rules, groups and triggers are switched on and off.

In: a program and its turns. Out: how long each trigger lives, and the rules at a moment. A turn at T comes before all
that happens at T; of two at one T the later one in the list counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from augury.algebra.program import Program
from augury.algebra.rule import Trigger
from augury.event import key_of
from augury.kernels.firing import Revision, Switch, Switched, Turn
from augury.kernels.reference.triggers.structures import InForce


@dataclass(frozen=True, slots=True)
class Life:
    """A trigger from when to when it is there; None is for ever."""

    trigger: Trigger
    since: int | None
    until: int | None

    def is_there(self, time: int) -> bool:
        """Whether it sees what happens at that time."""
        return (self.since is None or self.since <= time) and (self.until is None or time < self.until)


def lives(program: Program, turns: Sequence[Turn]) -> list[Life]:
    """Every trigger that is ever there; one that a revision leaves as it is lives on, a replaced one begins anew."""
    found = [Life(trigger, None, None) for trigger in program.triggers]
    for turn in sorted((turn for turn in turns if isinstance(turn, Revision)), key=lambda turn: turn.at):
        kept = {life.trigger for life in found if life.until is None} & {*turn.program.triggers}
        found = [
            replace(life, until=turn.at) if life.until is None and life.trigger not in kept else life for life in found
        ]
        found += [Life(trigger, turn.at, None) for trigger in turn.program.triggers if trigger not in kept]
    return found


def program_at(program: Program, turns: Sequence[Turn], time: int) -> Program:
    """The program whose rules, groups and triggers count at a time."""
    revisions = sorted((turn for turn in turns if isinstance(turn, Revision) and turn.at <= time), key=lambda r: r.at)
    return revisions[-1].program if revisions else program


def in_force(program: Program, turns: Sequence[Turn], time: int) -> InForce:
    """The rules at a time. A rule is off if it is disabled itself or one of its groups is."""
    current = program_at(program, turns, time)
    off = {
        key_of(rule.name)
        for rule in current.rules
        if not is_on(turns, Switched.RULE, rule.name, time)
        or not all(is_on(turns, Switched.GROUP, group, time) for group in rule.groups)
    }
    return InForce({key_of(rule.name): rule for rule in current.rules}, off)


def is_on(turns: Sequence[Turn], kind: Switched, name: str, time: int) -> bool:
    """Whether a rule, group or trigger is enabled at a time; it is until somebody disables it."""
    switches = sorted(
        (
            t
            for t in turns
            if isinstance(t, Switch) and t.kind is kind and key_of(t.name) == key_of(name) and t.at <= time
        ),
        key=lambda switch: switch.at,
    )
    return switches[-1].on if switches else True

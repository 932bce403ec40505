"""What runs on Spark: a stage per expression, with the rows and columns it reads, its key, and the classes it feeds.

Plain data that goes to the workers; `plan` makes it. Stages that are cut by the same keys, or all into ranges of the
history, are a group: they share a shuffle and a task. It reads no event and starts no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan, Primitive
from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import Diagnostic, Mark
from augury.engine.keys import Key, history_codes
from augury.event import ClassKind, EventClass, key_of
from augury.spark.layout import Names, lanes_of
from augury.types import Decimal, Double

ENGINE: Final = "the Spark engine"


class NotOnSpark(ValueError):
    """A program with a class that this engine does not run; `diagnostics` say which, and point to it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic."""
        super().__init__(diagnostic.message)
        self.diagnostics = (diagnostic,)


def not_yet(what: str, event_class: EventClass) -> NotOnSpark:
    """What to raise for a class that needs something which this engine does not run."""
    message = f"{ENGINE} does not run {what} yet, as `{event_class.name}` needs it to"
    return NotOnSpark(Diagnostic("E313", message, Mark(event_class.span, "cannot be run")))


@dataclass(frozen=True, slots=True)
class Stage:
    """An expression: `classes` of its history, `sent` those whose rows it reads, `columns` (class, attribute) of them.

    `members` are the classes whose events it finds, more than one where they have it in common. Without keys, for the
    reason given, it goes over ranges of the history, or over all of it in one partition, as `whole` says. `counted`
    says that rows come with their positions, `timed` that they come with how far the clock goes. Rows of which none of
    `leaves` is true may be left out, where these are not None.
    """

    number: int
    derivation: MatchPlan | CompositePlan
    members: tuple[ClassPlan, ...]
    classes: tuple[EventClass, ...]
    sent: tuple[int, ...]
    columns: tuple[tuple[int, int], ...]
    keys: tuple[Key, ...]
    reason: str
    counted: bool = False
    timed: bool = False
    leaves: tuple[Primitive, ...] | None = None
    whole: str | None = None
    """Why the history cannot be cut into ranges; empty where it can, and None where nobody has asked."""

    @property
    def ranged(self) -> bool:
        """Whether it goes over ranges of the history, side by side."""
        return not self.keys and self.whole == ""

    @property
    def found(self) -> tuple[EventClass, ...]:
        """The classes of what it finds."""
        return tuple(plan.event_class for plan in self.members)

    @property
    def reads_complex(self) -> tuple[EventClass, ...]:
        """The complex classes that it reads, in order of declaration."""
        return tuple(c for c in self.classes if c.kind is ClassKind.COMPLEX)

    @property
    def history(self) -> tuple[int, ...]:
        """The classes whose events are in its history."""
        return history_codes(self.derivation.over, self.derivation.partition_by, self.classes)

    @property
    def position_name(self) -> str:
        """The column of positions in its history, which stages of one history share."""
        return "p" + "_".join(map(str, self.history))


@dataclass(frozen=True, slots=True)
class Group:
    """Stages that one task runs, over rows that are brought together once; they have equal keys and classes."""

    stages: tuple[Stage, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        """What rows are brought together by; empty where they all go to one place, or stay in ranges."""
        found = self.stages[0].keys
        for stage in self.stages[1:]:
            found = same_keys(found, stage.keys) or found
        return found

    @property
    def classes(self) -> tuple[EventClass, ...]:
        """The classes of the history."""
        return self.stages[0].classes

    @property
    def members(self) -> tuple[tuple[Stage, EventClass], ...]:
        """The classes that are found, each with its stage."""
        return tuple((stage, c) for stage in self.stages for c in stage.found)

    @property
    def found(self) -> tuple[EventClass, ...]:
        """The classes of what is found: their order gives the numbers of members."""
        return tuple(c for _, c in self.members)

    @property
    def sent(self) -> tuple[int, ...]:
        """The classes whose rows some stage reads."""
        return tuple(sorted({code for stage in self.stages for code in stage.sent}))

    @property
    def own(self) -> tuple[int, ...]:
        """Those of them that are not complex."""
        return tuple(code for code in self.sent if self.classes[code].kind is not ClassKind.COMPLEX)

    @property
    def lanes(self) -> Names:
        """The columns of what some stage reads of a class; those of keys come first, so that classes share them."""
        named = sorted({column for stage in self.stages for column in stage.columns})
        keyed = [(code, name) for key in self.keys for code, name in key.places]
        first = [(code, i) for code, i in named if (code, self.classes[code].attributes[i].name) in keyed]
        rest = [place for place in named if place not in first]
        return lanes_of([(place, self.classes[place[0]].attributes[place[1]].type) for place in (*first, *rest)])

    @property
    def histories(self) -> Mapping[str, tuple[int, ...]]:
        """The columns of positions that its stages read, each with the classes that are counted."""
        return {stage.position_name: stage.history for stage in self.stages if stage.counted}

    @property
    def ranged(self) -> bool:
        """Whether its stages go over ranges of the history."""
        return self.stages[0].ranged

    @property
    def timed(self) -> bool:
        """Whether some stage has to know how far the clock goes."""
        return any(stage.timed for stage in self.stages)

    @property
    def leaves(self) -> tuple[Primitive, ...] | None:
        """Rows of which none of these is true may be left out; None where all rows matter to some stage."""
        each = [stage.leaves for stage in self.stages]
        return None if None in each else tuple(leaf for leaves in each for leaf in leaves or ())


def groups_of(stages: Sequence[Stage]) -> tuple[Group, ...]:
    """Stages that may share a task together, the others alone, in the order in which they can run."""
    found: list[Group] = []
    for stage in stages:
        at = next((at for at, group in enumerate(found) if _may_join(group, stage)), None)
        if at is None:
            found.append(Group((stage,)))
        else:
            found[at] = Group((*found[at].stages, stage))
    return tuple(found)


def _may_join(group: Group, stage: Stage) -> bool:
    # What is in one place takes a core to itself; what reads complex events has a history of its own.
    if any(one.reads_complex or not (one.keys or one.ranged) for one in (group.stages[0], stage)):
        return False
    return group.ranged and stage.ranged if not stage.keys else same_keys(group.keys, stage.keys) is not None


def same_keys(keys: Sequence[Key], others: Sequence[Key]) -> tuple[Key, ...] | None:
    """Keys by which the rows of both come together; None where these are not the same, whatever they are called.

    They are where the same attributes of the classes that both read tell events apart, as values of one type.
    """
    if len(keys) != len(others):
        return None
    left, found = [*others], []
    for key in keys:
        other = next((one for one in left if _agree(key, one)), None)
        if other is None:
            return None
        left.remove(other)
        found.append(replace(key, places=tuple(sorted({*key.places, *other.places}))))
    return tuple(found)


def _agree(key: Key, other: Key) -> bool:
    mine, theirs = dict(key.places), dict(other.places)
    both = mine.keys() & theirs.keys()
    return key.type == other.type and bool(both) and all(mine[code] == theirs[code] for code in both)


def histories_of(groups: Iterable[Group]) -> dict[str, tuple[int, ...]]:
    """The histories in which some stage has to know positions, by the names of their columns."""
    return {name: codes for group in groups for name, codes in group.histories.items()}


def plain(program: Program) -> Program:
    """What accepts events, and nothing that pulls the whole front end into a worker or cannot be pickled."""
    return Program(program.settings, program.classes, program.strata, program.sources, groups={})


def subscribed(program: Program) -> tuple[EventClass, ...]:
    """The classes whose versions are accepted: their order gives their codes."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    return tuple(p.event_class for p in program.classes if p.event_class.kind in kinds)


def torn(keys: Sequence[Key], classes: Sequence[EventClass]) -> str:
    """Why Spark must not bring rows together by these keys: where it rounds by itself; empty where it may."""
    for code, name in (place for key in keys if isinstance(key.type, Double) for place in key.places):
        attribute = classes[code].attribute(name)
        if attribute is not None and isinstance(attribute.type, Decimal):
            return f"`{classes[code].name}.{name}` is compared with DOUBLEs and is none"
    return ""


def columns_sent(named: Collection[tuple[int, str]], classes: Sequence[EventClass]) -> tuple[tuple[int, int], ...]:
    """The attributes that an expression names, and all of complex events: these are put in order by their values."""
    return tuple(
        (code, i)
        for code, c in enumerate(classes)
        for i, attribute in enumerate(c.attributes)
        if c.kind is ClassKind.COMPLEX or (code, key_of(attribute.name)) in named
    )

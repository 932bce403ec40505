"""What runs on Spark: a stage per expression, with the rows and columns it reads, its key, and the classes it feeds.

Plain data that goes to the workers; `plan` makes it. It reads no event and starts no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as s

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import ClassPlan, Program
from augury.diagnostics import Diagnostic, Mark
from augury.event import ClassKind, EventClass, key_of
from augury.kernels.match.leaves import code_of
from augury.spark.layout import spark_type
from augury.types import Type

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
class Key:
    """What rows are brought together by: an attribute of each class, all as one type."""

    name: str
    type: Type
    places: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """An expression: `classes` of its history, `sent` those whose rows it reads, `columns` (class, attribute) of them.

    `members` are the classes whose events it finds, more than one where they have it in common. Without keys there is
    one partition, for the reason given. `counted` says that rows come with their positions, `timed` that they come
    with how far the clock goes.
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

    @property
    def found(self) -> tuple[EventClass, ...]:
        """The classes of what it finds."""
        return tuple(plan.event_class for plan in self.members)

    @property
    def reads_complex(self) -> tuple[EventClass, ...]:
        """The complex classes that it reads, in order of declaration."""
        return tuple(c for c in self.classes if c.kind is ClassKind.COMPLEX)

    @property
    def position_name(self) -> str:
        """The column of positions in its history."""
        return f"p{self.number}"

    @property
    def key_names(self) -> tuple[str, ...]:
        """The columns of its keys."""
        return tuple(f"k{self.number}_{i}" for i in range(len(self.keys)))

    def further(self) -> list[tuple[str, s.DataType]]:
        """The columns that the accepting task makes for it."""
        counted: list[tuple[str, s.DataType]] = [(self.position_name, s.LongType())] if self.counted else []
        return counted + [(n, spark_type(key.type)) for n, key in zip(self.key_names, self.keys, strict=True)]


def subscribed(program: Program) -> tuple[EventClass, ...]:
    """The classes whose versions are accepted: their order gives their codes."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    return tuple(p.event_class for p in program.classes if p.event_class.kind in kinds)


def partition_keys(
    partition_by: Sequence[str], history: Sequence[int], classes: Sequence[EventClass]
) -> tuple[Key, ...]:
    """The attributes that PARTITION BY names, of the classes that are in a partition."""
    found = []
    for name in partition_by:
        attributes = [(code, classes[code].attribute(name)) for code in history]
        there = [(code, attribute) for code, attribute in attributes if attribute is not None]
        # As `initial_state` has it: the type of the first class that has the attribute, in the history or not.
        first = next(a for c in classes if (a := c.attribute(name)) is not None)
        found.append(Key(name, first.type, tuple((code, attribute.name) for code, attribute in there)))
    return tuple(found)


def history_codes(
    over: Sequence[str] | None, partition_by: Sequence[str], classes: Sequence[EventClass]
) -> tuple[int, ...]:
    """The classes whose events are in the history, or in one of its partitions."""
    named = range(len(classes)) if over is None else sorted(code_of(classes, name) for name in over)
    return tuple(code for code in named if all(classes[code].attribute(name) is not None for name in partition_by))


def columns_sent(named: Collection[tuple[int, str]], classes: Sequence[EventClass]) -> tuple[tuple[int, int], ...]:
    """The attributes that an expression names, and all of complex events: these are put in order by their values."""
    return tuple(
        (code, i)
        for code, c in enumerate(classes)
        for i, attribute in enumerate(c.attributes)
        if c.kind is ClassKind.COMPLEX or (code, key_of(attribute.name)) in named
    )

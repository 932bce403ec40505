"""A checked program: settings, classes in stratified order, rules and triggers, as one immutable value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.rule import ActionCall, ConditionAction, Rule, Trigger
from augury.algebra.select import SelectPlan
from augury.algebra.wiring import Binding, Detection
from augury.event import EventClass, key_of


@dataclass(frozen=True, slots=True)
class Settings:
    """What SET statements say; `retain_us` is None where the history is kept for ever."""

    chronon_us: int = 1_000_000
    archive: bool = False
    retain_us: int | None = None


@dataclass(frozen=True, slots=True)
class Cron:
    """A clock class that is posted by a cron schedule in a time zone."""

    pattern: str
    zone: str


@dataclass(frozen=True, slots=True)
class Every:
    """A clock class that is posted at every multiple of a period."""

    period_us: int


Derivation = MatchPlan | CompositePlan | SelectPlan | Cron | Every


@dataclass(frozen=True, slots=True)
class ClassPlan:
    """A class, how its events are derived (None: they are subscribed), and its condition-action statements."""

    event_class: EventClass
    derivation: Derivation | None
    statements: tuple[ConditionAction, ...]
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMapping:
    """Foreign column names of a class, and the attributes or times they are."""

    event_class: str
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything a program says. In `strata` each class stands in a layer after all that it reads."""

    settings: Settings
    classes: tuple[ClassPlan, ...]
    strata: tuple[tuple[str, ...], ...]
    sources: tuple[SourceMapping, ...] = ()
    rules: tuple[Rule, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    triggers: tuple[Trigger, ...] = ()
    bindings: tuple[Binding, ...] = ()
    detections: tuple[Detection, ...] = ()
    text: str = field(default="", compare=False, repr=False)
    """As it was written, for whoever keeps it beside what it gave; empty for a part of a program."""

    def class_plan(self, name: str) -> ClassPlan | None:
        """The class of that name."""
        return next((c for c in self.classes if key_of(c.event_class.name) == key_of(name)), None)

    def action_calls(self) -> Iterator[ActionCall]:
        """Every place where an action is done: those of classes, then those of rules."""
        for plan in self.classes:
            for statement in plan.statements:
                yield from statement.actions
        for rule in self.rules:
            yield from (deed for deed in (*rule.actions, *rule.alternatives) if isinstance(deed, ActionCall))


def require_program(given: object) -> None:
    """Raise TypeError for what is no checked program, such as its text."""
    if not isinstance(given, Program):
        raise TypeError(f"a {type(given).__name__} is no program: augury.compile(text) makes one")

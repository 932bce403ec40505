"""What is done about events: condition-action statements, rules, rule structures and triggers, resolved and typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from augury.algebra.composite import CompositePlan
from augury.algebra.scalar import Scalar
from augury.diagnostics import NOWHERE, Span
from augury.event import Attribute
from augury.types import Type


def _span() -> Span:
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its arguments."""

    name: str
    arguments: tuple[Scalar, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Post:
    """An event that a rule posts; one value per attribute of the class."""

    event_class: str
    values: tuple[Scalar, ...]
    span: Span = _span()


Deed = ActionCall | Post


@dataclass(frozen=True, slots=True)
class ConditionAction:
    """`ON condition DO actions` of a class."""

    condition: Scalar
    actions: tuple[ActionCall, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition and what is done when it holds and when it does not."""

    name: str
    parameters: tuple[Attribute, ...]
    condition: Scalar | None
    actions: tuple[Deed, ...]
    alternatives: tuple[Deed, ...]
    groups: tuple[str, ...] = ()
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Returned:
    """What a rule gave back that comes before by `>`: `RETURNED(R1)`, of the last such that ran."""

    rule: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class RuleCall:
    """A rule with its arguments."""

    rule: str
    arguments: tuple[Scalar | Returned, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class InOrder:
    """One after the other."""

    steps: tuple[Structure, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SideBySide:
    """All at once."""

    branches: tuple[Structure, ...]
    span: Span = _span()


Structure = RuleCall | InOrder | SideBySide


class Policy(StrEnum):
    """What becomes of the rules that come after one that failed."""

    STOP = "stop"
    CONTINUE = "continue"


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events that trigger, what must have happened, and the rules to run."""

    name: str
    parameters: tuple[Attribute, ...]
    events: tuple[str, ...]
    composite: CompositePlan | None
    structure: Structure
    policy: Policy
    returns: tuple[Type, str] | None
    span: Span = _span()

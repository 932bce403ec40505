"""The syntax of a program: frozen nodes with spans, as `parser` makes and `printer` prints them.

Spans take no part in equality, so two texts that say the same give equal trees.
Nothing here is resolved: a name is a word, a type is a word, a time is its fields.
"""

from __future__ import annotations

from dataclasses import dataclass

from augury.diagnostics import Span
from augury.language.terms import *  # noqa: F403 - one module to readers, two to keep each short
from augury.language.terms import (
    CompositeExpression,
    DurationLiteral,
    Ident,
    Literal,
    MatchExpression,
    Scalar,
    TypeRef,
    no_span,
)

# ---- clauses ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Returned:
    """`expression AS name`, in RETURN and COLLECT."""

    expression: Scalar
    name: Ident
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class OrderByOccurrence:
    """`ORDER BY OCCURRENCE [ALLOWING d]`."""

    allowing: DurationLiteral | None = None
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Collect:
    """`COLLECT RECENT|EARLIEST|ALL` (`choice`), or aggregates over ALL."""

    choice: Ident | None
    aggregates: tuple[Returned, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Clauses:
    """What may follow a MATCH or COMPOSITE expression."""

    over: tuple[Ident, ...] | None = None
    partition_by: tuple[Ident, ...] = ()
    order_by: OrderByOccurrence | None = None
    where: Scalar | None = None
    within: DurationLiteral | None = None
    collect: Collect | None = None
    context: Ident | None = None
    returned: tuple[Returned, ...] = ()


# ---- statements --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attribute:
    """`name type`."""

    name: Ident
    type: TypeRef
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class ActionCall:
    """`informOwner('delayed', NEW.resource)`; `post` for a rule's `POST Class(…)`."""

    name: Ident
    arguments: tuple[Scalar, ...]
    post: bool = False
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class OnStatement:
    """`ON condition DO action(…), …`."""

    condition: Scalar
    actions: tuple[ActionCall, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Forever:
    """`LIFESPAN (-1)`."""

    span: Span = no_span()


Lifespan = DurationLiteral | Forever


@dataclass(frozen=True, slots=True)
class SubscribedClass:
    """`CREATE [IM]MUTABLE SUBSCRIBED EVENT CLASS …`."""

    name: Ident
    mutable: bool
    attributes: tuple[Attribute, ...]
    key: tuple[Ident, ...]
    lifespan: Lifespan
    statements: tuple[OnStatement, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class SelectSource:
    """`AS SELECT … OCCURRING AT time`; the SQL is kept as written and starts at `sql_span`."""

    sql: str
    occurring_at: Scalar
    sql_span: Span = no_span()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class MatchSource:
    """`AS MATCH expression clauses`."""

    expression: MatchExpression
    clauses: Clauses = Clauses()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class CompositeSource:
    """`AS COMPOSITE expression clauses`."""

    expression: CompositeExpression
    clauses: Clauses = Clauses()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class ComplexClass:
    """`CREATE COMPLEX EVENT CLASS …`."""

    name: Ident
    attributes: tuple[Attribute, ...]
    key: tuple[Ident, ...]
    lifespan: Lifespan | None
    source: SelectSource | MatchSource | CompositeSource
    statements: tuple[OnStatement, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class ClockClass:
    """`CREATE CLOCK EVENT CLASS … AT 'cron' [ZONE 'zone']`, or `EVERY d`."""

    name: Ident
    cron: Literal | None
    zone: Literal | None
    every: DurationLiteral | None
    lifespan: Lifespan | None = None
    statements: tuple[OnStatement, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class SetStatement:
    """`SET CHRONON 15m`, `SET ARCHIVE ON`, `SET HISTORY RETAIN 30d`."""

    words: tuple[Ident, ...]
    value: Literal | DurationLiteral
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Definition:
    """`DEFINE name(args) = expression`."""

    name: Ident
    parameters: tuple[Ident, ...]
    expression: MatchExpression
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """`foreign AS name`."""

    foreign: Ident
    name: Ident
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class SourceStatement:
    """`SOURCE Class FROM COLUMNS (…)`."""

    event_class: Ident
    columns: tuple[ColumnMapping, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Rule:
    """`RULE name (parameters) [CONDITION c] [ACTION …] [ALTERNATIVEACTION …]`."""

    name: Ident
    parameters: tuple[Attribute, ...]
    condition: Scalar | None
    actions: tuple[ActionCall, ...]
    alternatives: tuple[ActionCall, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """`RULE GROUP g (R1, R2)`."""

    name: Ident
    rules: tuple[Ident, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class RuleCall:
    """`R1(v1, v2)` in a RULESTRUC; no arguments and no parentheses are the same."""

    name: Ident
    arguments: tuple[Scalar, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class OneAfterTheOther:
    """`R1 > R2 > …`."""

    steps: tuple[RuleStructure, ...]
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class SideBySide:
    """`R1, R2, …`."""

    branches: tuple[RuleStructure, ...]
    span: Span = no_span()


RuleStructure = RuleCall | OneAfterTheOther | SideBySide


@dataclass(frozen=True, slots=True)
class Returns:
    """`RETURNS type : rule`."""

    type: TypeRef
    rule: Ident
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Trigger:
    """`TRIGGER name (parameters) TRIGGEREVENT … COMPOSITEEVENT … RULESTRUC … ON FAILURE policy RETURNS …`."""

    name: Ident
    parameters: tuple[Attribute, ...]
    events: tuple[Ident, ...]
    composite: CompositeSource | None
    structure: RuleStructure
    policy: Ident | None
    returns: Returns | None
    span: Span = no_span()


# ---- acting and sensing --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """`ENV 'NAME'`: a text that is in a variable of the environment."""

    variable: str
    span: Span = no_span()


Text = Literal | FromEnvironment


@dataclass(frozen=True, slots=True)
class Option:
    """`name = value`, in WITH."""

    name: Ident
    value: Literal | DurationLiteral | FromEnvironment
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class Binding:
    """`BIND action, … TO KIND text … [WITH (…)]`; of `TO EVENT Class` the class is in `event_class`."""

    actions: tuple[Ident, ...]
    kind: Ident
    target: tuple[Text, ...]
    event_class: Ident | None = None
    options: tuple[Option, ...] = ()
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class FieldPath:
    """`attribute = 'where it is in an item'`, in FIELDS."""

    name: Ident
    path: Literal
    span: Span = no_span()


@dataclass(frozen=True, slots=True)
class DetectClauses:
    """What may follow the source of a DETECT; the words after FORWARD and WITHDRAW are not checked here."""

    every: DurationLiteral | None = None
    items: Literal | None = None
    fields: tuple[FieldPath, ...] = ()
    next_page: Literal | None = None
    forward: Ident | None = None
    withdraw: Ident | None = None
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class Detection:
    """`DETECT Class [AS name] FROM KIND source clauses`."""

    event_class: Ident
    detector: Ident | None
    kind: Ident
    source: Text
    clauses: DetectClauses = DetectClauses()
    span: Span = no_span()

    @property
    def name(self) -> Ident:
        """What the detector is called: what AS says, or its class."""
        return self.detector or self.event_class


EventClassStatement = SubscribedClass | ComplexClass | ClockClass
NamedStatement = EventClassStatement | Definition | Rule | RuleGroup | Trigger
Statement = NamedStatement | SetStatement | SourceStatement | Binding | Detection


@dataclass(frozen=True, slots=True)
class Comment:
    """A `--` comment, without its line break."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Program:
    """The statements of one text, in order."""

    statements: tuple[Statement, ...]

"""What a server is asked and answers, as types: they document the routes, and check what is asked.

Answers with values of events are written as text, digit by digit, and only described here.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """What all of them have in common: nothing that is not named."""

    model_config = ConfigDict(extra="forbid")


class Place(BaseModel):
    """A place in a program; lines and columns count from 1."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int
    label: str


class DiagnosticModel(Place):
    """A finding about a program, as `augury check --output json` has it."""

    severity: str
    code: str
    message: str
    file: str
    others: list[Place]
    helps: list[str]


class ProblemDocument(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    diagnostics: list[DiagnosticModel] | None = None


class Refused(BaseModel):
    """An event of a request that is none: which, counted from 1, and why."""

    line: int
    reason: str


class Accepted(BaseModel):
    """How many events are durable, and which are refused; of many refusals the first are told."""

    accepted: int
    refused: list[Refused]


class FailedModel(BaseModel):
    """A rule that failed: what it did before stands, and the rest is not done."""

    rule: str
    reason: str


class FiredModel(BaseModel):
    """A trigger that fired; a rule that failed gives null back, and is among `failed`."""

    model_config = ConfigDict(extra="allow")

    trigger: str
    number: int
    event: str
    key: dict[str, Any]
    seq: int | None
    constituents: list[int]
    returned: Any = None
    failed: list[FailedModel]


class AnswerModel(BaseModel):
    """What became of an event: the version, what it brought about, and what triggers gave back."""

    place: int | None
    seq: int | None
    refused: str | None
    absorbed: bool
    returned: dict[str, Any]
    firings: list[FiredModel]
    occurrences: list[dict[str, Any]]


class Answers(BaseModel):
    """What became of several events, in their order."""

    answers: list[AnswerModel]


class AttributeModel(BaseModel):
    """An attribute of a class."""

    name: str
    type: str


class ClassModel(BaseModel):
    """An event class; `lifespan` is null for one whose events never expire. One that is not `enabled` takes none."""

    name: str
    kind: str
    enabled: bool
    mutable: bool
    attributes: list[AttributeModel]
    key: list[str]
    lifespan: str | None
    reads: list[str]
    derivation: str


class Classes(BaseModel):
    """The classes of the program, in the order of declaration."""

    classes: list[ClassModel]


class Rows(BaseModel):
    """A page of rows; `next` is what to ask `after` for the page that follows, null where there is none yet."""

    rows: list[dict[str, Any]]
    next: int | None


class Feed(BaseModel):
    """A page of what happened; `cursor` is what to ask `after` for what follows, also if that is still to come."""

    rows: list[dict[str, Any]]
    cursor: str
    more: bool


class TriggerModel(BaseModel):
    """A trigger; `composite` and `structure` are as `augury explain` shows them."""

    name: str
    enabled: bool
    parameters: list[AttributeModel]
    events: list[str]
    returns: str | None
    text: str


class Triggers(BaseModel):
    """The triggers of the program."""

    triggers: list[TriggerModel]


class RuleModel(BaseModel):
    """A rule."""

    name: str
    enabled: bool
    parameters: list[AttributeModel]
    groups: list[str]
    text: str


class RuleList(BaseModel):
    """The rules of the program."""

    rules: list[RuleModel]


class GroupModel(BaseModel):
    """A group of rules."""

    name: str
    enabled: bool
    rules: list[str]


class Groups(BaseModel):
    """The groups of rules."""

    groups: list[GroupModel]


class Evaluated(BaseModel):
    """Whether the composite event of a trigger has occurred, and no firing has used it."""

    trigger: str
    occurred: bool


class Checked(BaseModel):
    """What is wrong with a program; without errors it can be run."""

    ok: bool
    diagnostics: list[DiagnosticModel]


class Explained(BaseModel):
    """A program at a stage, or the long help of a code."""

    text: str


class ProgramModel(BaseModel):
    """The program that runs, as it was written."""

    text: str


class ActionModel(BaseModel):
    """An action of the outbox."""

    model_config = ConfigDict(extra="allow")

    key: str
    state: str
    attempts: int
    action: str
    args: list[Any]
    event: str
    reason: str


class Actions(BaseModel):
    """A page of actions."""

    rows: list[ActionModel]
    next: int | None


class WantedActions(Model):
    """Which actions: those that fit all that is given; `all` stands for all of them, where nothing else is given."""

    keys: list[str] = Field(default_factory=list, max_length=1_000)
    states: list[str] = Field(default_factory=list, max_length=4)
    action: str | None = None
    event: str | None = None
    all: bool = False


class Count(BaseModel):
    """How many it was done to."""

    count: int


class Health(BaseModel):
    """That the process answers."""

    alive: bool


class Ready(BaseModel):
    """Whether events are taken, and if not why."""

    ready: bool
    reason: str | None


class EngineModel(BaseModel):
    """How the engine is doing, and what runs beside it."""

    tick: str | None
    paused: bool
    reports: list[str]
    detectors: dict[str, Any] | None = None
    actions: dict[str, Any] | None = None


class DetectorList(BaseModel):
    """How detectors are doing, by name."""

    detectors: dict[str, Any]


class Deliveries(BaseModel):
    """How the delivery of actions is doing."""

    paused: bool
    delivered: int
    again: int
    dead: int


class Reloaded(BaseModel):
    """The modules that were loaded again."""

    modules: list[str]


class ChangeModel(BaseModel):
    """What becomes of one thing of a program: whether it is new, and what is remembered of it."""

    kind: str
    name: str
    what: str
    state: str
    why: str


class ChangesModel(BaseModel):
    """What a change of program does; `replays`: the history is gone over again, to work out what is to be rebuilt."""

    changes: list[ChangeModel]
    replays: bool
    lines: list[str]

"""The nouns of `augury test`: what a suite says, before any program is known.

In: nothing; `suite_read` makes them. Out: frozen values, each with its place in the suite. Times are microseconds since
the epoch; offsets have been added to the start of their test already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from augury.diagnostics import Diagnostic, Source, Span
from augury.trying.suite_values import Value

ENGINES: Final = ("local", "spark", "spark-stream")
"""What a test can be run on."""

REPEATS_MAX: Final = 100_000
"""How often one line of a suite can be repeated: what a test reads is meant to be read by people, too."""

CHANGES: Final = ("announce", "change", "withdraw")


class Kind(StrEnum):
    """What a line speaks of; a short line in `never` does not say."""

    EVENT = "event"
    ACTION = "action"
    FIRING = "firing"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Argument:
    """A value between parentheses; `name` is None where it stands by position."""

    name: str | None
    value: Value
    span: Span


@dataclass(frozen=True, slots=True)
class Said:
    """One event, action or firing of a suite, given or expected; what it does not say is None, or as it is by default.

    `arguments` is None where there are no parentheses; `is_open` says that `...` ends them. `about` is the event that
    an action fired for, or a trigger at. `times` counts the repetitions, each `every_us` after the one before.
    `trigger` and `rule` are those that an action is from.
    """

    kind: Kind
    name: str
    name_span: Span
    span: Span
    written: str
    arguments: tuple[Argument, ...] | None = None
    is_open: bool = False
    change: str | None = None
    at_us: int | None = None
    seen_us: int | None = None
    every_us: int = 0
    times: int = 1
    event_id: str | None = None
    is_rejected: bool = False
    about: Said | None = None
    seq: int | None = None
    constituents: tuple[int, ...] | None = None
    trigger: str | None = None
    rule: str | None = None


class Demand(StrEnum):
    """What can be expected, as a suite names it."""

    EXPECT = "expect"
    ACTIONS = "expect_actions"
    FIRINGS = "expect_firings"
    SOME = "expect_some"
    NEVER = "never"


EXACT: Final = {Demand.EXPECT: Kind.EVENT, Demand.ACTIONS: Kind.ACTION, Demand.FIRINGS: Kind.FIRING}
"""Those that say all there is of a kind, so that what was got can be put in their place."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """A list of what is expected; `span` is the list, `key_span` its name."""

    demand: Demand
    lines: tuple[Said, ...]
    key_span: Span
    span: Span
    is_flow: bool = False
    """Whether it is written between brackets."""
    is_inline: bool = False
    """Whether it stands inside braces, where lists have to be written between brackets."""
    is_shared: bool = False
    """Whether it is an alias of a list that stands elsewhere."""


@dataclass(frozen=True, slots=True)
class Step:
    """Events that come, how far the clock then goes, and what is expected of it.

    Where it does not say how far, it is the tick after the last event so far.
    """

    span: Span
    events: tuple[Said, ...] = ()
    advance_to_us: int | None = None
    advance_span: Span | None = None
    expectations: tuple[Expectation, ...] = ()


ALL_ORDERS: Final = -1


@dataclass(frozen=True, slots=True)
class Test:
    """One test. `whole` has the events and expectations beside the steps: they are about all of it.

    `span` is its first line, `body_span` all of it, `indent` the column in which its keys stand. `orders` is how many
    arrival orders are tried: none, `ALL_ORDERS`, or so many that a seed draws.
    """

    name: str
    span: Span
    body_span: Span
    start_us: int
    whole: Step
    steps: tuple[Step, ...] = ()
    orders: int = 0
    engines: tuple[str, ...] = ("local",)
    indent: int = 0
    is_inline: bool = False

    def expectations(self) -> Iterator[tuple[int | None, Expectation]]:
        """Every expectation with the number of its step, from 1; None for those about the whole."""
        for number, step in enumerate(self.steps, 1):
            yield from ((number, one) for one in step.expectations)
        yield from ((None, one) for one in self.whole.expectations)

    @property
    def can_fail(self) -> bool:
        """Whether it expects anything."""
        return self.orders != 0 or any(True for _ in self.expectations())


@dataclass(frozen=True, slots=True)
class Suite:
    """A file of tests of one program; `program` is as written, relative to the suite."""

    source: Source
    program: str
    program_span: Span
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, slots=True)
class Unusable:
    """A suite that cannot be run, and everything that is wrong with it."""

    source: Source
    diagnostics: tuple[Diagnostic, ...] = field(default=())

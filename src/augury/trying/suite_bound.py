"""What a suite says of a program, once its names are known: rows that come, and lines that are wanted.

In: nothing; `suite_names` makes them, and engines what they are compared with. Out: frozen values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from augury.diagnostics import Span
from augury.kernels.firing import Outcome
from augury.trying.suite import Expectation, Kind, Said, Suite, Test
from augury.trying.suite_values import Value


@dataclass(frozen=True, slots=True)
class Row:
    """One event that comes, as a line of JSON; `said` is the line of the suite that it is a repetition of."""

    said: Said
    seen_us: int
    json: str
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line that is wanted, or must not be there; names are spelled as the program has them.

    `fields` are attributes of an event, or of the key of the event `about` which an action or firing is. `tick_us` is
    the tick at which it would be printed, where that can be told.
    """

    said: Said
    kind: Kind
    name: str
    fields: tuple[tuple[str, Value], ...] = ()
    arguments: tuple[Value, ...] | None = None
    is_open: bool = False
    about: str | None = None
    tick_us: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation about the ticks after one time, up to another; `step` counts from 1, and is None for the whole."""

    expectation: Expectation
    wanted: tuple[Wanted, ...]
    step: int | None
    after_us: int | None
    until_us: int | None


@dataclass(frozen=True, slots=True)
class BoundTest:
    """A test that can be run. `until_us` is the last tick, None where nothing comes and no time is given."""

    test: Test
    rows: tuple[Row, ...]
    checks: tuple[Check, ...]
    until_us: int | None


@dataclass(frozen=True, slots=True)
class BoundSuite:
    """A suite that can be run."""

    suite: Suite
    tests: tuple[BoundTest, ...]
    chronon_us: int


@dataclass(frozen=True, slots=True)
class Got:
    """A line that an engine printed, or a firing: what it holds, its tick, and for an action the statement, from 1.

    `statement` is None where it is not known, and 0 where a rule did it.
    """

    kind: Kind
    name: str
    line: Mapping[str, Any]
    tick_us: int
    statement: int | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of the rows of a test: lines in order, and what went wrong. Rows are known by their places, from 0."""

    got: tuple[Got, ...] = ()
    rejected: Mapping[int, str] = field(default_factory=dict)
    failed: tuple[tuple[int, str, str], ...] = ()
    """SELECTs that could not be evaluated: the tick, the class and why."""
    read: frozenset[str] = frozenset()
    """The classes of which a version was read."""
    rules: frozenset[tuple[str, Outcome]] = frozenset()
    """Rules that ran, and whether their conditions held."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What was expected beside what was got, as text; `differs` says in what, and is empty where they agree."""

    expected: str | None
    got: str | None
    differs: str = ""
    tick_us: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that a test showed to be wrong: in a sentence, where the suite says otherwise, and both sides.

    `tick_us` is the first tick at which they part, None where it cannot be told; `notes` are further lines; `sides` is
    what the two are called.
    """

    message: str
    span: Span
    pairs: tuple[Pair, ...] = ()
    tick_us: int | None = None
    step: int | None = None
    notes: tuple[str, ...] = ()
    sides: tuple[str, str] = ("expected", "got")


@dataclass(frozen=True, slots=True)
class Result:
    """How a test went on one engine. `orders` says how many arrival orders were tried, of how many there are.

    `is_lacking` says that the engine is not there, or not what it needs.
    """

    bound: BoundTest
    engine: str
    ran: Ran
    failures: tuple[Failure, ...] = ()
    orders: tuple[int, int] = (1, 1)
    seconds: float = 0.0
    is_lacking: bool = False

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failures

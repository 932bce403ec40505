"""A bound suite → how its tests went: every test on every engine that it names, in every order that it asks for.

In: a `BoundSuite`, its program, a seed. Out: a `Result` for each test and engine. It prints nothing.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from augury.algebra.program import Program
from augury.clock import show_time
from augury.trying.suite import Kind
from augury.trying.suite_bound import BoundSuite, BoundTest, Failure, Got, Pair, Ran, Result, Row
from augury.trying.suite_compare import unmet
from augury.trying.suite_engines import InProcess, NotRun, run_elsewhere
from augury.trying.suite_written import offset_text, written

ORDERS_MAX: Final = 120
"""Arrival orders that one test tries: all of five events, and a sample of more."""


@dataclass(slots=True)
class Runner:
    """Runs the tests of one program; `stopwatch` gives seconds from any moment on. Raises `CannotRun` at once."""

    program: Program
    seed: int = 1
    stopwatch: Callable[[], float] = lambda: 0.0
    local: InProcess = field(init=False)

    def __post_init__(self) -> None:
        """Make the in-process engine ready."""
        self.local = InProcess(self.program)

    def run(self, suite: BoundSuite) -> Iterator[Result]:
        """Every test on every engine it names; raises `CannotRun`."""
        for bound in suite.tests:
            first: Ran | None = None
            for engine in bound.test.engines:
                began = self.stopwatch()
                result = self.on(bound, engine, first)
                first = result.ran if first is None and not result.is_lacking else first
                yield replace(result, seconds=self.stopwatch() - began)

    def on(self, bound: BoundTest, engine: str, first: Ran | None = None) -> Result:
        """One test on one engine; `first` is what the engine before gave, which this one has to give, too."""
        if engine == "local":
            ran = self.local.run(bound.rows, bound.until_us)
        else:
            try:
                ran = run_elsewhere(self.program, engine, bound.rows, bound.until_us)
            except NotRun as error:
                failure = Failure(str(error), bound.test.span, notes=error.helps)
                return Result(bound, engine, Ran(), (failure,), is_lacking=error.is_lacking)
        failures = [one for check in bound.checks if (one := unmet(bound, check, ran)) is not None]
        failures += _about_rows(bound, ran)
        if not bound.test.can_fail:
            message = "the test expects nothing, so that it cannot fail"
            failures.append(Failure(message, bound.test.span, notes=("--update writes down what it gives",)))
        if first is not None:
            sides = bound.test.engines[0], engine
            found = _apart(bound, first, ran, f"`{engine}` prints something else than `{sides[0]}`")
            failures += [replace(one, sides=sides) for one in found]
        orders = (1, 1)
        if bound.test.permuted and engine == bound.test.engines[0]:
            orders, found = self.permuted(bound, ran if engine == "local" else None)
            failures += found
        return Result(bound, engine, ran, tuple(failures), orders)

    def permuted(self, bound: BoundTest, known: Ran | None = None) -> tuple[tuple[int, int], list[Failure]]:
        """How many orders were tried of how many, and the first that gives something else; always in process."""
        every, orders = orders_of(bound.rows, self.seed)
        written_so = known or self.local.run(bound.rows, bound.until_us)
        tried = 1
        for order in orders:
            tried += 1
            ran = self.local.run(order, bound.until_us)
            if found := _apart(bound, written_so, ran, "another arrival order gives something else", is_numbered=False):
                notes = ("in this order:", *(f"  {_row_text(bound, row)}" for row in _moved(bound.rows, order)))
                return (tried, every), [
                    replace(one, notes=notes, sides=("as written", "in that order")) for one in found
                ]
        return (tried, every), []


def orders_of(rows: Sequence[Row], seed: int) -> tuple[int, Iterator[list[Row]]]:
    """How many orders keep the times of detection, and those to try but the given one: all, or a sample."""
    groups = [list(some) for _, some in itertools.groupby(sorted(rows, key=_seen), key=_seen)]
    every = math.prod(math.factorial(len(group)) for group in groups)
    return every, _all_orders(groups) if every <= ORDERS_MAX else _some_orders(groups, seed)


def _seen(row: Row) -> int:
    return row.seen_us


def _all_orders(groups: list[list[Row]]) -> Iterator[list[Row]]:
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    next(orders)  # the order in which they are written
    return (list(itertools.chain.from_iterable(order)) for order in orders)


def _some_orders(groups: list[list[Row]], seed: int) -> Iterator[list[Row]]:
    chance = random.Random(seed)
    for _ in range(ORDERS_MAX - 1):
        yield [row for group in groups for row in chance.sample(group, len(group))]


def _moved(rows: Sequence[Row], order: Sequence[Row]) -> list[Row]:
    """The rows that stand elsewhere than they are written, in their new order."""
    before = sorted(rows, key=_seen)
    return [row for old, row in zip(before, order, strict=True) if old is not row]


def _row_text(bound: BoundTest, row: Row) -> str:
    return f"{row.text} seen {offset_text(row.seen_us - bound.test.start_us)}"


# ---- what else can be wrong --------------------------------------------------------------------------------------


def _about_rows(bound: BoundTest, ran: Ran) -> Iterator[Failure]:
    """Events that were rejected though nobody said so, and the other way round; SELECTs that failed."""
    for place, row in enumerate(bound.rows):
        reason = ran.rejected.get(place)
        if reason is not None and not row.said.is_rejected:
            notes = (f"{_row_text(bound, row)}: {reason}", "write `rejected` behind it where that is meant")
            yield Failure("an event is rejected", row.said.span, notes=notes)
        elif reason is None and row.said.is_rejected:
            yield Failure("an event is not rejected", row.said.span, notes=(_row_text(bound, row),))
    for tick, name, reason in ran.failed:
        told = f"at the tick {show_time(tick)}: {reason}"
        yield Failure(f"the SELECT of `{name}` failed", bound.test.span, notes=(told,), tick_us=tick)


def _apart(bound: BoundTest, one: Ran, other: Ran, message: str, *, is_numbered: bool = True) -> list[Failure]:
    """Where two runs print something else; `is_numbered` says whether `seq` and constituents have to be the same."""
    start_us = bound.test.start_us
    left, right = _counted(one.got, is_numbered=is_numbered), _counted(other.got, is_numbered=is_numbered)
    if left == right:
        return []
    gone, new = list((left - right).elements()), list((right - left).elements())
    by_line = {_line(got, is_numbered=is_numbered): got for got in (*other.got, *one.got)}
    pairs = []
    for line in gone:
        got = by_line[line]
        near = next((n for n in new if by_line[n].name == got.name), None)
        if near is not None:
            new.remove(near)
        beside = None if near is None else by_line[near]
        text = None if beside is None else written(beside, start_us)
        tick = min(found.tick_us for found in (got, beside) if found is not None)
        pairs.append(Pair(written(got, start_us), text, "missing" if text is None else "not the same", tick))
    pairs += [Pair(None, written(by_line[n], start_us), "unexpected", by_line[n].tick_us) for n in new]
    ticks = [pair.tick_us for pair in pairs if pair.tick_us is not None]
    pairs.sort(key=lambda pair: pair.tick_us or 0)
    return [Failure(message, bound.test.span, tuple(pairs), min(ticks, default=None))]


def _counted(got: Sequence[Got], *, is_numbered: bool) -> Counter[tuple[int, str]]:
    # Only the engine in process tells of firings.
    told = (one for one in got if not is_numbered or one.kind is not Kind.FIRING)
    return Counter(_line(one, is_numbered=is_numbered) for one in told)


def _line(got: Got, *, is_numbered: bool) -> tuple[int, str]:
    """A line as what it is compared by. Numbers of versions follow from the order in which they came.

    Ticks are compared within one engine only: others do not say at which tick they print an event.
    """
    dropped: frozenset[str] = frozenset() if is_numbered else frozenset({"seq", "constituents"})
    line: dict[str, Any] = {name: value for name, value in got.line.items() if name not in dropped}
    return 0 if is_numbered else got.tick_us, json.dumps(line, default=str, sort_keys=True)

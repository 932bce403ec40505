"""A bound suite → how its tests went: every test on every engine that it names, in every order that it asks for.

In: a `BoundSuite`, its program, a seed. Out: a `Result` for each test and engine. It prints nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from augury import limits
from augury.algebra.program import Program
from augury.clock import show_time
from augury.engine.progress import Far, Tell
from augury.trying.suite import ALL_ORDERS, Kind
from augury.trying.suite_bound import BoundSuite, BoundTest, Failure, Got, Pair, Ran, Result, Row
from augury.trying.suite_compare import unmet
from augury.trying.suite_engines import InProcess, NotRun, run_elsewhere
from augury.trying.suite_orders import all_orders, every_order, moved, some_orders
from augury.trying.suite_written import offset_text, written


@dataclass(slots=True)
class Runner:
    """Runs the tests of one program; `stopwatch` gives seconds from any moment on, and `tell` is told
    how many orders have been tried. Raises `CannotRun` at once."""

    program: Program
    seed: int = 1
    stopwatch: Callable[[], float] = lambda: 0.0
    tell: Tell | None = None
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
        if bound.test.orders and engine == bound.test.engines[0]:
            orders, found = self.permuted(bound, ran if engine == "local" else None)
            failures += found
        return Result(bound, engine, ran, tuple(failures), orders)

    def permuted(self, bound: BoundTest, known: Ran | None = None) -> tuple[tuple[int, int], list[Failure]]:
        """How many orders were tried of how many, and the first that gives something else; always in process."""
        wanted, every = bound.test.orders, every_order(bound.rows)
        is_all = wanted == ALL_ORDERS or every <= wanted
        if is_all and every > limits.SUITE_ORDERS_MAX:
            return (0, every), [_too_many_orders(bound, every)]
        count = every if is_all else wanted
        written_so = known or self.local.run(bound.rows, bound.until_us)
        tried = 1
        for order in all_orders(bound.rows) if is_all else some_orders(bound.rows, wanted - 1, self.seed):
            tried += 1
            if self.tell is not None:
                self.tell(Far(bound.test.name, tasks=tried, tasks_all=count, tasks_called="arrival orders"))
            ran = self.local.run(order, bound.until_us)
            if found := _apart(bound, written_so, ran, "another arrival order gives something else", is_numbered=False):
                notes = ("in this order:", *(f"  {_row_text(bound, row)}" for row in moved(bound.rows, order)))
                return (tried, every), [
                    replace(one, notes=notes, sides=("as written", "in that order")) for one in found
                ]
        return (tried, every), []


def _too_many_orders(bound: BoundTest, every: int) -> Failure:
    message = f"there are {every:,} arrival orders, more than the {limits.SUITE_ORDERS_MAX:,} that are tried"
    notes = (
        "write `permutations: 500` to try as many of them, drawn by --seed",
        "or let fewer events be seen at the same time",
    )
    return Failure(message, bound.test.span, notes=notes)


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

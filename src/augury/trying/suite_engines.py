"""The rows of a test over an engine → what it printed: in process tick by tick, or elsewhere as `augury run` does it.

In: a program and rows. Out: a `Ran`. No JVM starts unless an engine is asked for that needs one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from augury.algebra.program import Program
from augury.algebra.select import SelectPlan
from augury.clock import show_time
from augury.duck.selects import DuckSelects, runnable
from augury.engine.known import KnownIds
from augury.engine.lines import action_line, version_lines
from augury.engine.plan import EnginePlan, engine_plan, ticks_too_often
from augury.engine.state import initial
from augury.engine.tick import Ports, require_few_due, ticks
from augury.engine.ticked import Ticked
from augury.history.arrivals import arrived
from augury.history.coming import came
from augury.history.json_lines import read_line
from augury.history.raw import RawRows, Rejected
from augury.history.refusing import told
from augury.history.schedule import TooManyDue
from augury.kernels.firing import Outcome
from augury.trying.firings import firing_line
from augury.trying.suite import Kind
from augury.trying.suite_bound import Got, Ran, Row
from augury.trying.suite_values import iso_us

if TYPE_CHECKING:
    from augury.local.replay import Failed

_SOURCE = "suite"


@dataclass(slots=True)
class InProcess:
    """The in-process engine, made ready once for all tests of a program; raises `CannotRun`."""

    program: Program
    selects: DuckSelects = field(init=False)
    plan: EnginePlan = field(init=False)

    def __post_init__(self) -> None:
        """Compile what can be compiled beforehand."""
        self.selects = runnable(self.program)
        self.plan = engine_plan(self.program)

    def run(self, rows: Sequence[Row], until_us: int | None) -> Ran:
        """What comes of rows in this order; raises `CannotRun`."""
        if not rows or until_us is None:
            return Ran()
        raw = RawRows(_SOURCE, [read_line(row.json.encode()) for row in rows], range(len(rows)))
        every = arrived(self.program, came(self.program, [raw], until_us=until_us))
        got: list[Got] = []
        rejected = _places(told(every.refusals, every.place)) if not len(every) else {}
        failed: list[tuple[int, str, str]] = []
        read: set[str] = set()
        ran: set[tuple[str, Outcome]] = set()
        state, ids = initial(self.plan), KnownIds()
        try:
            require_few_due(self.plan, state, every, until_us)
            for ticked in ticks(self.plan, state, every, until_us, Ports(self.selects, ids), is_replay=True):
                ids.note(ticked)
                got += _printed(self.program, ticked)
                rejected |= _places(ticked.rejected)
                failed += [(ticked.tick, one.event_class, one.reason) for one in ticked.failed]
                read |= {one.event_class.name for one in ticked.read}
                ran |= {(call.rule, call.outcome) for one in ticked.firings for call in one.firing.calls}
        except TooManyDue as error:
            raise ticks_too_often(self.program, error) from None
        return Ran(tuple(got), rejected, tuple(failed), frozenset(read), frozenset(ran))


def _printed(program: Program, ticked: Ticked) -> Iterator[Got]:
    for versions in ticked.derived:
        for line in version_lines(versions):
            yield Got(Kind.EVENT, versions.event_class.name, read_json(line), ticked.tick)
    for action in ticked.action_rows():
        yield Got(Kind.ACTION, action.name, read_json(action_line(action)), ticked.tick, action.statement)
    for fired in ticked.firings:
        yield Got(Kind.FIRING, fired.firing.trigger, read_json(firing_line(program, fired)), ticked.tick)


def read_json(line: str) -> dict[str, Any]:
    """A line of output, numbers exactly."""
    found = json.loads(line, parse_float=Decimal)
    assert isinstance(found, dict), "every line is an object"
    return found


def _places(rejected: Rejected) -> dict[int, str]:
    numbers = (int(place.rpartition(":")[2]) for place in rejected.place)
    return dict(zip(numbers, rejected.reason, strict=True))


# ---- elsewhere ---------------------------------------------------------------------------------------------------


class NotRun(Exception):
    """Another engine cannot run a program, or is not there; `is_lacking` says the latter."""

    def __init__(self, failed: Failed) -> None:
        """Keep what to report."""
        super().__init__(str(failed))
        self.helps = tuple(text for diagnostic in failed.diagnostics for text in diagnostic.helps)
        self.is_lacking = failed.exit_code == 3


def run_elsewhere(program: Program, engine: str, rows: Sequence[Row], until_us: int | None) -> Ran:
    """What another engine prints for rows, as `augury run --engine …` has it; raises `NotRun`."""
    if not rows or until_us is None:
        return Ran()
    from augury.local.replay import Failed, replay

    with tempfile.TemporaryDirectory(prefix="augury-test-") as folder:
        events, refused = Path(folder, "events.jsonl"), Path(folder, "rejected.jsonl")
        events.write_text("".join(row.json + "\n" for row in rows), "utf-8")
        try:
            replayed = replay(program, str(events), engine, show_time(until_us), str(refused))
            lines = "".join(replayed.texts()).splitlines()
        except Failed as failed:
            raise NotRun(failed) from None
        reasons = refused.read_text("utf-8").splitlines() if refused.exists() else []
    rejected = {int(one["place"].rpartition(":")[2]) - 1: one["reason"] for one in map(read_json, reasons)}
    return Ran(tuple(_with_ticks(program, map(read_json, lines))), rejected)


def _with_ticks(program: Program, lines: Iterator[dict[str, Any]]) -> Iterator[Got]:
    """Lines come in order of tick; those of events do not name theirs."""
    last: int | None = None
    for line in lines:
        if "action" in line:
            tick = _time(line["tick"])
            yield Got(Kind.ACTION, line["action"], line, tick)
        else:
            tick = _tick_of(program, line)
            tick = tick if last is None else max(tick, last)
            yield Got(Kind.EVENT, line["event"], line, tick)
        last = tick


def _tick_of(program: Program, line: dict[str, Any]) -> int:
    plan, det_time = program.class_plan(line["event"]), _time(line["det_time"])
    assert plan is not None, "it is a class of the program"
    if isinstance(plan.derivation, SelectPlan):
        return det_time
    chronon_us = program.settings.chronon_us
    # What a timer completes has no `seq`, and is published at the end of a chronon where it is due there.
    return ((det_time - ("seq" not in line)) // chronon_us + 1) * chronon_us


def _time(text: str) -> int:
    found = iso_us(text)
    assert found is not None, "engines print ISO times"
    return found

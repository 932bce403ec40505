"""A replay tick by tick, for the command line: what to print where, and what happened on the way.

In: a program, raw events, perhaps a store. Out: texts for standard output as ticks go by, and then a summary. It
prints nothing itself, and keeps no more than counts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from augury.algebra.program import Program
from augury.duck.selects import DuckSelects
from augury.engine.known import KnownIds
from augury.engine.lines import tick_lines
from augury.engine.plan import engine_plan, ticks_too_often
from augury.engine.ports import Store
from augury.engine.progress import Tell, at_tick
from augury.engine.state import initial
from augury.engine.tick import Ports, require_few_due, ticks
from augury.engine.ticked import Ticked
from augury.event import ClassKind
from augury.history.arrivals import Arrivals
from augury.history.raw import Rejected
from augury.history.refusing import told
from augury.history.schedule import TooManyDue
from augury.kernels.composite.sharing import FLAT_ROWS_MIN

_LINES_AT_ONCE: Final = 1000
FAILURES_SHOWN_MAX: Final = 5


@dataclass(slots=True)
class TickReplay:
    """A replay at work; `texts` runs it, and afterwards the rest tells about it."""

    program: Program
    selects: DuckSelects
    came: Arrivals
    until_us: int | None
    store: Store | None = None
    counts: Counter[str] = field(default_factory=Counter)
    rejected: Rejected = field(default_factory=Rejected)
    warnings: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    failed: int = 0
    given: Counter[str] = field(default_factory=Counter)
    tell: Tell | None = None
    _rows: int = 0

    def texts(self) -> Iterator[str]:
        """What goes to standard output, some lines at a time; raises `CannotRun`."""
        lines = self._lines()
        while some := list(islice(lines, _LINES_AT_ONCE)):
            yield "\n".join([*some, ""])

    def _lines(self) -> Iterator[str]:
        for ticked in self._ticks():
            self._note(ticked)
            yield from tick_lines(ticked)

    def _ticks(self) -> Iterator[Ticked]:
        came = self.came
        plan = engine_plan(self.program, flat=True if len(came) >= FLAT_ROWS_MIN else None)
        state, ids = initial(plan), KnownIds()
        ports = Ports(self.selects, self.store or ids, time.perf_counter)
        if self.until_us is None and not len(came):
            self.rejected = told(came.refusals, came.place)
        first, newest_us = None, came.last_us()
        try:
            require_few_due(plan, state, came, self.until_us)
            for ticked in ticks(plan, state, came, self.until_us, ports, is_replay=True):
                if self.store is None:
                    ids.note(ticked)
                else:
                    self.store.commit([ticked])
                first = ticked.tick if first is None else first
                yield ticked
                if self.tell is not None:
                    known = {"rows": self._rows, "rows_all": len(came) + len(came.refusals)}
                    self.tell(at_tick("ticks", ticked.tick, first, newest_us, plan.chronon_us, **known))
        except TooManyDue as error:
            raise ticks_too_often(self.program, error) from None

    def _note(self, ticked: Ticked) -> None:
        self.counts.update(ticked.counts())
        self.given.update({one.event_class.name: len(one) for one in ticked.derived})
        self._rows += sum(len(one) for one in ticked.read if one.event_class.kind is ClassKind.SUBSCRIBED)
        self._rows += ticked.absorbed + len(ticked.rejected)
        if len(ticked.rejected):
            self.rejected = _joined(self.rejected, ticked.rejected)
        self.warnings.update(ticked.warnings)
        self.errors.update(ticked.errors)
        self.failed += len(ticked.failed)
        for failure in ticked.failed[: FAILURES_SHOWN_MAX - len(self.failures)]:
            self.failures.append((failure.event_class, failure.reason))


def _joined(one: Rejected, other: Rejected) -> Rejected:
    return Rejected(one.place + other.place, one.event + other.event, one.reason + other.reason, one.raw + other.raw)

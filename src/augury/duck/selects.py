"""SELECTs of a program on DuckDB: the port that runs them, for every engine that ticks in process or in a task.

In: a program. Out: what runs its SELECTs, or why it cannot be run. DuckDB is loaded for programs that have some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan
from augury.diagnostics import Findings
from augury.engine.plan import CannotRun
from augury.engine.rows import Rows
from augury.event import EventClass, key_of

if TYPE_CHECKING:
    from augury.duck.select import Duck, Translated


@dataclass(slots=True)
class DuckSelects:
    """Runs the SELECTs of one program; not for several threads at a time."""

    plans: Mapping[str, Translated]
    _duck: Duck | None = None

    def rows(self, plan: ClassPlan, views: Mapping[str, pa.Table], now_us: int) -> Rows:
        """The rows of a SELECT class over views, by class name; raises `SelectFailed`."""
        from augury.duck.select import Duck, evaluated

        self._duck = self._duck or Duck()  # only now: it takes as long to start as many a replay
        return evaluated(self.plans[key_of(plan.event_class.name)], views, now_us, self._duck)


def runnable(program: Program) -> DuckSelects:
    """What runs the SELECTs of a program; raises `CannotRun` for what ticks cannot do yet: an error a class."""
    findings = Findings()
    classes = [plan.event_class for plan in program.classes]
    found: dict[str, Translated] = {}
    for plan in program.classes:
        name = plan.event_class.name
        if isinstance(plan.derivation, SelectPlan):
            made = _translated(plan.derivation, classes)
            if isinstance(made, str):
                message = f"this engine does not run the SELECT of `{name}`: {made}"
                helps = ["docs/select.md says what it runs"]
                findings.error("E313", message, plan.event_class.span, "cannot be run", helps=helps)
            else:
                found[key_of(name)] = made
    if refused := findings.sorted():
        raise CannotRun(refused)
    return DuckSelects(found)


def _translated(plan: SelectPlan, classes: list[EventClass]) -> Translated | str:
    """The SQL of a SELECT, or why there is none."""
    from augury.duck.select import translated
    from augury.duck.sql.kinds import Untranslatable

    try:
        return translated(plan, classes)
    except Untranslatable as error:
        return str(error)

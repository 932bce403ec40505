"""SELECTs of an engine in process: the port that runs them on DuckDB.

In: plans and views. Out: rows. Each plan is translated once; what cannot be is refused before the first event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from augury.algebra.program import ClassPlan, Program
from augury.algebra.select import SelectPlan
from augury.engine.rows import Rows
from augury.event import key_of
from augury.local.select import Duck, Translated, evaluated, translated


@dataclass(slots=True)
class DuckSelects:
    """Runs the SELECTs of one program; not for several threads at a time."""

    plans: Mapping[str, Translated]
    _duck: Duck | None = None

    def rows(self, plan: ClassPlan, views: Mapping[str, pa.Table], now_us: int) -> Rows:
        """The rows of a SELECT class over views, by class name; raises `SelectFailed`."""
        self._duck = self._duck or Duck()  # only now: it takes as long to start as many a replay
        return evaluated(self.plans[key_of(plan.event_class.name)], views, now_us, self._duck)


def duck_selects(program: Program) -> DuckSelects:
    """What runs the SELECTs of a program; raises `Untranslatable`."""
    classes = [plan.event_class for plan in program.classes]
    return DuckSelects(
        {
            key_of(plan.event_class.name): translated(plan.derivation, classes)
            for plan in program.classes
            if isinstance(plan.derivation, SelectPlan)
        }
    )

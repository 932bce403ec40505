"""SELECTs of an engine in process: the port that runs them on DuckDB.

In: plans that are translated, and views. Out: rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from augury.algebra.program import ClassPlan
from augury.engine.rows import Rows
from augury.event import key_of
from augury.local.select import Duck, Translated, evaluated


@dataclass(slots=True)
class DuckSelects:
    """Runs the SELECTs of one program; not for several threads at a time."""

    plans: Mapping[str, Translated]
    _duck: Duck | None = None

    def rows(self, plan: ClassPlan, views: Mapping[str, pa.Table], now_us: int) -> Rows:
        """The rows of a SELECT class over views, by class name; raises `SelectFailed`."""
        self._duck = self._duck or Duck()  # only now: it takes as long to start as many a replay
        return evaluated(self.plans[key_of(plan.event_class.name)], views, now_us, self._duck)

"""Why a SELECT gave no row: which view lacked an event, or which condition was not true.

In: a SELECT class, the live views after a tick, the values of the row that is missing. Out: a part and a sentence. Each
condition of the SQL is taken out in turn; that without which the row is there is what kept it away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from augury.algebra.scalar import Constant
from augury.algebra.select import SelectPlan
from augury.clock import show_time
from augury.duck.select import Duck, Untranslatable, evaluated, translated
from augury.engine.plan import EnginePlan, SelectUnit
from augury.engine.ports import SelectFailed
from augury.engine.rows import Rows
from augury.engine.selecting import Views
from augury.engine.state import EngineState
from augury.event import EventClass, key_of
from augury.kernels.bitemporal import as_of_now, live_slots
from augury.kernels.match.past import plain
from augury.trying.simulate_record import event_text, shown_value

_EVENTS_SHOWN_MAX: Final = 3
_CONDITIONS_TRIED_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Missing:
    """What kept a row away."""

    part: str
    sentence: str


def why_no_row(plan: EnginePlan, state: EngineState, unit: SelectUnit, wanted: Mapping[str, Constant]) -> Missing:
    """The first thing that the row with these values lacked at the tick that the state is of."""
    assert state.tick is not None, "a tick was done"
    asking = _Asking(plan, state, unit, wanted, state.tick)
    lacking = asking.lacking()
    if lacking is not None:
        return lacking
    if asking.gives(unit.select):
        return Missing(unit.select.sql, "the SELECT gives the row; its event was purged, which is no withdrawal")
    tree = sqlglot.parse_one(unit.select.timed_sql, read="spark")
    count = len(list(_conditions(tree)))
    for number in range(min(count, _CONDITIONS_TRIED_MAX)):
        changed, text = _without(tree, {number})
        if asking.gives(replace(unit.select, timed_sql=changed)):
            return Missing(text, f"{text} is not true{asking.beside()}")
    changed, _ = _without(tree, set(range(count)))
    if count > 1 and asking.gives(replace(unit.select, timed_sql=changed)):
        return Missing(unit.select.sql, f"several of its conditions are not true{asking.beside()}")
    return Missing(_shown_sql(tree), f"the SELECT gives no such row{asking.beside()}")


@dataclass(slots=True)
class _Asking:
    plan: EnginePlan
    state: EngineState
    unit: SelectUnit
    wanted: Mapping[str, Constant]
    tick: int
    duck: Duck = field(default_factory=Duck)

    def lacking(self) -> Missing | None:
        """The views in which there is nothing for the row: all of them, or one that others are joined with."""
        reads = [(self.plan.classes[place].event_class, *self.events(place)) for place in self.unit.reads]
        empty = [(one, values) for one, events, values in reads if not events]
        if not empty or (len(empty) < len(reads) and _is_union(self.unit.select)):
            return None
        names = [f"{one.name}{f' with {values}' if values else ''}" for one, values in empty]
        said = " nor ".join(names) if len(names) > 1 else names[0]
        return Missing(empty[0][0].name, f"no {said} is live at {show_time(self.tick)}")

    def events(self, place: int) -> tuple[list[str], str]:
        """The live events of a view that have the values of the row, as text, and which values those are."""
        event_class, view = self.plan.classes[place].event_class, self.state.classes[place].view
        table = as_of_now(view, live_slots(view))
        columns = dict(self.unit.parts or ()).get(place, ())
        values = {
            column: self.wanted[name]
            for column, name in zip(columns, self.unit.part_attributes, strict=False)
            if name in self.wanted
        }
        rows = [
            row
            for row in range(table.num_rows)
            if all(plain(table.column(column)[row]) == value.value for column, value in values.items())
        ]
        said = ", ".join(f"{column} = {shown_value(value)}" for column, value in values.items())
        return [_text(event_class, table, row) for row in rows], said

    def beside(self) -> str:
        """The events that there are for the row, and NOW."""
        found = [text for place in self.unit.reads for text in self.events(place)[0]]
        more = " …" if len(found) > _EVENTS_SHOWN_MAX else ""
        now = [f"NOW = {show_time(self.tick)}"] if self.unit.select.uses_now else []
        shown = "; ".join([*found[:_EVENTS_SHOWN_MAX], *now])
        return f": {shown}{more}" if shown else ""

    def gives(self, select: SelectPlan) -> bool:
        """Whether a SELECT gives a row with the values asked for, over the views as they are."""
        classes = [one.event_class for one in self.plan.classes]
        views = Views(self.state)
        tables = {self.plan.classes[place].event_class.name: views.table(place, None) for place in self.unit.reads}
        try:
            rows = evaluated(translated(select, classes), tables, self.tick, self.duck)
        except (Untranslatable, SelectFailed):
            return False
        return _has(rows, self.wanted)


def _has(rows: Rows, wanted: Mapping[str, Constant]) -> bool:
    found = np.ones(len(rows), np.bool_)
    for name, value in wanted.items():
        found &= np.array([plain(one) == value.value for one in rows.attributes.column(name)], np.bool_)
    return bool(found.any())


def _text(event_class: EventClass, table: pa.Table, row: int) -> str:
    values = [Constant(plain(table.column(a.name)[row]), a.type) for a in event_class.attributes]
    return f"{event_text(event_class.name, values)} at {show_time(plain(table.column('occ_time')[row]))}"


# ---- conditions of the SQL ---------------------------------------------------------------------------------------


def _conditions(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions of WHERE, ON and HAVING, those joined by AND one by one, innermost last."""
    for node in tree.walk():
        held = node.this if isinstance(node, exp.Where | exp.Having) else None
        held = node.args.get("on") if isinstance(node, exp.Join) else held
        if held is not None:
            yield from held.flatten() if isinstance(held, exp.And) else [held]


def _without(tree: exp.Expr, numbers: set[int]) -> tuple[str, str]:
    """The SQL with some conditions taken for true, and the first of them as text."""
    changed, texts = tree.copy(), []
    for number, node in enumerate(list(_conditions(changed))):
        if number in numbers:
            word = "WHERE" if node.find_ancestor(exp.Where, exp.Having, exp.Join).__class__ is exp.Where else "ON"
            texts.append(f"{word} {_shown_sql(node)}")
            node.replace(exp.true())
    return changed.sql(dialect="spark"), texts[0] if texts else ""


def _shown_sql(node: exp.Expr) -> str:
    return (
        node.sql(dialect="spark").replace(":now", "NOW").replace("occ_time", "occTime").replace("det_time", "detTime")
    )


def _is_union(select: SelectPlan) -> bool:
    tree = sqlglot.parse_one(select.timed_sql, read="spark")
    return any(True for _ in tree.find_all(exp.Union)) or key_of(select.sql).count(" full ") > 0

"""What a SELECT class derives: its SQL, checked and ready to be bound, as plain text beside what is known of it.

Views are named after classes; each has the declared attributes, then occ_time and det_time. `:now` is the one
parameter. It knows neither how SQL is written and parsed nor which engine runs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from augury.clock import show_duration
from augury.types import Type

NOW_PARAMETER: Final = "now"
"""The named parameter that stands for NOW; an engine binds it to the time of the tick."""


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of the SELECT: its name (None: it has none), its type where known, the attribute it feeds."""

    name: str | None
    type: Type | None
    attribute: str | None


@dataclass(frozen=True, slots=True)
class SelectPlan:
    """A SELECT class. `timed_sql` is `sql` with the occurrence time as one more column, the last.

    `traced`: whether a row's constituents are known (not of an aggregate, DISTINCT, EXCEPT, INTERSECT, window).
    `uses_now`: whether rows may come and go by the passing of time alone.
    """

    event_class: str
    sql: str
    timed_sql: str
    reads: tuple[str, ...]
    columns: tuple[OutputColumn, ...]
    occurrence: str
    traced: bool
    uses_now: bool

    @property
    def query(self) -> str:
        """The SQL to run: the attributes under their own names, in the order of the SELECT, then occ_time."""
        names = [f"c{number}" for number in range(1, len(self.columns) + 2)]
        fed = [
            f"{name} AS {quoted(column.attribute)}"
            for name, column in zip(names, self.columns, strict=False)
            if column.attribute is not None
        ]
        wanted = ", ".join([*fed, f"{names[-1]} AS occ_time"])
        return f"SELECT {wanted} FROM ({self.timed_sql}) AS made({', '.join(names)})"

    def dump(self, more: Sequence[tuple[str, str]] = ()) -> str:
        """The plan as text, one fact a line; `more` are facts that others found out, each with its label."""
        rows = [
            ("sql", self.sql),
            ("reads", ", ".join(self.reads) or "nothing"),
            *(("column", _shown(column)) for column in self.columns),
            ("occurs at", self.occurrence),
            ("rows", "traced to what they are made of" if self.traced else "not traced"),
            ("now", f"bound to :{NOW_PARAMETER}" if self.uses_now else "not used"),
            *more,
        ]
        return "\n".join([f"select {self.event_class}", *(f"  {label:<9}  {text}" for label, text in rows)])


def _shown(column: OutputColumn) -> str:
    shown = f"{column.name or '(no name)'}: {column.type or 'of unknown type'}"
    return f"{shown} → {column.attribute}" if column.attribute is not None else shown


def quoted(name: str) -> str:
    """A name as Spark SQL takes it, whatever it is."""
    return "`" + name.replace("`", "``") + "`"


# ---- what has to be derived again -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ByKey:
    """A SELECT that can be derived for some values only: rows of different values never meet in it.

    `columns` are those of each class read, by declared names, `attributes` those of the SELECT class that carry the
    same values in the same order; all belong to its key. Over views of the rows with some values (NULL is one, equal
    to NULL) the SELECT gives those of its rows that have them.
    """

    columns: tuple[tuple[str, tuple[str, ...]], ...]
    attributes: tuple[str, ...]

    def __str__(self) -> str:
        """The parts as `explain` shows them."""
        parts = [
            ", ".join(f"{name}.{columns[number]}" for name, columns in self.columns) + f" → {attribute}"
            for number, attribute in enumerate(self.attributes)
        ]
        return f"by key: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Whole:
    """A SELECT that has to be derived over all rows; the reason is one short sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Turn:
    """At the value of a column of a view plus `offset_us` a comparison of its row with NOW may change.

    The comparison may differ before, at and after that time: between ticks t < u it is the same for every row whose
    time is before t or after u.
    """

    event_class: str
    column: str
    offset_us: int

    def __str__(self) -> str:
        """As `explain` shows it."""
        name = {"occ_time": "occTime", "det_time": "detTime"}.get(self.column, self.column)
        sign = "−" if self.offset_us < 0 else "+"
        shift = f" {sign} {show_duration(abs(self.offset_us))}" if self.offset_us else ""
        return f"{name}{shift} of {self.event_class}"


@dataclass(frozen=True, slots=True)
class Turns:
    """All times at which rows may come, change or go without any news; none if NOW is not used."""

    turns: tuple[Turn, ...]

    def __str__(self) -> str:
        """As `explain` shows them."""
        return "; ".join(map(str, self.turns)) or "nothing changes"

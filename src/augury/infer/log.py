"""A log of what could not be read: rows that were skipped, with their places and reasons, and remarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from augury.datafiles import WHOLE_COPY, problem
from augury.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rows that were skipped for one reason: how many, the first of them, and what to do."""

    count: int
    first: str
    advice: str


@dataclass(slots=True)
class Log:
    """What happened while one file was read: rows tried, rows skipped with reasons, remarks."""

    name: str
    rows_max: int
    tried: int = 0
    cut: bool = False
    skipped: dict[str, Skipped] = field(default_factory=dict)
    broken: str = ""
    remarks: list[str] = field(default_factory=list)

    def may_try(self) -> bool:
        """Whether one more row may be tried; notes that the file goes on if not."""
        if self.tried >= self.rows_max:
            self.cut = True
            return False
        self.tried += 1
        return True

    def skip(self, place: str, reason: str, *, detail: str = "", advice: str = "", count: int = 1) -> None:
        """Count rows that could not be read; the first of each reason is kept."""
        before = self.skipped.get(reason) or Skipped(0, f"{place}: {detail or reason}", advice)
        self.skipped[reason] = Skipped(before.count + count, before.first, before.advice)

    def problems(self) -> Iterator[Diagnostic]:
        """One diagnostic for each reason, and one for a file that ends in the middle."""
        for skipped in self.skipped.values():
            many = skipped.count > 1
            rows = f"{skipped.count:,} rows" if many else "1 row"
            which = "were skipped, the first" if many else "was skipped,"
            message = f"{rows} of `{self.name}` {which} on {skipped.first}"
            yield problem("E511", message, skipped.advice or "mend or remove such rows")
        if self.broken:
            yield problem("E510", f"`{self.name}` breaks off: {self.broken}", WHOLE_COPY)

"""Raw events → typed rows of the classes they name, as they came, and what is wrong with a row by itself.

In: a program, and what sources hold. Out: `Came`: rows with their places, and refusals. What a row means beside others
is not known here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from augury.algebra.program import Program
from augury.event import ClassKind, EventClass, key_of
from augury.history.numbered import Some
from augury.history.pieces import Codes, Piece, pieces, rows_where
from augury.history.raw import Broken, Raw, RawRows, RawTable, shortened
from augury.history.typed import Refusal, Typing, sort_out, typed
from augury.kernels.batch import Integers


def received(program: Program) -> tuple[EventClass, ...]:
    """The classes whose events come from outside or from the clock, as declared."""
    kinds = (ClassKind.SUBSCRIBED, ClassKind.CLOCK)
    return tuple(plan.event_class for plan in program.classes if plan.event_class.kind in kinds)


@dataclass(slots=True)
class Came:
    """What has come: how many rows, of which sources, and those refused so far; classes as `received` has them."""

    count: int = 0
    starts: list[int] = field(default_factory=list)
    sources: list[tuple[str, Sequence[int]]] = field(default_factory=list)
    some: list[Some] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)

    def place(self, position: int) -> str:
        """The source and the number of the row there."""
        found = bisect_right(self.starts, position) - 1
        name, numbers = self.sources[found]
        return f"{name}:{numbers[position - self.starts[found]]}"

    def withdrawn(self) -> set[int]:
        """The classes for which withdrawals came."""
        return {code for some in self.some for code, part in some.parts.items() if part.withdrawal is not None}

    def positions(self, code: int) -> Integers:
        """Where the rows of a class came, in order."""
        return np.flatnonzero(np.concatenate([some.codes for some in self.some]) == code)


def came(program: Program, events: Iterable[Raw], *, until_us: int | None = None, read_us: int | None = None) -> Came:
    """What came from all sources; rows with det_time ≥ `until_us` are left out.

    Live, `read_us` is the time of reading; in a replay it is None.
    """
    classes, found = received(program), Came()
    for raw in events:
        _read_rows(program, classes, raw, found, until_us, read_us)
    return found


def _read_rows(
    program: Program,
    classes: Sequence[EventClass],
    raw: Raw,
    came: Came,
    until_us: int | None,
    read_us: int | None,
) -> None:
    mappings = {key_of(source.event_class): source.columns for source in program.sources}
    came.starts.append(came.count)
    if isinstance(raw, RawTable) and raw.numbers is None:
        came.sources.append((raw.source, range(1, raw.table.num_rows + 1)))
    else:
        came.sources.append((raw.source, raw.numbers or ()))
    for piece in pieces(raw):
        codes = _classes_of(program, classes, raw, piece, came)
        parts = {}
        for code in np.flatnonzero(np.bincount(codes + 1)[1:]).tolist():
            event_class = classes[code]
            typing = Typing(event_class, piece, rows_where(codes == code), came.count, came.refusals)
            parts[code] = typed(typing, mappings.get(key_of(event_class.name), ()), until_us, read_us)
            if len(parts[code]) < len(typing.good):
                refused = np.flatnonzero(~typing.good)
                codes[refused if typing.rows is None else typing.rows[refused]] = -1
        came.some.append(Some(codes, parts))
        came.count += len(piece)


def _classes_of(program: Program, classes: Sequence[EventClass], raw: Raw, piece: Piece, came: Came) -> Codes:
    refusals: list[Refusal] = []
    codes = sort_out(program, classes, piece, raw.event_class, refusals, came.count)
    broken: dict[int, Broken] = {}
    if isinstance(raw, RawRows):
        broken = {came.count + i: row for i, row in enumerate(raw.rows) if isinstance(row, Broken)}
    for position, row in broken.items():
        came.refusals.append(Refusal(position, "", row.reason, shortened(row.text)))
        codes[position - came.count] = -1
    came.refusals += [refusal for refusal in refusals if refusal.position not in broken]
    return codes

"""Raw events → typed rows of a class, and what is wrong with a row by itself.

In: a piece and a class. Out: a `Part` of the rows that are fine, and refusals with reasons. What a row means beside
others (duplicates, versions, withdrawals of nothing) is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from augury.algebra.program import Program
from augury.diagnostics import closest
from augury.event import TIME_ATTRIBUTES, ClassKind, EventClass, key_of
from augury.history.pieces import Codes, Piece, rows_where, spelled, valid
from augury.history.raw import shown
from augury.kernels.batch import Integers
from augury.kernels.columns.column import Mask, numbers
from augury.types import TIMESTAMP, Type, with_article

EVENT, EVENT_ID, OCC_TIME, DET_TIME = "event", "event_id", "occ_time", "det_time"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row that is not accepted, its place in the order of coming, and why."""

    position: int
    event: str
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one class, each fine by itself, in the order in which they came; `values` has a column an attribute.

    `withdrawal` and `event_id` are None where no row is one or has one. Times that came as one are one array.
    """

    values: tuple[pa.Array, ...]
    occ_time: Integers
    det_time: Integers
    withdrawal: Mask | None
    event_id: pa.Array | None

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.det_time)


def sort_out(
    program: Program,
    classes: Sequence[EventClass],
    piece: Piece,
    default: str | None,
    refusals: list[Refusal],
    start: int,
) -> Codes:
    """The index of the class of each row, -1 where there is none that could be posted; that is refused."""
    codes, names = piece.classes(spelled(piece, EVENT))
    known = {key_of(c.name): code for code, c in enumerate(classes) if c.kind is ClassKind.SUBSCRIBED}
    of_name = [known.get(key_of(name), -1) for name in names] + [known.get(key_of(default or ""), -1)]
    found: Codes = np.array(of_name, np.int16)[codes]  # a row without a name has -1, and so the last entry
    reasons: dict[int, str] = {}
    for row in np.flatnonzero(found < 0).tolist() if min(of_name) < 0 else ():
        code = int(codes[row])
        name = names[code] if code >= 0 else ""
        if code not in reasons:
            reasons[code] = (
                _no_class(program, name) if code >= 0 else "it does not say of which class it is: no `event`"
            )
        refusals.append(Refusal(start + row, name, reasons[code], piece.raw(row)))
    return found


def _no_class(program: Program, name: str) -> str:
    plan = program.class_plan(name)
    if plan is not None:
        posted_by = "posted by the clock" if plan.event_class.kind is ClassKind.CLOCK else "derived, not posted"
        return f"`{plan.event_class.name}` is a {plan.event_class.kind} class: its events are {posted_by}"
    names = [p.event_class.name for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED]
    meant = closest(name[:200], names)
    return f"there is no event class {shown(name)}" + (f"; did you mean `{meant}`?" if meant else "")


@dataclass(slots=True)
class Typing:
    """Typing the rows of one class in one piece; `good` shrinks as refusals are noted."""

    event_class: EventClass
    piece: Piece
    rows: Integers | None
    start: int
    refusals: list[Refusal]
    good: Mask = field(init=False)

    def __post_init__(self) -> None:
        """All rows are good until shown otherwise."""
        self.good = np.ones(len(self.piece) if self.rows is None else len(self.rows), np.bool_)

    def refuse(self, bad: Mask, reason: str) -> None:
        """Refuse those of the rows that are still good."""
        for row in np.flatnonzero(bad & self.good).tolist():
            self._note(row, reason)
        self.good &= ~bad

    def fitted(self, names: Sequence[str], spelled_as: str, to: Type) -> pa.Array:
        """A field as a column of a type; rows whose value does not fit are refused."""
        found = self.piece.fitted(names, self.rows, to)
        if found.misfits is not None:
            for row in np.flatnonzero(found.misfits & self.good).tolist():
                value = shown(self.piece.value(names, self._row(row)))
                self._note(row, f"`{spelled_as}` is {with_article(to)}, and {value} does not fit")
            self.good &= ~found.misfits
        return found.values

    def _row(self, row: int) -> int:
        return row if self.rows is None else int(self.rows[row])

    def _note(self, row: int, reason: str) -> None:
        there = self._row(row)
        self.refusals.append(Refusal(self.start + there, self.event_class.name, reason, self.piece.raw(there)))


def typed(typing: Typing, mapping: Iterable[tuple[str, str]], until_us: int | None, read_us: int | None = None) -> Part:
    """The rows that are fine by themselves, and are known before `until_us`.

    A det_time that is left out is `read_us`, the time of reading; or in a replay, where that is None, the occ_time.
    """
    event_class, piece, rows = typing.event_class, typing.piece, typing.rows
    names = _names(piece, mapping)
    occ_time, det_time, withdrawal = _times(typing, names.get(OCC_TIME, []), names.get(DET_TIME, []), until_us, read_us)
    values = []
    for attribute in event_class.attributes:
        fields = names.get(key_of(attribute.name), [])
        values.append(typing.fitted(fields, attribute.name, attribute.type))
    keys = {key_of(name) for name in event_class.key}
    for attribute, column in zip(event_class.attributes, values, strict=True):
        if key_of(attribute.name) in keys and column.null_count:
            typing.refuse(~valid(column), f"`{attribute.name}` belongs to the key, and is NULL")
    ids = piece.texts(names[EVENT_ID], rows) if EVENT_ID in names else None
    if ids is not None and ids.null_count == len(ids):
        ids = None
    kept = rows_where(typing.good)
    if kept is None:
        return Part(tuple(values), occ_time, det_time, withdrawal, ids)
    of_kept = pa.array(kept)
    return Part(
        tuple(column.take(of_kept) for column in values),
        occ_time[kept],
        det_time[kept],
        None if withdrawal is None else withdrawal[kept],
        None if ids is None else ids.take(of_kept),
    )


def _times(
    typing: Typing, occ_names: Sequence[str], det_names: Sequence[str], until_us: int | None, read_us: int | None
) -> tuple[Integers, Integers, Mask | None]:
    """Either time stands in for the other; an occ_time that is there and NULL withdraws."""
    occ = typing.fitted(occ_names, OCC_TIME, TIMESTAMP)
    det = typing.fitted(det_names, DET_TIME, TIMESTAMP)
    if read_us is not None and det.null_count:
        det = det.fill_null(pa.scalar(read_us, det.type))
    if occ.null_count and det.null_count:
        typing.refuse(~valid(occ) & ~valid(det), "it has neither an occ_time nor a det_time")
    withdrawal = None
    if occ.null_count and occ_names:
        withdrawal = ~valid(occ) & typing.piece.has(occ_names, typing.rows)
        withdrawal = withdrawal if withdrawal.any() else None
    occ_us, det_us = _either(occ, det)
    if until_us is not None:
        typing.good &= det_us < until_us
    return occ_us, det_us, withdrawal


def _either(occ: pa.Array, det: pa.Array) -> tuple[Integers, Integers]:
    """Both times in microseconds, each for the other where that is NULL; one array twice where one is all NULL."""
    if occ.null_count == len(occ) or det.null_count == len(det):
        det_us = numbers(occ if det.null_count == len(det) else det)
        return det_us, det_us
    occ_us, det_us = numbers(occ), numbers(det)
    if det.null_count:
        det_us = np.where(valid(det), det_us, occ_us)
    if occ.null_count:
        occ_us = np.where(valid(occ), occ_us, det_us)
    return occ_us, det_us


def _names(piece: Piece, mapping: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The fields that feed each attribute or time: those that SOURCE maps first, then those of its own name."""
    pairs = [(key_of(foreign), key_of(own)) for foreign, own in mapping]
    mapped = {foreign for foreign, _ in pairs}
    plain = [(key_of(name), key_of(name)) for name in piece.names if key_of(name) not in mapped]
    names: dict[str, list[str]] = {}
    for foreign, own in dict.fromkeys(pairs + plain):
        names.setdefault(TIME_ATTRIBUTES.get(own, own), []).extend(spelled(piece, foreign))
    return {own: fields for own, fields in names.items() if fields}

"""Rows of all classes as they came, and which of them are versions → the versions as columns, in the order of history.

In: some rows after the other, each with the parts that classes have of them, and what became of the rows of a class.
Out: columns by det_time and then as they came. Each is written once, some rows at a time: with many events new memory
costs more than what is done with it. It knows no rule of what is a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from augury.history.pieces import Codes, rows_where
from augury.history.typed import Part
from augury.history.versions import ANNOUNCE, Verdicts
from augury.kernels.batch import ASSERT, WITHDRAW, Integers

_ROWS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Some:
    """Some rows that came together: the class of each, -1 where it is refused, and what each class has of them."""

    codes: Codes
    parts: Mapping[int, Part]


@dataclass(frozen=True, slots=True)
class Placed:
    """The rows of a class as they came: the place of each in the table of its versions, and what it is there.

    `row` is -1 where a row is no version, and None where the table has all of them as they came; `change` is None where
    all announce.
    """

    row: Integers | None = None
    change: Verdicts | None = None

    def at(self, begin: int, end: int) -> tuple[Integers, Verdicts | None]:
        """Of some of the rows."""
        row = np.arange(begin, end) if self.row is None else self.row[begin:end]
        return row, None if self.change is None else self.change[begin:end]

    @property
    def left_out(self) -> int:
        """How many rows are no versions."""
        return 0 if self.row is None else int(np.count_nonzero(self.row < 0))


@dataclass(frozen=True, slots=True)
class Versions:
    """Columns of the versions of all classes."""

    code: Codes
    row: Integers
    occ_time: Integers
    det_time: Integers
    kind: npt.NDArray[np.uint8]
    change: Verdicts

    def _put(self, at: int, codes: Codes, shares: Mapping[int, _Share]) -> None:
        """Write some rows, all of them versions, from a place on."""
        among = slice(at, at + len(codes))
        self.code[among] = codes
        for code, share in shares.items():
            where = rows_where(codes == code)
            rows: Any = slice(None) if where is None else where
            part = share.part
            self.row[among][rows] = share.kept(share.row)
            self.det_time[among][rows] = share.kept(part.det_time)
            if self.occ_time is not self.det_time:
                self.occ_time[among][rows] = share.kept(part.occ_time)
            if part.withdrawal is not None:
                self.kind[among][rows] = np.where(share.kept(part.withdrawal), WITHDRAW, ASSERT)
            if share.change is not None:
                self.change[among][rows] = share.kept(share.change)

    def _ordered(self, order: Integers) -> Versions:
        det_time = self.det_time[order]
        occ_time = det_time if self.occ_time is self.det_time else self.occ_time[order]
        return Versions(self.code[order], self.row[order], occ_time, det_time, self.kind[order], self.change[order])


def versions_of(came: Sequence[Some], placed: Sequence[Placed]) -> Versions:
    """The versions among all rows that came; `placed` has an entry a class."""
    parts = [part for some in came for part in some.parts.values()]
    count = sum(map(len, parts)) - sum(of_class.left_out for of_class in placed)
    det_time = np.empty(count, np.int64)
    occ_time = det_time if all(p.occ_time is p.det_time for p in parts) else np.empty(count, np.int64)
    assert ASSERT == ANNOUNCE == 0, "most versions are asserted and announce: zeros cost nothing until written over"
    kind, change = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    found = Versions(np.empty(count, np.int16), np.empty(count, np.int64), occ_time, det_time, kind, change)
    at, begun = 0, [0] * len(placed)
    for some in came:
        shares = {code: _share(placed[code], part, begun[code]) for code, part in some.parts.items()}
        for code, part in some.parts.items():
            begun[code] += len(part)
        codes = _of_versions(some.codes, shares)
        found._put(at, codes, shares)
        at += len(codes)
    assert at == count, "every version has been written"
    return found if in_order([det_time]) else found._ordered(np.argsort(det_time, kind="stable"))


@dataclass(frozen=True, slots=True)
class _Share:
    """What a class has of some rows; `versions` are those of them that are, None if all."""

    part: Part
    row: Integers
    change: Verdicts | None
    versions: Integers | None

    def kept(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self.versions is None else values[self.versions]


def _share(placed: Placed, part: Part, begin: int) -> _Share:
    row, change = placed.at(begin, begin + len(part))
    return _Share(part, row, change, None if placed.row is None else rows_where(row >= 0))


def _of_versions(codes: Codes, shares: Mapping[int, _Share]) -> Codes:
    """The classes of those rows that are versions."""
    for code, share in shares.items():
        if share.versions is not None:
            codes = codes.copy()
            codes[np.flatnonzero(codes == code)[share.row < 0]] = -1
    there = rows_where(codes >= 0)
    return codes if there is None else codes[there]


def in_order(times: Sequence[Integers]) -> bool:
    """Whether times, joined, never fall; looked at in pieces that stay near the processor."""
    latest = None
    for time in times:
        if len(time) and latest is not None and time[0] < latest:
            return False
        for begin in range(0, len(time), _ROWS_AT_ONCE):
            some = time[begin : begin + _ROWS_AT_ONCE + 1]
            if not (some[1:] >= some[:-1]).all():
                return False
        latest = time[-1] if len(time) else latest
    return True

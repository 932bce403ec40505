"""What kernels read and what they give: versions and occurrences as columns.

In and out of every kernel; it knows no operator, no file and no clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.event import EventClass

ASSERT: Final = 0
WITHDRAW: Final = 1
NO_SEQ: Final = 0
"""The `seq` of an event that a timer completed, not a version, and that stands before all versions of its det_time.

One whose timer was due when it was set stands right after the version that set it: its `seq` is minus that version's.
So is that of what such an event completes. An event of a SELECT class, and what it completes, stands after all versions
of its tick (`AT_END`); but in a history these have numbers of their own, greater than those of all versions, so that
each is a place by itself.
`kernels.order` makes an order of this."""

AT_END: Final = -(1 << 62)
"""The `seq` of what stands after all versions of its tick."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Versions in the order of the history: by `seq`, and complex events right after the version that completed them.

    Those that a timer completed (`seq` ≤ 0) stand where NO_SEQ says.

    `code` is the index into `classes`, `row` that into the table of the class, whose columns are named and typed as
    the attributes are declared and stored as `kernels.columns.arrow_type` says. Times are microseconds since the
    epoch; a withdrawal (`kind`) has an `occ_time` of no meaning. `constituents` has, for a complex class, a list of
    `seq` numbers per row of its table, and None for a subscribed one, whose version is its own only constituent.

    Where det_time is the time of another clock, as it is by occurrence, `detected` is when versions were detected.
    """

    classes: tuple[EventClass, ...]
    code: npt.NDArray[np.int16]
    row: Integers
    seq: Integers
    occ_time: Integers
    det_time: Integers
    kind: npt.NDArray[np.uint8]
    tables: tuple[pa.Table, ...]
    constituents: tuple[pa.Array | None, ...]
    detected: Integers | None = None

    def __len__(self) -> int:
        """How many versions there are."""
        return len(self.seq)

    @property
    def asked_det_time(self) -> Integers:
        """What expressions read as detTime."""
        return self.det_time if self.detected is None else self.detected

    def part(self, begin: int, end: int) -> Batch:
        """The versions from one place up to another."""
        return self.at(slice(begin, end))

    def at(self, at: Integers | slice) -> Batch:
        """The versions at these places, in this order."""
        columns = (self.code[at], self.row[at], self.seq[at], self.occ_time[at], self.det_time[at], self.kind[at])
        detected = None if self.detected is None else self.detected[at]
        return Batch(self.classes, *columns, self.tables, self.constituents, detected)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The events of one complex class, by `seq`, key and constituents; a row each in all columns.

    `kind` says whether a row states an occurrence or takes it back; kernels state, `engine.by_occurrence` takes back.
    `values` has a column per attribute of the class, as a Batch has; `constituents` are ascending lists of the `seq`
    of subscribed versions. `errors` is how often a mask, WHERE or RETURN was NULL because of an error, `dropped` how
    many events were let go because too many waited for others.
    """

    event_class: EventClass
    seq: Integers
    occ_time: Integers
    det_time: Integers
    kind: npt.NDArray[np.uint8]
    values: pa.Table
    constituents: pa.Array
    errors: int = 0
    dropped: int = 0

    @classmethod
    def first(
        cls,
        event_class: EventClass,
        seq: Integers,
        occ_time: Integers,
        det_time: Integers,
        values: pa.Table,
        constituents: pa.Array,
        errors: int = 0,
    ) -> Occurrences:
        """Occurrences as kernels say them: all of them asserted."""
        kind = np.full(len(seq), ASSERT, np.uint8)
        return cls(event_class, seq, occ_time, det_time, kind, values, constituents, errors)

    def __len__(self) -> int:
        """How many there are."""
        return len(self.seq)

    def at(self, places: Integers) -> Occurrences:
        """The rows at these places, in this order; what is counted stays as it is."""
        rows = pa.array(places)
        return replace(
            self,
            seq=self.seq[places],
            occ_time=self.occ_time[places],
            det_time=self.det_time[places],
            kind=self.kind[places],
            values=self.values.take(rows) if self.values.num_columns else self.values,
            constituents=self.constituents.take(rows),
        )


def joined(parts: Sequence[Occurrences]) -> Occurrences:
    """The occurrences of parts of a history that follow each other."""
    if len(parts) == 1:
        return parts[0]
    return Occurrences(
        parts[0].event_class,
        np.concatenate([part.seq for part in parts]),
        np.concatenate([part.occ_time for part in parts]),
        np.concatenate([part.det_time for part in parts]),
        np.concatenate([part.kind for part in parts]),
        pa.concat_tables([part.values for part in parts]),
        pa.concat_arrays([part.constituents for part in parts]),
        sum(part.errors for part in parts),
        sum(part.dropped for part in parts),
    )

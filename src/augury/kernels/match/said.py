"""What letters say besides their symbol: the values that an event has where open variables stand.

In: the rows of a batch. Out: for each row a number that `automata.opened` reads. Values are numbered once, by type, in
order of appearance, for states hold these numbers.
"""

from __future__ import annotations

import numpy as np

from augury.automata.opened import NO_VALUE, said
from augury.kernels.match.detector import Detector
from augury.kernels.match.leaves import Rows, code_of, coded_values
from augury.kernels.match.streams import Numbers


def letters_say(detector: Detector, rows: Rows, numbers: list[Numbers]) -> list[int]:
    """What the letter of each row says; an event of another class has no value."""
    columns = np.full((len(rows.index), len(detector.says)), NO_VALUE, np.int64)
    for i, says in enumerate(detector.says):
        of = rows.of_class(code_of(rows.batch.classes, says.leaf.event_class))
        known = numbers[detector.types_said.index(says.variable.type)]
        columns[of, i] = known.of_coded(coded_values(rows, says.leaf, says.place, says.variable, of))
    return [said(tuple(row)) for row in columns.tolist()]

"""What letters say besides their symbol: the values that an event has where open variables stand.

In: the rows of a batch. Out: for each row a number that `automata.opened` reads. Values are numbered once, by type, in
order of appearance, for states hold these numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from augury.automata.opened import NO_VALUE, Saying, said
from augury.kernels.columns import arrow_type
from augury.kernels.match.leaves import Rows, code_of, coded_values
from augury.kernels.match.streams import Numbers, no_numbers
from augury.types import Type


def types_said(says: Sequence[Saying]) -> tuple[Type, ...]:
    """The types of the values that letters say, each once."""
    return tuple(dict.fromkeys(one.variable.type for one in says))


def no_values(says: Sequence[Saying]) -> list[Numbers]:
    """Before the first value of each type."""
    return [no_numbers(arrow_type(kind)) for kind in types_said(says)]


def letters_say(says: Sequence[Saying], rows: Rows, numbers: list[Numbers]) -> list[int]:
    """What the letter of each row says; an event of another class has no value."""
    columns = np.full((len(rows.index), len(says)), NO_VALUE, np.int64)
    kinds = types_said(says)
    for i, one in enumerate(says):
        of = rows.of_class(code_of(rows.batch.classes, one.leaf.event_class))
        known = numbers[kinds.index(one.variable.type)]
        columns[of, i] = known.of_coded(coded_values(rows, one.leaf, one.place, one.variable, of))
    return [said(tuple(row)) for row in columns.tolist()]

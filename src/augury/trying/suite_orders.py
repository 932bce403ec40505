"""The rows of a test → the arrival orders that keep their times of detection: how many, and which are tried.

In: rows, how many orders are wanted, a seed. Out: orders, as lists of rows. Nothing is run here.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence

from augury.trying.suite_bound import Row


def every_order(rows: Sequence[Row]) -> int:
    """How many orders there are; rows that say the same are not told apart."""
    return math.prod(
        math.factorial(len(group)) // math.prod(map(math.factorial, Counter(row.json for row in group).values()))
        for group in _groups(rows)
    )


def all_orders(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """All of them but the one in which they are written."""
    orders = itertools.product(*(_arranged(group) for group in _groups(rows)))
    next(orders)
    return (list(itertools.chain.from_iterable(order)) for order in orders)


def some_orders(rows: Sequence[Row], count: int, seed: int) -> Iterator[list[Row]]:
    """So many, as a seed draws them; one may come more than once."""
    groups, chance = _groups(rows), random.Random(seed)
    for _ in range(count):
        yield [row for group in groups for row in chance.sample(group, len(group))]


def moved(rows: Sequence[Row], order: Sequence[Row]) -> list[Row]:
    """The rows that stand elsewhere than they are written, in their new order."""
    before = sorted(rows, key=_seen)
    return [row for old, row in zip(before, order, strict=True) if old is not row]


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(some) for _, some in itertools.groupby(sorted(rows, key=_seen), key=_seen)]


def _seen(row: Row) -> int:
    return row.seen_us


def _arranged(rows: list[Row]) -> Iterator[tuple[Row, ...]]:
    """Every order of rows of one time, the given one first; of equal rows the earlier stays before the later."""
    order: list[Row] = []
    choices = [_firsts(rows)]  # no recursion: there may be thousands of rows, and few orders of them
    while choices:
        chosen = next(choices[-1], None)
        if chosen is None:
            choices.pop()
            del order[-1:]
            continue
        first, rest = chosen
        order.append(first)
        if rest:
            choices.append(_firsts(rest))
        else:
            yield tuple(order)
            order.pop()


def _firsts(rows: list[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Each row that may be the first, with the others; of equal ones only the earliest may."""
    begun: set[str] = set()
    for place, row in enumerate(rows):
        if row.json not in begun:
            begun.add(row.json)
            yield row, [*rows[:place], *rows[place + 1 :]]

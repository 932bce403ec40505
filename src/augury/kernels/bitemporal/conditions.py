"""Which actions fire at a tick: `ON condition DO action(args), …` over the events that the tick looks at.

In: the view of a class, and the events it read and those that are on time, as `Sight`s. Out: a row for each action that
fires, its arguments as Arrow columns. A condition is looked at for all events read; one in which ONTIME stands also for
those on time; it fires where it is TRUE. FIRED asks about the name of the action that would fire, so that a condition
with it is decided for each action by itself. It knows no timer and no outbox.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
import pyarrow as pa

from augury.algebra.rule import ActionCall
from augury.algebra.scalar import Field, Leaf, Previous, Reason, Scalar, Timing, TimingPrimitive, leaves
from augury.event import key_of
from augury.kernels.batch import Integers
from augury.kernels.bitemporal import primitives
from augury.kernels.bitemporal.live import Keys, LiveView, Sight
from augury.kernels.bitemporal.watch import Watched
from augury.kernels.columns import Evaluated, evaluate
from augury.kernels.columns.column import Mask, arrow, truths
from augury.types import TIMESTAMP


@dataclass(frozen=True, slots=True)
class FiredAction:
    """One action of one statement (both by place), for the events it fires for: a row each, by `number`."""

    statement: int
    action: int
    name: str
    slot: Integers
    number: Integers
    seq: Integers
    keys: Keys
    arguments: tuple[pa.Array, ...]

    def __len__(self) -> int:
        """How often it fires."""
        return len(self.slot)


@dataclass(frozen=True, slots=True)
class Fired:
    """What fires at a tick.

    Arguments differ from action to action, so rows are grouped; `group` and `row` tell the order of all of them: by
    version (in the order of reading, which is that of `seq`), statement, action. `errors` counts by statement and
    reason the rows in which a condition or argument had no value; such an argument is NULL.
    """

    tick: int
    groups: tuple[FiredAction, ...]
    group: Integers
    row: Integers
    errors: Counter[tuple[int, Reason]]

    def __len__(self) -> int:
        """How many actions fire."""
        return len(self.row)

    def rows(self) -> Iterator[tuple[Any, int, str, tuple[Any, ...]]]:
        """Key, place of the statement, name of the action and its arguments, in order, as Python values."""
        columns = [[argument.to_pylist() for argument in one.arguments] for one in self.groups]
        for group, row in zip(self.group.tolist(), self.row.tolist(), strict=True):
            one = self.groups[group]
            yield one.keys[row], one.statement, one.name, tuple(column[row] for column in columns[group])


def decide(view: LiveView, sights: Sequence[Sight], tick: int) -> Fired:
    """What fires for these events; notes in the view what has fired. An event stands in one sight at most."""
    errors: Counter[tuple[int, Reason]] = Counter()
    groups: list[FiredAction] = []
    for sight in sights:
        looking = _Looking(view, sight, errors)
        for place, watched in enumerate(view.watch.statements):
            if len(sight) and (watched.timed or sight.facts.fresh):
                groups += looking.fire(place, watched)
    # Only now, so that FIRED sees earlier ticks alone.
    for one in groups:
        ticks = view.fired_at.get(key_of(one.name))
        if ticks is not None:
            ticks[one.slot] = np.minimum(ticks[one.slot], tick)
        if one.statement in view.fired_for:
            view.fired_for[one.statement][one.slot] = True
    return Fired(tick, tuple(groups), *_in_order(groups), errors)


def _in_order(groups: Sequence[FiredAction]) -> tuple[Integers, Integers]:
    if not groups:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lengths = [len(one) for one in groups]
    group = np.repeat(np.arange(len(groups)), lengths)
    row = np.concatenate([np.arange(length) for length in lengths])
    number = np.concatenate([one.number for one in groups])
    statement = np.array([one.statement for one in groups])[group]
    action = np.array([one.action for one in groups])[group]
    order = np.lexsort((action, statement, number))
    return group[order], row[order]


@dataclass(slots=True)
class _Looking:
    """Evaluates over one sight; columns are made once, when they are first asked for."""

    view: LiveView
    sight: Sight
    errors: Counter[tuple[int, Reason]]
    columns: dict[Leaf, pa.Array] = field(default_factory=dict)

    def fire(self, place: int, watched: Watched) -> list[FiredAction]:
        """The actions of a statement with the events they fire for."""
        found: list[FiredAction] = []
        holds: Mask | None = None
        for number, action in enumerate(watched.statement.actions):
            if holds is None or watched.asks_fired:
                columns = self._columns(watched.statement.condition, action.name)
                holds = self._holds(place, watched, columns)
            rows = np.flatnonzero(holds)
            if len(rows):
                found.append(self._fired(place, number, action, rows))
        return found

    def _holds(self, place: int, watched: Watched, columns: dict[Leaf, pa.Array]) -> Mask:
        sight = self.sight
        result = evaluate(watched.statement.condition, columns, sight.facts.tick, len(sight))
        self._count(place, result)
        holds = truths(result.values.cast(pa.bool_()))
        if watched.timed and not sight.facts.fresh:
            holds = holds & ~self.view.fired_for[place][sight.slot]
        return holds

    def _fired(self, place: int, number: int, action: ActionCall, rows: Integers) -> FiredAction:
        sight, arguments = self.sight, []
        whole, taken = len(rows) == len(sight), pa.array(rows)
        for argument in action.arguments:
            columns = self._columns(argument, action.name)
            few = columns if whole else {leaf: column.take(taken) for leaf, column in columns.items()}
            result = evaluate(argument, few, sight.facts.tick, len(rows))
            self._count(place, result)
            arguments.append(result.values)
        numbers = (sight.slot[rows], sight.number[rows], sight.new_seq[rows])
        return FiredAction(place, number, action.name, *numbers, sight.keys[rows], tuple(arguments))

    def _count(self, place: int, result: Evaluated) -> None:
        if result.errors.null_count < len(result.errors):
            for reason, count in Counter(result.errors.drop_null().to_pylist()).items():
                self.errors[place, Reason(reason)] += count

    def _columns(self, scalar: Scalar, action: str) -> dict[Leaf, pa.Array]:
        return {leaf: self._column(leaf, action) for leaf in leaves(scalar)}

    def _column(self, leaf: Leaf, action: str) -> pa.Array:
        if isinstance(leaf, Timing) and leaf.primitive is TimingPrimitive.FIRED:
            return pa.array(primitives.fired(self.view.fired_at[key_of(action)][self.sight.slot], self.sight.facts))
        if leaf not in self.columns:
            self.columns[leaf] = self._made(leaf)
        return self.columns[leaf]

    def _made(self, leaf: Leaf) -> pa.Array:
        sight, facts = self.sight, self.sight.facts
        match leaf:
            case Timing():
                return pa.array(primitives.holds(leaf, facts))
            case Field(scope="NEW", name="occ_time"):
                return arrow(facts.new_occ, TIMESTAMP, facts.withdrawn)
            case Field(scope="NEW", name="det_time"):
                return arrow(facts.new_det, TIMESTAMP, None)
            case Field(scope="NEW", name=name):
                return sight.new[name]
            case Field(scope="OLD", name="occ_time"):
                return arrow(facts.old_occ, TIMESTAMP, ~facts.has_old)
            case Field(scope="OLD", name="det_time"):
                return arrow(sight.old_det, TIMESTAMP, ~facts.has_old)
            case Field(scope="OLD", name=name):
                return sight.old[name]
            case Field() | Previous():
                raise AssertionError(f"a condition does not see {leaf}")
            case _:
                assert_never(leaf)

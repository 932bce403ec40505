"""What an expression has seen up to an event: the history of its partition as symbols, for one value of each variable.

In: a MATCH and a batch. Out: rows in order, which leaves are true of each, and the values that variables may have.
Written for one event that somebody asks about, not for speed; it knows neither tuples nor sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury.algebra.expression import (
    Anything,
    Apply,
    Expression,
    MatchPlan,
    Place,
    Primitive,
    Some,
    Variable,
    joins_only,
    parts,
    walk,
)
from augury.algebra.scalar import Constant, dump
from augury.automata.alphabet import Alphabet, alphabet_of
from augury.automata.build import body_of
from augury.event import Attribute, ClassKind, EventClass
from augury.kernels.batch import Batch, Integers, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.match.detector import detector_of
from augury.kernels.match.leaves import Rows, history_rows, keyed_places, true_rows, value_column
from augury.kernels.match.state import initial_state
from augury.kernels.match.step import step
from augury.kernels.match.streams import FRESH, Numbers, no_numbers

Valuation = Mapping[str, int]
"""For each keyed variable the number of its value, or FRESH."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """An expression made ready to be asked about.

    Of its variables those that stand in one place, under operators that only join, are *carried*: they may have any
    value there. `body` is the expression for one value of each of the others, the *keyed* ones; `written` has for each
    node of it, by id, the node as it was written.
    """

    variables: tuple[Variable, ...]
    keyed: tuple[Variable, ...]
    body: Expression
    written: Mapping[int, Expression]
    alphabet: Alphabet


def question_of(expression: Expression) -> Question:
    """Make an expression ready; raises `VariableUnderNegation` where no automaton tells its values apart."""
    variables = expression.variables if isinstance(expression, Some) else ()
    whole = body_of(expression)
    places = [
        (binding.name, number)
        for number, part in enumerate(parts(whole))
        for binding in (part.bindings if isinstance(part, Primitive) else ())
        if isinstance(binding, Variable)
    ]
    names = [name for name, _ in places]
    carried = {name for name, number in places if names.count(name) == 1 and joins_only(whole, number)}
    body = _freed(whole, carried)
    # Nothing but Some has been taken out, so that nodes still stand in the same order.
    originals = (node for node in walk(expression) if not isinstance(node, Some))
    written = {id(node): original for node, original in zip(walk(body), originals, strict=True)}
    keyed = tuple(v for v in variables if v.name not in carried)
    return Question(variables, keyed, body, written, alphabet_of(body))


def _freed(expression: Expression, names: set[str]) -> Expression:
    match expression:
        case Primitive(bindings=bindings):
            free = tuple(Anything() if isinstance(b, Variable) and b.name in names else b for b in bindings)
            return replace(expression, bindings=free)
        case Place():
            return expression
        case Apply(operands=operands):
            return replace(expression, operands=tuple(_freed(operand, names) for operand in operands))
        case _:
            return replace(expression, operand=_freed(expression.operand, names))


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The rows of one history up to an event, the last of them, and what is true of them."""

    question: Question
    rows: Rows
    true: npt.NDArray[np.bool_]
    """Of leaf and row, whatever variables stand for."""
    bound: tuple[tuple[int, str, Integers], ...]
    """Leaf, keyed variable, and the number of its value at each row at which the leaf is true; else FRESH."""
    numbers: Mapping[str, Numbers]

    @property
    def last(self) -> int:
        """The place of the event itself."""
        return len(self.rows.index) - 1

    def seq(self, place: int) -> int:
        """The `seq` of a row."""
        return int(self.rows.batch.seq[self.rows.index[place]])

    def event_class(self, place: int) -> EventClass:
        """The class of a row."""
        return self.rows.batch.classes[int(self.rows.batch.code[self.rows.index[place]])]

    def value(self, place: int, attribute: int | str) -> Constant:
        """An attribute of a row, by its number or name, or one of its times."""
        of_class = self.event_class(place)
        found = of_class.attributes[attribute] if isinstance(attribute, int) else of_class.attribute(attribute)
        assert found is not None, "analysis has looked the attribute up"
        code = int(self.rows.batch.code[self.rows.index[place]])
        return Constant(plain(self.rows.column(code, found.name, np.array([place]))[0]), found.type)

    def event(self, place: int) -> str:
        """A row as text."""
        of_class = self.event_class(place)
        values = ", ".join(dump(self.value(place, i)) for i in range(len(of_class.attributes)))
        return f"{of_class.name}({values})" if values else of_class.name

    def constituents(self, place: int) -> frozenset[int]:
        """The subscribed versions that a row stands for: itself, or those that a complex event was made of."""
        batch, index = self.rows.batch, int(self.rows.index[place])
        lists = batch.constituents[batch.code[index]]
        return frozenset({self.seq(place)} if lists is None else lists[int(batch.row[index])].as_py())

    def symbols(self, chosen: Valuation) -> list[int]:
        """The symbol of each row."""
        holds = self.true.copy()
        for leaf, name, numbers in self.bound:
            holds[leaf] &= (numbers == chosen[name]) & (numbers != FRESH)
        symbol_of = {s.leaves: i for i, s in enumerate(self.question.alphabet.symbols) if not s.is_start}
        known: dict[bytes, int] = {}
        found = []
        for column in np.ascontiguousarray(holds.T):
            key = column.tobytes()
            if key not in known:
                known[key] = symbol_of[frozenset(np.flatnonzero(column).tolist())]
            found.append(known[key])
        return found

    def values_at(self, name: str, places: Sequence[int]) -> list[int]:
        """The numbers of the values that a keyed variable has at some rows, latest first."""
        found = [
            int(numbers[place])
            for place in sorted(places, reverse=True)
            for _, variable, numbers in self.bound
            if variable == name and numbers[place] != FRESH
        ]
        return list(dict.fromkeys(found))

    def shown(self, name: str, number: int) -> str:
        """The value of a keyed variable as text."""
        variable = next(v for v in self.question.keyed if v.name == name)
        return dump(Constant(plain(self.numbers[name].values[number]), variable.type))


def plain(value: Any) -> Any:
    """An Arrow scalar as `Constant` holds it: times and durations are microseconds."""
    if pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type):
        return value.value
    return value.as_py()


def pasts(plan: MatchPlan, question: Question, batch: Batch, seq: int) -> list[Past]:
    """The history up to each event of that `seq`, complex ones besides the version, that is in a history at all."""
    index = history_rows(until(batch, seq), plan.over)
    own = [i for i in index.tolist() if batch.seq[i] == seq]
    found = [_same_partition(batch, index[index <= i], plan.partition_by) for i in own]
    return [_past(question, rows) for rows in found if rows is not None]


def until(batch: Batch, seq: int) -> Batch:
    """The versions up to one, complex events right after it included."""
    end = int(np.searchsorted(batch.seq, seq, side="right"))
    return replace(
        batch,
        code=batch.code[:end],
        row=batch.row[:end],
        seq=batch.seq[:end],
        occ_time=batch.occ_time[:end],
        det_time=batch.det_time[:end],
        kind=batch.kind[:end],
    )


def _same_partition(batch: Batch, index: Integers, names: Sequence[str]) -> Rows | None:
    """The rows that have the values of the last one; None where it is in no partition."""
    has = np.array([all(c.attribute(name) is not None for name in names) for c in batch.classes], np.bool_)
    if not has[batch.code[index[-1]]]:
        return None
    index = index[has[batch.code[index]]]
    rows = Rows(batch, index, np.zeros(len(index), np.int64))
    same = np.ones(len(index), np.bool_)
    for name in names:
        numbers = np.zeros(len(index), np.int64)
        known: Numbers | None = None
        for code in np.flatnonzero(has).tolist():
            attribute = batch.classes[code].attribute(name)
            assert attribute is not None
            known = known or no_numbers(arrow_type(attribute.type))
            of = rows.of_class(code)
            numbers[of] = known.number(rows.column(code, attribute.name, of).cast(known.values.type))
        same &= numbers == numbers[-1]
    index = index[same]
    return Rows(batch, index, np.zeros(len(index), np.int64))


def _past(question: Question, rows: Rows) -> Past:
    leaves = question.alphabet.leaves
    true = np.zeros((len(leaves), len(rows.index)), np.bool_)
    numbers = {v.name: no_numbers(arrow_type(v.type)) for v in question.keyed}
    bound = []
    for i, leaf in enumerate(leaves):
        at = true_rows(leaf, rows, {})
        true[i, at] = True
        for name, places in keyed_places(leaf, question.keyed).items():
            variable = next(v for v in question.keyed if v.name == name)
            for place in places:
                column = np.full(len(rows.index), FRESH, np.int64)
                column[at] = numbers[name].number(value_column(rows, leaf, place, variable, at))
                bound.append((i, name, column))
    return Past(question, rows, true, tuple(bound), numbers)


def occurrences_at(plan: MatchPlan, batch: Batch, seq: int, chronon_us: int) -> Occurrences:
    """What the kernel finds at an event."""
    attributes = tuple(Attribute(feed.attribute, feed.value.type) for feed in plan.feeds if feed.value is not None)
    event_class = EventClass("Found", ClassKind.COMPLEX, False, attributes, (), None)
    detector = detector_of(plan)
    _, found = step(detector, initial_state(detector, batch.classes), until(batch, seq), event_class, chronon_us)
    at = np.flatnonzero(found.seq == seq)
    return Occurrences(
        event_class,
        found.seq[at],
        found.occ_time[at],
        found.det_time[at],
        found.values.take(pa.array(at)) if attributes else found.values,
        found.constituents.take(pa.array(at)),
    )

"""What an expression has seen up to an event: the history of its partition as symbols, for one value of each variable.

In: a MATCH and a batch. Out: rows in order, which leaves are true of each, and the values that variables may have.
Written for one event that somebody asks about, not for speed; it knows neither tuples nor sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from augury import limits
from augury.algebra.expression import (
    Choice,
    Expression,
    MatchPlan,
    Primitive,
    Some,
    Variable,
    children,
    freed,
    joins_only,
    parts,
)
from augury.algebra.inner import open_variables
from augury.algebra.scalar import Constant
from augury.automata.alphabet import Alphabet, alphabet_of, is_found, number_of
from augury.automata.build import Builder
from augury.automata.kinds import Kind, kinds_of, may_come
from augury.automata.opened import Saying, sayings
from augury.diagnostics import Diagnostic, Mark, Span
from augury.event import Attribute, ClassKind, EventClass
from augury.kernels.batch import Batch, Integers, Occurrences
from augury.kernels.columns import arrow_type
from augury.kernels.columns.casts import convert
from augury.kernels.columns.column import Column
from augury.kernels.match.detector import detector_of
from augury.kernels.match.inner import set_apart
from augury.kernels.match.kinds import values_demanded
from augury.kernels.match.leaves import Rows, code_of, history_rows, keyed_places, true_rows
from augury.kernels.match.said import letters_say, no_values
from augury.kernels.match.shared import Shared
from augury.kernels.match.state import initial_state
from augury.kernels.match.step import step
from augury.kernels.order import without_seq
from augury.kernels.told import value_text

FRESH: Final = -1
"""A value that no event has had."""

Valuation = Mapping[str, int]
"""For each keyed variable the number of its value, or FRESH."""


class TooManyValues(ValueError):
    """Variables have had more combinations of values than are looked through; `diagnostics` says so, and where."""

    def __init__(self, variables: Sequence[Variable], count: int, seq: int, span: Span) -> None:
        """Make the diagnostic, as other limits have one."""
        names = ", ".join(f"`{variable.name}`" for variable in variables)
        most = f"at most {limits.STREAMS_JOINED_MAX:,} combinations of values of {names}"
        message = f"`why` looks through {most}, and up to event {seq} there are {count:,}"
        super().__init__(message)
        helps = ("the constituents of the occurrence say which events it is made of",)
        self.diagnostics = (Diagnostic("E313", message, Mark(span, "cannot be told"), helps=helps),)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Distinct values in order of appearance, NULL and NaN among them; numbered from 0."""

    known: dict[object, tuple[int, Any]]

    def numbers(self, values: pa.Array) -> Integers:
        """The number of each value; new ones are added."""
        plain_values = [plain(value) for value in values]
        return np.array(
            [self.known.setdefault(_comparable(v), (len(self.known), v))[0] for v in plain_values], np.int64
        )

    def has(self, value: object) -> bool:
        """Whether a value has a number."""
        return _comparable(value) in self.known

    def __getitem__(self, number: int) -> Any:
        """The value of a number."""
        return next(value for found, value in self.known.values() if found == number)


def _comparable(value: Any) -> object:
    return "NaN" if isinstance(value, float) and value != value else value


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """An expression made ready to be asked about.

    Of its variables those that stand in one place, under operators that only join, are *carried*: they may have any
    value there. `body` is the expression for one value of each of the others, the *keyed* ones, with leaves for the
    parts that are `apart` (see `inner`); `written` has for each node of it, by id, the node as it was written.
    """

    variables: tuple[Variable, ...]
    keyed: tuple[Variable, ...]
    body: Expression
    apart: tuple[Some, ...]
    written: Mapping[int, Expression]
    alphabet: Alphabet
    says: tuple[Saying, ...]
    builders: tuple[tuple[Kind, Builder], ...]
    """What knows the machines of `body` and its parts, for each kind of values that a prefix tells apart."""

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The parts as they were written, numbered as those of `body`."""
        return tuple(self.written[id(part)] for part in parts(self.body))


def question_of(expression: Expression) -> Question:
    """Make an expression ready."""
    variables = expression.variables if isinstance(expression, Some) else ()
    operand = expression.operand if isinstance(expression, Some) else expression
    whole, apart = set_apart(operand)
    places = [
        (binding.name, number)
        for number, part in enumerate(parts(whole))
        for binding in (part.bindings if isinstance(part, Primitive) else ())
        if isinstance(binding, Variable)
    ]
    names = [name for name, _ in places]
    carried = {name for name, number in places if names.count(name) == 1 and joins_only(whole, number)}
    body = freed(whole, carried)
    keyed = tuple(v for v in variables if v.name not in carried)
    says, alphabet = sayings(body), alphabet_of(freed(body, open_variables(body)))
    builders = tuple((kind, Builder(alphabet, says, may_come(alphabet, kind))) for kind in kinds_of(body))
    builders = builders or (({}, Builder(alphabet, says)),)
    return Question(variables, keyed, body, apart, dict(_written(body, operand)), alphabet, says, builders)


def _written(node: Expression, original: Expression) -> Iterator[tuple[int, Expression]]:
    while isinstance(original, Some) and not (isinstance(node, Primitive) and is_found(node)):
        original = original.operand
    yield id(node), original
    while isinstance(node, Some):
        node = node.operand
        yield id(node), original
    if not isinstance(node, Primitive):
        for one, of in zip(children(node), children(original), strict=True):
            yield from _written(one, of)


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """The rows of one history up to an event, the last of them, and what is true of them."""

    question: Question
    rows: Rows
    true: npt.NDArray[np.bool_]
    """Of leaf and row, whatever variables stand for."""
    bound: tuple[tuple[int, str, Integers], ...]
    """Leaf, keyed variable, and the number of its value at each row at which the leaf is true; else FRESH."""
    numbers: Mapping[str, Values]
    found: Mapping[Primitive, Mapping[int, tuple[int, ...]]]
    """For each part that is apart, by its leaf, where it takes place, and the places of the events it does so with."""
    said: tuple[int, ...]
    """What the letter of each row says besides its symbol."""

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
        values = ", ".join(value_text(self.value(place, i)) for i in range(len(of_class.attributes)))
        return f"{of_class.name}({values})" if values else of_class.name

    def constituents(self, place: int) -> frozenset[int]:
        """The subscribed versions that a row stands for: itself, or those that a complex event was made of."""
        batch, index = self.rows.batch, int(self.rows.index[place])
        lists = batch.constituents[batch.code[index]]
        return frozenset({self.seq(place)} if lists is None else lists[int(batch.row[index])].as_py())

    def symbols(self, chosen: Valuation) -> npt.NDArray[np.int32]:
        """The symbol of each row."""
        holds = self.true.copy()
        for leaf, name, numbers in self.bound:
            holds[leaf] &= (numbers == chosen[name]) & (numbers != FRESH)
        symbol_of = {s.leaves: i for i, s in enumerate(self.question.alphabet.symbols) if not s.is_start}
        # Rows at which the same leaves are true have one symbol, and such sets are few: they are numbered byte by byte.
        which = np.zeros(holds.shape[1], np.int64)
        for byte in np.packbits(holds, axis=0):
            code = which * 256 + byte
            number = np.cumsum(np.bincount(code) > 0) - 1
            which = number[code]
        example = np.zeros(int(which.max(initial=-1)) + 1, np.int64)
        example[which] = np.arange(len(which))
        found = [symbol_of[frozenset(np.flatnonzero(holds[:, row]).tolist())] for row in example.tolist()]
        return np.array(found, np.int32)[which]

    def letters(self, chosen: Valuation) -> list[int]:
        """The letter of each row: its symbol, and what it says."""
        size = len(self.question.alphabet.symbols)
        return [symbol + size * what for symbol, what in zip(self.symbols(chosen).tolist(), self.said, strict=True)]

    def builders(self, chosen: Valuation) -> list[int]:
        """Which kinds these values may be of, by number; a value that no event has may be of several."""
        bound = {v: self.numbers[v.name][chosen[v.name]] for v in self.question.keyed if chosen[v.name] != FRESH}
        found = []
        for number, (kind, _) in enumerate(self.question.builders):
            demanded = values_demanded(kind, bound)
            fresh = {} if demanded is None else {v: d for v, d in demanded.items() if v not in bound}
            # A value that some event has had is not fresh.
            if demanded is not None and not any(self.numbers[v.name].has(d) for v, d in fresh.items()):
                found.append(number)
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

    def combinations(self, among: Sequence[int]) -> int:
        """How many valuations there are."""
        return prod(len(self.values_at(v.name, among)) + 1 for v in self.question.keyed)

    def valuations(self, among: Sequence[int]) -> Iterator[Valuation]:
        """Every combination of the values that keyed variables have at some rows, and of one that no event has."""
        names = [v.name for v in self.question.keyed]
        for chosen in product(*([*self.values_at(name, among), FRESH] for name in names)):
            yield dict(zip(names, chosen, strict=True))

    def shown(self, name: str, number: int) -> str:
        """The value of a keyed variable as text."""
        variable = next(v for v in self.question.keyed if v.name == name)
        return value_text(Constant(self.numbers[name][number], variable.type))


def plain(value: Any) -> Any:
    """An Arrow scalar as `Constant` holds it: times and durations are microseconds."""
    if pa.types.is_timestamp(value.type) or pa.types.is_duration(value.type):
        return value.value
    return value.as_py()


def pasts(
    plan: MatchPlan, question: Question, batch: Batch, seq: int | None, clock_us: int | None = None
) -> list[Past]:
    """The history up to each event of that `seq`, complex ones besides the version, that is in a history at all.

    Without a `seq`, up to each event that the clock completed at `clock_us`.
    """
    index = history_rows(batch, plan.over)
    is_own = batch.seq == seq if seq is not None else without_seq(batch.seq) & (batch.det_time == clock_us)
    found = [same_partition(batch, index[index <= i], plan.partition_by) for i in index[is_own[index]]]
    return [_past(question, rows) for rows in found if rows is not None]


def until(batch: Batch, seq: int) -> Batch:
    """The versions up to one, complex events right after it included."""
    # Not by search: events that the clock completed stand between versions, and have no `seq`.
    at = np.flatnonzero(batch.seq == seq)
    end = int(at[-1]) + 1 if len(at) else len(batch)
    return batch.part(0, end)


def same_partition(batch: Batch, index: Integers, names: Sequence[str]) -> Rows | None:
    """The rows that have the values of the last one; None where it is in no partition."""
    has = np.array([all(c.attribute(name) is not None for name in names) for c in batch.classes], np.bool_)
    if not has[batch.code[index[-1]]]:
        return None
    index = index[has[batch.code[index]]]
    rows = _rows(batch, index)
    same = np.ones(len(index), np.bool_)
    for name in names:
        numbers = np.zeros(len(index), np.int64)
        known, kind = Values({}), None
        for code in np.flatnonzero(has).tolist():
            attribute = batch.classes[code].attribute(name)
            assert attribute is not None
            kind = kind or arrow_type(attribute.type)
            of = rows.of_class(code)
            numbers[of] = known.numbers(rows.column(code, attribute.name, of).cast(kind))
        same &= numbers == numbers[-1]
    index = index[same]
    return _rows(batch, index)


def _rows(batch: Batch, index: Integers) -> Rows:
    """Rows of one history; what they share with other expressions is not asked for."""
    return Rows(batch, index, np.zeros(0, np.int64), None, Shared())


def _past(question: Question, rows: Rows) -> Past:
    leaves = question.alphabet.leaves
    true = np.zeros((len(leaves), len(rows.index)), np.bool_)
    numbers = {v.name: Values({}) for v in question.keyed}
    bound = []
    found = {leaf: _taking_place(question.apart[number_of(leaf)], rows) for leaf in leaves if is_found(leaf)}
    for i, leaf in enumerate(leaves):
        at = np.array(list(found[leaf]), np.int64) if leaf in found else true_rows(leaf, rows, {})
        true[i, at] = True
        for name, places in keyed_places(leaf, question.keyed).items():
            variable = next(v for v in question.keyed if v.name == name)
            for place in places:
                column = np.full(len(rows.index), FRESH, np.int64)
                column[at] = numbers[name].numbers(_bound(rows, leaf, place, variable, at))
                bound.append((i, name, column))
    says = question.says
    said = letters_say(says, rows, no_values(says)) if says else [0] * len(rows.index)
    return Past(question, rows, true, tuple(bound), numbers, found, tuple(said))


def _bound(rows: Rows, leaf: Primitive, place: int, variable: Variable, at: Integers) -> pa.Array:
    """What a variable stands for at rows of a leaf, in its own type."""
    code = code_of(rows.batch.classes, leaf.event_class)
    attribute = rows.batch.classes[code].attributes[place]
    values = rows.column(code, attribute.name, at)
    return values if attribute.type == variable.type else convert(Column(values), attribute.type, variable.type).values


def _taking_place(some: Some, rows: Rows) -> dict[int, tuple[int, ...]]:
    """Where a part that is apart takes place, with the places of its most recent tuple."""
    batch, index = rows.batch, rows.index
    # Its history by itself; numbered by place, each event stands for itself.
    alone = Batch(
        batch.classes,
        batch.code[index],
        batch.row[index],
        np.arange(len(index)),
        batch.occ_time[index],
        batch.det_time[index],
        batch.kind[index],
        batch.tables,
        tuple(None for _ in batch.classes),
        None if batch.detected is None else batch.detected[index],
    )
    found = _detected(MatchPlan(some, None, (), None, None, None, Choice.RECENT, ()), alone, 1)
    return dict(zip(found.seq.tolist(), map(tuple, found.constituents.to_pylist()), strict=True))


def occurrences_at(plan: MatchPlan, batch: Batch, seq: int, chronon_us: int) -> Occurrences:
    """What the kernel finds at an event."""
    found = _detected(plan, until(batch, seq), chronon_us)
    return found.at(np.flatnonzero(found.seq == seq))


def _detected(plan: MatchPlan, batch: Batch, chronon_us: int) -> Occurrences:
    attributes = tuple(Attribute(feed.attribute, feed.value.type) for feed in plan.feeds if feed.value is not None)
    event_class = EventClass("Found", ClassKind.COMPLEX, False, attributes, (), None)
    detector = detector_of(plan)
    return step(detector, initial_state(detector, batch.classes), batch, event_class, chronon_us)[1]

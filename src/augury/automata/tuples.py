"""An event expression → the machine whose runs are its occurrence tuples, operator by operator.

A part is a class or correlation variable as it stands in the expression, numbered from left to right; what the marks
of a part are, the caller says. A negation, `any`, `first`, prefix and `start` have no events of their own, so of them
only the language is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import count
from typing import assert_never

from augury.algebra.expression import (
    Apply,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    Nth,
    Place,
    Primitive,
    Some,
    parts,
)
from augury.automata import operations as on
from augury.automata import runs as of
from augury.automata.build import Builder
from augury.automata.runs import FINAL, Move, Runs

Op = MatchOperator


def tuples_of(expression: Expression, builder: Builder, mark_of: Callable[[int], int]) -> Runs:
    """The runs of an expression whose variables are all bound; those of one with `start` have read it already."""
    return _begun(_Tuples(builder, mark_of).build(expression), builder)


def places_of(expression: Expression, builder: Builder) -> Runs:
    """One run for each place at which the expression takes place, with no event to show for it."""
    return _begun(of.unmarked(builder.build(expression)), builder)


def _begun(runs: Runs, builder: Builder) -> Runs:
    starts = [i for i, symbol in enumerate(builder.alphabet.symbols) if symbol.is_start]
    if not starts:
        return runs
    begun = {q for s in runs.initial for q, _ in runs.moves(s, starts[0]) if q != FINAL}
    return of.tabulated(replace(runs, initial=tuple(begun), size=None))


def of_kind(runs: Runs, mark: int) -> Runs:
    """The same runs, with a mark on the last letter of each."""
    return replace(runs, moves=lambda s, a: tuple((q, m | mark if q == FINAL else m) for q, m in runs.moves(s, a)))


def remembering(runs: Runs, bits: int) -> Runs:
    """The same runs, in whose states it stands which of these bits have been marked: equal states have equal ones."""

    def moves(state: tuple[object, int], letter: int) -> tuple[Move, ...]:
        inner, seen = state
        return tuple((q if q == FINAL else (q, seen | m & bits), m) for q, m in runs.moves(inner, letter))

    return of.tabulated(replace(runs, initial=tuple((s, 0) for s in runs.initial), moves=moves, size=None))


class _Tuples:
    def __init__(self, builder: Builder, mark_of: Callable[[int], int]) -> None:
        self.builder = builder
        self.mark_of = mark_of
        self.numbers = count()
        self.any = of.unmarked(builder.any)
        self.first = of.unmarked(builder.first)

    def build(self, expression: Expression) -> Runs:
        match expression:
            case Primitive():
                mark = self.mark_of(next(self.numbers))
                where = frozenset(self.builder.alphabet.where(expression))
                return of.ending_in(self.builder.size, (), lambda letter: mark if letter in where else None)
            case Place(variable=variable):
                return self._place(variable, self.mark_of(next(self.numbers)))
            case Equate(operand=operand, variable=variable):
                return of.marked_last(self.build(operand), variable)
            case Exists(variable=variable, operand=operand):
                return of.projected(self.build(operand), variable, self.builder.markable(operand))
            case Nth(count=n, every=every, operand=operand):
                return of.counted(self.build(operand), self.builder.build(operand), n, every=every)
            case Apply(operator=operator, operands=operands):
                return self._apply(expression, operator, operands)
            case Some():
                raise AssertionError("variables are bound around the whole, or freed before")
            case _:
                assert_never(expression)

    def _place(self, variable: str, mark: int) -> Runs:
        """The event x; the start is no event."""
        symbols = self.builder.alphabet.symbols

        def marked(letter: int) -> int | None:
            return (0 if symbols[letter >> 1].is_start else mark) if letter & 1 else None

        return of.ending_in(self.builder.size, (variable,), marked)

    def _skipped(self, expression: Expression) -> Runs:
        """The language alone; its parts keep their numbers."""
        for _ in parts(expression):
            next(self.numbers)
        return of.unmarked(self.builder.build(expression))

    def _apply(self, expression: Apply, operator: Op, operands: tuple[Expression, ...]) -> Runs:
        match operator:
            case Op.NULL | Op.ANY | Op.START | Op.FIRST | Op.NOT | Op.PREFIX:
                return self._skipped(expression)
            case Op.AND:
                return reduce(of.both, map(self.build, operands))
            case Op.OR:
                return of.either(*map(self.build, operands))
            case Op.RELATIVE:
                return of.followed(*map(self.build, operands))
            case Op.RELATIVE_PLUS:
                return of.repeated(self.build(operands[0]))
            case Op.PRIOR:
                return reduce(self._prior, map(self.build, operands))
            case Op.SEQUENCE:
                return reduce(self._sequence, map(self.build, operands))
            case Op.BEFORE:
                return self._prior(self.build(operands[0]), self.any)
            case Op.HAPPENED:
                e = self.build(operands[0])
                return of.either(e, self._prior(e, self.any))
            case _:
                return self._using(operator, operands)

    def _using(self, operator: Op, operands: tuple[Expression, ...]) -> Runs:
        """Operators that look at where an operand takes place besides its tuples."""
        built = self.builder.build
        match operator:
            case Op.PIPE:
                e, f = map(self.build, operands)
                return of.piped(e, built(operands[0]), f)
            case Op.AFTER_FIRST:
                f, e = map(self.build, operands)
                first = of.unmarked(on.counted(built(operands[1]), 1, every=False))
                return of.followed(of.both(e, first), f)
            case Op.BETWEEN_EACH:
                f, e = map(self.build, operands)
                return of.in_each_stretch(f, e, built(operands[1]))
            case Op.FIRST_AFTER:
                opening, wanted = map(self.build, operands[:2])
                none_before = self._skipped(Apply(Op.NOT, (Apply(Op.BEFORE, (operands[2],)),)))
                return of.in_each_stretch(of.both(wanted, none_before), opening, built(operands[0]))
            case Op.SERIES:
                for _ in parts(operands[0]):
                    next(self.numbers)
                broken = Apply(Op.PRIOR, (Apply(Op.NOT, operands[:1]), operands[1]))
                unbroken = of.unmarked(built(Apply(Op.NOT, (broken,))))
                return of.both(self.build(operands[1]), unbroken)
            case _:
                raise AssertionError(f"{operator} has been looked at before")

    def _prior(self, e: Runs, f: Runs) -> Runs:
        return of.both(of.followed(e, self.any), f)

    def _sequence(self, e: Runs, f: Runs) -> Runs:
        return of.both(of.followed(e, self.first), f)

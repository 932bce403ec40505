"""An event expression → its minimal automaton, operator by operator (Gehani, Jagadish, Shmueli 1992, sections 3 and 5).

Attribute variables around the whole expression are fixed: the automaton is that of one value of each. Each operator is
built as the contract defines it, from `operations`. `start` is a symbol that the automaton has read before the first
event; `any`, classes, `!` and prefix do not take place at it, and EXISTS ranges over it only if it is named inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
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
    walk,
)
from augury.algebra.inner import open_variables, prefixes, rivals, with_open_variables
from augury.automata import operations as on
from augury.automata.alphabet import Alphabet, alphabet_of
from augury.automata.automaton import Automaton, Language
from augury.automata.opened import Saying, for_some_value, inner_alphabet

Op = MatchOperator


@dataclass(frozen=True, slots=True)
class Compiled:
    """An automaton and what its symbols stand for."""

    alphabet: Alphabet
    automaton: Automaton

    def dump(self) -> str:
        """The automaton with its symbols' names."""
        return self.automaton.dump(self.alphabet.names())

    def to_dot(self) -> str:
        """The automaton for Graphviz, with its symbols' names."""
        return self.automaton.to_dot(self.alphabet.names())


class NoOneAutomaton(Exception):
    """Values have to be told apart that no one automaton does: of an open variable, or equal ones under a prefix."""


def body_of(expression: Expression) -> Expression:
    """What the automaton is made of: the expression for one value of each of its variables."""
    body = with_open_variables(expression.operand if isinstance(expression, Some) else expression)
    if open_variables(body) or any(rivals(prefix) for prefix in prefixes(body)):
        raise NoOneAutomaton
    return body


def compile_expression(
    expression: Expression, alphabet: Alphabet | None = None, builder: Builder | None = None
) -> Compiled:
    """The minimal automaton of an expression whose correlation variables are all bound.

    It is over its own symbols, or over those of an alphabet that has all its leaves; a builder of that alphabet may
    know parts of it already.
    """
    body = body_of(expression)
    alphabet = alphabet_of(body) if alphabet is None else alphabet
    automaton = on.built((builder or Builder(alphabet)).build(body))
    start = next((i for i, symbol in enumerate(alphabet.symbols) if symbol.is_start), None)
    return Compiled(alphabet, automaton if start is None else _after(automaton, start))


def _after(automaton: Automaton, symbol: int) -> Automaton:
    """The automaton that has read the start already."""
    delta, accepting = automaton.delta, automaton.accepting
    begun = delta[0][symbol]
    return on.build(automaton.symbols, (), begun, lambda q, a: delta[q][a], accepting.__getitem__)


class Builder:
    """Languages of the parts of one expression, over its alphabet; each part is built once."""

    def __init__(
        self, alphabet: Alphabet, says: tuple[Saying, ...] = (), may_come: Sequence[int] | None = None
    ) -> None:
        """The languages that others are made of.

        `says` is what letters say besides their symbol; `may_come` are the symbols of events that prefix thinks of.
        """
        self.alphabet, self.says = alphabet, says
        self.size = len(alphabet.symbols)
        starts = {i for i, symbol in enumerate(alphabet.symbols) if symbol.is_start}
        self.to_come = [i for i in range(self.size) if i not in starts]
        self.may_come = self.to_come if may_come is None else may_come
        self.any = on.ending_in(self.size, self.to_come)
        self.start = on.ending_in(self.size, starts)
        self.first = self._not(on.concatenation(self.any, self.any))
        self.known: dict[Expression, Language] = {}

    def build(self, expression: Expression) -> Language:
        """Where the expression takes place."""
        if expression not in self.known:
            self.known[expression] = self._build(expression)
        return self.known[expression]

    def _build(self, expression: Expression) -> Language:
        match expression:
            case Primitive():
                return on.ending_in(self.size, self.alphabet.where(expression))
            case Place(variable=variable):
                return on.marked(self.size, variable)
            case Nth(count=count, every=every, operand=operand):
                return on.counted(self.build(operand), count, every=every)
            case Equate(operand=operand, variable=variable):
                return on.intersection(self.build(operand), on.marked(self.size, variable))
            case Exists(variable=variable, operand=operand):
                return on.projected(self.build(operand), variable, self.markable(operand))
            case Apply(operator=operator, operands=operands):
                return self._apply(operator, [self.build(operand) for operand in operands])
            case Some():
                inner = inner_alphabet(expression, self.alphabet)
                e = Builder(inner, self.says).build(expression.operand)
                return for_some_value(expression, e, inner, self.alphabet, self.says)
            case _:
                assert_never(expression)

    def markable(self, operand: Expression) -> Sequence[int]:
        """The symbols that EXISTS ranges over: the start only if it is named."""
        named = any(isinstance(n, Apply) and n.operator is Op.START for n in walk(operand))
        return range(self.size) if named else self.to_come

    def _apply(self, operator: Op, of: list[Language]) -> Language:
        match operator:
            case Op.NULL:
                return on.ending_in(self.size, ())
            case Op.ANY:
                return self.any
            case Op.START:
                return self.start
            case Op.FIRST:
                return self.first
            case Op.AND:
                return reduce(on.intersection, of)
            case Op.OR:
                return reduce(on.union, of)
            case Op.NOT:
                return self._not(of[0])
            case Op.RELATIVE:
                return on.concatenation(of[0], of[1])
            case Op.RELATIVE_PLUS:
                return on.repetition(of[0])
            case Op.PRIOR:
                return reduce(self._prior, of)
            case Op.SEQUENCE:
                return reduce(self._sequence, of)
            case Op.PIPE:
                return on.piped(of[0], of[1])
            case Op.AFTER_FIRST:
                return on.concatenation(on.counted(of[1], 1, every=False), of[0])
            case Op.BETWEEN_EACH:
                return on.in_each_stretch(of[0], of[1])
            case Op.FIRST_AFTER:
                earlier = self._prior(of[2], self.any)
                return on.in_each_stretch(on.intersection(of[1], self._not(earlier)), of[0])
            case Op.BEFORE:
                return self._prior(of[0], self.any)
            case Op.HAPPENED:
                return on.union(of[0], self._prior(of[0], self.any))
            case Op.PREFIX:
                assert not of[0].is_open, "analysis has refused what cannot be decided"
                return on.intersection(self.any, on.possible(of[0], self.may_come))
            case Op.SERIES:
                return on.intersection(of[1], self._not(self._prior(self._not(of[0]), of[1])))
            case _:
                assert_never(operator)

    def _not(self, e: Language) -> Language:
        """Every event where E does not take place; the start is none."""
        return on.intersection(self.any, on.complement(e))

    def _prior(self, e: Language, f: Language) -> Language:
        return on.intersection(on.concatenation(e, self.any), f)

    def _sequence(self, e: Language, f: Language) -> Language:
        return on.intersection(on.concatenation(e, self.first), f)

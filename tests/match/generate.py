"""Random event expressions and histories, each a function of a seed, in the algebra's own types.

In: a seed and what is wanted. Out: expressions as analysis could have made them: names of correlation variables are
unique, attribute variables are bound around the whole or inside the negation they belong to, the operand of prefix
has no free correlation variable. The classes are A and B without attributes, K (k INT, v INT), and Z, which is in
histories only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from augury.algebra import scalar as s
from augury.algebra.expression import (
    Anything,
    Apply,
    Binding,
    Choice,
    Equate,
    Exists,
    Expression,
    Feed,
    MatchOperator,
    MatchPlan,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    walk,
)
from augury.algebra.inner import undecidable_prefix
from augury.algebra.operators import Operator
from augury.analysis.references import VariableTable
from augury.analysis.variables import bind_variables
from augury.diagnostics import Findings
from augury.kernels.reference import Event
from augury.types import INT

SECOND = 1_000_000
Op = MatchOperator

UNARY = (Op.NOT, Op.NOT, Op.RELATIVE_PLUS, Op.BEFORE, Op.HAPPENED)
BINARY = (
    *(Op.AND, Op.AND, Op.OR, Op.RELATIVE, Op.RELATIVE, Op.PRIOR, Op.SEQUENCE, Op.PIPE, Op.PIPE),
    *(Op.AFTER_FIRST, Op.BETWEEN_EACH, Op.BETWEEN_EACH, Op.SERIES),
)
TERNARY = (Op.FIRST_AFTER, Op.PRIOR, Op.SEQUENCE)


@dataclass(frozen=True)
class Wanted:
    """What an expression may have; `depth` counts operators on top of each other."""

    depth: int = 4
    exists: bool = True
    prefix: int = 1
    """How often, compared with the other operators."""
    inner: int = 0
    """How often a negation with variables of its own, in the same way."""
    start: bool = True
    attributes: bool = True
    keyed: bool = False
    """Whether most leaves bind attributes."""
    masks: bool = True
    previous: bool = True


EVERYTHING = Wanted()
PLAIN = Wanted(exists=False, prefix=0, start=False, attributes=False, masks=False)
"""Letters and operators alone."""


def pair(seed: int, wanted: Wanted = EVERYTHING, events: int = 8) -> tuple[Expression, tuple[Event, ...]]:
    """An expression and a history of at most so many events."""
    random = Random(seed)
    return expression(random, wanted), history(random, random.choice((0, 1, *range(2, events), *range(2, events + 1))))


def pairs(
    first: int, count: int, wanted: Wanted = EVERYTHING, events: int = 8
) -> Iterator[tuple[int, Expression, tuple[Event, ...]]]:
    """Many of them, each with its seed."""
    for seed in range(first, first + count):
        yield seed, *pair(seed, wanted, events)


def expression(random: Random, wanted: Wanted = EVERYTHING, free: tuple[str, ...] = ()) -> Expression:
    """An expression whose free correlation variables are among `free`."""
    while True:
        findings = Findings()
        table = VariableTable(types={name.casefold(): INT for name in (*VARIABLES, *INNER_VARIABLES)})
        found = bind_variables(_Maker(random, wanted).make(wanted.depth, free), table, findings)
        # Try again where a variable stands under negations only, or is bound inside a prefix: there the reference
        # thinks of all values that may come; and where nobody can decide.
        bound = any(_binds(node) for node in walk(found))
        if not findings.has_errors() and not bound and not undecidable_prefix(found):
            return found


def _binds(node: Expression) -> bool:
    is_prefix = isinstance(node, Apply) and node.operator is Op.PREFIX
    return is_prefix and any(isinstance(inner, Some) for inner in walk(node))


def plan(
    expression: Expression,
    choice: Choice = Choice.RECENT,
    *,
    where: s.Scalar | None = None,
    within_us: int | None = None,
    partition_by: tuple[str, ...] = (),
) -> MatchPlan:
    """A MATCH around an expression, whose attributes are its variables."""
    bound = expression.variables if isinstance(expression, Some) else ()
    feeds = tuple(Feed(v.name, s.Field("", v.name, v.type)) for v in bound)
    return MatchPlan(expression, None, partition_by, None, where, within_us, choice, feeds)


def history(random: Random, events: int) -> tuple[Event, ...]:
    """Events with gaps in `seq`, a second apart each."""
    found = []
    seq = 0
    for _ in range(events):
        seq += random.choice((1, 1, 1, 2))
        name = random.choice("AAABBBKKKZ")
        values = {"k": random.choice((1, 1, 2)), "v": random.choice((0, 1, 2, None))} if name == "K" else {}
        found.append(Event(seq, name, values, seq * SECOND, seq * SECOND))
    return tuple(found)


# ---- parts ---------------------------------------------------------------------------------------

VARIABLES = ("X", "Y")
INNER_VARIABLES = tuple(f"{name}{number}" for number in range(8) for name in "PQ")
"""Two for each negation that has some of its own."""


def _mask(operator: Operator, right: s.Scalar) -> s.Scalar:
    made = s.apply(operator, (s.Field("", "v", INT), right))
    assert isinstance(made, s.Apply)
    return made


MASKS = (_mask(Operator.GT, s.Constant(0, INT)), _mask(Operator.EQ, s.Constant(1, INT)))
MASKS_WITH_PREVIOUS = (*MASKS, _mask(Operator.GT, s.Previous("v", 1, INT)))


@dataclass(eq=False)
class _Maker:
    random: Random
    wanted: Wanted
    names: int = 0
    negations: int = 0
    variables: tuple[str, ...] = VARIABLES
    kinds: Sequence[Callable[[int, tuple[str, ...]], Expression]] = field(init=False)

    def __post_init__(self) -> None:
        often = {self._binary: 7, self._unary: 3, self._nth: 2, self._ternary: 1}
        often |= {
            self._exists: 3 * self.wanted.exists,
            self._prefix: self.wanted.prefix,
            self._inner: self.wanted.inner,
        }
        self.kinds = [kind for kind, times in often.items() for _ in range(times)]

    def make(self, depth: int, free: tuple[str, ...]) -> Expression:
        if depth == 0 or self.random.random() < 0.08:
            return self._leaf(free)
        if free and self.random.random() < 0.12:
            return Equate(self.make(depth - 1, free), self.random.choice(free))
        return self.random.choice(self.kinds)(depth - 1, free)

    def _leaf(self, free: tuple[str, ...]) -> Expression:
        if free and self.random.random() < 0.35:
            return Place(self.random.choice(free))
        if self.wanted.keyed and self.random.random() < 0.7:
            return self._keyed()
        chance = self.random.random()
        if chance < 0.16:
            return Apply(Op.ANY)
        if chance < 0.24:
            return Apply(self.random.choice([Op.FIRST, Op.FIRST, Op.NULL] + [Op.START] * 3 * self.wanted.start))
        # Events of two classes never coincide: without wider leaves most expressions take place nowhere.
        if chance < 0.36:
            return Apply(Op.OR, (Primitive(self.random.choice("AK")), Primitive("B")))
        if chance < 0.44:
            return Apply(Op.NOT, (Primitive(self.random.choice("ABK")),))
        name = self.random.choice("AAABBBK" if not self.wanted.attributes else "AAABBBKKK")
        if name != "K":
            return Primitive(name)
        masks = MASKS_WITH_PREVIOUS if self.wanted.previous else MASKS
        mask = self.random.choice((None, None, *masks)) if self.wanted.masks else None
        is_bound = self.wanted.attributes and self.random.random() < 0.7
        bindings = (self._binding(), self._binding()) if is_bound else ()
        return Primitive("K", bindings, mask)

    def _binding(self) -> Binding:
        name, often = self.random.choice(self.variables), self.variables[0]
        return self.random.choice((Variable(name, INT), Variable(often, INT), s.Constant(1, INT), Anything()))

    def _unary(self, depth: int, free: tuple[str, ...]) -> Expression:
        return Apply(self.random.choice(UNARY), (self.make(depth, free),))

    def _binary(self, depth: int, free: tuple[str, ...]) -> Expression:
        return Apply(self.random.choice(BINARY), (self.make(depth, free), self.make(depth, free)))

    def _ternary(self, depth: int, free: tuple[str, ...]) -> Expression:
        return Apply(self.random.choice(TERNARY), tuple(self.make(depth - (depth > 0), free) for _ in range(3)))

    def _nth(self, depth: int, free: tuple[str, ...]) -> Expression:
        return Nth(self.random.choice((1, 2, 2, 3)), self.random.random() < 0.4, self.make(depth, free))

    def _exists(self, depth: int, free: tuple[str, ...]) -> Expression:
        self.names += 1
        name = f"x{self.names}"
        return Exists(name, self.make(depth, (*free, name)))

    def _inner(self, depth: int, free: tuple[str, ...]) -> Expression:
        before, number = self.variables, self.negations
        self.negations = (number + 1) % 8
        self.variables = INNER_VARIABLES[2 * number : 2 * number + 2]
        operand = Apply(self.random.choice((Op.PRIOR, Op.SEQUENCE)), (self._keyed(), self.make(depth, free)))
        self.variables = before
        return Apply(Op.NOT, (operand,))

    def _keyed(self) -> Expression:
        return Primitive("K", (self._binding(), self._binding()))

    def _prefix(self, depth: int, free: tuple[str, ...]) -> Expression:
        return Apply(Op.PREFIX, (self.make(depth, ()),))

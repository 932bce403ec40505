"""Random COMPOSITE plans and histories, each a function of a seed, in the algebra's own types.

In: a seed and what is wanted. Out: plans as analysis could have made them: `!` stands beside a positive operand, an
open repetition is closed to its right, an absence at the end is bounded, keys are the shared variables. The classes
are A and B without attributes, K (k INT, v INT), L (k INT, v INT), and Z, which is in histories only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from augury.algebra import composite as c
from augury.algebra import scalar as s
from augury.algebra.expression import Anything, Binding, Feed, Primitive, Variable
from augury.algebra.operators import Operator
from augury.analysis.composite import bound_variables, graph_keys
from augury.analysis.references import VariableTable
from augury.diagnostics import Findings
from augury.kernels.reference import Event
from augury.types import INT

SECOND = 1_000_000
Op = c.CompositeOperator
VARIABLES = ("X", "Y")


@dataclass(frozen=True)
class Wanted:
    """What a case may have; `depth` counts operators on top of each other."""

    depth: int = 3
    events: int = 30
    contexts: tuple[c.Context, ...] = tuple(c.Context)
    attributes: bool = True
    masks: bool = True
    within: bool = True
    where: bool = True
    partition: bool = True
    lifespans: bool = True
    timers: bool = True
    windows: bool = True
    negation: bool = True
    bounds: bool = True
    odd_times: bool = True
    wide: bool = False
    """Several absences and open repetitions in one gap; windows, repetitions, negations of more; more variables."""
    alike: bool = False
    """Many operators whose operands are of one class, with a WHERE around: what it refuses may serve elsewhere."""


EVERYTHING = Wanted()
WIDE = Wanted(wide=True)
ALIKE = Wanted(alike=True)
PLAIN = Wanted(
    attributes=False,
    masks=False,
    within=False,
    where=False,
    partition=False,
    lifespans=False,
    timers=False,
    windows=False,
    bounds=False,
    odd_times=False,
)
"""Letters and operators alone, negation among them; events a second apart."""


@dataclass(frozen=True)
class Generated:
    """A plan, a history, lifespans, the chronon, and how far the clock goes."""

    seed: int
    plan: c.CompositePlan
    history: tuple[Event, ...]
    lifespans_us: dict[str, int | None]
    chronon_us: int
    until_us: int


def case(seed: int, wanted: Wanted = EVERYTHING) -> Generated:
    """A case."""
    random = Random(seed)
    made = plan(random, wanted)
    # Combinations grow fast where nothing is used up.
    most = min(wanted.events, 11) if made.context is c.Context.UNRESTRICTED else wanted.events
    events = history(random, random.choice((random.randint(0, most), most)), wanted)
    last = max((event.det_time for event in events), default=0)
    lifespans: dict[str, int | None] = {}
    if wanted.lifespans and random.random() < 0.25:
        lifespans = {name: random.choice((2, 4, 8)) * SECOND for name in random.sample("ABKL", random.randint(1, 4))}
    chronon = random.choice((1, 1, 1, 3)) * SECOND
    return Generated(seed, made, events, lifespans, chronon, last + random.choice((0, 1, 5, 12)) * SECOND)


def cases(first: int, count: int, wanted: Wanted = EVERYTHING) -> Iterator[Generated]:
    """Many of them."""
    for seed in range(first, first + count):
        yield case(seed, wanted)


def plan(random: Random, wanted: Wanted = EVERYTHING) -> c.CompositePlan:
    """A plan whose attributes are its variables."""
    while True:
        expression = _Maker(random, wanted).make(random.choice((1, 2, 2, wanted.depth, wanted.depth)))
        findings = Findings()
        table = _variables(expression)
        keys = graph_keys(expression, table, findings)
        # Try again where a variable stands under several negations only.
        if not findings.has_errors():
            break
    bound = bound_variables(expression, table)
    names = {leaf.event_class for leaf in c.walk(expression) if isinstance(leaf, Primitive)}
    partition = ("k",) if wanted.partition and names <= {"K", "L"} and random.random() < 0.5 else ()
    within = random.choice((2, 4, 9)) * SECOND if wanted.within and random.random() < 0.15 else None
    where = _Maker(random, wanted).test(expression) if wanted.where and random.random() < 0.1 else None
    feeds = tuple(Feed(v.name, s.Field("", v.name, v.type)) for v in bound)
    context = random.choice(wanted.contexts)
    return c.CompositePlan(expression, context, keys, None, partition, None, where, within, feeds)


def _variables(expression: c.Composite) -> VariableTable:
    places: Counter[str] = Counter()
    for leaf in c.walk(expression):
        if isinstance(leaf, Primitive):
            places.update(b.name.casefold() for b in leaf.bindings if isinstance(b, Variable))
    return VariableTable(types={name.casefold(): INT for name in VARIABLES}, places=places)


def history(random: Random, events: int, wanted: Wanted = EVERYTHING) -> tuple[Event, ...]:
    """Events with gaps in `seq`; with odd times some at once, some detected late, some announced."""
    found: list[Event] = []
    seq, det_time = 0, 0
    for _ in range(events):
        seq += random.choice((1, 1, 1, 2))
        det_time = det_time + random.choice((0, 1, 1, 1, 2, 3)) * SECOND if wanted.odd_times else seq * SECOND
        late = random.choice((0, 0, 0, 0, 1, 3, -2)) * SECOND if wanted.odd_times else 0
        letters = "AAABBBKKKLLZ" if wanted.attributes else "AAABBBKKZ"
        name = random.choice("ABKKKKKLLZ" if wanted.alike else letters)
        values = {"k": random.choice((1, 1, 2)), "v": random.choice((0, 1, 2, None))} if name in "KL" else {}
        found.append(Event(seq, name, values, max(0, det_time - late), det_time))
    return tuple(found)


# ---- parts ---------------------------------------------------------------------------------------


def _compared(left: s.Scalar, operator: Operator, right: s.Scalar) -> s.Scalar:
    made = s.apply(operator, (left, right))
    assert isinstance(made, s.Apply)
    return made


MASKS = (
    _compared(s.Field("", "v", INT), Operator.GT, s.Constant(0, INT)),
    _compared(s.Field("", "v", INT), Operator.EQ, s.Constant(1, INT)),
    _compared(s.Field("", "v", INT), Operator.GT, s.Previous("v", 1, INT)),
)


@dataclass(eq=False)
class _Maker:
    random: Random
    wanted: Wanted

    def make(self, depth: int) -> c.Composite:
        if depth == 0 or self.random.random() < 0.08:
            return self.leaf()
        wanted = self.wanted
        often = {self._sequence: 4, self._and: 3, self._or: 2, self._any: 1, self._repeat: 1, self._closed_repeat: 1}
        often |= {self._negation: 4 * wanted.negation, self._window: 2 * wanted.windows}
        often |= {self._gap: 3 * wanted.wide, self._alike: 25 * wanted.alike}
        often |= {self._timer: 2 * wanted.timers, self._bounds: wanted.bounds * 1, self._scope: 1}
        kinds = [kind for kind, times in often.items() for _ in range(times)]
        return self.random.choice(kinds)(depth - 1)

    def leaf(self) -> c.Composite:
        name = self.random.choice("AAABBBKKL" if self.wanted.attributes else "AAABBBK")
        if name in "AB":
            return Primitive(name)
        mask = self.random.choice((None, None, None, None, *MASKS)) if self.wanted.masks else None
        is_bound = self.wanted.attributes and self.random.random() < (0.7 if self.wanted.wide else 0.4)
        return Primitive(name, (self._binding(), self._binding()) if is_bound else (), mask)

    def _binding(self) -> Binding:
        other = Variable(self.random.choice(VARIABLES), INT)
        return self.random.choice((Variable("X", INT), Anything(), Anything(), other, s.Constant(1, INT)))

    def _node(self, operator: Op, *operands: c.Composite) -> c.Composite:
        return c.Node(operator, operands)

    def _sequence(self, depth: int) -> c.Composite:
        return self._node(Op.SEQUENCE, self.make(depth), self.make(depth))

    def _and(self, depth: int) -> c.Composite:
        return self._node(Op.AND, self.make(depth), self.make(depth))

    def _or(self, depth: int) -> c.Composite:
        return self._node(Op.OR, self.make(depth), self.make(depth))

    def _inner(self, depth: int) -> c.Composite:
        """An operand of what multiplies its occurrences."""
        return self.make(min(depth, 1 + (self.wanted.wide and self.random.random() < 0.4)))

    def _any(self, depth: int) -> c.Composite:
        operands = tuple(self.make(min(depth, 1)) for _ in range(self.random.choice((2, 3, 3))))
        return c.AnyOf(self.random.randint(1, len(operands)), operands)

    def _repeat(self, depth: int) -> c.Composite:
        return c.Repeat(self._inner(depth), self.random.choice((1, 2, 2, 3)), False)

    def _closed_repeat(self, depth: int) -> c.Composite:
        many = c.Repeat(self.make(min(depth, 1)), self.random.choice((0, 0, 1, 2)), True)
        left = many if self.random.random() < 0.5 else self._node(Op.SEQUENCE, self.make(depth), many)
        return self._node(Op.SEQUENCE, left, self.make(depth))

    def _negation(self, depth: int) -> c.Composite:
        few = self.random.choice((0, 0, 1))
        never = self._node(Op.NOT, self._inner(depth) if self.wanted.wide else self.make(min(depth, few)))
        kind = self.random.choice(("beside", "before", "leading", "between", "between", "interval"))
        match kind:
            case "beside":
                return self._node(Op.AND, self.make(depth), never)
            case "before":
                return self._node(Op.AND, never, self.make(depth))
            case "leading":
                return self._node(Op.SEQUENCE, never, self.make(depth))
            case "between":
                return self._node(Op.SEQUENCE, self._node(Op.SEQUENCE, self.make(depth), never), self.make(depth))
            case _:
                return c.NotBetween(self.leaf(), self.make(depth), self.make(depth))

    def _gap(self, depth: int) -> c.Composite:
        """A sequence with several absences and open repetitions in one gap, which may lead; with a WHERE in between."""
        made = self.make(depth) if self.random.random() < 0.7 else None
        for _ in range(self.random.choice((1, 2, 2, 3))):
            if self.random.random() < 0.6:
                one: c.Composite = c.Repeat(self.make(min(depth, 1)), self.random.choice((0, 0, 1, 2)), True)
            else:
                one = self._node(Op.NOT, self.make(min(depth, 1)))
            made = one if made is None else self._node(Op.SEQUENCE, made, one)
            if self.wanted.where and made is not one and self.random.random() < 0.2:
                made = c.Scoped(made, None, self.test(made))
        assert made is not None
        return self._node(Op.SEQUENCE, made, self.make(depth))

    def _window(self, depth: int) -> c.Composite:
        gathered = self.random.random() < 0.4
        opening, middle, closing = self._inner(depth), self._inner(depth), self._inner(depth)
        if self.wanted.timers and self.random.random() < 0.4:
            return c.Periodic(opening, self.random.choice((1, 2, 5)) * SECOND, closing, gathered)
        return c.Aperiodic(opening, middle, closing, gathered)

    def _alike(self, depth: int) -> c.Composite:
        """An operator about whose operands a WHERE decides, and one version fits several of them."""
        name = self.random.choice("KKL")
        one, other, third = (Primitive(name, *self._arguments()) for _ in range(3))
        between = self.random.choice((third, self.leaf()))
        period = self.random.choice((1, 2, 2, 5)) * SECOND
        gathered = self.random.random() < 0.7
        made = self.random.choice(
            (
                self._node(Op.SEQUENCE, one, other),
                self._node(Op.AND, one, other),
                self._node(Op.OR, self._node(Op.SEQUENCE, one, other), third),
                c.AnyOf(2, (one, between, other)),
                c.Repeat(one, self.random.choice((2, 3)), False),
                c.NotBetween(self.leaf(), one, other),
                *(c.Aperiodic(one, between, other, gathered),) * 2,
                *(c.Periodic(one, period, other, gathered),) * 3 * self.wanted.timers,
            )
        )
        within = self.random.choice((None, None, 4 * SECOND)) if self.wanted.within else None
        return c.Scoped(made, within, self.test(made))

    def _arguments(self) -> tuple[tuple[Binding, ...], s.Scalar | None]:
        mask = self.random.choice(MASKS) if self.wanted.masks and self.random.random() < 0.15 else None
        return (self._binding(), self._binding()) if self.random.random() < 0.2 else (), mask

    def _timer(self, depth: int) -> c.Composite:
        delay = self.random.choice((0, 1, 2, 4)) * SECOND
        if self.random.random() < 0.5:
            return c.Plus(self.make(depth), delay)
        return c.AbsentFor(self.make(depth), self.make(min(depth, 1)), delay)

    def _bounds(self, depth: int) -> c.Composite:
        low = self.random.choice((None, 3 * SECOND))
        high = self.random.choice((None, 9 * SECOND)) if low is not None else 9 * SECOND
        return c.Bounded(low, high, self.make(depth))

    def _scope(self, depth: int) -> c.Composite:
        operand = self.make(depth)
        is_short = self.wanted.within and self.random.random() < 0.7
        within = self.random.choice((1, 2, 4)) * SECOND if is_short else None
        where = self.test(operand) if self.wanted.where and self.random.random() < 0.5 else None
        return operand if within is None and where is None else c.Scoped(operand, within, where)

    def test(self, operand: c.Composite) -> s.Scalar | None:
        """A WHERE over the attributes of constituents."""
        names = sorted({p.event_class for p in c.walk(operand) if isinstance(p, Primitive)} & {"K", "L"})
        if not names:
            return None
        left = s.Field(self.random.choice(names), "v", INT)
        right = self.random.choice((s.Constant(0, INT), s.Field(self.random.choice(names), "k", INT)))
        return _compared(left, self.random.choice((Operator.GT, Operator.EQ)), right)

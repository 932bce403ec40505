"""From a COMPOSITE plan to its event graph.

A chain of `>` becomes joins, its absences and open repetitions attached to the join in whose gap they stand; WITHIN is
handed down to every node inside it, WHERE to the operators about whose operands it decides. It knows no context.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from augury.algebra import composite as c
from augury.algebra.composite import CompositeOperator as Op
from augury.algebra.expression import Primitive, Variable
from augury.algebra.scalar import Scalar
from augury.graphs import graph as g


class NotYet(NotImplementedError):
    """An expression that has a meaning which this version cannot run; the message says what it is."""


def graph_of(plan: c.CompositePlan) -> g.Graph:
    """The graph of a plan."""
    builder = _built(plan)
    return g.Graph(tuple(builder.nodes), frozenset(builder.free), plan.keys)


def written_of(plan: c.CompositePlan) -> tuple[c.Composite, ...]:
    """For each node of the graph of a plan what was written for it."""
    builder = _built(plan)
    written = builder.written
    for number in range(len(builder.nodes) - 1, -1, -1):
        node = builder.nodes[number]
        if isinstance(node, g.LeafNode):
            written[number] = node.primitive
        # What only helps another node is told as that.
        for operand in g.operands_of(node):
            written.setdefault(operand, written[number])
    return tuple(written[number] for number in range(len(builder.nodes)))


def _built(plan: c.CompositePlan) -> _Builder:
    builder = _Builder(frozenset(v.name for v in plan.keys))
    builder.node(plan.expression, _Inside(plan.within_us, () if plan.where is None else (plan.where,)))
    return builder


@dataclass(frozen=True, slots=True)
class _Inside:
    """What holds around an expression: WITHIN reaches everything inside, `wheres` only the next operator."""

    within_us: int | None = None
    wheres: tuple[Scalar, ...] = ()
    equal: tuple[str, ...] = ()
    is_free: bool = False

    @property
    def inner(self) -> _Inside:
        return replace(self, wheres=())


@dataclass(slots=True)
class _Builder:
    keys: frozenset[str]
    nodes: list[g.GraphNode] = field(default_factory=list)
    free: set[int] = field(default_factory=set)
    leaves: list[Primitive] = field(default_factory=list)
    written: dict[int, c.Composite] = field(default_factory=dict)

    def add(self, node: g.GraphNode, inside: _Inside) -> int:
        self.nodes.append(node)
        if inside.is_free:
            self.free.add(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def node(self, expression: c.Composite, inside: _Inside) -> int:
        """Append the nodes of an expression; the number of the last, which is the whole."""
        number = self._node(expression, inside)
        self.written.setdefault(number, expression)
        return number

    def _node(self, expression: c.Composite, inside: _Inside) -> int:
        match expression:
            case Primitive():
                return self._filtered(self._leaf(expression, inside), inside)
            case c.Node(operator=Op.OR, operands=operands):
                return self.add(g.EitherNode(tuple(self.node(one, inside) for one in operands)), inside)
            case c.Node(operator=Op.AND, operands=operands):
                return self._and(operands, inside)
            case c.Node(operator=Op.SEQUENCE) | c.NotBetween():
                return self._chain(expression, inside)
            case c.AnyOf(count=count, operands=operands):
                return self._join(operands, count, inside)
            case c.Repeat(open=True):
                raise NotYet("an open repetition that nothing to its right closes")
            case c.Repeat(operand=operand, count=count):
                first = len(self.leaves)
                of = self.node(operand, inside.inner)
                return self.add(g.RepeatNode(of, count, self._scope(inside, first)), inside)
            case c.Aperiodic(opening=opening, middle=middle, closing=closing, gathered=gathered):
                first = len(self.leaves)
                begin, between, end = (self.node(one, inside.inner) for one in (opening, middle, closing))
                scope = self._scope(inside, first)
                return self.add(g.AperiodicNode(begin, between, end, gathered, scope), inside)
            case c.Periodic(gathered=True):
                # Its occurrence has two operands, the closing among them.
                return self._periodic(expression, inside)
            case c.Scoped(operand=operand, within_us=within, where=where):
                shorter = [one for one in (within, inside.within_us) if one is not None]
                wheres = inside.wheres if where is None else (*inside.wheres, where)
                return self.node(operand, replace(inside, within_us=min(shorter, default=None), wheres=wheres))
            case c.Node():
                raise NotYet("an absence with nothing positive beside it")
            case _:
                return self._filtered(self._timed(expression, inside.inner), inside)

    def _timed(self, expression: c.Composite, inside: _Inside) -> int:
        match expression:
            case c.Bounded(low_us=low, high_us=high, operand=operand):
                return self.add(g.BoundedNode(self.node(operand, inside), low, high), inside)
            case c.Plus(operand=operand, delay_us=delay):
                return self.add(g.PlusNode(self.node(operand, inside), delay), inside)
            case c.AbsentFor(opening=opening, absent=absent, within_us=delay):
                first = len(self.leaves)
                of = self.node(opening, inside)
                # How long it must not come is said already: no WITHIN around it cuts it short.
                never = self._absent(absent, replace(inside, within_us=None))
                scope = replace(self._scope(inside, first), within_us=None)
                return self.add(g.AbsentForNode(of, never, delay, scope), inside)
            case c.Periodic():
                return self._periodic(expression, inside)
            case _:
                raise AssertionError(f"no timed expression: {expression}")

    def _periodic(self, expression: c.Periodic, inside: _Inside) -> int:
        first = len(self.leaves)
        parts = self.node(expression.opening, inside.inner), self.node(expression.closing, inside.inner)
        scope = self._scope(inside, first)
        return self.add(g.PeriodicNode(*parts, expression.period_us, expression.gathered, scope), inside)

    def _leaf(self, leaf: Primitive, inside: _Inside) -> int:
        self.leaves.append(leaf)
        return self.add(g.LeafNode(leaf, len(self.leaves) - 1), inside)

    def _filtered(self, node: int, inside: _Inside) -> int:
        return self.add(g.FilterNode(node, g.Scope(None, inside.wheres)), inside) if inside.wheres else node

    def _scope(self, inside: _Inside, first_leaf: int) -> g.Scope:
        """The scope of a node whose leaves are those from one on; several versions may stand at one leaf."""
        equal = []
        for name in inside.equal:
            group = tuple(
                (leaf, at)
                for leaf in range(first_leaf, len(self.leaves))
                for at, binding in enumerate(self.leaves[leaf].bindings)
                if isinstance(binding, Variable) and binding.name == name
            )
            if group:
                equal.append(group)
        return g.Scope(inside.within_us, inside.wheres, tuple(equal))

    def _absent(self, expression: c.Composite, inside: _Inside) -> int:
        """What must not be: it finds everything, and binds the variables that stand nowhere else."""
        places: Counter[str] = Counter()
        for leaf in c.walk(expression):
            if isinstance(leaf, Primitive):
                places.update({b.name for b in leaf.bindings if isinstance(b, Variable)})
        own = tuple(name for name, times in places.items() if times > 1 and name not in self.keys)
        equal = (*inside.equal, *(name for name in own if name not in inside.equal))
        return self.node(expression, _Inside(inside.within_us, (), equal, True))

    # ---- & and ANY --------------------------------------------------------------------------------

    def _join(self, operands: tuple[c.Composite, ...], needed: int, inside: _Inside) -> int:
        first = len(self.leaves)
        slots = tuple(self.node(one, inside.inner) for one in operands)
        return self.add(g.JoinNode(slots, needed, False, (), (), self._scope(inside, first)), inside)

    def _and(self, operands: tuple[c.Composite, ...], inside: _Inside) -> int:
        positive = [one for one in operands if not _is_absence(one)]
        if len(positive) == len(operands):
            return self._join(operands, len(operands), inside)
        if len(positive) != 1:
            raise NotYet("an absence with nothing positive beside it")
        first = len(self.leaves)
        parts: list[int] = []
        absent: list[int] = []
        # Leaves are numbered as they are written, on whichever side the absence stands.
        for one in operands:
            if isinstance(one, c.Node) and _is_absence(one):
                absent.append(self._absent(one.operands[0], inside))
            else:
                parts.append(self.node(one, inside.inner))
        return self._guarded(parts[0], absent, False, inside, first)

    def _guarded(self, operand: int, absent: list[int], before: bool, inside: _Inside, first: int) -> int:
        return self.add(g.GuardNode(operand, tuple(absent), before, self._scope(inside, first)), inside)

    # ---- > ----------------------------------------------------------------------------------------

    def _chain(self, expression: c.Composite, inside: _Inside) -> int:
        """Joins from left to right; what stands between two positive parts belongs to their join."""
        items, wheres = chain_of(expression)
        inside = replace(inside, wheres=(*inside.wheres, *wheres))
        positive = [i for i, one in enumerate(items) if not ends_open(one)]
        if not positive or positive[-1] != len(items) - 1:
            raise NotYet("a sequence whose end nothing closes")
        first = len(self.leaves)
        found: int | None = None
        before = -1
        for i in positive:
            scoped = inside if i == positive[-1] else inside.inner
            found = self._link(found, items[before + 1 : i], items[i], scoped, first, len(positive) == 1)
            if 0 < i < len(items) - 1:
                span = items[0].span.to(items[i].span)
                self.written.setdefault(found, c.Node(Op.SEQUENCE, tuple(items[: i + 1]), span))
            before = i
        assert found is not None
        return found

    def _link(
        self, left: int | None, gap: list[c.Composite], right: c.Composite, inside: _Inside, first: int, alone: bool
    ) -> int:
        absent: list[int] = []
        middles: list[g.Middle] = []
        for one in gap:
            if isinstance(one, c.Repeat):
                middles.append(g.Middle(self.node(one.operand, inside.inner), one.count))
            else:
                assert isinstance(one, c.Node), "between stand absences and open repetitions"
                absent.append(self._absent(one.operands[0], inside))
        leads = left is None and not gap
        # The first of a chain is an operand like any other; alone it has what stands around the chain.
        end = self.node(right, inside if leads and alone else inside.inner)
        if leads:
            return end
        if left is None and not middles:
            return self._guarded(end, absent, True, inside, first)
        slots = (end,) if left is None else (left, end)
        scope = self._scope(inside, first)
        return self.add(g.JoinNode(slots, len(slots), True, tuple(absent), tuple(middles), scope), inside)


def chain_of(expression: c.Composite) -> tuple[list[c.Composite], tuple[Scalar, ...]]:
    """The parts of a sequence, from left to right, and the WHERE inside it; parentheses stay, unless they end open."""
    match expression:
        case c.Node(operator=Op.SEQUENCE, operands=operands):
            parts = [chain_of(one) if ends_open(one) else ([one], ()) for one in operands]
            return [item for items, _ in parts for item in items], tuple(w for _, wheres in parts for w in wheres)
        case c.NotBetween(absent=absent, opening=opening, closing=closing):
            # Written before its opening, but between the two.
            return [opening, c.Node(Op.NOT, (absent,)), closing], ()
        case c.Scoped(operand=operand, where=where):
            items, wheres = chain_of(operand)
            return items, wheres if where is None else (*wheres, where)
        case _:
            return [expression], ()


def ends_open(expression: c.Composite) -> bool:
    """Whether something has to follow before it can take place: it ends with an absence, or with an open repetition."""
    match expression:
        case c.Node(operator=Op.NOT) | c.Repeat(open=True):
            return True
        case c.Node(operator=Op.SEQUENCE, operands=(_, right)):
            return ends_open(right)
        case c.Scoped(operand=operand, within_us=None):
            return ends_open(operand)
        case _:
            return False


def _is_absence(expression: c.Composite) -> bool:
    return isinstance(expression, c.Node) and expression.operator is Op.NOT

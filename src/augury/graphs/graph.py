"""An event graph: nodes numbered in post-order, each knowing its operands by number.

Plain frozen data, made by `build`. Negations are absences of the node they guard; WITHIN and WHERE stand at the nodes
that they decide about. Times are microseconds. It knows neither contexts nor events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from augury.algebra.expression import Anything, Binding, Primitive, Variable
from augury.algebra.scalar import Constant, Scalar, dump
from augury.clock import show_duration, show_time


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds of every occurrence of a node: no longer than `within_us`, every one of `wheres`, equal values.

    Each group of `equal` has places (leaf, attribute) whose values are equal wherever they are bound.
    """

    within_us: int | None = None
    wheres: tuple[Scalar, ...] = ()
    equal: tuple[tuple[tuple[int, int], ...], ...] = ()


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A version that fits a class with its arguments and mask; `leaf` counts them from left to right."""

    primitive: Primitive
    leaf: int


@dataclass(frozen=True, slots=True)
class EitherNode:
    """An occurrence of any of the sides."""

    sides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Middle:
    """All occurrences of a node that lie before the last slot and after the first, at least `count`."""

    node: int
    count: int


@dataclass(frozen=True, slots=True)
class JoinNode:
    """One occurrence of `needed` of the slots; `ordered`: one after the other, with no absence between.

    An ordered one with one slot leads: its absences and middles come before it.
    """

    slots: tuple[int, ...]
    needed: int
    ordered: bool
    absences: tuple[int, ...]
    middles: tuple[Middle, ...]
    scope: Scope


@dataclass(frozen=True, slots=True)
class GuardNode:
    """The operand, if none of `absences` came since the last firing; `before`: before the operand began."""

    operand: int
    absences: tuple[int, ...]
    before: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class RepeatNode:
    """Every `count`-th of the operand, with those."""

    operand: int
    count: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class BoundedNode:
    """The operand, if its occ_time lies in [low, high]."""

    operand: int
    low_us: int | None
    high_us: int | None


@dataclass(frozen=True, slots=True)
class FilterNode:
    """The operand, where the scope holds."""

    operand: int
    scope: Scope


@dataclass(frozen=True, slots=True)
class PlusNode:
    """A timer `delay_us` after each operand."""

    operand: int
    delay_us: int


@dataclass(frozen=True, slots=True)
class AbsentForNode:
    """A timer `delay_us` after each operand, if no `absent` came between."""

    operand: int
    absent: int
    delay_us: int
    scope: Scope = Scope()


@dataclass(frozen=True, slots=True)
class AperiodicNode:
    """Each middle between opening and closing; `gathered`: once, at the closing, with all of them."""

    opening: int
    middle: int
    closing: int
    gathered: bool
    scope: Scope


@dataclass(frozen=True, slots=True)
class PeriodicNode:
    """A timer every `period_us` from opening to closing; `gathered`: once, at the closing."""

    opening: int
    closing: int
    period_us: int
    gathered: bool
    scope: Scope


GraphNode = (
    LeafNode
    | EitherNode
    | JoinNode
    | GuardNode
    | RepeatNode
    | BoundedNode
    | FilterNode
    | PlusNode
    | AbsentForNode
    | AperiodicNode
    | PeriodicNode
)


def operands_of(node: GraphNode) -> tuple[int, ...]:
    """The nodes that a node reads, absences last."""
    match node:
        case LeafNode():
            return ()
        case EitherNode(sides=sides):
            return sides
        case JoinNode(slots=slots, middles=middles, absences=absences):
            return (*slots, *(middle.node for middle in middles), *absences)
        case RepeatNode(operand=one) | BoundedNode(operand=one) | FilterNode(operand=one) | PlusNode(operand=one):
            return (one,)
        case GuardNode(operand=one, absences=absences):
            return (one, *absences)
        case AbsentForNode(operand=one, absent=absent):
            return (one, absent)
        case AperiodicNode(opening=opening, middle=middle, closing=closing):
            return (opening, middle, closing)
        case PeriodicNode(opening=opening, closing=closing):
            return (opening, closing)
        case _:
            assert_never(node)


def absences_of(node: GraphNode) -> tuple[int, ...]:
    """The nodes that a node wants not to take place."""
    match node:
        case JoinNode(absences=absences) | GuardNode(absences=absences):
            return absences
        case AbsentForNode(absent=absent):
            return (absent,)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in post-order: the last is the whole. `free` are those below a negation, which find everything."""

    nodes: tuple[GraphNode, ...]
    free: frozenset[int]
    keys: tuple[Variable, ...]

    @property
    def root(self) -> int:
        """The number of the whole expression."""
        return len(self.nodes) - 1

    @property
    def leaves(self) -> tuple[Primitive, ...]:
        """The leaves from left to right, negated ones among them."""
        found = sorted((n.leaf, i) for i, n in enumerate(self.nodes) if isinstance(n, LeafNode))
        return tuple(node.primitive for _, i in found if isinstance(node := self.nodes[i], LeafNode))

    def below(self, node: int) -> Iterator[int]:
        """A node and all that it is made of."""
        yield node
        for operand in operands_of(self.nodes[node]):
            yield from self.below(operand)

    def dump(self) -> str:
        """A line a node."""
        wide = len(str(self.root))
        lines = []
        for number, node in enumerate(self.nodes):
            free = "  (every one)" if number in self.free else ""
            lines.append(f"{number:>{wide}}  {shown(node)}{free}")
        if self.keys:
            lines.append(f"a graph per value of {', '.join(v.name for v in self.keys)}")
        return "\n".join(lines) + "\n"

    def to_dot(self) -> str:
        """The graph for Graphviz: operands point to what reads them, absences with dashes."""
        lines = ["digraph composite {", "  rankdir=BT;", "  node [shape=box];"]
        for number, node in enumerate(self.nodes):
            label = shown(node).replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'  n{number} [label="{label}"];')
            absent = absences_of(node)
            for operand in operands_of(node):
                lines.append(f"  n{operand} -> n{number}{' [style=dashed]' if operand in absent else ''};")
        return "\n".join([*lines, "}"]) + "\n"

    def fingerprint(self) -> str:
        """The same for graphs that differ only in the names of classes and variables, as far as they stand apart."""
        names: dict[str, str] = {}

        def named(kind: str, name: str) -> str:
            return names.setdefault(f"{kind} {name.casefold()}", f"{kind}{len(names)}")

        text = []
        for number, node in enumerate(self.nodes):
            if isinstance(node, LeafNode):
                leaf = node.primitive
                bound = [named("v", b.name) if isinstance(b, Variable) else _binding(b) for b in leaf.bindings]
                mask = "" if leaf.mask is None else dump(leaf.mask)
                text.append(f"{named('c', leaf.event_class)}({', '.join(bound)})[{mask}]")
            else:
                text.append(shown(node))
            text.append("free" if number in self.free else "")
        text += [named("v", v.name) + str(v.type) for v in self.keys]
        return hashlib.sha256("\n".join(text).encode()).hexdigest()


def shown(node: GraphNode) -> str:
    """A node on a line."""
    match node:
        case LeafNode(primitive=p, leaf=leaf):
            arguments = f"({', '.join(map(_binding, p.bindings))})" if p.bindings else ""
            return f"leaf {leaf}: {p.event_class}{arguments}{'' if p.mask is None else f'[{dump(p.mask)}]'}"
        case EitherNode(sides=sides):
            return f"either {_list(sides)}"
        case JoinNode():
            return _shown_join(node)
        case GuardNode(operand=operand, absences=absences, before=before, scope=scope):
            return f"{operand} if no {' and no '.join(map(str, absences))}{' before' if before else ''}{_scope(scope)}"
        case RepeatNode(operand=operand, count=count, scope=scope):
            return f"every {count} of {operand}{_scope(scope)}"
        case BoundedNode(operand=operand, low_us=low, high_us=high):
            since = "" if low is None else f" from {show_time(low)}"
            return f"{operand}{since}{'' if high is None else f' to {show_time(high)}'}"
        case FilterNode(operand=operand, scope=scope):
            return f"{operand}{_scope(scope)}"
        case PlusNode(operand=operand, delay_us=delay):
            return f"{operand} + {show_duration(delay)}"
        case AbsentForNode(operand=operand, absent=absent, delay_us=delay, scope=scope):
            return f"{operand} + {show_duration(delay)} if no {absent} between{_scope(scope)}"
        case AperiodicNode(opening=opening, middle=middle, closing=closing, gathered=gathered, scope=scope):
            star = "all" if gathered else "each"
            return f"{star} {middle} from {opening} to {closing}{_scope(scope)}"
        case PeriodicNode(opening=opening, closing=closing, period_us=period, gathered=gathered, scope=scope):
            star = "once, if " if gathered else ""
            return f"{star}every {show_duration(period)} from {opening} to {closing}{_scope(scope)}"
        case _:
            assert_never(node)


def _shown_join(node: JoinNode) -> str:
    parts = " then ".join(map(str, node.slots)) if node.ordered else _list(node.slots)
    few = f"{node.needed} of " if node.needed < len(node.slots) else ""
    where = "before" if len(node.slots) == 1 else "between"
    middles = "".join(f", with all {m.node} {where}{f' (at least {m.count})' if m.count else ''}" for m in node.middles)
    absent = "".join(f", no {a} {where}" for a in node.absences)
    return f"join {few}{parts}{middles}{absent}{_scope(node.scope)}"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _scope(scope: Scope) -> str:
    within = "" if scope.within_us is None else f" within {show_duration(scope.within_us)}"
    equal = "".join(f" equal {' '.join(f'{leaf}.{at}' for leaf, at in group)}" for group in scope.equal)
    return within + "".join(f" where {dump(one)}" for one in scope.wheres) + equal


def _binding(binding: Binding) -> str:
    match binding:
        case Variable(name=name):
            return name
        case Constant():
            return dump(binding)
        case Anything():
            return "_"

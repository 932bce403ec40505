"""What sentences about a COMPOSITE that did not take place have in common, whatever its context.

In: a history, the key of a graph, and the place that somebody asks about. Out: texts of operands and occurrences, and
why two operands do not go together. It runs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from augury.algebra.composite import Repeat
from augury.algebra.expression import Anything, Primitive, Variable
from augury.algebra.scalar import Constant, Field, dump, leaves
from augury.clock import show_duration, show_time
from augury.diagnostics import NOWHERE, Span
from augury.event import key_of
from augury.graphs import graph as g
from augury.kernels.batch import NO_SEQ
from augury.kernels.composite.inline import inline, negated
from augury.kernels.composite.joins import going
from augury.kernels.composite.occurrence import Occ, Point, Version, merged
from augury.kernels.composite.past import Past, point_of
from augury.kernels.composite.state import Key
from augury.kernels.match.leaves import true_rows
from augury.kernels.told import value_text, with_article


@dataclass(frozen=True, slots=True)
class Failure:
    """The part to blame, a sentence, and how far the evaluation got: the number of a node, then a rank.

    `is_other` says that what comes is of another class, or no event at all, and no more.
    """

    part: str
    span: Span
    sentence: str
    near: int
    rank: int = 0
    is_other: bool = False


# How far two operands got before they turned out not to go together.
ORDER, GONE, SHARED, BETWEEN, TOO_LONG, UNTRUE = range(6)


def furthest(failures: Iterable[Failure]) -> Failure:
    """Of ways to fail the one that got furthest; of equal ones the first."""
    return max(failures, key=how_far)


def how_far(failure: Failure) -> tuple[bool, int, int]:
    """What compares ways to fail."""
    return not failure.is_other, failure.near, failure.rank


@dataclass(slots=True)
class Asked:
    """A place in the history of a key: a version, or the clock at a time."""

    past: Past
    key: Key
    place: int | None
    """The row of the version; None for the clock."""
    point: Point
    """The step in question; where the clock has none, a point after all that happens at its time."""
    tick: int
    """The last tick that has purged by then."""
    source: str | None

    # ---- words ------------------------------------------------------------------------------------

    @property
    def graph(self) -> g.Graph:
        """The graph in question."""
        return self.past.graph

    @property
    def here(self) -> str:
        """The place in question."""
        return show_time(self.point[0]) if self.place is None else self.seq(self.place)

    def seq(self, place: int) -> str:
        """A version, by its `seq`; an event of the clock by its time."""
        seq = int(self.past.batch.seq[place])
        return str(seq) if seq > NO_SEQ else show_time(int(self.past.batch.det_time[place]))

    def at(self, point: Point) -> str:
        """Where something began or ended."""
        return self.seq(point[2]) if point[1] == 1 and point[3] == 0 else show_time(point[0])

    def text(self, number: int) -> str:
        """A node as it was written."""
        return inline(self.past.written[number], self.source)

    def named(self, number: int, one: Occ) -> str:
        """An occurrence of a node: where it ended, and its versions if these are more."""
        seqs = ", ".join(self.seq(place) for place in one.places)
        end = self.at(one.end)
        return f"{self.text(number)} at {end}{'' if seqs == end else f' (with {seqs})'}"

    def blame(self, number: int, sentence: str, rank: int = 0) -> Failure:
        """A node to blame."""
        return Failure(self.text(number), self.past.written[number].span, sentence, number, rank)

    def blame_absent(self, number: int, absent: int, sentence: str) -> Failure:
        """A negated operand of a node to blame: it was there."""
        written = self.past.written[absent]
        return Failure(negated(written, self.source), written.span, sentence, number, BETWEEN)

    def never(self, number: int) -> Failure:
        """Something that never took place."""
        return self.blame(number, f"no {self.text(number)} took place before {self.here}")

    # ---- leaves -----------------------------------------------------------------------------------

    def misfit(self, number: int) -> Failure:
        """Why the event in question does not stand at a leaf."""
        node = self.graph.nodes[number]
        assert isinstance(node, g.LeafNode)
        leaf = node.primitive
        if self.place is None:
            sentence = f"no event arrives at {self.here}, so no {self.text(number)}"
            return replace(self.blame(number, sentence), is_other=True)
        name = self.past.event_class(self.place).name
        if key_of(name) != key_of(leaf.event_class):
            sentence = f"the event at {self.here} is {with_article(name)}, not {with_article(leaf.event_class)}"
            return replace(self.blame(number, sentence), is_other=True)
        return self.blame(number, self._unfit(leaf, name))

    def _unfit(self, leaf: Primitive, name: str) -> str:
        assert self.place is not None
        attributes = self.past.event_class(self.place).attributes
        the = f"the {name} at {self.here}"
        for i, binding in enumerate(leaf.bindings):
            alone = tuple(b if j == i else Anything() for j, b in enumerate(leaf.bindings))
            if isinstance(binding, Constant) and not self._is_true(replace(leaf, bindings=alone, mask=None)):
                value = value_text(self.past.value(self.place, i))
                return f"{the} has {attributes[i].name} = {value}, not {value_text(binding)}"
        if leaf.mask is not None and not self._is_true(replace(leaf, bindings=())):
            fields = dict.fromkeys(f for f in leaves(leaf.mask) if isinstance(f, Field))
            seen = ", ".join(f"{f.name} = {value_text(self.past.value(self.place, f.name))}" for f in fields)
            return f"[{dump(leaf.mask)}] is not TRUE for {the}{f' with {seen}' if seen else ''}"
        known = dict(self.past.shown_key(self.key))
        for i, binding in enumerate(leaf.bindings):
            if isinstance(binding, Variable):
                value = value_text(self.past.value(self.place, i))
                wanted = known.setdefault(binding.name, value)
                if wanted != value:
                    return f"{the} has {attributes[i].name} = {value}, where {binding.name} is {wanted}"
        return f"{the} is no {inline(leaf, self.source)}"

    def _is_true(self, leaf: Primitive) -> bool:
        return self.place in true_rows(leaf, self.past.rows(), {})

    def none_of(self, whole: int, failures: Sequence[Failure]) -> Failure:
        """Why none of some operands took place here: all in one sentence, if the event is just of another class."""
        texts = list(dict.fromkeys(failure.part for failure in failures))
        if len(texts) > 1 and all(failure.is_other for failure in failures):
            others = f"neither {texts[0]} nor {texts[1]}" if len(texts) == 2 else f"none of {', '.join(texts)}"
            if self.place is None:
                sentence = f"no event arrives at {self.here}, so {others}"
            else:
                name = with_article(self.past.event_class(self.place).name)
                sentence = f"the event at {self.here} is {name}, {others}"
            return replace(self.blame(whole, sentence), near=failures[-1].near, is_other=True)
        return furthest(failures)

    # ---- operands ---------------------------------------------------------------------------------

    def too_long(self, number: int, scope: g.Scope, names: Sequence[str], occs: Sequence[Occ]) -> Failure | None:
        """Why WITHIN does not let operands go together."""
        within = scope.within_us
        span = max(one.most for one in occs) - min(one.least for one in occs)
        if within is None or span <= within:
            return None
        what = f"WITHIN {show_duration(within)}"
        if len(occs) == 1:
            sentence = f"{names[0]} takes {show_duration(span)}, more than {what} allows"
        else:
            sentence = f"{' and '.join(names)} are {show_duration(span)} apart, more than {what} allows"
        return Failure(what, self.past.written[number].span, sentence, number, TOO_LONG)

    def untrue(self, number: int, scope: g.Scope, names: Sequence[str], occs: Sequence[Occ]) -> Failure | None:
        """Which WHERE does not hold of operands, and what it saw."""
        made = merged(occs)
        if made is None:
            return None
        tests = self.past.detector.tests
        for where in scope.wheres:
            if not tests.passes(g.Scope(None, (where,)), made):
                fields = {leaf for leaf in leaves(where) if isinstance(leaf, Field)}
                seen = ", ".join(
                    f"{dump(f)} = {value_text(Constant(tests.value(f, made), f.type))}"
                    for f in sorted(fields, key=lambda f: dump(where).find(dump(f)))
                )
                part = f"WHERE {dump(where)}"
                sentence = f"{part} is not TRUE for {' and '.join(names)}{f', with {seen}' if seen else ''}"
                span = self.past.written[number].span if where.span == NOWHERE else where.span
                return Failure(part, span, sentence, number, UNTRUE)
        return None

    def gathered(
        self, number: int, node: g.JoinNode, between: Sequence[Sequence[Occ]], names: Sequence[str], occs: Sequence[Occ]
    ) -> list[Occ] | Failure:
        """What open repetitions gather of all that came between, those of the leftmost first; or which has too few."""
        found: list[Occ] = []
        for middle, came in zip(node.middles, between, strict=True):
            new = going(came, [*occs, *found], node.scope, self.past.detector.tests, None)
            if len(new) < middle.count:
                where = f"between {names[0]} and {names[1]}" if len(names) == 2 else f"before {names[0]}"
                count = f"only {len(new)}" if new else "no"
                that = " that goes with the others" if len(new) < len(came) else ""
                needed = f"{middle.count} {'is' if middle.count == 1 else 'are'} needed"
                sentence = f"{count} {self.text(middle.node)}{that} took place {where}, and {needed}"
                written = self.past.written[middle.node]
                return Failure(inline(Repeat(written, middle.count, True)), written.span, sentence, number, SHARED)
            found += new
        return found

    def expired(self, number: int, operand: int, one: Occ) -> Failure:
        """An operand whose lifespan has ended."""
        sentence = f"{self.named(operand, one)} expired at {show_time(one.until)}"
        return replace(self.blame(operand, sentence, GONE), near=number)

    def version_here(self) -> Version | None:
        """The version in question, if it stands at any leaf."""
        return next((v for v, _ in self.past.standing(self.key) if v.place == self.place), None)

    def is_here(self, one: Occ) -> bool:
        """Whether something took place at the step in question."""
        return one.end == self.point


def point_of_place(past: Past, place: int) -> Point:
    """The step of a version, whether it stands at a leaf or not."""
    version = next((version for version, _ in past.arrived if version.place == place), None)
    return (int(past.batch.det_time[place]), 1, place, 0) if version is None else point_of(version)

"""Why a COMPOSITE took place: its constituents with the part that each satisfies, what the clock did, what stayed away.

In: a plan, a batch in the order of its history, and an occurrence. Out: a value that reads as text. The graph of the
occurrence's key is run once more up to it; how its operators were satisfied is read off a run over its versions alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from augury.algebra.composite import CompositePlan, Context
from augury.algebra.scalar import Field
from augury.event import key_of
from augury.graphs import graph as g
from augury.kernels.batch import NO_SEQ, Batch
from augury.kernels.composite.giving import constituents as constituents_of
from augury.kernels.composite.inline import inline
from augury.kernels.composite.network import Network, leaf_nodes
from augury.kernels.composite.occurrence import BEFORE_ALL, Now, Occ, Point, merged, single
from augury.kernels.composite.past import END, Past, Trace, detected, joined, names_all, past_of, steps, traced, up_to
from augury.kernels.composite.state import Key
from augury.kernels.composite.unrestricted import Unrestricted
from augury.kernels.told import Absence, Constituent, Instant, NotAnOccurrence, Timer, Why


def why(
    plan: CompositePlan,
    batch: Batch,
    seq: int | None,
    constituents: Sequence[int] | None = None,
    values: Mapping[str, object] | None = None,
    *,
    occ_time: int | None = None,
    det_time: int | None = None,
    source: str | None = None,
    chronon_us: int = 1_000_000,
) -> Why:
    """The occurrence at `seq` that has just these constituents; without them, the first one there.

    One that the clock completed has no `seq`, but a `det_time`; `occ_time` and `values`, attributes of the occurrence,
    tell apart those that are otherwise alike. `source` is the text of the program, from which parts are cited. Raises
    `NotAnOccurrence`, and `NotYet` for what cannot be run.
    """
    if seq is not None:
        batch = up_to(batch, seq)
        det_time = int(batch.det_time[-1]) if len(batch) else 0
    assert det_time is not None, "what the clock completes has a time"
    if constituents is None:
        constituents = _first(plan, batch, seq, det_time, chronon_us)
    past = past_of(plan, batch, chronon_us)
    found = [
        one
        for key in _keys(past, frozenset(constituents))
        for one in _found(past, key, (det_time, END, 0, 0))
        if constituents_of(one.occ) == sorted(constituents)
        and one.seq == seq
        and (seq is not None or one.now.point[0] == det_time)
        and (occ_time is None or one.occ.occ_time == occ_time)
    ]
    if not found:
        raise NotAnOccurrence(f"there is no occurrence {_place(seq, det_time)} with {list(constituents)}")
    chosen = next((one for one in found if _fits(past, one.occ, values or {})), found[0])
    return _Telling(past, chosen, source).told()


def _place(seq: int | None, det_time: int) -> str:
    return f"at {Instant(seq, det_time)}" if seq is None else f"at {seq}"


def _first(plan: CompositePlan, batch: Batch, seq: int | None, det_time: int, chronon_us: int) -> Sequence[int]:
    """The constituents of the first occurrence that the kernel finds there."""
    found = detected(plan, batch, chronon_us, det_time)
    columns = zip(found.seq.tolist(), found.det_time.tolist(), found.constituents.to_pylist(), strict=True)
    for at, time, constituents in columns:
        if (at == seq) if seq is not None else (at <= NO_SEQ and time == det_time):
            return list(constituents)
    raise NotAnOccurrence(f"there is no occurrence {_place(seq, det_time)}")


def _keys(past: Past, constituents: frozenset[int]) -> list[Key]:
    """The keys whose values some of the constituents name between them, those with most values first."""
    bounds = dict.fromkeys(
        bound
        for version, groups in past.arrived
        if constituents.issuperset((version.seq,) if version.constituents is None else version.constituents)
        for bound, _ in groups
    )
    keys: dict[Key, None] = {}
    for bound in bounds:
        more = [bound, *(both for key in keys if (both := joined(key, bound)) is not None)]
        keys |= dict.fromkeys(more)
    return sorted(keys, key=lambda key: tuple(-number for number in key[1:]))


@dataclass(frozen=True, slots=True)
class Found:
    """An occurrence in the graph of a key: its step, the version if one completed it, and where nodes had fired."""

    key: Key
    now: Now
    seq: int | None
    fired: tuple[Point, ...]
    occ: Occ


def _found(past: Past, key: Key, until: Point) -> Iterator[Found]:
    evaluation = past.evaluation()
    state = evaluation.empty()
    for now, arriving in steps(state, past.standing(key), until, past.chronon_us):
        fired = tuple(node.fired for node in state.nodes)
        for one in evaluation.step(state, now, arriving):
            if names_all(past, key, one):
                seq = arriving[0][1].seq if arriving else NO_SEQ
                yield Found(key, now, seq if seq > NO_SEQ else None, fired, one)


def _fits(past: Past, one: Occ, values: Mapping[str, object]) -> bool:
    """Whether variables have the values that they feed; one that is not bound is NULL."""
    bound = {key_of(name): constant.value for name, constant in past.bound(one)}
    return all(
        bound.get(key_of(feed.value.name)) == values[feed.attribute]
        for feed in past.detector.plan.feeds
        if isinstance(feed.value, Field) and not feed.value.scope and feed.attribute in values
    )


# ---- telling -------------------------------------------------------------------------------------

Operands = Mapping[int, Sequence[Occ]]
"""For each operand of a node that takes part its occurrences: several where all are gathered."""


class _Telling:
    def __init__(self, past: Past, found: Found, source: str | None) -> None:
        self.past, self.found, self.source = past, found, source
        self.below = [frozenset(past.graph.below(number)) for number in range(len(past.graph.nodes))]
        self.leaf_of = leaf_nodes(past.graph)
        self.own = self._own()
        free = Network(past.graph, Unrestricted(), past.detector.tests, past.graph.free)
        self.absent = traced(free, past, past.standing(found.key), found.now.point).found

    def _own(self) -> Trace:
        """What the versions of the occurrence, each at its leaf, make by themselves."""
        context = self.past.detector.plan.context
        # RECENT looks at the whole at once; of so few versions every combination says the same.
        network = self.past.evaluation(Context.UNRESTRICTED if context is Context.RECENT else context)
        assert isinstance(network, Network), "all contexts but RECENT work node by node"
        standing = [(version, (leaf,)) for version, leaf in self.found.occ.parts]
        return traced(network, self.past, standing, self.found.now.point)

    def told(self) -> Why:
        past, occ = self.past, self.found.occ
        events = [
            Constituent(
                version.seq,
                past.event_class(version.place).name,
                past.event(version.place),
                version.occ_time,
                (inline(past.graph.leaves[leaf], self.source),),
                (version.seq,) if version.constituents is None else version.constituents,
            )
            for version, leaf in occ.parts
        ]
        timers: list[tuple[Point, Timer]] = []
        absences: list[Absence] = []
        for number, one, operands in self.derived(past.graph.root, occ):
            node = past.graph.nodes[number]
            if isinstance(node, g.PlusNode | g.AbsentForNode) or (
                isinstance(node, g.PeriodicNode) and not node.gathered
            ):
                timers.append((one.end, Timer(self.text(number), one.occ_time, one.det_time)))
            absences += self.stayed_away(number, node, one, operands)
        in_order = dict.fromkeys(timer for _, timer in sorted(timers, key=lambda entry: entry[0]))
        return Why(self.found.seq, tuple(events), past.bound(occ), tuple(in_order), tuple(dict.fromkeys(absences)))

    def text(self, number: int) -> str:
        return inline(self.past.written[number], self.source)

    def derived(self, number: int, one: Occ) -> Iterator[tuple[int, Occ, Operands]]:
        """The nodes that take part, innermost first, each with its occurrence and those of its operands."""
        node = self.past.graph.nodes[number]
        absent = g.absences_of(node)
        operands = {operand: self.operand(operand, one) for operand in g.operands_of(node) if operand not in absent}
        if isinstance(node, g.JoinNode) and node.ordered and len(node.slots) == 2:
            left, right = node.slots
            before = min(each.start for each in operands[right])
            operands[left] = [each for each in operands[left] if each.end < before] or operands[left]
        taken = {operand: self.chosen(operand, found, one) for operand, found in operands.items() if found}
        for operand, found in taken.items():
            for each in found:
                yield from self.derived(operand, each)
        yield number, one, taken

    def operand(self, number: int, one: Occ) -> list[Occ]:
        """What an operand may have been in an occurrence: nothing, if it has no version of it."""
        parts = [part for part in one.parts if self.leaf_of[part[1]] in self.below[number]]
        inside = {(version.place, leaf) for version, leaf in parts}
        found = [each for each in self.own.found[number] if each.end <= one.end and _parts(each) <= inside]
        whole = merged([single(*part) for part in parts]) if parts else None
        return found or ([] if whole is None else [whole])

    def chosen(self, number: int, found: list[Occ], one: Occ) -> list[Occ]:
        """The occurrence that has all versions of the operand, or, where several were gathered, those."""
        parts = {part for part in _parts(one) if self.leaf_of[part[1]] in self.below[number]}
        whole = [each for each in found if _parts(each) == parts]
        if not whole:
            return found
        at_the_end = [each for each in whole if each.end == one.end and each.occ_time == one.occ_time]
        recent = self.past.detector.plan.context is Context.RECENT
        return at_the_end[:1] or (whole[-1:] if recent else whole[:1])

    # ---- absences ---------------------------------------------------------------------------------

    def stayed_away(self, number: int, node: g.GraphNode, one: Occ, operands: Operands) -> Iterator[Absence]:
        match node:
            case g.JoinNode(slots=(left, right), absences=absent):
                for away in absent:
                    yield self.between(away, operands[left], operands[right][0])
            case g.JoinNode(slots=(right,), absences=absent):
                for away in absent:
                    yield self.away(away, self.fired(number), operands[right][0].start)
            case g.AbsentForNode(operand=operand, absent=absent):
                yield self.away(absent, operands[operand][0].end, one.end)
            case g.GuardNode(absences=absent, before=before):
                end = one.start if before else self.found.now.point
                for away in absent:
                    yield self.away(away, self.fired(number), end, not before)
            case _:
                return

    def fired(self, number: int) -> Point:
        """Since when absences count that look back to the last firing."""
        recent = self.past.detector.plan.context is Context.RECENT
        return self.found.fired[self.past.graph.root if recent else number]

    def between(self, absent: int, lefts: Sequence[Occ], right: Occ) -> Absence:
        """After the first of what stands to the left that nothing came after."""
        told = [self.away(absent, left.end, right.start) for left in sorted(lefts, key=lambda left: left.end)]
        return min(told, key=lambda away: away.uncounted)

    def away(self, absent: int, after: Point, end: Point, including: bool = False) -> Absence:
        came = [b for b in self.absent[absent] if after < b.start and (b.end < end or (including and b.end == end))]
        since = None if after == BEFORE_ALL else self.instant(after)
        return Absence(self.text(absent), since, self.instant(end), including, len(came))

    def instant(self, point: Point) -> Instant:
        seq = int(self.past.batch.seq[point[2]]) if point[1] == 1 and point[3] == 0 else NO_SEQ
        return Instant(seq if seq > NO_SEQ else None, point[0])


def _parts(one: Occ) -> set[tuple[int, int]]:
    return {(version.place, leaf) for version, leaf in one.parts}

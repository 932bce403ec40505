"""Where and why a part of an expression fails, operator by operator; see `why_not`, which asks.

In: a history as symbols, for one value of each variable, and a part that does not take place at a place of it. Out:
the part inside it that is to blame, and a sentence. Where sub-expressions take place their automata say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from augury.algebra.expression import (
    Anything,
    Apply,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    Nth,
    Place,
    Primitive,
    Some,
    Variable,
    children,
    walk,
)
from augury.algebra.inner import written_name
from augury.algebra.scalar import Constant, Field, dump, leaves
from augury.automata.alphabet import is_found, names_start
from augury.kernels.match.inline import inline
from augury.kernels.match.leaves import true_rows
from augury.kernels.match.past import FRESH, Past, Valuation
from augury.kernels.match.reading import START, Marked, Places, Reading
from augury.kernels.told import value_text, with_article

Op = MatchOperator
_WAYS_TRIED: Final = 8
_TRIES_MAX: Final = 400
"""How many ways to fail one part is asked for, and how many all parts together: they multiply with the nesting."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The part to blame, a sentence, and how far the reading got before it: the number of the part."""

    part: Expression
    sentence: str
    near: int
    variables: tuple[str, ...] = ()
    """Attribute variables whose values the sentence leaves open."""


def failure_of(past: Past, valuation: Valuation, source: str | None) -> Failure:
    """Why the whole expression does not take place at the last event."""
    asked = _Asked(past, valuation, source)
    return asked.failure(past.question.body, asked.reading.whole, past.last, {})


class _Asked:
    def __init__(self, past: Past, valuation: Valuation, source: str | None) -> None:
        self.past, self.valuation, self.source = past, valuation, source
        self.reading = Reading(past, valuation)
        self.where, self.witness = self.reading.where, self.reading.witness
        self.order = {id(node): number for number, node in enumerate(_as_evaluated(past.question.body))}
        self.tries = 0

    # ---- words -----------------------------------------------------------------------------------

    def text(self, part: Expression) -> str:
        return inline(self.past.question.written.get(id(part), part), self.source)

    def at(self, place: int) -> str:
        return "the start" if place == START else str(self.past.seq(place))

    def blame(self, part: Expression, sentence: str, *, about: Expression | None = None) -> Failure:
        """The part to blame; `about` is the part whose variables the sentence speaks of, if it does."""
        return Failure(part, sentence, self.order.get(id(part), 0), () if about is None else _variables(about))

    def none_before(self, part: Expression, place: int, since: str = "") -> Failure:
        return self.blame(part, f"no {self.text(part)} took place{since} before {self.at(place)}", about=part)

    def nearest(self, way: Callable[[int], Failure], latest_first: Iterable[int]) -> Failure:
        """Of the ways to fail by way of each place the one that got furthest; of equal ones the latest."""
        found: list[Failure] = []
        for place in latest_first:
            if found and (len(found) >= _WAYS_TRIED or self.tries >= _TRIES_MAX):
                break
            self.tries += 1
            found.append(way(place))
        return max(found, key=lambda failure: failure.near)

    # ---- parts -----------------------------------------------------------------------------------

    def failure(self, part: Expression, at_hand: Places, place: int, marked: Marked) -> Failure:
        """Why a part does not take place at a place of the history at hand, where it does not."""
        match part:
            case Primitive():
                return self.blame(part, self.misfit(part, place))
            case Place(variable=x):
                return self.blame(part, f"{x} is the event at {self.at(marked[x])}, not that at {self.at(place)}")
            case Equate(operand=operand, variable=x):
                if place not in self.where(operand, at_hand, marked):
                    return self.failure(operand, at_hand, place, marked)
                said = f"{self.text(operand)} takes place at {self.at(place)}, but {x} is the event at"
                return self.blame(part, f"{said} {self.at(marked[x])}", about=operand)
            case Exists():
                return self.exists(part, at_hand, place, marked)
            case Nth():
                return self.nth(part, at_hand, place, marked)
            case Apply(operator=operator, operands=operands):
                return self.apply(part, operator, operands, at_hand, place, marked)
            case Some(variables=variables):
                names = ", ".join(written_name(v) for v in variables)
                return self.blame(part, f"{self.text(part)} takes place at {self.at(place)} for no value of {names}")

    def misfit(self, leaf: Primitive, place: int) -> str:
        """Why an event is not one of a class with arguments and a mask."""
        if place == START:
            return f"the start is no {self.text(leaf)}"
        if is_found(leaf):
            return f"{self.text(leaf)} does not take place at {self.past.seq(place)}, whatever its variables stand for"
        name, seq = self.past.event_class(place).name, self.past.seq(place)
        if name != leaf.event_class:
            return f"the event at {seq} is {with_article(name)}, not {with_article(leaf.event_class)}"
        for i, binding in enumerate(leaf.bindings):
            alone = tuple(b if j == i else Anything() for j, b in enumerate(leaf.bindings))
            value = f"{self.past.event_class(place).attributes[i].name} = {value_text(self.past.value(place, i))}"
            if isinstance(binding, Constant) and not self.is_true(replace(leaf, bindings=alone, mask=None), place):
                return f"the {name} at {seq} has {value}, not {value_text(binding)}"
        if leaf.mask is not None and not self.is_true(replace(leaf, bindings=()), place):
            fields = dict.fromkeys(f for f in leaves(leaf.mask) if isinstance(f, Field))
            seen = ", ".join(f"{f.name} = {value_text(self.past.value(place, f.name))}" for f in fields)
            return f"[{dump(leaf.mask)}] is not TRUE for the {name} at {seq}{f' with {seen}' if seen else ''}"
        return self.other_value(leaf, place)

    def other_value(self, leaf: Primitive, place: int) -> str:
        name, seq = self.past.event_class(place).name, self.past.seq(place)
        for i, binding in enumerate(leaf.bindings):
            if isinstance(binding, Variable) and binding.name in self.valuation:
                number = self.valuation[binding.name]
                wanted = "another value" if number == FRESH else self.past.shown(binding.name, number)
                value = value_text(self.past.value(place, i))
                if wanted != value:
                    attribute = self.past.event_class(place).attributes[i].name
                    return f"the {name} at {seq} has {attribute} = {value}, where {binding.name} is {wanted}"
        return f"the {name} at {seq} is no {self.text(leaf)}"

    def is_true(self, leaf: Primitive, place: int) -> bool:
        return place in true_rows(leaf, self.past.rows, {})

    def exists(self, part: Exists, at_hand: Places, place: int, marked: Marked) -> Failure:
        x, operand = part.variable, part.operand
        among = [p for p in reversed(at_hand) if p <= place and (p != START or names_start(operand))]
        if not among:
            return self.blame(part, f"there is no event that {x} could be")

        def way(event: int) -> Failure:
            inner = self.failure(operand, at_hand, place, {**marked, x: event})
            return replace(inner, sentence=f"{inner.sentence} (if {x} is the event at {self.at(event)})")

        return self.nearest(way, among)

    def nth(self, part: Nth, at_hand: Places, place: int, marked: Marked) -> Failure:
        n, operand = part.count, part.operand
        found = [p for p in self.where(operand, at_hand, marked) if p <= place]
        if place not in found:
            return self.failure(operand, at_hand, place, marked)
        text = self.text(operand)
        if len(found) < n:
            return self.blame(part, f"only {len(found)} of {text} so far, at {self.at(place)}", about=operand)
        wanted = f"a multiple of {n}" if part.every else f"number {n}"
        return self.blame(part, f"{text} at {self.at(place)} is number {len(found)}, not {wanted}", about=operand)

    def apply(
        self, part: Apply, operator: Op, operands: tuple[Expression, ...], at_hand: Places, place: int, marked: Marked
    ) -> Failure:
        match operator:
            case Op.NULL:
                return self.blame(part, "NULL takes place nowhere")
            case Op.ANY | Op.START:
                return self.blame(part, f"{self.text(part)} does not take place at {self.at(place)}")
            case Op.FIRST:
                first = next(p for p in at_hand if p != START) if place != START else START
                return self.blame(part, f"the event at {self.at(place)} is not the first: that at {self.at(first)} is")
            case Op.AND:
                failing = next(e for e in operands if place not in self.where(e, at_hand, marked))
                return self.failure(failing, at_hand, place, marked)
            case Op.OR:
                return self.neither(part, at_hand, place, marked)
            case Op.NOT:
                return self.negated(part, operands[0], at_hand, place, marked)
            case Op.PREFIX:
                said = f"{self.text(operands[0])} can no longer take place after {self.at(place)}"
                return self.blame(part, said, about=operands[0])
            case _:
                return _AFTER[operator](self, operands, at_hand, place, marked)

    def neither(self, part: Apply, at_hand: Places, place: int, marked: Marked) -> Failure:
        operands = list(_sides(part))
        each = [self.failure(operand, at_hand, place, marked) for operand in operands]
        near = max(failure.near for failure in each)
        texts = [self.text(operand) for operand in operands]
        names = _either(texts)
        classes = [operand.event_class for operand in operands if isinstance(operand, Primitive)]
        if place != START and len(classes) == len(operands) and self.past.event_class(place).name not in classes:
            said = f"the event at {self.at(place)} is {with_article(self.past.event_class(place).name)}, {names}"
            return Failure(part, said, near)
        sentences = "; ".join(dict.fromkeys(failure.sentence for failure in each))
        variables = dict.fromkeys(name for failure in each for name in failure.variables)
        return Failure(part, f"{names}: {sentences}", near, tuple(variables))

    def negated(self, part: Apply, operand: Expression, at_hand: Places, place: int, marked: Marked) -> Failure:
        if place == START:
            return self.blame(part, f"{self.text(part)} does not take place at the start")
        events = ", ".join(map(str, self.witness(operand, at_hand, place, marked)))
        said = f"{self.text(operand)} does take place at {self.at(place)}"
        return self.blame(part, f"{said}, with {events}" if events != self.at(place) else said, about=operand)

    # ---- operators that look back ----------------------------------------------------------------

    def after(self, opening: Expression, begin: int, inner: Failure) -> Failure:
        return _within(inner, f"after {self.text(opening)} at {self.at(begin)}, {inner.sentence}", opening)

    def relative(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        e, f = operands
        begins = [p for p in self.where(e, at_hand, marked) if p < place]
        if not begins:
            return self.none_before(e, place)

        def way(begin: int) -> Failure:
            return self.after(e, begin, self.failure(f, _after(at_hand, begin), place, marked))

        return self.nearest(way, reversed(begins))

    def repeated(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        (e,) = operands
        ends = [p for p in self.where(Apply(Op.RELATIVE_PLUS, (e,)), at_hand, marked) if p < place]

        def link(end: int) -> Failure:
            return self.after(e, end, self.failure(e, _after(at_hand, end), place, marked))

        alone = self.failure(e, at_hand, place, marked)
        return max([self.nearest(link, reversed(ends)), alone], key=lambda one: one.near) if ends else alone

    def prior(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        reached, since = [], ""
        for k, operand in enumerate(operands[:-1], 1):
            so_far = operand if k == 1 else Apply(Op.PRIOR, tuple(operands[:k]))
            reached = [p for p in self.where(so_far, at_hand, marked) if p < place]
            if not reached:
                return self.none_before(operand, place, since)
            since = f" after {self.text(operand)} at {self.at(reached[0])} and"
        return self.failure(operands[-1], at_hand, place, marked)

    def sequence(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        e = operands[0] if len(operands) == 2 else Apply(Op.SEQUENCE, tuple(operands[:-1]))
        before = [p for p in at_hand if p < place]
        if not before:
            return self.blame(operands[0], f"no event is before {self.at(place)}, so no {self.text(operands[0])}")
        if before[-1] not in self.where(e, at_hand, marked):
            inner = self.failure(e, at_hand, before[-1], marked)
            return replace(inner, sentence=f"right before {self.at(place)}, {inner.sentence}")
        return self.failure(operands[-1], at_hand, place, marked)

    def piped(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        e, f = operands
        passing = self.where(e, at_hand, marked)
        if place not in passing:
            return self.failure(e, at_hand, place, marked)
        inner = self.failure(f, tuple(passing), place, marked)
        return _within(inner, f"of the events of {self.text(e)}: {inner.sentence}", e)

    def after_first(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        f, e = operands
        begin = self.where(e, at_hand, marked)[:1]
        if not begin or begin[0] >= place:
            return self.none_before(e, place)
        inner = self.failure(f, _after(at_hand, begin[0]), place, marked)
        return _within(inner, f"after the first {self.text(e)}, at {self.at(begin[0])}, {inner.sentence}", e)

    def stretch(self, opening: Expression, at_hand: Places, place: int, marked: Marked) -> tuple[int, Places] | Failure:
        """The latest opening and the history after it, or why there is none."""
        begins = [p for p in self.where(opening, at_hand, marked) if p <= place]
        if begins and begins[-1] == place:
            said = (
                f"{self.text(opening)} takes place at {self.at(place)} itself: it delimits the stretches and is in none"
            )
            return self.blame(opening, said, about=opening)
        if not begins:
            return self.none_before(opening, place)
        return begins[-1], _after(at_hand, begins[-1])

    def between_each(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        f, e = operands
        found = self.stretch(e, at_hand, place, marked)
        if isinstance(found, Failure):
            return found
        begin, inside = found
        return self.after(e, begin, self.failure(f, inside, place, marked))

    def first_after(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        e1, e2, f = operands
        found = self.stretch(e1, at_hand, place, marked)
        if isinstance(found, Failure):
            return found
        begin, inside = found
        if place not in self.where(e2, inside, marked):
            return self.after(e1, begin, self.failure(e2, inside, place, marked))
        spoiling = next(p for p in self.where(f, inside, marked) if p < place)
        said = f"{self.text(f)} took place at {self.at(spoiling)}, before {self.text(e2)} at {self.at(place)}"
        return self.after(e1, begin, self.blame(f, said, about=f))

    def happened(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        (e,) = operands
        return self.blame(e, f"no {self.text(e)} took place up to {self.at(place)}", about=e)

    def before(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        return self.none_before(operands[0], place)

    def series(self, operands: Sequence[Expression], at_hand: Places, place: int, marked: Marked) -> Failure:
        e, t = operands
        if place not in self.where(t, at_hand, marked):
            return self.failure(t, at_hand, place, marked)
        if place == START:
            return self.blame(e, "what has a negation in it does not take place at the start")
        there = self.where(e, at_hand, marked)
        gap = next(p for p in reversed(at_hand) if START < p < place and p not in there)
        inner = self.failure(e, at_hand, gap, marked)
        said = f"{self.text(e)} does not take place at {self.at(gap)}, before {self.at(place)}: {inner.sentence}"
        return _within(replace(inner, part=e), said, e)


def _after(at_hand: Places, place: int) -> Places:
    return tuple(p for p in at_hand if p > place)


def _as_evaluated(expression: Expression) -> Iterator[Expression]:
    """An expression and all that is inside it, as it is looked at: what delimits a history before what is in it."""
    yield expression
    inside = children(expression)
    if isinstance(expression, Apply) and expression.operator in (Op.AFTER_FIRST, Op.BETWEEN_EACH, Op.SERIES):
        inside = inside[::-1]
    for child in inside:
        yield from _as_evaluated(child)


def _variables(expression: Expression) -> tuple[str, ...]:
    bound = (b for node in walk(expression) if isinstance(node, Primitive) for b in node.bindings)
    return tuple(dict.fromkeys(b.name for b in bound if isinstance(b, Variable)))


def _within(inner: Failure, sentence: str, about: Expression) -> Failure:
    """A failure with more words around it, which speak of another part too."""
    return replace(inner, sentence=sentence, variables=tuple(dict.fromkeys((*_variables(about), *inner.variables))))


def _sides(part: Expression) -> Iterator[Expression]:
    """The operands of an OR, and of those that are its operands."""
    if isinstance(part, Apply) and part.operator is Op.OR:
        for operand in part.operands:
            yield from _sides(operand)
    else:
        yield part


def _either(texts: Sequence[str]) -> str:
    return f"neither {texts[0]} nor {texts[1]}" if len(texts) == 2 else f"none of {', '.join(texts)}"


_AFTER: dict[Op, Callable[[_Asked, Sequence[Expression], Places, int, Marked], Failure]] = {
    Op.RELATIVE: _Asked.relative,
    Op.RELATIVE_PLUS: _Asked.repeated,
    Op.PRIOR: _Asked.prior,
    Op.SEQUENCE: _Asked.sequence,
    Op.PIPE: _Asked.piped,
    Op.AFTER_FIRST: _Asked.after_first,
    Op.BETWEEN_EACH: _Asked.between_each,
    Op.FIRST_AFTER: _Asked.first_after,
    Op.BEFORE: _Asked.before,
    Op.HAPPENED: _Asked.happened,
    Op.SERIES: _Asked.series,
}

"""Why an expression never takes place, and which part of it has too many states: the smallest part that is to blame.

In: an expression in the form that `answers.normal` gives it. Out: a part, by its span, and words about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

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
    children,
    walk,
)
from augury.automata.alphabet import Alphabet, alphabet_of, condition, names_start
from augury.automata.answers import never
from augury.automata.automaton import Automaton, Unbuilt
from augury.automata.build import Builder, compile_expression
from augury.automata.operations import TooManyStates

Op = MatchOperator

_NEEDED: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys((Op.BEFORE, Op.HAPPENED, Op.RELATIVE_PLUS, Op.PREFIX), (0,)),
    **dict.fromkeys((Op.PIPE, Op.AFTER_FIRST, Op.BETWEEN_EACH, Op.RELATIVE, Op.FIRST_AFTER), (0, 1)),
    Op.SERIES: (1,),
}
"""The operands without which an operator never takes place; of AND, prior and sequence all of them."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The smallest part that never takes place, why, and what may have been meant."""

    part: Expression
    why: str
    help: str


@dataclass(frozen=True, slots=True)
class BlowUp:
    """The smallest part whose automaton passes the limit of states."""

    part: Expression

    @property
    def operator(self) -> str:
        """The operator whose construction is too large, as it is written."""
        match self.part:
            case Apply(operator=operator):
                return operator.value
            case Nth(count=count, every=every):
                return f"{'EVERY ' if every else ''}<{count}>"
            case Exists():
                return "EXISTS"
            case _:
                return "="

    def proposal(self, text: str) -> str:
        """What to write instead; `text` is that of the program, which spans point into."""
        match self.part:
            case Apply(operator=Op.RELATIVE, operands=(delimiter, Nth(count=n, every=False, operand=counted))):
                after = _written(delimiter, text)
                return (
                    f"write (<{n}> {_written(counted, text)}) /+ {after}: it counts from the latest {after} on, has "
                    f"{n + 2} states, and is usually what is meant, but not the same: this one counts from each of them"
                )
            case _ if any(isinstance(node, Nth) and node.count > 3 for node in walk(self.part)):
                return "lower the n of <n>, or count apart what belongs apart with PARTITION BY"
            case _:
                return "make classes of its parts, or keep apart what belongs apart with PARTITION BY"


def _written(expression: Expression, text: str) -> str:
    """An operand as it stands in the program, in parentheses where another operator would break it up."""
    found = " ".join(text[expression.span.start : expression.span.end].split())
    return found if isinstance(expression, Primitive | Place) else f"({found})"


def blow_up(expression: Expression) -> BlowUp | None:
    """The first part, innermost and left first, that is too large to be built; None where none is."""
    found = automaton_or_blow_up(expression, alphabet_of(expression))
    return None if isinstance(found, Automaton) else BlowUp(list(inside_out(expression))[found])


def automaton_or_blow_up(expression: Expression, alphabet: Alphabet) -> Automaton | int:
    """The automaton, or the number, inside out, of the first part that is too large to be built."""
    builder = Builder(alphabet)
    if not isinstance(builder.build(expression), Unbuilt):
        with suppress(TooManyStates):
            return compile_expression(expression, alphabet, builder).automaton
    parts = list(inside_out(expression))
    return next((i for i, part in enumerate(parts) if isinstance(builder.build(part), Unbuilt)), len(parts) - 1)


def inside_out(expression: Expression) -> Iterator[Expression]:
    """The parts of an expression, each after those inside it."""
    for child in children(expression):
        yield from inside_out(child)
    yield expression


def why_never(expression: Expression) -> Reason:
    """Why an expression never takes place: the smallest part to blame, and words about it."""
    builder = Builder(alphabet_of(expression))
    part = expression
    while (inner := next((child for child in _needed(part) if _is_never(child, builder)), None)) is not None:
        part = inner
    return _reason(part)


def _is_never(part: Expression, builder: Builder) -> bool:
    """Whether it takes place neither where the history has the events of its free variables nor where it lacks them."""
    language = builder.build(part)
    if isinstance(language, Unbuilt) or _meets(language, builder.to_come):
        return False
    with suppress(TooManyStates):
        closed = _closed(part)
        is_plain = closed is part and not names_start(part)
        return is_plain or never(compile_expression(closed, builder.alphabet, builder))
    return False


def _meets(automaton: Automaton, symbols: Sequence[int]) -> bool:
    """Whether a word of these symbols without a mark is accepted."""
    letters = [symbol << len(automaton.variables) for symbol in symbols]
    queue = [0]
    reached = {0}
    for state in queue:
        following = {automaton.delta[state][letter] for letter in letters} - reached
        reached |= following
        queue.extend(following)
    return any(automaton.accepting[state] for state in reached)


def _needed(part: Expression) -> tuple[Expression, ...]:
    match part:
        case Apply(operator=Op.AND | Op.PRIOR | Op.SEQUENCE, operands=operands):
            return operands
        case Apply(operator=operator, operands=operands):
            return tuple(operands[i] for i in _NEEDED.get(operator, ()))
        case _:
            return children(part)


def _closed(part: Expression) -> Expression:
    """For some event each: without them a part would wait for events that are nobody's."""
    bound: set[str] = set()
    used: dict[str, None] = {}
    for node in walk(part):
        if isinstance(node, Exists):
            bound.add(node.variable)  # names of correlation variables are unique
        elif isinstance(node, Place | Equate):
            used[node.variable] = None
    for name in used:
        part = part if name in bound else Exists(name, part)
    return part


def _reason(part: Expression) -> Reason:
    match part:
        case Apply(operator=Op.NULL):
            return Reason(part, "NULL takes place nowhere", "write the expression that is meant")
        case Apply(operator=Op.NOT):
            return Reason(part, "what is negated takes place at every event", "leave it out, or negate less")
        case Apply(operator=Op.OR):
            return Reason(part, "neither side ever takes place", "mend one of its sides")
        case Apply(operator=Op.START):
            return Reason(part, "`start` is before every event", "let an event follow: relative(start, E)")
        case Apply(operator=Op.AND | Op.PIPE, operands=operands):
            return _conflict(part, operands) or _general(part)
        case Apply(operator=Op.RELATIVE | Op.RELATIVE_PLUS | Op.AFTER_FIRST | Op.BETWEEN_EACH) if _free(part):
            name = _free(part)[0]
            why = f"a history that starts after `{name}` has no `{name}`"
            return Reason(part, why, f"speak of `{name}` in one history only: prior(E, F) is F after E in the same")
        case Exists(variable=name):
            why = f"no event is `{name}` in all its places"
            return Reason(part, why, f"after a relative and through a pipe earlier events are missing, `{name}` too")
        case _:
            return _general(part)


def no_reason(expression: Expression) -> Reason:
    """What can be said of an expression that never takes place without looking into it."""
    return _general(expression)


def _general(part: Expression) -> Reason:
    is_and = isinstance(part, Apply) and part.operator is Op.AND
    why = "its parts never take place at the same event" if is_and else "no history makes it take place"
    return Reason(part, why, "`augury explain FILE NAME --stage automaton` shows the automaton")


def _free(part: Expression) -> list[str]:
    bound = {node.variable for node in walk(part) if isinstance(node, Exists)}
    used = (node.variable for node in walk(part) if isinstance(node, Place | Equate))
    return [name for name in dict.fromkeys(used) if name not in bound]


def _conflict(part: Expression, operands: tuple[Expression, ...]) -> Reason | None:
    """Two classes, or two constants of one attribute, that no event has both of."""
    for first, second in combinations([_class_of(operand) for operand in _flat(operands)], 2):
        if first is None or second is None:
            continue
        a, b = first.event_class, second.event_class
        if a != b:
            meant = f"write OR for either; prior({a}, {b}) for one after the other"
            return Reason(part, f"no event is of both classes, `{a}` and `{b}`", meant)
        if len(alphabet_of(Apply(Op.AND, (first, second))).symbols) == 3 and condition(first) and condition(second):
            meant = f"write OR for either; prior(E, F) for two events of `{a}`"
            return Reason(part, f"no `{a}` is both {condition(first)} and {condition(second)}", meant)
    return None


def _flat(operands: tuple[Expression, ...]) -> Iterator[Expression]:
    for operand in operands:
        if isinstance(operand, Apply) and operand.operator is Op.AND:
            yield from _flat(operand.operands)
        else:
            yield operand


def _class_of(expression: Expression) -> Primitive | None:
    """The class of every event at which an expression takes place, where that is plain to see."""
    match expression:
        case Primitive():
            return expression
        case Nth(operand=operand) | Equate(operand=operand) | Exists(operand=operand) | Some(operand=operand):
            return _class_of(operand)
        case Apply(operator=Op.PRIOR | Op.SEQUENCE | Op.RELATIVE, operands=operands):
            return _class_of(operands[-1])
        case Apply(operator=Op.AFTER_FIRST | Op.BETWEEN_EACH | Op.RELATIVE_PLUS, operands=operands):
            return _class_of(operands[0])
        case _:
            return None

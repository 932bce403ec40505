"""The operators that the contract defines by others, written out as its table has them."""

from __future__ import annotations

from functools import reduce

from augury.algebra.expression import Apply, Expression, walk
from augury.algebra.expression import MatchOperator as Op

ANY = Apply(Op.ANY)


def relative(e: Expression, f: Expression) -> Expression:
    """Where F does, in a history that starts right after some event at which E takes place."""
    return Apply(Op.RELATIVE, (e, f))


def both(e: Expression, f: Expression) -> Expression:
    """Where both do."""
    return Apply(Op.AND, (e, f))


def negation(e: Expression) -> Expression:
    """Where E does not."""
    return Apply(Op.NOT, (e,))


FIRST = negation(relative(ANY, ANY))


def prior(e: Expression, f: Expression) -> Expression:
    """F, after an E."""
    return both(relative(e, ANY), f)


def sequence(e: Expression, f: Expression) -> Expression:
    """F, right after an E."""
    return both(relative(e, FIRST), f)


def definition(expression: Apply) -> Expression:
    """What a derived operator stands for."""
    operands = expression.operands
    match expression.operator, operands:
        case Op.FIRST, ():
            return FIRST
        case Op.PRIOR, _:
            return reduce(prior, operands)
        case Op.SEQUENCE, _:
            return reduce(sequence, operands)
        case Op.FIRST_AFTER, (e1, e2, f):
            return Apply(Op.BETWEEN_EACH, (both(e2, negation(prior(f, ANY))), e1))
        case Op.BEFORE, (e,):
            return prior(e, ANY)
        case Op.HAPPENED, (e,):
            return Apply(Op.OR, (e, prior(e, ANY)))
        case Op.SERIES, (e, t):
            return both(t, negation(prior(negation(e), t)))
        case _:
            raise AssertionError(f"{expression.operator} is not defined by others")


def names_start(expression: Expression) -> bool:
    """Whether `start` is written in it."""
    return any(isinstance(node, Apply) and node.operator is Op.START for node in walk(expression))

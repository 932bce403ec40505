"""The operators and functions of expressions, and what types they take and give: one table.

In: an operator and the types of its operands. Out: the type of the result, or what is wrong and a proposal.
It knows neither expressions nor values; docs/expressions.md says what each operator does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, StrEnum, auto
from functools import reduce
from typing import Final, assert_never

from augury import types as t


class Operator(StrEnum):
    """Everything that computes a value from values; CONCAT is also written `||`."""

    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IS_NULL = "IS NULL"
    IN = "IN"
    LIKE = "LIKE"
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    MODULO = "%"
    NEGATE = "unary -"
    ABS = "ABS"
    CEIL = "CEIL"
    FLOOR = "FLOOR"
    COALESCE = "COALESCE"
    NULLIF = "NULLIF"
    IF = "IF"
    GREATEST = "GREATEST"
    LEAST = "LEAST"
    LENGTH = "LENGTH"
    LOWER = "LOWER"
    UPPER = "UPPER"
    TRIM = "TRIM"
    SUBSTRING = "SUBSTRING"
    CONCAT = "CONCAT"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"
    CONTAINS = "CONTAINS"
    YEAR = "YEAR"
    MONTH = "MONTH"
    DAY = "DAY"
    HOUR = "HOUR"
    MINUTE = "MINUTE"
    SECOND = "SECOND"


_ALL: Final = tuple(Operator)

FUNCTIONS: Final[dict[str, Operator]] = {op.value: op for op in _ALL[_ALL.index(Operator.ABS) :]}
"""The white list of functions, by name in upper case."""

SYMBOLS: Final[dict[str, Operator]] = {
    **{op.value: op for op in _ALL[: _ALL.index(Operator.NEGATE)] if op is not Operator.IS_NULL},
    "||": Operator.CONCAT,
}
"""The operators that stand between two operands (or before one: NOT), by their canonical spelling."""

COMPARISONS: Final = frozenset({Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE})


class Family(Flag):
    """Groups of types that an operator treats alike; the NULL literal belongs to all of them."""

    BOOLEAN = auto()
    INTEGER = auto()
    DECIMAL = auto()
    DOUBLE = auto()
    STRING = auto()
    TIMESTAMP = auto()
    DATE = auto()
    DURATION = auto()
    NUMBER = INTEGER | DECIMAL | DOUBLE
    TIME = TIMESTAMP | DATE
    ANY = BOOLEAN | NUMBER | STRING | TIME | DURATION


def family(of: t.Type) -> Family:
    """The family of a type."""
    match of:
        case t.Boolean():
            return Family.BOOLEAN
        case t.Int() | t.BigInt():
            return Family.INTEGER
        case t.Decimal():
            return Family.DECIMAL
        case t.Double():
            return Family.DOUBLE
        case t.String():
            return Family.STRING
        case t.Timestamp():
            return Family.TIMESTAMP
        case t.Date():
            return Family.DATE
        case t.Duration():
            return Family.DURATION
        case t.Null():
            return Family.ANY
        case _:
            assert_never(of)


@dataclass(frozen=True, slots=True)
class TypeProblem:
    """Why types do not fit: one sentence, the index of the operand to blame, a text to put in its place."""

    message: str
    operand: int
    proposal: str | None = None


Operands = Sequence[t.Type]
Result = Callable[[Operands], t.Type]


@dataclass(frozen=True, slots=True)
class Rule:
    """One row: a family per operand, what comes out, and whether the last family may repeat."""

    shape: tuple[Family, ...]
    result: Result
    repeats: bool = False

    def stretched(self, count: int) -> tuple[Family, ...] | None:
        """The families for so many operands, None where there are too few or too many."""
        missing = count - len(self.shape)
        if missing == 0 or (missing > 0 and self.repeats):
            return self.shape + self.shape[-1:] * missing
        return None


def _gives(result: t.Type) -> Result:
    return lambda _: result


def _first(operands: Operands) -> t.Type:
    return operands[0]


def _promoted(operands: Operands) -> t.Type:
    common: t.Type | None = reduce(lambda a, b: t.common_type(a, b) or t.NULL, operands)
    assert common is not None
    return common


def _promoted_after_first(operands: Operands) -> t.Type:
    return _promoted(operands[1:])


def _arithmetic(scale: Callable[[int, int], int], integers: t.Type | None = None) -> Result:
    def result(operands: Operands) -> t.Type:
        common = _promoted(operands)
        if isinstance(common, t.Decimal):
            left, right = (t.as_decimal(operand).scale for operand in operands)
            return t.Decimal(t.PRECISION_MAX, scale(left, right))
        return integers or common

    return result


def _whole(operands: Operands) -> t.Type:
    number = t.as_decimal(operands[0])
    return t.Decimal(min(t.PRECISION_MAX, number.precision - number.scale + 1), 0)


PRODUCT_SCALE_MAX: Final = 18
QUOTIENT_SCALE_MIN: Final = 6

_sum = _arithmetic(max)
_product = _arithmetic(lambda left, right: min(left + right, PRODUCT_SCALE_MAX))
_quotient = _arithmetic(lambda left, right: max(QUOTIENT_SCALE_MIN, left, right), integers=t.DOUBLE)


@dataclass(frozen=True, slots=True)
class Signature:
    """What an operator takes, in words and as rows; the first row that fits counts."""

    takes: str
    rules: tuple[Rule, ...]


_F = Family
# In this order a mismatch is blamed on the other side: beside a time or duration on the number, beside a
# number on the string.
_ALIKE = (_F.TIME, _F.DURATION, _F.NUMBER, _F.STRING, _F.BOOLEAN)


def _alike(takes: str, result: Result, *, count: int, repeats: bool = False) -> Signature:
    return Signature(takes, tuple(Rule((kind,) * count, result, repeats) for kind in _ALIKE))


_LOGIC = Signature("truth values", (Rule((_F.BOOLEAN, _F.BOOLEAN), _gives(t.BOOLEAN), repeats=True),))
_COMPARISON = _alike("two values of like types", _gives(t.BOOLEAN), count=2)
_EXTREME = _alike("values of like types", _promoted, count=2, repeats=True)
_ROUNDING = Signature(
    "a number",
    (Rule((_F.INTEGER,), _first), Rule((_F.DECIMAL,), _whole), Rule((_F.DOUBLE,), _gives(t.BIGINT))),
)
_MAGNITUDE = Signature("a number or a duration", (Rule((_F.NUMBER,), _first), Rule((_F.DURATION,), _first)))
_TEXT = Signature("a string", (Rule((_F.STRING,), _first),))
_TEXT_TEST = Signature("two strings", (Rule((_F.STRING, _F.STRING), _gives(t.BOOLEAN)),))
_TIME_PART = Signature("a time", (Rule((_F.TIME,), _gives(t.INT)),))

SIGNATURES: Final[dict[Operator, Signature]] = {
    Operator.AND: _LOGIC,
    Operator.OR: _LOGIC,
    Operator.NOT: Signature("a truth value", (Rule((_F.BOOLEAN,), _gives(t.BOOLEAN)),)),
    **dict.fromkeys((op for op in Operator if op in COMPARISONS), _COMPARISON),
    Operator.IS_NULL: Signature("any value", (Rule((_F.ANY,), _gives(t.BOOLEAN)),)),
    Operator.IN: _alike("values of like types", _gives(t.BOOLEAN), count=2, repeats=True),
    Operator.LIKE: _TEXT_TEST,
    Operator.ADD: Signature(
        "numbers, durations, or a time and a duration",
        (
            Rule((_F.NUMBER, _F.NUMBER), _sum),
            Rule((_F.TIME, _F.DURATION), _gives(t.TIMESTAMP)),
            Rule((_F.DURATION, _F.TIME), _gives(t.TIMESTAMP)),
            Rule((_F.DURATION, _F.DURATION), _gives(t.DURATION)),
        ),
    ),
    Operator.SUBTRACT: Signature(
        "numbers, durations, two times, or a time and a duration",
        (
            Rule((_F.NUMBER, _F.NUMBER), _sum),
            Rule((_F.TIME, _F.TIME), _gives(t.DURATION)),
            Rule((_F.TIME, _F.DURATION), _gives(t.TIMESTAMP)),
            Rule((_F.DURATION, _F.DURATION), _gives(t.DURATION)),
        ),
    ),
    Operator.MULTIPLY: Signature(
        "numbers, or a duration and an integer",
        (
            Rule((_F.NUMBER, _F.NUMBER), _product),
            Rule((_F.DURATION, _F.INTEGER), _gives(t.DURATION)),
            Rule((_F.INTEGER, _F.DURATION), _gives(t.DURATION)),
        ),
    ),
    Operator.DIVIDE: Signature(
        "numbers, durations, or a duration and an integer",
        (
            Rule((_F.NUMBER, _F.NUMBER), _quotient),
            Rule((_F.DURATION, _F.INTEGER), _gives(t.DURATION)),
            Rule((_F.DURATION, _F.DURATION), _gives(t.DOUBLE)),
        ),
    ),
    Operator.MODULO: Signature("numbers", (Rule((_F.NUMBER, _F.NUMBER), _sum),)),
    Operator.NEGATE: _MAGNITUDE,
    Operator.ABS: _MAGNITUDE,
    Operator.CEIL: _ROUNDING,
    Operator.FLOOR: _ROUNDING,
    Operator.COALESCE: _alike("values of like types", _promoted, count=1, repeats=True),
    Operator.NULLIF: _alike("two values of like types", _first, count=2),
    Operator.IF: Signature(
        "a truth value and two values of like types",
        tuple(Rule((_F.BOOLEAN, kind, kind), _promoted_after_first) for kind in _ALIKE),
    ),
    Operator.GREATEST: _EXTREME,
    Operator.LEAST: _EXTREME,
    Operator.LENGTH: Signature("a string", (Rule((_F.STRING,), _gives(t.INT)),)),
    Operator.LOWER: _TEXT,
    Operator.UPPER: _TEXT,
    Operator.TRIM: _TEXT,
    Operator.SUBSTRING: Signature(
        "a string, a start and perhaps a length, which are integers",
        (
            Rule((_F.STRING, _F.INTEGER), _first),
            Rule((_F.STRING, _F.INTEGER, _F.INTEGER), _first),
        ),
    ),
    Operator.CONCAT: Signature("strings", (Rule((_F.STRING,), _gives(t.STRING), repeats=True),)),
    Operator.STARTSWITH: _TEXT_TEST,
    Operator.ENDSWITH: _TEXT_TEST,
    Operator.CONTAINS: _TEXT_TEST,
    Operator.YEAR: _TIME_PART,
    Operator.MONTH: _TIME_PART,
    Operator.DAY: _TIME_PART,
    Operator.HOUR: _TIME_PART,
    Operator.MINUTE: _TIME_PART,
    Operator.SECOND: _TIME_PART,
}


def result_type(operator: Operator, operands: Operands, texts: Sequence[str] = ()) -> t.Type | TypeProblem:
    """The type of an operator applied to operands of these types; `texts` spell them in a proposal."""
    signature = SIGNATURES[operator]
    fitting = [(rule, shape) for rule in signature.rules if (shape := rule.stretched(len(operands)))]
    if not fitting:
        return _wrong_count(operator, signature, len(operands))
    families = [family(operand) for operand in operands]
    for rule, shape in fitting:
        if all(given & wanted for given, wanted in zip(families, shape, strict=True)):
            return rule.result(operands)
    return _mismatch(operator, operands, [shape for _, shape in fitting], texts)


def spelling(operator: Operator) -> str:
    """How messages name an operator."""
    return "-" if operator is Operator.NEGATE else operator.value


def _wrong_count(operator: Operator, signature: Signature, given: int) -> TypeProblem:
    counts = sorted({len(rule.shape) for rule in signature.rules})
    least = "at least " if any(rule.repeats for rule in signature.rules) else ""
    noun = "operand" if counts == [1] else "operands"
    message = f"`{spelling(operator)}` takes {least}{' or '.join(map(str, counts))} {noun}; here {given}"
    return TypeProblem(message, min(given, counts[-1]) if given > counts[-1] else max(given - 1, 0))


def _mismatch(
    operator: Operator, operands: Operands, shapes: Sequence[tuple[Family, ...]], texts: Sequence[str]
) -> TypeProblem:
    families = [family(operand) for operand in operands]

    def fits(shape: tuple[Family, ...]) -> int:
        return sum(bool(given & wanted) for given, wanted in zip(families, shape, strict=True))

    # The row that most operands fit is likeliest the one meant; the earliest of equals.
    meant = max(shapes, key=fits)
    blamed = next(i for i, wanted in enumerate(meant) if not families[i] & wanted)
    alike = [i for i, wanted in enumerate(meant) if wanted == meant[blamed] and families[i] & wanted]
    named = [str(operand) for operand in operands]
    here = " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    text = texts[blamed] if texts else "x"
    return TypeProblem(
        f"`{spelling(operator)}` takes {SIGNATURES[operator].takes}; here {here}",
        blamed,
        _proposal(operands[blamed], meant[blamed], [operands[i] for i in alike], text),
    )


_USUAL: Final[dict[Family, t.Type]] = {
    _F.NUMBER: t.DOUBLE,
    _F.INTEGER: t.BIGINT,
    _F.DECIMAL: t.Decimal(t.PRECISION_MAX, t.NUMERIC_SCALE_DEFAULT),
    _F.DOUBLE: t.DOUBLE,
    _F.STRING: t.STRING,
    _F.TIME: t.TIMESTAMP,
}


def _proposal(given: t.Type, wanted: Family, friends: Operands, text: str) -> str | None:
    if wanted is Family.DURATION:
        return f"{text} * 1s" if family(given) is Family.INTEGER else None
    # A cast to the neighbour's VARCHAR(n) would cut the text.
    known = [t.STRING if isinstance(friend, t.String) else friend for friend in friends if friend != t.NULL]
    target = _promoted(known) if known else _USUAL.get(wanted)
    if target is None or not castable(given, target):
        return None
    return f"CAST({text} AS {target})"


_CASTS: Final[dict[Family, Family]] = {
    _F.BOOLEAN: _F.BOOLEAN | _F.NUMBER | _F.STRING,
    _F.INTEGER: _F.BOOLEAN | _F.NUMBER | _F.STRING | _F.TIMESTAMP,
    _F.DECIMAL: _F.BOOLEAN | _F.NUMBER | _F.STRING | _F.TIMESTAMP,
    _F.DOUBLE: _F.BOOLEAN | _F.NUMBER | _F.STRING | _F.TIMESTAMP,
    _F.STRING: _F.BOOLEAN | _F.NUMBER | _F.STRING | _F.TIME,
    _F.TIMESTAMP: _F.NUMBER | _F.STRING | _F.TIME,
    _F.DATE: _F.STRING | _F.TIME,
    _F.DURATION: _F.DURATION,
    _F.ANY: _F.ANY,  # the NULL literal
}


def castable(source: t.Type, target: t.Type) -> bool:
    """Whether CAST takes this type to that one; a value may still fail."""
    return target != t.NULL and bool(_CASTS[family(source)] & family(target))

"""Written scalar expressions → typed ones: names by a scope, operators by the table of `augury.algebra.operators`.

In: syntax and a scope that says what names mean there. Out: a typed expression, or None with the reasons reported.
Each mistake is reported once: what is built on it stays silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from typing import assert_never

from augury import limits
from augury.algebra import scalar as a
from augury.algebra.operators import COMPARISONS, FUNCTIONS, SIGNATURES, SYMBOLS, Operator, TypeProblem, spelling
from augury.analysis.declarations import resolve_type, unknown_attribute
from augury.clock import duration_us, microseconds_of
from augury.diagnostics import Findings, Mark, Span
from augury.event import EventClass
from augury.language import syntax as s
from augury.types import (
    BOOLEAN,
    DATE,
    DURATION,
    NULL,
    TIMESTAMP,
    BigInt,
    Date,
    Decimal,
    Double,
    Duration,
    Int,
    String,
    Timestamp,
    Type,
    parse_type,
    with_article,
)

COMPARED = COMPARISONS | {Operator.IN}
_NUMBERS = frozenset({Int, BigInt, Decimal, Double})
_FEWER_DIGITS = "write it with an e, which makes it a DOUBLE: 1.5e50"
_TIME_SHAPES = {Timestamp: "2026-01-31T09:00:00Z", Date: "2026-01-31"}


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean where an expression stands."""

    place: str
    """Where that is, for messages: `a mask`."""
    resolve: Callable[[s.Name], a.Scalar | None]
    """The meaning of a name; reports what it does not know and gives None."""
    now: bool = False
    timing: bool = False
    previous: EventClass | None = None
    """The class whose earlier events PREV looks at; None where there is no PREV."""


def lower_scalar(expression: s.Scalar, scope: Scope, findings: Findings) -> a.Scalar | None:
    """The typed form of an expression."""
    return _Lowering(scope, findings).lower(expression)


def lower_condition(expression: s.Scalar, scope: Scope, findings: Findings) -> a.Scalar | None:
    """The typed form of an expression that has to be a truth value."""
    lowered = lower_scalar(expression, scope, findings)
    if lowered is not None and lowered.type not in (BOOLEAN, NULL):
        findings.error(
            "E210",
            f"{scope.place} is a truth value, not {with_article(lowered.type)}",
            expression.span,
            f"this is {with_article(lowered.type)}",
            helps=[_as_truth(lowered)],
        )
        return None
    return lowered


def literal_constant(literal: s.Literal, findings: Findings, beside: Type | None = None) -> a.Constant | None:
    """A constant as written; a string beside a time is read as one."""
    if isinstance(literal.value, str) and isinstance(beside, Timestamp | Date):
        read = _read_time(literal.value, beside)
        if read is not None:
            return a.Constant(read, beside, literal.span)
    found = a.literal(literal.value, literal.span)
    if isinstance(found, TypeProblem):
        findings.error("E209", found.message, literal.span, "too many digits", helps=[_FEWER_DIGITS])
        return None
    return found


def typed_constant(literal: s.TypedLiteral, findings: Findings) -> a.Constant | None:
    """`TIMESTAMP '…'` or `DATE '…'`."""
    try:
        wanted = parse_type(literal.type_name.text, ())
    except ValueError:
        wanted = None
    if not isinstance(wanted, Timestamp | Date):
        meant = findings.closest(literal.type_name.text, ["TIMESTAMP", "DATE"])
        cast = f"write CAST('{literal.text}' AS {wanted})"
        findings.error(
            "E204",
            f"only TIMESTAMP and DATE stand before a string, not `{literal.type_name.text}`",
            literal.type_name.span,
            "not a type of times",
            helps=[cast if wanted is not None else f"did you mean `{meant}`?" if meant else "leave it out"],
        )
        return None
    value = _read_time(literal.text, wanted)
    if value is None:
        findings.error(
            "E108",
            f"`{literal.text}` is not a {wanted}",
            literal.span,
            "no such time",
            helps=[f"write e.g. {wanted} '{_TIME_SHAPES[type(wanted)]}'"],
        )
        return None
    return a.Constant(value, wanted, literal.span)


def _read_time(text: str, wanted: Timestamp | Date) -> int | date | None:
    try:
        if isinstance(wanted, Date):
            return date.fromisoformat(text.strip())
        moment = datetime.fromisoformat(text.strip())
        return microseconds_of(moment.astimezone(UTC) if moment.tzinfo else moment)
    except (ValueError, OverflowError):
        return None


class _Lowering:
    def __init__(self, scope: Scope, findings: Findings) -> None:
        self.scope = scope
        self.findings = findings

    def lower(self, expression: s.Scalar) -> a.Scalar | None:
        span = expression.span
        match expression:
            case s.Literal():
                return self._built(a.literal(expression.value, span), [], span)
            case s.TypedLiteral():
                return typed_constant(expression, self.findings)
            case s.DurationLiteral(count=count, unit=unit):
                return a.Constant(duration_us(count, unit), DURATION, span)
            case s.Now():
                return self._now(expression)
            case s.Name():
                return self._name(expression)
            case s.Unary(operator=operator, operand=operand):
                return self._apply(Operator.NOT if operator == "NOT" else Operator.NEGATE, [operand], span)
            case s.Binary(operator=operator, left=left, right=right):
                return self._apply(SYMBOLS[operator], [left, right], span)
            case s.Logical(operator=operator, operands=operands):
                return self._apply(SYMBOLS[operator], operands, span)
            case s.IsNull(operand=operand, negated=negated):
                return self._negated(self._apply(Operator.IS_NULL, [operand], span), negated, span)
            case s.InList(operand=operand, items=items, negated=negated):
                return self._negated(self._apply(Operator.IN, [operand, *items], span), negated, span)
            case s.Like(operand=operand, pattern=pattern, negated=negated):
                return self._negated(self._apply(Operator.LIKE, [operand, pattern], span), negated, span)
            case s.Between():
                return self._between(expression)
            case s.Call():
                return self._call(expression)
            case s.Cast(operand=operand, type=ref):
                inner = self.lower(operand)
                target = resolve_type(ref, self.findings)
                if inner is None or target == NULL:
                    return None
                return self._built(a.cast(inner, target, span), [inner], span)
            case s.Case():
                return self._case(expression)
            case _:
                assert_never(expression)

    def _apply(self, operator: Operator, operands: Sequence[s.Scalar], span: Span, called: str = "") -> a.Scalar | None:
        lowered = [self.lower(operand) for operand in operands]
        known = [operand for operand in lowered if operand is not None]
        return self._applied(operator, known, span, called) if len(known) == len(lowered) else None

    def _applied(
        self, operator: Operator, operands: Sequence[a.Scalar], span: Span, called: str = ""
    ) -> a.Scalar | None:
        known = _read_beside_times(operands)
        built = a.apply(operator, tuple(known), span)
        if isinstance(built, TypeProblem) and operator in COMPARED and self._not_a_time(known):
            return None
        return self._built(built, known, span, operator, called)

    def _not_a_time(self, operands: Sequence[a.Scalar]) -> bool:
        """Report a string that stands beside a time and cannot be read as one."""
        beside = next((o.type for o in operands if isinstance(o.type, Timestamp | Date)), None)
        text = next((o for o in operands if isinstance(o, a.Constant) and isinstance(o.value, str)), None)
        if beside is None or text is None:
            return False
        self.findings.error(
            "E108",
            f"`{text.value}` is not a {beside}",
            text.span,
            "no such time",
            helps=[f"write e.g. '{_TIME_SHAPES[type(beside)]}'"],
        )
        return True

    def _built(
        self,
        built: a.Scalar | TypeProblem,
        operands: Sequence[a.Scalar],
        span: Span,
        operator: Operator | None = None,
        called: str = "",
    ) -> a.Scalar | None:
        """What was built, or a report that names the type of each operand where it stands."""
        if not isinstance(built, TypeProblem):
            return built
        message = built.message
        if operator is not None and called:
            message = message.replace(f"`{spelling(operator)}`", f"`{called}`", 1)
        if built.operand >= len(operands) or "operand" in message:
            label, helps = "too many digits", [_FEWER_DIGITS]
            if operator is not None:
                label, helps = f"{len(operands) or 'none'} given", _forms(operator)
            self.findings.error("E209", message, span, label, helps=helps)
            return None
        index, proposal = built.operand, _mended(built, operands, operator)
        wants_truth = proposal is not None and proposal.startswith("compare")
        shown = [] if operator is None or wants_truth or len(operands) > 3 else operands
        others = [o for i, o in enumerate(shown) if i != index]
        self.findings.error(
            "E209",
            message,
            operands[index].span,
            with_article(operands[index].type),
            others=[Mark(other.span, with_article(other.type)) for other in others],
            helps=[proposal] if proposal else [],
        )
        return None

    def _negated(self, expression: a.Scalar | None, negated: bool, span: Span) -> a.Scalar | None:
        if expression is None or not negated:
            return expression
        return self._built(a.apply(Operator.NOT, (expression,), span), [expression], span)

    def _between(self, expression: s.Between) -> a.Scalar | None:
        span = expression.span
        parts = [self.lower(part) for part in (expression.operand, expression.low, expression.high)]
        operand, least, most = parts
        if operand is None or least is None or most is None or self._is_too_large(operand, span):
            return None
        low = self._applied(Operator.GE, [operand, least], span, "BETWEEN")
        high = None if low is None else self._applied(Operator.LE, [operand, most], span, "BETWEEN")
        if low is None or high is None:
            return None
        both = self._built(a.apply(Operator.AND, (low, high), span), [low, high], span)
        return self._negated(both, expression.negated, span)

    def _is_too_large(self, operand: a.Scalar, span: Span) -> bool:
        """Report an operand that is too large to stand twice, as in `x >= low AND x <= high`: nested, such double."""
        if sum(1 for _ in islice(a.walk(operand), limits.EXPRESSION_NODES_MAX)) < limits.EXPRESSION_NODES_MAX:
            return False
        parts = f"{limits.EXPRESSION_NODES_MAX:,} parts"
        helps = ["write comparisons with AND instead of BETWEEN inside BETWEEN"]
        self.findings.error(
            "E403", f"the operand of this BETWEEN has more than {parts}", span, "too large", helps=helps
        )
        return True

    def _case(self, expression: s.Case) -> a.Scalar | None:
        branches = [(self.lower(condition), self.lower(value)) for condition, value in expression.branches]
        default = None if expression.default is None else self.lower(expression.default)
        known = [(c, v) for c, v in branches if c is not None and v is not None]
        if len(known) < len(branches) or (default is None and expression.default is not None):
            return None
        parts = [part for branch in known for part in branch]
        return self._built(a.case(tuple(known), default, expression.span), parts, expression.span)

    def _now(self, expression: s.Now) -> a.Scalar | None:
        if self.scope.now:
            return a.Now(span=expression.span)
        self.findings.error(
            "E213",
            f"NOW has no meaning in {self.scope.place}",
            expression.span,
            "there is no tick here",
            helps=["compare occ_time or det_time with a TIMESTAMP, or say it in an ON condition"],
        )
        return None

    def _name(self, expression: s.Name) -> a.Scalar | None:
        word = expression.name.text.upper()
        if self.scope.timing and expression.qualifier is None and word in a.TimingPrimitive.__members__:
            return a.Timing(a.TimingPrimitive(word), span=expression.span)
        return self.scope.resolve(expression)

    def _call(self, expression: s.Call) -> a.Scalar | None:
        name = expression.function.text.upper()
        if name == "PREV":
            return self._previous(expression)
        if name == "RETURNED":
            self._returned(expression)
            return None
        if name in a.TimingPrimitive.__members__ and self.scope.timing:
            return self._bounded_timing(expression, a.TimingPrimitive(name))
        operator = FUNCTIONS.get(name)
        if operator is None:
            self._unknown_function(expression)
            return None
        if expression.star:
            message = f"`{name}` takes values, not `*`"
            self.findings.error("E209", message, expression.span, "only COUNT takes `*`", helps=_forms(operator))
            return None
        return self._apply(operator, expression.arguments, expression.span)

    def _unknown_function(self, expression: s.Call) -> None:
        name = expression.function.text
        known = [*FUNCTIONS, "PREV", "RETURNED"] + (["LATE"] if self.scope.timing else [])
        meant = self.findings.closest(name, known)
        if name.upper() in ("COUNT", "SUM", "MIN", "MAX", "AVG"):
            helps = ["aggregates stand in COLLECT and in SELECT only; of several values take LEAST or GREATEST"]
        elif name.upper() in a.TimingPrimitive.__members__:
            helps = [f"{name.upper()} is a timing primitive: it stands in conditions, ON … DO …"]
        else:
            helps = [f"did you mean `{meant}`?"] if meant else ["`augury explain E211` lists the functions"]
        self.findings.error(
            "E211",
            f"there is no function `{name}` here",
            expression.function.span,
            "unknown function",
            helps=helps,
        )

    def _bounded_timing(self, expression: s.Call, primitive: a.TimingPrimitive) -> a.Scalar | None:
        bounds = [arg for arg in expression.arguments if isinstance(arg, s.DurationLiteral)]
        if primitive is not a.TimingPrimitive.LATE or len(bounds) != 2 or len(expression.arguments) != 2:
            self.findings.error(
                "E237",
                f"{primitive} takes no arguments"
                if primitive is not a.TimingPrimitive.LATE
                else "LATE takes two durations, the least and the greatest delay",
                expression.span,
                "two durations, or nothing" if primitive is a.TimingPrimitive.LATE else "no brackets",
                helps=["write LATE or LATE(5h, 1d)" if primitive is a.TimingPrimitive.LATE else f"write {primitive}"],
            )
            return None
        least, most = (duration_us(bound.count, bound.unit) for bound in bounds)
        if least > most:
            self.findings.error(
                "E306",
                "the greatest delay lies below the least",
                expression.span,
                "never holds",
                helps=["swap the two durations"],
            )
            return None
        return a.Timing(primitive, least, most, span=expression.span)

    def _previous(self, expression: s.Call) -> a.Scalar | None:
        event_class = self.scope.previous
        if event_class is None:
            self.findings.error(
                "E227",
                f"PREV has no meaning in {self.scope.place}",
                expression.function.span,
                "no event comes before another here",
                helps=["PREV(attribute) looks at the event before, inside a mask of MATCH: Rate[value < PREV(value)]"],
            )
            return None
        match expression.arguments:
            case (s.Name(qualifier=None, name=name),):
                offset = 1
            case (s.Name(qualifier=None, name=name), s.Literal(value=int(offset))) if offset >= 1:
                pass
            case _:
                self.findings.error(
                    "E227",
                    "PREV takes an attribute, and perhaps how many events back, from 1",
                    expression.span,
                    "wrong arguments",
                    helps=["write PREV(value) or PREV(value, 2)"],
                )
                return None
        attribute = event_class.attribute(name.text)
        if attribute is None:
            unknown_attribute(event_class, name, self.findings)
            return None
        return a.Previous(attribute.name, offset, attribute.type, expression.span)

    def _returned(self, expression: s.Call) -> None:
        self.findings.error(
            "E222",
            "RETURNED is a whole argument of a rule in a RULESTRUC, and no part of an expression",
            expression.span,
            "not here",
            helps=["write R1 > R2(RETURNED(R1)), and compute in R2"],
        )


def _as_truth(given: a.Scalar) -> str:
    """How to make a truth value of something else."""
    text = a.dump(given)
    match given.type:
        case _ if isinstance(given, a.Constant):
            return "compare an attribute with it"
        case Int() | BigInt() | Decimal() | Double():
            return f"compare it: {text} > 0"
        case String():
            return f"compare it: {text} = 'value'"
        case Timestamp() | Date():
            return f"compare it: {text} < {given.type} '{_TIME_SHAPES[type(given.type)]}'"
        case _:
            return f"compare it: {text} > 5m"


def _forms(operator: Operator) -> list[str]:
    """What an operator takes, where too few or too many operands are given."""
    return [f"{spelling(operator)} takes {SIGNATURES[operator].takes}"]


def _mended(problem: TypeProblem, operands: Sequence[a.Scalar], operator: Operator | None) -> str | None:
    """What to write for the operand that is blamed; a constant is written anew, anything else is cast."""
    blamed = operands[problem.operand]
    wants_truth = operator in (Operator.AND, Operator.OR, Operator.NOT) or problem.message.startswith("WHEN")
    if wants_truth or (operator is Operator.IF and problem.operand == 0):
        return _as_truth(blamed)
    beside = {type(operand.type) for operand in operands if operand is not blamed}
    match blamed:
        case a.Constant(value=value, type=Int()) if Duration in beside:
            return f"say the unit: {value}s, {value}m, {value}h or {value}d"
        case a.Constant(value=str(text)) if beside & _NUMBERS or (problem.proposal or "").endswith(" AS BIGINT)"):
            return f"write {text}, without quotes" if _is_number(text) else "write a number"
        case a.Constant(value=value, type=Int() | BigInt() | Decimal()) if beside == {String}:
            return f"write '{value}'"
        case _:
            return f"write {problem.proposal}" if problem.proposal else None


def _is_number(value: object) -> bool:
    return re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", str(value)) is not None


def _read_beside_times(operands: Sequence[a.Scalar]) -> list[a.Scalar]:
    """Read string constants as times where another operand is a time: `occTime > '2026-01-01'`."""
    beside = next((o.type for o in operands if isinstance(o.type, Timestamp | Date)), None)
    if beside is None:
        return list(operands)
    return [_as_time(o, beside) for o in operands]


def _as_time(operand: a.Scalar, beside: Timestamp | Date) -> a.Scalar:
    if isinstance(operand, a.Constant) and isinstance(operand.type, String) and isinstance(operand.value, str):
        for wanted in (beside, TIMESTAMP, DATE):
            if (value := _read_time(operand.value, wanted)) is not None:
                return a.Constant(value, wanted, operand.span)
    return operand

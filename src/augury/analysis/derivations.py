"""The clauses around MATCH and COMPOSITE: the history they run over, filters, choice, and what feeds the attributes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from augury.algebra import composite as c
from augury.algebra import expression as e
from augury.algebra.operators import FUNCTIONS, castable
from augury.algebra.scalar import Field, Scalar, dump
from augury.analysis.composite import bound_variables, graph_keys, lower_composite
from augury.analysis.declarations import Declarations, Names, enumerated, find_class, fits, listed, unknown
from augury.analysis.match import lower_match
from augury.analysis.references import VariableTable
from augury.analysis.scalars import Scope, lower_condition, lower_scalar
from augury.analysis.scopes import constituent_scope
from augury.analysis.variables import (
    bind_variables,
    bound_at_the_top,
    constituent_classes,
    refuse_undecidable,
    warn_of_other_values,
)
from augury.clock import duration_us
from augury.diagnostics import Findings, Mark, Span
from augury.event import TIME_ATTRIBUTES, Attribute, EventClass, key_of
from augury.language import syntax as s
from augury.types import (
    BIGINT,
    DOUBLE,
    NUMERIC_SCALE_DEFAULT,
    PRECISION_MAX,
    BigInt,
    Decimal,
    Double,
    Int,
    Null,
    Type,
    common_type,
    with_article,
)

AGGREGATES = ("COUNT", "SUM", "MIN", "MAX", "AVG")


@dataclass(frozen=True, slots=True)
class Bound:
    """What the clauses of a class may speak of: bound variables and the classes of constituents.

    `hidden` are the variables and classes that stand under negations only.
    """

    variables: Mapping[str, tuple[str, Type]]
    hidden: Collection[str]
    classes: Mapping[str, EventClass]

    def scope(self, place: str, findings: Findings) -> Scope:
        """Names in a clause."""
        return constituent_scope(place, self.variables, self.classes, findings, self.hidden)


def _bound(
    variables: Mapping[str, tuple[str, Type]],
    table: VariableTable,
    used: Mapping[str, EventClass],
    there: frozenset[str],
) -> Bound:
    classes = {key: cls for key, cls in used.items() if cls.name in there}
    hidden = {*(key for key in table.first if key not in variables), *(key for key in used if key not in classes)}
    return Bound(variables, hidden, classes)


def match_plan(
    source: s.MatchSource, target: EventClass, tables: Declarations, findings: Findings
) -> tuple[e.MatchPlan, tuple[str, ...]] | None:
    """A MATCH class and the classes it reads."""
    clauses = source.clauses
    if clauses.context is not None:
        findings.error(
            "E116",
            "CONTEXT belongs to COMPOSITE",
            clauses.context.span,
            "this is a MATCH",
            helps=["a MATCH takes COLLECT RECENT, EARLIEST or ALL"],
        )
    lowered = lower_match(source.expression, tables, findings)
    if lowered is None:
        return None
    expression = bind_variables(lowered.expression, lowered.variables, findings)
    refuse_undecidable(expression, findings)
    warn_of_other_values(expression, source.expression.span, findings)
    top = bound_at_the_top(expression)
    variables = {key_of(v.name): (v.name, v.type) for v in top}
    bound = _bound(variables, lowered.variables, lowered.classes, constituent_classes(expression))
    choice, aggregates = _collect(clauses.collect, bound, findings)
    feeds = _feeds(target, clauses.returned, aggregates, bound, findings)
    plan = e.MatchPlan(
        expression,
        _over(clauses.over, lowered.classes, source.span, tables, findings),
        _partition(clauses.partition_by, lowered.classes, findings),
        _by_occurrence(clauses.order_by),
        _where(clauses.where, bound, findings),
        _within_us(clauses.within),
        choice,
        feeds,
    )
    return plan, _reads(lowered.classes, plan.over)


def composite_plan(
    source: s.CompositeSource, target: EventClass | None, tables: Declarations, findings: Findings
) -> tuple[c.CompositePlan, tuple[str, ...]] | None:
    """A COMPOSITE class, or the expression of a trigger (no target), and the classes it reads."""
    clauses = source.clauses
    if clauses.collect is not None:
        findings.error(
            "E116",
            "COLLECT belongs to MATCH",
            clauses.collect.span,
            "this is a COMPOSITE",
            helps=["a COMPOSITE takes a CONTEXT, e.g. CONTEXT CUMULATIVE"],
        )
    context = _context(clauses.context, findings)
    lowered = lower_composite(source.expression, clauses.within, tables, findings)
    if lowered is None:
        return None
    keys = graph_keys(lowered.expression, lowered.variables, findings)
    bound_here = bound_variables(lowered.expression, lowered.variables)
    variables = {key_of(v.name): (v.name, v.type) for v in bound_here}
    bound = _bound(variables, lowered.variables, lowered.classes, c.constituent_classes(lowered.expression))
    feeds = () if target is None else _feeds(target, clauses.returned, {}, bound, findings)
    if target is None and clauses.returned:
        findings.error(
            "E116",
            "RETURN belongs to a class",
            clauses.returned[0].span.to(clauses.returned[-1].span),
            "this is a trigger",
            helps=["a trigger hands values to rules: RULESTRUC R1(Class.attribute)"],
        )
    plan = c.CompositePlan(
        lowered.expression,
        context,
        keys,
        _over(clauses.over, lowered.classes, source.span, tables, findings),
        _partition(clauses.partition_by, lowered.classes, findings),
        _by_occurrence(clauses.order_by),
        _where(clauses.where, bound, findings),
        _within_us(clauses.within),
        feeds,
    )
    return plan, _reads(lowered.classes, plan.over)


def _reads(used: Mapping[str, EventClass], over: tuple[str, ...] | None) -> tuple[str, ...]:
    """What has to be derived first: the classes of the expression, and those whose events are in its history."""
    return tuple(dict.fromkeys([*(cls.name for cls in used.values()), *(over or ())]))


def _context(given: s.Ident | None, findings: Findings) -> c.Context:
    if given is None:
        return c.Context.RECENT
    if given.text.upper() not in c.Context.__members__:
        unknown("context", given, list(c.Context), "E216", findings)
        return c.Context.RECENT
    return c.Context(given.text.upper())


def _within_us(within: s.DurationLiteral | None) -> int | None:
    return None if within is None else duration_us(within.count, within.unit)


def _where(where: s.Scalar | None, bound: Bound, findings: Findings) -> Scalar | None:
    return None if where is None else lower_condition(where, bound.scope("WHERE", findings), findings)


def _by_occurrence(order: s.OrderByOccurrence | None) -> e.ByOccurrence | None:
    return None if order is None else e.ByOccurrence(_within_us(order.allowing))


def _over(
    names: tuple[s.Ident, ...] | None,
    used: Mapping[str, EventClass],
    span: Span,
    tables: Declarations,
    findings: Findings,
) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not names:
        helps = ["leave OVER out for the history of all classes"]
        findings.error("E232", "OVER names no class, so nothing can occur", span, "the history is empty", helps=helps)
        return ()
    found = {name.key: cls for name in names if (cls := find_class(name, tables.classes, findings)) is not None}
    missing = [cls.name for key, cls in used.items() if key not in found]
    if missing and len(found) == len({name.key for name in names}):
        findings.error(
            "E232",
            f"OVER leaves out `{missing[0]}`, which the expression names",
            names[0].span.to(names[-1].span),
            "the history is only these",
            helps=[f"add it: OVER ({enumerated([*(cls.name for cls in found.values()), *missing])})"],
        )
    return tuple(cls.name for cls in found.values())


def _partition(names: tuple[s.Ident, ...], used: Mapping[str, EventClass], findings: Findings) -> tuple[str, ...]:
    """Attributes by which the history is cut; every class of the expression has them, with like types."""
    found: list[str] = []
    for name in names:
        attributes = [(cls, cls.attribute(name.text)) for cls in used.values()]
        lacking = next((cls for cls, attribute in attributes if attribute is None), None)
        if lacking is not None:
            findings.error(
                "E231",
                f"`{lacking.name}` has no attribute `{name.text}` to partition by",
                name.span,
                "not in every class",
                others=[Mark(lacking.span, "declared here")],
                helps=["share a variable instead: A(I, _), B(I)"],
            )
            continue
        known = [(cls, at) for cls, at in attributes if at is not None]
        other = next((k for k in known if common_type(known[0][1].type, k[1].type) is None), None)
        if other is not None:
            findings.error(
                "E231",
                f"`{name.text}` has types that cannot be compared",
                name.span,
                "of one type in every class",
                others=[Mark(at.span, f"{with_article(at.type)} in `{cls.name}`") for cls, at in (known[0], other)],
                helps=["declare it alike in both classes"],
            )
        found.append(next((at.name for _, at in attributes if at is not None), name.text))
    return tuple(found)


def _collect(
    collect: s.Collect | None, bound: Bound, findings: Findings
) -> tuple[e.Choice, dict[str, tuple[s.Ident, e.Aggregate | None]]]:
    """The choice, and the aggregates by the attribute they feed; None for one with a mistake in it."""
    if collect is None:
        return e.Choice.RECENT, {}
    if collect.choice is not None:
        if collect.choice.text.upper() not in e.Choice.__members__:
            unknown("COLLECT choice", collect.choice, list(e.Choice), "E216", findings)
            return e.Choice.RECENT, {}
        return e.Choice(collect.choice.text.upper()), {}
    aggregates: dict[str, tuple[s.Ident, e.Aggregate | None]] = {}
    for item in collect.aggregates:
        aggregate = _aggregate(item, bound, findings)
        if item.name.key in aggregates:
            _given_twice(item.name, aggregates[item.name.key][0].span, findings)
        else:
            aggregates[item.name.key] = (item.name, aggregate)
    return e.Choice.ALL, aggregates


def _aggregate(item: s.Returned, bound: Bound, findings: Findings) -> e.Aggregate | None:
    call = item.expression
    assert isinstance(call, s.Call), "the grammar takes calls only"
    function = call.function.text.upper()
    if function not in AGGREGATES:
        findings.error(
            "E233",
            f"there is no aggregate `{call.function.text}`",
            call.function.span,
            "unknown aggregate",
            helps=[listed(AGGREGATES), *(["use it in RETURN instead"] if function in FUNCTIONS else [])],
        )
        return None
    if function == "COUNT" and call.star:
        return e.Aggregate("COUNT", None, BIGINT, call.span)
    if len(call.arguments) != 1:
        given = "`*` is no value" if call.star else f"{len(call.arguments) or 'none'} given"
        form = f"write {function}(x)" + (" or COUNT(*)" if function == "COUNT" else "")
        several = "; of several values take GREATEST or LEAST" if len(call.arguments) > 1 else ""
        findings.error("E233", f"{function} takes one value", call.span, given, helps=[form + several])
        return None
    operand = lower_scalar(call.arguments[0], bound.scope("COLLECT", findings), findings)
    if operand is None:
        return None
    result = aggregate_type(function, operand.type)
    if result is None:
        findings.error(
            "E233",
            f"{function} takes numbers; here {operand.type}",
            call.arguments[0].span,
            with_article(operand.type),
            helps=[f"write {function}(CAST({dump(operand)} AS DOUBLE))"] if castable(operand.type, DOUBLE) else [],
        )
        return None
    return e.Aggregate(function, operand, result, call.span)


def aggregate_type(function: str, operand: Type) -> Type | None:
    """What an aggregate gives; None where it does not take such values."""
    if function == "COUNT":
        return BIGINT
    if function in ("MIN", "MAX"):
        return operand
    match operand:
        case Int() | BigInt() | Null():
            return BIGINT if function == "SUM" else DOUBLE
        case Decimal(scale=scale):
            return Decimal(
                PRECISION_MAX,
                scale if function == "SUM" else max(scale, min(scale + 4, NUMERIC_SCALE_DEFAULT)),
            )
        case Double():
            return DOUBLE
        case _:
            return None


def _feeds(
    target: EventClass,
    returned: Sequence[s.Returned],
    aggregates: Mapping[str, tuple[s.Ident, e.Aggregate | None]],
    bound: Bound,
    findings: Findings,
) -> tuple[e.Feed, ...]:
    """One entry per attribute: RETURN, COLLECT, the variable of that name, or NULL."""
    values: dict[str, tuple[Span, Scalar | e.Aggregate | None]] = {}
    for key, (ident, aggregate) in aggregates.items():
        if _is_target(ident, target, values, findings):
            values[key] = (ident.span if aggregate is None else aggregate.span, aggregate)
    for item in returned:
        lowered = lower_scalar(item.expression, bound.scope("RETURN", findings), findings)
        if _is_target(item.name, target, values, findings):
            values[item.name.key] = (item.span, lowered)
    feeds = []
    for attribute in target.attributes:
        key = key_of(attribute.name)
        if key not in values and key in bound.variables:
            name, kind = bound.variables[key]
            values[key] = (attribute.span, Field("", name, kind, attribute.span))
        span, value = values.get(key, (attribute.span, None))
        if value is not None:
            check_fit(attribute, value, span, findings)
        elif key not in values:
            _warn_of_null(attribute, target, bound, findings)
        feeds.append(e.Feed(attribute.name, value))
    return tuple(feeds)


def check_fit(attribute: Attribute, value: Scalar | e.Aggregate, span: Span, findings: Findings) -> None:
    """Report a value whose type an attribute cannot hold."""
    given, wanted = value.type, attribute.type
    if fits(given, wanted):
        return
    by_name = attribute.span == span
    cast = ""
    if not isinstance(value, e.Aggregate) and castable(given, wanted):
        cast = f", or write RETURN CAST({dump(value)} AS {wanted}) AS {attribute.name}"
    findings.error(
        "E240",
        f"`{attribute.name}` is {with_article(wanted)}, which {with_article(given)} does not fit",
        span,
        f"it takes the variable of this name, {with_article(given)}" if by_name else f"this is {with_article(given)}",
        others=[] if by_name else [Mark(attribute.span, f"declared as {wanted}")],
        helps=[f"declare it as {given}{cast}"],
    )


def _is_target(name: s.Ident, target: EventClass, taken: Mapping[str, tuple[Span, object]], findings: Findings) -> bool:
    if name.key in TIME_ATTRIBUTES or target.attribute(name.text) is None:
        names = Names(target.attributes)
        extra = "" if names else f"`{target.name}` has no attributes: declare it there"
        what = f"attribute of `{target.name}` called"
        unknown(what, name, names, "E230", findings, label="unknown attribute", extra=extra)
        return False
    if name.key in taken:
        _given_twice(name, taken[name.key][0], findings)
        return False
    return True


def _given_twice(name: s.Ident, before: Span, findings: Findings) -> None:
    findings.error(
        "E230",
        f"`{name.text}` is given a value twice",
        name.span,
        "again here",
        others=[Mark(before, "first here")],
        helps=["leave one of them out"],
    )


def _warn_of_null(attribute: Attribute, target: EventClass, bound: Bound, findings: Findings) -> None:
    owner = next((cls.name for cls in bound.classes.values() if cls.attribute(attribute.name) is not None), None)
    example = f"{owner}.{attribute.name}" if owner else "expression"
    hidden = key_of(attribute.name) in bound.hidden
    findings.warning(
        "W304",
        f"`{attribute.name}` of `{target.name}` is always NULL",
        attribute.span,
        "its variable stands under a negation only" if hidden else "no variable of this name, and no RETURN",
        helps=[f"give it a value: RETURN {example} AS {attribute.name}"],
    )

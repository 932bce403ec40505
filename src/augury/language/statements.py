"""Reductions of the grammar → statements: the upper part of the builder, over `wiring` and `builder`.

Same conventions. Here the order of clauses is checked, and a statement's own required parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lark import Token

from augury.diagnostics import Span
from augury.language import syntax as s
from augury.language.builder import Part, duration_literal, refuse, whole_number
from augury.language.lexer import unquote
from augury.language.wiring import WiringBuilder, in_order
from augury.types import TYPE_NAMES

CLAUSE_ORDER = (
    "OVER",
    "PARTITION BY",
    "ORDER BY OCCURRENCE",
    "WHERE",
    "WITHIN",
    "COLLECT",
    "CONTEXT",
    "RETURN",
)
_TYPE_WORDS = frozenset(name.casefold() for name in TYPE_NAMES)


class Builder(WiringBuilder):
    """Makes statements out of expressions, clauses and lists."""

    # ---- classes

    def mutability(self, span: Span, token: Token) -> Part:
        return Part("mutable", token.type == "MUTABLE", span)

    def attributes(self, span: Span, *attributes: s.Attribute) -> Part:
        return Part("attributes", attributes, span)

    def attribute(self, span: Span, name: s.Ident, type_ref: s.TypeRef) -> s.Attribute:
        return s.Attribute(name, type_ref, span)

    def key(self, span: Span, names: Part) -> Part:
        return Part("key", names.value, span)

    def lifespan(self, span: Span, *parts: Token) -> s.Lifespan:
        if parts[0].type == "DURATION":
            return duration_literal(parts[0])
        if whole_number(parts[1], "the lifespan") != 1:
            raise refuse(
                "E111",
                f"a lifespan is a duration or -1, not -{parts[1].value}",
                Span(parts[0].start_pos or 0, parts[1].end_pos or 0),
                "neither",
                "write e.g. LIFESPAN (5d); LIFESPAN (-1) means for ever",
            )
        return s.Forever(span)

    def subscribed_class(
        self,
        span: Span,
        mutable: Part,
        name: s.Ident,
        attributes: Part,
        key: Part,
        lifespan: s.Lifespan,
        ons: Part,
    ) -> s.SubscribedClass:
        return s.SubscribedClass(name, mutable.value, attributes.value, key.value, lifespan, ons.value, span)

    def complex_class(
        self,
        span: Span,
        name: s.Ident,
        attributes: Part,
        key: Part,
        lifespan: s.Lifespan | None,
        source: Any,
        ons: Part,
    ) -> s.ComplexClass:
        return s.ComplexClass(name, attributes.value, key.value, lifespan, source, ons.value, span)

    def clock_class(
        self, span: Span, name: s.Ident, schedule: Part, lifespan: s.Lifespan | None, ons: Part
    ) -> s.ClockClass:
        cron, zone, every = schedule.value
        return s.ClockClass(name, cron, zone, every, lifespan, ons.value, span)

    def cron_schedule(self, span: Span, _at: Token, cron: Token, *zone: Token | None) -> Part:
        zones = [self._text(token) for token in zone if token is not None]
        return Part("schedule", (self._text(cron), zones[0] if zones else None, None), span)

    def every_schedule(self, span: Span, every: Token) -> Part:
        return Part("schedule", (None, None, duration_literal(every)), span)

    @staticmethod
    def _text(token: Token) -> s.Literal:
        return s.Literal(unquote(token.value), Span(token.start_pos or 0, token.end_pos or 0))

    # ---- derivations and their clauses

    def select_source(self, span: Span, sql: Token, *rest: Any) -> s.SelectSource:
        sql_span = Span(sql.start_pos or 0, sql.end_pos or 0)
        occurring_at = next((part for part in rest if part is not None and not isinstance(part, Token)), None)
        if occurring_at is None:
            raise refuse(
                "E106",
                "nothing says when the events of this SELECT occur",
                Span(sql_span.end, sql_span.end),
                "expected OCCURRING AT before the end of the statement",
                "write e.g. OCCURRING AT occTime after the SELECT and before any ON",
            )
        return s.SelectSource(str(sql.value), occurring_at, sql_span, span)

    def match_source(self, span: Span, expression: s.MatchExpression, *clauses: Part) -> s.MatchSource:
        return s.MatchSource(expression, _clauses(clauses), span)

    def composite_source(self, span: Span, expression: s.CompositeExpression, *clauses: Part) -> s.CompositeSource:
        return s.CompositeSource(expression, _clauses(clauses), span)

    def over_clause(self, span: Span, names: Part) -> Part:
        return Part("OVER", names.value, span)

    def partition_clause(self, span: Span, *parts: Any) -> Part:
        return Part("PARTITION BY", tuple(p for p in parts if isinstance(p, s.Ident)), span)

    def order_clause(self, span: Span, _by: Token, *allowing: Token | None) -> Part:
        durations = [duration_literal(token) for token in allowing if token is not None]
        order = s.OrderByOccurrence(durations[0] if durations else None, span)
        return Part("ORDER BY OCCURRENCE", order, span)

    def where_clause(self, span: Span, condition: s.Scalar) -> Part:
        return Part("WHERE", condition, span)

    def within_clause(self, span: Span, duration: Token) -> Part:
        return Part("WITHIN", duration_literal(duration), span)

    def collect_choice(self, span: Span, choice: s.Ident) -> Part:
        return Part("COLLECT", s.Collect(choice, (), span), span)

    def collect_aggregates(self, span: Span, *aggregates: s.Returned) -> Part:
        return Part("COLLECT", s.Collect(None, aggregates, span), span)

    def context_clause(self, span: Span, context: s.Ident) -> Part:
        return Part("CONTEXT", context, span)

    def return_clause(self, span: Span, *returned: s.Returned) -> Part:
        return Part("RETURN", returned, span)

    def returned(self, span: Span, expression: s.Scalar, name: s.Ident) -> s.Returned:
        return s.Returned(expression, name, span)

    # ---- conditions and actions

    def action(self, span: Span, post: Token | None, name: s.Ident, arguments: Part) -> s.ActionCall:
        return s.ActionCall(name, arguments.value, post is not None, span)

    def arguments(self, span: Span, *arguments: s.Scalar) -> Part:
        return Part("arguments", arguments, span)

    def on_start(self, span: Span, _on: Token, condition: s.Scalar, action: s.ActionCall) -> s.OnStatement:
        return s.OnStatement(condition, (action,), span)

    def on_more(self, _span: Span, action: s.ActionCall) -> s.ActionCall:
        return action

    def ons(self, span: Span, *items: s.OnStatement | s.ActionCall) -> Part:
        statements: list[s.OnStatement] = []
        for item in items:
            if isinstance(item, s.OnStatement):
                statements.append(item)
            else:
                last = statements[-1]
                statements[-1] = s.OnStatement(last.condition, (*last.actions, item), last.span.to(item.span))
        return Part("ons", tuple(statements), span) if statements else Part("ons", (), None)  # type: ignore[arg-type]

    # ---- the small statements

    def setting_value(self, span: Span, token: Token) -> s.Literal | s.DurationLiteral:
        match token.type:
            case "DURATION":
                return duration_literal(token)
            case "STRING":
                return s.Literal(unquote(token.value), span)
            case "NUMBER":
                return s.Literal(whole_number(token, "a setting"), span)
            case _:
                return s.Literal(token.type in ("ON", "TRUE"), span)

    def set_statement(self, span: Span, *parts: Any) -> s.SetStatement:
        *words, value = parts
        # No user chooses the name of a setting: it is a keyword, if one that only the analysis knows.
        return s.SetStatement(tuple(s.Ident(word.text.upper(), word.span) for word in words), value, span)

    def set_without_value(self, _span: Span, setting: s.Ident, other: Token) -> s.SetStatement:
        raise refuse(
            "E105",
            f"`{unquote(other.value)}` is not a value of `{setting.text.upper()}`",
            Span(other.start_pos or 0, other.end_pos or 0),
            "expected a duration, a number, a string, ON or OFF",
            "write e.g. SET CHRONON 15m; SET ARCHIVE ON; SET HISTORY RETAIN 30d;",
        )

    def definition(
        self, span: Span, name: s.Ident, parameters: Part | None, _eq: Token, expression: s.MatchExpression
    ) -> s.Definition:
        return s.Definition(name, parameters.value if parameters else (), expression, span)

    def mapping(self, span: Span, foreign: s.Ident, name: s.Ident) -> s.ColumnMapping:
        return s.ColumnMapping(foreign, name, span)

    def source_statement(self, span: Span, event_class: s.Ident, *columns: s.ColumnMapping) -> s.SourceStatement:
        return s.SourceStatement(event_class, columns, span)

    # ---- rules and triggers

    def parameters(self, span: Span, *parameters: s.Attribute) -> Part:
        return Part("parameters", parameters, span)

    def parameter(self, span: Span, first: s.TypeRef, second: s.TypeRef) -> s.Attribute:
        """`name TYPE` or `TYPE name`: the word that is a type is the type."""
        type_first = bool(first.parameters) or (
            first.name.key in _TYPE_WORDS and second.name.key not in _TYPE_WORDS and not second.parameters
        )
        type_ref, name = (first, second) if type_first else (second, first)
        if name.parameters:
            raise refuse(
                "E105",
                "a parameter is a name and a type",
                span,
                "two types",
                "write e.g. amount NUMERIC(10, 2)",
            )
        return s.Attribute(name.name, type_ref, span)

    def condition(self, span: Span, condition: s.Scalar) -> Part:
        return Part("condition", condition, span)

    def action_clause(self, span: Span, *actions: s.ActionCall) -> Part:
        return Part("actions", actions, span)

    def alternative_clause(self, span: Span, *actions: s.ActionCall) -> Part:
        return Part("alternatives", actions, span)

    def rule(
        self,
        span: Span,
        name: s.Ident,
        parameters: Part,
        condition: Part | None,
        actions: Part | None,
        others: Part | None,
    ) -> s.Rule:
        if actions is None and others is None:
            raise refuse(
                "E112",
                f"the rule `{name.text}` does nothing",
                name.span,
                "neither ACTION nor ALTERNATIVEACTION",
                "give it an ACTION or an ALTERNATIVEACTION",
            )
        return s.Rule(
            name,
            parameters.value,
            condition.value if condition else None,
            actions.value if actions else (),
            others.value if others else (),
            span,
        )

    def rule_group(self, span: Span, name: s.Ident, rules: Part) -> s.RuleGroup:
        return s.RuleGroup(name, rules.value, span)

    def trigger_events(self, span: Span, *parts: Any) -> Part:
        return Part("events", tuple(p for p in parts if isinstance(p, s.Ident)), span)

    def composite_event(self, span: Span, expression: s.CompositeExpression, *clauses: Part) -> s.CompositeSource:
        return s.CompositeSource(expression, _clauses(clauses), span)

    def returns(self, span: Span, type_ref: s.TypeRef, rule: s.Ident) -> s.Returns:
        return s.Returns(type_ref, rule, span)

    def rule_call(self, span: Span, name: s.Ident, arguments: Part | None) -> s.RuleCall:
        return s.RuleCall(name, arguments.value if arguments else (), span)

    def one_after(self, span: Span, *steps: Any) -> s.RuleStructure:
        rules = tuple(step for step in steps if not isinstance(step, Token))
        return rules[0] if len(rules) == 1 else s.OneAfterTheOther(rules, span)

    def side_by_side(self, span: Span, *branches: s.RuleStructure) -> s.RuleStructure:
        return branches[0] if len(branches) == 1 else s.SideBySide(branches, span)

    def policy(self, span: Span, _on: Token, policy: s.Ident) -> Part:
        return Part("policy", s.Ident(policy.text.upper(), policy.span), span)

    def rule_structure(self, span: Span, structure: s.RuleStructure, policy: Part | None) -> Part:
        return Part("structure", (structure, policy.value if policy else None), span)

    def trigger(
        self,
        span: Span,
        name: s.Ident,
        parameters: Part,
        events: Part | None,
        composite: s.CompositeSource | None,
        structure: Part,
        returns: s.Returns | None,
    ) -> s.Trigger:
        if events is None and composite is None:
            raise refuse(
                "E113",
                f"the trigger `{name.text}` has nothing to wait for",
                name.span,
                "neither TRIGGEREVENT nor COMPOSITEEVENT",
                "give it a TRIGGEREVENT or a COMPOSITEEVENT",
            )
        rules, policy = structure.value
        triggering = events.value if events else ()
        return s.Trigger(name, parameters.value, triggering, composite, rules, policy, returns, span)


def _clauses(parts: Sequence[Part]) -> s.Clauses:
    """Gather clauses; they stand in one order and once each."""
    values = in_order(parts, CLAUSE_ORDER)
    return s.Clauses(
        over=values.get("OVER"),
        partition_by=values.get("PARTITION BY", ()),
        order_by=values.get("ORDER BY OCCURRENCE"),
        where=values.get("WHERE"),
        within=values.get("WITHIN"),
        collect=values.get("COLLECT"),
        context=values.get("CONTEXT"),
        returned=values.get("RETURN", ()),
    )

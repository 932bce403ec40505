"""Reductions of the grammar → BIND and DETECT: the part of the builder between expressions and other statements.

Same conventions as `builder`. Kinds, options and the words after FORWARD and WITHDRAW are taken as they come;
the analysis knows which there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lark import Token

from augury.diagnostics import Diagnostic, Mark, Span
from augury.language import syntax as s
from augury.language.builder import ExpressionBuilder, Misuse, Part, duration_literal
from augury.language.lexer import unquote

DETECT_ORDER = ("EVERY", "ITEMS", "FIELDS", "NEXT", "FORWARD", "WITHDRAW", "WITH")


class WiringBuilder(ExpressionBuilder):
    """Makes the two statements that join a program to the world."""

    def bound(self, span: Span, *actions: s.Ident) -> Part:
        return Part("actions", actions, span)

    def kind(self, span: Span, token: Token) -> s.Ident:
        # No user chooses the name of a kind: it is a keyword, if one that only the analysis knows.
        return s.Ident(unquote(token.value).upper(), span)

    def event_kind(self, span: Span) -> s.Ident:
        return s.Ident("EVENT", span)

    def bind(self, span: Span, actions: Part, kind: s.Ident, *rest: Any) -> s.Binding:
        *target, options = rest
        return s.Binding(actions.value, kind, tuple(target), None, _value(options), span)

    def bind_to_event(
        self, span: Span, actions: Part, kind: s.Ident, event_class: s.Ident, options: Part | None
    ) -> s.Binding:
        return s.Binding(actions.value, kind, (), event_class, _value(options), span)

    def from_environment(self, span: Span, token: Token) -> s.FromEnvironment:
        return s.FromEnvironment(unquote(token.value), span)

    def detector_name(self, _span: Span, name: s.Ident) -> s.Ident:
        return name

    def detect(
        self, span: Span, event_class: s.Ident, detector: s.Ident | None, kind: s.Ident, source: s.Text, *clauses: Part
    ) -> s.Detection:
        values = in_order(clauses, DETECT_ORDER)
        found = s.DetectClauses(
            every=values.get("EVERY"),
            items=values.get("ITEMS"),
            fields=values.get("FIELDS", ()),
            next_page=values.get("NEXT"),
            forward=values.get("FORWARD"),
            withdraw=values.get("WITHDRAW"),
            options=values.get("WITH", ()),
        )
        return s.Detection(event_class, detector, kind, source, found, span)

    def every_clause(self, span: Span, every: Token) -> Part:
        return Part("EVERY", duration_literal(every), span)

    def items_clause(self, span: Span, items: Token) -> Part:
        return Part("ITEMS", _literal(items), span)

    def fields_clause(self, span: Span, *fields: s.FieldPath) -> Part:
        return Part("FIELDS", fields, span)

    def next_clause(self, span: Span, next_page: Token) -> Part:
        return Part("NEXT", _literal(next_page), span)

    def forward_clause(self, span: Span, word: s.Ident) -> Part:
        return Part("FORWARD", s.Ident(word.text.upper(), word.span), span)

    def withdraw_clause(self, span: Span, word: s.Ident) -> Part:
        return Part("WITHDRAW", s.Ident(word.text.upper(), word.span), span)

    def last_clause(self, _span: Span, options: Part) -> Part:
        return options

    def with_clause(self, span: Span, *options: s.Option) -> Part:
        return Part("WITH", options, span)

    def field(self, span: Span, name: s.Ident, _eq: Token, path: Token) -> s.FieldPath:
        return s.FieldPath(name, _literal(path), span)

    def option(
        self, span: Span, name: s.Ident, _eq: Token, value: s.Literal | s.DurationLiteral | s.FromEnvironment
    ) -> s.Option:
        return s.Option(name, value, span)


def in_order(parts: Sequence[Part], order: Sequence[str]) -> dict[str, Any]:
    """What clauses hold, by their kind; they stand in one order and once each."""
    seen: dict[str, Part] = {}
    for part in parts:
        if part.kind in seen:
            before = Mark(seen[part.kind].span, "first given here")
            again = Mark(part.span, "again here")
            helps = ("leave one of them out",)
            raise Misuse(Diagnostic("E104", f"{part.kind} is given twice", again, (before,), helps))
        late = next((k for k in seen if order.index(k) > order.index(part.kind)), None)
        if late is not None:
            raise Misuse(
                Diagnostic(
                    "E104",
                    f"{part.kind} has to come before {late}",
                    Mark(part.span, "too late"),
                    (Mark(seen[late].span, f"put {part.kind} before this"),),
                    ("the order is " + ", ".join(order),),
                )
            )
        seen[part.kind] = part
    return {kind: part.value for kind, part in seen.items()}


def _value(options: Part | None) -> tuple[s.Option, ...]:
    return () if options is None else options.value


def _literal(token: Token) -> s.Literal:
    return s.Literal(unquote(token.value), Span(token.start_pos or 0, token.end_pos or 0))

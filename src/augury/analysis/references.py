"""How an event of a class is written inside MATCH and COMPOSITE: arguments become bindings, masks become typed.

Shared by `match` and `composite`; what a name among the arguments stands for is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from augury.algebra.expression import Anything, Binding, Primitive, Variable
from augury.algebra.scalar import Constant, Scalar, dump
from augury.analysis.declarations import Names, enumerated, fits
from augury.analysis.scalars import literal_constant, lower_condition, typed_constant
from augury.analysis.scopes import mask_scope
from augury.diagnostics import Findings, Mark, Span
from augury.event import Attribute, EventClass
from augury.language import syntax as s
from augury.types import String, Type, common_type, with_article

ArgumentOf = Callable[[s.Argument], "s.Argument | tuple[str, str]"]
"""Follows an argument through definitions: a constant or `_`, or the unique key and the spelling of a variable."""


@dataclass(slots=True)
class VariableTable:
    """The attribute variables met so far: their types over all places, and where the first place was."""

    types: dict[str, Type] = field(default_factory=dict)
    first: dict[str, Variable] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)

    def meet(self, key: str, name: str, attribute: Attribute, span: Span, findings: Findings) -> Variable:
        """Note one more place of a variable; all its places need comparable types."""
        variable = Variable(name, attribute.type, span)
        before = self.types.get(key)
        self.places[key] = self.places.get(key, 0) + 1
        if before is None:
            self.types[key] = attribute.type
            self.first[key] = variable
            return variable
        common = common_type(before, attribute.type)
        if common is None:
            findings.error(
                "E229",
                f"the variable `{name}` stands for {with_article(before)} and for {with_article(attribute.type)}",
                span,
                f"`{attribute.name}` is {with_article(attribute.type)}",
                others=[Mark(self.first[key].span, f"here it is {with_article(before)}")],
                helps=["use two variables and compare them in WHERE with a CAST"],
            )
        else:
            self.types[key] = common
        return Variable(self.first[key].name, attribute.type, span)


def primitive(
    ref: s.EventRef, event_class: EventClass, follow: ArgumentOf, variables: VariableTable, findings: Findings
) -> Primitive:
    """An event of a class, with its arguments bound and its mask typed."""
    bindings: tuple[Binding, ...] = ()
    if ref.arguments is not None:
        bindings = _bindings(ref, ref.arguments, event_class, follow, variables, findings)
    mask = None
    if ref.mask is not None:
        mask = lower_condition(ref.mask, mask_scope(event_class, findings), findings)
    return Primitive(event_class.name, bindings, mask, ref.span)


def _bindings(
    ref: s.EventRef,
    arguments: Sequence[s.Argument],
    event_class: EventClass,
    follow: ArgumentOf,
    variables: VariableTable,
    findings: Findings,
) -> tuple[Binding, ...]:
    expected = event_class.attributes
    if len(arguments) != len(expected):
        names = enumerated(Names(expected))
        shown = [_written(argument) for argument in arguments[: len(expected)]]
        pattern = enumerated([*shown, *("_" for _ in expected[len(shown) :])])
        why = "`_` is for an attribute that does not matter: " if len(shown) < len(expected) else ""
        findings.error(
            "E206",
            f"`{event_class.name}` has {counted(len(expected), 'attribute')}, but {len(arguments)} "
            f"{'is' if len(arguments) == 1 else 'are'} given here",
            ref.span,
            f"its attributes are ({names})" if names else "it has none",
            others=[Mark(event_class.span, "declared here")],
            helps=[f"{why}write {event_class.name}" + (f"({pattern})" if pattern else "")],
        )
        findings = Findings()  # what is given is bound as far as it goes, so that nothing else seems to be missing
    return tuple(
        _binding(argument, attribute, event_class, follow, variables, findings)
        for argument, attribute in zip(arguments, expected, strict=False)
    )


def _binding(
    argument: s.Argument,
    attribute: Attribute,
    event_class: EventClass,
    follow: ArgumentOf,
    variables: VariableTable,
    findings: Findings,
) -> Binding:
    target = follow(argument)
    match target:
        case (str(), str()):
            key, name = target
            return variables.meet(key, name, attribute, argument.span, findings)
        case s.Wildcard():
            return Anything()
        case s.MatchApply(operator=s.MatchOperator.NULL):
            return Constant(None, attribute.type, argument.span)
        case s.Literal() | s.TypedLiteral():
            return _constant(target, attribute, argument.span, findings)
        case _:
            findings.error(
                "E228",
                f"an argument of `{event_class.name}` is a variable, a constant or `_`",
                argument.span,
                "this is an expression",
                helps=[f"put a condition on `{attribute.name}` into a mask: {event_class.name}[…]"],
            )
            return Anything()


def _constant(literal: s.Literal | s.TypedLiteral, attribute: Attribute, span: Span, findings: Findings) -> Binding:
    if isinstance(literal, s.TypedLiteral):
        constant = typed_constant(literal, findings)
    else:
        constant = literal_constant(literal, findings, attribute.type)
    if constant is None:
        return Anything()
    if not fits(constant.type, attribute.type):
        text = quoted(constant, attribute.type)
        findings.error(
            "E228",
            f"`{attribute.name}` is {with_article(attribute.type)}, which {with_article(constant.type)} does not fit",
            span,
            f"this is {with_article(constant.type)}",
            others=[Mark(attribute.span, "declared here")],
            helps=[text or f"write {with_article(attribute.type)}, a variable or `_`"],
        )
        return Anything()
    return constant


def _written(argument: s.Argument) -> str:
    return argument.name.text if isinstance(argument, s.EventRef) and argument.arguments is None else "_"


def quoted(value: Scalar, wanted: Type) -> str | None:
    """A proposal for a number that stands where a string is wanted."""
    is_number = isinstance(value, Constant) and isinstance(value.value, int | float | Decimal)
    return f"write '{dump(value)}'" if is_number and isinstance(wanted, String) else None


def counted(number: int, noun: str) -> str:
    """`no attributes`, `1 attribute`, `2 attributes`."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"

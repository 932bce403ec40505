"""What names mean in a mask, in WHERE and RETURN, in a condition, in a rule and in a trigger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from augury.algebra import scalar as a
from augury.analysis.declarations import Names, enumerated, listed, unknown_attribute
from augury.analysis.scalars import Scope
from augury.diagnostics import Findings
from augury.event import Attribute, EventClass, key_of
from augury.language import syntax as s
from augury.types import Type

_TIMING = tuple(a.TimingPrimitive)


def mask_scope(event_class: EventClass, findings: Findings) -> Scope:
    """Inside `A[…]`: the attributes of A."""

    def resolve(name: s.Name) -> a.Scalar | None:
        if name.qualifier is not None and name.qualifier.key != key_of(event_class.name):
            findings.error(
                "E214",
                f"a mask sees the attributes of its own class only, not those of `{name.qualifier.text}`",
                name.qualifier.span,
                f"not `{event_class.name}`",
                helps=["compare attributes of several events in WHERE"],
            )
            return None
        attribute = event_class.attribute(name.name.text)
        if attribute is None:
            is_timing = name.name.text.upper() in a.TimingPrimitive.__members__
            extra = f"{name.name.text.upper()} stands in conditions: ON … DO …" if is_timing else ""
            unknown_attribute(event_class, name.name, findings, extra=extra)
            return None
        return a.Field("", attribute.name, attribute.type, name.span)

    return Scope("a mask", resolve, previous=event_class)


def constituent_scope(
    place: str,
    variables: Mapping[str, tuple[str, Type]],
    classes: Mapping[str, EventClass],
    findings: Findings,
    hidden: Collection[str] = (),
    *,
    now: bool = False,
) -> Scope:
    """WHERE, RETURN, COLLECT and rule arguments: bound variables (or parameters), and `Class.attr` of constituents."""

    def resolve(name: s.Name) -> a.Scalar | None:
        if name.qualifier is not None:
            return _constituent(name.qualifier, name, classes, hidden, findings)
        found = variables.get(name.name.key)
        if found is not None:
            return a.Field("", found[0], found[1], name.span)
        helps = []
        owner = next((c.name for c in classes.values() if c.attribute(name.name.text) is not None), None)
        if name.name.key in hidden:
            helps.append(f"`{name.name.text}` stands under a negation only, so it has no value here")
        elif owner is not None:
            helps.append(f"did you mean `{owner}.{name.name.text}`?")
        elif (meant := findings.closest(name.name.text, (spelling for spelling, _ in variables.values()))) is not None:
            helps.append(f"did you mean `{meant}`?")
        elif variables:
            helps.append(listed([spelling for spelling, _ in variables.values()]))
        elif (example := next((c for c in classes.values() if c.attributes), None)) is not None:
            helps.append(f"name an attribute of a class: {example.name}.{example.attributes[0].name}")
        findings.error(
            "E214",
            f"there is no variable `{name.name.text}` in {place}",
            name.span,
            "unknown variable",
            helps=helps,
        )
        return None

    return Scope(place, resolve, now=now)


def _constituent(
    qualifier: s.Ident,
    name: s.Name,
    classes: Mapping[str, EventClass],
    hidden: Collection[str],
    findings: Findings,
) -> a.Scalar | None:
    event_class = classes.get(qualifier.key)
    if event_class is None and qualifier.key in hidden:
        findings.error(
            "E214",
            f"`{qualifier.text}` stands under a negation only, so none of its events is a constituent",
            qualifier.span,
            "never a constituent",
            helps=[f"put a condition on it into a mask: !{qualifier.text}[…]"],
        )
        return None
    if event_class is None:
        meant = findings.closest(qualifier.text, Names(classes.values()))
        named = enumerated(Names(classes.values()))
        findings.error(
            "E214",
            f"`{qualifier.text}` is not a class of this expression" if named else "no class can be named here",
            qualifier.span,
            "no such class here",
            helps=[f"did you mean `{meant}`?" if meant else f"its classes are {named}" if named else "leave it out"],
        )
        return None
    attribute = event_class.attribute(name.name.text)
    if attribute is None:
        unknown_attribute(event_class, name.name, findings)
        return None
    return a.Field(event_class.name, attribute.name, attribute.type, name.span)


def condition_scope(event_class: EventClass, findings: Findings) -> Scope:
    """`ON … DO …`: NEW.x, OLD.x, NOW and the timing primitives."""

    def resolve(name: s.Name) -> a.Scalar | None:
        if name.qualifier is None:
            return _bare(name)
        version = name.qualifier.text.upper()
        if version not in ("NEW", "OLD"):
            findings.error(
                "E213",
                f"a condition sees NEW and OLD, not `{name.qualifier.text}`",
                name.qualifier.span,
                "neither NEW nor OLD",
                helps=[f"write NEW.{name.name.text} or OLD.{name.name.text}"],
            )
            return None
        attribute = event_class.attribute(name.name.text)
        if attribute is None:
            unknown_attribute(event_class, name.name, findings)
            return None
        return a.Field(version, attribute.name, attribute.type, name.span)

    def _bare(name: s.Name) -> a.Scalar | None:
        text = name.name.text
        if event_class.attribute(text) is not None:
            findings.error(
                "E213",
                f"say which version's `{text}` is meant",
                name.span,
                "NEW or OLD?",
                helps=[f"write NEW.{text} or OLD.{text}"],
            )
            return None
        meant = findings.closest(text, [*_TIMING, "NOW", *Names(event_class.attributes)])
        is_attribute = meant is not None and event_class.attribute(meant) is not None
        findings.error(
            "E212",
            f"there is no timing primitive `{text}`",
            name.span,
            "unknown timing primitive",
            helps=[f"did you mean `{'NEW.' if is_attribute else ''}{meant}`?" if meant else listed(_TIMING)],
        )
        return None

    return Scope("a condition", resolve, now=True, timing=True)


def rule_scope(parameters: Sequence[Attribute], rule: str, findings: Findings) -> Scope:
    """Inside a rule: its parameters."""
    names = {key_of(p.name): (p.name, p.type) for p in parameters}
    return constituent_scope(f"rule `{rule}`", names, {}, findings, now=True)

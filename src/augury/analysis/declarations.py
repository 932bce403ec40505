"""Who is who: the classes, definitions, rules and triggers of a program, their attributes, types and keys.

In: statements. Out: tables by name; every duplicate, unknown type and bad key is reported. No expression is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Protocol, TypeVar

from augury import limits
from augury.clock import duration_us
from augury.diagnostics import Findings, Mark
from augury.event import RESERVED_ATTRIBUTES, TIME_ATTRIBUTES, Attribute, ClassKind, EventClass, key_of
from augury.language import syntax as s
from augury.types import NULL, TYPE_NAMES, BadTypeParameters, Type, assignable, parse_type


class _Named(Protocol):
    """A statement that declares a name."""

    @property
    def name(self) -> s.Ident: ...


_T = TypeVar("_T", bound=_Named)
_TIMES = {"occtime": "occTime", "dettime": "detTime"}
_FOREIGN_TYPES = {
    **dict.fromkeys(("CHAR", "NVARCHAR", "CHARACTER", "CLOB", "UUID", "JSON"), "STRING"),
    **dict.fromkeys(("DATETIME", "TIME", "TIMESTAMPTZ"), "TIMESTAMP"),
    **dict.fromkeys(("TINYINT", "SMALLINT", "BYTE", "SHORT"), "INT"),
    **dict.fromkeys(("NUMBER", "MONEY"), "NUMERIC"),
    **dict.fromkeys(("INT64", "SERIAL", "UNSIGNED"), "BIGINT"),
}
"""Types of other languages, and what to take for them here."""
_NAMES_SHOWN = 20


class Names(Collection[str]):
    """The names of things, looked at only when asked for: most lists of what there is are never read."""

    def __init__(self, *tables: Collection[Attribute | EventClass | s.Rule | s.Definition]) -> None:
        """Hold the things."""
        self._tables = tables

    def __len__(self) -> int:
        return sum(map(len, self._tables))

    def __iter__(self) -> Iterator[str]:
        things = chain.from_iterable(self._tables)
        return (thing.name.text if isinstance(thing.name, s.Ident) else thing.name for thing in things)

    def __contains__(self, name: object) -> bool:
        return any(found == name for found in self)


@dataclass(slots=True)
class Declarations:
    """The tables; keys are names without regard to case."""

    classes: dict[str, EventClass] = field(default_factory=dict)
    class_statements: dict[str, s.EventClassStatement] = field(default_factory=dict)
    definitions: dict[str, s.Definition] = field(default_factory=dict)
    rules: dict[str, s.Rule] = field(default_factory=dict)
    groups: dict[str, s.RuleGroup] = field(default_factory=dict)
    triggers: dict[str, s.Trigger] = field(default_factory=dict)
    sources: dict[str, s.SourceStatement] = field(default_factory=dict)
    bindings: list[s.Binding] = field(default_factory=list)
    detections: list[s.Detection] = field(default_factory=list)
    parameters: dict[str, tuple[Attribute, ...]] = field(default_factory=dict)
    """Of rules, and of triggers under `trigger:` and the name."""
    circular: frozenset[str] = frozenset()
    """The definitions that need themselves, or one that does."""
    parts_left: int = limits.EXPANDED_NODES_MAX
    """How much definitions may still add to the expressions of the program."""


def declare(program: s.Program, findings: Findings) -> Declarations:
    """Fill the tables; of two things with one name the first counts."""
    tables = Declarations()
    for statement in program.statements:
        match statement:
            case s.SubscribedClass() | s.ComplexClass() | s.ClockClass():
                if _first(tables.class_statements, statement, "event class", findings):
                    tables.classes[statement.name.key] = _event_class(statement, findings)
            case s.Definition():
                if _first(tables.definitions, statement, "definition", findings):
                    _check_definition(statement, findings)
            case s.Rule():
                if _first(tables.rules, statement, "rule", findings):
                    tables.parameters[statement.name.key] = _attributes(statement.parameters, "parameter", findings)
            case s.RuleGroup():
                _first(tables.groups, statement, "rule group", findings)
            case s.Trigger():
                if _first(tables.triggers, statement, "trigger", findings):
                    key = "trigger:" + statement.name.key
                    tables.parameters[key] = _attributes(statement.parameters, "parameter", findings)
            case s.SourceStatement(event_class=name):
                if name.key in tables.sources:
                    _twice("source of class", name, tables.sources[name.key].event_class, findings)
                else:
                    tables.sources[name.key] = statement
            case s.Binding():
                tables.bindings.append(statement)
            case s.Detection():
                tables.detections.append(statement)
            case s.SetStatement():
                pass
    for key, definition in tables.definitions.items():
        if key in tables.class_statements:
            findings.error(
                "E201",
                f"`{definition.name.text}` is both a definition and an event class",
                definition.name.span,
                "defined here",
                others=[Mark(tables.class_statements[key].name.span, "declared as a class here")],
                helps=["rename one of them"],
            )
    return tables


def unknown(
    what: str,
    name: s.Ident,
    known: Collection[str],
    code: str,
    findings: Findings,
    *,
    label: str = "",
    extra: str = "",
) -> None:
    """Report a name that nothing has, with the nearest one that something has."""
    meant = findings.closest(name.text, known)
    helps = [f"did you mean `{meant}`?" if meant is not None else listed(known)]
    findings.error(
        code,
        f"there is no {what} `{name.text}`",
        name.span,
        label or f"unknown {what}",
        helps=[text for text in (*helps, extra) if text],
    )


def listed(names: Collection[str]) -> str:
    """Which names there are, unless they are too many to help."""
    if not 1 <= len(names) <= 12:
        return ""
    quoted = [f"`{name}`" for name in names]
    return f"there are {', '.join(quoted[:-1])} and {quoted[-1]}" if len(quoted) > 1 else f"there is only {quoted[0]}"


def enumerated(names: Collection[str], between: str = ", ") -> str:
    """Names one after the other; of very many only the first, or messages would be longer than programs."""
    shown = between.join(islice(names, _NAMES_SHOWN))
    return shown if len(names) <= _NAMES_SHOWN else f"{shown}{between}… ({len(names) - _NAMES_SHOWN:,} more)"


def unknown_attribute(event_class: EventClass, name: s.Ident, findings: Findings, *, extra: str = "") -> None:
    """Report an attribute that a class lacks."""
    names = Names(event_class.attributes)
    has = f"`{event_class.name}` has {enumerated(names) or 'no attributes but occTime and detTime'}"
    meant = findings.closest(name.text, chain(names, TIME_ATTRIBUTES))
    findings.error(
        "E203",
        f"event class `{event_class.name}` has no attribute `{name.text}`",
        name.span,
        "unknown attribute",
        helps=[f"did you mean `{_TIMES.get(meant, meant)}`? {has}" if meant else has, *([extra] if extra else [])],
    )


def find_class(name: s.Ident, classes: Mapping[str, EventClass], findings: Findings) -> EventClass | None:
    """The class of that name, or a report that there is none."""
    found = classes.get(name.key)
    if found is None:
        unknown("event class", name, Names(classes.values()), "E200", findings)
    return found


def resolve_type(ref: s.TypeRef, findings: Findings) -> Type:
    """The type a word stands for; an unknown one is reported and taken for that of NULL, which fits everywhere."""
    word = ref.name.text.upper()
    try:
        found = parse_type(word, ref.parameters)
    except BadTypeParameters as error:
        form = {"NUMERIC": "e.g. NUMERIC(10, 2)", "DECIMAL": "e.g. DECIMAL(10, 2)", "VARCHAR": "e.g. VARCHAR(30)"}
        helps = [f"write {form.get(word, word)}"]
        findings.error("E204", str(error), ref.span, "these parameters do not fit", helps=helps)
        return NULL
    if found is None:
        meant = _FOREIGN_TYPES.get(word) or findings.closest(word, TYPE_NAMES)
        helps = [f"did you mean `{meant}`?"] if meant else ["`augury explain E204` lists the types"]
        findings.error("E204", f"there is no type `{ref.name.text}`", ref.name.span, "unknown type", helps=helps)
        return NULL
    return found


def fits(given: Type, wanted: Type) -> bool:
    """Whether a value may be stored without a CAST; where a type is unknown, that has been reported already."""
    return wanted == NULL or assignable(given, wanted)


def _first(table: dict[str, _T], statement: _T, what: str, findings: Findings) -> bool:
    name = statement.name
    if name.key in table:
        _twice(what, name, table[name.key].name, findings)
        return False
    table[name.key] = statement
    return True


def _twice(what: str, name: s.Ident, before: s.Ident, findings: Findings) -> None:
    findings.error(
        "E201",
        f"{what} `{name.text}` is declared twice",
        name.span,
        "again here",
        others=[Mark(before.span, "first declared here")],
        helps=[_another_name(name, before)],
    )


def _another_name(name: s.Ident, before: s.Ident) -> str:
    case = "" if name.text == before.text else "names are matched without regard to case: "
    return case + "rename one of them, or leave it out"


def _attributes(given: tuple[s.Attribute, ...], what: str, findings: Findings) -> tuple[Attribute, ...]:
    seen: dict[str, s.Attribute] = {}
    for attribute in given:
        name = attribute.name
        if name.key in seen:
            findings.error(
                "E202",
                f"{what} `{name.text}` is declared twice",
                name.span,
                "again here",
                others=[Mark(seen[name.key].name.span, "first declared here")],
                helps=[_another_name(name, seen[name.key].name)],
            )
        elif what == "attribute" and (name.key in RESERVED_ATTRIBUTES or name.key in TIME_ATTRIBUTES):
            findings.error(
                "E225",
                f"`{name.text}` cannot be an attribute: every event has it already",
                name.span,
                "reserved",
                helps=["rename it; reserved are " + ", ".join(sorted(RESERVED_ATTRIBUTES))],
            )
        else:
            seen[name.key] = attribute
    return tuple(Attribute(a.name.text, resolve_type(a.type, findings), a.name.span) for a in seen.values())


def _event_class(statement: s.EventClassStatement, findings: Findings) -> EventClass:
    name = statement.name
    match statement:
        case s.ClockClass(lifespan=lifespan):
            return EventClass(name.text, ClassKind.CLOCK, False, (), (), lifespan_us(lifespan), name.span)
        case s.SubscribedClass(mutable=mutable):
            kind = ClassKind.SUBSCRIBED
        case s.ComplexClass():
            kind, mutable = ClassKind.COMPLEX, True
    attributes = _attributes(statement.attributes, "attribute", findings)
    by_key = {key_of(a.name): a for a in attributes}
    key: dict[str, str] = {}
    for part in statement.key:
        if part.key not in by_key:
            has = enumerated(Names(attributes)) or "no attributes"
            meant = findings.closest(part.text, Names(attributes))
            findings.error(
                "E205",
                f"the key of `{name.text}` names `{part.text}`, which is not among its attributes",
                part.span,
                "not an attribute",
                helps=[f"did you mean `{meant}`?" if meant else f"`{name.text}` has {has}"],
            )
        elif part.key in key:
            message = f"the key of `{name.text}` names `{part.text}` twice"
            findings.error("E226", message, part.span, "again here", helps=["leave it out"])
        else:
            key[part.key] = by_key[part.key].name
    names, microseconds = tuple(key.values()), lifespan_us(statement.lifespan)
    return EventClass(name.text, kind, mutable, attributes, names, microseconds, name.span)


def lifespan_us(lifespan: s.Lifespan | None) -> int | None:
    """The microseconds of a lifespan; None for ever (and where it is to be taken from the constituents)."""
    return duration_us(lifespan.count, lifespan.unit) if isinstance(lifespan, s.DurationLiteral) else None


def _check_definition(definition: s.Definition, findings: Findings) -> None:
    seen: dict[str, s.Ident] = {}
    for parameter in definition.parameters:
        if parameter.key in seen:
            findings.error(
                "E202",
                f"parameter `{parameter.text}` is declared twice",
                parameter.span,
                "again here",
                others=[Mark(seen[parameter.key].span, "first declared here")],
                helps=[_another_name(parameter, seen[parameter.key])],
            )
        seen[parameter.key] = parameter

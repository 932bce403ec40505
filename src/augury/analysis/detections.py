"""DETECT as written → where the events of a class come from.

In: the tables of names. Out: detections whose kind, source, clauses and fields make sense. Nothing is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from augury.algebra.wiring import Detection, Forward, SourceKind
from augury.algebra.wiring_forms import SOURCE_FORMS, Clause, Looks, SourceForm
from augury.analysis.declarations import Declarations, Names, find_class, unknown
from augury.analysis.places import check_places
from augury.analysis.wiring import kind_of, settings_of, texts_of
from augury.clock import duration_us
from augury.diagnostics import Findings, Mark, Span
from augury.event import TIME_ATTRIBUTES, ClassKind, EventClass
from augury.language import syntax as s


def detections(tables: Declarations, findings: Findings) -> tuple[Detection, ...]:
    """All detectors that a program declares; each has a name of its own."""
    named: dict[str, s.Ident] = {}
    found: list[Detection] = []
    for statement in tables.detections:
        name = statement.name
        if name.key in named:
            _named_twice(statement, name, named[name.key], findings)
        named.setdefault(name.key, name)
        detection = _detection(statement, name.text, tables, findings)
        if detection is not None:
            found.append(detection)
    return tuple(found)


def _detection(statement: s.Detection, name: str, tables: Declarations, findings: Findings) -> Detection | None:
    event_class = _subscribed(statement.event_class, tables, findings)
    clauses = statement.clauses
    fields = () if event_class is None else _fields(clauses.fields, event_class, findings)
    forward = _forward(clauses.forward, findings)
    kind = kind_of(statement.kind, SourceKind, "detector", findings)
    if kind is None:
        return None
    form = SOURCE_FORMS[kind]
    _check_clauses(statement, form, findings)
    every_us = _every(statement, form, findings)
    withdraws = _withdraws(statement, form, event_class, findings)
    settings = settings_of(clauses.options, form.options, statement.kind, findings)
    if kind is SourceKind.HTML:
        _require_form(clauses.options, findings)
    check_places(kind, clauses, findings)
    beginning = f"DETECT {statement.event_class.text} FROM"
    texts = texts_of([statement.source], form.target, statement.kind, beginning, findings)
    if event_class is None or texts is None:
        return None
    return Detection(
        name,
        event_class.name,
        kind,
        texts[0],
        every_us,
        None if clauses.items is None else str(clauses.items.value),
        fields,
        None if clauses.next_page is None else str(clauses.next_page.value),
        forward,
        withdraws,
        settings,
        statement.span,
    )


def _named_twice(statement: s.Detection, name: s.Ident, before: s.Ident, findings: Findings) -> None:
    findings.error(
        "E201",
        f"detector `{name.text}` is declared twice",
        name.span,
        "again here",
        others=[Mark(before.span, "first declared here")],
        helps=[f"give it a name of its own: DETECT {statement.event_class.text} AS name FROM …"],
    )


def _subscribed(name: s.Ident, tables: Declarations, findings: Findings) -> EventClass | None:
    event_class = find_class(name, tables.classes, findings)
    if event_class is None or event_class.kind is ClassKind.SUBSCRIBED:
        return event_class
    findings.error(
        "E275",
        f"`{event_class.name}` is a {event_class.kind} class: its events are not detected",
        name.span,
        f"a {event_class.kind} class",
        others=[Mark(event_class.span, "declared here")],
        helps=["detect events of a SUBSCRIBED class"],
    )
    return None


def _fields(given: tuple[s.FieldPath, ...], event_class: EventClass, findings: Findings) -> tuple[tuple[str, str], ...]:
    paths: dict[str, s.FieldPath] = {}
    for field in given:
        attribute = event_class.attribute(field.name.text)
        target = "event_id" if field.name.key == "event_id" else None if attribute is None else attribute.name
        if target is None:
            known = [*Names(event_class.attributes), *sorted(set(TIME_ATTRIBUTES.values())), "event_id"]
            what = f"attribute of `{event_class.name}` called"
            unknown(what, field.name, known, "E276", findings, label="unknown attribute")
        elif target in paths:
            message, others = f"`{target}` is taken from two places", [Mark(paths[target].span, "first given here")]
            findings.error("E276", message, field.span, "again here", others=others, helps=["leave one of them out"])
        elif not field.path.value:
            message, helps = f"nothing says where `{target}` is", ["write e.g. 'size.amount', or leave it out"]
            findings.error("E276", message, field.path.span, "an empty text", helps=helps)
        else:
            paths[target] = field
    return tuple((target, str(field.path.value)) for target, field in paths.items())


def _forward(word: s.Ident | None, findings: Findings) -> Forward:
    if word is None:
        return Forward.ALL
    if word.text not in Forward.__members__:
        what, label = "way to forward events called", "neither ALL nor CHANGED"
        unknown(what, word, list(Forward), "E278", findings, label=label)
        return Forward.ALL
    return Forward[word.text]


# ---- what a kind has


def _check_clauses(statement: s.Detection, form: SourceForm, findings: Findings) -> None:
    """A kind has some clauses, cannot do without others, and an empty text in one says nothing."""
    kind, given = statement.kind.text, dict(_given(statement.clauses))
    for clause, span in given.items():
        if clause not in form.clauses:
            has = ", ".join(c for c in Clause if c in form.clauses)
            helps = [f"leave it out; {kind} has {has}"]
            findings.error("E278", f"{kind} has no {clause}", span, "not of this kind", helps=helps)
    for clause in Clause:
        if clause in form.needed and clause not in given:
            message, helps = f"{kind} needs {clause}", [f"write e.g. {_EXAMPLES[kind, clause]}"]
            findings.error("E278", message, statement.kind.span, f"no {clause}", helps=helps)
    for text in (statement.clauses.items, statement.clauses.next_page):
        if text is not None and not str(text.value).strip():
            helps = ["say where to look, or leave the clause out"]
            findings.error("E278", "an empty text says nothing", text.span, "empty", helps=helps)


_EXAMPLES = {
    ("HTML", Clause.ITEMS): "ITEMS 'table tr.item'",
    ("HTML", Clause.FIELDS): "FIELDS (resource = 'td.name', amount = 'xpath:./td[2]')",
    ("SQL", Clause.ITEMS): "ITEMS 'SELECT item, amount FROM stock'",
}


def _given(clauses: s.DetectClauses) -> Iterator[tuple[Clause, Span]]:
    if clauses.items is not None:
        yield Clause.ITEMS, clauses.items.span
    if clauses.fields:
        yield Clause.FIELDS, clauses.fields[0].span.to(clauses.fields[-1].span)
    if clauses.next_page is not None:
        yield Clause.NEXT, clauses.next_page.span


def _require_form(options: Iterable[s.Option], findings: Findings) -> None:
    """A form is filled in only where it is said which."""
    names = {option.name.key: option for option in options}
    filled = next((option for key, option in names.items() if key.startswith("form_")), None)
    if filled is not None and "form" not in names:
        message, helps = "nothing says which form is filled in", ["write e.g. WITH (form = 'form#login', …)"]
        findings.error("E271", message, filled.name.span, "no `form`", helps=helps)


def _every(statement: s.Detection, form: SourceForm, findings: Findings) -> int | None:
    every, kind = statement.clauses.every, statement.kind.text
    if every is None:
        if form.looks is Looks.POLLED:
            message, helps = f"nothing says how often {kind} is looked at", ["write e.g. EVERY 30s behind the source"]
            findings.error("E277", message, statement.kind.span, "no EVERY", helps=helps)
        return None
    if form.looks is Looks.PUSHED:
        message, helps = f"{kind} sends by itself: nobody looks at it", ["leave EVERY out"]
        findings.error("E277", message, every.span, "not of this kind", helps=helps)
        return None
    if every.count < 1:
        message, helps = "a period has to be longer than 0s", ["write e.g. EVERY 30s"]
        findings.error("E277", message, every.span, "every 0s", helps=helps)
    return duration_us(every.count, every.unit)


def _withdraws(statement: s.Detection, form: SourceForm, event_class: EventClass | None, findings: Findings) -> bool:
    """What has vanished can be told where all there is is seen at a look; it needs a key, and a class that changes."""
    word, kind = statement.clauses.withdraw, statement.kind.text
    if word is None:
        return False
    if word.text != "VANISHED":
        known, label = ["VANISHED"], "expected VANISHED"
        unknown("way to withdraw events called", word, known, "E278", findings, label=label)
        return False
    if not form.lists_all:
        able = ", ".join(other for other, its in SOURCE_FORMS.items() if its.lists_all)
        message, helps = f"{kind} never shows all there is, so nothing vanishes from it", [f"these do: {able}"]
        findings.error("E279", message, word.span, f"not of {kind}", helps=helps)
    elif event_class is not None and not (event_class.key and event_class.mutable):
        name = event_class.name
        message = f"events of `{name}` cannot be withdrawn: "
        message += "the class is IMMUTABLE" if not event_class.mutable else "each version is an event of its own"
        findings.error(
            "E279",
            message,
            word.span,
            "nothing can be withdrawn",
            others=[Mark(event_class.span, "declared here")],
            helps=["declare it MUTABLE" if not event_class.mutable else "give it a key: ID (attribute, …)"],
        )
    return True

"""The way in: statements → a checked program, all findings at once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import MappingProxyType
from zoneinfo import ZoneInfo, available_timezones

from augury.algebra import program as a
from augury.analysis import derivations, rules
from augury.analysis.bindings import bindings
from augury.analysis.declarations import Declarations, Names, declare, enumerated, find_class, unknown
from augury.analysis.detections import detections
from augury.analysis.match import check_definitions
from augury.analysis.strata import stratify
from augury.clock import duration_us
from augury.diagnostics import Findings, Mark
from augury.event import TIME_ATTRIBUTES, ClassKind, EventClass, key_of
from augury.language import syntax as s

_SETTINGS = {"chronon": "15m", "archive": "ON", "history retain": "30d"}
"""What may be SET, with an example of a value."""


def analyse(program: s.Program, findings: Findings) -> a.Program | None:
    """Check a program; None where anything is wrong, with the reasons in the findings."""
    tables = declare(program, findings)
    settings = _settings(program, findings)
    check_definitions(tables, findings)
    plans = [_class_plan(tables.class_statements[key], cls, tables, findings) for key, cls in tables.classes.items()]
    reads = {key_of(p.event_class.name): tuple(key_of(r) for r in p.reads) for p in plans}
    layers, cycles = stratify(reads)
    for cycle in cycles:
        _report_cycle(cycle, tables, findings)
    sources = tuple(_source(source, tables, findings) for source in tables.sources.values())
    all_rules = rules.rules(tables, findings)
    all_triggers = rules.triggers(tables, findings)
    bound = bindings(tables, plans, all_rules, findings)
    detected = detections(tables, findings)
    if findings.has_errors():
        return None
    by_key = _with_lifespans(layers, {key_of(p.event_class.name): p for p in plans}, tables)
    return a.Program(
        settings,
        tuple(by_key[key] for key in tables.classes),
        tuple(tuple(tables.classes[key].name for key in layer) for layer in layers),
        sources,
        all_rules,
        MappingProxyType(dict(rules.group_table(tables))),
        all_triggers,
        bound,
        detected,
    )


def _class_plan(
    statement: s.EventClassStatement, event_class: EventClass, tables: Declarations, findings: Findings
) -> a.ClassPlan:
    statements = rules.condition_actions(statement.statements, event_class, findings)
    match statement:
        case s.SubscribedClass():
            return a.ClassPlan(event_class, None, statements)
        case s.ClockClass():
            return a.ClassPlan(event_class, _schedule(statement, findings), statements)
        case s.ComplexClass(source=source):
            derivation, reads = _derivation(source, event_class, tables, findings)
            return a.ClassPlan(event_class, derivation, statements, reads)


def _derivation(
    source: s.SelectSource | s.MatchSource | s.CompositeSource,
    target: EventClass,
    tables: Declarations,
    findings: Findings,
) -> tuple[a.Derivation | None, tuple[str, ...]]:
    match source:
        case s.SelectSource():
            from augury.analysis.select import (
                analyse_select,  # sqlglot is slow to import and not always needed
            )

            plan = analyse_select(source, target, tables.classes, findings)
            return (None, ()) if plan is None else (plan, plan.reads)
        case s.MatchSource():
            return derivations.match_plan(source, target, tables, findings) or (None, ())
        case s.CompositeSource():
            return derivations.composite_plan(source, target, tables, findings) or (None, ())


def _with_lifespans(
    layers: tuple[tuple[str, ...], ...], plans: dict[str, a.ClassPlan], tables: Declarations
) -> dict[str, a.ClassPlan]:
    """A complex class without a lifespan takes the longest of its constituents'."""
    done: dict[str, a.ClassPlan] = {}
    for key in (key for layer in layers for key in layer):
        plan, statement = plans[key], tables.class_statements[key]
        if isinstance(statement, s.ComplexClass) and statement.lifespan is None:
            spans = [done[key_of(name)].event_class.lifespan_us for name in plan.reads]
            longest = None if not spans or None in spans else max(us for us in spans if us is not None)
            plan = replace(plan, event_class=replace(plan.event_class, lifespan_us=longest))
        done[key] = plan
    return done


def _report_cycle(cycle: tuple[str, ...], tables: Declarations, findings: Findings) -> None:
    classes = [tables.classes[key] for key in cycle]
    path = enumerated(Names((*classes, classes[0])), " → ")
    alone = f"`{classes[0].name}` is derived from itself"
    findings.error(
        "E300",
        alone if len(classes) == 1 else f"classes are derived in a circle: {path}",
        classes[0].span,
        "this needs its own events" if len(classes) == 1 else "derived from itself",
        others=[Mark(cls.span, "by way of this one") for cls in classes[1:10]],
        helps=[
            "a class is made from others; repeat something with relative+(E)"
            if len(classes) == 1
            else "`A → B` says that A is made from B: leave one of these out"
        ],
    )


def _schedule(statement: s.ClockClass, findings: Findings) -> a.Derivation | None:
    if statement.every is not None:
        period_us = duration_us(statement.every.count, statement.every.unit)
        if period_us < 1:
            message, helps = "a period has to be longer than 0s", ["write e.g. EVERY 5m"]
            findings.error("E308", message, statement.every.span, "every 0s", helps=helps)
        return a.Every(period_us)
    assert statement.cron is not None, "the grammar demands AT or EVERY"
    pattern, zone = str(statement.cron.value), "UTC"
    if problem := _cron_problem(pattern):
        findings.error(
            "E234",
            f"`{pattern}` is not a cron schedule: {problem}",
            statement.cron.span,
            "minute hour day month weekday",
            helps=["write e.g. '0 9 * * 1-5': at 9:00 from Monday to Friday"],
        )
        return None
    if statement.zone is not None:
        zone = str(statement.zone.value)
        if not _is_zone(zone):
            meant = findings.closest(zone, _zones())
            findings.error(
                "E234",
                f"there is no time zone `{zone}`",
                statement.zone.span,
                "unknown zone",
                helps=[f"did you mean `{meant}`?" if meant else "write e.g. 'Europe/Vienna'"],
            )
            return None
    return a.Cron(pattern, zone)


@cache
def _zones() -> tuple[str, ...]:
    """All time zones; finding them takes a walk over many files."""
    return tuple(sorted(available_timezones()))


def _cron_problem(pattern: str) -> str | None:
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    if len(pattern.split()) != 5:
        return "it takes five fields"
    try:
        CronSim(pattern, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        return str(error).lower().rstrip(".") or "it is malformed"
    return None


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _settings(program: s.Program, findings: Findings) -> a.Settings:
    settings = a.Settings()
    seen: dict[str, s.SetStatement] = {}
    for statement in program.statements:
        if not isinstance(statement, s.SetStatement):
            continue
        name = " ".join(word.key for word in statement.words)
        span = statement.words[0].span.to(statement.words[-1].span)
        if name in seen:
            findings.error(
                "E215",
                f"{name.upper()} is set twice",
                span,
                "again here",
                others=[Mark(seen[name].span, "first set here")],
                helps=["leave one of them out"],
            )
            continue
        seen[name] = statement
        value = statement.value
        match name, value:
            case "chronon", s.DurationLiteral(count=count, unit=unit) if count > 0:
                settings = replace(settings, chronon_us=duration_us(count, unit))
            case "archive", s.Literal(value=bool() as on):
                settings = replace(settings, archive=on)
            case "history retain", s.DurationLiteral(count=count, unit=unit):
                settings = replace(settings, retain_us=duration_us(count, unit))
            case _ if name in _SETTINGS:
                findings.error(
                    "E215",
                    f"{name.upper()} does not take this value",
                    value.span,
                    "not ON or OFF" if name == "archive" else "not a duration longer than 0s",
                    helps=[f"write e.g. SET {name.upper()} {_SETTINGS[name]}"],
                )
            case _:
                ident = s.Ident(name.upper(), span)
                unknown("setting", ident, [n.upper() for n in _SETTINGS], "E215", findings)
    return settings


def _source(source: s.SourceStatement, tables: Declarations, findings: Findings) -> a.SourceMapping:
    event_class = find_class(source.event_class, tables.classes, findings)
    if event_class is not None and event_class.kind is not ClassKind.SUBSCRIBED:
        findings.error(
            "E224",
            f"`{event_class.name}` is a {event_class.kind} class: it is not read from a source",
            source.event_class.span,
            "not subscribed",
            others=[Mark(event_class.span, "declared here")],
            helps=["SOURCE maps the columns of a SUBSCRIBED class"],
        )
    columns: dict[str, tuple[str, str]] = {}
    for mapping in source.columns:
        if event_class is None:
            break
        name = mapping.name
        attribute = event_class.attribute(name.text)
        target = "event_id" if name.key == "event_id" else None if attribute is None else attribute.name
        if target is None:
            known = [*Names(event_class.attributes), *sorted(set(TIME_ATTRIBUTES.values())), "event_id"]
            what = f"attribute of `{event_class.name}` called"
            unknown(what, name, known, "E224", findings, label="unknown attribute")
        elif target in columns:
            findings.error(
                "E224",
                f"two columns are mapped to `{target}`",
                mapping.span,
                f"and so is `{columns[target][0]}`",
                helps=["leave one of them out"],
            )
        else:
            columns[target] = (mapping.foreign.text, target)
    return a.SourceMapping(source.event_class.text, tuple(columns.values()))

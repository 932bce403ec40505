"""Answers to why and why-not → text and JSON.

In: an `Answer` or a `NotThere`. Out: lines for people, or a JSON value whose field names stay. It works nothing out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from augury.algebra.scalar import Constant
from augury.clock import show_time
from augury.history.raw import json_literal
from augury.kernels.firing import Outcome
from augury.kernels.told import Constituent
from augury.trying.firings import deed_text, heading, triggered_json
from augury.trying.shown import acted_json, version_json, why_json
from augury.trying.simulate_record import SELECTED, Version, event_text, plain_value, shown_value
from augury.trying.why import Answer, Known
from augury.trying.why_not import NotThere
from augury.trying.why_rules import Ruled


def answer_text(answer: Answer) -> str:
    """Why an event is there, or an action fired, for people."""
    lines = [_title(answer)]
    if answer.acted is not None:
        lines += [f"  by statement {answer.acted.action.statement}: ON {answer.acted.condition}"]
        lines += [f"    {line}" for line in values_lines(answer.acted.values)]
        lines += [f"  NEW  {_version(answer.version)}"]
        lines += [f"  OLD  {_version(answer.old)}" if answer.old else "  OLD  there is none"]
    lines += [] if answer.ruled is None else _ruled_lines(answer.ruled)
    is_plain = answer.acted is None and answer.ruled is None
    lines += why_lines(answer) if is_plain or answer.why is not None else []
    lines += _versions(f"versions of {answer.asked} known then", answer.versions)
    for one in answer.known:
        lines += _versions(f"versions of {one.text} known then", one.versions) if len(one.versions) > 1 else []
    return "\n".join(lines)


def _title(answer: Answer) -> str:
    if answer.acted is not None:
        arguments = ", ".join(map(json_literal, answer.acted.action.arguments))
        return (
            f"{answer.acted.action.name}({arguments}) fired for {answer.asked}\n  at the tick {show_time(answer.tick)}"
        )
    if answer.ruled is not None:
        return f"{deed_text(answer.ruled.did)} was done for {answer.asked}\n  at the tick {show_time(answer.tick)}"
    version, known = answer.version, f", as known at {show_time(answer.tick)}"
    if version.is_withdrawal:
        return f"{answer.asked} is not there{known}: it was withdrawn at the tick {show_time(version.tick)}"
    if answer.left is not None:
        return f"{answer.asked} is not there{known}: it expired, and was purged at the tick {show_time(answer.left)}"
    return f"{answer.asked} is there{known}"


def _ruled_lines(ruled: Ruled) -> list[str]:
    """The rule that did it and its condition, the trigger that fired, and what it fired with."""
    rule = event_text(ruled.rule.rule, [value for _, value in ruled.rule.arguments])
    trigger, at = heading(ruled.triggered)
    lines = [f"  by rule {rule} of trigger {trigger}, which fired {at}"]
    if ruled.rule.condition is None:
        lines.append("    it has no CONDITION")
    else:
        held = "holds" if ruled.rule.outcome is Outcome.HELD else "does not hold, so this is its ALTERNATIVEACTION"
        lines.append(f"    CONDITION {ruled.rule.condition} {held}")
        lines += [f"      {line}" for line in values_lines(ruled.values)]
    lines += [f"    failed: {ruled.did.failure}"] if ruled.did.failure is not None else []
    return [*lines, *_versions("made of", ruled.made_of)]


def why_lines(answer: Answer) -> list[str]:
    """The constituents with their parts, the clock's part, what stayed away, the variables."""
    why = answer.why
    lines = [f"  {answer.note}"] if answer.note else []
    if why is None:
        return lines
    place = f"at seq {why.seq}" if why.seq is not None else f"at the tick {show_time(answer.version.tick)}"
    bound = ", ".join(f"{name} = {shown_value(value)}" for name, value in why.values)
    lines.append(f"  takes place {place}{f' with {bound}' if bound else ''}, made of")
    lines += [f"    {line}" for line in constituent_lines(why.events)]
    lines += [f"    {one.dump()}" for one in why.timers]
    lines += [f"    {one.dump()}" for one in why.absences]
    return lines


def constituent_lines(events: Iterable[Constituent]) -> list[str]:
    """One line a constituent, in columns."""
    listed = list(events)
    width = max((len(one.event) for one in listed), default=0)
    seqs = [f"seq {one.seq}" if 0 < one.seq < SELECTED else "" for one in listed]
    wide = max(map(len, seqs), default=0)
    return [
        f"{seq:<{wide}}  {one.event:<{width}}  at {show_time(one.occ_time)}  as {', '.join(one.parts)}"
        for seq, one in zip(seqs, listed, strict=True)
    ]


def values_lines(values: Mapping[str, Constant]) -> list[str]:
    """One line a value."""
    width = max(map(len, values), default=0)
    return [f"{name:<{width}} = {shown_value(value)}" for name, value in values.items()]


def _versions(title: str, versions: Iterable[Version]) -> list[str]:
    return [f"  {title}", *(f"    {_version(one)}" for one in versions)]


def _version(version: Version, *, plainly: bool = False) -> str:
    """A version on a line; in a column with others what it does to its event stands in front."""
    at = "" if version.occ_time is None else f" at {show_time(version.occ_time)}"
    seq = "" if version.seq is None else f", seq {version.seq}"
    change = "" if plainly else f"{version.change:<8}  "
    return f"{change}{version.text}{at}, detected {show_time(version.det_time)}{seq}"


def not_there_text(answer: NotThere) -> str:
    """What was missing, for people."""
    if answer.took_place:
        return f"{answer.asked}, at the tick {show_time(answer.tick)}: {answer.sentence}"
    verb = "is not there" if answer.action is None else f"makes no `{answer.action}` fire"
    lines = [f"{answer.asked} {verb} at the tick {show_time(answer.tick)}"]
    for one in answer.statements:
        lines += [f"  statement {one.number}: ON {one.condition}", f"    {one.sentence}"]
    for rule in answer.rules:
        condition = "" if rule.condition is None else f": CONDITION {rule.condition}"
        lines += [f"  rule {rule.rule} of trigger {rule.trigger}{condition}", f"    {rule.sentence}"]
    if not answer.statements and not answer.rules:
        lines.append(f"  {answer.sentence}")
        lines += [f"  because of {answer.part}"] if answer.part and answer.part not in answer.sentence else []
    if answer.looked_at is not None and answer.looked_at not in answer.versions:
        lines.append(f"  looked at {_version(answer.looked_at, plainly=True)}")
    if answer.versions:
        lines += _versions("versions known then", answer.versions)
    return "\n".join(lines)


# ---- JSON --------------------------------------------------------------------------------------------------------


def answer_json(answer: Answer) -> dict[str, Any]:
    """Why an event is there, or an action fired, as a JSON value."""
    found: dict[str, Any] = {
        "asked": answer.asked,
        "known_at": show_time(answer.tick),
        "is_there": not answer.version.is_withdrawal and answer.left is None,
        "version": version_json(answer.version),
        "why": None if answer.why is None else why_json(answer.why),
        "note": answer.note,
        "versions": [version_json(one) for one in answer.versions],
        "known": [_known_json(one) for one in answer.known],
    }
    if answer.acted is not None:
        old = None if answer.old is None else version_json(answer.old)
        found["action"] = {**acted_json(answer.acted), "new": version_json(answer.version), "old": old}
    if answer.ruled is not None:
        found["action"] = _ruled_json(answer.ruled)
    return found


def _ruled_json(ruled: Ruled) -> dict[str, Any]:
    """What a rule did, with its firing as simulations tell it."""
    return {
        "action": ruled.did.name,
        "args": [plain_value(one) for one in ruled.did.arguments],
        "rule": ruled.rule.rule,
        "outcome": ruled.rule.outcome.value,
        "condition": ruled.rule.condition,
        "values": {name: plain_value(value) for name, value in ruled.values.items()},
        "firing": triggered_json(ruled.triggered),
    }


def _known_json(known: Known) -> dict[str, Any]:
    return {"event": known.text, "versions": [version_json(one) for one in known.versions]}


def not_there_json(answer: NotThere) -> dict[str, Any]:
    """What was missing, as a JSON value."""
    return {
        "asked": answer.asked,
        "action": answer.action,
        "known_at": show_time(answer.tick),
        "took_place": answer.took_place,
        "part": answer.part,
        "sentence": answer.sentence,
        "looked_at": None if answer.looked_at is None else version_json(answer.looked_at),
        "versions": [version_json(one) for one in answer.versions],
        "statements": [
            {
                "statement": one.number,
                "condition": one.condition,
                "part": one.part,
                "sentence": one.sentence,
                "values": {name: plain_value(value) for name, value in one.values.items()},
            }
            for one in answer.statements
        ],
        "rules": [
            {
                "trigger": one.trigger,
                "rule": one.rule,
                "condition": one.condition,
                "part": one.part,
                "sentence": one.sentence,
                "values": {name: plain_value(value) for name, value in one.values.items()},
            }
            for one in answer.rules
        ],
    }

"""Which event is asked about: a class by name, an event by its key as people write it; or what may be meant instead.

In: the record of a run, words of a command line. Out: a class, an event, a version; or `Unanswerable`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from augury.algebra.program import ClassPlan, Program
from augury.algebra.scalar import Constant
from augury.diagnostics import closest
from augury.event import Attribute, EventClass, key_of
from augury.history.values import fit
from augury.kernels.match.past import plain
from augury.trying.simulate_record import EventKey, Record, Version, shown_value

_KEYS_SHOWN_MAX: Final = 8


class Unanswerable(Exception):
    """A question that has no answer: one sentence, and what to do instead."""

    def __init__(self, message: str, *helps: str, exit_code: int = 1) -> None:
        """Keep both."""
        super().__init__(message)
        self.helps = helps
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Asked:
    """A class, and what the attributes of the event asked about are."""

    place: int
    plan: ClassPlan
    wanted: Mapping[str, Constant]

    @property
    def event_class(self) -> EventClass:
        """The class."""
        return self.plan.event_class

    @property
    def text(self) -> str:
        """The event as sentences name it."""
        values = ", ".join(f"{name} = {shown_value(value)}" for name, value in self.wanted.items())
        return f"{self.event_class.name}({values})" if values else self.event_class.name


def class_named(program: Program, name: str) -> tuple[int, ClassPlan]:
    """A class of the program; raises `Unanswerable`."""
    for place, plan in enumerate(program.classes):
        if key_of(plan.event_class.name) == key_of(name):
            return place, plan
    names = [plan.event_class.name for plan in program.classes]
    meant = closest(name, names)
    raise Unanswerable(
        f"the program has no event class `{name}`",
        f"did you mean `{meant}`?" if meant else f"it has {', '.join(names) or 'none'}",
    )


def asked_about(program: Program, name: str, keys: Sequence[str]) -> Asked:
    """The class and attributes that a question names: `resource=milk`, or values of the key in its order."""
    place, plan = class_named(program, name)
    event_class = plan.event_class
    wanted: dict[str, Constant] = {}
    for word in keys:
        attribute, text = _attribute(event_class, word, wanted)
        wanted[attribute.name] = _read(attribute, text)
    missing = [one for one in event_class.key if key_of(one) not in map(key_of, wanted)]
    if missing and wanted:
        raise Unanswerable(
            f"the key of `{event_class.name}` is ({', '.join(event_class.key)}), and {_listed(missing)} is not given",
            f"add --key {missing[0]}=…",
            exit_code=2,
        )
    return Asked(place, plan, wanted)


def _attribute(event_class: EventClass, word: str, taken: Mapping[str, Constant]) -> tuple[Attribute, str]:
    name, equals, text = word.partition("=")
    found = event_class.attribute(name.strip()) if equals else None
    if found is not None:
        return found, text
    left = [one for one in event_class.key if key_of(one) not in map(key_of, taken)]
    # A value may have an equals sign in it, too.
    if left and (not equals or len(event_class.key) == 1):
        attribute = event_class.attribute(left[0])
        assert attribute is not None, "keys are attributes"
        return attribute, word
    names = [one.name for one in event_class.attributes]
    if equals:
        meant = closest(name, names)
        helps = f"did you mean `{meant}`?" if meant else f"it has {', '.join(names) or 'none'}"
        raise Unanswerable(f"`{event_class.name}` has no attribute `{name}`", helps, exit_code=2)
    said = f"its key is ({', '.join(event_class.key)})" if event_class.key else "it has no key: write --key NAME=VALUE"
    raise Unanswerable(f"`{word}` is no part of the key of `{event_class.name}`", said, exit_code=2)


def _read(attribute: Attribute, text: str) -> Constant:
    fitted = fit(pa.array([text]), attribute.type, text=True)
    if fitted.misfits is not None:
        raise Unanswerable(f"`{attribute.name}` is of type {attribute.type}, and `{text}` does not fit", exit_code=2)
    return Constant(plain(fitted.values[0]), attribute.type)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# ---- events ------------------------------------------------------------------------------------------------------


def versions_asked(record: Record, asked: Asked) -> list[Version]:
    """The versions so far that have the attributes asked for, in order; a withdrawal has those of its key only."""
    keyed = {key_of(name) for name in asked.event_class.key}
    return [
        one
        for one in record.versions.get(asked.place, ())
        if all(
            one.values[name].value == value.value
            for name, value in asked.wanted.items()
            if not one.is_withdrawal or key_of(name) in keyed
        )
    ]


def event_asked(record: Record, asked: Asked, seq: int | None) -> EventKey:
    """The event that a question means: the last one, where several fit that have no key; raises `Unanswerable`."""
    found = [one for one in versions_asked(record, asked) if seq is None or one.seq == seq]
    events = dict.fromkeys(one.event_key for one in found)
    if not events:
        raise no_such_event(record, asked, seq)
    if len(events) > 1 and asked.event_class.key and not asked.wanted:
        raise Unanswerable(
            f"there are {len(events)} events of `{asked.event_class.name}`: which one is meant?",
            f"add --key, such as {_example(found[-1])}",
            exit_code=2,
        )
    return list(events)[-1]


def no_such_event(record: Record, asked: Asked, seq: int | None = None) -> Unanswerable:
    """That there is no such event, and which there are instead."""
    known = record.versions.get(asked.place, [])
    at = "" if seq is None else f" at seq {seq}"
    if not known:
        return Unanswerable(
            f"there is no {asked.text}{at}, nor any other event of `{asked.event_class.name}`",
            f"`augury why-not … --event {asked.event_class.name}` says what is missing",
        )
    examples = {_key_text(_key_values(one)): _example(one) for one in known}
    meant = closest(_key_text(asked.wanted.values()), examples)
    shown = ", ".join(list(examples.values())[:_KEYS_SHOWN_MAX]) + (" …" if len(examples) > _KEYS_SHOWN_MAX else "")
    helps = [f"did you mean {examples[meant]}?"] if meant else []
    return Unanswerable(f"there is no {asked.text}{at}", *helps, f"there are {shown}")


def _key_values(version: Version) -> list[Constant]:
    named = {key_of(name) for name in version.event_class.key}
    return [value for name, value in version.values.items() if not named or key_of(name) in named]


def _key_text(values: Iterable[Constant]) -> str:
    return ", ".join(map(shown_value, values))


def _example(version: Version) -> str:
    named = {key_of(name) for name in version.event_class.key}
    parts = [
        f"{name}={shown_value(value).strip(chr(39))}"
        for name, value in version.values.items()
        if not named or key_of(name) in named
    ]
    if not parts:
        return f"seq {version.seq}" if version.seq is not None else f"version {version.number}"
    return " ".join(f"--key {shlex.quote(part)}" for part in parts)

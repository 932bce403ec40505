"""Paths into JSON: the few forms that listings need, `$.a.b[*]`, `a['odd name'][0]`.

In: the text of a path, and a document. Out: what is there. A path that cannot be read raises `BadPath`, which points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from augury.detectors.sensor import BadDetector

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<dot>\.?)\s*(?P<name>[^\W\d][\w-]*) | (?P<every>\[\s*\*\s*\]|\.\*) | \[\s*(?P<index>-?\d{1,9})\s*\]
    | \[\s*(?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" )\s*\] )\s*""",
    re.VERBOSE,
)


class BadPath(BadDetector):
    """A path that cannot be read; the message shows where."""


@dataclass(frozen=True, slots=True)
class Every:
    """`[*]`: every item of a list."""


Step = str | int | Every
"""The name of a field, the number of an item, or every item."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path, step by step, and as it was written."""

    steps: tuple[Step, ...]
    text: str

    def __str__(self) -> str:
        """As it was written."""
        return self.text


class _Absent:
    """What stands for nothing: null is something."""


ABSENT: Final = _Absent()
"""There is nothing at a path."""


def parse_path(text: str) -> Path:
    """A path as it is written, with or without `$` at its beginning; raises `BadPath`."""
    steps: list[Step] = []
    start = len(text) - len(text.lstrip())
    at = start + 1 if text[start:].startswith("$") else start
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (at > start and found["name"] and not found["dot"]):
            raise _bad(text, at)
        if found["every"]:
            steps.append(Every())
        elif found["index"]:
            steps.append(int(found["index"]))
        elif found["name"]:
            steps.append(found["name"])
        else:
            quoted = found["single"] if found["single"] is not None else found["double"]
            steps.append(re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    if not steps and not text.strip().startswith("$"):
        raise _bad(text, 0)
    return Path(tuple(steps), text)


def parse_field(text: str) -> Path:
    """A path to one value; raises `BadPath`."""
    path = parse_path(text)
    if any(isinstance(step, Every) for step in path.steps):
        raise BadPath(f"`{text}` gives many values, and a field has one: write [0] instead of [*]")
    return path


def found_at(path: Path, document: object) -> list[object] | None:
    """All that is at a path; None where it leads nowhere, which is something else than an empty list."""
    found = [document]
    for step in path.steps:
        if isinstance(step, Every):
            if not all(isinstance(one, list) for one in found):
                return None
            found = [item for one in found if isinstance(one, list) for item in one]
        else:
            inner = [_step(one, step) for one in found]
            if inner and all(one is ABSENT for one in inner):
                return None
            found = [one for one in inner if one is not ABSENT]
    return found


def value_at(path: Path, document: object) -> object:
    """The one value at a path, or `ABSENT`."""
    found = document
    for step in path.steps:
        if isinstance(step, Every):
            return ABSENT
        found = _step(found, step)
        if found is ABSENT:
            return ABSENT
    return found


def _step(value: object, step: str | int) -> object:
    match value:
        case Mapping() if isinstance(step, str):
            return value.get(step, ABSENT)
        case list() if isinstance(step, int) and -len(value) <= step < len(value):
            return value[step]
        case _:
            return ABSENT


def _bad(text: str, at: int) -> BadPath:
    forms = "a path is made of .name, ['name'], [0] and [*], as in $.deliveries[*]"
    return BadPath(f"the path cannot be read from its character {at + 1} on: {forms}\n  {text}\n  {' ' * at}^")

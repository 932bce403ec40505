"""Paths into JSON as DETECT writes them: the few forms that listings need, `$.a.b[*]`, `a['odd name'][0]`.

In: the text of a path. Out: its steps, or `UnreadablePath`, which says where. What is at a path in a document is for
detectors to find.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<dot>\.?)\s*(?P<name>[^\W\d][\w-]*) | (?P<every>\[\s*\*\s*\]|\.\*) | \[\s*(?P<index>-?\d{1,9})\s*\]
    | \[\s*(?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" )\s*\] )\s*""",
    re.VERBOSE,
)

FORMS: Final = "a path is made of .name, ['name'], [0] and [*], as in $.deliveries[*]"


class UnreadablePath(ValueError):
    """A path that cannot be read: why, and from which character on."""

    def __init__(self, text: str, at: int, reason: str, is_field: bool = False) -> None:
        """Keep where it is; `is_field` says that it could be read, and gives more than a field takes."""
        super().__init__(reason)
        self.text, self.at, self.is_field = text, at, is_field


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


def path_of(text: str) -> Path:
    """A path as it is written, with or without `$` at its beginning; raises `UnreadablePath`."""
    steps: list[Step] = []
    start = len(text) - len(text.lstrip())
    at = start + 1 if text[start:].startswith("$") else start
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or (at > start and found["name"] and not found["dot"]):
            raise _unreadable(text, at)
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
        raise _unreadable(text, 0)
    return Path(tuple(steps), text)


def field_path_of(text: str) -> Path:
    """A path to one value; raises `UnreadablePath`."""
    path = path_of(text)
    if any(isinstance(step, Every) for step in path.steps):
        reason = f"`{text}` gives many values, and a field has one: write [0] instead of [*]"
        raise UnreadablePath(text, 0, reason, is_field=True)
    return path


def _unreadable(text: str, at: int) -> UnreadablePath:
    return UnreadablePath(text, at, f"the path cannot be read from its character {at + 1} on: {FORMS}")

"""What is at a path in a document of JSON: `$.a.b[*]`, `a['odd name'][0]`.

In: the text of a path, and a document. Out: what is there. A path that cannot be read raises `BadPath`, which points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from augury.algebra.json_paths import Every, Path, UnreadablePath, field_path_of, path_of
from augury.detectors.sensor import BadDetector


class BadPath(BadDetector):
    """A path that cannot be read; the message shows where."""


class _Absent:
    """What stands for nothing: null is something."""


ABSENT: Final = _Absent()
"""There is nothing at a path."""


def parse_path(text: str) -> Path:
    """A path as it is written, with or without `$` at its beginning; raises `BadPath`."""
    try:
        return path_of(text)
    except UnreadablePath as error:
        raise _bad(error) from None


def parse_field(text: str) -> Path:
    """A path to one value; raises `BadPath`."""
    try:
        return field_path_of(text)
    except UnreadablePath as error:
        raise _bad(error) from None


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


def _bad(error: UnreadablePath) -> BadPath:
    return BadPath(str(error) if error.is_field else f"{error}\n  {error.text}\n  {' ' * error.at}^")

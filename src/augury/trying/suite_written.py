"""Lines that were got → the short notation of suites, so that they can be shown beside it, and put in its place.

In: a `Got`, and the start that offsets count from. Out: a text that `suite_notation` reads, and that fits the line.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

from augury.clock import UNIT_US
from augury.history.raw import whole_json
from augury.trying.suite import Kind
from augury.trying.suite_bound import Got
from augury.trying.suite_values import iso_us

_LINE: Final = frozenset({"event", "change", "seq", "occ_time", "det_time", "constituents"})
_PLAIN: Final = re.compile(r"[^\W\d]\w*")


def written(got: Got, start_us: int) -> str:
    """A line in the short notation, with all its values and times; without `seq` and constituents."""
    line = got.line
    if got.kind is not Kind.EVENT:
        arguments = ", ".join(map(value_text, line["args"]))
        key = ", ".join(f"{_name(name)}={value_text(value)}" for name, value in line["key"].items())
        about = f"{_name(line['event'])}({key})" if key else _name(line["event"])
        return f"{_name(got.name)}({arguments}) for {about} at {_time(line['tick'], start_us)}"
    values = [f"{_name(name)}={value_text(value)}" for name, value in attributes(line)]
    change = "" if line["change"] == "announce" else f"{line['change']} "
    at = "" if line["occ_time"] is None else f" at {_time(line['occ_time'], start_us)}"
    return f"{change}{_name(got.name)}({', '.join(values)}){at} seen {_time(line['det_time'], start_us)}"


def attributes(line: Any) -> list[tuple[str, Any]]:
    """The attributes of an event, as a line has them."""
    return [(name, value) for name, value in line.items() if name not in _LINE]


def value_text(value: Any) -> str:
    """A value in the short notation."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return _quoted(value)
        case Decimal():
            return _number(value)
        case _:
            return whole_json(value)


def _number(value: Decimal) -> str:
    """Without the zeros that a NUMERIC is filled up with."""
    text = whole_json(value)
    return text.rstrip("0").rstrip(".") if "." in text and "E" not in text.upper() else text


def _quoted(text: str) -> str:
    if text.isprintable() and "\\" not in text:
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else f"`{name}`"


def _time(text: str, start_us: int) -> str:
    moment = iso_us(text)
    assert moment is not None, "engines print ISO times"
    return offset_text(moment - start_us)


def offset_text(length_us: int) -> str:
    """A length of time as suites write it: `1d2h`, `-5m`, `1.5s`; `0s` for none."""
    sign, rest = ("-", -length_us) if length_us < 0 else ("", length_us)
    parts = []
    for unit in ("d", "h", "m"):
        count, rest = divmod(rest, UNIT_US[unit])
        parts += [f"{count}{unit}"] if count else []
    seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
    parts += [f"{seconds}s"] if rest or not parts else []
    return sign + "".join(parts)

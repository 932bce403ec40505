"""Lines of JSON → rows, as far as they are some.

In: a line. Out: a mapping, or why it is none. It knows no file and no class.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from augury import limits
from augury.history.raw import RAW_SHOWN_MAX, Broken

DECODER: Final = json.JSONDecoder(parse_float=Decimal)
"""Numbers keep the digits they are written with."""

_SCAN: Final[Callable[[str, int], tuple[Any, int]]] = vars(DECODER)["scan_once"]
"""What `decode` calls between two looks for blanks, which take as long as a short line does."""

NO_OBJECT: Final = "it is not an object: JSON Lines has one object a line"


def read_line(line: bytes) -> Mapping[str, object] | Broken:
    """A line of JSON as a row, or why it is none."""
    try:
        value = _value(line.decode())
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except json.JSONDecodeError as error:
        reason = f"it is not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, ArithmeticError) as error:
        reason = f"it holds a number that is too long: {error}"
    else:
        if not isinstance(value, dict):
            reason = NO_OBJECT
        elif line.count(b"[") + line.count(b"{") > limits.JSON_DEPTH_MAX and _is_too_deep(value):
            reason = "it is nested too deeply"
        else:
            return value
    return Broken(reason, line[: RAW_SHOWN_MAX * 4].decode("utf-8", "replace"))


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(limits.JSON_DEPTH_MAX):
        inner = ((one.values() if isinstance(one, dict) else one) for one in level if isinstance(one, dict | list))
        level = list(itertools.chain.from_iterable(inner))
        if not level:
            return False
    return True


def _value(text: str) -> object:
    try:
        value, end = _SCAN(text, 0)
    except StopIteration:
        return DECODER.decode(text)  # which says what is wrong with it
    return value if end == len(text) else DECODER.decode(text)

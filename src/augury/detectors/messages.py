"""Messages of a broker → items: a JSON object, a list of them, or lines of them.

In: the bytes of a message and its place. Out: items. It knows no broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from augury.detectors.rows import json_rows
from augury.detectors.sensor import Item
from augury.history.json_lines import DECODER, NO_OBJECT
from augury.history.raw import RAW_SHOWN_MAX, Broken, json_literal


def items_of(message: bytes, place: str | None) -> list[Item | Broken]:
    """What a message holds; its items have places in it where it has one."""
    rows = _rows(message)
    if not rows:
        return [Broken("the message is empty", "")]
    return [
        row if isinstance(row, Broken) else Item(row, None if place is None else f"{place}:{number}", is_event=True)
        for number, row in enumerate(rows)
    ]


def _rows(message: bytes) -> list[Mapping[str, object] | Broken]:
    try:
        value = DECODER.decode(message.decode())
    except (ValueError, ArithmeticError, RecursionError):
        return [row for _, row in json_rows(message)]  # lines; or nothing at all, and then they say why
    if isinstance(value, list):
        return [one if isinstance(one, dict) else Broken(NO_OBJECT, json_literal(one)) for one in value]
    return [value if isinstance(value, dict) else Broken(NO_OBJECT, message[:RAW_SHOWN_MAX].decode("utf-8", "replace"))]

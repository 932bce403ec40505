"""Events as a client sends them: a line of JSON each, with an event_id, so that posting twice is posting once.

In: mappings, or lines of JSON. Out: lines. What is no event stays as it is, for the server to say why.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from augury.event import key_of

Event = Mapping[str, Any] | str


def line_of(event: Event) -> str:
    """An event as one line of JSON; it gets an event_id if it has none."""
    if isinstance(event, str):
        return _with_id(" ".join(event.splitlines()))
    from augury.history.raw import whole_json

    has_id = any(key_of(name) == "event_id" for name in event)
    return whole_json(event if has_id else {**event, "event_id": uuid4().hex})


def _with_id(line: str) -> str:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(found, dict) or any(key_of(name) == "event_id" for name in found):
        return line
    # The rest of the line stays as it is written, digit by digit.
    rest = line.strip()[1:].lstrip()
    return f'{{"event_id": "{uuid4().hex}"{"" if rest == "}" else ", "}{rest}'

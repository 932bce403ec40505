"""An action as a line of JSON, with all that is known of it.

In: an action as an outbox lists it. Out: a line. It asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from augury.clock import show_time
from augury.history.raw import whole_json
from augury.local.store.waiting import Listed


def action_line(one: Listed, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """One JSON object; arguments and key are JSON already, and go in digit by digit."""
    row = one.action
    fields = {
        "key": whole_json(row.idempotency_key),
        "state": whole_json(one.state.value),
        "attempts": whole_json(row.attempts),
        "action": whole_json(row.action),
        "args": row.arguments,
        "event": whole_json(row.event),
        "event_key": row.key,
        "tick": whole_json(show_time(row.tick)),
        "seq": whole_json(row.seq),
        "reason": whole_json(one.reason),
        "tried_at": whole_json(None if one.tried_at is None else show_time(one.tried_at)),
        "next_at": whole_json(None if one.next_at is None else show_time(one.next_at)),
        **more,
    }
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}\n"

"""What a tick did → rows of the tables that are no histories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from augury.engine.ticked import Action, Ticked
from augury.event import key_of
from augury.history.raw import whole_json

PHASES: Final = ("read", "derive", "decide", "purge")
COUNTS: Final = ("read", "derived", "actions", "rejected", "absorbed", "purged")


def tick_row(ticked: Ticked) -> dict[str, Any]:
    """The tick in the log."""
    counts, seconds = ticked.counts(), {phase.value: round(taken, 6) for phase, taken in ticked.seconds.items()}
    return {
        "tick": ticked.tick,
        "last_seq": ticked.last_seq,
        **{name: counts[name] for name in COUNTS},
        **{f"{phase}_seconds": seconds.get(phase, 0.0) for phase in PHASES},
        "failed": whole_json({one.event_class: one.reason for one in ticked.failed}),
        "warnings": whole_json(ticked.warnings),
        "errors": whole_json(ticked.errors),
    }


def action_row(action: Action) -> dict[str, Any]:
    """An action that waits to be carried out."""
    return {
        "idempotency_key": action.idempotency_key,
        "action": action.name,
        "arguments": whole_json(action.arguments),
        "event": action.event,
        "key": whole_json(action.key),
        "tick": action.tick,
        "statement": action.statement,
        "place": action.place,
        "seq": action.seq,
        "trigger": action.trigger,
        "rule": action.rule,
        "state": "waiting",
    }


def rejected_rows(ticked: Ticked) -> list[dict[str, Any]]:
    """The events that a tick refused."""
    refused = ticked.rejected
    columns = zip(refused.place, refused.event, refused.reason, refused.raw, strict=True)
    return [
        {"tick": ticked.tick, "place": place, "event": event, "reason": reason, "raw": raw}
        for place, event, reason, raw in columns
    ]


def purged_rows(ticked: Ticked, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Which versions were current when their events left; classes as the store calls them."""
    return [
        {"class": names[key_of(versions.event_class.name)], "number": number, "tick": ticked.tick}
        for versions in ticked.purged
        for number in versions.number.tolist()
    ]

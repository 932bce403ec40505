"""What two runs did, so that they can be compared: ticks that did nothing are left out, as engines may skip them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from augury.kernels.reference.bitemporal import Run
from augury.kernels.reference.bitemporal.resolution import timed


def told(run: Run) -> list[dict[str, Any]]:
    return [tick for tick in _ticks(run) if any(tick[name] for name in tick if name != "tick")]


def _ticks(run: Run) -> Iterator[dict[str, Any]]:
    for tick in run.ticks:
        yield {
            "tick": tick.tick,
            "read": [
                (v.event_class, repr(v.values), v.occ_time, v.det_time, str(v.change), v.seq, v.event_id)
                for v in tick.read
            ],
            "published": [
                (v.event_class, repr(v.values), v.occ_time, v.det_time, str(v.change), v.seq, v.constituents)
                for v in tick.published
            ],
            "actions": [(a.name, repr(a.arguments), a.version.event_class, a.statement, a.place) for a in tick.actions],
            "rejected": sorted((repr(timed(r.raw)), str(r.reason)) for r in tick.rejected),
            "absorbed": len(tick.absorbed),
            "purged": sorted((v.event_class, repr(v.values), v.occ_time or 0) for v in tick.purged),
            "failed": [failure.event_class for failure in tick.failed],
        }


def difference(one: Run, other: Run) -> str:
    """Where two runs part, or nothing."""
    left, right = told(one), told(other)
    for mine, theirs in zip(left, right, strict=False):
        for name in mine:
            if mine[name] != theirs[name]:
                return f"tick {mine['tick']} {name}\n  {mine[name]}\n  {theirs[name]}"
    return "" if len(left) == len(right) else f"{len(left)} ticks and {len(right)}: {(left + right)[-1]}"

"""What engines tell Prometheus in the same words, whether they run on Spark or behind a server.

In: numbers by name. Out: families of metrics. It counts nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

COUNTED: Final = {
    "read": "Versions that were accepted.",
    "derived": "Versions of complex events.",
    "actions": "Actions that fired.",
    "rejected": "Events that were refused.",
    "absorbed": "Duplicates that were absorbed.",
    "purged": "Events that left the live views.",
}


def gauges_of_ticks(last_tick: int | None, last_seq: int, lag_seconds: float | None) -> dict[str, tuple[str, float]]:
    """How far an engine has gone: by name what is told, and the number."""
    found = {"augury_last_seq": ("The last number that was given to a version.", float(last_seq))}
    if lag_seconds is not None:
        found["augury_lag_seconds"] = ("How far the last tick is behind the clock.", lag_seconds)
    if last_tick is not None:
        found["augury_last_tick_timestamp_seconds"] = ("The last tick.", last_tick / 1_000_000)
    return found


def families(gauges: Mapping[str, tuple[str, float]], counts: Mapping[str, int]) -> Iterator[Metric]:
    """Gauges as they are, and what ticks counted."""
    for name, (told, value) in gauges.items():
        yield GaugeMetricFamily(name, told, value)
    for name, told in COUNTED.items():
        yield CounterMetricFamily(f"augury_{name}", told, counts.get(name, 0))

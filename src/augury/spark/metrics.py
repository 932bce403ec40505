"""What a watch tells of itself to Prometheus: lag, ticks, state, what was read and refused.

In: a function that gives the progress of a watch. Out: a server on loopback that answers `GET /metrics`. It counts
nothing itself: what is scraped is what the watch knows at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Progressing(Protocol):
    """How far a watch has gone."""

    @property
    def commit(self) -> int:
        """The last commit."""

    @property
    def last_tick(self) -> int | None:
        """The last tick, in microseconds."""

    @property
    def last_seq(self) -> int:
        """The last number that was given to a version."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was read, derived, refused and so on since the watch began."""

    @property
    def lag_seconds(self) -> float | None:
        """How far the last tick is behind the clock."""

    @property
    def seconds(self) -> float:
        """What the last commit took."""

    @property
    def state_bytes(self) -> int:
        """The size of the states of all slots."""


_COUNTED: Final = {
    "read": "Versions that were accepted.",
    "derived": "Versions of complex events.",
    "actions": "Actions that fired.",
    "rejected": "Events that were refused.",
    "absorbed": "Duplicates that were absorbed.",
    "purged": "Events that left the live views.",
}


class _Progress(Collector):
    def __init__(self, progress: Callable[[], Progressing]) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        now = self._progress()
        gauges = {
            "augury_commit": ("The number of the last commit.", float(now.commit)),
            "augury_last_seq": ("The last number that was given to a version.", float(now.last_seq)),
            "augury_commit_seconds": ("What the last commit took, all its ticks together.", now.seconds),
            "augury_state_bytes": ("The size of the states of all slots.", float(now.state_bytes)),
            "augury_live_events": ("Events in the live views.", float(now.counts.get("live", 0))),
        }
        if now.lag_seconds is not None:
            gauges["augury_lag_seconds"] = ("How far the last tick is behind the clock.", now.lag_seconds)
        if now.last_tick is not None:
            gauges["augury_last_tick_timestamp_seconds"] = ("The last tick.", now.last_tick / 1_000_000)
        for name, (told, value) in gauges.items():
            yield GaugeMetricFamily(name, told, value)
        for name, told in _COUNTED.items():
            yield CounterMetricFamily(f"augury_{name}", told, now.counts.get(name, 0))


class MetricsServer:
    """A server that is on; `port` is where."""

    def __init__(self, progress: Callable[[], Progressing], port: int, address: str = "127.0.0.1") -> None:
        """Start to answer; port 0 takes any that is free."""
        registry = CollectorRegistry()
        registry.register(_Progress(progress))
        self._server, self._thread = start_http_server(port, address, registry)
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

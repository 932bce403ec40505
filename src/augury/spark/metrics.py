"""What a watch tells of itself to Prometheus: lag, ticks, state, what was read and refused.

In: a function that gives the progress of a watch. Out: a server on loopback that answers `GET /metrics`. It counts
nothing itself: what is scraped is what the watch knows at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from augury.metrics import families, gauges_of_ticks


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


class _Progress(Collector):
    def __init__(self, progress: Callable[[], Progressing]) -> None:
        self._progress = progress

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        now = self._progress()
        gauges = {
            "augury_commit": ("The number of the last commit.", float(now.commit)),
            "augury_commit_seconds": ("What the last commit took, all its ticks together.", now.seconds),
            "augury_state_bytes": ("The size of the states of all slots.", float(now.state_bytes)),
            "augury_live_events": ("Events in the live views.", float(now.counts.get("live", 0))),
            **gauges_of_ticks(now.last_tick, now.last_seq, now.lag_seconds),
        }
        yield from families(gauges, now.counts)


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

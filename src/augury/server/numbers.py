"""Numbers of a server for Prometheus: ticks, requests, deliveries, detectors.

In: what is served. Out: text as Prometheus reads it. Only who asks for it loads this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from augury.metrics import families, gauges_of_ticks
from augury.server.requests import BUCKETS
from augury.server.served import Served


class Numbers(Collector):
    """What is told to Prometheus; ticks are counted since the store was made, each once."""

    MEDIA_TYPE: Final = CONTENT_TYPE_LATEST

    def __init__(self, served: Served) -> None:
        """Nothing is counted yet."""
        self._served = served
        self._tick: int | None = None
        self._counts: dict[str, int] = {}
        self._looking = Lock()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def look(self) -> None:
        """Count the ticks that came since; reads the store."""
        with self._looking:  # two who ask at once would count the same ticks twice
            last, counts = self._served.pages.tick_counts(self._tick)
            self._tick = self._tick if last is None else last
            for name, count in counts.items():
                before = self._counts.get(name, 0)
                self._counts[name] = max(before, count) if name == "last_seq" else before + count

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        served, counts = self._served, self._counts
        lag = None if self._tick is None else (served.environment.now_us() - self._tick) / 1_000_000
        gauges = {
            "augury_live_clients": ("Clients that are told live what happens.", float(served.live_clients)),
            "augury_paused": ("Whether ticks are paused.", float(served.is_paused)),
            **gauges_of_ticks(self._tick, counts.get("last_seq", 0), lag),
        }
        yield from families(gauges, counts)
        yield CounterMetricFamily("augury_ticks", "Ticks that were committed.", counts.get("ticks", 0))
        yield from self._requests()
        if served.deliverer is not None:
            done = CounterMetricFamily("augury_deliveries", "Tries of actions, by outcome.", labels=["outcome"])
            for outcome, count in asdict(served.deliverer.counts).items():
                done.add_metric([outcome], count)
            yield done
        if served.detectors is not None:
            said = "Portions of events not taken yet, by detector; a portion is what one look brought."
            waits = GaugeMetricFamily("augury_detector_untaken", said, labels=["name"])
            for name, status in served.detectors.status().items():
                waits.add_metric([name], sum(status.untaken.values()))
            yield waits

    def _requests(self) -> Iterator[Metric]:
        told = self._served.requests
        answers = CounterMetricFamily("augury_requests", "Requests, by answer.", labels=["method", "route", "status"])
        for (method, route, status), count in sorted(told.answers.items()):
            answers.add_metric([method, route, str(status)], count)
        yield answers
        took = HistogramMetricFamily("augury_request_seconds", "How long they took.", labels=["method", "route"])
        for (method, route), times in sorted(told.seconds.items()):
            total, buckets = 0, []
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), times.counts, strict=True):
                total += count
                buckets.append((bound, float(total)))
            took.add_metric([method, route], buckets, times.total)
        yield took

"""How a server is doing: alive, ready, what its engine, detectors and executors do, and numbers for Prometheus.

In: nothing. Out: JSON, and text for Prometheus. Whether it lives and is ready is all that is told without a token; the
engine and each detector are paused and resumed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Final, Literal

from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from augury.actions.deliver import Deliverer
from augury.clock import show_time
from augury.local.store.errors import StoreError
from augury.metrics import families, gauges_of_ticks
from augury.server.models import Deliveries, DetectorList, EngineModel, Health, Ready
from augury.server.problems import Problem
from augury.server.requests import BUCKETS
from augury.server.routes import Route
from augury.server.sensing import detectors_health
from augury.server.served import Served
from augury.server.tokens import Role

REPORTS_TOLD: Final = 10


def routes(served: Served) -> list[Route]:
    """The routes of operation."""
    asked = _Operation(served)
    ready = {"response_model": Ready, "responses": {503: {"model": Ready, "description": "Not ready, and why."}}}
    text = {"response_class": Response, "responses": {200: {"content": {"text/plain": {}}}}}
    return [
        Route("GET", "/health", "open", asked.health, more={"response_model": Health}),
        Route("GET", "/ready", "open", asked.ready, more=ready),
        Route("GET", "/metrics", Role.READ, asked.metrics, more=text),
        Route("GET", "/v1/engine", Role.READ, asked.engine, more={"response_model": EngineModel}),
        Route("POST", "/v1/engine/{verb}", Role.ADMIN, asked.pause, more={"response_model": EngineModel}),
        Route("GET", "/v1/detectors", Role.READ, asked.detectors, more={"response_model": DetectorList}),
        Route(
            "POST",
            "/v1/detectors/{name}/{verb}",
            Role.ADMIN,
            asked.pause_detector,
            more={"response_model": DetectorList},
        ),
    ]


class _Operation:
    def __init__(self, served: Served) -> None:
        self._served = served
        self._registry = CollectorRegistry()
        self._numbers = _Numbers(served)
        self._registry.register(self._numbers)

    async def health(self) -> Health:
        """That the process answers."""
        return Health(alive=True)

    async def ready(self) -> Response:
        """Whether events are taken; 503 while the server ends, or its store cannot be read."""
        reason = None
        if self._served.over.is_set():
            reason = "the server is ending"
        else:
            try:
                await self._served.read(self._served.pages.last_tick)
            except StoreError:
                reason = "the store cannot be read"
        content = Ready(ready=reason is None, reason=reason)
        return JSONResponse(content.model_dump(), 200 if reason is None else 503)

    async def metrics(self) -> Response:
        """Numbers for Prometheus."""
        await self._served.read(self._numbers.look)
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def engine(self) -> EngineModel:
        """How the engine is doing, and what runs beside it."""
        served = self._served
        tick = served.engine.tick
        return EngineModel(
            tick=None if tick is None else show_time(tick),
            paused=served.is_paused,
            reports=served.engine.reports[-REPORTS_TOLD:],
            detectors=None if served.detectors is None else detectors_health(served.detectors),
            actions=None if served.deliverer is None else deliveries(served, served.deliverer).model_dump(),
        )

    async def pause(self, verb: Literal["pause", "resume"]) -> EngineModel:
        """Stop ticks, or go on; events are taken all the same, and read when it goes on."""
        engine = self._served.engine
        await asyncio.to_thread(engine.stop if verb == "pause" else engine.start)
        self._served.is_paused = verb == "pause"
        return await self.engine()

    async def detectors(self) -> DetectorList:
        """How the detectors are doing that run in this process."""
        found = self._served.detectors
        return DetectorList(detectors={} if found is None else detectors_health(found))

    async def pause_detector(self, name: str, verb: Literal["pause", "resume"]) -> DetectorList:
        """Let a detector look no more, or go on."""
        found = self._served.detectors
        known = [] if found is None else list(found.status())
        if found is None or name not in known:
            raise Problem(404, f"there is no detector `{name}`; there are {', '.join(known) or 'none'}")
        (found.pause if verb == "pause" else found.resume)(name)
        return await self.detectors()


def deliveries(served: Served, deliverer: Deliverer) -> Deliveries:
    """How the delivery of actions is doing."""
    return Deliveries(paused=served.is_delivery_paused, **asdict(deliverer.counts))


class _Numbers(Collector):
    """What is told to Prometheus; ticks are counted since the store was made, each once."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._tick: int | None = None
        self._counts: dict[str, int] = {}

    def look(self) -> None:
        """Count the ticks that came since; reads the store."""
        last, counts = self._served.pages.tick_counts(self._tick)
        self._tick = self._tick if last is None else last
        for name, count in counts.items():
            before = self._counts.get(name, 0)
            self._counts[name] = max(before, count) if name == "last_seq" else before + count

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
            waits = GaugeMetricFamily("augury_detector_untaken", "Events not taken yet, by detector.", labels=["name"])
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

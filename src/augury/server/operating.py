"""How a server is doing: alive, ready, what its engine, detectors and executors do, and numbers for Prometheus.

In: nothing. Out: JSON, and text for Prometheus. Whether it lives and is ready is all that is told without a token; the
engine and each detector are paused and resumed here.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from fastapi.responses import JSONResponse, Response

from augury.actions.deliver import Deliverer
from augury.clock import show_time
from augury.local.store.errors import StoreError
from augury.server.models import Deliveries, DetectorList, EngineModel, Health, Ready
from augury.server.problems import Problem
from augury.server.routes import Route
from augury.server.sensing import detectors_health
from augury.server.served import Served
from augury.server.tokens import Role

if TYPE_CHECKING:  # a server that nobody asks for numbers needs none of it
    from augury.server.numbers import Numbers

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

    @cached_property
    def _numbers(self) -> Numbers:
        from augury.server.numbers import Numbers

        return Numbers(self._served)

    async def health(self) -> Health:
        """That the process answers."""
        return Health(alive=True)

    async def ready(self) -> Response:
        """Whether events are taken; 503 while the server ends, or its store cannot be read, or not be written."""
        reason = "the server is ending" if self._served.over.is_set() else None
        if reason is None and self._served.unkept is not None:
            reason = "the store cannot be written"
        elif reason is None:
            try:
                await self._served.read(self._served.pages.last_tick)
            except StoreError:
                reason = "the store cannot be read"
        content = Ready(ready=reason is None, reason=reason)
        return JSONResponse(content.model_dump(), 200 if reason is None else 503)

    async def metrics(self) -> Response:
        """Numbers for Prometheus."""
        numbers = self._numbers
        await self._served.read(numbers.look)
        return Response(numbers.text(), media_type=numbers.MEDIA_TYPE)

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

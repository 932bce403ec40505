"""An engine's inbox over HTTP: events are posted and durable when the answer comes; ticks are paused and resumed.

In: `POST /events` with JSON or lines of JSON. Out: how many were accepted, and why which line was refused. Detectors
and the delivery of actions in the same process are paused and resumed here, too. It knows no user and no password: it
belongs on a loopback address, or behind something that asks for them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import asdict
from typing import Final

from aiohttp import web

from augury.actions.deliver import Deliverer
from augury.clock import show_time
from augury.detectors.run import Detectors
from augury.history.json_lines import DECODER
from augury.history.raw import whole_json
from augury.local.running import LocalEngine
from augury.server.sensing import detector_routes, detectors_health

LOG: Final = logging.getLogger("augury.server")

BODY_BYTES_MAX: Final = 64_000_000
"""Size of one request: it is read whole."""


def engine_app(
    engine: LocalEngine, detectors: Detectors | None = None, deliverer: Deliverer | None = None
) -> web.Application:
    """What answers for an engine: `/events`, `/health`, `/pause` and `/resume`; and for what runs beside it."""
    inbox = _Inbox(engine, detectors, deliverer)
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.add_routes(
        [
            web.post("/events", inbox.events),
            web.get("/health", inbox.health),
            web.post("/pause", inbox.pause),
            web.post("/resume", inbox.resume),
        ]
    )
    if detectors is not None:
        app.add_routes(detector_routes(detectors))
    if deliverer is not None:
        app.add_routes([web.post("/actions/{verb:pause|resume}", inbox.actions)])
    return app


class _Inbox:
    """The handlers of one engine; those that touch its store run in threads."""

    def __init__(self, engine: LocalEngine, detectors: Detectors | None, deliverer: Deliverer | None) -> None:
        self._engine, self._detectors, self._deliverer = engine, detectors, deliverer
        self._is_paused = self._is_acting_paused = False

    async def events(self, request: web.Request) -> web.Response:
        try:
            lines = _lines(await request.read(), request.content_type)
        except ValueError as error:
            return _answer(400, {"error": str(error)})
        try:
            refused = await asyncio.to_thread(self._engine.post_all, lines)
        except Exception as error:  # whatever the store raises: nothing was promised, and it is posted again
            LOG.warning("events could not be kept: %s", error)
            return _answer(503, {"error": f"the events could not be kept: {error}"})
        reasons = [{"line": number, "reason": reason} for number, reason in enumerate(refused, 1) if reason is not None]
        return _answer(200, {"accepted": len(lines) - len(reasons), "refused": reasons})

    async def health(self, request: web.Request) -> web.Response:
        tick = self._engine.tick
        state = {"tick": None if tick is None else show_time(tick), "paused": self._is_paused}
        beside: dict[str, object] = {}
        if self._detectors is not None:
            beside["detectors"] = detectors_health(self._detectors)
        if self._deliverer is not None:
            beside["actions"] = self._acting(self._deliverer)
        return _answer(200, {**state, "reports": self._engine.reports[-10:], **beside})

    async def actions(self, request: web.Request) -> web.Response:
        """Begin to carry out no more actions, or go on; those that fire meanwhile wait in the outbox."""
        assert self._deliverer is not None, "there is no such route without one"
        self._is_acting_paused = request.match_info["verb"] == "pause"
        (self._deliverer.pause if self._is_acting_paused else self._deliverer.resume)()
        return _answer(200, self._acting(self._deliverer))

    def _acting(self, deliverer: Deliverer) -> dict[str, object]:
        return {"paused": self._is_acting_paused, **asdict(deliverer.counts)}

    async def pause(self, request: web.Request) -> web.Response:
        """Stop ticks; events are taken all the same, and read when it goes on."""
        await asyncio.to_thread(self._engine.stop)
        self._is_paused = True
        return _answer(200, {"paused": True})

    async def resume(self, request: web.Request) -> web.Response:
        await asyncio.to_thread(self._engine.start)
        self._is_paused = False
        return _answer(200, {"paused": False})


def _lines(body: bytes, content_type: str) -> list[str]:
    """The events of a body: lines of JSON; or, where it says that it is JSON, an object or a list of them."""
    try:
        text = body.decode("utf-8-sig")
        if content_type == "application/json":
            found = DECODER.decode(text)
            return [whole_json(one) for one in found] if isinstance(found, list) else [whole_json(found)]
    except UnicodeDecodeError:
        raise ValueError("the body is not UTF-8") from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}; lines of JSON are application/x-ndjson") from None
    return [line for line in text.split("\n") if line.strip()]


def _answer(status: int, content: object) -> web.Response:
    return web.Response(status=status, text=json.dumps(content) + "\n", content_type="application/json")

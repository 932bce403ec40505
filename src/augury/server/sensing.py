"""Detectors over HTTP: how each is doing, and each paused and resumed by its name.

In: detectors at work. Out: `GET /health`, `POST /detectors/NAME/pause` and `/resume`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a server that has no detectors starts without it
    from aiohttp import web

    from augury.detectors.run import Detectors
    from augury.environment import Environment
    from augury.server.tokens import Tokens


def detectors_app(
    detectors: Detectors, tokens: Tokens | None, environment: Environment, *, is_open: bool = False
) -> web.Application:
    """What answers for detectors: for who has a token, and with `is_open` for whoever is on this machine."""
    from aiohttp import web

    from augury.server.guarding import guard

    async def health(request: web.Request) -> web.Response:
        return _answer(detectors_health(detectors))

    app = web.Application(middlewares=[guard(tokens, environment.monotonic, is_open=is_open)])
    app.add_routes([web.get("/health", health), *detector_routes(detectors)])
    return app


def detectors_health(detectors: Detectors) -> dict[str, object]:
    """How each is doing, by name."""
    return {name: asdict(one) for name, one in detectors.status().items()}


def detector_routes(detectors: Detectors) -> list[web.RouteDef]:
    """Where each is paused and resumed."""
    from aiohttp import web

    async def change(request: web.Request) -> web.Response:
        name, verb = request.match_info["name"], request.match_info["verb"]
        if name not in detectors.status():
            known = ", ".join(detectors.status()) or "none"
            return _answer({"error": f"there is no detector `{name}`; there are {known}"}, 404)
        (detectors.pause if verb == "pause" else detectors.resume)(name)
        return _answer(detectors_health(detectors))

    return [web.post("/detectors/{name}/{verb:pause|resume}", change)]


def _answer(content: object, status: int = 200) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, text=json.dumps(content) + "\n", content_type="application/json")

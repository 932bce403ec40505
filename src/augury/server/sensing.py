"""Detectors over HTTP: how each is doing, and each paused and resumed by its name.

In: detectors at work. Out: `GET /health`, `POST /detectors/NAME/pause` and `/resume`. It belongs on a loopback address.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from aiohttp import web

from augury.detectors.run import Detectors


def detectors_app(detectors: Detectors) -> web.Application:
    """What answers for detectors."""

    def status(code: int = 200) -> web.Response:
        content = {name: asdict(one) for name, one in detectors.status().items()}
        return web.Response(status=code, text=json.dumps(content) + "\n", content_type="application/json")

    async def health(request: web.Request) -> web.Response:
        return status()

    async def change(request: web.Request) -> web.Response:
        name, verb = request.match_info["name"], request.match_info["verb"]
        if name not in detectors.status():
            known = ", ".join(detectors.status()) or "none"
            message = {"error": f"there is no detector `{name}`; there are {known}"}
            return web.Response(status=404, text=json.dumps(message) + "\n", content_type="application/json")
        (detectors.pause if verb == "pause" else detectors.resume)(name)
        return status()

    app = web.Application()
    app.add_routes([web.get("/health", health), web.post("/detectors/{name}/{verb:pause|resume}", change)])
    return app

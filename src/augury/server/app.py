"""The application of a server: all its routes behind a gate.

In: what is served, and the tokens that count. Out: an ASGI application. Every route has a role; none is found
by who has no token, but whether the server lives and is ready.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import BaseRoute

from augury import __version__, limits
from augury.server import classes, events, feeds, operating, outboxes, programs, triggers
from augury.server.gate import Gate
from augury.server.problems import answer_problems
from augury.server.routes import SCHEMES, Guarded, Route, tell_allowed
from augury.server.served import Served
from augury.server.tokens import Role, Tokens

NOUNS: Final = (events, classes, feeds, triggers, programs, outboxes, operating)
"""What is asked most comes first: routes are looked through in order."""


def server_app(
    served: Served,
    tokens: Tokens | None = None,
    requests_a_second: int = limits.SERVER_REQUESTS_A_SECOND,
    failures_a_second: int = limits.SERVER_FAILURES_A_SECOND,
    is_open: bool = False,
) -> Gate:
    """What answers for an engine: who has a token, and with `is_open` who is on this machine."""
    app = FastAPI(title="Augury", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    answer_problems(app)
    found = [route for noun in NOUNS for route in noun.routes(served)]

    @cache
    def made() -> dict[str, Any]:
        told = get_openapi(title=app.title, version=app.version, routes=[one.made for one in guarded])
        told["components"]["securitySchemes"] = SCHEMES
        return told

    async def document() -> dict[str, Any]:
        """This document."""
        return made()

    found.append(Route("GET", "/v1/openapi.json", Role.READ, document))
    guarded = [Guarded(route) for route in found]
    tell_allowed(guarded)
    app.router.routes = list[BaseRoute](guarded)
    open_paths = [route.path for route in found if route.role == "open"]
    clock = served.environment.monotonic
    return Gate(app, tokens, open_paths, served.requests, clock, requests_a_second, failures_a_second, is_open)

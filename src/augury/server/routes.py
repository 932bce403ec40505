"""Routes: who may ask, and who answers. A route without a role cannot be made.

In: handlers of the modules of nouns. Out: an application in which every route asks for its role before anything of the
request is read. What is asked in bulk is answered past FastAPI, and is documented by it all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

from fastapi.routing import APIRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from augury.server.models import ProblemDocument
from augury.server.problems import Problem
from augury.server.tokens import Caller, Role

CALLER: Final = "augury.caller"
"""Where a request has who asks; the gate puts it there."""

ROUTE: Final = "augury.route"
"""Where a request has the path of its route, once it is found."""

Open = Literal["open"]
Method = Literal["GET", "POST", "PUT", "DELETE"]


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `raw` answers by itself, without FastAPI; `more` is what FastAPI is told for the documentation."""

    method: Method
    path: str
    role: Role | Open
    answer: Callable[..., Any]
    raw: ASGIApp | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


class Guarded(StarletteRoute):
    """A route of an application, which asks for its role.

    What FastAPI makes of it is made when it is first asked: for all of them it takes a tenth of a second.
    """

    def __init__(self, route: Route) -> None:
        """Make it."""
        super().__init__(route.path, route.answer, methods=[route.method])
        self.methods: set[str] = {route.method}  # HEAD is asked by nobody
        self.role = route.role
        self._route = route
        self.app = self._answer if route.raw is None else route.raw

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer who may ask."""
        scope[ROUTE] = self.path
        if self.role != "open":
            caller: Caller = scope[CALLER]
            if not caller.may(self.role):
                who = f"the token `{caller.name}`" if caller.name else "who has no token"
                raise Problem(403, f"{who} may not do this: it needs the role {self.role}")
        await super().handle(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self.made
        await self.made.app(scope, receive, send)

    @cached_property
    def made(self) -> APIRoute:
        """What FastAPI answers and documents."""
        route = self._route
        more: dict[str, Any] = {"responses": {}, **route.more}
        more["responses"] = {**_problems(route), **more["responses"]}
        tag = route.path.split("/")[2] if route.path.startswith("/v1/") else "operation"
        return APIRoute(route.path, route.answer, methods=[route.method], tags=[tag], **more)


def _problems(route: Route) -> dict[int, Any]:
    """What every route may answer, for the documentation."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    told = {"default": {"description": "A problem document (RFC 9457).", "content": content, "model": ProblemDocument}}
    if route.role == "open":
        return {}
    return told  # type: ignore[return-value]

"""Routes: who may ask, and who answers. A route without a role cannot be made.

In: handlers of the modules of nouns. Out: an application in which every route asks for its role before anything of the
request is read. What is asked in bulk is answered past FastAPI, and is documented by it all the same.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal
from urllib.parse import parse_qs

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
        self.allowed: tuple[str, ...] = (route.method,)
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
        if scope["method"] not in self.methods:
            there = ", ".join(self.allowed)
            raise Problem(405, f"{scope['method']} is not asked here: there is {there}", {"allow": there})
        await super().handle(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["query_string"] and self.role != "open":  # who probes may put what they like behind the path
            refuse_unknown(parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True), self._parameters)
        scope["route"] = self.made
        await self.made.app(scope, receive, send)

    @cached_property
    def _parameters(self) -> tuple[str, ...]:
        """The names that may stand behind the question mark."""
        return tuple(one.alias for one in self.made.dependant.query_params)

    @cached_property
    def made(self) -> APIRoute:
        """What FastAPI answers and documents."""
        route = self._route
        more: dict[str, Any] = {**_told(route), "responses": {}, **route.more}
        more["responses"] = {**_problems(route), **more["responses"]}
        more["openapi_extra"] = {**_needed(self.role), **more.get("openapi_extra", {})}
        tag = route.path.split("/")[2] if route.path.startswith("/v1/") else "operation"
        return APIRoute(route.path, route.answer, methods=[route.method], tags=[tag], **more)


def refuse_unknown(asked: Iterable[str], known: Sequence[str]) -> None:
    """Refuse the first parameter that a route does not know: one that is misspelt would mean nothing, unnoticed."""
    for name in asked:
        if name not in known:
            there = f"there is {', '.join(f'`{one}`' for one in known)}" if known else "there is none"
            raise Problem(422, f"`{name}` is not known here: {there}")


def tell_allowed(routes: Iterable[Guarded]) -> None:
    """Let every route know by which methods its path is asked."""
    by_shape: dict[str, list[Guarded]] = {}
    for route in routes:
        by_shape.setdefault(re.sub("{[a-z]+}", "{}", route.path), []).append(route)
    for some in by_shape.values():
        allowed = tuple(sorted(method for one in some for method in one.methods))
        for one in some:
            one.allowed = allowed


def _told(route: Route) -> dict[str, str]:
    """What the documentation calls a route, and says of it: the words of who answers, and its role."""
    first, _, rest = inspect.cleandoc(route.answer.__doc__ or "").partition("\n\n")
    who = "Nobody is asked for a token." if route.role == "open" else f"A token needs the role `{route.role}`."
    return {
        "summary": " ".join(first.split()).removesuffix("."),
        "description": f"{rest}\n\n{who}".strip(),
        "operation_id": operation_id(route.method, route.path),
    }


def operation_id(method: str, path: str) -> str:
    """The name of an operation in the documentation: `get_class_history` for GET /v1/classes/{name}/history."""
    words = path.removeprefix("/v1").strip("/").replace(".", "_").split("/")
    said = [_one_of(word) if after in _NAMES else word for word, after in zip(words, [*words[1:], ""], strict=True)]
    return "_".join([method.lower(), *(word for word in said if not word.startswith("{"))])


_NAMES: Final = frozenset({"{name}", "{key}", "{code}"})


def _one_of(many: str) -> str:
    return "class" if many == "classes" else many.removesuffix("s")


SCHEME: Final = "token"
"""What the documentation calls the way to say who asks."""

SCHEMES: Final[Mapping[str, Any]] = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "What `augury token add` printed, or `augury serve` at its first start. A server that was "
        "started with --open lets who is on its machine post and read without one, and nothing else.",
    }
}


def _needed(role: Role | Open) -> dict[str, Any]:
    """What has to be shown, for the documentation; `x-role` is no word of OpenAPI, which has none for roles."""
    return {"security": [], "x-role": "open"} if role == "open" else {"security": [{SCHEME: []}], "x-role": str(role)}


def _problems(route: Route) -> dict[int, Any]:
    """What every route may answer, for the documentation."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
    told = {"default": {"description": "A problem document (RFC 9457).", "content": content, "model": ProblemDocument}}
    if route.role == "open":
        return {}
    return told  # type: ignore[return-value]

"""What stands before the routes of processes that sense or act: the same tokens as those of a server.

In: requests as aiohttp has them. Out: the same, or a problem document. Without tokens it is for who is on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from augury.actions.webhook import PROBLEM_TYPE
from augury.server.callers import CHALLENGE, NotLetIn, caller_of, refuse_pages
from augury.server.tokens import Role, Tokens


def guard(tokens: Tokens | None, path: str | None = None, *, is_signed: bool = False) -> Middleware:
    """Ask for READ to look and for ADMIN to do anything; but what is sent to one path needs no token.

    It says by itself who sent it where it is signed; else it is for who is on this machine, and no page of a browser.
    """

    @web.middleware
    async def guarding(request: web.Request, handler: Handler) -> web.StreamResponse:
        role = Role.READ if request.method in ("GET", "HEAD") else Role.ADMIN
        try:
            if path is not None and request.path == path:
                if not is_signed:
                    refuse_pages(request.headers.get("host"), request.headers.get("origin"))
            else:
                caller = caller_of(request.headers.get, tokens)
                if tokens is not None and not caller.may(role):
                    return problem(403, f"the token `{caller.name}` may not do this: it needs the role {role}")
        except NotLetIn as error:
            return problem(error.status, error.detail, CHALLENGE if error.status == 401 else None)
        return await handler(request)

    return guarding


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer that is an error, as a problem document."""
    content = {"type": "about:blank", "status": status, "detail": detail}
    return web.Response(status=status, text=json.dumps(content) + "\n", content_type=PROBLEM_TYPE, headers=headers)

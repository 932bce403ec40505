"""What stands before the routes of processes that sense or act: the same tokens as those of a server.

In: requests as aiohttp has them. Out: the same, or a problem document: 401 without a token that counts, 429 where that
comes too often of an address.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from augury.actions.webhook import PROBLEM_TYPE
from augury.server.callers import CHALLENGE, NotLetIn, caller_of
from augury.server.rates import failures
from augury.server.tokens import ANYBODY_HERE, Role, Tokens


def guard(
    tokens: Tokens | None, clock: Callable[[], float], *, is_open: bool = False, signed_path: str | None = None
) -> Middleware:
    """Ask for READ to look and for ADMIN to do anything; what is sent to a signed path says by itself who sent it.

    With `is_open` whoever is on this machine, and no page of a browser, may do all of it without a token.
    """
    slowed = failures(clock)

    @web.middleware
    async def guarding(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path != signed_path:
                role = Role.READ if request.method in ("GET", "HEAD") else Role.ADMIN
                caller = caller_of(request.headers.get, tokens, is_open=is_open)
                if caller is not ANYBODY_HERE and not caller.may(role):
                    return problem(403, f"the token `{caller.name}` may not do this: it needs the role {role}")
            answer = await handler(request)
        except NotLetIn as error:
            answer = problem(error.status, error.detail, CHALLENGE if error.status == 401 else None)
        if answer.status != 401 or (seconds := slowed.wait(request.remote or "")) == 0:
            return answer
        return problem(429, "too many requests that were not let in", {"retry-after": str(math.ceil(seconds))})

    return guarding


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """An answer that is an error, as a problem document."""
    content = {"type": "about:blank", "status": status, "detail": detail}
    return web.Response(status=status, text=json.dumps(content) + "\n", content_type=PROBLEM_TYPE, headers=headers)

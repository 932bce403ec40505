"""What stands before every route: who asks, how often, and how much they send.

In: requests as ASGI has them. Out: the same with their caller, or a problem document: 401 without a token that counts,
429 too often (of a token; of an address, without one that counts), 413 too large, 503 while the server ends. Only what
is open passes without a caller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from augury import limits
from augury.server.callers import CHALLENGE, NotLetIn, caller_of
from augury.server.problems import LOG, Problem
from augury.server.rates import Rates, failures
from augury.server.requests import Requests
from augury.server.routes import CALLER, ROUTE
from augury.server.tokens import Caller, Tokens

Headers = Iterable[tuple[bytes, bytes]]


class Gate:
    """Lets requests through to an application."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        open_paths: Collection[str],
        requests: Requests,
        clock: Callable[[], float],
        requests_a_second: int = limits.SERVER_REQUESTS_A_SECOND,
        failures_a_second: int = limits.SERVER_FAILURES_A_SECOND,
        is_open: bool = False,
    ) -> None:
        """Stand before an application; `clock` gives seconds that never go back.

        `is_open` lets who is on this machine post and read without a token.
        """
        self.app = app
        self._tokens, self._open, self._requests, self._clock = tokens, frozenset(open_paths), requests, clock
        self._rates = Rates(requests_a_second, clock)
        self._failures = failures(clock, failures_a_second)
        self._is_open = is_open
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            return await self._other(scope, receive, send)
        begun, status = self._clock(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] not in self._open:
                self._pass(scope)
                receive = _limited(receive, _most(scope))
            await self.app(scope, receive, answer)
        except Problem as problem:
            await problem(scope, receive, answer)
        except Exception as error:  # the application has told and logged it, unless an answer was under way
            if status != HTTPStatus.INTERNAL_SERVER_ERROR:
                LOG.error("an answer broke off", exc_info=error)
        finally:
            self._requests.note(scope["method"], scope.get(ROUTE, ""), status, self._clock() - begun)

    def _pass(self, scope: Scope) -> None:
        """Find out who asks; raises `Problem` for who may not, or not now."""
        scope[CALLER] = caller = self._caller(scope)
        if self.is_draining:
            raise Problem(503, "the server is ending", {"retry-after": "5", "connection": "close"})
        if (seconds := self._rates.wait(caller.name)) > 0:
            raise _too_often("too many requests", seconds)
        _refuse_large(scope)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":  # nothing is asked that way
            await send({"type": "websocket.close", "code": 1008})

    def _caller(self, scope: Scope) -> Caller:
        """Who asks; who may not is counted by address, for there is no name."""
        headers: Headers = scope["headers"]
        try:
            return caller_of(lambda name: _header(headers, name.encode()), self._tokens, is_open=self._is_open)
        except NotLetIn as error:
            address = (scope.get("client") or ("",))[0]
            if (seconds := self._failures.wait(address)) > 0:
                raise _too_often(f"too many requests that were not let in: {error.detail}", seconds) from None
            raise Problem(error.status, error.detail, CHALLENGE if error.status == 401 else None) from None


def _too_often(detail: str, seconds: float) -> Problem:
    return Problem(429, detail, {"retry-after": str(math.ceil(seconds))})


def _header(headers: Headers, name: bytes) -> str | None:
    for found, value in headers:
        if found == name:
            return value.decode("latin-1")
    return None


def _most(scope: Scope) -> int:
    return limits.SERVER_STREAM_BYTES_MAX if scope["path"] == "/v1/events" else limits.SERVER_BODY_BYTES_MAX


def _refuse_large(scope: Scope) -> None:
    said = _header(scope["headers"], b"content-length")
    if said is not None and (not said.isdecimal() or int(said[:20]) > _most(scope)):
        raise _too_large(_most(scope))


def _too_large(most: int) -> Problem:
    return Problem(413, f"a request has at most {most:,} bytes", {"connection": "close"})


def _limited(receive: Receive, most: int) -> Receive:
    """What arrives, up to its limit: a request that comes in chunks does not say how long it is."""
    count = 0

    async def limited() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > most:
            raise _too_large(most)
        return message

    return limited

"""What went wrong, as problem documents (RFC 9457): one shape for every error of a server.

In: what was raised. Out: an answer of `application/problem+json`, with diagnostics where a program has some. What
nobody expected is logged, and told without its reason.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from augury.actions.webhook import PROBLEM_TYPE
from augury.clock import NoSuchTime
from augury.diagnostics import Diagnostic, Source, to_json
from augury.local.store.errors import NoSuchClass, StoreError, StoreFull

LOG: Final = logging.getLogger("augury.server")

RETRY_SECONDS: Final = 1


class Problem(Exception):
    """An answer that is an error; `more` are members of its document beside those of the standard."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        """Keep what is to be said."""
        super().__init__(detail)
        self.status, self.detail, self.headers, self.more = status, detail, dict(headers or {}), more

    def document(self) -> dict[str, Any]:
        """The members of the document."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail, **self.more}

    def answer(self) -> Response:
        """The answer."""
        text = json.dumps(self.document(), ensure_ascii=False, default=str) + "\n"
        content = text.encode("utf-8", "backslashreplace")
        return Response(content, self.status, headers=self.headers, media_type=PROBLEM_TYPE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that no route has seen yet."""
        await self.answer()(scope, receive, send)


def of_program(found: Sequence[Diagnostic], source: Source, status: int = 422) -> Problem:
    """What is wrong with a program."""
    told = [to_json(one, source) for one in found]
    detail = found[0].message if len(found) == 1 else f"the program has {len(found)} errors"
    return Problem(status, detail, diagnostics=told)


def of_store(error: StoreError) -> Problem:
    """What a store could not do: nothing was promised, and it can be asked again."""
    if isinstance(error, NoSuchClass):
        return Problem(404, str(error), known=list(error.known))
    again = {"retry-after": str(RETRY_SECONDS)}
    return Problem(507 if isinstance(error, StoreFull) else 503, str(error), again)


def of_error(error: Exception) -> Problem:
    """Whatever was raised."""
    match error:
        case Problem():
            return error
        case StoreError():
            LOG.warning("%s", error)
            return of_store(error)
        case NoSuchTime():
            return Problem(422, str(error))
        case RequestValidationError():
            return _of_request(error)
        case HTTPException(status_code=HTTPStatus.NOT_FOUND):
            return Problem(404, "there is nothing at this path: GET /v1/openapi.json says what there is")
        case HTTPException():
            detail = str(error.detail) if error.detail else HTTPStatus(error.status_code).phrase
            return Problem(error.status_code, detail, error.headers)
        case _:
            LOG.error("a request failed", exc_info=error)
            return Problem(500, "the server failed; its log says why")


def _of_request(error: RequestValidationError) -> Problem:
    wrong = [{"at": ".".join(map(str, one["loc"])), "reason": str(one["msg"])} for one in error.errors()]
    detail = "; ".join(f"{one['at']}: {one['reason']}" for one in wrong[:3])
    return Problem(422, f"the request does not fit: {detail}", wrong=wrong[:100])


def answer_problems(app: FastAPI) -> None:
    """Let an application answer with problem documents, whatever is raised."""

    async def answer(request: Request, error: Exception) -> Response:
        return of_error(error).answer()

    for kind in (Problem, StoreError, NoSuchTime, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, answer)

"""`/v1/events`: events are posted, one, several or a stream of lines; the answer comes when they are durable, or read.

In: JSON or lines of JSON. Out: how many are durable and why others are refused; with `wait=read` what became of each.
This is what a server is asked most, so it is answered past FastAPI, with the bytes at hand.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import parse_qs

from fastapi import Query
from starlette.types import Receive, Scope, Send

from augury import limits
from augury.algebra.program import Program
from augury.engine.firing import plain
from augury.engine.ticked import FiredTrigger
from augury.event import key_of
from augury.history.json_lines import DECODER
from augury.history.raw import whole_json
from augury.local.answers import Answer, failures_of
from augury.local.posts import PostRefused
from augury.local.store.errors import StoreError
from augury.server.gathering import Refusals
from augury.server.models import Accepted, AnswerModel, Answers
from augury.server.problems import Problem, of_store
from augury.server.routes import Route, refuse_unknown
from augury.server.served import Served
from augury.server.tokens import Role

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
_LINES: Final = frozenset({NDJSON, "application/jsonl", "application/ndjson"})
_WAITS: Final = ("durable", "read")

_ONE_ACCEPTED: Final = b'{"accepted": 1, "refused": []}\n'


def routes(served: Served) -> list[Route]:
    """The routes of events."""
    return [Route("POST", "/v1/events", Role.POST, _documented, Inbox(served), _DOCUMENTED)]


async def _documented(wait: Literal["durable", "read"] = Query("durable")) -> None:
    """Post events: an object, a list of them, or lines of them, each as `augury run` reads it.

    The answer comes when all are durable; with `wait=read` when all are read, with what triggers gave back, and what
    came about. One event that is refused is a problem (422); of several the answer says which are.
    """


class Inbox:
    """Takes events."""

    def __init__(self, served: Served) -> None:
        """Take the engine that is served."""
        self._served, self._posts = served, served.posts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        wait, kind = _wait(scope["query_string"]), _kind(scope["headers"])
        if kind in _LINES:
            await _answer(send, await self._stream(receive, wait))
        elif kind == JSON:
            await _answer(send, await self._whole(await _body(receive), wait))
        else:
            raise Problem(415, f"events are {JSON}, or lines of JSON: {NDJSON}", {"accept-post": f"{JSON}, {NDJSON}"})

    async def _whole(self, body: bytes, wait: str) -> bytes:
        try:
            text = body.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise Problem(400, "the body is not UTF-8") from None
        if text.startswith("["):
            lines = _of_list(text)
            if wait == "read":
                return await self._read_all(lines)
            return _accepted(await self._posts.post(lines), 0)
        if wait == "read":
            return await self._read_one(text)
        (refused,) = await self._posts.post((text,))
        if refused is not None:
            raise Problem(422, refused)
        return _ONE_ACCEPTED

    async def _stream(self, receive: Receive, wait: str) -> bytes:
        """Lines as they come, some at a time: those before a failure are durable, and it says how many."""
        if wait == "read":
            return await self._read_all(await _held(receive))
        told: Refusals = []
        reasons: dict[int, str] = {}
        count = 0
        try:
            async for some in _lines(receive):
                told = await self._posts.post(some)
                reasons |= {count + n: why for n, why in enumerate(told, 1) if why is not None}
                count += len(told)
        except StoreError as error:
            problem = of_store(error)
            problem.more["accepted"] = count - len(reasons)
            raise problem from error
        except Problem as problem:
            problem.more["accepted"] = count - len(reasons)
            raise
        return _told(count, reasons)

    # ---- waiting until they are read ---------------------------------------------------------------------------

    async def _read_one(self, line: str) -> bytes:
        answer = await self._notified(line)
        if answer.refused is not None:
            raise Problem(422, answer.refused)
        return (_answer_text(answer, self._served.engine.program) + "\n").encode()

    async def _notified(self, line: str) -> Answer:
        try:
            return await self._served.notify(line)
        except PostRefused as error:
            return Answer(0, refused=str(error))

    async def _read_all(self, lines: Sequence[str]) -> bytes:
        if len(lines) > limits.SERVER_WAITED_EVENTS_MAX:
            raise _too_many()
        program = self._served.engine.program
        answers = [_answer_text(await self._notified(line), program) for line in lines]
        return f'{{"answers": [{", ".join(answers)}]}}\n'.encode()


def _wait(query: bytes) -> str:
    if not query:
        return "durable"
    asked = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    refuse_unknown(asked, ("wait",))
    wait = asked["wait"][-1]
    if wait not in _WAITS:
        raise Problem(422, f"wait is {' or '.join(_WAITS)}, not `{wait}`")
    return wait


def _kind(headers: Sequence[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return NDJSON


async def _body(receive: Receive) -> bytes:
    parts, count = [], 0
    async for part in _parts(receive):
        parts.append(part)
        count += len(part)
        if count > limits.SERVER_BODY_BYTES_MAX:
            most = f"{limits.SERVER_BODY_BYTES_MAX:,} bytes"
            raise Problem(413, f"JSON has at most {most}; lines of JSON may be more", {"connection": "close"})
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _parts(receive: Receive) -> AsyncIterator[bytes]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(400, "the request broke off")
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return


async def _lines(receive: Receive) -> AsyncIterator[list[str]]:
    """The lines of a body that are not blank, some at a time."""
    rest = b""
    async for part in _parts(receive):
        *whole, rest = (rest + part).split(b"\n")
        for start in range(0, len(whole), limits.SERVER_LINES_AT_ONCE):
            if some := _texts(whole[start : start + limits.SERVER_LINES_AT_ONCE]):
                yield some
        if len(rest) > limits.INFER_LINE_BYTES_MAX:
            raise Problem(413, f"a line has at most {limits.INFER_LINE_BYTES_MAX:,} bytes", {"connection": "close"})
    if some := _texts([rest]):
        yield some


async def _held(receive: Receive) -> list[str]:
    """All lines of a body, which wait in memory for the first of them to be read: so few, and so short, at most."""
    held: list[str] = []
    count = 0
    async for some in _lines(receive):
        held += some
        count += sum(map(len, some))
        if len(held) > limits.SERVER_WAITED_EVENTS_MAX:
            raise _too_many()
        if count > limits.SERVER_BODY_BYTES_MAX:
            most = f"{limits.SERVER_BODY_BYTES_MAX:,} bytes"
            raise Problem(413, f"lines that are waited for have at most {most} together", {"connection": "close"})
    return held


def _too_many() -> Problem:
    most = f"{limits.SERVER_WAITED_EVENTS_MAX:,} events"
    return Problem(413, f"at most {most} are waited for at once", {"connection": "close"})


def _texts(lines: Sequence[bytes]) -> list[str]:
    try:
        return [line.decode("utf-8-sig") for line in lines if line.strip()]
    except UnicodeDecodeError:
        raise Problem(400, "the body is not UTF-8") from None


def _of_list(text: str) -> list[str]:
    try:
        found = DECODER.decode(text)
        return [whole_json(one) for one in found]
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}; lines of JSON are {NDJSON}") from None


def _accepted(refused: Refusals, before: int) -> bytes:
    return _told(len(refused), {before + n: why for n, why in enumerate(refused, 1) if why is not None})


def _told(count: int, reasons: Mapping[int, str]) -> bytes:
    shown = list(reasons.items())[: limits.SERVER_REFUSALS_TOLD_MAX]
    content = {"accepted": count - len(reasons), "refused": [{"line": n, "reason": why} for n, why in shown]}
    return (json.dumps(content) + "\n").encode()


async def _answer(send: Send, content: bytes) -> None:
    length = str(len(content)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _answer_text(answer: Answer, program: Program) -> str:
    """What became of an event, with values digit by digit."""
    fired = ", ".join(_fired_text(one, program) for one in answer.firings)
    return (
        f'{{"place": {whole_json(answer.place or None)}, "seq": {whole_json(answer.seq)}, '
        f'"refused": {whole_json(answer.refused)}, "absorbed": {whole_json(answer.is_absorbed)}, '
        f'"returned": {whole_json(dict(answer.returned))}, "firings": [{fired}], '
        f'"occurrences": [{", ".join(answer.occurrences)}]}}'
    )


def _fired_text(fired: FiredTrigger, program: Program) -> str:
    firing = fired.firing
    trigger = next(one for one in program.triggers if key_of(one.name) == key_of(firing.trigger))
    given = zip(trigger.parameters, firing.parameters, strict=True)
    return whole_json(
        {
            "trigger": firing.trigger,
            "number": fired.number,
            "event": fired.event,
            "key": dict(fired.key),
            "seq": firing.seq,
            "constituents": list(firing.constituents),
            "parameters": {one.name: plain(value, one.type) for one, value in given},
            "returned": None if trigger.returns is None else plain(firing.returned, trigger.returns[0]),
            "failed": [{"rule": rule, "reason": reason} for rule, reason in failures_of(fired)],
        }
    )


_EVENT: Final = {
    "type": "object",
    "properties": {"event": {"type": "string"}},
    "required": ["event"],
    "additionalProperties": True,
}
_DOCUMENTED: Final[dict[str, Any]] = {
    "response_model": Accepted | AnswerModel | Answers,
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": {"anyOf": [_EVENT, {"type": "array", "items": _EVENT}]}},
                NDJSON: {"schema": {"type": "string"}},
            },
        }
    },
}

"""`/v1/occurrences` and `/v1/firings`: what complex classes and triggers found, page by page, or live as it happens.

In: names, and a cursor: how far each of them was told. Out: pages of JSON, or server-sent events, each with the cursor
after it as its id. Numbers of versions and firings are given once, so that who comes again with the last cursor misses
nothing and hears nothing twice.
"""

from __future__ import annotations

import base64
import binascii
import heapq
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import Header, Query
from fastapi.responses import Response, StreamingResponse

from augury import limits
from augury.clock import microseconds_of
from augury.event import ClassKind, key_of
from augury.history.raw import whole_json
from augury.history.views import system_names
from augury.server.classes import Limit, unknown
from augury.server.models import Feed
from augury.server.problems import Problem
from augury.server.routes import Route
from augury.server.rows import MEDIA, Form, page_text, row_texts
from augury.server.served import Served
from augury.server.tokens import Role

EVENT_STREAM: Final = "text/event-stream"
_LIVE_ROWS: Final = 500
_CURSOR: Final = "^[A-Za-z0-9_-]*$"
_CURSOR_MAX: Final = 20_000
"""Characters of a cursor: some thousand names, and not more than a request may have in its first line."""

Cursor = dict[str, int]
After = Annotated[
    str | None, Query(max_length=_CURSOR_MAX, pattern=_CURSOR, description="`cursor` of the page before.")
]
Names = Annotated[list[str] | None, Query(max_length=1_000, description="Only these; else all.")]
LastEventId = Annotated[str | None, Header(max_length=_CURSOR_MAX, pattern=_CURSOR)]


@dataclass(frozen=True, slots=True)
class Told:
    """Something that happened: when, of which name, its number there, and all of it as JSON."""

    tick: int
    place: int
    number: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Source:
    """Things of one kind: by name how to read those after a number, and the last number there is now."""

    what: str
    names: Callable[[], list[str]]
    after: Callable[[str, int, int], list[tuple[int, int, str]]]
    last: Callable[[list[str]], list[int]]


def routes(served: Served) -> list[Route]:
    """The routes of what was found."""
    found = []
    live = {"responses": {200: {"content": {EVENT_STREAM: {}}}}, "response_class": StreamingResponse}
    for path, source in (("occurrences", _occurrences(served)), ("firings", _firings(served))):
        asked = _Feed(served, source)
        more = {"response_model": Feed, "summary": f"The {path} so far, in the order of ticks, or those after a cursor"}
        found.append(Route("GET", f"/v1/{path}", Role.READ, asked.page, more=more))
        more = {**live, "summary": f"The {path} from now on, or after a cursor, as server-sent events"}
        found.append(Route("GET", f"/v1/{path}/live", Role.READ, asked.live, more=more))
    return found


class _Feed:
    def __init__(self, served: Served, source: Source) -> None:
        self._served, self._source = served, source

    async def page(self, name: Names = None, after: After = None, limit: Limit = limits.SERVER_PAGE_ROWS) -> Response:
        """What was found, in the order of ticks: from the beginning, or after a cursor."""
        wanted, cursor = self._wanted(name), _read_cursor(after) if after else {}
        told, more = await self._served.read(partial(self._some, wanted, cursor, limit))
        text = page_text([one.text for one in told], cursor=_cursor_text(_moved(cursor, told)), more=more)
        return Response(text, media_type=MEDIA[Form.JSON])

    async def live(
        self, name: Names = None, after: After = None, last_event_id: LastEventId = None
    ) -> StreamingResponse:
        """What is found from now on, or after a cursor, as server-sent events; `Last-Event-ID` is one, too."""
        wanted = self._wanted(name)
        begin = last_event_id or after
        if self._served.live_clients >= limits.SERVER_LIVE_CLIENTS_MAX:
            raise Problem(503, "too many are told live already", {"retry-after": "10"})
        cursor = _read_cursor(begin) if begin else await self._served.read(partial(self._now, wanted))
        return StreamingResponse(self._events(wanted, cursor), media_type=EVENT_STREAM, headers=_UNBUFFERED)

    async def _events(self, wanted: list[str], cursor: Cursor) -> AsyncIterator[str]:
        self._served.live_clients += 1
        try:
            # Who is cut off before anything happens must be able to say where it was.
            yield f"event: begin\nid: {_cursor_text(cursor)}\ndata: {{}}\n\n"
            while not self._served.over.is_set():
                seen = self._served.happened
                told, more = await self._served.read(partial(self._some, wanted, cursor, _LIVE_ROWS))
                for one in told:
                    cursor = _moved(cursor, [one])
                    yield f"event: {self._source.what}\nid: {_cursor_text(cursor)}\ndata: {one.text}\n\n"
                if not more and not await self._served.wait(seen, limits.SERVER_HEARTBEAT_SECONDS):
                    yield ": still here\n\n"
        finally:
            self._served.live_clients -= 1

    def _wanted(self, names: list[str] | None) -> list[str]:
        known = {key_of(one): one for one in self._source.names()}
        if names is None:
            return list(known.values())
        for name in names:
            if key_of(name) not in known:
                raise unknown(_NOUNS[self._source.what], name, list(known.values()))
        asked = {key_of(name) for name in names}
        return [one for key, one in known.items() if key in asked]

    def _now(self, wanted: list[str]) -> Cursor:
        return {key_of(name): last for name, last in zip(wanted, self._source.last(wanted), strict=True)}

    def _some(self, wanted: list[str], cursor: Mapping[str, int], limit: int) -> tuple[list[Told], bool]:
        """The next things of all names in the order of ticks, and whether there are more."""
        streams = [self._of(name, place, cursor.get(key_of(name), 0), limit + 1) for place, name in enumerate(wanted)]
        merged = heapq.merge(*streams, key=lambda one: (one.tick, one.place, one.number))
        told = [one for one, _ in zip(merged, range(limit + 1), strict=False)]
        return told[:limit], len(told) > limit

    def _of(self, name: str, place: int, after: int, limit: int) -> Iterator[Told]:
        for tick, number, text in self._source.after(name, after, limit):
            yield Told(tick, place, number, name, text)


_NOUNS: Final = {"occurrence": "complex class", "firing": "trigger"}
_UNBUFFERED: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


def _occurrences(served: Served) -> Source:
    """Versions of complex classes."""

    def names() -> list[str]:
        plans = served.engine.program.classes
        return [plan.event_class.name for plan in plans if plan.event_class.kind is ClassKind.COMPLEX]

    def after(name: str, number: int, limit: int) -> list[tuple[int, int, str]]:
        plan = served.engine.program.class_plan(name)
        if plan is None:  # dropped meanwhile
            return []
        own = system_names(plan.event_class)
        table = served.pages.versions(plan.event_class, number, limit)
        ticks = table.column(own.tick).cast("int64").to_pylist()
        return list(zip(ticks, table.column(own.number).to_pylist(), row_texts(table, name), strict=True))

    def last(wanted: list[str]) -> list[int]:
        plans = [served.engine.program.class_plan(name) for name in wanted]
        return served.pages.last_numbers([plan.event_class for plan in plans if plan is not None])

    return Source("occurrence", names, after, last)


def _firings(served: Served) -> Source:
    """Firings of triggers."""

    def names() -> list[str]:
        return [trigger.name for trigger in served.engine.program.triggers]

    def after(name: str, number: int, limit: int) -> list[tuple[int, int, str]]:
        found = served.pages.firings(name, number, limit)
        return [(microseconds_of(row["tick"]), row["number"], whole_json({"trigger": name, **row})) for row in found]

    def last(wanted: list[str]) -> list[int]:
        counts = {key_of(name): count for name, count in served.pages.firing_counts().items()}
        return [counts.get(key_of(name), 0) for name in wanted]

    return Source("firing", names, after, last)


# ---- cursors ---------------------------------------------------------------------------------------------------


def _moved(cursor: Mapping[str, int], told: list[Told]) -> Cursor:
    return {**cursor, **{key_of(one.name): one.number for one in told}}


def _cursor_text(cursor: Mapping[str, int]) -> str:
    content = json.dumps(dict(sorted(cursor.items())), ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def _read_cursor(text: str) -> Cursor:
    """Numbers by names; raises `Problem`."""
    try:
        found = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
        if not isinstance(found, dict) or not all(type(one) is int and 0 <= one < 2**62 for one in found.values()):
            raise ValueError("not what a page gives")
    except (ValueError, binascii.Error, RecursionError):
        raise Problem(422, "`after` is no cursor: take `cursor` of a page, or the id of an event, as it is") from None
    return found

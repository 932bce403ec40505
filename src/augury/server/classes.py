"""`/v1/classes`: the classes of the program, and the history of each: all of it, as known at a time, or what changed.

In: names and times. Out: rows as JSON, page by page, or all of them as lines of JSON, CSV or a stream of Arrow.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Header, Query
from fastapi.responses import Response, StreamingResponse

from augury import limits
from augury.algebra.dump import dump_class
from augury.algebra.program import ClassPlan
from augury.clock import NoSuchTime, show_duration
from augury.diagnostics import closest
from augury.event import ClassKind, EventClass
from augury.history import views
from augury.kernels.firing import Switched
from augury.local.store.asking import asked_us
from augury.server.models import AttributeModel, Classes, ClassModel, Rows
from augury.server.problems import Problem
from augury.server.routes import Route
from augury.server.rows import MEDIA, Form, page_text, row_texts, wanted_form, written
from augury.server.served import Served
from augury.server.tokens import Role

_ROWS_AT_ONCE: Final = 50_000

Verb = Literal["enable", "disable"]

Limit = Annotated[int, Query(ge=1, le=limits.SERVER_PAGE_ROWS_MAX, description="Rows of the page.")]
After = Annotated[int, Query(ge=0, le=2**62, description="`next` of the page before.")]
Moment = Annotated[str | None, Query(max_length=100, description="A time, ISO-8601, or now.")]


def routes(served: Served) -> list[Route]:
    """The routes of classes."""
    asked = _Classes(served)
    content: dict[str, Any] = {media: {} for media in MEDIA.values()}
    history = {"response_model": Rows, "responses": {200: {"content": content}}}
    return [
        Route("GET", "/v1/classes", Role.READ, asked.every, more={"response_model": Classes}),
        Route("GET", "/v1/classes/{name}", Role.READ, asked.one, more={"response_model": ClassModel}),
        Route("POST", "/v1/classes/{name}/{verb}", Role.DEFINE, asked.switch, more={"response_model": ClassModel}),
        Route("GET", "/v1/classes/{name}/history", Role.READ, asked.history, more=history),
    ]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which versions of a history are asked for; times are microseconds since the epoch."""

    as_of: int | None
    known_at: int | None
    between: tuple[int, int] | None

    @property
    def is_whole(self) -> bool:
        return self.as_of is None and self.known_at is None and self.between is None

    def view(self, table: pa.Table, event_class: EventClass) -> pa.Table:
        if self.between is not None:
            return views.diff(table, event_class, *self.between)
        return views.then(table, event_class, self.as_of, self.known_at)


class _Classes:
    def __init__(self, served: Served) -> None:
        self._served = served

    async def every(self) -> Classes:
        """The classes of the program, in the order of declaration."""
        return Classes(classes=[self._model(plan) for plan in self._served.engine.program.classes])

    async def one(self, name: str) -> ClassModel:
        """A class."""
        return self._model(plan_named(self._served, name))

    async def switch(self, name: str, verb: Verb) -> ClassModel:
        """Enable or disable a class that takes events: while it is disabled they are refused, with that reason."""
        plan = plan_named(self._served, name)
        if plan.event_class.kind is ClassKind.COMPLEX:
            told = "follows from others: disable what it follows from, or drop it"
            raise Problem(409, f"`{plan.event_class.name}` is a complex class, and {told}")
        engine = self._served.engine
        await self._served.read(lambda: engine.switch(Switched.CLASS, plan.event_class.name, verb == "enable"))
        return self._model(plan)

    def _model(self, plan: ClassPlan) -> ClassModel:
        one = plan.event_class
        return ClassModel(
            name=one.name,
            kind=one.kind.value,
            enabled=self._served.engine.is_on(Switched.CLASS, one.name),
            mutable=one.mutable,
            attributes=[AttributeModel(name=a.name, type=str(a.type)) for a in one.attributes],
            key=list(one.key),
            lifespan=None if one.lifespan_us is None else show_duration(one.lifespan_us),
            reads=list(plan.reads),
            derivation=dump_class(plan),
        )

    async def history(
        self,
        name: str,
        as_of: Moment = None,
        known_at: Moment = None,
        diff_from: Moment = None,
        diff_to: Moment = None,
        form: Annotated[Form | None, Query(alias="format", description="Else what Accept says.")] = None,
        after: After = 0,
        limit: Limit = limits.SERVER_PAGE_ROWS,
        accept: Annotated[str, Header()] = "",
    ) -> Response:
        """Every version of a class; or what had happened by a time, was known at one, or was learned between two.

        JSON comes in pages, of `limit` rows `after` a number; every other form has all rows.
        """
        event_class = plan_named(self._served, name).event_class
        asked = self._asked(as_of, known_at, diff_from, diff_to)
        wanted = wanted_form(form, accept)
        if wanted is Form.JSON:
            text = await self._served.read(partial(self._page, event_class, asked, after, limit))
            return Response(text, media_type=MEDIA[wanted])
        event = None if asked.between else event_class.name
        first = self._parts(event_class, asked, after)
        return StreamingResponse(_stream(self._served, written(first, wanted, event)), media_type=MEDIA[wanted])

    def _asked(self, as_of: str | None, known_at: str | None, start: str | None, end: str | None) -> _Asked:
        now = self._served.environment.now_us()
        times = [None if text is None else asked_us(text, now) for text in (as_of, known_at, start, end)]
        if (start is None) != (end is None):
            raise Problem(422, "what changed is asked between two times: diff_from and diff_to")
        if start is not None and (as_of or known_at):
            raise Problem(422, "diff_from and diff_to are times of their own: leave as_of and known_at out")
        between = None if times[2] is None or times[3] is None else (times[2], times[3])
        if between is not None and between[0] > between[1]:
            raise NoSuchTime("diff_from lies after diff_to")
        return _Asked(times[0], times[1], between)

    def _page(self, event_class: EventClass, asked: _Asked, after: int, limit: int) -> str:
        """A page; of what changed, rows have no number, and are counted."""
        if asked.is_whole:
            found = self._whole(event_class, after, limit + 1)
        else:
            found = asked.view(self._served.pages.history(event_class), event_class)
            if asked.between is not None:
                found = found.slice(after)
            else:
                found = found.filter(pc.greater(found.column(_number(event_class)), after))
        page = found.slice(0, limit)
        last = after + limit if asked.between else page.column(0)[-1].as_py() if page.num_rows else None
        more = found.num_rows > limit
        event = None if asked.between else event_class.name
        return page_text(row_texts(page, event), next=last if more else None)

    def _parts(self, event_class: EventClass, asked: _Asked, after: int) -> Iterator[pa.Table]:
        if not asked.is_whole:
            yield asked.view(self._served.pages.history(event_class), event_class)
            return
        while True:
            part = self._whole(event_class, after, _ROWS_AT_ONCE)
            yield part
            if part.num_rows < _ROWS_AT_ONCE:
                return
            after = part.column(0)[-1].as_py()

    def _whole(self, event_class: EventClass, after: int, limit: int) -> pa.Table:
        if self._served.engine.program.settings.retain_us is None:
            return self._served.pages.versions(event_class, after, limit)
        table = self._served.pages.history(event_class)  # what is retained is known only of the whole
        return table.filter(pc.greater(table.column(0), after)).slice(0, limit)


def plan_named(served: Served, name: str) -> ClassPlan:
    """The class of that name; raises `Problem`."""
    plan = served.engine.program.class_plan(name)
    if plan is None:
        known = [one.event_class.name for one in served.engine.program.classes]
        raise unknown("class", name, known)
    return plan


def unknown(what: str, name: str, known: list[str]) -> Problem:
    """There is nothing of that name."""
    meant = closest(name, known)
    help_ = f": did you mean `{meant}`?" if meant else ""
    return Problem(404, f"the program has no {what} called `{name}`{help_}", known=known)


def _number(event_class: EventClass) -> str:
    return views.system_names(event_class).number


async def _stream(served: Served, parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Parts that are made in a thread, one by one as they are sent."""
    following: Callable[[], bytes | None] = partial(next, parts, None)  # StopIteration does not leave a thread
    while (part := await served.read(following)) is not None:
        yield part

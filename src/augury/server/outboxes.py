"""`/v1/actions` and `/v1/rejected`: what waits to be done, what is dead, and events that were refused.

In: which actions. Out: pages of them; dead letters are tried again or dropped; and delivery is paused and resumed.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Annotated, Literal

from fastapi import Query
from fastapi.responses import Response

from augury import limits
from augury.actions.lines import action_line
from augury.clock import show_time
from augury.history.raw import whole_json
from augury.local.store.outbox import SqlOutbox
from augury.local.store.waiting import State, Wanted
from augury.server.classes import After, Limit
from augury.server.models import ActionModel, Actions, Count, Deliveries, Rows, WantedActions
from augury.server.operating import deliveries
from augury.server.problems import Problem
from augury.server.routes import Route
from augury.server.rows import MEDIA, Form, page_text
from augury.server.served import Served
from augury.server.tokens import Role

Name = Annotated[str | None, Query(max_length=1_000)]


def routes(served: Served) -> list[Route]:
    """The routes of actions and rejected events."""
    asked = _Outbox(served)
    return [
        Route("GET", "/v1/actions", Role.READ, asked.page, more={"response_model": Actions}),
        Route("GET", "/v1/actions/{key}", Role.READ, asked.one, more={"response_model": ActionModel}),
        Route("POST", "/v1/actions/{verb}", Role.ADMIN, asked.change, more={"response_model": Count}),
        Route("POST", "/v1/delivery/{verb}", Role.ADMIN, asked.pause, more={"response_model": Deliveries}),
        Route("GET", "/v1/rejected", Role.READ, asked.rejected, more={"response_model": Rows}),
    ]


class _Outbox:
    def __init__(self, served: Served) -> None:
        self._served = served

    async def page(
        self,
        state: Annotated[list[State] | None, Query(max_length=4)] = None,
        action: Name = None,
        event: Name = None,
        after: After = 0,
        limit: Limit = limits.SERVER_PAGE_ROWS,
    ) -> Response:
        """Actions with what has become of them, in their order; dead letters have the state `dead`."""
        return await self._listed(Wanted(tuple(state or ()), action, event), after, limit)

    async def one(self, key: str) -> Response:
        """The action with this idempotency key."""
        line = await self._served.with_outbox(
            lambda outbox: next(map(action_line, outbox.listed(Wanted(keys=(key,)))), "")
        )
        if not line:
            raise Problem(404, f"there is no action `{key}`")
        return Response(line, media_type=MEDIA[Form.JSON])

    async def change(self, verb: Literal["retry", "drop"], wanted: WantedActions) -> Count:
        """Let actions that were not delivered be tried again at once (`retry`), or never (`drop`)."""
        try:
            states = tuple(State(one) for one in wanted.states)
        except ValueError:
            raise Problem(422, f"a state is one of {', '.join(State)}") from None
        asked = Wanted(states, wanted.action, wanted.event, tuple(wanted.keys))
        if asked == Wanted() and not wanted.all:
            raise Problem(422, "say which: keys, states, action, event, or all")
        now = self._served.environment.now_us()

        def work(outbox: SqlOutbox) -> int:
            return outbox.retry(asked, now) if verb == "retry" else outbox.drop(asked, now)

        return Count(count=await self._served.with_outbox(work))

    async def pause(self, verb: Literal["pause", "resume"]) -> Deliveries:
        """Begin to carry out no more actions, or go on; those that fire meanwhile wait in the outbox."""
        deliverer = self._served.deliverer
        if deliverer is None:
            raise Problem(404, "this server carries out no actions: start it with --act")
        self._served.is_delivery_paused = verb == "pause"
        (deliverer.pause if verb == "pause" else deliverer.resume)()
        return deliveries(self._served, deliverer)

    async def rejected(self, after: After = 0, limit: Limit = limits.SERVER_PAGE_ROWS) -> Response:
        """Events that were refused, with the reason, in their order."""
        rows = await self._served.read(partial(self._served.pages.rejected, after, limit + 1))
        page = rows[:limit]
        lines = [
            whole_json(
                {
                    "number": row.number,
                    "tick": show_time(row.tick),
                    "place": row.place,
                    "event": row.event,
                    "reason": row.reason,
                    "raw": row.raw,
                }
            )
            for row in page
        ]
        text = page_text(lines, next=page[-1].number if len(rows) > limit else None)
        return Response(text, media_type=MEDIA[Form.JSON])

    async def _listed(self, wanted: Wanted, after: int, limit: int) -> Response:
        def work(outbox: SqlOutbox) -> str:
            found = list(islice(outbox.listed(wanted, after), limit + 1))
            last = found[limit - 1].action.id if len(found) > limit else None
            return page_text([action_line(one).strip() for one in found[:limit]], next=last)

        return Response(await self._served.with_outbox(work), media_type=MEDIA[Form.JSON])

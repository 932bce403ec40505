"""EVENT: an action becomes an event of a class, posted to an engine here or behind HTTP.

Its arguments are the attributes, in their order. Its event_id is the idempotency key, so that an engine absorbs what it
gets twice; its det_time is when it is first posted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from augury.actions.delivery import Again, Dead, Delivered, Delivery, HoldsNothing, Outcome, shortened
from augury.actions.threads import Threads
from augury.clock import show_time
from augury.environment import Environment, NotTrusted, Request, Unreachable
from augury.history.raw import whole_json

if TYPE_CHECKING:
    from augury.local.running import LocalEngine


class Poster(Protocol):
    """Hands events to an engine."""

    @property
    def target(self) -> str:
        """Which engine."""
        ...

    async def post(self, event: Mapping[str, Any], seconds: float, environment: Environment) -> Outcome:
        """Post it; once it is `Delivered` it survives a crash."""
        ...


@dataclass(frozen=True)
class Event(HoldsNothing):
    """Posts actions as events."""

    event_class: str
    attributes: tuple[str, ...]
    poster: Poster
    seconds: float

    @property
    def target(self) -> str:
        """The engine."""
        return self.poster.target

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Post it."""
        given, wanted = len(delivery.arguments), len(self.attributes)
        if given != wanted:
            return Dead(f"the action has {given} arguments, and `{self.event_class}` has {wanted} attributes")
        values = dict(zip(self.attributes, delivery.arguments, strict=True))
        about = {
            "event": self.event_class,
            "event_id": delivery.key,
            "det_time": show_time(environment.now_us()),
        }
        return await self.poster.post({**about, **values}, self.seconds, environment)


class EnginePoster:
    """An engine in this process."""

    def __init__(self, engine: LocalEngine, places: int = 8) -> None:
        """Take an engine that is open."""
        self.target = f"engine {id(engine)}"
        self._engine, self._threads = engine, Threads(places)

    async def post(self, event: Mapping[str, Any], seconds: float, environment: Environment) -> Outcome:
        """Post it."""
        from augury.local.posts import PostRefused

        try:
            await self._threads.run(lambda: self._engine.post(event), seconds)
        except PostRefused as error:
            return Dead(shortened(str(error)))
        except TimeoutError:
            return Again(f"the engine took longer than {seconds:g} s")
        return Delivered()


@dataclass(frozen=True)
class HttpPoster:
    """An engine that takes events at `URL/v1/events`, from who has a token that may post."""

    url: str
    token: str | None = field(default=None, repr=False)

    @property
    def target(self) -> str:
        """Where it is."""
        return f"engine {self.url}"

    async def post(self, event: Mapping[str, Any], seconds: float, environment: Environment) -> Outcome:
        """Post it."""
        headers = {"content-type": "application/x-ndjson"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        body = whole_json(event).encode() + b"\n"
        asked = Request("POST", f"{self.url.rstrip('/')}/v1/events", headers, body, seconds)
        try:
            answer = await environment.network.request(asked)
        except Unreachable as error:
            return Again(shortened(str(error)), is_refusal=isinstance(error, NotTrusted))
        if answer.status in (401, 403):  # a token can be renewed
            return Again(f"the engine answered {answer.status}", is_refusal=True)
        if answer.status >= 500 or answer.status in (408, 429):
            return Again(f"the engine answered {answer.status}")
        said = shortened(answer.body.decode("utf-8", "replace").strip())
        if not 200 <= answer.status < 300:
            return Dead(f"the engine answered {answer.status}: {said}")
        return Dead(f"the engine refused the event: {said}") if _is_refused(answer.body) else Delivered()


def _is_refused(body: bytes) -> bool:
    """Whether an answer with 200 names a line that was refused."""
    try:
        told = json.loads(body or b"{}")
    except ValueError:
        return False
    return isinstance(told, dict) and bool(told.get("refused"))

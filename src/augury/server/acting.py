"""Executors over HTTP: engines post actions as CloudEvents, and are answered when they are carried out.

In: `POST /actions`. Out: 204 done, 503 to be tried again, 422 never, 404 nobody carries it out. An action is known by
`source` and `id`: while one is under way others wait for it, and one that was delivered lately is not done again. It
knows no engine, and keeps nothing on the disk.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final, TypeVar

from aiohttp import web

from augury.actions.deliver import Carrier, Counts
from augury.actions.delivery import Again, Dead, Delivered, Outcome, shortened, told
from augury.actions.envelope import MEDIA_TYPE, Received, received, wrongly_signed
from augury.environment import Environment
from augury.event import key_of
from augury.server.guarding import guard, problem
from augury.server.tokens import Tokens

BODY_BYTES_MAX: Final = 16_000_000
"""Size of one action: it is read whole."""

REMEMBERED_MAX: Final = 100_000
"""Actions that are known to be delivered, and as many that failed, the oldest forgotten first: some 20 MB each. Who
sends one again after an answer that was lost does so within minutes."""

_GRACE_SECONDS: Final = 5.0
_PAUSED: Final = Again("the executors are paused", 1.0)
Known = tuple[str, str]
_T = TypeVar("_T")


class Executors:
    """Carries out actions for several engines; each is tried by one at a time, and each target has its places."""

    def __init__(self, carriers: Mapping[str, Carrier], environment: Environment) -> None:
        """Take who carries out what, by names of actions."""
        self.counts = Counts()
        self.is_paused = False
        self._environment = environment
        self._carriers = {key_of(name): carrier for name, carrier in carriers.items()}
        self._places = _places(self._carriers)
        self._under_way: dict[Known, asyncio.Task[Outcome]] = {}
        self._delivered: OrderedDict[Known, None] = OrderedDict()
        self._failures: OrderedDict[Known, int] = OrderedDict()

    @property
    def under_way(self) -> int:
        """How many actions are being carried out, or wait for a place."""
        return len(self._under_way)

    def carries_out(self, action: str) -> bool:
        """Whether somebody is bound to an action."""
        return key_of(action) in self._carriers

    async def carry_out(self, one: Received) -> Outcome:
        """Carry out an action that somebody is bound to, unless it was delivered lately, or wait for who does so."""
        known_by = (one.source, one.delivery.key)
        if known_by in self._delivered:
            self._delivered.move_to_end(known_by)
            return Delivered()
        task = self._under_way.get(known_by)
        if task is None:
            if self.is_paused:
                return _PAUSED
            task = asyncio.get_running_loop().create_task(self._try(known_by, one))
            self._under_way[known_by] = task
            task.add_done_callback(lambda _: self._under_way.pop(known_by))
        return await asyncio.shield(task)  # who asked may go away, and comes again

    async def stop(self) -> None:
        """Begin nothing new, and let what is under way finish for a few seconds."""
        self.is_paused = True
        tasks = list(self._under_way.values())
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _try(self, known_by: Known, one: Received) -> Outcome:
        carrier = self._carriers[key_of(one.delivery.action)]
        async with self._places[carrier.executor.target]:
            if self.is_paused:
                return _PAUSED
            # Engines that saw the same have the same keys, and each wants its own action done.
            key, attempt = f"{one.sender}:{one.delivery.key}", self._failures.get(known_by, 0) + 1
            delivery = replace(one.delivery, key=key, attempt=attempt)
            try:
                outcome = await carrier.executor.carry_out(delivery, self._environment)
            except Exception as error:
                outcome = Again(told(error))
        return self._noted(known_by, carrier, outcome, attempt)

    def _noted(self, known_by: Known, carrier: Carrier, outcome: Outcome, attempt: int) -> Outcome:
        if isinstance(outcome, Again) and attempt <= carrier.retries:
            self.counts.again += 1
            _remember(self._failures, known_by, attempt)
            return outcome
        self._failures.pop(known_by, None)
        if isinstance(outcome, Delivered):
            self.counts.delivered += 1
            _remember(self._delivered, known_by, None)
            return outcome
        self.counts.dead += 1
        if isinstance(outcome, Again):
            times = "1 try" if attempt == 1 else f"{attempt} tries"
            return Dead(f"given up after {times}: {shortened(outcome.reason)}")
        return outcome


def _places(carriers: Mapping[str, Carrier]) -> dict[str, asyncio.Semaphore]:
    """By target, how many actions may be carried out there at once."""
    most: dict[str, int] = {}
    for carrier in carriers.values():
        target = carrier.executor.target
        most[target] = max(carrier.concurrency, most.get(target, 0))
    return {target: asyncio.Semaphore(count) for target, count in most.items()}


def _remember(known: OrderedDict[Known, _T], known_by: Known, what: _T) -> None:
    known[known_by] = what
    known.move_to_end(known_by)
    while len(known) > REMEMBERED_MAX:
        known.popitem(last=False)


def acting_app(
    executors: Executors,
    environment: Environment,
    keys: tuple[bytes, ...] = (),
    tokens: Tokens | None = None,
    *,
    is_open: bool = False,
) -> web.Application:
    """What answers for executors: `/actions`, `/health`, `/pause` and `/resume`.

    Actions must be signed, and all else is asked for by a token; but `is_open` lets whoever is on this machine ask, and
    send actions where there are no keys.
    """

    async def actions(request: web.Request) -> web.Response:
        if request.content_type != MEDIA_TYPE:  # what a page in a browser may send unasked is none
            return problem(415, f"an action is a CloudEvent: send it as {MEDIA_TYPE}")
        body = await request.read()
        if keys and (wrong := _unsigned(request, body, keys, environment.now_us())):
            return problem(401, wrong)
        try:
            one = received(body)
        except ValueError as error:
            return problem(400, str(error))
        if keys and request.headers.get("webhook-id") != one.delivery.key:
            return problem(401, "webhook-id, which is signed, is not the id of the action")
        if not executors.carries_out(one.delivery.action):
            return problem(404, f"nobody is bound to the action `{one.delivery.action}` here")
        return _answered(await executors.carry_out(one))

    async def health(request: web.Request) -> web.Response:
        state = {"paused": executors.is_paused, "under_way": executors.under_way, **asdict(executors.counts)}
        return web.Response(text=json.dumps(state) + "\n", content_type="application/json")

    async def change(request: web.Request) -> web.Response:
        executors.is_paused = request.match_info["verb"] == "pause"
        return await health(request)

    guarding = guard(tokens, environment.monotonic, is_open=is_open, signed_path="/actions" if keys else None)
    app = web.Application(client_max_size=BODY_BYTES_MAX, middlewares=[guarding])
    app.add_routes(
        [web.post("/actions", actions), web.get("/health", health), web.post("/{verb:pause|resume}", change)]
    )
    return app


def _unsigned(request: web.Request, body: bytes, keys: tuple[bytes, ...], now_us: int) -> str | None:
    said = [request.headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature")]
    if not all(said):
        return "an action has to be signed here: give the engine the secret"
    return wrongly_signed(keys, said[0], said[1], said[2], body, now_us)


def _answered(outcome: Outcome) -> web.Response:
    match outcome:
        case Delivered():
            return web.Response(status=204)
        case Again(reason, after_seconds):
            # Without it the engine waits longer each time; with it all actions of that name wait.
            wait = {} if after_seconds is None else {"retry-after": str(math.ceil(after_seconds))}
            return problem(503, reason, wait)
        case Dead(reason):
            return problem(422, reason)

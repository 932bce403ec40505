"""An action on its way, what can come of trying it, and what an executor is.

In: a row of an outbox. Out: plain values. Nothing here knows any executor, or when something is tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

from augury.clock import show_time
from augury.environment import Environment
from augury.history.raw import whole_json
from augury.local.store.waiting import Waiting

REASON_CHARACTERS_MAX: Final = 500
"""Of a reason that is kept: the rest helps nobody."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """An action to be carried out.

    `key` is its own for ever: whoever gets it twice knows by the key. `arguments` and `event_key` are plain values as
    JSON has them; a number that no float holds exactly is a `Decimal`. `tick` is in microseconds since the epoch,
    `attempt` counts from 1.
    """

    key: str
    action: str
    arguments: tuple[Any, ...]
    event: str
    event_key: Mapping[str, Any]
    tick: int
    seq: int | None
    attempt: int

    def data(self) -> dict[str, Any]:
        """All of it by name, as executors hand it on."""
        return {
            "action": self.action,
            "arguments": list(self.arguments),
            "event": self.event,
            "key": dict(self.event_key),
            "tick": show_time(self.tick),
            "seq": self.seq,
            "idempotency_key": self.key,
        }

    def json(self) -> str:
        """The same as JSON."""
        return whole_json(self.data())


@dataclass(frozen=True, slots=True)
class Delivered:
    """It is done."""


@dataclass(frozen=True, slots=True)
class Again:
    """It is to be tried again: as soon as it would be anyway, or after as long as the other side asks for.

    `is_refusal` says that the target lets nobody in, a wrong password say: that is told at once, for it lasts.
    """

    reason: str
    after_seconds: float | None = None
    is_refusal: bool = False


@dataclass(frozen=True, slots=True)
class Dead:
    """It can never be done. Where the target is to blame, others to that target are not tried in a hurry.

    `is_refusal` says, as that of `Again` does, that the target lets nobody in.
    """

    reason: str
    is_target: bool = False
    is_refusal: bool = False


Outcome = Delivered | Again | Dead


class GiveUp(Exception):
    """Raised by a Python function that carries out an action: it becomes a dead letter at once."""


class Executor(Protocol):
    """Carries out actions."""

    @property
    def target(self) -> str:
        """What may be slow or dead: whatever has the same target shares a queue and a breaker."""
        ...

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Try it once, within a time of its own. What it raises counts as `Again`."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class HoldsNothing:
    """What an executor that keeps nothing open is made of."""

    __slots__ = ()

    async def close(self) -> None:
        """Nothing is held."""


def delivery_of(waiting: Waiting) -> Delivery:
    """A row of an outbox as executors get it."""
    return Delivery(
        waiting.idempotency_key,
        waiting.action,
        tuple(json.loads(waiting.arguments, parse_float=_number)),
        waiting.event,
        json.loads(waiting.key, parse_float=_number),
        waiting.tick,
        waiting.seq,
        waiting.attempts + 1,
    )


def _number(text: str) -> float | Decimal:
    exact, near = Decimal(text), float(text)
    return near if Decimal(repr(near)) == exact else exact


def told(error: BaseException) -> str:
    """An error as a reason."""
    text = " ".join(str(error).split()) or type(error).__name__
    return shortened(text if isinstance(error, OSError) else f"{type(error).__name__}: {text}")


def shortened(text: str) -> str:
    """A reason of bounded length."""
    return text if len(text) <= REASON_CHARACTERS_MAX else f"{text[:REASON_CHARACTERS_MAX]}…"

"""Who takes events: an engine in this process, or one that is reached over HTTP (`http_sink`).

In: events as lines of JSON. When `take` returns they are durable there; until then they are offered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:  # whoever feeds engines elsewhere needs none of what runs them
    from augury.local.running import LocalEngine

LOG: Final = logging.getLogger("augury.detectors")

LINES_AT_ONCE: Final = 5_000
"""Events that are handed over together, where there are as many."""


class NotTaken(Exception):
    """An engine that did not take events, or did not say so; the message says why."""


class Sink(Protocol):
    """Takes events."""

    async def take(self, lines: Sequence[str]) -> None:
        """Take events, in order; raises `NotTaken`. The same ones may come again, with the same ids."""
        ...


class EngineSink:
    """An engine in this process."""

    def __init__(self, engine: LocalEngine, name: str) -> None:
        """Its name is for messages."""
        self._engine, self._name = engine, name

    async def take(self, lines: Sequence[str]) -> None:
        """Post them, in a thread: the store writes to the disk."""
        try:
            refused = await asyncio.to_thread(self._engine.post_all, lines)
        except Exception as error:  # whatever its store raises
            raise NotTaken(f"engine {self._name} cannot keep events: {error}") from error
        tell_refused(self._name, [reason for reason in refused if reason is not None])


def tell_refused(engine: str, reasons: Sequence[str]) -> None:
    """Say that some were refused; which ones is among the rejected events of the engine."""
    if reasons:
        LOG.warning("engine %s refuses %d of the events, the first because %s", engine, len(reasons), reasons[0])

"""SQL: an action becomes a row of a table, once by its idempotency key.

A table that is not there is made. In one that is, columns called `action`, `arguments`, `event`, `event_key`, `tick`
and `seq` get what they say, and all others the arguments in their order. `local.inserting` does it, in threads.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Final

from augury.actions.delivery import Again, Dead, Delivered, Delivery, Outcome, shortened
from augury.actions.threads import Threads
from augury.clock import show_time
from augury.environment import Environment
from augury.history.raw import whole_json
from augury.local.inserting import KEY, CannotInsert, Inserter, InsertFailed

_NAMES: Final = (KEY, "action", "arguments", "event", "event_key", "tick", "seq")


class Sql:
    """Inserts rows."""

    def __init__(self, url: str, table: str, places: int, seconds: float) -> None:
        """Take a table; raises `CannotInsert`."""
        self._inserter = Inserter(url, table, _NAMES)
        self._threads, self._seconds = Threads(places), seconds
        self._first, self._is_there = asyncio.Lock(), False
        self.target = f"sql {self._inserter.place}"

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Insert it."""
        known = {
            KEY: delivery.key,
            "action": delivery.action,
            "arguments": whole_json(delivery.arguments),
            "event": delivery.event,
            "event_key": whole_json(delivery.event_key),
            "tick": show_time(delivery.tick),
            "seq": delivery.seq,
        }
        try:
            # One makes the table if it is not there: of several at once all but one would be told that it is.
            async with asyncio.timeout(self._seconds), nullcontext() if self._is_there else self._first:
                await self._threads.run(lambda: self._inserter.insert(known, delivery.arguments), None)
                self._is_there = True
        except CannotInsert as error:
            return Dead(shortened(str(error)))
        except InsertFailed as error:
            return Again(shortened(str(error)))
        except TimeoutError:
            return Again(f"the database took longer than {self._seconds:g} s")
        return Delivered()

    async def close(self) -> None:
        """Let go of the database."""
        self._inserter.close()

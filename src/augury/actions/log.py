"""LOG: an action as a line of JSON, to whoever takes lines: the log of the process, or standard output."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from augury.actions.delivery import Delivered, Delivery, HoldsNothing, Outcome
from augury.environment import Environment


def to_log(line: str) -> None:
    """A line to the log `augury.actions`."""
    logging.getLogger("augury.actions").info("%s", line)


@dataclass(frozen=True)
class Log(HoldsNothing):
    """Writes actions as lines."""

    write: Callable[[str], None] = to_log
    target: str = "log"

    async def carry_out(self, delivery: Delivery, environment: Environment) -> Outcome:
        """Write it."""
        self.write(delivery.json())
        return Delivered()

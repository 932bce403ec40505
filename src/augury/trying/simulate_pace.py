"""How fast a simulation goes: at once, tick by tick as somebody asks for the next, or in step with a clock.

In: ticks. Out: the same ticks, later. Sleeping goes through the environment, so that a run can be had again exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from augury.environment import Environment
    from augury.trying.shown import Shown


def paced(
    shown: Iterable[Shown],
    environment: Environment,
    *,
    step: bool = False,
    speed: float | None = None,
    ask: Callable[[], bool] = lambda: True,
) -> Iterator[Shown]:
    """Ticks, each when its time has come; with `step` somebody is asked after each whether to go on.

    `speed` is how many seconds of the data pass in one second; None for no waiting at all.
    """
    before: int | None = None
    for one in shown:
        if before is not None and step and not ask():
            return
        if before is not None and speed is not None:
            environment.block((one.tick - before) / 1e6 / speed)
        before = one.tick
        yield one

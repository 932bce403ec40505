"""Which part of a MATCH an event of a tuple stands for, as far as its mark tells.

In: a compiled MATCH, the class of an event, and the mark that the kernel left at it. Out: the part as text, or nothing
where several that differ may be meant. It reads no events.
"""

from __future__ import annotations

from collections.abc import Callable

from augury.algebra.expression import Primitive, Variable, walk
from augury.event import key_of
from augury.kernels.match.detector import CONSTITUENT, Detector
from augury.kernels.match.inline import inline

Parts = Callable[[str, int], str]


def parts_of(detector: Detector) -> Parts:
    """What tells the part by the name of a class and a mark: the variables that the part binds are bits of it."""
    bits = {variable.name: 2 << number for number, variable in enumerate(detector.variables)}
    of_kind = (1 << detector.kind_shift) - 1
    known: dict[tuple[str, int], dict[str, None]] = {}
    for part in walk(detector.plan.expression):
        if isinstance(part, Primitive):
            bound = {one.name for one in part.bindings if isinstance(one, Variable)}
            mark = CONSTITUENT | sum(bits.get(name, 0) for name in bound)
            known.setdefault((key_of(part.event_class), mark), {})[inline(part)] = None

    def part_at(event_class: str, mark: int) -> str:
        texts = list(known.get((key_of(event_class), mark & of_kind), ()))
        return texts[0] if len(texts) == 1 else ""

    return part_at

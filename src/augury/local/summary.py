"""What a run says when it is over: how much was read, refused, found and done, how long that took, where it all is.

In: counts, refusals, names. Out: lines of text for standard error. It prints nothing and knows no engine.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from augury.algebra.program import Program
from augury.event import ClassKind
from augury.history.raw import Rejected

_REJECTED_SHOWN_MAX: Final = 20


def summary_of(
    program: Program,
    counts: Mapping[str, int],
    rejected: Rejected,
    warnings: Mapping[str, int],
    errors: Mapping[str, int],
    failures: Sequence[tuple[str, str]],
    failed: int,
) -> str:
    """How many versions were read, events refused, actions fired, and what went wrong."""
    first = [
        counted(counts["read"], "version"),
        f"{counted(counts['absorbed'], 'duplicate')} absorbed",
        f"{counted(len(rejected), 'event')} rejected",
        *(
            [counted(counts["actions"], "action")]
            if program.triggers or any(p.statements for p in program.classes)
            else []
        ),
    ]
    names = [plan.event_class.name for plan in program.classes]
    warned = [(name, warnings[name]) for name in names if name in warnings]
    told = [f"`{name}`: {counted(n, 'row')} of the SELECT did not count" for name, n in warned]
    told += [errors_of(name, errors[name]) for name in names if name in errors]
    told += [f"`{name}` could not be evaluated: {reason}" for name, reason in failures]
    if (more := failed - len(failures)) > 0:
        told.append(f"… and {more:,} more such failures")
    return "\n".join([", ".join(first), *rejections(rejected), *told])


def closing_of(
    program: Program, given: Mapping[str, int], seconds: float, store: str | None, rejected_to: str | None
) -> str:
    """How many lines there are of each complex class, how long it took, and where the results lie."""
    names = [p.event_class.name for p in program.classes if p.event_class.kind is ClassKind.COMPLEX]
    found = ", ".join(f"{name} {given.get(name, 0):,}" for name in names)
    lines = [f"versions of complex events: {found}"] if found else []
    lines.append(f"took {seconds:.1f} s")
    lines.append(
        "results: on standard output" + ("" if store is None else f"; every tick in {_without_password(store)}")
    )
    if store is not None and program.classes:
        name = names[0] if names else program.classes[0].event_class.name
        lines.append(f"  look at them: augury history {shlex.quote(name)} --store {_argument(store)}")
    if rejected_to is not None:
        lines.append(f"rejected events: in {printable(rejected_to)}")
    return "\n".join(lines)


def _argument(store: str) -> str:
    return shlex.quote(_without_password(store))


def _without_password(store: str) -> str:
    """The name of a store as it may stand on a screen."""
    return printable(re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", store))


def rejections(rejected: Rejected) -> list[str]:
    """The first of the rejected events, a line each."""
    first = islice(zip(rejected.place, rejected.reason, strict=True), _REJECTED_SHOWN_MAX)
    shown = [f"  {printable(place)}: {printable(reason)}" for place, reason in first]
    more = len(rejected) - len(shown)
    return [*shown, *([f"  … and {more:,} more"] if more else [])]


def errors_of(name: str, count: int) -> str:
    """That expressions of a class had no value."""
    return f"`{name}`: {counted(count, 'error')} in masks, WHERE, RETURN or conditions, taken for NULL"


def counted(number: int, what: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """The text with one harmless character for each that a terminal would act upon."""
    return "".join(ch if ch.isprintable() else "\ufffd" for ch in text)


def _acts(program: Program) -> bool:
    return bool(program.triggers) or any(plan.statements for plan in program.classes)

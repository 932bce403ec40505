"""The worked cases of triggers and rules as data: `tests/corpus/triggers/*.toml`, for every engine that runs them.

Groups share `says`, `prelude`, `program`, `month`, `events` and `until`; a case may have its own. The program of a case
is its `prelude` and its `program`. Times and `events` are written as in `tests/bitemporal/corpus.py`.

- `title`: what the case shows. `says`: the sentence of the contract, or the reading of docs/triggers.md, that it pins.
- `firings`: all of them in order, `trigger @seq Class [constituents] (parameters) | rule | rule | … | = returned`. A
  firing without `seq` has its time there; `-` is no class (the clock triggered); `= …` stands where there is RETURNS.
- a rule: `Name(arguments) + deed, deed` where its condition held, `-` where it did not, `Name off` if it was disabled,
  `Name stopped` if one before it failed.
- a deed: `action(arguments)`, with ` !` after it if it failed; `POST Class(values) @seq`, `!reason` if it was refused,
  `?` if it was not read.
- `versions`: `seq Class(values) occ/det` of all versions that were read, posted ones among them.
- `turns`: `time enable|disable rule|group|trigger name`; `revisions`: by time, what replaces `program` from then on.
- `depth`: how many posts may follow from one another.

FUNCTIONS are what actions of these names do at once; all others only stand in the outbox.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.api import compile
from augury.event import key_of
from augury.kernels.reference.bitemporal import Raw
from augury.kernels.reference.triggers import (
    Call,
    Done,
    Firing,
    Functions,
    Outcome,
    Posted,
    Revision,
    RuleFailed,
    Switch,
    Switched,
    Triggered,
    Turn,
)
from tests.bitemporal import corpus as bitemporal

CORPUS = Path(__file__).parents[1] / "corpus" / "triggers"
SHARED = {"says", "prelude", "program", "month", "events", "until"}
KEYS = SHARED | {"name", "title", "firings", "versions", "turns", "revisions", "depth"}

Case = dict[str, Any]


def _broken(*arguments: Value) -> Value:
    raise RuleFailed(f"cannot be done with {len(arguments)} arguments")


FUNCTIONS: Functions = {
    "twice": lambda x: x * 2,
    "same": lambda x: x,
    "word": lambda: "word",
    "huge": lambda: 2**40,
    "nothing": lambda: None,
    "truth": lambda: True,
    "endless": lambda: 10**400,
    "infinite": lambda: float("inf"),
    "broken": _broken,
}


def cases() -> Iterator[Case]:
    """Every case, with what its group shares."""
    for path in sorted(CORPUS.glob("*.toml")):
        for group in tomllib.loads(path.read_text("utf-8")).get("group", []):
            shared = {key: group[key] for key in SHARED & set(group)}
            for written in group["case"]:
                case = {"month": "2026-01", "prelude": "", **shared, **written}
                assert set(case) <= KEYS, f"unknown key in {case['name']}: {set(case) - KEYS}"
                for needed in ("title", "says", "events", "firings"):
                    assert needed in case, f"{case['name']} has no {needed}"
                yield case


def program_of(case: Case) -> Program:
    return _compiled(case["prelude"] + case["program"])


_compiled = cache(compile)


def raws_of(case: Case, program: Program) -> list[Raw]:
    return bitemporal.raws_of(case, program)


def until_of(case: Case) -> int | None:
    return bitemporal.until_of(case)


def turns_of(case: Case) -> list[Turn]:
    times = bitemporal.Times(case["month"])
    found: list[Turn] = []
    for text in case.get("turns", []):
        at, verb, kind, name = text.split()
        found.append(Switch(times.read(at), Switched(kind), name, {"enable": True, "disable": False}[verb]))
    for at, program in case.get("revisions", {}).items():
        found.append(Revision(times.read(at), _compiled(case["prelude"] + program)))
    return found


# ---- showing --------------------------------------------------------------------------------------


class Writer:
    """What triggers did, in the text of the corpus."""

    def __init__(self, program: Program, month: str, turns: Iterable[Turn] = ()) -> None:
        self.program, self.times = program, bitemporal.Times(month)
        programs = [program, *(turn.program for turn in turns if isinstance(turn, Revision))]
        self.returning = {key_of(t.name) for one in programs for t in one.triggers if t.returns is not None}

    def shown(self, found: Triggered, key: str) -> list[str]:
        if key == "firings":
            return [self.firing(one) for one in found.firings]
        writer = bitemporal.Writer(self.program, "2026-01")
        writer.times = self.times
        read = [version for tick in found.run.ticks for version in tick.read]
        return [f"{one.seq} {writer.version(one)}/{self.times.show(one.det_time)}" for one in read]

    def firing(self, firing: Firing) -> str:
        at = self.times.show(firing.det_time) if firing.seq is None else str(firing.seq)
        constituents = ", ".join(map(str, firing.constituents))
        head = f"{firing.trigger} @{at} {firing.event_class or '-'} [{constituents}] ({self.values(firing.parameters)})"
        parts = [head, *(self.call(call) for call in firing.calls)]
        if key_of(firing.trigger) in self.returning:
            parts.append(f"= {self.value(firing.returned)}")
        return " | ".join(parts)

    def call(self, call: Call) -> str:
        match call.outcome:
            case Outcome.DISABLED:
                return f"{call.rule} off"
            case Outcome.STOPPED:
                return f"{call.rule} stopped"
            case _:
                sign = "+" if call.outcome is Outcome.HELD else "-"
                deeds = ", ".join(map(self.deed, call.deeds))
                return f"{call.rule}({self.values(call.arguments)}) {sign} {deeds}".rstrip()

    def deed(self, deed: Done | Posted) -> str:
        if isinstance(deed, Done):
            return f"{deed.name}({self.values(deed.arguments)})" + (" !" if deed.failure is not None else "")
        became = f"@{deed.seq}" if deed.seq is not None else f"!{deed.refused}" if deed.refused is not None else "?"
        return f"POST {deed.event_class}({self.values(deed.values)}) {became}"

    def values(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self.value, values))

    def value(self, value: Value) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return str(value).upper()
            # No whole number of the corpus is as large as a time of it.
            case int() if value > 10**14:
                return self.times.show(value)
            case Decimal():
                return f"{value.normalize():f}"
            case _:
                return str(value)

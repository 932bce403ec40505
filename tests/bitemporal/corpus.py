"""The worked cases of bitemporal events as data: `tests/corpus/bitemporal/*.toml`, for every engine that runs them.

Those of ORDER BY OCCURRENCE stand in `tests/corpus/by_occurrence/*.toml`, in the same form.

Groups share `says`, `program`, `month`, `events` and `until`; a case may have its own.

- Times: `09:15`, `09:15:30.5`, `3T09:15` (on the third; the first if no day is given) of `month` (2026-01).
- `events`: `Class(value, …) occ/det #event_id`, values by position: `Low(milk, 2.5) 7T09:00/3T16:01`. One time is both;
  `-` as occ withdraws; `?` is a time left out. Strings need quotes only around commas and the words NULL, TRUE, FALSE.
- `until`: the last tick, or a time after it; the tick after the last version if not given.
- `published`: `tick change Class(value, …) occ [constituents]`, all attributes, `-` for no time.
- `detected`: the same of MATCH and COMPOSITE classes only, with more: `tick change Class(value, …) occ/det @seq
  [constituents]`; `@-` is no seq.
- `actions`: `tick name(argument, …) of Class(key, …)`.
- `rejected`: `tick Class(value, …) reason`; `?` where there is no time. None if not given.
- `absorbed`: how many duplicates. 0 if not given. `seqs`: of the versions that were read, in order.
- `purged`: `tick Class(value, …) occ`; `archive` the same without the tick.
- `live`: `Class(value, …) occ/det` at the end, classes as declared; `known`: the same by time, as known then.
- `history`: `Class(value, …) occ/det`, in order.
- `at`: the one tick whose actions count; all if not given.
- `failed`: `tick Class`. None if not given. `warnings`: rows that did not count, summed over all ticks, by class.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from augury import types as t
from augury.algebra.composite import CompositePlan
from augury.algebra.expression import MatchPlan
from augury.algebra.program import Program
from augury.algebra.scalar import Value
from augury.api import compile
from augury.clock import EPOCH, microseconds_of, show_duration, show_time
from augury.event import EventClass
from augury.kernels.reference.bitemporal import ABSENT, Action, Raw, Run, Version, as_known_at
from augury.kernels.reference.bitemporal.version import Absent, key_values, ranks

CORPUS = Path(__file__).parents[1] / "corpus" / "bitemporal"
BY_OCCURRENCE = CORPUS.parent / "by_occurrence"
SHARED = {"says", "program", "month", "events", "until"}
EXPECTED = {
    *("published", "detected", "actions", "rejected", "absorbed", "seqs", "purged", "archive"),
    *("live", "known", "history", "failed", "warnings"),
}
KEYS = SHARED | EXPECTED | {"name", "at"}
ALWAYS: dict[str, Any] = {"rejected": [], "absorbed": 0, "failed": []}

PRIMITIVES = (
    *("ANNOUNCEMENT", "CHANGE", "CANCELLATION", "RETROACTIVECHANGE", "POSTPONE", "REVOCATION", "FUTURE", "ONTIME"),
    *("LATE", "LATE(1h, 2h)", "LATE(2h, 3h)", "LATE(10m, 1h)", "FIRED"),
)

Case = dict[str, Any]


def cases(folder: Path = CORPUS) -> Iterator[Case]:
    """Every case, with what its group shares."""
    for path in sorted(folder.glob("*.toml")):
        for group in tomllib.loads(path.read_text("utf-8")).get("group", []):
            shared = {key: group[key] for key in SHARED & set(group)}
            for written in group["case"]:
                case = {"month": "2026-01", "events": [], **shared, **written}
                assert set(case) <= KEYS, f"unknown key in {case['name']}: {set(case) - KEYS}"
                assert case.get("says"), f"no sentence says why: {case['name']}"
                assert EXPECTED & set(case), f"nothing is expected of {case['name']}"
                yield case


def cells() -> Iterator[Case]:
    """A case for each cell of `table.toml` and each primitive: whether an action on it fires at the tick 10:00."""
    for cell in tomllib.loads((CORPUS / "table.toml").read_text("utf-8"))["cell"]:
        assert set(cell["holds"]) <= set(PRIMITIVES)
        for primitive in PRIMITIVES:
            statements = f"ON {primitive} DO told(2)"
            if primitive == "FIRED":
                statements = f"ON ANNOUNCEMENT DO told(1), {statements}"
            told = ["10:00 told(2) of E(1)"] if primitive in cell["holds"] else []
            if primitive == "FIRED" and "ANNOUNCEMENT" in cell["holds"]:
                told = ["10:00 told(1) of E(1)", *told]
            yield {
                "name": f"{cell['old']}-x-{cell['new']}-{primitive}",
                "says": f"{primitive}: OLD {cell['old']}, NEW {cell['new']}",
                "program": "SET CHRONON 10m; CREATE MUTABLE SUBSCRIBED EVENT CLASS E (k INT) ID (k) LIFESPAN (10d)\n"
                f"  {statements};",
                "month": "2026-01",
                "events": cell["events"],
                "until": "10:00",
                "at": "10:00",
                "actions": told,
            }


def program_of(case: Case) -> Program:
    return compile(case["program"])


def raws_of(case: Case, program: Program) -> list[Raw]:
    return [Reader(program, case["month"]).raw(text) for text in case["events"]]


def until_of(case: Case) -> int | None:
    return Times(case["month"]).read(case["until"]) if "until" in case else None


# ---- reading --------------------------------------------------------------------------------------


class Times:
    """Moments of one month, as text and back."""

    def __init__(self, month: str) -> None:
        self.first = microseconds_of(datetime.fromisoformat(f"{month}-01"))

    def read(self, text: str) -> int:
        found = re.fullmatch(r"(?:(\d+)T)?(\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?", text)
        assert found, f"no time: {text}"
        day, hour, minute, second = found.groups()
        seconds = ((int(day or 1) - 1) * 24 + int(hour)) * 3600 + int(minute) * 60
        return self.first + seconds * 1_000_000 + int(Decimal(second or 0) * 1_000_000)

    def show(self, moment: int | None) -> str:
        if moment is None:
            return "-"
        days, rest = divmod(moment - self.first, 86_400_000_000)
        clock = EPOCH + timedelta(microseconds=rest)
        shown = clock.strftime("%H:%M" if rest % 60_000_000 == 0 else "%H:%M:%S")
        if clock.microsecond:
            shown += f".{clock.microsecond:06d}".rstrip("0")
        return shown if days == 0 else f"{days + 1}T{shown}"


class Reader:
    """Events of a program, from the text of the corpus."""

    def __init__(self, program: Program, month: str) -> None:
        self.program, self.times = program, Times(month)

    def raw(self, text: str) -> Raw:
        found = re.fullmatch(r"(\w+)\((.*)\) ([^ /]+)(?:/([^ ]+))?(?: #(\S+))?", text)
        assert found, f"no event: {text}"
        name, inside, occ, det, event_id = found.groups()
        plan = self.program.class_plan(name)
        assert plan is not None, f"no class: {name}"
        parts = re.findall(r"\s*('[^']*'|[^,]+?)\s*(?:,|$)", inside)
        kinds = [attribute.type for attribute in plan.event_class.attributes]
        values = tuple(self.value(part, kind) for part, kind in zip(parts, kinds, strict=True))
        det = det or occ
        occ_time: int | Absent | None = None if occ == "-" else ABSENT if occ == "?" else self.times.read(occ)
        return Raw(plan.event_class.name, values, occ_time, None if det == "?" else self.times.read(det), event_id)

    def value(self, text: str, kind: t.Type) -> Value:
        if text == "NULL":
            return None
        match kind:
            case t.String():
                return text.strip("'")
            case t.Boolean():
                return {"TRUE": True, "FALSE": False}[text]
            case t.Int() | t.BigInt():
                return int(text)
            case t.Double():
                return float(text)
            case t.Decimal():
                return Decimal(text)
            case t.Timestamp():
                return self.times.read(text)
            case t.Date():
                return date.fromisoformat(text)
            case _:
                raise AssertionError(f"no value of {kind}: {text}")


def json_of(program: Program, raw: Raw) -> dict[str, Any]:
    """A raw version as a line of JSON holds it, for engines that read such lines."""
    plan = program.class_plan(raw.event_class)
    assert plan is not None
    line: dict[str, Any] = {"event": raw.event_class}
    if raw.event_id is not None:
        line["event_id"] = raw.event_id
    if raw.occ_time is not ABSENT:
        line["occ_time"] = None if raw.occ_time is None else show_time(raw.occ_time)
    if raw.det_time is not None:
        line["det_time"] = show_time(raw.det_time)
    for attribute, value in zip(plan.event_class.attributes, raw.values, strict=True):
        match value:
            case int() if isinstance(attribute.type, t.Timestamp):
                line[attribute.name] = show_time(value)
            case Decimal():
                line[attribute.name] = float(value)
            case date():
                line[attribute.name] = value.isoformat()
            case _:
                line[attribute.name] = value
    return line


# ---- showing --------------------------------------------------------------------------------------


class Writer:
    """What a run brought about, in the text of the corpus."""

    def __init__(self, program: Program, month: str) -> None:
        self.program, self.times = program, Times(month)

    def shown(self, run: Run, key: str, case: Case) -> object:
        at = self.times.show
        ticks = run.ticks
        match key:
            case "published":
                return [f"{at(k.tick)} {v.change} {self.version(v)} {self.made(v)}" for k in ticks for v in k.published]
            case "detected":
                return [
                    f"{at(k.tick)} {v.change} {self.version(v)}/{at(v.det_time)} @{v.seq or '-'} {self.made(v)}"
                    for k in ticks
                    for v in k.published
                    if self.is_detected(v)
                ]
            case "actions":
                return [self.action(a) for k in ticks for a in k.actions if case.get("at") in (None, at(k.tick))]
            case "rejected":
                refused = [*run.untimed, *(one for k in ticks for one in k.rejected)]
                return [f"{at(r.tick) if r.tick else '?'} {self.raw(r.raw)} {r.reason}" for r in refused]
            case "absorbed":
                return sum(len(k.absorbed) for k in ticks)
            case "seqs":
                return [v.seq for k in ticks for v in k.read]
            case "purged":
                return [f"{at(k.tick)} {self.version(v)}" for k in ticks for v in k.purged]
            case "archive":
                return [self.version(v) for v in run.archive]
            case "live":
                return self.view(run.live.values())
            case "known":
                moments = [(text, self.times.read(text)) for text in case["known"]]
                return {text: self.view(as_known_at(run.history, moment).values()) for text, moment in moments}
            case "history":
                return [f"{self.version(v)}/{at(v.det_time)}" for v in run.history]
            case "failed":
                return [f"{at(k.tick)} {failure.event_class}" for k in ticks for failure in k.failed]
            case "warnings":
                names = sorted({name for k in ticks for name in k.warnings})
                return {name: sum(k.warnings.get(name, 0) for k in ticks) for name in names}
            case _:
                raise AssertionError(key)

    def is_detected(self, version: Version) -> bool:
        plan = self.program.class_plan(version.event_class)
        assert plan is not None
        return isinstance(plan.derivation, MatchPlan | CompositePlan)

    def view(self, versions: Iterable[Version]) -> list[str]:
        order = [plan.event_class.name for plan in self.program.classes]
        ordered = sorted(versions, key=lambda v: (order.index(v.event_class), ranks(v.key)))
        return [f"{self.version(v)}/{self.times.show(v.det_time)}" for v in ordered]

    def version(self, version: Version) -> str:
        return f"{self.row(version.event_class, version.values)} {self.times.show(version.occ_time)}"

    def made(self, version: Version) -> str:
        return f"[{', '.join(map(str, version.constituents))}]"

    def raw(self, raw: Raw) -> str:
        return self.row(raw.event_class, raw.values)

    def row(self, name: str, values: Iterable[Value]) -> str:
        kinds = [attribute.type for attribute in self.event_class(name).attributes]
        return f"{name}({', '.join(self.value(v, kind) for v, kind in zip(values, kinds, strict=True))})"

    def action(self, action: Action) -> str:
        plan = self.program.class_plan(action.version.event_class)
        assert plan is not None
        call = plan.statements[action.statement - 1].actions[action.place - 1]
        kinds = [argument.type for argument in call.arguments]
        arguments = ", ".join(self.value(v, kind) for v, kind in zip(action.arguments, kinds, strict=True))
        key = key_values(plan.event_class, action.version.values)
        by_name = {attribute.name.casefold(): attribute.type for attribute in plan.event_class.attributes}
        keys = ", ".join(self.value(v, by_name[n.casefold()]) for v, n in zip(key, plan.event_class.key, strict=True))
        return f"{self.times.show(action.tick)} {action.name}({arguments}) of {plan.event_class.name}({keys})"

    def event_class(self, name: str) -> EventClass:
        plan = self.program.class_plan(name)
        assert plan is not None
        return plan.event_class

    def value(self, value: Value, kind: t.Type) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if value else "FALSE"
            case int() if isinstance(kind, t.Timestamp):
                return self.times.show(value)
            case int() if isinstance(kind, t.Duration):
                return show_duration(value)
            case Decimal():
                return f"{value.normalize():f}"
            case _:
                return str(value)

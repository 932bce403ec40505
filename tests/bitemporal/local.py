"""The engine in process, with what its ticks did told as the reference tells it, so that both can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from augury import types as t
from augury.algebra.program import Program
from augury.clock import microseconds_of
from augury.duck.selects import runnable
from augury.engine.plan import EnginePlan, engine_plan
from augury.engine.state import EngineState, initial
from augury.engine.tick import Ports, ticks
from augury.engine.ticked import ClassVersions, Ticked
from augury.event import EventClass
from augury.history.arrivals import arrivals
from augury.history.raw import RawRows
from augury.history.versions import WITHDRAWN
from augury.kernels.bitemporal import as_of_now
from augury.kernels.reference.bitemporal import Action, Change, Raw, Reason, Rejected, Run, Tick, Version
from augury.kernels.reference.bitemporal.running import Failed
from augury.kernels.reference.bitemporal.version import key_values
from tests.bitemporal.corpus import json_of

CHANGES = (Change.ANNOUNCE, Change.CHANGE, Change.WITHDRAW)


class Known:
    """The event_ids that have been accepted, as a store would know them."""

    def __init__(self) -> None:
        self.ids: dict[str, set[str]] = {}

    def note(self, ticked: Ticked) -> None:
        for one in ticked.read:
            if one.event_id is not None:
                self.ids.setdefault(one.event_class.name, set()).update(i for i in one.event_id.to_pylist() if i)

    def known_ids(self, event_class: EventClass, event_ids: Sequence[str]) -> set[str]:
        return self.ids.get(event_class.name, set()).intersection(event_ids)


def raw_rows(program: Program, raws: Sequence[Raw]) -> RawRows:
    return RawRows("raws", [json_of(program, raw) for raw in raws], range(len(raws)))


def ticked(program: Program, raws: Sequence[Raw], until: int | None) -> tuple[EnginePlan, EngineState, list[Ticked]]:
    plan = engine_plan(program)
    state, known = initial(plan), Known()
    came = arrivals(program, [raw_rows(program, raws)])
    found = []
    for one in ticks(plan, state, came, until, Ports(runnable(program), known)):
        known.note(one)
        found.append(one)
    return plan, state, found


def local(program: Program, raws: Sequence[Raw], until: int | None) -> Run:
    return run_of(program, *ticked(program, raws, until), lambda place: raws[int(place.rsplit(":", 1)[1])])


def run_of(
    program: Program, plan: EnginePlan, state: EngineState, found: Sequence[Ticked], raw_at: Callable[[str], Raw]
) -> Run:
    """What ticks did, as the reference tells it; `raw_at` gives what came from a place."""
    history: list[Version] = []
    archive: list[Version] = []
    told = []
    untimed: list[Rejected] = []
    for one in found:
        read = sorted((v for c in one.read for v in versions_of(c)), key=lambda v: v.seq or 0)
        published = [v for c in one.derived for v in versions_of(c)]
        history += [*read, *published]
        purged = [v for c in one.purged for v in versions_of(c)]
        if program.settings.archive:
            archive += purged
        rejected: list[Rejected] = []
        for at, reason in zip(one.rejected.place, one.rejected.reason, strict=True):
            raw, why = raw_at(at), reason_of(reason)
            (untimed if why is Reason.NO_TIME else rejected).append(
                Rejected(None if why is Reason.NO_TIME else one.tick, raw, why)
            )
        told.append(
            Tick(
                one.tick,
                tuple(read),
                tuple(published),
                tuple(actions_of(program, one)),
                tuple(rejected),
                tuple(range(one.absorbed)),  # type: ignore[arg-type]  # only counted
                tuple(purged),
                tuple(Failed(f.event_class, f.reason) for f in one.failed),
                one.warnings,
            )
        )
    live = {}
    for place, state_of in enumerate(state.classes):
        event_class = plan.classes[place].event_class
        table = as_of_now(state_of.view)
        for number, row in enumerate(table.to_pylist()):
            version = _version(event_class, row, row["seq"], row["occ_time"], row["det_time"], Change.ANNOUNCE, ())
            # Several events without a key may have come about at one version.
            live[version.event if event_class.key else (event_class.name, (number,))] = version
    return Run(tuple(told), tuple(history), live, tuple(archive), tuple(untimed))


def reason_of(reason: str) -> Reason:
    if "neither an occ_time nor a det_time" in reason:
        return Reason.NO_TIME
    return Reason.IMMUTABLE if "immutable" in reason else Reason.NOT_THERE


def versions_of(one: ClassVersions) -> Iterator[Version]:
    rows = one.values.to_pylist() if one.values.num_columns else [{}] * len(one)
    lists = [()] * len(one) if one.constituents is None else [tuple(x) for x in one.constituents.to_pylist()]
    ids = [None] * len(one) if one.event_id is None else one.event_id.to_pylist()
    for i, row in enumerate(rows):
        occ = None if one.change[i] == WITHDRAWN else int(one.occ_time[i])
        change = CHANGES[one.change[i]]
        yield _version(one.event_class, row, int(one.seq[i]), occ, int(one.det_time[i]), change, lists[i], ids[i])


def _version(
    event_class: EventClass,
    row: dict[str, Any],
    seq: int,
    occ: Any,
    det: Any,
    change: Change,
    made: tuple[int, ...],
    event_id: str | None = None,
) -> Version:
    values = tuple(_plain(row[a.name], a.type) for a in event_class.attributes)
    occ, det = (_plain(time, t.TIMESTAMP) for time in (occ, det))
    key = key_values(event_class, values) if event_class.key else (seq,)
    return Version(event_class.name, key, values, occ, det, change, seq if seq > 0 else None, event_id, made)


def _plain(value: Any, kind: t.Type) -> Any:
    if isinstance(kind, t.Timestamp) and value is not None and not isinstance(value, int):
        return microseconds_of(value)
    return value


def actions_of(program: Program, one: Ticked) -> Iterator[Action]:
    for action in one.action_rows():
        plan = program.class_plan(action.event)
        assert plan is not None
        arguments = tuple(_argument(a) for a in action.arguments)
        names = {a.name: _plain(action.key.get(a.name), a.type) for a in plan.event_class.attributes}
        key = tuple(
            names[attribute.name]
            for name in plan.event_class.key
            if (attribute := plan.event_class.attribute(name)) is not None
        )
        version = Version(action.event, key or (action.seq,), tuple(names.values()), 0, 0, Change.CHANGE, action.seq)
        yield Action(one.tick, action.name, arguments, version, action.statement, action.place)


def _argument(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    return microseconds_of(value) if isinstance(value, datetime) else value

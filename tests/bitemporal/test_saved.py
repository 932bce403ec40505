"""States of bitemporal ticks as bytes: what loads one goes on as what saved it, and what does not fit is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from augury import api
from augury.algebra.program import Program
from augury.engine.rows import Made, Rows
from augury.engine.saved_rows import loaded_rows, saved_rows
from augury.event import EventClass
from augury.kernels.bitemporal import ClassState, Constituents, Expiry, Watch, as_of_now, live_slots, purge, step, watch
from augury.kernels.bitemporal.saved import loaded, loaded_expiry, saved, saved_expiry
from augury.kernels.columns import arrow_type
from augury.kernels.reference.bitemporal import Run, run
from augury.kernels.sealed import UnfitState
from tests.bitemporal import test_kernel as kernel
from tests.bitemporal.corpus import Case, cases, cells
from tests.bitemporal.generate import generate
from tests.bitemporal.ticks import OneClass, Row

# ---- a class: the corpus and random programs ------------------------------------------------------


def through_bytes(state: ClassState) -> None:
    """Put what was saved and loaded again in place of a state."""
    again = loaded(saved(state), state.view.watch)
    state.view, state.on_time = again.view, again.on_time


def trace_of(
    program: Program, of: Run, monkeypatch: pytest.MonkeyPatch, through: Callable[[ClassState], None]
) -> list[str]:
    """What fires, and what slots and timers there are after every step; `through` has the state before each."""
    trace: list[str] = []

    def stepped(state: ClassState, *arguments: Any) -> Any:
        through(state)
        result = step(state, *arguments)
        view = state.view
        slots = sorted(view.slots.items(), key=lambda item: item[1])
        after = (state.next_due(), slots, view.keys[live_slots(view)], view.free, view.leaving, view.used, view.read)
        trace.append(f"{after} {as_of_now(view).to_pylist()}")
        return result

    with monkeypatch.context() as patched:
        patched.setattr(kernel, "step", stepped)
        fired = [repr(row) for row in kernel.fired(program, of)]
    return [*fired, *trace]


def goes_on(program: Program, of: Run, monkeypatch: pytest.MonkeyPatch, random: Random) -> None:
    """Saved before every step, or before some, everything is as if it had never been saved."""
    share = min(random.choice((1.0, 0.3)), 100 / (1 + len(of.ticks)))

    def now_and_then(state: ClassState) -> None:
        if random.random() < share:
            through_bytes(state)

    assert trace_of(program, of, monkeypatch, now_and_then) == trace_of(program, of, monkeypatch, lambda state: None)


@pytest.mark.parametrize("case", [*cases(), *cells()], ids=lambda case: str(case["name"]))
def test_a_case_of_the_contract_goes_on(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    program, of = kernel._of_case(case)
    goes_on(program, of, monkeypatch, Random(str(case["name"])))


@pytest.mark.parametrize("fifty", range(6))
def test_three_hundred_seeds_go_on(fifty: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(1000 + fifty * 50, 1050 + fifty * 50):
        g = generate(seed)
        goes_on(g.program, run(g.program, g.selects, g.raws, g.until), monkeypatch, Random(seed))


# ---- a class: values of all types -----------------------------------------------------------------

ZONE = datetime(2026, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "BOOLEAN": (True, False, None),
    "INT": (0, 1, -(2**31), None),
    "BIGINT": (0, 2**63 - 1, -(2**63), None),
    "DOUBLE": (0.0, -0.0, 1.5, float("nan"), float("inf"), -1e300, None),
    "NUMERIC(38,2)": (Decimal("0.00"), Decimal("-0.01"), Decimal(10**35), Decimal(-(10**35)), None),
    "STRING": ("", "NaN", "x\ny\0z", "žluťoučký 🦊 \u202e", "ab" * 5000, None),
    "TIMESTAMP": (ZONE, ZONE - timedelta(days=400_000), ZONE + timedelta(microseconds=1), None),
    "DATE": (date(1, 1, 1), date(9999, 12, 31), None),
}
NAMES = {kind: f"a{place}" for place, kind in enumerate(VALUES)}


def program_text(key: tuple[str, ...]) -> str:
    attributes = ", ".join(f"{name} {kind}" for kind, name in NAMES.items())
    new, old = (", ".join(f"{scope}.{name}" for name in NAMES.values()) for scope in ("NEW", "OLD"))
    names = ", ".join(NAMES[kind] for kind in key)
    return f"""CREATE MUTABLE SUBSCRIBED EVENT CLASS A ({attributes}) ID ({names}) LIFESPAN (-1)
        ON ANNOUNCEMENT DO news({new}),
        ON ONTIME AND NOT FIRED DO told({old}, NEW.occTime, OLD.occTime, OLD.detTime),
        ON CHANGE OR RETROACTIVECHANGE OR POSTPONE DO changed({new}, {old}),
        ON CANCELLATION OR REVOCATION OR LATE OR (FIRED AND ONTIME) DO gone({old}), told(OLD.{NAMES["STRING"]});"""


@pytest.mark.parametrize("key", [(), *((kind,) for kind in VALUES), ("STRING", "DOUBLE"), ("NUMERIC(38,2)", "INT")])
@pytest.mark.parametrize("seed", range(4))
def test_values_of_all_types_go_on(key: tuple[str, ...], seed: int) -> None:
    random, text = Random(seed), program_text(key)
    unsaved, through, fires = OneClass(text), OneClass(text), 0
    for tick in range(1000, 1400, 10):
        rows = [_row(random, tick) for _ in range(random.choice((0, 0, 1, 2, 6)))]
        found = repr(unsaved.fires(tick, rows))
        assert repr(through.fires(tick, rows)) == found
        fires += found.count("(")
        leaving = np.array(
            [slot for slot in live_slots(unsaved.state.view).tolist() if random.random() < 0.1], np.int64
        )
        for one in (unsaved, through):
            purge(one.state.view, leaving)
        if random.random() < 0.7:
            through_bytes(through.state)
            data = saved(through.state)
            assert saved(loaded(data, through.state.view.watch)) == data
        assert repr(as_of_now(through.state.view).to_pylist()) == repr(as_of_now(unsaved.state.view).to_pylist())
        assert through.state.next_due() == unsaved.state.next_due()
    assert fires > 20


def _row(random: Random, tick: int) -> Row:
    occ = None if random.random() < 0.2 else tick + random.choice((-25, -5, 5, 15, 15, 45))
    return occ, tick - 1, tuple(random.choice(values) for values in VALUES.values())


def test_the_zero_that_came_first_stays_the_key() -> None:
    one = OneClass("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k DOUBLE) ID (k) LIFESPAN (-1) ON CHANGE DO a();")
    one.tick(10, [(55, 1, (0.0,))])
    one.tick(20, [(55, 11, (-0.0,))])
    through_bytes(one.state)
    assert repr(one.fires(30, [(55, 21, (-0.0,))])) == "[(0.0, 'a')]"


def test_huge_strings_stay() -> None:
    one = OneClass("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, s STRING) ID (k) LIFESPAN (-1);")
    texts = ["ž" * 5_000_000, None, "🦊" * 3_000_000]
    one.tick(10, [(55, 1, (k, text)) for k, text in enumerate(texts)])
    through_bytes(one.state)
    assert as_of_now(one.state.view).column("s").to_pylist() == texts


def test_slots_that_were_left_cost_nothing_but_their_number() -> None:
    one = OneClass("CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, s STRING) ID (k) LIFESPAN (-1);")
    one.tick(10, [(55, 1, (k, "a long text " * 20)) for k in range(1000)])
    purge(one.state.view, np.arange(1, 1000))
    assert len(saved(one.state)) < 1000 * 8 + 10_000
    through_bytes(one.state)
    one.tick(20, [(55, 11, (-1, "new"))])
    assert one.state.view.slots == {0: 0, -1: 999}


# ---- a class: what does not fit -------------------------------------------------------------------

ABOUT = """CREATE MUTABLE SUBSCRIBED EVENT CLASS A (k INT, s STRING) ID (k) LIFESPAN (-1)
    ON ONTIME AND NEW.k > 1 DO a(OLD.s);"""


def watch_of(text: str) -> Watch:
    plan = api.compile(text).classes[0]
    return watch(plan.event_class, plan.statements)


def a_state() -> ClassState:
    one = OneClass(ABOUT)
    one.tick(10, [(55, 1, (1, "a")), (65, 2, (2, None)), (75, 3, (3, "c"))])
    one.tick(20, [(None, 11, (3, None)), (85, 12, (1, "d"))])
    return one.state


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("CLASS A", "CLASS B"),
        ("s STRING", "s VARCHAR(9)"),
        ("s STRING", "t STRING, s STRING"),
        ("ID (k)", "ID (k, s)"),
        ("ID (k)", "ID ()"),
        ("ONTIME", "FIRED"),
        ("NEW.k > 1", "NEW.k > 2"),
        ("DO a(OLD.s)", "DO b(OLD.s)"),
        ("DO a(OLD.s)", "DO a(NEW.s)"),
        (";", ", ON ANNOUNCEMENT DO a();"),
    ],
)
def test_another_class_or_other_statements_are_refused(was: str, now: str) -> None:
    data = saved(a_state())
    assert was in ABOUT
    with pytest.raises(UnfitState, match="another"):
        loaded(data, watch_of(ABOUT.replace(was, now)))


def test_lifespan_and_layout_make_no_difference() -> None:
    text = ABOUT.replace("CLASS A", "CLASS a").replace("(-1)", "(5s)").replace("NEW.k > 1", "(new.K>1)")
    assert as_of_now(loaded(saved(a_state()), watch_of(text)).view).column("k").to_pylist() == [2, 1]


def refused(data: bytes, read: Callable[[bytes], object]) -> None:
    """Any damage is found."""
    read(data)
    for place in [*range(200), *range(200, len(data), 50)]:
        for flip in (0x01, 0xFF):
            with pytest.raises(UnfitState):
                read(data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :])
    for end in [*range(200), *range(200, len(data), 50)]:
        with pytest.raises(UnfitState):
            read(data[:end])
    with pytest.raises(UnfitState):
        read(data + b"\0")


def test_a_damaged_state_of_a_class_is_refused() -> None:
    state = a_state()
    refused(saved(state), lambda data: loaded(data, state.view.watch))


# ---- expiry ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_expiries_go_on(seed: int) -> None:
    random = Random(seed)
    lifespans = [random.choice((5, 20, 50)), random.choice((5, 80, None)), *random.choices((0, 10, 60), k=2)]
    unsaved, through = Expiry(lifespans), Expiry(lifespans)
    live: set[tuple[int, int]] = set()
    for tick in range(10, 500, 5):
        for _ in range(random.randrange(6)):
            place, slot = random.randrange(4), random.randrange(random.choice((6, 80)))
            below = sorted(event for event in live if event[0] < place)
            parts = random.sample(below, min(len(below), random.randrange(4)))
            occ, withdrawn = tick + random.randrange(-40, 40), (place, slot) in live and random.random() < 0.3
            for expiry in (unsaved, through):
                _happen(expiry, place, slot, None if withdrawn else occ, parts)
            live = live - {(place, slot)} if withdrawn else live | {(place, slot)}
        if random.random() < 0.5:
            data = saved_expiry(through)
            through = loaded_expiry(data, lifespans)
            assert saved_expiry(through) == data
        assert through.next_due() == unsaved.next_due()
        gone = [slots.tolist() for slots in unsaved.purge(tick)]
        assert [slots.tolist() for slots in through.purge(tick)] == gone
        live -= {(place, slot) for place, slots in enumerate(gone) for slot in slots}
        assert all(through.expiry(event) == unsaved.expiry(event) for event in live)
    assert through.indexed == unsaved.indexed


def _happen(expiry: Expiry, place: int, slot: int, occ: int | None, parts: list[tuple[int, int]]) -> None:
    slots = np.array([slot])
    if occ is None:
        expiry.withdraw(place, slots)
        return
    expiry.put(place, slots, np.array([occ]))
    if place >= 2:
        classes, of = (np.array([part[i] for part in parts], np.int64) for i in (0, 1))
        expiry.link(place, slots, Constituents(np.zeros(len(parts), np.int64), classes, of))


def test_a_damaged_state_of_expiries_is_refused_and_so_are_other_lifespans() -> None:
    expiry = Expiry([10, None, 5])
    for place in range(3):
        expiry.put(place, np.arange(5), np.arange(5) * 7)
    expiry.link(2, np.array([1, 3]), Constituents(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([2, 2, 2])))
    refused(saved_expiry(expiry), lambda data: loaded_expiry(data, (10, None, 5)))
    for other in ([10, None, 6], [10, 0, 5], [10, None]):
        with pytest.raises(UnfitState):
            loaded_expiry(saved_expiry(expiry), other)
    assert loaded_expiry(saved_expiry(Expiry([1])), [1]).purge(99)[0].tolist() == []


# ---- rows of a SELECT class -----------------------------------------------------------------------


def class_of(attributes: str) -> EventClass:
    text = f"CREATE MUTABLE SUBSCRIBED EVENT CLASS A ({attributes}) ID () LIFESPAN (-1);"
    return api.compile(text).classes[0].event_class


def some_rows(event_class: EventClass, count: int) -> Rows:
    columns = [
        pa.array((list(values) * count)[:count], arrow_type(attribute.type))
        for attribute, values in zip(event_class.attributes, VALUES.values(), strict=True)
    ]
    made = Made(np.arange(count + 1) * 2, np.tile([0, 1], count), np.arange(count * 2))
    table = pa.table(columns, names=[attribute.name for attribute in event_class.attributes])
    return Rows(table, pa.array(np.arange(count) * 1_000_000), made)


def shown(rows: Rows) -> str:
    made = rows.made and (rows.made.starts.tolist(), rows.made.view.tolist(), rows.made.row.tolist())
    return repr((rows.attributes.schema, rows.attributes.to_pylist(), rows.occ_time.to_pylist(), made))


def test_rows_stay_as_they_are() -> None:
    event_class = class_of(", ".join(f"{name} {kind}" for kind, name in NAMES.items()))
    for rows in (
        some_rows(event_class, 20),
        some_rows(event_class, 0),
        some_rows(event_class, 20).taken(np.array([3, 3, 19, 0])),
        Rows(some_rows(event_class, 20).attributes.slice(5, 6), pa.array(range(6))),
        Rows(pa.concat_tables([some_rows(event_class, 3).attributes] * 2), pa.array([1, None, 3, 4, 5, 6])),
    ):
        again = loaded_rows(saved_rows(rows), event_class)
        assert shown(again) == shown(rows)
        assert again.attributes.schema == rows.attributes.schema
        assert shown(again.taken(np.arange(len(rows))[::-1])) == shown(rows.taken(np.arange(len(rows))[::-1]))


def test_rows_without_attributes_stay() -> None:
    again = loaded_rows(saved_rows(Rows(pa.table({}), pa.array([7, 8]))), class_of(""))
    assert (len(again), again.attributes.num_columns) == (2, 0)


def test_damaged_rows_are_refused_and_so_are_other_attributes() -> None:
    event_class = class_of("k INT, s STRING")
    rows = Rows(pa.table({"k": pa.array([1, 2], pa.int32()), "s": ["a", None]}), pa.array([5, 6]))
    refused(saved_rows(rows), lambda data: loaded_rows(data, event_class))
    for other in ("k BIGINT, s STRING", "k INT, t STRING", "s STRING, k INT", "k INT"):
        with pytest.raises(UnfitState, match="another"):
            loaded_rows(saved_rows(rows), class_of(other))
    with pytest.raises(UnfitState, match="no state of a SELECT"):
        loaded_rows(saved(a_state()), event_class)

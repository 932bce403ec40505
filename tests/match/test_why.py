"""Why and why not: what people read for the examples of the paper, and for every random occurrence its constituents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from augury.algebra.expression import (
    Anything,
    Apply,
    Choice,
    Equate,
    Exists,
    Expression,
    MatchOperator,
    MatchPlan,
    Nth,
    Primitive,
    Some,
    Variable,
    walk,
)
from augury.api import compile
from augury.automata.operations import TooManyStates
from augury.automata.runs import TooManyRuns
from augury.automata.tuples import tuples_of
from augury.event import ClassKind, EventClass
from augury.kernels.batch import Batch
from augury.kernels.match import why as module
from augury.kernels.match.inline import inline
from augury.kernels.match.why import THE_PLACE, why
from augury.kernels.match.why_not import why_not
from augury.kernels.reference import Event, detect, positions
from augury.kernels.told import NotAnOccurrence
from augury.types import INT
from tests.match.columns import CLASSES, batch, event_class
from tests.match.generate import Wanted, pair, plan
from tests.match.test_reference import CASES, Case, events_of, lifespans_of, plan_of

ROOT = Path(__file__).parents[2]
UNSUPPORTED = (TooManyRuns, TooManyStates)
LETTERS = ["A ()", "B ()", "C ()", "K (k INT, v INT)"]


def asked(case: Case) -> tuple[MatchPlan, Batch, Sequence[Event]]:
    match, classes = plan_of(case)
    events = events_of(case["history"], classes)
    lifespans = lifespans_of(case)
    subscribed = tuple(replace(c, lifespan_us=lifespans.get(c.name)) for c in classes.values() if c.name != "Found")
    return match, batch(events, subscribed), events


def of_corpus(name: str) -> tuple[MatchPlan, Batch]:
    match, history, _ = asked(next(case for case in CASES if case["name"] == name))
    return match, history


def of_text(expression: str, history: str, clauses: str = "", attributes: str = "") -> tuple[MatchPlan, Batch]:
    case = {"classes": LETTERS, "definitions": "", "attributes": attributes, "clauses": clauses}
    match, read, _ = asked({**case, "expression": expression, "history": history})
    return match, read


# ---- why -----------------------------------------------------------------------------------------

DUMPS = {
    ("complete", 3): """
takes place at 3 with A = 40, I = 121, Q = 40
  seq 1  order(121, 40)   at 1970-01-01T00:00:01Z  as order(I, Q)
  seq 3  perform(121, 40) at 1970-01-01T00:00:03Z  as perform(I, A)
""",
    ("H1-on-the-floor", 2): """
takes place at 2
  seq 1  s1    at 1970-01-01T00:00:01Z  as s1
  seq 2  floor at 1970-01-01T00:00:02Z  as the place itself
""",
    ("H2-on-the-floor", 6): """
takes place at 6
  seq 4  h2    at 1970-01-01T00:00:04Z  as h2
  seq 6  floor at 1970-01-01T00:00:06Z  as the place itself
""",
    ("AT_A", 4): """
takes place at 4 with I = 2
  seq 3  EA(2) at 1970-01-01T00:00:03Z  as EA(I)
  seq 4  LA(1) at 1970-01-01T00:00:04Z  as the place itself
""",
    ("LAST_B", 3): """
takes place at 3 with I = 1
  seq 1  EB(1) at 1970-01-01T00:00:01Z  as EB(I)
  seq 3  LB(1) at 1970-01-01T00:00:03Z  as LB(I)
""",
}


@pytest.mark.parametrize(("name", "seq"), DUMPS)
def test_an_occurrence_reads_as_text(name: str, seq: int) -> None:
    assert why(*of_corpus(name), seq).dump() == DUMPS[name, seq].strip()


def test_parts_are_cited_from_the_text_of_the_program() -> None:
    text = (ROOT / "examples" / "seeds" / "ode_attributes.bicepl").read_text("utf-8")
    program = compile(text)
    found = program.class_plan("fire_after_hire")
    assert found is not None
    assert isinstance(found.derivation, MatchPlan)
    classes = tuple(p.event_class for p in program.classes if p.event_class.kind is ClassKind.SUBSCRIBED)
    smith: dict[str, Any] = {"name": "smith", "age": 27, "sex": "m"}
    jones: dict[str, Any] = {"name": "jones", "age": 28, "sex": "f"}
    events = [
        Event(1, "hire", smith, 0, 0),
        Event(2, "hire", jones, 0, 0),
        Event(3, "fire", {"name": "smith"}, 0, 0),
    ]
    told = why(found.derivation, batch(events, classes), 3, source=text)
    assert [(one.event, one.parts) for one in told.events] == [
        ("hire('jones', 28, 'f')", ("hire(X, Y, Z)",)),
        ("fire('smith')", ("fire(W)",)),
    ]
    missing = why_not(found.derivation, batch(events, classes), 1, source=text)
    assert text[missing.span.start : missing.span.end] == missing.part == "hire(X, Y, Z)"


def test_an_event_may_stand_for_several_parts_and_each_is_named_once() -> None:
    told = why(*of_text("(A OR B) AND A AND <1> A", "A1"), 1)
    assert [(one.seq, one.parts) for one in told.events] == [(1, ("A",))]
    told = why(*of_text("K(X, _) AND K[v > 0]", "K(1, 2)@1"), 1)
    assert told.events[0].parts == ("K(X, _)", "K[v > 0]")


def test_the_tuple_asked_for_is_told_and_no_other() -> None:
    match, history = of_text("prior(K(X, _), A)", "K(1, 0)@1 K(2, 0)@2 A3", "COLLECT ALL", "X INT")
    assert why(match, history, 3, [1, 3]).constituents == [1, 3]
    assert why(match, history, 3, values={"X": 2}).constituents == [2, 3]
    assert why(match, history, 3, values={"X": 1}).dump().startswith("takes place at 3 with X = 1\n")
    for wrong in ([3], [1, 2, 3], [1, 2], [2]):
        with pytest.raises(NotAnOccurrence, match="no occurrence at 3 with"):
            why(match, history, 3, wrong)
    with pytest.raises(NotAnOccurrence):
        why(match, history, 3, values={"X": 3})
    with pytest.raises(NotAnOccurrence):
        why(match, history, 2)


def test_of_tuples_with_the_same_events_one_that_passes_the_filter_is_told() -> None:
    text = ("K(X, _) OR K(_, X)", "K(1, 2)@1")
    assert why(*of_text(*text, attributes="X INT"), 1, [1]).dump().startswith("takes place at 1 with X = 1\n")
    match, history = of_text(*text, "WHERE X > 1", "X INT")
    assert why(match, history, 1, [1]).dump().startswith("takes place at 1 with X = 2\n")
    match, history = of_text(*text, "WHERE X > K.v", "X INT")
    with pytest.raises(NotAnOccurrence):
        why(match, history, 1, [1])
    assert why_not(match, history, 1).part == "WHERE X > K.v"


def test_only_the_history_of_the_expression_is_read() -> None:
    history = "K(1, 0)@1 K(2, 0)@2 B3 K(1, 0)@4"
    assert why(*of_text("sequence(K, K)", history, "PARTITION BY k"), 4).constituents == [1, 4]
    assert why(*of_text("sequence(K, K)", history, "OVER (A, K)"), 4).constituents == [2, 4]


def test_a_complex_event_is_told_as_one_and_stands_for_what_it_was_made_of() -> None:
    found = EventClass("Pair", ClassKind.COMPLEX, False, (), (), None)
    rows = [Event(1, "A", {}, 0, 0), Event(2, "B", {}, 0, 0), Event(2, "Pair", {}, 0, 0), Event(3, "A", {}, 0, 0)]
    history = batch(rows, (event_class("A"), event_class("B"), found))
    history = replace(history, constituents=(None, None, pa.array([[1, 2]])))
    match = plan(Apply(MatchOperator.SEQUENCE, (Primitive("Pair"), Primitive("A"))))
    told = why(match, history, 3)
    assert told.constituents == [1, 2, 3]
    assert [(one.seq, one.event, one.made_of) for one in told.events] == [(2, "Pair", (1, 2)), (3, "A", (3,))]
    assert not why_not(match, history, 2).took_place


def test_where_parts_cannot_be_kept_apart_all_that_an_event_may_be_are_told(monkeypatch: pytest.MonkeyPatch) -> None:

    def refusing(expression: Any, builder: Any, mark_of: Any) -> Any:
        if mark_of(1) > 1:
            raise TooManyRuns
        return tuples_of(expression, builder, mark_of)

    monkeypatch.setattr(module, "tuples_of", refusing)
    told = why(*of_text("prior(A, A, B)", "A1 A2 B3"), 3)
    assert [(one.seq, one.parts) for one in told.events] == [(1, ("A",)), (2, ("A",)), (3, ("B",))]


# ---- why not -------------------------------------------------------------------------------------

SENTENCES = [
    ("A", "B7", "the event at 7 is a B, not an A", "A"),
    ("K(1, _)", "K(2, 0)@7", "the K at 7 has k = 2, not 1", "K(1, _)"),
    ("K[v > 0]", "K(2, NULL)@7", "[v > 0] is not TRUE for the K at 7 with v = NULL", "K[v > 0]"),
    ("K(X, X)", "K(1, 2)@7", "the K at 7 has v = 2, where X is 1", "K(X, X)"),
    ("prior(A, B)", "A1 C7", "the event at 7 is a C, not a B", "B"),
    ("prior(A, B)", "B1 B7", "no A took place before 7", "A"),
    ("prior(A, B, C)", "A1 A2 C7", "no B took place after A at 1 and before 7", "B"),
    ("sequence(A, B)", "A1 C2 B7", "right before 7, the event at 2 is a C, not an A", "A"),
    ("sequence(A, B)", "B7", "no event is before 7, so no A", "A"),
    ("A AND B", "A7", "the event at 7 is an A, not a B", "B"),
    ("A OR B", "C7", "the event at 7 is a C, neither A nor B", "A OR B"),
    (
        "A OR <2> C",
        "C7",
        "neither A nor <2> C: the event at 7 is a C, not an A; only 1 of C so far, at 7",
        "A OR <2> C",
    ),
    ("!prior(A, B)", "A3 B7", "prior(A, B) does take place at 7, with 3, 7", "!prior(A, B)"),
    ("!A", "A7", "A does take place at 7", "!A"),
    ("relative(A, <2> B)", "A1 A3 B7", "after A at 3, only 1 of B so far, at 7", "<2> B"),
    ("relative+(sequence(A, B))", "A1 C2 B7", "right before 7, the event at 2 is a C, not an A", "A"),
    ("<3> A", "A1 A7", "only 2 of A so far, at 7", "<3> A"),
    ("<1> A", "A1 A7", "A at 7 is number 2, not number 1", "<1> A"),
    ("EVERY <2> A", "A1 A2 A7", "A at 7 is number 3, not a multiple of 2", "EVERY <2> A"),
    ("A | first", "B1 A2 A7", "of the events of A: the event at 7 is not the first: that at 2 is", "first"),
    ("<2> B / A", "A1 A2 B7", "after the first A, at 1, only 1 of B so far, at 7", "<2> B"),
    ("B / A", "B7", "no A took place before 7", "A"),
    ("B /+ A", "A1 C7", "after A at 1, the event at 7 is a C, not a B", "B"),
    ("any /+ A", "A7", "A takes place at 7 itself: it delimits the stretches and is in none", "A"),
    ("firstAfter(A, B, C)", "A1 C2 B7", "after A at 1, C took place at 2, before B at 7", "C"),
    ("firstAfter(A, B, C)", "B7", "no A took place before 7", "A"),
    ("before(A)", "A7", "no A took place before 7", "A"),
    ("happened(A)", "B7", "no A took place up to 7", "A"),
    ("prefix(A AND first)", "B7", "A AND first can no longer take place after 7", "prefix(A AND first)"),
    ("A * B", "A1 C2 B7", "A does not take place at 2, before 7: the event at 2 is a C, not an A", "A"),
    ("A * B", "A7", "the event at 7 is an A, not a B", "B"),
    ("EXISTS x A = x AND <2> x", "A7", "only 1 of x so far, at 7 (if x is the event at 7)", "<2> x"),
    ("EXISTS x prior(A = x, B) AND !relative(x, before(C))", "A1 C2 B7", None, "!relative(x, before(C))"),
    ("sequence(A * start, B)", "B7", None, "A"),
    ("NULL", "A7", "NULL takes place nowhere", "NULL"),
    ("relative(A, start)", "A1 A7", "after A at 1, start does not take place at 7", "start"),
    ("!prior(K(X, _), K(X, _))", "K(1, 0)@1 K(2, 0)@2 K(1, 1)@7", None, "!prior(K(X, _), K(X, _))"),
]


@pytest.mark.parametrize(("expression", "history", "sentence", "part"), SENTENCES)
def test_what_failed_is_said_in_a_sentence(expression: str, history: str, sentence: str | None, part: str) -> None:
    match, read = of_text(expression, history, attributes="X INT" if expression.startswith("K(X") else "")
    found = why_not(match, read, 7)
    assert not found.took_place
    assert (found.part, found.sentence) == (part, sentence or found.sentence)
    assert found.dump() == f"does not take place at 7: {found.sentence}\n  because of {part}"


def test_what_failed_is_told_for_the_value_that_gets_furthest() -> None:
    found = why_not(*of_corpus("LAST_B-landed-at-A-before"), 3)
    assert found.sentence == "after EB(I) at 1, before(LA(I)) does take place at 3, with 2, 3 (I = 1)"
    found = why_not(*of_corpus("complete"), 2)
    assert found.sentence == "no order(I, Q) took place before 2 (I = 33)"
    found = why_not(*of_corpus("AT_A-declared-again"), 3)
    assert found.sentence == "after EA(I) at 1, happened(LA(I)) does take place at 3, with 2, 3 (I = 1)"
    found = why_not(*of_text("!prior(K(X, _), K(X, _))", "K(1, 0)@1 K(2, 0)@2 K(1, 1)@7"), 7)
    assert found.sentence == "prior(K(X, _), K(X, _)) does take place at 7, with 1, 7"


def test_filters_are_named_with_what_they_saw() -> None:
    match, history = of_text("prior(K(X, Y), A)", "K(1, 5)@1 K(2, 6)@2 A7", "WHERE Y > 10", "X INT")
    found = why_not(match, history, 7)
    assert found.sentence == (
        "it takes place at 7, but WHERE Y > 10 filtered all 2 tuples; the latest has 2, 7, with Y = 6"
    )
    assert found.part == "WHERE Y > 10"
    match, history = of_text("prior(A, B)", "A1 B7", "WITHIN 5s")
    found = why_not(match, history, 7)
    assert found.sentence == "it takes place at 7, but WITHIN 5s filtered its only tuple; it has 1, 7"
    assert why_not(match, history, 1).sentence == "no A took place before 1"


def test_an_event_outside_of_the_history_is_said_to_be() -> None:
    match, history = of_text("sequence(K, K)", "K(1, 0)@1 B3", "OVER (A, K)")
    assert why_not(match, history, 3).sentence == "the event at 3 is of class B, which OVER (A, K) leaves out"
    assert why_not(match, history, 9).sentence == "there is no event 9"
    match, history = of_text("sequence(K, K)", "K(1, 0)@1 B3", "PARTITION BY k")
    assert why_not(match, history, 3).sentence == "the event at 3 is of class B, which has no k to partition by"
    withdrawn = batch([Event(1, "A", {}, None, 0)])
    said = why_not(Primitive("A"), withdrawn, 1).sentence
    assert said == "the event 1 is a withdrawal, and those are in no history"


def test_what_does_take_place_is_said_to() -> None:
    found = why_not(*of_text("prior(A, B)", "A1 B7"), 7)
    assert found.took_place
    assert found.dump() == "it does take place at 7"


# ---- every occurrence, every event ---------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_corpus_is_told(case: Case) -> None:
    match, history, events = asked(case)
    told = [
        (seq, list(found)) for seq, found in zip(case["takes_place_at"], case.get("constituents", []), strict=False)
    ]
    for seq, constituents in told:
        assert why(match, history, seq, constituents).constituents == constituents
    for event in events:
        found = why_not(match, history, event.seq)
        assert found.took_place == (event.seq in case["takes_place_at"])
        assert found.part
        assert found.sentence


def wanted(seed: int) -> Wanted:
    # Which leaves one event of a value can satisfy at once symbols do not know: prefix would hope in vain.
    return Wanted(depth=3, attributes=seed % 2 == 1, prefix=seed % 2 == 0)


def asked_at_random(seed: int) -> tuple[MatchPlan, tuple[Event, ...]]:
    expression, history = pair(seed, wanted(seed))
    partition_by = ("k",) if seed % 11 == 0 else ()
    return plan(expression, list(Choice)[seed % 3], partition_by=partition_by), history


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_every_occurrence_has_its_constituents_and_each_of_them_a_part(first: int) -> None:
    compared = 0
    for seed in range(first, first + 250):
        match, history = asked_at_random(seed)
        for occurrence in detect(match, history):
            try:
                told = why(match, batch(history), occurrence.seq, occurrence.constituents, occurrence.values)
            except UNSUPPORTED:
                break
            compared += 1
            assert tuple(told.constituents) == occurrence.constituents, seed
            bound = {name: constant.value for name, constant in told.values}
            assert {name: bound.get(name) for name in occurrence.values} == occurrence.values, seed
            for one in told.events:
                assert one.parts, seed
                assert one.seq == told.seq or THE_PLACE not in one.parts, seed
    assert compared > 150


@pytest.mark.parametrize("first", range(0, 500, 250))
def test_every_event_has_an_answer(first: int) -> None:
    answered = 0
    for seed in range(first, first + 250):
        match, history = asked_at_random(seed)
        places = {o.seq: o for o in reversed(detect(match, history))}
        for event in history:
            try:
                found = why_not(match, batch(history), event.seq)
            except UNSUPPORTED:
                break
            answered += 1
            assert found.took_place == (event.seq in places), seed
            assert found.part, seed
            assert found.sentence, seed
            if found.took_place:
                with suppress(*UNSUPPORTED):
                    assert tuple(why(match, batch(history), event.seq).constituents) == places[event.seq].constituents
    assert answered > 800


# ---- expressions on one line ---------------------------------------------------------------------


def test_an_expression_on_one_line_reads_back() -> None:
    declared = "".join(
        f"CREATE IMMUTABLE SUBSCRIBED EVENT CLASS {c.name} ({', '.join(f'{a.name} {a.type}' for a in c.attributes)}) "
        "ID () LIFESPAN (1d);\n"
        for c in CLASSES
    )
    for seed in range(300):
        expression, _ = pair(seed, Wanted(exists=seed % 2 == 0, attributes=seed % 3 == 0))
        if any(_is_blank(node) for node in walk(expression)):
            continue
        found = compile(f"{declared}CREATE COMPLEX EVENT CLASS T () ID () AS MATCH {inline(expression)};")
        match = found.class_plan("T")
        assert match is not None
        assert isinstance(match.derivation, MatchPlan)
        assert _flat(match.derivation.expression) == _flat(expression), seed


def _flat(node: Expression) -> object:
    """A tree without what text leaves out: AND in AND and OR in OR are one, and variables are bound unsaid."""
    match node:
        case Some(operand=operand):
            return _flat(operand)
        case Nth() | Exists() | Equate():
            return type(node), getattr(node, "count", None), getattr(node, "variable", None), _flat(node.operand)
        case Apply(operator=MatchOperator.AND | MatchOperator.OR as operator):
            sides = [_flat(operand) for operand in node.operands]
            joined = [side if isinstance(side, list) and side[0] == operator else [operator, side] for side in sides]
            return [operator, *(one for side in joined for one in side[1:])]
        case Apply(operator=operator, operands=operands):
            return operator, *map(_flat, operands)
        case _:
            return node


def _is_blank(node: Expression) -> bool:
    """Whether arguments that demand nothing are not written."""
    return isinstance(node, Primitive) and bool(node.bindings) and all(isinstance(b, Anything) for b in node.bindings)


def test_positions_need_no_plan() -> None:
    variable = Variable("X", INT)
    expression = Some((variable,), Primitive("K", (variable, Anything())))
    history = [Event(1, "A", {}, 0, 0), Event(2, "K", {"k": 1, "v": None}, 0, 0)]
    answers = [why_not(expression, batch(history), event.seq).took_place for event in history]
    assert answers == [False, True]
    assert positions(expression, history) == (2,)


def test_a_place_that_the_clock_completed_has_no_seq() -> None:
    program = compile(
        """
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Order (item INT) ID () LIFESPAN (7d);
        CREATE IMMUTABLE SUBSCRIBED EVENT CLASS Delivery (item INT) ID () LIFESPAN (7d);
        CREATE COMPLEX EVENT CLASS Late (I INT) ID () AS COMPOSITE Order(I) > !Delivery(I) WITHIN 5s CONTEXT CHRONICLE;
        CREATE COMPLEX EVENT CLASS Twice (I INT) ID () AS MATCH prior(Late(I), Late(I));
        """
    )
    posted = [("Order", 1, 1), ("Order", 1, 2), ("Order", 2, 2), ("Delivery", 2, 30)]
    detected = program.detect([{"event": name, "item": item, "occ_time": time} for name, item, time in posted])
    (twice,) = detected.of("Twice")
    assert twice.seq is None
    told = program.why(twice)
    assert told.seq is None
    assert told.constituents == [1, 2]
    assert [(one.seq, one.parts) for one in told.events] == [(0, ("Late(I)",)), (0, ("Late(I)",))]
